/*
 * The optimizer step, in chunks: read state | update | write state and parameters, pipelined over a
 * few buffer sets (ZeRO-Infinity Sec. 5.2.2).  It starts when the norm of all gradients is known.
 * With delayed parameter update (ZeRO-Offload Sec. 5.2) the host updates with the previous step's
 * gradients while the GPU computes.  It begins with the last chunk, because backward computes those
 * gradients first: a home is read before it is overwritten, and a chunk's parameters return as soon
 * as backward has used the old ones.
 *
 * An update beside backward (Ratel, arXiv 2403.06504; Lv et al., arXiv 2306.09782) takes each chunk
 * when its gradients are final, which nobody then clips by the norm of all.
 */
#include <glib.h>

#include "plan/optimizers.h"
#include "planner/build/internal.h"

/* Bytes of the sum of squares of all gradients of an update: one fp64. */
#define NORM_BYTES 8

static const struct subject of_state = {MW_OBJECT_STATE, MW_OPERATOR_NONE};
static const struct subject of_updated = {MW_OBJECT_UPDATED, MW_OPERATOR_NONE};

static struct identity
identify(uint32_t chunk)
{
    return (struct identity){MW_PHASE_OPTIMIZER, -1, 0, 0, chunk};
}

/* Lanes work in order.  An update beside the passes has lanes of its own, so that neither waits for
 * the other's turn. */
static int
update_lane(const struct builder *b, int lane)
{
    static const int own[LANES_PER_RANK] = {
        [LANE_COLLECTIVE] = LANE_UPDATE_COLLECTIVE,
        [LANE_H2D] = LANE_UPDATE_H2D,
        [LANE_D2H] = LANE_UPDATE_D2H,
        [LANE_READ] = LANE_UPDATE_READ,
        [LANE_WRITE] = LANE_UPDATE_WRITE,
        [LANE_HOST] = LANE_UPDATE_HOST,
    };

    return mw_settings_update_apart(&b->sizing->settings) && own[lane] ? own[lane] : lane;
}

static uint32_t
build_op(struct builder *b, int lane, uint32_t work, uint32_t chunk)
{
    struct identity id = identify(chunk);

    id.micro_batch = b->update_of;
    return mw_build_op(b, update_lane(b, lane), work, id);
}

static enum mw_tier
gradient_tier(const struct builder *b, const struct mw_chunk *chunk)
{
    return b->sizing->gradient_home[chunk->first_tensor];
}

/* A tensor without parameters (a tied tail without a norm) has no content, and a frozen one no part
 * in the update. */
static void
use_tensors(struct builder *b, const struct mw_chunk *chunk, enum mw_use_mode mode,
            enum mw_role role)
{
    uint32_t home = role == MW_ROLE_PARAMETER ? b->param_home : b->gradient_home;
    bool stashes = role == MW_ROLE_PARAMETER && mw_settings_stashes(&b->sizing->settings);
    uint32_t made = stashes ? mw_sizing_version_made(b->sizing, b->update_of) : 0;

    if (made) {
        mw_build_use(b, mw_version_slot(b, made, 0), mode, role);
        return;
    }
    for (uint32_t t = chunk->first_tensor; t < chunk->first_tensor + chunk->tensor_count; t++) {
        const struct mw_unit_tensor *tensor = mw_sizing_tensor(b->sizing, t);
        if (tensor->params && tensor->trained)
            mw_build_use(b, home + t, mode, role);
    }
    /* The version that was new becomes that of the next step, and the new one takes its place. */
    if (role == MW_ROLE_PARAMETER && mw_settings_no_flush(&b->sizing->settings) && !stashes)
        mw_build_use(b, b->slots[MW_BUFFER_VERSIONS].first, mode, role);
}

static bool
is_of_left_out(const struct builder *b, uint32_t tensor)
{
    int32_t layer;
    int index;

    if (!b->dropped)
        return false;
    mw_sizing_locate(b->sizing, tensor, &layer, &index);
    return layer >= 0 && mw_drops_layer(b, layer);
}

/* Chunks end with their layer where layers are left out. */
static bool
is_left_out(const struct builder *b, uint32_t c)
{
    return is_of_left_out(b, b->chunks[c].first_tensor);
}

