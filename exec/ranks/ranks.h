/*
 * ranks.h - the collectives of a run on CPU cores: one rank alone, or several processes that mpirun
 * (or srun) started, by MPI.
 *
 * Sums are taken in the order of ranks, in fp32, and rounded once: the same bits in every run and
 * on every rank.
 *
 * Lanes.  A rank has several streams of collectives at once, one thread each; all ranks call the
 * same collectives in the same order in a lane.  Each call blocks its thread; while it waits for
 * other ranks to arrive it sleeps, so that the cores are free for compute.  Nothing is allocated in
 * a collective: sums use the lane's scratch, whatever their size.
 *
 * Failures.  A call returns false with *error (MW_ERROR_DEVICE) within seconds when another rank
 * ends early, or when this one is told to (SIGTERM, which mpirun sends when a rank is lost).
 * Messages may still be on their way then: the caller's memory must stay until mw_ranks_abort,
 * which is all that may follow.
 *
 * Alone, nothing of MPI is touched, and every call is done at once.
 */
#ifndef MW_EXEC_RANKS_RANKS_H
#define MW_EXEC_RANKS_RANKS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/dtype.h"

struct mw_ranks;

/* Once in a process.  Each lane has scratch_bytes of scratch if there are several ranks. NULL with
 * *error: several were started but this build has no MPI, or an MPI without threads; the process
 * should end, with status 1 so that the launcher ends the others. */
struct mw_ranks *mw_ranks_join(int lanes, int64_t scratch_bytes, GError **error);
/* After a failure elsewhere in this rank: calls that wait for other ranks return false within
 * milliseconds, as do later ones.  mw_ranks_abort is to follow.  Any thread.  NULL is allowed. */
void mw_ranks_cancel(struct mw_ranks *ranks);
/* This rank was asked to end by a signal that came to the caller (exec/host/signals.h), and
 * cannot do so in order: calls that wait for other ranks fail, as by SIGTERM where nobody else
 * listens to it.  Any thread.  NULL is allowed. */
void mw_ranks_tell_end(struct mw_ranks *ranks, int signal);
/* Whether calls that wait for other ranks fail from now on, because one has ended or this one was
 * cancelled; *error says why.  Any thread. */
bool mw_ranks_lost(const struct mw_ranks *ranks, GError **error);
/* Waits for the other ranks to leave too.  Where one of them is at a collective instead, or lost,
 * it does not return: all end, with status 1 where nobody gives another.  NULL is allowed. */
void mw_ranks_leave(struct mw_ranks *ranks);
/* After a failure of this rank, reported by the caller: ends all ranks, and the launcher with this
 * status.  Returns if this rank is alone: then as mw_ranks_leave.  NULL is allowed. */
void mw_ranks_abort(struct mw_ranks *ranks, int status);

/* Of a failure of this rank, before the caller reports it: false where the first rank has failed in
 * the same words, and reports them for both.  mw_ranks_abort is to follow.  Waits for the first
 * rank, for a second at most. */
bool mw_ranks_tells(struct mw_ranks *ranks, const char *words);
/* Where that cannot be asked, as this process has not joined: all but the first process of a
 * launcher wait for some seconds, in which the launcher ends them if the first has failed too. */
void mw_ranks_give_way(void);
/* Whether this process is that first one, or was launched by nobody. */
bool mw_ranks_is_launched_first(void);
/* How many processes the launcher started, this one among them. */
int mw_ranks_launched(void);

int mw_ranks_count(const struct mw_ranks *ranks);
int mw_ranks_index(const struct mw_ranks *ranks);
/* Among the ranks of this machine. */
int mw_ranks_node_count(const struct mw_ranks *ranks);
int mw_ranks_node_index(const struct mw_ranks *ranks);
/* Cores for each team of threads of this rank: those that it may use, shared with the machine's
 * other ranks where the launcher has not done so; at least 1. */
int mw_ranks_cores(const struct mw_ranks *ranks);
/* A line for the user if the launcher keeps cores from this machine's ranks; or NULL. */
const char *mw_ranks_notice(const struct mw_ranks *ranks);

/* From now on the collectives of a lane are of `count` ranks alone, from `base` on and `stride`
 * apart, this one among them: shards, roots and sums count them by their place there.  All of them
 * call it before their next collective in the lane.  Messages to one rank name ranks of all. */
void mw_ranks_group(struct mw_ranks *ranks, int lane, int base, int stride, int count);

/* Of a lane's collectives: how many ranks they are of, and this one's place there. */
int mw_ranks_lane_count(const struct mw_ranks *ranks, int lane);
int mw_ranks_lane_index(const struct mw_ranks *ranks, int lane);

/* A part of a fetch unit (plan/plan.h, mw_tensor): the shard of rank r has the elements from
 * r * shard_elements on; the last shards may be shorter, or empty.  A collective may be of the
 * same range of every shard: `range_elements` from `range_first` on; 0: all from there on. */
struct mw_ranks_part {
    int64_t elements, shard_elements;
    int64_t range_first, range_elements;
};

/* Elements of rank `rank` that a collective of the part is of: from *first of the part on. */
int64_t mw_ranks_range(const struct mw_ranks_part *part, int rank, int64_t *first);

