#!/usr/bin/python3
"""`memwall calibrate --quick` writes a profile that counts as measured and plans; prints TAP.

No figure is compared with another machine's or with time: whatever is measured, the rules hold.
The command is $MEMWALL, or build/cli/memwall.
"""
import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from check_faults import SECONDS, rank_pid
from command import answer_of
from tap import MPIRUN, RANKS_ENVIRONMENT, Skip, as_user, has_ranks, report_in

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEMWALL = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve()


class Box:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.drive = self.folder / "drive"
        self.drive.mkdir()
        self.here = self.folder / "config/memwall/hwprofiles/here.ini"
        self.environment = dict(os.environ, LC_ALL="C.UTF-8", HOME=str(self.folder),
                                CUDA_VISIBLE_DEVICES="",  # all runs are on cores
                                XDG_CONFIG_HOME=str(self.folder / "config"),
                                XDG_CACHE_HOME=str(self.folder / "cache"),
                                XDG_STATE_HOME=str(self.folder / "state"))
        self.environment.pop("MEMWALL_NVME", None)

    def run(self, *words, prefix=(), **more):
        done = subprocess.run([*prefix, str(MEMWALL), *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, cwd=self.folder,
                              env={**self.environment, **more})
        done.text, done.said = done.stdout.decode(), done.stderr.decode()
        return done


def quiet(text):
    """The profile as of a quiet machine, whatever else this one does."""
    return "\n".join(line for line in text.splitlines()
                     if not line.startswith(("disturbed = ", "rate_left = ")))


def check_done(done):
    if done.returncode:
        yield f"status {done.returncode}: {done.said}"


def check_profile(box):
    done = box.run("calibrate", "--quick", "-o", "new.ini", "--nvme", str(box.drive))
    yield from check_done(done)
    for words in ("matrix products of 64", "fused AdamW", "drives: read", '"block_size"',
                  "new.ini", " of 60 s"):
        if words not in done.text:
            yield f"{words} is not in the table"
    if "burst" not in (box.folder / "new.ini").read_text(encoding="utf-8"):
        yield "the write rate is not marked as a burst"
    if list(box.drive.iterdir()):
        yield f"left behind: {list(box.drive.iterdir())}"
    heading = next(line for line in done.text.splitlines() if line.startswith("measured "))
    rows = [line for line in done.text.splitlines() if line.startswith("matrix products of")]
    if heading.split() != ["measured", "10%", "median", "90%", "unit", "spread", "n"]:
        yield f"heading: {heading}"
    for row in rows:
        if not re.search(r"% {2,}[1-9]\d*(/\d+)?$", row):
            yield f"no samples: {row}"
    if "products in fp32" not in done.text:
        yield "products in fp32 are not in the table"
    marked = "disturbed = " in (box.folder / "new.ini").read_text(encoding="utf-8")
    if marked != ("marked as disturbed while it was measured: " in done.text):
        yield f"the profile is {'' if marked else 'not '}marked, and the table says otherwise"


def check_reads_back(box):
    done = box.run("list", "hwprofiles", "./new.ini")
    yield from check_done(done)
    text = (box.folder / "new.ini").read_text(encoding="utf-8")
    if done.text.split() != text.split():
        yield "what is read is not what was written"
    (box.folder / "new.ini").write_text(quiet(text), encoding="utf-8")


def check_busy(box):
    """A profile of a busy machine says so whenever it is used."""
    text = quiet((box.folder / "new.ini").read_text(encoding="utf-8"))
    busy = "products had 61% of its cores"
    (box.folder / "busy.ini").write_text(
        text.replace("[profile]", f"[profile]\ndisturbed = {busy}"), encoding="utf-8")
    (box.folder / "text.txt").write_text("a text to train on\n" * 2000, encoding="utf-8")
    for words in (["plan", "-m", "gpt2"], ["simulate", "-m", "gpt2", "--batch", "1"],
                  ["plan", "-m", "gpt2", "-o", "busy.plan"], ["simulate", "busy.plan"],
                  ["run", "-m", str(ROOT / "tests/fixtures/gpt2-small"), "--data", "text.txt",
                   "--steps", "1", "--backend", "null", "--batch", "1", "--seq", "24",
                   "--nvme", str(box.drive)]):
        done = box.run(*words, "-H", "./busy.ini")
        yield from check_done(done)
        told = [line for line in done.said.splitlines() if busy in line]
        if len(told) != 1 or not told[0].startswith("memwall: profile busy was "):
            yield f"{words}: said {done.said!r}"


def check_demo(box):
    """After its comparison scripts/demo says in a line what a busy machine's figures are worth."""
    script = (ROOT / "scripts/demo").read_text(encoding="utf-8")
    told = script[script.index("\nbusy="):script.index("\nfiles+=(out/gpt-text.jsonl")]
    if script.index("memwall\" run ") > script.index(told):
        yield "it is said before the comparison"
    (box.folder / "out").mkdir()
    for busy in ("", "disturbed = products had 61% of its cores\n"):
        (box.folder / "out/here.ini").write_text(f"[profile]\n{busy}", encoding="utf-8")
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", told], cwd=box.folder,
                              stdout=subprocess.PIPE, check=False)
        said = done.stdout.decode()
        if done.returncode or said.count("\n") != bool(busy) or \
                ("61% of its cores" in said) != bool(busy):
            yield f"{busy!r}: status {done.returncode}, said {said!r}"


