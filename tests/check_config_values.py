#!/usr/bin/python3
"""Values of a config.json that mean nothing are refused in one line, never counted; prints TAP."""
import json
import pathlib
import sys

from command import Box, of_rows
from tap import report_in

FIXTURES = pathlib.Path(__file__).parent / "fixtures" / "models"


def config_of(name, **changed):
    return {**json.loads((FIXTURES / f"{name}.json").read_text())["config"], **changed}


def count(box, config):
    """The number of parameters, or the message."""
    box.write("config.json", json.dumps(config) if isinstance(config, dict) else config)
    answer = box.run("list models config.json --json")
    if answer.status == 0:
        return json.loads(answer.out)["params"]
    lines = answer.err.splitlines()
    return answer.err if answer.status == 2 and len(lines) == 1 else f"{answer}: not one line"


# Of a fixture: what is changed, and what the message has.
REFUSED = (
    ("jamba-plain", {"expert_layer_offset": "1"}, '"expert_layer_offset": value "1": must be'),
    ("jamba-plain", {"expert_layer_offset": -1}, "value -1: must be a number from 0 to 2^40"),
    ("jamba-plain", {"expert_layer_offset": []}, "value []: must be a number"),
    ("jamba-plain", {"num_experts": -16}, '"num_experts": value -16: must be'),
    ("bamba-plain", {"attn_layer_indices": 9}, '"attn_layer_indices": value 9: must be a list'),
    ("bamba-plain", {"attn_layer_indices": ["1"]}, '"attn_layer_indices": value "1": must be'),
    ("bamba-plain", {"attn_layer_indices": "9,18"}, 'value "9,18": must be a list'),
    ("bamba-plain", {"attn_layer_indices": [100, 200]}, "below num_hidden_layers"),
    ("bamba-plain", {"num_attention_heads": 7, "num_key_value_heads": None},
     "hidden_size / num_attention_heads is 13.71429: must be a whole number"),
    ("granite-plain", {"num_attention_heads": 7, "num_key_value_heads": None},
     "hidden_size / num_attention_heads is 13.71429: must be a whole number"),
    ("mistral-plain", {"max_position_embeddings": None}, '"max_position_embeddings": missing'),
    ("albert-bare", {"num_hidden_groups": 0}, "num_hidden_groups: value 0: must be"),
    ("granite-plain", {"hidden_size": float("nan")}, '"hidden_size": value NaN: must be a number'),
    ("llama-plain", {"none of its keys": float("nan")}, '"none of its keys": value NaN'),
    ("jamba-plain", {"list": [1, float("nan")]}, '"list": value NaN: must be a number'),
    ("granite-plain", {"num_key_value_heads": 0}, '"num_key_value_heads": value 0: must be'),
    ("granite-plain", {"num_key_value_heads": False}, "value false: must be a number"),
    ("granite-plain", {"num_hidden_layers": True}, "value true: must be a number"),
    ("granite-plain", {"intermediate_size": 0}, '"intermediate_size": value 0: must be a whole'),
    ("granite-plain", {"vocab_size": 0}, '"vocab_size": value 0: must be a whole'),
    ("granite-plain", {"hidden_size": 64.5}, '"hidden_size": value 64.5: must be a whole number'),
    ("granite-plain", {"hidden_size": "64"}, '"hidden_size": value "64": must be a number'),
    ("mamba-plain", {"state_size": 0.5}, '"state_size": value 0.5: must be a whole number'),
    ("mamba2-plain", {"n_groups": -1}, '"n_groups": value -1: must be'),
    ("falcon-plain", {"multi_query": "abc"}, '"multi_query": value "abc": must be true or false'),
    ("t5-plain", {"feed_forward_proj": "abc", "is_gated_act": None}, "feed_forward_proj: must be"),
    ("olmo3-plain", {"layer_types": ["foo"] * 8}, '"layer_types": '),
    ("olmo3-plain", {"layer_types": 7}, '"layer_types": must be a list with an entry per layer'),
    ("granitemoehybrid-plain", {"layer_types": ["Attention"]}, '"layer_types": '),
    ("nemotron_h-plain", {"layers_block_type": None, "hybrid_override_pattern": "XX",
                          "num_hidden_layers": 2}, "entry X: must be one of attention, "),
    ("nemotron_h-plain", {"layers_block_type": None, "hybrid_override_pattern": "M-*",
                          "num_hidden_layers": 2}, "has 3 entries: must have one for each of 2"),
    ("nemotron_h-plain", {"layers_block_type": None, "hybrid_override_pattern": ""},
     '"num_hidden_layers": missing'),
    ("bamba-plain", {"layer_types": None, "attn_layer_indices": [1] * 10**6},
     "has 1000000 entries: must have at most one for each of"),
    ("qwen3_moe-plain", {"mlp_only_layers": [1] * 10**6}, "must have at most one for each of"),
    ("gpt_neo-plain", {"attention_layers": None, "attention_types": [[["foo"], 24]]},
     '"attention_types": entry "foo": must be one of global, local'),
    ("gpt_neo-plain", {"attention_layers": None, "attention_types": [["local", 2]]},
     '"attention_types": must be a list of pairs'),
    ("gpt_neo-plain", {"attention_layers": None, "attention_types": "x"}, "a list of pairs"),
    ("gpt_neo-plain", {"attention_layers": None, "attention_types": [[[], 2]]}, "list of pairs"),
    ("gpt_neo-plain", {"attention_layers": None, "attention_types": [[["local"], "x"]]},
     "a list of pairs"),
    ("exaone4-plain", {"layer_types": None, "sliding_window_pattern": "LLXG"},
     '"sliding_window_pattern": entry X: must be one of L, G'),
    ("llava-plain", {"vision_config": 5}, '"vision_config": '),
    ("gemma3-plain", {"vision_config": []}, '"vision_config": must be an object'),
    ("llava-plain", {"text_config": {"model_type": "clip"}}, '"text_config": model type clip'),
    ("vit-plain", {"id2label": ["a"]}, '"id2label": value ["a"]: must be an object'),
    ("albert-bare", {"num_hidden_groups": 10**18}, '"num_hidden_groups": value '),
    ("gpt_oss-plain", {"attention_bias": "false"}, "must be true or false"),
    ("jamba-plain", {"num_experts_per_tok": 100}, "value 100: must be a whole number from 1 to 3"),
    ("jamba-plain", {"num_experts_per_tok": 0}, '"num_experts_per_tok": value 0: must be a whole'),
    ("jamba-plain", {"layers_block_type": None, "attn_layer_offset": 8},
     '"attn_layer_offset": value 8: must be below attn_layer_period (8)'),
    ("jamba-plain", {"expert_layer_offset": 2}, "must be below expert_layer_period (2)"),
    ("mamba2-plain", {"n_groups": 0}, '"n_groups": value 0: must be a whole number from 1'),
    ("mamba2-plain", {"num_heads": 0}, '"num_heads": value 0: must be a whole number from 1'),
    ("vit-plain", {"image_size": 0}, '"image_size": value 0: must be a whole number from 1'),
    ("vit-plain", {"num_channels": 0}, '"num_channels": value 0: must be a whole number from 1'),
    ("whisper-plain", {"decoder_layers": 0}, '"decoder_layers": value 0: must be a whole'),
    ("whisper-plain", {"num_mel_bins": 0}, '"num_mel_bins": value 0: must be a whole'),
    ("gpt_neo-plain", {"attention_layers": None, "attention_types": [[["global"], 10**9]]},
     "takes its kinds 1000000000 times: must be 1 to"),
    ("gpt_neo-plain", {"attention_layers": None, "attention_types": [[["global"], -1]]},
     "takes its kinds -1 times"),
    ("gpt_neo-plain", {"attention_layers": None, "attention_types": [[["global"], 1]]},
     "has 1 entries: must have one for each of"),
    ("exaone4-plain", {"layer_types": None, "sliding_window_pattern": [1]},
     '"sliding_window_pattern": must be letters, of L G, or a number of layers'),
)


