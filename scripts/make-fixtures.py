#!/usr/bin/env python3
"""Writes tests/fixtures/{gpt2-small,llama-small}: what PyTorch computes for two small models.

    python3 -m venv ENV && ENV/bin/pip install torch transformers safetensors
    ENV/bin/python scripts/make-fixtures.py [--check]

Needed only to make the fixtures anew: tests read the files alone.  Each folder has
  config.json           as transformers writes it
  model.safetensors     BF16, random; norms and biases too
  expected.safetensors  inputs, targets [batch, seq] (I32); of the same weights in fp64, rounded to
                        F32: logits [batch, seq, vocab], loss [1] (mean over tokens), hidden.N (the
                        residual stream before layer N), grad.NAME of every parameter
  training.safetensors  inputs, targets [steps, batch, seq] (I32), and what training on them in fp64
                        gives (F32): losses, norms [steps], of the gradient before it is clipped to
                        1; AdamW with lr 1e-2, betas 0.9 and 0.95, eps 1e-8, 0.1 decay of matrices
--check computes everything again and compares with the files that are there.
"""
import argparse
import copy
import json
import os
import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "fixtures")
BATCH, SEQ, VOCAB = 2, 16, 256
STEPS = 20
TOLERANCE = 1e-5  # relative to the largest value: other builds of PyTorch sum in other orders


def gpt2():
    return GPT2LMHeadModel(GPT2Config(
        n_embd=32, n_layer=2, n_head=4, n_positions=24, vocab_size=VOCAB, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        attn_implementation="eager"))


def llama():
    return LlamaForCausalLM(LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=VOCAB, max_position_embeddings=24, rms_norm_eps=1e-5,
        tie_word_embeddings=False, bos_token_id=0, eos_token_id=0, attn_implementation="eager"))


def fill(model, generator):
    """Random values that bf16 holds exactly, in the order of the parameters' names."""
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
        if parameter.dim() == 2:
            value = 0.15 * noise
        elif name.endswith(".bias"):
            value = 0.1 * noise
        else:
            value = 1 + 0.1 * noise
        parameter.data = value.bfloat16().to(torch.float64)


def expect(model, generator):
    tokens = torch.randint(0, VOCAB, (BATCH, SEQ + 1), generator=generator)
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    out = model(input_ids=inputs, output_hidden_states=True, use_cache=False)
    loss = torch.nn.functional.cross_entropy(out.logits.reshape(-1, VOCAB), targets.reshape(-1))
    loss.backward()
    layers = len(out.hidden_states) - 1  # the last one is behind the final norm
    result = {"inputs": inputs.int(), "targets": targets.int(), "logits": out.logits.float(),
              "loss": loss.float().reshape(1)}
    result |= {f"hidden.{i}": out.hidden_states[i].float() for i in range(layers)}
    result |= {f"grad.{name}": p.grad.float() for name, p in model.named_parameters()}
    return {name: tensor.detach().contiguous() for name, tensor in result.items()}


def train(model, generator):
    tokens = torch.randint(0, VOCAB, (STEPS, BATCH, 1), generator=generator)
    for _ in range(SEQ):  # something to learn: most often the next token is three times this one
        chance = torch.rand(STEPS, BATCH, 1, generator=generator) < 0.75
        other = torch.randint(0, VOCAB, (STEPS, BATCH, 1), generator=generator)
        tokens = torch.cat([tokens, torch.where(chance, (3 * tokens[..., -1:] + 1) % VOCAB, other)],
                           dim=-1)
    inputs, targets = tokens[..., :-1], tokens[..., 1:]
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    losses, norms = [], []
    for step in range(STEPS):
        logits = model(input_ids=inputs[step], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB),
                                                 targets[step].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        losses.append(loss.item())
        optimizer.step()
    return {"inputs": inputs.int().contiguous(), "targets": targets.int().contiguous(),
            "losses": torch.tensor(losses, dtype=torch.float32),
            "norms": torch.tensor(norms, dtype=torch.float32)}


def weights(model):
    return {name: p.detach().bfloat16().contiguous() for name, p in model.named_parameters()}


def write_config(model, path):
    config = model.config.to_dict()
    for key in ("transformers_version", "_name_or_path", "dtype"):
        config.pop(key, None)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")


def differences(made, path):
    there = load_file(path)
    for name in sorted(made.keys() | there.keys()):
        if name not in made or name not in there:
            yield f"{path}: {name} is in one of them only"
        elif made[name].shape != there[name].shape or made[name].dtype != there[name].dtype:
            yield f"{path}: {name} has another shape or type"
        else:
            far = (made[name].double() - there[name].double()).abs().max().item()
            if far > TOLERANCE * made[name].double().abs().max().item():
                yield f"{path}: {name} differs by {far:g}"


def loads(model, path):
    """What stands in the folder is a checkpoint to transformers."""
    again = type(model).from_pretrained(path, dtype=torch.float64, attn_implementation="eager")
    for (name, a), (_, b) in zip(model.named_parameters(), again.named_parameters()):
        if not torch.equal(a, b):
            yield f"{path}: {name} does not load"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    wrong = []
    for seed, (name, make) in enumerate({"gpt2-small": gpt2, "llama-small": llama}.items()):
        path = os.path.join(FOLDER, name)
        generator = torch.Generator().manual_seed(1000 + seed)
        model = make().double().eval()
        fill(model, generator)
        files = {"model": weights(model), "expected": expect(model, generator),
                 "training": train(copy.deepcopy(model), generator)}
        os.makedirs(path, exist_ok=True)
        for file, tensors in files.items():
            file = os.path.join(path, f"{file}.safetensors")
            if check:
                wrong += differences(tensors, file)
            else:
                save_file(tensors, file, metadata={"format": "pt"})
        if not check:
            write_config(model, os.path.join(path, "config.json"))
        wrong += loads(model, path)
        with safe_open(os.path.join(path, "expected.safetensors"), "pt") as file:
            print(f"{name}: loss {file.get_tensor('loss').item():.6f}")
    for line in wrong:
        print(line, file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
