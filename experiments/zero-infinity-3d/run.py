#!/usr/bin/python3
"""3D parallelism in the ZeRO-Infinity paper: what fits and how fast, on V100 and A100.

    experiments/zero-infinity-3d/run.py [--rows TEXT]

With --rows only rows whose name has the text are predicted, and printed instead of written."""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common  # noqa: E402

GPUS_PER_NODE = {"dgx2": 16, "dgx-a100": 8}
GPU_BYTES = {"dgx2": 32 * 2**30, "dgx-a100": 80 * 2**30}
SEQ, VOCAB = 1024, 50304
SOFTWARE = "deepspeed-0.3.15"
# Of activation checkpoints: DeepSpeed's partition_activations, which no figure's text mentions.
PARTITIONS = {"in parts": "on", "whole": "off"}
SLICES, MICRO_BATCHES = (1, 2, 4, 8, 16), (1, 2, 4)


def number(row, key):
    return int(row[key])


def gpus(row, nodes=None):
    return (nodes or number(row, "nodes")) * GPUS_PER_NODE[row["machine"]]


def layouts(row, nodes=None):
    """Slices within a node, and stages, that together divide the GPUs."""
    each, total = GPUS_PER_NODE[row["machine"]], gpus(row, nodes)
    return [(tp, pp) for tp in SLICES if each % tp == 0 and number(row, "heads") % tp == 0
            for pp in range(1, number(row, "layers") + 1) if total % (tp * pp) == 0]


def question(row, tp, pp, micro_batch, sequences, partition, nodes=None):
    model = (f"layers={row['layers']},hidden={row['hidden']},heads={row['heads']},vocab={VOCAB},"
             f"seq={SEQ},architecture=gpt2")
    return ("-m", model, "-H", row["machine"], "--nodes", nodes or number(row, "nodes"),
            *(("--tp", tp, "--sequence-parallel", "off") if tp > 1 else ()),
            *(("--pp", pp) if pp > 1 else ()), "-s", "zero1", "--seq", SEQ,
            "--batch", f"{micro_batch / tp:g}", "--global-batch", sequences,
            "--commit", "none", "--checkpoint-partition", partition, "--software", SOFTWARE)


def replicas(row, tp, pp, nodes=None):
    return gpus(row, nodes) // (tp * pp)


def plan(row, tp, pp, partition, *options, nodes=None):
    """With as many micro-batches as stages: 1F1B keeps no more in flight, so more need no more."""
    sequences = replicas(row, tp, pp, nodes) * pp
    try:
        return common.memwall("plan", *question(row, tp, pp, 1, sequences, partition, nodes),
                              *options)
    except common.Failed:  # more ops than a plan may have: many stages of many layers
        return None


