"""What the steps of scripts/gpu share: commands that end when a step's time is up and whose output
stays, where things are, and rows of the table."""
import contextlib
import itertools
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


def end(process, ways=(signal.SIGTERM, signal.SIGKILL)):
    """And what it started: mpirun ends its own when it is told, not when it is killed.  One that
    the kernel does not let go, on a GPU that hangs, is left behind."""
    for how in ways:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, how)
                process.wait(timeout=3)


def surroundings(folder):
    """The environment of all that is run: what it writes of its own accord goes to `folder`."""
    own = {"TMPDIR": "tmp", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config",
           "XDG_STATE_HOME": "state", "CUDA_CACHE_PATH": "cache/cuda",
           "TRITON_CACHE_DIR": "cache/triton", "TORCHINDUCTOR_CACHE_DIR": "cache/inductor"}
    for name in own.values():
        (folder / name).mkdir(parents=True, exist_ok=True)
    return {**os.environ, "PATH": PATH, **{key: str(folder / name) for key, name in own.items()}}


class Machine:
    """`build`: where memwall is built; `folder`: where all that is measured goes; `drive`: where
    the drives are; `gpus`: lines of list_gpus(), none for a rehearsal on cores, in tiny sizes.
    What each command said is in folder/log from the start; folder/log.txt has a line for each.
    Runs of some steps each add to both, and the grid takes what an earlier one has calibrated."""

    def __init__(self, build, folder, drive, gpus, backend, limit_s):
        self.build, self.folder, self.drive = build, folder, drive
        self.gpus, self.rehearse, self.backend = gpus, not gpus, backend
        self.program = os.environ.get("MEMWALL", str(build / "cli" / "memwall"))
        self.profile = folder / "here.ini"
        self.results, self.others = [], []  # of the grid
        self.rows = None  # numbers of those that are run; None: all
        self.speeds = {}  # tokens per second by model, all in the GPU's memory
        self.begun_s = time.monotonic()
        self.end_s = self.step_end_s = self.begun_s + limit_s
        self.environment = surroundings(folder)  # of all commands; of those that are ours, more:
        self.ours = {}
        self.log = folder / "log"
        self.log.mkdir(exist_ok=True)
        before = [int(path.name[:3]) for path in self.log.glob("[0-9][0-9][0-9]-*")]
        self.numbers = itertools.count(max(before, default=0) + 1)
        self.running, self.stopped = set(), False

    def begin(self, limit_s):
        self.step_end_s = min(self.end_s, time.monotonic() + limit_s)

    def left_s(self):
        return self.step_end_s - time.monotonic()

    def stop(self):
        """Ends what runs, in whichever thread, and lets nothing more begin."""
        self.stopped = True
        for process in list(self.running):
            end(process, (signal.SIGKILL,))

    def note(self, text):
        with open(self.folder / "log.txt", "a", encoding="utf-8") as file:
            file.write(text + "\n")

    def finish(self, command, files, time_s, environment):
        """The status of a command, whose output goes to two files."""
        with open(files[0], "wb") as out, open(files[1], "wb") as said:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=said,
                                       start_new_session=True, cwd=common.ROOT, env=environment)
        self.running.add(process)
        if self.stopped:  # meanwhile
            end(process, (signal.SIGKILL,))
        try:
            return process.wait(timeout=time_s)
        finally:
            end(process)
            self.running.discard(process)

    def run(self, *command, statuses=(0,), spare_s=0, most_s=1e9, environment=None):
        """(status, standard output, standard error).  Other statuses: common.Failed.  spare_s: of
        the step's time, what is left for others; most_s: what the command may take of the rest."""
        command = [str(word) for word in command]
        if not shutil.which(command[0], path=PATH):
            raise Skipped(f"{command[0]} is not here")
        name, time_s = pathlib.Path(command[0]).name, min(most_s, self.left_s() - spare_s)
        if time_s <= 0 or self.stopped:
            raise TimeUp(f"{name} was not begun")
        stem = f"{next(self.numbers):03d}-{name}"
        files = [self.log / f"{stem}.{suffix}" for suffix in ("out", "err")]
        begun_s, status = time.monotonic(), "ended"
        if environment is None:
            environment = {**self.environment, **self.ours}
        try:
            status = self.finish(command, files, time_s, environment)
        except subprocess.TimeoutExpired:
            pass
        finally:
            took_s = time.monotonic() - begun_s
            self.note(f"{stem}  {took_s:.1f} s  {status}  {shlex.join(command)}")
        out, said = (path.read_text(encoding="utf-8", errors="replace") for path in files)
        if status == "ended":
            self.tell(stem, command, said or out)
            raise TimeUp(f"{name} was ended after {took_s:.0f} s: {last_line(said or out)}")
        if status not in statuses:
            self.tell(stem, command, said or out)
            raise common.Failed(f"{name}: status {status}: {last_line(said or out)}")
        return status, out, said

    def tell(self, name, command, text):
        """How a command ended that did not end well."""
        lines = "\n".join(f"    {line[:400]}" for line in text.strip().splitlines()[-15:])
        print(f"{name}: {shlex.join(command)}\n{lines}", file=sys.stderr, flush=True)
        self.note(lines)

    def memwall(self, verb, *words, most_s=1e9):
        """The answer; one that does not fit is an answer of `simulate`, else Skipped."""
        status, out, said = self.run(self.program, verb, *words, "--json", statuses=(0, 3),
                                     most_s=most_s)
        if status == 3 and verb != "simulate":
            raise Skipped("does not fit" if not said else last_line(said))
        return json.loads(out)["answers"][0]

    def torch_python(self):
        """A Python that has PyTorch for GPUs: $TORCH_PYTHON, or that of the path."""
        for python in pythons():
            try:
                if not self.run(python, "-c", HAS_TORCH, statuses=(0, 1),
                                environment=self.environment)[0]:
                    return python
            except (common.Failed, Skipped):
                pass
        raise Skipped("no Python here has PyTorch for GPUs ($TORCH_PYTHON)")

    def named(self):
        """In words, for a result."""
        system = os.uname()
        gpus = "; ".join(self.gpus) or "no GPU: a rehearsal on cores"
        with open("/proc/meminfo", encoding="ascii") as file:
            memory_gib = int(file.readline().split()[1]) / 2**20
        return (f"{gpus}; {os.cpu_count()} cores, {memory_gib:.0f} GiB, "
                f"{system.sysname} {system.release} {system.machine}")


def pythons():
    """Those of which one may have PyTorch, or CUDA's libraries."""
    found = [os.environ.get("TORCH_PYTHON"), sys.executable, shutil.which("python3", path=PATH)]
    return list(dict.fromkeys(python for python in found if python))


def free_gib():
    """GPU memory, of the GPU that has least."""
    return min(float(line.split()[0]) for line in list_gpus("memory.free")) / 1024


def list_gpus(what="name,driver_version,memory.total"):
    """A line for each; raises Skipped with why there is none."""
    if not shutil.which("nvidia-smi"):
        raise Skipped("nvidia-smi is not here")
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"],
                              capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        raise Skipped("nvidia-smi says nothing for a minute") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise Skipped(f"nvidia-smi: {last_line(done.stdout + done.stderr)}")
    return lines
