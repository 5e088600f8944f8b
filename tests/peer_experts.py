#!/usr/bin/env python3
"""Trains mixtures of experts with transformers and with memwall, from the same weights on the same
tokens in fp32, and compares the losses and the gradients' norms of every step.

    PYTHON-WITH-TORCH tests/peer_experts.py build/cli/memwall [--record] [--steps N]

No part of the build or of the tests, which read what --record writes: the losses and norms of
transformers, from the weights that memwall starts with.  Each way is tried: memwall starts from
weights that transformers wrote (--weights), and transformers from those that memwall saved.  AdamW
is PyTorch's, with memwall's numbers: matrices decay, and gradients are clipped to norm 1.  In the
end memwall's saved weights are loaded by transformers and compared with those that it trained.

A case with "router" has losses of its routers, a mean over its layers: of each layer
load_balancing_loss_func and Switch Transformers' router_z_loss_func, with these coefficients.  With
one layer that is the aux_loss of transformers' model, which takes the tokens of all layers as one;
the losses of Qwen2-MoE and of Switch Transformers, each of its own code, must be the same.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.models.mixtral import modeling_mixtral as mixtral  # noqa: E402
from transformers.models.qwen2_moe import modeling_qwen2_moe as qwen2_moe  # noqa: E402
from transformers.models.qwen3_moe import modeling_qwen3_moe as qwen3_moe  # noqa: E402
from transformers.models.switch_transformers import (  # noqa: E402
    modeling_switch_transformers as switch)

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests/fixtures/experts"
TEXT = ROOT / "data/psalms-proverbs.txt"
SEQUENCES, TOKENS, LR = 4, 32, 1e-3


def classes(config):
    kind = {"mixtral": "Mixtral", "qwen3_moe": "Qwen3Moe"}[config["model_type"]]
    return getattr(transformers, f"{kind}Config"), getattr(transformers, f"{kind}ForCausalLM")


def make(config):
    """Scores of a few deviations, so that few tokens have experts that are nearly as probable."""
    torch.manual_seed(7)
    settings, model = classes(config)
    its = settings(**{key: value for key, value in config.items() if key != "model_type"})
    its._attn_implementation = "eager"
    made = model(its).float()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith(".gate.weight"):
                parameter.mul_(20)
    return made


def load(config, folder):
    model = classes(config)[1].from_pretrained(folder, dtype=torch.float32,
                                               attn_implementation="eager")
    return model.train()


def batches(steps):
    text = torch.tensor(list(TEXT.read_bytes()), dtype=torch.long)
    for step in range(steps):
        begins = [(step * SEQUENCES + s) * TOKENS for s in range(SEQUENCES)]
        yield (torch.stack([text[b:b + TOKENS] for b in begins]),
               torch.stack([text[b + 1:b + TOKENS + 1] for b in begins]))


def balance_losses(logits, experts, visits):
    """Of one layer's tokens, by the code of each model that has one."""
    losses = [of.load_balancing_loss_func((logits,), experts, visits)
              for of in (mixtral, qwen2_moe, qwen3_moe)]
    if visits == 1:
        probabilities = logits.softmax(-1)
        losses.append(switch.load_balancing_loss_func(probabilities[None],
                                                      probabilities.argmax(-1)[None]))
    return losses


def router_losses(made, config):
    """Balance and z of the routers, means over layers."""
    experts = config.get("num_local_experts", config.get("num_experts"))
    each = [balance_losses(layer, experts, config["num_experts_per_tok"])
            for layer in made.router_logits]
    z = [switch.router_z_loss_func(layer[None]) for layer in made.router_logits]
    same = [*(float(loss.detach()) for layer in each for loss in layer)]
    if len(each) == 1:
        same.append(float(made.aux_loss.detach()))
        assert max(same) / min(same) - 1 < 1e-5, f"transformers' own losses differ: {same}"
    for layer in each:
        of_layer = [float(loss.detach()) for loss in layer]
        assert max(of_layer) / min(of_layer) - 1 < 1e-5, f"transformers' differ: {of_layer}"
    return sum(layer[0] for layer in each) / len(each), sum(z) / len(z)


