/* Steps of runs: whether one is slower than the other, and which part of the step is. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "study/gate.h"

#define WARM_UP_SHARE 10 /* a tenth of the steps is left out, */
#define WARM_UP_MAX 50   /* at most so many, and no step that the verdict needs */
#define INNER_SHARE 0.5  /* of what a part grew, for the part in it to be named instead */
#define TOLD_SHARE 0.2   /* of what the step grew: less does not explain it */

void
mw_gate_steps_free(struct mw_gate_steps *steps)
{
    if (!steps)
        return;
    for (int i = 0; i < steps->part_count; i++) {
        g_free(steps->parts[i].name);
        g_free(steps->parts[i].time_s);
    }
    g_free(steps->step);
    g_free(steps->time_s);
    g_free(steps);
}

/* --- sides ----------------------------------------------------------------------------------- */

static uint32_t
warm_up_of(const struct mw_gate_steps *steps, const struct mw_gate_limits *limits)
{
    if (limits->warm_up >= 0)
        return (uint32_t)MIN(limits->warm_up, steps->count);
    if (steps->count <= limits->steps_min)
        return 0;
    uint32_t share = CLAMP(steps->count / WARM_UP_SHARE, steps->first_apart ? 0 : 1, WARM_UP_MAX);
    return (uint32_t)MIN(share, steps->count - limits->steps_min);
}

static bool
take_side(const struct mw_gate_steps *steps, const char *which, const struct mw_gate_limits *limits,
          struct mw_gate_side *side, GError **error)
{
    side->steps = steps;
    side->warm_up = warm_up_of(steps, limits);
    side->used = steps->count - side->warm_up;
    side->median_s = mw_robust_median(steps->time_s + side->warm_up, side->used);
    return side->used >= limits->steps_min ||
           mw_refuse(error,
                     "%s: %" PRIu32 " steps with a time, after %" PRIu32
                     " of warm-up: too few for a verdict, which takes %" PRId64 " {min-steps}%s%s",
                     which, side->used, side->warm_up, limits->steps_min, steps->rare ? "; " : "",
                     steps->rare ? steps->rare : "");
}

static bool
check_alike(const struct mw_gate_steps *before, const struct mw_gate_steps *after, GError **error)
{
    static const char *const says[] = {"the time of a step", "tokens/s per GPU", "samples/s"};

    if (before->measure != after->measure)
        return mw_refuse(error, "the baseline (%s) has %s, the other (%s) %s", before->format,
                         says[before->measure], after->format, says[after->measure]);
    if (before->measure == MW_GATE_STEP_TIME && isfinite(before->sequences) &&
        isfinite(after->sequences) && before->sequences != after->sequences)
        return mw_refuse(error,
                         "the baseline has %g sequences in a step, the other %g: their "
                         "times say nothing about speed",
                         before->sequences, after->sequences);
    return true;
}

/* --- parts ----------------------------------------------------------------------------------- */

static double
part_median(const struct mw_gate_side *side, const char *name)
{
    for (int i = 0; i < side->steps->part_count; i++)
        if (!strcmp(side->steps->parts[i].name, name))
            return mw_robust_median(side->steps->parts[i].time_s + side->warm_up, side->used);
    return NAN;
}

static double
part_growth(const struct mw_gate_speed *speed, int part)
{
    const char *name = speed->after.steps->parts[part].name;
    double before = part_median(&speed->before, name);

    return part_median(&speed->after, name) - (isnan(before) ? 0 : before);
}

/* The part in `parent` that grew most; -1: none grew. */
static int
grew_most(const struct mw_gate_speed *speed, int parent, double *by_s)
{
    int most = -1;

    *by_s = 0;
    for (int i = 0; i < speed->after.steps->part_count; i++) {
        double growth = speed->after.steps->parts[i].parent == parent ? part_growth(speed, i) : 0;
        if (growth > *by_s) {
            *by_s = growth;
            most = i;
        }
    }
    return most;
}

