/* Which layers are recomputed where they are unlike: the planner's choice against all sets of
 * layers, on random small chains. */
#include <glib.h>
#include <math.h>

#include "planner/build/build.h"
#include "planner/planner.h"
#include "study/choose.h"
#include "study/evaluate.h"
#include "study/known_steps.h"
#include "tests/cases.h"
#include "tests/hwprofile_helpers.h"

#define CHAINS MW_CASES(200)
#define ALIKE_WORTH 1.02 /* factor by which a plan that recomputes some layers must be faster */
#define SEED 20021

/* A mixture whose first layers are dense, or with a window in some layers, or both. */
static void
random_model(GRand *random, struct mw_model *model)
{
    g_assert_true(mw_model_load("mixtral-8x7b", model, NULL));
    model->layers = g_rand_int_range(random, 2, 6);
    model->heads = model->kv_heads = g_rand_int_range(random, 2, 9);
    model->hidden = model->heads * model->head_dim;
    model->vocab = 1000;
    model->experts = 4;
    model->ffn = 64 * g_rand_int_range(random, 4, 40);
    model->expert_ffn = 64 * g_rand_int_range(random, 4, 40);
    model->experts_per_token = g_rand_int_range(random, 1, 5);
    bool experts = g_rand_int_range(random, 0, 4) > 0;
    model->dense_layers =
        experts ? g_rand_int_range(random, 1, (gint32)model->layers) : model->layers;
    model->window = !experts || g_rand_boolean(random) ? 128 : 0;
    model->window_period = model->window ? g_rand_int_range(random, 2, 4) : 0;
    g_assert_true(mw_model_validate(model, "random", NULL));
}

static int64_t
gpu_need(const struct mw_question *q, const struct mw_settings *settings)
{
    struct mw_sizing *sizing =
        mw_sizing_new(&q->model, &q->hardware[MW_OUTLOOK_TYPICAL], settings, NULL);
    int64_t need = mw_sizing_whole_need(sizing, MW_TIER_GPU);

    mw_sizing_free(sizing);
    return need;
}

static struct mw_settings
with_set(const struct mw_settings *settings, uint32_t mask)
{
    struct mw_settings s = *settings;

    s.recompute_layers = MW_AUTO;
    for (int layer = 0; layer < 32; layer++)
        if (mask >> layer & 1)
            mw_layer_set_add(&s.recompute_set, layer);
    return s;
}

/* Memory between what recomputing the least layers takes and recomputing all. */
static void
set_memory(GRand *random, struct mw_question *q, const struct mw_settings *settings)
{
    struct mw_hardware *hardware = &q->hardware[MW_OUTLOOK_TYPICAL];
    struct mw_settings all = with_set(settings, (UINT32_C(1) << q->model.layers) - 1);
    struct mw_settings one = with_set(settings, 1);

    hardware->gpu_memory_bytes = INT64_C(1) << 42;
    hardware->gpu_largest_request_bytes = hardware->gpu_memory_bytes;
    hardware->gpu_reserve_bytes = 0;
    int64_t least = gpu_need(q, &all), most = gpu_need(q, &one);
    hardware->gpu_memory_bytes =
        least + (int64_t)(g_rand_double(random) * (double)MAX(0, most - least));
}

/* Of all sets of layers that fit; INFINITY if none does. */
static double
best_step_s(const struct mw_question *q, const struct mw_settings *settings)
{
    double best_s = INFINITY;

    for (uint32_t mask = 1; mask < UINT32_C(1) << q->model.layers; mask++) {
        struct mw_settings s = with_set(settings, mask);
        struct mw_sizing *sizing =
            mw_sizing_new(&q->model, &q->hardware[MW_OUTLOOK_TYPICAL], &s, NULL);
        if (sizing->fits) {
            struct mw_plan *plan = mw_build_plan(sizing);
            best_s = fmin(best_s, mw_step_s(plan, sizing->hardware, false));
            mw_plan_free(plan);
        }
        mw_sizing_free(sizing);
    }
    return best_s;
}

