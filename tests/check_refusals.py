#!/usr/bin/python3
"""Wrong input of the memwall command; prints TAP.

wrong input  exit 2 and one line on standard error that names file or option, key, value and what
             is accepted; nothing on standard output, no file left behind.
long         what was typed or read is not echoed whole.

The command is $MEMWALL, or build/cli/memwall.
"""
import json
import os
import re
import shlex
import sys

from command import FLAT, PROFILE, Box, sixth
from tap import report_in

CONFIG = {"model_type": "gpt2", "n_layer": 4, "n_embd": 256, "n_head": 8, "n_positions": 1024,
          "vocab_size": 1000}
LLAMA = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256,
         "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 512,
         "vocab_size": 1000, "max_position_embeddings": 1024}

# --- tables ---------------------------------------------------------------------------------------

NOT_NUMBERS = ["-1", "nan", "inf", "-inf", "1e999", "", " 4", "4 ", "0x4", "four", "4,5", "1e19"]
NOT_DEVICES = ["", "ram", "cpu:", "cpu:0GB", "cpu:-1GB", "cpu:1", "cpu:1XB", "cpu:nanGB",
               "cpu:1e999GB", "cpu:99999999999999999999GB", "cpu,cpu", "cpu,nvme", ",", "cpu:1GB,",
               "cpu:1GB,nvme:2GB,gpu:3GB,cpu"]


def number_options():
    """Every option that takes a number, with what it does not take."""
    for option in ("nodes", "tiles", "batch", "tokens"):
        for value in NOT_NUMBERS + ["0"]:
            yield option, value
    for option in ("gpus", "global-batch", "grad-accum", "seq", "tp", "param-loads", "buffer-sets",
                   "optimizer-chunk"):
        for value in ("0", "-1", "2.5", "nan", "1e999"):
            yield option, value
    for option in ("prefetch", "save-every", "activation-checkpoint-interval", "dpu-start"):
        for value in ("-1", "2.5", "", "1e18"):
            yield option, value


def wrong_options():
    """(name, command line, words that the message must have)"""
    for option, value in number_options():
        yield (f"--{option}={value}", ["simulate", *shlex.split(FLAT), f"--{option}={value}"],
               [f"--{option}", value, "must be"])
    for option in ["param-device", "optimizer-device", "gradient-device", "activation-device"]:
        for value in NOT_DEVICES if option == "param-device" else ["", "ram"]:
            yield (f"--{option}={value}", ["simulate", *shlex.split(FLAT), f"--{option}={value}"],
                   [f"--{option}", value, "must be"])
    for option, accepted in [("partition", "bandwidth or owner"), ("overlap", "on or off"),
                             ("update", "end or beside"),
                             ("state-layout", "zero16 or paper20"), ("commit", "step or none"),
                             ("outlook", "low, typical or high")]:
        for value in ["", "maybe", "1"]:
            yield (f"--{option}={value}", ["simulate", *shlex.split(FLAT), f"--{option}={value}"],
                   [f"--{option}", value, accepted])
    for value in ["", "zero4", "zero3,", "zero3,zero3", ",", "ZERO3"]:
        yield f"-s {value}", ["simulate", *shlex.split(FLAT), "-s", value], [value]


