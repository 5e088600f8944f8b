#!/usr/bin/python3
"""Exit status 1 or 2 of every verb, by the rule of cli/cli.h; prints TAP.

2  the command, or a file or folder that it names, cannot be used as it is: nothing is begun, and no
   file is made.
1  the same command may do once something else is mended.

The command is $MEMWALL, or build/cli/memwall.
"""
import fcntl
import os
import shlex
import shutil
import sys

from command import FLAT, MEMWALL, ROOT, Box
from tap import Skip, as_user, report_in

FIXTURE = ROOT / "tests/fixtures/gpt2-small"
ASK = f"{FLAT} -s zero3 --batch 1"
RUN = ("run -m model/config.json -H rtx4090 --set gpu.memory_gib=2 --batch 2 --data text.txt "
       "--steps 1")
MEMORY = f"{RUN} -s zero3"
DRIVES = f"{RUN} -s zero-infinity-nvme --param-device nvme --optimizer-device nvme --commit step"
CALIBRATE = "calibrate --quick --backend cpu"
OUTPUTS = {"simulate": ["-o", "--trace", "--plot", "--write-deepspeed"],
           "plan": ["-o", "--write-deepspeed"]}
NOWHERE = ["nowhere/x.png", "folder.png", "file/x.png", "/proc/x.png"]


def outputs():
    for verb, options in OUTPUTS.items():
        for option in options:
            for path in NOWHERE:
                yield f"{verb} {ASK} {option} {path}", 2
            yield f"{verb} {ASK} {option} link.png", 2
            if option != "--plot":  # gnuplot writes it
                yield f"{verb} {ASK} {option} /dev/full", 1
                yield f"{verb} {ASK} {option} pipe", 1  # that nobody reads, as yet


def inputs():
    for path in ["nowhere", "folder.png", "file"]:
        yield f"simulate {FLAT} --deepspeed {path}", 2
        yield f"compare {path} -H flat-test", 2
        yield f"simulate -m ./{path} -H flat-test", 2
        yield f"simulate -m gpt2 -H ./{path}.ini", 2
        yield f"simulate {path} -H flat-test", 2
        for option in ["--data", "--from", "--weights"]:
            yield f"{MEMORY} {option} {path}", 2
        for verb in ["verify", "rm", f"export -o {path}2"]:
            yield f"{verb} {path}", 2
        yield f"{DRIVES} --resume={path}", 2
        yield f"list models {path}", 2
        yield f"list hwprofiles {path}", 2
    yield "verify folder.png nowhere", 2


def of_run():
    for path in ["nowhere/x", "file", "file/x", "/proc/x", "strange"]:
        yield f"{MEMORY} --save {path}", 2
    for option in ["--log", "--save-timeline", "--trace", "-o"]:
        for path in ["nowhere/x", "folder.png", "file/x"]:
            yield f"{MEMORY} {option} {path}", 2
        yield f"{MEMORY} {option} pipe", 1
    yield f"{MEMORY} --log /dev/full", 1
    for path in ["nowhere", "file", "/proc"]:
        yield f"{DRIVES} --nvme {path}", 2
    yield f"{DRIVES} --nvme empty --nvme empty", 2
    yield f"{DRIVES} --nvme empty --resume", 2
    yield f"{DRIVES} --nvme nowhere --resume", 1  # a drive that is not mounted
    yield f"{DRIVES} --nvme done", 2              # --overwrite, --resume, another
    yield f"{DRIVES} --nvme done --resume", 2     # --steps
    yield f"{DRIVES} --nvme damaged --resume", 1
    yield f"{DRIVES} --nvme damaged --resume --steps 2", 1
    yield "export done -o folder.png/x", 0
    for path in ["file", "/proc/x", "strange"]:
        yield f"export done -o {path}", 2
    yield "verify done", 0
    yield "verify damaged", 1
    yield "export damaged -o other", 1


def of_calibrate():
    for path in ["folder.png", "file/x", "/proc/x"]:
        yield f"{CALIBRATE} -o {path}", 2
    for path in ["nowhere", "file", "/proc"]:
        yield f"{CALIBRATE} -o x.ini --nvme {path}", 2


def fill(box):
    box.write("text.txt", "abcdefgh " * 500)
    box.write("file", b"\xff")
    box.write("strange/notes.txt", "x")
    shutil.copytree(FIXTURE, box.folder / "model")
    for name in ("folder.png", "empty", "done", "damaged"):
        (box.folder / name).mkdir()
    (box.folder / "link.png").symlink_to("nowhere/x.png")
    os.mkfifo(box.folder / "pipe")
    box.run(f"{DRIVES} --nvme done")
    box.run(f"{DRIVES} --nvme damaged")
    (box.folder / "damaged/memwall.record").write_bytes(b"damage" * 4096)


def check(box, line, status):
    before = box.files()
    answer = box.run(line)
    if answer.status != status:
        yield f"status {answer.status}, not {status}: {answer.err}"
    if status and not f"{answer.err}{answer.out.decode()}".splitlines()[-1:]:
        yield "nothing is said"
    made = {path for path in box.files() if not path.endswith("memwall/calibrate.lock")}
    if status and made - set(before):
        yield f"files: {made - set(before)}"
    said = [row for row in answer.err.splitlines() if not row.startswith("calibrate: at most ")]
    if status == 2 and (len(said) != 1 or not said[0].startswith("memwall: ")):
        yield f"not one line: {answer.err!r}"


def check_full(box):
    """What cannot be printed has failed, whoever prints."""
    for line in ["--help", "list models", f"simulate {ASK}", f"plan {ASK}", "help run"]:
        with open("/dev/full", "wb") as full:
            if box.run(line, stdout=full).status != 1:
                yield line


def check_in_use(box):
    with open(box.folder / "done/memwall-run.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for line, status in ((f"{DRIVES} --nvme done --resume --steps 3", 1), ("verify done", 1)):
            yield from check(box, line, status)
    (box.folder / "done/memwall-run.lock").unlink()


def check_unreadable(box):
    """Of a user from whom something is kept: root hands it over."""
    path = box.folder / "unreadable.json"
    box.write("unreadable.json", "{}")
    path.chmod(0)
    user = as_user(box, str(MEMWALL), "list", "hwprofiles", "flat-test")
    if user is None:
        yield Skip("no other user may run the command")
        return
    answer = box.run(f"simulate -m {path} -H flat-test", prefix=user)
    if answer.status != 2 or "unreadable.json: Permission denied" not in answer.err:
        yield f"status {answer.status}: {answer.err}"


def check_told(box):
    """Help lists them all."""
    text = box.run("--help").out.decode()
    for status in ("0", "1", "2", "3", "129", "130", "143", "141"):
        if f" {status} " not in text.split("Exit status:")[1]:
            yield f"{status} is not in help"


def tests(box):
    fill(box)
    for line, status in [*outputs(), *inputs(), *of_run(), *of_calibrate()]:
        yield f"{status}: {' '.join(shlex.split(line.replace(RUN, 'run ...')))}", \
            check(box, line, status)
    yield "1: output that cannot be printed", check_full(box)
    yield "1: a run that is in use", check_in_use(box)
    yield "2: a file that this user may not read", check_unreadable(box)
    yield "help lists what there is", check_told(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
