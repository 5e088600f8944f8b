"""PPO and DPO: published times and largest models beside steps of `simulate --objective`."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

ANSWERS = 131_900  # prompts of an epoch
PER_GPU = 16
PAIRS, DPO_SECONDS = 61_135, 5328.4749
SIZES = ["opt-1.3b", "opt-2.7b", "opt-6.7b", "opt-13b", "opt-30b"]
PPO = ("--objective ppo --critic opt-350m --seq 512 --response 256 --software deepspeed "
       "--set software.memory.host_parameter_bytes=0")  # DeepSpeed of 2023
DPO = ("-m mistral-7b-v0.1 -H dgx-a100 --objective dpo -s zero3 --frozen-device gpu --batch 16 "
       "--global-batch 256 --activation-checkpoint-interval 1 --software hf-trainer --seq")


def simulate(options):
    binary = os.environ.get("MEMWALL", str(common.ROOT / "build" / "cli" / "memwall"))
    command = [binary, "simulate", *options.split(), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise common.Failed(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def where(row):
    gpus = int(row["gpus"])
    return f"-H {row['machine']} --nodes {max(1, gpus // 8)} --gpus {min(gpus, 8)}"


def share(answer, name):
    return (sum(p["all_s"] for p in answer["phases"] if p["phase"] == name)
            / answer["step_time_s"])


def train(row):
    batch = PER_GPU * int(row["gpus"])
    answer = simulate(f"-m {row['model']} {where(row)} {PPO} --global-batch {batch}")
    hours = ANSWERS / batch * answer["step_time_s"] / 3600
    return {**row, "predicted": hours, "times": float(row["hours"]) / hours,
            "strategy": answer["strategy"], "generation": share(answer, "generation")}


def largest(row):
    fitting = [size for size in SIZES if simulate(
        f"-m {size} {where(row)} {PPO} -s zero-offload --frozen-device gpu --batch 1 "
        "--global-batch 16")["feasible"]]
    return {**row, "predicted": fitting[-1] if fitting else "none"}


def ppo_table(rows):
    return common.markdown_table(
        ["actor", "machine", "GPUs", "published h", "predicted h", "published / predicted",
         "strategy", "generation"],
        [[r["model"], r["machine"], r["gpus"], float(r["hours"]), r["predicted"], r["times"],
          r["strategy"], f"{r['generation']:.0%}"] for r in rows])


def largest_table(rows):
    return common.markdown_table(
        ["machine", "published", "predicted", "right"],
        [[r["machine"], r["model"], r["predicted"], common.yes(r["model"] == r["predicted"])]
         for r in rows])


def ppo_text(times):
    return (f"Published times are {times[0]:.2g} to {times[-1]:.2g} times the predicted ones, "
            f"{times[len(times) // 2]:.2g} the median: the order of magnitude, no more.  Nothing "
            "of a generator's own work is predicted (docs/MODEL.md 10.19), and which of the "
            "published runs had adapters, smaller batches or offloading is not known.  The "
            "training plan of 175B leaves no room for slices of the actor, so its weights are "
            "streamed for every token; DeepSpeed-Chat makes room for them.")


def same_length(published):
    """The shortest length, in steps of 16 tokens, whose step takes as long as the published one."""
    return next((length for length in range(512, 1025, 16)
                 if simulate(f"{DPO} {length}")["step_time_s"] >= published), None)


def dpo_table(published):
    rows = []
    for length in (512, 768, 1024):
        answer = simulate(f"{DPO} {length}")
        rows.append([length, published, answer["step_time_s"], answer["step_time_fastest_s"],
                     answer["step_time_slowest_s"], f"{share(answer, 'forward'):.0%}"])
    return common.markdown_table(["tokens", "published s", "predicted s", "from", "to",
                                  "reference"], rows)


def main():
    published = common.read_csv(HERE / "published.csv")
    dpo_s = DPO_SECONDS / (PAIRS / 128)
    trained = [train(row) for row in published if row["kind"] == "ppo"]
    compared = [r for r in trained if r["source"] != "Table 6"]
    sizes = [largest(row) for row in published if row["kind"] == "largest"]
    times = sorted(r["times"] for r in compared)
    right = sum(r["model"] == r["predicted"] for r in sizes)
    common.write_text(HERE / "result.md", f"""\
# Fine-tuning from preferences, predicted and published

Written by `experiments/run preferences`.

## PPO: an epoch of DeepSpeed-Chat

{ppo_table(compared)}
{common.paragraph(ppo_text(times))}

## The largest actor on one GPU

{largest_table(sizes)}
Right for {right} of {len(sizes)}.

## DPO: a step of zephyr-7b-dpo-full

{dpo_table(dpo_s)}
A predicted step takes as long for sequences of {same_length(dpo_s)} tokens, of at most 1024.
""")
    columns = ["kind", "model", "machine", "gpus", "hours", "predicted", "source"]
    common.write_csv(HERE / "result.csv", columns,
                     [[r[c] for c in columns] for r in [*trained, *sizes]])


if __name__ == "__main__":
    main()
