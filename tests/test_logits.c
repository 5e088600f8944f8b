/* Logits and loss in chunks of the tokens: the same work, one buffer, one fetch of the weight. */
#include <string.h>

#include "planner/planner.h"
#include "tests/hwprofile_helpers.h"

#define MODEL "llama-3-8b"

struct planned_logits {
    struct mw_profile *profile;
    struct mw_hardware hardware;
    struct mw_model model;
    struct mw_request request;
    struct mw_settings settings;
};

/* Parameters in host memory, so that all are fetched; the logits' weight in several parts. */
static void
set_up(struct planned_logits *p, const char *model, int64_t chunks)
{
    struct mw_settings asked;

    p->profile = mw_test_load("rtx4090");
    p->hardware = mw_hwprofile_read(p->profile, MW_OUTLOOK_TYPICAL);
    p->hardware.host_memory_bytes *= 4;
    p->hardware.host_largest_request_bytes *= 4;
    p->request = (struct mw_request){&p->model, &p->hardware};
    g_assert_true(mw_model_load(model, &p->model, NULL));
    mw_settings_init(&asked);
    asked.strategy = MW_STRATEGY_ZERO_INFINITY_CPU;
    asked.micro_batch = 2;
    asked.seq = 1024;
    asked.logits_chunks = chunks;
    for (int state = 0; state < MW_STATE_COUNT; state++)
        g_assert_true(mw_placement_parse("cpu", "", &asked.placement[state], NULL));
    g_assert_true(mw_settings_complete(&p->request, &asked, &p->settings, NULL));
}

static void
tear_down(struct planned_logits *p)
{
    mw_profile_free(p->profile);
}

static bool
is_chunked(const struct mw_plan *plan, const struct mw_op *op)
{
    const struct mw_work *work = &plan->works[op->work];

    return work->kind == MW_OP_COMPUTE &&
           (work->operator_ == MW_OPERATOR_LOGITS || work->operator_ == MW_OPERATOR_LOSS);
}

struct totals {
    int64_t flops, bytes;
    int fetches, gradients, ops;
};

static struct totals
sum_tail(const struct mw_plan *plan)
{
    struct totals totals = {0};

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        const struct mw_work *work = &plan->works[op->work];
        if (is_chunked(plan, op)) {
            totals.flops += work->flops;
            totals.bytes += work->bytes;
            totals.ops++;
        } else if (work->operator_ == MW_OPERATOR_LOGITS) {
            totals.fetches += work->kind == MW_OP_H2D;
            totals.gradients += work->kind == MW_OP_D2H;
        }
    }
    return totals;
}

static struct mw_plan *
plan_of(struct planned_logits *p)
{
    struct mw_sizing *sizing = mw_sizing_new(&p->model, &p->hardware, &p->settings, NULL);

    g_assert_true(sizing->fits);
    g_assert_cmpint(sizing->ledger[MW_TIER_GPU][MW_PURPOSE_LOGITS], ==,
                    6 * p->model.vocab * (2048 / p->settings.logits_chunks));
    g_assert_cmpint(mw_sizing_logits_parts(sizing), ==, 5);
    struct mw_plan *plan = mw_build_plan(sizing);
    mw_sizing_free(sizing);
    return plan;
}

static void
test_same_work(void)
{
    struct planned_logits whole, cut;

    set_up(&whole, MODEL, 1);
    set_up(&cut, MODEL, 8);
    struct mw_plan *one = plan_of(&whole), *eight = plan_of(&cut);
    struct totals a = sum_tail(one), b = sum_tail(eight);
    g_assert_cmpint(b.ops, ==, 8 * a.ops);
    g_assert_cmpint(ABS(a.flops - b.flops), <, 100);
    g_assert_cmpint(ABS(a.bytes - b.bytes), <, 100);
    g_assert_cmpint(a.fetches, ==, 2 * 5);
    g_assert_cmpint(b.fetches, ==, 5);
    g_assert_cmpint(a.gradients, ==, 5);
    g_assert_cmpint(b.gradients, ==, 5);
    mw_plan_free(one);
    mw_plan_free(eight);
    tear_down(&whole);
    tear_down(&cut);
}

