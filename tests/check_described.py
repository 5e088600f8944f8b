#!/usr/bin/python3
"""Descriptions of models in place of a config.json; prints TAP.

plans     every description of tests/fixtures/described is planned and simulated, alone and on
          several ranks, with stored scores, accumulation, and state on drives.
mean      an answer says where layers of several kinds are planned as alike.
lengths   a length that the model does not have is refused.
run       a run of one is refused in one line.
no torch  memwall.describe says in one line what it lacks.

The command is $MEMWALL, or build/cli/memwall.
"""
import json
import os
import subprocess
import sys

from command import ROOT, Box, answer_of, refused, sample
from tap import Skip, report_in

FOLDER = ROOT / "tests" / "fixtures" / "described"
SETTINGS = [[], ["-s", "zero-infinity-nvme", "--batch", "2", "--grad-accum", "3"],
            ["--set", "gpu.flash_attention=false", "--batch", "1"], ["-H", "dgx2", "-s", "zero3"]]


def check_plans(box, path, settings):
    hardware = [] if "-H" in settings else ["-H", "rtx4090"]
    done = box.run(["simulate", "-m", str(path), *hardware, *settings, "--json"])
    if done.status or done.err.strip().startswith("memwall: "):
        yield f"{settings}: status {done.status}: {done.err[-300:]}"
        return
    answer = answer_of(done.out)
    said = json.loads(path.read_text("utf-8"))
    if not answer["feasible"]:
        yield f"{settings}: does not fit"
    kinds = {block for block, _ in said["pattern"]}
    note = b"layers of several kinds are planned as alike" in done.out
    if note != (len(kinds) > 1):
        yield f"{settings}: {len(kinds)} kinds of layers, and a note: {note}"


def check_refused(box, words, name, options):
    yield from refused(box.run([*options, "-m", str(FOLDER / name), "-H", "rtx4090"]), words)


def check_run(box):
    box.write("text", "a text to train on " * 100)
    done = box.run(["run", "-m", str(FOLDER / "llama-grouped.json"), "-H", "rtx4090", "--data",
                    "text"])
    yield from refused(done, ["a description, which says how much a model computes and not what",
                              "must be a decoder"])


def check_no_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        pass
    else:
        yield Skip("torch is there")
        return
    done = subprocess.run([sys.executable, ROOT / "python" / "memwall" / "describe.py", "llama"],
                          capture_output=True, text=True, env=dict(os.environ, LC_ALL="C.UTF-8"),
                          check=False)
    if done.returncode != 2 or len(done.stderr.splitlines()) != 1 or "torch" not in done.stderr:
        yield f"status {done.returncode}: {done.stderr}"


def tests(box):
    for path in sample(sorted(FOLDER.glob("*.json"))):
        yield f"plans: {path.stem}", (line for settings in SETTINGS
                                      for line in check_plans(box, path, settings))
    yield "lengths: too short", check_refused(box, ["seq: value 350: must be longer"],
                                              "hubert-audio.json", ["simulate", "--seq", "350"])
    yield "lengths: beyond the positions", check_refused(
        box, ["seq: value 520: must be at most 512"], "gpt2-tied.json",
        ["simulate", "--seq", "520"])
    yield "run", check_run(box)
    yield "no torch", check_no_torch()


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
