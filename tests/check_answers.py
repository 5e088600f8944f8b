#!/usr/bin/python3
"""What the answers of plan and simulate say, seen from outside; prints TAP.

json         keys, provenance, and terms that add up; null where nothing is said.
cost, delay  sums of a training, from the figures of its steps.
provenance   a figure that is not measured here is never shown as if it were.

The command is $MEMWALL, or build/cli/memwall.
"""
import csv
import io
import json
import math
import re
import resource
import sys

from command import FEW, FLAT, PROFILE, ROOT, Box, answer_of, answers_of, refused, sample, sixth, \
    unless_few
from tap import report_in


def check_tokens(box):
    """What is printed of tokens is read."""
    line = f"simulate {FLAT} -s zero2 --batch 2 --json --tokens "
    for short, long in (("15T", "1.5e13"), ("1.5M", "1500000"), ("2B", "2e9"), ("300k", "3e5"),
                        ("15t", "1.5e13"), ("1.5m", "1500000"), ("2b", "2e9"), ("300K", "3e5")):
        if answer_of(box.run(line + short).out) != answer_of(box.run(line + long).out):
            yield f"--tokens {short} is not --tokens {long}"
    # 8.008 times 1000 is not 8008 in doubles.
    line = "simulate -m gpt2 -H dgx-h100 -s zero3 --batch 13 --json --global-batch "
    for short, long in (("2.08k", "2080"), ("2.08K", "2080"), ("8.008k", "8008")):
        if answer_of(box.run(line + short).out) != answer_of(box.run(line + long).out):
            yield f"--global-batch {short} is not --global-batch {long}"
    text = box.run(f"simulate {FLAT} -s zero2 --batch 2 --tokens 1B").out.decode()
    if not re.search(r"^training +1B tokens in [0-9.]+ (minute|hour|day|year)s?\b", text, re.M):
        yield f"no duration: {text}"


IDLE = {  # request: what its notes must say is idle
    "-s zero2 --prefetch 3 --param-loads 2 --partition owner --commit step":
        ["--prefetch", "--param-loads", "--partition", "--commit step"],
    "-s zero3 --prefetch 3 --param-loads 2 --partition owner": [],
    "-s zero-infinity-nvme --optimizer-device nvme --commit step": [],
}


def check_idle(box, options, names):
    """A setting that nothing follows is said to be one."""
    notes = answer_of(box.run(f"simulate {FLAT} --batch 1 {options} --json").out)["notes"]
    if len(notes) != len(names):
        yield f"notes {notes}"
    for name, note in zip(names, notes):
        if not note.startswith(name + " "):
            yield f"{note!r} is not of {name}"


def check_deepspeed_batch(box):
    """A file counts the micro-batch for each replica, which the options make of --tp GPUs."""
    box.write("ds-micro.json", {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4})
    for options, expected in (("", (4, 4)), ("--tp 2", (2, 8)), ("--gpus 2", (4, 8)),
                              ("--batch 8", (8, 2))):
        line = f"simulate -m gpt2 -H flat-test -s zero1 --deepspeed ds-micro.json {options} --json"
        settings = answer_of(box.run(line).out)["settings"]
        if (settings["micro_batch"], settings["grad_accum"]) != expected:
            yield f"{options}: {settings['micro_batch']} times {settings['grad_accum']}"


def check_deepspeed_slicing(box):
    """What is written for sliced tensors is read back as that, without --tp; DeepSpeed's own class
    takes it with an mpu and without."""
    line = "simulate -m llama-3.1-70b -H dgx-h100 --nodes 4 --json"
    asked = answer_of(box.run(f"{line} --tp 8 --batch 1 --write-deepspeed ds-tp.json").out)
    config = json.loads((box.folder / "ds-tp.json").read_text(encoding="utf-8"))
    read = answer_of(box.run(f"{line} --deepspeed ds-tp.json").out)
    for key in ("plan", "strategy", "step_time_s"):
        if read[key] != asked[key]:
            yield f"{key}: {read[key]}, asked {asked[key]}"
    if read["settings"]["tp"] != 8 or config.get("tensor_parallel") != {"autotp_size": 8} or \
            "train_batch_size" in config or config["train_micro_batch_size_per_gpu"] != 8:
        yield f"{config}, read as --tp {read['settings']['tp']}"
    if not any(note.startswith("--write-deepspeed: ") and "mpu" in note for note in asked["notes"]):
        yield f"{asked['notes']}"
    for tp in (1, 4):
        answer = box.run(f"{line} --deepspeed ds-tp.json --tp {tp}")
        if answer.status != 2 or f"--tp {tp}: ds-tp.json has" not in answer.err:
            yield f"--tp {tp}: status {answer.status}, {answer.err}"


def check_batch_typed(box):
    """The batch that is printed can be typed."""
    for line in ("-m llama-3.1-70b -H dgx-h100 --tp 8 --nodes 4", "-m gpt2 -H dgx-h100"):
        text = box.run(f"simulate {line}").out.decode()
        said, batch, step = re.search(r"batch ((\S+) per GPU|.* GPUs, --batch (\S+)), (\S+) in all",
                                      text).expand(r"\1|\2\3|\4").split("|")
        answer = box.run(f"simulate {line} --json --batch {batch} --global-batch {step}")
        if answer.status:
            yield f"{line}: {answer.err}"
        elif f"batch {said}, {step} in all" not in \
                box.run(f"simulate {line} --batch {batch} --global-batch {step}").out.decode():
            yield f"{line}: batch {batch}, {step} in all: is another when typed"


def check_deepspeed_format(box):
    """The file's 16-bit format is the plan's and that of the file that is written for it."""
    for hardware, asked, planned in (("dgx-h100", "fp16", "fp16"), ("dgx-h100", "bf16", "bf16"),
                                     ("dgx-h100", None, "bf16"), ("dgx2", "fp16", "fp16"),
                                     ("dgx2", "bf16", "fp16"), ("dgx2", None, "fp16")):
        box.write("ds-format.json", {asked: {"enabled": True}} if asked else {})
        answer = answer_of(box.run(f"simulate -m gpt2 -H {hardware} -s zero2 --batch 1 --json "
                                   "--deepspeed ds-format.json --write-deepspeed ds-new.json").out)
        written = json.loads((box.folder / "ds-new.json").read_text(encoding="utf-8"))
        said = [note for note in answer["notes"] if note.startswith("bf16")]
        if answer["settings"]["dtype"] != planned or planned not in written:
            yield f"{hardware}, {asked}: {answer['settings']['dtype']}, written {list(written)}"
        if bool(said) != (asked == "bf16" != planned):
            yield f"{hardware}, {asked}: notes {answer['notes']}"


def forget_question(box, name):
    """Takes the question from a plan file."""
    text = (box.folder / name).read_text(encoding="utf-8")
    box.write(name, re.sub("^(asked|chosen) .*\n", "", text, flags=re.MULTILINE))


