#!/usr/bin/python3
"""What PyTorch and the models of transformers do on this GPU: times of operators, attention, products
and updates, eager and compiled, of host work, and of whole training steps.

    python3 rates/framework.py [--seconds N] [--only PART,...] [--out FILE] [--smoke]

Needs PyTorch and transformers.  Each line of the file (framework.csv) is a measurement, written as
soon as it is made: part, what, how (eager, compiled, or a kernel), sizes, milliseconds (the median
of rounds, by the GPU's own clock), and GiB at most for whole steps.  Parts that there is no time for
are left out.  --smoke: tiny sizes on cores, to test this script.
"""
import argparse
import contextlib
import csv
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

ROUND_S, ROUNDS = 0.01, 7


class Bench:
    """A device, the time that is left, and the file."""

    def __init__(self, options):
        self.smoke = options.smoke
        self.device = "cpu" if options.smoke else "cuda"
        self.end_s = time.monotonic() + options.seconds
        self.part = ""
        self.file = open(options.out, "w", newline="", encoding="utf-8")
        self.table = csv.writer(self.file, lineterminator="\n")
        self.tell("part", "what", "how", "sizes", "ms", "gib")

    def tell(self, *row):
        self.table.writerow(row)
        self.file.flush()
        print(*row, file=sys.stderr, flush=True)

    def left_s(self):
        return self.end_s - time.monotonic()

    def size(self, whole, tiny):
        return tiny if self.smoke else whole

    def normal(self, *shape, dtype=torch.bfloat16, grad=False):
        return torch.randn(*shape, device=self.device, dtype=torch.float32).to(dtype) \
            .requires_grad_(grad)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def once_ms(self, run, calls):
        if self.device == "cpu":
            begun_s = time.perf_counter()
            for _ in range(calls):
                run()
            return 1e3 * (time.perf_counter() - begun_s) / calls
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / calls

    def ms(self, run, round_s=ROUND_S):
        """Of a call, the median of rounds."""
        run()
        self.wait()
        calls = max(1, int(1e3 * round_s / max(self.once_ms(run, 2), 1e-3)))
        rounds = 1 if self.smoke else ROUNDS
        return statistics.median(self.once_ms(run, min(calls, 200)) for _ in range(rounds))

    @contextlib.contextmanager
    def trying(self, *what):
        """Whatever goes wrong is a line, and the others are measured all the same."""
        try:
            yield
        except Exception as why:  # pylint: disable=broad-except
            self.tell(self.part, *what, f"failed: {type(why).__name__}: {str(why)[:120]}", "", "")
            if self.device == "cuda":
                torch.cuda.empty_cache()


# --- products ------------------------------------------------------------------------------------

# Of a layer of GPT-2 124M, 1.5B, Llama 1B, 8B and 70B: forward, and both gradients.
LINEAR = ((8192, 768, 2304), (8192, 768, 3072), (4096, 1600, 4800), (4096, 1600, 6400),
          (4096, 6400, 1600), (8192, 2048, 3072), (8192, 2048, 8192), (4096, 4096, 6144),
          (4096, 4096, 14336), (4096, 14336, 4096), (8192, 4096, 4096), (2048, 8192, 10240),
          (4096, 8192, 28672), (8192, 768, 50304), (4096, 4096, 128256), (1000, 1000, 1000),
          (3000, 2000, 5000), (512, 4096, 4096), (8192, 8192, 8192), (16384, 16384, 16384))
LONG = ((4096, 4096, 14336), (8192, 2048, 8192), (8192, 8192, 8192))
LONG_S = 1.5


def products_of(tokens, inputs, outputs):
    """(m, n, k, which is transposed)."""
    return ((tokens, outputs, inputs, "Bt"), (tokens, inputs, outputs, ""),
            (outputs, inputs, tokens, "At"))


def product(bench, m, n, k, turned):
    a = bench.normal(k, m).t() if turned == "At" else bench.normal(m, k)
    b = bench.normal(n, k).t() if turned == "Bt" else bench.normal(k, n)
    to = torch.empty(m, n, device=bench.device, dtype=torch.bfloat16)
    return lambda: torch.mm(a, b, out=to)


