/* The options of plan and simulate: one table row each; parsing, checks and help come from it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "planner/deepspeed.h"
#include "planner/error.h"

enum option_kind { OPTION_INTEGER, OPTION_REAL, OPTION_PLACEMENT, OPTION_CHOICE };

struct choice {
    const char *name;
    int value;
};

static const struct choice commit_choices[] = {{"step", 1}, {"none", 0}, {NULL, 0}};
static const struct choice layout_choices[] = {
    {"zero16", MW_LAYOUT_ZERO16}, {"paper20", MW_LAYOUT_PAPER20}, {NULL, 0}};
static const struct choice partition_choices[] = {
    {"bandwidth", MW_PARTITION_BANDWIDTH}, {"owner", MW_PARTITION_OWNER}, {NULL, 0}};
static const struct choice overlap_choices[] = {{"on", 1}, {"off", 0}, {NULL, 0}};
static const char *const outlook_names[MW_OUTLOOK_COUNT] = {"low", "typical", "high"};

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset; /* in struct mw_settings */
    size_t size;
    double min, max;
    bool may_be_auto;
    const struct choice *choices;
    const char *argument, *help;
};

#define FIELD(field) offsetof(struct mw_settings, field), sizeof(((struct mw_settings *)0)->field)
#define STATE(state)                                                                               \
    offsetof(struct mw_settings, placement) + (state) * sizeof(struct mw_placement),               \
        sizeof(struct mw_placement)

static const struct option options[] = {
    {"nodes", OPTION_INTEGER, FIELD(nodes), 1, 100000, false, NULL, "N", "nodes (default 1)"},
    {"gpus", OPTION_INTEGER, FIELD(gpus_per_node), 1, 1024, false, NULL, "N",
     "GPUs a node (default: all that the profile has)"},
    {"batch", OPTION_REAL, FIELD(micro_batch), 1e-3, 1e6, true, NULL, "N|auto",
     "micro-batch per GPU in sequences; auto is the largest that fits (default)"},
    {"global-batch", OPTION_INTEGER, FIELD(global_batch), 1, 1e9, false, NULL, "N",
     "sequences a step over all GPUs"},
    {"grad-accum", OPTION_INTEGER, FIELD(grad_accum), 1, 4096, false, NULL, "N",
     "micro-batches a step (default 1)"},
    {"seq", OPTION_INTEGER, FIELD(seq), 1, 1 << 24, false, NULL, "N",
     "sequence length (default: the smaller of the model's and 4096; 1024 for the paper's)"},
    {"tp", OPTION_INTEGER, FIELD(tp), 1, 1024, false, NULL, "N", "tensor slicing (default 1)"},
    {"param-device", OPTION_PLACEMENT, STATE(MW_STATE_PARAMETERS), 0, 0, false, NULL, "WHERE",
     "16-bit parameters: gpu, cpu, nvme, or a split such as cpu:60GB,nvme (a node)"},
    {"optimizer-device", OPTION_PLACEMENT, STATE(MW_STATE_OPTIMIZER), 0, 0, false, NULL, "WHERE",
     "optimizer state"},
    {"gradient-device", OPTION_PLACEMENT, STATE(MW_STATE_GRADIENTS), 0, 0, false, NULL, "WHERE",
     "gradients (default: with the optimizer state)"},
    {"activation-device", OPTION_PLACEMENT, STATE(MW_STATE_ACTIVATIONS), 0, 0, false, NULL, "WHERE",
     "activation checkpoints"},
    {"activation-checkpoint-interval", OPTION_INTEGER, FIELD(checkpoint_interval), 0, 1 << 20, false,
     NULL, "CI", "blocks a checkpoint (default 1; 0: keep all activations)"},
    {"param-loads", OPTION_INTEGER, FIELD(param_loads), 2, 3, false, NULL, "2|3",
     "parameter loads a micro-batch: 3 forward, recompute, backward (default); 2 share the last two"},
    {"tiles", OPTION_INTEGER, FIELD(tiles), 1, 4096, true, NULL, "T|auto",
     "memory-centric tiling of the largest operator (default: as few as fit)"},
    {"prefetch", OPTION_INTEGER, FIELD(prefetch), 0, 64, false, NULL, "D",
     "parts fetched ahead in each transfer stage (default 1; 0: none)"},
    {"partition", OPTION_CHOICE, FIELD(partition), 0, 0, false, partition_choices, "HOW",
     "bandwidth (all links at once, default) or owner (owner-broadcast)"},
    {"state-layout", OPTION_CHOICE, FIELD(layout), 0, 0, false, layout_choices, "NAME",
     "bytes of state a parameter: zero16 (default) or paper20"},
    {"overlap", OPTION_CHOICE, FIELD(overlap), 0, 0, false, overlap_choices, "on|off",
     "transfers and collectives beside compute (default on)"},
    {"optimizer-chunk", OPTION_INTEGER, FIELD(optimizer_chunk), 1, 1e12, true, NULL, "N|auto",
     "parameters of a chunk of the optimizer step"},
    {"buffer-sets", OPTION_INTEGER, FIELD(buffer_sets), 1, 64, false, NULL, "N",
     "buffer sets of the optimizer step (default 3)"},
    {"commit", OPTION_CHOICE, FIELD(commit), 0, 0, false, commit_choices, "step|none",
     "every step is a durable checkpoint of state on NVMe (default: step where it fits)"},
    {"save-every", OPTION_INTEGER, FIELD(save_every), 0, 1e9, false, NULL, "K",
     "steps between saves of state that is not on NVMe (default: never)"},
    {"dpu-start", OPTION_INTEGER, FIELD(dpu_start), 0, 1e9, false, NULL, "STEP",
     "zero-offload: delayed parameter update from this step on"},
    {"tokens", OPTION_REAL, FIELD(tokens), 1, 1e18, false, NULL, "N",
     "tokens to train on: gives days, energy and cost"},
};

