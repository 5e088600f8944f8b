#!/usr/bin/python3
"""`--recompute-layers`: some layers are recomputed, the others keep activations; prints TAP.

The fewest that memory has room for are the best of all numbers that do, on random chains of layers,
and what is planned by default is the best of these and of all intervals of checkpoints.  Over
random questions no strategy that is named, with any of these ways, is faster than what is chosen
among all.
A run with any number of them has the bits of one that recomputes all, or none.
"""
import json
import os
import random
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

from command import ROOT, Box, answer_of, answers_of, kill_after, refused, sample
from tap import report_in

SEED = 41
CHAINS = 200
QUESTIONS = 20
SIMPLER = 1.02  # a plan that does more is taken where it is faster than this
ALIKE = 1.01  # estimates pick what is simulated
MODELS = ("gpt3-1.3b", "qwen2.5-7b", "llama-3.2-3b", "llama-3.1-8b", "phi-2", "opt-30b",
          "llama-2-13b")
MACHINES = ("rtx4090", "rtx3090-4x", "dgx-h100", "dgx-a100", "rtx-a6000", "l40s", "gh200")
STRATEGIES = ("ddp", "zero1", "zero2", "zero3", "zero-offload", "zero-infinity-cpu",
              "zero-infinity-nvme")
WAYS = ("--recompute-layers fewest", "--activation-checkpoint-interval 1",
        "--activation-checkpoint-interval 0", "--recompute-attention on")
RUN = "-H rtx4090 --set gpu.memory_gib=2 --data text.txt --backend cpu --batch 2 --steps 4"
PLACEMENTS = ("-s ddp", "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu "
              "--activation-device cpu", "-s zero-infinity-nvme --param-device nvme "
              "--activation-device nvme --optimizer-device nvme --nvme drive")

SWAPPED = "-H rtx4090 -s zero3 --checkpoints activations --activation-device cpu"


def ask(box, options):
    answer = box.run(f"simulate {options} --json")
    if answer.status not in (0, 3):
        raise RuntimeError(f"{options}: {answer.err}")
    return answer_of(answer.out)


def check_best(box):
    """Memory lies between what the fewest and what all of a chain's layers need."""
    rng = random.Random(SEED)
    chosen = set()
    for _ in sample(range(CHAINS)):
        layers = rng.randint(2, 6)
        batch, interval = rng.randint(1, 4), rng.randint(1, 2)
        chain = (f"-m layers={layers},hidden={64 * rng.randint(4, 16)},heads=4,vocab=1000 "
                 f"-s {rng.choice(('ddp', 'zero3', 'zero-offload'))} --software ideal "
                 f"--seq {128 * rng.randint(1, 8)} --batch {batch} --grad-accum 1 --gpus 1 "
                 f"--activation-checkpoint-interval {interval} --logits-chunks 1 --tiles 1")
        needs = [ask(box, f"{chain} -H flat-test --recompute-layers {n}")["peak_bytes"]["gpu"]
                 for n in (1, layers)]
        gib = (min(needs) + rng.random() * (max(needs) - min(needs))) / 2**30
        reserve = "gpu.reserve_gib=0"
        machine = f"-H flat-test --set gpu.memory_gib={gib:.6f} --set {reserve}"
        steps = {}
        for number in range(1, layers + 1):
            answer = ask(box, f"{chain} {machine} --recompute-layers {number}")
            if answer["feasible"]:
                steps[number] = answer["step_time_s"]
        fewest = ask(box, f"{chain} {machine} --recompute-layers fewest")
        if fewest["feasible"] != bool(steps):
            yield f"{chain} {machine}: fits {fewest['feasible']}, with {list(steps)}"
        # Kept layers leave less room for rings of gradients, which only offload has here.
        elif steps and fewest["step_time_s"] > min(steps.values()) * (
                ALIKE if "zero-offload" in chain else 1):
            yield f"{chain} {machine}: {fewest['step_time_s']} s, best of {steps}"
        chosen.add((layers, min(steps)) if steps else None)
    if len(chosen) < len(sample(range(CHAINS))) // 20:
        yield f"few choices: {chosen}"