# Command line: words that the message must have.
CONTRADICTIONS = {
    "": [],
    "nonsense": ["nonsense", "list, plan, simulate, sweep, advise, report, run, compare, check, "
                 "calibrate, export, rm"],
    "advise -m gpt2 --tokens 1B --machines=": ["--machines", "at least one machine"],
    "advise -m gpt2 --tokens 1B --machines rtx4090 --over=": ["--over", "KEY=VALUE"],
    "--json simulate": ["--json: a verb goes first", "simulate"],
    "list": ["models, types, hwprofiles, software, strategies, optimizers, schedules, "
             "data-parallel, gates, encodings, devices and runs"],
    "fine-tune -m gpt2": ["did you mean simulate --train lora:16, or run with it?"],
    "serve -m gpt2": ["did you mean simulate --serve?"],
    "train -m gpt2": ["unknown verb \"train\"; did you mean run?"],
    "simulate -m gpt2 -H h100x8": ["did you mean 8xh100?"],
    "plan -m gpt2 -H gb200-nvl72 --nodes 60000": [
        "--nodes 60000", "4320000", "give 1 to 58254"],
    "plan -m gpt2 -H 4xrtx4090,dram=8xDDR": ["dram=8xDDR", "8xDDR5-4800"],
    "plan -m gpt2 -H 4xrtx4090,dram=8xDDR5-4800.7": ["dram=8xDDR5-4800.7", "8xDDR5-4800"],
    "simulate -m gpt2 -H rtx4090 --set gpu.matmul_tflops=1e3;1e3;1e3;1e3;1e3;1e3": [
        "matmul_tflops", "must be at most peak_tflops, 165.2"],
    "simulate -m gpt2 --software nosuch": ["no software profile \"nosuch\""],
    "simulate -m gpt2 -H rtx40900": ["did you mean rtx4090"],
    "simulate -m gpt2 -H h100 --lora 8": ["--lora: --train lora:16 says that here"],
    "simulate -m gpt2 -H h100 --per-device-train-batch-size 4": ["--batch says that here"],
    "simulate -m gpt2 -H h100 --precision bf16": ["--dtype bf16 says that here"],
    "simulate -m gpt2 -H h100 --objective reward --batch 1":
        ["--batch 1: a pair is two sequences: must be even, and --batch 2 is one pair"],
    "simulate -m gpt2 -H h100 --objective reward --global-batch 7 --grad-accum 2":
        ["data-parallel GPUs and --grad-accum"],
    "simulate -m gpt2 -H dgx-h100 --objective reward --tp 2 --batch 0.5": ["even, times --tp"],
    "simulate -m gpt2 -H h100 --load-in-4bit": ["--weight-bits 4 says that here"],
    "simulate -m gpt2 -H h100 --lorax 8": ["see memwall simulate --help"],
    "list gpus": ["list gpus: did you mean devices or hwprofiles?"],
    "list hardware": ["list hardware: did you mean hwprofiles?"],
    "list hw": ["list hw: did you mean hwprofiles?"],
    "list Machines": ["list Machines: did you mean hwprofiles?"],
    "list backends": ["list backends: did you mean devices?"],
    "list presets": ["list presets: did you mean models?"],
    "list jobs": ["list jobs: did you mean runs?"],
    "simulate -m meta-llama/Llama-3.1-8B -H flat-test": [
        "meta-llama/Llama-3.1-8B: ", "nothing is downloaded", "a preset: llama-3.1-8b"],
    "simulate -m ./folder -H flat-test": ["./folder: holds no config.json"],
    "simulate -m gpt2 -H flat-test --batch 0.5":
        ["must be a whole number of sequences from 1 to", "; fractions need --tp"],
    "simulate -m gpt2 -H flat-test -s fsdp": ["FSDP", "is zero3\n"],
    "simulate -m gpt2 -H flat-test -s lora":
        ["go with every strategy", "--train lora:16"],
    "simulate -m gpt2 -H flat-test -s QLoRA": ["--train lora:16 with --weight-bits 4"],
    "simulate -m gpt2 -H flat-test --train lora":
        ["adapters have a rank: --train lora:16"],
    "simulate -m gpt2 -H flat-test --train q_proj,v_proj": ["'q_proj', and qkv has that tensor"],
    "simulate llama-3.1-8b -H flat-test": ["no such plan file; for the model, -m llama-3.1-8b\n"],
    "simulate good.plan -m gpt2 -H flat-test": ["a plan file, such as good.plan, takes no -m"],
    "simulate -m gpt2 -H rtx4090,rtx3090": ["must be one hardware profile"],
    "simulate -m gpt2 -H 4xrtx4090,ram=0": ["4xrtx4090,ram=0: part ram=0: must be memory"],
    "plan -m gpt2 -H 4xrtx409": ["4xrtx409: ", "did you mean rtx4090"],
    "simulate -m gpt2 -H 4xdgx-h100": ["dgx-h100 has 8 GPUs itself", "--nodes says how many"],
    "list hwprofiles 2xrtx4090,cpu=9": ["part \"cpu=9\": unknown: must be ram="],
    "simulate -m folder -H flat-test": ["no such preset", "./folder\n"],
    "simulate -m gpt2 -H flat-test --batch 1e-4 --tp 2": ["must be a number from 0.001 to"],
    "list cats": [
        "list cats: must be models, types, hwprofiles, software, strategies, optimizers, "
        "schedules, data-parallel, gates, encodings, devices or runs"],
    "list models gpt9": ["gpt9", "no such preset"],
    "list models gpt2 extra": ["list models: unexpected argument \"extra\""],
    "list devices cuda": ["list devices: unexpected argument \"cuda\""],
    "list models gpt2 --json extra": ["list models: unexpected argument \"extra\""],
    "list models --jsno": ["--jsno", "did you mean --json?"],
    "list hwprofiles dgx2 --json": ["list hwprofiles dgx2", "leave out --json"],
    "list hwprofiles nowhere": ["nowhere"],
    "simulate": ["-m MODEL", "missing"],
    "simulate -H dgx2": ["-m MODEL", "missing"],
    "simulate -m": ["-m"],
    "simulate -m gpt2 -H": ["-H"],
    "simulate -m gpt2 -H flat-test extra": ["extra"],
    "simulate -m gpt2 -H flat-test --batches 3": ["--batches", "did you mean --batch?"],
    "simulate -m gpt2 -H flat-test --zzz 3": ["--zzz", "--help"],
    "simulate -m gpt2 -H flat-test --batches=3": ["--batches", "did you mean --batch?"],
    "plan -m gpt2 -H flat-test --gradacum 3": ["--gradacum", "did you mean --grad-accum?"],
    "run -m gpt2 -H flat-test --warmpu 3": ["--warmpu", "did you mean --warmup?"],
    "calibrate --quik": ["--quik", "did you mean --quick?"],
    "compare x.txt --hardwear dgx2": ["--hardwear", "did you mean --hardware?"],
    "simulate -m gpt2 -H flat-test --json=no": ["--json=no: takes no value", "give --json"],
    "run -m gpt2 -H flat-test --overwrite=false": ["--overwrite=false: takes no value"],
    "list models --json=1": ["--json=1: takes no value"],
    "simulate --mdoel gpt2": ["--mdoel", "did you mean --model?"],
    "simulat -m gpt2": ["unknown verb", "did you mean simulate?"],
    "q" * 300: ["; known are "],  # which is near nothing
    "frobnicate": ["unknown verb", "simulate", "calibrate", "help"],
    "help simulat": ["unknown verb", "did you mean simulate?"],
    "help plan run": ["help", "run"],
    "list model": ["did you mean models?"],
    "list profiles": ["did you mean hwprofiles?"],
    "PLAN -m gpt2": ["unknown verb", "did you mean plan?"],
    "help sim": ["unknown verb", "did you mean simulate?"],
    "simulate -m gpt2 -H RTX4090": ["did you mean rtx4090, rtx4090-2x,"],
    "simulate -m gpt2 -H H100": ["did you mean h100, dgx-h100,"],
    "simulate -m gpt2 -H 4090": ["did you mean rtx4090, rtx4090-2x"],
    "simulate -m gpt2 -H rtx4080": ["did you mean rtx4090?"],
    "simulate -m llama -H flat-test": ["no such preset; did you mean llama-65b, llama-2-7b,"],
    "simulate -m Llama3-8B -H flat-test": ["did you mean llama-3-8b?"],
    "simulate -m gpt2 -H flat-test --checkpoint-interval 2":
        ["did you mean --activation-checkpoint-interval?"],
    "simulate -m gpt2 -H flat-test --device cpu":
        ["did you mean --param-device, --frozen-device, --gradient-device, "],
    "simulate -m gpt2 -H rtx4090 --tp 2":
        ["--tp 2: must divide the number of GPUs on all nodes, which is 1; give 1\n"],
    "simulate -m llama-2-7b -H dgx-a100 --tp 3": ["which is 8; give 2 or 4\n"],
    "simulate -m llama-2-7b -H dgx-a100 --gpus 6 --tp 6":
        ["--tp 6: must divide both the number of heads, 32,", "llama-2-7b; give 2\n"],
    "simulate -m llama-2-7b -H dgx-a100 --tp 4 --pp 4":
        ["--pp 4: times --tp 4 must divide", "which is 8; give 2\n"],
    "simulate -m llama-2-7b -H dgx-a100 --nodes 8 --pp 64":
        ["32 layers, and a pipeline no more stages than that; give 32\n"],
    "simulate -m llama-2-7b -H dgx-a100 --nodes 3 --pp 2":
        ["--pp 2: makes stages of 12 GPUs, which neither fill nodes of 8", "give 3\n"],
    "simulate -m gpt2 -H rtx4090 --batch 1000001": [
        "must be a whole number of sequences from 1 to 1000000, or auto"],
    "simulate -m gpt2 -H dgx2 --tp 4 --batch 1000000":
        ["--batch 1000000: times --tp 4 is 4000000 sequences; must be a whole number, 1 to 1000"],
    "simulate -m gpt2 -H rtx4090 --batch 1.5": ["--batch 1.5: must be a whole number of sequences"],
    "simulate -m gpt2 -H rtx4090 --global-batch 7 --batch 2":
        ["--batch 2 times 1 GPU times a whole --grad-accum"],
    "simulate -m gpt2 -H rtx4090 --tokens 1e19": ["from 1 to 1e18"],
    "run -m gpt2 -H rtx4090 --data /etc/passwd --tokens 1e9":
        ["--tokens: is an option of simulate"],
    "plan -m gpt2 -H rtx4090 --tokens 1e9": ["--tokens: is an option of simulate"],
    "simulate -m gpt2 -H flat-test -s zero-3": ["zero-3", "did you mean zero3?"],
    "simulate -m gpt2 -H flat-test --tokens 15X": ["--tokens 15X", "15T"],
    "simulate -m gpt2 -H flat-test --tokens 15TT": ["--tokens 15TT", "15T"],
    "simulate -m gpt2 -H flat-test --batch 1.0005k": ["--batch 1.0005k"],
    "simulate -m gpt2 -H flat-test --grad-accum 1M": ["--grad-accum 1M", "from 1 to 4096\n"],
    "simulate -m gpt2 -H flat-test --nodes 1k": ["--nodes 1000: the profile has 16 nodes"],
    "simulate -m gpt2 -H flat-test --seq 4k":
        ["--seq 4k", "written out: k may be 1000 or 1024\n"],
    "simulate -m gpt2 -H flat-test --global-batch 1.0005k": ["--global-batch 1.0005k"],
    "simulate -m gpt9 -H flat-test": ["gpt9", "list models"],
    "simulate -m '' -H flat-test": ["model"],
    "simulate -m gpt2 -H ''": ["profile"],
    "simulate -m gpt2 -H dgx9": ["dgx9"],
    "simulate -m gpt2 -H flat-test --gpus 5":
        ["--gpus 5: a node of the profile has 4 GPUs; give 1 to 4, or more --nodes"],
    "simulate -m gpt2 -H flat-test --nodes 17":
        ["--nodes 17: the profile has 16 nodes; give 1 to 16"],
    "simulate -m gpt2 -H rtx4090 --gpus 2":
        ["--gpus 2: a node of the profile has 1 GPU; give 1, or set node.gpus=2 and "
         "fabric.gb_per_s and fabric.latency_us\n"],
    "simulate -m gpt2 -H rtx4090 -s zero-infinity":
        ["did you mean zero-infinity-cpu or zero-infinity-nvme?\n"],
    "simulate -m gpt2 -H rtx4090 -s zero4": ["did you mean zero1, zero2 or zero3?\n"],
    "simulate -m gpt2 -H rtx4090 -s zero3-offload": ["did you mean zero-offload or zero3?\n"],
    "simulate -m gpt2 -H dgx2 --set node.nodes_max=1 --nodes 2":
        ["--nodes 2: the profile has 1 node; give 1\n"],
    "simulate -m gpt2 -H rtx4090 --nodes 2":
        ["--nodes 2", "network.gb_per_s and network.latency_us and node.nodes_max=2"],
    "simulate -m gpt2 -H rtx4090 --set node.gpus=2": ["fabric.gb_per_s and fabric.latency_us"],
    "simulate -m gpt2 -H flat-test --tp 3": ["tp", "3", "divide"],
    "simulate -m gpt2-xl -H flat-test --tp 4": ["tp", "4", "divide", "25"],
    "simulate -m llama-3-8b -H flat-test --nodes 16 --tp 64": ["tp", "64", "divide", "32"],
    "simulate -m gpt2 -H dgx2 --nodes 2 -s zero3 --shard-group 6":
        ["--shard-group 6: must divide the 32 data-parallel GPUs", "give 4 or 8\n"],
    "simulate -m gpt2 -H dgx2 --nodes 3 -s zero3 --shard-group 24": ["fill nodes; give 16 or 48\n"],
    "simulate -m llama-3.1-8b -H dgx-h100 --nodes 2 -s zero1 --tp 8 --shard-group node":
        ["--shard-group node", "the 1 of a node", "give 2\n"],
    "simulate -m gpt2 -H rtx4090 --shard-group 2": ["--shard-group 2", "leave it out"],
    "simulate -m gpt2 -H dgx2 --shard-group 1": ["from 2 to", "or node or all\n"],
    "simulate -m gpt2 -H dgx2 -s ddp --shard-group 4":
        ["--shard-group 4: ddp partitions nothing; give zero1"],
    "simulate -m gpt2 -H dgx2 -s zero3 --partition owner --shard-group 4":
        ["--shard-group 4", "give --partition bandwidth\n"],
    "simulate -m gpt2 -H flat-test --batch 0.3": ["--batch 0.3", "whole number"],
    "simulate -m gpt2 -H flat-test --seq 2048": ["seq", "2048", "1024"],
    "simulate -m gpt2 -H flat-test --global-batch 7": ["--global-batch 7", "are 4 and 8"],
    "simulate -m llama-3.1-8b -H rtx4090 --global-batch 2M":
        ["--global-batch 2000000", "at most 65536 sequences", "8.19B tokens per step",
         "2M tokens are --global-batch 488"],
    "simulate -m gpt2 -H flat-test --global-batch 3": ["--global-batch 3", "the least is 4"],
    "simulate -m gpt2 -H flat-test --global-batch 64 --batch 3":
        ["--global-batch 64", "are 60 and 72"],
    "simulate -m gpt2 -H flat-test --global-batch 64 --grad-accum 3": ["--global-batch 64"],
    "simulate -m gpt2 -H flat-test -s ddp --param-device cpu": ["--param-device", "ddp"],
    "simulate -m gpt2 -H flat-test -s zero1 --optimizer-device cpu":
        ["--optimizer-device", "zero1"],
    "simulate -m gpt2 -H flat-test -s zero-offload --optimizer-device gpu":
        ["--optimizer-device gpu", "zero2"],
    "simulate -m gpt2 -H flat-test -s zero3 --dpu-start 4": ["--dpu-start", "zero-offload"],
    "simulate -m gpt2 -H flat-test -s zero-offload --dpu-start 4 --update beside":
        ["--update beside", "--dpu-start"],
    "simulate -m gpt2 -H flat-test -s zero3 --overlap off --update beside":
        ["--update beside", "--overlap on"],
    "simulate -m gpt2 -H flat-test -s zero3 --gpus 4 --pp 2 --update beside":
        ["--update beside", "--pp 2"],
    "simulate -m llama-3.1-8b -H dgx-h100 --cp 3":
        ["--cp 3: must divide the 8 data-parallel GPUs", "twice it the 4096 tokens", "give 2 or 4"],
    "simulate -m llama-3.1-8b -H dgx-h100 --cp 4 --seq 4100":
        ["--cp 4", "4100 tokens", "give 2, or --seq 4096\n"],
    "simulate -m llama-3.1-8b -H dgx-h100 --cp 2 --seq 23": ["23 tokens", "give 1, or --seq 20\n"],
    "simulate -m llama-3.1-8b -H dgx-h100 --cp 2 --seq 23 --cp-kind all-to-all":
        ["23 tokens", "give 1, or --seq 22\n"],
    "simulate -m llama-3.1-8b -H dgx-h100 --cp 8 --seq 7": ["7 tokens", "give 1\n"],
    "simulate -m llama-3.1-8b -H dgx-h100 --nodes 2 --cp 16 --cp-kind all-to-all":
        ["--cp 16: must divide the 16 data-parallel GPUs", "8 key and value heads", "give 8"],
    "simulate -m llama-3.1-8b -H dgx-h100 --tp 4 --cp 2 --cp-kind all-to-all --pp 2":
        ["--cp 2: must divide the 1 data-parallel GPUs"],
    "simulate -m llama-3.1-70b -H dgx-h100 --nodes 4 --tp 8 --cp 2 --cp-kind all-to-all":
        ["--cp 2", "8 heads and 1 key and value heads of each slice", "give 1"],
    "simulate -m mistral-7b-v0.1 -H dgx-h100 --cp 2 --seq 8192":
        ["--cp 2", "sliding windows", "--cp-kind all-to-all"],
    "simulate -m llama-3.1-8b -H dgx-h100 --cp 4 --batch 0.3": ["--batch 0.3", "times --cp 4"],
    "simulate -m llama-3.1-8b -H dgx-h100 --cp-kind star": ["--cp-kind star", "ring"],
    "simulate -m llama-3.1-8b -H dgx-h100 --cp 2 --objective dpo": ["dpo", "leave out --cp"],
    "simulate -m llama-3.1-8b -H dgx-h100 --cp 2 --serve 8": ["--cp 2", "--serve"],
    "advise -m llama-3.1-8b -H dgx-h100 --search parallel --cp 2": ["--cp 2", "--search parallel"],
    "run -m gpt2 -H flat-test --gpus 4 --cp 3 --data /etc/passwd":
        ["--cp 3: must divide the 4 data-parallel GPUs", "give 2 or 4"],
    "simulate -m gpt2 -H dgx-h100 --capacity-factor 1": ["--capacity-factor 1", "no experts"],
    "simulate -m mixtral-8x7b -H dgx-h100 --capacity-factor 0":
        ["--capacity-factor 0", "0.01 to 100, or none"],
    "simulate -m mixtral-8x7b -H dgx-h100 --gate top-2":
        ["--gate top-2: must be one of top-k, noisy-top-k, switch, gshard, expert-choice, "
         "hierarchical"],
    "simulate -m mixtral-8x7b -H dgx-h100 --gate hierarchical --ep 8":
        ["--ep 8: with --gate hierarchical a GPU has whole groups", "has 4 groups; give 4"],
    "simulate -m mixtral-8x7b -H dgx-h100 --gate hierarchical --capacity-factor 1":
        ["--capacity-factor 1: with --gate hierarchical", "leave it out"],
    "run -m mixtral-8x7b -H flat-test --gate hierarchical --data /etc/passwd":
        ["--gate hierarchical: run does not have it; give --gate top-k"],
    "simulate -m gpt2 -H dgx-h100 --gate switch":
        ["--gate switch: model gpt2 has no experts; give --gate top-k"],
    "simulate -m mixtral-8x7b -H dgx-h100 --gate expert-choice --capacity-factor 4.01":
        ["--capacity-factor 4.01: with --gate expert-choice", "give at most 4 for the 2 of 8"],
    "simulate -m mixtral-8x7b -H dgx-h100 --gate expert-choice --capacity-factor none":
        ["--capacity-factor none: with --gate expert-choice", "give a number up to 4, or auto"],
    "simulate -m mixtral-8x7b -H dgx-h100 --gate gshard --serve 8":
        ["--gate gshard", "--serve"],
    "run -m mixtral-8x7b -H flat-test --gate switch --data /etc/passwd":
        ["--gate switch: run does not have it; give --gate top-k, or ask `memwall simulate`"],
    "advise -m mixtral-8x7b -H dgx-h100 --search parallel --gate switch":
        ["--gate switch", "--search parallel"],
    "simulate -m mixtral-8x7b -H dgx-h100 --ep 3":
        ["--ep 3: must divide the 8 experts", "8 data-parallel GPUs; give 2 or 4"],
    "simulate -m mixtral-8x7b -H dgx-h100 --gpus 6 --ep 4": ["--ep 4", "6 data-parallel", "give 2"],
    "simulate -m gpt2 -H dgx-h100 --ep 2": ["--ep 2: model gpt2 has no experts; give --ep 1"],
    "simulate -m mixtral-8x7b -H dgx-h100 --ep 2 --tp 2 --sequence-parallel off":
        ["--ep 2", "--sequence-parallel on", "--tp 1", "--ep 1"],
    "simulate -m mixtral-8x7b -H dgx-h100 --ep 8 --tp 2":
        ["4 data-parallel GPUs", "give 4, or --etp 1"],
    "simulate -m mixtral-8x7b -H dgx-h100 --ep 6 --tp 2 --etp 1":
        ["--ep 6: with --etp 1", "multiple of --tp 2", "the 8 GPUs; give 2 or 4 or 8"],
    "simulate -m mixtral-8x7b -H dgx-h100 --tp 2 --etp 1": ["--etp 1", "give --ep", "--etp tp"],
    "simulate -m mixtral-8x7b -H dgx-h100 --ep 2 --tp 4 --etp 2":
        ["--etp 2", "give --etp 1 or --etp tp"],
    "run -m mixtral-8x7b -H flat-test --ep 2 --tp 2 --etp 1 --data /etc/passwd":
        ["--ep 2", "--tp 1", "memwall simulate"],
    "simulate -m mixtral-8x7b -H dgx-h100 --ep 2 --train lora:4": ["--ep 2", "adapters"],
    "simulate -m mixtral-8x7b -H dgx-h100 --ep 2 --optimizer muon": ["--ep 2", "--optimizer"],
    "simulate -m mixtral-8x7b -H dgx-h100 --ep 2 --objective dpo": ["dpo", "leave out --ep"],
    "simulate -m mixtral-8x7b -H dgx-h100 --ep 2 --serve 8": ["--ep 2", "--serve"],
    "simulate -m gpt2 -H flat-test -s zero3 --drop-layers 1,/2": ["--drop-layers 1,/2", "such as"],
    "simulate -m gpt2 -H flat-test -s zero3 --drop-layers 3/12": ["layer 12", "0 to 11"],
    "simulate -m gpt2 -H flat-test -s zero3 --drop-layers 0-11": ["leave one layer"],
    "simulate -m gpt2 -H flat-test -s zero-offload --drop-layers 1 --dpu-start 4":
        ["--drop-layers", "--dpu-start"],
    "simulate -m gpt2 -H flat-test --activation-checkpoint-interval 0 --param-loads 2":
        ["--param-loads 2", "--activation-checkpoint-interval 0"],
    "simulate -m gpt2 -H flat-test -s zero3 --batch 1 --optimizer-chunk 1":
        ["--optimizer-chunk 1", "at least"],
    "simulate -m gpt2-xl -H flat-test -s zero3 --batch 1 --tiles 4096 --grad-accum 4096":
        ["--tiles 4096", "more than 500000"],
    "simulate -m gpt3-175b -H flat-test --batch 1000000 --seq 2048": None,  # does not fit
    "simulate -m llama-3.1-405b -H flat-test --batch 1000000 --seq 16777216": ["seq", "64 bits"],
    "simulate -m llama-3.1-405b -H flat-test --batch 1 --seq 16777216": ["seq", "64 bits"],
    "simulate -m gpt2 -H flat-test --json --csv": ["--json", "--csv"],
    "simulate -m gpt2 -H flat-test --largest": ["--largest", "plan"],
    "plan -m gpt2 -H flat-test --trace t.json": ["--trace", "simulate"],
    "plan -m gpt2 -H flat-test --plot t.png": ["--plot", "simulate"],
    "plan -m gpt2 -H flat-test --what-if": ["--what-if", "simulate"],
    "plan -m gpt2 -H flat-test --details": ["--details", "simulate"],
    "plan -m gpt2 -H flat-test --largest -o plan.txt": ["--largest", "-o"],
    "simulate -m gpt2 -H flat-test -s geeps --activation-checkpoint-interval 2":
        ["--activation-checkpoint-interval 2: with -s geeps", "must be 0 or 1, or left out"],
    "simulate -m gpt2 -H flat-test -s zero-offload --checkpoints activations --activation-device "
    "cpu --activation-checkpoint-interval 2":
        ["--activation-checkpoint-interval 2: with --checkpoints activations", "must be 0 or 1"],
    "plan -m gpt2 -H flat-test plan.txt": ["plan.txt"],
    "simulate -m gpt2 -H flat-test --plot picture.jpg": ["--plot picture.jpg", ".png or .svg"],
    "simulate -m gpt2 -H flat-test -s ddp,zero3 --trace t.json": ["--trace", "one strategy"],
    "simulate -m gpt2 -H flat-test -s ddp,zero3 -o plan.txt": ["-o", "one strategy"],
    "simulate -m gpt2 -H flat-test -s ddp,zero3 --what-if": ["--what-if", "one strategy"],
    "simulate -m gpt2 -H flat-test -s ddp,zero3 --details": ["--details", "one strategy"],
    "simulate -m gpt2 -H flat-test --what-if --csv": ["--what-if", "--csv"],
    "simulate -m gpt2 -H flat-test --details --csv": ["--details", "--csv"],
    "simulate -m gpt2 -H flat-test -s auto,zero3": ["-s auto,zero3", "alone"],
    "simulate -m gpt2 -H flat-test -s zero3,auto": ["-s zero3,auto", "alone"],
    "simulate -m gpt2 -H flat-test --trace a.json -o a.json": ["--trace a.json", "-o"],
    "simulate -H flat-test good.plan --trace a.svg --plot a.svg": ["--plot a.svg", "--trace"],
    "simulate -m gpt2 -H 'x\ny'": ["x\\ny"],
    "simulate -m gpt2 -H flat-test --batch '1\n2'": ["--batch 1\\n2"],
    "simulate -m gpt2 -H flat-test --batch '\x1b[31m'": ["--batch \\x1b[31m"],
    "'a\nb'": ["a\\nb"],
    "simulate -H flat-test missing.plan": ["missing.plan"],
    "simulate -H flat-test good.plan --batch 3": ["--batch", "plan file"],
    "simulate -H flat-test good.plan -s zero3": ["--strategy", "plan file"],
    "simulate -H flat-test good.plan --csv": ["--csv", "plan file"],
    "simulate -H flat-test good.plan --plot p.gif": ["--plot p.gif", ".svg"],
    "simulate -H flat-test empty": ["empty: is empty: must be a plan"],
    "compare -H flat-test empty": ["empty: is empty: must be a run"],
    "calibrate -o ''": ["-o: a file's name is missing"],
    "calibrate --quick --nvme nowhere": ["--nvme nowhere: must be an existing directory"],
    "calibrate --quick --nvme empty": ["--nvme empty: must be an existing directory"],
    "rm ''": ["a run's name is missing"],
    "verify nowhere": ["nowhere: there is no run and no directory of this name"],
    "simulate -H flat-test noise": ["noise"],
    "simulate -H flat-test cut.plan": ["cut.plan"],
    "simulate -H flat-test missing": ["missing: is a folder", "must be a plan"],
    "simulate -H flat-test slow.plan": ["73 years"],
    "simulate -H rtx4090 network.plan": ["2 nodes", "more than"],
    "simulate -m gpt2 -H flat-test --set nvme.read_gb_per_s=1e-9 --set nvme.write_gb_per_s=1e-9 "
    "-s zero-infinity-nvme --optimizer-device nvme --batch 1": None,
}

