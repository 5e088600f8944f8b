/* What a gate found, as text. */
#include "report/gate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/format.h"
#include "report/table.h"
#include "report/wrap.h"

bool
mw_gate_failed(const struct mw_gate_report *report)
{
    return report->cases ? report->cases->failed : report->runs->failed;
}

/* --- predictions ----------------------------------------------------------------------------- */

static const char *
figure_text(int figure, double value)
{
    switch (mw_gate_figures[figure].unit) {
    case MW_GATE_FITS:
        return value > 0 ? "yes" : "no";
    case MW_GATE_SECONDS:
        return mw_format_seconds(value);
    case MW_GATE_BYTES:
        return mw_format_gib(value);
    case MW_GATE_USD:
    case MW_GATE_COUNT: /* the title has its unit */
        break;
    }
    return mw_format_significant(value);
}

static char *
signed_percent(double change)
{
    return isfinite(change) ? g_strdup_printf("%+.*f%%", fabs(change) < 0.01 ? 2 : 1, 100 * change)
                            : g_strdup("from 0");
}

static const struct mw_gate_moved *
moved_at(const struct mw_gate_verdict *verdict, guint index)
{
    return &g_array_index(verdict->moved, struct mw_gate_moved, index);
}

/* Whether the same explains the figure before, of the same case. */
static bool
is_said(const struct mw_gate_verdict *verdict, guint index)
{
    const struct mw_gate_moved *last = index ? moved_at(verdict, index - 1) : NULL;

    return last && last->before == moved_at(verdict, index)->before &&
           !g_strcmp0(last->because, moved_at(verdict, index)->because);
}

char *
mw_gate_moved_text(const struct mw_gate_verdict *verdict, guint index)
{
    const struct mw_gate_moved *moved = moved_at(verdict, index);
    const char *because = is_said(verdict, index) ? NULL : moved->because;

    if (moved->figure < 0)
        return g_strdup(moved->because);
    if (isnan(moved->after->figures[moved->figure]))
        return g_strdup_printf("%s %s -> missing", mw_gate_figures[moved->figure].title,
                               figure_text(moved->figure, moved->before->figures[moved->figure]));
    g_autofree char *change = signed_percent(moved->change);
    return g_strdup_printf("%s %s -> %s%s%s%s%s%s", mw_gate_figures[moved->figure].title,
                           figure_text(moved->figure, moved->before->figures[moved->figure]),
                           figure_text(moved->figure, moved->after->figures[moved->figure]),
                           moved->figure ? " (" : "", moved->figure ? change : "",
                           moved->figure ? ")" : "", because ? ": " : "", because ? because : "");
}

static void
write_moved(FILE *out, const struct mw_gate_verdict *verdict)
{
    const struct mw_gate_case *last = NULL;

    for (guint i = 0; i < verdict->moved->len; i++) {
        const struct mw_gate_moved *moved = moved_at(verdict, i);
        g_autofree char *text = mw_gate_moved_text(verdict, i);
        if (moved->before != last) {
            g_autofree char *name = mw_one_line(moved->before->name);
            mw_table_line(out, moved->worse ? "worse" : "differs", "%s", name);
        }
        mw_table_line(out, "", "%s", text);
        last = moved->before;
    }
}

static guint
cases_that_moved(const struct mw_gate_verdict *verdict)
{
    const struct mw_gate_case *last = NULL;
    guint count = 0;

    for (guint i = 0; i < verdict->moved->len; i++) {
        const struct mw_gate_moved *moved = moved_at(verdict, i);
        count += moved->before != last;
        last = moved->before;
    }
    return count;
}

static void
write_cases(FILE *out, const struct mw_gate_report *report)
{
    const struct mw_gate_verdict *verdict = report->cases;

    mw_table_line(out, "baseline", "%s: %u prediction%s%s%s", report->baseline, report->before->len,
                  report->before->len == 1 ? "" : "s", report->wrote ? ", by memwall " : "",
                  report->wrote ? report->wrote : "");
    mw_table_line(out, "now", "%s", report->current ? report->current : "predicted anew");
    write_moved(out, verdict);
    if (verdict->added)
        mw_table_line(out, "note", "%u that the baseline does not have", verdict->added);
    if (verdict->failed)
        mw_table_line(out, "verdict", "failed: %u of %u moved beyond tolerance",
                      cases_that_moved(verdict), report->before->len);
    else
        mw_table_line(out, "verdict", "passed: %u of %u within tolerance", report->before->len,
                      report->before->len);
}

