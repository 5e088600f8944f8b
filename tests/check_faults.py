#!/usr/bin/python3
"""What goes wrong around `memwall run`, from outside; prints TAP.

A limit on files, a file system that is full, a directory that vanishes, damage on the drives, a
rank that dies: each is told in one line that names the file, with exit status 1, and the run goes
on from its last committed step to the losses of the run that was not disturbed.

A run that is disturbed in its middle writes its log into a pipe: it cannot be further than the
pipe is long.  Small file systems are mounted in a namespace of their own, where the machine lets
us; else their tests are skipped.
"""
import fcntl
import json
import os
import pathlib
import resource
import select
import shutil
import signal
import subprocess
import sys
import time

from check_resume import DRIVES, RanksBox, SMALL, check_refused, check_same, train
from check_run import GPT2, MEMWALL, good, losses
from tap import MPIRUN, RANKS_ENVIRONMENT, has_ranks, report_in

DURABLE = [*DRIVES, "--commit", "step"]
SECONDS = 300  # in which a run that cannot continue ends; most of it is for a busy machine
PIPE_BYTES = 4096
FIRST = 3  # steps before the disturbance
DATA, RECORD = "drive/memwall-1of1.data", "drive/memwall.record"
ENOUGH = 1000  # steps: more than any run here takes


# --- runs that are disturbed ---------------------------------------------------------------------

class Disturbed:
    """A run, from its start to the step after which it is disturbed."""

    def __init__(self, box, *words, prefix=(), environment=None):
        pipe = box.folder / "pipe"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        self.log = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self.log, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.process = subprocess.Popen(
            [*prefix, str(MEMWALL), "run", "-m", str(GPT2 / "config.json"), *SMALL, "--log",
             "pipe", *words], cwd=box.folder, env=environment or box.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.read_bytes = b""
        while self.read_bytes.count(b"\n") < FIRST and self.read_more():
            pass

    def read_more(self):
        """False at the end of the log, or where nothing comes."""
        ready = select.select([self.log], [], [], SECONDS)[0]
        more = os.read(self.log, PIPE_BYTES) if ready else b""
        if not more and not self.read_bytes and ready and self.process.poll() is None:
            time.sleep(0.01)  # nobody has opened it yet
            return True
        self.read_bytes += more
        return bool(more)

    def end(self):
        """The run's end, as check_refused takes it; its losses."""
        while self.read_more():
            pass
        os.close(self.log)
        self.said = self.process.communicate(timeout=SECONDS)[1].decode()
        self.returncode = self.process.returncode
        return [json.loads(line)["loss"] for line in self.read_bytes.splitlines()]


def check_goes_on(box, done, *words, batch=2, ranks=1):
    """From the step behind those in `done` or a later one, as if nothing had happened."""
    steps = len(done) + 3
    yield from good(train(box, *words, "--resume", "--log", "rest.jsonl", steps=steps, batch=batch,
                          ranks=ranks))
    rest = losses(box, "rest.jsonl")
    (box.folder / "rest.jsonl").unlink()
    if not 0 < len(rest) <= 3:
        yield f"went on with {len(rest)} steps, not at most 3 after {len(done)} were committed"
    box.empty_drives()
    yield from good(train(box, *words, steps=steps, batch=batch, ranks=ranks))
    yield from check_same(rest, losses(box), first=steps - len(rest))
    yield from check_same(done, losses(box)[:len(done)])


def check_disturbed(box, disturb, repair, *words):
    """`disturb` of a run; what it has to say; `repair` before it continues."""
    box.empty_drives()
    run = Disturbed(box, *DURABLE, "--batch", "2", "--steps", str(ENOUGH))
    parts = disturb(run)
    done = run.end()
    yield from check_refused(run, 1, *parts, *words)
    if not FIRST <= len(done) < ENOUGH:
        yield f"{len(done)} steps were logged"
    repair()
    yield from check_goes_on(box, done, *DURABLE)


def check_file_limit(box):
    """No write may go beyond the middle of the drive's file: one ends there, another is refused."""
    def limit(run):
        half = (box.folder / DATA).stat().st_size // 2
        resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (half, half))
        return [DATA, "write of", "File too large"]
    yield from check_disturbed(box, limit, lambda: None)


def check_vanished(box):
    away = box.folder / "away"

    def rename(_):
        (box.folder / "drive").rename(away)
        return ["drive/", "vanished during the run"]
    yield from check_disturbed(box, rename, lambda: away.rename(box.folder / "drive"))