static char *option_texts[G_N_ELEMENTS(options)];

static void
store_integer(const struct option *option, struct mw_settings *settings, int64_t value)
{
    char *field = (char *)settings + option->offset;

    if (option->size == sizeof(int64_t))
        memcpy(field, &value, sizeof value);
    else if (option->size == sizeof(int))
        *(int *)field = value;
    else
        *(bool *)field = value;
}

static bool
parse_number(const struct option *option, const char *text, double *value, GError **error)
{
    char *end;

    errno = 0;
    *value = g_ascii_strtod(text, &end);
    bool whole = option->kind == OPTION_REAL || *value == floor(*value);
    if (!*text || *end || errno || !isfinite(*value) || !whole || *value < option->min ||
        *value > option->max) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "--%s %s: must be a %s from %.15g to %.15g%s",
                    option->name, text, option->kind == OPTION_REAL ? "number" : "whole number",
                    option->min, option->max, option->may_be_auto ? ", or auto" : "");
        return false;
    }
    return true;
}

static bool
parse_choice(const struct option *option, const char *text, struct mw_settings *settings,
             GError **error)
{
    g_autoptr(GString) names = g_string_new(NULL);

    for (const struct choice *choice = option->choices; choice->name; choice++) {
        if (!strcmp(choice->name, text)) {
            store_integer(option, settings, choice->value);
            return true;
        }
        g_string_append_printf(names, "%s%s", names->len ? " or " : "", choice->name);
    }
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "--%s %s: must be %s", option->name, text,
                names->str);
    return false;
}

static bool
apply_option(const struct option *option, const char *text, struct mw_settings *settings,
             GError **error)
{
    double value;

    if (option->kind == OPTION_CHOICE)
        return parse_choice(option, text, settings, error);
    if (option->kind == OPTION_PLACEMENT) {
        g_autofree char *dashed = g_strdup_printf("--%s", option->name);
        return mw_placement_parse(text, dashed,
                                  (struct mw_placement *)((char *)settings + option->offset), error);
    }
    if (option->may_be_auto && !strcmp(text, "auto"))
        return true;
    if (!parse_number(option, text, &value, error))
        return false;
    if (option->kind == OPTION_REAL)
        *(double *)((char *)settings + option->offset) = value;
    else
        store_integer(option, settings, value);
    return true;
}

