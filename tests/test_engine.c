/* Rule, sharing, matches, steps and refusals of the event engine, each on a plan of a few ops. */
#include <glib.h>
#include <string.h>

#include "sim/engine.h"

struct scene {
    struct mw_plan *plan;
    GArray *work_ns, *lead_ns, *draw_rate, *capacity, *one_way;
    struct mw_cost_mixed *mixed; /* of each channel; NULL: none */
    struct mw_engine_result result;
    char why[200];
};

static struct scene
scene_new(void)
{
    struct scene scene = {.plan = mw_plan_new("scene")};

    scene.work_ns = g_array_new(FALSE, FALSE, sizeof(int64_t));
    scene.lead_ns = g_array_new(FALSE, FALSE, sizeof(int64_t));
    scene.draw_rate = g_array_new(FALSE, FALSE, sizeof(double));
    scene.capacity = g_array_new(FALSE, FALSE, sizeof(double));
    scene.one_way = g_array_new(FALSE, FALSE, sizeof(double));
    return scene;
}

static void
scene_clear(struct scene *scene)
{
    mw_engine_result_clear(&scene->result);
    mw_plan_free(scene->plan);
    g_array_unref(scene->work_ns);
    g_array_unref(scene->lead_ns);
    g_array_unref(scene->draw_rate);
    g_array_unref(scene->capacity);
    g_array_unref(scene->one_way);
}

static uint16_t
add_lane(struct scene *scene, uint32_t window_ops)
{
    struct mw_lane lane = {.kind = MW_LANE_H2D, .window_ops = window_ops};
    return (uint16_t)mw_plan_add_lane(scene->plan, lane);
}

static uint32_t
add_channel(struct scene *scene, double capacity, double one_way)
{
    g_array_append_val(scene->capacity, capacity);
    g_array_append_val(scene->one_way, one_way);
    return mw_plan_add_channel(scene->plan,
                               (struct mw_channel){.kind = MW_CHANNEL_DRAM, .users = 1});
}

struct pull {
    uint32_t channel;
    double rate;
};

static uint32_t
add_work(struct scene *scene, int64_t ns, const struct pull *pulls, uint32_t count)
{
    struct mw_work work = {.kind = MW_OP_COMPUTE, .comm = MW_NONE, .bytes = 100};
    struct mw_draw draws[8];

    g_assert_cmpuint(count, <=, G_N_ELEMENTS(draws));
    for (uint32_t i = 0; i < count; i++) {
        draws[i] = (struct mw_draw){pulls[i].channel, 1, 1};
        g_array_append_val(scene->draw_rate, pulls[i].rate);
    }
    const int64_t no_lead_ns = 0;
    g_array_append_val(scene->work_ns, ns);
    g_array_append_val(scene->lead_ns, no_lead_ns);
    return mw_plan_add_work(scene->plan, work, draws, count);
}

static uint32_t
add_plain_work(struct scene *scene, int64_t ns)
{
    return add_work(scene, ns, NULL, 0);
}

static uint32_t
add_op(struct scene *scene, uint16_t lane, uint32_t work)
{
    return mw_plan_add_op(scene->plan,
                          (struct mw_op){.lane = lane, .work = work, .match = MW_NONE});
}

/* An op of its own lane that draws `rate` from one channel. */
static uint32_t
add_user(struct scene *scene, uint32_t channel, int64_t ns, double rate)
{
    struct pull pull = {channel, rate};
    return add_op(scene, add_lane(scene, 1), add_work(scene, ns, &pull, 1));
}

static bool
run_steps(struct scene *scene, uint32_t steps)
{
    struct mw_costs costs = {.work_ns = (int64_t *)(void *)scene->work_ns->data,
                             .lead_ns = (int64_t *)(void *)scene->lead_ns->data,
                             .draw_rate = (double *)(void *)scene->draw_rate->data,
                             .capacity = (double *)(void *)scene->capacity->data,
                             .one_way = (double *)(void *)scene->one_way->data,
                             .mixed = scene->mixed};
    struct mw_engine_options options = {.steps = steps, .keep_timeline = true};

    scene->plan->checked = true;
    mw_engine_result_clear(&scene->result);
    return mw_engine_run(scene->plan, &costs, options, &scene->result, scene->why,
                         sizeof scene->why);
}

