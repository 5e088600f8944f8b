#include <glib.h>
#include <string.h>

#include "planner/planner.h"
#include "tests/hwprofile_helpers.h"

/* Of `request`, which points into it: not to be copied. */
struct question {
    struct mw_profile *profile;
    struct mw_hardware hardware;
    struct mw_model model;
    struct mw_request request;
    struct mw_settings asked, resolved;
};

/* Nothing is asked yet.  The profile is to be freed. */
static void
begin(struct question *q, const char *profile, const char *model)
{
    q->profile = mw_test_load(profile);
    q->hardware = mw_hwprofile_read(q->profile, MW_OUTLOOK_TYPICAL);
    g_assert_true(mw_model_load(model, &q->model, NULL));
    q->request = (struct mw_request){&q->model, &q->hardware};
    mw_settings_init(&q->asked);
}

static struct mw_sizing *
take_first(GPtrArray *candidates)
{
    g_assert_nonnull(candidates);
    g_ptr_array_set_free_func(candidates, NULL);
    struct mw_sizing *first = candidates->pdata[0];
    for (guint i = 1; i < candidates->len; i++)
        mw_sizing_free(candidates->pdata[i]);
    g_ptr_array_unref(candidates);
    return first;
}

/* All states on NVMe, checkpoints in host memory, on 32 DGX-2 (the rows of ZeRO-Infinity's
 * Table 1 with 5T and more). */
static struct mw_sizing *
plan_on_nvme(const struct mw_request *request, double batch, int64_t tp, int64_t tiles)
{
    struct mw_settings asked, resolved;

    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    asked.nodes = 32;
    asked.tp = tp;
    asked.micro_batch = batch;
    asked.tiles = tiles;
    asked.commit = 0;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        g_assert_true(mw_placement_parse(state == MW_STATE_ACTIVATIONS ? "cpu" : "nvme", "",
                                         &asked.placement[state], NULL));
    g_assert_true(mw_settings_complete(request, &asked, &resolved, NULL));
    return take_first(mw_planner_candidates(request, &resolved, NULL));
}

/* Untiled, 20T lacks 30 GiB of GPU memory for its buffers; tiled, a tenth of that. */
static void
test_nearest_tiling_is_blamed(void)
{
    struct question q;

    begin(&q, "dgx2", "zi-20t");
    struct mw_sizing *open = plan_on_nvme(&q.request, 2, 8, MW_AUTO);
    g_assert_false(open->fits);
    for (int64_t tiles = 1; tiles <= 64; tiles *= 2) {
        struct mw_sizing *fixed = plan_on_nvme(&q.request, 2, 8, tiles);
        g_assert_cmpint(open->short_bytes, <=, fixed->short_bytes);
        mw_sizing_free(fixed);
    }
    mw_sizing_free(open);
    mw_profile_free(q.profile);
}

/* With an eighth less host memory, 5T at 5 sequences a GPU lacks it for checkpoints; only untiled
 * does it lack GPU memory more. */
static void
test_tier_that_tiling_cannot_help_is_blamed(void)
{
    struct question q;

    begin(&q, "dgx2", "zi-5t");
    q.hardware.host_memory_bytes -= q.hardware.host_memory_bytes / 8;
    struct mw_sizing *untiled = plan_on_nvme(&q.request, 5, 4, 1);
    struct mw_sizing *open = plan_on_nvme(&q.request, 5, 4, MW_AUTO);
    g_assert_false(untiled->fits);
    g_assert_cmpint(untiled->limiting_tier, ==, MW_TIER_GPU);
    g_assert_false(open->fits);
    g_assert_cmpint(open->limiting_tier, ==, MW_TIER_CPU);
    mw_sizing_free(untiled);
    mw_sizing_free(open);
    mw_profile_free(q.profile);
}

/* One layer of hidden size 32K in 4 tiles asks for more than 2 GiB at once; in 8 it does not
 * (ZeRO-Infinity Fig. 6b). */
static void
test_remedy_for_fixed_tiles(void)
{
    struct question q;

    begin(&q, "dgx2", "zi-6b-13b");
    q.hardware.gpu_largest_request_bytes = (int64_t)2 << 30;
    q.asked.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    q.asked.micro_batch = 1;
    q.asked.tiles = 4;
    g_assert_true(mw_settings_complete(&q.request, &q.asked, &q.resolved, NULL));
    struct mw_sizing *sizing = take_first(mw_planner_candidates(&q.request, &q.resolved, NULL));
    g_assert_false(sizing->fits);
    g_assert_true(sizing->fragmentation);
    g_autofree char *remedy = mw_planner_remedy(&q.request, &q.asked, sizing, NULL);
    g_assert_cmpstr(remedy, ==, "tiles=8 fits");
    mw_sizing_free(sizing);
    mw_profile_free(q.profile);
}

static struct mw_sizing *
plan_batch(const struct mw_request *request, struct mw_settings *asked, double batch)
{
    struct mw_settings resolved;

    asked->micro_batch = batch;
    g_assert_true(mw_settings_complete(request, asked, &resolved, NULL));
    return take_first(mw_planner_candidates(request, &resolved, NULL));
}

/* The batch that is proposed is the largest that fits, on whatever devices: one more does not. */
static void
test_remedy_for_batch(void)
{
    struct question q;

    begin(&q, "rtx4090", "gpt3-13b");
    q.asked.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    struct mw_sizing *large = plan_batch(&q.request, &q.asked, 64);
    g_assert_false(large->fits);
    g_autofree char *remedy = mw_planner_remedy(&q.request, &q.asked, large, NULL);
    double batch = g_ascii_strtod(remedy + strlen("batch="), NULL);
    g_assert_true(g_str_has_prefix(remedy, "batch="));
    struct mw_sizing *proposed = plan_batch(&q.request, &q.asked, batch);
    struct mw_sizing *beyond = plan_batch(&q.request, &q.asked, batch + 1);
    g_assert_true(proposed->fits);
    g_assert_false(beyond->fits);
    mw_sizing_free(large);
    mw_sizing_free(proposed);
    mw_sizing_free(beyond);
    mw_profile_free(q.profile);
}

