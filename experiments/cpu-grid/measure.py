#!/usr/bin/env python3
"""Calibrates this machine, then trains every configuration of configurations.csv and sets the
measured step beside the prediction; so often, each time calibrated anew.  A round takes about seven
minutes of a quiet machine.

    experiments/cpu-grid/measure.py [--rounds N] [--steps N]

writes result.csv, result.md and plot.svg beside it; what it measures belongs to the machine and
the day that result.md names.
"""
import argparse
import csv
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common  # noqa: E402

MEMWALL = os.environ.get("MEMWALL", str(common.ROOT / "build" / "cli" / "memwall"))
PLACEMENTS = {
    "gpu": "-s zero3",
    "offload": "-s zero-offload",
    "cpu": "-s zero-infinity-cpu --param-device cpu --gradient-device cpu --optimizer-device cpu"
           " --activation-device cpu",
    "nvme-state": "-s zero-infinity-nvme --param-device cpu --gradient-device cpu"
                  " --optimizer-device nvme --activation-device gpu",
    "nvme": "-s zero-infinity-nvme --param-device nvme --gradient-device nvme"
            " --optimizer-device nvme --activation-device gpu",
    "split": "-s zero-infinity-nvme --param-device cpu:25MB,nvme --gradient-device cpu"
             " --optimizer-device cpu:100MB,nvme --activation-device gpu",
}
LIMITS = {
    "none": "",
    "drives": "--limit nvme-read=300MB/s --limit nvme-write=300MB/s",
    "copies": "--limit h2d=120MB/s --limit d2h=120MB/s",
}
LANES = {"drives": ("nvme-read", "nvme-write"), "copies": ("h2d", "d2h")}


