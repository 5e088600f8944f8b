"""Host memory that DeepSpeed's offload takes: measured by users, and predicted."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

# Of ZeRO-2 the optimizer's state and gradients are offloaded, of ZeRO-3 parameters too if they are
# said to be.
STRATEGY = {("2", "cpu"): "zero-offload", ("3", "cpu"): "zero-infinity-cpu",
            ("3", "nvme"): "zero-infinity-nvme"}


def compare(row):
    gpus, gb = int(row["gpus"]), float(row["gb"])
    model = common.ROOT / row["model"] if row["model"].endswith(".json") else row["model"]
    devices = ("--optimizer-device", row["optimizer"])
    if row["stage"] == "3":
        devices += ("--param-device", row["params"])
    answer = common.memwall("plan", "-m", model, "-H", row["hardware"], "--gpus", gpus, "--seq",
                            512, "--batch", 1, "--grad-accum", 1, "--software", "deepspeed",
                            "-s", STRATEGY[row["stage"], row["optimizer"]], *devices, "--set",
                            "host.memory_gib=4096", *row["options"].split())
    beside = sum(part["bytes"] for part in answer["software_memory"] if part["tier"] == "cpu")
    predicted = gpus * (answer["peak_bytes"]["cpu"] + beside) / 1e9
    return {"what": row["what"], "stage": row["stage"], "optimizer": row["optimizer"],
            "params": answer["params"], "gb": gb, "bound": row["bound"],
            "per_parameter": gb * 1e9 / answer["params"], "predicted": predicted,
            "error": common.error_percent(predicted, gb), "source": row["source"]}


def shown(row):
    more = row["bound"] == "more"
    error = "as said" if more and row["error"] > 0 else common.percent(row["error"])
    gb = f"{row['gb']:g}"
    return [row["what"], row["stage"], row["optimizer"], f"more than {gb}" if more else gb,
            row["per_parameter"], row["predicted"], error]


def main():
    rows = [compare(row) for row in common.read_csv(HERE / "published.csv")]
    table = common.markdown_table(
        ["what", "ZeRO", "optimizer on", "measured GB", "bytes per parameter", "predicted GB",
         "error"], [shown(row) for row in rows])
    errors = [row["error"] for row in rows if not row["bound"]]
    text = ["# Host memory of DeepSpeed's offload, measured and predicted", "",
            "Written by `experiments/run host-memory`.", "", table,
            f"Error of the prediction, median {common.median_abs(errors):.1f}%, of those that are "
            "no bounds.", ""]
    common.write_text(HERE / "result.md", "\n".join(text))
    columns = list(rows[0])
    common.write_csv(HERE / "result.csv", columns, [[r[c] for c in columns] for r in rows])


if __name__ == "__main__":
    main()
