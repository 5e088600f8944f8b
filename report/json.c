#include <math.h>
#include <string.h>

#include "base/json_writer.h"
#include "base/schemas.h"
#include "report/json_result.h"
#include "report/memory_ledger.h"
#include "report/report.h"
#include "report/table.h"

/* null if there is no prediction. */
static double
predicted_or_nan(const struct mw_result *result, double value)
{
    return result->simulated ? value : NAN;
}

/* And if an estimate does not know it. */
static double
traffic_or_nan(const struct mw_result *result, int64_t bytes)
{
    return bytes < 0 ? NAN : predicted_or_nan(result, (double)bytes);
}

/* null for a plan that was read from a file, which does not have it. */
static void
write_known(struct mw_json_writer *json, const struct mw_result *r, const char *key, int64_t value)
{
    if (r->strategy)
        mw_json_integer(json, key, value);
    else
        mw_json_string(json, key, NULL);
}

/* Values that shape a step, which a plan file has too. */
static void
write_shape(struct mw_json_writer *json, const struct mw_result *r, const char *key, int64_t value)
{
    if (r->strategy || r->seq > 0)
        mw_json_integer(json, key, value);
    else
        mw_json_string(json, key, NULL);
}

/* null for a value that was not requested, or that has no rating or price (0 or NAN). */
static double
known_or_nan(const struct mw_result *result, double value)
{
    return value > 0 ? predicted_or_nan(result, value) : NAN;
}

static void
write_counts(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_integer(json, "nodes", r->nodes);
    mw_json_integer(json, "gpus_per_node", r->gpus_per_node);
    write_shape(json, r, "tp", r->tp);
    if (r->cp > 1) {
        mw_json_integer(json, "cp", r->cp);
        mw_json_string(json, "cp_kind", r->cp_kind);
    }
    if (r->ep > 1)
        mw_json_integer(json, "ep", r->ep);
    if (r->whole_experts)
        mw_json_integer(json, "etp", 1);
    if (r->gate)
        mw_json_string(json, "gate", r->gate);
    if (r->expert_imbalance > 1)
        mw_json_number(json, "expert_imbalance", r->expert_imbalance);
    if (r->capacity_factor > 0)
        mw_json_number(json, "capacity_factor", r->capacity_factor);
    if (r->router_aux_loss > 0)
        mw_json_number(json, "router_aux_loss_coef", r->router_aux_loss);
    if (r->router_z_loss > 0)
        mw_json_number(json, "router_z_loss_coef", r->router_z_loss);
    mw_json_number(json, "micro_batch", r->micro_batch);
    write_shape(json, r, "grad_accum", r->grad_accum);
    mw_json_number(json, "global_batch", r->global_batch);
    write_shape(json, r, "seq", r->seq);
    mw_json_number(json, "tokens_per_step", r->tokens_per_step);
    mw_json_number(json, "default_step_tokens", r->default_step_tokens);
    write_shape(json, r, "checkpoint_interval", r->checkpoint_interval);
    if (r->checkpoint_bits)
        mw_json_integer(json, "checkpoint_bits", r->checkpoint_bits);
    write_shape(json, r, "kept_layers", r->kept_layers);
    if (r->on_every_slice)
        mw_json_string(json, "checkpoint_partition", "off");
    write_known(json, r, "param_loads", r->param_loads);
    write_shape(json, r, "tiles", r->tiles);
    write_shape(json, r, "logits_chunks", r->logits_chunks);
    write_known(json, r, "prefetch", r->prefetch);
    if (r->prefetch_stages)
        mw_json_string(json, "prefetch_stages", r->prefetch_stages);
}

void
mw_json_asked(struct mw_json_writer *json, char *const *texts)
{
    if (!texts) {
        mw_json_string(json, "question", NULL);
        return;
    }
    mw_json_begin(json, "question", '{', true);
    for (; *texts; texts++) {
        const char *equals = strchr(*texts, '=');
        g_autofree char *name = g_strndup(*texts, (gsize)(equals - *texts));
        mw_json_string(json, name, equals + 1);
    }
    mw_json_end(json, '}');
}

