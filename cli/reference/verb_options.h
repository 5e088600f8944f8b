/*
 * verb_options.h - the options of all verbs, as the verbs pass them to the parser.
 *
 * Texts are static.  Options that help leaves out are not here.
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

/* The verb's group of this title; NULL: it has none. */
const struct cli_verb_group *cli_verb_group(const struct cli_verb_options *of_verb,
                                                    const char *title);
/* Whether the verb takes this very option: same name, same words, in a group of the same title. */
bool cli_verb_takes(const struct cli_verb_options *of_verb, const char *title,
                        const GOptionEntry *entry);

/* --- values ---------------------------------------------------------------------------------- */

enum cli_paths_kind { CLI_PATHS_NONE, CLI_PATHS_FILES, CLI_PATHS_FOLDERS };

/* The values that completion offers. */
struct cli_values {
    GPtrArray *words;  /* typed as they are; owned */
    const char *names; /* the list that --names prints for them; NULL: none */
    enum cli_paths_kind paths;
    bool several; /* separated by commas */
};
void cli_values_clear(struct cli_values *values);

/* Values of an option. */
bool cli_takes_value(const GOptionEntry *entry);
struct cli_values cli_values_of_option(const GOptionEntry *entry);
/* Values of a verb's arguments. */
struct cli_values cli_values_of_arguments(const struct cli_verb *verb);
/* Those of the verb's words that a name from the list of that name may follow: `list models NAME`.
 * g_ptr_array_unref it. */
GPtrArray *cli_words_before_name(const struct cli_verb *verb);

/* The first sentence of a help text up to a semicolon, without parentheses: for one line of a menu.
 * g_free it. */
char *cli_brief_help(const char *help);

#endif
