#!/usr/bin/python3
"""`memwall list`: models, profiles, strategies, devices; prints TAP.

The command is $MEMWALL, or build/cli/memwall.
"""
import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios

from command import MEMWALL, Box
from tap import report_in


def check_list_model(box, name):
    """Operators add up to the model; blocks alone are recomputed; the paper's count is near."""
    model = json.loads(box.run(f"list models {name} --json").out)
    rows = {row["operator"]: row for row in model["operators"]}
    total = {key: sum(row[key] for row in rows.values()) for key in next(iter(rows.values()))
             if key != "operator"}
    if total["params"] != model["params"]:
        yield f"operators have {total['params']} parameters, the model {model['params']}"
    for row in rows.values():
        if row["recompute_flops"] != (row["forward_flops"] if row["layers"] else 0):
            yield f"recompute of {row}"
        if row["operator"] != "attention" and row["backward_flops"] != 2 * row["forward_flops"]:
            yield f"backward of {row}"
    if model["paper_flops"] != 8 * model["paper_params"] * model["seq"]:
        yield f"paper_flops {model['paper_flops']}"
    paper = sum(rows[name][key] for name in ("qkv", "projection", "mlp-up", "mlp-down")
                for key in ("forward_flops", "backward_flops", "recompute_flops"))
    if model["architecture"] == "gpt2" and paper != model["paper_flops"]:
        yield f"products of the blocks take {paper}, the paper counts {model['paper_flops']}"


def check_lists(box):
    """--json lists what the table lists, under the key that asks for it."""
    for what, key in (("models", "model"), ("hwprofiles", "hardware"), ("strategies", "strategy"),
                      ("types", "type")):
        rows = box.run(f"list {what}").out.decode().splitlines()
        heading = what != "strategies"
        names = [row.split()[0] for row in rows[heading:]]
        if [row[key] for row in json.loads(box.run(f"list {what} --json").out)[what]] != names:
            yield f"{what}: the array is not the table"


def check_devices(box):
    """What is here is described, what is not says why; the table has what the array has."""
    rows = json.loads(box.run("list devices --json").out)["devices"]
    table = box.run("list devices").out.decode().split("\n\n")[0].splitlines()[1:]
    if [row["backend"] for row in rows] != [row.split()[0] for row in table]:
        yield f"the array is not the table: {rows}"
    for row, line in zip(rows, table):
        if row.get("name", row.get("why", "nothing")) not in line:
            yield f"{row}: the table has {line}"
    here = {row["backend"]: row for row in rows}
    if here["cpu"].get("memory_bytes", 0) <= 0 or "core" not in here["cpu"].get("name", ""):
        yield f"cpu: {here['cpu']}"
    if "why" not in here["null"] or "why" not in here.get("cuda", {"why": "not built in"}):
        yield f"a device where none is: {rows}"


def check_instruction_sets(box):
    """All are listed, each can be forced, and no other."""
    cpu = next(row for row in json.loads(box.run("list devices --json").out)["devices"]
               if row["backend"] == "cpu")
    names = cpu["instruction_sets"]
    if names[0] != "generic" or cpu["instruction_set"] != os.environ.get("MEMWALL_ISA", names[-1]):
        yield f"{cpu}"
    for name in names:
        done = box.run("list devices", MEMWALL_ISA=name)
        if f"\ninstruction sets of the cores: {', '.join(names)}; in use: {name}, as MEMWALL_ISA " \
                not in done.out.decode():
            yield f"{name}: {done.out.decode()}"
    done = box.run("list devices", MEMWALL_ISA="mmx")
    if done.status != 2 or done.out or \
            not done.err.startswith("memwall: MEMWALL_ISA: value mmx: must be one of "
                                             f"{', '.join(names)}, which"):
        yield f"status {done.status}: {done.err}"


def on_terminal(box, line, columns):
    """What the command writes to a terminal that has so many columns."""
    mine, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    environment = {name: value for name, value in box.environment.items() if name != "COLUMNS"}
    shown = b""
    with subprocess.Popen([str(MEMWALL), *line.split()], cwd=box.folder, env=environment,
                          stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL):
        os.close(theirs)
        while True:
            try:
                shown += os.read(mine, 65536)
            except OSError:  # nobody has it open any more
                break
    os.close(mine)
    return shown.decode().splitlines()


ASK = "-m llama-3.2-3b -H rtx4090 -s zero-offload"


def words(text):
    """Without the memory that is free, which others change between two commands."""
    return re.sub(r"[0-9.]+\s+GiB", "GiB", text).split()


def check_columns(box, line):
    """Within those of a terminal; elsewhere each line is whole, and has the same words."""
    whole = box.run(line).out.decode()
    shown = on_terminal(box, line, 80)
    yield from (f"{len(row)} columns: {row}" for row in shown if len(row) > 80)
    if words("\n".join(shown)) != words(whole):
        yield "other words"
    if len(whole.splitlines()) > len(shown):
        yield "more lines"
    if line.endswith(ASK) and not any("no recomputation" in row or "trains on" in row and
                                      len(row) > 80 for row in whole.splitlines()):
        yield f"lines for a file are not whole: {whole}"


def check_broken(box):
    """A profile of the user's own that cannot be read hides none of the others, and no text of a
    profile reaches the terminal as more than text."""
    own = "config/memwall/hwprofiles"
    box.write(f"{own}/mine.ini", "garbage")
    box.write(f"{own}/red.ini", "[profile]\ninherits = rtx4090\n"
                                "description = a\x1b[31mred\u202ehsif\n")
    for json_too in ("", " --json"):
        answer = box.run(f"list hwprofiles{json_too}")
        lines = answer.err.strip().splitlines()
        if answer.status != 2 or len(lines) != 1 or "mine.ini" not in lines[0]:
            yield f"status {answer.status}: {answer.err}"
        if b"vultr-mi300x-8x" not in answer.out:
            yield f"list hwprofiles{json_too}: profiles behind it are missing"
    json.loads(answer.out)
    for line in ("list hwprofiles", "list hwprofiles red", "plan -m gpt2 -H red",
                 "simulate -m gpt2 -H red --details"):
        text = box.run(line).out.decode()
        if "\x1b" in text or "\u202e" in text or "a\\x1b[31mred\\u202ehsif" not in text:
            yield f"{line}: {text[:300]!r}"
    (box.folder / own / "mine.ini").unlink()
    (box.folder / own / "red.ini").unlink()


def tests(box):
    for line in ("list hwprofiles", "list strategies", "list devices", "list models", "list runs",
                 f"simulate {ASK}", f"plan {ASK}"):
        yield f"columns: {line}", check_columns(box, line)
    for name in ("tiny", "gpt3-175b", "zi-1t", "llama-3-70b", "gemma-2-9b", "opt-350m",
                 "deepseek-v3"):
        yield f"list models {name}", check_list_model(box, name)
    yield "json", check_lists(box)
    yield "broken", check_broken(box)
    yield "devices", check_devices(box)
    yield "instruction sets", check_instruction_sets(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
