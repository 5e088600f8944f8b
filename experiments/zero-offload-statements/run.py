"""What ZeRO-Offload's paper and announcement say of speed and size on 1 to 128 GPUs."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero
import zero_offload

TOTAL_BATCH, GPUS = 512, (1, 4, 8, 16, 32, 64, 128)
OFFLOAD = ("-s", "zero-offload", *zero_offload.PLANNED)
AS_RUN = ("-s", "zero-offload", *zero_offload.AS_RUN)
ZERO2 = ("-s", "zero2", "--state-layout", "paper20", "--software", "deepspeed-0.3")
OLD = ("--tiles", 1, "--software", "pytorch-2020")
SYSTEMS = {"Megatron-LM": ("-s", "ddp", *zero.WHOLE, *OLD), "L2L": ("-s", "l2l", *OLD)}


def name(row, heads=None):
    return zero.dimensions(row, heads or int(row["heads"]))


def ask(verb, row, gpus, mp, options, *more):
    """A DGX-2, or as many as those GPUs are."""
    heads = int(row["heads"])
    return common.memwall(
        verb, "-m", name(row, heads if heads % mp == 0 else 1 << heads.bit_length()), "-H", "dgx2",
        "--nodes", max(1, gpus // 16), "--gpus", min(gpus, 16),
        *(("--tp", mp, "--sequence-parallel", "off") if mp > 1 else ()), "--commit", "none",
        *options, *more)


def speed(row, gpus, mp, options):
    """TFLOP/s per GPU with 512 sequences per step in the fewest micro-batches; None: no room."""
    answer = ask("simulate", row, gpus, mp, options, "--global-batch", TOTAL_BATCH)
    return zero.tflops(answer) if answer["feasible"] else None


def table3():
    """Each configuration with its batch, on one GPU up to 13B, on the 16 of a DGX-2 above."""
    rows = []
    for row in common.read_csv(HERE / "configs.csv"):
        mp, gpus = int(row["mp"]), 1 if float(row["params_b"]) <= 13 else 16
        answer = ask("plan", row, gpus, mp, AS_RUN, "--batch", int(row["batch"]) / mp,
                     "--grad-accum", 1)
        rows.append({"row": row, "gpus": gpus, "answer": answer})
    return rows


def largest():
    rows = []
    for row in common.read_csv(HERE / "published.csv"):
        mp = int(row["mp"])
        answer = ask("plan", row, int(row["gpus"]), mp, SYSTEMS[row["system"]], "--batch", 1 / mp,
                     "--largest")
        rows.append({"row": row, "predicted": answer["paper_params"] / 1e9,
                     "published": float(row["largest_b"])})
    return rows


def fewest(row, gpus):
    """Of Megatron-LM's slices, those that hold the model with one sequence."""
    return next((mp for mp in (1, 2, 4, 8, 16) if mp <= gpus and ask(
        "plan", row, gpus, mp, SYSTEMS["Megatron-LM"], "--batch", 1 / mp,
        "--grad-accum", 1)["feasible"]), None)


def systems():
    """On one DGX-2: ZeRO-Offload, ZeRO-2 and slices, for each model of Table 3."""
    rows = []
    for row in common.read_csv(HERE / "configs.csv"):
        slices = fewest(row, 16)
        rows.append({"row": row, "offload": speed(row, 16, int(row["mp"]), OFFLOAD),
                     "zero2": speed(row, 16, 1, ZERO2), "slices": slices,
                     "megatron": slices and speed(row, 16, slices, SYSTEMS["Megatron-LM"])})
    return rows


def scaling():
    row = next(r for r in common.read_csv(HERE / "configs.csv") if r["params_b"] == "10")
    return {gpus: {"overlapped": speed(row, gpus, 1, OFFLOAD),
                   "as run": speed(row, gpus, 1, AS_RUN)}
            for gpus in GPUS}


def fits_table(rows):
    return common.markdown_table(
        ["model", "layers", "hidden", "slices", "batch", "GPUs", "fits", "GPU memory short"],
        [[f"{c['row']['params_b']}B", c["row"]["layers"], c["row"]["hidden"], c["row"]["mp"],
          c["row"]["batch"], c["gpus"], common.yes(c["answer"]["feasible"]), short(c["answer"])]
         for c in rows])


def short(answer):
    return "" if answer["feasible"] else f"{answer['short_bytes'] / 2**30:.1f} GiB"


def largest_table(rows):
    return common.markdown_table(
        ["system", "GPUs", "published", "memwall", "error"],
        [[c["row"]["system"], c["row"]["gpus"], c["published"], c["predicted"],
          common.percent(common.error_percent(c["predicted"], c["published"]))] for c in rows])


def systems_table(rows):
    return common.markdown_table(
        ["model", "ZeRO-Offload", "ZeRO-2", "slices", "Megatron-LM"],
        [[f"{c['row']['params_b']}B", *(none(c[key]) for key in ("offload", "zero2")),
          c["slices"] or "", none(c["megatron"])] for c in rows])


