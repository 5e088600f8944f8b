"""ZeRO-Infinity's statement on predicted and measured efficiency, on every published row."""

import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero_infinity

PEAK_TFLOPS = 70.0
SMALL_HIDDEN_K = 8
NEAR_LOWER_END = 1 / 3
OUTLOOKS = ("low", "typical", "high")
GPUS_PER_NODE = 16
LARGE_CLUSTER_NODES = 32
TRAFFIC = {"parameters": "GPU-GPU (parameters, gradients)", "optimizer_state": "optimizer state",
           "checkpoints": "checkpoints"}
LINKS = {"network bandwidth (a node)": "network", "GPU-GPU bandwidth in a node": "NVLink",
         "NVMe bandwidth (a node)": "drives", "PCIe bandwidth (a node)": "PCIe",
         "host memory and cores (a node)": "host"}
BETWEEN_GPUS = ("network", "NVLink")
SWEEP = (1, 2, 5)


def read(experiment):
    return common.read_csv(HERE.parent / experiment / "published.csv")


def measured_rows():
    """Every published throughput: figure, row of Table 1, TFLOP/s per GPU."""
    for figure, nodes in (("5a", "32"), ("5c", "1")):
        for r in read("zero-infinity-fig" + figure):
            if r["system"] == "ZeRO-Infinity" and r["flag"] == "printed":
                yield figure, zero_infinity.find(nodes, r["model"]), float(r["value"])
    offloaded = {"param_device": "NVMe", "opt_state_device": "NVMe", "optimizer_device": "NVMe"}
    for r in read("zero-infinity-fig5b"):
        if r["series"] == "ZeRO-Infinity measured":
            nodes = int(r["gpus"]) // GPUS_PER_NODE
            row = {**zero_infinity.find(32, "1T"), **offloaded, "nodes": str(nodes)}
            yield "5b", row, float(r["pflops"]) * 1e3 / int(r["gpus"])


def simulate(row, *options):
    """As published, else (with True) where the planner puts it."""
    answer = zero_infinity.simulate(row, *options)
    if answer["feasible"]:
        return answer, False
    return zero_infinity.simulate(row, *options, placed=False), True


def efficiency(answer, step_time_s):
    return common.paper_tflops(answer, step_time_s) / PEAK_TFLOPS


def first_limit(answer):
    """By equation: the traffic with the lowest efficiency; by engine: the most from a doubling."""
    alone = answer["closed_form"]["efficiency"]
    gains = {LINKS[w["what"]]: answer["step_time_s"] / w["step_time_s"] - 1
             for w in answer["what_if"] if w["factor"] == 2 and w["what"] in LINKS}
    return min(alone, key=alone.get), gains


def predict(figure, row, tflops):
    answers, starred = {}, False
    for outlook in OUTLOOKS:
        answers[outlook], starred = simulate(row, "--outlook", outlook, "--what-if",
                                              *common.TYPICAL_MEMORY)
    mark = " *" if starred else ""
    gpus = int(row["nodes"]) * GPUS_PER_NODE
    return {
        "figure": figure, "row": row, "label": f"{row['params']} on {gpus}{mark}",
        "small": int(row["hidden_k"]) <= SMALL_HIDDEN_K, "measured": tflops / PEAK_TFLOPS,
        "closed": [efficiency(answers[o], answers[o]["closed_form"]["paper"]) for o in OUTLOOKS],
        "engine": [efficiency(answers[o], answers[o]["step_time_s"]) for o in OUTLOOKS],
        "limits": {o: first_limit(answers[o]) for o in OUTLOOKS},
    }


def inside(case, which):
    low, _, high = case[which]
    return common.in_range(case["measured"], low, high)


def place(case, which):
    low, _, high = case[which]
    return (case["measured"] - low) / (high - low)


def median_place(cases, which, small):
    return statistics.median(place(c, which) for c in cases if c["small"] == small)


def near_lower_end(cases, which):
    small = median_place(cases, which, True)
    return small <= NEAR_LOWER_END and small < median_place(cases, which, False)


def engine_limit(case, outlook):
    gains = case["limits"][outlook][1]
    return max(gains, key=gains.get)


