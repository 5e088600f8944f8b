#!/usr/bin/python3
"""memwall sweep, typed in; prints TAP.

order    the points of a grid, the last axis fastest; ranges, lists, and a file of points.
row      a row has the figures that simulate has for the point; one that is refused says why.
same     any number of threads and of ranks, and the files of shards together: the same bytes.
resume   killed half-way, cut within a row and continued: the same bytes.
held     what is beside the output and of another sweep, or no sweep's, stays as it is.
files    nothing that is read or written is replaced by another output.
shards   files of shards that are cut, changed, missing, named twice or of another sweep are
         refused.
closed   the engine checks the front and rows drawn, of which those of the same plan as simulate's
         have its step time; the others have none.
merged   shards of estimated rows: the engine checks the whole when they are merged, and the bytes
         are those of one sweep; by other files than the shards' it refuses.
measured plans are run too: what they took stands beside what was predicted; a run that fails, or
         takes too long, is its point's error.
ended    a run ends with its sweep, however that ends, and leaves no row.
json     JSON has the rows of the CSV.
columns  those that are named, in that order.
plot     pictures are drawn, of what can be drawn.
refused  bad input is one line, and nothing is written.

The command is $MEMWALL, or build/cli/memwall.
"""
import csv
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

from command import FEW, MEMWALL, Box, refused
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
        other = {k for k in alone if row[k] != alone[k]}
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


def check_changed(box, whole):
    """A row that is not as it was written is computed again, and those behind it."""
    partial = interrupt(box, LONG, 9)
    lines = partial.read_bytes().split(b"\n")
    digit = lines[6].index(b"e+") - 1 if b"e+" in lines[6] else lines[6].rindex(b",") - 1
    lines[6] = lines[6][:digit] + b"7" + lines[6][digit + 1:]
    partial.write_bytes(b"\n".join(lines))
    answer = box.run(LONG + "-o rows")
    if "continues behind 4 of" not in answer.err:
        yield f"a changed row: {answer.err}"
    if answer.status or (box.folder / "rows").read_text() != whole:
        yield "a changed row is kept"


def check_columns(box):
    rows = rows_of(swept(box, SWEEP))
    for more in ("", "--shard 1/1 -o shard"):
        line = "--columns step_time_s,batch,over,strategy"
        if more:
            swept(box, SWEEP + more)
        text = swept(box, f"sweep --merge shard {line}" if more else SWEEP + line)
        chosen = rows_of(text)
        if text.splitlines()[0] != "step_time_s,over.batch,over.nodes,strategy" or \
                len(chosen) != len(rows) or \
                any(row[name] != one[name] for one, row in zip(chosen, rows) for name in one):
            yield f"{more}: {text[:200]}"
    answer = json.loads(swept(box, SWEEP + "--columns over,error --json"))
    if [set(row) for row in answer["rows"]] != [{"over", "error"}] * len(rows):
        yield f"JSON: {answer['rows'][:1]}"
    for line, words in ((SWEEP + "--columns step_tim_s", ["step_tim_s", "step_time_s"]),
                        (SWEEP + "--columns ''", ["--columns"]),
                        ("sweep --merge shard --columns x1", ["x1"]),
                        (SWEEP + "--shard 1/2 -o part --columns error", ["--columns", "--merge"])):
        yield from refused(box.run(shlex.split(line)), words)


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
    yield from check_changed(box, whole)
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


    (box.folder / "mine.partial").unlink()
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("absent", path)):
        make(box.folder / "mine.partial")
        yield from refused(box.run(SWEEP + "-o mine"), ["mine.partial", "no plain file"])
        if os.path.isdir(box.folder / "mine.partial"):
            os.rmdir(box.folder / "mine.partial")
        else:
            os.unlink(box.folder / "mine.partial")


