#include "cli/reference/reference.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/reference/form.h"
#include "cli/reference/verb_options.h"
#include "cli/runs/runs.h"

/* --- forms ----------------------------------------------------------------------------------- */

static bool
print_man(FILE *out, const GPtrArray *all, const char *page)
{
    if (!page || !strcmp(page, "profile")) {
        if (page)
            cli_manual_profile(out, &cli_form_man);
        else
            cli_manual_command(out, &cli_form_man, all);
        return true;
    }
    for (guint i = 0; i < all->len; i++) {
        const struct cli_verb_options *each = g_ptr_array_index(all, i);
        if (!strcmp(each->verb->name, page)) {
            cli_manual_verb(out, &cli_form_man, each);
            return true;
        }
    }
    return false;
}

static void
print_markdown(FILE *out, const GPtrArray *all)
{
    cli_page_print(out, &cli_form_markdown, all);
}

static const struct {
    const char *name;
    void (*print)(FILE *out, const GPtrArray *all);
} forms[] = {{"markdown", print_markdown},
             {"bash", cli_bash_print},
             {"zsh", cli_zsh_print},
             {"fish", cli_fish_print}};

int
cli_reference(int argc, char **argv)
{
    g_autoptr(GPtrArray) all = cli_verbs_with_options();

    if ((argc == 1 || argc == 2) && !strcmp(argv[0], "man")) {
        if (print_man(stdout, all, argv[1]))
            return cli_flush();
        cli_say("--reference man: takes a verb or \"profile\", or nothing, not \"%s\"", argv[1]);
        return CLI_USAGE;
    }
    for (size_t i = 0; argc == 1 && i < G_N_ELEMENTS(forms); i++)
        if (!strcmp(argv[0], forms[i].name)) {
            forms[i].print(stdout, all);
            return cli_flush();
        }
    cli_say("--reference: takes one of man, markdown, bash, zsh and fish");
    return CLI_USAGE;
}

/* --- names ----------------------------------------------------------------------------------- */

static char **
list_runs(void)
{
    g_autoptr(GPtrArray) runs = cli_runs_list();
    GStrvBuilder *names = g_strv_builder_new();

    for (guint i = 0; i < runs->len; i++)
        g_strv_builder_add(names, ((const struct cli_run *)g_ptr_array_index(runs, i))->entry.name);
    char **all = g_strv_builder_end(names);
    g_strv_builder_unref(names);
    return all;
}

/* The library knows the others. */
static const struct {
    const char *name, *asked; /* NULL: runs */
    const char *behind;       /* each name */
} lists[] = {{"models", "models", ""},     {"hwprofiles", "hardware", ""},
             {"software", "software", ""}, {"strategies", "strategies", ""},
             {"keys", "keys", "="},        {"runs", NULL, ""}};

int
cli_reference_names(int argc, char **argv)
{
    for (size_t i = 0; argc == 1 && i < G_N_ELEMENTS(lists); i++)
        if (!strcmp(argv[0], lists[i].name)) {
            g_auto(GStrv) names = lists[i].asked ? memwall_names(lists[i].asked) : list_runs();
            for (char **name = names; *name; name++)
                printf("%s%s\n", *name, lists[i].behind);
            return cli_flush();
        }
    cli_say("--names: takes one of models, hwprofiles, software, strategies, keys and runs");
    return CLI_USAGE;
}
