#!/usr/bin/env python3
"""Collectives by our formulas against the measured points of collectives.csv.

    rates/check_collectives.py [--points] [GROUP.KEY=VALUE...]

Needs build/tests/collective_times (or $COLLECTIVE_TIMES), which asks hardware/ring.h, that is, what
plans are costed by.  A point's error is predicted over measured time.  Printed are, by machine,
operation, nodes and size, the number of points, the median of |log2| of the error as a factor, the
median error and the two ends.  --points prints each point.  Assignments change every profile, as
--set does.

Left out are constants, points without a size that the source states (they have a bus bandwidth:
taken as 8 GiB where it is of a large message), forced algorithms, unhealthy networks, and machines
without a profile."""
import csv
import os
import pathlib
import statistics
import subprocess
import sys
from math import log2

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIMES = os.environ.get("COLLECTIVE_TIMES", ROOT / "build/tests/collective_times")
LARGE = 8 << 30

# GPU and words of its network: the profile.  The first that matches counts.
PROFILES = [
    ("A100-80GB-SXM", "p4de", "aws-p4de-24xlarge"),
    ("A100-80GB-SXM", "RoCE", None),  # 8 x 100 Gb/s behind PCIe: no such profile
    ("A100-SXM", "", "dgx-a100"),
    ("H100-80GB-SXM", "unhealthy", None),
    ("H100-80GB-SXM", "old plugin", None),
    ("H100-80GB-SXM", "p5.48xlarge", "aws-p5-48xlarge"),
    ("H100-80GB-SXM", "", "dgx-h100"),
    ("H200-SXM", "p5en", "aws-p5en-48xlarge"),
    ("H200-SXM", "", "hgx-h200"),
    ("B200-SXM", "p6-b200", "aws-p6-b200-48xlarge"),
    ("B200-SXM", "", "dgx-b200"),
    ("GB300", "NVLink5", "dgx-b200"),  # of the same links, four GPUs a node
]
FORCED = ("NCCL_ALGO", "algo Ring", "NVLS off", "NVLSTree", "NCCL_MAX", "one adapter",
          "copy engine", "one GPU a node", "NVLink4 Ring")
SIZES = [(1 << 16, "to 64 KiB"), (1 << 20, "to 1 MiB"), (1 << 24, "to 16 MiB"),
         (1 << 28, "to 256 MiB"), (1 << 62, "above")]


def profile_of(row):
    where = f"{row['link']} {row['network']}"
    if any(word in where or word in row["op"] for word in FORCED):
        return None
    for gpu, words, profile in PROFILES:
        if row["gpu"] == gpu and words in where:
            return profile
    return None


def passes(row):
    return 2 if row["op"] == "all_reduce" else 1


def measured_us(row, size):
    """By the time, else by the bus bandwidth: nccl-tests counts what a ring's link passes."""
    if row["time_us"]:
        return float(row["time_us"])
    bus = float(row["busbw_gb_s"] or 0)
    ranks = int(row["ranks"])
    if bus < 0.1:  # rounded to nothing
        return 0
    return passes(row) * size * (ranks - 1) / ranks / bus / 1e3


def points():
    with open(ROOT / "rates/collectives.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            profile = profile_of(row)
            if not profile or not row["ranks"].isdigit() or "(" in row["op"]:
                continue
            size = int(row["bytes"] or LARGE)
            took = measured_us(row, size)
            if took > 0:
                yield profile, row, size, took


def predict(asked, assignments):
    lines = "".join(f"{profile} {row['op']} {size} {row['ranks']} "
                    f"{int(row['ranks']) // int(row['nodes'])}\n"
                    for profile, row, size, _ in asked)
    done = subprocess.run([str(TIMES), *assignments], input=lines, stdout=subprocess.PIPE,
                          text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def name_of_size(size):
    return next(name for most, name in SIZES if size <= most)


def print_group(name, errors):
    middle = statistics.median(errors)
    off = 2 ** statistics.median(abs(log2(e)) for e in errors)
    print(f"{name:52s} {len(errors):4d}  off by {off:5.2f}  median {middle:5.2f}  "
          f"{min(errors):5.2f} to {max(errors):5.2f}")


def main():
    arguments = sys.argv[1:]
    each = "--points" in arguments
    assignments = [a for a in arguments if a != "--points"]
    asked = list(points())
    groups, everything = {}, []
    for (profile, row, size, took), predicted in zip(asked, predict(asked, assignments)):
        error = predicted / took
        if each:
            print(f"{profile:22s} {row['op']:15s} {row['nodes']:>3s} nodes {size:12d} B "
                  f"{took:10.1f} us  {error:5.2f}")
        key = f"{profile}, {row['op']}, {row['nodes']} nodes, {name_of_size(size)}"
        groups.setdefault(key, []).append(error)
        everything.append(error)
    for key, errors in groups.items():
        print_group(key, errors)
    print_group("all", everything)


if __name__ == "__main__":
    main()