def none(value):
    return "no room" if value is None else value


def scaling_table(by_gpus):
    return common.markdown_table(
        ["GPUs", "overlapped", "as run"],
        [[gpus, c["overlapped"], c["as run"]] for gpus, c in by_gpus.items()])


def ahead(rows, other):
    """Of the models that both train: on how many ZeRO-Offload is the faster one."""
    both = [c for c in rows if c["offload"] and c[other]]
    return sum(c["offload"] > c[other] for c in both), len(both)


def statements(fits, most, where, by_gpus):
    last = {c["row"]["params_b"]: c["answer"]["feasible"] for c in fits}
    least = min(c["as run"] for c in by_gpus.values())
    kept = by_gpus[128]["overlapped"] / by_gpus[1]["overlapped"]
    found = [
        ["13B trains on one V100", "yes", common.yes(last["13"]), last["13"]],
        ["70B trains on one DGX-2 with slices of 8", "yes", common.yes(last["70"]), last["70"]],
        ["all of Table 3 trains", f"{len(fits)} of {len(fits)}",
         f"{sum(last.values())} of {len(fits)}", all(last.values())],
        ["10B: more than 30 TFLOP/s per GPU, as run, on 1 to 128", "> 30",
         f"{least:.1f} at least", least > 30],
        ["and nearly linear: per GPU within a tenth from 1 to 128", "nearly", f"{kept:.2f}",
         kept > 0.9],
    ]
    for other, title in (("megatron", "slices (Megatron-LM)"), ("zero2", "ZeRO-2")):
        faster, both = ahead(where, other)
        found.append([f"on 16 GPUs faster than {title}, where both train", "faster",
                      f"{faster} of {both} models", both and faster == both])
    off = [common.error_percent(c["predicted"], c["published"]) for c in most]
    found += [[f"{c['row']['system']} trains at most {c['row']['largest_b']}B on "
               f"{c['row']['gpus']}, within a fifth", f"{c['row']['largest_b']}B",
               f"{common.figure(c['predicted'])}B", abs(e) <= 20] for c, e in zip(most, off)]
    return found


def write(fits, most, where, by_gpus):
    found = statements(fits, most, where, by_gpus)
    common.write_text(HERE / "result.md", f"""\
# Result: what is said of ZeRO-Offload

{zero.statements_table(found)}
{zero.held(found)}

## Table 3: does it fit?

{fits_table(fits)}
## The largest model of other systems

Billion parameters, one sequence per group of slices.

{largest_table(most)}
## One DGX-2

TFLOP/s per GPU, 512 sequences per step; ZeRO-Offload with Table 3's slices, Megatron-LM with the
fewest that hold the model.

{systems_table(where)}
## 10B on 1 to 128 GPUs

{scaling_table(by_gpus)}
## What the model lacks

{common.bullets(
    "Table 3's 40B and 60B with slices of 2 cannot be: 16-bit parameters alone are 40 and 60 GB of "
    "each GPU's 32. The table is taken at its word.",
    "L2L: what it needs of a GPU here is two layers and a batch's activations, so host memory "
    "decides, of which a GPU has its sixteenth of a DGX-2. What stopped the authors at 17B is not "
    "stated.",
    "Megatron-LM on 4 and 16 GPUs: with one sequence; the authors' batches are not printed, and "
    "its checkpoints are whole in every slice, so that a larger batch leaves room for less.",
    "On 16 GPUs offload costs a tenth here where ZeRO-2 trains too; the paper finds it the faster "
    "one. Its baselines are slower than predicted (`../zero-offload-fig8`, `../zero-fig4`).",
    "On 128 GPUs a step of 512 sequences leaves 4 to each, between updates that take as long as "
    "ever for what a node keeps; which batch the authors had there is not stated.")}""")
    common.write_csv(HERE / "result.csv", ["statement", "published", "memwall", "holds"],
                     [[*row[:3], common.yes(row[3])] for row in found])


def plot(by_gpus):
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO-Offload, 10B, 512 sequences per step' font ',16'
set xlabel 'GPUs' offset 0,0.6
set ylabel 'TFLOP/s per GPU'
set logscale x 2
set xrange [0.8:160]
set yrange [0:80]
set xtics (1, 4, 8, 16, 32, 64, 128)
set key outside bottom center horizontal samplen 1.5
plot 30 with lines lw 2 lc rgb '{common.PUBLISHED}' title 'published: more than 30', \\
     $rows using 1:2 with linespoints pt 7 lw 2 lc rgb '{common.ENGINE}' \\
         title 'engine, overlapped', \\
     $rows using 1:3 with linespoints pt 6 dt 2 lw 2 lc rgb '{common.ENGINE}' \\
         title 'engine, as run'
""", {"rows": [[gpus, c["overlapped"], c["as run"]] for gpus, c in by_gpus.items()]})


def main():
    by_gpus = scaling()
    write(table3(), largest(), systems(), by_gpus)
    plot(by_gpus)


if __name__ == "__main__":
    main()
