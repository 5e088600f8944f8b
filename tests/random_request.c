#include "plan/optimizers.h"
#include "tests/random_request.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A compiler may call the functions of one expression in any order: each draw is a statement. */
static int64_t
pick(GRand *random, int64_t first, int64_t last)
{
    return first + (int64_t)g_rand_int_range(random, 0, (gint32)(last - first + 1));
}

/* True once in `times`. */
static bool
once_in(GRand *random, int times)
{
    return g_rand_int_range(random, 0, times) == 0;
}

/* --- model ----------------------------------------------------------------------------------- */

static void
draw_experts(GRand *random, struct mw_model *model)
{
    model->experts = 1 << pick(random, 1, 3);
    model->experts_per_token = pick(random, 1, 2);
    model->expert_ffn = 16 * pick(random, 1, 6);
    model->shared_expert_ffn = once_in(random, 2) ? model->expert_ffn : 0;
    model->dense_layers = pick(random, 0, model->layers);
}

/* Multi-head latent attention. */
static void
draw_latents(GRand *random, struct mw_model *model)
{
    model->kv_lora = 8 * pick(random, 1, 8);
    model->q_lora = once_in(random, 2) ? 8 * pick(random, 1, 8) : 0;
    model->rope_dim = model->head_dim / 2;
    model->value_dim = model->head_dim / 2;
}

static struct mw_model
draw_model(GRand *random)
{
    struct mw_model model = {.name = "random", .architecture = "llama"};

    model.layers = pick(random, 1, 6);
    model.heads = 4 << pick(random, 0, 1);
    model.kv_heads = model.heads >> pick(random, 0, 2);
    model.head_dim = 8 * pick(random, 1, 4);
    model.value_dim = model.head_dim;
    model.hidden = model.heads * model.head_dim;
    model.ffn = 16 * pick(random, 1, 40);
    model.vocab = once_in(random, 4) ? 0 : pick(random, 50, 3000);
    model.seq = 256;
    model.mlp_matrices = pick(random, 2, 3);
    model.rotary = once_in(random, 2);
    model.learned_positions = !model.rotary && once_in(random, 2);
    model.position_rows = model.learned_positions ? model.seq : 0;
    model.tied_embedding = model.vocab && once_in(random, 2);
    model.attention_bias = once_in(random, 2);
    model.projection_bias = once_in(random, 2);
    model.mlp_bias = once_in(random, 2);
    model.norm_bias = once_in(random, 2);
    model.parallel_block = once_in(random, 8);
    model.norms_per_layer = model.parallel_block ? 1 : once_in(random, 4) ? 4 : 2;
    model.final_norm = !once_in(random, 4);
    model.embedding_norm = once_in(random, 8);
    model.dropout = once_in(random, 4);
    model.qk_norm = once_in(random, 4);
    model.embedding_dim = once_in(random, 10) ? model.hidden / 2 : model.hidden;
    model.window = once_in(random, 4) ? pick(random, 1, 200) : 0;
    model.window_period = pick(random, 0, 3);
    if (once_in(random, 5))
        draw_experts(random, &model);
    if (once_in(random, 10))
        draw_latents(random, &model);
    return model;
}

/* --- hardware -------------------------------------------------------------------------------- */

struct mw_hardware
test_hardware(const char *name)
{
    g_autoptr(GError) error = NULL;
    struct mw_profile *profile = mw_hwprofile_load(name, &error);

    g_assert_no_error(error);
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    mw_profile_free(profile);
    return hardware;
}

/* From a fifth of a rate to five times it. */
static void
stretch(GRand *random, double *rate)
{
    double up = g_rand_double_range(random, 0.2, 1);
    double down = g_rand_double_range(random, 0.2, 1);

    *rate *= up / down;
}

/* A curve and heads whose rates differ by direction. */
static void
draw_directions(GRand *apart, struct mw_hardware *hw)
{
    double *const shares[] = {hw->matmul_forward_share, hw->matmul_input_share,
                              hw->matmul_weight_share};
    double *const heads[] = {hw->attention_forward_share, hw->attention_backward_share};

    for (size_t i = 0; i < G_N_ELEMENTS(shares); i++)
        for (int64_t point = 0; point < hw->matmul_points; point++)
            shares[i][point] = g_rand_double_range(apart, 0.6, 1.6);
    for (size_t i = 0; i < G_N_ELEMENTS(heads); i++)
        for (int head = 0; head < MW_ATTENTION_HEADS; head++)
            heads[i][head] = g_rand_double_range(apart, 0.6, 1.6);
}

