#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "exec/ranks/internal.h"

/* A message's place in the scratch; vectors and cache lines are no longer. */
#define SCRATCH_ALIGNMENT_BYTES 64

/* --- joining --- */

static bool
open_lane(struct mw_ranks *ranks, struct mw_ranks_lane *lane, GError **error)
{
    lane->ranks = ranks;
    lane->count = ranks->count;
    lane->index = ranks->index;
    lane->stride = 1;
    if (ranks->count == 1)
        return true;
    lane->arrivals = g_new0(struct mw_ranks_arrival, ranks->count);
    lane->sources = g_new0(const void *, ranks->count);
    lane->scratch = aligned_alloc(SCRATCH_ALIGNMENT_BYTES, ranks->scratch_bytes);
    if (!lane->scratch) {
        g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                    "no memory for %" PRId64 " bytes of scratch for collectives",
                    ranks->scratch_bytes);
        return false;
    }
    return mw_ranks_link_open(lane, error);
}

static void
free_ranks(struct mw_ranks *ranks)
{
    for (int i = 0; i < ranks->lane_count; i++) {
        free(ranks->lanes[i].scratch);
        g_free(ranks->lanes[i].sources);
        g_free(ranks->lanes[i].arrivals);
    }
    g_free(ranks->notice);
    g_free(ranks->lanes);
    g_free(ranks);
}

static bool
check_scratch(const struct mw_ranks *ranks, GError **error)
{
    int64_t least = (int64_t)2 * (ranks->count - 1) * SCRATCH_ALIGNMENT_BYTES;

    if (ranks->scratch_bytes >= least)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%" PRId64 " bytes of scratch for collectives: %d ranks take %" PRId64 " at least",
                ranks->scratch_bytes, ranks->count, least);
    return false;
}

struct mw_ranks *
mw_ranks_join(int lanes, int64_t scratch_bytes, GError **error)
{
    struct mw_ranks *ranks = g_new0(struct mw_ranks, 1);
    bool ok;

    ranks->count = ranks->node_count = 1;
    ranks->lane_count = lanes;
    ranks->scratch_bytes = scratch_bytes & -SCRATCH_ALIGNMENT_BYTES;
    ranks->lanes = g_new0(struct mw_ranks_lane, lanes);
    ok = mw_ranks_link_join(ranks, error) && check_scratch(ranks, error);
    for (int i = 0; ok && i < lanes; i++)
        ok = open_lane(ranks, &ranks->lanes[i], error);
    ranks->notice = mw_ranks_cores_look(ranks->node_count);
    if (ok)
        return ranks;
    /* To leave in order takes all ranks, and the others may have joined. */
    mw_ranks_watch_stop(ranks->watch);
    free_ranks(ranks);
    return NULL;
}

void
mw_ranks_cancel(struct mw_ranks *ranks)
{
    if (ranks && ranks->watch)
        mw_ranks_watch_cancel(ranks->watch);
}

void
mw_ranks_tell_end(struct mw_ranks *ranks, int signal)
{
    if (ranks && ranks->watch)
        mw_ranks_watch_tell(ranks->watch, signal);
}

bool
mw_ranks_lost(const struct mw_ranks *ranks, GError **error)
{
    return ranks->watch && mw_ranks_watch_failed(ranks->watch, error);
}

/* How long a rank that has failed waits for the first one. */
#define WORDS_WAIT_US 1000000
#define WORDS_LOOK_US 2000

static bool
first_tells(const struct mw_ranks *ranks, const char words[MW_RANKS_WORDS_BYTES])
{
    char first[MW_RANKS_WORDS_BYTES];
    bool heard = false, ending = false;

    for (int us = 0; !heard && !ending && us < WORDS_WAIT_US; us += WORDS_LOOK_US) {
        ending = mw_ranks_watch_saw_end(ranks->watch); /* what came before that is there now */
        heard = mw_ranks_link_hear(first);
        if (!heard)
            g_usleep(WORDS_LOOK_US);
    }
    return heard && !memcmp(first, words, MW_RANKS_WORDS_BYTES);
}

bool
mw_ranks_tells(struct mw_ranks *ranks, const char *words)
{
    char mine[MW_RANKS_WORDS_BYTES] = {0};

    if (ranks->count == 1)
        return true;
    strncpy(mine, words, sizeof mine - 1);
    if (ranks->index)
        return !first_tells(ranks, mine);
    mw_ranks_link_tell(ranks->count, mine);
    return true;
}

