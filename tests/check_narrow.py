#!/usr/bin/python3
"""Runs with `--weight-bits`: frozen weights of layers in few bits; prints TAP.

A run has the losses, to the bit, of one in 16 bits whose weights were rounded to the same format
before, by the arithmetic below; and the same bits with every placement, tiling and restart.
"""
import json
import math
import random
import shutil
import struct
import sys

from command import ROOT, Box, refused, sixth
from tap import MPIRUN, RANKS_ENVIRONMENT, Skip, has_ranks, report_in

SEED = 37
MACHINE = "-H rtx4090 --set gpu.memory_gib=2"
COURSE = "--data text.txt --backend cpu --lr 2e-2 --batch 2 --commit none --overwrite"
SMALL = ("llama-small", "gpt2-small")
PLACEMENTS = {
    "on the GPU": "-s ddp",
    "on cores": "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu",
    "split": "-s zero-infinity-nvme --param-device cpu:0.02MB,nvme --optimizer-device nvme "
             "--nvme drive",
    "on drives": "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme "
                 "--gradient-device nvme --nvme drive",
}
# Matrices of a layer, in the order of their operator: those on one line share a scale for biases.
OPERATORS = (
    ("attn.c_attn",), ("attn.c_proj",), ("mlp.c_fc",), ("mlp.c_proj",),
    ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), ("self_attn.o_proj",),
    ("mlp.gate_proj", "mlp.up_proj"), ("mlp.down_proj",))


# --- the formats, in Python's own numbers ------------------------------------------------------

# OCP Microscaling Formats v1.0: e4m3 without its NaN, and Sec. 6.3.
E4M3 = [math.ldexp(8 + code % 8, code // 8 - 10) if code >= 8 else math.ldexp(code, -9)
        for code in range(127)]
# QLoRA, arXiv 2305.14314, Appendix E.
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]
BLOCK = {"8": 32, "4": 64, "4-double": 16384}
NEAR = {"8": 0.01, "4": 0.03, "4-double": 0.03}  # of losses, to those of weights as they are given


def fp32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def in_e4m3(values, scale):
    out = []
    for value in values:
        size = abs(value) / scale
        code = min(range(127), key=lambda code: (abs(E4M3[code] - size), code % 2))
        out.append(math.copysign(E4M3[code] * scale, value))
    return out


def in_mxfp8(values, largest):
    if not largest:
        return [0.0] * len(values)
    part, exponent = math.frexp(largest)  # 448 is 0.875 * 2^9
    return in_e4m3(values, math.ldexp(1, exponent - 9 + (part > 0.875)))


def in_nf4(values, largest):
    if not largest:
        return [0.0] * len(values)
    return [fp32(fp32(min(NF4, key=lambda number: abs(number - value / largest))) * largest)
            for value in values]


def bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16))[0]


def in_nf4_double(values, _):
    """Sec. 3: the largest of each 64, rounded to 8 bits, is their scale."""
    blocks = [values[i:i + 64] for i in range(0, len(values), 64)]
    scales = [max(map(abs, block)) for block in blocks]
    total = 0
    for scale in scales:
        total += scale
    mean = bf16(total / len(scales))
    step = bf16(max(abs(scale - mean) for scale in scales) / 448)
    out = []
    for block, scale in zip(blocks, scales):
        [off] = in_e4m3([fp32((scale - mean) / step)] if step else [0.0], 1)
        out += in_nf4(block, max(0.0, fp32(mean + fp32(step * off))))
    return out


def rounded(values, bits, largest=None):
    code = {"8": in_mxfp8, "4": in_nf4, "4-double": in_nf4_double}[bits]
    size = BLOCK[bits]
    out = []
    for i in range(0, len(values), size):
        block = values[i:i + size]
        out += code(block, max(map(abs, block)) if largest is None else largest)
    return out


# --- files -------------------------------------------------------------------------------------

