#!/usr/bin/env python3
"""Calibrates this machine, then trains every configuration of configurations.csv and sets the
measured step beside the prediction; so often, each time calibrated anew.  A round takes about seven
minutes of a quiet machine.

    experiments/cpu-grid/measure.py [--rounds N] [--steps N]

writes result.csv, result.md and plot.svg beside it; what it measures belongs to the machine and
the day that result.md names.  With MEMWALL_ISA=avx2 in the environment (`memwall list devices` has
the names) all of it, calibration and runs, is held to that instruction set, and the files are
result-avx2.csv and so on.
"""
import argparse
import configparser
import datetime
import json
import os
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common  # noqa: E402
import grid  # noqa: E402

PLACEMENTS = {
    **grid.PLACEMENTS,
    "split": "-s zero-infinity-nvme --param-device cpu:25MB,nvme --gradient-device cpu"
             " --optimizer-device cpu:100MB,nvme --activation-device gpu",
}
LANES = {"drives": ("nvme-read", "nvme-write"), "copies": ("h2d", "d2h")}
DRIVE_BYTES_PER_S = 300e6
# A copy is a memcpy here, which no processor makes slow: what it is held to goes with the products,
# so that a slower processor has copies to wait for too.
FLOPS_PER_COPIED_BYTE = 3000


def instruction_set():
    """The one that MEMWALL_ISA forces, by the name that `memwall list devices` takes; None: the
    machine's best."""
    forced = os.environ.get("MEMWALL_ISA")
    if forced:
        grid.launch(1, "list", "devices")  # refuses one that is not there
    return forced or None


def result_file(name, ending):
    """Of a forced instruction set a file of its own."""
    forced = instruction_set()
    return HERE / (f"{name}-{forced}.{ending}" if forced else f"{name}.{ending}")


def achievable_flops(profile):
    """Of a profile: the rate of a layer's products, FLOP/s."""
    ini = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    ini.read(profile)
    return 1e12 * float(ini["gpu"]["achievable_tflops"].split(";")[1])


def limits(row, profile):
    """Options that hold back the lanes that this configuration is limited by."""
    rates = {"none": 0, "drives": DRIVE_BYTES_PER_S,
             "copies": achievable_flops(profile) / FLOPS_PER_COPIED_BYTE}
    return [word for lane in LANES.get(row["limit"], ())
            for word in ("--limit", f"{lane}={rates[row['limit']] / 1e6:.0f}MB/s")]


def measure(row, profile, folder, steps):
    ranks = int(row["ranks"])
    words = ["run", "-m", str(common.ROOT / "models" / "gpt-text" / "config.json"), "-H",
             str(profile), "--batch", row["batch"], "--seq", row["seq"], "--prefetch",
             row["prefetch"], "--tiles", row["tiles"], "--param-loads", row["loads"],
             "--activation-checkpoint-interval", "1", "--commit", "none", "--data",
             str(grid.TEXT), "--steps", str(steps), "--nvme", str(folder), "--json"]
    words += PLACEMENTS[row["placement"]].split() + limits(row, profile)
    return json.loads(grid.launch(ranks, *words))["answers"][0]["compare"]


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
    forced = instruction_set()
    text = "\n".join([
        "# Predicted and measured on this machine" + (f", held to {forced}" if forced else ""), "",
        grid.measured_where(
            started, f"{f'MEMWALL_ISA={forced} ' if forced else ''}experiments/cpu-grid/measure.py "
            f"--rounds {arguments.rounds} --steps {arguments.steps}"),
        "",
        f"Error of the step time: median {100 * statistics.median(errors):.1f}% in size, "
        f"{within} of {len(errors)} within 20%, largest {100 * errors[-1]:.0f}%. FLOPs over the "
        f"calibrated matrix rate alone: median {100 * naive:.1f}%. By busy time "
        f"{bound['drives']} are bound by drives and {bound['copies']} by copies.",
        "", common.markdown_table(header, rows), "",
        "Busy time of lanes that are busy for 2% of the step or more:", "",
        grid.lane_table(results), ""])
    common.write_text(result_file("result", "md"), text)
    print(text)


def measure_round(rows, folder, steps, rounds):
    """Adds to rounds[number] of every row."""
    for ranks in sorted({int(row["ranks"]) for row in rows}):
        profile = grid.calibrate(folder, ranks)
        for row in rows:
            if int(row["ranks"]) != ranks:
                continue
            last = grid.summarize(row, measure(row, profile, folder, steps))
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
    instruction_set()
    rows = common.read_csv(HERE / "configurations.csv")
    if arguments.only:
        rows = [row for row in rows if row["number"] in arguments.only.split(",")]
    rounds = {row["number"]: [] for row in rows}
    with grid.scratch("cpu-grid") as name:
        for _ in range(arguments.rounds):
            measure_round(rows, pathlib.Path(name), arguments.steps, rounds)
    results = [{**grid.median_round(rounds[row["number"]]), "isa": instruction_set() or "best"}
               for row in rows]
    if not arguments.only:
        grid.write_csv(result_file("result", "csv"), results)
        grid.plot(result_file("plot", "svg"), results)
        report(results, arguments, started)


if __name__ == "__main__":
    main()
