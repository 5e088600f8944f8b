#!/usr/bin/python3
"""What cross_entropy of PyTorch keeps alive per logit at most, forward and in all; and how fast a
core makes parameters.

    python3 rates/loss_bytes.py [--making] >rates/loss_bytes.csv

Needs PyTorch; its CPU build will do, as its kernels allocate what the GPU's do.
"""
import argparse
import statistics
import time
import weakref

import torch
from torch.nn import functional
from torch.utils import _python_dispatch

TOKENS, VOCABULARY, HIDDEN = 512, 20000, 64


class Alive(_python_dispatch.TorchDispatchMode):
    """Counts the bytes of all storages that operators have returned and that are not freed."""

    def __init__(self):
        super().__init__()
        self.known, self.now, self.most = set(), 0, 0

    def add(self, tensor):
        storage = tensor.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
        if key in self.known:
            return
        self.known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self.remove, key, size)

    def remove(self, key, size):
        self.known.discard(key)
        self.now -= size

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.add(tensor)
        return result


def freed(logits, labels, _):
    return functional.cross_entropy(logits.pop().float(), labels)


def kept(logits, labels, outputs):
    outputs.append(logits[0])
    return functional.cross_entropy(logits.pop().float(), labels)


def kept_in_fp32_and_shifted(logits, labels, outputs):
    wide = logits.pop().float()
    outputs.append(wide)
    return functional.cross_entropy(wide[:-1].contiguous(), labels[:-1])


def bytes_per_logit(loss):
    inputs = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(VOCABULARY, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    labels, outputs = torch.randint(VOCABULARY, (TOKENS,)), []
    with Alive() as alive:
        value = loss([inputs @ weight.t()], labels, outputs)
        forward = alive.most - weight.numel() * 2  # which the product takes transposed
        value.backward()
    gradients = inputs.numel() * 2 + weight.numel() * 2  # of the product, not of the loss
    return forward / (TOKENS * VOCABULARY), (alive.most - gradients) / (TOKENS * VOCABULARY)


def params_per_s(make):
    values = torch.empty(50_000_000)
    took = []
    for _ in range(6):
        begin = time.perf_counter()
        getattr(values, make)()
        took.append(time.perf_counter() - begin)
    return values.numel() / statistics.median(took[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--making", action="store_true", help="rates of making parameters instead")
    if parser.parse_args().making:
        print("threads,call,params_per_s,version")
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for make in ("normal_", "uniform_"):
                print(f"{threads},{make},{params_per_s(make):.3g},{torch.__version__}")
        return
    print("loss,forward,bytes_per_logit,version")
    for loss in (freed, kept, kept_in_fp32_and_shifted):
        forward, most = bytes_per_logit(loss)
        print(f"logits {loss.__name__.replace('_', ' ')},{forward:.2f},{most:.2f},"
              f"{torch.__version__}")


if __name__ == "__main__":
    main()
