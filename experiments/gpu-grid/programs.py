"""What scripts/gpu runs of memwall: programs that were built here, or that came in a pack
(pack.py), and the libraries of CUDA that they load by name."""
import json
import os
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import common  # noqa: E402
from machine import (FAILED, MET, PATH, Row, Skipped, TimeUp, last_line,  # noqa: E402
                     list_gpus, pythons)

RECORD = "packed.json"  # of a pack, beside its programs
REHEARSED_TESTS = ("kernels-smoke", "step-products-smoke")
BENCH, BENCH_FAKE = "tests/cuda/bench_gpu", "tests/cuda/bench_gpu_fake"


def record_of(build):
    """What the pack says of its programs; None where they are not packed."""
    path = build / RECORD
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


# --- tests ---------------------------------------------------------------------------------------

def placed(text, build):
    """Of tests' commands: where they are now."""
    return text.replace("@build@", str(build.resolve())).replace("@root@", str(common.ROOT))


def unplaced(text, build):
    return text.replace(str(build.resolve()), "@build@").replace(str(common.ROOT), "@root@")


def built_tests(run, build):
    """Those of GPUs and those that a rehearsal takes, as meson lists them."""
    _, text, _ = run("meson", "introspect", build, "--tests")
    return [{key: test[key] for key in ("name", "cmd", "env", "protocol")}
            for test in json.loads(text)
            if test["name"].endswith("-gpu") or test["name"] in REHEARSED_TESTS]


def tests_of(machine):
    """Each with `program`: the target that it runs, or None."""
    record = record_of(machine.build)
    tests = json.loads(placed(json.dumps(record["tests"]), machine.build)) if record else \
        built_tests(machine.run, machine.build)
    for test in tests:
        if (test["name"] in REHEARSED_TESTS) == machine.rehearse:
            yield {**test, "program": target_of(test, machine.build)}


def target_of(test, build):
    path, root = pathlib.Path(test["cmd"][0]), build.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else None


def targets(tests):
    return sorted({test["program"] for test in tests if test["program"]})


# --- libraries that are loaded by name -----------------------------------------------------------

NAMED = re.compile(rb"lib(?:cublasLt|nccl)\.so\.\d+")
# Prints where the library is that a program would load.
LOAD = """import ctypes, sys
ctypes.CDLL(sys.argv[1])
stem = sys.argv[1].split(".so")[0]
print(next(line.split()[-1] for line in open("/proc/self/maps") if "/" + stem + ".so" in line))"""
PACKAGES = "import sys; print('\\n'.join(sys.path))"


def folders(machine):
    """Where CUDA's libraries may be, if not where programs look by themselves: beside a toolkit's
    programs, or in the packages of a Python."""
    for name in ("nvcc", "compute-sanitizer"):
        path = shutil.which(name, path=PATH)
        if path:
            root = pathlib.Path(path).resolve().parent.parent
            yield from (root / "lib64", root / "lib")
    for root in sorted(pathlib.Path("/usr/local").glob("cuda*")):
        yield from (root / "lib64", root / "targets" / "x86_64-linux" / "lib")
    for python in pythons():
        try:
            _, text, _ = machine.run(python, "-c", PACKAGES, environment=machine.environment)
        except (common.Failed, Skipped):
            continue
        for line in text.splitlines():
            yield from sorted(pathlib.Path(line).glob("nvidia/*/lib")) if line else ()


def place_of(machine, name, where):
    """Path of the library, or None."""
    paths = [machine.environment.get("LD_LIBRARY_PATH"), *where]
    environment = {**machine.environment,
                   "LD_LIBRARY_PATH": os.pathsep.join(str(path) for path in paths if path)}
    status, text, _ = machine.run(sys.executable, "-c", LOAD, name, statuses=(0, 1),
                                  environment=environment)
    return None if status else pathlib.Path(text.strip())


def find_libraries(machine):
    """{name: path or None}; our programs are given the folders that they do not know."""
    found, more = {}, []
    for word in sorted(set(NAMED.findall(pathlib.Path(machine.program).read_bytes()))):
        name = word.decode()
        found[name] = place_of(machine, name, more)
        for folder in folders(machine) if not found[name] else ():
            if (folder / name).exists():
                found[name] = place_of(machine, name, [*more, folder])
            if found[name]:
                more.append(folder)
                break
    if more:
        paths = [machine.environment.get("LD_LIBRARY_PATH"), *more]
        machine.ours["LD_LIBRARY_PATH"] = os.pathsep.join(str(path) for path in paths if path)
    return found


