#!/usr/bin/python3
"""`memwall run --plan FILE`: a plan that one call wrote is trained by another; prints TAP.

The weights have the bits of the run that planned itself, alone and of two ranks; a run continues
from its durable steps; a plan that is not of this version, of this model or of this kind of run is
refused in one line; and no number in a plan's text makes a run read or write what is not its own.
"""
import os
import random
import re
import shutil
import subprocess
import sys

from command import FEW, MEMWALL, ROOT, Box, refused
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in

SEED, CHANGES = 13, 40 if FEW else 120
MACHINE = "-H rtx4090 --set gpu.memory_gib=2"
TRAINING = "--data text.txt --backend cpu --lr 2e-3"
DRIVES = "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme"
PLANS = {
    "accumulated on drives": f"{DRIVES} --batch 2 --grad-accum 2",
    "offload": "-s zero-offload --batch 2",
    "fp16, checkpoints": "-s ddp --batch 3 --dtype fp16 --activation-checkpoint-interval 1",
    "tiles, chunks": "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu --batch 2"
                     " --tiles 2 --logits-chunks 2",
    "shared bytes": "-s zero-offload --batch 3 --activation-checkpoint-interval 1 --share-slots on",
    "delayed from the first": "-s zero-offload --batch 2 --dpu-start 0",
    "delayed from the third": "-s zero-offload --batch 2 --dpu-start 2",
    "layers left out": "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu --batch 2"
                       " --drop-layers 1/-/0@1",
    "layers left out on drives": f"{DRIVES} --batch 2 --commit step --drop-layers 1/-/0",
}


def model(name):
    return f"-m {ROOT}/tests/fixtures/{name}/config.json {MACHINE}"


# What run plans with: other software takes memory beside a plan that these small devices lack.
OWN = "--software memwall"


def prepare(box):
    rng = random.Random(SEED)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(20000)))


def fresh(box):
    for name in ("drive", "state", "own", "other", "half"):
        shutil.rmtree(box.folder / name, ignore_errors=True)
    (box.folder / "drive").mkdir()


def weights(box, folder):
    return (box.folder / folder / "model.safetensors").read_bytes()


def done(answer, what):
    if answer.status:
        yield f"{what}: status {answer.status}: {answer.err.strip()[-300:]}"


def check_bits(box, name, options):
    """Both runs, and the file between them."""
    fresh(box)
    drives = "--nvme drive --overwrite" if "nvme" in options else ""
    yield from done(box.run(f"run {model(name)} {options} {TRAINING} --steps 8 {drives} "
                            "--save own"), "of its own")
    yield from done(box.run(f"plan {model(name)} {options} {OWN} -o plan.txt"), "plan")
    yield from done(box.run(f"run --plan plan.txt {MACHINE} {TRAINING} --steps 8 {drives} "
                            "--save other"), "by the file")
    if weights(box, "own") != weights(box, "other"):
        yield "other weights"


def check_resume(box):
    fresh(box)
    options = f"{DRIVES} --batch 2 --commit step"
    yield from done(box.run(f"run {model('gpt2-small')} {options} {TRAINING} --steps 8 "
                            "--nvme drive --save own"), "of its own")
    shutil.rmtree(box.folder / "drive")
    (box.folder / "drive").mkdir()
    yield from done(box.run(f"plan {model('gpt2-small')} {options} {OWN} -o plan.txt"), "plan")
    yield from done(box.run(f"run --plan plan.txt {MACHINE} {TRAINING} --steps 5 --nvme drive"),
                    "half")
    yield from done(box.run("run --resume --backend cpu --steps 8 --save other"), "resume")
    if weights(box, "own") != weights(box, "other"):
        yield "other weights"


def check_ranks(box):
    fresh(box)
    two = f"-m {ROOT}/tests/fixtures/gpt2-small/config.json -H dgx-a100 --gpus 2 -s zero3 --batch 2"
    yield from done(box.run(f"plan {two} {OWN} -o plan.txt"), "plan")
    for options, folder in ((two, "own"), ("--plan plan.txt -H dgx-a100", "other")):
        ran = subprocess.run([*MPIRUN, "2", str(MEMWALL), "run", *options.split(),
                              *TRAINING.split(), "--steps", "4", "--save", folder],
                             cwd=box.folder, env={**box.environment, **RANKS_ENVIRONMENT},
                             capture_output=True, text=True, check=False)
        if ran.returncode:
            yield f"{folder}: status {ran.returncode}: {ran.stderr[-300:]}"
            return
    if weights(box, "own") != weights(box, "other"):
        yield "other weights"


