#include "nvme_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <string.h>
#include <time.h>

#include "write_log.h"

#define PATIENCE_S 300 /* what hangs is ended by meson */

/* Whether this operation of the fault's kind is one that goes wrong. */
static bool
strikes(struct mw_faults *faults, enum mw_fault kind)
{
    if (faults->fault != kind)
        return false;
    const int now = faults->seen++;
    return now >= faults->at && now < faults->at + MAX(faults->times, 1);
}

static void
shorten(struct mw_faults *faults, struct iocb *iocb)
{
    if (!strikes(faults, MW_FAULT_SHORT) || iocb->u.c.nbytes <= (unsigned long)faults->limit_bytes)
        return;
    iocb->u.c.nbytes = (unsigned long)faults->limit_bytes;
    faults->shortened[iocb->aio_lio_opcode == IO_CMD_PWRITE]++;
}

/* --- reads that say nothing ------------------------------------------------------------------ */

enum { PAGE_BYTES = 4096, SECTOR_BYTES = 512 };

struct page {
    int writes;
    char now[PAGE_BYTES], before[PAGE_BYTES];
};

static struct page *
page_at(const struct mw_faults *faults, int64_t at)
{
    return g_hash_table_lookup(faults->pages, GINT_TO_POINTER((gint)(at / PAGE_BYTES)));
}

static void
note_page(struct mw_faults *faults, int64_t at, const char *data)
{
    struct page *page = page_at(faults, at);

    if (!page) {
        page = g_new0(struct page, 1);
        g_hash_table_insert(faults->pages, GINT_TO_POINTER((gint)(at / PAGE_BYTES)), page);
    }
    memcpy(page->before, page->now, PAGE_BYTES);
    memcpy(page->now, data, PAGE_BYTES);
    page->writes++;
}

static void
note_write(struct mw_faults *faults, const struct iocb *iocb)
{
    const char *data = iocb->u.c.buf;

    if (iocb->aio_lio_opcode != IO_CMD_PWRITE || !faults->end_byte)
        return;
    if (!faults->pages)
        faults->pages = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    for (unsigned long i = 0; i + PAGE_BYTES <= iocb->u.c.nbytes; i += PAGE_BYTES) {
        int64_t at = iocb->u.c.offset + (int64_t)i;
        if (at >= faults->first_byte && at < faults->end_byte)
            note_page(faults, at, data + i);
    }
}

static bool
can_spoil(const struct mw_faults *faults, const struct page *page)
{
    bool again = faults->fault == MW_FAULT_STALE || faults->fault == MW_FAULT_TORN;

    return page && (!again || (page->writes > 1 && memcmp(page->now, page->before, PAGE_BYTES)));
}

/* The last sector that the last write changed. */
static int
torn_at(const struct page *page)
{
    int at = PAGE_BYTES - SECTOR_BYTES;

    while (at && !memcmp(page->now + at, page->before + at, SECTOR_BYTES))
        at -= SECTOR_BYTES;
    return at;
}

/* Some other page that has another content. */
static bool
misplace(const struct mw_faults *faults, const struct page *page, char *data)
{
    GHashTableIter iter;
    gpointer other;

    g_hash_table_iter_init(&iter, faults->pages);
    while (g_hash_table_iter_next(&iter, NULL, &other))
        if (memcmp(((struct page *)other)->now, page->now, PAGE_BYTES)) {
            memcpy(data, ((struct page *)other)->now, PAGE_BYTES);
            return true;
        }
    return false;
}

static void
spoil_page(const struct mw_faults *faults, const struct page *page, char *data)
{
    int tear = torn_at(page);

    if (faults->fault == MW_FAULT_FLIP)
        data[faults->at * 37 % PAGE_BYTES] ^= (char)(1 << faults->at % 8);
    else if (faults->fault == MW_FAULT_STALE)
        memcpy(data, page->before, PAGE_BYTES);
    else if (faults->fault == MW_FAULT_TORN)
        memcpy(data + tear, page->before + tear, (size_t)(PAGE_BYTES - tear));
    else
        g_assert_true(misplace(faults, page, data));
}

/* The first page of the block that can be. */
static void
spoil(struct mw_faults *faults, const struct iocb *iocb)
{
    char *data = iocb->u.c.buf;

    if (iocb->aio_lio_opcode != IO_CMD_PREAD || !faults->pages)
        return;
    for (unsigned long i = 0; i + PAGE_BYTES <= iocb->u.c.nbytes; i += PAGE_BYTES) {
        struct page *page = page_at(faults, iocb->u.c.offset + (int64_t)i);
        if (!can_spoil(faults, page))
            continue;
        if (strikes(faults, faults->fault))
            spoil_page(faults, page, data + i);
        return;
    }
}

static int
submit(void *data, io_context_t context, long count, struct iocb **iocbs)
{
    struct mw_faults *faults = data;
    int result = (int)count;

    pthread_mutex_lock(&faults->mutex);
    faults->context = context;
    if (strikes(faults, MW_FAULT_REFUSAL)) {
        pthread_mutex_unlock(&faults->mutex);
        return -faults->reason;
    }
    for (long i = 0; i < count; i++)
        shorten(faults, iocbs[i]);
    for (long i = 0; i < count; i++)
        note_write(faults, iocbs[i]);
    if (faults->holding) {
        for (long i = 0; i < count; i++)
            faults->held[faults->held_count++] = iocbs[i];
        pthread_cond_broadcast(&faults->changed);
    }
    bool holding = faults->holding;
    pthread_mutex_unlock(&faults->mutex);
    if (faults->log)
        mw_write_log_submit(faults->log, count, iocbs);
    if (!holding)
        result = io_submit(context, count, iocbs);
    g_assert_true(!faults->log || result == count);
    return result;
}

