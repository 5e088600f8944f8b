"""ZeRO Fig. 3: 60B on 64 to 400 GPUs, faster per GPU on more of them."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero

MP = 16


def run():
    rows = []
    for row in common.read_csv(HERE / "published.csv"):
        gpus = int(row["gpus"])
        asked = zero.speeds(row, gpus, MP, "C4")
        rows.append({"gpus": gpus, "published": float(row["value"]), "asked": asked,
                     "largest": max(asked), "answer": asked[max(asked)]})
    return rows


def table(rows):
    return common.markdown_table(
        ["GPUs", "published", *(f"batch {b}" for b in zero.BATCHES), "largest batch", "TFLOP/s",
         "low", "high", "batch of the published speed"],
        [[c["gpus"], c["published"], *zero.batch_cells(c["asked"]), c["largest"],
          zero.tflops(c["answer"]), *zero.ends(c["answer"]),
          zero.matching(c["asked"], c["published"])] for c in rows])


def memory_table(rows):
    return common.markdown_table(
        ["GPUs", "state GiB per GPU", "room for checkpoints and activations GiB", "largest batch"],
        [[c["gpus"], state(c), room(c), c["largest"]] for c in rows])


def matching(c):
    return zero.matching(c["asked"], c["published"])


def state(c):
    return sum(r["bytes"] for r in c["answer"]["ledger"] if r["tier"] == "gpu" and r["purpose"]
               in ("parameters", "gradients", "optimizer-state")) / 2**30


def room(c):
    tier = c["answer"]["tiers"]["gpu"]
    taken = sum(p["bytes"] for p in c["answer"]["software_memory"] if p["tier"] == "gpu")
    return (tier["capacity_bytes"] - tier["reserve_bytes"] - taken) / 2**30 - state(c)


def per_gpu(rows, of):
    """Speed per GPU on the most over that on the fewest."""
    return of(rows[-1]) / of(rows[0])


def published(c):
    return c["published"]


def largest(c):
    return zero.tflops(c["answer"])


def same(batch):
    return lambda c: zero.tflops(c["asked"][batch])


def statements(rows):
    total = per_gpu(rows, largest) * rows[-1]["gpus"] / rows[0]["gpus"]
    paper = per_gpu(rows, published) * rows[-1]["gpus"] / rows[0]["gpus"]
    batches = [c["largest"] for c in rows]
    doubled = [[of(b) / of(a) for a, b in zip(rows[:3], rows[1:3])] for of in (published, largest)]
    ideal = rows[-1]["gpus"] / rows[0]["gpus"]
    return [
        [f"superlinear: {ideal:.2f} times the GPUs are more than {ideal:.2f} times as fast",
         f"{paper:.2f} times", f"{total:.2f} times", paper > ideal and total > ideal],
        ["because the batch per GPU grows: the largest that fits", "grows",
         " < ".join(map(str, batches)), all(b > a for a, b in zip(batches, batches[1:]))],
        ["at the same batch (16 sequences per 16 GPUs) more GPUs are no faster each", "",
         f"{per_gpu(rows, same(16)):.2f} times", per_gpu(rows, same(16)) < 1],
        ["each doubling up to 256 GPUs more than doubles the speed",
         " and ".join(f"{2 * r:.2f}" for r in doubled[0]),
         " and ".join(f"{2 * r:.2f}" for r in doubled[1]), min(doubled[0] + doubled[1]) > 1],
        ["400 GPUs are slower each than 256", f"{rows[3]['published'] / rows[2]['published']:.2f}",
         f"{largest(rows[3]) / largest(rows[2]):.2f}", largest(rows[3]) < largest(rows[2])],
    ]


def write(rows):
    found = statements(rows)
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO Fig. 3, 60B on 64 to 400 V100

TFLOP/s per GPU by sequences per group of 16 GPUs; the largest is what fits. The batches behind the
figure are not at hand.

{table(rows)}
{zero.statements_table(found)}
{zero.held(found)}

## Why

{memory_table(rows)}
## What the model lacks

{common.bullets(
    "The gain is smaller than published: at 64 GPUs room is predicted for "
    f"{rows[0]['largest']} sequences, and the published speed there is that of "
    f"{matching(rows[0])}, of {matching(rows[1])}, {matching(rows[2])} and {matching(rows[3])} on "
    "more GPUs. From 32 sequences on a larger batch makes the products of a slice hardly faster. "
    "Either the authors' buffers took more of the 64 GPUs' memory, or they took smaller batches: "
    "then more GPUs are faster each by more than memory allows here.",
    "No published speed is above that of the largest batch, on any number of GPUs.")}""")
    common.write_csv(HERE / "result.csv",
                     ["gpus", "published", "batch", "predicted", "low", "high", "largest"],
                     [[c["gpus"], c["published"], batch, zero.tflops(answer), *zero.ends(answer),
                       common.yes(batch == c["largest"])]
                      for c in rows for batch, answer in c["asked"].items()])


def plot(rows):
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO Fig. 3: 60B, V100' font ',16'
set xlabel 'GPUs' offset 0,0.6
set ylabel 'TFLOP/s per GPU'
set logscale x 2
set xrange [50:512]
set yrange [0:60]
set xtics (64, 128, 256, 400)
set key outside bottom center horizontal samplen 1.5
plot $rows using 1:2 with linespoints pt 5 lw 2 lc rgb '{common.PUBLISHED}' title 'published', \\
     $rows using 1:3:4:5 with yerrorlines pt 7 lw 2 lc rgb '{common.ENGINE}' \\
         title 'engine, largest batch, low to high', \\
     $rows using 1:6 with linespoints pt 6 dt 2 lw 2 lc rgb '{common.ENGINE}' \\
         title 'engine, 16 sequences per 16 GPUs'
""", {"rows": [[c["gpus"], c["published"], largest(c), *zero.ends(c["answer"]), same(16)(c)]
               for c in rows]})


def main():
    rows = run()
    write(rows)
    plot(rows)


if __name__ == "__main__":
    main()
