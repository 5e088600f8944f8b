#!/usr/bin/python3
"""`run --overwrite` from outside: what is there goes when the new run has begun; prints TAP.

What keeps the new run from its first step leaves the old one whole, and what it was in the list. So
does a SIGKILL before any call that changes a folder, a file's length or what is durable (kill_at.c,
which $KILL_AT_LIBRARY names), be it in the new run or in the command that puts the old one back: or
else the new one has begun.
"""
import itertools
import json
import os
import resource
import shutil
import signal
import sys

from check_faults import Disturbed, ENOUGH as STEPS_ENOUGH, SmallSystem, on_small, \
    without_notices
from check_resume import RanksBox, train
from check_run import GPT2, good
from check_runs import STEP, left, listed, make_drives, runs_of, start_anew
from command import SANITIZED
from tap import Skip, has_ranks, report_in

BOTH = ["--nvme", "drive", "--nvme", "second"]
OLD, NEW = 3, 2  # steps
KILL_AT = os.environ.get("KILL_AT_LIBRARY")
ENOUGH = 500  # of such calls: more than any run here makes


def state_of(box):
    """Of the only run: its name, state and steps."""
    return [(run["run"], run["state"], run["durable_steps"]) for run in listed(box)]


def drives_content(box):
    return {path: path.read_bytes() for path in box.on_drives()}


# --- a start that fails --------------------------------------------------------------------------

def check_spared(box, what, status, *words, limits=None):
    """Files, list and log are as they were, and the run continues."""
    before, runs = drives_content(box), listed(box)
    done = box.run("-m", "model/config.json", "-H", "rtx4090", "--set", "gpu.memory_gib=2",
                   "--data", "text.txt", "--batch", "2", *STEP, *BOTH, "--steps", str(NEW),
                   "--overwrite", *words, limits=limits)
    if done.returncode != status or what not in done.said:
        yield f"{what}: status {done.returncode}: {done.said!r}"
    if limits and resource.RLIMIT_AS in limits:
        box.run("runs", verb="list")  # exit() is not ours there: whoever looks next puts it back
    elif "is back: no step of the new one is kept" not in done.said:
        yield f"{what}: {done.said!r}"
    if listed(box) != runs or drives_content(box) != before:
        yield f"{what}: {runs}, then {listed(box)}; {box.on_drives()}"
    if left(box) != [runs[0]["run"]]:
        yield f"{what}: {left(box)}"


def check_failing(box):
    start_anew(box)
    shutil.copytree(os.path.dirname(os.path.abspath(__file__)) + "/fixtures/gpt2-small",
                    box.folder / "model", dirs_exist_ok=True)
    yield from good(train(box, *STEP, *BOTH, steps=OLD))
    os.mkfifo(box.folder / "pipe")
    yield from check_spared(box, "a pipe that nobody reads", 1, "--log", "pipe")
    # The write of the description, and of the drives' files.
    yield from check_spared(box, "File too large", 1, limits={resource.RLIMIT_FSIZE: 10 << 10})
    yield from check_spared(box, "File too large", 1, limits={resource.RLIMIT_FSIZE: 100 << 10})
    yield from check_spared(box, "Too many open files", 1, limits={resource.RLIMIT_NOFILE: 12})
    yield from good(train(box, *STEP, *BOTH, "--resume", steps=OLD + 1))
    yield from good(train(box, *STEP, *BOTH, "--overwrite", steps=NEW))
    if [run[1:] for run in state_of(box)] != [("durable", NEW)]:
        yield f"{state_of(box)}"


def check_threads(box):
    """OpenMP ends the process where a thread is refused: from memory that is too little for them up
    to enough, the old run is there, or the new one is done."""
    if SANITIZED:
        yield Skip("no limit of addresses means anything with sanitizers")
        return
    start_anew(box)
    yield from good(train(box, *STEP, *BOTH, steps=OLD))
    before = drives_content(box)
    for mib in [*range(300, 1500, 150), None]:
        limits = {resource.RLIMIT_AS: mib << 20} if mib else None
        done = box.run("-m", str(GPT2 / "config.json"), "-H", "rtx4090", "--set",
                       "gpu.memory_gib=2", "--data", "text.txt", "--batch", "2", *STEP, *BOTH,
                       "--steps", str(NEW), "--overwrite", limits=limits)
        box.run("runs", verb="list")
        steps = [run["durable_steps"] for run in listed(box)]
        if steps != [NEW if done.returncode == 0 else OLD]:
            yield f"{mib} MiB: status {done.returncode}: {done.said!r}, then {steps}"
        if done.returncode == 0:
            break
        if drives_content(box) != before:
            yield f"{mib} MiB: files are others"
    else:
        yield "it is never done"
    if mib == 300:
        yield Skip("300 MiB are enough here")


