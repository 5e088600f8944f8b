#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/nvme/internal.h"

#define LOOK_MS 1000

static void
ring(struct mw_nvme_queue *queue)
{
    /* This fails only with 2^64 - 2 unread rings, and then the thread is awake anyway. */
    (void)eventfd_write(queue->wake_fd, 1);
}

void
mw_nvme_queue_push(struct mw_nvme_queue *queue, struct mw_nvme_request *request)
{
    pthread_mutex_lock(&queue->mutex);
    *queue->incoming_tail = request;
    queue->incoming_tail = &request->next;
    queue->outstanding++;
    pthread_mutex_unlock(&queue->mutex);
    ring(queue);
}

void
mw_nvme_queue_drain(struct mw_nvme_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->outstanding)
        pthread_cond_wait(&queue->done, &queue->mutex);
    pthread_mutex_unlock(&queue->mutex);
}

/* Returns false when the queue has to stop and has nothing left to do. */
static bool
take_incoming(struct mw_nvme_queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    struct mw_nvme_request *first = queue->incoming;
    if (first) {
        *queue->active_tail = first;
        queue->active_tail = queue->incoming_tail;
        queue->incoming = NULL;
        queue->incoming_tail = &queue->incoming;
    }
    bool stop = queue->stop;
    pthread_mutex_unlock(&queue->mutex);
    for (int drive = 0; first && drive < queue->nvme->layout.drives; drive++)
        if (!queue->cursors[drive].request)
            queue->cursors[drive] = (struct mw_nvme_cursor){first, first->offset_bytes,
                                                            queue->cursors[drive].in_flight};
    return queue->active || !stop;
}

static void
leave(struct mw_nvme_queue *queue, struct mw_nvme_request **link)
{
    struct mw_nvme_request *request = *link, *next = request->next;

    *link = next;
    if (!next)
        queue->active_tail = link;
    for (int drive = 0; drive < queue->nvme->layout.drives; drive++) {
        struct mw_nvme_cursor *cursor = &queue->cursors[drive];
        if (cursor->request != request)
            continue;
        cursor->request = next;
        cursor->logical_bytes = next ? next->offset_bytes : 0;
    }
}

/* After this the request belongs to its owner again. */
static void
finish(struct mw_nvme_queue *queue, struct mw_nvme_request *request)
{
    void (*on_done)(void *) = request->on_done;
    void *data = request->on_done_data;

    pthread_mutex_lock(&queue->mutex);
    request->done = true;
    queue->outstanding--;
    pthread_cond_broadcast(&queue->done);
    pthread_mutex_unlock(&queue->mutex);
    if (on_done)
        on_done(data);
}

static bool
is_over(const struct mw_nvme_request *request)
{
    return !request->in_flight_bytes && !request->landed &&
           (request->error || !request->left_bytes);
}

static void
retire(struct mw_nvme_queue *queue)
{
    struct mw_nvme_request **link = &queue->active;

    while (*link) {
        struct mw_nvme_request *request = *link;

        if (is_over(request)) {
            leave(queue, link);
            finish(queue, request);
        } else {
            link = &request->next;
        }
    }
}

/* If nothing is in flight, nothing will ring: the system has refused for now, so the queue asks
 * again. If something is in flight, the queue still looks now and then, in case a ring is lost. */
static void
await_wake(struct mw_nvme_queue *queue)
{
    struct pollfd bell = {.fd = queue->wake_fd, .events = POLLIN};
    eventfd_t rings;
    bool refused = queue->pauses || (!queue->submitted && queue->active);

    queue->pauses = false;
    if (refused)
        usleep(1000);
    else if (!queue->submitted || poll(&bell, 1, LOOK_MS) > 0)
        (void)eventfd_read(queue->wake_fd, &rings);
}

/* The thread does this, so that both directions end at the same time.  After a failure it is
 * unknown which transfers the kernel still has. */
static void
end_context(struct mw_nvme_queue *queue)
{
    if (queue->context && (queue->submitted || atomic_load(&queue->nvme->failed)))
        io_destroy(queue->context);
    else if (queue->context)
        mw_nvme_context_give(queue->in_flight, queue->context);
    queue->context = NULL;
}

static void *
run(void *data)
{
    struct mw_nvme_queue *queue = data;

    while (take_incoming(queue)) {
        mw_nvme_prepare_blocks(queue);
        mw_nvme_hand_over(queue);
        retire(queue);
        if (queue->landed)
            mw_nvme_check_landed(queue);
        else
            await_wake(queue);
        mw_nvme_reap(queue);
    }
    end_context(queue);
    return NULL;
}

/* As many blocks again may have arrived unchecked, so that the drives need not wait for the
 * check. */
static void
make_blocks(struct mw_nvme_queue *queue, int in_flight)
{
    int count = queue->direction == MW_NVME_READ && queue->nvme->sums ? 2 * in_flight : in_flight;

    queue->block_count = count;
    queue->blocks = g_new0(struct mw_nvme_block, count);
    queue->ready = g_new0(struct iocb *, count);
    queue->events = g_new0(struct io_event, count);
    for (int i = 0; i < count; i++) {
        queue->blocks[i].next = queue->free;
        queue->free = &queue->blocks[i];
    }
}

static bool
fail(GError **error, const char *what, int reason)
{
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "NVMe tier: %s: %s", what, g_strerror(reason));
    return false;
}

/* Blocks signals, which are for the program's own threads. */
static int
create_thread(struct mw_nvme_queue *queue)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&queue->thread, NULL, run, queue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!result)
        pthread_setname_np(queue->thread,
                           queue->direction == MW_NVME_READ ? "mw-nvme-read" : "mw-nvme-write");
    return result;
}

bool
mw_nvme_queue_start(struct mw_nvme_queue *queue, struct mw_nvme *nvme,
                    enum mw_nvme_direction direction, GError **error)
{
    const int in_flight = nvme->depth * nvme->layout.drives;

    queue->nvme = nvme;
    queue->direction = direction;
    queue->in_flight = in_flight;
    queue->incoming_tail = &queue->incoming;
    queue->active_tail = &queue->active;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->done, NULL);
    queue->landed_tail = &queue->landed;
    make_blocks(queue, in_flight);
    queue->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (queue->wake_fd < 0)
        return fail(error, "eventfd", errno);
    int result = mw_nvme_context_take(in_flight, &queue->context);
    if (result == -EAGAIN)
        return fail(error, "io_setup: no room in /proc/sys/fs/aio-max-nr; ask for a smaller depth",
                    EAGAIN);
    if (result)
        return fail(error, "io_setup", -result);
    result = create_thread(queue);
    return !result || fail(error, "pthread_create", result);
}

void
mw_nvme_queue_stop(struct mw_nvme_queue *queue)
{
    if (!queue->thread)
        return;
    pthread_mutex_lock(&queue->mutex);
    queue->stop = true;
    pthread_mutex_unlock(&queue->mutex);
    ring(queue);
}

void
mw_nvme_queue_finish(struct mw_nvme_queue *queue)
{
    if (!queue->nvme)
        return;
    if (queue->thread)
        pthread_join(queue->thread, NULL);
    end_context(queue); /* context of a thread that could not be started */
    if (queue->wake_fd >= 0)
        close(queue->wake_fd);
    pthread_cond_destroy(&queue->done);
    pthread_mutex_destroy(&queue->mutex);
    g_free(queue->blocks);
    g_free(queue->ready);
    g_free(queue->events);
}
