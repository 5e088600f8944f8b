#!/usr/bin/python3
"""`memwall run --resume` with nothing but a run, and of runs that were moved; prints TAP.

What is not given is taken from the run's description: the losses are those of the run that was not
interrupted.  What contradicts the run is refused, and what is gone is named.
"""
import json
import os
import shutil
import sys

from check_outputs import saved_step
from check_resume import (DRIVES, RanksBox, SMALL, check_refused, check_refused_last, check_same,
                          train)
from check_run import GPT2, LLAMA, good, losses
from tap import has_ranks, report_in

ALONE = {
    "drives": [*DRIVES, "--commit", "step", "--seq", "16", "--grad-accum", "2"],
    "memory": ["-s", "zero-offload", "--nvme", "drive", "--save-every", "3"],
    "a split": ["-s", "zero-infinity-nvme", "--nvme", "drive", "--nvme", "second",
                "--optimizer-device", "gpu:0.2MB,cpu:0.1MB,nvme", "--param-device",
                "cpu:0.04MB,nvme", "--save-every", "1", "--prefetch", "0"],
    "a delay": ["-s", "zero-offload", "--nvme", "drive", "--dpu-start", "2", "--save-every", "1"],
    "layers left out": [*DRIVES, "--commit", "step", "--drop-layers", "1/-/0@1"],
    "a directory of its own": ["-s", "zero-infinity-nvme", "--optimizer-device", "nvme", "--dtype",
                               "fp16", "--tiles", "2"],
}


def elsewhere(box):
    """Another folder, with the same list of runs."""
    own = RanksBox.__new__(RanksBox)
    own.folder, own.environment = box.folder / "state", box.environment
    return own


def check_alone(box, words, ranks=1):
    """--resume RUN needs nothing else: from any folder, with the number of steps that it had."""
    box.empty_drives()
    shutil.rmtree(box.folder / "state", ignore_errors=True)
    batch = ["--batch", "2"] if ranks == 1 else ["--batch", "1"]
    start = box.run if ranks == 1 else lambda *words: box.launch(ranks, *words)
    model = ["-m", str(GPT2 / "config.json"), *SMALL[:-2], *batch, *words]
    yield from good(start(*model, "--steps", "6", "--log", "all.jsonl"))
    box.empty_drives()
    shutil.rmtree(box.folder / "state")
    yield from good(start(*model, "--steps", "3", "--log", "rest.jsonl", "--save", "point"))
    run = json.loads(box.run("runs", "--json", verb="list").text)["runs"][0]
    if ranks == 1:
        yield from check_refused_last(elsewhere(box).run(f"--resume={run['run']}"), 2,
                                      "--steps 3: counts all steps of the run, and 3 are done")
    how = [f"--resume={run['run']}"] if ranks == 1 else ["--resume"]
    own = elsewhere(box)
    how += ["--steps", "6"]
    done = own.run(*how) if ranks == 1 else own.launch(ranks, *how)
    yield from good(done)
    for part in (f"memwall: --resume: taken from run {run['run']}: -m {GPT2}/config.json, --data "
                 f"{box.folder}/text.txt", " --set gpu.memory_gib=2, -H rtx4090, ",
                 f", -s {words[1]}, "):
        if done.said.count(part) != 1:
            yield f"{part!r} is not once in {done.said!r}"
    yield from check_same(losses(box, "rest.jsonl"), losses(box, "all.jsonl"))
    if saved_step(box, "point") != 3 or f"without --save, no checkpoint is written " \
            f"({box.folder}/point stays" not in done.said:
        yield f"the checkpoint: {done.said!r}"
    (box.folder / "rest.jsonl").unlink()
    shutil.rmtree(box.folder / "point")


