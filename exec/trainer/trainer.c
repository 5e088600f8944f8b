#include "exec/trainer/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "exec/trainer/checkpoint.h"
#include "exec/trainer/internal.h"
#include "exec/trainer/narrow.h"

/* --- operands -------------------------------------------------------------------------------- */

uint32_t
mw_trainer_slot(const struct mw_trainer *trainer, const struct mw_op *op, enum mw_role role)
{
    for (uint32_t i = 0; i < op->use_count; i++)
        if (trainer->plan->uses[op->use_begin + i].role == role)
            return mw_plan_op_use(trainer->plan, op, i).slot;
    return MW_NONE;
}

struct mw_range
mw_trainer_state_of(const struct mw_trainer *trainer, uint32_t tensor, uint32_t tile)
{
    const struct mw_tensor *it = &trainer->plan->tensors[tensor];

    if (it->state_whole)
        return (struct mw_range){0, mw_tensor_part_elements(it, tile)};
    return mw_tensor_shard(it, trainer->rank, tile);
}

int64_t
mw_trainer_element_bytes(const struct mw_trainer *trainer)
{
    return mw_dtype_element_bytes(trainer->plan->shape.dtype);
}

int64_t
mw_trainer_gradient_bytes(const struct mw_tensor *tensor)
{
    return mw_dtype_element_bytes(tensor->gradient_dtype);
}

int64_t
mw_trainer_gradient_offset_bytes(const struct mw_trainer *trainer, const struct mw_tensor *tensor)
{
    bool sum_first = tensor->summed &&
                     trainer->plan->slots[tensor->gradient_slot].tier == MW_TIER_NVME &&
                     !mw_plan_sums_passing(trainer->plan, tensor);

    return mw_in_pages(sum_first ? mw_trainer_gradient_bytes(tensor) * tensor->shard_elements : 0);
}

/* --- begin and end of a step ----------------------------------------------------------------- */

static bool
read_batch(struct mw_trainer *trainer, int64_t step, int64_t micro_batch, GError **error)
{
    const struct mw_trainer_options *options = &trainer->options;
    int64_t at = micro_batch * trainer->tokens;

    return options->batch(options->data, step, micro_batch, trainer->ids + at,
                          trainer->targets + at, error);
}

/* What no layer writes stays so: other stages' layers, and those that the step leaves out. */
static void
forget_router_losses(struct mw_trainer *trainer)
{
    int64_t count = trainer->micro_batches * trainer->plan->shape.decoder.layers;

    for (int64_t i = 0; trainer->router_losses && i < 2 * count; i++)
        trainer->router_losses[i] = NAN;
}

/* The first micro-batches of a step are read when the step before sends them forward, where it
 * does. */
static bool
begin_step(struct mw_trainer *trainer, int64_t step, GError **error)
{
    const struct mw_trainer_options *options = &trainer->options;
    struct mw_step_numbers *now = &trainer->now;

    now->step = step;
    *trainer->loss = 0;
    forget_router_losses(trainer);
    if (trainer->expert_loads)
        memset(trainer->expert_loads, 0, router_losses(trainer) * sizeof(double));
    now->loss_scale = trainer->scale.scale;
    now->updated = false;
    if (trainer->passes == MW_PASSES_NEXT)
        return true;
    now->learning_rate = options->learning_rate(options->data, now->step);
    if (now->step == trainer->durable.last_step)
        trainer->passes = MW_PASSES_LAST;
    for (int64_t m = mw_trainer_sent_before(trainer); m < trainer->micro_batches; m++)
        if (!read_batch(trainer, now->step, m, error))
            return false;
    return true;
}

/* Steps that may have begun after the step that ends. */
static int64_t
begun_behind(const struct mw_trainer *trainer)
{
    return !trainer->plan->barriered;
}

/* The most of all ranks', in millionths. */
static bool
exchange_most(struct mw_trainer *trainer, GError **error)
{
    const struct mw_ranks *ranks = trainer->options.ranks;
    double most = 0;
    int of_all;

    if (!trainer->expert_loads || !ranks)
        return true;
    for (size_t i = 0; i < router_losses(trainer); i++)
        most = fmax(most, trainer->expert_loads[i]);
    if (!mw_ranks_worst(trainer->options.ranks, 0, (int)lround(1e6 * fmin(most, 1e3)), &of_all,
                        NULL, error))
        return false;
    trainer->expert_most = 1e-6 * of_all;
    return true;
}

