#!/usr/bin/python3
"""`memwall run` and `memwall compare` from outside; prints TAP.

trains       every strategy and placement: the log's lines, a falling loss, the same losses wherever
             state lives, the JSON, peaks within the plan's.
compares     table, JSON, trace, plot and the file of a run, which `memwall compare` reads.
wrong input  one line on standard error that names file or option, and the exit status.

No figure is compared with time.  The command is $MEMWALL, or build/cli/memwall.
"""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import select
import shutil
import struct
import subprocess
import sys
import tempfile

from command import FEW, SANITIZED, answer_of
from tap import report_in

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEMWALL = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve()
GPT2 = ROOT / "tests/fixtures/gpt2-small"
LLAMA = ROOT / "tests/fixtures/llama-small"
SMALL = ["-m", str(GPT2 / "config.json"), "-H", "rtx4090", "--set", "gpu.memory_gib=2",
         "--batch", "2", "--data", "text.txt"]
STEPS = 5
NOBODY = 1000000000  # a user without processes
TRAIN = [*SMALL, "--steps", str(STEPS), "--lr", "1e-2"]
NVME = ["-s", "zero-infinity-nvme", "--nvme", "drive"]
KEYS = ["feasible", "limiting_tier", "short_bytes", "step_time_s", "first_step_time_s",
        "tflops_per_gpu", "efficiency", "mfu", "tokens_per_s", "bottleneck", "peak_bytes", "lanes",
        "closed_form", "nvme_written_bytes", "drive_life_steps", "provenance", "predicted",
        "compare", "run"]

# The same weights come out of each.
PLACEMENTS = {
    "zero3": ["-s", "zero3"],
    "ddp": ["-s", "ddp"],
    "zero1": ["-s", "zero1"],
    "zero2": ["-s", "zero2"],
    "zero-offload": ["-s", "zero-offload"],
    "cpu": ["-s", "zero-infinity-cpu", "--param-device", "cpu", "--optimizer-device", "cpu",
            "--activation-device", "cpu"],
    "nvme": [*NVME, "--param-device", "nvme", "--optimizer-device", "nvme",
             "--activation-device", "nvme", "--commit", "none"],
    "nvme, each step durable": [*NVME, "--param-device", "cpu", "--optimizer-device", "nvme",
                                "--commit", "step"],
    "two drives": [*NVME, "--nvme", "second", "--optimizer-device", "nvme"],
    "split": [*NVME, "--optimizer-device", "gpu:0.2MB,cpu:0.1MB,nvme", "--param-device",
              "cpu:0.04MB,nvme"],
    "no prefetch": [*NVME, "--param-device", "nvme", "--prefetch", "0"],
    "prefetch of 3": [*NVME, "--param-device", "nvme", "--prefetch", "3"],
}
# Other sums, or another course: they train too.
OTHERS = {
    "accumulation": ["-s", "zero3", "--grad-accum", "3"],
    "tiles": [*NVME, "--param-device", "cpu", "--tiles", "2"],
    "whole activations": ["-s", "zero3", "--activation-checkpoint-interval", "0"],
    "two loads": [*NVME, "--param-device", "cpu", "--param-loads", "2"],
    "delayed update": ["-s", "zero-offload", "--dpu-start", "2"],
    "cosine": ["-s", "zero3", "--lr-schedule", "cosine", "--warmup", "2"],
    "weights": ["-s", "zero3", "--weights", str(GPT2)],
}


