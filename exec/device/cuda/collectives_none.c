/* The collectives of a build without NCCL: there are none, and one rank needs none. */
#include "base/error.h"
#include "exec/device/cuda/collectives.h"

bool
mw_cuda_peers_possible(GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "several ranks on GPUs need NCCL, and this memwall was built without it: build it "
                "where nccl.h is (libnccl-dev), or run one process");
    return false;
}

struct mw_cuda_peers *
mw_cuda_peers_create(const struct mw_cuda_gpu *gpu, struct mw_cuda_queues *queues,
                     struct mw_ranks *ranks, uint32_t streams, GError **error)
{
    mw_cuda_peers_possible(error);
    return NULL;
}

void
mw_cuda_peers_destroy(struct mw_cuda_peers *peers)
{
}

const struct mw_collectives mw_cuda_collectives = {0};
