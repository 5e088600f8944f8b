/* Builds one rank's program: fetches, compute, gradients, checkpoints and the optimizer step, in
 * order. */
#include "planner/build/build.h"

#include <glib.h>
#include <math.h>
#include <string.h>

#include "planner/build/internal.h"

static void
load_now(struct builder *b, int64_t group, uint32_t mb)
{
    mw_checkpoint_load(b, group, mb);
    mw_checkpoint_gather(b, group, mb);
}

static void
load_ahead(struct builder *b, int64_t group, uint32_t mb)
{
    mw_checkpoint_load(b, group, mb);
    b->group_ahead = group;
    b->micro_batch_ahead = mb;
}

static void
gather_ahead(struct builder *b)
{
    if (b->group_ahead >= 0)
        mw_checkpoint_gather(b, b->group_ahead, b->micro_batch_ahead);
    b->group_ahead = -1;
}

/* Layer by layer the next one is the next micro-batch's, or the group's before. */
static void
load_next_checkpoint(struct builder *b, uint32_t visit)
{
    bool ahead = mw_settings_fetch_depth(&b->sizing->settings, MW_FETCH_CG) > 0;
    const struct visit *v = &b->visits[visit];
    bool last_group = b->group_of[v->layer] == b->sizing->checkpoint_count - 1;
    uint32_t next = visit + 1;

    while (next < b->visit_count &&
           (b->visits[next].phase != MW_PHASE_RECOMPUTE || !b->visits[next].first_of_group))
        next++;
    if (!ahead || (last_group && v->micro_batch == 0))
        load_now(b, b->group_of[v->layer], v->micro_batch);
    if (ahead && next < b->visit_count)
        load_ahead(b, b->group_of[b->visits[next].layer], b->visits[next].micro_batch);
}

/* A layer that is kept whole comes back while the one behind it is computed. */
static void
load_layer(struct builder *b, const struct visit *v)
{
    bool ahead = mw_settings_fetch_depth(&b->sizing->settings, MW_FETCH_CG) > 0;

    const struct mw_stretch *stretch =
        &b->sizing->stretch[mw_sizing_stretch_of(b->sizing, v->layer)];

    if (!ahead || v->layer + 1 == stretch[1].first)
        load_now(b, b->group_of[v->layer], v->micro_batch);
    if (ahead && v->layer > stretch->first)
        load_ahead(b, b->group_of[v->layer - 1], v->micro_batch);
}

/* Offloaded checkpoints come back one group ahead, so the first load precedes the backward. */
static void
load_checkpoints(struct builder *b, uint32_t visit)
{
    const struct visit *v = &b->visits[visit];
    int64_t interval = b->sizing->settings.checkpoint_interval;
    int64_t of_stretch = b->sizing->checkpoint_count / b->sizing->stretches;
    int64_t ahead = mw_settings_fetch_depth(&b->sizing->settings, MW_FETCH_CG) ? 1 : 0;

    if (v->keeps_layer && v->phase == MW_PHASE_BACKWARD)
        load_layer(b, v);
    if (!interval || v->phase != MW_PHASE_RECOMPUTE || !v->first_of_group)
        return;
    if (b->fetching) {
        load_next_checkpoint(b, visit);
        return;
    }
    int64_t group = b->group_of[v->layer], before = group - 1;
    int64_t first = group - group % of_stretch, last = first + of_stretch - 1;
    while (before >= first && mw_first_of_group(b, before) < 0)
        before--;
    while (mw_first_of_group(b, last) < 0)
        last--;
    if (group == last || !ahead)
        load_now(b, group, v->micro_batch);
    if (ahead && before >= first)
        load_ahead(b, before, v->micro_batch);
}

static void
store_checkpoint(struct builder *b, uint32_t visit)
{
    const struct visit *v = &b->visits[visit];
    int64_t interval = b->sizing->settings.checkpoint_interval;

    if (!interval || v->phase != MW_PHASE_FORWARD || !(v->first_of_group || v->keeps_layer))
        return;
    int64_t group = b->group_of[v->layer];
    uint32_t slot = b->checkpoint_loaded[mw_checkpoint_at(b, group, v->micro_batch)];
    mw_checkpoint_store(b, group, slot, v->micro_batch);
}

/* With the gradients of one micro-batch. */
static void
update_alone(struct builder *b, uint32_t visit)
{
    if (!b->visits[visit].updates)
        return;
    b->update_of = b->visits[visit].micro_batch;
    mw_optimizer_step(b);
}

