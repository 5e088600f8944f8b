/* Stages of unlike replicas that take micro-batches in turn (PipeDream, Narayanan et al., SOSP
 * 2019): what each rank computes and sends, how long a step takes, what is kept meanwhile, and
 * plans that say something else. */
#include <math.h>
#include <string.h>

#include "planner/stage_replicas.h"
#include "sim/engine.h"
#include "tests/random_request.h"

/* --- requests -------------------------------------------------------------------------------- */

struct turns {
    const char *replicas, *begins; /* of the stages but the first; NULL: as many layers in each */
    int64_t layers, micro_batches;
    bool in_pace; /* without a flush no stage waits for another but the slowest */
    enum mw_schedule schedule;
};

/* Held together: a sizing borrows model and machine. */
struct request {
    struct mw_model model;
    struct mw_hardware hardware;
    GPtrArray *found;
};

static void
clear(struct request *request)
{
    g_ptr_array_unref(request->found);
}

static bool
ask(const struct turns *turns, struct request *request, GError **error)
{
    struct mw_request asked = {&request->model, &request->hardware};
    struct mw_settings settings, resolved;

    request->model = (struct mw_model){.name = "layers alone",
                                       .layers = turns->layers,
                                       .hidden = 512,
                                       .heads = 8,
                                       .kv_heads = 8,
                                       .head_dim = 64,
                                       .value_dim = 64,
                                       .ffn = 2048,
                                       .mlp_matrices = 2};
    request->hardware = test_hardware("aws-p5-48xlarge");
    request->hardware.fabric_latency_s = request->hardware.fabric_start_s = 0;
    request->hardware.fabric_bytes_per_s = 1e18;
    request->hardware.gpu_collective_sm_share = 0;
    request->hardware.gpu_launch_s = 0;
    request->hardware.gpu_memory_bytes_per_s = 1e18; /* updates and sums take no time */
    request->hardware.gpus_per_node = 64;
    mw_settings_init(&settings);
    settings.strategy = MW_STRATEGY_DDP;
    settings.micro_batch = 1;
    settings.grad_accum = turns->micro_batches;
    settings.schedule = turns->schedule;
    settings.seq = 1024;
    settings.checkpoint_interval = 0;
    g_assert_true(mw_stage_replicas_read(turns->replicas, &settings.stage_replicas));
    settings.pp = settings.stage_replicas.stages;
    settings.gpus_per_node = mw_stage_replicas_from(&settings.stage_replicas, 0);
    if (turns->begins)
        g_assert_true(mw_layer_set_read(turns->begins, &settings.stage_begins));
    request->found = mw_settings_complete(&asked, &settings, &resolved, error)
                         ? mw_planner_candidates(&asked, &resolved, error)
                         : NULL;
    return request->found != NULL;
}

static const struct mw_sizing *
first_of(const struct request *request)
{
    return request->found->pdata[0];
}

/* --- who computes and sends what ------------------------------------------------------------- */

static uint32_t
rank_of(const struct mw_plan *plan, const struct mw_op *op)
{
    return plan->programs[plan->lanes[op->lane].program].ranks.base;
}

/* The rank of a stage whose turn a micro-batch is. */
static uint32_t
in_turn(const struct mw_plan *plan, uint32_t stage, uint32_t micro_batch)
{
    const struct mw_stage_replicas *it = &plan->shape.replicas;

    return mw_stage_replicas_first(it, stage) + micro_batch % it->of[stage];
}

/* Each micro-batch goes through each layer once, forward and back, by the rank whose turn it is;
 * what it leaves goes to the rank of the next stage whose turn it is there; and a stage's gradients
 * are summed up over its ranks. */
