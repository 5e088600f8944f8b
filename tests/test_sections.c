/* Repetition said once: a plan with sections is the flat plan of the same step, and the engine,
 * which skips rounds that repeat, gives the flat plan's times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/check.h"
#include "plan/clock.h"
#include "plan/optimizers.h"
#include "sim/engine.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define REQUESTS MW_CASES(400)
#define OPS_MAX 60000

/* --- the same plan --------------------------------------------------------------------------- */

static void
assert_same_op(const struct mw_plan *a, const struct mw_plan *b, uint32_t index)
{
    const struct mw_op *x = &a->ops[index], *y = &b->ops[index];

    g_assert_cmpuint(x->work, ==, y->work);
    g_assert_cmpuint(x->lane, ==, y->lane);
    g_assert_cmpuint(x->phase, ==, y->phase);
    g_assert_cmpint(x->layer, ==, y->layer);
    g_assert_cmpuint(x->micro_batch, ==, y->micro_batch);
    g_assert_cmpuint(x->tile, ==, y->tile);
    g_assert_cmpuint(x->shard, ==, y->shard);
    g_assert_cmpuint(x->match, ==, y->match);
    g_assert_cmpuint(x->dep_count, ==, y->dep_count);
    g_assert_cmpuint(x->use_count, ==, y->use_count);
    for (uint32_t i = 0; i < x->dep_count; i++)
        g_assert_cmpuint(a->deps[x->dep_begin + i], ==, b->deps[y->dep_begin + i]);
    for (uint32_t i = 0; i < x->use_count; i++) {
        g_assert_cmpuint(a->uses[x->use_begin + i].slot, ==, b->uses[y->use_begin + i].slot);
        g_assert_cmpuint(a->uses[x->use_begin + i].mode, ==, b->uses[y->use_begin + i].mode);
        g_assert_cmpuint(a->uses[x->use_begin + i].role, ==, b->uses[y->use_begin + i].role);
    }
}

/* Also where it is of all layers together. */
static void
assert_same_work(const struct mw_plan *a, const struct mw_plan *b, uint32_t index)
{
    const struct mw_work *x = &a->works[index], *y = &b->works[index];

    g_assert_cmpuint(x->kind, ==, y->kind);
    g_assert_cmpuint(x->object, ==, y->object);
    g_assert_cmpuint(x->operator_, ==, y->operator_);
    g_assert_cmpuint(x->dtype, ==, y->dtype);
    g_assert_cmpuint(x->comm, ==, y->comm);
    g_assert_cmpint(x->flops, ==, y->flops);
    g_assert_cmpint(x->bytes, ==, y->bytes);
    g_assert_cmpint(x->coded_bytes, ==, y->coded_bytes);
    g_assert_cmpint(x->elements, ==, y->elements);
    g_assert_cmpuint(x->launches, ==, y->launches);
    g_assert_cmpuint(x->draw_count, ==, y->draw_count);
    for (uint32_t i = 0; i < x->draw_count; i++) {
        const struct mw_draw *one = &a->draws[x->draw_begin + i];
        const struct mw_draw *other = &b->draws[y->draw_begin + i];
        g_assert_cmpuint(one->channel, ==, other->channel);
        g_assert_cmpuint(one->ranks, ==, other->ranks);
        g_assert_cmpint(one->amount, ==, other->amount);
    }
}

static void
assert_same_plan(const struct mw_plan *a, const struct mw_plan *b)
{
    g_assert_cmpuint(a->op_count, ==, b->op_count);
    g_assert_cmpuint(a->work_count, ==, b->work_count);
    g_assert_cmpint(a->shape.micro_batches, ==, b->shape.micro_batches);
    for (uint32_t i = 0; i < a->work_count; i++)
        assert_same_work(a, b, i);
    for (uint32_t i = 0; i < a->op_count; i++)
        assert_same_op(a, b, i);
}

/* --- the same times -------------------------------------------------------------------------- */

struct run {
    struct mw_costs costs;
    struct mw_engine_result result;
};

