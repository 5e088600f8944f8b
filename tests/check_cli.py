#!/usr/bin/python3
"""The memwall command from outside: texts and files; prints TAP.

golden       tests/golden/cli-NAME.txt holds a command and all that it printed.  With
             MW_UPDATE_GOLDEN=1 they are written anew.
help         fits 80 columns; both ways to it say the same.
unwritable   exit 1 or 2 and one line that names the path.
twice        the same call gives the same bytes.

The command is $MEMWALL, or build/cli/memwall.
"""
import os
import re
import resource
import subprocess
import sys
import time

from command import FLAT, MEMWALL, ROOT, SIMULATE, Box, answer_of
from tap import Skip, as_user, report_in

GOLDEN = ROOT / "tests/golden"

# --- golden --------------------------------------------------------------------------------------

OFFLOADED = (f"simulate {FLAT} -s zero-infinity-nvme --batch 4 --grad-accum 2 --tokens 1e9 "
             "--param-device cpu --optimizer-device nvme --activation-device cpu")
GOLDENS = {
    "help": "--help",
    "plan-help": "plan --help",
    "simulate-help": "simulate --help",
    "run-help": "help run",
    "calibrate-help": "help calibrate",
    "list-help": "help list",
    "strategies": "list strategies",
    "model": "list models gpt2-xl",
    "plan": f"plan {FLAT} -s zero-infinity-nvme --batch 8 --tiles 2 --param-device cpu:1GB,nvme "
            "--optimizer-device nvme",
    "plan-json": f"plan {FLAT} -s zero-offload --batch 2 --json",
    "largest": f"plan {FLAT} --largest",
    "simulate": OFFLOADED,
    "simulate-details": f"{OFFLOADED} --details",
    "simulate-json": "simulate -m gpt3-1.3b -H flat-test -s zero-infinity-cpu --batch 4 --nodes 2 "
                     "--tp 2 --optimizer-device cpu --json",
    "what-if": f"{SIMULATE} --what-if",
    "several": f"simulate {FLAT} -s ddp,zero2,zero3,zero-infinity-nvme --batch 2",
    "several-csv": f"simulate {FLAT} -s ddp,zero2,zero3,zero-infinity-nvme --batch 2 --csv",
    "refused": "simulate -m gpt3-175b -H flat-test -s zero2 --batch 1",
    "refused-json": "simulate -m gpt3-175b -H flat-test -s zero3 --batch 16 --json",
}


def check_help(box):
    """Every verb's help fits 80 columns, and both ways to it say the same."""
    overview = box.run("help").out.decode()
    verbs = re.findall(r"^  ([a-z]+) ", overview.split("[OPTION...]")[1], re.MULTILINE)
    if len(set(verbs) - {"memwall"}) < 6:
        yield f"verbs {verbs}"
    helps = {verb: box.run(f"help {verb}") for verb in verbs if verb != "memwall"}
    for verb, answer in helps.items():
        if answer.status != 0 or answer.out != box.run(f"{verb} --help").out:
            yield f"help {verb} is not {verb} --help"
        if f"usage: memwall {verb}" not in answer.out.decode():
            yield f"help {verb}: no usage"
        if not re.search(rf"^Examples?:\n  memwall {verb}\b", answer.out.decode(), re.MULTILINE):
            yield f"help {verb}: no example"
    for text in [overview, *(answer.out.decode() for answer in helps.values())]:
        for line in text.splitlines():
            if len(line) > 80:
                yield f"{len(line)} columns: {line}"