def check_plan_file(box):
    """A plan file says what the request said that it was made for; without its question all but
    what takes the model."""
    line = f"{FLAT} -s zero-infinity-nvme --optimizer-device nvme --batch 4 --software ideal"
    box.run(f"plan {line} -o state.plan")
    asked = answer_of(box.run(f"simulate {line} --json").out)
    answer = box.run("simulate -H flat-test state.plan --json --trace state.json")
    if answer_of(answer.out) != asked:
        yield "answers otherwise"
    forget_question(box, "state.plan")
    read = answer_of(box.run("simulate -H flat-test state.plan --json").out)
    for key in ("plan", "feasible", "step_time_s", "first_step_time_s", "critical_path_s", "range",
                "bottleneck", "lanes", "channels", "phases", "peak_bytes", "tiers", "ledger",
                "nvme_written_bytes", "drive_life_steps", "provenance"):
        if read[key] != asked[key]:
            yield f"{key}: {read[key]}, asked {asked[key]}"
    for key in ("model", "strategy", "tokens_per_s", "tflops_per_gpu", "mfu", "days"):
        if read[key] is not None:
            yield f"{key}: {read[key]}, which a plan does not say"
    if "traceEvents" not in json.loads((box.folder / "state.json").read_text(encoding="utf-8")):
        yield "no trace"
    for options in ("--set gpu.memory_gib=1.3", "--set nvme.capacity_tb=0"):
        answer = box.run(f"simulate -H flat-test state.plan --json {options}")
        if answer.status != 3 or answer_of(answer.out)["feasible"]:
            yield f"{options}: status {answer.status}, expected 3"
        if "made for another amount of" not in answer.err:
            yield f"{options}: says {answer.err!r}"


def check_machine_as_set(box):
    """What was set of a plan's machine is in its file; a machine that it does not tell is asked
    for, and none is measured in its place."""
    line = f"{FLAT} -s zero-infinity-nvme --optimizer-device nvme --batch 4 --software ideal"
    line += " --set gpu.memory_gib=1.5 --set nvme.read_gb_per_s=1"
    box.run(f"plan {line} -o set.plan")
    asked, read = (answer_of(box.run(f"simulate {words} --json").out)
                   for words in (line, "set.plan"))
    for key in ("step_time_s", "peak_bytes", "tiers", "range", "lanes"):
        if read[key] != asked[key]:
            yield f"{key}: {read[key]}, asked {asked[key]}"
    line = "-m gpt2 -H 2xrtx4090,ram=64 -s zero-offload --batch 1 --set gpu.memory_gib=12"
    box.run(f"plan {line} -o parts.plan")
    asked, read = (answer_of(box.run(f"simulate {words} --json").out)
                   for words in (line, "parts.plan"))
    if read["step_time_s"] != asked["step_time_s"]:
        yield f"of parts: {read['step_time_s']}, asked {asked['step_time_s']}"
    box.write("text.txt", "a few words to train on\n" * 1000)
    box.write("flat-test.ini", "[profile]\ninherits = dgx2\n")
    box.run("plan -m gpt2 -H ./flat-test.ini -s ddp --batch 1 -o path.plan")
    text = (box.folder / "set.plan").read_text()
    machine = re.search(r"(?m)^machine .*\n", text)[0]
    for name, other in (("none", ""), ("empty", "machine \n"), ("unknown", "machine flat-tset\n"),
                        ("wrong", "machine flat-test set gpu.memory_gib=much\n"),
                        ("key", "machine flat-test set gpu.memori=3\n"),
                        ("here", "machine here set gpu.memori=3\n")):
        box.write(f"{name}.plan", text.replace(machine, other))
    for name in ("none", "empty", "unknown", "wrong", "key", "here", "path"):
        for words in (f"simulate {name}.plan", f"run --plan {name}.plan --data text.txt"):
            asks = [] if words.startswith("run --plan empty") else ["-H"]  # it reads the plan first
            for wrong in refused(box.run(words), [f"{name}.plan: ", *asks]):
                yield f"{words}: {wrong}"
    if "flat-test.ini" not in box.run("simulate path.plan").err:
        yield "the plan of a machine's file does not name the file"


def check_plan_software(box):
    """A plan file is answered by the software that the request said, beside ideal software."""
    line = f"{FLAT} -s zero-infinity-nvme --optimizer-device nvme --batch 4 --software ratel"
    box.run(f"plan {line} -o ratel.plan")
    asked, read = (answer_of(box.run(f"simulate {words} --json").out)
                   for words in (line, "ratel.plan"))
    for key in ("software", "ideal_step_time_s", "software_gains", "step_time_s"):
        if key not in asked or read.get(key) != asked[key]:
            yield f"{key}: {read.get(key)}, asked {asked.get(key)}"
    asked, read = (box.run(f"simulate {words}").out.decode().splitlines()
                   for words in (line, "ratel.plan"))
    for label, word in (("software", "ratel; ideal software takes"),
                        ("states", "; update beside backward")):
        told, is_read = ([line for line in lines if line.startswith(label)]
                         for lines in (asked, read))
        if told != is_read or word not in "".join(told):
            yield f"{label}: {is_read}, asked {told}"


def check_plan_machine(box):
    """A plan is asked about on the machine that it was made for; where it is another, a line says
    so."""
    box.run("plan -m gpt2 -H rtx4090 -s zero3 --batch 1 -o machine.plan")
    own = box.run("simulate machine.plan --json")
    if own.status or own.err or answer_of(own.out)["hardware"] != "rtx4090":
        yield f"status {own.status}: {own.err}{own.out[:200]}"
    other = box.run("simulate machine.plan -H dgx2 --json")
    if other.status or "made for machine rtx4090; this answer is for dgx2" not in other.err:
        yield f"of dgx2: status {other.status}: {other.err}"
    path = box.folder / "machine.plan"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("\nmachine rtx4090\n", "\nmachine gone\n"), encoding="utf-8")
    gone = box.run("simulate machine.plan -H rtx4090")
    if gone.status or "made for machine gone; this answer is for rtx4090" not in gone.err:
        yield f"of one that is gone: status {gone.status}: {gone.err}"
    path.write_text(text.replace("\nmachine rtx4090\n", "\n"), encoding="utf-8")
    older = box.run("simulate machine.plan -H rtx4090")
    if older.status or older.err:
        yield f"of an older file: status {older.status}: {older.err}"


def check_attention(box):
    """What attention's rate is taken for is said where that decides the answer, and that all of it
    is counted where kernels skip half."""
    question = "simulate -m llama-3.1-8b --batch 1 --json"
    rate = "--set gpu.attention_dim=1024 --set gpu.attention_tflops=400"
    assumed, whole = "does not say its rate", "count all of it"
    for options, said in (("-H dgx-h100 --seq 131072", {whole}), ("-H dgx-h100 --seq 4096", set()),
                          ("-H flat-test --seq 131072", {assumed, whole}),
                          (f"-H flat-test --seq 131072 {rate}", set())):
        notes = " ".join(answer_of(box.run(f"{question} {options}").out)["notes"])
        if {words for words in (assumed, whole) if words in notes} != said:
            yield f"{options}: {notes}"


def check_unpriced(box):
    """A machine whose price nobody states is named, and marked, where none with a price will do."""
    text = (ROOT / "hwprofiles/rtx4090.ini").read_text(encoding="utf-8")
    text = re.sub("(?m)^price.*\n", "", text)
    text = re.sub("(?m)^memory_gib = .*$", "memory_gib = 12000", text, count=1)
    question = "plan -m llama-3.1-70b -H rtx4090 --seq 500000 --gpus 1 --software ideal"
    none = "no machine that is listed fits; one with 254 GiB more gpu"
    if none not in box.run(question).out.decode():
        yield f"with no such machine: {box.run(question).out}"
    box.write("config/memwall/hwprofiles/vast.ini", text)
    if "remedy        -H vast fits (no price known)\n" not in box.run(question).out.decode():
        yield f"{box.run(question).out}"
    (box.folder / "config/memwall/hwprofiles/vast.ini").unlink()


