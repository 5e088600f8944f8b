#!/usr/bin/python3
"""Files that a command writes: none of them is what it reads, keeps or writes as well; prints TAP.

By whatever name: a link, a second name, another way to it, a link to what is not there yet.  Nor
is it part of another run or a checkpoint, or the log of a run that can be resumed.  What is
refused has changed nothing.
And checkpoints: --save replaces its run's, not a longer one, another model's or one that it cannot
read, also where the run is stopped before its end; --from continues as the checkpoint was trained,
and says what differs.
"""
import fcntl
import json
import os
import resource
import shutil
import signal
import sys

from check_faults import Disturbed, rank_pid
from check_resume import DRIVES, RanksBox, SMALL, check_refused, train
from check_run import GPT2, LLAMA, MEMWALL, good, losses
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in

DURABLE = [*DRIVES, "--commit", "step"]
ZERO3 = ["-s", "zero3"]
PLAN = ["-m", "config.json", "-H", "mine.ini", "-s", "zero3", "--batch", "1"]


def prepare(box):
    shutil.copy(GPT2 / "config.json", box.folder)
    shutil.copy(MEMWALL.parent.parent.parent / "hwprofiles/rtx4090.ini", box.folder / "mine.ini")
    shutil.copytree(GPT2, box.folder / "weights")
    box.write("ds.json", b'{"bf16": {"enabled": true}}')
    os.symlink("text.txt", box.folder / "data.png")
    os.link(box.folder / "text.txt", box.folder / "second.txt")
    os.symlink("config.json", box.folder / "link.json")
    os.symlink(".", box.folder / "here")


def contents(box):
    return {path: path.read_bytes() for path in box.folder.rglob("*") if path.is_file()}


# Options, and the two that the line names.
RUNS = {
    "--log text.txt": ("--log text.txt", "--data reads that file"),
    "--log second.txt": ("--log second.txt", "--data reads that file"),
    "--plot data.png": ("--plot data.png", "--data reads that file"),
    "-o here/text.txt": ("-o here/text.txt", "--data reads that file"),
    "--save-timeline link.json -m config.json": ("--save-timeline", "-m reads that file"),
    "--trace mine.ini -H mine.ini": ("--trace", "-H reads that file"),
    "--write-deepspeed ds.json --deepspeed ds.json": ("--write-deepspeed", "--deepspeed reads"),
    "-o weights/model.safetensors --weights weights": ("-o weights/", "--weights reads that file"),
    "-o weights/model.safetensors --weights weights/model.safetensors":
        ("-o weights/", "--weights reads that file"),
    "-o one --trace one": ("--trace one", "-o writes that file"),
    "--log one --save-timeline ./here/one": ("--save-timeline", "--log writes that file"),
    "-o drive/memwall.record": ("-o drive/memwall.record", "--nvme keeps the run there"),
    "--log here/drive/memwall-run.json": ("--log", "--nvme keeps the run there"),
    "--save drive": ("--save drive", "--nvme keeps the run there"),
    "--save new/ --log new": ("--log new", "--save replaces that folder"),
    "--save nope/../new/. --save-timeline new": ("--save-timeline", "--save replaces"),
    "--save here/second --log second/log.jsonl": ("--log", "--save replaces that folder"),
}
PLANS = {
    "plan -o config.json": ("-o config.json", "-m reads that file"),
    "plan -o link.json": ("-o link.json", "-m reads that file"),
    "simulate --trace mine.ini": ("--trace", "-H reads that file"),
    "simulate -o one --write-deepspeed here/one": ("--write-deepspeed", "-o writes that file"),
    "plan --deepspeed ds.json -o here/ds.json": ("-o here/ds.json", "--deepspeed reads that file"),
}


