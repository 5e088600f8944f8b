#!/usr/bin/python3
"""Ways to offload beside ZeRO's: where the update runs, parts of a state on the GPU, micro-batches
layer by layer, activations that are swapped; prints TAP.

Bytes and traffic of plans are those of the sources' formulas; a run has the bits of one without.
"""
import json
import random
import shutil
import sys

from command import ROOT, Box, answer_of, refused
from tap import MPIRUN, RANKS_ENVIRONMENT, Skip, has_ranks, report_in

SEED = 43
PARAMS = 8_030_261_248  # of Llama 3.1 8B: two ends of the model, 32 layers, and the final norm
END = 128256 * 4096
LAYERS = PARAMS - 2 * END - 4096
HOST = ("streamed-update", "zero-offload++", "l2l", "geeps")
EIGHT = "-m llama-3.1-8b --gpus 1 --software ideal --batch 1 --seq 1024 --logits-chunks 1"
MACHINES = ("h100", "rtx4090", "dgx-a100", "lambda-gh200")


def ask(box, options):
    answer = box.run(f"simulate {options} --json")
    if answer.status not in (0, 3):
        raise RuntimeError(f"{options}: {answer.err}")
    return answer_of(answer.out)


def held(answer, purpose, tier=None):
    return sum(row["bytes"] for row in answer["ledger"]
               if row["purpose"] == purpose and tier in (None, row["tier"]))


def traffic(box, options):
    """Bytes of a plan's ops by kind and what they move."""
    planned = box.run(f"plan {options} -o plan.txt")
    if planned.status:
        raise RuntimeError(f"{options}: {planned.err}")
    works, moved = {}, {}
    for line in (box.folder / "plan.txt").read_text("utf-8").splitlines():
        words = line.split()
        if words[0] == "work":
            works[words[1]] = (words[2], words[3], int(words[words.index("bytes") + 1]))
        elif words[0] == "op":
            kind, what, size = works[words[words.index("work") + 1]]
            moved[kind, what] = moved.get((kind, what), 0) + size
    if box.run("simulate plan.txt -H h100 --set gpu.memory_gib=400").status:
        raise RuntimeError(f"{options}: the plan is not read back")
    return moved


def near(what, value, wanted, share=2e-3):
    if abs(value - wanted) > share * wanted:
        yield f"{what}: {value}, {wanted:.0f} by hand"


def check_list(box):
    rows = {row["strategy"]: row
            for row in json.loads(box.run("list strategies --json").out)["strategies"]}
    for name in HOST:
        row = rows.get(name, {})
        if not row.get("source") or not row.get("runs") or row.get("tried_by_auto"):
            yield f"{name}: {row}"
        if row.get("source", "?") not in box.run("list strategies").out.decode():
            yield f"{name}: its source is not in the table"
    for model, machine in (("gpt2", "rtx4090"), ("llama-3.1-8b", "h100"), ("gpt3-13b", "rtx3090")):
        found = ask(box, f"-m {model} -H {machine} --grad-accum 2")["strategy"]
        if not rows[found]["tried_by_auto"]:
            yield f"{model} on {machine}: auto takes {found}"


def check_streamed(box):
    """State of 12 bytes goes to the GPU and back once per step, gradients with it."""
    line = f"{EIGHT} -H h100 -s streamed-update --grad-accum 2 --param-device gpu --commit none"
    for places, gradients, drives in (
            ("--optimizer-device cpu --gradient-device gpu", 0, 0),
            ("--optimizer-device cpu --gradient-device cpu", 4, 0),
            ("--optimizer-device nvme --gradient-device gpu", 0, 12),
            ("--optimizer-device cpu --gradient-device nvme", 4, 0),
            ("--optimizer-device nvme --gradient-device nvme", 4, 12)):
        moved = traffic(box, f"{line} {places}")
        yield from near(f"{places}, up", moved["h2d", "optimizer"], (12 + gradients) * PARAMS)
        yield from near(f"{places}, back", moved["d2h", "optimizer"], 12 * PARAMS)
        if drives:
            yield from near(f"{places}, written", moved["nvme-write", "optimizer"], 12 * PARAMS)
        if ("h2d", "updated") in moved:
            yield f"{places}: parameters that were updated on the GPU come there again"
    buffers = held(ask(box, f"{line} --optimizer-device cpu --gradient-device gpu "
                            "--optimizer-chunk 10M --buffer-sets 3"
                            .replace("10M", "10000000")), "optimizer-buffers", "gpu")
    yield from near("buffers on the GPU", buffers, 3 * 12 * 1e7, 0.05)


