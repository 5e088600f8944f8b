#!/usr/bin/python3
"""Runs that are kept: directories, `memwall list runs`, --resume RUN, `memwall rm`; prints TAP.

Each run without --nvme has a directory of its own under the XDG state home; what is durable there
is found by name, resumed and deleted, with nothing else; what killed runs have left goes.
"""
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from check_faults import Disturbed, ENOUGH, SECONDS
from check_resume import RanksBox, SMALL, check_refused, train
from check_run import GPT2, MEMWALL, good, losses
from command import unless_few
from tap import Held, Skip, has_ranks, report_in

KILL_AT = os.environ.get("KILL_AT_LIBRARY")
OWN = ["-s", "zero-infinity-nvme", "--param-device", "nvme", "--optimizer-device", "nvme"]
STEP, NONE = [*OWN, "--commit", "step"], [*OWN, "--commit", "none"]


def runs_of(box):
    return box.folder / "state/memwall/runs"


def left(box):
    """Names of all folders that runs have of their own."""
    return sorted(os.listdir(runs_of(box))) if runs_of(box).exists() else []


def listed(box):
    done = box.run("runs", "--json", verb="list")
    assert not done.returncode and not done.said, done.said
    return json.loads(done.text)["runs"]


def make_drives(box, *names):
    """Folders for $MEMWALL_NVME, which makes none."""
    for name in names:
        shutil.rmtree(box.folder / name, ignore_errors=True)
        (box.folder / name).mkdir()


def start_anew(box):
    box.empty_drives()
    shutil.rmtree(box.folder / "state", ignore_errors=True)


def check_own(box):
    """Two runs side by side; the newest is the default, and both go by name or directory."""
    start_anew(box)
    for steps in (2, 3):
        yield from good(train(box, *STEP, steps=steps))
    runs = listed(box)
    if [run["durable_steps"] for run in runs] != [3, 2] or left(box) != sorted(
            run["run"] for run in runs) or {run["state"] for run in runs} != {"durable"}:
        yield f"runs are {runs}, folders {left(box)}"
        return
    if not runs[0]["run"].startswith("gpt2-small-") or runs[0]["bytes"] < 100000:
        yield f"the newest is {runs[0]}"
    done = train(box, *STEP, "--resume", steps=4)
    yield from good(done)
    yield from check_refused(train(box, *STEP, "--resume", runs[1]["run"], steps=4), 2,
                             "log log.jsonl: belongs to run " + runs[0]["run"])
    if f"continuing run {runs[0]['run']}: 3 steps" not in done.said:
        yield f"said {done.said!r}"
    for step, how in ((4, runs[1]["run"]), (5, runs[1]["directories"][0])):
        done = train(box, *STEP, "--resume", how, "--log", "other.jsonl", steps=step)
        yield from good(done)
        line = f"continuing run {runs[1]['run']}: {(2, 4)[step - 4]} steps are durable\n"
        if line not in done.said:
            yield f"said {done.said!r}"
    if [run["durable_steps"] for run in listed(box)] != [5, 4]:
        yield f"runs are {listed(box)}"
    table = box.run("runs", verb="list").text.splitlines()
    if len(table) != 3 or table[0].split()[:4] != ["run", "state", "steps", "size"] or \
            table[1].split()[:3] != [runs[1]["run"], "durable", "5"]:
        yield f"the table is {table}"


def check_rm(box):
    """By its exact name alone; what is not ours stays."""
    runs = listed(box)
    name = runs[0]["run"]
    folder = runs_of(box) / name
    for wrong in (name[:-1], name + "*", "text.txt", "drive", "", "..", "nowhere"):
        done = box.run(wrong, verb="rm")
        yield from check_refused(done, 2, wrong)
    if len(listed(box)) != 2:
        yield f"runs are {listed(box)}"
    (folder / "mine.txt").write_text("mine")
    (folder / ".memwall-run.json.aB3dE9").write_text("of a run that was killed as it wrote")
    (folder / "memwall-9of9.data").symlink_to(box.folder / "text.txt")
    yield from good(box.run(name, verb="rm"))
    if sorted(os.listdir(folder)) != ["memwall-9of9.data", "mine.txt"]:
        yield f"left {os.listdir(folder)}"
    if not (box.folder / "text.txt").exists():
        yield "a link was followed"
    shutil.rmtree(folder)
    yield from good(box.run(runs[1]["run"], verb="rm"))
    if listed(box) or left(box):
        yield f"runs are {listed(box)}, folders {left(box)}"
    done = box.run("runs", verb="list")
    if done.returncode or done.said or not done.text.startswith("no runs: "):
        yield f"of no run: {done.text!r}, {done.said!r}"
    yield from check_refused(train(box, *STEP, "--resume"), 2, "--resume: no run")
    yield from check_refused(train(box, *STEP, "--resume", name), 2, name)
    yield from check_refused(train(box, *STEP, "--resume", name, "--nvme", "drive"), 2, "--nvme")
    yield from check_refused(box.run("--force", name, verb="rm"), 2, "--force")


def check_passing(box):
    """What is not durable leaves nothing behind when it ends, well or not."""
    start_anew(box)
    yield from good(train(box, *NONE, steps=2))
    yield from good(train(box, *STEP, "--backend", "null", steps=2))
    if left(box):
        yield f"left {left(box)}"
    yield from check_refused(train(box, *STEP, "--data", "none.txt"), 2, "none.txt")
    if left(box):
        yield f"left {left(box)}"


def check_killed(box):
    """A run in progress is not resumed, deleted or swept; once it is dead the next start does."""
    start_anew(box)
    run = Disturbed(box, *NONE, "--batch", "2", "--steps", str(ENOUGH))
    running = listed(box)
    if [each["state"] for each in running] != ["running"]:
        yield f"runs are {running}"
        run.process.kill()
        return
    name = running[0]["run"]
    yield from check_refused(box.run(name, verb="rm"), 2, name, "is running")
    yield from check_refused(box.run(running[0]["directories"][0], verb="rm"), 2, "is running")
    yield from good(train(box, *NONE, steps=1))
    if left(box) != [name]:
        yield f"left {left(box)}"
    run.process.send_signal(signal.SIGKILL)
    run.end()
    if [each["state"] for each in listed(box)] != ["empty"]:
        yield f"runs are {listed(box)}"
    yield from good(train(box, *NONE, steps=1))
    if left(box):
        yield f"left {left(box)}"


