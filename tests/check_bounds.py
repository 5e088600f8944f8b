#!/usr/bin/python3
"""Every question is answered, or refused in one line, in bounded time and memory; prints TAP.

The ends of the range of every numeric option, of every numeric key of a profile and of every
dimension of a model are asked for, as the command itself names them where it refuses what is no
number.  A question has CPU_S of processor time and MEMORY_BYTES of addresses.

The command is $MEMWALL, or build/cli/memwall.
"""
import json
import pathlib
import re
import resource
import subprocess
import sys

from check_keys import PROFILE, numeric_keys
from command import FEW, MEMWALL, ROOT, SANITIZED, sample, sixth
from tap import report_in

OPTIONS = ROOT / "planner/settings/table.c"
KIND = "MW_SETTING_(?:INTEGER|WHOLE_COUNT|REAL|COUNT)"  # of numbers

MEMORY_BYTES = 1 << 30
CPU_S = 60  # of a slow machine with much else to do; most questions take a hundredth

DECODER = {"model_type": "llama", "num_hidden_layers": 24, "hidden_size": 2048,
           "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 8192,
           "vocab_size": 50257, "max_position_embeddings": 4096, "tie_word_embeddings": True}
DIMENSIONS = [key for key, value in DECODER.items() if type(value) is int]

# What makes much of a step beside the option that is at its end.
QUESTIONS = [
    "simulate -m gpt3-175b -H dgx2",
    "simulate -m gpt3-1.3b -H dgx2 -s zero-infinity-nvme --param-device nvme "
    "--optimizer-device nvme --activation-device nvme --batch 1 --what-if",
    "plan -m zi-20t -H dgx2 --nodes 32 --largest",
]
LISTS = ("matmul_dim", "matmul_tflops", "matmul_tflops_low", "matmul_tflops_high", "attention_dim",
         "attention_tflops", "attention_tflops_low", "attention_tflops_high", "tile_shares",
         "fp8_tile_shares", "matmul_forward_share", "matmul_input_share", "matmul_weight_share",
         "attention_forward_share", "attention_backward_share")
WORDS = ("flash_attention", "bf16", "architecture")


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    if not SANITIZED:  # which reserves more addresses than a limit could mean anything for
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def ask(words):
    return subprocess.run([str(MEMWALL), *words], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, preexec_fn=limit, check=False)


def judge(words):
    done = ask(words)
    said = done.stderr.decode(errors="replace")
    if done.returncode not in (0, 2, 3):
        yield f"{' '.join(words)}: status {done.returncode}: {said[-300:]}"
    elif done.returncode == 2 and (said.count("\n") != 1 or not said.startswith("memwall: ")):
        yield f"{' '.join(words)}: not one line: {said[-300:]}"


def ends(words):
    """The range that the command names where it is given none of it."""
    said = ask(words).stderr.decode(errors="replace")
    found = re.search(r"number(?: of sequences)? from (\S+) to ([0-9.e+]+)", said)
    return [found[1], found[2].rstrip(".")] if found else None


def options():
    """Names of the numeric ones."""
    text = OPTIONS.read_text(encoding="utf-8")
    return re.findall(rf'"([\w-]+)",\s+{KIND}', text)


def check_table():
    """None is missed."""
    text = OPTIONS.read_text(encoding="utf-8")
    rows = len(re.findall(rf"{KIND}, FIELD", re.sub(r"\s+", " ", text)))
    if not rows or rows != len(options()):
        yield f"{len(options())} of {rows} numeric options read"


def check_option(name):
    found = ends([*QUESTIONS[0].split(), f"--{name}", "x"])
    if not found:
        yield f"--{name}: no range in what refuses \"x\""
        return
    low, high = float(found[0]), float(found[1])
    # Much may be made of a step in the middle too, where the end is refused.
    middle = str(int(max(low, 1) * (high / max(low, 1)) ** 0.5))
    for question in QUESTIONS:
        for value in (found[1], middle) if question is QUESTIONS[0] else found[1:]:
            yield from judge([*question.split(), f"--{name}", value])


def check_together(_):
    """Each within its range, and together a step of a trillion parts."""
    for question in QUESTIONS[:2]:
        yield from judge([*question.split(), "--grad-accum", "4096", "--tiles", "4096",
                          "--logits-chunks", "4096", "--prefetch", "64", "--optimizer-chunk", "1"])


class Box:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.profile = self.folder / "bounds.ini"
        self.profile.write_text(PROFILE, encoding="utf-8")

    def check_key(self, key):
        words = ["simulate", "-m", "gpt3-1.3b", "-H", str(self.profile), "--seq", "1024"]
        found = ends([*words, "--set", f"{key}=x"])
        if not found:
            if key.split(".")[1] not in LISTS + WORDS:
                yield f"{key}: no range in what refuses \"x\""
            return
        for value in found:
            yield from judge([*words, "--set", f"{key}={value}"])

    def check_dimension(self, key):
        config = self.folder / "config.json"
        words = ["simulate", "-m", str(config), "-H", "dgx2"]
        for value in (1, 10 ** 4 if FEW else 10 ** 5, 10 ** 8, 2 ** 63 - 1):
            config.write_text(json.dumps({**DECODER, key: value}), encoding="utf-8")
            yield from judge(words)
        yield from judge(["plan", *words[1:], "--largest"])


def tests(box):
    yield "options", check_table()
    yield "all together", check_together(box)
    for name in sixth(options()):
        yield f"--{name}", check_option(name)
    for key, _ in sample(list(numeric_keys())):
        yield key, box.check_key(key)
    for key in sixth(DIMENSIONS):
        yield key, box.check_dimension(key)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
