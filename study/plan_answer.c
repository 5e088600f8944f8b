/* Simulates a plan from a file, without its model and settings. */
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "base/spell.h"
#include "study/known_steps.h"
#include "study/set_result.h"
#include "study/stages.h"

/* Each rank needs a GPU of its own. */
static bool
check_machine(const struct mw_question *question, const char *name, const struct mw_plan *plan,
              GError **error)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    int64_t per_node = plan->ranks_per_node, nodes = mw_divide_up(plan->world_ranks, per_node);

    if (per_node <= hw->gpus_per_node && (!hw->nodes_max || nodes <= hw->nodes_max))
        return true;
    return mw_refuse(error,
                     "%s: the plan is for %" G_GINT64_FORMAT " node%s of %" G_GINT64_FORMAT
                     " GPU%s, more than profile \"%s\" has; give another {hardware}",
                     name, nodes, nodes == 1 ? "" : "s", per_node, per_node == 1 ? "" : "s",
                     mw_profile_name(question->profile));
}

/* Products of a plan may be of a type that the machine does not multiply in. */
static bool
check_products(const struct mw_question *question, const char *name, const struct mw_plan *plan,
               GError **error)
{
    if (mw_hardware_has_fp8(&question->hardware[MW_OUTLOOK_TYPICAL]))
        return true;
    for (uint32_t i = 0; i < plan->work_count; i++)
        if (plan->works[i].product_count && plan->works[i].products[0].dtype == MW_DTYPE_FP8) {
            g_autofree char *names = mw_hwprofiles_with_fp8();
            return mw_refuse(error,
                             "%s: the plan has products in fp8, and profile \"%s\" has no rate of "
                             "them; give {hardware} with one: %s",
                             name, mw_profile_name(question->profile), names);
        }
    return true;
}

/* Ranks of a group where there are several; 0: one group has all. */
static int64_t
shard_group(const struct mw_plan *plan)
{
    bool several = false;
    uint32_t ranks = 1;

    for (uint32_t c = 0; c < plan->comm_count; c++) {
        several |= plan->comms[c].spans[MW_AXIS_RP].count > 1;
        ranks = MAX(ranks, plan->comms[c].spans[MW_AXIS_DP].count);
    }
    return several ? ranks : 0;
}

static void
fill_identity(const struct mw_question *question, const struct mw_plan *plan, struct mw_result *r)
{
    r->plan = plan;
    mw_result_set_profiles(question, r);
    r->gpus_per_node = plan->ranks_per_node;
    r->nodes = mw_divide_up(plan->world_ranks, plan->ranks_per_node);
    r->dpu_start = MW_AUTO;
    r->sequence_parallel = plan->shape.sequence_parallel;
    r->shard_group = shard_group(plan);
    r->update_beside = plan->shape.updates_beside;
    r->updates = mw_plan_updates(plan);
    r->update_on_gpu = plan->shape.updates_on_gpu;
    r->layer_order = plan->shape.layer_order;
    r->whole_checkpoints = plan->shape.whole_checkpoints;
}

/* The tiers of homes, written like a placement: "gpu", "cpu,nvme". */
static char *
tiers_text(const bool tiers[MW_TIER_COUNT])
{
    GString *text = g_string_new(NULL);

    for (int t = 0; t < MW_TIER_COUNT; t++)
        if (tiers[t])
            g_string_append_printf(text, "%s%s", text->len ? "," : "", mw_tier_name(t));
    return g_string_free(text->len ? text : g_string_append(text, mw_tier_name(MW_TIER_GPU)),
                         FALSE);
}

static char *
device_of(const struct mw_plan *plan, enum mw_purpose purpose)
{
    bool tiers[MW_TIER_COUNT] = {false};

    for (uint32_t s = 0; s < plan->slot_count; s++)
        if (plan->slots[s].purpose == purpose)
            tiers[plan->slots[s].tier] = true;
    return tiers_text(tiers);
}

