#include "plan/plan.h"

static const char *
lookup(const char *const *names, int count, int value)
{
    return value >= 0 && value < count ? names[value] : NULL;
}

const char *
mw_tier_name(int tier)
{
    static const char *const names[MW_TIER_COUNT] = {
        [MW_TIER_GPU] = "gpu",
        [MW_TIER_CPU] = "cpu",
        [MW_TIER_NVME] = "nvme",
    };

    return lookup(names, MW_TIER_COUNT, tier);
}

const char *
mw_axis_name(int axis)
{
    static const char *const names[MW_AXIS_COUNT] = {
        [MW_AXIS_TP] = "tp", [MW_AXIS_CP] = "cp", [MW_AXIS_EP] = "ep",
        [MW_AXIS_DP] = "dp", [MW_AXIS_RP] = "rp", [MW_AXIS_PP] = "pp",
    };

    return lookup(names, MW_AXIS_COUNT, axis);
}

const char *
mw_context_name(int context)
{
    static const char *const names[MW_CONTEXT_COUNT] = {
        [MW_CONTEXT_RING] = "ring",
        [MW_CONTEXT_ALL_TO_ALL] = "all-to-all",
    };

    return lookup(names, MW_CONTEXT_COUNT, context);
}

const char *
mw_op_kind_name(int kind)
{
    const struct mw_op_traits *traits = mw_op_traits(kind);

    return traits ? traits->name : NULL;
}

const char *
mw_object_name(int object)
{
    static const char *const names[MW_OBJECT_COUNT] = {
        [MW_OBJECT_NONE] = "none",
        [MW_OBJECT_ACTIVATIONS] = "activations",
        [MW_OBJECT_PARAMETERS] = "parameters",
        [MW_OBJECT_GRADIENTS] = "gradients",
        [MW_OBJECT_CHECKPOINT] = "checkpoint",
        [MW_OBJECT_STATE] = "optimizer",
        [MW_OBJECT_UPDATED] = "updated",
    };

    return lookup(names, MW_OBJECT_COUNT, object);
}

const char *
mw_phase_name(int phase)
{
    static const char *const names[MW_PHASE_COUNT] = {
        [MW_PHASE_FORWARD] = "forward",   [MW_PHASE_RECOMPUTE] = "recompute",
        [MW_PHASE_BACKWARD] = "backward", [MW_PHASE_OPTIMIZER] = "optimizer",
        [MW_PHASE_COMMIT] = "commit",
    };

    return lookup(names, MW_PHASE_COUNT, phase);
}

const char *
mw_dtype_name(int dtype)
{
    const struct mw_dtype_traits *traits = mw_dtype_row(dtype);

    return traits ? traits->name : NULL;
}

const char *
mw_product_of_name(int of)
{
    static const char *const names[MW_PRODUCT_OF_COUNT] = {
        [MW_PRODUCT_OF_RESULT] = "result",
        [MW_PRODUCT_OF_INPUT] = "input",
        [MW_PRODUCT_OF_WEIGHTS] = "weights",
    };

    return lookup(names, MW_PRODUCT_OF_COUNT, of);
}

const char *
mw_lane_kind_name(int kind)
{
    static const char *const names[MW_LANE_KIND_COUNT] = {
        [MW_LANE_COMPUTE] = "compute",
        [MW_LANE_COLLECTIVE] = "collective",
        [MW_LANE_H2D] = "h2d",
        [MW_LANE_D2H] = "d2h",
        [MW_LANE_NVME_READ] = "nvme-read",
        [MW_LANE_NVME_WRITE] = "nvme-write",
        [MW_LANE_HOST] = "host",
    };

    return lookup(names, MW_LANE_KIND_COUNT, kind);
}

