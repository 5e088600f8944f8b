#!/usr/bin/python3
"""GShard's steps per second (its Table 3) and the dense models of the Switch Transformer's Table 1,
on TPU v3.

    experiments/gshard-switch/run.py [--rows TEXT]

With --rows only rows whose name has the text are predicted, and printed instead of written."""

import argparse
import json
import math
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common  # noqa: E402

MACHINE, NODE_CORES, NODE_CHIPS = str(HERE / "tpu-v3-32.ini"), 32, 16
LINK_GB_PER_S = 83  # each way: experiments/gshard-switch/tpu-v3-32.ini
USABLE = 0.9
SEQ = {"gshard": 128, "t5": 512}
SOFTWARE = ("--software", "ideal", "--set", "software.attention.kernel=unfused")
# What the paper's count of tokens may mean: all of them pass every layer, or half of them are of
# the source and pass the encoder alone, the others are of the target.
READINGS = {"all": 1, "half": 2}


def number(row, key):
    return int(row[key])


def nodes(row):
    return number(row, "cores") // NODE_CORES


def network(row):
    """GB/s of a node in an all-to-all over k x k chips, of which a torus passes 8/k links a chip
    and a mesh half as much."""
    chips = nodes(row) * NODE_CHIPS
    whole = NODE_CHIPS * LINK_GB_PER_S * 8 / math.sqrt(chips)
    return f"{USABLE * whole / 2:.0f};{USABLE * whole:.0f};{whole:.0f}"


def gshard_config(row):
    """Decoder layers, experts in every second one.  The type's MLP has three matrices, GShard's
    two: two thirds of the width have as many parameters."""
    width = 2 * number(row, "ffn") // 3
    return {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
            "hidden_size": number(row, "hidden"), "intermediate_size": width,
            "moe_intermediate_size": width, "num_hidden_layers": number(row, "layers"),
            "num_attention_heads": number(row, "heads"),
            "num_key_value_heads": number(row, "heads"), "head_dim": 128,
            "num_experts": number(row, "experts"), "num_experts_per_tok": 2,
            "decoder_sparse_step": 2, "mlp_only_layers": [], "vocab_size": 32000,
            "max_position_embeddings": 4096, "tie_word_embeddings": False}


def t5_config(row):
    return {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5",
            "is_encoder_decoder": True, "feed_forward_proj": "gated-gelu",
            "d_model": number(row, "hidden"), "d_ff": number(row, "ffn"), "d_kv": 64,
            "num_heads": number(row, "heads"), "num_layers": number(row, "layers"),
            "num_decoder_layers": number(row, "layers"), "n_positions": SEQ["t5"],
            "relative_attention_num_buckets": 32, "vocab_size": 32128,
            "tie_word_embeddings": False}


def ask(row, config, *options):
    seq = SEQ[row["kind"]]
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model.json"
        model.write_text(json.dumps(config), encoding="utf-8")
        return common.memwall("simulate", "-m", model, "-H", MACHINE, "-s", "ddp", "--seq", seq,
                              *SOFTWARE, *options, interval=None)


def gshard(row, share):
    where = (("--nodes", nodes(row)) if nodes(row) > 1 else ())
    batch = number(row, "tokens") // share // SEQ["gshard"]
    answer = ask(row, gshard_config(row), *where, "--ep", number(row, "cores"),
                 "--gate", "gshard", "--dtype", "fp32", "--optimizer", "adafactor-pure",
                 "--set", f"network.gb_per_s={network(row)}", "--global-batch", batch)
    return answer, lambda seconds: 1 / seconds


