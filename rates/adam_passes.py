#!/usr/bin/python3
"""What the passes of an unfused Adam cost on a host: with temporaries, as PyTorch's single-tensor Adam
makes them, in place, and as copies of the same memory.

    python3 rates/adam_passes.py >rates/adam_passes.csv

Needs PyTorch.  Tensors are larger than what the allocator keeps, so temporaries get new pages.
"""
import math
import statistics
import time

import torch

ELEMENTS, TIMES = 60_000_000, 7
COPY_BYTES = 8  # of an element: read and written


class Step:
    def __init__(self):
        self.param, self.gradient, self.mean, self.square, self.other = (
            torch.randn(ELEMENTS).abs_() for _ in range(5))

    def moments(self):
        self.mean.mul_(0.9).add_(self.gradient, alpha=0.1)
        self.square.mul_(0.999).addcmul_(self.gradient, self.gradient, value=0.001)

    def temporaries(self):
        self.moments()
        divisor = (self.square.sqrt() / math.sqrt(0.5)).add_(1e-8)
        self.param.addcdiv_(self.mean, divisor, value=-1e-3)

    def in_place(self):
        self.moments()
        torch.sqrt(self.square, out=self.other)
        self.other.div_(math.sqrt(0.5)).add_(1e-8)
        self.param.addcdiv_(self.mean, self.other, value=-1e-3)

    def copy(self):
        self.other.copy_(self.gradient)


def main():
    step = Step()
    print("threads,what,ns_per_element,bytes_at_the_copy's_rate,version")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        took = {"temporaries": [], "in_place": [], "copy": []}
        for _ in range(TIMES):
            for what, times in took.items():
                begin = time.perf_counter()
                getattr(step, what)()
                times.append((time.perf_counter() - begin) / ELEMENTS)
        median = {what: statistics.median(times[1:]) for what, times in took.items()}
        for what, seconds in median.items():
            print(f"{threads},{what.replace('_', ' ')},{seconds * 1e9:.2f},"
                  f"{COPY_BYTES * seconds / median['copy']:.0f},{torch.__version__}")


if __name__ == "__main__":
    main()
