/*
 * backend.h - what computes in a run: what was asked for, or what all its ranks can run on.
 */
#ifndef MW_CLI_RUN_BACKEND_H
#define MW_CLI_RUN_BACKEND_H

#include "exec/device/backend.h"
#include "exec/ranks/ranks.h"

/* What --backend names; NULL for auto and for NULL. */
bool cli_run_backend_read(const char *name, const struct mw_backend **backend, GError **error);

/* *backend is what was asked for: false with an error where it does not take this rank.  NULL is
 * auto: then what is best where it takes every rank, else cores; one rank says why not, in a line.
 * All ranks call, with alike requests. */
bool cli_run_backend_choose(const struct mw_backend **backend, struct mw_ranks *ranks,
                            GError **error);

#endif
