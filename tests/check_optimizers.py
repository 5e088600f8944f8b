#!/usr/bin/python3
"""`--optimizer`: bytes, traffic and time of optimizers, as their sources have them; prints TAP.

Runs are held to what PyTorch trained in fp64 from the same weights
(scripts/make-optimizer-fixtures.py), have the same bits with every placement, and continue after a
kill as if there had been none.
"""
import itertools
import json
import re
import shutil
import sys

from command import ROOT, Box, answer_of, kill_after, refused, sixth
from tap import MPIRUN, RANKS_ENVIRONMENT, Skip, has_ranks, report_in

# Bytes of a parameter beside its 16 bits and its gradient's, by the sources that the list names:
# an fp32 parameter, and moments; a scale of 32 bits for 2048 moments of 8 bits (arXiv 2110.02861),
# or for 256 (bitsandbytes).
BYTES = {"adamw": 12, "adamw-16bit": 8, "adamw-8bit": 4 + 2 * (1 + 4 / 2048), "adamw-pure": 4,
         "sgd": 4, "sgd-momentum": 8, "lion": 8, "adafactor": 4, "sm3": 8, "muon": 8,
         "adamw-8bit-pure": 2 * (1 + 4 / 256), "adafactor-pure": 0,
         "sgd-pure": 0}
# What updates in PyTorch copy: bytes for each parameter as lists of all, and for each of the
# largest tensor, the embedding: root of the variance; of Lion both terms and their sum; of
# Adafactor the update and its negative, of 16 bits in fp32 the parameter and the gradient too; of
# SM3 the update; of LOMO parameter and gradient in fp32.
LISTED = {"adamw": 4, "adamw-16bit": 2, "adamw-pure": 2}
COPIED = {"lion": 12, "adafactor": 8, "adafactor-pure": 16, "sm3": 4, "sgd-pure": 8}
LARGEST = 128256 * 4096
RUNS = ("adamw", "adamw-16bit", "adamw-8bit", "sgd", "sgd-momentum", "lion", "sm3",
        "adafactor")
# Vectors of rows and columns, and of what has one side.
SIDES = {"sm3": ["accumulator", "accumulator_0", "accumulator_1"],
         "adafactor": ["exp_avg_sq", "exp_avg_sq_col", "exp_avg_sq_row"]}
MOMENTS = {"adamw": ["exp_avg", "exp_avg_sq"], "adamw-16bit": ["exp_avg", "exp_avg_sq"],
           "adamw-8bit": ["exp_avg", "exp_avg_sq"], "sgd": [], "sgd-momentum": ["exp_avg"],
           "lion": ["exp_avg"], "sm3": ["exp_avg"], "adafactor": []}
VECTOR_BYTES = {"sm3": 8, "adafactor": 56, "adafactor-pure": 56}  # of each of their numbers
ADAFACTOR_PASSES = 2  # over gradients: the squares of rows and columns, and of the update
PARAMS = 8_030_261_248  # of Llama 3.1 8B
# Rows and columns of its hidden matrices, 32 of each; Muon leaves all else to AdamW.
HIDDEN = [(4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096), (14336, 4096), (14336, 4096),
          (4096, 14336)]
IN_HIDDEN = 32 * sum(rows * columns for rows, columns in HIDDEN)
LAYER_SIDES = 2 * (4096 + 4096) + 2 * (1024 + 4096) + 3 * (14336 + 4096) + 2 * 4096
SIDES_OF_8B = 32 * LAYER_SIDES + 2 * (128256 + 4096) + 4096
ASK = "simulate -m llama-3.1-8b -H h100 --batch 1 --seq 512 --grad-accum 1 --json"


def state_of(name):
    """Bytes of all of it."""
    of_others = BYTES["adamw"] if name == "muon" else BYTES[name]
    return BYTES[name] * IN_HIDDEN + of_others * (PARAMS - IN_HIDDEN)