def check_outputs(box):
    before = contents(box)
    for line, words in RUNS.items():
        yield from check_refused(train(box, *DURABLE, *line.split(), steps=1), 2, *words,
                                 "give another")
    for line, words in PLANS.items():
        verb, *more = line.split()
        yield from check_refused(box.run(*PLAN, *more, verb=verb), 2, *words, "give another")
    if before != contents(box):
        yield f"changed {[p for p, text in contents(box).items() if before.get(p) != text]}"
    yield from good(box.run(*PLAN, "-o", "plan.txt", verb="plan"))
    os.symlink("plan.txt", box.folder / "plan.svg")
    for option in ("--trace here/plan.txt", "--plot plan.svg"):
        done = box.run("plan.txt", "-H", "mine.ini", *option.split(), verb="simulate")
        yield from check_refused(done, 2, option, "this command reads that file")


def check_named(box):
    """A profile that is given by its name is read from a file as well."""
    config = box.folder / "config"
    (config / "memwall/hwprofiles").mkdir(parents=True)
    mine = shutil.copy(box.folder / "mine.ini", config / "memwall/hwprofiles/mybox.ini")
    before = contents(box)
    words = ["-m", "config.json", "-H", "mybox", "-s", "zero3", "--batch", "1", "-o"]
    there = {**box.environment, "XDG_CONFIG_HOME": str(config)}
    yield from check_refused(box.run(*words, str(mine), verb="plan", environment=there), 2,
                             "mybox.ini: -H reads that file; give another")
    if before != contents(box):
        yield "something has changed"
    yield from good(box.run(*words, "mybox", verb="plan", environment=there))
    (box.folder / "mybox").unlink()
    shutil.rmtree(config)


def check_honest(box):
    """What only looks alike is taken: new files everywhere, devices, names of presets."""
    box.empty_drives()
    yield from good(train(box, *DURABLE, "-o", "drive/plan.txt", "--trace", "/dev/null", "--plot",
                          "own.svg", "--save-timeline", "/dev/null", "--save", "drive/point",
                          "--weights", "weights", "--write-deepspeed", "weights/ds.json", steps=1))
    box.write("gpt2", b"")
    yield from good(box.run("-m", "gpt2", "-H", "mine.ini", "-s", "zero3", "--batch", "1", "-o",
                            "gpt2", verb="plan"))
    shutil.rmtree(box.folder / "drive/point")


# --- what others have left -----------------------------------------------------------------------

OF_RUN = ["memwall.record", "memwall-1of1.data", "memwall-run.json", "memwall-run.lock"]
SECOND = ["second" if word == "drive" else word for word in DURABLE]


def link(box, name, target):
    (box.folder / name).unlink(missing_ok=True)
    (box.folder / name).symlink_to(target)


def check_unchanged(box, before):
    if before != contents(box):
        yield f"changed {[p for p, text in contents(box).items() if before.get(p) != text]}"


def check_links(box):
    """Links to what a run is yet to write, one after another; and to what it continues from."""
    box.empty_drives()
    link(box, "chain", "here/ghost")
    for name in OF_RUN[:3]:
        link(box, "ghost", box.folder / "drive" / name)
        for option, path in (("--save-timeline", "ghost"), ("--trace", "chain")):
            yield from check_refused(train(box, *DURABLE, option, path, steps=2), 2,
                                     f"{option} {path}: --nvme keeps the run there", "give another")
    link(box, "ghost", "drive/new")
    yield from check_refused(train(box, *DURABLE, "--trace", "ghost", "-o", "drive/new", steps=2),
                             2, "--trace ghost: -o writes that file")
    yield from check_refused(train(box, *DURABLE, "--trace", "chain", "--save", "drive/new"), 2,
                             "--trace chain: --save replaces that folder")
    if box.on_drives():
        yield f"left {box.on_drives()}"
    link(box, "ghost", "ghost")  # leads nowhere, and is no part of anything
    yield from good(train(box, *DURABLE, "--trace", "/dev/null", "-o", "chained.txt", steps=2))
    before = contents(box)
    link(box, "ghost", "drive/memwall.record")
    yield from check_refused(train(box, *DURABLE, "--resume", "--save-timeline", "chain"), 2,
                             "--save-timeline chain: --nvme keeps the run there")
    (box.folder / "ghost").unlink()
    yield from check_unchanged(box, before)
    yield from good(box.run("drive", verb="verify"))


