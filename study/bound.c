#include "study/bound.h"

#include <math.h>

#include "plan/optimizers.h"
#include "plan/state.h"
#include "sim/cost.h"
#include "sim/kernels.h"

/* --- compute --------------------------------------------------------------------------------- */

static double
products_s(const struct mw_hardware *hw, const struct mw_operator_info *info, double flops,
           bool backward)
{
    const struct mw_work_product *first = &info->products[0];
    struct mw_kernel_work work = {.products = info->products,
                                  .product_count = info->product_count,
                                  .attention = info->attention,
                                  .backward = backward,
                                  .fp8 = first->dtype == MW_DTYPE_FP8};

    if (!(flops > 0))
        return 0;
    return flops / (mw_kernel_dtype_share(hw, (enum mw_dtype)first->dtype) *
                    mw_kernel_most_flops(hw, &work));
}

static double
bytes_s(const struct mw_hardware *hw, const struct mw_operator_info *info, double bytes,
        enum mw_turn turn)
{
    double rate = info->operator_ == MW_OPERATOR_LOSS         ? mw_cost_loss_bytes_per_s(hw)
                  : mw_operator_row(info->operator_)->streams ? hw->gpu_memory_bytes_per_s
                                                              : mw_cost_operator_bytes_per_s(hw);

    return bytes * mw_cost_operator_passes(hw, info->operator_, turn) / rate;
}

static double
operator_s(const struct mw_hardware *hw, const struct mw_settings *settings,
           const struct mw_operator_info *info)
{
    double back = settings->forward_only ? 0 : 1;

    return products_s(hw, info, (double)info->forward_flops, false) +
           products_s(hw, info, back * (double)info->backward_flops, true) +
           bytes_s(hw, info, (double)info->forward_bytes, MW_TURN_FORWARD) +
           bytes_s(hw, info, back * (double)info->backward_bytes,
                   mw_cost_turn(2 * info->product_count + info->products_again));
}

static double
operators_s(const struct mw_hardware *hw, const struct mw_settings *settings,
            const struct mw_operators *operators)
{
    double seconds = 0;

    for (int i = 0; i < operators->count; i++)
        seconds += operator_s(hw, settings, &operators->info[i]);
    return seconds;
}

/* Of all blocks of the model; those of a schedule that leaves out layers may all be left out. */
static double
walk_s(const struct mw_request *request, const struct mw_settings *settings,
       const struct mw_model_walk *walk)
{
    const struct mw_model *model = request->model;
    double seconds = operators_s(request->hardware, settings, &walk->head) +
                     operators_s(request->hardware, settings, &walk->tail);

    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT && !settings->drop_layers; kind++)
        seconds +=
            (double)mw_model_count_blocks(model, (enum mw_block_kind)kind, 0, model->layers) *
            operators_s(request->hardware, settings, &walk->blocks[kind]);
    return seconds;
}

static void
walk_sequences(const struct mw_request *request, const struct mw_settings *settings,
               int64_t sequences, struct mw_model_walk *walk)
{
    struct mw_shape shape = mw_sizing_shape(request->model, settings, request->hardware);

    shape.sequences = sequences;
    shape.tp = shape.cp = 1;
    if (shape.capacity_factor >= 1) /* what is filled up is rounded: a bound leaves it out */
        shape.capacity_factor = 0;
    mw_model_walk(request->model, &shape, walk);
}

/* What one more sequence takes: weights that a micro-batch widens once are left out. */
static double
sequence_s(const struct mw_request *request, const struct mw_settings *settings)
{
    struct mw_model_walk one, two;

    walk_sequences(request, settings, 1, &one);
    walk_sequences(request, settings, 2, &two);
    return walk_s(request, settings, &two) - walk_s(request, settings, &one);
}

/* --- state ------------------------------------------------------------------------------------ */

static void
add_state(const struct mw_settings *settings, double state, const struct mw_operators *operators,
          double blocks, struct mw_bound *out, double *trained)
{
    for (int i = 0; i < operators->count; i++) {
        const struct mw_operator_info *info = &operators->info[i];
        double params = blocks * (double)info->params;
        double bytes = (double)mw_dtype_bytes(info->weights, MW_KEPT_BLOCK) / MW_KEPT_BLOCK;
        if (info->trained && !settings->forward_only) {
            out->trained_bytes += params * (bytes + state);
            *trained += params;
        } else {
            out->other_bytes += params * bytes;
        }
    }
}

/* Bytes of an element. */
static double
state_bytes(const struct mw_settings *settings, const struct mw_hardware *hw)
{
    return (double)mw_state_bytes(settings, hw, MW_KEPT_BLOCK, MW_KEPT_BLOCK) / MW_KEPT_BLOCK;
}