def launch(ranks, *words):
    command = [MEMWALL, *words]
    if ranks > 1:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise common.Failed(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def calibrate(folder, ranks):
    profile = folder / f"here-{ranks}.ini"
    launch(ranks, "calibrate", "-o", str(profile), "--nvme", str(folder))
    return profile


def measure(row, profile, folder, steps):
    ranks = int(row["ranks"])
    words = ["run", "-m", str(common.ROOT / "models" / "gpt-text" / "config.json"), "-H",
             str(profile), "--batch", row["batch"], "--seq", row["seq"], "--prefetch",
             row["prefetch"], "--tiles", row["tiles"], "--param-loads", row["loads"],
             "--commit", "none", "--data", str(common.ROOT / "data" / "psalms-proverbs.txt"),
             "--steps", str(steps), "--nvme", str(folder), "--json"]
    words += PLACEMENTS[row["placement"]].split() + LIMITS[row["limit"]].split()
    return json.loads(launch(ranks, *words))["compare"]


def busiest(compare):
    return max(compare["lanes"], key=lambda lane: lane["busy"]["measured_s"])["name"]


def summarize(row, compare):
    """What a round has measured."""
    step, naive = compare["step"], compare["flops_alone"]
    return {
        **row,
        "measured_s": step["measured_s"],
        "predicted_s": step["predicted_s"],
        "error": step["predicted_s"] / step["measured_s"] - 1,
        "naive_error": naive["predicted_s"] / step["measured_s"] - 1,
        "busiest": busiest(compare),
        **{f"{lane['name']}_error": lane["busy"]["predicted_s"] / lane["busy"]["measured_s"] - 1
           for lane in compare["lanes"] if lane["busy"]["measured_s"] > 0.02 * step["measured_s"]},
    }


def median_round(rounds):
    """Of a configuration: the round whose error is the median of all (the lower of two)."""
    ordered = sorted(rounds, key=lambda r: r["error"])
    middle = ordered[(len(ordered) - 1) // 2]
    return {**middle, "least_error": ordered[0]["error"], "most_error": ordered[-1]["error"]}


def report(results, arguments, started):
    errors = sorted(abs(r["error"]) for r in results)
    naive = statistics.median(abs(r["naive_error"]) for r in results)
    within = sum(e <= 0.2 for e in errors)
    bound = {limit: sum(r["busiest"] in LANES[limit] for r in results) for limit in LANES}
    rows = [[r["number"], r["placement"], r["batch"], r["seq"], r["prefetch"], r["tiles"],
             r["loads"], r["ranks"], r["limit"], r["busiest"], f"{r['measured_s'] * 1e3:.0f}",
             f"{r['predicted_s'] * 1e3:.0f}", f"{100 * r['error']:+.1f}%",
             f"{100 * r['least_error']:+.0f} to {100 * r['most_error']:+.0f}%",
             f"{100 * r['naive_error']:+.1f}%"] for r in results]
    header = ["", "placement", "batch", "seq", "prefetch", "tiles", "loads", "ranks", "limit",
              "busiest lane", "measured, ms", "predicted, ms", "error", "of all rounds",
              "FLOPs alone"]
    lanes = sorted({key for r in results for key in r if key.endswith("_error")} - {"naive_error"})
    lane_rows = []
    for lane in lanes:
        values = [r[lane] for r in results if lane in r]
        lane_rows.append([lane[:-len("_error")], len(values),
                          f"{100 * statistics.median(values):+.1f}%",
                          f"{100 * statistics.median(abs(v) for v in values):.1f}%"])
    machine = subprocess.run(["uname", "-srm"], capture_output=True, text=True, check=True).stdout
    text = "\n".join([
        "# Predicted and measured on this machine", "",
        f"{started:%Y-%m-%d %H:%M} UTC, {machine.strip()}, {os.cpu_count()} cores; "
        f"`experiments/cpu-grid/measure.py --rounds {arguments.rounds} --steps {arguments.steps}`, "
        "every round calibrated just before; a row is the round with the median error. "
        f"Load average {os.getloadavg()[1]:.1f} over five minutes at the end (this run included).",
        "",
        f"Error of the step time: median {100 * statistics.median(errors):.1f}% in size, "
        f"{within} of {len(errors)} within 20%, largest {100 * errors[-1]:.0f}%. FLOPs over the "
        f"calibrated matrix rate alone: median {100 * naive:.1f}%. By busy time "
        f"{bound['drives']} are bound by drives and {bound['copies']} by copies.",
        "", common.markdown_table(header, rows), "",
        "Busy time of lanes that are busy for 2% of the step or more:", "",
        common.markdown_table(["lane", "steps", "median error", "median size"], lane_rows), ""])
    common.write_text(HERE / "result.md", text)
    print(text)


def write(results):
    keys = list(dict.fromkeys(key for r in results for key in r))
    with open(HERE / "result.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, keys, lineterminator="\n")
        writer.writeheader()
        writer.writerows(results)
    points = [[r["measured_s"], r["predicted_s"]] for r in results]
    common.gnuplot(HERE / "plot.svg", """
set logscale xy
set xlabel "measured step, s"
set ylabel "predicted step, s"
set key left top
plot x with lines lc rgb "#888888" title "equal", 1.2*x with lines dt 2 lc rgb "#bbbbbb" \
title "20% off", x/1.2 with lines dt 2 lc rgb "#bbbbbb" notitle, \
$points using 1:2 with points pt 7 lc rgb "#0072b2" title "configurations"
""", {"points": points})


def measure_round(rows, folder, steps, rounds):
    """Adds to rounds[number] of every row."""
    for ranks in sorted({int(row["ranks"]) for row in rows}):
        profile = calibrate(folder, ranks)
        for row in rows:
            if int(row["ranks"]) != ranks:
                continue
            last = summarize(row, measure(row, profile, folder, steps))
            rounds[row["number"]].append(last)
            print(f"{row['number']:>3} {row['placement']:<10} {last['measured_s']:8.3f} s, "
                  f"{100 * last['error']:+6.1f}%", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="numbers with commas: print these, write nothing")
    arguments = parser.parse_args()
    started = datetime.datetime.now(datetime.timezone.utc)
    rows = common.read_csv(HERE / "configurations.csv")
    if arguments.only:
        rows = [row for row in rows if row["number"] in arguments.only.split(",")]
    rounds = {row["number"]: [] for row in rows}
    with tempfile.TemporaryDirectory(dir=common.ROOT / "out", prefix="cpu-grid-") as name:
        for _ in range(arguments.rounds):
            measure_round(rows, pathlib.Path(name), arguments.steps, rounds)
    results = [median_round(rounds[row["number"]]) for row in rows]
    if not arguments.only:
        write(results)
        report(results, arguments, started)


if __name__ == "__main__":
    main()
