#!/usr/bin/python3
"""memwall sweep, typed in; prints TAP.

order    the points of a grid, the last axis fastest; ranges, lists, and a file of points.
row      a row has the figures that simulate has for the point; one that is refused says why.
same     any number of threads and of ranks, and the files of shards together: the same bytes.
resume   killed half-way, cut within a row and continued: the same bytes.
held     what is beside the output and of another sweep, or no sweep's, stays as it is.
shards   files of shards that are cut, missing, named twice or of another sweep are refused.
closed   the engine checks the front and rows drawn, of which those of the same plan as simulate's
         have its step time; the others have none.
json     JSON has the rows of the CSV.
plot     pictures are drawn, of what can be drawn.
refused  bad input is one line, and nothing is written.

The command is $MEMWALL, or build/cli/memwall.
"""
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from command import MEMWALL, Box, refused
from tap import MPIRUN, RANKS_ENVIRONMENT, Skip, has_ranks, report_in

SWEEP = "sweep -m gpt2-xl -H dgx2 -s zero3 --over nodes=1..4 --over batch=1,2,4,4096 "
# Slow enough to be interrupted: the strategy is open.
LONG = ("sweep -m gpt2-xl -H dgx2 --threads 1 --over nodes=1..8 --over batch=1..5 "
        "--over seq=512,1024 ")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def swept(box, line, **how):
    answer = box.run(line, **how)
    assert answer.status == 0, answer.err
    return answer.out.decode()


def check_order(box):
    box.write("points.csv", "strategy,gpu.memory_gib\nzero3,32\nddp,\n")
    asked = {
        "--over batch=1,2 --over seq=512..1024:512":
            [("1", "512"), ("1", "1024"), ("2", "512"), ("2", "1024")],
        "--over batch=1..8x2 --over gpu.memory_gib=0.5..1:0.25":
            [(b, m) for b in "1248" for m in ("0.5", "0.75", "1")],
        "-s zero3,ddp --over 'param-device=gpu;cpu:1GB,gpu'":
            [(s, d) for s in ("zero3", "ddp") for d in ("gpu", "cpu:1GB,gpu")],
        "--points points.csv --over batch=1,2":
            [("zero3", "32", "1"), ("zero3", "32", "2"), ("ddp", "", "1"), ("ddp", "", "2")],
    }
    for line, points in asked.items():
        rows = rows_of(swept(box, "sweep -m gpt2-xl -H flat-test --closed-form " + line))
        found = [tuple(v for k, v in row.items() if k.startswith("over.")) for row in rows]
        if found != points:
            yield f"{line}: {found}"
    rows = rows_of(swept(box, "sweep -m gpt2-xl -H all --over batch=1 --closed-form"))
    if len(rows) < 10 or len({row["over.hardware"] for row in rows}) != len(rows):
        yield f"all hardware: {len(rows)} rows"


def check_row(box):
    rows = rows_of(swept(box, SWEEP + "--tokens 1B"))
    if {row["feasible"] for row in rows} != {"true", "false"}:
        yield "some should fit and some not"
    for row in rows[::5]:
        [alone] = rows_of(box.run("simulate -m gpt2-xl -H dgx2 -s zero3 --tokens 1B --csv "
                                  f"--nodes {row['over.nodes']} --batch {row['over.batch']}"
                                  ).out.decode())
        # What tells a plan from its closed form is not asked for in a sweep.
        other = {k for k in alone if row[k] != alone[k] and not k.startswith("closed_form_")}
        if other:
            yield f"{row['over.nodes']} nodes, batch {row['over.batch']}: {sorted(other)} differ"
    [good, bad] = rows_of(swept(box, "sweep -m gpt2-xl -H flat-test --over tp=1,7"))
    if good["error"] or not good["step_time_s"]:
        yield f"tp 1: {good}"
    if "tp" not in bad["error"] or bad["step_time_s"] or bad["feasible"]:
        yield f"tp 7: {bad}"