/* Half of the devices are their host's cores, with rates of their own.  Leaves the sequence of
 * numbers as it is. */
static void
draw_cores(GRand *random, struct mw_hardware *hw)
{
    g_autoptr(GRand) apart = g_rand_copy(random);

    if (once_in(apart, 2))
        return;
    hw->gpu_host_sm_share = g_rand_double_range(apart, 0, 1);
    hw->gpu_copy_sm_share = g_rand_double_range(apart, 0, 1);
    hw->gpu_nvme_sm_share = g_rand_double_range(apart, 0, 1);
    hw->gpu_operator_bytes_per_s = hw->gpu_memory_bytes_per_s * g_rand_double_range(apart, 0.1, 1);
    hw->host_checksum_bytes_per_s = hw->nvme_read_bytes_per_s * g_rand_double_range(apart, 0.5, 4);
    hw->host_norm_bytes_per_s = hw->host_memory_bytes_per_s * g_rand_double_range(apart, 0.1, 1);
    hw->attention_points = 1;
    hw->attention_dim[0] = 1;
    hw->attention_flops[0] = hw->gpu_achievable_flops * g_rand_double_range(apart, 0.5, 2);
    hw->host_exact_sums_bytes_per_s =
        hw->host_norm_bytes_per_s * g_rand_double_range(apart, 0.1, 1);
    if (once_in(apart, 2))
        draw_directions(apart, hw);
}

/* Rates of reads and writes at once, and collectives by protocol.  Their draws are those of a copy:
 * what is drawn after them stays as it was. */
static void
draw_links(GRand *random, struct mw_hardware *hw)
{
    g_autoptr(GRand) own = g_rand_copy(random);

    if (g_rand_boolean(own)) {
        hw->nvme_mixed_read_bytes_per_s =
            hw->nvme_read_bytes_per_s * g_rand_double_range(own, 0.2, 1);
        hw->nvme_mixed_write_bytes_per_s =
            hw->nvme_write_bytes_per_s * g_rand_double_range(own, 0.2, 1);
    }
    if (g_rand_boolean(own)) {
        hw->fabric_start_s = hw->nic_start_s = 1e-15; /* as flat as the rest: rates alone count */
        hw->fabric_all_reduce_bytes_per_s =
            hw->fabric_bytes_per_s * g_rand_double_range(own, 0.5, 2);
    }
}

void
random_rates(GRand *random, struct mw_hardware *hw)
{
    double *const rates[] = {&hw->gpu_memory_bytes_per_s,
                             &hw->pcie_h2d_bytes_per_s,
                             &hw->pcie_d2h_bytes_per_s,
                             &hw->pcie_node_h2d_bytes_per_s,
                             &hw->pcie_node_d2h_bytes_per_s,
                             &hw->host_memory_bytes_per_s,
                             &hw->host_update_params_per_s,
                             &hw->nvme_read_bytes_per_s,
                             &hw->nvme_write_bytes_per_s,
                             &hw->fabric_bytes_per_s,
                             &hw->nic_bytes_per_s};

    for (size_t i = 0; i < G_N_ELEMENTS(rates); i++)
        stretch(random, rates[i]);
    hw->nvme_duplex = g_rand_double_range(random, 1, 2);
    draw_links(random, hw);
    hw->gpu_collective_sm_share = g_rand_double_range(random, 0, 0.3);
    draw_cores(random, hw);
}

/* Small enough that some requests do not fit, or need another tier. */
static int64_t
draw_memory_bytes(GRand *random)
{
    double few = g_rand_double_range(random, 1, 16);

    return (int64_t)(few * (double)(1 << pick(random, 18, 26)));
}