static struct run
run_new(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    struct run run;
    char why[256] = "";

    mw_costs_init(&run.costs, plan, hardware);
    mw_engine_run(plan, &run.costs, (struct mw_engine_options){.keep_timeline = true}, &run.result,
                  why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    return run;
}

static void
run_clear(struct run *run)
{
    mw_engine_result_clear(&run->result);
    mw_costs_clear(&run->costs);
}

static void
assert_same_times(const struct mw_plan *plan, const struct run *folded, const struct run *flat)
{
    const struct mw_engine_result *a = &folded->result, *b = &flat->result;

    g_assert_cmpuint(a->ops_done, ==, b->ops_done);
    if (a->rounds_by_mean) {
        g_assert_cmpfloat(fabs((double)(a->step_ns - b->step_ns)), <=, 1e-3 * (double)b->step_ns);
        return;
    }
    g_assert_cmpint(a->step_ns, ==, b->step_ns);
    g_assert_cmpint(a->first_step_ns, ==, b->first_step_ns);
    for (uint32_t l = 0; l < plan->lane_count; l++)
        g_assert_cmpint(a->lane_busy_ns[l], ==, b->lane_busy_ns[l]);
    for (uint32_t c = 0; c < plan->channel_count; c++)
        g_assert_cmpfloat_with_epsilon(a->channel_busy_ns[c], b->channel_busy_ns[c],
                                       1e-9 * fabs(b->channel_busy_ns[c]) + 1e-9);
}

static char *
text_of(const struct mw_plan *plan)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    g_assert_true(mw_plan_write(plan, out));
    fclose(out);
    return text;
}

static void
assert_reads_back(const struct mw_plan *plan)
{
    char *text = text_of(plan), why[256] = "";
    struct mw_plan *again = mw_plan_parse(text, strlen(text), why, sizeof why);

    if (!again)
        g_error("a plan's own text is refused: %s", why);
    char *second = text_of(again);
    g_assert_cmpstr(text, ==, second);
    mw_plan_free(again);
    free(second);
    free(text);
}

/* Rows count as often as they came: what a lane is busy with, and how many ops there are. */
static void
assert_rows_are_all(const struct mw_plan *plan, const struct mw_engine_result *result)
{
    g_autofree int64_t *busy_ns = g_new0(int64_t, plan->lane_count);
    int64_t ops = 0;

    for (size_t i = 0; i < result->timeline.row_count; i++) {
        const struct mw_timeline_row *row = &result->timeline.rows[i];
        busy_ns[plan->ops[row->op].lane] += (1 + row->more) * (row->end_ns - row->start_ns);
        ops += 1 + row->more;
    }
    g_assert_cmpint(ops, ==, mw_plan_unfolded_ops(plan));
    for (uint32_t l = 0; l < plan->lane_count; l++)
        g_assert_cmpint(busy_ns[l], ==, result->lane_busy_ns[l]);
}

struct counts {
    int compared, ordered, folded, split, skipped, by_mean;
    int barriers, without; /* of plans with an edge less */
};

/* An order has the times of the flat plan.  Without slots, more can be folded. */
static bool
compare_order(const struct mw_sizing *sizing, struct mw_folds folds, const struct mw_plan *whole,
              const struct mw_hardware *hardware, const struct run *flat)
{
    struct mw_plan *order = mw_build_order(sizing, folds);

    if (!order)
        return false;
    g_assert_cmpuint(order->slot_count, ==, 0);
    g_assert_cmpint(mw_plan_unfolded_ops(order), ==, mw_sizing_op_count(sizing));
    g_assert_cmpint(order->barriered, ==, whole->barriered);
    struct run run = run_new(order, hardware);
    assert_same_times(order, &run, flat);
    run_clear(&run);
    mw_plan_free(order);
    return true;
}

