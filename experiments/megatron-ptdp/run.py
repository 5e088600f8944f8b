#!/usr/bin/python3
"""Megatron-LM with tensor slices, pipeline stages and data parallelism (PTD-P), and ZeRO-3 beside
it: TFLOP/s per GPU of the paper's Tables 1 and 2, and iterations of the recomputation paper.

    experiments/megatron-ptdp/run.py [--rows TEXT]

With --rows only rows whose name has the text are predicted, and printed instead of written."""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common  # noqa: E402

GPUS_PER_NODE, SEQ, VOCAB = 8, 2048, 51200
MICRO_BATCHES = (1, 2, 4, 8, 16, 32)
FULL = ("--activation-checkpoint-interval", 1)
# Every slice keeps whole checkpoints: distribute-checkpointed-activations is off by default.
METHODS = {
    "full": ("-s", "ddp", *FULL, "--checkpoint-partition", "off"),
    "zero3": ("-s", "zero3", *FULL),
    "selective+sequence": ("-s", "ddp", "--activation-checkpoint-interval", 0,
                           "--recompute-attention", "on"),
}


def number(row, key):
    return int(row[key])


def flops(row):
    """FLOPs of an iteration as the paper counts them (its Eq. 3), recomputation with them."""
    layers, hidden = number(row, "layers"), number(row, "hidden")
    return (96 * number(row, "batch") * SEQ * layers * hidden ** 2
            * (1 + SEQ / (6 * hidden) + VOCAB / (16 * layers * hidden)))


def in_unit(row, seconds):
    if row["unit"] == "s":
        return seconds
    return flops(row) / number(row, "gpus") / seconds / 1e12


def replicas(row):
    return number(row, "gpus") // (number(row, "tp") * number(row, "pp"))


def micro_batches(row):
    """Those that divide what a replica has, if the paper gives none."""
    each = number(row, "batch") // replicas(row)
    given = number(row, "micro_batch")
    return [given] if given else [b for b in MICRO_BATCHES if each % b == 0]


def virtual_stages(row, micro_batch):
    """Stretches of a stage: all that divide its layers, where micro-batches come in groups of as
    many as there are stages.  Table 1 is of the interleaved schedule (Sec. 5.1)."""
    pp, each = number(row, "pp"), number(row, "layers") // number(row, "pp")
    if pp == 1:
        return [1]
    grouped = number(row, "batch") // replicas(row) // micro_batch % pp == 0
    least = 2 if row["table"] == "1" else 1
    return [v for v in range(least, each + 1) if each % v == 0 and (v == 1 or grouped)]


def question(row, micro_batch, stretches):
    tp, pp = number(row, "tp"), number(row, "pp")
    model = (f"layers={row['layers']},hidden={row['hidden']},heads={row['heads']},vocab={VOCAB},"
             f"seq={SEQ},architecture=gpt2")
    interleaved = ("--schedule", "interleaved", "--virtual-stages", stretches)
    return ("-m", model, "-H", "dgx-a100", "--nodes", number(row, "gpus") // GPUS_PER_NODE,
            *(("--tp", tp) if tp > 1 else ()), *(("--pp", pp) if pp > 1 else ()),
            *(interleaved if stretches > 1 else ()), "--seq", SEQ,
            "--batch", f"{micro_batch / tp:g}", "--global-batch", number(row, "batch"),
            "--commit", "none", "--software", row["software"], *METHODS[row["method"]],
            *(("--sequence-parallel", "on" if "sequence" in row["method"] else "off")
              if tp > 1 and row["software"] == "megatron-2022" else ()))


def ask(row, micro_batch, stretches):
    answer = common.memwall("simulate", *question(row, micro_batch, stretches), interval=None)
    return {"micro_batch": micro_batch, "stretches": stretches, "answer": answer}


