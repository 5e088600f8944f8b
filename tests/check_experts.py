#!/usr/bin/python3
"""Mixtures of experts that run: each step's loss, norm and routers' losses are those of
transformers (recorded by peer_experts.py), weights have the same bits wherever states live,
whatever is recomputed and with any number of threads, runs go on where they were killed, ranks and
stages train what one rank trains, ranks that share the experts train what ranks that have all of
them do, and what does not run is refused in one line; prints TAP.
"""
import hashlib
import json
import re
import sys

from command import ROOT, Answer, Box, answer_of, kill_after, of_rows, refused
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in

TEXT = ROOT / "data/psalms-proverbs.txt"
RECORDED = sorted((ROOT / "tests/fixtures/experts").glob("*.json"))
ASKED = f"--backend cpu --dtype fp32 --data {TEXT} --seq 32 --lr 1e-3"
ALONE = "-H rtx4090"
RANKS = "-H aws-p5-48xlarge"
# The products of another instruction set round in another order.
CLOSE = 2e-5

PLACEMENTS = ["-s ddp", "-s zero-offload", "-s zero-infinity-cpu --param-device cpu",
              "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme --nvme drive",
              "-s ddp --activation-checkpoint-interval 1",
              "-s zero-offload --activation-checkpoint-interval 2", "-s l2l", "-s geeps"]
LOSSES = "--router-aux-loss-coef 0.5 --router-z-loss-coef 0.02"
DIVIDED = {"data": (2, "-s zero3 --batch 2"), "stages": (2, "-s ddp --batch 1 --grad-accum 4 "
                                                         "--pp 2"),
           "data and stages": (4, "-s zero1 --batch 1 --grad-accum 2 --pp 2")}
# Ranks, their options, and those of one rank with the same micro-batches.
LOSSES_DIVIDED = {"data": (2, "-s zero3 --batch 2", "-s ddp --batch 2 --grad-accum 2"),
                  "stages": (2, "-s ddp --batch 1 --grad-accum 4 --pp 2",
                             "-s ddp --batch 1 --grad-accum 4"),
                  "draws": (2, "-s zero2 --batch 2 --gate gshard",
                            "-s ddp --batch 2 --grad-accum 2 --gate gshard")}
# Ranks, options, of which model; with --ep beside them.
SPREAD = {"top-1": (2, "-s ddp --batch 2", "switch-1-of-8", 2),
          "stages": (4, "-s zero1 --batch 1 --grad-accum 2 --pp 2", "mixtral-2-of-4", 2),
          "all to one rank": (2, "-s zero2 --batch 2 --weights uneven", "mixtral-2-of-4", 2),
          "capacity": (2, "-s zero3 --batch 2 --capacity-factor 0.75", "mixtral-2-of-4", 2),
          "switch": (2, "-s zero3 --batch 2 --gate switch", "mixtral-2-of-4", 2),
          "gshard": (4, "-s zero1 --batch 1 --gate gshard", "mixtral-2-of-4", 2),
          "losses": (2, f"-s zero3 --batch 2 --capacity-factor 0.75 {LOSSES}", "mixtral-2-of-4",
                     2),
          "top-2": (2, "-s zero3 --batch 1 --grad-accum 2 --activation-checkpoint-interval 1",
                    "mixtral-2-of-4", 2),
          "top-4 of four ranks": (4, "-s zero1 --batch 1", "qwen3-4-of-16", 2)}
# An expert's gradient is one sum over the tokens of all ranks, instead of a sum of the ranks' sums.
SUMS_APART = 1e-6
SPREAD_PLACES = ["-s zero3", "-s zero-offload --activation-checkpoint-interval 1",
                 "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme --nvme drive"]


def steps_of(path, *more):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [tuple(line[key] for key in ("loss", "gradient_norm", *more)) for line in lines]


def weights(box, folder):
    """A digest of the values in all files."""
    files = [path.read_bytes() for path in sorted((box.folder / folder).glob("*.safetensors"))]
    return hashlib.sha256(b"".join(data[8 + int.from_bytes(data[:8], "little"):]
                                   for data in files)).hexdigest()[:16]


