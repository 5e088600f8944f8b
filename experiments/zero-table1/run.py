"""ZeRO Table 1: model states a device, by ZeRO's formulas and by the planner's ledger."""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ["MEMWALL_DATA"] = str(HERE)
import common

GPUS_PER_NODE = 16
MODELS = {"7.5B": "zero-7.5b", "128B": "zero-128b", "1T": "zero-1t"}
STAGES = {"pos": ("Pos", "zero1"), "pos_g": ("Pos+g", "zero2"), "pos_g_p": ("Pos+g+p", "zero3")}
STATES = ("parameters", "gradients", "optimizer-state")
TOLERANCE_PERCENT = 1.0


def decimals(text):
    return len(text.partition(".")[2])


def plan(model, strategy, dp):
    nodes = max(1, dp // GPUS_PER_NODE)
    return common.memwall("plan", "-m", MODELS[model], "-H", "dgx2", "-s", strategy, "--nodes",
                          nodes, "--gpus", dp // nodes, "--batch", "1", "--commit", "none")


def right(value, printed):
    """Within 1%, or the printed digits."""
    return (abs(common.error_percent(value, float(printed))) <= TOLERANCE_PERCENT
            or abs(value - float(printed)) <= 0.5 * 10.0 ** -decimals(printed))


def cells():
    for row in common.read_csv(HERE / "published.csv"):
        for model in MODELS:
            for stage, (name, strategy) in STAGES.items():
                answer = plan(model, strategy, int(row["dp"]))
                held = sum(r["bytes"] for r in answer["ledger"]
                           if r["tier"] == "gpu" and r["purpose"] in STATES)
                printed = row[f"{model}_{stage}"]
                yield {"dp": int(row["dp"]), "model": model, "stage": name, "printed": printed,
                       "formula": answer["paper"]["zero_bytes_per_gpu"][stage] / 1e9,
                       "planner": held / 1e9}


def within(value, printed):
    return abs(common.error_percent(value, float(printed))) <= TOLERANCE_PERCENT


def table(found, model):
    rows = []
    for c in (c for c in found if c["model"] == model):
        rows.append([c["dp"], c["stage"], c["printed"], common.figure(c["formula"], 4),
                     common.percent(common.error_percent(c["formula"], float(c["printed"]))),
                     common.figure(c["planner"], 4),
                     common.percent(common.error_percent(c["planner"], float(c["printed"]))),
                     common.yes(right(c["planner"], c["printed"]))])
    return common.markdown_table(["GPUs", "stage", "published", "formula", "error", "planner",
                                  "error", "right"], rows)


def section(found, model):
    return f"## {model}, GB a GPU\n\n{table(found, model)}\n"


def exceptions(found):
    texts = []
    for c in found:
        if not within(c["planner"], c["printed"]):
            verdict = "which rounds to it" if right(c["planner"], c["printed"]) else "WRONG"
            texts.append(f"{c['model']}, {c['stage']}, {c['dp']} GPUs: printed {c['printed']}, "
                         f"planner {common.figure(c['planner'], 4)}, {verdict}.")
    return texts


def write(found):
    close = sum(within(c["planner"], c["printed"]) for c in found)
    good = sum(right(c["planner"], c["printed"]) for c in found)
    formula = sum(right(c["formula"], c["printed"]) for c in found)
    worst = max(abs(common.error_percent(c["planner"], c["formula"])) for c in found)
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO Table 1, model states a device

{common.paragraph(f"The planner's ledger is right in {good} of {len(found)} cells: {close} of "
f"{len(found)} within 1%, the others at printed precision.  ZeRO's formulas: {formula} of "
f"{len(found)}.  The ledger differs from the formulas by {worst:.2f}% at most: biases and norms, "
"which "
"12 nl hd^2 leaves out, and shards rounded up.")}

Not within 1%:

{common.bullets(*exceptions(found))}
{"".join(section(found, model) for model in MODELS)}
## Note

At one GPU nothing is partitioned, and every stage takes 16 bytes a parameter.
""")
    common.write_csv(HERE / "result.csv",
                     ["gpus", "model", "stage", "published_gb", "flag", "formula_gb", "planner_gb",
                      "planner_error_percent", "right"],
                     [[c["dp"], c["model"], c["stage"], c["printed"], "printed", c["formula"],
                       c["planner"], common.error_percent(c["planner"], float(c["printed"])),
                       common.yes(right(c["planner"], c["printed"]))] for c in found])


def plot(found):
    colours = {"Pos": common.ENGINE, "Pos+g": common.CLOSED_FORM, "Pos+g+p": common.OTHER}
    blocks, panels = {}, []
    for i, model in enumerate(MODELS):
        curves = []
        for k, (stage, colour) in enumerate(colours.items()):
            rows = [[c["dp"], float(c["printed"]), c["planner"]] for c in found
                    if c["model"] == model and c["stage"] == stage]
            blocks[f"m{i}s{k}"] = rows
            curves += [f"$m{i}s{k} using 1:3 with lines lw 2 lc rgb '{colour}' title '{stage}'",
                       f"$m{i}s{k} using 1:2 with points pt 7 ps 0.9 lc rgb '{colour}' notitle"]
        panels.append(f"set title '{model}' font ',14'\nplot {', '.join(curves)}\n")
    common.gnuplot(HERE / "plot.svg", """
set multiplot layout 1,3 title 'ZeRO Table 1: points published, lines the planner' font ',16'
set logscale xy
set xrange [0.8:1300]
set xtics (1, 4, 16, 64, 256, 1024)
set xlabel 'GPUs'
set ylabel 'GB of model states a GPU'
set format y '%g'
set key bottom left samplen 1.5
""" + "".join(panels) + "unset multiplot", blocks, (1350, 480))


def main():
    found = list(cells())
    write(found)
    plot(found)


if __name__ == "__main__":
    main()
