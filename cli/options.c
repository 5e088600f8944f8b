#include "cli/options.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "cli/number.h"

/* A count may end in k, M, B or T, as counts are printed: thousands, never 1,024.  Lengths and
 * sizes, of which 4k could be either, take no such ending. */
enum option_kind {
    OPTION_INTEGER,
    OPTION_WHOLE_COUNT,
    OPTION_REAL,
    OPTION_COUNT,
    OPTION_PLACEMENT,
    OPTION_CHOICE
};

struct choice {
    const char *name;
    int value;
};

static const struct choice commit_choices[] = {{"step", 1}, {"none", 0}, {NULL, 0}};
static const struct choice layout_choices[] = {
    {"zero16", MW_LAYOUT_ZERO16}, {"paper20", MW_LAYOUT_PAPER20}, {NULL, 0}};
static const struct choice partition_choices[] = {
    {"bandwidth", MW_PARTITION_BANDWIDTH}, {"owner", MW_PARTITION_OWNER}, {NULL, 0}};
static const struct choice dtype_choices[] = {
    {"bf16", MW_DTYPE_BF16}, {"fp16", MW_DTYPE_FP16}, {NULL, 0}};
static const struct choice overlap_choices[] = {{"on", 1}, {"off", 0}, {NULL, 0}};

/* As help shows them. */
enum option_group {
    GROUP_BATCH,
    GROUP_PLACES,
    GROUP_MEMORY,
    GROUP_SCHEDULE,
    GROUP_DURABLE,
    GROUP_COST,
    GROUPS
};

static const char *const group_titles[GROUPS] = {
    [GROUP_BATCH] = "GPUs and batch",
    [GROUP_PLACES] = "Where states are kept (default: offloaded only when needed)",
    [GROUP_MEMORY] = "What takes memory",
    [GROUP_SCHEDULE] = "Order of work in a step",
    [GROUP_DURABLE] = "Durable steps",
    [GROUP_COST] = "Cost of a training",
};

struct option {
    enum option_group group;
    const char *name;
    enum option_kind kind;
    size_t offset; /* in struct mw_settings */
    size_t size;
    double min, max;
    const char *open; /* the word for what it is unless it is given; NULL: there is none */
    const struct choice *choices;
    const char *argument, *help;
};

#define FIELD(field) offsetof(struct mw_settings, field), sizeof(((struct mw_settings *)0)->field)
#define STATE(state)                                                                               \
    offsetof(struct mw_settings, placement) + (state) * sizeof(struct mw_placement),               \
        sizeof(struct mw_placement)