def products(bench):
    for linear in bench.size(LINEAR, ((64, 32, 48),)):
        for m, n, k, turned in products_of(*linear):
            run = product(bench, m, n, k, turned)
            bench.tell(bench.part, "burst", turned, f"{m} {n} {k}", f"{bench.ms(run):.4f}", "")
    for linear in bench.size(LONG, ((64, 32, 48),)):
        m, n, k, turned = products_of(*linear)[0]
        run = product(bench, m, n, k, turned)
        bench.ms(run)
        end_s = time.monotonic() + bench.size(LONG_S, 0.01)
        rounds = []
        while time.monotonic() < end_s:
            rounds.append(bench.once_ms(run, 50))
        last = statistics.median(rounds[len(rounds) // 2:])
        bench.tell(bench.part, "sustained", turned, f"{m} {n} {k}", f"{last:.4f}", "")


# --- attention -----------------------------------------------------------------------------------

KERNELS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
TOKENS = 16384


def attention(bench):
    for name, kernel in KERNELS.items():
        for head_dim in bench.size((64, 128, 256), (16,)):
            for seq in bench.size((1024, 2048, 4096, 16384), (32,)):
                sizes = f"{bench.size(TOKENS, 64) // seq} {2048 // head_dim} {seq} {head_dim}"
                with bench.trying("causal", name, sizes), \
                        sdpa_kernel(SDPBackend.MATH if bench.smoke else kernel):
                    q, k, v = (bench.normal(*map(int, sizes.split()), grad=True) for _ in range(3))

                    def forward(q=q, k=k, v=v):
                        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

                    both(bench, "causal", name, sizes, forward)


def both(bench, what, how, sizes, forward):
    """Forward, and backward alone: what both take less forward's."""
    result = forward()
    gradient = torch.randn_like(result)
    forward_ms = bench.ms(forward)
    both_ms = bench.ms(lambda: forward().backward(gradient))
    bench.tell(bench.part, f"{what} forward", how, sizes, f"{forward_ms:.4f}", "")
    bench.tell(bench.part, f"{what} backward", how, sizes, f"{both_ms - forward_ms:.4f}", "")


# --- operators bound by memory -------------------------------------------------------------------

class LlamaNorm(nn.Module):
    """As transformers has it, operation by operation."""

    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(columns))

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


def rotated(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotary(x, cos, sin):
    return x * cos + rotated(x) * sin


def cases(bench):
    """(name, sizes, function of x alone, x)."""
    rows, columns = bench.size((8192, 4096), (16, 32))
    wide = bench.size(14336, 64)
    to = {"device": bench.device, "dtype": torch.bfloat16}
    x, y = bench.normal(rows, columns, grad=True), bench.normal(rows, columns)
    up, gate = bench.normal(rows, wide), bench.normal(rows, wide, grad=True)
    heads = bench.normal(1, columns // 16, rows, 16 if bench.smoke else 128, grad=True)
    angles = [bench.normal(1, 1, rows, heads.shape[-1]) for _ in range(2)]
    size = f"{rows} {columns}"
    yield "layer_norm", size, nn.LayerNorm(columns, **to), x
    yield "rms_norm module", size, LlamaNorm(columns).to(**to), x
    yield "rms_norm", size, nn.RMSNorm(columns, **to), x
    yield "residual", size, lambda it: it + y, x
    yield "gelu", f"{rows} {wide}", functional.gelu, gate
    yield "silu and product", f"{rows} {wide}", lambda it: functional.silu(it) * up, gate
    yield "dropout", size, lambda it: functional.dropout(it, 0.1), x
    yield "rotary", " ".join(map(str, heads.shape)), lambda it: rotary(it, *angles), heads


def operators(bench):
    for name, sizes, function, x in cases(bench):
        with bench.trying(name, "eager", sizes):
            both(bench, name, "eager", sizes, lambda f=function, x=x: f(x))
    y = bench.normal(*bench.size((16384, 4096), (16, 32)))
    to = torch.empty_like(y)
    bench.tell(bench.part, "copy", "eager", f"{y.numel() * 2}", f"{bench.ms(lambda: to.copy_(y)):.4f}", "")


def compiled_operators(bench):
    for name, sizes, function, x in cases(bench):
        if bench.left_s() < 20 or name in ("gelu", "dropout"):
            continue
        with bench.trying(name, "compiled", sizes):
            made = torch.compile(function)
            both(bench, name, "compiled", sizes, lambda f=made, x=x: f(x))


def loss(bench):
    rows, words = bench.size((8192, 128256), (16, 100))
    logits = bench.normal(rows, words, grad=True)
    targets = torch.randint(words, (rows,), device=bench.device)

    def forward():
        return functional.cross_entropy(logits.float(), targets)

    both(bench, "loss in fp32", "eager", f"{rows} {words}", forward)


# --- the update ----------------------------------------------------------------------------------

def updates(bench):
    count, side = bench.size((60, 4096), (2, 16))
    for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16")):
        for how, flags in (("foreach", {"foreach": True}), ("fused", {"fused": True})):
            with bench.trying(f"adamw {name}", how, f"{count * side * side}"):
                weights = [nn.Parameter(bench.normal(side, side, dtype=dtype)) for _ in range(count)]
                for weight in weights:
                    weight.grad = bench.normal(side, side, dtype=dtype)
                adam = torch.optim.AdamW(weights, **flags)
                bench.tell(bench.part, f"adamw {name}", how, f"{count * side * side}",
                           f"{bench.ms(adam.step):.4f}", "")
                if how == "fused":
                    ms = bench.ms(lambda w=weights: nn.utils.clip_grad_norm_(w, 1.0))
                    bench.tell(bench.part, f"clip {name}", "foreach", f"{count * side * side}",
                               f"{ms:.4f}", "")


# --- copies --------------------------------------------------------------------------------------

def copies(bench):
    if bench.device == "cpu":
        return
    there = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    for name, pinned in (("pinned", True), ("pageable", False)):
        here = torch.ones(1 << 28, dtype=torch.uint8, pin_memory=pinned)
        bench.tell(bench.part, "to the GPU", name, "268435456",
                   f"{bench.ms(lambda h=here: there.copy_(h, non_blocking=True)):.4f}", "")
        bench.tell(bench.part, "to the host", name, "268435456",
                   f"{bench.ms(lambda h=here: h.copy_(there, non_blocking=True)):.4f}", "")


# --- whole steps ---------------------------------------------------------------------------------

LLAMA = {  # hidden, layers, heads, groups, feed-forward, vocabulary, tied
    "llama-3.2-1b": (2048, 16, 32, 8, 8192, 128256, True),
    "llama-3.2-3b": (3072, 28, 24, 8, 8192, 128256, True),
    "llama-3.1-8b": (4096, 32, 32, 8, 14336, 128256, False),
    "tiny": (64, 2, 4, 2, 128, 500, True),
}


def llama(name, dtype, device):
    from transformers import LlamaConfig, LlamaForCausalLM
    hidden, layers, heads, groups, wide, words, tied = LLAMA[name]
    config = LlamaConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                         num_key_value_heads=groups, intermediate_size=wide, vocab_size=words,
                         tie_word_embeddings=tied, max_position_embeddings=131072, use_cache=False,
                         rope_theta=500000.0, attn_implementation="sdpa", head_dim=hidden // heads)
    with torch.device(device):
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            return LlamaForCausalLM(config)
        finally:
            torch.set_default_dtype(before)


# model, weights' type (fp32 under autocast), sequences, length, recomputed, how, optimizer
STEPS = (
    ("llama-3.2-1b", "bf16", 4, 4096, False, "eager", "fused"),
    ("llama-3.2-1b", "fp32", 4, 4096, False, "eager", "foreach"),
    ("llama-3.2-1b", "fp32", 4, 4096, False, "eager", "fused"),
    ("llama-3.2-1b", "fp32", 1, 128, False, "eager", "fused"),
    ("llama-3.2-1b", "fp32", 1, 512, False, "eager", "fused"),
    ("llama-3.2-3b", "fp32", 2, 4096, True, "eager", "fused"),
    ("llama-3.1-8b", "bf16", 1, 4096, True, "eager", "fused"),
    ("llama-3.1-8b", "bf16", 2, 4096, True, "eager", "fused"),
    ("llama-3.2-1b", "fp32", 4, 4096, False, "compiled", "fused"),
    ("llama-3.2-3b", "fp32", 2, 4096, True, "compiled", "fused"),
)


def step_of(bench, name, dtype, sequences, length, again, how, optimizer):
    """A function that makes a step."""
    model = llama(name, torch.float32 if dtype == "fp32" else torch.bfloat16, bench.device)
    model.train()
    if again:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if how == "compiled":
        for layer in model.model.layers:
            layer.compile()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-5, **{optimizer: True})
    words = torch.randint(model.config.vocab_size, (sequences, length), device=bench.device)

    def step():
        with torch.autocast(bench.device, torch.bfloat16, enabled=dtype == "fp32"):
            model(input_ids=words, labels=words).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad()

    return step


def timed(bench, step):
    """Median milliseconds, and GiB at most."""
    for _ in range(bench.size(3, 1)):
        step()
    bench.wait()
    times = []
    end_s = time.monotonic() + 4
    while len(times) < bench.size(8, 1) and (len(times) < 3 or time.monotonic() < end_s):
        begun_s = time.perf_counter()
        step()
        bench.wait()
        times.append(1e3 * (time.perf_counter() - begun_s))
        if bench.smoke:
            break
    gib = torch.cuda.max_memory_allocated() / 2**30 if bench.device == "cuda" else 0
    return statistics.median(times), gib


def steps(bench):
    tiny = [("tiny", "fp32", 1, 16, True, "eager", "foreach")]
    for row in bench.size(STEPS, tiny):
        name, dtype, sequences, length, again, how, optimizer = row
        if bench.left_s() < (40 if how == "compiled" else 15):
            continue
        what = f"{name} {dtype} {optimizer}{' recomputed' if again else ''}"
        with bench.trying(what, how, f"{sequences} {length}"):
            if bench.device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            ms, gib = timed(bench, step_of(bench, *row))
            bench.tell(bench.part, what, how, f"{sequences} {length}", f"{ms:.3f}", f"{gib:.2f}")


# --- host work -------------------------------------------------------------------------------

def kernels_of(step):
    """Started on the GPU by a step, copies and fills with them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    return sum(event.count for event in profile.key_averages()
               if event.device_type == torch.autograd.DeviceType.CUDA)


def host(bench):
    """Steps of so few tokens that the GPU waits for the host."""
    name = bench.size("llama-3.2-1b", "tiny")
    for dtype, again, how in (("bf16", False, "eager"), ("fp32", False, "eager"),
                              ("bf16", True, "eager"), ("bf16", False, "compiled")):
        if bench.left_s() < (30 if how == "compiled" else 8):
            continue
        what = f"{name} {dtype} fused{' recomputed' if again else ''}"
        with bench.trying(what, how, "1 64"):
            step = step_of(bench, name, dtype, 1, bench.size(64, 16), again, how, "fused")
            ms, _ = timed(bench, step)
            count = 0 if bench.smoke else kernels_of(step)
            bench.tell(bench.part, f"{what}, {count} kernels", how, "1 64", f"{ms:.3f}", "")


PARTS = {part.__name__: part for part in (steps, host, operators, products, attention, loss, updates,
                                          copies, compiled_operators)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,...")
    parser.add_argument("--out", default="framework.csv")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    bench = Bench(options)
    name = "cores" if options.smoke else torch.cuda.get_device_name()
    bench.tell("machine", name, f"PyTorch {torch.__version__}", "", "", "")
    for word in options.only.split(","):
        bench.part = word
        if bench.left_s() > 5:
            with bench.trying("all", "", ""):
                PARTS[word](bench)
        if bench.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
