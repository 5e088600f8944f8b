"""ZeRO-Offload's Table 4: seconds of Adam's update on the host and on the GPU."""

import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

# A step whose updates are timed; its model is small enough for the GPU.
MODEL = ("-m", "layers=12,hidden=1024,heads=16", "-H", "v100", "--batch", 1, "--seq", 1024,
         "--grad-accum", 1)
PROFILE_FROM = {("cpu_adam", 1), ("cpu_adam", 8), ("cpu_adam", 10)}
# A kernel per operation; high: with weight decay.
UNFUSED = ("--set", "software.operators.update_passes=2.9; 2.9; 3.3")
COLUMNS = {
    "cpu_adam": ("CPU-Adam", "zero-offload", ("--software", "ideal")),
    "pt_cpu": ("PyTorch, host", "zero-offload", ("--software", "pytorch-2020")),
    "pt_gpu_L2L": ("PyTorch, GPU", "ddp", ("--software", "pytorch-2020", *UNFUSED)),
}


def update_s_per_param(strategy, software, outlook):
    """Of the updates alone, which follow each other."""
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace.json")
        answer = common.memwall("simulate", *MODEL, "-s", strategy, *software, "--outlook", outlook,
                                "--trace", trace)
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    updates = [e for e in events if e["ph"] == "X" and e["cat"] == "update"]
    return 1e-6 * sum(e["dur"] for e in updates) / answer["params"]


def predicted(column):
    _, strategy, software = COLUMNS[column]
    rates = {end: update_s_per_param(strategy, software, end)
             for end in ("low", "typical", "high")}
    return {"engine": rates["typical"], "low": rates["high"], "high": rates["low"]}


def run():
    rows = []
    for column, (name, _, _) in COLUMNS.items():
        rates = predicted(column)
        for row in common.read_csv(HERE / "published.csv"):
            params = float(row["params_B"])
            mark = " *" if (column, int(params)) in PROFILE_FROM else ""
            rows.append(common.compare(f"{name}, {params:g}B{mark}", float(row[column]),
                                       {end: 1e9 * params * value
                                        for end, value in rates.items()}))
    return rows


def tested(rows, name=""):
    return [abs(row["engine_error"]) for row in rows
            if "*" not in row["row"] and row["row"].startswith(name)]


def write(rows):
    errors = [f"{name}: {common.median_abs(tested(rows, name)):.0f}%"
              for name, _, _ in COLUMNS.values()]
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Offload, Table 4: seconds of an update

{common.comparison_table(rows)}
`*`: the machine's rate was made from this cell; not counted.

Median error of the others: **{common.median_abs(tested(rows)):.0f}%** ({"; ".join(errors)}).
""")
    common.write_comparison_csv(HERE / "result.csv", rows)


def main():
    rows = run()
    write(rows)
    common.plot_comparison(HERE / "plot.svg", rows, "ZeRO-Offload, Table 4: an update", "s")


if __name__ == "__main__":
    main()
