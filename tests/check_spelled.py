#!/usr/bin/python3
"""What the planner chooses is the same plan when it is asked for; prints TAP.

Over models, machines and software: each setting that was chosen, given by hand alone, and all of
them together, leave memory, what the software takes of it, and the step as they were.  And what
was asked for fits if there is room for all that the software keeps; where there is room for once
what is counted alone, a note says so.

The command is $MEMWALL, or build/cli/memwall.
"""
import re
import sys

from command import Box, answer_of, refused, sample
from tap import report_in

ROWS = [
    ("-m llama-2-7b -H rtx4090 --train lora:16 --seq 512 --batch 1", ("", "pytorch-fsdp-eager")),
    ("-m llama-2-7b -H rtx-a6000 --train lora:16", ("hf-trainer", "fsdp2-compile")),
    ("-m llama-3.1-8b -H dgx-h100", ("", "pytorch-fsdp-eager", "megatron", "ideal")),
    ("-m llama-3.1-8b -H rtx4090 --train lora:16 --weight-bits 4 --batch 2",
     ("hf-trainer",)),
    ("-m gpt2-xl -H rtx4090 --seq 1024 --batch 4", ("pytorch-2020", "deepspeed", "llm-foundry")),
    ("-m gpt2 -H v100 --batch 8", ("pytorch-2020", "hf-trainer")),
    ("-m opt-1.3b -H a100 --batch 4", ("pytorch-fsdp-eager", "hf-trainer")),
    ("-m gpt3-1.3b -H dgx-a100 --batch 2", ("deepspeed", "megatron", "hf-trainer")),
    ("-m mixtral-8x7b -H dgx-h100 --batch 1", ("", "pytorch-fsdp-eager")),
    ("-m gemma-2-9b -H dgx-a100 --batch 1", ("pytorch-fsdp-eager", "fsdp2-compile")),
    ("-m llama-2-13b -H dgx-a100 -s zero3", ("pytorch-fsdp-eager", "llm-foundry")),
    ("-m llama-3.1-8b -H dgx-a100 --seq 8192 --batch 2 -s zero3",
     ("fsdp2-compile", "nemo", "megatron", "memwall")),
]
CHILD = "[profile]\ninherits = hf-trainer\n[memory]\nactivations_kept = {}\nadapters_cast = false\n"
AGAIN = re.compile(r"(\d+) of \d+ layers are recomputed")
FIELDS = ("feasible", "strategy", "peak_bytes", "software_memory", "step_time_s", "settings")
WORTH_COMPLEXITY = 1.02  # by so much a plan must be faster than a simpler one
OF_OPEN_BATCH = ("default_step_tokens",)


def ask(box, options):
    answer = box.run(f"simulate {options} --json")
    if answer.status not in (0, 3):
        raise RuntimeError(f"{options}: {answer.err}")
    return answer_of(answer.out)


def spelled(answer):
    """The options that say what was chosen, one choice each; placements are one."""
    chosen = answer["settings"]
    yield f"-s {answer['strategy']}"
    yield f"--batch {chosen['micro_batch']:.15g} --grad-accum {chosen['grad_accum']}"
    again = f"--activation-checkpoint-interval {chosen['checkpoint_interval']}"
    if chosen["kept_layers"]:
        again += f" --recompute-layers {AGAIN.search(' '.join(answer['notes']))[1]}"
    yield again
    yield f"--tiles {chosen['tiles']}"
    yield f"--logits-chunks {chosen['logits_chunks']}"
    yield " ".join(f"--{state}-device {chosen[f'{state}_device']}"
                   for state in ("param", "optimizer", "gradient", "activation"))


def value_of(answer, field):
    value = answer.get(field)
    if field != "settings":
        return value
    return {name: of for name, of in value.items() if name not in OF_OPEN_BATCH}


def nearly_as_fast(answer, other):
    """With one choice given, the search of the others may end with a plan that is as good."""
    times = other["step_time_s"] / answer["step_time_s"]
    return value_of(answer, "settings") != value_of(other, "settings") and \
        abs(times - 1) < WORTH_COMPLEXITY - 1


def check(box, question):
    answer = ask(box, question)
    if not answer["feasible"]:
        yield "does not fit"
    said = list(spelled(answer))
    for options in (*said, " ".join(said)):
        other = ask(box, f"{question} {options}")
        if options != " ".join(said) and nearly_as_fast(answer, other):
            continue
        for field in FIELDS:
            one, by_hand = value_of(answer, field), value_of(other, field)
            if one != by_hand:
                yield f"{options}: {field} {by_hand}, as chosen {one}"