def laptop(gpu_gib, host_gib, drive_tb):
    """A profile as of a machine that was measured."""
    text = (ROOT / "hwprofiles/rtx4090.ini").read_text(encoding="utf-8")
    text = text.replace("[profile]\n", "[profile]\nmachine = a laptop\n", 1)
    for group, key, value in (("gpu", "memory_gib", gpu_gib), ("host", "memory_gib", host_gib),
                              ("host", "reserve_gib", 1), ("nvme", "capacity_tb", drive_tb),
                              ("nvme", "reserve_tb", drive_tb / 10)):
        text = re.sub(rf"(\[{group}\]\n(?:[^\[]*\n)?{key}) = .*\n", rf"\1 = {value}\n", text,
                      count=1)
    return text


def check_free_space(box):
    """Of a machine that was measured drives are free space: as much as is said, the same share of
    it in reserve, is enough; and how that helps another tier that is short is said."""
    question = "plan -m llama-3.1-8b -H laptop --software memwall"
    for gpu_gib, host_gib, drive_tb, short in (
            (11, 40, 0.06, "nvme"), (8, 40, 0.06, "nvme"), (11, 40, 0.02, "cpu")):
        box.write("config/memwall/hwprofiles/laptop.ini", laptop(gpu_gib, host_gib, drive_tb))
        answer = answer_of(box.run(question + " --json").out)
        help_ = "" if short == "nvme" else f", as nvme then takes what {short} has no room for"
        said = re.fullmatch(rf"with ([0-9.]+) GiB more free space on its drives it fits{help_}: "
                            r"free it, or measure folders that have it \(calibrate --nvme DIR\)",
                            answer["remedy"] or "")
        if not said or answer["limiting_tier"] != short:
            yield f"short is {answer['limiting_tier']}, not {short}: {answer['remedy']!r}"
            continue
        more = drive_tb + float(said[1]) * 2 ** 30 / 1e12
        sets = f"--set nvme.capacity_tb={more} --set nvme.reserve_tb={more / 10}"
        if not answer_of(box.run(f"{question} {sets} --json").out)["feasible"]:
            yield f"{answer['remedy']!r}, and it does not"
    (box.folder / "config/memwall/hwprofiles/laptop.ini").unlink()


def check_nearest(box):
    """Where no strategy fits the one that is said is nearest: by its worst tier, as a share."""
    for question in sixth(("simulate -m zi-20t -H rtx3090",
                           "simulate -m deepseek-v3 -H aws-g6e-12xlarge")):
        worst = {}
        for strategy in ("auto", "zero-offload", "zero-infinity-cpu", "zero-infinity-nvme"):
            answer = answer_of(box.run(f"{question} -s {strategy} --json").out)
            worst[strategy] = max(tier["peak_bytes"] / tier["capacity_bytes"]
                                  for tier in answer["tiers"].values())
        if worst["auto"] > min(worst.values()):
            yield f"{question}: {worst}"


def check_surplus(box):
    """A batch a little over the table's is not explained as less than it."""
    over = 0
    for gib in (40, 41, 42):
        answer = answer_of(box.run("simulate -m gpt2 -H h100 --grad-accum 8 --json "
                                   "--activation-checkpoint-interval 0 --logits-chunks 1 "
                                   f"--software ideal --set gpu.memory_gib={gib}").out)
        settings = answer["settings"]
        one_more = (settings["global_batch"] + 8) * settings["seq"]
        note = next(n for n in answer["notes"] if n.startswith("default global batch: "))
        if settings["tokens_per_step"] > 500e3 and one_more <= 525e3:
            over += 1
            if ", by the 500k tokens " not in note or ", as " in note:
                yield f"{gib} GiB: {note}"
    if not over:
        yield "no batch was over the table's with room for more"


def check_no_price(box):
    """What nobody knows the price of is not best for money, and which keys set it is said."""
    question = "simulate -m gpt2 -H dgx-h100 --tokens 300B"
    none = "--set node.price_usd_per_hour=0 "
    for options, good, bad in (
            (none, [", no price known (--set node.price_usd_per_hour or node.price_usd)\n",
                    "\nbest to add (no price known): 1 more node (2 in all) -> "],
             ["best for money", "tokens per USD"]),
            ("--set node.price_usd_per_hour=50",
             [" USD of rent, ",
              "\nfaster, but each token costs more: 1 more node (2 in all, 50.0 USD an hour more) "
              "-> ",
              "x tokens per USD: --nodes 2\n"],
             ["no price known"]),
            (none + "--set node.price_usd=300000",
             ["\nas the owner ",
              "\nfaster, but each token costs more: 1 more node (2 in all, 300000 USD more) -> "],
             ["no price known"]),
            (none + "-s ddp,zero2", [" kWh, no price known\n", "\nddp: 300B tokens in "], [])):
        text = box.run(f"{question} {options}").out.decode()
        yield from (f"{options}: no {part!r}" for part in good if part not in text)
        yield from (f"{options}: {part!r}" for part in bad if part in text)


KEYS = ["feasible", "limiting_tier", "short_bytes", "step_time_s", "first_step_time_s",
        "tflops_per_gpu", "efficiency", "mfu", "tokens_per_s", "bottleneck", "peak_bytes", "lanes",
        "closed_form", "nvme_written_bytes", "drive_life_steps", "provenance", "days", "cost_usd",
        "energy_kwh"]


def check_json(box):
    line = f"simulate {FLAT} -s zero-infinity-nvme --optimizer-device nvme --batch 4 --tokens 1e9"
    answer = answer_of(box.run(line + " --json").out)
    for key in KEYS:
        if key not in answer:
            yield f"no {key}"
    if set(answer["peak_bytes"]) != {"gpu", "cpu", "nvme"}:
        yield f"peak_bytes {answer['peak_bytes']}"
    if not all({"name", "busy_s", "exposed_s"} <= set(lane) for lane in answer["lanes"]):
        yield "lanes lack something"
    form = answer["closed_form"]
    listed = sum(term["paper_s"] - term["plan_s"] for term in answer["terms"])
    if abs(listed - (form["paper"] - form["plan"])) > 1e-9 * form["plan"]:
        yield f"terms differ by {listed}, the forms by {form['paper'] - form['plan']}"
    row = next(csv.DictReader(io.StringIO(box.run(line + " --csv").out.decode())))
    for key in ("step_time_s", "nvme_written_bytes", "provenance"):
        if str(answer[key]) != row[key] and float(answer[key]) != float(row[key]):
            yield f"{key}: JSON {answer[key]}, CSV {row[key]}"


