/* Pipelines: plans of several programs, planned from random requests, checked, folded and unfolded,
 * simulated, and cut into what each rank runs. */
#include <math.h>

#include "planner/stage_replicas.h"
#include "planner/stage_split.h"
#include "tests/cases.h"
#include "tests/random_request.h"
#include "tests/simulated.h"

#define REQUESTS MW_CASES(300)

typedef void (*look)(const struct mw_sizing *sizing, const struct mw_hardware *hardware);

typedef void (*changer)(struct random_request *request);

/* Of requests that `change` has changed; NULL: as they are. */
static void
for_pipelines_as(guint32 first_seed, changer change, look look_at)
{
    int looked = 0;

    for (guint32 seed = first_seed; looked < REQUESTS; seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;

        random_request_init(&request, seed);
        if (change)
            change(&request);
        random_request_stages(&request);
        const struct mw_sizing *sizing =
            request.settings.pp > 1 ? random_request_fitting(&request, &found) : NULL;
        if (!sizing)
            continue;
        look_at(sizing, &request.hardware);
        looked++;
    }
}

static void
for_pipelines(guint32 first_seed, look look_at)
{
    for_pipelines_as(first_seed, NULL, look_at);
}

/* --- folded and unfolded --------------------------------------------------------------------- */

static void
compare(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    mw_test_folded_as_unfolded(sizing, hardware, sizing->pp);
}

static void
test_folded_and_unfolded(void)
{
    for_pipelines(500000, compare);
}

/* --- sizes ----------------------------------------------------------------------------------- */

static int later; /* plans whose gradients of weights come later */

/* Of p - s micro-batches all activations are kept, and of s more, which have gone back, what the
 * gradients of weights need: inputs, of all of these, and gradients of results, also of the one
 * that goes back (Qi et al. 2023, arXiv 2401.10241). */
static void
check_kept(const struct mw_sizing *stage)
{
    int64_t all = stage->settings.grad_accum, behind = stage->pp - stage->stage;
    bool is_later = mw_settings_weights_later(&stage->settings);

    g_assert_cmpint(stage->buffers[MW_BUFFER_INPUTS].count, ==, is_later ? MIN(stage->pp, all) : 0);
    g_assert_cmpint(stage->buffers[MW_BUFFER_RESULTS].count, ==,
                    is_later ? MIN(stage->stage + 1, all) : 0);
    g_assert_true(!is_later || stage->micro_batches_in_flight == MIN(behind, all));
    later += is_later;
}

