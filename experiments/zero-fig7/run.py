"""ZeRO Fig. 7: the most memory that is cached per GPU, by configuration C1 to C5."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero

GPUS, MP = 400, 16
BATCHES = (4, 8, 16, 32)
LIKE_PAPER = 16


def gpu_bytes(parts):
    return sum(part["bytes"] for part in parts if part["tier"] == "gpu")


def memory(row, batch):
    answer = zero.ask("plan", row, GPUS, MP, batch, row["system"])
    peak = answer["peak_bytes"]["gpu"]
    return {"ledger": peak / 1e9, "fits": answer["feasible"],
            "total": (peak + gpu_bytes(answer["software_memory"])) / 1e9}


def run():
    return [{"model": row["model"], "config": row["system"], "published": float(row["value"]),
             "memory": {batch: memory(row, batch) for batch in BATCHES}}
            for row in common.read_csv(HERE / "published.csv")]


def total(c):
    return c["memory"][LIKE_PAPER]["total"]


def amount(m):
    return common.figure(m["total"]) + ("" if m["fits"] else " (too much)")


def table(rows):
    return common.markdown_table(
        ["model", "configuration", "published", *(f"batch {b}" for b in BATCHES),
         f"error at {LIKE_PAPER}"],
        [[c["model"], c["config"], c["published"],
          *(amount(c["memory"][b]) for b in BATCHES),
          common.percent(common.error_percent(total(c), c["published"]))]
         for c in rows])


def statements(rows):
    by = {(c["model"], c["config"]): c for c in rows}

    def saves(model, a, b):
        return [by[model, a]["published"] - by[model, b]["published"],
                total(by[model, a]) - total(by[model, b])]

    def row(text, pair, holds):
        return [text, *(f"{value:.1f} GB" for value in pair), holds]

    pa, grads, both = (saves("40B", "C1", other) for other in ("C2", "C3", "C4"))
    host40, host100 = saves("40B", "C4", "C5"), saves("100B", "C4", "C5")
    return [
        row("40B: partitioned checkpoints save memory (C1 to C2)", pa, pa[1] > 0.5),
        row("40B: partitioned gradients do (C1 to C3), within a fifth", grads,
            abs(grads[1] / grads[0] - 1) < 0.2),
        row("40B: partitioned checkpoints save as much, within a fifth (C1 to C2)", pa,
            abs(pa[1] / pa[0] - 1) < 0.2),
        row("40B: both save more than either (C1 to C4)", both, both[1] > max(pa[1], grads[1])),
        row("40B: checkpoints on the host save nothing more, within 0.6 GB (C4 to C5)", host40,
            abs(host40[1]) < 0.6),
        row("100B: they do (C4 to C5)", host100, host100[1] > 0.6),
    ]


def write(rows):
    found = statements(rows)
    whole = [common.error_percent(total(c), c["published"]) for c in rows if c["config"] in
             ("C1", "C3")]
    parts = [common.error_percent(total(c), c["published"]) for c in rows if c["config"] not in
             ("C1", "C3")]
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO Fig. 7, memory per GPU by configuration

GB per GPU on 400 V100, slices of 16, by sequences per group of 16 GPUs: the plan's and what the
software holds beside it.

{table(rows)}
With whole checkpoints (C1, C3) errors are {whole[0]:+.1f}% and {whole[1]:+.1f}%, with partitioned
ones {min(parts):+.1f}% to {max(parts):+.1f}%.

{zero.statements_table(found)}
{zero.held(found)}

## What the model lacks

{common.bullets(
    "What partitioned checkpoints save is three times as much as published. A checkpoint of a "
    "layer and 16 sequences is 0.20 GB, of 88 layers 17.7 GB, of which a GPU keeps a sixteenth: "
    "the published 5.6 GB are a third of it. Either the batches of the figure differ from row to "
    "row, or the most that was cached holds blocks that nothing used any more; both are possible, "
    "as it is the allocator's figure, which never gives back what it once took.",
    "The 40B model has 88 layers of hidden size 6144 here; the paper prints 4096, which makes 18B.")
}""")
    common.write_csv(HERE / "result.csv",
                     ["model", "configuration", "published", "batch", "plan", "total", "fits"],
                     [[c["model"], c["config"], c["published"], batch, m["ledger"], m["total"],
                       common.yes(m["fits"])] for c in rows for batch, m in c["memory"].items()])


def plot(rows):
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO Fig. 7: memory per GPU, 16 sequences per 16 GPUs' font ',16'
set ylabel 'GB'
set yrange [0:*]
set xrange [-0.6:{len(rows) - 0.4}]
set boxwidth 0.5
set style fill solid 0.35 noborder
set key outside bottom center horizontal samplen 1.5
plot $rows using 1:3:xtic(2) with boxes lc rgb '{common.PUBLISHED}' \\
         title 'most cached, published', \\
     $rows using 1:4 with points pt 7 lc rgb '{common.ENGINE}' \\
         title 'plan and what the software holds', \\
     $rows using 1:5 with points pt 6 lc rgb '{common.ENGINE}' title 'plan alone'
""", {"rows": [[i, f"{c['model']} {c['config']}", c["published"], total(c),
                c["memory"][LIKE_PAPER]["ledger"]] for i, c in enumerate(rows)]})


def main():
    rows = run()
    write(rows)
    plot(rows)


if __name__ == "__main__":
    main()