/* Whether the commit is a barrier, by the clocks of mw_plan_check. */
static bool
has_barrier(const struct mw_plan *plan)
{
    g_autofree uint32_t *order = g_new(uint32_t, plan->op_count);
    struct mw_plan_barrier barrier = {MW_NONE};

    for (uint32_t i = 0; i < plan->op_count; i++)
        order[i] = i;
    struct mw_plan_clock *clock = mw_plan_clock_new(plan, order, 0, plan->op_count);
    bool has = mw_plan_finds_barrier(plan, clock, &barrier);
    mw_plan_clock_free(clock);
    return has;
}

#define EDGES_CUT 24

/* An order alone has a barrier where clocks find one, also where an edge is missing: mostly of the
 * last ops, which the commit waits for, and of the first ones. */
static void
compare_barriers(struct mw_plan *plan, struct counts *counts)
{
    uint32_t last = plan->op_count - 1;
    GRand *rand = g_rand_new_with_seed(plan->op_count);

    g_assert_cmpint(mw_plan_check_order_alone(plan), ==, has_barrier(plan));
    for (int i = 0; i < EDGES_CUT; i++) {
        int from = i % 2 ? (int)last - 2 : 1; /* the last ones, the first ones, any */
        int until = i % 4 == 2 ? 30 : (int)last + 1;
        uint32_t op =
            (uint32_t)g_rand_int_range(rand, MAX(1, from), MAX(2, MIN(until, (int)last + 1)));
        if (!plan->ops[op].dep_count)
            continue;
        uint32_t *dep = &plan->deps[plan->ops[op].dep_begin +
                                    (uint32_t)g_rand_int_range(rand, 0, plan->ops[op].dep_count)];
        uint32_t before = *dep;
        *dep = i % 3 ? 0 : op | MW_DEP_PREVIOUS_STEP; /* the begin op; or an edge to no commit */
        plan->checked = plan->barriered = false;
        bool has = has_barrier(plan);
        g_assert_cmpint(mw_plan_check_order_alone(plan), ==, has);
        g_assert_cmpint(plan->barriered, ==, has);
        *(has ? &counts->barriers : &counts->without) += 1;
        *dep = before;
    }
    g_rand_free(rand);
}

static void
compare_folded(const struct mw_plan *folded, const struct mw_plan *flat, const struct run *b,
               const struct mw_hardware *hardware, struct counts *counts)
{
    struct mw_plan *unfolded = mw_plan_unfold(folded);

    assert_same_plan(unfolded, flat);
    assert_reads_back(folded);
    for (int tier = 0; tier < MW_TIER_COUNT; tier++)
        g_assert_cmpint(folded->peak_bytes[tier], ==, flat->peak_bytes[tier]);
    g_assert_cmpint(folded->barriered, ==, flat->barriered);
    struct run a = run_new(folded, hardware);
    assert_same_times(flat, &a, b);
    if (!a.result.rounds_by_mean)
        assert_rows_are_all(folded, &a.result);
    counts->folded++;
    counts->skipped += a.result.rounds_skipped > 0;
    counts->by_mean += a.result.rounds_by_mean > 0;
    run_clear(&a);
    compare_barriers(unfolded, counts);
    mw_plan_free(unfolded);
}

/* Layers then live in several places. */
static bool
splits_a_state(const struct mw_settings *settings)
{
    for (int state = 0; state < MW_STATE_COUNT; state++)
        if (settings->placement[state].count > 1)
            return true;
    return false;
}

static void
compare(const struct mw_sizing *sizing, struct mw_folds folds, struct counts *counts)
{
    struct mw_plan *folded = mw_build_plan_folded(sizing, folds), *flat = mw_build_plan(sizing);
    struct mw_hardware hardware = *sizing->hardware;

    hardware.gradient_link_bytes = 4; /* as wide as sums, but not as what is added */
    struct run run = run_new(flat, &hardware);
    counts->compared++;
    bool ordered = compare_order(sizing, folds, flat, &hardware, &run);
    counts->ordered += ordered;
    g_assert_true(ordered || !folded);
    if (folded)
        compare_folded(folded, flat, &run, &hardware, counts);
    counts->split += folded && splits_a_state(&sizing->settings);
    run_clear(&run);
    mw_plan_free(folded);
    mw_plan_free(flat);
}

