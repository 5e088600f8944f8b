/* Ops that move bytes between tiers. */
#include "exec/trainer/internal.h"

static bool
writes_state(const struct mw_trainer *trainer, const struct mw_op *op)
{
    const struct mw_work *work = &trainer->plan->works[op->work];

    return work->kind == MW_OP_NVME_WRITE && work->object == MW_OBJECT_STATE;
}

static GArray *
list_moves(const struct mw_trainer *trainer, const struct mw_op *op)
{
    GArray *moves = g_array_new(FALSE, FALSE, sizeof(struct mw_move));
    enum mw_object object = (enum mw_object)trainer->plan->works[op->work].object;

    if (writes_state(trainer, op) && mw_trainer_keeps_state(trainer)) {
        return moves;
    } else if (object == MW_OBJECT_STATE || object == MW_OBJECT_UPDATED) {
        mw_trainer_list_chunk(trainer, op, moves);
    } else {
        struct mw_move move = mw_trainer_part_move(trainer, op);
        g_array_append_val(moves, move);
    }
    return moves;
}

static const struct mw_move *
moves_of(const GArray *list)
{
    return (const struct mw_move *)(const void *)list->data;
}

/* State that is written has a checksum in the commit's record. */
static void
digest(struct mw_trainer *trainer, const struct mw_op *op)
{
    if (writes_state(trainer, op))
        mw_trainer_digest(trainer, op->shard);
}

bool
mw_trainer_move(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    int turns = mw_trainer_turn_stream(trainer, op);

    if (turns >= 0)
        return mw_trainer_move_in_turn(trainer, op, turns, error);
    g_autoptr(GArray) moves = list_moves(trainer, op);
    digest(trainer, op);
    return mw_storage_move(&trainer->storage, moves_of(moves), moves->len, error);
}

/* --- transfers in flight --------------------------------------------------------------------- */

/* Owners move in turn, and a lane with a rate is held back.  Both need the lane's thread. */
bool
mw_trainer_moves_alone(const struct mw_trainer *trainer, const struct mw_op *op)
{
    const struct mw_plan *plan = trainer->plan;

    return mw_op_traits(plan->works[op->work].kind)->agent == MW_AGENT_DRIVES &&
           mw_trainer_turn_stream(trainer, op) < 0 &&
           trainer->options.lane_bytes_per_s[plan->lanes[op->lane].kind] <= 0;
}

static void
through(void *data, GError *error)
{
    const struct mw_trainer_ticket *ticket = data;

    if (error)
        mw_lanes_fail(ticket->lanes, ticket->op, ticket->step, error);
    else
        mw_lanes_done(ticket->lanes, ticket->op, ticket->step);
}

/* When this returns the drives have the move, and the lane's next op may follow. */
void
mw_trainer_begin_move(struct mw_trainer *trainer, struct mw_lanes *lanes, uint32_t op,
                      uint32_t step)
{
    const struct mw_op it = mw_plan_numbered_op(trainer->plan, op);
    g_autoptr(GArray) moves = list_moves(trainer, &it);
    struct mw_transfers *transfers =
        mw_storage_begin_moves(&trainer->storage, moves_of(moves), moves->len, through,
                               mw_trainer_ticket(trainer, lanes, op, step));

    digest(trainer, &it);
    mw_transfers_let_go(transfers);
}
