#!/usr/bin/python3
"""`memwall verify`: every byte that a resume needs is held against its checksum, and none changed;
and `--resume --at previous`, which takes what verify calls whole.  Prints TAP.
"""
import json
import os
import re
import signal
import subprocess
import sys

from check_faults import Disturbed, ENOUGH, flip
from check_resume import (DRIVES, RanksBox, SMALL, check_refused, check_same, train,
                          undisturbed)
from check_run import GPT2, MEMWALL, good, losses
from tap import has_ranks, report_in

DURABLE = [*DRIVES, "--commit", "step"]
TWO = [*DURABLE, "--nvme", "second"]
DATA = "drive/memwall-1of1.data"
TENSORS = "state of transformer.wte.weight to transformer.ln_f.bias"  # one chunk has all


def state_of(box):
    """All files of the drives, with what a write to them or to their folders would change."""
    paths = sorted(path for name in ("drive", "second") for path in (box.folder / name).iterdir())
    folders = [box.folder / name for name in ("drive", "second")]
    return [(path, path.stat().st_mtime_ns) for path in folders] + \
        [(path, path.stat().st_mtime_ns, path.read_bytes()) for path in paths]


def verify(box, *words):
    """The answer of --json; and what is wrong: a change, or another status than the answer's."""
    before = state_of(box)
    done = box.run(*words, "--json", verb="verify")
    if state_of(box) != before:
        return {}, ["verify changes files"]
    if done.said:
        return {}, [f"said {done.said!r}"]
    answer = json.loads(done.text)
    if done.returncode != (not answer["whole"]):
        return answer, [f"status {done.returncode} of {answer}"]
    return answer, []


def expect(box, names, steps, newest):
    """`steps`: [step, whole] of each, the newest first."""
    answer, wrong = verify(box, *names)
    yield from wrong
    if wrong:
        return
    found = [[step["step"], step["whole"]] for step in answer["steps"]]
    if found != steps or answer.get("newest_step") != newest:
        yield f"{answer} is not of {steps}, the newest {newest}"


def damaged_ranges(box, *names):
    answer, _ = verify(box, *names)
    return [[damage for damage in step["damage"]] for step in answer["steps"]]


def begin(box, steps, *words, **more):
    box.empty_drives()
    yield from good(train(box, *words, steps=steps, **more))


def check_whole(box):
    yield from begin(box, 3, *DURABLE)
    yield from expect(box, ["drive"], [[3, True], [2, True]], 3)
    done = box.run("drive", verb="verify")
    yield from good(done)
    if not done.text.endswith("whole: --resume continues from step 3\n"):
        yield f"{done.text!r}"
    yield from check_line(done.text, r"step 3: whole: 1 extent, [^,]* \w*B, from 1 of 1 rank")
    yield from begin(box, 1, *DURABLE)
    yield from check_refused(box.run("drive", "nosuch", verb="verify"), 2,
                             "nosuch: there is no directory of this name, and the run in drive has "
                             "1\n")
    yield from expect(box, ["drive"], [[1, True]], 1)


def check_line(text, pattern):
    if not any(re.fullmatch(pattern, line) for line in text.splitlines()):
        yield f"{text!r} has no line {pattern!r}"


def extents(box):
    """Ranges of the file by step, the newest first: what is damaged when all of it is."""
    content = (box.folder / DATA).read_bytes()
    flip(box.folder / DATA, range(123, len(content), 4096))
    ranges = damaged_ranges(box, "drive")
    (box.folder / DATA).write_bytes(content)
    return ranges


def check_damage(box):
    """Each byte that is tried is found where it is, of its step and no other."""
    yield from begin(box, 4, *DURABLE)
    for index, damage in enumerate(extents(box)):
        first = damage[0]
        for at in (first["offset_bytes"], first["offset_bytes"] + first["bytes"] - 1):
            flip(box.folder / DATA, [at])
            yield from expect(box, ["drive"], [[4, index != 0], [3, index != 1]], 4)
            found = damaged_ranges(box, "drive")[index]
            if len(found) != 1 or found[0]["file"] != str(box.folder / DATA) or not \
                    found[0]["offset_bytes"] <= at < found[0]["offset_bytes"] + found[0]["bytes"] \
                    or found[0]["tensors"] != TENSORS:
                yield f"byte {at}: {found}"
            said = box.run("drive", verb="verify").text
            if index != ("written over in part, as a run that was interrupted" in said) or \
                    index == ("bytes " in said):
                yield f"step {4 - index}: {said!r}"
            flip(box.folder / DATA, [at])
    yield from expect(box, ["drive"], [[4, True], [3, True]], 4)