/* By Open MPI's mpirun, by launchers that speak PMIx (srun), by those of MPICH. */
static int
launched_index(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    const char *index = NULL;

    for (size_t i = 0; !index && i < G_N_ELEMENTS(names); i++)
        index = getenv(names[i]);
    return index ? atoi(index) : 0;
}

bool
mw_ranks_is_launched_first(void)
{
    return launched_index() <= 0;
}

/* Open MPI's mpirun (4.1) takes a second to end the others. */
#define GIVE_WAY_US 3000000

void
mw_ranks_give_way(void)
{
    if (launched_index() > 0)
        g_usleep(GIVE_WAY_US);
}

/* Where all ranks fail at once, one asks the launcher to end the others: Open MPI's mpirun (4.1)
 * crashes now and then where two do.  The first rank asks, the others give it a moment. */
#define ABORT_WAIT_US 1000000
#define ABORT_LOOK_US 5000

static bool
others_end_it(const struct mw_ranks *ranks)
{
    bool ending = false;

    for (int us = 0; ranks->index && !ending && us < ABORT_WAIT_US; us += ABORT_LOOK_US) {
        g_usleep(ABORT_LOOK_US);
        ending = mw_ranks_watch_saw_end(ranks->watch);
    }
    return ending;
}

void
mw_ranks_abort(struct mw_ranks *ranks, int status)
{
    if (ranks && ranks->count > 1) {
        if (others_end_it(ranks))
            _exit(status);
        mw_ranks_link_abort(status);
    }
    mw_ranks_leave(ranks);
}

/* Open MPI's mpirun, srun and MPICH's say it. */
int
mw_ranks_launched(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    const char *steps = getenv("PMIX_RANK") ? getenv("SLURM_STEP_NUM_TASKS") : NULL;
    int count = steps ? atoi(steps) : 1;

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (getenv(names[i]))
            count = MAX(count, atoi(getenv(names[i])));
    return count;
}

int
mw_ranks_count(const struct mw_ranks *ranks)
{
    return ranks->count;
}

int
mw_ranks_index(const struct mw_ranks *ranks)
{
    return ranks->index;
}

int
mw_ranks_node_count(const struct mw_ranks *ranks)
{
    return ranks->node_count;
}

int
mw_ranks_node_index(const struct mw_ranks *ranks)
{
    return ranks->node_index;
}

const char *
mw_ranks_notice(const struct mw_ranks *ranks)
{
    return ranks->notice;
}

/* --- arriving --- */

int64_t
mw_ranks_range(const struct mw_ranks_part *part, int rank, int64_t *first)
{
    int64_t begin = rank * part->shard_elements, end = begin + part->shard_elements;

    begin += part->range_first;
    if (part->range_elements)
        end = MIN(end, begin + part->range_elements);
    end = MIN(end, part->elements);
    *first = MIN(begin, part->elements);
    return MAX(end - begin, 0);
}

static const char *
kind_name(int64_t kind)
{
    static const char *const names[] = {
        [MW_RANKS_ALL_GATHER] = "all-gather",
        [MW_RANKS_REDUCE_SCATTER] = "reduce-scatter",
        [MW_RANKS_FOLD] = "sum",
        [MW_RANKS_ALL_REDUCE_FP64] = "all-reduce",
        [MW_RANKS_ROWS] = "all-to-all of rows",
        [MW_RANKS_BROADCAST] = "broadcast",
        [MW_RANKS_ALL_TO_ALL] = "all-to-all",
        [MW_RANKS_EXCHANGE] = "exchange of shards",
        [MW_RANKS_PASS] = "pass around a ring",
        [MW_RANKS_BARRIER] = "barrier",
        [MW_RANKS_LEAVE] = "the end",
    };

    return kind >= 0 && kind < (int64_t)G_N_ELEMENTS(names) ? names[kind] : "unknown";
}

static bool
agrees(const struct mw_ranks_arrival *a, const struct mw_ranks_arrival *b)
{
    return a->serial == b->serial && a->kind == b->kind && a->elements == b->elements &&
           a->shard_elements == b->shard_elements && a->detail == b->detail;
}

