#!/usr/bin/python3
"""The memwall command from outside: texts, exit statuses, wrong input; prints TAP.

golden       tests/golden/cli-NAME.txt holds a command and all that it printed.  With
             MW_UPDATE_GOLDEN=1 they are written anew.
wrong input  exit 2 and one line on standard error that names file or option, key, value and what
             is accepted; nothing on standard output, no file left behind.
unwritable   exit 1 and one line that names the path.
twice        the same call gives the same bytes.
json         keys, provenance, and terms that add up.

The command is $MEMWALL, or build/cli/memwall.
"""
import csv
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from tap import report_in

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEMWALL = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve()
GOLDEN = ROOT / "tests/golden"
FLAT = "-m gpt2-xl -H flat-test"
SIMULATE = f"simulate {FLAT} -s zero3 --batch 1"

CONFIG = {"model_type": "gpt2", "n_layer": 4, "n_embd": 256, "n_head": 8, "n_positions": 1024,
          "vocab_size": 1000}
LLAMA = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256,
         "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 512,
         "vocab_size": 1000, "max_position_embeddings": 1024}
PROFILE = (ROOT / "hwprofiles/flat-test.ini").read_text(encoding="utf-8")


class Answer:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


class Box:
    """A folder of its own, with nothing of the user's."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = dict(os.environ, LC_ALL="C.UTF-8", COLUMNS="100", HOME=str(self.folder),
                                CUDA_VISIBLE_DEVICES="",  # all runs are on cores
                                XDG_CONFIG_HOME=str(self.folder / "config"),
                                XDG_STATE_HOME=str(self.folder / "state"))

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            content = json.dumps(content)
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)

    def run(self, line, stdout=subprocess.PIPE, **environment):
        words = shlex.split(line) if isinstance(line, str) else line
        done = subprocess.run([str(MEMWALL), *words], cwd=self.folder,
                              env={**self.environment, **environment},
                              stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                              timeout=300, check=False)
        return Answer(done.returncode, done.stdout, done.stderr.decode(errors="replace"))

    def files(self):
        return sorted(str(path) for path in self.folder.rglob("*") if path.is_file())


# --- golden --------------------------------------------------------------------------------------

GOLDENS = {
    "help": "--help",
    "plan-help": "plan --help",
    "simulate-help": "simulate --help",
    "run-help": "help run",
    "calibrate-help": "help calibrate",
    "list-help": "help list",
    "strategies": "list strategies",
    "model": "list models gpt2-xl",
    "plan": f"plan {FLAT} -s zero-infinity-nvme --batch 8 --tiles 2 --param-device cpu:1GB,nvme "
            "--optimizer-device nvme",
    "plan-json": f"plan {FLAT} -s zero-offload --batch 2 --json",
    "largest": f"plan {FLAT} --largest",
    "simulate": f"simulate {FLAT} -s zero-infinity-nvme --batch 4 --grad-accum 2 --tokens 1e9 "
                "--param-device cpu --optimizer-device nvme --activation-device cpu",
    "simulate-json": "simulate -m gpt3-1.3b -H flat-test -s zero-infinity-cpu --batch 4 --nodes 2 "
                     "--tp 2 --optimizer-device cpu --json",
    "what-if": f"{SIMULATE} --what-if",
    "several": f"simulate {FLAT} -s ddp,zero2,zero3,zero-infinity-nvme --batch 2",
    "several-csv": f"simulate {FLAT} -s ddp,zero2,zero3,zero-infinity-nvme --batch 2 --csv",
    "refused": "simulate -m gpt3-175b -H flat-test -s zero2 --batch 1",
    "refused-json": "simulate -m gpt3-175b -H flat-test -s zero3 --batch 16 --json",
}


def check_help(box):
    """Every verb's help fits 80 columns, and both ways to it say the same."""
    overview = box.run("help").out.decode()
    verbs = re.findall(r"^  ([a-z]+) ", overview.split("[OPTION...]")[1], re.MULTILINE)
    if len(set(verbs) - {"memwall"}) < 6:
        yield f"verbs {verbs}"
    helps = {verb: box.run(f"help {verb}") for verb in verbs if verb != "memwall"}
    for verb, answer in helps.items():
        if answer.status != 0 or answer.out != box.run(f"{verb} --help").out:
            yield f"help {verb} is not {verb} --help"
        if f"usage: memwall {verb}" not in answer.out.decode():
            yield f"help {verb}: no usage"
    for text in [overview, *(answer.out.decode() for answer in helps.values())]:
        for line in text.splitlines():
            if len(line) > 80:
                yield f"{len(line)} columns: {line}"