static void
assert_row(const struct scene *scene, uint32_t op, int64_t start_ns, int64_t end_ns)
{
    g_assert_cmpuint(op, <, scene->result.timeline.row_count);
    g_assert_cmpuint(scene->result.timeline.rows[op].op, ==, op);
    g_assert_cmpint(scene->result.timeline.rows[op].start_ns, ==, start_ns);
    g_assert_cmpint(scene->result.timeline.rows[op].end_ns, ==, end_ns);
}

static void
test_lane_order(void)
{
    struct scene scene = scene_new();
    uint16_t one = add_lane(&scene, 1), other = add_lane(&scene, 1);
    uint32_t slow = add_op(&scene, other, add_plain_work(&scene, 50));
    uint32_t held = add_op(&scene, one, add_plain_work(&scene, 10));
    uint32_t behind;

    mw_plan_add_dep(scene.plan, slow);
    behind = add_op(&scene, one, add_plain_work(&scene, 5));
    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, slow, 0, 50);
    assert_row(&scene, held, 50, 60);
    assert_row(&scene, behind, 60, 65); /* free to go at 0, but for the lane's order */
    g_assert_cmpint(scene.result.step_ns, ==, 65);
    g_assert_cmpint(scene.result.lane_busy_ns[one], ==, 15);
    g_assert_cmpint(scene.result.lane_busy_ns[other], ==, 50);
    g_assert_cmpuint(scene.result.ops_done, ==, 3);
    scene_clear(&scene);
}

static uint32_t
add_led_work(struct scene *scene, int64_t lead_ns, int64_t ns)
{
    uint32_t work = add_plain_work(scene, lead_ns + ns);

    g_array_index(scene->lead_ns, int64_t, work) = lead_ns;
    return work;
}

/* At the end of round LATE an op from before the section waits out its latency as long as one of
 * the section does at the end of the next round: these are two states, as behind it the first moves
 * less.  Rounds of the slower lane take LEAD_NS + SLOW_NS each. */
static void
test_rounds_behind_latency(void)
{
    enum { FIRST_NS = 10, SECOND_NS = 20, LEAD_NS = 25, SLOW_NS = 40, LATE = 3, ROUNDS = 50 };
    const int64_t round_ns = FIRST_NS + SECOND_NS, begin_ns = LATE * round_ns + FIRST_NS;
    struct scene scene = scene_new();
    uint16_t other = add_lane(&scene, 1), counted = add_lane(&scene, 1), led = add_lane(&scene, 1);
    uint32_t before = add_op(&scene, other, add_plain_work(&scene, begin_ns));

    add_op(&scene, led, add_led_work(&scene, LEAD_NS, round_ns - LEAD_NS));
    mw_plan_add_dep(scene.plan, before);
    uint32_t first = add_op(&scene, counted, add_plain_work(&scene, FIRST_NS));
    add_op(&scene, counted, add_plain_work(&scene, SECOND_NS));
    uint32_t slow = add_op(&scene, led, add_led_work(&scene, LEAD_NS, SLOW_NS));
    mw_plan_add_dep(scene.plan, first);
    mw_plan_add_section(scene.plan, (struct mw_section){.first_op = first,
                                                        .op_count = slow + 1 - first,
                                                        .rounds = ROUNDS,
                                                        .parent = MW_NONE,
                                                        .micro_batch_step = 1});
    scene.plan->dep_strides[scene.plan->ops[slow].dep_begin].by[0] =
        (int32_t)scene.plan->sections[0].span;
    g_assert_true(run_steps(&scene, 1));
    g_assert_cmpint(scene.result.rounds_skipped, >, 0);
    g_assert_cmpint(scene.result.step_ns, ==, begin_ns + round_ns + ROUNDS * (LEAD_NS + SLOW_NS));
    g_assert_cmpint(scene.result.lane_busy_ns[led], ==, round_ns + ROUNDS * (LEAD_NS + SLOW_NS));
    scene_clear(&scene);
}

