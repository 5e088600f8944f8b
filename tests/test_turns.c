/* Models whose layers are of several kinds in turns, such as hybrids of attention and scans, or an
 * encoder and a decoder: each layer is planned as what it is (docs/MODEL.md, 3). */
#include <math.h>
#include <string.h>

#include "config.h"
#include "planner/sizing/internal.h"
#include "study/evaluate.h"
#include "study/known_steps.h"
#include "tests/random_request.h"

static const char *const names[] = {"bamba",      "bart",        "gpt_neo",         "jamba",
                                    "nemotron_h", "qwen3_next",  "recurrent_gemma", "t5",
                                    "lfm2",       "gemma3n_text"};

static struct mw_model
model_of(const char *name)
{
    g_autofree char *path =
        g_strdup_printf("%s/tests/fixtures/models/%s-plain.json", MW_SOURCE_DIR, name);
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;
    struct mw_model model;

    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    char *begin = strstr(text, "\"config\":") + strlen("\"config\":");
    char *end = g_strrstr(text, "\"params\":");
    while (*end != '}')
        end--;
    g_autofree char *config = g_strndup(begin, (gsize)(end - begin) + 1);
    bool good = mw_model_parse_config(config, -1, path, &model, &error);
    g_assert_no_error(error);
    g_assert_true(good);
    return model;
}

static int64_t
sum_of(const struct mw_operators *operators)
{
    int64_t params = 0;

    for (int i = 0; i < operators->count; i++)
        params += operators->info[i].params;
    return params;
}

/* Layers of each kind have exactly the parameters that all layers have, and no other mean. */
static void
check_counts(const struct mw_model *model)
{
    const struct mw_shape shape = {.sequences = 1, .seq = 32, .tp = 1};
    int64_t layers = 0, params, kinds = 0;
    struct mw_model_walk walk;

    mw_model_walk(model, &shape, &walk);
    params = sum_of(&walk.head) + sum_of(&walk.tail);
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++) {
        int64_t blocks = mw_model_count_blocks(model, (enum mw_block_kind)kind, 0, model->layers);
        layers += blocks;
        kinds += blocks > 0;
        params += blocks * sum_of(&walk.blocks[kind]);
    }
    g_assert_cmpint(layers, ==, model->layers);
    g_assert_cmpint(kinds, >, 1);
    g_assert_cmpint(params, ==, mw_model_params(model));
    for (int64_t layer = 0; layer < 2 * model->layers; layer++) {
        enum mw_block_kind kind = mw_model_block_kind(model, layer);
        g_assert_cmpint(mw_model_count_blocks(model, kind, layer, layer + 1), ==, 1);
        g_assert_cmpint(kind, ==, mw_model_block_kind(model, layer + model->layers));
    }
}

static void
test_counts(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        struct mw_model model = model_of(names[i]);
        g_assert_true(model.by_turns);
        check_counts(&model);
    }
}

/* A layer is where its class says, and what is held for one is that of the largest. */
static void
check_layers(const struct mw_sizing *sizing)
{
    int64_t of_class[MW_CLASS_COUNT] = {0}, largest = 0;

    for (int64_t layer = 0; layer < sizing->layers; layer++) {
        enum mw_class class = mw_sizing_layer_class(sizing, layer), found;
        int32_t at;
        int index;
        of_class[class]++;
        largest = MAX(largest, sizing->classes[class].saved_bytes);
        found = mw_sizing_locate(sizing, mw_sizing_layer_tensor(sizing, layer), &at, &index);
        g_assert_cmpint(found, ==, class);
        g_assert_cmpint(at, ==, layer);
        g_assert_cmpint(index, ==, 0);
    }
    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++)
        g_assert_cmpint(of_class[c], ==, sizing->classes[c].blocks);
    g_assert_cmpint(mw_sizing_layer_bytes(sizing), ==, largest);
}

static char *
text_of(const struct mw_plan *plan)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    g_assert_true(mw_plan_write(plan, out));
    fclose(out);
    return text;
}

static void
check_text(const struct mw_plan *plan)
{
    char why[200] = "", *text = text_of(plan);
    struct mw_plan *read = mw_plan_parse(text, strlen(text), why, sizeof why);

    if (!read)
        g_error("%s", why);
    char *again = text_of(read);
    g_assert_cmpstr(text, ==, again);
    free(again);
    free(text);
    mw_plan_free(read);
}

/* The engine's step is the closed form's: times are the sum over unlike layers. */
static void
check_plan(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(sizing); /* it has passed its check */
    struct mw_engine_result engine;
    struct mw_closed_form form;

    check_text(plan);
    g_assert_true(mw_evaluate_plan(plan, hardware, false, &engine, NULL));
    mw_closed_form_of(sizing, hardware, &form);
    g_assert_cmpfloat_with_epsilon((double)engine.step_ns, form.plan_total_s * 1e9, plan->op_count);
    mw_engine_result_clear(&engine);
    mw_plan_free(plan);
}

static struct mw_settings
settings_of(int variant)
{
    static const enum mw_strategy strategies[] = {MW_STRATEGY_DDP, MW_STRATEGY_ZERO_OFFLOAD,
                                                  MW_STRATEGY_ZERO_INFINITY_CPU,
                                                  MW_STRATEGY_ZERO_INFINITY_NVME};
    struct mw_settings s;

    mw_settings_init(&s);
    s.serialize = true;
    s.strategy = strategies[variant % 4];
    s.nodes = s.gpus_per_node = 1;
    s.micro_batch = 1 + variant % 3;
    s.grad_accum = 1 + variant % 2;
    s.seq = 32;
    s.checkpoint_interval = variant % 3;
    s.tiles = 1 + variant % 2;
    s.prefetch = variant % 3;
    if (s.strategy == MW_STRATEGY_ZERO_INFINITY_NVME)
        for (int state = 0; state < MW_STATE_ACTIVATIONS; state++)
            s.placement[state] = (struct mw_placement){
                .count = 1, .part = {{.tier = MW_TIER_NVME, .bytes = INT64_MAX}}};
    return s;
}

static void
test_plans(void)
{
    for (int i = 0; i < 8 * (int)G_N_ELEMENTS(names); i++) {
        struct random_request request = {.settings = settings_of(i / (int)G_N_ELEMENTS(names))};
        g_autoptr(GError) error = NULL;

        request.model = model_of(names[i % (int)G_N_ELEMENTS(names)]);
        request.hardware = test_hardware("flat-test");
        random_request_name(&request);
        g_autoptr(GPtrArray) found = random_request_candidates(&request, &error);
        g_assert_no_error(error);
        check_layers(found->pdata[0]);
        check_plan(found->pdata[0], &request.hardware);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/turns/counts", test_counts);
    g_test_add_func("/turns/plans", test_plans);
    return g_test_run();
}
