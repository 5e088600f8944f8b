#include "sim/cost.h"

#include <math.h>
#include <string.h>

#include "hardware/numa.h"
#include "hardware/ring.h"
#include "plan/optimizers.h"
#include "plan/state.h"
#include "sim/kernels.h"

/* The cost of an op that never ends.  The engine refuses such a plan, because its time
 * overflows. */
#define NEVER_NS ((double)(INT64_MAX / 4))

/* Rounding error of a division, as a fraction of a nanosecond. */
#define ROUNDING_NS 1e-6

static bool
is_collective(const struct mw_work *work)
{
    return mw_op_traits(work->kind)->agent == MW_AGENT_NETWORK;
}

/* Seconds of drive time per second.  Where the profile has rates of both directions at once, each
 * direction's time is its own, and the engine's lines between them limit both. */
static double
drive_duplex(const struct mw_hardware *hardware)
{
    return mw_cost_drives_mixed(hardware).read > 0 ? 1 : hardware->nvme_duplex;
}

/* Draw units per second of a whole channel, before its users divide it. */
static double
channel_units_per_s(const struct mw_plan *plan, const struct mw_channel *channel,
                    const struct mw_hardware *hardware)
{
    switch ((enum mw_channel_kind)channel->kind) {
    case MW_CHANNEL_PCIE_H2D:
        return hardware->pcie_h2d_bytes_per_s;
    case MW_CHANNEL_PCIE_D2H:
        return hardware->pcie_d2h_bytes_per_s;
    case MW_CHANNEL_NODE_H2D:
        return hardware->pcie_node_h2d_bytes_per_s;
    case MW_CHANNEL_NODE_D2H:
        return hardware->pcie_node_d2h_bytes_per_s;
    case MW_CHANNEL_DRAM:
        return hardware->host_memory_bytes_per_s;
    case MW_CHANNEL_CORES:
        return mw_numa_update_params_per_s(hardware, plan->ranks_per_node);
    case MW_CHANNEL_DRIVE:
        return drive_duplex(hardware);
    case MW_CHANNEL_FABRIC:
        return hardware->fabric_bytes_per_s;
    case MW_CHANNEL_NIC:
        return hardware->nic_bytes_per_s;
    case MW_CHANNEL_SM:
    case MW_CHANNEL_KIND_COUNT:
        break;
    }
    return 1; /* multiprocessors: all of them */
}

static double
users_of(const struct mw_channel *channel)
{
    return channel->users > 0 ? channel->users : 1;
}

static double
drive_rate(const struct mw_hardware *hardware, bool write)
{
    return write ? hardware->nvme_write_bytes_per_s : hardware->nvme_read_bytes_per_s;
}

/* Little's law (J. D. C. Little, Operations Research 9(3), 1961): requests in flight = their rate
 * times the time of one.  With at most queue_depth of them, each at least a latency in flight, no
 * more than queue_depth blocks a latency are moved. */
double
mw_cost_drive_bytes_per_s(const struct mw_hardware *hardware, bool write)
{
    double in_flight_bytes =
        (double)hardware->nvme_queue_depth * (double)hardware->nvme_block_bytes;

    if (!(hardware->nvme_latency_s > 0 && in_flight_bytes > 0))
        return drive_rate(hardware, write);
    return fmin(drive_rate(hardware, write), in_flight_bytes / hardware->nvme_latency_s);
}

/* A queue too short for the drives may leave them time for the other direction, so the parts are of
 * what the queue reaches.  Parts that add up to less than 1 are raised to 1: the engine's shares
 * are those of a concave region, and whoever loses by doing both at once can take turns. */
struct mw_cost_mixed
mw_cost_drives_mixed(const struct mw_hardware *hardware)
{
    struct mw_cost_mixed mixed = {0};

    if (!(hardware->nvme_mixed_read_bytes_per_s > 0 && hardware->nvme_mixed_write_bytes_per_s > 0))
        return mixed;
    mixed.read =
        fmin(1, hardware->nvme_mixed_read_bytes_per_s / mw_cost_drive_bytes_per_s(hardware, false));
    mixed.write =
        fmin(1, hardware->nvme_mixed_write_bytes_per_s / mw_cost_drive_bytes_per_s(hardware, true));
    double both = mixed.read + mixed.write;
    if (both < 1) {
        mixed.read /= both;
        mixed.write /= both;
    }
    return mixed;
}

double
mw_cost_check_bytes_per_s(const struct mw_hardware *hardware)
{
    return hardware->host_checksum_bytes_per_s > 0 ? hardware->host_checksum_bytes_per_s : INFINITY;
}

