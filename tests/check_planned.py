#!/usr/bin/python3
"""A plan file answers as the question did that it was made for; prints TAP.

Over questions made from a seed, of models, machines, strategies, software, what is trained,
pipelines and outlooks: each value of the question's answer is that of its plan's file.

few      what a file cannot say is not made up: without its question, or with another plan's, the
         answer has no tokens, FLOP/s or closed forms, and is of the file's own ops.
another  a plan is asked about on another machine, by other software, at another outlook.
refused  a question that nobody can ask is refused in one line.

The command is $MEMWALL, or build/cli/memwall.
"""
import random
import sys

from command import FEW, Box, answer_of
from tap import report_in

QUESTIONS, QUESTIONS_FEW = 120, 24  # that make a plan
ASKED = {  # options, and how often a question has them
    "-s": (0.4, ["ddp", "zero1", "zero2", "zero3", "zero-offload", "zero-infinity-cpu",
                 "zero-infinity-nvme", "l2l"]),
    "--software": (0.4, ["memwall", "ideal", "deepspeed", "hf-trainer", "megatron",
                         "pytorch-fsdp-eager", "pytorch-2020"]),
    "--train": (0.3, ["lora:16", "lora:8@q+v", "norm1"]),
    "--outlook": (0.3, ["low", "high"]),
    "--batch": (0.25, ["1", "2", "4"]),
    "--seq": (0.2, ["512", "1024"]),
    "--grad-accum": (0.2, ["1", "4"]),
    "--global-batch": (0.1, ["64"]),
    "--optimizer": (0.2, ["sgd", "adafactor", "adamw-8bit", "lion", "muon"]),
    "--pp": (0.25, ["2", "2 --schedule gpipe", "2 --schedule zb-h1", "4 --schedule 2bw",
                    "2 --schedule pipedream"]),
    "--tp": (0.15, ["2"]),
    "--cp": (0.08, ["2"]),
    "--shard-group": (0.1, ["2"]),
    "--dpu-start": (0.1, ["10"]),
    "--drop-layers": (0.1, ["1,3/5-7/-"]),
    "--checkpoint-bits": (0.1, ["8"]),
    "--set gpu.memory_gib=": (0.1, ["30"]),
    "--set software.operators.share=": (0.1, ["0.5"]),
}
MODELS = ["gpt2", "gpt2-xl", "llama-3.2-1b", "llama-3.1-8b", "qwen2.5-7b", "mixtral-8x7b",
          "opt-1.3b", "gemma-2-2b", "layers=12,hidden=1024,heads=16"]
MACHINES = ["rtx4090", "a100", "h100", "gh200", "dgx-a100", "dgx-h100", "rtx4090-2x",
            "4xrtx4090,ram=256,nvme=2x4TB"]
# Where gradients are reduced in another type than they are kept in, and where stages choose for
# themselves.
CHOSEN = ["-m gpt2 -H dgx-h100 --batch 4 --pp 2 --grad-accum 1 --software megatron",
          "-m gpt2 -H dgx-h100 --batch 4 --pp 2 --grad-accum 4 --software deepspeed",
          "-m gpt2 -H dgx-h100 -s zero3 --batch 4 --shard-group 4 --grad-accum 1 "
          "--software megatron",
          "-m gpt2 -H dgx-h100 -s zero1 --batch 4 --shard-group 4 --grad-accum 4 "
          "--software deepspeed",
          "-m gpt2-xl -H dgx-h100 --pp 4 --schedule 2bw"]
OF_A_MODEL = ("model", "strategy", "params", "tokens_per_s", "tflops_per_gpu", "mfu", "paper",
              "question")
LINES = ("asked ", "chosen ")


def questions():
    draw = random.Random(29)
    while True:
        words = ["-m", draw.choice(MODELS), "-H", draw.choice(MACHINES)]
        for name, (often, values) in ASKED.items():
            if draw.random() < often:
                words.append(f"{name}{'' if name.endswith('=') else ' '}{draw.choice(values)}")
        yield " ".join(words)


def differences(box, asked):
    told = answer_of(box.run(f"simulate {asked} --json").out)
    done = box.run("simulate asked.plan --json")
    if done.status or done.err:
        yield f"{asked}: status {done.status}: {done.err}"
        return
    read = answer_of(done.out)
    for key in sorted({*told, *read}):
        if read.get(key) != told.get(key):
            yield f"{asked}: {key} {read.get(key)}, asked {told.get(key)}"


