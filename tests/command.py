"""The command from outside, for the checks of it: it runs in a folder with nothing of the user's.

The command is $MEMWALL, or build/cli/memwall.
"""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEMWALL = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve()
# Several times slower, and in terabytes of addresses.
SANITIZED = MEMWALL.exists() and any(name in MEMWALL.read_bytes() for name in
                                     (b"__asan_init", b"__ubsan_handle", b"__tsan_init"))
# How many do of the cases that differ in their figures alone: all, some or few.
CASES = os.environ.get("MW_CASES", "few" if SANITIZED else "some")
FEW = CASES == "few"
FLAT = "-m gpt2-xl -H flat-test"
SIMULATE = f"simulate {FLAT} -s zero3 --batch 1"
PROFILE = (ROOT / "hwprofiles/flat-test.ini").read_text(encoding="utf-8")


def of_rows(rows, few, some=1):
    """One in so many of them, where few or some do."""
    rows = list(rows)
    share = {"few": few, "some": some}.get(CASES, 1)
    if share == 1 or len(rows) < 2:
        return rows
    taken = rows[::share]
    print(f"# {len(taken)} of {len(rows)} cases; all: -Dcases=all, or MW_CASES=all")
    return taken


def sample(rows):
    """Of a sweep over models and machines one in 18 where few cases do: the code is the same."""
    return of_rows(rows, 18, 3)


def sixth(rows):
    """A sixth of cases that differ in their figures, where few do, and half where some do."""
    return of_rows(rows, 6, 2)


def unless_few(*tests):
    """Tests of other figures by code that the rest goes through too: none where few cases do."""
    if FEW:
        print(f"# without {len(tests)}: {', '.join(name for name, _ in tests)}; all: MW_CASES=all")
        return
    yield from tests


def kill_after(box, line, step):
    """Kills a run in the box once the line of that step is in its log."""
    log = box.folder / "log"
    log.unlink(missing_ok=True)
    with subprocess.Popen([str(MEMWALL), "run", *line.split(), "--log", "log"], cwd=box.folder,
                          env=box.environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        end = time.monotonic() + 120
        while run.poll() is None and time.monotonic() < end:
            if log.exists() and log.read_bytes().count(b"\n") >= step:
                break
            time.sleep(0.001)
        run.send_signal(signal.SIGKILL)


class Answer:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


def answers_of(text):
    """What plan, simulate, run or compare print with --json: an answer for each strategy."""
    return json.loads(text)["answers"]


def answer_of(text):
    """The same of one strategy."""
    [answer] = answers_of(text)
    return answer


def refused(answer, words):
    """What is wrong with an answer that must refuse its input: in one line that has these words."""
    lines = answer.err.strip().splitlines()
    if answer.status != 2 or len(lines) != 1:
        yield f"status {answer.status}: {answer.err.strip()[-300:]}"
    for word in words:
        if word not in answer.err:
            yield f"{word!r} is not in: {answer.err.strip()}"


class Box:
    """A folder of its own, with nothing of the user's."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = dict(os.environ, LC_ALL="C.UTF-8", COLUMNS="100", HOME=str(self.folder),
                                CUDA_VISIBLE_DEVICES="",  # all runs are on cores
                                XDG_CONFIG_HOME=str(self.folder / "config"),
                                XDG_STATE_HOME=str(self.folder / "state"))

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            content = json.dumps(content)
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)

    def run(self, line, stdout=subprocess.PIPE, prefix=(), **environment):
        words = shlex.split(line) if isinstance(line, str) else line
        done = subprocess.run([*prefix, str(MEMWALL), *words], cwd=self.folder,
                              env={**self.environment, **environment},
                              stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                              timeout=300, check=False)
        return Answer(done.returncode, done.stdout, done.stderr.decode(errors="replace"))

    def files(self):
        return sorted(str(path) for path in self.folder.rglob("*") if path.is_file())
