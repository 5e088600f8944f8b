#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exec/ranks_internal.h"
#include "ranks_random.h"
#include "ranks_worker.h"

enum { LANES = 3, ROUNDS = 150 };

#if defined(__SANITIZE_ADDRESS__)
/* Open MPI's modules stay loaded, so that the leak checker knows whose leaks it finds in the end
 * (lsan-openmpi.supp). */
int dlclose(void *module);

int
dlclose(void *module)
{
    return 0;
}
#endif

/* A rank's failure as a program reports it: one line, then all end. */
static int
give_up(struct mw_ranks *ranks, GError *error)
{
    fprintf(stderr, "worker: %s\n", error->message);
    g_error_free(error);
    mw_ranks_abort(ranks);
    return 1;
}

static int
finish(struct mw_ranks *ranks, bool good)
{
    if (good)
        mw_ranks_leave(ranks);
    else
        mw_ranks_abort(ranks);
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
    bool good;
    pthread_t thread;
};

static void *
run_lane(void *data)
{
    struct lane *lane = data;

    lane->good = ranks_random(lane->ranks, lane->index, lane->seed + lane->index, ROUNDS);
    return NULL;
}

static int
all_lanes(struct mw_ranks *ranks, uint64_t seed)
{
    struct lane lanes[LANES];
    bool good = true;

    for (int i = 0; i < LANES; i++) {
        lanes[i] = (struct lane){.ranks = ranks, .index = i, .seed = seed};
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

    while (mw_ranks_all_reduce(ranks, 0, data, false, G_N_ELEMENTS(data), 1, &error))
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

static int
different_plans(struct mw_ranks *ranks, uint64_t seed)
{
    double value = 0;
    GError *error = NULL;
    bool good = mw_ranks_index(ranks) ? mw_ranks_barrier(ranks, 2, &error)
                                      : mw_ranks_all_reduce_fp64(ranks, 2, &value, 1, &error);

    return good ? finish(ranks, true) : give_up(ranks, error);
}

/* --- by name --- */

static const struct {
    const char *name;
    int (*run)(struct mw_ranks *ranks, uint64_t seed);
    int64_t scratch_bytes;
} cases[] = {
    {"random", random_rounds, 4096},
    {"least-scratch", random_rounds, 3 * 2 * 64},
    {"lanes", all_lanes, 2048},
    {"large", large, 1 << 20},
    {"killed", killed, 4096},
    {"told-to-end", told_to_end, 4096},
    {"gives-up", gives_up, 4096},
    {"different-plans", different_plans, 4096},
    {"little-scratch", random_rounds, 100},
};

int
ranks_worker(const char *name, uint64_t seed)
{
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        if (strcmp(cases[i].name, name))
            continue;
        GError *error = NULL;
        struct mw_ranks *ranks = mw_ranks_join(LANES, cases[i].scratch_bytes, &error);
        if (!ranks)
            return give_up(NULL, error);
        return cases[i].run(ranks, seed);
    }
    fprintf(stderr, "worker: no case %s\n", name);
    return 1;
}
