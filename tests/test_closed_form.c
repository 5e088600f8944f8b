/* Invariant 5: on a machine with flat efficiencies and no latencies, with serialising edges, the
 * engine's step equals the closed form `plan` within 1 ns per op. */
#include <math.h>
#include <string.h>

#include "plan/optimizers.h"
#include "study/evaluate.h"
#include "study/known_steps.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define REQUESTS MW_CASES(4000)
#define OVERLAPPING 500

static int64_t
pick(GRand *random, int64_t first, int64_t last)
{
    return first + (int64_t)g_rand_int_range(random, 0, (gint32)(last - first + 1));
}

/* Dimensions that ranks and tiles divide. */
static struct mw_model
even_model(GRand *random)
{
    struct mw_model model = {.name = "even", .architecture = "gpt2"};

    model.layers = pick(random, 1, 6);
    model.heads = 8;
    model.kv_heads = 8 >> pick(random, 0, 1);
    model.head_dim = 64 << pick(random, 0, 1);
    model.value_dim = model.head_dim;
    model.hidden = model.heads * model.head_dim;
    model.embedding_dim = model.hidden;
    model.ffn = model.hidden * pick(random, 1, 4);
    model.vocab = 1024 * pick(random, 0, 4);
    model.seq = 2048;
    model.mlp_matrices = pick(random, 2, 3);
    model.norms_per_layer = 2;
    model.final_norm = pick(random, 0, 1);
    model.tied_embedding = model.vocab && pick(random, 0, 1);
    if (pick(random, 0, 4) == 0) {
        model.experts = 8;
        model.experts_per_token = 2;
        model.expert_ffn = model.hidden;
        model.dense_layers = pick(random, 0, model.layers);
    }
    return model;
}

/* One tier, or two of which the faster is filled first. */
static struct mw_placement
draw_placement(GRand *random, enum mw_tier first)
{
    struct mw_placement placement = {.count = 1};

    placement.part[0].tier = (enum mw_tier)pick(random, first, MW_TIER_COUNT - 1);
    placement.part[0].bytes = INT64_MAX;
    if (placement.part[0].tier < MW_TIER_NVME && pick(random, 0, 1)) {
        placement.part[0].bytes = pick(random, 1, 40000000);
        placement.part[1].tier = (enum mw_tier)pick(random, placement.part[0].tier + 1, 2);
        placement.part[1].bytes = INT64_MAX;
        placement.count = 2;
    }
    return placement;
}

/* Between the tiers of the strategy's row.  A state that it keeps on the GPU may be placed
 * anywhere, and so may what follows a delayed update, which no other strategy has. */
static void
keep_within(const struct mw_settings *s, enum mw_state state, struct mw_placement *placement)
{
    const struct mw_state_traits *row = &mw_strategy_traits(s->strategy)->state[state];

    if (row->deepest == MW_TIER_GPU || s->dpu_start != MW_AUTO)
        return;
    for (int i = 0; i < placement->count; i++)
        if (placement->part[i].tier >= row->deepest ||
            (state != MW_STATE_GRADIENTS && placement->part[i].tier < row->nearest)) {
            placement->part[i].tier = row->deepest;
            placement->part[i].bytes = INT64_MAX;
            placement->count = i + 1;
        }
}

static void
place_states(GRand *random, struct mw_settings *s)
{
    const struct mw_state_traits *state = mw_strategy_traits(s->strategy)->state;

    if (state[MW_STATE_PARAMETERS].offloadable)
        s->placement[MW_STATE_PARAMETERS] = draw_placement(random, MW_TIER_GPU);
    if (state[MW_STATE_OPTIMIZER].offloadable) {
        s->placement[MW_STATE_OPTIMIZER] =
            draw_placement(random, state[MW_STATE_OPTIMIZER].nearest);
        s->placement[MW_STATE_GRADIENTS] = draw_placement(random, MW_TIER_GPU);
    }
    s->placement[MW_STATE_ACTIVATIONS] = draw_placement(random, MW_TIER_GPU);
    for (int i = 0; i < MW_STATE_ACTIVATIONS; i++)
        keep_within(s, (enum mw_state)i, &s->placement[i]);
}

