"""ZeRO-Infinity Fig. 6a: the largest model of each strategy on one DGX-2."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero_infinity

GPUS = 16
# The bar after the last: Table 1's next model, on the same node.
BEYOND = {"model": "zi-5t", "published_billion": "5000", "mp": "4", "sequences": "20"}


def plan(bar, model, layout, *options):
    """The plan of `model` under the strategy of `bar`, with the bar's slicing and batch."""
    return common.memwall("plan", "-m", model, "-H", "dgx2", "--seq", "1024",
                          "-s", bar["memwall_strategy"], "--tp", bar["mp"],
                          "--sequence-parallel", "off",
                          "--batch", float(bar["sequences"]) / GPUS, "--commit", "none",
                          "--state-layout", layout, *options)


def next_larger(bars, bar):
    larger = [b for b in bars if float(b["published_billion"]) > float(bar["published_billion"])]
    return larger[0] if larger else BEYOND


def check(bars, bar, layout):
    """Both verdicts of a bar, and the most layers of its hidden size that fit."""
    beyond = next_larger(bars, bar)
    largest = plan(bar, bar["model"], layout, "--largest")
    own, larger = plan(bar, bar["model"], layout), plan(bar, beyond["model"], layout)
    return {"bar": bar, "beyond": beyond, "own": own, "larger": larger, "largest": largest,
            "layout": layout, "billion": largest["paper_params"] / 1e9}


def verdict(answer, expected_fit):
    if answer["feasible"]:
        return "fits" if expected_fit else "FITS: OPTIMISTIC ERROR"
    text = "does not fit: " + zero_infinity.shortage(answer)
    return text if not expected_fit else text + " (pessimistic error)"


def tightest(answer):
    tiers = answer["tiers"].items()
    name, tier = max(tiers, key=lambda t: t[1]["peak_bytes"] / max(1, t[1]["capacity_bytes"]))
    return f"{name} {100 * tier['peak_bytes'] / tier['capacity_bytes']:.0f}%"


def right(case):
    return case["own"]["feasible"] and not case["larger"]["feasible"]


def verdict_table(cases):
    return common.markdown_table(
        ["strategy", "model of the bar", "verdict", "tightest tier", "next larger model", "verdict",
         "right"],
        [[c["bar"]["strategy"], c["bar"]["model"], verdict(c["own"], True), tightest(c["own"]),
          c["beyond"]["model"], verdict(c["larger"], False), common.yes(right(c))]
         for c in cases])


def largest_table(cases):
    return common.markdown_table(
        ["strategy", "published label, billion", "its configuration, billion", "layers",
         "predicted layers", "predicted, billion", "predicted / configuration",
         "predicted / label"],
        [[c["bar"]["strategy"], float(c["bar"]["published_billion"]),
          c["own"]["paper_params"] / 1e9, c["bar"]["layers"], c["largest"]["layers"], c["billion"],
          c["billion"] / (c["own"]["paper_params"] / 1e9),
          c["billion"] / float(c["bar"]["published_billion"])] for c in cases])


def count(cases):
    wrong = [c["bar"]["strategy"] for c in cases if not right(c)]
    optimistic = [c["bar"]["strategy"] for c in cases if c["larger"]["feasible"]]
    return common.paragraph(
        f"Verdicts right for {len(cases) - len(wrong)} of {len(cases)} bars"
        + (f" (not {', '.join(wrong)})" if wrong else "") + "; optimistic errors: "
        + (", ".join(optimistic) or "none") + ".") + "\n"