def check_slowed(box):
    """Of a machine that slowed down predictions are too fast, and that is what is said; once, and
    beside answers alone."""
    text = quiet((box.folder / "new.ini").read_text(encoding="utf-8"))
    for rate, said in ((17, "several times slower than predicted"), (80, "be slower than"),
                       (140, "predictions too slow")):
        what = f"its speed was {rate}% at the end"
        (box.folder / "slowed.ini").write_text(
            text.replace("[profile]", f"[profile]\ndisturbed = {what}\nrate_left = {rate / 100}"),
            encoding="utf-8")
        done = box.run("simulate", "-m", "gpt2", "--batch", "1", "-H", "./slowed.ini")
        yield from check_done(done)
        if done.said.count("\n") != 1 or what not in done.said or said not in done.said or \
                ("too slow" in done.said) != (rate > 100):
            yield f"{rate}%: said {done.said!r}"
        done = box.run("simulate", "-m", "gpt2", "--batch", "0", "-H", "./slowed.ini")
        if done.returncode != 2 or what in done.said:
            yield f"a refusal: said {done.said!r}"


def check_calibrated(box):
    done = box.run("simulate", "-m", "gpt2", "-H", "./new.ini", "--batch", "1", "--json")
    yield from check_done(done)
    answer = answer_of(done.text)
    if answer["provenance"] != "measured" or not answer["calibrated"]:
        yield f"provenance {answer['provenance']}, calibrated {answer['calibrated']}"
    if answer["software"] != "memwall":  # whose kernels were measured
        yield f"software {answer['software']}"
    if done.said:
        yield f"said {done.said}"


def check_plan(box):
    yield from check_done(box.run("plan", "-m", "gpt2", "-H", "./new.ini"))
    yield from check_done(box.run("plan", "-m", "gpt2", "-H", "./new.ini", "--dtype", "fp32"))
    done = box.run("simulate", "-m", "gpt2", "-H", "./new.ini", "-s", "zero-infinity-nvme",
                   "--batch", "1")
    yield from check_done(done)


def check_here(box):
    """$MEMWALL_NVME says where; -H here and no -H read what was written."""
    done = box.run("calibrate", "--quick", "--json", MEMWALL_NVME=str(box.drive))
    if done.returncode:
        yield f"status {done.returncode}: {done.said}"
        return
    answer = json.loads(done.text)
    if answer["profile"] != str(box.here) or not box.here.exists():
        yield f"written to {answer['profile']}"
    text = box.here.read_text(encoding="utf-8")
    marked = answer["disturbances"]["marked"]
    if (marked or "") != "".join(re.findall("^disturbed = (.*)$", text, re.MULTILINE)):
        yield f"marked {marked}, and the profile otherwise"
    box.here.write_text(quiet(text), encoding="utf-8")
    if not answer["aio"]["block_size"] > 0 or not answer["nvme.read_gb_per_s"]["typical"] > 0:
        yield "no aio block or no rate"
    for words in ([], ["-H", "here"]):
        done = box.run("plan", "-m", "gpt2", *words)
        yield from check_done(done)
        if done.said or "here" not in done.text:
            yield f"{words}: {done.said}"