static void
check_ranks(const struct mw_plan *plan, const struct mw_sizing *first)
{
    int64_t layers = first->model->layers, all = plan->shape.micro_batches;
    g_autofree int *seen = g_new0(int, 2 * layers * all);
    int64_t hops = 0, sums = 0;

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        const struct mw_work *work = &plan->works[op->work];
        uint32_t rank = rank_of(plan, op);
        struct mw_replica own = mw_stage_replica(&plan->shape.replicas, rank);
        bool back = op->phase == MW_PHASE_BACKWARD;
        if (work->kind == MW_OP_COMPUTE && op->phase <= MW_PHASE_BACKWARD) {
            g_assert_cmpint(rank, ==, in_turn(plan, own.stage, op->micro_batch));
            if (work->operator_ == MW_OPERATOR_QKV)
                seen[(back * layers + op->layer) * all + op->micro_batch]++;
        }
        if (work->kind == MW_OP_SEND) {
            uint32_t to = back ? own.stage - 1 : own.stage + 1;
            g_assert_cmpint(rank, ==, in_turn(plan, own.stage, op->micro_batch));
            g_assert_cmpint(mw_work_peer(plan, work, rank), ==, in_turn(plan, to, op->micro_batch));
            hops++;
        }
        if (work->kind == MW_OP_ALL_REDUCE) {
            struct mw_members group = mw_comm_group(&plan->comms[work->comm], rank);
            g_assert_cmpint(group.base, ==,
                            mw_stage_replicas_first(&plan->shape.replicas, own.stage));
            g_assert_cmpint(mw_members_count(&group), ==, own.count);
            sums++;
        }
    }
    for (int64_t i = 0; i < 2 * layers * all; i++)
        g_assert_cmpint(seen[i], ==, 1);
    g_assert_cmpint(hops, ==, 2 * (plan->shape.replicas.stages - 1) * all);
    g_assert_cmpint(sums > 0, ==, plan->world_ranks > plan->shape.replicas.stages);
}

/* --- a step's time --------------------------------------------------------------------------- */

#define STEPS 60 /* of which some in the middle are steady */
#define RANKS_MOST 64

/* How long a step takes, from each rank's order of passes alone: a pass begins behind the one
 * before it on its rank, and behind that of its micro-batch in the neighbouring stage. */
struct recurrence {
    const struct turns *turns;
    struct mw_stage_replicas replicas;
    double forward_s[RANKS_MOST], back_s[RANKS_MOST]; /* [stage] */
    double *done; /* [step][stage][back][micro-batch], 0: not yet */
    double free_s[RANKS_MOST];
    int64_t next[RANKS_MOST]; /* pass of a rank, over all steps */
};

static double *
done(const struct recurrence *it, int64_t step, uint32_t stage, bool back, int64_t micro_batch)
{
    return &it->done[((step * it->replicas.stages + stage) * 2 + back) * it->turns->micro_batches +
                     micro_batch];
}

/* The number of a rank's pass among its own forward passes, or its own ways back, over all steps:
 * after `ahead` forward passes they alternate, to the end of the step or for ever. */
static int64_t
number_of_pass(const struct recurrence *it, struct mw_replica own, int64_t pass, bool *back)
{
    int64_t each = it->turns->micro_batches / own.count, step = 0;
    int64_t ranks = mw_stage_replicas_from(&it->replicas, own.stage);
    int64_t ahead = (ranks - 1) / own.count;

    if (!mw_schedule_row(it->turns->schedule)->no_flush) {
        step = pass / (2 * each);
        pass %= 2 * each;
    }
    if (it->turns->schedule == MW_SCHEDULE_GPIPE)
        ahead = each - 1;
    bool turns = pass >= ahead;
    int64_t past = pass - ahead, last = mw_schedule_row(it->turns->schedule)->no_flush
                                            ? INT64_MAX
                                            : 2 * (each - ahead); /* then all go back */
    *back = turns && (past >= last || past % 2);
    int64_t number = !turns ? pass : past >= last ? each - ahead + past - last : past / 2;
    return step * each + number + (turns && !*back ? ahead : 0);
}

/* When the ranks of a stage have summed up their gradients, behind a way back that an update
 * follows: the next pass takes what it makes.  0: no update follows; -1: not yet. */
static double
update_s(const struct recurrence *it, struct mw_replica own, int64_t pass)
{
    const struct mw_schedule_row *row = mw_schedule_row(it->turns->schedule);
    int64_t each = it->turns->micro_batches / own.count;
    double end_s = 0;
    bool back;

    if (!pass || !row->no_flush)
        return 0;
    int64_t number = number_of_pass(it, own, pass - 1, &back);
    if (!back || (!row->stashes && (number + 1) % each))
        return 0;
    for (uint32_t i = 0; i < own.count; i++) {
        double its_s = *done(it, number / each, own.stage, true, i + own.count * (number % each));
        if (its_s <= 0)
            return -1;
        end_s = fmax(end_s, its_s);
    }
    return end_s;
}

