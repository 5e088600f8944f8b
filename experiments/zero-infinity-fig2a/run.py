"""ZeRO-Infinity Fig. 2a: memory of models of 0.1T to 100T parameters, by equation and by ledger."""

import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

GIB, TIB = 2**30, 2**40
DECIMALS = 2
SETTINGS = ("-H", "dgx2", "--nodes", "96", "-s", "zero-infinity-nvme", "--state-layout", "paper20",
            "--commit", "none", "--tiles", "1", "--prefetch", "0")

# Batch a GPU that each column is printed for, of 16 GPUs a node: 32 and 64 sequences a node.
CHECKPOINT_BATCH, ACTIVATION_BATCH = 2, 4


def held(answer, *purposes):
    return sum(r["bytes"] for r in answer["ledger"] if r["purpose"] in purposes)


def gpus(answer):
    return answer["settings"]["nodes"] * answer["settings"]["gpus_per_node"]


def of_node(answer, *purposes):
    return held(answer, *purposes) * answer["settings"]["gpus_per_node"]


# Column: unit, batch, the equation's value, the planner's (None where a plan has no such thing).
COLUMNS = {
    "params_t": ("parameters, T", CHECKPOINT_BATCH, lambda a: a["paper"]["params"] / 1e12,
                 lambda a: a["params"] / 1e12),
    "model_states_tib": ("model states, TiB", CHECKPOINT_BATCH,
                         lambda a: a["paper"]["model_state_bytes"] / TIB,
                         lambda a: gpus(a) / TIB * held(a, "parameters", "gradients",
                                                        "optimizer-state")),
    "activations_tib_per_node": ("all activations, TiB a node", ACTIVATION_BATCH,
                                 lambda a: a["paper"]["activation_bytes_per_node"] / TIB, None),
    "checkpoints_tib_per_node": ("checkpoints, TiB a node", CHECKPOINT_BATCH,
                                 lambda a: a["paper"]["activation_checkpoint_bytes_per_node"] / TIB,
                                 lambda a: of_node(a, "activation-checkpoints") / TIB),
    "mswm_gib_per_gpu": ("MSWM, GiB a GPU", ACTIVATION_BATCH,
                         lambda a: a["paper"]["mswm_bytes_per_gpu"] / GIB,
                         lambda a: held(a, "parameter-buffers", "gradient-buffers") / GIB),
    "awm_gib_per_gpu": ("AWM, GiB a GPU", ACTIVATION_BATCH,
                        lambda a: a["paper"]["awm_bytes_per_gpu"] / GIB,
                        lambda a: held(a, "activations") / GIB),
}


def matches(value, printed):
    """Rounded to the printed decimals; a half may have gone either way."""
    return abs(value - printed) <= 0.5 * 10**-DECIMALS + 1e-9


def cells_of(row):
    answers = {b: common.memwall("plan", "-m", row["preset"], *SETTINGS, "--batch", b)
               for b in (CHECKPOINT_BATCH, ACTIVATION_BATCH)}
    for column, (what, batch, equation, planner) in COLUMNS.items():
        answer, printed = answers[batch], float(row[column])
        value = equation(answer)
        yield {"model": row["params_t"] + "T", "column": column, "what": what,
               "printed": printed, "equation": value, "match": matches(value, printed),
               "planner": planner(answer) if planner else None}


def two(value):
    """Halves go up, as in the paper's table."""
    return "-" if value is None else f"{math.floor(value * 100 + 0.5 + 1e-6) / 100:.{DECIMALS}f}"


def cell_table(cells):
    return common.markdown_table(
        ["model", "quantity", "published", "equation", "error", "same at 2 decimals", "planner"],
        [[c["model"], c["what"], two(c["printed"]), two(c["equation"]),
          common.percent(common.error_percent(c["equation"], c["printed"])),
          common.yes(c["match"]), two(c["planner"])] for c in cells])


