#!/usr/bin/env python3
"""ds_config.json files beside DeepSpeed's own reader.

    PYTHON-WITH-DEEPSPEED tests/peer_deepspeed.py build/cli/memwall

Needs DeepSpeed 0.19 from PyPI; no part of the tests.  Written: what `--write-deepspeed` writes for
plans of every strategy and placement is read by DeepSpeed's DeepSpeedConfig, without a complaint,
to the plan's stage, devices, batch and data type; the buffers for drives hold what DeepSpeed's own
functions put in them, and their bytes are those that a note names.  Read: of files with keys left
out, "auto" and older names, memwall's strategy, batch, data type and overlap are DeepSpeed's.
Prints a line for each difference and a count; status 1 if there is one.
"""
import itertools
import json
import logging
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

os.environ.setdefault("DS_ACCELERATOR", "cpu")
logging.disable(logging.CRITICAL)
from deepspeed.runtime.config import DeepSpeedConfig  # noqa: E402
from deepspeed.runtime.swap_tensor import partitioned_param_swapper  # noqa: E402
from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3  # noqa: E402

GPUS = 8
MACHINE = ["-m", "gpt3-1.3b", "-H", "dgx-a100", "--gpus", str(GPUS)]
STRATEGIES = {  # by stage, whether parameters and optimizer state are offloaded
    (0, False, False): "ddp", (1, False, False): "zero1", (2, False, False): "zero2",
    (3, False, False): "zero3",
}


def theirs(config):
    """What DeepSpeed makes of it, or None where it refuses.  Its reader knows one rank here: of a
    global batch it sees this rank's part."""
    config = json.loads(json.dumps(config))
    if config.get("train_batch_size", 0) % GPUS:
        return None
    if "train_batch_size" in config:
        config["train_batch_size"] //= GPUS
    try:
        read = DeepSpeedConfig(config)
    except Exception:  # pylint: disable=broad-except; pydantic's and its own asserts
        return None
    zero = read.zero_config
    param = zero.offload_param.device if zero.offload_param else "none"
    optimizer = zero.offload_optimizer.device if zero.offload_optimizer else "none"
    return {
        "stage": int(zero.stage), "param": str(param), "optimizer": str(optimizer),
        "overlap": bool(zero.overlap_comm), "micro": read.train_micro_batch_size_per_gpu,
        "accum": read.gradient_accumulation_steps, "optimizer_name": read.optimizer_name,
        "slicing": max(1, read.tensor_parallel_config.autotp_size),
        "sums": read.grad_accum_dtype,
        "dtype": "bf16" if read.bfloat16_config.enabled
                 else "fp16" if read.float16_config.enabled else "fp32",
    }


def strategy_of(read):
    """Below stage 3 nothing is on drives and no parameter is offloaded (stage_1_and_2.py)."""
    if read["stage"] < 3:
        offloads = read["optimizer"] != "none"
        return "zero-offload" if offloads else STRATEGIES[(read["stage"], False, False)]
    if "nvme" in (read["param"], read["optimizer"]):
        return "zero-infinity-nvme"
    if "cpu" in (read["param"], read["optimizer"]):
        return "zero-infinity-cpu" if read["stage"] == 3 else "zero-offload"
    return STRATEGIES[(read["stage"], False, False)]