class Box:
    """A folder of its own, with nothing of the user's."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for name in ("drive", "second"):
            (self.folder / name).mkdir()
        self.environment = dict(os.environ, LC_ALL="C.UTF-8", HOME=str(self.folder),
                                CUDA_VISIBLE_DEVICES="",  # all runs are on cores
                                XDG_CONFIG_HOME=str(self.folder / "config"),
                                XDG_CACHE_HOME=str(self.folder / "cache"),
                                XDG_STATE_HOME=str(self.folder / "state"),
                                OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive")
        self.environment.pop("MEMWALL_NVME", None)
        self.write("text.txt", ("the quick brown fox jumps over the lazy dog. " * 60).encode())

    def on_drives(self):
        return [*(self.folder / "drive").iterdir(), *(self.folder / "second").iterdir()]

    def empty_drives(self):
        for path in self.on_drives():
            path.unlink()

    def write(self, name, content):
        (self.folder / name).write_bytes(content)

    def read(self, name):
        return (self.folder / name).read_text(encoding="utf-8")

    def give_to(self, user):
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, user, -1, follow_symlinks=False)

    def run(self, *words, verb="run", limits=None, prefix=(), environment=None):
        """`limits`: of resource.setrlimit, soft and hard; that on processes does not hold root."""
        def limit():
            for what, most in (limits or {}).items():
                resource.setrlimit(what, (most, most))
            if resource.RLIMIT_NPROC in (limits or {}) and os.geteuid() == 0:
                os.setuid(NOBODY)
        done = subprocess.run([*prefix, str(MEMWALL), verb, *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False,
                              cwd=self.folder, env=environment or self.environment, timeout=300,
                              preexec_fn=limit if limits else None)
        done.text, done.said = done.stdout.decode(), done.stderr.decode()
        return done


def good(done):
    if done.returncode:
        yield f"status {done.returncode}: {done.said}"


# --- trains --------------------------------------------------------------------------------------

def losses(box, log="log.jsonl"):
    return [json.loads(line)["loss"] for line in box.read(log).splitlines()]


def check_falls(values):
    if len(values) != STEPS:
        yield f"{len(values)} lines in the log, not {STEPS}"
    elif not values[-1] < values[0] - 0.05:
        yield f"the loss does not fall: {values}"


def check_json(answer):
    for key in KEYS:
        if key not in answer:
            yield f"no {key}"
            return
    for tier in ("gpu", "cpu", "nvme"):
        stripes = 2 << 20 if tier == "nvme" and answer["peak_bytes"][tier] else 0
        if answer["peak_bytes"][tier] > answer["predicted"]["peak_bytes"][tier] + stripes:
            yield f"{tier}: {answer['peak_bytes'][tier]} bytes, over the plan's"
    facts, compare = answer["run"], answer["compare"]
    if facts["steps"] != STEPS or not facts["last_loss"] < facts["first_loss"]:
        yield f"run is {facts}"
    if not answer["step_time_s"] > 0 or answer["step_time_s"] != compare["step"]["measured_s"] or \
            answer["predicted"]["step_time_s"] != compare["step"]["predicted_s"]:
        yield f"step time {answer['step_time_s']}, compare says {compare['step']}"
    if not compare["fastest_s"] <= answer["step_time_s"] <= compare["slowest_s"]:
        yield "the median step is not between the fastest and the slowest"
    if not sum(lane["ops"] for lane in compare["lanes"]) == \
            sum(row["ops"] for row in compare["operators"]):
        yield "lanes and operators do not have the same ops"


def check_trains(box, words, expected):
    """`expected`: losses of another placement, filled in where there are none."""
    box.empty_drives()
    done = box.run(*TRAIN, *words, "--json", "--log", "log.jsonl")
    yield from good(done)
    if done.returncode:
        return
    if ("has no checksums" in done.said) != ("--weights" in words) or done.said.count("\n") > 1:
        yield f"said {done.said!r}"
    answer = answer_of(done.text)
    yield from check_falls(losses(box))
    yield from check_json(answer)
    expected.extend(losses(box) if not expected else [])
    if losses(box) != expected:
        yield f"losses {losses(box)}, not {expected}"
    if bool(box.on_drives()) != (answer["settings"]["commit"] == "step"):
        yield f"on drives: {box.on_drives()}"


HALF = 2
DURABLE = {
    "on drives": [*NVME, "--param-device", "nvme", "--optimizer-device", "nvme", "--commit",
                  "step"],
    "in memory": ["-s", "zero-offload", "--nvme", "drive", "--save-every", str(HALF)],
    "delayed, on drives": ["-s", "zero-offload", "--nvme", "drive", "--optimizer-device", "nvme",
                           "--gradient-device", "nvme", "--dpu-start", "1"],
    "delayed, in memory": ["-s", "zero-offload", "--nvme", "drive", "--save-every", str(HALF),
                           "--dpu-start", "1"],
}


LOGS = ("whole.jsonl", "first.jsonl", "second.jsonl")


def two_halves(box, first, second):
    """Losses of a run in one go, and of one in two halves, the second begun with these words."""
    # Of a run whose files are gone the log is kept, as that of one whose drive is away.
    for log in LOGS:
        (box.folder / log).unlink(missing_ok=True)
    box.empty_drives()
    whole = box.run(*TRAIN, *first, "--log", "whole.jsonl")
    box.empty_drives()
    shutil.rmtree(box.folder / "point", ignore_errors=True)
    begun = box.run(*TRAIN, *first, "--steps", str(HALF), "--log", "first.jsonl")
    ended = box.run(*TRAIN, *second, "--log", "second.jsonl")
    for done in (whole, begun, ended):
        yield from good(done)
    if not any(done.returncode for done in (whole, begun, ended)) and \
            losses(box, "first.jsonl") + losses(box, "second.jsonl") != losses(box, "whole.jsonl"):
        yield f"losses {losses(box, 'second.jsonl')} of {losses(box, 'whole.jsonl')}"


def check_checkpoint(box):
    """Written by one placement, continued by another."""
    yield from two_halves(box, ["-s", "zero3", "--save", "point"],
                          [*DURABLE["on drives"], "--from", "point"])
    names = sorted(path.name for path in (box.folder / "point").iterdir())
    if names != ["config.json", "model.safetensors", "optimizer.safetensors"]:
        yield f"wrote {names}"
    yield from good(box.run(*TRAIN, "-s", "zero3", "--weights", "point", "--steps", "1"))


def check_traffic(box):
    """All state on drives: read and written once a step, as planned."""
    box.empty_drives()
    done = box.run(*TRAIN, *PLACEMENTS["nvme"], "--json")
    yield from good(done)
    answer = answer_of(done.text)
    for key in ("nvme_read_bytes", "nvme_written_bytes"):
        planned = answer["predicted"][key]
        if not 0.8 * planned <= answer[key] <= 1.3 * planned + 1e6:
            yield f"{key} is {answer[key]}, planned {planned}"
    if not answer["run"]["resident_peak_bytes"] > answer["peak_bytes"]["cpu"]:
        yield "the process has less memory than its arena"


def check_idle(box):
    """Settings that change nothing, or go beyond their strategy, have a line each."""
    for words, said in (
            (["-s", "ddp", "--checkpoint-partition", "off"], "no tensors are sliced"),
            (["-s", "ddp", "--sequence-parallel", "on"], "no tensors are sliced"),
            (["-s", "ddp", "--cp-kind", "all-to-all"], "no GPUs share sequences; --cp says"),
            (["-s", "zero-infinity-cpu", "--activation-device", "nvme", "--nvme", "drive",
              "--overwrite"], "keeps activation checkpoints on drives"),
            (["-s", "ddp"], None)):
        done = box.run(*SMALL, "--steps", "1", *words)
        yield from good(done)
        lines = [line for line in done.said.splitlines() if line.startswith("memwall: --")]
        if len(lines) != (said is not None) or (said and said not in lines[0]):
            yield f"{words}: {done.said}"


def check_no_gpu(box):
    """Without a GPU, or a build for GPUs, one line says so; auto takes the cores."""
    done = box.run(*TRAIN, "--backend", "cuda")
    lines = [line for line in done.said.splitlines() if "GPUs" in line]
    if done.returncode not in (1, 2) or len(lines) != 1:
        yield f"--backend cuda: status {done.returncode}: {done.said}"
    answer = answer_of(box.run(*TRAIN, "--backend", "auto", "--json").text)
    if answer["run"]["backend"] != "cpu":
        yield f"--backend auto: run is {answer['run']}"


def check_dtype(box):
    """What is computed in, where that is not what the profile or the user says."""
    for words, said in ((["--dtype", "fp16"], "calibrate --dtype fp16"),
                        (["--dtype", "bf16", "-H", "v100"], "this run uses fp16")):
        done = box.run(*TRAIN, "-s", "zero3", *words)
        yield from good(done)
        if said not in done.said:
            yield f"{words}: said {done.said!r}"
        if "loss scale" not in done.text or "65536" not in done.text.splitlines()[2].split():
            yield f"{words}: {done.text}"


def check_null(box):
    """Nothing is computed: no loss, no weights, and nobody's files are touched."""
    box.empty_drives()
    words = PLACEMENTS["nvme, each step durable"]
    yield from good(box.run(*TRAIN, *words))
    before = {path: path.read_bytes() for path in box.on_drives()}
    done = box.run(*TRAIN, *words, "--backend", "null", "--log", "log.jsonl")
    yield from good(done)
    if losses(box) != [0] * STEPS:
        yield f"losses {losses(box)}"
    if "nothing computed: step " not in done.text or "no op running for " not in done.text:
        yield done.text
    if before != {path: path.read_bytes() for path in box.on_drives()}:
        yield "the drives have other files"
    answer = answer_of(box.run(*TRAIN, *words, "--backend", "null", "--json").text)
    if answer["run"]["backend"] != "null" or "null backend" not in answer["run"]["machine"]:
        yield f"run is {answer['run']}"
    if not answer["nvme_read_bytes"] or not answer["nvme_written_bytes"]:
        yield "nothing was moved"


