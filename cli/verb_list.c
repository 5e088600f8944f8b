/* `memwall list models|hwprofiles|strategies|devices|runs`: a table or JSON; or one entry of a
 * list. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/format.h"
#include "base/json_writer.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/list_devices.h"
#include "cli/list_model.h"
#include "cli/runs/list_runs.h"
#include "plan/encodings.h"
#include "plan/gates.h"
#include "plan/optimizers.h"
#include "report/wrap.h"

/* Where a list is printed: as JSON, or as a table if `json` is NULL. */
static void
begin(struct mw_json_writer *json, const char *schema, const char *key)
{
    if (json) {
        mw_json_begin_answer(json, schema);
        mw_json_begin(json, key, '[', false);
    }
}

static int
end(struct mw_json_writer *json)
{
    if (json) {
        mw_json_end(json, ']');
        mw_json_end(json, '}');
    }
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

    begin(json, "memwall-models/1", "models");
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

static int
list_types(struct mw_json_writer *json)
{
    begin(json, "memwall-types/1", "types");
    if (!json)
        mw_wrap_row(stdout, "model type                        ", "runs");
    const char *name, *lacks;
    for (int i = 0; (name = mw_model_type(i, &lacks)); i++) {
        if (json) {
            mw_json_begin(json, NULL, '{', true);
            mw_json_string(json, "type", name);
            mw_json_boolean(json, "runs", !lacks);
            if (lacks)
                mw_json_string(json, "lacks", lacks);
            mw_json_end(json, '}');
            continue;
        }
        g_autofree char *row = g_strdup_printf("%-34s", name);
        g_autofree char *why = lacks ? g_strdup_printf("no: %s", lacks) : g_strdup("yes");
        mw_wrap_row(stdout, row, why);
    }
    return end(json);
}

static void
print_profile(struct mw_json_writer *json, const char *name, const struct mw_profile *profile)
{
    struct mw_hardware hw = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);

    if (!json) {
        g_autofree char *row =
            g_strdup_printf("%-28s %5" G_GINT64_FORMAT " %10s %11s %10s", name, hw.gpus_per_node,
                            mw_format_gib(hw.gpu_memory_bytes), mw_format_gib(hw.host_memory_bytes),
                            hw.nvme_capacity_bytes ? mw_format_bytes(hw.nvme_capacity_bytes) : "-");
        mw_wrap_row(stdout, row, mw_profile_description(profile));
        return;
    }
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "hardware", name);
    mw_json_integer(json, "gpus_per_node", hw.gpus_per_node);
    mw_json_integer(json, "gpu_memory_bytes", hw.gpu_memory_bytes);
    mw_json_integer(json, "host_memory_bytes", hw.host_memory_bytes);
    mw_json_integer(json, "nvme_capacity_bytes", hw.nvme_capacity_bytes);
    mw_json_string(json, "provenance", mw_provenance_name(mw_profile_worst_provenance(profile)));
    mw_json_string(json, "description", mw_profile_description(profile));
    mw_json_end(json, '}');
}

static int
list_profiles(struct mw_json_writer *json)
{
    g_auto(GStrv) names = mw_hwprofile_list();
    g_autofree char *heading = g_strdup_printf("%-28s %5s %10s %11s %10s", "profile", "GPUs",
                                               "GPU mem", "host mem", "NVMe");

    begin(json, "memwall-hwprofiles/1", "hwprofiles");
    if (!json)
        mw_wrap_row(stdout, heading, "description");
    /* One of the user's own that is broken hides none of the others. */
    int status = CLI_DONE;
    for (char **name = names; *name; name++) {
        g_autoptr(GError) error = NULL;
        struct mw_profile *profile = mw_hwprofile_load(*name, &error);
        if (profile)
            print_profile(json, *name, profile);
        else
            status = cli_fail(error);
        mw_profile_free(profile);
    }
    int written = end(json);
    return written == CLI_DONE ? status : written;
}

static void
write_states(struct mw_json_writer *json, const char *name, const bool has[MW_STATE_COUNT])
{
    static const char *const names[MW_STATE_COUNT] = {"parameters", "gradients", "optimizer state",
                                                      "activation checkpoints"};

    mw_json_begin(json, name, '[', false);
    for (int state = 0; state < MW_STATE_COUNT; state++)
        if (has[state])
            mw_json_string(json, NULL, names[state]);
    mw_json_end(json, ']');
}

