#!/usr/bin/python3
"""What memwall answers, plans and trains, on record: a change that must move nothing is held to it.

    tests/recorded/record.py [--only answers|weights] [--write]

answers.csv  500 requests, drawn with a fixed seed: the status, the figures of the answer (times in
             ns, bytes, batch, bottleneck), and a hash of the plan's op graph.
weights.csv  a hash of the weights after 20 steps, per placement, type and instruction set.

Without --write it compares and prints what differs; status 1 if anything does.  Names, spellings
and the order of ops in a file are no part of it: the hash of a graph is of each op's phase,
micro-batch, layer and tile, of what it moves and computes, on which kind of lane, and of what it
waits for.

Times and batches come from --json, graphs from the plan as text.  The functions `figures` and
`graph` are all that knows how those are spelled.  The command is $MEMWALL, or build/cli/memwall.
"""
import argparse
import csv
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MEMWALL = pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve()
SEED, REQUESTS, STEPS = 13, 500, 20

MODELS = ["gpt2", "gpt2-xl", "gpt3-13b", "gpt3-175b", "turing-nlg-17b", "megatron-1t", "opt-30b",
          "bloom-176b", "llama-2-7b", "llama-3-8b", "llama-3.1-70b", "mistral-7b-v0.3",
          "mixtral-8x7b", "deepseek-v3", "gemma-2-9b", "qwen2.5-32b", "qwen3-0.6b"]
MACHINES = ["dgx2", "dgx-a100", "dgx-h100", "dgx-b200", "rtx4090", "rtx4090-12ssd", "rtx5090",
            "gh200", "l40s", "aws-g5-48xlarge", "aws-p4d-24xlarge", "aws-p5-48xlarge",
            "azure-nd96isr-h100-v5", "gcp-a2-highgpu-8g", "paper-v100-cluster"]
ALONE = {"rtx4090", "rtx4090-12ssd", "rtx5090", "gh200", "l40s"}  # have no network
STRATEGIES = ["auto", "ddp", "zero1", "zero2", "zero3", "zero-offload", "zero-infinity-cpu",
              "zero-infinity-nvme"]
# Each with the values that are drawn from; None: the option is not given.
OPTIONS = {
    "--nodes": [None, None, 1, 2, 4, 16],
    "--batch": [None, None, None, 1, 2, 8],
    "--grad-accum": [None, None, None, 2, 3],
    "--seq": [None, None, 512, 1024],
    "--activation-checkpoint-interval": [None, None, 0, 1, 2],
    "--param-loads": [None, None, None, 2],
    "--tiles": [None, None, None, 2, 4],
    "--prefetch": [None, None, 0, 2, 3],
    "--partition": [None, None, None, "owner"],
    "--overlap": [None, None, None, "off"],
    "--tp": [None] * 7 + [2],
    "--dtype": [None, None, None, "fp16"],
    "--logits-chunks": [None, None, None, 4],
    "--state-layout": [None, None, None, "paper20"],
}
OFFLOADED = {
    "--param-device": [None, None, "gpu", "cpu", "nvme"],
    "--optimizer-device": [None, None, "cpu", "nvme"],
    "--gradient-device": [None, None, None, "cpu", "nvme"],
    "--activation-device": [None, None, "gpu", "cpu", "nvme"],
    "--commit": [None, None, "none"],
}


# --- answers -------------------------------------------------------------------------------------

def draw(rng):
    strategy = rng.choice(STRATEGIES)
    machine = rng.choice(MACHINES)
    words = ["-m", rng.choice(MODELS), "-H", machine, "-s", strategy]
    options = {**OPTIONS, **(OFFLOADED if strategy.startswith("zero-infinity") else {})}
    if machine in ALONE:
        del options["--nodes"], options["--tp"]
    if strategy == "zero-offload":
        options["--dpu-start"] = [None, None, 40]
    for option, values in options.items():
        value = rng.choice(values)
        if value is not None:
            words += [option, str(value)]
    return words


def lines_of(text, word):
    """The fields of each line that begins with the word, in the file's order."""
    return [line.split() for line in text.splitlines() if line.startswith(word + " ")]


def value_behind(fields, key, count=1):
    at = fields.index(key) + 1
    return tuple(fields[at:at + count])


def shape_of(fields):
    """m, n and k of an operator's first product in forward; backward has the gradients of both of
    its factors."""
    products = [tuple(fields[i + 1:i + 4]) for i, field in enumerate(fields) if field == "product"]
    if not products:
        return "0", "0", "0"
    m, n, k = products[0]
    return (m, k, n) if products[1:] and products[1] == (k, n, m) else (m, n, k)


