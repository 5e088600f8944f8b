/* Hybrid sharding: states partitioned over groups of ranks, and replicated over the groups. */
#include <string.h>

#include "config.h"
#include "planner/build/build.h"
#include "planner/sizing/sizing.h"
#include "tests/random_request.h"

#define NODES 4
#define GPUS 4
#define RANKS (NODES * GPUS)

static void
draw(struct random_request *request, enum mw_strategy strategy, int64_t group)
{
    struct mw_settings *s = &request->settings;

    memset(request, 0, sizeof *request);
    if (!mw_model_load_config(MW_SOURCE_DIR "/tests/fixtures/llama-small/config.json",
                              &request->model, NULL))
        g_error("no model");
    request->model.layers = 3;
    request->model.vocab = 128; /* so that no part is cut, and none has padding */
    request->hardware = test_hardware("dgx-h100");
    mw_settings_init(s);
    s->strategy = strategy;
    s->nodes = NODES;
    s->gpus_per_node = GPUS;
    s->micro_batch = 1;
    s->grad_accum = 1;
    s->seq = 32;
    s->checkpoint_interval = 0;
    s->tiles = s->logits_chunks = 1;
    s->commit = 0;
    s->shard_group = group;
}

/* The first that is found, which is to fit; *found owns it. */
static const struct mw_sizing *
size(const struct random_request *request, GPtrArray **found)
{
    g_autoptr(GError) error = NULL;

    *found = random_request_candidates(request, &error);
    g_assert_no_error(error);
    const struct mw_sizing *sizing = (*found)->pdata[0];
    g_assert_true(sizing->fits);
    return sizing;
}

static char *
text_of(const struct mw_sizing *sizing)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    mw_plan_write(plan, file);
    fclose(file);
    mw_plan_free(plan);
    return text;
}

static char *
text_with(enum mw_strategy strategy, int64_t group)
{
    struct random_request request;
    g_autoptr(GPtrArray) found = NULL;

    draw(&request, strategy, group);
    request.settings.checkpoint_interval = MW_AUTO;
    return text_of(size(&request, &found));
}

/* One group of all ranks is what there is without groups. */
static void
test_one_group(void)
{
    for (int s = MW_STRATEGY_ZERO1; s < MW_STRATEGY_COUNT; s++) {
        if (!mw_strategy_traits(s)->state[MW_STATE_OPTIMIZER].partitioned)
            continue;
        char *all = text_with((enum mw_strategy)s, MW_SHARD_ALL);
        char *named = text_with((enum mw_strategy)s, RANKS);
        g_assert_cmpstr(named, ==, all);
        g_assert_null(strstr(all, " rp "));
        free(all);
        free(named);
    }
}

/* Bytes that a rank sends in a step along an axis, and of them those over a node's network. */
struct sent {
    double bytes[MW_AXIS_COUNT], network;
    int64_t sums; /* over groups */
};

static struct sent
count_sent(const struct mw_plan *plan)
{
    struct sent sent = {0};

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_work *work = &plan->works[plan->ops[o].work];
        enum mw_pattern pattern = mw_op_traits(work->kind)->pattern;
        if (work->object != MW_OBJECT_PARAMETERS && work->object != MW_OBJECT_GRADIENTS &&
            work->object != MW_OBJECT_UPDATED)
            continue;
        for (int axis = 0; axis < MW_AXIS_COUNT && work->comm != MW_NONE; axis++) {
            double ranks = plan->comms[work->comm].spans[axis].count;
            double once = (double)work->bytes * (ranks - 1) / ranks;
            sent.bytes[axis] += pattern == MW_PATTERN_REDUCE ? 2 * once : once;
            sent.sums += axis == MW_AXIS_RP && ranks > 1;
        }
        for (uint32_t d = work->draw_begin; d < work->draw_begin + work->draw_count; d++)
            if (plan->channels[plan->draws[d].channel].kind == MW_CHANNEL_NIC)
                sent.network += (double)plan->draws[d].amount;
    }
    return sent;
}

static int64_t
params_outside(const struct mw_plan *plan, enum mw_operator operator_)
{
    int64_t elements = 0;

    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].operators >> operator_ & 1)
            elements += plan->tensors[t].elements;
    return elements;
}

/* ZeRO's volumes (arXiv 1910.02054, Sec. 7) within a group, and an all-reduce of a shard between
 * groups (arXiv 2304.11277, Sec. 3.2.2).  Backward of an embedding does not fetch it. */
static void
check_volumes(enum mw_strategy strategy, int64_t group, int gathers)
{
    struct random_request request;
    g_autoptr(GPtrArray) found = NULL;

    draw(&request, strategy, group);
    const struct mw_sizing *sizing = size(&request, &found);
    struct mw_plan *plan = mw_build_plan(sizing);
    struct sent sent = count_sent(plan);
    double of_group = (double)sizing->shards, groups = RANKS / of_group;
    double bytes = 2.0 * (double)sizing->params; /* 2 of an element */
    double embedding = 2.0 * (double)params_outside(plan, MW_OPERATOR_EMBEDDING);
    double moved = (1 + gathers) * bytes - (gathers == 2 ? embedding : 0);

    g_assert_false(request.model.tied_embedding);
    g_assert_cmpfloat(sent.bytes[MW_AXIS_DP], ==, moved * (of_group - 1) / of_group);
    g_assert_cmpfloat(sent.bytes[MW_AXIS_RP], ==, 2 * bytes / of_group * (groups - 1) / groups);
    if (of_group <= GPUS) /* a rank's part of the network has the sums alone */
        g_assert_cmpfloat_with_epsilon(
            sent.network, 2 * bytes / of_group * (NODES - 1) / NODES * (of_group == GPUS ? 1 : 0.5),
            (double)sent.sums);
    mw_plan_free(plan);
}