static const struct option options[] = {
    {GROUP_BATCH, "nodes", OPTION_INTEGER, FIELD(nodes), 1, 100000, NULL, NULL, "N",
     "use N nodes (default 1)"},
    {GROUP_BATCH, "gpus", OPTION_INTEGER, FIELD(gpus_per_node), 1, 1024, NULL, NULL, "N",
     "use N GPUs per node (default: all that the profile has)"},
    {GROUP_BATCH, "batch", OPTION_REAL, FIELD(micro_batch), 1e-3, 1e6, "auto", NULL, "N|auto",
     "give each GPU micro-batches of N sequences (default auto: the fastest that fit; of "
     "`run` at most 8 per step)"},
    {GROUP_BATCH, "global-batch", OPTION_WHOLE_COUNT, FIELD(global_batch), 1, 1e9, NULL, NULL, "N",
     "train on N sequences per step, all GPUs together (default: what --batch N comes to; of auto "
     "at most 0.5M to 3.2M tokens by parameters, as GPT-3's table has it)"},
    {GROUP_BATCH, "grad-accum", OPTION_INTEGER, FIELD(grad_accum), 1, 4096, NULL, NULL, "N",
     "accumulate gradients over N micro-batches per step (default 1; of --batch auto as many as "
     "fill the global batch)"},
    {GROUP_BATCH, "seq", OPTION_INTEGER, FIELD(seq), 1, 1 << 24, NULL, NULL, "N",
     "train on sequences of N tokens (default: the model's own length, at most 4096; 1024 for "
     "the ZeRO papers' presets)"},
    {GROUP_BATCH, "tp", OPTION_INTEGER, FIELD(tp), 1, 1024, NULL, NULL, "N",
     "slice tensors over N GPUs (default 1: no slicing)"},
    {GROUP_PLACES, "param-device", OPTION_PLACEMENT, STATE(MW_STATE_PARAMETERS), 0, 0, NULL, NULL,
     "WHERE",
     "keep 16-bit parameters on gpu, cpu or nvme, or split them: cpu:60GB,nvme keeps 60 GB per "
     "node in CPU memory and the rest on NVMe"},
    {GROUP_PLACES, "optimizer-device", OPTION_PLACEMENT, STATE(MW_STATE_OPTIMIZER), 0, 0, NULL,
     NULL, "WHERE", "keep the optimizer state on gpu, cpu or nvme, or split it"},
    {GROUP_PLACES, "gradient-device", OPTION_PLACEMENT, STATE(MW_STATE_GRADIENTS), 0, 0, NULL, NULL,
     "WHERE",
     "keep gradients on gpu, cpu or nvme, or split them (default: with the optimizer state)"},
    {GROUP_PLACES, "activation-device", OPTION_PLACEMENT, STATE(MW_STATE_ACTIVATIONS), 0, 0, NULL,
     NULL, "WHERE", "keep activation checkpoints on gpu, cpu or nvme, or split them"},
    {GROUP_MEMORY, "activation-checkpoint-interval", OPTION_INTEGER, FIELD(checkpoint_interval), 0,
     1 << 20, NULL, NULL, "CI",
     "keep an activation checkpoint every CI layers and recompute the rest in backward; 0: keep "
     "all activations (default: 1, or 0 where that is faster and fits)"},
    {GROUP_SCHEDULE, "param-loads", OPTION_INTEGER, FIELD(param_loads), 2, 3, NULL, NULL, "2|3",
     "load parameters 3 times per micro-batch: forward, recompute, backward (default), or 2 times: "
     "the last two share a load"},
    {GROUP_MEMORY, "tiles", OPTION_INTEGER, FIELD(tiles), 1, 4096, "auto", NULL, "T|auto",
     "cut the largest operator into T tiles, computed in turn (default auto: as few as fit)"},
    {GROUP_MEMORY, "logits-chunks", OPTION_INTEGER, FIELD(logits_chunks), 1, MW_LOGITS_CHUNKS_MAX,
     "auto", NULL, "N|auto",
     "compute logits and loss in N parts of the tokens (default auto: as few as fit)"},
    {GROUP_SCHEDULE, "prefetch", OPTION_INTEGER, FIELD(prefetch), 0, 64, NULL, NULL, "D",
     "fetch parameters D parts ahead of their use, in each transfer stage (default 1; 0: none)"},
    {GROUP_SCHEDULE, "partition", OPTION_CHOICE, FIELD(partition), 0, 0, NULL, partition_choices,
     "bandwidth|owner",
     "partition parameters by bandwidth: each GPU fetches its share (default), or by owner: one "
     "GPU fetches and broadcasts (default of zero-offload)"},
    {GROUP_MEMORY, "state-layout", OPTION_CHOICE, FIELD(layout), 0, 0, NULL, layout_choices,
     "zero16|paper20",
     "keep state as zero16, 16 bytes per parameter (default), or paper20, 20 bytes: gradients in "
     "fp32 too"},
    {GROUP_MEMORY, "dtype", OPTION_CHOICE, FIELD(dtype), 0, 0, NULL, dtype_choices, "bf16|fp16",
     "compute in bf16 (default where the GPU has it) or fp16"},
    {GROUP_SCHEDULE, "overlap", OPTION_CHOICE, FIELD(overlap), 0, 0, NULL, overlap_choices,
     "on|off", "run transfers and collectives while the GPU computes (default on)"},
    {GROUP_SCHEDULE, "optimizer-chunk", OPTION_INTEGER, FIELD(optimizer_chunk), 1, 1e12, "auto",
     NULL, "N|auto",
     "update N parameters at a time (default auto: a sixteenth of a GPU's parameters, from 1M to "
     "32M)"},
    {GROUP_SCHEDULE, "buffer-sets", OPTION_INTEGER, FIELD(buffer_sets), 1, 64, NULL, NULL, "N",
     "take turns among N sets of buffers in the optimizer step (default 3)"},
    {GROUP_DURABLE, "commit", OPTION_CHOICE, FIELD(commit), 0, 0, NULL, commit_choices, "step|none",
     "step: make every step a durable checkpoint of the state on NVMe (default where the drives "
     "have room); none: do not"},
    {GROUP_DURABLE, "save-every", OPTION_INTEGER, FIELD(save_every), 0, 1e9, NULL, NULL, "K",
     "save state that is not on NVMe every K steps (default 0: never)"},
    {GROUP_SCHEDULE, "dpu-start", OPTION_INTEGER, FIELD(dpu_start), 0, 1e9, "none", NULL,
     "STEP|none",
     "delay the parameter update by one step, from step STEP on, with zero-offload (default none)"},
    {GROUP_COST, "tokens", OPTION_COUNT, FIELD(tokens), 1, 1e18, NULL, NULL, "N",
     "say how many days, how much energy and how much money training on N tokens takes, such as "
     "15T or 1.5e13 (default: not said)"},
};

