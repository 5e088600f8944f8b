#!/usr/bin/python3
"""Keeps README.md and docs/ true of the code; prints TAP.

PAGE        every line of a ```console block of README.md and docs/*.md that begins with
            "$ build/cli/memwall" or "$ memwall" is run, once for all pages, and the lines below it,
            up to the next "$ ", must be exactly what it printed (both streams); "$ echo $?" prints
            its exit status.  A picture that it draws (--plot FILE.svg) is the one of that name
            here, where gnuplot has the version that drew that.  With MW_UPDATE_GOLDEN=1 blocks and
            pictures are written anew.
length      README.md has at most 130 lines: a stranger decides in one screen.
citation    CITATION.cff has the version of meson.build.
links       every relative link leads to a file that is there.
files       every `folder/file.c` (or .h, .py, ...) that a page names is there.
names       every FILE.c:FUNCTION that docs/MODEL.md names is there (invariant 6).
experiments every experiments/NAME/result.md is in the table of docs/accuracy.md; the figures there,
            and those of README's rows, stand in it.

The command is $MEMWALL, or build/cli/memwall.  Commands run in a folder of their own, so that what
they write is gone afterwards.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from command import of_rows
from tap import Skip, report

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
# Pages of which no block needs an earlier one.
QUESTIONS = ("capacity.md", "fine-tuning.md", "questions.md")
README_LINES = 130
ACCURACY = ROOT / "docs/accuracy.md"
MEMWALL = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve()
# What a command's paths may begin with.
SEEN = ("models", "hwprofiles", "tests", "experiments", "examples")

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")
PICTURE = re.compile(r"--plot (\S+\.svg)")
DRAWN_BY = re.compile(r"<desc>.*</desc>")
FILE = re.compile(r"`((?:[a-z0-9_]+/)+[a-z0-9_.-]+\.(?:c|h|cu|cuh|py|ini))`")
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
        self.done = {}  # command: exit status, lines
        (self.folder / "build/cli").mkdir(parents=True)
        (self.folder / "build/cli/memwall").symlink_to(MEMWALL)
        (self.folder / "docs").mkdir()
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
        if command not in self.done:
            done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=self.folder,
                                  env=self.environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False)
            self.done[command] = (done.returncode,
                                  done.stdout.decode("utf-8", "replace").splitlines())
        self.status, lines = self.done[command]
        return lines


def can_run(command):
    draws = "--plot" in command or command.startswith("memwall report ")
    return not draws or shutil.which("gnuplot") is not None


def difference(expected, printed):
    for number in range(max(len(expected), len(printed))):
        was = expected[number] if number < len(expected) else "(nothing)"
        now = printed[number] if number < len(printed) else "(nothing)"
        if was != now:
            yield f"line {number + 1}: the page has {was!r}"
            yield f"line {number + 1}: printed is {now!r}"
            return


def check_pictures(command, shell):
    """Another gnuplot may draw the same otherwise."""
    for name in PICTURE.findall(command):
        drawn, kept = shell.folder / name, ROOT / name
        if not drawn.exists():
            yield f"{name} is not drawn"
            continue
        new = drawn.read_text(encoding="utf-8")
        if os.environ.get("MW_UPDATE_GOLDEN"):
            kept.write_text(new, encoding="utf-8")
        old = kept.read_text(encoding="utf-8") if kept.exists() else ""
        if not old or (DRAWN_BY.findall(old) == DRAWN_BY.findall(new) and old != new):
            yield f"{name} is another picture; MW_UPDATE_GOLDEN=1 writes it anew"


def check_command(command, expected, shell):
    if not can_run(command):
        yield Skip("gnuplot is not there")
        return
    printed = shell.run(command)
    if printed is None:
        yield "only memwall and echo $? can be checked"
        return
    yield from difference(expected, printed)
    yield from check_pictures(command, shell)


def check_commands(page, shell):
    """Yields (test, what is wrong)."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    for block in of_rows(blocks, 6) if page.name in QUESTIONS else blocks:
        for command, expected in split_block(block):
            yield (f"{page.relative_to(ROOT)}: {command}",
                   list(check_command(command, expected, shell)))


def update(page, shell):
    def anew(match):
        lines = []
        for command, expected in split_block(match[1]):
            printed = shell.run(command) if can_run(command) else None
            lines += [f"$ {command}", *(expected if printed is None else printed)]
        return "```console\n" + "".join(f"{line}\n" for line in lines) + "```"

    page.write_text(BLOCK.sub(anew, page.read_text(encoding="utf-8")), encoding="utf-8")


def checked_pages():
    return [README, *sorted((ROOT / "docs").glob("*.md"))]


def pages():
    found = [*checked_pages(), *sorted(ROOT.glob("*.md")),
             *sorted((ROOT / "experiments").glob("*/*.md"))]
    return [page for page in dict.fromkeys(found) if page.exists()]


def check_length():
    lines = len(README.read_text(encoding="utf-8").splitlines())
    if lines > README_LINES:
        yield f"README.md has {lines} lines; at most {README_LINES}: the rest belongs in docs/"


def check_citation():
    said = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    built = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text(encoding="utf-8"))
    if not said or not built or said[1] != built[1]:
        yield f"CITATION.cff has {said and said[1]}, meson.build {built and built[1]}"


def check_links():
    for page in pages():
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:")) and not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)}: no file {target}"


def check_files():
    """Of folders that the project has: others' files may be named too."""
    for page in [*checked_pages(), *sorted(ROOT.glob("*.md"))]:
        for name in sorted(set(FILE.findall(page.read_text(encoding="utf-8")))):
            if (ROOT / name.split("/")[0]).is_dir() and not (ROOT / name).exists():
                yield f"{page.relative_to(ROOT)}: no file {name}"


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


def rows_of(page):
    """(experiment, row) of a page's table."""
    for line in page.read_text(encoding="utf-8").splitlines():
        match = re.match(r"\|.*\((?:\.\./)?experiments/([^/)]+)/result\.md\)", line)
        if match:
            yield match[1], line


def check_experiments():
    listed = {name for name, _ in rows_of(ACCURACY)}
    for path in sorted(ROOT.glob("experiments/*/result.md")):
        if path.parent.name not in listed:
            yield f"docs/accuracy.md: experiments/{path.parent.name}/result.md is not in the table"
    overview = subprocess.run([sys.executable, ROOT / "experiments/overview.py"], check=True,
                              stdout=subprocess.PIPE).stdout.decode()
    if overview not in ACCURACY.read_text(encoding="utf-8"):
        yield f"docs/accuracy.md: has not the table of experiments/overview.py:\n{overview}"
    for page in (README, ACCURACY):
        for name, row in rows_of(page):
            result = ROOT / "experiments" / name / "result.md"
            text = " ".join(result.read_text(encoding="utf-8").split()) if result.exists() else ""
            for said in taken(row):
                if said not in text:
                    yield f"{page.relative_to(ROOT)}: {name}: its result.md does not say: {said}"


def main():
    tests = []
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder)
        for page in [README, *of_rows(checked_pages()[1:], 3)]:
            if os.environ.get("MW_UPDATE_GOLDEN"):
                update(page, shell)
            tests += check_commands(page, shell)
    tests += [("length", list(check_length())),
              ("citation", list(check_citation())), ("links", list(check_links())),
              ("files", list(check_files())), ("invariant-6/names", list(check_names())),
              ("experiments", list(check_experiments()))]
    return report(tests)


if __name__ == "__main__":
    sys.exit(main())