static struct mw_settings
even_settings(GRand *random, guint32 seed)
{
    const enum mw_strategy others = MW_STRATEGY_COUNT - MW_STRATEGY_ZERO_INFINITY_NVME - 1;
    struct mw_settings s;

    mw_settings_init(&s);
    s.serialize = true;
    s.strategy = (enum mw_strategy)pick(random, MW_STRATEGY_DDP, MW_STRATEGY_ZERO_INFINITY_NVME);
    if (seed % 4 == 3)
        s.strategy = MW_STRATEGY_ZERO_INFINITY_NVME + 1 + seed / 4 % others;
    s.nodes = pick(random, 1, 2);
    s.gpus_per_node = 1 << pick(random, 0, 2);
    s.tp = 1 << pick(random, 0, 2);
    s.tp = MIN(s.tp, s.nodes * s.gpus_per_node);
    s.sequence_parallel = s.tp > 1 && seed % 2;
    s.micro_batch = (double)pick(random, 1, 4);
    s.grad_accum = pick(random, 1, 3);
    s.seq = 128 << pick(random, 0, 3);
    s.layout = (enum mw_layout)pick(random, 0, MW_LAYOUT_COUNT - 1);
    s.partition = (enum mw_partition)pick(random, MW_PARTITION_AUTO, MW_PARTITION_OWNER);
    s.checkpoint_interval = pick(random, 0, 3);
    s.param_loads = s.checkpoint_interval ? pick(random, 2, 3) : 3;
    if (mw_strategy_traits(s.strategy)->layer_order) {
        s.checkpoint_interval = MAX(s.checkpoint_interval, 1);
        s.param_loads = 2;
    }
    if (mw_strategy_traits(s.strategy)->whole_checkpoints) {
        s.checkpoint_interval = MIN(s.checkpoint_interval, 1);
        s.param_loads = 3;
    }
    s.tiles = 1 << pick(random, 0, 3);
    s.logits_chunks = 1 << pick(random, 0, 4);
    s.prefetch = pick(random, 0, 3);
    s.commit = (int)pick(random, 0, 1);
    if (s.strategy == MW_STRATEGY_ZERO_OFFLOAD && pick(random, 0, 1))
        s.dpu_start = 1;
    place_states(random, &s);
    if (s.layout == MW_LAYOUT_ZERO16 && pick(random, 0, 2) == 0)
        s.dtype = MW_DTYPE_FP32;
    if (s.strategy != MW_STRATEGY_DDP && s.nodes * s.gpus_per_node / s.tp > 2 && seed % 3) {
        s.shard_group = seed % 3 == 2 && s.gpus_per_node / s.tp > 1 ? MW_SHARD_NODE : 2;
        s.partition = MW_PARTITION_AUTO;
    }
    if (s.tp == 1 && s.dpu_start == MW_AUTO && pick(random, 0, 2) == 0)
        s.optimizer = MW_OPTIMIZER_COUNT - 1 - (int)pick(random, 0, 2); /* by sides, or Muon */
    return s;
}

/* Layers of several kinds in any order. */
static void
mix_layers(struct mw_model *model, guint32 seed)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(seed + 4000);

    if (pick(random, 0, 2))
        return;
    model->mixed = model->by_turns = true;
    model->experts = 8;
    model->experts_per_token = 2;
    model->expert_ffn = model->hidden;
    model->dense_layers = 0;
    model->window = 64;
    model->turn_count = model->layers;
    for (int64_t layer = 0; layer < model->layers; layer++) {
        model->turns[layer] = (uint8_t)pick(random, 0, MW_BLOCK_KIND_COUNT - 1);
        model->mixed_layers[model->turns[layer]]++;
    }
}

