#!/usr/bin/python3
"""What memwall proposes, typed in; prints TAP.

batch   what --batch auto comes to, asked for, gives the same plan and the same step.

The command is $MEMWALL, or build/cli/memwall.
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEMWALL = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve()

# The first is the one whose two ways once came to 8 and to 16 tiles.
REQUESTS = [
    "-m gpt3-175b -H dgx2 --nodes 64 -s zero-infinity-cpu",
    "-m gpt3-13b -H rtx4090 -s zero-infinity-nvme",
    "-m gpt3-13b -H rtx4090",
    "-m gpt2-xl -H rtx4090 -s zero-offload",
    "-m gpt2-xl -H dgx-h100 -s zero-infinity-cpu",
    "-m llama-3.1-8b -H dgx2",
    "-m llama-3.1-70b -H dgx-h100 -s zero-infinity-nvme --param-device nvme",
    "-m opt-30b -H dgx2 --nodes 64 -s zero3",
    "-m gpt3-175b -H dgx-a100 --nodes 4 -s zero-infinity-nvme --tp 2",
    "-m llama-3.1-8b -H gh200 --global-batch 64",
]


def simulate(words):
    done = subprocess.run([str(MEMWALL), "simulate", *words, "--json"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=False,
                          env=dict(os.environ, XDG_CONFIG_HOME="/nonexistent"))
    return json.loads(done.stdout)


def check_batch(words, answer):
    batch = answer["settings"]["micro_batch"]
    again = simulate([*words, "--batch", f"{batch:.15g}"])
    for key in ("strategy", "plan", "settings", "step_time_s", "peak_bytes"):
        if again[key] != answer[key]:
            yield f"{key}: auto {answer[key]}, asked for {again[key]}"


def tests():
    for request in REQUESTS:
        words = request.split()
        answer = simulate(words)
        yield f"batch: {request}", check_batch(words, answer)


def main():
    failed = number = 0
    for number, (name, wrong) in enumerate(tests(), 1):
        wrong = list(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} {name}")
        for line in wrong:
            print(f"# {line}")
        failed += bool(wrong)
    print(f"1..{number}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