double
mw_cost_operator_bytes_per_s(const struct mw_hardware *hardware)
{
    return hardware->gpu_operator_bytes_per_s > 0 ? hardware->gpu_operator_bytes_per_s
                                                  : hardware->gpu_memory_bytes_per_s;
}

double
mw_cost_loss_bytes_per_s(const struct mw_hardware *hardware)
{
    return hardware->gpu_loss_bytes_per_s > 0 ? hardware->gpu_loss_bytes_per_s
                                              : hardware->gpu_memory_bytes_per_s;
}

/* The rate of a work's bytes beside its products. */
static double
pass_bytes_per_s(const struct mw_work *work, const struct mw_hardware *hardware)
{
    if (work->kind == MW_OP_COMPUTE && work->operator_ == MW_OPERATOR_LOSS)
        return mw_cost_loss_bytes_per_s(hardware);
    if (work->kind == MW_OP_COMPUTE && !mw_operator_row(work->operator_)->streams)
        return mw_cost_operator_bytes_per_s(hardware);
    return hardware->gpu_memory_bytes_per_s;
}

/* Ranks wait for the one with the most tokens. */
static double
fullest(const struct mw_work *work)
{
    return fmax(1, work->fullest);
}

/* The rate of a work's products, FLOP/s, on the slowest GPU: ranks wait for each other. */
static double
products_flops(const struct mw_plan *plan, const struct mw_work *work,
               const struct mw_hardware *hardware)
{
    struct mw_work_product of_fullest[MW_WORK_PRODUCTS_MAX];
    const struct mw_work_product *first = work->products;

    if (work->fullest > 1) {
        memcpy(of_fullest, work->products, sizeof of_fullest);
        mw_kernel_add_rows(of_fullest, work->product_count, work->fullest);
        first = of_fullest;
    }
    struct mw_kernel_work kernel = {
        .products = first,
        .product_count = work->product_count,
        .attention = work->attention,
        .backward = work->product_count > MW_ATTENTION_FORWARD_PRODUCTS,
        .fp8 = first->dtype == MW_DTYPE_FP8,
        .size = work->attention.heads ? mw_kernel_attention_size(hardware, &work->attention)
                                      : mw_kernel_size(first->m, first->n, first->k),
    };

    return mw_kernel_dtype_share(hardware, (enum mw_dtype)first->dtype) *
           mw_kernel_slowest_share(hardware, plan->world_ranks) *
           mw_kernel_flops(hardware, &kernel);
}

double
mw_cost_operator_passes(const struct mw_hardware *hardware, enum mw_operator operator_,
                        enum mw_turn turn)
{
    double passes;

    switch (operator_) {
    case MW_OPERATOR_NORM1:
    case MW_OPERATOR_NORM2:
    case MW_OPERATOR_FINAL_NORM:
        passes = hardware->norm_passes;
        break;
    case MW_OPERATOR_QKV:
        passes = hardware->position_passes;
        break;
    case MW_OPERATOR_ATTENTION:
        passes = hardware->gpu_flash_attention ? 1 : hardware->score_passes[turn];
        break;
    case MW_OPERATOR_LOSS:
        passes = 1;
        break;
    case MW_OPERATOR_MLP_ACT:
        passes = hardware->activation_passes;
        break;
    case MW_OPERATOR_QKV_LORA:
    case MW_OPERATOR_PROJECTION_LORA:
    case MW_OPERATOR_MLP_UP_LORA:
    case MW_OPERATOR_MLP_DOWN_LORA:
        passes = hardware->adapter_passes;
        break;
    default:
        passes = hardware->other_passes;
    }
    return passes > 0 ? passes : 1;
}

#define SAME(field) (a->field == b->field)

bool
mw_cost_same_passes(const struct mw_hardware *a, const struct mw_hardware *b)
{
    return SAME(norm_passes) && SAME(position_passes) && SAME(gpu_flash_attention) &&
           SAME(score_passes[MW_TURN_FORWARD]) && SAME(score_passes[MW_TURN_BACKWARD]) &&
           SAME(activation_passes) && SAME(adapter_passes) && SAME(other_passes) &&
           mw_kernel_same_skips(a, b);
}

/* What AdamW moves beyond a fused kernel is, in part, a kernel for each operation, of which another
 * optimizer has others, and else casts, clears and clips, which are there whatever updates. */
