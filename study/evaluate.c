#include "study/evaluate.h"

#include <math.h>
#include <string.h>

#include "plan/optimizers.h"
#include "planner/settings/drops.h"
#include "sim/cost.h"
#include "sim/kernels.h"

/* Of a class in a step: the mean over the cycle, where steps leave out layers. */
static double
blocks_done(const struct mw_sizing *sizing, int class)
{
    const char *text = sizing->settings.drop_layers;
    double blocks = (double)sizing->classes[class].blocks;
    int64_t dropped = 0;

    if (!text || class == MW_CLASS_HEAD || class == MW_CLASS_TAIL)
        return blocks;
    for (uint32_t turn = 0; turn < mw_drops_turns(text); turn++) {
        g_autofree bool *left_out = mw_drops_of_turn(text, turn, sizing->layers);
        for (int64_t layer = 0; left_out && layer < sizing->layers; layer++)
            dropped += left_out[layer] && (int)mw_sizing_layer_class(sizing, layer) == class;
    }
    return blocks - (double)dropped / mw_drops_turns(text);
}

double
mw_tokens_per_step(const struct mw_sizing *sizing)
{
    return (double)sizing->tokens * (double)sizing->dp * (double)mw_sizing_micro_batches(sizing);
}

/* Passes of a model's own FLOPs: forward, and the gradients of input and weights. */
static double
passes_of_model(const struct mw_operator_info *info)
{
    if (info->trained)
        return 3;
    return info->backward_flops ? 2 : 1; /* nothing comes before a frozen embedding */
}

/* How often a mean rank computes what a rank of the stage does for a micro-batch. */
static double
times_per_rank(const struct mw_sizing *stage)
{
    return (double)mw_sizing_micro_batches(stage) * (double)(stage->dp * stage->tp) /
           (double)stage->ranks;
}

double
mw_flops_of_model(const struct mw_sizing *sizing)
{
    double flops = 0;

    for (const struct mw_sizing *stage = sizing; stage; stage = stage->next_stage)
        for (int c = 0; c < MW_CLASS_COUNT; c++) {
            const struct mw_class_info *class = &stage->classes[c];
            for (int i = 0; i < class->operator_count; i++)
                flops +=
                    times_per_rank(stage) * passes_of_model(&class->operators[i]) *
                    blocks_done(stage, c) *
                    (double)(class->operators[i].forward_flops - class->operators[i].idle_flops);
        }
    return flops;
}

double
mw_flops_done(const struct mw_sizing *sizing)
{
    double flops = 0;

    for (const struct mw_sizing *stage = sizing; stage; stage = stage->next_stage)
        for (int c = 0; c < MW_CLASS_COUNT; c++) {
            const struct mw_class_info *class = &stage->classes[c];
            double again = class->blocks ? (double)mw_sizing_recomputed_blocks(stage, c) /
                                               (double)class->blocks
                                         : 0;
            for (int i = 0; i < class->operator_count; i++)
                flops += times_per_rank(stage) * blocks_done(stage, c) *
                         (class->operators[i].forward_flops * (1 + again) +
                          class->operators[i].backward_flops);
        }
    return flops;
}

double
mw_peak_flops(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    return hardware->gpu_peak_flops * mw_kernel_dtype_share(hardware, plan->shape.dtype);
}

double
mw_layers_flops(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    return hardware->gpu_achievable_flops * mw_kernel_dtype_share(hardware, plan->shape.dtype) *
           mw_kernel_slowest_share(hardware, plan->world_ranks);
}

double
mw_achievable_flops(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    g_autofree int64_t *times = g_new0(int64_t, plan->work_count);
    double flops = 0, seconds = 0;

    for (uint32_t i = 0; i < plan->op_count; i++)
        times[plan->ops[i].work] += mw_plan_op_rounds(plan, i);
    for (uint32_t w = 0; w < plan->work_count; w++) {
        const struct mw_work *work = &plan->works[w];
        if (!times[w] || work->kind != MW_OP_COMPUTE)
            continue;
        flops += (double)times[w] * (double)work->flops;
        seconds += (double)times[w] * mw_cost_work_s(plan, work, hardware);
    }
    double layers = mw_layers_flops(plan, hardware);
    return seconds > 0 ? fmax(layers, flops / seconds) : layers;
}

/* --- closed form: dimensions from the model, shares from the settings ------------------------ */

/* Number of tiles in which an operator is computed: only the largest operator of a unit is cut. */
static int64_t
tiles_of(const struct mw_class_info *class, int operator_)
{
    for (int u = 0; u < class->unit_count; u++) {
        const struct mw_unit *unit = &class->units[u];
        int largest = unit->first;
        if (operator_ < unit->first || operator_ >= unit->first + unit->count)
            continue;
        for (int i = unit->first; i < unit->first + unit->count; i++)
            if (class->operators[i].params > class->operators[largest].params)
                largest = i;
        return operator_ == largest ? unit->tiles : 1;
    }
    return 1;
}