static void
copy_op(struct builder *b, int lane, enum mw_op_kind kind, int64_t bytes, uint32_t c)
{
    build_op(b, lane, mw_work_copy(b, kind, of_state, bytes, false), c);
}

static void
return_op(struct builder *b, int lane, enum mw_op_kind kind, uint32_t c, uint32_t after)
{
    int64_t bytes = b->sizing->element_bytes * b->chunks[c].params;

    build_op(b, lane, mw_work_copy(b, kind, of_updated, bytes, false), c);
    mw_build_after(b, after);
}

static int64_t
agreed_bytes(const struct builder *b)
{
    return NORM_BYTES * mw_sizing_updates(b->sizing) + mw_sizing_agreed_sums_bytes(b->sizing);
}

/* Gradients on drives that the pass behind the agreement reads again: of all layers, also where few
 * of them are built. */
static int64_t
clipped_bytes(const struct builder *b)
{
    const struct mw_sizing *whole = b->whole ? b->whole : b->sizing;
    int64_t params = 0;

    if (!mw_optimizer_row(whole->settings.optimizer)->clips)
        return 0;
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(whole);
    for (uint32_t c = 0; c < whole->chunk_count; c++) {
        uint32_t tensor = chunks[c].first_tensor;
        if (whole->gradient_home[tensor] == MW_TIER_NVME && !is_of_left_out(b, tensor))
            params += chunks[c].params;
    }
    return params * whole->gradient_element_bytes;
}

/* The pass behind the agreement reads gradients at home, where a delayed update's would be
 * overwritten once the step has copied them to where the update runs. */
static void
use_clipped(struct builder *b)
{
    const struct mw_settings *settings = &b->sizing->settings;

    if (!mw_optimizer_row(settings->optimizer)->clips || settings->dpu_start == MW_AUTO)
        return;
    for (uint32_t t = 0; t < b->sizing->tensor_count; t++) {
        const struct mw_unit_tensor *tensor = mw_sizing_tensor(b->sizing, t);
        if (tensor->params && tensor->trained && !is_of_left_out(b, t))
            mw_build_use(b, b->gradient_home + t, MW_USE_READ, MW_ROLE_GRADIENT);
    }
}

/* Each rank sums the squares of its own gradients where they live (those on NVMe, on their way
 * there); then all ranks agree on one number. */
static uint32_t
check_norm(struct builder *b)
{
    const struct mw_sizing *s = b->sizing;
    uint32_t last_of_backward =
        s->settings.dpu_start == MW_AUTO ? b->lane_last[LANE_HOST] : MW_NONE;
    uint32_t last[2] = {MW_NONE, last_of_backward};

    for (uint32_t c = 0; c < s->chunk_count; c++) {
        const struct mw_chunk *chunk = &b->chunks[c];
        bool host = gradient_tier(b, chunk) == MW_TIER_CPU;
        b->norm_ops[c] = b->plan->op_count;
        if (gradient_tier(b, chunk) == MW_TIER_NVME || is_left_out(b, c))
            continue;
        bool first = !host && last[0] == MW_NONE;
        last[host] = build_op(b, host ? LANE_HOST : LANE_COMPUTE,
                              mw_work_norm(b, of_state, host, chunk->params), c);
        if (first)
            mw_build_after(b, b->reduced_all);
        use_tensors(b, chunk, MW_USE_READ, MW_ROLE_GRADIENT);
    }
    b->norm_ops[s->chunk_count] = b->plan->op_count;
    int64_t read_bytes = clipped_bytes(b);
    uint32_t agreed =
        build_op(b, LANE_COLLECTIVE, mw_work_agree(b, of_state, agreed_bytes(b), read_bytes), 0);
    use_clipped(b);
    mw_build_after(b, last[0]);
    mw_build_after(b, last[1]);
    if (read_bytes && s->settings.dpu_start == MW_AUTO)
        mw_build_after(b, b->lane_last[LANE_WRITE]);
    return agreed;
}

