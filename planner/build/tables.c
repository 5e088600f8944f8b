/* The tables that a program starts from: lanes, channels, communicators, slots. */
#include <glib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "planner/build/internal.h"

/* An executor keeps a drive's queue full by cutting an op into requests, and across op boundaries
 * because more ops have started; other lanes run one op at a time. */
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
    [LANE_STAGE_INPUT] = {MW_LANE_COLLECTIVE, 3},
    [LANE_STAGE_OUTPUT] = {MW_LANE_COLLECTIVE, 4},
    [LANE_STAGE_GRADIENT_INPUT] = {MW_LANE_COLLECTIVE, 5},
    [LANE_STAGE_GRADIENT_OUTPUT] = {MW_LANE_COLLECTIVE, 6},
    [LANE_REPLICAS] = {MW_LANE_COLLECTIVE, 7},
};

static uint32_t
window_of(enum mw_lane_kind kind)
{
    return kind == MW_LANE_NVME_READ || kind == MW_LANE_NVME_WRITE ? DRIVE_WINDOW : LANE_WINDOW;
}

static bool
has_lane(const struct builder *b, int lane)
{
    const struct mw_sizing *s = b->sizing;

    if (lane == LANE_STAGE_INPUT || lane == LANE_STAGE_GRADIENT_OUTPUT)
        return s->stage > 0 || s->stretches > 1;
    if (lane == LANE_STAGE_OUTPUT || lane == LANE_STAGE_GRADIENT_INPUT)
        return s->next_stage != NULL || s->stretches > 1;
    if (lane == LANE_REPLICAS)
        return s->replicas > 1;
    return lane < LANE_UPDATE_COLLECTIVE || mw_settings_update_apart(&s->settings);
}

void
mw_build_add_lanes(struct builder *b)
{
    b->lane_of = g_renew(uint8_t, b->lane_of, b->plan->lane_count + LANES_PER_RANK);
    for (int l = 0; l < LANES_PER_RANK; l++) {
        enum mw_lane_kind kind = lane_table[l].kind;
        b->lane_last[l] = b->lanes[l] = MW_NONE;
        if (!has_lane(b, l))
            continue;
        b->lanes[l] = mw_plan_add_lane(
            b->plan, (struct mw_lane){b->program, kind, lane_table[l].index, window_of(kind), 0});
        b->lane_of[b->lanes[l]] = l;
    }
}

static bool
belongs_to_node(enum mw_channel_kind kind)
{
    return kind == MW_CHANNEL_NODE_H2D || kind == MW_CHANNEL_NODE_D2H || kind == MW_CHANNEL_DRAM ||
           kind == MW_CHANNEL_CORES || kind == MW_CHANNEL_DRIVE || kind == MW_CHANNEL_NIC;
}

/* Number of the program's ranks that share the first one's node. */
static uint32_t
ranks_of_node(const struct builder *b, uint32_t node)
{
    const struct mw_members *ranks = &b->plan->programs[b->program].ranks;
    uint32_t count = 0;

    for (uint32_t i = 0; i < mw_members_count(ranks); i++)
        count += mw_members_at(ranks, i) / b->plan->ranks_per_node == node;
    return count;
}

/* Programs of one node share its channels.  A program that stands for several ranks of the node
 * gets as many parts: all stages of a pipeline have the same number there. */
void
mw_build_add_channels(struct builder *b)
{
    uint32_t node = b->rank / b->plan->ranks_per_node, users = ranks_of_node(b, node);
    uint32_t before = b->plan->channel_count;

    for (int kind = 0; kind < MW_CHANNEL_KIND_COUNT; kind++) {
        bool shared = belongs_to_node(kind);
        uint32_t c = 0;
        while (shared && c < before &&
               (b->plan->channels[c].kind != kind || b->plan->channels[c].index != node))
            c++;
        b->channel[kind] =
            shared && c < before
                ? c
                : mw_plan_add_channel(b->plan, (struct mw_channel){kind, shared ? node : b->rank,
                                                                   shared ? users : 1});
    }
}

/* Of stages whose ranks take turns: all ranks, among which micro-batches hop, and the ranks of each
 * stage. */