/* The stages' layers and parameters are the model's, and each one's slots are its ledger. */
static void
add_up(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    int64_t layers = 0, behind = 0, params = 0, ops = 0;

    for (const struct mw_sizing *stage = sizing; stage; stage = stage->next_stage) {
        g_assert_cmpint(stage->stretch[0].begin, ==, behind);
        behind += mw_sizing_stretch_layers(stage, 0);
        check_kept(stage);
        layers += stage->layers;
        params += stage->params;
        ops += mw_sizing_op_count(stage);
        for (int tier = 0; tier < MW_TIER_COUNT; tier++)
            g_assert_cmpint(plan->programs[stage->stage].peak_bytes[tier], ==,
                            stage->need_bytes[tier]);
    }
    g_assert_cmpint(layers, ==, sizing->model->layers);
    g_assert_cmpint(ops, ==, plan->op_count);
    int64_t stretches = sizing->stretches, most = sizing->settings.grad_accum * stretches;
    if (stretches > 1) /* a part 1 + (p - 1) / (p v) more than without (arXiv 2205.05198, Sec. 5) */
        g_assert_cmpint(sizing->micro_batches_in_flight, ==,
                        MIN(sizing->pp * stretches + sizing->pp - 1, most));
    char why[256] = "";
    if (mw_plan_all_have_layers(plan))
        mw_plan_check_step(plan, false, why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    int64_t elements = 0;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        elements += plan->tensors[t].elements;
    g_assert_cmpint(elements, ==, params);
    mw_plan_free(plan);
}

static void
test_sizes(void)
{
    for_pipelines(510000, add_up);
    g_assert_cmpint(later, >, 0);
}

/* --- activations that leave ------------------------------------------------------------------ */

static int swapped, mixed; /* plans whose stages send activations away; that recompute others */

/* Of all layers, of some beside the first ones, or of every other one. */
static void
swap(struct random_request *request)
{
    struct mw_settings *s = &request->settings;
    int64_t turn = request->seed / 6; /* six decide on schedules (random_request_stages) */

    s->checkpoint_interval = s->whole_checkpoints = 1;
    s->layer_order = 0;
    s->kept_as = (struct mw_kept_as){0};
    s->checkpoint_dtype = MW_DTYPE_NONE;
    s->param_loads = MW_AUTO;
    s->recompute_layers = turn % 3 == 1 ? 1 + turn / 3 % 3 : MW_AUTO;
    s->recompute_set = (struct mw_layer_set){{0}};
    for (int64_t layer = 0; turn % 3 == 2 && layer < request->model.layers; layer += 2)
        mw_layer_set_add(&s->recompute_set, layer);
}

static void
add_up_swapped(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    add_up(sizing, hardware);
    swapped += mw_sizing_leaves_any_whole(sizing);
    for (const struct mw_sizing *stage = sizing; stage; stage = stage->next_stage)
        mixed += mw_sizing_mixes_checkpoints(stage);
}

static void
test_swapped(void)
{
    for_pipelines_as(520000, swap, add_up_swapped);
    g_test_message("%d plans with activations that leave, %d stages that recompute others", swapped,
                   mixed);
    g_assert_cmpint(swapped, >, REQUESTS / 20);
    g_assert_cmpint(mixed, >, REQUESTS / 50);
}

/* --- what slices send between stages ---------------------------------------------------------- */

static int scattered; /* plans whose slices send parts */

/* A slice sends its part of what a stage hands on where the others have theirs: they share tokens,
 * or gather it in the next stage. */
static void
check_hops(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    bool scatters = mw_sizing_scatters_stages(sizing);
    int64_t all = sizing->element_bytes * sizing->tokens * sizing->model->hidden, ops = 0;
    int64_t parts = scatters || sizing->shape.sequence_parallel ? sizing->tp : 1;
    int received = 0, gathered = 0;

    (void)hardware;
    for (const struct mw_sizing *stage = sizing; stage; stage = stage->next_stage)
        ops += mw_sizing_op_count(stage);
    g_assert_cmpint(ops, ==, plan->op_count);
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_work *work = &plan->works[plan->ops[i].work];
        if (work->kind == MW_OP_SEND || work->kind == MW_OP_RECV)
            g_assert_cmpint(work->bytes, ==, (all + parts - 1) / parts);
        received += work->kind == MW_OP_RECV;
        if (work->kind != MW_OP_ALL_GATHER || work->object != MW_OBJECT_ACTIVATIONS ||
            work->operator_ != MW_OPERATOR_NONE)
            continue;
        g_assert_cmpint(work->bytes, ==, all);
        g_assert_cmpint(plan->works[plan->ops[i - 1].work].kind, ==, MW_OP_RECV);
        gathered++;
    }
    g_assert_cmpint(gathered, ==, scatters ? received : 0);
    g_assert_cmpint(plan->shape.only_simulated, ==, scatters);
    scattered += scatters;
    mw_plan_free(plan);
}

static void
scatter(struct random_request *request)
{
    request->hardware.stage_scatter = true;
}

static void
test_scatter(void)
{
    for_pipelines_as(540000, scatter, check_hops);
    g_assert_cmpint(scattered, >, 0);
}

/* --- copies of a tied embedding -------------------------------------------------------------- */

static int64_t
params_of_model(const struct mw_sizing *sizing)
{
    return mw_model_params(sizing->model);
}

/* The first and the last stage each have the word embedding, and sum up its gradient once: before
 * ranks reduce it, and ranks agree on the norm, as the check of a step proves. */
static void
check_copies(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    int64_t params = 0, sums = 0;
    char why[256] = "";

    (void)hardware;
    for (const struct mw_sizing *stage = sizing; stage; stage = stage->next_stage) {
        g_assert_cmpint(stage->copied_params, ==, sizing->copied_params);
        params += stage->params;
    }
    if (sizing->tp == 1 && sizing->ep == 1)
        g_assert_cmpint(params, ==, params_of_model(sizing) + sizing->copied_params);
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_work *work = &plan->works[plan->ops[i].work];
        const struct mw_axis_span *stages =
            work->comm == MW_NONE ? NULL : plan->comms[work->comm].spans + MW_AXIS_PP;
        if (work->kind != MW_OP_ALL_REDUCE || work->object != MW_OBJECT_GRADIENTS ||
            stages->count != 2)
            continue;
        g_assert_cmpint(work->bytes, ==, sizing->gradient_element_bytes * sizing->copied_params);
        g_assert_cmpint(stages->stride, ==, sizing->dp * sizing->tp * (sizing->pp - 1));
        sums++;
    }
    g_assert_cmpint(sums, ==, 2);
    mw_plan_check_step(plan, false, why, sizeof why);
    g_assert_cmpstr(why, ==, "");
    for (uint32_t c = 0; c < plan->comm_count && sizing->pp > 2; c++)
        if (plan->comms[c].spans[MW_AXIS_PP].count == 2) /* the copies', with the second stage */
            plan->comms[c].spans[MW_AXIS_PP].stride = (uint32_t)(sizing->dp * sizing->tp);
    mw_plan_check_step(plan, false, why, sizeof why);
    g_assert_true(sizing->pp == 2 || why[0]);
    mw_plan_free(plan);
}

