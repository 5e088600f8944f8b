#!/usr/bin/python3
"""Files with names that an attacker can predict, in folders that others may write to; prints TAP.

Symbolic links, hard links, pipes, folders and files of another user that stand where a run, a
checkpoint, a description or a removal has its own: they are reported in one line, and neither
followed, waited for, written to nor deleted.  What the user names (-o, --log, --trace) is followed
as a shell follows it.
"""
import os
import shutil
import sys

from check_resume import DRIVES, RanksBox, check_refused, train
from check_run import GPT2, NOBODY, SMALL, good
from tap import report_in

STEP = [*DRIVES, "--commit", "step"]
SECRET = b"not yours to write\n"


def start_anew(box):
    for name in ("drive", "second", "state", "victim", "point", "else"):
        path = box.folder / name
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else \
            path.unlink(missing_ok=True)
    for path in box.folder.glob("point*"):
        path.unlink() if path.is_symlink() else shutil.rmtree(path)
    for name in ("drive", "second"):
        (box.folder / name).mkdir()
    (box.folder / "victim").write_bytes(SECRET)


def link(path, victim):
    path.symlink_to(victim)


def dangling(path, victim):
    path.symlink_to(victim.parent / "else")


def hard_link(path, victim):
    os.link(victim, path)


def pipe(path, _):
    os.mkfifo(path)


def folder(path, _):
    path.mkdir()


def foreign(path, _):
    path.write_bytes(b"")
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o666)


TRAPS = {"link": link, "dangling link": dangling, "hard link": hard_link, "pipe": pipe,
         "folder": folder}
if os.geteuid() == 0:
    TRAPS["file of another user"] = foreign


def seen(path):
    """What must not change of a trap."""
    status = path.lstat()
    return status.st_mode, status.st_uid, status.st_ino, status.st_size, status.st_nlink


def check_unharmed(box, path, before):
    if (box.folder / "victim").read_bytes() != SECRET or (box.folder / "else").exists():
        yield "the victim has changed"
    if not os.path.lexists(path) or seen(path) != before:
        yield f"{path.name} has changed"


def check_run_files(box, name):
    """Of a run that begins, of one that ends at once, and of what `rm` deletes."""
    for kind, trap in TRAPS.items():
        start_anew(box)
        path = box.folder / "drive" / name
        trap(path, box.folder / "victim")
        before = seen(path)
        for done in (train(box, *STEP, "--overwrite", steps=1),
                     train(box, *DRIVES, "--commit", "none", steps=1)):
            if name.endswith((".json", ".record")) and not done.returncode:
                continue  # such a run has no need of it
            wrong = list(check_refused(done, 1, name))
            yield from (f"{kind}: {line}" for line in wrong)
        box.run("drive", verb="rm")
        yield from (f"{kind}: {line}" for line in check_unharmed(box, path, before))


def check_resumed(box, name):
    """Between a run and the one that resumes it."""
    for kind, trap in TRAPS.items():
        start_anew(box)
        yield from good(train(box, *STEP, steps=1))
        path, kept = box.folder / "drive" / name, box.folder / "second" / name
        path.rename(kept)
        if kind == "link":
            path.symlink_to(kept)
        else:
            trap(path, box.folder / "victim")
        before = seen(path)
        wrong = [*check_refused(train(box, *STEP, "--resume", steps=2), 1, name),
                 *check_refused(box.run("drive", "-o", "point", verb="export"), 1, name),
                 *check_unharmed(box, path, before)]
        yield from (f"{kind}: {line}" for line in wrong)


