/* The pages of the manual: of the command, of each verb with all its options, of profiles. */
#include <string.h>

#include "cli/reference/form.h"
#include "software/software.h"

static const char profile_page[] = "memwall-profile(5)";

/* --- the command and its verbs --------------------------------------------------------------- */

void
cli_manual_command(FILE *out, const struct cli_form *form, const GPtrArray *all)
{
    const struct cli_page page = {"memwall", CLI_PURPOSE, 1};
    g_autoptr(GString) others = g_string_new(NULL);

    form->begin(out, &page);
    form->section(out, "Synopsis");
    form->commands(out, CLI_PAGE_SYNOPSIS);
    form->section(out, "Description");
    cli_page_sentence(out, form, CLI_PURPOSE);
    form->paragraph(out, "Each verb has a page of its own with its options: memwall-simulate(1). "
                         "`memwall help VERB` says the same.");
    form->section(out, "Verbs");
    form->list(out);
    for (guint i = 0; i < all->len; i++) {
        const struct cli_verb *verb = ((struct cli_verb_options *)g_ptr_array_index(all, i))->verb;
        form->item(out, verb->name, verb->summary);
        g_string_append_printf(others, "memwall-%s(1), ", verb->name);
    }
    cli_page_facts(out, form, "Exit status", cli_exit_statuses);
    cli_page_facts(out, form, "Environment", cli_environment);
    cli_page_facts(out, form, "Files", cli_files);
    form->section(out, "Example");
    form->commands(out, "memwall simulate -m llama-3.1-8b -H rtx4090 --tokens 10B");
    g_string_append(others, profile_page);
    form->section(out, "See also");
    form->paragraph(out, others->str);
}

/* Verbs that write what this one reads, or read what it writes, and that say more of it. */
static const char *const beside[][6] = {
    {"list", "plan", "simulate"},
    {"plan", "simulate", "run", "list", "export"},
    {"simulate", "plan", "sweep", "advise", "report", "export"},
    {"sweep", "simulate", "advise", "report", "check"},
    {"advise", "simulate", "sweep", "export", "report"},
    {"report", "simulate", "sweep", "compare"},
    {"run", "plan", "calibrate", "compare", "verify", "export"},
    {"compare", "run", "simulate", "report"},
    {"check", "simulate", "sweep", "run"},
    {"calibrate", "run", "list"},
    {"export", "simulate", "advise", "run", "verify"},
    {"rm", "list", "verify"},
    {"verify", "run", "export", "rm"},
};

static char *
others_of(const struct cli_verb *verb)
{
    GString *text = g_string_new("memwall(1), ");

    for (size_t i = 0; i < G_N_ELEMENTS(beside); i++)
        for (size_t n = 1; !strcmp(beside[i][0], verb->name) && n < G_N_ELEMENTS(beside[i]); n++)
            if (beside[i][n])
                g_string_append_printf(text, "memwall-%s(1), ", beside[i][n]);
    g_string_append(text, profile_page);
    return g_string_free(text, FALSE);
}

void
cli_manual_verb(FILE *out, const struct cli_form *form, const struct cli_verb_options *of_verb)
{
    const struct cli_verb *verb = of_verb->verb;
    g_autofree char *name = g_strdup_printf("memwall-%s", verb->name);
    g_autofree char *usage = cli_page_usage(verb);
    g_autofree char *others = others_of(verb);
    g_auto(GStrv) details = g_strsplit(verb->details ? verb->details : "", "\n", -1);
    const struct cli_page page = {name, verb->summary, 1};

    form->begin(out, &page);
    form->section(out, "Synopsis");
    form->commands(out, usage);
    form->section(out, "Description");
    cli_page_sentence(out, form, verb->summary);
    for (char **line = details; *line; line++)
        form->paragraph(out, *line);
    for (guint i = 0; i < of_verb->groups->len; i++) {
        const struct cli_verb_group *group = g_ptr_array_index(of_verb->groups, i);
        form->section(out, group->title);
        cli_page_group(out, form, group);
    }
    form->section(out, "Examples");
    form->commands(out, verb->examples);
    cli_page_facts(out, form, "Exit status", cli_exit_statuses);
    form->section(out, "See also");
    form->paragraph(out, others);
}

