/*
 * pick.h - a pick of an answer's JSON, as a question that asks for its plan again.
 */
#ifndef MW_CLI_EXPORT_PICK_H
#define MW_CLI_EXPORT_PICK_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/memwall.h"

struct cli_pick {
    struct memwall_question *question; /* memwall_question_free it */
    int64_t gpu_peak_bytes;            /* as the file has it; -1: it does not */
};

/* `path` is what simulate, plan, run, advise or sweep wrote with --json, or "-".  `pick` names one
 * of several, as help says; NULL: the only one, or the cheapest.  False with *error in one line:
 * no such file, no such pick, or one without a plan. */
bool cli_pick_read(const char *path, const char *pick, struct cli_pick *out, GError **error);

#endif
