#!/usr/bin/python3
"""Activations in fewer bits, and products in fp8: bytes, times, runs and refusals; prints TAP."""
import random
import shutil
import sys

from command import ROOT, Box, answer_of, refused
from tap import report_in

SEED = 43
BLOCKS = 33 / 64  # bytes of mxfp8, as a part of those of 16 bits
LLAMA = ("-m llama-3.1-8b -H h100 -s ddp --gpus 1 --batch 1 --grad-accum 1 --seq 2048 "
         "--set gpu.memory_gib=400 --software ideal --logits-chunks 1")
RUN = "-H rtx4090 --set gpu.memory_gib=2 --data text.txt --backend cpu --batch 2 --commit none"


def ask(box, options):
    answer = box.run(f"simulate {options} --json")
    if answer.status not in (0, 3):
        raise RuntimeError(f"{options}: {answer.err}")
    return answer_of(answer.out)


def held(answer, purpose, tier=None):
    return sum(row["bytes"] for row in answer["ledger"]
               if row["purpose"] == purpose and tier in (None, row["tier"]))


def check_checkpoints(box):
    """Home, links and the passes that code, on a machine whose links are all that takes time."""
    for where in ("gpu", "cpu", "nvme"):
        line = f"{LLAMA} --activation-device {where} --activation-checkpoint-interval 1"
        of_16, of_8 = (ask(box, f"{line} --checkpoint-bits {bits}") for bits in (16, 8))
        for purpose in ("activation-checkpoints", "checkpoint-buffers"):
            sizes = held(of_16, purpose), held(of_8, purpose)
            if abs(sizes[1] - BLOCKS * sizes[0]) > 4096:
                yield f"{where}: {purpose} {sizes}"
        if of_8["settings"]["checkpoint_bits"] != 8 or "checkpoint_bits" in of_16["settings"]:
            yield f"{where}: {of_8['settings']}"
        busy = [{lane["name"]: lane["busy_s"] for lane in answer["lanes"]}
                for answer in (of_16, of_8)]
        if where != "gpu" and not 1 <= busy[1]["d2h"] / busy[0]["d2h"] / BLOCKS < 1.05:  # latency
            yield f"{where}: {busy}"
        # 32 layers store and restore 2048 x 4096 elements: 2 bytes and 33/32 of one each way
        moved = 2 * 32 * 2048 * 4096 * (2 + 33 / 32)
        if not 0.5 < (busy[1]["compute"] - busy[0]["compute"]) / (moved / 3.35e12) < 3:
            yield f"{where}: coding takes {busy[1]['compute'] - busy[0]['compute']} s"


def check_kept(box):
    """Activations of 32 layers, of 12 beside 20 recomputed ones; and of OPT's ReLU."""
    interval = "--activation-checkpoint-interval"
    one = held(ask(box, f"{LLAMA} {interval} 1"), "activations")
    whole = ask(box, f"{LLAMA} {interval} 0")
    layer = (held(whole, "activations") - one) / 31
    for how, layers in (("", 32), ("--recompute-layers 20", 12)):
        coded = ask(box, f"{LLAMA} {how} --kept-bits 8")
        each = (held(coded, "activations") - one) / layers
        if not BLOCKS <= each / layer < 1.02 * BLOCKS:
            yield f"{how}: a layer keeps {each} of {layer} bytes"
    if not ask(box, f"{LLAMA} --kept-bits 8")["step_time_s"] > whole["step_time_s"]:
        yield "storing and restoring take no time"
    opt = LLAMA.replace("llama-3.1-8b", "opt-1.3b")
    plain, one, masked, sparse = (held(ask(box, f"{opt} {how}"), "activations") for how in (
        f"{interval} 0", f"{interval} 1", "--relu-mask on", "--relu-sparsity 0.9"))
    room = (plain - one) / 23  # of one layer, in which what is stored otherwise is made and used
    inner = 2 * 2048 * 8192 * 24  # bytes of the MLP's activation in 24 layers
    for what, held_bytes, stored in (("masks", masked, 1 / 16),
                                     ("sparse storage", sparse, 1.5 * 0.1 + 4 / 256 / 2)):
        if abs((plain + room - held_bytes) / inner - (1 - stored)) > 0.005:
            yield f"{what}: {held_bytes} bytes, without {plain}, a layer {room}"


