/* Efficiency is a share of what can be achieved: no plan exceeds 1, however long its sequences. */
#include <math.h>

#include "base/error.h"
#include "base/progress.h"
#include "study/evaluate.h"
#include "study/known_steps.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define REQUESTS MW_CASES(1500)
/* The engine rounds up to nanoseconds; FLOPs of a tile are whole numbers. */
#define ROUNDING 1e-6
#define ENOUGH_BYTES (INT64_C(1) << 46)

static double
efficiency_of(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    double efficiency = mw_flops_done(sizing) / mw_step_s(plan, hardware, false) /
                        mw_achievable_flops(plan, hardware);

    mw_plan_free(plan);
    return efficiency;
}

/* From 8 tokens to a million. */
static void
test_random(void)
{
    int fitting = 0, near = 0;

    for (guint32 seed = 0; seed < REQUESTS; seed++) {
        struct random_request request;
        GPtrArray *candidates;

        random_request_init(&request, seed);
        request.settings.seq <<= seed % 13;
        const struct mw_sizing *sizing = random_request_fitting(&request, &candidates);
        if (sizing) {
            double efficiency = efficiency_of(sizing, &request.hardware);
            g_assert_cmpfloat(efficiency, >, 0);
            g_assert_cmpfloat(efficiency, <, 1 + ROUNDING);
            fitting++;
            near += efficiency > 0.9;
        }
        if (candidates)
            g_ptr_array_unref(candidates);
    }
    g_test_message("%d requests fit, %d above 90%%", fitting, near);
    g_assert_cmpint(fitting, >, REQUESTS / 10);
    g_assert_cmpint(near, >, 0);
}

static struct mw_sizing *
sizing_of(const struct mw_model *model, const struct mw_hardware *hardware, int64_t seq,
          int64_t checkpoint_interval)
{
    struct mw_request request = {model, hardware};
    struct mw_settings asked, resolved;
    g_autoptr(GError) error = NULL;

    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO3;
    asked.seq = seq;
    asked.micro_batch = 1;
    asked.checkpoint_interval = checkpoint_interval;
    mw_settings_complete(&request, &asked, &resolved, &error);
    g_assert_no_error(error);
    struct mw_sizing *sizing = mw_sizing_new(model, hardware, &resolved, &error);
    g_assert_no_error(error);
    return sizing;
}

/* What PaLM counts (App. B): 6 FLOPs a token for each weight of a product, 12·a·d·s for attention,
 * whether layers are recomputed and scores formed again or not. */
static double
palm_flops(const struct mw_model *model, int64_t seq)
{
    double heads = (double)(model->heads + 2 * model->kv_heads) * (double)model->head_dim;
    double weights = (double)model->hidden *
                     (heads + (double)(model->heads * model->head_dim) + 3.0 * (double)model->ffn);
    double attention = 12.0 * (double)(model->heads * model->head_dim * seq);

    return (double)seq * ((double)model->layers * (6 * weights + attention) +
                          6.0 * (double)(model->vocab * model->hidden));
}

static void
test_model_flops(void)
{
    g_autoptr(GError) error = NULL;
    struct mw_profile *profile = mw_hwprofile_load("a100", &error);
    struct mw_model model;
    double scores = 0;

    g_assert_no_error(error);
    mw_model_load("llama-3.1-8b", &model, &error);
    g_assert_no_error(error);
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    hardware.gpu_memory_bytes = hardware.gpu_largest_request_bytes = ENOUGH_BYTES;
    for (int flash = 0; flash <= 1; flash++)
        for (int64_t interval = 0; interval <= 1; interval++) {
            hardware.gpu_flash_attention = flash;
            struct mw_sizing *sizing = sizing_of(&model, &hardware, 8192, interval);
            double palm = palm_flops(&model, 8192), of_model = mw_flops_of_model(sizing);
            g_assert_cmpfloat_with_epsilon(of_model, palm, 1e-9 * palm);
            double again = mw_flops_done(sizing) - of_model;
            scores = (double)flash * 2.0 * 8192 * 8192 *
                     (double)(model.layers * model.heads * model.head_dim);
            if (interval)
                g_assert_cmpfloat(again, >, scores + palm / 4);
            else
                g_assert_cmpfloat_with_epsilon(again, scores, 1e-9 * palm);
            mw_sizing_free(sizing);
        }
    mw_profile_free(profile);
}

/* The machine with memory for any sequence, so that length alone decides. */
static struct mw_hardware
with_ample_memory(const struct mw_profile *profile, enum mw_outlook outlook)
{
    struct mw_hardware hardware = mw_hwprofile_read(profile, outlook);

    hardware.gpu_memory_bytes = hardware.host_memory_bytes = ENOUGH_BYTES;
    hardware.gpu_largest_request_bytes = hardware.host_largest_request_bytes = ENOUGH_BYTES;
    return hardware;
}

