#include "tests/trained_commits.h"

#include <string.h>

#include "tests/weights_fixture.h"

#define GPT2 FIXTURES "gpt2-small/config.json"

const struct trained_case trained_commits[TRAINED_COMMITS] = {
    {.name = "nvme",
     .model = GPT2,
     TRAINED_ON_DRIVES("cpu"),
     TRAINED_BATCHES(2, 24, 1),
     .commit = 1},
    {.name = "host",
     .model = GPT2,
     .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
     .params = "cpu",
     .gradients = "cpu",
     .optimizer = "nvme",
     .activations = "gpu",
     TRAINED_BATCHES(2, 24, 2),
     .commit = 1,
     .tiles = 2},
    {.name = "split", .model = GPT2, TRAINED_SPLIT("cpu")},
    {.name = "memory",
     .model = GPT2,
     .strategy = MW_STRATEGY_ZERO_OFFLOAD,
     TRAINED_BATCHES(2, 24, 1),
     .save_every = 4},
    {.name = "delayed-nvme", .model = GPT2, TRAINED_DELAYED_ON_DRIVES},
    {.name = "delayed-memory",
     .model = GPT2,
     .strategy = MW_STRATEGY_ZERO_OFFLOAD,
     .gradients = "gpu:0.03MB,cpu",
     TRAINED_BATCHES(2, 24, 1),
     .save_every = 3,
     .delayed = true},
};

struct trained_course
trained_commit_course(const char *directory, bool resume)
{
    return (struct trained_course){.steps = TRAINED_STEPS,
                                   .threads = 1,
                                   .directory = directory,
                                   .commit = true,
                                   .resume = resume,
                                   .fingerprint = 5};
}

struct trained
trained_well(const struct trained_case *what, const struct trained_course *course)
{
    struct trained trained;
    GError *error = NULL;

    if (!trained_train(what, course, &trained, &error))
        g_error("%s: %s", what->name, error->message);
    return trained;
}

uint64_t
trained_hash(const struct trained *trained)
{
    return mw_commit_checksum(trained->state, 3 * trained->elements * (int64_t)sizeof(float));
}
