/*
 * compare.h - predicted against measured: the step, its lanes, phases and operators, and op by op.
 *
 * Both clocks ran the same plan, so every op has a predicted and a measured time.  Measured figures
 * are medians over the steps that mw_measured_steps gives.  The time of an op runs from start to
 * end: an op that shares a channel, or waits for its match, takes longer.
 */
#ifndef MW_REPORT_COMPARE_H
#define MW_REPORT_COMPARE_H

#include "report/measured.h"
#include "study/result.h"

struct mw_pair {
    double predicted_s, measured_s;
};

struct mw_compare_lane {
    uint32_t lane, ops;
    struct mw_pair busy, exposed; /* as in struct mw_result_lane; measured: rank 0's */
    double *busy_s, *exposed_s;   /* [ranks] measured */
};

struct mw_compare_phase {
    const char *name;
    struct mw_pair takes;
};

struct mw_compare_operator { /* ops of one kind, object, operator and phase */
    uint8_t kind, object, operator_, phase;
    const char *name; /* mw_work_name */
    uint32_t ops;
    struct mw_pair sum; /* of their times */
};

struct mw_compare_op {
    uint32_t op;
    struct mw_pair takes; /* in all rounds of the sections that it is in */
};

#define MW_COMPARE_PHASES 3
#define MW_COMPARE_OPS_MAX 20

struct mw_compare {
    const struct mw_plan *plan; /* borrowed */
    uint32_t ranks;             /* ranks with measurements: 1 or all */
    uint32_t steps;             /* number of steps in the medians */
    int64_t stolen;             /* steps after the first from which the hypervisor took time */
    bool all_stolen;            /* there are no others, so they are used; else left out */
    int64_t typical_step;       /* the step whose timeline is shown; from 0 */
    double fastest_s, slowest_s;
    struct mw_pair step;
    double idle_s;             /* measured: time per step with no op in flight */
    struct mw_pair first_step; /* for this plan; predicted is NAN if another plan precedes it */
    double naive_s; /* FLOPs over the profile's matrix rate, to be beaten; NAN: unknown */
    struct mw_compare_lane *lanes; /* those with ops, in the plan's order */
    uint32_t lane_count;
    struct mw_compare_phase phases[MW_COMPARE_PHASES];
    uint32_t phase_count;
    struct mw_compare_operator *operators; /* largest difference first */
    uint32_t operator_count;
    struct mw_compare_op ops[MW_COMPARE_OPS_MAX]; /* the largest differences, largest first */
    uint32_t op_count;
};

/* `predicted` has plan and timeline; the plan is for one rank, and `measured` has at least one
 * step. */
struct mw_compare *mw_compare_new(const struct mw_result *predicted,
                                  const struct mw_measured *measured, double naive_s);
/* What a rank sends to rank 0 about itself; `step` is one of those that count. */
struct mw_measured_rank mw_compare_rank(const struct mw_plan *plan,
                                        const struct mw_measured *measured, int64_t step);
void mw_compare_free(struct mw_compare *compare); /* NULL is allowed */

/* Error of a prediction against its measurement: +0.1 is 10% too long. */
double mw_pair_error(struct mw_pair pair);

#endif