def check_default_drive(box):
    """Without a word on the drive, the folder that runs have their state in is made, left empty."""
    yield from check_done(box.run("calibrate", "--quick", "-o", "other.ini"))
    folder = box.folder / "state/memwall/runs"
    if not folder.is_dir() or list(folder.iterdir()):
        yield "no folder of runs, or one that is not empty"
    if (box.folder / "cache/memwall").exists():
        yield "the cache folder was made"


def check_sustained(box):
    done = box.run("calibrate", "--quick", "--sustained=1GB", "-o", "long.ini", "--nvme",
                   str(box.drive))
    yield from check_done(done)
    text = (box.folder / "long.ini").read_text(encoding="utf-8")
    if "sustained: " not in text or "burst: " in text:
        yield "the write rate is not marked as sustained"


def check_budget(box):
    """Whatever there is no time for on this machine is named, in all three; it goes by its budget
    (that it keeps it, whatever the machine, test_calibrate_budget.c sees)."""
    began = time.monotonic()
    done = box.run("calibrate", "--budget", "10", "--json", "-o", "soon.ini", "--nvme",
                   str(box.drive))
    took = time.monotonic() - began
    yield from check_done(done)
    answer = json.loads(done.text)
    if answer["budget_s"] != 10 or not 0 < answer["took_s"] < took:
        yield f"{answer['took_s']} of {answer['budget_s']} s, really {took}"
    few = [key for key, value in answer.items()
           if isinstance(value, dict) and 0 < value.get("samples", 0) < value.get("wished", 0)]
    text = (box.folder / "soon.ini").read_text(encoding="utf-8")
    for key in few:
        row = f"{key.split('.')[1]}.source"
        if not any(line.startswith(row) and "samples" in line for line in text.splitlines()):
            if row in text:
                yield f"{key} is of few samples, and the profile does not say so"
        if answer[key]["low"] == answer[key]["high"] != 1 and answer[key]["high"] > 0:
            yield f"{key} is of few samples and has no range"
    left_out = [point["dim"] for point in answer["matmul"] if not point["samples"]]
    named = answer["left_out"] + answer["disturbances"]["contradicting"]
    for dim in left_out:
        if f"matrix products of {dim:g} cubed" not in named:
            yield f"products of {dim} are left out and not named"
    if left_out and "not measured" not in text and "contradict the others" not in text:
        yield "the profile does not name what was left out"
    left_s = [float(left) for left in re.findall(r"at most (\S+) s left", done.said)]
    if not left_s or max(left_s) > 10:
        yield f"the time left is not of the budget: {done.said}"


def check_least_budget(box):
    """The table has what was measured, and the rest in a few words."""
    done = box.run("calibrate", "--budget", "5", "-o", "least.ini", "--nvme", str(box.drive))
    yield from check_done(done)
    rows = done.text.split("share: of the rate alone")[0].splitlines()
    if len(rows) < 5 or any(row.endswith("none") for row in rows):
        yield f"the table is {done.text}"
    line = next((line for line in done.text.splitlines() if line.startswith("left out for")), "")
    if not line.endswith("; a longer --budget measures more"):
        yield f"what was left out is {line!r}"
    for size in ("matrix products of ", "attention of "):  # several are told by their number
        if line.count(size) > 1:
            yield f"left out are {line!r}"


def check_other_machine(box):
    text = (box.folder / "new.ini").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("machine = "))
    (box.folder / "far.ini").write_text(text.replace(row, "machine = a VAX"), encoding="utf-8")
    done = box.run("plan", "-m", "gpt2", "-H", "./far.ini")
    yield from check_done(done)
    if "another machine (a VAX)" not in done.said:
        yield f"said {done.said!r}"