/* Forward products, loss, the loss's gradient, backward products; the buffer is defined once a
 * chunk.  The identity names the chunk. */
static void
test_order(void)
{
    struct planned_logits p;
    int at = 0;

    set_up(&p, MODEL, 4);
    struct mw_plan *plan = plan_of(&p);
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        if (!is_chunked(plan, op))
            continue;
        int step = at % 12, chunk = at / 12;
        bool loss = plan->works[op->work].operator_ == MW_OPERATOR_LOSS;
        g_assert_cmpint(loss, ==, step == 5 || step == 6);
        g_assert_cmpint(op->phase, ==, step < 6 ? MW_PHASE_FORWARD : MW_PHASE_BACKWARD);
        g_assert_cmpint(op->shard, ==, chunk);
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
            const struct mw_use *use = &plan->uses[u];
            if (plan->slots[use->slot].purpose == MW_PURPOSE_LOGITS)
                g_assert_cmpint(use->mode == MW_USE_DEFINE, ==, step == 0);
        }
        at++;
    }
    g_assert_cmpint(at, ==, 4 * 12);
    mw_plan_free(plan);
    tear_down(&p);
}

/* The final norm is no part of any chunk: it runs once forward and once backward. */
static void
test_norm_stays_whole(void)
{
    struct planned_logits p;
    int norms = 0;

    set_up(&p, MODEL, 4);
    struct mw_plan *plan = plan_of(&p);
    for (uint32_t o = 0; o < plan->op_count; o++)
        norms += plan->works[plan->ops[o].work].operator_ == MW_OPERATOR_FINAL_NORM;
    g_assert_cmpint(norms, ==, 2);
    mw_plan_free(plan);
    tear_down(&p);
}

/* By itself: one chunk where it fits, else a power of two of which half would not fit. */
static void
test_as_few_as_fit(void)
{
    struct planned_logits p;
    int cut = 0;

    set_up(&p, "gpt2-xl", MW_AUTO);
    p.settings.tiles = 1;
    for (p.settings.micro_batch = 10; p.settings.micro_batch <= 150; p.settings.micro_batch += 20) {
        p.settings.logits_chunks = MW_AUTO;
        struct mw_sizing *sizing = mw_planner_size_placement(&p.request, &p.settings, NULL);
        int64_t chunks = sizing->settings.logits_chunks;
        g_assert_cmpint(chunks & (chunks - 1), ==, 0);
        cut += sizing->fits && chunks > 1;
        p.settings.logits_chunks = chunks / 2;
        struct mw_sizing *fewer = mw_sizing_new(&p.model, &p.hardware, &p.settings, NULL);
        g_assert_true(chunks == 1 || !sizing->fits || !fewer->fits);
        mw_sizing_free(fewer);
        mw_sizing_free(sizing);
    }
    g_assert_cmpint(cut, >, 2);
    tear_down(&p);
}

/* In one piece the logits of a vocabulary of 128K take more than the activations of a layer; in
 * chunks they leave the card to those. */
static void
test_largest_batch(void)
{
    struct planned_logits p;

    set_up(&p, MODEL, 1);
    double whole = mw_planner_largest_batch(&p.request, &p.settings);
    p.settings.logits_chunks = MW_AUTO;
    double open = mw_planner_largest_batch(&p.request, &p.settings);
    g_assert_cmpfloat(open, >, 2 * whole);
    p.settings.micro_batch = open;
    struct mw_sizing *sizing = mw_planner_size_placement(&p.request, &p.settings, NULL);
    g_assert_cmpint(sizing->ledger[MW_TIER_GPU][MW_PURPOSE_LOGITS], <,
                    sizing->ledger[MW_TIER_GPU][MW_PURPOSE_ACTIVATIONS] / 4);
    mw_sizing_free(sizing);
    tear_down(&p);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/logits/same-work", test_same_work);
    g_test_add_func("/logits/order", test_order);
    g_test_add_func("/logits/norm-stays-whole", test_norm_stays_whole);
    g_test_add_func("/logits/as-few-as-fit", test_as_few_as_fit);
    g_test_add_func("/logits/largest-batch", test_largest_batch);
    return g_test_run();
}