struct mw_hardware
random_hardware(GRand *random)
{
    static const char *const names[] = {"flat-test", "dgx2", "dgx-h100", "rtx4090"};
    struct mw_hardware hw = test_hardware(names[pick(random, 0, G_N_ELEMENTS(names) - 1)]);

    hw.gpus_per_node = 8;
    if (hw.gpu_fp32_flops <= 0)
        hw.gpu_fp32_flops = hw.gpu_peak_flops / 2;
    hw.nodes_max = 0;
    if (hw.nic_bytes_per_s <= 0)
        hw.nic_bytes_per_s = 1e10;
    if (hw.fabric_bytes_per_s <= 0)
        hw.fabric_bytes_per_s = 1e10;
    random_rates(random, &hw);
    hw.gpu_flash_attention = once_in(random, 2);
    if (once_in(random, 3))
        return hw;
    hw.gpu_reserve_bytes = 0;
    hw.host_reserve_bytes = 0;
    hw.nvme_reserve_bytes = 0;
    hw.gpu_memory_bytes = draw_memory_bytes(random);
    hw.gpu_largest_request_bytes = once_in(random, 4) ? hw.gpu_memory_bytes / 8 : 0;
    hw.host_memory_bytes = 4 * draw_memory_bytes(random);
    hw.host_largest_request_bytes = once_in(random, 4) ? hw.host_memory_bytes / 8 : 0;
    hw.nvme_capacity_bytes = 8 * draw_memory_bytes(random);
    return hw;
}

/* --- settings -------------------------------------------------------------------------------- */

/* Nothing, one tier, or a split whose first part is filled up. */
static struct mw_placement
draw_placement(GRand *random)
{
    struct mw_placement placement = {.count = (int)pick(random, 0, 3)};
    enum mw_tier tier = (enum mw_tier)pick(random, 0, MW_TIER_COUNT - 1);

    for (int i = 0; i < placement.count; i++) {
        placement.part[i].tier = (enum mw_tier)((tier + i) % MW_TIER_COUNT);
        placement.part[i].bytes = i + 1 < placement.count ? pick(random, 1, 2000000) : INT64_MAX;
    }
    return placement;
}

static void
draw_placements(GRand *random, struct mw_settings *s)
{
    const struct mw_state_traits *state = mw_strategy_traits(s->strategy)->state;

    if (state[MW_STATE_PARAMETERS].offloadable || once_in(random, 50))
        s->placement[MW_STATE_PARAMETERS] = draw_placement(random);
    if (state[MW_STATE_OPTIMIZER].offloadable || once_in(random, 50)) {
        s->placement[MW_STATE_OPTIMIZER] = draw_placement(random);
        s->placement[MW_STATE_GRADIENTS] = draw_placement(random);
    }
    s->placement[MW_STATE_ACTIVATIONS] = draw_placement(random);
    for (int i = 0; i < MW_STATE_ACTIVATIONS; i++)
        if (s->strategy == MW_STRATEGY_ZERO_INFINITY_CPU &&
            mw_placement_has(&s->placement[i], MW_TIER_NVME))
            s->strategy = MW_STRATEGY_ZERO_INFINITY_NVME; /* which the other's name rules out */
}

static void
draw_batch(GRand *random, struct mw_settings *s)
{
    int64_t ranks = s->nodes * s->gpus_per_node;

    s->grad_accum = once_in(random, 2) ? 1 : pick(random, 1, 3);
    if (!once_in(random, 6)) {
        s->micro_batch = (double)pick(random, 1, 4);
        s->micro_batch /= once_in(random, 3) ? (double)s->tp : 1;
    }
    if (once_in(random, 6)) {
        s->global_batch = ranks * pick(random, 1, 12) / s->tp;
        s->grad_accum = once_in(random, 2) ? MW_AUTO : s->grad_accum;
    }
}

static void
draw_schedule(GRand *random, struct mw_settings *s)
{
    s->checkpoint_interval = pick(random, 0, 3);
    s->param_loads = s->checkpoint_interval || once_in(random, 50) ? pick(random, 2, 3) : MW_AUTO;
    s->tiles = once_in(random, 2) ? MW_AUTO : pick(random, 1, 5);
    s->prefetch = pick(random, 0, 4);
    s->optimizer_chunk = once_in(random, 2) ? MW_AUTO : 1 << pick(random, 8, 20);
    s->buffer_sets = pick(random, 1, 4);
    s->overlap = !once_in(random, 4);
    s->serialize = once_in(random, 8);
    s->commit = (int)pick(random, -1, 1);
    s->save_every = once_in(random, 4) ? pick(random, 1, 100) : 0;
    if (s->strategy == MW_STRATEGY_ZERO_OFFLOAD || once_in(random, 50))
        s->dpu_start = once_in(random, 2) ? MW_AUTO : pick(random, 0, 40);
}

