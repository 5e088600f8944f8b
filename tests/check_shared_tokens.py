#!/usr/bin/python3
"""Tensor slices that share tokens (--sequence-parallel on); prints TAP.

The losses and norms in fp32 are those of slices that each have all tokens, and of one rank, to the
last digit that is printed, whatever is sharded, offloaded or recomputed, with data-parallel ranks,
pipeline stages and shared sequences beside them; so they are where a checkpoint of one division is
continued by another, and after kills.  A plan has the scatters, gathers and sums of norms'
gradients that slices need and no more, and slices take as much less memory as planned.  What cannot
be asked for is refused in one line.
"""
import collections
import json
import random
import re
import shutil
import sys

from check_slices import (DEEP, EACH, FIXTURES, MACHINE, TRAINING, check_from_plan, divided,
                          ranks, steps,
                          write_models)
from check_slices_durable import DRIVES, check_kills, check_resume, words
from command import SANITIZED, Answer, Box, answer_of, of_rows, refused
from tap import Skip, report_ranked

ON = "--sequence-parallel on"

# Per case: the model, data-parallel ranks, slices, stages, and what else is asked of one rank too.
ALONE = {
    "gpt2": ("gpt2", 1, 2, 1, "-s ddp"),
    "llama": ("llama", 1, 2, 1, "-s ddp"),
    "three, chunks of an odd vocabulary": ("odd", 1, 3, 1, "-s ddp --logits-chunks 2"),
    "more slices than the MLP is wide": ("llama", 1, 4, 1, f"-s ddp {EACH}"),
    "tiles": ("odd", 1, 3, 1, "-s zero2 --tiles 2 --logits-chunks 2"),
    "zero3": ("llama", 2, 2, 1, f"-s zero3 {EACH}"),
    "offloaded": ("gpt2", 2, 2, 1, "-s zero-infinity-nvme"),
    "delayed update": ("llama", 2, 2, 1, "-s zero-offload --dpu-start 2"),
    "owners": ("llama", 2, 2, 1, "-s zero3 --partition owner"),
    "frozen": ("odd", 1, 3, 1, "-s ddp --train qkv,final-norm"),
    "tied stages": ("odd", 1, 3, 2, "-s zero1"),
    "stages and data": ("llama", 2, 2, 2, f"-s zero3 {EACH}"),
    "layer by layer": ("deep", 2, 2, 1, "-s l2l --activation-device cpu"),
}

# The same of the slices' ranks alone, which have all tokens or share them.
SLICES = {
    "shared sequences, by heads": ("llama", 2, 2, 1, "-s ddp --cp 2 --cp-kind all-to-all "
                                   "--batch 0.5"),
    "shared sequences, in a ring": ("llama", 2, 2, 1, f"-s zero1 --cp 2 --cp-kind ring {EACH} "
                                    "--batch 0.5"),
    "sharding groups": ("llama", 4, 2, 1, "-s zero2 --shard-group 2"),
    "gpipe": ("deep", 1, 2, 2, "-s ddp --schedule gpipe"),
    "interleaved": ("deep", 1, 2, 2, f"-s ddp {EACH} --schedule interleaved --virtual-stages 2"),
    "some kept": ("deep", 1, 2, 2, f"-s ddp {EACH} --recompute-layers 1"),
    "activations leave": ("deep", 1, 2, 2, "-s zero-infinity-cpu --checkpoints activations "
                          "--activation-device cpu --recompute-layers 1"),
    "some on drives": ("deep", 1, 2, 1, f"-s zero1 {EACH} --activation-device gpu:50%,nvme "
                       "--nvme drive --prefetch 0"),
    "every second": ("deep", 2, 2, 1, "-s zero3 --activation-checkpoint-interval 2 "
                     "--activation-device cpu"),
    "in 8 bits": ("llama", 1, 4, 1, f"-s ddp {EACH} --checkpoint-bits 8 --dtype bf16"),
    "kept in 8 bits": ("llama", 1, 2, 1, "-s ddp --kept-bits 8 --dtype bf16"),
    "bf16": ("odd", 1, 3, 1, "-s zero2 --dtype bf16 --loss-scale dynamic"),
}

# As in check_slices.py.
CHECKPOINTS = {
    "transposed": ("gpt2", "-s ddp", 4, (2, 2, 1), (1, 1, 2), (1, 2, 2)),
    "sharded, from one": ("llama", "-s zero3", 4, (1, 1, 1), (2, 2, 1), (1, 4, 1)),
}

DURABLE = {
    "saved together": ("llama", 2, 2, 2, f"-s ddp --save-every 2 {EACH} {ON}"),
    "drives": ("gpt2", 1, 2, 1, f"{DRIVES} {ON}"),
}


def asked_of(model, options):
    return f"run -m {model}.json {MACHINE} {TRAINING} --grad-accum 4 {options}"