static void
hold_at(const char *name, const struct mw_model *model, const struct mw_hardware *hardware,
        int64_t seq)
{
    struct mw_sizing *sizing = sizing_of(model, hardware, seq, MW_AUTO);

    if (sizing->fits && efficiency_of(sizing, hardware) >= 1 + ROUNDING)
        g_error("%s, %s, %d tokens: efficiency %.3f", name, model->name, (int)seq,
                efficiency_of(sizing, hardware));
    mw_sizing_free(sizing);
}

static void
test_profile(gconstpointer name)
{
    static const char *const models[] = {"gpt2", "llama-3.1-8b", "zi-10t"};
    g_autoptr(GError) error = NULL;
    struct mw_profile *profile = mw_hwprofile_load(name, &error);
    struct mw_model model;

    g_assert_no_error(error);
    for (size_t m = 0; m < G_N_ELEMENTS(models); m++) {
        mw_model_load(models[m], &model, &error);
        g_assert_no_error(error);
        for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++) {
            struct mw_hardware hardware = with_ample_memory(profile, (enum mw_outlook)outlook);
            for (int64_t seq = 1024; seq <= 1 << 20; seq *= 32)
                hold_at(name, &model, &hardware, model.learned_positions ? 1024 : seq);
        }
    }
    mw_profile_free(profile);
}

static void
count_plans(void *data, const char *doing, int simulated)
{
    *(int *)data = simulated;
}

/* A step is simulated once for each machine that costs its plan something else, and has the time
 * that it has alone. */
static void
test_known_steps(void)
{
    struct random_request request;
    GPtrArray *candidates = NULL;
    const struct mw_sizing *sizing = NULL;
    struct mw_engine_result result;
    int simulated = 0;

    for (guint32 seed = 0; !sizing; seed++) {
        g_clear_pointer(&candidates, g_ptr_array_unref);
        random_request_init(&request, seed);
        sizing = random_request_fitting(&request, &candidates);
    }
    struct mw_plan *plan = mw_build_plan(sizing), *again = mw_build_plan(sizing);
    struct mw_known_steps *known = mw_known_steps_new();
    struct mw_hardware slower = request.hardware;
    slower.gpu_achievable_flops /= 2;
    slower.gpu_operator_bytes_per_s /= 2;
    double step_s = mw_step_s(plan, &request.hardware, false);
    double free_s = mw_step_s(plan, &request.hardware, true);
    double slower_s = mw_step_s(plan, &slower, false);
    g_assert_cmpfloat(slower_s, >, step_s);

    mw_progress_listen(count_plans, &simulated);
    mw_progress("asking");
    g_assert_true(mw_known_evaluate(known, plan, &request.hardware, true, &result, NULL));
    g_assert_cmpfloat((double)result.step_ns * 1e-9, ==, step_s);
    g_assert_cmpint(simulated, ==, 1);
    g_assert_cmpfloat(mw_known_step_s(known, plan, &request.hardware, false), ==, step_s);
    g_assert_cmpint(simulated, ==, 1);
    for (int i = 0; i < 2; i++) {
        g_assert_cmpfloat(mw_known_step_s(known, plan, &request.hardware, true), ==, free_s);
        g_assert_cmpfloat(mw_known_step_s(known, plan, &slower, false), ==, slower_s);
        g_assert_cmpfloat(mw_known_step_s(known, again, &slower, false), ==, slower_s);
        g_assert_cmpint(simulated, ==, 4);
    }
    mw_progress_end();
    mw_progress_listen(NULL, NULL);
    mw_engine_result_clear(&result);
    mw_known_steps_free(known);
    mw_plan_free(plan);
    mw_plan_free(again);
    g_ptr_array_unref(candidates);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_setenv("XDG_CONFIG_HOME", "/nonexistent", TRUE); /* shipped profiles only */
    g_auto(GStrv) names = mw_hwprofile_list();
    g_test_add_func("/efficiency/random", test_random);
    g_test_add_func("/efficiency/model-flops", test_model_flops);
    g_test_add_func("/efficiency/known-steps", test_known_steps);
    for (guint i = 0; i < g_strv_length(names); i += MW_CASES_STEP) {
        g_autofree char *path = g_strdup_printf("/efficiency/profile/%s", names[i]);
        g_test_add_data_func_full(path, g_strdup(names[i]), test_profile, g_free);
    }
    return g_test_run();
}
