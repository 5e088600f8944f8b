#include <errno.h>

#include "exec/nvme/internal.h"

/* The part of a transfer that counts: direct I/O can continue only at an aligned place. */
static int64_t
usable_bytes(const struct mw_nvme_queue *queue, const struct mw_nvme_block *block, int64_t moved)
{
    const struct mw_nvme_file *file = &queue->nvme->files[block->drive];

    if (moved == block->bytes || !file->direct)
        return moved;
    return moved - moved % file->alignment_bytes;
}

static const char *
why_nothing(enum mw_nvme_direction direction)
{
    return direction == MW_NVME_READ ? "the file ends there: it was cut off during the run"
                                     : "the drive takes no more";
}

/* A signal or a lack of memory in the kernel is no failure of the drive, so it is asked again for a
 * while. */
static bool
may_pass(struct mw_nvme_queue *queue, struct mw_nvme_block *block, int64_t result)
{
    const int64_t now_ns = g_get_monotonic_time() * 1000;

    if (result != -EINTR && result != -EAGAIN)
        return false;
    if (!block->refused_ns)
        block->refused_ns = now_ns;
    if (now_ns - block->refused_ns > MW_NVME_STALL_LIMIT_NS)
        return false;
    queue->pauses = true;
    mw_nvme_block_make_ready(queue, block);
    return true;
}

static void
end_block(struct mw_nvme_queue *queue, struct mw_nvme_block *block, const char *reason)
{
    if (reason)
        mw_nvme_block_fail(queue, block, reason);
    mw_nvme_block_leave(queue, block);
    mw_nvme_block_free(queue, block);
}

static bool
checks(const struct mw_nvme_queue *queue)
{
    return queue->direction == MW_NVME_READ && queue->nvme->sums;
}

/* Checks a block that has fully arrived; fails its request if it is not what was written last. */
static void
check(struct mw_nvme_queue *queue, const struct mw_nvme_block *block)
{
    const struct mw_nvme *nvme = queue->nvme;
    struct mw_nvme_block bad = *block;
    int64_t begin = mw_nvme_sums_agree(nvme, block->logical_bytes, block->whole_bytes,
                                       block->buffer - block->whole_bytes, &bad.bytes);

    if (begin < 0)
        return;
    bad.drive_bytes += begin - block->whole_bytes;
    g_autofree char *whose =
        nvme->whose ? nvme->whose(nvme->whose_data, block->logical_bytes + begin, bad.bytes) : NULL;
    g_autofree char *reason = g_strdup_printf(
        "%s%snot what was written there last: flipped bits, or a stale or misplaced "
        "page",
        whose ? whose : "", whose ? ": " : "");
    mw_nvme_block_fail(queue, &bad, reason);
}

/* Gives the drive its next block before this one is checked. */
static void
land(struct mw_nvme_queue *queue, struct mw_nvme_block *block)
{
    mw_nvme_block_leave(queue, block);
    block->request->landed++;
    block->next = NULL;
    *queue->landed_tail = block;
    queue->landed_tail = &block->next;
}

void
mw_nvme_check_landed(struct mw_nvme_queue *queue)
{
    struct mw_nvme_block *block = queue->landed;

    queue->landed = block->next;
    if (!queue->landed)
        queue->landed_tail = &queue->landed;
    if (!block->request->error)
        check(queue, block);
    block->request->landed--;
    mw_nvme_block_free(queue, block);
}

/* Continues a short transfer where it stopped, in its block's place in the queue. */
static void
take_event(struct mw_nvme_queue *queue, const struct io_event *event)
{
    struct mw_nvme_block *block = event->data;
    struct mw_nvme_request *request = block->request;
    const int64_t result = (int64_t)event->res;

    queue->submitted--;
    if (may_pass(queue, block, result))
        return;
    if (result < 0 || result > block->bytes) {
        end_block(queue, block,
                  result < 0 ? g_strerror((int)-result) : "moved more bytes than were asked for");
        return;
    }
    const int64_t bytes = usable_bytes(queue, block, result);
    atomic_fetch_add(&queue->moved_bytes, bytes);
    block->refused_ns = 0;
    block->drive_bytes += bytes;
    block->buffer += bytes;
    block->bytes -= bytes;
    request->left_bytes -= bytes;
    request->in_flight_bytes -= bytes;
    if (!block->bytes && !request->error && checks(queue))
        land(queue, block);
    else if (!block->bytes || request->error)
        end_block(queue, block, NULL);
    else if (!bytes)
        end_block(queue, block, why_nothing(queue->direction));
    else
        mw_nvme_block_make_ready(queue, block);
}

/* Called when completions are no longer available.  io_destroy waits until no transfer touches a
 * buffer. */
static void
give_up(struct mw_nvme_queue *queue, int reason)
{
    g_autofree bool *is_free = g_new0(bool, queue->block_count);

    io_destroy(queue->context);
    queue->context = NULL;
    for (struct mw_nvme_block *block = queue->free; block; block = block->next)
        is_free[block - queue->blocks] = true;
    for (struct mw_nvme_block *block = queue->landed; block; block = block->next)
        is_free[block - queue->blocks] = true; /* the drives have finished with it */
    for (int i = 0; i < queue->block_count; i++)
        if (!is_free[i])
            end_block(queue, &queue->blocks[i], g_strerror(reason));
    queue->submitted = queue->ready_count = 0;
}

/* The rings for all completions so far have been read, so completions are taken until none is
 * left. */
void
mw_nvme_reap(struct mw_nvme_queue *queue)
{
    const struct mw_nvme_calls *calls = queue->nvme->calls;

    while (queue->submitted) {
        int count =
            calls->get_events(calls->data, queue->context, queue->block_count, queue->events);

        if (count == -EINTR)
            continue;
        if (count < 0)
            give_up(queue, -count);
        for (int i = 0; i < count; i++)
            take_event(queue, &queue->events[i]);
        if (count <= 0)
            return;
    }
}
