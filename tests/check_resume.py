#!/usr/bin/python3
"""What outlives a run of `memwall run`, from outside; prints TAP.

Durable steps and --resume, checkpoints with --save and --from under another placement and another
number of ranks, and what is refused.  Losses stand for weights: of the same bits they are the same.
"""
import ctypes
import ctypes.util
import json
import shutil
import struct
import sys

from check_run import GPT2, LLAMA, MEMWALL, Box, good, losses
from command import answer_of, sixth
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in

STEPS = 8
SMALL = ["-H", "rtx4090", "--set", "gpu.memory_gib=2", "--data", "text.txt", "--lr", "2e-3",
         "--log", "log.jsonl"]
DRIVES = ["-s", "zero-infinity-nvme", "--nvme", "drive", "--param-device", "nvme",
          "--optimizer-device", "nvme"]


def train(box, *words, steps=STEPS, model=GPT2, batch=2, ranks=1, environment=None):
    """A run that begins has a log of its own; one that is refused leaves the log as it was."""
    goes_on = any(word.startswith("--resume") or word == "--log" for word in words)
    log = box.folder / "log.jsonl"
    kept = None if goes_on or not log.is_file() else log.read_bytes()
    if kept is not None:
        log.unlink()
    words = ["-m", str(model / "config.json"), *SMALL, "--batch", str(batch), "--steps",
             str(steps), *words]
    done = box.run(*words, environment=environment) if ranks == 1 else box.launch(ranks, *words)
    if kept is not None and not log.exists():
        log.write_bytes(kept)
    return done


class RanksBox(Box):
    def launch(self, ranks, *words):
        return self.run(*words, prefix=[*MPIRUN, str(ranks)],
                        environment={**self.environment, **RANKS_ENVIRONMENT})

    def launch_each(self, first, second, variables=("A=A", "A=A")):
        """Two ranks with words of their own, each behind a variable; status 124: they hang."""
        limited = ["timeout", "-k", "9", "90", *MPIRUN, "1", "env", variables[0]]
        other = [":", "-n", "1", "env", variables[1], str(MEMWALL), "run", *second]
        return self.run(*first, *other, prefix=limited,
                        environment={**self.environment, **RANKS_ENVIRONMENT})


def undisturbed(box, *words, **more):
    done = train(box, *words, **more)
    return list(good(done)), losses(box)


def check_same(got, expected, first=0):
    if got != expected[first:]:
        yield f"losses {got}, not {expected[first:]}"


def check_near(got, expected):
    if len(got) != len(expected) or any(abs(a - b) > 0.01 * b for a, b in zip(got, expected)):
        yield f"losses {got}, not near {expected}"


def check_resume(box, first):
    """A run of `first` steps, resumed, is the run that was not interrupted."""
    box.empty_drives()
    wrong, expected = undisturbed(box, *DRIVES, "--commit", "step")
    yield from wrong
    box.empty_drives()
    yield from good(train(box, *DRIVES, "--commit", "step", steps=first))
    yield from check_same(losses(box), expected[:first])
    yield from good(train(box, *DRIVES, "--commit", "step", "--resume"))
    yield from check_same(losses(box), expected)


def check_instructions(box):
    """Other ones than the run was computed with so far: a line says so, and it continues."""
    words = [*DRIVES, "--commit", "step"]
    devices = json.loads(box.run("devices", "--json", verb="list").text)["devices"]
    first, *_, second = 2 * next(device["instruction_sets"] for device in devices
                                 if device["backend"] == "cpu")
    box.empty_drives()
    for steps, isa, said in ((2, first, None), (3, first, None), (4, second, first),
                             (5, second, None)):
        done = train(box, *words, *(["--resume"] if steps > 2 else []), steps=steps,
                     environment={**box.environment, "MEMWALL_ISA": isa})
        yield from good(done)
        line = f"memwall: this run was computed with {said} until step 3; it continues with " \
               f"{second}: its losses will differ in their last digits"
        if ("computed with" in done.said) != (said is not None and first != second) or \
                (said and first != second and line not in done.said.splitlines()):
            yield f"{steps} steps by {isa}: {done.said!r}"


def check_digits(box):
    """Sums in another order: a line says so, once, of a run and of a checkpoint."""
    words = [*DRIVES, "--commit", "step"]
    box.empty_drives()
    shutil.rmtree(box.folder / "digits", ignore_errors=True)
    yield from good(train(box, *words, "--logits-chunks", "2", steps=2))
    for steps, chunks, was in ((3, 2, 0), (4, 4, 2), (5, 4, 0)):
        done = train(box, *words, "--resume", "--logits-chunks", str(chunks), steps=steps)
        yield from good(done)
        line = f"memwall: this run was computed with --logits-chunks {was} until step " \
               f"{steps - 1}; it continues with --logits-chunks {chunks}: its losses will differ " \
               "in their last digits\n"
        if done.said.count("computed with") != bool(was) or (was and line not in done.said):
            yield f"{steps} steps with {chunks}: {done.said!r}"
    settings = json.loads((box.folder / "drive/memwall-run.json").read_text())["settings"]
    if settings["logits_chunks"] != 4:
        yield f"described as {settings}"
    yield from good(train(box, "-s", "zero3", "--tiles", "2", "--save", "digits", steps=2))
    done = train(box, "-s", "zero3", "--from", "digits", "--logits-chunks", "2", steps=3)
    yield from good(done)
    if "memwall: this run was computed with --logits-chunks 1 --tiles 2 until step 2; it " \
            "continues with --logits-chunks 2 --tiles 1: its losses will differ" not in done.said:
        yield f"from a checkpoint: {done.said!r}"


def check_stripes(box):
    """State lies as the run began: another profile's block of the drive is of its own transfers."""
    two = [*DRIVES, "--nvme", "second", "--commit", "step"]
    box.empty_drives()
    wrong, expected = undisturbed(box, *two)
    yield from wrong
    for first, second in ((4096, 1024), (256, 1024), (1024, 768)):
        box.empty_drives()
        yield from good(train(box, *two, "--set", f"nvme.block_kib={first}", steps=3))
        yield from good(train(box, *two, "--set", f"nvme.block_kib={second}", "--resume"))
        yield from check_same(losses(box), expected)


