"""ZeRO Fig. 4: up to 13B on 128 GPUs without model parallelism, and data parallelism alone."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero

GPUS, MP = 128, 1
VOCABULARY = 0.1  # 10^9 parameters: GPT-2's, 1920 wide


def run():
    rows = []
    for row in common.read_csv(HERE / "published.csv"):
        config = "C4" if row["system"] == "ZeRO" else "baseline"
        row["preset"] = row["preset"] or zero.dimensions(row, int(row["heads"]))
        asked = zero.speeds(row, GPUS, MP, config)
        rows.append({"model": row["model"], "system": row["system"], "source": row,
                     "published": float(row["value"]), "asked": asked,
                     "largest": max(asked, default=0)})
    return rows


def of(rows, system):
    return [c for c in rows if c["system"] == system]


def table(rows):
    return common.markdown_table(
        ["model", "published", *(f"batch {b}" for b in zero.BATCHES), "largest batch", "TFLOP/s",
         "low", "high", "batch of the published speed"],
        [[c["model"], c["published"], *zero.batch_cells(c["asked"]), c["largest"],
          zero.largest_of(c["asked"]), *zero.ends(c["asked"][c["largest"]]),
          zero.matching(c["asked"], c["published"])] for c in rows if c["asked"]])


def most(rows, system, config):
    """The largest model as wide as the system's last, batch 1, in 10^9 parameters."""
    row = of(rows, system)[-1]["source"]
    answer = zero.ask("plan", row, GPUS, MP, 1, config, "--largest")
    return answer["paper_params"] / 1e9


def statements(rows):
    ours, alone = of(rows, "ZeRO"), of(rows, "baseline")
    zero_most, alone_most = most(rows, "ZeRO", "C4"), most(rows, "baseline", "baseline")
    wide = [c for c in ours if c["source"]["hidden"] == ours[-1]["source"]["hidden"]]
    [eight] = [c for c in ours if c["model"] == "8B"]
    paper = sum(c["published"] for c in ours) / len(ours)
    mean = sum(fastest(c) for c in ours) / len(ours)
    half = [ours[-1]["published"] / eight["published"], fastest(ours[-1]) / fastest(eight)]
    return [
        ["13B trains on 128 GPUs without slices", "13B",
         f"{ours[-1]['largest']} sequences fit; largest {common.figure(zero_most)}B",
         bool(ours[-1]["largest"])],
        ["data parallelism alone trains 1.38B", "1.38B", f"{alone[-1]['largest']} sequences fit",
         bool(alone[-1]["largest"])],
        ["and hardly more", "1.4B",
         f"{common.figure(alone_most)}B and {VOCABULARY}B of the vocabulary",
         1.38 <= alone_most + VOCABULARY < 1.5],
        ["10B to 13B, equally wide: a larger model is slower, as its batch is smaller",
         " > ".join(common.figure(c["published"]) for c in wide),
         " > ".join(common.figure(fastest(c)) for c in wide)
         + ", batches " + " > ".join(str(c["largest"]) for c in wide),
         all(fastest(b) < fastest(a) and b["largest"] < a["largest"]
             for a, b in zip(wide, wide[1:]))],
        ["13B is about half as fast as 8B", *(common.figure(h, 2) for h in half), half[1] < 0.6],
        ["the mean speed, within a fifth", f"{paper:.1f}", f"{mean:.1f}",
         abs(mean / paper - 1) < 0.2],
    ]


def fastest(c):
    return zero.largest_of(c["asked"])


def write(rows):
    found = statements(rows)
    errors = [common.error_percent(fastest(c), c["published"]) for c in rows]
    slow = [c["model"] for c in rows if zero.matching(c["asked"], c["published"]) == "below all"]
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO Fig. 4, 128 V100, no slices

TFLOP/s per GPU by sequences per GPU; the largest batch is what fits. The batches behind the figure
are not at hand.

## ZeRO-DP (Pos+g)

{table(of(rows, "ZeRO"))}
## Data parallelism alone

{table(of(rows, "baseline"))}
{zero.statements_table(found)}
{zero.held(found)} At the largest batches speeds are {min(errors):.0f}% to {max(errors):.0f}% too
fast.

## What the model lacks

{common.bullets(
    f"{', '.join(slow)}: published below what one sequence per GPU reaches. 12B and 13B nearly "
    "fill the GPUs, and so does data parallelism with 1.38B: an allocator that runs out of memory "
    "gives its blocks back to the driver and asks for new ones, which waits for the GPU every "
    "time. That is not modelled: memory fits or it does not.",
    "All other models reach the published speed with 1 or 2 sequences, where more fit; larger "
    "batches, which the figure may have, are predicted a quarter to a half too fast, as data "
    "parallelism of 1B on one GPU is (../zero-offload-fig8).")}""")
    common.write_csv(HERE / "result.csv",
                     ["model", "system", "published", "batch", "predicted", "low", "high"],
                     [[c["model"], c["system"], c["published"], batch, zero.tflops(answer),
                       *zero.ends(answer)]
                      for c in rows for batch, answer in c["asked"].items()])


def plot(rows):
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO Fig. 4: 128 V100 without slices, any batch that fits' font ',16'
set ylabel 'TFLOP/s per GPU'
set yrange [0:80]
set xrange [-0.6:{len(rows) - 0.4}]
set boxwidth 0.5
set style fill solid 0.35 noborder
set key outside bottom center horizontal samplen 1.5
set bars 1.2
plot $rows using 1:3:xtic(2) with boxes lc rgb '{common.PUBLISHED}' title 'published', \\
     $rows using ($1+0.08):5:4:5 with yerrorbars pt 7 lw 2 lc rgb '{common.ENGINE}' \\
         title 'engine, one sequence to the largest batch'
""", {"rows": [[i, c["model"] + (" DP" if c["system"] == "baseline" else ""), c["published"],
                zero.tflops(c["asked"][1]), zero.largest_of(c["asked"])]
               for i, c in enumerate(rows)]})


def main():
    rows = run()
    write(rows)
    plot(rows)


if __name__ == "__main__":
    main()
