#!/usr/bin/env python3
"""What `memwall export --for TARGET` writes, beside the targets' own parsers.

    PYTHON tests/peer_launch.py build/cli/memwall [--megatron FOLDER] [--plans N] [--run [TARGET..]]
    PYTHON tests/peer_launch.py --keys [--megatron FOLDER] > tests/data/launch_keys.json

PYTHON has DeepSpeed, accelerate, torchtitan, transformers and PyTorch from PyPI; FOLDER is a
checkout of Megatron-LM, whose parser is not in its package.  No part of the tests.  Of plans drawn
at random every target's files go to the real parser: DeepSpeedConfig, accelerate's launch command,
torchtitan's ConfigManager, Megatron-LM's arguments; what it reads is the plan's.  With --run,
memwall_fsdp2.py, memwall_accelerate.py and memwall_deepspeed.py train a tiny model on two ranks of
cores, which share a batch as one rank would have it, and go on from what they saved.  Prints a
line for each difference and a count for each target; status 1 if there is one.

--keys prints the keys that the parsers know, which the ordinary test compares with.
"""
import argparse
import contextlib
import dataclasses
import importlib.metadata
import io
import json
import logging
import math
import os
import pathlib
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
logging.disable(logging.CRITICAL)
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
STAND_IN = '#!/bin/bash\nprintf "%s\\0" "${0##*/}" "$@"\n'
TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
        "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 4, "vocab_size": 256, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": False}


# --- what parsers know ---------------------------------------------------------------------------

def fields_of(model, path=""):
    """Of a class of pydantic, with the names that a file may have."""
    for name, field in model.model_fields.items():
        yield path + (field.alias or name)


def deepspeed_keys():
    from deepspeed.runtime import constants
    from deepspeed.runtime.config import DeepSpeedConfig  # noqa: F401
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.runtime.zero.offload_config import DeepSpeedZeroOffloadOptimizerConfig, \
        DeepSpeedZeroOffloadParamConfig
    from deepspeed.runtime.activation_checkpointing import config as activations
    from deepspeed.runtime.swap_tensor import constants as aio
    yield from (value for name, value in vars(constants).items()
                if name.isupper() and isinstance(value, str) and value.islower())
    for section, model in (("zero_optimization", DeepSpeedZeroConfig),
                           ("zero_optimization.offload_param", DeepSpeedZeroOffloadParamConfig),
                           ("zero_optimization.offload_optimizer",
                            DeepSpeedZeroOffloadOptimizerConfig),
                           ("fp16", DeepSpeedFP16Config), ("bf16", DeepSpeedBF16Config),
                           ("tensor_parallel", TPTrainingConfig)):
        yield section
        yield from fields_of(model, section + ".")
    for section, module in (("activation_checkpointing", activations), ("aio", aio)):
        yield section
        yield from (f"{section}.{value}" for name, value in vars(module).items()
                    if name.isupper() and isinstance(value, str) and "\n" not in value)
    yield from ("data_types", "data_types.grad_accum_dtype", "optimizer.type", "optimizer.params",
                "optimizer.params.lr", "optimizer.params.betas", "optimizer.params.eps",
                "optimizer.params.weight_decay")  # of torch.optim.AdamW


def accelerate_keys():
    from accelerate.commands.config.config_args import ClusterConfig
    from accelerate.commands.launch import launch_command_parser
    yield from (field.name for field in dataclasses.fields(ClusterConfig))
    yield from ("deepspeed_config." + action.dest
                for action in launch_command_parser()._actions)


def titan_keys():
    from torchtitan.config import ConfigManager
    config, _ = ConfigManager()._load_config(["--module", "llama3", "--config", "llama3_8b"])
    for field in dataclasses.fields(config):
        yield field.name
        inner = getattr(config, field.name)
        if dataclasses.is_dataclass(inner) and field.name in ("training", "parallelism"):
            yield from (f"{field.name}.{one.name}" for one in dataclasses.fields(inner))


def megatron_parser(folder):
    import typing
    import typing_extensions
    typing.override = typing_extensions.override  # which Python has since 3.12
    sys.path.insert(0, str(folder))
    from megatron.training.arguments import add_megatron_arguments
    return add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))


def megatron_keys(folder):
    for action in megatron_parser(folder)._actions:
        yield from action.option_strings