def check_starting(box):
    """A run that checks what it is given has a folder with a lock, and no description yet."""
    start_anew(box)
    yield from good(train(box, *STEP, steps=1))
    name = listed(box)[0]["run"]
    folder = runs_of(box) / "starting"
    folder.mkdir()
    with open(folder / "memwall-run.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if [(run["run"], run["state"]) for run in listed(box)][:1] != [("starting", "running")]:
            yield f"runs are {listed(box)}"
        yield from check_refused(train(box, *STEP, "--resume"), 2, "starting, is running: ",
                                 f"--resume {name} continues the newest that can")
        yield from check_refused(box.run("starting", verb="rm"), 2, "starting: ",
                                 "nothing is deleted")
        yield from good(train(box, *NONE, steps=1))
        if not folder.exists():
            yield "it was swept"
    yield from good(train(box, *STEP, "--resume", "--log", "begun.jsonl", steps=2))
    yield from good(train(box, *NONE, steps=1))
    if folder.exists():
        yield "what is left of it was not swept"


def await_reserved(run, folder, held):
    """Whether the run was stopped while it has a directory in `folder` and no description yet."""
    if held.LIBRARY:
        return held.comes(run)
    while run.poll() is None:
        if folder.is_dir() and any(folder.glob("*/memwall-run.lock")):
            run.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, run.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            return not any(folder.glob("*/memwall-run.json"))
    return False


def check_reserved(box):
    """The name of a run that starts is its own, wherever $MEMWALL_NVME has its directory."""
    for _ in range(1 if Held.LIBRARY else 20):
        start_anew(box)
        held = Held(box.folder, "memwall-run.json")
        (box.folder / "log.jsonl").unlink(missing_ok=True)  # has names that are given anew
        make_drives(box, "fast")
        first = subprocess.Popen([str(MEMWALL), "run", "-m", str(GPT2 / "config.json"), *SMALL,
                                   "--batch", "2", "--steps", "1", *STEP], cwd=box.folder,
                                 env={**box.environment, **held.environment,
                                      "MEMWALL_NVME": str(box.folder / "fast")},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE)
        stopped = await_reserved(first, box.folder / "fast", held)
        if stopped:
            starting = [(run["run"], run["state"]) for run in listed(box)]
            yield from good(train(box, *STEP, "--log", "second.jsonl", steps=1))
            (box.folder / "second.jsonl").unlink()
        held.let_go()
        first.send_signal(signal.SIGCONT)
        said = first.communicate(timeout=SECONDS)[1].decode()
        if first.returncode:
            yield f"status {first.returncode}: {said}"
        if stopped:
            break
    else:
        yield "not held" if Held.LIBRARY else Skip("always described")
        return
    names = os.listdir(box.folder / "fast")
    if len(names) != 1 or f"kept as run {names[0]}:" not in said:
        yield f"{names}, as it started runs were {starting}: {said!r}"
        return
    if starting != [(names[0], "running")]:
        yield f"as it started runs were {starting}"
    yield from good(box.run(names[0], verb="rm"))
    if len(listed(box)) != 1 or names[0] in left(box) or os.listdir(box.folder / "fast"):
        yield f"{names[0]} was deleted, runs are {listed(box)}, folders {left(box)}"
    start_anew(box)
    shutil.rmtree(box.folder / "fast")


def folder_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_carried(box):
    """A run that was carried here under the name of one that is here: that one stays as it is,
    whether its state lies in the list's folder or in a directory of the user's."""
    for words in ([], ["--nvme", "second"]):
        start_anew(box)
        yield from good(train(box, *STEP, *words, steps=2))
        name = left(box)[0]
        before = folder_files(runs_of(box) / name)
        carried = [*STEP, "--nvme", "drive", "--log", "carried.jsonl"]
        yield from good(train(box, *carried, steps=1))
        (box.folder / "carried.jsonl").unlink()
        describe(box.folder / "drive/memwall-run.json", name=name, created="2020-01-01T00:00:00Z")
        done = train(box, *carried, "--resume", steps=3)
        yield from good(done)
        said = f"`memwall list runs` will not show this run: {name} is the name of another run"
        way = f": --resume {box.folder}/drive continues this one\n"
        if done.said.count(said) != 1 or way not in done.said:
            yield f"said {done.said!r}"
        if folder_files(runs_of(box) / name) != before:
            yield "what is here of the run has changed"
        goes_on = [*STEP, "--resume", "drive", "--log", "carried.jsonl"]
        yield from good(train(box, *goes_on, steps=4))
        (box.folder / "carried.jsonl").unlink()


def check_killed_durable(box):
    """A durable run that was killed is kept, and is resumed."""
    start_anew(box)
    run = Disturbed(box, *STEP, "--batch", "2", "--steps", str(ENOUGH))
    name = listed(box)[0]["run"]
    yield from check_refused(train(box, *STEP, "--resume"), 2, name, "is running",
                             "no other run of `memwall list runs` can be resumed")
    yield from check_refused(train(box, *STEP, "--resume", name), 1, "in use by another run",
                             "wait for that run or stop it")
    run.process.send_signal(signal.SIGKILL)
    done = run.end()
    yield from good(train(box, *NONE, steps=1))
    steps = listed(box)[0]["durable_steps"]
    if steps < len(done) or listed(box)[0]["state"] != "durable":
        yield f"{len(done)} steps were logged; runs are {listed(box)}"
    yield from good(train(box, *STEP, "--resume", "--log", "own.jsonl", steps=steps + 2))
    if len(losses(box, "own.jsonl")) < 2:
        yield f"losses {losses(box, 'own.jsonl')}"


def check_named(box):
    """Directories of --nvme stay as they are, and are listed all the same; rm of one takes all."""
    start_anew(box)
    drives = ["--nvme", "drive", "--nvme", "second"]
    yield from good(train(box, *STEP, *drives, steps=2))
    (box.folder / "second/mine.txt").write_text("mine")
    first = listed(box)
    if [run["directories"] for run in first] != [[str(box.folder / "drive"),
                                                  str(box.folder / "second")]]:
        yield f"runs are {first}"
        return
    yield from good(train(box, *STEP, "--resume", "second", steps=3))
    yield from good(train(box, *STEP, *drives, "--resume", steps=4))
    if [(run["run"], run["durable_steps"]) for run in listed(box)] != [(first[0]["run"], 4)]:
        yield f"runs are {listed(box)}"
    yield from check_refused(train(box, *STEP, "--nvme", "drive"), 2, "drive: holds a run")
    yield from good(train(box, *STEP, *drives, "--overwrite", steps=1))
    again = listed(box)
    if len(again) != 1 or again[0]["durable_steps"] != 1:
        yield f"runs are {again}"
    os.rename(box.folder / "drive", box.folder / "away")
    (box.folder / "drive").mkdir()
    if [run["state"] for run in listed(box)] != ["away"]:
        yield f"runs are {listed(box)}"
    (box.folder / "drive").rmdir()
    os.rename(box.folder / "away", box.folder / "drive")
    done = box.run("second", verb="rm")
    yield from good(done)
    if not re.fullmatch(r"deleted the run in second, .*; the folder stays\n", done.text):
        yield f"of a folder: {done.text!r}"
    if [path.name for path in box.on_drives()] != ["mine.txt"] or left(box):
        yield f"left {box.on_drives()}, {left(box)}"


def check_unnamed(box):
    """No description can say where a run is whose directory has a name that is not UTF-8."""
    start_anew(box)
    folder = os.fsencode(box.folder) + b"/odd-\xff"
    os.mkdir(folder)
    words = ["-m", str(GPT2 / "config.json"), *SMALL, "--batch", "2", "--steps", "2", "--nvme"]
    for nvme in ([folder], ["drive", "--nvme", folder]):
        yield from check_refused(box.run(*words, *nvme, *STEP), 2, "/odd-\\xff: is not UTF-8: ",
                                 "rename it")
    if os.listdir(folder) or box.on_drives() or listed(box) or left(box):
        yield f"left {os.listdir(folder)}, {box.on_drives()}, {left(box)}"
    yield from good(box.run(*words, folder, *NONE))  # nothing is to be found again
    yield from good(train(box, *STEP, "--nvme", "drive", steps=1))
    for path in box.on_drives():
        os.rename(path, folder + b"/" + os.fsencode(path.name))
    yield from check_refused(box.run(*words, folder, *STEP, "--resume"), 2, "/odd-\\xff: ")
    os.rename(folder, box.folder / "even")
    yield from good(box.run(*words, "even", *STEP, "--resume"))
    shutil.rmtree(box.folder / "even")


def check_variable(box):
    """$MEMWALL_NVME says where runs have their directories."""
    start_anew(box)
    box.environment["MEMWALL_NVME"] = str(box.folder / "fast")
    make_drives(box, "fast")
    yield from good(train(box, *STEP, steps=2))
    runs = listed(box)
    yield from good(train(box, *STEP, "--resume", steps=3))
    if os.listdir(box.folder / "fast") != [runs[0]["run"]] or \
            runs[0]["directories"] != [str(box.folder / "fast" / runs[0]["run"])]:
        yield f"runs are {runs}, {os.listdir(box.folder / 'fast')}"
    yield from good(box.run(runs[0]["run"], verb="rm"))
    if os.listdir(box.folder / "fast") or left(box):
        yield f"left {os.listdir(box.folder / 'fast')}, {left(box)}"
    box.environment["MEMWALL_NVME"] = f"{box.folder / 'fast'}:{box.folder / 'vast'}"
    shutil.rmtree(box.folder / "vast", ignore_errors=True)
    yield from check_refused(train(box, *STEP), 2, f"MEMWALL_NVME: {box.folder / 'vast'} does not "
                             "exist: mount its drive, or make it first")
    (box.folder / "vast").write_text("a file")
    yield from check_refused(train(box, *STEP), 2, "MEMWALL_NVME: ", "vast is not a directory")
    (box.folder / "vast").unlink()
    if os.listdir(box.folder / "fast") or left(box):
        yield f"left {os.listdir(box.folder / 'fast')}, {left(box)}"
    make_drives(box, "vast")
    yield from good(train(box, *STEP, steps=2))
    yield from good(train(box, *STEP, "--resume", steps=3))
    runs = listed(box)
    names = [sorted(os.listdir(box.folder / drive / runs[0]["run"])) for drive in ("fast", "vast")]
    if [name[0] for name in names] != ["memwall-1of2.data", "memwall-2of2.data"]:
        yield f"the drives have {names}"
    yield from good(train(box, *NONE, steps=1))
    yield from good(box.run(runs[0]["run"], verb="rm"))
    if os.listdir(box.folder / "fast") or os.listdir(box.folder / "vast") or left(box):
        yield f"left {os.listdir(box.folder / 'fast')}, {left(box)}"
    del box.environment["MEMWALL_NVME"]


def check_parts(box):
    """Empty parts of $MEMWALL_NVME are none, a directory that is there twice is told at once."""
    start_anew(box)
    make_drives(box, "fast", "vast")
    fast, vast = str(box.folder / "fast"), str(box.folder / "vast")
    (box.folder / "link").symlink_to(box.folder)
    for text, said in ((f"{fast}:{fast}", "/fast twice"),
                       (f"{fast}:{vast}:{vast}/", "/vast/ twice"),
                       (f"{fast}:{box.folder}/link/fast", "/link/fast twice"),
                       (":".join(f"{fast}/{i}" for i in range(65)), "65 directories")):
        box.environment["MEMWALL_NVME"] = text
        yield from check_refused(train(box, *STEP, steps=1), 2, "MEMWALL_NVME", said)
        yield from check_refused(box.run("--quick", verb="calibrate"), 2, "MEMWALL_NVME", said)
    if left(box):
        yield f"left {left(box)}"
    for text, places in ((":::", []), (f"::{fast}:", [fast])):
        box.environment["MEMWALL_NVME"] = text
        yield from good(train(box, *STEP, steps=1))
        run = listed(box)[0]
        if run["directories"] != [f"{place}/{run['run']}" for place in
                                  places or [str(runs_of(box))]]:
            yield f"{text}: {run}"
        yield from good(box.run(run["run"], verb="rm"))
    del box.environment["MEMWALL_NVME"]
    (box.folder / "link").unlink()
    yield from check_refused(train(box, *STEP, "--nvme", "drive", "--nvme", "./drive"), 2,
                             "./drive: is given twice")


def content(box):
    return {path: path.read_bytes() for path in box.on_drives()}


def check_halves(box):
    """No directory of a run of two is another's, whatever of it is not there."""
    start_anew(box)
    both, half = ["--nvme", "drive", "--nvme", "second"], ["--nvme", "second"]
    yield from good(train(box, *STEP, *both, steps=2))
    run, before = listed(box)[0]["run"], content(box)
    for words in (STEP, NONE, [*STEP, "--overwrite"]):
        yield from check_refused(train(box, *words, *half), 2, "second: has state of run", run,
                                 "drive holds 2 steps: --resume=", "memwall rm ", "--nvme DIR")
    yield from check_refused(train(box, *STEP, *half, *both[:2]), 2, "second: has state of run")
    yield from check_refused(train(box, *STEP, *half, *both[:2], "--resume"), 2,
                             "give --nvme in the order that the run had, or --resume=")
    away = box.folder / "away"
    for empty in (False, True):
        (box.folder / "drive").rename(away)
        if empty:
            (box.folder / "drive").mkdir()
        yield from check_refused(train(box, *STEP, *half), 1, "second: has state of run", run,
                                 "is the drive mounted?", "--overwrite", "--nvme DIR")
        shutil.rmtree(box.folder / "drive", ignore_errors=True)
        away.rename(box.folder / "drive")
    if content(box) != before or [each["durable_steps"] for each in listed(box)] != [2]:
        yield f"runs are {listed(box)}"
    # Mounted elsewhere it is the same run's.
    (box.folder / "second").rename(away)
    yield from check_refused(train(box, *STEP, "--nvme", "away"), 2, "away: has state of run", run)
    away.rename(box.folder / "second")
    yield from good(train(box, *STEP, f"--resume={run}", steps=3))
    # What is left without the drive may be given up; the drive's own stays listed.
    (box.folder / "drive").rename(away)
    yield from good(train(box, *STEP, *half, "--overwrite", steps=1))
    away.rename(box.folder / "drive")
    if [each["state"] for each in listed(box)] != ["durable", "away"] or \
            listed(box)[1]["run"] != run or listed(box)[1]["durable_steps"] is not None or \
            listed(box)[1]["missing_directories"] != [str(box.folder / "second")]:
        yield f"runs are {listed(box)}"
    yield from good(train(box, *STEP, *both, "--overwrite", steps=1))


def describe(path, **keys):
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))


