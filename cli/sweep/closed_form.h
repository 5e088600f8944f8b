/*
 * closed_form.h - which estimated rows the engine checks: the Pareto front of step time and cost,
 * and rows drawn at random, always the same ones; and how far the two are apart.
 */
#ifndef MW_CLI_SWEEP_CLOSED_FORM_H
#define MW_CLI_SWEEP_CLOSED_FORM_H

#include "cli/sweep/sweep.h"
#include "report/rows.h"

struct cli_checks;

/* The first rank chooses among the rows, whose points are `points`, and keeps in *checks what all
 * ranks compute; the others leave it NULL.  Rows and points are the first rank's. */
bool cli_checks_compute(const struct cli_sweep *sweep, struct mw_ranks *ranks, int threads,
                        const struct mw_rows *rows, const int64_t *points,
                        struct cli_checks **checks, GError **error);

/* While all rows are read in order: gives the checked row in place of the next one, which it takes;
 * or that one. */
void cli_checks_rewind(struct cli_checks *checks);
char *cli_checks_replace(struct cli_checks *checks, char *row);

/* Prints how far engine and closed form are apart. */
void cli_checks_tell(const struct cli_checks *checks);
void cli_checks_free(struct cli_checks *checks); /* NULL is allowed */

#endif
