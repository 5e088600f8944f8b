#!/usr/bin/python3
"""Resident memory of runs: what the process has at its peak is what was planned; prints TAP.

Planned are the plan's bytes in host memory (the device's are there too, on cores), scratch of
kernels and saves, and the program as it was before it made any state.  Memory is no time: other
work on the machine does not change it.

LEAST_BYTES: pages of libraries that the first step is the first to read, what the allocator keeps
for each thread, and the pieces of 2 MiB in which files are read and state is made: more than 4% of
small runs alone.
"""
import itertools
import os
import random
import sys

from command import ROOT, SANITIZED, Box, answer_of, sample, sixth
from tap import MPIRUN, RANKS_ENVIRONMENT, Skip, has_ranks, report_in

SEED = 15
SHARE, LEAST_BYTES = 0.04, 8 << 20
GPT2 = {"model_type": "gpt2", "activation_function": "gelu_new", "vocab_size": 256,
        "n_positions": 256}
MODELS = {"small": {**GPT2, "n_layer": 2, "n_embd": 128, "n_head": 2},
          "medium": {**GPT2, "n_layer": 6, "n_embd": 512, "n_head": 8},
          "large": {**GPT2, "n_layer": 8, "n_embd": 768, "n_head": 12}}
MACHINE = "-H rtx4090"
# The matrix library packs operands in buffers of each thread's.
THREADS = "--device-threads 2 --host-threads 2"
OPTIMIZERS = ("adamw", "adamw-16bit", "adamw-8bit", "sgd", "sgd-momentum", "lion",
              "sm3", "adafactor")
NVME = "--nvme drive --overwrite"
PLACEMENTS = {
    "gpu": "-s ddp",
    "cpu": "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu",
    "offload": "-s zero-offload",
    "nvme": f"-s zero-infinity-nvme --param-device nvme --optimizer-device nvme {NVME}",
    "activations": "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme "
                   f"--activation-device nvme {NVME}",
    "saved": f"-s ddp --save-every 2 {NVME}",
    "l2l": "-s l2l --grad-accum 2",
    "geeps": "-s geeps",
    "shared": "-s ddp --share-slots on --activation-checkpoint-interval 1",
}
ADAPTERS = ("--train lora:8", "--train lora:8 --weight-bits 8", "--train lora:8 --weight-bits 4",
            "--train lora:8 --optimizer adamw-8bit")
LONG = {"short": "--batch 1 --seq 32", "wide": "--batch 8 --seq 256",
        "all kept": "--batch 4 --seq 256 --activation-checkpoint-interval 0",
        "fp32": "--batch 2 --seq 128 --dtype fp32", "fp16": "--batch 2 --seq 128 --dtype fp16"}


def check(box, model, options, prefix=(), environment=()):
    machine = "-H dgx-a100" if prefix else MACHINE
    line = (f"run -m {model}.json {machine} {THREADS} --backend cpu --data text.txt --steps 3 "
            f"--json {'' if '--batch' in options else '--batch 2 --seq 128'} {options}")
    answer = box.run(line, prefix=prefix, **dict(environment))
    if answer.status:
        yield f"{line}: status {answer.status}: {answer.err.strip()[-300:]}"
        return
    answer = answer_of(answer.out)
    run, tiers = answer["run"], answer["predicted"]["peak_bytes"]
    planned, peak = run["resident_planned_bytes"], run["resident_peak_bytes"]
    if abs(planned - peak) > max(SHARE * peak, LEAST_BYTES):
        yield f"{line}: planned {planned}, resident {peak}: {planned / peak - 1:+.1%} ({run})"
    if planned != tiers["gpu"] + tiers["cpu"] + run["scratch_bytes"] + run["program_bytes"]:
        yield f"{line}: {planned} is not the sum of {tiers} and {run}"
    # A program that grew would hide what the plan lacks.
    if run["program_bytes"] > 48 << 20 or run["scratch_bytes"] > 48 << 20:
        yield f"{line}: {run}"


def check_ranks(box, options):
    if not has_ranks():
        yield Skip("no mpirun")
        return
    yield from check(box, "large", options, [*MPIRUN, "2"], RANKS_ENVIRONMENT)


def check_folders(box):
    """Files that a run begins with, or ends with, are read and written in parts."""
    yield from check(box, "large", "-s ddp --save folder --overwrite")
    yield from check(box, "large", "-s ddp --weights folder")
    yield from check(box, "large", "-s ddp --train lora:8 --weight-bits 4 --weights folder")
    yield from check(box, "large", "-s ddp --from folder --steps 5")


def check_table(box):
    answer = box.run(f"run -m medium.json {MACHINE} --backend cpu --data text.txt --steps 2 "
                     "--batch 2 -s ddp --compare")
    rows = {line.split()[0]: line.split() for line in answer.out.decode().split("\n")
            if line.startswith("  ")}
    if not {"gpu", "scratch", "program", "process"} <= set(rows) or len(rows["process"]) != 6 or \
            not rows["process"][5].endswith("%"):
        yield f"{answer.err}{answer.out.decode()[-500:]}"


def tests(box):
    if SANITIZED:
        yield "resident", [Skip("sanitizers take memory of their own")]
        return
    rng = random.Random(SEED)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(60000)))
    for name, config in MODELS.items():
        box.write(f"{name}.json", config)
    (box.folder / "drive").mkdir()
    for size in MODELS:
        yield f"size/{size}", check(box, size, "-s ddp")
    for optimizer, place in sample(itertools.product(OPTIMIZERS, ("gpu", "nvme"))):
        yield (f"optimizer/{optimizer}/{place}",
               check(box, "medium", f"{PLACEMENTS[place]} --optimizer {optimizer}"))
    for name, options in sixth(PLACEMENTS.items()):
        yield f"placement/{name}", check(box, "large", options)
    for options, place in sample(itertools.product(ADAPTERS, ("gpu", "nvme"))):
        yield f"adapters/{options}/{place}", check(box, "large", f"{PLACEMENTS[place]} {options}")
    for name, options in sixth(LONG.items()):
        yield f"shape/{name}", check(box, "medium", f"-s ddp {options}")
    yield "folders", check_folders(box)
    for options in sixth(("--gpus 2 -s zero3", "--gpus 2 -s ddp --pp 2 --grad-accum 2",
                          f"--gpus 2 {PLACEMENTS['nvme']}")):
        yield f"ranks/{options}", check_ranks(box, options)
    yield "table", check_table(box)


if __name__ == "__main__":
    os.environ.pop("MALLOC_PERTURB_", None)  # meson's: it touches pages that nothing else does
    sys.exit(report_in(Box, tests))
