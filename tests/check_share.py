#!/usr/bin/python3
"""`--share-slots on`: slots whose contents never meet share bytes; prints TAP.

ledger     less GPU memory by all of the logits that lie where layers keep activations, in the same
           time, nothing else changed.
gradients  with one micro-batch, less by the gradients that lie there too.
drives     less host memory, where the update's buffers lie over those of the passes.
remedy     what does not fit is told to share where that suffices, and a framework is not.
bits       a run has the weights of one whose slots lie apart, alone and of two ranks.
resident   a run takes as much less memory as its plan.
evil       a plan file whose slots share bytes while they live is refused in one line.
"""
import json
import random
import re
import shutil
import subprocess
import sys

from command import MEMWALL, ROOT, SANITIZED, Box, answer_of, refused
from tap import MPIRUN, RANKS_ENVIRONMENT, Skip, has_ranks, report_in

SEED = 13
MACHINE = "-H rtx4090 --set gpu.memory_gib=2"
TRAINING = "--data text.txt --backend cpu --lr 2e-3 --steps 4"
GPT2 = f"-m {ROOT}/tests/fixtures/gpt2-small/config.json"
LLAMA = f"-m {ROOT}/tests/fixtures/llama-small/config.json"
LARGE = (f"{GPT2} {MACHINE} -s ddp --batch 3 --activation-checkpoint-interval 1 "
         "--software memwall")
# Model, machine, sequences: of each with a checkpoint for each layer.
LEDGERS = (("gpt2-xl", "rtx4090", 40), ("gpt2-xl", "a100", 40), ("llama-3.1-8b", "rtx4090", 2),
           ("llama-3.1-8b", "a100", 8), ("gpt3-13b", "rtx4090", 16),
           ("gpt3-13b", "a100 --set host.memory_gib=512", 36))
# Of the GPU's memory, or of the host's: more than logits and activations alone would save.
SAVED = (("gradients", "-m gpt2-xl -H a100 -s ddp --batch 16", "gpu", 0.09),
         ("gradients/ranks", "-m llama-3.1-8b -H dgx-a100 -s zero3 --batch 2", "gpu", 0.09),
         ("drives", "-m llama-3.1-8b -H rtx4090 -s zero-infinity-nvme --param-device nvme "
          "--gradient-device nvme --optimizer-device nvme --batch 2", "cpu", 0.3))
RUNS = {
    "ddp": f"{GPT2} -s ddp --batch 3 --activation-checkpoint-interval 1",
    "tied, tiles, chunks": f"{GPT2} -s zero-offload --batch 2 --tiles 2 --logits-chunks 2 "
                           "--activation-checkpoint-interval 1",
    "fp32": f"{LLAMA} -s zero-offload --batch 2 --dtype fp32 --activation-checkpoint-interval 1",
    "on drives": f"{LLAMA} -s zero-infinity-nvme --param-device nvme --optimizer-device nvme "
                 "--activation-device nvme --batch 2 --grad-accum 2",
    "some kept": f"{LLAMA} -s zero-offload --batch 2 --recompute-layers 1 "
                 "--activation-checkpoint-interval 1",
    "all activations leave": f"{GPT2} -s geeps --batch 2",
    "some leave, some recomputed": f"{LLAMA} -s zero-offload --batch 2 --checkpoints activations "
                                   "--activation-device cpu --recompute-layers 1",
    "layer by layer": f"{LLAMA} -s l2l --batch 2 --grad-accum 2",
    "adapters": f"{LLAMA} -s zero-offload --batch 2 --train lora:4 "
                "--activation-checkpoint-interval 1",
    "frozen, 4 bits": f"{LLAMA} -s zero-offload --batch 2 --train lora:4 --weight-bits 4 "
                      "--activation-checkpoint-interval 1",
    "layers left out": f"{LLAMA} -s zero-infinity-cpu --param-device cpu --optimizer-device cpu "
                       "--batch 2 --drop-layers 1/-/0 --activation-checkpoint-interval 1",
}
# Large enough that a sixth of it shows beside what a program takes.
RESIDENT = {"num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 768,
            "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 8192,
            "max_position_embeddings": 512, "head_dim": 64}


def both(box, line):
    """What the line answers without and with shared bytes, or None.  Of a prediction, where no
    allocator shares them."""
    alone = "--set software.memory.caching=false" if not line.startswith("run ") else ""
    answers = [box.run(f"{line} {alone} --share-slots {share}") for share in ("off", "on")]
    for answer in answers:
        if answer.status:
            yield None, f"status {answer.status}: {answer.err.strip()[-300:]}"
            return
    yield [answer_of(answer.out) for answer in answers], None


