/*
 * nvme.h - the NVMe tier: one logical space striped over one file in each of 1..D directories,
 * read and written asynchronously (libaio, O_DIRECT where the file system permits).
 *
 * Reads and writes are queues of their own, each with a thread that owns its aio context and keeps
 * `depth` blocks a drive in flight across the borders of requests: the first block of a request
 * goes out while the previous request drains.  Requests of a direction start in order and may
 * complete in any order; there is no order between the directions, nor between requests that
 * overlap: who reads what was written waits for the write first.
 *
 * What is read can be checked against what was written last, page by page, as soon as it is there:
 * a bit that flipped, a stale page or another page's content is an error as any other.
 *
 * An error fails its request and the whole tier: what is not yet in flight fails with the first
 * error's text, and so does every later request and sync.  Nothing waits for what cannot come.
 */
#ifndef MW_EXEC_NVME_NVME_H
#define MW_EXEC_NVME_NVME_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/memory/pages.h"

struct mw_nvme;
struct mw_nvme_calls; /* exec/nvme/calls.h */

enum { MW_NVME_DRIVES_MAX = 64, MW_NVME_PAGE_BYTES = MW_PAGE_BYTES };

struct mw_nvme_options {
    const char *const *directories; /* one a drive; they exist and can be written */
    int directory_count;            /* 1..MW_NVME_DRIVES_MAX */
    /* Names the files: DIRECTORY/STEM-INDEXofCOUNT.data, and DIRECTORY/STEM.lock while open.  NULL:
     * "memwall".  Ranks that share a directory need a stem each. */
    const char *stem;
    int64_t
        capacity_bytes;   /* of the logical space; rounded up to stripes (a block, for one drive) */
    int64_t stripe_bytes; /* 0: block_bytes; a multiple of block_bytes */
    int64_t block_bytes;  /* the longest transfer; 0: 1 MiB; a multiple of the alignment */
    int depth;            /* blocks in flight a drive and direction; 0: 32; at most 1024 */
    bool keep;            /* the files stay after close (for a resume), else they are removed */
    bool resume;          /* the files must be there already, with the size wanted */
    bool later;           /* they get their size, and their blocks by mw_nvme_reserve alone */
    bool buffered;        /* through the page cache even where O_DIRECT would do */
    const struct mw_nvme_calls *calls; /* NULL: the system's; outlives the tier */
    /* A checksum for each page of the capacity: zeroes, and the tier's while it is open.  NULL:
     * reads are not checked.  With it, requests are of whole pages. */
    uint32_t *sums;
    /* Says for messages what lies in a range of the logical space; g_free it.  Called from the I/O
     * thread.  May be NULL. */
    char *(*whose)(void *data, int64_t offset_bytes, int64_t bytes);
    void *whose_data;
};

/* Size of `sums` for a capacity. */
int64_t mw_nvme_sums_bytes(int64_t capacity_bytes);

struct mw_nvme_drive {
    const char *directory, *path;
    bool direct;             /* O_DIRECT */
    bool ram;                /* a RAM disk: memory that poses as storage */
    int64_t alignment_bytes; /* of offsets, sizes and buffers */
    const char *notice; /* a line for the user: what makes this drive slower or unsafe; or NULL */
};

/* Opens, locks and reserves the files; starts the threads.  NULL with *error: a directory that is
 * missing, not writable, in use by another run, or too small (how many bytes short). */
struct mw_nvme *mw_nvme_open(const struct mw_nvme_options *options, GError **error);

/* Reserves files that were opened to have that later, before anything is moved.  Where a drive has
 * no room, `make_space` may make some, and is true then: that is asked once for each file.  It may
 * be NULL. */
bool mw_nvme_reserve(struct mw_nvme *nvme, bool (*make_space)(void *data), void *data,
                     GError **error);

/* Waits for all requests.  NULL is allowed. */
void mw_nvme_close(struct mw_nvme *nvme);