static void
ask(GRand *random, struct mw_settings *s)
{
    mw_settings_init(s);
    s->strategy = MW_STRATEGY_DDP;
    s->gpus_per_node = 1;
    s->micro_batch = g_rand_int_range(random, 1, 5);
    s->grad_accum = 1;
    s->seq = 128 * g_rand_int_range(random, 2, 9);
    s->tiles = s->logits_chunks = 1;
    s->checkpoint_interval = 1;
    s->recompute_layers = MW_RECOMPUTE_FEWEST;
}

/* What the planner chooses: its step is none slower than the best, or by no more than what all
 * layers alike are worth.  Returns the set of layers. */
static struct mw_layer_set
check_choice(const struct mw_question *q, double best_s)
{
    struct mw_choice choice;

    g_assert_true(mw_choose(q, MW_STRATEGY_DDP, true, &choice, NULL));
    g_assert_true(choice.sizing->fits);
    double chosen_s = mw_tokens_per_step(choice.sizing) / mw_choice_rate(&choice);
    double worth = mw_sizing_kept_of_model(choice.sizing) ? 1 : ALIKE_WORTH;
    if (chosen_s > best_s * worth * (1 + 1e-9))
        g_error("%" G_GINT64_FORMAT " layers, %" G_GINT64_FORMAT
                " dense, window every %" G_GINT64_FORMAT ": %.9f s, best %.9f s",
                q->model.layers, q->model.dense_layers, q->model.window_period, chosen_s, best_s);
    struct mw_layer_set set = choice.sizing->settings.recompute_set;
    mw_choice_clear(&choice);
    return set;
}

/* Returns whether the layers that are recomputed are not the first ones. */
static bool
check_chain(GRand *random, struct mw_question *q)
{
    struct mw_settings resolved;
    struct mw_request request = {&q->model, &q->hardware[MW_OUTLOOK_TYPICAL]};

    random_model(random, &q->model);
    ask(random, &q->settings);
    g_assert_true(mw_settings_complete(&request, &q->settings, &resolved, NULL));
    set_memory(random, q, &resolved);
    double best_s = best_step_s(q, &resolved);
    g_assert_true(isfinite(best_s));
    struct mw_layer_set set = check_choice(q, best_s);
    q->settings.recompute_layers = q->settings.checkpoint_interval = MW_AUTO;
    check_choice(q, best_s);
    int64_t count = mw_layer_set_count(&set, 0, q->model.layers);
    return mw_layer_set_count(&set, 0, count) != count;
}

/* No choice of layers is faster than the planner's. */
static void
test_best_of_all_sets(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(SEED);
    struct mw_question q = {.profile = mw_test_load("flat-test")};
    int others = 0;

    q.hardware[MW_OUTLOOK_TYPICAL] = mw_hwprofile_read(q.profile, MW_OUTLOOK_TYPICAL);
    q.hardware[MW_OUTLOOK_TYPICAL].offers.recomputed_layers = true;
    for (int i = 0; i < CHAINS; i++)
        others += check_chain(random, &q);
    g_assert_cmpint(others, >, CHAINS / 20); /* the first layers alone would not be the best */
    mw_profile_free(q.profile);
}

static void
assert_set(const char *text, const char *written)
{
    struct mw_layer_set set;
    char back[MW_LAYER_SET_TEXT_MAX];

    g_assert_true(mw_layer_set_read(text, &set) == (written != NULL));
    if (!written)
        return;
    mw_layer_set_write(&set, back);
    g_assert_cmpstr(back, ==, written);
}

static void
test_sets_are_read(void)
{
    assert_set("0", "0");
    assert_set("0-3,8", "0-3,8");
    assert_set("0,1,2,5-5", "0-2,5");
    assert_set("4095", "4095");
    for (int i = 0; i < 9; i++)
        assert_set((const char *[]){"", "-", "3-", "3-1", "4,2", "1,1", "4096", "a", "1,"}[i],
                   NULL);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/recompute_choice/best_of_all_sets", test_best_of_all_sets);
    g_test_add_func("/recompute_choice/sets_are_read", test_sets_are_read);
    return g_test_run();
}
