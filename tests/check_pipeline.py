#!/usr/bin/python3
"""Pipelines: a plan of several programs is written, simulated and run by as many ranks; prints TAP.

The losses are those of one rank, to the last digit that is printed, whatever is partitioned or
offloaded; what a pipeline cannot be asked for is refused in one line, and so is a plan file whose
programs do not match.
"""
import json
import random
import re
import sys

from command import MEMWALL, ROOT, Answer, Box, of_rows, refused
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in

MACHINE = "-H aws-p5-48xlarge"
TRAINING = "--data text.txt --backend cpu --lr 2e-3 --steps 4"
BATCH = "--batch 1 --grad-accum 4"
PLACES = {
    "ddp": "-s ddp",
    "recomputed": "-s ddp --activation-checkpoint-interval 1",
    "some recomputed": "-s ddp --recompute-list 0",
    "zero3": "-s zero3",
    "offloaded": "-s zero-infinity-cpu --activation-checkpoint-interval 1 --activation-device cpu",
    "swapped, some recomputed": "-s zero-infinity-cpu --checkpoints activations "
                                "--activation-device cpu --recompute-list 0",
    "tiles": "-s zero2 --tiles 2 --logits-chunks 2",
    "frozen": "-s ddp --train norm1,norm2",
    "frozen, recomputed": "-s ddp --train qkv,final-norm --activation-checkpoint-interval 1",
}


def model():
    return f"-m {ROOT}/tests/fixtures/llama-small/config.json"


def losses(answer):
    return re.findall(r"^ +\d+ +(\d+\.\d+) ", answer.out.decode(), re.M)


def ranks(box, count, options):
    return box.run(options, prefix=[*MPIRUN, str(count)], **RANKS_ENVIRONMENT)


# Orders of micro-batches in a stage; one rank has none.
GPIPE = "--schedule gpipe"
SCHEDULES = {
    "gpipe": "-s ddp",
    "gpipe, recomputed": "-s ddp --activation-checkpoint-interval 1",
    "gpipe, zero3": "-s zero3",
}
ZB_H1 = "--schedule zb-h1"
ZERO_BUBBLE = {
    "zb-h1": "-s ddp",
    "zb-h1, zero3": "-s zero3 --tiles 2",
}
EIGHT_LAYERS = "-m layers=8,hidden=32,heads=4,vocab=256,architecture=llama --seq 16"
# Ranks, stages, stretches of layers in each, and what else is asked.
INTERLEAVED = {
    "two stretches": (2, 2, 2, "-s ddp"),
    "four stages": (4, 4, 2, "-s zero1"),
    "recomputed": (2, 2, 4, "-s zero3 --activation-checkpoint-interval 1"),
    "unlike stretches": (2, 2, 3, "-s zero1"),
    "unlike stretches, recomputed": (2, 2, 3, "-s zero3 --activation-checkpoint-interval 1"),
    "stretches as asked": (2, 2, 2, "-s ddp --stage-split 1,4,5"),
    "checkpoints in host memory": (2, 2, 2, "-s zero-infinity-cpu --activation-device cpu "
                                   "--activation-checkpoint-interval 1"),
}


def check_places(box, places, schedule=""):
    """One rank, then a stage for each of two: planned by the run, and read from a file."""
    alone = box.run(f"run {model()} {places} {BATCH} {MACHINE} {TRAINING}")
    if len(losses(alone)) != 4:
        yield f"alone: {alone.err[-300:]}"
    written = box.run(f"plan {model()} {places} {BATCH} {MACHINE} --gpus 2 --pp 2 {schedule} "
                      "-o stages.plan")
    if written.status:
        yield f"plan: {written.err[-300:]}"
    for what in (f"{model()} {places} {BATCH} --pp 2 {schedule}", "--plan stages.plan"):
        two = ranks(box, 2, f"run {what} {MACHINE} {TRAINING}")
        if losses(two) != losses(alone):
            yield f"{what}: {losses(two)}, alone {losses(alone)}: {two.err[-300:]}"


def check_same_losses(box, count, places, stages):
    state, split, begins = places.partition(" --stage-split")
    run = f"run {EIGHT_LAYERS} {state} {BATCH} {MACHINE} {TRAINING}"
    alone, many = box.run(run), ranks(box, count, f"{run} {stages}{split}{begins}")
    if len(losses(alone)) != 4 or losses(many) != losses(alone):
        yield f"{losses(many)}, alone {losses(alone)}: {many.err[-300:]} {alone.err[-300:]}"


def check_stretches(box, count, stages, stretches, places):
    """Of several stretches of layers in each stage; a micro-batch goes around them all."""
    yield from check_same_losses(box, count, places, f"--pp {stages} --schedule interleaved "
                                 f"--virtual-stages {stretches}")


def check_simulated(box):
    box.run(f"plan {model()} -s ddp {BATCH} {MACHINE} --gpus 2 --pp 2 -o stages.plan")
    answers = [box.run(f"simulate {what} {MACHINE} --json")
               for what in (f"{model()} -s ddp {BATCH} --gpus 2 --pp 2", "stages.plan")]
    steps = [re.search(r'"step_time_s": *([0-9.e-]+)', a.out.decode()) for a in answers]
    if not all(steps) or steps[0].group(1) != steps[1].group(1):
        yield f"step of the model and of its plan: {[a.err[-200:] for a in answers]}"
    stages = [json.loads(a.out)["answers"][0]["stages"] for a in answers]
    if stages[0] != stages[1] or [s["first_layer"] for s in stages[0]] != [0, 1]:
        yield f"stages: {stages}"
    if (box.folder / "stages.plan").read_text().count("\nprogram ") != 2:
        yield "the plan has not two programs"


