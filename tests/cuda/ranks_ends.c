#include "tests/cuda/ranks_ends.h"

#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda/fake.h"
#include "tests/trained.h"
#include "tests/weights_fixture.h"

#define HANG_S 300
#define GPU_BLOCKS 2 /* a multiprocessor one */

#define GPU "GPU 0 (made of threads): "
#define BEHIND ": socket closed" /* ncclGetLastError's */

const struct ranks_end ranks_ends[] = {
    {"few-gpus", "GPUs: 2 ranks of this machine, 1 GPU: one rank has one GPU", NULL},
    {"one-gpu", "GPUs: 2 ranks of a machine, 1 GPU: ranks 0 and 1 have the same one (0000:00:00.0)",
     NULL},
    {"init", GPU "ncclCommInitRankConfig: unhandled system error", NULL},
    {"init-later", GPU "ncclCommInitRankConfig: remote process exited", BEHIND},
    {"init-stuck", GPU "ncclCommInitRankConfig: remote process exited", BEHIND},
    {"init-killed", GPU "ncclCommInitRankConfig: rank 1 (process ", " has ended"},
    {"split", GPU "ncclCommSplit: unhandled system error", BEHIND},
    {"split-later", GPU "ncclCommSplit: remote process exited", BEHIND},
    {"split-killed", GPU "ncclCommSplit: rank 1 (process ", " has ended"},
    {"call", GPU "ncclReduceScatter: unhandled system error", BEHIND},
    {"broken", GPU "nccl", ": remote process exited or there was a network error" BEHIND},
    {"killed", GPU "nccl", ": rank 1 (process "},
    {"hangs", "no op has ended for 2 s; still running: ", "; a device, a drive or a rank hangs"},
    {"two", GPU "ncclAllGather: rank 1 (process ", " has ended"},
    {"two-of-old", GPU "ncclAllGather: rank 1 (process ", " has ended"},
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

/* It lives. */
static bool
hang_last(const struct trained_case *what, int64_t step, GError **error)
{
    while (step == 2 && is_last(what->ranks))
        pause();
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
    {"init-stuck", 0, "ncclCommInitRankConfig", 1, FAKE_NCCL_BREAKS, ncclRemoteError},
    {"init-killed", 1, "ncclCommInitRankConfig", 1, FAKE_NCCL_KILLS, SIGKILL},
    {"split", 0, "ncclCommSplit", 1, FAKE_NCCL_FAILS, ncclSystemError},
    {"split-later", 0, "ncclCommSplit", 1, FAKE_NCCL_BREAKS, ncclRemoteError},
    {"split-killed", 1, "ncclCommSplit", 1, FAKE_NCCL_KILLS, SIGKILL},
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
    fake_nccl.hangs = !strcmp(name, "init-stuck");
    if (!strcmp(name, "two-of-old"))
        fake_nccl.version = 21703;
    if (!strcmp(name, "one-gpu"))
        g_setenv("CUDA_VISIBLE_DEVICES", "0", TRUE);
    if (!strcmp(name, "one-gpu") || !strcmp(name, "few-gpus"))
        fake_machine.gpus = 1;
    if (!strcmp(name, "lost") && rank == 0)
        fake_fail("cudaMemcpyAsync", 100, FAKE_ILLEGAL_ADDRESS);
    if (!strcmp(name, "killed"))
        what->before_batch = kill_last;
    if (!strcmp(name, "hangs")) {
        what->before_batch = hang_last;
        what->patience_s = is_last(ranks) ? 0 : 2;
    }
}

/* --- two communicators at once --------------------------------------------------------------- */

struct op {
    GAsyncQueue *ended; /* of GError */
};

static void
has_ended(void *data, int64_t start_ns, int64_t end_ns, GError *error)
{
    struct op *op = data;

    (void)start_ns;
    (void)end_ns;
    g_assert_nonnull(error);
    g_async_queue_push(op->ended, error);
}

/* Queues an all-gather that the other rank does not come to. */
static void
gather(void *device, void *peers, int stream, const uint32_t *after, struct op *op, void *memory)
{
    struct mw_ranks_part part = {64, 32, 0, 0};
    GError *error = NULL;

    mw_backend_cuda.begin(device, stream, (uint32_t)stream, after, after != NULL, &error);
    g_assert_no_error(error);
    mw_backend_cuda.collectives->all_gather(peers, stream, memory, memory, &part, 2, &error);
    g_assert_no_error(error);
    mw_backend_cuda.end(device, has_ended, op, &error);
    g_assert_no_error(error);
}

/* The first communicator's op waits for the other's, which waits for a rank that is gone. */
static int
end_two(struct mw_ranks *ranks)
{
    static const uint32_t before = 2;
    struct op op = {g_async_queue_new()};
    struct mw_backend_options options = {.node_rank = mw_ranks_node_index(ranks), .node_ranks = 2};
    GError *error = NULL;
    void *memory, *device = mw_backend_cuda.open(&options, 256, &memory, &error);
    void *peers = device ? mw_backend_cuda.join(device, ranks, 1u << 0 | 1u << 2, &error) : NULL;

    g_assert_no_error(error);
    mw_backend_cuda.hurry(device, 0);
    mw_backend_cuda.hurry(device, 2);
    g_assert_cmpint(fake_nccl.blocks, <=, GPU_BLOCKS);
    g_assert_cmpint(fake_nccl.splits, ==, fake_nccl.version >= 21801);
    if (!is_last(ranks)) {
        gather(device, peers, 2, NULL, &op, memory);
        gather(device, peers, 0, &before, &op, (char *)memory + 128);
    }
    mw_ranks_barrier(ranks, 0, NULL); /* what is queued has no error yet */
    if (is_last(ranks))
        raise(SIGKILL);
    error = g_async_queue_pop(op.ended);
    fprintf(stderr, "worker: rank 0: %s\n", error->message);
    g_clear_error(&error);
    error = g_async_queue_pop(op.ended);
    g_clear_error(&error);
    mw_backend_cuda.close(device);
    mw_ranks_abort(ranks, 1);
    return 1;
}

/* The second communicator is split off the first one. */
static int
end_split(struct mw_ranks *ranks)
{
    struct mw_backend_options options = {.node_rank = mw_ranks_node_index(ranks), .node_ranks = 2};
    g_autoptr(GError) error = NULL;
    void *memory, *device = mw_backend_cuda.open(&options, 256, &memory, &error);

    if (device && mw_backend_cuda.join(device, ranks, 1u << 0 | 1u << 2, &error))
        return 0;
    fprintf(stderr, "worker: rank %d: %s\n", mw_ranks_index(ranks), error->message);
    mw_backend_cuda.close(device);
    mw_ranks_abort(ranks, 1);
    return 1;
}

/* --- all ------------------------------------------------------------------------------------- */

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
    if (g_str_has_prefix(name, "two"))
        return end_two(what.ranks);
    if (g_str_has_prefix(name, "split"))
        return end_split(what.ranks);
    if (trained_train(&what, &course, &trained, &error))
        return 0;
    fprintf(stderr, "worker: rank %d: %s\n", mw_ranks_index(what.ranks), error->message);
    mw_ranks_abort(what.ranks, 1);
    return 1;
}
