#!/usr/bin/env python3
"""Writes tests/fixtures/{gpt2-small,llama-small}/lora and llama-small/lora-some: what PEFT trains
on their weights, adapters of all products of layers and of some.

    python3 -m venv ENV && ENV/bin/pip install torch transformers peft safetensors
    ENV/bin/python scripts/make-lora-fixtures.py [--only MODEL/FOLDER] [--reads FOLDER MODEL]

Needed only to make the fixtures anew: tests read the files alone.  Each folder has
  adapter_config.json, adapter_model.safetensors   as PEFT writes them; B is not zero
  text.txt        the tokens, one per byte
  expected.json   of training on them in fp64: losses and norms of the gradient before it is clipped
                  to 1; AdamW with lr 1e-2, betas 0.9 and 0.95, eps 1e-8, 0.1 decay
With --reads it says whether PEFT reads the adapters in FOLDER, and the loss on its own text of the
model of that name with them.
"""
import argparse
import json
import os
import random
import shutil

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "fixtures")
BATCH, SEQ, STEPS = 2, 16, 50
TARGETS = {"gpt2-small/lora": ["c_attn", "attn.c_proj", "c_fc", "mlp.c_proj"],
           "llama-small/lora": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                "down_proj"],
           "llama-small/lora-some": ["q_proj", "v_proj", "up_proj"]}
RANK, ALPHA = 4, 6


def base(name):
    return AutoModelForCausalLM.from_pretrained(os.path.join(FOLDER, name), dtype=torch.float64,
                                                attn_implementation="eager")


def make_text(seed):
    """Something to learn: most often a letter follows the one before it."""
    rng = random.Random(seed)
    text, letters = "a", "abcdefghijklmnop"
    while len(text) <= STEPS * BATCH * SEQ:
        after = letters[(letters.index(text[-1]) + 1) % len(letters)]
        text += after if rng.random() < 0.75 else rng.choice(letters)
    return text


def batches(text):
    tokens = torch.tensor(list(text.encode()))
    for step in range(STEPS):
        at = [(step * BATCH + b) * SEQ for b in range(BATCH)]
        yield (torch.stack([tokens[i:i + SEQ] for i in at]),
               torch.stack([tokens[i + 1:i + SEQ + 1] for i in at]))


def loss_of(model, inputs, targets):
    logits = model(input_ids=inputs, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]),
                                             targets.reshape(-1))


def train(model, text):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1)
    losses, norms = [], []
    for inputs, targets in batches(text):
        loss = loss_of(model, inputs, targets)
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, 1.0).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms


def write(folder, seed):
    name = folder.split("/", maxsplit=1)[0]
    torch.manual_seed(seed)
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=TARGETS[folder],
                        task_type="CAUSAL_LM", fan_in_fan_out=name.startswith("gpt2"))
    model = get_peft_model(base(name), config).double()
    for parameter_name, parameter in model.named_parameters():
        if "lora_B" in parameter_name:
            torch.nn.init.normal_(parameter, std=0.05)
        if "lora_" in parameter_name:
            parameter.data = parameter.data.float().double()
    path = os.path.join(FOLDER, folder)
    shutil.rmtree(path, ignore_errors=True)
    model.float().save_pretrained(path)
    model.double()
    os.remove(os.path.join(path, "README.md"))
    with open(os.path.join(path, "adapter_config.json"), encoding="utf-8") as file:
        said = json.load(file)
    said["base_model_name_or_path"] = None
    with open(os.path.join(path, "adapter_config.json"), "w", encoding="utf-8") as file:
        json.dump(said, file, indent=2, sort_keys=True)
        file.write("\n")
    text = make_text(seed)
    with open(os.path.join(path, "text.txt"), "w", encoding="utf-8") as file:
        file.write(text)
    losses, norms = train(model.eval(), text)
    with open(os.path.join(path, "expected.json"), "w", encoding="utf-8") as file:
        json.dump({"losses": losses, "norms": norms}, file, indent=1)
        file.write("\n")
    print(f"{folder}: loss {losses[0]:.6f} .. {losses[-1]:.6f}")


def read(folder, name):
    model = PeftModel.from_pretrained(base(name), folder).double().eval()
    with open(os.path.join(FOLDER, name, "lora", "text.txt"), encoding="utf-8") as file:
        inputs, targets = next(iter(batches(file.read())))
    print(f"{folder}: read; loss of the first batch {loss_of(model, inputs, targets).item():.6f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--reads", nargs=2, metavar=("FOLDER", "MODEL"))
    parser.add_argument("--only", choices=TARGETS, metavar="MODEL/FOLDER")
    options = parser.parse_args()
    if options.reads:
        read(*options.reads)
        return
    for seed, folder in enumerate(TARGETS):
        if options.only in (None, folder):
            write(folder, 2000 + seed)


if __name__ == "__main__":
    main()
