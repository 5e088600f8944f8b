#!/usr/bin/python3
"""What an open batch comes to is not beaten by what is easily typed; prints TAP.

Over models and machines: the same global batch, asked for; accumulation over every power of four of
micro-batches that the default global batch has room for; the batch that a note proposes.  None is
faster, none takes more than the default, and the note says what it came to.  And questions stay
quick: a plan of micro-batches that nobody asked for has a bounded number of ops.

constraints  a value asked for, or less memory, makes no step faster, at the same global batch.
reason  what the note says of an open batch below the default is so: a larger one does not fit, is
        not faster, or has more ops than are quick to plan.

The command is $MEMWALL, or build/cli/memwall.
"""
import functools
import json
import subprocess
import sys

from check_advice import default_tokens
from command import MEMWALL, Box, answer_of, sample
from tap import report_in

MODELS = ["gpt2", "gpt3-1.3b", "llama-3.1-8b", "zi-10b", "opt-30b", "gpt3-175b"]
MACHINES = ["rtx4090", "v100", "dgx2", "dgx-h100", "aws-g5-12xlarge", "gh200"]
OPS_QUICK = 250000
SAME = 1.001  # of many micro-batches the times are of few, and the rest by their difference
SIMPLER = 1.02  # a plan that offloads, or partitions more, is taken where it is faster than this
SLACK = 1.02
# What nobody asked for has logits in chunks to keep layers in plans of few micro-batches alone
# (MODEL.md, 10.17a); more of them, asked for, may be faster by as much as that is worth.
FEW_MICRO_BATCHES = 64
MANY = 1.06
REASONS = ("do not fit", "not faster", "slow to plan")


def ask(box, line):
    done = box.run(f"simulate {line} --json")
    return answer_of(done.out) if done.out else None


@functools.cache
def strategies():
    """The simplest first."""
    listed = json.loads(subprocess.check_output([MEMWALL, "list", "strategies", "--json"]))
    return [row["strategy"] for row in listed["strategies"]]


def complexity(answer):
    offloads = any(answer["peak_bytes"][tier] for tier in ("cpu", "nvme"))
    return offloads, strategies().index(answer["strategy"])


def beats(other, answer, slack):
    """By more than it takes to offload or to partition more, where that is the difference."""
    if not other or not other["feasible"]:
        return False
    if complexity(other) > complexity(answer):
        slack = max(slack, SIMPLER)
    return other["tokens_per_s"] > slack * answer["tokens_per_s"]


def powers(answer):
    """Of four, up to the default global batch with one sequence for each GPU."""
    settings = answer["settings"]
    least = settings["seq"] * settings["nodes"] * settings["gpus_per_node"]
    accum = 1
    while accum * least <= 1.05 * default_tokens(answer["params"]) and accum <= 4096:
        yield accum
        accum *= 4


def check(box, line):
    answer = ask(box, line)
    if not answer["feasible"]:
        return
    settings = answer["settings"]
    step, most = settings["tokens_per_step"], default_tokens(answer["params"])
    single = settings["micro_batch"] * settings["tp"] * settings["grad_accum"] == 1
    said = [note for note in answer["notes"] if note.startswith("default global batch: ")]
    if step > 1.05 * most and not single:
        yield f"{step} tokens per step, {most} by default"
    if len(said) != 1 or f"{settings['global_batch']:.15g} sequence" not in said[0]:
        yield f"{settings['global_batch']} sequences: {said}"
    bounded = "slow to plan" in said[0]
    more = (settings["grad_accum"] + 1) / settings["grad_accum"] * step
    if more < 1.05 * most and not any(reason in said[0] for reason in REASONS):
        yield f"{step} tokens per step of {most}: {said}"
    if answer["smaller_batch"]:
        yield f"its own note is faster: {answer['smaller_batch']}, {answer['tokens_per_s']}"
    same = ask(box, f"{line} --global-batch {settings['global_batch']:.15g}")
    if beats(same, answer, SAME):
        yield f"same global batch: {same['tokens_per_s']}, open {answer['tokens_per_s']}"
    for accum in powers(answer):
        typed = ask(box, f"{line} --grad-accum {accum}")
        # Larger steps, where they would be slow to plan, are left to the user.
        larger = typed and typed["settings"]["tokens_per_step"] > step
        many = typed and accum > max(FEW_MICRO_BATCHES, 2 * settings["grad_accum"])
        slack = MANY if many else SLACK
        if not (bounded and larger) and beats(typed, answer, slack):
            yield (f"--grad-accum {accum}: {typed['tokens_per_s']} in micro-batches of "
                   f"{typed['settings']['micro_batch']}, open {answer['tokens_per_s']}: {settings}")
        nearer = typed and typed["settings"]["tokens_per_step"] > 1.05 * step
        if not bounded and nearer and complexity(typed) <= complexity(answer) and \
                beats(typed, answer, 1):
            yield (f"--grad-accum {accum}: {typed['tokens_per_s']} nearer to the default, open "
                   f"{answer['tokens_per_s']}: {settings}")


