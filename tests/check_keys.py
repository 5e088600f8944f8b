#!/usr/bin/python3
"""Every numeric key of a hardware profile changes an answer; prints TAP.

The keys come from the reader's own table, hardware/keys.c, so a new one without effect
fails.  Each is set to another value than the profile below has, in steps of several kinds; some
figure of the JSON must change, of a key that carries time (one that takes a range) a figure of
speed.  EXCEPTIONS are the keys of which no answer can depend, each with its reason and what it does
instead.

The command is $MEMWALL, or build/cli/memwall.
"""
import os
import pathlib
import re
import subprocess
import sys

from command import answer_of, sample
from tap import report_in

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEMWALL = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve()
KEYS = ROOT / "hardware/keys.c"

PROFILE = """
[node]
gpus = 4
nodes_max = 4
price_usd_per_hour = 10
price_usd = 100000
amortisation_years = 4
electricity_usd_per_kwh = 0.2
power_w = 4000
[gpu]
memory_gib = 24
reserve_gib = 1
largest_request_gib = 20
memory_gb_per_s = 700
fp32_tflops = 20
peak_tflops = 200
achievable_tflops = 90; 100; 110
matmul_dim = 256; 4096
matmul_tflops = 40; 100
matmul_tflops_low = 30; 80
matmul_tflops_high = 45; 120
matmul_forward_share = 1.1; 1.05
matmul_input_share = 1; 1
matmul_weight_share = 0.9; 0.95
operator_gb_per_s = 600
layer_norm_gb_per_s = 300
rms_norm_gb_per_s = 320
activation_gb_per_s = 500
gated_gb_per_s = 510
rotary_gb_per_s = 250
loss_gb_per_s = 650
attention_dim = 200; 1000
attention_tflops = 30; 80
attention_tflops_low = 20; 60
attention_tflops_high = 35; 100
attention_forward_share = 0.9; 1; 1.1
attention_backward_share = 1; 1.1; 1.2
launch_us = 5
collective_sm_share = 0.2
host_sm_share = 0.4
copy_sm_share = 0.3
nvme_sm_share = 0.2
flash_attention = true
bf16 = true
[pcie]
h2d_gb_per_s = 20
d2h_gb_per_s = 18
node_h2d_gb_per_s = 40
node_d2h_gb_per_s = 36
latency_us = 10
[host]
memory_gib = 256
reserve_gib = 16
largest_request_gib = 100
memory_gb_per_s = 100
norm_gb_per_s = 80
exact_sums_gb_per_s = 40
checksum_gb_per_s = 4
update_gparams_per_s = 2
[nvme]
drives = 2
capacity_tb = 8
reserve_tb = 0.1
read_gb_per_s = 12
write_gb_per_s = 6
write_burst_gb_per_s = 10
cache_gb = 5
duplex = 1.2
latency_us = 100
queue_depth = 2
block_kib = 512
endurance_tbw = 1200
price_usd = 2000
[fabric]
gb_per_s = 50
latency_us = 5
[network]
gb_per_s = 10
latency_us = 20
"""

# The same machine, whose products go by tiles and attention by kernels instead of curves.
TILES = """architecture = ampere
multiprocessors = 108
tile_tflops = 110
tile_fill = 64
sustained_share = 0.9
tile_shares = 1; 0.9; 0.8; 0.7
fp8_tile_tflops = 200
fp8_tile_fill = 64
fp8_tile_shares = 1; 0.9; 0.8; 0.7
"""
TILED = re.sub(r"matmul_dim = .*\n", TILES,
               re.sub(r"(matmul_[tfiw]|attention_)\w* = .*\n", "", PROFILE))
TILE_KEYS = [f"gpu.{line.split(' = ')[0]}" for line in TILES.splitlines()]

