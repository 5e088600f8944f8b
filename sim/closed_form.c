#include "sim/closed_form.h"

#include <math.h>
#include <string.h>

#include "hardware/numa.h"
#include "hardware/ring.h"
#include "plan/state.h"
#include "sim/cost.h"
#include "sim/efficiency.h"
#include "sim/kernels.h"

/* The closed form ignores latency. */
static struct mw_ring
without_latency(struct mw_ring ring)
{
    ring.fabric_latency_s = ring.nic_latency_s = ring.start_s = 0;
    return ring;
}

static struct mw_ring
ring_of(const struct mw_hardware *hw, double ranks, double ranks_per_node, double groups_per_node)
{
    return without_latency(mw_ring_of(hw, ranks, ranks_per_node, groups_per_node));
}

static double
min3(double a, double b, double c)
{
    return fmin(a, fmin(b, c));
}

/* The drive rate of one of `users` that share drives and memory.  Bytes pass memory twice, as they
 * are also checked. */
static double
drive_rate(const struct mw_hardware *hw, bool write, double users)
{
    return min3(mw_cost_drive_bytes_per_s(hw, write) / users,
                hw->host_memory_bytes_per_s / users / 2, mw_cost_check_bytes_per_s(hw));
}

void
mw_closed_rates(const struct mw_closed_dims *d, const struct mw_hardware *hw,
                struct mw_closed_rates *r)
{
    double users = d->gpus_per_node;
    double update_bytes = d->update_bytes + d->update_passes * d->gradient_bytes;
    double adamw = update_bytes / (MW_UPDATE_STATE_BYTES + 2 * d->element_bytes);

    r->dram = hw->host_memory_bytes_per_s / users;
    r->norm = mw_cost_norm_bytes_per_s(hw) / users;
    r->exact = mw_cost_exact_sums_bytes_per_s(hw) / users;
    r->h2d = min3(hw->pcie_h2d_bytes_per_s, hw->pcie_node_h2d_bytes_per_s / users, r->dram);
    r->d2h = min3(hw->pcie_d2h_bytes_per_s, hw->pcie_node_d2h_bytes_per_s / users, r->dram);
    r->h2d_alone =
        min3(hw->pcie_h2d_bytes_per_s, hw->pcie_node_h2d_bytes_per_s, hw->host_memory_bytes_per_s);
    r->d2h_alone =
        min3(hw->pcie_d2h_bytes_per_s, hw->pcie_node_d2h_bytes_per_s, hw->host_memory_bytes_per_s);
    r->read = drive_rate(hw, false, users);
    r->write = drive_rate(hw, true, users);
    r->read_alone = drive_rate(hw, false, 1);
    r->shards = ring_of(hw, d->shards, d->shards_per_node,
                        fmin(d->tp * d->replicas, users / d->shards_per_node));
    r->replicas = ring_of(hw, d->replicas, d->replicas_per_node,
                          fmin(d->tp * d->shards, users / d->replicas_per_node));
    r->expert_replicas = r->experts = r->context = r->passes = r->shards;
    if (d->cp > 1) {
        r->context = ring_of(hw, d->cp, d->cp_per_node, users / d->cp_per_node);
        r->passes =
            without_latency(mw_ring_of_passes(hw, d->cp, d->cp_per_node, users / d->cp_per_node));
    }
    if (d->ep > 1) {
        r->expert_replicas = ring_of(hw, d->expert_replicas, d->expert_replicas_per_node,
                                     fmin(d->tp * d->spread, users / d->expert_replicas_per_node));
        r->experts = ring_of(hw, d->ep, d->ep_per_node, users / d->ep_per_node);
    }
    r->world = d->agreed_bytes > 0 ? ring_of(hw, d->nodes * d->gpus_per_node, d->gpus_per_node, 1)
                                   : r->shards;
    r->update_s_per_param[0] =
        update_bytes * mw_cost_update_passes(hw, d->optimizer) / hw->gpu_memory_bytes_per_s;
    r->update_s_per_param[1] = fmax(adamw * users / mw_numa_update_params_per_s(hw, (int64_t)users),
                                    update_bytes / r->dram);
}

