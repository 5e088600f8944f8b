"""Writes memwall's own description of a model, which every verb reads in place of a config.json.

    python -m memwall.describe MODEL [-o FILE] [--seq N] [--device cpu]

MODEL is a folder with a config.json of transformers, such a file, a model type of transformers
("llama": its default configuration), or package.module:function, which returns a torch module, or a
pair of one and inputs(length), its arguments for a forward pass as a dict.

The model is built on torch's meta device, where it takes no memory, and runs forward twice, with N
and with 2 N tokens: so each count is known as a line in the length.  docs/description.md has the
format.  Needs torch, and transformers for its models; memwall itself needs neither.
"""
from __future__ import annotations

import argparse
import fractions
import importlib
import json
import os
import pathlib
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def parsed():
    """The command line; --help is answered without torch too."""
    parser = argparse.ArgumentParser(prog="memwall.describe",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder or file of a config.json, a type of transformers, or "
                                      "package.module:function")
    parser.add_argument("-o", metavar="FILE", help="written there, else to standard output")
    parser.add_argument("--seq", type=int, metavar="N", help="length of the first of two runs")
    parser.add_argument("--device", choices=("meta", "cpu"), default="meta",
                        help="cpu: with memory, for small models whose code looks at values")
    return parser.parse_args()


try:
    import torch
except ImportError as missing:
    if __name__ == "__main__":
        parsed()
    print(f"memwall.describe: {missing}: it walks a model of torch: pip install torch transformers",
          file=sys.stderr)
    sys.exit(2)

from memwall import _blocks, _inputs, _trace

SCHEMA, VERSION = "memwall-description", 1
ATTENTION = "memwall_describe"


def fail(text):
    print(f"memwall.describe: {text}", file=sys.stderr)
    sys.exit(2)


# --- the model --------------------------------------------------------------------------------

def load_transformers():
    try:
        import transformers
    except ImportError as error:
        fail(f"{error}: the model is one of transformers: pip install transformers")
    transformers.logging.set_verbosity_error()
    return transformers


def class_of(transformers, config):
    """The class that the configuration names, else a language model of its type, else the bare
    model."""
    for name in config.architectures or []:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    auto = transformers.models.auto.modeling_auto
    mappings = [auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
                auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, auto.MODEL_MAPPING]
    if hasattr(config, "text_config"):
        mappings.insert(0, auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING)
    for mapping in mappings:
        try:
            found = mapping[type(config)]
        except KeyError:
            continue
        return found[0] if isinstance(found, (list, tuple)) else found
    stem = type(config).__name__.removesuffix("Config")
    for end in ("ForConditionalGeneration", "ForCausalLM", "Model", ""):
        if hasattr(transformers, stem + end):
            return getattr(transformers, stem + end)
    return fail(f"type {config.model_type}: transformers has no class for it")


def attend(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    """What transformers calls as attention: notes its shape, and computes it plainly."""
    causal = kwargs.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    window = kwargs.get("sliding_window") or getattr(module, "sliding_window", None)
    groups = query.shape[-3] // key.shape[-3]
    TRACE[-1].attention(query, key, value, causal and query.shape[-2] > 1,
                        window if isinstance(window, int) else 0)
    TRACE[-1].quiet += 1
    key, value = (x.repeat_interleave(groups, -3) if groups > 1 else x for x in (key, value))
    out = (query @ key.transpose(-1, -2)).softmax(-1).to(value.dtype) @ value
    TRACE[-1].quiet -= 1
    return out.transpose(1, 2).contiguous(), None


TRACE = []


def set_attention(config, name):
    """Of a configuration and those within it."""
    config._attn_implementation = name
    config._experts_implementation = "batched_mm"


def config_of(transformers, mapping, model):
    if model in mapping and not os.path.exists(model):
        return mapping[model]()
    return transformers.AutoConfig.from_pretrained(model)


def build_transformers(model, attention):
    transformers = load_transformers()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    transformers.AttentionInterface.register(ATTENTION, attend)
    try:
        config = config_of(transformers, CONFIG_MAPPING, model)
    except (OSError, ValueError, KeyError) as error:
        fail(f"{model}: {first_line(error)}: must be a folder with a config.json, a type of "
             f"transformers {transformers.__version__}, or package.module:function")
    set_attention(config, attention)
    import transformers.masking_utils as masks
    if hasattr(masks, "find_packed_sequence_indices"):  # one sequence is not several packed ones
        masks.find_packed_sequence_indices = lambda position_ids: None
    with torch.device(_inputs.DEVICE[0]):
        built = class_of(transformers, config)(config)
    for module in built.modules():  # else each looks for padding among the tokens
        if getattr(module, "config", None) is not None and hasattr(module.config, "pad_token_id"):
            module.config.pad_token_id = None
    return built, config, f"transformers {transformers.__version__}"


def first_line(error):
    return f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[0][:200]}"


