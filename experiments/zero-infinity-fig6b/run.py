"""ZeRO-Infinity Fig. 6b: the largest hidden size by tiling factor, memory in 2 GB pieces."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import common
import zero_infinity

MODELS = {8: "zi-6b-900m", 16: "zi-6b-3b", 32: "zi-6b-13b", 64: "zi-6b-50b"}
PIECES = {"2 GiB": 2.0, "2 GB": 2e9 / 2**30, "2 GiB + 1 MiB": 2.0 + 1 / 1024}
MAIN = "2 GB"
# Tiles per weight by tiling factor F.  The script cuts into tiles of hd/F x hd/F, of which the
# largest weight, hd x 4hd, has 4 F x F; without its switch, which factor 1 is here, into none.
READINGS = {"F": lambda f: f, "F x F": lambda f: f * f,
            "4 F x F (released script)": lambda f: 1 if f == 1 else 4 * f * f}
MAIN_READING = "F x F"


def plan(hidden_k, tiles, piece_gib):
    return common.memwall("plan", "-m", MODELS[hidden_k], "-s", "zero-infinity-nvme", "--batch", 1,
                          "--tiles", tiles, *zero_infinity.SETTINGS,
                          "--set", f"gpu.largest_request_gib={piece_gib!r}")


def survey(piece_gib, reading, factors):
    """{tiling factor: {hidden_k: answer}}"""
    return {f: {h: plan(h, READINGS[reading](f), piece_gib) for h in MODELS} for f in factors}


def largest(answers):
    return max((h for h, a in answers.items() if a["feasible"]), default=0)


def verdict(answer):
    request = answer["tiers"]["gpu"]["largest_request_bytes"] / 2**30
    return f"{'fits' if answer['feasible'] else 'no'} ({request:.3f})"


def judgement(predicted, published):
    if predicted == published:
        return "right"
    return "OPTIMISTIC ERROR" if predicted > published else "pessimistic"


def count_right(published, answers):
    return sum(largest(answers[f]) == v for f, v in published.items())


def reading_table(published, surveys):
    return common.markdown_table(
        ["tiles per weight"] + [f"pieces of {p}" for p in PIECES],
        [[r] + [f"{count_right(published, surveys[p, r])} of {len(published)}" for p in PIECES]
         for r in READINGS])


def result_table(published, surveys):
    rows = []
    for factor, value in published.items():
        predicted = [largest(surveys[p, MAIN_READING][factor]) for p in PIECES]
        rows.append([factor, f"{value}K"] +
                    [f"{h}K: {judgement(h, value)}" for h in predicted])
    return common.markdown_table(["tiling factor", "published"] +
                                 [f"pieces of {p}" for p in PIECES], rows)


def verdict_table(answers):
    return common.markdown_table(
        ["tiling factor"] + [f"hidden {h}K" for h in MODELS],
        [[f] + [verdict(a) for a in row.values()] for f, row in answers.items()])


def tile_gib(hidden_k, tiles):
    """A tile of the largest weight, hd x 4hd of 16 bits."""
    return 8 * (hidden_k * 1024)**2 / tiles / 2**30


def limits(published, tiles):
    """The largest tile that was served, and the smallest that was not, GiB."""
    served = max(tile_gib(h, tiles(f)) for f, h in published.items())
    refused = min(tile_gib(2 * h, tiles(f)) for f, h in published.items() if 2 * h in MODELS)
    return served, refused


def published_table(published):
    rows = []
    for name, tiles in READINGS.items():
        served, refused = limits(published, tiles)
        rows.append([name, f"{served:.3g}", f"{refused:.3g}", "yes" if served < refused else "no"])
    return common.markdown_table(
        ["tiles per weight", "largest tile that was served, GiB",
         "smallest that was not, GiB", "one limit explains all"], rows)


def write(published, surveys):
    main = surveys[MAIN, MAIN_READING]
    verdicts = [judgement(largest(main[f]), v) for f, v in published.items()]
    common.write_text(HERE / "result.md", f"""\