def check_in_flight(box):
    """GPipe keeps the activations of all micro-batches in every stage, the other order those of as
    many as there are stages behind; both take equally long."""
    asked = f"simulate {model()} -s ddp {BATCH} {MACHINE} --gpus 2 --pp 2 --json " \
            "--activation-checkpoint-interval 0"
    turns, all_first = (json.loads(box.run(f"{asked} --schedule {name}").out)["answers"][0]
                        for name in ("1f1b", "gpipe"))
    if not turns["peak_bytes"]["gpu"] < all_first["peak_bytes"]["gpu"]:
        yield f"memory: {turns['peak_bytes']}, {all_first['peak_bytes']}"
    if all_first["settings"].get("schedule") != "gpipe" or "schedule" in turns["settings"]:
        yield f"settings: {all_first['settings']}"
    if abs(all_first["step_time_s"] / turns["step_time_s"] - 1) > 0.1:
        yield f"steps: {turns['step_time_s']}, {all_first['step_time_s']}"


def check_interleaved(box):
    """A stage has stretches of layers: a shorter step, more in flight, and the same of a plan
    file."""
    asked = f"-m gpt2 -s zero1 --batch 8 --grad-accum 8 {MACHINE} --gpus 4 --pp 4"
    interleaved = f"{asked} --schedule interleaved --virtual-stages 3"
    box.run(f"plan {interleaved} -o stages.plan")
    plain, planned, read = (json.loads(box.run(f"simulate {what} --json").out)["answers"][0]
                            for what in (asked, interleaved, f"stages.plan {MACHINE}"))
    if planned["step_time_s"] != read["step_time_s"] or planned["stages"] != read["stages"]:
        yield f"step of the model and of its plan: {planned['step_time_s']}, {read['step_time_s']}"
    if not planned["step_time_s"] < plain["step_time_s"]:
        yield f"steps: {planned['step_time_s']}, without stretches {plain['step_time_s']}"
    if planned["settings"].get("virtual_stages") != 3 or "virtual_stages" in plain["settings"]:
        yield f"settings: {planned['settings']}"
    first = planned["stages"][0]
    if (first["layers"], first["stretches"], first["micro_batches_in_flight"]) != (3, 3, 15):
        yield f"first stage: {first}"
    box.run(f"simulate {interleaved} --write-deepspeed stages.json")
    if json.loads((box.folder / "stages.json").read_text())["memwall"].get("virtual_stages") != 3:
        yield "DeepSpeed's file does not say the stretches"
    for options, words in (("--virtual-stages 4", ["--virtual-stages 4", "give 2 to 3"]),
                           ("--virtual-stages 3 --grad-accum 6", ["give 4 or 8"]),
                           ("--virtual-stages 2 --recompute-layers 3",
                            ["--recompute-layers 3", "a stretch of", "1 to 2"])):
        yield from check_refused(box, f"simulate {asked} --schedule interleaved {options}", words)
    whole = asked.replace("--batch 8 --grad-accum 8", "--batch 1 --global-batch 18")
    yield from check_refused(box, f"simulate {whole} --schedule interleaved --virtual-stages 3",
                             ["--global-batch 18", "give 16 or 20"])
    yield from check_refused(box, f"simulate {asked} --virtual-stages 3", ["interleaved"])
    one = box.run(f"simulate {asked.replace('4 --pp 4', '6 --pp 6')} --schedule interleaved "
                  "--virtual-stages 3").err
    if not one.strip().endswith("; give 2"):
        yield f"one number to give: {one!r}"
    yield from check_refused(box, f"simulate {asked.replace('4 --pp 4', '7 --pp 7')} "
                             "--schedule interleaved", ["12 layers", "--pp 7", "1f1b"])


def check_scores_of_stretches(box):
    """Softmax's results wait in as many passes as are in flight, each of one stretch's layers."""
    asked = f"-m llama-2-7b -s zero1 {MACHINE} --gpus 8 --pp 2 --tp 4 --batch 0.25 " \
            "--grad-accum 8 --software megatron --activation-checkpoint-interval 0 " \
            "--set software.attention.kernel=unfused --set software.memory.softmax_bytes=4"
    found = []
    for stretches in ("", "--schedule interleaved --virtual-stages 2",
                      "--schedule interleaved --virtual-stages 4"):
        answer = json.loads(box.run(f"simulate {asked} {stretches} --json").out)["answers"][0]
        found += [row["bytes"] for row in answer["software_memory"]
                  if row["what"] == "more activations kept"]
    if [8 * each / found[0] for each in found] != [8, 10, 9]:  # 2 of 16 layers, 5 of 8, 9 of 4
        yield f"bytes kept of 1, 2 and 4 stretches: {found}"