def check_recorded(box, path):
    case = json.loads(path.read_text())
    box.write("recorded.json", case["config"])
    steps, router = len(case["loss_and_norm"]), case.get("router", {})
    options = " ".join(f"--router-{name}-loss-coef {value}" for name, value in router.items())
    answer = box.run(f"run -m recorded.json {ALONE} {ASKED} -s ddp --batch 4 --steps {steps} "
                     f"{options} --log recorded.log --overwrite")
    if answer.status:
        yield answer.err
        return
    made = steps_of(box.folder / "recorded.log", *(f"router_{name}_loss" for name in router))
    for number, (ours, theirs) in enumerate(zip(made, case["loss_and_norm"], strict=True), 1):
        for own, other in zip(ours, theirs, strict=True):
            if abs(own / other - 1) > CLOSE:
                yield f"step {number}: {ours}, transformers {theirs}"


def check_places(box, options):
    made = {}
    for placement in of_rows(PLACEMENTS, 3):
        for threads in "12":
            answer = box.run(f"run -m model.json {ALONE} {ASKED} {options} {placement} --batch 2 "
                             "--grad-accum 2 --steps 3 --save out --overwrite",
                             OMP_NUM_THREADS=threads)
            made[f"{placement}, {threads} threads"] = (weights(box, "out") if not answer.status
                                                       else answer.err)
    if len(set(made.values())) != 1:
        yield f"{made}"


def check_resumed(box, name, options=""):
    """Killed behind its second step at least, a durable run ends as one that nobody stopped."""
    (box.folder / f"durable-{name}").mkdir()
    line = (f"-m model.json {ALONE} {ASKED} --batch 2 -s zero-infinity-nvme --param-device nvme "
            f"--optimizer-device nvme --nvme durable-{name} --steps 8 {options}")
    box.run(f"run {line} --save whole-{name} --overwrite")
    kill_after(box, f"{line} --overwrite", 2)
    answer = box.run(f"run {line} --resume --save resumed-{name}")
    if answer.status or weights(box, f"resumed-{name}") != weights(box, f"whole-{name}"):
        yield f"{answer.err}"


def check_saved(box):
    """Experts are found by their own names, in the vector's order and out of it, and a run goes on
    from a checkpoint of them."""
    line = f"-m model.json {ALONE} {ASKED} -s ddp --batch 2"
    box.run(f"run {line} --steps 4 --save all")
    box.run(f"run {line} --steps 2 --save half")
    answer = box.run(f"run {line} --from half --steps 4 --save both")
    if answer.status or weights(box, "both") != weights(box, "all"):
        yield f"continued: {answer.err}"
    data = (box.folder / "all/model.safetensors").read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    names = {name for name in header if "layers.1.block_sparse_moe" in name}
    base = "model.layers.1.block_sparse_moe"
    expected = {f"{base}.gate.weight"} | {f"{base}.experts.{e}.w{w}.weight"
                                          for e in range(4) for w in (1, 2, 3)}
    if names != expected:
        yield f"names: {sorted(names ^ expected)}"
    if header[f"{base}.experts.3.w2.weight"]["shape"] != [64, 96]:
        yield f"shape: {header[f'{base}.experts.3.w2.weight']}"
    lost = box.folder / "lost"
    lost.mkdir()
    header["model.layers.1.block_sparse_moe.experts.9.w1.weight"] = header.pop(
        f"{base}.experts.2.w1.weight")
    text = json.dumps({k: v for k, v in header.items() if k != "__metadata__"}).encode()
    (lost / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text
                                             + data[8 + int.from_bytes(data[:8], "little"):])
    for wrong in refused(box.run(f"run {line} --steps 1 --weights lost"),
                         ["experts.2.w1.weight", "missing"]):
        yield wrong


def check_types(box):
    """Half the bits train the same model, if not to the same digits."""
    losses = []
    for kind in ("fp32", "bf16", "fp16"):
        answer = box.run(f"run -m model.json {ALONE} {ASKED.replace('fp32', kind)} -s ddp "
                         f"--batch 4 --steps 12 --log {kind}.log")
        losses.append([loss for loss, _ in steps_of(box.folder / f"{kind}.log")]
                      if not answer.status else answer.err)
    for other in losses[1:]:
        if isinstance(other, str) or len(other) != 12:
            yield f"{other}"
        elif max(abs(a - b) for a, b in zip(losses[0], other)) > 0.05:
            yield f"{losses[0]}, {other}"


def printed(answer):
    """Loss and norm of each step, as the table has them."""
    return re.findall(r"^ +\d+ +(\d+\.\d+) +(\d\S*) ", answer.out.decode(), re.M)


def check_divided(box, count, options):
    alone = box.run(f"run -m model.json {RANKS} --gpus 1 {ASKED} -s ddp --batch 4 --steps 4")
    divided = box.run(f"run -m model.json {RANKS} {ASKED} {options} --steps 4",
                      prefix=[*MPIRUN, str(count)], **RANKS_ENVIRONMENT)
    if len(printed(alone)) != 4 or printed(divided) != printed(alone):
        yield f"{printed(divided)}, alone {printed(alone)}: {divided.err[-300:]}"


