/* `memwall list models|hwprofiles|strategies`. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "planner/error.h"

static int
list_models(void)
{
    g_auto(GStrv) names = mw_model_list();

    printf("%-24s %10s %7s %7s %6s %9s\n", "model", "params", "layers", "hidden", "heads", "seq");
    for (char **name = names; *name; name++) {
        struct mw_model model;
        g_autoptr(GError) error = NULL;
        if (!mw_model_load_preset(*name, &model, &error))
            return cli_fail(error);
        printf("%-24s %10s %7" G_GINT64_FORMAT " %7" G_GINT64_FORMAT " %6" G_GINT64_FORMAT
               " %9" G_GINT64_FORMAT "\n",
               *name, mw_format_count(mw_model_params(&model)), model.layers, model.hidden,
               model.heads, model.seq);
    }
    return cli_flush();
}

static int
list_profiles(void)
{
    g_auto(GStrv) names = mw_hwprofile_list();

    printf("%-28s %5s %10s %11s %10s  %s\n", "profile", "GPUs", "GPU mem", "host mem", "NVMe",
           "description");
    for (char **name = names; *name; name++) {
        g_autoptr(GError) error = NULL;
        struct mw_hwprofile *profile = mw_hwprofile_load(*name, &error);
        if (!profile)
            return cli_fail(error);
        struct mw_hardware hw = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
        printf("%-28s %5" G_GINT64_FORMAT " %10s %11s %10s  %s\n", *name, hw.gpus_per_node,
               mw_format_gib(hw.gpu_memory_bytes), mw_format_gib(hw.host_memory_bytes),
               hw.nvme_capacity_bytes ? mw_format_bytes(hw.nvme_capacity_bytes) : "-",
               mw_hwprofile_description(profile));
        mw_hwprofile_free(profile);
    }
    return cli_flush();
}

static int
list_strategies(void)
{
    for (int s = 0; s < MW_STRATEGY_COUNT; s++)
        printf("%-20s %s\n", mw_strategy_name(s), mw_strategy_help(s));
    return cli_flush();
}

static int
show_profile(const char *name)
{
    g_autoptr(GError) error = NULL;
    struct mw_hwprofile *profile = mw_hwprofile_load(name, &error);

    if (!profile)
        return cli_fail(error);
    mw_hwprofile_print(stdout, profile);
    mw_hwprofile_free(profile);
    return cli_flush();
}

static int
run(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (!strcmp(what, "models") && argc == 2)
        return list_models();
    if (!strcmp(what, "hwprofiles") && argc == 3)
        return show_profile(argv[2]);
    if (!strcmp(what, "hwprofiles") && argc == 2)
        return list_profiles();
    if (!strcmp(what, "strategies") && argc == 2)
        return list_strategies();
    bool help = !strcmp(what, "--help") || !strcmp(what, "-h");
    fprintf(help ? stdout : stderr,
            "usage: memwall list models | hwprofiles [NAME] | strategies\n");
    return help ? cli_flush() : CLI_USAGE;
}

const struct cli_verb cli_verb_list = {
    "list", "models, hardware profiles (or one, with every figure's source), strategies", run};