static void
spread_experts(struct random_request *request, guint32 seed)
{
    struct mw_settings *s = &request->settings;
    int64_t ranks = s->nodes * s->gpus_per_node;

    s->ep = 1;
    if (request->model.experts && seed % 3 == 2)
        s->capacity_factor = 0.5 + (double)(seed % 5) / 4;
    if (request->model.experts)
        s->gate = (enum mw_gating)(seed / 3 % MW_GATING_COUNT);
    int64_t groups = mw_model_gate_groups(&request->model, s->gate);
    if (groups)
        s->capacity_factor = 0;
    if (!request->model.experts || (s->tp > 1 && s->sequence_parallel != 1) ||
        s->optimizer == MW_OPTIMIZER_MUON)
        return;
    s->ep = MIN(ranks / s->tp, 1 << (seed / 2 % 4));
    while (groups && groups % s->ep)
        s->ep /= 2;
    int64_t over_slices = s->ep * s->tp;
    if (seed / 8 % 2 && request->model.experts % over_slices == 0 &&
        (!groups || groups % over_slices == 0)) {
        s->ep = over_slices;
        s->etp = 1;
    }
    if (s->ep == 1)
        return;
    s->expert_imbalance = 1 + (double)(seed / 5 % 3) * 0.375;
    s->shard_group = MW_SHARD_ALL;
    s->partition = MW_PARTITION_BANDWIDTH;
}

/* Of layers that are alike, whose share is one of the work and of the parameters in each tier, some
 * are recomputed beside others whose activations leave. */
static void
recompute_beside_whole(struct random_request *request, guint32 seed)
{
    struct mw_settings *s = &request->settings;
    const struct mw_model *m = &request->model;
    bool alike = !m->mixed && (!m->experts || m->dense_layers % m->layers == 0) &&
                 s->placement[MW_STATE_PARAMETERS].count < 2;
    int64_t layers = m->layers, again = layers > 1 ? 1 + seed / 4 % (layers - 1) : 0;

    if (seed % 4 == 2 || !again || s->checkpoint_interval != 1 || !alike ||
        mw_strategy_traits(s->strategy)->layer_order)
        return;
    s->whole_checkpoints = 1;
    if (seed % 4)
        s->recompute_layers = again;
    else
        for (int64_t layer = 0; layer < layers; layer += 1 + again)
            mw_layer_set_add(&s->recompute_set, layer);
}

/* Of a third of the requests ranks share sequences, in a ring where there are no windows. */
static void
share_sequences(struct random_request *request, guint32 seed)
{
    struct mw_settings *s = &request->settings;
    const struct mw_model *m = &request->model;
    int64_t dp = s->nodes * s->gpus_per_node / s->tp;
    bool ring = request->hardware.gpu_flash_attention && !m->window && seed % 2;

    if (seed % 3 != 1)
        return;
    for (int64_t cp = 2; cp <= dp; cp *= 2)
        if (ring || (m->heads / s->tp % cp == 0 && m->kv_heads / s->tp / cp > 0 &&
                     m->kv_heads / s->tp % cp == 0))
            s->cp = cp;
    s->cp_kind = s->cp > 1 && !ring ? MW_CONTEXT_ALL_TO_ALL : MW_CONTEXT_RING;
}

static void
draw_request(struct random_request *request, guint32 seed)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(seed);

    random_request_init(request, seed);
    request->model = even_model(random);
    request->settings = even_settings(random, seed);
    request->settings.checkpoint_interval =
        MIN(request->settings.checkpoint_interval, request->model.layers);
    if (request->settings.tp == 1 && request->settings.optimizer != MW_OPTIMIZER_MUON)
        mix_layers(&request->model, seed);
    recompute_beside_whole(request, seed);
    spread_experts(request, seed);
    request->hardware = test_hardware("flat-test");
    request->hardware.gpu_flash_attention = pick(random, 0, 1);
    request->hardware.tensor_overlap = seed % 3 > 0;
    request->hardware.tensor_pieces = seed % 5 < 2;
    request->hardware.tensor_parts = seed % 2;
    request->hardware.reduced_type = (int)(seed / 3 % MW_REDUCED_TYPE_COUNT);
    random_request_update(&request->hardware, seed);
    share_sequences(request, seed);
    random_request_take_turns(request);
    if (pick(random, 0, 1))
        random_rates(random, &request->hardware);
    random_request_name(request);
}

