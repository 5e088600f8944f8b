#!/usr/bin/python3
"""Times training steps here and by PyTorch on the CPU, in turn, on the same cores.

    PYTHON-WITH-TORCH tests/bench_step.py build/tests/bench_step [--model gpt2|llama] [--isa avx2]
        [--sequences N] [--seq N] [--interval 0|1] [--rounds N] [--peers NAME,...] [--compile]

PyTorch is no dependency: run this with a Python that has it.  Models are GPT-2 124M, and a Llama of
134M parameters (tests/fixtures/llama-134m).  Memwall trains in bf16 with fp32 master parameters,
momentum and variance; all clip the gradient's norm and drop nothing.  PyTorch is the quickest of
  fp32      fp32 throughout, AdamW(fused=True)
  autocast  fp32 parameters, torch.autocast to bf16, AdamW(fused=True)
  bf16      bf16 parameters and gradients; AdamW(fused=True) on fp32 copies
--interval 1 recomputes each layer from its input, in PyTorch by torch.utils.checkpoint.  --isa
holds both to an instruction set: PyTorch by ATEN_CPU_CAPABILITY, and the libraries that it calls.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import namedtuple

# For PyTorch: huge pages, and memory that is kept from step to step (a tenth quicker).
PEER = {"THP_MEM_ALLOC_ENABLE": "1", "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
        "MALLOC_TRIM_THRESHOLD_": str(16 << 30), "MALLOC_TOP_PAD_": str(512 << 20)}
# What holds PyTorch to AVX2: itself, oneDNN and MKL.
ISA = {"avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2",
                "MKL_ENABLE_INSTRUCTIONS": "AVX2", "MEMWALL_ISA": "avx2"}}
if __name__ == "__main__" and not PEER.keys() <= os.environ.keys():
    forced = ISA[sys.argv[sys.argv.index("--isa") + 1]] if "--isa" in sys.argv else {}
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **PEER, **forced})

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
Shape = namedtuple("Shape", "vocab hidden heads layers ffn model", defaults=(None, "gpt2"))
GPT2 = Shape(50257, 768, 12, 12, 3072, "gpt2")
LLAMA = Shape(32000, 768, 12, 12, 2048, os.path.join(FIXTURES, "llama-134m", "config.json"))
SHAPES = {"gpt2": GPT2, "llama": LLAMA}


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.projection = nn.Linear(hidden, hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        shape = (x.shape[0], x.shape[1], self.heads, x.shape[2] // self.heads)
        q, k, v = (t.view(shape).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(x.shape[2], dim=2))
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(o.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


def turned(x, cosine, sine):
    """Rotary embedding: the two halves of a head are a pair."""
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), dim=-1)


class LlamaLayer(nn.Module):
    def __init__(self, shape, seq):
        super().__init__()
        hidden, self.heads = shape.hidden, shape.heads
        self.norm1, self.norm2 = nn.RMSNorm(hidden, 1e-5), nn.RMSNorm(hidden, 1e-5)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.projection = nn.Linear(hidden, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, hidden, bias=False)
        half = hidden // shape.heads // 2
        angles = torch.outer(torch.arange(seq), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, x):
        shape = (x.shape[0], x.shape[1], self.heads, x.shape[2] // self.heads)
        q, k, v = (t.view(shape).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(x.shape[2], dim=2))
        cosine, sine = self.cosine.to(q.dtype), self.sine.to(q.dtype)
        q, k = turned(q, cosine, sine), turned(k, cosine, sine)
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(o.transpose(1, 2).reshape(x.shape))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, shape, seq, recompute):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(LlamaLayer(shape, seq) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, 1e-5)
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)
        self.recompute = recompute
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


class Decoder(nn.Module):
    def __init__(self, shape, seq, recompute):
        super().__init__()
        hidden = shape.hidden
        self.embedding = nn.Embedding(shape.vocab, hidden)
        self.positions = nn.Parameter(torch.empty(seq, hidden))
        self.layers = nn.ModuleList(Layer(hidden, shape.heads) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(hidden)
        self.recompute = recompute
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.embedding(ids) + self.positions
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return self.loss(x, targets)

    def loss(self, x, targets):
        logits = functional.linear(self.norm(x), self.embedding.weight)
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


class Peer:
    """`half`: bf16 parameters with fp32 copies; else fp32 parameters, under autocast or not."""

    def __init__(self, options, half, shape=GPT2, device="cpu", autocast=True):
        torch.manual_seed(1)
        self.half, self.device, self.autocast = half, device, autocast and not half
        with torch.device(device):
            kind = Decoder if shape is GPT2 or shape.model == "gpt2" else Llama
            self.model = kind(shape, options.seq, options.interval > 0)
        self.copies = [p.detach().clone() for p in self.model.parameters()] if half else []
        if half:
            self.model.to(torch.bfloat16)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.copies or self.parameters, lr=1e-4,
                                           betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        if options.compile == "layers":  # in seconds, where a whole of many layers takes minutes
            for layer in self.model.layers:
                layer.compile()
            self.model.loss = torch.compile(self.model.loss)
        elif options.compile:
            self.model = torch.compile(self.model)
        self.ids = torch.randint(shape.vocab, (options.sequences, options.seq), device=device)

    @torch.no_grad()
    def update(self):
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        if self.half:
            for copy, parameter in zip(self.copies, self.parameters):
                copy.grad = parameter.grad.float()
        self.optimizer.step()
        if self.half:
            torch._foreach_copy_(self.parameters, self.copies)

    def step(self):
        begin = time.perf_counter()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast):
            loss = self.model(self.ids, self.ids)
        loss.backward()
        self.update()
        for parameter in self.parameters:
            parameter.grad = None
        loss.item()
        return time.perf_counter() - begin


class Own:
    def __init__(self, options):
        self.process = subprocess.Popen(
            [options.bench, "--serve", "--sequences", str(options.sequences), "--seq",
             str(options.seq), "--interval", str(options.interval), "--model",
             SHAPES[options.model].model],
            env={name: value for name, value in os.environ.items() if name not in PEER},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rows = []

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, *rows = self.process.stdout.readline().split()
        self.rows.append({name: float(ms) for name, ms in (row.split("=") for row in rows)})
        return float(seconds)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def print_rows(rows, step_s):
    for name in rows[0]:
        ms = statistics.median(row[name] for row in rows)
        print(f"  {name:22} {ms:9.2f} ms  {ms / step_s / 10:5.1f}%")


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("--sequences", type=int, default=2)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--interval", type=int, default=0, choices=(0, 1))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--model", default="gpt2", choices=SHAPES)
    parser.add_argument("--isa", choices=ISA)
    parser.add_argument("--peers", default="fp32,autocast,bf16")
    return parser.parse_args()


def main():
    options = read_options()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    own = Own(options)
    own.step()
    shape = SHAPES[options.model]
    peers = {name: Peer(options, name == "bf16", shape, autocast=name == "autocast")
             for name in options.peers.split(",")}
    for peer in peers.values():
        peer.step()
    times = {"memwall": [], **{name: [] for name in peers}}
    for _ in range(options.rounds):
        times["memwall"].append(own.step())
        for name, peer in peers.items():
            times[name].append(peer.step())
    own.close()
    tokens = options.sequences * options.seq
    print(f"{options.model}, {options.isa or 'own instruction set'}, torch {torch.__version__} "
          f"({torch.backends.cpu.get_cpu_capability()}){', compiled' if options.compile else ''}, "
          f"{torch.get_num_threads()} threads, {options.sequences} x {options.seq} tokens, "
          f"interval {options.interval}, {options.rounds} rounds in turn, medians (least to most)")
    medians = {name: statistics.median(column) for name, column in times.items()}
    for name, column in times.items():
        print(f"{name:10} {medians[name]:7.3f} s ({min(column):.3f} to {max(column):.3f})  "
              f"{tokens / medians[name]:7.1f} tokens/s")
    best = min(peers, key=medians.get)
    print(f"memwall's tokens/s over PyTorch's ({best}): {medians[best] / medians['memwall']:.3f}")
    print_rows(own.rows[1:], medians["memwall"])


if __name__ == "__main__":
    main()