double
mw_cost_update_passes(const struct mw_hardware *hardware, int optimizer)
{
    const struct mw_optimizer_row *adamw = mw_optimizer_row(MW_OPTIMIZER_ADAMW);
    const struct mw_optimizer_row *row = mw_optimizer_row(optimizer);
    double passes = fmax(1, hardware->update_passes);

    if (!row || row == adamw)
        return passes;
    double fused = mw_optimizer_fused_bytes(MW_OPTIMIZER_ADAMW),
           own = mw_optimizer_fused_bytes(optimizer);
    double more = (passes - 1) * fused, unfused_more = (double)adamw->unfused_bytes - fused;
    double share = fmin(hardware->update_unfused, more / unfused_more);
    double around = more - share * unfused_more;
    double own_share = row->copies.fuses ? share : hardware->update_unfused_other;
    return 1 + (around + own_share * fmax(0, (double)row->unfused_bytes - own)) / own;
}

enum mw_turn
mw_cost_turn(uint32_t products)
{
    return products <= MW_ATTENTION_FORWARD_PRODUCTS      ? MW_TURN_FORWARD
           : products < 3 * MW_ATTENTION_FORWARD_PRODUCTS ? MW_TURN_BACKWARD
                                                          : MW_TURN_BACKWARD_AGAIN;
}

static double
work_passes(const struct mw_plan *plan, const struct mw_work *work,
            const struct mw_hardware *hardware)
{
    switch (work->kind) {
    case MW_OP_COMPUTE:
        return mw_cost_operator_passes(hardware, work->operator_,
                                       mw_cost_turn(work->product_count));
    case MW_OP_UPDATE:
        return mw_cost_update_passes(hardware, (int)plan->shape.optimizer);
    default:
        return 1;
    }
}

static double
compute_s(const struct mw_plan *plan, const struct mw_work *work,
          const struct mw_hardware *hardware)
{
    double rate = pass_bytes_per_s(work, hardware);
    double seconds = (double)work->bytes * work_passes(plan, work, hardware) / rate +
                     (double)work->coded_bytes / mw_cost_operator_bytes_per_s(hardware);
    double products_s =
        work->product_count ? (double)work->flops / products_flops(plan, work, hardware) : 0;

    return (seconds + products_s) * fullest(work) + (double)work->launches * hardware->gpu_launch_s;
}

/* The time of an update.  On the host it uses all cores, or all of the memory's rate, until others
 * want their share; the profile's rate is that of AdamW, and others move fewer bytes. */
static double
update_s(const struct mw_plan *plan, const struct mw_work *work, const struct mw_hardware *hardware)
{
    enum mw_dtype dtype = plan->shape.dtype == MW_DTYPE_NONE ? MW_DTYPE_BF16 : plan->shape.dtype;
    double adamw_bytes = MW_UPDATE_STATE_BYTES + 2.0 * (double)mw_dtype_element_bytes(dtype);

    if (!work->host)
        return compute_s(plan, work, hardware);
    return (double)work->bytes / adamw_bytes /
           mw_numa_update_params_per_s(hardware, plan->ranks_per_node);
}

double
mw_cost_norm_bytes_per_s(const struct mw_hardware *hardware)
{
    return hardware->host_norm_bytes_per_s > 0 ? hardware->host_norm_bytes_per_s
                                               : hardware->host_memory_bytes_per_s;
}

double
mw_cost_exact_sums_bytes_per_s(const struct mw_hardware *hardware)
{
    return hardware->host_exact_sums_bytes_per_s > 0 ? hardware->host_exact_sums_bytes_per_s
                                                     : mw_cost_norm_bytes_per_s(hardware);
}

/* The share of the memory's rate that passes reach of which the first takes the norm. */
static double
norm_share(int passes, const struct mw_hardware *hardware)
{
    double norm = mw_cost_norm_bytes_per_s(hardware) / hardware->host_memory_bytes_per_s;
    double sums = mw_cost_exact_sums_bytes_per_s(hardware) / hardware->host_memory_bytes_per_s;

    return passes == 1 ? norm : passes / (1 / norm + (passes - 1) / sums);
}

/* The share of the memory's rate that a host pass reaches.  The norm sums squares in fp64, and
 * exact sums their digits, which cores may do more slowly than memory delivers.  An agreement makes
 * exact sums of what it reads from drives, whose bytes pass through memory twice. */
static double
pass_share(const struct mw_plan *plan, const struct mw_work *work,
           const struct mw_hardware *hardware)
{
    bool on_its_way = work->object == MW_OBJECT_GRADIENTS;

    if (work->kind == MW_OP_AGREE)
        return fmin(1, 2 * mw_cost_exact_sums_bytes_per_s(hardware) /
                           hardware->host_memory_bytes_per_s);
    if (work->kind != MW_OP_NORM || !work->host)
        return 1;
    return norm_share(mw_optimizer_norm_passes(plan->shape.optimizer, on_its_way), hardware);
}

