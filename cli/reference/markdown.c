/* Markdown, for docs/reference.md. */
#include "cli/reference/form.h"
#include "report/wrap.h"

#define COLUMNS 100
#define INDENT 2 /* of an item's text */

static void
begin(FILE *out, const struct cli_page *page)
{
    (void)page;
    fputs(
        "# Reference\n\n"
        "<!-- Made by `memwall --reference markdown` from the tables of the command;\n"
        "     MW_UPDATE_GOLDEN=1 meson test -C build reference writes it anew. -->\n\n"
        "All verbs and options. The manual pages, memwall(1) and one of each verb, say the same.\n",
        out);
}

static void
section(FILE *out, const char *title)
{
    fprintf(out, "\n## %s\n", title);
}

static void
subsection(FILE *out, const char *title)
{
    fprintf(out, "\n### %s\n", title);
}

static void
paragraph(FILE *out, const char *text)
{
    g_autofree char *line = cli_form_text(text, "`", "`", NULL);

    if (!*text)
        return;
    fputc('\n', out);
    mw_wrap_text(out, line, 0, 0, COLUMNS);
}

static void
commands(FILE *out, const char *lines)
{
    fprintf(out, "\n```sh\n%s\n```\n", lines);
}

static void
list(FILE *out)
{
    fputc('\n', out);
}

static void
item(FILE *out, const char *term, const char *text)
{
    g_autofree char *marked = cli_form_text(text, "`", "`", NULL);
    g_autofree char *line = g_strdup_printf("- `%s`: %s", term, marked);

    mw_wrap_text(out, line, 0, INDENT, COLUMNS);
}

static void
option(FILE *out, const GOptionEntry *entry, const char *text)
{
    bool optional = entry->flags & G_OPTION_FLAG_OPTIONAL_ARG;
    g_autoptr(GString) term = g_string_new(NULL);

    if (entry->short_name)
        g_string_append_printf(term, "-%c`, `", entry->short_name);
    g_string_append_printf(term, "--%s", entry->long_name);
    if (entry->arg_description)
        g_string_append_printf(term, "%s=%s%s", optional ? "[" : "", entry->arg_description,
                               optional ? "]" : "");
    item(out, term->str, text);
}

const struct cli_form cli_form_markdown = {begin,    section, subsection, paragraph,
                                           commands, list,    item,       option};
