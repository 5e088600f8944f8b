#!/usr/bin/python3
"""Data-parallel ranks whose gradients are updates one by one: planned, simulated and run; prints
TAP.

The losses are, to the last bit, those of a pipeline with vertical sync of as many stages, whose
micro-batches lack as many updates; what does not go with it is refused in one line.
"""
import json
import random
import re
import sys

from command import Answer, Box, refused
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in

MACHINE = "-H aws-p5-48xlarge"
ASYNC = "--data-parallel async"
MODEL = "-m layers=3,hidden=24,heads=4,ffn=40,vocab=256,architecture=llama --seq 16"
TRAINING = "--data text.txt --backend cpu --lr 2e-3 --steps 6 --batch 1"


def ranks(box, count, options):
    return box.run(options, prefix=[*MPIRUN, str(count)], **RANKS_ENVIRONMENT)


def losses(box, log):
    return [json.loads(line)["loss"] for line in (box.folder / log).read_text().splitlines()]


def trained(box, count, options):
    """The losses, to the last bit."""
    (box.folder / "log").unlink(missing_ok=True)
    answer = ranks(box, count, f"run {MODEL} {MACHINE} {TRAINING} {options} --log log")
    return answer, [] if answer.status else losses(box, "log")


def check_refused(box, options, words, count=0):
    answer = ranks(box, count, options) if count else box.run(options)
    said = "\n".join(line for line in answer.err.splitlines() if line.startswith("memwall:"))
    for wrong in refused(Answer(answer.status, answer.out, said), words):
        yield f"{options}: {wrong}"


def check_simulated(box):
    """The same of the model, of its plan and of DeepSpeed's file; and N times the update."""
    asked = f"-m gpt2 --batch 4 {MACHINE} --gpus 4"
    box.run(f"plan {asked} {ASYNC} -o async.plan")
    box.run(f"simulate {asked} {ASYNC} --write-deepspeed async.json")
    summed, planned, read, again = (
        json.loads(box.run(f"simulate {what} --json").out)["answers"][0]
        for what in (f"{asked} -s zero1", f"{asked} {ASYNC}", f"async.plan {MACHINE}",
                     f"{asked} --deepspeed async.json"))
    if planned["step_time_s"] != read["step_time_s"]:
        yield f"step of the model and of its plan: {planned['step_time_s']}, {read['step_time_s']}"
    for what, answer in (("model", planned), ("plan", read), ("DeepSpeed's file", again)):
        said = (answer["settings"].get("data_parallel"), answer["settings"].get("updates"))
        if said != ("async", 4):
            yield f"settings of the {what}: {said}"
    if "data_parallel" in summed["settings"]:
        yield f"settings of those that sum up: {summed['settings']}"
    if planned["strategy"] != "zero1":
        yield f"strategy auto is {planned['strategy']}"
    one, four = (next(term["plan_s"] for term in answer["terms"]
                      if term["what"] == "parameter update") for answer in (summed, planned))
    if abs(four / one - 4) > 1e-9:
        yield f"updates in the closed form: {four} s, one takes {one} s"
    said = box.run(f"simulate {asked} {ASYNC}").out.decode()
    if "4 updates per step" not in said or "lack the 3 before it" not in said:
        yield f"simulate does not say how old gradients are: {said}"


def check_listed(box):
    rows = json.loads(box.run("list data-parallel --json").out)["data_parallel"]
    if [(r["data_parallel"], r["runs"], r["staleness"]) for r in rows] != [
            ("sync", True, "none"), ("async", True, "N - 1 updates")]:
        yield f"list data-parallel: {rows}"


def check_unlike(box):
    """A plan whose ranks sum up, under the name of one in which they do not."""
    asked = f"-m gpt2 --batch 4 {MACHINE} --gpus 4 -s zero1"
    box.run(f"plan {asked} {ASYNC} -o async.plan")
    text = (box.folder / "async.plan").read_text()
    for pattern, change in ((r"^(work \d+) all-to-all gradients", r"\1 reduce-scatter gradients"),
                            (r"^(work \d+) all-to-all updated", r"\1 all-gather updated"),
                            (r"^(step .*) asynchronous", r"\1")):
        changed = re.sub(pattern, change, text, flags=re.M)
        if changed == text:
            yield f"nothing to change: {pattern}"
        box.write("changed.plan", changed)
        yield from check_refused(box, f"simulate changed.plan {MACHINE}", ["changed.plan: line "])
    for other in ("-s zero3", "-s zero2", "-s ddp", "-s zero-offload", "-s zero1 --tp 2",
                  "-s zero-offload --dpu-start 1", "-s zero3 --shard-group 2",
                  "-s zero1 --optimizer adafactor"):
        box.run(f"plan -m gpt2 --batch 4 {MACHINE} --gpus 4 {other} -o sum.plan")
        text = (box.folder / "sum.plan").read_text()
        box.write("changed.plan", re.sub(r"^(step .* dropout\b(?: [st]\w+-\w+)*)",
                                         r"\1 asynchronous", text, flags=re.M))
        yield from check_refused(box, f"simulate changed.plan {MACHINE}", ["changed.plan: "])