SBATCH = ("--job-name", "--nodes", "--ntasks-per-node", "--gpus-per-node", "--exclusive")


def print_keys(folder):
    version = importlib.metadata.version
    tables = {
        "deepspeed": (f"deepspeed {version('deepspeed')}: its pydantic classes and constants",
                      deepspeed_keys()),
        "accelerate": (f"accelerate {version('accelerate')}: ClusterConfig, launch's options",
                       accelerate_keys()),
        "torchtitan": (f"torchtitan {version('torchtitan')}: Trainer.Config of llama3_8b",
                       titan_keys()),
        "slurm": ("https://slurm.schedmd.com/sbatch.html, Slurm 25.05", SBATCH),
    }
    if folder:
        tables["megatron"] = ("Megatron-LM core_v0.19.0: megatron/training/arguments.py",
                              megatron_keys(folder))
    print("{")
    rows = []
    for name, (source, keys) in sorted(tables.items()):
        listed = ",\n    ".join(json.dumps(key) for key in sorted(set(keys)))
        rows.append(f'  "{name}": {{\n   "source": {json.dumps(source)},\n   "keys": [\n    '
                    f'{listed}\n   ]\n  }}')
    print(",\n".join(rows) + "\n}")


# --- what they read ------------------------------------------------------------------------------

class Job:
    """A plan, and the folder that was written for it."""

    def __init__(self, command, folder, answer, environment):
        self.command, self.folder, self.answer = command, folder, answer
        self.environment = environment
        self.settings = answer["settings"]
        self.ranks = self.settings["nodes"] * self.settings["gpus_per_node"]
        self.micro = round(self.settings["micro_batch"] * self.settings["tp"])

    def export(self, target):
        done = subprocess.run([self.command, "export", "answer.json", "--for", target, "-o", "job",
                               "--replace"], cwd=self.folder, capture_output=True, text=True,
                              check=False)
        return done.returncode == 0

    def words(self, program):
        """What launch.sh starts, behind the word `program`."""
        for name in ("deepspeed", "torchrun", "accelerate", "mpirun", "memwall"):
            path = self.folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(STAND_IN, encoding="utf-8")
            path.chmod(0o755)
        done = subprocess.run(["bash", "job/launch.sh"], cwd=self.folder, text=True, check=True,
                              capture_output=True,
                              env={**os.environ, **self.environment,
                                   "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"})
        words = done.stdout.split("\0")[:-1]
        return words[words.index(program) + 1:]

    def differences(self, said, want):
        return {key: (said[key], value) for key, value in want.items() if said[key] != value}


def check_deepspeed(job):
    from deepspeed.runtime.config import DeepSpeedConfig
    config = json.loads((job.folder / "job/ds_config.json").read_text(encoding="utf-8"))
    if "train_batch_size" in config:  # it knows one rank here
        config["train_batch_size"] //= job.ranks
    read = DeepSpeedConfig(config)
    return job.differences(
        {"micro": read.train_micro_batch_size_per_gpu, "accum": read.gradient_accumulation_steps,
         "slices": max(1, read.tensor_parallel_config.autotp_size)},
        {"micro": job.micro, "accum": job.settings["grad_accum"], "slices": job.settings["tp"]})


def check_accelerate(job):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    os.chdir(job.folder / "job")
    load_config_from_file("accelerate.yaml")  # refuses keys that it does not know
    words = ["--cpu", *job.words("launch")] if not (job.folder / "job/ds_config.json").exists() \
        else job.words("launch")
    args, *_ = _validate_launch_command(launch_command_parser().parse_args(words))
    config = getattr(args, "deepspeed_config_file", None)
    return job.differences(
        {"ranks": args.num_processes, "nodes": args.num_machines, "file": config},
        {"ranks": job.ranks, "nodes": job.settings["nodes"],
         "file": "ds_config.json" if (job.folder / "job/ds_config.json").exists() else config})


