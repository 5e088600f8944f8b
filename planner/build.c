#include "planner/build.h"

#include <glib.h>
#include <string.h>

#include "planner/build_internal.h"

/* Every lane issues and completes in order: an executor keeps a drive's queue full below this
 * level, by cutting an op into requests. */
#define LANE_WINDOW 1
#define COMMIT_RECORD_BYTES 4096

static const struct {
    enum mw_lane_kind kind;
    int index;
} lane_table[LANES_PER_RANK] = {
    [LANE_COMPUTE] = {MW_LANE_COMPUTE, 0},   [LANE_COLLECTIVE] = {MW_LANE_COLLECTIVE, 0},
    [LANE_SLICING] = {MW_LANE_COLLECTIVE, 1}, [LANE_H2D] = {MW_LANE_H2D, 0},
    [LANE_D2H] = {MW_LANE_D2H, 0},           [LANE_READ] = {MW_LANE_NVME_READ, 0},
    [LANE_WRITE] = {MW_LANE_NVME_WRITE, 0},  [LANE_HOST] = {MW_LANE_HOST, 0},
};

/* --- ops and edges -------------------------------------------------------------------------- */

static bool
is_collective(enum mw_op_kind kind)
{
    return kind >= MW_OP_ALL_GATHER && kind <= MW_OP_BROADCAST;
}

/* Members of a group meet in the same op of their programs; sibling groups in different ones. */
static uint32_t
next_match(struct builder *b, uint32_t comm)
{
    const struct mw_sizing *s = b->sizing;
    uint32_t groups = 1 + s->tp + s->dp;
    uint32_t group = comm == b->dp_comm   ? 1 + b->rank % s->tp
                     : comm == b->tp_comm ? 1 + s->tp + b->rank / s->tp
                                          : 0;

    if (b->plan->ranks == 1 || b->plan->comms[comm].size == 1)
        return MW_NONE;
    return b->match_count++ * groups + group;
}

uint32_t
mw_build_op(struct builder *b, int lane, uint32_t work, struct identity id)
{
    const struct mw_work *done = &b->plan->works[work];
    struct mw_op op = {.work = work, .lane = b->lane_base + lane, .phase = id.phase,
                       .layer = id.layer, .micro_batch = id.micro_batch, .tile = id.tile,
                       .shard = id.shard, .match = MW_NONE};

    if (is_collective(done->kind))
        op.match = next_match(b, done->comm);
    uint32_t index = mw_plan_add_op(b->plan, op);
    if (b->lane_last[lane] == MW_NONE)
        mw_plan_add_dep(b->plan, b->begin_op);
    if (b->chain)
        mw_plan_add_dep(b->plan, b->newest);
    b->lane_last[lane] = index;
    b->newest = index;
    return index;
}

void
mw_build_after(struct builder *b, uint32_t op)
{
    const struct mw_op *ops = b->plan->ops;

    /* An earlier op of the same lane is done anyway. */
    if (op != MW_NONE && op != b->newest && ops[op].lane != ops[b->newest].lane)
        mw_plan_add_dep(b->plan, op);
}

static struct slot_state *
slot_state(struct builder *b, uint32_t slot)
{
    return &b->states[slot];
}

void
mw_build_use(struct builder *b, uint32_t slot, enum mw_use_mode mode)
{
    struct slot_state *state = slot_state(b, slot);
    int lane = b->plan->ops[b->newest].lane - b->lane_base;

    mw_plan_add_use(b->plan, slot, mode);
    mw_build_after(b, state->writer);
    if (mode == MW_USE_READ) {
        state->readers[lane] = b->newest;
        return;
    }
    for (int l = 0; l < LANES_PER_RANK; l++) {
        mw_build_after(b, state->readers[l]);
        state->readers[l] = MW_NONE;
    }
    state->writer = b->newest;
}

uint32_t
mw_build_ring_next(struct ring *ring)
{
    g_assert(ring->count);
    return ring->first + ring->next++ % ring->count;
}

/* --- tiers, lanes, channels, communicators --------------------------------------------------- */

static void
add_lanes(struct builder *b)
{
    b->lane_base = b->plan->lane_count;
    for (int l = 0; l < LANES_PER_RANK; l++) {
        mw_plan_add_lane(b->plan, (struct mw_lane){b->rank, lane_table[l].kind,
                                                   lane_table[l].index, LANE_WINDOW, 0});
        b->lane_last[l] = MW_NONE;
    }
}

static bool
belongs_to_node(enum mw_channel_kind kind)
{
    return kind == MW_CHANNEL_NODE_H2D || kind == MW_CHANNEL_NODE_D2H ||
           kind == MW_CHANNEL_DRAM || kind == MW_CHANNEL_DRIVE || kind == MW_CHANNEL_NIC;
}