G_STATIC_ASSERT(G_N_ELEMENTS(options) == CLI_OPTION_COUNT);

static char *option_texts[CLI_OPTION_COUNT];
static bool option_found[CLI_OPTION_COUNT]; /* by a plan, of which it is taken */

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

bool
cli_options_is_given(const char *name)
{
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++)
        if (option_texts[i] && !strcmp(options[i].name, name))
            return true;
    return false;
}

/* A part of a sequence per GPU makes whole ones where GPUs share it. */
static bool
is_whole(const struct option *option)
{
    bool batch = !strcmp(option->name, "batch");

    return option->kind == OPTION_INTEGER || option->kind == OPTION_WHOLE_COUNT ||
           (batch && !cli_options_is_given("tp"));
}

static bool
parse_number(const struct option *option, const char *text, double *value, GError **error)
{
    bool count = option->kind == OPTION_COUNT || option->kind == OPTION_WHOLE_COUNT;
    g_autofree char *or_open = option->open ? g_strdup_printf(", or %s", option->open) : NULL;
    const struct cli_number number = {
        .option = option->name,
        .min = is_whole(option) ? ceil(option->min) : option->min,
        .max = option->max,
        .whole = is_whole(option),
        .noun =
            is_whole(option) && option->kind == OPTION_REAL ? "whole number of sequences" : NULL,
        .counts = count,
        .or_as = option->open                   ? or_open
                 : option->kind == OPTION_COUNT ? ", as 15T or 1.5e13"
                                                : NULL,
    };

    return cli_number_read(&number, text, value, error);
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

/* As nobody asked for it: a file may have. */
static void
open_option(const struct option *option, struct mw_settings *settings)
{
    struct mw_settings open;

    mw_settings_init(&open);
    memcpy((char *)settings + option->offset, (const char *)&open + option->offset, option->size);
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
        return mw_placement_parse(
            text, dashed, (struct mw_placement *)((char *)settings + option->offset), error);
    }
    if (option->open && !strcmp(text, option->open)) {
        open_option(option, settings);
        return true;
    }
    if (!parse_number(option, text, &value, error))
        return false;
    if (option->kind == OPTION_REAL || option->kind == OPTION_COUNT)
        *(double *)((char *)settings + option->offset) = value;
    else
        store_integer(option, settings, value);
    return true;
}

const struct cli_words_group *
cli_options_groups(const char *const *hidden)
{
    static GOptionEntry entries[CLI_OPTION_COUNT + GROUPS];
    static struct cli_words_group groups[GROUPS + 1];
    size_t count = 0;

    for (int group = 0; group < GROUPS; group++) {
        groups[group] = (struct cli_words_group){group_titles[group], &entries[count]};
        for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
            if ((int)options[i].group != group)
                continue;
            g_clear_pointer(&option_texts[i], g_free);
            int flags = g_strv_contains(hidden, options[i].name) ? G_OPTION_FLAG_HIDDEN : 0;
            entries[count++] = (GOptionEntry){options[i].name,
                                              0,
                                              flags,
                                              G_OPTION_ARG_STRING,
                                              &option_texts[i],
                                              options[i].help,
                                              options[i].argument};
        }
        entries[count++] = (GOptionEntry)G_OPTION_ENTRY_NULL;
    }
    return groups;
}

bool
cli_options_apply(struct mw_settings *settings, GError **error)
{
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++)
        if (option_texts[i] && !apply_option(&options[i], option_texts[i], settings, error))
            return false;
    return true;
}

const char *
cli_options_given(void)
{
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++)
        if (option_texts[i])
            return options[i].name;
    return NULL;
}

bool
cli_options_untyped(const struct mw_settings *settings, const char *message)
{
    size_t length = g_str_has_prefix(message, "--") ? strcspn(message + 2, " :,") : 0;
    struct mw_settings usual;

    mw_settings_init(&usual);
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++) {
        const struct option *option = &options[i];
        if (strlen(option->name) == length && !strncmp(option->name, message + 2, length))
            return !option_texts[i] &&
                   memcmp((const char *)settings + option->offset,
                          (const char *)&usual + option->offset, option->size) != 0;
    }
    return false;
}

void
cli_options_each(void (*put)(void *data, const char *name, const char *text), void *data)
{
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++)
        if (option_texts[i] && !option_found[i])
            put(data, options[i].name, option_texts[i]);
}

bool
cli_options_take(const char *name, const char *text, bool found)
{
    for (size_t i = 0; i < CLI_OPTION_COUNT; i++)
        if (!option_texts[i] && !strcmp(options[i].name, name)) {
            option_texts[i] = g_strdup(text);
            option_found[i] = found;
            return true;
        }
    return false;
}
