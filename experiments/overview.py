"""The errors of all experiments on published speeds in one table, for docs/accuracy.md:
python3 experiments/overview.py prints it, from their result.csv."""

import pathlib
import statistics

import common

HERE = pathlib.Path(__file__).resolve().parent

# What, the experiment, the rows that count, and the median error that the project is out for
# (None: no aim is set).
ROWS = [
    ("ZeRO-Infinity Fig. 5a", "zero-infinity-fig5a", lambda row: True, 12),
    ("its rows that fit as published", "zero-infinity-fig5a",
     lambda row: not row["row"].endswith("*"), 12),
    ("Fig. 5b", "zero-infinity-fig5b", lambda row: True, 12),
    ("Fig. 5c, without 10B", "zero-infinity-fig5c", lambda row: row["row"] != "10B", 12),
    ("offloaded rows of Fig. 5", "zero-infinity-offloaded", lambda row: True, 12),
    ("Fig. 6c", "zero-infinity-fig6c", lambda row: True, 20),
    ("ZeRO-Offload Fig. 8", "zero-offload-fig8", lambda row: row["row"][0].isdigit(), 8),
    ("PyTorch in Fig. 8", "zero-offload-fig8", lambda row: row["row"].startswith("PyTorch"), 20),
    ("L2L in Fig. 8", "zero-offload-fig8", lambda row: row["row"].startswith("L2L"), 20),
    ("delayed update", "zero-offload-dpu", lambda row: True, 8),
    ("one RTX 4090, by drives", "rtx4090-drives", lambda row: True, 12),
    ("GShard, every token in every layer", "gshard-switch", lambda row: row["reading"] == "all",
     None),
    ("GShard, half of the tokens in each", "gshard-switch", lambda row: row["reading"] == "half",
     None),
    ("T5 of Switch Table 1", "gshard-switch", lambda row: row["row"].startswith("T5"), None),
]


def line(what, name, counts, aim):
    rows = [row for row in common.read_csv(HERE / name / "result.csv") if counts(row)]
    errors = [abs(float(row["engine_error_percent"])) for row in rows]
    inside = sum(float(row["low"]) <= float(row["published"]) <= float(row["high"])
                 for row in rows)
    width = statistics.median(float(row["width_percent"]) for row in rows)
    return [f"{what}", f"{statistics.median(errors):.1f}%", "none" if aim is None else f"{aim}%",
            f"{statistics.mean(errors):.1f}%", f"{max(errors):.1f}%", f"{inside} of {len(rows)}",
            f"{width:.0f}%"]


def table():
    return common.markdown_table(
        ["rows", "median error", "aim", "mean", "largest", "strictly in range", "median width"],
        [line(*row) for row in ROWS])


if __name__ == "__main__":
    print(table(), end="")