def predict(row):
    """The fastest of what the paper leaves open, as its authors say of theirs."""
    asked = [ask(row, b, v) for b in micro_batches(row) for v in virtual_stages(row, b)]
    fitting = [it for it in asked if it["answer"]["feasible"]]
    published = float(row["value"])
    if not fitting:
        return {"row": row["row"], "table": row["table"], "unit": row["unit"], "fits": False,
                "published": published, "flag": row["flag"], "software": row["software"]}
    best = min(fitting, key=lambda it: it["answer"]["step_time_s"])
    answer = best["answer"]
    times = answer["range"]["step_time_s"]
    ends = sorted(in_unit(row, times[end]) for end in ("low", "high"))
    found = common.compare(row["row"], published, {"engine": in_unit(row, answer["step_time_s"]),
                                                   "low": ends[0], "high": ends[1]}, row["flag"])
    return {**found, "table": row["table"], "unit": row["unit"], "fits": True,
            "software": row["software"], "micro_batch": best["micro_batch"],
            "stretches": best["stretches"], "open": len(asked) > 1,
            "gpu_gib": answer["peak_bytes"]["gpu"] / 2 ** 30}


def mean_abs(rows):
    return sum(abs(row["engine_error"]) for row in rows) / len(rows)


def worst(rows):
    return max(abs(row["engine_error"]) for row in rows)


def table(rows):
    return common.markdown_table(
        ["row", "unit", "published", "predicted", "error", "low", "high", "in range", "micro-batch",
         "virtual stages", "GPU GiB"],
        [[r["row"], r["unit"], r["published"], r["engine"], common.percent(r["engine_error"]),
          r["low"], r["high"], common.yes(r["in_range"]), r["micro_batch"], r["stretches"],
          r["gpu_gib"]] for r in rows if r["fits"]])


def said(rows, what):
    good = [r for r in rows if r["fits"]]
    return (f"{what}: {len(good)} of {len(rows)} fit as published; mean error "
            f"{mean_abs(good):.1f}%, at most {worst(good):.1f}%. The predicted range holds "
            f"{sum(r['in_range'] for r in good)} of {len(good)} within 5%.\n")


def of(rows, table_number, software="megatron"):
    return [r for r in rows if r["table"] == table_number and r["software"].startswith(software)]


def write(rows):
    ptd, zero = of(rows, "1") + of(rows, "2"), of(rows, "2", "deepspeed")
    later = of(rows, "5")
    common.write_text(HERE / "result.md", f"""\
# Result: Megatron-LM with tensor slices, pipeline stages and data parallelism

On DGX A100 640GB. TFLOP/s per GPU count FLOPs as the paper does, with those of recomputation.

## PTD-P, Tables 1 and 2 of arXiv 2104.04473

{table(ptd)}
{said(ptd, "By --software megatron-2021")}
## The recomputation paper, Table 5 of arXiv 2205.05198

{table(later)}
{said(later, "By --software megatron-2022")}
## ZeRO-3 in Table 2

{table(zero)}
{said(zero, "By --software deepspeed-0.3.15")}
## What the model lacks

{lacks()}""")
    common.write_csv(
        HERE / "result.csv",
        ["table", "row", "flag", "unit", "published", "engine", "engine_error_percent", "low",
         "high", "micro_batch", "virtual_stages"],
        [[r["table"], r["row"], r["flag"], r["unit"], r["published"], r.get("engine"),
          r.get("engine_error"), r.get("low"), r.get("high"), r.get("micro_batch"),
          r.get("stretches")] for r in rows])


def lacks():
    return common.bullets(
        "Megatron-LM starts its kernels from Python, and after each exchange between stages waits "
        "for the GPU (torch.cuda.synchronize), so that it begins the next pass with an empty "
        "queue. That time is not known and not counted.",
        "An exchange sends and receives in both directions at once, once for a forward and a "
        "backward pass; here each send starts when its pass has ended.",
        "Left out: copies of q, k, v and of "
        "attention's result between layouts, 24 bytes per token and hidden element, under 1% of "
        "a layer; gradients that are summed in 16 bits, where the plan has 32.",
        "Products are those of the cuBLAS of rates/products.csv, which is later than 2021.",
        "ZeRO-3 of 2021 starts an operator or more per rank and parameter around its collectives "
        "(docs/MODEL.md, 12.5h): by their number alone, each as long as the start of a kernel, an "
        "estimate of 3 to 6 us. Whether and how much of it is hidden is not known.")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="TEXT")
    part = parser.parse_args().rows
    rows = [predict(row) for row in common.read_csv(HERE / "published.csv")
            if not part or part in row["row"]]
    if part:
        print(table(rows))
    else:
        write(rows)


if __name__ == "__main__":
    main()
