/* Owner-broadcast, checked by a device that records its calls: links are busy one at a
 * time, and owners broadcast no more than the part. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trained.h"
#include "trainer_worker.h"
#include "weights_fixture.h"

#define STEPS 2
#define MOVE_US 300 /* long enough for others to be seen */

enum { TO_DEVICE, TO_HOST, LINKS };

static struct {
    struct mw_ranks *ranks;
    char *device;
    int64_t device_bytes;
    int *moving; /* [LINKS] ranks that move at the moment; shared by all */
    int64_t moves[LINKS];
    int64_t broadcast_bytes, planned_bytes; /* of all steps */
} seen;

static bool
is_on_device(const void *at)
{
    return (const char *)at >= seen.device && (const char *)at < seen.device + seen.device_bytes;
}

static void *
open_watched(const struct mw_backend_options *options, int64_t bytes, void **memory, GError **error)
{
    void *backend = mw_backend_cpu.open(options, bytes, memory, error);

    seen.device = *memory;
    seen.device_bytes = bytes;
    return backend;
}

static bool
copy_watched(void *backend, void *to, const void *from, int64_t bytes, GError **error)
{
    bool over_link = is_on_device(to) != is_on_device(from);
    int link = is_on_device(to) ? TO_DEVICE : TO_HOST;

    if (over_link && __atomic_fetch_add(&seen.moving[link], 1, __ATOMIC_SEQ_CST))
        trainer_worker_fail(seen.ranks, "two owners move at once, link %d", link);
    if (over_link)
        g_usleep(MOVE_US);
    bool good = mw_backend_cpu.copy(backend, to, from, bytes, error);
    if (over_link)
        __atomic_fetch_sub(&seen.moving[link], 1, __ATOMIC_SEQ_CST);
    seen.moves[link] += over_link;
    return good;
}

static bool
broadcast_watched(void *self, int stream, void *data, int64_t bytes, int root, GError **error)
{
    seen.broadcast_bytes += bytes;
    return mw_ranks_collectives.broadcast(self, stream, data, bytes, root, error);
}

static void *
join_watched(void *backend, struct mw_ranks *ranks, uint32_t streams, GError **error)
{
    return ranks;
}

/* Tied logits are of the embedding's weight. */
static int64_t
part_elements(const struct mw_plan *plan, const struct mw_op *op)
{
    uint32_t operators = 1u << plan->works[op->work].operator_;

    if (operators == 1u << MW_OPERATOR_LOGITS)
        operators |= 1u << MW_OPERATOR_EMBEDDING;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].layer == op->layer && plan->tensors[t].operators & operators)
            return mw_tensor_part_elements(&plan->tensors[t], op->tile);
    g_error("op %d has no tensor", (int)(op - plan->ops));
}

static void
count_planned(void *data, const struct mw_trainer_step *step)
{
    const struct mw_plan *plan = step->plan;

    for (uint32_t i = 0; i < plan->op_count; i++)
        if (plan->works[plan->ops[i].work].kind == MW_OP_BROADCAST)
            seen.planned_bytes += 2 * part_elements(plan, &plan->ops[i]);
}

/* At the end: when a step is told of, the next one may broadcast already. */
static void
check_broadcasts(void)
{
    if (!seen.planned_bytes || seen.broadcast_bytes != seen.planned_bytes)
        trainer_worker_fail(seen.ranks,
                            "%" G_GINT64_FORMAT " bytes were broadcast of %" G_GINT64_FORMAT,
                            seen.broadcast_bytes, seen.planned_bytes);
}

/* Zeroes, in a file that all ranks map. */
static int *
share(const char *directory)
{
    g_autofree char *path = g_build_filename(directory, "moving", NULL);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *shared = MAP_FAILED;

    if (fd >= 0 && !ftruncate(fd, LINKS * sizeof(int)))
        shared = mmap(NULL, LINKS * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        g_error("%s cannot be shared", path);
    close(fd);
    return shared;
}

int
trainer_worker_turns(struct mw_ranks *ranks)
{
    struct mw_collectives collectives = mw_ranks_collectives;
    struct mw_backend backend = mw_backend_cpu;
    const struct trained_case what = {.name = "turns",
                                      .model = FIXTURES "gpt2-small/config.json",
                                      .strategy = MW_STRATEGY_ZERO_INFINITY_CPU,
                                      .partition = MW_PARTITION_OWNER,
                                      .params = "cpu",
                                      .gradients = "cpu",
                                      .optimizer = "cpu",
                                      .activations = "gpu",
                                      TRAINED_BATCHES(1, 12, 2),
                                      .backend = &backend,
                                      .ranks = ranks};
    struct trained_course course = {.steps = STEPS,
                                    .threads = 1,
                                    .directory = trainer_worker_directory,
                                    .on_step = count_planned};
    struct trained trained;
    GError *error = NULL;

    collectives.broadcast = broadcast_watched;
    backend.open = open_watched;
    backend.copy = copy_watched;
    backend.collectives = &collectives;
    backend.join = join_watched;
    seen.ranks = ranks;
    seen.moving = share(trainer_worker_directory);
    trainer_worker_meet(ranks, trained_train(&what, &course, &trained, &error), error);
    check_broadcasts();
    if (!seen.moves[TO_DEVICE] || !seen.moves[TO_HOST])
        trainer_worker_fail(ranks, "nothing was moved");
    trained_clear(&trained);
    mw_ranks_leave(ranks);
    return 0;
}