def train(model, steps, case):
    """The loss and the gradient's norm of each step, and its routers' losses, if it has some."""
    router = case.get("router")
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == decays],
               "weight_decay": 0.1 if decays else 0.0} for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8)
    for ids, targets in batches(steps):
        made = model(input_ids=ids, output_router_logits=router is not None)
        loss = torch.nn.functional.cross_entropy(made.logits.flatten(0, 1), targets.flatten())
        losses = router_losses(made, case["config"]) if router else ()
        optimizer.zero_grad()
        (loss + sum(a * b for a, b in zip((router or {}).values(), losses))).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield (float(loss.detach()), float(norm), *(float(one.detach()) for one in losses))


def run(memwall, folder, steps, *options, rate=LR):
    subprocess.run([memwall, "run", "-m", "config.json", "-H", "rtx4090", "-s", "ddp", "--backend",
                    "cpu", "--dtype", "fp32", "--data", str(TEXT), "--batch", str(SEQUENCES),
                    "--seq", str(TOKENS), "--steps", str(steps), "--lr", str(rate), "--log", "log",
                    "--overwrite", *options], cwd=folder, stdout=subprocess.DEVNULL, check=True,
                   env={**os.environ, "HOME": str(folder)})
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    keys = ("loss", "gradient_norm", "router_aux_loss", "router_z_loss")
    return [tuple(line[key] for key in keys if key in line) for line in lines]


def difference(ours, theirs):
    return max(abs(a / b - 1) for own, other in zip(ours, theirs, strict=True)
               for a, b in zip(own, other, strict=True))


def options_of(case):
    return [f"--router-{name}-loss-coef={value}" for name, value in case.get("router", {}).items()]


def compare(memwall, name, case, steps):
    """What transformers made from memwall's start, and whether all is alike."""
    config, options = case["config"], options_of(case)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "config.json").write_text(json.dumps(config))
        make(config).save_pretrained(folder / "given")
        given = load(config, folder / "given")
        theirs = list(train(given, steps, case))
        off = difference(run(memwall, folder, steps, "--weights", "given", "--save", "after",
                             *options), theirs)
        after = load(config, folder / "after")
        run(memwall, folder, 1, "--save", "start", rate=1e-12)
        recorded = list(train(load(config, folder / "start"), steps, case))
        off_start = difference(run(memwall, folder, steps, *options), recorded)
    with torch.no_grad():
        apart = max(float((a - b).norm() / b.norm())
                    for a, b in zip(after.parameters(), given.parameters()))
    print(f"{name:16} loss {theirs[0][0]:.6f} to {theirs[-1][0]:.6f}: losses and norms at most "
          f"{off:.1e} off, weights {apart:.1e}; from memwall's start {off_start:.1e}", flush=True)
    return recorded, max(off, off_start) < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memwall", type=pathlib.Path)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", help="cases whose name has this")
    parser.add_argument("--steps", type=int, default=24)
    asked = parser.parse_args()
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    good = True
    print(f"{versions}, {asked.steps} steps of {SEQUENCES} sequences of {TOKENS} tokens")
    for path in sorted(RECORDED.glob(f"*{asked.only or ''}*.json")):
        case = json.loads(path.read_text())
        steps, alike = compare(str(asked.memwall.resolve()), path.stem, case, asked.steps)
        good &= alike
        if asked.record:
            lines = ",\n  ".join(json.dumps(step) for step in steps)
            router = f' "router": {json.dumps(case["router"])},\n' if "router" in case else ""
            path.write_text(f'{{"config": {json.dumps(case["config"])},\n{router}'
                            f' "by": "{versions}",\n'
                            f' "loss_and_norm": [\n  {lines}]}}\n')
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
