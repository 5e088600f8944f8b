#!/usr/bin/python3
"""Sharding groups: ranks divide a state within groups that hold replicas of it; prints TAP.

The losses and norms in fp32 are those of one rank, to the last digit that is printed, whatever is
sharded, offloaded or recomputed, with slices, stages or shared sequences beside them.  All groups
have the same bits at any time.  Runs continue after kills with the losses of the undisturbed run,
checkpoints of groups are continued by any other division, and a state that was written by one of
them is exported and verified.  What groups do not go with is refused in one line.
"""
import json
import random
import re
import shutil
import sys

from check_slices import ranks, steps
from check_slices_durable import check_kills, check_same, empty, good, losses
from command import ROOT, Answer, Box, of_rows, refused, unless_few
from tap import report_ranked

MACHINE = "-H aws-p5-48xlarge"
TRAINING = "--data text.txt --backend cpu --dtype fp32 --lr 2e-3 --steps 4"
FIXTURES = ROOT / "tests/fixtures"
EACH = "--activation-checkpoint-interval 1"
ALL_ON_DRIVES = "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme"

# Per case: the model, ranks of a group, groups, ranks that share sequences, slices, stages, and
# what else is asked.
CASES = {
    "state": ("gpt2", 2, 2, 1, 1, 1, "-s zero1"),
    "state, summed layer by layer": ("llama", 2, 2, 1, 1, 1, "-s l2l"),
    "gradients, tiles": ("gpt2", 2, 2, 1, 1, 1, "-s zero2 --tiles 2 --logits-chunks 2"),
    "parameters": ("llama", 2, 3, 1, 1, 1, f"-s zero3 {EACH}"),
    "uneven shards": ("odd", 3, 2, 1, 1, 1, "-s zero3 --tiles 2"),
    "offloaded": ("llama", 2, 2, 1, 1, 1, "-s zero-infinity-cpu --param-device cpu"),
    "drives": ("gpt2", 2, 2, 1, 1, 1, ALL_ON_DRIVES),
    "delayed update": ("llama", 2, 2, 1, 1, 1, "-s zero-offload --dpu-start 2"),
    "slices": ("llama", 2, 2, 1, 2, 1, f"-s zero2 {EACH}"),
    "tied stages": ("gpt2", 2, 2, 1, 1, 2, "-s zero1"),
    "ring across groups": ("llama", 2, 2, 4, 1, 1, "-s zero3 --cp-kind ring"),
    "heads": ("llama", 2, 2, 2, 1, 1, "-s zero1 --cp-kind all-to-all"),
    "adapters": ("llama", 2, 2, 1, 1, 1, "-s zero1 --train lora:2"),
    "frozen": ("odd", 2, 2, 1, 1, 1, "-s zero3 --train qkv,final-norm"),
    "maxima of rows": ("llama", 2, 2, 1, 1, 1, "-s zero2 --optimizer sm3"),
    "sums of rows": ("llama", 2, 2, 1, 1, 1, "-s zero3 --optimizer adafactor"),
    "mixture": ("mixtral", 2, 2, 1, 1, 1, "-s zero2"),
}

# Per case: the model, what else is asked, and in turn how many ranks a group has, groups, slices
# and stages there are, of ranks that train from the checkpoint of the turn before.
CHECKPOINTS = {
    "other groups": ("llama", "-s zero3", (2, 2, 1, 1), (4, 1, 1, 1), (2, 1, 1, 1), (2, 2, 1, 1)),
    "slices and stages": ("gpt2", "-s zero1 --tiles 2", (2, 2, 1, 1), (1, 1, 2, 2), (2, 2, 1, 2)),
    "drives": ("llama", f"{ALL_ON_DRIVES} --train mlp-up", (2, 2, 1, 1), (1, 1, 1, 1)),
}