def share(value):
    return f"{100 * value:.0f}%"


def span(values):
    return f"{100 * values[0]:.0f} to {100 * values[2]:.0f}%"


def range_table(cases):
    return common.markdown_table(
        ["Fig.", "model on GPUs", "measured", "closed form", "typical", "inside", "place", "engine",
         "typical", "inside", "place"],
        [[c["figure"], c["label"], share(c["measured"]), span(c["closed"]), share(c["closed"][1]),
          common.yes(inside(c, "closed")), f"{place(c, 'closed'):.2f}", span(c["engine"]),
          share(c["engine"][1]), common.yes(inside(c, "engine")), f"{place(c, 'engine'):.2f}"]
         for c in cases])


def gains_text(gains):
    return ", ".join(f"{name} {100 * gain:.1f}%" for name, gain in
                     sorted(gains.items(), key=lambda g: -g[1])[:2])


def limit_table(cases):
    return common.markdown_table(
        ["Fig.", "model on GPUs", "batch", "first limit by equation",
         "engine, typical: doubling gains", "engine, low: doubling gains"],
        [[c["figure"], c["label"], c["row"]["batch_per_gpu"], TRAFFIC[c["limits"]["typical"][0]],
          gains_text(c["limits"]["typical"][1]), gains_text(c["limits"]["low"][1])] for c in cases])


def sweep():
    """1T on 512 GPUs with everything on NVMe, by batch."""
    for batch in SWEEP:
        row = {**zero_infinity.find(32, "1T"), "batch_per_gpu": str(batch), "param_device": "NVMe",
               "optimizer_device": "NVMe"}
        yield batch, {o: simulate(row, "--outlook", o, "--what-if", *common.TYPICAL_MEMORY)[0]
                      for o in ("low", "typical")}


def sweep_table():
    table = []
    for batch, answers in sweep():
        alone = answers["typical"]["closed_form"]["efficiency"]
        table.append([batch, *(share(alone[t]) for t in TRAFFIC),
                      gains_text(first_limit(answers["typical"])[1]),
                      gains_text(first_limit(answers["low"])[1])])
    return common.markdown_table(
        ["batch", *(f"Eq. 6, {t}" for t in TRAFFIC.values()), "engine, typical: doubling gains",
         "engine, low: doubling gains"], table)


def held(condition):
    return "holds" if condition else "does not hold"


def verdicts(cases):
    """Statement, closed form, engine; each a text that begins with holds, or does not."""
    large = [c for c in cases if int(c["row"]["nodes"]) == LARGE_CLUSTER_NODES]
    texts = {"closed": [], "engine": []}
    for which, found in texts.items():
        count = sum(inside(c, which) for c in cases)
        found.append(f"{held(count == len(cases))}: {count} of {len(cases)}")
        found.append(f"{held(near_lower_end(cases, which))}: median place "
                     f"{median_place(cases, which, True):.2f}, others "
                     f"{median_place(cases, which, False):.2f}")
    first = sum(c["limits"]["typical"][0] == "parameters" for c in large)
    texts["closed"].append(f"{held(first == len(large))}: {first} of {len(large)} rows")
    counts = {o: sum(engine_limit(c, o) in BETWEEN_GPUS for c in large) for o in ("typical", "low")}
    best = "holds" if counts["typical"] == len(large) else (
        "holds at the low end only" if counts["low"] == len(large) else "does not hold")
    texts["engine"].append(f"{best}: {counts['typical']} of {len(large)} rows typical, "
                           f"{counts['low']} of {len(large)} low")
    return texts


def outside(cases, which):
    """Rows outside, above and below."""
    high = [c["label"] for c in cases if not inside(c, which) and place(c, which) > 1]
    low = [c["label"] for c in cases if not inside(c, which) and place(c, which) < 0]
    parts = [f"{side} it {', '.join(labels)}" for side, labels in (("below", low), ("above", high))
             if labels]
    return "; ".join(parts) or "none"


