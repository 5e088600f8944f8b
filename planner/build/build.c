/* One rank's program: fetches, compute, gradients, checkpoints and the optimizer step, in order. */
#include "planner/build/build.h"

#include <glib.h>
#include <math.h>
#include <string.h>

#include "planner/build/internal.h"

/* Offloaded checkpoints come back one group ahead, so the first load precedes the backward. */
static void
load_checkpoints(struct builder *b, uint32_t visit)
{
    const struct visit *v = &b->visits[visit];
    int64_t interval = b->sizing->settings.checkpoint_interval;
    int64_t count = b->sizing->checkpoint_count;
    int64_t ahead = b->sizing->settings.prefetch ? 1 : 0;

    if (!interval || v->phase != MW_PHASE_RECOMPUTE || !v->first_of_group)
        return;
    int64_t checkpoint = v->layer / interval;
    if (checkpoint == count - 1)
        mw_checkpoint_load(b, checkpoint, v->micro_batch);
    if (ahead && checkpoint > 0)
        mw_checkpoint_load(b, checkpoint - 1, v->micro_batch);
    if (!ahead && checkpoint < count - 1)
        mw_checkpoint_load(b, checkpoint, v->micro_batch);
}

static void
store_checkpoint(struct builder *b, uint32_t visit)
{
    const struct visit *v = &b->visits[visit];
    int64_t interval = b->sizing->settings.checkpoint_interval;

    if (!interval || v->phase != MW_PHASE_FORWARD || !v->first_of_group)
        return;
    int64_t checkpoint = v->layer / interval;
    mw_checkpoint_store(b, checkpoint, b->checkpoint_loaded[checkpoint], v->micro_batch);
}

static void
forward_backward(struct builder *b)
{
    for (uint32_t v = 0; v < b->visit_count; v++) {
        load_checkpoints(b, v);
        mw_fetch_ahead(b, v);
        mw_compute_visit(b, v);
        mw_fetch_release(b, v);
        store_checkpoint(b, v);
    }
    mw_gradient_flush(b);
}

/* A durable commit writes the other of two records, as the state went to the other extents. */
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
    /* The step begins when the one before is committed; only now is its index known. */
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
    b->param_slot_held = g_new0(bool, b->slots[MW_BUFFER_PARAMETERS_GATHERED].count + 1);
    b->checkpoint_loaded = g_new0(uint32_t, b->sizing->checkpoint_count + 1);
    b->work_cache = g_new(uint32_t, MW_CLASS_COUNT * MW_LAYER_OPERATORS_MAX * 2);
    memset(b->work_cache, 0xff, MW_CLASS_COUNT * MW_LAYER_OPERATORS_MAX * 2 * sizeof(uint32_t));
    memset(b->work_table, 0xff, sizeof b->work_table); /* all MW_NONE */
    b->visit_count = 0;
    b->compute_wait = MW_NONE;
    b->norm_agreed = MW_NONE;
    b->reduced_slot = MW_NONE;
    b->match_count = 0;
    b->activation_turn = 0;
    mw_schedule_visits(b);

    b->chain = settings->serialize;
    begin(b);
    if (delayed)
        mw_optimizer_step(b);
    if (delayed && !settings->serialize)
        b->newest = b->begin_op; /* the update runs beside the compute even without overlap */
    b->chain = settings->serialize || !settings->overlap;
    forward_backward(b);
    b->chain = settings->serialize;
    if (delayed)
        mw_optimizer_return(b);
    else
        mw_optimizer_step(b);
    commit(b);
    g_clear_pointer(&b->chunk_other, g_free);
    g_clear_pointer(&b->param_slot_held, g_free);
    g_clear_pointer(&b->checkpoint_loaded, g_free);
    g_clear_pointer(&b->work_cache, g_free);
}

static struct mw_step_shape
shape_of(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;
    struct mw_step_shape shape = {
        .sequences = llround(s->micro_batch * (double)s->tp),
        .seq = s->seq,
        .micro_batches = s->grad_accum,
        .tiles = s->tiles,
        .token_chunks = s->logits_chunks,
        .checkpoint_interval = s->checkpoint_interval,
        .delayed_from = s->dpu_start,
        .save_every = MAX(0, s->save_every),
        .commits = s->commit == 1,
        .dtype = (uint8_t)s->dtype,
    };

    shape.has_decoder = mw_model_decoder(sizing->model, &shape.decoder, NULL);
    return shape;
}

struct mw_plan *
mw_build_plan(const struct mw_sizing *sizing)
{
    const struct mw_settings *settings = &sizing->settings;
    struct builder b = {.sizing = sizing};
    char why[256];
    g_autofree char *title = g_strdup_printf(
        "%s, %s, %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT " GPUs, batch %g, seq %" G_GINT64_FORMAT,
        sizing->model->name, mw_strategy_name(settings->strategy), settings->nodes,
        settings->gpus_per_node, settings->micro_batch, settings->seq);

    g_return_val_if_fail(sizing->fits, NULL);
    b.chunks = mw_sizing_chunks(sizing);
    b.plan = mw_plan_new(title);
    mw_plan_set_world(b.plan, sizing->ranks, sizing->ranks_per_node, !settings->unfold);
    memcpy(b.plan->tiers, sizing->tiers, sizeof b.plan->tiers);
    b.plan->shape = shape_of(sizing);
    mw_plan_set_model(b.plan, sizing->model->name);
    mw_plan_set_strategy(b.plan, mw_strategy_name(settings->strategy));
    mw_build_add_comms(&b);
    for (b.program = 0; b.program < b.plan->program_count; b.program++) {
        b.rank = b.plan->programs[b.program].ranks.base;
        build_program(&b);
    }
    g_free(b.chunks);
    g_free(b.visits);
    g_free(b.states);
    if (!mw_plan_check(b.plan, why, sizeof why))
        g_error("planner: its own plan fails the check, which is a fault of memwall: %s", why);
    return b.plan;
}
