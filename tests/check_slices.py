#!/usr/bin/python3
"""Tensor slices: each rank trains a part of the heads, the MLP and the vocabulary; prints TAP.

The losses and norms in fp32 are those of one rank, to the last digit that is printed, whatever is
sharded, offloaded or recomputed, and with data-parallel ranks and pipeline stages beside them; so
they are where a checkpoint of one division among ranks is continued by another.  Slices that keep
parts of activation checkpoints have the bits of those that keep all of them, and take as much less
memory as planned.  What slices cannot be asked for is refused in one line.
"""
import json
import random
import re
import shutil
import sys

from command import ROOT, SANITIZED, Answer, Box, answer_of, of_rows, refused
from tap import MPIRUN, RANKS_ENVIRONMENT, Skip, has_ranks, report_in

MACHINE = "-H aws-p5-48xlarge"
TRAINING = "--data text.txt --backend cpu --dtype fp32 --lr 2e-3 --steps 4"
FIXTURES = ROOT / "tests/fixtures"

# Per case: the model, data-parallel ranks, slices, stages, and what else is asked.
CASES = {
    "ddp": ("gpt2", 1, 2, 1, "-s ddp"),
    "three, of an odd vocabulary": ("odd", 1, 3, 1, "-s ddp --logits-chunks 2"),
    "more slices than the MLP is wide": ("llama", 1, 4, 1, "-s ddp "
                                         "--activation-checkpoint-interval 1"),
    "tiles": ("odd", 1, 3, 1, "-s zero2 --tiles 2 --logits-chunks 2"),
    "zero3": ("llama", 2, 2, 1, "-s zero3 --activation-checkpoint-interval 1"),
    "offloaded": ("gpt2", 2, 2, 1, "-s zero-infinity-nvme"),
    "delayed update": ("llama", 2, 2, 1, "-s zero-offload --dpu-start 2"),
    "owners": ("llama", 2, 2, 1, "-s zero3 --partition owner"),
    "frozen": ("odd", 1, 3, 1, "-s ddp --train qkv,final-norm"),
    "stages": ("llama", 1, 2, 2, "-s ddp"),
    "stages and data": ("llama", 2, 2, 2, "-s zero3 --activation-checkpoint-interval 1"),
    "tied stages": ("odd", 1, 3, 2, "-s zero1"),
    "tied stages and data": ("gpt2", 2, 2, 2, "-s zero1 --tiles 2 --logits-chunks 2"),
}


# Per case: the model, what else is asked, sequences per micro-batch, and in turn how many
# data-parallel ranks, slices and stages train from the checkpoint of the turn before.
CHECKPOINTS = {
    "transposed": ("gpt2", "-s ddp", 4, (2, 2, 1), (1, 1, 2), (1, 2, 2)),
    "an odd vocabulary, tied": ("odd", "-s zero1 --tiles 2", 6, (2, 3, 2), (1, 1, 1), (1, 3, 1)),
    "sharded": ("llama", "-s zero3", 4, (2, 2, 1), (1, 4, 1), (2, 1, 2)),
    "frozen": ("odd", "-s ddp --train qkv,final-norm", 3, (1, 3, 1), (1, 1, 2)),
}