/* What sections can say. */
static void
ask_for_sections(struct random_request *request, guint32 seed)
{
    random_request_init(request, seed);
    request->settings.unfold = false;
    request->settings.layer_order = false; /* which no section says */
    request->settings.whole_checkpoints = false;
    request->settings.global_batch = MW_AUTO;
}

/* Many micro-batches. */
static void
ask_for_micro_batches(struct random_request *request, guint32 seed)
{
    ask_for_sections(request, seed);
    request->settings.grad_accum = 12 + seed % 400;
}

static void
test_random_requests(void)
{
    struct counts counts = {0};

    for (guint32 seed = 700000; counts.compared < REQUESTS; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;

        ask_for_micro_batches(&request, seed);
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || mw_sizing_op_count(sizing) > OPS_MAX)
            continue;
        random_request_name(&request);
        compare(sizing, (struct mw_folds){.micro_batches = true}, &counts);
    }
    g_test_message("%d compared, %d ordered, %d folded, %d skipped rounds, %d by the mean",
                   counts.compared, counts.ordered, counts.folded, counts.skipped, counts.by_mean);
    g_assert_cmpint(counts.folded, >=, counts.compared * 9 / 10);
    g_test_message("with an edge less %d barriers, %d without", counts.barriers, counts.without);
    g_assert_cmpint(counts.barriers, >=, counts.folded);
    g_assert_cmpint(counts.without, >=, counts.folded);
}

/* One request among very many whose folded plan once differed. */
static void
test_found(void)
{
    static const guint32 seeds[] = {31012771};

    for (size_t i = 0; i < G_N_ELEMENTS(seeds); i++) {
        struct counts counts = {0};
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;

        ask_for_micro_batches(&request, seeds[i]);
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        g_assert_nonnull(sizing);
        random_request_name(&request);
        compare(sizing, (struct mw_folds){.micro_batches = true}, &counts);
    }
}

/* Many layers, with what a section can say of them. */
static void
ask_for_layers(struct random_request *request, guint32 seed)
{
    ask_for_sections(request, seed);
    request->settings.dpu_start = MW_AUTO;
    request->settings.update_beside = false;
    request->settings.recompute_layers = MW_AUTO; /* layers that are kept are not alike */
    request->settings.grad_accum = seed % 3 ? 1 + seed % 4 : 12 + seed % 30;
    /* Buffers of chunks said once share no bytes, which the sizing cannot know here. */
    if (seed % 2)
        request->settings.share_slots = MW_SHARE_NONE;
    request->model.layers = 150 + seed % 400;
}

/* Layers and chunks of the optimizer step, within micro-batches or in few of them. */
static void
test_random_layers(void)
{
    struct counts counts = {0};

    for (guint32 seed = 740000; counts.compared < REQUESTS / 2; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;

        ask_for_layers(&request, seed);
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || mw_sizing_op_count(sizing) > OPS_MAX)
            continue;
        random_request_name(&request);
        struct mw_folds folds = {.micro_batches = seed % 3 == 0, .layers = true};
        int before = counts.folded;
        compare(sizing, folds, &counts);
        if (before == counts.folded) {
            g_autofree char *text = random_request_text(&request);
            g_test_message("not folded: %s", text);
        }
    }
    g_test_message(
        "%d compared, %d ordered, %d folded, %d with a state in several tiers, %d skipped "
        "rounds, %d by the mean",
        counts.compared, counts.ordered, counts.folded, counts.split, counts.skipped,
        counts.by_mean);
    g_assert_cmpint(counts.folded, >=, counts.compared / 2); /* others have several kinds */
    g_assert_cmpint(counts.split, >=, counts.compared / 5);
}

