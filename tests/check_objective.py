#!/usr/bin/python3
"""`simulate --objective`: steps of several models; prints TAP.

Bytes are those of a count by hand, times those of the same passes in answers to other questions.
"""
import json
import sys

from command import Box, refused, sixth, unless_few
from tap import report_in

LLAMA_8B = 8_030_261_248
GPT2_XL = 1_557_611_200


def ask(box, options):
    answer = box.run(f"simulate {options} --json")
    if answer.status not in (0, 3):
        raise RuntimeError(f"{options}: {answer.err}")
    return json.loads(answer.out)


def near(found, expected, tolerance=0.01):
    return abs(found - expected) <= tolerance * abs(expected)


def model(answer, role):
    return next(m for m in answer["models"] if m["role"] == role)


def phases(answer, name):
    return [p for p in answer["phases"] if p["phase"] == name]


def check_copies(box):
    """The reference is partitioned as the trained model's parameters are, and kept where asked."""
    for options, tier, each in (
            ("-H h100 --gpus 1 -s zero-offload --frozen-device gpu", "gpu", 2 * LLAMA_8B),
            ("-H dgx-h100 -s zero2 --frozen-device gpu --batch 2", "gpu", 2 * LLAMA_8B),
            ("-H dgx-h100 -s zero3 --frozen-device gpu --batch 2", "gpu", 2 * LLAMA_8B / 8),
            ("-H dgx-h100 -s zero2 --frozen-device cpu --batch 2", "cpu", 2 * LLAMA_8B / 8),
            ("-H rtx4090 -s zero-infinity-nvme --frozen-device nvme --batch 2", "nvme",
             2 * LLAMA_8B)):
        found = ask(box, f"-m llama-3.1-8b --objective dpo --seq 512 {options}")
        reference = model(found, "reference")
        if reference["weights_in"] != tier or not near(reference["resident_bytes"][tier], each):
            yield f"{options}: {reference}, {each} in {tier} by hand"
        if sum(reference["resident_bytes"].values()) != reference["resident_bytes"][tier]:
            yield f"{options}: in several places: {reference}"


def check_adapters(box):
    """Adapters are switched off for the reference: no bytes, one pass more."""
    found = ask(box, "-m llama-3.1-8b -H h100 --gpus 1 --objective dpo --seq 1024 --train lora:16 "
                     "--batch 2 --grad-accum 4")
    reference = model(found, "reference")
    if not reference["without_adapters"] or any(reference["resident_bytes"].values()):
        yield f"{reference}"
    (forward,), (training,) = phases(found, "forward"), phases(found, "training")
    if forward["times"] != 4 or training["times"] != 1:
        yield f"{found['phases']}"
    more = model(ask(box, "-m llama-3.1-8b -H h100 --gpus 1 --objective dpo --seq 512 "
                          "--train lora:16,norm1"), "reference")
    if more["without_adapters"]:
        yield "norms are trained too, and the reference has none of its own"
    alone = ask(box, "-m llama-3.1-8b -H h100 --gpus 1 --seq 1024 --train lora:16 --batch 2 "
                     f"--grad-accum 4 -s {found['strategy']}")["answers"][0]
    if not near(training["all_s"], alone["step_time_s"], 1e-6):
        yield f"trains in {training['all_s']} s, alone in {alone['step_time_s']} s"


def least_gib(box, options):
    low, high = 1.0, 512.0
    while high - low > 0.02:
        middle = (low + high) / 2
        answer = ask(box, f"{options} --set gpu.memory_gib={middle}")
        fits = answer["feasible"] if "models" in answer else answer["answers"][0]["feasible"]
        low, high = (low, middle) if fits else (middle, high)
    return high


def check_room(box):
    """The copy takes room that the trained model's plan cannot use: two bytes per parameter."""
    options = ("-m gpt2-xl -H h100 --gpus 1 -s ddp --batch 2 --grad-accum 1 --seq 512 "
               "--software ideal --activation-checkpoint-interval 1 --logits-chunks 1 ")
    more = (least_gib(box, options + "--objective dpo --frozen-device gpu") -
            least_gib(box, options)) * 2**30
    if not near(more, 2 * GPT2_XL, 0.03):
        yield f"dpo takes {more} bytes more, {2 * GPT2_XL} by hand"
    before = least_gib(box, options + "--objective dpo --reference-logprobs before")
    if not near(before, least_gib(box, options), 0.01):
        yield f"with a reference before training {before} GiB"


