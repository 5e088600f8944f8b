/*
 * measure.h - a point's plan on this machine: `memwall run --json` as a child process, which gets
 * the point's options and those of the run's own.
 *
 * The machine is what is measured, so one run goes on at a time.  A child ends with its parent.
 */
#ifndef MW_CLI_SWEEP_MEASURE_H
#define MW_CLI_SWEEP_MEASURE_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

#include "lib/memwall.h"
#include "study/study.h"

/* What a run's options are worth shows in the first run.  One thread at a time makes runs; others
 * may read `refused` by g_atomic_pointer_get. */
struct cli_measure_first {
    bool is_over;    /* a run was not refused for its options, or may have been */
    GError *refused; /* what the first one said of them; NULL: nothing */
};

struct cli_measure {
    char **options; /* of run, as it takes them; they have no value of a question */
    double limit_s; /* after which a run is ended; INFINITY: none is */
    struct cli_measure_first *first; /* the caller's */
};

struct cli_measured {
    double step_s, fastest_s, slowest_s; /* of all steps but the first: the median, and the ends */
    double tokens_per_s;
    double share; /* of the predicted rate */
    int64_t steps;
};

/* Whether the options are of runs alone, and whether an axis may have the name: run takes it. */
bool cli_measure_check_options(const struct cli_measure *measure, GError **error);
bool cli_measure_check_axis(const char *name, GError **error);
/* False with *error, which says what the run said. */
bool cli_measure_point(const struct cli_measure *measure, const struct memwall_question *question,
                       const struct mw_result *predicted, struct cli_measured *out, GError **error);

/* The names and the cells of its columns, each with a comma behind it; NULL: nothing was
 * measured. */
void cli_measure_names_write(FILE *out);
void cli_measure_cells_write(FILE *out, const struct cli_measured *measured);

#endif