/* Zero bytes take no time even where there is no such channel. */
static double
over(double bytes, double rate)
{
    return bytes > 0 ? bytes / rate : 0;
}

/* --- compute ---------------------------------------------------------------------------------- */

/* FLOPs in both directions, of which each reaches a share of the rate. */
static double
both_ways_s(double forth, double back, double forth_share, double back_share, double flops_per_s)
{
    double flops = forth / forth_share + back / back_share;

    return flops > 0 ? flops / flops_per_s : 0;
}

static double
weights_s(const struct mw_closed_products *p, double forwards, double share,
          const struct mw_hardware *hw)
{
    double forth = mw_kernel_direction_share(hw, MW_PRODUCT_OF_RESULT, p->size);
    double of_inputs = mw_kernel_direction_share(hw, MW_PRODUCT_OF_INPUT, p->size);
    double of_weights = mw_kernel_direction_share(hw, MW_PRODUCT_OF_WEIGHTS, p->size);
    double part = p->backward_flops > 0 ? p->weight_flops / p->backward_flops : 0;
    double back =
        of_inputs == of_weights ? of_inputs : 1 / ((1 - part) / of_inputs + part / of_weights);

    return both_ways_s(p->forward_flops * forwards, p->backward_flops, forth, back,
                       share * mw_kernel_products_curve(hw, p->size));
}

static double
attention_s(const struct mw_closed_products *p, double forwards, double share,
            const struct mw_hardware *hw)
{
    return both_ways_s(p->forward_flops * forwards, p->backward_flops,
                       mw_kernel_heads_share(hw, p->head_dim, false),
                       mw_kernel_heads_share(hw, p->head_dim, true),
                       share * mw_kernel_attention_curve(hw, p->size));
}

static double
shapes_s(const struct mw_closed_block *block, double forwards, const struct mw_hardware *hw)
{
    double seconds = 0;

    for (int i = 0; i < block->shape_count; i++) {
        const struct mw_closed_shape *shape = &block->shapes[i];
        struct mw_kernel_work work = {.products = shape->products,
                                      .product_count = shape->product_count,
                                      .attention = shape->attention,
                                      .backward = shape->backward,
                                      .fp8 = shape->fp8,
                                      .size = mw_kernel_attention_size(hw, &shape->attention)};
        seconds += (shape->backward ? 1 : forwards) * shape->flops / mw_kernel_flops(hw, &work);
    }
    return seconds;
}

static double
block_products_s(const struct mw_closed_block *block, double forwards, double share,
                 const struct mw_hardware *hw)
{
    if (block->shapes)
        return (block->shapes_s > 0 ? block->shapes_s : shapes_s(block, forwards, hw)) / share;
    return weights_s(&block->weights, forwards, share, hw) +
           attention_s(&block->attention, forwards, share, hw);
}

/* streamed_rate: of attention's bytes, or in the tail those of the loss.  Returns how many kernels
 * are started. */
static double
add_block(const struct mw_closed_block *block, double forwards, double share, double streamed_rate,
          const struct mw_hardware *hw, double *plan)
{
    double bytes = block->forward_bytes * forwards + block->backward_bytes;
    double streamed = block->forward_streamed * forwards + block->backward_streamed;
    double launches = block->forward_launches * (forwards + 2);

    plan[MW_TERM_PRODUCTS] += block_products_s(block, forwards, share, hw);
    plan[MW_TERM_MEMORY_BOUND] += bytes / mw_cost_operator_bytes_per_s(hw) +
                                  streamed / streamed_rate + launches * hw->gpu_launch_s;
    return launches;
}

static double
checkpoints_of(const struct mw_closed_dims *d)
{
    return d->checkpoint_interval > 0 ? ceil(d->layers * d->recomputed / d->checkpoint_interval)
                                      : 0;
}

/* Stores checkpoints and kept activations in another type than that of activations, and restores
 * them.  Returns how many kernels are started. */
