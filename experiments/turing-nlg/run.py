"""Turing-NLG 17B: a step with ZeRO on 256 V100 and with Megatron-LM alone on 1,024."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero

MODEL = {"preset": "turing-nlg-17b", "layers": "78", "hidden": "4256", "heads": "28",
         "vocab": "50257"}
CONFIGS = {"Megatron-LM with ZeRO": "C1", "Megatron-LM alone": "baseline"}
SLICES = (1, 2, 4, 8, 16)
GAIN, BATCHES = 3, 4  # of the announcement


def ask(row, gpus=None):
    """A step as published, on those GPUs or others."""
    gpus, mp = gpus or int(row["gpus"]), int(row["mp"])
    sequences = int(row["sequences"]) // (gpus // mp)
    return zero.ask("simulate", MODEL, gpus, mp, sequences, CONFIGS[row["system"]])


def fewest_slices(gpus, config):
    return next(mp for mp in SLICES if zero.fits(MODEL, gpus, mp, 1, config))


def per_node(row):
    """The most sequences of a node."""
    mp = int(row["mp"])
    return (zero.largest_batch(MODEL, int(row["gpus"]), mp, CONFIGS[row["system"]])
            * zero.GPUS_PER_NODE // mp)


def run():
    return [{"row": row, "answer": ask(row), "per_node": per_node(row)}
            for row in common.read_csv(HERE / "published.csv")]


def table(rows):
    return common.markdown_table(
        ["system", "GPUs", "MP", "sequences", "step s", "low", "high", "TFLOP/s per GPU",
         "most sequences of a node"],
        [[*(c["row"][key] for key in ("system", "gpus", "mp", "sequences")),
          c["answer"]["step_time_s"], *(c["answer"]["range"]["step_time_s"][end]
                                        for end in ("low", "high")),
          zero.tflops(c["answer"]), c["per_node"]] for c in rows])


def statements(rows):
    ours, alone = rows
    alone_there = ask(alone["row"], int(ours["row"]["gpus"]))
    slices = [fewest_slices(int(c["row"]["gpus"]), CONFIGS[c["row"]["system"]]) for c in rows]
    gain = zero.tflops(ours["answer"]) / zero.tflops(alone["answer"])
    batch = ours["per_node"] / alone["per_node"]
    return [
        ["ZeRO makes do with a quarter of the slices", "a quarter",
         f"at least {slices[0]} with it, {slices[1]} without", 4 * slices[0] == slices[1]],
        ["with it 256 GPUs hold 512 sequences", "yes",
         common.yes(ours["answer"]["feasible"]), ours["answer"]["feasible"]],
        ["alone 1,024 GPUs hold 512 sequences", "yes", common.yes(alone["answer"]["feasible"]),
         alone["answer"]["feasible"]],
        ["and 256 do not", "no", common.yes(alone_there["feasible"]), not alone_there["feasible"]],
        ["a node has room for four times the batch", f"{BATCHES} times", f"{batch:.1f} times",
         batch >= BATCHES],
        ["a GPU is faster with ZeRO", f"{GAIN} times", f"{gain:.2f} times", gain > 1],
        ["by that much, within a third", f"{GAIN} times", f"{gain:.2f} times",
         abs(gain / GAIN - 1) < 1 / 3],
    ]


def write(rows):
    found = statements(rows)
    common.write_text(HERE / "result.md", f"""\
# Result: Turing-NLG 17B

{table(rows)}
{zero.statements_table(found)}
{zero.held(found)}

## What the model lacks

{common.bullets(
    "The gain is about half of what was announced: Megatron-LM with slices over all of a node is "
    "predicted too fast, or ZeRO with slices of four too slow. Slices of 16 of this model are 266 "
    "wide; nothing published of that time has the rate of such products beside their sums, and "
    "ZeRO's Fig. 2 has its baseline at 8B, whose slices are no wider, at 23 TFLOP/s "
    "(`../zero-fig2`). No throughput in TFLOP/s is in the announcement as it was reported.")}""")
    common.write_csv(HERE / "result.csv",
                     ["system", "gpus", "mp", "sequences", "step_s", "low_s", "high_s",
                      "tflops_per_gpu", "sequences_per_node"],
                     [[*(c["row"][key] for key in ("system", "gpus", "mp", "sequences")),
                       c["answer"]["step_time_s"], *(c["answer"]["range"]["step_time_s"][end]
                                                     for end in ("low", "high")),
                       zero.tflops(c["answer"]), c["per_node"]] for c in rows])


def main():
    write(run())


if __name__ == "__main__":
    main()
