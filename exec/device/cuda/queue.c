#include "exec/device/cuda/queue.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "base/error.h"
#include "exec/device/cuda/clock.h"
#include "exec/host/thread.h"

/* Ops of a queue in flight at once.  The driver holds a bounded number of commands per stream (some
 * 1,024 launches, waits and records).  Beyond that, a call that queues more holds the driver's lock
 * until there is room, and the thread that would make room may need that lock.  No op queues more
 * than 32 commands. */
#define OPS_AT_ONCE 32

/* A queued op, handed to the thread that waits for it. */
struct queued {
    cudaEvent_t start, end;
    struct mw_cuda_mark *mark; /* before its start */
    const char *call;          /* that waits for other ranks; NULL */
    mw_backend_done done;
    void *data;
};

struct queue {
    struct mw_cuda_queues *all;
    cudaStream_t stream;
    GThread *watcher;
    GQueue ops;          /* struct queued, in the order of the stream */
    const char *awaited; /* the call of the one before them; NULL */
    int begun;           /* ops that have begun and are not done */
    bool urgent;         /* the kind that its stream will be of */
};

struct ticket {
    cudaEvent_t start, end;
};

struct mw_cuda_queues {
    const struct mw_cuda_gpu *gpu;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* an op is queued, or done, or it is all over */
    struct queue queues[MW_BACKEND_QUEUES_MAX];
    GArray *tickets; /* struct ticket; those that were used have events */
    struct mw_cuda_clock *clock;
    bool over;
    char *why; /* why everything has failed; NULL: it has not */
};

/* What this thread is queueing. */
static _Thread_local struct {
    struct queue *queue; /* NULL: nothing */
    struct ticket ticket;
    struct mw_cuda_mark *mark;
    const char *call;
} current;

void *
mw_cuda_stream(void)
{
    return current.queue ? current.queue->stream : cudaStreamPerThread;
}

bool
mw_cuda_wait(const struct mw_cuda_gpu *gpu, GError **error)
{
    return current.queue || mw_cuda_check(gpu, cudaStreamSynchronize(cudaStreamPerThread),
                                          "cudaStreamSynchronize", error);
}

void
mw_cuda_queues_hurry(struct mw_cuda_queues *queues, int index)
{
    queues->queues[index].urgent = true;
}

/* --- failure of all -------------------------------------------------------------------------- */

void
mw_cuda_queues_fail(struct mw_cuda_queues *queues, const char *why)
{
    pthread_mutex_lock(&queues->mutex);
    if (!queues->why)
        queues->why = g_strdup(why);
    pthread_cond_broadcast(&queues->changed);
    pthread_mutex_unlock(&queues->mutex);
}

void
mw_cuda_queues_name(const char *call)
{
    current.call = call;
}

const char *
mw_cuda_queues_awaited(struct mw_cuda_queues *queues)
{
    const char *call = NULL;

    pthread_mutex_lock(&queues->mutex);
    for (int i = 0; !call && i < MW_BACKEND_QUEUES_MAX; i++)
        call = queues->queues[i].awaited;
    pthread_mutex_unlock(&queues->mutex);
    return call;
}

/* --- waiting --------------------------------------------------------------------------------- */

/* An op that ended only because everything was aborted has not been done. */
static bool
is_whole(struct mw_cuda_queues *queues, GError **error)
{
    pthread_mutex_lock(&queues->mutex);
    bool whole = !queues->why;
    if (!whole)
        g_set_error_literal(error, MW_ERROR, MW_ERROR_DEVICE, queues->why);
    pthread_mutex_unlock(&queues->mutex);
    return whole;
}

/* When it ran; an op that failed has no times. */
static bool
await(struct mw_cuda_queues *queues, const struct queued *op, int64_t *start_ns, int64_t *end_ns,
      GError **error)
{
    int status = cudaEventSynchronize(op->end);

    return mw_cuda_check(queues->gpu, status, "cudaEventSynchronize", error) &&
           is_whole(queues, error) &&
           mw_cuda_clock_time(queues->clock, op->mark, op->start, start_ns, error) &&
           mw_cuda_clock_time(queues->clock, op->mark, op->end, end_ns, error);
}

