#include "study/serving.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/spell.h"
#include "hardware/ring.h"
#include "sim/closed_form.h"
#include "sim/kernels.h"

#define PROMPT_DEFAULT 512
#define BATCH_MOST 4096
/* Of the prompts in a GPU's memory at once: input and result of a product, and what a gated MLP has
 * beside them. */
#define WORKING_TENSORS 4
#define STREAMED_LAYERS 3 /* in the GPU's memory at once: one in use, one here, one coming */

const char *
mw_serving_lane_name(enum mw_serving_lane lane)
{
    static const char *const names[MW_SERVING_LANES] = {
        [MW_SERVING_PRODUCTS] = "matrix products",  [MW_SERVING_MEMORY] = "the GPU's memory",
        [MW_SERVING_LAUNCHES] = "starting kernels", [MW_SERVING_LINK] = "the link to the GPU",
        [MW_SERVING_DRIVES] = "the drives",         [MW_SERVING_RANKS] = "the links between GPUs",
    };

    return names[lane];
}

/* What all rows share. */
struct served {
    const struct mw_model *model;
    const struct mw_hardware *hw;
    int64_t gpus, gpus_per_node, prompt, generated;
    int64_t slices; /* of every layer, on as many GPUs, which share their sequences */
    struct mw_closed_rates rates;
    enum mw_dtype dtype,
        narrow; /* of all, and of the layers' products; MW_DTYPE_NONE: as the rest */
    const struct mw_placement *places; /* of the weights; NULL: in one place, count 0: open */
    double weights, expert_weights;    /* bytes of all, and of the experts among them */
    double looked_up;                  /* bytes of which a step reads no more than a token's row */
    double layer_bytes;                /* the largest layer's weights */
    double prompt_flops, token_flops;
    double launches; /* of a step */
    double flops_per_s;
};

/* --- the cache ------------------------------------------------------------------------------- */

/* Keys and values of a token in one layer; of latent attention the latent and the positions. */
static double
layer_cache_bytes(const struct mw_model *model)
{
    if (model->kv_lora)
        return 2.0 * (double)(model->kv_lora + model->rope_dim);
    return 2.0 * (double)(model->kv_heads * (model->head_dim + model->value_dim));
}

/* Of `tokens` tokens of one sequence, in all layers: those with a window keep no more than it. */
static double
cache_bytes(const struct mw_model *model, double tokens)
{
    double bytes = 0;

    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++) {
        double layers =
            model->mixed
                ? (double)model->mixed_layers[kind]
                : (double)mw_model_count_blocks(model, (enum mw_block_kind)kind, 0, model->layers);
        bool windowed = mw_block_traits((enum mw_block_kind)kind)->windowed;
        double kept = windowed && model->window ? fmin(tokens, (double)model->window) : tokens;
        bytes += layers * kept * layer_cache_bytes(model);
    }
    for (int s = 0; s < model->stack_count; s++) {
        const struct mw_model_stack *stack = &model->stacks[s];
        double kept = stack->window ? fmin(tokens, (double)stack->window) : tokens;
        bytes += stack->heads ? (double)stack->layers * kept * 4.0 *
                                    (double)(stack->kv_heads * stack->head_dim)
                              : 0;
    }
    return bytes;
}

/* --- the model ------------------------------------------------------------------------------- */

static double
flops_of(const struct mw_operators *operators, double *launches)
{
    double flops = 0;

    for (int i = 0; i < operators->count; i++) {
        flops += (double)operators->info[i].forward_flops;
        *launches += operators->info[i].launches;
    }
    return flops;
}

/* As they are, or were all of them as the activations are. */
static double
bytes_of(const struct mw_operators *operators, enum mw_dtype all)
{
    double bytes = 0;

    for (int i = 0; i < operators->count; i++) {
        const struct mw_operator_info *info = &operators->info[i];
        enum mw_dtype dtype = all == MW_DTYPE_NONE ? info->weights : all;
        bytes += (double)mw_dtype_bytes(dtype, info->params);
    }
    return bytes;
}

/* Parameters of tables from which each token takes a row: an embedding of its own. */
static double
table_params(const struct mw_model *model, const struct mw_operators *head)
{
    double params = 0;

    for (int i = 0; i < head->count && !model->tied_embedding; i++)
        params += head->info[i].product_count ? 0 : (double)head->info[i].params;
    return params;
}

static double
bytes_each(enum mw_dtype dtype)
{
    return (double)mw_dtype_bytes(dtype, 1 << 20) / (1 << 20);
}