static void
add_comms_of_turns(struct builder *b)
{
    const struct mw_stage_replicas *replicas = &b->sizing->settings.stage_replicas;
    struct mw_members alone = mw_members_of_one(0);
    struct mw_comm world = {0};

    memcpy(world.spans, alone.spans, sizeof world.spans);
    struct mw_comm one = world;
    world.spans[MW_AXIS_PP] = (struct mw_axis_span){1, (uint32_t)b->sizing->ranks};
    b->tp_comm = mw_plan_add_comm(b->plan, one);
    b->world_comm = b->pp_comm = mw_plan_add_comm(b->plan, world);
    b->stage_comms = b->plan->comm_count;
    for (uint32_t stage = 0; stage < replicas->stages; stage++) {
        struct mw_comm sums = one;
        sums.single = true;
        sums.first = mw_stage_replicas_first(replicas, stage);
        if (replicas->of[stage] > 1)
            sums.spans[MW_AXIS_DP] = (struct mw_axis_span){1, replicas->of[stage]};
        mw_plan_add_comm(b->plan, sums);
    }
    b->dp_comm = b->stage_comms;
    b->copies_comm = b->rp_comm = b->cp_comm = b->ep_comm = b->replicas_comm = MW_NONE;
}

void
mw_build_add_comms(struct builder *b)
{
    if (mw_settings_takes_turns(&b->sizing->settings)) {
        add_comms_of_turns(b);
        return;
    }
    const struct mw_sizing *s = b->sizing;

    struct mw_members alone = mw_members_of_one(0);
    struct mw_comm one = {0};
    struct mw_axis_span slices =
        s->tp > 1 ? (struct mw_axis_span){1, s->tp} : (struct mw_axis_span){0, 1};
    struct mw_axis_span data =
        s->shards > 1 ? (struct mw_axis_span){s->tp, s->shards} : (struct mw_axis_span){0, 1};
    struct mw_axis_span groups = s->replicas > 1
                                     ? (struct mw_axis_span){s->tp * s->shards, s->replicas}
                                     : (struct mw_axis_span){0, 1};
    uint32_t stage_ranks = s->tp * s->dp;
    struct mw_axis_span stages =
        s->pp > 1 ? (struct mw_axis_span){stage_ranks, s->pp} : (struct mw_axis_span){0, 1};
    memcpy(one.spans, alone.spans, sizeof one.spans);
    struct mw_comm dp = one, rp = one, tp = one, pp = one, world = one;

    dp.spans[MW_AXIS_DP] = world.spans[MW_AXIS_DP] = data;
    rp.spans[MW_AXIS_RP] = world.spans[MW_AXIS_RP] = groups;
    tp.spans[MW_AXIS_TP] = world.spans[MW_AXIS_TP] = slices;
    pp.spans[MW_AXIS_PP] = world.spans[MW_AXIS_PP] = stages;
    b->dp_comm = mw_plan_add_comm(b->plan, dp);
    b->tp_comm = mw_plan_add_comm(b->plan, tp);
    b->world_comm = mw_plan_add_comm(b->plan, world);
    b->ep_comm = b->replicas_comm = MW_NONE;
    if (s->ep > 1) {
        struct mw_comm ep = one, replicas = one;
        uint32_t reach = (uint32_t)(s->tp * s->spread), count = (uint32_t)(s->dp / s->spread);
        if (s->shape.whole_experts)
            ep.spans[MW_AXIS_TP] = slices;
        if (s->spread > 1)
            ep.spans[MW_AXIS_EP] = (struct mw_axis_span){(uint32_t)s->tp, (uint32_t)s->spread};
        if (count > 1)
            replicas.spans[MW_AXIS_DP] = (struct mw_axis_span){reach, count};
        b->ep_comm = mw_plan_add_comm(b->plan, ep);
        b->replicas_comm = mw_plan_add_comm(b->plan, replicas);
    }
    b->cp_comm = MW_NONE;
    if (s->cp > 1) {
        struct mw_comm cp = one;
        cp.spans[MW_AXIS_CP] = (struct mw_axis_span){(uint32_t)s->tp, (uint32_t)s->cp};
        b->cp_comm = mw_plan_add_comm(b->plan, cp);
    }
    b->pp_comm = s->pp > 1 ? mw_plan_add_comm(b->plan, pp) : MW_NONE;
    b->rp_comm = s->replicas > 1 ? mw_plan_add_comm(b->plan, rp) : MW_NONE;
    b->copies_comm = b->pp_comm;
    if (s->copied_params && s->pp > 2) {
        pp.spans[MW_AXIS_PP] = (struct mw_axis_span){stage_ranks * ((uint32_t)s->pp - 1), 2};
        b->copies_comm = mw_plan_add_comm(b->plan, pp);
    }
}

uint32_t
mw_build_replicas(const struct builder *b, int64_t ranks)
{
    return ranks == b->sizing->shards ? b->dp_comm : b->replicas_comm;
}

/* Whether a slot of the kind lies in the room for what shares bytes. */
static bool
lies_in_room(const struct builder *b, enum mw_buffer_kind kind, uint32_t i)
{
    return kind == MW_BUFFER_GRADIENTS ? mw_sizing_shares_gradient(b->sizing, i)
                                       : b->sizing->buffers[kind].shares;
}