def read(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, at in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = at["data_offsets"]
            assert at["dtype"] == "F32"
            tensors[name] = (at["shape"], list(struct.unpack(
                f"<{(end - begin) // 4}f", data[8 + length + begin:8 + length + end])))
    return tensors


def write(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        more = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def transposed(shape, values):
    rows, columns = shape
    return [values[r * columns + c] for c in range(columns) for r in range(rows)]


def round_weights(tensors, bits):
    """Rows of a matrix are its outputs; GPT-2's files have them as columns."""
    names = {name.rsplit(".", 1)[0] for name in tensors}
    for operator in OPERATORS:
        for layer in {name.split(".h.")[-1].split(".layers.")[-1].split(".")[0] for name in names}:
            mine = [name for matrix in operator for name in names
                    if name.endswith(f".{layer}.{matrix}")]
            largest = max((abs(value) for name in mine if f"{name}.bias" in tensors
                           for value in tensors[f"{name}.bias"][1]), default=0)
            for name in mine:
                shape, values = tensors[f"{name}.weight"]
                if ".c_" in name:
                    values = transposed(shape[::-1], rounded(transposed(shape, values), bits))
                else:
                    values = rounded(values, bits)
                tensors[f"{name}.weight"] = shape, values
                if f"{name}.bias" in tensors:
                    shape, values = tensors[f"{name}.bias"]
                    tensors[f"{name}.bias"] = shape, rounded(values, bits, largest)


# --- runs --------------------------------------------------------------------------------------

def model(name):
    return "-m wide.json" if name == "wide" else f"-m {ROOT}/tests/fixtures/{name}/config.json"


def write_wide(box):
    """A model whose matrices are whole blocks of 16384."""
    config = json.loads((ROOT / "tests/fixtures/llama-small/config.json").read_text())
    config.update(hidden_size=128, head_dim=32, intermediate_size=128, num_key_value_heads=4,
                  num_hidden_layers=1)
    box.write("wide.json", config)


def run(box, name, options, prefix=()):
    for old in ("drive", "out"):
        shutil.rmtree(box.folder / old, ignore_errors=True)
    (box.folder / "drive").mkdir()
    (box.folder / "log").unlink(missing_ok=True)
    return box.run(f"run {model(name)} {MACHINE} {COURSE} --log log --save out {options}",
                   prefix=prefix)


def train(box, name, options, prefix=()):
    answer = run(box, name, options, prefix)
    if answer.status:
        yield f"{options}: status {answer.status}: {answer.err.strip()[-400:]}"


def losses(box):
    return [json.loads(line)["loss"] for line in (box.folder / "log").read_text().splitlines()]


def adapters(box):
    """The tensors: what else a file says is that the weights were narrow."""
    return read(box.folder / "out" / "adapter_model.safetensors")


def make_bases(box, name, spread, all_bits):
    """Weights whose blocks differ in size, and biases that are not zero: BASE as given, and rounded
    for each number of bits."""
    for line in train(box, name, "-s ddp --steps 1 --train lora:2 --seed 5"):
        raise RuntimeError(line)
    rng = random.Random(SEED)
    tensors = read(box.folder / "out" / "model.safetensors")
    for key, (shape, values) in tensors.items():
        if len(shape) == 1 and key.endswith(".bias"):
            values = [rng.gauss(0, 0.02) * math.exp(rng.gauss(0, 1)) for _ in values]
        elif len(shape) == 2:
            values = [value * math.exp(rng.gauss(0, spread)) for value in values]
        tensors[key] = shape, [fp32(value) for value in values]
    for bits in ("16", *all_bits):
        folder = box.folder / f"{name}-{bits}"
        shutil.copytree(box.folder / "out", folder)
        for left in folder.iterdir():
            if left.name != "config.json":
                left.unlink()
        kept = dict(tensors)
        if bits != "16":
            round_weights(kept, bits)
        write(folder / "model.safetensors", kept)


def check_reference(box, name, bits, options):
    """To the bit as in 16 bits with weights that were rounded before, which are others."""
    begin = f"-s ddp --steps 50 --train lora:4 {options}"
    yield from train(box, name, f"{begin} --weights {name}-16 --weight-bits {bits}")
    narrow, trained = losses(box), adapters(box)
    yield from train(box, name, f"{begin} --weights {name}-{bits}")
    if losses(box) != narrow:
        yield f"losses {narrow[:2]} .. {narrow[-1]}, with rounded weights " \
              f"{losses(box)[:2]} .. {losses(box)[-1]}"
    if adapters(box) != trained:
        yield "other adapters than with rounded weights"
    yield from train(box, name, f"{begin} --weights {name}-16")
    given = losses(box)
    if given == narrow or not given[-1] < given[0]:
        yield f"given weights: {given[0]} .. {given[-1]}, narrow ones: {narrow[0]} .. {narrow[-1]}"
    off = max(abs(a / b - 1) for a, b in zip(narrow, given))
    if off > NEAR[bits]:
        yield f"losses are {off:.2%} off those of the weights as given"


def check_saved(box, name):
    """What is frozen is saved as it was given."""
    yield from train(box, name, f"-s ddp --steps 3 --train lora:4 --weights {name}-16 "
                                "--weight-bits 8")
    saved, given = (read(box.folder / folder / "model.safetensors")
                    for folder in ("out", f"{name}-16"))
    if saved != given:
        yield "the model was saved with other weights than it was given"


def check_placements(box, name, bits, options):
    """The same weights wherever they are and however they are cut: those that were rounded."""
    begin = f"--steps 6 --train lora:4 {options}"
    yield from train(box, name, f"-s ddp {begin} --weights {name}-{bits}")
    first = adapters(box)
    for what, placement in PLACEMENTS.items():
        yield from train(box, name,
                         f"{placement} {begin} --weights {name}-16 --weight-bits {bits}")
        if adapters(box) != first:
            yield f"{what}: other adapters than of rounded weights"


def check_ranks(box, name, bits, options):
    """Each rank has a shard: the losses are those of rounded weights."""
    if not has_ranks():
        yield Skip("no mpirun, or a build without MPI")
        return
    box.environment.update(RANKS_ENVIRONMENT)
    prefix = [*MPIRUN, "2"]
    for placement in ("-s ddp", "-s zero3", PLACEMENTS["on drives"],
                      f"{PLACEMENTS['on cores']} --partition owner"):
        begin = f"{placement} --steps 6 --train lora:4 {options}"
        yield from train(box, name, f"{begin} --weights {name}-16 --weight-bits {bits}", prefix)
        narrow = losses(box), adapters(box)
        yield from train(box, name, f"{begin} --weights {name}-{bits}", prefix)
        if (losses(box), adapters(box)) != narrow:
            yield f"{placement}: {narrow[0]}, with rounded weights {losses(box)}"


def check_null(box):
    """A device that computes nothing still looks whether parts are those that it is to get."""
    for placement in (PLACEMENTS["on drives"], PLACEMENTS["on cores"]):
        answer = box.run(f"run {model('llama-small')} {MACHINE} {placement} --steps 4 "
                         "--commit none --overwrite --train lora:4 --weight-bits 4 --data text.txt "
                         "--backend null")
        if answer.status:
            yield f"{placement}: status {answer.status}: {answer.err.strip()[-300:]}"


def check_bytes(box):
    """The plan's file counts 33 bytes for 32 weights, and a run by it is the same."""
    options = f"{PLACEMENTS['on cores']} --batch 2 --train lora:4 --weight-bits 8"
    yield from train(box, "llama-small", f"{options} --steps 4")
    own = adapters(box)
    planned = box.run(f"plan {model('llama-small')} {MACHINE} {options} --commit none "
                      "--software memwall -o plan.txt")
    if planned.status:
        yield planned.err
    text = (box.folder / "plan.txt").read_text(encoding="utf-8")
    if "define:widened" not in text or " mxfp8" not in text:
        yield "the plan has no narrow weights, or nowhere to widen them"
    shutil.rmtree(box.folder / "out")
    answer = box.run(f"run --plan plan.txt {MACHINE} --data text.txt --backend cpu --lr 2e-2 "
                     "--steps 4 --overwrite --save out")
    if answer.status:
        yield f"status {answer.status}: {answer.err.strip()[-300:]}"
    if adapters(box) != own:
        yield "other adapters by the plan from a file"
    box.write("plan.txt", text.replace("define:widened", "define:none"))
    yield from refused(box.run(f"run --plan plan.txt {MACHINE} --data text.txt --backend cpu "
                               "--steps 2 --overwrite"), ["no room to widen"])


def check_refusals(box):
    for name, options, *words in (
            ("llama-small", "--train lora:4 --weight-bits 4-double", "--weight-bits", "nf4-double",
             "whole blocks of 16384"),
            ("wide", "--train lora:4 --weight-bits 4-double --tiles 2", "--tiles",
             "whole blocks of 16384"),
            ("llama-small", "--train lora:4 --weight-bits 4 --tiles 3", "--weight-bits", "--tiles",
             "whole blocks of 64"),
            ("llama-small", "--weight-bits 8", "--weight-bits", "--train")):
        answer = run(box, name, f"-s ddp --steps 2 {options}")
        last = answer.err.strip().splitlines()[-1]
        if answer.status != 2 or any(word not in last for word in words):
            yield f"{options}: status {answer.status}: {answer.err.strip()[-300:]}"
    write(box.folder / "llama-small-4" / "model.safetensors", {
        name: (shape, [1e5] + values[1:] if "q_proj" in name else values)
        for name, (shape, values) in
        read(box.folder / "llama-small-16" / "model.safetensors").items()})
    answer = run(box, "llama-small", "-s ddp --steps 2 --train lora:4 --weight-bits 8 --dtype fp16 "
                                     "--weights llama-small-4")
    if answer.status != 2 or "q_proj" not in answer.err or "fp16" not in answer.err:
        yield f"1e5 in fp16: status {answer.status}: {answer.err.strip()[-300:]}"


def check_resumed(box):
    """A run is not continued with another number of bits."""
    line = f"{PLACEMENTS['on drives']} --train lora:4 --weights llama-small-16"
    course = COURSE.replace(" --commit none --overwrite", "")
    shutil.rmtree(box.folder / "drive", ignore_errors=True)
    (box.folder / "drive").mkdir()
    begun = box.run(f"run {model('llama-small')} {MACHINE} {course} {line} --weight-bits 8 "
                    "--steps 3")
    if begun.status:
        yield begun.err
    for other in ("--weight-bits 4", "--weight-bits 16"):
        answer = box.run(f"run --resume --nvme drive --steps 5 {other}")
        if answer.status != 2:
            yield f"{other}: status {answer.status}: {answer.err.strip()[-300:]}"
    answer = box.run("run --resume --nvme drive --steps 5")
    if answer.status:
        yield f"status {answer.status}: {answer.err.strip()[-300:]}"


def tests(box):
    rng = random.Random(SEED)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(20000)))
    for name in SMALL:
        make_bases(box, name, 0.5, ("8", "4"))
        for bits in ("8", "4"):
            for options in sixth(["--dtype fp16 --grad-accum 2", "", "--dtype fp32"]):
                yield f"reference/{name}/{bits} {options}", check_reference(box, name, bits,
                                                                            options)
        yield f"saved/{name}", check_saved(box, name)
        for bits, options in sixth([
                ("4", "--tiles 2 --grad-accum 3"), ("8", ""), ("8", "--tiles 2 --dtype fp32"),
                ("8", "--tiles 3 --activation-checkpoint-interval 1"),
                ("8", "--tiles 5 --dtype fp16"), ("4", "--activation-checkpoint-interval 1")]):
            yield f"placements/{name}/{bits} {options}", check_placements(box, name, bits, options)
        for bits in sixth(("8", "4") if name == SMALL[0] else ("4", "8")):
            yield f"ranks/{name}/{bits}", check_ranks(box, name, bits, "--tiles 2")
    write_wide(box)
    make_bases(box, "wide", 0.5, ("4-double",))
    for options in sixth(["", "--dtype fp32", "--dtype fp16"]):
        yield f"reference/wide/4-double {options}", check_reference(box, "wide", "4-double",
                                                                    options)
    yield "placements/wide/4-double", check_placements(box, "wide", "4-double", "")
    yield "ranks/wide/4-double", check_ranks(box, "wide", "4-double", "")
    yield "null", check_null(box)
    yield "bytes", check_bytes(box)
    yield "resumed", check_resumed(box)
    yield "refusals", check_refusals(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
