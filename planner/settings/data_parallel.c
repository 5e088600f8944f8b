/* What data-parallel ranks do with their gradients. */
#include <glib.h>

#include "planner/settings/settings.h"

static const struct mw_data_parallel_row rows[MW_DATA_PARALLEL_COUNT] = {
    [MW_DATA_PARALLEL_SYNC] = {.name = "sync",
                               .runs = true,
                               .update = "one, of the sum of all gradients, for which all wait "
                                         "(bulk synchronous parallel)",
                               .staleness = "none",
                               .source = "Valiant, Commun. ACM 33(8), 1990, doi "
                                         "10.1145/79173.79181"},
    [MW_DATA_PARALLEL_ASYNC] = {.name = "async",
                                .runs = true,
                                .update = "N, each of one GPU's gradient, in the order of GPUs; a "
                                          "GPU goes on with the parameters that its own leaves",
                                .staleness = "N - 1 updates",
                                .source = "round-robin updates: Zinkevich et al., Slow Learners "
                                          "are Fast, NIPS 2009; parameter servers in shards: "
                                          "Downpour SGD, Dean et al., NIPS 2012"},
};

const struct mw_data_parallel_row *
mw_data_parallel_row(int way)
{
    g_assert(way >= 0 && way < MW_DATA_PARALLEL_COUNT);
    return &rows[way];
}