static void
test_volumes(void)
{
    for (int64_t group = 2; group < RANKS; group *= 2) {
        check_volumes(MW_STRATEGY_ZERO1, group, 1);
        check_volumes(MW_STRATEGY_ZERO2, group, 1);
        check_volumes(MW_STRATEGY_ZERO3, group, 2);
    }
    check_volumes(MW_STRATEGY_ZERO3, MW_SHARD_NODE, 2);
}

static int64_t
states_of(const struct mw_sizing *sizing)
{
    const int64_t *gpu = sizing->ledger[MW_TIER_GPU];

    return gpu[MW_PURPOSE_PARAMETERS] + gpu[MW_PURPOSE_GRADIENTS] + gpu[MW_PURPOSE_OPTIMIZER_STATE];
}

/* A rank of a group has as much of the states as one of as many ranks in all. */
static void
test_memory(void)
{
    for (int64_t group = 2; group <= GPUS; group *= 2)
        for (int s = MW_STRATEGY_ZERO1; s <= MW_STRATEGY_ZERO3; s++) {
            struct random_request request;
            g_autoptr(GPtrArray) found = NULL, alone = NULL;
            draw(&request, (enum mw_strategy)s, group);
            const struct mw_sizing *sizing = size(&request, &found);
            request.settings.nodes = 1;
            request.settings.gpus_per_node = group;
            request.settings.shard_group = MW_SHARD_ALL;
            const struct mw_sizing *other = size(&request, &alone);
            g_assert_cmpint(states_of(sizing), ==, states_of(other));
            g_assert_cmpint(sizing->shard_params, ==, sizing->params / group);
        }
}

/* Sums of micro-batches on the GPU are summed up over groups once, and what goes to the host each
 * time. */
static void
check_times(enum mw_tier tier, int64_t times)
{
    struct random_request request;
    g_autoptr(GPtrArray) found = NULL;
    int64_t tensors = 0;

    draw(&request, MW_STRATEGY_ZERO3, GPUS);
    request.settings.grad_accum = 5;
    for (int state = MW_STATE_GRADIENTS; state <= MW_STATE_OPTIMIZER; state++) {
        request.settings.placement[state].count = 1;
        request.settings.placement[state].part[0].tier = tier;
        request.settings.placement[state].part[0].bytes = INT64_MAX;
    }
    struct mw_plan *plan = mw_build_plan(size(&request, &found));
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        tensors += plan->tensors[t].elements > 0;
    g_assert_cmpint(count_sent(plan).sums, ==, times * tensors);
    mw_plan_free(plan);
}

static void
test_times(void)
{
    check_times(MW_TIER_GPU, 1);
    check_times(MW_TIER_CPU, 5);
    check_times(MW_TIER_NVME, 5);
}

/* --- plans that are wrong -------------------------------------------------------------------- */

typedef void (*change)(struct mw_plan *plan, struct mw_work *work);

static uint32_t
comm_along(const struct mw_plan *plan, enum mw_axis axis)
{
    for (uint32_t c = 0; c < plan->comm_count; c++) {
        const struct mw_axis_span *spans = plan->comms[c].spans;
        if (spans[axis].count > 1 && spans[axis].count * spans[MW_AXIS_DP].count < RANKS)
            return c;
    }
    return MW_NONE;
}

static void
within_group(struct mw_plan *plan, struct mw_work *work)
{
    uint32_t c = 0;

    while (plan->comms[c].spans[MW_AXIS_DP].count == 1)
        c++;
    work->comm = c;
}

static void
of_all(struct mw_plan *plan, struct mw_work *work)
{
    work->bytes *= GPUS;
}

static void
scatters(struct mw_plan *plan, struct mw_work *work)
{
    work->kind = MW_OP_REDUCE_SCATTER;
}

/* The check of a step knows that gradients are summed up over all ranks: in a group, and then over
 * groups. */
static void
test_refused(void)
{
    static const change changes[] = {within_group, of_all, scatters};

    for (int s = MW_STRATEGY_ZERO1; s <= MW_STRATEGY_ZERO_OFFLOAD; s++)
        for (size_t c = 0; c <= G_N_ELEMENTS(changes); c++) {
            struct random_request request;
            g_autoptr(GPtrArray) found = NULL;
            char why[256] = "";
            draw(&request, (enum mw_strategy)s, GPUS);
            struct mw_plan *plan = mw_build_plan(size(&request, &found));
            struct mw_plan *copy = unchecked_plan_copy(plan);
            uint32_t replicas = comm_along(plan, MW_AXIS_RP);
            int changed = 0;
            for (uint32_t w = 0; w < copy->work_count && c < G_N_ELEMENTS(changes); w++)
                if (copy->works[w].comm == replicas && changed++ == 0)
                    changes[c](copy, &copy->works[w]);
            bool good = mw_plan_check(copy, why, sizeof why) &&
                        mw_plan_check_step(copy, false, why, sizeof why);
            g_assert_true(good == (c == G_N_ELEMENTS(changes)));
            g_assert_true(good || changed);
            mw_plan_free(copy);
            mw_plan_free(plan);
        }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/shard-group/one-group", test_one_group);
    g_test_add_func("/shard-group/volumes", test_volumes);
    g_test_add_func("/shard-group/memory", test_memory);
    g_test_add_func("/shard-group/times", test_times);
    g_test_add_func("/shard-group/refused", test_refused);
    return g_test_run();
}
