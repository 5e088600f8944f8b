#!/usr/bin/python3
"""What --json prints has the schema that it names, in docs/schema.json; prints TAP.

named        the kinds of answers that the source writes are those of the file.
itself       the file is a JSON Schema (draft 2020-12).
answers      every kind of answer is valid, and has no key that the file does not name.
             Those of plan, simulate, run and compare have all of KEYS.
refused      an answer without one of its keys, with a key more, with another version is not valid.
What needs python3-jsonschema is skipped without it.

The command is $MEMWALL, or build/cli/memwall.
"""
import copy
import json
import re
import sys

from command import FLAT, ROOT, Box
from tap import Skip, report_in

try:
    import jsonschema
except ImportError:
    jsonschema = None

FILE = ROOT / "docs/schema.json"
SCHEMA = json.loads(FILE.read_text(encoding="utf-8"))
# Of every answer, whoever reads it.
KEYS = {"feasible", "limiting_tier", "short_bytes", "step_time_s", "first_step_time_s",
        "tflops_per_gpu", "efficiency", "mfu", "tokens_per_s", "bottleneck", "peak_bytes", "lanes",
        "closed_form", "nvme_written_bytes", "drive_life_steps", "provenance", "days", "cost_usd",
        "energy_kwh"}
RUN = ("run -m tiny -H flat-test --data text.txt --seq 32 --batch 1 --steps 3 --device-threads 1 "
       "--host-threads 1 --nvme drive ")
DURABLE = "-s zero-infinity-nvme --optimizer-device nvme --commit step "
# A kind, and commands that print one: in this order, for some read what others have written.
ASKED = (
    ("answer", f"plan {FLAT} -s zero-infinity-nvme --batch 8 --param-device cpu:1GB,nvme -o p"),
    ("answer", "simulate p -H flat-test"),
    ("answer", "simulate p -H flat-test --set gpu.memory_gib=0.1"),
    ("answer", f"simulate {FLAT} -s zero3,zero-offload --tokens 1e9"),
    ("answer", f"simulate {FLAT} -s zero-offload --batch 2 --dpu-start 10 --tokens 1e9"),
    ("answer", f"simulate {FLAT} -s zero-infinity-nvme --optimizer-device nvme --batch 2 "
               "--what-if --tokens 1e15 --set gpu.memory_gib=32 --set nvme.endurance_tbw=1"),
    ("answer", "simulate -m llama-3.1-8b -H rtx4090 --tokens 10B --what-if"),
    ("answer", "simulate -m llama-3.1-8b -H rtx4090 --software ratel"),
    ("answer", "simulate -m llama-3.1-8b -H dgx-h100 --tokens 10B --outlook low"),
    ("answer", "simulate -m llama-2-7b -H aws-p5-48xlarge -s zero1 --pp 4 --batch 1 "
               "--grad-accum 4"),
    ("answer", "simulate -m llama-3.1-8b -H dgx-h100 -s zero2 --cp 2 --batch 0.5"),
    ("answer", "simulate -m mixtral-8x7b -H dgx-h100 --nodes 4 -s zero1 --ep 8 --batch 1 "
               "--expert-imbalance 1.5"),
    ("answer", "simulate -m mixtral-8x7b -H dgx-h100 --nodes 4 -s zero1 --ep 8 --tp 2 --etp 1 "
               "--batch 0.5"),
    ("answer", "simulate -m gpt3-175b -H flat-test -s zero3 --batch 16"),
    ("answer", "plan -m llama-3.1-8b -H rtx4090 --train qkv,projection --weight-bits 4"),
    ("answer", "simulate -m llama-3.1-8b -H rtx4090 --train qkv --weight-bits 8 --tokens 1B "
               "--drop-layers 1,3/5-7/-@100 -s zero2,zero-offload,zero-infinity-nvme"),
    ("answer", "simulate -m opt-1.3b -H h100 --kept-bits 8 --relu-mask on --relu-sparsity 0.9 "
               "--recompute-layers 3 --checkpoint-bits 8 --matmul-dtype fp8"),
    ("answer", "simulate -m llama-3.1-8b -H rtx4090 --train embedding --drop-layers 2/- --what-if "
               "--prefetch 2:1:1"),
    ("largest", "plan -m llama-3.1-8b -H rtx4090 --train qkv --weight-bits 4 --largest"),
    ("answer", RUN + "--set gpu.memory_gib=0.001 -s ddp"),
    ("run", RUN + "-s zero3 --save-timeline t"),
    ("run", RUN + DURABLE),
    ("run", RUN + "-s zero3 --backend null"),
    ("run", "compare t -H flat-test"),
    ("answer", "compare t -H flat-test --set gpu.memory_gib=0.001"),
    ("cuts", f"plan {FLAT} --strategies"),
    ("serving", f"simulate {FLAT} --serve 32"),
    ("objective", f"simulate {FLAT} --objective dpo"),
    ("objective", f"simulate {FLAT} --objective ppo --set gpu.memory_gib=1"),
    ("advice", "advise -m gpt2 --tokens 1B --machines a100,rtx4090 --max-nodes 2"),
    ("advice", "advise -m gpt2 --tokens 1B --machines a100,dgx2 --deadline 1 --budget 1"),
    ("advice", "advise -m gpt2 --tokens 1B --machines nebius-h100 --pay spot --over prefetch=1,2"),
    ("parallel", "advise -m gpt2 -H dgx-a100 --gpus 2 --search parallel --over tp=1,2 "
                 "--tokens 1B --global-batch 8"),
    ("parallel", "advise -m llama-3.1-405b -H rtx4090 --search parallel --global-batch 1"),
    ("purchases", "advise -m gpt2 --tokens 1B -H rtx4090"),
    ("purchases", f"advise {FLAT} --tokens 1B --set gpu.memory_gib=0.001"),
    ("largest", f"plan {FLAT} --largest"),
    ("sweep", "sweep -m gpt2-xl -H flat-test --over batch=1,4096 --over seq=512,1024 --tokens 1B"),
    ("sweep", "sweep -m gpt2-xl -H flat-test --over tp=1,7 --closed-form"),
    ("sweep", "sweep -m tiny -H flat-test -s zero3 --seq 32 --over batch=1,2 "
              "--measure '--data text.txt --steps 3 --device-threads 1'"),
    ("largest", "plan -m gpt3-175b -H flat-test -s ddp --largest"),
    ("baseline", f"check --write-baseline /dev/stdout {FLAT} -s zero3 --over batch=1,4096"),
    ("baseline", "check --write-baseline /dev/stdout t"),
    ("check", "check --baseline rows.csv changed.csv --json"),
    ("check", "check --baseline t t --warm-up 0 --min-steps 1 --json"),
    ("check", "check log --min-of-predicted 1% --min-steps 1 --json"),
    ("verify", "verify drive"),
    ("runs", "list runs"),
    ("models", "list models"),
    ("model", "list models deepseek-v3"),
    ("hwprofiles", "list hwprofiles"),
    ("software", "list software"),
    ("strategies", "list strategies"),
    ("types", "list types"),
    ("optimizers", "list optimizers"),
    ("schedules", "list schedules"),
    ("gates", "list gates"),
    ("data_parallel", "list data-parallel"),
    ("encodings", "list encodings"),
    ("devices", "list devices"),
    ("calibration", "calibrate --quick --nvme drive"),
)
ENDS = {0, 3, 4}