static bool
reads_drives_at_agreement(const struct mw_sizing *sizing)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    bool reads = false;

    for (uint32_t w = 0; w < plan->work_count; w++)
        for (uint32_t d = 0; plan->works[w].kind == MW_OP_AGREE && d < plan->works[w].draw_count;
             d++)
            reads |= plan->channels[plan->draws[plan->works[w].draw_begin + d].channel].kind ==
                     MW_CHANNEL_DRIVE;
    mw_plan_free(plan);
    return reads;
}

/* Behind the agreement on the norm, Adafactor's clipping reads all gradients that are on drives. */
static void
test_clipping(void)
{
    struct counts counts = {0};

    for (guint32 seed = 780000; counts.folded < 8; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;

        ask_for_layers(&request, seed);
        request.settings.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
        request.settings.placement[MW_STATE_GRADIENTS] = (struct mw_placement){0};
        request.settings.optimizer =
            seed % 2 ? MW_OPTIMIZER_ADAFACTOR : MW_OPTIMIZER_ADAFACTOR_PURE;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || mw_sizing_op_count(sizing) > OPS_MAX || !reads_drives_at_agreement(sizing))
            continue;
        random_request_name(&request);
        compare(sizing, (struct mw_folds){.micro_batches = seed % 3 == 0, .layers = true}, &counts);
    }
}

/* Stretches of layers begin and end within checkpoint groups, of which sections take whole ones:
 * requests whose orders once lacked the layers of a stretch in the pass back. */
static void
test_groups(void)
{
    static const guint32 seeds[] = {743839, 751862};
    struct counts counts = {0};

    for (size_t i = 0; i < G_N_ELEMENTS(seeds); i++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;

        ask_for_layers(&request, seeds[i]);
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        g_assert_nonnull(sizing);
        g_assert_cmpint(sizing->settings.checkpoint_interval, >, 1);
        random_request_name(&request);
        compare(sizing, (struct mw_folds){.micro_batches = seeds[i] % 3 == 0, .layers = true},
                &counts);
    }
    g_assert_cmpint(counts.ordered, ==, G_N_ELEMENTS(seeds));
}

#define PAIRS 6 /* of ops that the flat plan has, */
#define MORE 4  /* and that it leaves out */

static struct mw_plan *
lanes_new(void)
{
    struct mw_plan *plan = mw_plan_new("uneven");

    mw_plan_set_world(plan, 1, 1, false);
    mw_plan_add_lane(plan, (struct mw_lane){.kind = MW_LANE_COMPUTE, .window_ops = 1});
    mw_plan_add_lane(plan, (struct mw_lane){.kind = MW_LANE_HOST, .window_ops = 1});
    mw_plan_add_lane(plan, (struct mw_lane){.kind = MW_LANE_H2D, .window_ops = 1});
    return plan;
}

/* Of rounds of one op that wait for one op after the other of rounds of `span`, which are in as
 * many lanes: what they depend on moves on in one lane, if that is one.  Of others the engine would
 * wait for what never comes. */
static bool
folds_waiting_for(uint32_t span)
{
    struct mw_plan *flat = lanes_new(), *folded = lanes_new();
    uint32_t ops = PAIRS * span, awaited[PAIRS + 1], waiting[2 * PAIRS + 1];
    char why[256] = "";

    g_assert_cmpuint(ops, <=, 2 * PAIRS);
    mw_plan_add_work(flat, (struct mw_work){.kind = MW_OP_COMPUTE, .comm = MW_NONE}, NULL, 0);
    for (uint32_t i = 0; i < 2 * ops; i++) {
        mw_plan_add_op(flat, (struct mw_op){.lane = i >= ops ? 2 : i % span, .match = MW_NONE});
        if (i >= ops)
            mw_plan_add_dep(flat, i - ops);
    }
    for (uint32_t i = 0; i <= PAIRS; i++)
        awaited[i] = i * span;
    for (uint32_t i = 0; i <= ops; i++)
        waiting[i] = ops + i;
    if (!mw_plan_check(flat, why, sizeof why))
        g_error("%s", why);
    const struct mw_fold_rounds rounds[] = {
        {.begins = awaited, .count = PAIRS, .cut = PAIRS / 2, .more = MORE, .alike = 2},
        {.begins = waiting, .count = ops, .cut = ops / 2, .more = MORE * span, .alike = 2}};
    const struct mw_fold how = {.rounds = rounds, .count = 2};
    bool good = mw_plan_fold(flat, &how, folded);
    if (good)
        g_assert_cmpint(mw_plan_unfolded_ops(folded), ==, 2 * (PAIRS + MORE) * span);
    mw_plan_free(flat);
    mw_plan_free(folded);
    return good;
}

