#!/usr/bin/env python3
"""Calibrates this machine for two ranks, then trains every configuration of configurations.csv as
tensor slices, pipeline stages or experts of ranks and sets the measured step beside the prediction.

    experiments/cpu-ranks/measure.py [--rounds N] [--steps N] [--only NUMBERS]

writes result.csv, result.md and plot.svg beside it; what it measures belongs to the machine and
the day that result.md names."""
import argparse
import datetime
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common  # noqa: E402
import grid  # noqa: E402

RANKS = 2


# Of each kind: model, and how it is divided among two ranks.
KINDS = {"slices": ("gpt-text", "--tp 2 --batch {share:g}"),
         "stages": ("gpt-text", "--pp 2 --schedule {schedule} --batch {batch}"),
         "experts": ("moe-text", "--ep 2 --batch {share:g}")}
# As many times the steps of others: a router takes some to balance its experts.
LONGER = {"experts": 3}


def divided(row):
    model, words = KINDS[row["kind"]]
    return ["-m", str(common.ROOT / "models" / model / "config.json"),
            *words.format(share=int(row["batch"]) / RANKS, **row).split()]


def measure(row, profile, folder, steps):
    words = ["run", *divided(row), "-H", str(profile), "--grad-accum", row["micro_batches"],
             "--seq", row["seq"], "--activation-checkpoint-interval", "1", "--commit", "none",
             "--data", str(grid.TEXT), "--steps", str(steps * LONGER.get(row["kind"], 1)),
             "--nvme", str(folder), "--json"]
    words += (["-s", "ddp"] if row["placement"] == "gpu" else
              grid.PLACEMENTS[row["placement"]].split())
    return json.loads(grid.launch(RANKS, *words))["answers"][0]["compare"]


def table(results):
    return common.markdown_table(
        ["", "kind", "placement", "schedule", "batch", "micro-batches", "seq", "busiest lane",
         "measured, ms", "predicted, ms", "error", "of all rounds", "FLOPs alone"],
        [[*(r[key] for key in ("number", "kind", "placement", "schedule", "batch",
                               "micro_batches", "seq", "busiest")),
          f"{r['measured_s'] * 1e3:.0f}", f"{r['predicted_s'] * 1e3:.0f}",
          f"{100 * r['error']:+.1f}%",
          f"{100 * r['least_error']:+.0f} to {100 * r['most_error']:+.0f}%",
          f"{100 * r['naive_error']:+.1f}%"] for r in results])


def sizes(results):
    errors = sorted(abs(r["error"]) for r in results)
    naive = statistics.median(abs(r["naive_error"]) for r in results)
    return (f"median {100 * statistics.median(errors):.1f}% in size, "
            f"{sum(e <= 0.2 for e in errors)} of {len(errors)} within 20%, largest "
            f"{100 * errors[-1]:.0f}%; FLOPs alone: median {100 * naive:.1f}%")


def report(results, arguments, started):
    kinds = [f"- {kind}: {sizes([r for r in results if r['kind'] == kind])}"
             for kind in dict.fromkeys(r["kind"] for r in results)]
    common.write_text(HERE / "result.md", "\n".join([
        "# Predicted and measured on two ranks: tensor slices, pipeline stages and experts", "",
        grid.measured_where(started, "experiments/cpu-ranks/measure.py --rounds "
                            f"{arguments.rounds} --steps {arguments.steps}"), "",
        "Error of the step time:", "", *kinds, "", table(results), "",
        "Busy time of lanes that are busy for 2% of the step or more:", "",
        grid.lane_table(results), ""]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="numbers with commas: print these, write nothing")
    arguments = parser.parse_args()
    started = datetime.datetime.now(datetime.timezone.utc)
    rows = common.read_csv(HERE / "configurations.csv")
    if arguments.only:
        rows = [row for row in rows if row["number"] in arguments.only.split(",")]
    rounds = {row["number"]: [] for row in rows}
    with grid.scratch("cpu-ranks") as name:
        folder = pathlib.Path(name)
        for _ in range(arguments.rounds):
            profile = grid.calibrate(folder, RANKS)
            for row in rows:
                last = grid.summarize(row, measure(row, profile, folder, arguments.steps))
                rounds[row["number"]].append(last)
                print(f"{row['number']:>3} {row['kind']} {last['measured_s']:8.3f} s, "
                      f"{100 * last['error']:+6.1f}%", file=sys.stderr)
    if arguments.only:
        return
    results = [grid.median_round(rounds[row["number"]]) for row in rows]
    grid.write_csv(HERE / "result.csv", results)
    grid.plot(HERE / "plot.svg", results)
    report(results, arguments, started)


if __name__ == "__main__":
    main()
