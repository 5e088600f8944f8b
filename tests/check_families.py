#!/usr/bin/python3
"""Families that differ by their files alone train alike; prints TAP.

The fixture of a Llama, which tests hold against PyTorch, is written as another family would write
the same model: with its model_type and its tensors, fused as transformers fuses them.  Every run of
it has the weights and optimizer state of the Llama's run, bit for bit, and reads what it wrote.
"""
import json
import shutil
import struct
import sys

from check_run import LLAMA, Box, good
from tap import report_in

TRAIN = ["-H", "rtx4090", "--set", "gpu.memory_gib=2", "--batch", "2", "--seq", "16", "--data",
         "text.txt", "--lr", "1e-2"]
PLACEMENTS = {
    "zero3": ["-s", "zero3"],
    "tiles": ["-s", "zero-infinity-cpu", "--param-device", "cpu", "--tiles", "3"],
    "nvme": ["-s", "zero-infinity-nvme", "--nvme", "drive", "--param-device", "nvme",
             "--optimizer-device", "nvme", "--commit", "step"],
}
# Of each layer: the tensor that a family has, and the Llama's whose rows it holds, in order.
QKV = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
FUSED = {
    "mistral": {},
    "phi3": {"self_attn.qkv_proj": QKV, "mlp.gate_up_proj": ["mlp.gate_proj", "mlp.up_proj"]},
}


def read(path):
    """Name -> (dtype, shape, bytes)."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {name: (it["dtype"], it["shape"],
                   data[8 + size + it["data_offsets"][0]:8 + size + it["data_offsets"][1]])
            for name, it in header.items() if name != "__metadata__"}


def write(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        at += len(content)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text +
                     b"".join(content for _, _, content in tensors.values()))


def fuse(tensors, fused):
    """The Llama's tensors as the family has them, also of a state (`exp_avg.model.layers...`)."""
    whole = dict(tensors)
    for name in tensors:
        for one, parts in fused.items():
            if f".{parts[0]}." not in name:
                continue
            taken = [whole.pop(name.replace(parts[0], part)) for part in parts]
            dtype, shape, _ = taken[0]
            whole[name.replace(parts[0], one)] = (
                dtype, [sum(rows for _, (rows, *_), _ in taken), *shape[1:]],
                b"".join(content for _, _, content in taken))
    return whole


def make(box, family):
    """The fixture in the family's words."""
    folder = box.folder / family
    folder.mkdir(exist_ok=True)
    config = json.loads((LLAMA / "config.json").read_text(encoding="utf-8"))
    config["model_type"] = family
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write(folder / "model.safetensors",
          fuse(read(LLAMA / "model.safetensors"), FUSED.get(family, {})))
    return folder


def check_same(box, family, step):
    """What two runs saved, in the names of one."""
    for name in ("model.safetensors", "optimizer.safetensors"):
        here = read(box.folder / f"{step}-{family}" / name)
        there = fuse(read(box.folder / f"{step}-llama" / name), FUSED[family])
        if not here or here != there:
            wrong = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
            yield f"{step}: {name} is not the Llama's: {wrong[:3]}"


def check_placement(box, family, words):
    folder = make(box, family)
    for model, name in ((LLAMA, "llama"), (folder, family)):
        for start, steps, save in ((["--weights", str(model)], "3", "three"),
                                   (["--from", f"three-{name}"], "5", "five")):
            box.empty_drives()
            shutil.rmtree(box.folder / f"{save}-{name}", ignore_errors=True)
            yield from good(box.run("-m", str(model), *TRAIN, *words, *start, "--steps", steps,
                                    "--save", f"{save}-{name}"))
    for step in ("three", "five"):
        yield from check_same(box, family, step)


def check_plan(box, family):
    """A plan from a file names the family, and its run writes a config.json that reads back."""
    folder = make(box, family)
    shutil.rmtree(box.folder / "saved", ignore_errors=True)
    yield from good(box.run("-m", str(folder), *TRAIN[:8], "-s", "zero3", "-o", "plan.txt",
                            "--software", "memwall", verb="plan"))
    if f"\ndecoder {family} " not in box.read("plan.txt"):
        yield "the plan does not name the family"
    yield from good(box.run("--plan", "plan.txt", "--data", "text.txt", "--weights", str(folder),
                            "--steps", "2", "--save", "saved"))
    config = json.loads(box.read("saved/config.json"))
    if config["model_type"] != family:
        yield f"the config.json beside the weights is of {config['model_type']}"
    yield from good(box.run("-m", "./saved", *TRAIN, "-s", "zero3", "--from", "saved", "--steps",
                            "3"))


def check_window(box):
    """What a run would compute otherwise than the model does."""
    folder = make(box, "phi3")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for key, value, status in (("sliding_window", 15, 2), ("sliding_window", 16, 0),
                               ("sliding_window", None, 0), ("partial_rotary_factor", 0.75, 2),
                               ("partial_rotary_factor", 1.0, 0)):
        (folder / "config.json").write_text(json.dumps({**config, key: value}), encoding="utf-8")
        done = box.run("-m", str(folder), *TRAIN, "-s", "zero3", "--steps", "1")
        if done.returncode != status or (status and key not in done.said):
            yield f"{key} {value}: status {done.returncode}: {done.said[-300:]}"


def check_head_norms(box):
    """Qwen3's norms of q and k: in every placement the same bits, whole or not at all, and a
    checkpoint that goes on."""
    config = json.loads((LLAMA / "config.json").read_text(encoding="utf-8"))
    folder = box.folder / "qwen3"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "qwen3"}),
                                        encoding="utf-8")
    train = ["-m", str(folder), *TRAIN, "--seed", "3"]
    saved = []
    placements = {"zero3": ["-s", "zero3"], "nvme": PLACEMENTS["nvme"],
                  "recomputed": ["-s", "zero3", "--activation-checkpoint-interval", "1"]}
    for what, words in placements.items():
        box.empty_drives()
        yield from good(box.run(*train, *words, "--steps", "3", "--save", f"three-{what}"))
        box.empty_drives()
        yield from good(box.run(*train, *words, "--steps", "5", "--from", f"three-{what}", "--save",
                                f"five-{what}"))
        saved.append(read(box.folder / f"five-{what}" / "model.safetensors"))
    if not saved[0] or any(one != saved[0] for one in saved):
        yield "placements do not train alike"
    norm = saved[0].get("model.layers.0.self_attn.q_norm.weight")
    if norm is None or norm[2] == bytes(len(norm[2])):
        yield "the weights have no norm of q"
    done = box.run(*train, *PLACEMENTS["tiles"], "--steps", "1")
    if done.returncode != 2 or "norms" not in done.said:
        yield f"tiles: status {done.returncode}: {done.said[-300:]}"


def tests(box):
    for family in FUSED:
        for what, words in PLACEMENTS.items():
            yield f"{family}/{what}", check_placement(box, family, words)
        yield f"{family}/plan-file", check_plan(box, family)
    yield "phi3/keys", check_window(box)
    yield "qwen3/head-norms", check_head_norms(box)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
