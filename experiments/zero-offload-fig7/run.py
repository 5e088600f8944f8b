"""ZeRO-Offload Fig. 7: the largest model on 1, 4 and 16 GPUs of a DGX-2."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero_offload

LAYOUTS = {"16": "zero16", "20": "paper20"}
ROUNDING = 0.95  # labels are rounded: 30 stands for 29.8
BILLION = 1e9
# ZeRO-Offload with its authors' configuration of buckets, ZeRO-2 with DeepSpeed's defaults.
DEFAULTS = ("--software", "deepspeed-0.3")
SOFTWARE = {"ddp": DEFAULTS, "zero2": DEFAULTS, "zero-offload": zero_offload.SOFTWARE}


def largest(config, layout, sequences):
    """The largest model of this hidden size, billion parameters."""
    mp = int(config["mp"])
    answer = common.memwall("plan", "--largest", "-m", config["model"], "-H", "dgx2",
                            "-s", config["strategy"], "--gpus", config["gpus"], "--tp", mp,
                            "--batch", sequences / mp, "--activation-device", "gpu",
                            "--state-layout", LAYOUTS[layout], *SOFTWARE[config["strategy"]])
    return answer["paper_params"] / BILLION


def run():
    bars = {(r["gpus"], r["system"]): float(r["largest_b"])
            for r in common.read_csv(HERE / "published.csv")}
    rows = []
    for c in common.read_csv(HERE / "configs.csv"):
        row = {"gpus": int(c["gpus"]), "system": c["system"], "mp": int(c["mp"]),
               "published": bars[c["gpus"], c["system"]],
               "next": float(c["next_b"]) if c["next_b"] else None,
               **{layout: largest(c, layout, 1) for layout in LAYOUTS}}
        row["batch"] = c["batch"] or None
        row["at batch"] = largest(c, "20", int(c["batch"])) if c["batch"] else None
        rows.append(row)
    return rows


def fits(predicted, size):
    return predicted >= ROUNDING * size


def verdicts(row, key):
    """Whether the published largest fits, and the next larger one (an optimistic error)."""
    return fits(row[key], row["published"]), row["next"] is not None and row[key] >= row["next"]


def table(rows):
    lines = []
    for r in rows:
        own, following = verdicts(r, "20")
        lines.append([r["system"], r["gpus"], r["mp"], r["published"],
                      *(x for key in ("20", "16") for x in (r[key], common.percent(
                          common.error_percent(r[key], r["published"])))),
                      common.yes(own), common.figure(r["next"]),
                      "" if r["next"] is None else "fits: **optimistic**" if following else "no",
                      common.yes(own and not following)])
    return common.markdown_table(["system", "GPUs", "slicing", "published", "20 bytes", "error",
                                  "16 bytes", "error", "published fits", "next larger", "fits",
                                  "right"], lines)


def batch_table(rows):
    return common.markdown_table(
        ["GPUs", "published", "1 sequence", "Table 3's batch", "largest with it", "error"],
        [[r["gpus"], r["published"], r["20"], r["batch"], r["at batch"],
          common.percent(common.error_percent(r["at batch"], r["published"]))]
         for r in rows if r["batch"]])


def shown_table():
    rows = common.read_csv(HERE / "published.csv")
    names = ("Megatron", "SwapAdvisor", "L2L")
    return common.markdown_table(["GPUs", *names], [
        [gpus, *(next(r["largest_b"] for r in rows if r["gpus"] == gpus and r["system"] == n)
                 for n in names)] for gpus in ("1", "4", "16")])


def write(rows):
    right = sum(v == (True, False) for v in (verdicts(r, "20") for r in rows))
    optimistic = [f"{r['system']} on {r['gpus']}" for r in rows if verdicts(r, "20")[1]]
    errors = {k: common.median_abs([common.error_percent(r[k], r["published"]) for r in rows])
              for k in LAYOUTS}
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Offload Fig. 7, the largest model

Billion parameters.  Verdicts at 20 bytes of state a parameter, 1 sequence a slicing group.

{table(rows)}
Verdicts right for {right} of {len(rows)}; optimistic errors: {", ".join(optimistic) or "none"}.
Median error of the largest model: {errors["20"]:.0f}% at 20 bytes, {errors["16"]:.0f}% at 16.

ZeRO-Offload with the batch of Table 3:

{batch_table(rows)}
As published, not predicted:

{shown_table()}
## What the model lacks

{common.bullets(
    "ZeRO-2 on 4 and 16 GPUs, ZeRO-Offload on 1 and 16: too large by 12 to 13%.  The software "
    "takes buckets, copies of gradients and what its allocator typically loses, 3.6% of the "
    "memory.  The loss is known to be anything from nothing to a quarter (`rates/allocator.csv`); "
    "no figure is chosen for this one.",
    "The models have no embedding, as the paper rounds them.  With the vocabulary of GPT-2 they "
    "would hold 0.2B parameters more at hidden size 4096, and DeepSpeed's copies of the largest "
    "gradient would be of the embedding's: 2 GB more of a GPU.",
    "ZeRO-2 on 16 GPUs: the ZeRO-Infinity paper (Fig. 6a) trained 10B where this one says 8B, so "
    "published figures of the same authors differ by as much as the prediction from either.",
    "ZeRO-Offload on 4 GPUs is the one that comes out too small: 15B of a GPU's parameters in "
    "16 bits are 30 GB of 34, so that it ran at all leaves the allocator less to lose than is "
    "typical.",
    "ZeRO-Offload on 16 GPUs: here host memory is the limit, so the state's bytes decide.",
    "PyTorch on 1 GPU: the plan reduces nothing there and has no buckets; wrapped in "
    "DistributedDataParallel it has them on one GPU too, as on 4.",
    "The 15B of Table 3 ran with slicing 2, which is taken as not fitting with 1.")}""")
    common.write_csv(HERE / "result.csv",
                     ["system", "gpus", "slicing", "published_b", "flag", "largest_20_bytes_b",
                      "largest_16_bytes_b", "table3_batch", "largest_table3_batch_b",
                      "published_fits", "next_b", "next_fits"],
                     [[r["system"], r["gpus"], r["mp"], r["published"], "printed", r["20"], r["16"],
                       r["batch"], r["at batch"], common.yes(verdicts(r, "20")[0]), r["next"],
                       common.yes(verdicts(r, "20")[1])] for r in rows])


def plot(rows):
    data = [[i, f"{r['system']}\\n{r['gpus']} GPU" + ("s" if r["gpus"] > 1 else ""),
             r["published"], r["20"], r["16"], r["at batch"]] for i, r in enumerate(rows)]
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO-Offload Fig. 7: the largest model' font ',16'
set ylabel 'billion parameters'
set logscale y
set yrange [1:150]
set xrange [-0.6:{len(rows) - 0.4}]
set boxwidth 0.5
set style fill solid 0.35 noborder
set key top left samplen 1.5
set bmargin 4
plot $rows using 1:3:xtic(2) with boxes lc rgb '{common.PUBLISHED}' title 'published', \\
     $rows using 1:4 with points pt 7 ps 1.1 lc rgb '{common.ENGINE}' title '20 bytes', \\
     $rows using 1:5 with points pt 6 ps 1.1 lw 2 lc rgb '{common.ENGINE}' title '16 bytes', \\
     $rows using ($1+0.15):6 with points pt 9 ps 1.1 lc rgb '{common.OTHER}' \\
         title "20 bytes, Table 3's batch"
""", {"rows": data}, size=(1150, 560))


def main():
    rows = run()
    write(rows)
    plot(rows)


if __name__ == "__main__":
    main()
