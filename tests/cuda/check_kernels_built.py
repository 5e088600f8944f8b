#!/usr/bin/python3
"""The kernels that nvcc built, by their machine code: no GPU is needed, so a kernel that a change
or a compiler spoils shows where it is built.  Prints TAP; --table prints what was found.

    check_kernels_built.py [--table | --update] TOOLKIT OBJECT...

TOOLKIT is nvcc's version, OBJECT what it built of one file.  Of each kernel and architecture:
registers, bytes of stack, accesses to local memory (spills, and arrays that have no registers),
global loads and stores of 128 bits and all of them, and instructions of tensor cores.

rules    What a kernel's speed rests on (RULES), for whatever architectures are built.
last     The last result (data/kernels_built.csv), for those architectures that it has: of the same
         toolkit nothing may differ, of another one the differences are shown.  --update writes it.

cuobjdump and nvdisasm are looked for in $CUOBJDUMP's folder, beside nvcc and in the path.  Where
they are not, or nothing was built, what the tests say is of the last result alone.
"""
import collections
import concurrent.futures
import csv
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tap import report  # noqa: E402

LAST = pathlib.Path(__file__).resolve().parent / "data" / "kernels_built.csv"
KEY = ("object", "kernel", "sm")
FIGURES = ("registers", "stack_bytes", "local", "loads", "loads_128", "stores", "stores_128",
           "tensor")
PLACES = [os.path.dirname(os.environ.get("CUOBJDUMP", "")), os.environ.get("NVCC_FOLDER"),
          os.environ.get("PATH", os.defpath), "/usr/local/cuda/bin"]

# Instructions that are counted.  A cp.async (LDGSTS) is a load; some architectures have accesses of
# 256 bits.
WIDE = r"\S*\.(?:128|256)\b"
LOAD, STORE = r"(?:LDG(?:STS)?|LD)\b", r"(?:STG|ST)\b"
COUNTED = {"local": r"(?:LDL|STL)\b", "loads": LOAD, "loads_128": LOAD + WIDE, "stores": STORE,
           "stores_128": STORE + WIDE, "tensor": r"[A-Z]*MMA\b"}
COUNTED = {name: re.compile(pattern) for name, pattern in COUNTED.items()}
CODE = re.compile(r"code for sm_(\w+)")
FUNCTION = re.compile(r"Function\s*:?\s+([\w$]+)")
USED = re.compile(r"REG:(\d+) STACK:(\d+)")
# Of a line of code: what it does, after its address and its predicate.
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\S*)")


class Absent(Exception):
    """A program that this needs."""


# --- what was built ------------------------------------------------------------------------------

def find(name):
    path = shutil.which(name, path=os.pathsep.join(filter(None, PLACES)))
    if not path:
        raise Absent(f"{name} is not here ($CUOBJDUMP, nvcc's folder, the path)")
    return path


def dumped(what, path):
    """Lines of cuobjdump, which finds nvdisasm in the path."""
    dump = find("cuobjdump")
    path_too = os.pathsep.join([os.path.dirname(find("nvdisasm")), os.environ.get("PATH", "")])
    return subprocess.run([dump, what, path], capture_output=True, text=True, check=True,
                          env={**os.environ, "PATH": path_too}).stdout.splitlines()


def resources(path):
    """{(mangled name, architecture): (registers, bytes of stack)}"""
    found, sm, name = {}, None, None
    for line in dumped("--dump-resource-usage", path):
        sm = line.split("sm_")[1].strip() if line.startswith("arch = ") else sm
        name = FUNCTION.search(line)[1] if FUNCTION.search(line) else name
        used = USED.search(line)
        if used:
            found[name, sm] = tuple(map(int, used.groups()))
    return found


def instructions(path):
    """{(mangled name, architecture): Counter of COUNTED}"""
    found, sm, counts = {}, None, None
    for line in dumped("--dump-sass", path):
        does = INSTRUCTION.match(line)
        if does and counts is not None:
            counts.update(name for name, pattern in COUNTED.items() if pattern.match(does[1]))
        elif CODE.search(line):
            sm = CODE.search(line)[1]
        elif FUNCTION.search(line):
            counts = found.setdefault((FUNCTION.search(line)[1], sm), collections.Counter())
    return found


def short(name):
    """Of a demangled name: the kernel and what its template was given."""
    name = name.replace("(anonymous namespace)::", "").replace("unsigned short", "half")
    name = re.sub(r"^void ", "", re.sub(r"\((?:int|bool)\)", "", name))
    depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and not depth:
            return name[:at]
    return name