static bool
take_pass(struct recurrence *it, uint32_t rank)
{
    struct mw_replica own = mw_stage_replica(&it->replicas, rank);
    bool flushes = !mw_schedule_row(it->turns->schedule)->no_flush, back;
    int64_t number = number_of_pass(it, own, it->next[rank], &back);
    int64_t each = it->turns->micro_batches / own.count;
    int64_t step = number / each, micro_batch = own.index + own.count * (number % each);
    double ready_s = it->free_s[rank], updated_s = update_s(it, own, it->next[rank]);

    if (step >= STEPS || updated_s < 0)
        return false;
    ready_s = fmax(ready_s, updated_s);
    if (flushes && step > 0) /* all ranks meet at a step's end */
        for (uint32_t stage = 0; stage < it->replicas.stages; stage++)
            for (int64_t m = 0; m < it->turns->micro_batches; m++) {
                if (*done(it, step - 1, stage, true, m) <= 0)
                    return false;
                ready_s = fmax(ready_s, *done(it, step - 1, stage, true, m));
            }
    uint32_t before = back ? own.stage + 1 : own.stage - 1;
    if (before < it->replicas.stages) {
        if (*done(it, step, before, back, micro_batch) <= 0)
            return false;
        ready_s = fmax(ready_s, *done(it, step, before, back, micro_batch));
    }
    it->free_s[rank] = ready_s + (back ? it->back_s : it->forward_s)[own.stage];
    *done(it, step, own.stage, back, micro_batch) = it->free_s[rank];
    it->next[rank]++;
    return true;
}

/* The mean of steps in the middle, each of which ends with the last way back in the first stage. */
static double
recurrence_s(struct recurrence *it)
{
    uint32_t ranks = mw_stage_replicas_from(&it->replicas, 0);
    int64_t last = it->turns->micro_batches - 1;
    g_autofree double *all = g_new0(double, STEPS * it->replicas.stages * 2 * (last + 1));
    double ends_s[2] = {0};
    bool moves = true;

    it->done = all;
    while (moves) {
        moves = false;
        for (uint32_t rank = 0; rank < ranks; rank++)
            while (take_pass(it, rank))
                moves = true;
    }
    for (int i = 0; i < 2; i++)
        for (int64_t m = 0; m <= last; m++)
            ends_s[i] = fmax(ends_s[i], *done(it, STEPS / 3 * (i + 1), 0, true, m));
    g_assert_cmpfloat(ends_s[0], >, 0);
    g_assert_cmpfloat(ends_s[1], >, ends_s[0]);
    return (ends_s[1] - ends_s[0]) / (STEPS / 3);
}

static void
sum_passes(const struct mw_plan *plan, const struct mw_costs *costs, struct recurrence *it)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        struct mw_replica own = mw_stage_replica(&plan->shape.replicas, rank_of(plan, op));
        bool back = op->phase == MW_PHASE_BACKWARD;
        if (plan->works[op->work].kind == MW_OP_COMPUTE && op->phase <= MW_PHASE_BACKWARD &&
            op->micro_batch == 0)
            (back ? it->back_s : it->forward_s)[own.stage] +=
                (double)costs->work_ns[op->work] * 1e-9;
    }
}

/* The slowest stage sets the pace where steps go on over their ends: as the closed form has it, of
 * links and memory that take no time. */
static double
pace_s(const struct recurrence *it, const struct mw_sizing *first)
{
    g_autofree double *layer_s = g_new(double, first->model->layers);
    g_autofree int64_t *layer_bytes = g_new0(int64_t, first->model->layers);
    struct mw_stage_costs costs = {.layers = first->model->layers,
                                   .layer_s = layer_s,
                                   .layer_bytes = layer_bytes,
                                   .bytes_per_s = 1};
    double slowest_s = 0;

    for (const struct mw_sizing *stage = first; stage; stage = stage->next_stage)
        for (int64_t l = stage->stretch[0].begin; l < stage->stretch[0].begin + stage->layers; l++)
            layer_s[l] =
                (it->forward_s[stage->stage] + it->back_s[stage->stage]) / (double)stage->layers;
    for (const struct mw_sizing *stage = first; stage; stage = stage->next_stage)
        slowest_s = fmax(slowest_s,
                         mw_stage_replicated_s(&costs, stage->stretch[0].begin,
                                               stage->stretch[0].begin + stage->layers, stage->dp));
    return (double)it->turns->micro_batches * slowest_s;
}