/* At the end of a step ranks exchange their losses, which are summed, and whether one wishes that
 * the run ends. */
static bool
exchange(struct mw_trainer *trainer, int *wish, GError **error)
{
    struct mw_ranks *ranks = trainer->options.ranks;
    double told[MW_TOLD_COUNT];

    mw_trainer_find_told(trainer, told);
    if (ranks && !mw_ranks_all_reduce_fp64(ranks, 0, told, MW_TOLD_COUNT, error))
        return false;
    *trainer->loss = told[MW_TOLD_LOSS];
    double routers = fmax(1, told[MW_TOLD_ROUTERS]);
    trainer->router_told[0] = told[MW_TOLD_ROUTER_AUX] / routers;
    trainer->router_told[1] = told[MW_TOLD_ROUTER_Z] / routers;
    trainer->expert_told = told[MW_TOLD_EXPERT_VISITS] > 0
                               ? told[MW_TOLD_EXPERT_LOADS] / told[MW_TOLD_EXPERT_VISITS]
                               : 0;
    *wish = mw_trainer_wish_of(told);
    return exchange_most(trainer, error);
}

/* Ends the run with this step, or with the next one if that may have begun. */
static void
end_early(struct mw_trainer *trainer, int wish)
{
    int64_t last = trainer->now.step + begun_behind(trainer);

    if (last >= trainer->durable.last_step)
        return;
    trainer->ended_by = wish;
    trainer->durable.last_step = last;
    mw_lanes_end_with(trainer->variant->lanes, (uint32_t)(last - trainer->next_step));
}

static bool
commit(struct mw_trainer *trainer, bool diverged, bool *committed, GError **error)
{
    int64_t begin_ns = mw_clock_now_ns();

    trainer->busy_until_ns = INT64_MAX;
    bool good = mw_trainer_commit_step(trainer, diverged, committed, error);
    int64_t end_ns = mw_clock_now_ns();
    trainer->busy_until_ns = end_ns + (end_ns - begin_ns);
    return good;
}

/* The step's loads of each layer, as its report has them. */
static const double *
find_layer_loads(struct mw_trainer *trainer)
{
    int64_t layers = trainer->plan->shape.decoder.layers;
    double *of_step;

    if (!trainer->expert_loads)
        return NULL;
    of_step = trainer->layer_loads + trainer->now.step % 2 * layers;
    memset(of_step, 0, (size_t)layers * sizeof *of_step);
    for (int64_t i = 0; i < trainer->micro_batches * layers; i++)
        of_step[i % layers] += trainer->expert_loads[i] / (double)trainer->micro_batches;
    return of_step;
}

static bool
end_step(struct mw_trainer *trainer, GError **error)
{
    struct mw_step_numbers *now = &trainer->now;
    bool committed, diverged, late = trainer->variant->no_flush != NULL;
    double nothing = 0;
    int wish;

    now->updates += !now->updates_nothing;
    trainer->pending = mw_plan_is_delayed(trainer->plan);
    trainer->pending_scale = now->loss_scale;
    if (!(late ? mw_trainer_tell_late(trainer, &wish, error) : exchange(trainer, &wish, error)))
        return false;
    if (wish)
        end_early(trainer, wish);
    if (late)
        return true;
    if (!mw_trainer_turn_vectors(trainer, error))
        return false;
    trainer->last_loss = *trainer->loss;
    diverged = mw_trainer_diverges(trainer, *trainer->loss);
    if (!commit(trainer, diverged, &committed, error))
        return false;
    /* If all ranks meet here, all have made the step durable. */
    if (committed && !mw_trainer_sum(trainer, 0, &nothing, error))
        return false;
    trainer->reports[now->step % 2] = (struct mw_trainer_step){
        .step = now->step,
        .loss = *trainer->loss /
                (trainer->tokens * trainer->micro_batches * mw_trainer_data_ranks(trainer)),
        .router_aux_loss = trainer->router_told[0],
        .router_z_loss = trainer->router_told[1],
        .expert_imbalance = trainer->expert_told,
        .expert_imbalance_most = trainer->expert_most,
        .layer_imbalance = find_layer_loads(trainer),
        .layers = trainer->expert_loads ? trainer->plan->shape.decoder.layers : 0,
        .skipped_in_row = trainer->scale.skipped_in_row,
        .diverged = diverged,
        .gradient_norm = now->gradient_norm,
        .learning_rate = now->learning_rate,
        .loss_scale = now->loss_scale,
        .skipped = now->skipped,
        .committed = committed,
    };
    return true;
}

