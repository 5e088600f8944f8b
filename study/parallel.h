/*
 * parallel.h - the fastest way to divide a training over GPUs, of all ways, with a certificate.
 *
 * A point of the space says how many tensor slices, pipeline stages and data-parallel ranks there
 * are, how many sequences a micro-batch has, in which order the stages take them, what backward
 * computes again, what is partitioned, over which ranks, and where each state rests.  Its time is
 * mw_pipeline_s.  Points are grouped: all of a *shape* have the same ranks, micro-batch and order,
 * all of a *block* also recompute the same layers.
 *
 * No point is left out but by a bound (docs/MODEL.md 10.24): of its time, which is that of another
 * point or more, or of its memory, which is more than there is.  So the fastest that is found is
 * the fastest of all.
 */
#ifndef MW_STUDY_PARALLEL_H
#define MW_STUDY_PARALLEL_H

#include "planner/settings/table.h"
#include "study/study.h"

/* Rows that are simulated, the fastest first: so many always, and no more than so many. */
#define MW_PARALLEL_SIMULATED_LEAST 4
#define MW_PARALLEL_SIMULATED 12

/* An axis that has these values alone; [count] settings of which one field counts. */
struct mw_parallel_only {
    const struct mw_setting *setting;
    struct mw_settings *values;
    int count;
};

struct mw_parallel_question {
    const struct mw_question *question; /* borrowed: model, machine, software, and the settings that
                                         * no axis has; with -s its strategies */
    const struct mw_parallel_only *only; /* [only_count], borrowed */
    int only_count;
    const char *software; /* borrowed: its name, where nobody named one; NULL: somebody did */
};

/* The fastest of all points that have as many slices and stages, and partition the same states. */
struct mw_parallel_row {
    struct mw_settings settings;
    double step_s;   /* by the closed form; INFINITY: none fits */
    double bound_s;  /* and by its bound */
    double engine_s; /* simulated; INFINITY: a step has too many ops; NAN: not tried */
    int64_t gpu_bytes, capacity_bytes; /* that it takes of the GPU's memory, of the fullest stage */
    int64_t block, variant;            /* in the order of the space */
};

struct mw_parallel {
    int64_t points;    /* of the space: the sum of all below */
    int64_t refused;   /* make no sense */
    int64_t lacking;   /* of what the software lacks */
    int64_t no_room;   /* have no room, by the bound */
    int64_t too_slow;  /* are no faster than the row of their kind, by the bound */
    int64_t unfit;     /* evaluated, and have no room */
    int64_t survivors; /* evaluated, and fit */
    int64_t shapes, blocks;
    double bound_s;               /* no point that was cut by time is faster; INFINITY: none was */
    double tokens;                /* of a step */
    int64_t batch;                /* and its sequences */
    struct mw_parallel_row *rows; /* [row_count], the fastest first; g_free it */
    int row_count;
    int fastest;           /* of the rows, as simulated; -1: none was */
    double engine_bound_s; /* no plan of such steps is simulated as faster, of any kind; NAN: no
                            * row was simulated */
    const char *software;  /* of the question, borrowed */
};
void mw_parallel_clear(struct mw_parallel *found);

/* The strategies that are tried: those that leave all on the GPU if nobody says otherwise, the
 * simplest first. */
struct mw_strategies mw_parallel_strategies(void);
/* Whether an order of micro-batches is tried: 9.20 has no time of the others. */
bool mw_parallel_tries(int schedule);
/* The name of the setting that an axis has, which the question leaves open; NULL: there is none. */
const char *mw_parallel_axis(int number);

/* False with *error: the question has no such space. */
bool mw_parallel_find(const struct mw_parallel_question *asked, struct mw_parallel *out,
                      GError **error);
/* Simulates rows, the fastest first, as long as one may be faster than those that were: its closed
 * form is, or rows take less than theirs. */
void mw_parallel_simulate(const struct mw_parallel_question *asked, struct mw_parallel *out);
/* How far the fastest row may be above the fastest of all points, as a share of it. */
double mw_parallel_gap(const struct mw_parallel *found);
/* Options of simulate that ask about a row, beside those of the question; g_free it. */
char *mw_parallel_options(const struct mw_parallel *found, const struct mw_parallel_row *row);

/* What the simulated rows say of the others, which is no proof. */
struct mw_parallel_evidence {
    int simulated;
    double least, most; /* how many times its closed form one takes */
    double floor_s;     /* that no point is faster than if none takes less than `least` times its */
    double untried_s;   /* closed form of the first row whose closed form is faster than all that
                         * were simulated, and that was not; NAN: there is none */
    int untried;        /* such rows */
};
struct mw_parallel_evidence mw_parallel_evidence_of(const struct mw_parallel *found);

#endif
