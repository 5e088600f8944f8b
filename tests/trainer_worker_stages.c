/* Pipelines without a flush, and ranks whose gradients are updates one by one, against a recurrence
 * in fp64 that has the versions of the parameters as their papers do, and knows neither plan nor
 * ranks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/reference_decoder.h"
#include "tests/trained.h"
#include "tests/trainer_worker.h"
#include "tests/whole_model.h"

#define STEPS 5
#define MODEL "layers=4,hidden=24,heads=4,ffn=40,vocab=61,architecture=llama"
#define SEQUENCES 2
#define SEQ 9
#define RATE 1e-2
/* trained.c trains with these. */
#define BETA1 0.9
#define BETA2 0.99
#define EPSILON 1e-8
#define DECAY 0.1
#define CLIP 0.5

/* fp32 against fp64: of losses, and of what training has changed in the weights.  By versions that
 * are one update newer, where there is one, both are off by more than a hundred times as much,
 * which the test shows too. */
#define LOSS_TOLERANCE 2e-5
#define STATE_TOLERANCE 5e-4

/* --- the recurrence -------------------------------------------------------------------------- */

struct recurrence {
    struct mw_decoder decoder;
    int64_t stages, micro_batches, elements;
    int64_t ranks; /* whose gradients are updates one by one; 0: none */
    bool stashes, vertical_sync;
    int64_t newer; /* by so many updates than it should be: what must not come out */
    int *stage_of; /* [elements] */
    bool *decays;  /* [elements] */
    double *w, *m, *v;
    GPtrArray *versions; /* of all parameters: after so many updates */
    double losses[STEPS], norms[STEPS];
};

/* The embedding is with the first layers, what is behind the last layer with these. */
static void
find_elements(struct recurrence *it)
{
    g_autoptr(GArray) tensors = mw_whole_tensors(&it->decoder);
    int64_t layers = it->decoder.layers;

    for (guint i = 0; i < tensors->len; i++) {
        const struct mw_whole_tensor *tensor = &g_array_index(tensors, struct mw_whole_tensor, i);
        bool first = tensor->begin < mw_whole_begin(&it->decoder, MW_OPERATOR_NORM1, 0);
        int64_t layer = first ? 0 : layers - 1;
        for (int64_t l = 0; l < layers && !first; l++)
            if (mw_whole_begin(&it->decoder, MW_OPERATOR_NORM1, l) <= tensor->begin)
                layer = l;
        for (int64_t e = tensor->begin; e < tensor->begin + tensor->weight.elements; e++) {
            it->stage_of[e] = (int)(layer * it->stages / layers);
            it->decays[e] = tensor->weight.rank > 1;
        }
    }
}

/* Parameters of this update, or the first. */
static const double *
version(const struct recurrence *it, int64_t update)
{
    return it->versions->pdata[MAX(0, update)];
}

/* With a norm for each stage. */
static void
update(struct recurrence *it, const double *gradients)
{
    int64_t step = it->versions->len;
    g_autofree double *squares = g_new0(double, it->stages);

    for (int64_t e = 0; e < it->elements; e++)
        squares[it->stage_of[e]] += gradients[e] * gradients[e];
    if (it->ranks)
        it->norms[(step - 1) / it->ranks] += sqrt(squares[0]) / (double)it->ranks;
    for (int64_t e = 0; e < it->elements; e++) {
        double g = gradients[e] * fmin(1, CLIP / sqrt(squares[it->stage_of[e]]));
        it->m[e] = BETA1 * it->m[e] + (1 - BETA1) * g;
        it->v[e] = BETA2 * it->v[e] + (1 - BETA2) * g * g;
        double change = it->m[e] / (1 - pow(BETA1, (double)step)) /
                        (sqrt(it->v[e] / (1 - pow(BETA2, (double)step))) + EPSILON);
        it->w[e] -= RATE * (change + (it->decays[e] ? DECAY * it->w[e] : 0));
    }
    g_ptr_array_add(it->versions, g_memdup2(it->w, it->elements * sizeof(double)));
}

/* What a micro-batch is computed with.  2BW: in step t all stages have the updates up to that of
 * step t - 2, as the newest one came when passes of this step were under way (arXiv 2006.09503:
 * W(t+1) = W(t) - v f(W(t-1))).  Weight stashing: of the updates before this micro-batch's,
 * those of as many are missing as there are stages behind (PipeDream, SOSP 2019, Sec. 3.3); with
 * vertical sync as many as of the first stage.  A rank goes on with the parameters behind its own
 * update, and those of all others come before its next one. */
