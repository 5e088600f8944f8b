#include "tests/cuda/ranks_ends.h"

#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda/fake.h"
#include "tests/trained.h"
#include "tests/weights_fixture.h"

#define ILLEGAL_ADDRESS 700 /* a cudaError_t */
#define HANG_S 60

#define GPU "GPU 0 (made of threads): "
#define BEHIND ": socket closed" /* ncclGetLastError's */

const struct ranks_end ranks_ends[] = {
    {"few-gpus", "GPUs: 2 ranks of this machine, 1 GPU: one rank has one GPU", NULL},
    {"one-gpu", "GPUs: 2 ranks of a machine, 1 GPU: ranks 0 and 1 have the same one (0000:00:00.0)",
     NULL},
    {"init", GPU "ncclCommInitRankConfig: unhandled system error", NULL},
    {"init-later", GPU "ncclCommInitRankConfig: remote process exited", BEHIND},
    {"init-killed", GPU "ncclCommInitRankConfig: rank 1 (process ", " has ended"},
    {"call", GPU "ncclReduceScatter: unhandled system error", BEHIND},
    {"broken", GPU "nccl", ": remote process exited or there was a network error" BEHIND},
    {"killed", GPU "nccl", ": rank 1 (process "},
    {"lost", "an illegal memory access was encountered", NULL},
    {0},
};

static bool
is_last(const struct mw_ranks *ranks)
{
    return mw_ranks_index(ranks) == mw_ranks_count(ranks) - 1;
}

static bool
kill_last(const struct trained_case *what, int64_t step, GError **error)
{
    if (step == 2 && is_last(what->ranks))
        raise(SIGKILL);
    return true;
}

/* Of one rank's calls of NCCL. */
static const struct fault {
    const char *name;
    int rank;
    const char *call;
    int count;
    enum fake_nccl_fate fate;
    int result;
} faults[] = {
    {"init", 0, "ncclCommInitRankConfig", 1, FAKE_NCCL_FAILS, ncclSystemError},
    {"init-later", 0, "ncclCommInitRankConfig", 1, FAKE_NCCL_BREAKS, ncclRemoteError},
    {"init-killed", 1, "ncclCommInitRankConfig", 1, FAKE_NCCL_KILLS, SIGKILL},
    {"call", 0, "ncclReduceScatter", 7, FAKE_NCCL_FAILS, ncclSystemError},
    {"broken", 0, "ncclAllGather", 20, FAKE_NCCL_BREAKS, ncclRemoteError},
};

static void
spoil(const char *name, const struct mw_ranks *ranks, struct trained_case *what)
{
    int rank = mw_ranks_index(ranks);

    for (size_t i = 0; i < G_N_ELEMENTS(faults); i++) {
        const struct fault *it = &faults[i];
        if (!strcmp(it->name, name) && it->rank == rank)
            fake_nccl_fail(it->call, it->count, it->fate, it->result);
    }
    if (!strcmp(name, "one-gpu"))
        g_setenv("CUDA_VISIBLE_DEVICES", "0", TRUE);
    if (!strcmp(name, "one-gpu") || !strcmp(name, "few-gpus"))
        fake_machine.gpus = 1;
    if (!strcmp(name, "lost") && rank == 0)
        fake_fail("cudaMemcpyAsync", 100, ILLEGAL_ADDRESS);
    if (!strcmp(name, "killed"))
        what->before_batch = kill_last;
}

int
ranks_end(const char *name, const char *directory)
{
    struct trained_case what = {.name = "zero3",
                                .model = FIXTURES "gpt2-small/config.json",
                                .strategy = MW_STRATEGY_ZERO3,
                                .sequences = 1,
                                .seq = 12,
                                .grad_accum = 1,
                                .interval = 1,
                                .prefetch = 1,
                                .backend = &mw_backend_cuda};
    struct trained_course course = {.steps = 1000, .threads = 1, .directory = directory};
    struct trained trained;
    g_autoptr(GError) error = NULL;
    bool known = false;

    for (const struct ranks_end *at = ranks_ends; at->name; at++)
        known |= !strcmp(at->name, name);
    if (!known)
        return 2;
    alarm(HANG_S);
    what.ranks = mw_ranks_join(MW_TRAINER_COLLECTIVE_LANES, 8192, NULL);
    fake_machine.gpus = mw_ranks_count(what.ranks);
    spoil(name, what.ranks, &what);
    if (trained_train(&what, &course, &trained, &error))
        return 0;
    fprintf(stderr, "worker: rank %d: %s\n", mw_ranks_index(what.ranks), error->message);
    mw_ranks_abort(what.ranks, 1);
    return 1;
}