def check_default(box, number):
    """Memory lies between what a step takes that recomputes all and one that keeps all.  Layers are
    alike, so their number is all there is to choose."""
    rng = random.Random(SEED * 1000 + number)
    layers, heads = rng.randint(2, 9), rng.choice((4, 8, 16))
    hidden = heads * rng.choice((64, 128))
    line = (f"-H rtx4090 -s ddp --software ideal --grad-accum 1 --logits-chunks 1 "
            f"-m layers={layers},hidden={hidden},heads={heads},vocab=1024,ffn="
            f"{hidden * rng.randint(2, 4)},architecture={rng.choice(('gpt2', 'llama'))} "
            f"--batch {rng.randint(1, 4)} --seq {128 * rng.randint(2, 8)}")
    least, most = (ask(box, f"{line} --activation-checkpoint-interval {interval}")
                   ["peak_bytes"]["gpu"] for interval in (1, 0))
    gib = (least + (most - least) * rng.uniform(0.05, 1.1)) / 2**30
    line = f"{line} --set gpu.memory_gib={gib:.6f} --set gpu.reserve_gib=0"
    asked = [f"--activation-checkpoint-interval {k}" for k in sorted({0, 1, 2, layers})]
    asked += [f"--recompute-layers {n}" for n in range(1, layers)]
    answers = {options: ask(box, f"{line} {options}") for options in asked}
    steps = {options: answer["step_time_s"] for options, answer in answers.items()
             if answer["feasible"]}
    chosen = ask(box, line)
    if chosen["feasible"] != bool(steps):
        return [f"{line}: fits {chosen['feasible']}, with {list(steps)}"]
    best = min(steps, key=steps.get, default=None)
    alike = chosen["feasible"] and not chosen["settings"]["kept_layers"]
    slack = SIMPLER if alike and answers[best]["settings"]["kept_layers"] else 1
    if best and chosen["step_time_s"] > slack * steps[best] + 1e-9:
        return [f"{line}: {chosen['step_time_s']} s, {steps[best]} s with {best}"]
    return []


def check_defaults(box):
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for lines in pool.map(lambda number: check_default(box, number), sample(range(CHAINS))):
            yield from lines


def complexity(answer):
    offloads = any(answer["peak_bytes"][tier] for tier in ("cpu", "nvme"))
    return offloads, STRATEGIES.index(answer["strategy"]), answer["settings"]["kept_layers"] > 0


def question(rng):
    line = f"-m {rng.choice(MODELS)} -H {rng.choice(MACHINES)} --seq {512 * rng.randint(1, 4)}"
    line += f" --batch {rng.choice((1, 2, 4, 8))} --grad-accum {rng.choice((1, 3, 16))}"
    line += rng.choice((" ", " ", " --train lora:16", " --train lora:16 --weight-bits 4-double"))
    return line + rng.choice((" ", " ", " --software ideal", " --software megatron"))


def check_chosen(box, number):
    """Whichever strategy and whichever layers are asked for.  A way that does not go with the
    question is refused; one at least goes."""
    line = question(random.Random(SEED * 2000 + number))
    chosen = ask(box, line)
    line += f" --software {chosen['software']}"
    compared = 0
    for way in WAYS:
        asked = box.run(f"simulate {line} -s {','.join(STRATEGIES)} {way} --json")
        for other in answers_of(asked.out) if asked.out else ():
            compared += 1
            if not other["feasible"] or any("run out of memory" in note for note in other["notes"]):
                continue
            if not chosen["feasible"]:
                return [f"{line}: does not fit, with -s {other['strategy']} {way} it does"]
            slack = SIMPLER if complexity(other) > complexity(chosen) else ALIKE
            if other["tokens_per_s"] > slack * chosen["tokens_per_s"]:
                times = other["tokens_per_s"] / chosen["tokens_per_s"]
                return [f"{line}: {chosen['strategy']}, with -s {other['strategy']} {way} "
                        f"{times:.4f} times as fast"]
    return [] if compared >= len(STRATEGIES) else [f"{line}: {compared} answers compared"]