/* --- profiles -------------------------------------------------------------------------------- */

static void
print_key(FILE *out, const struct cli_form *form, const struct mw_profile_key *key)
{
    g_autofree char *accepted = mw_profile_accepted(key);
    g_autoptr(GString) text = g_string_new(key->help);

    if (accepted)
        g_string_append_printf(text, ". %c%s%s.", g_ascii_toupper(*accepted), accepted + 1,
                               key->required ? "; required" : "");
    form->item(out, key->key, text->str);
}

static void
print_keys(FILE *out, const struct cli_form *form, const struct mw_profile_kind *kind)
{
    g_autofree char *title = g_strdup_printf("Keys of a %s", kind->noun);

    form->section(out, title);
    for (size_t first = 0; first < kind->key_count; first++) {
        const char *group = kind->keys[first].group;
        if (!mw_profile_begins_group(kind, first))
            continue;
        g_autofree char *header = g_strdup_printf("[%s]", group);
        form->subsection(out, header);
        form->list(out);
        for (size_t i = first; i < kind->key_count; i++)
            if (!strcmp(kind->keys[i].group, group))
                print_key(out, form, &kind->keys[i]);
    }
}

static void
print_provenances(FILE *out, const struct cli_form *form)
{
    g_autoptr(GString) kinds = g_string_new(NULL);

    for (int i = MW_PROVENANCE_COUNT - 1; i >= 0; i--)
        g_string_append_printf(kinds, "%s%s", kinds->len ? ", " : "", mw_provenance_name(i));
    g_autofree char *text = g_strdup_printf(
        "`KEY.source = KIND: where from` says where a figure is from; KIND is one of %s.",
        kinds->str);
    form->paragraph(out, text);
}

void
cli_manual_profile(FILE *out, const struct cli_form *form)
{
    const struct cli_page page = {"memwall-profile",
                                  "figures of a machine, or of software that trains on it", 5};

    form->begin(out, &page);
    form->section(out, "Synopsis");
    form->commands(out, "hwprofiles/NAME.ini\nsoftware/NAME.ini");
    form->section(out, "Description");
    form->paragraph(out,
                    "A profile has sections and keys, as `memwall list hwprofiles NAME` and "
                    "`memwall list software NAME` print them with the source of each figure; a "
                    "line that begins with # is a comment. `-H NAME` and `--software NAME` use "
                    "one, and so does a path that ends in .ini.");
    form->paragraph(out,
                    "A value is a number in the unit that its key has in its name, or a range "
                    "`low; typical; high` where the key allows one: low is the smaller number. "
                    "A list has the ends of its range in lists of their own, KEY_low and "
                    "KEY_high.");
    print_provenances(out, form);
    form->paragraph(out,
                    "`inherits = NAME` in [profile] takes all keys that are not given from that "
                    "profile: of the same folder, the user's, or memwall's own.");
    form->paragraph(out, "Required keys of a part that a machine lacks (drives, fabric, network) "
                         "may be left out with the whole section.");
    form->paragraph(out, "`--set SECTION.KEY=VALUE` sets a key for one question, `--set "
                         "software.SECTION.KEY=VALUE` one of the software's.");
    print_keys(out, form, &mw_hwprofile_kind);
    print_keys(out, form, &mw_software_kind);
    form->section(out, "Example");
    form->commands(out, "[profile]\n"
                        "description = the RTX 4090 workstation with more memory\n"
                        "inherits = rtx4090\n"
                        "[host]\n"
                        "memory_gib = 256\n"
                        "memory_gib.source = datasheet: four modules of 64 GiB");
    cli_page_facts(out, form, "Files", cli_files);
    form->section(out, "See also");
    form->paragraph(out, "memwall(1), memwall-list(1), memwall-calibrate(1)");
}
