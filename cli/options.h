/*
 * options.h - the options that become settings of the planner: the rows of planner/settings/table.h
 * as options of GLib.  The texts as given are kept here, for one command line.
 */
#ifndef MW_CLI_OPTIONS_H
#define MW_CLI_OPTIONS_H

#include <glib.h>
#include <stdbool.h>

#include "cli/words.h"
#include "lib/memwall.h"

/* Of one verb at a time; forgets what was given before.  Help leaves out those that are `hidden`,
 * up to NULL. */
const struct cli_words_group *cli_options_groups(const char *const *hidden);

/* Sets what was given in `question`; fails with one line naming option, value and range. */
bool cli_options_ask(struct memwall_question *question, GError **error);

/* All that was given, as typed, or that was asked for before: not what a plan had found. */
void cli_options_each(void (*put)(void *data, const char *name, const char *text), void *data);
bool cli_options_is_given(const char *name);
/* As if it had been given; false where it was, or where there is none of the name.  `found`: by a
 * plan that nobody asked for it. */
bool cli_options_take(const char *name, const char *text, bool found);

/* The name of an option that was given; NULL if none was. */
const char *cli_options_given(void);

#endif
