#!/usr/bin/python3
"""The figures of a GPU's matrix products, from measured products: what gpu.tile_tflops,
gpu.tile_fill and gpu.tile_shares in hwprofiles/ come from, and with --fp8 their fp8_ counterparts.

    rates/fit_products.py [--fp8] [GPU...]

Fits the mechanism of sim/kernels.h to the 16-bit or fp8 points of products.csv that are not marked
low: the rate of full waves of large tiles, the length of k in whose time a tile starts and ends,
and the shares of that rate of smaller tiles.  What is least is the mean absolute error of time,
each point's at most half, so that kernels that a library chose badly do not count for more.  The
errors printed are of points that are predicted from the other half of the points.  Between low and
high of the rate are eight of ten points.  tests/check_products.py holds profiles to it.
"""
import csv
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
MOST_ERROR = 0.5
LAUNCH_S = 3e-6
# Multiprocessors, achievable bytes/s of memory (0.8 of nominal), and where the points are.
GPUS = {
    "V100": (80, 720e9, "V100 (DGX-1)"),
    "T4": (40, 256e9, "T4"),
    "A100": (108, 1630e9, "A100 SXM 80GB"),
    "H100": (132, 2680e9, "H100 SXM"),
    "H200": (132, 3840e9, "H200 SXM"),
    "L40S": (142, 691e9, "L40S"),
    "B200": (148, 6400e9, "B200 SXM"),
    "GB200": (152, 6400e9, "GB200"),
    "B300": (148, 6400e9, "B300 SXM"),
    "GB300": (152, 6400e9, "GB300"),
    "RTX PRO 6000": (188, 1430e9, "RTX PRO 6000 Server"),
}
# Element types of operands in products.csv, and bytes of an operand; a result has 2.
TYPES = {"": (("bf16", "fp16"), 2), "fp8_": (("fp8",), 1)}
# Of the others there are too few points.
FP8_GPUS = ("H100", "H200", "L40S", "B200", "GB200", "B300", "GB300", "RTX PRO 6000")
TILES = ((256, 128, 0), (128, 256, 0), (128, 128, 1), (256, 64, 1), (64, 256, 1), (128, 64, 2),
         (64, 128, 2), (64, 64, 3))


def seconds(figures, gpu, m, n, k):
    """sim/kernels.c:product_s, and a launch."""
    rate, fill, *shares = figures
    processors, memory, operand_bytes = gpu
    best = math.inf
    for rows, columns, share in TILES:
        tiles = math.ceil(m / rows) * math.ceil(n / columns)
        tile_rate = rate * 1e12 / processors * ([1] + shares)[share]
        cuts = 1
        while cuts == 1 or (cuts <= 8 and tiles < processors and k / cuts >= 256):
            time = math.ceil(tiles * cuts / processors) * 2 * rows * columns
            time *= (math.ceil(k / cuts) + fill) / tile_rate
            if cuts > 1:
                time += (cuts + 1) * 4 * m * n / memory
            best = min(best, time)
            cuts *= 2
    return max(best, (operand_bytes * (m * k + k * n) + 2 * m * n) / memory) + LAUNCH_S


def errors(figures, gpu, points):
    """Predicted over measured time, less 1."""
    return [seconds(figures, gpu, m, n, k) * tflops * 1e12 / (2 * m * n * k) - 1
            for m, n, k, tflops in points]


def loss(figures, gpu, points):
    """By a sum that every Python rounds alike."""
    return math.fsum(min(abs(e), MOST_ERROR) for e in errors(figures, gpu, points)) / len(points)


def allowed(figures):
    rate, fill, *shares = figures
    return rate > 0 and fill >= 0 and all(0.05 <= b <= a <= 1
                                          for a, b in zip([1] + shares, shares))


STARTS = [(fill, *shares) for fill in (16.0, 64.0, 192.0)
          for shares in ((0.95, 0.9, 0.8), (0.9, 0.7, 0.5), (0.95, 0.5, 0.3))]


def fit(gpu, points):
    fastest = sorted(p[3] for p in points)[int(0.95 * len(points))]
    found = [descend([fastest, *start], gpu, points) for start in STARTS]
    return min(found, key=lambda figures: loss(figures, gpu, points))


def descend(best, gpu, points):
    """Coordinate search, with steps that halve."""
    least = loss(best, gpu, points)
    step = 0.3
    while step > 0.005:
        before = least
        for i in range(len(best)):
            for factor in (1 + step, 1 / (1 + step)):
                other = list(best)
                other[i] = max(other[i], 1) * factor if i == 1 else other[i] * factor
                if allowed(other) and loss(other, gpu, points) < least:
                    best, least = other, loss(other, gpu, points)
        if least == before:
            step /= 2
    return best


def points_of(name, types):
    points = []
    with open(HERE / "products.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["gpu"] == name and row["dtype"] in types and \
                    row["mode"] == "burst" and row["confidence"] != "low":
                figures = [row[key] for key in ("m", "n", "k", "tflops")]
                if all(figures):
                    points.append(tuple(map(float, figures)))
    return sorted(points)


def quantile(values, at):
    values = sorted(values)
    return values[min(len(values) - 1, int(at * len(values)))]


def measured(name, key):
    """The GPU and its points; `key`: what stands before the keys of the type in profiles."""
    types, operand_bytes = TYPES[key]
    processors, memory, named = GPUS[name]
    return (processors, memory, operand_bytes), points_of(named, types)


def fit_and_say(name, key):
    gpu, points = measured(name, key)
    halves = points[::2], points[1::2]
    wrong = [e for fitted, other in (halves, halves[::-1])
             for e in errors(fit(gpu, fitted), gpu, other)]
    figures = fit(gpu, points)
    left = errors(figures, gpu, points)
    shown = "; ".join(f"{share:.2f}" for share in figures[2:])
    print(f"{name}: {key}tile_tflops {figures[0] * (1 + quantile(left, 0.1)):.0f}; "
          f"{figures[0]:.0f}; {figures[0] * (1 + quantile(left, 0.9)):.0f}, "
          f"{key}tile_fill {figures[1]:.0f}, {key}tile_shares 1; {shown}: each half of "
          f"{len(points)} points predicted by the other: mean error "
          f"{100 * sum(map(abs, wrong)) / len(wrong):.1f}%, "
          f"median {100 * quantile([abs(e) for e in wrong], 0.5):.1f}%", flush=True)


def main():
    names = sys.argv[1:]
    key = "fp8_" if names[:1] == ["--fp8"] else ""
    for name in names[1 if key else 0:] or (FP8_GPUS if key else GPUS):
        fit_and_say(name, key)


if __name__ == "__main__":
    main()
