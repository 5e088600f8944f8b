/* What a rank sends in a step, summed up over the ops of a plan, beside the formulas of the papers
 * that say it. */
#include <string.h>

#include "plan/operators.h"
#include "planner/build/build.h"
#include "planner/sizing/sizing.h"
#include "tests/random_request.h"

#define GPUS 8
#define LAYERS 3
#define MICRO_BATCHES 2
#define SEQ 128
#define TYPE_BYTES 2 /* of an element of activations, parameters and gradients */

static void
draw(struct random_request *request, const char *model, enum mw_strategy strategy)
{
    struct mw_settings *s = &request->settings;

    memset(request, 0, sizeof *request);
    if (!mw_model_load_preset(model, &request->model, NULL))
        g_error("no model");
    request->model.layers = LAYERS;
    request->model.vocab = 1024; /* so that no part is cut, and none has padding */
    request->hardware = test_hardware("dgx-h100");
    mw_settings_init(s);
    s->strategy = strategy;
    s->nodes = 1;
    s->gpus_per_node = GPUS;
    s->micro_batch = 1;
    s->grad_accum = MICRO_BATCHES;
    s->seq = SEQ;
    s->tiles = s->logits_chunks = 1;
    s->checkpoint_interval = 0;
    s->commit = 0;
}

/* Of the first plan that is found, which is to fit; *found owns it. */
static struct mw_plan *
plan_of(const struct random_request *request, GPtrArray **found)
{
    g_autoptr(GError) error = NULL;

    *found = random_request_candidates(request, &error);
    g_assert_no_error(error);
    const struct mw_sizing *sizing = (*found)->pdata[0];
    g_assert_true(sizing->fits);
    return mw_build_plan(sizing);
}

typedef bool (*of_work)(const struct mw_work *work);

/* Bytes that a rank sends along an axis: around a ring of n ranks a message passes n - 1 times in
 * parts, twice where all get the sum; of an all-to-all a part stays. */
static double
sent(const struct mw_plan *plan, enum mw_axis axis, of_work counts)
{
    double bytes = 0;

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_work *work = &plan->works[plan->ops[o].work];
        if (work->comm == MW_NONE || !counts(work))
            continue;
        double ranks = plan->comms[work->comm].spans[axis].count;
        double once = (double)work->bytes * (ranks - 1) / ranks;
        bytes += mw_op_traits(work->kind)->pattern == MW_PATTERN_REDUCE ? 2 * once : once;
    }
    return bytes;
}

static int64_t
ops_of(const struct mw_plan *plan, of_work counts)
{
    int64_t ops = 0;

    for (uint32_t o = 0; o < plan->op_count; o++)
        ops += counts(&plan->works[plan->ops[o].work]);
    return ops;
}

/* --- ZeRO ------------------------------------------------------------------------------------ */

static bool
is_of_parameters(const struct mw_work *work)
{
    return work->object == MW_OBJECT_PARAMETERS || work->object == MW_OBJECT_GRADIENTS ||
           work->object == MW_OBJECT_UPDATED;
}

static double
embedding_params(const struct mw_plan *plan)
{
    int64_t elements = 0;

    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].operators >> MW_OPERATOR_EMBEDDING & 1)
            elements += plan->tensors[t].elements;
    return (double)elements;
}

/* ZeRO, arXiv 1910.02054, Sec. 7.1: 2 psi elements of a step without partition; Sec. 7.2.1: 2 psi
 * with optimizer state and with gradients in parts; Sec. 7.2.2: 3 psi with parameters in parts, of
 * which backward of the embedding needs none. */