/* Quantizers leave the ends of a model as they are: transformers' bitsandbytes the logits, and
 * tables are no products (get_keys_to_not_convert); AutoGPTQ and AutoAWQ take the layers' products
 * alone (AwqQuantizer.quantize). */
static void
weigh(struct served *it)
{
    const struct mw_model *model = it->model;
    struct mw_shape shape = {.sequences = 1,
                             .seq = it->prompt,
                             .tp = 1,
                             .dtype = it->dtype,
                             .trained = {.frozen = UINT32_MAX},
                             .frozen_dtype = it->narrow};
    struct mw_model_walk walked;

    mw_model_walk(model, &shape, &walked);
    it->weights = bytes_each(it->dtype) * (double)mw_model_params(model);
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++) {
        double blocks =
            (double)mw_model_count_blocks(model, (enum mw_block_kind)kind, 0, model->layers);
        double bytes = bytes_of(&walked.blocks[kind], MW_DTYPE_NONE);
        it->weights -= blocks * (bytes_of(&walked.blocks[kind], it->dtype) - bytes);
        if (blocks > 0)
            it->layer_bytes = fmax(it->layer_bytes, bytes);
    }
    it->looked_up = bytes_each(it->dtype) * table_params(model, &walked.head);
    if (model->experts) {
        double idle = (double)(mw_model_params(model) - mw_model_active_params(model));
        double share = 1 - (double)model->experts_per_token / (double)model->experts;
        enum mw_dtype experts = it->narrow == MW_DTYPE_NONE ? it->dtype : it->narrow;
        it->expert_weights = share > 0 ? bytes_each(experts) * idle / share : 0;
    }
}

static void
walk(struct served *it)
{
    const struct mw_model *model = it->model;
    struct mw_shape shape = {.sequences = 1, .seq = it->prompt, .tp = 1, .flash_attention = true};
    struct mw_model_walk walked;

    mw_model_walk(model, &shape, &walked);
    it->prompt_flops =
        flops_of(&walked.head, &it->launches) + flops_of(&walked.tail, &it->launches);
    for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++) {
        double blocks =
            (double)mw_model_count_blocks(model, (enum mw_block_kind)kind, 0, model->layers);
        double launches = 0;
        it->prompt_flops += blocks * flops_of(&walked.blocks[kind], &launches);
        it->launches += blocks * launches;
    }
    it->token_flops =
        2 * ((double)mw_model_active_params(model) - table_params(model, &walked.head));
}

/* Of a mixture, a step reads the experts that some of its tokens meet; of a table a few rows. */
static double
weights_read(const struct served *it, double tokens)
{
    const struct mw_model *model = it->model;
    double all = it->weights - it->looked_up;

    if (!model->experts)
        return all;
    double each = (double)model->experts_per_token / (double)model->experts;
    return all - it->expert_weights * pow(1 - each, tokens);
}

/* --- one number of sequences ----------------------------------------------------------------- */

static int64_t
capacity_of(const struct served *it, enum mw_tier tier)
{
    const struct mw_hardware *hw = it->hw;

    return tier == MW_TIER_GPU   ? hw->gpu_memory_bytes - hw->gpu_reserve_bytes
           : tier == MW_TIER_CPU ? hw->host_memory_bytes - hw->host_reserve_bytes
                                 : hw->nvme_capacity_bytes - hw->nvme_reserve_bytes;
}

/* Bytes in use beside the weights that stay: prompts on their way, and the cache. */
static double
working_bytes(const struct served *it, struct mw_serving_row *row)
{
    double ends = (double)(it->prompt + it->generated), hidden = (double)it->model->hidden;
    double sequences = (double)(row->batch * it->slices); /* of the GPUs that share them */

    row->cache_bytes = (int64_t)(cache_bytes(it->model, ends) * (double)row->batch);
    return sequences * (double)it->prompt * hidden * 2 * WORKING_TENSORS + (double)row->cache_bytes;
}

/* Fills in what is needed where.  A GPU has room for some layers on their way, from drives the host
 * as much again. */
static bool
has_room(const struct served *it, struct mw_serving_row *row, const double home[MW_TIER_COUNT],
         bool shared)
{
    double streamed = STREAMED_LAYERS * it->layer_bytes;
    double of_gpu = shared ? streamed + home[MW_TIER_GPU] / (double)it->gpus_per_node
                           : it->weights / (double)it->slices;
    bool fits = true;

    row->shared = shared;
    row->weights_in = MW_TIER_GPU;
    row->need[MW_TIER_GPU] = (int64_t)(of_gpu + working_bytes(it, row));
    row->need[MW_TIER_CPU] = (int64_t)(home[MW_TIER_CPU] + (home[MW_TIER_NVME] > 0 ? streamed : 0));
    row->need[MW_TIER_NVME] = (int64_t)home[MW_TIER_NVME];
    for (int tier = 0; tier < MW_TIER_COUNT; tier++) {
        row->home_bytes[tier] = (int64_t)home[tier];
        row->home_share[tier] = home[tier] / it->weights;
        row->weights_in = home[tier] > 0 ? (enum mw_tier)tier : row->weights_in;
        fits &= row->need[tier] <= MAX(0, capacity_of(it, (enum mw_tier)tier));
    }
    return fits;
}