DURABLE = "-H aws-p5-48xlarge --data text.txt --backend cpu --dtype fp32 --lr 2e-3 --batch 1 " \
          "--grad-accum 2 --nvme drive --log log"
# Per case: the model, slices, stages, and what else is asked of four ranks, or eight, in groups of
# two.
RESUMED = {
    "drives": ("llama", 1, 1, f"{ALL_ON_DRIVES} --commit step"),
    "saved": ("gpt2", 1, 1, "-s zero2 --save-every 2"),
    "delayed update": ("llama", 1, 1, "-s zero-offload --dpu-start 2 --save-every 2"),
    "slices": ("llama", 2, 1, f"{ALL_ON_DRIVES} --commit step"),
    "stages": ("gpt2", 1, 2, "-s zero1 --save-every 2"),
    "sums of rows": ("llama", 1, 1, "-s zero1 --optimizer adafactor --save-every 2"),
    "frozen": ("odd", 1, 1, "-s zero3 --train qkv,final-norm --save-every 2"),
}
STEPS = 6


def write_models(box):
    gpt2 = json.loads((FIXTURES / "gpt2-small/config.json").read_text())
    llama = json.loads((FIXTURES / "llama-small/config.json").read_text())
    llama |= {"num_key_value_heads": 4}
    for name, config in (("gpt2", gpt2), ("odd", gpt2 | {"vocab_size": 259, "n_embd": 48,
                                                       "n_head": 6}), ("llama", llama),
                         ("mixtral", llama | {"model_type": "mixtral", "num_local_experts": 4,
                                              "num_experts_per_tok": 2})):
        box.write(f"{name}.json", json.dumps(config))


def check_case(box, model, size, groups, sharers, slices, stages, options):
    asked = f"run -m {model}.json {MACHINE} {TRAINING} --grad-accum 2 {options}"
    data = size * groups
    alone = box.run(f"{re.sub('--cp-kind [^ ]*', '', asked)} --batch {data}")
    if len(steps(alone)) != 4:
        yield f"alone: {alone.err[-300:]}"
    grouped = ranks(box, data * slices * stages, f"{asked} --batch {1 / slices} --cp {sharers} "
                    f"--tp {slices} --pp {stages} --shard-group {size}")
    if steps(grouped) != steps(alone):
        yield f"{steps(grouped)}, alone {steps(alone)}: {grouped.err[-300:]}"


def of_group(size, groups):
    return f"--shard-group {size}" if groups > 1 else ""


def check_checkpoint(box, model, options, *turns):
    """Each of the turns continues from the checkpoint of the one before, divided otherwise."""
    asked = f"run -m {model}.json {MACHINE} {TRAINING} --grad-accum 2 {options}"
    alone = box.run(f"{asked} --batch 4")
    got = []
    for turn, (size, groups, slices, stages) in enumerate(turns):
        start = f"--from saved{turn - 1}" if turn else ""
        shutil.rmtree(box.folder / f"saved{turn}", ignore_errors=True)
        one = ranks(box, size * groups * slices * stages,
                    f"{asked} --batch {4 // (size * groups * slices)} --tp {slices} --pp {stages} "
                    f"{of_group(size, groups)} {start} --steps {turn + 1} --save saved{turn}")
        if one.status:
            yield f"turn {turn}: {one.err[-300:]}"
        got += steps(one)
    if got != steps(alone)[:len(turns)]:
        yield f"{got}, alone {steps(alone)}"


def check_places(box):
    """With one micro-batch a gradient is summed up over groups in the same type wherever it goes,
    so all placements have the same bits."""
    made = {}
    for placement in ("-s zero2", "-s zero3", "-s zero-infinity-cpu", ALL_ON_DRIVES):
        shutil.rmtree(box.folder / "out", ignore_errors=True)
        answer = ranks(box, 4, f"run -m llama.json {MACHINE} {TRAINING} --dtype bf16 --batch 1 "
                       f"--grad-accum 1 {placement} --shard-group 2 --save out")
        made[placement] = answer.err[-300:] if answer.status else [
            (box.folder / "out" / f"{name}.safetensors").read_bytes()
            for name in ("model", "optimizer")]
    if any(one != made["-s zero2"] for one in made.values()):
        yield str([place for place, one in made.items() if one != made["-s zero2"]])