static void
test_zero(void)
{
    static const struct {
        enum mw_strategy strategy;
        double psi;
    } stages[] = {{MW_STRATEGY_DDP, 2},
                  {MW_STRATEGY_ZERO1, 2},
                  {MW_STRATEGY_ZERO2, 2},
                  {MW_STRATEGY_ZERO3, 3}};

    for (size_t i = 0; i < G_N_ELEMENTS(stages); i++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;
        draw(&request, "llama-2-7b", stages[i].strategy);
        request.settings.grad_accum = 1;
        struct mw_plan *plan = plan_of(&request, &found);
        const struct mw_sizing *sizing = found->pdata[0];
        double elements = stages[i].psi * (double)sizing->params;
        if (stages[i].strategy == MW_STRATEGY_ZERO3)
            elements -= embedding_params(plan);
        g_assert_false(request.model.tied_embedding);
        g_assert_cmpfloat_with_epsilon(sent(plan, MW_AXIS_DP, is_of_parameters),
                                       TYPE_BYTES * elements * (GPUS - 1) / GPUS, 1e-6 * elements);
        mw_plan_free(plan);
    }
}

/* --- slices ---------------------------------------------------------------------------------- */

static bool
is_sum_of_layer(const struct mw_work *work)
{
    return work->object == MW_OBJECT_ACTIVATIONS && work->comm != MW_NONE &&
           mw_operator_row(work->operator_)->place == MW_PLACE_BLOCK;
}

static bool
is_checkpoint(const struct mw_work *work)
{
    return work->object == MW_OBJECT_CHECKPOINT && work->comm != MW_NONE;
}

static struct mw_plan *
sliced(int64_t tp, int64_t interval, int partition, GPtrArray **found)
{
    struct random_request request;

    draw(&request, "llama-2-7b", MW_STRATEGY_ZERO1);
    request.settings.tp = tp;
    request.settings.checkpoint_interval = interval;
    request.settings.checkpoint_partition = partition;
    request.hardware.tensor_overlap = false;
    struct mw_plan *plan = plan_of(&request, found);
    const struct mw_sizing *sizing = (*found)->pdata[0];
    g_assert_cmpint(sizing->tokens, ==, tp * SEQ);
    return plan;
}

/* Bytes of all tokens' activations of one layer's input, in all layers and micro-batches. */
static double
of_inputs(const GPtrArray *found)
{
    const struct mw_sizing *sizing = found->pdata[0];

    return (double)TYPE_BYTES * LAYERS * MICRO_BATCHES * (double)sizing->tokens *
           (double)sizing->model->hidden;
}

/* Megatron-LM, arXiv 1909.08053, Sec. 3: a layer's two all-reduces of b s h elements forward, two
 * backward; ZeRO, Sec. 8: two more in recomputation, and a message is sent twice: 12 s h. */
static void
test_slices(void)
{
    for (int64_t tp = 2; tp <= GPUS; tp *= 2)
        for (int64_t interval = 0; interval <= 1; interval++) {
            g_autoptr(GPtrArray) found = NULL;
            struct mw_plan *plan = sliced(tp, interval, 1, &found);
            int64_t sums = interval ? 6 : 4;
            double expected = (double)(2 * sums) * of_inputs(found) * (double)(tp - 1) / (double)tp;
            g_assert_cmpint(ops_of(plan, is_sum_of_layer), ==, sums * LAYERS * MICRO_BATCHES);
            g_assert_cmpfloat_with_epsilon(sent(plan, MW_AXIS_TP, is_sum_of_layer), expected,
                                           1e-9 * expected);
            mw_plan_free(plan);
        }
}

/* ZeRO, Sec. 8: checkpoints in parts (Pa) cost one all-gather of s h elements a block, less than a
 * tenth of what slices send all the same. */
static void
test_checkpoints(void)
{
    for (int64_t tp = 2; tp <= GPUS; tp *= 2)
        for (int partition = 0; partition <= 1; partition++) {
            g_autoptr(GPtrArray) found = NULL;
            struct mw_plan *plan = sliced(tp, 1, partition, &found);
            double gathered = sent(plan, MW_AXIS_TP, is_checkpoint);
            double summed = sent(plan, MW_AXIS_TP, is_sum_of_layer);
            double expected = partition * of_inputs(found) * (double)(tp - 1) / (double)tp;
            g_assert_cmpfloat_with_epsilon(gathered, expected, 1e-9 * summed);
            g_assert_cmpfloat_with_epsilon(12 * gathered, partition * summed, 1e-9 * summed);
            g_assert_cmpfloat(gathered, <, summed / 10);
            mw_plan_free(plan);
        }
}