BOTH = ["--nvme", "drive", "--nvme", "second"]


def check_mixed(box):
    """A copy of one directory is not resumed beside the run's other; what was moved is."""
    start_anew(box)
    drive, second, copy = (box.folder / name for name in ("drive", "second", "copy"))
    yield from good(train(box, *STEP, *BOTH, steps=2))
    run, before = listed(box)[0]["run"], content(box)
    yield from check_refused(train(box, *STEP, *BOTH[:2], "--resume"), 2, "drive: run " + run,
                             "2 directories: give also --nvme " + str(second))
    shutil.copytree(drive, copy)
    mixed = ["--nvme", "copy", *BOTH[2:], "--resume"]
    said = f"copy: is a copy of {drive}, which still has its state of run {run}"
    yield from check_refused(train(box, *STEP, *mixed), 2, said,
                             f"give --nvme {drive} --nvme {second}")
    (copy / "memwall-run.json").unlink()  # the other's description says enough
    yield from check_refused(train(box, *STEP, *mixed), 2, said)
    shutil.copy2(drive / "memwall-run.json", copy)
    if content(box) != before:
        yield "the run has changed"
    # Copies of all are a run of their own.
    shutil.copytree(second, box.folder / "copies")
    yield from good(train(box, *STEP, "--nvme", "copy", "--nvme", "copies", "--resume", "--log",
                          "copy.jsonl", steps=3))
    if content(box) != before or sorted(each["durable_steps"] for each in listed(box)) != [2, 3]:
        yield f"runs are {listed(box)}"
    yield from good(box.run("copy", verb="rm"))
    # Carried to another place, with nothing left in the old one, it is the same run.
    drive.rename(box.folder / "away")
    drive.mkdir()
    yield from good(train(box, *STEP, "--nvme", "away", *BOTH[2:], "--resume", steps=3))
    if [(each["run"], each["durable_steps"]) for each in listed(box)] != [(run, 3)]:
        yield f"runs are {listed(box)}"
    # What has its place has its half of the state.
    yield from good(box.run("away", verb="rm"))
    three = [*BOTH, "--nvme", "copy"]
    yield from good(train(box, *STEP, *three, steps=2))
    yield from check_refused(train(box, *STEP, *three[:2], *three[4:], *three[2:4], "--resume"), 2,
                             "second: is not in the place that it had", f"give --nvme {drive}")
    yield from good(train(box, *STEP, *three, "--resume", steps=3))
    for name in ("away", "copy", "copies"):
        shutil.rmtree(box.folder / name)


