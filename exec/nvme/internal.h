/* internal.h - declarations that the files of the NVMe tier share; not for others. */
#ifndef MW_EXEC_NVME_INTERNAL_H
#define MW_EXEC_NVME_INTERNAL_H

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "exec/nvme/calls.h"
#include "exec/nvme/nvme.h"

/* --- exec/nvme/lock.c: locks a directory for one run, whatever its number of drives --- */

struct mw_nvme_lock {
    char *path;
    int fd; /* -1 if it holds no file */
};

bool mw_nvme_lock_take(struct mw_nvme_lock *lock, const char *directory, const char *stem,
                       GError **error);
void mw_nvme_lock_release(struct mw_nvme_lock *lock);
/* Whether the path still names the open file. */
bool mw_nvme_is_in_place(const char *path, int fd);

/* --- exec/nvme/file.c, exec/nvme/align.c: the file of one drive --- */

struct mw_nvme_file {
    char *directory, *path, *notice;
    int fd;
    bool direct, ram, created;
    bool lacks_space; /* room for it could not be reserved */
    int64_t alignment_bytes;
    struct mw_nvme_lock lock;
};

struct mw_nvme_file_wish {
    const char *directory, *stem;
    int index, count;
    bool resume, buffered;
};

/* Locks the directory and opens the file, without reserving it.  On failure nothing is left
 * open. */
bool mw_nvme_file_open(struct mw_nvme_file *file, const struct mw_nvme_file_wish *wish,
                       GError **error);
/* Makes the file `bytes` long, */
bool mw_nvme_file_size(const struct mw_nvme_file *file, int64_t bytes, GError **error);
/* and gives it all of its blocks. */
bool mw_nvme_file_reserve(struct mw_nvme_file *file, int64_t bytes, bool resume,
                          const struct mw_nvme_calls *calls, GError **error);
bool mw_nvme_file_sync(const struct mw_nvme_file *file, bool keep,
                       const struct mw_nvme_calls *calls, GError **error);
void mw_nvme_file_close(struct mw_nvme_file *file, bool keep);

/* Alignment that direct I/O on this open file needs; 0 if direct I/O is not possible. */
int64_t mw_nvme_align_direct(int fd);
bool mw_nvme_align_is_ram(int fd);

/* --- exec/nvme/stripe.c: maps logical offsets to drives --- */

struct mw_nvme_layout {
    int drives;
    int64_t stripe_bytes, block_bytes;
};

struct mw_nvme_piece {
    int64_t logical_bytes, drive_bytes, bytes;
};

/* Finds the first piece on `drive` of the logical range [from, end).  Returns false if there is
 * none. */
bool mw_nvme_stripe_next(const struct mw_nvme_layout *layout, int drive, int64_t from_bytes,
                         int64_t end_bytes, struct mw_nvme_piece *piece);
/* The text of mw_nvme_where, for files with these paths. */
char *mw_nvme_stripe_where(const struct mw_nvme_layout *layout, const char *const *paths,
                           int64_t offset_bytes, int64_t bytes);
/* Bytes that a file needs for its part of a logical space of `capacity`. */
int64_t mw_nvme_stripe_file_bytes(const struct mw_nvme_layout *layout, int64_t capacity_bytes);

/* --- exec/nvme/queue.c, exec/nvme/blocks.c, exec/nvme/reap.c: the queue of one direction --- */

/* One block in flight, or the rest of one after a short transfer. */
struct mw_nvme_block {
    struct iocb iocb;
    struct mw_nvme_request *request;
    struct mw_nvme_block *next; /* list of free blocks, or of blocks that have arrived and are not
                                 * checked */
    int drive;
    int64_t drive_bytes, bytes;
    int64_t refused_ns; /* when the system first asked to try again; 0: it has not */
    char *buffer;
    int64_t logical_bytes, whole_bytes; /* of the whole block, however much of it has moved */
};

/* Position of a drive in the list of active requests: blocks before `logical_bytes` have been
 * taken. */
struct mw_nvme_cursor {
    struct mw_nvme_request *request;
    int64_t logical_bytes;
    int in_flight;
};

/* How long the system may refuse requests before they fail. */
#define MW_NVME_STALL_LIMIT_NS INT64_C(5000000000)

struct mw_nvme_queue {
    struct mw_nvme *nvme;
    enum mw_nvme_direction direction;
    int in_flight; /* most blocks in flight */
    pthread_t thread;
    int wake_fd; /* rings for new requests and for completions */