SETS = {  # --set VALUE: words
    "": ["--set", "SECTION.KEY=VALUE"],
    "gpu": ["SECTION.KEY=VALUE"],
    "gpu.memory_gib": ["SECTION.KEY=VALUE"],
    "=4": ["SECTION.KEY=VALUE"],
    "gpu.=4": ["gpu."],
    ".memory_gib=4": [".memory_gib"],
    "gpu.memory_gb=4": ["gpu.memory_gb", "memory_gib"],
    "cpu.memory_gib=4": ["cpu", "did you mean [host]?"],
    "host.memory=256": ["did you mean [host] memory_gib (GiB) or memory_gb_per_s ("],
    "gpu.memory=48": ["did you mean [gpu] memory_gib (GiB)"],
    "host.memory_gib=256GB": ["from 0.001 to 1000000 GiB, written without a unit"],
    "gpu.memory_gib=": ["memory_gib"],
    "gpu.memory_gib=lots": ["memory_gib", "lots"],
    "gpu.memory_gib=-4": ["memory_gib", "-4"],
    "gpu.memory_gib=0": ["memory_gib", "0"],
    "gpu.memory_gib=nan": ["memory_gib", "nan"],
    "gpu.memory_gib=inf": ["memory_gib", "inf"],
    "gpu.memory_gib=1e999": ["memory_gib", "1e999"],
    "gpu.memory_gib=64GB": ["memory_gib", "64GB"],
    "gpu.memory_gib=1;2;3": ["memory_gib"],
    "pcie.h2d_gb_per_s=3;2;1": ["h2d_gb_per_s"],
    "pcie.h2d_gb_per_s=1;2": ["h2d_gb_per_s"],
    "gpu.reserve_gib=65": ["--set gpu.reserve_gib=65: must be less than memory_gib, 64"],
    "host.reserve_gib=1024": ["--set host.reserve_gib=1024: must be less than memory_gib, 1024"],
    "gpu.peak_tflops=1": ["flat-test.ini: [gpu] achievable_tflops = 100", "peak_tflops, 1"],
    "node.gpus=2.5": ["gpus", "2.5"],
    "gpu.bf16=perhaps": ["bf16", "perhaps", "true"],
    "gpu.matmul_dim=": ["matmul_dim"],
    "gpu.matmul_dim=4;2": ["matmul_dim"],
    "nvme.duplex=3": ["duplex", "3"],
    "fabric.all_reduce_gb_per_s=400": ["all_reduce_gb_per_s", "needs start_us above 0"],
    "network.start_us=-1": ["start_us", "-1"],
    "nvme.mixed_read_gb_per_s=1": ["needs the rate of the other direction", "mixed_write_gb_per_s"],
}

