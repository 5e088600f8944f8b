"""ZeRO-R (arXiv 1910.02054): the paper's figures of activations, buffers, fragments, and ours."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

LARGE = ("-m zero-100b -H dgx2 --nodes 1 --tp 16 --sequence-parallel off --batch 2 "  # of 2019
         "-s zero2")
SMALL = "-m zero-1.5b -H dgx2 --gpus 1 --batch 32 -s ddp"
FUSED_ATTENTION = "--set gpu.flash_attention=true"
FUSED = "-H dgx2 --batch 1 -s ddp --software pytorch-2020 --set software.memory.gradient_copies=2"
LARGEST = ("-m zero-100b -H dgx2 --nodes 25 --tp 16 --batch 1 --tiles 1 --software deepspeed-0.3 "
           "--largest")
ACTIVATIONS = ("activation-checkpoints", "activations", "logits")


def held(answer, purposes, tier="gpu"):
    return sum(r["bytes"] for r in answer["ledger"]
               if r["tier"] == tier and r["purpose"] in purposes) / 1e9


def beside(answer, what):
    return sum(part["bytes"] for part in answer["software_memory"] if part["what"] == what) / 1e9


def activations(options):
    return options, lambda answer: held(answer, ACTIVATIONS)


def checkpoints(options):
    return options, lambda answer: held(answer, ("activation-checkpoints",))


def buckets(options):
    return options, lambda answer: beside(answer, "buckets of gradients")


def largest(options):
    return f"{LARGEST} {options}", lambda answer: answer["params"] / 1e9


def added_volume():
    """Of a block: one all-gather beside six all-reduces, which move their message twice."""
    return "(tests/check_zero_r.py counts it in a plan's ops)", lambda _: 1 / 12


def constant(options):
    """The largest over the smallest bucket of three models."""
    def ratio(_):
        sizes = [beside(ask(options.format(model)), "buckets of gradients")
                 for model in ("zero-1.5b", "zero-8b", "zero-13b")]
        return max(sizes) if max(sizes) == min(sizes) else float("nan")
    return options.format("zero-1.5b|zero-8b|zero-13b"), ratio


def lost(options):
    """The share of a GPU's memory that is not to be had at the slow end of the range."""
    def share(answer):
        taken = beside(answer, "loss of its allocator")
        beside_all = sum(p["bytes"] for p in answer["software_memory"])
        return taken / (answer["peak_bytes"]["gpu"] + beside_all) * 1e9
    return options, share


# A key of published.csv, what memwall is asked, and what is different from the paper.
ROWS = (
    ("activations", activations(f"{SMALL} --activation-checkpoint-interval 0 {FUSED_ATTENTION}"),
     "fused attention keeps no scores"),
    ("activations", activations(f"{SMALL} --activation-checkpoint-interval 0"),
     "with scores, as software of the time"),
    ("checkpointed", activations(f"{SMALL} {FUSED_ATTENTION}"), "fused attention"),
    ("checkpointed", activations(SMALL), "with scores"),
    ("checkpoints-100b", checkpoints(f"{LARGE} --checkpoint-partition off"), ""),
    ("whole", checkpoints(f"{LARGE} --checkpoint-partition off"),
     "2 bytes of each element; 33 is a byte of each"),
    ("whole", checkpoints(f"{LARGE} --checkpoint-partition off --activation-checkpoint-interval 2"),
     "one per two layers"),
    ("parts", checkpoints(LARGE), "as above"),
    ("parts", checkpoints(f"{LARGE} --activation-checkpoint-interval 2"), "one per two layers"),
    ("host", checkpoints(f"{LARGE} --activation-device cpu"), ""),
    ("volume", added_volume(), "a twelfth"),
    ("fused-1.5b", buckets(f"-m zero-1.5b {FUSED}"), ""),
    ("fused-3b", buckets(f"-m zi-6b-3b {FUSED}"), ""),
    ("constant", constant("-m {} -H dgx2 --gpus 1 --batch 1 -s zero2 "
                          "--software deepspeed-0.3 --set software.memory.caching=false"),
     "the same for 1.5B, 8B and 13B"),
    ("fragments", lost(f"{SMALL} --software deepspeed-0.3 --outlook low"),
     "the ninth of ten trainings that ran out of memory (rates/allocator.csv)"),
    ("C1", largest("-s zero1 --checkpoint-partition off"), ""),
    ("C2", largest("-s zero1"), ""),
    ("C3", largest("-s zero2 --checkpoint-partition off"), ""),
    ("C4", largest("-s zero2"), ""),
    ("C5", largest("-s zero2 --activation-device cpu"), ""),
)


TEXT = """The paper's 60 GB are 12 elements of the hidden size per token and layer, 60.4 GB for
this model; what a plan keeps of a layer is about 17, and attention's scores beside them where they
are stored. Its 33 GB and 2 GB (Sec. 6.1) are half of what its Table 4 gives with two bytes per
element, and of the 60 GB that Sec. 3.2 has for a 100B model. The 3B model of Sec. 6.2 has no
dimensions there; the preset has 3.2B. Why the largest model with Pos and Pa is 60B, where by the
states alone (4/16 + 12/400 bytes per parameter) 89B leave room for a batch of 16, the paper does
not say."""


def ask(options):
    return common.memwall("plan", *options.split())


def compare(published, key, asked, note):
    options, figure_of = asked
    row = published[key]
    value = figure_of(None if options.startswith("(") or "|" in options else ask(options))
    printed = float(row["printed"]) if row["printed"] else float("nan")
    return {"key": key, "section": row["section"], "statement": row["statement"],
            "printed": row["printed"], "unit": row["unit"], "memwall": value,
            "error": common.error_percent(value, printed) if printed > 0 else float("nan"),
            "note": note, "options": options}


def error_text(row):
    return common.percent(row["error"]) if row["error"] == row["error"] else ""


def main():
    published = {row["key"]: row for row in common.read_csv(HERE / "published.csv")}
    rows = [compare(published, *row) for row in ROWS]
    table = common.markdown_table(
        ["section", "the paper", "printed", "memwall", "difference", "note"],
        [[r["section"], r["statement"], f"{r['printed']} {r['unit']}",
          f"{common.figure(r['memwall'])} {r['unit']}", error_text(r), r["note"]] for r in rows])
    commands = common.bullets(*(
        f"{r['key']}: `memwall plan {r['options']}`" if r["options"][0] == "-"
        else f"{r['key']}: {r['options']}" for r in rows))
    common.write_text(HERE / "result.md", f"""\
# ZeRO-R: checkpoints, buffers and fragments

Written by `experiments/run zero-r`.

{table}
{common.paragraph(TEXT)}

## Commands

All with `--activation-checkpoint-interval 1` and `--software ideal` unless they say otherwise.

{commands}
""")
    columns = list(rows[0])
    common.write_csv(HERE / "result.csv", columns, [[r[c] for c in columns] for r in rows])


if __name__ == "__main__":
    main()