/* From the step inwards, for as long as one part explains most of what the outer one grew. */
static void
name_part(struct mw_gate_speed *speed)
{
    double step_s = speed->after.median_s - speed->before.median_s, by_s, inner_s;
    int part = grew_most(speed, -1, &by_s);

    if (part < 0 || speed->after.steps->measure != MW_GATE_STEP_TIME || by_s < TOLD_SHARE * step_s)
        return;
    for (int inner; (inner = grew_most(speed, part, &inner_s)) >= 0;) {
        if (inner_s < INNER_SHARE * by_s)
            break;
        part = inner;
        by_s = inner_s;
    }
    const char *name = speed->after.steps->parts[part].name;
    speed->part = part;
    speed->part_before_s = part_median(&speed->before, name);
    speed->part_after_s = part_median(&speed->after, name);
    speed->part_share = by_s / step_s;
}

/* --- verdict --------------------------------------------------------------------------------- */

/* A speed falls where a time grows. */
static struct mw_robust_interval
inverse(struct mw_robust_interval of)
{
    return (struct mw_robust_interval){1 / of.value,  1 / of.high, 1 / of.low,
                                       of.confidence, of.blocks,   of.slow};
}

static void
compare_baseline(struct mw_gate_speed *speed, const struct mw_gate_limits *limits)
{
    const struct mw_gate_side *before = &speed->before, *after = &speed->after;
    double least = 1 - limits->drop, most = 1 + limits->drop;

    speed->speed = inverse(mw_robust_ratio(before->steps->time_s + before->warm_up, before->used,
                                           after->steps->time_s + after->warm_up, after->used));
    speed->faster = limits->either_way && speed->speed.low > most;
    speed->slower = speed->speed.high < least;
    speed->failed = speed->slower || speed->faster;
    speed->undecided = !speed->failed && speed->speed.low < least;
    if (after->median_s > before->median_s)
        name_part(speed);
}

static void
compare_predicted(struct mw_gate_speed *speed, double predicted_s,
                  const struct mw_gate_limits *limits)
{
    const struct mw_gate_side *after = &speed->after;
    struct mw_robust_interval level =
        mw_robust_level(after->steps->time_s + after->warm_up, after->used);

    speed->of_predicted = (struct mw_robust_interval){predicted_s / level.value,
                                                      predicted_s / level.high,
                                                      predicted_s / level.low,
                                                      level.confidence,
                                                      level.blocks,
                                                      level.slow};
    speed->below_predicted = speed->of_predicted.high < limits->of_predicted;
    speed->failed = speed->failed || speed->below_predicted;
    speed->undecided =
        !speed->failed && (speed->undecided || speed->of_predicted.low < limits->of_predicted);
}

bool
mw_gate_runs(const struct mw_gate_steps *before, const struct mw_gate_steps *after,
             double predicted_s, const struct mw_gate_limits *limits, struct mw_gate_speed *out,
             GError **error)
{
    *out = (struct mw_gate_speed){.part = -1, .speed.value = NAN, .of_predicted.value = NAN};
    if ((before && (!check_alike(before, after, error) ||
                    !take_side(before, "the baseline", limits, &out->before, error))) ||
        !take_side(after, before ? "the run" : "the log", limits, &out->after, error))
        return false;
    if (before)
        compare_baseline(out, limits);
    if (isfinite(predicted_s))
        compare_predicted(out, predicted_s, limits);
    return true;
}

double
mw_gate_expected_s(const struct mw_gate_case *predicted, const struct mw_gate_steps *steps)
{
    double step_s = predicted->figures[mw_gate_figure_find("step_time_s")];
    double tokens_per_s = predicted->figures[mw_gate_figure_find("tokens_per_s")];

    switch (steps->measure) {
    case MW_GATE_TOKENS_PER_GPU:
        return predicted->gpus / tokens_per_s;
    case MW_GATE_SAMPLES:
        return step_s / predicted->global_batch;
    case MW_GATE_STEP_TIME:
        /* A log that says how large a step is may be of another batch. */
        return isfinite(steps->sequences) ? step_s / predicted->global_batch * steps->sequences
                                          : step_s;
    }
    return NAN;
}