CONFIGS = {  # name: (content, words)
    "empty.json": ("", ["empty.json"]),
    "cut.json": (json.dumps(CONFIG)[:60], ["cut.json"]),
    "list.json": ("[1, 2]", ["list.json"]),
    "noise.json": (b"\x00\xff\xfe{", ["noise.json"]),
    "comma.json": ('{\n"n_layer": 2 "n_embd": 12}', ["comma.json: line 2, column ", ": not JSON"]),
    "twice.json": ('{"model_type": "gpt2", "n_layer": 2, "n_layer": 3}', ["twice.json", "n_layer"]),
    "bert.json": ({"model_type": "bort", "hidden_size": 768}, [
        "bert.json: key \"model_type\": value \"bort\": must be one of `memwall list types`, such"
        " as bert or bart; "]),
    "no-type.json": ({"n_layer": 3}, ["no-type.json", "model_type"]),
    "no-layers.json": ({k: v for k, v in CONFIG.items() if k != "n_layer"},
                       ["no-layers.json", "n_layer", "missing"]),
    "negative.json": (CONFIG | {"n_layer": -3}, ["negative.json", "n_layer", "-3"]),
    "zero.json": (CONFIG | {"n_head": 0}, ["zero.json", "n_head", "0"]),
    "text.json": (CONFIG | {"n_embd": "wide"}, ["text.json", "n_embd", "wide"]),
    "half.json": (CONFIG | {"n_layer": 2.5}, ["half.json", "n_layer", "2.5"]),
    "huge.json": (json.dumps(CONFIG).replace("256", "1e999"), ["huge.json"]),
    "wide.json": (CONFIG | {"n_embd": 2 ** 62}, ["wide.json", "n_embd"]),
    "nan.json": (json.dumps(CONFIG).replace("256", "NaN"), ["nan.json"]),
    "heads.json": (CONFIG | {"n_head": 7}, ["heads.json", "7", "256"]),
    "groups.json": (LLAMA | {"num_key_value_heads": 3},
                    ["groups.json", "num_key_value_heads", "3"]),
    "many.json": (LLAMA | {"num_hidden_layers": 2 ** 40}, ["many.json", "num_hidden_layers"]),
    "method.json": (LLAMA | {"quantization_config": "gptq"},
                    ["method.json", "quantization_config", '"gptq"', "must be an object"]),
    "number.json": (LLAMA | {"quantization_config": {"quant_method": 5}},
                    ["number.json", "quantization_config", "quant_method", "5", "a string"]),
}