/* Folded, one program stands for a node's ranks and gets its part of the node's channels;
 * unfolded, the ranks of a node share them. */
static void
add_channels(struct builder *b)
{
    bool folded = b->plan->ranks == 1;
    uint32_t node = b->rank / b->sizing->ranks_per_node;
    bool first_of_node = b->rank % b->sizing->ranks_per_node == 0;

    for (int kind = 0; kind < MW_CHANNEL_KIND_COUNT; kind++) {
        bool shared = belongs_to_node(kind);
        if (shared && !first_of_node)
            continue;
        b->channel[kind] = mw_plan_add_channel(
            b->plan, (struct mw_channel){kind, shared ? node : b->rank,
                                         shared && folded ? b->sizing->ranks_per_node : 1});
    }
}

static void
add_comms(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;

    b->dp_comm = mw_plan_add_comm(
        b->plan, (struct mw_comm){s->dp, s->dp_ranks_per_node,
                                  MIN(s->tp, s->ranks_per_node / s->dp_ranks_per_node)});
    b->tp_comm = mw_plan_add_comm(
        b->plan, (struct mw_comm){s->tp, s->tp_ranks_per_node,
                                  s->ranks_per_node / s->tp_ranks_per_node});
    b->world_comm =
        mw_plan_add_comm(b->plan, (struct mw_comm){s->ranks, s->ranks_per_node, 1});
}

/* --- slots ------------------------------------------------------------------------------------ */

static uint32_t
add_slots(struct builder *b, enum mw_tier tier, enum mw_purpose purpose, int64_t bytes,
          int64_t count, bool persistent)
{
    uint32_t first = b->plan->slot_count;

    for (int64_t i = 0; i < count; i++) {
        mw_plan_add_slot(b->plan, (struct mw_slot){b->rank, tier, purpose, MW_DTYPE_NONE,
                                                   persistent, b->offset_bytes[tier], bytes});
        b->offset_bytes[tier] += bytes;
    }
    return first;
}

static struct ring
add_ring(struct builder *b, enum mw_tier tier, enum mw_purpose purpose, int64_t bytes,
         int64_t count)
{
    return (struct ring){add_slots(b, tier, purpose, bytes, count, false), count, 0};
}

static void
add_home_slots(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;
    bool delayed = s->settings.dpu_start != MW_AUTO;

    b->param_home = b->plan->slot_count;
    for (uint32_t u = 0; u < s->unit_count; u++) {
        const struct mw_unit *unit = mw_sizing_unit(s, u);
        int64_t params = s->params_partitioned ? unit->tiles * unit->shard_params : unit->params;
        add_slots(b, s->param_home[u], MW_PURPOSE_PARAMETERS, 2 * params, 1, true);
    }
    b->gradient_home = b->plan->slot_count;
    for (uint32_t u = 0; u < s->unit_count; u++) {
        const struct mw_unit *unit = mw_sizing_unit(s, u);
        int64_t params = s->gradients_partitioned ? unit->tiles * unit->shard_params : unit->params;
        add_slots(b, s->gradient_home[u], MW_PURPOSE_GRADIENTS, s->gradient_element_bytes * params,
                  1, delayed);
    }
    b->checkpoint_home = b->plan->slot_count;
    for (int64_t c = 0; c < s->checkpoint_count; c++)
        add_slots(b, s->checkpoint_home[c], MW_PURPOSE_ACTIVATION_CHECKPOINTS, s->checkpoint_bytes,
                  1, false);
}

static void
add_state_slots(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;

    b->state_home = b->plan->slot_count;
    for (uint32_t c = 0; c < s->chunk_count; c++)
        add_slots(b, s->chunks[c].tier, MW_PURPOSE_OPTIMIZER_STATE,
                  s->chunks[c].params * s->optimizer_element_bytes, 1, true);
    b->chunk_other = g_new(uint32_t, s->chunk_count + 1);
    for (uint32_t c = 0; c < s->chunk_count; c++) {
        b->chunk_other[c] = MW_NONE;
        if (s->chunks[c].tier == MW_TIER_NVME && s->settings.commit == 1)
            b->chunk_other[c] =
                add_slots(b, MW_TIER_NVME, MW_PURPOSE_OPTIMIZER_STATE_OTHER,
                          s->chunks[c].params * s->optimizer_element_bytes, 1, true);
    }
}