static bool
parse_strategies(struct cli_request *request, const char *text, GError **error)
{
    /* Of "" g_strsplit makes no names at all. */
    g_auto(GStrv) names = g_strsplit(*text ? text : ",", ",", -1);

    for (char **name = names; *name; name++) {
        enum mw_strategy strategy;
        if (!mw_strategy_parse(*name, &strategy, error))
            return false;
        for (int i = 0; i < request->strategy_count; i++)
            if (request->strategies[i] == strategy) {
                g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "-s %s: %s is named twice", text,
                            *name);
                return false;
            }
        request->strategies[request->strategy_count++] = strategy;
    }
    return true;
}

/* One end of every range for all figures; else typical with low and high beside it. */
static bool
parse_outlook(const char *text, int *only, GError **error)
{
    for (*only = 0; *only < MW_OUTLOOK_COUNT; ++*only)
        if (!strcmp(text, outlook_names[*only]))
            return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "--outlook %s: must be low, typical or high",
                text);
    return false;
}

static bool
load_profile(struct cli_request *request, char **sets, const char *outlook_text, GError **error)
{
    int only = -1;

    if (outlook_text && !parse_outlook(outlook_text, &only, error))
        return false;
    request->profile = mw_hwprofile_load(request->hardware_name, error);
    if (!request->profile)
        return false;
    for (char **set = sets; set && *set; set++)
        if (!mw_hwprofile_set(request->profile, *set, error))
            return false;
    if (!mw_hwprofile_check(request->profile, error))
        return false;
    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++)
        request->hardware[outlook] =
            mw_hwprofile_read(request->profile, only < 0 ? outlook : only);
    return true;
}

/* Left out, the hardware is `here`: the profile that was measured on this machine. */
static bool
check_names(struct cli_request *request, GError **error)
{
    if (!request->model_name && !request->plan_file) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "-m MODEL is missing; `memwall list models` names the presets");
        return false;
    }
    if (request->hardware_name)
        return true;
    request->hardware_name = g_build_filename(g_get_user_config_dir(), "memwall", "hwprofiles",
                                              "here.ini", NULL);
    if (g_file_test(request->hardware_name, G_FILE_TEST_EXISTS))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "-H HARDWARE is missing, and there is no profile of this machine (%s); `memwall "
                "list hwprofiles` names the others", request->hardware_name);
    return false;
}

static bool
apply_options(struct cli_request *request, const char *strategies, const char *deepspeed,
              GError **error)
{
    mw_settings_init(&request->settings);
    if (deepspeed && !mw_deepspeed_load(deepspeed, 0, &request->settings,
                                        &request->ignored_deepspeed_keys, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(options); i++)
        if (option_texts[i] &&
            !apply_option(&options[i], option_texts[i], &request->settings, error))
            return false;
    if (strategies)
        return parse_strategies(request, strategies, error);
    request->strategies[request->strategy_count++] = request->settings.strategy;
    return true;
}

static bool
check_outputs(struct cli_request *request, GError **error)
{
    bool several = request->strategy_count > 1;

    if (request->json && request->csv)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "--json and --csv: give one of them");
    else if (several && (request->trace || request->plot || request->output ||
                         request->write_deepspeed))
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "--trace, --plot, -o and --write-deepspeed take one strategy; -s names %d",
                    request->strategy_count);
    else if (request->plot && !g_str_has_suffix(request->plot, ".png") &&
             !g_str_has_suffix(request->plot, ".svg"))
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "--plot %s: must end in .png or .svg",
                    request->plot);
    else
        return true;
    return false;
}

static GOptionContext *
make_context(const char *verb, const GOptionEntry *fixed)
{
    GOptionContext *context = g_option_context_new(!strcmp(verb, "simulate") ? "[PLANFILE]" : NULL);
    GOptionEntry entries[G_N_ELEMENTS(options) + 1] = {0};

    for (size_t i = 0; i < G_N_ELEMENTS(options); i++) {
        g_clear_pointer(&option_texts[i], g_free);
        entries[i] = (GOptionEntry){options[i].name, 0, 0, G_OPTION_ARG_STRING, &option_texts[i],
                                    options[i].help, options[i].argument};
    }
    g_option_context_add_main_entries(context, fixed, NULL);
    g_option_context_add_main_entries(context, entries, NULL);
    g_option_context_set_help_enabled(context, FALSE);
    return context;
}

