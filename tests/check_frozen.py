#!/usr/bin/python3
"""`--train` and `--weight-bits`: parameters that a run leaves as they are; prints TAP.

After a step from the same weights, what is trained has the bits of a run that trains all, and the
rest those of the start; the bits are the same with every placement, and by a plan from a file.
Bytes and FLOPs that are predicted are those of a count by hand.
"""
import json
import random
import shutil
import struct
import sys

from command import ROOT, Box, answer_of, refused
from tap import report_in

SEED = 29
MACHINE = "-H rtx4090 --set gpu.memory_gib=2"
MODELS = {"gpt2-small": {"qkv": ("attn.c_attn",), "norm1": ("ln_1",), "embedding": ("wte", "wpe")},
          "llama-small": {"qkv": ("q_proj", "k_proj", "v_proj"), "norm1": ("input_layernorm",),
                          "embedding": ("embed_tokens",)}}
NORM2 = ["ln_2", "post_attention_layernorm"]
PLACEMENTS = {
    "on the GPU": "-s ddp",
    "on cores": "-s zero-offload",
    "on cores, parameters too": "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu",
    "on drives": "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme "
                 "--gradient-device nvme --nvme drive",
}


def model(name):
    return f"-m {ROOT}/tests/fixtures/{name}/config.json"


