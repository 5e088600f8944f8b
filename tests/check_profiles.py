#!/usr/bin/python3
"""Profiles of machines as users write them; prints TAP.

refused   a text that means nothing, and figures that contradict each other, in one line.
marked    a byte order mark, which some editors write, changes nothing.
terminal  no byte of a profile moves the cursor.
inherited nothing of another GPU's tiles beside a curve of its own; and a file that lacks a key is
          told that it could inherit.
plans     the machine of a plan is one that is known, and its slots hold what they say.

The command is $MEMWALL, or build/cli/memwall.
"""
import sys

from command import PROFILE, Box, refused
from tap import report_in

ASK = "simulate -m gpt2 -H own.ini --batch 1 -s ddp"
REFUSED = (
    ("[profile]\ninherits = h100\ndate = yesterday\n", ["date = yesterday", "YYYY-MM"]),
    ("[profile]\ninherits = h100\ndate = 2026-13\n", ["date = 2026-13", "YYYY-MM"]),
    ("[profile]\ninherits = h100\nbackend = xyz\n", ["backend = xyz", "cpu or cuda"]),
    ("[profile]\ninherits = h100\nrate_left = much\n", ["rate_left = much", "above 0"]),
    ("[profile]\ninherits = h100\ncalibrated = today\n", ["calibrated = today", "YYYY-MM-DD"]),
    ("[profile]\ninherits = h100\n[gpu]\ntile_tflops = 5000\n", ["tile_tflops", "peak_tflops"]),
    (b"[profile]\ninherits = h100\n# \xff\n", ["line 3", "0xFF", "UTF-8"]),
)


def write(box, content):
    (box.folder / "own.ini").write_bytes(
        content if isinstance(content, bytes) else content.encode())


def check_refused(box):
    for content, words in REFUSED:
        write(box, content)
        yield from refused(box.run(ASK), ["own.ini", *words])
    for date in ("2026", "2026-11", "2026-11-28"):
        write(box, f"[profile]\ninherits = h100\ndate = {date}\nbackend = cuda\nrate_left = 0.9\n")
        answer = box.run(ASK)
        if answer.status:
            yield f"{date}: {answer.err}"


def check_marked(box):
    write(box, PROFILE)
    plain = box.run(ASK).out
    write(box, b"\xef\xbb\xbf" + PROFILE.encode())
    marked = box.run(ASK)
    if marked.status or marked.out != plain:
        yield f"{marked.err}{marked.out}"


def check_terminal(box):
    odd = "a\x1b[31mb\x9b1m"
    for content in (f"[profile]\ninherits = h100\ndescription = {odd}\n",
                    f"[profile]\ninherits = h100\ncalibrated = {odd}\n",
                    f"[profile]\ninherits = {odd}\n", f"[{odd}]\nx = 1\n",
                    f"[gpu]\n{odd} = 1\n", f"[profile]\ninherits = h100\n[gpu]\n"
                    f"memory_gib = 80\nmemory_gib.source = estimate: {odd}\n"):
        write(box, content)
        for line in (ASK, f"{ASK} --json", "list hwprofiles own.ini", "plan -m gpt2 -H own.ini"):
            answer = box.run(line)
            text = answer.out.decode(errors="replace") + answer.err
            if any(ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 for c in text):
                yield f"{content!r}: {line}: {text!r}"


def check_inherited(box):
    """Products by a curve have no figures of tiles: those of its parent are another GPU's."""
    for name in ("hgx-h20", "rtx-a6000", "mi300x-8x", "mi325x-8x", "mi300x"):
        text = box.run(f"list hwprofiles {name}").out.decode()
        if "multiprocessors = 0\n" not in text or "matmul_tflops = " not in text:
            yield f"{name}: not by a curve"
        for key in ("tile_tflops", "tile_fill", "fp8_tile_tflops", "sustained_share"):
            if f"\n{key}" in text:
                yield f"{name}: {key} is another GPU's"
    if "\ntile_tflops = " not in box.run("list hwprofiles h200").out.decode():
        yield "h200: no tiles"
    for option, words in (("-H own.ini", ["[node] gpus is missing"]),
                          ("-H h100 --software own.ini", ["[attention] kernel is missing"])):
        write(box, "[profile]\ndescription = mine\n")
        ask_for = f"simulate -m gpt2 --batch 1 -s ddp {option}"
        yield from refused(box.run(ask_for), ["own.ini", *words, "inherits = NAME"])
        name = "h100" if option == "-H own.ini" else "deepspeed"
        write(box, f"[profile]\ndescription = mine\ninherits = {name}\n")
        if box.run(ask_for).status:
            yield f"{option}: {box.run(ask_for).err}"


def check_plans(box):
    """A plan whose machine no profile has is not answered for this one."""
    box.run("plan -m gpt2 -H flat-test -s zero3 --batch 1 -o plan")
    plan = (box.folder / "plan").read_text().replace("machine flat-test", "machine flat-tset")
    (box.folder / "plan").write_text(plan)
    yield from refused(box.run("simulate plan"), ["plan", "flat-tset", "-H", "flat-test?"])
    if box.run("simulate plan -H flat-test").status:
        yield "not with -H either"
    changed = plan.replace("size 888832", "size 4096", 1)
    (box.folder / "plan").write_text(changed)
    yield from refused(box.run("simulate plan -H flat-test"), ["plan", "does not fit"])


def tests(box):
    yield "refused", check_refused(box)
    yield "marked", check_marked(box)
    yield "terminal", check_terminal(box)
    yield "inherited", check_inherited(box)
    yield "plans", check_plans(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
