"""The grid: each configuration of configurations.csv trained for a few steps, its measured step
beside the prediction and beside the floor of its plan.  scripts/gpu runs it, and all else."""
import contextlib
import pathlib
import shutil
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]
import common  # noqa: E402
import draw  # noqa: E402
import grid  # noqa: E402
from machine import MET, MISSED, SKIPPED, Row, Skipped, TimeUp, judged  # noqa: E402

SEQ = "1024"
ERROR_BAR, FLOOR_BAR = 0.10, 1.15
LANES = {"drives": ("nvme-read", "nvme-write"), "host or PCIe": ("h2d", "d2h", "host")}
WANTED = {"drives": 4, "host or PCIe": 3}
ROWS_WANTED = 12
# One that takes longer than it may take to start, where each billion of parameters has its memory
# pinned and is initialised, and so many times what was predicted, hangs: the others are to have
# their time.
START_S, START_S_PER_BILLION, SLOWER = 25, 15, 4


def split(parameters):
    """Halves in host memory, the others on the drives."""
    def half(bytes_each):
        return f"cpu:{parameters * bytes_each / 2 / 1e9:.3f}GB,nvme"
    return ["-s", "zero-infinity-nvme", "--param-device", half(2), "--gradient-device", "cpu",
            "--optimizer-device", half(12), "--activation-device", "gpu"]


# 16-bit parameters and gradients in 52 GB of GPU memory, 105 GB of state in the host's, 50 GB on
# drives.
ALL = ("-s zero-infinity-nvme --param-device gpu --gradient-device gpu"
       " --optimizer-device cpu:105GB,nvme --activation-device gpu")


def placement(row):
    if row["placement"] == "split":
        return split(draw.MODELS[row["model"]][0] * 1e9)
    return (ALL if row["placement"] == "all" else grid.PLACEMENTS[row["placement"]]).split()


def words(row, profile):
    """What simulate and run have in common."""
    arena = []
    if row["arena_gib"]:
        arena = ["--set", f"gpu.memory_gib={row['arena_gib']}", "--set", "gpu.reserve_gib=0"]
    return ["-m", row["model"], "-H", str(profile), "--gpus", "1", "--batch", row["batch"], "--seq",
            row.get("seq", SEQ), "--prefetch", row["prefetch"], "--param-loads", row["loads"],
            "--activation-checkpoint-interval", "1", "--commit", "none", *arena, *placement(row)]


def rehearsed(row):
    """As small as cores can do in a second."""
    other = {"split": "nvme", "all": "nvme-state"}
    return {**row, "model": str(common.ROOT / "tests" / "fixtures" / "gpt2-small" / "config.json"),
            "batch": "1", "seq": "24", "placement": other.get(row["placement"], row["placement"]),
            "arena_gib": "", "steps": "2"}


def predict(machine, row):
    """Seconds that it takes at least, by its prediction and the start, which writes the state once
    as a step does; raises Skipped where it does not fit."""
    ran = rehearsed(row) if machine.rehearse else row
    answer = machine.memwall("simulate", *words(ran, machine.profile))
    if not answer["feasible"]:
        raise Skipped(f"does not fit: {answer['limiting_tier']} is "
                      f"{answer['short_bytes'] / 2**30:.1f} GiB short")
    return answer["step_time_s"] * (int(ran["steps"]) + 1)


def start_s(row):
    return START_S + START_S_PER_BILLION * draw.MODELS[row["model"]][0]


def measure(machine, row, least_s):
    """Raises Skipped where there is no time."""
    if least_s > machine.left_s():
        raise Skipped(f"takes {least_s:.0f} s or more, {machine.left_s():.0f} s are left")
    ran = rehearsed(row) if machine.rehearse else row
    most_s = start_s(row) + SLOWER * least_s
    answer = machine.memwall("run", *words(ran, machine.profile), "--data", grid.TEXT, "--steps",
                             ran["steps"], "--backend", machine.backend, "--nvme", machine.drive,
                             most_s=most_s)
    floor_s, floor = grid.floor_of(answer)
    result = grid.summarize(row, answer["compare"])
    return {**result, "floor_s": floor_s, "floor": floor,
            "over_floor": result["measured_s"] / floor_s}


def keep(machine):
    """What is measured so far."""
    if machine.results:
        grid.write_csv(machine.folder / "result.csv", machine.results)


def measure_all(machine):
    """Into machine.results, and (number, why, whether it is a fault) of those that were not run
    into machine.others.  The shortest come first, so that most of them have time."""
    if not machine.profile.exists():
        raise Skipped("nothing was calibrated")
    (machine.folder / "result.csv").unlink(missing_ok=True)
    predicted = []
    for row in common.read_csv(HERE / "configurations.csv"):
        if machine.rows and row["number"] not in machine.rows:
            continue
        with not_run(machine, row):
            predicted.append((predict(machine, row), row))
    for least_s, row in sorted(predicted, key=lambda each: each[0] + start_s(each[1])):
        with not_run(machine, row):
            machine.results.append(measure(machine, row, least_s))
            got = machine.results[-1]
            say(row, f"{got['measured_s']:.3f} s, {100 * got['error']:+.1f}%")
            keep(machine)
    machine.results.sort(key=lambda result: int(result["number"]))