/* What it is, what else is to be said of it, and who has described it.  g_free it. */
static char *
strategy_text(const struct mw_strategy_traits *row, bool is_open)
{
    if (is_open)
        return g_strdup_printf("%s; %s", row->help, row->source);
    return g_strdup_printf("%s; %s%s; %s", row->help, row->runs ? "runs" : "planned alone",
                           row->by_name ? ", and auto leaves it out" : "", row->source);
}

static void
print_strategy(struct mw_json_writer *json, enum mw_strategy strategy)
{
    const struct mw_strategy_traits *row = mw_strategy_traits(strategy);
    bool partitioned[MW_STATE_COUNT], offloadable[MW_STATE_COUNT];

    if (!json) {
        g_autofree char *text = strategy_text(row, strategy == MW_STRATEGY_AUTO);
        printf("%-20s ", row->name);
        mw_wrap_text(stdout, text, 21, 21, mw_wrap_columns(stdout));
        return;
    }
    mw_json_begin(json, NULL, '{', true);
    mw_json_string(json, "strategy", row->name);
    mw_json_string(json, "description", row->help);
    mw_json_string(json, "source", row->source);
    if (strategy != MW_STRATEGY_AUTO) {
        for (int state = 0; state < MW_STATE_COUNT; state++) {
            partitioned[state] = row->state[state].partitioned;
            offloadable[state] = row->state[state].offloadable;
        }
        write_states(json, "partitioned", partitioned);
        write_states(json, "offloadable", offloadable);
        mw_json_boolean(json, "delays_update", row->delays_update);
        mw_json_boolean(json, "updates_on_gpu", row->updates_on_gpu);
        mw_json_boolean(json, "layer_order", row->layer_order);
        mw_json_boolean(json, "whole_checkpoints", row->whole_checkpoints);
        mw_json_boolean(json, "runs", row->runs);
        mw_json_boolean(json, "tried_by_auto", !row->by_name);
        mw_json_integer(json, "deepspeed_stage", row->deepspeed.stage);
    }
    mw_json_end(json, '}');
}

static int
list_strategies(struct mw_json_writer *json)
{
    const struct mw_strategies all = mw_strategies_all();

    begin(json, "memwall-strategies/1", "strategies");
    print_strategy(json, MW_STRATEGY_AUTO);
    for (int i = 0; i < all.count; i++)
        print_strategy(json, all.one[i]);
    return end(json);
}

static int
list_optimizers(struct mw_json_writer *json)
{
    begin(json, "memwall-optimizers/1", "optimizers");
    if (!json)
        mw_wrap_row(stdout, "optimizer        bytes  runs  ",
                    "what it keeps of a parameter; source");
    for (int i = 0; i < MW_OPTIMIZER_COUNT; i++) {
        const struct mw_optimizer_row *of = mw_optimizer_row(i);
        double bytes = (double)mw_optimizer_state_bytes(i, MW_KEPT_BLOCK) / MW_KEPT_BLOCK;
        if (json) {
            mw_json_begin(json, NULL, '{', true);
            mw_json_string(json, "optimizer", of->name);
            mw_json_number(json, "state_bytes_per_parameter", bytes);
            mw_json_boolean(json, "runs", of->runs);
            mw_json_string(json, "keeps", of->keeps);
            mw_json_string(json, "source", of->source);
            mw_json_end(json, '}');
            continue;
        }
        g_autofree char *row =
            g_strdup_printf("%-15s %6.4g  %-4s  ", of->name, bytes, of->runs ? "yes" : "no");
        g_autofree char *text = g_strdup_printf("%s; %s", of->keeps, of->source);
        mw_wrap_row(stdout, row, text);
    }
    return end(json);
}