int
cli_request_parse(struct cli_request *request, const char *verb, int argc, char **argv,
                  gboolean *done)
{
    g_autofree char *strategies = NULL, *deepspeed = NULL, *outlook = NULL;
    g_auto(GStrv) sets = NULL;
    gboolean help = FALSE;
    g_autoptr(GError) error = NULL;
    const GOptionEntry fixed[] = {
        {"help", 'h', 0, G_OPTION_ARG_NONE, &help, "this text", NULL},
        {"model", 'm', 0, G_OPTION_ARG_FILENAME, &request->model_name,
         "preset name, or path to a Hugging Face config.json", "MODEL"},
        {"hardware", 'H', 0, G_OPTION_ARG_FILENAME, &request->hardware_name,
         "profile name, or path to an .ini", "HW"},
        {"strategy", 's', 0, G_OPTION_ARG_STRING, &strategies,
         "strategy, several with commas, or auto (default)", "NAME"},
        {"set", 0, 0, G_OPTION_ARG_STRING_ARRAY, &sets, "any key of the profile",
         "SECTION.KEY=VALUE"},
        {"outlook", 0, 0, G_OPTION_ARG_STRING, &outlook,
         "read every range of the profile at this end: low (slow), typical or high", "END"},
        {"deepspeed", 0, 0, G_OPTION_ARG_FILENAME, &deepspeed, "read a ds_config.json", "FILE"},
        {"write-deepspeed", 0, 0, G_OPTION_ARG_FILENAME, &request->write_deepspeed,
         "write a ds_config.json for the plan", "FILE"},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &request->output, "write the plan as text",
         "FILE"},
        {"largest", 0, 0, G_OPTION_ARG_NONE, &request->largest, "the most layers that fit", NULL},
        {"what-if", 0, 0, G_OPTION_ARG_NONE, &request->sensitivity,
         "step time against each bandwidth, and bandwidths that efficiencies need", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &request->json, "print JSON", NULL},
        {"csv", 0, 0, G_OPTION_ARG_NONE, &request->csv, "print CSV", NULL},
        {"trace", 0, 0, G_OPTION_ARG_FILENAME, &request->trace, "write a Chrome trace (Perfetto)",
         "FILE"},
        {"plot", 0, 0, G_OPTION_ARG_FILENAME, &request->plot,
         "draw timeline and memory (.png or .svg, gnuplot)", "FILE"},
        G_OPTION_ENTRY_NULL};
    g_autoptr(GOptionContext) context = make_context(verb, fixed);

    *done = FALSE;
    if (!g_option_context_parse(context, &argc, &argv, &error))
        return cli_fail(error);
    if (help) {
        g_autofree char *named = g_strdup_printf("memwall %s", verb);
        g_set_prgname(named);
        g_autofree char *text = g_option_context_get_help(context, TRUE, NULL);
        fputs(text, stdout);
        *done = TRUE;
        return CLI_DONE;
    }
    if (argc == 2 && !strcmp(verb, "simulate") && !request->model_name) {
        request->plan_file = g_strdup(argv[1]);
    } else if (argc > 1) {
        g_set_error(&error, MW_ERROR, MW_ERROR_INVALID, "unexpected argument \"%s\"; see --help",
                    argv[1]);
        return cli_fail(error);
    }
    if (!check_names(request, &error) || !load_profile(request, sets, outlook, &error))
        return cli_fail(error);
    if (request->plan_file)
        return CLI_DONE;
    if (!mw_model_load(request->model_name, &request->model, &error) ||
        !apply_options(request, strategies, deepspeed, &error) || !check_outputs(request, &error))
        return cli_fail(error);
    return CLI_DONE;
}

void
cli_request_clear(struct cli_request *request)
{
    mw_hwprofile_free(request->profile);
    g_strfreev(request->ignored_deepspeed_keys);
    g_free(request->model_name);
    g_free(request->hardware_name);
    g_free(request->output);
    g_free(request->trace);
    g_free(request->plot);
    g_free(request->write_deepspeed);
    g_free(request->plan_file);
    memset(request, 0, sizeof *request);
}
