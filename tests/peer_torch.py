#!/usr/bin/python3
"""Times PyTorch's fused CPU AdamW beside this project's, in turn, on the same threads.

    PYTHON-WITH-TORCH tests/peer_torch.py build/tests/bench_kernels [PARAMETERS [ROUNDS]]

PyTorch is no dependency: run this with a Python that has it.  Two figures of PyTorch's stand beside
ours, which reads bf16 gradients and writes bf16 parameters along:
  step  torch.optim.AdamW(fused=True) alone, on fp32 parameters and fp32 gradients
  whole the same with what mixed precision adds: the gradient from bf16, the parameter to bf16
"""
import os
import statistics
import subprocess
import sys
import time

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # huge pages for PyTorch too
import torch  # noqa: E402


def ours(bench, parameters):
    return float(subprocess.check_output([bench, "--adamw", str(parameters)], text=True))


class Peer:
    def __init__(self, parameters):
        self.master = torch.nn.Parameter(torch.linspace(0, 1, parameters))
        self.master.grad = torch.full_like(self.master, 1e-3)
        self.half_grad = self.master.grad.to(torch.bfloat16)
        self.half = self.master.detach().to(torch.bfloat16)
        self.optimizer = torch.optim.AdamW([self.master], lr=1e-3, weight_decay=0.01, fused=True)
        self.whole()

    def step(self):
        self.optimizer.step()

    def whole(self):
        self.master.grad.copy_(self.half_grad)
        self.optimizer.step()
        self.half.copy_(self.master.detach())


def median_s(call, times):
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def main():
    bench = sys.argv[1]
    parameters = int(sys.argv[2]) if len(sys.argv) > 2 else 60_000_000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    peer = Peer(parameters)
    rows = []
    for _ in range(rounds):
        rows.append((ours(bench, parameters), median_s(peer.step, 7), median_s(peer.whole, 7)))
    own, step, whole = (statistics.median(column) for column in zip(*rows))
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, "
          f"{parameters} parameters, {rounds} rounds in turn, medians")
    for name, seconds in (("ours", own), ("torch step", step), ("torch whole", whole)):
        print(f"{name:12} {1e3 * seconds:8.2f} ms  {28 * parameters / seconds / 1e9:6.2f} GB/s "
              f"at 28 B a parameter  ours is {seconds / own:.2f} times as fast")


if __name__ == "__main__":
    main()