def check_files(box):
    """No output, nor a picture, replaces what the sweep reads, or another of its outputs."""
    swept(box, SWEEP + "--shard 1/2 -o s1.svg")
    swept(box, SWEEP + "--shard 2/2 -o s2")
    box.write("text.txt", "All happy families are alike. ")
    box.write("points.svg", "batch\n1\n2\n")
    box.write("own.ini", "[profile]\ninherits = dgx2\n")
    os.link(box.folder / "text.txt", box.folder / "same.svg")
    before = {path.name: path.read_bytes() for path in box.folder.iterdir()}
    one = "sweep -m gpt2-xl -s zero3 "
    for line, words in {
            "sweep --merge s1.svg s2 -o s2": ["-o s2", "--merge reads"],
            "sweep --merge s1.svg s2 --plot lines:s1.svg": ["s1.svg", "--merge reads"],
            one + "-H dgx2 --points points.svg --plot lines:points.svg": ["--points reads"],
            one + "-H dgx2,own.ini -o own.ini": ["own.ini", "reads that file"],
            TINY + "--over batch=1 -o text.txt --measure '--data text.txt'": ["--measure reads"],
            TINY + "--over batch=1,2 --measure --data=text.txt --plot lines:same.svg":
                ["same.svg", "--measure reads"],
            SWEEP + "-o x.svg --plot lines:x.svg": ["x.svg", "-o writes"],
            SWEEP + "--plot lines:x.svg --plot heat:./x.svg": ["x.svg", "--plot writes"],
            SWEEP + "--plot pareto:nodir/a.svg": ["nodir"]}.items():
        yield from refused(box.run(line), words)
    if {path.name: path.read_bytes() for path in box.folder.iterdir()} != before:
        yield f"files were written: {sorted(os.listdir(box.folder))}"