def check_saves(box):
    """State in host memory is saved every third step."""
    words = ["-s", "zero-infinity-cpu", "--nvme", "drive", "--save-every", "3", "--commit", "step"]
    box.empty_drives()
    wrong, expected = undisturbed(box, *words)
    yield from wrong
    box.empty_drives()
    yield from good(train(box, *words, steps=4))
    yield from good(train(box, *words, "--resume"))
    yield from check_same(losses(box)[-4:], expected, first=4)


def check_refused(done, status, *words):
    if done.returncode != status:
        yield f"status {done.returncode}, not {status}: {done.said}"
    if len(done.said.splitlines()) != 1:
        yield f"not one line: {done.said!r}"
    yield from (f"{word} is not in {done.said!r}" for word in words if word not in done.said)


def check_other_run(box):
    """What the state follows from is refused by name, then and now; what the line says works."""
    shutil.rmtree(box.folder / "saved", ignore_errors=True)
    box.empty_drives()
    words = [*DRIVES, "--commit", "step"]
    yield from good(train(box, *words, steps=2))
    before = {path: path.read_bytes() for path in box.on_drives()}
    yield from check_refused(train(box, *words, "--resume", batch=1), 2, "cannot resume with "
                             "--batch 1: the run was started with --batch 2; give --batch 2, or "
                             "`memwall export drive -o FOLDER` and a new run with --from FOLDER\n")
    yield from check_refused(train(box, *words, "--resume", "--grad-accum", "2", "--seq", "16"), 2,
                             "cannot resume with --grad-accum 2 --seq 16: ",
                             "give --grad-accum 1 --seq 24, or")
    yield from check_refused_last(train(box, *words, "--resume", "--dtype", "fp16"), 2,
                                  "with --dtype fp16: ", "with --dtype bf16;")
    yield from check_refused(train(box, *words, "--resume", model=LLAMA), 2,
                             "drive/memwall.record", "of another model",
                             "the model's family is Llama, it was GPT-2; ",
                             "activation function is silu, it was gelu_new")
    other = ["cpu:0.1MB,nvme" if word == "nvme" else word for word in words]
    yield from check_refused(train(box, *other, "--resume"), 2,
                             "drive/", "--optimizer-device is cpu:100000B,nvme, it was nvme; ",
                             " --optimizer-device nvme ", "--from")
    yield from check_refused(train(box, *DRIVES, "--commit", "none", "--resume"), 2, "--resume")
    if before != {path: path.read_bytes() for path in box.on_drives()}:
        yield "the drives have other files"
    yield from good(box.run("drive", "-o", "saved", verb="export"))
    yield from good(train(box, "-s", "zero3", "--from", "saved", batch=1))
    if len(losses(box)) != STEPS - 2:
        yield f"losses {losses(box)}"


def check_other_drops(box):
    """A run keeps its schedule of layers that are left out: another one is refused, its own goes
    on, and so does the run where none is given."""
    words, own = [*DRIVES, "--commit", "step"], ["--drop-layers", "1/-"]
    box.empty_drives()
    wrong, expected = undisturbed(box, *words, *own)
    yield from wrong
    box.empty_drives()
    yield from good(train(box, *words, *own, steps=3))
    before = {path: path.read_bytes() for path in box.on_drives()}
    for other, says in (("0/-", "--drop-layers 0/-: "), ("-/1", "--drop-layers -/1: "),
                        ("1/-@2", "--drop-layers 1/-@2: "), ("none", "no --drop-layers: ")):
        yield from check_refused(train(box, *words, "--resume", "--drop-layers", other), 2,
                                 f"cannot resume with {says}the run was started with another "
                                 "--drop-layers; give its own")
    if before != {path: path.read_bytes() for path in box.on_drives()}:
        yield "the drives have other files"
    yield from good(train(box, *words, "--resume", *own, steps=5))
    yield from good(train(box, *words, "--resume"))
    yield from check_same(losses(box), expected)
    box.empty_drives()
    yield from good(train(box, *words, steps=2))
    yield from check_refused(train(box, *words, "--resume", *own), 2,
                             "with --drop-layers 1/-: the run was started with no --drop-layers; "
                             "leave it out")


def check_refused_whole(box):
    """What is refused has changed neither the run, nor its description, nor the list."""
    words = [*DRIVES, "--commit", "step"]
    box.empty_drives()
    shutil.rmtree(box.folder / "state", ignore_errors=True)
    shutil.rmtree(box.folder / "saved", ignore_errors=True)
    box.write("else.txt", (box.folder / "text.txt").read_bytes()[::-1])
    yield from good(train(box, *words, "--save", "saved", steps=4))
    other = [word if word != "drive" else "second" for word in words]
    yield from good(train(box, *other, "--log", "other.jsonl", steps=1))
    before = {path: path.read_bytes() for path in box.on_drives()}
    listed = box.run("runs", "--json", verb="list").text
    run = json.loads(listed)["runs"][1]["run"]
    away = [word for word in words if word not in ("--nvme", "drive")]
    for more in (["--resume"], ["--resume", "--at", "previous"]):
        for steps in ((3, 4) if len(more) == 1 else (3,)):
            more = [*more, "--data", "else.txt", "--lr", "0.1", "--seed", "9"]
            done = train(box, *words, *more, steps=steps)
            yield from check_refused(done, 2, f"--steps {steps}: counts all steps of the run, and ")
    yield from check_refused(train(box, *away, f"--resume={run}", "--lr", "0.1", steps=3), 2,
                             "--steps 3: counts all steps of the run, and 4 are done: give more "
                             "than 4\n")
    yield from check_refused(train(box, *other, "--from", "saved", "--overwrite", steps=4), 2,
                             "--steps 4: counts all steps of saved, and 4 are done")
    if before != {path: path.read_bytes() for path in box.on_drives()}:
        yield "the drives have other files"
    if box.run("runs", "--json", verb="list").text != listed:
        yield "the list has changed"
    log = box.read("other.jsonl")
    yield from check_refused(train(box, *words, "--resume", "--log", "other.jsonl"), 2,
                             "log other.jsonl: belongs to run ", f"and {run} continues")
    if box.read("other.jsonl") != log:
        yield "the log of another run has changed"
    yield from good(train(box, *words, "--resume"))