/* A closed form has one rate of products, that of the step's type: of slower ones it has as many
 * more FLOPs.  The first product sets the rate of an operator. */
static double
slowdown_of(const struct mw_sizing *s, const struct mw_hardware *hardware,
            const struct mw_operator_info *info)
{
    if (!info->product_count)
        return 1;
    return mw_kernel_dtype_share(hardware, s->settings.dtype) /
           mw_kernel_dtype_share(hardware, (enum mw_dtype)info->products[0].dtype);
}

/* `fullest`: rows of the rank that all wait for, as a multiple of the mean. */
static void
add_shape(const struct mw_operator_info *info, double blocks, double fullest, int64_t parts,
          int64_t chunks, bool backward, struct mw_closed_shape *shape)
{
    struct mw_operator_info part = *info;

    mw_kernel_add_rows(part.products, part.product_count, fullest);
    for (uint32_t i = 0; i < part.product_count; i++) {
        part.products[i].m = MAX(1, part.products[i].m / chunks);
        part.products[i].n = MAX(1, part.products[i].n / parts);
    }
    *shape = (struct mw_closed_shape){
        .product_count = part.product_count,
        .attention = info->attention,
        .backward = backward,
        .fp8 = info->products[0].dtype == MW_DTYPE_FP8,
        .flops = blocks * fullest * (backward ? info->backward_flops : info->forward_flops)};
    memcpy(shape->products, part.products, sizeof part.products);
    if (backward)
        shape->product_count = mw_operator_backward_products(&part, shape->products);
}

/* Shapes of the class's products, in both directions, after those of the block that are there. */
static void
add_shapes(const struct mw_sizing *s, const struct mw_hardware *hardware, enum mw_class c,
           bool tiled, struct mw_closed_shape *shapes, struct mw_closed_block *block)
{
    const struct mw_class_info *class = &s->classes[c];

    block->shapes = block->shapes ? block->shapes : shapes;
    for (int i = 0; i < class->operator_count; i++) {
        const struct mw_operator_info *info = &class->operators[i];
        int64_t chunks = mw_sizing_token_parts(s, info->operator_);
        for (int backward = 0; info->product_count && class->blocks && backward < 2; backward++) {
            add_shape(info, class->blocks * slowdown_of(s, hardware, info),
                      mw_sizing_expert_work(s, class, info->operator_),
                      tiled ? tiles_of(class, i) : 1, chunks, backward, shapes++);
            block->shape_count++;
        }
    }
}

/* Tiled products are slower; the estimate counts that, the two closed forms do not. */
static void
add_class(const struct mw_sizing *s, const struct mw_hardware *hardware, enum mw_class c,
          bool tiled, struct mw_closed_block *block)
{
    const struct mw_class_info *class = &s->classes[c];

    for (int i = 0; i < class->operator_count; i++) {
        const struct mw_operator_info *info = &class->operators[i];
        double parts = tiled ? tiles_of(class, i) : 1;
        double fullest = mw_sizing_expert_work(s, class, info->operator_);
        double blocks = (double)class->blocks * fullest;
        int64_t chunks = mw_sizing_token_parts(s, info->operator_);
        double flops = blocks * slowdown_of(s, hardware, info);
        const struct mw_operator_row *row = mw_operator_row(info->operator_);
        struct mw_closed_products *products = row->attends ? &block->attention : &block->weights;
        double skipped = row->attends ? mw_kernel_skipped(hardware, &info->attention) : 1;
        products->forward_flops += flops * info->forward_flops / skipped;
        products->backward_flops += flops * info->backward_flops / skipped;
        if (info->trained && info->backward_flops && !row->attends)
            products->weight_flops += flops * info->forward_flops;
        const struct mw_work_product *first = &info->products[0];
        int64_t k = row->attends ? mw_kernel_curve_head_dim(hardware, first->k) : first->k;
        if (info->product_count)
            products->size += flops * info->forward_flops / skipped *
                              mw_kernel_size(MAX(1, first->m / chunks), first->n, k) *
                              cbrt(fullest / parts);
        if (row->attends)
            products->head_dim += blocks * info->forward_flops / skipped *
                                  (info->attention.head_dim + info->attention.value_dim) / 2;
        enum mw_turn back = mw_cost_turn(2 * info->product_count + info->products_again);
        *(row->streams ? &block->forward_streamed : &block->forward_bytes) +=
            blocks * info->forward_bytes *
            mw_cost_operator_passes(hardware, info->operator_, MW_TURN_FORWARD);
        *(row->streams ? &block->backward_streamed : &block->backward_bytes) +=
            blocks * info->backward_bytes *
            mw_cost_operator_passes(hardware, info->operator_, back);
        block->forward_launches += (double)class->blocks * info->launches * parts * chunks;
    }
}

/* Turns sums weighted by FLOPs into means. */
static void
finish_block(struct mw_closed_block *block)
{
    if (block->weights.forward_flops > 0)
        block->weights.size /= block->weights.forward_flops;
    if (!(block->attention.forward_flops > 0))
        return;
    block->attention.size /= block->attention.forward_flops;
    block->attention.head_dim /= block->attention.forward_flops;
}

