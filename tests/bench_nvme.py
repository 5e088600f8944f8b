#!/usr/bin/env python3
"""memwall's NVMe tier against fio, in turns: bench_nvme.py BENCH_NVME [DIRECTORY] [ROUNDS].

Both move the same file of 1 GiB with libaio and O_DIRECT, at the same block size and depth, from
and to huge pages: memwall in requests of 256 MiB and of 16 MiB, fio as one stream of blocks.  A
ratio is of two runs one after the other; who begins changes from round to round.  The bar is
0.95."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time

MIB = 1 << 20
BLOCK_KIB, DEPTH, SIZE_MIB = 1024, 32, 1024
REQUESTS_MIB = (256, 16)
BAR = 0.95


class Tier:
    def __init__(self, program, directory):
        self.process = subprocess.Popen(
            [program, "--serve", "--directory", directory, "--mib", str(SIZE_MIB), "--block-kib",
             str(BLOCK_KIB), "--depth", str(DEPTH)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.path, _, self.what = self.process.stdout.readline().strip().partition(" ")
        if not self.path:
            sys.exit("bench_nvme.py: no answer from bench_nvme")

    def measure(self, direction, request_mib):
        self.process.stdin.write(f"{direction} {request_mib * MIB}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def huge_kib(pid):
    """Of a process, as far as it can be seen."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file
                       if line.startswith(("AnonHugePages", "Private_Hugetlb")))
    except (OSError, ValueError):
        return 0


class Fio:
    def __init__(self, path):
        self.path = path
        self.huge_kib = 0

    def watch(self, pid, stop):
        while not stop.wait(0.05):
            self.huge_kib = max(self.huge_kib, huge_kib(pid))

    def measure(self, direction):
        # fio's own huge-page memory needs pages set aside by root; malloc can be told to use
        # transparent ones.
        environment = dict(os.environ, GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
        process = subprocess.Popen(
            ["fio", "--name=bench", f"--filename={self.path}", f"--rw={direction}",
             f"--bs={BLOCK_KIB}k", f"--size={SIZE_MIB}m", "--ioengine=libaio", "--direct=1",
             f"--iodepth={DEPTH}", "--iomem=malloc", "--thread", "--gtod_reduce=1",
             "--overwrite=1", "--output-format=json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        stop = threading.Event()
        watcher = threading.Thread(target=self.watch, args=(process.pid, stop))
        watcher.start()
        output = process.communicate()[0]
        stop.set()
        watcher.join()
        if process.returncode:
            sys.exit(f"bench_nvme.py: fio: exit status {process.returncode}")
        return json.loads(output)["jobs"][0][direction]["bw_bytes"]


def one_round(tier, fio, direction, fio_first):
    """Rates of memwall by request size, each with a fio run beside it."""
    pairs = {}
    for request_mib in REQUESTS_MIB:
        if fio_first:
            beside = fio.measure(direction)
        ours = tier.measure(direction, request_mib)
        if not fio_first:
            beside = fio.measure(direction)
        pairs[request_mib] = (ours, beside)
    return pairs


def show(direction, request_mib, pairs):
    ratios = sorted(ours / beside for ours, beside in pairs)
    ours, beside = (statistics.median(column) for column in zip(*pairs))
    quartiles = statistics.quantiles(ratios, n=4)
    print(f"{direction:5} {request_mib:3} MiB  memwall {ours / 1e9:.2f} GB/s  fio "
          f"{beside / 1e9:.2f} GB/s  ratio median {statistics.median(ratios):.3f}, quartiles "
          f"{quartiles[0]:.3f} to {quartiles[2]:.3f}, all {ratios[0]:.3f} to {ratios[-1]:.3f}"
          f"{'' if statistics.median(ratios) >= BAR else '  BELOW THE BAR'}")


def main():
    if not shutil.which("fio"):
        print("bench_nvme.py: fio is not installed")
        sys.exit(77)
    program = sys.argv[1]
    directory = sys.argv[2] if len(sys.argv) > 2 else os.path.dirname(program) or "."
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 11
    tier = Tier(program, directory)
    fio = Fio(tier.path)
    rows = {}
    for number in range(rounds):
        for direction in ("write", "read"):
            pairs = one_round(tier, fio, direction, number % 2 == 0)
            for request_mib, pair in pairs.items():
                rows.setdefault((direction, request_mib), []).append(pair)
    tier.close()
    print(f"blocks of {BLOCK_KIB} KiB, depth {DEPTH}, {SIZE_MIB} MiB a run, {rounds} rounds; "
          f"memwall: {tier.what}; fio: {fio.huge_kib // 1024} MiB on huge pages; load "
          f"{os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}")
    for (direction, request_mib), pairs in rows.items():
        show(direction, request_mib, pairs)


main()
