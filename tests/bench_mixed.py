#!/usr/bin/env python3
"""Reads and writes at once, predicted and measured by fio: bench_mixed.py [DIRECTORY] [SECONDS].

For each block size and depth, fio measures random reads alone, random writes alone, and both at
once.  Two rules then predict mixes that were not measured for them, in which one direction is
limited to half of what it had:

  lines   docs/MODEL.md 7.12a, from both rates at once
  duplex  docs/MODEL.md 7.12, from their sum

Printed are GB/s, and predictions as parts of what fio then measures.  Two files of 256 MiB each in
DIRECTORY are removed at the end.  Without fio it says so, with status 77."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

SIZE_MIB = 256
CASES = [("4k", 32), ("128k", 16), ("1m", 4), ("1m", 32)]


def job(name, way, block, depth, limit):
    """Of fio: a thread that reads or writes a file of its own at random."""
    rate = [f"rate={int(limit * 1e9)}"] if limit else []
    return [f"[{name}]", f"rw=rand{way}", f"bs={block}", f"iodepth={depth}", f"filename={name}",
            *rate]


def measure(folder, seconds, jobs):
    """GB/s of reads and of writes."""
    lines = ["[global]", "ioengine=libaio", "direct=1", f"size={SIZE_MIB}m", "time_based=1",
             f"runtime={seconds}", "ramp_time=0.5", "allow_file_create=1", "norandommap=1"]
    for one in jobs:
        lines += one
    path = os.path.join(folder, "jobs.fio")
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    done = subprocess.run(["fio", "--output-format=json", path], cwd=folder, check=True,
                          stdout=subprocess.PIPE)
    text = done.stdout.decode()
    answer = json.loads(text[text.index("{"):])
    return tuple(sum(j[way]["bw_bytes"] for j in answer["jobs"]) / 1e9 for way in ("read", "write"))


def by_lines(x, y, r=None, w=None):
    """The part of one direction, where the other is held at r or w: below both lines."""
    if w is not None:
        return min(1 - w * (1 - x) / y, x * (1 - w) / (1 - y) if y < 1 else 1)
    return min(1 - r * (1 - y) / x, y * (1 - r) / (1 - x) if x < 1 else 1)


def by_duplex(x, y, held):
    return min(1, min(max(x + y, 1), 2) - held)


def row(name, predicted, measured):
    parts = " ".join(f"{what} {value / measured:5.2f}" for what, value in predicted)
    print(f"    {name:32s} {measured:6.3f} GB/s   {parts}")


def compare(folder, seconds, block, depth):
    def fio(read, write):
        jobs = []
        if read is not None:
            jobs.append(job("reads", "read", block, depth, read))
        if write is not None:
            jobs.append(job("writes", "write", block, depth, write))
        return measure(folder, seconds, jobs)

    alone = fio(0, None)[0], fio(None, 0)[1]
    both = fio(0, 0)
    x, y = (min(1, b / a) for a, b in zip(alone, both))
    print(f"{block} at depth {depth}: reads {alone[0]:.3f} GB/s alone, {both[0]:.3f} beside writes "
          f"({x:.2f}); writes {alone[1]:.3f} and {both[1]:.3f} ({y:.2f})")
    if x + y < 1:  # as sim/cost.c does
        x, y = x / (x + y), y / (x + y)
    again = fio(0, 0)
    half = min(max(x + y, 1), 2) / 2
    row("reads, both once more", [("lines", x * alone[0]), ("duplex", half * alone[0])], again[0])
    row("writes, both once more", [("lines", y * alone[1]), ("duplex", half * alone[1])], again[1])
    slow = fio(0, both[1] / 2)
    held = slow[1] / alone[1]
    row("reads beside half the writes", [("lines", by_lines(x, y, w=held) * alone[0]),
                                         ("duplex", by_duplex(x, y, held) * alone[0])], slow[0])
    slow = fio(both[0] / 2, 0)
    held = slow[0] / alone[0]
    row("writes beside half the reads", [("lines", by_lines(x, y, r=held) * alone[1]),
                                         ("duplex", by_duplex(x, y, held) * alone[1])], slow[1])


def main():
    if not shutil.which("fio"):
        print("bench_mixed.py: fio is not installed (Debian: fio)")
        return 77
    parent = sys.argv[1] if len(sys.argv) > 1 else "."
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 4
    with tempfile.TemporaryDirectory(prefix="memwall-mixed-", dir=parent) as folder:
        for case in CASES:
            compare(folder, seconds, *case)
    return 0


if __name__ == "__main__":
    sys.exit(main())
