#!/usr/bin/python3
"""Tokens per second of PyTorch on a GPU: compiled training steps of a GPT-2, as tests/bench_step.py
has them.

    PYTHON-WITH-TORCH tests/peer_torch_gpu.py gpt2|gpt2-xl [--sequences N] [--seq N] [--steps N]

PyTorch is no dependency: run this with a Python that has it.  Parameters and gradients are bf16,
AdamW(fused=True) works on fp32 copies; nothing is computed twice.  GPT-2 is compiled whole, GPT-2
XL layer by layer, as its 48 layers at once take a minute and more to compile; both are timed
uncompiled, too.  --device cpu --smoke: a tiny model on cores, to test this script.
"""
import argparse
import pathlib
import statistics
import sys
from types import SimpleNamespace

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bench_step  # noqa: E402
import torch  # noqa: E402

SHAPES = {"gpt2": bench_step.GPT2, "gpt2-xl": bench_step.Shape(50257, 1600, 25, 48)}
TINY = bench_step.Shape(501, 48, 4, 2)


def read_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=SHAPES)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--smoke", action="store_true")
    return parser.parse_args()


def time_of(options, shape, compiled):
    """Seconds of a step."""
    peer = bench_step.Peer(SimpleNamespace(seq=options.seq, sequences=options.sequences, interval=0,
                                           compile=compiled), True, shape, options.device)
    for _ in range(3):
        peer.step()
    return statistics.median(peer.step() for _ in range(options.steps))


def main():
    options = read_options()
    shape = TINY if options.smoke else SHAPES[options.model]
    how = False if options.smoke else "layers" if options.model == "gpt2-xl" else "whole"
    tokens = options.sequences * options.seq
    print(f"torch {torch.__version__}, {options.sequences} x {options.seq} tokens, medians of "
          f"{options.steps} steps")
    for name, compiled in (("eager", False), ("compiled", how)):
        seconds = time_of(options, shape, compiled)
        print(f"{name} {1e3 * seconds:.2f} ms, tokens/s {tokens / seconds:.1f}", flush=True)


if __name__ == "__main__":
    main()