def ledger_of(answer):
    return {(row["tier"], row["purpose"]): row["bytes"] for row in answer["ledger"]}


def slower(answers):
    """Not by more than what longer rings change in the order of links."""
    apart, shared = [answer["step_time_s"] for answer in answers]
    if shared > (1 + 1e-5) * apart:
        yield f"{apart} s, shared {shared} s"


def check_ledger(box, model, machine, batch):
    line = (f"simulate -m {model} -H {machine} --batch {batch} --grad-accum 1 --logits-chunks 2 "
            "--tiles 4 --activation-checkpoint-interval 1 --json")
    [(answers, wrong)] = both(box, line)
    if wrong:
        yield wrong
        return
    apart, shared = map(ledger_of, answers)
    # Rings of gradients grow into what is saved.
    longer = shared.get(("gpu", "gradient-buffers"), 0) - apart.get(("gpu", "gradient-buffers"), 0)
    less = answers[0]["peak_bytes"]["gpu"] - answers[1]["peak_bytes"]["gpu"] + longer
    logits = apart["gpu", "logits"] - shared.get(("gpu", "logits"), 0)
    if not 0.05 < less / answers[0]["peak_bytes"]["gpu"] < 0.5 or abs(less - logits) > 2**20:
        yield f"{less} bytes less, {logits} of the logits"
    for key in apart.keys() | shared.keys():
        if key[0] == "gpu" and apart.get(key) != shared.get(key) and \
                key[1] not in ("logits", "activations", "gradient-buffers"):
            yield f"{key}: {apart.get(key)}, shared {shared.get(key)}"
        if key[0] != "gpu" and apart.get(key, 0) < shared.get(key, 0):
            yield f"{key}: {apart.get(key)}, more where it shares: {shared.get(key)}"
    yield from slower(answers)
    if answers[1]["settings"].get("share_slots") != "on" or "share_slots" in answers[0]["settings"]:
        yield "the JSON does not say which one shares"


def check_saved(box, line, tier, least):
    """In the same time, less of the tier by this part of it at least."""
    [(answers, wrong)] = both(box, f"simulate {line} --activation-checkpoint-interval 1 "
                              "--grad-accum 1 --logits-chunks 1 --json")
    if wrong:
        yield wrong
        return
    apart, shared = [answer["peak_bytes"][tier] for answer in answers]
    if 1 - shared / apart < least:
        yield f"{tier}: {apart} bytes, shared {shared}"
    yield from slower(answers)


def check_remedy(box):
    line = ("plan -m gpt2-xl -H a100 -s ddp --batch 16 --activation-checkpoint-interval 1 "
            "--grad-accum 1 --logits-chunks 1 --set gpu.memory_gib=31.5 --json --software")
    for software, offers in (("memwall", True), ("deepspeed", False)):
        remedy = answer_of(box.run(f"{line} {software}").out)["remedy"]
        if (remedy == "--share-slots on fits") != offers:
            yield f"{software}: {remedy}"
    if box.run(f"{line} memwall --share-slots on").status:
        yield "does not fit with what was proposed"
    if "an allocator of its own" not in str(answer_of(
            box.run(f"{line} deepspeed --share-slots on --set gpu.memory_gib=80").out)["notes"]):
        yield "a framework is said to share"


def trained(box, command, share, ranks=1):
    launch = [*MPIRUN, str(ranks)] if ranks > 1 else []
    done = subprocess.run([*launch, str(MEMWALL), "run", *command.split(), *TRAINING.split(),
                           "--share-slots", share, "--nvme", f"drive-{share}", "--save", share,
                           "--overwrite"], cwd=box.folder, check=False, text=True,
                          env={**box.environment, **RANKS_ENVIRONMENT}, capture_output=True)
    return done.stderr[-300:] if done.returncode else None


def saved(box, share):
    return {path.name: path.read_bytes() for path in (box.folder / share).glob("*.safetensors")}


def check_bits(box, command, ranks=1):
    for share in ("off", "on"):
        shutil.rmtree(box.folder / share, ignore_errors=True)
        (box.folder / f"drive-{share}").mkdir(exist_ok=True)
        wrong = trained(box, command, share, ranks)
        if wrong:
            yield f"{share}: {wrong}"
            return
    if not saved(box, "on") or saved(box, "off") != saved(box, "on"):
        yield "other weights"


def check_ranks(box):
    if not has_ranks():
        yield Skip("no mpirun")
        return
    yield from check_bits(box, f"{GPT2} -H dgx-a100 --gpus 2 -s zero3 --batch 2 "
                          "--activation-checkpoint-interval 1", 2)