static void
tie(struct random_request *request)
{
    struct mw_settings *s = &request->settings;

    request->model.vocab = MAX(request->model.vocab, 960);
    request->model.tied_embedding = true;
    s->strategy = request->seed % 2 ? MW_STRATEGY_DDP : MW_STRATEGY_ZERO1;
    s->trained = (struct mw_trained){0};
    for (int state = 0; state < MW_STATE_COUNT; state++)
        s->placement[state] = (struct mw_placement){0};
    s->drop_layers = NULL;
}

static void
test_copies(void)
{
    for_pipelines_as(530000, tie, check_copies);
    for_pipelines_as(540000, tie, compare);
}

/* --- what a rank runs ------------------------------------------------------------------------ */

static void
extract(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    char why[256] = "";
    uint32_t ops = 0;

    for (uint32_t p = 0; p < plan->program_count; p++) {
        const struct mw_members *ranks = &plan->programs[p].ranks;
        uint32_t last = mw_members_at(ranks, mw_members_count(ranks) - 1);
        struct mw_plan *own = mw_plan_extract(plan, last, why, sizeof why);

        g_assert_cmpstr(why, ==, "");
        g_assert_true(own->checked);
        g_assert_cmpuint(own->programs[0].ranks.base, ==, last);
        g_assert_cmpmem(own->peak_bytes, sizeof own->peak_bytes, plan->programs[p].peak_bytes,
                        sizeof own->peak_bytes);
        ops += own->op_count;
        mw_plan_free(own);
    }
    g_assert_cmpuint(ops, ==, plan->op_count);
    g_assert_null(mw_plan_extract(plan, plan->world_ranks, why, sizeof why));
    g_assert_cmpstr(why, !=, "");
    mw_plan_free(plan);
}

static void
test_extraction(void)
{
    for_pipelines(520000, extract);
}

/* --- the bubble ------------------------------------------------------------------------------ */

/* Of one stage and micro-batch: passes forward, of inputs' gradients, of weights'. */
struct pass_times {
    int64_t forward, back, weights;
};

static struct pass_times
pass_times(const struct mw_plan *plan, const struct mw_costs *costs, uint32_t program)
{
    struct pass_times sum = {0};

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        const struct mw_work *work = &plan->works[op->work];
        bool computes = work->kind == MW_OP_COMPUTE && op->phase <= MW_PHASE_BACKWARD;
        bool weights = work->object == MW_OBJECT_GRADIENTS;
        int64_t *of = weights                          ? &sum.weights
                      : op->phase == MW_PHASE_BACKWARD ? &sum.back
                                                       : &sum.forward;
        if (computes && op->micro_batch == 0 && plan->lanes[op->lane].program == program)
            *of += costs->work_ns[op->work];
    }
    return sum;
}

/* How long m micro-batches take through p equal stages whose links take no time: as long as m + p -
 * 1 through one (GPipe, PipeDream-flush; Narayanan et al. 2021, Sec. 2.2), with v stretches each as
 * long as m + (p - 1) / v; zero-bubble with m of p and more, m and a bubble of (p - 1) (T_F + T_B -
 * T_W), of forward and the gradients of inputs and of weights (Qi et al. 2023, arXiv
 * 2401.10241); without a flush as long as m (Narayanan et al. 2021, arXiv 2006.09503). */
static int64_t
passes_ns(enum mw_schedule schedule, struct pass_times t, int64_t stages, int64_t stretches,
          int64_t micro_batches)
{
    int64_t each = t.forward + t.back + t.weights;

    if (mw_schedule_row(schedule)->no_flush)
        return micro_batches * each;
    if (schedule == MW_SCHEDULE_ZB_H1)
        return micro_batches * each + (stages - 1) * (t.forward + t.back - t.weights);
    return (micro_batches * stretches + stages - 1) * each / stretches;
}

static int64_t
end_of_passes_ns(const struct mw_plan *plan, const struct mw_timeline *timeline)
{
    int64_t end_ns = 0;

    for (size_t i = 0; i < timeline->row_count; i++) {
        const struct mw_op *op = &plan->ops[timeline->rows[i].op];
        bool computes = plan->works[op->work].kind == MW_OP_COMPUTE;
        if (computes && op->phase == MW_PHASE_BACKWARD)
            end_ns = MAX(end_ns, timeline->rows[i].end_ns);
    }
    return end_ns;
}

/* The version of the parameters in a slot that a compute op reads, -1: none; of QKV alone, as all
 * operators have the same. */