def check_unlike_stretches(box):
    """Layers that no number of stretches divides: as many or one more in each, or fewer beside the
    logits; the same of a plan file, of the layers that the choice named, and for Megatron-LM."""
    asked = f"-m llama-3.1-8b -s zero1 --batch 1 --grad-accum 16 {MACHINE} --gpus 4 --pp 4 " \
            "--schedule interleaved --virtual-stages 3"
    even, planned = (json.loads(box.run(f"simulate {asked} --stage-split {split} --json").out)
                     ["answers"][0] for split in ("even", "balanced"))
    for answer in (even, planned):
        stages = answer["stages"]
        if sum(s["layers"] for s in stages) != 32 or {s["stretches"] for s in stages} != {3}:
            yield f"stages: {stages}"
    if not planned["step_time_s"] < 0.97 * even["step_time_s"]:
        yield f"steps: {planned['step_time_s']}, even {even['step_time_s']}"
    split = planned["settings"]["stage_split"]
    begins = [0, *(int(begin) for begin in split.split(",")), 32]
    counts = [behind - begin for begin, behind in zip(begins, begins[1:])]
    if len(counts) != 12 or min(counts) < 1 or counts[-1] >= max(counts):
        yield f"stretches: {counts}"
    box.run(f"plan {asked} --stage-split {split} -o stages.plan")
    again = json.loads(box.run(f"simulate stages.plan {MACHINE} --json").out)["answers"][0]
    if again["step_time_s"] != planned["step_time_s"] or again["stages"] != planned["stages"]:
        yield f"of the plan file: {again['step_time_s']} s, {planned['step_time_s']} s"
    alike = 8 * [3] + 4 * [2]  # stages of as many layers, longer stretches first
    for asked_split, layers in ((split, counts), ("even", alike)):
        answer = box.run(f"simulate {asked} --stage-split {asked_split} --json").out.decode()
        box.write("answer.json", answer)
        box.run(f"export answer.json --for megatron -o {asked_split[:4]}")
        script = (box.folder / asked_split[:4] / "launch.sh").read_text()
        layout = "|".join(f"t*{count}" for count in layers)
        if f"--pipeline-model-parallel-layout 'E{layout},L'" not in script or \
                "virtual-pipeline" in script:
            yield f"Megatron's layout is not E{layout},L"
    yield from check_refused(box, f"simulate {asked} --stage-split 8,16,24",
                             ["--stage-split 8,16,24", "11 stretches", "balanced"])
    keeps, some, none = (json.loads(box.run(f"simulate {asked} {what} --json").out)["answers"][0]
                         for what in ("--activation-checkpoint-interval 0", "--recompute-layers 1",
                                      "--activation-checkpoint-interval 1"))
    for figure, way in (("step_time_s", 1), ("need_bytes", -1)):
        figures = [way * (answer[figure]["gpu"] if way < 0 else answer[figure])
                   for answer in (keeps, some, none)]
        if not figures[0] < figures[1] < figures[2]:
            yield f"{figure} with fewer layers that are kept: {figures}"


def check_no_flush(box):
    """Two versions of parameters, no bubble, and what steps cannot be asked for; the same of a plan
    file."""
    asked = f"{model()} -s ddp {BATCH} {MACHINE} --gpus 2 --pp 2 --activation-checkpoint-interval 0"
    box.run(f"plan {asked} --schedule 2bw -o stages.plan")
    flushed, planned, read = (json.loads(box.run(f"simulate {what} --json").out)["answers"][0]
                              for what in (asked, f"{asked} --schedule 2bw",
                                           f"stages.plan {MACHINE}"))
    if planned["step_time_s"] != read["step_time_s"] or planned["stages"] != read["stages"]:
        yield f"step of the model and of its plan: {planned['step_time_s']}, {read['step_time_s']}"
    if not planned["step_time_s"] < flushed["step_time_s"]:
        yield f"steps: {planned['step_time_s']}, with a flush {flushed['step_time_s']}"
    if planned["settings"].get("schedule") != "2bw":
        yield f"settings: {planned['settings']}"
    for options, words in (("--grad-accum 1", ["2bw", "--grad-accum 2"]),
                           ("-s zero3", ["2bw", "-s ddp", "-s zero1"]),
                           ("--activation-checkpoint-interval 1", ["2bw", "interval 0"])):
        yield from check_refused(box, f"simulate {asked} --schedule 2bw {options}", words)
    stash = f"{asked} --schedule pipedream"
    stashed = json.loads(box.run(f"simulate {stash} --json").out)["answers"][0]
    first, last = stashed["stages"]
    if (first["micro_batches_in_flight"], last["micro_batches_in_flight"]) != (2, 1):
        yield f"stages that stash versions: {first}, {last}"
    one, four = (next(term["plan_s"] for term in answer["terms"]
                      if term["what"] == "parameter update") for answer in (planned, stashed))
    if abs(four / one - 4) > 1e-9:  # one for each micro-batch
        yield f"updates in the closed form: {four} s, one takes {one} s"
    tied = stash.replace(model(), f"-m {ROOT}/tests/fixtures/gpt2-small/config.json")
    for tied_to in (tied, f"{tied} -s zero3"):
        yield from check_refused(box, f"simulate {tied_to}", ["pipedream", "tied", "2bw"])
    for schedule in ("zb-h1", "2bw", "pipedream", "vertical-sync"):
        box.run(f"simulate {asked} --schedule {schedule} --write-deepspeed stages.json")
        again = json.loads(box.run(f"simulate {model()} {MACHINE} --gpus 2 --pp 2 --json "
                                   "--deepspeed stages.json").out)["answers"][0]
        if again["settings"].get("schedule") != schedule:
            yield f"{schedule}: of DeepSpeed's file {again['settings'].get('schedule')}"


