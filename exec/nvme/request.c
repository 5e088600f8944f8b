#include "base/error.h"
#include "exec/nvme/internal.h"

/* An invalid request is its caller's fault; the tier itself continues. */
static GError *
check_request(const struct mw_nvme *nvme, const struct mw_nvme_request *request)
{
    const int64_t alignment_bytes = nvme->alignment_bytes;
    const int64_t misfit =
        request->offset_bytes | request->bytes | (int64_t)(uintptr_t)request->buffer;

    if (request->offset_bytes < 0 || request->bytes < 0 ||
        request->offset_bytes > nvme->end_bytes - request->bytes)
        return g_error_new(MW_ERROR, MW_ERROR_INVALID,
                           "NVMe request of %" PRId64 " bytes at %" PRId64
                           " leaves the tier's %" PRId64 " bytes",
                           request->bytes, request->offset_bytes, nvme->end_bytes);
    if (misfit & (alignment_bytes - 1))
        return g_error_new(MW_ERROR, MW_ERROR_INVALID,
                           "NVMe request of %" PRId64 " bytes at %" PRId64
                           ", buffer %p: all must be multiples of %" PRId64,
                           request->bytes, request->offset_bytes, (void *)request->buffer,
                           alignment_bytes);
    return NULL;
}

void
mw_nvme_submit(struct mw_nvme *nvme, struct mw_nvme_request *request,
               enum mw_nvme_direction direction, int64_t offset_bytes, int64_t bytes, void *buffer)
{
    request->nvme = nvme;
    request->next = NULL;
    request->buffer = buffer;
    request->offset_bytes = offset_bytes;
    request->bytes = request->left_bytes = bytes;
    request->direction = direction;
    request->in_flight_bytes = 0;
    request->landed = 0;
    request->done = false;
    request->error = check_request(nvme, request);
    const bool takes = !request->error && direction == MW_NVME_WRITE;
    mw_nvme_queue_push(&nvme->queues[direction], request);
    if (takes)
        mw_nvme_sums_take(nvme, offset_bytes, bytes, buffer);
}

bool
mw_nvme_wait(struct mw_nvme_request *request, GError **error)
{
    struct mw_nvme_queue *queue = &request->nvme->queues[request->direction];

    pthread_mutex_lock(&queue->mutex);
    while (!request->done)
        pthread_cond_wait(&queue->done, &queue->mutex);
    GError *reason = request->error;
    request->error = NULL;
    pthread_mutex_unlock(&queue->mutex);
    if (!reason)
        return true;
    g_propagate_error(error, reason);
    return false;
}

bool
mw_nvme_transfer(struct mw_nvme *nvme, enum mw_nvme_direction direction, int64_t offset_bytes,
                 int64_t bytes, void *buffer, GError **error)
{
    struct mw_nvme_request request = {0};

    mw_nvme_submit(nvme, &request, direction, offset_bytes, bytes, buffer);
    return mw_nvme_wait(&request, error);
}