static int
list_schedules(struct mw_json_writer *json)
{
    begin(json, "memwall-schedules/1", "schedules");
    if (!json)
        mw_wrap_row(stdout, "schedule     runs  ",
                    "order in a stage of p, of m micro-batches; bubble; source");
    for (int i = 0; i < MW_SCHEDULE_COUNT; i++) {
        const struct mw_schedule_row *of = mw_schedule_row(i);
        if (json) {
            mw_json_begin(json, NULL, '{', true);
            mw_json_string(json, "schedule", of->name);
            mw_json_boolean(json, "runs", of->runs);
            mw_json_string(json, "order", of->order);
            mw_json_string(json, "bubble", of->bubble);
            mw_json_string(json, "source", of->source);
            mw_json_end(json, '}');
            continue;
        }
        g_autofree char *row = g_strdup_printf("%-11s  %-4s  ", of->name, of->runs ? "yes" : "no");
        g_autofree char *text = g_strdup_printf("%s; %s; %s", of->order, of->bubble, of->source);
        mw_wrap_row(stdout, row, text);
    }
    return end(json);
}

static int
list_gates(struct mw_json_writer *json)
{
    begin(json, "memwall-gates/1", "gates");
    if (!json)
        mw_wrap_row(stdout, "gate           runs  ",
                    "who chooses, of E experts for t tokens; what it adds to the router; tokens of "
                    "an expert; source");
    for (int i = 0; i < MW_GATING_COUNT; i++) {
        const struct mw_gate_row *of = mw_gate_row(i);
        if (json) {
            mw_json_begin(json, NULL, '{', true);
            mw_json_string(json, "gate", of->name);
            mw_json_boolean(json, "runs", of->runs);
            mw_json_string(json, "choice", of->choice);
            mw_json_string(json, "adds", of->adds);
            mw_json_string(json, "capacity", of->capacity);
            mw_json_string(json, "source", of->source);
            mw_json_end(json, '}');
            continue;
        }
        g_autofree char *row = g_strdup_printf("%-13s  %-4s  ", of->name, of->runs ? "yes" : "no");
        g_autofree char *text =
            g_strdup_printf("%s; %s; %s; %s", of->choice, of->adds, of->capacity, of->source);
        mw_wrap_row(stdout, row, text);
    }
    return end(json);
}

static int
list_data_parallel(struct mw_json_writer *json)
{
    begin(json, "memwall-data-parallel/1", "data_parallel");
    if (!json)
        mw_wrap_row(stdout, "way    runs  ",
                    "updates of a step of N GPUs; how many of them a gradient's parameters lack "
                    "when it is applied; source");
    for (int i = 0; i < MW_DATA_PARALLEL_COUNT; i++) {
        const struct mw_data_parallel_row *of = mw_data_parallel_row(i);
        if (json) {
            mw_json_begin(json, NULL, '{', true);
            mw_json_string(json, "data_parallel", of->name);
            mw_json_boolean(json, "runs", of->runs);
            mw_json_string(json, "update", of->update);
            mw_json_string(json, "staleness", of->staleness);
            mw_json_string(json, "source", of->source);
            mw_json_end(json, '}');
            continue;
        }
        g_autofree char *row = g_strdup_printf("%-5s  %-4s  ", of->name, of->runs ? "yes" : "no");
        g_autofree char *text =
            g_strdup_printf("%s; %s; %s", of->update, of->staleness, of->source);
        mw_wrap_row(stdout, row, text);
    }
    return end(json);
}

/* Of 16 bits an element, large enough that blocks and rows are whole. */
#define ENCODED_ELEMENTS 65536
#define ENCODED_SPARSITY 0.5

static int
list_encodings(struct mw_json_writer *json)
{
    begin(json, "memwall-encodings/1", "encodings");
    if (!json)
        mw_wrap_row(stdout, "encoding    ratio  lossless  runs  ",
                    "what it stores (sparse: with half of the elements zero); cost; source");
    for (int i = 0; i < MW_ENCODING_COUNT; i++) {
        const struct mw_encoding_row *of = mw_encoding_row(i);
        double ratio = (double)mw_encoding_bytes(i, ENCODED_ELEMENTS, 2, ENCODED_SPARSITY) /
                       (2.0 * ENCODED_ELEMENTS);
        if (json) {
            mw_json_begin(json, NULL, '{', true);
            mw_json_string(json, "encoding", of->name);
            mw_json_number(json, "ratio", ratio);
            mw_json_boolean(json, "lossless", of->lossless);
            mw_json_boolean(json, "runs", of->runs);
            mw_json_string(json, "of", of->of);
            mw_json_string(json, "cost", of->cost);
            mw_json_string(json, "settings", of->settings);
            mw_json_string(json, "source", of->source);
            mw_json_end(json, '}');
            continue;
        }
        g_autofree char *row =
            g_strdup_printf("%-10s %6.3f  %-8s  %-4s  ", of->name, ratio,
                            of->lossless ? "yes" : "no", of->runs ? "yes" : "no");
        g_autofree char *text = g_strdup_printf("%s; %s; %s", of->of, of->cost, of->source);
        mw_wrap_row(stdout, row, text);
    }
    return end(json);
}

