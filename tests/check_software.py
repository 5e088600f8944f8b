#!/usr/bin/python3
"""Software profiles: each loads, names its sources, and slows a machine as it says; prints TAP."""
import csv
import json
import pathlib
import re
import sys

from command import ROOT, Box, refused, sixth
from tap import report_in

PROFILES = sorted(path.stem for path in pathlib.Path(ROOT, "software").glob("*.ini"))
KEY_TABLE = pathlib.Path(ROOT, "software", "keys.c")
ASKED = "simulate -m gpt3-13b -H dgx-a100 --nodes 2 -s zero3 --batch 1 --seq 2048"
IDEAL = f"{ASKED} --software ideal"
UNFUSED = ("simulate -m gpt3-13b -H dgx2 --nodes 2 -s zero3 --batch 1 --seq 2048 "
           "--software ideal")
GATED = "simulate -m llama-2-7b -H dgx-a100 -s zero3 --batch 1 --seq 2048 --software ideal"
EIGHT_BITS = "simulate -m llama-2-7b -H dgx-h100 -s zero3 --batch 1 --software ideal"
OFFLOADED = ("simulate --software ideal -m gpt3-13b -H rtx4090 -s zero-infinity-nvme --batch 1 "
             "--seq 1024 "
             "--param-device cpu --optimizer-device nvme --grad-accum 1")
SHARDED = ("simulate --software ideal -m gpt2-xl -H dgx2 --gpus 4 -s zero-offload --batch 1 "
           "--grad-accum 1")
SLICED = ("simulate --software ideal -m gpt3-13b -H dgx-a100 -s zero1 --tp 4 --batch 0.25 "
          "--seq 2048")
STAGED = (f"{SLICED.replace('--tp', '--nodes 2 --pp 2 --sequence-parallel off --tp')} "
          "--grad-accum 2")
UPDATED = ("simulate -m gpt2-xl -H dgx-a100 -s ddp --batch 1 --seq 1024 --grad-accum 1 "
           "--software ideal")
CAPPED = "simulate -m gemma-2-2b -H dgx-a100 --gpus 1 -s ddp --batch 1 --seq 1024 --software ideal"
# A value of each key that is not the ideal's, and a question whose step it must lengthen.
KEYS = {
    "attention.kernel": ("unfused", IDEAL, 1),
    "attention.share": ("0.5", IDEAL, 1),
    "attention.score_forward_bytes": ("32", UNFUSED, 1),
    "attention.score_backward_bytes": ("36", UNFUSED, 1),
    "attention.score_bias": ("false", f"simulate --software ideal -m {ROOT}/models/t5-11b "
                             "-H dgx-a100 -s zero3 --batch 4 --seq 1024", 1),
    "attention.causal_skip": ("false", IDEAL, 1),
    "products.share": ("0.5", IDEAL, 1),
    "products.fp8": ("true", EIGHT_BITS, -1),
    "products.fp8_cast_bytes": ("50", f"{EIGHT_BITS} --set software.products.fp8=true", 1),
    "operators.layer_norm_passes": ("3", IDEAL, 1),
    "operators.rms_norm_passes": ("3", GATED, 1),
    "operators.rotary_passes": ("3", GATED, 1),
    "operators.gated_passes": ("3", GATED, 1),
    "operators.adapter_passes": ("3", f"{IDEAL} --train lora:8", 1),
    "operators.update_passes": ("20", UPDATED, 1),
    "operators.update_unfused": ("1", f"{UPDATED} --optimizer lion "
                                 "--set software.operators.update_passes=2.9", 1),
    "operators.update_unfused_other": ("1", f"{UPDATED} --optimizer adafactor", 1),
    "operators.other_passes": ("3", IDEAL, 1),
    "operators.share": ("0.5", IDEAL, 1),
    "operators.loss_bytes": ("100", IDEAL, 1),
    "operators.kernels": ("50", f"{IDEAL} --set software.operators.host_us=50", 1),
    "operators.host_us": ("5000", IDEAL, 1),
    "operators.cap_forward_bytes": ("100", CAPPED, 1),
    "operators.cap_backward_bytes": ("100", f"{CAPPED} --set software.attention.kernel=unfused", 1),
    "collectives.share": ("0.02", IDEAL, 1),
    "collectives.gradient_type": ("fp32", f"{IDEAL} --set software.collectives.share=0.02", 1),
    "collectives.blocking": ("true", IDEAL, 1),
    "collectives.hop_us": ("500", IDEAL, 1),
    "collectives.tensor_overlap": ("false", SLICED, 1),
    "collectives.tensor_pieces": ("false", SLICED, 1),
    "collectives.gather_passes": ("20", IDEAL, 1),
    "collectives.reduce_passes": ("20", IDEAL, 1),
    "collectives.gather_kernels": ("20", IDEAL, 1),
    "collectives.reduce_kernels": ("20", IDEAL, 1),
    "collectives.tensor_parts": ("true", f"{SLICED} --sequence-parallel on --set "
                                 "software.collectives.tensor_overlap=false", 1),
    "offers.sequence_parallel": ("false", SLICED, 1),
    "offers.sequence_parallel_default": ("false", SLICED, 1),
    "offload.copy_share": ("0.1", OFFLOADED, 1),
    "offload.drive_share": ("0.2", OFFLOADED, 1),
    "offload.gradient_link_bytes": ("4", f"{OFFLOADED} --set pcie.d2h_gb_per_s=0.5", 1),
    "offload.parameter_link_bytes": ("4", f"{SHARDED} --set pcie.h2d_gb_per_s=0.5", 1),
    "offload.one_node_bytes_per_parameter": ("20", SHARDED, 1),
    "offload.bound_ranks": ("true", f"{SHARDED} --set "
                            "software.offload.one_node_bytes_per_parameter=20", -1),
    "offload.gradient_copy_gb_per_s": ("0.05", OFFLOADED, 1),
    "offload.checkpoint_copy_gb_per_s": ("0.1", f"{OFFLOADED} --activation-device cpu", 1),
    "offload.checkpoint_load_gb_per_s": ("0.1", f"{OFFLOADED} --activation-device cpu", 1),
    "offload.checkpoint_blocking": ("true", f"{OFFLOADED} --activation-device cpu", 1),
    "offload.update_bytes_per_parameter": ("280", OFFLOADED, 1),
    "offload.update_gparams_per_s": ("0.05", OFFLOADED, 1),
    "collectives.reduces_at_end": ("true", "simulate -m gpt2-xl -H dgx-a100 -s zero1 --batch 1 "
                                   "--seq 1024 --grad-accum 2 --software ideal", 1),
    "collectives.all_reduces_at_end": ("true", "simulate -m gpt2-xl -H dgx-a100 -s ddp --batch 1 "
                                       "--seq 1024 --grad-accum 2 --software ideal", 1),
    # What is sent is an eighth, between nodes; slices gather it within theirs.
    "collectives.stage_scatter": ("true", STAGED, -1),
    "collectives.stages_block": ("true", STAGED, 1),
    "offload.swaps_gradients": ("true", f"{OFFLOADED} --gradient-device nvme", 1),
    "update.beside": ("true", OFFLOADED, -1),
}
# Memory that a key's value must add to an answer's, GiB, and what the answer calls it: of 12.85B
# parameters on 16 GPUs, or of 124M.
SMALL = "simulate -m gpt2 -H dgx-a100 --batch 1 --seq 1024 --gpus 4 --software ideal"
HOSTED = f"{SMALL} -s zero-infinity-cpu --param-device cpu --optimizer-device cpu"
STORED = f"{SMALL} -s zero-infinity-nvme --optimizer-device nvme --gradient-device nvme"
WEIGHTS = 124439808
HOST_GRADIENTS = "more host gradients"
GIB = 2.0 ** 30
MEMORY = {
    "memory.bucket_elements": ("5e8", f"{SMALL} -s zero2 --set software.memory.buckets=2",
                               "buckets of gradients", 2e9),
    "memory.buckets": ("3", f"{SMALL} -s zero3 --set software.memory.bucket_elements=5e8",
                       "buckets of gradients", 3e9),
    "memory.gradient_copies": ("2", f"{SMALL} -s ddp", "buckets of gradients", 4 * WEIGHTS),
    "memory.gradient_bytes": ("6", f"{SMALL} -s ddp", "wider gradients", 4 * WEIGHTS),
    "memory.cast_bytes": ("2", f"{SMALL} -s ddp --grad-accum 2 --activation-checkpoint-interval 0",
                          "weights cast to 16 bits", 2 * WEIGHTS),
    # Embeddings and norms.
    "memory.frozen_bytes": ("4", f"{SMALL} -s ddp --train lora:8@qkv --weight-bits 4",
                            "frozen weights in fp32", 2 * 768 * (50257 + 1024 + 25 * 2)),
    "memory.embedding_unblocked": ("true", f"{SMALL} -s ddp --optimizer adamw-8bit",
                                   "more moments", None),
    "memory.update_gradient_bytes": ("64", f"{SMALL} -s ddp", "the update's copies", None),
    "memory.update_gradient_bytes_whole": ("64", f"{SMALL} -s ddp", "the update's copies", None),
    "memory.update_foreach_share": ("1", f"{SMALL} -s ddp --grad-accum 1 "
                                    "--activation-checkpoint-interval 1 "
                                    "--set software.memory.caching=true",
                                    "the update's copies", 4 * WEIGHTS),
    "memory.update_flat_tensor": ("true", f"{SMALL} -s ddp --optimizer sm3",
                                  "more moments", 4 * WEIGHTS),
    "memory.update_flat_parts": ("true", f"{SMALL} -s zero1 --optimizer adafactor",
                                 "more moments", 4 * WEIGHTS / 4),
    "memory.offload_bytes": ("64", f"{SMALL} -s zero-offload", "gradients to the host", None),
    "memory.host_gradient_bytes": ("4", f"{SMALL} -s zero-offload --grad-accum 1", HOST_GRADIENTS,
                                   2 * WEIGHTS / 4),
    # Sums of micro-batches are planned in fp32.
    "memory.host_sum_bytes": ("2", f"{SMALL} -s zero-offload --grad-accum 2 "
                              "--set software.memory.host_gradient_bytes=4", HOST_GRADIENTS,
                              2 * WEIGHTS / 4),
    # The plan has a ring of three chunks.
    "memory.host_parameter_bytes": ("2", f"{SMALL} -s zero-offload --grad-accum 1 "
                                    "--optimizer-chunk 1048576", "updated host parameters",
                                    2 * (WEIGHTS / 4 - 3 * 2 ** 20)),
    "memory.host_gradient_bytes_partitioned": (
        "4", f"{HOSTED} --grad-accum 1 --set software.memory.host_sum_copies_partitioned=1",
        HOST_GRADIENTS, WEIGHTS),
    "memory.host_sum_copies_partitioned": ("1", f"{STORED} --grad-accum 1", HOST_GRADIENTS,
                                           2 * WEIGHTS / 4),
    # Three sets of four fp32 buffers, each of a rank's part of the embedding.
    "memory.swaps_sub_groups": ("true", f"{STORED} --param-device cpu --optimizer-chunk 1048576 "
                                "--grad-accum 1", "buffers of sub-groups",
                                None),
    # 124.4 million bytes of fp32 parameters become 2^27.
    "memory.pinned_rounding": ("1", f"{SMALL} -s zero-offload", "pinned memory rounded up",
                               2 ** 27 - WEIGHTS),
    "memory.logit_bytes": ("18", f"{SMALL} -s ddp", "copies of logits", 2 * 6 * 1024 * 50257),
    # Of a score, where a model caps them and they are stored; of logits in check_caps.
    "memory.cap_bytes": ("2", f"{CAPPED} --set software.attention.kernel=unfused "
                         "--activation-checkpoint-interval 0", "more activations kept",
                         2 * 26 * 8 * 1024 ** 2),
    "memory.whole_blocks": ("2", f"{SMALL} -s zero3 --grad-accum 1", "whole blocks", None),
    "memory.activations_kept": ("3", f"{SMALL} -s ddp", "more activations kept", None),
    "memory.wide_layer_bytes": ("10", f"{SMALL} -s ddp --set software.memory.cast_bytes=2 "
                                "--grad-accum 1 --activation-checkpoint-interval 0",
                                "more activations kept", 10 * 12 * 1024 * 768),
    # Of 12 layers of 12 heads an fp32 result, and one in 16 bits less than with dropout.
    "memory.softmax_bytes": ("4", f"{SMALL} -s ddp --set software.attention.kernel=unfused",
                             "more activations kept", (4 - 2) * 12 * 12 * 1024 ** 2),
    "memory.allocator_loss": ("0.5", f"{SMALL} -s ddp", "loss of its allocator", None),
}


