#include <glib.h>
#include <string.h>

#include "base/error.h"
#include "planner/settings/strategies.h"

static void
test_names(void)
{
    enum mw_strategy parsed;

    for (int i = 0; i < MW_STRATEGY_COUNT; i++) {
        const struct mw_strategy_traits *row = mw_strategy_traits(i);
        g_assert_true(row->name && *row->name && row->help && *row->help);
        g_assert_true(row->source &&
                      (strstr(row->source, "arXiv ") || strstr(row->source, "doi ")));
        g_assert_true(mw_strategy_parse(row->name, &parsed, NULL));
        g_assert_cmpint(parsed, ==, i);
        g_assert_cmpstr(mw_strategy_name(i), ==, row->name);
    }
    g_assert_null(mw_strategy_name(MW_STRATEGY_COUNT));
    g_assert_null(mw_strategy_name(-1));
}

static void
test_unknown(void)
{
    g_autoptr(GError) error = NULL;
    enum mw_strategy parsed = MW_STRATEGY_ZERO2;

    g_assert_false(mw_strategy_parse("megatron", &parsed, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "\"megatron\""));
    g_assert_nonnull(strstr(error->message, "zero-infinity-nvme"));
    g_assert_null(strchr(error->message, '\n'));
    g_clear_error(&error);
    g_assert_false(mw_strategy_parse("zero_offload", &parsed, &error));
    g_assert_nonnull(strstr(error->message, "did you mean zero-offload?"));
    g_assert_cmpint(parsed, ==, MW_STRATEGY_ZERO2);
}

/* A row that is filled in by half is found here. */
static void
test_rows(void)
{
    for (int i = 0; i < MW_STRATEGY_COUNT; i++) {
        const struct mw_strategy_traits *row = mw_strategy_traits(i);
        const struct mw_state_traits *state = row->state;
        g_assert_cmpint(row->partition, !=, MW_PARTITION_AUTO);
        if (i == MW_STRATEGY_AUTO)
            continue;
        g_assert_cmpint(row->complexity, >, 0);
        g_assert_true(row->runs);
        for (int s = 0; s < MW_STATE_COUNT; s++) {
            g_assert_cmpint(state[s].nearest, <=, state[s].deepest);
            g_assert_true(state[s].offloadable || state[s].deepest == MW_TIER_GPU);
        }
        /* What is made of a partitioned state is partitioned (ZeRO Sec. 5). */
        g_assert_true(!state[MW_STATE_PARAMETERS].partitioned ||
                      state[MW_STATE_GRADIENTS].partitioned);
        g_assert_true(!state[MW_STATE_GRADIENTS].partitioned ||
                      state[MW_STATE_OPTIMIZER].partitioned);
        /* The update's gradients are where the optimizer state is, or one tier above it. */
        g_assert_cmpint(state[MW_STATE_GRADIENTS].deepest, <=, state[MW_STATE_OPTIMIZER].deepest);
        g_assert_cmpint(state[MW_STATE_GRADIENTS].nearest, ==,
                        row->updates_on_gpu ? MW_TIER_GPU
                                            : MIN(state[MW_STATE_OPTIMIZER].nearest, MW_TIER_CPU));
        for (int s = 0; s < MW_STATE_COUNT; s++)
            g_assert_true(!(row->fills_gpu >> s & 1) || state[s].deepest > MW_TIER_GPU);
        g_assert_true(!row->updates_on_gpu || !row->delays_update);
        g_assert_true(!row->delays_update || state[MW_STATE_OPTIMIZER].nearest > MW_TIER_GPU);
    }
}

static void
test_order(void)
{
    const struct mw_strategies all = mw_strategies_of(MW_STRATEGY_AUTO);
    const struct mw_strategies every = mw_strategies_all();
    int named = 0;

    g_assert_cmpint(every.count, ==, MW_STRATEGY_COUNT - 1);
    for (int i = 0; i < every.count; i++) {
        const struct mw_strategies one = mw_strategies_of(every.one[i]);
        g_assert_true(one.count == 1 && one.one[0] == every.one[i]);
        g_assert_true(i == 0 || mw_strategy_is_simpler(every.one[i - 1], every.one[i]));
        named += mw_strategy_traits(every.one[i])->by_name;
    }
    g_assert_cmpint(all.count, ==, every.count - named);
    g_assert_cmpint(mw_strategies_beyond(MW_STRATEGY_AUTO).count, ==, 0);
    for (int i = 0; i < all.count; i++) {
        const struct mw_strategies one = mw_strategies_of(all.one[i]);
        const struct mw_strategies beyond = mw_strategies_beyond(all.one[i]);
        g_assert_cmpint(all.one[i], !=, MW_STRATEGY_AUTO);
        g_assert_true(i == 0 || mw_strategy_is_simpler(all.one[i - 1], all.one[i]));
        g_assert_true(one.count == 1 && one.one[0] == all.one[i]);
        g_assert_false(mw_strategy_traits(all.one[i])->by_name);
        g_assert_cmpint(beyond.count, ==, all.count - 1 - i);
        g_assert_cmpmem(beyond.one, (gsize)beyond.count * sizeof beyond.one[0], &all.one[i + 1],
                        (gsize)beyond.count * sizeof beyond.one[0]);
    }
}

/* Each stage of a DeepSpeed file, with each device that the stage has, is one strategy. */
static void
test_deepspeed(void)
{
    const struct mw_strategies all = mw_strategies_of(MW_STRATEGY_AUTO);

    for (int stage = 0; stage <= 3; stage++)
        for (int tier = MW_TIER_GPU; tier < MW_TIER_COUNT; tier++) {
            int found = 0;
            for (int i = 0; i < all.count; i++) {
                const struct mw_deepspeed_traits *row = &mw_strategy_traits(all.one[i])->deepspeed;
                found +=
                    (int)row->offload == tier && stage >= row->least_stage && stage <= row->stage;
            }
            bool has = tier == MW_TIER_GPU || stage == 3 || (tier == MW_TIER_CPU && stage > 0);
            g_assert_cmpint(found, ==, has ? 1 : 0);
        }
}

static bool
delays_update(const struct mw_strategy_traits *strategy)
{
    return strategy->delays_update;
}

static bool
is_on_gpu(const struct mw_strategy_traits *strategy)
{
    return strategy->state[MW_STATE_OPTIMIZER].deepest == MW_TIER_GPU;
}

static bool
is_none(const struct mw_strategy_traits *strategy)
{
    return !strategy->name;
}

static void
test_text(void)
{
    g_autofree char *one = mw_strategies_text(delays_update);
    g_autofree char *several = mw_strategies_text(is_on_gpu);
    g_autofree char *none = mw_strategies_text(is_none);

    g_assert_cmpstr(one, ==, "zero-offload");
    g_assert_cmpstr(several, ==, "ddp, zero1, zero2 or zero3");
    g_assert_cmpstr(none, ==, "");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/strategies/names", test_names);
    g_test_add_func("/strategies/unknown", test_unknown);
    g_test_add_func("/strategies/rows", test_rows);
    g_test_add_func("/strategies/order", test_order);
    g_test_add_func("/strategies/deepspeed", test_deepspeed);
    g_test_add_func("/strategies/text", test_text);
    return g_test_run();
}