PROFILES = {  # name: (content, words)
    "empty.ini": ("", ["empty.ini"]),
    "noise.ini": (b"\xff\xfe\x00", ["noise.ini"]),
    "no-group.ini": ("gpus = 4\n", ["no-group.ini"]),
    "unknown.ini": (PROFILE.replace("launch_us = 0", "launch_ms = 0"),
                    ["unknown.ini", "launch_ms", "launch_us"]),
    "group.ini": (PROFILE + "\n[tpu]\ncores = 3\n", ["group.ini", "tpu"]),
    "missing.ini": (PROFILE.replace("peak_tflops = 200\n", ""), ["missing.ini", "peak_tflops"]),
    "negative.ini": (PROFILE.replace("memory_gib = 64", "memory_gib = -64"),
                     ["negative.ini", "memory_gib", "-64"]),
    "nan.ini": (PROFILE.replace("h2d_gb_per_s = 20", "h2d_gb_per_s = nan"),
                ["nan.ini", "h2d_gb_per_s", "nan"]),
    "unit.ini": (PROFILE.replace("memory_gib = 64", "memory_gib = 64 GB"),
                 ["unit.ini", "memory_gib", "64 GB"]),
    "calibrated.ini": (PROFILE.replace("[profile]", "[profile]\ncalibrated = true"),
                       ["calibrated.ini", "calibrated", "true", "YYYY-MM-DD"]),
    "itself.ini": ("[profile]\ninherits = itself\n", ["itself.ini", "inherits", "itself"]),
    "ring-a.ini": ("[profile]\ninherits = ring-b\n", ["inherits", "ring-"]),
    "orphan.ini": ("[profile]\ninherits = nobody\n", ["orphan.ini", "inherits", "nobody"]),
}