def check_refusals(box):
    fresh(box)
    box.run(f"plan {model('gpt2-small')} -s ddp --batch 2 {OWN} -o plan.txt")
    box.run("plan -m gemma-2-2b -H rtx4090 --batch 1 -o other.txt")
    box.run(f"plan {model('gpt2-small')} -s zero-offload --batch 2 --dpu-start 3 {OWN} -o late.txt")
    box.run(f"plan {model('gpt2-small')} -s zero-offload --batch 2 --update beside {OWN} "
            "-o beside.txt")
    text = (box.folder / "plan.txt").read_text()
    late = (box.folder / "late.txt").read_text()
    late = late[:late.index("from 0 variants")]
    box.write("lost.txt", late)
    second = text.replace("save-every 0", "save-every 3")
    box.write("differ.txt", f"{text}{second}from 0 variants 0 1\nend\n")
    box.write("old.txt", text.replace("memwall-plan 7", "memwall-plan 6"))
    box.write("role.txt", text.replace(":read:input", ":read:record", 1))
    line = 1 + text[:text.index(":read:input")].count("\n")
    shape = 1 + text[:text.index("\nstep ") + 1].count("\n")
    box.write("interval.txt", text.replace(" interval 0 ", " interval 1 "))
    box.write("shape.txt", text.replace("micro-batches 1 ", "micro-batches 0 "))
    agree = re.compile(r"(?m)^(op \d+ .* optimizer .*) after [^u\n]*$")
    box.write("clip.txt", agree.sub(r"\1", text))
    box.write("cut.txt", text[:text.index("\nend\n") + 1])
    rest = f"{MACHINE} {TRAINING} --steps 1"
    for words, said in (
            (f"--plan none.txt {rest}", ["none.txt"]),
            (f"--plan old.txt {rest}", ["line 1", "version 7", "'6'"]),
            (f"--plan role.txt {rest}", [f"line {line}:", "a role of a compute"]),
            (f"--plan interval.txt {rest}", ["interval.txt: line ", "the step's shape"]),
            (f"--plan shape.txt {rest}", [f"shape.txt: line {shape}: step", "out of range"]),
            (f"--plan clip.txt {rest}", ["clip.txt: line ", "need not wait for"]),
            (f"--plan cut.txt {rest}", ["cut.txt: line ", "the end of the file"]),
            (f"--plan other.txt -H rtx4090 {TRAINING}", ["--plan other.txt", "model"]),
            (f"--plan beside.txt {rest}", ["--plan beside.txt", "beside backward"]),
            (f"{model('gpt2-small')} {TRAINING} --steps 1 -s zero-offload --update beside",
             ["--update beside", "--update end"]),
            (f"--plan lost.txt {rest}", [f"line {late.count(chr(10)) + 1}:", "from 0 variants"]),
            (f"--plan differ.txt {rest}", ["txt: line ", "variant 1", '"step"', "variant 0"]),
            (f"--plan plan.txt -m gpt2 {rest}", ["--model"]),
            (f"--plan plan.txt --batch 3 {rest}", ["--batch"]),
            (f"--plan text.txt {rest}", ["text.txt"])):
        for wrong in refused(box.run(f"run {words}"), said):
            yield f"{words}: {wrong}"