def ranked(box, count, line):
    return box.run(f"run {RANKS} {ASKED} {line}", prefix=[*MPIRUN, str(count)],
                   **RANKS_ENVIRONMENT)


def check_spread(box, count, options, name, ep):
    box.write("spread.json", json.loads((ROOT / f"tests/fixtures/experts/{name}.json").read_text())
              ["config"])
    found = []
    for degree in (1, ep):
        answer = ranked(box, count, f"-m spread.json {options} --ep {degree} --steps 3 "
                        "--log spread.log --overwrite")
        if answer.status:
            yield answer.err
            return
        found.append(steps_of(box.folder / "spread.log"))
    for number, (ours, theirs) in enumerate(zip(*found, strict=True), 1):
        for own, other in zip(ours, theirs):
            if abs(own / other - 1) > SUMS_APART:
                yield f"step {number}: {ours}, with all experts on each rank {theirs}"
    yield from wrong_imbalance(box, ep, most=ep if "uneven" in options else None)


def wrong_imbalance(box, ep, most):
    """Where all tokens visit one rank's experts it has as many times the mean as ranks share them;
    else more than the mean, as where loads are drawn, and no more than that."""
    first = json.loads((box.folder / "spread.log").read_text().splitlines()[0])
    mean, full = first["expert_imbalance"], first["expert_imbalance_most"]
    if not (mean == full == most if most else 1 < mean <= full + 1e-6 <= ep + 1e-6):
        yield f"of {ep} ranks the fullest has {mean} times the mean, {full} at most"


def write_uneven(box):
    """Weights whose router says the same of all experts: every token visits the first ones."""
    box.run(f"run -m model.json {ALONE} {ASKED} -s ddp --batch 2 --steps 1 --save uneven")
    path = box.folder / "uneven/model.safetensors"
    data = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    del header["__metadata__"]  # with the tensors' checksums
    for name, tensor in header.items():
        if name.endswith("gate.weight"):
            first, end = (begin + offset for offset in tensor["data_offsets"])
            data[first:end] = bytes(end - first)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[begin:])


def tensors(path):
    """The bytes of each in a file."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: data[begin + tensor["data_offsets"][0]:begin + tensor["data_offsets"][1]]
            for name, tensor in header.items()}


def check_spread_bits(box, options):
    """A step changes no bit but those of experts, whose gradients are sums in another order."""
    for degree in (1, 2):
        answer = ranked(box, 2, f"-m model.json -s ddp --batch 2 --ep {degree} --clip 0 {options} "
                        f"--steps 1 --save bits{degree} --overwrite")
        if answer.status:
            yield answer.err
            return
    whole, spread = (tensors(box.folder / f"bits{degree}/optimizer.safetensors")
                     for degree in (1, 2))
    other = {name for name in whole if whole[name] != spread[name]}
    if whole.keys() != spread.keys() or any(".experts." not in name for name in other):
        yield f"{sorted(other)}"


def check_spread_places(box, options):
    made = {}
    for placement in of_rows(SPREAD_PLACES, 2):
        answer = ranked(box, 2, f"-m model.json {placement} --ep 2 --batch 1 --grad-accum 2 "
                        f"{options} --steps 3 --save out --overwrite")
        made[placement] = weights(box, "out") if not answer.status else answer.err
    if len(set(made.values())) != 1:
        yield f"{made}"


def check_spread_resumed(box):
    """Another number of ranks that share experts is another division of the run's files."""
    line = "-m model.json -s ddp --batch 2 --steps {} --nvme drive --save-every 2 --ep {} {}"
    answer = ranked(box, 2, line.format(2, 2, "--overwrite"))
    if answer.status:
        yield answer.err
    answer = ranked(box, 2, line.format(4, 1, "--resume"))
    said = [row for row in answer.err.splitlines() if row.startswith("memwall: ")]
    if answer.status != 2 or not said or any("--ep 1" not in row or "--ep 2" not in row
                                             for row in said):
        yield f"status {answer.status}: {answer.err}"


