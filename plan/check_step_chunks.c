/* The optimizer step: each chunk's gradients and state come in, are updated, and go home, each by
 * the ops that the tiers of its homes ask for. */
#include <stdlib.h>

#include "plan/check_step.h"
#include "plan/internal.h"
#include "plan/optimizers.h"

enum deed {
    NORM,
    STATE_READ,
    STATE_DOWN, /* gradients; where the state streams, the state that was updated */
    STATE_UP,   /* gradients; where the state streams, it and with it gradients */
    UPDATE,
    STATE_WRITE,
    UPDATED_DOWN,
    UPDATED_UP,
    UPDATED_WRITE,
    UPDATED_GATHER, /* or of several updates each rank's, where a step is asynchronous */
    STATE_GATHER,
    DEEDS,
};
#define BIT(deed) (1u << (deed))

static const char *const names[DEEDS] = {"the norm of its gradients",
                                         "its read from drives",
                                         "its gradients' way to the host",
                                         "its gradients' way to the GPU",
                                         "its update",
                                         "its write to drives",
                                         "its parameters' way to the host",
                                         "its parameters' way to the GPU",
                                         "its parameters' write to drives",
                                         "the gathering of its parameters",
                                         "the gathering of its momentum"};

static enum deed
deed_of(const struct mw_plan *plan, const struct mw_work *work)
{
    bool state = work->object == MW_OBJECT_STATE;

    switch (work->kind) {
    case MW_OP_NORM:
        return state ? NORM : DEEDS;
    case MW_OP_UPDATE:
        return state ? UPDATE : DEEDS;
    case MW_OP_NVME_READ:
        return state ? STATE_READ : DEEDS;
    case MW_OP_D2H:
        return state ? STATE_DOWN : UPDATED_DOWN;
    case MW_OP_H2D:
        return state ? STATE_UP : UPDATED_UP;
    case MW_OP_NVME_WRITE:
        return state ? STATE_WRITE : UPDATED_WRITE;
    case MW_OP_ALL_GATHER:
        return state ? STATE_GATHER : plan->shape.asynchronous ? DEEDS : UPDATED_GATHER;
    case MW_OP_ALL_TO_ALL:
        return !state && plan->shape.asynchronous ? UPDATED_GATHER : DEEDS;
    default:
        return DEEDS;
    }
}

/* --- what a chunk takes ---------------------------------------------------------------------- */

struct look {
    struct mw_step_check *check;
    uint32_t index, c;
    const struct mw_chunk_content *chunk;
    enum mw_tier state, gradient, param;
    bool streams; /* its state rests off the GPU, and is updated there */
    uint32_t all; /* deeds */
    bool gathers; /* the momentum of matrices, if it has some */
};

static uint32_t
if_so(bool is, enum deed deed)
{
    return is ? BIT(deed) : 0;
}

static struct look
look_at(struct mw_step_check *check, uint32_t c)
{
    const struct mw_chunk_content *chunk = &check->plan->chunks[c];
    const struct mw_tensor *first = &check->plan->tensors[chunk->first_tensor];
    struct look it = {.check = check,
                      .c = c,
                      .chunk = chunk,
                      .state = mw_step_tier(check, chunk->slot),
                      .gradient = mw_step_tier(check, first->gradient_slot),
                      .param = mw_step_tier(check, first->param_slot)};
    bool off = it.state != MW_TIER_GPU, drives = it.state == MW_TIER_NVME;
    it.streams = off && check->plan->shape.updates_on_gpu;
    bool host = off && !it.streams;
    bool down = it.param != MW_TIER_GPU && !host;

    bool left = check->plan->slots[chunk->slot].size_bytes > 0; /* state, by the update */
    bool replicas = mw_step_replicas(check, first) > 1;

    it.gathers = mw_optimizer_orthogonalizes(check->plan->shape.optimizer) && !first->state_whole &&
                 replicas;
    it.all = BIT(UPDATE) |
             if_so(it.gradient != MW_TIER_NVME && !check->plan->shape.updates_beside, NORM) |
             if_so(drives || it.gradient == MW_TIER_NVME, STATE_READ) |
             if_so(it.streams ? left : it.gradient == MW_TIER_GPU && host, STATE_DOWN) |
             if_so(it.streams || (it.gradient != MW_TIER_GPU && !host), STATE_UP) |
             if_so(drives && left, STATE_WRITE) | if_so(down, UPDATED_DOWN) |
             if_so(it.param == MW_TIER_NVME, UPDATED_WRITE) |
             if_so(it.param == MW_TIER_GPU && host, UPDATED_UP) |
             if_so(first->params_whole && !first->state_whole && replicas, UPDATED_GATHER);
    return it;
}

