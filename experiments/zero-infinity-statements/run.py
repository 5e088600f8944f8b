"""What the ZeRO-Infinity paper says in words and no other experiment here tests."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero
import zero_infinity

TRILLION = 1e12
DGX2 = ("-s", "zero-infinity-nvme", *zero_infinity.SETTINGS)
# 32T as 20T of Table 1 is wide, and its slices.
OF_32T = ("-m", "layers=328,hidden=90112,heads=704,vocab=0,seq=1024,architecture=gpt2",
          "--nodes", 32, "--tp", 8, "--batch", 0.125)
FASTER_DRIVES = ("--set", "nvme.read_gb_per_s=102.4", "--set", "nvme.write_gb_per_s=102.4")

# The model of 100T of Fig. 2a in 3D, a layer per stage, on A100 with five times their memory.  The
# first stage keeps as many micro-batches as there are stages; 250 are what a plan has room for.
LAYERS, SLICES, MICRO_BATCHES, PER_NODE = 315, 8, 250, 8
OF_100T = ("-m", f"layers={LAYERS},hidden=163840,heads=1024,vocab=0,seq=1024,architecture=gpt2",
           "-H", "dgx-a100", "--set", "gpu.memory_gib=400", "--set", "node.nodes_max=2048",
           "--tp", SLICES, "--sequence-parallel", "off", "--pp", LAYERS, "-s", "zero1", "--batch",
           1 / SLICES, "--grad-accum", MICRO_BATCHES, "--commit", "none", "--software",
           "deepspeed-0.3.15")
REPLICAS = (2, 3, 4, 5)


def of_100t():
    """GPUs by number of replicas, and what each lacks; one that fits ends the search."""
    found = []
    for replicas in REPLICAS:
        gpus = LAYERS * SLICES * replicas
        answer = common.memwall("plan", *OF_100T, "--nodes", gpus // PER_NODE)
        found.append({"gpus": gpus, "answer": answer})
        if answer["feasible"]:
            break
    return found


def speed(*options):
    answer = common.memwall("simulate", *options, *DGX2)
    return zero.tflops(answer) if answer["feasible"] else None


def largest_3d():
    """Billion parameters on 512 GPUs in 3D, as ../zero-infinity-3d found them."""
    rows = common.read_csv(HERE.parent / "zero-infinity-3d" / "result.csv")
    return max(float(r["predicted"]) for r in rows if r["what"] == "the largest model on 512 GPUs")


def run():
    of_20t = ("-m", "zi-20t", "--nodes", 32, "--tp", 8, "--batch", 1.25)
    of_10t = ("-m", "zi-10t", "--nodes", 32, "--tp", 4, "--batch")
    return {
        "100T": of_100t(),
        "32T": common.memwall("plan", *OF_32T, *DGX2),
        "largest": common.memwall("plan", *OF_32T, *DGX2, "--largest"),
        "1T": common.memwall("plan", "-m", "zi-1t", "--batch", 7, *DGX2),
        "gpt3": {batch: speed("-m", "gpt3-175b", "--seq", 1024, "--batch", batch)
                 for batch in (4, 8, 16, 24)},
        "20T": speed(*of_20t), "20T, drives": speed(*of_20t, *FASTER_DRIVES),
        "10T": speed(*of_10t, 2), "10T, batch": speed(*of_10t, 1.25),
    }


def fitting(answer):
    if answer["feasible"]:
        return "fits"
    return f"{answer['limiting_tier']} {answer['short_bytes'] / 2**30:.0f} GiB short"


def statements(r):
    fewest = r["100T"][-1]
    ratio = r["largest"]["paper_params"] / 1e9 / largest_3d()
    best = max(v or 0 for v in r["gpt3"].values())
    return [
        ["3D parallelism takes more than 6,000 A100 with five times the memory for 100T",
         "> 6,000", f"{fewest['gpus']:,}",
         fewest["answer"]["feasible"] and fewest["gpus"] > 6000],
        ["ZeRO-Infinity trains 32T on 512 V100", "fits", fitting(r["32T"]), r["32T"]["feasible"]],
        ["which is 50 times what 3D parallelism trains there (32T and 650B)", "49 times",
         f"{ratio:.0f} times", ratio >= 49],
        ["1T trains on one DGX-2, without slices", "fits", fitting(r["1T"]), r["1T"]["feasible"]],
        ["so does GPT-3 of 175B", "fits", f"{best:.1f} TFLOP/s per GPU at best", best > 0],
        ["20T is slower than 10T", "34 and 43", f"{r['20T']:.1f} and {r['10T']:.1f}",
         r["20T"] < r["10T"]],
        ["which drives four times as fast do not change", "",
         f"{r['20T, drives']:.1f} and {r['10T']:.1f}", r["20T, drives"] < r["10T"]],
        ["but the batch: at 20T's batch per GPU 10T is no faster", "", f"{r['10T, batch']:.1f}",
         r["10T, batch"] <= 1.05 * r["20T"]],
    ]


def table_100t(rows):
    return common.markdown_table(
        ["GPUs", "replicas", "GPU memory"],
        [[c["gpus"], c["gpus"] // (LAYERS * SLICES), fitting(c["answer"])] for c in rows])


def write(r):
    found = statements(r)
    most = r["largest"]
    common.write_text(HERE / "result.md", f"""\
# Result: what the ZeRO-Infinity paper says in words

{zero.statements_table(found)}
{zero.held(found)}

## 100T in 3D

Slices of {SLICES}, {LAYERS} stages of a layer, {MICRO_BATCHES} micro-batches, optimizer state
partitioned over the replicas (ZeRO-1), checkpoints in parts, 400 GiB per GPU.

{table_100t(r["100T"])}
## 32T on 512 V100

The most that fits, as wide as 20T of Table 1 with its slices of 8, one sequence per group of
slices: {most["paper_params"] / TRILLION:.1f}T, {most["layers"]} layers, which fills the drives.

## GPT-3 on one DGX-2

TFLOP/s per GPU by sequences per GPU.

{common.markdown_table(["batch", "TFLOP/s"], [[b, v or "no room"] for b, v in r["gpt3"].items()])}
## What the model lacks

{common.bullets(
    "The paper's 6,000 is for a layout that it does not print. With fewer stages, of two layers, "
    "parameters and gradients alone fill the GPUs, whose gradients of several micro-batches are "
    "summed up in fp32 here; slices reach no further than a node.",
    "What the paper gives as the reason of 20T's small batch is host memory for checkpoints; here "
    "it is the GPU's, where 2 sequences per GPU lack 13 GiB.")}""")
    common.write_csv(HERE / "result.csv", ["statement", "published", "memwall", "holds"],
                     [[*row[:3], common.yes(row[3])] for row in found])


def main():
    write(run())


if __name__ == "__main__":
    main()