REFUSED = {
    "--tiles 2": ["--tiles 2", "--tiles 1"],
    "--train lora:4": ["--train", "no adapters"],
    "--train qkv": ["--train", "mlp-up and mlp-down"],
    "--kept-bits 8": ["--kept-bits 8", "--kept-bits 16"],
    "--optimizer adafactor": ["--optimizer adafactor", "--optimizer adamw"],
    "--optimizer sm3": ["--optimizer sm3", "--optimizer adamw"],
    "--gate noisy-top-k": ["--gate noisy-top-k", "--gate top-k or switch or gshard"],
    "--gate switch --dtype bf16": ["--gate switch", "--dtype fp32", "--gate top-k"],
}
REFUSED_OF_RANKS = {
    "--ep 2 --tp 2 --sequence-parallel off": ["--ep 2", "--tp 1"],
    "--ep 2 --cp 2": ["--ep 2", "--cp 1"],
    "--capacity-factor 1 --cp 2": ["--capacity-factor 1", "--cp 1"],
    "--gate gshard --cp 2": ["--capacity-factor 1", "the gate has it", "--cp 1"],
    "--gate gshard --router-aux-loss-coef 0 --pp 2 --grad-accum 4 --schedule 2bw":
        ["--gate gshard", "1f1b"],
    "--router-aux-loss-coef 0.5 --cp 2": ["--router-aux-loss-coef 0.5", "--cp 1"],
    "--router-z-loss-coef 0.5 --pp 2 --grad-accum 4 --schedule 2bw": ["--router-z-loss-coef 0.5",
                                                                      "1f1b"],
    "--tp 2": ["--tp 2", "experts", "--tp 1"],
    "--pp 2 --grad-accum 4 --schedule zb-h1": ["--schedule zb-h1", "1f1b"],
}
# Per config.json: what differs from the model's, and the words of the refusal.
REFUSED_MODELS = {
    "unbalanced": ({"output_router_logits": True, "router_aux_loss_coef": -1},
                   ["router_aux_loss_coef", "-1", "0 to"]),
    "jitter": ({"router_jitter_noise": 0.1}, ["router_jitter_noise", "0.1", "must be 0"]),
}


def check_refusals(box):
    line = f"-m model.json {ASKED} -s ddp --batch 2 --steps 2"
    for options, words in REFUSED.items():
        for wrong in refused(box.run(f"run {line} {ALONE} {options}"), words):
            yield f"{options}: {wrong}"
    for name, (changes, words) in REFUSED_MODELS.items():
        box.write(f"{name}.json", json.loads((box.folder / "model.json").read_text()) | changes)
        for wrong in refused(box.run(f"run {line.replace('model', name)} {ALONE}"), words):
            yield f"{name}: {wrong}"
    for options, words in REFUSED_OF_RANKS.items() if has_ranks() else ():
        answer = box.run(f"run {line} {RANKS} {options}", prefix=[*MPIRUN, "2"],
                         **RANKS_ENVIRONMENT)
        said = "\n".join(one for one in answer.err.splitlines() if one.startswith("memwall:"))
        for wrong in refused(Answer(answer.status, answer.out, said), words):
            yield f"{options}: {wrong}"


