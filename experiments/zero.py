"""What the experiments on ZeRO's figures share, and batches, which are not printed with them.

Software is deepspeed-0.3 for ZeRO and pytorch-2020 for the baseline; the paper's own is a year
older than either.  The machine is hwprofiles/dgx2.ini.  Sequences have 1024 tokens, every layer a
checkpoint, a step one micro-batch; operators are not tiled; slices are Megatron-LM's of the time
(--sequence-parallel off).  TFLOP/s count 8 FLOPs per parameter and token, recompute included, over
the step; the paper prints no formula.
"""

import common

GPUS_PER_NODE = 16

# ZeRO-R's partitioned checkpoints (Pa), and those in host memory (Pa+cpu): the paper's Table 3.
WHOLE = ("--checkpoint-partition", "off")
ZERO = ("--software", "deepspeed-0.3")
CONFIGS = {
    "C1": ("-s", "zero1", *WHOLE, *ZERO),
    "C2": ("-s", "zero1", *ZERO),
    "C3": ("-s", "zero2", *WHOLE, *ZERO),
    "C4": ("-s", "zero2", *ZERO),
    "C5": ("-s", "zero2", "--activation-device", "cpu", *ZERO),
    # Megatron-LM's slices, or none, and whole replicas.
    "baseline": ("-s", "ddp", *WHOLE, "--software", "pytorch-2020"),
}
BATCHES = (1, 2, 4, 8, 16, 32, 64)
MOST_SEQUENCES = 1024


def dimensions(row, heads):
    return (f"layers={row['layers']},hidden={row['hidden']},heads={heads},"
            f"vocab={row.get('vocab', 0)},seq=1024,architecture=gpt2")


def model(row, mp):
    """The preset, or its dimensions with more heads where MP does not divide those assumed."""
    heads = int(row["heads"])
    if heads % mp == 0:
        return row["preset"]
    return dimensions(row, max(1 << (heads - 1).bit_length(), mp))


def ask(verb, row, gpus, mp, batch, config, *more):
    """An answer with so many sequences in each group of MP GPUs."""
    return common.memwall(
        verb, "-m", model(row, mp), "-H", "dgx2", "--nodes", gpus // GPUS_PER_NODE,
        *(("--tp", mp, "--sequence-parallel", "off") if mp > 1 else ()), "--batch",
        f"{batch / mp:.10g}", "--grad-accum", 1, "--tiles", 1, "--commit", "none",
        *CONFIGS[config], *more)


def fits(row, gpus, mp, batch, config):
    return ask("plan", row, gpus, mp, batch, config)["feasible"]


def largest_batch(row, gpus, mp, config):
    """The most sequences of a group of MP GPUs that fit; 0: none."""
    low, high = 0, 1
    while high < MOST_SEQUENCES and fits(row, gpus, mp, high, config):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(row, gpus, mp, middle, config) else (low, middle)
    return low


def tflops(answer):
    return common.paper_tflops(answer, answer["step_time_s"])


def ends(answer):
    """TFLOP/s at the slow and at the fast end of the range."""
    times = answer["range"]["step_time_s"]
    return common.paper_tflops(answer, times["high"]), common.paper_tflops(answer, times["low"])


def speeds(row, gpus, mp, config):
    """What memwall says of each batch: at BATCHES that fit and at the largest that does."""
    most = largest_batch(row, gpus, mp, config)
    batches = sorted({b for b in BATCHES if b < most} | {most}) if most else []
    return {b: ask("simulate", row, gpus, mp, b, config) for b in batches}


def at_published(asked, published):
    """The batch at which the predicted speed is the published one, by a straight line between
    those asked; None: no batch has it."""
    points = [(batch, tflops(answer)) for batch, answer in asked.items()]
    for (b0, s0), (b1, s1) in zip(points, points[1:]):
        if s0 <= published <= s1:
            return b0 + (b1 - b0) * (published - s0) / (s1 - s0)
    return None


def batch_cells(asked):
    return [tflops(asked[b]) if b in asked else None for b in BATCHES]


def matching(asked, published):
    """In words: that batch, or which side of all batches the published speed lies."""
    if not asked:
        return ""
    found = at_published(asked, published)
    if found:
        return common.figure(found, 2)
    speeds = [tflops(answer) for answer in asked.values()]
    return "below all" if published < min(speeds) else \
        "above all" if published > max(speeds) else "between"


def statements_table(rows):
    """rows: statement, what is published, what memwall says, whether it holds."""
    return common.markdown_table(["statement", "published", "memwall", "holds"],
                                 [[*row[:3], common.yes(row[3])] for row in rows])


def held(rows):
    return f"{sum(row[3] for row in rows)} of {len(rows)} statements hold."


def largest_of(asked):
    return tflops(asked[max(asked)]) if asked else None


def spread(values):
    """How far apart, in percent of the least."""
    return 100 * (max(values) / min(values) - 1)