def check_room(box):
    """Activations of layers that are not recomputed, kept 1, 2 and 3 times, and the verdict where
    there is room for them once."""
    question = ("-m llama-2-7b -H rtx4090 --train lora:16 --seq 512 --batch 1 -s ddp --software "
                "child.ini --activation-checkpoint-interval 0 --set gpu.memory_gib=")
    taken = {}
    for kept in (1, 2, 3):
        box.write("child.ini", CHILD.format(kept))
        answer = ask(box, f"{question}80")
        taken[kept] = {row["what"]: row["bytes"] for row in answer["software_memory"]}
        if any("would fit once" in note for note in answer["notes"]):
            yield f"kept {kept} times, with room: {answer['notes']}"
    more = {kept: of.get("more activations kept", 0) for kept, of in taken.items()}
    if more[1] or more[2] < 2 ** 30 or abs(more[3] - 2 * more[2]) > 1:
        yield f"more activations kept: {more}"
    need = answer["peak_bytes"]["gpu"] + sum(taken[1].values())
    short = ask(box, f"{question}{need / 2 ** 30 + 2:.3f}")
    if short["feasible"] or not any("would fit once" in note for note in short["notes"]):
        yield f"room for what is counted: {short['feasible']}, {short['notes']}"
    box.write("child.ini", CHILD.format(1))
    if not ask(box, f"{question}{need / 2 ** 30 + 2:.3f}")["feasible"]:
        yield "room for what is counted, and it is not enough if no more is kept"


def check_open(box):
    """The word for an open interval asks what leaving the option out asks, in sweeps too."""
    option = "activation-checkpoint-interval"
    for question in ("-m llama-2-7b -H rtx4090 --train lora:16 --seq 2048", "-m gpt2-xl -H a100"):
        one, other = (box.run(f"simulate {question} {more}")
                      for more in ("", f"--{option} auto"))
        if not one.out or one.out != other.out:
            yield f"{question} --{option} auto is not the default"
    rows = box.run(f"sweep -m gpt2-xl -H a100 --over {option}=auto,1").out.decode().splitlines()
    if rows[1].split(",")[0] != "auto" or rows[1].split(",")[1]:
        yield f"a sweep over auto: {rows[1]}"
    for value in ("open", "automatic"):
        yield from refused(box.run(f"simulate -m gpt2 -H h100 --{option} {value}"),
                           ("0 to 1048576, or sqrt or auto",))


def taken_by(box, question, what):
    """GiB of the GPU that the software takes so."""
    rows = {row["what"]: row["bytes"] for row in ask(box, question).get("software_memory", ())}
    return rows.get(what, 0) / 2 ** 30


def check_groups(box):
    """Of layers that are recomputed together as much is kept as of layers that are not, but of the
    one whose backward is at work; of one layer, and by software that keeps no more, nothing."""
    question = ("-m llama-2-7b -H h100 --gpus 1 -s ddp --seq 4096 --batch 1 --grad-accum 1 "
                "--optimizer adamw-8bit-pure --software {} --activation-checkpoint-interval {}")
    what = "more activations kept"
    more = {interval: taken_by(box, question.format("hf-trainer", interval), what)
            for interval in (0, 1, 2, 16, 32)}
    for interval in (2, 16, 32):
        # Working memory is in what is counted of all.
        if not more[0] or abs(more[interval] / more[0] * 32 / (interval - 1) - 1) > 0.03:
            yield f"groups of {interval} layers: {more[interval]} GiB, of all {more[0]}"
    if more[1] or taken_by(box, question.format("ideal", 32), what):
        yield f"groups of one layer: {more[1]} GiB"


def check_types(box):
    """Gradients in buckets are of fp32 where forward casts the model's parameters, and not where
    they are of 16 bits; an update of fp32 gradients copies none."""
    rest = "-s ddp --batch 1 --grad-accum 1 --software"
    question = f"-m llama-3.2-1b -H rtx4090-2x --seq 512 {rest} {{}}"
    params = ask(box, question.format("hf-trainer"))["params"] / 2 ** 30
    for options, bytes_each in (("hf-trainer", 4), ("hf-trainer --dtype fp32", 4),
                                ("hf-trainer --optimizer adamw-pure", 2), ("nanotron", 2)):
        buckets = taken_by(box, question.format(options), "buckets of gradients")
        if abs(buckets / params - bytes_each) > 1e-3:
            yield f"{options}: {buckets / params} bytes per parameter in buckets, not {bytes_each}"
    question = f"-m opt-1.3b -H a100 --seq 64 {rest} deepspeed {{}}"
    copies = [taken_by(box, question.format(options), "the update's copies")
              for options in ("--optimizer sgd-momentum", "--optimizer sgd-momentum --dtype fp32")]
    if not copies[0] or copies[1]:
        yield f"copies of gradients by DeepSpeed's update: {copies}"


def tests(box):
    yield "room", check_room(box)
    yield "open interval", check_open(box)
    yield "groups", check_groups(box)
    yield "types", check_types(box)
    for row, names in sample(ROWS):
        for software in names:
            question = f"{row} --software {software}" if software else row
            yield question, check(box, question)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
