"""Losses where gradients are of older parameters: the delayed update, PipeDream-2BW, PipeDream,
asynchronous data parallelism."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common

STEPS = 2000
MICRO_BATCHES = 4
SEEDS = (1, 2, 3)
LAST = 100  # steps whose mean is a run's final loss
POINT = 25  # steps that a point of the curves is the mean of
WARMUP = 50  # steps

# Learning rates, and whether they fall to zero as a cosine behind a warm-up.
COURSES = {
    "constant learning rate 5e-4": ("5e-4", False),
    "constant learning rate 2e-3": ("2e-3", False),
    "learning rate 2e-3, falling": ("2e-3", True),
}

MODEL = ("-m", "layers=4,hidden=64,heads=4,vocab=256,architecture=llama", "--seq", "32")
TRAINING = ("--data", common.ROOT / "data" / "psalms-proverbs.txt", "-H", "rtx4090", "--backend",
            "cpu", "--device-threads", "1", "--host-threads", "1", "--batch", "2", "--clip", "0",
            "--activation-checkpoint-interval", "0", "--overwrite")
SAYS = common.paragraph("""
    So it is not as the papers say, of this model: every delay costs something, with each learning
    rate and each seed.  A delay that begins at step 41 costs less than one from the first step
    where the learning rate stays, and as much where it falls.  PipeDream updates four times a step:
    its losses are above those of such updates without delay, and where the learning rate is small
    at the end they are below those of one update a step.  Gradients that lack three updates in all
    layers, of vertical sync and of asynchronous ranks, cost at least twice as much as PipeDream's,
    which lack none in the last stage: four such updates a step are worse than one without delay.
    Why the papers' models lose nothing and this one does is not shown; theirs are larger, and so
    are their batches.""") + "\n"

STAGES = ("-s", "ddp", "--pp", "4", "--schedule")
ASYNCHRONOUS = ("-s", "zero1", "--data-parallel", "async")

# Name, ranks, updates in a step, options, whose losses it is compared with, colour.
WAYS = {
    "no delay": (1, 1, ("-s", "ddp"), None, "#444444"),
    "delayed from step 1": (1, 1, ("-s", "zero-offload", "--dpu-start", "0"), "no delay",
                            "#e69f00"),
    "delayed from step 41": (1, 1, ("-s", "zero-offload", "--dpu-start", "40"), "no delay",
                             "#d55e00"),
    "2bw, 4 stages": (4, 1, (*STAGES, "2bw"), "no delay", "#0072b2"),
    "no delay, each micro-batch": (1, MICRO_BATCHES, ("-s", "ddp"), None, "#999999"),
    "pipedream, 4 stages": (4, MICRO_BATCHES, (*STAGES, "pipedream"), "no delay, each micro-batch",
                            "#009e73"),
    "vertical-sync, 4 stages": (4, MICRO_BATCHES, (*STAGES, "vertical-sync"),
                                "no delay, each micro-batch", "#cc79a7"),
    "asynchronous, 4 ranks": (4, MICRO_BATCHES, ASYNCHRONOUS, "no delay, each micro-batch",
                              "#56b4e9"),
}


def command(ranks):
    binary = os.environ.get("MEMWALL", str(common.ROOT / "build" / "cli" / "memwall"))
    if ranks == 1:
        return [binary]
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), binary]


def course_options(course, updates):
    rate, falls = COURSES[course]
    falling = ("--lr-schedule", "cosine", "--warmup", WARMUP * updates) if falls else ()
    return ("--lr", rate, *falling)


def train(way, course, seed, folder):
    """The loss of each step: of as many micro-batches whoever updates how often."""
    ranks, updates, options, _, _ = WAYS[way]
    alone = ranks == 1
    steps = STEPS * updates if alone else STEPS
    divided = ranks if options == ASYNCHRONOUS else 1  # ranks that share a step's micro-batches
    log = pathlib.Path(folder) / "log"
    log.unlink(missing_ok=True)
    words = [*command(ranks), "run", *MODEL, *TRAINING, *options,
             *course_options(course, steps // STEPS), "--seed", seed, "--steps", steps,
             "--grad-accum", MICRO_BATCHES * STEPS // steps // divided, "--nvme", folder,
             "--log", log]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run([str(w) for w in words], env=environment, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise common.Failed(f"{way}: status {done.returncode}: {done.stderr.strip()}")
    losses = [json.loads(line)["loss"] for line in log.read_text(encoding="utf-8").splitlines()]
    each = steps // STEPS
    return [statistics.fmean(losses[i:i + each]) for i in range(0, steps, each)]


def final(losses):
    return statistics.fmean(losses[-LAST:])


def run():
    runs = {}
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        for course in COURSES:
            for way in WAYS:
                for seed in SEEDS:
                    runs[course, way, seed] = train(way, course, seed, folder)
                    print(course, way, seed, final(runs[course, way, seed]), file=sys.stderr)
    return runs


def above(runs, course, way):
    """Of each seed, by how much the final loss is above that without delay."""
    return [final(runs[course, way, seed]) - final(runs[course, WAYS[way][3], seed])
            for seed in SEEDS]


def rows_of(runs, course):
    rows = []
    for way, (_, _, _, other, _) in WAYS.items():
        finals = [final(runs[course, way, seed]) for seed in SEEDS]
        more = above(runs, course, way) if other else []
        rows.append([way, *(f"{f:.3f}" for f in finals), f"{statistics.fmean(finals):.3f}",
                     ", ".join(f"{m:+.3f}" for m in more), other or ""])
    return rows


def tables(runs):
    header = ["update", *(f"seed {s}" for s in SEEDS), "mean", "above", "which is"]
    return "\n".join(
        f"{course[0].upper()}{course[1:]}:\n\n"
        f"{common.markdown_table(header, rows_of(runs, course))}"
        for course in COURSES)


def same_losses(runs, one, other):
    """Courses in which two ways have the same loss in each step, to the last bit."""
    return [course for course in COURSES
            if all(runs[course, one, seed] == runs[course, other, seed] for seed in SEEDS)]


def mean_above(runs, way):
    """By course, in words."""
    return ", ".join(f"{statistics.fmean(above(runs, course, way)):+.3f}" for course in COURSES)


def said(runs):
    same = same_losses(runs, "2bw, 4 stages", "delayed from step 1")
    means = [statistics.fmean(above(runs, course, way)) for course in COURSES
             for way, row in WAYS.items() if row[3]]
    in_turn = same_losses(runs, "asynchronous, 4 ranks", "vertical-sync, 4 stages")
    delayed, later, two, stash, sync, turns = (mean_above(runs, way)
                                               for way, row in WAYS.items() if row[3])
    return common.bullets(
        f"Delays cost {min(means):.2f} to {max(means):.2f} of a loss of 1.4 to 1.5.",
        "Above the loss without delay, mean of the seeds, in the order of the tables: delayed "
        f"from step 1 {delayed}; from step 41 {later}; 2bw {two}; pipedream {stash}; vertical-sync "
        f"{sync}; asynchronous {turns}.",
        f"2bw has the loss of the update that is delayed from step 1 in each of {STEPS} steps, to "
        f"the last bit, with {' and '.join(same) or 'no learning rate'}: it is the same "
        "recurrence, by other ranks.",
        "Asynchronous ranks have the loss of vertical-sync in each step, to the last bit, with "
        f"{', '.join(in_turn) or 'no learning rate'}: that is the same recurrence too, of "
        "gradients that lack three updates.")


def write(runs):
    common.write_text(HERE / "result.md", f"""\