static struct ring
add_slots(struct builder *b, enum mw_buffer_kind kind)
{
    const struct mw_sizing *s = b->sizing;
    const struct mw_buffer *buffer = &s->buffers[kind];
    g_autofree struct mw_sized_slot *slots = mw_sizing_slots(s, kind);
    struct ring ring = {b->plan->slot_count, buffer->count, 0};
    bool sets = kind == MW_BUFFER_GRADIENTS && s->gradient_sets;
    int64_t at = buffer->at.begin; /* in the room */

    for (uint32_t i = 0; i < ring.count; i++) {
        enum mw_tier tier = slots[i].tier;
        int64_t bytes = mw_round_up(slots[i].bytes, MW_SLOT_ALIGNMENT_BYTES);
        bool in_room = lies_in_room(b, kind, i);
        if (in_room && sets)
            at = buffer->at.begin + mw_sizing_gradient_set_place(s, i);
        struct mw_slot slot = {.program = b->program,
                               .tier = tier,
                               .purpose = buffer->purpose,
                               .persistent = buffer->persistent,
                               .offset_bytes =
                                   in_room ? s->shared[tier].begin + at : b->offset_bytes[tier],
                               .size_bytes = bytes};
        if (in_room && bytes)
            slot.shares =
                sets || mw_sizing_meets_others(s, kind, (struct mw_extent){at, at + bytes});
        mw_plan_add_slot(b->plan, slot);
        *(in_room ? &at : &b->offset_bytes[tier]) += bytes;
    }
    return ring;
}

/* What shares bytes, and is not last in its tier, has its place. */
static void
skip_room(struct builder *b)
{
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        const struct mw_extent *room = &b->sizing->shared[t];
        if (room->end > room->begin)
            b->offset_bytes[t] = MAX(b->offset_bytes[t], room->end);
    }
}

static uint32_t
operator_bits(const struct mw_class_info *class, const struct mw_unit_tensor *tensor)
{
    uint32_t bits = 0;

    for (int i = tensor->first; i < tensor->first + tensor->count; i++)
        bits |= 1u << class->operators[i].operator_;
    return bits;
}

static uint32_t
add_tensors(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;
    uint32_t first = b->plan->tensor_count;

    for (uint32_t t = 0; t < s->tensor_count; t++) {
        int32_t layer;
        int index;
        const struct mw_class_info *class = &s->classes[mw_sizing_locate(s, t, &layer, &index)];
        const struct mw_unit_tensor *tensor = &class->tensors[index];
        bool trained = tensor->trained;
        mw_plan_add_tensor(
            b->plan,
            (struct mw_tensor){
                .program = b->program,
                .layer = layer < 0 ? -1 : (int32_t)mw_sizing_model_layer(s, layer),
                .operators = operator_bits(class, tensor),
                .dtype = tensor->dtype,
                .gradient_dtype = trained ? s->sum_dtype : s->settings.dtype,
                .summed = trained && s->gradients_summed,
                .trainable = trained,
                .tiles = tensor->tiles,
                .spread = (uint32_t)(tensor->ranks < s->shards ? s->spread : 0),
                .elements = tensor->params,
                .rows = tensor->rows,
                .row_elements = tensor->row_params,
                .tile_elements = tensor->tile_params,
                .shard_elements = tensor->shard_params,
                .param_stride = mw_sizing_part_stride(s, tensor, s->params_partitioned),
                .gradient_stride =
                    trained ? mw_sizing_part_stride(s, tensor, s->gradients_partitioned) : 0,
                .state_stride = trained ? mw_sizing_state_stride(s, tensor) : 0,
                .param_slot = b->param_home + t,
                .gradient_slot = trained ? b->gradient_home + t : MW_NONE,
                .params_whole = !s->params_partitioned,
                .gradients_whole = !s->gradients_partitioned,
                .state_whole = !s->optimizer_partitioned});
    }
    return first;
}

/* Chunks cover the tensors' state in order; one tensor may be in several chunks. */
static void
add_chunks(struct builder *b, uint32_t first_tensor)
{
    const struct mw_sizing *s = b->sizing;
    int64_t from = 0;

    for (uint32_t c = 0; c < s->chunk_count; c++) {
        const struct mw_chunk *chunk = &b->chunks[c];
        bool goes_on = c && b->chunks[c - 1].tensor_count == 1 &&
                       b->chunks[c - 1].first_tensor == chunk->first_tensor;
        from = goes_on ? from + b->chunks[c - 1].params : 0;
        mw_plan_add_chunk(
            b->plan, (struct mw_chunk_content){.program = b->program,
                                               .first_tensor = first_tensor + chunk->first_tensor,
                                               .tensor_count = chunk->tensor_count,
                                               .first_element = from,
                                               .elements = chunk->params,
                                               .slot = b->state_home + c,
                                               .other_slot = b->chunk_other[c]});
    }
}

