#include "tests/random_plan.h"

#define LANES_A_RANK 3

static void
add_works(GRand *random, struct mw_plan *plan, uint32_t channels)
{
    int works = g_rand_int_range(random, 1, 9);

    for (int w = 0; w < works; w++) {
        bool writes = g_rand_boolean(random);
        struct mw_work work = {.kind = writes ? MW_OP_NVME_WRITE : MW_OP_NVME_READ,
                               .comm = MW_NONE};
        struct mw_draw draws[4];

        work.bytes = g_rand_int_range(random, 0, 100);
        uint32_t count = (uint32_t)g_rand_int_range(random, 0, 4);

        for (uint32_t i = 0; i < count; i++)
            draws[i] =
                (struct mw_draw){(uint32_t)g_rand_int_range(random, 0, (gint32)channels), 1, 1};
        mw_plan_add_work(plan, work, draws, count);
    }
}

static void
add_deps(GRand *random, struct mw_plan *plan, uint32_t before, uint32_t ops)
{
    int count = g_rand_int_range(random, 0, 4);

    for (int i = 0; i < count; i++) {
        if (g_rand_int_range(random, 0, 5) == 0)
            mw_plan_add_dep(plan, (uint32_t)g_rand_int_range(random, 0, (gint32)ops) |
                                      MW_DEP_PREVIOUS_STEP);
        else if (before > 0)
            mw_plan_add_dep(plan, (uint32_t)g_rand_int_range(random, 0, (gint32)before));
    }
}

/* One op, or one for every rank that are a match; they wait only for ops before all of them. */
static void
add_ops(GRand *random, struct mw_plan *plan, uint32_t ops)
{
    uint32_t before = plan->op_count;
    bool match = plan->program_count > 1 && g_rand_int_range(random, 0, 4) == 0;
    uint32_t lane = (uint32_t)g_rand_int_range(random, 0, LANES_A_RANK);
    uint32_t first = match ? 0 : (uint32_t)g_rand_int_range(random, 0, (gint32)plan->program_count);
    uint32_t last = match ? plan->program_count : first + 1;

    for (uint32_t rank = first; rank < last && plan->op_count < ops; rank++) {
        struct mw_op op = {.work = (uint32_t)g_rand_int_range(random, 0, (gint32)plan->work_count),
                           .lane = (uint16_t)(rank * LANES_A_RANK + lane),
                           .match = match ? before : MW_NONE};

        mw_plan_add_op(plan, op);
        add_deps(random, plan, before, ops);
    }
}

struct mw_plan *
random_plan(GRand *random)
{
    struct mw_plan *plan = mw_plan_new("random");
    uint32_t channels = (uint32_t)g_rand_int_range(random, 1, 5);
    uint32_t ops = (uint32_t)g_rand_int_range(random, 1, 25);

    uint32_t ranks = (uint32_t)g_rand_int_range(random, 1, 4);
    mw_plan_set_world(plan, ranks, ranks, false);
    for (uint32_t i = 0; i < plan->program_count * LANES_A_RANK; i++) {
        struct mw_lane lane = {.program = i / LANES_A_RANK,
                               .kind = (uint8_t)(i % LANES_A_RANK),
                               .window_ops = (uint32_t)g_rand_int_range(random, 1, 5)};
        if (g_rand_boolean(random))
            lane.window_bytes = g_rand_int_range(random, 1, 300);
        mw_plan_add_lane(plan, lane);
    }
    for (uint32_t i = 0; i < channels; i++)
        mw_plan_add_channel(plan, (struct mw_channel){.kind = MW_CHANNEL_DRAM, .users = 1});
    add_works(random, plan, channels);
    while (plan->op_count < ops)
        add_ops(random, plan, ops);
    plan->checked = true;
    return plan;
}

static double
random_share(GRand *random)
{
    static const double round_shares[] = {1, 0.5, 0.25, 1.0 / 3};

    if (g_rand_boolean(random))
        return round_shares[g_rand_int_range(random, 0, G_N_ELEMENTS(round_shares))];
    return g_rand_double_range(random, 0.01, 1);
}

/* Both parts together are 1 or more; at times one of them is all. */
static struct mw_cost_mixed
random_mixed(GRand *random)
{
    struct mw_cost_mixed mixed;

    mixed.read = g_rand_int_range(random, 0, 4) ? g_rand_double_range(random, 0.1, 1) : 1;
    mixed.write = g_rand_int_range(random, 0, 4) ? 1 - mixed.read * g_rand_double(random) : 1;
    return mixed;
}

void
random_costs(GRand *random, const struct mw_plan *plan, struct mw_costs *costs)
{
    costs->work_ns = g_new(int64_t, plan->work_count);
    costs->lead_ns = g_new0(int64_t, plan->work_count);
    costs->draw_rate = g_new(double, plan->draw_count);
    costs->capacity = g_new(double, plan->channel_count);
    costs->one_way = g_new(double, plan->channel_count);
    costs->mixed = g_new0(struct mw_cost_mixed, plan->channel_count);
    for (uint32_t c = 0; c < plan->channel_count; c++) {
        costs->capacity[c] = g_rand_double_range(random, 1, 100);
        costs->one_way[c] =
            g_rand_int_range(random, 0, 3) == 0 ? g_rand_double_range(random, 0.5, 1) : 1;
        if (costs->one_way[c] == 1 && g_rand_int_range(random, 0, 3) == 0)
            costs->mixed[c] = random_mixed(random);
    }
    for (uint32_t w = 0; w < plan->work_count; w++) {
        const struct mw_work *work = &plan->works[w];

        costs->work_ns[w] =
            g_rand_int_range(random, 0, 8) ? g_rand_int_range(random, 1, 100000) : 0;
        if (g_rand_int_range(random, 0, 3) == 0)
            costs->lead_ns[w] = g_rand_int_range(random, 0, (gint32)costs->work_ns[w] + 1);
        for (uint32_t i = work->draw_begin; i < work->draw_begin + work->draw_count; i++)
            costs->draw_rate[i] = random_share(random) * costs->capacity[plan->draws[i].channel] *
                                  costs->one_way[plan->draws[i].channel] / work->draw_count;
    }
}
