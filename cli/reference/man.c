/* A man page, in the macros of man(7). */
#include <string.h>

#include "cli/reference/form.h"
#include "cli/cli.h"
#include "config.h"

/* Dashes stay dashes that can be pasted into a shell. */
static void
escape(GString *to, char c)
{
    static const struct {
        char c;
        const char *as;
    } special[] = {{'\\', "\\e"}, {'-', "\\-"}, {'~', "\\(ti"}, {'^', "\\(ha"}, {'`', "\\(ga"}};

    for (size_t i = 0; i < G_N_ELEMENTS(special); i++)
        if (special[i].c == c) {
            g_string_append(to, special[i].as);
            return;
        }
    g_string_append_c(to, c);
}

/* Escapes a line that would begin like a macro. */
static void
print_line(FILE *out, const char *text, const char *open, const char *close)
{
    g_autofree char *line = cli_form_text(text, open, close, escape);

    fprintf(out, "%s%s\n", strchr(".'", *line) ? "\\&" : "", line);
}

static void
print_bold(FILE *out, const char *text)
{
    g_autofree char *line = cli_form_text(text, "", "", escape);

    fprintf(out, "\\fB%s\\fR", line);
}

/* A heading is one paragraph with what is below it. */
static bool below_heading;

static void
begin_paragraph(FILE *out)
{
    if (!below_heading)
        fputs(".PP\n", out);
    below_heading = false;
}

/* Names of options and keys stay whole. */
static void
begin(FILE *out, const struct cli_page *page)
{
    g_autofree char *name = cli_form_text(page->name, "", "", escape);
    g_autofree char *title = g_ascii_strup(page->name, -1);

    fprintf(out,
            ".\\\" Made from the tables of the command by `memwall --reference man`.\n"
            ".TH %s %d \"\" \"memwall %s\" \"%s\"\n"
            ".nh\n"
            ".ad l\n"
            ".SH NAME\n"
            "%s \\- ",
            title, page->chapter, MW_VERSION, page->chapter == 1 ? "User Commands" : "File Formats",
            name);
    print_line(out, page->purpose, "", "");
}

static void
section(FILE *out, const char *title)
{
    g_autofree char *upper = g_ascii_strup(title, -1);

    fprintf(out, ".SH \"%s\"\n", upper);
    below_heading = true;
}

static void
subsection(FILE *out, const char *title)
{
    fprintf(out, ".SS \"%s\"\n", title);
    below_heading = true;
}

static void
paragraph(FILE *out, const char *text)
{
    if (!*text)
        return;
    begin_paragraph(out);
    print_line(out, text, "\\fB", "\\fR");
}

static void
commands(FILE *out, const char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    begin_paragraph(out);
    fputs(".RS 4\n.nf\n", out);
    for (char **line = lines; *line; line++)
        print_line(out, *line, "", "");
    fputs(".fi\n.RE\n", out);
}

static void
list(FILE *out)
{
    (void)out;
    below_heading = false; /* items begin paragraphs of their own */
}

static void
item(FILE *out, const char *term, const char *text)
{
    fputs(".TP\n", out);
    print_bold(out, term);
    fputc('\n', out);
    print_line(out, text, "\\fB", "\\fR");
}

static void
option(FILE *out, const GOptionEntry *entry, const char *text)
{
    bool optional = entry->flags & G_OPTION_FLAG_OPTIONAL_ARG;
    g_autofree char *name = g_strdup_printf("--%s", entry->long_name);

    fputs(".TP\n", out);
    if (entry->short_name)
        fprintf(out, "\\fB\\-%c\\fR, ", entry->short_name);
    print_bold(out, name);
    if (entry->arg_description) {
        g_autofree char *argument = cli_form_text(entry->arg_description, "", "", escape);
        fprintf(out, "%s=\\fI%s\\fR%s", optional ? "[" : "", argument, optional ? "]" : "");
    }
    fputc('\n', out);
    print_line(out, text, "\\fB", "\\fR");
}

const struct cli_form cli_form_man = {begin,    section, subsection, paragraph,
                                      commands, list,    item,       option};
