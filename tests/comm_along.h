/* A communicator of `count` data-parallel ranks, `stride` apart. */
#ifndef MW_TESTS_COMM_ALONG_H
#define MW_TESTS_COMM_ALONG_H

#include "plan/plan.h"

static inline struct mw_comm
comm_along(uint32_t count, uint32_t stride)
{
    struct mw_comm comm = {0};

    for (int axis = 0; axis < MW_AXIS_COUNT; axis++)
        comm.spans[axis] = (struct mw_axis_span){0, 1};
    if (count > 1)
        comm.spans[MW_AXIS_DP] = (struct mw_axis_span){stride, count};
    return comm;
}

#endif