/* --- ops ------------------------------------------------------------------------------------- */

static bool
end_by(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    return end_step(trainer, error);
}

static bool
all_to_all(struct mw_trainer *trainer, const struct mw_op *op, GError **error)
{
    const struct mw_work *work = &trainer->plan->works[op->work];

    bool heads = work->object == MW_OBJECT_ACTIVATIONS && !mw_trainer_is_dispatch(work);

    return heads ? mw_trainer_exchange_heads(trainer, op, error)
                 : mw_trainer_collect(trainer, op, error);
}

/* One row for each kind that runs. */
static bool (*const runs[MW_OP_KIND_COUNT])(struct mw_trainer *, const struct mw_op *,
                                            GError **) = {
    [MW_OP_COMPUTE] = mw_trainer_compute,
    [MW_OP_UPDATE] = mw_trainer_update,
    [MW_OP_NORM] = mw_trainer_norm,
    [MW_OP_AGREE] = mw_trainer_agree,
    [MW_OP_ACCUMULATE] = mw_trainer_accumulate,
    [MW_OP_NVME_READ] = mw_trainer_move,
    [MW_OP_NVME_WRITE] = mw_trainer_move,
    [MW_OP_H2D] = mw_trainer_move,
    [MW_OP_D2H] = mw_trainer_move,
    [MW_OP_ALL_GATHER] = mw_trainer_collect,
    [MW_OP_REDUCE_SCATTER] = mw_trainer_collect,
    [MW_OP_ALL_REDUCE] = mw_trainer_collect,
    [MW_OP_ALL_TO_ALL] = all_to_all,
    [MW_OP_RING_PASS] = mw_trainer_pass_ring,
    [MW_OP_BROADCAST] = mw_trainer_collect,
    [MW_OP_SEND] = mw_trainer_hop,
    [MW_OP_RECV] = mw_trainer_hop,
    [MW_OP_COMMIT] = end_by,
};

static bool
perform(struct mw_trainer *trainer, const struct mw_op *op, uint32_t step, GError **error)
{
    enum mw_op_kind kind = (enum mw_op_kind)trainer->plan->works[op->work].kind;

    if (kind == MW_OP_BEGIN)
        return begin_step(trainer, trainer->next_step + step, error);
    if (mw_trainer_reads_next(trainer, op) &&
        !read_batch(trainer, trainer->now.step + 1, op->micro_batch, error))
        return false;
    return runs[kind](trainer, op, error);
}