def check_default_batch(box):
    """Who tries a run gets steps of seconds, not the batch of a training over months."""
    line = ["-m", "gpt2", "-H", "rtx4090", "--data", TRAIN[TRAIN.index("--data") + 1],
            "--steps", "1", "--backend", "null"]
    answer = answer_of(box.run(*line, "--json").text)
    settings = answer["settings"]
    if settings["global_batch"] != 8 or settings["micro_batch"] * settings["grad_accum"] != 8:
        yield f"settings are {settings}"
    if not any("that a run has by default" in note for note in answer["notes"]):
        yield f"notes are {answer['notes']}"
    if FEW:
        return
    done = box.run(*line)
    yield from good(done)
    if "8 in all per step (--batch N sets another)" not in done.text:
        yield done.text


def check_llama(box):
    words = [*TRAIN, "-s", "zero3", "--log", "log.jsonl"]
    words[1] = str(LLAMA / "config.json")
    yield from good(box.run(*words))
    yield from check_falls(losses(box))


def check_table(box):
    """Without --json the log is the output, one line above it and one at its end."""
    done = box.run(*TRAIN, "-s", "zero3")
    yield from good(done)
    begin, *lines = done.text.splitlines()
    if not re.fullmatch(r"steps 1 to 5 of model \S+ with zero3: 2 sequences of \d+ tokens per "
                        r"GPU, 2 in all per step; parameters gpu, gradients gpu, optimizer gpu, "
                        r"checkpoints gpu; predicted for profile rtx4090: [\d.]+ [mu]?s per "
                        r"step, [\d.]+ m?s in all",
                        begin):
        yield begin
    if len(lines) != STEPS + 3 or lines[0].split()[:2] != ["step", "loss"] or \
            [line.split()[0] for line in lines[1:STEPS + 1]] != [str(i + 1) for i in range(STEPS)]:
        yield done.text
    elif not lines[-1].startswith("step ") or \
            "predicted for profile rtx4090 (not calibrated)" not in lines[-1]:
        yield lines[-1]


SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1}


def check_total(box):
    """What is predicted in all has the saves: every second step, and the last."""
    box.empty_drives()
    words = ["-s", "zero-offload", "--nvme", "drive", "--save-every", "2", "--set",
             "nvme.write_gb_per_s=0.01"]
    done = box.run(*TRAIN, *words)
    yield from good(done)
    asked = [word for word in TRAIN[:-4] if word not in ("--data", "text.txt")]
    answer = box.run(*asked, *words[:2], *words[4:], "--software", "memwall", verb="simulate").text
    times = re.findall(r"([\d.]+) ([mu]?s) (?:per step|in all)", done.text.splitlines()[0]) + \
        re.findall(r"a save every 2 steps takes ([\d.]+) ([mu]?s)", answer)
    step, total, save = (float(value) * SECONDS[unit] for value, unit in times)
    if not 0.98 < (STEPS * step + 3 * save) / total < 1.02 or save < step:
        yield f"{times}"
    box.empty_drives()


def check_unused(box):
    done = box.run(*TRAIN, "-s", "zero3", "--nvme", "nowhere")
    yield from good(done)
    if "--nvme nowhere: is not used: zero3 keeps nothing on NVMe here" not in done.said:
        yield f"{done.said!r}"


# --- compares ------------------------------------------------------------------------------------

def check_compare_table(box):
    box.empty_drives()
    done = box.run(*TRAIN, *PLACEMENTS["nvme"], "--compare")
    yield from good(done)
    # A hypervisor may have stolen time from some of the steps, which are left out then.
    if not re.search(r"^medians of [1-4] steps? after the first, ", done.text, re.M):
        yield "the table does not say of how many steps it has medians"
    for words in ("Predicted for rtx4090 (not calibrated), measured on ", "step by FLOPs alone",
                  "\nLanes ", "nvme-write ", "\nOperators ", "\nOps that differ most",
                  "\nMemory", "NVMe: "):
        if words not in done.text:
            yield f"{words!r} is not in the table"


def check_files(box):
    """Plan, trace, plot and the run's file; what compare makes of that is what run said."""
    box.empty_drives()
    plot = ["--plot", "p.svg"] if shutil.which("gnuplot") else []
    done = box.run(*TRAIN, *PLACEMENTS["nvme"], "--json", "-o", "plan.txt", "--trace", "t.json",
                   "--save-timeline", "run.txt", *plot)
    yield from good(done)
    events = json.loads(box.read("t.json"))["traceEvents"]
    ops = [sum(event["ph"] == "X" and event["pid"] == pid for event in events) for pid in (0, 1)]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    if not ops[0] or ops[0] != ops[1] or names != ["predicted: rank 0", "measured: rank 0"]:
        yield f"trace has {ops} ops of {names}"
    if plot and "predicted" not in box.read("p.svg"):
        yield "the plot does not name the prediction"
    if not box.read("run.txt").startswith(box.read("plan.txt")):
        yield "the run's file does not begin with its plan"
    again = box.run("run.txt", "-H", "rtx4090", "--set", "gpu.memory_gib=2", "--json",
                    verb="compare")
    yield from good(again)
    first, second = answer_of(done.text)["compare"], answer_of(again.text)["compare"]
    for key in ("steps", "typical_step", "step", "first_step", "lanes", "phases", "operators"):
        if first[key] != second[key]:
            yield f"{key}: run said {first[key]}, compare {second[key]}"


