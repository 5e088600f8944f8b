#!/usr/bin/python3
"""`memwall run` that gets a signal to end, by Ctrl-C or a batch scheduler; prints TAP.

Its current step is the last: committed, saved and logged as the last one is, and a line says
what continues from it, with the bits of the run that was not disturbed.  A second signal ends it at
once, and signals to one rank end all ranks, after the same step.
"""
import contextlib
import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import sys
import termios
import time

from check_faults import DURABLE, Disturbed, ENOUGH, SECONDS, check_goes_on, rank_pid
from check_resume import RanksBox, SMALL, check_same, train
from check_run import GPT2, MEMWALL, ROOT, good, losses
from command import FEW
from tap import MPIRUN, RANKS_ENVIRONMENT, Held, Skip, has_ranks, report_in

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
READER_SECONDS = 2  # that a reader is given once the run is asked to end
LOST_SECONDS = 7  # behind which a rank in a step takes another for lost
HUNG_UP = {**STATUS, signal.SIGHUP: 129}
WARNED = {signal.SIGXCPU: 152, signal.SIGUSR1: 138, signal.SIGUSR2: 140}
ENDED = {**HUNG_UP, **WARNED}
NAMES = {signal.SIGINT: "interrupted", signal.SIGTERM: "asked to end",
         signal.SIGHUP: "asked to end", **dict.fromkeys(WARNED, "asked to end")}
STOPS = "stops after the step that it is in; again to stop at once"
UNSTARTED = "stops before the first step; again to stop at once"
BEGUN = "stops after its first step; again to stop at once"
TRIES = 1 if Held.LIBRARY else 20  # of what comes too late without it
DONE = "all steps are done: writes the requested files, and ends; again to stop at once"


def start(box, *words, batch=2):
    (box.folder / "log.jsonl").unlink(missing_ok=True)  # of another run
    return Disturbed(box, *words, "--batch", str(batch), "--steps", str(ENOUGH))


def check_said(run, done, number, *words):
    """That it was heard, which step was the last, and what is kept."""
    said = run.said.splitlines()
    stops = STOPS.split(";")[0] if number in WARNED else STOPS  # another ends nothing at once
    heard = [line for line in said if line == f"memwall: {NAMES[number]}: {stops}"]
    last = [line for line in said
            if f"stopped by {number.name} after step {len(done)} of {ENOUGH}; " in line]
    if run.returncode != ENDED[number] or len(heard) != 1 or len(last) != 1:
        yield f"status {run.returncode} behind {len(done)} steps: {run.said!r}"
        return
    yield from (f"{word} is not in {last[0]!r}" for word in words if word not in last[0])


def check_stops(box, number):
    """Committed, and resumed to the bits of the undisturbed run."""
    box.empty_drives()
    run = start(box, *DURABLE)
    run.process.send_signal(number)
    done = run.end()
    yield from check_said(run, done, number, "it is durable in drive: --resume drive continues")
    steps = len(done) + 2
    yield from good(train(box, *DURABLE, "--resume", "--save", "point", steps=steps))
    box.empty_drives()
    yield from good(train(box, *DURABLE, "--save", "other", steps=steps))
    yield from check_same(done, losses(box)[:len(done)])
    for name in ("model.safetensors", "optimizer.safetensors"):
        if (box.folder / "point" / name).read_bytes() != (box.folder / "other" / name).read_bytes():
            yield f"{name} is another"
    for name in ("point", "other"):
        shutil.rmtree(box.folder / name)


def check_saved(box):
    """State in memory, which only every so many steps would have saved: the last one is."""
    box.empty_drives()
    words = ["-s", "zero-infinity-cpu", "--nvme", "drive", "--save-every", "100", "--commit",
             "step"]
    run = start(box, *words, "--save", "point")
    run.process.send_signal(signal.SIGINT)
    done = run.end()
    yield from check_said(run, done, signal.SIGINT, "durable in drive",
                          "checkpoint point has it: --from point continues")
    yield from check_goes_on(box, done, *words)
    yield from good(train(box, "-s", "zero3", "--from", "point", steps=len(done) + 2))
    if len(losses(box)) != 2:
        yield f"losses {losses(box)}"