def check_golden(box, name, line):
    answer = box.run(line)
    text = f"$ memwall {line}\n{answer.out.decode()}{answer.err}[exit status {answer.status}]\n"
    path = GOLDEN / f"cli-{name}.txt"
    if os.environ.get("MW_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
        return
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    new = text.splitlines()
    for number, (expected, got) in enumerate(zip(old + [None] * len(new), new + [None] * len(old))):
        if expected != got:
            yield f"{path.name}:{number + 1}: expected {expected!r}"
            yield f"{path.name}:{number + 1}: got      {got!r}"
            yield "MW_UPDATE_GOLDEN=1 writes it anew"
            return


# --- files that cannot be written, standard output that cannot -----------------------------------

UNWRITABLE = ["-o", "--trace", "--plot", "--write-deepspeed"]


def check_unwritable(box, option, path, status):
    before = box.files()
    if option == "--plot" and not path.endswith(".svg"):
        path += ".svg"
    answer = box.run(f"{SIMULATE} {option} {path}")
    if answer.status != status:
        yield f"status {answer.status}, expected {status}"
    if answer.err.count("\n") != 1 or path.split("/")[1] not in answer.err:
        yield f"expected one line naming {path}, got {answer.err!r}"
    if box.files() != before:
        yield f"leaves {sorted(set(box.files()) ^ set(before))}"


def check_full(box, line):
    with open("/dev/full", "wb") as full:
        answer = box.run(line, stdout=full)
    if answer.status != 1 or answer.err.count("\n") != 1 or "standard output" not in answer.err:
        yield f"status {answer.status}, {answer.err!r}"


def check_kept(box, option):
    """A file that is there stays as it was when its successor cannot be written; root could."""
    user = as_user(box, str(MEMWALL), "list", "hwprofiles", "flat-test")
    if user is None:
        yield Skip("no other user may run the command")
        return
    folder = box.folder / "kept"
    name = "old.svg" if option == "--plot" else "old"
    box.write(f"kept/{name}", "old")
    os.chmod(folder / name, 0o444)
    os.chmod(folder, 0o555)
    answer = box.run(f"{SIMULATE} {option} kept/{name}", prefix=user)
    os.chmod(folder, 0o755)
    os.chmod(folder / name, 0o644)
    if answer.status != 2 or (folder / name).read_text() != "old":
        yield f"status {answer.status}, {(folder / name).read_text()[:20]!r}"


def check_unfit(box):
    """What does not fit leaves no file, and says so."""
    before = box.files()
    answer = box.run("simulate -m gpt3-175b -H flat-test -s zero2 --batch 1 -o unfit.plan "
                     "--trace unfit.json --plot unfit.svg --write-deepspeed unfit.ds")
    if answer.status != 3:
        yield f"status {answer.status}, expected 3"
    for name in ("unfit.plan", "unfit.json", "unfit.svg", "unfit.ds"):
        if f"{name}: not written" not in answer.err:
            yield f"nothing said of {name}: {answer.err!r}"
    if box.files() != before:
        yield f"leaves {sorted(set(box.files()) - set(before))}"


def check_set(box):
    """What --set changes stands beside the machine that it is no more, and what the profile has."""
    line = "simulate -m gpt2 -H flat-test --batch 1 --set gpu.memory_gib=32"
    more = f"{line} --set host.reserve_gib=4 --set gpu.memory_gib=48"
    for words, said in ((line, "gpu.memory_gib 32 (64 in the profile)"),
                        (more, "gpu.memory_gib 48 (64 in the profile), host.reserve_gib 4 (")):
        rows = [row for row in box.run(words).out.decode().splitlines()
                if row.startswith("machine ")]
        if len(rows) != 1 or f"; set: {said}" not in rows[0]:
            yield f"{words}: {rows}"
        if said not in answer_of(box.run(f"{words} --json").out)["hardware_set"]:
            yield f"{words}: not in the JSON"
        if f"\nset: {said}" not in box.run(f"{words} -s ddp,zero3").out.decode():
            yield f"{words}: not below several strategies"
    if "set: " in box.run("simulate -m gpt2 -H flat-test --batch 1").out.decode():
        yield "something was set"


def check_version(box):
    if len({box.run(word).out for word in ("-V", "--version", "version")}) != 1:
        yield "-V is not --version"


def check_twice(box, line, names):
    def once(folder):
        (box.folder / folder).mkdir(exist_ok=True)
        answer = box.run(line.replace("DIR", folder))
        files = {name: (box.folder / folder / name).read_bytes() for name in names}
        return answer.status, answer.out, files

    first, second = once("first"), once("second")
    if first[0] != 0:
        yield f"status {first[0]}"
    if first != second:
        yield "two runs differ"
    for name, content in first[2].items():
        if not content:
            yield f"{name} is empty"


def on_terminal(box, line):
    """What standard error shows, where it is a terminal, and for how long the command ran: by the
    clock, and at most on a processor."""
    mine, theirs = os.openpty()
    began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen([str(MEMWALL), *line.split()], cwd=box.folder, env=box.environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(mine, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        process.wait()
    os.close(mine)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = time.monotonic() - began
    return shown.decode(), took, min(took, now.ru_utime - used.ru_utime)


def check_progress(box):
    """A long question says on a terminal what is done, and how far; nothing is left of it."""
    shown, took, computed = on_terminal(
        box, "simulate -m gpt3-175b -H dgx2 --grad-accum 20 --what-if")
    if computed > 4 and not re.search(r"rate \d of \d; \d+ simulated", shown):
        yield f"in {took:.1f} s {shown!r}"
    if shown and not shown.endswith("\r\x1b[K"):
        yield f"left {shown!r}"
    shown, took, _ = on_terminal(box, "plan -m gpt2 -H rtx4090")
    if shown and took < 2:
        yield f"a quick one shows {shown!r}"


def tests(box):
    yield "progress", check_progress(box)
    box.run(f"plan {FLAT} -s zero3 --batch 1 -o good.plan")
    for name, line in GOLDENS.items():
        yield f"golden: {name}", check_golden(box, name, line)
    for option in UNWRITABLE:
        yield f"unwritable: {option} /nonexistent", check_unwritable(box, option,
                                                                     "/nonexistent/dir/file", 2)
        if option != "--plot":
            yield f"unwritable: {option} /dev/full", check_unwritable(box, option, "/dev/full", 1)
        yield f"kept: {option}", check_kept(box, option)
    for line in ("list models", "list models tiny", "list hwprofiles", "list hwprofiles dgx2",
                 "list strategies", "list devices", "list runs", "--help", "--version", "help",
                 "plan --help", "help list", "help run", "help compare", "help calibrate",
                 "help export", "help rm", "help verify",
                 f"plan {FLAT} --largest", SIMULATE, f"{SIMULATE} --json", f"{SIMULATE} --csv",
                 "simulate -H flat-test good.plan"):
        yield f"full standard output: {line}", check_full(box, line)
    yield "help", check_help(box)
    yield "version", check_version(box)
    yield "set", check_set(box)
    yield "unfit", check_unfit(box)
    yield "invariant-2: --json twice", check_twice(box, f"{SIMULATE} --json", [])
    yield "invariant-2: --csv twice", check_twice(box, f"{SIMULATE} --csv", [])
    yield "invariant-2: files twice", check_twice(
        box, f"{SIMULATE} -o DIR/plan --trace DIR/trace.json --write-deepspeed DIR/ds.json",
        ["plan", "trace.json", "ds.json"])


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