DEEPSPEED = {  # name: (content, words)
    "ds-cut.json": ('{"zero_optimization": {"stage": ', ["ds-cut.json"]),
    "ds-list.json": ("[]", ["ds-list.json"]),
    "ds-stage.json": ({"zero_optimization": {"stage": 7}}, ["ds-stage.json", "stage", "7"]),
    "ds-device.json": ({"zero_optimization": {"stage": 3, "offload_param": {"device": "disk"}}},
                       ["ds-device.json", "device", "disk"]),
    "ds-batch.json": ({"train_micro_batch_size_per_gpu": -1},
                      ["ds-batch.json", "train_micro_batch_size_per_gpu", "-1"]),
    "ds-sum.json": ({"train_batch_size": 33, "train_micro_batch_size_per_gpu": 4,
                     "gradient_accumulation_steps": 2},
                    ["ds-sum.json", "train_batch_size", "33", "must be 32", "4 data-parallel"]),
    "ds-part.json": ({"train_batch_size": 34}, ["ds-part.json", "train_batch_size", "34",
                                                "a multiple of 4"]),
}


NO_FILES = {  # name: words; -m looks into a folder
    "nothing": "",
    "folder": "",
    "pipe": "is a pipe that nobody writes to: must be ",
}


def wrong_files():
    for name, (_, words) in CONFIGS.items():
        yield f"-m {name}", f"simulate -m {name} -H flat-test", words
    for name, (_, words) in PROFILES.items():
        yield f"-H {name}", f"simulate -m gpt2 -H ./{name}", words
    for name, (_, words) in DEEPSPEED.items():
        yield f"--deepspeed {name}", f"simulate {FLAT} --deepspeed {name}", words
    yield ("--batch beside the file's",
           f"simulate {FLAT} --deepspeed ds-even.json --batch 3",
           ["ds-even.json", "train_batch_size", "64", "--batch 3 times 4 GPUs"])
    yield "-m missing.json", "simulate -m missing.json -H flat-test", ["missing.json"]
    yield "-H missing.ini", "simulate -m gpt2 -H missing.ini", ["missing.ini"]
    yield "--deepspeed missing.json", f"simulate {FLAT} --deepspeed missing.json", ["missing.json"]
    for name, words in NO_FILES.items():
        yield f"-m {name}.json", f"simulate -m {name}.json -H flat-test", [f"{name}.json", words]
        yield f"-H {name}.ini", f"simulate -m gpt2 -H {name}.ini", [f"{name}.ini: {words}"]
        yield f"PLANFILE {name}", f"simulate {name} -H flat-test", [f"{name}: {words}", "a plan"]
        yield (f"--deepspeed {name}", f"simulate {FLAT} --deepspeed {name}",
               [f"{name}: {words}", "DeepSpeed"])