static int
list_software(struct mw_json_writer *json)
{
    g_auto(GStrv) names = mw_profile_list(&mw_software_kind);

    begin(json, "memwall-software/1", "software");
    if (!json)
        mw_wrap_row(stdout, "software                ", "description");
    for (char **name = names; *name; name++) {
        g_autoptr(GError) error = NULL;
        struct mw_profile *profile = mw_software_load(*name, &error);
        if (!profile)
            return cli_fail(error);
        g_autofree char *row = g_strdup_printf("%-24s", *name);
        if (json) {
            mw_json_begin(json, NULL, '{', true);
            mw_json_string(json, "software", *name);
            mw_json_string(json, "provenance",
                           mw_provenance_name(mw_profile_worst_provenance(profile)));
            mw_json_string(json, "description", mw_profile_description(profile));
            mw_json_end(json, '}');
        } else {
            mw_wrap_row(stdout, row, mw_profile_description(profile));
        }
        mw_profile_free(profile);
    }
    return end(json);
}

static int
show_profile(const struct mw_profile_kind *kind, const char *name)
{
    g_autoptr(GError) error = NULL;
    struct mw_profile *profile = kind == &mw_hwprofile_kind ? mw_hwprofile_load(name, &error)
                                                            : mw_profile_load(kind, name, &error);

    if (!profile)
        return cli_fail(error);
    mw_profile_print(stdout, profile);
    mw_profile_free(profile);
    return cli_flush();
}

enum list {
    MODELS,
    TYPES,
    PROFILES,
    SOFTWARE,
    STRATEGIES,
    OPTIMIZERS,
    SCHEDULES,
    DATA_PARALLEL,
    GATES,
    ENCODINGS,
    DEVICES,
    RUNS,
    LISTS
};

static const char *const list_names[LISTS + 1] = {
    "models",        "types", "hwprofiles", "software", "strategies", "optimizers", "schedules",
    "data-parallel", "gates", "encodings",  "devices",  "runs",       NULL};

#define ALL_LISTS                                                                                  \
    "models, types, hwprofiles, software, strategies, optimizers, schedules, data-parallel, "      \
    "gates, encodings, devices or runs"

/* Other names for the same list, which a search by spelling would not find. */
static const struct {
    const char *lists;
    const char *words[9];
} synonyms[] = {
    {"hwprofiles", {"hardware", "hw", "machine", "machines", "node", "nodes", "server", "servers"}},
    {"software", {"framework", "frameworks", "stack", "stacks", "library", "libraries"}},
    {"devices or hwprofiles", {"gpu", "gpus", "card", "cards", "accelerators"}},
    {"devices", {"backend", "backends", "cpu", "cpus"}},
    {"types", {"families", "architectures", "model-types", "model_types"}},
    {"models", {"preset", "presets", "network", "networks", "llms"}},
    {"runs", {"job", "jobs", "checkpoints", "experiments", "trainings"}},
};

/* The list that the word means; NULL: unknown. */
static const char *
meant_by(const char *word)
{
    g_autofree char *lower = g_ascii_strdown(word, -1);

    for (size_t i = 0; i < G_N_ELEMENTS(synonyms); i++)
        if (g_strv_contains(synonyms[i].words, lower))
            return synonyms[i].lists;
    return NULL;
}

static bool
parse_list(const char *word, enum list *list, GError **error)
{
    for (int i = 0; i < LISTS; i++)
        if (!strcmp(word, list_names[i])) {
            *list = (enum list)i;
            return true;
        }
    const char *meant = meant_by(word);
    g_autofree char *like = meant ? g_strdup(meant) : mw_names_like(word, list_names, "");
    if (like)
        return mw_refuse(error, "list %s: did you mean %s?", word, like);
    return mw_refuse(error, "list %s: must be " ALL_LISTS, word);
}