def losses_of(path):
    """What each line of a log has of the routers."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: line[key] for key in line if key.startswith("router_")} for line in lines]


def losses_trained(box, model, options, steps=3):
    """The weights that a run makes, and what its log has of losses."""
    answer = box.run(f"run -m {model} {ALONE} {ASKED} -s ddp --batch 4 {options} --steps {steps} "
                     f"--log losses.log --save of-{steps}-{model} --overwrite")
    if answer.status:
        return answer.err, [{}]
    return weights(box, f"of-{steps}-{model}"), losses_of(box.folder / "losses.log")


def check_losses(box):
    """Coefficients are the file's where it asks for losses, and options'; the log has what they
    multiply."""
    asked = {"router_aux_loss_coef": 0.5, "router_z_loss_coef": 0.02}
    config = json.loads((box.folder / "model.json").read_text())
    box.write("silent.json", config | asked | {"output_router_logits": False})
    box.write("asked.json", config | asked | {"output_router_logits": True})
    box.write("usual.json", config | {"output_router_logits": True})
    plain = losses_trained(box, "model.json", "")
    both = losses_trained(box, "model.json", LOSSES)
    for what, wanted in {("silent.json", ""): plain, ("asked.json", ""): both,
                         ("silent.json", LOSSES): both,
                         ("asked.json", "--router-aux-loss-coef 0 --router-z-loss-coef 0"): plain,
                         ("usual.json", ""):
                             losses_trained(box, "model.json", "--router-aux-loss-coef 0.001"),
                         }.items():
        made = losses_trained(box, *what)
        if made != wanted:
            yield f"{what}: {made}, and not {wanted}"
    if plain[0] == both[0] or set(both[1][0]) != {"router_aux_loss", "router_z_loss"} or \
            plain[1][0]:
        yield f"{plain}, {both}"


def check_losses_fall(box):
    """Where they count, experts are visited more evenly, and scores become smaller."""
    ends = {}
    for weight in ("1e-9", "1"):
        made = losses_trained(box, "model.json", f"--router-aux-loss-coef {weight} "
                              f"--router-z-loss-coef {weight}", steps=20)[1]
        ends[weight] = made[-1]
        if weight == "1e-9" and not 2 <= made[0]["router_aux_loss"] < 4:
            yield f"two choices of four experts: {made[0]}"
    for key in ends["1"]:
        if not ends["1"][key] < ends["1e-9"][key]:
            yield f"{key}: {ends}"


def check_losses_divided(box, count, options, alone):
    """Each rank has the statistics of its own micro-batches, whichever stage a layer is in."""
    made = []
    for line, ranks in ((alone, 1), (options, count)):
        answer = box.run(f"run -m model.json {RANKS} --gpus {ranks} {ASKED} {line} {LOSSES} "
                         "--steps 3 --log divided.log --overwrite", prefix=[*MPIRUN, str(ranks)],
                         **RANKS_ENVIRONMENT)
        if answer.status:
            yield answer.err
            return
        path = box.folder / "divided.log"
        made.append([(*step, *losses.values())
                     for step, losses in zip(steps_of(path), losses_of(path))])
    for ours, theirs in zip(*made, strict=True):
        if any(abs(own / other - 1) > SUMS_APART for own, other in zip(ours, theirs, strict=True)):
            yield f"{ours}, alone {theirs}"


def check_gates(box):
    """Switch is a router's own top-1 with a capacity and a loss of 0.01 for each layer; GShard is
    no top-2 with these, since second experts are drawn.  A plan's file has no model of its own to
    save, whose gate is another."""
    box.write("top-1.json", json.loads(
        (ROOT / "tests/fixtures/experts/switch-1-of-8.json").read_text())["config"])
    of_gate = "--capacity-factor 1 --router-aux-loss-coef 0.02"
    made = {options: losses_trained(box, model, options) for model, options in
            (("top-1.json", "--gate switch"), ("top-1.json", of_gate),
             ("model.json", "--gate gshard"), ("model.json", f"{of_gate} --gate top-k"),
             ("model.json", "--gate gshard --router-aux-loss-coef 0"))}
    if made["--gate switch"] != made[of_gate] or \
            len({weights for weights, _ in made.values()}) != 4 or \
            any("router_aux_loss" not in losses[-1] for _, losses in list(made.values())[:4]):
        yield f"{made}"
    for gate in ("switch", "gshard"):
        asked = f"-m model.json {ALONE} -s ddp --batch 4 --seq 32 --gate {gate} --dtype fp32"
        box.run(f"plan {asked} --software memwall -o gate.plan")
        answer = box.run(f"run --plan gate.plan {ALONE} --backend cpu --data {TEXT} --steps 3")
        yield from refused(answer, ["gate.plan", "-m and --gate"])


def check_router_keys(box):
    """A plan counts the losses that a model's file asks for, and so takes no wrong ones."""
    model = json.loads((box.folder / "model.json").read_text())
    for key, value in (("router_aux_loss_coef", -1), ("router_z_loss_coef", "0.5"),
                       ("output_router_logits", "true")):
        box.write("wrong.json", {**model, "output_router_logits": True, key: value})
        for verb in ("plan", "simulate", "run"):
            yield from refused(box.run(f"{verb} -m wrong.json {ALONE}"), ["wrong.json", key])
    box.write("bits.json", {**model, "quantization_config": {"quant_method": "gptq", "bits": 4}})
    yield from refused(box.run(f"run -m bits.json {ALONE} {ASKED} --steps 1"),
                       ["quantization_config", "gptq"])


def check_gate_resumed(box):
    line = (f"-m model.json {ALONE} {ASKED} -s ddp --batch 4 --nvme gated --save-every 2 "
            "--steps 2 --gate {} --capacity-factor 1 --router-aux-loss-coef 0.02")
    (box.folder / "gated").mkdir()
    box.run(f"run {line.format('gshard')} --overwrite")
    yield from refused(box.run(f"run {line.format('top-k')} --resume"),
                       ["--gate top-k", "--gate gshard", "export"])