def memwall(command, folder, *options):
    done = subprocess.run([command, "plan", *MACHINE, "--json", *options], cwd=folder,
                          capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["answers"][0] if done.stdout else {"error": done.stderr}


def fails_later(config):
    """The class that reads the file takes it, and its engine fails as it begins: at stage 0 its CPU
    optimizer gets parameters that are on the GPU.  memwall refuses it."""
    read = theirs(config)
    return read is not None and read["stage"] == 0 and read["optimizer"] != "none"


def check_written(command, folder):
    placements = [[], ["--param-device", "cpu"], ["--optimizer-device", "cpu"],
                  ["--param-device", "nvme", "--optimizer-device", "nvme"],
                  ["--param-device", "cpu", "--optimizer-device", "nvme"]]
    strategies = ["ddp", "zero1", "zero2", "zero3", "zero-offload", "zero-infinity-cpu",
                  "zero-infinity-nvme"]
    for strategy, placement, dtype, overlap in itertools.product(
            strategies, placements, ("bf16", "fp16"), ("on", "off")):
        slicing = 1 if dtype == "bf16" else 2  # of it the file counts a micro-batch for two GPUs
        answer = memwall(command, folder, "-s", strategy, *placement, "--dtype", dtype, "--overlap",
                         overlap, "--batch", str(2 / slicing), "--grad-accum", "4", "--tp",
                         str(slicing), "--write-deepspeed", "new.json")
        if not answer.get("feasible"):
            continue  # not a placement of this strategy
        name = f"{strategy} {' '.join(placement)} {dtype} overlap {overlap}"
        config = json.loads((folder / "new.json").read_text(encoding="utf-8"))
        read = theirs(config)
        if read is None:
            yield name, "DeepSpeed refuses the written file"
            continue
        wrong = {key: (read[key], want) for key, want in
                 {"micro": 2, "accum": 4, "dtype": dtype, "optimizer_name": "adamw",
                  "slicing": slicing, "sums": "fp32" if read["stage"] else None}.items()
                 if read[key] != want}
        if read["stage"] > 0 and read["overlap"] != (overlap == "on"):
            wrong["overlap"] = read["overlap"]
        for key, device in (("param", "param_device"), ("optimizer", "optimizer_device")):
            if read[key].replace("none", "gpu") != answer["settings"][device]:
                wrong[key] = (read[key], answer["settings"][device])
        yield name, wrong or None


LLAMA_8B = [128256 * 4096] + 32 * [
    4096, 4096 * 4096, 1024 * 4096, 1024 * 4096, 4096 * 4096, 4096, 14336 * 4096, 14336 * 4096,
    4096 * 14336] + [4096, 128256 * 4096]


def partitions(gpus):
    return [types.SimpleNamespace(partition_numel=lambda n=-(-size // gpus): n)
            for size in LLAMA_8B]


def largest_sub_group(sizes, sub_group_size):
    """By DeepSpeed's own function, of what stands for an optimizer of these partitions."""
    groups = DeepSpeedZeroOptimizer_Stage3._create_fp16_sub_groups(  # pylint: disable=W0212
        types.SimpleNamespace(sub_group_size=sub_group_size), sizes)
    return max(sum(part.partition_numel() for part in group) for group in groups)


def take_buffer(offload, elements):
    """Whether the parameter swapper has a buffer for as many elements; its own words if not."""
    partitioned_param_swapper.print_rank_0 = lambda *_, **__: None  # asks for the rank
    kind = partitioned_param_swapper.AsyncPartitionedParameterSwapper
    swapper = kind.__new__(kind)
    swapper.__dict__.update(
        elements_per_buffer=offload["buffer_size"], available_buffer_ids=[0],
        aligned_elements_per_buffer=elements, param_id_to_numel={}, param_id_to_buffer_id={},
        param_id_to_swap_buffer={}, numel_alignment=1,
        buffers=types.SimpleNamespace(
            narrow=lambda *_: types.SimpleNamespace(narrow=lambda *_: None)))
    try:
        swapper.get_buffer(types.SimpleNamespace(ds_id=0), elements)
    except AssertionError as error:
        return str(error)
    return None


def check_buffers(command, folder):
    """Of a Llama of 8B parameters: whole partitions in buffers, and the bytes that notes name."""
    for hardware, gpus in (("rtx3090", 1), ("rtx4090", 1), ("dgx-a100", 1), ("dgx-a100", 8)):
        done = subprocess.run(
            [command, "plan", "-m", "llama-3.1-8b", "-H", hardware, "--gpus", str(gpus), "-s",
             "zero-infinity-nvme", "--param-device", "nvme", "--optimizer-device", "nvme",
             "--batch", "1", "--write-deepspeed", "new.json", "--json"],
            cwd=folder, capture_output=True, text=True, check=False)
        name = f"buffers on {gpus} of {hardware}"
        if done.returncode:
            yield name, done.stderr
            continue
        config = json.loads((folder / "new.json").read_text(encoding="utf-8"))
        zero = config["zero_optimization"]
        params, state = zero["offload_param"], zero["offload_optimizer"]
        sizes = partitions(gpus)
        largest = max(part.partition_numel() for part in sizes)
        group = largest_sub_group(sizes, zero["sub_group_size"])
        wrong = take_buffer(params, largest)
        if not wrong and params["buffer_size"] > largest:
            wrong = f"buffer_size {params['buffer_size']}, DeepSpeed needs {largest}"
        if state["buffer_count"] < 4 * (1 + state["pipeline_read"] + state["pipeline_write"]):
            wrong = "too few buffers for what is pipelined"
        theirs_bytes = 2 * params["buffer_count"] * largest + 4 * state["buffer_count"] * group
        note = [text for text in json.loads(done.stdout)["answers"][0]["notes"] if "pins" in text]
        value, unit = re.search(r"pins ([0-9.]+) ([KMG]iB)", note[0]).groups()
        ours = float(value) * {"KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30}[unit]
        if not 0.99 < ours / theirs_bytes < 1.2:  # some products are of several parameters
            wrong = f"{note[0]}: DeepSpeed's are {theirs_bytes / 2 ** 30:.3g} GiB"
        yield name, wrong


def files():
    stages = [None, 0, 1, 2, 3, "auto"]
    devices = [None, "none", "cpu", "nvme", "auto"]
    for stage, param, optimizer in itertools.product(stages, devices, devices):
        zero = {} if stage is None else {"stage": stage}
        if param:
            zero["offload_param"] = {"device": param}
        if optimizer:
            zero["offload_optimizer"] = {"device": optimizer}
        yield {"zero_optimization": zero}
    for extra in ({"cpu_offload": True}, {"cpu_offload": False}, {"overlap_comm": False},
                  {"overlap_comm": True}, {"overlap_comm": "auto"}, {"sub_group_size": 1e9},
                  {"reduce_bucket_size": 0}, {"reduce_bucket_size": 5e8},
                  {"sub_group_size": "auto"},
                  {"offload_optimizer": {"device": "cpu", "ratio": 0.5}}):
        for stage in (1, 2, 3):
            yield {"zero_optimization": {"stage": stage, **extra}}
    for dtype in ({}, {"bf16": {"enabled": True}}, {"fp16": {"enabled": True}},
                  {"bf16": {"enabled": "auto"}}, {"bfloat16": {"enabled": True}},
                  {"fp16": {"enabled": False}, "bf16": {"enabled": False}},
                  {"fp16": {"enabled": True}, "bf16": {"enabled": True}}):
        yield {"zero_optimization": {"stage": 2}, **dtype}
    for batch in ({"train_batch_size": 64}, {"train_batch_size": 64,
                                             "train_micro_batch_size_per_gpu": 4},
                  {"train_batch_size": 64, "gradient_accumulation_steps": 2},
                  {"train_micro_batch_size_per_gpu": 4}, {"train_batch_size": 65},
                  {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}):
        yield {"zero_optimization": {"stage": 2}, **batch}
    yield {"zero_optimization": {"stage": 2, "overlap_com": True}}
    for zero in (True, False, [], "on", 1):
        yield {"zero_optimization": zero}
    for stage in ("3", " 3", "+2", "2.0", "0_2", "1_0", "4", "", True, False, 2.0, 2.5, "two"):
        yield {"zero_optimization": {"stage": stage}}
    for value in (0, 1, 2, 1.0, 0.5, "true", "True", "YES", "on", "t", "y", "1", "0", "off", "f",
                  "n", "no", " yes", ""):
        yield {"zero_optimization": {"stage": 2, "overlap_comm": value}}
        yield {"zero_optimization": {"stage": 2}, "bf16": {"enabled": value}}
        yield {"zero_optimization": {"stage": 2, "cpu_offload": value}}
    for value in ("1000000", "1e9", "1_000_000", " 5000000 ", "1000.5", "0x10", "-1"):
        yield {"zero_optimization": {"stage": 3, "sub_group_size": value}}
        yield {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
                                                                       "ratio": value}}}
    for ratio in ("0.5", "1.0", "1e-1", True, "x"):
        for stage in (0, 3):
            yield {"zero_optimization": {"stage": stage, "offload_optimizer": {
                "device": "none" if stage == 0 else "cpu", "ratio": ratio}}}
    for key in ("mics_shard_size", "mics_hierarchical_params_gather", "zeropp_loco_param"):
        yield {"zero_optimization": {"stage": 2, key: None}}
    for key in ("amp", "elasticity", "nebula", "sparse_gradients", "sparse_attention", "eigenvalue",
                "curriculum_learning", "compression_training", "progressive_layer_drop",
                "graph_harvesting", "quantize_training", "hybrid_engine", "flops_profiler"):
        yield {"zero_optimization": {"stage": 2}, key: {}}
    yield {"zero_optimization": {"stage": 2, "cpu_offload": True,
                                 "offload_optimizer": {"device": "cpu"}}}
    for name in ("stage", "overlap_comm", "sub_group_size", "offload_param", "offload_optimizer",
                 "cpu_offload", "cpu_offload_param", "zenflow", "leaf_module", "reduce_scatter",
                 "contiguous_gradients", "cpu_offload_use_pin_memory"):
        yield {"zero_optimization": {name: None}}
    for name in ("zero_optimization", "optimizer", "fp16", "bf16", "bfloat16", "aio", "data_types",
                 "tensor_parallel", "activation_checkpointing", "gradient_clipping"):
        yield {"zero_optimization": {"stage": 2}, name: None}
    for name in ("prefetch_bucket_size", "max_live_parameters", "max_reuse_distance",
                 "param_persistence_threshold", "model_persistence_threshold",
                 "gather_16bit_weights_on_model_save", "module_granularity_threshold",
                 "use_all_reduce_for_fetch_params", "allgather_sequential"):
        yield {"zero_optimization": {"stage": 3, name: 1}}
        yield {"zero_optimization": {"stage": 3, f"stage3_{name}": 1}}
    yield {"zero_optimization": {"stage": 3, "cpu_offload_params": True}}
    for dtype in ("fp32", "bf16", "float32"):
        yield {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True},
               "data_types": {"grad_accum_dtype": dtype}}


def differences(answer, read, config):
    """Between memwall's plan and DeepSpeed's reading."""
    notes = " ".join(answer["notes"])
    if "refuses" in notes:
        yield f"DeepSpeed takes it; notes: {notes}"
    if answer["strategy"] != strategy_of(read):
        yield f"strategy {answer['strategy']}, DeepSpeed's is {strategy_of(read)}"
    if read["dtype"] != "fp32" and answer["settings"]["dtype"] != read["dtype"]:
        yield f"dtype {answer['settings']['dtype']}, DeepSpeed's is {read['dtype']}"
    if (read["dtype"] == "fp32") != ("trains in fp32; planned in 16 bits" in notes):
        yield f"DeepSpeed's dtype is {read['dtype']}; notes: {notes}"
    if read["stage"] > 0 and answer["overlap"] != read["overlap"]:
        yield f"overlap {answer['overlap']}, DeepSpeed's is {read['overlap']}"
    sizes = answer["settings"]
    if "train_batch_size" not in config or len(config) > 2:  # else it may be cut at will
        if (sizes["micro_batch"], sizes["grad_accum"]) != (read["micro"], read["accum"]):
            yield f"batch {sizes['micro_batch']} x {sizes['grad_accum']}, DeepSpeed's is " \
                  f"{read['micro']} x {read['accum']}"


def check_read(command, folder):
    for config in files():
        config = {"train_micro_batch_size_per_gpu": 1, **config} \
            if not any("batch" in key for key in config) else config
        (folder / "asked.json").write_text(json.dumps(config), encoding="utf-8")
        answer = memwall(command, folder, "--deepspeed", "asked.json", "--write-deepspeed",
                         "again.json")
        if answer.get("feasible"):
            again = json.loads((folder / "again.json").read_text(encoding="utf-8"))
            answer["overlap"] = again["zero_optimization"].get("overlap_comm", True)
        read = theirs(config)
        name = json.dumps(config)
        if read is None:
            refused = "error" in answer or "refuses" in " ".join(answer["notes"])
            yield name, None if refused else "DeepSpeed refuses it and memwall says nothing"
        elif fails_later(config):
            yield name, None if "at zero_optimization.stage 0" in answer.get("error", "") else \
                "not refused"
        elif "error" in answer:
            yield name, f"memwall refuses: {answer['error'].strip()}"
        else:
            yield name, "; ".join(differences(answer, read, config)) or None


def main():
    command = str(pathlib.Path(sys.argv[1]).resolve())
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        for check in (check_buffers, check_written, check_read):
            count = 0
            for what, difference in check(command, pathlib.Path(name)):
                count += 1
                if difference:
                    wrong += 1
                    print(f"{what}: {difference}")
            print(f"{check.__name__}: {count} files")
    print(f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