def figures(value, path=()):
    """Every number of an answer, by where it stands."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from figures(member, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from figures(member, (*path, index))
    else:
        yield path, value


def check_unsaid(box):
    """What was not computed is null: of a row beside others, of a plan file, of no layers."""
    line = f"simulate {FLAT} --batch 2 --json -s "
    whole = dict(figures(answer_of(box.run(line + "zero3").out)))
    rows = answers_of(box.run(line + "zero3,zero2").out)
    row = dict(figures(rows[0]))
    for path in (("closed_form", "paper"), ("closed_form", "plan"), ("critical_path_s",),
                 ("closed_form", "efficiency", "parameters")):
        if row[path] is not None or not whole[path] > 0:
            yield f"{path}: {row[path]} in a row, {whole[path]} alone"
    for path, value in row.items():
        if value == 0 and whole.get(path) and value is not False:
            yield f"{path}: {value} in a row, {whole[path]} alone"
    for key in ("default_step_tokens", "undelayed_step_time_s", "tokens", "days", "cost_usd"):
        if {**rows[0], **rows[0]["settings"]}[key] is not None:
            yield f"{key}, which was not asked for: {rows[0].get(key)}"
    box.run(f"plan {FLAT} -s zero3 --batch 1 -o unsaid.plan")
    forget_question(box, "unsaid.plan")
    answer = answer_of(box.run("simulate -H flat-test unsaid.plan --json").out)
    for key in ("params", "active_params", "paper_params", "paper"):
        if answer[key] is not None:
            yield f"of a plan file: {key} {answer[key]}"
    for key in ("param_loads", "prefetch", "partition"):
        if answer["settings"][key] is not None:
            yield f"of a plan file: {key} {answer['settings'][key]}"
    whole = answer_of(box.run(f"simulate {FLAT} -s zero3 --batch 1 --json").out)
    for key in ("tp", "seq", "grad_accum", "tiles", "checkpoint_interval", "micro_batch",
                "global_batch", "param_device", "optimizer_device", "dtype", "commit"):
        if answer["settings"][key] != whole["settings"][key]:
            yield f"of a plan file: {key} {answer['settings'][key]}, not {whole['settings'][key]}"
    line = "plan -m gpt3-175b -H rtx4090 --set gpu.memory_gib=1.4 --largest --json"
    none = json.loads(box.run(line).out)["largest"][0]
    if (none["layers"], none["params"], none["paper_params"]) != (0, None, None):
        yield f"no layer fits: {none}"
    for options in ("--pp 4", "--pp 4 --schedule interleaved --virtual-stages 2 --grad-accum 4"):
        line = f"plan -m gpt3-13b -H dgx2 -s zero1 --batch 1 {options} --software ideal"
        [most] = json.loads(box.run(f"{line} --largest --json").out)["largest"]
        step = 8 if "interleaved" in options else 1
        shape = "architecture=gpt2,hidden=5120,heads=40,vocab=50304,seq=2048"
        verdicts = [box.run(line.replace("gpt3-13b", f"layers={most['layers'] + more},{shape}")
                            + " --seq 2048").status for more in (0, step)]
        if most["layers"] % step or verdicts != [0, 3]:
            yield f"{options}: {most['layers']} layers, which plans answer with {verdicts}"


# The shape and machine, and the batch with which micro-batches are summed.
SUMMED = ("hidden=5120,heads=40,seq=1024", "-H dgx-h100 --set gpu.memory_gib=16 "
          "--software memwall --global-batch 32")


def check_largest(box):
    """Of the batch that is asked for: what --largest says fits, and no layer more.  All rows are of
    one software, which the answer names; a strategy by itself may have another."""
    shape, words = SUMMED
    lines = json.loads(box.run(f"plan -m layers=40,{shape} {words} -s zero2,zero3 --largest "
                               "--json").out)
    for row in lines["largest"]:
        verdicts = [box.run(f"simulate -m layers={row['layers'] + more},{shape} {words} "
                            f"-s {row['strategy']}").status for more in (0, 1)]
        if verdicts != [0, 3]:
            yield f"{row}: simulate answers with {verdicts}"
    line = "plan -m layers=24,hidden=2048,heads=16,seq=1024 -H rtx4090 --optimizer adafactor"
    for words in ("", "-s ddp", "-s ddp --software memwall"):
        answer = json.loads(box.run(f"{line} {words} --largest --json").out)
        software = answer["software"]
        named = json.loads(box.run(f"{line} {words} --software {software} --largest --json").out)
        if answer != named:
            yield f"{words}: {answer}, and of {software}: {named}"
        if f"software {software}\n" not in box.run(f"{line} {words} --largest").out.decode():
            yield f"{words}: the table does not name {software}"


# What fits in more tiles, or chunks of the logits, than a plan may have ops.
MANY = ("-m gpt3-175b -H rtx4090 --set gpu.memory_gib=3.5 --set nvme.capacity_tb=30 "
        "--set host.memory_gib=4000 --batch 1 --seq 256 --software ideal")


def check_many_ops(box):
    """Micro-batches are no reason to refuse a step: memory alone decides."""
    for strategy in ("auto", "zero-infinity-nvme"):
        done = box.run(f"simulate {MANY} --grad-accum 32 -s {strategy}")
        if done.status != 0:
            yield f"-s {strategy}: status {done.status}: {done.err}"
    done = box.run(f"simulate {MANY} --grad-accum 32 -s zero2,zero-infinity-nvme --json")
    if [row["feasible"] for row in answers_of(done.out)] != [False, True]:
        yield f"several: status {done.status}: {done.err}"


# Steps of so many micro-batches that they are said once.
LARGE = ["-m gpt3-13b -H dgx-h100 --batch 1 --grad-accum 1000",
         "-m gpt3-175b -H dgx2 --nodes 4 --grad-accum 4096",
         "-m gpt3-175b -H dgx2 --global-batch 1048576",
         "-m llama-3.1-70b -H rtx4090 --global-batch 512 --software memwall",
         "-m llama-3.1-8b -H dgx-h100 --nodes 16 --global-batch 8388608",
         "-m llama-3.1-8b -H dgx-h100 --batch 1 --global-batch 8192",
         "-m llama-3.2-3b -H h200 --global-batch 4096"]


def check_large(box, line):
    """They are answered at once; lanes are busy as in a step of few, and never beyond the step."""
    answer, took = cpu_s(box, f"simulate {line} --json")
    if answer.status or took > 10:
        yield f"status {answer.status} in {took} s: {answer.err}"
        return
    many = answer_of(answer.out)
    for lane in many["lanes"]:
        if not 0 <= lane["exposed_s"] <= lane["busy_s"] <= many["step_time_s"] * 1.0001:
            yield f"{lane} in a step of {many['step_time_s']} s"
    words = line.split()
    if "--global-batch" in words:
        return
    # So many that the update, of which a step has one, takes about as small a share of both.
    few = answer_of(box.run(["simulate", *words[:-1], "30", "-s", many["strategy"],
                             "--json"]).out)
    for name in ("busy_s", "exposed_s"):
        shares = [next(lane[name] for lane in one["lanes"] if lane["name"] == "compute") /
                  one["step_time_s"] for one in (few, many)]
        if abs(shares[0] - shares[1]) > 0.02:
            yield f"compute {name}: {shares} of the step"
    if abs(many["tokens_per_s"] / few["tokens_per_s"] - 1) > 0.05:
        yield f"{many['tokens_per_s']} tokens/s, of 30 micro-batches {few['tokens_per_s']}"


def cpu_s(box, line):
    """The answer, and the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = box.run(line)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return answer, after.ru_utime - before.ru_utime


def check_many_layers(box):
    """A hundred thousand are said once, of a split state too; else they are refused
    by arithmetic."""
    config = {"model_type": "gpt2", "n_layer": 100000, "n_embd": 32, "n_head": 4,
              "n_positions": 24, "vocab_size": 256}
    box.write("many.json", config)
    line = "simulate -H rtx4090 -s zero-infinity-nvme --batch 1 --param-device nvme --json -m "
    answer, took = cpu_s(box, line + "./many.json")
    if answer.status or took > 20:
        yield f"100000 layers: status {answer.status} in {took} s: {answer.err}"
    split, took = cpu_s(box, line.replace("--param-device nvme", "--optimizer-device cpu:1GB,nvme")
                        + "./many.json")
    if split.status or took > 30:
        yield f"a split state: status {split.status} in {took} s: {split.err}"
    refused, took = cpu_s(box, "simulate -m ./many.json -H rtx4090 -s zero-offload --dpu-start 1")
    said = re.search(r"100000 layers make a step of \d+ ops with .*; give (\d+) layers or fewer\n",
                     refused.err)
    if refused.status != 2 or not said or took > 20:
        yield f"a delayed update: status {refused.status} in {took} s: {refused.err}"