# Result: updates with gradients of older parameters

Mean loss of the last {LAST} of {STEPS} steps, and by how much it is above that of the same seed
without delay.

{tables(runs)}
![Loss by step](plot.svg)

{said(runs)}
{SAYS}""")
    common.write_csv(HERE / "result.csv", ["course", "update", "seed", "step", "loss"],
                     [[course, way, seed, at + POINT, statistics.fmean(losses[at:at + POINT])]
                      for (course, way, seed), losses in runs.items()
                      for at in range(0, STEPS, 8 * POINT)])


def curve(runs, course, way):
    """Means over seeds."""
    return [[at + POINT / 2, statistics.fmean(
        statistics.fmean(runs[course, way, seed][at:at + POINT]) for seed in SEEDS)]
        for at in range(0, STEPS, POINT)]


def plot(runs):
    course = list(COURSES)[-1]
    blocks = {f"way{i}": curve(runs, course, way) for i, way in enumerate(WAYS)}
    lines = ", \\\n     ".join(
        f"$way{i} using 1:2 with lines lw 2 lc rgb '{row[4]}' title '{way}'"
        for i, (way, row) in enumerate(WAYS.items()))
    common.gnuplot(HERE / "plot.svg", f"""
set title 'Loss, mean of {len(SEEDS)} seeds, {course}' font ',16'
set xlabel 'step'
set ylabel 'loss'
set logscale x
set xrange [{POINT / 2}:{STEPS}]
set key outside bottom center horizontal samplen 1.5
plot {lines}""", blocks)


def main():
    runs = run()
    write(runs)
    plot(runs)


if __name__ == "__main__":
    main()
