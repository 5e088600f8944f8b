/* Updates by Muon, on plans of random requests: state, products, passes and what ranks gather, by
 * the sides of the matrices, apart from how the planner counts them. */
#include <string.h>

#include "plan/optimizers.h"
#include "tests/random_request.h"

#define PLANS 150

/* Multiplications and additions of the iteration's three products, one after the other (K. Jordan
 * et al., Muon, 2024: of X, of m rows and n columns, X X^T, its square, the product with X). */
static double
products_flops(double rows, double columns)
{
    double m = MIN(rows, columns), n = MAX(rows, columns), flops = 0;

    for (int step = 0; step < 5; step++) {
        flops += 2 * m * n * m;
        flops += 2 * m * m * m;
        flops += 2 * m * m * n;
    }
    return flops;
}

struct sums {
    double matrices, flops, kernels; /* elements; all layers, whole */
};

static void
add(struct sums *sums, double count, double rows, double columns)
{
    if (rows == 0 || columns == 0)
        return;
    sums->matrices += count * rows * columns;
    sums->flops += count * products_flops(rows, columns);
    sums->kernels += count * (2 + 15);
}

/* Of a decoder as the requests draw it. */
static struct sums
by_hand(const struct mw_model *m)
{
    double q = (double)(m->heads * m->head_dim), hidden = (double)m->hidden;
    double kv = (double)(m->kv_heads * m->head_dim);
    struct sums sums = {0};

    for (int64_t layer = 0; layer < m->layers; layer++) {
        add(&sums, 1, q, hidden);
        add(&sums, 2, kv, hidden);
        add(&sums, 1, hidden, q);
        if (m->experts && layer >= m->dense_layers) {
            add(&sums, 1, (double)m->experts, hidden);
            add(&sums, (double)(m->experts * m->mlp_matrices), (double)m->expert_ffn, hidden);
            add(&sums, (double)m->mlp_matrices, (double)m->shared_expert_ffn, hidden);
        } else {
            add(&sums, (double)m->mlp_matrices, (double)m->ffn, hidden);
        }
    }
    return sums;
}

static double
state_of(const struct mw_sizing *sizing)
{
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(sizing);
    double bytes = 0, elements = 0;

    for (uint32_t c = 0; c < sizing->chunk_count; c++) {
        bytes += (double)mw_optimizer_mixed_bytes(MW_OPTIMIZER_MUON, chunks[c].params,
                                                  chunks[c].matrix_params);
        elements += (double)chunks[c].params;
    }
    g_assert_cmpfloat(elements, ==, (double)sizing->shard_params);
    return bytes;
}

/* Each rank has a share of both kinds, and padding. */
static void
check_state(const struct mw_sizing *sizing, const struct sums *hand)
{
    double ranks = sizing->optimizer_partitioned ? (double)sizing->shards : 1;
    double others = (double)sizing->trained_params - hand->matrices;
    double least = (8 * hand->matrices + 12 * others) / ranks;
    double padding = (double)sizing->shard_params - (double)sizing->trained_params / ranks;

    g_assert_cmpfloat(state_of(sizing), >=, least - 1e-6 * least);
    g_assert_cmpfloat(state_of(sizing), <=, least + 12 * padding + 4.0 * sizing->tensor_count + 1);
}

static void
check_works(const struct mw_sizing *sizing, const struct mw_plan *plan, const struct sums *hand)
{
    double flops = 0, kernels = 0, gathered = 0, passes = 0, bytes = 0, updates = 0;
    bool gathers = sizing->optimizer_partitioned && sizing->shards > 1;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_work *work = &plan->works[plan->ops[i].work];
        double rounds = (double)mw_plan_op_rounds(plan, i);
        if (work->kind == MW_OP_ALL_GATHER && work->object == MW_OBJECT_STATE)
            gathered += rounds * (double)work->bytes;
        if (work->kind != MW_OP_UPDATE)
            continue;
        g_assert_false(work->host);
        flops += rounds * (double)work->flops;
        kernels += rounds * (double)work->launches;
        bytes += rounds * (double)work->bytes;
        updates += rounds;
    }
    passes = bytes - 2 * state_of(sizing) -
             2 * (double)sizing->element_bytes * (double)sizing->shard_params;
    double share = (double)sizing->shard_matrix_params;
    g_assert_cmpfloat_with_epsilon(flops, hand->flops, 1e-9 * hand->flops);
    g_assert_cmpfloat(kernels, ==, updates + hand->kernels);
    g_assert_cmpfloat(gathered, ==, gathers ? 2 * hand->matrices : 0);
    /* Of its share a rank writes the momentum and reads the result; of whole matrices it reads once
     * for the sum of squares, and reads and writes once. */
    g_assert_cmpfloat_with_epsilon(passes, 4 * share + 6 * hand->matrices, 16);
}

static void
test_by_hand(void)
{
    int plans = 0, gathering = 0, streaming = 0;

    for (guint32 seed = 0; plans < PLANS; seed++) {
        struct random_request request;

        random_request_init(&request, seed);
        request.settings.optimizer = MW_OPTIMIZER_MUON;
        request.settings.unfold = false;
        request.settings.drop_layers = NULL;
        memset(&request.settings.trained, 0, sizeof request.settings.trained);
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || sizing->pp > 1 || request.model.kv_lora)
            continue;
        struct sums hand = by_hand(&request.model);
        struct mw_plan *plan = mw_build_plan(sizing);
        check_state(sizing, &hand);
        check_works(sizing, plan, &hand);
        gathering += sizing->optimizer_partitioned && sizing->shards > 1;
        streaming += sizing->settings.placement[MW_STATE_OPTIMIZER].part[0].tier != MW_TIER_GPU;
        plans++;
        mw_plan_free(plan);
    }
    g_assert_cmpint(gathering, >, PLANS / 10);
    g_assert_cmpint(streaming, >, PLANS / 10);
}

/* An update that makes matrices orthogonal whose momentum was not gathered. */
static void
test_not_gathered(void)
{
    for (guint32 seed = 0;; seed++) {
        struct random_request request;

        random_request_init(&request, seed);
        request.settings.optimizer = MW_OPTIMIZER_MUON;
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || !sizing->optimizer_partitioned || sizing->shards == 1 || sizing->pp > 1)
            continue;
        struct mw_plan *plan = mw_build_plan(sizing), *copy = unchecked_plan_copy(plan);
        char why[400];
        if (!mw_plan_check_step(plan, false, why, sizeof why)) { /* of no model that runs */
            mw_plan_free(copy);
            mw_plan_free(plan);
            continue;
        }
        for (uint32_t w = 0; w < copy->work_count; w++)
            if (copy->works[w].kind == MW_OP_ALL_GATHER && copy->works[w].object == MW_OBJECT_STATE)
                copy->works[w].object = MW_OBJECT_NONE;
        g_assert_true(mw_plan_check(copy, why, sizeof why));
        g_assert_false(mw_plan_check_step(copy, false, why, sizeof why));
        g_assert_nonnull(strstr(why, "momentum is not gathered"));
        mw_plan_free(copy);
        mw_plan_free(plan);
        return;
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/muon/by-hand", test_by_hand);
    g_test_add_func("/muon/not-gathered", test_not_gathered);
    return g_test_run();
}
