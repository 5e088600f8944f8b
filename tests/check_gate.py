#!/usr/bin/python3
"""memwall check, typed in; prints TAP.

found        a regression of 5% that is planted in a log of each format is found, and its lane named
             where the format has lanes.
quiet        100 noisy logs without one, with outliers, drift and slow stretches, pass.
run          memwall's own log, JSON and timeline of a run say the same; a planted one is found.
kept         the baseline that is kept of a log decides as the log does.
predicted    the share of a predicted speed, by each measure that logs have.
limits       larger and smaller tolerances, warm-up, few steps, faster runs.
answers      predictions are made anew, or read from simulate and sweep; what moved is said.
figures      a figure that is missing now fails; what is no number is refused.
texts        logs with a byte order mark, with \\r\\n, or with Python's NaN are read as others.
written      what is written has no purpose that holds it.
forms        JUnit and annotations, whatever stands in names.
cut          a text log without the end of its last line is read without it.
files        no baseline of what is refused, none over what is read.
refused      bad input is one line.
project      the predictions of tests/predictions.json are those of today.

The command is $MEMWALL, or build/cli/memwall.
"""
import copy
import json
import os
import re
import sys
import xml.etree.ElementTree

from command import FLAT, ROOT, SIMULATE, Box, refused, sample, sixth
from gate_logs import FORMATS, megatron, steps_of, text_of, torchtitan
from tap import report_in

PREDICTIONS = ROOT / "tests/predictions.json"


def judged(box, line, status):
    """What is wrong with the status; the output."""
    answer = box.run("check " + line)
    if answer.status != status:
        return [f"check {line}: status {answer.status} instead of {status}: "
                f"{answer.out.decode()}{answer.err}"], answer.out.decode()
    return [], answer.out.decode()


def check_found(box):
    for name, (_, lane) in FORMATS.items():
        box.write("old", text_of(name, 1))
        for seed in sixth(range(2, 5)):
            box.write("new", text_of(name, seed, slower=0.05))
            wrong, text = judged(box, "--baseline old new", 4)
            yield from wrong
            said = f"{lane} grew most" if lane else "do not say which part"
            if said not in text or "slower than the baseline" not in text:
                yield f"{name}: {said!r} is not in {text}"
    box.write("old", text_of("megatron", 1))
    for part, timer in (("forward", "forward-compute of forward-backward"),
                        ("update", "optimizer-inner-step of optimizer")):
        box.write("new", text_of("megatron", 2, slower=0.06, part=part))
        wrong, text = judged(box, "--baseline old new", 4)
        yield from wrong
        if f"{timer} grew most" not in text:
            yield f"{timer}: {text}"


def check_quiet(box):
    names = list(FORMATS)
    for name in names:
        box.write(f"old-{name}", text_of(name, 1000))
    seeds = list(range(100))
    for seed in sample(seeds):
        name = names[seed % len(names)]
        box.write("new", text_of(name, seed, sigma=(0.02, 0.03, 0.05)[seed % 3],
                                 drift=0.005 + 0.01 * (seed % 2)))
        wrong, _ = judged(box, f"--baseline old-{name} new", 0)
        yield from wrong


# --- runs of memwall -----------------------------------------------------------------------------

RUN = ("run -m tiny -H flat-test --data text.txt --seq 32 --batch 1 --steps 40 --device-threads 1 "
       "--host-threads 1 -s zero3 --log log --save-timeline timeline --json")
STEP = re.compile(r"^step (\d+) time (\d+)$")
ROW = re.compile(r"^(\d+) (\d+) (\d+)$")


