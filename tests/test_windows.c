/* Blocks that differ: layers with a sliding window between layers that see all keys. */
#include <string.h>

#include "planner/planner.h"
#include "tests/hwprofile_helpers.h"

/* As the period says, layer by layer; counts are those of the layers. */
static void
test_kinds(void)
{
    GRand *random = g_rand_new_with_seed(13);

    for (int i = 0; i < 2000; i++) {
        struct mw_model model = {.layers = g_rand_int_range(random, 1, 40),
                                 .experts = g_rand_int_range(random, 0, 2) * 8,
                                 .dense_layers = g_rand_int_range(random, 0, 45),
                                 .window = g_rand_int_range(random, 0, 2) * 100,
                                 .window_period = g_rand_int_range(random, 0, 8)};
        int64_t first = g_rand_int_range(random, 0, (gint32)model.layers);
        int64_t counts[MW_BLOCK_KIND_COUNT] = {0};
        for (int64_t layer = first; layer < model.layers; layer++) {
            enum mw_block_kind kind = mw_model_block_kind(&model, layer);
            bool last = model.window_period && (layer + 1) % model.window_period == 0;
            g_assert_true(mw_block_traits(kind)->windowed == (model.window && !last));
            g_assert_true(mw_block_traits(kind)->experts ==
                          (model.experts && layer >= model.dense_layers));
            counts[kind]++;
        }
        for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++)
            g_assert_cmpint(
                mw_model_count_blocks(&model, (enum mw_block_kind)kind, first, model.layers), ==,
                counts[kind]);
    }
    g_rand_free(random);
}

static struct mw_operator_info
attention_of(const struct mw_model *model, int64_t layer, struct mw_shape shape)
{
    struct mw_operator_info info[MW_LAYER_OPERATORS_MAX];

    mw_model_layer(model, layer, &shape, info);
    for (int i = 0; i < MW_LAYER_OPERATORS_MAX; i++)
        if (info[i].operator_ == MW_OPERATOR_ATTENTION)
            return info[i];
    g_assert_not_reached();
}

/* A window takes products, and neither parameters nor what is kept. */
static void
test_attention(void)
{
    struct mw_model model;

    g_assert_true(mw_model_load("gemma-3-4b", &model, NULL));
    for (int flash = 0; flash <= 1; flash++) {
        struct mw_shape shape = {.sequences = 2, .seq = 4096, .tp = 1, .flash_attention = flash};
        struct mw_operator_info windowed = attention_of(&model, 4, shape);
        struct mw_operator_info full = attention_of(&model, 5, shape);
        int64_t less = flash ? 4 : 1; /* a window of 1024 of 4096 keys; scores are stored whole */
        g_assert_cmpint(windowed.forward_flops * less, ==, full.forward_flops);
        g_assert_cmpint(windowed.backward_flops * less, ==, full.backward_flops);
        g_assert_cmpint(windowed.saved_bytes, ==, full.saved_bytes);
        g_assert_cmpint(windowed.attention.window, ==, flash ? 1024 : 0);
        g_assert_cmpint(full.attention.window, ==, 0);
        shape.seq = 512;
        g_assert_cmpint(attention_of(&model, 4, shape).forward_flops, ==,
                        attention_of(&model, 5, shape).forward_flops);
    }
    g_assert_cmpint(mw_model_layer_params(&model, 4), ==, mw_model_layer_params(&model, 5));
}

static struct mw_plan *
plan_of(const struct mw_model *model)
{
    struct mw_profile *profile = mw_test_load("rtx4090");
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_request request = {model, &hardware};
    struct mw_settings asked, settings;
    GError *error = NULL;

    hardware.host_memory_bytes *= 8;
    hardware.host_largest_request_bytes *= 8;
    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO_INFINITY_CPU;
    asked.micro_batch = 1;
    asked.seq = 4096;
    mw_settings_complete(&request, &asked, &settings, &error);
    g_assert_no_error(error);
    struct mw_sizing *sizing = mw_sizing_new(model, &hardware, &settings, &error);
    g_assert_no_error(error);
    g_assert_true(sizing->fits);
    struct mw_plan *plan = mw_build_plan(sizing);
    g_assert_cmpint(plan->op_count, ==, mw_sizing_op_count(sizing));
    mw_sizing_free(sizing);
    mw_profile_free(profile);
    return plan;
}

/* Every layer's ops have the work of its kind, in all phases. */
static void
test_plan(void)
{
    struct mw_model model;

    g_assert_true(mw_model_load("gemma-3-4b", &model, NULL));
    model.layers = 13;
    model.vocab = 1000;
    struct mw_plan *plan = plan_of(&model);
    int64_t seen = 0;
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_work *work = &plan->works[plan->ops[o].work];
        if (!work->attention.heads)
            continue;
        bool full = (plan->ops[o].layer + 1) % 6 == 0;
        g_assert_cmpint(work->attention.window, ==, full ? 0 : 1024);
        seen++;
    }
    g_assert_cmpint(seen, ==, 3 * model.layers); /* forward, recompute, backward */
    mw_plan_free(plan);
}

static const char gemma3[] =
    "{\"model_type\": \"gemma3_text\", \"hidden_size\": 64, \"intermediate_size\": 128, "
    "\"num_hidden_layers\": 3, \"sliding_window\": 32, \"sliding_window_pattern\": 2%s}";

static void
test_layer_types(void)
{
    static const char *const good[] = {
        "", ", \"layer_types\": null",
        ", \"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\"]"};
    static const char *const bad[] = {
        ", \"layer_types\": [\"sliding_attention\", \"full_attention\"]",
        ", \"layer_types\": [\"full_attention\", \"full_attention\", \"sliding_attention\"]",
        ", \"layer_types\": [1, 2, 3]", ", \"layer_types\": 3"};

    for (size_t i = 0; i < G_N_ELEMENTS(good) + G_N_ELEMENTS(bad); i++) {
        bool reads = i < G_N_ELEMENTS(good);
        g_autofree char *text =
            g_strdup_printf(gemma3, reads ? good[i] : bad[i - G_N_ELEMENTS(good)]);
        g_autoptr(GError) error = NULL;
        struct mw_model model;
        g_assert_true(mw_model_parse_config(text, -1, "x.json", &model, &error) == reads);
        if (reads)
            g_assert_true(model.window == 32 && model.window_period == 2);
        else
            g_assert_nonnull(strstr(error->message, "x.json: key \"layer_types\": must have"));
    }
}

/* Attention that runs here has no window: longer sequences are refused by its name. */
static void
test_runs(void)
{
    struct mw_model model;
    g_autoptr(GError) error = NULL;

    g_assert_true(mw_model_load("mistral-7b-v0.1", &model, NULL));
    g_assert_true(model.runs);
    g_assert_true(mw_model_runs_seq(&model, 4096, NULL));
    g_assert_false(mw_model_runs_seq(&model, 4097, &error));
    g_assert_nonnull(strstr(error->message, "attention here has no window"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/windows/kinds", test_kinds);
    g_test_add_func("/windows/attention", test_attention);
    g_test_add_func("/windows/plan", test_plan);
    g_test_add_func("/windows/layer-types", test_layer_types);
    g_test_add_func("/windows/runs", test_runs);
    return g_test_run();
}
