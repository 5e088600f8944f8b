/* The tables that a program starts from: lanes, channels, communicators, slots. */
#include <glib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "planner/build/internal.h"

/* An executor keeps a drive's queue full by cutting an op into requests, and from one op to the
 * next because more of them have started; all else goes one after the other. */
#define DRIVE_WINDOW 4
#define LANE_WINDOW 1

static const struct {
    enum mw_lane_kind kind;
    int index;
} lane_table[LANES_PER_RANK] = {
    [LANE_COMPUTE] = {MW_LANE_COMPUTE, 0},
    [LANE_COLLECTIVE] = {MW_LANE_COLLECTIVE, 0},
    [LANE_SLICING] = {MW_LANE_COLLECTIVE, 1},
    [LANE_H2D] = {MW_LANE_H2D, 0},
    [LANE_D2H] = {MW_LANE_D2H, 0},
    [LANE_READ] = {MW_LANE_NVME_READ, 0},
    [LANE_WRITE] = {MW_LANE_NVME_WRITE, 0},
    [LANE_HOST] = {MW_LANE_HOST, 0},
    [LANE_UPDATE_COLLECTIVE] = {MW_LANE_COLLECTIVE, 2},
    [LANE_UPDATE_H2D] = {MW_LANE_H2D, 1},
    [LANE_UPDATE_D2H] = {MW_LANE_D2H, 1},
    [LANE_UPDATE_READ] = {MW_LANE_NVME_READ, 1},
    [LANE_UPDATE_WRITE] = {MW_LANE_NVME_WRITE, 1},
    [LANE_UPDATE_HOST] = {MW_LANE_HOST, 1},
};

static uint32_t
window_of(enum mw_lane_kind kind)
{
    return kind == MW_LANE_NVME_READ || kind == MW_LANE_NVME_WRITE ? DRIVE_WINDOW : LANE_WINDOW;
}

void
mw_build_add_lanes(struct builder *b)
{
    bool delayed = b->sizing->settings.dpu_start != MW_AUTO;

    b->lane_base = b->plan->lane_count;
    for (int l = 0; l < LANES_PER_RANK; l++) {
        b->lane_last[l] = MW_NONE;
        if (l >= LANE_UPDATE_COLLECTIVE && !delayed)
            continue;
        mw_plan_add_lane(b->plan, (struct mw_lane){b->rank, lane_table[l].kind, lane_table[l].index,
                                                   window_of(lane_table[l].kind), 0});
    }
}

static bool
belongs_to_node(enum mw_channel_kind kind)
{
    return kind == MW_CHANNEL_NODE_H2D || kind == MW_CHANNEL_NODE_D2H || kind == MW_CHANNEL_DRAM ||
           kind == MW_CHANNEL_CORES || kind == MW_CHANNEL_DRIVE || kind == MW_CHANNEL_NIC;
}

/* Folded, one program stands for a node's ranks and gets its part of the node's channels;
 * unfolded, the ranks of a node share them. */
void
mw_build_add_channels(struct builder *b)
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

void
mw_build_add_comms(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;

    b->dp_comm = mw_plan_add_comm(
        b->plan, (struct mw_comm){s->dp, s->dp_ranks_per_node,
                                  MIN(s->tp, s->ranks_per_node / s->dp_ranks_per_node)});
    b->tp_comm =
        mw_plan_add_comm(b->plan, (struct mw_comm){s->tp, s->tp_ranks_per_node,
                                                   s->ranks_per_node / s->tp_ranks_per_node});
    b->world_comm = mw_plan_add_comm(b->plan, (struct mw_comm){s->ranks, s->ranks_per_node, 1});
}

