#!/usr/bin/python3
"""Invariants that the source text itself must hold; prints TAP.

1  data goes one way: a folder includes only those below it (BELOW), so sim and exec share with the
   rest only the plan, which holds the timeline row, and what lies under it, and never each other.
7  numbers have units in their names; time is int64 nanoseconds, sizes are int64 bytes.
Strings below cli/ spell no option, docs/tour.md draws the arrows that there are, and lines are no
longer than an eye follows.
"""
import os
import re
import sys

from tap import report

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
COLUMNS = 100
# From the ground up: what a folder may include beside itself and the system's headers.  A folder
# that is named with a room of its own (planner/sizing) is a layer of its own.
BELOW = {
    "base": set(),
    "families": set(),
    "plan": {"families"},
    "profile": {"base"},
    "hardware": {"base", "profile"},
    "software": {"base", "profile", "hardware"},
    "model": {"base", "families", "plan"},
    "planner/settings": {"base", "plan", "hardware", "model"},
    "planner/sizing": {"base", "plan", "hardware", "model", "planner/settings"},
    "planner/build": {"base", "plan", "hardware", "model", "planner/settings", "planner/sizing"},
    "planner/deepspeed": {"base", "plan", "hardware", "model", "planner/settings",
                          "planner/sizing"},
    "planner": {"base", "plan", "hardware", "model", "planner/settings", "planner/sizing",
                "planner/build"},
    "planner/remedy": {"base", "plan", "hardware", "model", "planner/settings", "planner/sizing",
                       "planner"},
    "sim": {"plan", "hardware"},
    "study": {"base", "plan", "hardware", "model", "planner/settings", "planner/sizing",
              "planner/build", "planner/deepspeed", "planner", "planner/remedy", "sim", "software"},
    "exec/host": {"base"},
    "exec/memory": {"base", "exec/host"},
    "exec/nvme": {"base", "exec/host", "exec/memory"},
    "exec/commit": {"base", "exec/host", "exec/nvme"},
    "exec/data": {"base", "families", "plan", "exec/host"},
    "exec/operators": {"base", "plan", "exec/data"},
    "exec/ranks": {"base", "plan", "exec/host", "exec/data"},
    "exec/lanes": {"base", "plan", "exec/host"},
    "exec/course": {"base", "plan", "exec/nvme"},
    "exec/device": {"base", "plan", "exec/host", "exec/memory", "exec/data", "exec/operators",
                    "exec/ranks"},
    "exec/trainer": {"base", "plan", "exec/host", "exec/memory", "exec/nvme", "exec/commit",
                     "exec/data", "exec/operators", "exec/ranks", "exec/lanes", "exec/course",
                     "exec/device"},
    "calibrate": {"base", "plan", "hardware", "exec/host", "exec/memory", "exec/nvme",
                  "exec/ranks", "exec/data", "exec/device"},
    "report": {"base", "plan", "hardware", "study"},
    "logs": {"base", "plan", "study", "report"},
    "launch": {"base", "plan", "planner/settings", "planner/sizing", "planner/deepspeed"},
    "lib": {"base", "plan", "hardware", "model", "planner/settings", "planner/deepspeed", "planner",
            "study", "report", "launch"},
    "cli": None,  # all
}
FOLDERS = sorted({room.split("/")[0] for room in BELOW})
LIBC = {"assert.h", "errno.h", "float.h", "inttypes.h", "limits.h", "locale.h", "math.h",
        "stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"}
# What of the system a folder needs; those not named here have libraries of their own.
SYSTEM = {"families": LIBC, "plan": LIBC, "sim": LIBC | {"glib.h"}}

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


def room_of(path):
    """The layer that a file belongs to: its folder, or the folder's own room."""
    inner = "/".join(path.split("/")[:2])
    return inner if inner in BELOW else path.split("/")[0]


def check_layer(room):
    """Own headers, those below, config.h; a quoted include always names its folder."""
    for path in sources(room.split("/")[0]):
        if room_of(path) != room:
            continue
        for kind, name in includes(path):
            other = room_of(name)
            if kind == '"' and "/" not in name and name != "config.h":
                yield f'{path} includes "{name}": name its folder'
            elif kind == '"' and other in BELOW and other != room and BELOW[room] is not None and \
                    other not in BELOW[room]:
                yield f"{path} includes {name}: {room}/ may include {sorted(BELOW[room])}"
            elif kind == "<" and name not in SYSTEM.get(room, {name}):
                yield f"{path} includes <{name}>: {room}/ needs less of the system"


def check_no_circle():
    """What is below a layer is named above it in the table: so no way leads back."""
    seen = set()
    for room, below in BELOW.items():
        for other in sorted((below or set()) - seen):
            yield f"{room}/ is above {other}/, which the table names later"
        seen.add(room)