def check_replaced(box):
    """Another run's directory comes to the name in the middle of a run: its description stays."""
    box.empty_drives()
    other, drive, away = box.folder / "other", box.folder / "drive", box.folder / "away"
    yield from good(train(box, *DURABLE, steps=2))
    drive.rename(other)
    drive.mkdir()
    description = (other / "memwall-run.json").read_bytes()

    def replace(_):
        drive.rename(away)
        other.rename(drive)
        return ["drive/", "vanished during the run"]
    run = Disturbed(box, *DURABLE, "--batch", "2", "--steps", str(ENOUGH))
    words = replace(run)
    run.end()
    yield from check_refused(run, 1, *words)
    if (drive / "memwall-run.json").read_bytes() != description:
        yield "the description of another run has changed"
    drive.rename(other)
    away.rename(drive)
    shutil.rmtree(other)


def check_second_name(box):
    """A record that gets one, as of a backup, in the middle of a run: what is durable stays, at the
    end of this run and at the start of one that is refused for it."""
    box.empty_drives()
    steps, other = 30, box.folder / "other name"
    run = Disturbed(box, *DURABLE, "--batch", "2", "--steps", str(steps))
    os.link(box.folder / RECORD, other)
    if len(run.end()) != steps or run.returncode:
        yield f"status {run.returncode}: {run.said}"
    files = sorted(path.name for path in (box.folder / "drive").iterdir())
    yield from check_refused(train(box, *DURABLE, steps=2), 1, RECORD, "second name")
    if sorted(path.name for path in (box.folder / "drive").iterdir()) != files:
        yield f"deleted, of {files}"
    other.unlink()
    yield from good(train(box, *DURABLE, "--resume", "--log", "own.jsonl", steps=steps + 1))
    (box.folder / "own.jsonl").unlink()


def check_vanished_save(box):
    """The folder of the checkpoint goes away before its time: it is made anew."""
    box.empty_drives()
    (box.folder / "deep").mkdir()
    steps = 30
    run = Disturbed(box, *DURABLE, "--batch", "2", "--steps", str(steps), "--save", "deep/point")
    (box.folder / "deep").rmdir()
    done = run.end()
    if run.returncode or not (box.folder / "deep/point/optimizer.safetensors").exists():
        yield f"status {run.returncode}: {run.said!r}"
    if len(done) != steps:
        yield f"{len(done)} steps"
    yield from check_goes_on(box, done, *DURABLE)


def rank_pid(launcher, rank):
    """The process of a rank, among what the launcher has started."""
    wanted = f"OMPI_COMM_WORLD_RANK={rank}\0".encode()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = folder.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == launcher and wanted in folder.joinpath("environ").read_bytes():
                return int(folder.name)
        except OSError:
            continue
    raise RuntimeError(f"no rank {rank} of {launcher}")


def check_lost_rank(box):
    """The others end within seconds; a later run continues."""
    words = ["-s", "zero-infinity-nvme", "--nvme", "drive", "--optimizer-device", "nvme",
             "--commit", "step"]
    box.empty_drives()
    run = Disturbed(box, *words, "--batch", "1", "--steps", str(ENOUGH), prefix=[*MPIRUN, "2"],
                    environment={**box.environment, **RANKS_ENVIRONMENT})
    os.kill(rank_pid(run.process.pid, 1), signal.SIGKILL)
    done = run.end()
    if run.returncode == 0 or "rank 1" not in run.said:
        yield f"status {run.returncode}: {run.said}"
    yield from check_goes_on(box, done, *words, batch=1, ranks=2)


# --- a course that diverges ----------------------------------------------------------------------

def check_diverges(box, *words, ranks=1):
    """The step before is the last that is durable; nothing is saved, and all ranks end."""
    box.empty_drives()
    words = [*words, "--lr", "1000", "--save", "point"]
    done = train(box, *words, steps=ENOUGH, ranks=ranks, batch=2 // ranks)
    lines = set(done.said.splitlines()) if ranks > 1 else {done.said.rstrip()}
    said = [line for line in lines if "step 9: the loss is not finite, as in the 7 steps" in line
            and "a smaller --lr" in line]
    if done.returncode != 1 or not said or ranks == 1 and len(lines) != 1:
        yield f"status {done.returncode}: {done.said!r}"
    if (box.folder / "point").exists():
        yield "it was saved"
    log = [json.loads(line) for line in box.read("log.jsonl").splitlines()]
    if [line["skipped"] for line in log] != [False] + [True] * 8 or \
            any(line["loss"] is not None for line in log[1:]):
        yield f"log {log}"
    box.empty_drives()
    few = train(box, *words, "--max-skipped", "2", steps=ENOUGH, ranks=ranks, batch=2 // ranks)
    if few.returncode != 1 or "step 3: the loss is not finite, as in the 1 step b" not in few.said:
        yield f"of two: status {few.returncode}: {few.said!r}"


# --- damage --------------------------------------------------------------------------------------

def flip(path, places):
    with open(path, "r+b") as file:
        for place in places:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 4]))