# --- steps that keep nothing ----------------------------------------------------------------------

def is_left_alone(box, before, runs, what, said=""):
    if drives_content(box) != before or listed(box) != runs:
        yield f"{what}: runs are {listed(box)}, before {runs}; {box.on_drives()}: {said!r}"


def check_skipped(box):
    """A first step that is skipped, committed or not, is none to keep, and one that is committed
    behind it is."""
    start_anew(box)
    yield from good(train(box, *STEP, *BOTH, steps=OLD))
    before, runs = drives_content(box), listed(box)
    words = [*STEP, *BOTH, "--overwrite", "--dtype", "fp16"]
    one = ["--seq", "1"]  # of one token the gradient is too large for 65536 times it, and then not
    for more in (["--loss-scale", "1073741824"], [*one, "--max-skipped", "1"]):
        done = train(box, *words, *more, batch=1, steps=NEW)
        if done.returncode != 1 or "has diverged; no step " not in done.said or \
                "is back: no step of the new one is kept" not in done.said:
            yield f"{more}: status {done.returncode}: {done.said!r}"
        yield from is_left_alone(box, before, runs, more, done.said)
    yield from good(train(box, *words, *one, batch=1, steps=NEW + 2))
    skipped = [json.loads(line)["skipped"] for line in box.read("log.jsonl").splitlines()]
    if skipped[0] is not True or [run[1:] for run in state_of(box)] != [("durable", NEW + 2)]:
        yield f"skipped {skipped}, then {state_of(box)}"
    # All that there was to do was skipped, and that is durable.
    yield from good(train(box, *words, *one, batch=1, steps=1))
    if [run[1:] for run in state_of(box)] != [("durable", 1)]:
        yield f"{state_of(box)}"


def check_uncommitted(box):
    """Nor is one that is not durable, in a run that makes steps durable."""
    start_anew(box)
    yield from good(train(box, *STEP, *BOTH, steps=OLD))
    before, runs = drives_content(box), listed(box)
    words = ["-s", "zero-offload", *BOTH, "--batch", "2", "--steps", str(STEPS_ENOUGH),
             "--overwrite"]
    for every, ending in (("900", signal.SIGKILL), ("1", signal.SIGKILL), ("900", signal.SIGTERM)):
        run = Disturbed(box, *words, "--save-every", every)
        run.process.send_signal(ending)
        run.end()
        box.run("runs", verb="list")
        if every == "900" and ending == signal.SIGKILL:
            yield from is_left_alone(box, before, runs, "killed", run.said)
        elif [each[1] for each in state_of(box)] != ["durable"] or \
                listed(box)[0]["created"] == runs[0]["created"]:
            yield f"{every}, {ending}: {state_of(box)}: {run.said!r}"


# --- kills ---------------------------------------------------------------------------------------

def killing(box, at):
    return {**box.environment, "LD_PRELOAD": KILL_AT, "KILL_AT": str(at)}


def check_state(box, where, begun):
    """Who looks now finds the old run whole, or the new one begun: once begun it stays so.  Returns
    whether it has."""
    box.run("runs", verb="list")  # which says what it puts back
    runs = state_of(box)
    steps = (runs[0][2] or -1) if len(runs) == 1 else -1
    if steps == OLD and runs[0][1] == "durable" and not begun:
        done = box.run(runs[0][0], verb="verify")
        if done.returncode:
            yield f"{where}: {done.text!r} {done.said!r}"
    elif not 1 <= steps <= NEW:  # its first step is durable by then
        yield f"{where}: {runs}"
    aside = [path for path in box.folder.rglob("memwall-*") if path.is_dir()]
    if aside:
        yield f"{where}: {aside}"
    return steps != OLD


