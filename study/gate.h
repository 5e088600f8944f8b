/*
 * gate.h - whether predictions and measured runs are within tolerances of a baseline, and what
 * moved them.
 *
 * A prediction is a case: its figures, and its lanes.  Cases of two sides are paired by their
 * names.  A measured run is a series of steps, each with the times of its parts, where its log has
 * them.  Figures are SI; what is not known is NAN.
 */
#ifndef MW_STUDY_GATE_H
#define MW_STUDY_GATE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "study/robust.h"

/* --- figures of a prediction ------------------------------------------------------------------ */

enum mw_gate_unit { MW_GATE_FITS, MW_GATE_SECONDS, MW_GATE_BYTES, MW_GATE_COUNT, MW_GATE_USD };

struct mw_gate_figure {
    const char *name;  /* in a row of a sweep, in a baseline, and where a tolerance is set */
    const char *title; /* in tables */
    enum mw_gate_unit unit;
    bool more_is_worse;
    const char *tier; /* whose peak it is; NULL: no peak */
};

#define MW_GATE_FIGURES 11
extern const struct mw_gate_figure mw_gate_figures[MW_GATE_FIGURES];
/* Index of a name; -1: no figure has it. */
int mw_gate_figure_find(const char *name);

struct mw_gate_lane {
    char *name;
    double busy_s, exposed_s; /* as in struct mw_result_lane */
};

struct mw_gate_memory { /* what one purpose holds in one tier */
    char *tier, *purpose;
    int64_t bytes;
};

struct mw_gate_case {
    char *name;
    char *error; /* why it is refused; NULL: it is answered */
    double figures[MW_GATE_FIGURES];
    char *strategy, *bottleneck; /* or NULL */
    GArray *lanes;               /* of struct mw_gate_lane; may be empty */
    GArray *memory;              /* of struct mw_gate_memory; may be empty */
    char **question;             /* "NAME=VALUE", by which it is asked anew; NULL: not known */
    double gpus, global_batch, tokens_per_step; /* for comparing with a run */
};

struct mw_gate_case *mw_gate_case_new(void);
void mw_gate_case_free(void *one);

/* --- steps of a run --------------------------------------------------------------------------- */

/* What a log says of a step: its time, or a rate, of which `time_s` is then the reciprocal. */
enum mw_gate_measure { MW_GATE_STEP_TIME, MW_GATE_TOKENS_PER_GPU, MW_GATE_SAMPLES };

#define MW_GATE_PARTS_MAX 64

struct mw_gate_part { /* a lane, a phase or a timer */
    char *name;
    int parent;     /* the part that contains it; -1: the step does */
    double *time_s; /* [count] */
};

struct mw_gate_steps {
    const char *format; /* static */
    enum mw_gate_measure measure;
    uint32_t count;
    int64_t *step;
    double *time_s; /* all above 0 */
    struct mw_gate_part parts[MW_GATE_PARTS_MAX];
    int part_count;
    double sequences;   /* per step; NAN: not known */
    double predicted_s; /* that the run itself had; NAN: none */
    const char *rare;   /* why a log may have few steps; static, or NULL */
    uint32_t left_out;  /* lines without a usable time */
    bool cut;           /* the last line was not whole, and is left out */
    bool first_apart;   /* the first step is not among them */
};

void mw_gate_steps_free(struct mw_gate_steps *steps);

/* --- limits ----------------------------------------------------------------------------------- */

struct mw_gate_limits {
    double worse[MW_GATE_FIGURES]; /* by how much a figure may be worse: 0.03 is 3% */
    double drop;                   /* of a run's speed */
    double of_predicted;           /* least share of the predicted speed; NAN: any */
    bool either_way;               /* better is a difference too */
    int64_t warm_up;               /* steps to leave out; -1: by their number */
    int64_t steps_min;             /* for a verdict */
};

#define MW_GATE_WORSE 0.03
#define MW_GATE_STEPS_MIN 10

/* --- verdicts --------------------------------------------------------------------------------- */

struct mw_gate_moved { /* a figure beyond its tolerance, or a case that is gone or is refused now */
    const struct mw_gate_case *before, *after; /* NULL: there is none */
    int figure;                                /* -1: the case as a whole */
    double change; /* +0.05: 5% more; INFINITY: from 0; NAN: of the whole */
    bool worse;
    char *because; /* the lane, or what else moved it; NULL: not known */
};

struct mw_gate_verdict {
    bool failed;
    GArray *moved; /* of struct mw_gate_moved, in the order of the baseline */
    uint32_t compared, added;
};

/* Compares cases; both are borrowed.  MW_ERROR_INVALID: they have none in common. */
struct mw_gate_verdict *mw_gate_cases(GPtrArray *before, GPtrArray *after,
                                      const struct mw_gate_limits *limits, GError **error);
void mw_gate_verdict_free(struct mw_gate_verdict *verdict);

struct mw_gate_side { /* of a run */
    const struct mw_gate_steps *steps;
    uint32_t used, warm_up;
    double median_s;
};

struct mw_gate_speed {
    bool failed, undecided;            /* undecided: the limit is within the interval */
    struct mw_gate_side before, after; /* before.steps NULL: there is no baseline */
    struct mw_robust_interval speed;   /* after / before */
    bool slower, faster;               /* beyond the tolerance; faster: with either_way */
    int part;                          /* index in after->parts of what grew most; -1: not known */
    double part_before_s, part_after_s, part_share; /* of the growth of the step */
    struct mw_robust_interval of_predicted;         /* value NAN: not asked for */
    bool below_predicted;
};

/* Compares the steps of a run with those of another one (may be NULL) and with a prediction (NAN:
 * none; predicted_s is in the run's measure).  MW_ERROR_INVALID: too few steps, or unlike
 * measures. */
bool mw_gate_runs(const struct mw_gate_steps *before, const struct mw_gate_steps *after,
                  double predicted_s, const struct mw_gate_limits *limits,
                  struct mw_gate_speed *out, GError **error);
/* What a prediction expects of a log's measure; NAN: it cannot be said. */
double mw_gate_expected_s(const struct mw_gate_case *predicted, const struct mw_gate_steps *steps);

#endif