static int64_t
sum_ns(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    struct mw_costs costs;
    int64_t sum = 0;

    mw_costs_init(&costs, plan, hardware);
    for (uint32_t o = 0; o < plan->op_count; o++)
        sum += costs.work_ns[plan->ops[o].work];
    mw_costs_clear(&costs);
    return sum;
}

/* No shard is padded to whole elements. */
static bool
divides(const struct mw_sizing *sizing)
{
    for (int c = 0; c < MW_CLASS_COUNT; c++)
        for (int t = 0; t < sizing->classes[c].tensor_count; t++)
            if (sizing->classes[c].tensors[t].tile_params % sizing->classes[c].tensors[t].ranks)
                return false;
    return true;
}

static void
check_sizing(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    struct mw_engine_result engine;
    struct mw_closed_form form;

    g_assert_true(mw_evaluate_plan(plan, hardware, false, &engine, NULL));

    mw_closed_form_of(sizing, hardware, &form);
    g_assert_cmpint(engine.step_ns, ==, sum_ns(plan, hardware));
    g_assert_cmpfloat_with_epsilon((double)engine.step_ns, form.plan_total_s * 1e9, plan->op_count);
    mw_engine_result_clear(&engine);
    mw_plan_free(plan);
}

static void
test_serialised_plans(void)
{
    int compared = 0, mixed = 0, in_turn = 0;

    for (guint32 seed = 0; seed < REQUESTS; seed++) {
        struct random_request request;
        g_autoptr(GError) error = NULL;

        draw_request(&request, seed);
        g_autoptr(GPtrArray) found = random_request_candidates(&request, &error);
        g_assert_no_error(error);
        const struct mw_sizing *sizing = found->pdata[0];
        g_assert_true(sizing->fits);
        if (!divides(sizing))
            continue;
        check_sizing(sizing, &request.hardware);
        compared++;
        mixed += mw_sizing_mixes_checkpoints(sizing);
        in_turn += mw_sizing_updates(sizing) > 1;
    }
    g_test_message("%d plans, %d with checkpoints of inputs and of activations", compared, mixed);
    g_assert_cmpint(compared, >, REQUESTS / 2);
    g_assert_cmpint(mixed, >, REQUESTS / 50);
    g_assert_cmpint(in_turn, >, REQUESTS / 50);
}

/* With overlap the form is a ceiling where it knows all that an op costs: no latency, as it leaves
 * them out, a rate of products that does not depend on their size, as it takes one of the mean, and
 * no padding.  Collectives that take multiprocessors from compute are none of these: what one loses
 * the other has gained. */
static void
check_ceiling(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    struct mw_engine_result engine;
    struct mw_closed_form form;

    g_assert_true(mw_evaluate_plan(plan, hardware, false, &engine, NULL));
    mw_closed_form_of(sizing, hardware, &form);
    g_assert_cmpfloat((double)engine.step_ns, <=, form.plan_total_s * 1e9 + plan->op_count);
    mw_engine_result_clear(&engine);
    mw_plan_free(plan);
}

static void
test_overlapping_plans(void)
{
    static const double shares[] = {0, 0.3, 1};
    int compared = 0;

    for (guint32 seed = 0; seed < OVERLAPPING; seed++) {
        struct random_request request;

        draw_request(&request, seed);
        request.settings.serialize = false;
        g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
        const struct mw_sizing *sizing = found->pdata[0];
        for (size_t i = 0; i < G_N_ELEMENTS(shares) && divides(sizing); i++) {
            request.hardware.gpu_collective_sm_share = shares[i];
            check_ceiling(sizing, &request.hardware);
            compared++;
        }
    }
    g_assert_cmpint(compared, >, OVERLAPPING);
}

/* Bytes of all ops of a kind that go over the ranks of an axis. */
static int64_t
bytes_over(const struct mw_plan *plan, enum mw_op_kind kind, enum mw_axis axis, uint32_t ranks,
           uint32_t stride)
{
    int64_t bytes = 0;

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_work *work = &plan->works[plan->ops[o].work];
        if (work->kind != kind || work->object == MW_OBJECT_UPDATED)
            continue;
        const struct mw_axis_span *span = &plan->comms[work->comm].spans[axis];
        bytes += span->count == ranks && span->stride == stride ? work->bytes : 0;
    }
    return bytes;
}

