#!/usr/bin/python3
"""scripts/gpu where there is no GPU; prints TAP.

no GPU      one line, and exit status 77.
rehearsal   steps on cores: the table comes last, with a row for what is missing, what fails and
            what has no time left.
grid        the draw gives the configurations that are committed; what a result is judged by.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from tap import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "experiments"), str(ROOT / "experiments" / "gpu-grid")]
import common  # noqa: E402
import draw  # noqa: E402
import measure  # noqa: E402


def script(*words, **environment):
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "gpu"), *words],
                          capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive",
                               **environment})
    return done


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
    done = script("--rehearse", "--only", "losses,bits,speed", "--out", folder)
    yield from check_table(done, 0, ("losses, 20 steps ", " ok"), ("same bits, 4 steps ", " ok"),
                           ("speed nothing was calibrated ", " not run"))
    text = (pathlib.Path(folder) / "result.md").read_text(encoding="utf-8")
    if "| losses, 20 steps" not in text or "a rehearsal on cores" not in text:
        yield text


def check_failing(folder):
    done = script("--rehearse", "--only", "losses,bits", "--out", folder, MEMWALL="/bin/false")
    yield from check_table(done, 1, ("losses Failed: false: status 1: ", " FAILED"),
                           ("bits Failed: false: status 1: ", " FAILED"))


def check_no_time(folder):
    slow = pathlib.Path(folder) / "slow"
    slow.write_text("#!/bin/sh\nsleep 60\n", encoding="ascii")
    slow.chmod(0o755)
    done = script("--rehearse", "--only", "losses,bits", "--out", folder, "--minutes", "0.17",
                  MEMWALL=str(slow))
    yield from check_table(done, 0, ("losses its time was up: slow was ended ", " not run"),
                           ("bits its time was up: slow was not begun ", " not run"))


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
         "failing": check_failing, "no time": check_no_time, "draw": check_draw,
         "judged": check_judged}


def tests():
    for name, check in TESTS.items():
        with tempfile.TemporaryDirectory() as folder:
            yield name, list(check(folder))


if __name__ == "__main__":
    sys.exit(report(tests()))