/* --- what its ops use ------------------------------------------------------------------------ */

static bool
uses_slot(const struct look *it, uint32_t slot, enum mw_role role)
{
    const struct mw_op *op = &it->check->plan->ops[it->index];

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if (it->check->plan->uses[u].slot == slot && it->check->plan->uses[u].role == role)
            return true;
    return false;
}

/* The homes of all tensors that the chunk runs through. */
static bool
uses_homes(const struct look *it, enum mw_role role)
{
    for (uint32_t i = 0; i < it->chunk->tensor_count; i++) {
        const struct mw_tensor *tensor = &it->check->plan->tensors[it->chunk->first_tensor + i];
        uint32_t home = role == MW_ROLE_GRADIENT ? tensor->gradient_slot : tensor->param_slot;
        if (tensor->elements && tensor->trainable && !uses_slot(it, home, role))
            return false;
    }
    return true;
}

/* Whether a slot holds what the chunk's op of this kind has put there. */
static bool
holds(const struct look *it, uint32_t slot, enum deed deed)
{
    uint32_t by = slot == MW_NONE ? MW_NONE : it->check->slots[slot].writer;
    const struct mw_work *work = by == MW_NONE ? NULL : mw_step_work(it->check, by);

    return work && (work->object == MW_OBJECT_STATE || work->object == MW_OBJECT_UPDATED) &&
           deed_of(it->check->plan, work) == deed &&
           it->check->first_chunk + it->check->plan->ops[by].shard == it->c;
}

static uint32_t
slot_of(const struct look *it, enum mw_role role)
{
    return mw_step_slot(it->check, it->index, role);
}

static bool
takes(const struct look *it, enum deed deed)
{
    return it->all >> deed & 1;
}

/* The gradients, from where the last op before has left them, or from home. */
static bool
updates_with(const struct look *it)
{
    uint32_t from = slot_of(it, MW_ROLE_SOURCE);

    if (it->streams) /* or they came with the state */
        return from == MW_NONE &&
               (it->gradient == MW_TIER_GPU ? uses_homes(it, MW_ROLE_GRADIENT)
                                            : slot_of(it, MW_ROLE_GRADIENT) == MW_NONE);
    if (takes(it, STATE_UP))
        return holds(it, from, STATE_UP);
    if (takes(it, STATE_DOWN))
        return holds(it, from, STATE_DOWN);
    if (it->gradient != MW_TIER_NVME)
        return from == MW_NONE && uses_homes(it, MW_ROLE_GRADIENT);
    if (it->state == MW_TIER_NVME) /* they came with the state */
        return from == MW_NONE && slot_of(it, MW_ROLE_GRADIENT) == MW_NONE;
    return holds(it, from, STATE_READ);
}

static bool
has_state(const struct look *it)
{
    uint32_t state = slot_of(it, MW_ROLE_STATE);

    return it->streams                 ? holds(it, state, STATE_UP)
           : it->state == MW_TIER_NVME ? holds(it, state, STATE_READ)
                                       : state == it->chunk->slot;
}

static bool
updates(const struct look *it)
{
    uint32_t to = slot_of(it, MW_ROLE_DESTINATION);
    bool leaves = it->all & (BIT(UPDATED_DOWN) | BIT(UPDATED_UP) | BIT(UPDATED_WRITE));

    return has_state(it) && updates_with(it) &&
           (leaves ? to != MW_NONE && slot_of(it, MW_ROLE_PARAMETER) == MW_NONE
                   : to == MW_NONE && uses_homes(it, MW_ROLE_PARAMETER));
}