def wrong_inputs():
    yield from wrong_options()
    for line, words in CONTRADICTIONS.items():
        yield line, line, words
    for assignment, words in SETS.items():
        yield (f"--set {assignment}", ["simulate", *shlex.split(FLAT), "--set", assignment], words)
    yield from wrong_files()


def make_files(box):
    for files in (CONFIGS, PROFILES, DEEPSPEED):
        for name, (content, _) in files.items():
            box.write(name, content)
    box.write("ring-b.ini", "[profile]\ninherits = ring-a\n")
    box.write("ds-even.json", {"train_batch_size": 64})
    box.write("empty", "")
    for suffix in ("", ".json", ".ini"):
        (box.folder / f"folder{suffix}").mkdir()
        os.mkfifo(box.folder / f"pipe{suffix}")
    (box.folder / "missing").mkdir()
    box.write("noise", bytes(range(256)) * 10)
    box.run(f"plan {FLAT} -s zero3 --batch 1 -o good.plan")
    good = (box.folder / "good.plan").read_text(encoding="utf-8")
    box.write("cut.plan", good[:len(good) // 2])
    box.write("slow.plan", make_slow(good))
    box.run(f"plan {FLAT} -s zero3 --batch 1 --nodes 2 -o network.plan")
    box.run("plan -m tiny -H rtx4090 -s zero-infinity-nvme --optimizer-device nvme -o nvme.plan")


def make_slow(text):
    """All compute works move as many bytes as a text can hold."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        words = line.split()
        if words[:1] == ["work"] and words[2] == "compute":
            words[words.index("bytes") + 1] = str(2 ** 63 - 1)
            lines[i] = " ".join(words)
    return "\n".join(lines)


def check_wrong(box, line, words):
    before = box.files()
    answer = box.run(line)
    if words is None:
        if answer.status not in (0, 2, 3) or len(answer.err.splitlines()) > 1:
            yield f"status {answer.status}: {answer.err.strip()}"
        return
    if answer.status != 2:
        yield f"status {answer.status}, expected 2"
    if answer.out:
        yield f"prints {answer.out[:60]!r}"
    usage = not words or "usage" in words
    if not usage and not re.fullmatch(r"memwall: [^\x00-\x1f\x7f-\x9f]*\n", answer.err):
        yield f"expected one line, got {answer.err!r}"
    for word in words:
        if word not in answer.err:
            yield f"{word!r} is not in {answer.err.strip()!r}"
    if box.files() != before:
        yield f"leaves {sorted(set(box.files()) ^ set(before))}"


LONG = "x y" * 10000
LONG_LINES = {  # as it is typed, or read from a file
    "a verb": [LONG],
    "an option": ["simulate", "--" + LONG],
    "a model": ["simulate", "-m", LONG],
    "a number": ["simulate", "-m", "gpt2", "-H", "dgx2", "--batch", LONG],
    "a key": ["simulate", "-m", "gpt2", "-H", "dgx2", "--set", LONG + "=1"],
    "a value of a profile": ["simulate", "-m", "gpt2", "-H", "long-value.ini"],
    "a line of a profile": ["simulate", "-m", "gpt2", "-H", "long-line.ini"],
}


def check_long(box, words):
    """It is not echoed whole."""
    box.write("long-value.ini", f"[gpu]\nmemory_gib = {LONG}\n")
    box.write("long-line.ini", f"[gpu]\n{LONG}\n")
    done = box.run(words)
    lines = done.err.splitlines()
    if done.status != 2 or len(lines) != 1 or not lines[0].startswith("memwall: ") or \
            not 20 < len(lines[0]) < 1100:
        yield f"status {done.status}, {len(done.err)} characters: {done.err[:300]!r}"


def tests(box):
    make_files(box)
    for name, line, words in sixth(wrong_inputs()):
        name = name.replace("#", "").replace("\n", "\\n").replace("\x1b", "\\x1b")
        yield f"wrong input: {name}", check_wrong(box, line, words)
    for what, words in LONG_LINES.items():
        yield f"long: {what}", check_long(box, words)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