def check_lanes(box):
    """Ranks that would wait for each other forever, as their ops are in other lanes, do not begin:
    whatever a plan's lanes are, simulate refuses it, or a run of two ranks comes to its end."""
    fresh(box)
    two = f"-m {ROOT}/tests/fixtures/llama-small/config.json -H dgx-a100 --gpus 2 --pp 2 --batch 1"
    yield from done(box.run(f"plan {two} --grad-accum 3 {OWN} -o plan.txt"), "plan")
    lines = (box.folder / "plan.txt").read_text().splitlines()
    lane = re.compile(r"lane (\d+) program (\d+) collective index (\d+) ")
    lanes = {int(m[1]): m for m in map(lane.match, lines) if m}
    texts = {}
    for at, line in enumerate(lines):
        found = lane.match(line)
        for index in range(3) if found else ():
            texts[f"{line} -> {index}"] = at, re.sub(r"index \d+", f"index {index}", line)
        op = re.match(r"op \d+ lane (\d+) work (\d+) ", line)
        for other, is_of in lanes.items() if op and int(op[1]) in lanes else ():
            if is_of[2] == lanes[int(op[1])][2]:
                texts[f"work {op[2]} in {other}"] = at, re.sub(r" lane \d+", f" lane {other}", line,
                                                             count=1)
    for what, (at, line) in texts.items():
        box.write("changed.txt", "\n".join([*lines[:at], line, *lines[at + 1:], ""]))
        if box.run("simulate changed.txt").status:
            continue
        ran = subprocess.run([*MPIRUN, "2", str(MEMWALL), "run", *"--plan changed.txt".split(),
                              *"-H dgx-a100 --patience 10 --steps 2".split(), *TRAINING.split()],
                             cwd=box.folder, env={**box.environment, **RANKS_ENVIRONMENT},
                             capture_output=True, text=True, check=False)
        if "no op has ended" in ran.stderr or ran.returncode not in (0, 2):
            yield f"{what}: status {ran.returncode}: {ran.stderr[-300:]}"
    text = "\n".join([*lines, ""])
    box.write("changed.txt", text.replace("collective index 0", "collective index 2", 1))
    yield from refused(box.run("simulate changed.txt"),
                       ["changed.txt: line ", "ranks meet in lanes of one index"])


def changed(text, rng):
    """One number of a line that is not of the head, or one whole line, is another."""
    lines = text.splitlines(keepends=True)
    at = rng.randrange(7, len(lines))
    numbers = list(re.finditer(r"\d+", lines[at]))
    if not numbers or rng.random() < 0.1:
        del lines[at]
        return "".join(lines)
    number = rng.choice(numbers)
    value = int(number[0])
    other = rng.choice([0, 1, value + 1, max(0, value - 1), 2 * value + 1, 4096, 2**31, 2**62])
    lines[at] = lines[at][:number.start()] + str(other) + lines[at][number.end():]
    return "".join(lines)


def check_changed(box):
    fresh(box)
    rng = random.Random(SEED)
    ran = 0
    for options in ("-s zero-infinity-cpu --param-device cpu --optimizer-device cpu --batch 2",
                    "-s zero-offload --batch 2 --grad-accum 2",
                    "-s ddp --batch 2 --tiles 2 --activation-checkpoint-interval 1 "
                    "--share-slots on",
                    f"{DRIVES} --batch 2 --commit none"):
        yield from done(box.run(f"plan {model('gpt2-small')} {options} {OWN} -o plan.txt"), "plan")
        text = (box.folder / "plan.txt").read_text()
        for number in range(CHANGES // 4):
            box.write("changed.txt", changed(text, rng))
            answer = box.run(f"run --plan changed.txt {MACHINE} {TRAINING} --steps 2 --nvme drive "
                             "--overwrite")
            ran += answer.status == 0
            if answer.status not in (0, 1, 2, 3):
                shutil.copy(box.folder / "changed.txt", ROOT / "out" / f"plan-run-{number}.txt")
                yield f"{options}, {number}: status {answer.status}: {answer.err[-300:]}"
    if ran == CHANGES // 4 * 4:
        yield "no change was refused"


def tests(box):
    os.makedirs(ROOT / "out", exist_ok=True)
    prepare(box)
    for name in ("gpt2-small", "llama-small"):
        for what, options in PLANS.items():
            yield f"bits/{name}/{what}", check_bits(box, name, options)
    yield "resume", check_resume(box)
    yield "refusals", check_refusals(box)
    yield "changed", check_changed(box)
    if has_ranks():
        yield "two-ranks", check_ranks(box)
        yield "lanes", check_lanes(box)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
