#include "cli/reference/reference.h"

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/reference/form.h"
#include "cli/reference/verb_options.h"
#include "cli/runs/runs.h"
#include "software/software.h"

/* --- forms ----------------------------------------------------------------------------------- */

static void
print_man(FILE *out, const GPtrArray *all)
{
    cli_page_print(out, &cli_form_man, all);
}

static void
print_markdown(FILE *out, const GPtrArray *all)
{
    cli_page_print(out, &cli_form_markdown, all);
}

static const struct {
    const char *name;
    void (*print)(FILE *out, const GPtrArray *all);
} forms[] = {{"man", print_man},
             {"markdown", print_markdown},
             {"bash", cli_bash_print},
             {"zsh", cli_zsh_print},
             {"fish", cli_fish_print}};

int
cli_reference(int argc, char **argv)
{
    for (size_t i = 0; argc == 1 && i < G_N_ELEMENTS(forms); i++)
        if (!strcmp(argv[0], forms[i].name)) {
            g_autoptr(GPtrArray) all = cli_verbs_with_options();
            forms[i].print(stdout, all);
            return cli_flush();
        }
    cli_say("--reference: takes one of man, markdown, bash, zsh and fish");
    return CLI_USAGE;
}

/* --- names ----------------------------------------------------------------------------------- */

static char **
list_strategies(void)
{
    GStrvBuilder *names = g_strv_builder_new();

    for (int s = 0; s < MW_STRATEGY_COUNT; s++)
        g_strv_builder_add(names, mw_strategy_name((enum mw_strategy)s));
    char **all = g_strv_builder_end(names);
    g_strv_builder_unref(names);
    return all;
}

static char **
list_software(void)
{
    return mw_profile_list(&mw_software_kind);
}

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

static const struct {
    const char *name;
    char **(*list)(void); /* g_strfreev */
} lists[] = {{"models", mw_model_list},
             {"hwprofiles", mw_hwprofile_list},
             {"software", list_software},
             {"strategies", list_strategies},
             {"runs", list_runs}};

int
cli_reference_names(int argc, char **argv)
{
    for (size_t i = 0; argc == 1 && i < G_N_ELEMENTS(lists); i++)
        if (!strcmp(argv[0], lists[i].name)) {
            g_auto(GStrv) names = lists[i].list();
            for (char **name = names; *name; name++)
                printf("%s\n", *name);
            return cli_flush();
        }
    cli_say("--names: takes one of models, hwprofiles, software, strategies and runs");
    return CLI_USAGE;
}
