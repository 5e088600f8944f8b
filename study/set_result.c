/* Sets the fields of a result from a sizing, a plan and a timeline. */
#include "plan/optimizers.h"
#include "study/set_result.h"

#include <math.h>

#include "model/paper.h"
#include "planner/settings/table.h"
#include "study/advice.h"
#include "study/asked.h"
#include "study/evaluate.h"
#include "study/known_steps.h"
#include "study/lanes.h"

void
mw_result_set_profiles(const struct mw_question *question, struct mw_result *r)
{
    r->hardware = g_strdup(mw_profile_name(question->profile));
    r->hardware_description = g_strdup(mw_profile_description(question->profile));
    r->hardware_date = mw_profile_text(question->profile, "profile", "date");
    r->hardware_set = mw_profile_set_text(question->profile);
    if (question->software) {
        r->software = g_strdup(mw_profile_name(question->software));
        r->software_date = mw_profile_text(question->software, "profile", "date");
        r->software_set = mw_profile_set_text(question->software);
    }
    r->provenance = g_strdup(mw_provenance_name(mw_profile_worst_provenance(question->profile)));
    r->calibrated = mw_hwprofile_calibrated(question->profile);
}

static void
fill_identity(const struct mw_question *question, const struct mw_sizing *sizing,
              struct mw_result *r)
{
    const struct mw_settings *s = &sizing->settings;

    r->model = g_strdup(question->model.name);
    mw_result_set_profiles(question, r);
    r->strategy = g_strdup(mw_strategy_name(s->strategy));
    r->asked = mw_asked_texts(question, s);
    r->params = mw_model_gate_params(&question->model, s->gate);
    r->active_params = mw_model_gate_active_params(&question->model, s->gate);
    r->paper_params = mw_model_params_paper(&question->model);
    r->nodes = s->nodes;
    r->gpus_per_node = s->gpus_per_node;
    r->tp = s->tp;
    r->cp = s->cp;
    r->cp_kind = s->cp > 1 ? mw_context_name(s->cp_kind) : NULL;
    r->ep = s->ep;
    r->whole_experts = mw_settings_whole_experts(s);
    r->gate = s->gate != MW_GATING_TOP_K ? mw_gate_name((int)s->gate) : NULL;
    r->capacity_factor = sizing->shape.capacity_factor;
    r->expert_imbalance = mw_sizing_imbalance(sizing);
    r->router_aux_loss = mw_settings_router_aux_loss(s, &question->model);
    r->router_z_loss = mw_settings_router_z_loss(s, &question->model);
    r->seq = s->seq;
    r->grad_accum = s->grad_accum;
    r->micro_batch = s->micro_batch;
    r->tokens_per_step = mw_tokens_per_step(sizing);
    r->global_batch = r->tokens_per_step / s->seq;
    bool open =
        question->settings.micro_batch == MW_AUTO && question->settings.global_batch == MW_AUTO;
    double most = question->settings.step_tokens_max;
    r->default_step_tokens = !open             ? NAN
                             : most != MW_AUTO ? most
                                               : mw_default_step_tokens(&question->model, s);
    r->checkpoint_interval = s->checkpoint_interval;
    r->checkpoint_bits = mw_dtype_bits(s->checkpoint_dtype);
    r->kept_layers = mw_sizing_kept_of_model(sizing);
    r->sequence_parallel = s->sequence_parallel == 1;
    r->on_every_slice = sizing->tp > 1 && sizing->checkpoint_parts == 1;
    r->param_loads = s->param_loads;
    r->tiles = s->tiles;
    r->logits_chunks = s->logits_chunks;
    r->prefetch = s->prefetch;
    if (mw_settings_has_fetch_stages(s))
        r->prefetch_stages =
            g_strdup_printf("%" G_GINT64_FORMAT ":%" G_GINT64_FORMAT ":%" G_GINT64_FORMAT,
                            s->prefetch_stage[MW_FETCH_NC], s->prefetch_stage[MW_FETCH_CG],
                            s->prefetch_stage[MW_FETCH_GG]);
    r->scores_again = s->scores_again == 1;
    r->shares_slots = mw_sizing_shares(sizing);
    r->serial = !s->overlap;
    r->dpu_start = s->dpu_start;
    r->update_on_gpu = mw_settings_updates_on_gpu(s);
    const struct mw_schedule_row *schedule = mw_schedule_row(s->schedule);
    r->schedule = s->schedule == MW_SCHEDULE_1F1B ? NULL : schedule->name;
    r->schedule_way = schedule->way;
    r->shard_group = sizing->replicas > 1 ? sizing->shards : 0;
    r->virtual_stages = sizing->stretches;
    r->stage_replicas = mw_setting_text(mw_setting_find("stage-replicas"), s);
    r->stage_split = mw_setting_text(mw_setting_find("stage-split"), s);
    r->layer_order = mw_settings_layer_order(s);
    r->whole_checkpoints = mw_settings_keeps_whole(s);
    r->update_beside = mw_settings_update_beside(s);
    r->updates = mw_sizing_updates(sizing);
    r->drop_layers = s->drop_layers;
    r->trained = mw_setting_trained_text(&s->trained);
    r->trained_params = mw_model_trained_params(&question->model, &s->trained, s->gate);
    r->kept_bits = mw_dtype_bits(s->kept_as.dtype);
    r->relu_mask = s->kept_as.relu_mask;
    r->relu_sparsity = s->kept_as.relu_sparsity;
    r->matmul_dtype =
        s->matmul_dtype == MW_DTYPE_NONE ? NULL : g_strdup(mw_dtype_name(s->matmul_dtype));
    r->frozen_dtype =
        s->frozen_dtype == MW_DTYPE_NONE ? NULL : g_strdup(mw_dtype_name(s->frozen_dtype));
    r->param_device = mw_placement_text(&s->placement[MW_STATE_PARAMETERS]);
    if (s->optimizer != MW_OPTIMIZER_ADAMW)
        r->optimizer = g_strdup(mw_optimizer_name(s->optimizer));
    r->optimizer_device = mw_placement_text(&s->placement[MW_STATE_OPTIMIZER]);
    r->gradient_device = mw_placement_text(&s->placement[MW_STATE_GRADIENTS]);
    r->activation_device = mw_placement_text(&s->placement[MW_STATE_ACTIVATIONS]);
    r->partition =
        g_strdup(s->partition == MW_PARTITION_OWNER ? "owner-broadcast" : "bandwidth-centric");
    r->commit = g_strdup(s->commit == 1 ? "step" : "none");
    r->dtype = g_strdup(mw_dtype_name(s->dtype));
    r->state_layout = g_strdup(s->layout == MW_LAYOUT_PAPER20 ? "paper20" : "zero16");
}