static uint32_t
read_state(struct builder *b, const struct mw_chunk *chunk, uint32_t c)
{
    bool gradients = gradient_tier(b, chunk) == MW_TIER_NVME;
    int64_t bytes =
        chunk->state_bytes + (gradients ? chunk->params * b->sizing->gradient_element_bytes : 0);
    uint32_t set = mw_build_ring_next(&b->slots[MW_BUFFER_STATE_PINNED]);

    copy_op(b, LANE_READ, MW_OP_NVME_READ, bytes, c);
    mw_build_use(b, b->state_home + c, MW_USE_READ, MW_ROLE_STATE);
    if (gradients)
        use_tensors(b, chunk, MW_USE_READ, MW_ROLE_GRADIENT);
    mw_build_use(b, set, MW_USE_DEFINE, MW_ROLE_DESTINATION);
    return set;
}

/* Brings state to the GPU from home, or from where it came to from the drives, and behind it the
 * gradients that do not live there.  Returns the slot that the update works on. */
static uint32_t
stream_state(struct builder *b, const struct mw_chunk *chunk, uint32_t c, uint32_t set, uint32_t in)
{
    struct mw_chunk_moves moves = mw_sizing_chunk_moves(b->sizing, chunk);
    int64_t bytes =
        chunk->state_bytes +
        (moves.gradient_streams ? chunk->params * b->sizing->gradient_element_bytes : 0);
    uint32_t slot = mw_build_ring_next(&b->slots[MW_BUFFER_STATE_GPU]);

    copy_op(b, LANE_H2D, MW_OP_H2D, bytes, c);
    if (set == MW_NONE)
        mw_build_use(b, b->state_home + c, MW_USE_READ, MW_ROLE_STATE);
    else
        mw_build_use(b, set, MW_USE_READ, MW_ROLE_SOURCE);
    if (in != MW_NONE)
        mw_build_use(b, in, MW_USE_READ, MW_ROLE_SOURCE);
    else if (gradient_tier(b, chunk) == MW_TIER_CPU)
        use_tensors(b, chunk, MW_USE_READ, MW_ROLE_GRADIENT);
    mw_build_use(b, slot, MW_USE_DEFINE, MW_ROLE_DESTINATION);
    return slot;
}

/* Back to home, or to where the drives take it from. */
static void
return_state(struct builder *b, const struct mw_chunk *chunk, uint32_t c, uint32_t from,
             uint32_t set)
{
    copy_op(b, LANE_D2H, MW_OP_D2H, chunk->state_bytes, c);
    mw_build_use(b, from, MW_USE_READ, MW_ROLE_SOURCE);
    if (set == MW_NONE)
        mw_build_use(b, b->state_home + c, MW_USE_MODIFY, MW_ROLE_STATE);
    else
        mw_build_use(b, set, MW_USE_DEFINE, MW_ROLE_DESTINATION);
}

static void
write_state(struct builder *b, const struct mw_chunk *chunk, uint32_t c, uint32_t set)
{
    int64_t bytes = chunk->state_bytes;
    bool committed = b->chunk_other[c] != MW_NONE;

    copy_op(b, LANE_WRITE, MW_OP_NVME_WRITE, bytes, c);
    mw_build_use(b, set, MW_USE_READ, MW_ROLE_SOURCE);
    mw_build_use(b, committed ? b->chunk_other[c] : b->state_home + c,
                 committed ? MW_USE_DEFINE : MW_USE_MODIFY, MW_ROLE_STATE);
}

/* Moves gradients to where the update runs; returns the slot that the update reads, or MW_NONE if
 * it reads them at home or with the state. */
static uint32_t
bring_gradients(struct builder *b, const struct mw_chunk *chunk, uint32_t c)
{
    struct mw_chunk_moves moves = mw_sizing_chunk_moves(b->sizing, &b->chunks[c]);
    int64_t bytes = chunk->params * b->sizing->gradient_element_bytes;
    uint32_t slot = MW_NONE;

    if (moves.gradient_read || moves.gradient_d2h) {
        slot = mw_build_ring_next(&b->slots[MW_BUFFER_UPDATE_GRADIENTS_PINNED]);
        if (moves.gradient_read)
            copy_op(b, LANE_READ, MW_OP_NVME_READ, bytes, c);
        else
            copy_op(b, LANE_D2H, MW_OP_D2H, bytes, c);
        use_tensors(b, chunk, MW_USE_READ, MW_ROLE_GRADIENT);
        mw_build_use(b, slot, MW_USE_DEFINE, MW_ROLE_DESTINATION);
    }
    if (moves.gradient_h2d) {
        uint32_t source = slot;
        slot = mw_build_ring_next(&b->slots[MW_BUFFER_UPDATE_GRADIENTS_GPU]);
        copy_op(b, LANE_H2D, MW_OP_H2D, bytes, c);
        if (source != MW_NONE)
            mw_build_use(b, source, MW_USE_READ, MW_ROLE_SOURCE);
        else
            use_tensors(b, chunk, MW_USE_READ, MW_ROLE_GRADIENT);
        mw_build_use(b, slot, MW_USE_DEFINE, MW_ROLE_DESTINATION);
    }
    return slot;
}