def tensors(box, folder):
    data = (box.folder / folder / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    return {name: data[8 + length + at["data_offsets"][0]:8 + length + at["data_offsets"][1]]
            for name, at in header.items() if name != "__metadata__"}


def train(box, name, options, folder):
    for old in ("drive", folder):
        shutil.rmtree(box.folder / old, ignore_errors=True)
    (box.folder / "drive").mkdir()
    answer = box.run(f"run {name} {MACHINE} --data text.txt --backend cpu --lr 2e-3 --batch 2 "
                     f"--commit none --overwrite --save {folder} {options}")
    if answer.status:
        yield f"{options}: status {answer.status}: {answer.err.strip()[-300:]}"


def is_of(name, words):
    return any(f"{word}." in name or name.endswith(word) for word in words)


def check_one_step(box, name, operators):
    """Without clipping an update depends on its own gradient alone."""
    words = [word for operator in operators for word in MODELS[name][operator]]
    for options, folder in (("", "all"), (f"--train {','.join(operators)}", "some"),
                            ("--train norm2", "start")):
        yield from train(box, model(name), f"-s ddp --clip 0 --steps 1 {options}", folder)
    whole, some, start = (tensors(box, folder) for folder in ("all", "some", "start"))
    if whole.keys() != some.keys():
        yield "other tensors were saved"
        return
    trained = 0
    for key, bits in some.items():
        trained += is_of(key, words)
        if is_of(key, words) and (bits != whole[key] or bits == start[key]):
            yield f"{key}: is trained, and differs from the run that trains all"
        if not is_of(key, words) and whole[key] == bits:
            yield f"{key}: is not trained, and has moved as in the run that trains all"
        if not is_of(key, words + NORM2) and bits != start[key]:
            yield f"{key}: is not trained, and is not as it was"
    if not trained:
        yield "nothing was trained"


def check_placements(box, name, options):
    first = None
    for what, placement in PLACEMENTS.items():
        yield from train(box, model(name), f"{placement} --steps 6 {options}", "out")
        bits = (box.folder / "out" / "model.safetensors").read_bytes()
        first = first or bits
        if bits != first:
            yield f"{what}: other weights"


def check_file(box, name):
    options = f"{PLACEMENTS['on cores, parameters too']} --batch 2 --train norm1,qkv"
    yield from train(box, model(name), f"{options} --steps 6", "own")
    planned = box.run(f"plan {model(name)} {MACHINE} {options} --commit none "
                      "--software memwall -o plan.txt")
    shutil.rmtree(box.folder / "other", ignore_errors=True)
    if planned.status:
        yield planned.err
    answer = box.run(f"run --plan plan.txt {MACHINE} --data text.txt --backend cpu --lr 2e-3 "
                     "--steps 6 --overwrite --save other")
    if answer.status:
        yield f"status {answer.status}: {answer.err.strip()[-300:]}"
    if tensors(box, "own") != tensors(box, "other"):
        yield "other weights"


def check_bytes(box):
    """Llama 3.1 70B by its dimensions: nf4 has 36 bytes for 64 weights of the layers' products."""
    hidden, layers, heads, ffn, vocab = 8192, 80, 8192 + 2 * 1024, 28672, 128256
    products = layers * hidden * (heads + hidden + 3 * ffn)
    norms = 2 * layers * hidden
    expected = {"parameters": products * 36 // 64 + 2 * (2 * vocab * hidden + norms + hidden),
                "gradients": 2 * norms, "optimizer-state": 12 * norms}
    answer = box.run("simulate -m llama-3.1-70b -H rtx4090 -s zero-infinity-cpu --batch 1 "
                     "--seq 1024 --json --train norm1,norm2 --weight-bits 4")
    if answer.status:
        yield answer.err
        return
    ledger = {row["purpose"]: row["bytes"] for row in answer_of(answer.out)["ledger"]
              if row["tier"] == "cpu"}
    for purpose, count in expected.items():
        # The parts of the logits' weight are padded by the final norm.
        if not count <= ledger.get(purpose, 0) <= count + 4 * hidden * (purpose == "parameters"):
            yield f"{purpose}: {ledger.get(purpose)} bytes, {count} by hand"


def check_activations(box):
    """Kept by a layer of Llama 3.1 8B: inputs of norms, q, k, v, attention's result with a sum for
    each row, gate and up; the inputs of products too where these are trained."""
    tokens, hidden, kv, ffn, heads, layers = 2048, 4096, 1024, 14336, 32, 32
    always = 2 * tokens * (4 * hidden + 2 * kv + 2 * ffn) + 4 * tokens * heads
    working = 2 * 2 * tokens * 2 * ffn
    for options, width in (("", 2 * hidden + ffn), ("--train norm1,norm2", 0),
                           ("--train projection,logits", 0), ("--train mlp-up,norm1", hidden),
                           ("--train mlp-down", ffn)):
        expected = layers * (always + 2 * tokens * width) + working
        answer = box.run("simulate -m llama-3.1-8b -H h100 -s ddp --gpus 1 --batch 1 --seq 2048 "
                         "--activation-checkpoint-interval 0 --logits-chunks 1 --json "
                         f"--set gpu.memory_gib=400 {options}")
        if answer.status:
            yield f"{options}: {answer.err}"
            continue
        planned = sum(row["bytes"] for row in answer_of(answer.out)["ledger"]
                      if row["purpose"] == "activations")
        if not expected <= planned <= expected + 64 * 4096:  # slots are whole pages
            yield f"{options}: {planned} bytes, {expected} by hand"


def check_time(box):
    """Of frozen weights backward has one product instead of two, and narrow ones are widened."""
    times = {}
    for options in ("", "--train norm1", "--train norm1 --weight-bits 8"):
        answer = box.run("simulate -m llama-3.1-8b -H h100 -s ddp --gpus 1 --batch 1 --seq 2048 "
                         f"--software ideal --json --set gpu.memory_gib=400 {options}")
        if answer.status:
            yield f"{options}: {answer.err}"
            return
        times[options] = {row["name"]: row["end_s"] - row["start_s"]
                          for row in answer_of(answer.out)["phases"]}
    whole, frozen, narrow = times.values()
    if frozen["forward"] != whole["forward"]:
        yield f"forward: {frozen} where all is trained {whole}"
    if not 0.5 < frozen["backward"] / whole["backward"] < 0.7:
        yield f"backward: {frozen} where all is trained {whole}"
    products = 32 * 4096 * (4096 + 2 * 1024 + 4096 + 3 * 14336)
    widening_s = products * (33 / 32 + 2) / 3.35e12  # at the full rate of the memory
    for phase in ("forward", "backward"):
        if not 1 < (narrow[phase] - frozen[phase]) / widening_s < 1.5:
            yield f"{phase}: {narrow}, in 16 bits {frozen}, widening {widening_s:g} s at least"


def check_told(box):
    """An answer for some operators says which, and how the others are kept."""
    answer = box.run("simulate -m llama-3.1-8b -H rtx4090 -s zero-infinity-cpu --batch 1 "
                     "--train norm1,qkv --weight-bits 4")
    lines = [line for line in answer.out.decode().splitlines() if line.startswith("trained ")]
    told = "norm1,qkv alone, 805M parameters (10%); the rest is frozen, weights of layers in nf4"
    if len(lines) != 1 or told not in lines[0]:
        yield f"no line with {told!r}: {answer.out}{answer.err}"


def check_launches(box):
    """Narrow weights of a layer's four operators are widened by one kernel each way."""
    phases = {}
    for bits in (16, 8):
        for launch_us in (1, 1001):
            answer = box.run("simulate -m llama-3.1-8b -H h100 -s ddp --gpus 1 --batch 1 "
                             "--seq 2048 --activation-checkpoint-interval 0 --json --train norm1 "
                             f"--weight-bits {bits} --set gpu.memory_gib=400 "
                             f"--set gpu.launch_us={launch_us}")
            if answer.status:
                yield answer.err
                return
            phases[bits, launch_us] = {row["name"]: row["end_s"] - row["start_s"]
                                       for row in answer_of(answer.out)["phases"]}
    for phase in ("forward", "backward"):
        more = {bits: phases[bits, 1001][phase] - phases[bits, 1][phase] for bits in (16, 8)}
        if abs(more[8] - more[16] - 4 * 32 * 1e-3) > 1e-6:
            yield f"{phase}: a millisecond for each kernel adds {more}"


def check_model_flops(box):
    """OPT-350M has a product with the embedding, whose frozen one has a forward alone: the share of
    the peak (MFU) says what of a step's FLOPs is the model's own."""
    tokens, hidden, layers, ffn, vocab, narrow = 1024, 1024, 24, 4096, 50272, 512
    products = layers * (hidden * hidden + 2 * hidden * ffn)
    attention = layers * 2 * tokens * hidden
    ends = narrow * hidden + vocab * narrow
    flops = {"": 3 * (products + 3 * layers * hidden * hidden + attention + ends + narrow * hidden),
             "--train qkv": 2 * products + 9 * layers * hidden * hidden + 3 * attention + 2 * ends +
             narrow * hidden}
    peaks = set()
    for options, per_token in flops.items():
        answer = box.run("simulate -m opt-350m -H h100 -s ddp --gpus 1 --batch 1 --seq 1024 "
                         f"--activation-checkpoint-interval 0 --json {options}")
        if answer.status:
            yield answer.err
            return
        it = answer_of(answer.out)
        peaks.add(round(2 * tokens * per_token / it["mfu"] / it["step_time_s"] / 1e12, 3))
    if len(peaks) != 1:
        yield f"not the same peak: {peaks} TFLOP/s"


def check_refusals(box):
    for options, *words in (
            ("--train norm3", "--train norm3", "'norm3'", "mlp-down"),
            ("--train norm1,", "name is empty", "separated by commas"),
            ("--train qkv,qkv", "'qkv' is given twice"),
            ("--train attention", "no operator 'attention'"),
            ("--train final-norm,logits", "of the layers, or the embedding"),
            ("--weight-bits 4", "--weight-bits", "give --train lora:16 too"),
            ("--train norm1 --weight-bits 5", "must be 16, 8, 4 or 4-double"),
            ("-H dgx-a100 --pp 2 --gpus 2 --train embedding", "stage 2 has no such operators",
             "each stage has, such as qkv, or --pp 1"),
            ("-H 2xh200 --pp 2 --train lora:8 --stage-split 32", "stage 2 has no layers",
             "give --stage-split even, or --pp 1"),
            ("-H 2xh200 --pp 2 --train lora:8 --stage-split 0", "stage 1 has no layers")):
        yield from refused(box.run(f"simulate -m llama-3.1-8b -H rtx4090 {options}"), words)


def tests(box):
    rng = random.Random(SEED)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(20000)))
    for name in MODELS:
        yield f"one-step/{name}/qkv", check_one_step(box, name, ["qkv"])
        yield f"one-step/{name}/embedding,norm1", check_one_step(box, name, ["embedding", "norm1"])
        for options in ("--train norm1,qkv", "--train embedding,mlp-up --grad-accum 3",
                        "--train norm2,logits --logits-chunks 3 --activation-checkpoint-interval 1",
                        "--train qkv,norm2,final-norm --dtype fp32"):
            yield f"placements/{name}/{options[8:]}", check_placements(box, name, options)
        yield f"tiles/{name}", check_placements(box, name, "--train norm2,mlp-down --tiles 3")
        yield f"file/{name}", check_file(box, name)
    yield "bytes", check_bytes(box)
    yield "told", check_told(box)
    yield "activations", check_activations(box)
    yield "time", check_time(box)
    yield "launches", check_launches(box)
    yield "model-flops", check_model_flops(box)
    yield "refusals", check_refusals(box)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