def build(model, attention=ATTENTION):
    """The module, its configuration or None, inputs(length), what made it."""
    package, colon, function = model.partition(":")
    if not colon or os.path.exists(model):
        built, config, maker = build_transformers(model, attention)
        return built, config, _inputs.maker(built, config), maker
    sys.path.insert(0, os.getcwd())
    try:
        with torch.device(_inputs.DEVICE[0]):
            made = getattr(importlib.import_module(package), function)()
    except (ImportError, AttributeError) as error:
        fail(f"{model}: {error}: must be package.module:function")
    built, inputs = made if isinstance(made, tuple) else (made, _inputs.tokens)
    if not isinstance(built, torch.nn.Module):
        fail(f"{model}: returned {type(built).__name__}: must return a torch.nn.Module")
    return built, getattr(built, "config", None), inputs, model


# --- two runs ---------------------------------------------------------------------------------

def run(model, blocks, calls, length):
    """One forward pass: its places, and its FLOPs as PyTorch counts them."""
    from torch.utils.flop_counter import FlopCounterMode
    trace = _trace.Trace(model, blocks)
    TRACE.append(trace)
    torch.backends.mha.set_fastpath_enabled(False)
    torch.distributions.Distribution.set_default_validate_args(False)  # it looks at values
    try:
        with torch.device(_inputs.DEVICE[0]), torch.no_grad(), FlopCounterMode(display=False) as counter, trace:
            for module, inputs in calls:
                given = inputs(length)
                module(**given) if isinstance(given, dict) else module(*given)
    finally:
        trace.close()
        TRACE.pop()
    return trace, counter.get_total_flops() - trace.skipped_flops


def towers_of(model, trace, blocks):
    """Models of transformers within the model that the run left out, with inputs of their own."""
    seen = {name for name, _ in trace.places if name}
    found = []
    for name, module in model.named_modules():
        below = [b for b in blocks if b.startswith(name + ".")]
        if not name or not below or any(b in seen for b in below) or \
                any(name.startswith(other + ".") for other, _ in found) or \
                not hasattr(module, "main_input_name"):
            continue
        found.append((name, module))
    return found


def line(one, two, n, m):
    """[a, b, c]: (a s + c) / b for a sequence of s tokens."""
    if one == two:
        return [0, 1, one]
    slope = fractions.Fraction(two - one, m - n)
    offset = one - slope * n
    whole = slope.denominator * offset.denominator // \
        fractions.Fraction(slope.denominator, offset.denominator).denominator
    whole = max(slope.denominator, offset.denominator) if whole < 1 else whole
    while (slope * whole).denominator > 1 or (offset * whole).denominator > 1:
        whole += 1
    return [int(slope * whole), whole, int(offset * whole)]


def squeeze(rows):
    """The rows of a place, products of activations that are alike counted together."""
    out, alike = [], {}
    for row in rows.values():
        if row["kind"] == "mix":
            key = tuple(row[x] for x in ("module", "m", "k", "n", "value_dim"))
            if key in alike:
                alike[key]["count"] += row["count"]
                continue
            alike[key] = row = dict(row)
        out.append(row)
    return out


def pair(place, one, two, n, m):
    """One operator of both runs, with lines for what depends on the length."""
    if one["kind"] != two["kind"] or one["module"] != two["module"]:
        fail(f"module {one['module']}: runs other operators with {m} tokens than with {n}: a "
             "description needs the same ones (--seq N takes another length)")
    row = {"kind": one["kind"]}
    lines = {"mix": ("m", "n", "k", "count"), "attention": ("queries", "keys", "count_"),
             }.get(one["kind"], ("rows",))
    for key, value in one.items():
        if key in lines:
            row[key] = line(value, two[key], n, m)
        elif key not in ("kind", "module", "names"):
            if value != two[key]:
                fail(f"module {one['module']}: {key} is {value} with {n} tokens and {two[key]} "
                     f"with {m}: a description needs one (--seq N takes another length)")
            row[key] = value
    row["module"], row["names"] = one["module"], one["names"]
    return row


def combine(first, second, n, m):
    """Places as (block, rows) with lines."""
    if [name for name, _ in first.places] != [name for name, _ in second.places]:
        fail(f"the model runs other layers with {m} tokens than with {n}")
    out = []
    for (name, one), (_, two) in zip(first.places, second.places):
        one, two = squeeze(one), squeeze(two)
        if len(one) != len(two):
            fail(f"module {name or '(the model)'}: runs {len(one)} operators with {n} tokens and "
                 f"{len(two)} with {m}: a description needs the same ones")
        out.append((name, [pair(name, a, b, n, m) for a, b in zip(one, two)]))
    return out