def check_others(box):
    """State of another run, and a checkpoint, are no output's; what only has such a name is."""
    box.empty_drives()
    yield from good(train(box, *DURABLE, "--save", "point", steps=2))
    link(box, "record.svg", "drive/memwall.record")
    link(box, "lock", "drive/memwall-run.lock")
    listed = next((box.folder / "state/memwall/runs").glob("*/memwall-run.json"))
    before = contents(box)
    simulate, of_run = [*PLAN, "simulate"], "is a file of a run; give another"
    free = ["memwall.record", "weights/memwall-run.json", "drive/plan.txt", "point/plan.txt"]
    for name in OF_RUN:
        path = f"drive/{name}"
        for words in ([*simulate, "-o"], [*simulate, "--trace"], ["--quick", "calibrate", "-o"]):
            *options, verb, option = words
            done = box.run(*options, option, path, verb=verb)
            yield from check_refused(done, 2, f"{option} {path}: {of_run}")
        for option in ("--log", "--save-timeline", "--write-deepspeed"):
            yield from check_refused(train(box, *SECOND, option, path), 2,
                                     f"{option} {path}: {of_run}")
    for option, path, whole in (("--plot", "record.svg", "record, a file of a run"),
                                ("--trace", "lock", "run.lock, a file of a run"),
                                ("-o", str(listed), of_run),
                                ("-o", "point/model.safetensors", "is a file of a checkpoint"),
                                ("--trace", "here/point/config.json", "is a file of a checkpoint")):
        yield from check_refused(box.run(*PLAN, option, path, verb="simulate"), 2,
                                 f"{option} {path}: ", whole)
    for name in ("optimizer.safetensors", "config.json"):
        done = train(box, *ZERO3, "--from", "point", "--save-timeline", f"point/{name}", steps=4)
        yield from check_refused(done, 2, f"--save-timeline point/{name}: ")
    yield from check_unchanged(box, before)
    yield from good(box.run("drive", verb="verify"))
    for _ in range(2):
        for path in free:
            yield from good(box.run(*PLAN, "-o", path, verb="plan"))
    for path in free:
        (box.folder / path).unlink()
    shutil.rmtree(box.folder / "point")


def check_logs(box):
    """The log of a run that can be resumed is no other's, new or resumed."""
    box.empty_drives()
    shutil.rmtree(box.folder / "state")
    log = box.folder / "own.jsonl"
    words = [*DURABLE, "--log", "own.jsonl"]
    yield from good(train(box, *words, steps=3))
    before = contents(box)
    for other in (SECOND, ZERO3):
        yield from check_refused(train(box, *other, "--log", "here/own.jsonl", steps=3), 2,
                                 "log here/own.jsonl: belongs to run gpt2-small-",
                                 "which is durable: "
                                 "give another name, or delete the file")
    yield from check_unchanged(box, before)
    yield from good(train(box, *words, "--resume", steps=4))
    own = log.read_text(encoding="utf-8").splitlines(keepends=True)
    if len(own) != 4:
        yield f"the log is {own}"
    bare = '{"step": 1, "loss": 1}\n'
    for lines in ([bare, '{"step":99,"run":"x"}\n'], [bare, '{"step": 9, "run": "x"}\n', *own],
                  [*own, '{"step": 5, "run": "x"}\n']):
        log.write_text("".join(lines), encoding="utf-8")
        yield from check_refused(train(box, *words, "--resume", steps=5), 2,
                                 "log own.jsonl: belongs to run x, and gpt2-small-")
        if log.read_text(encoding="utf-8") != "".join(lines):
            yield f"the log of another run is {log.read_text(encoding='utf-8')!r}"
    log.write_text("".join([bare, *own[1:]]), encoding="utf-8")
    yield from good(train(box, *words, "--resume", steps=5))
    # Whoever ends a run, or has none of its state, may have its log.
    yield from good(train(box, *words, "--overwrite", steps=1))
    yield from good(box.run("drive", verb="rm"))
    yield from good(train(box, *SECOND, "--log", "own.jsonl", steps=1))
    yield from good(box.run("second", verb="rm"))
    with open(log, encoding="utf-8") as writes:  # as a run in progress does
        fcntl.flock(writes, fcntl.LOCK_EX)
        before = log.read_bytes()
        yield from check_refused(train(box, "-s", "zero3", "--log", "own.jsonl", steps=1), 2,
                                 "log own.jsonl: another run is writing it")
        if log.read_bytes() != before:
            yield "the log of a run in progress has changed"
    yield from check_logs_away(box)


