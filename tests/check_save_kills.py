#!/usr/bin/python3
"""A save that replaces a checkpoint where a file system exchanges no two folders; prints TAP.

A SIGKILL before any call that changes a folder, a file's length or what is durable
(kill_at.c, which $KILL_AT_LIBRARY names) leaves the old checkpoint or the new one at its name, or
both beside it: the next command puts the new one there, and nothing is left when a save is done.
"""
import fcntl
import os
import shutil
import signal
import sys

from check_overwrite import killing
from check_resume import DRIVES, RanksBox, check_refused, train
from check_run import good
from tap import report_in

KILL_AT = os.environ.get("KILL_AT_LIBRARY")
ENOUGH = 200  # of such calls: more than an export makes
OLD, NEW = 2, 3  # steps


def beside(box):
    return sorted(path.name for path in box.folder.iterdir() if path.name.startswith("point"))


def steps_of(box, path="point"):
    """0: no checkpoint to continue from, or the line does not mention its steps."""
    done = train(box, "-s", "zero3", "--from", path, "--log", "none.jsonl", steps=1)
    for steps in (OLD, NEW):
        if f"counts all steps of {path}, and {steps} are done" in done.said:
            return steps, done.said
    return 0, done.said


def begin(box):
    """A run of NEW steps that is durable, and a checkpoint of it as it was before."""
    yield from good(train(box, *DRIVES, "--commit", "step", "--save", "point", steps=OLD))
    yield from good(train(box, *DRIVES, "--commit", "step", "--resume", steps=NEW))
    shutil.copytree(box.folder / "point", box.folder / "kept")


def restore(box):
    for name in beside(box):
        shutil.rmtree(box.folder / name)
    shutil.copytree(box.folder / "kept", box.folder / "point")


def export(box, at=0, plain=False):
    environment = killing(box, at) if at else {**box.environment, "LD_PRELOAD": KILL_AT}
    if not plain:
        environment["KILL_AT_NO_EXCHANGE"] = "1"
    return box.run("drive", "-o", "point", verb="export", environment=environment)


def check_whole(box, at, least):
    """A run that continues from it finds it whole; a save leaves it alone.  Returns its steps."""
    there = (box.folder / "point").exists()
    steps, said = steps_of(box)
    if steps < least or not there and steps != NEW:
        yield f"{at}: {steps} steps, {beside(box)}: {said!r}"
    if there == ("a save was killed as it replaced this checkpoint: the new one is in " in said):
        yield f"{at}: {beside(box)}: {said!r}"
    yield from good(export(box))
    if beside(box) != ["point"]:
        yield f"{at}: left {beside(box)}"
    return steps


def check_again(box):
    """The save behind one that was killed is killed, too: the newer one is not given up for it."""
    between = {name: box.folder / f"between-{name}" for name in beside(box)}
    for name, copy in between.items():
        shutil.copytree(box.folder / name, copy)
    for at in range(1, ENOUGH):
        for name in beside(box):
            shutil.rmtree(box.folder / name)
        for name, copy in between.items():
            shutil.copytree(copy, box.folder / name)
        done = export(box, at)
        if done.returncode == 0:
            return
        steps = yield from check_whole(box, f"again, {at}", NEW)
        if steps != NEW:
            yield f"again, {at}: {steps}"
    yield "it is never done"


def check_killed(box, plain):
    """`plain`: on a file system that exchanges two folders."""
    absent, steps = 0, OLD
    for at in range(1, ENOUGH):
        restore(box)
        done = export(box, at, plain)
        if done.returncode == 0:
            break
        if done.returncode != -signal.SIGKILL:
            yield f"{at}: status {done.returncode}: {done.said!r}"
        if not (box.folder / "point").exists():
            absent += 1
            yield from check_again(box)
            restore_between(box)
        steps = yield from check_whole(box, at, steps)
    else:
        yield "it is never done"
    if steps != NEW or (absent == 0) != plain:
        yield f"{steps} steps at the end, and {absent} kills left no checkpoint at its name"
    if beside(box) != ["point"]:
        yield f"left {beside(box)}"


def check_faults(box, plain):
    """A call that fails: a save that fails leaves a whole checkpoint at its name, and does not
    delete the one before."""
    environment = {**box.environment, "LD_PRELOAD": KILL_AT}
    if not plain:
        environment["KILL_AT_NO_EXCHANGE"] = "1"
    restore(box)
    count, kept = box.folder / "count", 0
    yield from good(box.run("drive", "-o", "point", verb="export",
                            environment={**environment, "KILL_COUNT": str(count)}))
    for at in range(1, int(count.read_text()) + 1):
        restore(box)
        done = box.run("drive", "-o", "point", verb="export",
                       environment={**environment, "FAIL_AT": str(at)})
        old = [name for name in beside(box) if name.endswith(".old")]
        steps, said = steps_of(box)
        if done.returncode not in (0, 1, 2) or steps not in (OLD, NEW):
            yield f"{at}: status {done.returncode}: {done.said!r}, {steps} steps: {said!r}"
        if done.returncode and steps == NEW and not old:
            yield f"{at}: the old one is gone: {done.said!r}, {beside(box)}"
        kept += steps == NEW and bool(old)
        yield from good(export(box))
        if beside(box) != ["point"]:
            yield f"{at}: left {beside(box)}"
    if not kept:
        yield "no fault comes behind the exchange"


def restore_between(box):
    for name in beside(box):
        shutil.rmtree(box.folder / name)
    for copy in box.folder.glob("between-*"):
        copy.rename(box.folder / copy.name[len("between-"):])


def check_unsettled(box):
    """Where the new one cannot come to its name, both are named; whose they are matters."""
    restore(box)
    part, old = "point.part-00000000aa", "point.part-00000000aa.old"
    shutil.copytree(box.folder / "point", box.folder / part)
    (box.folder / "point").rename(box.folder / old)
    held = os.open(box.folder / part, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    yield from check_refused(train(box, "-s", "zero3", "--from", "point", "--log", "none.jsonl"), 1,
                             "point: is not there: a save was to replace it", "at it still",
                             old + " has what was there", "the new one is whole in ", part)
    os.close(held)
    if beside(box) != [part, old]:
        yield f"left {beside(box)}"
    (box.folder / "link").symlink_to("point")
    steps, said = steps_of(box, "link")
    if steps != OLD or beside(box) != ["point"] or "the new one is in place now" not in said:
        yield f"{steps}, left {beside(box)}: {said!r}"
    (box.folder / "link").unlink()
    # Without the new one the old one comes back.
    (box.folder / "point").rename(box.folder / old)
    steps, said = steps_of(box)
    if steps != OLD or beside(box) != ["point"] or "the one before is in place now" not in said:
        yield f"{steps}, left {beside(box)}: {said!r}"


def tests(box):
    if not KILL_AT:
        yield "save-kills # SKIP no library to kill by", []
        return
    yield "save-kills: begin", begin(box)
    yield "save-kills: faults", check_faults(box, True)
    yield "save-kills: faults without exchange", check_faults(box, False)
    yield "save-kills: folders that are exchanged", check_killed(box, True)
    yield "save-kills: folders that are not", check_killed(box, False)
    yield "save-kills: no end", check_unsettled(box)


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
