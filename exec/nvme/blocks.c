#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "exec/nvme/internal.h"

void
mw_nvme_block_leave(struct mw_nvme_queue *queue, const struct mw_nvme_block *block)
{
    block->request->in_flight_bytes -= block->bytes;
    queue->cursors[block->drive].in_flight--;
}

void
mw_nvme_block_free(struct mw_nvme_queue *queue, struct mw_nvme_block *block)
{
    block->next = queue->free;
    queue->free = block;
}

void
mw_nvme_block_fail(struct mw_nvme_queue *queue, const struct mw_nvme_block *block,
                   const char *reason)
{
    struct mw_nvme_request *request = block->request;
    g_autofree char *message = g_strdup_printf("%s: %s of %" PRId64 " bytes at %" PRId64 ": %s",
                                               queue->nvme->files[block->drive].path,
                                               queue->direction == MW_NVME_READ ? "read" : "write",
                                               block->bytes, block->drive_bytes, reason);

    if (!request->error)
        request->error = g_error_new_literal(MW_ERROR, MW_ERROR_IO, message);
    if (queue->direction == MW_NVME_WRITE && !atomic_load(&queue->nvme->failed))
        atomic_store(&queue->nvme->failed_to_write, true);
    mw_nvme_fail(queue->nvme, message);
}

/* After a failure, requests that still need the drives will not get them. */
static void
fail_unfinished(struct mw_nvme_queue *queue)
{
    for (struct mw_nvme_request *request = queue->active; request; request = request->next)
        if (!request->error && request->left_bytes > request->in_flight_bytes)
            request->error = mw_nvme_failure(queue->nvme);
}

static bool
next_piece(struct mw_nvme_queue *queue, int drive, struct mw_nvme_piece *piece)
{
    struct mw_nvme_cursor *cursor = &queue->cursors[drive];

    while (cursor->request) {
        struct mw_nvme_request *request = cursor->request;

        if (!request->error &&
            mw_nvme_stripe_next(&queue->nvme->layout, drive, cursor->logical_bytes,
                                request->offset_bytes + request->bytes, piece)) {
            cursor->logical_bytes = piece->logical_bytes + piece->bytes;
            return true;
        }
        cursor->request = request->next;
        cursor->logical_bytes = request->next ? request->next->offset_bytes : 0;
    }
    return false;
}

static bool
fill_one(struct mw_nvme_queue *queue, int drive)
{
    struct mw_nvme_cursor *cursor = &queue->cursors[drive];
    struct mw_nvme_block *block = queue->free;
    struct mw_nvme_piece piece;

    if (!block || cursor->in_flight == queue->nvme->depth || !next_piece(queue, drive, &piece))
        return false;
    struct mw_nvme_request *request = cursor->request;
    queue->free = block->next;
    block->request = request;
    block->drive = drive;
    block->drive_bytes = piece.drive_bytes;
    block->bytes = piece.bytes;
    block->refused_ns = 0;
    block->buffer = request->buffer + (piece.logical_bytes - request->offset_bytes);
    block->logical_bytes = piece.logical_bytes;
    block->whole_bytes = piece.bytes;
    request->in_flight_bytes += piece.bytes;
    cursor->in_flight++;
    mw_nvme_block_make_ready(queue, block);
    return true;
}

void
mw_nvme_block_make_ready(struct mw_nvme_queue *queue, struct mw_nvme_block *block)
{
    const int fd = queue->nvme->files[block->drive].fd;

    if (queue->direction == MW_NVME_READ)
        io_prep_pread(&block->iocb, fd, block->buffer, (size_t)block->bytes, block->drive_bytes);
    else
        io_prep_pwrite(&block->iocb, fd, block->buffer, (size_t)block->bytes, block->drive_bytes);
    io_set_eventfd(&block->iocb, queue->wake_fd);
    block->iocb.data = block;
    queue->ready[queue->ready_count++] = &block->iocb;
}

/* Prepares one block per drive in turn, so that no drive waits until another's whole depth is
 * submitted. */
void
mw_nvme_prepare_blocks(struct mw_nvme_queue *queue)
{
    if (atomic_load(&queue->nvme->failed)) {
        fail_unfinished(queue);
        return;
    }
    for (bool filled = true; filled;) {
        filled = false;
        for (int drive = 0; drive < queue->nvme->layout.drives; drive++)
            filled |= fill_one(queue, drive);
    }
}

static void
drop_ready(struct mw_nvme_queue *queue, int count)
{
    queue->ready_count -= count;
    memmove(queue->ready, queue->ready + count, (size_t)queue->ready_count * sizeof *queue->ready);
}

static void
refuse_first(struct mw_nvme_queue *queue, int reason)
{
    struct mw_nvme_block *block = queue->ready[0]->data;

    mw_nvme_block_fail(queue, block, g_strerror(reason));
    mw_nvme_block_leave(queue, block);
    mw_nvme_block_free(queue, block);
    drop_ready(queue, 1);
}

/* Transfers in flight make room when they complete.  Without any, only time can help. */
static void
stall(struct mw_nvme_queue *queue)
{
    const int64_t now_ns = g_get_monotonic_time() * 1000;

    if (queue->submitted)
        return;
    if (!queue->stalled_ns)
        queue->stalled_ns = now_ns;
    while (queue->ready_count && now_ns - queue->stalled_ns > MW_NVME_STALL_LIMIT_NS)
        refuse_first(queue, EAGAIN);
}

void
mw_nvme_hand_over(struct mw_nvme_queue *queue)
{
    const struct mw_nvme_calls *calls = queue->nvme->calls;

    while (queue->ready_count) {
        int taken = calls->submit(calls->data, queue->context, queue->ready_count, queue->ready);

        if (taken > 0) {
            queue->submitted += taken;
            queue->stalled_ns = 0;
            drop_ready(queue, taken);
        } else if (taken == 0 || taken == -EAGAIN) {
            stall(queue);
            return;
        } else if (taken != -EINTR) {
            refuse_first(queue, -taken);
        }
    }
    if (atomic_load(&queue->nvme->failed))
        fail_unfinished(queue);
}
