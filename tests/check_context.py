#!/usr/bin/python3
"""Ranks that share sequences: each trains on a part of the tokens of every one; prints TAP.

The losses and norms in fp32 are those of one rank with the same global batch, to the last digit
that is printed, whether all-to-alls give each rank all tokens of some heads or keys and values pass
around a ring, whatever is sharded, offloaded or recomputed; so are those of a run that was killed
and resumed.  What cannot be shared is refused in one line.
"""
import json
import random
import re
import shutil
import sys

from check_slices import ranks, steps
from check_slices_durable import check_kills
from command import ROOT, Answer, Box, of_rows, refused
from tap import report_ranked

MACHINE = "-H aws-p5-48xlarge"
TRAINING = "--data text.txt --backend cpu --dtype fp32 --lr 2e-3 --steps 4"
FIXTURES = ROOT / "tests/fixtures"
HEADS, RING = "--cp-kind all-to-all", "--cp-kind ring"

# Per case: the model, sequences of a micro-batch, groups that share each, ranks of a group, how,
# slices, stages, and what else is asked.
CASES = {
    "heads": ("gpt2", 2, 1, 2, HEADS, 1, 1, "-s ddp --activation-checkpoint-interval 0"),
    "heads of groups": ("llama", 2, 2, 2, HEADS, 1, 1,
                        "-s zero3 --activation-checkpoint-interval 1"),
    "heads, norms of q and k": ("qwen3", 1, 1, 2, HEADS, 1, 1, "-s zero-infinity-cpu "
                                "--activation-checkpoint-interval 1 --activation-device cpu"),
    "heads of slices": ("gpt2", 2, 1, 2, HEADS, 2, 1, "-s ddp"),
    "heads, adapters, in stages": ("llama", 1, 1, 2, HEADS, 1, 2, "-s zero1 --train lora:2 "
                                   "--activation-checkpoint-interval 1"),
    "ring of three, positions learned": ("gpt2", 2, 1, 3, RING, 1, 1,
                                         "-s zero2 --tiles 2 --logits-chunks 2"),
    "ring of four, norms of q and k": ("qwen3", 2, 1, 4, RING, 1, 1, "-s zero-offload "
                                       "--dpu-start 2 --activation-checkpoint-interval 1"),
    "ring of slices": ("llama", 2, 1, 2, RING, 2, 1, "-s ddp"),
    "ring, frozen": ("llama", 1, 1, 2, RING, 1, 1,
                     "-s ddp --train mlp-up --activation-checkpoint-interval 1"),
    "ring of a mixture": ("mixtral", 1, 1, 2, RING, 1, 1, "-s zero2"),
}

DRIVES = "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme --commit step"
DURABLE = "-H aws-p5-48xlarge --data text.txt --backend cpu --dtype fp32 --lr 2e-3 --batch 1 " \
          "--grad-accum 2 --nvme drive --log log"


def write_models(box):
    gpt2 = json.loads((FIXTURES / "gpt2-small/config.json").read_text())
    llama = json.loads((FIXTURES / "llama-small/config.json").read_text())
    for name, config in (("gpt2", gpt2), ("llama", llama),
                         ("qwen3", llama | {"model_type": "qwen3"}),
                         ("mixtral", llama | {"model_type": "mixtral", "num_local_experts": 4,
                                              "num_experts_per_tok": 2})):
        box.write(f"{name}.json", json.dumps(config))


def check_case(box, model, sequences, groups, sharers, kind, slices, stages, options):
    asked = f"run -m {model}.json {MACHINE} {TRAINING} --grad-accum 2 {options}"
    alone = box.run(f"{asked} --batch {sequences * groups}")
    if len(steps(alone)) != 4:
        yield f"alone: {alone.err[-300:]}"
    count, batch = groups * sharers * slices * stages, sequences / (sharers * slices)
    shared = ranks(box, count, f"{asked} --batch {batch} --cp {sharers} {kind} --tp {slices} "
                               f"--pp {stages}")
    if steps(shared) != steps(alone):
        yield f"{steps(shared)}, alone {steps(alone)}: {shared.err[-300:]}"


