"""scripts/gpu --pack: programs, what they need beyond the C library, and what the steps read, in
one file for a machine with GPUs that has nothing else."""
import io
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import common  # noqa: E402
import programs  # noqa: E402

# A100; H100 and H200; B200; RTX 50.  Code for one runs on all of its major: RTX 30 and 40 on 80's.
ARCHITECTURES = ("80", "90", "100", "120")
TOP, BUILD = "memwall-gpu", "build-gpu"
SOURCES = ("LICENSE", "data", "experiments/common.py", "experiments/gpu-grid",
           "experiments/grid.py", "hwprofiles", "models", "scripts/count-tests", "scripts/gpu",
           "software/*.ini", "tests/*.py", "tests/cuda/*.py", "tests/fixtures")
# The C library's, which are of one version with the machine's loader.
OF_GLIBC = re.compile(r"(ld-linux|libc|libm|libdl|librt|libpthread|libresolv|libutil)[.-]")
# Of programs and libraries beside them; inherited by libraries, as a RUNPATH is not.
RPATH = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib:$ORIGIN/../../lib"


def run(*command):
    """(status, output, errors), as Machine.run: there is no limit here."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, cwd=common.ROOT)
    if done.returncode:
        raise common.Failed(f"{command[0]}: status {done.returncode}: "
                            f"{(done.stderr or done.stdout).strip()}")
    return 0, done.stdout, done.stderr


def build(folder, architectures):
    """Without MPI: on the machine with GPUs there may be none."""
    run("scripts/build", folder, "-Dbuildtype=release", "-Dcuda=enabled", "-Dmpi=disabled",
        "-Dsource_dir=.", f"-Dgpu_architectures={','.join(architectures)}",
        f"-Dc_link_args={RPATH}", f"-Dcpp_link_args={RPATH}", "build.ninja")
    run("scripts/build", folder, *wanted(programs.built_tests(run, folder), folder))


def wanted(tests, folder):
    """Programs of the steps, as targets."""
    named = (programs.target_of(test, folder) for test in tests)
    more = ["cli/memwall", programs.BENCH_FAKE]
    if any(test["name"].endswith("-gpu") for test in tests):
        more.append(programs.BENCH)
    return sorted({*filter(None, named), *more})


# --- what is in it -------------------------------------------------------------------------------

def libraries(paths):
    """{name: path} of all that programs load, but the C library's."""
    found = {}
    for path in paths:
        for name, where in re.findall(r"(\S+) => (/\S+)", run("ldd", path)[1]):
            if not OF_GLIBC.match(name):
                found[name] = pathlib.Path(where).resolve()
    return found


def glibc_of(paths):
    """The latest version of the C library that a symbol asks for."""
    text = "".join(run("objdump", "-T", path)[1] for path in paths)
    return max(set(re.findall(r"\bGLIBC_(\d[\d.]*)", text)), key=programs.version)


def record(folder, tests, targets, glibc):
    architectures = re.findall(r"code=sm_(\d+)",
                               (folder / "build.ninja").read_text(encoding="utf-8"))
    return {"programs": targets, "glibc": glibc, "tests": tests,
            "architectures": sorted(set(architectures), key=int)}


def sources():
    for pattern in SOURCES:
        for path in sorted(common.ROOT.glob(pattern)):
            yield path, path.relative_to(common.ROOT)


def contents(folder):
    """(file or folder, its place) each, and the record."""
    tests = programs.built_tests(run, folder)
    targets = wanted(tests, folder)
    absent = [name for name in targets if not (folder / name).exists()]
    if absent:
        raise common.Failed(f"not built: {' '.join(absent)}")
    found = libraries(folder / name for name in targets)
    files = [(folder / name, pathlib.Path(BUILD, name)) for name in targets]
    files += [(path, pathlib.Path(BUILD, "lib", name)) for name, path in sorted(found.items())]
    said = record(folder, tests, targets, glibc_of(path for path, _ in files))
    text = programs.unplaced(json.dumps(said, indent=1), folder)
    return [*sources(), *files, *licences(found)], text


def licences(found):
    """Of the libraries, where Debian's packages have them."""
    for name, path in sorted(found.items()):
        if not shutil.which("dpkg-query"):
            return
        done = subprocess.run(["dpkg-query", "-S", f"*/{path.name}"], capture_output=True,
                              text=True, check=False)
        package = done.stdout.split(":")[0]
        text = pathlib.Path("/usr/share/doc") / package / "copyright"
        if package and text.exists():
            yield text.resolve(), pathlib.Path(BUILD, "lib", f"{name}.copyright")


# --- the file ------------------------------------------------------------------------------------

def opened(path):
    """A stream to write; the programs hold the same kernels, and a dictionary of this size finds
    them again."""
    if path.suffix == ".xz":
        return lzma.open(path, "wb", filters=[
            {"id": lzma.FILTER_X86},
            {"id": lzma.FILTER_LZMA2, "preset": 3, "dict_size": 128 << 20}])
    return open(path, "wb")


def owned(entry):
    """By nobody here, and without what Python leaves behind."""
    if "__pycache__" in entry.name:
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def add(tar, path, place, scratch):
    if place.parts[0] == BUILD and place.suffix != ".copyright":
        run("strip", "-o", scratch / "stripped", path)
        path = scratch / "stripped"
    tar.add(path, pathlib.Path(TOP, place), filter=owned)


def fill(path, files, text):
    with opened(path) as stream, tarfile.open(fileobj=stream, mode="w") as tar, \
            tempfile.TemporaryDirectory() as scratch:
        for file, place in files:
            add(tar, file, place, pathlib.Path(scratch))
        entry = tarfile.TarInfo(f"{TOP}/{BUILD}/{programs.RECORD}")
        entry.size = len(text.encode())
        tar.addfile(entry, io.BytesIO(text.encode()))


def write(path, architectures, built):
    """The exit status."""
    os.chdir(common.ROOT)
    try:
        if not built:
            build(common.ROOT / "build-pack", architectures)
        path.parent.mkdir(parents=True, exist_ok=True)
        files, text = contents(built or common.ROOT / "build-pack")
        fill(path, files, text)
    except (common.Failed, OSError) as why:
        print(f"gpu: nothing was packed: {why}", file=sys.stderr)
        return 1
    said = json.loads(text)
    print(f"gpu: {path.name}, {path.stat().st_size / 2**20:.1f} MiB: {len(said['programs'])} "
          f"programs, kernels for {' '.join(said['architectures']) or 'no GPU'}; needs glibc "
          f"{said['glibc']} or later and Python 3.10 or later")
    return 0
