#!/usr/bin/python3
"""Durable runs of tensor slices, pipeline stages and spread experts, from outside; prints TAP.

What is resumed, after its last step or after SIGKILL of one rank or of all, has the losses of the
undisturbed run to the bit.  Another division among ranks, another order of ranks and a missing file
of one are refused in one line, and nothing is lost.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

from check_slices import ranks, write_models
from command import MEMWALL, ROOT, Answer, Box, of_rows, refused
from tap import MPIRUN, RANKS_ENVIRONMENT, report_ranked

STEPS = 6
ASKED = "-H aws-p5-48xlarge --data text.txt --backend cpu --dtype fp32 --lr 2e-3 --batch 1 " \
        "--grad-accum 2 --nvme drive --log log"
DRIVES = "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme --commit step"

# Per case: the model, data-parallel ranks, slices, stages, and what else is asked.
CASES = {
    "stages": ("llama", 1, 1, 2, DRIVES),
    "interleaved": ("deep", 1, 1, 2, f"{DRIVES} --schedule interleaved --virtual-stages 2"),
    "saved together": ("llama", 2, 2, 2, "-s ddp --save-every 2 "
                       "--activation-checkpoint-interval 1"),
    "tied, in tiles": ("gpt2", 2, 2, 2, "-s zero1 --tiles 2 --save-every 2"),
    "delayed update": ("llama", 2, 2, 1, "-s zero-offload --dpu-start 2 --save-every 2 "
                       "--activation-checkpoint-interval 1 --activation-device nvme"),
    "experts": ("mixture", 2, 1, 1, f"{DRIVES} --ep 2"),
    "experts, saved whole": ("mixture", 4, 1, 1, "-s ddp --ep 2 --save-every 2"),
    "frozen": ("odd", 1, 3, 2, "-s zero1 --train qkv,final-norm --save-every 2"),
}


def words(model, slices, stages, options):
    return f"-m {model}.json {ASKED} {options} --tp {slices} --pp {stages}"


def empty(box):
    shutil.rmtree(box.folder / "drive", ignore_errors=True)
    (box.folder / "drive").mkdir()
    (box.folder / "log").unlink(missing_ok=True)


def losses(box):
    """Loss and norm of each step, all digits."""
    lines = (box.folder / "log").read_text().splitlines()
    return [(row["step"], row["loss"], row["gradient_norm"]) for row in map(json.loads, lines)]


def good(answer):
    if answer.status:
        yield f"status {answer.status}: {answer.err[-600:]}"


def undisturbed(box, count, asked, steps=STEPS):
    empty(box)
    yield from good(ranks(box, count, f"run {asked} --steps {steps}"))
    return losses(box)


# --- resumes --------------------------------------------------------------------------------------


def check_same(box, one, other):
    """Of two checkpoints, which are gone then."""
    for name in ("model.safetensors", "optimizer.safetensors", "config.json"):
        if (box.folder / one / name).read_bytes() != (box.folder / other / name).read_bytes():
            yield f"{name} is not the same in {one} and {other}"
    for folder in (one, other):
        shutil.rmtree(box.folder / folder)


def check_resume(box, model, data, slices, stages, options):
    """After three steps, which are no whole number of saves, by the run's directory alone, which
    says its slices and stages."""
    count, asked = data * slices * stages, words(model, slices, stages, options)
    expected = yield from undisturbed(box, count, asked)
    empty(box)
    yield from good(ranks(box, count, f"run {asked} --steps 3"))
    yield from good(ranks(box, count, f"run --resume drive --backend cpu --steps {STEPS} "
                          "--save saved"))
    if len(expected) != STEPS or losses(box) != expected:
        yield f"{losses(box)}, undisturbed {expected}"
    yield from good(box.run("export drive -o exported"))
    yield from check_same(box, "saved", "exported")


def check_damage(box):
    """What verify names are the tensors of the rank's own stage."""
    asked = words("llama", 2, 2, DRIVES)
    empty(box)
    yield from good(ranks(box, 4, f"run {asked} --steps 2"))
    file = box.folder / "drive/memwall-rank3-1of1.data"
    file.write_bytes(bytes(byte ^ 1 for byte in file.read_bytes()))
    verified = box.run("verify drive")
    found = "rank 3: state of model.layers.1.input_layernorm.weight to lm_head.weight"
    if verified.status != 1 or found not in verified.out.decode():
        yield f"verify: {verified.status}: {verified.out.decode()}"
    exported = box.run("export drive -o exported")
    if exported.status != 1 or "memwall-rank3-1of1.data" not in exported.err:
        yield f"export: {exported.status}: {exported.err}"