def t5(row):
    """By FLOPs: a published example has those of Table 9, and a step three times as many as
    forward; an example of the plan has more, as its target is as long as its source."""
    answer = ask(row, t5_config(row), "--optimizer", "adafactor", "--global-batch",
                 number(row, "tokens") // SEQ["t5"])
    flops = answer["tflops_per_gpu"] * 1e12 * answer["step_time_s"] * number(row, "cores")
    return answer, lambda seconds: flops / seconds / (3 * float(row["flops_per_sequence"]))


def predict(row, reading):
    answer, in_unit = (gshard(row, READINGS[reading]) if row["kind"] == "gshard" else t5(row))
    if not answer["feasible"]:
        raise common.Failed(f"{row['row']}: does not fit")
    ends = sorted(in_unit(s) for s in answer["range"]["step_time_s"].values())
    found = common.compare(row["row"], float(row["value"]),
                           {"engine": in_unit(answer["step_time_s"]), "low": ends[0],
                            "high": ends[1]}, row["flag"])
    return {**found, "table": row["table"], "unit": row["unit"], "reading": reading,
            "gpu_gib": answer["peak_bytes"]["gpu"] / 2 ** 30}


def table(rows):
    return common.markdown_table(
        ["row", "unit", "published", "predicted", "error", "low", "high", "in range", "GiB a core"],
        [[r["row"], r["unit"], r["published"], r["engine"], common.percent(r["engine_error"]),
          r["low"], r["high"], common.yes(r["in_range"]), r["gpu_gib"]] for r in rows])


# Step times over each other, in which what a token is cancels out: (numerator, denominator).
RATIOS = [("36 layers over 12, 128 experts", "(5)", "(6)"),
          ("36 layers over 12, 512 experts", "(3)", "(4)"),
          ("36 layers over 12, 2048 experts", "(1)", "(2)"),
          ("2048 experts over 512, 36 layers", "(1)", "(3)"),
          ("2048 experts over 512, 12 layers", "(2)", "(4)"),
          ("128 experts over 512, 36 layers, 4 times the tokens a core", "(5)", "(3)"),
          ("128 experts over 512, 12 layers, 4 times the tokens a core", "(6)", "(4)")]


def ratios(by_reading):
    def ratio(rows, key, over, under):
        named = {r["row"].split()[0]: r[key] for r in rows}
        return named[under] / named[over]  # of times, from steps per second

    def error(value, published):
        return common.percent(common.error_percent(value, published))

    lines = []
    for what, over, under in RATIOS:
        published = ratio(by_reading["all"], "published", over, under)
        predicted = [ratio(by_reading[name], "engine", over, under) for name in READINGS]
        lines.append([what, published, *[cell for value in predicted for cell in
                                         (value, error(value, published))]])
    return common.markdown_table(
        ["step time", "published", "all tokens", "error", "half", "error"], lines)


def write(by_reading, dense):
    every = [r for rows in by_reading.values() for r in rows] + dense
    common.write_text(HERE / "result.md", f"""\
# Result: GShard and the Switch Transformer's dense models on TPU v3

By `tpu-v3-32.ini` and `--software ideal` with attention that writes its scores.
No constant is fitted to a row.

## GShard, Table 3 of arXiv 2006.16668, every token in every layer

{table(by_reading["all"])}
{common.summary(by_reading["all"])}
## The same, half of the tokens the source's and half the target's

{table(by_reading["half"])}
{common.summary(by_reading["half"])}
## How step times scale, whatever a token is

{ratios(by_reading)}
## T5 in Table 1 of arXiv 2101.03961

{table(dense)}
{common.summary(dense)}
## What the model lacks

{lacks()}""")
    common.write_csv(
        HERE / "result.csv",
        ["table", "row", "reading", "flag", "unit", "published", "engine", "engine_error_percent",
         "low", "high", "width_percent"],
        [[r["table"], r["row"], r["reading"], r["flag"], r["unit"], r["published"], r["engine"],
          r["engine_error"], r["low"], r["high"], r["width"]] for r in every])


def lacks():
    return common.bullets(
        "An encoder and decoder with experts: no type of model that memwall reads has them. "
        "GShard's layers are a decoder's, without cross attention (151M of about 1.4G parameters "
        "that a pair of tokens passes with 36 layers), and the Switch Transformer's own rows are "
        "left out.",
        "GShard sends tokens by products with one-hot matrices (its Algorithm 2), whose FLOPs grow "
        "with the tokens of a group; groups' sizes are not published. memwall counts copies.",
        "Cumulative sums over tokens to find places, sequential on a TPU: under 10% of layers "
        "with 2048 experts, by the paper.",
        "Lengths of GShard's sequences are not published; 128 tokens are taken. T5 has 512 tokens "
        "and a shorter target; memwall gives the target as many, so these rows compare FLOP/s.",
        "By Table 3 a token takes a core 2.6 times as long with 512 experts as with 128, where a "
        "core has a quarter of the tokens; the paper's Fig. 8 has layers become 1.7 times as long "
        "from 128 to 2048 experts. What the rest is, the paper does not say, and memwall, which "
        "has the parts of Fig. 8 that cross links, finds under 1.5 times.",
        "Batches of Table 1 are not published beside it; those of the paper's pre-training are "
        "taken (its Sec. 4.1).",
        "What products reach by shape on TPU v3 is an estimate, 0.5 to 0.97 of the peak; GShard "
        "gives over 0.85 for its large ones. Cores of slices that are no whole pod may be joined "
        "as a mesh, which the low end has.")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="TEXT")
    part = parser.parse_args().rows
    rows = [row for row in common.read_csv(HERE / "published.csv")
            if not part or part in row["row"]]
    by_reading = {name: [predict(row, name) for row in rows if row["kind"] == "gshard"]
                  for name in READINGS}
    dense = [predict(row, "") for row in rows if row["kind"] == "t5"]
    if part:
        print(table([r for found in by_reading.values() for r in found] + dense))
    else:
        write(by_reading, dense)


if __name__ == "__main__":
    main()
