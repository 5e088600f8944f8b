"""What experiments share that predict configurations and run them here: cpu-grid, cpu-ranks and
gpu-grid, and the floor of a step, of cpu-overlap too.  A row of configurations.csv becomes a
result: the row with what `memwall run --json` answered of it."""
import csv
import os
import statistics
import subprocess
import tempfile

import common

MEMWALL = os.environ.get("MEMWALL", str(common.ROOT / "build" / "cli" / "memwall"))
TEXT = common.ROOT / "data" / "psalms-proverbs.txt"
PLACEMENTS = {
    "gpu": "-s zero3",
    "offload": "-s zero-offload",
    "cpu": "-s zero-infinity-cpu --param-device cpu --gradient-device cpu --optimizer-device cpu"
           " --activation-device cpu",
    "nvme-state": "-s zero-infinity-nvme --param-device cpu --gradient-device cpu"
                  " --optimizer-device nvme --activation-device gpu",
    "nvme": "-s zero-infinity-nvme --param-device nvme --gradient-device nvme"
            " --optimizer-device nvme --activation-device gpu",
}


def scratch(name):
    """A folder on the disk, not in memory as /tmp may be; it goes when its `with` ends."""
    out = common.ROOT / "out"
    out.mkdir(exist_ok=True)
    return tempfile.TemporaryDirectory(dir=out, prefix=f"{name}-")


def launch(ranks, *words):
    command = [MEMWALL, *words]
    if ranks > 1:
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise common.Failed(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def calibrate(folder, ranks):
    profile = folder / f"here-{ranks}.ini"
    launch(ranks, "calibrate", "-o", str(profile), "--nvme", str(folder))
    return profile


def median_round(rounds):
    """Of a configuration: the round whose error is the median of all (the lower of two)."""
    ordered = sorted(rounds, key=lambda r: r["error"])
    middle = ordered[(len(ordered) - 1) // 2]
    return {**middle, "least_error": ordered[0]["error"], "most_error": ordered[-1]["error"]}


def busiest(compare):
    return max(compare["lanes"], key=lambda lane: lane["busy"]["measured_s"])["name"]


def floor_of(answer):
    """Seconds, and what it is: the longest path at uncontended durations, or a busier channel."""
    predicted = answer["predicted"]
    channel = max(predicted["channels"], key=lambda c: c["busy_s"])
    if channel["busy_s"] > predicted["critical_path_s"]:
        return channel["busy_s"], f"channel {channel['name']}"
    return predicted["critical_path_s"], "longest path"


def summarize(row, compare):
    """What a run has measured."""
    step, naive = compare["step"], compare["flops_alone"]
    return {
        **row,
        "measured_s": step["measured_s"],
        "predicted_s": step["predicted_s"],
        "error": step["predicted_s"] / step["measured_s"] - 1,
        "naive_error": naive["predicted_s"] / step["measured_s"] - 1,
        "busiest": busiest(compare),
        **{f"{lane['name']}_error": lane["busy"]["predicted_s"] / lane["busy"]["measured_s"] - 1
           for lane in compare["lanes"] if lane["busy"]["measured_s"] > 0.02 * step["measured_s"]},
    }


def measured_where(started, command):
    """Machine, day and command, of rounds that median_round chooses from."""
    machine = subprocess.run(["uname", "-srm"], capture_output=True, text=True, check=True).stdout
    return (f"{started:%Y-%m-%d %H:%M} UTC, {machine.strip()}, {os.cpu_count()} cores; "
            f"`{command}`, every round calibrated just before; a row is the round with the median "
            f"error. Load average {os.getloadavg()[1]:.1f} over five minutes at the end (this run "
            "included).")


def lane_table(results):
    """Busy time of lanes that are busy for 2% of the step or more."""
    rows = []
    lanes = sorted({key for r in results for key in r if key.endswith("_error")} - {"naive_error"})
    for lane in lanes:
        values = [r[lane] for r in results if lane in r]
        rows.append([lane[:-len("_error")], len(values),
                     f"{100 * statistics.median(values):+.1f}%",
                     f"{100 * statistics.median(abs(v) for v in values):.1f}%"])
    return common.markdown_table(["lane", "steps", "median error", "median size"], rows)


def write_csv(path, results):
    keys = list(dict.fromkeys(key for r in results for key in r))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, keys, lineterminator="\n")
        writer.writeheader()
        writer.writerows(results)


def plot(path, results):
    points = [[r["measured_s"], r["predicted_s"]] for r in results]
    common.gnuplot(path, """
set logscale xy
set xlabel "measured step, s"
set ylabel "predicted step, s"
set key left top
plot x with lines lc rgb "#888888" title "equal", 1.2*x with lines dt 2 lc rgb "#bbbbbb" \
title "20% off", x/1.2 with lines dt 2 lc rgb "#bbbbbb" notitle, \
$points using 1:2 with points pt 7 lc rgb "#0072b2" title "configurations"
""", {"points": points})
