/* An update beside backward: chunks are updated while gradients of earlier layers are computed, and
 * what a step takes grows by no more than what the two then share. */
#include <glib.h>

#include "tests/cases.h"
#include "tests/random_request.h"
#include "tests/simulated.h"

#define REQUESTS MW_CASES(2000)

static int64_t
step_ns(const struct mw_sizing *sizing)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    int64_t ns = mw_test_step_ns(plan, sizing->hardware);

    mw_plan_free(plan);
    return ns;
}

static GPtrArray *
candidates(const struct mw_request *request, const struct mw_settings *asked)
{
    struct mw_settings resolved;
    g_autoptr(GError) error = NULL;

    g_assert_true(mw_settings_complete(request, asked, &resolved, &error));
    GPtrArray *found = mw_planner_candidates(request, &resolved, &error);
    g_assert_no_error(error);
    return found;
}

static struct mw_settings
ask(bool beside)
{
    struct mw_settings asked;

    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    asked.gpus_per_node = 1;
    asked.micro_batch = 8;
    asked.commit = 0;
    asked.update_beside = beside;
    g_assert_true(mw_placement_parse("nvme", NULL, &asked.placement[MW_STATE_OPTIMIZER], NULL));
    g_assert_true(mw_placement_parse("cpu", NULL, &asked.placement[MW_STATE_GRADIENTS], NULL));
    return asked;
}

/* An op that does not come after another by any path may run before it. */
static bool
comes_after(const struct mw_plan *plan, uint32_t op, uint32_t other)
{
    g_autofree bool *after = g_new0(bool, plan->op_count);
    g_autofree uint32_t *last = g_new(uint32_t, plan->lane_count);

    for (uint32_t l = 0; l < plan->lane_count; l++)
        last[l] = MW_NONE;
    after[other] = true;
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *it = &plan->ops[o];
        if (last[it->lane] != MW_NONE)
            after[o] |= after[last[it->lane]];
        for (uint32_t d = it->dep_begin; d < it->dep_begin + it->dep_count; d++)
            if (!(plan->deps[d] & MW_DEP_PREVIOUS_STEP))
                after[o] |= after[plan->deps[d]];
        last[it->lane] = o;
    }
    return after[op];
}

static uint32_t
find_last(const struct mw_plan *plan, enum mw_op_kind kind, enum mw_phase phase)
{
    uint32_t found = MW_NONE;

    for (uint32_t o = 0; o < plan->op_count; o++)
        if (plan->works[plan->ops[o].work].kind == kind && plan->ops[o].phase == phase)
            found = o;
    return found;
}

static uint32_t
find_first(const struct mw_plan *plan, enum mw_op_kind kind)
{
    uint32_t o = 0;

    while (o < plan->op_count && plan->works[plan->ops[o].work].kind != kind)
        o++;
    return o < plan->op_count ? o : MW_NONE;
}

/* The first update waits for no more than its own gradients, the last one for all of backward; and
 * nobody takes a norm. */
static void
test_order(void)
{
    for (int beside = 0; beside < 2; beside++) {
        struct mw_hardware hardware = test_hardware("rtx4090");
        struct mw_model model;
        struct mw_request request = {&model, &hardware};
        struct mw_settings asked = ask(beside);

        g_assert_true(mw_model_load("gpt2-xl", &model, NULL));
        g_autoptr(GPtrArray) found = candidates(&request, &asked);
        struct mw_plan *plan = mw_build_plan(found->pdata[0]);
        uint32_t backward = find_last(plan, MW_OP_COMPUTE, MW_PHASE_BACKWARD);
        uint32_t first = find_first(plan, MW_OP_UPDATE);
        uint32_t last = find_last(plan, MW_OP_UPDATE, MW_PHASE_OPTIMIZER);
        g_assert_cmpint(plan->shape.updates_beside, ==, beside);
        g_assert_cmpint(comes_after(plan, first, backward), ==, !beside);
        g_assert_true(comes_after(plan, last, backward));
        g_assert_cmpint(find_first(plan, MW_OP_NORM) == MW_NONE, ==, beside);
        mw_plan_free(plan);
    }
}

/* One drive is busy with the state for most of the step: backward is hidden behind that. */
static void
test_gain(void)
{
    int64_t ns[2];

    for (int beside = 0; beside < 2; beside++) {
        struct mw_hardware hardware = test_hardware("rtx4090");
        struct mw_model model;
        struct mw_request request = {&model, &hardware};
        struct mw_settings asked = ask(beside);

        g_assert_true(mw_model_load("gpt2-xl", &model, NULL));
        g_autoptr(GPtrArray) found = candidates(&request, &asked);
        ns[beside] = step_ns(found->pdata[0]);
    }
    g_test_message("%.3f s, beside backward %.3f s", (double)ns[0] * 1e-9, (double)ns[1] * 1e-9);
    g_assert_cmpint(ns[1], <, ns[0]);
}