def retimed(text, times, longer=1.0):
    """A timeline whose steps take these times: all that ran in one, in proportion.  `longer`: of
    the last op, which is the compute lane's."""
    plan, run = text.split("memwall-run 1\n")
    lines, factor, index = [], 1, 0
    for line in run.splitlines():
        step, row = STEP.match(line), ROW.match(line)
        if step:
            factor = times[index % len(times)] * longer * 1e9 / int(step[2])
            index += 1
            line = f"step {step[1]} time {round(int(step[2]) * factor)}"
        elif row:
            line = f"{row[1]} {round(int(row[2]) * factor)} {round(int(row[3]) * factor)}"
        lines.append(line + "\n")
    return plan + "memwall-run 1\n" + "".join(lines)


def check_run(box):
    box.write("text.txt", "to be or not to be, " * 400)
    answer = box.run(RUN)
    if answer.status:
        yield answer.err
        return
    done = json.loads(answer.out)
    compare = done["answers"][0]["compare"]
    times = [sum(s.values()) for s in steps_of(1, 60, warm=0)]
    kept = (box.folder / "timeline").read_text()
    # Each writes what it measured, of which a busy machine may have lost steps: the same times.
    box.write("timeline", retimed(kept, times))
    box.write("log", "".join(
        json.dumps(dict(json.loads(line), step_time_s=seconds)) + "\n"
        for line, seconds in zip((box.folder / "log").read_text().splitlines(), times)))
    compare.update(step_times_s=times[1:1 + len(compare["step_times_s"])], stolen_steps=0)
    box.write("run.json", done)
    medians = []
    for name in ("log", "run.json", "timeline"):
        wrong, text = judged(box, f"--baseline {name} {name} --json", 0)
        yield from wrong
        medians.append(json.loads(text)["runs"]["after"])
    if [side["format"] for side in medians] != ["memwall-log", "memwall-run", "memwall-timeline"]:
        yield f"formats: {medians}"
    spread = [side["median_step_time_s"] for side in medians]
    if max(spread) > 1.01 * min(spread):
        yield f"the three say {spread}"
    slow = [sum(s.values()) for s in steps_of(2, 60, warm=0)]
    box.write("old.timeline", retimed(kept, times))
    box.write("new.timeline", retimed(kept, slow, 1.06))
    wrong, said = judged(box, "--baseline old.timeline new.timeline", 4)
    yield from wrong
    if "compute lane grew most" not in said:
        yield f"timeline: {said}"
    lane = next(lane for lane in compare["lanes"] if lane["name"] == "compute")
    for name, factor in (("old.json", 1), ("new.json", 1.08)):
        compare["step_times_s"] = [t * factor for t in times]
        lane["busy"]["measured_s"] = 0.8 * factor
        box.write(name, done)
    wrong, said = judged(box, "--baseline old.json new.json", 4)
    yield from wrong
    if "compute lane grew most" not in said:
        yield f"JSON: {said}"


def check_kept(box):
    for name, (_, lane) in sixth(FORMATS.items()):
        box.write("old", text_of(name, 1))
        box.write("new", text_of(name, 2, slower=0.05))
        yield from judged(box, "--write-baseline kept.json old", 0)[0]
        direct = json.loads(box.run("check --baseline old new --json").out)
        kept = json.loads(box.run("check --baseline kept.json new --json").out)
        if direct["runs"] != kept["runs"]:
            yield f"{name}: {direct['runs']} by the log, {kept['runs']} by the baseline"
        if lane and kept["runs"]["part"]["name"] not in lane:
            yield f"{name}: {kept['runs']['part']}"


