"""ZeRO-Infinity Table 1: published batch sizes against `--batch auto`."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero_infinity

CHECKPOINTS = ("--activation-device", "cpu")


def plan(row, batch, *options):
    return common.memwall("plan", *zero_infinity.shape(row), "--batch", batch,
                          *zero_infinity.devices(row), *CHECKPOINTS, *options)


def largest(row, *options):
    """The largest batch that fits, None without one; its plan; the plan of the next batch, or None
    if it fits in parts that make a step of too many ops."""
    answer = plan(row, "auto", *options)
    batch = answer["settings"]["micro_batch"] if answer["feasible"] else None
    try:
        further = plan(row, batch + 1 / float(row["mp"]), *options) if batch else answer
    except common.Failed as failure:
        if "take too long" not in str(failure):
            raise
        further = None
    return {"batch": batch, "answer": answer, "next": further}


def examine(row):
    return {"row": row, "label": zero_infinity.label(row), "published": float(row["batch_per_gpu"]),
            "as_published": plan(row, row["batch_per_gpu"]), "open": largest(row),
            "untiled": largest(row, "--tiles", "1")}


def share(answer, tier):
    t = answer["tiers"][tier]
    return f"{100 * t['peak_bytes'] / t['capacity_bytes']:.0f}%"


def batch_text(case):
    return "none" if case["batch"] is None else f"{case['batch']:g}"


def next_lacks(case):
    return zero_infinity.shortage(case["next"]) if case["next"] else "fits in too many ops"


def next_tier(case):
    return case["next"]["limiting_tier"] if case["next"] else "ops"


def ratio(case, published):
    return "" if case["batch"] is None else case["batch"] / published


def result_table(cases):
    return common.markdown_table(
        ["row", "devices", "published", "verdict", "tiles", "gpu", "cpu", "nvme"],
        [[c["label"], f"{c['row']['param_device']}/{c['row']['optimizer_device']}",
          f"{c['published']:g}",
          "fits" if c["as_published"]["feasible"] else
          "does not fit: " + zero_infinity.shortage(c["as_published"]),
          c["as_published"]["settings"]["tiles"],
          *(share(c["as_published"], t) for t in ("gpu", "cpu", "nvme"))] for c in cases])


def auto_table(cases):
    return common.markdown_table(
        ["row", "published", "auto", "auto / published", "tiles", "next batch lacks",
         "auto, untiled", "next batch, untiled, lacks"],
        [[c["label"], f"{c['published']:g}", batch_text(c["open"]),
          ratio(c["open"], c["published"]), c["open"]["answer"]["settings"]["tiles"],
          next_lacks(c["open"]),
          batch_text(c["untiled"]), next_lacks(c["untiled"])] for c in cases])


def host_limit(row):
    """The largest batch whose checkpoints fit host memory, were GPU memory not to limit."""
    batch = float(row["batch_per_gpu"])
    while True:
        batch += 1 / float(row["mp"])
        answer = plan(row, batch, "--set", "gpu.memory_gib=1000")
        if not answer["feasible"]:
            return batch - 1 / float(row["mp"]), answer


def twenty_trillion(case):
    row, published = case["row"], case["as_published"]
    batch, beyond = host_limit(row)
    checkpoints = next(e["bytes"] for e in published["ledger"]
                       if (e["tier"], e["purpose"]) == ("cpu", "activation-checkpoints"))
    return (
        "20T: the paper says that host memory for checkpoints keeps its batch small.  In the "
        f"ledger the checkpoints of batch {case['published']:g} are {16 * checkpoints / 2**30:.0f} "
        f"GiB of a node's host memory, {share(published, 'cpu')} with all that is there.  The next "
        f"limit is GPU memory, behind batch {batch_text(case['open'])}: the activations that the "
        f"backward of one block of hidden size 90112 needs, {working_gib(published):.1f} GiB at "
        f"batch {case['published']:g} as memwall counts them (with dropout masks, unfused scores "
        f"and what slicing leaves whole), {paper_working_gib(row):.1f} GiB by the paper's Eq. 5.  "
        f"Without that limit {beyond['limiting_tier'].upper()} memory is next, as the paper says, "
        f"but behind batch {batch:g}, not {case['published']:g}.  What else the authors' software "
        "kept in host memory (copies of gradients, pinned buffers by the tensor) is not published; "
        "the reserve of 64 GiB a node does not cover the 600 GiB that are free here.")


def working_gib(answer):
    return sum(e["bytes"] for e in answer["ledger"]
               if (e["tier"], e["purpose"]) == ("gpu", "activations")) / 2**30


def paper_working_gib(row, heads=704):
    """Eq. 5 of the paper with ci 1, over the ranks of a slicing group."""
    hidden, slicing = int(row["hidden_k"]) * 1024, int(row["mp"])
    sequences = float(row["batch_per_gpu"]) * slicing
    return sequences * 1024 * (16 * hidden + 2 * heads * 1024) / slicing / 2**30


def lacks(cases):
    by_label = {c["label"]: c for c in cases}
    half = by_label["0.5T, 32 nodes"]["row"]
    smaller = plan(half, "auto", "--state-layout", "zero16")
    return common.bullets(
        twenty_trillion(by_label["20T, 32 nodes"]),
        "0.5T and 1T on 32 nodes: placed on the GPU as printed, they do not fit with 20 bytes of "
        "state a parameter (`../zero-infinity-fig5a/result.md`).  With 16 bytes "
        f"`--batch auto` gives {smaller['settings']['micro_batch']:g} for 0.5T, published "
        f"{half['batch_per_gpu']}.",
        "Auto means the largest that fits; the authors took what ran fast enough with room to "
        "spare, so a ratio above 1 is no error by itself.  10B shows it best: 8 sequences use half "
        "of the GPU.",
        "Without tiling 10T and 20T do not fit at any batch, and 1T and 5T not at the published "
        "one: by this ledger the published runs were tiled, as their authors recommend elsewhere "
        "(DeepSpeed issue 1776).")


def write(cases):
    fits = [c for c in cases if c["as_published"]["feasible"]]
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Infinity Table 1, batch sizes

## Does the published batch fit?

Devices: parameters / optimizer state; checkpoints in host memory.  Shares are of what is usable.

{result_table(cases)}
{common.paragraph(f"{len(fits)} of {len(cases)} published batches fit.")}

## The largest batch

{auto_table(cases)}
## What the model lacks

{lacks(cases)}""")
    common.write_csv(
        HERE / "result.csv",
        ["row", "published_batch", "fits", "auto_batch", "auto_tiles", "next_limiting_tier",
         "untiled_batch", "untiled_next_limiting_tier"],
        [[c["label"], c["published"], common.yes(c["as_published"]["feasible"]), c["open"]["batch"],
          c["open"]["answer"]["settings"]["tiles"], next_tier(c["open"]),
          c["untiled"]["batch"], next_tier(c["untiled"])] for c in cases])


def plot(cases):
    rows = [[i, c["label"].replace(", ", "\\n"), c["published"], c["open"]["batch"],
             c["untiled"]["batch"]] for i, c in enumerate(cases)]
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO-Infinity Table 1: batch per GPU' font ',16'
set ylabel 'sequences per GPU'
set logscale y 2
set yrange [0.25:128]
set xrange [-0.6:{len(rows) - 0.4}]
set boxwidth 0.5
set style fill solid 0.35 noborder
set key top right
set bmargin 4
plot $rows using 1:3:xtic(2) with boxes lc rgb '{common.PUBLISHED}' title 'published', \\
     $rows using 1:4 with points pt 7 ps 1.1 lc rgb '{common.ENGINE}' \\
         title 'largest that fits, tiled as needed', \\
     $rows using ($1+0.15):5 with points pt 5 ps 1.0 lc rgb '{common.CLOSED_FORM}' \\
         title 'largest that fits, untiled'
""", {"rows": rows}, (1000, 560))


def main():
    cases = [examine(row) for row in zero_infinity.table1()]
    write(cases)
    plot(cases)


if __name__ == "__main__":
    main()