def labels_of_works(text):
    """By number: what an op of this work computes and moves."""
    labels = {}
    for fields in lines_of(text, "work"):
        label = [value_behind(fields, key) for key in ("flops", "bytes", "elements", "launches")]
        label.append(shape_of(fields))
        draws = fields[fields.index("draw") + 1:] if "draw" in fields else []
        labels[fields[1]] = (*label, *sorted(draws))
    return labels


def digest(*parts):
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).digest()


def last_plan(text):
    """Of a file with several, for steps that differ, the one that goes on for ever."""
    return text[text.rindex("memwall-plan "):]


def folded(number, sections):
    """An op of a section's round is that of its first round; the file counts all rounds."""
    for first, count, rounds in sections:
        if number >= first + count:
            number -= min(rounds - 1, (number - first) // count) * count
    return number


def graph(text):
    """The number of ops, and one hash of their work and of all that each waits for."""
    sections = [(int(fields[3]), int(fields[4]), int(fields[6]))
                for fields in lines_of(text, "section")]
    lanes = {fields[1]: (fields[3], fields[4], *value_behind(fields, "window"))
             for fields in lines_of(text, "lane")}
    works = labels_of_works(text)
    hashes, last, over_steps = [], {}, []
    for fields in lines_of(text, "op"):
        lane = value_behind(fields, "lane")[0]
        end = fields.index("use") if "use" in fields else len(fields)
        after = fields[fields.index("after") + 1:end] if "after" in fields else []
        before = sorted(hashes[folded(int(op), sections)] for op in after if ":" not in op)
        over_steps += [(len(hashes), int(op.partition(":")[2])) for op in after if ":" in op]
        where = (fields[6], *(value_behind(fields, key) for key in ("mb", "layer", "tile")))
        hashes.append(digest(where, lanes[lane], works[value_behind(fields, "work")[0]], before,
                             last.get(lane)))
        last[lane] = hashes[-1]
    edges = sorted((hashes[one], hashes[folded(other, sections)]) for one, other in over_steps)
    return len(hashes), digest(sorted(hashes), edges).hex()


def figures(printed):
    """Of the one answer in what --json prints, by names of our own."""
    [answer] = printed["answers"]
    peaks = answer["peak_bytes"]
    settings = answer["settings"]
    return {
        "strategy": answer["strategy"], "fits": answer["feasible"],
        "short_tier": answer["limiting_tier"], "short_bytes": answer["short_bytes"],
        "step_ns": round(answer["step_time_s"] * 1e9) if answer["simulated"] else None,
        "slow_ns": round(answer["range"]["step_time_s"]["high"] * 1e9) if answer["range"] else None,
        "fast_ns": round(answer["range"]["step_time_s"]["low"] * 1e9) if answer["range"] else None,
        "bottleneck": answer["bottleneck"], "gpu_bytes": peaks["gpu"], "cpu_bytes": peaks["cpu"],
        "nvme_bytes": peaks["nvme"], "micro_batch": settings["micro_batch"],
        "global_batch": settings["global_batch"], "seq": settings["seq"],
        "closed_form": answer["closed_form"] and answer["closed_form"]["plan"],
        "lanes_busy_s": sum(lane["busy_s"] for lane in answer["lanes"] or []),
    }


FIELDS = ["request", "status", "strategy", "fits", "short_tier", "short_bytes", "step_ns",
          "slow_ns", "fast_ns", "bottleneck", "gpu_bytes", "cpu_bytes", "nvme_bytes",
          "micro_batch", "global_batch", "seq", "closed_form", "lanes_busy_s", "ops", "graph"]


def ask(words, folder):
    plan = folder / "plan.txt"
    plan.unlink(missing_ok=True)
    done = subprocess.run([str(MEMWALL), "simulate", *words, "--software", "ideal", "--json", "-o",
                           str(plan)],
                          capture_output=True, text=True, check=False)
    row = {"request": " ".join(words), "status": done.returncode}
    if done.returncode in (0, 3):
        row |= figures(json.loads(done.stdout))
    if plan.exists():
        row["ops"], row["graph"] = graph(last_plan(plan.read_text()))
    return row


def answers():
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        for number in range(REQUESTS):
            yield ask(draw(rng), pathlib.Path(name))
            tell(number + 1, REQUESTS, "answers")


# --- weights -------------------------------------------------------------------------------------

PLACEMENTS = {
    "ddp": "-s ddp",
    "zero1": "-s zero1",
    "zero2": "-s zero2",
    "zero3": "-s zero3",
    "offload": "-s zero-offload",
    "offload-delayed": "-s zero-offload --dpu-start 5",
    "cpu": "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu",
    "nvme-state": "-s zero-infinity-nvme --optimizer-device nvme",
    "nvme": "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme --commit none",
    "nvme-durable": "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme",
    "split": "-s zero-infinity-nvme --param-device cpu:0.05MB,nvme"
             " --optimizer-device cpu:0.2MB,nvme",
    "owner": "-s zero-infinity-nvme --param-device nvme --partition owner --optimizer-device nvme",
    "tiles": "-s zero-infinity-cpu --param-device cpu --optimizer-device cpu --tiles 2",
}
SHAPES = {
    "plain": "",
    "accumulated": "--grad-accum 2 --activation-checkpoint-interval 1 --clip 0.5",
    "llama": "",
}


def instruction_sets():
    said = subprocess.run([str(MEMWALL), "list", "devices"], capture_output=True, text=True,
                          check=True).stdout
    return said.partition("instruction sets of the cores: ")[2].partition(";")[0].split(", ")


def hash_of(folder):
    """Of all tensors, by name: a file's header may say other things too."""
    whole = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        for name in sorted(header):
            first, last = header[name]["data_offsets"]
            whole.update(name.encode() + data[8 + length + first:8 + length + last])
    return whole.hexdigest()[:24]


def train(folder, placement, shape, dtype, isa):
    model = "llama-small" if shape == "llama" else "gpt2-small"
    words = ["-m", str(ROOT / "tests/fixtures" / model / "config.json"), "-H", "rtx4090", "--set",
             "gpu.memory_gib=2", "--data", "text.txt", "--batch", "2", "--steps", str(STEPS),
             "--lr", "2e-3", "--dtype", dtype, "--backend", "cpu", "--save", "point",
             *PLACEMENTS[placement].split(), *SHAPES[shape].split()]
    if "nvme" in words:
        words += ["--nvme", "drive", "--overwrite"]
    done = subprocess.run([str(MEMWALL), "run", *words], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "MEMWALL_ISA": isa, "HOME": str(folder)}, check=False)
    row = {"placement": placement, "shape": shape, "dtype": dtype, "isa": isa,
           "status": done.returncode, "weights": done.stderr.strip()}
    if done.returncode == 0:
        row["weights"] = hash_of(folder / "point")
        for path in (folder / "point").iterdir():
            path.unlink()
        (folder / "point").rmdir()
    return row


