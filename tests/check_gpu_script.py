#!/usr/bin/python3
"""scripts/gpu where there is no GPU; prints TAP.

no GPU      one line, and exit status 77.
rehearsal   steps on cores: the table comes last, with a row for what is missing, what fails and
            what has no time left; what failing programs said is kept.
ended       by a signal: the table comes all the same.
limits      what the steps take at most leaves the grid some of ten minutes.
pack        of what is built: unpacked elsewhere it goes through steps, writes in its folder alone,
            and says what is missing or too old.  A library of CUDA is found in a Python's packages.
at once     programs that share a GPU are bounded by its free memory.
old driver  one that the packed programs cannot use is said first.
grid        the draw gives the configurations that are committed; what a result is judged by.
"""
import _ctypes
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from importlib.machinery import SourceFileLoader

from tap import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "experiments"), str(ROOT / "experiments" / "gpu-grid")]
import checks  # noqa: E402
import common  # noqa: E402
import draw  # noqa: E402
import machine as machine_module  # noqa: E402
import measure  # noqa: E402
import programs  # noqa: E402
from machine import Machine, TimeUp  # noqa: E402

BUILD = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve().parent.parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}


def script(*words, root=ROOT, **environment):
    environment = {**ENVIRONMENT, **environment}
    return subprocess.run([sys.executable, str(root / "scripts" / "gpu"), *words],
                          capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                          env={key: value for key, value in environment.items() if value})


def program(path, *lines):
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="ascii")
    path.chmod(0o755)
    return str(path)


def check_no_gpu(folder):
    """Where nvidia-smi is not in the path."""
    done = script("--out", folder, PATH=folder)
    if done.returncode != 77 or len(done.stdout.splitlines()) != 1 or done.stderr or \
            not done.stdout.startswith("gpu: no NVIDIA GPU is here: "):
        yield f"status {done.returncode}: {done.stdout!r}, {done.stderr!r}"


def check_wrong_step(_):
    done = script("--only", "losses,magic")
    if done.returncode != 2 or "--only magic: steps are build, tests, " not in done.stderr:
        yield f"status {done.returncode}: {done.stderr!r}"


def check_table(done, status, *wanted):
    """Rows begin and end so."""
    if done.returncode != status:
        yield f"status {done.returncode}, not {status}: {done.stderr[-500:]}"
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    if not lines or lines[0] != "what figure bar":
        yield f"no table: {done.stdout!r}"
    for begin, end in wanted:
        if not any(line.startswith(begin) and line.endswith(end) for line in lines):
            yield f"no row {begin!r} that ends with {end!r}: {done.stdout}"


def check_rehearsal(folder):
    done = script("--rehearse", "--only", "losses,bits,variants,speed", "--out", folder)
    yield from check_table(done, 0, ("losses in bf16, 20 steps ", " ok"),
                           ("losses in fp16, 20 steps ", " ok"), ("same bits, 4 steps ", " ok"),
                           ("losses of memory savers, 8 steps ", " ok"),
                           ("speed nothing was calibrated ", " not run"))
    text = (pathlib.Path(folder) / "result.md").read_text(encoding="utf-8")
    if "| losses in bf16, 20 steps" not in text or "a rehearsal on cores" not in text:
        yield text


def check_failing(folder):
    bad = program(pathlib.Path(folder) / "bad", "echo first >&2", "echo last >&2", "exit 1")
    done = script("--rehearse", "--only", "losses,bits", "--out", folder, MEMWALL=bad)
    yield from check_table(done, 1, ("losses Failed: bad: status 1: last", " FAILED"),
                           ("bits Failed: bad: status 1: last", " FAILED"))
    script("--rehearse", "--only", "bits", "--out", folder, MEMWALL=bad)
    text = (pathlib.Path(folder) / "log.txt").read_text(encoding="utf-8")
    numbers = sorted(line[:3] for line in text.splitlines() if "bad  " in line)
    if numbers != [f"{n:03d}" for n in range(1, len(numbers) + 1)] or len(numbers) < 3 or \
            text.count("Failed: bad: ") != 3:
        yield f"of two runs the log has {text!r}"
    for said in (done.stderr, text):
        if "    first\n    last\n" not in said:
            yield f"what it said is not in {said!r}"


