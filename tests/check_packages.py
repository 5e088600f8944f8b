#!/usr/bin/python3
"""What the Debian packages are made of agrees with the build; prints TAP.

version      the changelog, NEWS and CITATION.cff have meson's version.
needed       Build-Depends has every library of scripts/deps, and GLib as meson asks for it.
glib         the code calls nothing of GLib that is newer than what meson asks for.
shared out   every installed file goes into one package, and no line of debian/ is for none.
tests        those that the package runs exist.
pages        every verb has its page of the manual.
names        each package of control has its list of files.

check_packages.py BUILD: a build folder that is configured.  scripts/package builds and tries them.
"""
import fnmatch
import json
import pathlib
import re
import subprocess
import sys

from tap import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
# Links that meson makes beside the library, and what comes from the wheel.
UNLISTED = ["usr/lib/libmemwall.so", "usr/lib/python3"]


def text_of(path):
    return (ROOT / path).read_text(encoding="utf-8")


def known(name):
    return json.loads((BUILD / "meson-info" / f"intro-{name}.json").read_text(encoding="utf-8"))


def check_version():
    version = known("projectinfo")["version"]
    for path, before in (("debian/changelog", r"^memwall \("), ("NEWS", "^memwall "),
                         ("CITATION.cff", "^version: ")):
        if not re.search(before + re.escape(version) + r"\b(?!\.)", text_of(path), re.MULTILINE):
            yield f"{path} is not of version {version}"


def field(name, text):
    """Its values, without versions."""
    found = re.search(rf"^{name}:(.*?)^(?=\S)", text + "\n.", re.MULTILINE | re.DOTALL)
    return [value.strip() for value in found[1].split(",") if value.strip()] if found else []


def check_needed():
    builds = field("Build-Depends", text_of("debian/control"))
    names = {value.split()[0] for value in builds}
    packages = re.search(r"^packages=\((.*?)\)", text_of("scripts/deps"), re.DOTALL | re.MULTILINE)
    for package in re.findall(r"\b(lib[a-z0-9-]+-dev)\b", packages[1]):
        if package not in names | {"libc6-dev"}:
            yield f"debian/control: Build-Depends lacks {package} of scripts/deps"
    if f"libglib2.0-dev (>= {asked_of_glib()})" not in builds:
        yield f"debian/control: Build-Depends lacks libglib2.0-dev (>= {asked_of_glib()})"


def asked_of_glib():
    return re.search(r"'glib-2\.0', version: '>= ([\d.]+)'", text_of("meson.build"))[1]


def functions_since():
    """GLib's functions, and the minor version that each came with."""
    flags = subprocess.run(["pkg-config", "--cflags-only-I", "glib-2.0"], capture_output=True,
                           check=True, stdin=subprocess.DEVNULL).stdout.decode().split()
    declared = re.compile(r"GLIB_AVAILABLE_(?:STATIC_INLINE_|MACRO_)?IN_2_(\d+)\b([^;{]*)")
    for folder in (flag.removeprefix("-I") for flag in flags):
        for header in pathlib.Path(folder).rglob("*.h"):
            for found in declared.finditer(header.read_text(encoding="utf-8", errors="replace")):
                named = re.search(r"\b([gG]_\w+)\s*\(", found[2])
                if named:
                    yield named[1], int(found[1])


def check_glib():
    asked = int(asked_of_glib().split(".")[1])
    since = dict(functions_since())
    if since.get("g_memdup2") != 68:
        yield "GLib's headers do not say since when g_memdup2 is there"
    newer = {name for name, version in since.items() if version > asked}
    for path in ROOT.glob("[a-z]*/**/*.[ch]"):
        if path.is_relative_to(BUILD):
            continue
        called = set(re.findall(r"\b[gG]_\w+", path.read_text(encoding="utf-8")))
        yield from (f"{path.relative_to(ROOT)}: {name} needs GLib 2.{since[name]}"
                    for name in sorted(newer & called))


def installed():
    """Paths as the package's build has them; a folder stands for what is in it."""
    prefix = next(option["value"] for option in known("buildoptions") if option["name"] == "prefix")
    libdir = next(option["value"] for option in known("buildoptions") if option["name"] == "libdir")
    for path in known("installed").values():
        path = "usr" + path.removeprefix(prefix)
        yield path.replace(f"usr/{libdir}/", "usr/lib/", 1)
    yield from UNLISTED


def lists():
    """Package and pattern of each line of the lists of files."""
    for path in sorted((ROOT / "debian").glob("*.install")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield path.stem, line.split()[0].replace("usr/lib/*/", "usr/lib/")


def takes(pattern, path):
    """A folder takes what is in it."""
    return fnmatch.fnmatch(path, pattern) or path.startswith(pattern + "/")


def check_shared_out():
    paths = sorted(installed())
    for path in paths:
        takers = [package for package, pattern in lists() if takes(pattern, path)]
        if len(takers) != 1:
            yield f"{path} goes into {takers or 'no package'}"
    for package, pattern in lists():
        if not any(takes(pattern, path) for path in paths):
            yield f"debian/{package}.install: nothing is installed as {pattern}"


def check_tests():
    rule = re.search(r"meson test (.*?)\n(?!\t)", text_of("debian/rules").replace("\\\n", ""),
                     re.DOTALL)
    named = re.findall(r"\b[a-z][a-z_]+\b", rule[1].split("--print-errorlogs")[1])
    tests = {test["name"] for test in known("tests")}
    yield from (f"debian/rules: no test is called {name}" for name in named if name not in tests)
    if not named:
        yield "debian/rules runs no test"


def check_pages():
    page = text_of("docs/reference.md").split("\n## Verbs\n")[1].split("\n## ")[0]
    verbs = set(re.findall(r"^### (\S+)$", page, re.MULTILINE))
    pages = {path.name.removeprefix("memwall-").removesuffix(".1")
             for path in map(pathlib.PurePath, installed()) if path.match("memwall-*.1")}
    for verb in sorted(verbs ^ pages):
        yield f"{verb}: has a page or is a verb, not both; cli/reference/meson.build lists verbs"


def check_names():
    packages = set(re.findall(r"^Package: (\S+)$", text_of("debian/control"), re.MULTILINE))
    for package in sorted(packages ^ {package for package, _ in lists()}):
        yield f"{package}: is in debian/control or has a list of files, not both"


if __name__ == "__main__":
    sys.exit(report((name, check()) for name, check in (
        ("version", check_version), ("needed", check_needed), ("glib", check_glib),
        ("shared out", check_shared_out), ("tests", check_tests), ("pages", check_pages),
        ("names", check_names))))