/* Three layers of Mixtral on 2 x 8 GPUs, of which 4 share experts, 2 sequences of 1024 a
 * micro-batch. */
static void
request_spread(struct random_request *request, int64_t tp, bool whole)
{
    struct mw_settings *s = &request->settings;

    random_request_init(request, 1);
    request->hardware = test_hardware("dgx-h100");
    mw_settings_init(s);
    if (!mw_model_load_preset("mixtral-8x7b", &request->model, NULL))
        g_assert_not_reached();
    request->model.layers = 3;
    s->nodes = 2;
    s->gpus_per_node = 8;
    s->ep = whole ? 4 * tp : 4;
    s->etp = whole ? 1 : MW_AUTO;
    s->tp = tp;
    s->sequence_parallel = tp > 1 ? 1 : MW_AUTO;
    s->micro_batch = 2;
    s->grad_accum = 3;
    s->seq = 1024;
    s->checkpoint_interval = 1;
    random_request_name(request);
}

/* From dimensions alone: each token has k copies of h elements of 2 bytes, which go to experts and
 * come back, forward, again in recomputation, and their gradients in backward; and a rank's experts
 * have j h f elements each, whose gradients the ranks add up that have the same ones. */
static void
spread_bytes(int64_t tp, bool whole)
{
    static const enum mw_strategy strategies[] = {MW_STRATEGY_DDP, MW_STRATEGY_ZERO1,
                                                  MW_STRATEGY_ZERO2, MW_STRATEGY_ZERO3};
    struct random_request request;
    struct mw_settings *s = &request.settings;

    request_spread(&request, tp, whole);
    for (size_t i = 0; i < G_N_ELEMENTS(strategies) * MW_REDUCED_TYPE_COUNT; i++) {
        size_t row = i % G_N_ELEMENTS(strategies);
        enum mw_reduced_type type = i / G_N_ELEMENTS(strategies);
        s->strategy = strategies[row];
        request.hardware.reduced_type = (int)type;
        g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
        struct mw_plan *plan = mw_build_plan(found->pdata[0]);
        const struct mw_model *m = &request.model;
        int64_t exchange = 2 * 2 * 1024 * m->experts_per_token * m->hidden;
        int64_t experts = 3 * m->experts / 4 * 3 * m->hidden * m->expert_ffn / tp;
        bool parts = row > 1; /* each micro-batch's in 2 bytes, else their sum in 4 */
        const int64_t element_bytes[MW_REDUCED_TYPE_COUNT] = {
            [MW_REDUCED_PLANNED] = parts ? 2 : 4, [MW_REDUCED_MADE] = 2, [MW_REDUCED_FP32] = 4};
        enum mw_op_kind reduces = row ? MW_OP_REDUCE_SCATTER : MW_OP_ALL_REDUCE;
        uint32_t slices = (uint32_t)tp;
        g_assert_cmpint(bytes_over(plan, MW_OP_ALL_TO_ALL, MW_AXIS_EP, 4, slices), ==,
                        3 * 3 * 6 * exchange);
        g_assert_cmpint(bytes_over(plan, reduces, MW_AXIS_DP, 4 / slices, 4 * slices), ==,
                        experts * (parts ? 3 : 1) * element_bytes[type]);
        g_assert_cmpint(bytes_over(plan, MW_OP_ALL_TO_ALL, MW_AXIS_TP, slices, 1), ==,
                        whole ? 3 * 3 * 6 * exchange : 0);
        for (int half = 0; half < 2 && tp > 1; half++)
            g_assert_cmpint(bytes_over(plan, half ? MW_OP_ALL_GATHER : MW_OP_REDUCE_SCATTER,
                                       MW_AXIS_TP, slices, 1),
                            ==, whole ? 0 : 3 * 3 * 3 * tp * exchange);
        mw_plan_free(plan);
    }
}

/* With slices each sends the tokens that it has, and all gather what came to any of them; or where
 * experts are whole, there are as many of them on a rank as would be slices, and nothing to gather:
 * Liu et al., arXiv 2504.14960. */
