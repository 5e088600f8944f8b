#!/usr/bin/python3
"""Published training speeds of today's frameworks against predictions, with ideal software and
with the profile of the framework; one profile for all rows of a source.

    experiments/today/run.py [--rows FILE]

The rows of rows_development.csv alone are looked at during work on memwall.  Those of the holdout
file, kept packed so that nobody reads them by accident, are for a last look (README.md).
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common  # noqa: E402

# Machines by what the rows call the GPU; several are variants of the profile's (README.md).
MACHINES = {
    "H100-80GB-SXM": "dgx-h100",
    "H100-80GB-SXM (DGX H100)": "dgx-h100",
    "H100-80GB-SXM (DGX)": "dgx-h100",
    "H100-80GB-SXM (GCP A3)": "dgx-h100",
    "H100-80GB": "dgx-h100",
    "H100": "dgx-h100",
    "H100 (HF hopper-prod)": "dgx-h100",
    "H100-96GB-HBM2e (Meta Grand Teton, 500W)": str(HERE / "h100-500w.ini"),
    "H100-96GB-HBM2e (Meta Grand Teton, ~500W)": str(HERE / "h100-500w.ini"),
    "A100-80GB": "dgx-a100",
    "A100-80GB-SXM (DGX)": "dgx-a100",
    "A100-80GB-SXM (400W)": "dgx-a100",
    "A100-80GB (NDm A100 v4)": "dgx-a100",
    "A100-40GB": "aws-p4d-24xlarge",
    "H200-141GB": "hgx-h200",
    "B200": "dgx-b200",
    "RTX 4090": "rtx4090",
    "A100": "dgx-a100",
    "GB200": "gb200-nvl72",
    "GB300": "gb300-nvl72",
    "MI300X": "mi300x-8x",
    "RTX A6000": "rtx-a6000",
}
# GPUs per node, where they are not 8.
PER_NODE = {"rtx4090": 1, "rtx-a6000": 1, "gb200-nvl72": 72, "gb300-nvl72": 72}
# "DDP" of these is Megatron Core's, with its distributed optimizer: NeMo's recipes and
# Megatron-Bridge's set use_distributed_optimizer, and so does Megatron-LM's own script.
SHARDED_DDP = ("Megatron-Bridge", "NeMo-docs", "NeMo-docs-longseq", "NeMo-Launcher")
STRATEGIES = {"fsdp": "zero3", "hsdp": "zero3", "zero3": "zero3", "zero2": "zero2",
              "zero1": "zero1", "ddp": "ddp"}
# A profile per source; None: by the row's `compile`.
SOFTWARE = {
    "llm-foundry": "llm-foundry",
    "torchtitan": None,
    "torchao": None,
    "torchtune": None,
    "IBM-fms-fsdp": "fsdp2-compile",
    "KempnerForge": "fsdp2-compile",
    "nanotron": "nanotron",
    "flash-attention": "pytorch-fsdp-eager",
    "NeMo-AutoModel": "fsdp2-compile",
    "NeMo-Launcher": "nemo",
    "NeMo-docs": "nemo",
    "NeMo-docs-longseq": "nemo",
    "Megatron-Bridge": "nemo",
    "Megatron-LM": "megatron",
    "JAX-Toolbox-Pax": "megatron",
    "MaxText-GPU": "megatron",
}
GPT = ("gpt", "mpt", "opt", "bloom")


def whole(row, key, default=None):
    text = row[key].strip()
    return int(float(text)) if text else default


def architecture(row):
    return "gpt2" if row["model"].lower().startswith(GPT) else "llama"


def software_of(row):
    name = SOFTWARE.get(row["source"], "")
    if name is None:
        return "fsdp2-compile" if row["compile"] == "yes" else "pytorch-fsdp-eager"
    return name


def left_out(row):
    """Why a row is not predicted; "" if it is."""
    if row["gpu"] not in MACHINES:
        return f"no profile of {row['gpu']}"
    if not software_of(row):
        return f"no software profile of {row['source']}"
    if row["precision"] not in ("bf16", "fp16", "fp8"):
        return f"precision {row['precision'] or 'not stated'}"
    if tokens_per_s(row) is None:
        return f"stated as {row['metric']}"
    if row["dp_kind"] not in STRATEGIES:
        return f"data parallelism {row['dp_kind'] or 'not stated'}"
    if whole(row, "cp", 1) > 1:
        return "context parallelism"
    if row["recompute"] == "selective":
        return "selective recomputation"
    if "LoRA" in row["other"]:
        return "LoRA"
    missing = [k for k in ("layers", "hidden", "heads", "seq", "micro_batch") if not row[k]]
    return f"{', '.join(missing)} not stated" if missing else ""


H100_PEAK_TFLOPS = 989  # of which nanotron's MFU is


def nanotron_flops(row):
    """Of a token, as nanotron's get_flops counts them: no recompute, no causal half."""
    layers, hidden, heads = (whole(row, key) for key in ("layers", "hidden", "heads"))
    keys = hidden * (whole(row, "kv_heads") or heads) // heads
    matrices = 2 * hidden * (hidden + keys) + 3 * hidden * whole(row, "ffn")
    return 6 * (layers * matrices + hidden * whole(row, "vocab")) + \
        12 * layers * whole(row, "seq") * hidden