static struct queued *
next_op(struct queue *queue)
{
    struct mw_cuda_queues *queues = queue->all;

    pthread_mutex_lock(&queues->mutex);
    queue->awaited = NULL;
    while (!queues->over && g_queue_is_empty(&queue->ops))
        pthread_cond_wait(&queues->changed, &queues->mutex);
    struct queued *op = g_queue_pop_head(&queue->ops);
    queue->awaited = op ? op->call : NULL;
    pthread_mutex_unlock(&queues->mutex);
    return op;
}

static void
leave(struct queue *queue)
{
    pthread_mutex_lock(&queue->all->mutex);
    queue->begun--;
    pthread_cond_broadcast(&queue->all->changed);
    pthread_mutex_unlock(&queue->all->mutex);
}

/* With the mutex: waits until the queue has room for another op.  Ops in flight depend on nothing
 * that is still to be queued here, so there will be room. */
static void
enter(struct mw_cuda_queues *queues, struct queue *queue)
{
    while (queue->begun >= OPS_AT_ONCE && !queues->why)
        pthread_cond_wait(&queues->changed, &queues->mutex);
    queue->begun++;
}

static gpointer
watch(gpointer data)
{
    struct queue *queue = data;
    struct mw_cuda_queues *queues = queue->all;

    cudaSetDevice(queues->gpu->ordinal);
    for (struct queued *op; (op = next_op(queue));) {
        int64_t start_ns = 0, end_ns = 0;
        GError *error = NULL;
        await(queues, op, &start_ns, &end_ns, &error);
        mw_cuda_clock_drop(queues->clock, op->mark);
        op->done(op->data, start_ns, end_ns, error);
        g_free(op);
        leave(queue);
    }
    return NULL;
}

/* --- queueing -------------------------------------------------------------------------------- */

static bool
open_queue(struct mw_cuda_queues *queues, struct queue *queue, GError **error)
{
    if (queue->stream)
        return true;
    if (!mw_cuda_stream_create(queues->gpu, queue->urgent, (void **)&queue->stream, error))
        return false;
    queue->watcher = mw_thread_start("gpu", watch, queue, error);
    if (!queue->watcher)
        cudaStreamDestroy(g_steal_pointer(&queue->stream));
    return queue->watcher != NULL;
}

/* With the mutex held: the events of a ticket, made when it is first used. */
static bool
open_ticket(struct mw_cuda_queues *queues, uint32_t number, struct ticket *out, GError **error)
{
    if (number >= queues->tickets->len)
        g_array_set_size(queues->tickets, number + 1);
    struct ticket *ticket = &g_array_index(queues->tickets, struct ticket, number);
    bool good =
        (ticket->start ||
         mw_cuda_check(queues->gpu, cudaEventCreateWithFlags(&ticket->start, cudaEventDefault),
                       "cudaEventCreateWithFlags", error)) &&
        (ticket->end ||
         mw_cuda_check(queues->gpu, cudaEventCreateWithFlags(&ticket->end, cudaEventBlockingSync),
                       "cudaEventCreateWithFlags", error));
    *out = *ticket;
    return good;
}

/* The event at the end of a ticket's op; NULL: it was never queued, so there is nothing to wait
 * for. */
static cudaEvent_t
end_of(struct mw_cuda_queues *queues, uint32_t ticket)
{
    cudaEvent_t end = NULL;

    pthread_mutex_lock(&queues->mutex);
    if (ticket < queues->tickets->len)
        end = g_array_index(queues->tickets, struct ticket, ticket).end;
    pthread_mutex_unlock(&queues->mutex);
    return end;
}

/* Called without the mutex: where the driver has no room for more in a stream, a call that queues
 * something waits until some of it is done. */
static bool
wait_for(struct mw_cuda_queues *queues, const struct queue *queue, const uint32_t *after, int count,
         GError **error)
{
    for (int i = 0; i < count; i++) {
        cudaEvent_t end = end_of(queues, after[i]);
        if (end && !mw_cuda_check(queues->gpu, cudaStreamWaitEvent(queue->stream, end, 0),
                                  "cudaStreamWaitEvent", error))
            return false;
    }
    return true;
}