/* `words` follow the verb: a list, and perhaps one of its entries. */
static bool
check_words(char **words, int count, bool as_json, enum list *list, GError **error)
{
    if (!count)
        return mw_refuse(
            error,
            "list: needs one of models, types, hwprofiles, software, strategies, optimizers, "
            "schedules, data-parallel, gates, encodings, devices and runs; see memwall list "
            "--help");
    if (!parse_list(words[0], list, error))
        return false;
    bool profiles = *list == PROFILES || *list == SOFTWARE;
    int most = *list == MODELS || profiles ? 2 : 1;
    if (count > most)
        return mw_refuse(error, "list %s: unexpected argument \"%s\"; see memwall list --help",
                         list_names[*list], words[most]);
    return !profiles || count < 2 || !as_json ||
           mw_refuse(error, "list %s %s: prints the profile as an .ini file; leave out --json",
                     list_names[*list], words[1]);
}

static int
answer(enum list list, const char *name, bool as_json)
{
    struct mw_json_writer writer = {.out = stdout};
    struct mw_json_writer *json = as_json ? &writer : NULL;

    switch (list) {
    case MODELS:
        return name ? cli_list_model(name, as_json) : list_models(json);
    case TYPES:
        return list_types(json);
    case PROFILES:
        return name ? show_profile(&mw_hwprofile_kind, name) : list_profiles(json);
    case SOFTWARE:
        return name ? show_profile(&mw_software_kind, name) : list_software(json);
    case STRATEGIES:
        return list_strategies(json);
    case OPTIMIZERS:
        return list_optimizers(json);
    case SCHEDULES:
        return list_schedules(json);
    case DATA_PARALLEL:
        return list_data_parallel(json);
    case GATES:
        return list_gates(json);
    case ENCODINGS:
        return list_encodings(json);
    case DEVICES:
        return cli_list_devices(as_json);
    default:
        return cli_list_runs(as_json);
    }
}

static int
run(int argc, char **argv)
{
    static gboolean as_json, help;
    static const GOptionEntry entries[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &as_json, "print JSON instead of a table", NULL},
        {"help", 'h', 0, G_OPTION_ARG_NONE, &help, "print this help", NULL},
        G_OPTION_ENTRY_NULL};
    static const struct cli_words_group groups[] = {{CLI_WORDS_OWN, entries}, {NULL, NULL}};
    const struct cli_words words = {.verb = &cli_verb_list, .groups = groups};
    g_autoptr(GError) error = NULL;
    enum list list = MODELS;

    if (!cli_words_parse(&words, &argc, &argv, &error))
        return cli_fail(error);
    if (help) {
        cli_words_help(&words, stdout);
        return cli_flush();
    }
    if (!check_words(argv + 1, argc - 1, as_json, &list, &error))
        return cli_fail(error);
    return answer(list, argc > 2 ? argv[2] : NULL, as_json);
}

const struct cli_verb cli_verb_list = {
    .name = "list",
    .summary = "list models, types of models, hardware profiles, software, strategies, optimizers, "
               "schedules, ways of data parallelism, gates of experts, encodings, devices or runs",
    .arguments = "models [NAME]|types|data-parallel|hwprofiles [NAME]|software [NAME]|strategies|"
                 "optimizers|schedules|gates|encodings|devices|runs",
    .examples = "memwall list models\n"
                "memwall list models gpt2\n"
                "memwall list hwprofiles rtx4090\n"
                "memwall list runs --json",
    .details =
        "models: presets for -m; of one NAME, or config.json, its operators.\n"
        "types: model types that a config.json may have.\n"
        "hwprofiles: machines for -H; of one NAME, or .ini file, all keys, values, sources.\n"
        "software: frameworks for --software; of one NAME, or .ini file, all keys and sources.\n"
        "strategies: names for -s.\n"
        "optimizers: names for --optimizer, and the state that each keeps.\n"
        "schedules: names for --schedule, and how long stages wait for each other.\n"
        "data-parallel: names for --data-parallel, and how old the gradients are.\n"
        "gates: names for --gate, and what each adds to the router of a mixture.\n"
        "encodings: how activations may be stored until backward needs them, ratios and costs.\n"
        "devices: what run and calibrate can compute on here.\n"
        "runs: runs whose state is on this machine's drives: durable steps, sizes, "
        "directories.",
    .run = run,
};