def tokens_per_s(row):
    """Per GPU; None where the row has another figure that says too little."""
    if row["metric"] == "tokens_per_s_per_gpu":
        return float(row["value"])
    if row["metric"] == "mfu" and row["flops_convention"].startswith("nanotron"):
        return float(row["value"]) / 100 * H100_PEAK_TFLOPS * 1e12 / nanotron_flops(row)
    return None


def options(row):
    kv, ffn, vocab = (whole(row, key) for key in ("kv_heads", "ffn", "vocab"))
    gpus, tp = whole(row, "gpus"), whole(row, "tp", 1)
    dims = {"layers": whole(row, "layers"), "hidden": whole(row, "hidden"),
            "heads": whole(row, "heads"), "kv_heads": kv, "ffn": ffn, "vocab": vocab,
            "seq": max(whole(row, "seq"), 2048), "architecture": architecture(row)}
    if architecture(row) == "gpt2":
        dims.pop("kv_heads")
    text = ",".join(f"{key}={value}" for key, value in dims.items() if value)
    per_node = PER_NODE.get(MACHINES[row["gpu"]], 8)
    batch = float(row["micro_batch"]) / tp
    return ["-m", text, "-H", MACHINES[row["gpu"]],
            "--nodes", max(1, -(-gpus // per_node)), "--gpus", min(gpus, per_node),
            "-s", strategy(row), "--seq", whole(row, "seq"),
            "--batch", f"{batch:g}", "--grad-accum", whole(row, "grad_accum", 1), "--tp", tp,
            "--commit", "none", *groups(row), *recomputed(row)]


def groups(row):
    """States in groups of a node, which hold replicas, as MaxText's rows and fms-fsdp have them."""
    return ["--shard-group", "node"] if row["dp_kind"] == "hsdp" else []


def strategy(row):
    sharded = row["dp_kind"] == "ddp" and row["source"] in SHARDED_DDP
    return "zero1" if sharded else STRATEGIES[row["dp_kind"]]


def recomputed(row):
    """What a row says; where it says nothing, as much as memory asks for."""
    interval = {"full": ["1"], "none": ["0"]}.get(row["recompute"])
    return ["--activation-checkpoint-interval", *interval] if interval else []


def used(row):
    """What a row says of its software that the source's other rows do not."""
    # XLA alone has no fused attention unless a flag asks for cuDNN's.
    plain_xla = "XLA" in row["software"] and "TransformerEngine" not in row["software"]
    said = []
    if "without flash" in row["attention"] or plain_xla:
        said += ["--set", "software.attention.kernel=unfused"]
    # Scripts and configurations ask for it; torchtitan has no slices without it
    # (torchtitan/models/llama3/infra/parallelize.py, apply_tp).
    asks = software_of(row) in ("megatron", "nanotron") or row["source"] == "torchtitan"
    if asks and whole(row, "tp", 1) > 1:
        said += ["--sequence-parallel", "on"]
    if row["source"] == "flash-attention":  # its scripts take its own loss (training/README.md)
        said += ["--set", "software.memory.logit_bytes=2"]
    return said


def types(row):
    return ["--matmul-dtype", "fp8"] if row["precision"] == "fp8" else []


# What a fused backward needs, the least that any software keeps: rows that were trained had room.
KEPT_ONCE = ["--set", "software.memory.activations_kept=1"]


def predict(row):
    """tokens/s per GPU: by ideal software, by it on a machine whose figures are all at their fast
    end, which no software is faster than, by the row's, its slow and its fast end; and whether it
    fits with the least memory alone."""
    gpus = whole(row, "gpus")
    software = [software_of(row), *used(row)]
    try:
        ideal, bound, real, least = (
            common.memwall("simulate", *options(row), *types(row), "--software", *who,
                           interval=None)
            for who in (["ideal"], ["ideal", "--outlook", "high"], software,
                        [*software, *KEPT_ONCE]))
    except common.Failed as failed:
        return row, str(failed).split(": ", 1)[-1]
    squeezed = not real["feasible"]
    real = least if squeezed else real
    if not (ideal["feasible"] and bound["feasible"] and real["feasible"]):
        return row, "does not fit"
    tokens = real["settings"]["tokens_per_step"] / gpus
    steps = [ideal["step_time_s"], bound["step_time_s"], real["step_time_s"],
             real["range"]["step_time_s"]["low"], real["range"]["step_time_s"]["high"]]
    return row, [*[tokens / step for step in steps], squeezed]


def of_least(count, rows, settings):
    said = ", ".join(f"`{word}`" for word in settings if word != "--set")
    return (f"Of the {rows} rows {count} do not fit as the software's profile has its memory, and "
            f"are predicted with the least that any software takes ({said}): they were trained.")


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def summary(name, rows):
    errors = [r["predicted"] / r["measured"] - 1 for r in rows]
    ideal = [r["ideal"] / r["measured"] - 1 for r in rows]
    inside = sum(min(r["low"], r["high"]) <= r["measured"] <= max(r["low"], r["high"])
                 for r in rows)
    width = median([abs(r["high"] - r["low"]) / r["predicted"] for r in rows])
    return [name, len(rows), f"{100 * sum(map(abs, ideal)) / len(rows):.0f}%",
            f"{100 * sum(map(abs, errors)) / len(rows):.0f}%",
            f"{100 * median(list(map(abs, errors))):.0f}%", f"{100 * median(errors):+.0f}%",
            f"{100 * max(map(abs, errors)):.0f}%", f"{inside} of {len(rows)}",
            f"{100 * width:.0f}%"]


def table(rows):
    head = ["source", "rows", "mean error, ideal", "mean error", "median error", "median, signed",
            "largest", "within the range", "median width"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    sources = sorted({r["source"] for r in rows})
    all_of = [summary(s, [r for r in rows if r["source"] == s]) for s in sources]
    for line in [*all_of, summary("all", rows)]:
        lines.append("| " + " | ".join(map(str, line)) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default=HERE / "rows_development.csv")
    path = pathlib.Path(parser.parse_args().rows)
    taken, skipped = [], {}
    for row in common.read_csv(path):
        why = left_out(row)
        if why:
            skipped[why] = skipped.get(why, 0) + 1
        else:
            taken.append(row)
    rows, squeezed = [], 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for row, found in pool.map(predict, taken):
            if isinstance(found, str):
                skipped[found] = skipped.get(found, 0) + 1
                continue
            *found, least = found
            ideal, bound, predicted, low, high = found
            squeezed += least
            rows.append({"id": row["id"], "source": row["source"], "software": software_of(row),
                         "measured": tokens_per_s(row), "ideal": ideal, "bound": bound,
                         "predicted": predicted, "low": low, "high": high})
    name = path.stem.removeprefix("rows_")
    with open(HERE / f"result_{name}.csv", "w", encoding="utf-8") as out:
        out.write(",".join(rows[0]) + "\n")
        for row in rows:
            out.write(",".join(f"{v:.6g}" if isinstance(v, float) else f'"{v}"'
                               for v in row.values()) + "\n")
    why = "\n".join(f"- {count}: {reason}" for reason, count in
                    sorted(skipped.items(), key=lambda item: -item[1]))
    beyond = [row for row in rows if row["bound"] < 0.97 * row["measured"]]
    text = (f"# Today's frameworks: the {name} rows\n\nTokens/s per GPU, predicted over published, "
            f"less one. Written by `experiments/today/run.py`.\n\n{table(rows)}\n\n"
            f"Ideal software on a machine whose figures are all at their fast end is a bound: more "
            f"than 3% faster than it is what was published of {len(beyond)} of {len(rows)} "
            f"rows.\n\n{of_least(squeezed, len(rows), KEPT_ONCE)}\n\n"
            f"Not predicted:\n\n{why}\n")
    (HERE / f"result_{name}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