/* The step beside backward over that with the update at its end; 0: no such plan. */
static double
compare(guint32 seed)
{
    struct random_request request;

    random_request_init(&request, seed);
    random_request_update(&request.hardware, 0);
    request.hardware.gpu_host_sm_share = 0;
    request.hardware.gpu_copy_sm_share = request.hardware.gpu_nvme_sm_share = 0;
    request.settings.dpu_start = MW_AUTO;
    request.settings.overlap = true;
    request.settings.serialize = false;
    request.settings.update_beside = true;
    random_request_name(&request);
    g_autoptr(GPtrArray) found = random_request_candidates(&request, NULL);
    const struct mw_sizing *beside = found ? found->pdata[0] : NULL;
    if (!beside || !beside->fits)
        return 0;
    struct mw_settings settings = beside->settings;
    settings.update_beside = false;
    struct mw_sizing *end = mw_sizing_new(&request.model, &request.hardware, &settings, NULL);
    g_assert_nonnull(end);
    g_assert_cmpint(end->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENTS], >=,
                    beside->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENTS]);
    double ratio = end->fits ? (double)step_ns(beside) / (double)step_ns(end) : 0;
    mw_sizing_free(end);
    return ratio;
}

/* An update takes from links and drives that backward needs just then, and lanes keep their order:
 * so single steps become longer (Graham, SIAM J. Appl. Math. 17(2), 1969), but few, and not by
 * much. */
static void
test_seldom_slower(void)
{
    int compared = 0, slower = 0;
    double sum = 0;

    for (guint32 seed = 0; seed < REQUESTS; seed++) {
        double ratio = compare(seed);
        compared += ratio > 0;
        slower += ratio > 1.02;
        sum += ratio;
        g_assert_cmpfloat(ratio, <, 1.25);
    }
    g_test_message("%d plans, mean %.3f of the step, %d slower", compared, sum / compared, slower);
    g_assert_cmpint(compared, >, REQUESTS / 4);
    g_assert_cmpint(slower * 25, <, compared);
    g_assert_cmpfloat(sum, <, 0.98 * compared);
}

/* --- how many gradients live at once --------------------------------------------------------- */

#define PAGE MW_SLOT_ALIGNMENT_BYTES

/* Llama 3.1 8B: of a layer QKV, projection, both of the MLP.  An end's matrix is cut into five
 * parts of 25,656 rows; the larger one has a norm in each. */
static const int64_t layer_params[] = {25169920, 16777216, 117444608, 58720256};
#define END_PARTS 5
#define HEAD_PART (INT64_C(25656) * 4096)
#define TAIL_PART (HEAD_PART + 4096)
#define LAYERS 32

static const struct {
    const char *name;
    enum mw_strategy strategy;
    int64_t gpus, chunk, accum;
    int64_t sets, bytes; /* layers at once, all: 0; and bytes of a gradient */
} kept[] = {
    {"a layer and the one below it", MW_STRATEGY_DDP, 1, 32 << 20, 1, 2, 2},
    {"replicas", MW_STRATEGY_DDP, 8, 32 << 20, 1, 2, 2},
    {"shards", MW_STRATEGY_ZERO2, 8, 4 << 20, 1, 2, 2},
    {"shards of parameters", MW_STRATEGY_ZERO3, 8, 4 << 20, 1, 2, 2},
    {"chunks of two layers", MW_STRATEGY_ZERO3, 8, 16 << 20, 1, 3, 2},
    {"a chunk of many layers", MW_STRATEGY_ZERO3, 8, 160 << 20, 1, 8, 2},
    {"sums of micro-batches", MW_STRATEGY_DDP, 1, 32 << 20, 2, 0, 4},
};

static int64_t
home_bytes(int64_t parts, int64_t params, int64_t bytes, int64_t shards)
{
    int64_t home = parts * ((params + shards - 1) / shards) * bytes;

    return (home + PAGE - 1) / PAGE * PAGE;
}

static int64_t
by_hand(int64_t sets, int64_t bytes, int64_t shards)
{
    int64_t head = home_bytes(END_PARTS, HEAD_PART, bytes, shards);
    int64_t tail = home_bytes(END_PARTS, TAIL_PART, bytes, shards), layer = 0;

    for (size_t t = 0; t < G_N_ELEMENTS(layer_params); t++)
        layer += home_bytes(1, layer_params[t], bytes, shards);
    return sets ? sets * layer + MAX(head, tail) : LAYERS * layer + head + tail;
}

static void
test_gradients(void)
{
    for (size_t k = 0; k < G_N_ELEMENTS(kept); k++) {
        struct mw_hardware hardware = test_hardware("dgx-h100");
        struct mw_model model;
        struct mw_request request = {&model, &hardware};
        struct mw_settings asked;

        hardware.gpu_memory_bytes = INT64_C(400) << 30;
        mw_settings_init(&asked);
        asked.strategy = kept[k].strategy;
        asked.gpus_per_node = kept[k].gpus;
        asked.micro_batch = 1;
        asked.grad_accum = kept[k].accum;
        asked.optimizer_chunk = kept[k].chunk;
        asked.update_beside = true;
        g_assert_true(mw_model_load("llama-3.1-8b", &model, NULL));
        g_autoptr(GPtrArray) found = candidates(&request, &asked);
        const struct mw_sizing *sizing = found->pdata[0];
        g_test_message("%s", kept[k].name);
        int64_t shards = sizing->gradients_partitioned ? kept[k].gpus : 1;
        g_assert_cmpint(sizing->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENTS], ==,
                        by_hand(kept[k].sets, kept[k].bytes, shards));
        mw_plan_free(mw_build_plan(sizing)); /* which is checked */
    }
}