static void
test_spread_bytes(void)
{
    spread_bytes(1, false);
    spread_bytes(2, false);
    spread_bytes(2, true);
}

/* It costs what so many times the FLOPs and bytes do: kernels are started as often. */
static void
check_fullest(const struct mw_plan *plan, const struct mw_work *work,
              const struct mw_hardware *hardware)
{
    struct mw_work alone = *work;
    double takes_s = mw_cost_work_s(plan, work, hardware);
    double more = fmax(1, work->fullest);

    alone.fullest = 0;
    alone.bytes = (int64_t)((double)work->bytes * more);
    alone.flops = (int64_t)((double)work->flops * more);
    for (uint32_t i = 0; i < work->product_count; i++) {
        struct mw_work_product *p = &alone.products[i];
        bool sums = p->of == MW_PRODUCT_OF_WEIGHTS;
        p->m = sums ? p->m : (int64_t)((double)p->m * more + 0.5);
        p->k = sums ? (int64_t)((double)p->k * more + 0.5) : p->k;
    }
    double expected_s = mw_cost_work_s(plan, &alone, hardware);
    g_assert_cmpfloat_with_epsilon(takes_s, expected_s, 1e-9 * takes_s + 1e-15);
}

/* What all ranks of a group wait for is in the rank's own work: that of experts, of which shared
 * ones are not, and what goes to them and back. */
static void
test_imbalance(void)
{
    static const struct {
        double asked, factor;
        int64_t shared;       /* width of experts that all tokens visit */
        double experts, both; /* of experts, and of their activations with shared ones' */
    } rows[] = {{1, MW_AUTO, 0, 0, 0},
                {1.5, MW_AUTO, 0, 1.5, 1.5},
                {1.5, 1.25, 0, 0, 0},
                {1.5, MW_AUTO, 2 * 14336, 1.5, 1.25},
                {9, MW_AUTO, 0, 4, 4}}; /* 2 visits of each token of 4 ranks */
    struct random_request request;

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        request_spread(&request, 1, false);
        request.settings.strategy = MW_STRATEGY_ZERO1;
        request.settings.expert_imbalance = rows[i].asked;
        request.settings.capacity_factor = rows[i].factor;
        request.model.shared_expert_ffn = rows[i].shared;
        g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
        struct mw_plan *plan = mw_build_plan(found->pdata[0]);
        for (uint32_t w = 0; w < plan->work_count; w++) {
            struct mw_work work = plan->works[w];
            bool of_experts =
                mw_operator_row(work.operator_)->part_of && work.object == MW_OBJECT_ACTIVATIONS;
            bool act = work.operator_ == MW_OPERATOR_MLP_ACT;
            double fullest = of_experts ? rows[i].experts : act ? rows[i].both : 0;
            g_assert_cmpfloat(work.fullest, ==, fullest);
            check_fullest(plan, &work, &request.hardware);
        }
        mw_plan_free(plan);
    }
}

/* The same by gate: rows that the 8 experts have of a rank's 2048 tokens, or of 4 groups of 2. */
static void
test_gate_bytes(void)
{
    static const struct {
        enum mw_gating gate;
        double factor;
        int64_t rows;
    } rows[] = {{MW_GATING_TOP_K, MW_AUTO, 2 * 2048},
                {MW_GATING_NOISY_TOP_K, MW_AUTO, 2 * 2048},
                {MW_GATING_SWITCH, MW_AUTO, 8 * 256},
                {MW_GATING_SWITCH, 1.25, 8 * 320},
                {MW_GATING_GSHARD, MW_AUTO, 8 * 512},
                {MW_GATING_EXPERT_CHOICE, MW_AUTO, 8 * 512},
                {MW_GATING_EXPERT_CHOICE, 1.5, 8 * 768},
                {MW_GATING_HIERARCHICAL, MW_AUTO, 2 * 2048},
                {MW_GATING_SWITCH, 0, 2048},
                {MW_GATING_GSHARD, 0, 2 * 2048}};
    struct random_request request;

    request_spread(&request, 1, false);
    request.settings.strategy = MW_STRATEGY_ZERO1;
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        request.settings.gate = rows[i].gate;
        request.settings.capacity_factor = rows[i].factor;
        g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
        struct mw_plan *plan = mw_build_plan(found->pdata[0]);
        g_assert_cmpint(bytes_over(plan, MW_OP_ALL_TO_ALL, MW_AXIS_EP, 4, 1), ==,
                        3 * 3 * 6 * 2 * rows[i].rows * request.model.hidden);
        mw_plan_free(plan);
    }
}

