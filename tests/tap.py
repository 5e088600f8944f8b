"""What the checks from outside share: they print TAP, and some start several ranks."""
import os
import shutil
import signal
import tempfile

MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n"]
# Also as root; Open MPI keeps some memory.
RANKS_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                     "ASAN_OPTIONS": "detect_leaks=0"}


def has_ranks():
    """Whether several can be started: by mpirun, of a build with MPI ($MW_MPI is not 0)."""
    return shutil.which("mpirun") is not None and os.environ.get("MW_MPI") != "0"


def report(tests):
    """Runs `tests`, (name, lines that say what is wrong) each; whether something was."""
    number, failed = 0, False
    for number, (name, wrong) in enumerate(tests, 1):
        wrong = list(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} {name}")
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
