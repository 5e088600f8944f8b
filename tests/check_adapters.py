#!/usr/bin/python3
"""`--train lora:RANK`: adapters of frozen weights (LoRA, QLoRA), planned; prints TAP.

Numbers of parameters are those that PEFT prints for the same targets (named where published), and
bytes and FLOPs those of a count by hand.
"""
import sys

from command import Box, answer_of, refused
from tap import report_in

ASK = "simulate -s ddp --gpus 1 --batch 1 --json --set gpu.memory_gib=1000"

# Rank, model, and the parameters of adapters of all products of layers.  Llama 3 8B and Llama 2 7B
# at rank 16: as Unsloth and PEFT print them; GPT-2 at rank 8 on c_attn: PEFT's documentation.
# Others by hand: rank * (in + out) of each matrix, per layer.
COUNTS = [
    ("llama-3.1-8b", "lora:16", 41_943_040),
    ("llama-2-7b", "lora:16", 39_976_960),
    ("llama-3.1-70b", "lora:16", 207_093_760),
    ("gpt2", "lora:8@qkv", 294_912),
    # q 4096+4096, k and v 4096+1024, o, gate and up 4096+14336, down.
    ("mistral-7b-v0.3", "lora:64@qkv+projection", 32 * 64 * (8192 + 2 * 5120 + 8192)),
    # Eight experts of three matrices; the router has no adapter.
    ("mixtral-8x7b", "lora:4@mlp-up+mlp-down", 32 * 4 * 8 * 3 * (4096 + 14336)),
]


def settings_of(box, options):
    answer = box.run(f"{ASK} -H h100 {options}")
    if answer.status:
        return None, f"{options}: status {answer.status}: {answer.err.strip()[-300:]}"
    return answer_of(answer.out), None


def check_counts(box):
    for model, adapters, expected in COUNTS:
        answer, error = settings_of(box, f"-m {model} --seq 64 --train {adapters}")
        if error:
            yield error
        elif answer["settings"]["trained_params"] != expected:
            yield f"{model} {adapters}: {answer['settings']['trained_params']}, not {expected}"


def check_text(box):
    """What is trained is said as it is requested."""
    for given, said in (("lora:16", "lora:16"), ("norm1,lora:8", "lora:8,norm1"),
                        ("lora:8@mlp-down+qkv", "lora:8@qkv+mlp-down"),
                        ("lora:2@qkv+projection+mlp-up+mlp-down", "lora:2")):
        answer, error = settings_of(box, f"-m llama-3.1-8b --seq 64 --train {given}")
        if error or answer["settings"]["train"] != said:
            yield error or f"{given}: {answer['settings']['train']}"


def states(answer):
    """Whole pages per slot are in them."""
    return {row["purpose"]: row["bytes"] for row in answer["ledger"] if row["tier"] == "gpu"}


def check_bytes(box):
    """Of Llama 3.1 8B: 16 bytes for each trained parameter, frozen ones 2 or 36/64."""
    trained, products = 41_943_040, 32 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)
    rest = 8_030_261_248 - products
    for bits, frozen in ((16, 2 * products), (4, products * 36 // 64)):
        answer, error = settings_of(
            box, f"-m llama-3.1-8b --seq 64 --train lora:16 --weight-bits {bits}")
        if error:
            yield error
            continue
        ledger = states(answer)
        expected = {"parameters": frozen + 2 * rest + 2 * trained, "gradients": 2 * trained,
                    "optimizer-state": 12 * trained}
        for purpose, count in expected.items():
            if not count <= ledger.get(purpose, 0) <= count * 1.002 + 4096 * 32 * 12:
                yield f"{bits} bits, {purpose}: {ledger.get(purpose)} bytes, {count} by hand"


def check_activations(box):
    """The adapted products' inputs are kept, and a rank per token for each A; q, k and v have one
    each, gate and up too."""
    tokens, hidden, ffn, layers, rank = 2048, 4096, 14336, 32, 16
    kept = {}
    for train in ("norm1,norm2", f"lora:{rank}", f"lora:{rank}@mlp-down"):
        answer, error = settings_of(
            box, f"-m llama-3.1-8b --seq {tokens} --activation-checkpoint-interval 0 "
                 f"--logits-chunks 1 --train {train}")
        if error:
            yield error
            return
        kept[train] = states(answer)["activations"]
    widths = {f"lora:{rank}": 2 * hidden + ffn + 7 * rank, f"lora:{rank}@mlp-down": ffn + rank}
    for train, width in widths.items():
        more = kept[train] - kept["norm1,norm2"]
        if abs(more - layers * 2 * tokens * width) > 64 * 4096:
            yield f"{train}: {more} bytes more, {layers * 2 * tokens * width} by hand"


def check_flops(box):
    """Backward of what is frozen has one product for two of what is trained; flash attention's
    backward forms the scores again."""
    tokens = 4096
    products = 32 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)
    attention = 32 * 2 * tokens * 4096
    expected = 2 * tokens * (2 * products + 3.5 * attention + 2 * 128256 * 4096 +
                             3 * 41_943_040)
    answer, error = settings_of(box, f"-m llama-3.1-8b --seq {tokens} --train lora:16 "
                                     "--activation-checkpoint-interval 0")
    if error:
        yield error
        return
    done = answer["tflops_per_gpu"] * 1e12 * answer["step_time_s"]
    if abs(done / expected - 1) > 1e-3:
        yield f"{done:.6g} FLOPs, {expected:.6g} by hand"


def check_batch(box):
    answer, error = settings_of(box, "-m llama-3.1-8b --seq 512 --train lora:16 --batch auto")
    if error or answer["settings"]["global_batch"] != 16:
        yield error or f"{answer['settings']['global_batch']} sequences"
    elif answer["software"] != "hf-trainer":
        yield f"software {answer['software']}"


def check_refusals(box):
    for options, *words in (
            ("--train lora", "--train lora", "--train lora:16"),
            ("--train lora:", "a rank is a whole number", "not ''"),
            ("--train lora:0", "a rank is a whole number"),
            ("--train lora:1.5", "a rank is a whole number"),
            ("--train lora:nan", "a rank is a whole number"),
            ("--train lora:16,lora:8", "adapters are given twice"),
            ("--train lora:16@", "has no adapters"),
            ("--train lora:16@q_proj", "'q_proj' has no adapters", "mlp-down"),
            ("--train lora:16@norm1", "'norm1' has no adapters"),
            ("--train lora:16@qkv+qkv", "'qkv' is given twice"),
            ("--train lora:16,qkv", "qkv is trained itself"),
            ("--train qkv-lora", "no operator 'qkv-lora'"),
            ("--lora-alpha 16", "there are no adapters", "--train lora:16"),
            ("--train lora:8 --lora-alpha 0", "--lora-alpha"),
            ("--train lora:1025", "rank of adapters: value 1025: must be at most 1024", "qkv")):
        yield from refused(box.run(f"simulate -m llama-3.1-8b -H h100 {options}"), words)
    yield from refused(box.run("simulate -m llama-3.1-8b -H h100 -s qlora"),
                       ["--train lora:16", "--weight-bits 4"])


def tests(box):
    yield "counts", check_counts(box)
    yield "text", check_text(box)
    yield "bytes", check_bytes(box)
    yield "activations", check_activations(box)
    yield "flops", check_flops(box)
    yield "batch", check_batch(box)
    yield "refusals", check_refusals(box)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