static void
forward_backward(struct builder *b)
{
    for (uint32_t v = 0; v < b->visit_count; v++) {
        b->visit_ops[v] = b->plan->op_count;
        load_checkpoints(b, v);
        mw_stage_receive(b, v);
        mw_fetch_ahead(b, v);
        mw_compute_visit(b, v);
        gather_ahead(b);
        mw_stage_send(b, v);
        mw_fetch_release(b, v);
        store_checkpoint(b, v);
        mw_optimizer_beside(b, v);
        update_alone(b, v);
    }
    mw_stage_carry(b);
    b->visit_ops[b->visit_count] = b->plan->op_count;
    mw_gradient_flush(b);
    mw_gradient_sum_copies(b);
    mw_gradient_reduce_all(b);
}

/* A durable commit writes the other of two records, because the state went to the other extents. */
static void
commit(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;
    uint32_t work = mw_work_commit(b, s->buffers[MW_BUFFER_COMMIT_RECORDS].bytes,
                                   s->saves_in_step ? s->buffers[MW_BUFFER_SAVES].bytes : 0);
    uint32_t last[LANES_PER_RANK];

    memcpy(last, b->lane_last, sizeof last);
    uint32_t op = mw_build_op(b, LANE_HOST, work, (struct identity){MW_PHASE_COMMIT, -1, 0, 0, 0});
    for (int l = 0; l < LANES_PER_RANK; l++)
        mw_build_after(b, last[l]);
    if (b->commit_record != MW_NONE)
        mw_build_use(b, b->commit_record, MW_USE_DEFINE, MW_ROLE_RECORD);
    if (b->commit_saves != MW_NONE)
        mw_build_use(b, b->commit_saves, MW_USE_DEFINE, MW_ROLE_SAVE);
    /* The step begins when the previous one is committed; only now is the op's index known. */
    b->plan->deps[b->plan->ops[b->begin_op].dep_begin] = op | MW_DEP_PREVIOUS_STEP;
}

static void
begin(struct builder *b)
{
    uint32_t work = mw_work_begin(b);

    b->begin_op = MW_NONE;
    b->newest = MW_NONE;
    bool chain = b->chain;
    b->chain = false;
    b->begin_op = mw_build_op(b, LANE_HOST, work, (struct identity){MW_PHASE_FORWARD, -1, 0, 0, 0});
    mw_plan_add_dep(b->plan, b->begin_op | MW_DEP_PREVIOUS_STEP);
    b->chain = chain;
}