static struct mw_settings
draw_settings(GRand *random)
{
    struct mw_settings s;

    mw_settings_init(&s);
    s.strategy = (enum mw_strategy)pick(random, MW_STRATEGY_DDP, MW_STRATEGY_ZERO_INFINITY_NVME);
    s.nodes = pick(random, 1, 2);
    s.gpus_per_node = pick(random, 1, 8);
    s.tp = 1 << (once_in(random, 2) ? 0 : pick(random, 0, 2));
    if (!once_in(random, 50)) /* else perhaps more ranks a group than ranks */
        while (s.nodes * s.gpus_per_node % s.tp)
            s.tp /= 2;
    s.seq = 8 * pick(random, 1, 32);
    s.layout = (enum mw_layout)pick(random, 0, MW_LAYOUT_COUNT - 1);
    s.optimizer = once_in(random, 3) ? (int)pick(random, 0, MW_OPTIMIZER_COUNT - 1) : 0;
    s.partition = (enum mw_partition)pick(random, MW_PARTITION_AUTO, MW_PARTITION_OWNER);
    s.unfold = once_in(random, 4);
    draw_batch(random, &s);
    draw_placements(random, &s);
    draw_schedule(random, &s);
    return s;
}

/* --- the whole ------------------------------------------------------------------------------- */

static char *current; /* what a failing test is about */

static void
name_request(int signal_number)
{
    static const char mark[] = "\n# failed on ";
    ssize_t written = write(STDERR_FILENO, mark, sizeof mark - 1);

    if (written > 0)
        written = write(STDERR_FILENO, current, strlen(current));
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* Of operators that are not trained themselves. */
static void
draw_adapters(GRand *random, struct mw_trained *trained)
{
    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        enum mw_operator adapted = mw_operator_row(i)->adapts;
        if (adapted && trained->frozen >> adapted & 1 && once_in(random, 2))
            trained->adapted |= UINT32_C(1) << adapted;
    }
    trained->rank = trained->adapted ? pick(random, 1, 4) : 0;
    for (int i = 0; i < MW_TARGET_COUNT; i++)
        if (trained->adapted >> mw_target_operator(i) & 1 && once_in(random, 4))
            trained->bare |= UINT32_C(1) << i;
    if (!mw_targets_suit(trained->adapted, trained->bare))
        trained->bare = 0;
}

/* Some operators are not trained; the embedding is, or another one before the end of the model. */
static void
draw_frozen(GRand *random, struct mw_settings *settings)
{
    static const enum mw_dtype types[] = {MW_DTYPE_NONE, MW_DTYPE_MXFP8, MW_DTYPE_NF4,
                                          MW_DTYPE_NF4_DOUBLE};
    static const enum mw_operator early[] = {MW_OPERATOR_NORM1, MW_OPERATOR_QKV,
                                             MW_OPERATOR_PROJECTION, MW_OPERATOR_MLP_UP};

    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        if (mw_operator_names_params(i) && once_in(random, 2))
            settings->trained.frozen |= UINT32_C(1) << i;
    settings->trained.frozen &= ~(UINT32_C(1) << early[pick(random, 0, G_N_ELEMENTS(early) - 1)]);
    draw_adapters(random, &settings->trained);
    settings->frozen_dtype = types[pick(random, 0, G_N_ELEMENTS(types) - 1)];
}

static bool
may_update_beside(const struct mw_settings *s)
{
    return s->dpu_start == MW_AUTO && s->overlap && !s->serialize;
}

/* Activations of whole layers leave; some layers are recomputed instead, the first ones or here and
 * there. */
static void
draw_whole(struct mw_settings *s, int64_t layers, guint32 seed)
{
    int64_t again = seed % 4 ? seed / 4 % layers : 0;

    if ((s->param_loads == 2 || s->checkpoint_dtype != MW_DTYPE_NONE) && !again)
        return;
    s->checkpoint_interval = 1;
    s->whole_checkpoints = 1;
    if (seed % 4 < 3)
        s->recompute_layers = again ? again : MW_AUTO;
    else
        for (int64_t layer = 0; again && layer < layers; layer += 1 + again)
            mw_layer_set_add(&s->recompute_set, layer);
}

/* Of what no older strategy has a request has one at most; of requests that
 * can have it one in a few. */