def check_predicted(box):
    box.write("step.json", box.run(SIMULATE + " --json").out)
    [answer] = json.loads((box.folder / "step.json").read_text())["answers"]
    shape, step = answer["settings"], answer["step_time_s"]
    batch = round(shape["global_batch"])
    gpus = shape["nodes"] * shape["gpus_per_node"]
    per_gpu = shape["tokens_per_step"] / gpus
    logs = {
        "log": lambda steps: FORMATS["memwall"][0](steps, step),
        "megatron": lambda steps: megatron(steps, batch=3 * batch),
        "titan": lambda steps: torchtitan(steps, tokens=1000 * per_gpu),
        "rates": lambda steps: FORMATS["deepspeed-rates"][0](steps, batch),
        "deepspeed": FORMATS["deepspeed"][0],
    }
    for name, write in logs.items():
        scale = step * {"megatron": 3, "titan": 1000}.get(name, 1)
        for share, status in ((0.9, 0), (0.7, 4)):
            box.write("log", "".join(write(steps_of(3, scale=scale / share))))
            wrong, text = judged(box, "log --predicted step.json --min-of-predicted 0.8 --json",
                                 status)
            yield from wrong
            value = json.loads(text)["runs"]["of_predicted"]["value"]
            if not 0.95 * share < value < 1.02 * share:
                yield f"{name}: {value} of the predicted speed instead of {share}"
    box.write("log", "".join(FORMATS["memwall"][0](steps_of(3, scale=2))))
    yield from judged(box, "log --min-of-predicted 80%", 4)[0]
    yield from judged(box, "log --min-of-predicted 40%", 0)[0]


def check_limits(box):
    box.write("old", text_of("deepspeed", 1))
    box.write("new", text_of("deepspeed", 2, slower=0.05))
    for line, status in (("--max-drop 8%", 0), ("--max-drop 0.08", 0), ("--max-drop 2%", 4),
                         ("--warm-up 0", 4), ("--warm-up 100", 4), ("--min-steps 180", 4)):
        yield from judged(box, "--baseline old new " + line, status)[0]
    yield from judged(box, "--baseline new old", 0)[0]
    wrong, text = judged(box, "--baseline new old --either-way", 4)
    yield from wrong
    if "faster than the baseline" not in text:
        yield text
    yield from refused(box.run("check --baseline old new --warm-up 20 --min-steps 181"),
                       ["180 steps", "20 of warm-up", "--min-steps"])
    # The default warm-up leaves as many steps as a verdict takes.
    wrong, text = judged(box, "--baseline old new --min-steps 195 --json", 4)
    yield from wrong
    if json.loads(text)["runs"]["after"]["warm_up_steps"] != 5:
        yield text
    # One mean of a whole run is a verdict without a range, for who asks for it.
    state = {"log_history": [{"step": 100, "train_runtime": 100.0}]}
    box.write("whole.json", state)
    state["log_history"][0]["train_runtime"] = 110.0
    box.write("slow.json", state)
    wrong, text = judged(box, "--baseline whole.json slow.json --min-steps 1 --json", 4)
    yield from wrong
    if json.loads(text)["runs"]["speed"]["confidence"] is not None:
        yield f"a confidence of one value: {text}"
    text = box.run("check --baseline whole.json slow.json --min-steps 1").out.decode()
    if "confidence" in text or "too few steps" not in text:
        yield text
    # Faster than the baseline and slower than predicted: both have failed.
    box.write("old.log", "".join(FORMATS["memwall"][0](steps_of(1, scale=1.2), 0.5)))
    box.write("new.log", "".join(FORMATS["memwall"][0](steps_of(2, scale=1), 0.5)))
    yield from judged(box, "--baseline old.log new.log --either-way --min-of-predicted 90% "
                           "--junit both.xml", 4)[0]
    suites = xml.etree.ElementTree.parse(box.folder / "both.xml").getroot()
    if suites.get("failures") != "2" or \
            "at most 103% is wanted" not in suites.find(".//failure").get("message"):
        yield f"JUnit: {xml.etree.ElementTree.tostring(suites)}"
    yield from refused(box.run("check --baseline whole.json slow.json"), ["1 steps", "too few"])


# --- predictions ---------------------------------------------------------------------------------