def check_instruction_set(box):
    """A profile says which instruction set its cores computed with; runs with another are told."""
    text = (box.folder / "new.ini").read_text(encoding="utf-8")
    cpu = next(device for device in json.loads(box.run("list", "devices", "--json").text)["devices"]
               if device["backend"] == "cpu")
    used, sets = cpu["instruction_set"], cpu["instruction_sets"]
    if f"\ninstruction_set = {used}\n" not in text:
        yield f"no instruction_set = {used} in {text[:400]!r}"
    plan = ["plan", "-m", "gpt2", "--batch", "1", "-H", "./new.ini"]
    for words in (plan, ["simulate", *plan[1:]]):
        for forced in sets:
            done = box.run(*words, MEMWALL_ISA=forced)
            yield from check_done(done)
            told = [line for line in done.said.splitlines() if "instruction set" in line]
            wanted = (f"with instruction set {used}, and runs here use {forced}",
                      "`memwall calibrate`", f"MEMWALL_ISA={used}")
            if len(told) != (forced != used) or \
                    any(part not in line for line in told for part in wanted):
                yield f"{words[0]} under {forced}: said {done.said!r}"
    # Of another machine that is told, and the set of a profile that does not say is not known.
    for old, new in ((r"(?m)^machine = .*$", "machine = a VAX"),
                     (r"(?m)^instruction_set = .*\n", "")):
        (box.folder / "far.ini").write_text(re.sub(old, new, text), encoding="utf-8")
        done = box.run(*plan[:-1], "./far.ini", MEMWALL_ISA=sets[0])
        if "instruction set" in done.said:
            yield f"{new!r}: said {done.said!r}"


def check_measured_first(box):
    """No profile: it says so and begins to measure, which a drive that is not there ends."""
    box.here.unlink(missing_ok=True)
    done = box.run("simulate", "-m", "gpt2", MEMWALL_NVME="/nonexistent/drive")
    if done.returncode != 2 or done.text:
        yield f"status {done.returncode}"
    for words in ("no profile of this machine", "/nonexistent/drive"):
        if words not in done.said:
            yield f"{words} is not said: {done.said}"
    done = box.run("simulate", "-m", "gpt9", MEMWALL_NVME="/nonexistent/drive")
    if done.returncode != 2 or "measuring" in done.said:
        yield f"measures for a model that is not there: {done.said}"


REFUSED = {
    "simulate -m gpt2 --set gpu.speed=3": "gpu.speed",
    "simulate -m gpt2 --outlook good": "--outlook good",
    "simulate -m gpt2 --json --csv": "--json and --csv",
    "simulate -m gpt2 -s zero9": "zero9",
    "simulate -m gpt2 --deepspeed /nonexistent.json": "/nonexistent.json",
    "simulate -m gpt2 --tp 5": "--tp 5",
    "simulate -m gpt2 --batch 0.3": "--batch 0.3",
    "simulate -m gpt2 --nodes 3": "--nodes 3",
    "simulate -m gpt2 --gpus 3": "--gpus 3",
    "simulate -m gpt2 --global-batch 7 --batch 2": "--global-batch 7",
    "simulate -m gpt2 -s zero3,zero-offload --tp 7": "--tp 7",
    "simulate -m gpt2 --trace /nonexistent/trace.json": "/nonexistent/trace.json",
    "simulate -m gpt2 --plot /nonexistent/plot.png": "/nonexistent/plot.png",
    "plan -m gpt2 -o /nonexistent/gpt2.plan": "/nonexistent/gpt2.plan",
    "plan -m gpt2 --write-deepspeed /nonexistent/ds.json": "/nonexistent/ds.json",
    "plan -m gpt2 --seq 4096": "--seq 4096",
    "plan -m gpt2 -s zero3 --dpu-start 3": "--dpu-start",
    "plan -m gpt2 -s zero1 --param-device nvme": "--param-device",
    "plan -m gpt2 -s zero-offload --optimizer-device gpu": "--optimizer-device gpu",
    "plan -m gpt2 --param-loads 2 --activation-checkpoint-interval 0": "--param-loads 2",
    "run -m gpt2 --data text.txt -s ddp --optimizer-device cpu": "--optimizer-device",
    "run -m gpt2 --data text.txt --log /nonexistent/log.jsonl": "/nonexistent/log.jsonl",
    "run -m gpt2 --data text.txt --save-timeline /nonexistent/t.txt": "/nonexistent/t.txt",
    "simulate no.plan": "no.plan",
    "simulate bad.plan": "bad.plan",
    "compare bad.plan": "bad.plan",
    "simulate quiet-pipe": "quiet-pipe: can be read only once",
    "simulate quiet-pipe -H rtx4090": "quiet-pipe: is a pipe that nobody writes to",
    "compare quiet-pipe": "quiet-pipe: is a pipe that nobody writes to",
    "compare /proc/cpuinfo": "/proc/cpuinfo: is generated by the kernel",
    "plan -m gpt2 --batch none": "--batch",
    "run -m gpt2": "--data",
    "run -m gpt2 --data bad.plan --steps 0": "--steps 0",
    "run -m gpt2 --data empty.bin": "empty.bin",
    "run -m gpt2 --data text.txt --weights bad.plan": "bad.plan",
    "run -m gpt2 --data text.txt --from bad.plan": "bad.plan",
    "run -m gpt2 --data text.txt --weights x --from y": "--weights, --from",
}