static void
build_program(struct builder *b)
{
    const struct mw_settings *settings = &b->sizing->settings;
    bool delayed = settings->dpu_start != MW_AUTO;

    mw_build_add_lanes(b);
    mw_build_add_channels(b);
    mw_build_add_slots(b);
    mw_build_prepare_states(b);
    b->param_slot_held = g_new0(bool, b->slots[MW_BUFFER_PARAMETERS_GATHERED].count +
                                          b->slots[MW_BUFFER_PARAMETERS_GATHERED_SMALL].count + 1);
    b->checkpoint_loaded = g_new0(uint32_t, b->sizing->checkpoint_slots + 1);
    b->checkpoint_tile = g_new0(uint16_t, b->sizing->checkpoint_slots + 1);
    b->work_cache = g_new(uint32_t, MW_CLASS_COUNT * MW_LAYER_OPERATORS_MAX * PASS_COUNT);
    memset(b->work_cache, 0xff,
           MW_CLASS_COUNT * MW_LAYER_OPERATORS_MAX * PASS_COUNT * sizeof(uint32_t));
    memset(b->work_table, 0xff, sizeof b->work_table); /* all MW_NONE */
    memset(b->asked_works, 0xff, sizeof b->asked_works);
    memset(b->groups, 0, sizeof b->groups);
    b->visit_count = 0;
    b->fetched = b->fetching_count = 0;
    b->compute_wait = MW_NONE;
    b->norm_agreed = MW_NONE;
    b->reduced_all = MW_NONE;
    b->reduced_slot = MW_NONE;
    b->group_ahead = -1;
    memset(b->met, 0, sizeof b->met);
    b->activation_sets = (uint32_t)mw_sizing_activation_sets(b->sizing);
    b->update_of = 0;
    b->carried_taken = 0;
    b->carried_count = (uint32_t)mw_sizing_carried(b->sizing, b->turn.index);
    struct ring *inputs = &b->slots[MW_BUFFER_STAGE_INPUT];
    inputs->count -= b->carried_count;
    b->carried = inputs->first + inputs->count;
    b->operands_of =
        g_new0(uint32_t, b->slots[MW_BUFFER_INPUTS].count + b->slots[MW_BUFFER_RESULTS].count + 1);
    b->activation_turns = g_new0(int, b->activation_sets);
    b->rooms_hold = false;
    mw_schedule_visits(b);
    b->visit_ops = g_renew(uint32_t, b->visit_ops, b->visit_count + 1);
    b->norm_ops = g_renew(uint32_t, b->norm_ops, b->sizing->chunk_count + 1);
    b->update_ops = g_renew(uint32_t, b->update_ops, b->sizing->chunk_count + 1);

    b->chain = settings->serialize;
    begin(b);
    if (delayed)
        mw_optimizer_step(b);
    if (delayed && !settings->serialize)
        b->newest = b->begin_op; /* the update runs beside the compute even without overlap */
    b->chain = settings->serialize || !settings->overlap;
    mw_optimizer_beside_begin(b);
    forward_backward(b);
    b->chain = settings->serialize;
    if (delayed)
        mw_optimizer_return(b);
    else if (mw_settings_update_beside(settings))
        mw_optimizer_beside_end(b);
    else if (!settings->forward_only && !mw_settings_stashes(settings))
        mw_optimizer_step(b);
    commit(b);
    g_clear_pointer(&b->param_slot_held, g_free);
    g_clear_pointer(&b->checkpoint_loaded, g_free);
    g_clear_pointer(&b->checkpoint_tile, g_free);
    g_clear_pointer(&b->work_cache, g_free);
    g_clear_pointer(&b->activation_turns, g_free);
    g_clear_pointer(&b->operands_of, g_free);
    g_clear_pointer(&b->final_visit, g_free);
    g_clear_pointer(&b->passing_sum, g_free);
    g_clear_pointer(&b->place_of, g_free);
    g_clear_pointer(&b->group_of, g_free);
    g_clear_pointer(&b->group_first, g_free);
    g_clear_pointer(&b->fetching, g_free);
    g_clear_pointer(&b->fetches_by, g_free);
}

/* Adds one program for all ranks, one for each pipeline stage, or one for each rank. */
static void
add_programs(struct mw_plan *plan, const struct mw_sizing *sizing)
{
    uint32_t stage_ranks = sizing->tp * sizing->dp;
    bool folded = !mw_settings_unfolds(&sizing->settings);

    mw_plan_set_world(plan, sizing->ranks, sizing->ranks_per_node, folded && sizing->pp == 1);
    if (!folded || sizing->pp == 1)
        return;
    mw_plan_clear_programs(plan);
    for (uint32_t stage = 0; stage < sizing->pp; stage++) {
        struct mw_members ranks = mw_members_of_one(stage * stage_ranks);
        if (sizing->tp > 1)
            ranks.spans[MW_AXIS_TP] = (struct mw_axis_span){1, sizing->tp};
        if (sizing->dp > 1)
            ranks.spans[MW_AXIS_DP] = (struct mw_axis_span){sizing->tp, sizing->dp};
        mw_plan_add_program(plan, ranks);
    }
}

/* The sizing of the stage that a rank belongs to. */
static const struct mw_sizing *
sizing_of(const struct mw_sizing *first, uint32_t rank)
{
    const struct mw_sizing *sizing = first;

    while (sizing->next_stage && rank >= sizing->next_stage->first_rank)
        sizing = sizing->next_stage;
    return sizing;
}

/* The layers that are recomputed, where it is not enough to say how many of the last are not. */
static struct mw_layer_set
recomputed_set(const struct mw_sizing *first)
{
    const struct mw_sizing *sizing = first;
    struct mw_layer_set set = {{0}};
    int64_t kept = mw_sizing_kept_of_model(first), before = first->model->layers - kept;

    for (; kept && sizing; sizing = sizing->next_stage)
        for (int64_t layer = 0; layer < sizing->layers; layer++)
            if (mw_sizing_recomputes(sizing, layer))
                mw_layer_set_add(&set, mw_sizing_model_layer(sizing, layer));
    return first->pp == 1 && mw_layer_set_count(&set, 0, before) == before
               ? (struct mw_layer_set){{0}}
               : set;
}

