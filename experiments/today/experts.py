#!/usr/bin/python3
"""Published training speeds of mixtures whose experts are spread over GPUs (rows_experts.csv)
against predictions by the profile nemo and by ideal software; nothing is fitted to them.

    experiments/today/experts.py
"""

import concurrent.futures
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))
import common  # noqa: E402
import run  # noqa: E402

MODELS = {
    "GPT OSS 120B": str(HERE / "gpt-oss-120b" / "config.json"),
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_30B_a3B (tokendrop)": "qwen3-30b-a3b",
    "Qwen3_235B_a22B (tokendrop)": "qwen3-235b-a22b",
}
MACHINES = {**run.MACHINES, "B300": "aws-p6-b300-48xlarge"}


def experts_over(row):
    found = re.search(r"\bEP=(\d+)", row["other"])
    return int(found.group(1)) if found else 0


def left_out(row):
    """Why a row is not predicted; "" if it is."""
    if row["model"] not in MODELS:
        return f"no description of {row['model']} here, or layers of several shapes"
    if row["precision"] not in ("bf16", "fp8"):
        return f"precision {row['precision']}"
    if run.whole(row, "tp", 1) > 1:
        return "whether slices have whole experts is not stated"
    return "" if experts_over(row) else "no degree of expert parallelism stated"


def options(row):
    gpus, batch = run.whole(row, "gpus"), float(row["micro_batch"])
    machine = MACHINES[row["gpu"]]
    per_node = run.PER_NODE.get(machine, 8)
    micro_batches = run.whole(row, "global_batch_sequences") / gpus / batch
    return ["-m", MODELS[row["model"]], "-H", machine, "--nodes", max(1, -(-gpus // per_node)),
            "--gpus", min(gpus, per_node), "-s", "zero1", "--seq", run.whole(row, "seq"),
            "--batch", f"{batch:g}", "--grad-accum", round(micro_batches),
            "--ep", experts_over(row), "--commit", "none", *run.types(row)]


def predict(row):
    """tokens/s per GPU by ideal software, by the profile nemo, its slow and its fast end."""
    try:
        ideal, real = (common.memwall("simulate", *options(row), "--software", software,
                                      interval=None) for software in ("ideal", "nemo"))
    except common.Failed as failed:
        return row, str(failed).rsplit("memwall: ", 1)[-1]
    if not (ideal["feasible"] and real["feasible"]):
        return row, "does not fit"
    tokens = real["settings"]["tokens_per_step"] / run.whole(row, "gpus")
    steps = [ideal["step_time_s"], real["step_time_s"], real["range"]["step_time_s"]["low"],
             real["range"]["step_time_s"]["high"]]
    return row, [tokens / step for step in steps]


def summary(name, rows):
    errors = [r["predicted"] / r["measured"] - 1 for r in rows]
    ideal = [r["ideal"] / r["measured"] - 1 for r in rows]
    inside = sum(min(r["low"], r["high"]) <= r["measured"] <= max(r["low"], r["high"])
                 for r in rows)
    return [name, len(rows), f"{100 * run.median(ideal):+.0f}%",
            f"{100 * run.median(errors):+.0f}%",
            f"{100 * run.median(list(map(abs, errors))):.0f}%",
            f"{100 * max(map(abs, errors)):.0f}%", f"{inside} of {len(rows)}"]


def table(rows):
    head = ["model, type, GPU, experts over", "rows", "median, ideal, signed", "median, signed",
            "median error", "largest", "within the range"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    names = sorted({r["group"] for r in rows})
    for name in names:
        lines.append("| " + " | ".join(
            map(str, summary(name, [r for r in rows if r["group"] == name]))) + " |")
    return "\n".join([*lines, "| " + " | ".join(map(str, summary("all", rows))) + " |"])


def main():
    taken, skipped, rows = [], {}, []
    for row in common.read_csv(HERE / "rows_experts.csv"):
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
            ideal, predicted, low, high = found
            rows.append({"id": row["id"], "source": row["source"],
                         "group": f"{row['model']}, {row['precision']}, {row['gpu']}, "
                                  f"{experts_over(row)} of {row['gpus']} GPUs",
                         "measured": float(row["value"]), "ideal": ideal,
                         "predicted": predicted, "low": low, "high": high})
    with open(HERE / "result_experts.csv", "w", encoding="utf-8") as out:
        out.write(",".join(rows[0]) + "\n")
        for row in rows:
            out.write(",".join(f"{v:.6g}" if isinstance(v, float) else f'"{v}"'
                               for v in row.values()) + "\n")
    why = "\n".join(f"- {count}: {reason}" for reason, count in
                    sorted(skipped.items(), key=lambda item: -item[1]))
    text = (f"# Today's frameworks: experts over GPUs\n\nTokens/s per GPU, predicted over "
            f"published (Megatron-Bridge), less one. Written by `experiments/today/experts.py`.\n\n"
            f"{table(rows)}\n\nNot predicted:\n\n{why}\n")
    (HERE / "result_experts.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