/* Groups of ranks with sequences of their own: the stages of a pipeline work on the same ones, and
 * so do tensor slices and ranks that share sequences. */
static uint32_t
groups_with_sequences(const struct mw_plan *plan)
{
    if (plan->shape.replicas.stages)
        return 1;
    return plan->world_ranks /
           (mw_plan_degree(plan, MW_AXIS_PP) * mw_plan_degree(plan, MW_AXIS_TP) *
            MAX(1, plan->shape.context_ranks));
}

/* Of a mixture, what its decoder tells: as a factor its capacity gives experts as many rows, which
 * are whole. */
static void
fill_experts(const struct mw_step_shape *s, struct mw_result *r)
{
    const struct mw_decoder *d = &s->decoder;

    if (!s->has_decoder || !d->experts)
        return;
    r->gate = d->gate != MW_GATING_TOP_K ? mw_gate_name((int)d->gate) : NULL;
    r->capacity_factor = (double)(d->rows_of_expert * d->experts) /
                         (double)(s->sequences * s->seq * d->experts_per_token);
    r->router_aux_loss = d->router_aux_loss;
    r->router_z_loss = d->router_z_loss;
}

/* The settings that shape a step, if the plan has them. */
static void
fill_settings(const struct mw_plan *plan, struct mw_result *r)
{
    const struct mw_step_shape *s = &plan->shape;

    if (!s->sequences)
        return;
    fill_experts(s, r);
    r->tp = mw_plan_degree(plan, MW_AXIS_TP);
    r->cp = MAX(1, s->context_ranks);
    r->cp_kind = r->cp > 1 ? mw_context_name(s->context) : NULL;
    r->seq = s->seq;
    r->grad_accum = s->micro_batches;
    if (s->replicas.stages) {
        char text[MW_STAGE_REPLICAS_TEXT_MAX];
        mw_stage_replicas_write(&s->replicas, text);
        r->stage_replicas = g_strdup(text);
    }
    r->micro_batch = (double)s->sequences / (double)mw_result_sharers(r);
    r->global_batch = (double)(s->sequences * s->micro_batches) * groups_with_sequences(plan);
    r->tokens_per_step = r->global_batch * (double)s->seq;
    r->checkpoint_interval = s->checkpoint_interval;
    r->checkpoint_bits = mw_dtype_bits(s->checkpoint_dtype);
    r->kept_layers = s->kept_layers;
    r->tiles = s->tiles;
    r->logits_chunks = s->token_chunks;
    r->dtype = g_strdup(mw_dtype_name(s->dtype));
    r->commit = g_strdup(s->commits ? "step" : "none");
    r->param_device = device_of(plan, MW_PURPOSE_PARAMETERS);
    r->gradient_device = device_of(plan, MW_PURPOSE_GRADIENTS);
    r->optimizer_device = device_of(plan, MW_PURPOSE_OPTIMIZER_STATE);
    r->activation_device = device_of(plan, MW_PURPOSE_ACTIVATION_CHECKPOINTS);
}

/* The stage of a pipeline that needs most of a GPU, which answers are of. */
static uint32_t
fullest_program(const struct mw_plan *plan)
{
    int64_t bytes[MW_TIER_COUNT][MW_PURPOSE_COUNT], most = -1;
    uint32_t fullest = 0;

    for (uint32_t p = 0; p < plan->program_count; p++) {
        int64_t all = 0;
        mw_plan_count_bytes(plan, p, bytes);
        for (int purpose = 0; purpose < MW_PURPOSE_COUNT; purpose++)
            all += bytes[MW_TIER_GPU][purpose];
        fullest = all > most ? p : fullest;
        most = MAX(most, all);
    }
    return fullest;
}

/* Compares the plan's peaks with this machine, which may not be the one that the plan was made
 * for. */
