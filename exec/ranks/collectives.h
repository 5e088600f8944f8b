/*
 * collectives.h - what ranks do together with memory that a device reaches: a table that is filled
 * with messages of MPI for memory of the host (exec/ranks/ranks.h), and by a backend for that of
 * its device (exec/device/backend.h).  Who calls knows neither.
 *
 * `stream` is one of several that run at once; all ranks call the same on a stream in the same
 * order.  Whether a call returns when it is done, or when it is queued, is as the backend says of
 * all its work.  Failures are MW_ERROR_DEVICE; mw_ranks_abort is to follow.
 */
#ifndef MW_EXEC_RANKS_COLLECTIVES_H
#define MW_EXEC_RANKS_COLLECTIVES_H

#include "exec/ranks/ranks.h"

/* Streams of a device's collectives: a set of them has 32 bits.  Each is of the ranks that the lane
 * of its number has. */
#define MW_COLLECTIVE_STREAMS_MAX 32

struct mw_collectives {
    /* Who moves the bytes, and how, in words for people.  NULL: there is nothing to say. */
    void (*describe)(void *self, char *words, size_t words_bytes);

    /* What one thread calls in between is done as one, in any order; no call may need another's
     * result.  After a failure in between group_end is not called.  NULL, both: one by one. */
    bool (*group_begin)(void *self, int stream, GError **error);
    bool (*group_end)(void *self, int stream, GError **error);

    /* As the functions of exec/ranks/ranks.h; sums are unscaled, and add to nothing. */
    bool (*all_gather)(void *self, int stream, void *whole, const void *shard,
                       const struct mw_ranks_part *part, int64_t element_bytes, GError **error);
    bool (*reduce_scatter)(void *self, int stream, void *shard, const void *whole,
                           const struct mw_ranks_part *part, enum mw_dtype dtype, GError **error);
    bool (*all_reduce)(void *self, int stream, void *data, enum mw_dtype dtype, int64_t elements,
                       GError **error);
    bool (*exchange_rows)(void *self, int stream, void *to, const void *from,
                          const struct mw_ranks_rows *rows, GError **error);
    bool (*broadcast)(void *self, int stream, void *data, int64_t bytes, int root, GError **error);
    /* These two are NULL where the device runs no shared sequences. */
    bool (*all_to_all)(void *self, int stream, void *to, const void *from, int64_t block_bytes,
                       GError **error);
    bool (*pass)(void *self, int stream, void *to, const void *from, int64_t bytes, GError **error);
    /* NULL where the device runs no asynchronous updates. */
    bool (*exchange_shards)(void *self, int stream, void *whole, const struct mw_ranks_part *part,
                            int64_t element_bytes, bool back, GError **error);
    bool (*send)(void *self, int stream, const void *data, int64_t bytes, int to, GError **error);
    bool (*receive)(void *self, int stream, void *data, int64_t bytes, int from, GError **error);
};

/* Of host memory; `self` is a struct mw_ranks. */
extern const struct mw_collectives mw_ranks_collectives;

#endif