def script_options(job, name, begin):
    sys.path.insert(0, str(job.folder / "job"))
    sys.modules.pop("memwall_job", None)
    import memwall_job
    it = memwall_job.parser()
    it.add_argument("--reshard-after-forward", action=argparse.BooleanOptionalAction)
    it.add_argument("--cpu-offload", action="store_true")
    it.add_argument("--prefetch", type=int)
    it.add_argument("--deepspeed_config")
    read = it.parse_args(job.words(begin)[:])
    sys.path.pop(0)
    return job.differences(
        {"micro": read.micro_batch, "accum": read.grad_accum, "seq": read.seq},
        {"micro": job.micro, "accum": job.settings["grad_accum"], "seq": job.settings["seq"]})


def check_fsdp2(job):
    return script_options(job, "fsdp2", "memwall_fsdp2.py")


def check_torchtitan(job):
    from torchtitan.config import ConfigManager
    words = job.words("torchtitan.train")
    sys.path.insert(0, str(job.folder / "job"))
    sys.modules.pop("memwall_titan", None)
    config = ConfigManager().parse_args(words)
    sys.path.pop(0)
    at = config.parallelism
    product = (at.data_parallel_replicate_degree * at.data_parallel_shard_degree *
               at.tensor_parallel_degree * at.pipeline_parallel_degree)
    return job.differences(
        {"ranks": product, "batch": config.training.global_batch_size,
         "seq": config.training.seq_len, "layers": len(config.model_spec.model.layers)},
        {"ranks": job.ranks, "batch": round(job.settings["global_batch"]),
         "seq": job.settings["seq"], "layers": job.environment_layers})


def validate_megatron(job, read):
    """Its own check of arguments that go together, as on Hopper; it asserts."""
    from megatron.training import arguments
    text = (job.folder / "job/launch.sh").read_text(encoding="utf-8")
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    if "CUDA_DEVICE_MAX_CONNECTIONS=1" in text:
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"
    arguments.get_device_arch_version = lambda: 9
    read.rank, read.world_size = 1, job.ranks
    with contextlib.redirect_stdout(io.StringIO()):  # it prints every argument
        arguments.validate_args(read, {})


def check_megatron(job, folder):
    words = job.words("/megatron/pretrain_gpt.py")
    read = megatron_parser(folder).parse_args(words)
    validate_megatron(job, read)
    pp = int(job.answer["question"].get("pp", 1))
    return job.differences(
        {"micro": read.micro_batch_size, "batch": read.global_batch_size, "seq": read.seq_length,
         "tp": read.tensor_model_parallel_size, "pp": read.pipeline_model_parallel_size,
         "layers": read.num_layers},
        {"micro": job.micro, "batch": round(job.settings["global_batch"]),
         "seq": job.settings["seq"], "tp": job.settings["tp"], "pp": pp,
         "layers": job.environment_layers})


LAYERS = {"gpt2-xl": 48, "gpt3-1.3b": 24, "llama-3.2-1b": 16, "qwen3-1.7b": 28,
          "llama-3.1-8b": 32}