def begin(box, steps, *words):
    """A run of some steps; their losses."""
    box.empty_drives()
    yield from good(train(box, *words, steps=steps))


def check_damage(box):
    """Something in every page of the drive's file: found before use, with its file and tensor."""
    yield from begin(box, 4, *DURABLE)
    flip(box.folder / DATA, range(123, (box.folder / DATA).stat().st_size, 4096))
    yield from check_refused(train(box, *DURABLE, "--resume"), 1, "resuming from step 4", DATA,
                             "state of transformer.wte.weight to ", "is damaged")


def check_torn_record(box):
    """The newest record is no longer whole: the run continues from the previous one."""
    yield from begin(box, 4, *DURABLE)
    expected = losses(box)
    half = (box.folder / RECORD).stat().st_size // 2
    flip(box.folder / RECORD, [half + 200])  # records take turns: steps 0 and 2, 1 and 3
    done = train(box, *DURABLE, "--resume", steps=4)
    yield from good(done)
    yield from check_same(losses(box), expected)
    if "torn: a commit was interrupted, or it is damaged" not in done.said:
        yield f"said {done.said!r}"
    flip(box.folder / RECORD, [200, half + 200])
    yield from check_refused(train(box, *DURABLE, "--resume"), 1, RECORD, "no whole commit record",
                             "torn")


# --- full ----------------------------------------------------------------------------------------

def check_save_limit(box):
    """No file may be longer than 64 KiB: the checkpoint is refused, the one before it stays."""
    words = ["-s", "zero3", "--save", "kept"]
    yield from good(train(box, *words, steps=1))
    kept = {path.name: path.read_bytes() for path in (box.folder / "kept").iterdir()}
    done = box.run("-m", str(GPT2 / "config.json"), *SMALL, "--batch", "2", "--steps", "2", *words,
                   limits={resource.RLIMIT_FSIZE: 64 << 10})
    yield from check_refused(done, 1, "kept: a checkpoint has a file of ", "raise the limit")
    if losses(box, "log.jsonl")[1:]:
        yield "it was trained"
    if list(box.folder.glob("kept.part*")):
        yield "a part is left"
    if kept != {path.name: path.read_bytes() for path in (box.folder / "kept").iterdir()}:
        yield "the checkpoint before is another"