TAKEN = [
    "simulate -m gpt2 --gpus 4 --tp 4 --set node.gpus=4",
    "simulate -m gpt2 --tp 2 --set node.gpus=2 --global-batch 64 --batch 0.5",
    "simulate -m gpt2 -s zero3,zero-offload --dpu-start 3",
    "plan -m gpt2 --optimizer-device cpu --batch 4 --global-batch 64",
    "run -m gpt2 --data text.txt --gpus 2 --batch 1",
]


def check_taken(box, line):
    """What some machine takes is not refused before it is known: it begins to measure."""
    box.here.unlink(missing_ok=True)
    (box.folder / "text.txt").write_text("a text to train on\n" * 2000, encoding="utf-8")
    done = box.run(*line.split(), MEMWALL_NVME="/nonexistent/drive")
    if "no profile of this machine" not in done.said or "/nonexistent/drive" not in done.said:
        yield f"status {done.returncode}, said {done.said!r}"


def check_refused(box, line, words):
    """A question that is refused measures nothing first."""
    (box.folder / "bad.plan").write_text("no plan\n", encoding="utf-8")
    (box.folder / "empty.bin").write_bytes(b"")
    if not (box.folder / "quiet-pipe").exists():
        os.mkfifo(box.folder / "quiet-pipe")
    (box.folder / "text.txt").write_text("a text to train on\n" * 2000, encoding="utf-8")
    done = box.run(*line.split(), MEMWALL_NVME="/nonexistent/drive")
    if done.returncode not in (1, 2) or words not in done.said:
        yield f"status {done.returncode}, said {done.said!r}"
    if "measuring" in done.said or "/nonexistent/drive" in done.said:
        yield f"measures first: {done.said!r}"