static double *
parameters(const struct recurrence *it, int64_t step)
{
    double *params = g_new(double, it->elements);
    int64_t newest = it->versions->len - 1;

    for (int64_t e = 0; e < it->elements; e++) {
        int64_t before = it->vertical_sync ? 0 : it->stage_of[e];
        int64_t missing = it->ranks     ? it->ranks - 1
                          : it->stashes ? it->stages - 1 - before
                                        : MIN(step, 1);
        params[e] = version(it, newest - MAX(0, missing - it->newer))[e];
    }
    return params;
}

static void
add_micro_batch(struct recurrence *it, int64_t step, int64_t micro_batch, double *gradients)
{
    int32_t ids[SEQUENCES * SEQ], targets[SEQUENCES * SEQ];
    g_autofree double *params = parameters(it, step);
    g_autofree double *own = g_new0(double, it->elements);
    struct mw_reference reference = {&it->decoder, params, ids, targets, SEQUENCES, SEQ};
    double share = it->stashes ? 1 : 1.0 / (double)it->micro_batches;

    trained_batch(step, micro_batch, SEQUENCES * SEQ, it->decoder.vocab, ids, targets);
    double all = (double)(it->micro_batches * MAX(1, it->ranks));
    it->losses[step] += mw_reference_run(&reference, NULL, NULL, own) / all;
    for (int64_t e = 0; e < it->elements; e++)
        gradients[e] += own[e] * share;
}

/* A step in which each rank's micro-batches make an update. */
static void
take_turns(struct recurrence *it, int64_t step, double *gradients)
{
    for (int64_t rank = 0; rank < it->ranks; rank++) {
        for (int64_t b = 0; b < it->micro_batches; b++)
            add_micro_batch(it, step, b * it->ranks + rank, gradients);
        update(it, gradients);
        memset(gradients, 0, it->elements * sizeof *gradients);
    }
}

static void
recur(struct recurrence *it)
{
    g_autofree double *gradients = g_new0(double, it->elements);

    if (it->ranks) {
        g_ptr_array_add(it->versions, g_memdup2(it->w, it->elements * sizeof(double)));
        for (int64_t step = 0; step < STEPS; step++)
            take_turns(it, step, gradients);
        return;
    }
    g_ptr_array_add(it->versions, g_memdup2(it->w, it->elements * sizeof(double)));
    for (int64_t step = 0; step < STEPS; step++)
        for (int64_t b = 0; b < it->micro_batches; b++) {
            add_micro_batch(it, step, b, gradients);
            if (!it->stashes && b + 1 < it->micro_batches)
                continue;
            update(it, gradients);
            memset(gradients, 0, it->elements * sizeof *gradients);
        }
}

static void
recurrence_init(struct recurrence *it, const struct mw_decoder *decoder, const double *start)
{
    it->decoder = *decoder;
    it->elements = mw_weights_elements(decoder);
    it->stage_of = g_new0(int, it->elements);
    it->decays = g_new0(bool, it->elements);
    it->w = g_memdup2(start, it->elements * sizeof *start);
    it->m = g_new0(double, it->elements);
    it->v = g_new0(double, it->elements);
    it->versions = g_ptr_array_new_with_free_func(g_free);
    find_elements(it);
    recur(it);
}

static void
recurrence_clear(struct recurrence *it)
{
    g_free(it->stage_of);
    g_free(it->decays);
    g_free(it->w);
    g_free(it->m);
    g_free(it->v);
    g_ptr_array_unref(it->versions);
}

/* --- the ranks ------------------------------------------------------------------------------- */

/* Of this rank's stage, and of the model. */
struct seen {
    double losses[STEPS], norms[STEPS];
    struct mw_decoder decoder;
    struct mw_tensor *tensors;
    uint32_t count;
};

static void
note_plan(void *data, const struct mw_plan *plan)
{
    struct seen *seen = data;

    seen->decoder = plan->shape.decoder;
    seen->tensors = g_memdup2(plan->tensors, plan->tensor_count * sizeof *plan->tensors);
    seen->count = plan->tensor_count;
}