static struct mw_closed_block *
block_of(struct mw_closed_dims *dims, enum mw_class class)
{
    return class == MW_CLASS_HEAD   ? &dims->head
           : class == MW_CLASS_TAIL ? &dims->tail
                                    : &dims->layer_block;
}

/* `count` tensors that are alike, with their homes. */
static void
add_alike(struct mw_closed_dims *dims, struct mw_closed_block *block,
          const struct mw_unit_tensor *tensor, int64_t count, int param_home, int gradient_home)
{
    bool spread = tensor->ranks != (int64_t)dims->shards;
    int64_t size = tensor->tiles * tensor->tile_params; /* parts travel with padding */
    double bytes = (double)mw_dtype_bytes(tensor->dtype, size) * count;

    block->param_bytes_in[param_home] += bytes;
    dims->params_in[param_home] += bytes;
    dims->spread_bytes_in[param_home] += spread ? bytes : 0;
    if (!tensor->trained)
        return;
    block->trained_params += (double)size * count;
    double share = dims->gradients_partitioned ? dims->shards / (double)tensor->ranks : 1;
    dims->gradients_in[gradient_home] += (double)size * count * share;
    dims->spread_params += spread ? (double)size * count : 0;
}

/* Where no state is split among tiers, a class is one sum: of many layers, too. */
static void
add_classes(const struct mw_sizing *s, struct mw_closed_dims *dims)
{
    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int t = 0; s->classes[c].blocks && t < s->classes[c].tensor_count; t++)
            add_alike(dims, block_of(dims, c), &s->classes[c].tensors[t], s->classes[c].blocks,
                      s->param_home[0], s->gradient_home[0]);
}

static void
add_each_tensor(const struct mw_sizing *s, struct mw_closed_dims *dims)
{
    for (uint32_t n = 0; n < s->tensor_count; n++) {
        int32_t layer;
        int index;
        enum mw_class class = mw_sizing_locate(s, n, &layer, &index);
        add_alike(dims, block_of(dims, class), &s->classes[class].tensors[index], 1,
                  s->param_home[n], s->gradient_home[n]);
    }
}

static void
add_tensors(const struct mw_sizing *s, struct mw_closed_dims *dims)
{
    double all_bytes = 0, trained = 0;

    if (s->settings.placement[MW_STATE_PARAMETERS].count > 1 ||
        s->settings.placement[MW_STATE_GRADIENTS].count > 1)
        add_each_tensor(s, dims);
    else
        add_classes(s, dims);
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        all_bytes += dims->params_in[t];
        trained += dims->gradients_in[t];
    }
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        dims->params_in[t] /= all_bytes;
        dims->gradients_in[t] /= trained;
    }
}

/* What an update of the chunk does with matrices as a whole. */
static void
add_orthogonal(const struct mw_sizing *s, const struct mw_hardware *hardware,
               const struct mw_chunk *chunk, struct mw_closed_dims *dims)
{
    struct mw_orthogonal work;

    mw_sizing_orthogonal(s, chunk, &work);
    if (!work.product_count)
        return;
    const struct mw_work_product *first = &work.products[0];
    struct mw_kernel_work kernel = {.products = work.products,
                                    .product_count = work.product_count,
                                    .size = mw_kernel_size(first->m, first->n, first->k)};
    dims->orthogonal_s += (double)work.flops / mw_kernel_flops(hardware, &kernel);
    dims->orthogonal_bytes += (double)work.bytes;
    if (mw_sizing_gathers_momentum(s, chunk))
        dims->momentum_bytes += (double)work.gathered_bytes;
}

static void
add_chunks(const struct mw_sizing *s, const struct mw_hardware *hardware,
           struct mw_closed_dims *dims)
{
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(s);
    double state_bytes = mw_sizing_state_element_bytes(s) * (double)s->shard_params;

    for (uint32_t c = 0; c < s->chunk_count; c++) {
        struct mw_chunk_moves moves = mw_sizing_chunk_moves(s, &chunks[c]);
        double share = (double)chunks[c].params / s->shard_params;
        dims->spread_state += chunks[c].ranks != s->shards ? (double)chunks[c].params : 0;
        double of_state = share; /* of no bytes */
        if (state_bytes > 0)
            of_state = (double)mw_state_bytes(&s->settings, s->hardware, chunks[c].params,
                                              chunks[c].matrix_params) /
                       state_bytes;
        dims->state_in[chunks[c].tier] += of_state;
        dims->updated_from[s->gradient_home[chunks[c].first_tensor]] += share;
        dims->state_streams += moves.state_streams ? of_state : 0;
        dims->gradient_h2d += moves.gradient_h2d || moves.gradient_streams ? share : 0;
        dims->gradient_d2h += moves.gradient_d2h ? share : 0;
        dims->param_h2d += moves.param_h2d ? share : 0;
        dims->param_d2h += moves.param_d2h ? share : 0;
        dims->param_write += moves.param_write ? share : 0;
        add_orthogonal(s, hardware, &chunks[c], dims);
    }
}