def check_choices(box):
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for lines in pool.map(lambda number: check_chosen(box, number), sample(range(QUESTIONS))):
            yield from lines


def check_sqrt(box):
    """gpt2-xl has 48 layers, gpt2-large 36."""
    for model, interval in (("gpt2-xl", 7), ("gpt2-large", 6)):
        line = f"-m {model} -H flat-test -s ddp --batch 1 --activation-checkpoint-interval"
        settings = [ask(box, f"{line} {value}")["settings"] for value in ("sqrt", interval)]
        if settings[0] != settings[1] or settings[0]["checkpoint_interval"] != interval:
            yield f"{model}: {settings}"
    wrong = "--activation-checkpoint-interval root"
    yield from refused(box.run(f"simulate -m gpt2 -H flat-test {wrong}"), [wrong, "sqrt"])


def check_counts(box):
    """FLOPs, memory and checkpoints of Llama 3.1 8B, 12 of whose 32 layers are kept."""
    line = ("-m llama-3.1-8b -H h100 -s ddp --gpus 1 --batch 1 --grad-accum 1 --seq 2048 "
            "--set gpu.memory_gib=400 --software ideal --logits-chunks 1")
    found = {number: ask(box, f"{line} {how}") for number, how in (
        (32, "--activation-checkpoint-interval 1"), (20, "--recompute-layers 20"),
        (0, "--activation-checkpoint-interval 0"))}

    def held(answer, purpose):
        return sum(row["bytes"] for row in answer["ledger"] if row["purpose"] == purpose)

    layer = (held(found[0], "activations") - held(found[32], "activations")) / 31
    more = held(found[20], "activations") - held(found[32], "activations")
    if abs(more - 12 * layer) > 64 * 4096:
        yield f"activations of 12 layers: {more}, {layer} for each"
    checkpoints = [held(answer, "activation-checkpoints") for answer in found.values()]
    if checkpoints != [32 * 2 * 2048 * 4096, 20 * 2 * 2048 * 4096, 0]:
        yield f"checkpoints {checkpoints}"
    steps = [answer["step_time_s"] for answer in found.values()]
    share = (steps[0] - steps[1]) / (steps[0] - steps[2])
    if abs(share - 12 / 32) > 0.02:
        yield f"of what recomputing all takes, {share:.3f} is gone with 12 of 32 layers: {steps}"


def check_open(box):
    """Layers that are asked for are recomputed, though memory has room for all activations."""
    found = ask(box, "-m gpt2 -H h100 --recompute-layers 3")["settings"]
    if (found["checkpoint_interval"], found["kept_layers"]) != (1, 9):
        yield f"{found}"
    found = ask(box, "-m gpt2 -H h100 --recompute-layers fewest")["settings"]
    if found["checkpoint_interval"]:
        yield f"fewest: {found}"


def check_bits(box, name):
    config = json.loads((ROOT / f"tests/fixtures/{name}/config.json").read_text("utf-8"))
    config["n_layer" if "n_layer" in config else "num_hidden_layers"] = 5
    box.write("five/config.json", json.dumps(config))
    first = None
    for placement in PLACEMENTS:
        for how in ("", "--recompute-layers 1", "--recompute-list 0,2,4",
                    "--recompute-layers fewest", "--recompute-layers 4 "
                    "--activation-checkpoint-interval 3",
                    "--recompute-list 1-2,4 --activation-checkpoint-interval 2",
                    "--recompute-layers 2 --param-loads 2 --tiles 2",
                    "--checkpoints activations --recompute-layers 2",
                    "--checkpoints activations --recompute-list 1,4 --param-loads 2"):
            shutil.rmtree(box.folder / "drive", ignore_errors=True)
            shutil.rmtree(box.folder / "out", ignore_errors=True)
            (box.folder / "drive").mkdir()
            interval = "" if "interval" in how else "--activation-checkpoint-interval 1"
            answer = box.run(f"run -m ./five {RUN} {placement} {interval} {how} --grad-accum 2 "
                             "--commit none --overwrite --save out")
            if answer.status:
                yield f"{placement} {how}: {answer.err.strip()[-300:]}"
                continue
            if "--tiles" in how: # another order of sums
                continue
            bits = (box.folder / "out" / "model.safetensors").read_bytes()
            first = first or bits
            if bits != first:
                yield f"{placement} {how}: other weights"