def jobs(command, folder, count):
    from check_launch import ENVIRONMENT, FIXED, drawn
    environment = {**ENVIRONMENT, "MEGATRON": "/megatron"}
    for model, machine, options in [*FIXED, *drawn(count)]:
        verb = "simulate" if "--tokens" in options else "plan"
        done = subprocess.run([command, verb, "-m", model, "-H", machine, *options.split(),
                               "--json"], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            (folder / "answer.json").write_text(done.stdout, encoding="utf-8")
            job = Job(command, folder, json.loads(done.stdout)["answers"][0], environment)
            job.environment_layers = LAYERS.get(model)
            yield f"{model} {machine} {options}", job


def check_parsers(command, megatron, count):
    checks = {"deepspeed": check_deepspeed, "accelerate": check_accelerate, "fsdp2": check_fsdp2,
              "torchtitan": check_torchtitan}
    if megatron:
        checks["megatron"] = lambda job: check_megatron(job, megatron)
    tally, wrong = {target: 0 for target in checks}, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for what, job in jobs(command, folder, count):
            for target, check in checks.items():
                if not job.export(target):
                    continue
                tally[target] += 1
                try:
                    differs = check(job)
                except (Exception, SystemExit) as fault:  # pylint: disable=broad-except
                    differs = f"{type(fault).__name__}: {fault}"
                os.chdir("/")
                if differs:
                    wrong += 1
                    print(f"{target}: {what}: {differs}", flush=True)
    for target, number in tally.items():
        print(f"{target}: {number} plans read")
    return wrong


# --- trained -------------------------------------------------------------------------------------

TRAINED = {  # on two ranks of cores; in fp32, so that sums in another order change little
    "fsdp2": ["-s zero3", "-s zero2 --grad-accum 2", "-s zero3 --prefetch 2",
              "-s zero3 --activation-checkpoint-interval 0",
              "-s zero3 --activation-checkpoint-interval 1 --activation-device cpu",
              "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu",
              "-s zero3 --dtype bf16"],
    "accelerate": ["-s ddp --grad-accum 2", "-s ddp --dtype bf16", "-s zero2", "-s zero3",
                   "-s ddp --train lora:4 --dtype bf16", "-s zero3 --train lora:4",
                   "-s ddp --train lora:4 --weight-bits 4-double --dtype bf16",
                   "-s ddp --train lora:4 --weight-bits 8 --dtype bf16"],
    "deepspeed": ["-s zero2 --grad-accum 2", "-s zero3", "-s zero3 --dtype bf16",
                  "-s zero2 --train lora:4@qkv --dtype bf16", "-s zero3 --train lora:4",
                  "-s zero2 --train lora:4 --weight-bits 4 --dtype bf16"],
}
STEPS, RESUMED_AT = 6, 3
NEAR = {"fp32": 2e-4, "bf16": 5e-2}  # of losses about 5.5


class Training:
    """A folder of an export, and what it trains on cores: gloo, processes without GPUs."""

    def __init__(self, command, folder, target, options):
        self.folder, self.target, self.options = folder, target, shlex.split(options)
        if "--dtype" not in self.options:
            self.options += ["--dtype", "fp32"]
        self.dtype = self.options[self.options.index("--dtype") + 1]
        shutil.rmtree(folder / "job", ignore_errors=True)
        question = [command, "plan", "-m", "tiny/config.json", "-H", "flat-test", "--set",
                    "node.gpus=2", "--set", "gpu.memory_gib=8", "--batch", "1", "--seq", "32",
                    "--json", *self.options]
        answer = self.do(question)
        (folder / "answer.json").write_text(answer, encoding="utf-8")
        self.do([command, "export", "answer.json", "--for", target, "-o", "job"])
        shell = folder / "job/launch.sh"
        self.text = shell.read_text(encoding="utf-8")
        self.config = folder / "job/ds_config.json"

    def do(self, words, **environment):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False,
                              timeout=900, env={**os.environ, **environment})
        if done.returncode:
            said = done.stderr + done.stdout
            fault = re.search(r"^.*?Traceback.*?\n.*?Error.*?$", said, re.MULTILINE | re.DOTALL)
            raise RuntimeError(f"status {done.returncode}: "
                               f"{(fault[0] if fault else said).strip()[-1500:]}")
        return done.stdout

    def on_cores(self, ranks):
        """So many processes; accelerate's launcher starts one where it is told to use cores, and
        leaves DeepSpeed out."""
        text = self.text
        if self.target == "accelerate":
            text = text.replace("accelerate launch \\\n    --config_file accelerate.yaml",
                                f"torchrun --standalone --nproc-per-node {ranks}")
        for option in ("--nproc-per-node", "--num_gpus"):
            text = text.replace(f"{option} 2", f"{option} {ranks}")
        (self.folder / "job/launch.sh").write_text(text, encoding="utf-8")
        if self.config.exists():
            config = json.loads(self.config.read_text(encoding="utf-8"))
            config["train_micro_batch_size_per_gpu"] = 2 // ranks
            self.config.write_text(json.dumps(config), encoding="utf-8")

    def losses(self, ranks, save, *options):
        """Of each step."""
        self.on_cores(ranks)
        environment = {"DATA": "tokens.bin", "SAVE": save, "OMP_NUM_THREADS": "1",
                       "MODEL": "tiny/weights", "PYTHONDONTWRITEBYTECODE": "1",
                       "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        if self.target == "accelerate":
            environment["ACCELERATE_MIXED_PRECISION"] = self.dtype.replace("fp32", "no")
            environment |= {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_CONFIG_FILE":
                            "ds_config.json"} if self.config.exists() else \
                           {"ACCELERATE_USE_CPU": "true"}
        out = self.do(["bash", "job/launch.sh", "--micro-batch", str(2 // ranks), *options],
                      **environment)
        return [float(loss) for loss in re.findall(r"^step \d+ loss (\S+)", out, re.MULTILINE)]


def apart(one, other):
    return max((abs(a - b) for a, b in zip(one, other)), default=math.inf) \
        if len(one) == len(other) else math.inf


def train(command, folder, target, options):
    """Two ranks train as one with their batch; what was saved goes on as if it had not ended."""
    job = Training(command, folder, target, options)
    # Without GPUs accelerate joins no processes that DeepSpeed trains with.
    ranks = 1 if target == "accelerate" and job.config.exists() else 2
    whole = job.losses(ranks, "whole", "--steps", str(STEPS), "--save-every", "100")
    begun = job.losses(ranks, "parts", "--steps", str(RESUMED_AT))
    resumed = job.losses(ranks, "parts", "--steps", str(STEPS), "--resume")
    alone = job.losses(1, "alone", "--steps", str(STEPS)) if ranks > 1 else whole
    print(f"{target} {options}: losses {whole[0]} .. {whole[-1]}; resumed "
          f"{apart(whole, begun + resumed):.4f} apart, {ranks} ranks from one "
          f"{apart(whole, alone):.4f}",
          flush=True)
    if len(whole) != STEPS or apart(whole, begun + resumed) > 1e-4 or \
            apart(whole, alone) > NEAR[job.dtype]:
        return f"{whole}, resumed {begun} {resumed}, one rank {alone}"
    return None


def gradients(options, config):
    import memwall_job
    import torch
    read = memwall_job.parser().parse_args(["--model", str(config), "--data", "random", "--seq",
                                            "32", "--micro-batch", "1", *options])
    model = memwall_job.load_model(read, torch.float32)
    memwall_job.recompute(model, read)
    ids = torch.arange(32).reshape(1, 32)
    model(input_ids=ids, labels=ids).loss.backward()
    return [weight.grad for weight in model.parameters()]


def check_recomputed(config):
    """Recomputed layers have the gradients of kept ones, bit by bit."""
    sys.path.insert(0, str(ROOT / "launch"))
    kept = gradients([], config)
    wrong = 0
    for options in (["--recompute-layers", "all"], ["--recompute-layers", "0-1,3"],
                    ["--recompute-layers", "all", "--offload-activations"]):
        same = all(bool((a == b).all()) for a, b in zip(kept, gradients(options, config)))
        print(f"gradients with {' '.join(options)}: {'the same' if same else 'others'}", flush=True)
        wrong += not same
    return wrong


def make_tiny(folder):
    """A model with weights, and tokens that no sequence of a step has twice."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    (folder / "tiny").mkdir()
    (folder / "tiny/config.json").write_text(json.dumps(TINY), encoding="utf-8")
    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(folder / "tiny/config.json")
    AutoModelForCausalLM.from_config(config).save_pretrained(folder / "tiny/weights")
    tokens = random.Random(1).choices(range(TINY["vocab_size"]), k=8192)
    (folder / "tokens.bin").write_bytes(struct.pack("256i", 20240520, 1, len(tokens), *[0] * 253) +
                                        struct.pack(f"{len(tokens)}H", *tokens))


def check_trained(command, only):
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_tiny(folder)
        wrong += check_recomputed(folder / "tiny/config.json")
        for target, options in ((target, options) for target, cases in TRAINED.items()
                                for options in cases if target in only):
            try:
                fault = train(command, folder, target, options)
            except (RuntimeError, subprocess.TimeoutExpired) as failed:
                fault = str(failed)
            if fault:
                wrong += 1
                print(f"{target} {options}: {fault}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", nargs="?")
    parser.add_argument("--megatron", type=pathlib.Path)
    parser.add_argument("--plans", type=int, default=60)
    parser.add_argument("--run", nargs="*", choices=TRAINED, metavar="TARGET")
    parser.add_argument("--keys", action="store_true")
    options = parser.parse_args()
    if options.keys:
        return print_keys(options.megatron)
    command = str(pathlib.Path(options.command).resolve())
    wrong = check_parsers(command, options.megatron, options.plans)
    wrong += check_trained(command, options.run or TRAINED) if options.run is not None else 0
    print(f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