/* Of the layers. */
static double
recomputed_share(const struct mw_sizing *s)
{
    return s->settings.checkpoint_interval
               ? 1 - (double)mw_sizing_kept_layers(s) / (double)s->layers
               : 0;
}

/* The same of the time that forward takes, where layers that are unlike are recomputed or not. */
static double
recomputed_work(const struct mw_sizing *s)
{
    double again = 0, all = 0;

    if (mw_layer_set_is_empty(&s->settings.recompute_set))
        return recomputed_share(s);
    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++) {
        double layer_s = mw_sizing_forward_s(s, (enum mw_class)c);
        all += layer_s * (double)s->classes[c].blocks;
        again += layer_s * (double)mw_sizing_recomputed_blocks(s, (enum mw_class)c);
    }
    return all > 0 ? again / all : 0;
}

/* What does not depend on the operators. */
static struct mw_closed_dims
dims_of(const struct mw_sizing *s)
{
    const struct mw_settings *settings = &s->settings;
    bool tied = mw_sizing_tied(s);
    bool layers = mw_settings_layer_order(settings);
    double logits_loads = settings->logits_chunks > 1 || layers ? 1 : 2;
    const struct mw_optimizer_row *optimizer = mw_optimizer_row(settings->optimizer);
    double passes = optimizer->gradient_passes;
    return (struct mw_closed_dims){
        .gpus_per_node = settings->gpus_per_node,
        .nodes = settings->nodes,
        .shards = s->shards,
        .shards_per_node = s->shards_per_node,
        .replicas = s->replicas,
        .replicas_per_node = s->replicas_per_node,
        .tp = s->tp,
        .tp_per_node = s->tp_ranks_per_node,
        .cp = s->cp,
        .cp_per_node = MIN(s->cp, MAX(1, s->ranks_per_node / s->tp_ranks_per_node)),
        .ep = s->ep,
        .ep_per_node = (s->shape.whole_experts ? s->tp_ranks_per_node : 1) *
                       MIN(s->spread, MAX(1, s->ranks_per_node / s->tp_ranks_per_node)),
        .spread = s->spread,
        .expert_replicas = s->dp / s->spread,
        .expert_replicas_per_node =
            MIN(s->dp / s->spread, MAX(1, s->ranks_per_node / (s->tp_ranks_per_node * s->spread))),
        .exchange_bytes = (double)mw_sizing_exchange_bytes(s, MW_OPERATOR_EXPERTS_UP, true) *
                          mw_sizing_imbalance(s),
        .expert_slices_bytes =
            (double)mw_sizing_expert_slices_bytes(s, MW_OPERATOR_EXPERTS_UP, true) *
            mw_sizing_imbalance(s),
        .micro_batches = mw_sizing_micro_batches(s),
        .layer_checkpoint_bytes = (double)s->checkpoint_layer_bytes,
        .fetches = layers ? 1 : mw_sizing_micro_batches(s),
        .tokens = s->tokens,
        .hidden = s->model->hidden,
        .layers = s->layers,
        .checkpoint_interval = settings->checkpoint_interval,
        .checkpoint_bytes = (double)s->checkpoint_bytes,
        .checkpoint_whole_bytes = (double)s->checkpoint_whole_bytes,
        .checkpoint_coded_bytes = (double)(mw_sizing_checkpoint_coded_bytes(s, false) +
                                           mw_sizing_checkpoint_coded_bytes(s, true)),
        .paper_params = mw_model_params_paper(s->model),
        .checkpoint_parts = mw_sizing_gathers_checkpoints(s) ? s->checkpoint_parts : 1,
        .sums_in_halves = s->shape.sequence_parallel,
        .recomputed = recomputed_share(s),
        .recomputed_work = recomputed_work(s),
        .layer_loads = 2 + recomputed_share(s) * (double)(settings->param_loads - 2),
        .head_loads = 1,
        .tail_loads = tied && !layers ? 2 : logits_loads,
        .tied_loads = tied ? logits_loads : 0,
        .params_fetched = s->params_partitioned,
        .gradients_partitioned = s->gradients_partitioned,
        .optimizer_partitioned = s->optimizer_partitioned,
        .owner_broadcast = settings->partition == MW_PARTITION_OWNER,
        .dtype = settings->dtype,
        .element_bytes = s->element_bytes,
        .gradients_summed = s->gradients_summed,
        .sum_bytes = (double)s->sum_element_bytes,
        .stashes = mw_settings_stashes(settings),
        .updates = (double)mw_sizing_updates(s),
        .reduced_at_end = s->reduced_at_end,
        .sums_on_host = s->sums_on_host,
        .sums_passing = mw_sizing_sums_passing(s),
        .norm_passes = mw_settings_update_beside(settings) ? 0 : 1 + passes,
        .exact_passes = mw_settings_update_beside(settings) ? 0 : passes,
        .agreed_bytes = (double)mw_sizing_agreed_sums_bytes(s),
        .clip_passes = !mw_settings_update_beside(settings) && optimizer->clips,
        .update_passes = mw_settings_update_beside(settings) ? passes : 0,
        .gradient_bytes = s->gradient_element_bytes,
        .state_bytes = mw_sizing_state_element_bytes(s),
        .update_bytes = mw_update_bytes(settings, s->hardware, mw_sizing_state_element_bytes(s)),
        .optimizer = settings->optimizer,
        .state_params = s->shard_params,
        .saved_bytes = s->saves_in_step ? s->buffers[MW_BUFFER_SAVES].bytes : 0,
    };
}