class SmallSystem:
    """A file system of its own in a namespace of its own, which goes with the process in it."""
    MOUNTS = {  # how it comes to be, from its bytes ($1), a file ($2) and a folder ($3)
        "tmpfs": 'mount -t tmpfs -o size="$1" none "$3"',
        # which cannot reserve: it runs full where tmpfs refuses at once
        "ext2": 'truncate -s "$1" "$2" && /sbin/mkfs.ext2 -q -m 0 -b 1024 "$2"'
                ' && mount -o loop "$2" "$3"',
    }

    def __init__(self, box, kind, size_bytes):
        folder = box.folder / "small"
        folder.mkdir(exist_ok=True)
        self.holder, self.path, self.device, self.size_bytes = None, None, None, size_bytes
        for options in ("-m", "-rm"):  # as root, and as root of a namespace of users
            self.options = options
            if self.mount(box, kind, size_bytes, options):
                return
            self.close()
        self.path = None

    def mount(self, box, kind, size_bytes, options):
        """Whether it is there and can be written."""
        folder = box.folder / "small"
        try:
            self.holder = subprocess.Popen(
                ["unshare", options, "sh", "-c",
                 f"{self.MOUNTS[kind]} && echo mounted && exec cat", "sh",
                 str(size_bytes), str(box.folder / "image"), str(folder)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if self.holder.stdout.readline() != b"mounted\n":
                return False
            self.path = pathlib.Path(f"/proc/{self.holder.pid}/root{folder}")
            self.device = self.path.stat().st_dev
            self.path.joinpath("try").touch()
            self.path.joinpath("try").unlink()
            return self.is_mounted()
        except OSError:
            return False

    def close(self):
        if self.holder:
            self.holder.stdin.close()
            self.holder.stdout.close()
            self.holder.wait()
            self.holder = None

    def is_mounted(self):
        """False: who renamed the folder from another namespace has detached it, and what is at the
        path now is the machine's own."""
        return self.path.stat().st_dev == self.device != self.path.parent.stat().st_dev

    def free_bytes(self):
        system = os.statvfs(self.path)
        return system.f_bavail * system.f_frsize

    def fill(self, left_bytes=0):
        """A file of zeros in all of it but so much."""
        assert self.is_mounted(), f"{self.path} is no file system of its own"
        filled = 0
        with open(self.path / "filler", "wb", buffering=0) as file:
            while self.free_bytes() > left_bytes and filled < self.size_bytes:
                try:
                    filled += file.write(bytes(min(4096, self.free_bytes() - left_bytes)))
                except OSError:
                    return

    def empty(self):
        self.path.joinpath("filler").unlink()


def without_notices(done):
    done.said = "".join(line for line in done.said.splitlines(keepends=True)
                        if "a RAM disk" not in line and "cannot reserve space" not in line)
    return done


def on_small(small, *words):
    words = ["--param-device", "nvme", "--optimizer-device", "nvme", "--commit", "step", *words]
    return ["-s", "zero-infinity-nvme", "--nvme", str(small.path), *words]


def check_full_start(box, small):
    """There is no room for the drive's file: how many bytes are short."""
    small.fill(1 << 20)
    done = without_notices(train(box, *on_small(small)))
    yield from check_refused(done, 1, "memwall-1of1.data: needs", " MB more on ", " MB short")
    if sorted(os.listdir(small.path)) != ["filler"]:
        yield f"left {os.listdir(small.path)}"
    small.empty()


def check_goes_on_small(box, small, first, steps, *words):
    """From `first` on, with the losses of a run elsewhere."""
    yield from good(train(box, *words, "--resume", "--log", "rest.jsonl", steps=steps))
    rest = losses(box, "rest.jsonl")
    (box.folder / "rest.jsonl").unlink()
    words = [str(box.folder / "drive") if word == str(small.path) else word for word in words]
    yield from begin(box, steps, *words)
    yield from check_same(rest, losses(box)[-len(rest):])
    if len(rest) != steps - first:
        yield f"{len(rest)} steps were left, not {steps - first}"


def check_full_save(box, small):
    """Room for the drive's file and for the first half of a checkpoint."""
    words = on_small(small)
    small.fill((2 << 20) - (256 << 10))
    done = without_notices(train(box, *words, "--save", str(small.path / "point"), steps=4))
    words_said = ("point.part-", "/optimizer.safetensors.part: needs", "No space left on device",
                  "the checkpoint is in ", "/point-step4 instead")
    if done.returncode != 1 or not all(word in done.said for word in words_said) or \
            not (box.folder / "point-step4/optimizer.safetensors").exists():
        yield f"status {done.returncode}: {done.said!r}"
    if any("point" in name for name in os.listdir(small.path)):
        yield f"left {os.listdir(small.path)}"
    yield from check_goes_on_small(box, small, 4, 6, *words)
    small.empty()
    yield from check_mounted(box, small)
    if has_ranks():
        yield from check_full_save_of_ranks(box, small)


def check_mounted(box, small):
    """A container's volume: nothing can take its place, which is said before the first step."""
    prefix = ["unshare", small.options, "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"']
    (box.folder / "volume").mkdir()
    done = box.run("-m", str(GPT2 / "config.json"), *SMALL, "-s", "zero3", "--batch", "2",
                   "--steps", "1", "--save", "volume",
                   prefix=[*prefix, str(box.folder / "volume")])
    yield from check_refused(done, 2, "volume", "is where a file system is mounted",
                             "give a folder in it")


def check_full_save_of_ranks(box, small):
    """The run's own files take the room that was there at its start: all ranks save elsewhere."""
    shutil.rmtree(box.folder / "point-step4", ignore_errors=True)
    for path in small.path.glob("memwall*"):
        path.unlink()
    small.fill((2 << 20) - (128 << 10))
    done = without_notices(train(box, *on_small(small), "--save", str(small.path / "point"),
                                 steps=4, batch=1, ranks=2))
    if done.returncode != 1 or "/point-step4 instead" not in done.said or \
            not (box.folder / "point-step4/optimizer.safetensors").exists():
        yield f"status {done.returncode}: {done.said!r}"
    shutil.rmtree(box.folder / "point-step4", ignore_errors=True)
    small.empty()


def check_full_config(box, small):
    """Room for all of a checkpoint but the last page."""
    yield from good(train(box, "-s", "zero3", "--save", "kept", steps=1))
    files = (box.folder / "kept").glob("*.safetensors")
    small.fill(sum(-(-path.stat().st_size // 4096) * 4096 for path in files))
    done = train(box, "-s", "zero3", "--save", str(small.path / "point"), steps=1)
    yield from check_refused(done, 1, "point.part-", "/config.json", "No space left on device",
                             "the checkpoint is in ")
    if any("point" in name for name in os.listdir(small.path)):
        yield f"left {os.listdir(small.path)}"
    small.empty()


def check_full_log(box, small):
    """The log's file cannot grow: the run continues, commits and saves, and its status tells."""
    log, words = small.path / "log.jsonl", on_small(small)
    yield from good(train(box, *words, "--overwrite", steps=1))
    small.fill(4096)
    done = without_notices(train(box, *words, "--resume", "--log", str(log), "--save",
                                 "logged", steps=40))
    if done.returncode != 1 or done.said.count(f"log {log}: cannot be written: No space left") != 1:
        yield f"status {done.returncode}: {done.said!r}"
    if not (box.folder / "logged/optimizer.safetensors").exists():
        yield "nothing is saved"
    lines = log.read_bytes().splitlines(keepends=True)
    if not lines or not lines[-1].endswith(b"\n"):
        yield f"the log ends with {lines[-1:]}"
    if f"log {log}: ends before step {1 + len(lines) + 1} of 40" not in done.said:
        yield f"{len(lines)} lines: {done.said!r}"
    small.empty()
    yield from check_goes_on_small(box, small, 40, 42, *words)


def check_full_middle(box, small):
    """Saves of state in memory take turns in two places, and the second is not there yet."""
    words = ["-s", "zero-offload", "--nvme", str(small.path), "--save-every", "2"]
    yield from good(train(box, *words, steps=2))
    small.fill()
    done = without_notices(train(box, *words, "--resume", steps=6))
    yield from check_refused(done, 1, "memwall-1of1.data: write of", "No space left on device")
    small.empty()
    yield from check_goes_on_small(box, small, 2, 6, *words)


def check_full_checkpoint(box, small):
    """Nothing was reserved: the file system is full in the middle of the file."""
    small.fill(200 << 10)
    done = without_notices(train(box, "-s", "zero3", "--save", str(small.path / "point"), steps=1))
    yield from check_refused(done, 1, "point: a checkpoint takes ", "make room")
    if any("point" in name for name in os.listdir(small.path)):
        yield f"left {os.listdir(small.path)}"
    small.empty()


def check_detached(box, small):
    """What stands in its place when the folder was renamed is the machine's own."""
    moved = box.folder / "moved"
    (box.folder / "small").rename(moved)
    (box.folder / "small").mkdir()
    try:
        small.fill(small.size_bytes // 2)
        yield "it was filled"
    except AssertionError:
        pass
    moved.rmdir()


SMALL_SYSTEMS = {
    "tmpfs": {"at the start": check_full_start, "as a checkpoint is written": check_full_save,
              "as its last file is written": check_full_config,
              "as the log is written": check_full_log, "when it is gone": check_detached},
    "ext2": {"in the middle of a run": check_full_middle,
             "in the middle of a checkpoint": check_full_checkpoint},
}


def small_tests(box, kind, checks):
    small = SmallSystem(box, kind, 8 << 20)
    for name, check in checks.items():
        skipped = "" if small.path else " # SKIP it cannot be mounted here"
        yield f"full {kind} {name}{skipped}", check(box, small) if small.path else []
    small.close()


# --- all -----------------------------------------------------------------------------------------

def tests(box):
    yield "a limit on files in the middle of a run", check_file_limit(box)
    yield "a limit on files as a checkpoint is written", check_save_limit(box)
    yield "drives that vanish", check_vanished(box)
    yield "drives that another run takes the name of", check_replaced(box)
    yield "a checkpoint's folder that vanishes", check_vanished_save(box)
    yield "a record that gets a second name", check_second_name(box)
    yield "a course that diverges", check_diverges(box, *DURABLE)
    yield "a course that diverges, in memory", check_diverges(box, "-s", "zero3")
    yield "damaged state", check_damage(box)
    yield "torn records", check_torn_record(box)
    for kind, checks in SMALL_SYSTEMS.items():
        yield from small_tests(box, kind, checks)
    if has_ranks():
        yield "a lost rank", check_lost_rank(box)
        yield "a course of ranks that diverges", check_diverges(
            box, "-s", "zero-infinity-nvme", "--nvme", "drive", "--optimizer-device", "nvme",
            "--commit", "step", ranks=2)


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