COURSE = ["--clip", "0.5", "--warmup", "2", "--beta2", "0.9", "--seed", "7", "--shuffle",
          "--weight-decay", "0.05", "--lr-schedule", "cosine", "--lr-min", "1e-5"]


KEPT = "memwall: durable in drive: --resume drive continues it; `memwall rm drive` " \
       "deletes it\n"


def check_course(box):
    """What is not given again stays; what is changes the course from there on, and is told."""
    words = [*DRIVES, "--commit", "step"]
    box.empty_drives()
    wrong, expected = undisturbed(box, *words, *COURSE)
    yield from wrong
    box.empty_drives()
    start = [word for word in SMALL if word not in ("--lr", "2e-3")]
    model = ["-m", str(GPT2 / "config.json"), "--batch", "2"]
    yield from good(train(box, *words, *COURSE, steps=3))
    # Its cosine ended with the third step: what went before has another one.
    first = losses(box)
    done = box.run(*model, *start, *words, "--steps", "6", "--resume")
    yield from good(done)
    if done.said != KEPT:
        yield f"said {done.said!r}"
    kept = losses(box)
    box.empty_drives()
    yield from good(train(box, *words, *COURSE, steps=3))
    yield from good(train(box, *words, *COURSE, "--resume", steps=6))
    if losses(box) != kept or kept[:3] != first or kept[3:] == expected[3:6]:
        yield f"losses {kept}, not {losses(box)}"
    done = train(box, *words, "--resume", "--lr", "1e-4", "--clip", "2", steps=7)
    yield from good(done)
    if done.said != "memwall: resuming with changed settings: --lr is 0.0001, it was 0.002; " \
                    f"--clip is 2, it was 0.5\n{KEPT}":
        yield f"said {done.said!r}"
    least = [*model, *start, *words, "--resume", "--lr-schedule", "cosine", "--lr-min"]
    yield from check_refused(box.run(*least, "2e-4", "--steps", "8"), 2, "--lr-min", "0.0001")
    done = train(box, *words, "--resume", "--lr", "1e-4", steps=8)
    described = json.loads((box.folder / "drive/memwall-run.json").read_text())["training"]
    if done.returncode or done.said != KEPT or described["clip"] != 2 or described["seed"] != 7:
        yield f"said {done.said!r}, described as {described}"
    done = train(box, *words, "--resume", "--lr", "1e-3", "--at", "previous", "--seed", "9")
    yield from good(done)
    if not all(words in done.said for words in ("--lr is 0.001, it was 0.0001;",
                                                "--seed is 9, it was 7\n")):
        yield f"said {done.said!r}"


def check_data(box):
    """Other data is told, by its name, or by its size under the same name."""
    words = [*DRIVES, "--commit", "step"]
    box.empty_drives()
    text = (box.folder / "text.txt").read_bytes()
    box.write("else.txt", text[::-1])
    yield from good(train(box, *words, steps=2))
    done = train(box, *words, "--resume", "--data", "else.txt", steps=3)
    yield from good(done)
    if "--data is " not in done.said or "else.txt, it was " not in done.said:
        yield f"said {done.said!r}"
    box.write("else.txt", text + text)
    done = train(box, *words, "--resume", "--data", "else.txt", steps=4)
    yield from good(done)
    if "--data has 5400 tokens, it had 2700" not in done.said:
        yield f"said {done.said!r}"


WILD = ["--lr", "1e3"]  # what the first update makes of the state has no finite loss


def check_advice(box):
    """A course that diverges says what helps, and that does, followed to the letter."""
    saves = ["-s", "zero-infinity-cpu", "--nvme", "drive", "--save-every", "4", "--commit", "step"]
    box.empty_drives()
    yield from good(train(box, *saves, steps=4))
    yield from check_refused_last(train(box, *saves, "--resume", *WILD), 1, "diverged",
                                  "step 4 is the last that is durable: --resume "
                                  "continues from there",
                                  "a smaller --lr")
    yield from good(train(box, *saves, "--resume", "--lr", "1e-3"))
    if len(losses(box)) != STEPS:
        yield f"losses {losses(box)}"
    words = [*DRIVES, "--commit", "step"]
    for name in ("saved", "other"):
        shutil.rmtree(box.folder / name, ignore_errors=True)
    box.empty_drives()
    yield from good(train(box, *words, "--save", "saved", steps=4))
    yield from check_refused_last(train(box, *words, "--resume", *WILD), 1, "diverged",
                                  "step 5, the last that is durable, leads here again",
                                  "--resume --at previous continues from step 4")
    yield from good(box.run("drive", "-o", "other", "--at", "previous", verb="export"))
    yield from good(train(box, *words, "--resume", "--at", "previous", "--lr", "1e-3"))
    if len(losses(box)) != STEPS:
        yield f"losses {losses(box)}"
    yield from good(train(box, *words, "--overwrite", *WILD, steps=1))
    yield from check_refused_last(train(box, *words, "--resume", "--lr", "1e-5"), 1, "diverged",
                                  "step 1 is the last that is durable, and leads here again",
                                  "--overwrite", "--from an earlier checkpoint")
    yield from good(train(box, *words, "--overwrite", "--from", "saved", "--lr", "1e-3"))
    yield from good(train(box, *words, "--overwrite", "--lr", "1e-3"))
    if len(losses(box)) != STEPS:
        yield f"losses {losses(box)}"


def check_refused_last(done, status, *words):
    """After a line that says with which course it continued."""
    done.said = done.said.strip().splitlines()[-1] + "\n"
    yield from check_refused(done, status, *words)


def check_kept(box, words, ranks=1):
    """What is durable is neither voided nor deleted but by --overwrite."""
    box.empty_drives()
    yield from good(train(box, *words, "--commit", "step", steps=3, ranks=ranks))
    before = {path: path.read_bytes() for path in box.on_drives()}
    for more in (["--commit", "step"], ["--commit", "none"], ["--commit", "step", "--seed", "7"]):
        yield from check_refused(train(box, *words, *more), 2, "drive: holds a run of 3 steps",
                                 "--resume", "--overwrite")
    yield from check_refused(train(box, *words, "--commit", "step", "--resume", "--overwrite"), 2,
                             "--overwrite")
    if before != {path: path.read_bytes() for path in box.on_drives()}:
        yield "the drives have other files"
    yield from good(train(box, *words, "--commit", "none", "--overwrite", steps=1))
    if box.on_drives():
        yield f"left {box.on_drives()}"


