#!/usr/bin/env python3
"""Draws the configurations of this experiment from their grid, by a fixed seed, into
configurations.csv.  That was done once, before anything was measured; running it again gives the
same file.

Links and drives of a machine without a GPU are seldom what binds a step, so some are drawn with a
rate limit on their lanes (`memwall run --limit`), which is part of the configuration.
"""
import csv
import itertools
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20261121

PLACEMENTS = ("gpu", "offload", "cpu", "nvme-state", "nvme", "split")
GRID = {
    "batch": (1, 2, 4),
    "seq": (64, 128, 256),
    "prefetch": (0, 1, 2, 3),
    "tiles": (1, 2, 4),
    "loads": (2, 3),
    "ranks": (1, 2),
}
# How many of each, and the placements that the limit can bind.
SHARES = (
    ("none", 8, PLACEMENTS),
    ("drives", 10, ("nvme-state", "nvme", "split")),
    ("copies", 6, ("offload", "cpu", "nvme")),
)


def main():
    draw = random.Random(SEED)
    rows = []
    for limit, count, placements in SHARES:
        grid = list(itertools.product(placements, *GRID.values()))
        for values in draw.sample(grid, count):
            rows.append(dict(zip(("placement", *GRID), values), limit=limit))
    with open(HERE / "configurations.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("number", "placement", *GRID, "limit"),
                                lineterminator="\n")
        writer.writeheader()
        for number, row in enumerate(rows, 1):
            writer.writerow({"number": number, **row})


if __name__ == "__main__":
    main()
