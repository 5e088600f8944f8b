"""GPT-3 175B on 512 A100: what Calculon finds best, what memwall finds, and why they differ."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

MACHINE = ("-H", "dgx-a100", "--nodes", 64, "--seq", 2048, "--global-batch", 1536)
MODEL = ("-m", "gpt3-175b")
BLOCKS = ("-m", "layers=96,hidden=12288,heads=96,vocab=128,seq=2048,architecture=gpt2")
ROOM = ("--set", "gpu.memory_gib=400")
ALONE, OFFLOADED = "Calculon's best on the GPU alone", "Calculon's best"
FRAMEWORK = "megatron"

# What makes memwall's machine and software Calculon's, one after the other, by its system's file.
LADDER = (
    ("memwall's prediction, with memory enough", (), FRAMEWORK),
    ("attention's scores are stored, and formed again in backward",
     ("--set", "software.attention.kernel=unfused", "--recompute-attention", "on"), FRAMEWORK),
    ("ideal software", (), "ideal"),
    ("blocks alone, no embedding and no logits", BLOCKS, "ideal"),
    ("products of any shape at 0.95 of the peak, 296 TFLOP/s",
     ("--set", "gpu.tile_tflops=296.4", "--set", "gpu.sustained_share=1", "--set",
      "gpu.tile_fill=1", "--set", "gpu.tile_shares=1;1;1;1"), "ideal"),
    ("memory at 0.90 of 2,048 GB/s", ("--set", "gpu.memory_gb_per_s=1843.2"), "ideal"),
    ("NVLink at 0.65 of 300 GB/s", ("--set", "fabric.gb_per_s=195"), "ideal"),
    ("collectives take 2% of a GPU from products beside them",
     ("--set", "gpu.collective_sm_share=0.02"), "ideal"),
    ("sums of slices take no time", ("--set", "fabric.gb_per_s=100000"), "ideal"),
)


def places(row):
    """ZeRO-1 in slices and stages, or parameters and all activations in host memory.  Attention by
    a fused kernel keeps no scores, so nothing of it is left to recompute."""
    if row["offloaded"] == "weights and activations":
        return ["-s", "zero-infinity-cpu", "--param-device", "cpu", "--gradient-device", "gpu",
                "--optimizer-device", "gpu", "--activation-device", "cpu", "--checkpoints",
                "activations"]
    if row["offloaded"] != "nothing" or row["recomputed"] == "full":
        raise ValueError(f"{row['of']}: what is off the GPU, or recomputed, has no options here")
    return ["-s", "zero1", "--activation-checkpoint-interval", "0"]


def shape(row):
    batch = int(row["sequences"]) / int(row["tp"])
    words = [*places(row), "--tp", row["tp"], "--batch", f"{batch:.12g}", "--sequence-parallel",
             "on", "--commit", "none"]
    if int(row["pp"]) > 1:
        words += ["--pp", row["pp"]]
    if int(row["stretches"]) > 1:
        words += ["--schedule", "interleaved", "--virtual-stages", row["stretches"]]
    return words


def software_of(row):
    """Megatron-LM moves no activations to host memory."""
    return FRAMEWORK if row["offloaded"] == "nothing" else "ideal"


def ask(row, *options, model=MODEL, software=None):
    return common.memwall("simulate", *model, *MACHINE, *shape(row), *options, "--software",
                          software or software_of(row), "--outlook", "typical", interval=None)


def search(software):
    """memwall's own: the fastest row that was simulated."""
    binary = os.environ.get("MEMWALL", str(common.ROOT / "build" / "cli" / "memwall"))
    words = [str(w) for w in (*MODEL, *MACHINE, "--software", software)]
    done = subprocess.run([binary, "advise", *words, "--search", "parallel", "--json"], check=True,
                          capture_output=True, text=True)
    answer = json.loads(done.stdout)
    return answer["rows"][answer["fastest"]]


def gib(bytes_):
    return bytes_ / 2 ** 30


def run_row(row):
    plain, roomy = ask(row), ask(row, *ROOM)
    ledger = {}
    for part in plain["ledger"]:
        if part["tier"] == "gpu":
            ledger[part["purpose"]] = ledger.get(part["purpose"], 0) + gib(part["bytes"])
    return {"row": row, "fits": plain["feasible"], "step_s": roomy["step_time_s"],
            "gib": gib(plain["need_bytes"]["gpu"]), "ledger": ledger}


def ladder(row):
    options, model, rungs = [], MODEL, []
    for what, more, software in LADDER:
        if more[:1] == ("-m",):
            model = more
        else:
            options += more
        answer = ask(row, *options, *ROOM, model=model, software=software)
        rungs.append((what, answer["step_time_s"]))
    return rungs


def strategy(row):
    return " x ".join(row[key] for key in ("tp", "pp", "dp"))


def table(cases):
    return common.markdown_table(
        ["strategy", "slices x stages x data", "sequences", "stretches", "recomputed",
         "slices' sums", "off the GPU", "Calculon s", "GiB", "fits", "memwall s", "GiB", "fits",
         "software"],
        [[c["row"]["of"], strategy(c["row"]), c["row"]["sequences"], c["row"]["stretches"],
          c["row"]["recomputed"], c["row"]["sums"], c["row"]["offloaded"],
          float(c["row"]["step_s"]), float(c["row"]["total_gib"]), c["row"]["fits"], c["step_s"],
          c["gib"], common.yes(c["fits"]), software_of(c["row"])] for c in cases])