static double
add_coding(const struct mw_closed_dims *d, const struct mw_hardware *hw, double *plan)
{
    double count = d->checkpoint_coded_bytes > 0 ? checkpoints_of(d) : 0;
    double bytes = count * d->checkpoint_coded_bytes + d->kept_coded_bytes;
    double passes = 2 * count + d->kept_coded_passes;

    plan[MW_TERM_MEMORY_BOUND] +=
        bytes / mw_cost_operator_bytes_per_s(hw) + passes * hw->gpu_launch_s;
    return passes;
}

/* Forward passes of the layers per micro-batch, as work. */
static double
layer_forwards(const struct mw_closed_dims *d)
{
    return 1 + d->recomputed_work;
}

void
mw_closed_shapes_s(struct mw_closed_dims *dims, const struct mw_hardware *hardware)
{
    dims->layer_block.shapes_s = shapes_s(&dims->layer_block, layer_forwards(dims), hardware);
    dims->head.shapes_s = shapes_s(&dims->head, 1, hardware);
    dims->tail.shapes_s = shapes_s(&dims->tail, 1, hardware);
}

static void
compute_terms(const struct mw_closed_dims *d, const struct mw_hardware *hw, double *plan)
{
    double share = mw_kernel_dtype_share(hw, d->dtype) *
                   mw_kernel_slowest_share(hw, d->nodes * d->gpus_per_node);
    double memory = hw->gpu_memory_bytes_per_s;
    double launches = add_block(&d->layer_block, layer_forwards(d), share, memory, hw, plan) +
                      add_block(&d->head, 1, share, memory, hw, plan) +
                      add_block(&d->tail, 1, share, mw_cost_loss_bytes_per_s(hw), hw, plan) +
                      add_coding(d, hw, plan);

    plan[MW_TERM_MEMORY_BOUND] =
        fmax(plan[MW_TERM_MEMORY_BOUND], launches * hw->host_launch_s - plan[MW_TERM_PRODUCTS]);
    plan[MW_TERM_PRODUCTS] *= d->micro_batches;
    plan[MW_TERM_MEMORY_BOUND] *= d->micro_batches;
}

/* --- parameters and gradients ---------------------------------------------------------------- */

/* Passes over GPU memory around collectives (sim/cost.c:around_s). */
static double
around_s(double ranks, double bytes, const struct mw_hardware *hw)
{
    return ranks > 1 ? bytes / hw->gpu_memory_bytes_per_s : 0;
}

/* What a rank has of elements of which spread ones are over other ranks than the rest. */
static double
part_of(const struct mw_closed_dims *d, double all, double spread)
{
    return (all - spread) / d->shards + (spread > 0 ? spread / d->expert_replicas : 0);
}

static double
gather_s(const struct mw_closed_dims *d, const struct mw_hardware *hw,
         const struct mw_closed_rates *r, double bytes, double spread)
{
    return around_s(d->shards, hw->gather_passes * (bytes - spread), hw) +
           mw_ring_s(&r->shards, bytes - spread) +
           (spread > 0 ? around_s(d->expert_replicas, hw->gather_passes * spread, hw) +
                             mw_ring_s(&r->expert_replicas, spread)
                       : 0);
}

static void
fetch_terms(const struct mw_closed_dims *d, const struct mw_hardware *hw,
            const struct mw_closed_rates *r, double *plan)
{
    double loads[MW_TIER_COUNT] = {0}; /* bytes, by where they live */
    bool alone = d->owner_broadcast && d->shards > 1;

    if (!d->params_fetched)
        return;
    for (int t = 0; t < MW_TIER_COUNT; t++)
        loads[t] = d->layer_block.param_bytes_in[t] * d->layer_loads +
                   d->head.param_bytes_in[t] * (d->head_loads + d->tied_loads) +
                   d->tail.param_bytes_in[t] * d->tail_loads;
    double each = d->fetches;
    double nvme_bytes = each * loads[MW_TIER_NVME];
    double off_gpu_bytes = each * loads[MW_TIER_CPU] + nvme_bytes;
    double bytes = each * loads[MW_TIER_GPU] + off_gpu_bytes;
    const double *in = d->spread_bytes_in;
    double nvme_spread = each * d->layer_loads * in[MW_TIER_NVME];
    double off_gpu_spread = each * d->layer_loads * in[MW_TIER_CPU] + nvme_spread;
    double spread = each * d->layer_loads * in[MW_TIER_GPU] + off_gpu_spread;

    plan[MW_TERM_FETCH_NVME] = over(alone ? nvme_bytes : part_of(d, nvme_bytes, nvme_spread),
                                    alone ? r->read_alone : r->read);
    plan[MW_TERM_FETCH_PCIE] =
        over(alone ? off_gpu_bytes : part_of(d, off_gpu_bytes, off_gpu_spread),
             alone ? r->h2d_alone : r->h2d);
    plan[MW_TERM_FETCH_GATHER] = alone ? around_s(d->shards, hw->gather_passes * bytes, hw) +
                                             mw_ring_broadcast_s(&r->shards, bytes)
                                       : gather_s(d, hw, r, bytes, spread);
}

