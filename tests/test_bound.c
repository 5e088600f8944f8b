/* Invariant 5, third form: `bound` is never above the engine's step, and refuses nothing that fits.
 * On random requests, and on machines and models as they are. */
#include <math.h>

#include "study/bound.h"
#include "study/evaluate.h"
#include "study/known_steps.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define PLANS MW_CASES(1500)
#define PIPELINES MW_CASES(300)

struct tightness { /* how near the bound comes */
    double most, sum;
    int count;
};

static void
check_sizing(const struct mw_sizing *sizing, struct tightness *near)
{
    const struct mw_request request = {sizing->model, sizing->hardware};
    const struct mw_settings *s = &sizing->settings;
    struct mw_plan *plan = mw_build_plan(sizing);
    double step_s = mw_step_s(plan, sizing->hardware, false);
    struct mw_bound bound;

    mw_bound_of(&request, s, &bound);
    double least_s =
        mw_bound_step_s(&bound, mw_tokens_per_step(sizing), s->nodes, s->gpus_per_node);
    g_assert_cmpfloat(mw_bound_short_bytes(&bound, s->nodes, s->gpus_per_node), ==, 0);
    g_assert_cmpfloat(least_s, >, 0);
    g_assert_cmpfloat(least_s, <=, step_s * (1 + 1e-9) + 1e-9);
    near->most = fmax(near->most, least_s / step_s);
    near->sum += least_s / step_s;
    near->count++;
    mw_plan_free(plan);
}

static void
check_requests(guint32 first_seed, int plans, bool stages)
{
    struct tightness near = {0};

    for (guint32 seed = first_seed; near.count < plans; seed++) {
        struct random_request request;
        random_request_init(&request, seed);
        if (stages)
            random_request_stages(&request);
        if (mw_model_can_spread(&request.model)) {
            request.settings.gate = (enum mw_gating)(seed % MW_GATING_COUNT);
            request.settings.capacity_factor = seed % 3 ? MW_AUTO : 0.5 + (double)(seed % 4) / 4;
        }
        random_request_name(&request);
        g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
        for (guint i = 0; found && i < found->len; i++) {
            const struct mw_sizing *sizing = found->pdata[i];
            if (sizing->fits)
                check_sizing(sizing, &near);
        }
    }
    g_test_message("bound over step: mean %.3f, most %.3f", near.sum / near.count, near.most);
    g_assert_cmpfloat(near.most, >, 0.5); /* a bound of nothing cuts nothing */
}

static void
test_random_requests(void)
{
    check_requests(900000, PLANS, false);
}

static void
test_random_pipelines(void)
{
    check_requests(1900000, PIPELINES, true);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/bound/below-the-engine/random-requests", test_random_requests);
    g_test_add_func("/bound/below-the-engine/random-pipelines", test_random_pipelines);
    return g_test_run();
}