/* Backwards of a class's operators in two ops. */
static void
add_splits(const struct mw_sizing *s, enum mw_class c, struct mw_closed_dims *dims)
{
    const struct mw_class_info *class = &s->classes[c];

    for (int i = 0; mw_class_is_of_layers(c) && i < class->operator_count; i++) {
        const struct mw_operator_info *info = &class->operators[i];
        if (!mw_sizing_splits_backward(s, info)) {
            dims->gathers_again += mw_sizing_gathers_input(s, info) ? class->blocks : 0;
            continue;
        }
        dims->split_backwards += class->blocks;
        dims->split_flops += (double)class->blocks * (double)info->forward_flops;
        dims->input_gathers += mw_sizing_gathers_input(s, info) ? class->blocks : 0;
    }
}

/* Halves of sums beside all pieces of a product but one. */
static void
add_pieces(const struct mw_sizing *s, enum mw_class c, struct mw_closed_dims *dims)
{
    const struct mw_class_info *class = &s->classes[c];
    double back = (double)class->blocks, share = 1 - 1 / (double)s->tp;
    double forth = back + (double)mw_sizing_recomputed_blocks(s, c);

    for (int i = 0; mw_class_is_of_layers(c) && i < class->operator_count; i++) {
        const struct mw_operator_info *info = &class->operators[i];
        double of_input = (double)(info->backward_flops - info->trained * info->forward_flops);
        if (mw_sizing_in_pieces(s, info->operator_, false)) {
            dims->piece_halves += forth;
            dims->piece_flops += forth * share * (double)info->forward_flops;
        }
        if (mw_sizing_in_pieces(s, info->operator_, true)) {
            dims->piece_halves += back;
            dims->piece_flops += back * share * of_input;
        }
    }
}

/* Norms whose weights' gradients slices sum up. */
static void
add_norm_sums(const struct mw_sizing *s, enum mw_class c, struct mw_closed_dims *dims)
{
    const struct mw_class_info *class = &s->classes[c];

    for (int i = 0; i < class->operator_count; i++) {
        const struct mw_operator_info *info = &class->operators[i];
        if (!mw_sizing_sums_norm(s, info))
            continue;
        dims->norm_sums += (double)class->blocks;
        dims->norm_bytes += (double)class->blocks * (double)mw_sizing_norm_bytes(s, info);
    }
}

static double *
sums_of(const struct mw_sizing *s, enum mw_operator operator_, bool backward,
        struct mw_closed_dims *dims)
{
    return mw_sizing_scatters_sum(s, operator_, backward) ? &dims->hidden_halves
                                                          : &dims->hidden_sums;
}

/* Sums of tensor slices at the ends of the model.  Where slices share tokens and sums are
 * scattered, the other half is a gather: of the gradient of the embedding's result, of the logits'
 * input. */
static void
add_end_sums(const struct mw_sizing *s, enum mw_class c, struct mw_closed_dims *dims)
{
    const struct mw_class_info *class = &s->classes[c];
    double hidden = dims->element_bytes * dims->tokens * dims->hidden;

    for (int i = 0; !mw_class_is_of_layers(c) && i < class->operator_count; i++) {
        enum mw_operator operator_ = class->operators[i].operator_;
        double bytes =
            (double)(mw_sizing_sum_parts(s, operator_) * mw_sizing_sum_bytes(s, operator_)) *
            (double)class->blocks;
        bool forward = mw_sizing_all_reduces(operator_, false);
        if (forward && operator_ == MW_OPERATOR_LOSS)
            dims->loss_sum_bytes += bytes;
        else if (forward)
            *sums_of(s, operator_, false, dims) += bytes / hidden;
        if (mw_sizing_all_reduces(operator_, true))
            *sums_of(s, operator_, true, dims) += bytes / hidden;
        if (mw_sizing_gathers_result(s, operator_))
            dims->hidden_halves += bytes / hidden;
        if (mw_sizing_gathers_gradient(s, operator_) && mw_sizing_trains_head(s))
            dims->hidden_halves += bytes / hidden;
    }
}

/* All-to-alls around the class's operators: as many forward as back, and with recomputation. */
static void
add_exchanges(const struct mw_sizing *s, enum mw_class c, struct mw_closed_dims *dims)
{
    const struct mw_class_info *class = &s->classes[c];
    double passes = 2.0 * (double)class->blocks + (double)mw_sizing_recomputed_blocks(s, c);

    for (int i = 0; i < class->operator_count; i++) {
        const struct mw_operator_row *row = mw_operator_row(class->operators[i].operator_);
        dims->exchanges += passes * (row->takes_tokens + row->returns_tokens);
    }
}