/* Gradients on drives are read again for exact sums, in the op in which ranks add up others. */
static double
clipped_s(const struct mw_closed_dims *d, const struct mw_closed_rates *r)
{
    double bytes = d->clip_passes * d->gradient_bytes * d->state_params;

    return over(bytes * d->updated_from[MW_TIER_NVME], fmin(r->read, r->exact));
}

/* Of a shard's gradients over the groups that hold it: of sums once, and where they grow in host
 * memory of each micro-batch. */
static double
replica_sums_s(const struct mw_closed_dims *d, const struct mw_hardware *hw,
               const struct mw_closed_rates *r, double shard)
{
    double off_gpu = d->gradients_in[MW_TIER_CPU] + d->gradients_in[MW_TIER_NVME];
    double each = d->gradients_partitioned && !d->sums_passing ? off_gpu : 0;
    double summed = d->gradients_summed ? d->sum_bytes : d->element_bytes;
    double bytes =
        shard * (d->micro_batches *
                     mw_hardware_reduced_bytes(hw, d->element_bytes, d->element_bytes) * each +
                 mw_hardware_reduced_bytes(hw, d->element_bytes, summed) * (1 - each));

    return around_s(d->shards, hw->reduce_passes * bytes, hw) +
           mw_ring_all_reduce_s(&r->replicas, bytes);
}

static double
reduce_s(const struct mw_closed_dims *d, const struct mw_hardware *hw, const struct mw_ring *ring,
         double bytes)
{
    if (d->updates > 1)
        return around_s(ring->ranks, hw->reduce_passes * bytes, hw) +
               mw_ring_all_to_all_s(ring, bytes);
    return around_s(ring->ranks, hw->reduce_passes * bytes, hw) +
           (d->optimizer_partitioned && !d->reduced_at_end ? mw_ring_s(ring, bytes)
                                                           : mw_ring_all_reduce_s(ring, bytes));
}