/* Layers of Llama 2, whose heads all have keys of their own, on 2 x 8 GPUs, of which so many share
 * two sequences. */
static struct mw_plan *
plan_of_shared(struct random_request *request, enum mw_context kind, int64_t cp)
{
    struct mw_settings *s = &request->settings;

    random_request_init(request, 1);
    request->hardware = test_hardware("dgx-h100");
    mw_settings_init(s);
    if (!mw_model_load_preset("llama-2-7b", &request->model, NULL))
        g_assert_not_reached();
    request->model.layers = 3;
    s->strategy = MW_STRATEGY_ZERO1;
    s->nodes = 2;
    s->gpus_per_node = 8;
    s->cp = cp;
    s->cp_kind = kind;
    s->micro_batch = 2.0 / (double)cp;
    s->grad_accum = 3;
    s->seq = 4096;
    s->checkpoint_interval = 1;
    s->recompute_layers = MW_AUTO;
    random_request_name(request);
    g_autoptr(GPtrArray) found = random_request_candidates(request, NULL);
    return mw_build_plan(found->pdata[0]);
}

/* FLOPs of attention in forward passes. */
static int64_t
attention_flops(const struct mw_plan *plan)
{
    int64_t flops = 0;

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_work *work = &plan->works[plan->ops[o].work];
        if (work->kind == MW_OP_COMPUTE && work->operator_ == MW_OPERATOR_ATTENTION &&
            plan->ops[o].phase == MW_PHASE_FORWARD)
            flops += work->flops;
    }
    return flops;
}

/* From dimensions alone.  A ring (arXiv 2310.01889, Sec. 3): each rank's block of keys and values,
 * 2 s/cp h elements, visits all ranks, forward and in recomputation, and in backward with as many
 * gradients.  All-to-alls (arXiv 2309.14509, Sec. 3.2): q, k and v and the result, 4 s h / cp of a
 * rank, in each of these passes.  All ranks have the parameters, and reduce gradients. */
static void
test_context_bytes(void)
{
    const int64_t layers = 3, micro_batches = 3, cp = 4, ranks = 16;
    struct random_request request;
    struct mw_plan *whole = plan_of_shared(&request, MW_CONTEXT_RING, 1);
    int64_t h = request.model.hidden, elements = 2 * 4096 * h; /* of two sequences */

    for (int kind = 0; kind < MW_CONTEXT_COUNT; kind++) {
        struct mw_plan *plan = plan_of_shared(&request, (enum mw_context)kind, cp);
        bool ring = kind == MW_CONTEXT_RING;
        int64_t passes = layers * micro_batches;
        g_assert_cmpint(bytes_over(plan, MW_OP_RING_PASS, MW_AXIS_CP, 4, 1), ==,
                        ring ? passes * (1 + 1 + 2) * 2 * (2 * elements) : 0);
        g_assert_cmpint(bytes_over(plan, MW_OP_ALL_TO_ALL, MW_AXIS_CP, 4, 1), ==,
                        ring ? 0 : passes * 3 * 2 * (4 * elements / cp));
        g_assert_cmpint(bytes_over(plan, MW_OP_REDUCE_SCATTER, MW_AXIS_DP, (uint32_t)ranks, 1), ==,
                        bytes_over(whole, MW_OP_REDUCE_SCATTER, MW_AXIS_DP, (uint32_t)ranks, 1));
        g_assert_cmpint(attention_flops(plan), ==, passes * 4 * 4096 * elements / cp);
        g_assert_cmpint(attention_flops(whole), ==, passes * 4 * 4096 * elements);
        mw_plan_free(plan);
    }
    mw_plan_free(whole);
}

