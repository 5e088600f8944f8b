#!/usr/bin/python3
"""What memwall proposes, typed in; prints TAP.

batch   what an open batch comes to, asked for, gives the same plan and the same step.
change  the best single change, typed behind the request, takes the step time that was said.
best    no setting that is easily typed gains more.
smaller a batch below the largest that is faster is what an open batch comes to.
fewer   more nodes than gain anything are said to be too many.
bought  beside settings what can be had: nodes, or the machine with most for its price, if worth it.
remedy  what would make it fit, typed, fits.
offers  nodes are the fewest, another machine is the cheapest; prices are those of the profiles.
idle    a setting that changes nothing is named.
interval sqrt layers per checkpoint that take more memory than one are told so.
hidden  what may not be advised takes no place of what may.
demo    GPT-3 13B on the RTX 4090 fills its step by itself; what is left to gain costs money.
default a batch that is left open keeps the default tokens of a step, or says that it cannot.
offload nothing is offloaded for less than 2%.
simplest of strategies within 2% of each other the first.
keep    activations are kept where that is faster and fits as often as is said, else recomputed.

The command is $MEMWALL, or build/cli/memwall.
"""
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from command import answer_of, sample, sixth
from tap import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEMWALL = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve()

# A simpler strategy is taken where it is within 2%; a question that names one tries more batches of
# it than one that leaves it open, worth half a percent.
NEAR = 1.025

# The first is the one whose two ways once came to 8 and to 16 tiles.
REQUESTS = [
    "-m gpt3-175b -H dgx2 --nodes 64 -s zero-infinity-cpu",
    "-m gpt3-13b -H rtx4090 -s zero-infinity-nvme",
    "-m gpt3-13b -H rtx4090",
    "-m gpt2-xl -H rtx4090 -s zero-offload",
    "-m gpt2-xl -H dgx-h100 -s zero-infinity-cpu",
    "-m llama-3.1-8b -H dgx2",
    "-m llama-3.1-70b -H dgx-h100 -s zero-infinity-nvme --param-device nvme",
    "-m opt-30b -H dgx2 --nodes 64 -s zero3",
    "-m gpt3-175b -H dgx-a100 --nodes 4 -s zero-infinity-nvme --tp 2",
    "-m llama-3.1-8b -H gh200 --global-batch 64",
    # Another strategy is faster with a deep prefetch alone; one part more is not enough.
    "-m gemma-2b -H v100 --software ideal",
    "-m qwen3-14b -H paper-v100-cluster --seq 128",
]
FIXED = [
    "-m gpt3-13b -H rtx4090 -s zero-infinity-nvme --batch 4",
    "-m gpt3-13b -H rtx4090 -s zero-infinity-nvme --batch 8 --optimizer-device nvme "
    "--param-device nvme",
    "-m gpt2-xl -H flat-test -s zero3 --batch 1 --outlook low",
    "-m gpt2-xl -H rtx4090 -s zero-offload --batch 8",
    "-m llama-3.1-8b -H aws-g5-12xlarge -s zero-infinity-nvme --batch 2 --overlap off",
    "-m opt-30b -H rtx4090-12ssd -s zero-infinity-nvme --tiles 4",
    "-m gpt3-175b -H dgx2 --nodes 64 -s zero-infinity-nvme --batch 4 --param-device nvme",
    "-m llama-3.1-8b -H gh200 --batch 1 --set gpu.memory_gib=40",
]
OPEN = [
    "-m gpt3-125m -H dgx-h100",
    "-m gpt3-1.3b -H dgx-h100",
    "-m gpt3-2.7b -H rtx4090",
    "-m llama-3.1-8b -H dgx-h100 --nodes 16",
    "-m llama-3.1-70b -H dgx-h100 --nodes 128",
    "-m gpt3-175b -H dgx2 --nodes 4 --tp 4",
]
# Within 2% of each other and further apart.
SIMPLEST = ["-m gpt2 -H dgx-b200", "-m gpt3-1.3b -H dgx-h100", "-m gpt2-xl -H dgx2 --batch 2"]
# Whose best change is known, each with its flags.
BEST = {
    # A ring over 32 nodes takes more hops than a part of a small model takes time.
    "groups": ("-m llama-3.2-1b -H aws-p4d-24xlarge --nodes 32 -s zero3 --batch 1 "
               "--software fsdp2-compile", "--shard-group node"),
    # Where one link at a time holds the step up, all of them at once is what gains most.
    "owner-broadcast": (
        "-m gpt3-13b -H dgx2 -s zero-infinity-cpu --param-device cpu --optimizer-device cpu "
        "--activation-device gpu --partition owner --set gpu.memory_gib=8 "
        "--set pcie.h2d_gb_per_s=1 --set host.memory_gib=6000", "--partition bandwidth"),
    # The chosen strategy fetches nothing; another one beats it where it fetches well ahead.
    "prefetch": ("-m llama-3.1-8b -H a100 -s zero-infinity-cpu --global-batch 64 --prefetch 1 "
                 "--activation-checkpoint-interval 0 --set software.memory.activations_kept=1.75",
                 "--prefetch 8"),
    # A strategy that keeps checkpoints on the GPU: larger micro-batches need fewer reductions.
    "checkpoints": (
        "-m mistral-7b-v0.3 -H aws-g6e-48xlarge -s zero-offload --global-batch 256 "
        "--set software.collectives.gradient_type=fp32", "--activation-device cpu"),
    # Larger batches and what else must not be advised hides nothing that may be.
    "hidden": (
        "-m gpt3-2.7b -H azure-nc40ads-h100-v5 -s zero-infinity-cpu --optimizer-device cpu "
        "--param-device cpu --gradient-device cpu --batch 4 --overlap off "
        "--activation-checkpoint-interval 0 --set gpu.memory_gib=72 --software ideal "
        "--global-batch 4 --set software.memory.activations_kept=1.7",
        "--optimizer-device gpu"),
}
SLACK = 1.02  # the estimate that picks what is planned is no better