def write(cells):
    count = sum(c["match"] for c in cells)
    missed = [c for c in cells if not c["match"]]
    names = ", ".join(f"{c['what'].split(',')[0]} of the {c['model']} row" for c in missed)
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Infinity Fig. 2a, memory

**{count} of {len(cells)} cells** are the equations' values at printed precision.  Not so: {names}.

{cell_table(cells)}
## The cell that differs

{common.paragraph(erratum())}

## Where the planner differs from the equations

{common.bullets(*differences(cells))}""")
    common.write_csv(HERE / "result.csv",
                     ["model", "quantity", "published", "flag", "equation", "error_percent",
                      "same_at_printed_precision", "planner"],
                     [[c["model"], c["column"], c["printed"], "printed", c["equation"],
                       common.error_percent(c["equation"], c["printed"]), common.yes(c["match"]),
                       c["planner"]] for c in cells])


def erratum():
    hidden = 10240
    return (f"MSWM of the 0.10T row prints 1.95 GiB.  Eq. 4, 16 hd^2, gives "
            f"{16 * hidden**2 / GIB:.2f} GiB for its hidden size of 10K, and the printed "
            f"figure in the four other rows.  1.95 is "
            f"20 hd^2 ({20 * hidden**2 / GIB:.3f} GiB): five quarters of the equation, which no "
            "reading of it explains.  It is taken as a misprint; nothing is adjusted to it.")


def differences(cells):
    ratios = [c["planner"] / c["equation"] for c in cells if c["column"] == "awm_gib_per_gpu"]
    return (
        "Parameters and model states: the planner counts biases and norms too, below 0.1%.",
        "MSWM: Eq. 4 holds the parameter and the gradient of one operator.  The planner's GPU "
        "holds two gradient slots, one that the backward pass fills while the other is reduced and "
        "sent away: 1.5 times Eq. 4 without prefetch, and each step of prefetch adds a parameter "
        "slot.",
        "AWM: Eq. 5 counts 16 hd + 2 heads seq bytes a token between two checkpoints.  The planner "
        "counts what the backward pass of a block reads (Korthikanti's 34 hd + 5 heads seq, "
        "docs/MODEL.md 5.1) and two operator outputs on their way: "
        f"{min(ratios):.1f} to {max(ratios):.1f} times as much.",
        "All activations: a plan with a checkpoint every block never holds them.",
        "Whether a plan fits is not the question here: without tiles the 101.47T one does not.")


def plot(cells):
    """Everything in GiB over parameters; both axes are logarithmic."""
    params = {c["model"]: c["equation"] for c in cells if c["column"] == "params_t"}
    colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"]
    blocks, curves = {}, []
    for colour, (column, (what, *_)) in zip(colours, list(COLUMNS.items())[1:]):
        scale = TIB / GIB if "TiB" in what else 1
        blocks[column] = [[params[c["model"]], c["printed"] * scale, c["equation"] * scale]
                          for c in cells if c["column"] == column]
        title = what.replace(", TiB", "").replace(", GiB", "")
        curves += [f"${column} using 1:3 with lines lw 2 lc rgb '{colour}' title '{title}'",
                   f"${column} using 1:2 with points pt 7 ps 1 lc rgb '{colour}' notitle"]
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO-Infinity Fig. 2a: points published, lines by the equations' font ',16'
set xlabel 'parameters, trillions'
set ylabel 'GiB'
set logscale xy
set xrange [0.07:150]
set yrange [1:4000000]
set format y '%.0f'
set key top left Left reverse samplen 1.5
set label 'printed 1.95, Eq. 4 gives 1.56' at 0.105,22 font ',12' textcolor rgb '#444444'
set arrow from 0.103,16 to 0.1,2.3 lw 1 lc rgb '#888888' size screen 0.008,20 filled
plot {', '.join(curves)}
""", blocks)


def main():
    cells = [c for row in common.read_csv(HERE / "published.csv") for c in cells_of(row)]
    write(cells)
    plot(cells)


if __name__ == "__main__":
    main()
