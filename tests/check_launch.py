#!/usr/bin/python3
"""`memwall export ANSWER.json --for TARGET`: what carries a plan out with other software; prints
TAP.

question     the question that an answer's JSON has makes the same plan again, byte by byte.
written      of plans drawn at random every target is written or refused in one line that names
             those that can; every file is read: JSON, YAML of one level, Python, shell (bash -n).
keys         has no key and no option that the target does not have: KEYS, with their source.
numbers      launch.sh, run with stand-ins for what it starts, passes the plan's numbers on.
back         ds_config.json, read by --deepspeed, makes the same plan.
adapters     LoRA and QLoRA, by PEFT and bitsandbytes, and what is refused of them.
picks        of advise by name and by row, of strategies by name, of sweep by row.
refused      one line, status 2, and nothing is written.

The command is $MEMWALL, or build/cli/memwall.
"""
import ast
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys

from command import MEMWALL, ROOT, Box, answer_of, refused, sixth
from tap import report_in

KEYS = json.loads((ROOT / "tests/data/launch_keys.json").read_text(encoding="utf-8"))
TARGETS = ("deepspeed", "accelerate", "fsdp2", "torchtitan", "megatron", "memwall")
STARTED = ("deepspeed", "torchrun", "accelerate", "mpirun", "memwall")
ENVIRONMENT = {"MODEL": "a model", "DATA": "some data.bin", "MASTER_ADDR": "first",
               "NODE_RANK": "1", "HOSTFILE": "host file", "HF_ASSETS": "assets",
               "MEGATRON": "/mega tron", "TOKENIZER": "tok", "NVME": "/drive 1"}
FIXED = [  # model, machine, options: what random plans may miss
    ("llama-3.1-8b", "dgx-h100", "-s zero3"),
    ("llama-3.1-8b", "dgx-h100", "-s ddp --train lora:16"),
    ("llama-3.1-8b", "dgx-h100", "-s zero1 --tp 2 --pp 2 --batch 1 --grad-accum 4"),
    ("llama-3.1-8b", "dgx-h100", "--nodes 2 -s zero3 --shard-group node --batch 1"),
    ("llama-3.1-8b", "rtx4090", "-s zero-infinity-nvme --optimizer-device nvme --tokens 1M"),
    ("llama-3.1-8b", "rtx4090", "-s zero-offload --dpu-start 10 --batch 1"),
    ("llama-3.1-8b", "rtx4090", "-s zero-infinity-cpu --param-device cpu --batch 1"),
    ("gpt2-xl", "dgx-h100", "-s l2l --batch 1 --grad-accum 2"),
    ("gpt2-xl", "dgx-h100", "--nodes 2 -s zero2 --recompute-layers 3 --batch 2"),
    ("gpt2-xl", "dgx-h100", "-s zero1 --optimizer muon --dtype fp16 --matmul-dtype fp8"),
    ("gpt2-xl", "dgx-h100", "-s zero3 --recompute-list 0-3,8 --prefetch 2 --batch 3"),
    ("llama-3.1-8b", "dgx-h100", "-s zero1 --cp 4 --cp-kind all-to-all --batch 0.25"),
    ("mixtral-8x7b", "dgx-h100", "-s zero3 --batch 1"),
    ("mixtral-8x7b", "dgx-h100", "--nodes 4 -s zero3 --batch 1 --ep 8"),
]