/* Around the class's attention, where ranks share sequences: in passes forward and back. */
static void
add_context(const struct mw_sizing *s, enum mw_class c, struct mw_closed_dims *dims)
{
    const struct mw_class_info *class = &s->classes[c];
    double back = (double)class->blocks;
    double forth = back + (double)mw_sizing_recomputed_blocks(s, c);

    for (int i = 0; s->cp > 1 && i < class->operator_count; i++) {
        const struct mw_operator_info *info = &class->operators[i];
        if (!mw_operator_row((int)info->operator_)->attends)
            continue;
        if (!mw_sizing_rings(s, info->operator_)) {
            int64_t bytes = mw_sizing_exchange_bytes(s, info->operator_, true) +
                            mw_sizing_exchange_bytes(s, info->operator_, false);
            dims->context_exchanged += (forth + back) * (double)bytes;
            continue;
        }
        dims->context_passed += forth * (double)mw_sizing_ring_bytes(s, false) +
                                back * (double)mw_sizing_ring_bytes(s, true);
        dims->ring_flops +=
            forth * (double)info->forward_flops + back * (double)info->backward_flops;
    }
}

/* Shares of their bytes.  Layer by layer each micro-batch has its own, which a split may put
 * elsewhere. */
static void
add_checkpoints(const struct mw_sizing *s, struct mw_closed_dims *dims)
{
    int64_t slots =
        mw_settings_layer_order(&s->settings) ? s->checkpoint_slots : s->checkpoint_count;
    double all = 0;

    for (int64_t c = 0; c < slots; c++)
        all += (double)mw_sizing_checkpoint_bytes(s, c);
    for (int64_t c = 0; c < slots; c++)
        dims->checkpoints_in[s->checkpoint_home[c]] +=
            (double)mw_sizing_checkpoint_bytes(s, c) / all;
}

/* Dimensions, and the shapes that they borrow. */
struct dimensions {
    struct mw_closed_dims dims;
    struct mw_closed_shape shapes[MW_CLASS_COUNT * MW_LAYER_OPERATORS_MAX * 2];
};

/* Of the machine they take passes over memory, whether its products have shapes, and what products
 * of the update take: may_share_dimensions. */
static void
dimensions_of(const struct mw_sizing *s, const struct mw_hardware *hardware, bool tiled,
              struct dimensions *out)
{
    struct mw_closed_dims *dims = &out->dims;
    int shape_count = 0;

    *dims = dims_of(s);
    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        struct mw_closed_block *block = block_of(dims, c);
        int before = block->shape_count;
        add_class(s, hardware, c, tiled, block);
        add_splits(s, c, dims);
        add_pieces(s, c, dims);
        add_end_sums(s, c, dims);
        add_norm_sums(s, c, dims);
        add_exchanges(s, c, dims);
        add_context(s, c, dims);
        if (hardware->gpu_multiprocessors)
            add_shapes(s, hardware, c, tiled, out->shapes + shape_count, block);
        shape_count += block->shape_count - before;
    }
    finish_block(&dims->head);
    finish_block(&dims->layer_block);
    finish_block(&dims->tail);
    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++) {
        const struct mw_class_info *class = &s->classes[c];
        double kept = (double)(class->blocks - mw_sizing_recomputed_blocks(s, c));
        dims->kept_coded_bytes += 2 * kept * (double)class->coded_bytes;
        dims->kept_coded_passes += class->coded_bytes ? 2 * kept : 0;
    }
    add_checkpoints(s, dims);
    add_tensors(s, dims);
    add_chunks(s, hardware, dims);
}

static void
closed_form(const struct mw_sizing *s, const struct mw_hardware *hardware, bool tiled,
            struct mw_closed_form *out)
{
    struct dimensions dimensions;

    dimensions_of(s, hardware, tiled, &dimensions);
    mw_closed_form(&dimensions.dims, hardware, out);
}

void
mw_closed_rates_of(const struct mw_sizing *sizing, const struct mw_hardware *hardware,
                   struct mw_closed_rates *out)
{
    struct mw_closed_dims dims = dims_of(sizing);

    mw_closed_rates(&dims, hardware, out);
}

void
mw_closed_form_of(const struct mw_sizing *sizing, const struct mw_hardware *hardware,
                  struct mw_closed_form *out)
{
    closed_form(sizing, hardware, false, out);
}

void
mw_closed_form_of_slowest(const struct mw_sizing *first, const struct mw_hardware *hardware,
                          struct mw_closed_form *form)
{
    mw_closed_form_of(first, hardware, form);
    for (const struct mw_sizing *stage = first->next_stage; stage; stage = stage->next_stage) {
        struct mw_closed_form other;
        mw_closed_form_of(stage, hardware, &other);
        if (other.plan_total_s > form->plan_total_s)
            *form = other;
    }
}

