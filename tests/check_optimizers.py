#!/usr/bin/python3
"""`--optimizer`: bytes, traffic and time of optimizers, as their sources have them; prints TAP."""
import json
import sys

from command import Box, answer_of, refused
from tap import report_in

# Bytes of a parameter beside its 16 bits and its gradient's, by the sources that the list names:
# an fp32 parameter, and moments; a scale of 32 bits for 2048 moments of 8 bits (arXiv 2110.02861).
BYTES = {"adamw": 12, "adamw-16bit": 8, "adamw-8bit": 4 + 2 * (1 + 4 / 2048), "adamw-pure": 4,
         "sgd": 4, "sgd-momentum": 8, "lion": 8, "adafactor": 4, "sm3": 8}
PARAMS = 8_030_261_248  # of Llama 3.1 8B
ASK = "simulate -m llama-3.1-8b -H h100 --batch 1 --seq 512 --grad-accum 1 --json"


def ask(box, options):
    answer = box.run(f"{ASK} {options}")
    return answer_of(answer.out) if not answer.status else answer.err


def check_list(box):
    listed = json.loads(box.run("list optimizers --json").out)["optimizers"]
    found = {row["optimizer"]: row["state_bytes_per_parameter"] for row in listed}
    if found != BYTES:
        yield f"{found}"
    for row in listed:
        if not row["source"] or row["runs"] != (row["optimizer"] == "adamw"):
            yield f"{row}"


def check_state(box, placement, tier):
    for name, each in BYTES.items():
        answer = ask(box, f"{placement} --optimizer {name}")
        if isinstance(answer, str):
            yield answer
            continue
        state = sum(row["bytes"] for row in answer["ledger"]
                    if row["purpose"] == "optimizer-state" and row["tier"] == tier)
        if not 0 <= state - each * PARAMS <= 1e-3 * each * PARAMS:
            yield f"{name}: {state} bytes, {each * PARAMS:.0f} by hand"


def check_drives(box):
    """All state is read and written once per step."""
    for name, each in BYTES.items():
        answer = ask(box, f"-s zero-infinity-nvme --optimizer-device nvme --param-device cpu "
                          f"--gradient-device cpu --commit none --optimizer {name}")
        if isinstance(answer, str):
            yield answer
            continue
        written = answer["nvme_written_bytes"]
        if not 0 <= written - each * PARAMS <= 1e-3 * each * PARAMS:
            yield f"{name}: {written} bytes written, {each * PARAMS:.0f} by hand"


def check_time(box):
    """An update that memory limits takes as long as its bytes: state twice, parameter, gradient."""
    times = {}
    for name, each in BYTES.items():
        answer = ask(box, "-s zero-offload --software ideal --optimizer " + name)
        if isinstance(answer, str):
            yield answer
            return
        [lane] = [row for row in answer["lanes"] if row["name"] == "host"]
        times[name] = lane["busy_s"] / (2 * each + 4)
    norm = times["adamw"]  # with the gradients' norm, which is the same for all
    for name, per_byte in times.items():
        if not 0.95 * norm < per_byte < 1.6 * norm:
            yield f"{name}: {per_byte / norm} of AdamW's time per byte"


def check_refusals(box):
    box.write("text.txt", "words " * 500)
    yield from refused(box.run(f"{ASK} --optimizer adam"),
                       ["--optimizer adam", "adamw-8bit", "sm3"])
    yield from refused(box.run("run -m gpt2 -H h100 --data text.txt --optimizer lion"),
                       ["--optimizer lion", "adamw", "memwall simulate"])
    planned = box.run("plan -m gpt2 -H h100 -s ddp --batch 1 --optimizer lion -o plan.txt")
    if planned.status or " optimizer lion" not in (box.folder / "plan.txt").read_text("utf-8"):
        yield f"plan: {planned.err}"
    yield from refused(box.run("run --plan plan.txt -H h100 --data text.txt"), ["AdamW"])
    if box.run("simulate plan.txt -H h100").status:
        yield "a plan with another optimizer is not read back"


def tests(box):
    yield "list", check_list(box)
    yield "state on the GPU", check_state(box, "-s ddp --set gpu.memory_gib=400", "gpu")
    yield "state on the host", check_state(box, "-s zero-offload", "cpu")
    yield "drives", check_drives(box)
    yield "time", check_time(box)
    yield "refusals", check_refusals(box)


def main():
    return report_in(Box, tests)


if __name__ == "__main__":
    sys.exit(main())