def check_one_expert(box):
    """A mixture of one is no choice, and what is said of it does not speak of several."""
    config = json.loads((box.folder / "model.json").read_text())
    box.write("single.json", config | {"num_local_experts": 1, "num_experts_per_tok": 1})
    asked = "-m single.json -H dgx-h100 --batch 1 --grad-accum 1"
    for options in ("--gate switch", "--gate expert-choice", "--capacity-factor 0.5", "--ep 2"):
        yield from refused(box.run(f"simulate {asked} {options}"),
                           [options, "has one expert per layer, which all tokens visit; "])
    said = box.run(f"simulate {asked} --software deepspeed")
    if said.status or b"one after the other" in said.out:
        yield f"{said.out.decode()}{said.err}"


def check_damaged_gate(box):
    """A plan names the gate that it cannot have."""
    box.run(f"plan -m model.json {ALONE} -s ddp --batch 4 --seq 32 --gate gshard -o gate.plan "
            "--software memwall")
    text = (box.folder / "gate.plan").read_text(encoding="utf-8")
    for gate, *words in (("switch", "gate switch: sends a token to 1 of the experts, and the "
                          "decoder to 2"),
                         ("expert-choice", "gate expert-choice: is none that runs")):
        box.write("damaged.plan", text.replace(" gate gshard", f" gate {gate}"))
        yield from refused(box.run(f"simulate damaged.plan {ALONE}"), ["damaged.plan", *words])


def check_losses_left_out(box):
    """The losses of a step that leaves out layers are the mean of those that it has: with all but
    the first left out nearly those of a model of one layer, which begins with larger weights."""
    config = json.loads((box.folder / "model.json").read_text())
    layers = config["num_hidden_layers"]
    box.write("one.json", config | {"num_hidden_layers": 1})
    options = f"{LOSSES} --dtype fp32 --drop-layers 1-{layers - 1}"
    one, few = (losses_trained(box, model, of, 1)[1][-1] for model, of in
                (("one.json", f"{LOSSES} --dtype fp32"), ("model.json", options)))
    for key in ("router_aux_loss", "router_z_loss"):
        if not few.get(key) or abs(few[key] / one[key] - 1) > 0.01:
            yield f"{key}: {few.get(key)}, alone {one[key]}"


def check_said(box):
    """Gate, capacity and losses stand in answers, of a plan's file and of a run too, as asked."""
    asked = f"-m model.json {ALONE} -s ddp --batch 4 --seq 32"
    options = "--capacity-factor 0.7512 --router-aux-loss-coef 0.02 --router-z-loss-coef 0.001"
    wanted = {"capacity_factor": 0.7512, "router_aux_loss_coef": 0.02,
              "router_z_loss_coef": 0.001}
    trained = f"run -m model.json {ALONE} {ASKED} -s ddp --batch 4 --steps 1 --json"
    told = [answer_of(box.run(f"{line} {options}{json_too}").out)["settings"]
            for line, json_too in ((f"simulate {asked}", " --json"), (f"plan {asked}", " --json"),
                                   (trained, ""))]
    for settings in told:
        if {key: settings.get(key) for key in wanted} != wanted or "gate" in settings:
            yield f"{settings}"
    switch = answer_of(box.run(f"simulate {asked} --gate gshard --json").out)["settings"]
    if switch["gate"] != "gshard" or switch["capacity_factor"] != 1 or \
            switch["router_aux_loss_coef"] != 0.02:
        yield f"gshard: {switch}"
    plain = answer_of(box.run(f"simulate {asked} --json").out)["settings"]
    if plain.keys() & {*wanted, "gate"}:
        yield f"none of it asked for: {plain}"
    text = box.run(f"plan {asked} --software memwall {options} --gate gshard -o said.plan").out
    for row in ("gate of experts +gshard", "capacity of experts +0.7512",
                "loss of uneven experts +0.02", "loss of large scores +0.001"):
        if not re.search(row, text.decode()):
            yield f"{row} is not in {text.decode()}"
    read = answer_of(box.run(f"simulate said.plan {ALONE} --json").out)["settings"]
    rows = 128 * 2 / 4  # an even share
    if read.get("gate") != "gshard" or read.get("router_aux_loss_coef") != 0.02 or \
            read.get("router_z_loss_coef") != 0.001 or read.get("capacity_factor") != 49 / rows:
        yield f"from a file: {read}"


