#!/usr/bin/python3
"""Durable steps of runs that leave parameters as they are, adapters among them; prints TAP.

Each is killed after a durable step, continued, and exported: the bits are those of a run that was
never disturbed.  What is not trained is read where the run read it, and refused if it has changed.
"""
import os
import random
import shutil
import sys

from command import ROOT, Box, kill_after, refused
from tap import MPIRUN, RANKS_ENVIRONMENT, Skip, has_ranks, report_in

SEED = 31
MACHINE = "-H rtx4090 --set gpu.memory_gib=2"
COURSE = "--data text.txt --backend cpu --lr 2e-3 --batch 2"
STEPS = 30
FILES = ("model", "adapter_model", "optimizer")
PLACEMENTS = {
    "on drives": "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme "
                 "--gradient-device nvme",
    "state on drives": "-s zero-infinity-nvme --param-device cpu --optimizer-device nvme",
    "in memory": "-s zero-offload --save-every 1",
    "on the GPU": "-s ddp --save-every 1",
}
TRAINED = {"adapters": "--train lora:4", "adapters of q, k and v in tiles":
           "--train lora:2@qkv --tiles 3", "adapters of some": "--train lora:3@q+v+up",
           "adapters of 8 bits": "--train lora:4 --weight-bits 8",
           "adapters of 4 bits": "--train lora:4@qkv --weight-bits 4 --tiles 2",
           "norms": "--train norm1,final-norm", "norms, in fp32": "--train norm2 --dtype fp32"}


def model(name):
    return f"-m {ROOT}/tests/fixtures/{name}/config.json"


def bits(box, folder):
    return {name: (box.folder / folder / f"{name}.safetensors").read_bytes() for name in FILES
            if (box.folder / folder / f"{name}.safetensors").exists()}


def refused_last(answer, words):
    """The line before it says what was taken from the run."""
    if answer.status != 2:
        yield f"status {answer.status}: {answer.err.strip()[-300:]}"
    for word in words:
        if word not in answer.err.strip().splitlines()[-1]:
            yield f"{word!r} is not in: {answer.err.strip()}"


def empty(box, *folders):
    for folder in folders:
        shutil.rmtree(box.folder / folder, ignore_errors=True)
    (box.folder / "drive").mkdir(exist_ok=True)


def train(box, line, expected=0, prefix=()):
    answer = box.run(f"run {line}", prefix=prefix)
    if answer.status != expected:
        yield f"{line}: status {answer.status}: {answer.err.strip()[-400:]}"


def check_killed(box, name, placement, trained, start):
    """Also where the kill comes after the last step: the resume then only saves."""
    line = f"{model(name)} {MACHINE} {placement} {trained} {COURSE} {start} --steps {STEPS}"
    empty(box, "drive", "whole", "resumed", "exported")
    yield from train(box, f"{line} --nvme drive --save whole")
    empty(box, "drive")
    kill_after(box, f"{line} --nvme drive", 2)
    yield from train(box, "--resume --nvme drive --save resumed")
    exported = box.run("export drive -o exported")
    if exported.status:
        yield f"export: {exported.err}"
    verified = box.run("verify drive")
    if verified.status or ("--weights" in start) != ("verify has not looked" in verified.err):
        yield f"verify: status {verified.status}: {verified.err}"
    for folder in ("resumed", "exported"):
        if bits(box, folder) != bits(box, "whole"):
            yield f"{folder}: other bits than of a run that was not killed"


def check_ranks(box):
    """Each rank has a shard of what is not trained."""
    if not has_ranks():
        yield Skip("no mpirun, or a build without MPI")
        return
    box.environment.update(RANKS_ENVIRONMENT)
    line = (f"{model('llama-small')} {MACHINE} {PLACEMENTS['on drives']} --train lora:4 --data "
            "text.txt --backend cpu --lr 2e-3 --batch 1 --weights base --nvme drive")
    prefix = [*MPIRUN, "2"]
    empty(box, "drive", "whole", "resumed", "exported")
    yield from train(box, f"{line} --steps 6 --save whole", prefix=prefix)
    empty(box, "drive")
    yield from train(box, f"{line} --steps 3", prefix=prefix)
    yield from train(box, "--resume --nvme drive --steps 6 --save resumed", prefix=prefix)
    exported = box.run("export drive -o exported")
    if exported.status:
        yield f"export: {exported.err}"
    for folder in ("resumed", "exported"):
        if bits(box, folder) != bits(box, "whole"):
            yield f"{folder}: other bits than of a run that did not stop"


