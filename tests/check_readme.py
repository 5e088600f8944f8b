#!/usr/bin/python3
"""Keeps README.md and docs/ true of the code; prints TAP.

readme      every line of a ```console block that begins with "$ build/cli/memwall" or "$ memwall"
            is run, and the lines below it, up to the next "$ ", must be exactly what it printed
            (both streams); "$ echo $?" prints its exit status.  With MW_UPDATE_GOLDEN=1 the blocks
            are written anew.
links       every relative link leads to a file that is there.
names       every FILE.c:FUNCTION that docs/MODEL.md names is there (invariant 6).
experiments every experiments/NAME/result.md is in README's table, whose figures stand in it.

The command is $MEMWALL, or build/cli/memwall.  Commands run in a folder of their own, so that what
they write is gone afterwards.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tap import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
MEMWALL = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve()
SEEN = ("models", "hwprofiles", "tests", "experiments")  # what a command's paths may begin with

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")
NAME = re.compile(r"\b([a-z0-9_/]+\.[ch]):([A-Za-z0-9_]+)")
# What a row of the table takes from an experiment, and how its result.md says that: a sentence for
# the usual figures, else the figure alone.
TAKEN = (
    (re.compile(r"\bin range (\d+ of \d+)"), "range holds {}"),
    (re.compile(r"\berror ([\d.]+%), closed form ([\d.]+%)"),
     "Median error: engine {}, the paper's closed form {}"),
    (re.compile(r"\bthe equation's bandwidth within ([\d.]+%)"),
     "differs from the equation's by {} at most"),
    (re.compile(r"(\d+ of \d+|[+-]?\d+(?:\.\d+)?%)"), "{}"),
)


def split_block(text):
    """Yields (command, lines of output)."""
    command, output = None, []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, output
            command, output = line[2:], []
        else:
            output.append(line)
    if command is not None:
        yield command, output


class Shell:
    """Runs commands in a folder that looks like the project, with nothing in it of the user's."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.status = 0
        (self.folder / "build/cli").mkdir(parents=True)
        (self.folder / "build/cli/memwall").symlink_to(MEMWALL)
        for name in SEEN:
            if (ROOT / name).exists():
                (self.folder / name).symlink_to(ROOT / name)
        self.environment = dict(os.environ, LC_ALL="C.UTF-8", COLUMNS="100",
                                CUDA_VISIBLE_DEVICES="",  # all runs are on cores
                                XDG_CONFIG_HOME=str(self.folder / "config"),
                                XDG_STATE_HOME=str(self.folder / "state"),
                                PATH=f"{self.folder / 'build/cli'}:{os.environ['PATH']}")

    def run(self, command):
        """Lines printed; None for a command that is not ours to run."""
        if command == "echo $?":
            return [str(self.status)]
        if not command.startswith(("build/cli/memwall ", "memwall ")):
            return None
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder,
                              env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        self.status = done.returncode
        return done.stdout.decode("utf-8", "replace").splitlines()


def difference(expected, printed):
    for number in range(max(len(expected), len(printed))):
        was = expected[number] if number < len(expected) else "(nothing)"
        now = printed[number] if number < len(printed) else "(nothing)"
        if was != now:
            yield f"line {number + 1}: README has {was!r}"
            yield f"line {number + 1}: printed is {now!r}"
            return


def check_commands(text, shell):
    """Yields (test, what is wrong)."""
    for block in BLOCK.findall(text):
        for command, expected in split_block(block):
            printed = shell.run(command)
            if printed is None:
                yield f"readme: {command}", ["only memwall and echo $? can be checked"]
            else:
                yield f"readme: {command}", list(difference(expected, printed))


def updated(text, shell):
    def anew(match):
        lines = []
        for command, expected in split_block(match[1]):
            printed = shell.run(command)
            lines += [f"$ {command}", *(expected if printed is None else printed)]
        return "```console\n" + "".join(f"{line}\n" for line in lines) + "```"

    return BLOCK.sub(anew, text)


def pages():
    found = [README, *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md",
             *sorted((ROOT / "experiments").glob("*/*.md"))]
    return [page for page in found if page.exists()]


def check_links():
    for page in pages():
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:")) and not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: no file {target}"


def check_names():
    for file, function in NAME.findall((ROOT / "docs/MODEL.md").read_text(encoding="utf-8")):
        path = ROOT / file
        if not path.exists() or not re.search(rf"\b{function}\b", path.read_text(encoding="utf-8")):
            yield f"docs/MODEL.md: no {function} in {file}"


def taken(row):
    """What must stand in the result.md of a row."""
    for pattern, said in TAKEN:
        yield from (said.format(*match.groups()) for match in pattern.finditer(row))
        row = pattern.sub("", row)


def check_experiments(text):
    rows = {}
    for line in text.splitlines():
        match = re.match(r"\|.*\(experiments/([^/)]+)/result\.md\)", line)
        if match:
            rows[match[1]] = line
    for path in sorted(ROOT.glob("experiments/*/result.md")):
        name = path.parent.name
        result = " ".join(path.read_text(encoding="utf-8").split())
        if name not in rows:
            yield f"README.md: experiments/{name}/result.md is not in the table"
        else:
            for said in taken(rows[name]):
                if said not in result:
                    yield f"README.md: {name}: its result.md does not say: {said}"


def main():
    text = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder)
        if os.environ.get("MW_UPDATE_GOLDEN"):
            text = updated(text, shell)
            README.write_text(text, encoding="utf-8")
        tests = list(check_commands(text, shell))
    tests += [("links", list(check_links())), ("invariant-6/names", list(check_names())),
              ("experiments", list(check_experiments(text)))]
    return report(tests)


if __name__ == "__main__":
    sys.exit(main())