def may_fit(row, tp, pp, nodes=None):
    """Whether the largest stage alone leaves room: parameters and gradients of 16 bits in each
    slice, Adam's 12 bytes partitioned, and the first stage's checkpoints.  Most layouts need not be
    planned."""
    layers, hidden = -(-number(row, "layers") // pp), number(row, "hidden")
    params = 12 * layers * hidden ** 2 / tp
    checkpoints = 2 * SEQ * hidden * layers * pp
    return ((4 + 12 / replicas(row, tp, pp, nodes)) * params + checkpoints
            < GPU_BYTES[row["machine"]])


def fitting(row, partition, nodes=None):
    """Layouts that fit, a sequence per micro-batch, one at a time: the most divided first."""
    for tp, pp in sorted(layouts(row, nodes), key=lambda layout: -layout[0] * layout[1]):
        answer = may_fit(row, tp, pp, nodes) and plan(row, tp, pp, partition, nodes=nodes)
        if answer and answer["feasible"]:
            yield tp, pp


def simulate(row, layout, micro_batch, partition):
    """At the row's batch, or half of it as often as a plan has too many ops; None: none fits."""
    for sequences in (number(row, "sequences") >> halvings for halvings in range(6)):
        if sequences % (replicas(row, *layout) * micro_batch):
            return None
        try:
            answer = common.memwall(
                "simulate", *question(row, *layout, micro_batch, sequences, partition))
        except common.Failed:
            continue
        return (answer, sequences) if answer["feasible"] else None
    return None


def fastest(row, partition):
    """The fastest layout and micro-batch, with its TFLOP/s; None: nothing fits."""
    best = None
    for layout in fitting(row, partition):
        for micro_batch in MICRO_BATCHES:
            found = simulate(row, layout, micro_batch, partition)
            if not found:
                continue
            speed = teraflops(row, found[0]["step_time_s"], found[1])
            if not best or speed > best["predicted"]:
                ends = found[0]["range"]["step_time_s"]
                best = {"predicted": speed, "layout": words((*layout, micro_batch, found[1])),
                        "low": teraflops(row, ends["high"], found[1]),
                        "high": teraflops(row, ends["low"], found[1])}
    return best


def teraflops(row, seconds, sequences):
    """Per GPU, as the paper counts them: 8 * 12 nl hd^2 per token."""
    return (96 * number(row, "layers") * number(row, "hidden") ** 2 * sequences * SEQ
            / gpus(row) / seconds / 1e12)


def words(layout):
    return "tp {}, pp {}".format(*layout[:2]) + (
        ", micro-batch {} of {}".format(*layout[2:]) if len(layout) > 2 else "")


def speed_row(row, partition):
    best = fastest(row, partition) or {"predicted": "OOM", "layout": ""}
    return {**best, "right": (best["predicted"] == "OOM") == (row["value"] == "OOM")}


def largest_row(row, partition):
    """The most layers of the row's hidden size, over all layouts, and whether its own fit."""
    best, where = 0, None
    for layout in layouts(row):
        answer = plan(row, *layout, partition, "--largest")
        if answer and answer["layers"] and answer["paper_params"] > best:
            best, where = answer["paper_params"], layout
    return {"predicted": best / 1e9, "layout": words(where),
            "own": next(fitting(row, partition), None) is not None}


def fewest_row(row, partition):
    """The fewest GPUs on which the model fits, by nodes, and whether it does on those published."""
    def first(nodes):
        return next(fitting(row, partition, nodes), None)

    published = nodes = number(row, "nodes")
    while not first(nodes):
        nodes += 1
    fewest = next(fewer for fewer in range(1, nodes + 1) if first(fewer))
    return {"predicted": gpus(row, fewest), "own": nodes == published,
            "layout": words(first(fewest))}


KINDS = {"TFLOP/s": speed_row, "billion parameters": largest_row, "GPUs": fewest_row}


def predict(row):
    return {"row": row, **{name: KINDS[row["unit"]](row, partition)
                           for name, partition in PARTITIONS.items()}}


def cell(value):
    return value if isinstance(value, str) else common.figure(value)


def error(case, name):
    published, predicted = case["row"]["value"], case[name]["predicted"]
    if "OOM" in (published, predicted):
        return ""
    return f"{100 * (predicted / float(published) - 1):+.1f}%"


def ends(found):
    if "low" not in found:
        return ""
    return f"{common.figure(found['low'])} .. {common.figure(found['high'])}"


def table(cases):
    return common.markdown_table(
        ["where", "what", "published", "unit",
         *(head for name in PARTITIONS
           for head in (f"checkpoints {name}", "error", "range", "layout"))],
        [[*(c["row"][key] for key in ("where", "what", "value", "unit")),
          *(value for name in PARTITIONS
            for value in (cell(c[name]["predicted"]), error(c, name), ends(c[name]),
                          c[name]["layout"]))] for c in cases])


def verdicts(cases, name):
    speeds = [c for c in cases if c["row"]["unit"] == "TFLOP/s"]
    right = sum(c[name]["right"] for c in speeds)
    optimistic = [c["row"]["what"] for c in speeds
                  if c["row"]["value"] == "OOM" and not c[name]["right"]]
    others = [c for c in cases if c["row"]["unit"] != "TFLOP/s"]
    return common.paragraph(
        f"Checkpoints {name}: whether it fits is right in {right} of {len(speeds)} rows of Fig. 5 "
        f"(too optimistic: {', '.join(optimistic) or 'none'}); of the {len(others)} other rows "
        f"{sum(c[name]['own'] for c in others)} fit on the GPUs that the paper names.")


def write(cases):
    common.write_text(HERE / "result.md", f"""\
# Result: 3D parallelism in the ZeRO-Infinity paper

Tensor slices within a node, pipeline stages (1F1B) and data parallelism with the optimizer's state
partitioned over it (ZeRO-1), a checkpoint per layer, sequences of 1,024 tokens. The paper gives no
layouts and for Fig. 5 no batches: each row is the best of all layouts whose slices are of a node
and whose slices and stages divide the GPUs, Fig. 5 with the batch that Table 1 has for
ZeRO-Infinity on the same model, and micro-batches of 1, 2 or 4 sequences.

{table(cases)}
{chr(10).join(verdicts(cases, name) for name in PARTITIONS)}
`largest model` adds layers of the row's hidden size; `GPUs` are the fewest nodes on which some
layout fits. A batch is halved as often as a plan of it would have too many ops (`of`: sequences of
a step).
""")
    common.write_csv(
        HERE / "result.csv",
        ["where", "what", "published", "unit", "checkpoints", "predicted", "low", "high", "layout"],
        [[*(c["row"][key] for key in ("where", "what", "value", "unit")), name,
          *(c[name].get(key) for key in ("predicted", "low", "high", "layout"))]
         for c in cases for name in PARTITIONS])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="TEXT")
    asked = parser.parse_args().rows
    rows = [r for r in common.read_csv(HERE / "published.csv")
            if not asked or asked in f"{r['where']} {r['what']}"]
    cases = [predict(row) for row in rows]
    if asked:
        print(table(cases))
    else:
        write(cases)


if __name__ == "__main__":
    main()
