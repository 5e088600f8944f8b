/*
 * options.h - the options that become settings of the planner: the rows of planner/settings/table.h
 * as GLib options.  Keeps the texts as they were typed, for one command line.
 */
#ifndef MW_CLI_OPTIONS_H
#define MW_CLI_OPTIONS_H

#include <glib.h>
#include <stdbool.h>

#include "cli/words.h"
#include "lib/memwall.h"

/* The groups of options for a verb; forgets the texts of the previous verb.  Help leaves out those
 * in `hidden`, which ends with NULL. */
const struct cli_words_group *cli_options_groups(const char *const *hidden);

/* Sets the given options in `question`; fails with one line naming option, value and range. */
bool cli_options_ask(struct memwall_question *question, GError **error);

/* Calls `put` for every option that was typed now or for the run that is resumed; not for those
 * that the run's plan had chosen. */
void cli_options_each(void (*put)(void *data, const char *name, const char *text), void *data);
bool cli_options_is_given(const char *name);
const char *cli_options_text(const char *name); /* as it was given; NULL: it was not */
/* Sets an option as if it had been typed; false if it was typed, or if no option has this name.
 * `found`: the plan had chosen this value; nobody had requested it. */
bool cli_options_take(const char *name, const char *text, bool found);

/* The name of an option that was typed; NULL: there is none. */
const char *cli_options_given(void);

#endif
