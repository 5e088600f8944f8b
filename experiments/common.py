"""What the experiments share: running memwall, error figures, Markdown, CSV and gnuplot.

An experiment's run.py begins with

    import pathlib, sys
    HERE = pathlib.Path(__file__).resolve().parent
    sys.path.insert(0, str(HERE.parent))
    import common

and writes HERE/result.md, HERE/result.csv and HERE/plot.svg.  The same sources give the same bytes.
"""

import csv
import json
import math
import os
import pathlib
import statistics
import subprocess
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Colours that differ in lightness too (after Okabe and Ito, for colour-blind readers).
PUBLISHED, ENGINE, CLOSED_FORM, OTHER = "#444444", "#0072b2", "#e69f00", "#d55e00"

# How far outside of the predicted range a published figure may lie and still count as inside.
RANGE_MARGIN = 0.05


# Beside --outlook: its ends are of rates, for a plan that fits as it typically does, by the
# software of 2020 and 2021.
TYPICAL_MEMORY = ("--set", "software.memory.allocator_loss=0.036",
                  "--set", "software.memory.logit_bytes=6")


class Failed(Exception):
    """memwall ended with another status than 0 (done) and 3 (does not fit)."""


def memwall(verb, *options, interval="1"):
    """The parsed answer of `memwall VERB OPTIONS --json` for one strategy; a plan that does not fit
    is an answer.  interval: of checkpoints, where the options do not say it; None: the planner's
    choice."""
    binary = os.environ.get("MEMWALL", str(ROOT / "build" / "cli" / "memwall"))
    words = [str(o) for o in options]
    if interval and "--activation-checkpoint-interval" not in words:
        # What is published recomputes every block, unless it says otherwise.
        words += ["--activation-checkpoint-interval", interval]
    if "--software" not in words:  # a paper's own equations, or what the machine allows
        words += ["--software", "ideal"]
    command = [binary, verb, *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise Failed(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
    [answer] = json.loads(done.stdout)["largest" if "--largest" in words else "answers"]
    return answer


def paper_flops(answer):
    """FLOPs of a step as the ZeRO-Infinity paper counts them: 8 * 12 nl hd^2 a token."""
    return 8 * answer["paper_params"] * answer["settings"]["tokens_per_step"]


def paper_tflops(answer, step_time_s):
    """TFLOP/s per GPU in the paper's count, for a step of this length."""
    settings = answer["settings"]
    gpus = settings["nodes"] * settings["gpus_per_node"]
    return paper_flops(answer) / step_time_s / gpus / 1e12


def prediction(answer):
    """TFLOP/s per GPU, in the paper's count: engine, low, high, and both closed forms."""
    times = answer["range"]["step_time_s"]
    return {
        "engine": paper_tflops(answer, answer["step_time_s"]),
        "low": paper_tflops(answer, times["high"]),
        "high": paper_tflops(answer, times["low"]),
        "closed_form": paper_tflops(answer, answer["closed_form"]["paper"]),
        "closed_form_plan": paper_tflops(answer, answer["closed_form"]["plan"]),
    }


def busy(answer, channel):
    """Seconds of a step in which a channel (sm, nic, drive, ...) is busy."""
    return next(c["busy_s"] for c in answer["channels"] if c["name"] == channel)


def lane_s(answer, name):
    """Seconds of a step in which a lane (compute, collective, d2h, ...) has an op in flight."""
    return next(lane["busy_s"] for lane in answer["lanes"] if lane["name"] == name)


def error_percent(predicted, published):
    """Signed: positive where the prediction is above the published figure."""
    return 100.0 * (predicted - published) / published


def median_abs(errors):
    return statistics.median(abs(e) for e in errors)


def width_percent(low, high, middle):
    return 100.0 * (high - low) / middle


def in_range(published, low, high, margin=RANGE_MARGIN):
    return low * (1 - margin) <= published <= high * (1 + margin)


def yes(condition):
    return "yes" if condition else "no"


def figure(value, digits=3):
    """A float with so many significant digits and never an exponent; other things as they are."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def percent(value):
    return "" if value is None else f"{value:+.1f}%"


def read_csv(path):
    """Rows as dictionaries; lines that begin with # are comments."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def _plain(value):
    """For CSV: six significant digits, more than any published figure has."""
    return f"{value:.6g}" if isinstance(value, float) else ("" if value is None else value)


def write_csv(path, header, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([_plain(v) for v in row] for row in rows)


def markdown_table(header, rows, digits=3):
    """Columns padded so that the text reads as a table too."""
    cells = [[str(h) for h in header]] + [[figure(v, digits) for v in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]

    def line(row):
        return "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |"

    return "\n".join([line(cells[0]), "|" + "|".join("-" * (w + 2) for w in widths) + "|"]
                     + [line(row) for row in cells[1:]]) + "\n"


COMPARISON = ["row", "published", "closed form", "error", "engine", "error", "low", "high", "width",
              "in range"]
COMPARISON_CSV = ["row", "published", "flag", "closed_form", "closed_form_error_percent", "engine",
                  "engine_error_percent", "low", "high", "width_percent", "in_range"]


def compare(label, published, predicted, flag="printed"):
    """One row of a comparison; predicted has engine, low, high and closed_form (or None)."""
    closed = predicted.get("closed_form")
    low, high, engine = predicted["low"], predicted["high"], predicted["engine"]
    return {
        "row": label,
        "published": published,
        "flag": flag,
        "closed_form": closed,
        "closed_form_error": None if closed is None else error_percent(closed, published),
        "engine": engine,
        "engine_error": error_percent(engine, published),
        "low": low,
        "high": high,
        "width": width_percent(low, high, engine),
        "in_range": in_range(published, low, high),
    }


def comparison_table(comparisons, digits=3):
    return markdown_table(COMPARISON, [
        [c["row"], c["published"], c["closed_form"], percent(c["closed_form_error"]), c["engine"],
         percent(c["engine_error"]), c["low"], c["high"], f"{c['width']:.0f}%", yes(c["in_range"])]
        for c in comparisons], digits)


def write_comparison_csv(path, comparisons):
    write_csv(path, COMPARISON_CSV, [
        [c["row"], c["published"], c["flag"], c["closed_form"], c["closed_form_error"], c["engine"],
         c["engine_error"], c["low"], c["high"], c["width"], yes(c["in_range"])]
        for c in comparisons])


def summary(comparisons, title=""):
    """What a comparison comes to, in a few sentences."""
    count = len(comparisons)
    inside = sum(c["in_range"] for c in comparisons)
    strictly = sum(c["low"] <= c["published"] <= c["high"] for c in comparisons)
    errors = [abs(c["engine_error"]) for c in comparisons]
    text = (f"{title}The predicted range holds {inside} of {count} within "
            f"{100 * RANGE_MARGIN:.0f}%, {strictly} of {count} strictly; its median width is "
            f"{statistics.median(c['width'] for c in comparisons):.0f}%.  Median error: engine "
            f"{statistics.median(errors):.1f}%")
    closed = [c["closed_form_error"] for c in comparisons if c["closed_form_error"] is not None]
    if closed:
        text += f", the paper's closed form {median_abs(closed):.1f}%"
    text += (f".  The engine's mean error is {statistics.mean(errors):.1f}%, its largest "
             f"{max(errors):.1f}%.")
    return paragraph(text) + "\n"


def paragraph(text, bullet=""):
    """Text wrapped like the rest of the page."""
    return textwrap.fill(" ".join(text.split()), 100, initial_indent=bullet,
                         subsequent_indent=" " * len(bullet), break_long_words=False,
                         break_on_hyphens=False)


def bullets(*texts):
    return "\n".join(paragraph(t, "- ") for t in texts) + "\n"


def write_text(path, text):
    pathlib.Path(path).write_text(text, encoding="utf-8")


def gnuplot(svg, script, blocks=None, size=(900, 560)):
    """Draws script into svg; blocks are named data: {"name": rows} becomes $name << EOD."""
    text = (f"set terminal svg size {size[0]},{size[1]} font 'sans,14' noenhanced "
            f"background '#ffffff'\nset output '{svg}'\n"
            "set border 3 lc rgb '#666666'\nset tics nomirror out textcolor rgb '#222222'\n"
            "set grid ytics lc rgb '#dddddd' lt 1\n")
    for name, rows in (blocks or {}).items():
        lines = "\n".join(" ".join(_quoted(v) for v in row) for row in rows)
        text += f"${name} << EOD\n{lines}\nEOD\n"
    subprocess.run(["gnuplot", "-"], input=text + script + "\n", text=True, check=True)


def _quoted(value):
    if value is None:
        return "NaN"
    if isinstance(value, str):
        return '"' + value.replace('"', "") + '"'
    return f"{value:.6g}"


def plot_comparison(svg, comparisons, title, unit, size=(900, 560), rows=None, extra=None):
    """Published figures as bars; engine with its range and closed form as points beside them.

    extra: one more plot element over $rows; rows then has its columns behind the usual seven."""
    rows = rows or [[i, c["row"], c["published"], c["engine"], c["low"], c["high"],
                     c["closed_form"]] for i, c in enumerate(comparisons)]
    more = f", \\\n     {extra}" if extra else ""
    script = f"""
set title '{title}' font ',16'
set ylabel '{unit}'
set yrange [0:*]
set xrange [-0.6:{len(rows) - 0.4}]
set boxwidth 0.5
set style fill solid 0.35 noborder
set key outside bottom center horizontal samplen 1.5
set bars 1.2
plot $rows using 1:3:xtic(2) with boxes lc rgb '{PUBLISHED}' title 'published', \\
     $rows using ($1+0.08):4:5:6 with yerrorbars pt 7 ps 0.9 lw 2 lc rgb '{ENGINE}' \\
         title 'engine, low to high', \\
     $rows using ($1-0.12):7 with points pt 5 ps 0.9 lc rgb '{CLOSED_FORM}' \\
         title "the paper's closed form"{more}
"""
    gnuplot(svg, script, {"rows": rows}, size)