static bool
all_fit(const struct served *it, struct mw_serving_row *row, enum mw_tier tier, bool shared)
{
    double home[MW_TIER_COUNT] = {0};

    home[tier] = it->weights;
    return has_room(it, row, home, shared);
}

/* Whole layers of at most `bytes`, and no more than `rest`. */
static double
whole_layers(const struct served *it, double bytes, double rest)
{
    return bytes >= rest ? rest : fmax(0, floor(bytes / it->layer_bytes)) * it->layer_bytes;
}

/* The layers that have room stay on the node's GPUs, others in host memory, the rest on drives. */
static bool
fill(const struct served *it, struct mw_serving_row *row)
{
    double streamed = STREAMED_LAYERS * it->layer_bytes, rest = it->weights;
    double gpu = (double)capacity_of(it, MW_TIER_GPU) - streamed - working_bytes(it, row);
    double cpu = (double)capacity_of(it, MW_TIER_CPU), home[MW_TIER_COUNT] = {0};

    home[MW_TIER_GPU] = whole_layers(it, gpu * (double)it->gpus_per_node, rest);
    rest -= home[MW_TIER_GPU];
    home[MW_TIER_CPU] = whole_layers(it, rest > cpu ? cpu - streamed : cpu, rest);
    home[MW_TIER_NVME] = rest - home[MW_TIER_CPU];
    return has_room(it, row, home, true);
}

/* As --param-device says: the tiers in turn, each up to its bytes or share. */
static bool
place(const struct served *it, struct mw_serving_row *row)
{
    double rest = it->weights, home[MW_TIER_COUNT] = {0};

    for (int i = 0; i < it->places->count; i++) {
        double most = it->places->part[i].share > 0 ? it->places->part[i].share * it->weights
                                                    : (double)it->places->part[i].bytes;
        bool last = i == it->places->count - 1;
        home[it->places->part[i].tier] = last ? rest : whole_layers(it, most, rest);
        rest -= home[it->places->part[i].tier];
    }
    bool on_gpu = home[MW_TIER_GPU] >= it->weights;
    return (on_gpu && has_room(it, row, home, false)) ||
           ((!on_gpu || it->gpus_per_node > 1) && has_room(it, row, home, true));
}

/* Sliced layers add up what they compute twice each, after attention and after the MLP (Megatron's
 * slicing, arXiv 1909.08053, Sec. 3), and wait for it. */
static double
slicing_s(const struct served *it, double tokens)
{
    double slices = (double)it->slices, node = (double)it->gpus_per_node;
    const struct mw_ring ring = mw_ring_of(it->hw, slices, slices, node / slices);
    double message = tokens * slices * (double)it->model->hidden * 2;

    return it->slices > 1 ? 2 * (double)it->model->layers * mw_ring_all_reduce_s(&ring, message)
                          : 0;
}

/* The longest lane of a step with so many tokens per GPU, whose cache is read. */
static double
step_s(const struct served *it, const struct mw_serving_row *row, double flops, double tokens,
       double cache, enum mw_serving_lane *limit)
{
    double lanes[MW_SERVING_LANES] = {0};
    double read = weights_read(it, tokens * (double)it->slices) / (double)it->slices;
    double share = read / (double)it->gpus_per_node, wait_s = slicing_s(it, tokens);

    lanes[MW_SERVING_PRODUCTS] = flops / it->flops_per_s;
    lanes[MW_SERVING_MEMORY] = (read + cache) / it->hw->gpu_memory_bytes_per_s;
    lanes[MW_SERVING_LAUNCHES] = it->launches * fmax(it->hw->gpu_launch_s, it->hw->host_launch_s);
    if (row->shared && it->gpus_per_node > 1)
        lanes[MW_SERVING_RANKS] = mw_ring_s(&it->rates.shards, read);
    lanes[MW_SERVING_LINK] =
        (row->home_share[MW_TIER_CPU] + row->home_share[MW_TIER_NVME]) * share / it->rates.h2d;
    if (row->home_share[MW_TIER_NVME] > 0)
        lanes[MW_SERVING_DRIVES] = row->home_share[MW_TIER_NVME] * share / it->rates.read;
    *limit = MW_SERVING_PRODUCTS;
    for (int lane = 0; lane < MW_SERVING_LANES; lane++)
        if (lanes[lane] > lanes[*limit])
            *limit = (enum mw_serving_lane)lane;
    double longest_s = lanes[*limit];
    if (wait_s > longest_s)
        *limit = MW_SERVING_RANKS;
    return longest_s + wait_s;
}

