#!/usr/bin/env python3
"""Draws the configurations of this experiment from their grids, by a fixed seed, into
configurations.csv.  That was done once, before anything was measured; running it again gives the
same file."""
import csv
import itertools
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
SEED, EACH = 20261129, 10
KEYS = ("kind", "placement", "schedule", "batch", "micro_batches", "seq")
# batch: sequences of a micro-batch of both ranks together.
GRIDS = (
    (("slices",), ("gpu", "offload", "nvme-state"), ("",), (2, 4, 8), (1, 2), (64, 128, 256)),
    (("stages",), ("gpu",), ("1f1b", "gpipe"), (1, 2, 4), (2, 4, 8), (64, 128, 256)),
    (("experts",), ("gpu", "offload", "nvme-state"), ("",), (2, 4, 8), (1, 2), (64, 128, 256)),
)


def main():
    draw = random.Random(SEED)
    rows = [dict(zip(KEYS, values)) for grid in GRIDS
            for values in draw.sample(list(itertools.product(*grid)), EACH)]
    with open(HERE / "configurations.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("number", *KEYS), lineterminator="\n")
        writer.writeheader()
        for number, row in enumerate(rows, 1):
            writer.writerow({"number": number, **row})


if __name__ == "__main__":
    main()