/* whole = all ranks' shards.  `shard` is this rank's first element, in the range or not; it may be
 * its place in `whole`.  Elements of any size. */
bool mw_ranks_all_gather(struct mw_ranks *ranks, int lane, void *whole, const void *shard,
                         const struct mw_ranks_part *part, int64_t element_bytes, GError **error);

/* value = scale * (sum over ranks of whole), rounded to the type of `whole`; then shard = value, or
 * shard += value where it adds.  Types are fp32, bf16 or fp16. */
struct mw_ranks_sum {
    enum mw_dtype whole, shard;
    bool adds;
    float scale; /* 1: the sum; 1 / ranks: the mean */
};

/* `shard` is this rank's first element; it may be its place in `whole` if the types are the same.
 * The rest of `whole` stays. */
bool mw_ranks_reduce_scatter(struct mw_ranks *ranks, int lane, void *shard, const void *whole,
                             const struct mw_ranks_part *part, struct mw_ranks_sum sum,
                             GError **error);

/* data = scale * (sum over ranks of data), in its type. */
bool mw_ranks_all_reduce(struct mw_ranks *ranks, int lane, void *data, enum mw_dtype dtype,
                         int64_t elements, float scale, GError **error);
/* The same in fp64, for few elements: every rank sends all of them to all. */
bool mw_ranks_all_reduce_fp64(struct mw_ranks *ranks, int lane, double *data, int64_t elements,
                              GError **error);

/* Makes one of two ranks' elements in place of `own`: what it makes of several must not depend on
 * their order. */
typedef void (*mw_ranks_fold)(void *own, const void *other, int64_t elements);
/* data = all ranks' data folded, of elements of any size. */
bool mw_ranks_all_fold(struct mw_ranks *ranks, int lane, void *data, int64_t elements,
                       int64_t element_bytes, mw_ranks_fold fold, GError **error);

bool mw_ranks_broadcast(struct mw_ranks *ranks, int lane, void *data, int64_t bytes, int root,
                        GError **error);

/* Rows on their way from members to the experts that members have, `experts` each, and back.
 * Before they go, a member's rows lie in the order of all experts; where they come, in the order of
 * its own experts, those for one expert in the order of members. */
struct mw_ranks_rows {
    int64_t row_bytes;
    int experts;
    const int32_t *counts; /* [members][all experts]: rows that a member has for an expert */
    bool back;             /* from where they came to where they were */
};

/* Where a member's rows for an expert lie before they go, and where they come, in bytes. */
struct mw_ranks_piece {
    int64_t at, bytes;
};
struct mw_ranks_piece mw_ranks_rows_go(const struct mw_ranks_rows *rows, int members, int member,
                                       int expert);
struct mw_ranks_piece mw_ranks_rows_come(const struct mw_ranks_rows *rows, int members, int member,
                                         int expert);

/* `to` and `from` are memory of their own. */
bool mw_ranks_exchange_rows(struct mw_ranks *ranks, int lane, void *to, const void *from,
                            const struct mw_ranks_rows *rows, GError **error);

/* Blocks of as many bytes: the r-th of `from` goes to rank r, and the r-th of `to` comes from it.
 * They do not overlap. */
bool mw_ranks_all_to_all(struct mw_ranks *ranks, int lane, void *to, const void *from,
                         int64_t block_bytes, GError **error);

/* Each rank has a whole part, with room for as many full shards as there are ranks: shard r of it
 * goes to rank r, and in its place comes the one from there of this rank's own elements.  `back`:
 * what lies there goes to rank r, and shard r comes from it, where its owner had it in this rank's
 * place.  Where a shard is shorter than its place, the rest stays as it is. */
bool mw_ranks_exchange_shards(struct mw_ranks *ranks, int lane, void *whole,
                              const struct mw_ranks_part *part, int64_t element_bytes, bool back,
                              GError **error);

/* In a ring of the lane's ranks: `from` goes to the one behind, and `to` comes from the one before.
 * They do not overlap. */
bool mw_ranks_pass(struct mw_ranks *ranks, int lane, void *to, const void *from, int64_t bytes,
                   GError **error);

/* To and from one other rank, which calls the other of the two with as many bytes; the rest need
 * not call.  A send may wait until the other receives. */
bool mw_ranks_send(struct mw_ranks *ranks, int lane, const void *data, int64_t bytes, int to,
                   GError **error);
bool mw_ranks_receive(struct mw_ranks *ranks, int lane, void *data, int64_t bytes, int from,
                      GError **error);

bool mw_ranks_barrier(struct mw_ranks *ranks, int lane, GError **error);

/* How long collectives of the lane, all so far, have waited for other ranks to come to them.  To be
 * called in the lane's thread. */
int64_t mw_ranks_waited_ns(const struct mw_ranks *ranks, int lane);

/* A barrier that says how the ranks fare: the largest status of all, and the first rank that has
 * it (`rank` may be NULL). */
bool mw_ranks_worst(struct mw_ranks *ranks, int lane, int status, int *worst, int *rank,
                    GError **error);

#endif