def check_answers(box):
    write = f"--write-baseline base.json {FLAT} -s zero3 --tokens 1B --over batch=1,2,4096"
    yield from judged(box, write, 0)[0]
    yield from judged(box, "--baseline base.json --either-way --max-drop 0%", 0)[0]
    base = json.loads((box.folder / "base.json").read_text())
    first, second, third_ = base["predictions"]
    if [row["figures"]["feasible"] for row in base["predictions"]] != [1, 1, 0]:
        yield f"feasible: {base['predictions']}"
    first["figures"]["step_time_s"] /= 1.05
    next(lane for lane in first["lanes"] if lane["name"] == "compute")["busy_s"] *= 0.9
    second["figures"]["gpu_peak_bytes"] *= 2  # was worse
    third_["figures"].update(feasible=1, step_time_s=1.0)
    base["predictions"].append(dict(first, name="another", question=dict(first["question"], tp=7)))
    base["predictions"][-1]["question"]["tp"] = "7"
    box.write("moved.json", base)
    wrong, text = judged(box, "--baseline moved.json", 4)
    yield from wrong
    for words in ("step time", "(+5.0%): compute lane busy +", "fits yes -> no",
                  "is refused now:", "failed: 3 of 4"):
        if words not in text:
            yield f"{words!r} is not in {text}"
    if "gpu peak" in text:
        yield f"what is better, is said: {text}"
    wrong, text = judged(box, "--baseline moved.json --either-way", 4)
    if "gpu peak" not in text or "failed: 4 of 4" not in text:
        yield f"either way: {text}"
    for name, value in (("serve", "8"), ("objective", "dpo"), ("strategy", "zero1,zero2")):
        base["predictions"] = [dict(first, question=dict(first["question"], **{name: value}))]
        box.write("other.json", base)
        yield from refused(box.run("check --baseline other.json"), ["other.json", "batch=1", name])
    base["predictions"] = [first]
    box.write("first.json", base)
    for line, status in (("--max-drop 6%", 0), ("--tolerance step_time_s=6%", 0),
                         ("--tolerance tokens_per_s=6%", 4)):
        yield from judged(box, f"--baseline first.json {line}", status)[0]
    wrong, text = judged(box, "--baseline base.json first.json", 4)
    if "is missing now" not in text:
        yield f"missing: {text}"
    for file, line in (("a.json", f"simulate {FLAT} -s zero3 --batch 1 --json"),
                       ("b.json", f"simulate {FLAT} -s zero3 --batch 1 --json "
                                  "--set gpu.matmul_tflops=50"),
                       ("c.json", f"simulate {FLAT} -s zero3 --batch 2 --json"),
                       ("a.csv", f"sweep {FLAT} -s zero3 --over batch=1,2"),
                       ("a.rows", f"sweep {FLAT} -s zero3 --over batch=1,2 --json"),
                       ("b.csv", f"sweep {FLAT} -s zero3 --over batch=1,2 "
                                 "--set gpu.matmul_tflops=50")):
        answer = box.run(line)
        if answer.status:
            yield f"{line}: {answer.err}"
        box.write(file, answer.out)
    for line, status, words in (("a.json b.json", 4, "compute lane busy +"),
                                ("a.json a.json", 0, "1 of 1"),
                                ("a.json c.json", 4, "GiB -> "),
                                ("a.json c.json", 4, "): activations +"),
                                ("a.csv a.rows", 0, "2 of 2"),
                                ("a.rows b.csv", 4, "batch=2")):
        wrong, text = judged(box, "--baseline " + line, status)
        yield from wrong
        if words not in text:
            yield f"{line}: {words!r} is not in {text}"


