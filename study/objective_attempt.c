/* A step with one strategy, and with frozen copies in one tier: its phases and its range. */
#include <math.h>
#include <string.h>

#include "study/evaluate.h"
#include "study/known_steps.h"
#include "study/objective_internal.h"
#include "study/set_result.h"

void
mw_objective_attempt_free(struct mw_objective_attempt *attempt)
{
    if (!attempt)
        return;
    for (int m = 0; m < attempt->row->part_count; m++) {
        mw_choice_clear(&attempt->members[m].choice);
        mw_sizing_free(attempt->members[m].pass);
    }
    g_free(attempt);
}

static int64_t
need_of(const struct mw_sizing *sizing, const struct mw_hardware *whole, enum mw_tier tier,
        int64_t gpus)
{
    const struct mw_hardware *left = sizing->hardware;
    int64_t reserved = tier == MW_TIER_GPU ? left->gpu_reserve_bytes - whole->gpu_reserve_bytes
                       : tier == MW_TIER_CPU
                           ? (left->host_reserve_bytes - whole->host_reserve_bytes) / gpus
                           : (left->nvme_reserve_bytes - whole->nvme_reserve_bytes) / gpus;

    return reserved + mw_sizing_whole_need(sizing, tier);
}

void
mw_objective_add_phase(struct mw_objective_attempt *attempt, const char *name, int m,
                       const struct mw_sizing *sizing, int64_t times, double each_s)
{
    struct mw_objective *out = &attempt->out;
    struct mw_objective_phase *phase = &out->phases[out->phase_count++];
    const struct mw_hardware *whole = &attempt->question->hardware[MW_OUTLOOK_TYPICAL];

    *phase =
        (struct mw_objective_phase){.name = name, .model = m, .times = times, .each_s = each_s};
    for (int tier = 0; sizing && tier < MW_TIER_COUNT; tier++)
        phase->need_bytes[tier] =
            need_of(sizing, whole, (enum mw_tier)tier, sizing->ranks_per_node);
}

/* INFINITY if the engine refuses the plan. */
static double
pass_s(const struct mw_sizing *pass, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(pass);
    double step_s = mw_step_s(plan, hardware, false);

    mw_plan_free(plan);
    return step_s;
}

/* In the order of a step. */
static void
add_phases(struct mw_objective_attempt *attempt)
{
    int64_t micro_batches = attempt->members[0].choice.sizing->settings.grad_accum;
    bool before = attempt->question->settings.reference_before;

    if (attempt->row == &mw_objective_rows[MW_OBJECTIVE_PPO])
        mw_objective_add_generation(attempt);
    for (int m = 0; m < attempt->row->part_count; m++) {
        const struct mw_objective_member *member = &attempt->members[m];
        if (!member->pass)
            continue;
        double each_s = pass_s(member->pass, member->pass->hardware);
        if (before)
            attempt->out.before_s =
                each_s / ((double)member->pass->sequences / 2 * (double)member->pass->dp);
        else
            mw_objective_add_phase(attempt, "forward", m, member->pass, micro_batches, each_s);
    }
    for (int m = 0; m < attempt->row->part_count; m++) {
        struct mw_objective_member *member = &attempt->members[m];
        if (!member->part->trained)
            continue;
        mw_choice_rate(&member->choice); /* simulates it */
        mw_objective_add_phase(attempt, "training", m, member->choice.sizing, 1,
                               member->choice.step_s);
    }
}

static void
set_models(struct mw_objective_attempt *attempt)
{
    struct mw_objective *out = &attempt->out;

    out->model_count = attempt->row->part_count;
    for (int m = 0; m < out->model_count; m++) {
        const struct mw_objective_member *member = &attempt->members[m];
        const struct mw_sizing *sizing = member->choice.sizing;
        struct mw_objective_model *model = &out->models[m];
        *model = (struct mw_objective_model){
            .role = member->part->role,
            .trained = member->part->trained,
            .scores = member->part->scores,
            .without_adapters = member->without_adapters,
            .params = mw_model_gate_params(&member->question.model, member->question.settings.gate),
            .home = sizing ? (enum mw_tier)sizing->param_home[0] : attempt->tier,
        };
        memcpy(model->name, member->question.model.name, sizeof model->name);
        memcpy(model->resident_bytes, member->resident, sizeof model->resident_bytes);
        if (sizing)
            model->trained_params = mw_model_trained_params(
                &member->question.model, &sizing->settings.trained, sizing->settings.gate);
        if (member->without_adapters)
            model->home = out->models[0].home;
    }
}