static double
pass_s(const struct mw_plan *plan, const struct mw_work *work, const struct mw_hardware *hardware)
{
    if (!work->host)
        return compute_s(plan, work, hardware);
    return (double)work->bytes /
           (hardware->host_memory_bytes_per_s * pass_share(plan, work, hardware));
}

/* The time of the drives after they have answered: all drives work at once, with their queues as
 * full as they get. */
static double
nvme_s(const struct mw_work *work, const struct mw_hardware *hardware)
{
    return (double)work->bytes /
           fmin(mw_cost_drive_bytes_per_s(hardware, mw_op_traits(work->kind)->writes),
                mw_cost_check_bytes_per_s(hardware));
}

static bool
is_on_drives(const struct mw_work *work)
{
    return mw_op_traits(work->kind)->agent == MW_AGENT_DRIVES;
}

/* The latency before the drives move bytes.  A drive accepts other requests in the meantime.  Where
 * the queue is too short to hide the latency, the rate already includes it. */
static double
lead_s(const struct mw_work *work, const struct mw_hardware *hardware)
{
    double rest_s =
        (double)work->bytes / fmin(drive_rate(hardware, mw_op_traits(work->kind)->writes),
                                   mw_cost_check_bytes_per_s(hardware));

    if (!is_on_drives(work))
        return 0;
    return fmax(0, hardware->nvme_latency_s + rest_s - nvme_s(work, hardware));
}

static struct mw_ring
ring_of(const struct mw_plan *plan, const struct mw_work *work, const struct mw_hardware *hardware)
{
    struct mw_comm_shape comm = {.size = 1, .ranks_per_node = 1, .groups_per_node = 1};

    if (work->comm != MW_NONE)
        comm = mw_plan_comm_shape(plan, work->comm);
    return mw_op_traits(work->kind)->pattern == MW_PATTERN_PASS
               ? mw_ring_of_passes(hardware, comm.size, comm.ranks_per_node, comm.groups_per_node)
               : mw_ring_of(hardware, comm.size, comm.ranks_per_node, comm.groups_per_node);
}

/* How each pattern is carried out, and in what time. */
static const struct {
    enum mw_ring_kind kind;
    double (*time_s)(const struct mw_ring *ring, double bytes);
} patterns[MW_PATTERN_COUNT] = {
    [MW_PATTERN_GATHER] = {MW_RING_GATHER, mw_ring_s},
    [MW_PATTERN_REDUCE] = {MW_RING_ALL_REDUCE, mw_ring_all_reduce_s},
    [MW_PATTERN_SPREAD] = {MW_RING_BROADCAST, mw_ring_broadcast_s},
    [MW_PATTERN_EXCHANGE] = {MW_RING_ALL_TO_ALL, mw_ring_all_to_all_s},
    [MW_PATTERN_PASS] = {MW_RING_SEND, mw_ring_passes_s},
    [MW_PATTERN_HOP] = {MW_RING_SEND, mw_ring_send_s},
};

static enum mw_ring_kind
ring_kind(const struct mw_work *work)
{
    return patterns[mw_op_traits(work->kind)->pattern].kind;
}

/* What software clears, flattens and copies in GPU memory before a collective and after it. */
static double
around_s(const struct mw_work *work, uint32_t ranks, const struct mw_hardware *hardware)
{
    bool gathers = work->object == MW_OBJECT_PARAMETERS;
    double passes = gathers ? hardware->gather_passes : hardware->reduce_passes;
    double kernels = gathers ? hardware->gather_kernels : hardware->reduce_kernels;

    if (!gathers && work->object != MW_OBJECT_GRADIENTS)
        return 0;
    return passes * (double)work->bytes / hardware->gpu_memory_bytes_per_s +
           kernels * ranks * hardware->gpu_launch_s;
}

/* The sum of tensor slices as a reduce-scatter and an all-gather, between which each slice has its
 * part of the tokens (Korthikanti et al., arXiv 2205.05198, Sec. 4.2.2): no switch adds up. */
static bool
is_sum_in_halves(const struct mw_plan *plan, const struct mw_work *work)
{
    return plan->shape.sequence_parallel && work->kind == MW_OP_ALL_REDUCE &&
           work->object == MW_OBJECT_ACTIVATIONS;
}

