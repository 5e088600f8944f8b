/* Lanes: the rule on a real clock. */

#include "base/error.h"
#include "tests/mixer.h"

#define REQUESTS 150

static void
check_plan(const struct mw_plan *plan, guint32 seed)
{
    struct mixer mixer = mixer_new(plan, seed);

    mixer_check(&mixer, (struct mw_exec_backend){.run = mixer_run, .context = &mixer});
    mixer_clear(&mixer);
}

static void
test_planned(void)
{
    int ran = 0;

    for (guint32 seed = 0; ran < REQUESTS; seed++) {
        struct mw_plan *plan = mixer_plan(seed);
        if (!plan)
            continue;
        check_plan(plan, seed);
        mw_plan_free(plan);
        ran++;
    }
}

static void
test_folded(void)
{
    int ran = 0;

    for (guint32 seed = 0; ran < REQUESTS / 3; seed++) {
        struct mw_plan *plan = mixer_folded_plan(seed);
        if (!plan)
            continue;
        g_assert_cmpuint(plan->section_count, >, 0);
        check_plan(plan, seed);
        mw_plan_free(plan);
        ran++;
    }
}

/* --- failures -------------------------------------------------------------------------------- */

static bool
stop_after_second(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    if (step == 0)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "enough");
    return false;
}