def ask(box, options):
    answer = box.run(f"{ASK} {options}")
    return answer_of(answer.out) if not answer.status else answer.err


def check_list(box):
    listed = json.loads(box.run("list optimizers --json").out)["optimizers"]
    found = {row["optimizer"]: row["state_bytes_per_parameter"] for row in listed}
    if found != BYTES:
        yield f"{found}"
    for row in listed:
        if not row["source"] or row["runs"] != (row["optimizer"] in RUNS):
            yield f"{row}"


def check_state(box, placement, tier):
    for name in BYTES:
        answer = ask(box, f"{placement} --optimizer {name}")
        if isinstance(answer, str):
            yield answer
            continue
        state = sum(row["bytes"] for row in answer["ledger"]
                    if row["purpose"] == "optimizer-state" and row["tier"] == tier)
        if not 0 <= state - state_of(name) <= 1e-3 * state_of(name):
            yield f"{name}: {state} bytes, {state_of(name):.0f} by hand"


def check_copies(box):
    """What the software takes for an update, beyond what backward has freed by then."""
    lists = "--set software.memory.update_foreach_share="
    flat = "--set software.memory.update_flat_tensor=true"
    for name in sixth(BYTES):
        # Muon's are of AdamW, which has what is no matrix of a layer, and less of a matrix.
        listed = LISTED.get(name, 0) * PARAMS + 4 * (PARAMS - IN_HIDDEN) * (name == "muon")
        each = COPIED.get(name, 0)
        one = each * LARGEST
        fused = 0 if name == "lion" else one
        matrix = 4 * 14336 * 4096 * (name == "muon")
        for options, by_hand in ((lists + "1", max(listed + one, matrix)),
                                 (lists + "0", max(fused, matrix)),
                                 (f"{lists}1 {flat}", max(listed + each * PARAMS, matrix))):
            answer = ask(box, "-s ddp --software ideal --set gpu.memory_gib=400 "
                              f"{options} --optimizer {name}")
            if isinstance(answer, str):
                yield answer
                return
            freed = sum(row["bytes"] for row in answer["ledger"] if row["tier"] == "gpu"
                        and row["purpose"] not in ("parameters", "gradients",
                                                   "optimizer-state", "optimizer-buffers"))
            found = {part["what"]: part["bytes"] for part in answer.get("software_memory", [])}
            copies = found.pop("the update's copies", 0)
            moments = found.pop("more moments", 0)
            whole = 4 * PARAMS * (name in VECTOR_BYTES and options.endswith(flat))
            if abs(moments - whole) > 1e-3 * whole:
                yield f"{name} {options}: whole moments of {moments} bytes"
            if found or abs(copies - max(0, by_hand - freed)) > 1e-3 * by_hand:
                yield f"{name} {options}: {copies} {found}, {by_hand} by hand less {freed}"


def check_flat(box):
    """DeepSpeed updates a flat partition, which has no rows and columns: a number per element,
    where the state is, and software that updates tensor by tensor has vectors."""
    told = {}
    for software in ("deepspeed", "hf-trainer"):
        for placement, tier in (("-s zero2", "gpu"), ("-s zero-offload", "cpu")):
            for name in ("adafactor", "sm3", "sgd-momentum"):
                answer = ask(box, f"{placement} --optimizer {name} --software {software} "
                             "--set gpu.memory_gib=400 --set host.memory_gib=1000")
                told[software, tier, name] = sum(
                    part["bytes"] for part in answer["software_memory"]
                    if part["what"] in ("more moments", "whole host moments")
                    and part["tier"] == tier)
    for (software, tier, name), found in told.items():
        whole = 4 * PARAMS * (software == "deepspeed" and name in VECTOR_BYTES)
        if abs(found - whole) > 1e-3 * whole:
            yield f"{software}, {tier}, {name}: {found} bytes, {whole} by hand"


