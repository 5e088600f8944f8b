#!/usr/bin/env python3
"""Writes descriptions of models as memwall.describe makes them.  No part of the build or of the
tests: they read what it wrote.

    python3 -m venv FOLDER && FOLDER/bin/pip install torch transformers
    MEMWALL_LIBRARY=build/lib/libmemwall.so FOLDER/bin/python tests/peer_describe.py [TYPE...]

With --check MEMWALL it describes every fixture of peer_transformers.py instead (or those named),
and prints where parameters or FLOPs differ from memwall's own reading of the same config.json.
"""
import argparse
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE)]

from memwall import describe  # noqa: E402

SMALL = {"vocab_size": 1009, "hidden_size": 96, "num_hidden_layers": 5, "num_attention_heads": 6,
         "intermediate_size": 200}
GROUPED = {**SMALL, "num_key_value_heads": 2, "max_position_embeddings": 512}
AUDIO = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6,
         "intermediate_size": 200, "conv_dim": [32] * 7, "num_conv_pos_embeddings": 16,
         "num_conv_pos_embedding_groups": 4}
KIMI = {**SMALL, "num_key_value_heads": 6, "kv_lora_rank": 28, "q_lora_rank": None,
        "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 20, "num_experts": 4,
        "moe_intermediate_size": 56, "num_experts_per_token": 2,
        "pad_token_id": 0, "num_expert_group": 1}

MODELS = [
    ("llama", "grouped", {**GROUPED, "tie_word_embeddings": True}),
    ("gpt2", "tied", {"vocab_size": 1009, "n_embd": 96, "n_layer": 5, "n_head": 6,
                      "n_positions": 512}),
    ("mixtral", "experts", {**GROUPED, "num_local_experts": 5, "sliding_window": 64}),
    ("gemma3_text", "windows", {**GROUPED, "head_dim": 24, "sliding_window": 64}),
    ("t5", "pair", {"vocab_size": 1009, "d_model": 96, "d_kv": 20, "d_ff": 200, "num_layers": 4,
                    "num_decoder_layers": 3, "num_heads": 6}),
    ("albert", "shared", {**SMALL, "embedding_size": 40}),
    ("zamba2", "shared", {**GROUPED, "num_hidden_layers": 6, "mamba_d_state": 16,
                          "n_mamba_heads": 12, "mamba_headdim": 16,
                          "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "mamba",
                                                "mamba"]}),
    ("kimi_linear", "latent", KIMI),
    ("mamba2", "scan", {"vocab_size": 1009, "hidden_size": 96, "num_hidden_layers": 5,
                        "num_heads": 12, "head_dim": 16, "state_size": 20, "n_groups": 2,
                        "chunk_size": 64}),
    ("swin", "stages", {"embed_dim": 24, "depths": [2, 3], "num_heads": [2, 4], "image_size": 56,
                        "window_size": 7}),
    ("segformer", "stages", {"image_size": 64}),
    ("resnet", "convolutions", {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [2, 2]}),
    ("wav2vec2", "audio", AUDIO),
    ("hubert", "audio", AUDIO),
    ("clip", "towers", {"text_config": {**SMALL, "max_position_embeddings": 64},
                        "vision_config": {**SMALL, "image_size": 64, "patch_size": 16}}),
]


def say(model, name, seq=None):
    """A description, or why there is none."""
    refused = io.StringIO()
    try:
        with contextlib.redirect_stderr(refused):
            return describe.describe(model, name, seq), None
    except SystemExit:
        return None, refused.getvalue().strip()


def write(kinds):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    wrong = 0
    for kind, variant, changes in MODELS:
        if kinds and kind not in kinds:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                CONFIG_MAPPING[kind](**changes).save_pretrained(folder)
                made, why = say(folder, f"{kind}-{variant}")
            except Exception as error:  # the version at hand lacks it, or wants other keys
                made, why = None, f"{type(error).__name__}: {error}"[:200]
        if not made:
            print(f"{kind}-{variant}: {why}")
            wrong += 1
            continue
        path = HERE / "fixtures" / "described" / f"{kind}-{variant}.json"
        path.write_text(describe.text_of(made), encoding="utf-8")
    return wrong


def listed(memwall, path):
    """Parameters, forward FLOPs and length, or why it is not read."""
    done = subprocess.run([memwall, "list", "models", str(path), "--json"], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        return done.stderr.strip()
    said = json.loads(done.stdout)
    return said["params"], sum(row["forward_flops"] for row in said["operators"]), said["seq"]


def check(memwall, kinds):
    wrong = 0
    for path in sorted((HERE / "fixtures" / "models").glob("*.json")):
        if kinds and path.stem.rpartition("-")[0] not in kinds:
            continue
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder) / "config.json"
            config.write_text(json.dumps(json.loads(path.read_text("utf-8"))["config"]), "utf-8")
            made, why = say(folder, path.stem)
            if not made:
                print(f"{path.stem}: {why}")
                wrong += 1
                continue
            described = pathlib.Path(folder) / "described.json"
            described.write_text(describe.text_of(made), encoding="utf-8")
            own, other = listed(memwall, config), listed(memwall, described)
        layers = sum(times for _, times in made["pattern"])
        if isinstance(other, str) or own[0] != other[0] or \
                (own[2] == other[2] and abs(own[1] - other[1]) > 26 * layers):
            print(f"{path.stem}: own {own}, described {other}")
            wrong += 1
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", metavar="MEMWALL")
    parser.add_argument("types", nargs="*")
    options = parser.parse_args()
    wrong = check(options.check, options.types) if options.check else write(options.types)
    print(f"{wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.exit(main())
