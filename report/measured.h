/*
 * measured.h - what a run did: when every op of its steps ran, of so many steps as memory is kept
 * for, and the file that holds it.
 *
 * A step takes from the end of the step before to its own end, as the engine counts the steady
 * state; or from when it was let in, where that is later: what held it was nobody's work.  The
 * first step of a run makes what later ones reuse: it is kept apart.  Of a long run every 2nd, 4th,
 * ... later step is kept, so that what is kept spans all of it.
 */
#ifndef MW_REPORT_MEASURED_H
#define MW_REPORT_MEASURED_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "plan/plan.h"

#define MW_MEASURED_STEPS_MAX 64
#define MW_RUN_WANTED "a run, as `memwall run --save-timeline` writes it"

struct mw_measured_step {
    int64_t step; /* of the run, from 0 */
    int64_t time_ns;
    bool stolen; /* the hypervisor took time from it */
    struct mw_timeline timeline; /* a row an op, in the order of ops */
};

/* What another rank of the run did meanwhile, by its own clock. */
struct mw_measured_rank {
    uint32_t lane_count;           /* of the plan */
    int64_t *busy_ns, *exposed_ns; /* [lane_count] medians over the steps to judge by; g_free */
    struct mw_timeline timeline;   /* of rank 0's typical step; rows: g_free */
};

struct mw_measured {
    uint32_t op_count;
    int64_t seen;   /* steps of the run */
    int64_t stolen; /* of them but the first, with time that the hypervisor took */
    struct mw_measured_step first;
    struct mw_measured_step later[MW_MEASURED_STEPS_MAX];
    uint32_t count;                 /* of later */
    struct mw_measured_rank *ranks; /* of ranks 1, 2, ...; the rest is rank 0's */
    uint32_t rank_count;
    int64_t stride; /* private, as is the next */
    int64_t last_end_ns;
};

struct mw_measured *mw_measured_new(uint32_t op_count);
void mw_measured_free(struct mw_measured *measured); /* NULL is allowed */

/* The step after those before: op_count rows, copied.  A row of step 0 begins a run anew, and a
 * clock.  Returns the time of the step. */
int64_t mw_measured_add(struct mw_measured *measured, const struct mw_timeline *timeline);
/* The same of one that was let in at a time of the timeline's clock (0: at once), and that may have
 * lost time to the hypervisor: such are not kept, but where all later ones are of that kind. */
int64_t mw_measured_add_step(struct mw_measured *measured, const struct mw_timeline *timeline,
                             int64_t let_in_ns, bool stolen);
/* All steps to judge by are of that kind. */
bool mw_measured_all_stolen(const struct mw_measured *measured);

/* Takes over what the rank's arrays hold. */
void mw_measured_add_rank(struct mw_measured *measured, const struct mw_measured_rank *rank);
void mw_measured_rank_clear(struct mw_measured_rank *rank);

/* The steps to judge by: the later ones, or the first where it is alone; NULL of no steps. */
const struct mw_measured_step *mw_measured_steps(const struct mw_measured *measured,
                                                 uint32_t *count);
/* Of them: the median of their times, and the step next to it. */
double mw_measured_median_s(const struct mw_measured *measured);
const struct mw_measured_step *mw_measured_typical(const struct mw_measured *measured);

/* The file: the plan's text, then the steps; `machine` says in one line what measured them. */
bool mw_measured_write(const struct mw_measured *measured, const struct mw_plan *plan,
                       const char *machine, FILE *out);
/* Reads back what was written, the plan checked.  NULL with *error, one line that names `path`, and
 * nothing set; of no such file as base/input.h says. */
struct mw_measured *mw_measured_read(const char *path, struct mw_plan **plan, char **machine,
                                     GError **error);
/* The same of `length` bytes of text; `path` is for messages. */
struct mw_measured *mw_measured_parse(const char *text, size_t length, const char *path,
                                      struct mw_plan **plan, char **machine, GError **error);

#endif