bool
mw_cuda_queues_begin(struct mw_cuda_queues *queues, int index, uint32_t ticket,
                     const uint32_t *after, int after_count, GError **error)
{
    struct queue *queue = &queues->queues[index];

    g_assert(index < MW_BACKEND_QUEUES_MAX && !current.queue);
    pthread_mutex_lock(&queues->mutex);
    queue->all = queues;
    enter(queues, queue);
    pthread_mutex_unlock(&queues->mutex);
    current.mark = mw_cuda_clock_mark(queues->clock, error);
    if (!current.mark) {
        leave(queue);
        return false;
    }
    pthread_mutex_lock(&queues->mutex);
    bool good =
        open_queue(queues, queue, error) && open_ticket(queues, ticket, &current.ticket, error);
    pthread_mutex_unlock(&queues->mutex);
    good = good && wait_for(queues, queue, after, after_count, error) &&
           mw_cuda_check(queues->gpu, cudaEventRecord(current.ticket.start, queue->stream),
                         "cudaEventRecord", error);
    current.call = NULL;
    if (good) {
        current.queue = queue;
        return true;
    }
    mw_cuda_clock_drop(queues->clock, current.mark);
    leave(queue);
    return false;
}

static void
hand_over(struct mw_cuda_queues *queues, struct queue *queue, const struct queued *op)
{
    pthread_mutex_lock(&queues->mutex);
    g_queue_push_tail(&queue->ops, g_memdup2(op, sizeof *op));
    pthread_cond_broadcast(&queues->changed);
    pthread_mutex_unlock(&queues->mutex);
}

bool
mw_cuda_queues_end(struct mw_cuda_queues *queues, mw_backend_done done, void *data, GError **error)
{
    struct queue *queue = current.queue;
    struct queued op = {
        current.ticket.start, current.ticket.end, current.mark, current.call, done, data};

    current.queue = NULL;
    if (done && mw_cuda_check(queues->gpu, cudaEventRecord(op.end, queue->stream),
                              "cudaEventRecord", error)) {
        hand_over(queues, queue, &op);
        return true;
    }
    /* Work in flight must not outlive its operands. */
    cudaStreamSynchronize(queue->stream);
    mw_cuda_clock_drop(queues->clock, op.mark);
    leave(queue);
    return !done;
}

/* --- life ------------------------------------------------------------------------------------ */

struct mw_cuda_queues *
mw_cuda_queues_create(const struct mw_cuda_gpu *gpu, GError **error)
{
    struct mw_cuda_queues *queues = g_new0(struct mw_cuda_queues, 1);

    queues->gpu = gpu;
    queues->tickets = g_array_new(FALSE, TRUE, sizeof(struct ticket));
    pthread_mutex_init(&queues->mutex, NULL);
    pthread_cond_init(&queues->changed, NULL);
    for (int i = 0; i < MW_BACKEND_QUEUES_MAX; i++)
        g_queue_init(&queues->queues[i].ops);
    queues->clock = mw_cuda_clock_create(gpu, error);
    if (queues->clock)
        return queues;
    mw_cuda_queues_destroy(queues);
    return NULL;
}

static void
close_queue(struct queue *queue)
{
    if (!queue->stream)
        return;
    g_thread_join(queue->watcher);
    cudaStreamDestroy(queue->stream);
}

void
mw_cuda_queues_destroy(struct mw_cuda_queues *queues)
{
    if (!queues)
        return;
    pthread_mutex_lock(&queues->mutex);
    queues->over = true;
    pthread_cond_broadcast(&queues->changed);
    pthread_mutex_unlock(&queues->mutex);
    for (int i = 0; i < MW_BACKEND_QUEUES_MAX; i++)
        close_queue(&queues->queues[i]);
    for (guint i = 0; i < queues->tickets->len; i++) {
        struct ticket *ticket = &g_array_index(queues->tickets, struct ticket, i);
        if (ticket->start)
            cudaEventDestroy(ticket->start);
        if (ticket->end)
            cudaEventDestroy(ticket->end);
    }
    g_array_free(queues->tickets, TRUE);
    mw_cuda_clock_destroy(queues->clock);
    g_free(queues->why);
    pthread_mutex_destroy(&queues->mutex);
    pthread_cond_destroy(&queues->changed);
    g_free(queues);
}
