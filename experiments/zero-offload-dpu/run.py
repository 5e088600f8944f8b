"""ZeRO-Offload Fig. 9: throughput with and without delayed parameter update."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero_infinity
import zero_offload

BATCH = 8
DELAY = {"no": (), "yes": ("--dpu-start", 40)}


def simulate(size, dpu, settings):
    return common.memwall("simulate", "-m", f"zo-{size}b", "-H", "v100", "-s", "zero-offload",
                          "--batch", BATCH, *DELAY[dpu], *settings)


def run():
    rows = []
    for r in common.read_csv(HERE / "published.csv"):
        answer = simulate(r["params_b"], r["dpu"], zero_offload.AS_RUN)
        planned = simulate(r["params_b"], r["dpu"], zero_offload.PLANNED)
        name = " DPU" if r["dpu"] == "yes" else ""
        c = common.compare(f"{r['params_b']}B{name}", float(r["tflops"]),
                           common.prediction(answer), r["flag"])
        c.update(size=r["params_b"], dpu=r["dpu"], answer=answer, planned_answer=planned,
                 planned=common.prediction(planned)["engine"])
        rows.append(c)
    return rows


def gains(rows):
    """Throughput delayed over at once, by model."""
    result = []
    for a, b in zip(rows[::2], rows[1::2]):
        gain = zero_infinity.step_ratio(a["answer"], b["answer"])
        gain.update(size=a["size"], published=b["published"] / a["published"],
                    planned=b["planned"] / a["planned"])
        result.append(gain)
    return result


def gain_table(rows):
    return common.markdown_table(
        ["model", "published", "engine", "error", "low", "high", "engine, overlapped"],
        [[f"{g['size']}B", g["published"], g["engine"],
          common.percent(common.error_percent(g["engine"], g["published"])), g["low"], g["high"],
          g["planned"]] for g in gains(rows)])


def write(rows):
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Offload Fig. 9, delayed parameter update

TFLOP/s.

{common.comparison_table(rows)}
{common.summary(rows)}
{zero_offload.HOW_IT_RAN}
## Gain of the delay

Throughput with over throughput without; low and high with both at the same end of the ranges.

{gain_table(rows)}
The gain is predicted for every model, and smaller than published.

## What the model lacks

{common.bullets(
    "The delay hides the update, not the parameters' way back: memwall copies them when the step "
    "ends (1.7 s for 10B), in one piece; without the delay they go back chunk by chunk beside the "
    "update.")}""")
    common.write_comparison_csv(HERE / "result.csv", rows)


def plot(rows):
    data = [[i, c["row"], c["published"], c["engine"], c["low"], c["high"], c["closed_form"],
             c["planned"]] for i, c in enumerate(rows)]
    extra = f"$rows using ($1+0.2):8 with points pt 6 lw 2 lc rgb '{common.ENGINE}' " \
            "title 'engine, overlapped'"
    common.plot_comparison(HERE / "plot.svg", rows, "ZeRO-Offload Fig. 9: delayed update",
                           "TFLOP/s", rows=data, extra=extra)


def main():
    rows = run()
    write(rows)
    plot(rows)


if __name__ == "__main__":
    main()
