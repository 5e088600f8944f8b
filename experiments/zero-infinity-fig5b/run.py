"""ZeRO-Infinity Fig. 5b: weak scaling of 1T parameters over 64 to 512 GPUs."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero_infinity

GPUS_PER_NODE = 16
NODES = [4, 8, 16, 32]
OFFLOADED = ("--param-device", "nvme", "--optimizer-device", "nvme")


def published(series):
    return {int(r["gpus"]) // GPUS_PER_NODE: float(r["pflops"])
            for r in common.read_csv(HERE / "published.csv") if r["series"] == series}


def simulate(nodes, *placement):
    return common.memwall("simulate", "-m", "zi-1t", "--nodes", nodes, "--tp", "4", "--batch", "5",
                          "-s", "zero-infinity-nvme", *zero_infinity.SETTINGS, *placement)


def petaflops(answer):
    gpus = GPUS_PER_NODE * answer["settings"]["nodes"]
    return {k: v * gpus / 1e3 for k, v in common.prediction(answer).items()}


def predict(nodes, value):
    answer = simulate(nodes, *OFFLOADED)
    label = f"{nodes * GPUS_PER_NODE} GPUs"
    return {"nodes": nodes, "answer": answer,
            "comparison": common.compare(label, value, petaflops(answer), "digitised")}


def per_gpu(pflops, nodes):
    return pflops * 1e3 / (GPUS_PER_NODE * nodes)


def scaling_table(cases):
    """Throughput per GPU over that of 4 nodes: above 1 is superlinear."""
    first = cases[0]["comparison"]
    table = []
    for case in cases:
        c, n = case["comparison"], case["nodes"]
        table.append([c["row"], per_gpu(c["published"], n), per_gpu(c["engine"], n)] +
                     [c[k] / first[k] * NODES[0] / n
                      for k in ("published", "engine", "low", "high", "closed_form")])
    return common.markdown_table(
        ["row", "published TFLOP/s per GPU", "engine TFLOP/s per GPU", "published / linear",
         "engine / linear", "low / linear", "high / linear", "closed form / linear"], table)


def time_table(cases):
    table = []
    for case in cases:
        a = case["answer"]
        phases = {p["name"]: p["end_s"] - p["start_s"] for p in a["phases"]}
        table.append([case["comparison"]["row"], a["step_time_s"],
                      phases["forward"] + phases["backward"], phases["optimizer"],
                      *(common.busy(a, n) for n in ("sm", "nic", "drive"))])
    return common.markdown_table(["row", "step s", "forward and backward s", "optimizer step s",
                                  "compute s", "network s", "drives s"], table)


def own_placement_table(values):
    table = []
    for nodes in NODES:
        answer = simulate(nodes)
        c = common.compare("", values[nodes], petaflops(answer))
        table.append([f"{nodes * GPUS_PER_NODE} GPUs", zero_infinity.placement(answer),
                      values[nodes], c["engine"], common.percent(c["engine_error"]), c["low"],
                      c["high"], common.yes(c["in_range"])])
    return common.markdown_table(["row", "placement", "published", "engine", "error", "low", "high",
                                  "in range"], table)


def lacks(cases):
    times = [c["answer"]["phases"][-1] for c in cases]
    optimizer = [t["end_s"] - t["start_s"] for t in times]
    return common.bullets(
        f"Why superlinear: the optimizer step shrinks with the nodes, from {optimizer[0]:.0f} s on "
        f"4 to {optimizer[-1]:.0f} s on 32, since each node's drives, PCIe and host update a "
        "smaller share, while forward and backward stay alike.  The paper explains its curve the "
        "same way.",
        "The engine's curve is steeper than the published one.  From 8 nodes on it is high by the "
        "amount by which it overlaps collectives with compute: the published points lie near the "
        "low end of the range, as the 32-node rows of Fig. 5a do.",
        "Published grows unevenly: its points at 8 and at 32 nodes lie 11% above the linear line, "
        "that at 16 nodes 5%; digitising explains 0.1 PFLOP/s, 1 to 2% there.")


def write(cases, values):
    comparisons = [c["comparison"] for c in cases]
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Infinity Fig. 5b, weak scaling of 1T parameters

PFLOP/s of all GPUs, batch 5 per GPU, tensor slicing 4, all states on NVMe.

{common.comparison_table(comparisons)}
{common.summary(comparisons)}
{zero_infinity.OUTLOOKS}
{zero_infinity.NUMERATOR}
## Superlinear?

Throughput per GPU over that of 64 GPUs; above 1 is superlinear.

{scaling_table(cases)}
## Where the time goes

{time_table(cases)}
## With the planner's own placement

Parameters / optimizer state / checkpoints.  With more nodes there is room in faster memory.

{own_placement_table(values)}
## What the model lacks

{lacks(cases)}""")
    common.write_comparison_csv(HERE / "result.csv", comparisons)


def plot(cases, linear):
    rows = [[c["nodes"] * GPUS_PER_NODE, c["comparison"]["published"], linear[c["nodes"]],
             c["comparison"]["engine"], c["comparison"]["low"], c["comparison"]["high"],
             c["comparison"]["closed_form"]] for c in cases]
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO-Infinity Fig. 5b: weak scaling of 1T parameters' font ',16'
set xlabel 'GPUs'
set ylabel 'PFLOP/s'
set xrange [32:544]
set yrange [0:*]
set xtics (64, 128, 256, 512)
set key top left
set bars 1.2
plot $rows using 1:3 with lines lw 1.5 dt 2 lc rgb '#999999' \\
         title 'linear, from the published 64', \\
     $rows using 1:2 with linespoints pt 7 ps 1.1 lw 2 lc rgb '{common.PUBLISHED}' \\
         title 'published', \\
     $rows using 1:4:5:6 with yerrorbars pt 7 ps 0.9 lw 2 lc rgb '{common.ENGINE}' \\
         title 'engine, low to high', \\
     $rows using 1:4 with lines lw 1.5 lc rgb '{common.ENGINE}' notitle, \\
     $rows using 1:7 with linespoints pt 5 ps 0.9 lw 1.5 lc rgb '{common.CLOSED_FORM}' \\
         title "the paper's closed form"
""", {"rows": rows})


def main():
    values = published("ZeRO-Infinity measured")
    cases = [predict(n, values[n]) for n in NODES]
    write(cases, values)
    plot(cases, published("perfect linear"))


if __name__ == "__main__":
    main()
