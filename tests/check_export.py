#!/usr/bin/python3
"""`memwall export` from outside: what is durable of a run becomes a checkpoint; prints TAP.

The files have the bytes that `run --save` would have written behind that step, of every placement
and number of ranks, also of a run that was killed.  Nothing changes in the run's directories, and
what is damaged, or is not what the description says, is refused.
"""
import json
import shutil
import signal
import sys

from check_faults import Disturbed, ENOUGH
from check_resume import DRIVES, RanksBox, check_refused, train
from check_run import GPT2, LLAMA, good
from tap import has_ranks, report_in

STEP = [*DRIVES, "--commit", "step"]
TWO = ["--nvme", "second"]
PLACEMENTS = {  # model, ranks, words
    "on drives": (GPT2, 1, STEP),
    "on two drives": (GPT2, 1, [*STEP, *TWO]),
    "in memory": (GPT2, 1, ["-s", "zero-offload", "--nvme", "drive", "--save-every", "2"]),
    "on a device": (LLAMA, 1, ["-s", "zero3", "--nvme", "drive", "--save-every", "2"]),
    "split": (GPT2, 1, [*STEP, *TWO, "--optimizer-device", "gpu:0.2MB,cpu:0.1MB,nvme",
                        "--save-every", "2"]),
    "in fp16": (GPT2, 1, [*STEP, "--dtype", "fp16"]),
    "in tiles": (LLAMA, 1, ["-s", "zero-infinity-nvme", "--nvme", "drive", "--param-device", "cpu",
                            "--optimizer-device", "nvme", "--tiles", "3", "--commit", "step"]),
    "delayed, on drives": (GPT2, 1, ["-s", "zero-offload", "--nvme", "drive", "--optimizer-device",
                                     "nvme", "--gradient-device", "nvme", "--dpu-start", "1"]),
    "delayed, in memory": (GPT2, 1, ["-s", "zero-offload", "--nvme", "drive", "--save-every", "2",
                                     "--dpu-start", "1"]),
    "slots that share bytes": (GPT2, 1, ["-s", "ddp", "--share-slots", "on", "--nvme", "drive",
                                         "--save-every", "1"]),
    "layer by layer": (LLAMA, 1, ["-s", "l2l", "--nvme", "drive", "--save-every", "1"]),
    "activations that leave": (GPT2, 1, ["-s", "geeps", "--nvme", "drive", "--save-every", "1"]),
    "gradients beside": (GPT2, 1, ["-s", "zero-offload++", "--nvme", "drive", "--save-every",
                                   "1"]),
    "of two ranks": (GPT2, 2, [*STEP, *TWO]),
    "of two ranks, in memory": (LLAMA, 2, ["-s", "zero2", "--nvme", "drive", "--save-every", "2"]),
    "of two ranks, whole on each": (GPT2, 2, ["-s", "ddp", "--nvme", "drive", "--save-every",
                                              "2"]),
    "of two owners": (GPT2, 2, [*STEP, "--partition", "owner"]),
}


def start_anew(box):
    box.empty_drives()
    for name in ("saved", "exported", "state"):
        shutil.rmtree(box.folder / name, ignore_errors=True)


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def of_drives(box):
    """Bytes, and when they were written; and of the folders."""
    paths = [*box.on_drives(), box.folder / "drive", box.folder / "second"]
    return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
            for path in paths}


def check_same_files(box, run="drive"):
    before = of_drives(box)
    done = box.run(run, "-o", "exported", verb="export")
    yield from good(done)
    if done.returncode:
        return
    saved, exported = content(box.folder / "saved"), content(box.folder / "exported")
    if sorted(saved) != sorted(exported):
        yield f"files are {sorted(exported)}, not {sorted(saved)}"
    yield from (f"{name} has other bytes" for name in saved if saved[name] != exported.get(name))
    if before != of_drives(box):
        yield "the drives have changed"


def check_placement(box, model, ranks, words):
    start_anew(box)
    yield from good(train(box, *words, "--save", "saved", steps=3, model=model, batch=2 // ranks,
                          ranks=ranks))
    yield from check_same_files(box)
    yield from good(train(box, "-s", "zero3", "--from", "exported", steps=4, model=model))