@contextlib.contextmanager
def not_run(machine, row):
    """What keeps a row from being run is told of it, and the others go on."""
    try:
        yield
    except (Skipped, TimeUp, common.Failed) as why:
        hung = isinstance(why, TimeUp) and machine.left_s() > 1
        machine.others.append((row["number"], str(why), hung or isinstance(why, common.Failed)))
        say(row, str(why))


def say(row, what):
    print(f"{row['number']:>3} {row['model']:<12} {row['placement']:<10} {what}", file=sys.stderr,
          flush=True)


# --- what came of it -----------------------------------------------------------------------------

def bound_rows(results):
    for name, lanes in LANES.items():
        count = sum(r["busiest"] in lanes for r in results)
        yield judged(f"grid, bound by {name}", str(count), f"{WANTED[name]} or more",
                     count >= WANTED[name])


def grid_rows(results, others):
    failed = [f"{number}: {why}" for number, why, fault in others if fault]
    yield Row("grid, configurations run", f"{len(results)} of {len(results) + len(others)}"
              f"{'; ' + failed[0] if failed else ''}", f"{ROWS_WANTED} or more",
              MET if len(results) >= ROWS_WANTED and not failed else MISSED)
    if not results:
        return
    error = statistics.median(abs(r["error"]) for r in results)
    naive = statistics.median(abs(r["naive_error"]) for r in results)
    yield judged("grid, median step error", f"{100 * error:.1f}%, FLOPs alone {100 * naive:.1f}%",
                 f"{100 * ERROR_BAR:.0f}% or less", error <= ERROR_BAR)
    yield from bound_rows(results)
    yield from floor_rows(results)


def floor_rows(results):
    """Of what fetches ahead: with depth 0 nothing is to overlap."""
    ratios = [r["over_floor"] for r in results if r["share"] != "resident" and r["prefetch"] != "0"]
    if not ratios:
        yield Row("offloaded step / floor", "none was run", f"{FLOOR_BAR} or less", SKIPPED)
        return
    middle = statistics.median(ratios)
    yield judged("offloaded step / floor", f"median {middle:.3f}, {min(ratios):.3f} to "
                 f"{max(ratios):.3f} of {len(ratios)}", f"{FLOOR_BAR} or less", middle <= FLOOR_BAR)


def table(results):
    header = ["", "model", "placement", "batch", "prefetch", "loads", "arena, GiB", "busiest lane",
              "measured, ms", "predicted, ms", "error", "FLOPs alone", "floor, ms", "step / floor"]
    return common.markdown_table(header, [
        [r["number"], r["model"], r["placement"], r["batch"], r["prefetch"], r["loads"],
         r["arena_gib"], r["busiest"], f"{r['measured_s'] * 1e3:.1f}",
         f"{r['predicted_s'] * 1e3:.1f}", f"{100 * r['error']:+.1f}%",
         f"{100 * r['naive_error']:+.1f}%", f"{r['floor_s'] * 1e3:.1f}",
         f"{r['over_floor']:.2f}"] for r in results])


def run(machine):
    """The step: rows for the table of scripts/gpu; files of the results."""
    measure_all(machine)
    yield from grid_rows(machine.results, machine.others)


def plot(to, results):
    """Whether there is a gnuplot."""
    if not shutil.which("gnuplot"):
        return False
    grid.plot(to / "plot.svg", results)
    return True


def page(machine, rows, said):
    results, others = machine.results, machine.others
    title = "A rehearsal on cores: no figure means anything" if machine.rehearse else \
        "Predicted and measured on a GPU"
    text = [f"# {title}", "", said, "",
            common.markdown_table(["what", "figure", "bar", ""], rows)]
    if results:
        text += ["Configurations, in `configurations.csv`; FLOPs alone is the naive predictor, the "
                 "floor the longest path or the busiest channel of the plan:", "", table(results),
                 "Busy time of lanes that are busy for 2% of the step or more:", "",
                 grid.lane_table(results)]
    if others:
        text += ["Not run:", "", common.bullets(*(f"{n}: {why}" for n, why, _ in others))]
    return "\n".join(text)


def write(machine, to, rows, said):
    """result.md and result.csv in the folder `to`; said: when, where, which command."""
    common.write_text(to / "result.md", page(machine, rows, said))
    if machine.results:
        grid.write_csv(to / "result.csv", machine.results)


def main():
    """Draws result.csv again, where it was written without gnuplot."""
    results = [{**row, **{key: float(row[key]) for key in ("measured_s", "predicted_s")}}
               for row in common.read_csv(HERE / "result.csv")]
    if not plot(HERE, results):
        sys.exit("measure: gnuplot is not here")


if __name__ == "__main__":
    main()