def check_streamed_time(box):
    """With links that take no time the update is as fast as that of state that rests on the GPU."""
    line = f"{EIGHT} -H h100 --grad-accum 2 --activation-checkpoint-interval 1"
    large = "--set gpu.memory_gib=400"
    fast = " ".join(f"--set {key}_gb_per_s=100000" for key in
                    ("pcie.h2d", "pcie.d2h", "pcie.node_h2d", "pcie.node_d2h", "host.memory"))
    places = "-s streamed-update --optimizer-device cpu --gradient-device gpu --param-device gpu"
    resident = ask(box, f"{line} {large} -s zero3")["step_time_s"]
    streamed = ask(box, f"{line} {large} {fast} {places}")["step_time_s"]
    if not 0.99 < streamed / resident < 1.05:
        yield f"{streamed} s with fast links, {resident} s with state on the GPU"
    slow = ask(box, f"{line} {large} {places}")["step_time_s"]
    each_way = 12 * PARAMS / 55e9
    if not resident + 0.8 * each_way < slow < resident + 2.2 * each_way:
        yield f"{slow} s; {resident} s on the GPU, and {each_way} s each way"


def check_parts(box):
    """A share of the state is on the GPU and updated there, by option or by DeepSpeed's ratio."""
    line = f"{EIGHT} -H h100 -s zero-offload++ --grad-accum 2"
    steps, hosts = {}, {}
    for share in (10, 25, 50):
        answer = ask(box, f"{line} --optimizer-device gpu:{share}%,cpu")
        on_gpu = held(answer, "optimizer-state", "gpu")
        chunk = 2 * 12 * (32 << 20)  # a chunk, and a tensor's last piece
        if not -1e-3 * on_gpu < share / 100 * 12 * PARAMS - on_gpu < chunk:
            yield f"{share}%: {on_gpu} bytes of state on the GPU"
        steps[share] = answer["step_time_s"]
        hosts[share] = [lane["busy_s"] for lane in answer["lanes"] if lane["name"] == "host"][0]
    if not steps[50] < steps[25] < steps[10]:
        yield f"steps {steps}"
    yield from near("host lane", hosts[50] / hosts[10], 50 / 90, 0.05)
    chosen = ask(box, line)
    settings = chosen["settings"]
    if not settings["optimizer_device"].startswith("gpu:") or \
            settings["optimizer_device"] != settings["gradient_device"] or \
            chosen["peak_bytes"]["gpu"] < 0.93 * 78.6 * 2**30:
        yield f"as much as has room: {settings}, {chosen['peak_bytes']}"
    file = {"bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 2, "optimizer": {"type": "AdamW"},
            "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
                                                                    "ratio": 0.75}}}
    box.write("ds.json", file)
    read = ask(box, f"-m llama-3.1-8b --gpus 1 --software ideal --seq 1024 --logits-chunks 1 "
                    "-H h100 --deepspeed ds.json")
    if read["strategy"] != "zero-offload++" or read["step_time_s"] != steps[25]:
        yield f"ratio 0.75: {read['strategy']}, {read['step_time_s']} s; {steps[25]} s by option"
    written = box.run(f"plan {line} --optimizer-device gpu:25%,cpu --write-deepspeed out.json")
    zero = json.loads((box.folder / "out.json").read_text("utf-8"))["zero_optimization"]
    if written.status or zero["offload_optimizer"].get("ratio") != 0.75:
        yield f"written: {written.err} {zero}"