/* Gradients leave after backward and wait for the update.  The update reads those on NVMe again. */
static void
gradient_terms(const struct mw_closed_dims *d, const struct mw_hardware *hw,
               const struct mw_closed_rates *r, double *plan)
{
    double params = d->layer_block.trained_params + d->head.trained_params + d->tail.trained_params;
    double shard = d->gradients_partitioned ? part_of(d, params, d->spread_params) : params;
    double cpu = d->gradients_in[MW_TIER_CPU], nvme = d->gradients_in[MW_TIER_NVME];
    bool owner = d->owner_broadcast && d->shards > 1;
    double made = d->element_bytes;
    double reduces = d->gradients_partitioned ? d->micro_batches : 1;
    double times = d->sums_passing ? 1 : d->micro_batches, element = d->gradient_bytes;

    double each = mw_hardware_reduced_bytes(hw, made, d->gradients_partitioned ? made : element);
    if (d->updates > 1) /* nothing is summed up */
        each = element;
    plan[MW_TERM_GRADIENT_REDUCE] =
        reduces *
        (reduce_s(d, hw, &r->shards, each * (params - d->spread_params)) +
         (d->spread_params > 0 ? reduce_s(d, hw, &r->expert_replicas, each * d->spread_params)
                               : 0));
    if (d->replicas > 1)
        plan[MW_TERM_GRADIENT_REDUCE] += replica_sums_s(d, hw, r, params / d->shards);
    double sent = fmax(d->sums_passing ? element : made, (double)hw->gradient_link_bytes);
    double most = hw->gradient_copy_bytes_per_s > 0 ? hw->gradient_copy_bytes_per_s : INFINITY;
    double fetched = fmax(element, (double)hw->gradient_link_bytes);
    plan[MW_TERM_GRADIENT_PCIE] =
        times * over(sent * (owner ? params : shard) * (cpu + nvme),
                     fmin(most, owner ? r->d2h_alone : r->d2h)) +
        over(element * d->state_params * d->gradient_h2d, r->h2d) +
        over(fetched * d->state_params * d->gradient_d2h, fmin(most, r->d2h));
    /* The first micro-batch reads it and writes a sum; each later one reads the sum too. */
    double sum = d->sum_bytes;
    double sum_bytes =
        d->gradients_summed ? (made + sum) + (made + 2 * sum) * (d->micro_batches - 1) : 0;
    double on_host = d->sums_passing ? 0 : cpu + nvme;
    double on_gpu = d->gradients_in[MW_TIER_GPU] + cpu + nvme - on_host;
    double normed = d->updates * d->norm_passes * element, clipped = d->clip_passes * element;
    double summed = d->exact_passes * element;
    plan[MW_TERM_GRADIENT_SUM] =
        over(shard * sum_bytes * on_host, r->dram) +
        over(shard * (normed - summed) * nvme, r->norm) +
        over(shard * (summed - clipped) * nvme, r->exact) +
        over(d->state_params * (normed - summed) * d->updated_from[MW_TIER_CPU], r->norm) +
        over(d->state_params * summed * d->updated_from[MW_TIER_CPU], r->exact) +
        (shard * sum_bytes * on_gpu + d->state_params * normed * d->updated_from[MW_TIER_GPU]) /
            hw->gpu_memory_bytes_per_s;
    double stored = d->sums_on_host ? 1 : times;
    plan[MW_TERM_GRADIENT_NVME] =
        over(stored * element * shard * nvme, r->write) +
        over((stored - 1) * 4 * shard * nvme, r->read) +
        over(element * d->state_params * d->updated_from[MW_TIER_NVME], r->read) + clipped_s(d, r) +
        over(d->saved_bytes, r->write);
}

/* --- checkpoints and slicing ----------------------------------------------------------------- */

static void
slicing_terms(const struct mw_closed_dims *d, const struct mw_hardware *hw,
              struct mw_closed_form *out)
{
    double message = d->element_bytes * d->tokens * d->hidden, passes = 2 + d->recomputed;

    if (d->tp <= 1)
        return;
    const struct mw_ring tp = ring_of(hw, d->tp, d->tp_per_node, d->gpus_per_node / d->tp_per_node);
    double half_s = mw_ring_s(&tp, message);
    double sum_s = d->sums_in_halves ? 2 * half_s : mw_ring_all_reduce_s(&tp, message);
    double parts_s =
        d->checkpoint_parts > 1 ? checkpoints_of(d) * mw_ring_s(&tp, d->checkpoint_whole_bytes) : 0;
    double loss_s = d->sums_in_halves ? 2 * mw_ring_s(&tp, d->loss_sum_bytes)
                                      : mw_ring_all_reduce_s(&tp, d->loss_sum_bytes);
    double norms_s = d->norm_sums > 0
                         ? d->norm_sums * mw_ring_all_reduce_s(&tp, d->norm_bytes / d->norm_sums)
                         : 0;
    double ends_s = d->hidden_sums * sum_s + d->hidden_halves * half_s + loss_s;
    out->plan_s[MW_TERM_SLICING] =
        d->micro_batches *
        (passes * 2 * d->layers * sum_s + (d->input_gathers + d->gathers_again) * half_s + norms_s +
         parts_s + ends_s);
    out->slicing_beside_s =
        d->micro_batches * (d->split_backwards * (d->sums_in_halves ? half_s : sum_s) +
                            (d->input_gathers + d->piece_halves) * half_s);
}