def empty(box):
    shutil.rmtree(box.folder / "drive", ignore_errors=True)
    (box.folder / "drive").mkdir()


def check_alone(box, model, data, slices, stages, options):
    asked = asked_of(model, options)
    alone = box.run(f"{asked} --batch {data * slices}")
    if len(steps(alone)) != 4:
        yield f"alone: {alone.err[-300:]}"
    shared = ranks(box, data * slices * stages,
                   f"{asked} --batch 1 --tp {slices} --pp {stages} {ON}")
    if steps(shared) != steps(alone):
        yield f"{steps(shared)}, alone {steps(alone)}: {shared.err[-300:]}"


def check_slices(box, model, data, slices, stages, options):
    """In bf16 residuals are added in another order, and rounded there."""
    count, found = data * slices * stages, []
    batch = "" if "--batch" in options else "--batch 1"
    for shares in ("off", "on"):
        empty(box)
        found.append(ranks(box, count, f"{asked_of(model, options)} {batch} --tp {slices} "
                           f"--pp {stages} --sequence-parallel {shares}"))
    whole, shared = ([[float(value) for value in step] for step in steps(one)] for one in found)
    near = 4e-3 if "bf16" in options else 0
    if len(shared) != 4 or len(whole) != 4 or any(
            abs(a - b) > near * b for one, other in zip(shared, whole)
            for a, b in list(zip(one, other))[:1 if near else 2]):
        yield f"{shared}, whole {whole}: {found[0].err[-300:]} {found[1].err[-300:]}"


def check_checkpoint(box, model, options, sequences, *turns):
    asked = f"run -m {model}.json {MACHINE} {TRAINING} --grad-accum 2 {options}"
    alone, got = box.run(f"{asked} --batch {sequences}"), []
    for turn, degrees in enumerate(turns):
        count, division = divided(asked, sequences, degrees)
        start = f"--from saved{turn - 1}" if turn else ""
        shutil.rmtree(box.folder / f"saved{turn}", ignore_errors=True)
        one = ranks(box, count, f"{division} {ON if degrees[1] > 1 else ''} {start} "
                    f"--steps {turn + 1} --save saved{turn}")
        if one.status:
            yield f"{degrees}: {one.err[-300:]}"
        got += steps(one)
    if got != steps(alone)[:len(turns)]:
        yield f"{got}, alone {steps(alone)}"


# --- the plan -------------------------------------------------------------------------------------


def planned(box, options):
    """How often each collective of slices is in the plan, and its bytes."""
    box.run(f"plan -m llama.json {MACHINE} --batch 1 --tp 2 --gpus 2 --software memwall "
            f"{options} {ON} -o shared.plan")
    text = (box.folder / "shared.plan").read_text()
    works = {number: (kind, what, operator, int(size)) for number, kind, what, operator, size in
             re.findall(r"^work (\d+) (all-reduce|reduce-scatter|all-gather) "
                        r"(activations|gradients) (\S+) .* bytes (\d+) ", text, re.M)}
    return collections.Counter(
        (*works[work], phase) for work, phase in
        re.findall(r"^op \d+ lane \d+ work (\d+) (\S+) ", text, re.M) if work in works)