def check_few_tokens(box):
    """A training is one step at least."""
    text = box.run(f"simulate {FLAT} -s zero3 --batch 1 --tokens 1").out.decode()
    if not re.search(r"^training +1 token in ", text, re.M) or re.search(r" 0 (USD|kWh)", text):
        yield f"one token: {text[-2000:]}"
    line = f"simulate {FLAT} -s zero3 --batch 1 --json --tokens "
    step = answer_of(box.run(line + "1").out)
    for tokens in (1, 100, step["settings"]["tokens_per_step"]):
        answer = answer_of(box.run(line + f"{tokens:.15g}").out)
        said = any(note.startswith("--tokens ") for note in answer["notes"])
        if abs(answer["days"] * 86400 / answer["step_time_s"] - 1) > 1e-9 or said == (
                tokens == step["settings"]["tokens_per_step"]):
            yield f"{tokens} tokens: {answer['days']} days, {answer['notes']}"


KEYS_SET = {  # what is set: what its note must say; None: none
    "-H flat-test --set nvme.drives=4": "--set nvme.drives: changes no rate",
    "-H flat-test --set nvme.drives=4 --set nvme.read_gb_per_s=20": "the plan keeps nothing",
    "-H flat-test --set nvme.latency_us=90 --set nvme.duplex=2":
        "--set nvme.duplex, nvme.latency_us",
    "-H flat-test --set nvme.latency_us=90 -s zero-infinity-nvme --optimizer-device nvme": None,
    "-H flat-test --set network.latency_us=3": "--nodes N do",
    "-H flat-test --set network.latency_us=3 --nodes 2": None,
    "-H flat-test --gpus 1 --set fabric.latency_us=3": "one GPU per node",
    "-H flat-test --set nvme.capacity_tb=0": None,
    "-H flat-test --set gpu.launch_us=3": None,
    "-H flat-test --set software.memory.activations_kept=2 --activation-checkpoint-interval 1":
        "every layer is recomputed by itself",
    "-H flat-test --set software.memory.activations_kept=2 --activation-checkpoint-interval 0":
        None,
    "-H flat-test --set software.memory.activations_kept=2 --activation-checkpoint-interval 1 "
    "--recompute-layers 3": None,
}


def check_keys_set(box, options, words):
    """A key that was set and changes nothing is said to."""
    answer = answer_of(box.run(f"simulate -m gpt2-xl --batch 1 {options} --json").out)
    said = [note for note in answer["notes"] if note.startswith("--set ")]
    if len(said) != (words is not None) or (said and words not in said[0]):
        yield f"{said}, not {words}"


def check_length(box):
    """Beyond the positions that a model is made for it is planned, with a note."""
    for seq, notes in ((131072, 0), (200000, 1)):
        answer = answer_of(box.run(f"simulate -m llama-3.1-8b -H dgx-h100 --batch 1 --seq {seq} "
                                   "--json").out)
        said = [note for note in answer["notes"] if note.startswith(f"--seq {seq}: ")]
        if len(said) != notes:
            yield f"{seq}: {answer['notes']}"


def check_verdict(box):
    """The sentence has the sequence length, and says of what each figure is."""
    text = box.run(f"simulate {FLAT} -s zero3 --batch 2 --seq 512").out.decode()
    refused = box.run("simulate -m gpt3-13b -H rtx4090 -s zero2").out.decode()
    rows = box.run(f"simulate {FLAT} -s zero3,zero2 --batch 2 --seq 512").out.decode()
    for said, words in ((text, "with zero3, sequences of 512 tokens\n"),
                        (text, "tokens per step (batch 2 per GPU, 8 in all)"),
                        (text, "\nmemory        per GPU: gpu "),
                        (refused, "GiB short per GPU\n"),
                        (refused, "with zero2, sequences of 2048 tokens: gpu is "),
                        (rows, ", sequences of 512 tokens; batch and memory per GPU\n")):
        if words not in said:
            yield f"no {words!r}: {said[:400]}"


DETAILS = ["exposed       ", "closed form   ", "\nLanes (", "\nChannels (",
           "\nPhases\n", "\nTerms in which "]


def check_details(box):
    """What decides comes in some dozen lines; the rest with --details.  JSON is the same."""
    line = f"simulate {FLAT} -s zero-infinity-nvme --optimizer-device nvme --batch 4"
    brief, whole = (box.run(line + more).out.decode() for more in ("", " --details"))
    if len([row for row in brief.splitlines() if row]) > 14 or "best single change: " not in brief:
        yield f"over 14 lines: {brief}"
    yield from (f"{words!r} without --details" for words in DETAILS if words in brief)
    yield from (f"no {words!r} with --details" for words in DETAILS if words not in whole)
    labels = [row[:14] for row in whole.splitlines()]
    for row in brief.splitlines():
        if row[:14] not in labels:
            yield f"not with --details: {row!r}"
    if "\nWhat if " not in box.run(f"{line} --what-if").out.decode():
        yield "--what-if needs --details"
    if box.run(f"{line} --json").out != box.run(f"{line} --json --details").out:
        yield "--json differs with --details"
    box.run(f"plan {FLAT} -s zero3 --batch 1 -o details.plan")
    if "\nLanes (" not in box.run("simulate details.plan --details").out.decode():
        yield "of a plan file: no lanes"


NOT_DURABLE = {  # request: why its steps are not durable
    "llama-3.1-8b -s zero-infinity-nvme --optimizer-device nvme --set nvme.capacity_tb=0.35":
        "the drives lack room",
}


def check_not_durable(box, options, why):
    """It names the memory that lacks room."""
    notes = answer_of(box.run(f"simulate -H rtx4090 --json -m {options}").out)["notes"]
    said = [note for note in notes if note.startswith("steps are not durable (--commit none): ")]
    if len(said) != 1 or not re.search(why, said[0]):
        yield f"{notes}"


def check_short_for_commits(box):
    """The host has room for a plan, and hardly more."""
    options = ("-m llama-3.1-70b -H rtx4090 --train qkv --weight-bits 4 --software ideal --batch 9 "
               "--grad-accum 62 --param-device cpu --optimizer-device nvme --gradient-device cpu "
               "--activation-device cpu --json")
    cpu = answer_of(box.run(f"simulate {options} --commit none").out)["tiers"]["cpu"]
    room = (cpu["need_bytes"] + cpu["reserve_bytes"]) / 2**30 + 0.01
    notes = answer_of(box.run(f"simulate {options} --set host.memory_gib={room}").out)["notes"]
    if not any(re.search(r"\(--commit none\): commits take .* of cpu memory, .* more than", note)
               for note in notes):
        yield f"{room} GiB: {notes}"


def check_efficiency(box):
    """A share of what can be had, at both ends too, where attention is nearly all of the FLOPs."""
    for line in ("-H dgx-h100 --seq 131072", "-H a100 --seq 131072", "-H gh200 --seq 131072",
                 "-H dgx-h100 --set gpu.memory_gib=4000 --seq 1048576", "-H flat-test --seq 32768"):
        answer = answer_of(box.run(f"simulate -m llama-3.1-8b {line} --batch 1 --json").out)
        ends = answer.get("range", {}).get("efficiency", {"high": 0})
        if not answer["feasible"]:
            yield f"{line}: does not fit"
        elif not 0.5 < answer["efficiency"] < 1 + 1e-6 or ends["high"] > 1 + 1e-6:
            yield f"{line}: efficiency {answer['efficiency']}, at best {ends['high']}"


MODELS = ("gpt2", "gpt3-1.3b", "llama-3.1-8b", "opt-30b")
MACHINES = ("rtx4090", "rtx3090", "dgx2", "dgx-h100", "gh200", "aws-g5-12xlarge",
            "paper-v100-cluster")


