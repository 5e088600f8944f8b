#!/usr/bin/python3
"""What memwall proposes, typed in; prints TAP.

batch   what --batch auto comes to, asked for, gives the same plan and the same step.
change  the best single change, typed behind the request, takes the step time that was said.
best    none of the changes that are easily typed gains more.
smaller a batch below the largest that is faster is said beside it.
demo    GPT-3 13B on the RTX 4090 asks for host memory, and says so in its last line.

The command is $MEMWALL, or build/cli/memwall.
"""
import json
import os
import pathlib
import subprocess
import sys

from tap import report

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
FIXED = [
    "-m gpt3-13b -H rtx4090 -s zero-infinity-nvme --batch 4",
    "-m gpt3-13b -H rtx4090 -s zero-infinity-nvme --batch 8 --optimizer-device nvme "
    "--param-device nvme",
    "-m gpt2-xl -H flat-test -s zero3 --batch 1 --outlook low",
    "-m gpt2-xl -H rtx4090 -s zero-offload --batch 8",
    "-m llama-3.1-8b -H aws-g5-12xlarge -s zero-infinity-nvme --batch 2 --overlap off",
    "-m opt-30b -H rtx4090-12ssd -s zero-infinity-nvme --tiles 4",
    "-m gpt3-175b -H dgx2 --nodes 64 -s zero-infinity-nvme --batch 4 --param-device nvme",
    "-m llama-3.1-8b -H gh200 --batch 1 --set gpu.memory_gib=40",
]
SLACK = 1.02  # the estimate that picks what is planned is no better


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


def check_change(words, answer):
    change = answer["change"]
    if not change:
        return
    again = simulate([*words, *change["flags"].split()])
    for key in ("step_time_s", "tokens_per_s"):
        if again[key] != change[key]:
            yield f"{change['flags']}: {key} {again[key]}, said {change[key]}"
    for key in ("micro_batch", "global_batch"):
        if again["settings"][key] != change[key]:
            yield f"{change['flags']}: {key} {again['settings'][key]}, said {change[key]}"
    if again["tokens_per_s"] <= answer["tokens_per_s"]:
        yield f"{change['flags']}: gains nothing"


def typed_changes(words, answer):
    """Memory doubled, half the batch, twice the micro-batches, deeper prefetch."""
    settings = answer["settings"]
    profile = subprocess.run([str(MEMWALL), "list", "hwprofiles", words[3]],
                             stdout=subprocess.PIPE, check=True).stdout.decode()
    for group in ("gpu", "host"):
        section = profile.split(f"[{group}]")[1]
        memory = float(section.split("memory_gib = ")[1].split()[0])
        yield ["--set", f"{group}.memory_gib={2 * memory:.15g}"]
    if settings["micro_batch"] >= 2:
        yield ["--batch", f"{settings['micro_batch'] // 2:.15g}"]
    if "--global-batch" not in words:
        yield ["--grad-accum", str(2 * settings["grad_accum"])]
    yield ["--prefetch", str(settings["prefetch"] + 1)]
    yield ["--activation-checkpoint-interval", "0"]


def check_best(words, answer):
    said = answer["change"]["tokens_per_s"] if answer["change"] else 0
    for flags in typed_changes(words, answer):
        typed = simulate([*words, *flags])
        if typed["feasible"] and typed["tokens_per_s"] > SLACK * max(said, answer["tokens_per_s"]):
            yield (f"{' '.join(flags)}: {typed['tokens_per_s']:.4g} tokens/s, said "
                   f"{answer['change']}, now {answer['tokens_per_s']:.4g}")


def check_owner():
    """Where one link at a time holds the step up, all of them at once is what gains most."""
    words = ("-m gpt3-13b -H dgx2 -s zero-infinity-cpu --param-device cpu --optimizer-device cpu "
             "--activation-device gpu --partition owner --set gpu.memory_gib=8 "
             "--set pcie.h2d_gb_per_s=1 --set host.memory_gib=6000").split()
    answer = simulate(words)
    if not answer["change"] or answer["change"]["flags"] != "--partition bandwidth":
        yield f"change is {answer['change']}"
    yield from check_change(words, answer)


def check_demo():
    answer = subprocess.run([str(MEMWALL), "simulate", "-m", "gpt3-13b", "-H", "rtx4090", "-s",
                             "zero-infinity-nvme"], stdout=subprocess.PIPE, check=True)
    last = answer.stdout.decode().splitlines()[-1]
    for word in ("best single change: 2x host memory -> step", "--set host.memory_gib=256"):
        if word not in last:
            yield f"no {word!r} in {last!r}"


def check_smaller():
    """Where the largest batch is not the fastest, verdict, row and JSON say so, and it is true."""
    words = "-m opt-30b -H dgx2 -s zero-infinity-cpu".split()
    answer = simulate(words)
    smaller = answer["smaller_batch"]
    flags = ["--batch", f"{smaller['micro_batch']:.15g}"]
    typed = simulate([*words, *flags])
    if not typed["tokens_per_s"] == smaller["tokens_per_s"] > answer["tokens_per_s"]:
        yield f"{smaller}: typed {typed['tokens_per_s']}, now {answer['tokens_per_s']}"
    if simulate([*words, *flags])["smaller_batch"]:
        yield "said of a batch that was asked for"
    for strategies in ("zero-infinity-cpu", "ddp,zero-infinity-cpu"):
        text = subprocess.run([str(MEMWALL), "simulate", *words[:4], "-s", strategies],
                              stdout=subprocess.PIPE, check=True).stdout.decode()
        if f"{flags[0]} {flags[1]}, smaller" not in text:
            yield f"-s {strategies} does not say {' '.join(flags)}"


def tests():
    for request in REQUESTS:
        words = request.split()
        answer = simulate(words)
        yield f"batch: {request}", check_batch(words, answer)
        yield f"change: {request}", check_change(words, answer)
        yield f"best: {request}", check_best(words, answer)
    for request in FIXED:
        words = request.split()
        yield f"change: {request}", check_change(words, simulate(words))
    yield "smaller batch", check_smaller()
    yield "owner-broadcast", check_owner()
    yield "demo", check_demo()


if __name__ == "__main__":
    sys.exit(report(tests()))
