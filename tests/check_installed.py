#!/usr/bin/python3
"""libmemwall as a program finds it: installed into a folder; prints TAP.

tree         the library, its header and its pkg-config file are there.
symbols      the library shows memwall_* and nothing else, and all that the header declares.
header       memwall.h is C99, and C++ where there is a compiler.
example      examples/best_plan.c is built by pkg-config alone, and answers as the command does.
wheel        scripts/wheel writes a wheel whose list is right, twice the same bytes.
declared     the Python package declares functions as the header does.
python       examples/batches.py runs from the wheel, and an answer is the command's.
readme       the program of README.md runs.
refused      what cannot be answered is an exception that names the setting.
moved        command and library find their data in a prefix that was moved.
uninstalled  nothing is left.

check_installed.py BUILD: a build folder in which all is built.
"""
import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

from command import ROOT, Box
from tap import Skip, report_in

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
QUESTION = {"model": "llama-3.1-8b", "hardware": "rtx4090", "seq": "2048"}
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


class Installed(Box):
    """A prefix with all that an installation has."""

    def __init__(self, folder):
        super().__init__(folder)
        self.stage = self.folder / "stage"
        ran(self, "meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", self.stage)
        found = list(self.stage.rglob("memwall.pc"))
        self.libraries = found[0].parents[1] if found else self.stage
        self.environment.update(
            PKG_CONFIG_PATH=str(self.libraries / "pkgconfig"),
            PKG_CONFIG_SYSROOT_DIR=str(self.stage), LD_LIBRARY_PATH=str(self.libraries))
        self.environment.pop("MEMWALL_DATA", None)

    def one(self, name):
        found = list(self.stage.rglob(name))
        assert found, f"{name} is not installed"
        return found[0]


def ran(box, *command, **environment):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          capture_output=True, check=False, cwd=box.folder,
                          env=dict(box.environment, **environment))
    assert not done.returncode, f"{command[0]}: {(done.stderr or done.stdout).decode()[-600:]}"
    return done.stdout.decode()


def unspelled(text):
    """An answer without what names settings: the command spells those as its options."""
    answer = json.loads(text)
    for one in answer["answers"]:
        del one["notes"]
        for change in ("change", "paid_change"):
            if one[change]:
                del one[change]["flags"]
    return answer


def answer_of_command(box):
    return unspelled(ran(box, box.one("bin/memwall"), "simulate", "-m", QUESTION["model"],
                         "-H", QUESTION["hardware"], "--seq", QUESTION["seq"], "--json"))


def check_tree(box):
    for name in ("libmemwall.so", "libmemwall.so.0", "include/memwall.h", "pkgconfig/memwall.pc",
                 "man/man1/memwall.1", "man/man1/memwall-plan.1", "man/man5/memwall-profile.5",
                 "bash-completion/completions/memwall", "zsh/site-functions/_memwall",
                 "fish/vendor_completions.d/memwall.fish", "memwall/hwprofiles/rtx4090.ini",
                 "memwall/models/presets.ini", "memwall/software/deepspeed.ini"):
        box.one(name)
    for part in ("libmw*", "*.c", "share/**/*.h", "meson.build"):
        yield from (f"{path} is installed" for path in box.stage.rglob(part))


def declared(box):
    text = re.sub(r"/\*.*?\*/", "", box.one("include/memwall.h").read_text(), flags=re.DOTALL)
    return set(re.findall(r"\b(memwall_\w+)\(", text))


def check_symbols(box):
    lines = ran(box, "nm", "-D", "--defined-only", box.one("libmemwall.so.0")).splitlines()
    shown = {line.split()[-1] for line in lines}
    yield from (f"{name} is seen and not declared" for name in sorted(shown - declared(box)))
    yield from (f"{name} is declared and not seen" for name in sorted(declared(box) - shown))


def check_header(box):
    box.write("header.c", '#include <memwall.h>\nint answers(void);\n'
                          'int answers(void) { return MEMWALL_PLAN; }\n')
    shutil.copy(box.folder / "header.c", box.folder / "header.cc")
    flags = ran(box, "pkg-config", "--cflags", "memwall").split()
    ran(box, "cc", "-std=c99", *STRICT, *flags, "-c", "header.c", "-o", "header.o")
    if not shutil.which("c++"):
        yield Skip("no C++ compiler")
        return
    ran(box, "c++", "-std=c++11", *STRICT, *flags, "-c", "header.cc", "-o", "header.o")


