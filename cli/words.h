/*
 * words.h - parses a verb's command line and prints its help, both from groups of options.
 *
 * The message for a mistyped option names the nearest one.  Help fits 80 columns.
 */
#ifndef MW_CLI_WORDS_H
#define MW_CLI_WORDS_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

/* The title of a group that only one verb has; groups of any other title are the same in every
 * verb. */
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

/* Removes the options from argv.  An error is one line that names the option. */
bool cli_words_parse(const struct cli_words *words, int *argc, char ***argv, GError **error);

void cli_words_help(const struct cli_words *words, FILE *out);

/* From now on cli_words_help calls `take` instead of printing: that is how the reference collects
 * every verb's options. */
void cli_words_divert(void (*take)(const struct cli_words *words, void *data), void *data);

/* Prints `text` from `column` on, wrapped at blanks so that no line exceeds 80 columns. */
void cli_words_wrap(FILE *out, const char *text, int column);

#endif
