"""What the steps of scripts/gpu share: commands that end when a step's time is up, where things
are, and rows of the table."""
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common  # noqa: E402

# Of the table: figure and bar are texts, the verdict is one of those below.
Row = namedtuple("Row", "what figure bar verdict")
MET, MISSED, FAILED, SKIPPED, TOLD = "ok", "MISSED", "FAILED", "not run", ""


# The toolkit's programs are seldom in the path.
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/cuda/bin"])
HAS_TORCH = "import sys, torch; sys.exit(not torch.cuda.is_available())"


class Skipped(Exception):
    """Something is not here, or there is no time for it: not the fault of what is tested."""


class TimeUp(Exception):
    """Of a step."""


def judged(what, figure, bar, good):
    return Row(what, figure, bar, MET if good else MISSED)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "(it said nothing)"


def end(process):
    """And what it started: meson and mpirun end theirs when they are told, not when killed."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, how)
            try:
                process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                pass


class Machine:
    """`build`: where memwall is built; `folder`: where all that is measured goes; `drive`: where
    the drives are.  A rehearsal is a run on cores, in tiny sizes."""

    def __init__(self, build, folder, drive, rehearse, backend, limit_s):
        self.build, self.folder, self.drive = build, folder, drive
        self.rehearse, self.backend = rehearse, backend
        self.program = os.environ.get("MEMWALL", str(build / "cli" / "memwall"))
        self.profile = folder / "here.ini"
        self.results, self.others = [], []  # of the grid
        self.speeds = {}  # tokens per second by model, all in the GPU's memory
        self.end_s = self.step_end_s = time.monotonic() + limit_s

    def begin(self, limit_s):
        self.step_end_s = min(self.end_s, time.monotonic() + limit_s)

    def left_s(self):
        return self.step_end_s - time.monotonic()

    def run(self, *command, statuses=(0,), spare_s=0):
        """(status, standard output, standard error).  Other statuses: common.Failed.  spare_s: of
        the step's time, what is left for others."""
        command = [str(word) for word in command]
        if not shutil.which(command[0], path=PATH):
            raise Skipped(f"{command[0]} is not here")
        name, time_s = pathlib.Path(command[0]).name, self.left_s() - spare_s
        if time_s <= 0:
            raise TimeUp(f"{name} was not begun")
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace",
                              start_new_session=True, cwd=common.ROOT,
                              env={**os.environ, "PATH": PATH}) as process:
            try:
                out, said = process.communicate(timeout=time_s)
            except subprocess.TimeoutExpired:
                raise TimeUp(f"{name} was ended") from None
            finally:
                end(process)
        if process.returncode not in statuses:
            print(f"failed: {shlex.join(command)}\n{said or out}", file=sys.stderr)
            raise common.Failed(f"{name}: status {process.returncode}: {last_line(said or out)}")
        return process.returncode, out, said

    def memwall(self, verb, *words):
        """The answer; one that does not fit is an answer of `simulate`, else Skipped."""
        status, out, said = self.run(self.program, verb, *words, "--json", statuses=(0, 3))
        if status == 3 and verb != "simulate":
            raise Skipped("does not fit" if not said else last_line(said))
        return json.loads(out)

    def torch_python(self):
        """A Python that has PyTorch for GPUs: $TORCH_PYTHON, or that of the path."""
        for python in (os.environ.get("TORCH_PYTHON"), sys.executable, "python3"):
            try:
                if python and not self.run(python, "-c", HAS_TORCH, statuses=(0, 1))[0]:
                    return python
            except (common.Failed, Skipped):
                pass
        raise Skipped("no Python here has PyTorch for GPUs ($TORCH_PYTHON)")

    def named(self):
        """In words, for a result."""
        _, system, _ = self.run("uname", "-srm")
        gpus = "no GPU: a rehearsal on cores"
        if not self.rehearse:
            gpus = "; ".join(list_gpus())
        with open("/proc/meminfo", encoding="ascii") as file:
            memory_gib = int(file.readline().split()[1]) / 2**20
        return f"{gpus}; {os.cpu_count()} cores, {memory_gib:.0f} GiB, {system.strip()}"


def list_gpus(what="name,driver_version,memory.total"):
    """A line for each; raises Skipped with why there is none."""
    if not shutil.which("nvidia-smi"):
        raise Skipped("nvidia-smi is not here")
    done = subprocess.run(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"],
                          capture_output=True, text=True, check=False, timeout=60)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise Skipped(f"nvidia-smi: {last_line(done.stdout + done.stderr)}")
    return lines