static void
fill_ledger(const struct mw_sizing *sizing, struct mw_result *r)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct mw_result_ledger_row));

    for (int t = 0; t < MW_TIER_COUNT; t++) {
        const struct mw_tier_info *tier = &sizing->tiers[t];
        r->tiers[t] = (struct mw_result_tier){tier->capacity_bytes,
                                              tier->reserve_bytes,
                                              mw_sizing_peak(sizing, t),
                                              sizing->largest_bytes[t],
                                              mw_sizing_whole_need(sizing, t),
                                              sizing->need_bytes[t] - mw_sizing_peak(sizing, t)};
        for (int p = 0; p < MW_PURPOSE_COUNT; p++) {
            struct mw_result_ledger_row row = {t, p, sizing->ledger[t][p]};
            if (row.bytes)
                g_array_append_val(rows, row);
        }
    }
    r->ledger_count = rows->len;
    r->ledger = (struct mw_result_ledger_row *)g_array_free(rows, FALSE);
}

static int
compare_beside(const void *a, const void *b)
{
    const struct mw_result_beside *x = a, *y = b;

    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* What the software takes beside the plan. */
static void
fill_beside(const struct mw_sizing *sizing, struct mw_result *r)
{
    r->beside = g_new0(struct mw_result_beside, MW_BESIDE_COUNT);
    for (int what = 0; what < MW_BESIDE_COUNT; what++)
        if (sizing->beside_then[what] > 0)
            r->beside[r->beside_count++] = (struct mw_result_beside){
                mw_beside_text(what), mw_beside_tier(what), sizing->beside_then[what]};
    qsort(r->beside, r->beside_count, sizeof *r->beside, compare_beside);
}

/* The papers' memory equations for the batch and the cluster of a sizing. */
static void
fill_paper(const struct mw_sizing *sizing, struct mw_result_paper *paper)
{
    const struct mw_model *model = sizing->model;
    const struct mw_settings *s = &sizing->settings;
    int64_t of_gpu = sizing->tokens / sizing->tp;
    int64_t of_node = sizing->tokens * s->gpus_per_node / sizing->tp;

    paper->params = mw_model_params_paper(model);
    paper->model_state_bytes = mw_paper_model_state_bytes(model);
    paper->checkpoint_bytes = mw_paper_checkpoint_bytes(model, of_node, s->checkpoint_interval);
    paper->activation_bytes = mw_paper_activation_bytes(model, of_node, s->seq);
    paper->mswm_bytes = mw_paper_mswm_bytes(model);
    paper->awm_bytes = mw_paper_awm_bytes(model, of_gpu, s->seq, s->checkpoint_interval);
    for (int stage = 0; stage < MW_PAPER_ZERO_COUNT; stage++)
        paper->zero_bytes[stage] =
            mw_paper_zero_bytes(stage, paper->params / sizing->tp, sizing->dp);
}

/* The software that the question has by default, and would not have whatever is changed; NULL: it
 * was asked for. */
static const char *
software_by_default(const struct mw_question *question)
{
    const char *name = question->software ? mw_profile_name(question->software) : NULL;

    return name && !mw_hwprofile_calibrated(question->profile) &&
                   !strcmp(name, mw_question_default_software(question))
               ? name
               : NULL;
}

/* memwall's own executor is what its machine's rates were measured with. */
static bool
leaves_nothing(const struct mw_question *question)
{
    const char *name = mw_profile_name(question->software);

    return !strcmp(name, MW_SOFTWARE_IDEAL) || !strcmp(name, MW_SOFTWARE_OWN);
}

/* The machine as memwall's own executor uses it; false: the question is to stay with its software,
 * or has this one. */
static bool
read_own(const struct mw_question *question, struct mw_hardware *own)
{
    g_auto(GStrv) keys = question->software ? mw_profile_assignments(question->software) : NULL;

    if (!keys || *keys || leaves_nothing(question))
        return false;
    struct mw_profile *software = mw_software_load(MW_SOFTWARE_OWN, NULL);
    if (!software)
        return false;
    *own = mw_machine_read(question->profile, software, question->uses, question->outlook);
    mw_profile_free(software);
    return true;
}

static void
fill_verdict(const struct mw_question *question, enum mw_strategy strategy,
             const struct mw_sizing *sizing, struct mw_result *r)
{
    struct mw_request planned = {&question->model, &question->hardware[MW_OUTLOOK_TYPICAL]};
    struct mw_settings asked = question->settings;

    r->feasible = sizing->fits;
    if (sizing->fits)
        return;
    r->limiting_tier = g_strdup(mw_tier_name(sizing->limiting_tier));
    r->short_bytes = sizing->short_bytes;
    if (question->figures_only)
        return;
    asked.strategy = strategy;
    struct mw_hardware own;
    struct mw_remedy_here here = {question->profile,   question->outlook,
                                  !question->modified, software_by_default(question),
                                  mw_default_software, read_own(question, &own) ? &own : NULL,
                                  MW_SOFTWARE_OWN};
    r->remedy = mw_planner_remedy(&planned, &asked, sizing, &here);
}

double
mw_result_set_cycle(const struct mw_answer *answer, const struct mw_hardware *hw, double first_s)
{
    struct mw_result *r = answer->result;
    uint32_t count;
    const uint32_t *cycle = mw_variants_last(answer->variants, &count);
    double all_s = first_s;

    if (count == 1)
        return first_s;
    r->variant_count = count;
    r->variant_step_time_s = g_new(double, count);
    for (uint32_t t = 0; t < count; t++) {
        uint32_t before = 0;
        while (cycle[before] != cycle[t])
            before++;
        r->variant_step_time_s[t] =
            before < t ? r->variant_step_time_s[before]
            : t ? mw_known_step_s(answer->known, answer->variants->plans[cycle[t]], hw, false)
                : first_s;
        all_s += t ? r->variant_step_time_s[t] : 0;
    }
    return all_s / count;
}

static void
fill_rates(const struct mw_question *question, const struct mw_answer *answer,
           const struct mw_engine_result *engine)
{
    struct mw_result *r = answer->result;
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    double done = mw_flops_done(answer->sizing);
    double step_s = mw_result_set_cycle(answer, hw, engine->step_ns * 1e-9);
    double efficiency = done / step_s / mw_achievable_flops(answer->plan, hw);

    r->simulated = true;
    for (int o = 0; o < MW_OUTLOOK_COUNT; o++) {
        r->step_time_s[o] = step_s;
        r->tflops_per_gpu[o] = done / step_s / 1e12;
        r->efficiency[o] = efficiency;
    }
    r->first_step_time_s = engine->first_step_ns * 1e-9;
    r->rounds_by_mean = engine->rounds_by_mean;
    r->mfu = mw_flops_of_model(answer->sizing) / step_s / mw_peak_flops(answer->plan, hw);
    r->mfu_published = MW_PAPER_MFU_MOST;
    r->mfu_published_from = MW_PAPER_MFU_SOURCE;
    r->tokens_per_s = r->tokens_per_step / step_s;
}

static void
fill_channels(const struct mw_plan *plan, const struct mw_engine_result *engine,
              struct mw_result *r)
{
    r->channel_count = plan->channel_count;
    r->channels = g_new0(struct mw_result_channel, plan->channel_count + 1);
    for (uint32_t c = 0; c < plan->channel_count; c++)
        r->channels[c] =
            (struct mw_result_channel){g_strdup(mw_channel_kind_name(plan->channels[c].kind)),
                                       engine->channel_busy_ns[c] * 1e-9};
}

void
mw_result_set_use(const struct mw_plan *plan, const struct mw_hardware *hw,
                  const struct mw_engine_result *engine, struct mw_result *r)
{
    mw_result_set_bottleneck(plan, hw, engine, r);
    fill_channels(plan, engine, r);
    if (engine->timeline.row_count)
        mw_summary_lanes(plan, &engine->timeline, r);
}

double
mw_independent_part_of(const struct mw_question *question, enum mw_outlook outlook,
                       double (*step_s)(const void *data, const struct mw_hardware *hardware),
                       const void *data, double typical_s)
{
    double all_s = step_s(data, &question->hardware[outlook]) - typical_s, squares = 0;
    struct mw_machine_ranges ranges;
    struct mw_hardware one;

    if (fabs(all_s) < 1e-9 * typical_s)
        return 1;
    mw_machine_ranges_init(&ranges, question->profile, question->software, question->uses, outlook);
    while (mw_machine_ranges_next(&ranges, &one))
        squares += pow(step_s(data, &one) - typical_s, 2);
    return fmin(1, sqrt(squares) / fabs(all_s));
}

static double
estimated_s(const void *data, const struct mw_hardware *hardware)
{
    return mw_estimate_on_s(data, hardware);
}

/* Beyond this many tensors an estimate takes too long to be made for each range. */
#define RANGED_TENSORS 20000

double
mw_independent_part(const struct mw_question *question, const struct mw_estimate *estimate,
                    enum mw_outlook outlook)
{
    return mw_estimate_sizing(estimate)->tensor_count > RANGED_TENSORS
               ? 1
               : mw_independent_part_of(question, outlook, estimated_s, estimate,
                                        mw_estimate_own_s(estimate));
}

static void
fill_outlooks(const struct mw_question *question, const struct mw_answer *answer)
{
    struct mw_result *r = answer->result;
    double done = mw_flops_done(answer->sizing), typical_s = r->step_time_s[MW_OUTLOOK_TYPICAL];
    double typical_flops =
        mw_achievable_flops(answer->plan, &question->hardware[MW_OUTLOOK_TYPICAL]);

    if (!mw_profile_has_range(question->profile) && !mw_profile_has_range(question->software))
        return;
    struct mw_estimate *estimate =
        mw_estimate_new(answer->sizing, &question->hardware[MW_OUTLOOK_TYPICAL]);
    for (int o = 0; o < MW_OUTLOOK_COUNT; o += 2) {
        const struct mw_hardware *hw = &question->hardware[o];
        double part = mw_independent_part(question, estimate, (enum mw_outlook)o);
        double all_s = mw_cycle_s(answer->known, answer->variants, hw, false);
        double flops =
            typical_flops + part * (mw_achievable_flops(answer->plan, hw) - typical_flops);
        r->step_time_s[o] = typical_s + part * (all_s - typical_s);
        r->tflops_per_gpu[o] = done / r->step_time_s[o] / 1e12;
        r->efficiency[o] = done / r->step_time_s[o] / flops;
    }
    mw_estimate_free(estimate);
}

static void
fill_closed_forms(const struct mw_question *question, const struct mw_answer *answer)
{
    struct mw_result *r = answer->result;
    struct mw_closed_form form;

    if (answer->sizing->settings.drop_layers) /* they are of a step of all layers */
        return;
    mw_closed_form_of_slowest(answer->sizing, &question->hardware[MW_OUTLOOK_TYPICAL], &form);
    r->closed_form_plan_s = form.plan_total_s;
    if (r->trained) /* the paper's is of a model that is trained whole */
        return;
    GArray *terms = g_array_new(FALSE, FALSE, sizeof(struct mw_result_term));
    r->closed_form_paper_s = form.paper_total_s;
    memcpy(r->paper_efficiency, form.paper_efficiency, sizeof r->paper_efficiency);
    for (int t = 0; t < MW_TERM_COUNT; t++) {
        struct mw_result_term term = {NULL, form.paper_s[t], form.plan_s[t]};
        if (form.paper_s[t] == form.plan_s[t])
            continue;
        term.what = g_strdup(mw_closed_term_name(t));
        g_array_append_val(terms, term);
    }
    r->term_count = terms->len;
    r->terms = (struct mw_result_term *)g_array_free(terms, FALSE);
}

static void
fill_critical_path(const struct mw_question *question, const struct mw_answer *answer)
{
    answer->result->critical_path_s =
        mw_cycle_s(answer->known, answer->variants, &question->hardware[MW_OUTLOOK_TYPICAL], true);
}

static const struct mw_plan *
first_plan(const struct mw_answer *answer)
{
    return answer->variants->plans[mw_variant_of(answer->variants, 0)];
}

/* Steps before --dpu-start or --drop-layers. */
void
mw_result_set_first_steps(struct mw_answer *answer, const struct mw_hardware *hardware)
{
    struct mw_result *r = answer->result;

    if (first_plan(answer) != answer->plan)
        r->first_step_time_s = mw_known_step_s(answer->known, first_plan(answer), hardware, false);
    if (mw_variants_delayed_from(answer->variants) > 0)
        r->undelayed_step_time_s = r->first_step_time_s;
}

/* The first step writes at burst rate until the drives' cache, which is empty at first, is full. */
void
mw_result_set_burst_step(struct mw_answer *answer, const struct mw_hardware *hardware)
{
    struct mw_result *r = answer->result;
    struct mw_hardware hw = *hardware;
    double written = r->nvme_written_bytes;
    double cached = fmin(written, hw.nvme_cache_bytes);

    if (cached <= 0 || hw.nvme_write_burst_bytes_per_s <= hw.nvme_write_bytes_per_s)
        return;
    double sustained = hw.nvme_write_bytes_per_s;
    hw.nvme_write_bytes_per_s = written / (cached / hw.nvme_write_burst_bytes_per_s +
                                           (written - cached) / hw.nvme_write_bytes_per_s);
    hw.nvme_mixed_write_bytes_per_s *= hw.nvme_write_bytes_per_s / sustained;
    r->first_step_time_s = mw_known_step_s(answer->known, first_plan(answer), &hw, false);
}

static void
fill_run(const struct mw_question *question, struct mw_answer *answer)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];

    mw_result_set_first_steps(answer, hw);
    mw_result_set_costs(question, answer);
    mw_result_set_burst_step(answer, hw);
}

