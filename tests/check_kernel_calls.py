#!/usr/bin/python3
"""The kernels of the cores call no guarded copy and no guard of the stack; prints TAP.

check_kernel_calls.py LIBRARY...: where a vector is stored through memcpy, a checked copy would be a
call of its own.  They are read with nm; without that all is skipped.
"""
import os
import re
import shutil
import subprocess
import sys

GUARD = re.compile(r"\bU (__\w+_chk(?:_fail)?)\b")


def guards(path):
    undefined = subprocess.run(["nm", "-u", path], stdout=subprocess.PIPE, check=True,
                               text=True).stdout
    return sorted(set(GUARD.findall(undefined)))


def main(*paths):
    print(f"1..{len(paths)}")
    failed = False
    for number, path in enumerate(paths, 1):
        name = os.path.basename(path)
        if not shutil.which("nm"):
            print(f"ok {number} {name} # SKIP no nm")
            continue
        found = guards(path)
        failed |= bool(found)
        print(f"{'not ok' if found else 'ok'} {number} {name}")
        for call in found:
            print(f"# calls {call}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