static void
draw_orders(struct mw_settings *s, int64_t layers, guint32 seed)
{
    bool recomputes = s->checkpoint_interval && s->recompute_layers == MW_AUTO;
    bool plain = s->dpu_start == MW_AUTO && !s->drop_layers && s->pp == 1 && recomputes;

    if (seed % 16 == 5 && s->dpu_start == MW_AUTO && s->strategy != MW_STRATEGY_ZERO_OFFLOAD)
        s->update_on = 1;
    if (seed % 16 == 9 && plain && s->param_loads != 3)
        s->layer_order = 1;
    if (seed % 16 == 13 && plain)
        draw_whole(s, layers, seed / 16);
}

/* Settings that count layers count those that a stage has. */
static void
count_layers(struct mw_settings *s, const struct mw_model *model)
{
    s->checkpoint_interval = MIN(s->checkpoint_interval, model->layers);
    s->recompute_layers = MIN(s->recompute_layers, mw_settings_most_layers(model, s));
}

/* Where layers may be recomputed or not, and none is said, some are. */
static void
name_layers(struct mw_settings *s, int64_t layers, guint32 seed)
{
    bool open = s->checkpoint_interval > 0 && s->recompute_layers == MW_AUTO &&
                s->layer_order != 1 && s->whole_checkpoints != 1;

    for (int64_t layer = 0; open && seed % 4 == 2 && layer < layers; layer++)
        if (seed * UINT32_C(2654435761) >> (layer * 7 % 29) & 1)
            mw_layer_set_add(&s->recompute_set, layer);
}

/* Some software updates by a kernel for each operation, and casts and clips beside it. */
void
random_request_update(struct mw_hardware *hardware, guint32 seed)
{
    hardware->update_passes = 1 + seed % 4 * 0.9;
    hardware->update_unfused = seed / 4 % 3 * 0.5;
    hardware->update_unfused_other = seed / 12 % 2;
}

/* Most software sums up slices beside products, and slices share tokens more often than not. */
static void
draw_slices(struct random_request *request)
{
    struct mw_settings *s = &request->settings;

    request->hardware.tensor_overlap = request->seed % 3 != 0;
    request->hardware.tensor_pieces = request->seed % 5 < 2;
    request->hardware.tensor_parts = request->seed % 2;
    random_request_update(&request->hardware, request->seed);
    if (s->tp > 1 && s->seq % s->tp == 0)
        s->sequence_parallel = request->seed % 7 < 4;
}

/* Some of what is partitioned is so over groups, which lie alike on the nodes. */
static void
draw_groups(struct random_request *request)
{
    struct mw_settings *s = &request->settings;
    int64_t dp = s->nodes * s->gpus_per_node / s->tp / s->pp, of_node = mw_sizing_node_group(s);
    bool divides = s->nodes * s->gpus_per_node % (s->tp * s->pp) == 0;

    s->shard_group = MW_SHARD_ALL;
    if (request->seed % 5 != 2 || s->strategy == MW_STRATEGY_DDP || !divides)
        return;
    for (int64_t group = 2; group < dp; group++)
        if (dp % group == 0 && (of_node % group == 0 || group % of_node == 0) &&
            (s->shard_group == MW_SHARD_ALL || request->seed % 2))
            s->shard_group = group;
    if (s->shard_group != MW_SHARD_ALL)
        s->partition = MW_PARTITION_AUTO;
}

/* The largest divisor below; the number itself if that is 1. */
static int64_t
next_divisor(int64_t number, int64_t divisor)
{
    int64_t next = divisor - 1;

    while (next > 1 && number % next)
        next--;
    return next > 1 ? next : divisor;
}

/* Half of the mixtures are spread, over as many ranks as divide all. */
static void
draw_spread(struct random_request *request)
{
    struct mw_settings *s = &request->settings;
    bool sliced = s->tp > 1 && s->sequence_parallel == 1 && request->seed % 4 == 0;
    int64_t ranks = s->nodes * s->gpus_per_node, dp = sliced ? ranks / s->tp : ranks, ep = dp;

    if (!request->model.experts || request->seed % 2 || dp < 2) /* 0: more slices than ranks */
        return;
    for (int64_t tries = request->seed / 2 % 3; tries > 0; tries--)
        ep = next_divisor(dp, ep);
    if (sliced && request->seed / 4 % 2) { /* over slices too */
        s->etp = 1;
        ep *= s->tp;
    }
    s->ep = ep;
    s->expert_imbalance = 1 + (double)(request->seed / 10 % 3) * 0.375;
    s->shard_group = MW_SHARD_ALL;
    if (!sliced) {
        s->tp = 1;
        s->sequence_parallel = MW_AUTO;
        s->micro_batch = s->micro_batch == MW_AUTO ? MW_AUTO : ceil(s->micro_batch);
    }
    s->partition = MW_PARTITION_BANDWIDTH;
    s->trained.adapted = 0;
    s->trained.rank = 0;
    s->trained.bare = 0;
    if (mw_optimizer_orthogonalizes(s->optimizer))
        s->optimizer = 0;
    request->model.experts = ep * (1 + request->seed / 6 % 3);
    request->model.experts_per_token =
        MIN(request->model.experts_per_token, request->model.experts);
}