/* Its first three layers are dense: fewer layers are all dense, more have experts too. */
static void
test_largest_mixture(void)
{
    struct question q;
    bool more;

    begin(&q, "dgx-h100", "deepseek-v3");
    q.asked.strategy = MW_STRATEGY_ZERO3;
    q.asked.nodes = 16;
    q.asked.micro_batch = 1;
    g_assert_true(mw_settings_complete(&q.request, &q.asked, &q.resolved, NULL));
    int64_t layers = mw_planner_largest_layers(&q.request, &q.resolved, &more, NULL);
    g_assert_cmpint(layers, >, q.model.dense_layers);
    g_assert_false(more);
    for (int i = 0; i < 2; i++) {
        q.model.layers = layers + i;
        struct mw_sizing *sizing = take_first(mw_planner_candidates(&q.request, &q.resolved, NULL));
        g_assert_true(sizing->fits == !i);
        mw_sizing_free(sizing);
    }
    mw_profile_free(q.profile);
}

/* Where plans of more ops are refused, not memory ends the search, and it says so. */
static void
test_largest_beyond_plans(void)
{
    struct question q;
    bool more;

    begin(&q, "dgx2", "tiny");
    q.asked.strategy = MW_STRATEGY_ZERO3;
    q.asked.ops_max = 5000;
    g_assert_true(mw_settings_complete(&q.request, &q.asked, &q.resolved, NULL));
    int64_t layers = mw_planner_largest_layers(&q.request, &q.resolved, &more, NULL);
    g_assert_cmpint(layers, >, 5000 / 50);
    g_assert_cmpint(layers, <, 5000);
    g_assert_true(more);
    mw_profile_free(q.profile);
}

/* A refusal names an option and a value, and with that value the question is answered. */
static void
test_too_many_ops(void)
{
    struct question q;
    g_autoptr(GError) error = NULL;

    begin(&q, "dgx2", "gpt3-175b");
    q.asked.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    q.asked.micro_batch = 1;
    q.asked.grad_accum = 4096;
    g_assert_true(mw_settings_complete(&q.request, &q.asked, &q.resolved, NULL));
    g_assert_null(mw_planner_candidates(&q.request, &q.resolved, &error));
    g_assert_true(g_str_has_prefix(error->message, "grad-accum=4096: makes a step of "));
    const char *give = strstr(error->message, "; give ");
    g_assert_nonnull(give);
    q.resolved.grad_accum = g_ascii_strtoll(give + strlen("; give "), NULL, 10);
    g_assert_cmpint(q.resolved.grad_accum, >, 10);
    g_autoptr(GPtrArray) found = mw_planner_candidates(&q.request, &q.resolved, NULL);
    g_assert_nonnull(found);
    const struct mw_sizing *first = found->pdata[0];
    g_assert_true(first->fits);
    mw_profile_free(q.profile);
}

/* What searches ask for alone is what there is of the candidates, and nothing where none fits. */
static void
test_fitting(void)
{
    struct question q;
    guint fitting = 0;

    begin(&q, "dgx2", "gpt3-175b");
    for (int s = MW_STRATEGY_DDP; s < MW_STRATEGY_COUNT; s++) {
        q.asked.strategy = s;
        g_assert_true(mw_settings_complete(&q.request, &q.asked, &q.resolved, NULL));
        g_autoptr(GPtrArray) all = mw_planner_candidates(&q.request, &q.resolved, NULL);
        g_autoptr(GPtrArray) those = mw_planner_fitting_candidates(&q.request, &q.resolved);
        bool fits = ((const struct mw_sizing *)all->pdata[0])->fits;
        g_assert_cmpint(those->len, ==, fits ? all->len : 0);
        g_assert_cmpint(fits, ==, mw_planner_fits(&q.request, &q.resolved));
        for (guint i = 0; i < those->len; i++) {
            const struct mw_sizing *one = those->pdata[i], *other = all->pdata[i];
            g_assert_true(one->fits);
            g_assert_cmpmem(one->need_bytes, sizeof one->need_bytes, other->need_bytes,
                            sizeof other->need_bytes);
        }
        fitting += those->len > 0;
    }
    g_assert_cmpint(fitting, >, 0);
    g_assert_cmpint(fitting, <, MW_STRATEGY_COUNT - MW_STRATEGY_DDP);
    mw_profile_free(q.profile);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_setenv("XDG_CONFIG_HOME", "/nonexistent", TRUE); /* shipped profiles only */
    g_test_add_func("/candidates/nearest-tiling", test_nearest_tiling_is_blamed);
    g_test_add_func("/candidates/tier-beyond-tiling", test_tier_that_tiling_cannot_help_is_blamed);
    g_test_add_func("/candidates/remedy-for-fixed-tiles", test_remedy_for_fixed_tiles);
    g_test_add_func("/candidates/remedy-for-batch", test_remedy_for_batch);
    g_test_add_func("/candidates/largest-mixture", test_largest_mixture);
    g_test_add_func("/candidates/largest-beyond-plans", test_largest_beyond_plans);
    g_test_add_func("/candidates/too-many-ops", test_too_many_ops);
    g_test_add_func("/candidates/fitting", test_fitting);
    return g_test_run();
}