def check_previous(box):
    """The newest step is damaged: verify and --resume say what helps, and it does."""
    box.empty_drives()
    wrong, expected = undisturbed(box, *DURABLE)
    yield from wrong
    yield from begin(box, 5, *DURABLE)
    flip(box.folder / DATA, [extents(box)[0][0]["offset_bytes"] + 77])
    done = box.run("drive", verb="verify")
    if done.returncode != 1 or "--resume --at previous continues from step 4, which is whole" \
            not in done.text:
        yield f"status {done.returncode}: {done.text!r}"
    yield from check_line(done.text, "step 5: not whole: 1 of 1 extent is damaged or written over, "
                                     r"[^,]* \w*B, from 1 of 1 rank")
    before = state_of(box)
    yield from check_refused(train(box, *DURABLE, "--resume"), 1, "resuming from step 5", DATA,
                             "step 4, before it, is whole: --resume --at previous")
    if [each[0::2] for each in state_of(box)] != [each[0::2] for each in before]:
        yield "a resume that is refused changes files"
    yield from good(train(box, *DURABLE, "--resume", "--at", "previous"))
    yield from check_same(losses(box)[-4:], expected, first=4)
    yield from expect(box, ["drive"], [[8, True], [7, True]], 8)


def check_lost(box, record):
    """A durable step whose record a drive has lost, or gives back as it was: never called whole."""
    yield from begin(box, 3, *DURABLE)
    stale = record.read_bytes()
    yield from good(train(box, *DURABLE, "--resume", steps=4))
    newest = record.read_bytes()
    half = len(newest) // 2
    verdict = "damaged: step 4 was durable, and no whole record of it is here; --resume " \
              "continues from step 3, which is whole\n"
    said = "step 4 was durable, and no whole record of it is left: {} step 3\n"
    for lost in (newest[:half] + bytes(half), newest[:half] * 2, stale):
        record.write_bytes(lost)
        done = box.run("drive", verb="verify")
        if done.returncode != 1 or verdict not in done.text:
            yield f"status {done.returncode}: {done.text!r}"
        done = box.run("drive", "-o", "lost", verb="export")
        if said.format("this is") not in done.said:
            yield f"{done.said!r}"
    done = train(box, *DURABLE, "--resume", steps=4)
    yield from good(done)
    if said.format("continuing from") not in done.said:
        yield f"{done.said!r}"
    yield from check_dropped(box)