def check_split(box):
    """The last stage has the logits, so fewer layers balance it; the same of a plan file, and of
    the layers that the choice named."""
    asked = f"-m llama-3.1-8b -s zero1 --batch 1 --grad-accum 16 {MACHINE} --gpus 4 --pp 4"
    even, planned = (json.loads(box.run(f"simulate {asked} --stage-split {split} --json").out)
                     ["answers"][0] for split in ("even", "balanced"))
    layers = [stage["layers"] for stage in planned["stages"]]
    if not (layers[0] >= 8 > layers[3] and sum(layers) == 32):
        yield f"stages: {layers}"
    if not planned["step_time_s"] < 0.95 * even["step_time_s"]:
        yield f"steps: {planned['step_time_s']}, even {even['step_time_s']}"
    split = planned["settings"].get("stage_split")
    box.run(f"plan {asked} --stage-split {split} -o stages.plan")
    for what in (f"{asked} --stage-split {split}", f"stages.plan {MACHINE}"):
        again = json.loads(box.run(f"simulate {what} --json").out)["answers"][0]
        if again["step_time_s"] != planned["step_time_s"] or again["stages"] != planned["stages"]:
            yield f"{what}: {again['step_time_s']} s, {planned['step_time_s']} s"
    box.run(f"simulate {asked} --stage-split {split} --write-deepspeed stages.json")
    if json.loads((box.folder / "stages.json").read_text())["memwall"].get("stage_split") != split:
        yield "DeepSpeed's file does not say where stages begin"
    two = "-m llama-2-7b -s zero1 --batch 1 --grad-accum 4 -H 2xh200 --pp 2"
    box.run(f"simulate {two} --stage-split 0 --write-deepspeed alone.json")
    for line in (f"{two} --stage-split 0", f"{two} --deepspeed alone.json"):
        alone = json.loads(box.run(f"simulate {line} --json").out)["answers"][0]
        if [stage["layers"] for stage in alone["stages"]] != [0, 32] or \
                alone["settings"].get("stage_split") != "0":
            yield f"{line}: {alone['stages']}, {alone['settings'].get('stage_split')}"
    box.write("answer.json", box.run(f"simulate {asked} --stage-split {split} --json").out.decode())
    box.run("export answer.json --for megatron -o job")
    layout = "|".join(f"t*{count}" for count in layers)
    if f"--pipeline-model-parallel-layout 'E{layout},L'" not in \
            (box.folder / "job" / "launch.sh").read_text():
        yield f"Megatron's layout is not E{layout},L"
    for options, words in (("--stage-split 8,16", ["--stage-split 8,16", "3 stages", "1 to 31"]),
                           ("--stage-split 8,16,33", ["1 to 31", "balanced"]),
                           ("--stage-split odd", ["even, balanced, or"]),
                           ("--stage-split 0", ["3 stages", "the first may also be 0"]),
                           ("--stage-split 4095", ["up to 4094", "balanced"]),
                           ("--stage-split 8,16,4095", ["up to 4094", "balanced"]),
                           ("--stage-split 0,8,8", ["up to", "balanced"]),
                           ("--stage-split 0,8", ["3 stages", "the first may also be 0"]),
                           ("--stage-split 8,24,32 --schedule gpipe", ["logits alone", "1f1b"]),
                           ("--stage-split 8,8,24", ["in order"]),
                           ("--stage-split 8,16,24 --schedule interleaved", ["7 stretches"])):
        yield from check_refused(box, f"simulate {asked} {options}", words)
    yield from check_refused(box, f"simulate {asked} --pp 1 --stage-split balanced",
                             ["--stage-split balanced", "--pp"])
    if has_ranks():
        for split in ("1", "3"):
            yield from check_same_losses(box, 2, "-s zero1", f"--pp 2 --stage-split {split}")


def check_ends_alone(box):
    """The embedding and the logits may have a stage each; the same of a plan file and for
    Megatron-LM; run takes neither."""
    asked = f"-m llama-3.1-8b -s zero1 --batch 1 --grad-accum 16 {MACHINE} --gpus 4 --pp 4"
    for split, layers, layout in (("0,16,32", [0, 16, 16, 0], "E|t*16|t*16|L"),
                                  ("0,11,22", [0, 11, 11, 10], "E|t*11|t*11|t*10,L"),
                                  ("11,22,32", [11, 11, 10, 0], "Et*11|t*11|t*10|L")):
        text = box.run(f"simulate {asked} --stage-split {split} --json").out.decode()
        box.write("answer.json", text)
        [answer] = json.loads(text)["answers"]
        if [stage["layers"] for stage in answer["stages"]] != layers:
            yield f"{split}: {answer['stages']}"
        box.run(f"plan {asked} --stage-split {split} -o ends.plan")
        again = json.loads(box.run(f"simulate ends.plan {MACHINE} --json").out)["answers"][0]
        if again["step_time_s"] != answer["step_time_s"]:
            yield f"{split}: {answer['step_time_s']} s, of its file {again['step_time_s']} s"
        box.run(f"export answer.json --for megatron -o {split}")
        if f"-layout '{layout}'" not in (box.folder / split / "launch.sh").read_text():
            yield f"Megatron's layout is not {layout}"
    if has_ranks():
        answer = ranks(box, 2, f"run {model()} {TRAINING} {BATCH} {MACHINE} --gpus 2 --pp 2 "
                               "--stage-split 2")
        if answer.status != 2 or "first layers from 1 on" not in answer.err:
            yield f"run: status {answer.status}: {answer.err[-300:]}"