PARTS = (("forward_s", "forward, s"), ("backward_s", "backward and update, s"),
         ("recomputed_s", "recomputation, s"), ("bubble_s", "bubble, s"),
         ("slices_s", "sums of slices, as waited for, s"),
         ("slices_link_s", "the same, on the links, s"), ("stages_s", "between stages, s"),
         ("data_s", "between replicas, as waited for, s"), ("weights_gib", "parameters, GiB"),
         ("gradients_gib", "gradients, GiB"), ("optimizer_gib", "optimizer state, GiB"),
         ("activations_gib", "activations, GiB"))


def parts_table(cases):
    return common.markdown_table(
        ["Calculon's", *(c["row"]["of"] for c in cases)],
        [[name, *(float(c["row"][key]) for c in cases)] for key, name in PARTS])


def memory_table(case):
    row, ledger = case["row"], case["ledger"]
    ours = [ledger.get(name, 0.0) for name in ("parameters", "gradients", "optimizer-state",
                                               "activations")]
    theirs = [float(row[key]) for key, _ in PARTS[-4:]]
    names = [name for _, name in PARTS[-4:]]
    return common.markdown_table(["", "Calculon", "memwall"],
                                 [*zip(names, theirs, ours), ["all, GiB", float(row["total_gib"]),
                                                              case["gib"]]])


def rungs_table(rungs, theirs):
    rows = [[what, step_s, f"{step_s - before:+.1f}" if before else ""]
            for (what, step_s), before in zip(rungs, [None, *(s for _, s in rungs)])]
    return common.markdown_table(["one after the other", "step s", "s"], [
        *rows, ["Calculon", theirs, f"{theirs - rungs[-1][1]:+.1f}"]])


def named(cases, of):
    return next(c for c in cases if c["row"]["of"] == of)


def run():
    cases = [run_row(row) for row in common.read_csv(HERE / "calculon.csv")]
    return cases, ladder(named(cases, ALONE)["row"]), {s: search(s) for s in (FRAMEWORK, "ideal")}


def found_table(found):
    return common.markdown_table(
        ["software", "fastest of the space, simulated, s", "options"],
        [[software, row["step_time_s"], "`" + row["options"] + "`"]
         for software, row in found.items()])


def write(cases, rungs, found):
    alone, best = named(cases, ALONE), named(cases, OFFLOADED)
    theirs = float(alone["row"]["step_s"])
    like = rungs[-1][1]
    common.write_text(HERE / "result.md", f"""\
# Result: GPT-3 175B on 512 A100, Calculon's best and memwall's

Steps of 1,536 sequences. memwall's seconds are with memory enough, its GiB and verdict of the
machine as it is.

{table(cases)}
What memwall finds by `advise --search parallel`:

{found_table(found)}
## From memwall's prediction of {ALONE} to Calculon's own

{rungs_table(rungs, theirs)}
{common.paragraph(
    f"With Calculon's figures of machine and software memwall's engine takes {like:.1f} s where "
    f"Calculon's sums give {theirs:.1f} s ({common.percent(common.error_percent(like, theirs))}).")}

## Calculon's own parts

{parts_table(cases)}
## Memory of {ALONE}

{memory_table(alone)}
## Why they differ

{common.bullets(
    "Gradients: Calculon counts those of one block whole and of all others a replica's share, "
    f"{float(alone['row']['gradients_gib']):.1f} GiB here. Stages that sum up the gradients of "
    "several micro-batches keep all of them, unless each micro-batch is reduced, which Calculon "
    f"does not count: memwall has {alone['ledger']['gradients']:.1f} GiB, as Megatron-LM sums in "
    "fp32. So strategies that Calculon takes for the fastest do not fit.",
    "Sums of slices: Calculon hides nearly all of them behind the products that make or take them "
    "('ring' and 'pipe', products in pieces). Megatron-LM, as its profile has it, starts those of "
    "backward's input gradients beside the weights' gradients and waits for the rest.",
    "Products: Calculon's run at 0.95 of the peak from 128 GFLOP on; memwall's machine has what "
    "products of these shapes reach when they last.",
    "Activations off the GPU: in its system each GPU has 512 GiB of second memory at 32 GB/s of "
    "its own, in memwall's 248 GiB and a part of 148 GB/s that eight share. Its best with these, "
    f"{float(best['row']['step_s']):.1f} s, takes {best['step_s']:.1f} s by memwall with ideal "
    "software, and fits. memwall's search does not find it: activations that leave instead of "
    "being recomputed are no part of its space, and Megatron-LM has none.")}""")
    common.write_csv(HERE / "result.csv",
                     ["of", "tp", "pp", "dp", "calculon_s", "calculon_gib", "memwall_s",
                      "memwall_gib", "memwall_fits"],
                     [[*(c["row"][key] for key in ("of", "tp", "pp", "dp")),
                       float(c["row"]["step_s"]), float(c["row"]["total_gib"]), c["step_s"],
                       c["gib"], common.yes(c["fits"])] for c in cases])


def main():
    write(*run())


if __name__ == "__main__":
    main()