def check_no_time(folder):
    slow = program(pathlib.Path(folder) / "slow", "echo so far", "sleep 60")
    done = script("--rehearse", "--only", "losses,bits", "--out", folder, "--minutes", "0.17",
                  MEMWALL=slow)
    yield from check_table(
        done, 0, ("losses its time was up: slow was ended after 0 s: so far", " not run"),
        ("bits its time was up: slow was not begun ", " not run"))
    if not any(path.read_text(encoding="utf-8") == "so far\n"
               for path in (pathlib.Path(folder) / "log").glob("*-slow.out")):
        yield "what it said is lost"


def check_ended(folder):
    """In its second step, before the first command of that ends."""
    folder = pathlib.Path(folder)
    slow = program(folder / "slow", f"touch {folder / 'begun'}", "sleep 60")
    with subprocess.Popen([sys.executable, str(ROOT / "scripts" / "gpu"), "--rehearse", "--only",
                           "peer,losses", "--out", str(folder)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True,
                          env={**ENVIRONMENT, "MEMWALL": slow}) as process:
        while not (folder / "begun").exists() and process.poll() is None:
            time.sleep(0.01)
        if "after `peer`" not in (folder / "result.md").read_text(encoding="utf-8"):
            yield "the first step is not in result.md"
        process.send_signal(signal.SIGTERM)
        said = process.communicate()
    done = subprocess.CompletedProcess([], process.returncode, *said)
    yield from check_table(done, 1, ("peer ", " not run"),
                           ("scripts/gpu ended by SIGTERM in losses ", " FAILED"))


def check_limits(_):
    loader = SourceFileLoader("gpu_script", str(ROOT / "scripts" / "gpu"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_script", loader))
    loader.exec_module(module)
    limit_s = 600 - module.WRITING_S
    for packed, least_s in ((True, 120), (False, 0)):
        limits = module.limits_of(list(module.STEPS), packed, limit_s)
        if sum(limits.values()) != limit_s or limits["grid"] < least_s or \
                list(limits)[-1] != "grid":
            yield f"{packed}: {limits}"


# --- packs ---------------------------------------------------------------------------------------

def unpacked(folder):
    """Where it was unpacked, after a line for each thing wrong."""
    done = script("--pack", str(folder / "it.tar"), "--build", str(BUILD))
    if done.returncode or not done.stdout.startswith("gpu: it.tar, "):
        yield f"status {done.returncode}: {done.stdout!r}, {done.stderr!r}"
        return
    with tarfile.open(folder / "it.tar") as tar:
        names = {pathlib.Path(name).name for name in tar.getnames()}
        tar.extractall(folder / "some where")
    for name, wanted in (("libglib-2.0.so.0", True), ("libc.so.6", False), ("libm.so.6", False),
                         ("__pycache__", False), ("h100.ini", True), ("memwall.ini", True)):
        if (name in names) != wanted:
            yield f"{name} is {'not ' if wanted else ''}there"


def check_pack(folder):
    folder = pathlib.Path(folder)
    wrong = list(unpacked(folder))
    yield from wrong
    if wrong:
        return
    root = folder / "some where" / "memwall-gpu"
    home = folder / "home"
    home.mkdir()
    around = {"HOME": str(home), "TMPDIR": str(home), "MEMWALL": "", "XDG_CACHE_HOME": "",
              "XDG_CONFIG_HOME": ""}
    done = script("--rehearse", "--only", "build,tests,losses", root=root, **around)
    yield from check_table(done, 0, ("build packed: ", " or later ok"),
                           ("device tests 2 passed, 0 failed, 0 skipped ", " ok"),
                           ("losses in fp16, 20 steps ", " ok"))
    if list(home.iterdir()):
        yield f"written: {list(home.iterdir())}"
    record = root / "build-gpu" / programs.RECORD
    kept = record.read_text(encoding="utf-8")
    record.write_text(kept.replace('"glibc": "', '"glibc": "99.'), encoding="utf-8")
    done = script("--rehearse", "--only", "build", root=root, **around)
    yield from check_table(done, 1, ("build Failed: the packed programs need glibc 99.", " FAILED"))
    record.write_text(kept, encoding="utf-8")
    (root / "build-gpu" / "tests" / "bench_step").unlink()
    done = script("--rehearse", "--only", "build", root=root, **around)
    yield from check_table(
        done, 1, ("build Failed: build-gpu/tests/bench_step is not in the pack ", " FAILED"))


def check_not_built(folder):
    done = script("--pack", str(pathlib.Path(folder) / "it.tar"), "--build", folder)
    if done.returncode != 1 or "gpu: nothing was packed: " not in done.stderr:
        yield f"status {done.returncode}: {done.stderr!r}"


def check_library(folder):
    """Of a Python's packages, where programs do not find it by themselves."""
    folder = pathlib.Path(folder)
    place = folder / "site" / "nvidia" / "cu99" / "lib" / "libcublasLt.so.99"
    place.parent.mkdir(parents=True)
    shutil.copy(_ctypes.__file__, place)
    (folder / "program").write_bytes(b"\0libcublasLt.so.99\0libnccl.so.99\0")
    machine = Machine(folder, folder, folder, [], "cpu", 60)
    machine.program = str(folder / "program")
    kept = os.environ.get("TORCH_PYTHON")
    os.environ["TORCH_PYTHON"] = program(folder / "python", f"echo '{folder / 'site'}'")
    rows = list(programs.library_rows(machine))
    os.environ.pop("TORCH_PYTHON")
    if kept:
        os.environ["TORCH_PYTHON"] = kept
    if [(row.figure, row.verdict) for row in rows] != \
            [(str(place), "ok"), ("is not here, nor in a Python's packages", "")]:
        yield f"{rows}"
    if machine.ours.get("LD_LIBRARY_PATH", "").split(":")[-1] != str(place.parent):
        yield f"programs are given {machine.ours}"
    for name in ("TMPDIR", "XDG_CACHE_HOME", "CUDA_CACHE_PATH"):
        if not machine.environment[name].startswith(str(folder)):
            yield f"{name} is {machine.environment[name]}"


def check_kinds(folder):
    """GPUs that the pack has kernels for: of the same major, or later than all."""
    folder, kept = pathlib.Path(folder), programs.list_gpus
    machine = Machine(folder, folder, folder, ["a GPU"], "cuda", 60)
    for kind, runs in (("7.5", False), ("8.0", True), ("8.9", True), ("9.0", False), ("10.0", True),
                       ("12.1", True)):
        programs.list_gpus = lambda what, kind=kind: [kind]
        try:
            programs.check_kinds(machine, {"architectures": ["80", "100"]})
            said = ""
        except common.Failed as why:
            said = str(why)
        if (not said) != runs or (said and kind not in said):
            yield f"{kind}: {said!r}"
    programs.list_gpus = kept


def check_at_once(folder):
    """Programs that share a GPU, by its free memory; of a rehearsal as many as cores."""
    folder, kept, cores = pathlib.Path(folder), machine_module.list_gpus, checks.os.cpu_count
    machine = Machine(folder, folder, folder, ["a GPU"], "cuda", 60)
    running, most = [0], [0]
    held = threading.Condition()

    def run_test(_machine, test):
        with held:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with held:
            running[0] -= 1
        return {"name": test["name"], "result": "OK", "stdout": ""}
    kept_run, kept_tests = checks.run_test, checks.programs.tests_of
    checks.run_test, checks.os.cpu_count = run_test, lambda: 64
    checks.programs.tests_of = lambda _: [{"name": f"{n}-gpu"} for n in range(24)]
    for free, limit in (("81079 MiB, 90000 MiB", 7), ("23500 MiB", 2), ("7900 MiB", 1),
                        ("[N/A]", 1)):
        machine_module.list_gpus = lambda what, free=free: free.split(", ")
        most[0] = 0
        list(checks.device_tests(machine))
        if most[0] != limit:
            yield f"{free}: {most[0]} at once, not {limit}"
    machine_module.list_gpus, checks.os.cpu_count = kept, cores
    checks.run_test, checks.programs.tests_of = kept_run, kept_tests


OLD_DRIVER = "GPUs: the NVIDIA driver is for CUDA 12.2, this build needs one for CUDA 13.0"


def check_old_driver(folder):
    """Of packed programs: a line before anything else, and status 1."""
    folder = pathlib.Path(folder)
    build, commands = folder / "build", folder / "commands"
    build.mkdir()
    commands.mkdir()
    (build / programs.RECORD).write_text('{"programs": []}', encoding="utf-8")
    program(commands / "nvidia-smi", "echo 'A GPU, 535.104.05, 24564 MiB'")
    devices = json.dumps({"devices": [{"backend": "cpu", "device": 0},
                                      {"backend": "cuda", "why": OLD_DRIVER}]})
    done = script("--build", str(build), "--out", str(folder / "out"),
                  PATH=f"{commands}{os.pathsep}{os.environ['PATH']}",
                  MEMWALL=program(folder / "memwall", f"echo '{devices}'"))
    if done.returncode != 1 or done.stdout != f"gpu: {OLD_DRIVER}\n" or done.stderr:
        yield f"status {done.returncode}: {done.stdout!r}, {done.stderr!r}"


# --- the grid ------------------------------------------------------------------------------------

def check_draw(folder):
    rows = common.read_csv(measure.HERE / "configurations.csv")
    kept = draw.HERE
    draw.HERE = pathlib.Path(folder)
    draw.main()
    draw.HERE = kept
    if common.read_csv(pathlib.Path(folder) / "configurations.csv") != rows:
        yield "draw.py gives others"
    shares = [row["share"] for row in rows]
    if len(rows) < 12 or shares.count("drives") < 4 or shares.count("host") < 3:
        yield f"shares are {shares}"


class Hanging(Machine):
    """Its runs end in no time that they are given."""

    def memwall(self, verb, *words, most_s=1e9):
        if verb == "run":
            raise TimeUp("enough" if 28 < most_s < 300 else f"given {most_s} s")
        return {"feasible": True, "step_time_s": 1.0}


def check_hanging(folder):
    """What hangs is a fault; what the step's end ends is not."""
    folder = pathlib.Path(folder)
    for limit_s, fault in ((3600, True), (0.9, False)):
        machine = Hanging(folder, folder, folder, [], "cpu", limit_s)
        machine.profile.touch()
        measure.predict, kept = (lambda *_: 0.5), measure.predict
        measure.measure_all(machine)
        measure.predict = kept
        if {(why, wrong) for _, why, wrong in machine.others} != {("enough", fault)}:
            yield f"{limit_s}: {machine.others}"


def check_losses(_):
    def log(*losses, skipped=()):
        return [{"loss": loss, "skipped": step in skipped} for step, loss in enumerate(losses)]
    checks.LOSS_STEPS, kept = 3, checks.LOSS_STEPS
    good = log(4.0, 3.0, 2.0, skipped=(0,))
    for got, verdict in ((good, "ok"), (log(4.0, 3.0, 2.1, skipped=(0,)), "MISSED"),
                         (log(4.0, 3.0, 2.0, skipped=(1,)), "MISSED"), (good[:2], "not run")):
        row = checks.losses_row("fp16", got, good)
        if row.verdict != verdict:
            yield f"{got}: {row}"
    checks.LOSS_STEPS = kept


def made_up(number, error, busiest):
    return {"number": str(number), "share": "drives", "prefetch": "1", "error": error,
            "naive_error": -0.8, "busiest": busiest, "over_floor": 1.1}


def check_judged(_):
    lanes = ["nvme-read"] * 4 + ["h2d"] * 3 + ["compute"] * 5
    good = [made_up(n, 0.09, lane) for n, lane in enumerate(lanes)]
    off = [{**row, "error": -0.2, "over_floor": 1.3} for row in good]
    for results, others, verdicts in (
            (good, [], ["ok", "ok", "ok", "ok", "ok"]),
            (off, [], ["ok", "MISSED", "ok", "ok", "MISSED"]),
            (good, [("13", "it crashed", True)], ["MISSED", "ok", "ok", "ok", "ok"]),
            (good[1:], [("1", "does not fit", False)], ["MISSED", "ok", "MISSED", "ok", "ok"]),
            ([], [("1", "does not fit", False)], ["MISSED"])):
        rows = list(measure.grid_rows(results, others))
        if [row.verdict for row in rows] != verdicts:
            yield f"{rows}, not {verdicts}"


TESTS = {"no GPU": check_no_gpu, "wrong step": check_wrong_step, "rehearsal": check_rehearsal,
         "failing": check_failing, "no time": check_no_time, "ended": check_ended,
         "limits": check_limits, "pack": check_pack, "pack, not built": check_not_built,
         "library of a package": check_library, "kinds of GPUs": check_kinds,
         "at once": check_at_once, "old driver": check_old_driver,
         "hanging": check_hanging, "losses": check_losses, "draw": check_draw,
         "judged": check_judged}


def tests():
    for name, check in TESTS.items():
        with tempfile.TemporaryDirectory() as folder:
            yield name, list(check(folder))


if __name__ == "__main__":
    sys.exit(report(tests()))