def check_split_room(box):
    """Balanced stages are the fastest that have room, and are proposed."""
    asked = "-m gemma-2-9b -H dgx-h100 -s zero1 --tp 2 --pp 4 --software megatron --batch 0.5 " \
            "--grad-accum 16 --activation-checkpoint-interval 1"

    def ask(options):
        return json.loads(box.run(f"simulate {asked} {options} --json").out)["answers"][0]

    for order in ("", "--schedule interleaved"):
        room = ask(f"{order} --stage-split balanced")
        tight = ask(f"{order} --stage-split balanced --set gpu.memory_gib=28")
        layers, fewer = ([s["layers"] for s in answer["stages"]] for answer in (room, tight))
        if not tight["feasible"] or not fewer[0] < layers[0] or \
                not room["step_time_s"] < tight["step_time_s"]:
            yield f"{order}: {layers}, {room['step_time_s']} s; {fewer}, {tight['step_time_s']} s"
        named = f"{order} --stage-split {room['settings']['stage_split']}"
        if ask(f"{named} --set gpu.memory_gib=28")["feasible"]:
            yield f"{named}: has room"
        if ask(f"{order} --stage-split balanced --set gpu.memory_gib=20")["feasible"]:
            yield f"{order}: has room in 20 GiB"
        kept = asked.replace("interval 1", "interval 0")
        if b"--stage-split balanced" not in box.run(f"simulate {kept} {order}").out:
            yield f"{order}: balanced stages are not proposed"


def check_turns(box):
    """Stages of unlike replicas take micro-batches in turn: what is asked is in the answer, in a
    plan file that is simulated as the same step, and in DeepSpeed's file; the input stage has NOAM
    in flight; a split for given replicas is no slower than one for equal stages."""
    model_ = "-m layers=15,hidden=512,heads=8,vocab=256,architecture=llama --seq 512"
    asked = f"{model_} --batch 1 --grad-accum 12 {MACHINE}"
    for replicas, noam in (("2,1", 2), ("1,2", 3), ("3,2,1", 2), ("2,1,1", 2)):
        numbers = [int(number) for number in replicas.split(",")]
        for schedule in ("1f1b", "gpipe", "2bw", "pipedream"):
            options = (f"{asked} --gpus {sum(numbers)} --schedule {schedule} "
                       f"--stage-replicas {replicas}")
            answer = json.loads(box.run(f"simulate {options} --json").out)["answers"][0]
            stages = answer["stages"]
            if answer["settings"].get("stage_replicas") != replicas or \
                    [stage["gpus"] for stage in stages] != numbers or \
                    sum(stage["layers"] for stage in stages) != 15:
                yield f"{replicas} {schedule}: {answer['settings']}, {stages}"
            if schedule == "1f1b" and stages[0]["micro_batches_in_flight"] != noam:
                yield f"{replicas}: {stages[0]['micro_batches_in_flight']} micro-batches in flight"
            if answer["settings"]["global_batch"] != 12:
                yield f"{replicas} {schedule}: {answer['settings']}"
            box.run(f"plan {options} -o turns.plan")
            again = json.loads(box.run(f"simulate turns.plan {MACHINE} --json").out)["answers"][0]
            for key in ("step_time_s", "stages", "need_bytes"):
                if again[key] != answer[key]:
                    yield f"{replicas} {schedule}: {key} of the file {again[key]}, {answer[key]}"
            for key in ("stage_replicas", "global_batch", "grad_accum"):
                if again["settings"].get(key) != answer["settings"][key]:
                    yield f"{replicas} {schedule}: the file has {again['settings']}"
    one = f"{asked} --gpus 3 --stage-replicas 2,1 --schedule pipedream"
    even, planned = (json.loads(box.run(f"simulate {one} --stage-split {split} --json").out)
                     ["answers"][0] for split in ("even", "balanced"))
    if not planned["step_time_s"] < 0.9 * even["step_time_s"] or \
            planned["stages"][0]["layers"] != 10:
        yield f"{planned['stages']}: {planned['step_time_s']}, even {even['step_time_s']}"
    box.run(f"simulate {one} -s ddp --write-deepspeed turns.json")
    again = json.loads(box.run(f"simulate {asked} --gpus 3 --schedule pipedream --json "
                               "--deepspeed turns.json").out)["answers"][0]
    if again["settings"].get("stage_replicas") != "2,1":
        yield f"of DeepSpeed's file: {again['settings']}"
    for options, words in (
            ("--gpus 4 --stage-replicas 2,1", ["takes 3 GPUs", "there are 4", "give 3,1"]),
            ("--gpus 2 --stage-replicas 2,1,1", ["takes 4 GPUs", "4 GPUs"]),
            ("--gpus 3 --stage-replicas 2,1 --pp 3", ["--pp 3", "2 stages", "--pp 2"]),
            ("--gpus 3 --stage-replicas 2,1 --grad-accum 1", ["there are 1", "of 2"]),
            ("--gpus 3 --stage-replicas 2,1 --grad-accum 5", ["there are 5", "4 or 6"]),
            ("--gpus 3 --stage-replicas 2,1 --schedule 2bw --grad-accum 2", ["flight", "of 4"]),
            ("--gpus 3 --stage-replicas 2,1 --schedule interleaved", ["1f1b, gpipe, 2bw or"]),
            ("--gpus 3 --stage-replicas 2,1 --schedule vertical-sync", ["1f1b, gpipe, 2bw or"]),
            ("--gpus 3 --stage-replicas 2,1 -s zero1", ["-s ddp"]),
            ("--gpus 3 --stage-replicas 2,1 -s zero3", ["-s ddp"]),
            ("--gpus 3 --stage-replicas 2,1 --tp 3", ["--tp 1"]),
            ("--gpus 3 --stage-replicas 2,1 -m gpt2", ["not tied"]),
            ("--gpus 3 --stage-replicas 2", ["1 to 1024", "such as 2,1,1"]),
            ("--gpus 3 --stage-replicas 3,0", ["1 to 1024", "such as 2,1,1"])):
        yield from check_refused(box, f"simulate {asked} {options}", words)
    yield from check_refused(box, f"run {model()} {TRAINING} --batch 1 --grad-accum 4 {MACHINE} "
                                  "--gpus 3 --stage-replicas 2,1",
                             ["--stage-replicas 2,1", "as many replicas"])


