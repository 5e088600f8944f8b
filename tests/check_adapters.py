#!/usr/bin/python3
"""`--train lora:RANK`: adapters of frozen weights (LoRA, QLoRA), planned and run; prints TAP.

Numbers of parameters are those that PEFT prints for the same targets (named where published), and
bytes and FLOPs those of a count by hand.  Runs are held to what PEFT trained in fp64 on the same
weights and tokens (scripts/make-lora-fixtures.py), and to the same bits with every placement.
"""
import json
import os
import shutil
import struct
import sys

from command import ROOT, Box, answer_of, refused
from tap import report_in

ASK = "simulate -s ddp --gpus 1 --batch 1 --json --set gpu.memory_gib=1000"

# Rank, model, and the parameters of adapters of all products of layers.  Llama 3 8B and Llama 2 7B
# at rank 16: as Unsloth and PEFT print them; GPT-2 at rank 8 on c_attn: PEFT's documentation.
# Others by hand: rank * (in + out) of each matrix, per layer.
COUNTS = [
    ("llama-3.1-8b", "lora:16", 41_943_040),
    ("llama-2-7b", "lora:16", 39_976_960),
    ("llama-3.1-70b", "lora:16", 207_093_760),
    ("gpt2", "lora:8@qkv", 294_912),
    # As PEFT prints them for its usual targets of Llama, q_proj and v_proj.
    ("llama-2-7b", "lora:8@q,v", 4_194_304),
    ("llama-2-7b", "lora:16@q_proj,v_proj", 8_388_608),
    ("llama-2-7b", "lora:16@q,k,v,o,gate,up,down", 39_976_960),
    ("llama-2-7b", "lora:16@all-linear", 39_976_960),
    ("llama-3.1-8b", "lora:8@k", 32 * 8 * (4096 + 1024)),
    ("llama-3.1-8b", "lora:8@gate+o", 32 * 8 * (4096 + 14336 + 8192)),
    ("mixtral-8x7b", "lora:8@q,v", 32 * 8 * (8192 + 5120)),
    ("mixtral-8x7b", "lora:4@up+down", 32 * 4 * 8 * 2 * (4096 + 14336)),
    # Of q, k and v in one matrix, an A for all of them.
    ("gpt2", "lora:8@c_attn,c_proj", 12 * 8 * (768 + 2304 + 1536 + 3072 + 768)),
    ("gpt2", "lora:8@up", 12 * 8 * (768 + 3072)),
    ("bloom-176b", "lora:8@query_key_value", 70 * 8 * (14336 + 3 * 14336)),
    # q 4096+4096, k and v 4096+1024, o, gate and up 4096+14336, down.
    ("mistral-7b-v0.3", "lora:64@qkv+projection", 32 * 64 * (8192 + 2 * 5120 + 8192)),
    # Eight experts of three matrices; the router has no adapter.
    ("mixtral-8x7b", "lora:4@mlp-up+mlp-down", 32 * 4 * 8 * 3 * (4096 + 14336)),
]


def settings_of(box, options):
    answer = box.run(f"{ASK} -H h100 {options}")
    if answer.status:
        return None, f"{options}: status {answer.status}: {answer.err.strip()[-300:]}"
    return answer_of(answer.out), None


def check_counts(box):
    for model, adapters, expected in COUNTS:
        answer, error = settings_of(box, f"-m {model} --seq 64 --train {adapters}")
        if error:
            yield error
        elif answer["settings"]["trained_params"] != expected:
            yield f"{model} {adapters}: {answer['settings']['trained_params']}, not {expected}"


def check_text(box):
    """What is trained is said as it is requested."""
    for given, said in (("lora:16", "lora:16"), ("norm1,lora:8", "norm1,lora:8"),
                        ("lora:8@mlp-down+qkv", "lora:8@qkv+mlp-down"),
                        ("lora:2@qkv+projection+mlp-up+mlp-down", "lora:2"),
                        ("lora:2@q,v", "lora:2@q+v"), ("lora:2@v+q,norm1", "norm1,lora:2@q+v"),
                        ("projection,lora:2@q", "projection,lora:2@q"),
                        ("lora:2@o_proj,up_proj,k", "lora:2@k+projection+up"),
                        ("lora:2@k,v,q", "lora:2@qkv"), ("lora:2@all-linear", "lora:2")):
        answer, error = settings_of(box, f"-m llama-3.1-8b --seq 64 --train {given}")
        if error or answer["settings"]["train"] != said:
            yield error or f"{given}: {answer['settings']['train']}"


