#!/usr/bin/python3
"""`plan --strategies`: ZeRO-Offload's argument, and the same over three tiers; prints TAP.

The graph's cuts are those that a count over edges written here finds, and those of least volume the
rows of ZeRO-Offload's Table 1 (arXiv 2101.06840).  No strategy's step is below what is said to be
least, where the strategy keeps state where the row says.
"""
import itertools
import json
import sys

from command import Box, answer_of, refused
from tap import report_in

STATE = {"p16": 2, "g16": 2, "p32": 4, "m32": 4, "v32": 4}
COMPUTE = ("forward", "backward", "update", "cast")
EDGES = [("p16", "forward"), ("p16", "backward"), ("backward", "g16"), ("g16", "update"),
         *((state, "update") for state in ("p32", "m32", "v32")),
         *(("update", state) for state in ("p32", "m32", "v32")), ("p32", "cast"), ("cast", "p16")]
# p16, g16, and update with the state of 32 bits; bytes that the GPU holds.  (The last row is
# printed as 4M beside 8x: 16M / 8 is 2M.)
TABLE_1 = [("gpu", "gpu", "gpu", 16), ("gpu", "cpu", "gpu", 14), ("gpu", "gpu", "cpu", 4),
           ("gpu", "cpu", "cpu", 2)]


def ask(box, options):
    answer = box.run(f"plan {options} --strategies --json")
    if answer.status:
        raise RuntimeError(answer.err)
    return json.loads(answer.out)


def cuts_by_hand():
    for sides in itertools.product(("gpu", "cpu"), repeat=len(COMPUTE) + len(STATE)):
        side = dict(zip((*COMPUTE, *STATE), sides))
        if side["forward"] == side["backward"] == "gpu":
            held = sum(count for name, count in STATE.items() if side[name] == "gpu")
            carried = sum(STATE.get(one) or STATE[other] for one, other in EDGES
                          if side[one] != side[other])
            yield side, held, carried


def check_table(box):
    found = ask(box, "-m gpt2 -H rtx4090")
    rows = [(row["p16"], row["g16"], row["update"], row["gpu_bytes_per_parameter"])
            for row in found["least"]]
    if rows != TABLE_1:
        yield f"{rows}"
    for row in found["least"]:
        if len({row[name] for name in ("p32", "m32", "v32", "update", "cast")}) != 1:
            yield f"state of 32 bits apart from its update: {row}"
        if row["link_bytes_per_parameter"] != (4 if row["gpu_bytes_per_parameter"] < 16 else 0):
            yield f"{row}"


def check_count(box):
    found = ask(box, "-m gpt2 -H rtx4090")
    cuts = list(cuts_by_hand())
    if (found["cuts"], found["cuts_with_passes_on_gpu"]) != (512, len(cuts)):
        yield f"{found['cuts']} {found['cuts_with_passes_on_gpu']}"
    least = min(carried for _, held, carried in cuts if held < 16)
    if found["least_link_bytes_per_parameter"] != least:
        yield f"least {found['least_link_bytes_per_parameter']}, {least} by hand"
    if len(found["least"]) != sum(carried <= least for *_, carried in cuts):
        yield f"{len(found['least'])} cuts of least volume"
    front = {(held, carried) for _, held, carried in cuts
             if not any(h <= held and c <= carried and (h, c) != (held, carried)
                        for _, h, c in cuts)}
    said = {(row["gpu_bytes_per_parameter"], row["link_bytes_per_parameter"])
            for row in found["front"]}
    if said != front:
        yield f"front {said}, {front} by hand"


def check_least(box):
    """On one GPU and on several; with state in host memory and on drives."""
    off = "--param-device cpu --gradient-device cpu --optimizer-device cpu"
    drives = "--param-device nvme --gradient-device cpu --optimizer-device cpu"
    for question, strategy, placed in (
            ("-m gpt2-xl -H dgx2 --gpus 1 --batch 8", "zero-offload", ""),
            ("-m gpt2-xl -H rtx4090 --batch 4 --grad-accum 1", "zero-offload", ""),
            ("-m llama-3.1-8b -H dgx-h100 --global-batch 64", "zero-offload", ""),
            ("-m gpt2-xl -H dgx2 --gpus 1 --batch 8", "zero2", ""),
            ("-m llama-3.1-8b -H dgx-h100 --global-batch 64", "zero2", ""),
            ("-m gpt2-xl -H rtx4090 --batch 1 --grad-accum 4", "zero-infinity-cpu", off),
            ("-m gpt3-13b -H dgx2 --nodes 2 --batch 4 --grad-accum 2", "zero-infinity-cpu", off),
            ("-m llama-3.1-8b -H dgx-h100 --batch 1 --grad-accum 1", "zero-infinity-nvme", drives)):
        asked = f"{question} -s {strategy} {placed} --software ideal"
        rows = {row["strategy"]: row for row in ask(box, asked)["placements_of_strategies"]}
        step_s = answer_of(box.run(f"simulate {asked} --json").out)["step_time_s"]
        if strategy not in rows or not step_s:
            yield f"{asked}: {rows.keys()}, a step of {step_s} s"
            continue
        least_s = rows[strategy]["at_least_s"]
        if not 0.7 * step_s < least_s <= step_s:
            yield f"{asked}: at least {least_s}, the step takes {step_s}"


def check_front(box):
    found = ask(box, "-m llama-3.1-70b -H dgx-h100")
    rows = found["placements_front"]
    if found["placements"] != 4 * 3 ** 5 or not len(rows) <= found["placements_that_fit"] <= 972:
        yield f"{found['placements']} {found['placements_that_fit']}"
    for one, other in itertools.combinations(rows, 2):
        if one["at_least_s"] > other["at_least_s"]:
            yield "the fastest is not first"
        if all(one["bytes"][tier] <= other["bytes"][tier] for tier in ("gpu", "cpu")):
            yield f"{other} is not on the front: {one}"


def check_refusals(box):
    none = box.run("plan -m mt-nlg-530b -H rtx4090 --set host.memory_gib=16 "
                   "--set nvme.capacity_tb=0.6 --strategies")
    if none.status != 3 or b" 0 of them with room" not in none.out:
        yield f"nothing has room: status {none.status}"
    for line, words in (
            ("plan -m gpt2 -H rtx4090 --strategies --csv", ["--strategies", "leave out --csv"]),
            ("plan -m gpt2 -H rtx4090 --strategies --largest", ["--strategies", "--largest"]),
            ("plan -m gpt2 -H rtx4090 --strategies -o plan.txt", ["--strategies", "leave out"]),
            ("plan -m gpt2 -H rtx4090 -s ddp,zero2 --strategies", ["--strategies", "one strategy"]),
            ("plan -m gpt2 -H rtx4090 --dtype fp32 --strategies", ["--strategies", "16 bits"]),
            ("plan -m gpt2 -H rtx4090 --optimizer lion --strategies", ["AdamW", "--optimizer"]),
            ("simulate -m gpt2 -H rtx4090 --strategies", ["--strategies", "plan"])):
        yield from refused(box.run(line), words)


def tests(box):
    yield "Table 1", check_table(box)
    yield "count", check_count(box)
    yield "least", check_least(box)
    yield "front", check_front(box)
    yield "refusals", check_refusals(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