def check_resident(box):
    if SANITIZED:
        yield Skip("sanitizers take memory of their own")
        return
    config = json.loads((ROOT / "tests/fixtures/llama-small/config.json").read_text())
    box.write("large.json", json.dumps({**config, **RESIDENT}))
    [(answers, wrong)] = both(box, "run -m large.json -H rtx4090 --set gpu.memory_gib=4 "
                              "-s zero-offload --batch 32 --seq 256 --logits-chunks 1 "
                              "--activation-checkpoint-interval 1 --data text.txt --backend cpu "
                              "--steps 1 --json")
    if wrong:
        yield wrong
        return
    planned, resident = ([answer["peak_bytes"]["gpu"] for answer in answers],
                         [answer["run"]["resident_peak_bytes"] for answer in answers])
    # What the program takes beside its plan is the same in both, but for some MB.
    expected = planned[1] + resident[0] - planned[0]
    less = (resident[0] - resident[1]) / (planned[0] - planned[1])
    if planned[0] - planned[1] < 5e7 or abs(resident[1] / expected - 1) > 0.04 or \
            not 0.9 < less < 1.1:
        yield f"planned {planned}, resident {resident}: {less:.3f} of what was planned less"


def slot_lines(text):
    """The lines of the first slot of activations, of the room that is shared, and of the logits."""
    lines = re.findall(r"(?m)^slot .*$", text)
    first = next(line for line in lines if " activations " in line)
    room = next(line for line in lines if " activations " in line and line.endswith(" shares"))
    logits = next(line for line in lines if " logits " in line)
    return first, room, logits


def moved_to(line, to):
    return re.sub(r"offset \d+", re.search(r"offset \d+", to)[0], line)


def without_use(text, slot):
    """A layer's op that does not say that it uses the slot."""
    at = re.search(rf"(?m)^op .* layer 1 .* {slot}:modify:output", text)
    return text[:at.start()] + at[0].replace(f" {slot}:modify:output", "") + text[at.end():]


def check_evil(box):
    if box.run(f"plan {LARGE} --share-slots on -o plan.txt").status:
        yield "no plan"
        return
    text = (box.folder / "plan.txt").read_text()
    first, room, logits = slot_lines(text)
    slot = room.split()[1]
    evil = {
        "not-said": (text.replace(logits, logits.removesuffix(" shares")), ["overlap in tier gpu"]),
        "alive": (re.sub(r"(?m)^(slot .* activations offset \d+ size \d+)$", r"\1 shares", text)
                  .replace(logits, moved_to(logits, first)), ["wrote over bytes that it shares"]),
        "persistent": (text.replace(logits, f"{logits.removesuffix(' shares')} persistent shares"),
                       ["shares its bytes, and is persistent"]),
        "hidden": (without_use(text, slot), [f"does not use slot {slot}"]),
        "goes-on": (re.sub(rf"(?m)^(op .* recompute .*) {slot}:define", rf"\1 {slot}:modify", text,
                           count=1), ["wrote over bytes that it shares"]),
        "parameters": (text.replace(logits, moved_to(logits, re.search(
            r"(?m)^slot .* parameters .*$", text)[0])), ["overlap in tier gpu"]),
    }
    for name, (plan, said) in evil.items():
        if plan == text:
            yield f"{name}: is the plan itself"
        box.write(f"{name}.txt", plan)
        for command in (f"run --plan {name}.txt {MACHINE} {TRAINING}",
                        f"simulate {name}.txt {MACHINE}"):
            for wrong in refused(box.run(command), [f"{name}.txt", *said]):
                yield f"{command}: {wrong}"


def check_idle(box):
    answer = box.run(f"plan {GPT2} {MACHINE} -s ddp --batch 2 --activation-checkpoint-interval 0 "
                     "--grad-accum 2 --share-slots on --json")
    if answer.status or "--share-slots on changes nothing" not in answer.out.decode():
        yield "no note where nothing is recomputed, and gradients are summed"


def tests(box):
    rng = random.Random(SEED)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(60000)))
    for model, machine, batch in LEDGERS:
        yield f"ledger/{model}/{machine}", check_ledger(box, model, machine, batch)
    for name, line, tier, least in SAVED:
        yield name, check_saved(box, line, tier, least)
    yield "remedy", check_remedy(box)
    for name, command in RUNS.items():
        yield f"bits/{name}", check_bits(box, f"{command} {MACHINE}")
    yield "bits/two-ranks", check_ranks(box)
    yield "resident", check_resident(box)
    yield "evil", check_evil(box)
    yield "idle", check_idle(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