def notes(cases):
    return (
        f"Outside the closed form's range: {outside(cases, 'closed')}.  Outside the engine's: "
        f"{outside(cases, 'engine')}.",
        "10B keeps everything on the GPU, and neither model finds what held it at 45 TFLOP/s; an "
        "independent reproduction measured about 63 (DeepSpeed issue 1776), inside both ranges "
        "within 5%.",
        "The closed form is low for 0.5T and 1T on one node: it adds the drives' traffic of "
        "parameters to compute.  The engine overlaps the two, and holds both rows.",
        "Small models: a reason may be the peak, which the paper measured as 62 TFLOP/s at hidden "
        "8K and 78 at 64K, while the closed form takes one range for all.  In the engine the rate "
        "of a product follows its size, so its ranges lie lower for small models already; they lie "
        "at its low end or below even so, and so does 0.5T on 512 GPUs.",
        "First limit: by Eq. 9 and 10 the batch cancels, so the network comes before the drives on "
        "512 GPUs at every batch (70 GB/s against a quarter of 819), and the loss grows as the "
        "batch falls.  In the engine the typical outlook hides most collectives behind compute.  "
        "There the network comes first at batch 1, and from batch 2 on the drives by a little, "
        "since the optimizer step hides behind nothing; at the low end, where collectives do not "
        "overlap, the network comes first at every batch.")


def write(cases):
    texts = verdicts(cases)
    statements = [r["statement"] for r in common.read_csv(HERE / "published.csv")]
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Infinity, predicted and measured efficiency

{common.markdown_table(["statement", "by the paper's equations", "by the engine"],
                       list(zip(statements, texts["closed"], texts["engine"])))}
## Ranges

Efficiency is TFLOP/s per GPU, counted as the paper counts them, over 70.  Place: 0 is the low end
of the range, 1 the high end.  * simulated with the planner's placement, since the published one
does not fit.

{range_table(cases)}
## First limit

{limit_table(cases)}
1T on 512 GPUs, all states on NVMe, by batch:

{sweep_table()}
## Notes

{common.bullets(*notes(cases))}""")
    common.write_csv(HERE / "result.csv",
                     ["figure", "row", "measured", "flag", "closed_low", "closed_typical",
                      "closed_high", "closed_inside", "engine_low", "engine_typical",
                      "engine_high", "engine_inside", "first_limit_equation", "first_limit_engine",
                      "first_limit_engine_low"],
                     [[c["figure"], c["label"], c["measured"],
                       "digitised" if c["figure"] == "5b" else "printed", *c["closed"],
                       common.yes(inside(c, "closed")), *c["engine"],
                       common.yes(inside(c, "engine")), c["limits"]["typical"][0],
                       engine_limit(c, "typical"), engine_limit(c, "low")] for c in cases])


def plot(cases):
    rows = [[i, c["label"].replace(" on ", "\\n"), 100 * c["measured"],
             *(100 * v for v in c["closed"]), *(100 * v for v in c["engine"])]
            for i, c in enumerate(cases)]
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO-Infinity: measured efficiency and predicted ranges' font ',16'
set ylabel '% of 70 TFLOP/s'
set yrange [0:130]
set xrange [-0.6:{len(rows) - 0.4}]
set xtics font ',11'
set boxwidth 0.55
set style fill solid 0.35 noborder
set key top center horizontal samplen 1.5
set bmargin 5
set xlabel 'Fig. 5c, 5a, 5b: model and GPUs' offset 0,-0.5
set bars 1.2
plot $rows using 1:3:xtic(2) with boxes lc rgb '{common.PUBLISHED}' title 'measured', \\
     $rows using ($1-0.12):5:4:6 with yerrorbars pt 5 ps 0.9 lw 2 lc rgb '{common.CLOSED_FORM}' \\
         title "the paper's closed form, low to high", \\
     $rows using ($1+0.12):8:7:9 with yerrorbars pt 7 ps 0.9 lw 2 lc rgb '{common.ENGINE}' \\
         title 'engine, low to high'
""", {"rows": rows}, (1200, 560))


def main():
    cases = [predict(*row) for row in measured_rows()]
    cases.sort(key=lambda c: ("5c", "5a", "5b").index(c["figure"]))
    write(cases)
    plot(cases)


if __name__ == "__main__":
    main()