static void
test_uneven_order(void)
{
    g_assert_true(folds_waiting_for(1));
    g_assert_false(folds_waiting_for(2));
}

/* --- the same verdict ------------------------------------------------------------------------ */

#define MUTATIONS MW_CASES(4000)

static uint32_t
below(GRand *random, uint32_t end)
{
    return (uint32_t)g_rand_int_range(random, 0, (gint32)end);
}

/* Lays the smaller of two slots over the larger one. */
static void
share(struct mw_slot *a, struct mw_slot *b)
{
    struct mw_slot *smaller = a->size_bytes < b->size_bytes ? a : b;
    struct mw_slot *larger = smaller == a ? b : a;

    if (a == b || a->tier != b->tier || a->program != b->program || a->persistent || b->persistent)
        return;
    a->shares = b->shares = true;
    smaller->offset_bytes = larger->offset_bytes;
}

/* Of an op in the section, mostly. */
static void
mutate(GRand *random, struct mw_plan *plan)
{
    const struct mw_section *section = &plan->sections[below(random, plan->section_count)];
    int level = section->parent == MW_NONE ? 0 : 1;
    bool within = below(random, 4) > 0;
    uint32_t index = within ? section->first_op + below(random, section->op_count)
                            : below(random, plan->op_count);
    struct mw_op *op = &plan->ops[index];
    uint32_t dep = op->dep_begin + (op->dep_count ? below(random, op->dep_count) : 0);
    uint32_t use = op->use_begin + (op->use_count ? below(random, op->use_count) : 0);
    uint32_t other = below(random, plan->use_count);

    switch (below(random, 11)) {
    case 0: /* waits for the begin of the step instead */
        if (op->dep_count) {
            plan->deps[dep] = 0;
            plan->dep_strides[dep] = (struct mw_dep_stride){{0}};
        }
        break;
    case 1: /* for an op near it */
        if (op->dep_count && plan->deps[dep] > 8 && !(plan->deps[dep] & MW_DEP_PREVIOUS_STEP))
            plan->deps[dep] -= below(random, 8);
        break;
    case 2:
        if (op->dep_count)
            plan->dep_strides[dep].by[level] = below(random, 2) ? 0 : (int32_t)section->span;
        break;
    case 3:
        if (op->dep_count)
            plan->dep_strides[dep].by[level] += (int32_t)below(random, 5) - 2;
        break;
    case 4: /* for a round before */
        if (op->dep_count && plan->deps[dep] < MW_DEP_PREVIOUS_STEP &&
            plan->deps[dep] >= section->span)
            plan->deps[dep] -= section->span;
        break;
    case 5:
        if (op->use_count) {
            plan->uses[use].slot = plan->uses[other].slot;
            plan->use_strides[use] = plan->use_strides[other];
        }
        break;
    case 6:
        if (op->use_count)
            plan->uses[use].mode = (uint8_t)below(random, MW_USE_MODE_COUNT);
        break;
    case 7:
        if (op->use_count && plan->use_strides[use].ring_count > 1)
            plan->use_strides[use].by[level] =
                (int32_t)below(random, plan->use_strides[use].ring_count);
        break;
    case 8: /* the home beside it */
        if (op->use_count && !plan->use_strides[use].ring_count)
            plan->uses[use].slot += below(random, 9) - 4;
        break;
    case 9: /* homes further apart, or the other way */
        if (op->use_count && !plan->use_strides[use].ring_count)
            plan->use_strides[use].by[level] = below(random, 2) ? -plan->use_strides[use].by[level]
                                                                : (int32_t)below(random, 5) - 2;
        break;
    case 10:
        if (op->use_count)
            share(&plan->slots[plan->uses[use].slot], &plan->slots[plan->uses[other].slot]);
        break;
    }
}