static int64_t
version_read(const struct mw_plan *plan, const struct mw_op *op, const int64_t *in_slot)
{
    const struct mw_work *work = &plan->works[op->work];

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if (work->kind == MW_OP_COMPUTE && work->operator_ == MW_OPERATOR_QKV &&
            plan->uses[u].role == MW_ROLE_PARAMETER)
            return in_slot[plan->uses[u].slot];
    return -1;
}

/* The update with this number leaves its version in its slots; of two versions, the older one is
 * where tensors live. */
static void
write_version(const struct mw_plan *plan, const struct mw_op *op, bool two, int64_t number,
              int64_t *in_slot)
{
    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
        uint32_t slot = plan->uses[u].slot;
        bool home = false;
        for (uint32_t t = 0; t < plan->tensor_count; t++)
            home |= plan->tensors[t].param_slot == slot;
        if (plan->works[op->work].kind == MW_OP_UPDATE && plan->uses[u].role == MW_ROLE_PARAMETER)
            in_slot[slot] = number - (two && home);
    }
}

/* In three steps of a stage: each micro-batch goes back by the version by which it went forward.
 * With an update of its own this was the newest, or with vertical sync the first stage's newest; of
 * two versions it is that of the update before
 * the last, of which the step's gradient makes the next but one. */
static void
follow_versions(const struct mw_sizing *stage, const struct mw_plan *plan)
{
    bool stashes = mw_settings_stashes(&stage->settings);
    bool synced = mw_settings_vertical_sync(&stage->settings);
    int64_t all = stage->settings.grad_accum, newest = 0, updates_ahead = synced ? stage->stage : 0;
    g_autofree int64_t *in_slot = g_new0(int64_t, plan->slot_count);
    g_autofree int64_t *forth = g_new0(int64_t, all);

    for (int64_t step = 1; step <= 3; step++)
        for (uint32_t i = 0; i < plan->op_count; i++) {
            const struct mw_op *op = &plan->ops[i];
            if (plan->lanes[op->lane].program != stage->stage)
                continue;
            if (plan->works[op->work].kind == MW_OP_UPDATE)
                newest = stashes ? step * all + op->micro_batch : step;
            write_version(plan, op, !stashes, newest, in_slot);
            int64_t version = version_read(plan, op, in_slot);
            if (version < 0 || step == 1)
                continue;
            if (op->phase == MW_PHASE_FORWARD)
                forth[op->micro_batch] = version;
            if (op->phase == MW_PHASE_FORWARD && stashes)
                g_assert_cmpint(version, ==, newest - updates_ahead);
            if (op->phase == MW_PHASE_BACKWARD && step == 3)
                g_assert_cmpint(version, ==, stashes ? forth[op->micro_batch] : step - 2);
            if (op->phase == MW_PHASE_BACKWARD && step == 3)
                g_assert_cmpint(version, ==, forth[op->micro_batch]);
        }
}

/* As many versions of parameters as the sources say: two, or as many as micro-batches in flight
 * (arXiv 2006.09503; Narayanan et al., SOSP 2019).  There are those of as many as there are
 * stages behind, and more only so that places come round in a step. */
static void
check_versions(const struct mw_sizing *stage, const struct mw_plan *plan)
{
    int64_t all = stage->settings.grad_accum;
    bool stashes = mw_settings_stashes(&stage->settings);

    for (; stage; stage = stage->next_stage) {
        int64_t behind = stage->pp - stage->stage, flight = stage->micro_batches_in_flight;
        int64_t needed = mw_settings_vertical_sync(&stage->settings) ? stage->pp : behind;
        int64_t versions = stashes ? mw_sizing_versions(stage) : 2;
        int64_t bytes = 2 * versions * stage->params;
        g_assert_cmpint(flight, >=, behind);
        g_assert_true(all % behind || flight == behind);
        g_assert_true(!stashes || all % needed || versions == needed);
        g_assert_true(!stashes || needed != behind || versions == flight);
        g_assert_cmpint(stage->buffers[MW_BUFFER_VERSIONS].count, ==, versions - 1);
        g_assert_cmpint(stage->ledger[MW_TIER_GPU][MW_PURPOSE_PARAMETERS], >=, bytes);
        g_assert_cmpint(stage->ledger[MW_TIER_GPU][MW_PURPOSE_PARAMETERS], <=, bytes * 101 / 100);
        follow_versions(stage, plan);
    }
}