def check_waits(box):
    """While another one measures it waits, and takes its profile; a stale lock keeps nobody."""
    lock = box.folder / "config/memwall/calibrate.lock"
    profile = (box.folder / "new.ini").read_text(encoding="utf-8")
    box.here.unlink(missing_ok=True)
    with open(lock, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        words = [str(MEMWALL), "plan", "-m", "gpt2"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              cwd=box.folder, env=box.environment) as waiting:
            said = waiting.stderr.readline().decode()
            if "another memwall is measuring" not in said or str(lock) not in said:
                yield f"said {said!r}"
            if waiting.poll() is not None:
                yield "does not wait"
            box.here.write_text(profile, encoding="utf-8")
            fcntl.flock(file, fcntl.LOCK_UN)
            text, said = waiting.communicate()
    if waiting.returncode not in (0, 3) or b"measuring" in said or b"here" not in text:
        yield f"status {waiting.returncode}, said {said!r}"
    done = box.run("calibrate", "--quick", "-o", "again.ini", "--nvme", str(box.drive))
    yield from check_done(done)
    if "waiting" in done.said:
        yield "a lock that nobody holds is waited for"


def check_killed(box):
    """What a killed one leaves on the drive goes when the next one starts."""
    words = [str(MEMWALL), "calibrate", "-o", "killed.ini", "--nvme", str(box.drive)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          cwd=box.folder, env=box.environment) as killed:
        for row in killed.stderr:
            if b"matrix products" in row:
                break
        killed.kill()
    if not any(path.stat().st_size > 1 << 20 for path in box.drive.iterdir()):
        yield "nothing is left to remove"
    other = box.drive / "memwall-calibrate-3-1of2.data"
    other.write_bytes(b"of another set of ranks")
    yield from check_done(box.run("calibrate", "--quick", "-o", "next.ini", "--nvme",
                                  str(box.drive)))
    if list(box.drive.iterdir()):
        yield f"left behind: {list(box.drive.iterdir())}"


def measure_and_signal(box, to, *prefix, ignored=()):
    """`to(pid)` a calibration that has begun; its status, and what it said."""
    words = [*prefix, str(MEMWALL), "calibrate", "--quick", "-o", "told.ini", "--nvme",
             str(box.drive)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=box.folder,
                          env={**box.environment, **RANKS_ENVIRONMENT, "OMP_NUM_THREADS": "1"},
                          preexec_fn=lambda: [signal.signal(it, signal.SIG_IGN) for it in ignored]
                          ) as told:
        said = b""
        while b"s left: " not in said and told.poll() is None:
            said += told.stderr.readline()
        to(told.pid)
        said += told.communicate(timeout=SECONDS)[1]
    return told.returncode, said.decode()


def check_kept(box):
    """A profile of a quiet machine stays where a disturbed one is measured."""
    box.here.write_text(quiet((box.folder / "new.ini").read_text(encoding="utf-8")),
                        encoding="utf-8")
    before = box.here.read_text(encoding="utf-8")
    beside = box.here.with_name("here-disturbed.ini")
    beside.unlink(missing_ok=True)
    done = box.run("calibrate", "--quick", "--json", MEMWALL_NVME=str(box.drive))
    yield from check_done(done)
    answer = json.loads(done.text)
    marked = answer["disturbances"]["marked"]
    if bool(marked) != (box.here.read_text(encoding="utf-8") == before):
        yield f"marked {marked}, and here.ini otherwise"
    if marked and (not beside.exists() or answer["profile"] != str(beside) or
                   "-H here-disturbed" not in done.said):
        yield f"not beside it: {answer['profile']}, {done.said}"
    if marked:
        yield from check_done(box.run("calibrate", "--quick", "-o", str(box.here), "--nvme",
                                      str(box.drive)))
        if box.here.read_text(encoding="utf-8") == before:
            yield "-o does not replace it"
    beside.unlink(missing_ok=True)
    box.here.write_text(before, encoding="utf-8")


def check_told(box):
    """Ctrl-C stops it, and leaves nothing; where it is ignored, as in a shell's background, not."""
    for number in (signal.SIGINT, signal.SIGTERM):
        (box.folder / "told.ini").write_text("as it was", encoding="utf-8")
        status, said = measure_and_signal(box, lambda pid: os.kill(pid, number))
        if (box.folder / "told.ini").read_text(encoding="utf-8") != "as it was":
            yield f"{number.name}: a profile was written"
        if status != 128 + number or \
                not said.endswith("memwall: stopped; no profile was written\n"):
            yield f"{number.name}: status {status}: {said!r}"
        status, said = measure_and_signal(box, lambda pid: os.kill(pid, number), ignored=[number])
        if status:
            yield f"{number.name} ignored: status {status}: {said!r}"
    if list(box.drive.iterdir()):
        yield f"left behind: {list(box.drive.iterdir())}"


def check_told_rank(box):
    """Where another rank hangs, or is lost on another machine, SIGTERM ends it."""
    def stop_one(launcher):
        os.kill(rank_pid(launcher, 1), signal.SIGSTOP)
        os.kill(rank_pid(launcher, 0), signal.SIGTERM)
    status, said = measure_and_signal(box, stop_one, *MPIRUN, "2")
    if status != 1 or "memwall: rank 0 was asked to end (SIGTERM)" not in said:
        yield f"status {status}: {said!r}"
    for path in box.drive.iterdir():
        path.unlink()


def check_ranks(box):
    """Two ranks measure together: a device each, and the collectives between them."""
    if not has_ranks():
        return
    line = [*MPIRUN, "2", str(MEMWALL), "calibrate", "--quick", "-o", "ranks.ini", "--nvme",
            str(box.drive)]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          cwd=box.folder, env={**box.environment, **RANKS_ENVIRONMENT,
                                               "OMP_NUM_THREADS": "1"})
    if done.returncode:
        yield f"status {done.returncode}: {done.stderr.decode()}"
        return
    if done.stdout.decode().count("profile written") != 1:
        yield "not one table"
    profile = (box.folder / "ranks.ini").read_text(encoding="utf-8")
    for words in ("gpus = 2", "[fabric]", "collective_sm_share"):
        if words not in profile:
            yield f"{words} is not in the profile"
    if list(box.drive.iterdir()):
        yield f"left behind: {list(box.drive.iterdir())}"
    done = box.run("simulate", "-m", "gpt2", "-H", "./ranks.ini", "-s", "zero3", "--batch", "1",
                   "--gpus", "2", "--json")
    yield from check_done(done)
    if not answer_of(done.text)["calibrated"]:
        yield "does not count as measured"


