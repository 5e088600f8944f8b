/*
 * check.h - the gate: what is compared with what, and within which limits.
 */
#ifndef MW_CLI_CHECK_CHECK_H
#define MW_CLI_CHECK_CHECK_H

#include <glib.h>
#include <stdbool.h>

#include "lib/space.h"
#include "logs/logs.h"
#include "report/gate.h"

/* Texts of the verb's own options; owned. */
struct cli_check_wish {
    char *baseline, *write_baseline, *predicted;
    char *max_drop, *of_predicted, *warm_up, *steps_min;
    char **tolerances;
    gboolean either_way;
    char **over, *points_file;
    char *junit;
    gboolean github, json;
};

bool cli_check_limits(const struct cli_check_wish *wish, struct mw_gate_limits *limits,
                      GError **error);

/* Asks the question at every point of `space`, which may have none: then as it is.  An array of
 * struct mw_gate_case; NULL with *error. */
GPtrArray *cli_check_ask(const struct memwall_question *base, const struct mw_space *space,
                         GError **error);
/* Asks the questions of the baseline's cases again; refuses to write a file that one of them
 * reads. */
GPtrArray *cli_check_ask_again(const struct cli_check_wish *wish, const GPtrArray *cases,
                               GError **error);
/* Refuses an option whose file's name is empty. */
bool cli_check_named(const char *option, const char *path, GError **error);

/* The verbs' parts; each returns the exit status.  `current` may be NULL. */
int cli_check_run(const struct cli_check_wish *wish, const char *current);
int cli_check_keep_log(const struct cli_check_wish *wish, const char *log);
int cli_check_keep_cases(const struct cli_check_wish *wish, GPtrArray *cases);

#endif