static void
test_window_ops(void)
{
    struct scene scene = scene_new();
    uint16_t lane = add_lane(&scene, 2);
    uint32_t slow = add_op(&scene, lane, add_plain_work(&scene, 100));
    uint32_t quick = add_op(&scene, lane, add_plain_work(&scene, 10));
    uint32_t third = add_op(&scene, lane, add_plain_work(&scene, 20));
    uint32_t fourth = add_op(&scene, lane, add_plain_work(&scene, 80));

    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, slow, 0, 100);
    assert_row(&scene, quick, 100, 110);
    assert_row(&scene, third, 110, 130);
    assert_row(&scene, fourth, 130, 210);
    g_assert_cmpint(scene.result.lane_busy_ns[lane], ==, 210);
    scene_clear(&scene);
}

/* Every op takes 30, of which its latency takes 20: that passes while others are before it, as far
 * as the window lets the op start. */
static void
test_latency(void)
{
    static const struct {
        uint32_t window;
        int64_t end_ns[4];
    } rows[] = {
        {1, {30, 60, 90, 120}},
        {2, {30, 40, 60, 70}},
        {3, {30, 40, 50, 60}},
        {4, {30, 40, 50, 60}},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct scene scene = scene_new();
        uint16_t lane = add_lane(&scene, rows[i].window);
        uint32_t work = add_plain_work(&scene, 30);

        g_array_index(scene.lead_ns, int64_t, work) = 20;
        for (int op = 0; op < 4; op++)
            add_op(&scene, lane, work);
        g_assert_true(run_steps(&scene, 1));
        for (uint32_t op = 0; op < 4; op++)
            assert_row(&scene, op, op ? rows[i].end_ns[op - 1] : 0, rows[i].end_ns[op]);
        g_assert_cmpint(scene.result.lane_busy_ns[lane], ==, rows[i].end_ns[3]);
        scene_clear(&scene);
    }
}

/* An op draws once its latency has passed, in its turn: the channel is free until 20, then two
 * lanes share it. */
static void
test_latency_draws_nothing(void)
{
    struct scene scene = scene_new();
    uint32_t channel = add_channel(&scene, 1, 1);
    struct pull pull = {channel, 1};
    uint32_t late = add_work(&scene, 30, &pull, 1), now = add_work(&scene, 30, &pull, 1);

    g_array_index(scene.lead_ns, int64_t, late) = 20;
    uint32_t first = add_op(&scene, add_lane(&scene, 1), late);
    uint32_t second = add_op(&scene, add_lane(&scene, 1), now);
    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, first, 0, 40);
    assert_row(&scene, second, 0, 40);
    scene_clear(&scene);
}

static void
test_window_bytes(void)
{
    struct scene scene = scene_new();
    uint16_t lane = add_lane(&scene, 8);
    uint32_t work = add_plain_work(&scene, 10);

    g_array_index(scene.lead_ns, int64_t, work) = 10; /* passes at once for all that start */
    scene.plan->lanes[lane].window_bytes = 250;
    for (int i = 0; i < 3; i++)
        add_op(&scene, lane, work);
    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, 0, 0, 10);
    assert_row(&scene, 1, 10, 10);
    assert_row(&scene, 2, 10, 20);
    scene.plan->lanes[lane].window_bytes = 99; /* one op is always let in */
    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, 0, 0, 10);
    assert_row(&scene, 1, 10, 20);
    assert_row(&scene, 2, 20, 30);
    scene_clear(&scene);
}