static int
get_events(void *data, io_context_t context, long count, struct io_event *events)
{
    struct mw_faults *faults = data;
    struct timespec none = {0, 0};

    pthread_mutex_lock(&faults->mutex);
    bool broken = strikes(faults, MW_FAULT_EVENTS), few = strikes(faults, MW_FAULT_FEW);
    pthread_mutex_unlock(&faults->mutex);
    if (broken)
        return -faults->reason;
    if (few)
        count = MIN(count, faults->reason);
    if (!count)
        return 0;
    int result = io_getevents(context, 0, count, events, &none);
    pthread_mutex_lock(&faults->mutex);
    for (int i = 0; i < result; i++)
        if (strikes(faults, MW_FAULT_COMPLETION))
            events[i].res = (unsigned long)-(long)faults->reason;
    for (int i = 0; faults->fault >= MW_FAULT_FLIP && i < result; i++)
        spoil(faults, events[i].obj);
    pthread_mutex_unlock(&faults->mutex);
    if (faults->log && result > 0)
        mw_write_log_complete(faults->log, result, events);
    return result;
}

static ssize_t
do_pread(void *data, int fd, void *buffer, size_t bytes, off_t offset)
{
    struct mw_faults *faults = data;
    const int flags = fcntl(fd, F_GETFL);

    if (!(flags & O_DIRECT))
        return mw_nvme_system_calls.pread(NULL, fd, buffer, bytes, offset);
    if (faults->log && !faults->cached)
        return mw_write_log_pread(faults->log, fd, buffer, bytes, offset);
    fcntl(fd, F_SETFL, flags & ~O_DIRECT);
    const ssize_t result = mw_nvme_system_calls.pread(NULL, fd, buffer, bytes, offset);
    fcntl(fd, F_SETFL, flags);
    return result;
}

static ssize_t
do_pwrite(void *data, int fd, const void *buffer, size_t bytes, off_t offset)
{
    struct mw_faults *faults = data;

    if (strikes(faults, MW_FAULT_PWRITE)) {
        errno = faults->reason;
        if (faults->reason)
            return -1;
        bytes = MIN(bytes, (size_t)faults->limit_bytes);
    }
    if (faults->log)
        mw_write_log_pwrite(faults->log, fd, buffer, bytes, offset);
    return mw_nvme_system_calls.pwrite(NULL, fd, buffer, bytes, offset);
}

static int
do_fdatasync(void *data, int fd)
{
    struct mw_faults *faults = data;

    if (strikes(faults, MW_FAULT_SYNC)) {
        if (faults->log)
            mw_write_log_fail_sync(faults->log, fd, !faults->reason);
        errno = faults->reason;
        return faults->reason ? -1 : 0;
    }
    if (faults->log)
        mw_write_log_sync(faults->log, fd);
    return 0;
}

static int
do_fallocate(void *data, int fd, off_t bytes)
{
    struct mw_faults *faults = data;

    if (strikes(faults, MW_FAULT_RESERVE)) {
        errno = faults->reason;
        return -1;
    }
    return mw_nvme_system_calls.fallocate(NULL, fd, bytes);
}

static int
do_forget(void *data, int fd)
{
    struct mw_faults *faults = data;

    if (faults->log && !faults->cached)
        mw_write_log_forget(faults->log, fd);
    return 0;
}

void
mw_faults_init(struct mw_faults *faults, enum mw_fault fault, int at, int reason)
{
    pthread_condattr_t attributes;

    *faults = (struct mw_faults){
        .calls = {submit, get_events, do_pread, do_pwrite, do_fdatasync, do_fallocate, do_forget,
                  faults},
        .fault = fault,
        .at = at,
        .reason = reason,
    };
    pthread_mutex_init(&faults->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&faults->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void
mw_faults_finish(struct mw_faults *faults)
{
    g_clear_pointer(&faults->pages, g_hash_table_destroy);
    pthread_cond_destroy(&faults->changed);
    pthread_mutex_destroy(&faults->mutex);
}

bool
mw_faults_await_held(struct mw_faults *faults, int count)
{
    struct timespec until;
    int timed_out = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&faults->mutex);
    while (faults->held_count < count && !timed_out)
        timed_out = pthread_cond_timedwait(&faults->changed, &faults->mutex, &until);
    bool enough = faults->held_count >= count;
    pthread_mutex_unlock(&faults->mutex);
    return enough;
}

void
mw_faults_release(struct mw_faults *faults, int index)
{
    pthread_mutex_lock(&faults->mutex);
    struct iocb *iocb = faults->held[index];
    faults->held_count--;
    memmove(&faults->held[index], &faults->held[index + 1],
            (size_t)(faults->held_count - index) * sizeof iocb);
    pthread_mutex_unlock(&faults->mutex);
    g_assert_cmpint(io_submit(faults->context, 1, &iocb), ==, 1);
}

void
mw_faults_release_all(struct mw_faults *faults)
{
    pthread_mutex_lock(&faults->mutex);
    faults->holding = false;
    int count = faults->held_count;
    pthread_mutex_unlock(&faults->mutex);
    while (count--)
        mw_faults_release(faults, 0);
}