def plain(text):
    """Times in seconds, what else has a range without its unit."""
    number, _, unit = text.partition(" ")
    return float(number) * {"": 1, "ms": 1e-3, "s": 1, "hours": 3600}[unit]


def check_ranges(box):
    """What is typical lies between the ends that stand beside it, in JSON and in the table."""
    outside, fitting = 0, 0
    asked = sample([f"-m {model} -H {machine}" for model in MODELS for machine in MACHINES])
    for line in asked:
        answer = answer_of(box.run(f"simulate {line} --tokens 1e9 --json").out)
        fitting += answer["feasible"]
        for key, ends in answer["range"].items():
            if not ends["low"] <= answer[key] <= ends["high"]:
                yield f"{line}: {key} {answer[key]}, said {ends}"
        text = box.run(f"simulate {line}").out.decode()
        number = r"([0-9.]+(?: m?s| hours)?)"
        for value, low, high in re.findall(rf"{number} \({number} \.\. {number}", text):
            outside += 1
            if not plain(low) <= plain(value) <= plain(high):
                yield f"{line}: {value} ({low} .. {high})"
    if outside < fitting or fitting < len(asked) - 2:
        yield f"{outside} ranges in the tables of {fitting} questions"


def check_compared(box):
    """A row of compared strategies says what the strategy's own answer does."""
    names = ("zero-offload", "zero-infinity-cpu")
    line = "simulate -m gpt2-xl -H rtx4090 --batch 1 --tokens 1B -s "
    table = box.run(line + ",".join(names)).out.decode()
    rows = list(csv.DictReader(io.StringIO(box.run(line + ",".join(names) + " --csv").out
                                           .decode())))
    answers = answers_of(box.run(line + ",".join(names) + " --json").out)
    for name, row, answer in zip(names, rows, answers, strict=True):
        alone = answer_of(box.run(f"{line}{name} --json").out)
        ends = alone["range"]["step_time_s"]
        said = (float(row["step_time_s_low"]), float(row["step_time_s_high"]))
        if said != (ends["low"], ends["high"]) or answer["range"] != alone["range"]:
            yield f"{name}: {said} and {answer['range']} in a row, alone {alone['range']}"
        text = box.run(line + name).out.decode()
        training = re.search("^training +(.+)", text, re.M).group(1)
        if f"\n{name}: {training}" not in table:
            yield f"{name}: not {training} in {table}"


def check_group_note(box):
    """A whole --batch where GPUs share sequences is often meant for all of them."""
    for options, words in (("--tp 8 --batch 1", "8 that share sequences have 8 in a micro-batch; "
                            "--batch 0.125 gives them 1"),
                           ("--tp 4 --cp 2 --batch 2", "8 that share sequences have 16 in a "
                            "micro-batch; --batch 0.25 gives them 2"),
                           ("--tp 8 --batch 0.125", None), ("--tp 8", None),
                           ("--batch 1 -s zero3", None), ("--pp 8 --batch 1", None)):
        answer = answer_of(box.run(f"simulate -m gpt3-13b -H dgx-h100 --grad-accum 8 {options} "
                                   "--json").out)
        said = [note for note in answer["notes"] if "that share sequences have" in note]
        if len(said) != (words is not None) or (words and words not in said[0]):
            yield f"{options}: {said}"


def check_group(box):
    """Where GPUs share a sequence, texts count whole ones of the group."""
    line = "-m gpt3-13b -H dgx-h100 --tp 8 --batch 0.375"
    for verb, said in (("plan -s zero2", "sequences per group of 8 GPUs +3\n"),
                       ("simulate -s zero2", r"\(batch 3 per group of 8 GPUs, --batch 0.375, ")):
        text = box.run(f"{verb} {line}").out.decode()
        if not re.search(said, text) or re.search("0.375 per|per GPU +0.375", text):
            yield f"{verb}: {text}"
    text = box.run(f"simulate {line} -s zero2,zero3").out.decode()
    if "batch per group of 8 GPUs, memory per GPU\n" not in text:
        yield f"compared: {text}"


def check_mfu(box):
    """Of flash attention's scores the second forming is no work of the model; above the best
    published a caution says so."""
    for line, over in (("-m llama-3.1-8b -H a100 -s zero3 --batch 1 --seq 131072 "
                        "--set gpu.memory_gib=4000 --activation-checkpoint-interval 0", True),
                       ("-m gpt2 -H rtx4090 --batch 1", False)):
        answer = answer_of(box.run(f"simulate {line} --json").out)
        text = box.run(f"simulate {line}").out.decode()
        said = re.search("^caution +MFU of [0-9.]+% is above the best published, 64.2%", text,
                         re.M)
        cautions = re.findall("^caution +(.+)", text, re.M)
        if answer["cautions"] != cautions:
            yield f"{line}: {answer['cautions']} in JSON, {cautions} in text"
        if (answer["mfu"] > answer["mfu_published"]) != over or bool(said) != over:
            yield f"{line}: MFU {answer['mfu']}, {answer['mfu_published']} published, {said}"
    kept = answer_of(box.run("simulate -m llama-3.1-8b -H a100 -s zero3 --batch 1 --seq 131072 "
                             "--set gpu.memory_gib=4000 --activation-checkpoint-interval 0 "
                             "--json").out)
    peak = kept["mfu"] / kept["tflops_per_gpu"]
    again = answer_of(box.run("simulate -m llama-3.1-8b -H a100 -s zero3 --batch 1 --seq 1024 "
                              "--set gpu.memory_gib=4000 --activation-checkpoint-interval 0 "
                              "--json").out)
    if not peak < 0.93 * again["mfu"] / again["tflops_per_gpu"]:
        yield "scores formed again count as work of the model"


def check_cost(box):
    """Rent where it is known, else the owner's share of the price; electricity, as usual if nobody
    says what it costs."""
    def ask(*sets):
        line = f"simulate {FLAT} -s zero3 --batch 1 --nodes 2 --tokens 1e9 --json"
        return answer_of(box.run(line + "".join(f" --set node.{s}" for s in sets)).out)

    answer = ask()
    rent, share = answer["days"] * 24 * 10 * 2, 100000 * 2 * answer["days"] / (365.25 * 5)
    energy, usual = answer["energy_kwh"] * 0.25, answer["energy_kwh"] * 0.16
    paid = answer["owned_cost"]["pay_usd"]
    if abs(paid / (200000 + usual) - 1) > 1e-9:
        yield f"to pay {paid}"
    for sets, basis, cost, owned, source in (
            ((), "rent", rent, share + usual, "default"),
            (("price_usd_per_hour=0",), "owned", share + usual, share + usual, "default"),
            (("price_usd_per_hour=0", "electricity_usd_per_kwh=0"), "owned", share, share,
             "default"),
            (("price_usd=0",), "rent", rent, None, None),
            (("price_usd=0", "price_usd_per_hour=0"), None, None, None, None),
            (("amortisation_years=2.5", "electricity_usd_per_kwh=0.25"), "rent", rent,
             2 * share + energy, "user"),
            (("electricity_usd_per_kwh=0.25", "power_w=0"), "rent", rent, share, "default")):
        answer = ask(*sets)
        mine = answer["owned_cost"] or {"usd": None, "amortisation_provenance": None}
        for name, got, expected in (("cost", answer["cost_usd"], cost),
                                    ("owned", mine["usd"], owned)):
            if (got is None) != (expected is None) or got and abs(got / expected - 1) > 1e-9:
                yield f"{sets}: {name} {got}, expected {expected}"
        if (answer["cost_basis"], mine["amortisation_provenance"]) != (basis, source):
            yield f"{sets}: {answer['cost_basis']}, {mine}"
    text = box.run(f"simulate {FLAT} -s zero3 --batch 1 --tokens 1e9").out.decode()
    for words in ("USD of rent",
                  "100k USD per node over 5 years (default); ",
                  "USD of it electricity at 0.16 USD per kWh (default; 0.08 .. 0.31)"):
        if words not in text:
            yield f"no {words!r}"