static void
test_zero_duration(void)
{
    struct scene scene = scene_new();
    uint16_t lane = add_lane(&scene, 1);
    uint32_t nothing = add_plain_work(&scene, 0), some = add_plain_work(&scene, 7);

    add_op(&scene, lane, nothing);
    add_op(&scene, lane, some);
    for (uint32_t i = 2; i < 100; i++) {
        add_op(&scene, lane, nothing);
        mw_plan_add_dep(scene.plan, i - 1);
    }
    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, 0, 0, 0);
    assert_row(&scene, 1, 0, 7);
    assert_row(&scene, 99, 7, 7);
    scene_clear(&scene);
}

static void
test_equal_shares(void)
{
    struct scene scene = scene_new();
    uint32_t channel = add_channel(&scene, 10, 1);
    uint32_t a = add_user(&scene, channel, 100, 10), b = add_user(&scene, channel, 60, 10);

    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, b, 0, 120);
    assert_row(&scene, a, 0, 160); /* alone again for its last 40 */
    g_assert_cmpfloat_with_epsilon(scene.result.channel_busy_ns[channel], 160, 1e-6);
    g_assert_cmpuint(scene.result.reshares, ==, 2);
    scene_clear(&scene);
}

static void
test_small_demand_is_kept(void)
{
    struct scene scene = scene_new();
    uint32_t channel = add_channel(&scene, 10, 1);
    uint32_t small = add_user(&scene, channel, 1000, 2); /* less than a third of 10 */
    uint32_t a = add_user(&scene, channel, 100, 8), b = add_user(&scene, channel, 100, 10);

    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, small, 0, 1000);
    assert_row(&scene, a, 0, 200); /* 4 of 8 */
    assert_row(&scene, b, 0, 225); /* 4 of 10, then 8 of 10 */
    scene_clear(&scene);
}

static void
test_no_contention_no_work(void)
{
    struct scene scene = scene_new();
    uint32_t channel = add_channel(&scene, 9, 1);

    for (int i = 0; i < 3; i++)
        add_user(&scene, channel, 100, 3);
    g_assert_true(run_steps(&scene, 1));
    for (uint32_t i = 0; i < 3; i++)
        assert_row(&scene, i, 0, 100);
    g_assert_cmpuint(scene.result.reshares, ==, 0);
    scene_clear(&scene);
}

static void
test_many_channels(void)
{
    struct scene scene = scene_new();
    uint32_t narrow = add_channel(&scene, 1, 1), wide = add_channel(&scene, 10, 1);
    struct pull both[] = {{narrow, 1}, {wide, 5}};
    uint32_t a = add_op(&scene, add_lane(&scene, 1), add_work(&scene, 100, both, 2));
    uint32_t b = add_user(&scene, narrow, 100, 1), c = add_user(&scene, wide, 100, 10);

    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, a, 0, 200);
    assert_row(&scene, b, 0, 200);
    assert_row(&scene, c, 0, 134); /* all that a, held at 2.5 of its 5, leaves: 7.5 of 10 */
    scene_clear(&scene);
}

/* Each op is held by the channel of which it draws more, and leaves room on the other. */
static void
test_crossed_channels(void)
{
    struct scene scene = scene_new();
    uint32_t one = add_channel(&scene, 3, 1), two = add_channel(&scene, 3, 1);
    struct pull a_pulls[] = {{one, 1}, {two, 3}}, b_pulls[] = {{one, 3}, {two, 1}};
    uint32_t a = add_op(&scene, add_lane(&scene, 1), add_work(&scene, 1000, a_pulls, 2));
    uint32_t b = add_op(&scene, add_lane(&scene, 1), add_work(&scene, 1000, b_pulls, 2));

    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, a, 0, 1334); /* both at 3/4: 3/4 + 9/4 = 3 */
    assert_row(&scene, b, 0, 1334);
    scene_clear(&scene);
}

