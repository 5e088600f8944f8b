#!/usr/bin/python3
"""The generic kernels on arm64, by a cross compiler and an emulator; prints TAP.

Products are near fp64's; passes over memory have the bits of this processor's generic table.
Skipped where aarch64-linux-gnu-gcc or qemu-aarch64 (Debian: gcc-aarch64-linux-gnu, qemu-user) is
missing.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ["attention_backward", "attention_forward", "blocks", "dynamic8", "elementwise",
           "embedding", "gemm", "loss", "norm", "optimizer", "row_sums", "isa_table"]
TYPES = {"generic": [], "generic_fp16": ["-DMW_HALF_FP16"]}
FLAGS = ["-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-Wall",
         "-Wextra", "-Werror", "-Wno-psabi", "-Wno-unused-parameter", "-fopenmp", "-D_GNU_SOURCE",
         f"-I{ROOT}"]
CROSS, EMULATOR, SYSROOT = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"
PRODUCTS_OFF = 1e-5  # sums of up to 300 products of values below 1/2, in fp32


def built(compiler, folder):
    objects = []
    for isa, flags in TYPES.items():
        for name in SOURCES:
            objects.append(folder / f"{name}_{isa}.o")
            subprocess.run([compiler, *FLAGS, *flags, f"-DMW_CPU_ISA={isa}", "-c",
                            ROOT / "exec/device/cpu" / f"{name}.c", "-o", objects[-1]], check=True)
    program = folder / "kernels_elsewhere"
    subprocess.run([compiler, *FLAGS, ROOT / "tests/kernels_elsewhere.c",
                    ROOT / "exec/device/cpu/cache.c", *objects, "-lm", "-o", program], check=True)
    return program


def printed(compiler, *before):
    with tempfile.TemporaryDirectory() as name:
        program = built(compiler, pathlib.Path(name))
        done = subprocess.run([*before, program], check=True, capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
    return [line.split() for line in done.stdout.splitlines()]


def main():
    print("1..2")
    if not shutil.which(CROSS) or not shutil.which(EMULATOR):
        for number, name in enumerate(("bf16", "fp16"), 1):
            print(f"ok {number} arm64 {name} # SKIP {CROSS} and {EMULATOR} are not both here")
        return 0
    here, there = printed("gcc"), printed(CROSS, EMULATOR, "-L", SYSROOT)
    for number, name in enumerate(("bf16", "fp16"), 1):
        (_, own), (off, hashed) = here[number - 1], there[number - 1]
        good = float(off) < PRODUCTS_OFF and own == hashed
        print(f"{'ok' if good else 'not ok'} {number} arm64 {name}")
        print(f"# products off by {off}, passes {hashed}, here {own}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