static bool
reads_state(const struct look *it)
{
    bool drives = it->state == MW_TIER_NVME;

    return (drives ? slot_of(it, MW_ROLE_STATE) == it->chunk->slot
                   : slot_of(it, MW_ROLE_STATE) == MW_NONE) &&
           (it->gradient == MW_TIER_NVME ? uses_homes(it, MW_ROLE_GRADIENT)
                                         : slot_of(it, MW_ROLE_GRADIENT) == MW_NONE);
}

static bool
writes_state(const struct look *it)
{
    uint32_t home = it->chunk->other_slot != MW_NONE ? it->chunk->other_slot : it->chunk->slot;

    return holds(it, slot_of(it, MW_ROLE_SOURCE), it->streams ? STATE_DOWN : UPDATE) &&
           slot_of(it, MW_ROLE_STATE) == home;
}

/* State from home or from the drives' buffer, and with it the gradients that are off the GPU. */
static bool
streams_up(const struct look *it)
{
    bool drives = it->state == MW_TIER_NVME, read = takes(it, STATE_READ);
    uint32_t from = slot_of(it, MW_ROLE_SOURCE), state = slot_of(it, MW_ROLE_STATE);

    return slot_of(it, MW_ROLE_DESTINATION) != MW_NONE &&
           (read ? holds(it, from, STATE_READ) : from == MW_NONE) &&
           state == (drives ? MW_NONE : it->chunk->slot) &&
           (it->gradient == MW_TIER_CPU ? uses_homes(it, MW_ROLE_GRADIENT)
                                        : slot_of(it, MW_ROLE_GRADIENT) == MW_NONE);
}

static bool
streams_down(const struct look *it)
{
    bool drives = it->state == MW_TIER_NVME;
    uint32_t to = slot_of(it, MW_ROLE_DESTINATION);

    return holds(it, slot_of(it, MW_ROLE_SOURCE), UPDATE) && (to != MW_NONE) == drives &&
           slot_of(it, MW_ROLE_STATE) == (drives ? MW_NONE : it->chunk->slot);
}

/* From one buffer to the next, or to the homes. */
static bool
leaves(const struct look *it, enum deed before, bool arrives)
{
    uint32_t to = slot_of(it, MW_ROLE_DESTINATION);

    return holds(it, slot_of(it, MW_ROLE_SOURCE), before) &&
           (arrives ? to == MW_NONE && uses_homes(it, MW_ROLE_PARAMETER) : to != MW_NONE);
}

static bool
does(const struct look *it, enum deed deed)
{
    switch (deed) {
    case NORM:
        return uses_homes(it, MW_ROLE_GRADIENT);
    case STATE_READ:
        return reads_state(it);
    case STATE_DOWN:
        return it->streams ? streams_down(it) : uses_homes(it, MW_ROLE_GRADIENT);
    case STATE_UP:
        if (it->streams)
            return streams_up(it);
        return takes(it, STATE_READ) ? holds(it, slot_of(it, MW_ROLE_SOURCE), STATE_READ)
                                     : uses_homes(it, MW_ROLE_GRADIENT);
    case UPDATE:
        return updates(it);
    case STATE_WRITE:
        return writes_state(it);
    case UPDATED_DOWN:
        return leaves(it, UPDATE, !takes(it, UPDATED_WRITE));
    case UPDATED_UP:
        return leaves(it, UPDATE, true);
    case UPDATED_WRITE:
        return leaves(it, takes(it, UPDATED_DOWN) ? UPDATED_DOWN : UPDATE, true);
    case UPDATED_GATHER:
        return mw_step_meets_replicas(it->check, it->index,
                                      &it->check->plan->tensors[it->chunk->first_tensor]) &&
               uses_homes(it, MW_ROLE_PARAMETER);
    case STATE_GATHER:
        return has_state(it) && updates_with(it);
    default:
        return false;
    }
}

/* --- its ops --------------------------------------------------------------------------------- */