static struct mw_step_shape
shape_of(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;
    bool keeps = !s->checkpoint_interval || mw_sizing_kept_layers(sizing);
    struct mw_step_shape shape = {
        .sequences = sizing->sequences,
        .context_ranks = (uint32_t)(s->cp > 1 ? s->cp : 0),
        .context = (uint8_t)(s->cp > 1 ? s->cp_kind : 0),
        .seq = s->seq,
        .micro_batches = s->grad_accum,
        .replicas = s->stage_replicas,
        .tiles = s->tiles,
        .token_chunks = s->logits_chunks,
        .checkpoint_interval = s->checkpoint_interval,
        .checkpoint_dtype = (uint8_t)s->checkpoint_dtype,
        .kept_encodings = keeps ? mw_kept_encodings(&s->kept_as) : 0,
        .kept_layers = mw_sizing_kept_of_model(sizing),
        .recomputed = recomputed_set(sizing),
        .save_every = MAX(0, s->save_every),
        .commits = s->commit == 1,
        .sequence_parallel = s->sequence_parallel == 1,
        .whole_experts = sizing->shape.whole_experts,
        .tensor_overlap = mw_sizing_tensor_overlap(sizing),
        .tensor_pieces = mw_sizing_tensor_pieces(sizing),
        .tensor_parts = mw_sizing_tensor_parts(sizing),
        .weights_later = mw_settings_weights_later(s),
        .updates_beside = mw_settings_update_beside(s),
        .whole_checkpoints = mw_sizing_leaves_any_whole(sizing),
        .layer_order = mw_settings_layer_order(s),
        .updates_on_gpu = mw_settings_updates_on_gpu(s),
        .no_flush = mw_settings_no_flush(s),
        .stashes = mw_settings_stashes(s),
        .vertical_sync = mw_settings_vertical_sync(s),
        .asynchronous = mw_settings_asynchronous(s),
        .optimizer = (uint8_t)s->optimizer,
        .dtype = (uint8_t)s->dtype,
        .rms_norm = mw_model_has_rms_norm(sizing->model),
        .rotary = sizing->model->rotary,
        .gated = mw_model_is_gated(sizing->model),
        .score_bias = sizing->model->family && sizing->model->family->score_bias,
        .dropout = sizing->model->dropout,
        .capped_logits = sizing->model->capped_logits,
        .capped_scores = sizing->model->capped_scores,
        .updates_in_place = mw_updates_in_place(s, sizing->hardware),
        .only_simulated = sizing->reduced_at_end || sizing->gradients_swapped ||
                          mw_updates_in_place(s, sizing->hardware) ||
                          mw_sizing_scatters_stages(sizing),
    };

    shape.has_decoder = mw_model_decoder(sizing->model, &shape.decoder, NULL) &&
                        mw_model_runs_seq(sizing->model, s->seq, NULL);
    mw_settings_adapt(s, &shape.decoder);
    bool divided = sizing->tp > 1 || sizing->cp > 1;
    const struct mw_gate_row *gate = mw_gate_row((int)s->gate);
    bool limited = mw_settings_capacity_factor(s) > 0;
    bool plain = ((sizing->ep == 1 && !limited) || !divided) && !shape.decoder.lora_rank &&
                 shape.decoder.experts <= MW_DECODER_EXPERTS_MAX;
    if (shape.decoder.experts && (!plain || !mw_settings_gate_runs(s)))
        shape.has_decoder = false; /* experts that are spread, or have a capacity, of slices or of
                                    * parts of sequences, or that have adapters or another gate, are
                                    * no decoder's */
    if (shape.has_decoder && shape.decoder.experts) {
        shape.decoder.gate = s->gate;
        shape.decoder.experts_per_token = mw_model_visits(sizing->model, s->gate);
        if (gate->visits)
            shape.decoder.router_renormalizes = gate->renormalizes;
    }
    shape.decoder.router_aux_loss = sizing->shape.router_aux_loss;
    shape.decoder.router_z_loss = sizing->shape.router_z_loss;
    if (shape.has_decoder && sizing->ep > 1)
        shape.decoder.spread.count = sizing->ep;
    if (shape.has_decoder && shape.decoder.experts && limited)
        shape.decoder.rows_of_expert =
            mw_model_expert_rows(sizing->model, &sizing->shape) / shape.decoder.experts;
    return shape;
}

