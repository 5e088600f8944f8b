#!/usr/bin/python3
"""Published training speeds of today's frameworks with pipelines (rows_pipeline.csv) against
predictions by the profile of the framework and by ideal software; nothing is fitted to them.

    experiments/today/pipeline.py [--held-out]

The rows are split as those without pipelines are (README.md); those for development are predicted
by default.
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
import common  # noqa: E402
import experts  # noqa: E402
import run  # noqa: E402

# What the rows call models whose dimensions they leave out, or which are no stack of equal layers.
MODELS = {
    **experts.MODELS,
    "GPT3-175B": "gpt3-175b",
    "DeepSeekV3": "deepseek-v3",
    "DeepSeekV3 (dropless)": "deepseek-v3",
    "DeepSeekV3 (tokendrop)": "deepseek-v3",
    "DeepSeekV3 (w/o MTP)": "deepseek-v3",
    "Kimi_K2": "kimi-k2",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
}


def held_out(row):
    """By the rule of the rows without pipelines, made before any prediction (README.md)."""
    digest = hashlib.sha256(f"memwall:{row['id']}".encode()).hexdigest()
    return int(digest[0], 16) % 2 == 1


def virtual_stages(row):
    found = re.search(r"\bVP=(\d+)", row["other"])
    return int(found.group(1)) if found else 1


def left_out(row):
    """Why a row is not predicted; "" if it is."""
    if row["gpu"] not in experts.MACHINES:
        return f"no profile of {row['gpu']}"
    if row["precision"] not in ("bf16", "fp8"):
        return f"precision {row['precision'] or 'not stated'}"
    if "LoRA" in row["other"]:
        return "LoRA, whose rank is not stated"
    if run.tokens_per_s(row) is None:
        return f"stated as {row['metric']}"
    missing = [k for k in ("seq", "micro_batch", "global_batch_sequences") if not row[k]]
    if row["model"] not in MODELS and not row["layers"]:
        missing.append(f"dimensions of {row['model']}")
    return f"{', '.join(missing)} not stated" if missing else ""


def model(row):
    if row["model"] in MODELS:
        return MODELS[row["model"]]
    dims = {key: run.whole(row, key) for key in ("layers", "hidden", "heads", "kv_heads", "ffn",
                                                 "vocab", "seq")}
    if run.architecture(row) == "gpt2":
        dims.pop("kv_heads")
    text = ",".join(f"{key}={value}" for key, value in dims.items() if value)
    return f"{text},architecture={run.architecture(row)}"


def layers(row):
    of_models = {"DeepSeekV3": 61, "Kimi_K2": 61, "Qwen3_235B_a22B": 94, "Qwen3_30B_a3B": 48,
                 "GPT3-175B": 96, "GPT OSS 120B": 36}
    return run.whole(row, "layers") or of_models[row["model"].split(" (")[0]]


def nodes(row):
    """Nodes and GPUs of each: pages speak of 64 GPUs of a rack of 72 where there are more racks."""
    machine, gpus = experts.MACHINES[row["gpu"]], run.whole(row, "gpus")
    per_node = run.PER_NODE.get(machine, 8)
    if gpus > per_node == 72:
        per_node = 64
    return ["-H", machine, "--nodes", max(1, gpus // per_node), "--gpus", min(gpus, per_node)]


def options(row):
    tp, cp, pp = (run.whole(row, key, 1) for key in ("tp", "cp", "pp"))
    batch = float(row["micro_batch"])
    replicas = run.whole(row, "gpus") // (tp * cp * pp)
    micro_batches = run.whole(row, "global_batch_sequences") / replicas / batch
    said = ["-m", model(row), *nodes(row), "-s", "zero1", "--seq", run.whole(row, "seq"),
            "--batch", f"{batch / (tp * cp):g}", "--grad-accum", round(micro_batches),
            "--tp", tp, "--cp", cp, "--pp", pp, "--commit", "none", *run.types(row)]
    if virtual_stages(row) > 1:
        said += ["--schedule", "interleaved", "--virtual-stages", virtual_stages(row)]
    if layers(row) % (pp * virtual_stages(row)):  # recipes count embedding and loss as layers
        said += ["--stage-split", "balanced"]
    if experts.experts_over(row) > 1:
        said += ["--ep", experts.experts_over(row)]
    return [*said, *recomputed(row)]


def recomputed(row):
    """Recipes of Llama recompute nothing, but with nvfp4 (Megatron-Bridge, scripts/performance/
    configs/llama); of the others, as much as memory asks for."""
    recipe = row["source"] == "Megatron-Bridge" and row["model"].startswith("LLAMA")
    return ["--activation-checkpoint-interval", "0"] if recipe else run.recomputed(row)


# The least that any software takes: rows that were trained had room.
LEAST = [*run.KEPT_ONCE, "--set", "software.memory.allocator_loss=0"]


def predict(row):
    """tokens/s per GPU: by ideal software, by the row's, its slow and its fast end; and whether it
    fits with the least memory alone."""
    software = [run.software_of(row), *run.used(row)]
    # Ideal software reduces gradients in fp32 and has no parameters in fp8: its time alone counts.
    ideal_software = ["ideal", "--set", "gpu.memory_gib=2000"]
    try:
        ideal, real, least = (
            common.memwall("simulate", *options(row), "--software", *who, interval=None)
            for who in (ideal_software, software, [*software, *LEAST]))
    except common.Failed as failed:
        return row, str(failed).rsplit("memwall: ", 1)[-1]
    squeezed = not real["feasible"]
    real = least if squeezed else real
    if not real["feasible"]:
        return row, f"does not fit: {row['model']}, {row['gpu']}"
    tokens = real["settings"]["tokens_per_step"] / run.whole(row, "gpus")
    steps = [ideal["step_time_s"], real["step_time_s"], real["range"]["step_time_s"]["low"],
             real["range"]["step_time_s"]["high"]]
    return row, [*[tokens / step for step in steps], squeezed]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--held-out", action="store_true")
    wanted = parser.parse_args().held_out
    taken, skipped, rows, squeezed = [], {}, [], 0
    for row in common.read_csv(HERE / "rows_pipeline.csv"):
        if held_out(row) != wanted:
            continue
        why = left_out(row)
        if why:
            skipped[why] = skipped.get(why, 0) + 1
        else:
            taken.append(row)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for row, found in pool.map(predict, taken):
            if isinstance(found, str):
                skipped[found] = skipped.get(found, 0) + 1
                continue
            *found, least = found
            ideal, predicted, low, high = found
            squeezed += least
            rows.append({"id": row["id"], "source": row["source"],
                         "group": f"{row['source']}, {row['model']}, {row['precision']}, "
                                  f"{row['gpu']}",
                         "measured": run.tokens_per_s(row), "ideal": ideal,
                         "predicted": predicted, "low": low, "high": high})
    name = "pipeline_holdout" if wanted else "pipeline"
    with open(HERE / f"result_{name}.csv", "w", encoding="utf-8") as out:
        out.write(",".join(rows[0]) + "\n")
        for row in rows:
            out.write(",".join(f"{v:.6g}" if isinstance(v, float) else f'"{v}"'
                               for v in row.values()) + "\n")
    why = "\n".join(f"- {count}: {reason}" for reason, count in
                    sorted(skipped.items(), key=lambda item: -item[1]))
    text = (f"# Today's frameworks: pipelines, the {'held-out' if wanted else 'development'} rows"
            f"\n\nTokens/s per GPU, predicted over published, less one. Written by "
            f"`experiments/today/pipeline.py`.\n\n{experts.table(rows)}\n\n"
            f"{run.of_least(squeezed, len(rows), LEAST)}\n\nNot predicted:\n\n{why}\n")
    (HERE / f"result_{name}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