def check_same(box):
    whole = swept(box, SWEEP + "--threads 1")
    if swept(box, SWEEP + "--threads 5") != whole:
        yield "five threads write other bytes than one"
    for i in (1, 2, 3):
        swept(box, SWEEP + f"--shard {i}/3 -o shard{i}")
    if swept(box, "sweep --merge shard3 shard1 shard2") != whole:
        yield "three shards make other bytes"
    if not has_ranks():
        yield Skip("no mpirun, or a build without MPI")
    else:
        for ranks in (2, 4):
            swept(box, SWEEP + f"-o ranks{ranks}", prefix=[*MPIRUN, str(ranks)],
                  **RANKS_ENVIRONMENT)
            if (box.folder / f"ranks{ranks}").read_text() != whole:
                yield f"{ranks} ranks write other bytes"
        box.write("mine.partial", "not a sweep's")
        answer = box.run(SWEEP + "-o mine", prefix=[*MPIRUN, "3"], **RANKS_ENVIRONMENT)
        if answer.status != 2 or answer.err.count("memwall: ") != 1:
            yield f"status {answer.status} of three ranks that are refused: {answer.err}"


def interrupt(box, line, rows):
    """Kills a sweep once so many rows are in its partial file."""
    partial = box.folder / "rows.partial"
    with subprocess.Popen([str(MEMWALL), *line.split(), "-o", "rows"], cwd=box.folder,
                          env=box.environment, stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as run:
        end = time.monotonic() + 60
        while run.poll() is None and time.monotonic() < end:
            if partial.exists() and partial.read_bytes().count(b"\n") >= 2 + rows:
                break
            time.sleep(0.0005)
        run.send_signal(signal.SIGKILL)
    return partial


def check_resume(box):
    whole = swept(box, LONG)
    partial = interrupt(box, LONG, 20)
    if (box.folder / "rows").exists():
        yield "was not interrupted"
        return
    partial.write_bytes(partial.read_bytes()[:-40])  # as a power cut leaves it
    answer = box.run(LONG + "-o rows")
    if "continues behind" not in answer.err:
        yield f"begins anew: {answer.err}"
    if answer.status or (box.folder / "rows").read_text() != whole:
        yield "other bytes than without interruption"
    if partial.exists():
        yield "the partial file stays"
    box.write("points.csv", 'param-device,batch\n"cpu:1GB,gpu",1\n gpu ,"2"\r\n"gpu:1GB,cpu",\n')
    line = "sweep -m gpt2-xl -H dgx2 -s zero-infinity-cpu --points points.csv --over seq=512,1024 "
    swept(box, line + "--shard 1/1 -o quoted.partial")  # the same file
    answer = box.run(line + "-o quoted")
    if "behind 6 of 6" not in answer.err:
        yield f"rows with commas are lost: {answer.err}"
    if (box.folder / "quoted").read_text() != swept(box, line):
        yield "rows with commas differ"


def check_held(box):
    partial = interrupt(box, LONG, 5)
    for other, words in (("--outlook low ", ["rows.partial", "another version", "delete it"]),
                         ("--closed-form ", ["rows.partial"])):
        before = partial.read_bytes()
        yield from refused(box.run(LONG + other + "-o rows"), words)
        if partial.read_bytes() != before:
            yield f"{other}: the rows of the other sweep are lost"
    own = "sweep -m gpt2-xl -H own.ini -s zero3 --over batch=1,2 -o own"
    box.write("own.ini", "[profile]\ninherits = dgx2\n")
    swept(box, own + ".partial --shard 1/1")  # the same file
    rows = (box.folder / "own.partial").read_bytes()
    box.write("own.ini", "[profile]\ninherits = dgx2\n[gpu]\nmemory_gib = 8\n")
    yield from refused(box.run(own), ["own.partial", "other points or settings"])
    if (box.folder / "own.partial").read_bytes() != rows:
        yield "rows of another machine are lost"
    box.write("mine.partial", "not a sweep's")
    yield from refused(box.run(SWEEP + "-o mine"), ["mine.partial", "no file of an interrupted"])
    if (box.folder / "mine.partial").read_text() != "not a sweep's":
        yield "another file was overwritten"


def check_shards(box):
    for i in (1, 2):
        swept(box, SWEEP + f"--shard {i}/2 -o s{i}")
    swept(box, SWEEP + "--seq 512 --shard 2/2 -o other")
    box.write("cut", (box.folder / "s2").read_bytes()[:-100])
    box.write("text", "over.batch,error\n1,\n")
    for line, words in {"s1": ["shard 2/2", "missing"],
                        "s1 s1": ["shard 1/2", "s1"],
                        "s1 other": ["other", "another sweep"],
                        "s1 cut": ["cut", "7 of 8 rows"],
                        "text": ["text", "rows of a shard"],
                        "s1 absent": ["absent"],
                        "": ["files of the shards"]}.items():
        yield from refused(box.run(f"sweep --merge {line} -o merged"), words)
    if (box.folder / "merged").exists():
        yield "a refused merge wrote its file"


def check_closed(box):
    line = "-m gpt3-13b -H dgx2 -s zero3 --tokens 1B "
    answer = box.run(f"sweep {line} --over nodes=1..40 --over batch=1..10 --closed-form")
    rows = rows_of(answer.out.decode())
    simulated = [row for row in rows if row["engine_step_time_s"]]
    fitting = [row for row in rows if row["feasible"] == "true"]
    if not 250 <= len(simulated) <= 250 + len(fitting) // 4 or len(fitting) == len(simulated):
        yield f"{len(simulated)} of {len(fitting)} rows are checked"
    if "apart in the median" not in answer.err:
        yield answer.err
    cost, front = float("inf"), 0
    for row in sorted(fitting, key=lambda row: (float(row["step_time_s"]), float(row["cost_usd"]))):
        if float(row["cost_usd"]) < cost:
            cost, front = float(row["cost_usd"]), front + 1
            if not row["engine_step_time_s"]:
                yield f"a row of the front is not checked: {row}"
    if front < 3 or f"the front's {front} and" not in answer.err:
        yield f"{front} rows are on the front: {answer.err}"
    for row in simulated[::100]:
        alone = box.run(f"simulate {line} --csv --nodes {row['over.nodes']} --batch "
                        f"{row['over.batch']} --activation-checkpoint-interval "
                        f"{row['checkpoint_interval']}").out.decode()
        step_s = float(rows_of(alone)[0]["step_time_s"])
        if abs(float(row["engine_step_time_s"]) / step_s - 1) > 1e-9:
            yield f"{row['engine_step_time_s']}: simulate has {step_s}"


def check_json(box):
    line = SWEEP + "--over 'param-device=gpu;cpu:1GB,gpu' "
    table = rows_of(swept(box, line))
    answer = json.loads(swept(box, line + "--json"))
    if len(answer["rows"]) != len(table):
        yield f"{len(answer['rows'])} rows; the CSV has {len(table)}"
    for one, row in zip(answer["rows"], table):
        flat = {**{"over." + k: v for k, v in one["over"].items()}, **one}
        for name, cell in row.items():
            value = flat[name]
            same = (value is None if cell == "" else cell == value if isinstance(value, str)
                    else float({"true": 1, "false": 0}.get(cell, cell)) == value)
            if not same:
                yield f"{name}: {value!r} is {cell!r} in the CSV"


def check_plot(box):
    if not shutil.which("gnuplot"):
        yield Skip("no gnuplot")
        return
    swept(box, SWEEP + "-o rows --plot lines:l.svg --plot heat:h.svg --plot pareto:p.png")
    lines = (box.folder / "l.svg").read_text()
    if "nodes=3" not in lines or "tokens per second" not in lines:
        yield "the lines lack their names"
    if "batch" not in (box.folder / "h.svg").read_text():
        yield "the heat map lacks its axes"
    if not (box.folder / "p.png").read_bytes().startswith(b"\x89PNG"):
        yield "the front is no PNG"
    answer = box.run("sweep -m gpt2-xl -H flat-test -s zero3,ddp -o one --plot lines:x.svg")
    yield from refused_later(answer, ["x.svg", "axes of numbers"])
    if not (box.folder / "one").exists():
        yield "rows are lost because they cannot be drawn"


def refused_later(answer, words):
    """After the rows, which stderr counts."""
    if answer.status != 2:
        yield f"status {answer.status}"
    for word in words:
        if word not in answer.err.strip().splitlines()[-1]:
            yield f"{word!r} is not in: {answer.err}"


def check_refused(box):
    box.write("bad.csv", "batch,speed\n1,2\n")
    box.write("short.csv", "batch,seq\n1\n")
    box.write("empty.csv", "batch,seq\n")
    base = "sweep -m gpt2-xl -H flat-test -o rows "
    asked = {
        "": ["--over KEY=VALUE"],
        "--over batch": ["--over: batch: must be KEY=VALUE"],
        "--over batch=": ["--over: batch=: must be KEY=VALUE"],
        "--over batch=1,,2": ["batch has an empty value"],
        "--over batch=4..1": ["4..1: the range is empty"],
        "--over batch=1..4:0": ["1..4:0", "step must be above 0"],
        "--over batch=1..4:x1": ["1..4:x1", "factor must be above 1"],
        "--over batch=1..4:y": ["1..4:y", "LO..HI:STEP"],
        "--over batch=1,x": ["--batch x", "whole number"],
        "--over batch=1,1": ["batch has 1 twice"],
        "--over batch=1 --over batch=2": ["batch is named twice"],
        "--over batch=1 --batch 2": ["batch is swept, and set"],
        "--over gpu.memory_gib=1 --set gpu.memory_gib=2": ["gpu.memory_gib is swept, and set"],
        "--over bach=1": ["bach", "did you mean batch?"],
        "--over gpu.memory=1": ["gpu.memory", "did you mean", "gpu.memory_gib"],
        "--over gpu.memory_gib=-1": ["--set gpu.memory_gib"],
        "--over model=gpt2-xl,gpt2": ["model is swept, and set"],
        "--over serve=1": ["serve cannot be swept"],
        "--over batch=1..4000 --over seq=1..4000": ["more than 10000000 points"],
        "--points bad.csv": ["bad.csv, line 1", "speed"],
        "--points short.csv": ["short.csv, line 2", "1 values"],
        "--points empty.csv": ["empty.csv", "no points"],
        "--points absent.csv": ["absent.csv"],
        "--over batch=1 --shard 0/2": ["--shard 0/2"],
        "--over batch=1,2 --shard 3/3": ["--shard 3/3", "2 points"],
        "--over batch=1,2 --shard 1/2 --json": ["--shard", "--json"],
        "--over batch=1 --threads 0": ["--threads 0"],
        "--over batch=1 --plot pie:x.svg": ["--plot pie:x.svg", "lines:FILE"],
        "--over batch=1 --plot lines:x.gif": ["x.gif", ".png or .svg"],
        "--over batch=1 --serve 1": ["--serve"],
    }
    for line, words in asked.items():
        yield from refused(box.run(base + line), words)
    yield from refused(box.run("sweep -H flat-test --over model=gpt2-xl,gpt5 -o rows"), ["gpt5"])
    yield from refused(box.run("sweep -m gpt2-xl -H flat-test,v10 --over batch=1"), ["v10"])
    yield from refused(box.run("sweep --over batch=1"), ["-m MODEL is missing"])
    if list(box.folder.glob("rows*")):
        yield f"written: {sorted(os.listdir(box.folder))}"


def tests(box):
    for name, check in (("order", check_order), ("row", check_row), ("same", check_same),
                        ("resume", check_resume), ("held", check_held), ("shards", check_shards),
                        ("closed", check_closed), ("json", check_json), ("plot", check_plot),
                        ("refused", check_refused)):
        folder = box.folder / name
        folder.mkdir()
        yield name, check(Box(folder))


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
