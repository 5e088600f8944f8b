/* An answer by the closed form alone: the choice and its step by estimates, without a plan. */
#include <math.h>

#include "sim/kernels.h"
#include "study/choose.h"
#include "study/evaluate.h"
#include "study/known_steps.h"
#include "study/pipeline.h"
#include "study/set_result.h"
#include "study/study.h"

/* Each end is as far from the typical time as independent errors reach together. */
static void
fill_step(const struct mw_question *question, const struct mw_sizing *sizing, struct mw_result *r)
{
    double done = mw_flops_done(sizing);
    struct mw_estimate *estimate = mw_estimate_new(sizing, &question->hardware[MW_OUTLOOK_TYPICAL]);
    const struct mw_hardware *own = &question->hardware[MW_OUTLOOK_TYPICAL];
    bool staged = sizing->pp > 1;
    double typical_s = staged ? mw_pipeline_s(sizing, own) : mw_estimate_own_s(estimate);

    for (int o = 0; o < MW_OUTLOOK_COUNT; o++) {
        bool end = o != MW_OUTLOOK_TYPICAL && question->ends;
        const struct mw_hardware *hw = &question->hardware[o];
        double all_s = !end     ? typical_s
                       : staged ? mw_pipeline_s(sizing, hw)
                                : mw_estimate_on_s(estimate, hw);
        double part = end ? mw_independent_part(question, estimate, (enum mw_outlook)o) : 1;
        r->step_time_s[o] = typical_s + part * (all_s - typical_s);
        r->tflops_per_gpu[o] = done / r->step_time_s[o] / 1e12;
        r->efficiency[o] = NAN;
    }
    mw_estimate_free(estimate);
}

static void
fill_closed_forms(const struct mw_question *question, const struct mw_sizing *sizing,
                  struct mw_result *r)
{
    struct mw_closed_form form;

    if (sizing->settings.drop_layers) /* they are of a step of all layers */
        return;
    mw_closed_form_of_slowest(sizing, &question->hardware[MW_OUTLOOK_TYPICAL], &form);
    if (!r->trained) /* it is of a model that is trained whole */
        r->closed_form_paper_s = form.paper_total_s;
    r->closed_form_plan_s = form.plan_total_s;
}

static void
fill_estimate(const struct mw_question *question, const struct mw_answer *answer)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    const struct mw_sizing *sizing = answer->sizing;
    struct mw_result *r = answer->result;

    r->simulated = true;
    fill_step(question, sizing, r);
    double step_s = r->step_time_s[MW_OUTLOOK_TYPICAL];
    double peak = hw->gpu_peak_flops * mw_kernel_dtype_share(hw, sizing->settings.dtype);
    r->first_step_time_s = NAN;
    r->mfu = mw_flops_of_model(sizing) / step_s / peak;
    r->tokens_per_s = r->tokens_per_step / step_s;
    r->nvme_written_bytes = r->nvme_read_bytes = -1; /* ops would tell */
    r->drive_life_steps = NAN;
    mw_result_set_training(question, answer);
    fill_closed_forms(question, sizing, r);
}

static void
check_estimate(const struct mw_question *question, const struct mw_answer *answer)
{
    struct mw_variants *variants = mw_build_variants(answer->sizing, mw_build_plan(answer->sizing));

    answer->result->engine_step_time_s =
        mw_cycle_s(NULL, variants, &question->hardware[MW_OUTLOOK_TYPICAL], false);
    mw_variants_free(variants);
}

struct mw_answer *
mw_answer_estimated(const struct mw_question *question, enum mw_strategy strategy, bool checked,
                    GError **error)
{
    struct mw_choice choice = {0};
    struct mw_answer *answer = NULL;

    if (mw_choose_by_estimate(question, strategy, &choice, error)) {
        answer = g_new0(struct mw_answer, 1);
        answer->result = mw_result_new();
        answer->sizing = g_steal_pointer(&choice.sizing);
        mw_result_set_sizing(question, strategy, answer);
        if (answer->sizing->fits)
            fill_estimate(question, answer);
        if (answer->sizing->fits && checked)
            check_estimate(question, answer);
    }
    mw_choice_clear(&choice);
    return answer;
}