def check_figures(box):
    yield from judged(box, f"--write-baseline kept.json {FLAT} -s zero3 --tokens 1B --batch 1",
                      0)[0]
    base = json.loads((box.folder / "kept.json").read_text())

    def with_figures(change):
        other = copy.deepcopy(base)
        other["predictions"][0].update(change(other["predictions"][0]["figures"]))
        box.write("other.json", other)

    for name in ("days", "gpu_peak_bytes"):
        with_figures(lambda figures: {"figures": dict(figures, **{name: None})})
        wrong, text = judged(box, "--baseline kept.json other.json --max-drop 99%", 4)
        yield from wrong
        if "-> missing" not in text:
            yield f"{name}: {text}"
    for figures in ({}, "", None):
        with_figures(lambda _: {"figures": figures})
        yield from refused(box.run("check --baseline other.json"), ["other.json", "feasible"])
    for name, value in (("feasible", 7), ("step_time_s", None), ("step_time_s", "9999"),
                        ("step_time_s", True), ("days", "x"), ("cost_usd", -1)):
        with_figures(lambda figures: {"figures": dict(figures, **{name: value})})
        for line in sixth(("other.json", "kept.json other.json")):
            yield from refused(box.run("check --baseline " + line), ["other.json", name])
    rows = box.run(f"sweep {FLAT} -s zero3 --over batch=1").out.decode()
    box.write("rows.csv", rows)
    names, cells = (line.split(",") for line in rows.splitlines())
    for value in sixth(("nan", "inf", "x", "")):
        cells[names.index("step_time_s")] = value
        box.write("cells.csv", ",".join(names) + "\n" + ",".join(cells) + "\n")
        yield from refused(box.run("check --baseline rows.csv cells.csv"), ["cells.csv", "step"])


def check_texts(box):
    for name in ("memwall", "trainer-state"):
        text = text_of(name, 1)
        box.write("old", text)
        for other in ("\ufeff" + text, text.replace("\n", "\r\n"),
                      re.sub(r'"(grad_norm|gradient_norm)": [0-9.]+', r'"\1": NaN', text)):
            (box.folder / "new").write_bytes(other.encode())
            wrong, said = judged(box, "--baseline old new --json", 0)
            yield from wrong
            if not wrong and json.loads(said)["runs"]["after"]["steps"] != 180:
                yield f"{name}: {said}"
    box.write("few.json", {"log_history": [{"step": 100, "train_runtime": 100.0}]})
    yield from refused(box.run("check --baseline few.json few.json"),
                       ["1 steps", "include_num_input_tokens_seen"])
    # What the noise hides is said; and so is a prediction that is far off.
    box.write("old", text_of("memwall", 1))
    box.write("new", text_of("memwall", 2, slower=0.03))
    for line, words in (("--baseline old new", ["undecided", "smallest drop"]),
                        ("old --min-of-predicted 0.01", ["passed"])):
        wrong, said = judged(box, line, 0)
        yield from wrong
        yield from (f"{line}: {word!r} is not in {said}" for word in words if word not in said)
    box.write("fast", "".join(FORMATS["memwall"][0](steps_of(1), 1.5)))
    if "more than 120%" not in judged(box, "fast --min-of-predicted 0.8", 0)[1]:
        yield "150% of the predicted speed pass without a word"


def check_written(box):
    """Bytes that were written are no peak: no purpose is blamed for them."""
    for name, size in (("old", 1 << 30), ("new", 2 << 30)):
        box.write(name, {"schema": "memwall-baseline/1", "version": "1", "predictions": [{
            "name": "one", "question": {}, "lanes": [],
            "figures": {"feasible": 1, "step_time_s": 1, "nvme_peak_bytes": size,
                        "nvme_written_bytes": size},
            "ledger": [{"tier": "nvme", "purpose": "optimizer", "bytes": size}]}]})
    wrong, text = judged(box, "--baseline old new --json", 4)
    yield from wrong
    because = {row["figure"]: row["because"]
               for row in json.loads(text)["predictions"]["moved"]}
    if because.get("nvme_written_bytes", "") is not None or \
            "optimizer +" not in because["nvme_peak_bytes"]:
        yield f"because: {because}"