def check_tied(box):
    """The first and the last stage have the word embedding each, of which the answer's parameters
    count one; what is written is read as the same step."""
    asked = f"-m gpt2 -s zero1 {BATCH} {MACHINE} --gpus 8 --pp 4"
    box.run(f"plan {asked} -o stages.plan")
    planned, read = (json.loads(box.run(f"simulate {what} --json").out)["answers"][0]
                     for what in (asked, f"stages.plan {MACHINE}"))
    if planned["step_time_s"] != read["step_time_s"]:
        yield f"step of the model and of its plan: {planned['step_time_s']}, {read['step_time_s']}"
    params, copy = 124439808, 50257 * 768
    in_stages = sum(stage["params"] for stage in planned["stages"])
    if (planned["params"], in_stages) != (params, params + copy):
        yield f"parameters: {planned['params']}, in stages {in_stages}"
    text = (box.folder / "stages.plan").read_text()
    one_less = re.sub(r"^(work \d+ all-reduce gradients.* comm )4( .*)$", r"\g<1>3\2", text,
                      flags=re.M)
    if one_less == text:
        yield "the plan has no sum of the copies"
    box.write("changed.plan", one_less)
    yield from check_refused(box, f"simulate changed.plan {MACHINE}", ["changed.plan: line "])


def check_batch(box):
    """The stages work on the same sequences: a global batch is that of one rank."""
    stages = f"{model()} -s ddp {MACHINE} --gpus 2 --pp 2 --batch 1"
    written = f"simulate {stages} --global-batch 8 --write-deepspeed stages.json"
    for what in (f"simulate {stages} --global-batch 8", f"simulate {stages} --grad-accum 8",
                 written, f"simulate stages.plan {MACHINE}"):
        if what.startswith("simulate stages.plan"):
            box.run(f"plan {stages} --global-batch 8 -o stages.plan")
        settings = json.loads(box.run(f"{what} --json").out)["answers"][0]["settings"]
        if (settings["global_batch"], settings["grad_accum"]) != (8, 8):
            yield f"{what}: {settings['global_batch']} sequences, {settings['grad_accum']}"
    if "PipelineModule" not in box.run(written).out.decode():
        yield "nothing says that the stages are not in DeepSpeed's file"
    said = json.loads((box.folder / "stages.json").read_text())
    if said["train_batch_size"] != 8:
        yield f"DeepSpeed's file: {said}"
    long = "plan -m llama-3.1-405b -H dgx2 --nodes 32 --pp 16 --batch 1 --grad-accum 4096"
    yield from check_refused(box, long, ["--grad-accum 4096", "or fewer"])
    if has_ranks():
        alone = box.run(f"run {model()} -s ddp {MACHINE} {TRAINING} --batch 1 --global-batch 8")
        two = ranks(box, 2, f"run {model()} -s ddp {MACHINE} {TRAINING} --batch 1 "
                            "--global-batch 8 --pp 2")
        if len(losses(alone)) != 4 or losses(two) != losses(alone):
            yield f"run: {losses(two)}, alone {losses(alone)}: {two.err[-300:]}"


def check_refused(box, options, words, count=0):
    """Under mpirun its own lines stand beside the command's."""
    answer = ranks(box, count, options) if count else box.run(options)
    said = "\n".join(line for line in answer.err.splitlines() if line.startswith("memwall:"))
    for wrong in refused(Answer(answer.status, answer.out, said), words):
        yield f"{options}: {wrong}"