# What else comes with a key: fp32 passes between layers, and the logits' weight is cast back.
BESIDE = {"memory.cast_bytes": {"more activations kept"},
          "memory.frozen_bytes": {"more activations kept", "weights cast to 16 bits"}}


def answer(box, options):
    done = box.run(f"{options} --json")
    return json.loads(done.out)["answers"][0] if not done.status else {"error": done.err}


def check_key(box, key, value, question, sign):
    before, after = answer(box, question), answer(box, f"{question} --set software.{key}={value}")
    if "error" in before or "error" in after:
        yield f"{before.get('error')} {after.get('error')}"
    elif (after["step_time_s"] - before["step_time_s"]) * sign <= 1e-6 * before["step_time_s"]:
        yield f"{key} = {value}: {after['step_time_s']} s, {before['step_time_s']} s before"
    elif abs(after.get("ideal_step_time_s", 0) / before["step_time_s"] - 1) > 0.01 and \
            key not in ("attention.kernel", "attention.score_bias", "update.beside",
                        "products.fp8", "offload.bound_ranks", "operators.update_unfused",
                        "operators.kernels", "operators.host_us",
                        "offers.sequence_parallel", "offers.sequence_parallel_default",
                        "offload.swaps_gradients",
                        "collectives.reduces_at_end", "collectives.all_reduces_at_end",
                        "collectives.stage_scatter", "collectives.stages_block",
                        "collectives.gradient_type",
                        "collectives.tensor_overlap", "collectives.tensor_pieces",
                        "collectives.tensor_parts"):  # ideal has another plan, or it too
        yield f"{key}: ideal {after.get('ideal_step_time_s')} s, not {before['step_time_s']} s"


def check_late(box):
    """Steps whose kernels the host launches too late take what the host needs, however few tokens,
    and say so; what the GPU needs longer for does not."""
    question = "simulate -m llama-2-7b -H h200 -s ddp --gpus 1 --grad-accum 1 --software ideal"
    late = "--set software.operators.host_us=5000"
    few, more = (answer(box, f"{question} --batch 1 --seq {seq} {late}") for seq in (64, 512))
    if few["bottleneck"] != "host's kernel launches" or \
            abs(few["step_time_s"] / more["step_time_s"] - 1) > 0.05:
        yield f"{few['bottleneck']}: {few['step_time_s']} s, of more tokens {more['step_time_s']} s"
    if abs(few["closed_form"]["plan"] / few["step_time_s"] - 1) > 0.05:
        yield f"closed form {few['closed_form']['plan']} s, engine {few['step_time_s']} s"
    busy = answer(box, f"{question} --batch 1 --seq 4096")
    soon = answer(box, f"{question} --batch 1 --seq 4096 --set software.operators.host_us=5")
    if busy["step_time_s"] != soon["step_time_s"] or busy["bottleneck"] != soon["bottleneck"]:
        yield f"{busy['step_time_s']} s without and {soon['step_time_s']} s with 5 us per start"


def taken(told):
    return {part["what"]: part["bytes"] for part in told.get("software_memory", [])}


def check_beside(box):
    """Each tensor is updated alone beside backward: the largest is the embedding, with positions,
    in parts that are rounded up; its gradient and two layers' live at once, or sums of all."""
    largest, layer = (50257 + 1024) * 768, 12 * 768 ** 2
    asked = f"{SMALL} -s ddp --gpus 1 --set software.memory.update_gradient_bytes=64"
    copies, gradients = {}, {}
    for options in ("--update end --grad-accum 1", "--update beside --grad-accum 1",
                    "--update beside --grad-accum 2"):
        answered = answer(box, f"{asked} {options}")
        taken = {row["what"]: row["bytes"] for row in answered["software_memory"]}
        copies[options] = taken.get("the update's copies", 0)
        gradients[options] = sum(row["bytes"] for row in answered["ledger"]
                                 if row["purpose"] == "gradients")
    end, beside, summed = copies.values()
    if not 1 <= beside / ((64 - 2) * largest) < 1.01 or not 1 <= summed / (60 * largest) < 1.01:
        yield f"copies: {copies}"
    if end < 2 * beside:
        yield f"copies of all at the end: {copies}"
    whole, some, sums = gradients.values()
    if not 1 <= some / (2 * (largest + 2 * layer)) < 1.01 or abs(sums / (2 * whole) - 1) > 0.001:
        yield f"gradients: {gradients}"


def check_frozen(box):
    """Frozen parameters are pinned one by one: of a layer gate and up take 2^29 bytes, not 469.8
    million, and down too; q, k, v and the projection are powers of two.  Those of adapters lie in
    one buffer, wherever their state is."""
    question = "simulate -m llama-3.1-70b -H h100 --gpus 1 --seq 512 --batch 1 --train lora:16"
    adapters, table = 207093760, 128256 * 8192
    waste = 80 * 3 * (2**29 - 2 * 8192 * 28672) + 2 * (2**31 - 2 * table) + 2**29 - 2 * adapters
    # With their state on drives the adapters' gradients are in a buffer of 2^29 bytes, and
    # the rounding of swap buffers, which another test counts, is less than 0.2 GB.
    gradients = 2**29 - 2 * adapters
    for placed, least, most in (("zero-infinity-cpu", 0, 0),
                                ("zero-infinity-nvme --optimizer-device nvme", gradients, 2e8)):
        told = answer(box, f"{question} --param-device cpu --software deepspeed -s {placed}")
        pinned = taken(told).get("pinned memory rounded up", 0)
        if not 0.999 * (waste + least) < pinned < 1.001 * (waste + least + most):
            yield f"-s {placed}: {pinned} bytes, not {waste} + {least} to {most}"
    told = answer(box, question.replace("--batch 1 ", ""))  # nor does it drive them to drives
    if told["peak_bytes"]["nvme"]:
        yield f"{told['strategy']}: {told['peak_bytes']}"


def check_narrow_products(box):
    """What GELU takes is fp32, of 12 layers; what a gated MLP keeps thrice, of one that is kept and
    one that is recomputed."""
    narrow = "--train lora:8@qkv --weight-bits 4 --set software.memory.frozen_bytes=4 " \
             "--set software.memory.cast_bytes=2 -s ddp --grad-accum 1"
    llama = "simulate -m llama-3.2-1b -H dgx-a100 --gpus 1 --batch 1 --seq 1024 --software ideal"
    for question, elements in (
            (f"{SMALL} {narrow} --activation-checkpoint-interval 0", 12 * 1024 * 3072),
            (f"{llama} {narrow} --recompute-layers 15", 2 * 3 * 1024 * 8192)):
        taken_by = [taken(answer(box, f"{question} --set software.memory.narrow_as_input={value}"))
                    for value in ("false", "true")]
        more = [by.get("more activations kept", 0) for by in taken_by]
        if more[1] - more[0] != 2 * elements:
            yield f"{question}: {more}, not {2 * elements} bytes apart"


# Settings that the rows of rates/adapter_bytes.csv are of.
NARROW = {"16 bits": "", "4 bits": "--weight-bits 4", "8 bits": "--weight-bits 8",
          "4 bits as they are": "--weight-bits 4 --set software.memory.frozen_bytes=2",
          "8 bits as they are": "--weight-bits 8 --set software.memory.frozen_bytes=2",
          "16 bits in an engine": "-s zero1", "4 bits in an engine": "-s zero2 --weight-bits 4",
          "8 bits in an engine": "-s zero3 --weight-bits 8"}
ADAPTED = {"all": "lora:2", "attention": "lora:2@qkv+projection"}
# Heads of keys and values of 8, inner size over hidden size.
SHAPES = {"llama-2-7b": (8, 2.6875), "llama-3.1-8b": (2, 3.5)}