def check_half(box):
    """In bf16 sums are rounded in another order."""
    asked = f"run -m llama.json {MACHINE} {TRAINING} --dtype bf16 --grad-accum 2 -s zero2"
    alone = [float(loss) for loss, _ in steps(box.run(f"{asked} --batch 2"))]
    for kind in (HEADS, RING):
        shared = [float(loss) for loss, _ in
                  steps(ranks(box, 2, f"{asked} --batch 1 --cp 2 {kind}"))]
        if len(shared) != 4 or any(abs(a - b) > 1e-3 * b for a, b in zip(shared, alone)):
            yield f"{kind}: {shared}, alone {alone}"


def check_from_plan(box):
    """A plan's file has all ranks' sequences, of which each takes its share."""
    for kind in (HEADS, RING):
        asked = f"-m llama.json {MACHINE} -s zero3 --batch 1 --grad-accum 2 --cp 2 {kind}"
        planned = box.run(f"plan {asked} --gpus 2 --dtype fp32 --software memwall -o shared.plan")
        if b"cannot run" in planned.out:
            yield f"{kind}: {planned.out.decode()[-300:]}"
        training = TRAINING.replace("--dtype fp32", "")
        of_plan = ranks(box, 2, f"run --plan shared.plan {MACHINE} {training}")
        of_model = ranks(box, 2, f"run {asked} {TRAINING}")
        if len(steps(of_plan)) != 4 or steps(of_plan) != steps(of_model):
            yield f"{kind}: {steps(of_plan)}, of the model {steps(of_model)}: {of_plan.err[-300:]}"


def check_zero_bubble(box):
    """Planned and simulated, also from a file; what runs is another schedule."""
    for kind in (HEADS, RING):
        asked = f"-m llama.json {MACHINE} -s ddp --batch 0.5 --grad-accum 4 --cp 2 {kind} --pp 2 " \
                "--gpus 4 --schedule zb-h1 --activation-checkpoint-interval 0 --software memwall"
        box.run(f"plan {asked} -o shared.plan")
        steps_s = []
        for what in (f"{asked} --json", f"shared.plan {MACHINE} --software memwall --json"):
            answer = box.run(f"simulate {what}")
            if answer.status:
                yield f"{kind}: {answer.err}"
                return
            steps_s.append(json.loads(answer.out)["answers"][0]["step_time_s"])
        if steps_s[0] != steps_s[1]:
            yield f"{kind}: {steps_s}"
        answer = ranks(box, 4, f"run --plan shared.plan {MACHINE} --data text.txt --backend cpu "
                               "--steps 1")
        if answer.status == 0 or "--schedule zb-h1" not in answer.err:
            yield f"{kind}: status {answer.status}: {answer.err[-300:]}"


def check_damaged(box):
    """A plan's file whose collectives are of other bytes than ranks have."""
    for kind, name in ((HEADS, "all-to-all"), (RING, "ring-pass")):
        box.run(f"plan -m llama.json {MACHINE} -s zero3 --batch 1 --grad-accum 2 --cp 2 {kind} "
                "--gpus 2 --software memwall -o shared.plan")
        text = (box.folder / "shared.plan").read_text()
        changed = re.sub(rf"^(work \d+ {name} .* bytes) \d+", r"\1 1024", text, flags=re.M)
        if changed == text:
            yield f"nothing to change: {name}"
        box.write("changed.plan", changed)
        answer = ranks(box, 2, f"run --plan changed.plan {MACHINE} --data text.txt --backend cpu "
                               "--steps 1")
        if not answer.status or "moves more or less than there is" not in answer.err:
            yield f"{name}: {answer.status}: {answer.err[-300:]}"


