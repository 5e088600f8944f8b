"""ZeRO Fig. 8: the best throughput by configuration C1 to C5."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero

GPUS, MP = 400, 16


def predict(row, config):
    asked = zero.speeds(row, GPUS, MP, config)
    most = max(asked, default=0)
    return {"model": row["model"], "config": config, "asked": asked, "largest": most,
            "published": float(row["value"]) if row["system"] == config else None}


def run():
    """All configurations of both models: those without a bar ran out of memory."""
    rows = common.read_csv(HERE / "published.csv")
    bars = {(row["model"], row["system"]): row for row in rows}
    models = {row["model"]: row for row in rows}
    return [predict(bars.get((name, config), row), config)
            for name, row in models.items() for config in ("C1", "C2", "C3", "C4", "C5")]


def fastest(c):
    return zero.largest_of(c["asked"])


def table(rows):
    return common.markdown_table(
        ["model", "configuration", "published", *(f"batch {b}" for b in zero.BATCHES),
         "largest batch", "TFLOP/s", "error", "low", "high", "batch of the published speed"],
        [[c["model"], c["config"], c["published"] or "out of memory", *zero.batch_cells(c["asked"]),
          c["largest"], fastest(c), error(c),
          *(zero.ends(c["asked"][c["largest"]]) if c["asked"] else ("", "")),
          zero.matching(c["asked"], c["published"]) if c["published"] else ""] for c in rows])


def error(c):
    if not c["published"] or not c["asked"]:
        return ""
    return common.percent(common.error_percent(fastest(c), c["published"]))


def statements(rows):
    by = {(c["model"], c["config"]): c for c in rows}

    def speeds(*configs):
        cases = [by["60B", config] for config in configs]
        return ([c["published"] for c in cases], [fastest(c) for c in cases])

    def batches(*configs):
        return [by["60B", config]["largest"] for config in configs]

    def row(text, pair, sign, holds):
        return [text, *(sign.join(common.figure(v) for v in values) for values in pair), holds]

    ladder, host = speeds("C1", "C2", "C3", "C4"), speeds("C4", "C5")
    last = [c for c in rows if c["model"] == "170B"]
    runs = [c["config"] for c in last if c["asked"]]
    return [
        row("60B: Pos+g is faster than Pos (C3, C1)", speeds("C3", "C1"), " > ",
            fastest(by["60B", "C3"]) > fastest(by["60B", "C1"])),
        row("60B: C4, which saves most on the GPU, is faster than C1, C2 and C3", ladder, ", ",
            fastest(by["60B", "C4"]) > max(ladder[1][:3])),
        ["because the largest batch grows from C1 to C4", "",
         ", ".join(map(str, batches("C1", "C2", "C3", "C4"))),
         batches("C4")[0] > max(batches("C1", "C2", "C3"))],
        row("60B: C4 is at least twice as fast as C2, within its batch", speeds("C4", "C2"), " > ",
            ladder[1][3] > 2 * ladder[1][1]),
        row("60B: checkpoints on the host cost more than they bring (C5 below C4)", host, " > ",
            host[1][1] < host[1][0]),
        ["170B: C1, C2 and C3 run out of memory", "out of memory",
         f"{', '.join(runs)} fit", not {"C1", "C2", "C3"} & set(runs)],
        ["170B: C4 does too, C5 alone fits", "out of memory",
         ", ".join(f"{c['config']} {c['largest']} sequences" for c in last if c["asked"]),
         runs == ["C5"]],
    ]


def write(rows):
    found = statements(rows)
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO Fig. 8, the best throughput by configuration

TFLOP/s per GPU on {GPUS} V100 by sequences per group of {MP} GPUs; the largest is what fits, and
the fastest. The batches behind the figure are not at hand.

{table(rows)}
{zero.statements_table(found)}
{zero.held(found)}

## What the model lacks

{common.bullets(
    "Partitioned checkpoints with Pos (C2) leave room for many more sequences here than the "
    "published speed, which is hardly above that of whole ones (C1): 60B was its largest model, "
    "and 88B fit here (`../zero-r`), as partitioned checkpoints saved a third of what they are "
    "(`../zero-fig7`). What took the room is not known.",
    "170B: memwall fits it with checkpoints on the GPU too (C4), with up to "
    f"{next(c['largest'] for c in rows if (c['model'], c['config']) == ('170B', 'C4'))} sequences, "
    "where the authors ran out of memory. That is within what is not known of the allocator: with "
    "all that it may lose (`--outlook low`) neither C4 nor C5 fits.")}""")
    common.write_csv(HERE / "result.csv",
                     ["model", "configuration", "published", "batch", "predicted", "low", "high"],
                     [[c["model"], c["config"], c["published"], batch, zero.tflops(answer),
                       *zero.ends(answer)]
                      for c in rows for batch, answer in c["asked"].items()])


def plot(rows):
    rows = [c for c in rows if c["published"]]
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO Fig. 8: {GPUS} V100, any batch that fits' font ',16'
set ylabel 'TFLOP/s per GPU'
set yrange [0:*]
set xrange [-0.6:{len(rows) - 0.4}]
set boxwidth 0.5
set style fill solid 0.35 noborder
set key outside bottom center horizontal samplen 1.5
set bars 1.2
plot $rows using 1:3:xtic(2) with boxes lc rgb '{common.PUBLISHED}' title 'published', \\
     $rows using ($1+0.08):5:4:5 with yerrorbars pt 7 lw 2 lc rgb '{common.ENGINE}' \\
         title 'engine, one sequence to the largest batch'
""", {"rows": [[i, f"{c['model']} {c['config']}", c["published"], zero.tflops(c["asked"][1]),
                fastest(c)] for i, c in enumerate(rows)]})


def main():
    rows = run()
    write(rows)
    plot(rows)


if __name__ == "__main__":
    main()
