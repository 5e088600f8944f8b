/*
 * Keys and values pass around a ring of ranks while attention takes what has come (Liu et al.,
 * arXiv 2310.01889, Sec. 3): one op of a lane of collectives, one or two of the compute lane, which
 * wait for each other block by block.
 *
 * Block 0 is the rank's own, block i has come from i ranks before, in i hops.  It lies in the first
 * room where i is even, in the second where it is odd, and so does its gradient; a hop goes from
 * one room to the other.  So keys may come into a room once attention is through with the block
 * that lies there, and a gradient may go on once attention has added its own part.
 */
#include "base/clock.h"
#include "base/error.h"
#include "exec/trainer/internal.h"

bool
mw_trainer_is_pass(const struct mw_work *work)
{
    return work->kind == MW_OP_RING_PASS && work->object == MW_OBJECT_ACTIVATIONS &&
           mw_operator_row(work->operator_)->attends;
}

/* Keys and values of a rank's tokens. */
static int64_t
block_bytes(const struct mw_trainer *trainer)
{
    return mw_trainer_element_bytes(trainer) * trainer->tokens * 2 *
           mw_decoder_kv(&trainer->plan->shape.decoder);
}

int64_t
mw_trainer_pass_bytes(const struct mw_trainer *trainer, const struct mw_op *op)
{
    int64_t of_each = op->phase == MW_PHASE_BACKWARD ? 2 : 1;

    return of_each * mw_decoder_sharers(&trainer->plan->shape.decoder) * block_bytes(trainer);
}

/* --- waiting for each other ------------------------------------------------------------------ */

/* One more block of a kind has come, or is done. */
static void
count_up(struct mw_trainer *trainer, int64_t *blocks)
{
    struct mw_trainer_ring *ring = &trainer->ring;

    g_mutex_lock(&ring->mutex);
    ++*blocks;
    g_cond_broadcast(&ring->changed);
    g_mutex_unlock(&ring->mutex);
}

static bool
wait_for(struct mw_trainer *trainer, const int64_t *blocks, int64_t count, int64_t *waited_ns,
         GError **error)
{
    struct mw_trainer_ring *ring = &trainer->ring;

    g_mutex_lock(&ring->mutex);
    int64_t began_ns = *blocks < count ? mw_clock_now_ns() : 0;
    while (*blocks < count && !ring->stopped)
        g_cond_wait(&ring->changed, &ring->mutex);
    *waited_ns += began_ns ? mw_clock_now_ns() - began_ns : 0;
    bool good = !ring->stopped;
    g_mutex_unlock(&ring->mutex);
    return good || mw_fail(error, MW_ERROR_DEVICE, "the ring of ranks has stopped");
}

/* Whether attention is through with so many blocks. */
static bool
wait_for_attention(struct mw_trainer *trainer, int64_t count, GError **error)
{
    struct mw_trainer_ring *ring = &trainer->ring;

    return wait_for(trainer, &ring->done, count, &ring->pass_waited_ns, error);
}

int64_t
mw_trainer_ring_waited_ns(const struct mw_trainer *trainer, const struct mw_work *work)
{
    if (mw_trainer_is_pass(work))
        return trainer->ring.pass_waited_ns;
    return work->kind == MW_OP_COMPUTE && mw_operator_row(work->operator_)->attends
               ? trainer->ring.attention_waited_ns
               : 0;
}

void
mw_trainer_stop_ring(struct mw_trainer *trainer)
{
    struct mw_trainer_ring *ring = &trainer->ring;

    g_mutex_lock(&ring->mutex);
    ring->stopped = true;
    g_cond_broadcast(&ring->changed);
    g_mutex_unlock(&ring->mutex);
}

/* By the last op of an attention, which has waited for the others. */
static void
end_ring(struct mw_trainer *trainer)
{
    struct mw_trainer_ring *ring = &trainer->ring;

    g_mutex_lock(&ring->mutex);
    ring->keys = ring->gradients = ring->done = 0;
    g_mutex_unlock(&ring->mutex);
}

