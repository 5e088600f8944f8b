#!/usr/bin/python3
"""What is said of a ds_config.json beside its answer: where DeepSpeed would do otherwise, by how
many bytes, and where an option contradicts the file; prints TAP.

The command is $MEMWALL, or build/cli/memwall.
"""
import json
import re
import sys

from command import ROOT, Box, answer_of
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in

GPUS = 8
MACHINE = "-m gpt3-1.3b -H dgx-a100"
UNITS = {"KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30}
SIZE = r"([0-9.]+) ([KMG]iB)"


def config(stage, *, accum=4, offload=None, sums=None):
    zero = {"stage": stage}
    if offload:
        zero["offload_optimizer"] = {"device": offload}
    return {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": accum,
            "bf16": {"enabled": True}, "zero_optimization": zero, "optimizer": {"type": "AdamW"},
            **({"data_types": {"grad_accum_dtype": sums}} if sums else {})}


def ask(box, content, options=""):
    box.write("ds.json", content)
    return answer_of(box.run(f"plan {MACHINE} --deepspeed ds.json --json {options}").out)


def sizes(note):
    return [float(value) * UNITS[unit] for value, unit in re.findall(SIZE, note)]


def held(answer):
    """Bytes of gradients at rest a GPU."""
    return sum(row["bytes"] for row in answer["ledger"] if row["purpose"] == "gradients")


# Of stage, accumulation, offload, data_types: words of the note on sums, bytes an element in
# DeepSpeed and whether it has all parameters' there; no words: there is no such note.
SUMS = [
    ((0, 4, None, None), "at stage 0 in no other format", 2, False),
    ((1, 4, None, None), 'with "data_types"', 2, False),
    ((2, 4, None, None), 'with "data_types"', 2, False),
    ((3, 4, None, None), 'with "data_types"', 2, False),
    ((3, 4, "cpu", "bf16"), "a copy in fp32 for its CPU optimizer", 2, False),
    ((2, 4, "cpu", None), "in fp32, on the GPU", 2, False),
    ((2, 4, "cpu", "fp32"), "are on the GPU at stage 2 of DeepSpeed", 4, False),
    ((1, 4, "cpu", None), "at stage 1 DeepSpeed has those of all parameters", 2, True),
    ((1, 1, "nvme", None), "at stage 1 DeepSpeed has those of all parameters", 2, True),
    ((1, 4, "cpu", "fp32"), "at stage 1 DeepSpeed has those of all parameters", 4, True),
    ((2, 1, None, "fp32"), "gradients of one micro-batch are planned in bf16", 4, False),
    ((0, 1, None, None), None, 2, False),
    ((2, 1, None, None), None, 2, False),
    ((1, 4, None, "fp32"), None, 4, False),
    ((2, 4, None, "fp32"), None, 4, False),
    ((3, 4, None, "float32"), None, 4, False),
    ((3, 4, "cpu", "fp32"), None, 4, False),
]


def check_sums(box):
    for (stage, accum, offload, dtype), words, theirs, of_all in SUMS:
        answer = ask(box, config(stage, accum=accum, offload=offload, sums=dtype))
        notes = [note for note in answer["notes"]
                 if "planned in" in note or "on the GPU at" in note]
        name = f"stage {stage}, {accum} micro-batches, offload {offload}, sums {dtype}"
        if len(notes) != bool(words) or words and words not in notes[0]:
            yield f"{name}: {notes}"
            continue
        if "data_types" in " ".join(note for note in answer["notes"] if "does not follow" in note):
            yield f"{name}: data_types is not followed: {answer['notes']}"
        if not words:
            continue
        ours = 4 if accum > 1 else 2
        there = held(answer) / ours * theirs * (GPUS if of_all else 1)
        if abs(sizes(notes[0])[-1] / there - 1) > 0.02:
            yield f"{name}: {notes[0]}: should be {there / 2 ** 20} MiB"


def check_fits_halved(box):
    """What does not fit for the sums' sake alone fits in DeepSpeed, and the note says so."""
    box.write("ds.json", config(1, accum=8))
    question = ("plan -m llama-3.1-8b -H aws-p4d-24xlarge --activation-checkpoint-interval 1 "
                "--deepspeed ds.json --json --set gpu.memory_gib=")
    for memory, fits, halved in ((40, False, False), (50, False, True), (80, True, False)):
        answer = answer_of(box.run(question + str(memory)).out)
        said = [note for note in answer["notes"] if "with which it would fit" in note]
        if answer["feasible"] != fits or bool(said) != halved:
            yield f"{memory} GiB: {answer['feasible']}, {answer['notes']}"
        gradients = held(answer)
        if halved and not 0 < answer["short_bytes"] <= gradients / 2:
            yield f"{memory} GiB: short of {answer['short_bytes']}, gradients {gradients}"


def check_written(box):
    """A written file sums as the plan does; where DeepSpeed cannot, the answer says so."""
    for strategy, key, words in (("ddp", None, None),
                                 ("ddp --software memwall", None,
                                  "at stage 0 in no other format"),
                                 ("zero1", "fp32", None), ("zero3", "fp32", None),
                                 ("zero-offload", None, "in fp32, on the GPU"),
                                 ("zero-infinity-cpu", "fp32", None)):
        for accum in (1, 2):
            answer = answer_of(box.run(f"plan {MACHINE} -s {strategy} --batch 1 --grad-accum "
                                       f"{accum} --json --write-deepspeed new.json").out)
            written = json.loads((box.folder / "new.json").read_text(encoding="utf-8"))
            said = [note for note in answer["notes"] if note.startswith("--write-deepspeed")]
            wanted = {"grad_accum_dtype": key} if key and accum > 1 else None
            if written.get("data_types") != wanted:
                yield f"{strategy}, {accum}: {written.get('data_types')}"
            if len(said) != bool(words and accum > 1) or said and words not in said[0]:
                yield f"{strategy}, {accum}: {said}"


# Of a question: elements of the largest partition of parameters on drives, whether the update is
# pipelined, words.  DeepSpeed keeps 15 GiB of gradients, which memwall's own executor does not.
DRIVES = "--param-device nvme --optimizer-device nvme"
HOME = f"llama-3.1-8b -H rtx3090 {DRIVES} --set host.memory_gib="
OWN = "--software memwall"
LLAMA = 128256 * 4096
BUFFERS = [
    (f"{HOME}64", LLAMA, True, None),
    (f"{HOME}64 --tiles 4", LLAMA, True, "TiledLinear"),
    (f"{HOME}40 {OWN}", LLAMA, False, "its update is not pipelined, as that would take more; it "
     "keeps 15.0 GiB of gradients there"),
    (f"{HOME}24 {OWN}", LLAMA, False, "DOES NOT FIT there"),
    (f"gpt3-1.3b -H dgx-a100 {DRIVES}", (50257 + 2048) * 2048 // 8, True, None),
    (f"gpt3-1.3b -H dgx-a100 {DRIVES} --buffer-sets 1", (50257 + 2048) * 2048 // 8, False, None),
]


def check_buffers(box):
    """Buffers of a written file hold whole partitions; what they take beyond the plan is said, and
    the file reads back to the plan."""
    for line, elements, pipelined, words in BUFFERS:
        question = f"plan -m {line} -s zero-infinity-nvme --batch 1 --json"
        answer = answer_of(box.run(f"{question} --write-deepspeed new.json").out)
        written = json.loads((box.folder / "new.json").read_text(encoding="utf-8"))
        zero = written["zero_optimization"]
        state, size = zero["offload_optimizer"], zero["offload_param"]["buffer_size"]
        said = " ".join(note for note in answer["notes"] if note.startswith("--write-deepspeed"))
        if not elements <= size <= 1.01 * elements:
            yield f"{line}: buffer_size {size}, the largest partition has {elements}"
        if (state["pipeline_read"], state["buffer_count"]) != (pipelined, 12 if pipelined else 4):
            yield f"{line}: {state}"
        if "DeepSpeed cuts no parameter, and pins" not in said or (words or "") not in said:
            yield f"{line}: {said}"
        machine = re.sub(r"--(?!set).*?(?=--set|$)", "", line)
        own = OWN if OWN in line else ""
        again = box.run(f"plan -m {machine} {own} --deepspeed new.json --json")
        if answer_of(again.out)["ledger"] != answer["ledger"]:
            yield f"{line}: reads back to another plan"


# Top level and zero_optimization of a file, and what is said of it; "refused: " begins an error.
BEYOND = [
    ({"sequence_parallel_size": 4}, {},
     'refused: key "sequence_parallel_size": value 4: must be 1'),
    ({"sequence_parallel_size": 1}, {}, None),
    ({}, {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.1}}, None),
    ({}, {"stage": 3, "offload_optimizer": {"device": "nvme", "ratio": 0.1}},
     "DeepSpeed keeps the rest of the optimizer state on the GPU"),
    ({}, {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 1.0}}, None),
    ({"bf16": {"enabled": False}, "torch_autocast": {"enabled": True, "dtype": "bfloat16"}}, {},
     "computes products in 16 bits"),
    ({}, {"stage": 3, "zero_hpz_partition_size": 8}, "the plan does not follow: zero_opt"),
]


def check_update(box):
    """An update at another time than DeepSpeed's is not in its file, and says so; what the plan
    does not clip, the file does not either."""
    asked = f"plan {MACHINE} -s zero-offload --optimizer-device cpu --batch 1 --json"
    for options, word, clip in (("--update beside", "--update beside is not in the file", 0),
                                ("--software ratel", "--update beside is not in the file", 0),
                                ("--software ratel --update end", None, 1),
                                ("--dpu-start 3", "--dpu-start 3 is not in the file", 1),
                                ("", None, 1)):
        done = box.run(f"{asked} {options} --write-deepspeed out.json")
        notes = [note for note in answer_of(done.out)["notes"] if "is not in the file" in note]
        if [word] * bool(word) != [word for note in notes if word and word in note] or \
                len(notes) != bool(word):
            yield f"{options}: {notes}"
        written = json.loads((box.folder / "out.json").read_text(encoding="utf-8"))
        if written["gradient_clipping"] != clip:
            yield f"{options}: clips at {written['gradient_clipping']}"
        read = answer_of(box.run(f"plan {MACHINE} --deepspeed out.json --json").out)
        if read["settings"].get("update") != ("beside" if not clip else None):
            yield f"{options}: read back {read['settings'].get('update')}"


def check_beyond(box):
    """What no plan does of a file is refused, or said."""
    for top, zero, words in BEYOND:
        content = {**config(2), **top}
        content["zero_optimization"].update(zero)
        box.write("ds.json", content)
        answer = box.run(f"plan {MACHINE} --deepspeed ds.json --json")
        said = f"refused: {answer.err[answer.err.find('key'):]}" if answer.status == 2 else \
            " ".join(answer_of(answer.out)["notes"])
        if answer.status not in (0, 2) or (words or "") not in said or \
                not words and ("refused" in said or "ratio" in said or "parallel" in said):
            yield f"{top} {zero}: {said}"


def check_contradicted(box):
    """-s goes first: what it cannot do with the file's places is refused by the file's key."""
    infinity = {"stage": 3, "offload_param": {"device": "cpu"},
                "offload_optimizer": {"device": "cpu"}}
    for zero, options, words in (
            (infinity, "-s zero2", '"zero_optimization.offload_param.device", on cpu: -s zero2'),
            ({"stage": 2, "cpu_offload": True}, "-s zero1",
             '"zero_optimization.cpu_offload", on cpu: -s zero1'),
            ({"stage": 2, "offload_optimizer": {"device": "none"}}, "-s zero-offload",
             '"zero_optimization.offload_optimizer.device", on gpu: -s zero-offload'),
            (infinity, "-s zero2 --param-device cpu", "--param-device: zero2"),
            (infinity, "-s ddp --param-device gpu", "offload_optimizer.device\", on cpu: -s ddp")):
        box.write("ds.json", {**config(2), "zero_optimization": zero})
        answer = box.run(f"plan {MACHINE} --deepspeed ds.json {options}")
        named = "--param-device" in words or "ds.json: key" in answer.err
        if answer.status != 2 or words not in answer.err or not named:
            yield f"{options}: status {answer.status}: {answer.err}"


def check_ranks(box):
    """A run's train_batch_size is of the ranks that were launched, not of the profile's GPUs."""
    model = ROOT / "tests/fixtures/llama-small"
    line = f"run -m {model}/config.json -H dgx-h100 --seq 16 --commit none --backend cpu " \
           f"--steps 1 --data {model}/lora/text.txt --deepspeed ds.json"
    for ranks in (1, 2) if has_ranks() else (1,):
        launched = {"prefix": [*MPIRUN, str(ranks)], **RANKS_ENVIRONMENT} if ranks > 1 else {}
        for batch, good in ((2 * ranks, True), (2 * GPUS, False)):
            box.write("ds.json", {**config(2, accum=2), "train_batch_size": batch})
            answer = box.run(line, **launched)
            words = f"{batch} in all per step" if good else \
                f"value {batch}: must be {2 * ranks}: train_micro_batch_size_per_gpu 1 * "
            if (answer.status == 0) != good or words not in answer.err + answer.out.decode():
                yield f"{ranks} ranks, {batch}: status {answer.status}: {answer.err}"


def check_blamed(box):
    """What nobody typed is not blamed on an option: the file is named, and what it was read as."""
    for more, options, blamed in (
            ({"tensor_parallel": {"autotp_size": 8}}, "", "--tp 8: must divide"),
            ({"tensor_parallel": {"autotp_size": 8}}, "--tp 8", None),
            ({"train_micro_batch_size_per_gpu": 10 ** 7}, "", "--batch 10000000: must be"),
            ({"gradient_accumulation_steps": 10 ** 5}, "", "--grad-accum 100000: makes"),
            ({}, "--seq 2000", None)):
        box.write("ds.json", {**config(3), **more})
        for hardware in ("-H dgx-a100", ""):  # without it all is refused before it is measured
            if not hardware and blamed and "--grad-accum" in blamed:
                continue
            answer = box.run(f"plan -m gpt2 {hardware} --deepspeed ds.json {options}")
            wanted = f"memwall: ds.json, read as {blamed}" if blamed else "memwall: --"
            if answer.status != 2 or not answer.err.startswith(wanted):
                yield f"{more} {options} {hardware}: status {answer.status}: {answer.err}"


def check_run(box):
    """A run says it too: in words, as its text shows no notes, or in the notes of its JSON."""
    box.write("ds.json", {**config(2, accum=2), "zero_optimization": {"stage": 2, "amp": 1}})
    box.write("tokens.txt", "some words to train on, more than a few of them " * 20)
    line = (f"run -m {ROOT}/tests/fixtures/gpt2-small --data tokens.txt --seq 16 --steps 1 "
            "-H flat-test --gpus 1 --backend null --deepspeed ds.json")
    words = ("zero_optimization.amp: not a key", "sums of micro-batches are planned in fp32")
    said = box.run(line)
    if said.status or not all(f"DeepSpeed file: {word}" in said.err for word in words):
        yield f"status {said.status}: {said.err}"
    answer = box.run(f"{line} --json")
    notes = answer_of(answer.out)["notes"] if answer.out else []
    if "DeepSpeed" in answer.err or not all(word in " ".join(notes) for word in words):
        yield f"status {answer.status}: {notes}, {answer.err}"


def check_overruled(box):
    """What -s takes the place of is said, and what of the file still holds."""
    for options, words in (("-s zero3", "-s zero3 goes before zero_optimization.stage 1, which is "
                                        "zero-offload; still holds: zero_optimization."
                                        "offload_optimizer.device, cpu"),
                           ("", None), ("-s zero-offload", None)):
        answer = ask(box, config(1, offload="cpu"), options)
        said = [note for note in answer["notes"] if "goes before" in note]
        if len(said) != bool(words) or words and not said[0].endswith(words):
            yield f"{options}: {answer['notes']}"
        if answer["settings"]["optimizer_device"] != "cpu":
            yield f"{options}: optimizer state on {answer['settings']['optimizer_device']}"


def check_batch_kept(box):
    """A batch that is too much for one micro-batch fits in several: the remedy, typed or written
    into the file, keeps the sequences of a step."""
    machine = "-m llama-3.1-8b -H dgx-h100"
    for parts, options in (
            ({}, ""), ({"train_micro_batch_size_per_gpu": 256}, ""), ({}, "-s zero3"),
            ({}, "-s auto"), ({}, "--grad-accum 1"), (None, "--batch 256 -s zero2"),
            (None, "--grad-accum 2 -s zero1")):
        content = {**config(2), "train_batch_size": 2048}
        del content["train_micro_batch_size_per_gpu"], content["gradient_accumulation_steps"]
        box.write("tb.json", {**content, **(parts or {})})
        batch = "--global-batch 2048" if parts is None else "--deepspeed tb.json"
        question = f"plan {machine} {batch} --json "
        first = answer_of(box.run(question + options).out)
        flags, fits, keys = first["remedy"].partition(" fits")
        if first["feasible"] or not fits or "--grad-accum" not in flags or "nodes" in flags:
            yield f"{batch} {options}: {first['remedy']}"
            continue
        answers = [answer_of(box.run(f"{question} {options} {flags}").out)]
        if keys:
            micro, accum = re.findall(r" ([0-9]+)", keys)
            box.write("tb.json", {**content, "train_micro_batch_size_per_gpu": int(micro),
                                  "gradient_accumulation_steps": int(accum)})
            answers.append(answer_of(box.run(question + options).out))
        elif "--batch" in flags and parts is not None:
            yield f"{batch} {options}: no keys of the file: {first['remedy']}"
        for answer in answers:
            if not answer["feasible"] or answer["settings"]["global_batch"] != 2048:
                yield f"{batch} {options}: {first['remedy']}: {answer['settings']}"


def check_given_up(box):
    """A remedy without devices names them as they were asked for: by the file's keys, or typed."""
    off = {"device": "none"}
    box.write("ds.json", {**config(3, accum=1), "zero_optimization": {
        "stage": 3, "offload_optimizer": off, "offload_param": off}})
    keys = "zero_optimization.offload_param.device, zero_optimization.offload_optimizer.device"
    typed = "--param-device gpu --optimizer-device gpu --gradient-device gpu"
    for options, names in (("", keys), (typed, "--param-device, --gradient-device")):
        remedy = answer_of(box.run("plan -m llama-3.1-8b -H rtx4090 -s zero-infinity-nvme --json "
                                   f"--deepspeed ds.json {options}").out)["remedy"]
        if f"without {names}" not in remedy or (not options and "-device" in remedy):
            yield f"{options}: {remedy}"


def check_opened(box):
    """The word that leaves an option open does so over the file."""
    own = {"strategy": "zero-offload", "dpu_start": 40, "logits_chunks": 8,
           "optimizer_chunk": 2 ** 20}
    content = {**config(2, offload="cpu"), "memwall": own}
    box.write("plain.json", {**config(2, offload="cpu"), "memwall": {"strategy": "zero-offload"}})
    options = {"dpu_start": "--dpu-start none", "logits_chunks": "--logits-chunks auto",
               "optimizer_chunk": "--optimizer-chunk auto"}
    plain = answer_of(box.run(f"plan {MACHINE} --deepspeed plain.json --json").out)
    opened = ask(box, content, " ".join(options.values()))
    kept = ask(box, content)
    for key, option in options.items():
        if opened["settings"].get(key) != plain["settings"].get(key):
            yield f"{option}: {opened['settings'].get(key)}, not {plain['settings'].get(key)}"
    if opened["ledger"] != plain["ledger"] or kept["ledger"] == plain["ledger"]:
        yield f"opened {opened['ledger']}, nothing in the file {plain['ledger']}"
    if ask(box, content, "--batch auto")["settings"]["micro_batch"] <= 1:
        yield "--batch auto: the batch of the file"


def check_slicing(box):
    """A remedy proposes a slicing, but none beside that of a file, which would be refused."""
    question = "plan -m llama-3.1-8b -H dgx-h100 --seq 1000000 --json"
    box.write("tp.json", {"bf16": {"enabled": True}, "tensor_parallel": {"autotp_size": 2}})
    for options, sliced in (("", True), ("--tp 2", True), ("--deepspeed tp.json", False)):
        remedy = answer_of(box.run(f"{question} {options}").out)["remedy"]
        if ("--tp " in remedy) != sliced:
            yield f"{options}: {remedy}"


def check_batch_elsewhere(box):
    """Where no split fits with the strategy, another strategy with one does."""
    box.write("tb.json", {"train_batch_size": 2048, "bf16": {"enabled": True},
                          "zero_optimization": {"stage": 2}})
    question = "plan -m llama-3.1-70b -H dgx-h100 --deepspeed tb.json --json "
    remedy = answer_of(box.run(question).out)["remedy"]
    flags = remedy.split(" fits")[0]
    answer = box.run(question + flags)
    if not re.match(r"-s \S+ --batch \S+ --grad-accum \S+$", flags) or \
            not (answer.out and answer_of(answer.out)["feasible"]):
        yield remedy


def tests(box):
    yield "sums of micro-batches", check_sums(box)
    yield "sums that fit in DeepSpeed", check_fits_halved(box)
    yield "sums of a written file", check_written(box)
    yield "buffers of a written file", check_buffers(box)
    yield "when a written file updates", check_update(box)
    yield "what no plan does", check_beyond(box)
    yield "-s against the file", check_contradicted(box)
    yield "-s before the file", check_overruled(box)
    yield "a run", check_run(box)
    yield "no option that nobody typed", check_blamed(box)
    yield "ranks of a run", check_ranks(box)
    yield "a batch that is kept", check_batch_kept(box)
    yield "devices that are given up", check_given_up(box)
    yield "a batch that is kept, with another strategy", check_batch_elsewhere(box)
    yield "an option that is opened", check_opened(box)
    yield "slicing of the file", check_slicing(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