def states(answer):
    """Whole pages per slot are in them."""
    return {row["purpose"]: row["bytes"] for row in answer["ledger"] if row["tier"] == "gpu"}


def check_bytes(box):
    """Of Llama 3.1 8B: 16 bytes for each trained parameter, frozen ones 2 or 36/64."""
    trained, products = 41_943_040, 32 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)
    rest = 8_030_261_248 - products
    for bits, frozen in ((16, 2 * products), (4, products * 36 // 64),
                         ("4-double", products * 8452 // 16384)):
        answer, error = settings_of(
            box, f"-m llama-3.1-8b --seq 64 --train lora:16 --weight-bits {bits}")
        if error:
            yield error
            continue
        ledger = states(answer)
        expected = {"parameters": frozen + 2 * rest + 2 * trained, "gradients": 2 * trained,
                    "optimizer-state": 12 * trained}
        for purpose, count in expected.items():
            if not count <= ledger.get(purpose, 0) <= count * 1.002 + 4096 * 32 * 12:
                yield f"{bits} bits, {purpose}: {ledger.get(purpose)} bytes, {count} by hand"


def check_activations(box):
    """The adapted products' inputs are kept, and a rank per token for each A; q, k and v have one
    each, gate and up too."""
    tokens, hidden, ffn, layers, rank = 2048, 4096, 14336, 32, 16
    kept = {}
    for train in ("norm1,norm2", f"lora:{rank}", f"lora:{rank}@mlp-down", f"lora:{rank}@q,v",
                  f"lora:{rank}@up"):
        answer, error = settings_of(
            box, f"-m llama-3.1-8b --seq {tokens} --activation-checkpoint-interval 0 "
                 f"--logits-chunks 1 --train {train}")
        if error:
            yield error
            return
        kept[train] = states(answer)["activations"]
    widths = {f"lora:{rank}": 2 * hidden + ffn + 7 * rank, f"lora:{rank}@mlp-down": ffn + rank,
              f"lora:{rank}@q,v": hidden + 2 * rank, f"lora:{rank}@up": hidden + rank}
    for train, width in widths.items():
        more = kept[train] - kept["norm1,norm2"]
        if abs(more - layers * 2 * tokens * width) > 64 * 4096:
            yield f"{train}: {more} bytes more, {layers * 2 * tokens * width} by hand"


def check_flops(box):
    """Backward of what is frozen has one product for two of what is trained; flash attention's
    backward forms the scores again."""
    tokens = 4096
    products = 32 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)
    attention = 32 * 2 * tokens * 4096
    for train, adapters in (("lora:16", 41_943_040), ("lora:16@q,v", 6_815_744)):
        expected = 2 * tokens * (2 * products + 3.5 * attention + 2 * 128256 * 4096 +
                                 3 * adapters)
        answer, error = settings_of(box, f"-m llama-3.1-8b --seq {tokens} --train {train} "
                                         "--activation-checkpoint-interval 0")
        if error:
            yield error
            return
        done = answer["tflops_per_gpu"] * 1e12 * answer["step_time_s"]
        if abs(done / expected - 1) > 1e-3 * (train == "lora:16" or 0.1):
            yield f"{train}: {done:.6g} FLOPs, {expected:.6g} by hand"


def check_batch(box):
    answer, error = settings_of(box, "-m llama-3.1-8b --seq 512 --train lora:16 --batch auto")
    if error or answer["settings"]["global_batch"] != 16:
        yield error or f"{answer['settings']['global_batch']} sequences"
    elif answer["software"] != "hf-trainer":
        yield f"software {answer['software']}"


def check_sliced(box):
    """What slices that share tokens exchange for adapters is said, with its bytes, as it is not
    counted."""
    tokens, hidden = 2048, 4096
    for options, rows in (("lora:16", 2), ("lora:16@q,o", 1), ("lora:16@down", 1),
                          ("lora:16@q,v", 0), ("norm1", None)):
        for shared in ("on", "off"):
            answer = box.run("simulate -m llama-3.1-8b -H dgx-h100 --tp 8 --batch 0.125 --seq 2048 "
                             f"--json --train {options} --sequence-parallel {shared}")
            said = [note for note in answer_of(answer.out)["notes"] if "for adapters alone" in note]
            if len(said) != (shared == "on" and rows is not None):
                yield f"{options}, {shared}: {said}"
                continue
            size = f"{rows * tokens * hidden * 2 / 1e6:.1f} MB" if rows else "16 elements"
            if said and (size not in said[0] or (" of results of " in said[0]) != bool(rows)):
                yield f"{options}: {said}, not {size}"


def check_papers(box):
    """Their equations are of models that are trained whole."""
    asked = "-m llama-3.1-8b -H h100 --gpus 1 --seq 512 --batch 1"
    for options, said in (("", True), ("--train lora:8", False),
                          ("--train norm1 --weight-bits 4", False)):
        plan = box.run(f"plan {asked} {options}").out.decode()
        form = box.run(f"simulate {asked} {options} --details").out.decode()
        answer = answer_of(box.run(f"simulate {asked} {options} --json").out)
        whole = answer["closed_form"]
        found = ("By the paper's equations" in plan, "closed form   paper" in form,
                 answer["paper"] is not None, whole["paper"] is not None,
                 whole["efficiency"]["parameters"] is not None)
        if set(found) != {said} or whole["plan"] is None or "closed form" not in form:
            yield f"{options}: {found}"


def check_refusals(box):
    for options, *words in (
            ("--train lora", "--train lora", "--train lora:16"),
            ("--train lora:", "a rank is a whole number", "not ''"),
            ("--train lora:0", "a rank is a whole number"),
            ("--train lora:1.5", "a rank is a whole number"),
            ("--train lora:nan", "a rank is a whole number"),
            ("--train lora:16,lora:8", "adapters are given twice"),
            ("--train lora:16@", "has no adapters"),
            ("--train lora:16@query", "'query' has no adapters", "qkv (of it q, k, v)", "mlp-down",
             "PEFT's, such as q_proj", "all-linear"),
            ("--train lora:16@lm_head", "'lm_head' has no adapters"),
            ("--train lora:16@q,q", "'q' is given twice"),
            ("--train lora:16@q+qkv", "'qkv' is given twice"),
            ("--train lora:16@v,all-linear", "'all-linear' is given twice"),
            ("--train qkv,lora:16@q", "qkv is trained itself"),
            ("--train lora:16@q,qkv", "behind a list of matrices"),
            ("--train lora:16@q,projection", "behind a list of matrices"),
            ("--train c_proj", "projection and mlp-down have a matrix of that name each"),
            ("--train lora:16,q_proj", "qkv has that matrix", "--train lora:16@q_proj"),
            ("--train lora:16@norm1", "'norm1' has no adapters"),
            ("--train lora:16@qkv+qkv", "'qkv' is given twice"),
            ("--train lora:16,qkv", "qkv is trained itself"),
            ("--train qkv-lora", "no operator 'qkv-lora'"),
            ("--lora-alpha 16", "there are no adapters", "--train lora:16"),
            ("--train lora:8 --lora-alpha 0", "--lora-alpha"),
            ("--train lora:1025", "--train lora:1025: ", "a matrix of qkv has a side of 1024",
             "give --train lora:1024"),
            ("--train lora:9000@mlp-up+qkv", "a matrix of qkv", "--train lora:1024")):
        yield from refused(box.run(f"simulate -m llama-3.1-8b -H h100 {options}"), words)
    for model, train, *words in (
            ("gpt2", "q,v", "q, k and v in one matrix, c_attn", "--train lora:8@qkv"),
            ("bloom-176b", "v", "one matrix, query_key_value", "--train lora:8@qkv"),
            ("phi-4", "up", "gate and up in one matrix, gate_up_proj", "--train lora:8@mlp-up"),
            ("gpt2", "gate", "no gate", "--train lora:8@mlp-up"),
            ("gpt2", "q_proj", "no module 'q_proj'", "c_attn, attn.c_proj, c_fc", "or qkv"),
            ("llama-3.1-8b", "c_attn", "no module 'c_attn'", "q_proj, k_proj, v_proj, o_proj"),
            ("llama-3.1-8b", "q+c_proj", "no module 'c_proj'", "up_proj, down_proj, or qkv"),
            ("deepseek-v3", "q", "latent attention", "--train lora:8@qkv")):
        yield from refused(
            box.run(f"simulate -m {model} -H dgx-h100 --train lora:8@{train}"), words)
    yield from refused(box.run("simulate -m llama-3.1-8b -H h100 -s qlora"),
                       ["--train lora:16", "--weight-bits 4"])


# --- runs ----------------------------------------------------------------------------------------

MACHINE = "-H rtx4090 --set gpu.memory_gib=2"
MODELS = ("gpt2-small", "llama-small")
SETS = (*MODELS, "llama-small/lora-some")  # PEFT's adapters of all products, and of q, v and up
ADAPTED = "--train lora:4 --lora-alpha 6"
SOME = "--train lora:4@q,v,up --lora-alpha 6"
PLACEMENTS = {
    "on the GPU": "-s ddp",
    "on cores": "-s zero-offload",
    "on cores, parameters too": "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu",
    "on drives": "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme "
                 "--gradient-device nvme --nvme drive",
}


def fixture(name):
    return ROOT / "tests/fixtures" / name


def adapters_of(name):
    """The folder of the adapters, and the options that train them."""
    some = name.endswith("lora-some")
    return (fixture(name), SOME) if some else (fixture(name) / "lora", ADAPTED)


def run(box, name, options, folder=None):
    """The answer of a run from the fixture's weights and adapters."""
    adapters, adapted = adapters_of(name)
    name = name.split("/", maxsplit=1)[0]
    for old in ("drive", folder or "drive"):
        shutil.rmtree(box.folder / old, ignore_errors=True)
    (box.folder / "drive").mkdir()
    saves = f"--save {folder}" if folder else ""
    return box.run(f"run -m {fixture(name)}/config.json {MACHINE} --seq 16 --lr 1e-2 --commit none "
                   f"--data {adapters}/text.txt --backend cpu --overwrite {saves} "
                   f"--weights {fixture(name)} --adapter {adapters} {adapted} {options}")


def tensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    return {name: (at["shape"], data[8 + length:][slice(*at["data_offsets"])])
            for name, at in header.items() if name != "__metadata__"}


def losses_of(log):
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def check_reference(box, name, dtype, bar):
    answer = run(box, name, f"-s ddp --batch 2 --steps 50 --dtype {dtype} --log log.jsonl")
    expected = json.loads((adapters_of(name)[0] / "expected.json").read_text(encoding="utf-8"))
    if answer.status:
        yield answer.err
        return
    losses = losses_of(box.folder / "log.jsonl")
    off = max(abs(got / right - 1) for got, right in zip(losses, expected["losses"]))
    if len(losses) != len(expected["losses"]) or off > bar:
        yield f"{len(losses)} losses, {off:.2g} off at most"


def check_files(box, name):
    """What is saved is as PEFT writes it, and the model beside it is as it was."""
    answer = run(box, name, "-s ddp --batch 2 --steps 3", "saved")
    if answer.status:
        yield answer.err
        return
    ours, theirs = (tensors(folder / "adapter_model.safetensors")
                    for folder in (box.folder / "saved", adapters_of(name)[0]))
    if {n: t[0] for n, t in ours.items()} != {n: t[0] for n, t in theirs.items()}:
        yield f"other tensors than PEFT's: {sorted(ours.keys() ^ theirs.keys())}"
    if any(ours[n][1] == theirs[n][1] for n in ours):
        yield "some adapter has not moved"
    before, after = (tensors(folder / "model.safetensors")
                     for folder in (fixture(name.split("/")[0]), box.folder / "saved"))
    for tensor, (shape, bits) in before.items():
        wide = b"".join(b"\0\0" + bits[i:i + 2] for i in range(0, len(bits), 2))
        if after.get(tensor) != (shape, wide):
            yield f"{tensor}: has moved"
    ours, theirs = (json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
                    for folder in (box.folder / "saved", adapters_of(name)[0]))
    for key, value in ours.items():
        there = sorted(theirs[key]) if key == "target_modules" else theirs[key]
        if (sorted(value) if key == "target_modules" else value) != there:
            yield f"{key}: {value}, PEFT has {there}"


def check_placements(box, name, options):
    first = None
    for what, placement in PLACEMENTS.items():
        answer = run(box, name, f"{placement} --steps 6 {options}", "out")
        if answer.status:
            yield f"{what}: status {answer.status}: {answer.err[-300:]}"
            continue
        files = [(box.folder / "out" / f"{file}.safetensors").read_bytes()
                 for file in ("model", "adapter_model", "optimizer")]
        first = first or files
        if files != first:
            yield f"{what}: other weights"


def check_continued(box):
    """Twelve steps are six and six more."""
    base = f"run -m {fixture('llama-small')}/config.json {MACHINE} -s ddp --batch 2 --seq 16 " \
           f"--commit none --data {fixture('llama-small')}/lora/text.txt --backend cpu {ADAPTED}"
    for options in ("--steps 12 --save whole", "--steps 6 --save half",
                    "--steps 12 --from half --save again"):
        answer = box.run(f"{base} {options}")
        if answer.status:
            yield answer.err
    for file in ("model", "adapter_model", "optimizer"):
        if len({(box.folder / folder / f"{file}.safetensors").read_bytes()
                for folder in ("whole", "again")}) != 1:
            yield f"{file}: other bits"
    run(box, "llama-small", "-s zero-offload --batch 2 --steps 1 --save-every 1 --nvme drive")
    answer = box.run("run --resume drive --train norm1 --steps 2")
    if answer.status != 2 or "--lora-alpha" in answer.err or \
            "--train is norm1, it was lora:4: give --train lora:4" not in answer.err:
        yield f"resumed with --train norm1: status {answer.status}: {answer.err}"
    (box.folder / "again/adapter_model.safetensors").write_bytes(
        (box.folder / "half/adapter_model.safetensors").read_bytes())
    yield from refused(box.run(f"{base} --steps 14 --from again"), ["two trainings"])
    yield from refused(box.run(f"{base.replace(ADAPTED, '')} --steps 14 --from half"),
                       ["adapter_config.json: is of adapters", "give --train lora:4"])
    yield from refused(box.run(f"{base} --steps 14 --from half --lora-alpha 3"),
                       ["adapter_config.json", "lora_alpha: 6", "give --lora-alpha 6"])
    plain = base.replace(ADAPTED, "")
    answer = box.run(f"{plain} --steps 2 --save plain")
    if answer.status:
        yield answer.err
    for line, words in ((f"{base} --from plain", ["plain/optimizer.safetensors", "without adapters",
                                                  "leave out --train", "--weights FOLDER"]),
                        (f"{base} --save plain", ["--save plain", "of other adapters",
                                                  "without adapters"]),
                        (f"{plain} --save half", ["--save half", "of other adapters",
                                                  "has adapters of a model"])):
        yield from refused(box.run(f"{line} --steps 14"), words)


def check_other_targets(box):
    """A checkpoint of other adapters than the run's says which --train it goes with."""
    model = fixture("llama-small")
    base = f"run -m {model}/config.json {MACHINE} -s ddp --batch 2 --seq 16 --commit none " \
           f"--data {model}/lora/text.txt --backend cpu"
    for train, save in (("lora:4@q,v,up", "some"), ("norm1,lora:2@mlp-down+k", "more")):
        answer = box.run(f"{base} --train {train} --steps 1 --save {save}")
        if answer.status:
            yield answer.err
    for start, train, *words in (
            ("some", "", "some/adapter_config.json", "give --train lora:4@q+v+up"),
            ("some", "--train norm1", "some/adapter_config.json", "give --train lora:4@q+v+up"),
            ("some", "--train lora:4", "target_modules: the file's adapters are of q_proj, v_proj, "
             "up_proj, and those to train of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, "
             "down_proj; give --train lora:4@q+v+up"),
            ("some", "--train lora:4@q", "to train of q_proj; give --train lora:4@q+v+up"),
            ("some", "--train lora:8@q,v,up", "r: 4", "rank 8; give --train lora:4@q+v+up"),
            ("more", "--train lora:2@q,v", "are of k_proj, down_proj, and those to train of "
             "q_proj, v_proj", "--train lora:2@k+mlp-down")):
        yield from refused(box.run(f"{base} --from {start} {train} --steps 2"), words)
    answer = box.run(f"{base} --from some --train lora:4@q+v+up --steps 2")
    if answer.status:
        yield answer.err


def check_plan_file(box):
    options = "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu --batch 2 --seq 16"
    model = fixture("gpt2-small")
    planned = box.run(f"plan -m {model}/config.json {MACHINE} {options} {ADAPTED} --commit none "
                      "--software memwall -o plan.txt")
    own = run(box, "gpt2-small", f"{options} --steps 4", "own")
    other = box.run(f"run --plan plan.txt {MACHINE} --data {model}/lora/text.txt --backend cpu "
                    f"--lr 1e-2 --steps 4 --weights {model} --adapter {model}/lora --save other")
    for answer in (planned, own, other):
        if answer.status:
            yield answer.err
            return
    if (box.folder / "own/adapter_model.safetensors").read_bytes() != \
            (box.folder / "other/adapter_model.safetensors").read_bytes():
        yield "other adapters"


def check_adapter_config(box, name):
    """Rank, targets and alpha come from the file where the command leaves them open; dropout is
    said to be left out, and a scale of alpha / sqrt(r) is that of a larger alpha."""
    from_file = box.folder / f"{name}-file"
    shutil.copytree(fixture(name) / "lora", from_file)
    good = json.loads((from_file / "adapter_config.json").read_text(encoding="utf-8"))
    base = f"run -m {fixture(name)}/config.json {MACHINE} --commit none -s ddp --dtype fp32 " \
           f"--data {fixture(name)}/lora/text.txt --backend cpu --steps 2 --lr 1e-2 --batch 2 " \
           f"--seq 16 --weights {fixture(name)} --adapter {name}-file --log {name}.log --overwrite"
    losses = {}
    for case, change, options in (
            ("typed", {}, ADAPTED), ("of the file", {}, ""), ("rank typed", {}, "--train lora:4"),
            ("dropout", {"lora_dropout": 0.05}, ""), ("rslora", {"use_rslora": True}, ""),
            ("twice the alpha", {"lora_alpha": 12}, "--lora-alpha 12"),
            ("all", {"target_modules": "all-linear"}, "")):
        (from_file / "adapter_config.json").write_text(json.dumps(good | change), encoding="utf-8")
        answer = box.run(f"{base} {options}")
        if answer.status:
            yield f"{case}: {answer.err}"
            return
        losses[case] = losses_of(box.folder / f"{name}.log")
        if ("trained on without dropout" in answer.err) != (case == "dropout"):
            yield f"{case}: {answer.err}"
        if ("--lora-alpha 6" in answer.err) != (case in ("of the file", "rank typed", "dropout",
                                                         "all")):
            yield f"{case}: {answer.err}"
    for case, found in losses.items():
        like = "twice the alpha" if case == "rslora" else case
        wanted = losses["typed" if like != "twice the alpha" else like]
        if found != wanted:
            yield f"{case}: {found}, not {wanted}"
    if losses["typed"] == losses["rslora"]:
        yield "a larger scale changes nothing"


def check_adapter_refusals(box):
    bad = box.folder / "bad"
    shutil.copytree(fixture("llama-small") / "lora", bad)
    good = json.loads((bad / "adapter_config.json").read_text(encoding="utf-8"))
    base = f"run -m {fixture('llama-small')}/config.json {MACHINE} --commit none -s ddp " \
           f"--data {fixture('llama-small')}/lora/text.txt --backend cpu --steps 1"
    for change, *words in (
            ({"r": 8}, "adapter_config.json: r: 8", "--train lora:8"),
            ({"lora_alpha": 16}, "lora_alpha: 16", "--lora-alpha 16"),
            ({"peft_type": "LOHA"}, "peft_type", '"LORA"'),
            ({"use_dora": True}, "use_dora", "must be false"),
            ({"use_rslora": True}, "lora_alpha: 6", "square root of the rank", "--lora-alpha 12"),
            ({"bias": "all"}, "bias", '"none"'),
            ({"lora_dropout": "no"}, 'key "lora_dropout"', "no"),
            ({"target_parameters": ["experts.down_proj"]}, "target_parameters", "must be null"),
            ({"modules_to_save": ["lm_head"]}, "modules_to_save", "--train OPERATORS"),
            ({"rank_pattern": {"q_proj": 8}}, "rank_pattern", "one rank"),
            ({"layers_to_transform": 3}, "layers_to_transform", "all layers"),
            ({"task_type": "SEQ_CLS"}, "task_type", '"CAUSAL_LM"'),
            ({"init_lora_weights": "pissa"}, "init_lora_weights", '"gaussian"'),
            ({"use_qalora": True}, "use_qalora", "must be false"),
            ({"alora_invocation_tokens": [1]}, "alora_invocation_tokens", "must be null"),
            ({"r": "four"}, 'key "r"', "four"),
            ({"r": -1}, 'key "r"', "-1"), ({"r": 0}, 'key "r"', "from 1"),
            ({"target_modules": ["q_proj", 1]}, "target_modules", "list of names"),
            ({"target_modules": {"q_proj": 1}}, "target_modules", "list of names"),
            ({"lora_alpha": 0}, 'adapter_config.json: key "lora_alpha"', "value 0", "from 0.001"),
            ({"lora_alpha": 1e6, "use_rslora": True}, "lora_alpha: 1000000 by", "2e+06",
             "at most 1000000"),
            ({"r": 2 ** 64}, 'key "r": value 18446744073709551616', "whole number from"),
            ({"target_modules": ["q_proj\0foo"]}, "adapter_config.json: line", "u0000"),
            ({"init_lora_weights": 5}, "init_lora_weights: 5", "must be true, false"),
            ({"init_lora_weights": []}, "init_lora_weights: []", "must be true, false"),
            ({"fan_in_fan_out": "x"}, 'key "fan_in_fan_out"', "true or false"),
            ({"exclude_modules": ["q_proj"]}, "exclude_modules", "target_modules"),
            ({"r": None}, "r: missing, which PEFT reads as 8", "--train lora:8"),
            ({"lora_alpha": float("nan")}, "adapter_config.json", "NaN")):
        (bad / "adapter_config.json").write_text(json.dumps(good | change), encoding="utf-8")
        yield from refused(box.run(f"{base} {ADAPTED} --adapter bad"), words)
    (bad / "adapter_config.json").write_text("{", encoding="utf-8")
    yield from refused(box.run(f"{base} {ADAPTED} --adapter bad"), ["adapter_config.json"])
    yield from refused(box.run(f"{base} --adapter bad"), ["adapter_config.json"])
    for folder, change in (("rank", {"r": None}), ("zero", {"lora_alpha": 0})):
        shutil.copytree(bad, box.folder / folder)
        (box.folder / folder / "adapter_config.json").write_text(json.dumps(good | change),
                                                                 encoding="utf-8")
    yield from refused(box.run(f"{base} --adapter rank"),
                       ["r: missing, which PEFT reads as 8", "has rank 4", '"r": 4'])
    yield from refused(box.run(f"{base} --adapter zero"), ['adapter_config.json: key "lora_alpha"'])
    # What the file says is told once it is known to be good, with what its adapters are of.
    (bad / "adapter_config.json").write_text(json.dumps(good), encoding="utf-8")
    answer = box.run(f"{base} --adapter bad")
    if answer.status or "taken from its adapter_config.json" not in answer.err or \
            "without --weights" not in answer.err:
        yield f"{answer.err}"
    if "without --weights" in box.run(f"{base} --adapter bad "
                                      f"--weights {fixture('llama-small')}").err:
        yield "weights that are given are said to be random"
    tensors = (bad / "adapter_model.safetensors").read_bytes()
    for cut in (0, 7, 8, 200, len(tensors) - 1):
        (bad / "adapter_model.safetensors").write_bytes(tensors[:cut])
        yield from refused(box.run(f"{base} --adapter bad"), ["adapter_model.safetensors"])
    (bad / "adapter_model.safetensors").write_bytes(tensors)
    for targets in (".*q_proj", ["zzz"], [], None):
        text = json.dumps(good | {"target_modules": targets})
        (bad / "adapter_config.json").write_text(text, encoding="utf-8")
        yield from refused(box.run(f"{base} --adapter bad"),
                           ["target_modules", '"all-linear"', "--train lora:4"])
    (bad / "adapter_config.json").write_text(json.dumps(good), encoding="utf-8")
    yield from refused(box.run(f"{base} --train lora:4@qkv --lora-alpha 6 --adapter bad"),
                       ["target_modules", "of q_proj, k_proj, v_proj; give --train lora:4"])
    yield from refused(box.run(f"{base} {SOME} --adapter bad"),
                       ["adapter_config.json: target_modules", "q_proj, v_proj, up_proj; give"])
    some = fixture("llama-small/lora-some")
    yield from refused(box.run(f"{base} {ADAPTED} --adapter {some}"),
                       ["target_modules", "are of q_proj, v_proj, up_proj, and those to train of "
                        "q_proj, k_proj, v_proj, o_proj", "give --train lora:4@q+v+up"])
    answer = box.run(f"{base} --adapter {some}")
    if answer.status or "--train lora:4@q+v+up, --lora-alpha 6" not in answer.err:
        yield answer.err
    yield from refused(box.run(f"{base} --train norm1 --adapter bad"),
                       ["--adapter bad", "--train lora:RANK"])
    other = base.replace("llama-small", "gpt2-small")
    yield from refused(box.run(f"{other} {ADAPTED} --adapter bad"), ["missing", "lora_A"])
    yield from refused(box.run(f"{base} {ADAPTED} --adapter bad --from bad"), ["--adapter"])
    yield from refused(box.run(f"{base} {ADAPTED} --adapter nowhere"),
                       ["nowhere/adapter_config.json"])
    pipe = box.folder / "pipe"
    pipe.mkdir()
    os.mkfifo(pipe / "adapter_config.json")
    yield from refused(box.run(f"{base} {ADAPTED} --adapter pipe"),
                       ["pipe/adapter_config.json", "pipe that nobody writes to"])
    shutil.copytree(fixture("llama-small") / "lora", box.folder / "theirs",
                    ignore=shutil.ignore_patterns("text.txt", "expected.json"))
    before = (box.folder / "theirs/adapter_model.safetensors").read_bytes()
    yield from refused(box.run(f"{base} {ADAPTED} --steps 1 --save theirs"),
                       ["theirs: holds adapter_model.safetensors without optimizer.safetensors",
                        "not replaced"])
    if (box.folder / "theirs/adapter_model.safetensors").read_bytes() != before:
        yield "adapters of PEFT's are gone"
    yield from refused(box.run(f"{base} {ADAPTED} --adapter="), ["--adapter: must name"])


def tests(box):
    yield "counts", check_counts(box)
    yield "text", check_text(box)
    yield "bytes", check_bytes(box)
    yield "activations", check_activations(box)
    yield "flops", check_flops(box)
    yield "batch", check_batch(box)
    yield "sliced", check_sliced(box)
    yield "papers", check_papers(box)
    yield "refusals", check_refusals(box)
    for name in SETS:
        for dtype, bar in (("fp32", 1e-5), ("bf16", 1e-2), ("fp16", 1e-2)):
            yield f"reference/{name}/{dtype}", check_reference(box, name, dtype, bar)
        yield f"files/{name}", check_files(box, name)
        for options in ("--batch 2", "--batch 1 --grad-accum 3 --activation-checkpoint-interval 1",
                        "--batch 2 --tiles 3 --dtype fp32"):
            yield f"placements/{name}/{options}", check_placements(box, name, options)
    yield "continued", check_continued(box)
    yield "other targets", check_other_targets(box)
    for name in MODELS:
        yield f"of the file/{name}", check_adapter_config(box, name)
    yield "plan file", check_plan_file(box)
    yield "adapters' refusals", check_adapter_refusals(box)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
