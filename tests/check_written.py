#!/usr/bin/python3
"""A ds_config.json that was written for a plan, read back, gives that plan; prints TAP.

Over strategies, places of the states and recomputation; and what happens to a file that was changed
in between.

The command is $MEMWALL, or build/cli/memwall.
"""
import itertools
import json
import sys

from command import Box, answer_of, sample
from tap import report_in

MACHINES = ["-m gpt3-1.3b -H dgx-a100", "-m gpt2-xl -H rtx4090", "-m opt-30b -H dgx2 --tp 2"]
STRATEGIES = ["-s auto", "-s ddp", "-s zero1", "-s zero2", "-s zero3", "-s zero-offload",
              "-s zero-infinity-cpu", "-s zero-infinity-nvme"]
PLACES = ["", "--optimizer-device cpu", "--optimizer-device nvme --gradient-device cpu",
          "--param-device cpu:2GB,nvme --optimizer-device nvme", "--activation-device cpu",
          "--activation-device gpu"]
RECOMPUTED = ["", "--activation-checkpoint-interval 0", "--activation-checkpoint-interval 1",
              "--activation-checkpoint-interval 3 --batch 1"]
MORE = ["--param-loads 2 --tiles 4 --prefetch 3 --batch 1", "--overlap off --state-layout paper20",
        "--partition owner --logits-chunks 8 --batch 2 --grad-accum 4", "--global-batch 64"]

# Stages are said by the launch line, and where their ranks take turns by the file.
STAGES = [("", f"--stage-replicas {replicas} {options}") for replicas, options in (
    ("2,1", ""), ("2,1", "--schedule 2bw"), ("2,1", "--schedule gpipe --batch 2 --grad-accum 4"),
    ("1,2", "--schedule pipedream --stage-split 12"), ("2,1", "--recompute-list 0-3"),
    ("1,1,1", ""), ("2,1", "--stage-split balanced"), ("2,1", "--recompute-layers 5"))] + [
    ("--pp 3", options) for options in (
        "", "--schedule interleaved --virtual-stages 2", "--schedule zb-h1", "--schedule 2bw",
        "--schedule vertical-sync", "--stage-split 9,20", "--recompute-list 0-3,17",
        "--schedule interleaved --virtual-stages 3 --recompute-list 0,8,9",
        "--schedule interleaved --stage-split 5,10,16,21,27 --virtual-stages 2")]


def same_plan(box, line, name, question=None):
    """Yields what differs; a request that is refused or does not fit writes nothing."""
    first = box.run(f"simulate {line} --json --write-deepspeed {name}")
    if first.status:
        return
    software = answer_of(first.out)["software"]  # not that of the strategy that was found
    question = f"{question or ' '.join(line.split()[:4])} --software {software}"
    again = box.run(f"simulate {question} --deepspeed {name} --json")
    if again.status:
        yield f"{line}: read back: {again.err}{again.out[:200]}"
        return
    said, read = answer_of(first.out), answer_of(again.out)
    for answer in (said, read):
        answer["settings"].pop("default_step_tokens")
        if answer["strategy"] in ("ddp", "zero1", "zero2", "zero-offload"):
            answer["settings"].pop("prefetch")  # nothing is fetched
    for key in ("strategy", "plan", "settings", "step_time_s", "peak_bytes"):
        for what in said[key] if key == "settings" else ():
            if said[key][what] != read[key][what]:
                yield f"{line}: {what}: was {said[key][what]}, read {read[key][what]}"
        if key != "settings" and said[key] != read[key]:
            yield f"{line}: {key}: was {str(said[key])[:80]}, read {str(read[key])[:80]}"
    kept = not said["settings"]["checkpoint_interval"]
    config = json.loads((box.folder / name).read_text(encoding="utf-8"))
    if kept == ("activation_checkpointing" in config):
        yield f"{line}: activation_checkpointing {config.get('activation_checkpointing')}"


def check_changed(box, zero, strategy):
    """DeepSpeed's own words go before what memwall said of the plan before."""
    box.run("plan -m gpt3-1.3b -H dgx-a100 -s zero3 --batch 1 --write-deepspeed changed.json")
    config = json.loads((box.folder / "changed.json").read_text(encoding="utf-8"))
    config["zero_optimization"] = zero
    box.write("changed.json", config)
    answer = answer_of(box.run("plan -m gpt3-1.3b -H dgx-a100 --deepspeed changed.json "
                               "--json").out)
    if answer["strategy"] != strategy or not any("memwall: left out" in n for n in answer["notes"]):
        yield f"{answer['strategy']}: {answer['notes']}"


def check_stage0(box):
    """Without zero_optimization it is DeepSpeed's plain data parallelism; -s still goes first."""
    box.write("none.json", {"bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 1})
    for options, strategy in (("", "ddp"), ("-s zero2", "zero2")):
        answer = answer_of(box.run("plan -m gpt2-xl -H dgx-a100 --deepspeed none.json --json "
                                   + options).out)
        if answer["strategy"] != strategy or \
                not any("stage 0" in note for note in answer["notes"]):
            yield f"{options}: {answer['strategy']}, {answer['notes']}"


def tests(box):
    for number, machine in enumerate(MACHINES):
        for strategy in STRATEGIES:
            wrong = []
            # Every place and every way to recompute, and not each with each on each machine.
            pairs = list(itertools.product(PLACES, RECOMPUTED))[number::len(MACHINES)]
            for options in sample([" ".join(pair) for pair in pairs] + MORE):
                wrong += same_plan(box, f"{machine} {strategy} {options}", "ds.json")
            yield f"{machine} {strategy}", wrong
    for launch, options in STAGES:
        machine = f"-m llama-2-7b -H 3xh200 {launch}"
        wrong = list(same_plan(box, f"{machine} -s ddp {options}", "ds.json", machine))
        if box.run(f"simulate {machine} -s ddp {options}").status:
            wrong.append("is refused")
        yield f"stages {launch} {options}", wrong
    yield "changed stage", check_changed(box, {"stage": 2}, "zero2")
    yield "changed device", check_changed(
        box, {"stage": 3, "offload_param": {"device": "cpu"}}, "zero-infinity-cpu")
    yield "stage 0", check_stage0(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