static void
take_timeline(struct mw_answer *answer, struct mw_engine_result *engine)
{
    answer->timeline = engine->timeline;
    engine->timeline = (struct mw_timeline){0};
    answer->result->plan = answer->plan;
    answer->result->timeline = &answer->timeline;
}

#define GAIN_LEAST 1.01 /* less is not worth a word */

static int
compare_gains(const void *a, const void *b)
{
    const struct mw_result_gain *x = a, *y = b;

    return (x->factor < y->factor) - (x->factor > y->factor);
}

/* What each part of the software costs: the step with this part alone made ideal. */
static void
fill_gains(const struct mw_question *question, const struct mw_profile *ideal,
           struct mw_answer *answer)
{
    struct mw_result *r = answer->result;

    r->gains = g_new0(struct mw_result_gain, MW_SOFTWARE_PARTS);
    for (int i = 0; i < MW_SOFTWARE_PARTS; i++) {
        const struct mw_software_part *part = &mw_software_parts[i];
        struct mw_hardware better =
            mw_machine_read_with(question->profile, question->software, ideal, part->group,
                                 question->uses, question->outlook);
        double factor = r->step_time_s[MW_OUTLOOK_TYPICAL] /
                        mw_cycle_s(answer->known, answer->variants, &better, false);
        if (factor >= GAIN_LEAST)
            r->gains[r->gain_count++] = (struct mw_result_gain){part->name, factor};
    }
    qsort(r->gains, r->gain_count, sizeof *r->gains, compare_gains);
}