def names_of(mangled):
    done = subprocess.run([find("c++filt")], input="\n".join(mangled), capture_output=True,
                          text=True, check=True)
    return dict(zip(mangled, map(short, done.stdout.split("\n"))))


def kernels_of(path):
    """Of one file, as built()."""
    used, counted = resources(path), instructions(path)
    names, rows = names_of(sorted({name for name, _ in used})), {}
    for (name, sm), (registers, stack) in used.items():
        row = {"registers": registers, "stack_bytes": stack}
        row.update((figure, counted[name, sm][figure]) for figure in COUNTED)
        rows[pathlib.Path(path).name.split(".")[0], names[name], sm] = row
    return rows


def built(objects):
    """{(object, kernel, architecture): {figure: number}}"""
    rows = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for some in pool.map(kernels_of, objects):
            rows.update(some)
    return rows


# --- what it should be ----------------------------------------------------------------------------

# A pattern for each kernel, and at least so many of what its speed rests on: 128-bit loads and
# stores for each operand whose groups are of 16 bytes, tensor cores for products.  The other
# kernels take single elements, or pairs, next to their neighbours' by design.
NARROW = {}
RULES = {
    r"unary<.*": {"loads_128": 1, "stores_128": 1},
    r"binary<.*|add": {"loads_128": 2, "stores_128": 1},
    r"swiglu_backward": {"loads_128": 3, "stores_128": 2},
    r"convert<half, float>": {"loads_128": 1},
    r"convert<float, half>": {"stores_128": 1},
    r"accumulate|copy_rows|look_up|scale": {"loads_128": 1, "stores_128": 1},
    r"fill": {"stores_128": 1},
    r"add_position|norm_forward<.*": {"loads_128": 2, "stores_128": 1},
    r"norm_backward<.*": {"loads_128": 3, "stores_128": 1},
    r"update": {"loads_128": 4, "stores_128": 3},
    r"update_bf16": {"loads_128": 2, "stores_128": 1},  # moments and parameters: groups of 8 bytes
    r"update_dynamic8": {"loads_128": 5, "stores_128": 3},
    r"widen_(mxfp8|nf4(_double)?)": {"stores_128": 1},
    r"row_losses": {"loads_128": 1, "stores_128": 1},
    r"rotate<8>": {"loads_128": 2, "stores_128": 2},
    r"add_up|sum_position<true>": {"loads_128": 1, "stores_128": 1},  # of gradients in fp32
    r"prepare_rows<true>": {"loads_128": 2},
    r"(attend|differentiate_\w+)<.*true>": {"loads_128": 1, "stores_128": 1, "tensor": 1},
    r"(attend|differentiate_\w+)<.*false>": {"tensor": 1},
    r"prepare_rows<false>|rotate<1>|sum_position<false>": NARROW,  # columns of any number
    r"sum_spans<.*|combine_spans|square_sums<.*": NARROW,  # sums whose order is set
    r"add_losses|make_keys|merge_\w+": NARROW,
    r"narrow_dynamic8": {"loads_128": 2},
    r"widen_dynamic8": NARROW,
    r"narrow_mxfp8": NARROW,  # a warp takes a block, each thread an element
}
# Accesses to local memory at most, on whichever architecture.  Each is one store before a loop, and
# one load in it of what stays the same.
SPILLS = {
    "attend<128, 2, 32, true>": 2,  # in 254 registers: once a tile of 32 keys, beside 128 products
    "differentiate_queries<64, 2, 32, false>": 2,  # once a tile of 32 keys, beside 96 products
    "norm_forward<false>": 2,  # once a group of 8 columns, beside three loads
    "norm_forward<true>": 4,  # two addresses
}


def rule_of(kernel):
    return next((RULES[pattern] for pattern in RULES if re.fullmatch(pattern, kernel)), None)


def wrong_with(key, row):
    """Lines: what a kernel lacks."""
    name, wanted = "{}, {}, sm_{}".format(*key), rule_of(key[1])
    if wanted is None:
        yield f"{name}: no rule says what its speed rests on: RULES in check_kernels_built.py"
    for figure, least in (wanted or {}).items():
        if row[figure] < least:
            yield f"{name}: {figure} {row[figure]}, {least} or more are expected"
    if row["local"] > SPILLS.get(key[1], 0):
        yield (f"{name}: {row['local']} accesses to local memory (stack {row['stack_bytes']} "
               f"bytes), {SPILLS.get(key[1], 0)} at most")