def check_from(box):
    """A checkpoint has what is not trained, too."""
    line = f"{model('gpt2-small')} {MACHINE} {PLACEMENTS['on drives']} {COURSE} --train lora:4"
    empty(box, "drive", "whole", "half", "resumed")
    yield from train(box, f"{line} --weights gpt --steps 6 --commit none --overwrite --nvme drive "
                          "--save whole")
    empty(box, "drive")
    yield from train(box, f"{line} --weights gpt --steps 2 --nvme drive --save half")
    empty(box, "drive")
    yield from train(box, f"{line} --from half --steps 4 --nvme drive")
    yield from train(box, "--resume --nvme drive --steps 6 --save resumed")
    if bits(box, "resumed") != bits(box, "whole"):
        yield "other bits than of one run"


def check_moved(box):
    """What is not trained is found elsewhere, if told where; and refused if it is not the same."""
    line = f"{model('llama-small')} {MACHINE} {PLACEMENTS['on drives']} {COURSE} --train lora:4"
    empty(box, "drive", "moved", "out")
    yield from train(box, f"{line} --weights base --steps 3 --nvme drive")
    more = "run --resume --nvme drive --steps 5"
    os.rename(box.folder / "base", box.folder / "moved")
    yield from refused(box.run(more), ["--weights", "base", "no longer exists"])
    yield from refused(box.run("export drive -o out"), ["base", "not train"])
    other = f"{model('llama-small')} {MACHINE} -s ddp {COURSE} --seed 9 --commit none --overwrite"
    yield from train(box, f"{other} --steps 1 --save other")
    yield from refused_last(box.run(f"{more} --weights other"),
                            ["other", "not trained", "--weights"])
    if (box.folder / "out").exists():
        yield "an export without its weights left a folder"
    yield from train(box, "--resume --nvme drive --steps 5 --weights moved --save out")
    if len(bits(box, "out")) != len(FILES):
        yield f"saved: {list(bits(box, 'out'))}"
    os.rename(box.folder / "moved", box.folder / "base")


def check_other(box):
    """Adapters of another rank or alpha are not continued, though padding may have room for them,
    and what is not trained is saved as it was read, or not at all."""
    line = f"{model('llama-small')} {MACHINE} {PLACEMENTS['on drives']} {COURSE}"
    empty(box, "drive", "out", "base2")
    shutil.copytree(box.folder / "base", box.folder / "base2")
    yield from train(box, f"{line} --train lora:4 --weights base2 --steps 3 --nvme drive")
    record = (box.folder / "drive" / "memwall.record").read_bytes()
    more = "run --resume --nvme drive --steps 5"
    for other in ("--train lora:8", "--train lora:3", "--train lora:4@qkv", "--train lora:4@q+v",
                  "--lora-alpha 8"):
        answer = box.run(f"{more} {other}")
        if answer.status == 0 or f"{other.replace(' ', ' is ')}, it was " not in answer.err:
            yield f"{other}: status {answer.status}: {answer.err.strip()[-400:]}"
    if (box.folder / "drive" / "memwall.record").read_bytes() != record:
        yield "a run that was refused changed the record"
    described = (box.folder / "drive" / "memwall-run.json").read_text("utf-8")
    box.write("drive/memwall-run.json", described.replace("lora 4 4", "lora 4 8"))
    if "lora 4 8" in described or box.run("export drive -o out").status == 0:
        yield "exported with another alpha"
    box.write("drive/memwall-run.json", described)
    weights = box.folder / "base2" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-4] ^= 1  # the last value's lowest bit, which 16 bits do not hold
    weights.write_bytes(data)
    for refusing in (f"{more} --save out", ):
        if box.run(refusing).status == 0:
            yield "continued with other values of what is not trained"
    if box.run("export drive -o out").status == 0 or (box.folder / "out").exists():
        yield "exported with other values of what is not trained"


def check_needless(box):
    """A run that trains everything has everything."""
    line = f"{model('llama-small')} {MACHINE} {PLACEMENTS['on drives']} {COURSE} --nvme drive"
    empty(box, "drive")
    yield from train(box, f"{line} --weights base --steps 2")
    yield from refused_last(box.run("run --resume --nvme drive --steps 3 --weights base"),
                            ["--weights", "leave out --weights"])
    yield from train(box, "--resume --nvme drive --steps 3")


def tests(box):
    rng = random.Random(SEED)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(20000)))
    for name, folder in (("llama-small", "base"), ("gpt2-small", "gpt")):
        for line in train(box, f"{model(name)} {MACHINE} -s ddp {COURSE} --steps 2 --commit none "
                               f"--overwrite --save {folder}"):
            raise RuntimeError(line)
        for where, placement in PLACEMENTS.items():
            yield f"killed/{name}/{where}", check_killed(box, name, placement, "--train lora:4",
                                                         f"--weights {folder}")
    for what, trained in TRAINED.items():
        yield f"killed/{what}", check_killed(box, "llama-small", PLACEMENTS["state on drives"],
                                             trained, "--seed 5")
    yield "ranks", check_ranks(box)
    yield "from a checkpoint", check_from(box)
    yield "moved", check_moved(box)
    yield "other", check_other(box)
    yield "needless", check_needless(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