/* --- what passes ----------------------------------------------------------------------------- */

static bool
hop(struct mw_trainer *trainer, const struct mw_op *op, void *const rooms[2], int64_t number,
    int64_t *blocks, GError **error)
{
    if (!trainer->collectives->pass(trainer->peers, mw_trainer_stream(trainer, op),
                                    rooms[number % 2], rooms[(number - 1) % 2],
                                    block_bytes(trainer), error))
        return false;
    count_up(trainer, blocks);
    return true;
}

/* Forward, attention is through with block 0 from the beginning, as that lies elsewhere too: what
 * the second hop puts in its room has to wait for nothing, and each later one for the block that
 * came two hops before. */
static bool
pass_forward(struct mw_trainer *trainer, const struct mw_op *op, const struct mw_compute *compute,
             GError **error)
{
    struct mw_trainer_ring *ring = &trainer->ring;
    int64_t ranks = mw_decoder_sharers(compute->decoder);
    bool good = true;

    for (int64_t number = 1; good && number < ranks; number++)
        good = (number <= 2 || wait_for_attention(trainer, number - 1, error)) &&
               hop(trainer, op, compute->shared->ring, number, &ring->keys, error);
    return good;
}

/* A block's gradient goes on once the rank has added its part, a hop behind the block, and comes
 * home in the last hop. */
static bool
pass_backward(struct mw_trainer *trainer, const struct mw_op *op, const struct mw_compute *compute,
              GError **error)
{
    struct mw_trainer_ring *ring = &trainer->ring;
    const struct mw_shared_activations *shared = compute->shared;
    int64_t ranks = mw_decoder_sharers(compute->decoder);
    bool good = true;

    for (int64_t number = 1; good && number <= ranks; number++) {
        if (number < ranks)
            good = hop(trainer, op, shared->ring, number, &ring->keys, error);
        if (good && number > 1)
            good = wait_for_attention(trainer, number, error) &&
                   hop(trainer, op, shared->ring_gradient, number, &ring->gradients, error);
    }
    end_ring(trainer);
    return good;
}

bool
mw_trainer_pass_ring(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    struct mw_compute compute = mw_trainer_bind(trainer, op);

    mw_ring_pack(&compute);
    return op->phase == MW_PHASE_BACKWARD ? pass_backward(trainer, op, &compute, error)
                                          : pass_forward(trainer, op, &compute, error);
}

/* --- attention ------------------------------------------------------------------------------- */

/* The blocks of an op: forward, the last one has an op of its own, which comes behind the pass. */
static struct mw_range
blocks_of(const struct mw_op *op, int64_t ranks)
{
    if (op->phase == MW_PHASE_BACKWARD)
        return (struct mw_range){0, ranks};
    return op->shard ? (struct mw_range){ranks - 1, 1} : (struct mw_range){0, ranks - 1};
}

/* The gradient of block 1 begins here; those of later ones have come. */
static bool
wait_for_block(struct mw_trainer *trainer, const struct mw_op *op, int64_t block, GError **error)
{
    struct mw_trainer_ring *ring = &trainer->ring;
    int64_t *waited_ns = &ring->attention_waited_ns;

    return wait_for(trainer, &ring->keys, block, waited_ns, error) &&
           (op->phase != MW_PHASE_BACKWARD || block < 2 ||
            wait_for(trainer, &ring->gradients, block - 1, waited_ns, error));
}

bool
mw_trainer_attend_ring(struct mw_trainer *trainer, const struct mw_op *op,
                       struct mw_compute *compute, GError **error)
{
    struct mw_range blocks = blocks_of(op, mw_decoder_sharers(compute->decoder));

    for (int64_t i = 0; i < blocks.elements; i++) {
        compute->block = blocks.first + i;
        if (!wait_for_block(trainer, op, compute->block, error) ||
            !trainer->storage.backend->compute(trainer->storage.device, compute, error))
            return false;
        count_up(trainer, &trainer->ring.done);
    }
    if (op->phase != MW_PHASE_BACKWARD && op->shard)
        end_ring(trainer);
    return true;
}