/* --- runs ------------------------------------------------------------------------------------ */

/* A step's time, or the rate that it is the reciprocal of. */
static char *
level_text(const struct mw_gate_steps *steps, double time_s)
{
    if (steps->measure == MW_GATE_STEP_TIME)
        return g_strdup(mw_format_seconds(time_s));
    return g_strdup_printf("%s %s", mw_format_significant(1 / time_s),
                           steps->measure == MW_GATE_SAMPLES ? "samples/s" : "tokens/s per GPU");
}

static void
write_side(FILE *out, const char *label, const char *path, const struct mw_gate_side *side)
{
    g_autofree char *level = level_text(side->steps, side->median_s);

    mw_table_line(out, label, "%s (%s): median %s of %u steps, after %u of warm-up%s", path,
                  side->steps->format, level, side->used, side->warm_up,
                  side->steps->cut ? "; its last line is cut off, and left out" : "");
    if (side->steps->left_out)
        mw_table_line(out, "note", "%s: %u steps have no usable time", path, side->steps->left_out);
}

/* "96.1% (95.0% .. 97.3%, 95% confidence)". */
static char *
interval_text(const struct mw_robust_interval *of)
{
    g_autofree char *sure = of->slow ? g_strdup("noise lasts too long to say how sure")
                            : isnan(of->confidence)
                                ? g_strdup("of too few steps to say how sure")
                                : g_strdup_printf("%.0f%% confidence", 100 * of->confidence);

    return g_strdup_printf("%s (%s .. %s, %s)", mw_format_percent(of->value),
                           mw_format_percent(of->low), mw_format_percent(of->high), sure);
}

char *
mw_gate_part_text(const struct mw_gate_speed *speed)
{
    const struct mw_gate_steps *steps = speed->after.steps;

    if (!speed->before.steps || !(speed->after.median_s > speed->before.median_s))
        return NULL;
    if (!steps->part_count || !speed->before.steps->part_count)
        return g_strdup("the logs do not say which part of a step grew");
    if (speed->part < 0)
        return g_strdup("no part of a step explains it");
    const struct mw_gate_part *part = &steps->parts[speed->part];
    return g_strdup_printf("%s%s%s grew most: %s -> %s, %.0f%% of what the step grew", part->name,
                           part->parent < 0 ? "" : " of ",
                           part->parent < 0 ? "" : steps->parts[part->parent].name,
                           mw_format_seconds(speed->part_before_s),
                           mw_format_seconds(speed->part_after_s), 100 * speed->part_share);
}

static const char *
outcome(const struct mw_gate_speed *speed)
{
    return speed->slower            ? "failed: slower than the baseline"
           : speed->below_predicted ? "failed: below the share of the predicted speed"
           : speed->faster          ? "failed: faster than the baseline"
           : speed->undecided ? "undecided, and so not failed: the range reaches beyond the limit"
                              : "passed";
}

/* What would have failed, had the range been as wide about it. */
static void
write_shown(FILE *out, const struct mw_gate_report *report)
{
    const struct mw_robust_interval *speed = &report->runs->speed,
                                    *of = &report->runs->of_predicted;
    const double least = 1 - report->limits->drop, share = report->limits->of_predicted;

    if (isfinite(speed->value) && speed->low < least)
        mw_table_line(out, "", "the smallest drop that these logs could show is %s; %s",
                      mw_format_percent(1 - least * speed->value / speed->high),
                      speed->slow ? "logs of a quiet machine show less, or longer ones"
                                  : "more steps show less");
    if (isfinite(of->value) && of->low < share)
        mw_table_line(out, "", "these logs could show a share below %s of the predicted speed",
                      mw_format_percent(share * of->value / of->high));
}