/* An update beside backward is hidden by that of the last micro-batch, and its drives are those of
 * the passes. */
static double
beside_s(const struct mw_sizing *sizing, double passes_s, double update_s, double drives_s)
{
    double recomputes = recomputed_share(sizing);
    double backward_s =
        passes_s * (2 + recomputes) / (3 + recomputes) / (double)mw_sizing_micro_batches(sizing);

    return fmax(passes_s + fmax(0, update_s - backward_s), drives_s);
}

double
mw_fetch_s(const double *terms)
{
    return fmax(terms[MW_TERM_FETCH_NVME],
                fmax(terms[MW_TERM_FETCH_PCIE], terms[MW_TERM_FETCH_GATHER]));
}

/* What either direction takes longer than its pass, nothing hides. */
double
mw_passes_beside_leaving_s(double own_s, double again, double each_way_s)
{
    double forward_s = own_s / (3 + again);

    return fmax(forward_s, each_way_s) + fmax(own_s - forward_s, each_way_s);
}

static double
swapped_s(const struct mw_sizing *sizing, const double *terms, double own_s)
{
    double each_way_s = fmax(terms[MW_TERM_CHECKPOINT_PCIE], terms[MW_TERM_CHECKPOINT_NVME]) / 2;

    return sizing->checkpoint_layer_bytes
               ? mw_passes_beside_leaving_s(own_s, recomputed_share(sizing), each_way_s)
               : 0;
}

/* Of the loads of a parameter the share that backward and its recomputation make. */
static double
loads_behind(const struct mw_sizing *sizing)
{
    double behind = sizing->settings.param_loads == 3 ? 1 + recomputed_share(sizing) : 1;

    return behind / (1 + behind);
}

/* Forward and backward one after the other: what parameters that come take longer than either pass,
 * and gradients that leave longer than backward, nothing hides. */
static double
in_turn_s(const struct mw_sizing *sizing, const double *t, double own_s)
{
    double reduce_s = sizing->reduced_at_end ? 0 : t[MW_TERM_GRADIENT_REDUCE];
    double sums_s = sizing->gradient_home[0] == MW_TIER_GPU ? 0 : t[MW_TERM_GRADIENT_SUM];
    double forward_s = own_s / (3 + recomputed_share(sizing)), behind = loads_behind(sizing);
    double links_s = fmax(behind * t[MW_TERM_FETCH_GATHER] + reduce_s,
                          fmax(behind * t[MW_TERM_FETCH_PCIE], t[MW_TERM_GRADIENT_PCIE]));
    double behind_s =
        fmax(links_s, fmax(behind * t[MW_TERM_FETCH_NVME] + t[MW_TERM_GRADIENT_NVME], sums_s));

    return fmax(forward_s, (1 - behind) * mw_fetch_s(t)) + fmax(own_s - forward_s, behind_s);
}

/* The terms of a closed form beside each other. */
static struct mw_step_parts
parts_of(const struct mw_sizing *sizing, const struct mw_hardware *hw,
         const struct mw_closed_form *form)
{
    const double *t = form->plan_s;
    bool sums_on_gpu = sizing->gradient_home[0] == MW_TIER_GPU;
    double after_s = sizing->reduced_at_end ? t[MW_TERM_GRADIENT_REDUCE] : 0;
    double collectives_s = t[MW_TERM_FETCH_GATHER] + t[MW_TERM_GRADIENT_REDUCE] - after_s;
    double nvme_s = t[MW_TERM_FETCH_NVME] + t[MW_TERM_GRADIENT_NVME] + t[MW_TERM_CHECKPOINT_NVME];
    double copies_s = t[MW_TERM_FETCH_PCIE] + t[MW_TERM_GRADIENT_PCIE] + t[MW_TERM_CHECKPOINT_PCIE];
    double own_s = t[MW_TERM_PRODUCTS] + t[MW_TERM_MEMORY_BOUND] + t[MW_TERM_SLICING] +
                   t[MW_TERM_EXCHANGE] + t[MW_TERM_CONTEXT];
    double beside = 1 - hw->gpu_collective_sm_share;
    double hidden_s = fmin(beside * form->slicing_beside_s, form->products_beside_s) +
                      fmin(beside * form->ring_beside_s, form->attention_beside_s);
    double compute_s = own_s + hw->gpu_collective_sm_share * collectives_s +
                       (sums_on_gpu ? 1 : hw->gpu_host_sm_share) * t[MW_TERM_GRADIENT_SUM] +
                       hw->gpu_copy_sm_share * copies_s + hw->gpu_nvme_sm_share * nvme_s +
                       (hw->checkpoints_block ? t[MW_TERM_CHECKPOINT_PCIE] : 0) - hidden_s;
    double pcie_s =
        fmax(t[MW_TERM_FETCH_PCIE], t[MW_TERM_GRADIENT_PCIE]) + t[MW_TERM_CHECKPOINT_PCIE] / 2;
    double sums_s = sums_on_gpu ? 0 : t[MW_TERM_GRADIENT_SUM];
    double lanes_s = fmax(fmax(fmax(collectives_s, sums_s), fmax(pcie_s, nvme_s)),
                          swapped_s(sizing, t, own_s - hidden_s));
    double update_sm_s = hw->gpu_host_sm_share * t[MW_TERM_UPDATE] +
                         hw->gpu_copy_sm_share * (t[MW_TERM_RETURN] + t[MW_TERM_STATE_PCIE]) +
                         hw->gpu_nvme_sm_share * t[MW_TERM_STATE_NVME];

    return (struct mw_step_parts){
        .own_s = own_s - hidden_s,
        .compute_s = compute_s,
        .lanes_s = lanes_s,
        .passes_s = fmax(compute_s, lanes_s),
        .after_s = after_s,
        .update_s = fmax(fmax(t[MW_TERM_STATE_NVME], t[MW_TERM_UPDATE]),
                         fmax(t[MW_TERM_RETURN] + t[MW_TERM_STATE_PCIE] / 2, update_sm_s)),
        .update_sm_s = update_sm_s,
        .drives_s = nvme_s + t[MW_TERM_STATE_NVME],
    };
}