    pthread_mutex_t mutex; /* guards the next four fields and every request's done */
    pthread_cond_t done;
    struct mw_nvme_request *incoming, **incoming_tail;
    int outstanding; /* requests that are submitted and not done */
    bool stop;

    /* Only the queue's thread uses the fields below. */
    io_context_t context;
    struct mw_nvme_request *active, **active_tail;
    struct mw_nvme_cursor cursors[MW_NVME_DRIVES_MAX];
    struct mw_nvme_block *blocks, *free;
    struct mw_nvme_block *landed, **landed_tail; /* blocks that have been read and not yet checked,
                                                  * oldest first */
    struct iocb **ready;                         /* blocks that are filled in and that the system
                                                  * has not yet taken */
    int ready_count, submitted;
    struct io_event *events;
    int block_count;
    int64_t stalled_ns; /* when the system began to take nothing; 0: it takes blocks */
    bool pauses;        /* sleep before the system is asked again */

    _Atomic int64_t moved_bytes;
};

struct mw_nvme {
    struct mw_nvme_file files[MW_NVME_DRIVES_MAX];
    struct mw_nvme_layout layout;
    int64_t alignment_bytes, capacity_bytes;
    int64_t end_bytes; /* end of requests: end of the capacity, or of the pages with checksums */
    uint32_t *sums;    /* one per page; NULL: reads are not checked */
    char *(*whose)(void *data, int64_t offset_bytes, int64_t bytes);
    void *whose_data;
    int depth;
    bool keep;
    const struct mw_nvme_calls *calls;
    struct mw_nvme_queue queues[MW_NVME_DIRECTIONS];

    atomic_bool failed, failed_to_write; /* failed_to_write is set before failed */
    pthread_mutex_t failure_mutex;       /* guards failure, which is set only once */
    char *failure;
};

bool mw_nvme_queue_start(struct mw_nvme_queue *queue, struct mw_nvme *nvme,
                         enum mw_nvme_direction direction, GError **error);
/* stop tells the thread to end when all requests are done; finish waits for it. */
void mw_nvme_queue_stop(struct mw_nvme_queue *queue);
void mw_nvme_queue_finish(struct mw_nvme_queue *queue);
void mw_nvme_queue_push(struct mw_nvme_queue *queue, struct mw_nvme_request *request);
void mw_nvme_queue_drain(struct mw_nvme_queue *queue);

/* The steps of the thread. */
void mw_nvme_prepare_blocks(struct mw_nvme_queue *queue);
void mw_nvme_hand_over(struct mw_nvme_queue *queue);
void mw_nvme_reap(struct mw_nvme_queue *queue);
void mw_nvme_block_make_ready(struct mw_nvme_queue *queue, struct mw_nvme_block *block);
/* Takes the block off its drive's count: the drive has finished with it. */
void mw_nvme_block_leave(struct mw_nvme_queue *queue, const struct mw_nvme_block *block);
void mw_nvme_block_free(struct mw_nvme_queue *queue, struct mw_nvme_block *block);
/* Checks the oldest block that has arrived against what was written last; its request fails if they
 * differ. */
void mw_nvme_check_landed(struct mw_nvme_queue *queue);
/* Fails the block's request (the first error wins) and the tier. */
void mw_nvme_block_fail(struct mw_nvme_queue *queue, const struct mw_nvme_block *block,
                        const char *reason);

/* --- exec/nvme/contexts.c: contexts of the kernel --- */

/* Gives a context with room for this many transfers, and with none in flight; like io_setup. */
int mw_nvme_context_take(int in_flight, io_context_t *context);
/* Takes back a context with the room that was requested and nothing in flight; keeps it for later,
 * or destroys it. */
void mw_nvme_context_give(int in_flight, io_context_t context);

/* --- exec/nvme/sums.c: checksums of whole pages of the logical space --- */

void mw_nvme_sums_take(const struct mw_nvme *nvme, int64_t offset_bytes, int64_t bytes,
                       const char *data);
/* Finds the first pages of `data` that differ from what was written last.  Returns their offset,
 * and their length in *other_bytes; -1 if none differ. */
int64_t mw_nvme_sums_agree(const struct mw_nvme *nvme, int64_t offset_bytes, int64_t bytes,
                           const char *data, int64_t *other_bytes);

/* --- nvme.c --- */

/* Only the first failure is kept; later ones are its consequences. */
void mw_nvme_fail(struct mw_nvme *nvme, const char *message);
GError *mw_nvme_failure(struct mw_nvme *nvme);

#endif