def check_replicas(box):
    """The files of ranks with the same shard in two groups have the same content."""
    empty(box)
    yield from good(ranks(box, 4, f"run -m gpt2.json {DURABLE} {ALL_ON_DRIVES} --commit step "
                          "--shard-group 2 --steps 3"))
    data = [(box.folder / f"drive/memwall-rank{rank}-1of1.data").read_bytes()[4096:]
            for rank in range(4)]
    if data[0] != data[2] or data[1] != data[3]:
        yield "replicas differ"
    if data[0] == data[1]:
        yield "shards of one group are alike"


def check_from_plan(box):
    asked = f"-m llama.json {MACHINE} -s zero3 --batch 1 --grad-accum 2 --shard-group 2"
    planned = box.run(f"plan {asked} --gpus 4 --dtype fp32 --software memwall -o groups.plan")
    if b"cannot run" in planned.out:
        yield planned.out.decode()[-300:]
    training = TRAINING.replace("--dtype fp32", "")
    of_plan = ranks(box, 4, f"run --plan groups.plan {MACHINE} {training}")
    of_model = ranks(box, 4, f"run {asked} {TRAINING}")
    if len(steps(of_plan)) != 4 or steps(of_plan) != steps(of_model):
        yield f"{steps(of_plan)}, of the model {steps(of_model)}: {of_plan.err[-300:]}"


def check_damaged(box):
    """A plan's file whose sums over groups are of another slot than the gradient's."""
    box.run(f"plan -m llama.json {MACHINE} -s zero2 --batch 1 --grad-accum 1 --shard-group 2 "
            "--gpus 4 --software memwall -o groups.plan")
    text = (box.folder / "groups.plan").read_text()
    sums = re.search(r"^work (\d+) all-reduce gradients .*$", text, re.M)
    op = re.search(rf"^op \d+ lane \d+ work {sums[1]} .*$", text, re.M)[0]
    changed = text.replace(op, re.sub(r" use \d+:", " use 0:", op))
    if changed == text:
        yield f"nothing to change: {op}"
        return
    box.write("changed.plan", changed)
    answer = ranks(box, 4, f"run --plan changed.plan {MACHINE} --data text.txt --backend cpu "
                           "--steps 1")
    if answer.status != 2:
        yield f"{answer.status}: {answer.err[-300:]}"


def check_resume(box, model, slices, stages, options):
    """By the run's directory alone, which says the groups; the export is what the run saves."""
    count = 4 * slices * stages
    asked = f"-m {model}.json {DURABLE} {options} --tp {slices} --pp {stages} --shard-group 2"
    empty(box)
    yield from good(ranks(box, count, f"run {asked} --steps {STEPS}"))
    expected = losses(box)
    empty(box)
    yield from good(ranks(box, count, f"run {asked} --steps 3"))
    yield from good(ranks(box, count, f"run --resume drive --backend cpu --steps {STEPS} "
                          "--save saved"))
    if len(expected) != STEPS or losses(box) != expected:
        yield f"{losses(box)}, undisturbed {expected}"
    yield from good(box.run("verify drive"))
    yield from good(box.run("export drive -o exported"))
    yield from check_same(box, "saved", "exported")