def check_adapters(box):
    """What layers with adapters keep, and the most that there is of one that is recomputed beside
    checkpoints, is what was measured; and what a plan is read back with."""
    with open(ROOT / "rates/adapter_bytes.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["dropout"] == "0"]

    def grown(row, layers, interval):
        """Bytes of a token and an element of the hidden size."""
        heads, inner = SHAPES[row["shape"]]
        box.write("config.json", json.dumps(
            {"model_type": "llama", "hidden_size": 512, "intermediate_size": int(512 * inner),
             "num_attention_heads": 8, "num_key_value_heads": heads, "vocab_size": 64,
             "num_hidden_layers": layers, "max_position_embeddings": 32768, "hidden_act": "silu",
             "tie_word_embeddings": False}))
        narrow = NARROW[row["weights"]]
        asked = (f"-m ./config.json -H h200 {'' if '-s' in narrow.split() else '-s ddp'} --gpus 1 "
                 f"--batch 1 --grad-accum 1 --logits-chunks 1 --software hf-trainer --train "
                 f"{ADAPTED[row['adapters']]} {narrow} --activation-checkpoint-interval {interval}")
        told = [answer(box, f"simulate {asked} --seq {seq}") for seq in (16384, 8192)]
        box.run(f"plan {asked} --seq 8192 -o adapted.txt")
        read = answer(box, "simulate adapted.txt -H h200")
        if read.get("need_bytes") != told[1]["need_bytes"]:
            return read.get("error") or -1
        beside = [alive(one) - sum(part["bytes"] for part in one["ledger"]
                                   if part["purpose"] == "activation-checkpoints") for one in told]
        return (beside[0] - beside[1]) / 8192 / 512

    for row in sixth(rows):
        kept = (grown(row, 8, 0) - grown(row, 4, 0)) / 4
        most = grown(row, 4, 1)
        for what, found in (("kept", kept), ("most", most)):
            if abs(found / float(row[what]) - 1) > 0.003:
                yield f"{row}: {what} {found}"


# Where state and parameters of one GPU may be; ddp's cannot leave.
PLACES = ("-s ddp", "-s zero1", "-s zero2", "-s zero3", "-s zero-offload",
          "-s zero-infinity-cpu --param-device gpu --optimizer-device gpu --gradient-device gpu",
          "-s zero-infinity-cpu --param-device gpu:99%,cpu", "-s zero-infinity-cpu "
          "--param-device gpu:1%,cpu --optimizer-device cpu", "-s zero-infinity-cpu "
          "--param-device cpu", "-s zero-infinity-nvme --param-device nvme")
# What passes through a layer, and the types of what is looked up.
OF_LAYERS = ("more activations kept", "frozen weights in fp32")


def check_adapted_places(box):
    """On one GPU what a layer keeps with adapters is the same whatever is where: of all that an
    engine has cast to 16 bits, and, if autocast is on there too, of plain replicas as well."""
    for bits in ("", "--weight-bits 4", "--weight-bits 8"):
        for interval in (0, 1):
            for autocast in ("false", "true"):
                asked = ("simulate -m llama-3.2-1b -H h200 --gpus 1 --batch 2 --grad-accum 1 "
                         f"--seq 1024 --logits-chunks 1 --train lora:16 {bits} --software "
                         f"hf-trainer --activation-checkpoint-interval {interval} "
                         f"--set software.memory.autocast_partitioned={autocast}")
                found = {}
                for place in PLACES[autocast == "false":]:
                    told = answer(box, f"{asked} {place}")
                    if "error" in told:
                        yield f"{asked} {place}: {told['error']}"
                        continue
                    found[place] = ([taken(told).get(what, 0) for what in OF_LAYERS],
                                    [part["bytes"] for part in told["ledger"]
                                     if part["tier"] == "gpu" and
                                     part["purpose"] == "activations"])
                if len(set(map(str, found.values()))) != 1:
                    yield f"{asked}: {found}"


def check_memory(box, key, value, question, what, expected):
    """The key takes memory, named and in that amount, and moves nothing else of the answer."""
    before, after = answer(box, question), answer(box, f"{question} --set software.{key}={value}")
    if "error" in before or "error" in after:
        yield f"{before.get('error')} {after.get('error')}"
        return
    others = BESIDE.get(key, set())
    if set(taken(before)) - {what} or set(taken(after)) - others != {what}:
        yield f"{key} = {value}: {taken(before)}, then {taken(after)}"
        return
    more = taken(after)[what] - taken(before).get(what, 0)
    if expected and abs(more / expected - 1) > 0.02:
        yield f"{key} = {value}: {more} bytes, not {expected}"
    if before["step_time_s"] != after["step_time_s"] or before["ledger"] != after["ledger"]:
        yield f"{key} = {value} changes the plan"


# Elements of Llama 2 7B's parameters, in the order of its layers.
LAYER = [4096] + 4 * [4096 ** 2] + [4096] + 3 * [4096 * 11008]
LLAMA_2_7B = [32000 * 4096] + 32 * LAYER + [4096, 32000 * 4096]


def sub_groups(parts, enough):
    """Elements of each: filled with whole parts until there are enough."""
    groups, open_group = [], 0
    for part in parts:
        open_group += part
        if open_group >= enough:
            groups.append(open_group)
            open_group = 0
    return groups + [open_group] * (open_group > 0)


def rounding(sizes):
    return sum((1 << (size - 1).bit_length()) - size for size in sizes if size)


def host_by_hand(zero, options, gpus):
    """Bytes in a rank's host memory by DeepSpeed's sources, of the file that it would read: of
    gradients, of parameters on their way, of buffers for drives, and of rounding."""
    parts = [-(-elements // gpus) for elements in LLAMA_2_7B]
    owned = sum(parts)
    sums = 4 if "--grad-accum 2" in options else 2  # as the written file has them
    optimizer, param = zero["offload_optimizer"], zero.get("offload_param", {"device": "none"})
    if zero["stage"] == 2:
        summed = LLAMA_2_7B if sums == 4 else []  # accumulated_grads_in_cpu
        return (4 * owned + 2 * sum(summed) // gpus, 2 * owned, 0,
                rounding([4 * owned, 4 * owned, 2 * owned]) +
                rounding(2 * elements for elements in summed) // gpus)
    groups = sub_groups(parts, zero["sub_group_size"])
    pinned = [sums * owned]  # grad_partitions_flat_buffer
    if optimizer["device"] == "cpu":
        return (sums * owned + 4 * owned, 0, 0,
                rounding(pinned + [2 * owned] + [4 * group for group in groups]))
    swap = optimizer["buffer_count"] * [4 * max(groups)]  # SwapBufferManager
    if param["device"] == "nvme":
        swap += [2 * param["buffer_count"] * param["buffer_size"],
                 2 * max(groups) * gpus]  # reserve_partitioned_swap_space
    else:
        pinned.append(2 * owned)
    return sums * owned, 0, sum(swap), rounding(pinned + swap)


HOST_MEMORY = [(gpus, f"{options} --grad-accum {sums}")
               for gpus in (1, 8) for sums in (1, 2) for options in (
                   "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme",
                   "-s zero-infinity-nvme --param-device cpu --optimizer-device nvme",
                   "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu",
                   "-s zero-offload --optimizer-device cpu")]


def check_host_memory(box, gpus, options):
    """What DeepSpeed holds in host memory, beside the ledger, is what its sources say."""
    done = box.run(f"plan -m llama-2-7b -H dgx-a100 --gpus {gpus} --batch 1 --optimizer-chunk "
                   f"1048576 --software deepspeed --write-deepspeed ds.json --json {options}")
    told = json.loads(done.out)["answers"][0]
    zero = json.loads((box.folder / "ds.json").read_text())["zero_optimization"]
    planned = {}
    for row in told["ledger"]:
        if row["tier"] == "cpu":
            planned[row["purpose"]] = planned.get(row["purpose"], 0) + row["bytes"]
    beside = taken(told)
    gradients, params, swap, rounded = host_by_hand(zero, options, gpus)
    for what, wanted, found, slack in (
            ("gradients", gradients, planned.get("gradients", 0) + beside.get(HOST_GRADIENTS, 0),
             0.002 * gradients),
            ("parameters", params, beside.get("updated host parameters", 0), 2e7),
            # In place of the plan's own buffers, which some other small ones lie beside.
            ("swap", swap, beside.get("buffers of sub-groups", 0) +
             (planned.get("optimizer-buffers", 0) + planned.get("shard-buffers", 0)
              if swap else 0), 0.005 * swap + 1e7),
            ("rounding", rounded, beside.get("pinned memory rounded up", 0), 0.01 * rounded)):
        if abs(found - wanted) > slack:
            yield f"{what}: {found} bytes, by hand {wanted}"


def check_room(box):
    """What the software takes is missing from what fits: to the byte, and in the remedy."""
    question = ("plan -m llama-2-7b -H dgx-a100 -s zero3 --gpus 8 --batch 1 --software ideal "
                "--activation-checkpoint-interval 1 "
                "--tiles 1 --logits-chunks 1")
    loss = "--set software.memory.allocator_loss=0.5"
    told = answer(box, f"{question} {loss}")
    need = told["peak_bytes"]["gpu"]
    if abs(taken(told)["loss of its allocator"] - need) > 1e6:
        yield f"half is lost of {need}: {taken(told)}"
    # Rings of gradients grow into free memory alone: where it does not fit, none has.
    small = box.run(f"{question} {loss} --set gpu.memory_gib=8 --json")
    short = json.loads(small.out)["answers"][0]
    if short["feasible"] or not short["peak_bytes"]["gpu"] < need:
        yield f"{short['peak_bytes']} where it does not fit, {need} where it does"
    room = told["tiers"]["gpu"]["reserve_bytes"] + 2 * short["peak_bytes"]["gpu"]
    for more, status in ((1e6, 0), (-1e6, 3)):
        done = box.run(f"{question} {loss} --set gpu.memory_gib={(room + more) / GIB!r}")
        if done.status != status:
            yield f"{more} bytes beside what it needs: status {done.status}: {done.err}"


def check_need(box):
    """What is told of memory is what the verdict compares: the plan's, and what the software takes
    of a tier, in the JSON, in rows of a sweep, and in the lines for people."""
    for options in ("-m gpt2-xl -H rtx4090 -s zero-offload --batch 4 --software deepspeed",
                    "-m llama-2-7b -H rtx4090 -s ddp --batch 1 --software hf-trainer",
                    "-m gpt2-xl -H rtx4090 -s ddp --batch 1 --software ideal"):
        told, again = (json.loads(box.run(f"simulate {options} {more} --json").out)["answers"][0]
                       for more in ("", "--seq 512"))
        for name, tier in told["tiers"].items():
            beside = sum(row["bytes"] for row in told.get("software_memory", ())
                         if row["tier"] == name)
            need = told["need_bytes"][name]
            if not need == tier["need_bytes"] == told["peak_bytes"][name] + beside:
                yield f"{options}: {name} needs {need}, with {beside} of software"
            if (need > tier["capacity_bytes"]) and told["feasible"]:
                yield f"{options}: fits, and {name} needs {need} of {tier['capacity_bytes']}"
        short = told["need_bytes"]["gpu"] - told["tiers"]["gpu"]["capacity_bytes"]
        if not told["feasible"] and short != told["short_bytes"]:
            yield f"{options}: {told['short_bytes']} short, not {short}"
        share = 100 * told["need_bytes"]["gpu"] / told["tiers"]["gpu"]["capacity_bytes"]
        lines = "".join(box.run(f"{verb} {options}").out.decode() for verb in ("simulate", "plan"))
        said = re.findall(r"^memory.* gpu .*?(?:\(|  )([\d.]+)%|^ +gpu +. total.*? ([\d.]+)%",
                          lines, re.MULTILINE)
        if len(said) != 3:
            yield f"{options}: {said} in {lines}"
        for percent in said:
            if abs(float("".join(percent)) / share - 1) > 0.01:
                yield f"{options}: {percent} and not {share}% are told of"
        row = box.run(f"sweep {options} --over seq=512").out.decode().splitlines()
        row = dict(zip(row[0].split(","), row[1].split(",")))
        if int(row["gpu_need_bytes"]) != again["need_bytes"]["gpu"]:
            yield f"{options}: a row has {row['gpu_need_bytes']}"


# Of Llama 3.2 3B: all elements, those of the embedding, which its logits have too, layers, and the
# width between them.
PARAMS_3B, TABLE_3B, LAYERS_3B, WIDTH_3B = 3_212_749_824, 128256 * 3072, 28, 3072


def at_loss(tokens, per_logit, gradients, params=14, casts=0):
    """Parameters, state and casts, all checkpoints, and around the loss three times what goes
    between layers, which is fp32 as the embedding is."""
    return params * PARAMS_3B + casts + 4 * tokens * WIDTH_3B * (LAYERS_3B + 3) + \
        tokens * 128256 * per_logit + gradients


def in_update(copies=0, params=16):
    return (params + copies) * PARAMS_3B


def loss_of_16_bits(tokens):
    """Parameters alone, and no gradient yet."""
    return 2 * PARAMS_3B + 2 * tokens * WIDTH_3B * (LAYERS_3B + 3) + 12 * tokens * 128256


BESIDE_BACKWARD = "--update beside --grad-accum 1"
# Casts of the logits' weight and of one layer.
ONE_LAYER = 2 * TABLE_3B + 2 * (PARAMS_3B - TABLE_3B) / LAYERS_3B
# Software, options, tokens, and the most that is alive at a time.
MOMENTS = [
    # Casts of all parameters until forward ends, when there are 10 bytes of each logit; with sums
    # of earlier micro-batches in fp32, or gradients of all steps.
    ("hf-trainer", "--batch 2 --grad-accum 1", at_loss(8192, 10, 0)),
    ("hf-trainer", "--batch 2 --grad-accum 2", at_loss(8192, 10, 4 * PARAMS_3B)),
    ("hf-trainer", "--batch 2 --grad-accum 1 --set software.memory.gradients_stay=always",
     at_loss(8192, 10, 4 * PARAMS_3B)),
    # Casts that stay meet the gradient of the loss, and so do a layer's.
    ("hf-trainer", "--batch 2 --grad-accum 1 --set software.memory.casts_stay=backward",
     at_loss(8192, 12, 0)),
    ("hf-trainer", "--batch 2 --grad-accum 1 --set software.memory.casts_stay=layer",
     at_loss(8192, 12, 0, 12, ONE_LAYER)),
    ("hf-trainer", "--batch 2 --grad-accum 1 --set software.memory.logit_forward_bytes=4",
     at_loss(8192, 12, 0, 12, ONE_LAYER)),
    # DeepSpeed's model is in 16 bits.
    ("deepspeed", "--batch 2 --grad-accum 1 --set software.memory.update_gradient_bytes_whole=2",
     14 * (PARAMS_3B + 8192 * 128256) + 2 * 8192 * WIDTH_3B * (LAYERS_3B + 3)),
    # At stage 0 its update has gradients thrice, 2, 4 and 4 bytes; in stage 1 twice.
    ("deepspeed", "--batch 0.125 --grad-accum 1", (14 + 10) * PARAMS_3B),
    ("deepspeed", "-s zero1 --batch 0.125 --grad-accum 1 --set software.memory.buckets=0",
     (14 + 8) * PARAMS_3B),
    # When few tokens have come back to the embedding there are two gradients of it, and all others;
    # and casts, if they stay.  Beside sums both are new.
    ("hf-trainer", "--batch 0.125 --grad-accum 1", in_update() + 4 * TABLE_3B + 8 * 512 * WIDTH_3B),
    ("hf-trainer", "--batch 0.125 --grad-accum 1 --set software.memory.casts_stay=backward",
     in_update(2) + 4 * TABLE_3B + 8 * 512 * WIDTH_3B),
    ("hf-trainer", "--batch 0.125 --grad-accum 2 --set software.memory.casts_stay=backward",
     in_update(2) + 8 * TABLE_3B + 8 * 512 * WIDTH_3B),
    # The second root of a list of AdamW.
    ("pytorch-fsdp-eager", "--batch 0.125 --grad-accum 1", in_update(copies=4)),
    ("pytorch-fsdp-eager",
     "--batch 0.125 --grad-accum 1 --set software.memory.update_foreach_share=0",
     in_update() + 4 * TABLE_3B + 8 * 512 * WIDTH_3B),
    # An update beside backward has fp32 copies of a tensor when its gradient is there: of LOMO of
    # both, of Adafactor twice as many, of which the loss sees none.
    ("hf-trainer", f"{BESIDE_BACKWARD} --batch 2 --optimizer sgd-pure",
     loss_of_16_bits(8192)),
    ("hf-trainer", f"{BESIDE_BACKWARD} --batch 2 --optimizer adafactor-pure",
     loss_of_16_bits(8192)),
    ("hf-trainer", f"{BESIDE_BACKWARD} --batch 0.125 --optimizer sgd-pure",
     2 * PARAMS_3B + (4 + 8) * TABLE_3B + 4 * 512 * WIDTH_3B),
    ("hf-trainer", f"{BESIDE_BACKWARD} --batch 0.125 --optimizer adafactor-pure",
     2 * PARAMS_3B + (4 + 16) * TABLE_3B + 4 * 512 * WIDTH_3B),
]


def alive(told):
    """On the GPU, without what the allocator loses."""
    return told["peak_bytes"]["gpu"] + sum(
        row["bytes"] for row in told.get("software_memory", [])
        if row["tier"] == "gpu" and row["what"] != "loss of its allocator")


def check_moments(box):
    """What is needed is what is alive at one time, and the ledger says what is not."""
    base = ("simulate -m llama-3.2-3b -H h200 -s ddp --gpus 1 --seq 4096 --logits-chunks 1 "
            "--activation-checkpoint-interval 1")
    for software, options, expected in MOMENTS:
        options = options.replace("--batch 0.125", "--seq 512 --batch 1")
        told = answer(box, f"{base} --software {software} {options}")
        if "error" in told or abs(alive(told) / expected - 1) > 0.002:
            yield f"{software} {options}: {told.get('error') or alive(told)}, not {expected}"
            continue
        gpu = told["tiers"]["gpu"]
        rows = sum(row["bytes"] for row in told["ledger"] if row["tier"] == "gpu")
        if rows - gpu.get("apart_bytes", 0) != gpu["peak_bytes"]:
            yield f"{software} {options}: {rows} bytes in the ledger, {gpu}"


# Software, options, bytes of an element that passes from layer to layer.
STREAMS = [
    ("hf-trainer", "-s ddp", 4), ("pytorch-fsdp-eager", "-s ddp", 4),
    ("fsdp2-compile", "-s ddp", 4),
    ("hf-trainer", "-s ddp --optimizer adamw-pure", 2), ("hf-trainer", "-s zero2 --gpus 4", 2),
    ("fsdp2-compile", "-s zero3 --gpus 4", 2), ("megatron", "-s ddp", 2), ("memwall", "-s ddp", 2),
    # A frozen embedding is fp32 where the weights of layers are narrow, and PEFT casts it.
    ("hf-trainer", "-s ddp --train lora:16", 2),
    ("hf-trainer", "-s ddp --train lora:16 --weight-bits 4", 4),
    ("hf-trainer", "-s zero3 --gpus 4 --train lora:16 --weight-bits 4", 2),
    ("fsdp2-compile", "-s ddp --train lora:16 --weight-bits 4", 2),
    ("hf-trainer", "-s ddp --activation-device cpu", 4),
]


def check_streams(box):
    """Checkpoints are as wide as the embedding, wherever they lie."""
    base = ("simulate -m llama-3.1-8b -H dgx-h100 --set gpu.memory_gib=1000 --seq 4096 --batch 1 "
            "--grad-accum 1 --activation-checkpoint-interval 1")
    for software, options, expected in STREAMS:
        one = "" if "--gpus" in options else "--gpus 1"
        told = answer(box, f"{base} {one} --software {software} {options}")
        held = sum(row["bytes"] for row in told.get("ledger", [])
                   if row["purpose"] == "activation-checkpoints")
        if held != expected * 32 * 4096 * 4096:
            yield f"{software} {options}: {told.get('error') or held / (32 * 4096 * 4096)} bytes"


def check_freed(box):
    """Shards of FSDP are fp32 alone: 2 bytes of each parameter less at the loss.  DeepSpeed's stage
    1 frees what others update before it updates.  Of an update tensor by tensor so many gradients
    of them are there in a layer."""
    base = "simulate -H dgx-h100 --set gpu.memory_gib=1000 --grad-accum 1"
    params, wide = 6_738_415_616, 2 * 11008 * 4096
    shards = (f"{base} -m llama-2-7b -s zero3 --gpus 8 --batch 4 --seq 4096 "
              "--activation-checkpoint-interval 1 --software fsdp2-compile "
              "--set software.memory.logit_bytes=14 "
              "--set software.memory.cast_bytes=")
    more, less = (alive(answer(box, f"{shards}{cast}")) for cast in (0, 2))
    if abs((more - less) / (2 * params / 8) - 1) > 0.01:
        yield f"shards: {more} and {less}"
    # Whole parameters and gradients with a bucket of the latter, or an eighth with fp32 copies.
    for gpus, expected in ((8, 5.5 * params + 1e9), (2, 12 * params)):
        told = answer(box, f"{base} -m llama-2-7b -s zero1 --gpus {gpus} --batch 1 --seq 512 "
                      "--activation-checkpoint-interval 1 --software deepspeed")
        if "error" in told or abs(alive(told) / expected - 1) > 0.005:
            yield f"zero1 on {gpus}: {told.get('error') or alive(told)}, not {expected}"
    beside = (f"{base} -m llama-2-7b -s ddp --gpus 1 --batch 1 --seq 4096 --update beside "
              "--optimizer adamw-pure --activation-checkpoint-interval 0 --software hf-trainer "
              "--set software.memory.logit_bytes=1 --set software.memory.beside_tensors=")
    three, four = (alive(answer(box, f"{beside}{tensors}")) for tensors in (3, 4))
    if abs((four - three) / wide - 1) > 0.01:
        yield f"update beside backward: {three} and {four}"
    # The logits' weight has its update first, when all checkpoints are there; a plan says the same.
    table, stream = 32000 * 4096, 512 * 4096
    for optimizer, copies in (("sgd-pure", 8), ("adafactor-pure", 16)):
        alone = (f"-m llama-2-7b -H dgx-h100 -s ddp --gpus 1 --batch 1 --seq 512 --grad-accum 1 "
                 "--activation-checkpoint-interval 1 --software hf-trainer --update beside "
                 f"--optimizer {optimizer}")
        told, made = answer(box, f"simulate {alone}"), box.run(f"plan {alone} -o beside.txt")
        expected = 2 * params + (2 + copies) * table + 2 * stream * (32 + 3)
        if abs(alive(told) / expected - 1) > 0.0005:
            yield f"{optimizer} beside backward: {alive(told)}, not {expected}"
        read = answer(box, "simulate beside.txt -H dgx-h100")
        if made.status or read["need_bytes"] != told["need_bytes"]:
            yield f"{made.err}: {read['need_bytes']} of the plan, {told['need_bytes']}"


# Elements of Llama 2 70B: all, a layer, the embedding, which is as large as the logits' weight; and
# of Llama 3.1 8B.
PARAMS_70B, LAYER_70B, TABLE_70B = 68_976_648_192, 855_654_400, 32000 * 8192
PARAMS_8B, LAYER_8B, TABLE_8B = 8_030_261_248, 218_112_000, 128256 * 4096
# Model, GPUs, options, bytes that are there when most is, of few tokens: state of 12 bytes of each
# parameter and gradients in fp32, those of the end to come not yet; and what is whole.
BLOCKS = [
    # The first layer: its parameters and the next one's, its gradients, others in fp32.
    ("llama-2-70b", 64, "", (16 * PARAMS_70B - 4 * TABLE_70B) / 64 + (4 + 2 + 4) * LAYER_70B),
    ("llama-2-70b", 64, "--set software.memory.whole_blocks=3",
     (16 * PARAMS_70B - 4 * TABLE_70B) / 64 + (6 + 2 + 4) * LAYER_70B),
    ("llama-2-70b", 64, "--set software.collectives.gradient_type=made",
     (16 * PARAMS_70B - 4 * TABLE_70B) / 64 + (4 + 2 + 2) * LAYER_70B),
    # Both ends and the gradient of the logits' weight stay.
    ("llama-2-70b", 64, "--set software.memory.ends_stay=true",
     (16 * PARAMS_70B - 4 * TABLE_70B) / 64 + (4 + 2 + 4) * LAYER_70B + (4 + 2) * TABLE_70B),
    # The embedding, larger than a layer: with its gradient, in 16 bits and in fp32.
    ("llama-3.1-8b", 8, "", 16 * PARAMS_8B / 8 + (2 + 2 + 4) * TABLE_8B),
    ("llama-3.1-8b", 8, "--set software.memory.ends_stay=true",
     16 * PARAMS_8B / 8 + (2 + 2 + 4) * 2 * TABLE_8B),
    # Whole parameters: 2 and 12 / 8 bytes of each, gradients as before.
    ("llama-3.1-8b", 8, "-s zero2",
     (2 + 14 / 8) * PARAMS_8B + (2 + 4) * TABLE_8B),
]


def check_blocks(box):
    """FSDP gathers and reduces whole blocks: what is there when backward ends, by hand."""
    for model, gpus, options, expected in BLOCKS:
        strategy = "" if "-s " in options else "-s zero3"
        told = answer(box, f"simulate -m {model} -H dgx-h100 --nodes {-(-gpus // 8)} {strategy} "
                      "--seq 64 --batch 1 --grad-accum 1 --activation-checkpoint-interval 1 "
                      f"--logits-chunks 1 --software fsdp2-compile {options}")
        if "error" in told or abs(alive(told) / expected - 1) > 0.01:
            yield f"{model} {options}: {told.get('error') or alive(told)}, not {expected}"


def check_caps(box):
    """Gemma 2's logits are capped by tanh, whose result backward needs: 2 bytes of each, by its
    config.json too, where null turns caps off; and a note says that its attention caps scores."""
    tokens, vocab = 8192, 256000
    asked = ("-H h200 -s ddp --gpus 1 --seq 4096 --batch 2 --grad-accum 1 --optimizer adamw-pure "
             "--activation-checkpoint-interval 1 --logits-chunks 1 --software pytorch-fsdp-eager")
    config = json.loads(pathlib.Path(ROOT, "tests/fixtures/models/gemma2-plain.json").read_text())
    config = config["config"] | {"hidden_size": 2304, "num_attention_heads": 8,
                                 "num_key_value_heads": 4, "num_hidden_layers": 26,
                                 "intermediate_size": 9216, "vocab_size": vocab,
                                 "layer_types": ["sliding_attention", "full_attention"] * 13}
    config.pop("architectures")
    for name, more in (("capped", {}), ("free", {"final_logit_softcapping": None}),
                       ("absent", {"final_logit_softcapping": "absent"})):
        kept = {key: value for key, value in (config | more).items() if value != "absent"}
        pathlib.Path(box.folder, f"{name}.json").write_text(json.dumps(kept))
    answers = {model: answer(box, f"simulate -m {model} {asked}")
               for model in ("gemma-2-2b", "capped.json", "free.json", "absent.json")}
    held = {model: alive(told) if "error" not in told else told["error"]
            for model, told in answers.items()}
    plain = answer(box, f"simulate -m gemma-2-2b {asked} --set software.memory.cap_bytes=0")
    for model in ("gemma-2-2b", "capped.json", "absent.json"):
        base = alive(plain) if model == "gemma-2-2b" else held["free.json"]
        if abs((held[model] - base) / (2 * tokens * vocab) - 1) > 0.001:
            yield f"{model}: {held[model]} and {base} bytes, not {2 * tokens * vocab} apart"
    if answers["capped.json"]["step_time_s"] <= answers["free.json"]["step_time_s"]:
        yield "capped logits take no time"
    noted = {model: any("caps attention's scores" in note for note in told["notes"])
             for model, told in answers.items()}
    if not all(noted.values()):
        yield f"notes of attention: {noted}"


def check_sub_groups(box):
    """ZeRO-3 updates one sub-group after the other, and of each alone are there fp32 gradients."""
    asked = ("simulate -m llama-3.1-70b -H dgx-h100 --nodes 2 -s zero3 --seq 512 --batch 1 "
             "--grad-accum 1 --software deepspeed --set gpu.memory_gib=400 "
             "--activation-checkpoint-interval 1 "
             "--set software.memory.update_sub_group=")
    sub, all_ = (taken(answer(box, f"{asked}{elements}")).get("the update's copies", 0)
                 for elements in ("2e9", "0"))
    if abs(sub - 12e9) > 1e7 or abs(all_ - 6 * 70553706496 / 16) > 1e7:
        yield f"copies of {sub} bytes in sub-groups, {all_} at once"


def check_all_at_once(box):
    """Without such an allocator, and in steps that overlap or share slots, all is counted."""
    base = "simulate -m llama-3.2-3b -H h200 --gpus 1 --seq 512 --batch 1"
    for options in ("-s ddp --set software.memory.caching=false", "-s ddp --share-slots on",
                    "-s zero-offload --grad-accum 1 --dpu-start 10", "-s ddp --software ideal"):
        told = answer(box, f"{base} --software hf-trainer {options}")
        if "error" in told or told["tiers"]["gpu"].get("apart_bytes"):
            yield f"{options}: {told.get('error') or told['tiers']['gpu']}"


def check_apart_plan(box):
    """A plan's slots may be larger than the GPU; the plan says what is never there at once, and an
    answer for it needs as much as the question's."""
    question = ("-m llama-3.2-3b -H rtx4090 -s ddp --seq 2048 --batch 1 --grad-accum 1 "
                "--optimizer adamw-8bit-pure --software hf-trainer --recompute-layers 14 "
                "--logits-chunks 1 --set gpu.memory_gib=23.1")
    told = answer(box, f"simulate {question}")
    made = box.run(f"plan {question} -o apart.txt")
    read = answer(box, "simulate apart.txt -H rtx4090 --set gpu.memory_gib=23.1")
    gpu = told.get("tiers", {}).get("gpu", {})
    if made.status or "error" in read or not told["feasible"] or not read["feasible"] or \
            read["tiers"]["gpu"]["apart_bytes"] != gpu["apart_bytes"] or \
            read["peak_bytes"]["gpu"] != gpu["peak_bytes"] or \
            read["need_bytes"] != told["need_bytes"] or \
            gpu["peak_bytes"] + gpu["apart_bytes"] <= gpu["capacity_bytes"]:
        yield f"{made.err} {read.get('error')} {gpu} {read.get('tiers')}"
    text = (box.folder / "apart.txt").read_text(encoding="utf-8")
    apart = gpu.get("apart_bytes")
    box.write("less.txt", text.replace(f" apart {apart} ", " "))
    less = box.run("simulate less.txt -H rtx4090 --set gpu.memory_gib=23.1")
    if less.status != 2 or "over capacity" not in less.err:
        yield f"without what is apart: {less.status} {less.err}"


READ_BACK = [
    "-m llama-3.1-8b -H dgx-h100 -s zero3 --software fsdp2-compile --seq 2048",
    "-m llama-3.1-8b -H h100 --gpus 1 --train lora:16 --weight-bits 4 --software hf-trainer",
    "-m gemma-2-2b -H h200 -s ddp --gpus 1 --software pytorch-fsdp-eager",
    "-m gpt2-xl -H rtx4090 -s zero-offload",
    # The last stage is the fullest, for its logits; then the first, which has more in flight.
    "-m gemma-2-9b -H dgx-h100 --pp 2 -s zero1 --software megatron --seq 4096 --grad-accum 2",
    "-m llama-2-7b -H dgx-h100 --pp 2 -s zero1 --software megatron --seq 4096 --grad-accum 8",
]


def check_read_back(box):
    """A plan that is read back needs the same bytes, for the same purposes."""
    for options in READ_BACK:
        told = answer(box, f"simulate {options} --batch 1")
        made = box.run(f"plan {options} --batch 1 -o back.txt")
        read = answer(box, "simulate back.txt")
        if made.status or "error" in told or "error" in read:
            yield f"{options}: {made.err} {told.get('error')} {read.get('error')}"
            continue
        for key in ("need_bytes", "peak_bytes", "tiers", "ledger", "step_time_s"):
            if told[key] != read[key]:
                yield f"{options}: {key} {told[key]}, read back {read[key]}"


def check_unsaid(box):
    """Software that takes nothing beside the plan says nothing of it."""
    for name in ("ideal", "memwall"):
        told = answer(box, f"{ASKED} --software {name}")
        if "software_memory" in told:
            yield f"{name}: {told['software_memory']}"
    text = box.run(f"{ASKED} --software deepspeed").out.decode()
    if "of the GPU taken by deepspeed" not in text:
        yield f"deepspeed's memory is not told of: {text}"


def check_logits_whole(box):
    """Logits that do not fit are cut into chunks, unless the loss takes all; the user decides."""
    whole = "--set software.memory.logits_whole=true"
    question = ("plan -m llama-3.2-1b -H rtx4090 -s zero-offload --batch 4 --seq 8192 "
                "--software ideal")
    chunks = answer(box, question)["settings"]["logits_chunks"]
    told = box.run(f"{question} {whole}")
    if chunks < 2 or told.status != 3:
        yield f"{chunks} chunks; whole: status {told.status}"
    if box.run(f"{question} {whole} --logits-chunks {chunks}").status:
        yield "chunks that the user asks for are not taken"


BIG = "plan -m llama-2-13b -H dgx-a100 --batch 1 --gpus 8 --software ideal"
START_BYTES = 4 * 13015864320


def start_of(box, options):
    return answer(box, f"{BIG} {options}").get("start")


def check_start(box):
    """Who makes the model whole needs room for it in each rank, and says how long that takes."""
    whole = "--set software.start.partitions=false"
    made = f"{whole} --set software.start.bytes_per_parameter=4"
    host = start_of(box, f"-s zero3 {made}")
    for what, found, wanted in (
            ("in parts", start_of(box, "-s zero3")["made_in"], None),
            ("nobody knows", start_of(box, f"-s zero3 {whole}"), None),
            ("replicas are whole", start_of(box, "-s zero2"), None),
            ("whole", host["made_in"], "host"),
            ("bytes", host["bytes"], START_BYTES),
            ("room", host["fits"], True)):
        if found != wanted:
            yield f"{what}: {found}, not {wanted}"
    gpu = start_of(box, f"-s zero3 {made} --set software.start.made_on=gpu")
    if (gpu["made_in"], gpu["bytes"], gpu["fits"]) != ("gpu", START_BYTES, True):
        yield f"on the GPU: {gpu}"
    slow = start_of(box, f"-s zero3 {made} --set software.start.gparams_per_s=0.1")
    if abs(slow["time_s"] - host["time_s"] - START_BYTES / 4 / 1e8) > 0.01 * slow["time_s"]:
        yield f"making it takes {slow['time_s']} s, {host['time_s']} s without a bound"
    lacking = f"{BIG} -s zero3 {made} --set host.memory_gib=300"
    told, table = answer(box, lacking), box.run(lacking)
    if told["start"]["fits"] or table.status or b"CANNOT START" not in table.out or not [
            text for text in told["cautions"] if "cannot start" in text and "partitions" in text]:
        yield f"too little host memory: status {table.status}, {told['start']}, {told['cautions']}"


FETCHED = ("simulate --software ideal -m gpt2-xl -H rtx4090 -s zero-offload --batch 1 --seq 1024 "
           "--gradient-device gpu --optimizer-device cpu --update end --set pcie.d2h_gb_per_s=0.5")


def check_fetched(box):
    """Gradients that stay on the GPU until the host's update are copied like those that do not."""
    for key, value, sums, slower in (("gradient_link_bytes", 4, 1, True),
                                     ("gradient_link_bytes", 4, 2, False),  # sums are wide already
                                     ("gradient_copy_gb_per_s", 0.05, 1, True),
                                     ("gradient_copy_gb_per_s", 0.05, 2, True)):
        question = f"{FETCHED} --grad-accum {sums}"
        before = answer(box, question)
        after = answer(box, f"{question} --set software.offload.{key}={value}")
        for name, first, then in (("step", before["step_time_s"], after["step_time_s"]),
                                  ("closed form", before["closed_form"]["plan"],
                                   after["closed_form"]["plan"])):
            if (then > 1.01 * first) != slower:
                yield f"{key}, {sums} micro-batches: {name} {then} s, {first} s before"


# Software, options, bytes per parameter of parameters, gradients and state with four micro-batches,
# and of what it takes beside them.
CASTS, WIDER = "weights cast to 16 bits", "wider gradients"
# Of all but the embedding, which no product takes.
CAST = 2 * (1 - 32000 * 4096 / 6_738_415_616)
SUMS = [
    ("memwall", "-s ddp", 18, {}), ("ideal", "-s ddp", 18, {}), ("deepspeed", "-s ddp", 18, {}),
    ("megatron", "-s ddp", 18, {}), ("nemo", "-s ddp", 16, {}),
    ("megatron-2021", "-s ddp", 16, {WIDER: 2}), ("nanotron", "-s ddp", 18, {WIDER: 2}),
    ("fsdp2-compile", "-s ddp", 16, {CASTS: CAST, WIDER: 2}),
    # An update of lists takes more than what it finds freed, and casts are gone by then.
    ("pytorch-fsdp-eager", "-s ddp", 16, {WIDER: 2}),
    ("pytorch-fsdp-eager", "-s ddp --set software.memory.update_foreach_share=0", 16,
     {CASTS: CAST, WIDER: 2}),
    ("pytorch-2020", "-s ddp", 16, {}), ("hf-trainer", "-s ddp", 16, {CASTS: CAST, WIDER: 2}),
    # Recomputed layers are cast anew, but forward keeps all casts; 16-bit parameters have none.
    ("hf-trainer", "-s ddp --activation-checkpoint-interval 1", 16, {CASTS: CAST, WIDER: 2}),
    ("hf-trainer", "-s ddp --optimizer adamw-pure", 8, {}),
    ("memwall", "-s ddp --optimizer adamw-pure", 10, {}),
    ("fsdp2-compile", "-s zero3 --gpus 4", 16 / 4, {WIDER: 2 / 4}),
    ("hf-trainer", "-s zero3 --gpus 4", 16 / 4, {WIDER: 2 / 4}),
    ("deepspeed", "-s zero3 --gpus 4", 18 / 4, {}),
    ("megatron", "-s zero1 --gpus 4", 6 + 12 / 4, {}),
]


def check_sums(box):
    params = 6_738_415_616
    base = ("simulate -m llama-2-7b -H dgx-h100 --set gpu.memory_gib=1000 --gpus 1 --seq 512 "
            "--batch 1 --grad-accum 4 --activation-checkpoint-interval 0")
    for software, options, expected, beside in SUMS:
        told = answer(box, f"{base} --software {software} {options}")
        rows = {row["purpose"]: row["bytes"] for row in told.get("ledger", [])
                if row["tier"] == "gpu"}
        each = sum(rows.get(purpose, 0) for purpose in
                   ("parameters", "gradients", "optimizer-state")) / params
        more = {what: count / params for what, count in taken(told).items()
                if what in (CASTS, WIDER)} if rows else {}
        if abs(each / expected - 1) > 0.005 or set(more) != set(beside) or \
                any(abs(more[what] - count) > 0.02 for what, count in beside.items()):
            yield f"{software} {options}: {each} bytes per parameter, {more}, {told.get('error')}"


def check_in_place(box):
    """A plan whose fp32 parameters are updated themselves says so, and else has room for a copy
    of them in its state."""
    made = box.run("plan -m gpt2 -H rtx4090 -s ddp --dtype fp32 --seq 64 --batch 1 --commit none "
                   "--software hf-trainer -o fp32.txt")
    text = (box.folder / "fp32.txt").read_text(encoding="utf-8")
    if made.status or text.count(" updates-in-place only-simulated") != 1:
        yield f"{made.err}: {[line for line in text.splitlines() if line.startswith('step ')]}"
    if box.run("simulate fp32.txt").status:
        yield "its own plan is refused"
    box.write("fp32.txt", text.replace(" updates-in-place", ""))
    yield from refused(box.run("simulate fp32.txt"), ["does not fit its home"])


def check_sums_elsewhere(box):
    """A file asks DeepSpeed for what the plan has, and a run sums in fp32 alone."""
    small = f"plan -m {ROOT}/tests/fixtures/llama-small/config.json -H rtx4090 --batch 1 --seq 16"
    for software, expected in (("deepspeed", {"grad_accum_dtype": "fp32"}), ("hf-trainer", None)):
        done = box.run(f"{small} -s zero2 --grad-accum 2 --software {software} "
                       "--write-deepspeed ds.json")
        found = json.loads((box.folder / "ds.json").read_text(encoding="utf-8"))
        if done.status or found.get("data_types") != expected:
            yield f"{software}: {done.err} {found.get('data_types')}"
    done = box.run(f"{small} -s ddp --grad-accum 2 --software hf-trainer --commit none -o sums.txt")
    box.write("text.txt", "ab" * 2000)
    yield from refused(box.run("run --plan sums.txt -H rtx4090 --data text.txt --backend cpu "
                               "--steps 1"),
                       ["sums micro-batches in bf16", "--software memwall"])


def check_update_bytes(values):
    """What the update moves goes with the gradient that it gets: it reads and writes 12 bytes of
    fp32 state, reads the gradient, and once the norm is known a pass before it scales that."""
    gradient = float(values.get("gradient_link_bytes", 0))
    if gradient:
        passes = 1 if values.get("beside") == "true" else 3
        least = float(values.get("update_bytes_per_parameter", "0").split(";")[0])
        if least < 24 + passes * gradient:
            yield f"gradients of {gradient} bytes, and an update of {least} a parameter"


def check_profile(box, name):
    """Figures of files beside `ideal` have sources, and the answer names the profile."""
    text = pathlib.Path(ROOT, "software", f"{name}.ini").read_text(encoding="utf-8")
    keys = [line.split(" = ")[0] for line in text.splitlines() if " = " in line and line[0] != "#"]
    sourced = {key[:-len(".source")] for key in keys if key.endswith(".source")}
    bare = [key for key in keys if not key.endswith(".source") and key not in sourced
            and key not in ("description", "inherits", "date", "version")]
    if name != "ideal" and [k for k in bare if k not in ("share", "causal_skip")]:
        yield f"without a source: {bare}"
    yield from check_update_bytes(dict(line.split(" = ", 1) for line in text.splitlines()
                                       if " = " in line and line[0] != "#"))
    told = answer(box, f"{ASKED} --software {name}")
    if told.get("software") != name:
        yield f"the answer names {told.get('software')}: {told.get('error')}"
    if ("ideal_step_time_s" in told) != (name not in ("ideal", "memwall")):
        yield "the ideal's step stands beside all others but memwall's own"


# What trains so, if nobody says what does.
DEFAULTS = {
    "-s ddp": "pytorch-fsdp-eager",
    "-s zero3": "deepspeed",
    "-s zero-infinity-cpu": "deepspeed",
    "-s ddp,zero3": "deepspeed",
    "-s auto": "deepspeed",
    "-s zero1 --tp 8": "megatron",
    "-s ddp --pp 2 --grad-accum 2": "megatron",
}


def check_default(box, options, name):
    done = box.run(f"simulate -m llama-2-7b -H dgx-a100 --batch 1 {options} --json")
    told = {a["software"] for a in json.loads(done.out)["answers"]}
    if told != {name}:
        yield f"{told}, not {name}"


# Questions without a strategy; the first two are answered with ddp.
OPEN = ("-m gpt2-xl -H a100", "-m llama-3.2-1b -H a100 --optimizer adafactor-pure",
        "-m mistral-7b-v0.3 -H h100 --seq 1024 --optimizer adamw-8bit-pure",
        "-m llama-3.1-8b -H dgx-h100 --batch 1 --grad-accum 1",
        "-m llama-3.1-8b -H rtx4090 --batch 1")


def check_open(box, question):
    """It has the answer of the strategy that it chooses, by what usually trains with that."""
    chosen = answer(box, f"simulate {question}")
    asked = answer(box, f"simulate {question} -s {chosen['strategy']}")
    for key in ("software", "strategy"):
        if chosen[key] != asked[key]:
            yield f"{key} {chosen[key]}, and {asked[key]} with -s {chosen['strategy']}"
    if abs(asked["tokens_per_s"] / chosen["tokens_per_s"] - 1) > 0.01:
        yield f"{chosen['tokens_per_s']} tokens/s, and {asked['tokens_per_s']} if it is asked for"


PLANNED = "-m gpt2 -H flat-test -s zero3 --batch 1"
SET = {"operators.share": "0.125; 0.25; 0.5", "attention.kernel": "unfused, fused",
       "attention.causal_skip": "false", "offload.gradient_link_bytes": "3"}


def check_deepspeed(box):
    """Whoever has DeepSpeed's file trains by it, replicas too."""
    box.write("stage0.json", {"train_micro_batch_size_per_gpu": 1})
    told = answer(box, "simulate -m gpt2 -H dgx-a100 --deepspeed stage0.json")
    if (told["strategy"], told["software"]) != ("ddp", "deepspeed"):
        yield f"{told['strategy']} by {told['software']}"


def check_plan(box):
    """A plan is asked about by the software that it was made with, and what was set of it."""
    sets = " ".join(f"--set 'software.{key}={value}'" for key, value in SET.items())
    for asked in ("--software hf-trainer", "", f"--software hf-trainer {sets}", sets):
        box.run(f"plan {PLANNED} {asked} -o plan.txt")
        told, read = answer(box, f"simulate {PLANNED} {asked}"), box.run("simulate plan.txt --json")
        plan = json.loads(read.out)["answers"][0]
        for key in ("software", "software_set", "step_time_s", "ideal_step_time_s"):
            if plan.get(key) != told.get(key):
                yield f"{asked}: {key} {plan.get(key)}, asked {told.get(key)}"
        if read.err:
            yield f"{asked}: {read.err}"
    over = answer(box, "simulate plan.txt --set software.operators.share=0.75")
    if "operators.share 0.75 " not in over["software_set"] or \
            "unfused, fused" not in over["software_set"]:
        yield f"set beside what the plan has: {over['software_set']}"
    other = answer(box, "simulate plan.txt --software hf-trainer")
    if other["software"] != "hf-trainer" or "software_set" in other:
        yield f"another: {other['software']}, {other.get('software_set')}"


RANGED = {  # and the most of what all figures at one end come to: 1 where one alone does as much
    "-m gpt2 -H dgx-h100 -s ddp --batch 4": 0.95,
    "-m llama-3.1-8b -H rtx4090 --grad-accum 1": 0.95,
    "-m llama-3.1-8b -H h100 --gpus 1 --seq 2048 --train lora:16": 0.95,
    "-m gpt2 -H rtx4090 -s zero-offload --batch 1 --dpu-start 10": 1,
}


def check_plan_range(box):
    """Figures' errors are independent in the answer of a plan file too, as in the question's."""
    for asked, most in RANGED.items():
        box.run(f"plan {asked} -o plan.txt")
        told = answer(box, f"simulate {asked}")
        done = box.run("simulate plan.txt --json")
        read = json.loads(done.out)["answers"][0]
        for end in ("low", "high"):
            whole = answer(box, f"simulate plan.txt --outlook {OUTLOOK[end]}")["step_time_s"]
            far, its = (abs(a["range"]["step_time_s"][end] - told["step_time_s"])
                        for a in (told, read))
            if its != far or its > (most + 1e-9) * abs(whole - told["step_time_s"]):
                yield f"{asked}: {end} {its} s away, {far} asked, {whole} all at that end"


OUTLOOK = {"low": "high", "high": "low"}  # the least time is of a machine at its best


def check_unknown_plan(box):
    """Of software that is a file, or that nobody knows, a line says that another was taken."""
    box.write("deepspeed.ini", "[profile]\ninherits = ideal\n")
    asked = "--software ./deepspeed.ini --set software.operators.share=0.5"
    box.run(f"plan {PLANNED} {asked} -o plan.txt")
    done = box.run("simulate plan.txt --json")
    told = json.loads(done.out)["answers"][0]
    if told["software"] != "deepspeed" or "software_set" in told:
        yield f"{told['software']}, {told.get('software_set')}"
    said = done.err.strip().splitlines()
    wanted = ["./deepspeed.ini set operators.share=0.5", "this answer is for deepspeed,",
              "--software names another"]
    if done.status or len(said) != 1 or [word for word in wanted if word not in said[0]]:
        yield f"status {done.status}: {done.err}"
    named = box.run(f"simulate plan.txt {asked}")
    if named.status or named.err:
        yield f"named: {named.err}"
    text = (box.folder / "plan.txt").read_text(encoding="utf-8")
    for line in ("gone", "gone set operators.share=0.5"):
        box.write("other.txt", with_software(text, line))
        done = box.run("simulate other.txt")
        if done.status or "was made with software" not in done.err:
            yield f"{line}: status {done.status}: {done.err}"


def with_software(text, line):
    lines = [f"software {line}" if old.startswith("software ") else old
             for old in text.splitlines()]
    return "\n".join(lines) + "\n"


def check_damaged_plan(box):
    """What a plan's line sets of its software is held to the rules of --set."""
    box.run(f"plan {PLANNED} --software hf-trainer --set software.operators.share=0.5 -o plan.txt")
    text = (box.folder / "plan.txt").read_text(encoding="utf-8")
    number = text.splitlines().index("software hf-trainer set operators.share=0.5") + 1
    for line, *words in (
            ("hf-trainer set operators.share=many", "operators.share=many", "a number from 0.01"),
            ("hf-trainer set operators.share=7", "operators.share=7", "a number from 0.01 to 1"),
            ("hf-trainer set operators.shares=0.5", "operators.shares=0.5", "unknown key"),
            ("hf-trainer set operator.share=0.5", "operator.share=0.5", "[operators]"),
            ("hf-trainer set operators.share=0.5 set attention.kernel=fast", "kernel=fast",
             "fused"),
            ("hf-trainer set operators.share=0.5 set ", "must be software.SECTION.KEY=VALUE"),
            ("gone set operators.share=many", "operators.share=many", "a number from 0.01")):
        box.write("other.txt", with_software(text, line))
        for verb in ("simulate other.txt", "simulate other.txt --software ideal",
                     "run --plan other.txt --data other.txt"):
            yield from refused(box.run(verb), [f"other.txt: line {number}: ", *words])
    last = write_delayed(box)
    lines = (box.folder / "plan.txt").read_text(encoding="utf-8").splitlines()
    lines[last] = "software hf-trainer set operators.share=many"
    box.write("other.txt", "\n".join(lines) + "\n")
    yield from refused(box.run("simulate other.txt"), [f"other.txt: line {last + 1}: "])


DELAYED = "-m gpt2 -H rtx4090 -s zero-offload --batch 1 --dpu-start 3 --software hf-trainer"


def write_delayed(box):
    """The index of the line with the second plan's software."""
    box.run(f"plan {DELAYED} -o plan.txt")
    lines = (box.folder / "plan.txt").read_text(encoding="utf-8").splitlines()
    return [i for i, line in enumerate(lines) if line.startswith("software ")][1]


def check_delayed_plan(box):
    """Software takes other amounts beside the two kinds of steps, and their plans read back."""
    write_delayed(box)
    text = (box.folder / "plan.txt").read_text(encoding="utf-8")
    amounts = {line for line in text.splitlines() if line.startswith("program 0 ")}
    done = box.run("simulate plan.txt --json")
    if len(amounts) != 2 or done.status or done.err:
        yield f"{amounts}, status {done.status}: {done.err}"
        return
    told, read = answer(box, f"simulate {DELAYED}"), json.loads(done.out)["answers"][0]
    for key in ("step_time_s", "first_step_time_s", "peak_bytes", "dpu_start"):
        if told.get(key) != read.get(key):
            yield f"{key} {read.get(key)}, asked {told.get(key)}"


def check_silent_plan(box, options, name):
    """A plan that names no software has that of its strategy, slices and stages."""
    made = box.run(f"plan -m phi-2 -H dgx-a100 --batch 1 {options} -o plan.txt")
    if made.status:
        yield made.err
    text = (box.folder / "plan.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines(True) if not line.startswith("software ")]
    box.write("plan.txt", "".join(lines))
    done = box.run("simulate plan.txt --json")
    told = json.loads(done.out)["answers"][0]["software"]
    if told != name or done.err or len(lines) != len(text.splitlines()) - 1:
        yield f"{told}, not {name}: {done.err}"


def check_gains(box):
    """Each part's gain is what it takes to name it, and the largest comes first."""
    told = answer(box, f"{ASKED} --software pytorch-fsdp-eager")
    gains = [gain["factor"] for gain in told["software_gains"]]
    whole = told["step_time_s"] / told["ideal_step_time_s"]
    if not gains or gains != sorted(gains, reverse=True) or min(gains) < 1.01 or max(gains) > whole:
        yield f"{told['software_gains']}, in all {whole}"
    one = answer(box, f"{IDEAL} --set software.products.share=0.5")
    if [gain["part"] for gain in one["software_gains"]] != ["matrix products"] or \
            abs(one["software_gains"][0]["factor"] * one["ideal_step_time_s"]
                / one["step_time_s"] - 1) > 1e-9:
        yield f"{one['software_gains']}"


def check_scores(box):
    """Eager attention takes as much longer, forward, recompute and backward, as its kernels move
    bytes beyond those of the ideal's; dropout's are the same."""
    question = ("simulate -m gpt2 -H dgx2 --gpus 1 -s ddp --batch 4 --seq 1024 --grad-accum 1 "
                "--activation-checkpoint-interval 1 --software ideal")
    scores, rate = 12 * 4 * 12 * 1024 ** 2, 1e9
    wide = f"{question} --set gpu.memory_gb_per_s=1 --set software.attention.kernel=unfused"
    base = answer(box, wide)
    for key, more in (("forward", 2 * (20 - 3)), ("backward", 20 - 4)):
        told = answer(box, f"{wide} --set software.attention.score_{key}_bytes=20")
        found = told["step_time_s"] - base["step_time_s"]
        if abs(found / (more * scores / rate) - 1) > 0.01:
            yield f"{key}: {found} s more, not {more * scores / rate}"
    both = "".join(f" --set software.attention.score_{key}_bytes=20"
                   for key in ("forward", "backward"))
    again = wide.replace("-interval 1", "-interval 0 --recompute-attention on")
    found = answer(box, again + both)["step_time_s"] - answer(box, again)["step_time_s"]
    more = 2 * (20 - 3) + 20 - 4
    if abs(found / (more * scores / rate) - 1) > 0.01:
        yield f"attention again: {found} s more, not {more * scores / rate}"


def check_swapped(box):
    """DeepSpeed writes and reads 16 bytes of each parameter whose state is on drives, among them
    fp32 gradients, once per step, and sums micro-batches in host memory."""
    question = ("-m llama-2-7b -H dgx-a100 -s zero-infinity-nvme --param-device cpu "
                "--optimizer-device nvme --software deepspeed --batch 1 --commit none")
    owned = sum(LLAMA_2_7B)
    for gpus, sums in ((1, 1), (1, 3), (8, 1), (8, 3)):
        told = answer(box, f"simulate {question} --gpus {gpus} --grad-accum {sums}")
        for key in ("nvme_read_bytes", "nvme_written_bytes"):
            if abs(told[key] / (16 * owned) - 1) > 0.001:
                yield f"{gpus} GPUs, {sums} micro-batches: {key} {told[key]}, not {16 * owned}"
        held = {tier: sum(row["bytes"] for row in told["ledger"] if row["tier"] == tier
                          and row["purpose"] == "gradients") * gpus for tier in ("cpu", "nvme")}
        for tier, wanted in (("cpu", 4 * owned * (sums > 1)), ("nvme", 4 * owned)):
            if abs(held[tier] - wanted) > 0.001 * owned:
                yield f"{gpus} GPUs, {sums} micro-batches: {held} of gradients, not {wanted}"
        made = box.run(f"plan {question} --gpus {gpus} --grad-accum {sums} -o plan.txt")
        again = answer(box, "simulate plan.txt")
        if made.status or again.get("step_time_s") != told["step_time_s"]:
            yield f"its plan: {made.err} {again.get('error')} {again.get('step_time_s')} s"
    free = answer(box, "simulate -m llama-3.1-8b -H rtx4090 --software deepspeed")["settings"]
    if (free["optimizer_device"], free["gradient_device"]) != ("nvme", "nvme"):
        yield f"placed {free}"
    box.run("plan -m gpt2 -H rtx4090 -s zero-infinity-nvme --optimizer-device nvme --seq 64 "
            "--batch 1 --software deepspeed -o plan.txt")
    yield from refused(box.run("run --plan plan.txt -H rtx4090 --data plan.txt"),
                       ["can only be simulated"])


def check_refusals(box):
    box.write("part.ini", "[profile]\ndescription = x\n[operators]\nshare = 0.5\n")
    box.write("untiled.ini", "[profile]\ninherits = dgx-h100\n[gpu]\nmultiprocessors = 0\n")
    box.write("child.ini", "[profile]\ninherits = ideal\n[operators]\nshare = 0.5\n")
    for name, lines in (("kernel", "inherits = ideal\n[attention]\nkernel = fa2, fa9\n"),
                        ("day", "inherits = ideal\ndate = soon\n"),
                        ("place", "inherits = ideal\n[start]\nmade_on = gup\n"),
                        ("parent", "inherits = idael\n")):
        box.write(f"{name}.ini", f"[profile]\n{lines}")
    cases = {
        "--software nothing": ["nothing", "memwall list software"],
        "--software fsdp2-compil": ["did you mean fsdp2-compile"],
        "--software part.ini": ["part.ini: [attention] kernel is missing", "so are share"],
        "--set software.operators.shar=1": ["did you mean [operators] share"],
        # All words of the name, or its first one.
        "--set software.memory.sum_type=made": ["did you mean [memory] gradient_sum_type?"],
        "--set software.memory.update_bytes=6": ["[memory] update_gradient_bytes (bytes) or "],
        "--set software.memory.update_lists=1": ["gradient_bytes_whole (bytes) or "
                                                 "update_foreach_share"],
        "--set software.memory.fp32_in_place=true": ["did you mean [memory] update_fp32_in_place?"],
        "--set software.memory.update_flat=true":
            ["did you mean [memory] update_flat_tensor or update_flat_parts?"],
        "--set software.memory.gradient_sum_type=planned": ["must be one of fp32, made"],
        "--set software.attention.kernel=fa9": ["must be one of fused, unfused"],
        "--software kernel.ini": ["kernel.ini: [attention] kernel = fa2, fa9: must be one of "],
        "--software day.ini": ["day.ini: [profile] date = soon: must be a year, a month or a day"],
        "--software place.ini": ["place.ini: [start] made_on = gup: must be one of host, gpu"],
        "--software parent.ini": ["parent.ini: [profile] inherits = idael", "did you mean ideal"],
        "--set software.operators.share=2": ["from 0.01 to 1"],
        "--set software.products.fp8=true": ["software.products.fp8", "gpu.fp8_tile_tflops"],
        "-H dgx-h100 --set gpu.multiprocessors=0":
            ["--set gpu.multiprocessors=0: products have no curve", "gpu.matmul_dim=1024;8192"],
        "-H untiled.ini": ["untiled.ini: [gpu] matmul_dim: is missing", "matmul_dim = 1024; 8192"],
        "-H dgx-h100 --set gpu.fp8_tile_shares=1": ["gpu.fp8_tile_shares", "4 numbers"],
        "-H dgx-a100 --set gpu.fp8_tile_fill=9": ["fp8_tile_tflops", "is missing"],
        "--software deepspeed -s zero-infinity-nvme --optimizer-device nvme --gradient-device cpu":
            ["--gradient-device", "must be nvme with --optimizer-device nvme"],
        "--software deepspeed -s zero-infinity-nvme --optimizer-device cpu --gradient-device nvme":
            ["--gradient-device", "must be cpu or gpu with --optimizer-device cpu"],
        "--set software.operators": ["software.SECTION.KEY=VALUE"],
    }
    for options, words in cases.items():
        for wrong in refused(box.run(f"simulate -m gpt2 -H flat-test {options}"), words):
            yield f"{options}: {wrong}"
    run = box.run("run -m gpt2 -H flat-test --data child.ini --software ideal")
    yield from refused(run, ["--software", "run is memwall's own"])
    run = box.run("run -m gpt2 -H flat-test --data child.ini --set software.update.beside=true")
    yield from refused(run, ["--set software.update.beside=true", "run is memwall's own"])
    if "error" in answer(box, "simulate -m gpt2 -H flat-test --software child.ini"):
        yield "a file that inherits the rest is not read"


def check_offers(box):
    """What the software does not keep in host memory or on drives is said of a plan that has it
    there, and of no other."""
    question = ("simulate -m gpt3-13b -H dgx-a100 --seq 1024 --batch 1 --grad-accum 1 "
                "-s zero-infinity-nvme --activation-checkpoint-interval 1")
    for places, kept in (("--param-device cpu", "parameters in host memory"),
                         ("--gradient-device cpu --optimizer-device cpu", "gradients in host"),
                         ("--activation-device cpu", "activation checkpoints in host"),
                         ("--optimizer-device nvme --gradient-device nvme", "state on drives")):
        rest = " ".join(f"--{state}-device gpu" for state in ("param", "gradient", "optimizer",
                                                              "activation")
                        if f"--{state}-device" not in places)
        for software, lacks in (("megatron", True), ("ideal", False)):
            told = answer(box, f"{question} {places} {rest} --software {software}")
            said = [note for note in told.get("notes", []) if "cannot run this plan" in note]
            if [kept in note for note in said] != [True] * lacks:
                yield f"{places}, {software}: {said or told.get('error')}"


def check_cast(box):
    """PEFT casts what is not in 4 bits to fp32, but of models that come quantized by GPTQ."""
    config = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
              "num_hidden_layers": 4, "num_attention_heads": 32, "vocab_size": 32000,
              "max_position_embeddings": 2048, "hidden_act": "silu"}
    for method, casts in ((None, True), ("bitsandbytes", True), ("gptq", False), ("hqq", False)):
        more = {"quantization_config": {"quant_method": method, "bits": 4}} if method else {}
        box.write("config.json", json.dumps({**config, **more}))
        told = answer(box, "simulate -m config.json -H a100 -s ddp --train lora:16 --weight-bits 4 "
                           "--seq 512 --batch 1 --software hf-trainer")
        found = taken(told).get("frozen weights in fp32", 0)
        whole = 2 * (2 * 32000 * 2048 + 9 * 2048) * casts
        if abs(found - whole) > 1e-3 * whole:
            yield f"{method}: {found} bytes in fp32, {whole} by hand"


def check_savers(box):
    """Ways to save memory that the software lacks are said of a plan that has them, and a search
    leaves out the one that it could take."""
    question = "simulate -m llama-3.2-1b -H dgx-h100 --batch 1 --grad-accum 1 --seq 512"
    for options, said, lack, have in (
            ("-s zero3 --tiles 4", "tiles", ("fsdp2-compile", "pytorch-fsdp-eager", "megatron",
                                             "hf-trainer"), ("deepspeed", "ideal")),
            ("-s ddp --train lora:16 --weight-bits 4", "fewer bits", ("megatron", "nanotron"),
             ("hf-trainer", "fsdp2-compile", "nemo", "ideal")),
            ("-s ddp --update beside", "beside backward", ("megatron", "deepspeed", "nanotron"),
             ("hf-trainer", "fsdp2-compile", "ideal"))):
        for software in (*lack, *have):
            notes = answer(box, f"{question} {options} --software {software}")["notes"]
            wrong = [note for note in notes if "cannot run this plan" in note]
            if [said in note for note in wrong] != [True] * (software in lack):
                yield f"{options}, {software}: {wrong}"
    # Two gathered parameters of the largest operator leave no room for whole ones.
    tight = ("simulate -m gpt3-175b -H dgx2 -s zero-infinity-nvme --batch 1 --grad-accum 1 "
             "--seq 512 --param-device nvme --software ideal --set gpu.memory_gib=6")
    for more, tiled in (("", True), (" --set software.offers.tiled_operators=false", False)):
        told = json.loads(box.run(f"{tight}{more} --json").out)["answers"][0]
        if told["feasible"] != tiled or (told["settings"]["tiles"] > 1) != tiled:
            yield f"{more}: fits {told['feasible']}, {told['settings']['tiles']} tiles"


# Questions whose fastest plans some software cannot run.
LACKING = [f"-m llama-3.1-8b -H {machine} --software {software} --update beside --optimizer {kept}"
           for machine in ("a100", "h100") for software in ("hf-trainer", "deepspeed")
           for kept in ("sgd-pure", "adamw-8bit-pure", "adafactor-pure")] + [
    "-m llama-3.1-8b -H rtx4090 --train lora:16 --weight-bits 8",
    "-m llama-3.1-8b -H rtx4090 --train lora:16 --weight-bits 8 -s zero-infinity-cpu",
    "-m llama-3.1-70b -H dgx-a100 --train lora:16 --weight-bits 8",
    "-m llama-3.1-8b -H rtx4090 --software pytorch-fsdp-eager"]


def check_runs_first(box):
    """What is answered where more is open asks nothing of the software that the best plan of
    another strategy, or of another place of parameters, does not ask."""
    def lacks(options):
        told = answer(box, f"simulate {options}")
        said = [note for note in told.get("notes", []) if "cannot run this plan" in note]
        return len(said) if told.get("feasible") else None

    for question in sixth(LACKING):
        fixed = "-s " in question
        others = [f"{question} --param-device gpu"] if fixed else [
            f"{question} -s {strategy}" for strategy in
            ("ddp", "zero1", "zero2", "zero3", "zero-offload", "zero-infinity-cpu")]
        found = [count for count in map(lacks, others) if count is not None]
        if found and lacks(question) != min(found):
            yield f"{question}: lacks {lacks(question)}, others {found}"


def check_int8(box):
    """Products of weights in 8 bits of bitsandbytes are not as they are timed; a note says so."""
    for software, bits, says in (("hf-trainer", 8, True), ("hf-trainer", 4, False),
                                 ("ideal", 8, False)):
        notes = answer(box, "simulate -m llama-3.2-1b -H a100 -s ddp --batch 1 --train lora:8 "
                            f"--weight-bits {bits} --software {software}")["notes"]
        if any("LLM.int8" in note for note in notes) != says:
            yield f"{software}, {bits} bits: {notes}"


def check_host_optimizers(box):
    """A plan that updates on the host by what DeepSpeed has no CPU optimizer for says so."""
    question = "simulate -m gpt2 -H rtx4090 --batch 1 --grad-accum 1 "
    for options, lacks in (("-s zero-offload --optimizer adamw-8bit", True),
                           ("-s zero-offload --optimizer sgd", True),
                           ("-s zero-offload --optimizer adafactor-pure", True),
                           ("-s zero-infinity-nvme --optimizer-device nvme --optimizer sm3", True),
                           ("-s zero-offload", False),
                           ("-s zero-offload --optimizer lion", False),
                           ("-s zero-offload --optimizer adamw-16bit", True),
                           ("-s zero-offload --optimizer adamw-pure", False),
                           # Moments of 16 bits beside parameters of 32.
                           ("-s zero-offload --optimizer adamw-pure --dtype fp32", True),
                           ("-s zero-offload --optimizer sgd --set "
                            "'software.offers.host_optimizers=lion, any'", False),
                           ("-s streamed-update --optimizer adamw-8bit", False),
                           ("-s zero1 --optimizer adamw-8bit", False)):
        told = answer(box, f"{question} {options} --software deepspeed")
        said = ["no CPU optimizer" in note for note in told.get("notes", ["no CPU optimizer"])]
        if any(said) != lacks:
            yield f"{options}: {told.get('notes', told)}"


def tests(box):
    for options, name in sixth(DEFAULTS.items()):
        yield f"default/{options}", check_default(box, options, name)
        if "," not in options:
            yield f"silent plan/{options}", check_silent_plan(box, options, name)
    for question in OPEN:
        yield f"open/{question}", check_open(box, question)
    yield "default of a DeepSpeed file", check_deepspeed(box)
    yield "plan", check_plan(box)
    yield "plan of unknown software", check_unknown_plan(box)
    yield "range of a plan", check_plan_range(box)
    yield "damaged plan", check_damaged_plan(box)
    yield "delayed plan", check_delayed_plan(box)
    yield "gains", check_gains(box)
    yield "fetched", check_fetched(box)
    yield "scores", check_scores(box)
    yield "gradients on drives", check_swapped(box)
    yield "offers", check_offers(box)
    yield "cast of frozen weights", check_cast(box)
    yield "savers of memory", check_savers(box)
    yield "optimizers on the host", check_host_optimizers(box)
    yield "what runs comes first", check_runs_first(box)
    yield "products in 8 bits", check_int8(box)
    yield "refusals", check_refusals(box)
    for name in sixth(PROFILES):
        yield f"profile/{name}", check_profile(box, name)
    for key, (value, question, sign) in sixth(KEYS.items()):
        yield f"key/{key}", check_key(box, key, value, question, sign)
    for key, row in sixth(MEMORY.items()):
        yield f"memory/{key}", check_memory(box, key, *row)
    for gpus, options in sixth(HOST_MEMORY):
        yield f"memory/host {gpus} {options}", check_host_memory(box, gpus, options)
    yield "sums", check_sums(box)
    yield "updates in place", check_in_place(box)
    yield "sums elsewhere", check_sums_elsewhere(box)
    yield "memory/moments", check_moments(box)
    yield "memory/streams", check_streams(box)
    yield "memory/narrow products", check_narrow_products(box)
    yield "memory/adapters", check_adapters(box)
    yield "memory/adapters in all places", check_adapted_places(box)
    yield "memory/freed", check_freed(box)
    yield "memory/blocks", check_blocks(box)
    yield "memory/caps", check_caps(box)
    yield "memory/all at once", check_all_at_once(box)
    yield "memory/apart in a plan", check_apart_plan(box)
    yield "memory/plan read back", check_read_back(box)
    yield "memory/room", check_room(box)
    yield "host too late", check_late(box)
    yield "update beside backward", check_beside(box)
    yield "frozen parameters", check_frozen(box)
    yield "memory/unsaid", check_unsaid(box)
    yield "need", check_need(box)
    yield "memory/logits whole", check_logits_whole(box)
    yield "start", check_start(box)
    rows = re.findall(r'MEMORY[(]\s*"(\w+)"', KEY_TABLE.read_text(encoding="utf-8"))
    yield "memory/table", [key for key in rows
                           if f"memory.{key}" not in MEMORY and key not in
                           ("update_sub_group", "logit_forward_bytes", "beside_tensors")]
    yield "memory/sub-groups", check_sub_groups(box)
    entries = json.loads(box.run("list software --json").out)["software"]
    listed = [entry["software"] for entry in entries]
    yield "list", [] if listed == PROFILES else [f"{listed}, not {PROFILES}"]


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