/* Whether the sequences of the request can be shared so. */
static bool
can_share(const struct random_request *request, int64_t cp, bool ring)
{
    const struct mw_settings *s = &request->settings;
    const struct mw_model *m = &request->model;
    int64_t ranks = s->nodes * s->gpus_per_node, seq = s->seq;
    int64_t keys = (m->kv_lora ? m->heads : m->kv_heads) / s->tp;

    return ranks % (s->tp * s->pp * cp) == 0 && seq > 0 && seq % (ring ? 2 * cp : cp) == 0 &&
           (ring || (m->heads / s->tp % cp == 0 && keys >= cp && keys % cp == 0)) &&
           (s->sequence_parallel != 1 || seq / cp % s->tp == 0) &&
           (!ring || (request->hardware.gpu_flash_attention && (!m->window || m->window >= seq)));
}

/* Of a third of the requests neighbouring ranks share sequences, if they can. */
static void
draw_context(struct random_request *request)
{
    struct mw_settings *s = &request->settings;
    bool ring = request->seed / 3 % 2;

    s->cp = 1;
    s->cp_kind = MW_CONTEXT_RING;
    if (request->seed % 3 != 1 || request->model.mixed || s->partition == MW_PARTITION_OWNER)
        return;
    if (!can_share(request, 2, ring))
        ring = !ring;
    for (int64_t cp = 2; cp <= 4; cp++)
        if (can_share(request, cp, ring))
            s->cp = cp;
    s->cp_kind = s->cp > 1 && !ring ? MW_CONTEXT_ALL_TO_ALL : MW_CONTEXT_RING;
}

void
random_request_take_turns(struct random_request *request)
{
    struct mw_settings *s = &request->settings;
    guint32 seed = request->seed;
    bool moves = s->placement[MW_STATE_OPTIMIZER].count || s->placement[MW_STATE_PARAMETERS].count;

    if (s->strategy != MW_STRATEGY_ZERO1 || moves || seed % 3 == 2 ||
        s->nodes * s->gpus_per_node == 1)
        return;
    s->data_parallel = MW_DATA_PARALLEL_ASYNC;
    s->tp = s->cp = s->ep = 1;
    s->shard_group = MW_SHARD_ALL;
    s->partition = MW_PARTITION_BANDWIDTH;
    s->optimizer = seed % 4 ? MW_OPTIMIZER_ADAMW : MW_OPTIMIZER_ADAMW_8BIT;
    s->commit = MW_AUTO;
    s->save_every = 0;
    s->update_beside = false;
}

void
random_request_software(struct random_request *request)
{
    const struct mw_placement *placement = request->settings.placement;
    bool placed = placement[MW_STATE_GRADIENTS].count && placement[MW_STATE_OPTIMIZER].count;

    request->hardware.swaps_gradients = request->seed % 4 == 1 && !placed;
    request->hardware.reduces_at_end = request->seed % 4 == 3;
    request->hardware.all_reduces_at_end = request->seed % 4 == 3;
    request->hardware.reduced_type = (int)(request->seed / 4 % MW_REDUCED_TYPE_COUNT);
    request->hardware.memory_use.sum_type = request->seed / 12 % 3 ? MW_SUM_FP32 : MW_SUM_MADE;
    request->hardware.memory_use.caching = request->seed / 36 % 2 == 0;
    request->hardware.memory_use.gradients_stay = (int)(request->seed / 72 % MW_STAY_COUNT);
    request->hardware.memory_use.whole_blocks = request->seed / 5 % 2 ? 2 : 0;
    request->hardware.memory_use.ends_stay = request->seed / 10 % 2;
}

