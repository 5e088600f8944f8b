#!/usr/bin/env python3
"""Wall time and peak memory of whole `memwall simulate` processes: bench_simulate.py MEMWALL.

GPT-3 175B on 1,024 GPUs at operator level; the bar is 50 ms and 100 MB."""
import os
import statistics
import subprocess
import sys
import time

RUNS = 21
COMMANDS = {
    "zero-infinity-nvme": ["-s", "zero-infinity-nvme"],
    "zero-infinity-nvme, batch 4, all state on NVMe": [
        "-s", "zero-infinity-nvme", "--batch", "4", "--param-device", "nvme",
        "--optimizer-device", "nvme"],
    "zero3, json": ["-s", "zero3", "--json"],
}


def measure(command):
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command}: exit status {status}")
    return (time.perf_counter() - begin) * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, \
        usage.ru_maxrss / 1e3


def main():
    base = [sys.argv[1], "simulate", "-m", "gpt3-175b", "-H", "dgx2", "--nodes", "64"]
    for name, options in COMMANDS.items():
        rows = [measure(base + options) for _ in range(RUNS)]
        wall, cpu, memory = (sorted(column) for column in zip(*rows))
        print(f"{name}: wall median {statistics.median(wall):.1f} ms ({wall[0]:.1f} to "
              f"{wall[-1]:.1f}), CPU median {statistics.median(cpu):.1f} ms, peak memory "
              f"{memory[-1]:.1f} MB")


main()