/* Ranks that sum up gradients, or update one after the other. */
static struct mw_plan *
plan_of_updates(bool in_turn)
{
    struct random_request request;
    struct mw_settings *s = &request.settings;

    random_request_init(&request, 1);
    request.hardware = test_hardware("dgx-h100");
    mw_settings_init(s);
    if (!mw_model_load_preset("llama-2-7b", &request.model, NULL))
        g_assert_not_reached();
    request.model.layers = 3;
    s->strategy = MW_STRATEGY_ZERO1;
    s->nodes = 2;
    s->gpus_per_node = 8;
    s->data_parallel = in_turn ? MW_DATA_PARALLEL_ASYNC : MW_DATA_PARALLEL_SYNC;
    s->micro_batch = 2;
    s->grad_accum = 3;
    s->seq = 1024;
    s->checkpoint_interval = 1;
    random_request_name(&request);
    g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
    return mw_build_plan(found->pdata[0]);
}

/* Of all ops of this kind and object. */
static int64_t
bytes_of(const struct mw_plan *plan, enum mw_op_kind kind, enum mw_object object)
{
    int64_t bytes = 0;

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_work *work = &plan->works[plan->ops[o].work];
        bytes += work->kind == kind && work->object == object ? work->bytes : 0;
    }
    return bytes;
}

/* As many bytes go over the network, in all-to-alls, and are in memory as where gradients are
 * summed up; each rank makes as many updates of its shard as there are ranks, and as many norms. */
static void
test_updates_in_turn(void)
{
    struct mw_plan *sum = plan_of_updates(false), *turns = plan_of_updates(true);
    const int64_t ranks = 16;
    int64_t gradients = bytes_of(sum, MW_OP_REDUCE_SCATTER, MW_OBJECT_GRADIENTS);
    int64_t updated = bytes_of(sum, MW_OP_ALL_GATHER, MW_OBJECT_UPDATED);

    g_assert_cmpint(gradients, >, 0);
    g_assert_cmpint(updated, >, 0);
    g_assert_cmpint(bytes_of(turns, MW_OP_ALL_TO_ALL, MW_OBJECT_GRADIENTS), ==, gradients);
    g_assert_cmpint(bytes_of(turns, MW_OP_ALL_TO_ALL, MW_OBJECT_UPDATED), ==, updated);
    g_assert_cmpint(bytes_of(turns, MW_OP_REDUCE_SCATTER, MW_OBJECT_GRADIENTS), ==, 0);
    g_assert_cmpint(bytes_of(turns, MW_OP_ALL_GATHER, MW_OBJECT_UPDATED), ==, 0);
    g_assert_cmpint(bytes_of(turns, MW_OP_UPDATE, MW_OBJECT_STATE), ==,
                    ranks * bytes_of(sum, MW_OP_UPDATE, MW_OBJECT_STATE));
    g_assert_cmpint(bytes_of(turns, MW_OP_NORM, MW_OBJECT_STATE), ==,
                    ranks * bytes_of(sum, MW_OP_NORM, MW_OBJECT_STATE));
    g_assert_cmpint(bytes_of(turns, MW_OP_AGREE, MW_OBJECT_STATE), ==,
                    ranks * bytes_of(sum, MW_OP_AGREE, MW_OBJECT_STATE));
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        g_assert_cmpint(turns->peak_bytes[tier], ==, sum->peak_bytes[tier]);
    mw_plan_free(sum);
    mw_plan_free(turns);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/closed-form/invariant-5/serialised-plans", test_serialised_plans);
    g_test_add_func("/closed-form/invariant-5/ceiling-of-overlapping-plans",
                    test_overlapping_plans);
    g_test_add_func("/closed-form/spread-bytes", test_spread_bytes);
    g_test_add_func("/closed-form/imbalance", test_imbalance);
    g_test_add_func("/closed-form/gate-bytes", test_gate_bytes);
    g_test_add_func("/closed-form/context-bytes", test_context_bytes);
    g_test_add_func("/closed-form/updates-in-turn", test_updates_in_turn);
    return g_test_run();
}
