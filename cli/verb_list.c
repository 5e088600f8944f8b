/* `memwall list models|hwprofiles|strategies|devices|runs`: a table, or an array with --json; or
 * one of them. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/list_devices.h"
#include "cli/list_model.h"
#include "cli/list_runs.h"
#include "planner/error.h"
#include "planner/nearest.h"
#include "report/json_writer.h"

/* Of a list, as it goes out: `json` NULL is a table. */
static void
begin(struct mw_json_writer *json)
{
    if (json)
        mw_json_begin(json, NULL, '[', false);
}

static int
end(struct mw_json_writer *json)
{
    if (json)
        mw_json_end(json, ']');
    return cli_flush();
}

static void
print_model(struct mw_json_writer *json, const char *name, const struct mw_model *model)
{
    if (!json) {
        printf("%-24s %10s %7" G_GINT64_FORMAT " %7" G_GINT64_FORMAT " %6" G_GINT64_FORMAT
               " %9" G_GINT64_FORMAT "\n",
               name, mw_format_count(mw_model_params(model)), model->layers, model->hidden,
               model->heads, model->seq);
        return;
    }
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "model", name);
    mw_json_integer(json, "params", mw_model_params(model));
    mw_json_integer(json, "layers", model->layers);
    mw_json_integer(json, "hidden", model->hidden);
    mw_json_integer(json, "heads", model->heads);
    mw_json_integer(json, "seq", model->seq);
    mw_json_end(json, '}');
}

static int
list_models(struct mw_json_writer *json)
{
    g_auto(GStrv) names = mw_model_list();

    begin(json);
    if (!json)
        printf("%-24s %10s %7s %7s %6s %9s\n", "model", "params", "layers", "hidden", "heads",
               "seq");
    for (char **name = names; *name; name++) {
        struct mw_model model;
        g_autoptr(GError) error = NULL;
        if (!mw_model_load_preset(*name, &model, &error))
            return cli_fail(error);
        print_model(json, *name, &model);
    }
    return end(json);
}

static void
print_profile(struct mw_json_writer *json, const char *name, const struct mw_hwprofile *profile)
{
    struct mw_hardware hw = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);

    if (!json) {
        printf("%-28s %5" G_GINT64_FORMAT " %10s %11s %10s  %s\n", name, hw.gpus_per_node,
               mw_format_gib(hw.gpu_memory_bytes), mw_format_gib(hw.host_memory_bytes),
               hw.nvme_capacity_bytes ? mw_format_bytes(hw.nvme_capacity_bytes) : "-",
               mw_hwprofile_description(profile));
        return;
    }
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "hardware", name);
    mw_json_integer(json, "gpus_per_node", hw.gpus_per_node);
    mw_json_integer(json, "gpu_memory_bytes", hw.gpu_memory_bytes);
    mw_json_integer(json, "host_memory_bytes", hw.host_memory_bytes);
    mw_json_integer(json, "nvme_capacity_bytes", hw.nvme_capacity_bytes);
    mw_json_string(json, "provenance", mw_provenance_name(mw_hwprofile_worst_provenance(profile)));
    mw_json_string(json, "description", mw_hwprofile_description(profile));
    mw_json_end(json, '}');
}

static int
list_profiles(struct mw_json_writer *json)
{
    g_auto(GStrv) names = mw_hwprofile_list();

    begin(json);
    if (!json)
        printf("%-28s %5s %10s %11s %10s  %s\n", "profile", "GPUs", "GPU mem", "host mem", "NVMe",
               "description");
    for (char **name = names; *name; name++) {
        g_autoptr(GError) error = NULL;
        struct mw_hwprofile *profile = mw_hwprofile_load(*name, &error);
        if (!profile)
            return cli_fail(error);
        print_profile(json, *name, profile);
        mw_hwprofile_free(profile);
    }
    return end(json);
}

static void
print_strategy(struct mw_json_writer *json, enum mw_strategy strategy)
{
    if (!json) {
        printf("%-20s %s\n", mw_strategy_name(strategy), mw_strategy_help(strategy));
        return;
    }
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "strategy", mw_strategy_name(strategy));
    mw_json_string(json, "description", mw_strategy_help(strategy));
    mw_json_end(json, '}');
}

static int
list_strategies(struct mw_json_writer *json)
{
    begin(json);
    for (int s = 0; s < MW_STRATEGY_COUNT; s++)
        print_strategy(json, s);
    return end(json);
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
print_usage(bool asked, const char *what)
{
    static const char *const lists[] = {"models",  "hwprofiles", "strategies",
                                        "devices", "runs",       NULL};
    const char *nearest = g_strv_contains(lists, what) ? NULL : mw_name_nearest(what, lists);

    if (!asked && nearest) {
        cli_say("list %s: did you mean %s?", what, nearest);
        return CLI_USAGE;
    }
    FILE *out = asked ? stdout : stderr;
    g_autofree char *usage = g_strdup_printf("memwall list %s [--json]", cli_verb_list.arguments);
    fputs("usage: ", out);
    cli_words_wrap(out, usage, 7);
    return asked ? cli_flush() : CLI_USAGE;
}

static int
run(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    struct mw_json_writer writer = {.out = stdout};
    bool as_json = argc >= 3 && !strcmp(argv[argc - 1], "--json");
    struct mw_json_writer *json = as_json ? &writer : NULL;
    bool whole = argc - as_json == 2;

    if (!strcmp(what, "models") && whole)
        return list_models(json);
    if (!strcmp(what, "hwprofiles") && whole)
        return list_profiles(json);
    if (!strcmp(what, "strategies") && whole)
        return list_strategies(json);
    if (!strcmp(what, "devices") && whole)
        return cli_list_devices(as_json);
    if (!strcmp(what, "runs") && whole)
        return cli_list_runs(as_json);
    if (!strcmp(what, "hwprofiles") && argc == 3)
        return show_profile(argv[2]);
    if (!strcmp(what, "models") && argc - as_json == 3)
        return cli_list_model(argv[2], as_json);
    return print_usage(!strcmp(what, "--help") || !strcmp(what, "-h"), what);
}

const struct cli_verb cli_verb_list = {
    "list",
    "list models (or one, by operator), hardware profiles (or one), strategies, devices, runs",
    "models [NAME] | hwprofiles [NAME] | strategies | devices | runs", run};