static double
collective_s(const struct mw_plan *plan, const struct mw_work *work,
             const struct mw_hardware *hardware)
{
    const struct mw_ring ring = ring_of(plan, work, hardware);
    double bytes = (double)work->bytes * fullest(work);

    if (ring.ranks <= 1)
        return 0;
    if (is_sum_in_halves(plan, work))
        return 2 * mw_ring_s(&ring, bytes);
    /* Gradients of a norm's weights are summed up where they lie. */
    double around =
        mw_plan_sums_norm(plan, work) ? 0 : around_s(work, (uint32_t)ring.ranks, hardware);
    return around + patterns[mw_op_traits(work->kind)->pattern].time_s(&ring, bytes);
}

double
mw_cost_collective_latency_s(const struct mw_plan *plan, const struct mw_work *work,
                             const struct mw_hardware *hardware)
{
    struct mw_work nothing = *work;

    nothing.bytes = 0;
    return is_collective(work) ? collective_s(plan, &nothing, hardware) : 0;
}

/* Bytes of a gradient's element at home: sums are in fp32.  Plans that are only rated have no
 * tensors that would say so. */
static double
home_gradient_bytes(const struct mw_plan *plan)
{
    bool sums = false;

    for (uint32_t w = 0; w < plan->work_count && !sums; w++)
        sums = plan->works[w].kind == MW_OP_ACCUMULATE;
    return (double)mw_dtype_bytes(sums ? MW_DTYPE_FP32 : (enum mw_dtype)plan->shape.dtype, 1);
}

/* Bytes of a gradient's element that a work brings to the host, as the plan has it; 0: it brings
 * none.  An update on the host fetches gradients that live on the GPU, as it begins. */
static double
brought_gradient_bytes(const struct mw_plan *plan, const struct mw_work *work)
{
    if (work->kind != MW_OP_D2H)
        return 0;
    if (work->object == MW_OBJECT_STATE)
        return home_gradient_bytes(plan);
    return work->object == MW_OBJECT_GRADIENTS
               ? (double)mw_dtype_bytes((enum mw_dtype)plan->shape.dtype, 1)
               : 0;
}

/* Times the plan's bytes that software moves: gradients and updated parameters, in a wider type
 * than the plan has them. */
static double
link_bytes_share(const struct mw_plan *plan, const struct mw_work *work,
                 const struct mw_hardware *hardware)
{
    double planned = brought_gradient_bytes(plan, work);

    if (work->kind == MW_OP_H2D && work->object == MW_OBJECT_UPDATED)
        return fmax(1, (double)hardware->parameter_link_bytes /
                           (double)mw_dtype_bytes((enum mw_dtype)plan->shape.dtype, 1));
    return planned > 0 ? fmax(1, (double)hardware->gradient_link_bytes / planned) : 1;
}

/* The rate at which software copies these bytes, whatever the link can do; 0: at the link's. */
static double
software_copies(const struct mw_plan *plan, const struct mw_work *work,
                const struct mw_hardware *hardware)
{
    if (work->object == MW_OBJECT_CHECKPOINT)
        return work->kind == MW_OP_H2D ? hardware->checkpoint_load_bytes_per_s
                                       : hardware->checkpoint_copy_bytes_per_s;
    return brought_gradient_bytes(plan, work) > 0 ? hardware->gradient_copy_bytes_per_s : 0;
}

static double
copy_s(const struct mw_plan *plan, const struct mw_work *work, const struct mw_hardware *hardware)
{
    double bytes = (double)work->bytes * link_bytes_share(plan, work, hardware);
    double link =
        work->kind == MW_OP_H2D ? hardware->pcie_h2d_bytes_per_s : hardware->pcie_d2h_bytes_per_s;
    double most = software_copies(plan, work, hardware);

    return hardware->pcie_latency_s + bytes / (most > 0 ? fmin(link, most) : link);
}

/* What ranks read from drives before they agree, and check on the way. */
static double
checked_s(const struct mw_plan *plan, const struct mw_work *work,
          const struct mw_hardware *hardware)
{
    double bytes = 0;

    for (uint32_t i = work->draw_begin; i < work->draw_begin + work->draw_count; i++)
        if (plan->channels[plan->draws[i].channel].kind == MW_CHANNEL_DRIVE)
            bytes += (double)plan->draws[i].amount;
    return bytes / mw_cost_check_bytes_per_s(hardware);
}