def check_alike(box):
    """Of two runs whose bits are the same, none is resumed in directories of both."""
    start_anew(box)
    others = ["--nvme", "other", "--nvme", "another"]
    for name in others[1::2]:
        (box.folder / name).mkdir()
    for drives in (BOTH, others):
        yield from good(train(box, *STEP, *drives, steps=2))
    before, runs = content(box), [each["run"] for each in listed(box)]
    yield from check_refused(train(box, *STEP, *BOTH[:2], *others[2:], "--resume"), 2,
                             "another: has state of run " + runs[0], "drive of run " + runs[1])
    if content(box) != before:
        yield "the run has changed"
    for drives in (BOTH, others):
        yield from good(train(box, *STEP, *drives, "--resume", "--log", f"alike-{drives[1]}.jsonl",
                              steps=3))
    yield from good(box.run("other", verb="rm"))
    for name in others[1::2]:
        (box.folder / name).rmdir()


def check_partly(box):
    """A run goes as a whole, and who has one of its directories then has not its name."""
    start_anew(box)
    second = box.folder / "second"
    yield from good(train(box, *STEP, *BOTH, steps=2))
    run, before = listed(box)[0]["run"], content(box)
    for words in (STEP, NONE):
        yield from check_refused(train(box, *words, *BOTH[:2], "--overwrite"), 2,
                                 "drive: has state of run " + run,
                                 f"give also --nvme {second}", "`memwall rm drive`")
    if content(box) != before or [each["durable_steps"] for each in listed(box)] != [2]:
        yield f"runs are {listed(box)}"
    # Without the drive of the other it is given up; then that one is not what it says.
    second.rename(box.folder / "away")
    yield from good(train(box, *STEP, *BOTH[:2], "--overwrite", steps=1))
    shutil.rmtree(second, ignore_errors=True)
    (box.folder / "away").rename(second)
    names = [(each["run"], each["state"]) for each in listed(box)]
    if len(names) != 2 or names[1] != (run, "away") or names[0][0] == run:
        yield f"runs are {names}"
    done = box.run("runs", verb="list")
    if f"are in directories of {run} now: `memwall rm {run}` deletes what" not in done.said:
        yield f"said {done.said!r}"
    before = content(box)
    yield from check_refused(train(box, *STEP, *BOTH[2:]), 2, "second: has state of run " + run,
                             "drive, where another run is now: --overwrite", "--nvme DIR")
    yield from check_refused(train(box, *STEP, f"--resume={run}"), 2, "drive: had state of run "
                             + run, f"`memwall rm {run}`")
    yield from check_refused(train(box, *STEP, *BOTH, "--resume"), 2, "drive: run " + names[0][0])
    if content(box) != before:
        yield "the runs have changed"
    yield from good(box.run(run, verb="rm"))
    if [(each["run"], each["durable_steps"]) for each in listed(box)] != [(names[0][0], 1)] or \
            list(second.iterdir()):
        yield f"runs are {listed(box)}, left {list(second.iterdir())}"


def check_same_name(box):
    """A name is not given again while a directory carries it; nor does it make two runs one."""
    start_anew(box)
    drive = box.folder / "drive"
    yield from good(train(box, *STEP, *BOTH, steps=1))
    run = listed(box)[0]["run"]
    for name in ("memwall.record", "memwall-1of2.data"):
        (drive / name).unlink()
    describe(drive / "memwall-run.json", last_step=0)  # as one that was killed as it began
    yield from good(train(box, *STEP, *BOTH[:2], steps=2))
    names = sorted(each["run"] for each in listed(box))
    if len(names) != 2 or names[0] == names[1] or run not in names:
        yield f"runs are {listed(box)}"
    describe(drive / "memwall-run.json", name=run)
    before = content(box)
    yield from check_refused(train(box, *STEP, *BOTH[2:]), 2, "second: has state of run " + run,
                             "where another run is now: --overwrite")
    yield from good(box.run("second", verb="rm"))
    if {path: kept for path, kept in before.items() if path.parent == drive} != content(box):
        yield f"left {box.on_drives()}"


def folder_content(box, name):
    return {path.name: path.read_bytes() for path in (box.folder / name).iterdir()}


def told(done):
    """One of ranks speaks for all; their launcher has a word of its own."""
    lines = done.said.splitlines(keepends=True)
    done.said = "".join(line for line in lines if line.startswith("memwall: "))
    return done


