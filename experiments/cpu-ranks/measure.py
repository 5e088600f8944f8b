#!/usr/bin/env python3
"""Calibrates this machine for two ranks, then trains every configuration of configurations.csv as
tensor slices, pipeline stages or experts of ranks and sets the measured step beside the prediction.

    experiments/cpu-ranks/measure.py [--rounds N] [--steps N] [--kind KIND | --only NUMBERS]

writes result.csv, result.md and plot.svg beside it; what it measures belongs to the machine and
the day that result.md names.  With --kind the rows of other kinds stay as they were measured.

Experts are predicted twice: blind, with as many tokens for each rank, and with the tokens of the
fullest rank over the mean that a shorter run of the same reports before (--expert-imbalance)."""
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
# As many times the steps of others in what is measured of experts: a router takes some to balance
# them.
LONGER = 3


def divided(row):
    model, words = KINDS[row["kind"]]
    return ["-m", str(common.ROOT / "models" / model / "config.json"),
            *words.format(share=int(row["batch"]) / RANKS, **row).split()]


def measure(row, profile, folder, steps, *options):
    """What `memwall run` answers."""
    words = ["run", *divided(row), "-H", str(profile), "--grad-accum", row["micro_batches"],
             "--seq", row["seq"], "--activation-checkpoint-interval", "1", "--commit", "none",
             "--data", str(grid.TEXT), "--steps", str(steps), *options,
             "--nvme", str(folder), "--json"]
    words += (["-s", "ddp"] if row["placement"] == "gpu" else
              grid.PLACEMENTS[row["placement"]].split())
    return json.loads(grid.launch(RANKS, *words))["answers"][0]


def compare(row, profile, folder, steps):
    """Predicted and measured.  A run before says what a router's visits make of a rank's share."""
    if row["kind"] != "experts":
        return grid.summarize(row, measure(row, profile, folder, steps)["compare"])
    first = measure(row, profile, folder, steps)
    imbalance = first["run"]["expert_imbalance"]["median"]
    then = measure(row, profile, folder, steps * LONGER, "--expert-imbalance",
                   f"{imbalance:.3f}")
    result = grid.summarize(row, then["compare"])
    blind = first["compare"]["step"]["predicted_s"]
    return {**result, "imbalance": imbalance,
            "imbalance_then": then["run"]["expert_imbalance"]["median"],
            "imbalance_most": then["run"]["expert_imbalance"]["most"],
            "blind_s": blind, "blind_error": blind / result["measured_s"] - 1}


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


def sizes(errors):
    return (f"median {100 * statistics.median(errors):.1f}% in size, "
            f"{sum(e <= 0.2 for e in errors)} of {len(errors)} within 20%, largest "
            f"{100 * max(errors):.0f}%")


def summary(kind, results):
    """A line for each way in which a kind is predicted."""
    of_kind = [r for r in results if r["kind"] == kind]
    naive = statistics.median(abs(float(r["naive_error"])) for r in of_kind)
    lines = [sizes([abs(float(r["error"])) for r in of_kind])]
    if kind == "experts":
        blind = sizes([abs(float(r["blind_error"])) for r in of_kind])
        lines = [f"with the imbalance that a run before reported: {lines[0]}", f"blind: {blind}"]
    return [*(f"- {kind}: {line}" for line in lines),
            f"- {kind}, FLOPs alone: median {100 * naive:.1f}%"]


def imbalances(results):
    return common.markdown_table(
        ["", "imbalance before", "while measured", "at most", "blind, ms", "its error",
         "with it, ms", "its error"],
        [[r["number"], *(f"{float(r[key]):.2f}" for key in ("imbalance", "imbalance_then",
                                                           "imbalance_most")),
          f"{1e3 * float(r['blind_s']):.0f}", f"{100 * float(r['blind_error']):+.1f}%",
          f"{1e3 * float(r['predicted_s']):.0f}", f"{100 * float(r['error']):+.1f}%"]
         for r in results if r["kind"] == "experts"])


def when(results):
    """Kinds are measured on their own days."""
    kinds = {}
    for r in results:
        kinds.setdefault(r["measured_where"], []).append(r["kind"])
    return [f"- {', '.join(dict.fromkeys(of))}: {where}" for where, of in kinds.items()]


def report(results):
    kinds = [line for kind in dict.fromkeys(r["kind"] for r in results)
             for line in summary(kind, results)]
    common.write_text(HERE / "result.md", "\n".join([
        "# Predicted and measured on two ranks: tensor slices, pipeline stages and experts", "",
        *when(results), "", "Error of the step time:", "", *kinds, "", table(results), "",
        "Experts: tokens of the fullest rank over the mean of both, the mean over layers and the "
        "median over steps", "(at most: of any layer and step); blind is a prediction with even "
        "visits, and the other one has the imbalance before,", "which a run of the first steps "
        "reported:", "", imbalances(results), "",
        "Busy time of lanes that are busy for 2% of the step or more:", "",
        grid.lane_table([{k: v for k, v in r.items() if k != "blind_error"} for r in results]),
        ""]))


def numbers(row):
    """What a CSV file has, as numbers where they are some and without what is empty."""
    texts = ("number", "kind", "placement", "schedule", "batch", "micro_batches", "seq", "busiest",
             "measured_where")
    return {k: v if k in texts else float(v) for k, v in row.items() if v or k in texts}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", choices=KINDS, help="measure these, keep the other rows")
    parser.add_argument("--only", help="numbers with commas: print these, write nothing")
    arguments = parser.parse_args()
    started = datetime.datetime.now(datetime.timezone.utc)
    rows = common.read_csv(HERE / "configurations.csv")
    measured = [row for row in rows if arguments.kind in (None, row["kind"])]
    if arguments.only:
        measured = [row for row in rows if row["number"] in arguments.only.split(",")]
    rounds = {row["number"]: [] for row in measured}
    with grid.scratch("cpu-ranks") as name:
        folder = pathlib.Path(name)
        for _ in range(arguments.rounds):
            profile = grid.calibrate(folder, RANKS)
            for row in measured:
                last = compare(row, profile, folder, arguments.steps)
                rounds[row["number"]].append(last)
                blind = f", blind {100 * last['blind_error']:+6.1f}%" if "blind_s" in last else ""
                print(f"{row['number']:>3} {row['kind']} {last['measured_s']:8.3f} s, "
                      f"{100 * last['error']:+6.1f}%{blind}", file=sys.stderr)
    if arguments.only:
        return
    kind = f" --kind {arguments.kind}" if arguments.kind else ""
    where = grid.measured_where(started, "experiments/cpu-ranks/measure.py --rounds "
                                f"{arguments.rounds} --steps {arguments.steps}{kind}")
    before = {row["number"]: numbers(row) for row in common.read_csv(HERE / "result.csv")}
    results = [{**grid.median_round(rounds[row["number"]]), "measured_where": where}
               if row["number"] in rounds else before[row["number"]] for row in rows]
    grid.write_csv(HERE / "result.csv", results)
    grid.plot(HERE / "plot.svg", results)
    report(results)


if __name__ == "__main__":
    main()