def check_pass(box):
    """A pass forward takes as long as the forward of a training step, for each micro-batch."""
    for options in ("-m llama-3.1-8b -H dgx-h100 -s zero3 --batch 4 --seq 1024",
                    "-m gpt2-xl -H h100 --gpus 1 -s ddp --batch 8 --seq 512"):
        options += " --activation-checkpoint-interval 1 --software ideal --logits-chunks 1"
        found = ask(box, options + " --objective dpo --frozen-device gpu --grad-accum 3")
        alone = ask(box, options + " --grad-accum 1")["answers"][0]
        forward = next(p for p in alone["phases"] if p["name"] == "forward")
        expected = forward["end_s"] - forward["start_s"]
        (phase,) = phases(found, "forward")
        if phase["times"] != 3 or not near(phase["each_s"], expected, 0.05):
            yield f"{options}: {phase}, forward alone {expected} s"


def check_pairs(box):
    """A pair is two sequences of one micro-batch; 64 pairs, unless another batch is asked for, or
    fewer are faster."""
    for options in ("-m llama-3.1-8b -H dgx-h100 --seq 2048",
                    "-m llama-3.1-8b -H h100 --gpus 1 --seq 2048 --train lora:16"):
        for objective in ("dpo", "reward"):
            found = ask(box, f"{options} --objective {objective}")
            if found["micro_batch"] % 2 or found["global_batch"] / 128 > 1.06:
                yield f"{options} {objective}: {found['micro_batch']}, {found['global_batch']}"
            if found["global_batch"] / 128 < 0.9:
                whole = ask(box, f"{options} --objective {objective} --global-batch 128")
                if whole["sequences_per_s"] >= found["sequences_per_s"]:
                    yield f"{options} {objective}: {found}, and with 64 pairs {whole}"
    found = ask(box, "-m gpt2 -H h100 --gpus 1 --objective dpo --batch 4 --global-batch 32")
    if (found["micro_batch"], found["grad_accum"], found["global_batch"]) != (4, 8, 32):
        yield f"as asked: {found}"


def check_open_batch(box):
    """No batch within the default is faster by more than the worth of a simpler plan; what is asked
    for is a multiple of what all GPUs need for whole pairs."""
    for options, batches, least in sixth([
            ("-m llama-3.1-8b -H rtx4090 --set host.memory_gib=256 --objective dpo --seq 512",
             (16, 32, 64), 1.98),
            ("-m llama-3.1-8b -H dgx-h100 --objective dpo --seq 1024", (2, 4, 6, 8), 52.4),
            ("-m opt-1.3b -H dgx-h100 --objective ppo --seq 512", (16, 32, 64), 115)]):
        found = ask(box, options)["sequences_per_s"]
        for batch in batches:
            asked = ask(box, f"{options} --batch {batch}")["sequences_per_s"] or 0
            if asked > 1.021 * found:
                yield f"{options}: {found}, with --batch {batch} {asked}"
        if found < least:
            yield f"{options}: {found} sequences per second, {least} at least by earlier searches"
    dpo = "simulate -m llama-3.1-8b -H dgx-h100 --objective dpo --seq 2048 --global-batch"
    for batch in (3, 8, 40):
        yield from refused(box.run(f"{dpo} {batch}"), [f"--global-batch {batch}", "multiple of 16"])
    if ask(box, f"{dpo[len('simulate '):]} 80")["global_batch"] != 80:
        yield "80 sequences are ten for each GPU"


def check_lengths(box):
    """All models read the same sequences, also those of a shorter length by themselves."""
    found = ask(box, "-m llama-2-7b -H dgx-h100 --objective ppo --critic phi-2 --batch 8 "
                     "--response 512")
    actor, critic = model(found, "actor")["settings"], model(found, "critic")["settings"]
    if actor["seq"] != critic["seq"] or actor["global_batch"] != critic["global_batch"]:
        yield f"actor {actor}, critic {critic}"


def check_settings(box):
    """A trained model has settings and notes as an answer of its plan alone, a frozen one none."""
    options = "-m llama-3.1-8b -H dgx-h100 -s zero3 --batch 2 --seq 1024 --checkpoint-bits 8"
    found = ask(box, options + " --objective dpo")
    alone = ask(box, options)["answers"][0]
    policy, reference = model(found, "policy"), model(found, "reference")
    if policy["settings"] != alone["settings"] or policy["notes"] != alone["notes"]:
        yield f"{policy}, alone {alone['settings']}, {alone['notes']}"
    if "settings" in reference:
        yield f"{reference}"
    text = box.run(f"simulate {options} --objective dpo").out.decode()
    plain = box.run(f"simulate {options}").out.decode()
    for word in ("states ", "with "):
        lines = [line for line in plain.splitlines() if line.startswith(word)]
        if not lines or not set(lines) <= set(text.splitlines()):
            yield f"{word}: {lines} are not in {text}"