def check_checkpoint(box):
    """Two ranks in a ring continue the checkpoint of two that exchanged heads, then one does."""
    asked = f"run -m llama.json {MACHINE} {TRAINING} --grad-accum 2 -s zero1"
    alone = box.run(f"{asked} --batch 2")
    turns = ((2, f"--batch 1 --cp 2 {HEADS}"), (2, f"--batch 1 --cp 2 {RING}"), (1, "--batch 2"))
    got = []
    for turn, (count, words) in enumerate(turns):
        start = f"--from saved{turn - 1}" if turn else ""
        shutil.rmtree(box.folder / f"saved{turn}", ignore_errors=True)
        one = ranks(box, count, f"{asked} {words} {start} --steps {turn + 1} --save saved{turn}")
        got += steps(one)
        if one.status:
            yield f"{words}: {one.err[-300:]}"
    if got != steps(alone)[:3]:
        yield f"{got}, alone {steps(alone)}"


def said(answer):
    """Under mpirun its own lines stand beside the command's."""
    return Answer(answer.status, answer.out, "\n".join(
        line for line in answer.err.splitlines() if line.startswith("memwall:")))


def check_resumes(box):
    """By the run's directory alone; another number of ranks per sequence is refused, another way
    to share is said to change digits."""
    asked = f"-m llama.json {DURABLE} {DRIVES}"
    shutil.rmtree(box.folder / "drive", ignore_errors=True)
    (box.folder / "drive").mkdir()
    first = ranks(box, 2, f"run {asked} --cp 2 {HEADS} --steps 2")
    found = ranks(box, 2, "run --resume drive --backend cpu --steps 3")
    other = ranks(box, 2, f"run {asked} --cp 2 {RING} --steps 4 --resume")
    whole = ranks(box, 2, f"run {asked} --cp 1 --steps 5 --resume")
    if whole.status != 2 or "cannot resume with --cp 1: the run was started with --cp 2; give " \
            "--cp 2" not in whole.err:
        yield f"whole sequences: {whole.status}: {whole.err}"
    if "--cp-kind" not in other.err or "last digits" not in other.err:
        yield f"another way: {other.err}"
    alone = box.run(f"run -m llama.json {MACHINE} {TRAINING} --grad-accum 2 -s ddp --batch 2")
    if [*steps(first), *steps(found), *steps(other)] != steps(alone):
        yield f"{steps(first)}, {steps(found)}, {steps(other)}, alone {steps(alone)}"


def check_refused(box, options, words, count):
    for wrong in refused(said(ranks(box, count, options)), words):
        yield f"{options}: {wrong}"


def check_refusals(box):
    run = f"run -m llama.json {MACHINE} {TRAINING} -s ddp --batch 1 --grad-accum 2"
    stages = f"{run} --cp 2 --pp 2"
    for options, words, count in (
            (f"{run} --cp 2 --gpus 2", ["mpirun -n 2"], 1),
            (f"{run} --cp 4 {HEADS}", ["--cp 4", "2 key and value heads", "give 2"], 4),
            (f"{run} --cp 2 --seq 18", ["--cp 2", "twice it the 18 tokens"], 2),
            (f"{stages} --schedule zb-h1", ["zb-h1", "give --schedule 1f1b or gpipe"], 4),
            (f"{stages} --schedule 2bw --activation-checkpoint-interval 0",
             ["--cp 2", "give --cp 1, or --schedule 1f1b"], 4)):
        yield from check_refused(box, options, words, count)


def tests(box):
    rng = random.Random(5)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(40000)))
    write_models(box)
    for name, case in of_rows(CASES.items(), 3):
        yield f"losses/{name}", check_case(box, *case)
    yield "bf16", check_half(box)
    yield "from a plan", check_from_plan(box)
    yield "zero bubble", check_zero_bubble(box)
    yield "damaged plan", check_damaged(box)
    yield "checkpoints", check_checkpoint(box)
    yield "resumes", check_resumes(box)
    yield "refusals", check_refusals(box)
    yield "killed", check_kills(box, 9, 2, f"-m llama.json {DURABLE} {DRIVES} --cp 2 {RING}", 1)


if __name__ == "__main__":
    sys.exit(report_ranked(Box, tests))
