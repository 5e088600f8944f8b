/*
 * form.h - how a page is written: as a man page, or in Markdown.
 *
 * Texts may hold `code`, and options as they are typed.
 */
#ifndef MW_CLI_REFERENCE_FORM_H
#define MW_CLI_REFERENCE_FORM_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

struct cli_form {
    void (*begin)(FILE *out);
    void (*section)(FILE *out, const char *title);
    void (*subsection)(FILE *out, const char *title);
    void (*paragraph)(FILE *out, const char *text);
    void (*commands)(FILE *out, const char *lines);
    void (*list)(FILE *out); /* items follow */
    /* `term` is printed as it is typed. */
    void (*item)(FILE *out, const char *term, const char *text);
    void (*option)(FILE *out, const GOptionEntry *entry, const char *text);
};
extern const struct cli_form cli_form_man, cli_form_markdown;

/* The text with `code` and options between `open` and `close`, and every character passed through
 * `escape` (NULL: unchanged).  g_free it. */
char *cli_form_text(const char *text, const char *open, const char *close,
                    void (*escape)(GString *to, char c));

/* All verbs and options, on one page. */
void cli_page_print(FILE *out, const struct cli_form *form, const GPtrArray *all);

/* Scripts for shells. */
void cli_bash_print(FILE *out, const GPtrArray *all);
void cli_zsh_print(FILE *out, const GPtrArray *all);
void cli_fish_print(FILE *out, const GPtrArray *all);

#endif
