#!/usr/bin/env python3
"""How near a step comes to the longest path through its plan, and what fetching ahead gains.

    experiments/cpu-overlap/measure.py [--rounds N] [--steps N]

Calibrates, then trains two configurations, one bound by compute and one by the drive, each with and
without fetching ahead, in turn, `--rounds` times.  Writes result.csv, result.md and plot.svg beside
it.  Takes about four minutes of a quiet machine.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common  # noqa: E402
import grid  # noqa: E402

BAR = 1.15
# The drive of a machine without a GPU is quick for its cores: one configuration holds it back.
CONFIGURATIONS = {
    "compute": "-s zero-infinity-cpu --param-device cpu --gradient-device cpu"
               " --optimizer-device cpu --activation-device gpu --batch 4 --seq 256",
    "drive": "-s zero-infinity-nvme --param-device nvme --gradient-device cpu"
             " --optimizer-device nvme --activation-device gpu --batch 2 --seq 256"
             " --limit nvme-read=300MB/s --limit nvme-write=300MB/s",
}
DEPTHS = (3, 0)


def train(name, depth, profile, folder, steps):
    out = grid.launch(
        1, "run", "-m", str(common.ROOT / "models" / "gpt-text" / "config.json"), "-H",
        str(profile), *CONFIGURATIONS[name].split(), "--prefetch", str(depth), "--commit", "none",
        "--data", str(grid.TEXT), "--steps", str(steps), "--nvme", str(folder), "--json")
    return json.loads(out)["answers"][0]


def summarize(name, depth, answers):
    floor_s, what = grid.floor_of(answers[0])
    steps = [a["compare"]["step"]["measured_s"] for a in answers]
    return {
        "bound by": name,
        "prefetch": depth,
        "measured_s": statistics.median(steps),
        "least_s": min(steps),
        "most_s": max(steps),
        "floor_s": floor_s,
        "floor": what,
        "ratio": statistics.median(steps) / floor_s,
        "predicted_s": answers[0]["predicted"]["step_time_s"],
    }


def report(rows, arguments, started):
    table = [[r["bound by"], r["prefetch"], f"{r['measured_s'] * 1e3:.0f}",
              f"{r['least_s'] * 1e3:.0f} to {r['most_s'] * 1e3:.0f}", f"{r['floor_s'] * 1e3:.0f}",
              r["floor"], f"{r['ratio']:.2f}", f"{r['predicted_s'] * 1e3:.0f}"] for r in rows]
    header = ["bound by", "prefetch depth", "step, ms", "of all rounds", "floor, ms", "which is",
              "step / floor", "predicted, ms"]
    gains = []
    for ahead, without in zip(rows[::2], rows[1::2]):
        gains.append(f"{ahead['bound by']}: {without['measured_s'] / ahead['measured_s']:.2f}x "
                     f"(predicted {without['predicted_s'] / ahead['predicted_s']:.2f}x)")
    machine = subprocess.run(["uname", "-srm"], capture_output=True, text=True, check=True).stdout
    met = all(r["ratio"] <= BAR for r in rows[::2])
    text = "\n".join([
        "# Overlap on this machine", "",
        f"{started:%Y-%m-%d %H:%M} UTC, {machine.strip()}, {os.cpu_count()} cores; "
        f"`experiments/cpu-overlap/measure.py --rounds {arguments.rounds} "
        f"--steps {arguments.steps}`, calibrated just before. Medians of the rounds.", "",
        f"Fetching ahead, the step is to be at most {BAR} times the floor: "
        f"{'met' if met else 'missed'}. Its gain over depth 0: {'; '.join(gains)}.", "",
        common.markdown_table(header, table), ""])
    common.write_text(HERE / "result.md", text)
    print(text)


def plot(rows):
    points = [[i, r["measured_s"], r["floor_s"]] for i, r in enumerate(rows)]
    ticks = ", ".join(f'"{r["bound by"]}, {r["prefetch"]}" {i}' for i, r in enumerate(rows))
    common.gnuplot(HERE / "plot.svg", f"""
set ylabel "step, s"
set xlabel "bound by, prefetch depth"
set xtics ({ticks})
set yrange [0:*]
set xrange [-0.6:{len(rows) - 0.4}]
set style fill solid
plot $points using 1:2:(0.5) with boxes lc rgb "{common.ENGINE}" title "measured", \\
$points using 1:3:(0.25) with xerrorbars pt 0 lw 3 lc rgb "{common.OTHER}" title "floor"
""", {"points": points})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    arguments = parser.parse_args()
    started = datetime.datetime.now(datetime.timezone.utc)
    cases = [(name, depth) for name in CONFIGURATIONS for depth in DEPTHS]
    answers = {case: [] for case in cases}
    with grid.scratch("cpu-overlap") as name:
        folder = pathlib.Path(name)
        profile = folder / "here.ini"
        grid.launch(1, "calibrate", "-o", str(profile), "--nvme", str(folder))
        for _ in range(arguments.rounds):
            for case in cases:
                answers[case].append(train(*case, profile, folder, arguments.steps))
    rows = [summarize(*case, answers[case]) for case in cases]
    common.write_csv(HERE / "result.csv", list(rows[0]), [list(r.values()) for r in rows])
    plot(rows)
    report(rows, arguments, started)


if __name__ == "__main__":
    main()
