"""LoRA of Qwen on A100s: published iterations and memory, and predicted ones."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

MACHINE = {1: ("a100", "ddp"), 4: ("dgx-a100", "zero3")}
ROUNDED_S = 0.05  # the table's last digit


def predict(row):
    machine, strategy = MACHINE[int(row["gpus"])]
    return common.memwall(
        "simulate", "-m", HERE / "models" / f"qwen-{row['model']}.json", "-H", machine, "-s",
        strategy, "--gpus", row["gpus"], "--software", "hf-trainer", "--train", "lora:64",
        "--batch", 1, "--grad-accum", 8, "--seq", row["length"],
        "--activation-checkpoint-interval", 1)


def taken_gb(answer, gpus):
    """What the plan holds and the software takes, but context and libraries."""
    beside = sum(part["bytes"] for part in answer["software_memory"])
    return gpus * (answer["peak_bytes"]["gpu"] + beside) / 1e9


def compare(row):
    answer = predict(row)
    times = answer["range"]["step_time_s"]
    seconds, gb = float(row["seconds"]), float(row["gb"])
    taken = taken_gb(answer, int(row["gpus"]))
    return {**row, "seconds": seconds, "gb": gb, "predicted_s": answer["step_time_s"],
            "low_s": times["low"], "high_s": times["high"],
            "error": common.error_percent(answer["step_time_s"], seconds),
            "inside": times["low"] - ROUNDED_S <= seconds <= times["high"] + ROUNDED_S,
            "predicted_gb": taken, "gb_error": common.error_percent(taken, gb),
            "bottleneck": answer["bottleneck"]}


def table_of(rows):
    return common.markdown_table(
        ["model", "GPUs", "tokens", "published s", "predicted s", "range", "error", "in range",
         "published GB", "predicted GB", "error", "bottleneck"],
        [[r["model"], r["gpus"], r["length"], r["seconds"], r["predicted_s"],
          f"{r['low_s']:.3g} to {r['high_s']:.3g}", common.percent(r["error"]),
          common.yes(r["inside"]), r["gb"], r["predicted_gb"], common.percent(r["gb_error"]),
          r["bottleneck"]] for r in rows])


def main():
    rows = [compare(row) for row in common.read_csv(HERE / "published.csv")]
    inside = sum(r["inside"] for r in rows)
    text = ["# LoRA of Qwen on A100s, predicted and published", "",
            "Written by `experiments/run qwen-lora`.", "", table_of(rows),
            f"Error of the step, median {common.median_abs(r['error'] for r in rows):.1f}%; "
            f"the range holds {inside} of {len(rows)}. Error of the memory, median "
            f"{common.median_abs(r['gb_error'] for r in rows):.1f}%.", ""]
    common.write_text(HERE / "result.md", "\n".join(text))
    columns = list(rows[0])
    common.write_csv(HERE / "result.csv", columns, [[r[c] for c in columns] for r in rows])


if __name__ == "__main__":
    main()
