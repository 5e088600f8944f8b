/* Ops that a device orders by itself.  They are queued in the stream of their lane, after their
 * dependencies, without a wait of the host in between. */
#include "exec/trainer/internal.h"

/* --- which ops ------------------------------------------------------------------------------- */

bool
mw_trainer_uses_tiers(const struct mw_plan *plan, const struct mw_op *op, enum mw_tier read,
                      enum mw_tier written)
{
    for (uint32_t i = 0; i < op->use_count; i++) {
        struct mw_use use = mw_plan_op_use(plan, op, i);
        if (plan->slots[use.slot].tier != (use.mode == MW_USE_READ ? read : written))
            return false;
    }
    return true;
}

/* Whether the device does all of the op's work, and the host none of it, as it would for owners'
 * turns. */
static bool
is_devices(const struct mw_trainer *trainer, const struct mw_op *op)
{
    const struct mw_plan *plan = trainer->plan;

    if (mw_trainer_turn_stream(trainer, op) >= 0)
        return false;
    const struct mw_work *work = &plan->works[op->work];
    switch (mw_op_traits(work->kind)->agent) {
    case MW_AGENT_CORES:
        return !work->host && mw_trainer_uses_tiers(plan, op, MW_TIER_GPU, MW_TIER_GPU);
    case MW_AGENT_LINK:
        return work->kind == MW_OP_H2D ? mw_trainer_uses_tiers(plan, op, MW_TIER_CPU, MW_TIER_GPU)
                                       : mw_trainer_uses_tiers(plan, op, MW_TIER_GPU, MW_TIER_CPU);
    case MW_AGENT_NETWORK:
        return trainer->storage.backend->join && mw_trainer_collects_on_device(plan, op);
    case MW_AGENT_DRIVES:
    case MW_AGENT_NOBODY:
        break;
    }
    return false;
}

/* The thread of a lane with a rate holds it back.  All rounds of an op use the same tiers. */
void
mw_trainer_map_queues(struct mw_trainer *trainer)
{
    const struct mw_plan *plan = trainer->plan;
    struct mw_trainer_variant *it = trainer->variant;

    it->queued = g_new0(bool, plan->op_count + 1);
    it->tickets = g_new0(struct mw_trainer_ticket, 2 * (size_t)mw_plan_unfolded_ops(plan) + 1);
    for (uint32_t i = 0; trainer->storage.backend->begin && i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        enum mw_lane_kind lane = plan->lanes[op->lane].kind;
        it->queued[i] = op->lane < MW_BACKEND_QUEUES_MAX && is_devices(trainer, op) &&
                        trainer->options.lane_bytes_per_s[lane] <= 0;
        if (it->queued[i] && lane == MW_LANE_COLLECTIVE && trainer->storage.backend->hurry)
            trainer->storage.backend->hurry(trainer->storage.device, (int)op->lane);
    }
}

static bool
is_queued(const struct mw_trainer *trainer, uint32_t number)
{
    struct mw_op_place place;

    return mw_plan_find_number(trainer->plan, number, &place) && trainer->variant->queued[place.op];
}

bool
mw_trainer_queues(void *context, uint32_t op)
{
    return is_queued(context, op);
}

/* --- queueing -------------------------------------------------------------------------------- */

static uint32_t
ticket_of(const struct mw_trainer *trainer, uint32_t op, uint32_t step)
{
    return step % 2 * (uint32_t)mw_plan_unfolded_ops(trainer->plan) + op;
}

struct mw_trainer_ticket *
mw_trainer_ticket(struct mw_trainer *trainer, struct mw_lanes *lanes, uint32_t op, uint32_t step)
{
    struct mw_trainer_ticket *ticket = &trainer->variant->tickets[ticket_of(trainer, op, step)];

    *ticket = (struct mw_trainer_ticket){lanes, op, step};
    return ticket;
}

/* Tickets of the dependencies that are queued too; the other dependencies are done. */
static GArray *
list_after(const struct mw_trainer *trainer, const struct mw_op *op, uint32_t step)
{
    GArray *after = g_array_new(FALSE, FALSE, sizeof(uint32_t));

    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = mw_plan_op_dep(trainer->plan, op, i);
        uint32_t back = dep & MW_DEP_PREVIOUS_STEP ? 1 : 0;
        uint32_t ticket = ticket_of(trainer, MW_DEP_INDEX(dep), step - back);
        if (step >= back && is_queued(trainer, MW_DEP_INDEX(dep)))
            g_array_append_val(after, ticket);
    }
    return after;
}

static void
ran(void *data, int64_t start_ns, int64_t end_ns, GError *error)
{
    const struct mw_trainer_ticket *ticket = data;

    if (error)
        mw_lanes_fail(ticket->lanes, ticket->op, ticket->step, error);
    else
        mw_lanes_done_at(ticket->lanes, ticket->op, ticket->step, start_ns, end_ns);
}

enum mw_exec_outcome
mw_trainer_queue(struct mw_trainer *trainer, struct mw_lanes *lanes, uint32_t op, uint32_t step,
                 mw_trainer_perform perform, GError **error)
{
    const struct mw_storage *storage = &trainer->storage;
    const struct mw_op it = mw_plan_numbered_op(trainer->plan, op);
    uint32_t number = ticket_of(trainer, op, step);
    struct mw_trainer_ticket *ticket = mw_trainer_ticket(trainer, lanes, op, step);
    g_autoptr(GArray) after = list_after(trainer, &it, step);

    if (!storage->backend->begin(storage->device, (int)it.lane, number,
                                 (const uint32_t *)(void *)after->data, (int)after->len, error))
        return MW_EXEC_FAILED;
    if (!perform(trainer, &it, step, error)) {
        storage->backend->end(storage->device, NULL, NULL, NULL);
        return MW_EXEC_FAILED;
    }
    return storage->backend->end(storage->device, ran, ticket, error) ? MW_EXEC_QUEUED
                                                                      : MW_EXEC_FAILED;
}