ALL_ON_CPU = "--param-device cpu --gradient-device cpu --optimizer-device cpu"


def check_layers(box):
    """A layer is loaded once for forward and once for backward, and its gradients' sum leaves once,
    whatever the micro-batches."""
    found = {}
    for accum in (2, 5):
        line = f"{EIGHT} -H h100 -s l2l --grad-accum {accum} --activation-device gpu"
        moved = traffic(box, line)
        yield from near(f"{accum} micro-batches", moved["h2d", "parameters"],
                        2 * (2 * END + 2 * LAYERS))
        yield from near("sums", moved["d2h", "gradients"], 4 * PARAMS)
        yield from near("added up on the GPU", moved["accumulate", "gradients"],
                        PARAMS * (6 + 10 * (accum - 1)))
        answer = found[accum] = ask(box, line)
        each = 2 * 1024 * 4096
        yield from near("checkpoints", held(answer, "activation-checkpoints"), 32 * accum * each)
        yield from near("boundaries", held(answer, "stage-buffers"), accum * each)
        if answer["settings"].get("micro_batch_order") != "layer":
            yield f"{answer['settings']}"
    depth = traffic(box, f"{EIGHT} -H h100 -s zero-infinity-cpu --grad-accum 5 {ALL_ON_CPU} "
                    "--activation-checkpoint-interval 1")
    yield from near("depth", depth["h2d", "parameters"], 5 * 2 * (3 * END + 3 * LAYERS))
    yield from near("gradients, depth", depth["d2h", "gradients"], 5 * 2 * PARAMS)
    # Sums of two groups, in 4 bytes, and gradients on their way: a few parts of the largest.
    sums = held(found[5], "gradient-buffers", "gpu")
    if not 2 * 4 * LAYERS / 32 < sums < 30 * max(2 * LAYERS / 32, 2 * END):
        yield f"buffers of {sums} bytes for gradients"
    if held(found[2], "gradient-buffers", "gpu") != sums:
        yield "buffers for gradients depend on the micro-batches"
    # Two layers of parameters on the GPU: the one that is computed, and the one that comes.
    layer = 2 * LAYERS / 32
    buffers = held(found[5], "parameter-buffers", "gpu")
    if not 2 * layer < buffers < 12 * max(layer, 2 * END):
        yield f"buffers of {buffers} bytes, a layer takes {layer}"
    one = ask(box, f"{EIGHT} -H h100 -s l2l --grad-accum 1")
    if "micro_batch_order" in one["settings"]:
        yield f"one micro-batch: {one['settings']}"


def check_layers_time(box):
    """Where links decide, more micro-batches cost little but compute."""
    slow = "--set pcie.h2d_gb_per_s=4 --set pcie.node_h2d_gb_per_s=4"
    line = f"{EIGHT} -H h100 {slow} -s zero-infinity-cpu {ALL_ON_CPU}"
    steps = {(order, accum): ask(box, f"{line} --grad-accum {accum} "
                                      f"--micro-batch-order {order}")["step_time_s"]
             for order in ("layer", "depth") for accum in (2, 4)}
    if steps["layer", 4] > 1.3 * steps["layer", 2] or steps["depth", 4] < 1.8 * steps["depth", 2]:
        yield f"{steps}"