def check_rules(rows):
    for key, row in sorted(rows.items()):
        yield from wrong_with(key, row)
    for pattern in RULES:
        if not any(re.fullmatch(pattern, kernel) for _, kernel, _ in rows):
            yield f"no kernel is {pattern}"


def check_spoilt(rows):
    """Each row that lacks what its rule asks for is found out."""
    for key, row in sorted(rows.items()):
        worse = {figure: least - 1 for figure, least in rule_of(key[1]).items()}
        for figure, number in {**worse, "local": SPILLS.get(key[1], 0) + 1}.items():
            if not list(wrong_with(key, {**row, figure: number})):
                yield f"{key}: {figure} of {number} is not seen"


# --- the last result -----------------------------------------------------------------------------

BUILT = re.compile(r"# sm_(\w+): nvcc (\S+), (\S+)")


def read_last():
    """({architecture: (toolkit, date)}, rows)"""
    if not LAST.exists():
        return {}, {}
    lines = LAST.read_text(encoding="utf-8").splitlines()
    kinds = {m[1]: (m[2], m[3]) for m in map(BUILT.match, lines) if m}
    rows = {}
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        rows[tuple(row[name] for name in KEY)] = {name: int(row[name]) for name in FIGURES}
    return kinds, rows


def architectures(rows):
    return sorted({sm for _, _, sm in rows}, key=lambda sm: (len(sm), sm))


def write_last(rows, toolkit):
    """Of what is built; of other architectures what was there."""
    kinds, kept = read_last()
    new = architectures(rows)
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    kinds.update((sm, (toolkit, today)) for sm in new)
    rows = {**{key: row for key, row in kept.items() if key[2] not in new}, **rows}
    with open(LAST, "w", encoding="utf-8", newline="") as file:
        file.write("# Machine code of the kernels, by check_kernels_built.py --update.\n")
        for sm in architectures(rows):
            file.write("# sm_{}: nvcc {}, {}\n".format(sm, *kinds[sm]))
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(KEY + FIGURES)
        for key in sorted(rows, key=lambda key: (*key[:2], len(key[2]), key[2])):
            writer.writerow([*key, *(rows[key][name] for name in FIGURES)])


def differences(rows, last, sm):
    for key in sorted(key for key in {*rows, *last} if key[2] == sm):
        name = "{}, {}, sm_{}".format(*key)
        if key not in rows or key not in last:
            yield f"{name}: {'is not built any more' if key in last else 'is new'}"
            continue
        changed = [f"{figure} {last[key][figure]} -> {rows[key][figure]}" for figure in FIGURES
                   if rows[key][figure] != last[key][figure]]
        if changed:
            yield f"{name}: {', '.join(changed)}"


def check_last(rows, toolkit):
    kinds, last = read_last()
    for sm in architectures(rows):
        if sm not in kinds:
            print(f"# sm_{sm} is not in the last result: rules alone")
            continue
        lines = list(differences(rows, last, sm))
        if kinds[sm][0] == toolkit:
            yield from lines
            if lines:
                yield (f"if that is as it should be: check_kernels_built.py --update {toolkit} "
                       "OBJECT... writes it down")
            continue
        print(f"# sm_{sm}: built by nvcc {toolkit}, the last result is of {kinds[sm][0]}; "
              f"{len(lines)} kernels differ")
        for line in lines:
            print(f"# {line}")


# --- the program ---------------------------------------------------------------------------------

def show(rows):
    lines = [KEY + FIGURES] + [key + tuple(row.values()) for key, row in sorted(rows.items())]
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(line, widths)).rstrip())


def tests(rows, why, toolkit):
    """Without machine code, what can be said of the last result."""
    _, last = read_last()
    yield "the last result obeys the rules", check_rules(last)
    yield "what spoils a kernel is seen", check_spoilt(rows or last)
    yield f"rules{why}", check_rules(rows) if rows else ()
    yield f"last result{why}", check_last(rows, toolkit)


def main():
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    toolkit, *objects = [word for word in sys.argv[1:] if word not in options] or [""]
    rows, why = {}, "" if objects else " # SKIP nothing was built with CUDA"
    try:
        rows = built(objects)
    except Absent as absent:
        why = f" # SKIP {absent}"
    if options and not rows:
        print(f"check_kernels_built: no kernels:{why.replace(' # SKIP', '')}", file=sys.stderr)
        return 1
    if "--update" in options:
        write_last(rows, toolkit)
    if options:
        show(rows)
        return 0
    return report(tests(rows, why, toolkit))


if __name__ == "__main__":
    sys.exit(main())