/* The slot in which the update leaves parameters that live elsewhere; MW_NONE: their home. */
static uint32_t
outgoing_slot(struct builder *b, uint32_t c)
{
    struct mw_chunk_moves moves = mw_sizing_chunk_moves(b->sizing, &b->chunks[c]);

    if (moves.param_d2h)
        return mw_build_ring_next(&b->slots[MW_BUFFER_UPDATED_GPU]);
    if (!moves.param_h2d && !moves.param_write)
        return MW_NONE;
    if (b->sizing->settings.dpu_start != MW_AUTO)
        return b->slots[MW_BUFFER_UPDATED_PINNED].first + c;
    return mw_build_ring_next(&b->slots[MW_BUFFER_UPDATED_PINNED]);
}

/* Moves updated parameters from there to where they live, not before `after`. */
static void
send_params(struct builder *b, uint32_t c, uint32_t slot, uint32_t after)
{
    const struct mw_chunk *chunk = &b->chunks[c];
    struct mw_chunk_moves moves = mw_sizing_chunk_moves(b->sizing, &b->chunks[c]);

    if (slot == MW_NONE)
        return;
    if (moves.param_d2h) {
        uint32_t target =
            moves.param_write ? mw_build_ring_next(&b->slots[MW_BUFFER_UPDATED_PINNED]) : MW_NONE;
        return_op(b, LANE_D2H, MW_OP_D2H, c, after);
        mw_build_use(b, slot, MW_USE_READ, MW_ROLE_SOURCE);
        if (target == MW_NONE) {
            use_tensors(b, chunk, MW_USE_MODIFY, MW_ROLE_PARAMETER);
            return;
        }
        mw_build_use(b, target, MW_USE_DEFINE, MW_ROLE_DESTINATION);
        slot = target;
    }
    if (moves.param_write)
        return_op(b, LANE_WRITE, MW_OP_NVME_WRITE, c, after);
    else
        return_op(b, LANE_H2D, MW_OP_H2D, c, after);
    mw_build_use(b, slot, MW_USE_READ, MW_ROLE_SOURCE);
    use_tensors(b, chunk, MW_USE_MODIFY, MW_ROLE_PARAMETER);
}

/* Replicated parameters: every rank has updated its shard, and all gather the rest; or where each
 * rank's gradient is an update, what its own one has left. */
static void
all_gather_params(struct builder *b, uint32_t c)
{
    const struct mw_sizing *s = b->sizing;
    const struct mw_chunk *chunk = &b->chunks[c];

    if (s->params_partitioned || !s->optimizer_partitioned || chunk->ranks == 1)
        return;
    enum mw_op_kind kind =
        mw_settings_asynchronous(&s->settings) ? MW_OP_ALL_TO_ALL : MW_OP_ALL_GATHER;
    build_op(b, LANE_COLLECTIVE,
             mw_work_collective(b, kind, of_updated, mw_build_replicas(b, chunk->ranks),
                                s->element_bytes * chunk->params * chunk->ranks),
             c);
    use_tensors(b, chunk, MW_USE_MODIFY, MW_ROLE_PARAMETER);
}

