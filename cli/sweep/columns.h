/*
 * columns.h - the columns of rows that are wanted, in the order in which they are named.
 */
#ifndef MW_CLI_SWEEP_COLUMNS_H
#define MW_CLI_SWEEP_COLUMNS_H

#include <stdbool.h>

#include "report/rows.h"

/* `list` is "NAME,NAME"; a name of an axis goes without "over." too, and `over` is all axes. */
bool cli_columns_check(const char *list, const char *names, GError **error);

struct cli_columns;

/* Rows with these columns alone, of rows that have them; both must outlive it. */
struct cli_columns *cli_columns_new(const char *list, const struct mw_rows *all);
struct mw_rows cli_columns_rows(struct cli_columns *columns);
void cli_columns_free(struct cli_columns *columns);

#endif
