/* Step time over each bandwidth, and the bandwidth that an efficiency needs, for the same plan. */
#include <math.h>

#include "base/progress.h"
#include "hardware/scale.h"
#include "study/advice.h"
#include "study/evaluate.h"
#include "study/known_steps.h"

#define SEARCH_STEPS 14
#define LARGEST_FACTOR 1024.0

#define AT(field) offsetof(struct mw_hardware, field)
#define NO_FIGURE SIZE_MAX

/* `figure`: of the figures that are scaled together, the one whose bytes/s are shown. */
static const struct {
    const char *name;
    enum mw_hw_rate rate;
    size_t figure;
} rates[] = {
    {"NVMe bandwidth (a node)", MW_HW_RATE_NVME, AT(nvme_read_bytes_per_s)},
    {"PCIe bandwidth (a node)", MW_HW_RATE_PCIE, AT(pcie_node_h2d_bytes_per_s)},
    {"host memory and cores (a node)", MW_HW_RATE_HOST, AT(host_memory_bytes_per_s)},
    {"network bandwidth (a node)", MW_HW_RATE_NETWORK, AT(nic_bytes_per_s)},
    {"GPU-GPU bandwidth in a node", MW_HW_RATE_FABRIC, AT(fabric_bytes_per_s)},
    {"GPU memory bandwidth", MW_HW_RATE_GPU_MEMORY, AT(gpu_memory_bytes_per_s)},
    {"GPU matrix rate", MW_HW_RATE_PRODUCTS, NO_FIGURE},
};
#define RATES ((int)G_N_ELEMENTS(rates))

/* The figure of a rate that has one. */
static double
figure_of(const struct mw_hardware *hardware, int rate)
{
    return *(const double *)(const void *)((const char *)hardware + rates[rate].figure);
}

static double
scaled_step_s(const struct mw_question *question, const struct mw_answer *answer, int rate,
              double factor)
{
    struct mw_hardware hw = question->hardware[MW_OUTLOOK_TYPICAL];

    mw_hardware_scale_rate(&hw, rates[rate].rate, factor);
    return mw_cycle_s(answer->known, answer->variants, &hw, false);
}

/* The smallest factor on this rate that brings the step to `target_s`; NAN if this rate alone
 * cannot, 0 if almost none is needed (a network that one node does not use). */
static double
needed_factor(const struct mw_question *question, const struct mw_answer *answer, int rate,
              double target_s)
{
    double low = log(1 / LARGEST_FACTOR), high = log(LARGEST_FACTOR);

    if (scaled_step_s(question, answer, rate, 1 / LARGEST_FACTOR) <= target_s)
        return 0;
    if (scaled_step_s(question, answer, rate, LARGEST_FACTOR) > target_s)
        return NAN;
    for (int i = 0; i < SEARCH_STEPS; i++) {
        double middle = (low + high) / 2;
        if (scaled_step_s(question, answer, rate, exp(middle)) > target_s)
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

    for (int k = 0; k < RATES; k++) {
        double present = rates[k].figure == NO_FIGURE ? 0 : figure_of(hw, k);
        if (present <= 0)
            continue;
        mw_progress("bandwidth needed: rate %d of %d", k + 1, RATES);
        for (size_t e = 0; e < G_N_ELEMENTS(efficiencies); e++) {
            double factor = needed_factor(question, answer, k, ideal_s / efficiencies[e]);
            if (factor == 0)
                continue;
            struct mw_result_need need = {g_strdup(rates[k].name), efficiencies[e],
                                          factor * present, present};
            g_array_append_val(needs, need);
        }
    }
}

/* Drives can be bought: adds a row for one more of the same kind. */
static void
add_drive_row(const struct mw_question *question, const struct mw_answer *answer, GArray *rows)
{
    int64_t drives = question->hardware[MW_OUTLOOK_TYPICAL].nvme_drives;
    struct mw_result_what_if row = {.factor = (double)(drives + 1) / drives};
    struct mw_hardware hw = question->hardware[MW_OUTLOOK_TYPICAL];

    if (drives <= 0)
        return;
    mw_hardware_scale_part(&hw, MW_HW_PART_DRIVES, row.factor);
    row.what = g_strdup_printf("one more drive (%" G_GINT64_FORMAT " for %" G_GINT64_FORMAT ")",
                               drives + 1, drives);
    row.step_time_s = mw_cycle_s(answer->known, answer->variants, &hw, false);
    g_array_append_val(rows, row);
}

/* No bandwidth shortens latency; only fewer or faster hops do. */
static void
add_latency_rows(const struct mw_question *question, const struct mw_answer *answer, GArray *rows)
{
    static const double factors[] = {2, 0.5, 0};

    if (!(answer->result->collective_latency_s > 0))
        return;
    for (size_t f = 0; f < G_N_ELEMENTS(factors); f++) {
        struct mw_hardware hw = question->hardware[MW_OUTLOOK_TYPICAL];
        mw_hardware_scale_rate(&hw, MW_HW_RATE_HOP, factors[f]);
        struct mw_result_what_if row = {g_strdup("collective latency"), factors[f],
                                        mw_cycle_s(answer->known, answer->variants, &hw, false)};
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

    for (int k = 0; k < RATES; k++) {
        const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
        if (rates[k].figure != NO_FIGURE && figure_of(hw, k) <= 0)
            continue;
        mw_progress("what if one rate were different: rate %d of %d", k + 1, RATES);
        for (size_t f = 0; f < G_N_ELEMENTS(factors); f++) {
            struct mw_result_what_if row = {g_strdup(rates[k].name), factors[f],
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