static double
simulated_s(const struct mw_plan *plan, const struct mw_costs *costs)
{
    /* Some steps until those without a flush are steady. */
    struct mw_engine_options options = {.steps = 0};
    struct mw_engine_result result;
    char why[256] = "";

    mw_engine_run(plan, costs, options, &result, why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    double step_s = (double)result.step_ns * 1e-9;
    mw_engine_result_clear(&result);
    return step_s;
}

/* The engine takes what the ranks' orders of passes alone ask for, and no less than the slowest
 * stage; as much as that, where its ranks and those of other stages do not wait for each other's
 * gradients. */
static void
check_time(const struct turns *turns, const struct mw_plan *plan, const struct request *request)
{
    struct recurrence it = {.turns = turns, .replicas = plan->shape.replicas};
    double rounded_s = plan->op_count * 1e-9; /* what takes no time takes a nanosecond at most */
    struct mw_costs costs;

    mw_costs_init(&costs, plan, &request->hardware);
    sum_passes(plan, &costs, &it);
    double took_s = simulated_s(plan, &costs), wanted_s = recurrence_s(&it);
    double pace = pace_s(&it, first_of(request));
    g_test_message("took %.4f ms, of passes alone %.4f ms, slowest stage %.4f ms", took_s * 1e3,
                   wanted_s * 1e3, pace * 1e3);
    g_assert_cmpfloat(took_s, >=, wanted_s - rounded_s);
    g_assert_cmpfloat(took_s, <=, wanted_s + rounded_s);
    g_assert_cmpfloat(took_s, >=, pace - rounded_s);
    if (turns->in_pace && mw_schedule_row((int)turns->schedule)->no_flush)
        g_assert_cmpfloat(took_s, <=, pace + rounded_s);
    mw_costs_clear(&costs);
}

/* --- what is kept ---------------------------------------------------------------------------- */

/* The version of the parameters in a slot that QKV reads, -1: none. */
static int64_t
version_read(const struct mw_plan *plan, const struct mw_op *op, const int64_t *in_slot)
{
    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if (plan->works[op->work].kind == MW_OP_COMPUTE &&
            plan->works[op->work].operator_ == MW_OPERATOR_QKV &&
            plan->uses[u].role == MW_ROLE_PARAMETER)
            return in_slot[plan->uses[u].slot];
    return -1;
}

/* In three steps of each rank: a micro-batch goes forward by the newest parameters, and back by the
 * same ones. */
static void
follow_versions(const struct mw_plan *plan)
{
    g_autofree int64_t *in_slot = g_new0(int64_t, plan->slot_count);
    g_autofree int64_t *forth = g_new0(int64_t, plan->shape.micro_batches);
    int followed = 0;

    for (uint32_t program = 0; program < plan->program_count; program++) {
        int64_t newest = 0;
        for (int64_t step = 1; step <= 3; step++)
            for (uint32_t i = 0; i < plan->op_count; i++) {
                const struct mw_op *op = &plan->ops[i];
                if (plan->lanes[op->lane].program != program)
                    continue;
                if (plan->works[op->work].kind == MW_OP_UPDATE) {
                    newest = step * plan->shape.micro_batches + op->micro_batch;
                    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
                        if (plan->uses[u].role == MW_ROLE_PARAMETER)
                            in_slot[plan->uses[u].slot] = newest;
                }
                int64_t version = version_read(plan, op, in_slot);
                if (version < 0 || step == 1)
                    continue;
                if (op->phase == MW_PHASE_FORWARD)
                    forth[op->micro_batch] = version;
                if (op->phase == MW_PHASE_FORWARD)
                    g_assert_cmpint(version, ==, newest);
                if (op->phase == MW_PHASE_BACKWARD && step == 3)
                    g_assert_cmpint(version, ==, forth[op->micro_batch]);
                followed += op->phase == MW_PHASE_BACKWARD && step == 3;
            }
    }
    g_assert_cmpint(followed, >, 0);
}

/* A replica of the first stage has NOAM micro-batches in flight: GPUs by replicas of it, rounded up
 * (Sec. 3.2); one of another stage as many of the GPUs from there on; and with stashing as many
 * versions of its parameters. */
static void
check_kept(const struct turns *turns, const struct mw_plan *plan, const struct mw_sizing *first)
{
    int64_t ops = 0;

    for (const struct mw_sizing *stage = first; stage; stage = stage->next_stage) {
        int64_t each = turns->micro_batches / stage->dp, behind = 0;
        for (const struct mw_sizing *s = stage; s; s = s->next_stage)
            behind += s->dp;
        int64_t flight = turns->schedule == MW_SCHEDULE_GPIPE
                             ? each
                             : MIN(each, (behind + stage->dp - 1) / stage->dp);
        bool no_flush = mw_schedule_row(turns->schedule)->no_flush;
        if (!no_flush || each % flight == 0)
            g_assert_cmpint(stage->micro_batches_in_flight, ==, flight);
        g_assert_cmpint(stage->micro_batches_in_flight, >=, flight);
        if (mw_schedule_row(turns->schedule)->stashes && each % flight == 0)
            g_assert_cmpint(mw_sizing_versions(stage), ==, flight);
        for (int64_t r = 0; r < stage->dp; r++) {
            const struct mw_program *program = &plan->programs[stage->first_rank + r];
            g_assert_cmpint(program->in_flight, ==, stage->micro_batches_in_flight);
            for (int tier = 0; tier < MW_TIER_COUNT; tier++)
                g_assert_cmpint(program->peak_bytes[tier], ==, stage->need_bytes[tier]);
        }
        ops += mw_sizing_op_count(stage);
    }
    g_assert_cmpint(plan->op_count, ==, ops);
}

/* --- all ------------------------------------------------------------------------------------- */

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
check_text(const struct mw_plan *plan)
{
    char why[256] = "", *text = text_of(plan);
    struct mw_plan *again = mw_plan_parse(text, strlen(text), why, sizeof why);

    if (!again)
        g_error("%s", why);
    char *again_text = text_of(again);
    g_assert_cmpstr(text, ==, again_text);
    g_assert_cmpmem(&again->shape.replicas, sizeof again->shape.replicas, &plan->shape.replicas,
                    sizeof plan->shape.replicas);
    mw_plan_free(again);
    free(text);
    free(again_text);
}

static void
check_turns(const struct turns *turns)
{
    struct request request;
    g_autoptr(GError) error = NULL;

    g_assert_true(ask(turns, &request, &error));
    g_assert_no_error(error);
    const struct mw_sizing *first = first_of(&request);
    struct mw_plan *plan = mw_build_plan(first);
    check_ranks(plan, first);
    check_kept(turns, plan, first);
    check_text(plan);
    if (mw_schedule_row(turns->schedule)->stashes)
        follow_versions(plan);
    check_time(turns, plan, &request);
    mw_plan_free(plan);
    clear(&request);
}

/* Stages with as many layers as replicas, or in proportion to them, and others. */
static const struct turns cases[] = {
    {"2,1", "8", 12, 6, true, 0},       {"2,1", NULL, 12, 8, true, 0},
    {"1,2", "4", 12, 12, false, 0},     {"2,1,1", "6,9", 12, 12, false, 0},
    {"1,1,2", "3,6", 12, 12, false, 0}, {"3,2,1", "6,10", 12, 12, false, 0},
    {"3,2", NULL, 10, 12, true, 0},     {"1,3,1", "2,8", 10, 12, false, 0},
    {"15,1", "15", 16, 30, true, 0},    {"1,4", NULL, 10, 8, true, 0},
    {"4,1,2", NULL, 14, 16, true, 0},   {"1,1", NULL, 12, 4, true, 0},
    {"2,2", NULL, 12, 8, true, 0},      {"2,1,4,1", "3,6,12", 15, 16, false, 0},
};

static void
test_turns(void)
{
    static const enum mw_schedule schedules[] = {MW_SCHEDULE_1F1B, MW_SCHEDULE_GPIPE,
                                                 MW_SCHEDULE_2BW, MW_SCHEDULE_PIPEDREAM};

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        for (size_t s = 0; s < G_N_ELEMENTS(schedules); s++) {
            struct turns turns = cases[i];
            turns.schedule = schedules[s];
            g_test_message("%s %s", turns.replicas, mw_schedule_row((int)turns.schedule)->name);
            check_turns(&turns);
        }
}

/* --- what is refused ------------------------------------------------------------------------- */

static void
test_read(void)
{
    static const char *const wrong[] = {
        "",     "2",      "2,",  ",2,1",  "2,,1", "0,1",  "2,-1", "2 1",
        "2,1 ", "2,1025", "a,b", "2,1.5", "+2,1", "02,1", "2,1,", "99999999999999999999,1"};
    struct mw_stage_replicas it;
    char text[MW_STAGE_REPLICAS_TEXT_MAX];

    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++)
        g_assert_false(mw_stage_replicas_read(wrong[i], &it));
    g_assert_true(mw_stage_replicas_read("3,1,12", &it));
    mw_stage_replicas_write(&it, text);
    g_assert_cmpstr(text, ==, "3,1,12");
    g_assert_cmpint(mw_stage_replicas_from(&it, 0), ==, 16);
    g_assert_cmpint(mw_stage_replicas_first(&it, 2), ==, 4);
    g_assert_cmpint(mw_stage_replicas_grain(&it), ==, 12);
    struct mw_replica found = mw_stage_replica(&it, 5);
    g_assert_cmpint(found.stage, ==, 2);
    g_assert_cmpint(found.index, ==, 1);
    g_assert_cmpint(found.count, ==, 12);
    g_autoptr(GString) most = g_string_new("1024");
    for (int i = 1; i < MW_REPLICATED_STAGES_MAX; i++)
        g_string_append(most, ",1024");
    g_assert_true(mw_stage_replicas_read(most->str, &it));
    mw_stage_replicas_write(&it, text);
    g_assert_cmpstr(text, ==, most->str);
    g_string_append(most, ",1");
    g_assert_false(mw_stage_replicas_read(most->str, &it));
    g_assert_true(mw_stage_replicas_read("1021,1019,1013", &it));
    g_assert_cmpint(mw_stage_replicas_grain(&it), ==, 0);
}