def names(schema):
    """What stands as "schema" in answers, by kind."""
    return {kind: each["properties"]["schema"]["const"] for kind, each in schema["$defs"].items()
            if "schema" in each.get("properties", {})}


def check_named():
    written = set()
    for path in (ROOT / "base/schemas.h", *(ROOT / "cli").rglob("*.c"),
                 *(ROOT / "report").rglob("*.c")):
        written |= set(re.findall(r'"(memwall-[a-z-]+/\d+)"', path.read_text(encoding="utf-8")))
    written.remove("memwall-trace/1")  # of a form that Chrome has given
    told = set(names(SCHEMA).values())
    if written != told:
        yield f"the source writes {sorted(written)}, docs/schema.json has {sorted(told)}"
    listed = {row["$ref"].rpartition("/")[2] for row in SCHEMA["oneOf"]}
    if listed != set(names(SCHEMA)):
        yield f"oneOf has {sorted(listed)}"
    if not {kind for kind, _ in ASKED} == listed:
        yield f"asked are {sorted({kind for kind, _ in ASKED})}"


def strict(schema):
    """The same, in which an object has no keys but those that are named.  Parts of an object that
    allOf puts together are open: the whole is not."""
    closed = copy.deepcopy(schema)
    parts = {row["$ref"] for each in walk(closed) for row in each.get("allOf", ())}
    inner = [closed["$defs"][ref.rpartition("/")[2]] for ref in parts]
    for each in walk(closed):
        if ("properties" in each and not any(each is part for part in inner)) or "allOf" in each:
            each["unevaluatedProperties"] = False
    # Alone, such a part is a whole.
    for ref in parts:
        name = ref.rpartition("/")[2]
        closed["$defs"][name + " alone"] = {"$ref": ref, "unevaluatedProperties": False}
    for each in walk(closed):
        if each.get("items", {}).get("$ref") in parts:
            each["items"] = {"$ref": each["items"]["$ref"] + " alone"}
    return closed