def drawn():
    """The arrows of docs/tour.md: from folder to folders."""
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ((?:`\w+`(?:, )?)*) ?\|$",
                      text_of("docs/tour.md").split("## The layers")[1].split("\n## ")[0],
                      re.MULTILINE)
    return {folder: set(re.findall(r"`(\w+)`", others))
            for folders, others in rows for folder in re.findall(r"`(\w+)`", folders)}


def check_drawing():
    """A newcomer draws the architecture from docs/tour.md: it has the arrows of the code."""
    tour = drawn()
    for folder in FOLDERS:
        found = {name.split("/")[0] for path in sources(folder)
                 for kind, name in includes(path) if kind == '"'}
        found = found & set(FOLDERS) - {folder, "base"}
        if folder not in tour:
            yield f"docs/tour.md does not draw {folder}/"
        elif found != tour[folder]:
            yield f"{folder}/ includes {sorted(found)}; docs/tour.md says {sorted(tour[folder])}"


def check_checksums():
    """One file knows the library, which takes a dispatcher to be quick."""
    for path in sources("exec"):
        for _, name in includes(path):
            if name in ("xxhash.h", "xxh_x86dispatch.h") and path != "exec/host/checksum.c":
                yield f"{path} includes <{name}>: exec/host/checksum.h has what it takes"


STRATEGY = re.compile(r"\bMW_STRATEGY_(?!AUTO\b|COUNT\b)\w+")


def check_strategies():
    """What is particular to a strategy stands in its row: other code asks for a trait."""
    for folder in FOLDERS:
        for path in sources(folder):
            if path in ("planner/settings/strategies.c", "planner/settings/strategies.h"):
                continue
            for name in STRATEGY.findall(text_of(path)):
                yield f"{path} names {name}: planner/settings/strategies.h has its traits"


# A word that the command puts before a setting: an option of another program may stand there.
OPTION = re.compile(r"""(?:^|[^\w-])(--[a-z][\w-]*|-[smH]\b)""")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
OTHERS_OPTIONS = {"--bind-to", "--map-by"}  # of mpirun


def check_software():
    """Planner and simulator take a machine as software uses it, and name none (MODEL.md 12)."""
    names = {name[:-len(".ini")] for name in os.listdir(os.path.join(ROOT, "software"))
             if name.endswith(".ini")} - {"memwall"}  # the program's name too
    for folder in ("plan", "profile", "hardware", "model", "planner", "sim"):
        for path in sources(folder):
            for name in sorted(names.intersection(re.findall(r'"([^"\n]+)"', text_of(path)))):
                yield f"{path} names {name}: study/ chooses the software"


def check_options():
    """Only cli/ knows how a setting is spelled: others name it in braces (base/spell.h).  launch/
    writes the options of other programs."""
    for folder in FOLDERS:
        if folder in ("cli", "launch"):
            continue
        for path in sources(folder):
            text = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text_of(path))
            for number, line in enumerate(text.split("\n"), 1):
                if line.lstrip().startswith("#include"):
                    continue
                for string in STRING.findall(line):
                    for option in OPTION.findall(string.replace("\\n", "\n")[1:-1]):
                        if option not in OTHERS_OPTIONS:
                            yield f"{path}:{number}: {option}: name the setting in braces"


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
    "capacity_factor",  # of experts: a multiple of an even share
    "end", "start", "dpu_start", "size",  # indices, steps, and ranks of a communicator
    "work_cache",
}
# Means over a step, not stored quantities: formulas in real numbers.
REAL_BYTES = {"sim/closed_form.h", "study/bound.h"}


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


def check_names():
    """What an editor or a shell wrote by mistake has a name that no file of the project has."""
    for name in sorted(os.listdir(ROOT)):
        if not re.fullmatch(r"[\w.+-]+", name):
            yield f"{name!r}: not a name of a file of the project"


def check_sections():
    """The line that begins a section is whole: a formatter breaks one that is too long in two."""
    for folder in (*FOLDERS, "tests"):
        for path in sources(folder, (".c", ".cpp", ".cu", ".cuh", ".h", ".in")):
            for number, line in enumerate(text_of(path).split("\n"), 1):
                if line.lstrip().startswith("/* ---") and not line.endswith("*/"):
                    yield f"{path}:{number}: a section's line must end on it, by column {COLUMNS}"


def main():
    checks = [(f"invariant-1/layers/{room}", lambda room=room: check_layer(room))
              for room in BELOW]
    checks += [
        ("invariant-1/no-circle", check_no_circle),
        ("invariant-7/units-in-names", check_units),
        ("invariant-7/whole-bytes-and-nanoseconds", check_integers),
        ("invariant-7/no-vendor-units-inside", check_vendor_units),
        ("drawing", check_drawing),
        ("checksums", check_checksums),
        ("strategies", check_strategies),
        ("software", check_software),
        ("options", check_options),
        ("columns", check_columns),
        ("sections", check_sections),
        ("names", check_names),
    ]
    return report((name, check()) for name, check in checks)


if __name__ == "__main__":
    sys.exit(main())