def check_logs_away(box):
    """Nor where its drive is not there now, its record is damaged, or its description."""
    words = [*DURABLE, "--log", "own.jsonl"]
    drive, away = box.folder / "drive", box.folder / "away"
    yield from good(train(box, *words, steps=3))
    run = next((box.folder / "state/memwall/runs").iterdir())
    record, description = drive / "memwall.record", run / "memwall-run.json"
    written, described = record.read_bytes(), description.read_text(encoding="utf-8")

    def check(said):
        before = box.read("own.jsonl")
        yield from check_refused(train(box, *SECOND, "--log", "own.jsonl", steps=1), 2,
                                 f"log own.jsonl: belongs to run {run.name}, which {said}",
                                 "give another name, or delete the file")
        if box.read("own.jsonl") != before:
            yield f"{said}: the log has changed"

    drive.rename(away)
    yield from check("is away")
    drive.mkdir()
    yield from check("is away")
    drive.rmdir()
    away.rename(drive)
    record.write_bytes(b"x" * len(written))
    yield from check("is damaged")
    record.write_bytes(written)
    description.write_text(described.replace('"directories"', '"directory"'), encoding="utf-8")
    yield from check("cannot be read: ")
    description.write_text(described, encoding="utf-8")
    yield from good(train(box, *words, "--resume", steps=4))
    yield from good(box.run("drive", verb="rm"))


# --- checkpoints ---------------------------------------------------------------------------------

def saved_step(box, name="saved"):
    with open(box.folder / name / "optimizer.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return int(header["__metadata__"]["memwall.step"]) + 1


def set_step(box, name, steps):
    """As if it were of so many steps."""
    for path in (box.folder / name).glob("*.safetensors"):
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        header["__metadata__"]["memwall.step"] = str(steps - 1)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length:])


def check_save(box):
    """Its own and shorter ones are replaced; a longer one or another model's is not."""
    box.empty_drives()
    yield from good(train(box, *DURABLE, steps=1))
    yield from good(train(box, *ZERO3, "--save", "saved", steps=4))
    yield from good(train(box, *ZERO3, "--save", "saved", steps=4))
    yield from good(train(box, *ZERO3, "--from", "saved", "--save", "saved", steps=6))
    before = contents(box)
    for words in (ZERO3, [*DURABLE, "--overwrite"]):  # which deletes the run on the drive, not this
        done = train(box, *words, "--save", "saved", steps=5)
        yield from check_refused(done, 2, "--save saved: holds a checkpoint of 6 steps, more than "
                                 "the 5 of this one: give another folder, or delete that one")
        if "--overwrite" in done.said:
            yield f"offers another deletion: {done.said!r}"
    yield from check_refused(train(box, *ZERO3, "--save", "saved", steps=9, model=LLAMA), 2,
                             "--save saved: holds a checkpoint of another model")
    if before != contents(box):
        yield "something has changed"
    if not (box.folder / "drive/memwall.record").exists() or saved_step(box) != 6:
        yield f"the drive had no run, or saved step {saved_step(box)}"