def check_refusals(box):
    asked = f"plan {model()} -s ddp {BATCH} {MACHINE}"
    gpt2 = f"-m {ROOT}/tests/fixtures/gpt2-small/config.json"
    yield from check_refused(box, f"{asked} --gpus 3 --pp 3", ["--pp 3", "2 layers"])
    yield from check_refused(box, f"{asked} --gpus 3 --pp 2", ["--pp 2", "which is 3"])
    yield from check_refused(box, f"plan {gpt2} -s zero2 {MACHINE} --gpus 2 --pp 2",
                             ["embedding", "-s ddp", "-s zero1"])
    yield from check_refused(box, f"{asked} --gpus 2 --pp 2 --overlap off", ["--overlap on"])
    yield from check_refused(box, f"{asked} --schedule gpipe", ["--schedule gpipe", "--pp"])
    yield from check_refused(box, "simulate -m megatron-1t -H dgx-a100 --nodes 384 -s ddp --tp 8 "
                             "--pp 64 --batch 0.125 --global-batch 6144",
                             ["--global-batch 6144", "more than 3500000", "or fewer"])
    yield from check_refused(box, f"{asked} --gpus 2 --pp 2 --schedule 1f2b", ["1f1b", "gpipe"])
    if has_ranks():
        run = f"run {model()} -s ddp {BATCH} {MACHINE} {TRAINING} --pp 2"
        yield from check_refused(box, f"{run} --save here --optimizer sm3", ["no --save"], 2)
        stretches = f"run {EIGHT_LAYERS} -s ddp {MACHINE} {TRAINING} {BATCH} --pp 2 --schedule " \
                    "interleaved --virtual-stages 2"
        for kept, other in (("--activation-checkpoint-interval 2", "interval 0 or 1"),
                            ("--kept-bits 8", "--kept-bits 16")):
            yield from check_refused(box, f"{stretches} {kept}",
                                     ["--schedule interleaved", other], 2)
        yield from check_refused_without_flush(box, run)
    for options, words in (("--activation-checkpoint-interval 1", ["zb-h1", "interval 0"]),
                           ("--train norm1", ["zb-h1", "--train"]),
                           ("--kept-bits 8", ["zb-h1", "--kept-bits"])):
        yield from check_refused(box, f"{asked} --gpus 2 --pp 2 --schedule zb-h1 {options}", words)


def check_refused_without_flush(box, run):
    """What stages would have to agree on, or a checkpoint to hold; a plan from a file."""
    kept = "--activation-checkpoint-interval 0"
    box.run(f"plan {model()} -s ddp {BATCH} {MACHINE} {kept} --gpus 2 --pp 2 --schedule 2bw "
            "-o two.plan")
    yield from check_refused(box, f"run --plan two.plan {MACHINE} {TRAINING}",
                             ["two.plan", "not from a file"], 2)
    tied = run.replace(model(), "-m layers=2,hidden=32,heads=4,vocab=256,architecture=gpt2")
    yield from check_refused(box, f"{tied} --schedule 2bw {kept}", ["--clip", "give --clip 0"], 2)
    box.run(f"run {model()} -s ddp {BATCH} {MACHINE} {TRAINING} --save start")
    yield from check_refused(box, f"{run} --schedule 2bw {kept} --steps 8 --from start",
                             ["--from", "give --weights"], 2)
    for options, words in (("--optimizer sm3", ["--optimizer sm3", "--schedule 1f1b"]),
                           ("--loss-scale dynamic", ["--loss-scale dynamic", "give a number"]),
                           ("--commit step", ["--commit"])):
        yield from check_refused(box, f"{run} --schedule pipedream {kept} {options}", words, 2)
    slices = run.replace("--pp 2", "--pp 2 --tp 2")
    yield from check_refused(box, f"{slices} --schedule 2bw {kept}", ["--tp 1"], 4)
    shards = run.replace("-s ddp", "-s zero1")
    yield from check_refused(box, f"{shards} --schedule 2bw {kept}", ["zero1", "-s ddp"], 4)


PARTS = "--train norm1,qkv --tiles 2 --logits-chunks 2"
# Stages, ranks, micro-batches of each, family, options, and what sums in another order may be off
# by.
TWO_VERSIONS = [(2, 2, 3, "llama", "", 0), (4, 4, 6, "llama", "", 0), (2, 4, 2, "llama", "", 2e-4),
                (2, 2, 2, "llama", "", 0), (2, 2, 2, "llama", PARTS, 0),
                (2, 2, 2, "gpt2", "", 2e-4)]


def check_two_versions(box, stages, count, micro_batches, family, options, off):
    """Gradients of parameters one step old, with which an update that is delayed by a step updates
    too: one rank's losses, where no gradient is clipped and no two steps' rates differ.  Those of a
    tied embedding's copies and of data-parallel ranks are summed in another order."""
    training = f"{TRAINING.replace('--steps 4', '--steps 6')} --clip 0 --batch 1 {MACHINE}"
    of = f"-m layers=4,hidden=32,heads=4,vocab=256,architecture={family} --seq 16 {options} " \
         f"{training}"
    alone = box.run(f"run {of} --grad-accum {micro_batches * count // stages} -s zero-offload "
                    "--dpu-start 0")
    if len(set(losses(alone))) != 6:
        yield f"alone: {alone.err[-300:]}"
    together = ranks(box, count, f"run {of} --grad-accum {micro_batches} -s ddp --pp {stages} "
                     "--schedule 2bw --activation-checkpoint-interval 0")
    pairs = list(zip(losses(together), losses(alone)))
    if len(pairs) != 6 or any(abs(float(a) - float(b)) > off * float(b) for a, b in pairs):
        yield f"{losses(together)}, alone {losses(alone)}: {together.err[-300:]}"


