#include "tests/remedy_text.h"

#include <string.h>

#include "base/spell.h"

void
remedy_text_spell(void)
{
    static const struct mw_spelling typed = {
        "--", " ", "--set ", {{"hardware", "-H"}, {"strategy", "-s"}}};

    mw_spell_as(&typed);
}

static bool
is_options(const char *text)
{
    return g_str_has_prefix(text, "-");
}

char **
remedy_ways(const char *text)
{
    const char *const begin = is_options(text) ? "(?<=fits|\\)), (?=-)" : "$.";

    return g_regex_split_simple(begin, text, 0, 0);
}

static void
give_up(const char *text, struct mw_settings *settings)
{
    static const char *const options[MW_STATE_COUNT] = {
        "--param-device", "--gradient-device", "--optimizer-device", "--activation-device"};

    for (int state = 0; state < MW_STATE_COUNT; state++) {
        bool named = strstr(text, options[state]) != NULL;
        g_assert_cmpint(named, ==, settings->placement[state].count > 0);
        settings->placement[state].count = 0;
    }
}

static bool
follow_number(const char *option, const char *value, struct mw_settings *s, enum remedy *kind)
{
    const struct {
        const char *option;
        int64_t *number;
        enum remedy kind;
    } numbers[] = {
        {"--tiles", &s->tiles, REMEDY_TILES},
        {"--logits-chunks", &s->logits_chunks, REMEDY_CHUNKS},
        {"--grad-accum", &s->grad_accum, REMEDY_BATCH},
        {"--nodes", &s->nodes, REMEDY_NODES},
        {"--gpus", &s->gpus_per_node, REMEDY_NODES},
        {"--activation-checkpoint-interval", &s->checkpoint_interval, REMEDY_USUAL},
        {"--optimizer-chunk", &s->optimizer_chunk, REMEDY_USUAL},
        {"--buffer-sets", &s->buffer_sets, REMEDY_USUAL},
        {"--prefetch", &s->prefetch, REMEDY_USUAL},
        {"--param-loads", &s->param_loads, REMEDY_USUAL},
        {"--dpu-start", &s->dpu_start, REMEDY_USUAL},
        {"--save-every", &s->save_every, REMEDY_USUAL},
        {"--tp", &s->tp, REMEDY_SLICING},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++)
        if (!strcmp(option, numbers[i].option)) {
            bool open = !strcmp(value, "auto") || !strcmp(value, "none");
            *numbers[i].number = open ? MW_AUTO : g_ascii_strtoll(value, NULL, 10);
            *kind = numbers[i].kind;
            return true;
        }
    return false;
}

/* Those of few values; each remedy knows one. */
static bool
follow_choice(const char *option, const char *value, struct mw_settings *s, enum remedy *kind)
{
    *kind = REMEDY_USUAL;
    if (!strcmp(option, "--commit")) {
        g_assert_cmpstr(value, ==, "none");
        s->commit = 0;
    } else if (!strcmp(option, "--state-layout")) {
        g_assert_cmpstr(value, ==, "zero16");
        s->layout = MW_LAYOUT_ZERO16;
    } else if (!strcmp(option, "--partition")) {
        g_assert_cmpstr(value, ==, "bandwidth");
        s->partition = MW_PARTITION_BANDWIDTH;
    } else if (!strcmp(option, "--shard-group")) {
        g_assert_cmpstr(value, ==, "all");
        s->shard_group = MW_SHARD_ALL;
    } else if (!strcmp(option, "--share-slots")) {
        g_assert_cmpstr(value, ==, "on");
        s->share_slots = MW_SHARE_ALL;
        *kind = REMEDY_SHARING;
    } else {
        return false;
    }
    return true;
}

static bool
follow_machine(const char *option, const char *value, struct remedy_request *request,
               enum remedy *kind)
{
    g_autoptr(GError) error = NULL;

    if (!strcmp(option, "-H")) {
        mw_profile_free(request->profile);
        request->profile = mw_hwprofile_load(value, &error);
        *kind = REMEDY_MACHINE;
    } else if (!strcmp(option, "--set")) {
        g_assert_nonnull(request->profile);
        mw_profile_set(request->profile, value, &error);
        *kind = REMEDY_SET;
    } else {
        return false;
    }
    g_assert_no_error(error);
    return true;
}

static enum remedy
follow_option(const char *option, const char *value, struct remedy_request *request)
{
    struct mw_settings *s = &request->settings;
    enum remedy kind;

    if (follow_number(option, value, s, &kind) || follow_choice(option, value, s, &kind) ||
        follow_machine(option, value, request, &kind))
        return kind;
    if (!strcmp(option, "-s")) {
        g_assert_true(mw_strategy_parse(value, &s->strategy, NULL));
        return REMEDY_STRATEGY;
    }
    if (!strcmp(option, "--activation-device")) {
        g_assert_true(mw_placement_parse(value, option, &s->placement[MW_STATE_ACTIVATIONS], NULL));
        return REMEDY_CHECKPOINTS;
    }
    g_assert_cmpstr(option, ==, "--batch");
    s->micro_batch = g_ascii_strtod(value, NULL);
    return REMEDY_BATCH;
}

/* Options with their values, up to a word that is none. */
static enum remedy
follow_options(const char *text, struct remedy_request *request)
{
    g_auto(GStrv) words = g_strsplit(text, " ", -1);
    enum remedy kind = REMEDY_MEMORY;

    for (char **word = words; *word && is_options(*word); word += 2) {
        g_assert_nonnull(word[1]);
        enum remedy one = follow_option(word[0], word[1], request);
        kind = word == words || one == kind ? one : REMEDY_SEVERAL;
    }
    return kind;
}

enum remedy
remedy_follow(const char *way, struct remedy_request *request)
{
    const char *without = strstr(way, "without --");
    const char *sets = is_options(way) ? NULL : strstr(way, ": --set ");

    if (without)
        give_up(without, &request->settings);
    if (without == way)
        return REMEDY_DEVICES;
    if (sets)
        return follow_options(sets + strlen(": "), request);
    return is_options(way) ? follow_options(way, request) : REMEDY_MEMORY;
}
