#!/usr/bin/python3
"""`memwall calibrate --quick` where there is a GPU; prints TAP.

The GPU is one made of threads (fake.h), or with --gpu this machine's: skipped where there is none.
Every key that a plan or a simulation reads is there and positive, whatever was measured; what the
GPU does not do ends it with one line, and nothing is written.
"""
import configparser
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from check_calibrate import MEMWALL, check_done  # noqa: E402
from check_calibrate import Box as CoresBox  # noqa: E402
from check_run import TRAIN  # noqa: E402
from command import answer_of  # noqa: E402
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in  # noqa: E402

POSITIVE = {
    "gpu": ["memory_gib", "reserve_gib", "memory_gb_per_s", "operator_gb_per_s", "peak_tflops",
            "achievable_tflops", "launch_us", "matmul_tflops", "matmul_tflops_low",
            "matmul_tflops_high", "attention_tflops"],
    "pcie": ["h2d_gb_per_s", "d2h_gb_per_s", "node_h2d_gb_per_s", "node_d2h_gb_per_s",
             "latency_us"],
    "host": ["memory_gib", "memory_gb_per_s", "update_gparams_per_s"],
    "nvme": ["capacity_tb", "read_gb_per_s", "write_gb_per_s", "duplex", "queue_depth",
             "block_kib"],
}
SHARES = ["copy_sm_share", "nvme_sm_share", "host_sm_share", "collective_sm_share"]
SAID = ["matrix products of 128", "attention of", "copies: both at once", "GPU-direct storage: "]
THREADS = ["GPU-direct storage: libcufile.so.0 is not here", "made of threads"]


