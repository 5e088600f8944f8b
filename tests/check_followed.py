#!/usr/bin/python3
"""What a refusal advises, typed in, leads to a command that is taken; prints TAP.

plan  settings that do not go together: every way that the last words of a refusal offer, to give an
      option or to leave it out, comes to an answer, within a few refusals and without a circle.
pairs the same of two options that are drawn, of those that save memory or divide a step.
run   the same of runs on two ranks, and of runs that are continued.

The command is $MEMWALL, or build/cli/memwall.
"""
import json
import random
import re
import shlex
import shutil
import subprocess
import sys

from command import MEMWALL, ROOT, Box, of_rows
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in

STEPS = 4
OPTION = re.compile(r"(--[a-z][a-z-]*|-s)(?: (?!and |or |is |of )([^\s,;]*[^\s,;:]))?")
# "give 2 or 4", "give 1 to 24", "give 2 or 4 of --grad-accum", "the nearest are 6 and 8"
NUMBERS = re.compile(r"(?:give|must be at least|must be|the least is|the nearest are|has layers) "
                     r"(\d+(?:,\d+)*)(?: (or|and|to) (\d+))?(?: of (--[a-z-]+))?")
PIPELINE = "-m llama-2-7b -H 3xh200 --stage-replicas 2,1"
PLANS = [
    f"{PIPELINE} -s ddp --update beside",
    f"{PIPELINE} -s ddp --pp 2 --update beside",
    f"{PIPELINE} --objective dpo",
    f"{PIPELINE} --pp 2 --objective dpo",
    f"{PIPELINE} -s zero1 --data-parallel async",
    f"{PIPELINE} -s ddp --overlap off",
    f"{PIPELINE} -s zero-offload --dpu-start 2",
    f"{PIPELINE} -s ddp --micro-batch-order layer",
    "-m llama-2-7b -H dgx-h100 --kept-bits 8 --recompute-list 0-31",
    "-m llama-2-7b -H dgx-h100 --kept-bits 8 --recompute-layers 32",
    "-m llama-2-7b -H dgx-h100 --kept-bits 8 --recompute-layers 16 --pp 2",
    "-m llama-2-7b -H dgx-h100 --kept-bits 8 --activation-checkpoint-interval 1",
    "-m llama-2-7b -H dgx-h100 --kept-bits 8 --schedule 2bw --pp 2",
    "-m opt-1.3b -H 2xh200 -s l2l --relu-mask on --recompute-list 0-3",
    "-m llama-2-7b -H 2xh200 --train lora:8 --pp 2 --stage-split 32",
    "-m llama-2-7b -H 2xh200 --train lora:8 --pp 2 --stage-split 0",
    "-m llama-2-7b -H 3xh200 --train embedding --stage-replicas 2,1",
    "-m llama-2-7b -H 2xh200 --train embedding --pp 2",
    "-m llama-2-7b -H 2xh200 --pp 2 --schedule zb-h1 --micro-batch-order layer",
    "-m mixtral-8x7b -H 2xh200 --dpu-start 2 --drop-layers 1",
    "-m gpt2 -H 2xh200 --data-parallel async --tp 2",
    "-m gpt2 -H 2xh200 --pp 2 --optimizer-device cpu",
    "-m llama-2-7b -H h100 --serve 6 --frozen-device cpu",
    "-m llama-2-7b -H h100 --serve 6 --activation-device cpu",
    "-m llama-2-7b -H h100 --serve 6 --what-if",
    "-m llama-2-7b -H a100 --matmul-dtype fp8",
    "-m llama-2-7b -H a100 --weight-bits 4",
    "-m llama-2-7b -H a100 --relu-mask on",
] + [f"-m llama-2-7b -H 2xh200 --pp 2 -s ddp --schedule {schedule} {options}"
     for schedule in ("zb-h1", "2bw", "pipedream")
     for options in ("--recompute-list 0-3", "--recompute-layers 4",
                     "--recompute-list 0-3 --activation-checkpoint-interval 1",
                     "--recompute-layers fewest --activation-checkpoint-interval 0")]