static bool
is_gradient(const struct mw_plan *plan, uint32_t slot)
{
    return plan->slots[slot].purpose == MW_PURPOSE_GRADIENTS &&
           plan->slots[slot].tier == MW_TIER_GPU;
}

/* The most bytes of gradients between definition and last use, in the plan's order. */
static int64_t
most_alive(const struct mw_plan *plan)
{
    g_autofree uint32_t *last = g_new(uint32_t, plan->slot_count + 1);
    g_autofree bool *alive = g_new0(bool, plan->slot_count + 1);
    int64_t bytes = 0, most = 0;

    for (uint32_t o = 0; o < plan->op_count; o++)
        for (uint32_t u = plan->ops[o].use_begin;
             u < plan->ops[o].use_begin + plan->ops[o].use_count; u++)
            last[plan->uses[u].slot] = o;
    for (uint32_t o = 0; o < plan->op_count; o++) {
        uint32_t begin = plan->ops[o].use_begin, end = begin + plan->ops[o].use_count;
        for (uint32_t u = begin; u < end; u++) {
            uint32_t slot = plan->uses[u].slot;
            if (is_gradient(plan, slot) && !alive[slot])
                bytes += plan->slots[slot].size_bytes;
            alive[slot] = true;
        }
        most = MAX(most, bytes);
        for (uint32_t u = begin; u < end; u++) {
            uint32_t slot = plan->uses[u].slot;
            if (is_gradient(plan, slot) && last[slot] == o && alive[slot]) {
                bytes -= plan->slots[slot].size_bytes;
                alive[slot] = false; /* an op may use it twice */
            }
        }
    }
    return most;
}

/* From the first slot's begin to the last one's end. */
static int64_t
extent_of_gradients(const struct mw_plan *plan)
{
    int64_t begin = INT64_MAX, end = 0;

    for (uint32_t s = 0; s < plan->slot_count; s++)
        if (is_gradient(plan, s) && plan->slots[s].size_bytes && plan->slots[s].program == 0) {
            begin = MIN(begin, plan->slots[s].offset_bytes);
            end = MAX(end, plan->slots[s].offset_bytes + plan->slots[s].size_bytes);
        }
    return end ? end - begin : 0;
}

/* Of random plans: the homes are as large as the ledger says, hold what lives at once, and are less
 * than those that live until the end of the step. */
static void
test_sets(void)
{
    int found = 0;

    for (guint32 seed = 0; seed < REQUESTS; seed++) {
        struct random_request request;
        random_request_init(&request, seed);
        request.settings.dpu_start = MW_AUTO;
        request.settings.overlap = true;
        request.settings.serialize = false;
        request.settings.update_beside = true;
        request.settings.grad_accum = 1;
        request.settings.unfold = false;
        request.settings.placement[MW_STATE_OPTIMIZER] =
            request.settings.placement[MW_STATE_GRADIENTS] =
                (struct mw_placement){.count = 1, .part = {{MW_TIER_GPU, INT64_MAX, 0}}};
        random_request_name(&request);
        g_autoptr(GPtrArray) all = random_request_candidates(&request, NULL);
        const struct mw_sizing *sizing = all && all->len ? all->pdata[0] : NULL;
        if (!sizing || !sizing->fits || !sizing->gradient_sets)
            continue;
        int64_t bytes = sizing->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENTS];
        struct mw_settings settings = sizing->settings;
        settings.update_beside = false;
        struct mw_sizing *end = mw_sizing_new(&request.model, &request.hardware, &settings, NULL);
        g_assert_cmpint(bytes, <, end->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENTS]);
        mw_sizing_free(end);
        struct mw_plan *plan = mw_build_plan(sizing);
        g_assert_cmpint(extent_of_gradients(plan), ==, bytes);
        g_assert_cmpint(most_alive(plan), <=, bytes);
        g_assert_cmpint(plan->peak_bytes[MW_TIER_GPU], ==, sizing->need_bytes[MW_TIER_GPU]);
        found++;
        mw_plan_free(plan);
    }
    g_test_message("%d plans", found);
    g_assert_cmpint(found, >, REQUESTS / 50);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/beside/order", test_order);
    g_test_add_func("/beside/gain", test_gain);
    g_test_add_func("/beside/seldom-slower", test_seldom_slower);
    g_test_add_func("/beside/gradients", test_gradients);
    g_test_add_func("/beside/sets", test_sets);
    return g_test_run();
}