def check_fp8(box):
    """Faster by less than twice; copies of weights, two on Hopper and sm_120, one on sm_100."""
    for machine, copies in (("dgx-h100", 2), ("dgx-b200", 1), ("rtx-pro-6000", 2)):
        line = LLAMA.replace("-H h100", f"-H {machine}").replace("--seq 2048", "--seq 8192")
        plain, fp8 = (ask(box, f"{line} {how}") for how in ("", "--matmul-dtype fp8"))
        if not 1.05 < plain["step_time_s"] / fp8["step_time_s"] < 2:
            yield f"{machine}: {plain['step_time_s']} s, in fp8 {fp8['step_time_s']} s"
        more = held(fp8, "parameter-buffers") - held(plain, "parameter-buffers")
        weights = 32 * (4096 * (4096 + 1024 + 1024 + 4096) + 3 * 4096 * 14336)
        if not 1 <= more / (copies * weights) < 1.01:
            yield f"{machine}: copies of {more} bytes, of {weights} weights"
        # Of inputs of products backward keeps the cast ones: two of the hidden size and the MLP's,
        # and beside attention's result, which its own backward takes in 16 bits, the projection's.
        kept = [held(ask(box, f"{line} {how} --activation-checkpoint-interval 0"), "activations")
                for how in ("", "--matmul-dtype fp8")]
        if abs(kept[0] - kept[1] - 32 * 8192 * (2 * 4096 + 14336 - 4096)) > 0.01 * kept[0]:
            yield f"{machine}: keeps {kept[1]} bytes, in 16 bits {kept[0]}"
        of_software = ask(box, f"{line} --set software.products.fp8=true")
        if any(of_software[key] != fp8[key] for key in ("step_time_s", "ledger")):
            yield f"{machine}: {fp8['step_time_s']} s, by software {of_software['step_time_s']} s"
    # Parameters in fp8 alone: two copies as large as 16 bits, on sm_100 with mxfp8's scales.
    for machine, scales in (("dgx-h100", 0), ("dgx-b200", weights / 16)):
        line = LLAMA.replace("-H h100", f"-H {machine}") + " --matmul-dtype fp8"
        both, alone = (held(ask(box, f"{line} --set software.memory.fp8_parameters={alone}"),
                            "parameter-buffers") for alone in ("false", "true"))
        of_copies = weights * (2 if scales == 0 else 1)
        if abs(both - alone - (of_copies - scales)) > 0.001 * weights:
            yield f"{machine}: {alone} bytes for parameters in fp8 alone, {both} beside others"
    planned = box.run(f"plan {LLAMA} --matmul-dtype fp8 -o plan.txt")
    if planned.status or " fp8" not in (box.folder / "plan.txt").read_text("utf-8"):
        yield f"not in the plan: {planned.err}"
    answer = box.run("simulate plan.txt -H h100 --set gpu.memory_gib=400")
    if answer.status:
        yield f"not read back: {answer.out} {answer.err}"
    yield from refused(box.run("simulate plan.txt -H rtx4090 --set gpu.memory_gib=400"),
                       ["plan.txt", "fp8", "h100"])