def weights():
    rng = random.Random(SEED)
    cases = [(placement, shape, dtype, isa) for isa in instruction_sets()
             for dtype in ("bf16", "fp16") for shape in SHAPES for placement in PLACEMENTS]
    with tempfile.TemporaryDirectory(dir=out()) as name:
        folder = pathlib.Path(name)
        (folder / "drive").mkdir()
        (folder / "text.txt").write_text("".join(rng.choice("abcdefgh \n") for _ in range(20000)))
        for number, case in enumerate(cases):
            yield train(folder, *case)
            tell(number + 1, len(cases), "weights")


# --- record and compare --------------------------------------------------------------------------

KINDS = {"answers": (answers, FIELDS, ("request",)),
         "weights": (weights, ["placement", "shape", "dtype", "isa", "status", "weights"],
                     ("isa", "dtype", "shape", "placement"))}


def out():
    (ROOT / "out").mkdir(exist_ok=True)
    return ROOT / "out"


def tell(done, whole, what):
    if sys.stderr.isatty() or done % 50 == 0 or done == whole:
        print(f"{done} of {whole} {what}", end="\r" if sys.stderr.isatty() else "\n",
              file=sys.stderr, flush=True)


def text_of(row, fields):
    return {field: "" if row.get(field) is None else str(row[field]) for field in fields}


def write(path, fields, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def check(rows):
    """A command that cannot answer, for want of a profile say, must not become the record."""
    refused = sum(row.get("status") == "2" for row in rows)
    if refused > len(rows) / 2:
        sys.exit(f"record: {refused} of {len(rows)} requests were refused: nothing is written; "
                 f"does {MEMWALL} find its profiles?")


def compare(name, rows, keys):
    """Prints each field that differs; how many rows do.  An instruction set that this machine does
    not have is not compared."""
    with open(HERE / f"{name}.csv", encoding="utf-8", newline="") as file:
        old = {tuple(row[key] for key in keys): row for row in csv.DictReader(file)}
    differ = 0
    for row in rows:
        was = old.get(tuple(row[key] for key in keys), {})
        changes = [f"{field} was {was.get(field)}, is {value}" for field, value in row.items()
                   if was.get(field) != value]
        differ += bool(changes)
        if changes:
            print(" ".join(row[key] for key in keys) + ": " + "; ".join(changes))
    print(f"{name}: {len(rows)} compared with {len(old)} on record, {differ} differ")
    return differ


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--write", action="store_true", help="make this the record")
    arguments = parser.parse_args()
    differ = 0
    for name, (rows_of, fields, keys) in KINDS.items():
        if arguments.only in (None, name):
            rows = [text_of(row, fields) for row in rows_of()]
            if arguments.write:
                check(rows)
                write(HERE / f"{name}.csv", fields, rows)
            else:
                differ += compare(name, rows, keys)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