def check_verified(box):
    """What verify names is what the rank has, as its number in the group says."""
    empty(box)
    yield from good(ranks(box, 4, f"run -m llama.json {DURABLE} {ALL_ON_DRIVES} --commit step "
                          "--shard-group 2 --steps 2"))
    found = []
    for rank in (1, 3):
        file = box.folder / f"drive/memwall-rank{rank}-1of1.data"
        whole = file.read_bytes()
        file.write_bytes(bytes(byte ^ 1 for byte in whole))
        verified = box.run("verify drive")
        found.append(re.findall(rf"rank {rank}: (state of .*)", verified.out.decode()))
        if verified.status != 1:
            yield f"rank {rank}: {verified.status}: {verified.out.decode()}"
        exported = box.run("export drive -o exported")
        if rank == 1 and (exported.status != 1 or file.name not in exported.err):
            yield f"rank {rank}: exported: {exported.status}: {exported.err}"
        file.write_bytes(whole)
    if not found[0] or found[0] != found[1]:
        yield f"{found}"


def said(answer):
    """Under mpirun its own lines stand beside the command's."""
    return Answer(answer.status, answer.out, "\n".join(
        line for line in answer.err.splitlines() if line.startswith("memwall:")))


def check_refused(box, options, words, count):
    for wrong in refused(said(ranks(box, count, options)), words):
        yield f"{options}: {wrong}"


def check_other_groups(box):
    """A resume takes the groups that the run had."""
    asked = f"-m llama.json {DURABLE} -s zero2 --save-every 2"
    empty(box)
    yield from good(ranks(box, 4, f"run {asked} --shard-group 2 --steps 2"))
    for given in ("all", "4"):
        yield from check_refused(box, f"run {asked} --shard-group {given} --resume --steps 4",
                                 ["cannot resume with no --shard-group",
                                  "started with --shard-group 2; give --shard-group 2", "export"],
                                 4)
    yield from good(ranks(box, 4, f"run {asked} --shard-group 2 --resume --steps 4"))


def check_refusals(box):
    run = f"run -m llama.json {MACHINE} {TRAINING} --batch 1 --grad-accum 2"
    mixture = run.replace("llama", "mixtral")
    for options, words, count in (
            (f"{run} -s zero3 --shard-group 3", ["--shard-group 3", "must divide"], 4),
            (f"{run} -s zero3 --shard-group 2", ["--shard-group 2", "leave it out"], 1),
            (f"{run} -s ddp --shard-group 2", ["--shard-group 2", "ddp partitions nothing"], 4),
            (f"{run} -s zero3 --partition owner --shard-group 2", ["--partition bandwidth"], 4),
            (f"{mixture} -s zero3 --ep 2 --shard-group 2", ["--ep 2", "--shard-group all"], 4),
            (f"{run} -s zero1 --pp 2 --schedule 2bw --shard-group 2 "
             "--activation-checkpoint-interval 0", ["zero1: run divides no", "-s ddp"], 8)):
        yield from check_refused(box, options, words, count)


def tests(box):
    rng = random.Random(5)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(40000)))
    write_models(box)
    for name, case in of_rows(CASES.items(), 6, 3):
        yield f"losses/{name}", check_case(box, *case)
    yield "places", check_places(box)
    yield "replicas", check_replicas(box)
    yield "from a plan", check_from_plan(box)
    yield "damaged plan", check_damaged(box)
    for name, case in of_rows(CHECKPOINTS.items(), 2, 2):
        yield f"checkpoints/{name}", check_checkpoint(box, *case)
    for name, case in of_rows(RESUMED.items(), 2, 2):
        yield f"resumed/{name}", check_resume(box, *case)
    yield "verified", check_verified(box)
    yield "other groups", check_other_groups(box)
    yield "refusals", check_refusals(box)
    yield "killed/drives", check_kills(
        box, 9, 4, f"-m llama.json {DURABLE} {ALL_ON_DRIVES} --commit step --shard-group 2", 2)
    yield from unless_few(("killed/saved", check_kills(
        box, 10, 4, f"-m gpt2.json {DURABLE} -s zero1 --save-every 2 --shard-group 2", 1)))


if __name__ == "__main__":
    sys.exit(report_ranked(Box, tests))