#define FAST 1.2 /* of the predicted speed: more is no merit of the run, but another question */

static void
write_runs(FILE *out, const struct mw_gate_report *report)
{
    const struct mw_gate_speed *speed = report->runs;
    g_autofree char *part = mw_gate_part_text(speed);

    if (speed->before.steps)
        write_side(out, "baseline", report->baseline, &speed->before);
    write_side(out, "now", report->current, &speed->after);
    if (isfinite(speed->speed.value)) {
        g_autofree char *text = interval_text(&speed->speed);
        mw_table_line(out, "speed", "%s of the baseline's; at least %s is wanted", text,
                      mw_format_percent(1 - report->limits->drop));
    }
    if (part && (speed->slower || speed->undecided))
        mw_table_line(out, "lane", "%s", part);
    if (isfinite(speed->of_predicted.value)) {
        g_autofree char *text = interval_text(&speed->of_predicted);
        mw_table_line(out, "predicted", "%s of the predicted speed; at least %s is wanted", text,
                      mw_format_percent(report->limits->of_predicted));
        if (speed->of_predicted.value > FAST)
            mw_table_line(out, "warning",
                          "more than %s of the predicted speed: is the prediction of this run?",
                          mw_format_percent(FAST));
    }
    mw_table_line(out, "verdict", "%s", outcome(speed));
    if (speed->undecided)
        write_shown(out, report);
}

void
mw_gate_text_write(FILE *out, const struct mw_gate_report *report)
{
    if (report->cases)
        write_cases(out, report);
    else
        write_runs(out, report);
}

/* --- findings -------------------------------------------------------------------------------- */

static void
clear_finding(void *data)
{
    struct mw_gate_finding *finding = data;

    g_free(finding->name);
    g_free(finding->message);
}

/* All that moved in one case, on one line. */
static struct mw_gate_finding
finding_of_case(const struct mw_gate_report *report, const struct mw_gate_case *one)
{
    g_autoptr(GString) all = g_string_new(NULL);

    for (guint i = 0; i < report->cases->moved->len; i++) {
        if (moved_at(report->cases, i)->before != one)
            continue;
        g_autofree char *text = mw_gate_moved_text(report->cases, i);
        g_string_append_printf(all, "%s%s", all->len ? "; " : "", text);
    }
    return (struct mw_gate_finding){mw_one_line(one->name), all->len ? mw_one_line(all->str) : NULL,
                                    all->len > 0};
}

/* `bound` is the least that is wanted, or the most where all of the interval is above it. */
static void
add_run(GArray *findings, const char *name, const struct mw_robust_interval *of, double bound,
        bool failed, const char *because)
{
    g_autofree char *text = interval_text(of);
    bool doubtful = !failed && of->low < bound;
    struct mw_gate_finding finding = {g_strdup(name), NULL, failed};

    if (failed || doubtful)
        finding.message = g_strdup_printf(
            "%s, at %s %s is wanted%s%s", text, failed && of->low > bound ? "most" : "least",
            mw_format_percent(bound), because ? ": " : "", because ? because : "");
    g_array_append_val(findings, finding);
}

GArray *
mw_gate_findings(const struct mw_gate_report *report)
{
    GArray *findings = g_array_new(FALSE, TRUE, sizeof(struct mw_gate_finding));
    const struct mw_gate_speed *speed = report->runs;

    g_array_set_clear_func(findings, clear_finding);
    for (guint i = 0; report->cases && i < report->before->len; i++) {
        struct mw_gate_finding finding = finding_of_case(report, report->before->pdata[i]);
        g_array_append_val(findings, finding);
    }
    if (speed && isfinite(speed->speed.value)) {
        g_autofree char *part = mw_gate_part_text(speed);
        double drop = report->limits->drop;
        add_run(findings, "speed of the baseline", &speed->speed,
                speed->faster ? 1 + drop : 1 - drop, speed->slower || speed->faster, part);
    }
    if (speed && isfinite(speed->of_predicted.value))
        add_run(findings, "share of the predicted speed", &speed->of_predicted,
                report->limits->of_predicted, speed->below_predicted, NULL);
    return findings;
}