def check_sliced_params(box):
    """What tensor slicing keeps on every rank is counted once."""
    found = ask(box, "-m opt-1.3b -H dgx-h100 --objective ppo --seq 512 --tp 4 --batch 8")
    for each in found["models"]:
        if each["trained"] and each["trained_parameters"] != each["parameters"]:
            yield f"{each}"


def check_scores(box):
    """A reward model has one row of weights in place of the vocabulary's."""
    found = model(ask(box, "-m llama-3.1-8b -H dgx-h100 --objective reward --seq 512"), "reward")
    expected = LLAMA_8B - 128_256 * 4096 + 4096
    if found["parameters"] != expected or not found["scores"]:
        yield f"{found['parameters']} parameters, {expected} by hand"


def check_ppo(box):
    """Four models; a step generates, scores by all of them, and trains two."""
    large = ask(box, "-m opt-175b -H dgx-a100 --nodes 8 --objective ppo --critic opt-350m "
                     "--seq 512 --global-batch 1024")
    if not large["step_time_fastest_s"] < large["step_time_s"] < large["step_time_slowest_s"]:
        yield f"range of 175B: {large['step_time_fastest_s']} .. {large['step_time_slowest_s']}"
    found = ask(box, "-m opt-1.3b -H dgx-h100 --objective ppo --seq 512 --critic opt-350m")
    order = [(p["phase"], p["role"]) for p in found["phases"]]
    if order != [("generation", "actor"), ("forward", "actor"), ("forward", "critic"),
                 ("forward", "reference"), ("forward", "reward"), ("training", "actor"),
                 ("training", "critic")]:
        yield f"{order}"
    if model(found, "critic")["model"] != "opt-350m" or model(found, "reward")["trained"]:
        yield f"{found['models']}"
    if not near(found["step_time_s"], sum(p["all_s"] for p in found["phases"]), 1e-9):
        yield "a step is another time than that of its phases"
    if not found["step_time_fastest_s"] < found["step_time_s"] < found["step_time_slowest_s"]:
        yield f"range: {found['step_time_fastest_s']} .. {found['step_time_slowest_s']}"
    kept = sum(m["resident_bytes"]["gpu"] for m in found["models"])
    for phase in found["phases"]:
        if not kept * 0.98 <= phase["need_bytes"]["gpu"] <= found["capacity_bytes"]["gpu"]:
            yield f"{phase}: {kept} bytes are kept"


def check_generation(box):
    """As serving predicts it, where there is room for all sequences at once."""
    found = ask(box, "-m gpt2-medium -H h100 --gpus 1 --objective ppo --seq 256 --response 64 "
                     "--batch 16 --grad-accum 2")
    row = ask(box, "-m gpt2-medium -H h100 --gpus 1 --seq 192 --serve 64 --batch 32 "
                   "--software deepspeed")["batches"][0]
    (phase,) = phases(found, "generation")
    expected = row["first_token_s"] + 63 * row["token_s"]
    if found["software"] != "deepspeed" or found["generated_at_once"] != 32:
        yield f"{found['software']}, {found['generated_at_once']}"
    if phase["times"] != 1 or not near(phase["each_s"], expected, 1e-6):
        yield f"{phase}, {expected} s by --serve"


def check_slices(box):
    """Layers of an actor that is partitioned are sliced, where that is faster than to stream them:
    a token reads a slice of the weights, and waits for two all-reduces per layer."""
    found = ask(box, "-m opt-30b -H dgx-a100 --objective ppo --critic opt-350m --seq 512 "
                     "--global-batch 128 -s zero3")
    (phase,) = phases(found, "generation")
    slices, weights = found["generation_slices"], 2 * 29_974_540_288
    least = 255 * weights / slices / 2.039e12
    if slices < 2 or not least < phase["each_s"] < 4 * least:
        yield f"{slices} slices, {phase['each_s']} s, {least} s to read the weights"
    kept = sum(m["resident_bytes"]["gpu"] for m in found["models"])
    if phase["need_bytes"]["gpu"] < kept + weights / slices - model(
            found, "actor")["resident_bytes"]["gpu"]:
        yield f"{phase}: {kept} bytes are kept beside a slice"
    one = ask(box, "-m opt-1.3b -H a100 --gpus 1 --objective ppo --seq 512")
    if one["generation_slices"] != 1:
        yield f"on one GPU {one['generation_slices']} slices"