static void
time_row(const struct served *it, struct mw_serving_row *row)
{
    double batch = (double)row->batch, prompt = (double)it->prompt;
    double middle = prompt + (double)it->generated / 2;
    enum mw_serving_lane of_prompt;

    row->prompt_s = step_s(it, row, batch * it->prompt_flops, batch * prompt,
                           batch * cache_bytes(it->model, prompt), &of_prompt);
    row->token_s = step_s(it, row, batch * it->token_flops, batch,
                          batch * cache_bytes(it->model, middle), &row->limit);
    double all_s = row->prompt_s + row->token_s * (double)(it->generated - 1);
    row->tokens_per_s = batch * (double)it->gpus * (double)it->generated / all_s;
}

/* Weights as near as they have room; those that a trained model generates with in one place. */
static bool
find_home(const struct served *it, struct mw_serving_row *row)
{
    if (it->slices > 1)
        return all_fit(it, row, MW_TIER_GPU, false);
    if (it->places && it->places->count)
        return place(it, row);
    if (all_fit(it, row, MW_TIER_GPU, false))
        return true;
    if (it->places)
        return fill(it, row);
    return (it->gpus_per_node > 1 && all_fit(it, row, MW_TIER_GPU, true)) ||
           all_fit(it, row, MW_TIER_CPU, true) || all_fit(it, row, MW_TIER_NVME, true);
}

static struct mw_serving_row
row_of(const struct served *it, int64_t batch)
{
    struct mw_serving_row row = {.batch = batch};

    row.fits = find_home(it, &row);
    if (row.fits)
        time_row(it, &row);
    return row;
}

/* --- all ------------------------------------------------------------------------------------- */

static int64_t
most_that_fit(const struct served *it)
{
    int64_t low = 0, high = BATCH_MOST + 1;

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        bool fits = row_of(it, middle).fits;
        low = fits ? middle : low;
        high = fits ? high : middle;
    }
    return low;
}

static void
add_row(struct mw_serving *out, const struct served *it, int64_t batch)
{
    struct mw_serving_row row = row_of(it, batch);

    out->rows[out->row_count] = row;
    if (row.fits && (out->best < 0 || row.tokens_per_s > out->rows[out->best].tokens_per_s))
        out->best = out->row_count;
    out->row_count++;
}

bool
mw_serving_reads(const char *setting)
{
    static const char *const names[] = {"batch",
                                        "dtype",
                                        "gpus",
                                        "nodes",
                                        "objective",
                                        "optimizer-device",
                                        "param-device",
                                        "gradient-device",
                                        "activation-device",
                                        "pp",
                                        "seq",
                                        "serve",
                                        "tp",
                                        "weight-bits"};

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (!strcmp(names[i], setting))
            return true;
    return false;
}

static bool
check(const struct mw_question *question, int64_t generated, GError **error)
{
    const struct mw_settings *s = &question->settings;
    const struct mw_model *model = &question->model;

    if (!mw_model_logits(model) || model->classes)
        return mw_refuse(error,
                         "{serve=%" G_GINT64_FORMAT "}: model %s has no vocabulary to "
                         "generate from",
                         generated, model->name);
    if (model->described)
        return mw_refuse(error,
                         "{serve=%" G_GINT64_FORMAT "}: of a described model the cache of "
                         "keys and values is not known",
                         generated);
    if (s->dtype == MW_DTYPE_FP32 && question->hardware[MW_OUTLOOK_TYPICAL].gpu_fp32_flops <= 0)
        return mw_refuse(error, "{dtype=fp32}: the profile has no rate of products in fp32; set "
                                "gpu.fp32_tflops, or leave it out");
    static const char *const devices[MW_STATE_COUNT] = {[MW_STATE_GRADIENTS] = "{gradient-device}",
                                                        [MW_STATE_OPTIMIZER] = "{optimizer-device}",
                                                        [MW_STATE_ACTIVATIONS] =
                                                            "{activation-device}"};
    for (int state = 0; state < MW_STATE_COUNT; state++)
        if (devices[state] && s->placement[state].count) {
            g_autofree char *device = mw_spelled(devices[state]);
            return mw_refuse(error,
                             "{serve=%" G_GINT64_FORMAT "}: weights are where {param-device} "
                             "says, the cache on the GPUs, and there is no other state; leave out "
                             "%s",
                             generated, device);
        }
    if (s->tp > 1 || s->pp > 1)
        return mw_refuse(error,
                         "{serve=%" G_GINT64_FORMAT "}: every GPU has sequences of its own "
                         "and all layers: leave out {%s}",
                         generated, s->tp > 1 ? "tp" : "pp");
    if (s->micro_batch != MW_AUTO && s->micro_batch != floor(s->micro_batch))
        return mw_refuse(error, "{batch=%g}: must be whole sequences", s->micro_batch);
    return true;
}