def check_experts_damage(box):
    """A rank's experts have their numbers in the model."""
    asked = words("mixture", 1, 1, f"{DRIVES} --ep 2")
    empty(box)
    yield from good(ranks(box, 2, f"run {asked} --steps 2"))
    file = box.folder / "drive/memwall-rank1-1of1.data"
    file.write_bytes(bytes(byte ^ 1 for byte in file.read_bytes()))
    verified = box.run("verify drive")
    experts = "model.layers.1.block_sparse_moe.experts"
    found = f"rank 1: state of {experts}.2.w1.weight to {experts}.3.w2.weight"
    if verified.status != 1 or found not in verified.out.decode():
        yield f"verify: {verified.status}: {verified.out.decode()}"


# --- kills ----------------------------------------------------------------------------------------


def children(pid):
    file = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    try:
        return [int(number) for number in file.read_text().split()]
    except OSError:
        return []


def kill(launcher, count, rng):
    """One of the ranks, whose launcher ends the others, or all of them and the launcher."""
    of_all = children(launcher.pid)
    one = rng.randrange(2)
    for pid in [rng.choice(of_all)] if one and of_all else [*of_all, launcher.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return f"{'one' if one else 'all'} of {len(of_all)} ranks, {count} started"


def run_until(box, count, asked, lines, rng):
    """Kills ranks at some time after the log has so many lines; False: the run ended before."""
    log = box.folder / "log"
    command = [*MPIRUN, str(count), str(MEMWALL), "run", *asked.split()]
    with subprocess.Popen(command, cwd=box.folder, env={**box.environment, **RANKS_ENVIRONMENT},
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as run:
        while run.poll() is None and (not log.exists() or log.read_bytes().count(b"\n") < lines):
            time.sleep(0.001)
        time.sleep(rng.random() * 0.01)
        ended = run.poll() is not None
        what = "" if ended else kill(run, count, rng)
    return "" if ended else what


def check_kills(box, seed, count, asked, kills):
    """A kill before the second step is durable could leave none: it comes later.  The log may lack
    the line of the step before a kill."""
    rng, steps = random.Random(seed), 4 + 6 * kills
    expected = yield from undisturbed(box, count, f"{asked} --save undisturbed", steps)
    empty(box)
    killed = []
    for number in range(kills):
        first = 3 + 6 * number
        more = "--resume" if number else ""
        killed.append(run_until(box, count, f"{asked} --steps {steps} {more}",
                                rng.randrange(first, first + 4), rng))
        verified = box.run("verify drive")
        if verified.status:
            yield f"after {killed}: verify: {verified.out.decode()[-300:]} {verified.err}"
    if not any(killed):
        yield "no kill came before the end"
    yield from good(ranks(box, count, f"run {asked} --steps {steps} --resume --save saved"))
    rows = losses(box)
    if len(rows) < steps - kills or rows[-1] != expected[-1] or \
            any(row != expected[row[0] - 1] for row in rows):
        yield f"after {killed}: {rows}, undisturbed {expected}"
    yield from check_same(box, "undisturbed", "saved")


# --- refusals -------------------------------------------------------------------------------------


def contents(box):
    return {path.name: path.read_bytes() for path in (box.folder / "drive").iterdir()
            if path.suffix != ".lock"}


def swap(drive):
    for end in (".record", "-1of1.data"):
        one, other = drive / f"memwall-rank1{end}", drive / f"memwall-rank2{end}"
        one.rename(drive / "between")
        other.rename(one)
        (drive / "between").rename(other)


def no_record(drive):
    (drive / "memwall-rank3.record").unlink()


def no_data(drive):
    (drive / "memwall-rank2-1of1.data").unlink()


def no_description(drive):
    (drive / "memwall-run.json").unlink()


def nothing(_):
    pass


SAVED = "saved by 4 ranks with --tp 2 --pp 2"
WAY = ["mpirun -n 4", "and --tp 2 --pp 2", "memwall export drive -o FOLDER", "--from FOLDER"]
OTHER = (  # ranks, what they are given, what has happened to the files, what is said of it
    (4, "--tp 4 --pp 1", nothing, [SAVED, "4 ranks with --tp 4 --pp 1 started", *WAY]),
    (4, "--tp 1 --pp 2", nothing, [SAVED, "4 ranks with --tp 1 --pp 2 started", *WAY]),
    (1, "--tp 1 --pp 1", nothing, [SAVED, "1 rank with --tp 1 --pp 1 started", *WAY]),
    (8, "--tp 2 --pp 2", nothing, [SAVED, "8 ranks with --tp 2 --pp 2 started", *WAY]),
    (4, "--tp 4 --pp 1", no_description, ["cannot resume with --tp 4 --pp 1",
                                          "give --tp 2 --pp 2"]),
    (4, "--tp 2 --pp 2 --batch 2", nothing, ["--batch 2: the run was started with --batch 1"]),
    (4, "--tp 2 --pp 2", swap, ["rank1.record: was saved by rank 2, and this is rank 1",
                                "in the order that they had"]),
    (4, "--tp 2 --pp 2", no_record, ["memwall-rank3.record: is missing", "put it back"]),
    (4, "--tp 2 --pp 2", no_data, ["memwall-rank2-1of1.data: is missing", "put it back"]),
)


def said(answer):
    """What the command says, without its launcher."""
    return Answer(answer.status, answer.out, "\n".join(
        line for line in answer.err.splitlines() if line.startswith("memwall:")))


def check_refused(box):
    asked = words("llama", 2, 2, DRIVES)
    expected = yield from undisturbed(box, 4, asked)
    empty(box)
    yield from good(ranks(box, 4, f"run {asked} --steps 3"))
    kept = contents(box)
    for count, divided, change, wanted in of_rows(OTHER, 2):
        change(box.folder / "drive")
        changed = contents(box)
        answer = ranks(box, count, f"run {asked} {divided} --steps {STEPS} --resume")
        for wrong in refused(said(answer), wanted):
            yield f"{count} ranks, {divided}: {wrong}"
        if contents(box) != changed:
            yield f"{count} ranks, {divided}: files have changed"
        for name, content in kept.items():
            box.write(f"drive/{name}", content)
    yield from good(ranks(box, 4, f"run {asked} --steps {STEPS} --resume"))
    if losses(box) != expected:
        yield f"{losses(box)}, undisturbed {expected}"


def check_another_run(box):
    """A rank's files of a run with other options, which has come as far."""
    asked = words("llama", 1, 2, DRIVES)
    empty(box)
    yield from good(ranks(box, 2, f"run {asked} --steps 2 --seed 2"))
    other = contents(box)
    empty(box)
    yield from good(ranks(box, 2, f"run {asked} --steps 2"))
    for name in ("memwall-rank1.record", "memwall-rank1-1of1.data"):
        box.write(f"drive/{name}", other[name])
    mixed = contents(box)
    said_of_it = "rank1.record: was saved by another run than the files of rank 0"
    for answer in (box.run("export drive -o exported"),
                   ranks(box, 2, f"run {asked} --steps 4 --resume")):
        if not answer.status or said_of_it not in answer.err:
            yield f"{answer.status}: {answer.err}"
    for name in ("memwall-rank0.record", "memwall-rank1.record"):
        if contents(box)[name] != mixed[name]:
            yield f"{name} has changed"


def tests(box):
    rng = random.Random(5)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(40000)))
    write_models(box)
    recorded = json.loads((ROOT / "tests/fixtures/experts/mixtral-2-of-4.json").read_text())
    box.write("mixture.json", json.dumps(recorded["config"]))
    for name, case in of_rows(CASES.items(), 2, 2):
        yield f"resumed/{name}", check_resume(box, *case)
    yield "damaged", check_damage(box)
    yield "damaged/experts", check_experts_damage(box)
    yield "refused", check_refused(box)
    yield "files of another run", check_another_run(box)
    yield "killed/drives", check_kills(box, 7, 4, words("llama", 2, 2, DRIVES), 3)
    yield "killed/saved together", check_kills(
        box, 8, 4, words("llama", 2, 1, "-s ddp --save-every 2"), 2)
    yield "killed/experts", check_kills(box, 9, 2, words("mixture", 1, 1, f"{DRIVES} --ep 2"), 1)


if __name__ == "__main__":
    sys.exit(report_ranked(Box, tests))
