#!/usr/bin/env python3
"""Trains mixtures of experts with transformers and with memwall, from the same weights on the same
tokens in fp32, and compares the losses and the gradients' norms of every step.

    PYTHON-WITH-TORCH tests/peer_experts.py build/cli/memwall [STEPS]

No part of the build or of the tests.  A model is made by transformers, which writes its weights as
its checkpoints have them; `memwall run --weights` starts from these.  AdamW is PyTorch's, with
memwall's numbers: matrices decay, and gradients are clipped to norm 1.  In the end memwall's saved
weights are loaded by transformers and compared with those that it trained.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "data/psalms-proverbs.txt"
SEQUENCES, TOKENS, LR = 4, 32, 1e-3
DIMENSIONS = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
              "vocab_size": 256, "tie_word_embeddings": False}
QWEN3 = {"head_dim": 16, "moe_intermediate_size": 48, "decoder_sparse_step": 1,
         "mlp_only_layers": []}
CASES = {
    "mixtral, top 2 of 4": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "mixtral, top 3 of 8": ("Mixtral", {"num_local_experts": 8, "num_experts_per_tok": 3}),
    "qwen3_moe, top 1 of 8, as Switch": ("Qwen3Moe", QWEN3 | {
        "num_experts": 8, "num_experts_per_tok": 1, "norm_topk_prob": False}),
    "qwen3_moe, top 4 of 16": ("Qwen3Moe", QWEN3 | {
        "num_experts": 16, "num_experts_per_tok": 4, "norm_topk_prob": True}),
}


def make(kind, changes):
    """Scores of a few deviations, so that few tokens have experts that are nearly as probable."""
    torch.manual_seed(7)
    config = getattr(transformers, f"{kind}Config")(**DIMENSIONS, **changes)
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{kind}ForCausalLM")(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".gate.weight"):
                parameter.mul_(20)
    return model.train()


def batches(steps):
    text = torch.tensor(list(TEXT.read_bytes()), dtype=torch.long)
    for step in range(steps):
        begins = [(step * SEQUENCES + s) * TOKENS for s in range(SEQUENCES)]
        yield (torch.stack([text[b:b + TOKENS] for b in begins]),
               torch.stack([text[b + 1:b + TOKENS + 1] for b in begins]))


def train(model, steps):
    """The loss and the gradient's norm of each step."""
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == decays],
               "weight_decay": 0.1 if decays else 0.0} for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8)
    for ids, targets in batches(steps):
        logits = model(input_ids=ids).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield float(loss.detach()), float(norm)


def run(memwall, folder, steps):
    subprocess.run([memwall, "run", "-m", "model/config.json", "--weights", "model", "-H",
                    "rtx4090", "-s", "ddp", "--backend", "cpu", "--dtype", "fp32", "--data",
                    str(TEXT), "--batch", str(SEQUENCES), "--seq", str(TOKENS), "--steps",
                    str(steps), "--lr", str(LR), "--log", "log", "--save", "saved"], cwd=folder,
                   stdout=subprocess.DEVNULL, check=True, env={**os.environ, "HOME": str(folder)})
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    return [(line["loss"], line["gradient_norm"]) for line in lines]


def compare(memwall, name, steps):
    kind, changes = CASES[name]
    model = make(kind, changes)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        model.save_pretrained(folder / "model")
        theirs, ours = list(train(model, steps)), run(memwall, folder, steps)
        saved = type(model).from_pretrained(folder / "saved", dtype=torch.float32)
    off = max(abs(ours[i][k] / theirs[i][k] - 1) for i in range(steps) for k in range(2))
    with torch.no_grad():
        apart = max(float((a - b).norm() / b.norm())
                    for a, b in zip(saved.parameters(), model.parameters()))
    print(f"{name:34} loss {theirs[0][0]:.6f} to {theirs[-1][0]:.6f} (ours {ours[-1][0]:.6f}); "
          f"losses and norms at most {off:.1e} off, weights {apart:.1e}", flush=True)
    return len(ours) == steps and off < 1e-3


def main():
    memwall = str(pathlib.Path(sys.argv[1]).resolve())
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 24
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {steps} steps of "
          f"{SEQUENCES} sequences of {TOKENS} tokens")
    good = [compare(memwall, name, steps) for name in CASES]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