/* A plan without programs' parts. */
static void
begin_plan(struct builder *b)
{
    const struct mw_sizing *sizing = b->sizing;
    const struct mw_settings *settings = &sizing->settings;
    g_autofree char *title = g_strdup_printf(
        "%s, %s, %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT " GPUs, batch %g, seq %" G_GINT64_FORMAT,
        sizing->model->name, mw_strategy_name(settings->strategy), settings->nodes,
        settings->gpus_per_node, settings->micro_batch, settings->seq);

    b->matches = g_hash_table_new_full(mw_build_hash_place, g_int64_equal, g_free, NULL);
    b->plan = mw_plan_new(title);
    add_programs(b->plan, sizing);
    memcpy(b->plan->tiers, sizing->tiers, sizeof b->plan->tiers);
    b->plan->shape = shape_of(sizing);
    mw_plan_set_model(b->plan, sizing->model->name);
    mw_plan_set_strategy(b->plan, mw_strategy_name(settings->strategy));
    mw_build_add_comms(b);
}

static void
begin_program(struct builder *b, const struct mw_sizing *first)
{
    b->rank = b->plan->programs[b->program].ranks.base;
    b->sizing = sizing_of(first, b->rank);
    b->turn = (struct mw_replica){(uint32_t)b->sizing->stage, 0, 1};
    if (mw_settings_takes_turns(&first->settings)) {
        b->turn = mw_stage_replica(&first->settings.stage_replicas, b->rank);
        b->dp_comm = b->stage_comms + b->turn.stage;
    }
    g_free(b->chunks);
    b->chunks = mw_sizing_chunks(b->sizing);
    b->plan->programs[b->program].in_flight = b->sizing->micro_batches_in_flight;
    b->plan->programs[b->program].apart_bytes = b->sizing->apart_bytes;
    memcpy(b->plan->programs[b->program].beside_bytes, b->sizing->beside_bytes,
           sizeof b->plan->programs[b->program].beside_bytes);
}

struct mw_plan *
mw_build_flat(struct builder *b)
{
    const struct mw_sizing *sizing = b->sizing;

    begin_plan(b);
    for (b->program = 0; b->program < b->plan->program_count; b->program++) {
        begin_program(b, sizing);
        build_program(b);
    }
    return b->plan;
}

struct mw_plan *
mw_build_tables(struct builder *b, bool with_slots)
{
    begin_plan(b);
    begin_program(b, b->sizing);
    mw_build_add_lanes(b);
    mw_build_add_channels(b);
    if (with_slots)
        mw_build_add_slots(b);
    return b->plan;
}

void
mw_build_clear(struct builder *b)
{
    g_free(b->chunk_other);
    g_free(b->chunks);
    g_free(b->lane_of);
    g_hash_table_unref(b->matches);
    g_free(b->visits);
    g_free(b->visit_ops);
    g_free(b->norm_ops);
    g_free(b->update_ops);
    g_free(b->states);
    g_free(b->overlap_begin);
    g_free(b->overlaps);
}

static struct mw_plan *
build_flat(const struct mw_sizing *sizing, const bool *dropped)
{
    struct builder b = {.sizing = sizing, .dropped = dropped};
    char why[256];

    mw_build_flat(&b);
    mw_build_clear(&b);
    if (!mw_plan_check(b.plan, why, sizeof why))
        g_error("planner: its own plan fails the check, which is a fault of memwall: %s", why);
    return b.plan;
}

struct mw_plan *
mw_build_plan_without(const struct mw_sizing *sizing, const bool *dropped)
{
    g_return_val_if_fail(sizing->fits, NULL);
    struct mw_plan *folded = mw_build_folded(sizing, mw_sizing_folds(sizing), dropped);
    return folded ? folded : build_flat(sizing, dropped);
}

struct mw_plan *
mw_build_small_plan(const struct mw_sizing *sizing)
{
    struct mw_plan *folded = mw_build_folded(sizing, mw_sizing_folds(sizing), NULL);
    bool small = mw_sizing_op_count(sizing) <= sizing->settings.ops_max;

    return folded || !small ? folded : build_flat(sizing, NULL);
}

struct mw_plan *
mw_build_plan(const struct mw_sizing *sizing)
{
    return mw_build_plan_without(sizing, NULL);
}
