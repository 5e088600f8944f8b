/*
 * nvme.h - the NVMe tier: one logical space striped over one file in each of 1..D directories, read
 * and written asynchronously (libaio, O_DIRECT where the file system permits).
 *
 * Reads and writes have a queue each.  Its thread owns an aio context and keeps `depth` blocks per
 * drive in flight, also between requests: the first block of a request goes out while the previous
 * request drains.  Requests of a direction start in order and may complete in any order.  There is
 * no order between the directions, nor between requests that overlap: to read what was written,
 * wait for the write first.
 *
 * Reads can be checked against what was written last, page by page, as soon as they arrive.  A
 * flipped bit, a stale page or another page's content is an error like any other.
 *
 * An error fails its request and the whole tier.  Requests that are not yet in flight fail with the
 * first error's text, and so does every later request and sync.  Nothing waits for what cannot
 * come.
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
    const char *const *directories; /* one per drive; they must exist and be writable */
    int directory_count;            /* 1..MW_NVME_DRIVES_MAX */
    /* Stem of the files' names: DIRECTORY/STEM-INDEXofCOUNT.data, and DIRECTORY/STEM.lock while
     * open.  NULL: "memwall".  Ranks that share a directory each need their own. */
    const char *stem;
    int64_t capacity_bytes; /* of the logical space; rounded up to stripes (for one drive, to a
                             * block) */
    int64_t stripe_bytes; /* 0: block_bytes; a multiple of block_bytes */
    int64_t block_bytes;  /* the longest transfer; 0: 1 MiB; a multiple of the alignment */
    int depth;            /* blocks in flight per drive and direction; 0: 32; at most 1024 */
    bool keep;            /* keep the files after close (for a resume), else remove them */
    bool resume;          /* the files must exist already, with the size wanted */
    bool later;           /* only mw_nvme_reserve gives the files their size and blocks */
    bool buffered;        /* use the page cache even where O_DIRECT would work */
    const struct mw_nvme_calls *calls; /* NULL: those of the system; must outlive the tier */
    /* One checksum per page of the capacity, zeroed; the tier uses it while open.  NULL: reads are
     * not checked.  With checksums, requests must be of whole pages. */
    uint32_t *sums;
    /* Describes, for messages, the content of a range of the logical space; g_free the text.  The
     * I/O thread calls it.  May be NULL. */
    char *(*whose)(void *data, int64_t offset_bytes, int64_t bytes);
    void *whose_data;
};

/* Size of `sums` for a capacity. */
int64_t mw_nvme_sums_bytes(int64_t capacity_bytes);

struct mw_nvme_drive {
    const char *directory, *path;
    bool direct;             /* O_DIRECT */
    bool ram;                /* a RAM disk: storage that is memory */
    int64_t alignment_bytes; /* alignment of offsets, sizes and buffers */
    const char *notice;      /* a line for the user about what makes this drive slower or unsafe; or
                              * NULL */
};

/* Opens, locks and reserves the files and starts the threads.  Returns NULL with *error if a
 * directory is missing, not writable, in use by another run, or too small (with the number of bytes
 * it lacks). */
struct mw_nvme *mw_nvme_open(const struct mw_nvme_options *options, GError **error);

/* Reserves files that were opened with `later`, before anything is moved.  If a drive has no room,
 * calls `make_space`, once for each file; it may free some and returns true if it did.  It may be
 * NULL. */
bool mw_nvme_reserve(struct mw_nvme *nvme, bool (*make_space)(void *data), void *data,
                     GError **error);

/* Waits for all requests.  NULL is allowed. */
void mw_nvme_close(struct mw_nvme *nvme);

int64_t mw_nvme_capacity_bytes(const struct mw_nvme *nvme);
int64_t mw_nvme_stripe_bytes(const struct mw_nvme *nvme);
int mw_nvme_drive_count(const struct mw_nvme *nvme);
/* The strings live as long as the tier. */
struct mw_nvme_drive mw_nvme_drive(const struct mw_nvme *nvme, int drive);
/* For messages: the files that hold a range of the logical space, each with the offset of its first
 * byte of the range: "a/memwall-1of2.data at 8192, b/memwall-2of2.data at 0".  g_free it. */
char *mw_nvme_where(const struct mw_nvme *nvme, int64_t offset_bytes, int64_t bytes);

enum mw_nvme_direction { MW_NVME_READ, MW_NVME_WRITE, MW_NVME_DIRECTIONS };

/* Whether the first failure, after which nothing more is moved, was that of a write. */
bool mw_nvme_has_failed_to_write(const struct mw_nvme *nvme);

/* Bytes that the drives have moved since the tier was opened. */
int64_t mw_nvme_moved_bytes(const struct mw_nvme *nvme, enum mw_nvme_direction direction);

/*
 * One transfer.  The request and the buffer belong to the caller.  Both must stay untouched from
 * submit until the request is done and submit has returned (see below), and the request until
 * mw_nvme_wait has taken its result; then it may be submitted again.  If on_done is set before
 * submit, the I/O thread calls it once after the request is done.  It is not given the request,
 * since a waiter may have reused it by then.  It must not block.
 */
struct mw_nvme_request {
    void (*on_done)(void *data);
    void *on_done_data;

    /* The fields below belong to the tier. */
    struct mw_nvme *nvme;
    struct mw_nvme_request *next;
    GError *error;
    char *buffer;
    int64_t offset_bytes, bytes;
    int64_t left_bytes, in_flight_bytes; /* bytes not yet moved; those of them that a drive has */
    int landed;                          /* blocks that have arrived and are not yet checked */
    enum mw_nvme_direction direction;
    bool done;
};

/*
 * Offset, bytes and buffer must be multiples of all drives' alignment.  Never blocks on the drives
 * and never fails; wait reports errors.  Any thread may call it.
 *
 * The buffer of a write must stay untouched until BOTH this call has returned and the request is
 * done, in whichever order.  This call computes checksums of the buffer while the drives have it.
 * They may finish, and call on_done or wake a waiter in another thread, before this call returns.
 * If the buffer changes between the two, a later read of the data reports damage that is none.  For
 * the same reason, read the data back only after both.
 */
void mw_nvme_submit(struct mw_nvme *nvme, struct mw_nvme_request *request,
                    enum mw_nvme_direction direction, int64_t offset_bytes, int64_t bytes,
                    void *buffer);

/* Blocks until the request is done and takes its result.  Returns false with *error (MW_ERROR_IO;
 * file, offset, bytes and the system's reason) if it failed.  Call it once for each submit. */
bool mw_nvme_wait(struct mw_nvme_request *request, GError **error);

/* Submits and waits. */
bool mw_nvme_transfer(struct mw_nvme *nvme, enum mw_nvme_direction direction, int64_t offset_bytes,
                      int64_t bytes, void *buffer, GError **error);

/* Says that these whole pages hold `data`, as their owner knows from elsewhere.  Later reads of
 * them must return the same. */
void mw_nvme_vouch(struct mw_nvme *nvme, int64_t offset_bytes, int64_t bytes, const void *data);

/* Fails the tier.  A caller that no longer knows the content of the drives uses this to stop all
 * further writes. */
void mw_nvme_stop(struct mw_nvme *nvme, const char *why);

/* Waits for all writes and then makes them durable (fdatasync of every drive).  Also returns false
 * if the tier failed before, or if a kept file is no longer at the path where it was opened. */
bool mw_nvme_sync(struct mw_nvme *nvme, GError **error);

#endif