def check_quick(box, line):
    """Nobody asked for so many micro-batches."""
    done = box.run(f"plan {line} -o open.plan")
    ops = (box.folder / "open.plan").read_text(encoding="utf-8").count("\nop ")
    answer = answer_of(box.run(f"plan {line} --json").out)
    if done.status or not 0 < ops or (ops > OPS_QUICK and answer["settings"]["grad_accum"] > 1):
        yield f"{ops} ops, {answer['settings']}"


def check_reason(box, line, expected):
    """One more micro-batch, asked for; or with accumulation asked for, a larger batch."""
    answer = ask(box, line)
    note = [note for note in answer["notes"] if note.startswith("default global batch: ")][0]
    if expected not in note:
        yield f"not {expected!r}: {note}"
    settings = answer["settings"]
    accum = settings["grad_accum"] + 1
    larger = ask(box, f"{line} --grad-accum {accum}") if "--grad-accum" not in line else \
        ask(box, f"{line} --batch {settings['micro_batch'] + 1 / settings['tp']:.15g}")
    if expected.endswith("not fit") == larger["feasible"]:
        yield f"{expected!r}, and a larger batch fits: {larger['feasible']}"
    if expected.endswith("not faster") and beats(larger, answer, SLACK):
        yield f"{larger['tokens_per_s']}, open {answer['tokens_per_s']}: {note}"
    if expected == "slow to plan":
        box.run(f"plan {line} --batch {settings['micro_batch']} --grad-accum {accum} -o more.plan")
        ops = (box.folder / "more.plan").read_text(encoding="utf-8").count("\nop ")
        if ops <= OPS_QUICK:
            yield f"{ops} ops: {note}"


BOUNDED = {
    "-m gpt3-1.3b -H v100 -s ddp --activation-checkpoint-interval 0 --software ideal":
        "micro-batches do not fit",
    "-m gpt2-xl -H dgx-a100": "tokens per step, by the",
    "-m gpt3-13b -H dgx2 -s zero3": "tokens per step, by the",
    "-m gpt3-175b -H dgx2 -s zero-infinity-nvme": "tokens per step, by the",
    "-m llama-3.1-70b -H rtx4090 -s zero-infinity-nvme --software memwall":
        "tokens per step, by the",
    "-m gpt3-1.3b -H v100 -s ddp --grad-accum 1": "batch does not fit",
}


# Questions where gradients leave the GPU beside backward, and what must not make them faster: a
# value asked for, or less memory.
BESIDE_BACKWARD = {
    "-m llama-2-7b -H a100 --software deepspeed --global-batch 64":
        ("--logits-chunks 2", "--set gpu.memory_gib=64"),
    "-m llama-2-13b -H h100 --software fsdp2-compile --global-batch 256 --seq 2048":
        ("--batch 4", "--batch 8"),
    # Reduced in fp32 over PCIe, twice as many micro-batches cost more than checkpoints in host
    # memory, which ZeRO-Offload has only where they are asked for.
    "-m mistral-7b-v0.3 -H coreweave-l40s-8x --software fsdp2-compile --global-batch 256 "
    "--seq 2048 --set software.collectives.gradient_type=made":
        ("--activation-device cpu", "--logits-chunks 4"),
}


def check_constraints(box, line, constraints):
    answer = ask(box, line)
    for constraint in constraints:
        asked = ask(box, f"{line} {constraint}")
        if asked["settings"]["global_batch"] != answer["settings"]["global_batch"]:
            yield f"{constraint}: another global batch"
        if asked["feasible"] and asked["tokens_per_s"] > SLACK * answer["tokens_per_s"]:
            yield f"{asked['tokens_per_s']} with {constraint}, {answer['tokens_per_s']} without"


def tests(box):
    for line, constraints in BESIDE_BACKWARD.items():
        yield f"constraints: {line}", check_constraints(box, line, constraints)
    for line, expected in BOUNDED.items():
        yield f"reason: {line}", check_reason(box, line, expected)
    for number, model in sample(list(enumerate(MODELS))):
        # Each model on two machines, each machine with two models: questions take a second or two.
        for machine in MACHINES[number % 3::3]:
            yield f"{model} on {machine}", check(box, f"-m {model} -H {machine}")
    for line in ("-m zi-10b -H v100 -s zero-infinity-cpu", "-m llama-3.1-8b -H dgx2 --tp 2",
                 "-m opt-30b -H dgx2 --nodes 4 -s zero3"):
        yield line, check(box, line)
    for line in ("-m gpt3-13b -H rtx4090", "-m llama-3.1-8b -H h100"):
        yield f"quick: {line}", check_quick(box, line)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
