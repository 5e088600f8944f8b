/*
 * closed_form.h - which estimated rows the engine checks: the Pareto front of step time and cost,
 * and rows drawn at random, always the same ones; and how far the two are apart.
 */
#ifndef MW_CLI_SWEEP_CLOSED_FORM_H
#define MW_CLI_SWEEP_CLOSED_FORM_H

#include "report/rows.h"
#include <stdint.h>

struct cli_checks;

/* Chooses among the rows. */
struct cli_checks *cli_checks_new(const struct mw_rows *rows);
int64_t cli_checks_count(const struct cli_checks *checks);
/* Index of a checked row among all. */
int64_t cli_checks_row(const struct cli_checks *checks, int64_t index);
/* Takes the row that the engine checked. */
void cli_checks_take(struct cli_checks *checks, int64_t index, char *row);

/* While all rows are read in order: gives the checked row in place of the next one, which it takes;
 * or that one. */
void cli_checks_rewind(struct cli_checks *checks);
char *cli_checks_replace(struct cli_checks *checks, char *row);

/* Prints how far engine and closed form are apart. */
void cli_checks_tell(const struct cli_checks *checks);
void cli_checks_free(struct cli_checks *checks); /* NULL is allowed */

#endif