int64_t mw_nvme_capacity_bytes(const struct mw_nvme *nvme);
int64_t mw_nvme_stripe_bytes(const struct mw_nvme *nvme);
int mw_nvme_drive_count(const struct mw_nvme *nvme);
/* The strings live as long as the tier. */
struct mw_nvme_drive mw_nvme_drive(const struct mw_nvme *nvme, int drive);
/* For messages: the files that have a range of the logical space, each with the offset of the
 * first byte that it has of it: "a/memwall-1of2.data at 8192, b/memwall-2of2.data at 0".  g_free
 * it. */
char *mw_nvme_where(const struct mw_nvme *nvme, int64_t offset_bytes, int64_t bytes);

enum mw_nvme_direction { MW_NVME_READ, MW_NVME_WRITE, MW_NVME_DIRECTIONS };

/* Whether the first failure, after which nothing more is moved, was of a write. */
bool mw_nvme_has_failed_to_write(const struct mw_nvme *nvme);

/* Bytes that the drives have moved since open. */
int64_t mw_nvme_moved_bytes(const struct mw_nvme *nvme, enum mw_nvme_direction direction);

/*
 * One transfer.  The memory is the caller's, as is the buffer: both stay untouched from submit
 * until the request is done and submit has returned (below), and the request until mw_nvme_wait has
 * taken its result; then it may be submitted again.  on_done, if set before submit, is called once
 * from the I/O thread after the request is done (a waiter may have it reused by then, so it is not
 * passed); it must not block.
 */
struct mw_nvme_request {
    void (*on_done)(void *data);
    void *on_done_data;

    /* The tier's own. */
    struct mw_nvme *nvme;
    struct mw_nvme_request *next;
    GError *error;
    char *buffer;
    int64_t offset_bytes, bytes;
    int64_t left_bytes, in_flight_bytes; /* not yet moved; of these, handed to a drive */
    int landed;                          /* blocks that are there and not yet checked */
    enum mw_nvme_direction direction;
    bool done;
};

/*
 * Offset, bytes and buffer are multiples of all drives' alignment.  Never blocks on the drives,
 * never fails: wait reports what is wrong.  Any thread.
 *
 * The buffer of a write stays untouched until BOTH this has returned and the request is done, in
 * whichever order: checksums are taken of it in here while the drives have it, which may be done,
 * and have called on_done or woken a waiter in another thread, before this has returned.  Whoever
 * changes the buffer between the two is later told of damage that is none, by the read of what it
 * wrote; and what was written is read back only after both, too.
 */
void mw_nvme_submit(struct mw_nvme *nvme, struct mw_nvme_request *request,
                    enum mw_nvme_direction direction, int64_t offset_bytes, int64_t bytes,
                    void *buffer);

/* Blocks until the request is done and takes its result: false with *error (MW_ERROR_IO; file,
 * offset, bytes and the system's reason) if it failed.  Once for each submit. */
bool mw_nvme_wait(struct mw_nvme_request *request, GError **error);

/* Submit and wait. */
bool mw_nvme_transfer(struct mw_nvme *nvme, enum mw_nvme_direction direction, int64_t offset_bytes,
                      int64_t bytes, void *buffer, GError **error);

/* `data` is what lies in these whole pages, as their owner knows from elsewhere: what is read of
 * them from now on must be the same. */
void mw_nvme_vouch(struct mw_nvme *nvme, int64_t offset_bytes, int64_t bytes, const void *data);

/* Fails the tier: whoever can no longer say what is on the drives has nothing more written there.
 */
void mw_nvme_stop(struct mw_nvme *nvme, const char *why);

/* Waits for all writes, then makes them durable (fdatasync of every drive).  Also false when the
 * tier has failed before, or when a kept file is no longer where it was opened. */
bool mw_nvme_sync(struct mw_nvme *nvme, GError **error);

#endif