def check_tokens(box):
    """What is printed of tokens is read."""
    line = f"simulate {FLAT} -s zero2 --batch 2 --json --tokens "
    for short, long in (("15T", "1.5e13"), ("1.5M", "1500000"), ("2B", "2e9"), ("300k", "3e5")):
        if json.loads(box.run(line + short).out) != json.loads(box.run(line + long).out):
            yield f"--tokens {short} is not --tokens {long}"
    text = box.run(f"simulate {FLAT} -s zero2 --batch 2 --tokens 1B").out.decode()
    if not re.search(r"^training +1B tokens in [0-9.]+ (minute|hour|day|year)s?\b", text, re.M):
        yield f"no duration: {text}"


def check_golden(box, name, line):
    answer = box.run(line)
    text = f"$ memwall {line}\n{answer.out.decode()}{answer.err}[exit status {answer.status}]\n"
    path = GOLDEN / f"cli-{name}.txt"
    if os.environ.get("MW_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
        return
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    new = text.splitlines()
    for number, (expected, got) in enumerate(zip(old + [None] * len(new), new + [None] * len(old))):
        if expected != got:
            yield f"{path.name}:{number + 1}: expected {expected!r}"
            yield f"{path.name}:{number + 1}: got      {got!r}"
            yield "MW_UPDATE_GOLDEN=1 writes it anew"
            return


# --- wrong input ---------------------------------------------------------------------------------


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
                   [f"--{option}", value, "accepted"])
    for option, accepted in [("partition", "bandwidth or owner"), ("overlap", "on or off"),
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
    "nonsense": ["nonsense", "list, plan, simulate, run, compare, calibrate, export, rm"],
    "list": ["usage"],
    "list cats": ["usage"],
    "list models gpt9": ["gpt9", "no such preset"],
    "list models gpt2 extra": ["usage"],
    "list devices cuda": ["usage"],
    "list models gpt2 --json extra": ["usage"],
    "list hwprofiles dgx2 --json": ["usage"],
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
    "simulate --mdoel gpt2": ["--mdoel", "did you mean --model?"],
    "simulat -m gpt2": ["unknown verb", "did you mean simulate?"],
    "frobnicate": ["unknown verb", "simulate", "calibrate", "help"],
    "help simulat": ["unknown verb", "did you mean simulate?"],
    "help plan run": ["help", "run"],
    "list model": ["did you mean models?"],
    "simulate -m gpt2 -H flat-test -s zero-3": ["zero-3", "did you mean zero3?"],
    "simulate -m gpt2 -H flat-test --tokens 15X": ["--tokens 15X", "15T"],
    "simulate -m gpt2 -H flat-test --tokens 15TT": ["--tokens 15TT", "15T"],
    "simulate -m gpt2 -H flat-test --batch 1k": ["--batch 1k"],
    "simulate -m gpt9 -H flat-test": ["gpt9", "list models"],
    "simulate -m '' -H flat-test": ["model"],
    "simulate -m gpt2 -H ''": ["profile"],
    "simulate -m gpt2 -H dgx9": ["dgx9"],
    "simulate -m gpt2 -H flat-test --gpus 5":
        ["--gpus 5: a node of the profile has 4 GPUs; give 1 to 4, and --nodes for more"],
    "simulate -m gpt2 -H flat-test --nodes 17":
        ["--nodes 17: the profile has 16 nodes; give 1 to 16"],
    "simulate -m gpt2 -H rtx4090 --gpus 2":
        ["--gpus 2: a node of the profile has 1 GPU; give 1\n"],
    "simulate -m gpt2 -H dgx2 --set node.nodes_max=1 --nodes 2":
        ["--nodes 2: the profile has 1 node; give 1\n"],
    "simulate -m gpt2 -H rtx4090 --nodes 2": ["--nodes 2", "network"],
    "simulate -m gpt2 -H flat-test --tp 3": ["tp", "3", "divide"],
    "simulate -m gpt2-xl -H flat-test --tp 4": ["tp", "4", "divide", "25"],
    "simulate -m llama-3-8b -H flat-test --nodes 16 --tp 64": ["tp", "64", "divide", "32"],
    "simulate -m gpt2 -H flat-test --batch 0.3": ["--batch 0.3", "whole number"],
    "simulate -m gpt2 -H flat-test --seq 2048": ["seq", "2048", "1024"],
    "simulate -m gpt2 -H flat-test --global-batch 7": ["--global-batch 7"],
    "simulate -m gpt2 -H flat-test --global-batch 64 --batch 3": ["--global-batch 64"],
    "simulate -m gpt2 -H flat-test --global-batch 64 --grad-accum 3": ["--global-batch 64"],
    "simulate -m gpt2 -H flat-test -s ddp --param-device cpu": ["--param-device", "ddp"],
    "simulate -m gpt2 -H flat-test -s zero1 --optimizer-device cpu":
        ["--optimizer-device", "zero1"],
    "simulate -m gpt2 -H flat-test -s zero-offload --optimizer-device gpu":
        ["--optimizer-device gpu", "zero2"],
    "simulate -m gpt2 -H flat-test -s zero3 --dpu-start 4": ["--dpu-start", "zero-offload"],
    "simulate -m gpt2 -H flat-test --activation-checkpoint-interval 0 --param-loads 2":
        ["--param-loads 2", "--activation-checkpoint-interval 0"],
    "simulate -m gpt2 -H flat-test -s zero3 --batch 1 --optimizer-chunk 1":
        ["--optimizer-chunk 1", "at least"],
    "simulate -m gpt2-xl -H flat-test -s zero3 --batch 1 --tiles 4096 --grad-accum 4096":
        ["--tiles 4096", "--grad-accum 4096", "more than 500000"],
    "simulate -m gpt3-175b -H flat-test --batch 1000000 --seq 2048": None,  # does not fit
    "simulate -m llama-3.1-405b -H flat-test --batch 1000000 --seq 16777216": ["batch", "64 bits"],
    "simulate -m gpt2 -H flat-test --json --csv": ["--json", "--csv"],
    "simulate -m gpt2 -H flat-test --largest": ["--largest", "plan"],
    "plan -m gpt2 -H flat-test --trace t.json": ["--trace", "simulate"],
    "plan -m gpt2 -H flat-test --plot t.png": ["--plot", "simulate"],
    "plan -m gpt2 -H flat-test --what-if": ["--what-if", "simulate"],
    "plan -m gpt2 -H flat-test --largest -o plan.txt": ["--largest", "-o"],
    "plan -m gpt2 -H flat-test plan.txt": ["plan.txt"],
    "simulate -m gpt2 -H flat-test --plot picture.jpg": ["--plot picture.jpg", ".png or .svg"],
    "simulate -m gpt2 -H flat-test -s ddp,zero3 --trace t.json": ["--trace", "one strategy"],
    "simulate -m gpt2 -H flat-test -s ddp,zero3 -o plan.txt": ["-o", "one strategy"],
    "simulate -m gpt2 -H flat-test -s ddp,zero3 --what-if": ["--what-if", "one strategy"],
    "simulate -m gpt2 -H flat-test --what-if --csv": ["--what-if", "--csv"],
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
    "simulate -H flat-test empty": ["empty"],
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
    "cpu.memory_gib=4": ["cpu"],
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
}