/* A collective that takes a tenth of the multiprocessors slows a compute op to nine tenths. */
static void
test_multiprocessors(void)
{
    struct scene scene = scene_new();
    uint32_t sm = add_channel(&scene, 1, 1);
    uint32_t compute = add_user(&scene, sm, 900, 1), collective = add_user(&scene, sm, 500, 0.1);

    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, collective, 0, 500);
    assert_row(&scene, compute, 0, 950); /* 450 done by 500 */
    scene_clear(&scene);
}

/* A drive that does 1.5 when read and written, and 1 in one direction. */
static void
test_one_way(void)
{
    struct scene scene = scene_new();
    uint32_t drive = add_channel(&scene, 1.5, 1 / 1.5);
    uint32_t a = add_user(&scene, drive, 100, 1), b = add_user(&scene, drive, 100, 1), c;

    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, a, 0, 200);
    assert_row(&scene, b, 0, 200);
    g_assert_cmpfloat_with_epsilon(scene.result.channel_busy_ns[drive], 200, 1e-6);
    scene.plan->checked = false;
    c = add_user(&scene, drive, 100, 1);
    scene.plan->works[2].kind = MW_OP_COMMIT; /* writes */
    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, c, 0, 200); /* three share 1.5 */
    assert_row(&scene, a, 0, 200);
    assert_row(&scene, b, 0, 200);
    scene_clear(&scene);
}

/* A drive of which reads keep 0.75 beside writes, and writes 0.35 beside reads. */
static void
test_mixed(void)
{
    struct scene scene = scene_new();
    uint32_t drive = add_channel(&scene, 1, 1);
    struct mw_cost_mixed mixed = {0.75, 0.35};
    uint32_t read = add_user(&scene, drive, 750, 1), write = add_user(&scene, drive, 700, 1);

    scene.plan->works[1].kind = MW_OP_COMMIT; /* writes */
    scene.mixed = &mixed;
    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, read, 0, 1000);
    assert_row(&scene, write, 0, 1350); /* 350 done by 1000, the rest alone */
    scene_clear(&scene);
}

/* A slow writer leaves reads what lies on the line; two readers together are as fast as one. */
static void
test_mixed_lines(void)
{
    struct scene scene = scene_new();
    uint32_t drive = add_channel(&scene, 1, 1);
    struct mw_cost_mixed mixed = {0.75, 0.5};
    uint32_t read = add_user(&scene, drive, 900, 1), write = add_user(&scene, drive, 1000, 0.2);

    scene.plan->works[1].kind = MW_OP_COMMIT; /* writes */
    scene.mixed = &mixed;
    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, read, 0, 1000); /* 1 - 0.2 (1 - 0.75)/0.5 */
    assert_row(&scene, write, 0, 1000);
    scene.plan->checked = false;
    scene.plan->works[1].kind = MW_OP_COMPUTE;
    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, read, 0, 1100); /* 0.2 of the drive goes to the other reader */
    scene_clear(&scene);
}

/* A lane's ops take turns: they share with other lanes, not with one another. */
static void
test_window_turns(void)
{
    struct scene scene = scene_new();
    uint32_t channel = add_channel(&scene, 1, 1);
    uint16_t lane = add_lane(&scene, 4);
    struct pull pull = {channel, 1};
    uint32_t work = add_work(&scene, 100, &pull, 1);

    for (int i = 0; i < 6; i++)
        add_op(&scene, lane, work);
    g_assert_true(run_steps(&scene, 1));
    for (uint32_t i = 0; i < 6; i++)
        assert_row(&scene, i, 100 * i, 100 * (i + 1));
    scene_clear(&scene);
}