def check_updates_saved(box):
    """A checkpoint of more updates than steps is read by who has an update per step."""
    of = f"-m layers=2,hidden=32,heads=4,vocab=256,architecture=llama --seq 16 -s ddp --batch 1 " \
         f"--grad-accum 4 --activation-checkpoint-interval 0 {MACHINE} {TRAINING}"
    saved = ranks(box, 2, f"run {of} --pp 2 --schedule vertical-sync --save updates")
    again = box.run(f"run {of.replace('--steps 4', '--steps 5')} --from updates")
    if saved.status or again.status:
        yield f"{saved.status}, {again.status}: {saved.err[-300:]} {again.err[-300:]}"


def check_unmatched(box):
    """One number of a SEND or RECV, of a program or a communicator, is another."""
    box.run(f"plan {model()} -s ddp {BATCH} {MACHINE} --gpus 2 --pp 2 -o stages.plan")
    text = (box.folder / "stages.plan").read_text()
    changes = [(r"^(work \d+ recv .* hop )1( flops .*)$", r"\g<1>-1\2",
                r"line \d+: match \d+: op .* are not one collective"),
               (r"^(program 1 .*base )1$", r"\g<1>0", r"rank 0 is of program 0 and of program 1"),
               (r"^(comm 3 pp) 2 by 1$", r"\1 2 by 5", r"line \d+: comm 3: "),
               (r"^(op \d+ lane \d+ work \d+ forward .*) match \d+( after .*:source)$", r"\1\2",
                r"line \d+: .*match")]
    for pattern, change, words in changes:
        changed = re.sub(pattern, change, text, count=1, flags=re.M)
        if changed == text:
            yield f"nothing to change: {pattern}"
        box.write("changed.plan", changed)
        yield from check_refused(box, f"simulate changed.plan {MACHINE}", ["changed.plan: line "])
        err = box.run(f"simulate changed.plan {MACHINE}").err
        if not re.search(words, err):
            yield f"{words!r} is not in {err!r}"


def check_in_flight_less(box):
    """A plan file that holds the activations of fewer passes than are under way is not run."""
    for schedule in ("gpipe", "1f1b", "zb-h1"):
        box.run(f"plan {model()} -s ddp {BATCH} {MACHINE} --gpus 2 --pp 2 --schedule {schedule} "
                "--activation-checkpoint-interval 0 -o stages.plan")
        text = (box.folder / "stages.plan").read_text()
        less = re.sub(r"^(program 0 in-flight) \d+", r"\1 1", text, flags=re.M)
        if less == text:
            yield f"{schedule}: nothing to change"
        box.write("changed.plan", less)
        answer = ranks(box, 2, f"run --plan changed.plan {MACHINE} {TRAINING}")
        if not answer.status or "more passes under way" not in answer.err:
            yield f"{schedule}: status {answer.status}: {losses(answer)} {answer.err[-300:]}"


def check_unlike_orders(box):
    """Ranks whose plans are of other schedules are told so, and train nothing."""
    for schedule in ("gpipe", "1f1b"):
        box.run(f"plan {model()} -s ddp {BATCH} {MACHINE} --gpus 2 --pp 2 --schedule {schedule} "
                f"-o {schedule}.plan")
    one, other = (f"run --plan {schedule}.plan {MACHINE} {TRAINING}"
                  for schedule in ("gpipe", "1f1b"))
    answer = ranks(box, 1, f"{one} : -n 1 {MEMWALL} {other}")
    if answer.status != 2 or losses(answer) or "rank 1 has a plan of another" not in answer.err:
        yield f"status {answer.status}: {losses(answer)} {answer.err[-300:]}"


def tests(box):
    rng = random.Random(5)
    box.write("text.txt", "".join(rng.choice("abcdefgh \n") for _ in range(20000)))
    yield "simulated", check_simulated(box)
    yield "in flight", check_in_flight(box)
    yield "interleaved", check_interleaved(box)
    yield "unlike stretches", check_unlike_stretches(box)
    yield "scores of stretches", check_scores_of_stretches(box)
    yield "no flush", check_no_flush(box)
    yield "split", check_split(box)
    yield "ends alone", check_ends_alone(box)
    yield "room of a split", check_split_room(box)
    yield "stages whose GPUs take turns", check_turns(box)
    yield "tied", check_tied(box)
    yield "batch", check_batch(box)
    yield "refusals", check_refusals(box)
    yield "unmatched", check_unmatched(box)
    if has_ranks():
        yield "updates saved", check_updates_saved(box)
    for row in of_rows(TWO_VERSIONS, 2) if has_ranks() else ():
        yield (f"two versions/{' '.join(map(str, row[:5]))}", check_two_versions(box, *row))
    if has_ranks():
        yield "in flight, fewer", check_in_flight_less(box)
        yield "unlike orders", check_unlike_orders(box)
    for name, places in of_rows(PLACES.items(), 3) if has_ranks() else ():
        yield f"losses/{name}", check_places(box, places)
    for name, places in of_rows(SCHEDULES.items(), 3) if has_ranks() else ():
        yield f"losses/{name}", check_places(box, places, GPIPE)
    for name, places in of_rows(ZERO_BUBBLE.items(), 3) if has_ranks() else ():
        yield f"losses/{name}", check_places(box, places, ZB_H1)
    for name, what in of_rows(INTERLEAVED.items(), 2) if has_ranks() else ():
        yield f"losses/interleaved, {name}", check_stretches(box, *what)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
