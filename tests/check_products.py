#!/usr/bin/python3
"""Figures of products in profiles are those that rates/fit_products.py makes of rates/products.csv:
all of fp8, and of 16 bits those of one GPU, as a fit takes seconds; prints TAP."""
import concurrent.futures
import pathlib
import re
import sys

from tap import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "rates"))
import fit_products  # noqa: E402

PROFILES = {("H100", "fp8_"): "dgx-h100", ("H200", "fp8_"): "hgx-h200", ("L40S", "fp8_"): "l40s",
            ("B200", "fp8_"): "dgx-b200", ("RTX PRO 6000", "fp8_"): "rtx-pro-6000",
            ("GB200", "fp8_"): "gb200-nvl72", ("B300", "fp8_"): "aws-p6-b300-48xlarge",
            ("GB300", "fp8_"): "gb300-nvl72",
            ("V100", ""): "dgx2"}


def fitted(name, key):
    gpu, points = fit_products.measured(name, key)
    return fit_products.fit(gpu, points), len(points)


def check(name, key, profile, figures, count):
    text = (ROOT / "hwprofiles" / f"{profile}.ini").read_text(encoding="utf-8")
    values = dict(re.findall(r"^(\S+) = (.*)$", text, re.MULTILINE))
    rate, fill, *shares = figures
    expected = {f"{key}tile_fill": f"{fill:.0f}",
                f"{key}tile_shares": "; ".join(["1"] + [f"{share:.2f}" for share in shares])}
    for what, value in expected.items():
        if values.get(what) != value:
            yield f"{profile}: {what} = {values.get(what)}, fitted {value}"
    typical = values[f"{key}tile_tflops"].split("; ")[1]
    source = values[f"{key}tile_tflops.source"]
    if typical != f"{rate:.0f}" and f"; {rate:.0f}, times " not in source:
        yield f"{profile}: {key}tile_tflops {typical}, fitted {rate:.0f}: {source}"
    if f" {count} " not in source or "rates/fit_products.py" not in source:
        yield f"{profile}: {count} points: {source}"
    if set(fit_products.FP8_GPUS) != {gpu for gpu, of in PROFILES if of}:
        yield f"the script fits fp8 of {fit_products.FP8_GPUS}"


def tests():
    with concurrent.futures.ProcessPoolExecutor() as pool:
        found = {who: pool.submit(fitted, *who) for who in PROFILES}
        for (name, key), profile in PROFILES.items():
            yield f"{name} {key}", check(name, key, profile, *found[name, key].result())


if __name__ == "__main__":
    sys.exit(report(tests()))