def check_example(box):
    flags = ran(box, "pkg-config", "--cflags", "--libs", "memwall").split()
    source = ROOT / "examples/best_plan.c"
    ran(box, "cc", "-std=c99", *STRICT, source, *flags, "-o", "best_plan")
    said = ran(box, "./best_plan", QUESTION["model"], QUESTION["hardware"],
               f"seq={QUESTION['seq']}")
    best = answer_of_command(box)["answers"][0]
    wanted = f"{best['strategy']}: {best['tokens_per_s']:.0f} tokens/s, "
    if not said.startswith(wanted) or f"limited by {best['bottleneck']}" not in said:
        yield f"{said.strip()}: the command says {wanted}"
    lines = len(source.read_text().splitlines())
    if lines > 60:
        yield f"{source.name} has {lines} lines, and is to be read at a glance"


def made_wheel(box):
    wheel = pathlib.Path(ran(box, ROOT / "scripts/wheel", box.folder).strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(box.folder / "site")
    return wheel


def check_wheel(box):
    wheel = made_wheel(box)
    first = wheel.read_bytes()
    if made_wheel(box).read_bytes() != first:
        yield "two wheels of one source differ"
    if not re.fullmatch(r"memwall-[\d.]+-py3-none-any\.whl", wheel.name):
        yield f"{wheel.name}: not the name of a wheel"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        record = next(name for name in names if name.endswith("/RECORD"))
        rows = [line.split(",") for line in archive.read(record).decode().splitlines()]
        for name, digest, size in rows:
            content = archive.read(name)
            sha = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            if name != record and (digest, size) != (f"sha256={sha}", str(len(content))):
                yield f"{name}: not as the wheel's RECORD says"
    if sorted(row[0] for row in rows) != sorted(names):
        yield "RECORD does not list what the wheel has"


def python(box, code):
    made_wheel(box)
    return ran(box, sys.executable, "-I", "-c",
               f"import sys; sys.path.insert(0, {str(box.folder / 'site')!r})\n{code}")


def check_declared(box):
    names = json.loads(python(box, "import json; from memwall._library import FUNCTIONS\n"
                                   "print(json.dumps({name: len(of) - 1 "
                                   "for name, of in FUNCTIONS.items()}))"))
    text = re.sub(r"/\*.*?\*/", "", box.one("include/memwall.h").read_text(), flags=re.DOTALL)
    for name, count in names.items():
        found = re.search(rf"\b{name}\(([^)]*)\);", text)
        taken = [] if not found or found[1] == "void" else found[1].split(",")
        if not found or len(taken) != count:
            yield f"{name}: takes {len(taken)}, by Python {count}"


def check_python(box):
    made_wheel(box)
    table = ran(box, sys.executable, ROOT / "examples/batches.py",
                PYTHONPATH=str(box.folder / "site")).splitlines()
    if len(table) != 4 or not re.match(r" +4 +\d+ +[\d.]+ GB  \w", table[-1]):
        yield f"examples/batches.py: {table}"
    said = unspelled(python(box, "import memwall, json\n"
                             "heard = []\n"
                             f"a = memwall.simulate(**{QUESTION!r}, "
                             "progress=lambda *at: heard.append(at))\n"
                             "assert heard and a.strategy == a['strategy']\n"
                             "assert a.plan_text.startswith('memwall-plan')\n"
                             "assert a.strategy in a.text and a.warnings == []\n"
                             "rows = memwall.compare('tiny', 'rtx4090', batch=2,\n"
                             "                       strategies=['zero3', 'zero-offload'])\n"
                             "assert [r.strategy for r in rows] == ['zero3', 'zero-offload']\n"
                             "most = memwall.largest('gpt3-13b', 'rtx4090', strategy='ddp')\n"
                             "assert most[0].layers > 0, most\n"
                             "words = 'layers=24,hidden=2048,heads=16,vocab=50257'\n"
                             "own = memwall.plan(model=words, hardware='rtx4090', seq=1024)\n"
                             "assert own.feasible and own.model == words, own\n"
                             "assert own.params > 24 * 12 * 2048 ** 2, own.params\n"
                             "print(a.json)"))
    if said != answer_of_command(box):
        yield "the answer is not the command's"


def check_readme(box):
    programs = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(),
                          re.MULTILINE | re.DOTALL)
    for program in programs:
        if not re.match(r"zero\S* \d+ [a-z0-9 -]+ \d+$", python(box, program).strip()):
            yield f"{program} prints {python(box, program)}"
    if not programs:
        yield "README.md has no program"