def check_swapped(box):
    """All activations of a layer leave and come back once, and none is computed again."""
    line = f"{EIGHT} -H h100 --grad-accum 2 --set gpu.memory_gib=400"
    kept = ask(box, f"{line} -s ddp --activation-checkpoint-interval 0")
    all_on_cpu = "--param-device gpu --optimizer-device gpu --activation-device cpu"
    swapped = ask(box, f"{line} -s geeps {all_on_cpu}")
    layer = (held(kept, "activations") - held(swapped, "activations")) / 30
    yield from near("homes", held(swapped, "activation-checkpoints", "cpu"), 32 * layer)
    moved = traffic(box, f"{line} -s geeps {all_on_cpu}")
    for way in ("d2h", "h2d"):
        yield from near(way, moved[way, "checkpoint"], 2 * 32 * layer)
    busy = [[lane["busy_s"] for lane in answer["lanes"] if lane["name"] == "compute"][0]
            for answer in (kept, swapped)]
    yield from near("compute", busy[1], busy[0], 1e-3)
    # GPU memory first: what is not there is no more than must be.
    small = ask(box, f"{EIGHT} -H h100 --grad-accum 2 -s geeps --activation-device cpu")
    if not small["feasible"] or small["peak_bytes"]["gpu"] < 0.9 * 78 * 2**30 or \
            small["settings"]["param_device"] != "gpu" or \
            not small["settings"]["optimizer_device"].startswith("gpu:"):
        yield f"{small['settings']} {small['peak_bytes']}"


def check_machines(box):
    """On any machine a step takes at least what its busiest lane does, and the closed form is of
    the same step."""
    for machine in MACHINES:
        for name in HOST:
            answer = ask(box, f"-m gpt2-xl -H {machine} -s {name} --grad-accum 3 --software ideal")
            if not answer["feasible"]:
                yield f"{name} on {machine} does not fit"
                continue
            step, busy = answer["step_time_s"], max(lane["busy_s"] for lane in answer["lanes"])
            if not busy <= step * (1 + 1e-9) or not 0.1 < answer["mfu"] < 1 or \
                    not step < 1.05 * answer["closed_form"]["plan"]:
                yield f"{name} on {machine}: {step} s, busiest lane {busy} s, MFU " \
                      f"{answer['mfu']}, closed form {answer['closed_form']['plan']} s"


RUN = "-H rtx4090 --set gpu.memory_gib=2 --data text.txt --backend cpu --batch 2 --steps 4 " \
      "--grad-accum 3 --nvme drive"
STREAMED = "-s zero-infinity-nvme --update-on gpu"
RUNS = ("-s streamed-update", "-s zero-offload++", "-s l2l", "-s geeps",
        "-s zero-offload++ --optimizer-device gpu:37.5%,cpu",
        f"{STREAMED} --optimizer-device nvme --gradient-device cpu --param-device cpu "
        "--commit step",
        f"{STREAMED} --optimizer-device nvme --gradient-device nvme --param-device nvme",
        f"{STREAMED} --optimizer-device cpu --gradient-device nvme --param-device gpu",
        f"{STREAMED} --optimizer-device gpu:10%,cpu:33%,nvme --gradient-device gpu:50%,cpu",
        "-s l2l --prefetch 0 --activation-device cpu", "-s l2l --prefetch 3 --tiles 1",
        "-s l2l --activation-checkpoint-interval 2 --activation-device gpu:50%,cpu",
        "-s zero-infinity-nvme --micro-batch-order layer --param-device nvme "
        "--optimizer-device nvme --activation-device nvme",
        "-s geeps --activation-device cpu --param-device cpu --optimizer-device cpu",
        "-s geeps --activation-device gpu:40%,cpu --prefetch 0",
        "-s zero-infinity-nvme --checkpoints activations --activation-device nvme")


def check_bits(box, name):
    model = ROOT / f"tests/fixtures/{name}"
    first = None
    for options in ("-s ddp --commit none", *RUNS):
        for folder in ("drive", "out"):
            shutil.rmtree(box.folder / folder, ignore_errors=True)
        (box.folder / "drive").mkdir()
        commit = "" if "--commit" in options else "--commit none"
        answer = box.run(f"run -m {model} {RUN} {options} {commit} --overwrite --save out")
        if answer.status:
            yield f"{options}: {answer.err.strip()[-300:]}"
            continue
        bits = (box.folder / "out" / "model.safetensors").read_bytes()
        first = first or bits
        if bits != first:
            yield f"{options}: other weights"


