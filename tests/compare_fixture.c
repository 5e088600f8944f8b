#include "tests/compare_fixture.h"

struct mw_plan *
compare_fixture_plan(void)
{
    static const struct mw_lane lanes[] = {{0, MW_LANE_COMPUTE, 0, 1, 0},
                                           {0, MW_LANE_NVME_READ, 0, 1, 0},
                                           {0, MW_LANE_NVME_WRITE, 0, 1, 0}};
    static const struct {
        uint8_t kind, object, operator_, lane, phase;
    } ops[OPS] = {
        [FORWARD] = {MW_OP_COMPUTE, MW_OBJECT_ACTIVATIONS, MW_OPERATOR_QKV, 0, MW_PHASE_FORWARD},
        [BACKWARD] = {MW_OP_COMPUTE, MW_OBJECT_ACTIVATIONS, MW_OPERATOR_QKV, 0, MW_PHASE_BACKWARD},
        [READ] = {MW_OP_NVME_READ, MW_OBJECT_STATE, MW_OPERATOR_NONE, 1, MW_PHASE_OPTIMIZER},
        [WRITE] = {MW_OP_NVME_WRITE, MW_OBJECT_STATE, MW_OPERATOR_NONE, 2, MW_PHASE_OPTIMIZER},
    };
    struct mw_plan *plan = mw_plan_new("four ops");
    char why[200];

    for (size_t i = 0; i < G_N_ELEMENTS(lanes); i++)
        mw_plan_add_lane(plan, lanes[i]);
    for (uint32_t i = 0; i < OPS; i++) {
        uint32_t work = mw_plan_add_work(plan,
                                         (struct mw_work){.kind = ops[i].kind,
                                                          .object = ops[i].object,
                                                          .operator_ = ops[i].operator_,
                                                          .comm = MW_NONE},
                                         NULL, 0);
        mw_plan_add_op(plan, (struct mw_op){.work = work,
                                            .lane = ops[i].lane,
                                            .phase = ops[i].phase,
                                            .layer = -1,
                                            .match = MW_NONE});
        if (i == BACKWARD || i == WRITE)
            mw_plan_add_dep(plan, i - 1);
    }
    if (!mw_plan_check(plan, why, sizeof why))
        g_error("%s", why);
    return plan;
}

void
compare_fixture_rows(struct mw_timeline_row *rows, uint32_t step, int64_t begin_ns,
                     int64_t forward_ms)
{
    int64_t turn = begin_ns + forward_ms * MS, end = turn + 20 * MS;

    rows[FORWARD] =
        (struct mw_timeline_row){.op = FORWARD, .step = step, .start_ns = begin_ns, .end_ns = turn};
    rows[BACKWARD] =
        (struct mw_timeline_row){.op = BACKWARD, .step = step, .start_ns = turn, .end_ns = end};
    rows[READ] = (struct mw_timeline_row){
        .op = READ, .step = step, .start_ns = end - 10 * MS, .end_ns = end - 5 * MS};
    rows[WRITE] = (struct mw_timeline_row){
        .op = WRITE, .step = step, .start_ns = end + MS, .end_ns = end + 9 * MS};
}

struct mw_measured *
compare_fixture_measured(const int64_t *forward_ms, uint32_t count)
{
    struct mw_measured *measured = mw_measured_new(OPS);
    int64_t begin_ns = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct mw_timeline_row rows[OPS];
        compare_fixture_rows(rows, i, begin_ns, forward_ms[i]);
        mw_measured_add(measured, &(struct mw_timeline){rows, OPS});
        begin_ns = rows[WRITE].end_ns + MS;
    }
    return measured;
}