/* Tokens go to experts on other ranks, and come back. */
static void
exchange_terms(const struct mw_closed_dims *d, const struct mw_hardware *hw,
               const struct mw_closed_rates *r, double *plan)
{
    if (!(d->exchanges > 0))
        return;
    plan[MW_TERM_EXCHANGE] =
        d->micro_batches * d->exchanges * mw_ring_all_to_all_s(&r->experts, d->exchange_bytes);
    if (!(d->expert_slices_bytes > 0))
        return;
    const struct mw_ring tp = ring_of(hw, d->tp, d->tp_per_node, d->gpus_per_node / d->tp_per_node);
    plan[MW_TERM_EXCHANGE] +=
        d->micro_batches * d->exchanges * mw_ring_s(&tp, d->expert_slices_bytes);
}

static double
all_flops(const struct mw_closed_block *block, double forwards)
{
    return (block->weights.forward_flops + block->attention.forward_flops) * forwards +
           block->weights.backward_flops + block->attention.backward_flops;
}

/* Ranks that share sequences exchange heads for attention, or pass blocks around beside it. */
static void
context_terms(const struct mw_closed_dims *d, const struct mw_closed_rates *r,
              struct mw_closed_form *out)
{
    if (d->context_passed > 0)
        out->ring_beside_s = d->micro_batches * mw_ring_passes_s(&r->passes, d->context_passed);
    out->plan_s[MW_TERM_CONTEXT] = out->ring_beside_s;
    if (d->context_exchanged > 0)
        out->plan_s[MW_TERM_CONTEXT] +=
            d->micro_batches * mw_ring_all_to_all_s(&r->context, d->context_exchanged);
}

/* At the mean rate of all products. */
static void
beside_terms(const struct mw_closed_dims *d, struct mw_closed_form *out)
{
    double flops = d->split_flops * (d->input_gathers > 0 ? 2 : 1) + d->piece_flops;

    if (!(flops > 0) && !(d->ring_flops > 0))
        return;
    double all = all_flops(&d->layer_block, layer_forwards(d)) + all_flops(&d->head, 1) +
                 all_flops(&d->tail, 1);
    out->products_beside_s = flops / all * out->plan_s[MW_TERM_PRODUCTS];
    out->attention_beside_s = d->ring_flops / all * out->plan_s[MW_TERM_PRODUCTS];
}

static void
activation_terms(const struct mw_closed_dims *d, const struct mw_hardware *hw,
                 const struct mw_closed_rates *r, double *plan)
{
    double count = checkpoints_of(d);
    double layers = d->layers * (1 - d->recomputed); /* whose activations leave, or stay */
    double bytes =
        d->micro_batches * (count * d->checkpoint_bytes + layers * d->layer_checkpoint_bytes);
    double nvme = d->checkpoints_in[MW_TIER_NVME];
    double off_gpu = d->checkpoints_in[MW_TIER_CPU] + nvme;

    double down = hw->checkpoint_copy_bytes_per_s > 0 ? hw->checkpoint_copy_bytes_per_s : INFINITY;
    double up = hw->checkpoint_load_bytes_per_s > 0 ? hw->checkpoint_load_bytes_per_s : INFINITY;
    plan[MW_TERM_CHECKPOINT_PCIE] =
        over(bytes * off_gpu, fmin(r->d2h, down)) + over(bytes * off_gpu, fmin(r->h2d, up));
    plan[MW_TERM_CHECKPOINT_NVME] = over(bytes * nvme, r->write) + over(bytes * nvme, r->read);
}

/* --- optimizer ------------------------------------------------------------------------------- */