void
mw_json_settings(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_begin(json, "settings", '{', false);
    write_counts(json, r);
    mw_json_string(json, "param_device", r->param_device);
    mw_json_string(json, "optimizer_device", r->optimizer_device);
    mw_json_string(json, "gradient_device", r->gradient_device);
    mw_json_string(json, "activation_device", r->activation_device);
    mw_json_string(json, "partition", r->partition);
    mw_json_string(json, "commit", r->commit);
    mw_json_string(json, "state_layout", r->state_layout);
    mw_json_string(json, "dtype", r->dtype);
    if (r->dpu_start >= 0)
        mw_json_integer(json, "dpu_start", r->dpu_start);
    else
        mw_json_string(json, "dpu_start", NULL);
    if (r->scores_again)
        mw_json_string(json, "recompute_attention", "on");
    if (r->shares_slots)
        mw_json_string(json, "share_slots", "on");
    if (r->serial)
        mw_json_string(json, "overlap", "off");
    if (r->whole_checkpoints)
        mw_json_string(json, "checkpoints", "activations");
    if (r->schedule)
        mw_json_string(json, "schedule", r->schedule);
    if (r->shard_group > 0)
        mw_json_integer(json, "shard_group", r->shard_group);
    if (r->virtual_stages > 1)
        mw_json_integer(json, "virtual_stages", r->virtual_stages);
    if (r->stage_replicas)
        mw_json_string(json, "stage_replicas", r->stage_replicas);
    if (r->stage_split)
        mw_json_string(json, "stage_split", r->stage_split);
    if (r->layer_order)
        mw_json_string(json, "micro_batch_order", "layer");
    if (r->sequence_parallel)
        mw_json_string(json, "sequence_parallel", "on");
    if (r->update_on_gpu)
        mw_json_string(json, "update_on", "gpu");
    if (r->update_beside)
        mw_json_string(json, "update", "beside");
    if (r->updates > 1) {
        mw_json_string(json, "data_parallel", "async");
        mw_json_integer(json, "updates", r->updates);
    }
    mw_json_string(json, "drop_layers", r->drop_layers);
    if (r->optimizer)
        mw_json_string(json, "optimizer", r->optimizer);
    if (r->trained)
        mw_json_string(json, "train", r->trained);
    if (r->trained)
        mw_json_integer(json, "trained_params", r->trained_params);
    if (r->kept_bits)
        mw_json_integer(json, "kept_bits", r->kept_bits);
    if (r->relu_mask)
        mw_json_string(json, "relu_mask", "on");
    if (r->relu_sparsity > 0)
        mw_json_number(json, "relu_sparsity", r->relu_sparsity);
    if (r->matmul_dtype)
        mw_json_string(json, "matmul_dtype", r->matmul_dtype);
    if (r->frozen_dtype)
        mw_json_string(json, "frozen_dtype", r->frozen_dtype);
    mw_json_end(json, '}');
}