static bool
refuse(const struct look *it, const char *what)
{
    return mw_plan_refuse(&it->check->base, "%s: %s", mw_step_label(it->check, it->index).text,
                          what);
}

/* The rest of the order follows from what ops find in slots. */
static bool
is_gathered_early(const struct look *it, enum deed deed)
{
    uint32_t updated = it->all & (BIT(UPDATE) | BIT(UPDATED_UP));

    return deed == UPDATED_GATHER && (it->check->chunk_done[it->c] & updated) != updated;
}

/* Products of an update are of whole matrices, of which each rank has a part. */
static bool
lacks_momentum(const struct look *it, enum deed deed, const struct mw_work *work)
{
    return deed == UPDATE && work->product_count && it->gathers &&
           !(it->check->chunk_done[it->c] & BIT(STATE_GATHER));
}

bool
mw_step_check_chunk_op(struct mw_step_check *check, uint32_t op)
{
    uint32_t shard = check->plan->ops[op].shard, c = check->first_chunk + shard;
    const struct mw_work *work = mw_step_work(check, op);
    enum deed deed = deed_of(check->plan, work);

    if (check->plan->ops[op].phase != MW_PHASE_OPTIMIZER || shard >= check->chunk_count)
        return mw_plan_refuse(&check->base, "%s: is of no chunk of its program",
                              mw_step_label(check, op).text);
    struct look it = look_at(check, c);
    it.index = op;
    if (deed == DEEDS || !(takes(&it, deed) || (deed == STATE_GATHER && it.gathers)))
        return refuse(&it, "is nothing that its chunk needs");
    if (check->chunk_done[c] >> deed & 1)
        return refuse(&it, "comes twice");
    if (is_gathered_early(&it, deed))
        return refuse(&it, "gathers parameters that are not updated yet");
    if (lacks_momentum(&it, deed, work))
        return refuse(&it, "makes matrices orthogonal whose momentum is not gathered");
    if ((deed == NORM || deed == UPDATE) && work->elements != it.chunk->elements)
        return refuse(&it, "is not of all elements of its chunk");
    if (!does(&it, deed))
        return refuse(&it, "does not take what its chunk needs, or not from where that is");
    check->chunk_done[c] |= BIT(deed);
    return true;
}

static const char *
name_of(struct mw_step_check *check, uint32_t c, int deed)
{
    if (!look_at(check, c).streams || (deed != STATE_UP && deed != STATE_DOWN))
        return names[deed];
    return deed == STATE_UP ? "its state's way to the GPU" : "its state's way back from the GPU";
}

/* Its tensors that are trained are of layers that are left out, all or none. */
static bool
find_left_out(struct mw_step_check *check, uint32_t c, bool *left_out)
{
    const struct mw_chunk_content *chunk = &check->plan->chunks[c];
    bool out = false, in = false;

    for (uint32_t i = 0; i < chunk->tensor_count; i++) {
        const struct mw_tensor *tensor = &check->plan->tensors[chunk->first_tensor + i];
        bool has = tensor->trainable && tensor->elements;
        out |= has && mw_step_drops(check, tensor->layer);
        in |= has && !mw_step_drops(check, tensor->layer);
    }
    *left_out = out;
    return !(in && out) ||
           mw_plan_refuse(&check->base, "chunk %u: only some of its layers are left out", c);
}

bool
mw_step_check_chunks(struct mw_step_check *check)
{
    for (uint32_t c = check->first_chunk; c < check->first_chunk + check->chunk_count; c++) {
        bool left_out;
        if (!find_left_out(check, c, &left_out))
            return false;
        uint32_t all = left_out ? 0 : look_at(check, c).all, done = check->chunk_done[c];
        for (int deed = 0; deed < DEEDS; deed++)
            if (deed != STATE_GATHER && (all ^ done) >> deed & 1)
                return mw_plan_refuse(&check->base, "chunk %u: %s %s", c, name_of(check, c, deed),
                                      left_out ? "is there, and its layer is left out"
                                               : "is not in the step");
    }
    return true;
}