/* Returns the parameters that are trained. */
static double
add_states(const struct mw_request *request, const struct mw_settings *settings, double state,
           struct mw_bound *out)
{
    const struct mw_model *model = request->model;
    struct mw_model_walk walk;
    double trained = 0;

    walk_sequences(request, settings, 1, &walk);
    add_state(settings, state, &walk.head, 1, out, &trained);
    add_state(settings, state, &walk.tail, 1, out, &trained);
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++)
        add_state(settings, state, &walk.blocks[kind],
                  (double)mw_model_count_blocks(model, (enum mw_block_kind)kind, 0, model->layers),
                  out, &trained);
    return trained;
}

static void
set_update(const struct mw_hardware *hw, const struct mw_settings *settings, double trained,
           struct mw_bound *out)
{
    double element = (double)mw_dtype_element_bytes(settings->dtype);
    double bytes = mw_update_bytes(settings, hw, state_bytes(settings, hw));
    double adamw = bytes / (MW_UPDATE_STATE_BYTES + 2 * element);

    out->update_gpu_s = trained * bytes * mw_cost_update_passes(hw, settings->optimizer) /
                        hw->gpu_memory_bytes_per_s;
    out->update_node_s = hw->host_update_params_per_s > 0
                             ? trained * adamw / hw->host_update_params_per_s
                             : INFINITY;
}

static double
room(int64_t capacity, int64_t reserve)
{
    return (double)MAX(0, capacity - reserve);
}

void
mw_bound_of(const struct mw_request *request, const struct mw_settings *settings,
            struct mw_bound *out)
{
    const struct mw_hardware *hw = request->hardware;
    bool drives = hw->nvme_capacity_bytes > 0;

    *out = (struct mw_bound){
        .token_gpu_s = sequence_s(request, settings) / (double)settings->seq,
        .room_bytes = {[MW_TIER_GPU] = room(hw->gpu_memory_bytes, hw->gpu_reserve_bytes),
                       [MW_TIER_CPU] = room(hw->host_memory_bytes, hw->host_reserve_bytes),
                       [MW_TIER_NVME] = room(hw->nvme_capacity_bytes, hw->nvme_reserve_bytes)},
        .read_bytes_per_s = drives ? mw_cost_drive_bytes_per_s(hw, false) : 0,
        .write_bytes_per_s = drives ? mw_cost_drive_bytes_per_s(hw, true) : 0,
    };
    set_update(hw, settings, add_states(request, settings, state_bytes(settings, hw), out), out);
}

/* --- a step ----------------------------------------------------------------------------------- */

/* The GPUs update a share x after their compute, the hosts the rest beside it:
 *
 *   max(c + x g, (1 - x) h) is least where both are equal, at c + g (h - c) / (g + h),
 *
 * or at x = 0 where the hosts end before the compute does. */
static double
compute_and_update_s(double compute, double gpus, double hosts)
{
    if (hosts <= compute)
        return compute;
    if (isinf(hosts))
        return compute + gpus;
    return compute + gpus * (hosts - compute) / (gpus + hosts);
}

/* Bytes that memory has no room for. */
static double
beyond_memory(const struct mw_bound *b, int64_t nodes, int64_t gpus_per_node)
{
    double each = (double)gpus_per_node * b->room_bytes[MW_TIER_GPU] + b->room_bytes[MW_TIER_CPU];

    return fmax(0, b->trained_bytes + b->other_bytes - (double)nodes * each);
}

static double
drives_s(const struct mw_bound *b, int64_t nodes, int64_t gpus_per_node)
{
    double on_drives = beyond_memory(b, nodes, gpus_per_node);
    double trained = fmax(0, on_drives - b->other_bytes);

    if (!(on_drives > 0))
        return 0;
    return fmax(on_drives / b->read_bytes_per_s, trained / b->write_bytes_per_s) / (double)nodes;
}

double
mw_bound_short_bytes(const struct mw_bound *bound, int64_t nodes, int64_t gpus_per_node)
{
    return fmax(0, beyond_memory(bound, nodes, gpus_per_node) -
                       (double)nodes * bound->room_bytes[MW_TIER_NVME]);
}

double
mw_bound_step_s(const struct mw_bound *bound, double tokens, int64_t nodes, int64_t gpus_per_node)
{
    double gpus = (double)nodes * (double)gpus_per_node;

    if (mw_bound_short_bytes(bound, nodes, gpus_per_node) > 0)
        return INFINITY;
    double compute =
        compute_and_update_s(tokens * bound->token_gpu_s / gpus, bound->update_gpu_s / gpus,
                             bound->update_node_s / (double)nodes);
    return fmax(compute, drives_s(bound, nodes, gpus_per_node));
}
