/*
 * words.h - the words of a verb's command line: groups of options, from which parsing and help
 * come.
 *
 * A mistyped option is answered with the nearest one.  Help fits 80 columns.
 */
#ifndef MW_CLI_WORDS_H
#define MW_CLI_WORDS_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

/* The title of a group that is one verb's own; a group of another title means the same wherever it
 * appears. */
#define CLI_WORDS_OWN "Options"

struct cli_words_group {
    const char *title;           /* NULL ends an array of groups */
    const GOptionEntry *entries; /* ended by G_OPTION_ENTRY_NULL */
};

struct cli_verb;

struct cli_words {
    const struct cli_verb *verb;
    const struct cli_words_group *groups;
    gpointer data; /* of entries that call a function */
};

/* Takes the options out of argv.  An error is one line that names the option. */
bool cli_words_parse(const struct cli_words *words, int *argc, char ***argv, GError **error);

void cli_words_help(const struct cli_words *words, FILE *out);

/* From now on cli_words_help prints nothing and hands the words to `take` instead: so the reference
 * reads every verb's options where the verb makes them. */
void cli_words_divert(void (*take)(const struct cli_words *words, void *data), void *data);

/* `text` from `column` on, broken at blanks so that no line is longer than 80 columns. */
void cli_words_wrap(FILE *out, const char *text, int column);

#endif