# Values other than the profile's where twice or half of it is not allowed, or not another kind.
VALUES = {
    "gpu.matmul_dim": "128; 2048", "gpu.matmul_tflops": "20; 80",
    "gpu.matmul_tflops_low": "10; 20", "gpu.matmul_tflops_high": "60; 160",
    "gpu.attention_dim": "100; 500", "gpu.attention_tflops": "15; 40",
    "gpu.attention_tflops_low": "10; 20", "gpu.attention_tflops_high": "60; 160",
    "gpu.matmul_forward_share": "0.5; 0.6", "gpu.matmul_input_share": "0.5; 0.6",
    "gpu.matmul_weight_share": "0.5; 0.6", "gpu.attention_forward_share": "0.5; 0.6; 0.7",
    "gpu.attention_backward_share": "0.5; 0.6; 0.7",
    "gpu.achievable_tflops": "50", "gpu.flash_attention": "false", "gpu.bf16": "false",
    "gpu.memory_gib": "22", "host.memory_gib": "128",
    "gpu.largest_request_gib": "1", "host.largest_request_gib": "0.2", "nvme.duplex": "1.7",
    "gpu.architecture": "hopper", "gpu.multiprocessors": "54",
    "gpu.tile_shares": "1; 0.5; 0.5; 0.5", "gpu.fp8_tile_shares": "1; 0.5; 0.5; 0.5",
    "fabric.start_us": "30", "fabric.all_reduce_gb_per_s": "60", "network.start_us": "30",
    "network.gpu_gb_per_s": "1",
    "nvme.mixed_read_gb_per_s": "7", "nvme.mixed_write_gb_per_s": "5",
    "nvme.queue_depth": "1", "nvme.write_burst_gb_per_s": "20", "host.numa_nodes": "8",
}

# A step that moves all states over every link; one that the update on the CPU bounds; one bound by
# copies of a single GPU; one whose batch the memory decides; one in fp32; one of all-reduces in a
# node; one that makes exact sums.
SCENARIOS = [
    "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme --gradient-device nvme "
    "--activation-device cpu --nodes 2 --batch 2 --save-every 10 --what-if",
    "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme --activation-device nvme "
    "--gpus 1 --batch 2",
    "-s zero-offload --gpus 1 --batch 8",
    "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu",
    "-s zero1 --batch 1 --nodes 2",
    "-s zero-offload --batch 1 --gpus 1 --dtype fp32",
    "-s zero1 --batch 1 --nodes 1 --tp 2 --sequence-parallel off",
    "-s zero-offload --batch 2 --gpus 1 --optimizer adafactor",
]

# What is set beside a key where the profile says it in another way: both rates of mixed traffic
# take duplex's place, and a collective's start that of the one ring.
BESIDE = {
    "gpu.fp8_tile_tflops": ["software.products.fp8=true"],
    "gpu.fp8_tile_fill": ["software.products.fp8=true"],
    "gpu.fp8_tile_shares": ["software.products.fp8=true"],
    "fabric.start_us": ["fabric.start_us=6"],
    "fabric.all_reduce_gb_per_s": ["fabric.start_us=6", "fabric.latency_us=0.1",
                                   "fabric.all_reduce_gb_per_s=80"],
    "network.start_us": ["network.start_us=6"],
    "network.gpu_gb_per_s": ["network.gpu_gb_per_s=4"],
    "nvme.mixed_read_gb_per_s": ["nvme.mixed_write_gb_per_s=3", "nvme.mixed_read_gb_per_s=9"],
    "nvme.mixed_write_gb_per_s": ["nvme.mixed_read_gb_per_s=9", "nvme.mixed_write_gb_per_s=3"],
}

# Of another model than gpt3-1.3b.
MODELS = {f"gpu.{kind}_gb_per_s": "llama-3.2-1b" for kind in ("rms_norm", "gated", "rotary")}

# Key: an option that is refused at another value, and words of the refusal.
EXCEPTIONS = {
    # How many nodes can be had: no answer for some nodes depends on how many more there are.
    "node.nodes_max": ("1", "--nodes 2", "--nodes 2"),
}

# Of `advise --pay spot` alone, where tests/check_advise.py compares it with what it says.
ADVISED = {"node.spot_price_usd_per_hour"}

SPEED = ("step_time_s", "first_step_time_s", "efficiency", "range")