/* A work's own time, before the draws are examined. */
static double
own_s(const struct mw_plan *plan, const struct mw_work *work, const struct mw_hardware *hardware)
{
    switch ((enum mw_op_kind)work->kind) {
    case MW_OP_COMPUTE:
        return compute_s(plan, work, hardware);
    case MW_OP_UPDATE:
        return update_s(plan, work, hardware);
    case MW_OP_NORM:
    case MW_OP_ACCUMULATE:
        return pass_s(plan, work, hardware);
    case MW_OP_NVME_READ:
    case MW_OP_NVME_WRITE:
        return nvme_s(work, hardware);
    case MW_OP_H2D:
    case MW_OP_D2H:
        return copy_s(plan, work, hardware);
    case MW_OP_BEGIN:
        return 0;
    case MW_OP_COMMIT:
        return work->bytes > 0 ? hardware->nvme_latency_s : 0;
    case MW_OP_AGREE:
        return fmax(collective_s(plan, work, hardware), checked_s(plan, work, hardware));
    default:
        return collective_s(plan, work, hardware);
    }
}

/* A copy for which the software stops computing. */
static bool
is_blocking_copy(const struct mw_work *work, const struct mw_hardware *hardware)
{
    return hardware->checkpoints_block && work->object == MW_OBJECT_CHECKPOINT &&
           mw_op_traits(work->kind)->agent == MW_AGENT_LINK;
}

/* Of a send between stages for which the software stops computing: it receives meanwhile, and waits
 * for both. */
#define BLOCKING_HOP_SHARE 0.5

double
mw_cost_hop_share(const struct mw_hardware *hardware)
{
    return hardware->stages_block ? BLOCKING_HOP_SHARE : hardware->gpu_collective_sm_share;
}

/* The share of the multiprocessors that a work holds while it runs: all of them for compute, else
 * the share that the profile states. Where the device is the host's own cores, host work holds some
 * of them too. */
static double
sm_share(const struct mw_work *work, const struct mw_hardware *hardware)
{
    switch (mw_op_traits(work->kind)->agent) {
    case MW_AGENT_CORES:
        return work->host ? hardware->gpu_host_sm_share : 1;
    case MW_AGENT_LINK:
        return is_blocking_copy(work, hardware) ? 1 : hardware->gpu_copy_sm_share;
    case MW_AGENT_DRIVES:
        return hardware->gpu_nvme_sm_share;
    case MW_AGENT_NETWORK:
        return mw_op_traits(work->kind)->pattern == MW_PATTERN_HOP
                   ? mw_cost_hop_share(hardware)
                   : hardware->gpu_collective_sm_share;
    case MW_AGENT_NOBODY:
        break;
    }
    return 1;
}

/* What a collective's bytes on a link count: plans state those of one ring over nodes.  Where the
 * library's algorithm passes more of them between nodes, these count more; where the switch adds
 * up, a rank passes on less. */
static double
link_share(const struct mw_plan *plan, const struct mw_work *work, bool between_nodes,
           const struct mw_hardware *hardware)
{
    if (!(hardware->fabric_start_s > 0 || hardware->nic_start_s > 0) ||
        is_sum_in_halves(plan, work))
        return 1;
    const struct mw_ring ring = ring_of(plan, work, hardware);
    if (!ring.by_protocol)
        return 1;
    if (between_nodes)
        return mw_ring_crossing(&ring, ring_kind(work));
    return ring_kind(work) == MW_RING_ALL_REDUCE &&
                   ring.switch_bytes_per_s > ring.fabric_bytes_per_s
               ? ring.fabric_bytes_per_s / ring.switch_bytes_per_s
               : 1;
}

/* The units that one rank moves over the channel.  For multiprocessors, the share that it holds. */
static double
rank_units(const struct mw_plan *plan, const struct mw_work *work, const struct mw_draw *draw,
           const struct mw_hardware *hardware)
{
    switch (plan->channels[draw->channel].kind) {
    case MW_CHANNEL_SM:
        return (double)draw->amount * 1e-6 * sm_share(work, hardware);
    case MW_CHANNEL_DRIVE:
        return (double)draw->amount /
               mw_cost_drive_bytes_per_s(hardware, mw_op_traits(work->kind)->writes);
    case MW_CHANNEL_FABRIC:
    case MW_CHANNEL_NIC:
        return (double)draw->amount *
               link_share(plan, work, plan->channels[draw->channel].kind == MW_CHANNEL_NIC,
                          hardware);
    case MW_CHANNEL_DRAM: /* no other channel of the op is as fast as memory */
        return (double)draw->amount * link_bytes_share(plan, work, hardware) /
               pass_share(plan, work, hardware);
    default:
        return (double)draw->amount * link_bytes_share(plan, work, hardware);
    }
}

static double
draw_units(const struct mw_plan *plan, const struct mw_work *work, const struct mw_draw *draw,
           const struct mw_hardware *hardware)
{
    return draw->ranks * rank_units(plan, work, draw, hardware);
}