/* Uses of slots that state and gradients have come to. */
static void
use_incoming(struct builder *b, uint32_t c, uint32_t set, uint32_t in, enum mw_use_mode state_mode)
{
    const struct mw_chunk *chunk = &b->chunks[c];
    bool came_with_state = gradient_tier(b, chunk) == MW_TIER_NVME ||
                           mw_sizing_chunk_moves(b->sizing, chunk).gradient_streams;

    mw_build_use(b, set != MW_NONE ? set : b->state_home + c, state_mode, MW_ROLE_STATE);
    if (in != MW_NONE)
        mw_build_use(b, in, MW_USE_READ, MW_ROLE_SOURCE);
    else if (!came_with_state)
        use_tensors(b, chunk, MW_USE_READ, MW_ROLE_GRADIENT);
}

/* The whole matrices' momentum, of gradients and of what it was, as all ranks have it (arXiv
 * 2502.16982, Algorithm 1).  Returns where it comes to. */
static uint32_t
gather_momentum(struct builder *b, uint32_t c, uint32_t set, uint32_t in, uint32_t norm)
{
    uint32_t slot = mw_build_ring_next(&b->slots[MW_BUFFER_MOMENTUM_GATHERED]);
    struct mw_orthogonal orthogonal;

    mw_sizing_orthogonal(b->sizing, &b->chunks[c], &orthogonal);
    build_op(
        b, LANE_COLLECTIVE,
        mw_work_collective(b, MW_OP_ALL_GATHER, of_state, b->dp_comm, orthogonal.gathered_bytes),
        c);
    mw_build_after(b, norm);
    use_incoming(b, c, set, in, MW_USE_READ);
    mw_build_use(b, slot, MW_USE_DEFINE, MW_ROLE_DESTINATION);
    return slot;
}

/* The update's uses of slots: state, gradients in, parameters out. */
static void
use_chunk(struct builder *b, uint32_t c, uint32_t set, uint32_t in, uint32_t out)
{
    const struct mw_chunk *chunk = &b->chunks[c];

    use_incoming(b, c, set, in, MW_USE_MODIFY);
    if (out != MW_NONE)
        mw_build_use(b, out, MW_USE_DEFINE, MW_ROLE_DESTINATION);
    else
        use_tensors(b, chunk, MW_USE_MODIFY, MW_ROLE_PARAMETER);
}

static void
update_chunk(struct builder *b, uint32_t c, uint32_t norm)
{
    const struct mw_chunk *chunk = &b->chunks[c];
    struct mw_chunk_moves moves = mw_sizing_chunk_moves(b->sizing, chunk);
    bool host = moves.host, delayed = b->sizing->settings.dpu_start != MW_AUTO;
    uint32_t set = chunk->tier == MW_TIER_NVME ? read_state(b, chunk, c) : MW_NONE;
    uint32_t in = bring_gradients(b, chunk, c), at = set;

    if (moves.state_streams) {
        at = stream_state(b, chunk, c, set, in);
        in = MW_NONE;
    }
    uint32_t gathered = mw_sizing_gathers_momentum(b->sizing, chunk)
                            ? gather_momentum(b, c, at, in, norm)
                            : MW_NONE;
    uint32_t out = outgoing_slot(b, c);
    build_op(b, host ? LANE_HOST : LANE_COMPUTE, mw_work_update(b, chunk, host), c);
    mw_build_after(b, norm);
    use_chunk(b, c, at, in, out);
    if (gathered != MW_NONE)
        mw_build_use(b, gathered, MW_USE_READ, MW_ROLE_NONE);
    if (chunk->matrix_params)
        mw_build_use(b, b->slots[MW_BUFFER_ORTHOGONAL].first, MW_USE_DEFINE, MW_ROLE_NONE);
    bool left = chunk->state_bytes > 0; /* by the update, for the next one */
    if (moves.state_streams && left)
        return_state(b, chunk, c, at, set);
    if (set != MW_NONE && left)
        write_state(b, chunk, c, set);
    if (delayed)
        return;
    send_params(b, c, out, MW_NONE);
    all_gather_params(b, c);
}

void
mw_optimizer_step(struct builder *b)
{
    uint32_t norm = check_norm(b), count = b->sizing->chunk_count;
    bool delayed = b->sizing->settings.dpu_start != MW_AUTO;

    if (delayed)
        b->norm_agreed = norm;
    for (uint32_t c = 0; c < count; c++) {
        b->update_ops[c] = b->plan->op_count;
        if (!is_left_out(b, c))
            update_chunk(b, delayed ? count - 1 - c : c, norm);
    }
    b->update_ops[count] = b->plan->op_count;
}

