#!/usr/bin/env python3
"""Writes fixtures of Hugging Face models: config.json as transformers writes it, and how many
parameters its class then has; of some types also the FLOPs that PyTorch's counter finds in
forward.  No part of the build or of the tests: they read what it wrote.

    python3 -m venv FOLDER && FOLDER/bin/pip install torch transformers
    FOLDER/bin/python tests/peer_transformers.py [--check build/cli/memwall] [TYPE...]

A model is built on the meta device, which has shapes and no memory.  Each row below is a model
type, a class, and what differs from the defaults of its configuration; dimensions are small, so
that a wrong term shows, and no two are alike.  With --check nothing is written: memwall counts the
same configurations, and what differs is printed.
"""
import argparse
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402

from peer_transformers_models import COUNTED, MODELS  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "fixtures" / "models"
SEQUENCES, TOKENS = 2, 32


def count_flops(model, pair):
    """Of forward with plain attention, but for the angles of rotary positions, which are products
    here and elementwise in every kernel."""
    ids = torch.zeros((SEQUENCES, TOKENS), dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter:
        model.eval()(input_ids=ids, **({"decoder_input_ids": ids} if pair else {}))
    rotary = sum(sum(flops.values()) for name, flops in counter.get_flop_counts().items()
                 if name.split(".")[-1].startswith("rotary"))
    return counter.get_total_flops() - rotary


def build(kind, name, changes):
    """The configuration as written, the number of parameters, and FLOPs of forward or None."""
    config = CONFIG_MAPPING[kind](**copy.deepcopy(changes))
    config._attn_implementation = "eager"
    config._experts_implementation = "batched_mm"
    with torch.device("meta"):
        model = getattr(transformers, name)(config)
    config = model.config
    config.architectures = [name]
    text = json.loads(config.to_json_string(use_diff=True))
    text.pop("transformers_version", None)
    params = sum(parameter.numel() for parameter in model.parameters())
    pair = name.endswith(("ForConditionalGeneration", "MTModel")) and kind != "whisper"
    counts = kind in COUNTED and (pair or name.endswith(("ForCausalLM", "LMHeadModel",
                                                         "ForMaskedLM")))
    return text, params, count_flops(model, pair) if counts else None


def counted(memwall, text):
    """What memwall counts, or why it does not."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(text, file)
        done = subprocess.run([memwall, "list", "models", path, "--json"], capture_output=True,
                              text=True, check=False)
    if done.returncode:
        return done.stderr.strip()
    return json.loads(done.stdout)["params"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", metavar="MEMWALL")
    parser.add_argument("types", nargs="*")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    wrong = 0
    for kind, variant, name, changes in MODELS:
        if options.types and kind not in options.types:
            continue
        try:
            text, params, flops = build(kind, name, changes)
        except Exception as error:  # the version at hand lacks it, or wants other keys
            print(f"{kind}-{variant}: {type(error).__name__}: {error}"[:200])
            wrong += 1
            continue
        if options.check:
            got = counted(options.check, text)
            if got != params:
                print(f"{kind}-{variant}: {got}, transformers {params}"
                      + (f" ({got - params:+d})" if isinstance(got, int) else ""))
                wrong += 1
            continue
        with open(FOLDER / f"{kind}-{variant}.json", "w", encoding="utf-8") as file:
            config = json.dumps(text, sort_keys=True)
            file.write(f'{{"config": {config},\n "params": {params}'
                       + (f',\n "flops": {flops}' if flops is not None else "") + "}\n")
    print(f"{wrong} wrong of {len(MODELS)}; transformers {transformers.__version__}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