class Box(CoresBox):
    def __init__(self, folder):
        super().__init__(folder)
        del self.environment["CUDA_VISIBLE_DEVICES"]
        if "CUDA_VISIBLE_DEVICES" in os.environ:
            self.environment["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
        self.environment["OMP_WAIT_POLICY"] = "passive"

    def calibrate(self, *words, **more):
        return self.run("calibrate", "--quick", "--nvme", str(self.drive), *words, **more)

    def profile(self, name):
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(self.folder / name, encoding="utf-8")
        return parser


def real():
    return "--gpu" in sys.argv


def has_gpu(box):
    devices = json.loads(box.run("list", "devices", "--json").text)["devices"]
    return any(device["backend"] == "cuda" and "device" in device for device in devices)


def numbers(profile, group, key):
    return [float(number) for number in profile[group][key].split(";")]


def check_profile(box):
    done = box.calibrate("-o", "gpu.ini")
    yield from check_done(done)
    profile = box.profile("gpu.ini")
    for group, keys in POSITIVE.items():
        for key in keys:
            if not all(number > 0 for number in numbers(profile, group, key)):
                yield f"{group}.{key} is {profile[group][key]}"
    for key in SHARES:
        if not all(0 <= number <= 1 for number in numbers(profile, "gpu", key)):
            yield f"{key} is {profile['gpu'][key]}"
    for words in SAID if real() else SAID + THREADS:
        if words not in done.text:
            yield f"{words} is not in the table"
    if profile["profile"]["backend"] != "cuda" or "[fabric]" in profile:
        yield "is of another machine"
    if "both ways at once keep " not in profile["pcie"]["h2d_gb_per_s.source"]:
        yield profile["pcie"]["h2d_gb_per_s.source"]
    if list(box.drive.iterdir()):
        yield f"left behind: {list(box.drive.iterdir())}"


def check_peak(box):
    """A device whose name has that of a profile in it has its datasheet's peak; others the fastest
    product's."""
    source = box.profile("gpu.ini")["gpu"]["peak_tflops.source"]
    if not source.startswith("measured") or "fastest product" not in source:
        yield source
    known = box.folder / "config" / "memwall" / "hwprofiles" / "threads.ini"
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text("[profile]\ninherits = h200\n[gpu]\npeak_tflops = 1234\n", encoding="utf-8")
    yield from check_done(box.calibrate("-o", "known.ini"))
    known.unlink()
    profile = box.profile("known.ini")["gpu"]
    if float(profile["peak_tflops"]) != 1234 or \
            profile["peak_tflops.source"] != "datasheet: as of threads":
        yield f"{profile['peak_tflops']}, {profile['peak_tflops.source']}"


def check_room(box):
    """The driver's figure, and of it what is taken: cublasLt's workspace at least."""
    profile = box.profile("gpu.ini")
    memory, reserve = (numbers(profile, "gpu", key)[0] for key in ("memory_gib", "reserve_gib"))
    if memory != 0.25 or not 32 / 1024 <= reserve <= 0.06:
        yield f"{reserve} of {memory} GiB"


def check_plans(box):
    yield from check_done(box.run("list", "hwprofiles", "./gpu.ini"))
    done = box.run("simulate", "-m", "gpt2", "-H", "./gpu.ini", "--batch", "1", "--seq", "128",
                   "-s", "zero-infinity-cpu", "--json")
    yield from check_done(done)
    answer = answer_of(done.text)
    said = [line for line in done.said.splitlines() if "was measured while" not in line]
    if not answer["calibrated"] or not answer["step_time_s"] > 0 or said:
        yield f"calibrated {answer['calibrated']}, {answer['step_time_s']} s, said {said}"


def check_json(box):
    """Where there is no driver --backend auto measures cores."""
    done = box.calibrate("-o", "cores.ini", "--json", MEMWALL_TEST_DRIVER="0")
    yield from check_done(done)
    if json.loads(done.text)["backend"] != "cpu":
        yield "is not of cores"
    if box.profile("cores.ini")["profile"]["backend"] != "cpu":
        yield "says it is not of cores"


def check_old_driver(box):
    """`list devices` names the driver's version that this build needs."""
    done = box.run("list", "devices", "--json", MEMWALL_TEST_DRIVER="12020")
    why = [device.get("why", "") for device in json.loads(done.text)["devices"]
           if device["backend"] == "cuda"]
    if len(why) != 1 or not why[0].endswith("one for CUDA 13.0: version 580 or later"):
        yield f"says {why}"


def check_run(box):
    """On another device than the profile's."""
    (box.folder / "text.txt").write_text("to be or not to be " * 60, encoding="utf-8")
    for device, told in (("cpu", True), ("cuda", False)):
        done = box.run("run", *TRAIN, "-H", "./gpu.ini", "--backend", device)
        yield from check_done(done)
        if (f"measured with --backend cuda; this run computes with {device}" in done.said) != told:
            yield f"{device}: said {done.said}"


FAULTS = {
    "MEMWALL_TEST_DRIVER=12020":
        "is for CUDA 12.2, this build needs one for CUDA 13.0: version 580 or later",
    "MEMWALL_TEST_FAIL=cudaMemcpyAsync 300 700": "an illegal memory access was encountered",
}


def check_fault(box, what, words):
    name, value = what.split("=", 1)
    done = box.calibrate("-o", "lost.ini", "--backend", "cuda", **{name: value})
    last = done.said.strip().splitlines()[-1]
    if done.returncode != 1 or done.text:
        yield f"status {done.returncode}, standard output {done.text!r}"
    if words not in last or not last.startswith("memwall: GPU"):
        yield f"said {last!r}"
    for left in ((box.folder / "lost.ini"), *box.drive.iterdir()):
        if left.exists():
            yield f"left behind: {left}"


def check_ranks(box):
    """A GPU each, and what carries between them, by size and kind."""
    line = [*MPIRUN, "2", str(MEMWALL), "calibrate", "--quick", "--json", "-o", "ranks.ini",
            "--nvme", str(box.drive)]
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          cwd=box.folder, env={**box.environment, **RANKS_ENVIRONMENT,
                                               "MEMWALL_TEST_GPUS": "2", "OMP_NUM_THREADS": "1",
                                               "NCCL_ALGO": "Ring"})
    if done.returncode:
        yield f"status {done.returncode}: {done.stderr.decode()}"
        return
    answer = json.loads(done.stdout)
    if not answer["collectives_by"].endswith("algorithm Ring"):
        yield f"collectives are by {answer['collectives_by']}"
    rates = {(row["collective"], row["bytes"]): row["gb_per_s"] for row in answer["collectives"]}
    kinds = {kind for kind, _ in rates}
    if kinds != {"all-gather", "reduce-scatter", "all-reduce", "broadcast"} or len(rates) != 8 or \
            not all(rate > 0 for rate in rates.values()):
        yield f"collectives are {rates}"
    profile = box.profile("ranks.ini")
    if profile["profile"]["backend"] != "cuda" or profile["node"]["gpus"] != "2":
        yield "is not of two GPUs"
    for group, key in (("fabric", "gb_per_s"), ("fabric", "latency_us"),
                       ("pcie", "node_h2d_gb_per_s")):
        if not all(number > 0 for number in numbers(profile, group, key)):
            yield f"{group}.{key} is {profile[group][key]}"
    if not all(0 <= share <= 1 for share in numbers(profile, "gpu", "collective_sm_share")):
        yield f"collective_sm_share is {profile['gpu']['collective_sm_share']}"
    done = box.run("simulate", "-m", "gpt2", "-H", "./ranks.ini", "-s", "zero-infinity-cpu",
                   "--batch", "1", "--seq", "128", "--gpus", "2", "--json")
    yield from check_done(done)
    if not answer_of(done.text)["calibrated"]:
        yield "does not count as measured"


def check_wrong(box, name):
    done = box.calibrate("-o", "lost.ini", "--backend", name)
    if done.returncode != 2 or f"--backend {name}: " not in done.said:
        yield f"status {done.returncode}: {done.said}"


def tests(box):
    yield "profile", check_profile(box)
    if real():
        yield "plans", check_plans(box)
        return
    yield "room", check_room(box)
    yield "peak", check_peak(box)
    yield "plans", check_plans(box)
    yield "json", check_json(box)
    yield "old driver", check_old_driver(box)
    yield "another backend", check_run(box)
    if has_ranks():
        yield "ranks", check_ranks(box)
    for what, words in FAULTS.items():
        yield what, check_fault(box, what, words)
    for name in ("null", "tpu"):
        yield f"wrong: {name}", check_wrong(box, name)


def main():
    with tempfile.TemporaryDirectory() as folder:
        if real() and not has_gpu(Box(folder)):
            print("1..0 # SKIP this machine has no GPU that the command can use")
            return False
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
