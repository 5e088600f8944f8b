#!/usr/bin/python3
"""The built command has what the build says that it is hardened by; prints TAP.

check_hardening.py COMMAND WORD...: words as meson.build's `hardening` has them.  It is read with
readelf; without that, or without words, all is skipped.
"""
import re
import shutil
import subprocess
import sys

ENDBR64 = b"\xf3\x0f\x1e\xfa"


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=True, text=True).stdout


def check_stack_protector(path):
    if "__stack_chk_fail" not in readelf("--dyn-syms", path):
        yield "no guard of the stack: __stack_chk_fail is not called"


def check_fortify(path):
    if not re.search(r" __\w+_chk[@\s]", readelf("--dyn-syms", path)):
        yield "no checked call of the C library (__memcpy_chk and the like)"


def check_relro(path):
    if "GNU_RELRO" not in readelf("-l", path):
        yield "no GNU_RELRO segment"
    if "BIND_NOW" not in readelf("-d", path) and " NOW" not in readelf("-d", path):
        yield "symbols are bound late: the segment stays writable"
    stack = [line for line in readelf("-l", path).splitlines() if "GNU_STACK" in line]
    if not stack or "E" in stack[0].split()[-2]:
        yield f"the stack can be executed: {stack}"


def check_pie(path):
    if not re.search(r"Type:\s+DYN ", readelf("-h", path)):
        yield "it is linked for one address"


def check_cet(path):
    """Whether the whole is marked so is up to the C library's own objects; ours begin functions."""
    with open(path, "rb") as file:
        count = file.read().count(ENDBR64)
    functions = sum(" FUNC " in line for line in readelf("-s", path).splitlines())
    if count < max(100, functions // 10):
        yield f"{count} of {functions} functions begin with endbr64"


CHECKS = {"stack-protector": check_stack_protector, "fortify": check_fortify,
          "relro": check_relro, "pie": check_pie, "cet": check_cet}


def main(path, *words):
    print(f"1..{len(CHECKS)}")
    failed = False
    for number, (word, check) in enumerate(CHECKS.items(), 1):
        if word not in words or not shutil.which("readelf"):
            print(f"ok {number} {word} # SKIP {'no readelf' if word in words else 'not built in'}")
            continue
        wrong = list(check(path))
        failed |= bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} {word}")
        for line in wrong:
            print(f"# {line}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