def check_overwrite(box, ranks):
    """A run of several ranks gives way to one of one; damage is not taken for an empty file."""
    box.empty_drives()
    yield from good(train(box, *DRIVES, "--commit", "step", steps=2, batch=1, ranks=ranks))
    record = next(path for path in box.on_drives() if path.suffix == ".record")
    record.write_bytes(b"damaged" + record.read_bytes()[7:])
    link, kept = box.folder / "drive/memwall-rank7.record", box.folder / "drive/memwall.txt"
    link.symlink_to(box.folder / "text.txt")
    kept.write_bytes(b"mine")
    yield from check_refused(train(box, *DRIVES, "--commit", "step"), 2, "holds a run",
                             "--overwrite")
    yield from good(train(box, *DRIVES, "--commit", "step", "--overwrite", steps=1))
    names = sorted(path.name for path in box.on_drives())
    if names != ["memwall-1of1.data", "memwall-rank7.record", "memwall-run.json", "memwall.record",
                 "memwall.txt"]:
        yield f"the drives have {names}"


def damaged(path):
    """The last byte of a file of weights is another."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def infinite(path):
    """A weight is; the file has no checksums, or they would tell it."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:-4] +
                     struct.pack("<f", float("inf")))


def check_overwrite_refused(box):
    """A run that cannot begin deletes nothing of the one that is there."""
    words = [*DRIVES, "--commit", "step", "--overwrite"]
    for name in ("saved", "other"):
        shutil.rmtree(box.folder / name, ignore_errors=True)
    box.empty_drives()
    yield from good(train(box, "-s", "zero3", "--save", "saved", steps=1))
    for name in ("other", "third"):
        shutil.copytree(box.folder / "saved", box.folder / name, dirs_exist_ok=True)
    damaged(box.folder / "saved/optimizer.safetensors")
    infinite(box.folder / "other/model.safetensors")
    damaged(box.folder / "third/model.safetensors")
    yield from good(train(box, *DRIVES, "--commit", "step", steps=3))
    before = {path: path.read_bytes() for path in box.on_drives()}
    listed = box.run("runs", "--json", verb="list").text
    for more, status, word in ((["--from", "saved"], 1, "optimizer.safetensors"),
                               (["--weights", "third"], 1, "model.safetensors"),
                               (["--weights", "other"], 2, "finite"),
                               (["--log", "text.txt"], 2, "text.txt"),
                               (["--log", "nowhere/log"], 2, "nowhere/log"),
                               (["--save-timeline", "nowhere/run"], 2, "nowhere/run"),
                               (["--save", "text.txt"], 2, "text.txt"),
                               (["--data", "cut.bin"], 2, "cut.bin")):
        box.write("cut.bin", b"cut")
        yield from check_refused(train(box, *words, *more), status, word)
        if before != {path: path.read_bytes() for path in box.on_drives()}:
            yield f"{more}: the drives have other files"
            return
    if box.run("runs", "--json", verb="list").text != listed:
        yield "the list has changed"
    yield from good(train(box, *DRIVES, "--commit", "step", "--resume"))


def check_foreign(box):
    """A file of a run's name that no run has left is neither overwritten nor deleted."""
    for options in ([], ["--overwrite"]):
        box.empty_drives()
        path = box.folder / "drive/memwall-1of1.data"
        path.write_bytes(b"years of work")
        for commit in ("step", "none"):
            yield from check_refused(train(box, *DRIVES, "--commit", commit, *options), 2,
                                     "drive/memwall-1of1.data", "move it away")
        yield from check_refused(box.run("drive", verb="rm"), 2, "holds no run")
        if [each.name for each in box.on_drives()] != [path.name] or \
                path.read_bytes() != b"years of work":
            yield f"left {box.on_drives()}"
    # What a killed run leaves has its lock beside it.
    (box.folder / "drive/memwall.lock").write_bytes(b"")
    yield from good(train(box, *DRIVES, "--commit", "none", steps=1))
    if box.on_drives():
        yield f"left {box.on_drives()}"