static void
check_bubble(enum mw_schedule schedule, int64_t stages, int64_t stretches, int64_t micro_batches)
{
    struct mw_model model = {.name = "layers alone",
                             .layers = 12,
                             .hidden = 512,
                             .heads = 8,
                             .kv_heads = 8,
                             .head_dim = 64,
                             .value_dim = 64,
                             .ffn = 2048,
                             .mlp_matrices = 2};
    struct mw_hardware hardware = test_hardware("aws-p5-48xlarge");
    struct mw_settings settings;
    struct mw_request request = {&model, &hardware};
    g_autoptr(GError) error = NULL;

    hardware.fabric_latency_s = 0;
    hardware.fabric_start_s = 0;
    hardware.fabric_bytes_per_s = 1e18;
    hardware.gpu_collective_sm_share = 0;
    hardware.gpu_launch_s = 0;
    hardware.gpu_memory_bytes_per_s = 1e18; /* gradients are accumulated in no time */
    mw_settings_init(&settings);
    settings.strategy = MW_STRATEGY_DDP;
    settings.gpus_per_node = settings.pp = stages;
    settings.micro_batch = 1;
    settings.grad_accum = micro_batches;
    settings.schedule = schedule;
    settings.virtual_stages = stretches > 1 ? stretches : MW_AUTO;
    settings.seq = 1024;
    settings.checkpoint_interval = 0; /* recomputation would begin before its gradients come */
    struct mw_settings resolved;
    g_assert_true(mw_settings_complete(&request, &settings, &resolved, &error));
    g_autoptr(GPtrArray) found = mw_planner_candidates(&request, &resolved, &error);
    g_assert_no_error(error);
    struct mw_plan *plan = mw_build_plan(found->pdata[0]);
    struct mw_engine_result result = mw_test_simulate(plan, &hardware, true);
    struct mw_costs costs;

    mw_costs_init(&costs, plan, &hardware);
    struct pass_times times = pass_times(plan, &costs, 0);
    struct pass_times last = pass_times(plan, &costs, (uint32_t)stages - 1);
    g_assert_cmpmem(&times, sizeof times, &last, sizeof last);
    g_assert_cmpint(times.weights > 0, ==, schedule == MW_SCHEDULE_ZB_H1);
    int64_t wanted_ns = passes_ns(schedule, times, stages, stretches, micro_batches);
    int64_t rounded_ns = plan->op_count; /* what takes no time takes a nanosecond at most */
    int64_t took_ns =
        mw_schedule_row(schedule)->no_flush
            ? result.step_ns
            : end_of_passes_ns(plan, &result.timeline) - (result.first_step_ns - result.step_ns);
    if (mw_schedule_row(schedule)->no_flush)
        check_versions(found->pdata[0], plan);
    g_assert_cmpint(took_ns, >=, wanted_ns);
    g_assert_cmpint(took_ns, <=, wanted_ns + rounded_ns);
    /* Attention has the rate of other products in the closed form. */
    double each_ns = (double)(times.forward + times.back + times.weights);
    double bubble = (double)wanted_ns / ((double)micro_batches * each_ns) - 1;
    double allowed = schedule == MW_SCHEDULE_ZB_H1 ? 0.15 * bubble : 1e-6;
    g_assert_cmpfloat_with_epsilon(mw_sizing_bubble(found->pdata[0]), bubble, allowed);
    mw_costs_clear(&costs);
    mw_engine_result_clear(&result);
    mw_plan_free(plan);
}

static void
test_bubble(void)
{
    for (int64_t stages = 2; stages <= 4; stages++)
        for (int64_t micro_batches = 1; micro_batches <= 9; micro_batches++) {
            check_bubble(MW_SCHEDULE_1F1B, stages, 1, micro_batches);
            check_bubble(MW_SCHEDULE_GPIPE, stages, 1, micro_batches);
            if (micro_batches >= stages) {
                check_bubble(MW_SCHEDULE_ZB_H1, stages, 1, micro_batches);
                check_bubble(MW_SCHEDULE_2BW, stages, 1, micro_batches);
                check_bubble(MW_SCHEDULE_PIPEDREAM, stages, 1, micro_batches);
                check_bubble(MW_SCHEDULE_VERTICAL_SYNC, stages, 1, micro_batches);
            }
            for (int64_t stretches = 2; stretches <= 6; stretches++)
                if (12 % (stages * stretches) == 0 && micro_batches % stages == 0)
                    check_bubble(MW_SCHEDULE_INTERLEAVED, stages, stretches, micro_batches);
        }
}

/* Pipelines without a flush have the ops and the bytes that their sizing counts, whoever else
 * shares the states, and a rank's program passes the check alone. */
static void
look_at_no_flush(const struct mw_sizing *sizing, const struct mw_hardware *hardware)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    int64_t ops = 0;

    g_assert_false(plan->barriered);
    for (const struct mw_sizing *stage = sizing; stage; stage = stage->next_stage) {
        ops += mw_sizing_op_count(stage);
        for (int tier = 0; tier < MW_TIER_COUNT; tier++)
            g_assert_cmpint(plan->programs[stage->stage].peak_bytes[tier], ==,
                            stage->need_bytes[tier]);
    }
    g_assert_cmpint(ops, ==, plan->op_count);
    mw_plan_free(plan);
    extract(sizing, hardware);
}