static void
optimizer_terms(const struct mw_closed_dims *d, const struct mw_hardware *hw,
                const struct mw_closed_rates *r, double *plan)
{
    double shard = d->state_params;
    double nvme = d->state_in[MW_TIER_NVME];
    double host = nvme + d->state_in[MW_TIER_CPU] - d->state_streams;
    double returned = fmax(d->element_bytes, (double)hw->parameter_link_bytes);

    plan[MW_TERM_STATE_NVME] = over(shard * d->state_bytes * nvme, r->read) +
                               over(shard * d->state_bytes * nvme, r->write);
    plan[MW_TERM_STATE_PCIE] = over(shard * d->state_bytes * d->state_streams, r->h2d) +
                               over(shard * d->state_bytes * d->state_streams, r->d2h);
    plan[MW_TERM_UPDATE] = d->updates * (shard * ((1 - host) * r->update_s_per_param[0]) +
                                         (host > 0 ? shard * host * r->update_s_per_param[1] : 0));
    plan[MW_TERM_UPDATE] +=
        d->orthogonal_s +
        d->orthogonal_bytes * mw_cost_update_passes(hw, d->optimizer) / hw->gpu_memory_bytes_per_s +
        (d->momentum_bytes > 0 ? mw_ring_s(&r->shards, d->momentum_bytes) : 0);
    if (d->agreed_bytes > 0)
        plan[MW_TERM_UPDATE] +=
            fmax(0, mw_ring_all_reduce_s(&r->world, d->agreed_bytes) - clipped_s(d, r));
    plan[MW_TERM_RETURN] = over(d->element_bytes * shard * d->param_write, r->write) +
                           over(returned * shard * d->param_h2d, r->h2d) +
                           over(d->element_bytes * shard * d->param_d2h, r->d2h);
    if (d->updates > 1)
        plan[MW_TERM_RETURN] +=
            mw_ring_all_to_all_s(&r->shards, d->element_bytes * shard * d->shards);
    else if (d->optimizer_partitioned && !d->params_fetched)
        plan[MW_TERM_RETURN] +=
            mw_ring_s(&r->shards, d->element_bytes * (shard - d->spread_state) * d->shards) +
            (d->spread_state > 0
                 ? mw_ring_s(&r->expert_replicas,
                             d->element_bytes * d->spread_state * d->expert_replicas)
                 : 0);
}

/* --- the paper's equations ------------------------------------------------------------------- */

/* Bandwidth of one GPU to where a state lives (ZeRO-Infinity Fig. 2b); INFINITY on the GPU. */
static double
paper_bandwidth(const double in[MW_TIER_COUNT], double cpu, double nvme)
{
    double s_per_byte = 0;

    s_per_byte += in[MW_TIER_CPU] > 0 ? in[MW_TIER_CPU] / cpu : 0;
    s_per_byte += in[MW_TIER_NVME] > 0 ? in[MW_TIER_NVME] / nvme : 0;
    return s_per_byte > 0 ? 1 / s_per_byte : INFINITY;
}

/* Bytes/s of each traffic, as sim/efficiency.h counts them; INFINITY for a state that does not
 * move. */
static void
paper_bandwidths(const struct mw_closed_dims *d, const struct mw_hardware *hw, double *bandwidth)
{
    double gpus = d->gpus_per_node * d->nodes, users = d->gpus_per_node;
    double cpu = fmin(hw->pcie_h2d_bytes_per_s, hw->pcie_node_h2d_bytes_per_s / users);
    double nvme = fmin(cpu, hw->nvme_read_bytes_per_s / users);
    double gpu_gpu = d->nodes > 1 ? hw->nic_bytes_per_s : hw->fabric_bytes_per_s;
    double slow = paper_bandwidth(d->params_in, cpu, nvme);
    double state = paper_bandwidth(d->state_in, hw->host_memory_bytes_per_s / users,
                                   hw->nvme_read_bytes_per_s / users);

    bandwidth[MW_TRAFFIC_PARAMS] = gpus > 1 ? fmin(gpus * slow, gpu_gpu) : slow;
    bandwidth[MW_TRAFFIC_STATE] = gpus * fmin(state, hw->gpu_memory_bytes_per_s);
    bandwidth[MW_TRAFFIC_CHECKPOINTS] =
        d->checkpoint_interval > 0 ? paper_bandwidth(d->checkpoints_in, cpu, nvme) : INFINITY;
}