/* A drive never moves more than its rate in one direction, even if it can do both directions at
 * once. */
static double
one_way_share(const struct mw_channel *channel, const struct mw_hardware *hardware)
{
    return channel->kind == MW_CHANNEL_DRIVE ? fmin(1, 1 / drive_duplex(hardware)) : 1;
}

/* The op's time if it draws on its channels as fast as they allow. */
static double
channels_s(const struct mw_plan *plan, const struct mw_work *work,
           const struct mw_hardware *hardware)
{
    double seconds = 0;

    for (uint32_t i = 0; i < work->draw_count; i++) {
        const struct mw_draw *draw = &plan->draws[work->draw_begin + i];
        const struct mw_channel *channel = &plan->channels[draw->channel];

        if (channel->kind != MW_CHANNEL_SM && draw->amount > 0)
            seconds = fmax(seconds, draw_units(plan, work, draw, hardware) * users_of(channel) /
                                        (channel_units_per_s(plan, channel, hardware) *
                                         one_way_share(channel, hardware)));
    }
    return seconds;
}

double
mw_cost_work_s(const struct mw_plan *plan, const struct mw_work *work,
               const struct mw_hardware *hardware)
{
    return lead_s(work, hardware) +
           fmax(own_s(plan, work, hardware), channels_s(plan, work, hardware));
}

static int64_t
whole_ns(double seconds)
{
    double ns = ceil(seconds * 1e9 - ROUNDING_NS);

    if (!(ns < NEVER_NS)) /* NaN too */
        return (int64_t)NEVER_NS;
    return ns > 0 ? (int64_t)ns : 0;
}

static bool
is_transfer(const struct mw_work *work)
{
    return is_on_drives(work) || mw_op_traits(work->kind)->agent == MW_AGENT_LINK;
}

/* The idle part of an op's own time: the latency of a transfer, in which cores work for others.  A
 * multiprocessor in a collective polls its peers all the time; cores that are also the host's do
 * not. */
static double
idle_s(const struct mw_plan *plan, const struct mw_work *work, const struct mw_hardware *hardware)
{
    bool sleeps = is_collective(work) && hardware->gpu_host_sm_share > 0;
    struct mw_work nothing = *work;

    if (!is_transfer(work) && !sleeps)
        return 0;
    nothing.bytes = 0;
    return own_s(plan, &nothing, hardware);
}

/* An owner's transfer, which has the node's channels to itself, draws a part of its bytes there. */
static bool
is_alone(const struct mw_plan *plan, const struct mw_work *work)
{
    bool alone = false;

    for (uint32_t i = work->draw_begin; i < work->draw_begin + work->draw_count; i++)
        alone = alone || (plan->channels[plan->draws[i].channel].kind != MW_CHANNEL_SM &&
                          plan->draws[i].amount < work->bytes);
    return alone;
}

/* For how long a work takes its share of the multiprocessors, before other draws stretch it.  Where
 * these are the host's cores each rank has some of its own, and holds them for as long as it takes
 * with its part of what the node's ranks share: all do the same. */
static double
held_s(const struct mw_plan *plan, const struct mw_work *work, const struct mw_hardware *hardware)
{
    double all_s = own_s(plan, work, hardware), ranks = fmax(1, plan->ranks_per_node);
    double bytes = (double)work->bytes * link_bytes_share(plan, work, hardware);
    enum mw_agent agent = mw_op_traits(work->kind)->agent;

    if (!(hardware->gpu_host_sm_share > 0))
        return all_s;
    if (agent == MW_AGENT_CORES)
        return work->host ? ranks * all_s : all_s;
    if (!is_transfer(work) || is_alone(plan, work))
        return all_s;
    if (agent == MW_AGENT_DRIVES)
        return fmax(all_s,
                    ranks * bytes /
                        mw_cost_drive_bytes_per_s(hardware, mw_op_traits(work->kind)->writes));
    return fmax(all_s, hardware->pcie_latency_s + ranks * bytes /
                                                      (work->kind == MW_OP_H2D
                                                           ? hardware->pcie_node_h2d_bytes_per_s
                                                           : hardware->pcie_node_d2h_bytes_per_s));
}