def check_shards(box):
    for i in (1, 2):
        swept(box, SWEEP + f"--shard {i}/2 -o s{i}")
    swept(box, SWEEP + "--seq 512 --shard 2/2 -o other")
    box.write("cut", (box.folder / "s2").read_bytes()[:-100])
    box.write("text", "over.batch,error\n1,\n")
    lines = (box.folder / "s2").read_bytes().splitlines(keepends=True)
    box.write("swapped", b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    box.write("twice", b"".join([*lines[:3], lines[2], *lines[4:]]))
    box.write("cells", b"".join([*lines[:3], lines[3].replace(b",", b",,", 1), *lines[4:]]))
    box.write("escape", b"".join([*lines[:3], b"\x1b\xff" + lines[3], *lines[4:]]))
    box.write("endless", b"".join(lines[:-1]))
    swept(box, SWEEP + "--closed-form --shard 1/2 -o closed")
    for line, words in {"s1": ["shard 2/2", "missing"],
                        "s1 s1": ["shard 1/2", "s1"],
                        "s1 other": ["other", "another sweep"],
                        "s1 cut": ["cut", "7 of 8 rows"],
                        "text": ["text", "rows of a shard"],
                        "s1 absent": ["absent"],
                        "closed s2": ["s2", "another sweep than closed"],
                        "s2 closed": ["closed", "another sweep than s2"],
                        **{f"s1 {it}": [it, "changed or cut"]
                           for it in ("swapped", "twice", "cells", "escape", "endless")},
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
        # The row does not say how many layers are recomputed: as few as fit, or all.
        asked = f"simulate {line} --csv --nodes {row['over.nodes']} --batch {row['over.batch']} " \
                f"--activation-checkpoint-interval {row['checkpoint_interval']}"
        found = [rows_of(box.run(f"{asked} {layers}").out.decode())
                 for layers in ("", "--recompute-layers fewest")]
        steps = [float(rows[0]["step_time_s"]) for rows in found if rows]
        if all(abs(float(row["engine_step_time_s"]) / step_s - 1) > 1e-9 for step_s in steps):
            yield f"{row['engine_step_time_s']}: simulate has {steps}"


def check_merged(box):
    box.write("own.ini", "[profile]\ninherits = dgx2\n")
    nodes = 12 if FEW else 40  # more points than are drawn
    line = (f"sweep -m gpt3-13b -H own.ini -s zero3 --tokens 1B --over nodes=1..{nodes} "
            "--over batch=1..8 --closed-form ")
    whole = box.run(line + "--plot pareto:front.svg -o whole")
    for i in (1, 2, 3):
        box.run(line + f"--threads {i} --shard {i}/3 -o 'part {i}'")
    if any(row["engine_step_time_s"] for row in rows_of(
            (box.folder / "part 2").read_text().split("\n", 1)[1])):
        yield "a shard was checked, whose rows are not all"
    answer = box.run("sweep --merge 'part 3' 'part 1' 'part 2' -o merged --plot pareto:other.svg")
    if (box.folder / "merged").read_text() != (box.folder / "whole").read_text():
        yield f"merged shards make other bytes: {answer.err}"
    if answer.err.splitlines()[-1] != whole.err.splitlines()[-1]:
        yield f"{answer.err}\nis not {whole.err}"
    if shutil.which("gnuplot") and not (box.folder / "other.svg").exists():
        yield "merging draws nothing"
    box.write("own.ini", "[profile]\ninherits = dgx2\n[network]\ngb_per_s = 1\n")
    yield from refused(box.run("sweep --merge 'part 1' 'part 2' 'part 3' -o again"),
                       ["part 1", "another version, or of other files"])
    if (box.folder / "again").exists():
        yield "a refused merge wrote its file"


TINY = ("sweep -m layers=2,hidden=64,heads=2,vocab=512,seq=64 -H flat-test --set host.memory_gib=8 "
        "-s zero3 ")
RUNS = "--measure '--data text --backend cpu --steps {steps}' "


def check_measured(box):
    box.write("text", "All happy families are alike. " * 100)
    draws = shutil.which("gnuplot")
    line = TINY + "--over batch=1,2 --over seq=64,4096 --tokens 1B --threads 3 "
    answer = box.run(line + RUNS.format(steps=4) + "-o rows" +
                     (" --plot measured:m.svg" if draws else ""))
    rows = rows_of((box.folder / "rows").read_text())
    for row, again in zip(rows, rows_of(swept(box, line + "--gpus 1 --software memwall"))):
        if {k: v for k, v in row.items() if not k.startswith("measured_")} != again:
            yield f"another prediction than without runs: {row}, {again}"
        if row["error"]:
            if row["measured_steps"] or row["over.seq"] != "4096":
                yield f"{row}"
            continue
        step_s = float(row["measured_step_time_s"])
        tokens = float(row["over.batch"]) * 64
        if not (float(row["measured_step_time_s_low"]) <= step_s
                <= float(row["measured_step_time_s_high"]) and row["measured_steps"] == "3"):
            yield f"{row}"
        if abs(float(row["measured_tokens_per_s"]) * step_s / tokens - 1) > 1e-6:
            yield f"{tokens} tokens in {step_s} s are not {row['measured_tokens_per_s']} per second"
        if abs(float(row["measured_of_predicted"]) * step_s / float(row["step_time_s"]) - 1) > 1e-6:
            yield f"{row['measured_of_predicted']}: of {row['step_time_s']} s"
    if "4 points: 2 fit, 0 do not, 2 are refused" not in answer.err:
        yield answer.err
    if draws and "in the median of 2" not in (box.folder / "m.svg").read_text():
        yield "the picture does not say how far the two points are apart"
    answer = box.run(TINY + "--over batch=1 --json --measure-limit 1 " + RUNS.format(steps=10**9))
    [row] = json.loads(answer.out)["rows"]
    if "was ended after 1.00 s" not in row["error"] or row["measured_step_time_s"] is not None:
        yield f"a run without an end: {row}"
    for options, word in {"--data absent --steps 2": "run: absent: ",
                          "--data text --closed": "--closed"}.items():
        yield from refused(box.run(TINY + f"--over batch=4096,1 -o bad --measure '{options}'"),
                           [word])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # which the command is started with
    answer = box.run(TINY + "--over batch=4096,1 -o bad --measure '--data absent --steps 2'")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if "run: absent: " not in answer.err:  # the status is lost to this process too
        yield f"a run without data: {answer.err}"
    for more, words in {
            "--measure '--steps 4 --json'": ["leave out --json"],
            "--measure \"--data 'text\"": ["--measure: must be options of memwall run"],
            "--measure '--data text --batch 3'": ["--batch is of the sweep"],
            "--measure '--data text' --closed-form": ["leave out --closed-form"],
            "--measure '--data text' --software ideal": ["leave out --software"],
            "--measure '--data text' --over software=ideal": ["does not take software"],
            "--measure '--data text' --measure-limit 0": ["--measure-limit 0"],
            "--measure-limit 5": ["--measure-limit"]}.items():
        yield from refused(box.run(TINY + "--over batch=1 -o bad " + more), words)
    if list(box.folder.glob("bad*")):
        yield f"written: {sorted(os.listdir(box.folder))}"
    if has_ranks():
        answer = box.run(TINY + "--over batch=1 " + RUNS.format(steps=2), prefix=[*MPIRUN, "2"],
                         **RANKS_ENVIRONMENT)
        if answer.err.count("without mpirun") != 1 or answer.status != 2:
            yield f"status {answer.status} of two ranks: {answer.err}"


def children_of(process):
    """Their numbers, of all threads."""
    found = []
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children", encoding="ascii") as file:
            found += [int(number) for number in file.read().split()]
    return found


def is_there(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def check_ended(box):
    box.write("text", "All happy families are alike. " * 100)
    line = TINY + "--over batch=1,2 -o rows --measure "
    long = "'--data text --backend cpu --steps 1000000000'"
    for number in (signal.SIGINT, signal.SIGKILL):
        with subprocess.Popen([str(MEMWALL), *shlex.split(line + long)], cwd=box.folder,
                              env=box.environment, stdin=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as sweep:
            runs, end = [], time.monotonic() + 60
            while not runs and time.monotonic() < end:
                runs = children_of(sweep.pid)
                time.sleep(0.01)
            time.sleep(0.3)  # it is in its first steps
            sweep.send_signal(number)
        end = time.monotonic() + 60
        while any(is_there(run) for run in runs) and time.monotonic() < end:
            time.sleep(0.05)
        if not runs or any(is_there(run) for run in runs):
            yield f"signal {number}: the run {runs} goes on"
    rows = (box.folder / "rows.partial").read_text().count("\n") - 2
    if rows:
        yield f"{rows} rows of runs that did not end"


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
    for plots in ("lines", "heat", "measured"):
        yield from refused(box.run(f"sweep -m gpt2-xl -H dgx2 -s zero3,ddp -o early "
                                   f"--plot {plots}:x.svg"),
                           ["x.svg", "measured" if plots == "measured" else "axes of numbers"])
    if list(box.folder.glob("early*")):
        yield "a picture that cannot be drawn is refused only after the rows"
    answer = box.run("sweep -m gpt2-xl -H dgx2 -s zero3 --over batch=4096 -o one "
                     "--plot pareto:x.svg")
    yield from refused_later(answer, ["x.svg", "no point fits"])
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
                        ("resume", check_resume), ("held", check_held),
                        ("files", check_files), ("shards", check_shards),
                        ("closed", check_closed), ("merged", check_merged),
                        ("measured", check_measured), ("ended", check_ended), ("json", check_json),
                        ("columns", check_columns),
                        ("plot", check_plot), ("refused", check_refused)):
        folder = box.folder / name
        folder.mkdir()
        yield name, check(Box(folder))


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
