"""Steps of PyTorch on one H200 that were measured by rates/framework.py, and predicted."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

SOFTWARE = {"eager": "hf-trainer", "compiled": "fsdp2-compile"}
UPDATE_PASSES = {"foreach": "2.9", "fused": "1"}  # as the profiles have them
# What rates/framework.py does: its backward runs under autocast too, and it compiles layers alone,
# so that the loss is that of the eager profile, without the model's output.
ITS_OWN = {"eager": {"memory.casts_stay": "backward"},
           "compiled": {"memory.logit_bytes": "12", "memory.logit_forward_bytes": "10",
                        "operators.loss_bytes": "49"}}
GIB = 2.0 ** 30


def settings(row):
    keys = {"operators.update_passes": UPDATE_PASSES[row["optimizer"]], **ITS_OWN[row["how"]]}
    return [word for key, value in keys.items() for word in ("--set", f"software.{key}={value}")]


def predict(row):
    return common.memwall(
        "simulate", "-m", row["model"], "-H", "h200", "-s", "ddp", "--gpus", 1, "--batch",
        row["sequences"], "--seq", row["length"], "--activation-checkpoint-interval",
        int(row["recomputed"] == "yes"), "--software", SOFTWARE[row["how"]], *settings(row))


def taken_gib(answer):
    """What was allocated: not what the allocator loses, nor what context and libraries take."""
    beside = sum(part["bytes"] for part in answer["software_memory"]
                 if part["what"] != "loss of its allocator")
    return (answer["peak_bytes"]["gpu"] + beside) / GIB


def compare(row):
    answer = predict(row)
    times = {key: 1e3 * value for key, value in answer["range"]["step_time_s"].items()}
    measured, predicted = float(row["ms"]), 1e3 * answer["step_time_s"]
    return {**row, "ms": measured, "gib": float(row["gib"]), "predicted_ms": predicted,
            "low_ms": times["low"], "high_ms": times["high"],
            "error": common.error_percent(predicted, measured),
            "inside": times["low"] <= measured <= times["high"],
            "predicted_gib": taken_gib(answer),
            "gib_error": common.error_percent(taken_gib(answer), float(row["gib"]))}


def table_of(rows):
    return common.markdown_table(
        ["model", "sequences", "recomputed", "how", "optimizer", "measured ms", "predicted ms",
         "range", "error", "in range", "measured GiB", "predicted GiB", "error"],
        [[r["model"], f"{r['sequences']} x {r['length']}", r["recomputed"], r["how"],
          r["optimizer"], r["ms"], r["predicted_ms"], f"{r['low_ms']:.0f} to {r['high_ms']:.0f}",
          common.percent(r["error"]), common.yes(r["inside"]), r["gib"], r["predicted_gib"],
          common.percent(r["gib_error"])] for r in rows])


def main():
    rows = [compare(row) for row in common.read_csv(HERE / "measured.csv")]
    inside = sum(r["inside"] for r in rows)
    text = ["# Steps of PyTorch on one H200, predicted and measured", "",
            "Written by `experiments/run pytorch-steps`.", "", table_of(rows),
            f"Error of the step, median {common.median_abs(r['error'] for r in rows):.1f}%; "
            f"the range holds {inside} of {len(rows)}. Error of the memory, median "
            f"{common.median_abs(r['gib_error'] for r in rows):.1f}%.", ""]
    common.write_text(HERE / "result.md", "\n".join(text))
    columns = list(rows[0])
    common.write_csv(HERE / "result.csv", columns, [[r[c] for c in columns] for r in rows])


if __name__ == "__main__":
    main()