def check_killed(box):
    """What a killed run had committed is what an undisturbed run has saved there."""
    start_anew(box)
    run = Disturbed(box, *STEP, "--batch", "2", "--steps", str(ENOUGH))
    yield from check_refused(box.run("drive", "-o", "exported", verb="export"), 2, "is running")
    run.process.send_signal(signal.SIGKILL)
    run.end()
    steps = json.loads(box.run("runs", "--json", verb="list").text)["runs"][0]["durable_steps"]
    second = ["second" if word == "drive" else word for word in STEP]
    # The learning rate is constant, so a shorter run takes the same steps.
    yield from good(train(box, *second, "--save", "saved", steps=steps))
    yield from check_same_files(box, "drive")
    runs = json.loads(box.run("runs", "--json", verb="list").text)["runs"]
    name = next(run["run"] for run in runs if run["directories"] == [str(box.folder / "drive")])
    yield from check_same_files(box, name)


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def check_damage(box):
    """A bit anywhere in what is current; the folder that was there stays whole."""
    start_anew(box)
    yield from good(train(box, *STEP, steps=2))
    yield from good(box.run("drive", "-o", "exported", verb="export"))
    before = content(box.folder / "exported")
    data = box.folder / "drive/memwall-1of1.data"
    whole, refused = data.read_bytes(), 0
    for at in range(0, len(whole), len(whole) // 50):
        flip(data, at)
        done = box.run("drive", "-o", "exported", verb="export")
        if done.returncode:
            yield from check_refused(done, 1, "memwall-1of1.data", "is damaged")
            refused += 1
        data.write_bytes(whole)
    if not 10 <= refused <= 40:  # a third of the file is the state that is current
        yield f"{refused} of 50 were refused"
    data.write_bytes(whole[:-1 << 18])
    done = box.run("drive", "-o", "exported", verb="export")
    if done.returncode:
        yield from check_refused(done, 1, "memwall-1of1.data", "the file ends before it")
    data.write_bytes(whole)
    record = box.folder / "drive/memwall.record"
    kept = record.read_bytes()
    record.write_bytes(bytes(len(kept)))
    yield from check_refused(box.run("drive", "-o", "exported", verb="export"), 2,
                             "drive", "no record of a step is there, or it was wiped")
    record.write_bytes(bytes([1]) + bytes(len(kept) - 1))
    yield from check_refused(box.run("drive", "-o", "exported", verb="export"), 1,
                             "memwall.record", "no whole commit record: the first is torn, the "
                             "second empty")
    # One of two records, or the other: the step that is left, in a line that says so.
    for slot in range(2):
        torn = bytearray(kept)
        torn[slot * len(kept) // 2 + 200] ^= 1
        record.write_bytes(bytes(torn))
        done = box.run("drive", "-o", f"torn-{slot}", verb="export")
        yield from good(done)
        step = done.text.split("after step ")[1].split()[0]
        line = "memwall.record: one of its records is torn: a commit was interrupted, or it is " \
               f"damaged; step {step} is whole"
        lost = f"step 2 was durable, and no whole record of it is left: this is step {step}\n"
        if done.said.count("\n") != 1 + (lost in done.said) or line not in done.said or \
                (step == "2") == (lost in done.said):
            yield f"{done.said!r}"
    record.write_bytes(kept)
    done = box.run("drive", "-o", "torn", verb="export")
    if done.said:
        yield f"{done.said!r}"
    if before != content(box.folder / "exported"):
        yield "the checkpoint that was there has changed"


def check_replaced(box):
    """The rule of --save: neither what has more steps, nor another model's, nor what is damaged."""
    start_anew(box)
    yield from good(train(box, *STEP, "--save", "saved", steps=2))
    yield from good(box.run("drive", "-o", "saved", verb="export"))  # of as many
    whole = content(box.folder / "saved")
    optimizer = box.folder / "saved/optimizer.safetensors"
    for damage, said in ((whole[optimizer.name][:-100], "-o saved: holds a checkpoint that cannot "
                          "be read (saved/optimizer.safetensors: "),
                         (whole[optimizer.name].replace(b"memwall.step", b"memwall.stop"),
                          "its metadata must have \"memwall.step\"")):
        optimizer.write_bytes(damage)
        yield from check_refused(box.run("drive", "-o", "saved", verb="export"), 2, said,
                                 "): give another folder, or delete that one")
        if optimizer.read_bytes() != damage:
            yield "what cannot be read was replaced"
    for model, steps, said in ((GPT2, 3, "-o saved: holds a checkpoint of 3 steps, more than the 2 "
                                "of this one: give another folder, or delete that one"),
                               (LLAMA, 1, "-o saved: holds a checkpoint of another model or ")):
        shutil.rmtree(box.folder / "saved")
        yield from good(train(box, "-s", "zero3", "--save", "saved", steps=steps, model=model))
        before = content(box.folder / "saved")
        yield from check_refused(box.run("drive", "-o", "saved", verb="export"), 2, said)
        if content(box.folder / "saved") != before:
            yield f"what holds {steps} steps was replaced"


def check_previous(box):
    """The step before the newest, where that is damaged; there may be none."""
    start_anew(box)
    yield from good(train(box, *STEP, "--save", "saved", steps=3))
    yield from good(train(box, *STEP, "--resume", steps=4))
    done = box.run("drive", "-o", "exported", "--at", "previous", verb="export")
    yield from good(done)
    if content(box.folder / "saved") != content(box.folder / "exported"):
        yield "the files are not those of the step before"
    yield from good(train(box, *STEP, "--overwrite", steps=1))
    yield from check_refused(box.run("drive", "-o", "other", "--at", "previous", verb="export"), 1,
                             "memwall.record", "no record of a step before")
    yield from check_refused(box.run("drive", "-o", "other", "--at", "3", verb="export"), 2,
                             "--at 3", "previous")


def check_moved(box):
    """A directory that was moved to another place is exported, resumed and deleted there."""
    start_anew(box)
    yield from good(train(box, *STEP, "--save", "saved", steps=2))
    (box.folder / "drive").rename(box.folder / "moved")
    (box.folder / "drive").mkdir()
    yield from check_same_files(box, "moved")
    yield from good(train(box, *STEP[:2], *STEP[4:], "--resume", "moved", steps=3))
    yield from good(box.run("moved", verb="rm"))
    if list((box.folder / "moved").iterdir()):
        yield f"left {list((box.folder / 'moved').iterdir())}"


def check_model(box, path, described):
    """A model of the same sizes in all that is described: the record has what it was."""
    config = json.loads(described["config"])
    heads, hidden = config["n_head"], config["n_embd"]
    for shape, more, said in (
            ({"heads": 2 * heads, "kv_heads": 2 * heads, "head_dim": hidden // heads // 2},
             {"n_head": 2 * heads}, "the model's number of heads was"),
            ({}, {"layer_norm_epsilon": 0.25}, "the model's norm epsilon was"),
            ({}, {"activation_function": "relu"}, "the model's activation function was"),
            ({"vocab": config["n_positions"], "position_rows": config["vocab_size"]},
             {"vocab_size": config["n_positions"], "n_positions": config["vocab_size"]},
             "the model's vocabulary was")):
        path.write_text(json.dumps({
            **described, "decoder": {**described["decoder"], **shape},
            "config": json.dumps({**config, **more})}))
        yield from check_refused(box.run("drive", "-o", "other", verb="export"), 2,
                                 "memwall.record", said)


def check_description(box):
    """Of another run, or none: nothing is made of it."""
    path = box.folder / "drive/memwall-run.json"
    text = path.read_text()
    described = json.loads(text)
    yield from check_model(box, path, described)
    for key, value, status, words in (
            ("homes", None, 2, ["--resume", "--save"]),
            ("homes", "memwall-plan 7\nend\n", 2, ["homes"]),
            ("homes", described["homes"].replace("from 0", "from 4096"), 2, []),
            ("homes", described["homes"].replace("elements 1056", "elements 1057"), 2, []),
            ("fingerprint", "0", 2, ["memwall.record", "fingerprint"]),
            ("decoder", {**described["decoder"], "hidden": 64}, 2, ["model", "hidden"]),
            ("decoder", {**described["decoder"], "layers": 1}, 2, ["model", "layers"]),
            ("config", "{}", 2, ["config"]),
            ("directories", ["/nonexistent", "/other"], 2, ["/nonexistent"])):
        path.write_text(json.dumps({**described, key: value}))
        yield from check_refused(box.run("drive", "-o", "other", verb="export"), status, *words)
    path.unlink()
    yield from check_refused(box.run("drive", "-o", "other", verb="export"), 2, "--resume")
    path.write_text(text)
    if list(box.folder.glob("other*")):
        yield "left a checkpoint"


def check_wrong(box):
    for words, status, said in ((["drive"], 2, "-o FOLDER"), ([], 2, "one RUN"),
                                (["drive", "second", "-o", "other"], 2,
                                 "second: has nothing of run "),
                                (["nowhere", "-o", "other"], 2, "nowhere"),
                                (["second", "-o", "other"], 2, "second: holds no run whose "
                                 "steps are durable: no file of a run is there"),
                                (["drive", "-o", "text.txt"], 2, "text.txt"),
                                (["drive", "-o", "drive"], 2, "drive"),
                                (["drive", "-o", "/proc/other"], 2, "/proc")):
        yield from check_refused(box.run(*words, verb="export"), status, said)


def tests(box):
    for name, (model, ranks, words) in PLACEMENTS.items():
        if ranks == 1 or has_ranks():
            yield f"state {name}", check_placement(box, model, ranks, words)
    yield "a run that was killed", check_killed(box)
    yield "damage", check_damage(box)
    yield "what is not replaced", check_replaced(box)
    yield "the step before", check_previous(box)
    yield "descriptions", check_description(box)
    yield "wrong input", check_wrong(box)
    yield "a directory that was moved", check_moved(box)


if __name__ == "__main__":
    sys.exit(report_in(RanksBox, tests))