def read_all(reads, wait_s=60):
    """All that writers put into a pipe that is open, from the first of them to where none is left.
    """
    poll = select.poll()
    poll.register(reads, select.POLLIN)
    content = b""
    while poll.poll(wait_s * 1000):  # nothing is ready before there was a writer
        more = os.read(reads, 1 << 16)
        if not more:
            break
        content += more
    return content


def check_pipe(box):
    """Whoever reads a trace from a pipe gets it: no check before the run is the end of it."""
    box.empty_drives()
    os.mkfifo(box.folder / "trace.pipe")
    reads = os.open(box.folder / "trace.pipe", os.O_RDONLY | os.O_NONBLOCK)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        content = threads.submit(read_all, reads)
        yield from good(box.run(*TRAIN, *PLACEMENTS["zero3"], "--trace", "trace.pipe"))
        names = [event["args"]["name"] for event in json.loads(content.result())["traceEvents"]
                 if event["name"] == "process_name"]
    os.close(reads)
    if names != ["predicted: rank 0", "measured: rank 0"]:
        yield f"trace has {names}"


def check_compare_verb(box):
    """Another machine's prediction is set beside the same run."""
    done = box.run("run.txt", "-H", "dgx2", "--trace", "u.json", verb="compare")
    yield from good(done)
    if "Predicted for dgx2" not in done.text or "Memory" in done.text:
        yield done.text
    if not (box.folder / "u.json").exists():
        yield "no trace"
    done = box.run("run.txt", "-H", "rtx4090", "--set", "gpu.memory_gib=1.2501", verb="compare")
    if done.returncode != 3 or "gpu" not in done.text:
        yield f"a machine too small: status {done.returncode}, {done.text}"


def check_delay_unreached(box):
    done = box.run(*TRAIN, "-s", "zero-offload", "--dpu-start", "100", "--compare")
    yield from good(done)
    if "--dpu-start" not in done.said:
        yield f"said {done.said!r}"


# --- wrong input ---------------------------------------------------------------------------------

def token_file(tokens, count=None, magic=20240520):
    header = struct.pack("<256i", magic, 1, len(tokens) if count is None else count, *[0] * 253)
    return header + struct.pack(f"<{len(tokens)}H", *tokens)