def check_alone_refused(box):
    """What contradicts the run, and files of its that are gone, are named."""
    box.empty_drives()
    shutil.rmtree(box.folder / "state", ignore_errors=True)
    words = [*DRIVES, "--commit", "step"]
    (box.folder / "model").mkdir()
    shutil.copy(GPT2 / "config.json", box.folder / "model/config.json")
    yield from check_refused(box.run("--resume"), 2, "no run can be resumed")
    yield from check_refused(box.run("--resume", "foo"), 2, "foo: there is no run and no directory",
                             "memwall list runs")
    yield from check_refused(box.run("--resume", "drive"), 2, "drive: holds no run to resume")
    yield from check_refused(box.run("--resume", "--nvme", "drive"), 2, "holds no run to resume")
    yield from good(box.run("-m", "model/config.json", *SMALL, *words, "--batch", "2", "--steps",
                            "2"))
    resume = ["--resume", "drive", "--steps", "4"]
    for more, said in (["--batch", "1"], "--batch 1: the run was started with --batch 2; give "), \
            (["--seq", "12"], "--seq 12: the run was started with --seq 24; give "), \
            (["-m", str(LLAMA / "config.json")], "is of another model"), \
            (["--tiles", "2"], "--tiles is 2, it was 1"), \
            (["--train", "lora:4"], "--train is lora:4, it was none"), \
            (["--optimizer-chunk", "8192"], "--optimizer-chunk is 8192, it was not given: give no "
             "--optimizer-chunk; or "), \
            (["--from", "point"], "--weights, --from, --resume: give one of them"), \
            (["--adapter", "point"], "--adapter: what --from and --resume continue has adapters"), \
            (["--overwrite"], "--resume, --overwrite: give one of them"), \
            (["-s", "zero3"], "makes no step durable"):
        yield from check_refused_last(box.run(*resume, *more), 2, said)
    for name, option in (("model/config.json", "-m"), ("text.txt", "--data")):
        (box.folder / name).rename(box.folder / "away")
        yield from check_refused(box.run(*resume), 2, f" was started with {option} ", name,
                                 "no longer exists: give " + option)
        (box.folder / "away").rename(box.folder / name)
    yield from good(box.run(*resume))
    path = box.folder / "drive/memwall-run.json"
    path.rename(box.folder / "away")
    yield from check_refused(box.run(*resume), 2, "memwall-run.json: is missing", "-m MODEL")
    (box.folder / "away").unlink()
    shutil.rmtree(box.folder / "model")


def check_moved(box):
    """A run of two directories that were moved: what takes one of them says how to name both, and
    that works."""
    box.empty_drives()
    shutil.rmtree(box.folder / "state", ignore_errors=True)
    words = ["-s", "zero-infinity-nvme", "--optimizer-device", "nvme", "--commit", "step"]
    yield from good(train(box, *words, "--nvme", "drive", "--nvme", "second", "--save", "point",
                          steps=4))
    for name in ("drive", "second"):
        os.rename(box.folder / name, box.folder / f"{name}2")
    for verb, more in (("export", ["-o", "out"]), ("verify", []), ("run", ["--steps", "5"])):
        done = box.run(*(["--resume=drive2"] if verb == "run" else ["drive2"]), *more, verb=verb)
        yield from check_refused(done, 2, "drive2/memwall-run.json: belongs to run ",
                                 "name all of them",
                                 "`memwall export DIR DIR -o FOLDER`",
                                 "`memwall run --nvme DIR --nvme DIR --resume`")
    moved = ["--nvme", "drive2", "--nvme", "second2"]
    done = box.run(*moved, "--resume", "--steps", "4", "--save", "other/new")
    yield from good(box.run("drive2", "second2", verb="verify"))
    wrong = [["second2", "drive2"], ["drive2", "drive2"], ["drive2", "state"]]
    for directories in wrong:
        done = box.run(*directories, "-o", "out", verb="export")
        if done.returncode not in (1, 2) or (box.folder / "out").exists():
            yield f"{directories}: status {done.returncode}: {done.said!r}"
    yield from check_refused_last(box.run(*moved, "--resume", "--steps", "3", "--save", "out"), 2,
                                  "`memwall export drive2 second2 -o out` writes the checkpoint")
    yield from good(box.run("drive2", "second2", "-o", "out", verb="export"))
    # All steps are done: --save exports them.
    yield from good(box.run(*moved, "--resume", "--steps", "4", "--save", "saved"))
    for folder in ("out", "saved"):
        for name in ("model.safetensors", "optimizer.safetensors"):
            if (box.folder / folder / name).read_bytes() != \
                    (box.folder / "point" / name).read_bytes():
                yield f"{folder}/{name} is another"
    yield from check_refused_last(box.run(*moved, "--resume", "--steps", "6", "--batch", "1"), 2,
                                  "`memwall export drive2 second2 -o FOLDER`")
    yield from good(box.run(*moved, "--resume", "--steps", "6"))
    # The description says where it is now.
    yield from good(box.run("second2", "-o", "out", verb="export"))
    yield from good(box.run("--resume=drive2", "--steps", "7"))
    yield from good(box.run("second2", verb="rm"))
    shutil.rmtree(box.folder / "point")
    for name in ("drive", "second"):
        os.rename(box.folder / f"{name}2", box.folder / name)


def tests(box):
    for name, words in ALONE.items():
        yield f"resume alone: {name}", check_alone(box, words)
    yield "resume alone: refused", check_alone_refused(box)
    yield "resume and export: moved directories", check_moved(box)
    if has_ranks():
        yield "resume alone: two ranks", check_alone(box, ALONE["drives"], ranks=2)


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