/* What the same plan takes with ideal software: how much faster the machine allows it to be. */
void
mw_result_set_ideal(const struct mw_question *question, struct mw_answer *answer)
{
    struct mw_profile *software;

    if (!question->software || (!answer->result->software_set && leaves_nothing(question)))
        return;
    software = mw_software_load(MW_SOFTWARE_IDEAL, NULL);
    if (!software)
        return;
    if (mw_software_read(question->software, question->outlook).fp8)
        mw_profile_set(software, "products.fp8=true", NULL); /* what is computed stays the same */
    struct mw_hardware ideal =
        mw_machine_read(question->profile, software, question->uses, question->outlook);
    answer->result->ideal_step_time_s = mw_cycle_s(answer->known, answer->variants, &ideal, false);
    fill_gains(question, software, answer);
    mw_profile_free(software);
}

/* Memory over the step needs a timeline, even if no speed was requested. */
void
mw_result_set_layout(struct mw_answer *answer, struct mw_engine_result *engine)
{
    take_timeline(answer, engine);
    mw_summary_lanes(answer->plan, &answer->timeline, answer->result);
}

void
mw_result_set_simulation(const struct mw_question *question, struct mw_answer *answer,
                         enum mw_depth depth, struct mw_engine_result *engine)
{
    fill_rates(question, answer, engine);
    mw_result_set_use(answer->plan, &question->hardware[MW_OUTLOOK_TYPICAL], engine,
                      answer->result);
    fill_run(question, answer);
    take_timeline(answer, engine);
    /* it compares steps of all layers */
    bool advises = !question->figures_only && !question->settings.drop_layers;
    if (advises)
        mw_advise_batch(question, answer);
    if (depth >= MW_DEPTH_VERDICT || question->ends)
        fill_outlooks(question, answer);
    if (depth >= MW_DEPTH_VERDICT || question->figures_only)
        fill_closed_forms(question, answer);
    if (depth < MW_DEPTH_VERDICT)
        return;
    fill_critical_path(question, answer);
    mw_result_set_ideal(question, answer);
    if (advises)
        mw_advise(question, answer);
    if (depth == MW_DEPTH_FULL)
        mw_what_if(question, answer);
}

void
mw_result_set_sizing(const struct mw_question *question, enum mw_strategy strategy,
                     const struct mw_answer *answer)
{
    fill_identity(question, answer->sizing, answer->result);
    const struct mw_sizing *fullest = mw_sizing_fullest(answer->sizing);
    fill_ledger(fullest, answer->result);
    fill_beside(fullest, answer->result);
    mw_result_set_start(answer->sizing, &answer->result->start);
    fill_paper(answer->sizing, &answer->result->paper);
    if (!question->figures_only)
        mw_result_set_notes(question, strategy, answer);
    fill_verdict(question, strategy, answer->sizing, answer->result);
}