def drawn(count):
    """Questions at random; many plans of a few machines, all of them small."""
    dice = random.Random(16)
    for _ in range(count):
        options = {
            "-s": dice.choice(("ddp", "zero1", "zero2", "zero3", "zero-offload", "zero-offload++",
                               "zero-infinity-cpu", "zero-infinity-nvme", "streamed-update")),
            "--nodes": dice.choice(("1", "1", "2", "4")),
            "--batch": dice.choice(("1", "2", "4")),
            "--grad-accum": dice.choice(("1", "3", "8")),
            "--seq": dice.choice(("512", "1024")),
            "--tp": dice.choice(("1", "1", "1", "2")),
            "--dtype": dice.choice(("bf16", "bf16", "fp16", "fp32")),
            "--activation-checkpoint-interval": dice.choice(("0", "1", "1", "2")),
        }
        for name, values in (("--tiles", ("2", "4")), ("--prefetch", ("0", "2", "3:2:1")),
                             ("--activation-device", ("cpu",)), ("--overlap", ("off",)),
                             ("--optimizer", ("lion", "adamw-8bit", "sgd")),
                             ("--param-device", ("cpu", "cpu:1GB,nvme")),
                             ("--optimizer-device", ("cpu", "nvme", "gpu:20%,cpu")),
                             ("--set", ("gpu.memory_gib=200",)), ("--tokens", ("1M", "3e7")),
                             ("--logits-chunks", ("4",))):
            if dice.random() < 0.15:
                options[name] = dice.choice(values)
        yield (dice.choice(("gpt2-xl", "gpt3-1.3b", "llama-3.2-1b", "qwen3-1.7b")),
               dice.choice(("dgx-h100", "dgx2")),
               " ".join(word for pair in options.items() for word in pair))


def plan(box, question, *more):
    """The JSON of a question's answer that fits, else None; and its plan in the file `plan`."""
    model, machine, options = question
    verb = "simulate" if "--tokens" in options else "plan"  # which predicts no times
    done = box.run(f"{verb} -m {model} -H {machine} {options} --json -o plan {' '.join(more)}")
    return answer_of(done.out) if done.status == 0 else None


def plans(box, count):
    for question in [*FIXED, *sixth(drawn(count))]:
        answer = plan(box, question)
        if answer:
            box.write("answer.json", {"schema": "memwall-answer/1", "answers": [answer]})
            yield f"{' '.join(question)}", answer


def options_of(question):
    short = {"model": "-m", "hardware": "-H", "strategy": "-s"}
    for name, text in question.items():
        yield from ["--set", f"{name}={text}"] if "." in name else \
            [short.get(name, "--" + name), text]


def plan_made(box, name):
    """A plan; not what was asked, which is spelled out, or comes from a file."""
    lines = (box.folder / name).read_bytes().split(b"\n")
    return [line for line in lines if not line.startswith((b"asked ", b"chosen "))]


def wrong_question(box, answer):
    verb = "simulate" if "tokens" in answer["question"] else "plan"
    first = plan_made(box, "plan")
    done = box.run([verb, "-o", "again", *options_of(answer["question"])])
    if done.status:
        yield f"its question: {done.err.strip()}"
    elif plan_made(box, "again") != first:
        yield "its question makes another plan"


# --- files ---------------------------------------------------------------------------------------

def export(box, target, *more, file="answer.json"):
    shutil.rmtree(box.folder / "out dir", ignore_errors=True)
    return box.run(["export", file, "--for", target, "-o", "out dir", *more])


def text_of(box, name):
    return (box.folder / "out dir" / name).read_text(encoding="utf-8")


def keys_of(value, path=""):
    for key, inner in value.items():
        yield path + key
        if isinstance(inner, dict):
            yield from keys_of(inner, f"{path}{key}.")


def wrong_json(text):
    config = json.loads(text)
    own = config.pop("memwall", {})
    if not own:
        yield "ds_config.json: has no section of memwall's own"
    for key in keys_of(config):
        if key not in KEYS["deepspeed"]["keys"] and key != "aio.thread_count":  # of older ones
            yield f"ds_config.json: {key} is none of DeepSpeed's keys"


def read_yaml(text):
    """Two levels of plain values, which is all that accelerate's file has."""
    config, inner = {}, None
    for line in text.splitlines():
        indent, key, value = re.fullmatch(r"(  )?(\w+):(?: (.+))?", line).groups()
        if value is None:
            inner = config[key] = {}
        else:
            (inner if indent else config)[key] = value.strip("'")
    return config