def check_torn(box):
    """Of a run without a whole step only what works is offered, and does."""
    box.empty_drives()
    words = [*DRIVES, "--commit", "step"]
    yield from good(train(box, *words, steps=3))
    path = box.folder / "drive/memwall.record"
    content = bytearray(path.read_bytes())
    for at in (200, len(content) // 2 + 200):
        content[at] ^= 255
    path.write_bytes(content)
    done = train(box, *words)
    yield from check_refused(done, 2, "drive: holds a run without a whole step",
                             "`memwall verify drive`", "--overwrite")
    if "--resume" in done.said:
        yield f"offers a resume: {done.said!r}"
    done = box.run("drive", verb="verify")
    if done.returncode != 1 or "torn" not in done.text:
        yield f"verify said {done.text!r}, {done.said!r}"
    yield from good(train(box, *words, "--overwrite", steps=1))


def check_previous(box):
    """From the step before the newest, once: then there is one step."""
    box.empty_drives()
    wrong, expected = undisturbed(box, *DRIVES, "--commit", "step")
    yield from wrong
    box.empty_drives()
    words = [*DRIVES, "--commit", "step"]
    yield from good(train(box, *words, steps=4))
    yield from check_refused(train(box, *words, "--at", "previous"), 2, "--at", "--resume")
    yield from check_refused(train(box, *words, "--resume", "--at", "2"), 2, "--at 2", "previous")
    yield from good(train(box, *words, "--resume", "--at", "previous"))
    got = losses(box)
    yield from check_same(got[-5:], expected, first=3)


def check_nothing(box):
    box.empty_drives()
    yield from check_refused(train(box, *DRIVES, "--commit", "step", "--resume"), 2, "drive")


def check_checkpoint(box, model, ways):
    """Half of a run saved by one placement and ended by another."""
    wrong, expected = undisturbed(box, "-s", "zero3", model=model)
    yield from wrong
    for start, end, same in ways:
        box.empty_drives()
        shutil.rmtree(box.folder / "saved", ignore_errors=True)
        yield from good(train(box, *start[1], "--save", "saved", steps=4, model=model,
                              batch=2 // start[0], ranks=start[0]))
        yield from good(train(box, *end[1], "--from", "saved", model=model, batch=2 // end[0],
                              ranks=end[0]))
        yield from (check_same if same else check_near)(losses(box), expected[4:])


def check_files(box):
    """Hugging Face's names, a config.json, whole files."""
    shutil.rmtree(box.folder / "saved", ignore_errors=True)
    yield from good(train(box, "-s", "zero3", "--save", "saved", steps=1))
    names = sorted(path.name for path in (box.folder / "saved").iterdir())
    if names != ["config.json", "model.safetensors", "optimizer.safetensors"]:
        yield f"the folder has {names}"
    content = (box.folder / "saved/model.safetensors").read_bytes()
    header = json.loads(content[8:8 + struct.unpack("<Q", content[:8])[0]])
    if "transformer.h.1.mlp.c_fc.weight" not in header or \
            header["transformer.h.1.mlp.c_fc.weight"]["shape"] != [32, 128]:
        yield f"the weights are {sorted(header)}"
    yield from good(train(box, "-s", "zero3", "--weights", "saved", steps=1))


def check_wrong_checkpoints(box):
    yield from check_refused(train(box, "-s", "zero3", "--from", "nowhere"), 2, "nowhere")
    yield from check_refused(train(box, "-s", "zero3", "--from", "saved", model=LLAMA), 2, "saved")
    yield from check_refused(train(box, "-s", "zero3", "--from", "saved", "--weights", str(GPT2)),
                             2, "--weights", "--from")
    yield from check_refused(train(box, "-s", "zero3", "--save", "text.txt", steps=1), 2,
                             "text.txt")


def change_metadata(path, change):
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    change(header["__metadata__"])
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length:])


def check_two_trainings(box):
    """Weights of one and moments of another are no checkpoint, though they are of one step."""
    for name in ("saved", "other", "third"):
        shutil.rmtree(box.folder / name, ignore_errors=True)
    box.write("else.txt", (box.folder / "text.txt").read_bytes()[::-1])
    words = ["-s", "zero3"]
    yield from good(train(box, *words, "--save", "saved", steps=3))
    yield from good(train(box, *words, "--seed", "5", "--save", "other", steps=3))
    yield from good(train(box, *words, "--data", "else.txt", "--save", "third", steps=3))
    weights, state = (box.folder / "saved" / name for name in ("model.safetensors",
                                                              "optimizer.safetensors"))
    own = weights.read_bytes()
    shutil.copy(box.folder / "other/model.safetensors", weights)
    say = ["saved/optimizer.safetensors: field \"seed\" of its metadata is not that of the "
           "weights beside it"]
    yield from check_refused(train(box, *words, "--from", "saved"), 2, *say)
    change_metadata(state, lambda metadata: metadata.pop("memwall.weights"))
    yield from check_refused(train(box, *words, "--from", "saved"), 2, *say)
    weights.write_bytes(own)
    done = train(box, *words, "--from", "saved")
    yield from good(done)
    if done.said != "memwall: saved: an older memwall wrote it, and its files do not say that " \
            "they belong together: this is not checked\n":
        yield f"said {done.said!r}"
    shutil.copy(box.folder / "saved/model.safetensors", box.folder / "third/model.safetensors")
    yield from check_refused(train(box, *words, "--from", "third"), 2,
                             "third/optimizer.safetensors: goes with other weights than those")
    change_metadata(box.folder / "third/model.safetensors", lambda metadata: [
        metadata.pop(key) for key in list(metadata) if key.startswith("memwall.xxh3.")])
    yield from check_refused(train(box, *words, "--from", "third"), 2,
                             "third/optimizer.safetensors: has checksums, and the weights beside "
                             "it have none")


NAN, ONES = 0x7ff8000000000000, 2**64 - 1
WRONG_FIELDS = [
    ("warmup", NAN, "9221120237041090560: must be a whole number from 0 to 1000000000"),
    ("seed", ONES, "18446744073709551615: must be a whole number from 0 to 1000000000000000"),
    ("layers", NAN, "9221120237041090560: must be a whole number from 1 to 100000"),
    ("shuffle", 2, "2: must be 0 (no) or 1 (yes)"),
    ("lr", NAN, "nan: must be a number from 1e-12 to 1000"),
    ("scaling", NAN, "nan: must be a power of two"),
    ("tokens", ONES, "18446744073709551615: must be a whole number"),
    ("decoder", 7, "7: must be 0 (GPT-2) or 1 (Llama)"),
    ("sequences", ONES, "18446744073709551615: must be a whole number"),
]


def check_wrong_fields(box):
    """What no run has would change the training; a checkpoint that says it is refused by name."""
    shutil.rmtree(box.folder / "saved", ignore_errors=True)
    words = ["-s", "zero3"]
    yield from good(train(box, *words, "--save", "saved", steps=2))
    files = [box.folder / "saved" / name for name in ("model.safetensors", "optimizer.safetensors")]
    before = [path.read_bytes() for path in files]
    for name, value, said in WRONG_FIELDS:
        def change(metadata, name=name, value=value):
            fields = [word.split("=") for word in metadata["memwall.fields"].split(" ")]
            metadata["memwall.fields"] = " ".join(
                f"{each}={value:x}" if each == name else f"{each}={was}" for each, was in fields)
        for path, content in zip(files, before):
            path.write_bytes(content)
            change_metadata(path, change)
        yield from check_refused(train(box, *words, "--from", "saved"), 2,
                                 f"saved/optimizer.safetensors: field \"{name}\" is {said}")
    for path, content in zip(files, before):
        path.write_bytes(content)
    yield from good(train(box, *words, "--from", "saved"))


def change_records(path, name, value, checksum):
    """A field of both records, under a right checksum."""
    content = bytearray(path.read_bytes())
    for at in (0, len(content) // 2):
        fields, extents = struct.unpack_from("<IQ", content, at + 20)
        length = 4096 + (32 * extents + 4095) // 4096 * 4096
        for field in range(at + 128, at + 128 + 32 * fields, 32):
            if content[field:field + 24].rstrip(b"\0") == name.encode():
                struct.pack_into("<Q", content, field + 24, value)
        struct.pack_into("<Q", content, at + 8, 0)
        struct.pack_into("<Q", content, at + 8, checksum(bytes(content[at:at + length]), length))
    path.write_bytes(content)


def check_wrong_records(box, library):
    """The same of durable steps, by a resume, verify and export."""
    checksum = ctypes.CDLL(library).XXH3_64bits
    checksum.argtypes, checksum.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_uint64
    shutil.rmtree(box.folder / "saved", ignore_errors=True)
    words = [*DRIVES, "--commit", "step"]
    box.empty_drives()
    yield from good(train(box, *words, steps=3))
    path = box.folder / "drive/memwall.record"
    before = path.read_bytes()
    for name, value, said in WRONG_FIELDS:
        path.write_bytes(before)
        change_records(path, name, value, checksum)
        changed = path.read_bytes()
        field = f"field \"{name}\" is {said}"
        yield from check_refused(train(box, *words, "--resume"), 2, "drive/memwall.record: ", field)
        yield from check_refused(box.run("drive", "-o", "saved", verb="export"), 2,
                                 "drive/memwall.record: ", field)
        done = box.run("drive", verb="verify")
        if done.returncode != 1 or field not in done.text:
            yield f"verify said {done.text!r}, {done.said!r}"
        if path.read_bytes() != changed or (box.folder / "saved").exists():
            yield f"{name}: what is refused has changed"
    path.write_bytes(before)
    yield from good(train(box, *words, "--resume"))


def check_ranks(box, strategy):
    """Two ranks with half of the batch each train as one does."""
    wrong, expected = undisturbed(box, "-s", "zero3")
    yield from wrong
    box.empty_drives()
    yield from good(train(box, *strategy, batch=1, ranks=2))
    yield from check_near(losses(box), expected)


def check_ranks_differ(box):
    """Settings that differ are one reason, told once, though each rank has files of its own."""
    box.empty_drives()
    begun = ["--nvme", "drive", "--save-every", "1"]
    yield from good(train(box, "-s", "zero3", *begun, batch=1, ranks=2, steps=2))
    for words, now in ((["-s", "ddp", *begun], "ddp"), (DRIVES, "zero-infinity-nvme")):
        done = train(box, *words, "--resume", batch=1, ranks=2)
        said = [line for line in done.said.splitlines() if line.startswith("memwall: ")]
        if done.returncode != 2 or len(said) != 1 or \
                f"-s is {now}, it was zero3" not in said[0] or "give -s zero3" not in said[0]:
            yield f"{words}: status {done.returncode}: {said}"


def check_ranks_refused(box):
    """The launcher ends with the status of the rank that was the first to refuse.  What all refuse
    alike is one line, before they have joined and after; what one refuses alone is told."""
    for what, words in {"cut.bin: ": ["--data", "cut.bin"],
                        "Unknown option --typo": ["--typo"]}.items():
        done = train(box, "-s", "zero3", *words, batch=1, ranks=2)
        if done.returncode != 2 or done.said.count(f"memwall: {what}") != 1:
            yield f"status {done.returncode}: {done.said}"
    words = [str(MEMWALL), "run", "-m", str(GPT2 / "config.json"), *SMALL, "-s", "zero3",
             "--batch", "1", "--steps", "1", "--data"]
    for files in (["cut.bin", "text.txt"], ["text.txt", "cut.bin"]):
        first = [*MPIRUN, "1", *words, files[0], ":", "-n", "1"]
        done = box.run(*words[2:], files[1], prefix=first,
                       environment={**box.environment, **RANKS_ENVIRONMENT})
        if done.returncode != 2 or done.said.count("memwall: cut.bin: ") != 1:
            yield f"one rank alone: status {done.returncode}: {done.said}"


def check_told(done, status, *lines):
    """Each line once, beside what the launcher says of a rank that fails."""
    if done.returncode != status:
        yield f"status {done.returncode}, not {status}: {done.said}"
    for line in lines:
        if done.said.count(line) != 1:
            yield f"{line!r} is {done.said.count(line)} times in {done.said!r}"


RANK_WORDS = ["-m", str(GPT2 / "config.json"), *SMALL[:SMALL.index("--log")], "--batch", "2",
              "--steps", "3"]
WAY = "all ranks of a run need the same options: start them with the same command\n"
PLAN_WAY = "all ranks follow one plan: give them the same options, and the same -H FILE where " \
           "each machine has a profile of its own\n"
UNLIKE = {  # what the second rank has, both ranks' words of it, the way out
    ("--lr", "1"): ("--lr 1", "--lr 0.002", WAY),
    ("--seed", "7"): ("--seed 7", "--seed 1", WAY),
    ("--steps", "4"): ("--steps 4", "--steps 3", WAY),
    ("--shuffle",): ("--shuffle", "no --shuffle", WAY),
    ("--max-skipped", "3"): ("--max-skipped 3", "--max-skipped 0", WAY),
    ("--data", "else.txt"): ("--data of 2700 tokens (", "--data of 2700 tokens (", WAY),
    ("--backend", "cpu"): ("--backend cpu", "--backend auto", WAY),
    ("--weights", str(GPT2)): ("--weights", "no --weights", WAY),
    ("--nvme", "drive", "--nvme", "second"): ("--nvme drive --nvme second", "no --nvme", WAY),
    ("--save", "unlike"): ("--save", "no --save", WAY),
    ("--batch", "1"): ("--batch 1", "--batch 2", PLAN_WAY),
    ("--dtype", "fp16"): ("--dtype fp16", "--dtype bf16", PLAN_WAY),
    ("-m", str(LLAMA / "config.json")): ("the model's family: Llama", "the model's family: GPT-2",
                                         PLAN_WAY),
    ("-s", "zero2"): ("-s zero2", "-s zero3", PLAN_WAY),
    ("--tiles", "2"): ("--tiles 2", "--tiles 1", PLAN_WAY),
    ("--optimizer", "lion"): ("--optimizer lion", "--optimizer adamw", PLAN_WAY),
    ("--optimizer-device", "cpu"): ("--optimizer-device cpu", "--optimizer-device gpu", PLAN_WAY),
}


def check_unlike(box):
    """Ranks that are asked for different things: said before anything is trained or deleted."""
    box.empty_drives()
    box.write("else.txt", (box.folder / "text.txt").read_bytes()[::-1])
    words = [*RANK_WORDS, "-s", "zero3"]
    for more, (theirs, first, way) in sixth(UNLIKE.items()):
        done = box.launch_each(words, [*words, *more])
        yield from check_told(done, 2, f"memwall: rank 1 has {theirs}", f", rank 0 has {first}",
                              way)
        if done.text or (box.folder / "unlike").exists():
            yield f"{more}: {done.text!r}"
    words += ["--save", "saved/ck"]
    for folder in ("saved", "other"):
        (box.folder / folder).mkdir(exist_ok=True)
    yield from check_told(box.launch_each(words, [*words, "--save", "other/ck"]), 2,
                          "rank 1 has --save ck in the folder of inode")
    (box.folder / "link").symlink_to("saved")
    yield from good(box.launch_each(words, [*words, "--save", "link/ck", "--patience", "99"]))
    from_saved = [*words[:-2], "--from", "saved/ck", "--steps", "4"]
    (box.folder / "copy").symlink_to("saved/ck")
    yield from good(box.launch_each(from_saved, [*from_saved, "--from", "copy"]))


def check_unlike_kept(box):
    """Nor is what is there deleted, or resumed."""
    words = [*RANK_WORDS, *DRIVES, "--commit", "step"]
    box.empty_drives()
    yield from good(box.launch_each(words, words))
    before = {path: path.read_bytes() for path in box.on_drives()}
    for more in (["--overwrite"], ["--resume", "--steps", "5"]):
        done = box.launch_each([*words, *more], [*words, *more, "--clip", "3"])
        yield from check_told(done, 2, "rank 1 has --clip 3, rank 0 has --clip 1: ")
    yield from check_told(box.launch_each([*words, "--overwrite"], words), 2,
                          "rank 1 has no --overwrite, rank 0 has --overwrite: ")
    if before != {path: path.read_bytes() for path in box.on_drives()}:
        yield "the drives have other files"
    yield from good(box.launch_each(*2 * [[*words, "--resume", "--steps", "4"]]))


def check_unfit(box):
    """Profiles of their own, by which one rank's plan does not fit: nobody waits for it."""
    words = [*RANK_WORDS, "-s", "zero3"]
    less = [*words, "--set", "gpu.memory_gib=1.2502"]
    done = box.launch_each(words, less)
    yield from check_told(done, 3, "memwall: the plan of rank 0 fits, that of rank 1 does not, ")
    yield from check_told(box.launch_each(less, words), 3)
    if not done.text.startswith("DOES NOT FIT"):
        yield f"printed {done.text!r}"
    yield from good(box.launch_each(words, [*words, "--set", "gpu.memory_gib=2.5"]))


def check_processors(box):
    """Ranks on processors of two kinds: what they save is of the first one's, as one file says."""
    devices = json.loads(box.run("devices", "--json", verb="list").text)["devices"]
    sets = next(device["instruction_sets"] for device in devices if device["backend"] == "cpu")
    variables = [f"MEMWALL_ISA={sets[0]}", f"MEMWALL_ISA={sets[-1]}"]
    for words in (["-s", "zero3"], [*DRIVES, "--commit", "step"]):
        box.empty_drives()
        shutil.rmtree(box.folder / "mixed", ignore_errors=True)
        words = [*RANK_WORDS, *words, "--save", "mixed"]
        yield from good(box.launch_each(words, words, variables))
        more = [*words, "--steps", "5", *(["--resume"] if "--commit" in words else
                                          ["--from", "mixed"])]
        done = box.launch_each(more, more, variables)
        yield from good(done)
        if "computed with" in done.said:
            yield f"said {done.said!r}"
        yield from good(box.run(*RANK_WORDS, "-s", "zero3", "--from", "mixed", "--steps", "6"))


def check_compared(box):
    """What all ranks did: lanes, trace, plot and the file of the run."""
    box.empty_drives()
    words = [*DRIVES, "--commit", "none"]
    plots = shutil.which("gnuplot") is not None
    files = ["--trace", "trace.json", "--save-timeline", "run.txt",
             *(["--plot", "plot.svg"] if plots else [])]
    done = train(box, *words, *files, "--json", batch=1, ranks=2)
    yield from good(done)
    compare = answer_of(done.text)["compare"]
    for lane in compare["lanes"]:
        for figure in ("busy", "exposed"):
            by_rank = lane[f"{figure}_by_rank_s"]
            if len(by_rank) != 2 or by_rank[0] != lane[figure]["measured_s"]:
                yield f"{lane['name']}: {figure} {by_rank}"
    if compare["ranks"] != 2 or not any(lane["busy_by_rank_s"][1] > 0 for lane in compare["lanes"]):
        yield f"lanes are {compare['lanes']}"
    names = [event["args"]["name"] for event in json.loads(box.read("trace.json"))["traceEvents"]
             if event["name"] == "process_name"]
    if names != ["predicted: rank 0 (of 2 alike)", "measured: rank 0", "measured: rank 1"]:
        yield f"the trace has {names}"
    for name in ("predicted", "measured: rank 0", "measured: rank 1"):
        if plots and f">{name}<" not in box.read("plot.svg"):
            yield f"the plot has no {name}"
    again = box.run("run.txt", "-H", "rtx4090", "--set", "node.gpus=2", "--set",
                    "fabric.gb_per_s=9", "--set", "fabric.latency_us=9", "--json", verb="compare")
    yield from good(again)
    for one, other in zip(compare["lanes"], answer_of(again.text)["compare"]["lanes"]):
        if one["busy_by_rank_s"] != other["busy_by_rank_s"]:
            yield f"run said {one}, compare {other}"
    done = train(box, *words, "--compare", batch=1, ranks=2)
    if "over 2 ranks" not in done.text:
        yield done.text


def check_limits(box):
    """A lane that is held back takes as long as it is told: never less, and more only where the
    machine stalls, which is less of a step the slower the lane is to be."""
    over = []
    for rate in ("2MB/s", "1MB/s", "0.5MB/s", "0.25MB/s"):
        box.empty_drives()
        done = train(box, *DRIVES, "--commit", "none", "--limit", f"nvme-read={rate}", "--json",
                     steps=3)
        yield from good(done)
        answer = answer_of(done.text)
        lanes = {lane["name"]: lane["busy"] for lane in answer["compare"]["lanes"]}
        lane = lanes["nvme-read"]
        if lane["measured_s"] < 0.9 * lane["predicted_s"]:
            yield f"{rate}: nvme-read is busy for {lane}"
        if lane["measured_s"] < 1.5 * lane["predicted_s"]:
            break
        over.append(lane)
    else:
        yield f"nvme-read is busy for {over}"
    yield from check_refused(train(box, "-s", "zero3", "--limit", "gpu=2GB/s"), 2, "--limit")


def check_loss_scale(box):
    wrong, expected = undisturbed(box, "-s", "zero3")
    yield from wrong
    yield from good(train(box, "-s", "zero3", "--loss-scale", "1024"))
    yield from check_same(losses(box), expected)
    yield from check_refused(train(box, "-s", "zero3", "--loss-scale", "3"), 2, "--loss-scale 3")


def scales(box):
    text = (box.folder / "log.jsonl").read_text()
    return [json.loads(line)["loss_scale"] for line in text.splitlines()]


def check_fp16(box):
    """The loss scale that was found stays with the run; another type begins its own."""
    words = [*DRIVES, "--commit", "step", "--dtype", "fp16", "--loss-scale", "dynamic"]
    box.empty_drives()
    wrong, expected = undisturbed(box, *words)
    yield from wrong
    found = scales(box)
    if found[0] != 65536:
        yield f"loss scales {found}"
    box.empty_drives()
    yield from good(train(box, *words, steps=3))
    yield from check_refused(train(box, *DRIVES, "--commit", "step", "--resume", "--dtype", "bf16"),
                             2, "with --dtype bf16: ", "with --dtype fp16;")
    yield from good(train(box, *DRIVES, "--commit", "step", "--resume"))
    yield from check_same(losses(box), expected)
    if scales(box) != found:
        yield f"loss scales {scales(box)}, not {found}"


def check_other_type(box):
    """A checkpoint holds fp32: either type continues from the other's."""
    for first, second, scale in (("bf16", "fp16", 65536), ("fp16", "bf16", 1)):
        wrong, expected = undisturbed(box, "-s", "zero3", "--dtype", second)
        yield from wrong
        shutil.rmtree(box.folder / "saved", ignore_errors=True)
        yield from good(train(box, "-s", "zero3", "--dtype", first, "--save", "saved", steps=4))
        yield from good(train(box, "-s", "zero3", "--dtype", second, "--from", "saved"))
        yield from check_near(losses(box), expected[4:])
        if scales(box)[0] != scale:
            yield f"from {first} to {second}: loss scales {scales(box)}"


def tests(box):
    nvme = (1, [*DRIVES, "--commit", "none"])
    cpu = (1, ["-s", "zero-infinity-cpu", "--param-device", "cpu", "--optimizer-device", "cpu"])
    device = (1, ["-s", "zero3"])
    yield "resume after 3 steps", check_resume(box, 3)
    yield "resume after 6 steps", check_resume(box, 6)
    yield "resume by other instructions", check_instructions(box)
    yield "resume with other sums", check_digits(box)
    yield "resume with another block of the drive", check_stripes(box)
    yield "saved state", check_saves(box)
    yield "resume another run", check_other_run(box)
    yield "resume with other layers left out", check_other_drops(box)
    yield "a resume that is refused", check_refused_whole(box)
    yield "resume with another course", check_course(box)
    yield "resume with other data", check_data(box)
    yield "advice after a divergence", check_advice(box)
    yield "resume the step before", check_previous(box)
    yield "a run that is there", check_kept(box, DRIVES)
    yield "a run on two drives that is there", check_kept(box, [*DRIVES, "--nvme", "second"])
    yield "a run that is overwritten", check_overwrite(box, 1)
    yield "overwriting that is refused", check_overwrite_refused(box)
    yield "a file of somebody's", check_foreign(box)
    yield "a run without a whole step", check_torn(box)
    yield "resume from nothing", check_nothing(box)
    yield "checkpoints", check_checkpoint(box, GPT2, [(device, nvme, True), (nvme, cpu, True)])
    yield "checkpoints of Llama", check_checkpoint(box, LLAMA, [(cpu, device, True)])
    yield "checkpoint files", check_files(box)
    yield "wrong checkpoints", check_wrong_checkpoints(box)
    yield "files of two trainings", check_two_trainings(box)
    yield "fields of a checkpoint", check_wrong_fields(box)
    library = ctypes.util.find_library("xxhash")
    if library:
        yield "fields of records", check_wrong_records(box, library)
    yield "loss scale", check_loss_scale(box)
    yield "fp16", check_fp16(box)
    yield "another type", check_other_type(box)
    yield "limits", check_limits(box)
    if not has_ranks():
        return
    yield "ranks: a run that is overwritten", check_overwrite(box, 2)
    yield "ranks: zero2", check_ranks(box, ["-s", "zero2"])
    yield "ranks: nvme", check_ranks(box, [*DRIVES, "--commit", "none"])
    yield "ranks: owners", check_ranks(box, ["-s", "zero-offload"])
    yield "ranks: owners on drives", check_ranks(box, [*DRIVES, "--commit", "none", "--partition",
                                                       "owner"])
    box.write("cut.bin", b"cut")
    yield "ranks: other settings", check_ranks_differ(box)
    yield "ranks: wrong input", check_ranks_refused(box)
    yield "ranks: asked for different things", check_unlike(box)
    yield "ranks: beside a run that is there", check_unlike_kept(box)
    yield "ranks: one does not fit", check_unfit(box)
    yield "ranks: processors of two kinds", check_processors(box)
    yield "ranks: fp16", check_ranks(box, ["-s", "zero2", "--dtype", "fp16"])
    yield "ranks: compared", check_compared(box)
    yield "checkpoints over ranks", check_checkpoint(
        box, GPT2, [(device, (2, ["-s", "zero2"]), False),
                    ((2, [*DRIVES, "--commit", "none"]), device, False)])


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