/* Holds a limited lane until the time that the op's bytes would take at its rate. */
static void
hold_back(const struct mw_trainer *trainer, const struct mw_op *op, int64_t begin_ns)
{
    double rate = trainer->options.lane_bytes_per_s[trainer->plan->lanes[op->lane].kind];

    if (rate <= 0)
        return;
    int64_t end_ns = begin_ns + (int64_t)(trainer->plan->works[op->work].bytes / rate * 1e9);
    struct timespec until = {end_ns / 1000000000, end_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

/* Time waited for other ranks to reach the op's collective, or for blocks of a ring, over all such
 * ops of its lane so far. */
static int64_t
waited_ns(const struct mw_trainer *trainer, const struct mw_op *op)
{
    const struct mw_lane *lane = &trainer->plan->lanes[op->lane];
    const struct mw_work *work = &trainer->plan->works[op->work];
    bool collective = lane->kind == MW_LANE_COLLECTIVE;
    int turns;

    if (trainer->world_ranks == 1 || (!collective && trainer->variant->no_flush))
        return 0;
    if (collective || work->kind == MW_OP_COMMIT)
        return mw_ranks_waited_ns(trainer->options.ranks,
                                  collective ? mw_trainer_stream(trainer, op) : 0) +
               mw_trainer_ring_waited_ns(trainer, work);
    turns = mw_trainer_turn_stream(trainer, op);
    return turns < 0 ? mw_trainer_ring_waited_ns(trainer, work) : trainer->turns_waited_ns[turns];
}

static enum mw_exec_outcome
run_op(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step, GError **error)
{
    struct mw_trainer *trainer = context;
    const struct mw_op numbered = mw_plan_numbered_op(trainer->plan, op), *it = &numbered;

    trainer->moved_ns = mw_clock_now_ns();
    if (mw_trainer_leaves_out(trainer, op))
        return MW_EXEC_DONE;
    if (mw_trainer_queues(trainer, op))
        return mw_trainer_queue(trainer, lanes, op, step, perform, error);
    if (mw_trainer_moves_alone(trainer, it)) {
        mw_trainer_begin_move(trainer, lanes, op, step);
        return MW_EXEC_PENDING;
    }
    if (trainer->plan->lanes[it->lane].kind == MW_LANE_HOST && trainer->options.host_threads)
        omp_set_num_threads(trainer->options.host_threads);
    int64_t begin_ns = mw_clock_now_ns(), before_ns = waited_ns(trainer, it);
    if (!perform(trainer, it, step, error))
        return MW_EXEC_FAILED;
    int64_t after_ns = waited_ns(trainer, it);
    if (after_ns > before_ns)
        mw_lanes_add_wait(lanes, op, step, after_ns - before_ns);
    hold_back(trainer, it, begin_ns);
    trainer->moved_ns = mw_clock_now_ns();
    return MW_EXEC_DONE;
}

/* Other ranks may never reach the point where this one waits for them. */
static void
stop(void *context)
{
    struct mw_trainer *trainer = context;
    mw_ranks_cancel(trainer->options.ranks);
    mw_trainer_stop_ring(trainer);
}

/* --- life ------------------------------------------------------------------------------------ */

static bool
check_op(const struct mw_plan *plan, const struct mw_op *op, GError **error)
{
    const struct mw_work *work = &plan->works[op->work];

    if (work->kind == MW_OP_BEGIN || runs[work->kind])
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "the executor does not run %s of %s",
                mw_op_kind_name(work->kind), mw_work_name(work));
    return false;
}

/* Frozen weights may be narrower: they are widened before their use. */
static bool
check_products(const struct mw_plan *plan, enum mw_dtype dtype, GError **error)
{
    for (uint32_t i = 0; i < plan->work_count; i++) {
        const struct mw_work *work = &plan->works[i];
        for (uint32_t p = 0; p < work->product_count; p++)
            if (work->products[p].dtype != dtype)
                return mw_fail(error, MW_ERROR_INVALID,
                               "the executor multiplies in %s; this plan has products in %s, which "
                               "can be simulated",
                               mw_dtype_name(dtype), mw_dtype_name((int)work->products[p].dtype));
    }
    return true;
}

static bool
check_encodings(const struct mw_plan *plan, GError **error)
{
    for (int e = 0; e < MW_ENCODING_COUNT; e++)
        if (plan->shape.kept_encodings >> e & 1 && !mw_encoding_row(e)->runs)
            return mw_fail(error, MW_ERROR_INVALID,
                           "the executor has no encoding %s, by which this plan keeps activations; "
                           "it can be simulated",
                           mw_encoding_name(e));
    return true;
}

static bool
check_checkpoints(const struct mw_plan *plan, GError **error)
{
    uint8_t dtype = plan->shape.checkpoint_dtype;

    if (dtype == MW_DTYPE_NONE || dtype == MW_DTYPE_MXFP8)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "the executor keeps activation checkpoints in %s, or as all activations; this plan "
                "has them in %s",
                mw_dtype_name(MW_DTYPE_MXFP8), mw_dtype_name(dtype));
    return false;
}