def lacks(sixteen, twenty):
    cpu = next(c for c in sixteen if c["bar"]["strategy"] == "ZeRO-Inf-CPU")
    cpu20 = next(c for c in twenty if c["bar"]["strategy"] == "ZeRO-Inf-CPU")
    three = next(c["largest"] for c in sixteen if c["bar"]["strategy"] == "ZeRO 3")
    billion = cpu["own"]["paper_params"] / 1e9
    node = (16 * cpu["own"]["tiers"]["gpu"]["capacity_bytes"]
            + 16 * cpu["own"]["tiers"]["cpu"]["capacity_bytes"]) / 1e12
    return common.bullets(
        "ZeRO-Inf-CPU: the label says 70B, the printed configuration (125 layers of 8192) has "
        f"{billion:.1f}B.  20 bytes for each of them are {20 * billion / 1e3:.2f} TB, more than "
        f"the {node:.2f} TB that GPUs and host have together, so with the paper's own count that "
        f"configuration cannot have run; {cpu20['billion']:.1f}B is the most, close to the label.  "
        f"With 16 bytes {cpu['largest']['layers']} layers fit, close to the configuration.  So the "
        "bar holds one way or the other, and the two published figures contradict each other.",
        "The other predicted maxima lie above the published labels: the paper shows models that it "
        "ran, at coarse steps, not the last layer that fits, and what its software kept beside the "
        "states (fragmentation, communication buckets, fp32 copies of a bucket) is not in the "
        "ledger beyond the reserve of 1.5 GiB a GPU.",
        f"ZeRO 3 is the loosest of the GPU-resident bars: {three['layers']} layers with 16 bytes, "
        "98 published.  Nothing in the ledger forbids them, and the paper does not say what "
        "stopped there.",
        "Data parallel: the configuration printed for 1.4B has 1.13B by 12 nl hd^2; an embedding "
        "would add 0.08B.",
        "3D Parallelism: experiments/zero-infinity-3d.")


def write(bars, sixteen, twenty):
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Infinity Fig. 6a, the largest model on one DGX-2

Each bar is asked twice: does its own model fit under its strategy (it did), and does the model of
the next larger bar (it did not, or it would be the bar)?  The next after the last bar is 5T.

## 16 bytes of state a parameter

The layout that the software of these strategies holds (ZeRO, arXiv 1910.02054, Sec. 3.1), memwall's
default.

{verdict_table(sixteen)}
{count(sixteen)}
The most layers of the bar's own hidden size:

{largest_table(sixteen)}
## 20 bytes of state a parameter

The count of ZeRO-Infinity's Sec. 3, with an fp32 gradient kept beside the optimizer state.

{verdict_table(twenty)}
{count(twenty)}
{largest_table(twenty)}
## What the model lacks

{lacks(sixteen, twenty)}""")
    common.write_csv(
        HERE / "result.csv",
        ["layout", "strategy", "published_billion", "model", "model_billion", "fits", "next_model",
         "next_fits", "verdict_right", "predicted_layers", "predicted_billion"],
        [[c["layout"], c["bar"]["strategy"], c["bar"]["published_billion"], c["bar"]["model"],
          c["own"]["paper_params"] / 1e9, common.yes(c["own"]["feasible"]), c["beyond"]["model"],
          common.yes(c["larger"]["feasible"]), common.yes(right(c)), c["largest"]["layers"],
          c["billion"]] for c in sixteen + twenty])


def plot(bars, sixteen, twenty):
    predicted = [{c["bar"]["strategy"]: c for c in cases} for cases in (sixteen, twenty)]
    rows = []
    for i, bar in enumerate(bars):
        cases = [p.get(bar["strategy"]) for p in predicted]
        config = cases[0]["own"]["paper_params"] / 1e9 if cases[0] else None
        rows.append([i, bar["strategy"], float(bar["published_billion"]), config,
                     *(c["billion"] if c else None for c in cases)])
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO-Infinity Fig. 6a: the largest model on one DGX-2' font ',16'
set ylabel 'billion parameters'
set logscale y
set yrange [0.5:4000]
set xrange [-0.6:{len(rows) - 0.4}]
set boxwidth 0.5
set style fill solid 0.35 noborder
set key top left
plot $rows using 1:3:xtic(2) with boxes lc rgb '{common.PUBLISHED}' title 'published label', \\
     $rows using ($1-0.15):4 with points pt 1 ps 1.2 lw 2 lc rgb '{common.PUBLISHED}' \\
         title 'published configuration', \\
     $rows using 1:5 with points pt 7 ps 1.1 lc rgb '{common.ENGINE}' \\
         title 'predicted, 16 bytes a parameter', \\
     $rows using ($1+0.15):6 with points pt 5 ps 1.0 lc rgb '{common.CLOSED_FORM}' \\
         title 'predicted, 20 bytes a parameter'
""", {"rows": rows}, (1000, 560))


def main():
    bars = common.read_csv(HERE / "published.csv")
    predicted = [b for b in bars if b["memwall_strategy"]]
    sixteen = [check(predicted, b, "zero16") for b in predicted]
    twenty = [check(predicted, b, "paper20") for b in predicted]
    write(bars, sixteen, twenty)
    plot(bars, sixteen, twenty)


if __name__ == "__main__":
    main()