def check_wear(box):
    """Drives that wear out before the training ends are counted, and paid for by who owns them."""
    line = (f"simulate {FLAT} -s zero-infinity-nvme --optimizer-device nvme --batch 4 --nodes 2 "
            "--tokens 1e9 --set node.price_usd_per_hour=0 --set nvme.capacity_tb=0.09 "
            "--set nvme.endurance_tbw=")  # over 1000 times the capacity: of no known price

    def ask(options):
        answer = answer_of(box.run(f"{line}{options} --json").out)
        told = [c for c in answer["cautions"] if c.startswith("drives wear out before ")]
        return answer, told, " ".join(box.run(f"{line}{options}").out.decode().split())

    lasting, told, text = ask(10000)
    if lasting["drive_sets"] != 1 or told or "sets of drives" in text:
        yield f"drives that last: {lasting['drive_sets']} sets, {told}"
    worn, told, text = ask(100)
    sets = math.ceil(1e9 / worn["settings"]["tokens_per_step"] / worn["drive_life_steps"])
    if worn["drive_sets"] != sets or sets < 2:
        yield f"{worn['drive_sets']} sets, not {sets}"
    if len(told) != 1 or f" {sets} sets of a node's drives" not in told[0] or \
            "not in the cost (--set nvme.price_usd" not in told[0] or told[0] not in text or \
            f", {sets} sets of drives" not in text:
        yield f"says {told}, {text}"
    if worn["cost_usd"] != lasting["cost_usd"]:
        yield f"cost {worn['cost_usd']} without a price of drives, not {lasting['cost_usd']}"
    used = 1e9 / worn["settings"]["tokens_per_step"] / worn["drive_life_steps"]
    share = worn["days"] / 365.25 / 5
    drives = 2 * 3000 * (used - share)
    for options, cost, words in (
            ("", worn["cost_usd"] + drives, "USD to pay; the cost has the wear"),
            (" --set node.price_usd_per_hour=10", worn["days"] * 24 * 10 * 2,
             "the rent does not say"),
            (" --set node.price_usd=0", None, "not in the cost")):
        priced, told, text = ask(f"100 --set nvme.price_usd=3000{options}")
        got = priced["cost_usd"]
        if (got is None) != (cost is None) or cost and abs(got / cost - 1) > 1e-9:
            yield f"{options}: cost {got}, not {cost}"
        if len(told) != 1 or words not in told[0]:
            yield f"{options}: says {told}"
        if priced["owned_cost"] and abs(priced["owned_cost"]["drives_usd"] / drives - 1) > 1e-9:
            yield f"{options}: {priced['owned_cost']}, not {drives} for drives"
    priced, _, text = ask("100 --set nvme.price_usd=3000 --set nvme.read_gb_per_s=5;20;40")
    end, owned = priced["range"]["cost_usd"]["high"], priced["owned_cost"]
    times = priced["range"]["days"]["high"] / priced["days"]
    energy = owned["energy_usd"] * 0.31 / 0.16 * priced["range"]["energy_kwh"]["high"] / \
        priced["energy_kwh"]
    share = priced["days"] / 365.25 / 5
    slow = owned["machine_usd"] * times + energy + 2 * 3000 * (used - share * times)
    if abs(end / slow - 1) > 1e-9 or "drive wear" not in text:
        yield f"range {priced['range']}, expected {slow}; {text}"
    paid = 2 * 100000 + owned["energy_usd"] + 2 * (sets - 1) * 3000
    if abs(owned["pay_usd"] / paid - 1) > 1e-9:
        yield f"to pay {owned}"
    yield from check_little_wear(box)


def check_little_wear(box):
    """A drive of which a part of the life is used costs that part, by the price of its kind."""
    line = ("simulate -m llama-3.1-8b -H rtx4090 --batch 8 --grad-accum 64 --tokens 10B --json "
            "-s zero-infinity-nvme")
    answer = answer_of(box.run(line).out)
    owned = answer["owned_cost"]
    used = 10e9 / answer["settings"]["tokens_per_step"] / answer["drive_life_steps"]
    wear = 4 * 110 * (used - answer["days"] / 365.25 / 5)
    if not 0.1 < used < 1 or abs(owned["drives_worn"] / used - 1) > 1e-9 or \
            abs(owned["drives_usd"] / wear - 1) > 1e-9 or \
            "parts.csv" not in owned["drives_price_from"]:
        yield f"{used} of the drive, {wear} USD: {owned}"
    if abs(owned["usd"] / (owned["machine_usd"] + owned["energy_usd"] + wear) - 1) > 1e-9:
        yield f"{owned}"


def shares(answer):
    """Of the step: each lane and channel, and the latency of collectives."""
    step = answer["step_time_s"]
    of_lanes = {lane["name"] + " lane": lane["busy_s"] / step for lane in answer["lanes"]}
    of_channels = {c["name"] + " channel": c["busy_s"] / step for c in answer["channels"]}
    return {**of_lanes, **of_channels, "collective latency": answer["collective_latency_s"] / step}


# Nodes whose network has a latency and a rate, and what a step has most of.
BOUND = [
    ("--nodes 1", "compute lane"),
    ("--nodes 4 --set network.latency_us=0", "compute lane"),
    ("--nodes 4 --set network.latency_us=3000", "collective latency"),
    ("--nodes 4 --set network.latency_us=40", "collective lane"),  # neither latency nor nic alone
    ("--nodes 4 --set network.latency_us=0 --set network.gb_per_s=1", "nic channel"),
]


def check_bound(box, options, name):
    """The bottleneck is what the step has most of; where it is latency, a row shows it."""
    line = f"simulate {FLAT} -s zero3 --batch 1 {options} --what-if"
    answer = answer_of(box.run(f"{line} --json").out)
    share = shares(answer)
    if answer["bottleneck"] != name or abs(answer["bottleneck_share"] - share[name]) > 1e-6:
        yield f"{answer['bottleneck']} {answer['bottleneck_share']}, not {name} {share}"
    if max(share["compute lane"], share["collective latency"]) > share[name]:
        yield f"{name} has less than others: {share}"
    text = box.run(line).out.decode()
    said = f"\nbottleneck    {name}, {'' if name.endswith('latency') else 'busy '}"
    if said not in text:
        yield f"no {said!r}"
    rows = [row for row in answer["what_if"] if row["what"] == "collective latency"]
    if not answer["collective_latency_s"]:
        yield from ([f"rows without latency: {rows}"] if rows else [])
        return
    steps = [row["step_time_s"] for row in rows]
    if [row["factor"] for row in rows] != [2, 0.5, 0] or \
            not steps[0] >= answer["step_time_s"] >= steps[1] >= steps[2]:
        yield f"rows {rows}"
    if name == "collective latency" and \
            steps[2] > min(row["step_time_s"] for row in answer["what_if"]):
        yield f"another row gains more: {answer['what_if']}"


def check_many_nodes(box):
    """A ring of many nodes waits for its hops, and not for what it carries."""
    line = "simulate -m llama-3.1-8b -H dgx-h100 --nodes 1024"
    answer = answer_of(box.run(f"{line} --json").out)
    if answer["bottleneck"] != "collective latency" or \
            answer["bottleneck_share"] <= shares(answer)["compute lane"]:
        yield f"{answer['bottleneck']}: {shares(answer)}"