def reshaped(path, name, shape):
    """The safetensors file with another shape for a tensor."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header[name]["shape"] = shape
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length:]


def make_wrong_files(box):
    rng = random.Random(1)
    tokens = [rng.randrange(256) for _ in range(2000)]
    box.write("good.bin", token_file(tokens))
    box.write("cut.bin", token_file(tokens, 2001))
    box.write("beyond.bin", token_file([*tokens[:1500], 256, *tokens[1500:]]))
    box.write("other.bin", token_file(tokens, magic=7))
    box.write("stub.bin", b"\1")
    box.write("empty.txt", b"")
    box.write("short.txt", b"too short")
    box.write("latin.txt", b"caf\xe9 " * 100)
    box.write("shape.safetensors", reshaped(GPT2 / "model.safetensors", "transformer.wte.weight",
                                            [128, 64]))
    (box.folder / "llama.safetensors").symlink_to(LLAMA / "model.safetensors")
    box.write("cut.safetensors", (GPT2 / "model.safetensors").read_bytes()[:-10])
    config = json.loads((GPT2 / "config.json").read_text(encoding="utf-8"))
    box.write("few.json", json.dumps({**config, "vocab_size": 100}).encode())
    os.mkfifo(box.folder / "pipe")
    run = box.read("run.txt")
    box.write("half.txt", run[:len(run) // 2].encode())
    box.write("late.txt", (run + "more\n").encode())


# Behind SMALL and "-s zero3": exit status and words that the line has.
WRONG = {
    "--data empty.txt": (2, ["empty.txt", "25"]),
    "--data short.txt": (2, ["short.txt", "25"]),
    "--data latin.txt": (2, ["latin.txt", "byte 3", "UTF-8"]),
    "--data=": (2, ["--data: "]),
    "--nvme drive --nvme=": (2, ["--nvme: "]),
    "--trace=": (2, ["--trace: "]),
    "--data none.txt": (2, ["none.txt", "must be UTF-8 text"]),
    "--data drive": (2, ["drive: is a folder", "UTF-8 text"]),
    "--data pipe": (2, ["pipe: is not a regular file", "UTF-8 text"]),
    "--weights pipe": (2, ["pipe: is not a regular file", "safetensors"]),
    "--log pipe": (1, ["pipe", "nobody reads"]),
    "--trace pipe": (1, ["pipe", "nobody reads"]),
    "--data cut.bin": (2, ["cut.bin", "2001", "cut short"]),
    "--data stub.bin": (2, ["stub.bin", "a header of 1024 bytes (llm.c's format): cut short"]),
    "--data beyond.bin": (2, ["beyond.bin", "token 1500", "256"]),
    "--data other.bin": (2, ["other.bin", "magic 7"]),
    "-m few.json": (2, ["text.txt", "256", "100"]),
    "--weights shape.safetensors": (2, ["shape.safetensors", "transformer.wte.weight"]),
    "--weights cut.safetensors": (2, ["cut.safetensors"]),
    "--weights none.safetensors": (2, ["none.safetensors", "must be a safetensors file"]),
    "--from none": (2, ["none/model.safetensors"]),
    "--from none --resume": (2, ["--from", "--resume"]),
    "--save drive/text.txt/point": (2, ["drive/text.txt"]),
    "--weights llama.safetensors": (2, ["transformer.wte.weight", "missing"]),
    "--log /nonexistent/log": (2, ["/nonexistent/log"]),
    "--log drive": (2, ["drive", "directory"]),
    "--lr 0x10": (2, ["--lr 0x10: must be a number"]),
    "--loss-scale 0x400": (2, ["--loss-scale 0x400"]),
    "--limit h2d=0x2GB/s": (2, ["--limit h2d=0x2GB/s"]),
    "--log new.txt --trace new.txt": (2, ["--trace", "new.txt", "--log"]),
    "--trace /nonexistent/t.json": (2, ["/nonexistent/t.json"]),
    "--plot picture.gif": (2, ["picture.gif", ".png"]),
    "--save-timeline /nonexistent/r": (2, ["/nonexistent/r"]),
    "-o drive": (2, ["drive", "directory"]),
    "-s zero-infinity-nvme --optimizer-device nvme --nvme /nonexistent": (2, [
        "/nonexistent does not exist: make it first"]),
    "-s zero-infinity-nvme --optimizer-device nvme --nvme /proc": (2, ["/proc"]),
    "-s zero-infinity-nvme --optimizer-device nvme --nvme text.txt": (2, ["text.txt"]),
    "-s zero3,zero2": (2, ["-s", "one"]),
    "--csv": (2, ["--csv"]),
    "--what-if": (2, ["--what-if"]),
    "--details": (2, ["--details"]),
    "--largest": (2, ["--largest"]),
    "--steps 0": (2, ["--steps 0", "1"]),
    "--steps many": (2, ["--steps many"]),
    "--lr -1": (2, ["--lr -1"]),
    "--batch 0.5": (2, ["--batch 0.5"]),
    "--tp 2 --gpus 2 --set node.gpus=2 --set fabric.gb_per_s=9 --set fabric.latency_us=9": (
        2, ["mpirun -n 2"]),
    "--gpus 2 --set node.gpus=2 --set fabric.gb_per_s=9 --set fabric.latency_us=9": (2, ["mpirun"]),
    "--nodes 2 --set node.nodes_max=2 --set network.gb_per_s=9 --set network.latency_us=9": (
        2, ["mpirun -n 2"]),
    "--state-layout paper20": (2, ["paper20"]),
    "--dtype fp8": (2, ["--dtype fp8", "bf16, fp16 or fp32"]),
    "--device-threads 0": (2, ["--device-threads 0"]),
    "--backend tpu": (2, ["--backend tpu", "auto, cpu, cuda or null"]),
    "--backend null --save point": (2, ["--backend null", "--save"]),
    "--backend null --resume": (2, ["--backend null", "--resume"]),
    "--lr-min 1 --lr 0.5": (2, ["--lr-min 1", "--lr, 0.5"]),
    "--lr-schedule cosine --warmup 9 --steps 8": (2, ["--warmup 9", "--steps, 8"]),
    "--lr-schedule bent": (2, ["bent", "cosine"]),
    "extra": (2, ["extra"]),
    "--batch 0": (2, ["--batch 0: must be a whole number of sequences from 1 to 1000000"]),
    # Bought drives would not help: it is refused before it is asked whether it fits.
    "-m deepseek-v3": (2, ["deepseek-v3: a mixture of experts: must be a decoder"]),
}
WRONG_COMPARE = {
    "": (2, ["RUNFILE", "--save-timeline"]),
    "run.txt more.txt -H dgx2": (2, ["more.txt"]),
    "run.txt -H nowhere": (2, ["nowhere"]),
    "run.txt -H dgx2 --batch 2": (2, ["--batch"]),
    "none.txt -H dgx2": (2, ["none.txt", "must be a run"]),
    "drive -H dgx2": (2, ["drive: is a folder: must be a run"]),
    "pipe -H dgx2": (2, ["pipe: is a pipe that nobody writes to"]),
    "plan.txt -H dgx2": (2, ["plan.txt", "not a plan"]),
    "text.txt -H dgx2": (2, ["text.txt", "line 1"]),
    "half.txt -H dgx2": (2, ["half.txt", "line"]),
    "late.txt -H dgx2": (2, ["late.txt", "nothing after"]),
    "run.txt -H dgx2 --trace /nonexistent/t": (2, ["/nonexistent/t"]),
}


def check_wrong(done, status, words):
    if done.returncode != status:
        yield f"status {done.returncode}"
    lines = done.said.splitlines()
    if len(lines) != 1 or not lines[0].startswith("memwall: "):
        yield f"said {done.said!r}"
    yield from (f"{word} is not in {done.said!r}" for word in words if word not in done.said)
    if done.text:
        yield f"printed {done.text!r}"


def check_no_data(box):
    words = SMALL[:SMALL.index("--data")]
    yield from check_wrong(box.run(*words, "-s", "zero3"), 2, ["--data"])
    # Without -H the machine is measured, but not for a run that cannot be.
    yield from check_wrong(box.run(*words[:2]), 2, ["--data"])
    yield from check_wrong(box.run(*words[:2], "--data", "none.txt"), 2, ["none.txt"])
    yield from check_wrong(box.run("none.txt", verb="compare"), 2, ["none.txt"])


def check_memory(box):
    """More than a limit of this process leaves: the numbers, before anything is reserved."""
    words = ["-m", "gpt2", "-H", "rtx4090", "-s", "zero3", "--batch", "1", "--data", "text.txt"]
    done = box.run(*words, limits={resource.RLIMIT_AS: 1600 << 20})
    yield from check_wrong(done, 3, ["GiB", "RLIMIT_AS", "leave -H out", "--set gpu.memory_gib="])
    # Followed, it plans with so little.
    sets = re.findall(r"--set [a-z.]+_gib=[0-9.]+", done.said)
    planned = box.run(*words[:4], *" ".join(sets).split(), "--software", "memwall",
                      "--json", verb="plan")
    tiers = answer_of(planned.text)["tiers"]
    room = sum(tiers[tier]["capacity_bytes"] for tier in ("gpu", "cpu"))
    if len(sets) != 2 or planned.returncode or not 0 < room < 1600 << 20:
        yield f"{sets}: {planned.returncode}, {room} bytes"


def check_threads(box):
    """This process, and no thread beside it."""
    words = [*TRAIN, *PLACEMENTS["nvme, each step durable"], "--log", "none.jsonl"]
    owner = box.folder.stat().st_uid
    box.empty_drives()
    if owner == 0:
        box.give_to(NOBODY)
    alone = {resource.RLIMIT_NPROC: 1}
    done = [box.run(*words, limits=alone),
            box.run("--quick", "--nvme", "drive", "-o", "none.ini", verb="calibrate", limits=alone)]
    if owner == 0:
        box.give_to(owner)
    for each in done:
        yield from check_wrong(each, 1, ["threads", "ulimit -u"])
    if box.on_drives() or any((box.folder / name).exists() for name in ("none.jsonl", "none.ini")):
        yield "left files behind"


CLOSED = {  # descriptors that a run is started without; its exit status
    "0<&- 2>&-": 0,
    "1>&-": 1,
    "0<&- 1>&- 2>&-": 1,
}


def check_closed(box, descriptors, status):
    """What is meant for the terminal does not go into the next files that are opened."""
    box.empty_drives()
    words = [*TRAIN, *DURABLE["on drives"]]
    done = box.run(*words, prefix=["sh", "-c", f'exec "$0" "$@" {descriptors}'])
    if done.returncode != status:
        yield f"status {done.returncode}, not {status}: {done.said}"
    if any(b"predicted" in path.read_bytes() for path in box.on_drives()):
        yield "the log is on the drives"
    yield from good(box.run(*words, "--resume", "--steps", str(STEPS + 1), "--log",
                           "closed.jsonl"))
    if len(losses(box, "closed.jsonl")) != 1:
        yield f"went on with {len(losses(box, 'closed.jsonl'))} steps"
    (box.folder / "closed.jsonl").unlink()
    box.empty_drives()


def check_stack(box):
    """`ulimit -s 64`: the main thread has little, others take their own."""
    small = {resource.RLIMIT_STACK: 64 << 10}
    box.empty_drives()
    yield from good(box.run(*TRAIN, *DURABLE["on drives"], "--json", limits=small))
    box.empty_drives()
    yield from good(box.run("-m", "gpt3-13b", "-H", "dgx2", "--json", verb="simulate",
                            limits=small))


def check_text(box):
    """Text for a model with a tokenizer's vocabulary: what it is read as is told."""
    config = json.loads((GPT2 / "config.json").read_text(encoding="utf-8"))
    box.write("wide.json", json.dumps(config | {"vocab_size": 1000}).encode())
    line = "memwall: text.txt: text is read as bytes: 256 of the model's 1000 tokens; a .bin file "
    for words, told in ((["-m", "wide.json"], True), (["-m", "wide.json", "--data", "good.bin"],
                                                     False), ([], False)):
        done = box.run(*SMALL, *words, "-s", "zero3", "--steps", "1")
        yield from good(done)
        if done.said.startswith(line) != told or done.said.count("\n") != told:
            yield f"{words}: said {done.said!r}"


