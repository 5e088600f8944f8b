#!/usr/bin/python3
"""Invariants that the source text itself must hold; prints TAP.

1  sim and exec share with the rest only the plan (which holds the timeline row) and the
   hardware-profile reader; data goes one way: cli -> planner -> plan -> sim | exec -> report.
7  numbers have units in their names; time is int64 nanoseconds, sizes are int64 bytes.
And lines are no longer than an eye follows.
"""
import os
import re
import sys

from tap import report

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FOLDERS = ("planner", "sim", "exec", "report", "cli")
COLUMNS = 100
SHARED = {"planner/plan.h", "planner/plan_dtype.h", "planner/hwprofile.h"}
# What a folder may include beside its own headers and the system's.
ALLOWED = {
    "planner": set(),
    "sim": SHARED,
    "exec": SHARED | {"planner/error.h", "planner/input.h", "planner/json.h",
                      "planner/own_file.h", "planner/typed.h"},
    # A run's file holds its plan.
    "report": SHARED | {"planner/error.h", "planner/input.h", "planner/own_file.h",
                        "planner/plan_reader.h"},
    "cli": None,  # everything
}
SYSTEM = {
    "sim": {"glib.h"},
    "exec": None,  # its backends' libraries
}
PLAN_LIBRARY = re.compile(r"^planner/plan(_\w+)?\.[ch]$|^planner/plan_check\w*\.[ch]$")
PLANNER_BESIDE_PLAN = {"planner/planner.h"}
LIBC = {"assert.h", "errno.h", "float.h", "inttypes.h", "limits.h", "locale.h", "math.h",
        "stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def sources(folder, suffixes=(".c", ".h", ".cu", ".cuh")):
    for path, folders, files in os.walk(os.path.join(ROOT, folder)):
        folders.sort()
        for name in sorted(files):
            if name.endswith(suffixes):
                yield os.path.relpath(os.path.join(path, name), ROOT)


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def includes(path):
    return [(kind, name) for kind, name in INCLUDE.findall(text_of(path))]


def check_layer(folder):
    """Own headers, the allowed ones, config.h; a quoted include always names its folder."""
    for path in sources(folder):
        for kind, name in includes(path):
            other = name.split("/")[0]
            if kind == '"' and "/" not in name and name != "config.h":
                yield f'{path} includes "{name}": name its folder'
            elif other in FOLDERS and other != folder and ALLOWED[folder] is not None and \
                    name not in ALLOWED[folder]:
                yield f"{path} includes {name}: {folder}/ may include {sorted(ALLOWED[folder])}"
            elif kind == "<" and SYSTEM.get(folder) is not None and \
                    name not in LIBC | SYSTEM[folder]:
                yield f"{path} includes <{name}>: {folder}/ needs the C library and GLib alone"


def check_shared():
    """What sim and exec may include must not drag other headers of the planner along."""
    for path in sorted(SHARED):
        for kind, name in includes(path):
            if kind == '"' and name not in SHARED:
                yield f"{path} includes {name}: it would be shared too"


def check_checksums():
    """One file knows the library, which takes a dispatcher to be quick."""
    for path in sources("exec"):
        for _, name in includes(path):
            if name in ("xxhash.h", "xxh_x86dispatch.h") and path != "exec/checksum.c":
                yield f"{path} includes <{name}>: exec/checksum.h has what it takes"


def check_plan_library():
    """plan.h and its library stand alone: no GLib, no other part of the planner."""
    for path in sources("planner"):
        if not PLAN_LIBRARY.match(path):
            continue
        for kind, name in includes(path):
            if kind == "<" and name not in LIBC or kind == '"' and not PLAN_LIBRARY.match(name):
                yield f"{path} includes {name}: the plan library is free of everything else"


# --- units ---------------------------------------------------------------------------------------

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FIELD = re.compile(
    r"\b(u?int64_t|u?int32_t|double|float|int|long|unsigned)\s+"
    r"([*\w\[\]\s,]+?)\s*;")
# A name that holds one of these words is a size, a time or a rate, and must say in which unit.
QUANTITY = re.compile(
    r"(^|_)(size|capacity|reserve|offset|memory|room_for|time|duration|latency|elapsed|deadline|"
    r"start|end|since|bandwidth|throughput|traffic|cache|endurance|price|power|energy|cost|days)"
    r"(_|$)")
UNIT = re.compile(
    r"(_bytes(_max)?|_ns|_s|_flops|_usd|_w|_kwh|_per_hour|_per_s|_percent_max)$|^days$")
NOT_QUANTITIES = {
    "capacity",  # sim/cost.h: units per ns, the unit differs by channel
    "visit_capacity",  # room of an array
    "end", "start", "dpu_start", "size",  # indices, steps, and ranks of a communicator
    "work_cache",
}
# Means over a step, not stored quantities: formulas in real numbers.
REAL_BYTES = {"sim/closed_form.h"}


def fields(path):
    for kind, names in FIELD.findall(COMMENT.sub("", text_of(path))):
        for name in names.split(","):
            yield kind, re.sub(r"[*\s]|\[.*", "", name)


def check_units():
    for folder in FOLDERS:
        for path in sources(folder, (".h",)):
            for kind, name in fields(path):
                if QUANTITY.search(name) and not UNIT.search(name) and name not in NOT_QUANTITIES:
                    yield f"{path}: {kind} {name}: which unit?"


def check_integers():
    """Sizes are int64 bytes, times at which ops run int64 ns; a rate or a mean may be real."""
    for folder in FOLDERS:
        for path in sources(folder, (".h",)):
            for kind, name in fields(path):
                whole = re.search(r"_bytes$|_ns$", name) and not name.endswith("busy_ns")
                if whole and kind not in ("int64_t", "uint64_t") and path not in REAL_BYTES:
                    yield f"{path}: {kind} {name}: must be int64_t"


def check_vendor_units():
    """GB (10^9) and GiB stay at the edge, in profiles and texts: inside, all is bytes."""
    for folder in FOLDERS:
        for path in sources(folder, (".h",)):
            for kind, name in fields(path):
                if re.search(r"_(k|m|g|t)i?b(_|$)|_(ms|us|gbps)(_|$)", name):
                    yield f"{path}: {kind} {name}: bytes, seconds or nanoseconds inside"


def check_columns():
    for folder in (*FOLDERS, "experiments", "scripts", "tests"):
        for path in sources(folder, (".c", ".cpp", ".cu", ".cuh", ".h", ".in", ".py")):
            for number, line in enumerate(text_of(path).split("\n"), 1):
                if len(line) > COLUMNS:
                    yield f"{path}:{number}: {len(line)} columns; {COLUMNS} at most"


def check_sections():
    """The line that begins a section is whole: a formatter breaks one that is too long in two."""
    for folder in (*FOLDERS, "tests"):
        for path in sources(folder, (".c", ".cpp", ".cu", ".cuh", ".h", ".in")):
            for number, line in enumerate(text_of(path).split("\n"), 1):
                if line.lstrip().startswith("/* ---") and not line.endswith("*/"):
                    yield f"{path}:{number}: a section's line must end on it, by column {COLUMNS}"


def main():
    checks = [(f"invariant-1/layers/{folder}", lambda folder=folder: check_layer(folder))
              for folder in FOLDERS]
    checks += [
        ("invariant-1/shared-headers-stand-alone", check_shared),
        ("invariant-1/plan-library-stands-alone", check_plan_library),
        ("invariant-7/units-in-names", check_units),
        ("invariant-7/whole-bytes-and-nanoseconds", check_integers),
        ("invariant-7/no-vendor-units-inside", check_vendor_units),
        ("checksums", check_checksums),
        ("columns", check_columns),
        ("sections", check_sections),
    ]
    return report((name, check()) for name, check in checks)


if __name__ == "__main__":
    sys.exit(main())