static bool
check_dtype(const struct mw_plan *plan, enum mw_dtype dtype, GError **error)
{
    enum mw_dtype sums = MW_DTYPE_FP32;
    bool one = true;

    for (uint32_t i = 0; i < plan->work_count; i++)
        one &= plan->works[i].kind != MW_OP_COMPUTE || plan->works[i].dtype == dtype;
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const struct mw_tensor *tensor = &plan->tensors[i];
        one &= (tensor->dtype == dtype || (!tensor->trainable && mw_narrow_is(tensor))) &&
               (tensor->summed || tensor->gradient_dtype == dtype);
        sums = tensor->summed && sums == MW_DTYPE_FP32 ? tensor->gradient_dtype : sums;
    }
    if (one && sums != MW_DTYPE_FP32)
        return mw_refuse(error,
                         "the plan sums micro-batches in %s, and a run sums in fp32: plan with "
                         "{software=memwall}, or with {grad-accum=1}",
                         mw_dtype_name(sums));
    if (!one)
        mw_refuse(error,
                  "the plan has parameters, gradients or operators that are not in %s, and a run "
                  "computes all in one data type: plan with {software=memwall} and {dtype=%s}",
                  mw_dtype_name(dtype), mw_dtype_name(dtype));
    return one && check_products(plan, dtype, error) && check_checkpoints(plan, error) &&
           check_encodings(plan, error);
}

static bool
check_variant(const struct mw_plan *plan, enum mw_dtype dtype, GError **error)
{
    if (!plan->shape.has_decoder) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "the plan's model is none that is run here; it can be simulated");
        return false;
    }
    if (mw_plan_unfolded_ops(plan) > MW_PLAN_STEP_OPS_MAX)
        return mw_refuse(error,
                         "a step of %" PRId64 " ops, its sections unfolded: at most %d are run",
                         mw_plan_unfolded_ops(plan), MW_PLAN_STEP_OPS_MAX);
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (!check_op(plan, &plan->ops[i], error))
            return false;
    return mw_trainer_check_context(plan, error) && check_dtype(plan, dtype, error);
}

static bool
check_variants(const struct mw_variants *variants, enum mw_dtype dtype, GError **error)
{
    char why[512];

    if (!mw_variants_check(variants, why, sizeof why))
        return mw_fail(error, MW_ERROR_INVALID, "%s", why);
    for (uint32_t v = 0; v < variants->plan_count; v++) {
        if (!check_variant(variants->plans[v], dtype, error))
            return false;
        /* Where steps go on over their ends, exec/trainer/no_flush.c looks at the ops. */
        if (!variants->plans[v]->shape.no_flush &&
            !mw_plan_check_step(variants->plans[v], true, why, sizeof why))
            return mw_fail(error, MW_ERROR_INVALID, "the plan is no whole step: %s", why);
    }
    return true;
}

static bool
resumes(const struct mw_trainer *trainer)
{
    return trainer->options.commit.on && trainer->options.commit.resume;
}

static bool
reserves_last(const struct mw_trainer *trainer)
{
    return trainer->options.make_space && !resumes(trainer);
}

static bool
reserve_drives(struct mw_trainer *trainer, GError **error)
{
    const struct mw_trainer_options *options = &trainer->options;

    return !reserves_last(trainer) || !trainer->storage.nvme ||
           mw_nvme_reserve(trainer->storage.nvme, options->make_space, options->data, error);
}

static bool
open_places(struct mw_trainer *trainer, GError **error)
{
    const struct mw_trainer_options *options = &trainer->options;
    struct mw_backend_options device = {
        .decoder = &trainer->plan->shape.decoder,
        .sequences = trainer->plan->shape.sequences,
        .seq = mw_step_shape_seq(&trainer->plan->shape),
        .dtype = trainer->kernels->dtype,
        .threads = options->device_threads,
        .node_rank = options->ranks ? mw_ranks_node_index(options->ranks) : 0,
        .node_ranks = options->ranks ? mw_ranks_node_count(options->ranks) : 1,
        .ranks = options->ranks,
        .streams = mw_trainer_streams(trainer),
    };
    struct mw_nvme_options drives = options->drives;

    drives.keep |= options->commit.on;
    drives.whose = options->unchecked ? NULL : mw_trainer_whose;
    drives.whose_data = trainer;
    drives.resume = resumes(trainer);
    drives.later = reserves_last(trainer);
    return mw_storage_open(&trainer->storage, options->variants, options->backend, &device,
                           error) &&
           (!options->ready || options->ready(options->data, error)) &&
           mw_storage_open_drives(&trainer->storage, &drives, error) &&
           mw_trainer_open_collectives(trainer, error);
}