def check_ranks(box):
    if not has_ranks():
        yield Skip("no mpirun, or a build without MPI")
        return
    box.environment.update(RANKS_ENVIRONMENT)
    line = f"run -m {ROOT}/tests/fixtures/gpt2-small {RUN} --gpus 2 --commit none --overwrite " \
           "--save out"
    line = line.replace("-H rtx4090", "-H 2xrtx4090").replace("--steps 4", "--steps 2")
    found = {}
    for options in ("-s zero3", "-s l2l", "-s streamed-update",
                    "-s geeps --activation-device cpu --param-device cpu --optimizer-device cpu",
                    f"{STREAMED} --micro-batch-order layer --partition owner --param-device nvme "
                    "--optimizer-device nvme"):
        for folder in ("drive", "out"):
            shutil.rmtree(box.folder / folder, ignore_errors=True)
        (box.folder / "drive").mkdir()
        answer = box.run(f"{line} {options}", prefix=[*MPIRUN, "2"])
        if answer.status:
            yield f"{options}: {answer.err.strip()[-300:]}"
            continue
        found[options] = (box.folder / "out" / "model.safetensors").read_bytes()
        if found[options] != found["-s zero3"]:
            yield f"{options}: other weights"


def check_resumed(box):
    """State that passes the GPU is as durable as any: a resume ends where one run would have."""
    model = ROOT / "tests/fixtures/gpt2-small"
    options = f"{STREAMED} --optimizer-device nvme --gradient-device cpu --param-device cpu"
    found = []
    for steps in ((4,), (2, 4)):
        shutil.rmtree(box.folder / "drive", ignore_errors=True)
        (box.folder / "drive").mkdir()
        for at, until in enumerate(steps):
            shutil.rmtree(box.folder / "out", ignore_errors=True)
            line = f"run -m {model} {RUN} {options} --commit step --overwrite"
            line = "run --resume --nvme drive --steps 4" if at else \
                line.replace("--steps 4", f"--steps {until}")
            answer = box.run(f"{line} --save out")
            if answer.status:
                yield f"{steps}: {answer.err.strip()[-300:]}"
        found.append((box.folder / "out" / "model.safetensors").read_bytes())
    if found[0] != found[1]:
        yield "a resume ends with other weights"


def check_refusals(box):
    for options, words in (
            ("--optimizer-device gpu:0%,cpu", ["--optimizer-device", "between 0% and 100%"]),
            ("--optimizer-device gpu:100%,cpu", ["--optimizer-device", "between 0% and 100%"]),
            ("--optimizer-device gpu:x%,cpu", ["--optimizer-device", "20%"]),
            ("-s zero-offload --update-on gpu --dpu-start 3", ["--update-on gpu", "--dpu-start"]),
            ("--update-on drive", ["--update-on drive", "host or gpu"]),
            ("--optimizer-device cpu:10%", ["--optimizer-device", "cpu:10%", "gpu:20%,cpu"]),
            ("--param-device gpu:20%,cpu:10%", ["--param-device", "gpu:20%,cpu"]),
            ("-s l2l --activation-checkpoint-interval 0",
             ["-s l2l", "--activation-checkpoint-interval 0"]),
            ("-s l2l --param-loads 3", ["-s l2l", "--param-loads 3"]),
            ("-s l2l --checkpoint-bits 8", ["-s l2l", "--checkpoint-bits 8"]),
            ("-s zero3 --micro-batch-order layer --recompute-layers 2",
             ["--micro-batch-order layer", "--recompute-layers"]),
            ("-s geeps --activation-checkpoint-interval 2",
             ["-s geeps", "--activation-checkpoint-interval"]),
            ("-s zero3 --checkpoints activations --param-loads 2",
             ["--checkpoints activations", "--param-loads 2"])):
        yield from refused(box.run(f"simulate -m gpt2 -H rtx4090 --grad-accum 2 {options}"), words)