WRONG = {
    "--nvme /nonexistent/drive": (2, "--nvme /nonexistent/drive"),
    "--nvme /proc": (2, "/proc"),
    "-o /nonexistent/folder/x.ini --nvme .": (2, "/nonexistent"),  # root would make the folder
    "--sustained=much": (2, "--sustained=much"),
    "--sustained=-3": (2, "--sustained=-3"),
    "--sustained=0": (2, "--sustained=0"),
    "--sustained=0x10": (2, "--sustained=0x10"),
    "--budget 0x10": (2, "--budget 0x10"),
    "--budget nan": (2, "--budget nan"),
    "--budget 2": (2, "--budget 2"),
    "--budget 1e9": (2, "--budget 1e9"),
    "--budget soon": (2, "from 5 to 3600"),
    "--slow": (2, "--slow"),
    "extra": (2, "extra"),
}


def check_wrong(box, line, status, words):
    user = as_user(box, str(MEMWALL), "--version") if line.startswith("-o") else []
    if user is None:
        yield Skip("no other user may run the command")
        return
    done = box.run("calibrate", "--quick", *line.split(), prefix=user)
    last = done.said.strip().splitlines()[-1]
    if done.returncode != status or done.text:
        yield f"status {done.returncode}, standard output {done.text!r}"
    if words not in last or not last.startswith("memwall: "):
        yield f"said {last!r}"


def check_help(box):
    done = box.run("calibrate", "--help")
    yield from check_done(done)
    if "--sustained" not in done.text or "--nvme" not in done.text:
        yield done.text


def tests(box):
    yield "help", check_help(box)
    yield "profile", check_profile(box)
    yield "reads back", check_reads_back(box)
    yield "counts as measured", check_calibrated(box)
    yield "busy", check_busy(box)
    yield "demo", check_demo(box)
    yield "slowed down", check_slowed(box)
    yield "plans", check_plan(box)
    yield "here", check_here(box)
    yield "default drive", check_default_drive(box)
    yield "sustained", check_sustained(box)
    yield "budget", check_budget(box)
    yield "the least budget", check_least_budget(box)
    yield "another machine", check_other_machine(box)
    yield "instruction set", check_instruction_set(box)
    yield "measured first", check_measured_first(box)
    for line, words in REFUSED.items():
        yield f"refused: {line}", check_refused(box, line, words)
    for line in TAKEN:
        yield f"taken: {line}", check_taken(box, line)
    yield "waits", check_waits(box)
    yield "killed", check_killed(box)
    yield "kept", check_kept(box)
    yield "asked to end", check_told(box)
    yield "ranks", check_ranks(box)
    if has_ranks():
        yield "asked to end, of two ranks that hang", check_told_rank(box)
    for line, (status, words) in WRONG.items():
        yield f"wrong: {line}", check_wrong(box, line, status, words)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
