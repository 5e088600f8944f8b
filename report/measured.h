/*
 * measured.h - what a run did: when every op of its steps ran, for as many steps as are kept, and
 * the file that holds it.
 *
 * A step lasts from the end of the previous step to its own end, as in the engine's steady state.
 * If it was only allowed to begin later, it lasts from that time on: nothing ran in between.  The
 * first step of a run creates what later steps reuse, so it is kept apart.  In a long run only
 * every 2nd, 4th, ... later step is kept, so that the kept steps span the whole run.
 */
#ifndef MW_REPORT_MEASURED_H
#define MW_REPORT_MEASURED_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "plan/plan.h"

#define MW_MEASURED_STEPS_MAX 64

/* "a run, as `memwall run {save-timeline}` writes it", spelled out: what messages ask for.  Lives
 * as long as the process. */
const char *mw_run_wanted(void);

struct mw_measured_step {
    int64_t step; /* of the run, from 0 */
    int64_t time_ns;
    bool stolen;                 /* the hypervisor took time from it */
    struct mw_timeline timeline; /* a row per op of the unfolded plan, in their order */
};

/* What another rank did in the same steps, by its own clock. */
struct mw_measured_rank {
    uint32_t lane_count;           /* of the plan */
    int64_t *busy_ns, *exposed_ns; /* [lane_count] medians over the steps that count; g_free */
    struct mw_timeline timeline;   /* of rank 0's typical step; rows: g_free */
};

struct mw_measured {
    uint32_t op_count; /* of the unfolded plan */
    int64_t seen;      /* steps of the run so far */
    int64_t stolen;    /* steps after the first from which the hypervisor took time */
    struct mw_measured_step first;
    struct mw_measured_step later[MW_MEASURED_STEPS_MAX];
    uint32_t count;                 /* number of later steps kept */
    struct mw_measured_rank *ranks; /* ranks 1, 2, ...; the rest of the struct is rank 0's */
    uint32_t rank_count;
    int64_t stride; /* private, as is the next */
    int64_t last_end_ns;
};

struct mw_measured *mw_measured_new(uint32_t op_count);
void mw_measured_free(struct mw_measured *measured); /* NULL is allowed */

/* Appends a step: op_count rows, copied.  Step 0 starts a new run with a new clock.  Returns the
 * time of the step. */
int64_t mw_measured_add(struct mw_measured *measured, const struct mw_timeline *timeline);
/* The same for a step that was allowed to begin at a time of the timeline's clock (0: at once), and
 * that may have lost time to the hypervisor.  Such steps are kept only if all later ones lost time
 * too. */
int64_t mw_measured_add_step(struct mw_measured *measured, const struct mw_timeline *timeline,
                             int64_t let_in_ns, bool stolen);
/* Whether all steps that count lost time to the hypervisor. */
bool mw_measured_all_stolen(const struct mw_measured *measured);

/* Takes ownership of the rank's arrays. */
void mw_measured_add_rank(struct mw_measured *measured, const struct mw_measured_rank *rank);
void mw_measured_rank_clear(struct mw_measured_rank *rank);

/* The steps that count: the later ones, or the first if there is no other; NULL without any. */
const struct mw_measured_step *mw_measured_steps(const struct mw_measured *measured,
                                                 uint32_t *count);
/* The median of their times, and the step closest to it. */
double mw_measured_median_s(const struct mw_measured *measured);
const struct mw_measured_step *mw_measured_typical(const struct mw_measured *measured);

/* The file: the plan's text, then the steps; `machine` is one line that names the machine. */
bool mw_measured_write(const struct mw_measured *measured, const struct mw_plan *plan,
                       const char *machine, FILE *out);
/* Reads the file back; its plan is checked.  On failure NULL, and *error is one line that names
 * `path`; a file that cannot be opened gives the errors of base/input.h. */
struct mw_measured *mw_measured_read(const char *path, struct mw_plan **plan, char **machine,
                                     GError **error);
/* The same from `length` bytes of text; `path` is for messages. */
struct mw_measured *mw_measured_parse(const char *text, size_t length, const char *path,
                                      struct mw_plan **plan, char **machine, GError **error);

#endif