def check_versions(box, count, options, of_ranks, of_stages):
    """As many stages with vertical sync have the same recurrence, by other ranks."""
    kept = f"--clip 0 --activation-checkpoint-interval 0 {options}"
    turns, ours = trained(box, count, f"-s zero1 {ASYNC} {of_ranks} {kept}")
    stages, theirs = trained(box, count, f"-s ddp --pp {count} --schedule vertical-sync "
                                         f"--grad-accum {count} {of_stages} {kept}")
    if len(set(ours)) != 6 or ours != theirs:
        yield f"{ours}, vertical sync {theirs}: {turns.err[-300:]} {stages.err[-300:]}"
    _, again = trained(box, count, f"-s zero1 {ASYNC} {of_ranks} {kept}")
    if again != ours:
        yield f"{ours}, once more {again}"
    _, summed = trained(box, count, f"-s zero1 {of_ranks} {kept}")
    if summed[0] != ours[0] or summed[1] == ours[1]:
        yield f"{ours}, of sums {summed}"


def check_goes_with(box, options):
    """What only has to train: two runs to the same bits, a loss that falls."""
    answer, ours = trained(box, 2, f"-s zero1 {ASYNC} {options}")
    _, again = trained(box, 2, f"-s zero1 {ASYNC} {options}")
    if len(ours) != 6 or ours != again or not ours[-1] < ours[0]:
        yield f"{ours}, once more {again}: {answer.err[-300:]}"


def check_saved(box):
    """What is saved is the newest of all versions; a run of sums goes on from there."""
    run = f"run {MODEL} {MACHINE} {TRAINING}"
    saved = ranks(box, 2, f"{run} -s zero1 {ASYNC} --save newest")
    more = box.run(f"{run.replace('--steps 6', '--steps 8')} -s zero1 --from newest")
    begun = ranks(box, 2, f"{run} -s zero1 {ASYNC} --weights newest")
    for what, answer in (("saved", saved), ("--from", more), ("--weights", begun)):
        if answer.status:
            yield f"{what}: status {answer.status}: {answer.err[-300:]}"
    yield from check_refused(box, f"{run.replace('--steps 6', '--steps 8')} -s zero1 {ASYNC} "
                             "--from newest", ["--from", "give --weights", "sync"], 2)


def check_skipped(box):
    """Gradients that are not finite update nothing, and are counted by steps."""
    run = f"run {MODEL} {MACHINE} {TRAINING.replace('--steps 6', '--steps 9')} -s zero1 {ASYNC}"
    answer = ranks(box, 2, f"{run} --dtype fp16 --loss-scale 16777216 --log log")
    rows = [json.loads(line) for line in (box.folder / "log").read_text().splitlines()]
    if len(rows) < 7 or not all(row["skipped"] for row in rows):
        yield f"skipped: {rows}"
    if not answer.status or "step 8: " not in answer.err or "the 7 steps before" not in answer.err:
        yield f"status {answer.status}: {answer.err[-400:]}"


def check_refusals(box):
    asked = f"simulate -m gpt2 {MACHINE} --gpus 4 --batch 1 {ASYNC}"
    for options, words in (("-s zero2", ["-s zero1"]), ("-s ddp", ["-s zero1"]),
                           ("-s zero-offload", ["-s zero1"]),
                           ("--tp 2", ["--tp 1"]),
                           ("--pp 2 --activation-checkpoint-interval 0", ["--pp 1"]),
                           ("--cp 2", ["--cp 1"]), ("--shard-group 2", ["--shard-group all"]),
                           ("--optimizer muon", ["another --optimizer"]),
                           ("--optimizer adafactor", ["another --optimizer"]),
                           ("--optimizer adamw-pure", ["another --optimizer"]),
                           ("--update beside", ["--update end"]),
                           ("--drop-layers 1/-", ["without --drop-layers"]),
                           ("--save-every 5", ["without --commit and --save-every"])):
        yield from check_refused(box, f"{asked} {'' if '-s ' in options else '-s zero1'} {options}",
                                 ["--data-parallel async", *words, "--data-parallel sync"])
    yield from check_refused(box, f"{asked} -s zero1".replace("--gpus 4", "--gpus 1"),
                             ["one data-parallel GPU", "leave it out"])
    yield from check_refused(box, f"{asked}hronous", ["sync", "or async"])
    for target in ("memwall", "megatron", "deepspeed"):
        box.write("pick.json", box.run(f"{asked} --json").out.decode())
        answer = box.run(f"export pick.json --for {target} -o job-{target}")
        if answer.status != 2 or "--data-parallel async" not in answer.err:
            yield f"export --for {target}: {answer.status} {answer.err}"


def check_run_refusals(box):
    run = f"run {MODEL} {MACHINE} {TRAINING} -s zero1 {ASYNC}"
    for options, words in (("--loss-scale dynamic", ["--loss-scale dynamic", "give a number"]),
                           ("--save-every 2", ["without --commit and --save-every"])):
        yield from check_refused(box, f"{run} {options}", words, 2)
    yield from check_refused(box, run, ["one data-parallel GPU"])


GOES_WITH = ("--clip 0.1", "--grad-accum 2", "--dtype fp32", "--optimizer adamw-8bit",
             "--optimizer lion --lr 3e-4", "--train lora:4 --lr 3e-2", "--train qkv,final-norm",
             "--tiles 3 --logits-chunks 2", "--optimizer-chunk 700",
             "--activation-checkpoint-interval 1 --activation-device cpu")


def tests(box):
    rng = random.Random(7)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(20000)))
    yield "simulated", check_simulated(box)
    yield "listed", check_listed(box)
    yield "unlike", check_unlike(box)
    yield "refusals", check_refusals(box)
    if not has_ranks():
        return
    yield "two ranks", check_versions(box, 2, "", "", "")
    yield "three ranks", check_versions(box, 3, "--dtype fp32 --lr-schedule cosine", "", "")
    for options in GOES_WITH:
        yield options, check_goes_with(box, options)
    yield "saved", check_saved(box)
    yield "skipped", check_skipped(box)
    yield "run refusals", check_run_refusals(box)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
