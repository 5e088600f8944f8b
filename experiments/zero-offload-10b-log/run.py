"""The measured step log of ZeRO-Offload, 10B on one V100: whole step and phases."""

import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero_offload

OPTIONS = ("-m", HERE / "config.json", "-H", "v100", "-s", "zero-offload", "--batch", 10,
           "--logits-chunks", 1, "--software", "deepspeed-0.3")
PHASES = ("forward", "backward", "optimizer")
# fp32 gradients on the link into the host: half its rate; checkpoints pass it too, 0.35 s of it.
FP32_ON_LINK = ("--set", "pcie.d2h_gb_per_s=5; 6; 6.05",
                "--set", "pcie.node_d2h_gb_per_s=5; 6; 6.05")


def measured_s(what):
    return statistics.mean(float(r["value_ms"]) / 1000
                           for r in common.read_csv(HERE / "published.csv") if r["what"] == what)


def step_s(answer):
    return answer["step_time_s"]


def phase(name):
    return lambda answer: zero_offload.phase_s(answer, name)


def run():
    answers = zero_offload.ends("simulate", *OPTIONS, *zero_offload.AS_RUN)
    rows = []
    for name in ("step", *PHASES):
        measure = step_s if name == "step" else phase(name)
        predicted = zero_offload.seconds(answers, measure)
        if name == "step":
            predicted["closed_form"] = answers["typical"]["closed_form"]["paper"]
        rows.append(common.compare("whole step" if name == "step" else name, measured_s(name),
                                   predicted))
    return rows, answers["typical"]


def variants(as_run):
    """The same step under other settings."""
    settings = (("as run", as_run),
                ("as run, fp32 gradients on the link",
                 common.memwall("simulate", *OPTIONS, *zero_offload.AS_RUN, *FP32_ON_LINK)),
                ("overlapped", common.memwall("simulate", *OPTIONS, *zero_offload.PLANNED)))
    whole = measured_s("step")
    return common.markdown_table(
        ["settings", "whole step", "error", *PHASES],
        [["measured", whole, "", *(measured_s(p) for p in PHASES)]]
        + [[name, step_s(a), common.percent(common.error_percent(step_s(a), whole)),
            *(zero_offload.phase_s(a, p) for p in PHASES)] for name, a in settings])


def write(rows, as_run):
    whole, forward, backward, optimizer = rows
    step_log, gradients_log = measured_s("optimizer_step"), measured_s("optimizer_gradients")
    missing = optimizer["published"] - optimizer["engine"]
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Offload, 10B on one V100, phases of the step

Seconds; measured are means over the log's iterations.

{common.comparison_table(rows)}
Whole step within 25%: **{common.yes(abs(whole["engine_error"]) <= 25)}** \
({common.percent(whole["engine_error"])}).

{zero_offload.HOW_IT_RAN}
## Other settings

{variants(as_run)}
fp32 on the link: DeepSpeed converts gradients to fp32 on the GPU before it copies them
(`stage2.py`, `async_inplace_copy_grad_to_fp32_buffer_from_gpu`), 4 bytes a parameter where the
paper counts 2.  Done here by halving the rate of the link out of the GPU.

## What the model lacks

{common.bullets(
    f"Optimizer: {missing:.1f} s of the whole step's {whole['published'] - whole['engine']:.1f} "
    f"s.  The paper's own Table 4 gives 2.57 s for the update of 10B on this host, and the "
    f"profile takes it; in the log the update (`optimizer_step`) took {step_log:.1f} s.  1.7 s of "
    f"that can be the 20 GB of parameters on their way back, which the plan hides behind the "
    f"update; about 2 s stay unexplained.  Before it comes a pass that unscales and clips the "
    f"fp32 gradients (`optimizer_gradients`, {gradients_log:.1f} s), which memwall plans as part "
    f"of the update.",
    f"Forward: {forward['published']:.1f} s against {forward['engine']:.1f} s.  The measured "
    f"backward holds a second forward and is only twice the first, so it is not the kernels that "
    f"are slow.  The authors' configuration keeps checkpoints in pageable host memory with "
    f"blocking copies.  memwall plans pinned memory: 4.2 GB in 0.35 s.  The time that is missing "
    f"would be 1.8 GB/s, which such copies may well be (Fig. 6c and 6e of ZeRO-Infinity imply 1.1 "
    f"with all GPUs at it); the log does not show it.",
    f"Backward: {backward['engine']:.1f} s against {backward['published']:.1f} s, on the slow "
    f"side although it sends 2 bytes a parameter.  So the copies of gradients were hidden at "
    f"least in part: the tutorial shows `overlap_comm` true, the authors' files the key that is "
    f"not read; overlapped, the backward is 6% too fast.")}""")
    common.write_comparison_csv(HERE / "result.csv", rows)


def main():
    rows, as_run = run()
    write(rows, as_run)
    common.plot_comparison(HERE / "plot.svg", rows, "ZeRO-Offload, 10B on one V100: phases", "s")


if __name__ == "__main__":
    main()