def check_dropped(box):
    """With layers that steps leave out, some recomputed or all: the same bits."""
    found = set()
    for how in ("--recompute-layers 2", "--recompute-list 0,3-4",
                "--activation-checkpoint-interval 3 --recompute-list 1-3",
                "--activation-checkpoint-interval 0"):
        shutil.rmtree(box.folder / "out", ignore_errors=True)
        answer = box.run(f"run -m ./five {RUN} -s ddp {how} --drop-layers 1,3/-/0-1 --grad-accum 2 "
                         "--commit none --overwrite --save out")
        if answer.status:
            yield f"{how}: {answer.err.strip()[-300:]}"
            continue
        found.add((box.folder / "out" / "model.safetensors").read_bytes())
    if len(found) != 1:
        yield f"{len(found)} kinds of weights"


def check_plan(box):
    """Said in the plan, and read back; a plan that keeps what cannot be kept is refused."""
    line = "-m ./five -H rtx4090 -s ddp --batch 2 --activation-checkpoint-interval 1"
    planned = box.run(f"plan {line} --recompute-layers 2 -o plan.txt --software memwall")
    text = (box.folder / "plan.txt").read_text("utf-8")
    if planned.status or " interval 1 keeps 3 " not in text:
        yield f"{planned.err} {text[:800]}"
    if box.run("simulate plan.txt -H rtx4090").status:
        yield "not read back"
    for wrong in ("keeps 5", "keeps 6", "keeps -1", "keeps 2"):
        box.write("wrong.txt", text.replace(" keeps 3 ", f" {wrong} "))
        answer = box.run("simulate wrong.txt -H rtx4090")
        trained = box.run("run --plan wrong.txt -H rtx4090 --data text.txt --steps 1")
        if wrong != "keeps 2":
            yield from refused(answer, ["wrong.txt"])
        yield from refused(trained, ["wrong.txt"])


def check_killed(box):
    """A run whose layers are recomputed, or bring activations back from a drive, goes on after a
    kill to the bits of one that was not killed."""
    line = (f"-m ./five {RUN.replace('--steps 4', '--steps 8')} {PLACEMENTS[-1]} --grad-accum 2 "
            "--checkpoints activations --recompute-list 0,3 --seed 5")
    found = []
    for how in ("whole", "resumed"):
        shutil.rmtree(box.folder / "drive", ignore_errors=True)
        shutil.rmtree(box.folder / "out", ignore_errors=True)
        (box.folder / "drive").mkdir()
        if how == "resumed":
            kill_after(box, line, 3)
            line = "--resume --nvme drive"
        answer = box.run(f"run {line} --save out")
        if answer.status:
            yield f"{how}: {answer.err.strip()[-300:]}"
            return
        found.append((box.folder / "out" / "model.safetensors").read_bytes())
    if found[0] != found[1]:
        yield "other weights behind the kill"