def check_own(box):
    """A run in a directory of its own is named; where nothing is kept that is said."""
    own = [word for word in DURABLE if word not in ("--nvme", "drive")]
    run = start(box, *own)
    run.process.send_signal(signal.SIGTERM)
    done = run.end()
    name = json.loads(box.run("runs", "--json", verb="list").text)["runs"][0]["run"]
    yield from check_said(run, done, signal.SIGTERM,
                          f"kept as run {name}: --resume {name} continues")
    yield from good(train(box, *own, f"--resume={name}", steps=len(done) + 1))
    for delayed_from in (2, ENOUGH // 2):
        (box.folder / "timeline.txt").unlink(missing_ok=True)
        run = start(box, "-s", "zero-offload", "--dpu-start", str(delayed_from),
                    "--save-timeline", "timeline.txt")
        run.process.send_signal(signal.SIGINT)
        yield from check_said(run, run.end(), signal.SIGINT, "nothing is kept", "--save")
        if (box.folder / "timeline.txt").exists() != (delayed_from == 2):
            yield f"a timeline of steps from {delayed_from} on, or none"


def hears(pid, number):
    """Whether the process has a handler for the signal."""
    try:
        rows = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    return any(row.startswith("SigCgt:") and int(row.split()[1], 16) >> number - 1 & 1
               for row in rows)


def launch(box, *words, prefix=(), held=None):
    (box.folder / "log.jsonl").unlink(missing_ok=True)  # of another run
    environment = held.environment if held else {}
    return subprocess.Popen([*prefix, str(MEMWALL), "run", *words], cwd=box.folder,
                            env={**box.environment, **RANKS_ENVIRONMENT, **environment},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def await_start(run, rank, held=None):
    """The process, or rank of several, as soon as it hears signals; None: it has ended."""
    pid = run.pid if rank is None else None
    if held and held.LIBRARY and not held.comes(run):
        return None
    while run.poll() is None:
        try:
            pid = pid or rank_pid(run.pid, rank)
        except RuntimeError:
            continue
        if hears(pid, signal.SIGINT):
            return pid
        time.sleep(0.001)
    return None


def contents(folder):
    """Of all files in it."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def listed(box):
    return [run["run"] for run in json.loads(box.run("runs", "--json", verb="list").text)["runs"]]


def missed(what):
    """A try that is held comes in time; of others none may have."""
    return what if Held.LIBRARY else Skip(what)


def check_unstarted(box):
    """Before its first step: nothing is left of it.  A start that was quicker ends as others do."""
    own = [word for word in DURABLE if word not in ("--nvme", "drive")]
    for _ in range(TRIES):
        before, names = contents(box.folder / "state"), listed(box)
        held = Held(box.folder, "SIGINT")
        run = launch(box, "-m", str(GPT2 / "config.json"), *SMALL, "--batch", "2", "--steps",
                     str(ENOUGH), *own, held=held)
        await_start(run, None, held)
        run.send_signal(signal.SIGINT)
        held.let_go()
        said = run.communicate(timeout=SECONDS)[1].decode()
        if run.returncode != STATUS[signal.SIGINT] or "stopped by SIGINT " not in said:
            yield f"status {run.returncode}: {said!r}"
        if "before the first step; nothing was trained, and nothing is kept" not in said:
            continue
        if f"memwall: interrupted: {UNSTARTED}\n" not in said:
            yield said
        after = contents(box.folder / "state")
        yield from (f"{path} is left" for path in after if path not in before)
        yield from (f"{path} is another" for path in before if after.get(path) != before[path])
        if listed(box) != names:
            yield f"runs {listed(box)}, and before {names}"
        return
    yield missed("always behind its first step")


def check_spared(box, rank=None):
    """What --overwrite is to delete stays where the run is asked to end before it does."""
    box.empty_drives()
    ranks = [] if rank is None else [*MPIRUN, "2"]
    words = ["-s", "zero-infinity-nvme", "--nvme", "drive", "--optimizer-device", "nvme",
             "--commit", "step"]
    yield from good(train(box, *words, steps=2, batch=1))
    before = contents(box.folder / "drive")
    for _ in range(TRIES):
        held = Held(box.folder, "SIGINT", rank)
        run = launch(box, "-m", str(GPT2 / "config.json"), *SMALL, "--batch", "1", "--steps", "2",
                     *words, "--overwrite", prefix=ranks, held=held)
        pid = await_start(run, rank, held)
        if pid:
            os.kill(pid, signal.SIGINT)
        held.let_go()
        said = run.communicate(timeout=SECONDS)[1].decode()
        if contents(box.folder / "drive") == before:
            if run.returncode != STATUS[signal.SIGINT] or \
                    "stopped by SIGINT before the first step; nothing was trained, and what " \
                    "--overwrite was to delete stays as it was\n" not in said:
                yield f"status {run.returncode}: {said!r}"
            return
        if "stays as it was" in said:
            yield f"deleted, and it says {said!r}"
            return
        box.empty_drives()
        yield from good(train(box, *words, steps=2, batch=1))
        before = contents(box.folder / "drive")
    yield missed("always deleted")


def check_slow_start(box):
    """A rank that takes long before the first step: the other waits, and both end in order."""
    box.empty_drives()
    words = ["-s", "zero-infinity-nvme", "--nvme", "drive", "--optimizer-device", "nvme",
             "--commit", "step"]
    for _ in range(TRIES):
        held = Held(box.folder, "SIGINT", rank=1)
        run = launch(box, "-m", str(GPT2 / "config.json"), *SMALL, "--batch", "1", "--steps",
                     str(ENOUGH), *words, prefix=[*MPIRUN, "2"], held=held)
        other = await_start(run, 1, held)
        if other:
            os.kill(other, signal.SIGSTOP)
        held.let_go()
        first = await_start(run, 0)
        if first:
            os.kill(first, signal.SIGINT)
        heard = run.stderr.readline().decode()
        if UNSTARTED in heard:
            time.sleep(LOST_SECONDS)
        with contextlib.suppress(ProcessLookupError):  # it was ended, which the status says
            if other:
                os.kill(other, signal.SIGCONT)
        said = run.communicate(timeout=SECONDS)[1].decode()
        if UNSTARTED in heard:
            break
        box.empty_drives()
    else:
        yield missed("always behind its first step")
        return
    if run.returncode != STATUS[signal.SIGINT] or "stopped by SIGINT before the first" not in said:
        yield f"status {run.returncode}: {said!r}"
    left = [str(path) for path in box.on_drives()]
    if left:
        yield f"left {left}"


def check_in_close(box):
    """Signals are heard until the run's files are closed and described."""
    box.empty_drives()
    run = launch(box, "-m", str(GPT2 / "config.json"), *SMALL, "--batch", "2", "--steps", "1",
                 *DURABLE)
    await_start(run, None)
    while run.poll() is None and hears(run.pid, signal.SIGINT):
        pass
    run.send_signal(signal.SIGSTOP)
    locked = (box.folder / "drive/memwall-run.lock").exists()
    run.send_signal(signal.SIGINT)
    run.send_signal(signal.SIGCONT)
    said = run.communicate(timeout=SECONDS)[1].decode()
    if locked:
        yield f"its directory is locked still: {said!r}"
    if "durable in drive" not in said:
        yield f"status {run.returncode}: {said!r}"


def writes(folder, name):
    """Whether the checkpoint NAME is being written: a trial folder has no file, and goes again."""
    for path in folder.iterdir():
        try:
            if path.name.startswith(name) and any(path.iterdir()):
                return True
        except FileNotFoundError:  # it was a trial folder
            continue
    return False


def check_in_save(box):
    """The training is done: what it was for is written."""
    for _ in range(TRIES):
        held = Held(box.folder, "model.safetensors")
        run = launch(box, "-m", str(ROOT / "models/gpt-text/config.json"), *SMALL, "--batch", "1",
                     "--seq", "16", "--steps", "1", "-s", "zero3", "--save", "late", held=held)
        while not held.LIBRARY and not writes(box.folder, "late") and run.poll() is None:
            pass
        said, line = "", " "
        if not held.LIBRARY or held.comes(run):
            run.send_signal(signal.SIGINT)
            while line and "interrupted" not in line:
                line = run.stderr.readline().decode()
                said += line
        held.let_go()
        said += run.communicate(timeout=SECONDS)[1].decode()
        if run.returncode or not (box.folder / "late/optimizer.safetensors").exists():
            yield f"status {run.returncode}: {said!r}"
        shutil.rmtree(box.folder / "late", ignore_errors=True)
        if f"memwall: interrupted: {DONE}\n" in said:
            return
        if held.LIBRARY:
            yield f"said {said!r}"
    yield missed("always behind its save")


def check_cut(box, *words, ranks=1):
    """Its data cannot be read any more: it ends behind a whole step, as if it had been told to, and
    that is saved as the last step is."""
    box.empty_drives()
    for name in ("cut", "whole"):
        shutil.rmtree(box.folder / name, ignore_errors=True)
    text = (box.folder / "text.txt").read_bytes()
    box.write("cut.txt", text)
    prefix = [] if ranks == 1 else [*MPIRUN, str(ranks)]
    run = Disturbed(box, *words, "--batch", "2", "--steps", str(ENOUGH), "--data", "cut.txt",
                    "--save", "cut", prefix=prefix,
                    environment={**box.environment, **RANKS_ENVIRONMENT})
    os.truncate(box.folder / "cut.txt", 0)
    done = run.end()
    line = f"cut short since it was opened; stopped after step {len(done)} of {ENOUGH}; "
    said = [row for row in run.said.splitlines() if row.startswith("memwall: ")]
    if run.returncode != 1 or len(done) >= ENOUGH or len(said) != 1 or line not in said[0] or \
            "checkpoint cut has it: --from cut continues from there" not in said[0]:
        yield f"status {run.returncode} behind {len(done)} steps: {run.said!r}"
        return
    yield from good(train(box, *words, "--save", "whole", steps=len(done), ranks=ranks))
    yield from check_same(done, losses(box))
    for name in ("model.safetensors", "optimizer.safetensors"):
        if (box.folder / "cut" / name).read_bytes() != (box.folder / "whole" / name).read_bytes():
            yield f"{name} is another"


def check_cut_durable(box):
    """What is committed is resumed, though it was not a step to commit."""
    words = ["-s", "zero-infinity-cpu", "--nvme", "drive", "--save-every", "100", "--commit",
             "step"]
    box.write("cut.txt", (box.folder / "text.txt").read_bytes())
    box.empty_drives()
    run = start(box, *words, "--data", "cut.txt")
    os.truncate(box.folder / "cut.txt", 0)
    done = run.end()
    if run.returncode != 1 or "it is durable in drive: --resume drive continues" not in run.said:
        yield f"status {run.returncode} behind {len(done)} steps: {run.said!r}"
    yield from check_goes_on(box, done, *words)


def bytes_in(pipe):
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def check_still(box):
    """Who reads stands still, and so does the run; asked to end, it saves all the same."""
    box.empty_drives()
    (box.folder / "log.jsonl").unlink(missing_ok=True)
    reads, writes_to = os.pipe()
    fcntl.fcntl(writes_to, fcntl.F_SETPIPE_SZ, 4096)
    run = subprocess.Popen([str(MEMWALL), "run", "-m", str(GPT2 / "config.json"), *SMALL,
                            "--batch", "1", "--seq", "16", "--steps", str(ENOUGH), "-s", "zero3",
                            "--save", "still"], cwd=box.folder, env=box.environment,
                           stdin=subprocess.DEVNULL, stdout=writes_to, stderr=subprocess.PIPE)
    held = -1
    while run.poll() is None and (bytes_in(reads) != held or not held):  # it is full, or stalls
        held = bytes_in(reads)
        time.sleep(0.5)
    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=SECONDS)[1].decode()
    if run.returncode != 143 or not (box.folder / "still/optimizer.safetensors").exists():
        yield f"status {run.returncode}: {said!r}"
    times_s = [json.loads(line)["step_time_s"] for line in box.read("log.jsonl").splitlines()]
    if max(times_s) > READER_SECONDS:
        yield f"steps took {times_s[-3:]} s: the wait for the reader is none of a step's time"
    os.close(reads)
    os.close(writes_to)


def check_held(box):
    """A terminal that is held (Ctrl-S) takes neither rows nor progress, and all is saved."""
    box.empty_drives()
    (box.folder / "log.jsonl").unlink(missing_ok=True)
    main, sub = pty.openpty()
    run = subprocess.Popen([str(MEMWALL), "run", "-m", str(GPT2 / "config.json"), *SMALL,
                            "--batch", "1", "--seq", "16", "--steps", str(ENOUGH), "-s", "zero3",
                            "--save", "held"], cwd=box.folder, stdin=subprocess.DEVNULL,
                           env={**box.environment, "TERM": "xterm"}, stdout=sub, stderr=sub)
    log, size = box.folder / "log.jsonl", -1
    while run.poll() is None and (not log.exists() or log.stat().st_size == 0):
        time.sleep(0.01)
    termios.tcflow(sub, termios.TCOOFF)
    while run.poll() is None and log.stat().st_size != size:
        size = log.stat().st_size
        time.sleep(0.5)
    run.send_signal(signal.SIGTERM)
    end, saved = time.monotonic() + SECONDS, box.folder / "held/optimizer.safetensors"
    while not saved.exists() and run.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    termios.tcflow(sub, termios.TCOON)
    os.close(sub)
    with contextlib.suppress(OSError):  # the end of a terminal
        while os.read(main, 4096):
            pass
    if run.wait(timeout=SECONDS) != 143 or not saved.exists():
        yield f"status {run.returncode}, saved: {saved.exists()}"
    os.close(main)


def check_second(box, warning=None):
    """The next signal ends it at once, whatever the step takes; what was durable stays.  One behind
    a scheduler's warning is the first."""
    box.empty_drives()
    (box.folder / "log.jsonl").unlink(missing_ok=True)
    slow = ["--limit", "nvme-write=0.05MB/s"]
    run = launch(box, "-m", str(GPT2 / "config.json"), *SMALL, "--batch", "2", "--steps",
                 str(ENOUGH), *DURABLE, *slow)
    run.stdout.readline()  # its title, then it takes the first step
    time.sleep(0.1)
    if warning:
        run.send_signal(warning)
        said = run.stderr.readline().decode()
        if not said.startswith("memwall: asked to end: stops after") or "again" in said:
            yield f"said {said!r}"
    run.send_signal(signal.SIGINT)
    said = run.stderr.readline().decode()
    if said not in (f"memwall: interrupted: {STOPS}\n", f"memwall: interrupted: {BEGUN}\n"):
        yield f"said {said!r}"
    while run.poll() is None:  # within 200 ms of the first it is the same one
        run.send_signal(signal.SIGINT)
        time.sleep(0.3)
    run.communicate(timeout=SECONDS)
    if run.returncode != -signal.SIGINT:
        yield f"status {run.returncode}"


def check_terminal(box):
    """The announcement does not run into the line that is rewritten."""
    box.empty_drives()
    (box.folder / "log.jsonl").unlink(missing_ok=True)
    leader, follower = pty.openpty()
    run = subprocess.Popen([str(MEMWALL), "run", "-m", str(GPT2 / "config.json"), *SMALL,
                            "--batch", "2", "--steps", str(ENOUGH), *DURABLE], cwd=box.folder,
                           env={**box.environment, "TERM": "xterm"}, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=follower, start_new_session=True)
    os.close(follower)
    text = b""
    told = False
    while select.select([leader], [], [], SECONDS)[0]:
        try:
            more = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        text += more
        if not told and b"step 3 of" in text:
            run.send_signal(signal.SIGINT)
            told = True
    os.close(leader)
    run.wait(SECONDS)
    if f"\r\x1b[Kmemwall: interrupted: {STOPS}".encode() not in text or run.returncode != 130:
        yield f"status {run.returncode}: {text[-600:]}"


def check_reader(box, number):
    """Who reads what it says goes away, by itself or with the same Ctrl-C, as `| tee` does: what
    was trained is saved, and logged."""
    (box.folder / "log.jsonl").unlink(missing_ok=True)
    steps = ENOUGH if number else 3
    read, write = os.pipe()
    with subprocess.Popen([str(MEMWALL), "run", "-m", str(GPT2 / "config.json"), *SMALL, "--batch",
                           "2", "-s", "zero3", "--steps", str(steps), "--save", "piped"],
                          cwd=box.folder, env=box.environment, stdin=subprocess.DEVNULL,
                          stdout=write, stderr=write if number else subprocess.PIPE) as run:
        os.close(write)
        os.read(read, 1)  # its title: it hears signals by then
        os.close(read)
        if number:
            run.send_signal(number)
        said = (run.communicate(timeout=SECONDS)[1] or b"").decode()
    if number and run.returncode != HUNG_UP[number] or \
            not number and (run.returncode != 1 or "standard output: cannot be" not in said):
        yield f"status {run.returncode}: {said!r}"
    if not number and len(losses(box)) != steps:
        yield f"losses {losses(box)}"
    if not (box.folder / "piped/optimizer.safetensors").exists():
        yield "nothing is saved"
    shutil.rmtree(box.folder / "piped", ignore_errors=True)


def check_printed(box):
    """What only prints ends with its reader, as others do, and says nothing."""
    with subprocess.Popen([str(MEMWALL), "simulate", "-m", "gpt2", "-H", "rtx4090"],
                          env=box.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as run:
        run.stdout.close()
        said = run.stderr.read()
    if run.returncode != -signal.SIGPIPE or said:
        yield f"status {run.returncode}: {said!r}"


def check_ignored(box):
    """A shell's background job, or nohup's kind, has the signal ignored: it stays so."""
    box.empty_drives()
    run = subprocess.run([str(MEMWALL), "run", "-m", str(GPT2 / "config.json"), *SMALL, "--batch",
                          "2", "--steps", "2", *DURABLE], cwd=box.folder, env=box.environment,
                         stdin=subprocess.DEVNULL, capture_output=True, check=False,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    if run.returncode:
        yield f"status {run.returncode}: {run.stderr}"


def check_rank(box, number):
    """Told to one rank: both end behind the same step, and two ranks go on."""
    box.empty_drives()
    words = ["-s", "zero-infinity-nvme", "--nvme", "drive", "--optimizer-device", "nvme",
             "--commit", "step"]
    run = Disturbed(box, *words, "--batch", "1", "--steps", str(ENOUGH), prefix=[*MPIRUN, "2"],
                    environment={**box.environment, **RANKS_ENVIRONMENT})
    os.kill(rank_pid(run.process.pid, 1), number)
    done = run.end()
    line = f"stopped by {number.name} after step {len(done)} of {ENOUGH}; it is durable in drive"
    if run.returncode != STATUS[number] or line not in run.said:
        yield f"status {run.returncode} behind {len(done)} steps: {run.said!r}"
    yield from check_goes_on(box, done, *words, batch=1, ranks=2)


def check_stuck(box, number):
    """A rank that is lost where the others cannot see it does not come to the end of the step: they
    wait for it for a while, and no longer."""
    box.empty_drives()
    words = ["-s", "zero-infinity-nvme", "--nvme", "drive", "--optimizer-device", "nvme",
             "--commit", "step"]
    run = Disturbed(box, *words, "--batch", "1", "--steps", str(ENOUGH), prefix=[*MPIRUN, "2"],
                    environment={**box.environment, **RANKS_ENVIRONMENT})
    os.kill(rank_pid(run.process.pid, 1), signal.SIGSTOP)
    os.kill(rank_pid(run.process.pid, 0), number)
    began = time.monotonic()
    done = run.end()
    took = time.monotonic() - began
    line = f"memwall: rank 0 was asked to end ({number.name}), and cannot end in order: "
    if run.returncode in (0, STATUS[number]) or line not in run.said:
        yield f"status {run.returncode}: {run.said!r}"
    if took > 4.5:
        yield f"ended after {took:.1f} s"
    yield from check_goes_on(box, done, *words, batch=1, ranks=2)


def check_launcher(box):
    """mpirun is told: it tells all ranks, and kills them behind the time that it is given.  What
    they say from then on it may not pass on."""
    box.empty_drives()
    words = ["-s", "zero-infinity-nvme", "--nvme", "drive", "--optimizer-device", "nvme",
             "--commit", "step"]
    patient = [MPIRUN[0], "--mca", "odls_base_sigkill_timeout", "4", *MPIRUN[1:]]
    slow = ["--limit", "nvme-write=20MB/s"]  # what waits for mpirun to read it has to be little
    run = Disturbed(box, *words, *slow, "--batch", "1", "--steps", str(ENOUGH),
                    prefix=[*patient, "2"],
                    environment={**box.environment, **RANKS_ENVIRONMENT})
    run.process.send_signal(signal.SIGINT)
    done = run.end()
    if f"asked to end: {STOPS}" not in run.said:
        yield f"status {run.returncode} behind {len(done)} steps: {run.said!r}"
    yield from check_goes_on(box, done, *words, batch=1, ranks=2)


def tests(box):
    for number in ENDED:
        yield f"stop: {number.name} ends a run behind its step", check_stops(box, number)
    yield "stop: state in memory is saved with the last step", check_saved(box)
    yield "stop: what is kept is named", check_own(box)
    yield "stop: before the first step", check_unstarted(box)
    yield "stop: before --overwrite", check_spared(box)
    yield "stop: while it saves", check_in_save(box)
    yield "stop: while nobody reads what it prints", check_still(box)
    yield "stop: data that is cut short", check_cut(box, "-s", "zero3")
    yield "stop: data that is cut short, steps overlap", check_cut(
        box, "-s", "zero-offload", "--dpu-start", "2")
    yield "stop: data that is cut short, durable", check_cut_durable(box)
    yield "stop: while its terminal is held", check_held(box)
    yield "stop: while it closes its files", check_in_close(box)
    yield "stop: a second signal ends at once", check_second(box)
    yield "stop: a signal behind a warning", check_second(box, signal.SIGUSR1)
    yield "stop: on a terminal", check_terminal(box)
    for number in (None, signal.SIGINT, signal.SIGHUP):
        yield f"stop: its reader goes away, {number.name if number else 'alone'}", check_reader(
            box, number)
    yield "stop: the reader of what only prints", check_printed(box)
    yield "stop: a signal that is ignored", check_ignored(box)
    if not has_ranks():
        return
    yield "stop: data of two ranks that is cut short", check_cut(box, "-s", "zero3", ranks=2)
    for number in STATUS if not FEW else [signal.SIGINT]:
        yield f"stop: {number.name} to one rank of two", check_rank(box, number)
    yield "stop: one rank of two before --overwrite", check_spared(box, rank=1)
    yield "stop: a rank that starts slowly", check_slow_start(box)
    yield "stop: through the launcher", check_launcher(box)
    for number in STATUS if not FEW else [signal.SIGTERM]:
        yield f"stop: {number.name} to one rank, another hangs", check_stuck(box, number)


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