def check_forms(box):
    axis = "--over 'param-device=cpu:1GB,gpu;gpu'"
    yield from judged(box, f"--write-baseline base.json {FLAT} -s zero-infinity-cpu --batch 1 "
                           f"{axis}", 0)[0]
    base = json.loads((box.folder / "base.json").read_text())
    base["predictions"][0]["name"] = 'a, "b": 100% <of> all\n::error::\ufffe\uffff'
    base["predictions"][0]["figures"]["step_time_s"] /= 2
    box.write("base.json", base)
    wrong, text = judged(box, "--baseline base.json --github --junit out.xml", 4)
    yield from wrong
    errors = [line for line in text.splitlines() if line.startswith("::")]
    if len(errors) != 1 or not errors[0].startswith(
            '::error title=memwall check%3A a%2C "b"%3A 100%25 <of> all'):
        yield f"annotations: {errors}"
    if "(+100.0%25)" not in errors[0]:
        yield f"annotations: {errors}"
    suites = xml.etree.ElementTree.parse(box.folder / "out.xml").getroot()
    cases = suites.findall("testsuite/testcase")
    failures = [case.get("name") for case in cases if case.find("failure") is not None]
    if (suites.get("failures"), len(cases)) != ("1", 2) or len(failures) != 1 or \
            not failures[0].startswith('a, "b": 100% <of> all'):
        yield f"JUnit: {xml.etree.ElementTree.tostring(suites)}"
    box.write("old", text_of("megatron", 1))
    box.write("new", text_of("megatron", 2, slower=0.06))
    wrong, text = judged(box, "--baseline old new --github --junit out.xml", 4)
    if "::error title=memwall check%3A speed of the baseline::" not in text or \
            "all-grads-sync grew most" not in text.splitlines()[-1]:
        yield f"annotations: {text}"
    suites = xml.etree.ElementTree.parse(box.folder / "out.xml").getroot()
    if suites.get("failures") != "1":
        yield f"JUnit: {xml.etree.ElementTree.tostring(suites)}"


# --- bad input -----------------------------------------------------------------------------------

def check_cut(box):
    for name in sixth(("deepspeed", "megatron", "torchtitan", "memwall", "deepspeed-means")):
        text = text_of(name, 1)
        box.write("old", text)
        box.write("new", text[:-20])
        wrong, said = judged(box, "--baseline old new", 0)
        yield from wrong
        if "cut off" not in said:
            yield f"{name}: nothing is said of the cut: {said}"