# What leaves nothing of what a strategy is named for, and the strategy that does it.
CONTRADICTIONS = {
    "-s streamed-update --update-on host": "-s zero-infinity-nvme",
    "-s geeps --update-on host": "-s zero-infinity-cpu",
    "-s zero-offload --update-on gpu": "-s streamed-update",
    "-s l2l --update-on gpu": "-s streamed-update",
    "-s zero-offload++ --update-on gpu": "-s geeps",
    "-s l2l --micro-batch-order depth": "-s zero-infinity-cpu",
    "-s l2l --param-device gpu": "-s zero-infinity-cpu",
    "-s l2l --optimizer-device gpu": "-s zero-infinity-cpu",
    "-s zero-offload --optimizer-device gpu": "-s zero2",
    "-s zero-offload --optimizer-device gpu --dpu-start 3": "--optimizer-device cpu",
    "-s zero-offload --optimizer-device nvme": "-s zero-infinity-nvme",
    "-s zero-infinity-cpu --optimizer-device nvme": "-s zero-infinity-nvme",
    "-s zero-infinity-cpu --param-device cpu:1MB,nvme": "-s zero-infinity-nvme",
    "-s zero-infinity-cpu --gradient-device nvme": "-s zero-infinity-nvme",
    "-s geeps --optimizer-device nvme": "-s streamed-update",
    "-s zero-offload++ --optimizer-device nvme": "-s zero-infinity-nvme",
    "-s l2l --optimizer-device nvme": "-s zero-infinity-nvme"}
# What other strategies leave open, and what no other strategy has together.
TAKEN = ("-s zero3 --optimizer-device nvme", "-s zero2 --optimizer-device cpu",
         "--optimizer-device nvme", "-s zero-infinity-nvme --optimizer-device gpu "
         "--param-device gpu --gradient-device gpu", "-s zero-infinity-cpu --update-on gpu",
         "-s zero-infinity-cpu --activation-device nvme", "-s zero-offload --optimizer muon",
         "-s zero-offload --optimizer-device nvme --dpu-start 3",
         "-s zero-offload --optimizer-device gpu:20%,cpu", "-s zero-offload --gradient-device gpu",
         "-s zero-offload --update-on host", "-s geeps --update-on gpu",
         "-s l2l --micro-batch-order layer --update-on host")


def check_contradictions(box):
    """One line names the option, the strategy, and another one, which does take what was asked."""
    ask_for = "simulate -m gpt2 -H rtx4090 --grad-accum 2"
    for options, instead in CONTRADICTIONS.items():
        _, strategy, option, value = options.split()[:4]
        yield from refused(box.run(f"{ask_for} {options}"), [f"{option} {value}: ", strategy,
                                                             instead])
        if instead.startswith("-s"):
            other = box.run(f"{ask_for} {options.replace(f'-s {strategy}', instead)}")
            if other.status:
                yield f"{options}: {instead} is refused too: {other.err.strip()}"
    for options in TAKEN:
        taken = box.run(f"{ask_for} {options}")
        if taken.status:
            yield f"{options}: {taken.err.strip()}"


def tests(box):
    box.write("text.txt", "".join(random.Random(SEED).choice("abcdefgh \n") for _ in range(20000)))
    yield "list", check_list(box)
    yield "contradictions", check_contradictions(box)
    yield "streamed", check_streamed(box)
    yield "streamed, time", check_streamed_time(box)
    yield "parts", check_parts(box)
    yield "layers", check_layers(box)
    yield "layers, time", check_layers_time(box)
    yield "swapped", check_swapped(box)
    yield "machines", check_machines(box)
    for name in ("llama-small", "gpt2-small"):
        yield f"bits/{name}", check_bits(box, name)
    yield "ranks", check_ranks(box)
    yield "resumed", check_resumed(box)
    yield "refusals", check_refusals(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