def restore(box, kept):
    for name, copy in kept.items():
        shutil.rmtree(box.folder / name, ignore_errors=True)
        shutil.copytree(copy, box.folder / name, symlinks=True)


def keep(box, *names):
    kept = {}
    for name in names:
        kept[name] = box.folder / f"kept-{name}"
        shutil.rmtree(kept[name], ignore_errors=True)
        shutil.copytree(box.folder / name, kept[name])
    return kept


def check_kills(box, words, names, step):
    """In front of each such call of a run, and of each of whoever looks behind it."""
    kept, begun = keep(box, *names), False
    for at in range(1, ENOUGH, step):
        restore(box, kept)
        done = train(box, *words, "--overwrite", "--log", "own.jsonl", steps=NEW,
                     environment=killing(box, at))
        (box.folder / "own.jsonl").unlink(missing_ok=True)
        if done.returncode == 0:
            break
        if done.returncode != -signal.SIGKILL:
            yield f"{at}: status {done.returncode}: {done.said!r}"
        pending = any(path.is_dir() for path in box.folder.rglob("memwall-*"))
        for again in range(1, ENOUGH) if pending and at % 3 == 0 else ():
            looked = box.run("runs", verb="list", environment=killing(box, again))
            if looked.returncode not in (0, -signal.SIGKILL):
                yield f"{at}, {again}: status {looked.returncode}: {looked.said!r}"
            if looked.returncode != -signal.SIGKILL:
                break
        begun = (yield from check_state(box, at, begun)) or begun
    else:
        yield "it is never done"
    if not begun:
        yield "never begun"
    if [run[1:] for run in state_of(box)] != [("durable", NEW)]:
        yield f"{state_of(box)}"


def check_killed(box):
    """Two directories of the user's, under one name; and others that a run has made."""
    start_anew(box)
    yield from good(train(box, *STEP, *BOTH, steps=OLD))
    yield from check_kills(box, [*STEP, *BOTH], ["drive", "second", "state"], 1)


def check_killed_own(box):
    start_anew(box)
    make_drives(box, "fast", "vast")
    box.environment["MEMWALL_NVME"] = ":".join(str(box.folder / each) for each in ("fast", "vast"))
    yield from good(train(box, *STEP, steps=OLD))
    del box.environment["MEMWALL_NVME"]
    words = [word for each in listed(box)[0]["directories"] for word in ("--nvme", each)]
    yield from check_kills(box, [*STEP, *words], ["fast", "vast", "state"], 3)


def failing(box, **how):
    return {**box.environment, "LD_PRELOAD": KILL_AT, **{key: str(how[key]) for key in how}}


def check_faults(box):
    """Calls of the drive that fail, once or always: a run that ends well is the one that is there,
    and what --overwrite was to delete is deleted by whoever looks next."""
    start_anew(box)
    yield from good(train(box, *STEP, *BOTH, steps=OLD))
    kept, count = keep(box, "drive", "second", "state"), box.folder / "count"
    words = [*STEP, *BOTH, "--overwrite", "--log", "own.jsonl"]
    yield from good(train(box, *words, steps=NEW, environment=failing(box, KILL_COUNT=count)))
    faults = [{"FAIL_AT": at} for at in range(1, int(count.read_text()) + 1, 4)]
    for how in [*faults, {"FAIL_TO": "memwall-discarded"}, {"FAIL_TO": "memwall-replaced"}]:
        restore(box, kept)
        (box.folder / "own.jsonl").unlink(missing_ok=True)
        done = train(box, *words, steps=NEW, environment=failing(box, **how))
        if done.returncode not in (0, 1):
            yield f"{how}: status {done.returncode}: {done.said!r}"
        yield from check_state(box, how, done.returncode == 0)
        if done.returncode == 0 and [run[1:] for run in state_of(box)] != [("durable", NEW)]:
            yield f"{how}: {state_of(box)}: {done.said!r}"