/* Verifies what the run starts from, before any of it is used; the ranks share the work. */
static bool
verify_start(const struct mw_trainer *trainer, GError **error)
{
    const struct mw_trainer_options *o = &trainer->options;

    if (resumes(trainer))
        return true;
    return (!o->weights ||
            mw_safetensors_verify(o->weights, trainer->world_rank, trainer->world_ranks, error)) &&
           (!o->adapters ||
            mw_safetensors_verify(o->adapters, trainer->world_rank, trainer->world_ranks, error)) &&
           (!o->checkpoint || mw_checkpoint_verify(o->checkpoint, trainer->world_rank,
                                                   trainer->world_ranks, error)) &&
           (!o->try_start || !(o->weights || o->adapters || o->checkpoint) ||
            mw_trainer_try_start(trainer, error));
}

static bool
make_state(struct mw_trainer *trainer, GError **error)
{
    mw_trainer_find_program(trainer);
    return (resumes(trainer) ? mw_trainer_resume(trainer, error)
                             : mw_trainer_start_state(trainer, error)) &&
           mw_trainer_start_versions(trainer, error);
}

static bool
set_up(struct mw_trainer *trainer, GError **error)
{
    struct mw_exec_backend run = {run_op, trainer, stop, mw_trainer_queues, 0, NULL};

    /* One rank alone has nobody to wait for. */
    if (trainer->world_ranks > 1)
        run.patience_ns = (int64_t)(trainer->options.patience_s * 1e9);
    run.crew = trainer->crew = mw_crew_new();
    return mw_trainer_set_up(trainer, &run, error);
}

/* Several ranks end only by mw_ranks_abort.  Their files would stay otherwise, and memory must
 * stay, since messages may be in flight. */
static void
give_back_drives(struct mw_trainer *trainer)
{
    if (trainer->world_ranks > 1)
        mw_nvme_close(g_steal_pointer(&trainer->storage.nvme));
}

static const struct mw_cpu_kernels *
host_passes(const struct mw_backend *backend, enum mw_dtype dtype)
{
    return backend->host ? backend->host(dtype) : mw_cpu_kernels(dtype);
}

/* Whether the device of the compute lane has such ops. */
static bool
is_of_device(const struct mw_plan *plan, enum mw_op_kind kind)
{
    for (uint32_t i = 0; i < plan->work_count; i++)
        if (plan->works[i].kind == kind && !plan->works[i].host)
            return true;
    return false;
}

/* Vectors of rows and columns are in host memory: a device that has no update by them has no
 * update, and no norm that adds up squares for them. */
static bool
takes_optimizer(const struct mw_plan *plan, const struct mw_backend *backend, GError **error)
{
    int optimizer = plan->shape.optimizer;
    bool sums = mw_optimizer_row(optimizer)->rule == MW_UPDATE_ADAFACTOR;

    return !mw_optimizer_has_vectors(optimizer) || backend->update_by_vectors ||
           !(is_of_device(plan, MW_OP_UPDATE) || (sums && is_of_device(plan, MW_OP_NORM))) ||
           mw_refuse(error,
                     "{optimizer=%s}: the plan updates on the GPU, where backend %s cannot by "
                     "vectors of rows and columns: the host's cores can, with "
                     "{optimizer-device=cpu} and {gradient-device=cpu}; so can {backend=cpu}",
                     mw_optimizer_name(optimizer), backend->name);
}

bool
mw_trainer_takes(const struct mw_variants *variants, const struct mw_backend *backend,
                 GError **error)
{
    for (uint32_t i = 0; i < variants->plan_count; i++) {
        const struct mw_plan *plan = variants->plans[i];
        if (!mw_backend_computes(backend, (enum mw_dtype)plan->shape.dtype, error) ||
            !takes_optimizer(plan, backend, error))
            return false;
    }
    return true;
}

struct mw_trainer *
mw_trainer_new(const struct mw_trainer_options *options, GError **error)
{
    const struct mw_plan *first = options->variants->plans[0];

    if (!mw_trainer_takes(options->variants, options->backend, error))
        return NULL;
    struct mw_trainer *trainer = g_new0(struct mw_trainer, 1);

    trainer->options = *options;
    trainer->plan = first;
    trainer->kernels = host_passes(options->backend, (enum mw_dtype)trainer->plan->shape.dtype);
    if (!options->loss_scaling.start)
        trainer->options.loss_scaling = mw_loss_scaling_default(trainer->kernels->dtype);
    trainer->scale = mw_loss_scale_start(&trainer->options.loss_scaling);
    if (!mw_trainer_join(trainer, error) ||
        !check_variants(options->variants, trainer->kernels->dtype, error) ||
        !mw_trainer_check_threads(options, error) || !mw_trainer_check_commit(trainer, error) ||
        !verify_start(trainer, error) || !open_places(trainer, error) || !set_up(trainer, error) ||
        !mw_trainer_open_commit(trainer, error) || !reserve_drives(trainer, error) ||
        !make_state(trainer, error)) {
        give_back_drives(trainer);
        if (trainer->world_ranks <= 1)
            mw_trainer_free(trainer);
        return NULL;
    }
    return trainer;
}