def check_losses_resumed(box):
    line = (f"-m model.json {ALONE} {ASKED} -s ddp --batch 4 --nvme balanced --save-every 2 "
            "--steps 2 --router-aux-loss-coef {}")
    (box.folder / "balanced").mkdir()
    box.run(f"run {line.format(0.5)} --overwrite")
    yield from refused(box.run(f"run {line.format(0.25)} --resume"),
                       ["--router-aux-loss-coef 0.25", "--router-aux-loss-coef 0.5", "export"])


def check_simulated(box):
    """What a run does not do, a plan's file still has, and a simulation of it."""
    for options in ("", "--ep 2", "--train lora:4", "--tp 2", "--tiles 2"):
        box.run(f"plan -m model.json {RANKS} --gpus 2 -s zero3 --batch 1 --seq 32 {options} "
                "-o of.plan")
        answer = box.run(f"simulate of.plan {RANKS}")
        if answer.status:
            yield f"{options}: {answer.err}"


def check_capacity(box):
    """Planned and simulated, also from a file, which runs as it was planned.  Half an even share
    drops tokens; room for all of them changes no bit."""
    made = {}
    for factor in ("0.5", "1", "1.25"):
        asked = f"-m model.json {ALONE} -s ddp --batch 4 --seq 32 --capacity-factor {factor}"
        box.run(f"plan {asked} -o capacity.plan")
        steps = [json.loads(box.run(f"simulate {what} --json").out)["answers"][0]["step_time_s"]
                 for what in (asked, f"capacity.plan {ALONE}")]
        if steps[0] != steps[1]:
            yield f"factor {factor}: {steps}"
    for factor in ("0.5", "2", "none"):
        asked = f"-m model.json {ALONE} {ASKED} -s ddp --batch 4 --capacity-factor {factor}"
        box.run(f"plan {asked.replace(f'--backend cpu --dtype fp32 --data {TEXT}', '')} "
                "--software memwall --dtype fp32 -o capacity.plan".replace("--lr 1e-3", ""))
        for way in (asked, f"--plan capacity.plan {ALONE} --backend cpu --data {TEXT} --lr 1e-3"):
            answer = box.run(f"run {way} --steps 3 --log capacity.log --overwrite")
            made[factor, way[:6]] = (steps_of(box.folder / "capacity.log") if not answer.status
                                     else answer.err)
    for factor in ("0.5", "2", "none"):
        if made[factor, "-m mod"] != made[factor, "--plan"]:
            yield f"factor {factor}, from a file: {made}"
    if made["2", "-m mod"] != made["none", "-m mod"] or \
            made["0.5", "-m mod"] == made["none", "-m mod"]:
        yield f"{made}"


def check_capacity_resumed(box):
    line = (f"-m model.json {ALONE} {ASKED} -s ddp --batch 4 --nvme limited --save-every 2 "
            "--steps {} --capacity-factor 0.75")
    (box.folder / "limited").mkdir()
    box.run(f"run {line.format(4)} --save once")
    box.run(f"run {line.format(2)} --overwrite")
    for wrong in refused(box.run(f"run {line.format(4).replace('0.75', '1.5')} --resume"),
                         ["--capacity-factor 1.5", "--capacity-factor 0.75", "export"]):
        yield wrong
    # Rows are whole, and what was asked for is said; as many rows are the same capacity.
    odd = line.format(2).replace("0.75", "0.7512").replace("limited", "odd")
    (box.folder / "odd").mkdir()
    box.run(f"run {odd} --overwrite")
    yield from refused(box.run(f"run {odd.replace('0.7512', '1.2345')} --resume"),
                       ["--capacity-factor 1.2345", "--capacity-factor 0.7512,"])
    odd = odd.replace("0.7512", "0.7513").replace("steps 2", "steps 3")
    answer = box.run(f"run {odd} --resume")
    if answer.status:
        yield f"as many rows: {answer.err}"
    answer = box.run("run --resume limited --backend cpu --steps 4 --save again")
    if answer.status or weights(box, "again") != weights(box, "once"):
        yield answer.err


