/* Step time against each bandwidth, and the bandwidth that an efficiency needs: of the same plan.
 */
#include <math.h>

#include "base/progress.h"
#include "study/advice.h"
#include "study/evaluate.h"

#define SEARCH_STEPS 14
#define LARGEST_FACTOR 1024.0

static double
scaled_step_s(const struct mw_question *question, const struct mw_answer *answer, int knob,
              double factor)
{
    struct mw_hardware hw = question->hardware[MW_OUTLOOK_TYPICAL];

    mw_knobs[knob].scale(&hw, factor);
    return mw_step_s(answer->plan, &hw, false);
}

/* The smallest factor that brings the step to `target_s`: NAN if this knob alone cannot, 0 if next
 * to nothing will do (a network that one node does not use). */
static double
needed_factor(const struct mw_question *question, const struct mw_answer *answer, int knob,
              double target_s)
{
    double low = log(1 / LARGEST_FACTOR), high = log(LARGEST_FACTOR);

    if (scaled_step_s(question, answer, knob, 1 / LARGEST_FACTOR) <= target_s)
        return 0;
    if (scaled_step_s(question, answer, knob, LARGEST_FACTOR) > target_s)
        return NAN;
    for (int i = 0; i < SEARCH_STEPS; i++) {
        double middle = (low + high) / 2;
        if (scaled_step_s(question, answer, knob, exp(middle)) > target_s)
            low = middle;
        else
            high = middle;
    }
    return exp(high);
}

static void
add_needs(const struct mw_question *question, const struct mw_answer *answer, GArray *needs)
{
    static const double efficiencies[] = {0.5, 0.7, 0.9};
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    double ideal_s = mw_flops_done(answer->sizing) / mw_achievable_flops(answer->plan, hw);

    for (int k = 0; k < mw_knob_count; k++) {
        double present = mw_knobs[k].value ? mw_knobs[k].value(hw) : 0;
        if (present <= 0)
            continue;
        mw_progress("bandwidth needed: rate %d of %d", k + 1, mw_knob_count);
        for (size_t e = 0; e < G_N_ELEMENTS(efficiencies); e++) {
            double factor = needed_factor(question, answer, k, ideal_s / efficiencies[e]);
            if (factor == 0)
                continue;
            struct mw_result_need need = {g_strdup(mw_knobs[k].name), efficiencies[e],
                                          factor * present, present};
            g_array_append_val(needs, need);
        }
    }
}

/* Drives are what can be bought: one more like those that are there. */
static void
add_drive_row(const struct mw_question *question, const struct mw_answer *answer, GArray *rows)
{
    int64_t drives = question->hardware[MW_OUTLOOK_TYPICAL].nvme_drives;
    struct mw_result_what_if row = {.factor = (double)(drives + 1) / drives};

    if (drives <= 0)
        return;
    row.what = g_strdup_printf("one more drive (%" G_GINT64_FORMAT " for %" G_GINT64_FORMAT ")",
                               drives + 1, drives);
    row.step_time_s = scaled_step_s(question, answer, MW_KNOB_NVME, row.factor);
    g_array_append_val(rows, row);
}

/* No bandwidth shortens it: fewer hops do, or faster ones. */
static void
add_latency_rows(const struct mw_question *question, const struct mw_answer *answer, GArray *rows)
{
    static const double factors[] = {2, 0.5, 0};

    if (!(answer->result->collective_latency_s > 0))
        return;
    for (size_t f = 0; f < G_N_ELEMENTS(factors); f++) {
        struct mw_hardware hw = question->hardware[MW_OUTLOOK_TYPICAL];
        hw.fabric_latency_s *= factors[f];
        hw.nic_latency_s *= factors[f];
        struct mw_result_what_if row = {g_strdup("collective latency"), factors[f],
                                        mw_step_s(answer->plan, &hw, false)};
        g_array_append_val(rows, row);
    }
}

void
mw_what_if(const struct mw_question *question, const struct mw_answer *answer)
{
    static const double factors[] = {0.5, 2, 4};
    struct mw_result *result = answer->result;
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct mw_result_what_if));
    GArray *needs = g_array_new(FALSE, FALSE, sizeof(struct mw_result_need));

    for (int k = 0; k < mw_knob_count; k++) {
        const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
        if (mw_knobs[k].value && mw_knobs[k].value(hw) <= 0)
            continue;
        mw_progress("what if one rate were different: rate %d of %d", k + 1, mw_knob_count);
        for (size_t f = 0; f < G_N_ELEMENTS(factors); f++) {
            struct mw_result_what_if row = {g_strdup(mw_knobs[k].name), factors[f],
                                            scaled_step_s(question, answer, k, factors[f])};
            g_array_append_val(rows, row);
        }
    }
    add_latency_rows(question, answer, rows);
    add_drive_row(question, answer, rows);
    add_needs(question, answer, needs);
    result->what_if_count = rows->len;
    result->what_ifs = (struct mw_result_what_if *)g_array_free(rows, FALSE);
    result->need_count = needs->len;
    result->needs = (struct mw_result_need *)g_array_free(needs, FALSE);
}