def value_of(form, length):
    return (form[0] * length + form[2]) // form[1]


def flops_of(row, length):
    if row["kind"] == "product":
        return 2 * value_of(row["rows"], length) * row["n"] * row["k"]
    if row["kind"] == "mix":
        m, n, k, count = (value_of(row[x], length) for x in ("m", "n", "k", "count"))
        return 2 * count * m * n * (k + row["value_dim"])
    if row["kind"] == "attention":
        q, k, count = (value_of(row[x], length) for x in ("queries", "keys", "count_"))
        return 2 * count * row["heads"] * q * k * (row["head_dim"] + row["value_dim"])
    return 0


# --- what is written --------------------------------------------------------------------------

def heads_of(model, config, row, trace):
    """Of an attention that was seen as two products: who computes it says its heads."""
    names = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")
    near = []
    path = row["module"]
    while path:
        near.append(trace.modules[path])
        path = path.rpartition(".")[0]
    batch = row["count"]
    for source in (*near, config):
        for name in names:
            heads = getattr(source, name, None)
            if isinstance(heads, int) and heads and not (batch[0] % heads or batch[2] % heads):
                kv = getattr(source, "num_key_value_heads", None) or \
                    getattr(config, "num_key_value_heads", None)
                kv = kv if isinstance(kv, int) and kv and heads % kv == 0 else heads
                return heads, kv, near
    return 1, 1, near


def is_causal(near, config, row):
    for module in near:
        for name in ("is_causal", "is_decoder"):
            value = getattr(module, name, None)
            if isinstance(value, bool):
                return value and row["m"] == row["n"]
    return bool(getattr(config, "is_decoder", False)) and row["m"] == row["n"]