/* A planned step ends with a commit after all its ops: with one op missing, none follows. */
static void
test_failing_op(void)
{
    int ran = 0;

    for (guint32 seed = 0; ran < REQUESTS; seed++) {
        struct mw_plan *plan = mixer_plan(seed);
        if (!plan)
            continue;
        struct mixer mixer = mixer_new(plan, seed);
        g_autoptr(GError) error = NULL;
        mixer.failing = mixer_hash(seed, 7) % plan->op_count;
        struct mw_exec_backend run = {.run = mixer_run, .context = &mixer};
        struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
        g_assert_false(mw_lanes_run(lanes, MIXER_STEPS, NULL, NULL, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_IO);
        g_assert_cmpint(mixer.after_failure, ==, 0);
        mw_lanes_free(lanes);
        mixer_clear(&mixer);
        mw_plan_free(plan);
        ran++;
    }
}

struct seated {
    struct mixer mixer;
    GThread *seats[MW_MAX_LANES_PER_RANK][MW_LANE_KIND_COUNT];
};

/* Each lane has the thread that it had in other plans. */
static enum mw_exec_outcome
run_seated(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct seated *seated = context;
    uint32_t lane = seated->mixer.plan->ops[op].lane;
    GThread **seat = &seated->seats[lane][seated->mixer.plan->lanes[lane].kind];

    g_assert_true(!*seat || *seat == g_thread_self());
    *seat = g_thread_self();
    return mixer_run(&seated->mixer, lanes, op, step, error);
}

static void
test_crew(void)
{
    struct mw_crew *crew = mw_crew_new();
    struct seated seated = {0};
    int ran = 0;

    for (guint32 seed = 0; ran < REQUESTS; seed++) {
        struct mw_plan *plan = mixer_plan(seed);
        if (!plan)
            continue;
        seated.mixer = mixer_new(plan, seed);
        struct mw_exec_backend run = {.run = run_seated, .context = &seated, .crew = crew};
        mixer_check(&seated.mixer, run);
        mixer_clear(&seated.mixer);
        mw_plan_free(plan);
        ran++;
    }
    mw_crew_free(crew);
    mw_crew_free(NULL);
}

static void
test_stopped_by_step(void)
{
    struct mw_plan *plan = NULL;

    for (guint32 seed = 0; !plan; seed++)
        plan = mixer_plan(seed);
    struct mixer mixer = mixer_new(plan, 1);
    g_autoptr(GError) error = NULL;
    struct mw_exec_backend run = {.run = mixer_run, .context = &mixer};
    struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
    g_assert_false(mw_lanes_run(lanes, 1000, stop_after_second, NULL, &error));
    g_assert_cmpstr(error->message, ==, "enough");
    /* and once more, from the start */
    g_assert_true(mw_lanes_run(lanes, 1, stop_after_second, NULL, NULL));
    mw_lanes_free(lanes);
    mixer_clear(&mixer);
    mw_plan_free(plan);
}

static void
test_unchecked(void)
{
    struct mw_plan *plan = mw_plan_new("unchecked");
    g_autoptr(GError) error = NULL;

    g_assert_null(mw_lanes_new(plan, (struct mw_exec_backend){.run = mixer_run}, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
    mw_plan_free(plan);
}

/* --- pending ops and windows ----------------------------------------------------------------- */

#define WIDE_OPS 64
#define WIDE_WINDOW 8
#define WIDE_BYTES 10
#define WIDE_WINDOW_BYTES 55 /* room for five of ten bytes */

struct pending {
    GAsyncQueue *started;
    gint in_flight, most, expected;
};

static enum mw_exec_outcome
start_op(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct pending *pending = context;
    int now = g_atomic_int_add(&pending->in_flight, 1) + 1;

    pending->most = MAX(pending->most, now); /* one lane: one thread */
    g_async_queue_push(pending->started, GUINT_TO_POINTER(step * WIDE_OPS + op + 1));
    return MW_EXEC_PENDING;
}

/* Ends ops in pairs, the later one first. */
static gpointer
finish_ops(gpointer data)
{
    struct mw_lanes *lanes = ((gpointer *)data)[0];
    struct pending *pending = ((gpointer *)data)[1];

    while (g_atomic_int_get(&pending->in_flight) < pending->expected)
        g_usleep(100);                            /* a full window, once */
    for (int pair = 0; pair < WIDE_OPS; pair++) { /* two steps */
        guint ends[2];
        for (int i = 1; i >= 0; i--)
            ends[i] = GPOINTER_TO_UINT(g_async_queue_pop(pending->started)) - 1;
        g_usleep(100);
        for (int i = 0; i < 2; i++) {
            g_atomic_int_add(&pending->in_flight, -1);
            mw_lanes_done(lanes, ends[i] % WIDE_OPS, ends[i] / WIDE_OPS);
        }
    }
    return NULL;
}

static struct mw_plan *
wide_plan(int64_t window_bytes)
{
    struct mw_plan *plan = mw_plan_new("one wide lane");
    char why[200];

    mw_plan_add_lane(plan, (struct mw_lane){0, MW_LANE_NVME_READ, 0, WIDE_WINDOW, window_bytes});
    uint32_t work = mw_plan_add_work(
        plan, (struct mw_work){.kind = MW_OP_BEGIN, .comm = MW_NONE, .bytes = WIDE_BYTES}, NULL, 0);
    for (int i = 0; i < WIDE_OPS; i++)
        mw_plan_add_op(plan, (struct mw_op){.work = work, .layer = -1, .match = MW_NONE});
    if (!mw_plan_check(plan, why, sizeof why))
        g_error("%s", why);
    return plan;
}

static void
check_window(int64_t window_bytes, int expected)
{
    struct mw_plan *plan = wide_plan(window_bytes);
    struct pending pending = {g_async_queue_new(), 0, 0, expected};
    struct mw_exec_backend run = {.run = start_op, .context = &pending};
    struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
    gpointer data[] = {lanes, &pending};
    GThread *thread = g_thread_new("finisher", finish_ops, data);

    g_assert_true(mw_lanes_run(lanes, 2, NULL, NULL, NULL));
    g_thread_join(thread);
    g_assert_cmpint(pending.most, ==, expected);
    mw_lanes_free(lanes);
    g_async_queue_unref(pending.started);
    mw_plan_free(plan);
}

static void
test_windows(void)
{
    check_window(0, WIDE_WINDOW);
    check_window(WIDE_WINDOW_BYTES, WIDE_WINDOW_BYTES / WIDE_BYTES);
}

/* Two reads under way; the second is through first, and what depends on that waits for both. */
static enum mw_exec_outcome
end_backwards(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    if (op == 2)
        return MW_EXEC_DONE;
    if (op == 1) {
        mw_lanes_done(lanes, 1, step);
        g_usleep(1000);
        mw_lanes_done(lanes, 0, step);
    }
    return MW_EXEC_PENDING;
}

static bool
ended_in_order(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    const struct mw_timeline_row *rows = timeline->rows;

    g_assert_cmpint(rows[0].end_ns - rows[0].start_ns, >=, 1000000);
    g_assert_cmpint(rows[1].start_ns, ==, rows[0].end_ns);
    g_assert_cmpint(rows[1].end_ns, ==, rows[0].end_ns);
    g_assert_cmpint(rows[2].start_ns, >=, rows[0].end_ns);
    return true;
}

static void
test_order_of_ends(void)
{
    struct mw_plan *plan = mw_plan_new("two reads and what waits for the second");
    struct mw_exec_backend run = {.run = end_backwards};
    char why[200];

    mw_plan_add_lane(plan, (struct mw_lane){0, MW_LANE_NVME_READ, 0, 2, 0});
    mw_plan_add_lane(plan, (struct mw_lane){0, MW_LANE_HOST, 0, 1, 0});
    uint32_t work =
        mw_plan_add_work(plan, (struct mw_work){.kind = MW_OP_BEGIN, .comm = MW_NONE}, NULL, 0);
    for (uint32_t i = 0; i < 3; i++)
        mw_plan_add_op(plan,
                       (struct mw_op){.lane = i / 2, .work = work, .layer = -1, .match = MW_NONE});
    mw_plan_add_dep(plan, 1);
    if (!mw_plan_check(plan, why, sizeof why))
        g_error("%s", why);
    struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
    g_assert_true(mw_lanes_run(lanes, 3, ended_in_order, NULL, NULL));
    mw_lanes_free(lanes);
    mw_plan_free(plan);
}

/* --- what waits for others ------------------------------------------------------------------- */

/* The first op waits until it is told not to, the second fails. */
struct waiting {
    struct mw_lanes *lanes;
    gint begun;
};

static enum mw_exec_outcome
wait_or_fail(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct waiting *waiting = context;

    if (!op) {
        g_atomic_int_set(&waiting->begun, 1);
        return MW_EXEC_PENDING;
    }
    while (!g_atomic_int_get(&waiting->begun))
        g_usleep(10);
    g_set_error_literal(error, MW_ERROR, MW_ERROR_IO, "the first failure");
    return MW_EXEC_FAILED;
}

static void
stop_waiting(void *context)
{
    struct waiting *waiting = context;

    mw_lanes_fail(waiting->lanes, 0, 0, g_error_new(MW_ERROR, MW_ERROR_DEVICE, "what followed"));
}

static void
test_stop(void)
{
    struct mw_plan *plan = wide_plan(0);
    struct waiting waiting = {0};
    struct mw_exec_backend backend = {
        .run = wait_or_fail, .context = &waiting, .stop = stop_waiting};
    g_autoptr(GError) error = NULL;

    waiting.lanes = mw_lanes_new(plan, backend, NULL);
    g_assert_false(mw_lanes_run(waiting.lanes, 1, NULL, NULL, &error));
    g_assert_cmpstr(error->message, ==, "the first failure");
    mw_lanes_free(waiting.lanes);
    mw_plan_free(plan);
}

static enum mw_exec_outcome
wait_for_ever(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    (void)context;
    (void)lanes;
    (void)step;
    (void)error;
    return op ? MW_EXEC_DONE : MW_EXEC_PENDING;
}

/* When nothing has ended for as long as it is to be waited, that is a failure, and what is in
 * flight is told. */
static void
test_patience(void)
{
    struct mw_plan *plan = wide_plan(0);
    struct waiting waiting = {0};
    struct mw_exec_backend backend = {
        .run = wait_for_ever, .context = &waiting, .stop = stop_waiting, .patience_ns = 2000000000};
    g_autoptr(GError) error = NULL;

    waiting.lanes = mw_lanes_new(plan, backend, NULL);
    g_assert_false(mw_lanes_run(waiting.lanes, 1, NULL, NULL, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_DEVICE);
    g_assert_cmpstr(error->message, ==,
                    "no op has ended for 2 s; still running: begin; a device, a drive or a rank "
                    "hangs");
    mw_lanes_free(waiting.lanes);
    mw_plan_free(plan);
}

/* Every op says how long it has waited: all of its time, as far as it can know. */
struct waits {
    int64_t began_ns[WIDE_OPS], woke_ns[WIDE_OPS];
};

static enum mw_exec_outcome
wait_a_little(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct waits *waits = context;

    waits->began_ns[op] = mixer_clock_ns();
    g_usleep(200);
    waits->woke_ns[op] = mixer_clock_ns();
    mw_lanes_add_wait(lanes, op, step, waits->woke_ns[op] - waits->began_ns[op]);
    return MW_EXEC_DONE;
}

static bool
check_waits(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    const struct waits *waits = data;

    for (uint32_t op = 1; op < WIDE_OPS; op++) {
        const struct mw_timeline_row *row = &timeline->rows[op];
        int64_t waited = waits->woke_ns[op] - waits->began_ns[op];
        g_assert_cmpint(row->start_ns - timeline->rows[op - 1].end_ns, >=, waited);
        g_assert_cmpint(row->end_ns, >=, row->start_ns);
    }
    return true;
}

static void
test_waited(void)
{
    struct mw_plan *plan = wide_plan(0);
    struct waits waits;
    struct mw_exec_backend backend = {.run = wait_a_little, .context = &waits};
    struct mw_lanes *lanes = mw_lanes_new(plan, backend, NULL);

    g_assert_true(mw_lanes_run(lanes, 1, check_waits, &waits, NULL));
    mw_lanes_free(lanes);
    mw_plan_free(plan);
}

/* --- a caller that keeps its steps --- */

#define KEPT_US 3000

struct kept {
    struct mw_lanes *lanes;
    int64_t let_in_ns;
};

static bool
keep_long(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    struct kept *kept = data;
    int64_t let_in_ns = mw_lanes_let_in_ns(kept->lanes, step);

    g_assert_cmpint(let_in_ns, >=, step < 2 ? 0 : kept->let_in_ns + KEPT_US * INT64_C(1000));
    g_assert_cmpint(let_in_ns > 0, ==, step > 1);
    for (size_t i = 0; i < timeline->row_count; i++)
        g_assert_cmpint(timeline->rows[i].start_ns, >=, let_in_ns);
    kept->let_in_ns = let_in_ns;
    g_usleep(KEPT_US);
    return true;
}

/* Steps that it keeps hold those behind them, which know until when; so in a second run. */
static void
test_let_in(void)
{
    struct mw_plan *plan = NULL;

    for (guint32 seed = 0; !plan; seed++)
        plan = mixer_plan(seed);
    struct mixer mixer = mixer_new(plan, 1);
    struct kept kept = {0};
    kept.lanes =
        mw_lanes_new(plan, (struct mw_exec_backend){.run = mixer_run, .context = &mixer}, NULL);
    for (int run = 0; run < 2; run++)
        g_assert_true(mw_lanes_run(kept.lanes, 8, keep_long, &kept, NULL));
    mw_lanes_free(kept.lanes);
    mixer_clear(&mixer);
    mw_plan_free(plan);
}

/* --- the end before the last step ------------------------------------------------------------ */

struct ending {
    struct mixer mixer;
    uint32_t last;
    gint beyond, steps;
};

static enum mw_exec_outcome
end_at_commit(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct ending *ending = context;
    const struct mw_plan *plan = ending->mixer.plan;

    if (step > ending->last)
        g_atomic_int_inc(&ending->beyond);
    if (step == 1 && plan->works[plan->ops[op].work].kind == MW_OP_COMMIT)
        mw_lanes_end_with(lanes, ending->last);
    return mixer_run(&ending->mixer, lanes, op, step, error);
}

static bool
count_step(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    struct ending *ending = data;

    ending->steps++;
    return true;
}

/* In the second step it turns out to be the last; of a plan that lets two overlap the third is. */
static void
test_end_early(void)
{
    int ran[2] = {0};

    for (guint32 seed = 0; ran[0] + ran[1] < REQUESTS; seed++) {
        struct mw_plan *plan = mixer_plan(seed);
        if (!plan)
            continue;
        struct ending ending = {.mixer = mixer_new(plan, seed), .last = 1 + !plan->barriered};
        ending.mixer.failing = MW_NONE;
        struct mw_exec_backend run = {.run = end_at_commit, .context = &ending};
        struct mw_lanes *lanes = mw_lanes_new(plan, run, NULL);
        g_assert_true(mw_lanes_run(lanes, 1000, count_step, &ending, NULL));
        g_assert_cmpint(ending.steps, ==, ending.last + 1);
        g_assert_cmpint(ending.beyond, ==, 0);
        /* and where it is the last anyway */
        g_assert_true(mw_lanes_run(lanes, 1, count_step, &ending, NULL));
        g_assert_cmpint(ending.steps, ==, ending.last + 2);
        mw_lanes_free(lanes);
        mixer_clear(&ending.mixer);
        ran[plan->barriered]++;
        mw_plan_free(plan);
    }
    g_assert_cmpint(ran[1], >, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/lanes/crew", test_crew);
    g_test_add_func("/lanes/planned", test_planned);
    g_test_add_func("/lanes/folded", test_folded);
    g_test_add_func("/lanes/failing-op", test_failing_op);
    g_test_add_func("/lanes/stopped-by-step", test_stopped_by_step);
    g_test_add_func("/lanes/end-early", test_end_early);
    g_test_add_func("/lanes/unchecked", test_unchecked);
    g_test_add_func("/lanes/windows", test_windows);
    g_test_add_func("/lanes/order-of-ends", test_order_of_ends);
    g_test_add_func("/lanes/stop", test_stop);
    g_test_add_func("/lanes/patience", test_patience);
    g_test_add_func("/lanes/waited", test_waited);
    g_test_add_func("/lanes/let-in", test_let_in);
    return g_test_run();
}