/* A stream that never falls idle must not lose its nanoseconds to large numbers. */
static void
test_endless_stream(void)
{
    const int64_t ns = 1000000007;
    struct scene scene = scene_new();
    uint32_t channel = add_channel(&scene, 1, 1);
    uint16_t lanes[3], other = add_lane(&scene, 1);
    struct pull pull = {channel, 0.25};
    uint32_t work = add_work(&scene, ns, &pull, 1);

    for (int l = 0; l < 3; l++)
        lanes[l] = add_lane(&scene, 1);
    uint32_t wait = add_op(&scene, other, add_plain_work(&scene, 333));

    for (uint32_t i = 0; i < 3000; i++) {
        add_op(&scene, lanes[i % 3], work);
        if (i == 1 || i == 2)
            mw_plan_add_dep(scene.plan, wait);
    }
    g_assert_true(run_steps(&scene, 1));
    for (uint32_t i = 0; i < 3000; i++) {
        int64_t start_ns = i / 3 * ns + (i % 3 ? 333 : 0);
        assert_row(&scene, 1 + i, start_ns, start_ns + ns);
    }
    scene_clear(&scene);
}

static void
test_steady_state(void)
{
    struct scene scene = scene_new();
    uint16_t compute = add_lane(&scene, 1), host = add_lane(&scene, 1);
    uint32_t forward = add_op(&scene, compute, add_plain_work(&scene, 70));
    uint32_t update = add_op(&scene, host, add_plain_work(&scene, 100));

    mw_plan_add_dep(scene.plan, forward);
    g_assert_true(run_steps(&scene, 0)); /* the host is the bottleneck */
    g_assert_cmpint(scene.result.first_step_ns, ==, 170);
    g_assert_cmpint(scene.result.step_ns, ==, 100);
    g_assert_cmpuint(scene.result.ops_done, ==, 6);
    g_assert_cmpint(scene.result.lane_busy_ns[host], ==, 100);
    assert_row(&scene, forward, 170, 240); /* two steps in flight, no more */
    assert_row(&scene, update, 270, 370);
    g_assert_cmpuint(scene.result.timeline.rows[update].step, ==, 2);
    scene_clear(&scene);
}

static void
test_previous_step(void)
{
    struct scene scene = scene_new();
    uint16_t compute = add_lane(&scene, 1), host = add_lane(&scene, 1);
    uint32_t forward = add_op(&scene, compute, add_plain_work(&scene, 70));

    mw_plan_add_dep(scene.plan, 1 | MW_DEP_PREVIOUS_STEP);
    add_op(&scene, host, add_plain_work(&scene, 100));
    mw_plan_add_dep(scene.plan, forward);
    g_assert_true(run_steps(&scene, 4));
    g_assert_cmpint(scene.result.first_step_ns, ==, 170);
    g_assert_cmpint(scene.result.step_ns, ==, 170);
    assert_row(&scene, forward, 510, 580);
    scene.plan->barriered = true;
    g_assert_true(run_steps(&scene, 0));
    g_assert_cmpuint(scene.result.ops_done, ==, 2);
    g_assert_cmpint(scene.result.step_ns, ==, 170);
    scene_clear(&scene);
}

static uint32_t
add_member(struct scene *scene, uint16_t lane, uint32_t work, uint32_t match)
{
    return mw_plan_add_op(scene->plan, (struct mw_op){.lane = lane, .work = work, .match = match});
}

static void
test_match(void)
{
    struct scene scene = scene_new();
    uint16_t a = add_lane(&scene, 1), b = add_lane(&scene, 1);
    uint32_t channel = add_channel(&scene, 1, 1);
    struct pull pull = {channel, 1};
    uint32_t collective = add_work(&scene, 100, &pull, 1), slower = add_plain_work(&scene, 130);

    add_op(&scene, a, add_plain_work(&scene, 10));
    add_op(&scene, b, add_plain_work(&scene, 40));
    add_member(&scene, a, collective, 0);
    add_member(&scene, b, slower, 0);
    add_op(&scene, a, add_plain_work(&scene, 1));
    add_user(&scene, channel, 30, 1); /* not held up by the member that waits */
    g_assert_true(run_steps(&scene, 1));
    assert_row(&scene, 2, 10, 170);
    assert_row(&scene, 3, 40, 170);
    assert_row(&scene, 4, 170, 171);
    assert_row(&scene, 5, 0, 30);
    g_assert_cmpint(scene.result.lane_busy_ns[a], ==, 10 + 130 + 1);
    g_assert_true(run_steps(&scene, 5));
    g_assert_cmpint(scene.result.step_ns, ==, 170);
    scene_clear(&scene);
}