def check_swapped_plan(box):
    """Which layers send their activations away is said, and read back; others are refused."""
    line = f"-m ./five {SWAPPED} --batch 2"
    planned = box.run(f"plan {line} --recompute-list 1,3 -o plan.txt --software memwall")
    text = (box.folder / "plan.txt").read_text("utf-8")
    said = " keeps 3 recomputes 1,3 "
    if planned.status or said not in text or " whole-checkpoints" not in text:
        yield f"{planned.err} {text[:800]}"
    if box.run("simulate plan.txt -H rtx4090").status:
        yield "not read back"
    for old, new in ((said, " keeps 3 recomputes 1-2 "), (said, " keeps 2 recomputes 1-3 "),
                     (said, " "), (" whole-checkpoints", ""), (" interval 1 ", " interval 2 ")):
        box.write("wrong.txt", text.replace(old, new))
        yield from refused(box.run("run --plan wrong.txt -H rtx4090 --data text.txt --steps 1"),
                           ["wrong.txt"])


def check_swapped_counts(box):
    """Memory, traffic and FLOPs of Llama 3.1 8B, whose layers send activations away or are
    recomputed, from the model's dimensions."""
    line = ("-m llama-3.1-8b -H h100 -s ddp --gpus 1 --batch 1 --grad-accum 2 --seq 2048 "
            "--set gpu.memory_gib=400 --software ideal --logits-chunks 1 --checkpoints activations "
            "--activation-device cpu --activation-checkpoint-interval 1")
    found = {number: ask(box, f"{line} {how}") for number, how in (
        (0, ""), (12, "--recompute-layers 12"), (32, "--recompute-layers 32"))}

    def held(answer, purpose):
        return sum(row["bytes"] for row in answer["ledger"] if row["purpose"] == purpose)

    def busy(answer, lane):
        return next(row["busy_s"] for row in answer["lanes"] if row["name"] == lane)

    layer, hidden = held(found[0], "activation-checkpoints") // 32, 2 * 2048 * 4096
    # Inputs of both norms and of the MLP's last product, q, k, v, the result, gate, up, 4 bytes a
    # head and token.
    rows = 4 * 4096 + 4096 + 2 * 1024 + 3 * 14336
    if not abs(layer / (2048 * (2 * rows + 4 * 32)) - 1) < 0.1:
        yield f"a layer's activations: {layer} bytes"
    if held(found[12], "activation-checkpoints") != 20 * layer + 12 * hidden or \
            held(found[32], "activation-checkpoints") != 32 * hidden:
        yield f"checkpoints {[held(answer, 'activation-checkpoints') for answer in found.values()]}"
    if held(found[12], "checkpoint-buffers") != 2 * layer:
        yield f"on the way {held(found[12], 'checkpoint-buffers')}"
    for lane, share in (("d2h", (20 * layer + 12 * hidden) / (32 * layer)),
                        ("h2d", (20 * layer + 12 * hidden) / (32 * layer))):
        took = [busy(answer, lane) for answer in found.values()]
        if not abs(took[1] / took[0] / share - 1) < 0.005:
            yield f"{lane} takes {took}, {share} of the first expected"
    took = [busy(answer, "compute") for answer in found.values()]
    if not abs((took[1] - took[0]) / (took[2] - took[0]) - 12 / 32) < 1e-3:
        yield f"computes for {took} with 0, 12 and 32 layers recomputed"


def check_fastest(box):
    """Neither nothing nor everything recomputed: with activations in host memory the best of some
    numbers of layers beats both, and no number of first layers is better."""
    line = ("-m llama-3.1-8b -H a100 -s zero-infinity-nvme --software memwall --checkpoints "
            "activations --activation-device cpu --batch 4 --grad-accum 8 --seq 2048")
    chosen = ask(box, f"{line} --recompute-layers auto")
    line += " --activation-checkpoint-interval 1"
    steps = {layers: ask(box, f"{line} --recompute-layers {layers}")["step_time_s"]
             for layers in (1, 8, 16, 24, 32)}
    steps[0] = ask(box, line)["step_time_s"]
    if not 0 < chosen["settings"]["kept_layers"] < 32 or \
            not chosen["step_time_s"] < 0.98 * min(steps.values()):
        yield f"{chosen['step_time_s']} s, {steps}"
    named = [note for note in chosen["notes"] if "--recompute-list" in note]
    layers = named[0].split("--recompute-list ")[1].split()[0] if named else "none"
    again = ask(box, f"{line} --recompute-list {layers}")
    if again["step_time_s"] != chosen["step_time_s"]:
        yield f"{named}: {again['step_time_s']} s, {chosen['step_time_s']} s chosen"