def check_plan(box):
    """Of each of the logits' chunks the loss has a sum, and all other ops are of all tokens."""
    tokens, hidden, layers = 2 * 24, 32, 2
    states, norm = 2 * tokens * hidden, 2 * hidden
    forward = {("all-gather", "qkv"): layers, ("reduce-scatter", "projection"): layers,
               ("all-gather", "mlp-up"): layers, ("reduce-scatter", "mlp-down"): layers}
    backward = {("all-gather", operator): layers
                for operator in ("qkv", "projection", "mlp-up", "mlp-down")}
    backward |= {("reduce-scatter", "qkv"): layers, ("reduce-scatter", "mlp-up"): layers,
                 ("reduce-scatter", "logits"): 1, ("all-gather", "embedding"): 1}
    expected = collections.Counter()
    for phase, ops in (("forward", forward | {("reduce-scatter", "embedding"): 1,
                                              ("all-gather", "logits"): 1}),
                       ("recompute", forward), ("backward", backward)):
        for (kind, operator), count in ops.items():
            expected[kind, "activations", operator, states, phase] = count
    for operator, count in (("norm1", layers), ("norm2", layers), ("final-norm", 1)):
        expected["all-reduce", "gradients", operator, norm, "backward"] = count
    expected["all-reduce", "activations", "loss", 12 * tokens // 2, "forward"] = 2
    got = planned(box, f"-s ddp {EACH} --logits-chunks 2")
    if got != expected:
        yield f"more {got - expected}, fewer {expected - got}"


def check_frozen_plan(box):
    """Nothing is summed up of norms, and no inputs come again, that nobody trains."""
    got = planned(box, "-s ddp --activation-checkpoint-interval 0 --train mlp-up,final-norm")
    again = {operator for kind, _, operator, _, phase in got
             if kind == "all-gather" and phase == "backward"}
    norms = {operator for _, what, operator, _, _ in got if what == "gradients"}
    if again != {"mlp-up", "projection", "mlp-down"} or norms != {"final-norm"}:
        yield f"inputs that come again {again}, norms {norms}"


def check_damaged(box):
    """A plan without one of these ops, or with an op of other slices' bytes, is no step."""
    planned(box, f"-s ddp {EACH}")
    text = (box.folder / "shared.plan").read_text()
    for old, new, said in (
            (r"(?m)^(work \d+) all-reduce gradients (norm1 .*) bytes 64 ",
             r"\1 all-reduce gradients \2 bytes 32 ", "sums up no gradients of a norm"),
            (r"(?m)^(work \d+) reduce-scatter activations (projection)",
             r"\1 all-reduce activations \2", "no reduce-scatter sums up its slices"),
            (r"(?m)^(work \d+) all-gather activations (mlp-up)",
             r"\1 all-gather activations mlp-down", "nothing gathers its slices"),
            (" tensor-parts", "", "no all-reduce sums up its slices")):
        changed, count = re.subn(old, new, text)
        box.write("damaged.plan", changed)
        answer = box.run(f"simulate damaged.plan {MACHINE} --software memwall")
        if not count or answer.status == 0 or said not in answer.err:
            yield f"{old}: {count} times, status {answer.status}: {answer.err[-300:]}"


def check_memory(box):
    """A slice of two keeps half of what is as wide as hidden states, four times per layer, and has
    a product's input in a room of its own."""
    if SANITIZED:
        yield Skip("sanitizers take memory of their own")
        return
    config = json.loads((FIXTURES / "llama-small/config.json").read_text())
    box.write("layers.json", json.dumps(config | DEEP))
    each = 4 * 64 * 128 * 64  # fp32, of 64 sequences of 128 tokens
    answers = []
    for shares in ("off", "on"):
        answer = ranks(box, 2, f"run -m layers.json {MACHINE} {TRAINING} -s zero1 --batch 32 "
                       "--activation-checkpoint-interval 0 --tp 2 --steps 1 --json "
                       f"--sequence-parallel {shares}")
        if answer.status:
            yield answer.err[-300:]
            return
        answers.append(answer_of(answer.out))
    whole, resident = ([answer["peak_bytes"]["gpu"] for answer in answers],
                       [answer["run"]["resident_peak_bytes"] for answer in answers])
    if abs(whole[0] - whole[1] - (2 * 64 - 1) * each) > 1 << 20:
        yield f"planned {whole}, by hand {(2 * 64 - 1) * each} less"
    if not 0.9 < (resident[0] - resident[1]) / (whole[0] - whole[1]) < 1.1:
        yield f"planned {whole}, resident {resident}"


def check_refusals(box):
    run = f"run -m llama.json {MACHINE} {TRAINING} --grad-accum 2 --batch 1 {ON}"
    for options, wanted, count in (
            (f"{run} -s ddp --tp 2 --seq 23", ["--tp 2", "--sequence-parallel off"], 2),
            (f"{run} -s ddp --tp 2 --pp 2 --schedule zb-h1",
             ["--schedule zb-h1", "--sequence-parallel off", "--schedule 1f1b"], 4),
            (f"{run} -s ddp --tp 2 --train lora:2", ["adapters"], 2)):
        answer = ranks(box, count, options)
        lines = [line for line in answer.err.splitlines() if line.startswith("memwall:")]
        for wrong in refused(Answer(answer.status, answer.out, "\n".join(lines)), wanted):
            yield f"{options}: {wrong}"


def tests(box):
    rng = random.Random(5)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(40000)))
    write_models(box)
    yield "plan", check_plan(box)
    yield "plan/frozen", check_frozen_plan(box)
    yield "plan/damaged", check_damaged(box)
    yield "from a plan", check_from_plan(box, f"-s zero1 --tp 2 {ON}")
    yield "memory", check_memory(box)
    yield "refusals", check_refusals(box)
    for name, case in of_rows(ALONE.items(), 4, 2):
        yield f"losses/{name}", check_alone(box, *case)
    for name, case in of_rows(SLICES.items(), 4, 2):
        yield f"slices/{name}", check_slices(box, *case)
    for name, case in of_rows(CHECKPOINTS.items(), 2, 2):
        yield f"checkpoints/{name}", check_checkpoint(box, *case)
    for name, case in of_rows(DURABLE.items(), 2, 2):
        yield f"resumed/{name}", check_resume(box, *case)
    yield "killed", check_kills(box, 11, 4, words("llama", 2, 2, f"{DRIVES} {ON}"), 1)


if __name__ == "__main__":
    sys.exit(report_ranked(Box, tests))