def check_in_place(box):
    """In fp32 software may update parameters in place, and its state has no copy of them; no run
    does."""
    for name in sixth(BYTES):
        copy = 4 * PARAMS * (not name.endswith("-pure"))
        for software, saved in (("hf-trainer", copy), ("deepspeed", 0), ("memwall", 0)):
            answer = ask(box, "-s ddp --set gpu.memory_gib=400 --dtype fp32 "
                              f"--software {software} --optimizer {name}")
            if isinstance(answer, str):
                yield answer
                return
            state = sum(row["bytes"] for row in answer["ledger"]
                        if row["purpose"] == "optimizer-state")
            if not 0 <= state - (state_of(name) - saved) <= 1e-3 * PARAMS:
                yield f"{name}, {software}: {state} bytes, {state_of(name) - saved:.0f} by hand"
    box.write("text.txt", "words " * 500)
    for software, refuses in (("hf-trainer", True), ("memwall", False)):
        box.run("plan -m gpt2 -H rtx4090 -s ddp --batch 1 --seq 16 --grad-accum 1 --dtype fp32 "
                f"--software {software} -o plan.txt")
        if box.run("simulate plan.txt").status:
            yield f"{software}: its plan is not read back"
        done = box.run("run --plan plan.txt -H rtx4090 --backend cpu --data text.txt --steps 1")
        if refuses:
            yield from refused(done, ["plan.txt", "memwall"])
        elif done.status:
            yield done.err


def check_many_tensors(box):
    """One op of a delayed step names all gradients, of a clipped update."""
    answer = box.run("plan -m layers=300,hidden=256,heads=4,seq=64 -H rtx4090 -s zero-offload "
                     "--optimizer adafactor --dpu-start 2 --batch 1 --grad-accum 1")
    if answer.status:
        yield answer.err
    yield from refused(box.run("plan -m layers=30000,hidden=64,heads=4,seq=64 -H dgx-h100 "
                               "-s zero-offload --optimizer adafactor --dpu-start 2 "
                               "--batch 1 --grad-accum 1"), ["--dpu-start 2", "adafactor", "65535"])