# Per case: the model, data-parallel ranks, slices, stages, and what else is asked of runs that keep
# parts of activation checkpoints, or all of each.
EACH = "--activation-checkpoint-interval 1"
PARTS = {
    "gpu": ("llama", 1, 4, 1, f"-s ddp {EACH}"),
    # 15 tokens of 48 elements are 22.5 blocks of 32: three slices keep 8, 8 and 6.5
    "8 bits, unlike parts, drives": ("odd", 1, 3, 1, f"-s zero-infinity-nvme {EACH} --seq 5 "
                                     "--dtype bf16 --checkpoint-bits 8 --activation-device nvme "
                                     "--nvme drive"),
    "sharded, every second, host": ("deep", 2, 2, 1, "-s zero3 --activation-checkpoint-interval 2 "
                                    "--activation-device cpu --dtype bf16"),
    "some on drives": ("deep", 1, 2, 1, f"-s zero1 {EACH} --activation-device gpu:50%,nvme "
                       "--nvme drive --prefetch 0"),
    "stages, some kept": ("deep", 1, 2, 2, f"-s ddp {EACH} --recompute-layers 1"),
    "stages, others' activations leave": ("deep", 1, 2, 2, "-s zero-infinity-cpu --checkpoints "
                                          "activations --activation-device cpu "
                                          "--recompute-layers 1"),
    "layer by layer": ("deep", 2, 2, 1, "-s l2l --activation-device cpu"),
    "interleaved, 8 bits": ("deep", 1, 2, 2, f"-s ddp {EACH} --schedule interleaved "
                            "--virtual-stages 2 --checkpoint-bits 8 --dtype bf16"),
}
# Its checkpoints are most of what a step keeps.
DEEP = {"num_hidden_layers": 64, "hidden_size": 64, "intermediate_size": 64, "head_dim": 16,
        "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 128}


def write_models(box):
    gpt2 = json.loads((FIXTURES / "gpt2-small/config.json").read_text())
    llama = json.loads((FIXTURES / "llama-small/config.json").read_text())
    for name, config in (("gpt2", gpt2), ("odd", gpt2 | {"vocab_size": 259, "n_embd": 48,
                                                       "n_head": 6}),
                         ("llama", llama | {"num_key_value_heads": 4}),
                         ("deep", llama | {"num_hidden_layers": 4})):
        box.write(f"{name}.json", json.dumps(config))


def steps(answer):
    """Loss and norm of each."""
    return re.findall(r"^ +\d+ +(\d+\.\d+) +(\d\S*) ", answer.out.decode(), re.M)


def ranks(box, count, options):
    return box.run(options, prefix=[*MPIRUN, str(count)], **RANKS_ENVIRONMENT)


def check_case(box, model, data, slices, stages, options):
    asked = f"run -m {model}.json {MACHINE} {TRAINING} --grad-accum 4 {options}"
    alone = box.run(f"{asked} --batch {data * slices}")
    if len(steps(alone)) != 4:
        yield f"alone: {alone.err[-300:]}"
    all_ranks = data * slices * stages
    sliced = ranks(box, all_ranks, f"{asked} --batch 1 --tp {slices} --pp {stages}")
    if steps(sliced) != steps(alone):
        yield f"{steps(sliced)}, alone {steps(alone)}: {sliced.err[-300:]}"


def divided(asked, sequences, degrees):
    """The same step, by so many data-parallel ranks, slices and stages; and how many these are."""
    data, slices, stages = degrees
    batch = sequences // (data * slices)
    return data * slices * stages, f"{asked} --batch {batch} --tp {slices} --pp {stages}"


def check_checkpoint(box, model, options, sequences, *turns):
    """Each of the turns continues from the checkpoint of the one before, divided otherwise."""
    asked = f"run -m {model}.json {MACHINE} {TRAINING} --grad-accum 2 {options}"
    alone = box.run(f"{asked} --batch {sequences}")
    got = []
    for turn, degrees in enumerate(turns):
        count, words = divided(asked, sequences, degrees)
        start = f"--from saved{turn - 1}" if turn else ""
        shutil.rmtree(box.folder / f"saved{turn}", ignore_errors=True)
        one = ranks(box, count, f"{words} {start} --steps {turn + 1} --save saved{turn}")
        if one.status:
            yield f"{degrees}: {one.err[-300:]}"
        got += steps(one)
    if got != steps(alone)[:len(turns)]:
        yield f"{got}, alone {steps(alone)}"


def check_weights(box):
    """Slices and stages begin with the weights of a whole model as one rank does."""
    asked = f"run -m gpt2.json {MACHINE} {TRAINING} --grad-accum 2 -s ddp"
    box.run(f"{asked} --batch 2 --steps 1 --save trained")
    alone = box.run(f"{asked} --batch 2 --weights trained")
    for degrees in ((1, 2, 1), (1, 2, 2)):
        count, words = divided(asked, 2, degrees)
        parts = ranks(box, count, f"{words} --weights trained")
        if len(steps(alone)) != 4 or steps(parts) != steps(alone):
            yield f"{steps(parts)}, alone {steps(alone)}: {parts.err[-300:]}"


def trained(box, answer):
    """All digits of each step's loss and norm, and all state; or what went wrong."""
    if answer.status:
        return answer.err[-300:]
    lines = map(json.loads, (box.folder / "log").read_text().splitlines())
    return [(row["loss"], row["gradient_norm"]) for row in lines] + [
        (box.folder / "saved" / f"{name}.safetensors").read_bytes()
        for name in ("model", "optimizer")]


def check_parts(box, model, data, slices, stages, options):
    found = []
    for partition in ("off", "on"):
        for folder in ("saved", "drive"):
            shutil.rmtree(box.folder / folder, ignore_errors=True)
        (box.folder / "drive").mkdir()
        (box.folder / "log").unlink(missing_ok=True)
        found.append(trained(box, ranks(
            box, data * slices * stages,
            f"run -m {model}.json {MACHINE} {TRAINING} --grad-accum 2 --batch 1 --tp {slices} "
            f"--pp {stages} {options} --checkpoint-partition {partition} --log log --save saved")))
    if len(found[0]) != 6 or found[0] != found[1]:
        yield f"whole {found[0][:4]}, in parts {found[1][:4]}"


def check_parts_memory(box):
    """A slice of two takes half of 64 checkpoints less, but for the one that is gathered."""
    if SANITIZED:
        yield Skip("sanitizers take memory of their own")
        return
    config = json.loads((FIXTURES / "llama-small/config.json").read_text())
    box.write("layers.json", json.dumps(config | DEEP))
    each = 4 * 64 * 128 * 64  # fp32, of 64 sequences of 128 tokens
    answers = []
    for partition in ("off", "on"):
        answer = ranks(box, 2, f"run -m layers.json {MACHINE} {TRAINING} -s zero1 --batch 32 "
                       f"--tp 2 {EACH} --steps 1 --checkpoint-partition {partition} --json")
        if answer.status:
            yield answer.err[-300:]
            return
        answers.append(answer_of(answer.out))
    planned, resident = ([answer["peak_bytes"]["gpu"] for answer in answers],
                         [answer["run"]["resident_peak_bytes"] for answer in answers])
    if planned[0] - planned[1] != 32 * each - each:
        yield f"planned {planned}, by hand {31 * each} less"
    if not 0.9 < (resident[0] - resident[1]) / (planned[0] - planned[1]) < 1.1:
        yield f"planned {planned}, resident {resident}"


def check_from_plan(box, options):
    """A plan's file has the whole model, of which each rank takes its slice."""
    asked = f"-m llama.json {MACHINE} {options} --batch 1 --grad-accum 2"
    box.run(f"plan {asked} --gpus 2 --dtype fp32 --software memwall -o slices.plan")
    training = TRAINING.replace("--dtype fp32", "")
    of_plan = ranks(box, 2, f"run --plan slices.plan {MACHINE} {training}")
    of_model = ranks(box, 2, f"run {asked} {TRAINING}")
    if len(steps(of_plan)) != 4 or steps(of_plan) != steps(of_model):
        yield f"{steps(of_plan)}, of the model {steps(of_model)}: {of_plan.err[-300:]}"


def check_sums(box):
    """Of each micro-batch: two sums per layer each way, the embedding's result, the gradient of the
    logits' input, and 12 bytes per token within the loss."""
    box.run(f"plan -m llama.json {MACHINE} -s ddp --batch 1 --tp 2 --gpus 2 --software memwall "
            "--activation-checkpoint-interval 0 -o slices.plan")
    text = (box.folder / "slices.plan").read_text()
    works = {number: (operator, int(size)) for number, operator, size in re.findall(
        r"^work (\d+) all-reduce activations (\S+) .* bytes (\d+) ", text, re.M)}
    tokens, hidden, layers = 2 * 24, 32, 2
    expected = {"embedding": 1, "qkv": layers, "projection": layers, "mlp-up": layers,
                "mlp-down": layers, "logits": 1, "loss": 1}
    counts = dict.fromkeys(expected, 0)
    for number in re.findall(r"^op \d+ lane \d+ work (\d+) ", text, re.M):
        if number in works:
            operator, size = works[number]
            counts[operator] += 1
            if size != tokens * (12 if operator == "loss" else 2 * hidden):
                yield f"{operator}: {size} bytes"
    if counts != expected:
        yield f"sums: {counts}"


def check_tokens(box):
    """Slices train on the same sequences: a plan's file has the batch of its settings."""
    asked = f"-m llama.json {MACHINE} -s ddp --batch 1 --grad-accum 2 --tp 2 --gpus 4"
    box.run(f"plan {asked} --software memwall -o slices.plan")
    settings = [json.loads(box.run(f"simulate {what} --json").out)["answers"][0]["settings"]
                for what in (f"{asked} --software memwall", f"slices.plan {MACHINE}")]
    for key in ("tp", "micro_batch", "global_batch", "grad_accum"):
        if settings[0][key] != settings[1][key]:
            yield f"{key}: {settings[0][key]}, of the plan's file {settings[1][key]}"


def check_stages(box):
    """The closed form of a stage has the sums of its own layers: those of all stages take turns."""
    terms = []
    for stages in (1, 4):
        answer = box.run(f"simulate -m gpt3-13b -H dgx-a100 --nodes 4 --tp 4 --pp {stages} -s ddp "
                         "--batch 0.25 --global-batch 64 --activation-checkpoint-interval 1 "
                         "--checkpoint-partition off --json")
        text = answer.out.decode()
        terms += re.findall(r'"tensor-slicing all-reduces", "paper_s": 0.0, "plan_s": ([0-9.]+)',
                            text)
    if len(terms) != 2 or abs(float(terms[1]) / float(terms[0]) - 1) > 0.05:
        yield f"seconds of sums, of 1 and of 4 stages: {terms}"


def check_refused(box, options, words, count):
    answer = ranks(box, count, options)
    said = "\n".join(line for line in answer.err.splitlines() if line.startswith("memwall:"))
    for wrong in refused(Answer(answer.status, answer.out, said), words):
        yield f"{options}: {wrong}"


def check_refusals(box):
    run = f"run -m llama.json {MACHINE} {TRAINING} -s ddp --batch 1 --grad-accum 2"
    few = f"run -m {FIXTURES}/llama-small/config.json {MACHINE} {TRAINING} -s ddp --batch 1"
    for options, words, count in (
            (f"{run} --pp 2 --optimizer sm3 --save here", ["--optimizer sm3", "no --save"], 2),
            (f"{run} --tp 2 --optimizer adafactor", ["--optimizer adafactor", "--tp 1"], 2),
            (f"{run} --tp 2 --gpus 2", ["mpirun -n 2"], 1),
            (f"{run} --pp 2 --gpus 2", ["mpirun -n 2"], 1),
            (f"{run} --tp 2 --train lora:2", ["--tp 2", "adapters"], 2),
            (f"{few} --tp 4", ["--tp 4", "heads"], 4),
            (f"{run} --tp 3", ["tp", "3", "heads"], 3)):
        yield from check_refused(box, options, words, count)


def tests(box):
    rng = random.Random(5)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(40000)))
    write_models(box)
    yield "sums", check_sums(box)
    yield "tokens", check_tokens(box)
    yield "sums of stages", check_stages(box)
    if has_ranks():
        yield "refusals", check_refusals(box)
        yield "from a plan", check_from_plan(box, "-s ddp --tp 2")
        yield "weights", check_weights(box)
        yield "memory of parts", check_parts_memory(box)
    for name, case in of_rows(PARTS.items(), 3, 2) if has_ranks() else ():
        yield f"parts/{name}", check_parts(box, *case)
    for name, case in of_rows(CHECKPOINTS.items(), 2, 2) if has_ranks() else ():
        yield f"checkpoints/{name}", check_checkpoint(box, *case)
    for name, case in of_rows(CASES.items(), 3, 2) if has_ranks() else ():
        yield f"losses/{name}", check_case(box, *case)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