void
mw_trainer_free(struct mw_trainer *trainer)
{
    if (!trainer)
        return;
    mw_trainer_take_down(trainer);
    mw_crew_free(trainer->crew);
    mw_trainer_close_commit(trainer);
    mw_trainer_free_vectors(trainer);
    mw_trainer_free_late(trainer);
    g_mutex_clear(&trainer->ring.mutex);
    g_cond_clear(&trainer->ring.changed);
    mw_storage_close(&trainer->storage);
    g_free(trainer);
}

static bool
step_ended(void *data, uint32_t step, const struct mw_timeline *timeline, GError **error)
{
    struct mw_trainer *trainer = data;
    struct mw_trainer_step *report = &trainer->reports[(trainer->next_step + step) % 2];

    if (trainer->variant->no_flush)
        return mw_trainer_report_late(trainer, trainer->next_step + step, timeline, error);
    report->plan = trainer->plan;
    report->timeline = timeline;
    report->let_in_ns = mw_lanes_let_in_ns(trainer->variant->lanes, step);
    return (!trainer->on_step || trainer->on_step(trainer->on_step_data, report, error)) &&
           mw_trainer_check_course(trainer, report, error);
}

/* Sends the first micro-batches of the first step forward, where the step before would have. */
static bool
send_first(struct mw_trainer *trainer, GError **error)
{
    if (!trainer->variant->no_flush || trainer->sent_before)
        return true;
    trainer->passes = MW_PASSES_NEXT;
    trainer->next_step--;
    trainer->sent_before = mw_lanes_run(trainer->variant->lanes, 1, NULL, NULL, error);
    trainer->next_step++;
    return trainer->sent_before;
}

/* Runs steps of one variant. */
static bool
run_steps(struct mw_trainer *trainer, int64_t steps, GError **error)
{
    trainer->passes = MW_PASSES_ALL;
    trainer->telling.first = trainer->next_step;
    bool good = mw_lanes_run(trainer->variant->lanes, steps, step_ended, trainer, error);
    if (!mw_trainer_report_last(trainer, good, error)) {
        give_back_drives(trainer);
        return false;
    }
    trainer->sent_before = trainer->passes == MW_PASSES_ALL;
    trainer->next_step = MIN(trainer->next_step + steps, trainer->durable.last_step + 1);
    return true;
}

bool
mw_trainer_run(struct mw_trainer *trainer, int64_t steps, mw_trainer_on_step on_step, void *data,
               GError **error)
{
    trainer->on_step = on_step;
    trainer->on_step_data = data;
    trainer->durable.last_step = trainer->next_step + steps - 1;
    trainer->moved_ns = mw_clock_now_ns();
    trainer->busy_until_ns = 0;
    trainer->ended_by = 0;
    while (trainer->next_step <= trainer->durable.last_step) {
        int64_t first = trainer->next_step, left = trainer->durable.last_step + 1 - first;
        mw_trainer_turn_to(trainer, first);
        if (!send_first(trainer, error) ||
            !run_steps(trainer, mw_variants_alike(trainer->options.variants, first, left), error))
            return false;
    }
    return true;
}

int64_t
mw_trainer_idle_ns(const struct mw_trainer *trainer)
{
    int64_t moved_ns = trainer->moved_ns, busy_until_ns = trainer->busy_until_ns;
    int64_t idle_ns = mw_clock_now_ns() - MAX(moved_ns, busy_until_ns);

    return MAX(idle_ns, 0);
}

int
mw_trainer_ended_by(const struct mw_trainer *trainer)
{
    return trainer->ended_by;
}

int64_t
mw_trainer_next_step(const struct mw_trainer *trainer)
{
    return trainer->next_step;
}