def check_in_the_way(box):
    """What has a name that the old run would need on its way out is seen before it moves."""
    start_anew(box)
    yield from good(train(box, *STEP, *BOTH, steps=OLD))
    for folder, name in itertools.product(("drive", "second"),
                                          ("moving", "replaced", "discarded")):
        path = box.folder / folder / f"memwall-{name}"
        path.write_text("")
        done = train(box, *STEP, *BOTH, "--overwrite", steps=NEW)
        if done.returncode == 0 or f"{folder}/memwall-{name}: is in the way" not in done.said:
            yield f"{path}: status {done.returncode}: {done.said!r}"
        path.unlink()
        yield from check_state(box, path, False)
        if [run[1:] for run in state_of(box)] != [("durable", OLD)]:
            yield f"{path}: {state_of(box)}"


def check_killed_before(box):
    """A name that is kept, and its place in the list, are the old run's again."""
    start_anew(box)
    yield from good(train(box, *STEP, steps=OLD))
    run = listed(box)[0]
    folder = runs_of(box) / run["run"]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = train(box, *STEP, "--nvme", run["directories"][0], "--overwrite", "--log", "pipe",
                 steps=NEW)
    after = {path: path.read_bytes() for path in folder.iterdir()}
    if done.returncode != 1 or after != before or listed(box) != [run]:
        yield f"status {done.returncode}: {done.said!r}; {listed(box)}, before {run}"
    yield from good(train(box, *STEP, "--resume", steps=OLD + 1))


# --- room ----------------------------------------------------------------------------------------

def check_no_room(box, small):
    """For two runs: the old one goes before the first step, and that is said."""
    words = on_small(small)
    yield from good(without_notices(train(box, *words, steps=OLD)))
    size = sum(path.stat().st_blocks * 512 for path in small.path.iterdir())
    for left_bytes in (size // 2, 0):  # what is small has room beside it, or not
        small.fill(left_bytes)
        done = without_notices(train(box, *words, "--overwrite", steps=NEW))
        yield from good(done)
        if "no room for two runs: the old one is deleted before the first step" not in done.said:
            yield f"{left_bytes}: {done.said!r}"
        small.empty()
    done = without_notices(train(box, *words, "--overwrite", steps=NEW))
    yield from good(done)
    if "has no room" in done.said:
        yield f"with room: {done.said!r}"


def tests(box):
    yield "overwrite: starts that fail", check_failing(box)
    yield "overwrite: memory for threads", check_threads(box)
    yield "overwrite: steps that are skipped", check_skipped(box)
    yield "overwrite: steps that are not durable", check_uncommitted(box)
    yield "overwrite: a name that is kept", check_killed_before(box)
    skipped = "" if KILL_AT else " # SKIP no library to kill by"
    yield f"overwrite: kills{skipped}", check_killed(box) if KILL_AT else []
    yield f"overwrite: kills of a run of its own{skipped}", check_killed_own(box) if KILL_AT else []
    yield f"overwrite: faults{skipped}", check_faults(box) if KILL_AT else []
    yield "overwrite: names that are taken", check_in_the_way(box)
    small = SmallSystem(box, "tmpfs", 24 << 20)
    skipped = "" if small.path else " # SKIP it cannot be mounted here"
    yield f"overwrite: no room{skipped}", check_no_room(box, small) if small.path else []
    small.close()
    if has_ranks():
        yield "overwrite: ranks", check_ranks(box)


def check_ranks(box):
    """That fail together: what one of them has set aside comes back, with the next look at most."""
    start_anew(box)
    words = ["-s", "zero-infinity-nvme", "--optimizer-device", "nvme", "--commit", "step", *BOTH]
    yield from good(train(box, *words, ranks=2, batch=1, steps=OLD))
    runs = state_of(box)
    done = train(box, *words, "--overwrite", "--log", "pipe", ranks=2, batch=1, steps=NEW)
    box.run("runs", verb="list")
    if done.returncode == 0 or state_of(box) != runs:
        yield f"status {done.returncode}: {done.said!r}; {state_of(box)}"
    yield from good(train(box, *words, "--resume", ranks=2, batch=1, steps=OLD + 1))
    yield from good(train(box, *words, "--overwrite", ranks=2, batch=1, steps=NEW))
    if [run[1:] for run in state_of(box)] != [("durable", NEW)]:
        yield f"{state_of(box)}"


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