def check_refused(box):
    for name, changed, message in REFUSED:
        config = config_of(name)
        if isinstance(count(box, config), str):
            yield f"{name}: {count(box, config)}"
        found = count(box, {**config, **changed})
        if not isinstance(found, str) or message not in found:
            yield f"{name} {changed}: {found}, expected {message!r}"


def check_lengths(box):
    """Without a length the family's own holds, as transformers 5.24 has it."""
    for name, seq in (("granite-plain", 2048), ("olmo-plain", 2048), ("bamba-plain", 4096),
                      ("cohere-plain", 4096), ("persimmon-plain", 4096),
                      ("biogpt-plain", 1024)):  # of which 4096 tokens are taken at most
        box.write("config.json", json.dumps(config_of(name, max_position_embeddings=None)))
        answer = box.run("list models config.json --json")
        if answer.status or json.loads(answer.out)["seq"] != seq:
            yield f"{name}: {answer.err or answer.out}, {seq} expected"
        said = box.run("list models config.json").out.decode()
        if "no max_position_embeddings: sequences of at most" not in said:
            yield f"{name}: {said}"


def check_padding(box):
    """RoBERTa's positions begin behind the number of the padding, which may be none."""
    for pad, rows in ((-1, 0), (0, 1), (1, 2), (4, 5)):
        box.write("config.json", json.dumps(config_of("camembert-bare", pad_token_id=pad,
                                                      max_position_embeddings=514)))
        answer = box.run("list models config.json --json")
        if answer.status or json.loads(answer.out)["seq"] != 514 - rows:
            yield f"pad {pad}: {answer.err or answer.out}, {514 - rows} expected"


