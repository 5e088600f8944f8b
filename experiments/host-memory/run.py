"""Host memory that DeepSpeed's offload takes: measured by users, and predicted."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

# Of ZeRO-2 the optimizer's state and gradients are on the host, of ZeRO-3 parameters too.
OFFLOAD = {2: ("-s", "zero-offload"),
           3: ("-s", "zero-infinity-cpu", "--param-device", "cpu", "--optimizer-device", "cpu")}


def compare(row):
    gpus, stage, gb = int(row["gpus"]), int(row["stage"]), float(row["gb"])
    model = common.ROOT / row["model"] if row["model"].endswith(".json") else row["model"]
    answer = common.memwall("plan", "-m", model, "-H", row["hardware"], "--gpus", gpus, "--seq",
                            512, "--batch", 1, "--software", "deepspeed", *OFFLOAD[stage])
    beside = sum(part["bytes"] for part in answer["software_memory"] if part["tier"] == "cpu")
    predicted = gpus * (answer["peak_bytes"]["cpu"] + beside) / 1e9
    return {"what": row["what"], "stage": stage, "params": answer["params"], "gb": gb,
            "per_parameter": gb * 1e9 / answer["params"], "predicted": predicted,
            "error": common.error_percent(predicted, gb), "source": row["source"]}


def main():
    rows = [compare(row) for row in common.read_csv(HERE / "published.csv")]
    table = common.markdown_table(
        ["what", "ZeRO", "measured GB", "bytes per parameter", "predicted GB", "error"],
        [[r["what"], r["stage"], r["gb"], r["per_parameter"], r["predicted"],
          common.percent(r["error"])] for r in rows])
    text = ["# Host memory of DeepSpeed's offload, measured and predicted", "",
            "Written by `experiments/run host-memory`.", "", table,
            f"Error of the prediction, median {common.median_abs(r['error'] for r in rows):.1f}%.",
            ""]
    common.write_text(HERE / "result.md", "\n".join(text))
    columns = list(rows[0])
    common.write_csv(HERE / "result.csv", columns, [[r[c] for c in columns] for r in rows])


if __name__ == "__main__":
    main()
