#!/usr/bin/python3
"""ZeRO-R (arXiv 1910.02054, Sec. 6 and 8): what partitioned checkpoints save and cost; prints TAP.

Bytes are counted by hand; volumes are those of the plan's own ops.
"""
import json
import re
import sys

from command import ROOT, Box, refused
from tap import report_in

GPT2 = ("-m gpt2 -H dgx2 --gpus 4 --tp 4 --sequence-parallel off --batch 2 -s zero2 "
        "--activation-checkpoint-interval 1")
CHECKPOINT = 2 * 8 * 1024 * 768  # 16 bits of 8 sequences of 1024 tokens


def ask(box, options):
    answer = box.run(f"plan {options} --json")
    if answer.status not in (0, 3):
        raise RuntimeError(f"{options}: {answer.err}")
    return json.loads(answer.out)["answers"][0]


def held(answer, purpose, tier):
    return sum(row["bytes"] for row in answer["ledger"]
               if row["purpose"] == purpose and row["tier"] == tier)


def check_bytes(box):
    """Each rank keeps a part of twelve checkpoints, or all of them, wherever they are.  Two pass
    the GPU at a time, and of those in parts one is gathered."""
    for tier, more in (("gpu", ""), ("cpu", " --activation-device cpu")):
        for parts, setting in ((4, "on"), (1, "off")):
            answer = ask(box, f"{GPT2}{more} --checkpoint-partition {setting}")
            found = held(answer, "activation-checkpoints", tier)
            if found != 12 * CHECKPOINT // parts:
                yield f"{setting} on {tier}: {found}, {12 * CHECKPOINT // parts} by hand"
            if answer["settings"].get("checkpoint_partition", "on") != setting:
                yield f"{setting}: {answer['settings']}"
            passing = 2 * CHECKPOINT // parts if tier == "cpu" else 0
            gathered = CHECKPOINT if parts > 1 else 0
            if held(answer, "checkpoint-buffers", "gpu") != passing + gathered:
                yield f"{setting} on {tier}: {held(answer, 'checkpoint-buffers', 'gpu')} in buffers"
    default = ask(box, GPT2)
    if held(default, "activation-checkpoints", "gpu") != 12 * CHECKPOINT // 4:
        yield "checkpoints are not divided unless that is asked for"
    alone = "-m gpt2 -H dgx2 --gpus 1 --batch 8 --activation-checkpoint-interval 1"
    if ask(box, f"{alone} --checkpoint-partition off")["ledger"] != ask(box, alone)["ledger"]:
        yield "without slices there is nothing to divide"


def moved_bytes(box, setting):
    """Bytes that slices exchange of activations: an all-reduce moves its message twice (7.1)."""
    box.run(f"plan {GPT2} --checkpoint-partition {setting} -o plan.txt")
    works, moved = [], {"all-gather": 0, "all-reduce": 0}
    for line in (box.folder / "plan.txt").read_text().splitlines():
        words = line.split()
        if words[:1] == ["work"]:
            works.append((words[2], words[3], int(words[words.index("bytes") + 1])))
        elif words[:1] == ["op"]:
            kind, of, size = works[int(words[words.index("work") + 1])]
            if kind in moved and of in ("activations", "checkpoint"):
                moved[kind] += size * (2 if kind == "all-reduce" else 1)
    return moved


def check_volume(box):
    """One all-gather a block, where slicing has two all-reduces each in forward, recompute and
    backward: a twelfth (Sec. 8).  Slices of the vocabulary have two more at the model's ends, and
    12 bytes per token within the loss."""
    moved = moved_bytes(box, "on")
    ends = 2 * CHECKPOINT + 12 * CHECKPOINT // (2 * 768)
    if moved != {"all-gather": 12 * CHECKPOINT, "all-reduce": 2 * (12 * 6 * CHECKPOINT + ends)}:
        yield f"{moved}"
    if moved_bytes(box, "off")["all-gather"]:
        yield "whole checkpoints are gathered"


def check_host(box):
    """Pa+cpu: the host's memory and links carry parts; whole checkpoints take longer."""
    seconds = {}
    for setting in ("on", "off"):
        answer = box.run("simulate -m zero-8b -H dgx2 --tp 8 --sequence-parallel off --batch 2 "
                         "-s zero2 --json "
                         f"--activation-device cpu --checkpoint-partition {setting}")
        seconds[setting] = json.loads(answer.out)["answers"][0]["step_time_s"]
    if not 1.2 * seconds["on"] < seconds["off"]:
        yield f"{seconds}"


def check_plan_file(box):
    """A plan that recomputes from a part which nobody gathers is no training step."""
    box.run(f"plan {GPT2} --checkpoint-partition off -o whole.txt")
    text = (box.folder / "whole.txt").read_text()
    if box.run("simulate whole.txt -H dgx2").status:
        yield "the plan itself is refused"
    box.write("part.txt", "\n".join(
        line.replace(f"size {CHECKPOINT}", f"size {CHECKPOINT // 4}")
        if "activation-checkpoints" in line else line for line in text.splitlines()) + "\n")
    yield from refused(box.run("simulate part.txt -H dgx2"), ["part of a checkpoint"])
    # A slot of a page has room for all of a small one, and holds a part.
    box.run(f"plan -m {ROOT}/tests/fixtures/llama-small/config.json -H dgx2 --gpus 2 --tp 2 "
            "--sequence-parallel off --batch 1 -s ddp --activation-checkpoint-interval 1 -o on.txt")
    text = (box.folder / "on.txt").read_text()
    if box.run("simulate on.txt -H dgx2").status:
        yield "the plan in parts is refused"
    home = re.search(r" forward mb 0 layer 1 .* (\d+):define:checkpoint", text).group(1)
    box.write("part.txt", re.sub(r"( recompute mb 0 layer 1 .* )\d+:read:checkpoint",
                                 rf"\g<1>{home}:read:checkpoint", text))
    yield from refused(box.run("simulate part.txt -H dgx2"), ["part of a checkpoint"])


def check_deepspeed(box):
    """partition_activations, both ways."""
    for setting in ("on", "off"):
        box.run(f"plan {GPT2} --checkpoint-partition {setting} --write-deepspeed {setting}.json")
        text = (box.folder / f"{setting}.json").read_text()
        written = json.loads(text)["activation_checkpointing"]["partition_activations"]
        if written != (setting == "on"):
            yield f"{setting} writes {written}"
        answer = ask(box, f"-m gpt2 -H dgx2 --gpus 4 --tp 4 --sequence-parallel off "
                          "--activation-checkpoint-interval 1 "
                          f"--deepspeed {setting}.json")
        if answer["settings"].get("checkpoint_partition", "on") != setting:
            yield f"{setting} reads {answer['settings']}"


def tests(box):
    yield "bytes", check_bytes(box)
    yield "volume", check_volume(box)
    yield "host", check_host(box)
    yield "plan-file", check_plan_file(box)
    yield "deepspeed", check_deepspeed(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