/* All ranks' weights, each of its own stage, as the reference has them. */
static double *
join_weights(struct mw_ranks *ranks, const struct seen *seen, const struct trained *trained)
{
    double *whole = g_new0(double, mw_weights_elements(&seen->decoder));
    int64_t at = 0;
    GError *error = NULL;

    for (uint32_t t = 0; t < seen->count; t++)
        for (uint32_t tile = 0; tile < seen->tensors[t].tiles; tile++) {
            const struct mw_tensor *tensor = &seen->tensors[t];
            struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, tile};
            mw_whole_scatter(&seen->decoder, whole, &part, MW_DTYPE_FP32, trained->state + at);
            at += tensor->tile_elements;
        }
    trainer_worker_meet(
        ranks,
        mw_ranks_all_reduce_fp64(ranks, 0, whole, mw_weights_elements(&seen->decoder), &error),
        error);
    return whole;
}

/* After so many steps. */
static double *
train(const struct trained_case *what, int64_t steps, struct seen *seen)
{
    struct trained_course course = {.steps = steps,
                                    .threads = 1,
                                    .directory = trainer_worker_directory,
                                    .on_plan = note_plan,
                                    .data = seen};
    struct trained trained;
    GError *error = NULL;

    trainer_worker_meet(what->ranks, trained_train(what, &course, &trained, &error), error);
    double *whole = join_weights(what->ranks, seen, &trained);
    for (int64_t s = 0; s < steps; s++) {
        seen->losses[s] = trained.losses[s];
        seen->norms[s] = trained.norms[s];
    }
    trained_clear(&trained);
    g_free(seen->tensors);
    return whole;
}

static double
loss_off_by(const double *losses, const struct recurrence *it)
{
    double most = 0;

    for (int s = 0; s < STEPS; s++)
        most = fmax(most, fabs(losses[s] / it->losses[s] - 1));
    return most;
}

static double
state_off_by(const double *weights, const struct recurrence *it)
{
    double off = 0, changed = 0;

    for (int64_t e = 0; e < it->elements; e++) {
        off += fabs(weights[e] - it->w[e]);
        changed += fabs(it->w[e] - version(it, 0)[e]);
    }
    return off / changed;
}

/* Each rank's gradient has a norm of its own, which stages have too, but do not tell. */
static void
compare_norms(struct mw_ranks *ranks, const struct recurrence *it, const double *norms)
{
    for (int s = 0; it->ranks && s < STEPS; s++)
        if (!(fabs(norms[s] / it->norms[s] - 1) < 100 * LOSS_TOLERANCE))
            trainer_worker_fail(ranks, "step %d: norm %.9g, not %.9g", s, norms[s], it->norms[s]);
}

static void
compare(struct mw_ranks *ranks, const char *name, struct recurrence right, struct recurrence wrong,
        const double *start, const double *weights, const struct seen *seen)
{
    recurrence_init(&right, &seen->decoder, start);
    recurrence_init(&wrong, &seen->decoder, start);
    double loss = loss_off_by(seen->losses, &right), state = state_off_by(weights, &right);
    double other_loss = loss_off_by(seen->losses, &wrong),
           other_state = state_off_by(weights, &wrong);

    fprintf(stderr,
            "%s: off by %.2g in the loss, %.2g in the weights; of other versions %.2g, %.2g\n",
            name, loss, state, other_loss, other_state);
    if (!(loss < LOSS_TOLERANCE && state < STATE_TOLERANCE && other_loss > 100 * LOSS_TOLERANCE &&
          other_state > 100 * STATE_TOLERANCE))
        trainer_worker_fail(ranks, "%s: losses or weights are not those of its versions", name);
    compare_norms(ranks, &right, seen->norms);
    recurrence_clear(&right);
    recurrence_clear(&wrong);
}

static struct trained_case
case_of(struct mw_ranks *ranks, enum mw_schedule schedule, int64_t micro_batches)
{
    return (struct trained_case){.name = mw_schedule_row(schedule)->name,
                                 .model = MODEL,
                                 .strategy = MW_STRATEGY_DDP,
                                 .dtype = MW_DTYPE_FP32,
                                 .sequences = SEQUENCES,
                                 .seq = SEQ,
                                 .grad_accum = micro_batches,
                                 .optimizer_chunk = 3000,
                                 .schedule = schedule,
                                 .pp = mw_ranks_count(ranks),
                                 .ranks = ranks};
}

/* On the first rank alone.  What must not come out are versions that are one update newer, with
 * vertical sync those of stages that do without. */