# Savers of memory and ways to divide a step, of which a seed draws two.
ONE_OF = {
    "--kept-bits": "8",
    "--recompute-list": "0-3 0-11 2,5", "--recompute-layers": "1 12 fewest auto",
    "--activation-checkpoint-interval": "0 1 4 sqrt", "--checkpoints": "inputs activations",
    "--checkpoint-bits": "8", "--checkpoint-partition": "on off", "--relu-mask": "on",
    "--relu-sparsity": "0.5", "--recompute-attention": "on", "--tiles": "4", "--share-slots": "on",
    "--state-layout": "paper20", "--optimizer": "muon sgd adafactor", "--dtype": "fp32 fp16",
    "--matmul-dtype": "fp8", "--train": "lora:8 embedding qkv", "--weight-bits": "4 8",
    "--lora-alpha": "16", "--param-loads": "2 3", "--partition": "owner", "--overlap": "off",
    "--dpu-start": "2", "--update": "beside", "--data-parallel": "async",
    "--schedule": "gpipe interleaved zb-h1 2bw pipedream", "--stage-split": "balanced 0 5 12 4,8,9",
    "--stage-replicas": "1,1 2,1 4,4", "--micro-batch-order": "layer", "--update-on": "gpu host",
    "--drop-layers": "1", "--commit": "step", "--save-every": "3", "--pp": "2 3 8", "--tp": "2 3",
    "--cp": "2 3", "--cp-kind": "all-to-all", "--ep": "2", "--shard-group": "2",
    "--sequence-parallel": "on", "--global-batch": "64 7", "--grad-accum": "4 3",
    "--seq": "512 1000", "--param-device": "cpu nvme gpu", "--optimizer-device": "cpu gpu",
    "--gradient-device": "cpu", "--activation-device": "cpu nvme", "--objective": "dpo ppo",
    "--frozen-device": "cpu", "--reference-logprobs": "before", "--serve": "64",
    "-s": "ddp zero1 zero3 zero-offload zero-infinity-cpu l2l geeps streamed-update"}
PAIRS = 300
STAGES = "--pp 2 --schedule interleaved --virtual-stages 2"
RUNS = [f"{STAGES} --recompute-list 0,3",
        f"{STAGES} --recompute-list 0,3 --activation-checkpoint-interval 1",
        f"{STAGES} --kept-bits 8", f"{STAGES} --activation-checkpoint-interval 2",
        "--pp 2 --schedule zb-h1 --recompute-list 0"]
# What a run had, and with which options it is continued.
RESUMED = [(f"{STAGES} --save-every 2", "--schedule 1f1b"),
           (f"{STAGES} --save-every 2", "--schedule 2bw"),
           ("--pp 2 --save-every 2", "--schedule 2bw"),
           ("--pp 2 --save-every 2", "--schedule pipedream")]


def without(words, option):
    at = words.index(option)
    value = at + 1 < len(words) and not words[at + 1].startswith("-")
    return words[:at] + words[at + 1 + value:]


def with_option(words, option, value):
    rest = without(words, option) if option in words else words
    return [*rest, option, value]


def followed(words, said):
    """The commands that the refusal of one offers."""
    head, _, advice = re.sub(r" \([^()]*\)", "", said).rpartition("; ")
    if "leave one out" in advice or "leave it out" in advice:
        offered = [name for name, _ in OPTION.findall(head.partition(", whose")[0])]
        typed = all(name in words for name in offered)  # nobody can leave out what was not given
        return [without(words, name) for name in dict.fromkeys(offered)] if typed else []
    ways = []
    for part in re.split(r", or | or (?=-)", advice):
        way = words
        leaves = "leave" in part or "without" in part
        for name, value in OPTION.findall(part):
            if leaves and not value:
                way = without(way, name) if name in way else way
            elif value:
                way = with_option(way, name, value)
        if way != words:
            ways.append(way)
    number = NUMBERS.search(said)
    first = OPTION.match(said.removeprefix("memwall: "))
    if ways or not number or not first:
        return ways
    values = [number[1], number[3]] if number[2] in ("or", "and") else [number[3] or number[1]]
    return [with_option(words, number[4] or first[1], value) for value in values]