const char *
mw_channel_kind_name(int kind)
{
    static const char *const names[MW_CHANNEL_KIND_COUNT] = {
        [MW_CHANNEL_SM] = "sm",
        [MW_CHANNEL_PCIE_H2D] = "pcie-h2d",
        [MW_CHANNEL_PCIE_D2H] = "pcie-d2h",
        [MW_CHANNEL_NODE_H2D] = "node-h2d",
        [MW_CHANNEL_NODE_D2H] = "node-d2h",
        [MW_CHANNEL_DRAM] = "dram",
        [MW_CHANNEL_CORES] = "cores",
        [MW_CHANNEL_DRIVE] = "drive",
        [MW_CHANNEL_FABRIC] = "fabric",
        [MW_CHANNEL_NIC] = "nic",
    };

    return lookup(names, MW_CHANNEL_KIND_COUNT, kind);
}

const char *
mw_purpose_name(int purpose)
{
    static const char *const names[MW_PURPOSE_COUNT] = {
        [MW_PURPOSE_PARAMETERS] = "parameters",
        [MW_PURPOSE_GRADIENTS] = "gradients",
        [MW_PURPOSE_OPTIMIZER_STATE] = "optimizer-state",
        [MW_PURPOSE_OPTIMIZER_STATE_OTHER] = "optimizer-state-other",
        [MW_PURPOSE_ACTIVATION_CHECKPOINTS] = "activation-checkpoints",
        [MW_PURPOSE_ACTIVATIONS] = "activations",
        [MW_PURPOSE_PARAMETER_BUFFERS] = "parameter-buffers",
        [MW_PURPOSE_GRADIENT_BUFFERS] = "gradient-buffers",
        [MW_PURPOSE_SHARD_BUFFERS] = "shard-buffers",
        [MW_PURPOSE_CHECKPOINT_BUFFERS] = "checkpoint-buffers",
        [MW_PURPOSE_OPTIMIZER_BUFFERS] = "optimizer-buffers",
        [MW_PURPOSE_LOGITS] = "logits",
        [MW_PURPOSE_STAGE_BUFFERS] = "stage-buffers",
        [MW_PURPOSE_COMMIT_RECORDS] = "commit-records",
        [MW_PURPOSE_SAVES] = "saves",
        [MW_PURPOSE_CHECKSUMS] = "checksums",
        [MW_PURPOSE_OPTIMIZER_VECTORS] = "optimizer-vectors",
        [MW_PURPOSE_PRODUCT_INPUTS] = "product-inputs",
        [MW_PURPOSE_RESULT_GRADIENTS] = "result-gradients",
    };

    return lookup(names, MW_PURPOSE_COUNT, purpose);
}

const char *
mw_use_mode_name(int mode)
{
    static const char *const names[MW_USE_MODE_COUNT] = {
        [MW_USE_DEFINE] = "define",
        [MW_USE_READ] = "read",
        [MW_USE_MODIFY] = "modify",
    };

    return lookup(names, MW_USE_MODE_COUNT, mode);
}

const char *
mw_role_name(int role)
{
    static const char *const names[MW_ROLE_COUNT] = {
        [MW_ROLE_NONE] = "none",
        [MW_ROLE_SOURCE] = "source",
        [MW_ROLE_DESTINATION] = "destination",
        [MW_ROLE_PARAMETER] = "parameter",
        [MW_ROLE_GRADIENT] = "gradient",
        [MW_ROLE_SUM] = "sum",
        [MW_ROLE_STATE] = "state",
        [MW_ROLE_INPUT] = "input",
        [MW_ROLE_OUTPUT] = "output",
        [MW_ROLE_CHECKPOINT] = "checkpoint",
        [MW_ROLE_LOGITS] = "logits",
        [MW_ROLE_RECEIVED] = "received",
        [MW_ROLE_SENT] = "sent",
        [MW_ROLE_RECORD] = "record",
        [MW_ROLE_SAVE] = "save",
        [MW_ROLE_WIDENED] = "widened",
    };

    return lookup(names, MW_ROLE_COUNT, role);
}

const char *
mw_work_name(const struct mw_work *work)
{
    return work->operator_ != MW_OPERATOR_NONE ? mw_operator_name(work->operator_)
                                               : mw_object_name(work->object);
}