static void
check(struct mw_ranks *ranks, enum mw_schedule schedule, int64_t micro_batches)
{
    const struct mw_schedule_row *row = mw_schedule_row(schedule);
    struct trained_case what = case_of(ranks, schedule, micro_batches);
    struct recurrence of = {.stages = what.pp,
                            .micro_batches = micro_batches,
                            .stashes = row->stashes,
                            .vertical_sync = row->vertical_sync};
    struct recurrence wrong = of;
    struct seen seen;
    g_autofree double *start = train(&what, 0, &seen);
    g_autofree double *weights = train(&what, STEPS, &seen);

    if (mw_ranks_index(ranks))
        return;
    seen.decoder.tied_embedding = false;
    wrong.newer = !of.vertical_sync;
    wrong.vertical_sync = false;
    compare(ranks, what.name, of, wrong, start, weights, &seen);
}

int
trainer_worker_two_versions(struct mw_ranks *ranks)
{
    int count = mw_ranks_count(ranks);

    check(ranks, MW_SCHEDULE_2BW, count);
    check(ranks, MW_SCHEDULE_2BW, count + 1);
    mw_ranks_leave(ranks);
    return 0;
}

int
trainer_worker_stashes(struct mw_ranks *ranks)
{
    int count = mw_ranks_count(ranks);

    for (int more = count > 2; more <= 1; more++) { /* of many stages where places differ alone */
        check(ranks, MW_SCHEDULE_PIPEDREAM, count + more * (count - 1));
        check(ranks, MW_SCHEDULE_VERTICAL_SYNC, count + more * (count - 1));
    }
    mw_ranks_leave(ranks);
    return 0;
}

/* --- ranks that update one after the other ---------------------------------------------------- */

static struct trained_case
asynchronous_case(struct mw_ranks *ranks, int64_t micro_batches)
{
    return (struct trained_case){.name = "asynchronous",
                                 .model = MODEL,
                                 .strategy = MW_STRATEGY_ZERO1,
                                 .dtype = MW_DTYPE_FP32,
                                 .sequences = SEQUENCES,
                                 .seq = SEQ,
                                 .grad_accum = micro_batches,
                                 .optimizer_chunk = 3000,
                                 .asynchronous = true,
                                 .ranks = ranks};
}

/* What must not come out are versions that are one update newer. */
static void
check_asynchronous(struct mw_ranks *ranks, int64_t micro_batches)
{
    struct trained_case what = asynchronous_case(ranks, micro_batches);
    struct recurrence of = {.stages = 1, .micro_batches = micro_batches};
    struct recurrence wrong;
    struct seen seen;

    of.ranks = mw_ranks_count(ranks);
    wrong = of;
    wrong.newer = 1;
    g_autofree double *start = train(&what, 0, &seen);
    g_autofree double *weights = train(&what, STEPS, &seen);
    if (!mw_ranks_index(ranks))
        compare(ranks, what.name, of, wrong, start, weights, &seen);
}

int
trainer_worker_asynchronous(struct mw_ranks *ranks)
{
    check_asynchronous(ranks, 1);
    check_asynchronous(ranks, 2);
    mw_ranks_leave(ranks);
    return 0;
}

/* --- another plan ---------------------------------------------------------------------------- */

/* The slot of the operator's parameters where most ops of the layer find it. */
static uint32_t
home_of(const struct mw_plan *plan, const struct mw_op *like)
{
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (plan->tensors[t].layer == like->layer &&
            plan->tensors[t].operators >> plan->works[like->work].operator_ & 1)
            return plan->tensors[t].param_slot;
    g_error("no tensor");
}

/* One operator of a pass of the next step takes the older version. */
static void
mix_versions(void *data, const struct mw_plan *plan)
{
    (void)data;
    for (uint32_t i = plan->op_count; i-- > 0;) {
        const struct mw_op *op = &plan->ops[i];
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
            if (op->phase == MW_PHASE_FORWARD && plan->works[op->work].kind == MW_OP_COMPUTE &&
                plan->uses[u].role == MW_ROLE_PARAMETER &&
                plan->uses[u].slot != home_of(plan, op)) {
                plan->uses[u].slot = home_of(plan, op);
                return;
            }
    }
}

int
trainer_worker_mixes_versions(struct mw_ranks *ranks)
{
    struct trained_case what = case_of(ranks, MW_SCHEDULE_2BW, 3);
    struct trained_course course = {
        .steps = 1, .threads = 1, .directory = trainer_worker_directory, .on_plan = mix_versions};
    struct trained trained;
    GError *error = NULL;

    if (!trained_train(&what, &course, &trained, &error))
        return trainer_worker_give_up(ranks, what.name, error);
    return 0;
}