def check_nothing_fits(box):
    answer = box.run("simulate -m llama-3.1-405b -H rtx4090 --objective dpo --set "
                     "nvme.capacity_tb=0.5 --json")
    found = json.loads(answer.out)
    if answer.status != 3 or found["feasible"] or found["short_bytes"] <= 0 or found["remedy"]:
        yield f"status {answer.status}: {found}"
    for strategy, expected in (("ddp", "auto"), ("zero3", "auto")):
        asked = f"-m llama-3.1-8b -H h100 --gpus 1 --seq 512 --objective dpo -s {strategy}"
        if ask(box, asked)["remedy"] != f"--strategy {expected}":
            yield f"{strategy}: remedy {ask(box, asked)['remedy']}"
    asked = "-m llama-3.1-8b -H rtx4090 --seq 512 --objective dpo --set host.memory_gib=64 " \
            "--set nvme.capacity_tb=0.21"
    remedy = ask(box, asked)["remedy"]
    if not remedy or not ask(box, f"{asked} {remedy}")["feasible"]:
        yield f"remedy {remedy}"


def check_savers(box):
    """A frozen model's pass has no checkpoints, whatever the trained model's are."""
    for how in sixth(["--checkpoint-bits 8", "--recompute-layers 1 --kept-bits 8", "-s l2l",
                      "-s geeps", "-s streamed-update",
                      "--activation-checkpoint-interval sqrt"]):
        answer = box.run(f"simulate -m gpt2 -H h100 --gpus 1 --seq 512 --objective dpo {how}")
        if answer.status:
            yield f"{how}: status {answer.status}: {answer.err.strip()[-300:]}"


def check_refusals(box):
    box.write("text.txt", "text " * 2000)
    dpo = "-m gpt2 -H h100 --gpus 1 --objective dpo"
    for line, words in (
            (f"plan {dpo}", ["--objective", "simulate"]),
            (f"simulate {dpo} --batch 3", ["--batch 3", "two sequences"]),
            (f"simulate {dpo} --dpu-start 3 -s zero-offload", ["--objective dpo", "--dpu-start"]),
            (f"simulate {dpo} --tokens 1B", ["--objective dpo", "--tokens"]),
            (f"simulate {dpo} --csv", ["CSV", "--objective"]),
            (f"simulate {dpo} --what-if", ["--what-if", "--objective"]),
            (f"simulate {dpo} --response 8", ["--response", "--objective ppo"]),
            ("simulate -m gpt2 -H h100 --critic gpt2", ["--critic", "--objective ppo"]),
            ("simulate -m gpt2 -H h100 --frozen-device cpu", ["--frozen-device", "dpo"]),
            ("simulate -m gpt2 -H h100 --objective grpo", ["--objective", "ppo"]),
            ("simulate -m gpt2 -H h100 --objective ppo --critic none", ["--critic", "none"]),
            ("simulate -m gpt2 -H h100 --objective ppo --seq 64 --response 64",
             ["--response 64", "--seq"]),
            ("simulate -m llama-3.1-8b -H rtx4090 --objective ppo --seq 512 --response 600",
             ["--response 600", "--seq has 512 tokens"]),
            (f"simulate {dpo} --train lora:8 --frozen-device cpu",
             ["--frozen-device", "without its adapters"]),
            (f"simulate {dpo} --reference-logprobs before --frozen-device cpu",
             ["--frozen-device", "before training"]),
            (f"simulate {dpo} -s zero2,zero3", ["--objective dpo", "-s"]),
            ("simulate -m megatron-1t -H dgx-a100 --nodes 64 --tiles 256 --batch 2 --objective dpo",
             ["--tiles 256", "take too long"]),
            ("simulate -m llama-2-7b -H dgx-h100 --pp 2 --objective dpo", ["--objective", "--pp"]),
            ("run -m gpt2 -H h100 --data text.txt --steps 1 --objective dpo",
             ["--objective", "run trains"])):
        yield from refused(box.run(line), words)


def tests(box):
    yield "copies", check_copies(box)
    yield "adapters", check_adapters(box)
    yield "room", check_room(box)
    yield "pass", check_pass(box)
    yield "pairs", check_pairs(box)
    yield "open batch", check_open_batch(box)
    yield "lengths", check_lengths(box)
    yield "settings", check_settings(box)
    yield "sliced parameters", check_sliced_params(box)
    yield "savers", check_savers(box)
    yield "scores", check_scores(box)
    yield "generation", check_generation(box)
    yield "refusals", check_refusals(box)
    yield from unless_few(("ppo", check_ppo(box)), ("slices", check_slices(box)),
                          ("nothing-fits", check_nothing_fits(box)))


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
