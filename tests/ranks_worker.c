#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "exec/ranks/internal.h"
#include "ranks_random.h"
#include "ranks_worker.h"

#if MW_MPI
#include <mpi.h>
#endif

enum { LANES = 3, ROUNDS = 150 };

#if MW_MPI
/* Who asks the launcher to end the others says so. */
int
MPI_Abort(MPI_Comm comm, int status)
{
    int rank = -1;

    MPI_Comm_rank(comm, &rank);
    fprintf(stderr, "worker: rank %d asks for the end\n", rank);
    return PMPI_Abort(comm, status);
}
#endif

/* A rank's failure as a program reports it: one line, then all end. */
static int
give_up(struct mw_ranks *ranks, GError *error)
{
    fprintf(stderr, "worker: %s\n", error->message);
    g_error_free(error);
    mw_ranks_abort(ranks, 1);
    return 1;
}

static int
finish(struct mw_ranks *ranks, bool good)
{
    if (good)
        mw_ranks_leave(ranks);
    else
        mw_ranks_abort(ranks, 1);
    return !good;
}

/* --- what must come out right --- */

static int
random_rounds(struct mw_ranks *ranks, uint64_t seed)
{
    return finish(ranks, ranks_random(ranks, 0, seed, ROUNDS));
}

struct lane {
    struct mw_ranks *ranks;
    int index;
    uint64_t seed;
    int rounds;
    bool good;
    pthread_t thread;
};

static void *
run_lane(void *data)
{
    struct lane *lane = data;

    lane->good = ranks_random(lane->ranks, lane->index, lane->seed + lane->index, lane->rounds);
    return NULL;
}

static int
all_lanes(struct mw_ranks *ranks, uint64_t seed, int rounds)
{
    struct lane lanes[LANES];
    bool good = true;

    for (int i = 0; i < LANES; i++) {
        lanes[i] = (struct lane){.ranks = ranks, .index = i, .seed = seed, .rounds = rounds};
        if (pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]))
            g_error("no thread");
    }
    for (int i = 0; i < LANES; i++) {
        pthread_join(lanes[i].thread, NULL);
        good = good && lanes[i].good;
    }
    return finish(ranks, good);
}

static int
lanes_at_once(struct mw_ranks *ranks, uint64_t seed)
{
    return all_lanes(ranks, seed, ROUNDS);
}

static int
large(struct mw_ranks *ranks, uint64_t seed)
{
    int64_t message = MW_RANKS_MESSAGE_BYTES_MAX / 2; /* elements of one message */

    return finish(ranks, ranks_large(ranks, 0, seed, 2 * message + 12345));
}

/* --- what must end --- */

/* Until something fails. */
static int
go_on(struct mw_ranks *ranks)
{
    GError *error = NULL;
    uint16_t data[512] = {0};

    while (mw_ranks_all_reduce(ranks, 0, data, MW_DTYPE_BF16, G_N_ELEMENTS(data), 1, &error))
        ;
    return give_up(ranks, error);
}

static int
killed(struct mw_ranks *ranks, uint64_t seed)
{
    GError *error = NULL;

    if (!mw_ranks_barrier(ranks, 1, &error))
        return give_up(ranks, error);
    if (mw_ranks_index(ranks) == mw_ranks_count(ranks) - 1)
        raise(SIGKILL);
    return go_on(ranks);
}