CONFIGS = {  # name: (content, words)
    "empty.json": ("", ["empty.json"]),
    "cut.json": (json.dumps(CONFIG)[:60], ["cut.json"]),
    "list.json": ("[1, 2]", ["list.json"]),
    "noise.json": (b"\x00\xff\xfe{", ["noise.json"]),
    "twice.json": ('{"model_type": "gpt2", "n_layer": 2, "n_layer": 3}', ["twice.json", "n_layer"]),
    "bert.json": ({"model_type": "bert", "hidden_size": 768}, ["bert.json", "bert", "gpt2"]),
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
    """All compute works have all the FLOPs that a text can hold."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        words = line.split()
        if words[:1] == ["work"] and words[2] == "compute":
            words[words.index("flops") + 1] = words[words.index("bytes") + 1] = str(2 ** 63 - 1)
            words[words.index("max") + 1] = str(2 ** 63 - 1)
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


# --- files that cannot be written, standard output that cannot -----------------------------------

UNWRITABLE = ["-o", "--trace", "--plot", "--write-deepspeed"]


def check_unwritable(box, option, path):
    before = box.files()
    if option == "--plot" and not path.endswith(".svg"):
        path += ".svg"
    answer = box.run(f"{SIMULATE} {option} {path}")
    if answer.status != 1:
        yield f"status {answer.status}, expected 1"
    if answer.err.count("\n") != 1 or path.split("/")[1] not in answer.err:
        yield f"expected one line naming {path}, got {answer.err!r}"
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


def check_full(box, line):
    with open("/dev/full", "wb") as full:
        answer = box.run(line, stdout=full)
    if answer.status != 1 or answer.err.count("\n") != 1 or "standard output" not in answer.err:
        yield f"status {answer.status}, {answer.err!r}"


def check_kept(box, option):
    """A file that is there stays as it was when its successor cannot be written."""
    folder = box.folder / "kept"
    name = "old.svg" if option == "--plot" else "old"
    box.write(f"kept/{name}", "old")
    os.chmod(folder / name, 0o444)
    os.chmod(folder, 0o555)
    answer = box.run(f"{SIMULATE} {option} kept/{name}")
    os.chmod(folder, 0o755)
    os.chmod(folder / name, 0o644)
    if os.getuid() == 0:
        return  # root writes anything
    if answer.status != 1 or (folder / name).read_text() != "old":
        yield f"status {answer.status}, {(folder / name).read_text()[:20]!r}"


def check_unfit(box):
    """What does not fit leaves no file, and says so."""
    before = box.files()
    answer = box.run("simulate -m gpt3-175b -H flat-test -s zero2 --batch 1 -o unfit.plan "
                     "--trace unfit.json --plot unfit.svg --write-deepspeed unfit.ds")
    if answer.status != 3:
        yield f"status {answer.status}, expected 3"
    for name in ("unfit.plan", "unfit.json", "unfit.svg", "unfit.ds"):
        if f"{name}: not written" not in answer.err:
            yield f"nothing said of {name}: {answer.err!r}"
    if box.files() != before:
        yield f"leaves {sorted(set(box.files()) - set(before))}"


IDLE = {  # request: what its notes must say is idle
    "-s zero2 --prefetch 3 --param-loads 2 --partition owner --commit step":
        ["--prefetch", "--param-loads", "--partition", "--commit step"],
    "-s zero3 --prefetch 3 --param-loads 2 --partition owner": [],
    "-s zero-infinity-nvme --optimizer-device nvme --commit step": [],
}


def check_idle(box, options, names):
    """A setting that nothing follows is said to be one."""
    notes = json.loads(box.run(f"simulate {FLAT} --batch 1 {options} --json").out)["notes"]
    if len(notes) != len(names):
        yield f"notes {notes}"
    for name, note in zip(names, notes):
        if not note.startswith(name + " "):
            yield f"{note!r} is not of {name}"


def check_deepspeed_batch(box):
    """A file counts the micro-batch for each replica, which the options make of --tp GPUs."""
    box.write("ds-micro.json", {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4})
    for options, expected in (("", (4, 4)), ("--tp 2", (2, 8)), ("--gpus 2", (4, 8)),
                              ("--batch 8", (8, 2))):
        line = f"simulate -m gpt2 -H flat-test -s zero1 --deepspeed ds-micro.json {options} --json"
        settings = json.loads(box.run(line).out)["settings"]
        if (settings["micro_batch"], settings["grad_accum"]) != expected:
            yield f"{options}: {settings['micro_batch']} times {settings['grad_accum']}"


def check_deepspeed_format(box):
    """The file's 16-bit format is the plan's and that of the file that is written for it."""
    for hardware, asked, planned in (("dgx-h100", "fp16", "fp16"), ("dgx-h100", "bf16", "bf16"),
                                     ("dgx-h100", None, "bf16"), ("dgx2", "fp16", "fp16"),
                                     ("dgx2", "bf16", "fp16"), ("dgx2", None, "fp16")):
        box.write("ds-format.json", {asked: {"enabled": True}} if asked else {})
        answer = json.loads(box.run(f"simulate -m gpt2 -H {hardware} -s zero2 --batch 1 --json "
                                    "--deepspeed ds-format.json --write-deepspeed ds-new.json").out)
        written = json.loads((box.folder / "ds-new.json").read_text(encoding="utf-8"))
        said = [note for note in answer["notes"] if note.startswith("bf16")]
        if answer["settings"]["dtype"] != planned or planned not in written:
            yield f"{hardware}, {asked}: {answer['settings']['dtype']}, written {list(written)}"
        if bool(said) != (asked == "bf16" != planned):
            yield f"{hardware}, {asked}: notes {answer['notes']}"


def check_plan_file(box):
    """A plan file says what the request said that it was made for, but what takes the model."""
    line = f"{FLAT} -s zero-infinity-nvme --optimizer-device nvme --batch 4"
    box.run(f"plan {line} -o state.plan")
    asked = json.loads(box.run(f"simulate {line} --json").out)
    answer = box.run("simulate -H flat-test state.plan --json --trace state.json")
    read = json.loads(answer.out)
    for key in ("plan", "feasible", "step_time_s", "first_step_time_s", "critical_path_s", "range",
                "bottleneck", "lanes", "channels", "phases", "peak_bytes", "tiers", "ledger",
                "nvme_written_bytes", "drive_life_steps", "provenance"):
        if read[key] != asked[key]:
            yield f"{key}: {read[key]}, asked {asked[key]}"
    for key in ("model", "strategy", "tokens_per_s", "tflops_per_gpu", "mfu", "days"):
        if read[key] is not None:
            yield f"{key}: {read[key]}, which a plan does not say"
    if "traceEvents" not in json.loads((box.folder / "state.json").read_text(encoding="utf-8")):
        yield "no trace"
    for options in ("--set gpu.memory_gib=1.3", "--set nvme.capacity_tb=0"):
        answer = box.run(f"simulate -H flat-test state.plan --json {options}")
        if answer.status != 3 or json.loads(answer.out)["feasible"]:
            yield f"{options}: status {answer.status}, expected 3"


def check_list_model(box, name):
    """Operators add up to the model; blocks alone are recomputed; the paper's count is near."""
    model = json.loads(box.run(f"list models {name} --json").out)
    rows = {row["operator"]: row for row in model["operators"]}
    total = {key: sum(row[key] for row in rows.values()) for key in next(iter(rows.values()))
             if key != "operator"}
    if total["params"] != model["params"]:
        yield f"operators have {total['params']} parameters, the model {model['params']}"
    for row in rows.values():
        if row["recompute_flops"] != (row["forward_flops"] if row["layers"] else 0):
            yield f"recompute of {row}"
        if row["operator"] != "attention" and row["backward_flops"] != 2 * row["forward_flops"]:
            yield f"backward of {row}"
    if model["paper_flops"] != 8 * model["paper_params"] * model["seq"]:
        yield f"paper_flops {model['paper_flops']}"
    paper = sum(rows[name][key] for name in ("qkv", "projection", "mlp-up", "mlp-down")
                for key in ("forward_flops", "backward_flops", "recompute_flops"))
    if model["architecture"] == "gpt2" and paper != model["paper_flops"]:
        yield f"products of the blocks take {paper}, the paper counts {model['paper_flops']}"


# --- the same bytes, and what they say -----------------------------------------------------------


def check_twice(box, line, names):
    def once(folder):
        (box.folder / folder).mkdir(exist_ok=True)
        answer = box.run(line.replace("DIR", folder))
        files = {name: (box.folder / folder / name).read_bytes() for name in names}
        return answer.status, answer.out, files

    first, second = once("first"), once("second")
    if first[0] != 0:
        yield f"status {first[0]}"
    if first != second:
        yield "two runs differ"
    for name, content in first[2].items():
        if not content:
            yield f"{name} is empty"


KEYS = ["feasible", "limiting_tier", "short_bytes", "step_time_s", "first_step_time_s",
        "tflops_per_gpu", "efficiency", "mfu", "tokens_per_s", "bottleneck", "peak_bytes", "lanes",
        "closed_form", "nvme_written_bytes", "drive_life_steps", "provenance", "days", "cost_usd",
        "energy_kwh"]


def check_json(box):
    line = f"simulate {FLAT} -s zero-infinity-nvme --optimizer-device nvme --batch 4 --tokens 1e9"
    answer = json.loads(box.run(line + " --json").out)
    for key in KEYS:
        if key not in answer:
            yield f"no {key}"
    if set(answer["peak_bytes"]) != {"gpu", "cpu", "nvme"}:
        yield f"peak_bytes {answer['peak_bytes']}"
    if not all({"name", "busy_s", "exposed_s"} <= set(lane) for lane in answer["lanes"]):
        yield "lanes lack something"
    form = answer["closed_form"]
    listed = sum(term["paper_s"] - term["plan_s"] for term in answer["terms"])
    if abs(listed - (form["paper"] - form["plan"])) > 1e-9 * form["plan"]:
        yield f"terms differ by {listed}, the forms by {form['paper'] - form['plan']}"
    row = next(csv.DictReader(io.StringIO(box.run(line + " --csv").out.decode())))
    for key in ("step_time_s", "nvme_written_bytes", "provenance"):
        if str(answer[key]) != row[key] and float(answer[key]) != float(row[key]):
            yield f"{key}: JSON {answer[key]}, CSV {row[key]}"


def check_efficiency(box):
    """A share of what can be had, at both ends too, where attention is nearly all of the FLOPs."""
    for line in ("-H dgx-h100 --seq 131072", "-H a100 --seq 131072", "-H gh200 --seq 131072",
                 "-H dgx-h100 --set gpu.memory_gib=4000 --seq 1048576", "-H flat-test --seq 32768"):
        answer = json.loads(box.run(f"simulate -m llama-3.1-8b {line} --batch 1 --json").out)
        ends = answer.get("range", {}).get("efficiency", {"high": 0})
        if not answer["feasible"]:
            yield f"{line}: does not fit"
        elif not 0.5 < answer["efficiency"] < 1 + 1e-6 or ends["high"] > 1 + 1e-6:
            yield f"{line}: efficiency {answer['efficiency']}, at best {ends['high']}"


def check_cost(box):
    """Rent where it is known, else the owner's share of the price; electricity where known."""
    def ask(*sets):
        line = f"simulate {FLAT} -s zero3 --batch 1 --nodes 2 --tokens 1e9 --json"
        return json.loads(box.run(line + "".join(f" --set node.{s}" for s in sets)).out)

    answer = ask()
    rent, share = answer["days"] * 24 * 10 * 2, 100000 * 2 * answer["days"] / (365.25 * 5)
    energy = answer["energy_kwh"] * 0.25
    for sets, basis, cost, owned, source in (
            ((), "rent", rent, share, "default"),
            (("price_usd_per_hour=0",), "owned", share, share, "default"),
            (("price_usd=0",), "rent", rent, None, None),
            (("price_usd=0", "price_usd_per_hour=0"), None, None, None, None),
            (("amortisation_years=2.5", "electricity_usd_per_kwh=0.25"), "rent", rent,
             2 * share + energy, "user"),
            (("electricity_usd_per_kwh=0.25", "power_w=0"), "rent", rent, share, "default")):
        answer = ask(*sets)
        mine = answer["owned_cost"] or {"usd": None, "amortisation_provenance": None}
        for name, got, expected in (("cost", answer["cost_usd"], cost),
                                    ("owned", mine["usd"], owned)):
            if (got is None) != (expected is None) or got and abs(got / expected - 1) > 1e-9:
                yield f"{sets}: {name} {got}, expected {expected}"
        if (answer["cost_basis"], mine["amortisation_provenance"]) != (basis, source):
            yield f"{sets}: {answer['cost_basis']}, {mine}"
    text = box.run(f"simulate {FLAT} -s zero3 --batch 1 --tokens 1e9").out.decode()
    for words in ("USD of rent",
                  "100k USD a node over 5 years (default); no price of electricity known"):
        if words not in text:
            yield f"no {words!r}"


def check_delay(box):
    """Steps before --dpu-start are not delayed: neither in the run's days and energy nor alone."""
    def ask(options):
        line = ("simulate -m zo-2b -H dgx2 --gpus 1 -s zero-offload --optimizer-device nvme "
                "--activation-checkpoint-interval 1 "
                "--batch 1 --seq 1024 --set nvme.endurance_tbw=1000 --tokens 1024e3 --commit none "
                f"{options}")
        return (json.loads(box.run(f"{line} --json").out), box.run(line).out.decode())

    plain, _ = ask("")
    delayed, _ = ask("--dpu-start 0")
    gain = plain["step_time_s"] - delayed["step_time_s"]
    if not gain > 0 or delayed["first_step_time_s"] >= plain["first_step_time_s"]:
        yield f"delayed {delayed['step_time_s']} s, at once {plain['step_time_s']} s"
    for start in (0, 1, 400, 999):
        answer, text = ask(f"--dpu-start {start}")
        days = (1000 * delayed["step_time_s"] + start * gain) / 86400
        if abs(answer["days"] / days - 1) > 1e-9:
            yield f"--dpu-start {start}: {answer['days']} days, expected {days}"
        power = [each["energy_kwh"] / each["days"] for each in (answer, plain)]
        if abs(power[0] / power[1] - 1) > 1e-9:
            yield f"--dpu-start {start}: {answer['energy_kwh']} kWh"
        first = (plain if start else delayed)["first_step_time_s"]
        if (answer["step_time_s"], answer["first_step_time_s"]) != (delayed["step_time_s"], first):
            yield f"--dpu-start {start}: first step {answer['first_step_time_s']} s"
        if answer["drive_life_steps"] != plain["drive_life_steps"]:
            yield f"--dpu-start {start}: drives live {answer['drive_life_steps']} steps"
        if ("before the delay" in text) != (start > 0):
            yield f"--dpu-start {start}: {text}"
    for start in (1000, 1001, 10 ** 9):
        answer, _ = ask(f"--dpu-start {start}")
        for key in ("step_time_s", "first_step_time_s", "days", "energy_kwh", "peak_bytes"):
            if answer[key] != plain[key]:
                yield f"--dpu-start {start}: {key} {answer[key]}, expected {plain[key]}"
        if not any(note.startswith("--dpu-start changes nothing") for note in answer["notes"]):
            yield f"--dpu-start {start}: {answer['notes']}"


def check_lists(box):
    """--json lists what the table lists, under the key that asks for it."""
    for what, key in (("models", "model"), ("hwprofiles", "hardware"), ("strategies", "strategy")):
        rows = box.run(f"list {what}").out.decode().splitlines()
        heading = what != "strategies"
        names = [row.split()[0] for row in rows[heading:]]
        if [row[key] for row in json.loads(box.run(f"list {what} --json").out)] != names:
            yield f"{what}: the array is not the table"


def check_devices(box):
    """What is here is described, what is not says why; the table has what the array has."""
    rows = json.loads(box.run("list devices --json").out)
    table = box.run("list devices").out.decode().split("\n\n")[0].splitlines()[1:]
    if [row["backend"] for row in rows] != [row.split()[0] for row in table]:
        yield f"the array is not the table: {rows}"
    for row, line in zip(rows, table):
        if row.get("name", row.get("why", "nothing")) not in line:
            yield f"{row}: the table has {line}"
    here = {row["backend"]: row for row in rows}
    if here["cpu"].get("memory_bytes", 0) <= 0 or "core" not in here["cpu"].get("name", ""):
        yield f"cpu: {here['cpu']}"
    if "why" not in here["null"] or "why" not in here.get("cuda", {"why": "not built in"}):
        yield f"a device where none is: {rows}"


def check_instruction_sets(box):
    """All are listed, each can be forced, and no other."""
    cpu = next(row for row in json.loads(box.run("list devices --json").out)
               if row["backend"] == "cpu")
    names = cpu["instruction_sets"]
    if names[0] != "generic" or cpu["instruction_set"] != os.environ.get("MEMWALL_ISA", names[-1]):
        yield f"{cpu}"
    for name in names:
        done = box.run("list devices", MEMWALL_ISA=name)
        if f"\ninstruction sets of the cores: {', '.join(names)}; in use: {name}, as MEMWALL_ISA " \
                not in done.out.decode():
            yield f"{name}: {done.out.decode()}"
    done = box.run("list devices", MEMWALL_ISA="mmx")
    if done.status != 2 or done.out or \
            not done.err.startswith("memwall: MEMWALL_ISA: value mmx: must be one of "
                                             f"{', '.join(names)}, which"):
        yield f"status {done.status}: {done.err}"


def check_calibrated(box):
    """Only a profile that was measured as a whole makes a prediction without a caution."""
    measured = re.sub(r"^(\w+) = .*$", r"\g<0>\n\1.source = measured: 2026-11-21, spread 2%",
                      PROFILE, flags=re.M)
    measured = re.sub(r"^description.source.*\n", "", measured, flags=re.M)
    calibrated = measured.replace("[profile]\n", "[profile]\ncalibrated = 2026-11-21\n")
    box.write("whole.ini", calibrated)
    box.write("undated.ini", measured)
    box.write("part.ini", calibrated.replace("h2d_gb_per_s.source = measured",
                                             "h2d_gb_per_s.source = datasheet"))
    box.write("child.ini", "[profile]\ninherits = whole.ini\n")
    for options, expected in (("-H whole.ini", True), ("-H undated.ini", False),
                              ("-H part.ini", False), ("-H child.ini", False),
                              ("-H whole.ini --set pcie.h2d_gb_per_s=21", False)):
        line = f"simulate -m gpt2 -s zero3 --batch 1 {options}"
        box.run(f"plan -m gpt2 -s zero3 --batch 1 {options} -o calibrated.plan")
        for one in (line, f"simulate calibrated.plan {options}"):
            answer, text = json.loads(box.run(f"{one} --json").out), box.run(one).out.decode()
            if answer["calibrated"] != expected or ("caution" in text) == expected:
                yield f"{one}: calibrated {answer['calibrated']}"
            if expected and answer["provenance"] != "measured":
                yield f"{one}: provenance {answer['provenance']}"
        text = box.run(line.replace("zero3", "zero3,zero2")).out.decode()
        if ("not measured on this machine" in text) == expected:
            yield f"{options}: two strategies"


def check_provenance(box):
    """A figure that is not measured here is never shown as if it were."""
    for hardware in ("flat-test", "dgx2", "rtx4090", "gh200"):
        line = f"simulate -m gpt2 -H {hardware} --batch 1"
        said = json.loads(box.run(line + " --json").out)["provenance"]
        text = box.run(line).out.decode()
        if said == "measured":
            yield f"{hardware}: says measured"
        caution = [row for row in text.splitlines() if row.startswith("caution")]
        if len(caution) != 1 or "not measured on this machine" not in caution[0]:
            yield f"{hardware}: caution {caution}"
    line = "simulate -m gpt2 -H flat-test --batch 1 --set pcie.h2d_gb_per_s=30 --json"
    if json.loads(box.run(line).out)["provenance"] not in ("user", "estimate"):
        yield "--set is not said"


# --- all -----------------------------------------------------------------------------------------


def commands(box):
    for name, line in GOLDENS.items():
        yield f"golden: {name}", check_golden(box, name, line)
    for name, line, words in wrong_inputs():
        yield f"wrong input: {name}", check_wrong(box, line, words)
    for option in UNWRITABLE:
        yield f"unwritable: {option} /nonexistent", check_unwritable(box, option,
                                                                     "/nonexistent/dir/file")
        if option != "--plot":
            yield f"unwritable: {option} /dev/full", check_unwritable(box, option, "/dev/full")
        yield f"kept: {option}", check_kept(box, option)
    for line in ("list models", "list models tiny", "list hwprofiles", "list hwprofiles dgx2",
                 "list strategies", "list devices", "--help", "--version", "plan --help",
                 f"plan {FLAT} --largest", SIMULATE, f"{SIMULATE} --json", f"{SIMULATE} --csv",
                 "simulate -H flat-test good.plan"):
        yield f"full standard output: {line}", check_full(box, line)
    for what, words in LONG_LINES.items():
        yield f"long: {what}", check_long(box, words)
    yield "help", check_help(box)
    yield "tokens", check_tokens(box)
    yield "unfit", check_unfit(box)
    yield "plan file", check_plan_file(box)
    for name in ("tiny", "gpt3-175b", "zi-1t", "llama-3-70b", "gemma-2-9b", "opt-350m",
                 "deepseek-v3"):
        yield f"list models {name}", check_list_model(box, name)
    yield "DeepSpeed batch", check_deepspeed_batch(box)
    yield "DeepSpeed format", check_deepspeed_format(box)
    for options, names in IDLE.items():
        yield f"idle: {options}", check_idle(box, options, names)
    yield "invariant-2: --json twice", check_twice(box, f"{SIMULATE} --json", [])
    yield "invariant-2: --csv twice", check_twice(box, f"{SIMULATE} --csv", [])
    yield "invariant-2: files twice", check_twice(
        box, f"{SIMULATE} -o DIR/plan --trace DIR/trace.json --write-deepspeed DIR/ds.json",
        ["plan", "trace.json", "ds.json"])
    yield "invariant-5: json", check_json(box)
    yield "efficiency", check_efficiency(box)
    yield "cost", check_cost(box)
    yield "delay", check_delay(box)
    yield "list: json", check_lists(box)
    yield "list: devices", check_devices(box)
    yield "list: instruction sets", check_instruction_sets(box)
    yield "invariant-8: provenance", check_provenance(box)
    yield "invariant-8: calibrated", check_calibrated(box)


def tests(box):
    make_files(box)
    for name, wrong in commands(box):
        yield name.replace("#", "").replace("\n", "\\n").replace("\x1b", "\\x1b"), wrong


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