def simulate(words):
    done = subprocess.run([str(MEMWALL), "simulate", *words, "--json"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=False,
                          env=dict(os.environ, XDG_CONFIG_HOME="/nonexistent"))
    return answer_of(done.stdout)


# GPT-3, Table 2.1: parameters, tokens of a batch.
TABLE = ((125e6, 0.5e6), (350e6, 0.5e6), (760e6, 0.5e6), (1.3e9, 1e6), (2.7e9, 1e6), (6.7e9, 2e6),
         (13e9, 2e6), (175e9, 3.2e6))


def default_tokens(params):
    """From row to row in logarithms."""
    for (p, t), (q, u) in zip(TABLE, TABLE[1:]):
        if p <= params <= q:
            return t * (u / t) ** (math.log(params / p) / math.log(q / p))
    return TABLE[0 if params < TABLE[0][0] else -1][1]


def check_default(words):
    answer = simulate(words)
    step, most = answer["settings"]["tokens_per_step"], default_tokens(answer["params"])
    if abs(answer["settings"]["default_step_tokens"] - most) > 1:
        yield f"{answer['settings']['default_step_tokens']} tokens by default, not {most}"
    said = [note for note in answer["notes"] if "default global batch" in note]
    over = answer["settings"]["micro_batch"] * answer["settings"]["tp"] == 1 and step > 1.05 * most
    if len(said) != 1 or ("which is over the" in said[0]) != over:
        yield f"{step} tokens a step of {most}: {said}"
    if step > 1.05 * most and not over:
        yield f"{step} tokens a step, {most} by default"
    asked = simulate([*words, "--batch", "2"])
    if asked["settings"]["micro_batch"] != 2 or \
            asked["settings"].get("default_step_tokens", 0) is not None:
        yield "a batch that was asked for does not win"


def check_offload(words):
    """Whatever a strategy without offload reaches, an offload that is chosen beats by 2%."""
    answer = simulate(words)
    offloads = any(answer["peak_bytes"][tier] for tier in ("cpu", "nvme"))
    for strategy in ("zero2", "zero3"):
        other = simulate([*words, "-s", strategy])
        if offloads and other["feasible"] and \
                answer["tokens_per_s"] < 1.019 * other["tokens_per_s"]:
            yield f"{answer['strategy']} offloads, {strategy} is as fast"
        if other["feasible"] and answer["tokens_per_s"] * NEAR < other["tokens_per_s"]:
            yield f"{strategy} is faster"


def check_simplest(words):
    """Of the strategies without offload the first that comes within 2% of the fastest."""
    rates = {}
    for strategy in ("ddp", "zero1", "zero2", "zero3"):
        other = simulate([*words, "-s", strategy])
        rates[strategy] = other["tokens_per_s"] if other["feasible"] else 0
    answer = simulate(words)
    near = [name for name, rate in rates.items() if rate * NEAR >= max(rates.values())]
    if answer["strategy"] != near[0]:
        yield f"{answer['strategy']} of {rates}"


def check_keep(words):
    """Of both ways, asked for, the faster one that may be; kept, with the room that is said."""
    answer = simulate(words)
    recomputed = simulate([*words, "--activation-checkpoint-interval", "1"])
    keeps = not answer["settings"]["checkpoint_interval"]
    if recomputed["feasible"] and answer["tokens_per_s"] < 0.98 * recomputed["tokens_per_s"]:
        yield f"{answer['tokens_per_s']} tokens/s, {recomputed['tokens_per_s']} are to be had"
    said = re.search(r"^no recomputation(?:.* fit ([\d.]+) times over)?",
                     "\n".join(answer["notes"]), re.M)
    if bool(said) != keeps:
        yield f"keeps: {keeps}, and says {answer['notes']}"
    if not keeps:
        return
    kept = sum(row["bytes"] for row in answer["ledger"]
               if row["tier"] == "gpu" and row["purpose"] == "activations")
    capacity = answer["tiers"]["gpu"]["capacity_bytes"]
    if not kept or answer["peak_bytes"]["gpu"] + (float(said[1] or 1) - 1) * kept > capacity:
        yield f"does not fit {said[1]} times"


def interval(blocks):
    return ["--activation-checkpoint-interval", str(blocks)]


def says_why(answer):
    return any(note.startswith("recomputation: ") and "1.7 times" in note
               for note in answer["notes"])


def check_eager():
    """A memory in which activations fit once and not 1.7 times: recomputed, and if they are asked
    to stay, not enough."""
    words = ("-m gpt3-1.3b -H h100 -s zero3 --batch 8 --software ideal "
             "--set software.memory.activations_kept=1.7 "
             "--set software.offers.recomputed_layers=false").split()
    kept = simulate([*words, "--activation-checkpoint-interval", "0"])
    need = (kept["peak_bytes"]["gpu"] + 4 * 2 ** 30) / 2 ** 30
    small = [*words, "--set", f"gpu.memory_gib={need:.3f}"]
    once = simulate([*small, *interval(0), "--set", "software.memory.activations_kept=1"])
    asked = simulate([*small, *interval(0)])
    answer = simulate(small)
    fit = [of["feasible"] for of in (once, asked, answer)]
    if fit != [True, False, True] or answer["settings"]["checkpoint_interval"] != 1:
        yield f"fits {fit}, interval {answer['settings']['checkpoint_interval']}"
    if not says_why(answer) or says_why(simulate([*small, *interval(1)])):
        yield f"recomputes as 1.7 times does not fit, and says {answer['notes']}"
    kept = "kept activations would fit once, not 1.7 times over"
    if not any(note.startswith(kept) for note in asked["notes"]):
        yield f"keeps what fits once as it was asked to, and says {asked['notes']}"
    if asked["remedy"] != " ".join(interval(1)) + " fits":
        yield f"does not fit, and the remedy is {asked['remedy']}"
    for memory in (small, words):
        advised = simulate([*memory, *interval(1)])["change"] or {"flags": ""}
        if (" ".join(interval(0)) == advised["flags"]) != (memory == words):
            yield f"advises {advised['flags']!r} where 1.7 times fits: {memory == words}"
    if any("would fit once" in note for note in simulate([*words, *interval(0)])["notes"]):
        yield "what fits 1.7 times is said not to"
    none = simulate([*words, "--set", f"gpu.memory_gib={need / 2:.3f}"])
    both = simulate([*words, *interval(0), "--set", f"gpu.memory_gib={need / 2:.3f}"])
    if (none["settings"]["checkpoint_interval"] and says_why(none)) or both["feasible"] or \
            any(note.startswith(kept) for note in both["notes"]):
        yield "says that kept activations fit where they do not"
    large = simulate(words)
    if large["settings"]["checkpoint_interval"] != 0:
        yield "recomputes where all fits"


def check_batch(words, answer):
    batch = answer["settings"]["micro_batch"]
    again = simulate([*words, "--batch", f"{batch:.15g}",
                      "--grad-accum", str(answer["settings"]["grad_accum"])])
    again["settings"]["default_step_tokens"] = answer["settings"]["default_step_tokens"]
    for key in ("strategy", "plan", "settings", "step_time_s", "peak_bytes"):
        if again[key] != answer[key]:
            yield f"{key}: auto {answer[key]}, asked for {again[key]}"


def check_change(words, answer, key="change"):
    change = answer[key]
    if not change:
        return
    again = simulate([*words, *change["flags"].split()])
    for key in ("step_time_s", "tokens_per_s"):
        if again[key] != change[key]:
            yield f"{change['flags']}: {key} {again[key]}, said {change[key]}"
    for key in ("micro_batch", "global_batch"):
        if again["settings"][key] != change[key]:
            yield f"{change['flags']}: {key} {again['settings'][key]}, said {change[key]}"
    if again["tokens_per_s"] <= answer["tokens_per_s"]:
        yield f"{change['flags']}: gains nothing"


def typed_changes(words, answer):
    """Settings: half the batch, more micro-batches, deeper and much deeper prefetch."""
    settings = answer["settings"]
    if settings["micro_batch"] >= 2:
        yield ["--batch", f"{settings['micro_batch'] // 2:.15g}"]
    for times in (2, 8):
        step = times * settings["tokens_per_step"]
        if "--global-batch" not in words and step <= default_tokens(answer["params"]):
            yield ["--grad-accum", str(times * settings["grad_accum"])]
    yield ["--prefetch", str(settings["prefetch"] + 1)]
    yield ["--prefetch", str(min(64, 8 * max(1, settings["prefetch"])))]


def check_best(words, answer):
    change = answer["change"] or {"tokens_per_s": 0, "flags": ""}
    if any(option in change["flags"] for option in ("--set", "--nodes", "-H")):
        yield f"{change['flags']} is no setting"
    said = change["tokens_per_s"]
    for flags in typed_changes(words, answer):
        typed = simulate([*words, *flags])
        if typed["feasible"] and typed["tokens_per_s"] > SLACK * max(said, answer["tokens_per_s"]):
            yield (f"{' '.join(flags)}: {typed['tokens_per_s']:.4g} tokens/s, said "
                   f"{answer['change']}, now {answer['tokens_per_s']:.4g}")


# Requests, and the largest batch that fits.
SMALLER = [
    ("-m opt-30b -H dgx2 -s zero-infinity-cpu", "12"),
    ("-m zi-10b -H v100", "90"),
]
# Requests, and what each is advised to.
BOUGHT = [
    ("-m gpt3-1.3b -H rtx3090", "-H rtx4090-2x"),
    ("-m llama-3.1-8b -H dgx2", "--nodes 2"), # its successors have no price to buy
    ("-m llama-3.1-70b -H dgx-h100 -s zero-infinity-nvme --param-device nvme", "--nodes 2"),
    ("-m gpt2-xl -H rtx5090", "-H rtx4090-2x"),
    ("-m gpt2 -H mi325x-8x", "--nodes 2"), # the cheapest per token of all that are rented
    ("-m opt-30b -H aws-g5-12xlarge -s zero-infinity-nvme --grad-accum 1",
     "-H nebius-b200-8x"),
    ("-m gpt2 -H aws-g5-xlarge --set pcie.latency_us=11", None),
    ("-m opt-30b -H aws-p3-16xlarge --set pcie.latency_us=11", None),
]
UNFIT = [
    ("-m llama-3.1-70b -H dgx-h100 --nodes 8 -s zero3 --batch 1 --grad-accum 1 --shard-group node",
     "--shard-group all"),
    ("-m gpt3-13b -H rtx4090 -s zero-infinity-nvme --batch 400", "--batch "),
    ("-m gpt3-13b -H rtx4090 -s zero-offload", "-s "),
    ("-m gpt3-13b -H dgx-h100 -s zero3 --tp 1 --gpus 1", "-s "),
    ("-m zi-5t -H dgx2 -s zero-infinity-nvme --batch 1 --software memwall", "--nodes "),
    ("-m llama-3.1-8b -H rtx4090 --seq 131072 --batch 1", "-H "),
    ("-m opt-30b -H aws-g5-xlarge -s zero-offload --software memwall",
     "-s zero-infinity-nvme -H lambda-a6000 fits (1.09 USD an hour), "
     "-s zero-infinity-nvme --nodes 2 fits ("),
    ("-m opt-30b -H aws-g5-xlarge -s zero-offload --set gpu.memory_gib=23", None),
    # Of auto, with whatever strategy then fits.
    ("-m llama-2-70b -H aws-g4dn-xlarge", "-H lambda-gh200 fits (2.29 USD an hour), --nodes "),
    ("-m llama-3.1-405b -H aws-g5-12xlarge --software memwall", "--nodes "),
    ("-m gpt3-175b -H aws-g4dn-xlarge -s zero2", "-s zero-"),
    ("-m gpt3-13b -H rtx4090 -s zero-infinity-nvme --batch 4 --activation-checkpoint-interval 0",
     "--activation-checkpoint-interval 1 fits"),
    ("-m gpt3-175b -H dgx2 -s zero3 --batch 64 --activation-checkpoint-interval 0",
     "-s zero-infinity-nvme --activation-checkpoint-interval 1 --batch "),
    ("-m gpt3-13b -H rtx4090 -s zero-infinity-cpu --set nvme.capacity_tb=0 "
     "--set gpu.memory_gib=40", "with "),
    # What the GPU seemed to lack never had to be there.
    ("-m llama-3.1-405b -H rtx4090 --software memwall",
     "with one more drive of that kind per node"),
    ("-m llama-3.1-405b -H rtx4090 --set pcie.latency_us=10 --software memwall",
     "with one more drive of that kind"),
    ("-m llama-3.1-405b -H rtx4090 -s zero-infinity-nvme --batch 4 --set nvme.capacity_tb=1",
     "a machine with 6."),
    # Two things at once: other places, another machine, more nodes, each with fewer sequences.
    ("-m gpt3-13b -H rtx4090 -s zero-infinity-nvme --batch 4000 --param-device gpu",
     "--batch "),
    ("-m llama-3.1-8b -H rtx4090 --seq 131072 --batch 64", "-H "),
    # Another machine and another strategy, and recomputation.
    ("-m llama-3.1-405b -H aws-g4dn-xlarge -s ddp",
     "-s zero-infinity-nvme -H aws-g5-48xlarge --software pytorch-fsdp-eager fits (16.3 USD "),
    ("-m bloom-176b -H aws-g6e-xlarge -s zero1 --activation-checkpoint-interval 0 "
     "--software memwall",
     "-s zero-infinity-nvme -H lambda-gh200 fits (2.29 USD an hour)"),
    ("-m gpt3-175b -H aws-g6e-xlarge -s zero-offload --batch 64", "-s zero-infinity-nvme -H "),
    # 44 USD an hour with the strategy that was named stand behind 2.29 with another one.
    ("-m qwen2.5-72b -H dgx1v -s zero3 --seq 32768",
     "-s zero-infinity-nvme -H lambda-gh200 fits (2.29 USD an hour), -H nebius-b200-8x --tp 2 "
     "--software deepspeed fits (44.0 USD "),
    ("-m kimi-k2 -H aws-g5-xlarge -s zero3 --seq 2048 --activation-checkpoint-interval 4",
     "-s zero-infinity-nvme -H coreweave-a100-8x --nodes 2 --tp 2 --software deepspeed fits (43.2 "
     "USD an hour), --nodes 1532 fits"),
    # ZeRO-Infinity, Table 1: states on the GPU.
    ("-m zi-0.5t -H dgx2 --nodes 32 --tp 4 -s zero3 --batch 7",
     "-s zero-infinity-cpu fits, --batch 1.5 fits (batch 6 per group of 4 GPUs)"),
    ("-m zi-1t -H dgx2 --nodes 32 --tp 4 -s zero3 --batch 5 --activation-device cpu",
     "-s zero-infinity-cpu fits"),
    # All that drives are, and another strategy.
    ("-m kimi-k2 -H rtx4090 --software memwall",
     "with 4 more drives of that kind per node it fits: --set "),
    ("-m kimi-k2 -H rtx4090 --set nvme.drives=5 --software memwall",
     "a machine with 16 more drives of that kind per node would fit: --set "),
    ("-m llama-3.1-405b -H rtx4090 -s zero2 --software memwall",
     "-s zero-infinity-nvme --set nvme.capacity_tb=8 "),
    # No machine has 291 TiB of host memory.
    ("-m zi-20t -H rtx4090 --batch 4", "-H "),
    ("-m llama-3.1-405b -H rtx4090 --set nvme.capacity_tb=2 --set host.memory_gib=64 --seq 8192 "
     "--software memwall",
     "with "),
    ("-m gpt3-13b -H aws-p4de-24xlarge --gpus 1 --set nvme.capacity_tb=0 "
     "--set host.memory_gib=60", "--gpus 8 "),
    # What was asked for and takes memory is dropped before anything is bought.
    ("-m turing-nlg-17b -H a100 --dpu-start 40", "--dpu-start none fits"),
    ("-m opt-66b -H a100 -s zero-offload --dpu-start 40",
     "-s zero-infinity-nvme --dpu-start none fits"),
    # Smaller chunks of the optimizer step take less host memory, and cost nothing.
    ("-m gpt2-xl -H rtx4090 -s zero-infinity-nvme --optimizer-device nvme --param-device nvme "
     "--batch 1 --set host.memory_gib=8.6 --software memwall", "--optimizer-chunk 8388608 fits"),
    # DeepSpeed's buffers hold whole sub-groups, in fewer sets too; its gradients stay on the host.
    ("-m llama-3.1-8b -H rtx4090 -s zero-infinity-nvme --param-device nvme --optimizer-device nvme "
     "--set host.memory_gib=48 --grad-accum 1", "--buffer-sets 2 fits"),
    ("-m llama-3.1-70b -H rtx4090 --grad-accum 1", "--software memwall fits"),
    # Slicing is free, on this machine and on another one.
    ("-m llama-3.1-8b -H dgx-h100 --seq 900000", "--tp 8 --software deepspeed fits"),
    ("-m llama-3.1-8b -H rtx4090 --seq 1000000", 
     "-H nebius-h200-8x --tp 4 --software deepspeed fits (28.0 USD "),
    ("-m llama-3.1-8b -H aws-g5-12xlarge --seq 500000",
     "-H lambda-b200 fits (6.99 USD an hour)"),
    # A drive, and no 32 times the memory that a workstation has.
    ("-m mixtral-8x22b -H rtx3090 -s zero-infinity-cpu --software memwall",
     "-s zero-infinity-nvme --set nvme."),
]
# Fewer nodes than asked for are as fast or faster.
FEWER = ["-m gpt2 -H dgx-h100 --nodes 64", "-m gpt2 -H dgx-h100 -s zero2 --nodes 1024"]
# What has to be paid for, and which kinds of price are said: the machine's own twice where another
# machine costs less than more of these.
OFFERED = [
    ("-m deepseek-v3 -H aws-g5-xlarge", ["price_usd_per_hour"] * 2),
    ("-m phi-4 -H aws-g5-xlarge --seq 65536", ["price_usd_per_hour", "price_usd"]),
    ("-m llama-3.1-8b -H aws-g4dn-xlarge --seq 1024", ["price_usd_per_hour"] * 2),
    ("-m llama-3.1-405b -H aws-g5-12xlarge --software memwall", ["price_usd_per_hour"]),
    ("-m zi-5t -H dgx2 -s zero-infinity-nvme --batch 1 --software memwall", ["price_usd"]),
    ("-m llama-3.1-8b -H rtx4090 --seq 131072", ["price_usd_per_hour"]),
    # A step of 96 sequences takes numbers of nodes that divide it.
    ("-m llama-2-70b -H aws-g4dn-xlarge --global-batch 96", ["price_usd_per_hour"] * 2),
]


def prices():
    """Of every profile that says where its price is from: by kind, name and USD."""
    for path in sorted((ROOT / "hwprofiles").glob("*.ini")):
        text = path.read_text().splitlines()
        lines = dict(line.split(" = ", 1) for line in text if " = " in line)
        for key in ("price_usd_per_hour", "price_usd"):
            if key + ".source" in lines and float(lines[key]) > 0:
                yield key, path.stem, float(lines[key])


def is_offered(name):
    """Not a machine that is only simulated, nor one that nobody sells any more, nor one whose rent
    is derived from that of its GPUs."""
    text = (ROOT / "hwprofiles" / f"{name}.ini").read_text(encoding="utf-8")
    return not re.search("^only_simulated = |^discontinued = |^price_usd_per_hour.source = derived",
                         text, re.M)


def check_worth(words, answer, change):
    """Tokens for the money, beside tokens for the time."""
    usd = {(kind, name): price for kind, name, price in prices()}
    name = words[words.index("-H") + 1]
    kind = next((kind for kind, other in usd if other == name), None)
    option, value = change["flags"].split()[:2]
    times = None
    if option == "-H":
        times = usd[kind, value] / usd[kind, name]
    elif option == "--nodes" and (kind or int(value) < answer["settings"]["nodes"]):
        times = int(value) / answer["settings"]["nodes"]
    gain = change["times_tokens_per_usd"]
    expected = times and change["tokens_per_s"] / answer["tokens_per_s"] / times
    if (gain is None) != (expected is None) or gain and abs(gain / expected - 1) > 1e-9:
        yield f"{change['flags']}: {gain} times the tokens per USD, not {expected}"


def check_bought(words, flags):
    answer = simulate(words)
    change = answer["paid_change"] or {"flags": "", "what": ""}
    if "gpu.memory" in change["flags"]:
        yield f"nobody can buy {change['flags']}"
    rented = {name for kind, name, _ in prices() if kind == "price_usd_per_hour"}
    if words[words.index("-H") + 1] in rented and "--set" in change["flags"]:
        yield f"{change['flags']} for a machine that is rented as it is"
    if flags is None:
        if "-H" in change["flags"]:
            yield f"{change['flags']} in place of a machine that --set changed"
        return
    if change["flags"] != flags:
        yield f"{change['flags']}, not {flags}"
    yield from check_change(words, answer, "paid_change")
    if flags:
        yield from check_worth(words, answer, change)
    if flags and change["tokens_per_s"] < 1.05 * answer["tokens_per_s"]:
        yield f"{flags} gains less than 5%"
    if not flags.startswith("-H"):
        return
    name, now = flags.split()[1], words[words.index("-H") + 1]
    key = "price_usd_per_hour" if now in rented else "price_usd"
    cost = {other: usd for kind, other, usd in prices() if kind == key}
    for usd in (cost[name], cost[now]):
        said = float(f"{usd:.3g}")
        if f"{said:.15g} USD" not in change["what"] and f"{said:.1f} USD" not in change["what"]:
            yield f"{change['what']} does not say {usd}"
    for other in filter(is_offered, set(cost) - {name, now}):
        typed = simulate([*words, "-H", other])
        if typed["feasible"] and typed["tokens_per_s"] > 1.01 * answer["tokens_per_s"] and \
                typed["tokens_per_s"] / cost[other] > SLACK * change["tokens_per_s"] / cost[name]:
            yield f"{other} gives more for the money than {name}"


def check_fewer(words):
    """Nodes that gain nothing are too many: as fast for less, and not where they do gain."""
    answer = simulate(words)
    change = answer["paid_change"] or {"flags": "", "what": "", "tokens_per_s": 0}
    said = re.fullmatch(r"--nodes ([0-9]+)", change["flags"])
    if not said or int(said[1]) >= answer["settings"]["nodes"]:
        yield f"change is {change}"
        return
    yield from check_worth(words, answer, change)
    if change["tokens_per_s"] * 1.01 < answer["tokens_per_s"]:
        yield f"{change['flags']}: {change['tokens_per_s']}, now {answer['tokens_per_s']}"
    typed = simulate([*words, *change["flags"].split()])
    if typed["tokens_per_s"] != change["tokens_per_s"]:
        yield f"{change['flags']}: {typed['tokens_per_s']}, said {change['tokens_per_s']}"


def without(words, flags):
    """The words less the options that the flags name behind "without", and the flags before it."""
    at = flags.index("without")
    for option in flags[at + 1:]:
        place = words.index(option.rstrip(","))
        words = words[:place] + words[place + 2:]
    return words, flags[:at]


def check_remedy(words, way):
    answer = simulate(words)
    remedy = answer["remedy"]
    if way is None:
        if "-H" in remedy:
            yield f"{remedy!r} in place of a machine that --set changed"
        return
    if not remedy.startswith(way):
        yield f"{remedy!r}, not {way}"
    said = remedy.split(" fits")[0] if way[0] == "-" else remedy.split(": ", 1)[-1]
    flags = said.split()
    if "without" in flags:
        words, flags = without(words, flags)
    if not flags or not simulate([*words, *flags])["feasible"]:
        yield f"{remedy!r}, and it does not"


def fits_with(words, flags):
    """Of options that are said twice the last one counts.  What cannot be asked for does not."""
    done = subprocess.run([str(MEMWALL), "plan", *words, *flags], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                          env=dict(os.environ, XDG_CONFIG_HOME="/nonexistent"))
    return done.returncode == 0


def check_offer(words, offer, kinds):
    """One of several ways out fits for its price, with a node less it does not."""
    flags, price = re.fullmatch(r"(.*) fits \((.*)\)", offer).groups()
    flags = flags.split()
    name = flags[flags.index("-H") + 1] if "-H" in flags else words[words.index("-H") + 1]
    nodes = int(flags[flags.index("--nodes") + 1]) if "--nodes" in flags else 1
    key, cost = kinds[name]
    usd = f"{float(f'{cost * nodes:.3g}'):.15g}"
    text = f"{float(usd) / 1e6:.2f}M" if cost * nodes >= 1e6 else usd
    said = price.replace(" USD an hour", "").replace(" USD", "")
    if not said.startswith(text) or (" an hour" in price) != (key == "price_usd_per_hour"):
        yield f"{offer}: {nodes} of {name} cost {cost * nodes} USD"
    if not fits_with(words, flags):
        yield f"{offer}, and it does not"
    if nodes > 1 and fits_with(words, [*flags, "--nodes", str(nodes - 1)]):
        yield f"{offer}, and so does a node less"


def offer_usd(offer):
    text = re.search(r"\(([0-9.]+)(M?) USD", offer)
    return float(text[1]) * (1e6 if text[2] else 1)


def check_offers(words, keys):
    kinds = {name: (key, usd) for key, name, usd in prices()}
    remedy = simulate(words)["remedy"]
    offers = remedy.split(", ")
    said = ["price_usd_per_hour" if "an hour" in offer else "price_usd" for offer in offers]
    if said != keys:
        yield f"{remedy!r}: prices are {said}, not {keys}"
    for offer in offers:
        yield from check_offer(words, offer, kinds)
    if len(set(keys)) < len(keys) and offer_usd(offers[0]) >= offer_usd(offers[1]):
        yield f"{remedy!r}: the dearer one first"
    now = words[words.index("-H") + 1]
    for offer in offers[:1] if len(set(keys)) < 2 else offers:
        key = "price_usd_per_hour" if "an hour" in offer else "price_usd"
        for name, (kind, usd) in kinds.items():
            if kind == key and name != now and is_offered(name) and \
                    1.06 * usd < offer_usd(offer) and \
                    "--nodes" not in offer.split(" fits")[0].split("-H")[-1] and \
                    fits_with(words, ["-H", name]):
                yield f"{offer}, and one {name} for {usd} USD does"


def check_best_is(words, flags):
    answer = simulate(words)
    if not answer["change"] or answer["change"]["flags"] != flags:
        yield f"change is {answer['change']}"
    yield from check_change(words, answer)


def check_demo():
    answer = subprocess.run([str(MEMWALL), "simulate", "-m", "gpt3-13b", "-H", "rtx4090", "-s",
                             "zero-infinity-nvme"], stdout=subprocess.PIPE, check=True)
    text = answer.stdout.decode()
    for line in ("best single change: none of the settings tried gains anything\n",
                 "best for money: another machine for 5000 USD (now 4000 USD) -> step "):
        if "\n" + line not in text:
            yield f"no {line!r} in {text[-600:]!r}"


def check_idle():
    """What changes nothing, or takes away what a strategy is named for, is said."""
    for words, name, why in (
            ("-m gpt2-xl -H h100 --gpus 1 --batch 1 --checkpoint-partition off",
             "--checkpoint-partition off", "changes nothing"),
            ("-m mixtral-8x7b -H dgx-h100 --nodes 4 -s zero3 --ep 8 --etp 1 --batch 1",
             "--etp 1", "changes nothing"),
            ("-m gpt2-xl -H h100 --gpus 1 --batch 1 -s geeps --checkpoints inputs",
             "--checkpoints inputs", "named for"),
            ("-m gpt2-xl -H h100 --gpus 1 --batch 1 -s zero-offload++ --optimizer-device cpu",
             "--optimizer-device", "named for"),
            ("-m gpt2-xl -H h100 --gpus 1 --batch 1 -s zero-offload --optimizer-device nvme "
             "--dpu-start 3", "--optimizer-device", "named for")):
        notes = simulate(words.split())["notes"]
        if not any(name in note and why in note for note in notes):
            yield f"{words}: {notes}"
    for words in ("-m opt-1.3b -H dgx-h100 --tp 2 --batch 1 --checkpoint-partition off",
                  "-m gpt2-xl -H h100 --gpus 1 --batch 1 -s zero-offload --update-on host"):
        notes = simulate(words.split())["notes"]
        if any("--checkpoint-partition" in note or "--update-on" in note for note in notes):
            yield f"{words}: {notes}"


def check_interval():
    """That sqrt takes more than a checkpoint for each layer is said, and not of a model of so many
    layers that it takes less."""
    deep = {"model_type": "gpt2", "n_layer": 1000, "n_embd": 256, "n_head": 4, "n_positions": 1024,
            "vocab_size": 1000}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(deep, file)
        file.flush()
        for words, saves in (
                ("-m llama-3.1-8b -H h100 --gpus 1 -s zero-infinity-cpu --batch 4 --software "
                 "memwall", False),
                ("-m gpt3-1.3b -H h100 --gpus 1 -s ddp --batch 8 --software ideal", False),
                (f"-m {file.name} -H h100 --gpus 1 -s ddp --batch 8 --software ideal", True)):
            words = [*words.split(), "--grad-accum", "1", "--activation-checkpoint-interval"]
            root, each = simulate([*words, "sqrt"]), simulate([*words, "1"])
            more = root["peak_bytes"]["gpu"] - each["peak_bytes"]["gpu"]
            said = [note for note in root["notes"] if "-interval sqrt takes" in note]
            if (more < 0) != saves or bool(said) == saves:
                yield f"{words}: {more} bytes more, {said}"


def check_smaller(words, batch):
    """The largest batch that fits, `batch`, takes more tiles and is slower than the answer."""
    answer = simulate(words)
    accum = ["--grad-accum", str(answer["settings"]["grad_accum"])]
    typed = simulate([*words, "--batch", batch, *accum])
    if not typed["feasible"] or typed["settings"]["tiles"] <= answer["settings"]["tiles"]:
        yield f"--batch {batch}: {typed['settings']['tiles']} tiles"
    if typed["tokens_per_s"] > 1.01 * answer["tokens_per_s"]: # waves of tiles are not smooth
        yield f"--batch {batch} has {typed['tokens_per_s']}, the answer {answer['tokens_per_s']}"
    if answer["smaller_batch"]:
        yield f"worse than its own note: {answer['smaller_batch']}"


def check_capacity():
    """64 tokens, 2 visits, 8 experts, 2 ranks: 32 rows an expert, half of them with half of a
    share; the smallest tile has 64."""
    words = ("-m mixtral-8x7b -H dgx-h100 --nodes 2 --batch 1 --grad-accum 1 --ep 2 "
             "-s zero3").split()
    for seq, factor, texts in ((64, "0.5", ("at least 50% of what", "has 16 rows of a")),
                               (64, "1", ("has 32 rows of a",)), (1024, "1", ()),
                               (64, "none", ())):
        notes = simulate([*words, "--seq", str(seq), "--capacity-factor", factor])["notes"]
        said = [note for note in notes if "is dropped" in note or "smallest tile" in note]
        if len(said) != len(texts) or not all(map(lambda a, b: a in b, texts, said)):
            yield f"{seq} tokens, factor {factor}: {said}"


def dropped_share(tokens, visits, experts, rows):
    """Of what tokens send to experts that they choose independently of each other."""
    p = visits / experts
    above = sum((k - rows) * math.comb(tokens, k) * p**k * (1 - p)**(tokens - k)
                for k in range(rows + 1, tokens + 1))
    return f"at least {100 * experts * above / (tokens * visits):.2g}% of what they send"


def check_gates():
    """128 tokens and 8 experts: a token visits 2, or with switch 1."""
    words = ("-m mixtral-8x7b -H dgx-h100 --nodes 2 --batch 1 --grad-accum 1 --ep 2 "
             "-s zero3 --seq 128").split()
    for gate, texts in (
            ("top-k", ()), ("noisy-top-k", ()),
            ("switch", ("at most 16 of the 128 tokens", dropped_share(128, 1, 8, 16))),
            ("switch --capacity-factor 1.5", ("at most 24 of", dropped_share(128, 1, 8, 24))),
            ("switch --capacity-factor none", ()),
            ("gshard --capacity-factor none", ("between 16 and 32 tokens", "counted is the most")),
            ("gshard", ("between 16 and 32 tokens", "all second experts are drawn",
                        dropped_share(128, 2, 8, 32))),
            ("gshard --capacity-factor 0.25", ("at most 8 of", dropped_share(128, 2, 8, 8))),
            ("expert-choice", ("takes 32 of the 128 tokens",)),
            ("expert-choice --capacity-factor 0.5", ("takes 16 of the 128 tokens",)),
            ("hierarchical", ("2 of 4 groups of 2 experts, once to each, and there to 2",))):
        answer = simulate([*words, "--gate", *gate.split()])
        notes = "; ".join(note for note in answer["notes"] if "--gate" in note)
        missing = [text for text in texts if text not in notes]
        if missing or bool(texts) != bool(notes) or ("none" in gate and "dropped" in notes):
            yield f"{gate}: {missing} in {notes}"
        if ("what tokens send" in " ".join(answer["notes"])) != (gate.endswith("0.25")):
            yield f"{gate}: {answer['notes']}"
        if answer["settings"].get("gate", "top-k") != gate.split()[0]:
            yield f"{gate}: {answer['settings']}"


def check_more_memory():
    """What fits in less memory fits in more: no step is slower there.  Weights that are fetched
    come twice for logits in one piece, and once for two."""
    for words, sizes, chunks in (
            ("-m llama-3.2-1b -H 8xrtx4090 -s zero3 --software ideal --seq 2048 --batch 4 "
             "--grad-accum 1", (10, 12, 14, 16, 24), 2),
            ("-m llama-3.2-1b -H 8xrtx4090 -s zero-infinity-nvme --param-device nvme --seq 1024 "
             "--batch 4 --grad-accum 2 --software ideal", (12, 14, 24, 80), 2),
            ("-m llama-3.2-1b -H 8xrtx4090 -s ddp --software ideal --seq 512 --batch 1 "
             "--grad-accum 1", (48, 80), 1)):
        answers = [simulate([*words.split(), "--set", f"gpu.memory_gib={gib}"]) for gib in sizes]
        steps = [answer["step_time_s"] for answer in answers]
        if any(b > a * 1.0005 for a, b in zip(steps, steps[1:])):
            yield f"{words}: {dict(zip(sizes, steps))}"
        if answers[-1]["settings"]["logits_chunks"] != chunks:
            yield f"{words}: {answers[-1]['settings']['logits_chunks']} chunks"


def check_shrinking():
    """The shrinking batch of experts (Shazeer et al., arXiv 1701.06538, Sec. 3.1): of b tokens of
    each of d ranks that share n experts an expert gets k b d / n, and few are said to be few."""
    for experts, visits, ranks, batch in ((8, 2, 1, 1), (64, 2, 1, 1), (64, 2, 8, 1), (64, 4, 8, 1),
                                          (64, 2, 1, 4), (8, 2, 8, 4)):
        model = (f"layers=2,hidden=1024,heads=16,vocab=1024,experts={experts},"
                 f"experts_per_token={visits},expert_ffn=4096,architecture=llama")
        notes = simulate(f"-m {model} -H dgx-h100 -s zero3 --seq 512 --grad-accum 1 "
                         f"--batch {batch} --ep {ranks} --software megatron".split())["notes"]
        tokens = visits * batch * 512 * ranks // experts
        said = [note for note in notes if "waits for its weights" in note]
        if bool(said) != (tokens < 1000) or (said and f"has {tokens} tokens" not in said[0]):
            yield f"{tokens} tokens: {said}"


def check_one_split():
    """One micro-batch sums no gradients, so a global batch may fit as one and not as two."""
    words = ("-m gpt2-xl -H a100 --seq 256 -s ddp --software memwall "
             "--activation-checkpoint-interval 1").split()
    one, two = (simulate([*words, "--batch", batch, "--grad-accum", accum])
                for batch, accum in (("2", "1"), ("1", "2")))
    least, more = (answer["need_bytes"]["gpu"] for answer in (one, two))
    between = ((least + more) / 2 + one["tiers"]["gpu"]["reserve_bytes"]) / 2 ** 30
    asked = simulate([*words, "--global-batch", "2", "--set", f"gpu.memory_gib={between}"])
    if least >= more or not asked["feasible"] or asked["need_bytes"]["gpu"] != least:
        yield f"{least} and {more} bytes; {asked['feasible']}, {asked['need_bytes']}"


def check_replicas():
    """What the note to PipeDream's own schedule names is a division of all GPUs, which is answered,
    and has no note to another; it is said of that schedule alone."""
    words = ("-m llama-3.1-8b -H dgx-h100 --nodes 2 --batch 1 --grad-accum 48 -s ddp "
             "--schedule").split()
    asked = simulate([*words, "pipedream", "--pp", "4"])
    said = [note for note in asked["notes"] if "PipeDream's planner" in note]
    found = re.search(r"by (--stage-replicas ([\d,]+) --stage-split ([\d,]+)) and .* in "
                      r"(0\.\d+) of", said[0] if said else "")
    if not found or float(found[4]) > 0.95:
        yield f"{said}"
        return
    replicas = [int(number) for number in found[2].split(",")]
    if sum(replicas) != 16 or len(set(replicas)) < 2 or found[3].count(",") != len(replicas) - 2:
        yield f"{said}"
    again = simulate([*words, "pipedream", *found[1].split()])
    if not again["feasible"] or again["settings"]["stage_replicas"] != found[2]:
        yield f"{found[1]}: {again['settings']}"
    if any("PipeDream's planner" in note for note in again["notes"]):
        yield f"{found[1]}: {again['notes']}"
    if any("PipeDream's planner" in note
           for note in simulate([*words, "2bw", "--pp", "4"])["notes"]):
        yield "said of 2bw"


def tests():
    for request in sample(REQUESTS):
        words = request.split()
        answer = simulate(words)
        yield f"batch: {request}", check_batch(words, answer)
        yield f"change: {request}", check_change(words, answer)
        yield f"best: {request}", check_best(words, answer)
    for request in sample(FIXED):
        words = request.split()
        yield f"change: {request}", check_change(words, simulate(words))
    for request in sample(OPEN):
        words = request.split()
        yield f"default: {request}", check_default(words)
        yield f"offload: {request}", check_offload(words)
    for request in sample(SIMPLEST):
        yield f"simplest: {request}", check_simplest(request.split())
        yield f"keep: {request}", check_keep(words)
    for request, flags in sample(BOUGHT):
        yield f"bought: {request}", check_bought(request.split(), flags)
    for request in sample(FEWER):
        yield f"fewer: {request}", check_fewer(request.split())
    for request, way in sample(UNFIT):
        yield f"remedy: {request}", check_remedy(request.split(), way)
    for request, keys in sample(OFFERED):
        yield f"offers: {request}", check_offers(request.split(), keys)
    yield "as eager frameworks keep them", check_eager()
    for request, batch in sample(SMALLER):
        yield f"smaller: {request}", check_smaller(request.split(), batch)
    for name, (request, flags) in sixth(BEST.items()):
        yield name, check_best_is(request.split(), flags)
    yield "demo", check_demo()
    yield "idle", check_idle()
    yield "interval", check_interval()
    yield "capacity of experts", check_capacity()
    yield "gates of experts", check_gates()
    yield "more memory", check_more_memory()
    yield "shrinking batch of experts", check_shrinking()
    yield "replicas of stages", check_replicas()
    yield "one split", check_one_split()


if __name__ == "__main__":
    sys.exit(report(tests()))