/* --- experts --------------------------------------------------------------------------------- */

static bool
is_exchange(const struct mw_work *work)
{
    return work->kind == MW_OP_ALL_TO_ALL;
}

/* GShard, arXiv 2006.16668, Sec. 3.2, and Switch, arXiv 2101.03961, Sec. 2.2: an all-to-all brings
 * t k c h elements of t tokens to experts of capacity factor c, one brings them back, and as many
 * their gradients; and two more where forward is computed again. */
static void
test_experts(void)
{
    static const double factors[] = {0, 1, 1.25, 2}; /* 0: no capacity, which is as many as come */

    for (int64_t ep = 2; ep <= GPUS; ep *= 2)
        for (size_t i = 0; i < 2 * G_N_ELEMENTS(factors); i++) {
            struct random_request request;
            g_autoptr(GPtrArray) found = NULL;
            double factor = factors[i / 2];
            int64_t interval = (int64_t)(i % 2);
            draw(&request, "mixtral-8x7b", MW_STRATEGY_ZERO1);
            request.settings.ep = ep;
            request.settings.capacity_factor = factor;
            request.settings.checkpoint_interval = interval;
            struct mw_plan *plan = plan_of(&request, &found);
            int64_t exchanges = interval ? 6 : 4;
            double visits = (double)request.model.experts_per_token * (factor > 0 ? factor : 1);
            double expected =
                (double)exchanges * visits * of_inputs(found) * (double)(ep - 1) / (double)ep;
            g_assert_cmpint(ops_of(plan, is_exchange), ==, exchanges * LAYERS * MICRO_BATCHES);
            g_assert_cmpfloat_with_epsilon(sent(plan, MW_AXIS_EP, is_exchange), expected,
                                           1e-9 * expected);
            mw_plan_free(plan);
        }
}

/* Whole experts over slices and other ranks (Liu et al., arXiv 2504.14960): each slice
 * sends what the t / tp tokens that it has send, to ep ranks of both axes. */
static void
test_whole_experts(void)
{
    for (int64_t tp = 2; tp <= GPUS / 2; tp *= 2)
        for (int64_t ep = tp; ep <= GPUS; ep *= 2) {
            struct random_request request;
            g_autoptr(GPtrArray) found = NULL;
            draw(&request, "mixtral-8x7b", MW_STRATEGY_ZERO1);
            request.settings.tp = tp;
            request.settings.sequence_parallel = 1;
            request.settings.ep = ep;
            request.settings.etp = 1;
            struct mw_plan *plan = plan_of(&request, &found);
            double visits = (double)request.model.experts_per_token, bytes = 0;
            for (uint32_t o = 0; o < plan->op_count; o++) {
                const struct mw_work *work = &plan->works[plan->ops[o].work];
                if (!is_exchange(work))
                    continue;
                g_assert_cmpint(mw_plan_comm_shape(plan, work->comm).size, ==, ep);
                bytes += (double)work->bytes;
            }
            g_assert_cmpint(ops_of(plan, is_exchange), ==, 4 * LAYERS * MICRO_BATCHES);
            g_assert_cmpfloat_with_epsilon(bytes, 4 * visits * of_inputs(found) / (double)tp, 1);
            mw_plan_free(plan);
        }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/volumes/zero", test_zero);
    g_test_add_func("/volumes/slices", test_slices);
    g_test_add_func("/volumes/checkpoints", test_checkpoints);
    g_test_add_func("/volumes/experts", test_experts);
    g_test_add_func("/volumes/experts/whole", test_whole_experts);
    return g_test_run();
}