static void
test_no_flush(void)
{
    int looked = 0;

    for (guint32 seed = 550000; looked < MW_CASES(60); seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;
        random_request_init(&request, seed);
        random_request_stages(&request);
        if (request.settings.pp == 1 || request.model.experts)
            continue;
        random_request_fill_bubbles(&request);
        struct mw_settings *s = &request.settings;
        s->schedule = seed % 3 == 2   ? MW_SCHEDULE_2BW
                      : seed % 3 == 1 ? MW_SCHEDULE_PIPEDREAM
                                      : MW_SCHEDULE_VERTICAL_SYNC;
        s->virtual_stages = MW_AUTO;
        s->strategy = seed / 2 % 2 ? MW_STRATEGY_DDP : MW_STRATEGY_ZERO1;
        for (int state = 0; state < MW_STATE_COUNT; state++)
            s->placement[state] = (struct mw_placement){0};
        s->shard_group = MW_SHARD_ALL;
        s->layout = MW_LAYOUT_ZERO16;
        s->grad_accum = s->pp + seed % 4;
        s->commit = 0;
        s->save_every = 0;
        request.model.tied_embedding = false;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing)
            continue;
        look_at_no_flush(sizing, &request.hardware);
        looked++;
    }
}

/* --- where stages begin ---------------------------------------------------------------------- */

struct split_times {
    int64_t layers;
    const double *layer_s;
    double head_s, tail_s;
};

static double
stage_s(const void *data, int64_t stage, int64_t begin, int64_t end)
{
    const struct split_times *times = data;
    double all_s = (stage ? 0 : times->head_s) + (end < times->layers ? 0 : times->tail_s);

    for (int64_t l = begin; l < end; l++)
        all_s += times->layer_s[l];
    return all_s;
}

/* The slowest stage, of those that begin where `begins` says; INFINITY: one has too few or too many
 * layers. */
static double
slowest_s(const struct mw_split_costs *costs, const int64_t *begins)
{
    double slowest = 0;

    for (int64_t stage = 0; stage < costs->stages; stage++) {
        int64_t begin = stage ? begins[stage] : 0;
        int64_t end = stage + 1 == costs->stages ? costs->layers : begins[stage + 1];
        bool good = end - begin >= costs->least && end - begin <= costs->most[stage];
        slowest = good ? MAX(slowest, stage_s(costs->data, stage, begin, end)) : INFINITY;
        if (!good)
            break;
    }
    return slowest;
}

/* By trying all. */
static double
try_all(const struct mw_split_costs *costs, int64_t stage, int64_t *begins)
{
    double best = INFINITY;

    if (stage == costs->stages)
        return slowest_s(costs, begins);
    int64_t first = stage == 1 ? 1 : begins[stage - 1] + 1;
    for (int64_t begin = first; begin + costs->stages - stage <= costs->layers; begin++) {
        begins[stage] = begin;
        best = MIN(best, try_all(costs, stage + 1, begins));
    }
    return best;
}

static void
test_split(void)
{
    int none = 0;

    for (guint32 seed = 0; seed < 600; seed++) {
        g_autoptr(GRand) random = g_rand_new_with_seed(seed);
        int64_t layers = g_rand_int_range(random, 1, 11), begins[11], tried[11], most[11];
        int64_t stages = g_rand_int_range(random, 1, (gint32)layers + 1);
        double layer_s[11];
        const struct split_times times = {layers, layer_s, g_rand_int_range(random, 0, 4),
                                          g_rand_int_range(random, 0, 9)};
        const struct mw_split_costs costs = {
            layers, stages, seed % 3 ? 1 : g_rand_int_range(random, 1, 4), most, stage_s, &times};
        for (int64_t l = 0; l < layers; l++)
            layer_s[l] = seed % 2 ? 3 : g_rand_int_range(random, 1, 9);
        for (int64_t stage = 0; stage < stages; stage++)
            most[stage] = seed % 5 ? layers : g_rand_int_range(random, 1, 6);
        double found = mw_split_find(&costs, begins), best = try_all(&costs, 1, tried);
        g_assert_true(found == best);
        none += isinf(best);
        if (isfinite(best))
            g_assert_cmpfloat(found, ==, slowest_s(&costs, begins));
    }
    g_assert_cmpint(none, >, 0);
    g_assert_cmpint(none, <, 300);
}

/* The fastest of all divisions of the layers from `begin` on, over at most so many GPUs. */
static double
try_replicas(const struct mw_stage_costs *costs, int64_t begin, int64_t gpus)
{
    double best = INFINITY;

    if (begin == costs->layers)
        return 0;
    for (int64_t end = begin + 1; end <= costs->layers; end++)
        for (int64_t m = 1; m <= gpus; m++) {
            double own_s = mw_stage_replicated_s(costs, begin, end, m);
            double rest_s = try_replicas(costs, end, gpus - m);
            double hop_s = end < costs->layers ? costs->hop_s : 0;
            best = fmin(best, fmax(own_s, fmax(rest_s, hop_s)));
        }
    return best;
}