static void
add_buffer_slots(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;

    b->params = add_ring(b, MW_TIER_GPU, MW_PURPOSE_PARAMETER_BUFFERS, s->param_slot_bytes,
                         s->param_ring);
    b->shards = add_ring(b, MW_TIER_GPU, MW_PURPOSE_SHARD_BUFFERS, s->shard_slot_bytes,
                         s->shard_ring);
    b->pinned = add_ring(b, MW_TIER_CPU, MW_PURPOSE_SHARD_BUFFERS, s->pinned_slot_bytes,
                         s->pinned_ring);
    b->gradients = add_ring(b, MW_TIER_GPU, MW_PURPOSE_GRADIENT_BUFFERS, s->gradient_slot_bytes,
                            s->gradient_ring);
    b->gradient_shards = add_ring(b, MW_TIER_GPU, MW_PURPOSE_SHARD_BUFFERS,
                                  s->gradient_shard_bytes, s->gradient_shard_ring);
    b->gradient_pinned = add_ring(b, MW_TIER_CPU, MW_PURPOSE_GRADIENT_BUFFERS,
                                  s->gradient_pinned_bytes, s->gradient_pinned_ring);
    b->checkpoints = add_ring(b, MW_TIER_GPU, MW_PURPOSE_CHECKPOINT_BUFFERS, s->checkpoint_bytes,
                              s->checkpoint_ring);
    b->checkpoint_pinned = add_ring(b, MW_TIER_CPU, MW_PURPOSE_CHECKPOINT_BUFFERS,
                                    s->checkpoint_bytes, s->checkpoint_pinned_ring);
    b->activations = add_ring(b, MW_TIER_GPU, MW_PURPOSE_ACTIVATIONS, s->activation_slot_bytes,
                              s->activation_slots);
    b->logits_slot = add_slots(b, MW_TIER_GPU, MW_PURPOSE_LOGITS, s->logits_bytes,
                               s->logits_bytes > 0, false);
    b->sets = add_ring(b, MW_TIER_CPU, MW_PURPOSE_OPTIMIZER_BUFFERS, s->optimizer_set_bytes,
                       s->optimizer_sets);
    b->gathers = add_ring(b, MW_TIER_CPU, MW_PURPOSE_PARAMETER_BUFFERS, s->gather_slot_bytes,
                          s->gather_ring);
}

static void
prepare_states(struct builder *b)
{
    b->states = g_renew(struct slot_state, b->states, b->plan->slot_count + 1);
    memset(b->states, 0xff, (b->plan->slot_count + 1) * sizeof *b->states); /* all MW_NONE */
}

/* --- one rank's program ------------------------------------------------------------------------ */

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
}

static void
commit(struct builder *b)
{
    bool durable = b->sizing->settings.commit == 1;
    uint32_t work = mw_work_mark(b, MW_OP_COMMIT, durable ? COMMIT_RECORD_BYTES : 0);
    uint32_t last[LANES_PER_RANK];

    memcpy(last, b->lane_last, sizeof last);
    uint32_t op = mw_build_op(b, LANE_HOST, work, (struct identity){MW_PHASE_COMMIT, -1, 0, 0, 0});
    for (int l = 0; l < LANES_PER_RANK; l++)
        mw_build_after(b, last[l]);
    /* The step begins when the one before is committed; only now is its index known. */
    b->plan->deps[b->plan->ops[b->begin_op].dep_begin] = op | MW_DEP_PREVIOUS_STEP;
}

static void
begin(struct builder *b)
{
    uint32_t work = mw_work_mark(b, MW_OP_COPY, 0);

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

    memset(b->offset_bytes, 0, sizeof b->offset_bytes);
    add_lanes(b);
    add_channels(b);
    add_home_slots(b);
    add_state_slots(b);
    add_buffer_slots(b);
    prepare_states(b);
    b->param_slot_held = g_new0(bool, b->params.count + 1);
    b->checkpoint_loaded = g_new0(uint32_t, b->sizing->checkpoint_count + 1);
    b->work_cache = g_new(uint32_t, MW_CLASS_COUNT * MW_LAYER_OPERATORS_MAX * 2);
    memset(b->work_cache, 0xff, MW_CLASS_COUNT * MW_LAYER_OPERATORS_MAX * 2 * sizeof(uint32_t));
    b->visit_count = 0;
    b->compute_wait = MW_NONE;
    b->match_count = 0;
    b->activation_turn = 0;
    mw_schedule_visits(b);

    b->chain = settings->serialize;
    begin(b);
    if (delayed)
        mw_optimizer_step(b);
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
    b.plan = mw_plan_new(title);
    b.plan->world_ranks = sizing->ranks;
    b.plan->ranks = settings->unfold ? sizing->ranks : 1;
    memcpy(b.plan->tiers, sizing->tiers, sizeof b.plan->tiers);
    add_comms(&b);
    for (b.rank = 0; b.rank < b.plan->ranks; b.rank++)
        build_program(&b);
    g_free(b.visits);
    g_free(b.states);
    if (!mw_plan_check(b.plan, why, sizeof why))
        g_error("planner: the plan it made does not hold: %s", why);
    return b.plan;
}
