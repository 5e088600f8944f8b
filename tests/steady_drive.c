#include "tests/steady_drive.h"

#include <glib.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>

#define SPACE_BYTES ((size_t)64 << 30) /* of addresses */
#define IN_FLIGHT_MAX 4096

enum { READS, WRITES, DIRECTIONS };

struct transfer {
    struct iocb *iocb;
    int64_t end_ns;
};

/* Transfers [done, begun) are under way, [taken, done) are done and not yet told. */
struct direction {
    struct steady_drive *drive;
    GThread *thread;
    struct transfer transfers[IN_FLIGHT_MAX];
    uint64_t begun, done, taken;
    int64_t free_ns;      /* when what was begun is done */
    io_context_t context; /* of who transfers */
};

struct steady_drive {
    struct mw_nvme_calls calls;
    char *memory;
    double ns_per_byte;
    GMutex mutex;
    GCond changed;
    bool over;
    struct direction directions[DIRECTIONS];
};

static int64_t
clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void
sleep_until(int64_t at_ns)
{
    struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static struct direction *
direction_of(struct steady_drive *drive, const struct iocb *iocb)
{
    return &drive->directions[iocb->aio_lio_opcode == IO_CMD_PREAD ? READS : WRITES];
}

static void
move(struct steady_drive *drive, const struct iocb *iocb)
{
    char *at = drive->memory + iocb->u.c.offset;

    if (iocb->aio_lio_opcode == IO_CMD_PREAD)
        memcpy(iocb->u.c.buf, at, iocb->u.c.nbytes);
    else
        memcpy(at, iocb->u.c.buf, iocb->u.c.nbytes);
}

static void *
work(void *data)
{
    struct direction *d = data;
    struct steady_drive *drive = d->drive;

    g_mutex_lock(&drive->mutex);
    for (;;) {
        while (d->done == d->begun && !drive->over)
            g_cond_wait(&drive->changed, &drive->mutex);
        if (d->done == d->begun)
            break;
        const struct transfer transfer = d->transfers[d->done % IN_FLIGHT_MAX];
        g_mutex_unlock(&drive->mutex);
        move(drive, transfer.iocb);
        sleep_until(transfer.end_ns);
        g_mutex_lock(&drive->mutex);
        d->done++;
        eventfd_write((int)transfer.iocb->u.c.resfd, 1);
    }
    g_mutex_unlock(&drive->mutex);
    return NULL;
}

static int
submit(void *data, io_context_t context, long count, struct iocb **iocbs)
{
    struct steady_drive *drive = data;

    g_mutex_lock(&drive->mutex);
    for (long i = 0; i < count; i++) {
        struct direction *d = direction_of(drive, iocbs[i]);
        g_assert_cmpuint(d->begun - d->taken, <, IN_FLIGHT_MAX);
        d->context = context;
        d->free_ns = MAX(d->free_ns, clock_ns()) +
                     (int64_t)(drive->ns_per_byte * (double)iocbs[i]->u.c.nbytes);
        d->transfers[d->begun++ % IN_FLIGHT_MAX] = (struct transfer){iocbs[i], d->free_ns};
    }
    g_cond_broadcast(&drive->changed);
    g_mutex_unlock(&drive->mutex);
    return (int)count;
}

/* A context is one direction's. */
static int
get_events(void *data, io_context_t context, long count, struct io_event *events)
{
    struct steady_drive *drive = data;
    int taken = 0;

    g_mutex_lock(&drive->mutex);
    for (int i = 0; i < DIRECTIONS; i++) {
        struct direction *d = &drive->directions[i];
        while (taken < count && d->taken < d->done && d->context == context) {
            struct iocb *iocb = d->transfers[d->taken++ % IN_FLIGHT_MAX].iocb;
            events[taken++] =
                (struct io_event){.data = iocb->data, .obj = iocb, .res = iocb->u.c.nbytes};
        }
    }
    g_mutex_unlock(&drive->mutex);
    return taken;
}

struct steady_drive *
steady_drive_new(double bytes_per_s)
{
    struct steady_drive *drive = g_new0(struct steady_drive, 1);

    drive->memory = mmap(NULL, SPACE_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    g_assert_true(drive->memory != MAP_FAILED);
    madvise(drive->memory, SPACE_BYTES, MADV_HUGEPAGE);
    drive->ns_per_byte = 1e9 / bytes_per_s;
    drive->calls = mw_nvme_system_calls;
    drive->calls.submit = submit;
    drive->calls.get_events = get_events;
    drive->calls.data = drive;
    g_mutex_init(&drive->mutex);
    g_cond_init(&drive->changed);
    for (int i = 0; i < DIRECTIONS; i++) {
        drive->directions[i].drive = drive;
        drive->directions[i].thread = g_thread_new("drive", work, &drive->directions[i]);
    }
    return drive;
}

void
steady_drive_free(struct steady_drive *drive)
{
    if (!drive)
        return;
    g_mutex_lock(&drive->mutex);
    drive->over = true;
    g_cond_broadcast(&drive->changed);
    g_mutex_unlock(&drive->mutex);
    for (int i = 0; i < DIRECTIONS; i++)
        g_thread_join(drive->directions[i].thread);
    g_cond_clear(&drive->changed);
    g_mutex_clear(&drive->mutex);
    munmap(drive->memory, SPACE_BYTES);
    g_free(drive);
}

const struct mw_nvme_calls *
steady_drive_calls(const struct steady_drive *drive)
{
    return &drive->calls;
}