/* PipeDream's planner finds what trying all finds, and says it of the stages that it names. */
static void
test_replicas(void)
{
    int unlike = 0;

    for (guint32 seed = 0; seed < 200; seed++) {
        g_autoptr(GRand) random = g_rand_new_with_seed(seed);
        double layer_s[6];
        int64_t layer_bytes[6];
        struct mw_stage_costs costs = {
            .layers = g_rand_int_range(random, 1, 7),
            .layer_s = layer_s,
            .layer_bytes = layer_bytes,
            .head_s = g_rand_int_range(random, 0, 4),
            .head_bytes = g_rand_int_range(random, 0, 20),
            .tail_s = g_rand_int_range(random, 0, 9),
            .tail_bytes = g_rand_int_range(random, 0, 20),
            .hop_s = g_rand_double_range(random, 0, 3),
            .bytes_per_s = g_rand_double_range(random, 0.5, 6),
        };
        int64_t gpus = g_rand_int_range(random, 1, 8), all = 0;
        struct mw_replicated_stages found;
        double slowest_s = 0;
        for (int64_t l = 0; l < costs.layers; l++) {
            layer_s[l] = seed % 2 ? 3 : g_rand_double_range(random, 1, 9);
            layer_bytes[l] = g_rand_int_range(random, 5, 30);
        }
        mw_stage_replicas_find(&costs, gpus, &found);
        for (int s = 0; s < found.count; s++) {
            int64_t end = s + 1 < found.count ? found.begins[s + 1] : costs.layers;
            g_assert_cmpint(found.begins[s], <, end);
            slowest_s = fmax(
                slowest_s, mw_stage_replicated_s(&costs, found.begins[s], end, found.replicas[s]));
            all += found.replicas[s];
            unlike += s && found.replicas[s] != found.replicas[s - 1];
        }
        if (found.count > 1)
            slowest_s = fmax(slowest_s, costs.hop_s);
        g_assert_cmpint(found.begins[0], ==, 0);
        g_assert_cmpint(all, <=, gpus);
        g_assert_cmpfloat_with_epsilon(found.micro_batch_s, slowest_s, 1e-9);
        g_assert_cmpfloat_with_epsilon(found.micro_batch_s, try_replicas(&costs, 0, gpus), 1e-9);
    }
    g_assert_cmpint(unlike, >, 20);
}

/* The fastest split of the layers from `begin` on into the stages from `stage` on. */
static double
try_splits(const struct mw_stage_costs *costs, const struct mw_stage_replicas *replicas,
           int64_t stage, int64_t begin)
{
    double best = INFINITY;

    if (stage + 1 == replicas->stages)
        return mw_stage_replicated_s(costs, begin, costs->layers, replicas->of[stage]);
    for (int64_t end = begin + 1; end + replicas->stages - stage - 1 <= costs->layers; end++) {
        double own_s = mw_stage_replicated_s(costs, begin, end, replicas->of[stage]);
        best = fmin(best, fmax(own_s, try_splits(costs, replicas, stage + 1, end)));
    }
    return best;
}

/* Stages of given replicas begin where trying all splits finds them fastest. */
static void
test_split_of_replicas(void)
{
    for (guint32 seed = 0; seed < 300; seed++) {
        g_autoptr(GRand) random = g_rand_new_with_seed(seed);
        int64_t layers = g_rand_int_range(random, 2, 10), layer_bytes[10], begins[10] = {0};
        double layer_s[10], slowest_s = 0;
        struct mw_stage_replicas replicas = {
            .stages = (uint16_t)g_rand_int_range(random, 2, (gint32)MIN(layers, 5) + 1)};
        struct mw_stage_costs costs = {.layers = layers,
                                       .layer_s = layer_s,
                                       .layer_bytes = layer_bytes,
                                       .head_s = g_rand_int_range(random, 0, 4),
                                       .tail_s = g_rand_int_range(random, 0, 9),
                                       .tail_bytes = g_rand_int_range(random, 0, 20),
                                       .bytes_per_s = g_rand_double_range(random, 0.5, 20)};
        for (int64_t l = 0; l < layers; l++) {
            layer_s[l] = seed % 2 ? 3 : g_rand_double_range(random, 1, 9);
            layer_bytes[l] = g_rand_int_range(random, 5, 30);
        }
        for (int stage = 0; stage < replicas.stages; stage++)
            replicas.of[stage] = (uint16_t)g_rand_int_range(random, 1, 5);
        double found = mw_stage_replicas_split(&costs, &replicas, begins);
        for (int stage = 0; stage < replicas.stages; stage++) {
            int64_t end = stage + 1 < replicas.stages ? begins[stage + 1] : layers;
            g_assert_cmpint(end, >, begins[stage]);
            slowest_s = fmax(slowest_s,
                             mw_stage_replicated_s(&costs, begins[stage], end, replicas.of[stage]));
        }
        g_assert_cmpfloat_with_epsilon(found, slowest_s, 1e-9);
        g_assert_cmpfloat_with_epsilon(found, try_splits(&costs, &replicas, 0, 0), 1e-9);
    }
}