def check_dropped(box):
    """What the user drops is durable no more, and is not missed where the run dies then."""
    words = [str(MEMWALL), "run", "-m", str(GPT2 / "config.json"), *SMALL, *DURABLE, "--resume",
             "--at", "previous", "--batch", "2", "--steps", "5", "--limit", "nvme-write=0.01MB/s"]
    with subprocess.Popen(words, cwd=box.folder, env=box.environment, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as run:
        run.stdout.readline()  # its title, then it takes the first step
        run.kill()
    noted = json.loads((box.folder / "drive/memwall-run.json").read_text())["last_step"]
    if noted == 4:
        yield "a step that was dropped is noted as durable"


def check_records(box):
    record = box.folder / "drive/memwall.record"
    yield from begin(box, 4, *DURABLE)
    half = record.stat().st_size // 2
    flip(record, [half + 200])
    yield from expect(box, ["drive"], [[3, True]], 3)
    done = box.run("drive", verb="verify")
    if "record 2 of 2 is torn" not in done.text:
        yield f"{done.text!r}"
    # The run's end had noted the step that the record was of: no kill has torn it.
    verdict = "damaged: step 4 was durable, and no whole record of it is here; --resume " \
              "continues from step 3, which is whole\n"
    if done.returncode != 1 or verdict not in done.text:
        yield f"status {done.returncode}: {done.text!r}"
    flip(record, [200])
    yield from expect(box, ["drive"], [], None)
    yield from check_lost(box, record)
    record.write_bytes(b"memwall" * 100)
    yield from expect(box, ["drive"], [], None)
    record.write_bytes(b"")
    yield from expect(box, ["drive"], [], None)
    yield from begin(box, 2, *DURABLE)
    (box.folder / DATA).unlink()
    answer, wrong = verify(box, "drive")
    yield from wrong
    if {damage["what"] for damage in answer["steps"][0]["damage"]} != {"No such file or directory"}:
        yield f"{answer}"
    if answer["missing"] != [{"file": str(box.folder / DATA), "why": "No such file or directory"}]:
        yield f"{answer}"
    yield from begin(box, 2, *DURABLE)
    os.truncate(box.folder / DATA, 4096)
    answer, wrong = verify(box, "drive")
    yield from wrong
    if {damage["what"] for damage in answer["steps"][0]["damage"]} != {"the file ends before it"}:
        yield f"{answer}"


def check_drives(box):
    yield from begin(box, 2, *TWO)
    names = [str(path.relative_to(box.folder)) for path in (box.folder / "drive", box.folder /
                                                            "second")]
    yield from expect(box, names, [[2, True], [1, True]], 2)
    yield from expect(box, ["drive"], [[2, True], [1, True]], 2)  # its description has both
    # A step's state may be on the first drive alone, both steps' are not.
    second = box.folder / "second/memwall-2of2.data"
    flip(second, range(5, second.stat().st_size, 4096))
    files = {damage["file"] for step in damaged_ranges(box, *names) for damage in step}
    if "second/memwall-2of2.data" not in files:
        yield f"damage of {second} is found in {files}"
    first = box.folder / "drive/memwall-1of2.data"
    flip(first, range(5, first.stat().st_size, 4096))
    yield from expect(box, names, [[2, False], [1, False]], 2)
    yield from check_missing(box, names)
    (box.folder / "drive/memwall-run.json").unlink()
    yield from check_refused(box.run("drive", verb="verify"), 2, "2 directories, 1 is given")


def check_missing(box, names):
    """A drive that is not mounted: one line of its file, with the step whole on the other or not;
    damage is said of what is there alone."""
    yield from begin(box, 2, *TWO)
    away = box.folder / "away"
    (box.folder / "second").rename(away)
    for mounted in (False, True):  # no folder; an empty one where the drive belongs
        if mounted:
            (box.folder / "second").mkdir()
        for words in (names, ["drive"]):
            done = box.run(*words, verb="verify")
            said = [line for line in done.text.splitlines() if "memwall-2of2.data" in line]
            if done.returncode != 1 or len(said) != 1 or not said[0].endswith(
                    "second/memwall-2of2.data is missing: is the drive mounted?") or \
                    "damaged" in done.text or not done.text.endswith(
                        "\nmissing: 1 of the run's files: --resume needs it\n"):
                yield f"status {done.returncode}: {done.text!r}"
    (box.folder / "second/memwall-2of2.data").symlink_to(away / "memwall-2of2.data")
    done = box.run(*names, verb="verify")
    if done.returncode != 1 or "memwall-2of2.data cannot be read: is a symbolic link" not in \
            done.text or "\nnot readable: 1 of the run's files" not in done.text:
        yield f"status {done.returncode}: {done.text!r}"
    (box.folder / "second/memwall-2of2.data").unlink()
    (box.folder / "second").rmdir()
    away.rename(box.folder / "second")
    yield from expect(box, names, [[2, True], [1, True]], 2)


def check_wrong(box):
    box.empty_drives()
    yield from check_refused(box.run(verb="verify"), 2, "RUN")
    yield from check_refused(box.run("nowhere", verb="verify"), 2, "nowhere")
    yield from check_refused(box.run("drive", verb="verify"), 2, "drive", "no record is there")
    yield from check_refused(box.run("--deep", "drive", verb="verify"), 2, "--deep")
    done = box.run("--help", verb="verify")
    yield from good(done)
    if max(map(len, done.text.splitlines())) > 80:
        yield "help is wider than 80 columns"


def check_running(box):
    """A run is at it: said, and not waited for; once it is dead all is as a resume finds it."""
    box.empty_drives()
    run = Disturbed(box, *DURABLE, "--batch", "2", "--steps", str(ENOUGH))
    yield from check_refused(box.run("drive", verb="verify"), 1, "drive", "a run is using it")
    run.process.send_signal(signal.SIGKILL)
    run.end()
    answer, wrong = verify(box, "drive")
    yield from wrong
    if not answer["whole"]:
        yield f"{answer}"


def check_ranks(box):
    words = ["--batch", "1"]
    yield from begin(box, 3, *DURABLE, *words, batch=1, ranks=2)
    yield from expect(box, ["drive"], [[3, True], [2, True]], 3)
    yield from check_line(box.run("drive", verb="verify").text,
                          r"step 3: whole: 2 extents, [^,]* \w*B, from 2 of 2 ranks")
    path = box.folder / "drive/memwall-rank1-1of1.data"
    content = path.read_bytes()
    flip(path, range(9, len(content), 4096))
    answer, wrong = verify(box, "drive")
    yield from wrong
    if answer["ranks"] != 2 or {damage["rank"] for damage in answer["steps"][0]["damage"]} != {1}:
        yield f"{answer}"
    path.write_bytes(content)
    # One rank's damage is found before any rank overwrites, or makes a newer record void.
    first, end = [(damage["offset_bytes"], damage["offset_bytes"] + damage["bytes"]) for damage in
                  answer["steps"][1]["damage"]][0]
    flip(path, [first + 11, end - 11])
    done = train(box, *DURABLE, *words, "--resume", "--at", "previous", steps=5, batch=1, ranks=2)
    if done.returncode == 0 or "resuming from step 2" not in done.said:
        yield f"status {done.returncode}: {done.said!r}"
    path.write_bytes(content)
    yield from expect(box, ["drive"], [[3, True], [2, True]], 3)
    yield from good(train(box, *DURABLE, *words, "--resume", "--at", "previous", steps=5, batch=1,
                          ranks=2))
    (box.folder / "drive/memwall-rank1.record").unlink()
    answer, wrong = verify(box, "drive")
    yield from wrong
    if answer["whole"] or "memwall-rank1.record" not in f"{answer['missing']}":
        yield f"without a rank's record: {answer}"
    yield from check_lost_rank(box)


def check_lost_rank(box):
    """Its record is gone, and then its data: both ranks ran here, as the description says.  Without
    that, or where it says that one ran elsewhere, its files may be there."""
    description = box.folder / "drive/memwall-run.json"
    (box.folder / "drive/memwall-rank1-1of1.data").unlink()
    answer, wrong = verify(box, "drive")
    yield from wrong
    if answer["whole"] or answer["notes"] or \
            [missing["file"] for missing in answer["missing"]] != \
            [str(box.folder / "drive/memwall-rank1.record")]:
        yield f"without a rank's files: {answer}"
    done = box.run("drive", verb="verify")
    if "memwall-rank1.record cannot be read: it is not there, nor is the rank's data: all ranks " \
       "ran on this machine\n" not in done.text or \
       "from 1 of 2 ranks\n" not in done.text or "whole: --resume" in done.text:
        yield f"{done.text!r}"
    text = description.read_text()
    for ranks_here in (1, 0, None):
        if ranks_here is None:
            description.unlink()
        else:
            description.write_text(text.replace('"ranks_here": 2', f'"ranks_here": {ranks_here}'))
        answer, wrong = verify(box, "drive")
        yield from wrong
        if not answer["whole"] or not any("1 of 2 ranks has no record here, rank 1: it is lost, or "
                                          "on another" in note for note in answer["notes"]):
            yield f"{ranks_here} of 2 ranks here: {answer}"


def check_lost_alone(box):
    """The only record is gone: damage, as that of one of several ranks is."""
    yield from begin(box, 2, *DURABLE)
    (box.folder / "drive/memwall.record").unlink()
    yield from check_refused(box.run("drive", verb="verify"), 1,
                             "no record is there", "its last durable step was 2")


def check_few_ranks(box):
    """Of three ranks two ran on this machine, whichever: one of them is missing."""
    yield from begin(box, 2, *DURABLE, "--batch", "1", batch=1, ranks=3)
    description = box.folder / "drive/memwall-run.json"
    description.write_text(description.read_text().replace('"ranks_here": 3', '"ranks_here": 2'))
    for rank, whole in ((2, True), (1, False)):
        for path in (box.folder / "drive").glob(f"memwall-rank{rank}*"):
            path.unlink()
        answer, wrong = verify(box, "drive")
        yield from wrong
        if answer["whole"] != whole or whole == any(
                missing["why"] == "the record of 1 of the 2 ranks that ran on this machine is not "
                "there" for missing in answer["missing"]):
            yield f"without rank {rank}: {answer}"


def tests(box):
    (box.folder / "second").mkdir(exist_ok=True)
    yield "whole", check_whole(box)
    yield "damage", check_damage(box)
    yield "the step before", check_previous(box)
    yield "records and files", check_records(box)
    yield "two drives", check_drives(box)
    yield "a run is using it", check_running(box)
    yield "the only record is lost", check_lost_alone(box)
    yield "wrong input", check_wrong(box)
    if has_ranks():
        yield "ranks", check_ranks(box)
        yield "ranks of two machines", check_few_ranks(box)


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