static void
paper_terms(const struct mw_closed_dims *d, const struct mw_hardware *hw,
            struct mw_closed_form *out)
{
    static const enum mw_closed_term terms[MW_TRAFFIC_COUNT] = {
        MW_TERM_FETCH_GATHER, MW_TERM_STATE_NVME, MW_TERM_CHECKPOINT_PCIE};
    double tokens = d->tokens / d->tp; /* bsz * seq of one GPU and one micro-batch */
    double flops = mw_efficiency_flops(tokens * d->micro_batches, d->paper_params);
    double ait[MW_TRAFFIC_COUNT] = {
        mw_efficiency_ait_params(tokens), mw_efficiency_ait_state(tokens * d->micro_batches),
        mw_efficiency_ait_checkpoints(d->hidden, fmax(d->checkpoint_interval, 1))};
    double bandwidth[MW_TRAFFIC_COUNT];
    double peak_flops = hw->gpu_achievable_flops * mw_kernel_dtype_share(hw, d->dtype);

    paper_bandwidths(d, hw, bandwidth);
    out->paper_s[MW_TERM_PRODUCTS] = flops / peak_flops;
    for (int t = 0; t < MW_TRAFFIC_COUNT; t++) {
        out->paper_s[terms[t]] = flops / (ait[t] * bandwidth[t]);
        out->paper_efficiency[t] = mw_efficiency(ait[t], bandwidth[t], peak_flops);
    }
}

/* Terms of one update, of which a step of stashed weights has one for each micro-batch. */
static void
repeat_updates(const struct mw_closed_dims *d, double *plan)
{
    static const enum mw_closed_term terms[] = {MW_TERM_GRADIENT_REDUCE, MW_TERM_GRADIENT_SUM,
                                                MW_TERM_UPDATE, MW_TERM_RETURN};

    for (size_t i = 0; d->stashes && i < sizeof terms / sizeof *terms; i++)
        plan[terms[i]] *= d->micro_batches;
}

void
mw_closed_form(const struct mw_closed_dims *dims, const struct mw_hardware *hardware,
               struct mw_closed_form *out)
{
    struct mw_closed_rates rates;

    memset(out, 0, sizeof *out);
    mw_closed_rates(dims, hardware, &rates);
    paper_terms(dims, hardware, out);
    compute_terms(dims, hardware, out->plan_s);
    fetch_terms(dims, hardware, &rates, out->plan_s);
    gradient_terms(dims, hardware, &rates, out->plan_s);
    activation_terms(dims, hardware, &rates, out->plan_s);
    slicing_terms(dims, hardware, out);
    exchange_terms(dims, hardware, &rates, out->plan_s);
    context_terms(dims, &rates, out);
    beside_terms(dims, out);
    optimizer_terms(dims, hardware, &rates, out->plan_s);
    repeat_updates(dims, out->plan_s);
    for (int t = 0; t < MW_TERM_COUNT; t++) {
        out->paper_total_s += out->paper_s[t];
        out->plan_total_s += out->plan_s[t];
    }
}

const char *
mw_closed_term_name(int term)
{
    static const char *const names[MW_TERM_COUNT] = {
        [MW_TERM_PRODUCTS] = "matrix products",
        [MW_TERM_MEMORY_BOUND] = "memory-bound operators",
        [MW_TERM_FETCH_NVME] = "parameter fetch, NVMe",
        [MW_TERM_FETCH_PCIE] = "parameter fetch, PCIe",
        [MW_TERM_FETCH_GATHER] = "parameter fetch, all-gather",
        [MW_TERM_GRADIENT_REDUCE] = "gradient reduction",
        [MW_TERM_GRADIENT_PCIE] = "gradients, PCIe",
        [MW_TERM_GRADIENT_SUM] = "gradient accumulation and norm",
        [MW_TERM_GRADIENT_NVME] = "gradients, NVMe",
        [MW_TERM_CHECKPOINT_PCIE] = "checkpoints, PCIe",
        [MW_TERM_CHECKPOINT_NVME] = "checkpoints, NVMe",
        [MW_TERM_SLICING] = "tensor-slicing all-reduces",
        [MW_TERM_EXCHANGE] = "expert all-to-alls",
        [MW_TERM_CONTEXT] = "attention over GPUs",
        [MW_TERM_STATE_NVME] = "optimizer state traffic",
        [MW_TERM_STATE_PCIE] = "optimizer state, PCIe",
        [MW_TERM_UPDATE] = "parameter update",
        [MW_TERM_RETURN] = "updated parameters return",
    };

    return term >= 0 && term < MW_TERM_COUNT ? names[term] : "?";
}
