/*
 * backend.h - chooses the backend of a run: the requested one, or the best that all ranks can run
 * on.
 */
#ifndef MW_CLI_RUN_BACKEND_H
#define MW_CLI_RUN_BACKEND_H

#include "exec/device/backend.h"
#include "exec/ranks/ranks.h"

/* The backend that --backend names; NULL for "auto" and for NULL. */
bool cli_run_backend_read(const char *name, const struct mw_backend **backend, GError **error);

/* Checks that *backend can run this rank; false with an error if not.  NULL means auto: chooses the
 * best backend if every rank can run on it, else cores, and one rank says why.  All ranks call
 * this, with the same *backend. */
bool cli_run_backend_choose(const struct mw_backend **backend, struct mw_ranks *ranks,
                            GError **error);

#endif