def check_questions(box):
    left = QUESTIONS_FEW if FEW else QUESTIONS
    for asked in questions():
        if box.run(f"plan {asked} -o asked.plan").status:
            continue  # does not fit, or cannot be asked
        yield from differences(box, asked)
        left -= 1
        if not left:
            return


def check_chosen(box):
    for asked in CHOSEN:
        box.run(f"plan {asked} -o asked.plan")
        yield from differences(box, asked)


def lines_of(box, name):
    return (box.folder / name).read_text(encoding="utf-8").splitlines()


def write(box, name, lines):
    box.write(name, "\n".join(lines) + "\n")


def check_few(box):
    """A plan that is not that of its question is answered from its ops."""
    box.run("plan -m gpt2 -H a100 -s ddp --batch 2 -o one.plan")
    box.run("plan -m gpt2 -H a100 -s ddp --batch 4 -o other.plan")
    lines, others = lines_of(box, "one.plan"), lines_of(box, "other.plan")
    of_other = [line for line in others if line.startswith(LINES)]
    bare = [line for line in lines if not line.startswith(LINES)]
    at = bare.index("strategy ddp") + 1
    told = answer_of(box.run("simulate one.plan --json").out)
    for name, text in (("bare", bare), ("mixed", bare[:at] + of_other + bare[at:])):
        write(box, "few.plan", text)
        read = answer_of(box.run("simulate few.plan --json").out)
        for key in OF_A_MODEL:
            if read[key] is not None or told[key] is None:
                yield f"{name}: {key} {read[key]}, with its question {told[key]}"
        for key in ("step_time_s", "first_step_time_s", "lanes", "ledger", "tiers"):
            if read[key] != told[key]:
                yield f"{name}: {key} {read[key]}, with its question {told[key]}"


def check_another(box):
    box.run("plan -m gpt2 -H a100 -s ddp --batch 2 --software ideal --outlook low -o one.plan")
    low = answer_of(box.run("simulate one.plan --json").out)
    high = answer_of(box.run("simulate one.plan --outlook high --json").out)
    if low["question"].get("outlook") != "low" or high["question"].get("outlook") != "high":
        yield f"outlooks {low['question']}, {high['question']}"
    if not high["step_time_s"] < low["step_time_s"]:
        yield f"a step of {high['step_time_s']} s at best, {low['step_time_s']} s at worst"
    done = box.run("simulate one.plan -H h100 --json")
    there = answer_of(done.out)
    if there["hardware"] != "h100" or not there["tokens_per_s"] > high["tokens_per_s"]:
        yield f"{there['hardware']}: {there['tokens_per_s']} tokens/s"
    if "was made for machine a100" not in done.err:
        yield f"another machine: {done.err!r}"
    by_other = answer_of(box.run("simulate one.plan --software hf-trainer --json").out)
    if by_other["software"] != "hf-trainer" or \
            by_other["settings"]["micro_batch"] != low["settings"]["micro_batch"]:
        yield f"{by_other['software']}: {by_other['settings']}"


def check_refused(box):
    """With the line of the file, and what would be taken."""
    box.run("plan -m gpt2 -H a100 -s ddp --batch 2 -o one.plan")
    lines = lines_of(box, "one.plan")
    for word, new, *wanted in (("batch=2", "batch=none", "batch", "none"),
                               ("batch=2", "batches=2", "batches"),
                               ("batch=2", "batch", "NAME=VALUE"),
                               ("strategy=ddp", "strategy=dpd", "dpd")):
        for start in LINES:
            number = next(i for i, line in enumerate(lines) if line.startswith(start))
            text = list(lines)
            text[number] = text[number].replace(word, new)
            write(box, "bad.plan", text)
            done = box.run("simulate bad.plan")
            said = done.err.strip().splitlines()
            if done.status != 2 or len(said) != 1 or \
                    [one for one in (f"line {number + 1}", *wanted) if one not in said[0]]:
                yield f"{start}{new}: status {done.status}: {done.err}"
    text = [line.replace("model=gpt2", "model=./secret.json") for line in lines]
    write(box, "file.plan", text)
    read = answer_of(box.run("simulate file.plan --json").out)
    if read["model"] is not None:
        yield f"a file's model: {read['model']}"


def tests(box):
    yield "questions", check_questions(box)
    yield "chosen", check_chosen(box)
    yield "few", check_few(box)
    yield "another", check_another(box)
    yield "refused", check_refused(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
