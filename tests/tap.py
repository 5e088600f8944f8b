"""What the checks from outside share: they print TAP, and some start several ranks."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import traceback

# All launchers of a user share a folder, which each removes when it finds it empty: perhaps
# under one that has just made it.  So each check has its own.
LAUNCHERS = tempfile.TemporaryDirectory(prefix="mw-ranks-", ignore_cleanup_errors=True)
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n"]
# Also as root; ranks on one machine need no network, and those that wait leave the core to other
# tests; Open MPI keeps some memory.
RANKS_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                     "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader",
                     "OMPI_MCA_mpi_yield_when_idle": "1",
                     "OMPI_MCA_orte_tmpdir_base": LAUNCHERS.name,
                     "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def has_ranks():
    """Whether several can be started: by mpirun, of a build with MPI ($MW_MPI is not 0)."""
    return shutil.which("mpirun") is not None and os.environ.get("MW_MPI") != "0"


class Skip(str):
    """What a check yields beside what is wrong: it could not look, and why."""


OTHER_USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def as_user(box, *command):
    """What stands before a command so that a user runs it who is not root, and may look into the
    box's folder: nothing where that is so anyhow; None where `command`, which does, cannot be."""
    if os.geteuid():
        return []
    os.chmod(box.folder, 0o755)
    try:
        done = subprocess.run([*OTHER_USER, *command], stdin=subprocess.DEVNULL, cwd=box.folder,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=box.environment, check=False)
    except OSError:
        return None
    return OTHER_USER if done.returncode == 0 else None


class Held:
    """A command that waits at a call of its own (kill_at.c, which $KILL_AT_LIBRARY names) until it
    is let go: `where` is "SIGINT", once it hears that signal, or the name of a file, before it
    appears there.  Without the library it waits nowhere."""
    LIBRARY = os.environ.get("KILL_AT_LIBRARY")

    def __init__(self, folder, where, rank=None):
        self.path = folder / "held-at-call"
        self.environment = {} if not self.LIBRARY else {
            "LD_PRELOAD": self.LIBRARY, "HOLD": where, "HOLD_FILE": str(self.path),
            "HOLD_RANK": "" if rank is None else str(rank)}

    def comes(self, run):
        """False where it has ended before."""
        while not self.path.exists():
            if run.poll() is not None:
                return False
            time.sleep(0.001)
        return True

    def let_go(self):
        self.path.unlink(missing_ok=True)


def end_children():
    """Those that a check has left behind."""
    with contextlib.suppress(OSError):
        for pid in pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def run_check(wrong):
    """What is wrong, and why it could not be seen.  One that waits in vain is not the last."""
    said, skipped = [], None
    try:
        for line in wrong:
            if isinstance(line, Skip):
                skipped = line
            else:
                said.append(line)
    except Exception:  # pylint: disable=broad-except
        said.extend(traceback.format_exc().splitlines())
        end_children()
    return said, skipped


# What takes longer says how long: where the minutes of all tests go.
LONG = 2


def report(tests):
    """Runs `tests`, (name, lines that say what is wrong) each; whether something was."""
    number, failed = 0, False
    for number, (name, wrong) in enumerate(tests, 1):
        began = time.monotonic()
        wrong, skipped = run_check(wrong)
        seconds = time.monotonic() - began
        name += f" # SKIP {skipped}" if skipped and not wrong else ""
        print(f"{'not ok' if wrong else 'ok'} {number} {name}", flush=True)
        if seconds >= LONG:
            print(f"# {seconds:.1f} s", flush=True)
        for line in wrong:
            print(f"# {line}")
        failed = failed or bool(wrong)
    print(f"1..{number}")
    return failed


def report_in(box_type, tests):
    """The same in a folder of their own, which is gone afterwards.  What is started hears signals,
    though whoever started the tests ignores them, as nohup and a shell's & do."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with tempfile.TemporaryDirectory() as folder:
        return report(tests(box_type(folder)))


def report_ranked(box_type, tests):
    """The same where all tests start several ranks."""
    if not has_ranks():
        print("1..0 # SKIP several ranks cannot be started here")
        return 0
    return report_in(box_type, tests)