def operator(row, own, shared, model, config, trace):
    """As the file has it."""
    kind = row["kind"]
    out = {"kind": kind}
    if row["module"]:
        out["name"] = row["module"]
    if kind == "mix" and row["value_dim"]:
        heads, kv_heads, near = heads_of(model, config, row, trace)
        out.update(kind="attention", heads=heads, kv_heads=kv_heads, head_dim=row["k"][2],
                   value_dim=row["value_dim"], queries=row["m"], keys=row["n"],
                   times=[row["count"][0] // heads, row["count"][1], row["count"][2] // heads],
                   causal=is_causal(near, config, row), window=0)
    elif kind == "mix":
        out.update({x: row[x] for x in ("m", "n", "k", "count")}, kind="scan")
    elif kind == "attention":
        out.update({x: row[x] for x in ("heads", "kv_heads", "head_dim", "value_dim", "queries",
                                        "keys", "causal", "window")}, times=row["count_"])
    else:
        out.update({x: row[x] for x in ("n", "k", "count", "width", "table", "rows",
                                        "convolution") if x in row})
    if kind == "pass":
        out = {"kind": "parameters", **({"name": row["module"]} if row["module"] else {})}
    out["parameters"] = [{"name": name, "elements": trace.sizes[name]} for name in own] + \
        [{"name": name, "elements": trace.sizes[name], "shared": True} for name in shared]
    if not out["parameters"]:
        del out["parameters"]
    return out


class Blocks:
    """Kinds of layers, each said once, and the order in which they come."""

    def __init__(self):
        self.kinds, self.pattern, self.known = [], [], {}

    def add(self, place, name, operators, own, times=1):
        key = json.dumps([place, name, operators], sort_keys=True)
        if key not in self.known:
            self.known[key] = len(self.kinds)
            self.kinds.append({"name": name, "place": place, "distinct": 0, "operators": operators})
        number = self.known[key]
        self.kinds[number]["distinct"] += own
        if not times:
            return
        if self.pattern and self.pattern[-1][0] == number:
            self.pattern[-1][1] += times
        else:
            self.pattern.append([number, times])


def relative(text, block):
    return text[len(block) + 1:] if block and text.startswith(block + ".") else text


def local(operators, block):
    """With names as the block has them, so that layers that are alike are the same."""
    for op in operators:
        if "name" in op:
            op["name"] = relative(op["name"], block) if op["name"] != block else ""
            if not op["name"]:
                del op["name"]
        for parameter in op.get("parameters", []):
            parameter["name"] = relative(parameter["name"], block)
    return operators


def cut_end(operators):
    """What a model does before or behind its layers with attention or a scan stands between them:
    up to the last one of these, and the rest."""
    last = max((i for i, op in enumerate(operators) if op["kind"] in ("attention", "scan")),
               default=-1)
    return operators[:last + 1], operators[last + 1:]


def fold(places, model, config, trace, blocks):
    """Blocks and pattern of the file: each parameter is the first one's who takes it."""
    out, owner = Blocks(), {}
    last = max((i for i, (name, _) in enumerate(places) if name), default=0)
    mine = {}
    for name in trace.sizes:
        block = next((b for b in blocks if name.startswith(b + ".")), None)
        mine.setdefault(block, []).append(name)
    used = {n for _, rows in places for row in rows for n in row["names"]}
    first_visit = {}
    for i, (name, _) in enumerate(places):
        if name:
            first_visit.setdefault(name, i)
    ends = {"head": [], "tail": []}
    for i, (name, rows) in enumerate(places):
        operators, owned, all_names, named = [], 0, 0, set()
        for row in rows:
            if row["kind"] == "pass":  # of parameters that no other operator here takes
                row["names"] = tuple(n for n in row["names"] if n not in named)
                if not row["names"]:
                    continue
            named.update(row["names"])
            own = [n for n in row["names"] if owner.setdefault(n, (i, id(row))) == (i, id(row))]
            again = [n for n in row["names"] if owner[n][0] == i and n not in own]
            shared = [n for n in row["names"] if owner[n][0] != i]
            owned, all_names = owned + len(own), all_names + len(row["names"])
            operators.append(operator(row, own, shared + again, model, config, trace))
        if name:
            rest = [n for n in mine.get(name, []) if n not in used]
            if rest and first_visit[name] == i:
                operators.append({"kind": "parameters", "parameters": [
                    {"name": n, "elements": trace.sizes[n]} for n in rest]})
                owned += 1
            kind = type(trace.modules[name]).__name__
            once_more = owned == 0 and all_names > 0 and first_visit[name] != i
            if once_more:  # the same layer again
                for op in operators:
                    for parameter in op.get("parameters", []):
                        if parameter["name"] in mine.get(name, []):
                            del parameter["shared"]
                if rest:
                    operators.append({"kind": "parameters", "parameters": [
                        {"name": n, "elements": trace.sizes[n]} for n in rest]})
            out.add("layer", kind, local(operators, name), 0 if once_more else 1)
        elif i == 0 or i > last:
            between, end = cut_end(operators)
            if between:
                out.add("between", "between layers", between, 1)
            ends["head" if i == 0 else "tail"].extend(end)
        elif operators:
            out.add("between", "between layers", operators, 1)
    visited = {name for name, _ in places if name}
    for name in blocks:
        rest = [n for n in mine.get(name, []) if n not in owner]
        if name not in visited and rest:
            out.add("layer", type(trace.modules[name]).__name__, local([
                {"kind": "parameters", "parameters": [
                    {"name": n, "elements": trace.sizes[n]} for n in rest]}], name), 1, 0)
    rest = [n for n in mine.get(None, []) if n not in owner]
    if rest:
        ends["tail"].append({"kind": "parameters", "parameters": [
            {"name": n, "elements": trace.sizes[n]} for n in rest]})
    return out, ends


def fixed_length(places):
    """Rows of the layers' norms, of a model whose input always has one length."""
    rows = [value_of(row["rows"], 1) for name, of in places if name for row in of
            if row["kind"] == "norm"] or [1]
    return max(set(rows), key=rows.count)


def largest_table(ends, out):
    tables = [op for op in ends["head"] + [o for k in out.kinds for o in k["operators"]]
              if op["kind"] == "embedding"]
    return max((op["table"] for op in tables), default=0)


def vocabulary(ends, out):
    """Rows of the table of tokens, if the last product is one with each of them."""
    products = [op for op in ends["tail"] if op["kind"] == "product"]
    table = largest_table(ends, out)
    return table if products and table and products[-1]["n"] in (table, table - 1) or \
        products and products[-1]["n"] >= 256 and table else 0


def begin(model, seq):
    """Built, and run once; with the model's own code for attention where it takes no other.  What
    that code raises may be anything."""
    refused, length = None, None
    for attention in (ATTENTION, "eager"):
        try:
            built, config, inputs, maker = build(model, attention)
            built.eval().requires_grad_(False)
            blocks = _blocks.find(built)
            length = seq or _inputs.length_of(built, config)
            calls = [(built, inputs)] if has_forward(built) else []
            first, flops = run(built, blocks, calls, length)
            return built, config, inputs, maker, blocks, length, first, flops
        except Exception as error:
            refused = error
    hint = "" if _inputs.DEVICE[0] == "cpu" else \
        "; where its code looks at values, --device cpu runs it, in memory"
    return fail(f"{model}: " + (f"forward with {length} tokens: " if length else "") +
                first_line(refused) + hint)


def has_forward(module):
    """Some models only hold others, which each have one."""
    return type(module).forward is not torch.nn.Module.forward


def positions_of(ends, out, longest):
    """Rows of a table that has one for each position and a few more, none of which is computed."""
    rows = [op["table"] for op in ends["head"] if op["kind"] == "embedding" and
            longest <= op["table"] <= longest + 8 and op["table"] != vocabulary(ends, out)]
    return {"positions": rows[0]} if rows and vocabulary(ends, out) else {}


def describe(model, name, seq):
    built, config, inputs, maker, blocks, length, first, flops = begin(model, seq)
    notes, calls = [], [(built, inputs)] if has_forward(built) else []
    for tower, module in towers_of(built, first, blocks):
        one = (module, _inputs.maker(module, getattr(module, "config", None)))
        try:
            run(module, [], [one], length)
            calls.insert(len(calls) - has_forward(built), one)
            notes.append(f"{tower} runs once per sequence, on one input of its own")
        except Exception as error:
            notes.append(f"{tower} is not run: its parameters are counted, its FLOPs are not "
                         f"({type(error).__name__})")
    try:
        if len(calls) > has_forward(built):
            first, flops = run(built, blocks, calls, length)
        if not calls:
            fail(f"{model}: nothing in it has a forward that runs here")
        second, flops_twice = run(built, blocks, calls, 2 * length)
    except Exception as error:
        fail(f"{model}: forward with {2 * length} tokens: {first_line(error)}")
    if not any(name for name, _ in first.places):
        fail(f"{model}: none of its layers ran: must have modules that hold matrices and are called")
    places = combine(first, second, length, 2 * length)
    for tokens, counted in ((length, flops), (2 * length, flops_twice)):
        seen = sum(flops_of(row, tokens) for _, rows in places for row in rows)
        if seen != counted:
            fail(f"{model}: the operators that were found make {seen} FLOPs, PyTorch counts "
                 f"{counted} ({tokens} tokens)")
    longest = max(length, _inputs.longest_of(config))
    if flops == flops_twice and all(value_of(row["rows"], 0) == value_of(row["rows"], 1)
                                    for _, rows in places for row in rows if "rows" in row):
        length = longest = fixed_length(places)
    out, ends = fold(places, built, config, first, blocks)
    parameters = list(built.parameters())
    total = sum(p.numel() for p in parameters)
    dtype = getattr(config, "dtype", None) or parameters[0].dtype
    drops = any(isinstance(m, torch.nn.Dropout) and m.p > 0 for m in built.modules())
    return {
        "schema": SCHEMA, "version": VERSION, "name": name, "class": type(built).__name__,
        "made_by": maker, "dtype": str(dtype).replace("torch.", ""), "seq": length,
        "longest": longest, "vocab": vocabulary(ends, out),
        **positions_of(ends, out, longest),
        "rotary": any("rotary" in type(m).__name__.lower() for m in built.modules()),
        "dropout": drops,
        "totals": {"parameters": total, "forward_flops": flops, "forward_flops_twice": flops_twice},
        **({"notes": notes} if notes else {}),
        "head": ends["head"], "tail": ends["tail"], "blocks": out.kinds, "pattern": out.pattern,
    }


def text_of(description):
    """JSON with one operator a line."""
    def rows(operators, indent):
        return "[" + ",".join(f"\n{indent}{json.dumps(op)}" for op in operators) + "]"

    out = []
    for key, value in description.items():
        if key in ("head", "tail"):
            out.append(f'"{key}": {rows(value, "  ")}')
        elif key == "blocks":
            blocks = [", ".join(f'"{k}": ' + (rows(v, "  ") if k == "operators" else json.dumps(v))
                                for k, v in block.items()) for block in value]
            out.append('"blocks": [' + ",".join(f"\n {{{b}}}" for b in blocks) + "]")
        else:
            out.append(f'"{key}": {json.dumps(value)}')
    return "{" + ",\n ".join(out) + "}\n"


def main():
    options = parsed()
    _inputs.DEVICE[0] = options.device
    if options.seq is not None and options.seq < 1:
        fail(f"--seq: value {options.seq}: must be a whole number from 1")
    base = pathlib.Path(options.o or options.model).stem
    if base == "config":
        base = pathlib.Path(options.o or options.model).resolve().parent.name
    text = text_of(describe(options.model, base.replace(":", "."), options.seq))
    if options.o:
        pathlib.Path(options.o).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