static void *
kill_later(void *data)
{
    const uint64_t *seed = data;

    g_usleep(*seed % 100000);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* In the middle of whatever its lanes are at. */
static int
killed_at_work(struct mw_ranks *ranks, uint64_t seed)
{
    pthread_t killer;

    if (mw_ranks_index(ranks) == mw_ranks_count(ranks) - 1 &&
        pthread_create(&killer, NULL, kill_later, &seed))
        g_error("no thread");
    return all_lanes(ranks, seed, INT_MAX);
}

static int
told_to_end(struct mw_ranks *ranks, uint64_t seed)
{
    if (mw_ranks_index(ranks) == 0)
        raise(SIGTERM);
    return go_on(ranks);
}

static int
gives_up(struct mw_ranks *ranks, uint64_t seed)
{
    if (mw_ranks_index(ranks) == 0)
        return give_up(ranks, g_error_new(1, 1, "a broken drive"));
    return go_on(ranks);
}

static void *
wait_for_all(void *data)
{
    struct lane *lane = data;
    GError *error = NULL;

    lane->good = mw_ranks_barrier(lane->ranks, lane->index, &error);
    if (!lane->good)
        fprintf(stderr, "worker: %s\n", error->message);
    g_clear_error(&error);
    return NULL;
}

/* A lane waits for ranks that never come, and need not. */
static int
cancelled(struct mw_ranks *ranks, uint64_t seed)
{
    struct lane lane = {.ranks = ranks};

    if (mw_ranks_index(ranks))
        return go_on(ranks);
    lane.index = 1;
    if (pthread_create(&lane.thread, NULL, wait_for_all, &lane))
        g_error("no thread");
    g_usleep(seed % 2000);
    mw_ranks_cancel(ranks);
    pthread_join(lane.thread, NULL);
    return finish(ranks, lane.good);
}

/* What one waits for the other is counted, and nothing that is not waiting. */
static int
waits(struct mw_ranks *ranks, uint64_t seed)
{
    const int64_t late_us = 20000;
    GError *error = NULL;

    (void)seed;
    if (!mw_ranks_barrier(ranks, 0, &error))
        return give_up(ranks, error);
    int64_t before_ns = mw_ranks_waited_ns(ranks, 0), began_us = g_get_monotonic_time();
    if (mw_ranks_index(ranks))
        g_usleep(late_us);
    if (!mw_ranks_barrier(ranks, 0, &error))
        return give_up(ranks, error);
    int64_t waited_us = (mw_ranks_waited_ns(ranks, 0) - before_ns) / 1000;
    int64_t passed_us = g_get_monotonic_time() - began_us;
    bool good = waited_us > 0 && waited_us <= passed_us - (mw_ranks_index(ranks) ? late_us : 0);
    return finish(ranks, good && mw_ranks_waited_ns(ranks, 1) == 0);
}

static int
different_plans(struct mw_ranks *ranks, uint64_t seed)
{
    double value = 0;
    GError *error = NULL;
    bool good = mw_ranks_index(ranks) ? mw_ranks_barrier(ranks, 2, &error)
                                      : mw_ranks_all_reduce_fp64(ranks, 2, &value, 1, &error);

    return good ? finish(ranks, true) : give_up(ranks, error);
}

/* One leaves in order where the others wait for it. */
static int
one_leaves(struct mw_ranks *ranks, uint64_t seed)
{
    GError *error = NULL;

    (void)seed;
    if (mw_ranks_index(ranks) == 0)
        return finish(ranks, true);
    return mw_ranks_barrier(ranks, 0, &error) ? finish(ranks, true) : give_up(ranks, error);
}

/* All leave, though one has had more collectives than the others wait for. */
static int
one_has_more(struct mw_ranks *ranks, uint64_t seed)
{
    (void)seed;
    if (mw_ranks_index(ranks) == 0)
        ranks->lanes[0].serial++;
    return finish(ranks, true);
}

/* Where all fail at once one asks for the end, also if it comes to it later than the others. */
static int
all_fail(struct mw_ranks *ranks, uint64_t seed)
{
    const int64_t late_us = 50000;
    GError *error = NULL;

    (void)seed;
    if (!mw_ranks_barrier(ranks, 0, &error))
        return give_up(ranks, error);
    if (mw_ranks_index(ranks) == 0)
        g_usleep(late_us);
    return give_up(ranks, g_error_new(1, 1, "rank %d has diverged", mw_ranks_index(ranks)));
}

/* Or if it never does: the others do not wait for it for long. */
static int
first_is_stuck(struct mw_ranks *ranks, uint64_t seed)
{
    const int64_t stuck_us = 60000000;
    GError *error = NULL;

    (void)seed;
    if (!mw_ranks_barrier(ranks, 0, &error))
        return give_up(ranks, error);
    if (mw_ranks_index(ranks) == 0)
        g_usleep(stuck_us);
    return give_up(ranks, g_error_new(1, 1, "rank %d has diverged", mw_ranks_index(ranks)));
}

/* --- by name --- */

static const struct {
    const char *name;
    int (*run)(struct mw_ranks *ranks, uint64_t seed);
    int64_t scratch_bytes;
} cases[] = {
    {"random", random_rounds, 4096},
    {"least-scratch", random_rounds, 3 * 2 * 64},
    {"lanes", lanes_at_once, 2048},
    {"large", large, 1 << 20},
    {"killed", killed, 4096},
    {"killed-at-work", killed_at_work, 2048},
    {"told-to-end", told_to_end, 4096},
    {"gives-up", gives_up, 4096},
    {"all-fail", all_fail, 4096},
    {"first-is-stuck", first_is_stuck, 4096},
    {"cancelled", cancelled, 4096},
    {"different-plans", different_plans, 4096},
    {"one-leaves", one_leaves, 4096},
    {"one-has-more", one_has_more, 4096},
    {"waits", waits, 4096},
    {"little-scratch", random_rounds, 100},
    {"one-cannot-join", random_rounds, (int64_t)1 << 60},
};

int
ranks_worker(const char *name, uint64_t seed)
{
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        if (strcmp(cases[i].name, name))
            continue;
        GError *error = NULL;
        /* The first rank asks for more than there is, where all of them would. */
        bool less =
            !strcmp(name, "one-cannot-join") && g_strcmp0(g_getenv("OMPI_COMM_WORLD_RANK"), "0");
        struct mw_ranks *ranks = mw_ranks_join(LANES, less ? 4096 : cases[i].scratch_bytes, &error);
        if (!ranks)
            return give_up(NULL, error);
        return cases[i].run(ranks, seed);
    }
    fprintf(stderr, "worker: no case %s\n", name);
    return 1;
}