/* "op 12 (forward mb 3 layer 2 ..." is op 12 of the plan's text. */
static void
assert_names_its_ops(const struct mw_plan *plan, const char *why)
{
    for (const char *at = why; (at = strstr(at, "op ")); at++) {
        unsigned index, micro_batch;
        int layer;
        if (sscanf(at, "op %u (%*s mb %u layer %d", &index, &micro_batch, &layer) != 3)
            continue;
        if (index >= plan->op_count || plan->ops[index].micro_batch != micro_batch ||
            plan->ops[index].layer != layer)
            g_error("of a plan of %u ops: %s", plan->op_count, why);
    }
}

/* What sections cannot say is refused, whatever comes of it. */
static bool
cannot_be_said(const char *why)
{
    return strstr(why, "section") || strstr(why, "evenly") || strstr(why, "later round");
}

static void
try_mutations(guint32 seed, struct mw_folds folds)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(20261123);
    int refused = 0, accepted = 0, stricter = 0, done = 0;

    for (; done < (folds.layers ? MUTATIONS / 2 : MUTATIONS); seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;

        random_request_init(&request, seed);
        request.settings.unfold = false;
        request.settings.layer_order = false; /* which no section says */
        request.settings.whole_checkpoints = false;
        request.settings.global_batch = MW_AUTO;
        request.settings.grad_accum = folds.micro_batches ? 12 + seed % 30 : 1 + seed % 3;
        if (folds.layers) {
            request.settings.dpu_start = MW_AUTO;
            request.settings.update_beside = false;
            request.model.layers = 70 + seed % 40;
        }
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing || mw_sizing_op_count(sizing) > (folds.layers ? 12000 : 4000))
            continue;
        random_request_name(&request);
        struct mw_plan *plan = mw_build_plan_folded(sizing, folds);
        for (int i = 0; plan && i < 40; i++, done++) {
            struct mw_plan *changed = unchecked_plan_copy(plan);
            char why[256] = "", flat_why[256] = "";
            mutate(random, changed);
            struct mw_plan *flat = mw_plan_unfold(changed);
            bool good = mw_plan_check(changed, why, sizeof why);
            bool flat_good = flat && mw_plan_check(flat, flat_why, sizeof flat_why);
            if (!good)
                assert_names_its_ops(changed, why);
            if (good && !flat_good)
                g_error("mutation %d: accepted folded; unfolded: %s", i, flat_why);
            refused += !flat_good;
            accepted += good;
            stricter += !good && flat_good;
            if (!good && flat_good && !cannot_be_said(why))
                g_error("mutation %d: accepted unfolded; folded: %s", i, why);
            mw_plan_free(changed);
            mw_plan_free(flat);
        }
        mw_plan_free(plan);
    }
    g_test_message("%d mutations: %d refused, %d accepted, %d that sections cannot say", done,
                   refused, accepted, stricter);
    g_assert_cmpint(refused, >, done / 6);
    g_assert_cmpint(accepted, >, done / 5);
}

static void
test_mutations(void)
{
    try_mutations(720000, (struct mw_folds){.micro_batches = true});
}

static void
test_mutated_layers(void)
{
    try_mutations(760000, (struct mw_folds){.layers = true});
}

/* --- strides that are none ------------------------------------------------------------------- */

