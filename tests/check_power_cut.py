#!/usr/bin/python3
"""Power cuts on a real block device with a real file system; prints TAP.

    check_power_cut.py KILL_RUN [--cuts N] [--seed S]

The runs are those of kill_run.c, on a drive that loses what was not flushed (power_cut_drive.py).
The power goes at random instants, and each resume may meet the next cut; no step that was reported
as committed is lost, and the end has the undisturbed run's bits.  With a drive that says it has
flushed and has not, the same check fails.
"""
import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from power_cut_drive import Drive, why_not

PLACEMENTS = 6
NOTHING = 3  # kill_run's status: nothing is there to resume


class Lost(Exception):
    pass


class Cutter:
    def __init__(self, program, seed, folder):
        self.program, self.folder = program, folder
        self.random = random.Random(seed)
        self.cuts = self.ends = 0

    def start(self, which, directory, how):
        return subprocess.Popen([self.program, "work", str(which), directory, how],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def undisturbed(self, which):
        with tempfile.TemporaryDirectory() as own:
            begin = time.monotonic()
            lines = self.start(which, own, "undisturbed").communicate()[0].split("\n")
            return said(lines)["done"], time.monotonic() - begin

    def go(self, which, content, how, wait_s, flushes):
        """One run until its end or the cut: what it said, its status, what the drive has then."""
        drive = Drive(self.folder, content, flushes)
        after = os.path.join(self.folder, "after")
        try:
            run = self.start(which, drive.mounted, how)
            try:
                run.wait(wait_s)
            except subprocess.TimeoutExpired:
                self.cuts += 1
                run.send_signal(signal.SIGSTOP)  # what fails after the cut nobody sees
            drive.cut(self.random.randrange(1 << 30), after)
            run.kill()
            status, lines = run.wait(), run.stdout.read().split("\n")
            run.stdout.close()
        finally:
            drive.take_down()
        with open(after, "rb") as file:
            return said(lines), status, file.read()

    def train(self, which, expected, usual_s, flushes=True):
        """A run through as many cuts as come."""
        content, how, committed = None, "fresh", -1
        while True:
            wait_s = self.random.uniform(0.1, 1.25) * usual_s
            words, status, content = self.go(which, content, how, wait_s, flushes)
            if how == "resume" and status == NOTHING and committed < 0:
                how = "fresh"
                continue
            if status > 0:
                raise Lost(f"a resume ends with {status}, though step {committed} was committed")
            if how == "resume" and words.get("from", committed + 1) <= committed:
                raise Lost(f"from step {words['from']}, though step {committed} was committed")
            committed = max(committed, words.get("committed", -1))
            if "done" in words:
                if words["done"] != expected:
                    raise Lost("other weights")
                self.ends += 1
                return
            how = "resume"


def said(lines):
    words = {}
    for line in lines[:-1]:  # the last one is not whole
        key, value = line.split(" ")
        words[key] = value if key == "done" else int(value)
    return words


def check(cutter, cuts, flushes=True):
    which = 0
    usual = {}
    while cutter.cuts < cuts:
        if which not in usual:
            usual[which] = cutter.undisturbed(which)
        cutter.train(which, *usual[which], flushes)
        which = (which + 1) % PLACEMENTS


def report(number, name, function):
    try:
        print(f"{'ok' if function() else 'not ok'} {number} {name}", flush=True)
    except Lost as error:
        print(f"not ok {number} {name}\n# {error}", flush=True)


def loses(options, folder):
    try:
        check(Cutter(options.program, options.seed + 1, folder), options.cuts, flushes=False)
    except (Lost, OSError, subprocess.CalledProcessError):
        return True  # a file system may be lost as well
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", metavar="KILL_RUN")
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="memwall-power-cut-")
    why = why_not()
    try:
        if not why:
            try:
                Drive(folder, None).take_down()
            except (OSError, subprocess.CalledProcessError) as error:
                why = f"{error}{getattr(error, 'stderr', None) or ''}".replace("\n", " ")
        if why:
            print(f"1..0 # SKIP {why}")
            return 0
        print("1..2")
        cutter = Cutter(options.program, options.seed, folder)
        report(1, "power cuts", lambda: check(cutter, options.cuts) is None)
        print(f"# {cutter.cuts} power cuts, {cutter.ends} runs to their end, each with the "
              "undisturbed run's bits; nothing lost but what is said above")
        report(2, "a drive that does not flush loses", lambda: loses(options, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