static double
overlapped_s(const struct mw_sizing *sizing, const struct mw_hardware *hw,
             const struct mw_closed_form *form)
{
    if (!sizing->settings.overlap || sizing->settings.serialize)
        return form->plan_total_s;
    const struct mw_step_parts parts = parts_of(sizing, hw, form);
    double compute_s = parts.compute_s * (1 + mw_sizing_bubble(sizing));
    double in_turn = in_turn_s(sizing, form->plan_s, parts.own_s);
    double passes_s = fmax(compute_s, fmax(parts.lanes_s, in_turn)) + parts.after_s;

    if (mw_settings_update_beside(&sizing->settings))
        return beside_s(sizing, passes_s, parts.update_s, parts.drives_s);
    return sizing->settings.dpu_start == MW_AUTO
               ? passes_s + parts.update_s
               : fmax(fmax(passes_s, parts.update_s), parts.compute_s + parts.update_sm_s);
}

void
mw_step_parts_of(const struct mw_sizing *sizing, const struct mw_hardware *hw,
                 struct mw_step_parts *out)
{
    struct mw_closed_form form;

    closed_form(sizing, hw, true, &form);
    *out = parts_of(sizing, hw, &form);
}

double
mw_estimate_s(const struct mw_sizing *sizing, const struct mw_hardware *hw)
{
    struct mw_closed_form form;

    closed_form(sizing, hw, true, &form);
    return overlapped_s(sizing, hw, &form);
}

/* --- estimates of one sizing on machines that are almost the same ----------------------------- */

struct mw_estimate {
    const struct mw_sizing *sizing;
    struct mw_hardware machine;
    struct dimensions dimensions;
    double step_s;
};

struct mw_estimate *
mw_estimate_new(const struct mw_sizing *sizing, const struct mw_hardware *machine)
{
    struct mw_estimate *estimate = g_new(struct mw_estimate, 1);
    struct mw_closed_form form;

    estimate->sizing = sizing;
    memcpy(&estimate->machine, machine, sizeof *machine);
    dimensions_of(sizing, machine, true, &estimate->dimensions);
    mw_closed_shapes_s(&estimate->dimensions.dims, machine);
    mw_closed_form(&estimate->dimensions.dims, machine, &form);
    estimate->step_s = overlapped_s(sizing, machine, &form);
    return estimate;
}

const struct mw_sizing *
mw_estimate_sizing(const struct mw_estimate *estimate)
{
    return estimate->sizing;
}

double
mw_estimate_own_s(const struct mw_estimate *estimate)
{
    return estimate->step_s;
}

/* Products of an update are in the dimensions as a time. */
static bool
may_share_dimensions(const struct mw_estimate *estimate, const struct mw_hardware *other,
                     bool same_rates)
{
    const struct mw_hardware *machine = &estimate->machine;

    return mw_cost_same_passes(machine, other) &&
           machine->gpu_multiprocessors == other->gpu_multiprocessors &&
           (same_rates || estimate->dimensions.dims.orthogonal_s <= 0);
}

double
mw_estimate_on_s(const struct mw_estimate *estimate, const struct mw_hardware *other)
{
    struct mw_closed_dims dims = estimate->dimensions.dims;
    bool same_rates = mw_kernel_same_rates(&estimate->machine, other);
    struct mw_closed_form form;

    if (!memcmp(&estimate->machine, other, sizeof *other))
        return estimate->step_s;
    if (!may_share_dimensions(estimate, other, same_rates))
        return mw_estimate_s(estimate->sizing, other);
    if (!same_rates)
        mw_closed_shapes_s(&dims, other);
    mw_closed_form(&dims, other, &form);
    return overlapped_s(estimate->sizing, other, &form);
}

void
mw_estimate_free(struct mw_estimate *estimate)
{
    g_free(estimate);
}