/* Units per ns while the op draws.  An op that takes no time draws nothing. */
static double
draw_rate(const struct mw_plan *plan, const struct mw_work *work, const struct mw_draw *draw,
          int64_t draws_ns, const struct mw_hardware *hardware)
{
    double units = draw_units(plan, work, draw, hardware);

    if (draws_ns == 0 || !(units > 0))
        return 0;
    if (plan->channels[draw->channel].kind != MW_CHANNEL_SM)
        return units / (double)draws_ns;
    /* A transfer costs the multiprocessors the same however long other draws stretch it; a
     * collective, and a copy that is waited for, hold them for all of their time. */
    bool holds = is_collective(work) || is_blocking_copy(work, hardware);
    double all_s = holds ? 1e-9 * (double)draws_ns : held_s(plan, work, hardware);
    return units * (double)whole_ns(all_s - idle_s(plan, work, hardware)) / (double)draws_ns;
}

/* Over a step, since kernels that wait in the GPU's queue hide the starts of those after them. */
double
mw_cost_lateness(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    double gpu_s = 0, host_s = 0;

    if (!(hardware->host_launch_s > 0))
        return 1;
    /* Works are far fewer than ops. */
    g_autofree int64_t *times = g_new0(int64_t, plan->work_count);
    for (uint32_t i = 0; i < plan->op_count; i++)
        times[plan->ops[i].work] += plan->section_count ? mw_plan_op_rounds(plan, i) : 1;
    for (uint32_t w = 0; w < plan->work_count; w++) {
        const struct mw_work *work = &plan->works[w];
        if (work->kind != MW_OP_COMPUTE || !times[w])
            continue;
        gpu_s += (double)times[w] * compute_s(plan, work, hardware);
        host_s += (double)times[w] * (double)work->launches * hardware->host_launch_s;
    }
    return host_s > gpu_s && gpu_s > 0 ? host_s / gpu_s : 1;
}

void
mw_costs_init(struct mw_costs *costs, const struct mw_plan *plan,
              const struct mw_hardware *hardware)
{
    const double late = mw_cost_lateness(plan, hardware);

    costs->work_ns = g_new(int64_t, plan->work_count);
    costs->lead_ns = g_new(int64_t, plan->work_count);
    costs->draw_rate = g_new0(double, plan->draw_count);
    costs->capacity = g_new(double, plan->channel_count);
    costs->one_way = g_new(double, plan->channel_count);
    costs->mixed = g_new0(struct mw_cost_mixed, plan->channel_count);
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        const struct mw_channel *channel = &plan->channels[c];
        double ns_per_unit_time = channel->kind == MW_CHANNEL_SM ? 1 : 1e-9;

        costs->capacity[c] =
            channel_units_per_s(plan, channel, hardware) / users_of(channel) * ns_per_unit_time;
        costs->one_way[c] = one_way_share(channel, hardware);
        if (channel->kind == MW_CHANNEL_DRIVE)
            costs->mixed[c] = mw_cost_drives_mixed(hardware);
    }
    for (uint32_t w = 0; w < plan->work_count; w++) {
        const struct mw_work *work = &plan->works[w];

        costs->work_ns[w] = whole_ns(mw_cost_work_s(plan, work, hardware) *
                                     (work->kind == MW_OP_COMPUTE ? late : 1));
        /* Rounded down, so that no draw exceeds the channel's capacity. */
        costs->lead_ns[w] =
            (int64_t)fmin(lead_s(work, hardware) * 1e9 + ROUNDING_NS, (double)costs->work_ns[w]);
        for (uint32_t i = work->draw_begin; i < work->draw_begin + work->draw_count; i++)
            costs->draw_rate[i] = draw_rate(plan, work, &plan->draws[i],
                                            costs->work_ns[w] - costs->lead_ns[w], hardware);
    }
}

void
mw_costs_clear(struct mw_costs *costs)
{
    g_free(costs->work_ns);
    g_free(costs->lead_ns);
    g_free(costs->draw_rate);
    g_free(costs->capacity);
    g_free(costs->one_way);
    g_free(costs->mixed);
    memset(costs, 0, sizeof *costs);
}

static bool
are_equal(const void *a, const void *b, size_t count, size_t size)
{
    return !count || !memcmp(a, b, count * size);
}

bool
mw_costs_are_equal(const struct mw_plan *plan, const struct mw_costs *a, const struct mw_costs *b)
{
    return are_equal(a->work_ns, b->work_ns, plan->work_count, sizeof *a->work_ns) &&
           are_equal(a->lead_ns, b->lead_ns, plan->work_count, sizeof *a->lead_ns) &&
           are_equal(a->draw_rate, b->draw_rate, plan->draw_count, sizeof *a->draw_rate) &&
           are_equal(a->capacity, b->capacity, plan->channel_count, sizeof *a->capacity) &&
           are_equal(a->one_way, b->one_way, plan->channel_count, sizeof *a->one_way) &&
           are_equal(a->mixed, b->mixed, plan->channel_count, sizeof *a->mixed);
}
