"""13B on one RTX 4090 by the number of drives, against LoHan's measurements."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero_offload

READ_GB_PER_S, WRITE_GB_PER_S = (3.25, 6.0, 6.5), (1.25, 3.4, 3.6)  # a drive: low, typical, high
CAPACITY_TB, RESERVE_TB, QUEUE_DEPTH = 3.84, 0.0384, 16
OPTIONS = ("-m", "gpt3-13b", "-H", "rtx4090-12ssd", "--seq", 1024, "-s", "zero-infinity-nvme",
           "--param-device", "nvme", "--optimizer-device", "nvme", "--gradient-device", "cpu",
           "--activation-device", "nvme", "--commit", "none", "--software", "ratel")
BATCHES = (32, 48, 64)


def rates(per_drive, drives):
    return "; ".join(f"{drives * r:.6g}" for r in per_drive)


def drive_options(drives):
    keys = {"drives": drives, "queue_depth": QUEUE_DEPTH * drives,
            "capacity_tb": f"{CAPACITY_TB * drives:.6g}",
            "reserve_tb": f"{RESERVE_TB * drives:.6g}",
            "read_gb_per_s": rates(READ_GB_PER_S, drives),
            "write_gb_per_s": rates(WRITE_GB_PER_S, drives),
            "write_burst_gb_per_s": rates(WRITE_GB_PER_S, drives)}
    return [o for key, value in keys.items() for o in ("--set", f"nvme.{key}={value}")]


def run():
    rows = []
    for r in common.read_csv(HERE / "published.csv"):
        drives, batch = int(r["drives"]), int(r["batch"])
        answer = common.memwall("simulate", *OPTIONS, *drive_options(drives),
                                "--batch", batch)
        c = common.compare(f"{drives} drive{'s' * (drives > 1)}, batch {batch}",
                           float(r["tflops"]), common.prediction(answer), r["flag"])
        c.update(drives=drives, batch=batch, answer=answer)
        rows.append(c)
    return rows


def time_table(rows):
    table = []
    for c in rows:
        a, s = c["answer"], c["answer"]["settings"]
        table.append([c["row"], f"{s['grad_accum']} x {s['micro_batch']:.0f}", a["step_time_s"],
                      zero_offload.phase_s(a, "optimizer"), common.busy(a, "sm"),
                      common.busy(a, "drive"), a["bottleneck"], 0.75 * c["engine"],
                      common.percent(common.error_percent(0.75 * c["engine"], c["published"]))])
    return common.markdown_table(
        ["row", "micro-batches", "step s", "optimizer s", "compute s", "drives s", "bottleneck",
         "without recompute TFLOP/s", "error"], table)


def gain_table(rows):
    """Throughput over that with one drive."""
    table = []
    for batch in BATCHES:
        mine = [c for c in rows if c["batch"] == batch]
        table += [[f"batch {batch}, {key}", *(c[key] / mine[0][key] for c in mine)]
                  for key in ("published", "engine")]
    return common.markdown_table(["", *(f"{c['drives']} drives" if c["drives"] > 1 else "1 drive"
                                        for c in rows if c["batch"] == BATCHES[0])], table)


def bound_tflops(c):
    """With the step as short as its busiest lane or channel."""
    answer = c["answer"]
    busiest = max(x["busy_s"] for x in (*answer["channels"],
                                        *(lane for lane in answer["lanes"]
                                          if lane["name"] in ("compute", "host"))))
    return common.paper_tflops(answer, busiest)


def bound_error(c):
    return common.error_percent(bound_tflops(c), c["published"])


def bound_table(rows):
    return common.markdown_table(
        ["row", "published", "engine", "error", "bound", "error"],
        [[c["row"], c["published"], c["engine"], common.percent(c["engine_error"]),
          bound_tflops(c), common.percent(bound_error(c))] for c in rows])


def context_table():
    return common.markdown_table(["system", "setting", "value", "unit", "source"], [
        [r["system"], r["setting"], r["value"], r["unit"], r["source"]]
        for r in common.read_csv(HERE / "context.csv")])


def write(rows):
    first = next(c for c in rows if (c["drives"], c["batch"]) == (12, 32))
    common.write_text(HERE / "result.md", f"""\
# Result: 13B on one RTX 4090, by the number of drives

TFLOP/s.

{common.comparison_table(rows)}
{common.summary(rows)}
Low is far below: it takes the slow end of the drives (1.25 GB/s written a drive, a third of
typical) and of all else together.

## Shape: throughput over that with one drive

{gain_table(rows)}
Published and predicted gain most from the first drives and level off; the smaller the batch, the
more drives it needs.

## If nothing waited

{common.paragraph(
    "The step cannot be shorter than the busiest lane or channel.  The update runs beside the "
    "backward pass, and so the plan comes near this bound where the GPU is busy; with few drives "
    "forward and backward wait for them.")}

{bound_table(rows)}
Median error of the bound: {common.median_abs([bound_error(c) for c in rows]):.1f}%.

## Where the time goes

{time_table(rows)}
## A check of the sequence length

The engine's forward at batch 32 takes {zero_offload.phase_s(first["answer"], "forward"):.1f} s, as
long as a recompute; measured on this server (ZeRO-Infinity, LoHan's Fig. 1): 5.7 s.

## Published beside it

{context_table()}
## What the model lacks

{common.bullets(
    "Activations kept instead of recomputed, as far as host memory and drives allow: a quarter of "
    "the compute at most, and the rows with 6 and 12 drives come out 14 to 20% too slow.",
    "With one drive both are bound by the drive, and its bytes and rate decide: 144 GiB of state "
    "read and written a step, 24 GiB of parameters read three times and written once.")}""")
    common.write_comparison_csv(HERE / "result.csv", rows)


def plot(rows):
    colours = dict(zip(BATCHES, (common.ENGINE, common.OTHER, "#009e73")))
    blocks = {f"b{b}": [[c["drives"], c["published"], c["engine"], c["low"], c["high"]]
                        for c in rows if c["batch"] == b] for b in BATCHES}
    curves = ", \\\n     ".join(
        f"$b{b} using 1:2 with linespoints pt 5 lw 2 lc rgb '{colour}' title 'batch {b}, "
        f"measured', $b{b} using ($1*{shift}):3:4:5 with yerrorbars pt 7 lw 2 lc rgb '{colour}' "
        f"title 'engine'"
        for (b, colour), shift in zip(colours.items(), (0.97, 1.0, 1.03)))
    common.gnuplot(HERE / "plot.svg", f"""
set title '13B on one RTX 4090, by the number of drives' font ',16'
set xlabel 'drives' offset 0,0.6
set ylabel 'TFLOP/s'
set logscale x 2
set xrange [0.85:14]
set yrange [0:170]
set xtics (1, 2, 3, 6, 12)
set key outside bottom center vertical maxrows 2 samplen 1.5
plot {curves}
""", blocks)


def main():
    rows = run()
    write(rows)
    plot(rows)


if __name__ == "__main__":
    main()
