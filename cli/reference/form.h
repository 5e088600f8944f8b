/*
 * form.h - how a page is written, as a man page or in Markdown, and what pages there are.
 *
 * Texts may hold `code`, and options as they are typed.
 */
#ifndef MW_CLI_REFERENCE_FORM_H
#define MW_CLI_REFERENCE_FORM_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/reference/reference.h"
#include "cli/reference/verb_options.h"

/* What a page is of: "memwall-plan", 1. */
struct cli_page {
    const char *name, *purpose;
    int chapter; /* of the manual */
};

struct cli_form {
    void (*begin)(FILE *out, const struct cli_page *page);
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

#define CLI_PAGE_SYNOPSIS "memwall VERB [OPTION...]\nmemwall help [VERB]\nmemwall --version"

/* All verbs and options, on one page. */
void cli_page_print(FILE *out, const struct cli_form *form, const GPtrArray *all);
/* Parts of pages. */
void cli_page_sentence(FILE *out, const struct cli_form *form, const char *text);
void cli_page_group(FILE *out, const struct cli_form *form, const struct cli_verb_group *group);
char *cli_page_usage(const struct cli_verb *verb); /* g_free it */

/* Pages of the manual: of the command, of one of its verbs, of profiles. */
void cli_manual_command(FILE *out, const struct cli_form *form, const GPtrArray *all);
void cli_manual_verb(FILE *out, const struct cli_form *form, const struct cli_verb_options *verb);
void cli_manual_profile(FILE *out, const struct cli_form *form);

void cli_page_facts(FILE *out, const struct cli_form *form, const char *title,
                    const struct cli_fact *facts);

/* Scripts for shells. */
void cli_bash_print(FILE *out, const GPtrArray *all);
void cli_zsh_print(FILE *out, const GPtrArray *all);
void cli_fish_print(FILE *out, const GPtrArray *all);

#endif