void
random_request_init(struct random_request *request, guint32 seed)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(seed);

    memset(request, 0, sizeof *request);
    request->seed = seed;
    request->hardware = random_hardware(random);
    request->settings = draw_settings(random);
    do
        request->model = draw_model(random);
    while (!mw_model_validate(&request->model, "random", NULL));
    request->settings.logits_chunks = once_in(random, 2) ? MW_AUTO : pick(random, 1, 9);
    if (request->settings.layout == MW_LAYOUT_ZERO16 && once_in(random, 3))
        request->settings.dtype = MW_DTYPE_FP32;
    if (once_in(random, 3))
        draw_frozen(random, &request->settings);
    if (once_in(random, 3))
        request->settings.recompute_layers =
            once_in(random, 3) ? MW_RECOMPUTE_FEWEST : pick(random, 1, 4);
    request->settings.checkpoint_partition = seed % 3 != 1;
    if (request->settings.checkpoint_interval && once_in(random, 3))
        request->settings.checkpoint_dtype = MW_DTYPE_MXFP8;
    bool keeps =
        !request->settings.checkpoint_interval || request->settings.recompute_layers != MW_AUTO;
    if (keeps && once_in(random, 2))
        request->settings.kept_as.dtype = MW_DTYPE_MXFP8;
    request->settings.update_beside = seed % 4 == 3 && may_update_beside(&request->settings);
    draw_orders(&request->settings, request->model.layers, seed);
    name_layers(&request->settings, request->model.layers, seed);
    count_layers(&request->settings, &request->model);
    request->settings.share_slots = seed % 5 < 3;
    draw_slices(request);
    draw_groups(request);
    draw_spread(request);
    draw_context(request);
    random_request_take_turns(request);
    random_request_name(request);
}

void
random_request_name(const struct random_request *request)
{
    g_free(current);
    current = random_request_text(request);
    signal(SIGABRT, name_request);
    signal(SIGTRAP, name_request); /* g_error */
}

GPtrArray *
random_request_candidates(const struct random_request *request, GError **error)
{
    struct mw_request planned = {&request->model, &request->hardware};
    struct mw_settings resolved;

    if (!mw_settings_complete(&planned, &request->settings, &resolved, error))
        return NULL;
    return mw_planner_candidates(&planned, &resolved, error);
}

const struct mw_sizing *
random_request_fitting(const struct random_request *request, GPtrArray **candidates)
{
    *candidates = random_request_candidates(request, NULL);
    const struct mw_sizing *first = *candidates ? (*candidates)->pdata[0] : NULL;
    return first && first->fits ? first : NULL;
}

char *
random_request_text(const struct random_request *request)
{
    const struct mw_settings *s = &request->settings;
    const struct mw_model *m = &request->model;
    g_autofree char *p = mw_placement_text(&s->placement[MW_STATE_PARAMETERS]);
    g_autofree char *g = mw_placement_text(&s->placement[MW_STATE_GRADIENTS]);
    g_autofree char *o = mw_placement_text(&s->placement[MW_STATE_OPTIMIZER]);
    g_autofree char *a = mw_placement_text(&s->placement[MW_STATE_ACTIVATIONS]);

    return g_strdup_printf(
        "request %u: %s, layers %d hidden %d kv %d ffn %d vocab %d%s experts %d; nodes %d gpus %d "
        "group %d tp %d cp %d %s ep %d%s%s%s batch %g global %d accum %d seq %d; p=%s g=%s o=%s "
        "a=%s; "
        "interval %d%s%s of %d "
        "loads "
        "%d "
        "tiles "
        "%d logits %d prefetch %d chunk %d sets %d dpu %d commit %d%s%s%s%s%s%s%s%s frozen %x %s",
        request->seed, mw_strategy_name(s->strategy), (int)m->layers, (int)m->hidden,
        (int)m->kv_heads, (int)m->ffn, (int)m->vocab, m->tied_embedding ? " tied" : "",
        (int)m->experts, (int)s->nodes, (int)s->gpus_per_node, (int)s->shard_group, (int)s->tp,
        (int)s->cp, mw_context_name(s->cp_kind), (int)s->ep, s->etp == 1 ? " whole" : "",
        s->sequence_parallel == 1 ? " sharing tokens" : "",
        request->hardware.tensor_overlap ? " overlapped"
        : request->hardware.tensor_parts ? " in parts"
                                         : "",
        s->micro_batch, (int)s->global_batch, (int)s->grad_accum, (int)s->seq, p, g, o, a,
        (int)s->checkpoint_interval, s->checkpoint_dtype == MW_DTYPE_NONE ? "" : " in 8 bits",
        s->kept_as.dtype == MW_DTYPE_NONE ? "" : " kept in 8 bits", (int)s->recompute_layers,
        (int)s->param_loads, (int)s->tiles, (int)s->logits_chunks, (int)s->prefetch,
        (int)s->optimizer_chunk, (int)s->buffer_sets, (int)s->dpu_start, s->commit,
        s->layout == MW_LAYOUT_PAPER20 ? " paper20" : "",
        s->partition == MW_PARTITION_OWNER ? " owner" : "", s->overlap ? "" : " no-overlap",
        s->serialize ? " serialize" : "",
        s->update_beside == 1 ? " update beside"
        : s->data_parallel    ? " asynchronous"
                              : "",
        s->update_on == 1           ? " update on gpu"
        : s->layer_order == 1       ? " layer by layer"
        : s->whole_checkpoints == 1 ? " whole layers"
                                    : "",
        s->unfold ? " unfold" : "", s->checkpoint_partition ? "" : " in whole on each slice",
        s->trained.frozen, mw_dtype_name(s->frozen_dtype));
}