def numeric_keys():
    """(section.key, does it take a range) of every row that is not text."""
    text = re.sub(r"\s+", " ", KEYS.read_text(encoding="utf-8"))
    row = re.compile(r'\{"(\w+)", "(\w+)", .*?(true|false), (-?1|0), MW_VALUE_(\w+), AT\(\w+\), ')
    for group, key, _, better, _ in row.findall(text):
        yield f"{group}.{key}", better != "0"


class Machine:
    def __init__(self, folder, text=PROFILE):
        self.text = text
        self.folder = folder
        self.profile = pathlib.Path(folder) / ("keys.ini" if text == PROFILE else "tiled.ini")
        self.profile.write_text(text, encoding="utf-8")
        self.base = [self.answer(scenario) for scenario in SCENARIOS]

    def run(self, options, model="gpt3-1.3b"):
        line = [str(MEMWALL), "simulate", "-m", model, "-H", str(self.profile), "--seq",
                "1024", "--tokens", "1e9", "--json", *options]
        return subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def answer(self, scenario, *assignments, model="gpt3-1.3b"):
        """Without what says that a key was set, whatever it does."""
        sets = [word for a in assignments for word in ("--set", a)]
        done = self.run([*scenario.split(), *sets], model)
        if done.returncode not in (0, 3):
            return {"refused": done.stderr.decode(errors="replace").strip()}
        answer = answer_of(done.stdout)
        for key in ("provenance", "calibrated", "notes"):
            del answer[key]
        return answer


def other_value(key, profile):
    """Half the profile's."""
    if key in VALUES:
        return VALUES[key]
    section, name = key.split(".")
    text = profile[profile.index(f"[{section}]"):]
    return f"{float(re.search(rf'^{name} = ([0-9.]+)', text, re.M)[1]) / 2:g}"


def check_exception(machine, key):
    value, options, words = EXCEPTIONS[key]
    done = machine.run([*options.split(), "--set", f"{key}={value}"])
    if done.returncode != 2 or words not in done.stderr.decode():
        yield f"{key} = {value} with {options}: status {done.returncode}"


def check_key(machine, key, timed):
    """The key is given in the profile, and another value gives another answer."""
    changed = set()
    beside, model = BESIDE.get(key, []), MODELS.get(key, "gpt3-1.3b")
    for scenario, base in zip(SCENARIOS, machine.base):
        if beside or key in MODELS:
            base = machine.answer(scenario, *beside, model=model)
        answer = machine.answer(scenario, *beside, f"{key}={other_value(key, machine.text)}",
                                model=model)
        if "refused" in answer or "refused" in base:
            yield f"{scenario}: {answer.get('refused')}, {base.get('refused')}"
            continue
        # That a key was set is told of each.
        changed |= {name for name in answer
                    if name != "hardware_set" and answer[name] != base[name]}
    if not changed:
        yield f"{key} = {other_value(key, machine.text)} changes nothing"
    elif timed and not changed & set(SPEED):
        yield f"{key} = {other_value(key, machine.text)} changes {sorted(changed)}, and no speed"


def check_table(keys):
    """Nothing of the table is missed, and what is said of a key here is of one that is there."""
    text = KEYS.read_text(encoding="utf-8")
    if len(keys) != len(re.findall(r"AT\(\w+\),\s", text)):
        yield f"{len(keys)} rows read of {len(re.findall(r'AT[(]', text))}"
    for key in (*VALUES, *BESIDE, *MODELS, *EXCEPTIONS, *ADVISED):
        if key not in keys:
            yield f"{key} is no key"


def tests(machine):
    keys = dict(numeric_keys())
    tiled = Machine(machine.folder, TILED)
    yield "table", check_table(keys)
    for key, timed in sample(list(keys.items())):
        if key in EXCEPTIONS:
            yield f"{key}: refuses", check_exception(machine, key)
        elif key not in ADVISED:
            yield key, check_key(tiled if key in TILE_KEYS else machine, key, timed)


if __name__ == "__main__":
    sys.exit(report_in(Machine, tests))
