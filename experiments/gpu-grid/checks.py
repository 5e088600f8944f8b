"""The steps of scripts/gpu before the grid.  Each is given the machine and yields rows; what it
raises becomes a row too."""
import concurrent.futures
import configparser
import hashlib
import json
import operator
import os
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import common  # noqa: E402
import grid  # noqa: E402
import programs  # noqa: E402
from machine import (FAILED, MET, SKIPPED, TOLD, Row, Skipped, TimeUp,  # noqa: E402
                     free_gib, judged, last_line)

SMALL = common.ROOT / "tests" / "fixtures" / "gpt2-small" / "config.json"
TEXT_MODEL = common.ROOT / "models" / "gpt-text" / "config.json"
# Of each step's loss, as tests/cuda/test_training_gpu.c has it: both round to bf16, sums in other
# orders.
LOSS_BAR, LOSS_STEPS = 0.01, 20
PRODUCTS_BAR, COPIES_BAR = 0.95, 0.9


# --- tests ---------------------------------------------------------------------------------------

# What a test takes of a GPU at most, its context and a sanitizer's books with it: two rows of
# test_cuda_far.c lie 2^31 halves apart.
A_PROGRAM_GIB = 10


def at_once(machine):
    """Programs: as many as cores and the free memory of a GPU have room for."""
    most = max(2, min(12, (os.cpu_count() or 1) // 2))
    if machine.rehearse:
        return most
    try:
        return max(1, min(most, int(free_gib() / A_PROGRAM_GIB)))
    except (Skipped, ValueError):  # a driver that does not say
        return 1


def run_test(machine, test):
    """A line of meson's testlog.json, without meson: it may not be here."""
    python = [sys.executable] if test["cmd"][0].endswith(".py") else []
    try:
        status, out, said = machine.run(*python, *test["cmd"], spare_s=3,
                                        statuses=range(-64, 256),
                                        environment={**machine.environment, **machine.ours,
                                                     **test["env"]})
    except TimeUp as why:
        return {"name": test["name"], "result": "TIMEOUT", "stdout": "", "why": str(why)}
    skipped = status == 77 and test["protocol"] == "exitcode"
    good = not status and not re.search("^(not ok|Bail out)", out, re.MULTILINE)
    if not good and not skipped:
        machine.tell(test["name"], test["cmd"], out + said)
    return {"name": test["name"], "result": "OK" if good else "SKIP" if skipped else "FAIL",
            "stdout": out if test["protocol"] == "tap" else ""}


def counted(machine, results):
    """What scripts/count-tests says of them."""
    folder = machine.folder / "meson-logs"
    folder.mkdir(exist_ok=True)
    common.write_text(folder / "testlog.json", "\n".join(map(json.dumps, results)))
    return machine.run(sys.executable, "scripts/count-tests", machine.folder, statuses=(0, 1))[1]


def device_tests(machine):
    tests = list(programs.tests_of(machine))
    if not tests:
        raise Skipped(f"{machine.build.name} has no tests of GPUs: it was built without CUDA")
    with concurrent.futures.ThreadPoolExecutor(max_workers=at_once(machine)) as pool:
        results = list(pool.map(lambda test: run_test(machine, test), tests))
    ended = [result["name"] for result in results if result["result"] == "TIMEOUT"]
    counts = counted(machine, [r for r in results if r["result"] != "TIMEOUT"])
    for line in counts.splitlines():
        if line.startswith("failed: "):
            yield Row("device tests", line[len("failed: "):].replace(f"{machine.folder}: ", ""), "",
                      FAILED)
    passed, failed, skipped = map(int, re.findall(r"\d+", last_line(counts)))
    yield Row("device tests", last_line(counts) +
              (f"; had no time: {' '.join(ended)}" if ended else ""), "none failed",
              FAILED if failed else MET if passed > skipped and not ended else SKIPPED)


# --- compute-sanitizer ---------------------------------------------------------------------------

TOOLS = ("memcheck", "racecheck", "initcheck")
UNTESTED = ("did not end in its time", "skips what it tests")
FINDINGS = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")


def sanitized_programs(machine):
    if machine.rehearse:
        return [(machine.build / "tests" / "bench_kernels", ["--smoke"])]
    return [(machine.build / test["program"], []) for test in programs.tests_of(machine)
            if test["name"].startswith(("kernels", "cuda_"))]


def sanitize(machine, tool, program, words):
    """None, or what is wrong."""
    try:
        status, out, said = machine.run("compute-sanitizer", "--tool", tool, program, *words,
                                        statuses=range(-64, 256))
    except TimeUp:
        return UNTESTED[0]
    found = FINDINGS.search(out + said)
    if "# SKIP" in out:
        return UNTESTED[1]
    if not found:
        return f"no summary: {last_line(out + said)}"
    count = int(found[1] or found[2] or 0)
    if count or status:
        return f"{count} found" if count else f"status {status}: {last_line(out + said)}"
    return None


def sanitizers(machine):
    """Several at once: nothing is timed."""
    sanitized = sanitized_programs(machine)
    if not sanitized:
        raise Skipped("no tests of kernels were built")
    machine.run("compute-sanitizer", "--version")
    with concurrent.futures.ThreadPoolExecutor(max_workers=at_once(machine)) as pool:
        jobs = {(tool, program): pool.submit(sanitize, machine, tool, program, words)
                for tool in TOOLS for program, words in sanitized}
    for tool in TOOLS:
        wrong = {program.name: jobs[tool, program].result() for program, _ in sanitized}
        bad = [f"{name}: {what}" for name, what in wrong.items() if what]
        untested = bad and all(what is None or what in UNTESTED for what in wrong.values())
        yield Row(f"sanitizer, {tool}", "; ".join(bad) or f"{len(sanitized)} programs, no finding",
                  "no finding", SKIPPED if untested else FAILED if bad else MET)


# --- arithmetic ----------------------------------------------------------------------------------

# Bits are compared where all of this is the same.
TRAIN = ["-H", "rtx4090", "--set", "gpu.memory_gib=4", "--gpus", "1", "--batch", "2", "--tiles",
         "1", "--logits-chunks", "1", "--lr", "1e-3", "--data", str(grid.TEXT)]
RECOMPUTED = ["--activation-checkpoint-interval", "1"]


def all_at_once(machine, function, cases):
    """{case: what the function gives, or raised}: nothing is timed, and a start takes seconds."""
    most = at_once(machine)
    machine.ours.update(OMP_NUM_THREADS=str(max(1, (os.cpu_count() or 1) // most)),
                        OMP_WAIT_POLICY="passive")

    def attempt(case):
        try:
            return function(machine, *case)
        except (TimeUp, Skipped, common.Failed) as why:
            return why

    with concurrent.futures.ThreadPoolExecutor(max_workers=most) as pool:
        found = dict(zip(cases, pool.map(attempt, cases)))
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        del machine.ours[name]
    if all(isinstance(why, Exception) for why in found.values()):
        raise next(iter(found.values()))
    return found


def train(machine, backend, name, *words):
    """`name`: of its folder on the drive."""
    model, seq = (SMALL, 24) if machine.rehearse else (TEXT_MODEL, 128)
    drive = machine.drive / name
    drive.mkdir(exist_ok=True)
    try:
        return machine.memwall("run", "-m", model, "--seq", seq, *TRAIN, "--backend", backend,
                               "--nvme", drive, "--commit", "none", *words)
    finally:
        shutil.rmtree(drive, ignore_errors=True)


def losses_of(machine, backend, name, steps, words):
    """Lines of the log: as many steps as there was time for."""
    log = machine.folder / f"losses-{name}-{backend}.jsonl"
    log.unlink(missing_ok=True)
    try:
        train(machine, backend, f"losses-{name}-{backend}", "--steps", steps, "--log", log, *words)
    except TimeUp:
        if not log.exists():
            raise
    text = log.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines(True) if line.endswith("\n")]


def column(rows, key):
    return [row[key] for row in rows]


def off_by(got, expected):
    """Of each step's loss, at most."""
    return max(abs(a / b - 1) for a, b in zip(column(got, "loss"), column(expected, "loss")))


def beside_cores(machine, steps, courses):
    """{name: logs of the backend and of the cpu backend} of {name: words}."""
    cases = [(backend, name, steps, tuple(words)) for name, words in courses.items()
             for backend in dict.fromkeys((machine.backend, "cpu"))]
    found = all_at_once(machine, losses_of, cases)
    return {name: [found[backend, name, steps, tuple(words)]
                   for backend in (machine.backend, "cpu")] for name, words in courses.items()}


TYPES = {"bf16": [], "fp16": ["--dtype", "fp16", "--loss-scale", "dynamic"]}


def losses_row(dtype, got, expected):
    """Of log lines; a step that one backend skips, as gradients overflowed, both must skip."""
    for log in (got, expected):
        if isinstance(log, Exception):
            return Row(f"losses in {dtype}, {LOSS_STEPS} steps", str(log), "",
                       FAILED if isinstance(log, common.Failed) else SKIPPED)
    own, off = column(got, "loss"), off_by(got, expected)
    skipped = column(got, "skipped"), column(expected, "skipped")
    figure = f"{own[0]:.3f} to {own[-1]:.3f}, off {100 * off:.3f}%"
    if dtype == "fp16":
        figure += ", skipped {} and {}".format(*map(sum, skipped))
    row = judged(f"losses in {dtype}, {LOSS_STEPS} steps", figure,
                 f"cpu backend's, {100 * LOSS_BAR:.0f}%",
                 off <= LOSS_BAR and all(map(operator.eq, *skipped)) and own[-1] < own[0])
    if min(len(got), len(expected)) == LOSS_STEPS:
        return row
    short = f"{figure}; had time for {len(got)}, {len(expected)} of the cpu backend"
    return row._replace(figure=short, verdict=SKIPPED)


def losses(machine):
    courses = {name: ["-s", "zero3", *RECOMPUTED, *words] for name, words in TYPES.items()}
    for dtype, logs in beside_cores(machine, LOSS_STEPS, courses).items():
        yield losses_row(dtype, *logs)


# Memory savers: other optimizers, frozen weights and activations in few bits, offload strategies.
VARIANT_STEPS = 8
RESIDENT = ["-s", "zero3", *RECOMPUTED]
VARIANTS = {
    "sgd": [*RESIDENT, "--optimizer", "sgd"],
    "sgd-momentum": [*RESIDENT, "--optimizer", "sgd-momentum"],
    # Of each element the sign counts: at a higher rate bf16 is 4% off fp32, on the same cores.
    "lion": [*RESIDENT, "--optimizer", "lion", "--lr", "1e-4"],
    "adamw-16bit": [*RESIDENT, "--optimizer", "adamw-16bit"],
    "adamw-8bit": [*RESIDENT, "--optimizer", "adamw-8bit"],
    "lora": [*RESIDENT, "--train", "lora:4"],
    "lora-8": [*RESIDENT, "--train", "lora:4", "--weight-bits", "8"],
    "lora-4": [*RESIDENT, "--train", "lora:4", "--weight-bits", "4"],
    "checkpoints-8": [*RESIDENT, "--checkpoint-bits", "8"],
    "kept-8": ["-s", "zero3", "--activation-checkpoint-interval", "0", "--kept-bits", "8"],
    "l2l": ["-s", "l2l", *RECOMPUTED],
    "geeps": ["-s", "geeps"],
    "streamed-update": ["-s", "streamed-update", *RECOMPUTED],
}


def variants(machine):
    """Losses of each beside those of the cpu backend; one line for all."""
    wrong, short, worst = [], [], (0, "")
    for name, logs in beside_cores(machine, VARIANT_STEPS, VARIANTS).items():
        faults = [str(log) for log in logs if isinstance(log, common.Failed)]
        if faults:
            wrong.append(f"{name}: {faults[0]}")
            continue
        if any(isinstance(log, Exception) or len(log) < VARIANT_STEPS for log in logs):
            short.append(name)
            continue
        off = off_by(*logs)
        worst = max(worst, (off, name))
        if not off <= LOSS_BAR:
            wrong.append(f"{name}: off {100 * off:.2f}%")
    words = [*wrong, *([f"had no time: {' '.join(short)}"] if short else [])]
    row = judged(f"losses of memory savers, {VARIANT_STEPS} steps",
                 "; ".join([f"of {len(VARIANTS)} at most {100 * worst[0]:.3f}% off "
                            f"({worst[1]})", *words]),
                 f"cpu backend's, {100 * LOSS_BAR:.0f}%", not wrong)
    yield row._replace(verdict=SKIPPED) if short and not wrong else row


def digest_of(machine, placement, depth):
    name = f"{placement}-{depth}"
    folder = machine.folder / "weights" / name
    folder.parent.mkdir(exist_ok=True)
    train(machine, machine.backend, name, *grid.PLACEMENTS[placement].split(), "--prefetch", depth,
          *RECOMPUTED, "--steps", "4", "--save", folder)
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def bits(machine):
    """Weights after some steps, the same in each placement and at each depth."""
    cases = [(name, "1") for name in grid.PLACEMENTS] + [("nvme", "0"), ("nvme", "3"), ("cpu", "0"),
                                                        ("cpu", "3")]
    found = all_at_once(machine, digest_of, cases)
    digests = {case: digest for case, digest in found.items()
               if not isinstance(digest, (Skipped, TimeUp))}
    first = next(digest for digest in digests.values() if isinstance(digest, str))
    others = [", prefetch ".join(case) + ("" if isinstance(digest, str) else f" ({digest})")
              for case, digest in digests.items() if digest != first]
    row = judged("same bits, 4 steps", f"differ: {'; '.join(others)}" if others else
                 f"{len(digests)} of {len(cases)} placements and depths alike", "all alike",
                 not others)
    yield row if others or len(digests) == len(cases) else row._replace(verdict=SKIPPED)


# --- what it does in a second --------------------------------------------------------------------

def typical(profile, key):
    """A figure of a profile that was written: of "low; typical; high" the middle one."""
    section, name = key.split(".")
    values = profile[section][name].split(";")
    return float(values[len(values) // 2])


def read_profile(path):
    if not path.exists():
        raise Skipped("nothing was calibrated")
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(path, encoding="utf-8")
    return parser


QUICK_S = 30  # kept back for a quick calibration, should the whole one fail: the grid needs one


def calibrate_as(machine, *words, spare_s=0):
    machine.run(machine.program, "calibrate", "--backend", machine.backend, "-o", machine.profile,
                "--nvme", machine.drive, *words, spare_s=spare_s)


def calibrate(machine):
    machine.profile.unlink(missing_ok=True)
    quick = machine.rehearse
    if not quick:
        try:
            calibrate_as(machine, spare_s=QUICK_S)
        except (common.Failed, TimeUp) as why:
            quick = True
            yield Row("calibrate", f"{why}; done again with --quick", "",
                      SKIPPED if isinstance(why, TimeUp) else FAILED)
    if quick:
        calibrate_as(machine, "--quick")
    profile = read_profile(machine.profile)
    yield Row("calibrate", ", ".join(
        f"{name} {typical(profile, key):.4g}" for name, key in
        (("TFLOP/s", "gpu.achievable_tflops"), ("h2d GB/s", "pcie.h2d_gb_per_s"),
         ("d2h", "pcie.d2h_gb_per_s"), ("drives' read", "nvme.read_gb_per_s"),
         ("write", "nvme.write_gb_per_s"))), "", MET)


BENCH = re.compile(r"^(products|h2d|d2h) (\S+)(?: of the best, (\S+))?", re.MULTILINE)


def library(machine):
    """Products beside cublasLt alone, copies beside plain ones of pinned memory."""
    smoke = ["--smoke"] if machine.rehearse else []
    program = programs.BENCH_FAKE if machine.rehearse else programs.BENCH
    _, text, _ = machine.run(machine.build / program, *smoke)
    (machine.folder / "bench.txt").write_text(text, encoding="utf-8")
    found = {name: float(value) for name, value, _ in BENCH.findall(text)}
    first = float(BENCH.search(text[text.index("\nproducts") + 1:])[3])
    yield judged("products / cublasLt alone", f"{found['products']:.3f} of the best of 8, "
                 f"{first:.3f} of its first choice", f"{PRODUCTS_BAR} or more",
                 found["products"] >= PRODUCTS_BAR)
    profile = read_profile(machine.profile)
    for way in ("h2d", "d2h"):
        own = typical(profile, f"pcie.{way}_gb_per_s")
        yield judged(f"{way} / plain copy", f"{own / found[way]:.3f} ({own:.1f} GB/s of "
                     f"{found[way]:.1f})", f"{COPIES_BAR} or more", own / found[way] >= COPIES_BAR)


SPEEDS = {"gpt2": 16, "gpt2-xl": 8}  # model, sequences of 1024


def speed(machine):
    """Tokens per second, all in the GPU's memory; nothing is computed twice."""
    read_profile(machine.profile)
    for model, batch in {str(SMALL): 2}.items() if machine.rehearse else SPEEDS.items():
        seq = 24 if machine.rehearse else 1024
        name = pathlib.Path(model).parent.name or model
        try:
            answer = machine.memwall(
                "run", "-m", model, "-H", machine.profile, "--gpus", "1", "-s", "zero3", "--batch",
                batch, "--seq", seq, "--activation-checkpoint-interval", "0", "--steps", "12",
                "--commit", "none", "--backend", machine.backend, "--data", grid.TEXT)
        except (Skipped, common.Failed) as why:
            yield Row(f"tokens/s, {name}", str(why), "",
                      SKIPPED if isinstance(why, Skipped) else FAILED)
            continue
        own = answer["tokens_per_s"]
        yield Row(f"tokens/s, {name}", f"{own:.0f}, batch {batch}, MFU {100 * answer['mfu']:.1f}%",
                  "", TOLD)
        machine.speeds[model] = own


PEER = re.compile(r"^(eager|compiled) .* tokens/s (\S+)", re.MULTILINE)


def peer(machine):
    """PyTorch, where a Python here has it."""
    python = machine.torch_python()
    for model, batch in SPEEDS.items():
        if model not in machine.speeds:
            continue
        try:
            _, text, _ = machine.run(python, "tests/peer_torch_gpu.py", model, "--sequences",
                                     batch, environment=machine.environment)
        except common.Failed as why:
            yield Row(f"tokens/s of PyTorch, {model}", str(why), "", SKIPPED)
            continue
        theirs = {name: float(value) for name, value in PEER.findall(text)}
        yield Row(f"tokens/s / PyTorch, {model}",
                  f"{machine.speeds[model] / theirs['compiled']:.3f} (PyTorch "
                  f"{theirs['compiled']:.0f}, eager {theirs['eager']:.0f})", "bf16, compiled", TOLD)