def check_refused(box):
    """The device of the profile is too small for the plan."""
    words = ["-m", "gpt2", "-H", "rtx4090", "--set", "gpu.memory_gib=2", "-s", "zero3", "--data",
             "text.txt", "--json"]
    done = box.run(*words)
    answer = answer_of(done.text)
    if done.returncode != 3 or answer["feasible"] or answer["limiting_tier"] != "gpu":
        yield f"status {done.returncode}, {answer['limiting_tier']}"


def check_ram_disk(box):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        done = box.run(*TRAIN, *NVME, "--optimizer-device", "nvme", "--nvme", folder)
        yield from good(done)
        if folder not in done.said or "RAM disk" not in done.said:
            yield f"said {done.said!r}"


# --- all -----------------------------------------------------------------------------------------

def nobody_has_command():
    def become_nobody():
        if os.geteuid() == 0:
            os.setuid(NOBODY)
    try:
        return subprocess.run([str(MEMWALL), "simulate", *SMALL[:4], "-s", "zero3"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                              preexec_fn=become_nobody).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def has_ram_disk():
    try:
        kind = subprocess.run(["stat", "-f", "-c", "%T", "/dev/shm"], stdout=subprocess.PIPE,
                              check=False).stdout
        return kind.strip() == b"tmpfs" and os.access("/dev/shm", os.W_OK)
    except OSError:
        return False


def tests(box):
    expected = []
    for name, words in PLACEMENTS.items():
        yield f"trains: {name}", check_trains(box, words, expected)
    for name, words in OTHERS.items():
        yield f"trains: {name}", check_trains(box, words, [])
    yield "trains: Llama", check_llama(box)
    for name, words in DURABLE.items():
        yield f"resumes: {name}", two_halves(box, words, [*words, "--resume"])
    yield "checkpoint", check_checkpoint(box)
    yield "drives move what is planned", check_traffic(box)
    yield "nothing computed", check_null(box)
    yield "a batch that nobody gave", check_default_batch(box)
    yield "dtype", check_dtype(box)
    yield "settings that change nothing", check_idle(box)
    yield "no GPU", check_no_gpu(box)
    yield "log as output", check_table(box)
    yield "compares: table", check_compare_table(box)
    yield "compares: files", check_files(box)
    yield "compares: a pipe", check_pipe(box)
    yield "compares: another machine", check_compare_verb(box)
    yield "compares: nothing to compare", check_delay_unreached(box)
    make_wrong_files(box)
    yield "text as bytes", check_text(box)
    yield "good token file", good(box.run(*TRAIN, "-s", "zero3", "--data", "good.bin"))
    for line, (status, words) in WRONG.items():
        yield f"wrong input: {line}", check_wrong(
            box.run(*SMALL, "-s", "zero3", "--steps", "1", *line.split()), status, words)
    for line, (status, words) in WRONG_COMPARE.items():
        yield f"wrong input: compare {line}", check_wrong(
            box.run(*line.split(), verb="compare"), status, words)
    yield "wrong input: no data", check_no_data(box)
    if not SANITIZED:  # which takes terabytes of address space
        yield "memory limit", check_memory(box)
        if nobody_has_command():
            yield "thread limit", check_threads(box)
        yield "a small stack", check_stack(box)
    for descriptors, status in CLOSED.items():
        yield f"started with {descriptors}", check_closed(box, descriptors, status)
    yield "time in all", check_total(box)
    yield "drives that are not used", check_unused(box)
    yield "does not fit", check_refused(box)
    if has_ram_disk():
        yield "RAM disk", check_ram_disk(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