static int
rank_of(const struct mw_ranks_lane *lane, int member)
{
    return lane->base + member * lane->stride;
}

static bool
check_arrivals(const struct mw_ranks_lane *lane, GError **error)
{
    const struct mw_ranks_arrival *own = &lane->arrivals[lane->index];

    for (int rank = 0; rank < lane->count; rank++) {
        const struct mw_ranks_arrival *other = &lane->arrivals[rank];
        if (agrees(own, other))
            continue;
        g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                    "rank %d is at collective %" PRId64 ", %s of %" PRId64
                    " elements, rank %d at %" PRId64 ", %s of %" PRId64
                    ": the ranks do not run the same plan",
                    rank_of(lane, lane->index), own->serial, kind_name(own->kind), own->elements,
                    rank_of(lane, rank), other->serial, kind_name(other->kind), other->elements);
        return false;
    }
    return true;
}

bool
mw_ranks_arrive(struct mw_ranks_lane *lane, struct mw_ranks_arrival arrival, GError **error)
{
    if (lane->count == 1)
        return true;
    int64_t began_ns = mw_clock_now_ns();
    arrival.serial = lane->serial++;
    lane->arrivals[lane->index] = arrival;
    for (int step = 1; step < lane->count; step++) {
        int peer = (lane->index + step) % lane->count;
        mw_ranks_link_receive(lane, 0, peer, &lane->arrivals[peer], sizeof arrival);
        mw_ranks_link_send(lane, 0, peer, &lane->arrivals[lane->index], sizeof arrival);
    }
    bool all_here = mw_ranks_link_finish(lane, 0, true, error);
    lane->waited_ns += mw_clock_now_ns() - began_ns;
    return all_here && check_arrivals(lane, error);
}

void
mw_ranks_group(struct mw_ranks *ranks, int index, int base, int stride, int count)
{
    struct mw_ranks_lane *lane = &ranks->lanes[index];

    g_assert(index >= 0 && index < ranks->lane_count && stride > 0);
    g_assert(base >= 0 && base + (count - 1) * stride < ranks->count);
    g_assert(ranks->index >= base && (ranks->index - base) % stride == 0);
    lane->count = count;
    lane->index = (ranks->index - base) / stride;
    lane->base = base;
    lane->stride = stride;
}

int
mw_ranks_lane_count(const struct mw_ranks *ranks, int lane)
{
    return ranks->lanes[lane].count;
}

int
mw_ranks_lane_index(const struct mw_ranks *ranks, int lane)
{
    return ranks->lanes[lane].index;
}

int64_t
mw_ranks_waited_ns(const struct mw_ranks *ranks, int lane)
{
    return ranks->lanes[lane].waited_ns;
}

/* --- leaving --- */

/* Where another waits in a collective for this rank to come to it, neither would ever go on: it
 * says so there, and ends all, for which it gets this long. */
#define LEAVE_WAIT_US (WORDS_WAIT_US + 2 * ABORT_WAIT_US)

/* However many collectives each has had. */
static bool
all_leave(const struct mw_ranks *ranks)
{
    struct mw_ranks_lane *lane = &ranks->lanes[0];
    const struct mw_ranks_arrival leaving = {.kind = MW_RANKS_LEAVE};
    bool all = true;

    if (ranks->count == 1 || mw_ranks_arrive(lane, leaving, NULL))
        return true;
    for (int rank = 0; rank < ranks->count; rank++)
        all = all && lane->arrivals[rank].kind == MW_RANKS_LEAVE;
    return all;
}

static void
end_all(const struct mw_ranks *ranks)
{
    for (int us = 0; us < LEAVE_WAIT_US; us += ABORT_LOOK_US) {
        if (mw_ranks_watch_saw_end(ranks->watch))
            _exit(1);
        g_usleep(ABORT_LOOK_US);
    }
    mw_ranks_link_abort(1);
    _exit(1);
}

void
mw_ranks_leave(struct mw_ranks *ranks)
{
    if (!ranks)
        return;
    if (!all_leave(ranks))
        end_all(ranks);
    for (int i = 0; i < ranks->lane_count; i++)
        if (ranks->lanes[i].link)
            mw_ranks_link_close(&ranks->lanes[i]);
    mw_ranks_watch_stop(ranks->watch);
    mw_ranks_link_leave();
    free_ranks(ranks);
}