struct mw_plan *
unchecked_plan_copy(const struct mw_plan *plan)
{
    char *text = NULL, why[256];
    size_t size_bytes = 0;
    FILE *file = open_memstream(&text, &size_bytes);

    mw_plan_write(plan, file);
    fclose(file);
    file = fmemopen(text, size_bytes, "r");
    struct mw_plan *copy = mw_plan_read(file, why, sizeof why);
    fclose(file);
    free(text);
    if (!copy)
        g_error("not read: %s", why);
    return copy;
}

static void
interleave(struct random_request *request)
{
    struct mw_settings *s = &request->settings;

    s->schedule = MW_SCHEDULE_INTERLEAVED;
    s->whole_checkpoints = 0;
    s->virtual_stages = 2 + request->seed % 2;
    s->grad_accum *= s->pp;
    request->model.layers =
        s->pp * s->virtual_stages * (1 + request->seed / 2 % 2) + request->seed / 4 % 4;
}

/* Gradients of weights that come later need all activations, of all layers. */
void
random_request_fill_bubbles(struct random_request *request)
{
    struct mw_settings *s = &request->settings;

    s->schedule = MW_SCHEDULE_ZB_H1;
    s->checkpoint_interval = 0;
    s->recompute_layers = MW_AUTO;
    s->recompute_set = (struct mw_layer_set){{0}};
    s->checkpoint_dtype = MW_DTYPE_NONE;
    s->kept_as = (struct mw_kept_as){0};
    s->param_loads = MW_AUTO;
    s->whole_checkpoints = 0;
    s->placement[MW_STATE_ACTIVATIONS] = (struct mw_placement){0};
    s->trained = (struct mw_trained){0};
}

void
random_request_stages(struct random_request *request)
{
    struct mw_settings *s = &request->settings;
    int64_t ranks = s->nodes * s->gpus_per_node;

    s->pp = 2 + request->seed % 3;
    while (s->pp > 1 && (ranks % (s->pp * s->tp) || s->pp > request->model.layers))
        s->pp--;
    if (ranks / s->pp / s->tp % mw_settings_spread(s)) {
        s->ep = 1;
        s->etp = MW_AUTO;
    }
    s->grad_accum = 1 + request->seed % 5;
    s->global_batch = MW_AUTO;
    s->partition = MW_PARTITION_BANDWIDTH;
    s->schedule = request->seed % 2 ? MW_SCHEDULE_GPIPE : MW_SCHEDULE_1F1B;
    if (s->pp > 1 && request->seed % 3 && !request->model.by_turns)
        interleave(request);
    else if (s->pp > 1 && request->seed % 6 < 3 && !request->model.experts)
        random_request_fill_bubbles(request);
    s->dpu_start = MW_AUTO;
    s->data_parallel = MW_DATA_PARALLEL_SYNC;
    s->update_beside = false;
    s->overlap = true;
    s->serialize = s->unfold = false;
    draw_groups(request);
    draw_context(request);
    random_request_name(request);
}