def check_terminal(box):
    """Nothing in a file moves the cursor, or begins a line of its own."""
    odd = "For\n\u001b[31mX\u009b1m"
    for changed in ({"architectures": ["Llama" + odd]}, {"model_type": odd}, {odd: 1},
                    {"torch_dtype": odd}, {"hidden_act": odd}, {"_name_or_path": odd},
                    {"quantization_config": {"quant_method": odd}}, {"vocab_size": odd}):
        for name in ("llama-plain", "granite-plain"):
            box.write("config.json", json.dumps(config_of(name, **changed), ensure_ascii=False))
            for line in ("list models config.json", "plan -m config.json -H h100",
                         "simulate -m config.json -H h100 --json"):
                answer = box.run(line)
                text = answer.out.decode(errors="replace") + answer.err
                if any(ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 for c in text):
                    yield f"{name} {changed}: {line}: {text!r}"
                if any(found.startswith("\033") for found in text.splitlines()):
                    yield f"{name} {changed}: {line}: {text!r}"


def check_any_key(box):
    """Of any number a word, and one that is below 0, changes no count in silence."""
    for name in of_rows(("jamba-plain", "deepseek_v3-plain", "nemotron_h-plain", "t5-plain",
                         "qwen3_next-plain", "whisper-plain", "falcon-plain", "vit-plain"), 4):
        config = config_of(name)
        right = count(box, config)
        for key, value in config.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            for wrong in ("12", -7):
                found = count(box, {**config, key: wrong})
                if isinstance(found, int) and found != right:
                    yield f"{name}: {key} = {wrong!r}: {found} parameters, {right} before"
                if isinstance(found, str) and f'"{key}"' not in found:
                    yield f"{name}: {key} = {wrong!r}: {found}"


def check_long_lists(box):
    """A list is looked through once, whatever the number of layers."""
    config = config_of("bamba-plain", num_hidden_layers=20000, layer_types=None,
                       attn_layer_indices=list(range(20000)))
    if not isinstance(count(box, config), int):
        yield count(box, config)


def check_same(box):
    """What says the same counts the same."""
    for name, one, other in (
            ("llama-plain", {"hidden_size": 96.0, "vocab_size": 1.009e3}, {"vocab_size": 1009}),
            ("nemotron_h-plain", {"layers_block_type": None, "hybrid_override_pattern": "M-*E"},
             {"layers_block_type": ["mamba", "mlp", "attention", "moe"]})):
        found, expected = (count(box, config_of(name, **it)) for it in (one, other))
        if found != expected or not isinstance(found, int):
            yield f"{name} {one}: {found}, {expected} expected"


def check_windows(box):
    """Which layers have one, however a file says it: FLOPs of attention are the same."""
    def flops(config):
        box.write("config.json", json.dumps(config))
        answer = json.loads(box.run("list models config.json --json").out)
        return sum(row["forward_flops"] for row in answer["operators"])

    neo = {key: value for key, value in config_of("gpt_neo-plain").items()
           if key not in ("attention_layers", "attention_types")}
    layers = neo["num_layers"]
    neo["max_position_embeddings"] = 4096
    for turn in (["global"], ["local"], ["global", "local"]):
        said = {**neo, "attention_layers": (turn * layers)[:layers]}
        if flops({**neo, "attention_types": [[turn, layers // len(turn)]]}) != flops(said):
            yield f"gpt_neo {turn}"
    exaone = config_of("exaone4-plain", num_hidden_layers=8, sliding_window=16, layer_types=None)
    kinds = (["sliding_attention"] * 3 + ["full_attention"]) * 2
    for pattern in ("LLLG", 4, None):
        if flops({**exaone, "sliding_window_pattern": pattern}) != \
                flops({**exaone, "layer_types": kinds}):
            yield f"exaone4 {pattern}"


def tests(box):
    yield "refused", check_refused(box)
    yield "lengths", check_lengths(box)
    yield "padding", check_padding(box)
    yield "terminal", check_terminal(box)
    yield "any key", check_any_key(box)
    yield "long lists", check_long_lists(box)
    yield "same", check_same(box)
    yield "windows", check_windows(box)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
