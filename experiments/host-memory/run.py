"""Host memory that DeepSpeed's offload takes: measured by users, and predicted."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

# Of ZeRO-2 the optimizer's state and gradients are on the host, of ZeRO-3 parameters too.
OFFLOAD = {2: ("-s", "zero-offload"),
           3: ("-s", "zero-infinity-cpu", "--param-device", "cpu", "--optimizer-device", "cpu")}
SUB_GROUP = 1e9  # DeepSpeed's default sub_group_size, elements


def pinned(size):
    """PyTorch's allocator of pinned memory rounds up to a power of two."""
    return 1 << (int(size) - 1).bit_length() if size >= 1 else 0


def buffers_gb(params, gpus, stage):
    """What DeepSpeed's optimizers allocate on the host (stage_1_and_2.py and stage3.py,
    initialize_optimizer_states): fp32 parameters and fp32 gradients, pinned; two moments, not; with
    stage 3 in groups, and beside them parameters and gradients in 16 bits, pinned."""
    own = params / gpus
    if stage == 2:
        return gpus * (2 * pinned(4 * own) + 8 * own) / 1e9
    whole, rest = divmod(own, SUB_GROUP)
    groups = whole * pinned(4 * SUB_GROUP) + pinned(4 * rest)
    return gpus * (2 * pinned(2 * own) + 2 * groups + 8 * own) / 1e9


def compare(row):
    gpus, stage, gb = int(row["gpus"]), int(row["stage"]), float(row["gb"])
    model = common.ROOT / row["model"] if row["model"].endswith(".json") else row["model"]
    answer = common.memwall("plan", "-m", model, "-H", row["hardware"], "--gpus", gpus, "--seq",
                            512, "--batch", 1, "--software", "deepspeed", *OFFLOAD[stage])
    predicted = gpus * answer["peak_bytes"]["cpu"] / 1e9
    buffers = buffers_gb(answer["params"], gpus, stage)
    return {"what": row["what"], "stage": stage, "params": answer["params"], "gb": gb,
            "per_parameter": gb * 1e9 / answer["params"], "predicted": predicted,
            "error": common.error_percent(predicted, gb), "buffers": buffers,
            "buffers_error": common.error_percent(buffers, gb), "source": row["source"]}


def main():
    rows = [compare(row) for row in common.read_csv(HERE / "published.csv")]
    table = common.markdown_table(
        ["what", "ZeRO", "measured GB", "bytes per parameter", "predicted GB", "error",
         "its buffers, GB", "error"],
        [[r["what"], r["stage"], r["gb"], r["per_parameter"], r["predicted"],
          common.percent(r["error"]), r["buffers"], common.percent(r["buffers_error"])]
         for r in rows])
    text = ["# Host memory of DeepSpeed's offload, measured and predicted", "",
            "Written by `experiments/run host-memory`.", "", table,
            f"Error of the prediction, median {common.median_abs(r['error'] for r in rows):.1f}%, "
            f"all too small; of the sum of DeepSpeed's buffers, median "
            f"{common.median_abs(r['buffers_error'] for r in rows):.1f}%.", ""]
    common.write_text(HERE / "result.md", "\n".join(text))
    columns = list(rows[0])
    common.write_csv(HERE / "result.csv", columns, [[r[c] for c in columns] for r in rows])


if __name__ == "__main__":
    main()