/* Stages have as many layers with any number of stretches as with one, in stretches of which none
 * has more layers than one before it. */
static void
test_even_stretches(void)
{
    struct mw_settings s, whole;

    mw_settings_init(&s);
    mw_settings_init(&whole);
    s.schedule = MW_SCHEDULE_INTERLEAVED;
    for (int64_t layers = 2; layers < 40; layers++)
        for (s.pp = 2; s.pp <= layers; s.pp++)
            for (s.virtual_stages = 1; s.virtual_stages <= layers / s.pp; s.virtual_stages++) {
                whole.pp = s.pp;
                g_assert_cmpint(mw_settings_stretch_begin(&s, layers, 0), ==, 0);
                for (int64_t stage = 0; stage < s.pp; stage++) {
                    int64_t all = mw_settings_stretch_begin(&whole, layers, stage + 1) -
                                  mw_settings_stretch_begin(&whole, layers, stage);
                    int64_t before = all;
                    for (int64_t k = 0; k < s.virtual_stages; k++) {
                        int64_t number = k * s.pp + stage;
                        int64_t own = mw_settings_stretch_begin(&s, layers, number + 1) -
                                      mw_settings_stretch_begin(&s, layers, number);
                        g_assert_cmpint(own, >, 0);
                        g_assert_cmpint(own, <=, before);
                        before = own;
                        all -= own;
                    }
                    g_assert_cmpint(all, ==, 0);
                }
            }
}

/* Whatever the stages have, the plan is good, and has what its sizing says. */
static void
split_anywhere(struct random_request *request)
{
    struct mw_settings *s = &request->settings;
    g_autoptr(GRand) random = g_rand_new_with_seed(request->seed);

    random_request_stages(request);
    s->schedule = request->seed % 2 ? MW_SCHEDULE_GPIPE : MW_SCHEDULE_1F1B;
    s->virtual_stages = MW_AUTO;
    bool embeds = s->pp > 2 && g_rand_boolean(random); /* the first stage alone */
    bool ends = s->pp > 1 + embeds && request->seed % 4 == 0;
    if (embeds)
        mw_layer_set_add(&s->stage_begins, 0);
    if (ends)
        mw_layer_set_add(&s->stage_begins, request->model.layers);
    for (int64_t stage = 1 + embeds, layer = 0; stage < s->pp - ends; stage++) {
        layer = g_rand_int_range(random, (gint32)layer + 1,
                                 (gint32)(request->model.layers - s->pp + ends + stage + 1));
        mw_layer_set_add(&s->stage_begins, layer);
    }
}

static void
test_split_anywhere(void)
{
    int looked = 0, empty = 0;

    for (guint32 seed = 560000; looked < MW_CASES(90); seed++) {
        struct random_request request;
        g_autoptr(GPtrArray) found = NULL;
        random_request_init(&request, seed);
        split_anywhere(&request);
        const struct mw_sizing *sizing =
            request.settings.pp > 1 ? random_request_fitting(&request, &found) : NULL;
        if (!sizing)
            continue;
        add_up(sizing, &request.hardware);
        extract(sizing, &request.hardware);
        for (const struct mw_sizing *stage = sizing; stage; stage = stage->next_stage)
            empty += !stage->layers;
        looked++;
    }
    g_assert_cmpint(empty, >=, looked / 9);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pipeline/folded-and-unfolded", test_folded_and_unfolded);
    g_test_add_func("/pipeline/sizes", test_sizes);
    g_test_add_func("/pipeline/swapped", test_swapped);
    g_test_add_func("/pipeline/scatter", test_scatter);
    g_test_add_func("/pipeline/copies", test_copies);
    g_test_add_func("/pipeline/extraction", test_extraction);
    g_test_add_func("/pipeline/bubble", test_bubble);
    g_test_add_func("/pipeline/no-flush", test_no_flush);
    g_test_add_func("/pipeline/split", test_split);
    g_test_add_func("/pipeline/replicas", test_replicas);
    g_test_add_func("/pipeline/split-of-replicas", test_split_of_replicas);
    g_test_add_func("/pipeline/even-stretches", test_even_stretches);
    g_test_add_func("/pipeline/split-anywhere", test_split_anywhere);
    return g_test_run();
}
