#!/usr/bin/python3
"""Profiles of machines as users write them; prints TAP.

refused   a text that means nothing, and figures that contradict each other, in one line.
marked    a byte order mark, which some editors write, changes nothing.
terminal  no byte of a profile moves the cursor.
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
    yield "plans", check_plans(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
