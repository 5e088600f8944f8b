"""ZeRO-Infinity Fig. 6e: step time with checkpoints on the CPU over that with them on the GPU."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero_infinity

BATCH = 4


def options(row):
    strategy = "zero-infinity-nvme" if row["optimizer_device"] == "nvme" else "zero-infinity-cpu"
    return ("-m", row["model"], "-s", strategy, "--nodes", int(row["gpus"]) // 16,
            "--batch", BATCH, "--param-device", "gpu", "--optimizer-device",
            row["optimizer_device"], "--gradient-device", row["optimizer_device"],
            *zero_infinity.SETTINGS)


def pair(row, *more):
    """The answers with the checkpoints on the CPU and on the GPU, with equal tiling."""
    places = ("cpu", "gpu")
    answers = [common.memwall("simulate", *options(row), "--activation-device", p, *more)
               for p in places]
    tiles = max(a["settings"]["tiles"] for a in answers)
    return [a if a["settings"]["tiles"] == tiles else
            common.memwall("simulate", *options(row), "--activation-device", p, "--tiles", tiles,
                           *more) for a, p in zip(answers, places)]


def overhead(cpu, gpu):
    return {**zero_infinity.step_ratio(cpu, gpu),
            "closed_form": cpu["closed_form"]["paper"] / gpu["closed_form"]["paper"]}


def run():
    rows = []
    for r in common.read_csv(HERE / "published.csv"):
        cpu, gpu = pair(r, "--overlap", "off")
        c = common.compare(f"hidden {r['hidden_k']}K", float(r["overhead"]), overhead(cpu, gpu),
                           r["flag"])
        moved = 4 * 5 * int(r["hidden_k"]) * 1024 * BATCH * 1024  # there and back, 2 B an element
        extra = (c["published"] - 1) * gpu["step_time_s"]
        c.update(hidden=int(r["hidden_k"]), overlapped=overhead(*pair(r))["engine"],
                 step=gpu["step_time_s"], copies=cpu["step_time_s"] - gpu["step_time_s"],
                 moved_gb=moved / 1e9, implied=moved / extra / 1e9,
                 tiles=gpu["settings"]["tiles"])
        rows.append(c)
    return rows


def time_table(rows):
    return common.markdown_table(
        ["hidden", "tiles", "step on GPU s", "copies s", "copied GB", "overlapped engine",
         "rate that the published overhead implies, GB/s a GPU"],
        [[f"{c['hidden']}K", c["tiles"], c["step"], c["copies"], c["moved_gb"],
          f"{c['overlapped']:.3f}", c["implied"]] for c in rows])


def write(rows):
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Infinity Fig. 6e, cost of offloading activation checkpoints

Step time with checkpoints on the CPU over step time with them on the GPU.

{common.comparison_table(rows, 4)}
{common.summary(rows)}
The 5% are of a ratio near 1, so the excess over 1 is what to look at.

{zero_infinity.OUTLOOKS}
## Where the time goes

Seconds a step.  Copied: 2 bytes an element to the CPU and back, per GPU.

{time_table(rows)}
## Shape

{common.paragraph(
    "Engine and closed form fall with the hidden size: compute grows with its square, the "
    "checkpoints with it.  Published, the overhead stays at 1.2 until 16K and falls from 32K on; "
    "the engine's falls from the start, because its copies keep their rate.  The overlapped engine "
    "hides none of them: copies of checkpoints block compute in this software.")}

## What the model lacks

{common.bullets(
    "Pageable copies.  The published overheads imply about 1 GB/s a GPU from 8K on (last column, "
    "with the engine's step time), a third of what the 16 GPUs of a node get together from their "
    "links.  DeepSpeed's buffers for checkpoints on the CPU are ordinary memory: allocated with "
    "`new_empty` on the CPU, touched page by page first, then filled by a blocking copy "
    "(`checkpointing.py`).  Such a copy goes through a bounce buffer with one core a GPU.  Fig. "
    "6c shows about the same rate.  The software profile has 1.4 GB/s to the host and 5.5 back, of "
    "one GPU; what 16 of a node get at once is not known.",
    "At 2K the implied rate is that of the links, twice that of the profile.")}""")
    common.write_comparison_csv(HERE / "result.csv", rows)


def plot(rows):
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO-Infinity Fig. 6e: cost of checkpoints on the CPU' font ',16'
set xlabel 'hidden size' offset 0,0.6
set ylabel 'step time over that with checkpoints on the GPU'
set logscale x 2
set xrange [1.6:80]
set yrange [0.95:1.5]
set xtics ('2K' 2, '8K' 8, '16K' 16, '32K' 32, '64K' 64)
set key outside bottom center horizontal samplen 1.5
plot $rows using 1:2 with linespoints pt 5 lw 2 lc rgb '{common.PUBLISHED}' title 'published', \\
     $rows using ($1*1.04):3:4:5 with yerrorbars pt 7 lw 2 lc rgb '{common.ENGINE}' \\
         title 'engine without overlap, low to high', \\
     $rows using ($1*0.96):6 with points pt 5 lc rgb '{common.CLOSED_FORM}' \\
         title "the paper's closed form", \\
     $rows using 1:7 with points pt 6 lw 2 lc rgb '{common.ENGINE}' title 'engine, overlapped'
""", {"rows": [[c["hidden"], c["published"], c["engine"], c["low"], c["high"], c["closed_form"],
                c["overlapped"]] for c in rows]})


def main():
    rows = run()
    write(rows)
    plot(rows)


if __name__ == "__main__":
    main()