def library_rows(machine):
    """cublasLt is needed; NCCL by several ranks alone."""
    for name, path in find_libraries(machine).items():
        needed = name.startswith("libcublasLt")
        yield Row(name, str(path or "is not here, nor in a Python's packages"), "",
                  MET if path else FAILED if needed else "")


# --- packed ones ---------------------------------------------------------------------------------

def version(text):
    return tuple(int(number) for number in re.findall(r"\d+", text))


def here_glibc():
    try:
        return os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    except (ValueError, OSError, AttributeError, IndexError):
        return "0"


def check_starts(machine, record):
    """Raises common.Failed where a program cannot start here."""
    if version(here_glibc()) < version(record["glibc"]):
        raise common.Failed(f"the packed programs need glibc {record['glibc']} or later; here is "
                            f"{'another C library' if here_glibc() == '0' else here_glibc()}")
    for name in record["programs"]:
        if not (machine.build / name).exists():
            raise common.Failed(f"{machine.build.name}/{name} is not in the pack")
        # The loader lists what it would load.
        status, text, said = machine.run(
            machine.build / name, statuses=range(-64, 256),
            environment={**machine.environment, **machine.ours, "LD_TRACE_LOADED_OBJECTS": "1"})
        lacks = re.findall(r"(\S+) => not found", text)
        if status or lacks:
            why = f"{' '.join(lacks)} not found" if lacks else last_line(said)
            raise common.Failed(f"{machine.build.name}/{name} does not start: {why}")


def check_kinds(machine, record):
    """Raises common.Failed where a GPU can run none of the kernels: code is for later ones of its
    major, and what the newest is made of for all later."""
    newest = max(map(int, record["architectures"]), default=0)
    for line in () if machine.rehearse else list_gpus("compute_cap"):
        kind = int(line.replace(".", ""))
        if kind < newest and not any(int(name) // 10 == kind // 10 and int(name) <= kind
                                     for name in record["architectures"]):
            raise common.Failed(f"a GPU here is of compute capability {line.strip()}; the pack has "
                                f"kernels for {' '.join(record['architectures'])}")


def packed_row(machine, record):
    machine.ours["MEMWALL_DATA"] = str(common.ROOT)
    check_starts(machine, record)
    check_kinds(machine, record)
    kinds = " ".join(record["architectures"])
    return Row("build", f"packed: {len(record['programs'])} programs start; "
               f"{'kernels for ' + kinds if kinds else 'without CUDA'}; glibc {here_glibc()}",
               f"glibc {record['glibc']} or later", MET)


# --- the step ------------------------------------------------------------------------------------

def missing_packages(machine):
    try:
        return machine.run("scripts/deps", "--missing")[1].split()
    except (common.Failed, Skipped):
        return []


def build_here(machine):
    options = []
    if not machine.rehearse:
        kinds = {line.replace(".", "").strip() for line in list_gpus("compute_cap")}
        options = ["-Dcuda=enabled", f"-Dgpu_architectures={','.join(sorted(kinds))}"]
    try:
        machine.run("scripts/build", machine.build, *options, "build.ninja")
        machine.run("scripts/build", machine.build, "cli/memwall",
                    BENCH_FAKE if machine.rehearse else BENCH, *targets(tests_of(machine)))
    except common.Failed as error:
        missing = missing_packages(machine)
        if missing:
            raise common.Failed(f"packages are missing: {' '.join(missing)}") from error
        raise
    return Row("build", f"in {machine.build.name}, {' '.join(options) or 'as it is'}", "", MET)


def devices_seen(machine):
    """(what memwall says of the GPUs, whether it can use one)"""
    devices = json.loads(machine.run(machine.program, "list", "devices", "--json")[1])["devices"]
    seen = [device for device in devices if device["backend"] == "cuda"]
    return seen, any("device" in device for device in seen)


def why_no_device(machine):
    """Of packed programs: why none can use a GPU here, or None.  The driver may be older than the
    toolkit that built them wants."""
    if machine.rehearse or not record_of(machine.build):
        return None
    try:
        seen, good = devices_seen(machine)
    except (common.Failed, Skipped, TimeUp, ValueError):
        return None  # it does not start: a row of the first step
    return None if good else "; ".join(device["why"] for device in seen if "why" in device)


def device_row(machine):
    """What memwall says of the GPUs."""
    seen, good = devices_seen(machine)
    words = [device.get("name") or device["why"] for device in seen]
    return Row("memwall's devices", "; ".join(words) or "built without CUDA", "a GPU",
               MET if good else FAILED)


def build(machine):
    """memwall and what tests it on a GPU, kernels for the GPUs that are here."""
    record = record_of(machine.build)
    yield packed_row(machine, record) if record else build_here(machine)
    if not machine.rehearse:
        yield from library_rows(machine)
        yield device_row(machine)