/* Texts of plans in which one line says something else. */
static void
test_plans(void)
{
    static const struct {
        const char *was, *is, *says;
    } rows[] = {
        {" replicas 2,1 ", " replicas 1,2 ", "another replica"},
        {" replicas 2,1 ", " replicas 2,2 ", "4 ranks, in a world of 3"},
        {" replicas 2,1 ", " replicas 3 ", "such as 2,1,1"},
        {" replicas 2,1 ", " ", NULL}, /* programs that send to each other, however they do */
        {" micro-batches 6 ", " micro-batches 7 ", "cannot take as many"},
        {" single 0 dp 2 by 1", " single 1 dp 2 by 1", "is not of this world"},
        {" single 0 dp 2 by 1", " single 2 dp 2 by 1", "one group within it"},
        {" single 0 dp 2 by 1", " single 0", "its group is of 1"},
    };
    const struct turns turns = {"2,1", "8", 12, 6, true, MW_SCHEDULE_1F1B};
    struct request request;

    g_assert_true(ask(&turns, &request, NULL));
    struct mw_plan *plan = mw_build_plan(first_of(&request));
    char *text = text_of(plan);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        char why[256] = "";
        const char *at = strstr(text, rows[i].was);
        g_assert_nonnull(at);
        g_autofree char *other = g_strdup_printf("%.*s%s%s", (int)(at - text), text, rows[i].is,
                                                 at + strlen(rows[i].was));
        struct mw_plan *read = mw_plan_parse(other, strlen(other), why, sizeof why);
        g_assert_cmpint(read != NULL, ==, rows[i].says == NULL);
        if (rows[i].says && !strstr(why, rows[i].says))
            g_error("%s: %s", rows[i].is, why);
        mw_plan_free(read);
    }
    free(text);
    mw_plan_free(plan);
    clear(&request);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/stage-replicas/turns", test_turns);
    g_test_add_func("/stage-replicas/read", test_read);
    g_test_add_func("/stage-replicas/plans", test_plans);
    return g_test_run();
}
