#!/usr/bin/env python3
"""Writes tests/fixtures/{gpt2-small,llama-small}/optimizers.json: what PyTorch trains.

    python3 -m venv ENV && ENV/bin/pip install torch transformers
    ENV/bin/python scripts/make-optimizer-fixtures.py

Needed only to make the fixtures anew: tests read the files alone.  The weights are those of the
folder, the tokens those of its lora/text.txt.  For each optimizer the losses of 50 steps in fp64,
with the gradient clipped to 1 and a decay of 0.1 of matrices: PyTorch's SGD and AdamW; Lion as its
paper has it (arXiv 2302.06675, Algorithm 2); SM3 likewise (arXiv 1901.11150, Algorithm 2, SM3-II)
with its authors' momentum and AdamW's decay; transformers' Adafactor with a fixed rate, and with
its clipping of updates.  Moments in 16 bits are AdamW's, rounded to bf16 after each step.  Moments
in 8 bits are quantized after each step in blocks of 2048 of a parameter's elements, to the values
of arXiv 2110.02861, Sec. 2.
"""
import json
import os

import torch
from transformers import AutoModelForCausalLM
from transformers.optimization import Adafactor

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "fixtures")
BATCH, SEQ, STEPS = 2, 16, 50
BLOCK = 2048
DECAY, CLIP = 0.1, 1.0
RATES = {"adamw": 2e-3, "adamw-16bit": 2e-3, "adamw-8bit": 2e-3, "sgd": 0.1, "sgd-momentum": 0.02,
         "lion": 2e-4, "sm3": 0.02, "adafactor": 2e-3}


def base(name):
    return AutoModelForCausalLM.from_pretrained(os.path.join(FOLDER, name), dtype=torch.float64,
                                                attn_implementation="eager").eval()


def batches(name):
    with open(os.path.join(FOLDER, name, "lora/text.txt"), encoding="utf-8") as file:
        tokens = torch.tensor(list(file.read().encode()))
    for step in range(STEPS):
        at = [(step * BATCH + b) * SEQ for b in range(BATCH)]
        yield (torch.stack([tokens[i:i + SEQ] for i in at]),
               torch.stack([tokens[i + 1:i + SEQ + 1] for i in at]))


class Lion(torch.optim.Optimizer):
    def __init__(self, groups, lr, betas=(0.9, 0.99)):
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                m = state.setdefault("exp_avg", torch.zeros_like(p))
                direction = (beta1 * m + (1 - beta1) * p.grad).sign()
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * direction)
                m.mul_(beta2).add_((1 - beta2) * p.grad)


class SM3(torch.optim.Optimizer):
    def __init__(self, groups, lr, momentum=0.9):
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                self.update(p, self.state[p], group)

    @staticmethod
    def update(p, state, group):
        sides = state.setdefault("accumulators", [
            torch.zeros([size if i == axis else 1 for i, size in enumerate(p.shape)], dtype=p.dtype)
            for axis in range(p.dim())])
        nu = p.grad ** 2 + (torch.minimum(*sides) if p.dim() > 1 else sides[0])
        for axis, side in enumerate(sides):
            others = [i for i in range(p.dim()) if i != axis]
            side.copy_(nu.amax(others, keepdim=True) if others else nu)
        direction = torch.where(nu > 0, p.grad / nu.sqrt(), 0.0)
        m = state.setdefault("momentum", torch.zeros_like(p))
        m.mul_(group["momentum"]).add_((1 - group["momentum"]) * direction)
        p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * m)


def values_of_8_bits(squares):
    """Of each power of ten as many values as the bits have room for, and 0 and 1."""
    values = [0.0, 1.0]
    for power in range(7):
        parts = 2 ** (power + squares)
        for i in range(parts):
            middle = (0.1 + 0.9 * (i + 0.5) / parts) * 10.0 ** (power - 6)
            values += [middle] if squares else [middle, -middle]
    return torch.tensor(sorted(values), dtype=torch.float64)


VALUES = {"exp_avg": values_of_8_bits(False), "exp_avg_sq": values_of_8_bits(True)}


def quantize(moment, values):
    flat = moment.flatten()
    for block in flat.split(BLOCK):
        largest = block[block.abs().argmax()]
        if largest == 0:
            continue
        scaled = block / largest
        above = torch.searchsorted(values, scaled).clamp(1, len(values) - 1)
        low, high = values[above - 1], values[above]
        block.copy_(torch.where(scaled - low <= high - scaled, low, high) * largest)
    moment.copy_(flat.view_as(moment))


def round_moments(optimizer, name):
    for state in optimizer.state.values():
        for moment, values in VALUES.items():
            if name == "adamw-16bit":
                state[moment].copy_(state[moment].float().bfloat16())
            elif name == "adamw-8bit":
                quantize(state[moment], values)


def make_optimizer(name, model):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
    if name.startswith("adamw"):
        return torch.optim.AdamW(groups, lr=RATES[name], betas=(0.9, 0.95), eps=1e-8)
    if name == "lion":
        return Lion(groups, RATES[name])
    if name == "sm3":
        return SM3(groups, RATES[name])
    if name == "adafactor":
        return Adafactor(groups, lr=RATES[name], clip_threshold=1.0, scale_parameter=False,
                         relative_step=False)
    return torch.optim.SGD(groups, lr=RATES[name], momentum=0.9 if "momentum" in name else 0)


def train(name, model_name):
    model = base(model_name)
    optimizer, losses = make_optimizer(name, model), []
    for inputs, targets in batches(model_name):
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        losses.append(loss.item())
        optimizer.step()
        round_moments(optimizer, name)
    return losses


def main():
    for model_name in ("gpt2-small", "llama-small"):
        rows = {}
        for name, rate in RATES.items():
            losses = train(name, model_name)
            rows[name] = {"lr": rate, "losses": losses}
            print(f"{model_name} {name}: loss {losses[0]:.6f} .. {losses[-1]:.6f}")
        path = os.path.join(FOLDER, model_name, "optimizers.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