static void
assert_refused(struct scene *scene, uint32_t steps, const char *part)
{
    g_assert_false(run_steps(scene, steps));
    g_assert_nonnull(strstr(scene->why, part));
    g_assert_null(strchr(scene->why, '\n'));
    g_assert_null(scene->result.lane_busy_ns);
    g_assert_null(scene->result.timeline.rows);
}

static void
test_refusals(void)
{
    struct scene scene = scene_new();
    struct mw_costs costs = {0};
    uint16_t lane = add_lane(&scene, 2);
    uint32_t first = add_op(&scene, lane, add_plain_work(&scene, INT64_MAX / 8));

    g_assert_false(mw_engine_run(scene.plan, &costs, (struct mw_engine_options){0}, &scene.result,
                                 scene.why, sizeof scene.why));
    g_assert_nonnull(strstr(scene.why, "check"));
    g_assert_true(run_steps(&scene, 2));
    assert_refused(&scene, 3, "overflow");
    scene.plan->ops[first].match = 7;
    assert_refused(&scene, 1, "match");
    scene_clear(&scene);
}

static void
test_deadlock(void)
{
    struct scene scene = scene_new();
    uint16_t a = add_lane(&scene, 1), b = add_lane(&scene, 1);
    uint32_t work = add_plain_work(&scene, 10);

    add_member(&scene, a, work, 0);
    add_member(&scene, a, work, 1);
    add_member(&scene, b, work, 1);
    add_member(&scene, b, work, 0);
    assert_refused(&scene, 1, "deadlock");
    scene_clear(&scene);
}

static void
test_empty_plan(void)
{
    struct scene scene = scene_new();

    g_assert_true(run_steps(&scene, 0));
    g_assert_cmpint(scene.result.step_ns, ==, 0);
    g_assert_cmpuint(scene.result.ops_done, ==, 0);
    scene_clear(&scene);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/engine/lane-order", test_lane_order);
    g_test_add_func("/engine/window-ops", test_window_ops);
    g_test_add_func("/engine/window-bytes", test_window_bytes);
    g_test_add_func("/engine/latency", test_latency);
    g_test_add_func("/engine/latency-draws-nothing", test_latency_draws_nothing);
    g_test_add_func("/engine/zero-duration", test_zero_duration);
    g_test_add_func("/engine/equal-shares", test_equal_shares);
    g_test_add_func("/engine/small-demand-is-kept", test_small_demand_is_kept);
    g_test_add_func("/engine/no-contention-no-work", test_no_contention_no_work);
    g_test_add_func("/engine/many-channels", test_many_channels);
    g_test_add_func("/engine/crossed-channels", test_crossed_channels);
    g_test_add_func("/engine/multiprocessors", test_multiprocessors);
    g_test_add_func("/engine/one-way", test_one_way);
    g_test_add_func("/engine/mixed", test_mixed);
    g_test_add_func("/engine/mixed-lines", test_mixed_lines);
    g_test_add_func("/engine/window-turns", test_window_turns);
    g_test_add_func("/engine/endless-stream", test_endless_stream);
    g_test_add_func("/engine/steady-state", test_steady_state);
    g_test_add_func("/engine/rounds-behind-latency", test_rounds_behind_latency);
    g_test_add_func("/engine/previous-step", test_previous_step);
    g_test_add_func("/engine/match", test_match);
    g_test_add_func("/engine/refusals", test_refusals);
    g_test_add_func("/engine/deadlock", test_deadlock);
    g_test_add_func("/engine/empty-plan", test_empty_plan);
    return g_test_run();
}