def check_unreadable(box):
    """Nobody knows what it holds: it stays, and the line says what is wrong and the ways out."""
    folder = box.folder / "saved"
    whole = {path: path.read_bytes() for path in folder.iterdir()}
    model, optimizer = folder / "model.safetensors", folder / "optimizer.safetensors"
    for path, damage, said in (
            (optimizer, whole[optimizer].replace(b"memwall.step", b"memwall.stop"),
             "its metadata must have \"memwall.step\""),
            (optimizer, whole[optimizer].replace(b"format=2 ", b"format=9 "),
             "is 9: must be from 1 to 2: a newer memwall wrote it, or it is damaged"),
            (optimizer, whole[optimizer][:-1], "saved/optimizer.safetensors: "),
            (optimizer, b"", "saved/optimizer.safetensors: "),
            (model, whole[model][:100], "saved/model.safetensors: "),
            (model, None, "saved/model.safetensors: No such file")):
        path.unlink() if damage is None else path.write_bytes(damage)
        before = contents(box)
        for more in ([], ["--overwrite"]):
            yield from check_refused(train(box, *ZERO3, *more, "--save", "saved", steps=9), 2,
                                     "--save saved: holds a checkpoint that cannot be read (", said,
                                     "): give another folder, or delete that one")
        if before != contents(box):
            yield f"{path.name}, {said}: something has changed"
        path.write_bytes(whole[path])
    optimizer.unlink()
    model.unlink()
    yield from check_refused(train(box, *ZERO3, "--save", "saved", steps=2), 2,
                             "saved: holds config.json without optimizer.safetensors")
    shutil.rmtree(folder)
    yield from good(train(box, *ZERO3, "--save", "saved", steps=2))


def check_beside(box, run, steps, place):
    """What the run of `run` has saved, and where it says so."""
    line = f"memwall: --save long: holds a checkpoint of 5000 steps, more than the {steps} of " \
           f"this one: it stays, and this one is in {place}\n"
    if line not in run.said:
        yield f"status {run.returncode} behind {steps} steps: {run.said!r}, not {line!r}"
    elif saved_step(box, place) != steps or saved_step(box, "long") != 5000:
        yield f"saved steps {saved_step(box, place)} and {saved_step(box, 'long')}, not {steps}"
    else:
        yield from good(train(box, *ZERO3, "--from", place, steps=steps + 1))