def check_unsaved(box, ranks):
    """A run that was killed between its last step and --save: a resume with nothing left to train
    writes what the run would have; one of fewer steps names what writes all of them."""
    start_anew(box)
    words = [*STEP, "--nvme", "drive"]

    def run(*more, steps):
        return told(train(box, *words, *more, steps=steps, ranks=ranks, batch=2 // ranks))

    yield from good(run("--save", "saved", steps=2))
    yield from good(run("--overwrite", steps=2))
    yield from check_refused(run("--resume", steps=2), 2, "and 2 are done: give more than 2")
    yield from check_refused(run("--resume", "--save", "named", steps=1), 2,
                             "`memwall export drive -o named` writes the checkpoint of step 2")
    before = content(box)
    done = run("--resume", "--save", "unsaved", "--lr", "1e-9", steps=2)
    yield from good(done)
    if "all 2 steps were done before: nothing is trained; checkpoint unsaved" not in done.said:
        yield f"says {done.said!r}"
    if any(text != before[path] for path, text in content(box).items()):
        yield "the run's files have changed"
    yield from good(box.run("drive", "-o", "named", verb="export"))
    for name in ("unsaved", "named"):
        if folder_content(box, name) != folder_content(box, "saved"):
            yield f"{name} differs from what --save writes"
    yield from good(run("--resume", "--save", "unsaved", steps=3))
    for name in ("saved", "unsaved", "named"):
        shutil.rmtree(box.folder / name)


def check_unread(box):
    """What cannot be read of a run is in nobody's way: the line says what works."""
    start_anew(box)
    yield from good(train(box, *STEP, "--nvme", "drive", steps=1))
    description = box.folder / "drive/memwall-run.json"
    description.write_text(description.read_text().replace('"directories"', '"directory"'))
    for verb in ("verify", "rm"):
        yield from check_refused(box.run("drive", verb=verb), 2, "drive/memwall-run.json: key",
                                 "move that file away", "`memwall run --nvme drive --overwrite`")
    description.rename(box.folder / "kept.json")
    for verb in ("verify", "rm"):
        yield from good(box.run("drive", verb=verb))
    if list((box.folder / "drive").iterdir()):
        yield f"left {box.on_drives()}"
    yield from good(train(box, *STEP, "--nvme", "drive", steps=1))
    (box.folder / "kept.json").rename(description)
    yield from good(train(box, *STEP, "--nvme", "drive", "--overwrite", steps=1))


def check_lost(box):
    """A record that is gone or empty is not taken for none, where a step was durable."""
    start_anew(box)
    drive, words = box.folder / "drive", [*STEP, "--nvme", "drive"]
    yield from good(train(box, *words, steps=3))
    record, kept = drive / "memwall.record", (drive / "memwall.record").read_bytes()
    data = (drive / "memwall-1of1.data").read_bytes()
    for lose in (record.unlink, lambda: record.write_bytes(b""),
                 lambda: record.write_bytes(bytes(len(kept)))):
        lose()
        for none in (words, [*NONE, "--nvme", "drive"]):
            yield from check_refused(train(box, *none), 2, "drive/memwall.record, the record of",
                                     "is gone or empty", "its last durable step was 3: put it back",
                                     "--overwrite", "--nvme DIR")
        done = box.run("drive", verb="verify")
        if not done.returncode or "its last durable step was 3: put it back" not in \
                done.text + done.said or "durable: nothing" in done.text:
            yield f"status {done.returncode}: {done.text!r}, {done.said!r}"
        yield from check_refused(train(box, *words, "--resume"), 1, "drive/memwall.record",
                                 "put it back", "with --overwrite instead of --resume")
        if listed(box)[0]["state"] != "damaged":
            yield f"runs are {listed(box)}"
    if (drive / "memwall-1of1.data").read_bytes() != data:
        yield "the state has changed"
    record.write_bytes(kept)
    record.chmod(0o600)
    yield from good(train(box, *words, "--resume", "--log", "lost.jsonl", steps=4))
    record.unlink()
    yield from good(train(box, *words, "--overwrite", steps=1))
    # Killed behind a commit, it is known to have one.
    shutil.rmtree(drive)
    drive.mkdir()
    run = Disturbed(box, *words, "--batch", "2", "--steps", str(ENOUGH))
    run.process.kill()
    run.end()
    kept = record.read_bytes()
    record.write_bytes(bytes(len(kept)))
    yield from check_refused(train(box, *words), 2, "drive/memwall.record", "is gone or empty",
                             "its last durable step was ")
    record.write_bytes(kept)
    yield from good(train(box, *words, "--resume", "--log", "found.jsonl", steps=100))
    # Before, while it had no record.
    describe(drive / "memwall-run.json", last_step=0)
    for lose in (record.unlink, lambda: record.write_bytes(b"")):
        lose()
        yield from check_refused(train(box, *words), 2, "drive/memwall.record",
                                 "is missing, but there is state: the run was killed as it started",
                                 "--overwrite")
    (drive / "memwall-run.json").write_text("{")
    yield from check_refused(train(box, *words), 2, "whose description cannot be read",
                             "--overwrite")
    yield from good(train(box, *words, "--overwrite", steps=1))


def check_lost_own(box):
    """Nor is such a run swept."""
    start_anew(box)
    yield from good(train(box, *STEP, steps=2))
    run = listed(box)[0]
    record = runs_of(box) / run["run"] / "memwall.record"
    kept = record.read_bytes()
    record.unlink()
    yield from good(train(box, *NONE, steps=1))
    yield from check_refused(train(box, *STEP, f"--resume={run['run']}"), 1, "put it back",
                             f"`memwall rm {run['run']}`")
    record.write_bytes(kept)
    yield from good(train(box, *STEP, "--resume", "--log", "other.jsonl", steps=3))


def check_before_first(box):
    """A run that was killed before its first commit is in nobody's way, and says what to do."""
    start_anew(box)
    words = [*STEP, "--nvme", "drive"]
    yield from check_refused(train(box, *words, "--resume"), 2, "drive: holds no run to resume",
                             "`memwall list runs`", "without --resume")
    record = box.folder / "drive/memwall.record"
    run = subprocess.Popen([str(MEMWALL), "run", "-m", str(GPT2 / "config.json"), *SMALL, *words,
                            "--batch", "2", "--limit", "nvme-write=0.01MB/s"], cwd=box.folder,
                           env=box.environment, stdout=subprocess.DEVNULL)
    while not (record.exists() and record.stat().st_size) and run.poll() is None:
        time.sleep(0.01)
    if [each["state"] for each in listed(box)] != ["running"]:
        yield f"runs are {listed(box)}"
    run.kill()
    run.wait()
    if [each["state"] for each in listed(box)] != ["empty"]:
        yield f"runs are {listed(box)}"
    for more in (["--nvme", "drive", "--resume"], ["--resume=drive"]):
        yield from check_refused(train(box, *STEP, *more), 2, "ended before its first step was "
                                 "durable", "without --resume a run starts anew")
    yield from good(train(box, *words, steps=2))
    yield from good(train(box, *words, "--resume", steps=3))


def check_home(box):
    """A home is not made, and a relative variable is none."""
    start_anew(box)
    home, config = box.folder / "nohome", box.environment.pop("XDG_CONFIG_HOME")
    state = box.environment.pop("XDG_STATE_HOME")
    for wrong in (str(home), "nohome", ""):
        box.environment["HOME"] = wrong
        yield from check_refused(train(box, *STEP, steps=1), 2, f'HOME is "{wrong}"',
                                 "XDG_STATE_HOME", "--nvme DIR")
        yield from check_refused(box.run("--quick", verb="calibrate"), 2, f'HOME is "{wrong}"',
                                 "XDG_CONFIG_HOME", "-o FILE")
        done = train(box, *STEP, "--nvme", "drive", "--overwrite", steps=1)
        yield from good(done)
        if "list runs" not in done.said:
            yield f"said {done.said!r}"
    if home.exists():
        yield "a home was made"
    home.mkdir()
    box.environment.update(HOME=str(home), XDG_STATE_HOME="state", XDG_CONFIG_HOME="./config")
    yield from good(train(box, *STEP, steps=1))
    names = sorted(os.listdir(home / ".local/state/memwall/runs"))
    if (box.folder / "state").exists() or names != [run["run"] for run in listed(box)]:
        yield f"runs are {listed(box)}, folders {names}"
    box.environment.update(HOME=str(box.folder), XDG_STATE_HOME=state, XDG_CONFIG_HOME=config)
    shutil.rmtree(home)


def check_unmounted(box):
    """A run whose drive is not there: an older one is resumed, with a line; it is not halved."""
    start_anew(box)
    mounts = [box.folder / "fast", box.folder / "vast"]
    yield from good(train(box, *STEP, steps=2))
    older = listed(box)[0]["run"]
    box.environment["MEMWALL_NVME"] = ":".join(map(str, mounts))
    make_drives(box, "fast", "vast")
    yield from good(train(box, *STEP, steps=2))
    del box.environment["MEMWALL_NVME"]
    name = listed(box)[0]["run"]
    for away in (mounts[:1], mounts[1:], mounts):
        for empty in (False, True):
            missing = str(away[0] / name)
            for mount in away:
                os.rename(mount, mount.with_suffix(".away"))
                if empty:
                    (mount / name).mkdir(parents=True)
            if [run["run"] for run in listed(box)] != [name, older]:
                yield f"runs are {listed(box)}"
            done = train(box, *STEP, "--resume", "--log", "older.jsonl", steps=2)
            for line in (f"skipped newer runs: of run {name} {missing} is not there, or "
                         "empty (is the drive mounted?)\n", f"continuing run {older}: ",
                         "--steps 2: counts all steps of the run, and 2 are done"):
                if line not in done.said:
                    yield f"said {done.said!r}"
            yield from check_refused(train(box, *STEP, f"--resume={name}"), 1, name, missing,
                                     "is the drive mounted?")
            if len(away) == 1:
                yield from check_refused(box.run(older, name, verb="rm"), 1, name, missing,
                                         "is the drive mounted?", "nothing is deleted")
            for mount in away:
                if empty and os.listdir(mount / name):
                    yield f"left {os.listdir(mount / name)}"
                shutil.rmtree(mount, ignore_errors=True)
                os.rename(mount.with_suffix(".away"), mount)
    if [run["state"] for run in listed(box)] != ["durable", "durable"]:
        yield f"runs are {listed(box)}"
    done = train(box, *STEP, "--resume", "--at", "previous", steps=4)
    yield from good(done)
    if f"memwall: continuing run {name} from step 1; step 2 is dropped" not in done.said:
        yield f"said {done.said!r}"
    for wrong in ("nope", "text.txt", "second"):
        yield from check_refused(box.run(older, wrong, verb="rm"), 2, wrong)
    if [run["run"] for run in listed(box)] != [name, older]:
        yield f"runs are {listed(box)}"
    # Its halves go by themselves, what is left of the list's with the first.
    shutil.rmtree(mounts[1])
    yield from good(box.run(str(mounts[0] / name), verb="rm"))
    yield from good(box.run(older, str(runs_of(box) / older), verb="rm"))
    if os.listdir(mounts[0]) or left(box):
        yield f"left {os.listdir(mounts[0])}, {left(box)}"


def check_gone(box):
    """Runs whose files were deleted by hand: the previous is resumed, and rm clears the list."""
    start_anew(box)
    yield from good(train(box, *STEP, steps=2))
    older = listed(box)[0]["run"]
    yield from good(train(box, *STEP, *BOTH, steps=2))
    name = listed(box)[0]["run"]
    box.empty_drives()
    yield from good(train(box, *STEP, "--resume", "--log", "older.jsonl", steps=3))
    if sorted(run["run"] for run in listed(box)) != sorted([older, name]):
        yield f"runs are {listed(box)}"
    done = box.run(name, verb="rm")
    yield from good(done)
    if "deleted the list's entry of " + name not in done.text or left(box) != [older]:
        yield f"said {done.text!r} {done.said!r}, left {left(box)}"
    shutil.rmtree(runs_of(box) / older)
    yield from good(train(box, *STEP, *BOTH, "--log", "new.jsonl", steps=1))
    box.empty_drives()
    yield from check_refused(train(box, *STEP, "--resume"), 2, "no run can be resumed: of run ",
                             "is not there, or empty", "is the drive mounted?", "memwall list runs")


def check_missing(box):
    """Directories of the user's that are not there are said to be."""
    start_anew(box)
    yield from good(train(box, *STEP, "--nvme", "drive", "--nvme", "second", steps=2))
    os.rename(box.folder / "second", box.folder / "away")
    for words in (["--nvme", "drive", "--nvme", "second", "--resume"], ["--resume=drive"]):
        yield from check_refused(train(box, *STEP, *words), 1, "second: the directory of ",
                                 "is the drive mounted?")
    name = listed(box)[0]["run"]
    yield from check_refused(box.run(name, verb="rm"), 1, "second", "`memwall rm ")
    os.rename(box.folder / "away", box.folder / "second")
    yield from good(train(box, *STEP, "--resume", steps=3))
    yield from good(box.run(name, verb="rm"))


def check_diverged(box):
    """What a run of its own directory says after a divergence works, and is all that it says."""
    start_anew(box)
    done = train(box, *STEP, "--lr", "1e3")
    name = listed(box)[0]["run"]
    for words in ("the run has diverged", f"start anew (`memwall rm {name}` deletes this run)",
                  f"kept as run {name}: `memwall rm {name}` deletes it"):
        if words not in done.said or done.returncode != 1:
            yield f"status {done.returncode}: said {done.said!r}, not {words!r}"
    if "--overwrite" in done.said or "continues it" in done.said:
        yield f"said {done.said!r}"
    yield from good(box.run(name, verb="rm"))
    yield from good(train(box, *STEP, "--lr", "1e-3", steps=1))


def check_overwritten(box):
    """A run in the directories that were made for another has its name and its place."""
    for mounts in ([], ["fast"], ["fast", "vast"]):
        start_anew(box)
        make_drives(box, *mounts)
        if mounts:
            box.environment["MEMWALL_NVME"] = ":".join(str(box.folder / each) for each in mounts)
        for _ in range(2):
            yield from good(train(box, *STEP, steps=2))
        box.environment.pop("MEMWALL_NVME", None)
        before = listed(box)
        words = [word for each in before[0]["directories"] for word in ("--nvme", each)]
        yield from check_refused(train(box, *STEP, *words, "--overwrite", "--data", "none.txt"), 2,
                                 "none.txt")
        if listed(box) != before:
            yield f"runs are {listed(box)}, not {before}"
        yield from good(train(box, *STEP, *words, "--overwrite", steps=1))
        if [(run["run"], run["durable_steps"]) for run in listed(box)] != [
                (before[0]["run"], 1), (before[1]["run"], 2)] or \
                left(box) != sorted(run["run"] for run in before):
            yield f"runs are {listed(box)}, folders {left(box)}, before {before}"
        yield from good(train(box, *STEP, "--resume", steps=2))
        yield from good(train(box, *NONE, *words, "--overwrite", steps=1))
        yield from good(box.run(before[1]["run"], verb="rm"))
        drives = [name for each in mounts for name in os.listdir(box.folder / each)]
        if left(box) or drives:
            yield f"left {left(box)}, {drives}"


def check_nowhere(box):
    """A user without a state home: --nvme does; without it the line says so."""
    start_anew(box)
    (box.folder / "state").write_text("no folder")
    done = train(box, *STEP, "--nvme", "drive", steps=1)
    yield from good(done)
    if "list runs" not in done.said:
        yield f"said {done.said!r}"
    yield from check_refused(train(box, *STEP, steps=1), 1, "state/memwall/runs", "--nvme DIR")
    (box.folder / "state").unlink()
    yield from good(train(box, *STEP, "--resume", "drive", steps=2))
    yield from good(box.run("drive", verb="rm"))


def check_description(box):
    """What stands in a description's place is read if it is ours, and never written through."""
    start_anew(box)
    victim = box.folder / "victim.txt"
    victim.write_text("mine")
    description = box.folder / "drive/memwall-run.json"
    description.symlink_to(victim)
    yield from check_refused(train(box, *STEP, "--nvme", "drive", steps=1), 1, "memwall-run.json")
    if victim.read_text() != "mine" or not description.is_symlink():
        yield "the link was followed, or replaced"
    description.unlink()
    for text in ("", "{}", "{\"memwall_run\": 1, \"name\": \"../../x\", \"directories\": [\"/\"]}",
                 "{\"memwall_run\": 1, \"name\": \"x\", \"directories\": [\"tmp\"]}",
                 "[" * 100000):
        description.write_text(text)
        yield from check_refused(box.run("drive", verb="rm"), 2, "memwall-run.json")
    description.unlink()


def check_copied(box):
    """A description in a directory that it does not name is no reason to touch those it names."""
    start_anew(box)
    yield from good(train(box, *STEP, "--nvme", "drive", steps=2))
    before = {path: path.read_bytes() for path in box.on_drives()}
    run = listed(box)[0]["run"]
    copy = box.folder / "second/memwall-run.json"
    shutil.copy(box.folder / "drive/memwall-run.json", copy)
    yield from check_refused(box.run("second", verb="rm"), 2, "second/memwall-run.json", run,
                             "drive")
    yield from check_refused(train(box, *STEP, "--resume", "second"), 2, "second/memwall-run.json")
    yield from good(train(box, *STEP, "--nvme", "second", steps=1))
    if sorted(each["durable_steps"] for each in listed(box)) != [1, 2]:
        yield f"runs are {listed(box)}"
    yield from good(box.run("second", verb="rm"))
    if {path: path.read_bytes() for path in box.on_drives()} != before:
        yield f"the drives have {box.on_drives()}"
    # A copy with all its files is one of its own: it goes alone.
    for path in before:
        shutil.copy(path, box.folder / "second")
    yield from good(train(box, *STEP, "--nvme", "second", "--resume", steps=3))
    if sorted(each["durable_steps"] for each in listed(box)) != [2, 3]:
        yield f"runs are {listed(box)}"
    yield from good(box.run("second", verb="rm"))
    if {path: path.read_bytes() for path in box.on_drives()} != before or \
            [each["run"] for each in listed(box)] != [run]:
        yield f"the drives have {box.on_drives()}, runs are {listed(box)}"


def check_tampered(box):
    """Wrong paths, names, types and sizes in the list's description: one line, nothing deleted."""
    start_anew(box)
    yield from good(train(box, *STEP, "--nvme", "drive", steps=2))
    run = listed(box)[0]["run"]
    path = runs_of(box) / run / "memwall-run.json"
    text = path.read_text()
    described = json.loads(text)
    other = box.folder / "second"
    (other / "memwall.record").write_bytes(b"mine")
    for key, value in (("name", "another"), ("name", ".."), ("name", ""), ("name", "a\nb"),
                       ("name", "x" * 1000), ("ranks", -1), ("ranks", 1 << 62), ("steps", "many"),
                       ("steps", -5), ("made", 1), ("made", True), ("directories", "drive"),
                       ("directories", [1]), ("last_step", 1e300), ("memwall_run", 2),
                       ("directories", ["/a", "/b", "/a"]), ("directories", ["/" + "x" * 5000]),
                       ("directories", [f"/{i}" for i in range(100000)]), ("durable", "yes")):
        path.write_text(json.dumps({**described, key: value}))
        yield from (f"{key} {str(value)[:80]}: {wrong}" for wrong in check_refused(
            box.run(run, verb="rm"), 2, "memwall-run.json"))
        done = box.run("runs", verb="list")
        if len(done.text.splitlines()) != 1 or len(done.said.splitlines()) != 1 or \
                "memwall-run.json" not in done.said or done.returncode:
            yield f"{key} {str(value)[:80]}: listed as {done.text!r}, {done.said!r}"
    path.write_text(json.dumps({**described, "directories": ["/a\n\x1b[31mb"]}))
    table = box.run("runs", verb="list").text
    if len(table.splitlines()) != 2 or "/a??[31mb" not in table:
        yield f"listed as {table!r}"
    path.write_text(json.dumps({**described, "directories": [str(other)]}))
    if [each["state"] for each in listed(box)] != ["away"]:
        yield f"runs are {listed(box)}"
    yield from check_refused(box.run(run, verb="rm"), 1, "second is not there, or empty")
    done = box.run(str(runs_of(box) / run), verb="rm")
    yield from good(done)
    if "second is not there, or of another run: nothing is deleted in it" not in done.said:
        yield f"said {done.said!r}"
    if (other / "memwall.record").read_bytes() != b"mine" or \
            not (box.folder / "drive/memwall.record").exists() or left(box):
        yield f"left {box.on_drives()}, {left(box)}"


def check_endless(box):
    """What is written in few digits and would take for ever: one line, at once."""
    start_anew(box)
    yield from good(train(box, *STEP, "--nvme", "drive", steps=1))
    path = box.folder / "drive/memwall-run.json"
    text = path.read_text()
    described = json.loads(text)
    decoder, homes = described["decoder"], described["homes"]
    for keys, words in (
            ({"decoder": {**decoder, "layers": 10 ** 9}}, ["layers", "100000"]),
            ({"decoder": {**decoder, "layers": 90000},
              "config": json.dumps({**json.loads(described["config"]), "n_layer": 90000})},
             ["90000 layers", "tensors"]),
            ({"decoder": {**decoder, "hidden": 1 << 47}}, ["hidden"]),
            ({"homes": re.sub(r"world \d+", "world 4000000000", homes)}, ["4000000000 ranks"]),
            ({"homes": re.sub(r"tiles \d+", "tiles 4000000000", homes)}, ["homes"]),
            ({"homes": homes[:len(homes) // 2]}, ["homes"])):
        path.write_text(json.dumps({**described, **keys}))
        yield from check_refused(box.run("drive", "-o", "point", verb="export"), 2,
                                 "drive/memwall-run.json", *words)
        yield from good(box.run("drive", verb="verify"))
        if [run["state"] for run in listed(box)] != ["durable"]:
            yield f"runs are {listed(box)}"
    path.write_text(text)
    yield from good(box.run("drive", "-o", "point", verb="export"))
    shutil.rmtree(box.folder / "point")


def check_json(box):
    """What a script asks: may it go on, how far it came, where it is, when it was."""
    start_anew(box)
    yield from good(train(box, *STEP, steps=2))
    run = listed(box)[0]
    wanted = {"state": "durable", "running": False, "resumable": True, "durable_steps": 2,
              "noted_steps": 2, "steps": 2, "strategy": "zero-infinity-nvme", "ranks": 1,
              "durable": True, "missing_directories": [], "own_directories": True}
    if wanted != {key: run.get(key) for key in wanted}:
        yield f"run is {run}"
    times = [run[key] for key in ("created", "updated", "written")]
    if not all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", time) for time in times) or \
            times != sorted(times):
        yield f"times are {times}"
    if not run["model"].endswith("config.json") or not run["host"] or run["bytes"] < 100000:
        yield f"run is {run}"


def check_rm_words(box):
    """Parsed as other verbs' are; a folder may have an option's name."""
    done = box.run("--help", verb="rm")
    yield from good(done)
    if "RUN..." not in done.text or "--help" not in done.text:
        yield f"help is {done.text!r}"
    yield from check_refused(box.run(verb="rm"), 2, "rm takes at least one RUN")
    yield from check_refused(box.run("--hepl", verb="rm"), 2, "did you mean --help?")
    start_anew(box)
    (box.folder / "-drive").mkdir(exist_ok=True)
    yield from good(train(box, *STEP, "--nvme", "./-drive", steps=1))
    yield from good(box.run("--", "-drive", verb="rm"))
    if list((box.folder / "-drive").iterdir()):
        yield f"left {list((box.folder / '-drive').iterdir())}"
    yield from check_refused(box.run("--", "-drive", verb="rm"), 2, "-drive: holds no run")


def delete(box, *words, at=0):
    """By `memwall rm`, killed in front of the call number `at`."""
    environment = {**box.environment, "LD_PRELOAD": KILL_AT, "KILL_AT": str(at)}
    return box.run(*words, verb="rm", environment=environment if at else None)


def check_deleting(box, mounts):
    """`rm` that is killed: the list says that the run is being deleted, and the name finishes that.
    `mounts`: folders for $MEMWALL_NVME; none of them: directories of the user's."""
    start_anew(box)
    yield from good(train(box, *STEP, steps=1))
    older = listed(box)[0]["run"]
    make_drives(box, *mounts)
    box.environment["MEMWALL_NVME"] = ":".join(str(box.folder / each) for each in mounts)
    yield from good(train(box, *STEP, *([] if mounts else BOTH), steps=2))
    del box.environment["MEMWALL_NVME"]
    name, kept, found = listed(box)[0]["run"], box.folder / "kept", set()
    places = [*(mounts or ["drive", "second"]), "state"]
    for place in places:
        shutil.copytree(box.folder / place, kept / place)
    for at in range(1, 100):
        for place in places:
            shutil.rmtree(box.folder / place)
            shutil.copytree(kept / place, box.folder / place)
        done = delete(box, name, at=at)
        if done.returncode == 0:
            break
        state = [run["state"] for run in listed(box) if run["run"] == name]
        found.update(state)
        if state not in (["durable"], ["being deleted"], []):
            yield f"{at}: {state}"
        if state == ["being deleted"]:
            if not mounts:
                found.add((yield from check_start(box, f"{name}, which is being deleted: `memwall "
                                                  f"rm {name}` finishes that")))
            if at % 4 == 0:
                yield from check_half_deleted(box, name, older)
        if state:
            yield from good(box.run(name, verb="rm"))
        elif name in left(box):  # a lock is left, which goes with the next run
            yield from good(train(box, *NONE, steps=1))
        drives = [each for place in places[:-1] for each in os.listdir(box.folder / place)
                  if each != "memwall-run.lock"]
        if left(box) != [older] or drives:
            yield f"{at}: left {left(box)}, {drives}"
    else:
        yield "it is never done"
    if found - {False} != {"durable", "being deleted", *([] if mounts else [True])}:
        yield f"found {found}"
    shutil.rmtree(kept)


def check_start(box, deleting):
    """In its directories: what is left of it is not said to be lost.  Whether it is said."""
    done = train(box, *STEP, *BOTH, "--log", "none/log.jsonl", steps=1)
    ways = (deleting, "holds a run of 2 steps (memwall.record): --resume", "none/log.jsonl")
    if done.returncode != 2 or not any(way in done.said for way in ways):
        yield f"status {done.returncode}: {done.said!r}"
    return deleting in done.said


def check_half_deleted(box, name, older):
    yield from check_refused(train(box, *STEP, f"--resume={name}"), 2, f"run {name} is being "
                             f"deleted: `memwall rm {name}` finishes that")
    done = train(box, *STEP, "--resume", "--log", "older.jsonl", steps=1)
    for line in (f"skipped newer runs: run {name} is being deleted (`memwall rm {name}` "
                 "finishes that)\n", f"continuing run {older}: "):
        if line not in done.said:
            yield f"said {done.said!r}"
    done = box.run("runs", verb="list")
    if f"deleting {name} has not finished: `memwall rm {name}` del" not in done.said or \
            f"{name}  being deleted " not in done.text:
        yield f"said {done.text!r} {done.said!r}"


def check_in_use(box):
    """What `rm` may not delete, as it is being looked at, is not called deleted."""
    start_anew(box)
    yield from good(train(box, *STEP, *BOTH, steps=2))
    runs = listed(box)
    before = {path: path.read_bytes() for path in runs_of(box).rglob("*.json")}
    with open(box.folder / "drive/memwall.record", "rb") as record:
        fcntl.flock(record, fcntl.LOCK_EX)
        yield from check_refused(box.run(runs[0]["run"], verb="rm"), 1, "nothing is deleted")
    if listed(box) != runs or before != {path: path.read_bytes() for path in before}:
        yield f"runs are {listed(box)}, before {runs}"
    yield from good(box.run(runs[0]["run"], verb="rm"))


def check_copy(box):
    """A copy of a run's folder in the list goes with its folder."""
    start_anew(box)
    yield from good(train(box, *STEP, steps=2))
    name = listed(box)[0]["run"]
    shutil.copytree(runs_of(box) / name, runs_of(box) / "copy")
    yield from good(box.run("copy", verb="rm"))
    if left(box) != [name] or [run["state"] for run in listed(box)] != ["durable"]:
        yield f"left {left(box)}, runs are {listed(box)}"


def check_files_gone(box, ranks):
    """A run without a file that --resume needs is damaged, and says which is resumed instead."""
    start_anew(box)
    words = [*STEP, "--batch", "1"]
    yield from good(train(box, *words, steps=1, batch=1))
    older = listed(box)[0]["run"]
    for what in ("*.data", "*-2of2.data", *(["*rank1*"] if ranks > 1 else [])):
        yield from good(train(box, *words, *BOTH, "--overwrite", steps=2, batch=1, ranks=ranks))
        newest = listed(box)[0]
        if newest["state"] != "durable":
            yield f"{what}: {newest}"
        for drive in ("drive", "second"):
            for path in (box.folder / drive).glob(what):
                path.unlink()
        if [run["state"] for run in listed(box)] != ["damaged", "durable"]:
            yield f"{what}: {listed(box)}"
        done = train(box, *words, "--resume", batch=1, ranks=ranks)
        if done.returncode != 2 or (
                f"the newest run, {newest['run']}, cannot be resumed: `memwall verify "
                f"{newest['run']}` says what is damaged; --resume {older} continues the newest "
                "that can") not in done.said:
            yield f"{what}: status {done.returncode}: {done.said!r}"
        done = train(box, *words, f"--resume={newest['run']}", "--log", "x.jsonl", batch=1,
                     ranks=ranks)
        if done.returncode == 0:
            yield f"{what}: is resumed"


def check_ranks(box):
    start_anew(box)
    words = ["--batch", "1"]
    yield from good(train(box, *STEP, *words, steps=2, batch=1, ranks=2))
    runs = listed(box)
    yield from good(train(box, *STEP, "--resume", steps=3, batch=1, ranks=2))
    if [(run["durable_steps"], run["ranks"]) for run in listed(box)] != [(3, 2)]:
        yield f"runs are {listed(box)}"
    yield from good(train(box, *NONE, steps=1, batch=1, ranks=2))
    if left(box) != [runs[0]["run"]]:
        yield f"left {left(box)}"
    yield from good(box.run(runs[0]["run"], verb="rm"))
    if left(box):
        yield f"left {left(box)}"


def tests(box):
    yield "runs of their own", check_own(box)
    yield "rm", check_rm(box)
    yield "runs that leave nothing", check_passing(box)
    yield "a run that is killed", check_killed(box)
    yield "a run that starts", check_starting(box)
    yield "a run whose name is kept as it starts", check_reserved(box)
    yield "a run that was carried here", check_carried(box)
    yield "a durable run that is killed", check_killed_durable(box)
    yield "directories of the user's", check_named(box)
    yield "a directory without a name in UTF-8", check_unnamed(box)
    yield "MEMWALL_NVME", check_variable(box)
    yield "parts of MEMWALL_NVME", check_parts(box)
    yield "halves of runs", check_halves(box)
    yield "copies beside others", check_mixed(box)
    yield "runs that are alike", check_alike(box)
    yield "runs that are overwritten in part", check_partly(box)
    yield "names of runs", check_same_name(box)
    yield "a run that has not come to --save", check_unsaved(box, 1)
    if has_ranks():
        yield "two ranks that have not come to --save", check_unsaved(box, 2)
    yield "descriptions that cannot be read", check_unread(box)
    yield "records that are gone", check_lost(box)
    yield "a record of a run of its own that is gone", check_lost_own(box)
    yield "a run without a step", check_before_first(box)
    yield "homes", check_home(box)
    yield "descriptions without an end", check_endless(box)
    yield "what JSON says", check_json(box)
    yield "a drive that is not there", check_unmounted(box)
    yield "runs whose files are gone", check_gone(box)
    yield "directories that are not there", check_missing(box)
    yield "a run of its own that diverges", check_diverged(box)
    yield "a run of its own that is overwritten", check_overwritten(box)
    yield "no state home", check_nowhere(box)
    yield "descriptions", check_description(box)
    yield "descriptions that were copied", check_copied(box)
    yield "descriptions that were tampered with", check_tampered(box)
    yield "words of rm", check_rm_words(box)
    skipped = "" if KILL_AT else " # SKIP no library to kill by"
    for where, mounts in (("the user's", []), ("its own", ["fast", "vast"])):
        yield f"rm that is killed, of directories of {where}{skipped}", \
            check_deleting(box, mounts) if KILL_AT else []
    yield "rm of what is in use", check_in_use(box)
    yield "a copy in the list", check_copy(box)
    yield "files that are gone", check_files_gone(box, 1)
    if has_ranks():
        yield from unless_few(("files of a rank that are gone", check_files_gone(box, 2)))
    if has_ranks():
        yield "ranks", check_ranks(box)


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