static void
set_batch(struct mw_objective_attempt *attempt)
{
    const struct mw_sizing *sizing = attempt->members[0].choice.sizing;
    struct mw_objective *out = &attempt->out;
    const struct mw_hardware *hw = &attempt->question->hardware[MW_OUTLOOK_TYPICAL];

    out->gpus = sizing->ranks;
    out->seq = sizing->settings.seq;
    out->micro_batch = sizing->settings.micro_batch;
    out->grad_accum = sizing->settings.grad_accum;
    out->global_batch = mw_tokens_per_step(sizing) / (double)sizing->settings.seq;
    out->capacity_bytes[MW_TIER_GPU] = hw->gpu_memory_bytes - hw->gpu_reserve_bytes;
    out->capacity_bytes[MW_TIER_CPU] =
        (hw->host_memory_bytes - hw->host_reserve_bytes) / sizing->ranks_per_node;
    out->capacity_bytes[MW_TIER_NVME] =
        MAX(0, hw->nvme_capacity_bytes - hw->nvme_reserve_bytes) / sizing->ranks_per_node;
}

static double
step_of(const struct mw_objective *out)
{
    double step_s = 0;

    for (int p = 0; p < out->phase_count; p++)
        step_s += (double)out->phases[p].times * out->phases[p].each_s;
    return step_s;
}

/* NULL with *error: the settings make no sense with this strategy. */
struct mw_objective_attempt *
mw_objective_attempt_new(const struct mw_question *question, enum mw_strategy strategy,
                         enum mw_tier tier, GError **error)
{
    struct mw_objective_attempt *attempt = g_new0(struct mw_objective_attempt, 1);
    bool good = true;

    attempt->question = question;
    attempt->row = &mw_objective_rows[question->settings.objective];
    attempt->strategy = strategy;
    attempt->tier = tier;
    attempt->out.kind = (enum mw_objective_kind)question->settings.objective;
    attempt->out.strategy = mw_strategy_name((int)strategy);
    attempt->out.fits = true;
    for (int m = 0; good && m < attempt->row->part_count; m++)
        good = mw_objective_begin(question, &attempt->row->parts[m], &attempt->members[m], error) &&
               (attempt->row->parts[m].trained || mw_objective_size_copy(attempt, m, error));
    good = good && mw_objective_choose_trained(attempt, error) &&
           mw_objective_size_passes(attempt, error);
    if (good && attempt->out.fits && attempt->row == &mw_objective_rows[MW_OBJECTIVE_PPO])
        good = mw_objective_size_generation(attempt, error);
    if (!good) {
        mw_objective_attempt_free(attempt);
        return NULL;
    }
    set_models(attempt);
    set_batch(attempt);
    if (attempt->out.fits)
        add_phases(attempt);
    attempt->out.step_s[MW_OUTLOOK_TYPICAL] = step_of(&attempt->out);
    return attempt;
}

void
mw_objective_set_plans(struct mw_objective_attempt *attempt)
{
    for (int m = 0; attempt->out.fits && m < attempt->row->part_count; m++) {
        const struct mw_objective_member *member = &attempt->members[m];
        if (!member->part->trained)
            continue;
        const struct mw_answer answer = {.sizing = member->choice.sizing,
                                         .result = mw_result_new()};
        mw_result_set_sizing(&member->question, attempt->strategy, &answer);
        attempt->out.models[m].plan = answer.result;
    }
}

/* --- the ends of its range, as of a training's step ------------------------------------------- */

static double
phase_at(const struct mw_objective_attempt *attempt, const struct mw_objective_phase *phase,
         enum mw_outlook outlook)
{
    const struct mw_objective_member *member = &attempt->members[phase->model];
    const struct mw_hardware *hw = &attempt->question->hardware[outlook];

    if (!strcmp(phase->name, "generation"))
        return mw_objective_generation_at(attempt, outlook);
    if (!strcmp(phase->name, "forward"))
        return pass_s(member->pass, hw);
    struct mw_plan *plan = mw_build_plan(member->choice.sizing);
    double step_s = mw_step_s(plan, hw, false);
    mw_plan_free(plan);
    return step_s;
}

void
mw_objective_set_ends(struct mw_objective_attempt *attempt)
{
    struct mw_objective *out = &attempt->out;

    const struct mw_question *question = &attempt->members[0].question;
    double typical_s = out->step_s[MW_OUTLOOK_TYPICAL];

    if (!out->fits)
        return;
    struct mw_estimate *estimate =
        mw_estimate_new(attempt->members[0].choice.sizing, &question->hardware[MW_OUTLOOK_TYPICAL]);
    for (int o = 0; o < MW_OUTLOOK_COUNT; o += 2) {
        double all_s = 0, part = mw_independent_part(question, estimate, (enum mw_outlook)o);
        for (int p = 0; p < out->phase_count; p++)
            all_s += (double)out->phases[p].times *
                     phase_at(attempt, &out->phases[p], (enum mw_outlook)o);
        out->step_s[o] = typical_s + part * (all_s - typical_s);
    }
    mw_estimate_free(estimate);
}