def check_stopped(box, ranks, taken):
    """Before it has as many steps as the checkpoint that is there: both are kept."""
    shutil.rmtree(box.folder / "long", ignore_errors=True)
    shutil.copytree(box.folder / "saved", box.folder / "long")
    set_step(box, "long", 5000)
    before = contents(box)
    for steps in range(1, 1000) if taken else ():
        (box.folder / f"long-step{steps}").mkdir()
    launched = {"prefix": [*MPIRUN, "2"],
                "environment": {**box.environment, **RANKS_ENVIRONMENT}} if ranks > 1 else {}
    run = Disturbed(box, *ZERO3, "--save", "long/", "--batch", str(2 // ranks), "--steps", "6000",
                    **launched)
    os.kill(run.process.pid if ranks == 1 else rank_pid(run.process.pid, 1), signal.SIGINT)
    steps = len(run.end())
    place = f"{os.path.realpath(box.folder)}/long-step{steps}" + ("-2" if taken else "")
    run.said = run.said.replace("--save long/:", "--save long:")
    yield from check_beside(box, run, steps, place)
    last = f"stopped by SIGINT after step {steps} of 6000; checkpoint {place} has it: --from " \
           f"{place} continues from there"
    if last not in run.said or run.returncode != 130:
        yield f"status {run.returncode}: {run.said!r}, not {last!r}"
    after = contents(box)
    yield from (f"{path} has changed" for path in before
                if path.name != "log.jsonl" and before[path] != after.get(path))
    for path in box.folder.glob("long-step*"):
        shutil.rmtree(path)


def check_meanwhile(box):
    """What another has written to the place since the start stays as well."""
    yield from good(train(box, *ZERO3, "--save", "saved", steps=2))
    (box.folder / "long").rename(box.folder / "other")
    run = Disturbed(box, *ZERO3, "--save", "long", "--batch", "2", "--steps", "40")
    (box.folder / "other").rename(box.folder / "long")
    steps = len(run.end())
    if run.returncode or steps != 40:
        yield f"status {run.returncode} behind {steps} steps: {run.said!r}"
    yield from check_beside(box, run, steps, f"{os.path.realpath(box.folder)}/long-step40")


def check_stranger(box):
    """So does what is no checkpoint's: a file that somebody has put there."""
    run = Disturbed(box, *ZERO3, "--save", "strange", "--batch", "2", "--steps", "40")
    (box.folder / "strange").mkdir()
    box.write("strange/notes.txt", b"mine")
    steps = len(run.end())
    if run.returncode or "holds notes.txt, which no checkpoint has: it stays" not in run.said or \
            saved_step(box, "strange-step40") != steps:
        yield f"status {run.returncode} behind {steps} steps: {run.said!r}"
    if os.listdir(box.folder / "strange") != ["notes.txt"]:
        yield "the file is gone"
    for path in box.folder.glob("strange*"):
        shutil.rmtree(path)


COURSE = ["--lr", "1e-3", "--clip", "0.5", "--warmup", "3", "--seed", "7", "--shuffle",
          "--lr-schedule", "cosine", "--weight-decay", "0.05"]


def check_from(box):
    """As the undisturbed run continues; given options differ, and that is said."""
    small = [word for word in SMALL if word not in ("--lr", "2e-3")]
    words = ["-m", str(GPT2 / "config.json"), *small, *ZERO3]
    shutil.rmtree(box.folder / "saved")
    yield from good(box.run(*words, *COURSE, "--batch", "2", "--steps", "6"))
    whole = [(line["loss"], line["lr"]) for line in map(json.loads,
                                                        box.read("log.jsonl").splitlines())]
    box.empty_drives()
    nvme = [*words, *DURABLE, "--batch", "2"]
    # Of a run that was to be as long, so that the cosine is the same.
    yield from good(box.run(*nvme, *COURSE, "--steps", "6"))
    yield from good(box.run("drive", "-o", "saved", "--at", "previous", verb="export"))
    words = [*words, "--log", "from.jsonl"]
    done = box.run(*words, "--batch", "2", "--steps", "6", "--from", "saved")
    yield from good(done)
    line, = map(json.loads, box.read("from.jsonl").splitlines())
    if done.said or (line["loss"], line["lr"]) != whole[5]:
        yield f"step {line['step']}: {line['loss']}, {line['lr']}, not {whole[5]}: {done.said!r}"
    done = box.run(*words, "--batch", "1", "--steps", "6", "--from", "saved", "--clip", "2",
                   "--seed", "8")
    yield from good(done)
    if done.said != "memwall: --from saved: settings differ from those of its training: " \
                    "--clip is 2, it was 0.5; --seed is 8, it was 7; --batch is 1, it was 2\n":
        yield f"said {done.said!r}"
    # What was trained is told too, both ways.
    part = [*words, "--batch", "2", "--train", "qkv", "--save", "part", "--overwrite"]
    for more, said in (([*part, "--from", "saved", "--steps", "6"], "--train is qkv, it was all"),
                       ([*part, "--from", "part", "--steps", "7"], ""),
                       ([*words, "--batch", "2", "--from", "part", "--steps", "8"],
                        "--train is all, it was qkv")):
        done = box.run(*more)
        yield from good(done)
        if ("--train" in done.said) != bool(said) or said not in done.said:
            yield f"{said}: {done.said!r}"
    # The shapes of its tensors would do for half of the heads.
    other = json.loads((GPT2 / "config.json").read_text(encoding="utf-8"))
    other["n_head"] //= 2
    (box.folder / "other.json").write_text(json.dumps(other), encoding="utf-8")
    done = box.run("-m", "other.json", *words[2:], "--batch", "2", "--steps", "7",
                   "--from", "saved")
    refusal = "--from saved: is of another model: the model's number of heads is "
    if done.returncode != 2 or refusal not in done.said:
        yield f"status {done.returncode}: {done.said!r}"


def check_write_limit(box):
    """A resume that cannot write: the step is whole, and there is no advice to take another."""
    box.empty_drives()
    (box.folder / "log.jsonl").unlink()
    words = [*DURABLE, "--gradient-device", "nvme"]
    yield from good(train(box, *words, steps=4))
    size = (box.folder / "drive/memwall-1of1.data").stat().st_size
    # Parameters, which a resume makes anew, are at the begin of the file.
    for limit in (10 << 10, 60 << 10, size // 2):
        done = box.run("-m", str(GPT2 / "config.json"), *SMALL, "--batch", "2", "--steps", "9",
                       *words, "--resume", limits={resource.RLIMIT_FSIZE: limit})
        if done.returncode != 1 or "data: write of" not in done.said or "--at" in done.said:
            yield f"status {done.returncode}: {done.said!r}"
    yield from good(train(box, *words, "--resume", steps=6))
    if len(losses(box)) != 6:
        yield f"losses {losses(box)}"


def check_words(box):
    """What is asked for in another day's words."""
    box.write("config.json", (GPT2 / "config.json").read_bytes().replace(
        b'"n_layer"', b'"layer_norm_epsilon": 1e400, "n_layer"'))
    done = box.run(*PLAN, verb="plan")
    if "inf" in done.said.replace("infinity", ""):
        yield f"said {done.said!r}"
    shutil.rmtree(box.folder / "state", ignore_errors=True)
    for zone in ("Nowhere/At_All", ":", "UTC+99:99:99", "\x01", "/etc/passwd"):
        there = {**box.environment, "TZ": zone}
        done = box.run("runs", verb="list", environment=there)
        if done.returncode or done.said:
            yield f"{zone!r}: status {done.returncode}: {done.said!r}"
        own = [word for word in DURABLE if word not in ("--nvme", "drive")]
        (box.folder / "zone.jsonl").unlink(missing_ok=True)
        done = train(box, *own, "--log", "zone.jsonl", steps=1, environment=there)
        yield from good(done)
        if "CRITICAL" in done.said:
            yield f"{zone!r}: {done.said!r}"


def tests(box):
    prepare(box)
    yield "outputs: what a command reads, keeps or writes besides", check_outputs(box)
    yield "outputs: a profile by its name", check_named(box)
    yield "outputs: what only looks alike", check_honest(box)
    yield "outputs: links to what a run keeps", check_links(box)
    yield "outputs: what other runs and checkpoints have", check_others(box)
    yield "logs: whose they are", check_logs(box)
    yield "checkpoints: what --save replaces", check_save(box)
    yield "checkpoints: what cannot be read", check_unreadable(box)
    yield "checkpoints: a run that is stopped early", check_stopped(box, 1, False)
    yield "checkpoints: where that name is taken too", check_stopped(box, 1, True)
    if has_ranks():
        yield "checkpoints: two ranks that are stopped early", check_stopped(box, 2, False)
    yield "checkpoints: what came there meanwhile", check_meanwhile(box)
    yield "checkpoints: what came there and is none", check_stranger(box)
    yield "checkpoints: --from continues as it was trained", check_from(box)
    yield "a resume that cannot write", check_write_limit(box)
    yield "odd numbers, odd zones", check_words(box)


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
