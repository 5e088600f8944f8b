#!/usr/bin/python3
"""Times PyTorch's fp32 operators beside this project's passes with exp or tanh, in turn.

    PYTHON-WITH-TORCH tests/peer_passes.py build/tests/bench_passes [--isa ISA] [--rounds N]
        [--elements N] [PASS...]

PyTorch is no dependency: run this with a Python that has it.  Both take as many elements, on as
many threads; ours are bf16, PyTorch's fp32.  The bar is PyTorch's time.  What PyTorch does in
several operators (silu * up, and the gradients, without autograd's bookkeeping) is timed as their
sum.
--isa avx2 lets PyTorch use AVX2 too.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

# Huge pages for PyTorch too, and memory that it keeps: results lie where earlier ones lay.  The one
# that waits leaves the cores to the other.
ENVIRONMENT = {"THP_MEM_ALLOC_ENABLE": "1", "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
               "MALLOC_TRIM_THRESHOLD_": str(16 << 30), "MALLOC_TOP_PAD_": str(512 << 20),
               "OMP_WAIT_POLICY": "passive"}

COLUMNS, VOCAB = 768, 50257


class Ours:
    def __init__(self, bench, isa, elements):
        self.isa = isa
        self.process = subprocess.Popen([bench, "--serve", "--elements", str(elements)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def seconds(self, name):
        self.process.stdin.write(f"{self.isa} bf16 {name}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"peer_passes: bench_passes does not run {name} on {self.isa}")
        return float(line)


def operators(torch, elements):
    """Of each of our passes, what PyTorch has: a function without arguments."""
    aten, ignore, mean = torch.ops.aten, -100, 1
    x, up, dy = (torch.randn(elements) for _ in range(3))
    rows, loss_rows = elements // COLUMNS, elements // VOCAB
    shape = [COLUMNS]
    weight, bias = torch.ones(COLUMNS), torch.zeros(COLUMNS)
    table, dtable = (t[: rows * COLUMNS].view(rows, COLUMNS) for t in (x, dy))
    out, mu, rstd = aten.native_layer_norm(table, shape, weight, bias, 1e-5)
    logits = x[: loss_rows * VOCAB].view(loss_rows, VOCAB)
    targets = torch.arange(loss_rows) * 7919 % VOCAB
    one, total = torch.tensor(1.0), torch.tensor(float(loss_rows))
    del out

    def loss():
        return aten.nll_loss_forward(aten._log_softmax(logits, 1, False), targets, None, mean,
                                     ignore)

    def cross_entropy():
        logs = aten._log_softmax(logits, 1, False)
        aten.nll_loss_forward(logs, targets, None, mean, ignore)
        slope = aten.nll_loss_backward(one, logs, targets, None, mean, ignore, total)
        return aten._log_softmax_backward_data(slope, logs, 1, torch.float32)

    def swiglu_backward():
        return dy * aten.silu(x), aten.silu_backward(dy * up, x)

    return {
        "add": lambda: aten.add(x, up),
        "layernorm": lambda: aten.native_layer_norm(table, shape, weight, bias, 1e-5),
        "layernorm-backward": lambda: aten.native_layer_norm_backward(
            dtable, table, shape, mu, rstd, weight, bias, [True, False, False]),
        "rmsnorm": lambda: torch.nn.functional.rms_norm(table, shape, weight, 1e-5),
        "gelu": lambda: aten.gelu(x, approximate="tanh"),
        "gelu-backward": lambda: aten.gelu_backward(dy, x, approximate="tanh"),
        "gelu-erf": lambda: aten.gelu(x),
        "gelu-erf-backward": lambda: aten.gelu_backward(dy, x),
        "swiglu": lambda: aten.mul(aten.silu(x), up),
        "swiglu-backward": swiglu_backward,
        "loss": loss,
        "cross-entropy": cross_entropy,
    }


def seconds_of(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def quartiles(values):
    values = sorted(values)
    n = len(values)
    return values[n // 4], statistics.median(values), values[n - 1 - n // 4]


def compare(name, call, ours, rounds):
    for _ in range(2):
        ours.seconds(name)
        call()
    own, peer = [], []
    for _ in range(rounds):
        own.append(ours.seconds(name))
        peer.append(seconds_of(call))
    low, ratio, high = quartiles([p / o for o, p in zip(own, peer)])
    print(f"{name:19} {1e3 * statistics.median(own):9.2f} {1e3 * statistics.median(peer):9.2f}  "
          f"{ratio:5.2f} ({low:.2f} to {high:.2f}){'' if ratio >= 1 else '  MISSED'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--isa", default="avx2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--elements", type=int, default=32 << 20)
    parser.add_argument("passes", nargs="*")
    options = parser.parse_intermixed_args()
    if any(os.environ.get(key) != value for key, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ENVIRONMENT})
    if options.isa == "avx2":
        os.environ["ATEN_CPU_CAPABILITY"] = "avx2"
    import torch  # pylint: disable=import-outside-toplevel

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.set_grad_enabled(False)
    ours = Ours(options.bench, options.isa, options.elements)
    print(f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()}), "
          f"{torch.get_num_threads()} threads; ours {options.isa}; {options.elements} elements, "
          f"{options.rounds} rounds in turn")
    print(f"{'pass':19} {'ours, ms':>9} {'torch, ms':>9}  torch over ours (quartiles)")
    for name, call in operators(torch, options.elements).items():
        if not options.passes or name in options.passes:
            compare(name, call, ours, options.rounds)


if __name__ == "__main__":
    main()