# Result: ZeRO-Infinity Fig. 6b, largest hidden size by tiling factor

{result_table(published, surveys)}
{common.paragraph(f"With F x F tiles per weight and pieces of {MAIN}: {verdicts.count('right')} of "
                  f"{len(verdicts)} right, {verdicts.count('pessimistic')} pessimistic, "
                  f"{verdicts.count('OPTIMISTIC ERROR')} optimistic.")}

## What a tiling factor F is

The paper does not say.  The right ones of four, by reading:

{reading_table(published, surveys)}
{common.paragraph('''The software splits a weight by its inputs and by its outputs (README.md), and
what the published points say themselves settles how:''')}

{published_table(published)}
{common.paragraph('''With F tiles per weight, a tile of 2 GiB would have been served with factors 4
and 16 and refused with factor 1.  With the released script's tiles, one of 0.5 GiB would have been
served without tiling and refused with it.  With F x F tiles one limit, anywhere from 0.5 to 2 GiB,
gives all four points, and the paper's 2 GB is one.  So the points were used to tell the readings
apart, and they hold no more than that.''')}

## Verdicts with pieces of {MAIN}

In brackets: the largest contiguous request, GiB.

{verdict_table(main)}
## What the model lacks

{common.bullets(
    "The planner fetches a weight together with its bias and the norm before it, as one unit in "
    "one buffer; DeepSpeed fetches each parameter alone.  With pieces of exactly 2 GiB that "
    "refuses a tile of exactly 2 GiB, which DeepSpeed would be served, and with 1 MiB more it does "
    "not.",
    "Factor 16 says only that 64K fits: no larger model was tried.")}""")
    common.write_csv(
        HERE / "result.csv",
        ["piece", "tiles_per_weight", "tiling_factor", "published_hidden_k", "predicted_hidden_k",
         "verdict", "largest_request_gib_at_published"],
        [[p, r, f, v, largest(surveys[p, r][f]), judgement(largest(surveys[p, r][f]), v),
          surveys[p, r][f][v]["tiers"]["gpu"]["largest_request_bytes"] / 2**30]
         for p in PIECES for r in READINGS for f, v in published.items()])


def plot(published, surveys):
    rows = [[i, str(f), v] + [largest(surveys[p, MAIN_READING][f]) for p in PIECES]
            for i, (f, v) in enumerate(published.items())]
    common.gnuplot(HERE / "plot.svg", f"""
set title 'ZeRO-Infinity Fig. 6b: largest hidden size, GPU memory in 2 GB pieces' font ',16'
set xlabel 'tiling factor'
set ylabel 'hidden size'
set logscale y 2
set yrange [4:128]
set ytics ('4K' 4, '8K' 8, '16K' 16, '32K' 32, '64K' 64, '128K' 128)
set xrange [-0.6:{len(rows) - 0.4}]
set boxwidth 0.5
set style fill solid 0.35 noborder
set key top left
plot $rows using 1:3:xtic(2) with boxes lc rgb '{common.PUBLISHED}' title 'published', \\
     $rows using ($1-0.12):4 with points pt 7 ps 1.2 lc rgb '{common.ENGINE}' \\
         title 'predicted, pieces of 2 GiB', \\
     $rows using 1:5 with points pt 5 ps 1.1 lc rgb '{common.CLOSED_FORM}' \\
         title 'predicted, pieces of 2 GB', \\
     $rows using ($1+0.12):6 with points pt 9 ps 1.2 lc rgb '{common.OTHER}' \\
         title 'predicted, pieces of 2 GiB and 1 MiB'
""", {"rows": rows})


def main():
    published = {int(r["tiling_factor"]): int(r["max_hidden_k"])
                 for r in common.read_csv(HERE / "published.csv")}
    surveys = {(p, r): survey(gib, r, published) for p, gib in PIECES.items() for r in READINGS}
    write(published, surveys)
    plot(published, surveys)


if __name__ == "__main__":
    main()