static struct served
served_of(const struct mw_question *question, int64_t generated, int64_t slices)
{
    const struct mw_hardware *hw = &question->hardware[MW_OUTLOOK_TYPICAL];
    const struct mw_settings *s = &question->settings;
    enum mw_dtype dtype = s->dtype == MW_DTYPE_NONE ? MW_DTYPE_BF16 : s->dtype;
    struct served it = {
        .model = &question->model,
        .hw = hw,
        .gpus_per_node = s->gpus_per_node == MW_AUTO ? hw->gpus_per_node : s->gpus_per_node,
        .prompt = s->seq == MW_AUTO ? MIN(PROMPT_DEFAULT, question->model.seq) : s->seq,
        .generated = generated,
        .slices = slices,
        .dtype = dtype,
        .narrow = s->frozen_dtype,
        .flops_per_s = hw->gpu_achievable_flops * mw_kernel_dtype_share(hw, dtype),
    };
    struct mw_closed_dims dims = {
        .updates = 1,
        .gpus_per_node = (double)it.gpus_per_node,
        .nodes = 1,
        .shards = (double)it.gpus_per_node,
        .shards_per_node = (double)it.gpus_per_node,
        .replicas = 1,
        .replicas_per_node = 1,
        .tp = 1,
        .tp_per_node = 1,
        .cp = 1,
        .ep = 1,
        .state_bytes = 12,
        .element_bytes = 2,
    };

    it.gpus = it.gpus_per_node * s->nodes;
    mw_closed_rates(&dims, hw, &it.rates);
    weigh(&it);
    walk(&it);
    return it;
}

static bool
find(const struct mw_question *question, int64_t generated, int64_t slices,
     const struct mw_placement *places, struct mw_serving *out, GError **error)
{
    if (!check(question, generated, error))
        return false;
    struct served it = served_of(question, generated, slices);
    it.places = places;
    if (it.model->learned_positions && it.prompt + generated > it.model->seq)
        return mw_refuse(
            error,
            "{seq=%" G_GINT64_FORMAT "}: with {serve=%" G_GINT64_FORMAT "} has %" G_GINT64_FORMAT
            " tokens, and %s positions for %" G_GINT64_FORMAT,
            it.prompt, generated, it.prompt + generated, it.model->name, it.model->seq);
    double asked = question->settings.micro_batch;
    int64_t most = asked == MW_AUTO ? most_that_fit(&it) : 0;

    *out = (struct mw_serving){
        .gpus = it.gpus,
        .gpus_per_node = it.gpus_per_node,
        .prompt = it.prompt,
        .generated = generated,
        .weights_bytes = (int64_t)it.weights,
        .narrow = it.narrow,
        .token_cache_bytes = (int64_t)cache_bytes(it.model, 1),
        .rows = g_new0(struct mw_serving_row, 16),
        .best = -1,
    };
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        out->capacity[tier] = MAX(0, capacity_of(&it, (enum mw_tier)tier));
    if (asked != MW_AUTO)
        add_row(out, &it, (int64_t)asked);
    for (int64_t batch = 1; asked == MW_AUTO && batch < MAX(2, most); batch *= 2)
        add_row(out, &it, batch);
    if (most > 1)
        add_row(out, &it, most);
    return true;
}

bool
mw_serving_find(const struct mw_question *question, int64_t generated, struct mw_serving *out,
                GError **error)
{
    return find(question, generated, 1, &question->settings.placement[MW_STATE_PARAMETERS], out,
                error);
}

bool
mw_serving_find_sliced(const struct mw_question *question, int64_t generated, int64_t slices,
                       struct mw_serving *out, GError **error)
{
    return find(question, generated, slices, NULL, out, error);
}

void
mw_serving_clear(struct mw_serving *serving)
{
    g_clear_pointer(&serving->rows, g_free);
}