static uint32_t
add_slots(struct builder *b, enum mw_tier tier, enum mw_purpose purpose, int64_t bytes,
          int64_t count, bool persistent)
{
    uint32_t first = b->plan->slot_count;

    bytes = mw_round_up(bytes, MW_SLOT_ALIGNMENT_BYTES);
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

/* From one part of a unit to the next in a home. */
static int64_t
stride(const struct mw_unit *unit, bool partitioned)
{
    return partitioned ? unit->shard_stride : unit->tile_params;
}

static uint32_t
operator_bits(const struct mw_class_info *class, const struct mw_unit *unit)
{
    uint32_t bits = 0;

    for (int i = unit->first; i < unit->first + unit->count; i++)
        bits |= 1u << class->operators[i].operator_;
    return bits;
}

static uint32_t
add_tensors(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;
    uint32_t first = b->plan->tensor_count;

    for (uint32_t u = 0; u < s->unit_count; u++) {
        int32_t layer;
        int index;
        const struct mw_class_info *class = &s->classes[mw_sizing_locate(s, u, &layer, &index)];
        const struct mw_unit *unit = &class->units[index];
        mw_plan_add_tensor(
            b->plan,
            (struct mw_tensor){.rank = b->rank,
                               .layer = layer,
                               .operators = operator_bits(class, unit),
                               .gradient_dtype = s->gradient_element_bytes == 4 ? MW_DTYPE_FP32
                                                                                : s->settings.dtype,
                               .trainable = true,
                               .tiles = unit->tiles,
                               .elements = unit->params,
                               .rows = unit->rows,
                               .row_elements = unit->row_params,
                               .tile_elements = unit->tile_params,
                               .shard_elements = unit->shard_params,
                               .param_stride = stride(unit, s->params_partitioned),
                               .gradient_stride = stride(unit, s->gradients_partitioned),
                               .state_stride = stride(unit, s->optimizer_partitioned),
                               .param_slot = b->param_home + u,
                               .gradient_slot = b->gradient_home + u,
                               .params_whole = !s->params_partitioned,
                               .gradients_whole = !s->gradients_partitioned,
                               .state_whole = !s->optimizer_partitioned});
    }
    return first;
}

/* Chunks run through the units' state in order; one unit may be in several. */
static void
add_chunks(struct builder *b, uint32_t first_tensor)
{
    const struct mw_sizing *s = b->sizing;
    int64_t from = 0;

    for (uint32_t c = 0; c < s->chunk_count; c++) {
        const struct mw_chunk *chunk = &b->chunks[c];
        bool goes_on = c && b->chunks[c - 1].unit_count == 1 &&
                       b->chunks[c - 1].first_unit == chunk->first_unit;
        from = goes_on ? from + b->chunks[c - 1].params : 0;
        mw_plan_add_chunk(
            b->plan, (struct mw_chunk_content){.rank = b->rank,
                                               .first_tensor = first_tensor + chunk->first_unit,
                                               .tensor_count = chunk->unit_count,
                                               .first_element = from,
                                               .elements = chunk->params,
                                               .slot = b->state_home + c,
                                               .other_slot = b->chunk_other[c]});
    }
}

static void
add_home_slots(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;
    bool delayed = s->settings.dpu_start != MW_AUTO;

    b->param_home = b->plan->slot_count;
    for (uint32_t u = 0; u < s->unit_count; u++) {
        const struct mw_unit *unit = mw_sizing_unit(s, u);
        add_slots(b, s->param_home[u], MW_PURPOSE_PARAMETERS,
                  2 * unit->tiles * stride(unit, s->params_partitioned), 1, true);
    }
    b->gradient_home = b->plan->slot_count;
    for (uint32_t u = 0; u < s->unit_count; u++) {
        const struct mw_unit *unit = mw_sizing_unit(s, u);
        int64_t params = unit->tiles * stride(unit, s->gradients_partitioned);
        add_slots(b, s->gradient_home[u], MW_PURPOSE_GRADIENTS, s->gradient_rest_bytes * params, 1,
                  delayed);
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
        add_slots(b, b->chunks[c].tier, MW_PURPOSE_OPTIMIZER_STATE,
                  b->chunks[c].params * s->optimizer_element_bytes, 1, true);
    b->chunk_other = g_new(uint32_t, s->chunk_count + 1);
    for (uint32_t c = 0; c < s->chunk_count; c++) {
        b->chunk_other[c] = MW_NONE;
        if (b->chunks[c].tier == MW_TIER_NVME && s->settings.commit == 1)
            b->chunk_other[c] =
                add_slots(b, MW_TIER_NVME, MW_PURPOSE_OPTIMIZER_STATE_OTHER,
                          b->chunks[c].params * s->optimizer_element_bytes, 1, true);
    }
}

static void
add_buffer_slots(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;

    b->params =
        add_ring(b, MW_TIER_GPU, MW_PURPOSE_PARAMETER_BUFFERS, s->param_slot_bytes, s->param_ring);
    b->shards =
        add_ring(b, MW_TIER_GPU, MW_PURPOSE_SHARD_BUFFERS, s->shard_slot_bytes, s->shard_ring);
    b->pinned =
        add_ring(b, MW_TIER_CPU, MW_PURPOSE_SHARD_BUFFERS, s->pinned_slot_bytes, s->pinned_ring);
    b->gradients = add_ring(b, MW_TIER_GPU, MW_PURPOSE_GRADIENT_BUFFERS, s->gradient_slot_bytes,
                            s->gradient_ring);
    b->tied_gradient = add_slots(b, MW_TIER_GPU, MW_PURPOSE_GRADIENT_BUFFERS,
                                 s->tied_gradient_bytes, s->tied_gradients, false);
    b->gradient_shards = add_ring(b, MW_TIER_GPU, MW_PURPOSE_SHARD_BUFFERS, s->gradient_shard_bytes,
                                  s->gradient_shard_ring);
    b->gradient_pinned = add_ring(b, MW_TIER_CPU, MW_PURPOSE_GRADIENT_BUFFERS,
                                  s->gradient_pinned_bytes, s->gradient_pinned_ring);
    b->checkpoints = add_ring(b, MW_TIER_GPU, MW_PURPOSE_CHECKPOINT_BUFFERS, s->checkpoint_bytes,
                              s->checkpoint_ring);
    b->checkpoint_pinned = add_ring(b, MW_TIER_CPU, MW_PURPOSE_CHECKPOINT_BUFFERS,
                                    s->checkpoint_bytes, s->checkpoint_pinned_ring);
    b->activations = add_ring(b, MW_TIER_GPU, MW_PURPOSE_ACTIVATIONS, s->activation_slot_bytes,
                              s->activation_slots);
    b->logits_slot =
        add_slots(b, MW_TIER_GPU, MW_PURPOSE_LOGITS, s->logits_bytes, s->logits_bytes > 0, false);
    b->sets = add_ring(b, MW_TIER_CPU, MW_PURPOSE_OPTIMIZER_BUFFERS, s->optimizer_set_bytes,
                       s->optimizer_sets);
    uint32_t records = add_slots(b, MW_TIER_NVME, MW_PURPOSE_COMMIT_RECORDS, s->commit_record_bytes,
                                 s->commit_record_bytes ? 2 : 0, true);
    b->commit_record = s->commit_record_bytes ? records + 1 : MW_NONE;
    uint32_t saves =
        add_slots(b, MW_TIER_NVME, MW_PURPOSE_SAVES, s->saved_bytes, s->saved_bytes ? 2 : 0, true);
    b->commit_saves = s->saves_in_step ? saves + 1 : MW_NONE;
    b->incoming = add_ring(b, MW_TIER_CPU, MW_PURPOSE_OPTIMIZER_BUFFERS, s->incoming_slot_bytes,
                           s->incoming_ring);
    b->gpu_incoming = add_ring(b, MW_TIER_GPU, MW_PURPOSE_OPTIMIZER_BUFFERS, s->gpu_incoming_bytes,
                               s->gpu_incoming_ring);
    b->gathers = add_ring(b, MW_TIER_CPU, MW_PURPOSE_PARAMETER_BUFFERS, s->gather_slot_bytes,
                          s->gather_ring);
    b->gpu_gathers = add_ring(b, MW_TIER_GPU, MW_PURPOSE_PARAMETER_BUFFERS, s->gpu_gather_bytes,
                              s->gpu_gather_ring);
    /* Behind all else of its tier: one table serves a run's plans with and without a delay. */
    add_slots(b, MW_TIER_CPU, MW_PURPOSE_CHECKSUMS, s->checksum_bytes, s->checksum_bytes > 0, true);
}

static void
prepare_states(struct builder *b)
{
    b->states = g_renew(struct slot_state, b->states, b->plan->slot_count + 1);
    memset(b->states, 0xff, (b->plan->slot_count + 1) * sizeof *b->states); /* all MW_NONE */
}

void
mw_build_add_slots(struct builder *b)
{
    memset(b->offset_bytes, 0, sizeof b->offset_bytes);
    add_home_slots(b);
    add_state_slots(b);
    add_chunks(b, add_tensors(b));
    add_buffer_slots(b);
    prepare_states(b);
}