static void
write_ideal(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_number(json, "ideal_step_time_s", r->ideal_step_time_s);
    mw_json_begin(json, "software_gains", '[', true);
    for (size_t i = 0; i < r->gain_count; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "part", r->gains[i].part);
        mw_json_number(json, "factor", r->gains[i].factor);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_speed(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_number(json, "step_time_s", predicted_or_nan(r, r->step_time_s[1]));
    mw_json_number(json, "first_step_time_s", predicted_or_nan(r, r->first_step_time_s));
    if (isfinite(r->engine_step_time_s))
        mw_json_number(json, "engine_step_time_s", r->engine_step_time_s);
    if (isfinite(r->ideal_step_time_s))
        write_ideal(json, r);
    mw_json_number(json, "undelayed_step_time_s", known_or_nan(r, r->undelayed_step_time_s));
    mw_json_begin(json, "variant_step_time_s", '[', true);
    for (size_t v = 0; v < r->variant_count; v++)
        mw_json_number(json, NULL, r->variant_step_time_s[v]);
    mw_json_end(json, ']');
    mw_json_number(json, "tflops_per_gpu", predicted_or_nan(r, r->tflops_per_gpu[1]));
    mw_json_number(json, "efficiency", predicted_or_nan(r, r->efficiency[1]));
    mw_json_number(json, "mfu", predicted_or_nan(r, r->mfu));
    mw_json_number(json, "mfu_published", predicted_or_nan(r, r->mfu_published));
    mw_json_number(json, "tokens_per_s", predicted_or_nan(r, r->tokens_per_s));
    mw_json_string(json, "bottleneck", r->simulated ? r->bottleneck : NULL);
    mw_json_number(json, "bottleneck_share", predicted_or_nan(r, r->bottleneck_share));
    mw_json_number(json, "collective_latency_s", predicted_or_nan(r, r->collective_latency_s));
    mw_json_number(json, "critical_path_s", predicted_or_nan(r, r->critical_path_s));
}

static void
write_low_high(struct mw_json_writer *json, const char *key, const double of_outlook[3])
{
    struct mw_result_ends ends = mw_result_ends(of_outlook);

    mw_json_begin(json, key, '{', true);
    mw_json_number(json, "low", ends.low);
    mw_json_number(json, "high", ends.high);
    mw_json_end(json, '}');
}

/* Grows with the step time (+1), falls with it (-1), or is independent of it (0); an unknown value
 * has no range. */
static void
write_scaled(struct mw_json_writer *json, const struct mw_result *r, const char *key, double value,
             int with)
{
    const double *step = r->step_time_s;
    const double of_outlook[3] = {value * pow(step[0] / step[1], with), value,
                                  value * pow(step[2] / step[1], with)};

    if (isfinite(value))
        write_low_high(json, key, of_outlook);
}

/* By the step's time and, of an owner, by what electricity costs. */
static void
write_cost_range(struct mw_json_writer *json, const struct mw_result *r)
{
    const struct mw_electricity *electricity = &r->owned.electricity;
    const double usd_per_kwh[3] = {electricity->most, electricity->usd_per_kwh, electricity->least};
    double cost = known_or_nan(r, r->cost_usd), of_outlook[3];

    for (int o = 0; o < 3; o++) {
        double times = r->step_time_s[o] / r->step_time_s[1];
        struct mw_result_owned owned = mw_result_owned_at(&r->owned, times, usd_per_kwh[o]);
        of_outlook[o] = r->rented ? cost * times : mw_result_owned_usd(&owned);
    }
    if (isfinite(cost))
        write_low_high(json, "cost_usd", of_outlook);
}

/* low <= value <= high as numbers: the profile's low outlook gives the high step time. */
static void
write_range(struct mw_json_writer *json, const struct mw_result *r)
{
    const double *step = r->step_time_s, *tflops = r->tflops_per_gpu;

    mw_json_begin(json, "range", '{', false);
    if (r->simulated && isfinite(step[0]) && isfinite(step[2]) && step[0] != step[2]) {
        write_low_high(json, "step_time_s", step);
        if (isfinite(tflops[1]))
            write_low_high(json, "tflops_per_gpu", tflops);
        if (isfinite(r->efficiency[1]))
            write_low_high(json, "efficiency", r->efficiency);
        write_scaled(json, r, "mfu", r->mfu, -1);
        write_scaled(json, r, "tokens_per_s", r->tokens_per_s, -1);
        write_scaled(json, r, "days", known_or_nan(r, r->days), 1);
        write_cost_range(json, r);
        write_scaled(json, r, "energy_kwh", known_or_nan(r, r->energy_kwh), 1);
        write_scaled(json, r, "drive_life_steps", known_or_nan(r, r->drive_life_steps), 0);
    }
    mw_json_end(json, '}');
}

static void
write_stages(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_begin(json, "stages", '[', false);
    for (size_t s = 0; s < r->stage_count; s++) {
        const struct mw_result_stage *stage = &r->stages[s];
        mw_json_begin(json, NULL, '{', true);
        mw_json_integer(json, "gpus", stage->gpus);
        mw_json_integer(json, "first_layer", stage->first_layer);
        mw_json_integer(json, "layers", stage->layers);
        if (stage->stretches > 1)
            mw_json_integer(json, "stretches", stage->stretches);
        mw_json_integer(json, "params", stage->params);
        mw_json_integer(json, "micro_batches_in_flight", stage->micro_batches);
        for (int t = 0; t < MW_TIER_COUNT; t++) {
            g_autofree char *key = g_strdup_printf("%s_bytes", mw_tier_name(t));
            mw_json_integer(json, key, stage->bytes[t]);
        }
        if (r->simulated)
            mw_json_number(json, "compute_s", stage->compute_s);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_beside(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_begin(json, "software_memory", '[', true);
    for (size_t i = 0; i < r->beside_count; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "what", r->beside[i].what);
        mw_json_string(json, "tier", mw_tier_name(r->beside[i].tier));
        mw_json_integer(json, "bytes", r->beside[i].bytes);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_start(struct mw_json_writer *json, const struct mw_result_start *start)
{
    mw_json_begin(json, "start", '{', true);
    mw_json_string(json, "made_in", start->made_in);
    mw_json_integer(json, "bytes", start->bytes);
    if (start->made_in)
        mw_json_integer(json, "room_bytes", start->room_bytes);
    mw_json_boolean(json, "fits", start->fits);
    mw_json_number(json, "time_s", start->time_s);
    mw_json_end(json, '}');
}

static void
write_memory(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_begin(json, "peak_bytes", '{', true);
    for (int i = 0; i < MW_TIER_COUNT; i++)
        mw_json_integer(json, mw_tier_name(i), r->tiers[i].peak_bytes);
    mw_json_end(json, '}');
    mw_json_begin(json, "need_bytes", '{', true);
    for (int i = 0; i < MW_TIER_COUNT; i++)
        mw_json_integer(json, mw_tier_name(i), r->tiers[i].need_bytes);
    mw_json_end(json, '}');
    mw_json_begin(json, "tiers", '{', false);
    for (int i = 0; i < MW_TIER_COUNT; i++) {
        const struct mw_result_tier *tier = &r->tiers[i];
        mw_json_begin(json, mw_tier_name(i), '{', true);
        mw_json_integer(json, "capacity_bytes", tier->capacity_bytes);
        mw_json_integer(json, "reserve_bytes", tier->reserve_bytes);
        mw_json_integer(json, "peak_bytes", tier->peak_bytes);
        mw_json_integer(json, "need_bytes", tier->need_bytes);
        mw_json_integer(json, "largest_request_bytes", tier->largest_request_bytes);
        if (tier->apart_bytes)
            mw_json_integer(json, "apart_bytes", tier->apart_bytes);
        mw_json_end(json, '}');
    }
    mw_json_end(json, '}');
    mw_json_begin(json, "ledger", '[', false);
    for (size_t i = 0; i < r->ledger_count; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "tier", mw_tier_name(r->ledger[i].tier));
        mw_json_string(json, "purpose", mw_purpose_name(r->ledger[i].purpose));
        mw_json_integer(json, "bytes", r->ledger[i].bytes);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
    if (r->beside_count)
        write_beside(json, r);
    if (r->start.known)
        write_start(json, &r->start);
    if (r->stage_count)
        write_stages(json, r);
}

static void
write_paper(struct mw_json_writer *json, const struct mw_result *r)
{
    static const char *const stages[] = {"baseline", "pos", "pos_g", "pos_g_p"};
    const struct mw_result_paper *paper = &r->paper;

    if (!r->strategy || r->trained) { /* they are of a model that is trained whole */
        mw_json_string(json, "paper", NULL);
        return;
    }
    mw_json_begin(json, "paper", '{', false);
    mw_json_integer(json, "params", paper->params);
    mw_json_integer(json, "model_state_bytes", paper->model_state_bytes);
    mw_json_integer(json, "activation_checkpoint_bytes_per_node", paper->checkpoint_bytes);
    mw_json_integer(json, "activation_bytes_per_node", paper->activation_bytes);
    mw_json_integer(json, "mswm_bytes_per_gpu", paper->mswm_bytes);
    mw_json_integer(json, "awm_bytes_per_gpu", paper->awm_bytes);
    mw_json_begin(json, "zero_bytes_per_gpu", '{', true);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        mw_json_integer(json, stages[i], paper->zero_bytes[i]);
    mw_json_end(json, '}');
    mw_json_end(json, '}');
}

static void
write_in_use(struct mw_json_writer *json, const struct mw_result *r)
{
    struct mw_memory_ledger ledger = mw_memory_ledger_find(r);

    mw_json_begin(json, "in_use", '[', false);
    for (size_t i = 0; i < ledger.count; i++) {
        const struct mw_memory_row *row = &ledger.row[i];
        bool all = row->purpose == MW_PURPOSE_COUNT;
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "tier", mw_tier_name(row->tier));
        mw_json_string(json, "purpose", all ? "all" : mw_purpose_name(row->purpose));
        mw_json_begin(json, "most_bytes", '{', true);
        for (size_t p = 0; p < r->phase_count; p++)
            mw_json_integer(json, r->phases[p].name, row->most_bytes[p]);
        mw_json_end(json, '}');
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
    mw_memory_ledger_clear(&ledger);
}

static void
write_lanes(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_begin(json, "lanes", '[', false);
    for (size_t i = 0; i < r->lane_count; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "name", r->lanes[i].name);
        mw_json_number(json, "busy_s", r->lanes[i].busy_s);
        mw_json_number(json, "exposed_s", r->lanes[i].exposed_s);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
    mw_json_begin(json, "channels", '[', false);
    for (size_t i = 0; i < r->channel_count; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "name", r->channels[i].name);
        mw_json_number(json, "busy_s", r->channels[i].busy_s);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_phases(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_begin(json, "phases", '[', false);
    for (size_t i = 0; i < r->phase_count; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "name", r->phases[i].name);
        mw_json_number(json, "start_s", r->phases[i].start_s);
        mw_json_number(json, "end_s", r->phases[i].end_s);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_closed_form(struct mw_json_writer *json, const struct mw_result *r)
{
    static const char *const traffic[] = {"parameters", "optimizer_state", "checkpoints"};

    mw_json_begin(json, "closed_form", '{', true);
    mw_json_number(json, "paper", predicted_or_nan(r, r->closed_form_paper_s));
    mw_json_number(json, "plan", predicted_or_nan(r, r->closed_form_plan_s));
    mw_json_begin(json, "efficiency", '{', true);
    for (size_t i = 0; i < sizeof traffic / sizeof *traffic; i++)
        mw_json_number(json, traffic[i], predicted_or_nan(r, r->paper_efficiency[i]));
    mw_json_end(json, '}');
    mw_json_end(json, '}');
    mw_json_begin(json, "terms", '[', false);
    for (size_t i = 0; i < r->term_count; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "what", r->terms[i].what);
        mw_json_number(json, "paper_s", r->terms[i].paper_s);
        mw_json_number(json, "plan_s", r->terms[i].plan_s);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_what_ifs(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_begin(json, "what_if", '[', false);
    for (size_t i = 0; i < r->what_if_count; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "what", r->what_ifs[i].what);
        mw_json_number(json, "factor", r->what_ifs[i].factor);
        mw_json_number(json, "step_time_s", r->what_ifs[i].step_time_s);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_needs(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_begin(json, "needs", '[', false);
    for (size_t i = 0; i < r->need_count; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_string(json, "what", r->needs[i].what);
        mw_json_number(json, "efficiency", r->needs[i].efficiency);
        mw_json_number(json, "bytes_per_s", r->needs[i].bytes_per_s);
        mw_json_number(json, "present_bytes_per_s", r->needs[i].present_bytes_per_s);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
write_smaller_batch(struct mw_json_writer *json, const struct mw_result *r)
{
    if (!(r->smaller_batch > 0)) {
        mw_json_string(json, "smaller_batch", NULL);
        return;
    }
    mw_json_begin(json, "smaller_batch", '{', true);
    mw_json_number(json, "micro_batch", r->smaller_batch);
    mw_json_number(json, "tokens_per_s", r->smaller_batch_tokens_per_s);
    mw_json_end(json, '}');
}

static void
write_change(struct mw_json_writer *json, const char *key, const struct mw_result_change *change)
{
    if (!change->what) {
        mw_json_string(json, key, NULL);
        return;
    }
    mw_json_begin(json, key, '{', true);
    mw_json_string(json, "what", change->what);
    mw_json_string(json, "flags", change->flags);
    mw_json_number(json, "step_time_s", change->step_time_s);
    mw_json_number(json, "tokens_per_s", change->tokens_per_s);
    mw_json_number(json, "times_tokens_per_usd",
                   change->priced ? change->times_tokens_per_usd : NAN);
    mw_json_number(json, "micro_batch", change->micro_batch);
    mw_json_number(json, "global_batch", change->global_batch);
    mw_json_end(json, '}');
}

static void
write_owned(struct mw_json_writer *json, const struct mw_result *r)
{
    const struct mw_result_owned *owned = &r->owned;

    if (!r->simulated || !(mw_result_owned_usd(owned) > 0)) {
        mw_json_string(json, "owned_cost", NULL);
        return;
    }
    mw_json_begin(json, "owned_cost", '{', true);
    mw_json_number(json, "usd", mw_result_owned_usd(owned));
    mw_json_number(json, "machine_usd", owned->machine_usd);
    mw_json_number(json, "energy_usd", owned->energy_usd);
    mw_json_number(json, "electricity_usd_per_kwh", owned->electricity.usd_per_kwh);
    mw_json_string(json, "electricity_provenance", owned->electricity.from);
    mw_json_number(json, "drives_usd", owned->drives_usd);
    mw_json_number(json, "drives_worn", owned->drives_worn);
    mw_json_number(json, "drives_price_usd", owned->drives_price_usd);
    mw_json_string(json, "drives_price_from", owned->drives_from);
    mw_json_number(json, "pay_usd", owned->pay_usd);
    mw_json_number(json, "amortisation_years", owned->years);
    mw_json_string(json, "amortisation_provenance", owned->years_from);
    mw_json_end(json, '}');
}

static void
write_cost(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_number(json, "nvme_read_bytes", traffic_or_nan(r, r->nvme_read_bytes));
    mw_json_number(json, "nvme_written_bytes", traffic_or_nan(r, r->nvme_written_bytes));
    mw_json_number(json, "drive_life_steps", known_or_nan(r, r->drive_life_steps));
    mw_json_number(json, "drive_sets", known_or_nan(r, r->drive_sets));
    mw_json_number(json, "tokens", r->tokens);
    mw_json_number(json, "days", known_or_nan(r, r->days));
    mw_json_number(json, "cost_usd", known_or_nan(r, r->cost_usd));
    mw_json_string(json, "cost_basis",
                   isfinite(known_or_nan(r, r->cost_usd)) ? (r->rented ? "rent" : "owned") : NULL);
    write_owned(json, r);
    mw_json_number(json, "energy_kwh", known_or_nan(r, r->energy_kwh));
    mw_json_string(json, "provenance", r->provenance);
    mw_json_boolean(json, "calibrated", r->calibrated);
}

static void
write_notes(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_begin(json, "notes", '[', false);
    for (char **note = r->notes; note && *note; note++)
        mw_json_string(json, NULL, *note);
    mw_json_end(json, ']');
    g_auto(GStrv) cautions = mw_table_cautions(r);
    mw_json_begin(json, "cautions", '[', false);
    for (char **caution = cautions; *caution; caution++)
        mw_json_string(json, NULL, *caution);
    mw_json_end(json, ']');
}

static void
write_question(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_string(json, "model", r->model);
    write_known(json, r, "params", r->params);
    write_known(json, r, "active_params", r->active_params);
    write_known(json, r, "paper_params", r->paper_params);
    mw_json_string(json, "hardware", r->hardware);
    mw_json_string(json, "hardware_description", r->hardware_description);
    if (r->hardware_date)
        mw_json_string(json, "hardware_date", r->hardware_date);
    if (r->hardware_set)
        mw_json_string(json, "hardware_set", r->hardware_set);
    if (r->software)
        mw_json_string(json, "software", r->software);
    if (r->software_date)
        mw_json_string(json, "software_date", r->software_date);
    if (r->software_set)
        mw_json_string(json, "software_set", r->software_set);
    mw_json_string(json, "strategy", r->strategy);
    mw_json_string(json, "plan", r->plan ? r->plan->title : NULL);
}

static void
write_verdict(struct mw_json_writer *json, const struct mw_result *r)
{
    mw_json_boolean(json, "feasible", r->feasible);
    mw_json_string(json, "limiting_tier", r->limiting_tier);
    mw_json_integer(json, "short_bytes", r->short_bytes);
    mw_json_string(json, "remedy", r->remedy);
    mw_json_boolean(json, "simulated", r->simulated);
}

void
mw_json_result(struct mw_json_writer *json, const struct mw_result *result)
{
    write_question(json, result);
    write_verdict(json, result);
    write_speed(json, result);
    write_range(json, result);
    write_memory(json, result);
    write_paper(json, result);
    write_in_use(json, result);
    write_lanes(json, result);
    write_phases(json, result);
    write_closed_form(json, result);
    write_what_ifs(json, result);
    write_needs(json, result);
    write_smaller_batch(json, result);
    write_change(json, "change", &result->change);
    write_change(json, "paid_change", &result->paid_change);
    write_cost(json, result);
    mw_json_settings(json, result);
    mw_json_asked(json, result->asked);
    write_notes(json, result);
}

void
mw_json_result_speed(struct mw_json_writer *json, const struct mw_result *result)
{
    write_speed(json, result);
    write_range(json, result);
    write_lanes(json, result);
    write_phases(json, result);
}

bool
mw_json_write(FILE *out, struct mw_result *const *results, size_t count)
{
    struct mw_json_writer json = {.out = out};

    mw_json_begin_answer(&json, MW_SCHEMA_ANSWER);
    mw_json_begin(&json, "answers", '[', false);
    for (size_t i = 0; i < count; i++) {
        mw_json_begin(&json, NULL, '{', false);
        mw_json_result(&json, results[i]);
        mw_json_end(&json, '}');
    }
    mw_json_end(&json, ']');
    mw_json_end(&json, '}');
    return fflush(out) == 0 && !ferror(out);
}