static void
fill_memory(const struct mw_hardware *hw, const struct mw_plan *plan, struct mw_result *r)
{
    const int64_t whole[] = {hw->gpu_memory_bytes, hw->host_memory_bytes, hw->nvme_capacity_bytes};
    const int64_t reserve[] = {hw->gpu_reserve_bytes, hw->host_reserve_bytes,
                               hw->nvme_reserve_bytes};

    r->feasible = true;
    r->beside = g_new0(struct mw_result_beside, MW_TIER_COUNT);
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        int64_t sharers = t == MW_TIER_GPU ? 1 : r->gpus_per_node;
        int64_t capacity = (whole[t] - reserve[t]) / sharers;
        int64_t peak = mw_plan_need_bytes(plan, t), need = mw_plan_whole_need_bytes(plan, t);
        r->tiers[t] = (struct mw_result_tier){capacity, reserve[t] / sharers,      peak, 0,
                                              need,     plan->peak_bytes[t] - peak};
        if (need > peak)
            r->beside[r->beside_count++] =
                (struct mw_result_beside){"beside its plan", (enum mw_tier)t, need - peak};
        if (need <= capacity || !r->feasible)
            continue;
        r->feasible = false;
        r->limiting_tier = g_strdup(mw_tier_name(t));
        r->short_bytes = need - capacity;
    }
    uint32_t fullest = fullest_program(plan);
    for (uint32_t s = 0; s < plan->slot_count; s++) {
        int64_t *largest = &r->tiers[plan->slots[s].tier].largest_request_bytes;
        if (plan->slots[s].program == fullest)
            *largest = MAX(*largest, plan->slots[s].size_bytes);
    }
}

static void
fill_ledger(const struct mw_plan *plan, struct mw_result *r)
{
    int64_t bytes[MW_TIER_COUNT][MW_PURPOSE_COUNT];

    mw_plan_count_bytes(plan, fullest_program(plan), bytes);
    r->ledger = g_new0(struct mw_result_ledger_row, MW_TIER_COUNT * MW_PURPOSE_COUNT);
    for (int t = 0; t < MW_TIER_COUNT; t++)
        for (int p = 0; p < MW_PURPOSE_COUNT; p++)
            if (bytes[t][p])
                r->ledger[r->ledger_count++] = (struct mw_result_ledger_row){t, p, bytes[t][p]};
    for (uint32_t s = 0; s < plan->slot_count; s++)
        r->shares_slots |= plan->slots[s].shares && plan->slots[s].purpose != MW_PURPOSE_GRADIENTS;
}

static double
simulated_s(const void *data, const struct mw_hardware *hardware)
{
    const struct mw_answer *answer = data;

    return mw_cycle_s(answer->known, answer->variants, hardware, false);
}

/* Plans of more ops take too long to be simulated for each range. */
#define RANGED_OPS 200000

/* As the answer to a question has them, but that the figures' part is of simulated steps: there it
 * is by estimates from dimensions, which a plan does not have. */
static void
fill_ends(const struct mw_question *question, const struct mw_answer *answer)
{
    struct mw_result *r = answer->result;
    double typical_s = r->step_time_s[MW_OUTLOOK_TYPICAL];

    for (int o = 0; o < MW_OUTLOOK_COUNT; o += 2) {
        double part = answer->plan->op_count > RANGED_OPS
                          ? 1
                          : mw_independent_part_of(question, (enum mw_outlook)o, simulated_s,
                                                   answer, typical_s);
        double all_s = simulated_s(answer, &question->hardware[o]);
        r->step_time_s[o] = typical_s + part * (all_s - typical_s);
    }
}

