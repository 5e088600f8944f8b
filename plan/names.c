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
mw_op_kind_name(int kind)
{
    static const char *const names[MW_OP_KIND_COUNT] = {
        [MW_OP_COMPUTE] = "compute",
        [MW_OP_UPDATE] = "update",
        [MW_OP_NORM_CHECK] = "norm-check",
        [MW_OP_ACCUMULATE] = "accumulate",
        [MW_OP_COPY] = "copy",
        [MW_OP_NVME_READ] = "nvme-read",
        [MW_OP_NVME_WRITE] = "nvme-write",
        [MW_OP_H2D] = "h2d",
        [MW_OP_D2H] = "d2h",
        [MW_OP_ALL_GATHER] = "all-gather",
        [MW_OP_REDUCE_SCATTER] = "reduce-scatter",
        [MW_OP_ALL_REDUCE] = "all-reduce",
        [MW_OP_ALL_TO_ALL] = "all-to-all",
        [MW_OP_BROADCAST] = "broadcast",
        [MW_OP_SEND] = "send",
        [MW_OP_RECV] = "recv",
        [MW_OP_COMMIT] = "commit",
    };

    return lookup(names, MW_OP_KIND_COUNT, kind);
}

const char *
mw_operator_name(int operator_)
{
    static const char *const names[MW_OPERATOR_COUNT] = {
        [MW_OPERATOR_NONE] = "none",
        [MW_OPERATOR_EMBEDDING] = "embedding",
        [MW_OPERATOR_NORM1] = "norm1",
        [MW_OPERATOR_QKV] = "qkv",
        [MW_OPERATOR_ATTENTION] = "attention",
        [MW_OPERATOR_PROJECTION] = "projection",
        [MW_OPERATOR_NORM2] = "norm2",
        [MW_OPERATOR_MLP_UP] = "mlp-up",
        [MW_OPERATOR_MLP_ACT] = "mlp-act",
        [MW_OPERATOR_MLP_DOWN] = "mlp-down",
        [MW_OPERATOR_FINAL_NORM] = "final-norm",
        [MW_OPERATOR_LOGITS] = "logits",
        [MW_OPERATOR_LOSS] = "loss",
        [MW_OPERATOR_CHECKPOINT] = "checkpoint",
        [MW_OPERATOR_OPTIMIZER] = "optimizer",
        [MW_OPERATOR_UPDATED] = "updated",
    };

    return lookup(names, MW_OPERATOR_COUNT, operator_);
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
    static const char *const names[MW_DTYPE_COUNT] = {
        [MW_DTYPE_NONE] = "none",
        [MW_DTYPE_BF16] = "bf16",
        [MW_DTYPE_FP16] = "fp16",
        [MW_DTYPE_FP32] = "fp32",
    };

    return lookup(names, MW_DTYPE_COUNT, dtype);
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
        [MW_PURPOSE_COMMIT_RECORDS] = "commit-records",
        [MW_PURPOSE_SAVES] = "saves",
        [MW_PURPOSE_CHECKSUMS] = "checksums",
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