def cut_files(box):
    """Names of files that are cut off, or of another version, and what is said of them."""
    state = text_of("trainer-state", 1)
    answer = box.run(SIMULATE + " --json").out.decode()
    rows = box.run(f"sweep {FLAT} -s zero3 --over batch=1,2").out.decode()
    files = {"state.json": (state[:len(state) // 2], ["state.json", "cut short"]),
             "answer.json": (answer[:len(answer) // 2], ["answer.json"]),
             "rows.csv": (rows[:-30], ["rows.csv", "cut off"]),
             "cells.csv": (rows[:-30] + "\n", ["cells.csv:3", "cells"]),
             "twice.csv": (rows + rows.splitlines(True)[1], ["batch=1", "twice"]),
             "newer.json": (answer.replace("answer/1", "answer/2"), ["memwall-answer/2", "reads"]),
             "other.json": ('{"schema": "memwall-runs/1", "runs": []}',
                            ["no format", "torchtitan"]),
             "none.txt": ("to be or not to be\n", ["no format", "DeepSpeed"]),
             "empty": ("", ["empty"]), "blank": (" \n\n", ["empty"]),
             "again": (text_of("megatron", 1) * 2, ["again:1801", "step 1", "after step 200"]),
             "slow.json": ('{"log_history": [{"step": 1, "loss": 1.0}]}',
                           ["include_num_input_tokens_seen"]),
             "few": (text_of("deepspeed", 1, 5), ["5 steps", "too few"]),
             "lines": (text_of("memwall", 1) + "{\n", ["lines:201"]),
             "long": ("x" * 300000 + "\n", ["no format"])}
    for name, (text, words) in files.items():
        box.write(name, text)
        yield name, words


def check_kept_files(box):
    """A baseline of no answer is not written, and no file that the question reads is replaced."""
    for line, words in (
            ("-m gpt2-xxl -H rtx4090", ["gpt2-xxl", "did you mean"]),
            ("-m gpt2-xl -H rtx409O", ["rtx409O"]), (["-m", "", "-H", "rtx4090"], ["no such"]),
            ("-m gpt2-xl -H rtx4090 --tp 7", ["--tp 7"]),
            ("-m gpt2-xl -H rtx4090 --over tp=3,7", ["all 2 points", "--tp 3"]),
            ("-m gpt2-xl -H rtx4090 --json", ["--json", "compares nothing"])):
        words_of = line.split() if isinstance(line, str) else line
        yield from refused(box.run(["check", "--write-baseline", "none.json"] + words_of), words)
    if (box.folder / "none.json").exists():
        yield "a baseline is written of a question that is refused"
    ini = (ROOT / "hwprofiles/rtx4090.ini").read_text()
    box.write("hw.ini", ini)
    (box.folder / "points.csv").write_bytes("\ufeffbatch\n1\n".encode())
    question = "-m gpt2-xl -H ./hw.ini -s zero-offload --points points.csv"
    answer = box.run(f"check --write-baseline kept.json {question}")
    if answer.status or "1 prediction" not in answer.err:
        yield f"{answer.status}: {answer.err}"
    for line, words in ((f"--write-baseline hw.ini {question}", ["hw.ini", "-H"]),
                        (f"--write-baseline points.csv {question}", ["points.csv", "--points"]),
                        ("--baseline kept.json --junit hw.ini", ["hw.ini", "--junit"])):
        yield from refused(box.run("check " + line), words)
    for line in (["--baseline", "kept.json", "--junit", ""],
                 ["--write-baseline", "", "-m", "gpt2-xl", "-H", "rtx4090"]):
        yield from refused(box.run(["check"] + line), ["name is missing"])
    if (box.folder / "hw.ini").read_text() != ini or \
            (box.folder / "points.csv").read_bytes() != "\ufeffbatch\n1\n".encode():
        yield "a file that the question reads was replaced"
    # The help lists the figures that an unknown one is told of.
    told = box.run("check --baseline kept.json --tolerance x=1%").err.split("figures are ")[-1]
    listed = " ".join(box.run("check --help").out.decode().split())
    if told.strip() not in listed:
        yield f"--help does not list {told}"


def check_refused(box):
    box.write("old", text_of("deepspeed", 1))
    box.write("titan", text_of("torchtitan", 1))
    box.write("small", "".join(megatron(steps_of(1), batch=64)))
    box.write("large", "".join(megatron(steps_of(1), batch=128)))
    box.write("answer", box.run(SIMULATE + " --json").out)
    box.write("other", box.run("simulate -m gpt2 -H flat-test -s zero3 --batch 1 --json").out)
    for name, words in cut_files(box):
        yield from refused(box.run(f"check --baseline old {name}"), words)
        yield from refused(box.run(f"check --baseline {name} old"), words[:1])
    for line, words in (
            ("", ["--baseline FILE"]), ("old", ["--baseline FILE", "--min-of-predicted"]),
            ("--baseline old", ["old", "name the log"]), ("--baseline missing old", ["missing"]),
            ("--baseline old old old", ["unexpected", "old"]),
            ("--baseline old titan", ["time of a step", "tokens/s per GPU"]),
            ("--baseline small large", ["64 sequences", "128"]),
            ("--baseline old answer", ["answer has predictions"]),
            ("--baseline answer old", ["answer has predictions", "--predicted"]),
            ("--baseline answer", ["its question", "--write-baseline"]),
            ("--baseline answer other", ["no question in common", "gpt2-xl on flat-test"]),
            ("--baseline old old --max-drop 3", ["--max-drop 3", "3%"]),
            ("--baseline old old --max-drop -1%", ["--max-drop", "from 0"]),
            ("--baseline old old --max-drop 200%", ["--max-drop", "99%"]),
            ("--baseline old old --max-drop nan", ["--max-drop nan"]),
            ("--baseline old old --tolerance cost_usd=1%", ["--tolerance", "--max-drop"]),
            ("--baseline answer answer --tolerance cost=1%", ["did you mean cost_usd", "figures"]),
            ("--baseline answer answer --tolerance cost_usd", ["FIGURE=SHARE"]),
            ("--baseline answer answer --min-of-predicted 0.8", ["--min-of-predicted", "runs"]),
            ("old --min-of-predicted 0.8", ["--predicted FILE", "simulate --json"]),
            ("old --predicted answer --baseline old", ["--min-of-predicted SHARE"]),
            ("old --predicted old --min-of-predicted 0.8", ["one prediction"]),
            ("--baseline old old --min-steps 0", ["min-steps", "1"]),
            ("--baseline old old --warm-up x", ["warm-up"]),
            ("--baseline old old --json --github", ["--github", "--json"]),
            ("--baseline old old --junit no/where.xml", ["no/where.xml"]),
            ("--baseline old old --junit old", ["--junit"]),
            ("--write-baseline unwritten.json", ["-m MODEL", "LOG"]),
            ("--write-baseline unwritten.json answer", ["answer has predictions", "-m MODEL"]),
            ("--write-baseline unwritten.json --max-drop 3% old", ["--max-drop", "leave one out"]),
            (f"--write-baseline unwritten.json {FLAT} --max-drop 3%", ["--max-drop"]),
            (f"--write-baseline no/new.json {FLAT}", ["no/new.json"]),
            (f"--baseline old {FLAT}", ["--baseline", "--write-baseline"]),
            ("--write-baseline unwritten.json -m gpt2-xl -s zero3", ["-H HW is missing"]),
            ("--write-baseline unwritten.json -m gpt2-xl -H here", ["-H HW is missing"]),
            (f"{FLAT} -s zero3", ["--write-baseline FILE is missing"]),
            (f"--write-baseline unwritten.json {FLAT} --over batch=1,1", ["batch has 1 twice"]),
            (f"--write-baseline unwritten.json {FLAT} --over seq=1..5000",
             ["--over", "5000", "4000"]),
            (f"--write-baseline unwritten.json {FLAT} --serve 8", ["--serve", "check"])):
        yield from refused(box.run("check " + line), words)
    if (box.folder / "unwritten.json").exists():
        yield "a baseline is written by a command that was refused"


def check_project(box):
    if os.environ.get("MW_UPDATE_GOLDEN"):
        answer = box.run(["check", "--write-baseline", str(PREDICTIONS), "--points",
                          str(ROOT / "tests/predictions.csv")])
        if answer.status:
            yield answer.err
    answer = box.run(["check", "--baseline", str(PREDICTIONS), "--either-way", "--max-drop",
                      "0.1%"])
    if answer.status:
        yield "predictions changed; MW_UPDATE_GOLDEN=1 takes them as they are"
        yield from (answer.out.decode() + answer.err).splitlines()


def main():
    return report_in(Box, lambda box: [(name, check(box)) for name, check in (
        ("found", check_found), ("quiet", check_quiet), ("run", check_run), ("kept", check_kept),
        ("predicted", check_predicted), ("limits", check_limits), ("answers", check_answers),
        ("figures", check_figures), ("texts", check_texts), ("files", check_kept_files),
        ("written", check_written),
        ("forms", check_forms), ("cut", check_cut), ("refused", check_refused),
        ("project", check_project))])


if __name__ == "__main__":
    sys.exit(main())