static struct mw_plan *
make_folded(void)
{
    struct mw_plan *plan = NULL;

    for (guint32 seed = 720000; !plan || plan->sections[0].first_op == 0; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;
        mw_plan_free(plan);
        plan = NULL;
        random_request_init(&request, seed);
        request.settings.unfold = false;
        request.settings.layer_order = false; /* which no section says */
        request.settings.whole_checkpoints = false;
        request.settings.global_batch = MW_AUTO;
        request.settings.grad_accum = 40;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (sizing && mw_sizing_op_count(sizing) < 4000) {
            random_request_name(&request);
            plan = mw_build_plan_folded(sizing, (struct mw_folds){.micro_batches = true});
        }
    }
    struct mw_plan *copy = unchecked_plan_copy(plan);
    mw_plan_free(plan);
    return copy;
}

static void
assert_refused(struct mw_plan *plan, const char *expected)
{
    char why[256] = "";

    g_assert_false(mw_plan_check(plan, why, sizeof why));
    if (!strstr(why, expected))
        g_error("expected '%s': %s", expected, why);
    mw_plan_free(plan);
}

static uint32_t
first_use(const struct mw_plan *plan, uint32_t from)
{
    while (!plan->ops[from].use_count)
        from++;
    return plan->ops[from].use_begin;
}

static void
test_in_flight(void)
{
    struct mw_plan *plan = make_folded();

    plan->programs[0].in_flight = 3;
    struct mw_plan *flat = mw_plan_unfold(plan);
    g_assert_cmpuint(flat->program_count, ==, 1);
    g_assert_cmpuint(flat->programs[0].in_flight, ==, 3);
    mw_plan_free(flat);
    mw_plan_free(plan);
}

/* The begin of a ring that has no slots is no slot. */
static void
test_ring_of_none(void)
{
    struct mw_plan *plan = make_folded();
    uint32_t use = first_use(plan, plan->sections[0].first_op);

    while (plan->use_strides[use].ring_count)
        use++;
    plan->use_strides[use] = (struct mw_use_stride){.ring_first = 4000000000u};
    assert_refused(plan, "or its ring");
}

static void
test_outside_of_sections(void)
{
    struct mw_plan *plan = make_folded();
    uint32_t use = first_use(plan, 0), dep = 0;

    g_assert_cmpuint(use, <, plan->ops[plan->sections[0].first_op].use_begin);
    plan->use_strides[use] = (struct mw_use_stride){{0}, 4000000000u, 3};
    assert_refused(plan, "is in no section");
    plan = make_folded();
    plan->dep_strides[dep].by[0] = 1;
    g_assert_cmpuint(plan->ops[plan->sections[0].first_op].dep_begin, >, dep);
    assert_refused(plan, "is in no section");
}

static void
test_text_outside_of_sections(void)
{
    struct mw_plan *plan = make_folded();
    g_autofree char *text = text_of(plan), *head = g_strndup(text, strlen(text) - strlen("end\n"));
    g_autofree char *more = g_strconcat(head, "strides 0 use 0:0:4000000000:3\nend\n", NULL);
    char why[256] = "", line[32];
    int lines = 1;

    for (const char *c = head; *c; c++)
        lines += *c == '\n';
    g_assert_null(mw_plan_parse(more, strlen(more), why, sizeof why));
    g_snprintf(line, sizeof line, "line %d: ", lines);
    g_assert_true(g_str_has_prefix(why, line));
    g_assert_nonnull(strstr(why, "strides of an op that is in a section"));
    mw_plan_free(plan);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sections/random-requests", test_random_requests);
    g_test_add_func("/sections/found", test_found);
    g_test_add_func("/sections/random-layers", test_random_layers);
    g_test_add_func("/sections/clipping", test_clipping);
    g_test_add_func("/sections/groups", test_groups);
    g_test_add_func("/sections/uneven-order", test_uneven_order);
    g_test_add_func("/sections/mutations", test_mutations);
    g_test_add_func("/sections/mutated-layers", test_mutated_layers);
    g_test_add_func("/sections/in-flight", test_in_flight);
    g_test_add_func("/sections/ring-of-none", test_ring_of_none);
    g_test_add_func("/sections/outside", test_outside_of_sections);
    g_test_add_func("/sections/text-outside", test_text_outside_of_sections);
    return g_test_run();
}