def wrong_yaml(text):
    for key in keys_of(read_yaml(text)):
        if key not in KEYS["accelerate"]["keys"]:
            yield f"accelerate.yaml: {key} is none of accelerate's keys"


def titan_keys(text):
    """What the module sets, by name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            yield ast.unparse(node.targets[0]).removeprefix("config."), node.value


def wrong_titan(text):
    for key, _ in titan_keys(text):
        if key not in KEYS["torchtitan"]["keys"]:
            yield f"memwall_titan.py: {key} is none of torchtitan's keys"


def wrong_adapters(text):
    config = json.loads(text)
    if config["peft_type"] != "LORA" or not config["target_modules"]:
        yield f"adapter_config.json: {config}"


READ = {"ds_config.json": wrong_json, "accelerate.yaml": wrong_yaml,
        "memwall_titan.py": wrong_titan, "adapter_config.json": wrong_adapters}


def wrong_shell(box, name):
    path = box.folder / "out dir" / name
    done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"{name}: {done.stderr.strip()}"
    if not path.stat().st_mode & stat.S_IXUSR:
        yield f"{name}: may not be executed"


def wrong_files(box):
    for path in sorted((box.folder / "out dir").iterdir()):
        if path.name in READ:
            yield from READ[path.name](path.read_text(encoding="utf-8"))
        elif path.suffix == ".py":
            ast.parse(path.read_text(encoding="utf-8"))
        elif path.suffix in (".sh", ".sbatch"):
            yield from wrong_shell(box, path.name)
        elif path.name not in ("notes.txt", "memwall.sha256"):
            yield f"{path.name}: a file that nobody knows"


# --- launch.sh -----------------------------------------------------------------------------------

STAND_IN = '#!/bin/bash\nprintf "%s\\0" "${0##*/}" "$@"\n'


def started(box, path="out dir/launch.sh", *before):
    """The words with which launch.sh starts what carries the plan out."""
    for name in STARTED:
        box.write(f"bin/{name}", STAND_IN)
        (box.folder / "bin" / name).chmod(0o755)
    done = subprocess.run(["bash", *before, path, "--more", "two words"], cwd=box.folder,
                          env={**os.environ, **ENVIRONMENT,
                               "PATH": f"{box.folder / 'bin'}:{os.environ['PATH']}"},
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr.strip()
    return done.stdout.split("\0")[:-1], None


def value(words, option):
    return words[words.index(option) + 1] if option in words else None


JOB = {"micro": "--micro-batch", "accum": "--grad-accum", "seq": "--seq", "steps": "--steps"}
NUMBERS = {  # how each target says them
    "deepspeed": {**JOB, "gpus": "--num_gpus", "nodes": "--num_nodes"},
    "accelerate": JOB,
    "fsdp2": {**JOB, "gpus": "--nproc-per-node"},
    "torchtitan": {"gpus": "--nproc-per-node"},
    "megatron": {"gpus": "--nproc-per-node", "micro": "--micro-batch-size", "seq": "--seq-length",
                 "global": "--global-batch-size", "steps": "--train-iters",
                 "tp": "--tensor-model-parallel-size", "pp": "--pipeline-model-parallel-size"},
    "memwall": {"seq": "--seq", "accum": "--grad-accum", "steps": "--steps"},
}


def planned(answer):
    settings = answer["settings"]
    tokens = float(answer["question"].get("tokens", "0"))
    return {"micro": round(settings["micro_batch"] * settings["tp"] * settings.get("cp", 1)),
            "accum": settings["grad_accum"], "seq": settings["seq"], "tp": settings["tp"],
            "pp": int(answer["question"].get("pp", 1)),
            "global": round(settings["global_batch"]), "gpus": settings["gpus_per_node"],
            "nodes": settings["nodes"],
            "steps": -int(-tokens // settings["tokens_per_step"]) if tokens else None}


def wrong_numbers(box, target, answer):
    words, failed = started(box)
    if failed:
        yield f"{target}: launch.sh: {failed}"
        return
    want = planned(answer)
    for what, option in NUMBERS[target].items():
        said = value(words, option)
        if want[what] is not None and said != str(want[what]):
            yield f"{target}: {what}: {option} {said}, planned {want[what]}"
    if words[-2:] != ["--more", "two words"]:
        yield f"{target}: what follows launch.sh is not passed on: {words[-2:]}"
    if "--model" in words and value(words, "--model") != ENVIRONMENT["MODEL"]:
        yield f"{target}: MODEL is {value(words, '--model')}"
    if target == "megatron":
        for word in words[words.index("/mega tron/pretrain_gpt.py"):-2]:
            if re.match("--[a-z]", word) and word not in KEYS["megatron"]["keys"]:
                yield f"{word} is none of Megatron-LM's arguments"


def wrong_in_files(box, target, answer):
    """Numbers that stand in a file."""
    want = planned(answer)
    ranks = want["gpus"] * want["nodes"]
    if target == "deepspeed":
        config = json.loads(text_of(box, "ds_config.json"))
        said = (config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"],
                config.get("train_batch_size", want["global"]))
        if said != (want["micro"], want["accum"], want["global"]):
            yield f"ds_config.json: {said}, planned {want}"
    if target == "accelerate":
        config = read_yaml(text_of(box, "accelerate.yaml"))
        if (config["num_processes"], config["num_machines"]) != (str(ranks), str(want["nodes"])):
            yield f"accelerate.yaml: {config}"
    if target == "torchtitan":
        config = {key: ast.unparse(node) for key, node in titan_keys(text_of(box,
                                                                             "memwall_titan.py"))}
        local = want["micro"] * (want["accum"] if want["pp"] > 1 else 1)
        said = [int(config[f"training.{key}"]) for key in ("local_batch_size", "global_batch_size",
                                                           "seq_len")]
        if said != [local, want["global"], want["seq"]]:
            yield f"memwall_titan.py: {said}, planned {want}"
        product = 1
        for key in ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel",
                    "pipeline_parallel"):
            product *= int(config[f"parallelism.{key}_degree"])
        if product != ranks:
            yield f"memwall_titan.py: degrees make {product} ranks, planned {ranks}"


def check_one(box, target, answer, tally):
    done = export(box, target)
    if done.status:
        tally["refused", target] = tally.get(("refused", target), 0) + 1
        yield from refused(done, ["cannot"])
        if not re.search(r"; ([a-z0-9, ]+ (do|does)|no target can)$", done.err.strip()):
            yield f"{target}: does not say who can: {done.err.strip()}"
        if (box.folder / "out dir").exists():
            yield f"{target}: refused, and something is written"
        return
    tally["written", target] = tally.get(("written", target), 0) + 1
    if b"launch line" not in done.out:
        yield f"{target}: no launch line is printed"
    yield from wrong_files(box)
    yield from wrong_numbers(box, target, answer)
    yield from wrong_in_files(box, target, answer)
    if target == "deepspeed":
        yield from wrong_back(box, answer)


def wrong_back(box, answer):
    """Of a file without a type DeepSpeed makes fp32, and memwall 16 bits, as its note says."""
    asked = answer["question"]
    names = ["model", "hardware", "software", "nodes", "seq", "optimizer", "checkpoint-bits",
             "kept-bits", "share-slots", "train", "lora-alpha", "weight-bits",
             "matmul-dtype", "recompute-attention",
             *(["dtype"] if asked["dtype"] == "fp32" else []),
             *(key for key in asked if "." in key)]
    done = box.run(["plan", "-o", "back", "--deepspeed", "out dir/ds_config.json",
                    *options_of({name: asked[name] for name in names if name in asked})])
    if done.status:
        yield f"--deepspeed ds_config.json: {done.err.strip()}"
    elif plan_made(box, "back") != plan_made(box, "plan"):
        yield "ds_config.json makes another plan"


def left_out(box, answer):
    """Each setting that is no default stands in a file, or is said."""
    said = text_of(box, "notes.txt") + text_of(box, "launch.sh")
    for name in ("tiles", "logits-chunks", "commit", "dpu-start", "drop-layers", "save-every"):
        text = answer["question"].get(name)
        if text and text not in ("1", "none") and f"--{name} {text}" not in said and \
                f"--{name}={text}" not in said:
            yield f"fsdp2: --{name} {text} is not said"


def check_written(box):
    tally = {}
    for name, answer in plans(box, 60):
        for wrong in wrong_question(box, answer):
            yield f"{name}: {wrong}"
        for target in TARGETS:
            for wrong in check_one(box, target, answer, tally):
                yield f"{name}: {target}: {wrong}"
            if target == "fsdp2" and (box.folder / "out dir").exists():
                yield from left_out(box, answer)
    for target in TARGETS:
        for what in ("written", "refused"):
            if not tally.get((what, target)):
                yield f"no plan was {what} for {target}"


def check_slurm(box):
    plan(box, ("gpt2-xl", "dgx-h100", "-s zero3 --nodes 4 --batch 1"))
    box.write("answer.json", json.loads(box.run(
        "plan -m gpt2-xl -H dgx-h100 -s zero3 --nodes 4 --batch 1 --json").out))
    for target, tasks in (("slurm", 8), ("slurm:megatron", 1), ("slurm:deepspeed", 1)):
        done = export(box, target)
        if done.status:
            yield f"{target}: {done.err}"
            continue
        yield from wrong_files(box)
        job = text_of(box, "job.sbatch")
        for line in ("--nodes=4", f"--ntasks-per-node={tasks}", "--gpus-per-node=8"):
            if f"#SBATCH {line}\n" not in job:
                yield f"{target}: no {line} in job.sbatch"
        for option in re.findall(r"^#SBATCH (--[a-z-]+)", job, re.MULTILINE):
            if option not in KEYS["slurm"]["keys"]:
                yield f"{target}: {option} is none of sbatch's options"


# --- adapters ------------------------------------------------------------------------------------

LORA = "plan -m llama-3.1-8b -H dgx-h100 --batch 1 --seq 1024 --json --train "


def check_adapters(box):
    box.write("answer.json", box.run(LORA + "lora:16@qkv+mlp-up --lora-alpha 32 -s zero2 "
                                     "--weight-bits 4-double").out)
    for target in ("deepspeed", "accelerate"):
        done = export(box, target)
        if done.status:
            yield f"{target}: {done.err}"
            continue
        config = json.loads(text_of(box, "adapter_config.json"))
        said = [config[key] for key in ("r", "lora_alpha", "target_modules")]
        if said != [16, 32, ["q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"]]:
            yield f"{target}: adapter_config.json: {said}"
        words, failed = started(box)
        if failed or value(words, "--lora") != "adapter_config.json" or \
                value(words, "--weight-bits") != "4-double":
            yield f"{target}: {failed} {words}"
    box.write("answer.json", box.run(LORA + "lora:8@q,v -s zero2").out)
    done = export(box, "accelerate")
    config = {} if done.status else json.loads(text_of(box, "adapter_config.json"))
    if config.get("target_modules") != ["q_proj", "v_proj"]:
        yield f"of q and v: {done.err} {config}"
    for model, options, target, said in (
            ("llama-3.1-8b", "lora:16 -s zero3 --weight-bits 4", "deepspeed",
             ["--weight-bits 4", "whole on each GPU", "memwall does"]),
            ("llama-3.1-8b", "lora:16 -s zero3", "fsdp2", ["--train lora:16", "deepspeed"]),
            ("llama-3.1-8b", "norm1,lora:16 -s zero3", "accelerate", ["adapters alone"]),
            ("mixtral-8x7b", "lora:16 -s zero3", "accelerate", ["PEFT", "not known"])):
        box.write("answer.json", box.run(LORA.replace("llama-3.1-8b", model) + options).out)
        yield from refused(export(box, target), ["cannot", *said])
    box.write("answer.json", box.run(LORA + "lora:16 -s zero2 --weight-bits 8").out)
    if b"LLM.int8" not in export(box, "deepspeed").out:
        yield "weights in 8 bits: what differs is not said"


# --- picks ---------------------------------------------------------------------------------------

ADVISE = ("advise -m gpt2-xl --tokens 1B --machines dgx-h100,dgx-a100-40gb,rtx4090-2x "
          "--max-nodes 4 --json")


def strategy_and_machine(box):
    first = text_of(box, "launch.sh").splitlines()[1]
    return re.fullmatch(r"# memwall export --for \w+: (\S+) on (\d+) x (\S+), (\S+)",
                        first).groups()[1:]


def check_picks(box):
    advice = box.run(ADVISE).out.decode()
    box.write("advice.json", advice)
    advice = json.loads(advice)
    front = advice["front"]
    wanted = {name.replace(" ", "-"): pick for name, pick in advice["picks"].items()}
    wanted.update({str(i + 1): row for i, row in enumerate(front)})
    for pick, row in wanted.items():
        done = export(box, "deepspeed", "--pick", pick, file="advice.json")
        if done.status:
            yield f"--pick {pick}: {done.err.strip()}"
        elif strategy_and_machine(box) != (str(row["nodes"]), row["machine"], row["strategy"]):
            yield f"--pick {pick}: {strategy_and_machine(box)} of {row}"
    box.write("several.json", box.run("simulate -m gpt2-xl -H dgx-h100 --json "
                                      "-s zero2,zero3").out)
    export(box, "deepspeed", "--pick", "zero2", file="several.json")
    if strategy_and_machine(box)[2] != "zero2":
        yield f"of several strategies: {strategy_and_machine(box)}"
    several = json.loads((box.folder / "several.json").read_text(encoding="utf-8"))
    for answer in several["answers"]:
        answer["peak_bytes"]["gpu"] = [1]
    box.write("typed.json", several)
    done = export(box, "deepspeed", "--pick", "zero3", file="typed.json")
    if done.status or "CRITICAL" in done.err:
        yield f"of a peak that is no number: {done.err}"
    box.write("rows.json", box.run("sweep -m gpt2-xl -H dgx-h100 -s zero3 --json "
                                   "--over batch=1,2 --over nodes=1,2").out)
    done = export(box, "deepspeed", "--pick", "4", file="rows.json")
    if done.status or planned_batch(box) != 2 or strategy_and_machine(box)[0] != "2":
        yield f"of a sweep: {done.err}"
    with open(box.folder / "several.json", encoding="utf-8") as file:
        done = subprocess.run([str(MEMWALL), "export", "-", "--pick", "zero3", "--for",
                               "deepspeed", "-o", "from input"], stdin=file, cwd=box.folder,
                              env=box.environment, capture_output=True, text=True, check=False)
    if done.returncode or not (box.folder / "from input/launch.sh").exists():
        yield f"from standard input: {done.stderr}"


def planned_batch(box):
    return json.loads(text_of(box, "ds_config.json"))["train_micro_batch_size_per_gpu"]


# --- refusals ------------------------------------------------------------------------------------

def files_for_refusals(box):
    answer = box.run("simulate -m gpt2-xl -H dgx-h100 -s zero3 --batch 1 --json").out.decode()
    box.write("answer.json", answer)
    box.write("cut.json", answer[:len(answer) // 2])
    box.write("other.json", '{"schema": "memwall-serving/1"}')
    box.write("none.json", '{"answers": []}')
    old = json.loads(answer)
    del old["answers"][0]["question"]
    box.write("old.json", old)
    odd = json.loads(answer)
    odd["answers"][0]["question"]["batch"] = "-3"
    box.write("odd.json", odd)
    odd["answers"][0]["question"]["batch"] = 3
    box.write("number.json", odd)
    odd = json.loads(answer)
    odd["answers"][0]["feasible"] = {"yes": 1}
    box.write("typed.json", odd)
    unfit = box.run("simulate -m gpt3-175b -H rtx4090 -s ddp --json").out
    box.write("unfit.json", unfit)
    box.write("nvme.json", box.run("plan -m gpt2-xl -H dgx2 -s zero-infinity-nvme "
                                   "--optimizer-device nvme --batch 1 --json").out)
    box.write("kept.json", box.run("plan -m gpt2-xl -H dgx2 -s zero3 --activation-device nvme "
                                   "--batch 1 --json").out)
    box.write("columns.json", box.run("sweep -m gpt2-xl -H dgx-h100 -s zero3 --over batch=1,2 "
                                      "--columns over,step_time_s --json").out)
    box.write("full/mine.txt", "mine")


REFUSED = [  # file, options, words of the line
    ("cut.json", "--for fsdp2", ["cut.json"]),
    ("other.json", "--for fsdp2", ["memwall-serving/1", "simulate", "--json"]),
    ("none.json", "--for fsdp2", ["schema", "is missing"]),
    ("old.json", "--for fsdp2", ["question", "is missing"]),
    ("odd.json", "--for fsdp2", ["odd.json", "batch", "-3"]),
    ("number.json", "--for fsdp2", ["question.batch", "text"]),
    ("unfit.json", "--for fsdp2", ["does not fit"]),
    ("typed.json", "--for fsdp2", ["does not fit"]),
    ("answer.json", "--for fsdp3", ["fsdp3", "deepspeed|accelerate|fsdp2"]),
    ("answer.json", "--for slurm:x", ["slurm:x", "slurm[:TARGET]"]),
    ("answer.json", "--for fsdp2 --pick zero1", ["--pick zero1", "zero3"]),
    ("nvme.json", "--for fsdp2", ["FSDP2", "--optimizer-device nvme", "drives", "deepspeed"]),
    ("kept.json", "--for fsdp2", ["FSDP2", "--activation-device nvme", "drives", "deepspeed"]),
    ("kept.json", "--for megatron", ["--activation-device nvme", "drives"]),
    ("gone.json", "--for fsdp2", ["gone.json"]),
    ("columns.json", "--for fsdp2 --pick 1", ["strategy", "--columns"]),
    ("answer.json", "--for fsdp2 -o full", ["full", "mine.txt"]),
    ("answer.json", "--for fsdp2 -o full --replace", ["full", "mine.txt"]),
    ("answer.json", "--for fsdp2 -o answer.json", ["answer.json", "folder"]),
    ("answer.json", "--for fsdp2 --at newest", ["--at"]),
    ("answer.json more.json", "--for fsdp2", ["one file"]),
    ("answer.json", "--pick x", ["--for"]),
]


def check_refused(box):
    files_for_refusals(box)
    before = box.files()
    for files, options, words in REFUSED:
        output = "" if "-o " in options else "-o out"
        done = box.run(f"export {files} {options} {output}")
        for wrong in refused(done, words):
            yield f"{files} {options}: {wrong}"
        if box.files() != before:
            yield f"{files} {options}: files were left: {set(box.files()) - set(before)}"


def wrong_list(box):
    done = subprocess.run(["sha256sum", "--strict", "-c", "memwall.sha256"], cwd=box.folder / "job",
                          capture_output=True, text=True, check=False)
    names = {path.name for path in (box.folder / "job").iterdir()} - {"memwall.sha256"}
    if done.returncode or set(re.findall(r"^(.*): OK$", done.stdout, re.MULTILINE)) != names:
        yield f"memwall.sha256: {done.stdout} {done.stderr}"


def check_kept(box):
    """What is not as memwall wrote it stays, whatever its name is."""
    cases = {"launch.sh": lambda path: path.write_text("mine", encoding="utf-8"),
             "ds_config.json": lambda path: path.write_text("{}", encoding="utf-8"),
             "notes.txt": lambda path: (path.unlink(), path.symlink_to("launch.sh")),
             "memwall.sha256": lambda path: path.write_text("mine", encoding="utf-8"),
             "checkpoints": lambda path: path.mkdir()}
    for name, change in cases.items():
        box.run("export answer.json --for deepspeed -o kept")
        change(box.folder / "kept" / name)
        before = box.files()
        done = box.run("export answer.json --for fsdp2 -o kept --replace")
        named = "" if name == "memwall.sha256" else name
        yield from refused(done, ["kept", named, "is not"])
        if box.files() != before:
            yield f"{name}: a refused export changed the folder"
        shutil.rmtree(box.folder / "kept")
    for name in ("own", "-x"):
        box.write(f"{name}/launch.sh", "mine")
        yield from refused(box.run(["export", "answer.json", "--for", "fsdp2", "-o", name,
                                    "--replace"]), [name, "launch.sh"])
        shutil.rmtree(box.folder / name)
    done = box.run(["export", "answer.json", "--for", "slurm:fsdp2", "-o", "-x"])
    if b"cd ./-x &&" not in done.out:
        yield f"-o -x: {done.out.decode()[-80:]}"
    _, failed = started(box, "-x/launch.sh", "--")
    if failed:
        yield f"-x/launch.sh: {failed}"
    shutil.rmtree(box.folder / "-x")


def check_at_once(box):
    """Of several exports to one folder one is there, whole."""
    for more in ([], ["--replace"]):
        shutil.rmtree(box.folder / "job", ignore_errors=True)
        running = [subprocess.Popen([str(MEMWALL), "export", "answer.json", "--for", target, "-o",
                                     "job", *more], cwd=box.folder, env=box.environment,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for target in ("deepspeed", "fsdp2", "memwall", "accelerate")]
        done = [one.wait() for one in running]
        if (any(done) if more else done.count(0) != 1):
            yield f"exports at once {more}: {done}"
        yield from wrong_list(box)


def check_folder(box):
    files_for_refusals(box)
    box.write("llama.json", box.run("plan -m llama-3.1-8b -H dgx-h100 -s zero3 --json").out)
    box.run("export answer.json --for deepspeed -o job")
    names = {path.name for path in (box.folder / "job").iterdir()}
    again = box.run("export answer.json --for fsdp2 -o job")
    yield from refused(again, ["job", "--replace"])
    if names != {path.name for path in (box.folder / "job").iterdir()}:
        yield "a refused export changed the folder"
    done = box.run("export answer.json --for fsdp2 -o job --replace")
    now = {path.name for path in (box.folder / "job").iterdir()}
    if done.status or "memwall_fsdp2.py" not in now or "ds_config.json" in now:
        yield f"--replace: {done.err} {now}"
    for target in (*TARGETS, "slurm:torchtitan", "slurm:deepspeed"):
        done = box.run(f"export llama.json --for {target} -o job --replace")
        if done.status:
            yield f"--replace by {target}: {done.err}"
    yield from wrong_list(box)
    yield from check_kept(box)
    yield from check_at_once(box)
    left = [path.name for path in box.folder.iterdir() if path.name.startswith("job.")]
    if left:
        yield f"left behind: {left}"
    done = box.run("export answer.json --for fsdp2 -o answer.json/job")
    if done.status != 1 or done.err != "memwall: cannot write answer.json/job: Not a directory\n":
        yield f"below a file: status {done.status}: {done.err}"
    (box.folder / "empty").mkdir()
    if box.run("export answer.json --for fsdp2 -o empty").status:
        yield "an empty folder is refused"


def tests(box):
    yield "plans at random, for every target", check_written(box)
    yield "batch jobs", check_slurm(box)
    yield "adapters", check_adapters(box)
    yield "picks by name and number", check_picks(box)
    yield "what is refused", check_refused(box)
    yield "folders are written whole", check_folder(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
