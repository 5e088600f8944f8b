#!/usr/bin/python3
"""A value that is asked for makes no answer faster than the one that is chosen; prints TAP.

Over random questions of a model, a machine and a strategy, one setting at a time is asked for with
a value next to the chosen one: sequences of a micro-batch, chunks of the logits, parts that are
fetched ahead, layers that are recomputed, places of states.  The step has as many sequences.  And a
question in which the strategy or the batch that were chosen are asked for has the same answer.

The command is $MEMWALL, or build/cli/memwall.
"""
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor

from command import Box, answer_of, sample
from tap import report_in

SEED = 2311
QUESTIONS = 40
LEAST = 2  # other values that fit, of a question
SAME = 1.01  # estimates pick what is simulated
OPEN_QUESTIONS = 24
EQUAL = 0.01  # of steps whose micro-batches are split alike, or nearly so
SIMPLER = 1.02  # a plan that offloads more, or treats layers unlike, is taken where it is faster
MODELS = ("gpt3-1.3b", "gpt2-xl", "phi-2", "llama-3.2-3b", "qwen2.5-7b", "mistral-7b-v0.1",
          "llama-3.1-8b", "llama-2-13b")
MACHINES = ("rtx4090", "rtx3090-4x", "dgx-h100", "dgx-a100", "l40s", "h100", "aws-g5-12xlarge",
            "v100")
STRATEGIES = ("", "", "-s zero3", "-s zero-offload", "-s zero-infinity-cpu",
              "-s zero-infinity-nvme")
SOFTWARE = ("", "", "--software ideal", "--software deepspeed", "--software fsdp2-compile")
TRAINED = ("", "", "--train lora:16", "--train lora:8@q,v", "--optimizer adafactor-pure")
TIERS = ("gpu", "cpu", "nvme")
STATES = ("param", "gradient", "optimizer", "activation")


def ask(box, line):
    done = box.run(f"simulate {line} --json")
    return answer_of(done.out) if done.out else None


def question(rng):
    line = f"-m {rng.choice(MODELS)} -H {rng.choice(MACHINES)} --seq {1024 * rng.choice((1, 2, 4))}"
    line += f" --global-batch {8 * rng.choice((2, 4, 8, 16))}"
    return " ".join(f"{line} {rng.choice(STRATEGIES)} {rng.choice(SOFTWARE)}".split())


def neighbours(answer):
    """Options that ask for another value than the chosen one."""
    settings = answer["settings"]
    for batch in (settings["micro_batch"] / 2, 2 * settings["micro_batch"]):
        yield f"--batch {batch:.15g}"
    chunks, ahead = settings["logits_chunks"], settings["prefetch"]
    for other in sorted({max(1, chunks // 2), 2 * chunks} - {chunks}):
        yield f"--logits-chunks {other}"
    for other in sorted({ahead // 2, ahead + 1, 2 * ahead} - {ahead}):
        yield f"--prefetch {other}"
    for interval in (0, 1):
        yield f"--activation-checkpoint-interval {interval}"
    yield "--recompute-layers fewest"
    if not answer["strategy"].startswith("zero-infinity"):
        return
    for state in ("param", "activation"):
        here = TIERS.index(settings[f"{state}_device"]) \
            if settings[f"{state}_device"] in TIERS else 0
        for other in {here - 1, here + 1} & {0, 1, 2}:
            yield f"--{state}-device {TIERS[other]}"


def complexity(answer):
    """How many states are off the GPU, and whether layers are treated unlike."""
    settings = answer["settings"]
    return (sum(settings[f"{state}_device"] != "gpu" for state in STATES),
            settings["kept_layers"] > 0)


def check_one(box, number):
    """What is faster than it may be, and how many values were asked for; None: nothing fits."""
    line = question(random.Random(SEED * 1000 + number))
    chosen = ask(box, line)
    if not chosen or not chosen["feasible"]:
        return None
    found, asked = [], 0
    for option in neighbours(chosen):
        other = ask(box, f"{line} {option}")
        if not other or not other["feasible"]:
            continue
        asked += 1
        slack = SIMPLER if complexity(other) > complexity(chosen) else SAME
        times = other["tokens_per_s"] / chosen["tokens_per_s"]
        if times > slack:
            found.append(f"{line}: {times:.4f} times as fast with {option}")
    return found, asked


def typed(answer):
    """Options that ask for what was chosen."""
    settings = answer["settings"]
    strategy, whole = f"-s {answer['strategy']}", f"--global-batch {settings['global_batch']}"
    batch = f"--batch {settings['micro_batch']:.15g} --grad-accum {settings['grad_accum']}"
    return strategy, whole, batch, f"{strategy} {whole}", f"{strategy} {batch}"


def check_typed(box, number):
    """The same of a question with an open batch and strategy; one software answers both."""
    rng = random.Random(SEED * 2000 + number)
    line = f"-m {rng.choice(MODELS)} -H {rng.choice(MACHINES)} --seq {1024 * rng.choice((1, 2, 4))}"
    line += f" {rng.choice(TRAINED)}"
    chosen = ask(box, line)
    if not chosen or not chosen["feasible"]:
        return None
    line += f" --software {chosen['software']}"
    found = []
    for option in typed(chosen):
        other = ask(box, f"{line} {option}")
        times = other["tokens_per_s"] / chosen["tokens_per_s"] if other else 0
        if abs(times - 1) > EQUAL:
            found.append(f"{line}: {times:.4f} times as fast with {option}")
    return found, len(typed(chosen))


def check_all(box, check, numbers):
    with ThreadPoolExecutor(min(2, os.cpu_count() or 2)) as pool:
        found = list(pool.map(lambda number: check(box, number), sample(range(numbers))))
    fitting = [one for one in found if one]
    for lines, _ in fitting:
        yield from lines
    if len(fitting) * 2 < len(found):
        yield "few questions have an answer that fits"
    if sum(asked for _, asked in fitting) < LEAST * len(fitting):
        yield f"few values fit: {fitting}"


def tests(box):
    yield "neighbours", check_all(box, check_one, QUESTIONS)
    yield "what was chosen", check_all(box, check_typed, OPEN_QUESTIONS)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
