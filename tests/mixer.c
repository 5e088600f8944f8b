#include "tests/mixer.h"

#include <string.h>
#include <time.h>

#include "base/error.h"
#include "tests/random_request.h"

guint64
mixer_hash(guint64 a, guint64 b)
{
    guint64 x = (a ^ b) * G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

void
mixer_mix(struct mixer *mixer, uint32_t index, uint32_t step)
{
    const struct mw_op op = mw_plan_numbered_op(mixer->plan, index);
    guint64 value = mixer_hash(index + 1, step + 1);

    for (uint32_t i = 0; i < op.use_count; i++) {
        struct mw_use use = mw_plan_op_use(mixer->plan, &op, i);
        if (use.mode != MW_USE_DEFINE)
            value = mixer_hash(value, mixer->content[use.slot]);
    }
    for (uint32_t i = 0; i < op.use_count; i++) {
        struct mw_use use = mw_plan_op_use(mixer->plan, &op, i);
        if (use.mode != MW_USE_READ)
            mixer->content[use.slot] = mixer_hash(value, i);
    }
}

enum mw_exec_outcome
mixer_run(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct mixer *mixer = context;

    if (mixer_hash(mixer_hash(op, step), mixer->seed) % 16 == 0)
        g_usleep(20);
    if (op == mixer->failing && step == 1) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "op %u: broken", op);
        return MW_EXEC_FAILED;
    }
    if (step > 1 && mixer->failing != MW_NONE)
        g_atomic_int_inc(&mixer->after_failure);
    mixer_mix(mixer, op, step);
    return MW_EXEC_DONE;
}

struct mixer
mixer_new(const struct mw_plan *plan, guint32 seed)
{
    return (struct mixer){plan, g_new0(guint64, plan->slot_count + 1), seed, MW_NONE, 0};
}

void
mixer_clear(struct mixer *mixer)
{
    g_free(mixer->content);
}

int64_t
mixer_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* --- the rule, from the rows ----------------------------------------------------------------- */

struct record {
    const struct mw_plan *plan;
    uint32_t op_count;            /* of the unfolded plan */
    struct mw_timeline_row *rows; /* [MIXER_STEPS][op_count] */
    uint32_t steps;
};

static bool
keep_step(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    struct record *record = data;

    g_assert_cmpuint(step, ==, record->steps++);
    g_assert_cmpuint(timeline->row_count, ==, record->op_count);
    memcpy(record->rows + (size_t)step * record->op_count, timeline->rows,
           timeline->row_count * sizeof *timeline->rows);
    return true;
}

static const struct mw_timeline_row *
row_of(const struct record *record, uint32_t step, uint32_t op)
{
    return &record->rows[(size_t)step * record->op_count + op];
}

static void
check_dependencies(const struct record *record, uint32_t step, uint32_t op)
{
    const struct mw_op planned = mw_plan_numbered_op(record->plan, op);
    const struct mw_timeline_row *row = row_of(record, step, op);
    struct mw_op_place place = {row->op, {row->round[0], row->round[1]}};

    g_assert_cmpint(mw_plan_unfolded_number(record->plan, place), ==, op);
    g_assert_cmpuint(row->step, ==, step);
    g_assert_cmpint(row->start_ns, <=, row->end_ns);
    for (uint32_t i = 0; i < planned.dep_count; i++) {
        uint32_t dep = mw_plan_op_dep(record->plan, &planned, i);
        bool previous = dep & MW_DEP_PREVIOUS_STEP;
        if (!previous || step)
            g_assert_cmpint(row_of(record, step - previous, MW_DEP_INDEX(dep))->end_ns, <=,
                            row->start_ns);
    }
}

/* All planned lanes have a window of one op. */
static void
check_rows(const struct record *record)
{
    g_autofree int64_t *lane_end = g_new0(int64_t, record->plan->lane_count);

    for (uint32_t step = 0; step < record->steps; step++)
        for (uint32_t op = 0; op < record->op_count; op++) {
            uint32_t lane = mw_plan_numbered_op(record->plan, op).lane;
            check_dependencies(record, step, op);
            g_assert_cmpint(row_of(record, step, op)->start_ns, >=, lane_end[lane]);
            lane_end[lane] = row_of(record, step, op)->end_ns;
        }
}

void
mixer_check(struct mixer *mixer, struct mw_exec_backend backend)
{
    const struct mw_plan *plan = mixer->plan;
    struct mixer alone = mixer_new(plan, mixer->seed);
    uint32_t ops = (uint32_t)mw_plan_unfolded_ops(plan);
    struct record record = {plan, ops, g_new0(struct mw_timeline_row, (size_t)MIXER_STEPS * ops),
                            0};
    g_autoptr(GError) error = NULL;
    struct mw_lanes *lanes = mw_lanes_new(plan, backend, &error);

    g_assert_no_error(error);
    g_assert_true(mw_lanes_run(lanes, MIXER_STEPS, keep_step, &record, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(record.steps, ==, MIXER_STEPS);
    check_rows(&record);
    for (uint32_t step = 0; step < MIXER_STEPS; step++)
        for (uint32_t op = 0; op < ops; op++)
            mixer_mix(&alone, op, step);
    g_assert_cmpmem(mixer->content, plan->slot_count * sizeof *mixer->content, alone.content,
                    plan->slot_count * sizeof *alone.content);
    mw_lanes_free(lanes);
    mixer_clear(&alone);
    g_free(record.rows);
}

/* --- plans ----------------------------------------------------------------------------------- */

struct mw_plan *
mixer_plan(guint32 seed)
{
    struct random_request request;
    g_autoptr(GError) error = NULL;

    random_request_init(&request, seed);
    request.settings.unfold = false;
    g_autoptr(GPtrArray) found = random_request_candidates(&request, &error);
    if (!found || !((struct mw_sizing *)found->pdata[0])->fits)
        return NULL;
    struct mw_plan *plan = mw_build_plan(found->pdata[0]);
    if (plan->op_count < 2000)
        return plan;
    mw_plan_free(plan);
    return NULL;
}

struct mw_plan *
mixer_folded_plan(guint32 seed)
{
    struct random_request request;
    g_autoptr(GPtrArray) found = NULL;

    random_request_init(&request, seed);
    request.settings.unfold = false;
    request.settings.global_batch = MW_AUTO;
    request.settings.grad_accum = 12 + seed % 20;
    const struct mw_sizing *sizing = random_request_fitting(&request, &found);
    if (!sizing || mw_sizing_op_count(sizing) > 8000)
        return NULL;
    return mw_build_plan_folded(sizing, (struct mw_folds){.micro_batches = true});
}