def drawn(rng):
    words = ["-m", rng.choice(("llama-2-7b", "gpt2", "mixtral-8x7b", "opt-1.3b")),
             "-H", rng.choice(("dgx-h100", "2xh200", "2xrtx4090"))]
    for option in rng.sample(sorted(ONE_OF), 2):
        words += [option, rng.choice(ONE_OF[option].split())]
    return words


def check_pairs(box):
    """Whatever two options are refused together, what is advised is taken; and what nobody chose is
    not blamed."""
    rng = random.Random(3)
    ask = of_plans(box)
    refused = 0
    for words in of_rows([drawn(rng) for _ in range(PAIRS)], 10, 3):
        status, said = ask(words)
        if status in (0, 3):
            continue
        refused += 1
        if "-s" not in words and f"{said} ".count(": -s "):
            yield f"{shlex.join(words)}: {said}"
        yield from follow(ask, words)
    if refused < 3:
        yield f"{refused} pairs are refused"


def follow(ask, words, path=()):
    """Yields each way that ends in a refusal."""
    status, said = ask(words)
    if status in (0, 3):
        if not path:
            yield f"{shlex.join(words)}: is not refused, so nothing is followed"
        return
    trail = [*path, f"{shlex.join(words)}: {said.strip()}"]
    ways = followed(words, said.strip()) if status == 2 and len(trail) <= STEPS else []
    if not ways:
        yield "\n".join(trail)
    for way in ways:
        yield from follow(ask, way, trail)


def of_plans(box):
    def ask(words):
        answer = box.run(shlex.join(["simulate", *words]))
        return answer.status, answer.err
    return ask


def launch(box, words):
    ran = subprocess.run([*MPIRUN, "2", str(MEMWALL), "run", *words], cwd=box.folder,
                         env={**box.environment, **RANKS_ENVIRONMENT}, capture_output=True,
                         text=True, check=False)
    lines = [line for line in ran.stderr.splitlines()
             if line.startswith("memwall: ") and "taken from run" not in line and
             "has ended" not in line]
    return ran.returncode, lines[-1].removeprefix("memwall: ") if lines else ran.stderr


def fresh(box):
    shutil.rmtree(box.folder / "drive", ignore_errors=True)
    (box.folder / "drive").mkdir()


def training(steps):
    return ("-m config.json -H dgx-a100 --data text.txt "
            f"--backend cpu --batch 1 --grad-accum 4 -s ddp --steps {steps}").split()


def of_runs(box):
    def ask(words):
        return launch(box, [*training(1), *words])
    return ask


def check_resumed(box, had, options):
    fresh(box)
    status, said = launch(box, [*training(2), *had.split(), "--nvme", "drive"])
    if status:
        yield f"{had}: status {status}: {said}"
        return
    export = "memwall export"  # another run is no way to go on with this one

    def ask(words):
        status, said = launch(box, ["--resume", "drive", "--steps", "4", *words])
        return status, said.split(f"; or `{export}")[0].replace(": give ", "; give ")
    yield from follow(ask, options.split())


def tests(box):
    rng = random.Random(7)
    config = json.loads((ROOT / "tests/fixtures/llama-small/config.json").read_text())
    box.write("config.json", {**config, "num_hidden_layers": 4})
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(20000)))
    for words in PLANS:
        yield f"plan {words}", list(follow(of_plans(box), words.split()))
    yield "pairs", check_pairs(box)
    if not has_ranks():
        return
    for words in RUNS:
        yield f"run {words}", list(follow(of_runs(box), words.split()))
    for had, options in RESUMED:
        yield f"run {had}, continued with {options}", list(check_resumed(box, had, options))


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