def check_checkpoint_part(box):
    """What stands beside a checkpoint's place stays; the folder that a killed save left goes."""
    start_anew(box)
    words = ["-s", "zero3", "--save", "point"]
    for name in ("point.part", "point.old", "point.part-0123456789", "point.part-abc"):
        (box.folder / name).mkdir()
        (box.folder / name / "model.safetensors").write_bytes(SECRET)
    (box.folder / "point.part-0123456789" / "mine.txt").write_bytes(SECRET)
    (box.folder / "point.part-fedcba9876").symlink_to(box.folder / "second")
    (box.folder / "second/model.safetensors").write_bytes(SECRET)
    (box.folder / "point.part-00000000aa").mkdir()
    (box.folder / "point.part-00000000aa/model.safetensors.part").write_bytes(b"left by a kill")
    (box.folder / "point.part-00000000aa/config.json.aB3dE9").write_bytes(b"and this")
    if os.geteuid() == 0:
        theirs = box.folder / "point.part-00000000bb"
        theirs.mkdir()
        (theirs / "config.json").write_bytes(SECRET)
        os.chown(theirs, NOBODY, NOBODY)
    for steps in (1, 2):
        yield from good(train(box, *words, steps=steps))
    names = sorted(path.name for path in box.folder.glob("point*"))
    expected = ["point", "point.old", "point.part", "point.part-0123456789", "point.part-abc",
                "point.part-fedcba9876"]
    if os.geteuid() == 0:
        expected.append("point.part-00000000bb")
    if names != sorted(expected):
        yield f"beside it are {names}"
    for name in ("point.part", "point.old", "point.part-abc", "second"):
        if (box.folder / name / "model.safetensors").read_bytes() != SECRET:
            yield f"{name} has changed"


def check_replaced(box):
    """A checkpoint that holds files of another user's is not replaced; links in it are not
    written through."""
    start_anew(box)
    words = ["-s", "zero3", "--save", "point"]
    yield from good(train(box, *words, steps=1))
    weights = box.folder / "point/model.safetensors"
    elsewhere = box.folder / "second/model.safetensors"
    weights.rename(elsewhere)
    before = elsewhere.read_bytes()
    weights.symlink_to(elsewhere)
    yield from good(train(box, *words, "--seed", "2", steps=1))
    if weights.is_symlink() or elsewhere.read_bytes() != before:
        yield "the link was followed"
    weights.rename(elsewhere)
    weights.symlink_to(box.folder / "victim")
    yield from check_refused(train(box, *words, steps=1), 2, "--save point: holds a checkpoint "
                             "that cannot be read (point/model.safetensors: ")
    if not weights.is_symlink() or (box.folder / "victim").read_bytes() != SECRET:
        yield "what cannot be read has changed"
    weights.unlink()
    elsewhere.rename(weights)
    if os.geteuid() == 0:
        os.chown(weights, NOBODY, NOBODY)
        done = train(box, *words, steps=1)
        yield from check_refused(done, 2, "holds model.safetensors")


def check_user_names(box):
    """A link that the user names as output stays, and the file behind it is written whole, be it
    there before or not."""
    start_anew(box)
    names = [("-o", "plan"), ("--trace", "trace.json"), ("--log", "log.jsonl"),
             ("--save-timeline", "run")]
    for option, name, is_there in [(*both, there) for both in names for there in (True, False)]:
        (box.folder / "link").unlink(missing_ok=True)
        if is_there:
            (box.folder / "second" / name).write_bytes(b"")
        (box.folder / "link").symlink_to(box.folder / "second" / name)
        done = box.run(*SMALL, "-s", "zero3", "--steps", "1", option, "link")
        yield from good(done)
        if not (box.folder / "link").is_symlink() or \
                not (box.folder / "second" / name).stat().st_size:
            yield f"{option}: the link was replaced, or its file is empty"
        if sorted(os.listdir(box.folder / "second")) != [name]:
            yield f"{option}: left {os.listdir(box.folder / 'second')}"
        (box.folder / "second" / name).unlink()


def tests(box):
    assert GPT2.exists()
    for name in ("memwall.lock", "memwall.record", "memwall-1of1.data", "memwall-run.lock",
                 "memwall-run.json"):
        yield f"a run beside {name}", check_run_files(box, name)
    for name in ("memwall.record", "memwall-1of1.data"):
        yield f"a resume from {name}", check_resumed(box, name)
    yield "folders beside a checkpoint", check_checkpoint_part(box)
    yield "a checkpoint that is replaced", check_replaced(box)
    yield "names of the user's", check_user_names(box)


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
