#!/usr/bin/python3
"""--dtype fp32: planned, trained to the same weights wherever states live, and resumed.

The command is $MEMWALL, or build/cli/memwall.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEMWALL = str(pathlib.Path(os.environ.get("MEMWALL", ROOT / "build/cli/memwall")).resolve())
MODEL = str(ROOT / "tests/fixtures/gpt2-small/config.json")
TEXT = str(ROOT / "data/psalms-proverbs.txt")
PLACEMENTS = ["-s ddp", "-s zero-offload", "-s zero-infinity-cpu --param-device cpu",
              "-s zero-infinity-nvme --param-device nvme --optimizer-device nvme"]


def run(folder, words):
    return subprocess.run([MEMWALL, *words.split()], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "HOME": str(folder)}, check=False)


def weights(folder, words, steps):
    shared = (f"run -m {MODEL} -H rtx4090 --dtype fp32 --backend cpu --data {TEXT} --batch 2 "
              f"--grad-accum 2 --steps {steps} --save point")
    drives = " --nvme drive" if "nvme" in words else ""
    done = run(folder, f"{shared} {words}{drives}")
    if done.returncode:
        return done.stderr.strip()
    data = b"".join(path.read_bytes()[8 + int.from_bytes(path.read_bytes()[:8], "little"):]
                    for path in sorted((folder / "point").glob("*.safetensors")))
    for path in (folder / "point").iterdir():
        path.unlink()
    (folder / "point").rmdir()
    return hashlib.sha256(data).hexdigest()[:16]


def answer(folder, dtype, machine="rtx4090"):
    done = run(folder, f"simulate -m gpt2 -H {machine} -s ddp --batch 1 --dtype {dtype} --json")
    return json.loads(done.stdout)["answers"][0] if done.returncode == 0 else done.stderr


def check(folder):
    (folder / "drive").mkdir()
    narrow, wide = answer(folder, "bf16"), answer(folder, "fp32")
    yield "longer", wide["step_time_s"] > narrow["step_time_s"]
    yield "larger", wide["peak_bytes"]["gpu"] > narrow["peak_bytes"]["gpu"]
    refused = answer(folder, "fp32", "aws-g5-xlarge")
    yield "rate", isinstance(refused, str) and "gpu.fp32_tflops" in refused
    made = [weights(folder, words + (" --overwrite" if "nvme" in words else ""), 4)
            for words in PLACEMENTS]
    yield f"placements {made}", len(set(made)) == 1
    weights(folder, PLACEMENTS[3] + " --overwrite", 2)
    resumed = weights(folder, PLACEMENTS[3] + " --resume", 4)
    yield f"resumed {resumed}", resumed == made[3]


def main():
    failed = 0
    with tempfile.TemporaryDirectory(dir=ROOT / "out" if (ROOT / "out").is_dir() else None) as name:
        for number, (what, good) in enumerate(check(pathlib.Path(name)), 1):
            print(f"{'ok' if good else 'not ok'} {number} {what}")
            failed += not good
        print("1..5")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