def walk(schema):
    """All schemas in it."""
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from walk(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from walk(value)


def check_itself():
    if jsonschema is None:
        yield Skip("no python3-jsonschema")
        return
    try:
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
    except jsonschema.SchemaError as error:
        yield str(error)
    for each in walk(SCHEMA["$defs"]):
        missing = set(each.get("required", ())) - set(each.get("properties", ()))
        if missing:
            yield f"required and not described: {sorted(missing)}"


def problems(schema, kind, answer):
    """Where it is not one of the kind."""
    validator = jsonschema.Draft202012Validator({**schema, "oneOf": [{"$ref": f"#/$defs/{kind}"}]})
    for error in validator.iter_errors(answer):
        deepest = error
        while deepest.context:
            deepest = max(deepest.context, key=lambda inner: len(inner.absolute_path))
        yield f"{'/'.join(map(str, deepest.absolute_path))}: {deepest.message[:300]}"


def check_answer(box, kind, line, answers):
    done = box.run(line if "--write-baseline" in line else line + " --json")
    if done.status not in ENDS:
        yield f"status {done.status}: {done.err}"
        return
    answer = json.loads(done.out)
    answers.setdefault(kind, answer)
    if answer.get("schema") != names(SCHEMA)[kind] or next(iter(answer)) != "schema":
        yield f"begins with {next(iter(answer))}, schema {answer.get('schema')}"
    for each in answer.get("answers", ()):
        if KEYS - set(each):
            yield f"lacks {sorted(KEYS - set(each))}"
    if jsonschema is None:
        yield Skip("no python3-jsonschema")
        return
    yield from problems(strict(SCHEMA), kind, answer)
    if list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(answer)):
        yield "is not one of the answers"


def mutated(answer):
    """Answers that are none, each in one thing."""
    yield "another version", {**answer, "schema": "memwall-answer/0"}
    yield "a key more", {**answer, "more": 1}
    for key in answer:
        yield f"without {key}", {name: value for name, value in answer.items() if name != key}
    for key in answer.get("answers", [{}])[0]:
        without = copy.deepcopy(answer)
        del without["answers"][0][key]
        if key not in ("hardware_set", "hardware_date", "software_date", "software_memory",
                       "start"):
            yield f"an answer without {key}", without
        if isinstance(answer["answers"][0][key], dict) and key != "question":  # of any names
            more = copy.deepcopy(answer)
            more["answers"][0][key]["more"] = "more"
            yield f"a key more in {key}", more
        other = copy.deepcopy(answer)
        other["answers"][0][key] = ["another", "type", 1]
        yield f"another {key}", other


def check_refused(kind, answer):
    if jsonschema is None:
        yield Skip("no python3-jsonschema")
        return
    schema = strict(SCHEMA)
    optional = set(SCHEMA["$defs"][kind]["properties"]) - set(SCHEMA["$defs"][kind]["required"])
    for what, other in mutated(answer):
        dropped = what.removeprefix("without ")
        if dropped in optional or "." in dropped:  # of keys of a profile there may be any
            continue
        if not list(problems(schema, kind, other)):
            yield f"{what} is valid"


def check_verify(box, key, found):
    done = box.run("verify drive --json")
    answer = json.loads(done.out)
    if done.status != 1 or answer["whole"] or not found(answer):
        yield f"{key}: status {done.status}: {answer}"
    if jsonschema is not None:
        yield from problems(strict(SCHEMA), "verify", answer)


def check_damaged(box):
    """verify names what is damaged, and files that are missing."""
    data = box.folder / "drive/memwall-1of1.data"
    content = bytearray(data.read_bytes())
    data.write_bytes(bytes(byte ^ 1 for byte in content))
    yield from check_verify(box, "damage", lambda answer: answer["steps"][0]["damage"])
    data.unlink()
    yield from check_verify(box, "missing", lambda answer: answer["missing"])


def tests(box):
    yield "named", check_named()
    yield "itself", check_itself()
    box.write("text.txt", "the quick brown fox jumps over the lazy dog. " * 60)
    box.write("log", '{"step": 1, "step_time_s": 1.0, "of_predicted_speed": 0.5}\n')
    box.write("rows.csv", "model,hardware,strategy,feasible,gpu_peak_bytes,step_time_s,\n"
                          "gpt2,flat-test,zero3,true,1,1,\ngpt2,flat-test,ddp,true,0,1,\n")
    box.write("changed.csv", "model,hardware,strategy,feasible,gpu_peak_bytes,step_time_s,\n"
                             "gpt2,flat-test,zero3,true,2,1,\n")
    (box.folder / "drive").mkdir()
    answers = {}
    for kind, line in ASKED:
        yield f"{kind}: {line}", check_answer(box, kind, line, answers)
    yield "verify: damaged, missing", check_damaged(box)
    for kind, answer in answers.items():
        yield f"refused: {kind}", check_refused(kind, answer)


if __name__ == "__main__":
    sys.exit(report_in(Box, tests))