static bool
fill_speed(const struct mw_question *question, struct mw_answer *answer, GError **error)
{
    struct mw_result *r = answer->result;
    const struct mw_hardware *hw = question->hardware;
    struct mw_engine_result engine;

    if (!mw_known_evaluate(answer->known, answer->plan, &hw[MW_OUTLOOK_TYPICAL], true, &engine,
                           error))
        return false;
    r->simulated = true;
    r->step_time_s[MW_OUTLOOK_TYPICAL] =
        mw_result_set_cycle(answer, &hw[MW_OUTLOOK_TYPICAL], (double)engine.step_ns * 1e-9);
    fill_ends(question, answer);
    r->first_step_time_s = engine.first_step_ns * 1e-9;
    r->rounds_by_mean = engine.rounds_by_mean;
    r->critical_path_s = mw_cycle_s(answer->known, answer->variants, &hw[MW_OUTLOOK_TYPICAL], true);
    mw_result_set_use(answer->plan, &hw[MW_OUTLOOK_TYPICAL], &engine, r);
    mw_result_set_drives(answer->plan, &hw[MW_OUTLOOK_TYPICAL], 0, r);
    mw_result_set_first_steps(answer, &hw[MW_OUTLOOK_TYPICAL]);
    mw_result_set_burst_step(answer, &hw[MW_OUTLOOK_TYPICAL]);
    mw_result_set_ideal(question, answer);
    answer->timeline = engine.timeline;
    engine.timeline = (struct mw_timeline){0};
    mw_engine_result_clear(&engine);
    r->timeline = &answer->timeline;
    return true;
}

/* A plan that does not fit here is not simulated. */
struct mw_answer *
mw_answer_of_plan(const struct mw_question *question, const char *name,
                  struct mw_variants *variants, GError **error)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    struct mw_answer *answer = g_new0(struct mw_answer, 1);

    mw_answer_take(answer, variants);
    const struct mw_plan *plan = answer->plan;
    answer->result = mw_result_new();
    fill_identity(question, plan, answer->result);
    fill_settings(plan, answer->result);
    answer->result->dpu_start = mw_variants_delayed_from(variants);
    fill_memory(hw, plan, answer->result);
    fill_ledger(plan, answer->result);
    mw_result_set_stages(plan, answer->result);
    if (check_machine(question, name, plan, error) && check_products(question, name, plan, error) &&
        (!answer->result->feasible || fill_speed(question, answer, error)))
        return answer;
    mw_answer_free(answer);
    return NULL;
}

/* --- the machine that the plan was made for --------------------------------------------------- */

/* Capacities of one machine agree to rounding, unless a key was set. */
#define SAME_MEMORY 0.01

static const char *
other_memory(const struct mw_plan *plan, const struct mw_result *r)
{
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        double then = (double)plan->tiers[t].capacity_bytes,
               now = (double)r->tiers[t].capacity_bytes;
        if (fabs(then - now) > SAME_MEMORY * fmax(then, now))
            return mw_tier_name(t);
    }
    return NULL;
}

char *
mw_answer_other_machine(const struct mw_question *question, const char *name,
                        const struct mw_plan *plan, const struct mw_answer *answer)
{
    g_autofree char *here = mw_question_machine_text(question);
    const char *then = plan->machine;
    const char *tier = other_memory(plan, answer->result);

    g_auto(GStrv) was = mw_plan_signed_words(then), is = mw_plan_signed_words(here);
    bool same = was[0] && !strcmp(was[0], is[0]);

    if (then && strcmp(then, here) && !(same && tier))
        return mw_spelled_printf("%s: the plan was made for machine %s; this answer is for %s, "
                                 "{hardware} names another",
                                 name, then, here);
    return tier ? mw_spelled_printf("%s: the plan was made for another amount of %s memory than %s "
                                    "has; this answer is for %s, {hardware} names another",
                                    name, tier, is[0], is[0])
                : NULL;
}

char *
mw_answer_other_software(const struct mw_question *question, const char *name,
                         const struct mw_plan *plan)
{
    struct mw_profile *then = mw_plan_software(plan);

    if (then || !plan->software) {
        mw_profile_free(then);
        return NULL;
    }
    return mw_spelled_printf("%s: the plan was made with software %s, which is not the name of a "
                             "profile here; this answer is for %s, {software} names another",
                             name, plan->software, mw_profile_name(question->software));
}