/* The extents that committed chunks are written to; MW_NONE for other chunks. */
static uint32_t *
other_extents(const struct builder *b)
{
    const struct mw_sizing *s = b->sizing;
    uint32_t *other = g_new(uint32_t, s->chunk_count + 1);
    uint32_t next = b->slots[MW_BUFFER_STATE_OTHER].first;

    for (uint32_t c = 0; c < s->chunk_count; c++)
        other[c] = mw_sizing_commits_chunk(s, &b->chunks[c]) ? next++ : MW_NONE;
    return other;
}

/* The one of two alternating slots that this step writes. */
static uint32_t
written_slot(const struct builder *b, enum mw_buffer_kind kind)
{
    return b->slots[kind].count ? b->slots[kind].first + 1 : MW_NONE;
}

static bool
lie_over(const struct mw_slot *a, const struct mw_slot *b)
{
    return a->tier == b->tier && a->offset_bytes < b->offset_bytes + b->size_bytes &&
           b->offset_bytes < a->offset_bytes + a->size_bytes;
}

static void
find_overlaps(struct builder *b)
{
    const struct mw_slot *slots = b->plan->slots;
    uint32_t count = b->plan->slot_count;
    g_autofree uint32_t *sharing = g_new(uint32_t, count + 1);
    uint32_t sharing_count = 0, next = 0;
    GArray *overlaps = g_array_new(FALSE, FALSE, sizeof(uint32_t));

    for (uint32_t s = 0; s < count; s++)
        if (slots[s].shares && slots[s].program == b->program)
            sharing[sharing_count++] = s;
    b->overlap_begin = g_renew(uint32_t, b->overlap_begin, count + 1);
    for (uint32_t s = 0; s < count; s++) {
        b->overlap_begin[s] = overlaps->len;
        if (next == sharing_count || sharing[next] != s)
            continue;
        next++;
        for (uint32_t i = 0; i < sharing_count; i++)
            if (sharing[i] != s && lie_over(&slots[s], &slots[sharing[i]]))
                g_array_append_val(overlaps, sharing[i]);
    }
    b->overlap_begin[count] = overlaps->len;
    g_free(b->overlaps);
    b->overlaps = (uint32_t *)(gpointer)g_array_free(overlaps, FALSE);
}

void
mw_build_prepare_states(struct builder *b)
{
    find_overlaps(b);
    b->states = g_renew(struct slot_state, b->states, b->plan->slot_count + 1);
    memset(b->states, 0xff, (b->plan->slot_count + 1) * sizeof *b->states); /* all MW_NONE */
    for (uint32_t s = 0; s <= b->plan->slot_count; s++)
        b->states[s].read_by = 0;
}

void
mw_build_add_slots(struct builder *b)
{
    uint32_t slots = 0;

    for (int kind = 0; kind < MW_BUFFER_KIND_COUNT; kind++)
        slots += b->sizing->buffers[kind].count;
    mw_plan_expect_homes(b->plan, slots, b->sizing->tensor_count, b->sizing->chunk_count);
    memset(b->offset_bytes, 0, sizeof b->offset_bytes);
    for (int kind = 0; kind < MW_BUFFER_KIND_COUNT; kind++) {
        if (kind == MW_BUFFER_VECTORS)
            skip_room(b);
        b->slots[kind] = add_slots(b, kind);
    }
    b->param_home = b->slots[MW_BUFFER_PARAMETERS].first;
    b->gradient_home = b->slots[MW_BUFFER_GRADIENTS].first;
    b->sum_home = b->slots[MW_BUFFER_SUMS].first;
    b->checkpoint_home = b->slots[MW_BUFFER_CHECKPOINTS].first;
    b->state_home = b->slots[MW_BUFFER_STATE].first;
    g_free(b->chunk_other);
    b->chunk_other = other_extents(b);
    b->tied_gradient = b->slots[MW_BUFFER_GRADIENTS_TIED].first;
    b->logits_slot = b->slots[MW_BUFFER_LOGITS].first;
    b->commit_record = written_slot(b, MW_BUFFER_COMMIT_RECORDS);
    b->commit_saves = b->sizing->saves_in_step ? written_slot(b, MW_BUFFER_SAVES) : MW_NONE;
    add_chunks(b, add_tensors(b));
}