void
mw_optimizer_return(struct builder *b)
{
    uint32_t after = b->sizing->settings.overlap ? MW_NONE : b->lane_last[LANE_COMPUTE];

    for (uint32_t c = b->sizing->chunk_count; c-- > 0;) {
        send_params(b, c, outgoing_slot(b, c), after);
        all_gather_params(b, c);
    }
}

/* --- an update beside backward --------------------------------------------------------------- */

static void
note_final_visits(struct builder *b, uint32_t *of_tensor)
{
    struct part part;

    for (uint32_t t = 0; t < b->sizing->tensor_count; t++)
        of_tensor[t] = MW_NONE;
    for (uint32_t v = 0; v < b->visit_count; v++)
        for (int turn = 0; turn < mw_visit_tensors(b, &b->visits[v]); turn++)
            if (b->visits[v].phase == MW_PHASE_BACKWARD &&
                mw_visit_computes(b, &b->visits[v], turn, &part))
                of_tensor[part.number] = v;
}

void
mw_optimizer_beside_begin(struct builder *b)
{
    uint32_t count = b->sizing->chunk_count;

    if (!mw_settings_update_beside(&b->sizing->settings))
        return;
    g_autofree uint32_t *of_tensor = g_new(uint32_t, b->sizing->tensor_count + 1);
    note_final_visits(b, of_tensor);
    b->chunks_left = count;
    b->final_visit = g_new(uint32_t, count + 1);
    for (uint32_t c = 0; c < count; c++) {
        const struct mw_chunk *chunk = &b->chunks[c];
        b->final_visit[c] = 0;
        for (uint32_t t = chunk->first_tensor; t < chunk->first_tensor + chunk->tensor_count; t++)
            if (of_tensor[t] != MW_NONE && of_tensor[t] > b->final_visit[c])
                b->final_visit[c] = of_tensor[t];
    }
}

/* Whether a part of the chunk's gradients is reduced and not yet added up. */
static bool
waits_for_flush(const struct builder *b, const struct mw_chunk *chunk)
{
    return b->reduced_slot != MW_NONE && b->reduced.number >= chunk->first_tensor &&
           b->reduced.number < chunk->first_tensor + chunk->tensor_count;
}

/* The GPU computes in one order: an update there that waits for state or gradients from elsewhere
 * would hold up backward. */
static bool
holds_up_backward(const struct builder *b, const struct mw_chunk *chunk)
{
    bool all_there = chunk->tier == MW_TIER_GPU && gradient_tier(b, chunk) == MW_TIER_GPU;

    return !mw_sizing_chunk_moves(b->sizing, chunk).host && !all_there;
}

/* Backward comes to the last chunks first. */
static void
update_final(struct builder *b, uint32_t visit)
{
    while (b->chunks_left && b->final_visit[b->chunks_left - 1] < visit &&
           !waits_for_flush(b, &b->chunks[b->chunks_left - 1])) {
        uint32_t c = --b->chunks_left;
        if (!is_left_out(b, c) && !holds_up_backward(b, &b->chunks[c]))
            update_chunk(b, c, MW_NONE);
    }
}

/* Of the chunks that were final one visit ago: an update on the GPU finds their gradients reduced,
 * and the next visit need not wait for it. */
void
mw_optimizer_beside(struct builder *b, uint32_t visit)
{
    if (mw_settings_update_beside(&b->sizing->settings))
        update_final(b, visit);
}

/* The ranks still meet once per step, to agree on whether it was finite. */
void
mw_optimizer_beside_end(struct builder *b)
{
    uint32_t computed = b->lane_last[LANE_COMPUTE];

    update_final(b, MW_NONE);
    for (uint32_t c = b->sizing->chunk_count; c-- > 0;)
        if (!is_left_out(b, c) && holds_up_backward(b, &b->chunks[c]))
            update_chunk(b, c, MW_NONE);
    build_op(b, LANE_COLLECTIVE,
             mw_work_collective(b, MW_OP_AGREE, of_state, b->world_comm, agreed_bytes(b)), 0);
    mw_build_after(b, computed);
}