def check_fullest_memory(box):
    """Activations that experts keep of a token are kept of more tokens on the fullest rank: their
    input, up and gate and what these give, in bf16, in 32 layers and twice the widest output.  At
    most both visits of all tokens of 8 ranks with one expert each come, 4 times the mean."""
    line = ("plan -m mixtral-8x7b -H dgx-h100 --nodes 8 --ep 8 -s zero1 --batch 1 --seq 4096 "
            "--activation-checkpoint-interval 0 --software {} --expert-imbalance {} --json")

    def kept(software, factor):
        answer = json.loads(box.run(line.format(software, factor)).out)["answers"][0]
        return sum(row["bytes"] for row in answer["ledger"] if row["purpose"] == "activations")

    even = kept("ideal", 1)
    rows, width = 2 * 4096, 2 * (32 * (4096 + 3 * 14336) + 2 * 2 * 14336)
    for factor, counted in ((1.5, 1.5), (3, 3), (9, 4)):
        found = kept("ideal", factor) - even
        if abs(found - (counted - 1) * rows * width) > 1e-4 * even:
            yield f"{factor}: {found} bytes more, {(counted - 1) * rows * width} by hand"
    if kept("memwall", 2) != kept("memwall", 1):
        yield "software with room for all that may come needs more"
    text = box.run("simulate -m mixtral-8x7b -H dgx-h100 --ep 8 --expert-imbalance 1.5").out
    if b"1.50 times the mean of tokens on the fullest GPU" not in text:
        yield f"{text}"


def check_imbalance(box):
    """Where all tokens visit one of two ranks a run says so, as JSON and as text, and of that a
    prediction makes a longer step than of even visits."""
    line = "-m model.json -s ddp --batch 2 --ep 2 --weights uneven --steps 1 {}"
    asked = [f"--expert-imbalance {f} --json" for f in ("1", "1.5", "2")]
    answers = [json.loads(ranked(box, 2, line.format(options)).out)["answers"][0]
               for options in asked]
    for answer in answers:
        if answer["run"]["expert_imbalance"] != {"median": 2, "most": 2, "layers": [2, 2]}:
            yield f"{answer['run']['expert_imbalance']}"
    steps = [answer["compare"]["step"]["predicted_s"] for answer in answers]
    if not steps[0] < steps[1] < steps[2]:
        yield f"predicted {steps}"
    text = ranked(box, 2, line.format("--compare")).out.decode()
    if "--expert-imbalance 2" not in text or "2 times the mean" not in " ".join(text.split()):
        yield f"{text}"
    for options, words in (("--expert-imbalance 0.5", ["--expert-imbalance", "0.5", "1"]),
                           ("-m gpt2 --expert-imbalance 2", ["--expert-imbalance 2", "gpt2"])):
        asked = options if "-m" in options else f"-m model.json {options}"
        yield from refused(box.run(f"simulate {asked} {RANKS}"), words)


def tests(box):
    (box.folder / "drive").mkdir()
    box.write("model.json", json.loads(RECORDED[0].read_text())["config"])
    for path in RECORDED:
        yield f"recorded/{path.stem}", check_recorded(box, path)
    yield "places/fp32", check_places(box, "")
    yield "places/bf16", check_places(box, "--dtype bf16")
    yield "resumed", check_resumed(box, "plain")
    yield "saved", check_saved(box)
    yield "types", check_types(box)
    yield "refusals", check_refusals(box)
    yield "simulated", check_simulated(box)
    yield "capacity", check_capacity(box)
    yield "capacity/resumed", check_capacity_resumed(box)
    yield "one expert", check_one_expert(box)
    yield "damaged gate", check_damaged_gate(box)
    yield "losses/left out", check_losses_left_out(box)
    yield "said", check_said(box)
    yield "losses", check_losses(box)
    yield "losses/fall", check_losses_fall(box)
    yield "losses/places", check_places(box, LOSSES)
    yield "losses/resumed", check_resumed(box, "losses", LOSSES)
    yield "losses/resumed/others", check_losses_resumed(box)
    yield "gates", check_gates(box)
    yield "gates/places", check_places(box, "--gate gshard")
    yield "gates/resumed", check_resumed(box, "gshard", "--gate gshard")
    yield "router keys", check_router_keys(box)
    yield "gates/resumed/others", check_gate_resumed(box)
    for name, case in LOSSES_DIVIDED.items() if has_ranks() else ():
        yield f"losses/divided/{name}", check_losses_divided(box, *case)
    for name, case in DIVIDED.items() if has_ranks() else ():
        yield f"divided/{name}", check_divided(box, *case)
    if not has_ranks():
        return
    write_uneven(box)
    for name, case in SPREAD.items():
        yield f"spread/{name}", check_spread(box, *case)
    yield "spread/imbalance", check_imbalance(box)
    yield "spread/fullest memory", check_fullest_memory(box)
    yield "spread/bits", check_spread_bits(box, "")
    yield "spread/bits/losses", check_spread_bits(box, f"{LOSSES} --gate gshard")
    yield "spread/places", check_spread_places(box, "")
    yield "spread/places/losses", check_spread_places(box, f"{LOSSES} --gate gshard")
    yield "spread/resumed", check_spread_resumed(box)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