def check_run(box):
    """The memory that a run reserves is that of its plan, and it has the bits of other places."""
    model = ROOT / "tests/fixtures/gpt2-small"
    first = None
    for how in ("--checkpoint-bits 8 --activation-checkpoint-interval 1",
                "--kept-bits 8 --activation-checkpoint-interval 0",
                "--kept-bits 8 --checkpoint-bits 8 --recompute-layers 1",
                "--checkpoint-bits 8 --recompute-layers 1",
                "--checkpoint-bits 8 --recompute-layers 1 --checkpoints activations"):
        first = first if "activations" in how else None # where others are kept changes no bits
        for where in ("gpu", "cpu", "nvme"):
            for name in ("drive", "out"):
                shutil.rmtree(box.folder / name, ignore_errors=True)
            (box.folder / "drive").mkdir()
            answer = box.run(f"run -m {model} {RUN} {how} --steps 3 --activation-device {where} "
                             "--nvme drive --overwrite --save out --json")
            if answer.status:
                yield f"{how} {where}: {answer.err[-300:]}"
                continue
            bits = (box.folder / "out" / "model.safetensors").read_bytes()
            first = first or bits
            if bits != first:
                yield f"{how}: other weights with checkpoints on {where}"
            said = answer_of(answer.out)
            reserved, planned = said["peak_bytes"], said["predicted"]["peak_bytes"]
            if planned["gpu"] != reserved["gpu"] or planned["nvme"] != reserved["nvme"]:
                yield f"{how} {where}: planned {planned}, reserved {reserved}"


def check_resume(box):
    """Other bits are another training."""
    line = (f"run -m {ROOT}/tests/fixtures/gpt2-small {RUN} -s zero-offload --save-every 1 "
            "--nvme drive").replace("--commit none", "")
    for bits, other in (("--checkpoint-bits 8", "--checkpoint-bits 16"),
                        ("--kept-bits 16 --activation-checkpoint-interval 0",
                         "--kept-bits 8 --activation-checkpoint-interval 0")):
        shutil.rmtree(box.folder / "drive", ignore_errors=True)
        (box.folder / "drive").mkdir()
        answer = box.run(f"{line} {bits} --steps 2")
        if answer.status:
            yield f"{bits}: {answer.err[-300:]}"
        yield from refused(box.run(f"{line} {other} --steps 4 --resume"),
                           [" ".join(text.split()[:2]) for text in (bits, other)])


def check_refusals(box):
    run = f"run -m {ROOT}/tests/fixtures/gpt2-small {RUN} --steps 1"
    for line, words in (
            ("simulate -m gpt2 -H h100 --checkpoint-bits 4", ["--checkpoint-bits", "16 or 8"]),
            ("simulate -m gpt2 -H h100 --checkpoint-bits 8 --activation-checkpoint-interval 0",
             ["--checkpoint-bits 8", "--activation-checkpoint-interval 0"]),
            ("simulate -m gpt2 -H h100 --kept-bits 8 --activation-checkpoint-interval 1",
             ["--kept-bits", "--activation-checkpoint-interval 0", "--recompute-layers"]),
            ("simulate -m gpt2 -H h100 --relu-mask on", ["--relu-mask", "ReLU", "OPT"]),
            ("simulate -m opt-1.3b -H h100 --relu-sparsity 0.2", ["--relu-sparsity", "0.34"]),
            ("simulate -m gpt2 -H rtx4090 --matmul-dtype fp8", ["--matmul-dtype", "h100"]),
            ("simulate -m gpt2 -H h100 --matmul-dtype fp8 --dtype fp32", ["--dtype fp32"]),
            ("simulate -m gpt2 -H h100 --matmul-dtype fp8 --train lora:8 --weight-bits 4",
             ["--matmul-dtype fp8", "--weight-bits", "nf4", "leave one out"]),
            (f"{run.replace('rtx4090', 'h100')} --matmul-dtype fp8", ["fp8", "simulated"])):
        yield from refused(box.run(line), words)


def tests(box):
    box.write("text.txt", "".join(random.Random(SEED).choice("abcdefgh \n") for _ in range(20000)))
    yield "checkpoints", check_checkpoints(box)
    yield "kept", check_kept(box)
    yield "fp8", check_fp8(box)
    yield "run", check_run(box)
    yield "resume", check_resume(box)
    yield "refusals", check_refusals(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
