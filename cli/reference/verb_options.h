/*
 * verb_options.h - the options of all verbs, as their own code hands them to the parser.
 *
 * Texts are static.  What help leaves out is not here.
 */
#ifndef MW_CLI_REFERENCE_VERB_OPTIONS_H
#define MW_CLI_REFERENCE_VERB_OPTIONS_H

#include <glib.h>
#include <stdbool.h>

#include "cli/cli.h"

struct cli_verb_group {
    const char *title;
    GArray *entries; /* GOptionEntry */
};

struct cli_verb_options {
    const struct cli_verb *verb;
    GPtrArray *groups; /* struct cli_verb_group */
};

/* All verbs (struct cli_verb_options) in the order of help.  g_ptr_array_unref it. */
GPtrArray *cli_verbs_with_options(void);

/* The verb's group of the title; NULL: it has none. */
const struct cli_verb_group *cli_verb_group(const struct cli_verb_options *of_verb,
                                                    const char *title);
/* Whether the verb takes this very option: same name, same words, in a group of the title. */
bool cli_verb_takes(const struct cli_verb_options *of_verb, const char *title,
                        const GOptionEntry *entry);

/* --- values ---------------------------------------------------------------------------------- */

enum cli_paths_kind { CLI_PATHS_NONE, CLI_PATHS_FILES, CLI_PATHS_FOLDERS };

/* What completion offers where a value stands. */
struct cli_values {
    GPtrArray *words;  /* to be typed as they are; owned */
    const char *names; /* what --names lists them; NULL: nothing */
    enum cli_paths_kind paths;
    bool several; /* with commas between them */
};
void cli_values_clear(struct cli_values *values);

/* Of an option that takes a value. */
bool cli_takes_value(const GOptionEntry *entry);
struct cli_values cli_values_of_option(const GOptionEntry *entry);
/* Of what a verb takes besides options. */
struct cli_values cli_values_of_arguments(const struct cli_verb *verb);
/* Of these words, those that a name of the list of the same name may follow: `list models NAME`.
 * g_ptr_array_unref it. */
GPtrArray *cli_words_before_name(const struct cli_verb *verb);

/* The first sentence of a help text up to a semicolon, without parentheses: for a line of a menu.
 * g_free it. */
char *cli_brief_help(const char *help);

#endif
