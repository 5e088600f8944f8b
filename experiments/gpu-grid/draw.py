#!/usr/bin/env python3
"""Draws the configurations of this experiment by a fixed seed into configurations.csv.  That was
done once, before anything was measured; running it again gives the same file.

Each share of the list has its models, and each of these gets a placement, a batch and so on from
the grid.  `arena_gib`, where there is one, limits the GPU's memory to half of the model's state, at
16 bytes a parameter, and to 20 GiB, so that on any GPU the state exceeds it.  Rows are in the order
of the models' sizes: what the time does not suffice for are the largest.
"""
import csv
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20261121

# Parameters in billions, and steps of a run: the first and those of which the median is taken.
MODELS = {"gpt2": (0.124, 6), "gpt2-medium": (0.355, 4), "gpt2-large": (0.774, 3),
          "gpt2-xl": (1.56, 3), "gpt3-2.7b": (2.65, 3), "gpt3-6.7b": (6.66, 3),
          "gpt3-13b": (12.9, 3)}
STATE_BYTES = 16
ARENA_GIB_MAX = 20
# Share, its placements, its batches, its models; what it is meant to be bound by: compute, the
# host's update and PCIe, the drives.  "all": the GPU, the host and the drives hold a part each.
SHARES = (
    ("resident", ("gpu",), (4, 8, 16), ("gpt2", "gpt2-large", "gpt2-xl")),
    ("host", ("offload", "cpu"), (1, 2, 4), ("gpt2", "gpt2-xl", "gpt3-2.7b", "gpt3-6.7b")),
    ("drives", ("nvme-state", "nvme", "split"), (1, 2, 4),
     ("gpt2", "gpt2", "gpt2", "gpt2-medium", "gpt2-medium", "gpt2-large", "gpt2-xl")),
    ("largest", ("all",), (1,), ("gpt3-13b",)),
)
GRID = {"prefetch": (0, 1, 2, 3), "loads": (2, 3)}


def arena_gib(share, model):
    if share in ("resident", "largest"):
        return ""
    return f"{min(ARENA_GIB_MAX, MODELS[model][0] * 1e9 * STATE_BYTES / 2 / 2**30):.1f}"


def drawn(draw):
    for share, placements, batches, models in SHARES:
        for model in models:
            yield {"share": share, "model": model, "placement": draw.choice(placements),
                   "batch": draw.choice(batches),
                   **{key: draw.choice(values) for key, values in GRID.items()},
                   "arena_gib": arena_gib(share, model), "steps": MODELS[model][1]}


def main():
    rows = sorted(drawn(random.Random(SEED)), key=lambda row: MODELS[row["model"]][0])
    with open(HERE / "configurations.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("number", *rows[0]), lineterminator="\n")
        writer.writeheader()
        for number, row in enumerate(rows, 1):
            writer.writerow({"number": number, **row})


if __name__ == "__main__":
    main()