def check_delay(box):
    """Steps before --dpu-start are not delayed: neither in the run's days and energy nor alone."""
    def ask(options):
        line = ("simulate -m zo-2b -H dgx2 --gpus 1 -s zero-offload --optimizer-device nvme "
                "--activation-checkpoint-interval 1 "
                "--batch 1 --seq 1024 --set nvme.endurance_tbw=1000 --tokens 1024e3 --commit none "
                f"{options}")
        return (answer_of(box.run(f"{line} --json").out), box.run(line).out.decode())

    plain, _ = ask("--dpu-start 1000") # with drives the strategy is there for the delay alone
    delayed, _ = ask("--dpu-start 0")
    gain = plain["step_time_s"] - delayed["step_time_s"]
    if not gain > 0 or delayed["first_step_time_s"] >= plain["first_step_time_s"]:
        yield f"delayed {delayed['step_time_s']} s, at once {plain['step_time_s']} s"
    for start in (0, 1, 400, 999):
        answer, text = ask(f"--dpu-start {start}")
        days = (1000 * delayed["step_time_s"] + start * gain) / 86400
        if abs(answer["days"] / days - 1) > 1e-9:
            yield f"--dpu-start {start}: {answer['days']} days, expected {days}"
        power = [each["energy_kwh"] / each["days"] for each in (answer, plain)]
        if abs(power[0] / power[1] - 1) > 1e-9:
            yield f"--dpu-start {start}: {answer['energy_kwh']} kWh"
        first = (plain if start else delayed)["first_step_time_s"]
        if (answer["step_time_s"], answer["first_step_time_s"]) != (delayed["step_time_s"], first):
            yield f"--dpu-start {start}: first step {answer['first_step_time_s']} s"
        if answer["drive_life_steps"] != plain["drive_life_steps"]:
            yield f"--dpu-start {start}: drives live {answer['drive_life_steps']} steps"
        if ("before the delay" in text) != (start > 0):
            yield f"--dpu-start {start}: {text}"
    for start in (1000, 1001, 10 ** 9):
        answer, _ = ask(f"--dpu-start {start}")
        for key in ("step_time_s", "first_step_time_s", "days", "energy_kwh", "peak_bytes"):
            if answer[key] != plain[key]:
                yield f"--dpu-start {start}: {key} {answer[key]}, expected {plain[key]}"
        if not any(note.startswith("--dpu-start changes nothing") for note in answer["notes"]):
            yield f"--dpu-start {start}: {answer['notes']}"


def check_calibrated(box):
    """Only a profile that was measured as a whole makes a prediction without a caution."""
    measured = re.sub(r"^(\w+) = .*$", r"\g<0>\n\1.source = measured: 2026-11-21, spread 2%",
                      PROFILE, flags=re.M)
    measured = re.sub(r"^description.source.*\n", "", measured, flags=re.M)
    calibrated = measured.replace("[profile]\n", "[profile]\ncalibrated = 2026-11-21\n")
    box.write("whole.ini", calibrated)
    box.write("undated.ini", measured)
    box.write("part.ini", calibrated.replace("h2d_gb_per_s.source = measured",
                                             "h2d_gb_per_s.source = datasheet"))
    box.write("child.ini", "[profile]\ninherits = whole.ini\n")
    for options, expected in (("-H whole.ini", True), ("-H undated.ini", False),
                              ("-H part.ini", False), ("-H child.ini", False),
                              ("-H whole.ini --set pcie.h2d_gb_per_s=21", False)):
        line = f"simulate -m gpt2 -s zero3 --batch 1 {options}"
        box.run(f"plan -m gpt2 -s zero3 --batch 1 {options} -o calibrated.plan")
        for one in (line, f"simulate calibrated.plan {options}"):
            answer, text = answer_of(box.run(f"{one} --json").out), box.run(one).out.decode()
            if answer["calibrated"] != expected or ("caution" in text) == expected:
                yield f"{one}: calibrated {answer['calibrated']}"
            if expected and answer["provenance"] != "measured":
                yield f"{one}: provenance {answer['provenance']}"
        text = box.run(line.replace("zero3", "zero3,zero2")).out.decode()
        if ("not measured on this machine" in text) == expected:
            yield f"{options}: two strategies"


def check_provenance(box):
    """A figure that is not measured here is never shown as if it were."""
    for hardware in ("flat-test", "dgx2", "rtx4090", "gh200"):
        line = f"simulate -m gpt2 -H {hardware} --batch 1"
        said = answer_of(box.run(line + " --json").out)["provenance"]
        text = box.run(line).out.decode()
        if said == "measured":
            yield f"{hardware}: says measured"
        caution = [row for row in text.splitlines() if row.startswith("caution")]
        if len(caution) != 1 or "not measured on this machine" not in caution[0]:
            yield f"{hardware}: caution {caution}"
    line = "simulate -m gpt2 -H flat-test --batch 1 --set pcie.h2d_gb_per_s=30 --json"
    if answer_of(box.run(line).out)["provenance"] not in ("user", "estimate"):
        yield "--set is not said"


def tests(box):
    yield "tokens", check_tokens(box)
    for options, why in sixth(NOT_DURABLE.items()):
        yield f"not durable: {options}", check_not_durable(box, options, why)
    yield "not durable: the host's memory", check_short_for_commits(box)
    yield "details", check_details(box)
    yield "plan file", check_plan_file(box)
    yield "a plan file's machine, as set", check_machine_as_set(box)
    yield "a plan file's software", check_plan_software(box)
    yield "a plan file's machine", check_plan_machine(box)
    yield "a machine without a price", check_unpriced(box)
    yield "no price", check_no_price(box)
    yield "a batch over the table's", check_surplus(box)
    for options, name in sixth(BOUND):
        yield f"bound: {options}", check_bound(box, options, name)
    yield "bound: many nodes", check_many_nodes(box)
    yield "free space", check_free_space(box)
    yield "attention's rate", check_attention(box)
    yield "DeepSpeed batch", check_deepspeed_batch(box)
    yield "DeepSpeed slicing", check_deepspeed_slicing(box)
    yield "batch typed", check_batch_typed(box)
    yield "DeepSpeed format", check_deepspeed_format(box)
    for options, names in sixth(IDLE.items()):
        yield f"idle: {options}", check_idle(box, options, names)
    yield "invariant-5: json", check_json(box)
    yield "json: unsaid", check_unsaid(box)
    if not FEW:  # large plans, by the code of small ones
        yield "many ops", check_many_ops(box)
        yield "many layers", check_many_layers(box)
    for line in sample(LARGE):
        yield f"large: {line}", check_large(box, line)
    yield "largest", check_largest(box)
    yield "few tokens", check_few_tokens(box)
    for options, words in sixth(KEYS_SET.items()):
        yield f"set: {options}", check_keys_set(box, options, words)
    yield "length", check_length(box)
    yield "verdict", check_verdict(box)
    yield "efficiency", check_efficiency(box)
    yield "compared", check_compared(box)
    yield "a group of GPUs", check_group(box)
    yield "a batch of a group, said", check_group_note(box)
    yield "MFU", check_mfu(box)
    yield "cost", check_cost(box)
    yield "delay", check_delay(box)
    yield "invariant-8: provenance", check_provenance(box)
    yield "invariant-8: calibrated", check_calibrated(box)
    yield from unless_few(("drives that wear out", check_wear(box)),
                          ("the nearest that does not fit", check_nearest(box)),
                          ("ranges", check_ranges(box)))


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