def check_refused(box):
    said = python(box, "import memwall\n"
                       "for more in ({'batch': 0}, {'sequ': 1}, {'keys': {'nvme.drives': 'x'}},\n"
                       "             {'model': 'layers=24,hiden=2048'}):\n"
                       "    try:\n"
                       "        memwall.simulate(**{'model': 'tiny', 'hardware': 'rtx4090', "
                       "**more})\n"
                       "    except memwall.Error as error:\n"
                       "        print(error.code, error.setting, error)\n"
                       "a = memwall.plan(model='gpt3-175b', hardware='rtx4090', strategy='ddp')\n"
                       "print(a.feasible, a.plan_text, '=' in a.remedy)\n").splitlines()
    wanted = ["invalid batch batch=0: must be ", "invalid None sequ: no setting of this name",
              "invalid nvme.drives nvme.drives=x: must be ",
              "invalid model model layers=24,hiden=2048: key \"hiden\": unknown: ",
              "False None True"]
    if len(said) != len(wanted) or not all(s.startswith(w) for s, w in zip(said, wanted)):
        yield "\n".join(said)
    said = python(box, "import memwall\n"
                       "try:\n"
                       "    memwall.simulate('tiny', 'rtx4090', strategy=['zero2', 'zero3'])\n"
                       "except TypeError as error:\n"
                       "    print(error)\n")
    if "memwall.compare(" not in said:
        yield f"a list of strategies: {said}"
    said = python(box, "import os\n"
                       "os.environ['MEMWALL_LIBRARY'] = 'nowhere.so'\n"
                       "try:\n"
                       "    import memwall\n"
                       "    memwall.version()\n"
                       "except ImportError as error:\n"
                       "    print(error)\n")
    for word in ("nowhere.so", "meson install", "ldconfig", "MEMWALL_LIBRARY"):
        if word not in said:
            yield f"without the library: {said}, and not {word}"


def check_moved(box):
    """A profile that only the moved prefix has."""
    prefix, moved = box.one("bin/memwall").parents[1], box.folder / "moved"
    shutil.copytree(prefix, moved, symlinks=True)
    profiles = moved / "share/memwall/hwprofiles"
    shutil.copy(profiles / "rtx4090.ini", profiles / "only-moved.ini")
    (box.folder / "link").symlink_to(moved / "bin/memwall")
    for command in (moved / "bin/memwall", box.folder / "link"):
        if "only-moved" not in ran(box, command, "--names", "hwprofiles"):
            yield f"{command.name} does not read the profiles of its prefix"
    if "only-moved" in ran(box, prefix / "bin/memwall", "--names", "hwprofiles"):
        yield "the command reads another prefix"
    made_wheel(box)
    said = ran(box, sys.executable, "-c", "import memwall; print(memwall.names('hardware'))",
               PYTHONPATH=str(box.folder / "site"),
               LD_LIBRARY_PATH=str(moved / box.libraries.relative_to(prefix)))
    if "only-moved" not in said:
        yield f"the library does not read the profiles of its prefix: {said}"


def check_uninstalled(box):
    """By the list of files that meson wrote as it installed them."""
    subprocess.run(["meson", "--internal", "uninstall"], cwd=BUILD, check=True,
                   stdin=subprocess.DEVNULL, capture_output=True)
    yield from (f"{path} is left" for path in box.stage.rglob("*") if not path.is_dir())


def tests(box):
    yield "tree", check_tree(box)
    yield "symbols", check_symbols(box)
    yield "header", check_header(box)
    yield "example", check_example(box)
    yield "wheel", check_wheel(box)
    yield "declared", check_declared(box)
    yield "python", check_python(box)
    yield "readme", check_readme(box)
    yield "refused", check_refused(box)
    yield "moved", check_moved(box)
    yield "uninstalled", check_uninstalled(box)


if __name__ == "__main__":
    sys.exit(report_in(Installed, tests))