def check_vectors(box):
    """Of Llama 3.1 8B, a number for each row and column; in host memory wherever state is."""
    for name in sixth(BYTES):
        for placement in ("-s ddp --set gpu.memory_gib=400", "-s zero-infinity-nvme"):
            answer = ask(box, f"{placement} --optimizer {name}")
            found = {row["tier"]: row["bytes"] for row in answer["ledger"]
                     if row["purpose"] == "optimizer-vectors"}
            by_hand = {"cpu": -(-SIDES_OF_8B * VECTOR_BYTES[name] // 4096) * 4096} \
                if name in VECTOR_BYTES else {}
            if found != by_hand:
                yield f"{name} {placement}: {found}, {by_hand} by hand"


def check_drives(box):
    """All state is read and written once per step."""
    for name in sixth(BYTES):
        answer = ask(box, f"-s zero-infinity-nvme --optimizer-device nvme --param-device cpu "
                          "--software ideal "  # deepspeed would keep gradients on drives too
                          f"--gradient-device cpu --commit none --optimizer {name}")
        if isinstance(answer, str):
            yield answer
            continue
        written = answer["nvme_written_bytes"]
        if not 0 <= written - state_of(name) <= 1e-3 * state_of(name):
            yield f"{name}: {written} bytes written, {state_of(name):.0f} by hand"


def check_time(box):
    """An update that memory limits takes as long as its bytes: state twice, parameter, gradient."""
    times = {}
    for name, each in BYTES.items():
        if name == "muon":  # products limit it
            continue
        answer = ask(box, "-s zero-offload --software ideal --optimizer " + name)
        if isinstance(answer, str):
            yield answer
            return
        [lane] = [row for row in answer["lanes"] if row["name"] == "host"]
        parameter = 2 if name.endswith("-pure") else 0  # which it reads, as its state has none
        times[name] = lane["busy_s"] / (2 * each + 4 + parameter)
    norm = times["adamw"]  # with the gradients' norm, which is the same for all
    for name, per_byte in times.items():
        if not 0.95 * norm < per_byte < 1.6 * norm:
            yield f"{name}: {per_byte / norm} of AdamW's time per byte"


def check_passes(box):
    """Adafactor reads each gradient more often than SGD, at the rate of exact sums; where a profile
    does not say it, at that of the norm."""
    for keys, rate in (("", 20e9), (" --set host.exact_sums_gb_per_s=5", 5e9)):
        busy = {}
        for name in ("sgd", "adafactor"):
            answer = ask(box, "-s zero-offload --software ideal --set host.norm_gb_per_s=20"
                              f"{keys} --optimizer {name}")
            if isinstance(answer, str):
                yield answer
                return
            [busy[name]] = [row["busy_s"] for row in answer["lanes"] if row["name"] == "host"]
        passes = (busy["adafactor"] - busy["sgd"]) / (2 * PARAMS / rate)
        if abs(passes - ADAFACTOR_PASSES) > 0.01:
            yield f"{keys}: {busy}: {passes} passes"


def check_agreed(box):
    """Ranks add up Adafactor's sums when they agree on the norm, 8 bytes: 48 of each row and
    column."""
    for name, gpus in itertools.product(("adafactor", "sm3"), (1, 2)):
        answer = box.run(f"plan -m llama-3.1-8b -H dgx-h100 --gpus {gpus} -s zero-offload "
                         "--batch 1 --seq 512 --grad-accum 1 -o plan.txt "
                         f"--optimizer {name}")
        plan = (box.folder / "plan.txt").read_text("utf-8")
        found = re.findall(r"^work \d+ agree .*bytes (\d+)", plan, re.M)
        by_hand = 8 + 48 * SIDES_OF_8B * (name == "adafactor" and gpus > 1)
        if found != [str(by_hand)]:
            yield f"{name}, {gpus} GPUs: {found}, {by_hand} by hand: {answer.err}"


def check_muon(box):
    """A Newton-Schulz iteration of m rows and n columns, m <= n: 2 (2 n m m + m m m) FLOPs
    (K. Jordan et al., Muon, 2024).  Each rank makes all matrices orthogonal, below the GPU's
    peak."""
    flops = 0
    for sides in HIDDEN:
        m, n = sorted(sides)
        flops += 32 * 5 * 2 * (2 * n * m * m + m ** 3)
    for machine in ("-H h200 -s ddp", "-H dgx-h100 --gpus 8 -s zero1",
                    "-H dgx-h100 --gpus 8 -s zero3"):
        seconds = {}
        for name in ("lion", "muon"):
            answer = box.run(f"simulate -m llama-3.1-8b {machine} --batch 1 --seq 512 "
                             f"--grad-accum 1 --json --optimizer {name}")
            if answer.status:
                yield answer.err
                return
            seconds[name] = answer_of(answer.out)["step_time_s"]
        rate = flops / (seconds["muon"] - seconds["lion"])
        if not 0.4 * 989e12 < rate < 989e12:
            yield f"{machine}: {seconds}, {rate:.3g} FLOP/s"


def check_muon_refusals(box):
    ask_for = "simulate -m llama-3.1-8b -H dgx-h100 --optimizer muon "
    yield from refused(box.run(ask_for + "--gpus 2 --tp 2"), ["--tp 2", "--optimizer muon"])
    yield from refused(box.run(ask_for + "-s zero-offload --update-on host"),
                       ["--update-on host", "--optimizer muon", "GPU"])
    box.write("text.txt", "words " * 500)
    yield from refused(box.run("run -m gpt2 -H h100 --data text.txt --optimizer muon"),
                       ["--optimizer muon", "list optimizers", "memwall simulate"])


def check_refusals(box):
    box.write("text.txt", "words " * 500)
    yield from refused(box.run(f"{ASK} --optimizer adam"),
                       ["--optimizer adam", "adamw-8bit", "sm3"])
    yield from refused(box.run("run -m gpt2 -H h100 --data text.txt --optimizer adamw-pure"),
                       ["--optimizer adamw-pure", "list optimizers", "memwall simulate"])
    planned = box.run("plan -m gpt2 -H h100 -s ddp --batch 1 --optimizer adamw-pure -o plan.txt")
    text = (box.folder / "plan.txt").read_text("utf-8")
    if planned.status or " optimizer adamw-pure" not in text:
        yield f"plan: {planned.err}"
    yield from refused(box.run("run --plan plan.txt -H h100 --data text.txt"), ["list optimizers"])
    if box.run("simulate plan.txt -H h100").status:
        yield "a plan with another optimizer is not read back"


# --- runs ----------------------------------------------------------------------------------------

MACHINE = "-H rtx4090 --set gpu.memory_gib=2 --backend cpu"
PLACEMENTS = {
    "on the GPU": "-s ddp --save-every 1",
    "on cores": "-s zero-offload --save-every 1",
    "state on drives": "-s zero-infinity-nvme --param-device cpu --optimizer-device nvme",
    "on drives, in small chunks": "-s zero-infinity-nvme --param-device nvme --optimizer-device "
                                  "nvme --gradient-device nvme --optimizer-chunk 8192",
}


def fixture(name):
    return ROOT / "tests/fixtures" / name


def line_of(name, options):
    folder = fixture(name)
    return (f"-m {folder}/config.json {MACHINE} --seq 16 --batch 2 --weights {folder} "
            f"--data {folder}/lora/text.txt {options}")


def empty(box, *folders):
    for folder in folders:
        shutil.rmtree(box.folder / folder, ignore_errors=True)
    (box.folder / "drive").mkdir(exist_ok=True)


def train(box, line, prefix=()):
    answer = box.run(f"run {line}", prefix=prefix)
    if answer.status:
        yield f"{line}: status {answer.status}: {answer.err.strip()[-400:]}"


def files(box, folder):
    return [(box.folder / folder / f"{name}.safetensors").read_bytes()
            for name in ("model", "optimizer")]


def check_reference(box, name, optimizer, dtype, bar):
    expected = json.loads((fixture(name) / "optimizers.json").read_text("utf-8"))[optimizer]
    empty(box, "drive")
    yield from train(box, line_of(
        name, f"-s ddp --steps 50 --optimizer {optimizer} --dtype {dtype} --lr {expected['lr']} "
              "--log log.jsonl --commit none"))
    rows = [json.loads(row) for row in (box.folder / "log.jsonl").read_text("utf-8").splitlines()]
    losses = [row["loss"] for row in rows if "loss" in row]
    off = max(abs(got / right - 1) for got, right in zip(losses, expected["losses"]))
    if len(losses) != 50 or off > bar:
        yield f"{len(losses)} losses, {off:.2g} off at most"


def check_placements(box, name, optimizer, options=""):
    """Also where a matrix and its state are cut, and gradients are summed or wait."""
    first = None
    for what, placement in PLACEMENTS.items():
        empty(box, "drive", "out")
        yield from train(box, line_of(
            name, f"{placement} {options} --steps 6 --lr 2e-3 --nvme drive --optimizer {optimizer} "
                  "--save out"))
        bits = files(box, "out")
        first = first or bits
        if bits != first:
            yield f"{what}: other weights or state"


def check_state_file(box):
    """A checkpoint has the moments that its optimizer keeps, and goes on from them."""
    for optimizer, moments in MOMENTS.items():
        line = line_of("gpt2-small", f"-s zero-offload --lr 2e-3 --optimizer {optimizer}")
        empty(box, "drive", "whole", "half", "rest")
        yield from train(box, f"{line} --steps 6 --save whole --commit none")
        yield from train(box, f"{line} --steps 3 --save half --commit none")
        line = line.replace(f"--weights {fixture('gpt2-small')}", "--from half")
        yield from train(box, f"{line} --steps 6 --save rest --commit none")
        if files(box, "rest") != files(box, "whole"):
            yield f"{optimizer}: --from has other bits than a run that did not stop"
        data = (box.folder / "half/optimizer.safetensors").read_bytes()
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        found = sorted({key.split(".")[0] for key in header if key != "__metadata__"})
        if found != sorted(moments + SIDES.get(optimizer, [])):
            yield f"{optimizer}: the file has {found}"


def check_killed(box, placement, optimizer):
    line = line_of("llama-small", f"{placement} --lr 2e-3 --optimizer {optimizer} --steps 30 "
                                  "--nvme drive")
    empty(box, "drive", "whole", "resumed", "exported")
    yield from train(box, f"{line} --save whole")
    empty(box, "drive")
    kill_after(box, line, 2)
    yield from train(box, "--resume --nvme drive --save resumed")
    for verb in ("export drive -o exported", "verify drive"):
        answer = box.run(verb)
        if answer.status:
            yield f"{verb}: {answer.err}"
    for folder in ("resumed", "exported"):
        if files(box, folder) != files(box, "whole"):
            yield f"{folder}: other bits than of a run that was not killed"


def check_ranks(box):
    if not has_ranks():
        yield Skip("no mpirun, or a build without MPI")
        return
    box.environment.update(RANKS_ENVIRONMENT)
    drives = PLACEMENTS["state on drives"]
    cases = [(optimizer, drives) for optimizer in ("lion", "adamw-8bit", *SIDES)]
    # What ranks share of a save, and gradients that wait over the end of a step.
    cases += [(optimizer, placement) for optimizer in SIDES
              for placement in (PLACEMENTS["on the GPU"],
                                PLACEMENTS["on cores"] + " --dpu-start 2")]
    for optimizer, placement in sixth(cases):
        line = line_of("llama-small", f"{placement} --lr 2e-3 --optimizer {optimizer} "
                                      "--nvme drive").replace("--batch 2", "--batch 1")
        empty(box, "drive", "whole", "resumed")
        yield from train(box, f"{line} --steps 6 --save whole", prefix=[*MPIRUN, "2"])
        empty(box, "drive")
        yield from train(box, f"{line} --steps 3", prefix=[*MPIRUN, "2"])
        yield from train(box, "--resume --nvme drive --steps 6 --save resumed",
                         prefix=[*MPIRUN, "2"])
        if files(box, "resumed") != files(box, "whole"):
            yield f"{optimizer} {placement}: other bits than of ranks that did not stop"


def check_ranks_alike(box, optimizer):
    """Two ranks that both have all of the state, or each a half: rows and columns are of both.
    Nothing is clipped, since the norm's sum is of shards."""
    if not has_ranks():
        yield Skip("no mpirun, or a build without MPI")
        return
    box.environment.update(RANKS_ENVIRONMENT)
    first = None
    for what, placement in PLACEMENTS.items():
        line = line_of("llama-small", f"{placement} --lr 2e-3 --optimizer {optimizer} --clip 0 "
                                      "--nvme drive --steps 4 --save out")
        empty(box, "drive", "out")
        yield from train(box, line.replace("--batch 2", "--batch 1"), prefix=[*MPIRUN, "2"])
        bits = files(box, "out")
        first = first or bits
        if bits != first:
            yield f"{what}: other weights or state"


def check_agreed_plan(box):
    """A plan whose ranks tell each other less than they must: refused, before anything is run."""
    if not has_ranks():
        yield Skip("no mpirun, or a build without MPI")
        return
    box.environment.update(RANKS_ENVIRONMENT)
    folder = fixture("llama-small")
    box.run(f"plan -m {folder}/config.json -H rtx4090 --set gpu.memory_gib=2 --set node.gpus=2 "
            "--set fabric.gb_per_s=10 --set fabric.latency_us=5 --gpus 2 --seq 16 --batch 1 "
            "--grad-accum 1 -s zero-offload --optimizer adafactor --software memwall "
            "--commit none -o whole.txt")
    plan = (box.folder / "whole.txt").read_text("utf-8")
    box.write("less.txt", re.sub(r"(\nwork \d+ agree .* bytes )\d+", r"\g<1>8", plan))
    for name, status in (("less", 2), ("whole", 0)):
        answer = box.run(f"run --plan {name}.txt --backend cpu --weights {folder} --steps 1 "
                         f"--data {folder}/lora/text.txt", prefix=[*MPIRUN, "2"])
        said = answer.err.count("less.txt: --optimizer adafactor: in the plan ranks tell")
        if answer.status != status or said != (status > 0):
            yield f"{name}: status {answer.status}: {answer.err.strip()[-300:]}"


def check_delayed(box):
    """Gradients that wait for their update on the GPU: the bits of those in host memory."""
    bits = []
    for device in ("cpu", "gpu"):
        line = line_of("llama-small", f"{PLACEMENTS['on cores']} --gradient-device {device} "
                                      "--dpu-start 2 --lr 2e-3 --optimizer adafactor "
                                      "--nvme drive --steps 5 --save out")
        empty(box, "drive", "out")
        yield from train(box, line)
        bits.append(files(box, "out"))
    if bits[0] != bits[1]:
        yield "other weights or state"


def vector_in(path, prefix):
    """The bytes of a checkpoint's longest vector of this name, and where they are in the file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    spans = [row["data_offsets"] for key, row in header.items() if key.startswith(prefix + ".")]
    begin, end = max(spans, key=lambda span: span[1] - span[0])
    return 8 + size + begin, data[8 + size + begin:8 + size + end]


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 16]) + data[at + 1:]


def check_damage(box, what, path, at, line, words):
    """A bit that is not as it was, and an end that is missing: one line, and all is there again
    once the file is."""
    whole = path.read_bytes()
    for damage, data in (("flipped", flipped(whole, at)), ("cut", whole[:at])):
        path.write_bytes(data)
        answer = box.run(line)
        *_, said = answer.err.strip().splitlines()  # what is resumed may be said before
        if not answer.status or any(word not in said for word in words[damage]):
            yield f"{what} {damage}: status {answer.status}: {answer.err.strip()[-400:]}"
        if path.read_bytes() != data:
            yield f"{what} {damage}: the file was written to"
    path.write_bytes(whole)


def check_damaged_vectors(box, optimizer):
    """In a checkpoint, and in what a commit has written."""
    start = f"--weights {fixture('llama-small')}"
    line = line_of("llama-small", f"{PLACEMENTS['state on drives']} --lr 2e-3 "
                                  f"--optimizer {optimizer} --nvme drive")
    empty(box, "drive", "other", "whole", "saved", "resumed", "rest")
    yield from train(box, f"{line} --steps 6 --save whole")
    empty(box, "drive")
    yield from train(box, f"{line} --steps 3 --save saved")
    saved, drive = (box.folder / "saved/optimizer.safetensors",
                    box.folder / "drive/memwall-1of1.data")
    at, vector = vector_in(saved, SIDES[optimizer][-1])
    found = drive.read_bytes().find(vector)
    if found < 0:
        yield "the commit has no such vector"
        return
    yield from check_damage(box, "commit", drive, found,
                            "run --resume --nvme drive --steps 6 --save resumed",
                            {"flipped": ["memwall-1of1.data", "vectors of rows and columns",
                                         "step 2", "--resume --at previous"],
                             "cut": ["memwall-1of1.data", "cut off"]})
    yield from train(box, "--resume --nvme drive --steps 6 --save resumed")
    again = line.replace(start, "--from saved").replace("--nvme drive", "--nvme other")
    (box.folder / "other").mkdir(exist_ok=True)
    yield from check_damage(box, "checkpoint", saved, at, f"run {again} --steps 6 --save rest",
                            {"flipped": ["optimizer.safetensors"],
                             "cut": ["optimizer.safetensors"]})
    empty(box, "other")
    (box.folder / "other").mkdir(exist_ok=True)
    yield from train(box, f"{again} --steps 6 --save rest")
    for folder in ("resumed", "rest"):
        if files(box, folder) != files(box, "whole"):
            yield f"{folder}: other bits than of a run that did not stop"


def check_wrong_state(box):
    """State of another optimizer, in a checkpoint and in a run."""
    line = line_of("gpt2-small", "-s zero-offload --lr 2e-3 --steps 3 --save-every 1 --nvme drive")
    empty(box, "drive", "saved")
    yield from train(box, f"{line} --optimizer lion --save saved")
    start = f"--weights {fixture('gpt2-small')}"
    resumed = line.replace("--steps 3", "--steps 6").replace(start, "")
    yield from refused(box.run(f"run {resumed} --resume --optimizer sgd"),
                       ["--optimizer sgd", "--optimizer lion", "--weights FOLDER"])
    other = line.replace("--steps 3", "--steps 6").replace(start, "--from saved").replace(
        "--nvme drive", "").replace("--save-every 1", "--commit none")
    yield from refused(box.run(f"run {other}"), ["--optimizer lion", "adamw", "--weights"])
    if files(box, "saved") and box.run(f"run {other} --optimizer lion").status:
        yield "what was refused cannot be continued"


def tests(box):
    yield "list", check_list(box)
    yield "state on the GPU", check_state(box, "-s ddp --set gpu.memory_gib=400", "gpu")
    yield "state on the host", check_state(box, "-s zero-offload", "cpu")
    yield "vectors of rows and columns", check_vectors(box)
    yield "copies of an update", check_copies(box)
    yield "many tensors", check_many_tensors(box)
    yield "flat partitions", check_flat(box)
    yield "fp32 parameters in place", check_in_place(box)
    yield "drives", check_drives(box)
    yield "time", check_time(box)
    yield "passes over gradients", check_passes(box)
    yield "sums that ranks add up", check_agreed(box)
    yield "muon", check_muon(box)
    yield "muon: refusals", check_muon_refusals(box)
    yield "refusals", check_refusals(box)
    for optimizer in sixth(RUNS):
        for name in ("gpt2-small", "llama-small"):
            yield f"{name}: {optimizer} as PyTorch in fp64", check_reference(
                box, name, optimizer, "fp32", 1e-3 if optimizer != "adamw-8bit" else 0.01)
        yield f"{optimizer} in bf16", check_reference(box, "llama-small", optimizer, "bf16", 0.01)
    for optimizer in sixth(RUNS[1:]):
        yield f"{optimizer}: placements", check_placements(box, "llama-small", optimizer)
    for optimizer in ("adamw-8bit", *SIDES):
        yield f"{optimizer}, accumulated, in tiles", check_placements(
            box, "gpt2-small", optimizer, "--grad-accum 2 --tiles 3")
    yield "checkpoints", check_state_file(box)
    for placement, optimizer in sixth(itertools.product(
            PLACEMENTS.values(), ("lion", "sgd", "adamw-8bit", "adamw-16bit", *SIDES))):
        yield f"killed: {optimizer} {placement}", check_killed(box, placement, optimizer)
    for optimizer in SIDES:
        yield f"killed: {optimizer}, layers left out", check_killed(
            box, PLACEMENTS["state on drives"] + " --drop-layers 1/-", optimizer)
    yield "two ranks", check_ranks(box)
    for optimizer in SIDES:
        yield f"two ranks: {optimizer}, placements", check_ranks_alike(box, optimizer)
    for optimizer in SIDES:
        yield f"{optimizer}: damaged vectors", check_damaged_vectors(box, optimizer)
    yield "two ranks: a plan without their sums", check_agreed_plan(box)
    yield "adafactor: delayed, with gradients on the GPU", check_delayed(box)
    yield "state of another optimizer", check_wrong_state(box)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