def check_refusals(box):
    for options, words in (
            ("-H rtx4090 --recompute-layers 0",
             ["--recompute-layers", "from 1 to", "fewest",
              "; --activation-checkpoint-interval 0 recomputes none"]),
            ("-H rtx4090 --recompute-layers 13",
             ["--recompute-layers 13: model gpt2 has 12 layers; give 1 to 12, or fewest"]),
            ("-H dgx-h100 -s zero1 --pp 4 --recompute-layers 4",
             ["--recompute-layers 4: a pipeline stage of model gpt2 has 3 layers; give 1 to 3"]),
            ("-H dgx-h100 -s zero1 --pp 2 --stage-split 4 --recompute-layers 9",
             ["--recompute-layers 9: a pipeline stage", "give 1 to 8"]),
            ("-H rtx4090 --activation-checkpoint-interval 13",
             ["--activation-checkpoint-interval 13: model gpt2 has 12 layers; give 0 to 12, sqrt "
              "or auto"]),
            ("-H rtx4090 --activation-checkpoint-interval 0 --recompute-layers 2",
             ["--recompute-layers 2", "--activation-checkpoint-interval 0"]),
            ("-H rtx4090 --recompute-layers few", ["--recompute-layers", "fewest"]),
            ("-H rtx4090 --recompute-list 3-1", ["--recompute-list 3-1", "0-3,8"]),
            ("-H rtx4090 --recompute-list 3,12", ["--recompute-list", "layers 0 to 11"]),
            ("-H rtx4090 --recompute-list 3 --recompute-layers 2",
             ["--recompute-list", "--recompute-layers"]),
            ("-H rtx4090 --recompute-list 3 --activation-checkpoint-interval 0",
             ["--recompute-list", "--activation-checkpoint-interval 0"]),
            ("-H rtx4090 -s zero3 --grad-accum 2 --micro-batch-order layer --recompute-list 3",
             ["--micro-batch-order layer", "--recompute"]),
            ("-H rtx4090 -s zero3 --recompute-layers auto", ["--recompute-layers auto",
                                                             "--checkpoints activations"]),
            (f"{SWAPPED} --recompute-layers fewest", ["--recompute-layers fewest", "auto"]),
            *((f"{SWAPPED} --recompute-layers 2 {beside}",
               ["--checkpoints activations", beside.split()[0]])
              for beside in ("--drop-layers 1", "--activation-checkpoint-interval 2")),
            (f"{SWAPPED} --checkpoint-bits 8",
             ["--checkpoints activations", "--checkpoint-bits 8"]),
            (f"{SWAPPED} --recompute-layers 2 --kept-bits 8",
             ["--checkpoints activations", "--kept-bits"])):
        yield from refused(box.run(f"simulate -m gpt2 {options}"), words)


def tests(box):
    box.write("text.txt", "".join(random.Random(SEED).choice("abcdefgh \n") for _ in range(20000)))
    yield "best", check_best(box)
    yield "default", check_defaults(box)
    yield "chosen", check_choices(box)
    yield "sqrt", check_sqrt(box)
    yield "counts", check_counts(box)
    yield "open", check_open(box)
    for name in ("llama-small", "gpt2-small"):
        yield f"bits/{name}", check_bits(box, name)
    yield "dropped", check_dropped(box)
    yield "killed", check_killed(box)
    yield "plan", check_plan(box)
    yield "swapped, plan", check_swapped_plan(box)
    yield "swapped, counts", check_swapped_counts(box)
    yield "swapped, fastest", check_fastest(box)
    yield "refusals", check_refusals(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
