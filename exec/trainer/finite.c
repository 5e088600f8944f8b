/*
 * What is not finite is neither used nor kept.
 *
 * A step whose loss or gradient is not finite updates nothing.  Where a smaller loss scale can
 * mend that, the step is as good as any; else it is not committed, and too many in a row, or one
 * at the end of a run, end it.  State that an update has made infinite ends it at once: the last
 * commit still has the state before.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/spell.h"
#include "exec/data/weights.h"
#include "exec/trainer/internal.h"
#include "exec/trainer/kept.h"

/* --- numbers --------------------------------------------------------------------------------- */

/* The largest fp32 numbers that stay finite when they are rounded to the type, to nearest with ties
 * to even. */
enum { FP32_MAX = 0x7f7fffff, BF16_MAX = 0x7f7f7fff, FP16_MAX = 0x477fefff };

static int32_t
most_of(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP16 ? FP16_MAX : dtype == MW_DTYPE_FP32 ? FP32_MAX : BF16_MAX;
}

/* Whether no magnitude exceeds `most`, compared as bits.  The loop has no branch, so it is
 * vectorized; a checked memcpy (_FORTIFY_SOURCE) would prevent that. */
static bool
are_within(const char *values, int64_t count, int32_t most)
{
    uint32_t above = 0;

#pragma omp simd reduction(| : above)
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        __builtin_memcpy(&bits, values + 4 * i, 4);
        above |= (uint32_t)most - (bits & 0x7fffffff);
    }
    return !(above >> 31);
}

/* The part of bytes [at, at + bytes) of a chunk's state that is of one array. */
struct part {
    enum mw_dtype dtype;
    int64_t skipped, at, bytes; /* from the bytes and from the array to the part; below 1: none */
};

static struct part
part_of(const struct mw_plan *plan, uint32_t chunk, int kept, int64_t at, int64_t bytes)
{
    int optimizer = plan->shape.optimizer;
    int64_t elements = plan->chunks[chunk].elements;
    int64_t begin = mw_optimizer_kept_at_bytes(optimizer, kept, elements);
    int64_t end = mw_optimizer_kept_at_bytes(optimizer, kept + 1, elements);
    int64_t first = MAX(at, begin);

    return (struct part){
        .dtype = mw_optimizer_row(optimizer)->dtypes[kept],
        .skipped = first - at,
        .at = first - begin,
        .bytes = MIN(at + bytes, end) - first,
    };
}

static bool
is_finite(const struct mw_trainer *trainer, int kept, const struct part *part, const char *bytes)
{
    float value;

    if (part->dtype == MW_DTYPE_FP32)
        return are_within(bytes, part->bytes / 4,
                          kept == MW_KEPT_PARAMETER ? most_of(trainer->kernels->dtype) : FP32_MAX);
    return mw_kept_first_invalid(part->dtype, false, bytes, part->at, part->bytes, &value) < 0;
}

/* Checks bytes [at, at + bytes) of a chunk's state: parameters, which must also be finite in the
 * run's type, then momentum and variance. */
bool
mw_trainer_is_finite(const struct mw_trainer *trainer, uint32_t chunk, int64_t at, int64_t bytes,
                     const void *state)
{
    for (int k = 0; k < MW_KEPT_COUNT; k++) {
        struct part part = part_of(trainer->plan, chunk, k, at, bytes);
        if (part.bytes > 0 && !is_finite(trainer, k, &part, (const char *)state + part.skipped))
            return false;
    }
    return true;
}

/* Checks any state, wherever it goes. */
bool
mw_trainer_are_finite(const float *values, int64_t count)
{
    return are_within((const char *)values, count, FP32_MAX);
}

/* The sign counts if the other bits are not 0: their negation then has the highest bit set. */
bool
mw_trainer_are_squares(const float *values, int64_t count)
{
    uint32_t above = 0;

#pragma omp simd reduction(| : above)
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        __builtin_memcpy(&bits, values + i, 4);
        uint32_t rest = bits & 0x7fffffff;
        above |= ((uint32_t)FP32_MAX - rest) | (bits & (0 - rest));
    }
    return !(above >> 31);
}

static bool
are_right(int state, const float *values, int64_t count)
{
    return state == MW_KEPT_VARIANCE ? mw_trainer_are_squares(values, count)
                                     : mw_trainer_are_finite(values, count);
}

int64_t
mw_trainer_first_invalid(int state, const float *values, int64_t count)
{
    int64_t i = 0;

    if (are_right(state, values, count))
        return -1;
    while (are_right(state, values + i, 1))
        i++;
    return i;
}

static bool
refuse_element(const struct mw_trainer *trainer, uint32_t chunk, int state, int64_t element,
               float value, GError **error)
{
    const struct mw_trainer_chunk *it = &trainer->chunks[chunk];
    int64_t p = it->piece_count - 1;

    while (p > 0 && it->pieces[p].at > element)
        p--;
    g_autofree char *name =
        p < 0 ? g_strdup("padding")
              : mw_trainer_element_name(
                    &trainer->plan->shape.decoder, &trainer->plan->tensors[it->pieces[p].tensor],
                    it->pieces[p].tile, it->pieces[p].first + element - it->pieces[p].at, state);
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s, is %g: must be a finite number%s", name,
                (double)value, state == MW_KEPT_VARIANCE ? ", at least 0" : "");
    return false;
}

/* The array's first invalid element among these bytes of it, and its value; -1: none. */
static int64_t
first_invalid(int kept, const struct part *part, const char *bytes, float *value)
{
    const float *values = (const float *)(const void *)bytes;

    if (part->dtype == MW_DTYPE_FP32 && mw_trainer_first_invalid(kept, values, part->bytes / 4) < 0)
        return -1;
    return mw_kept_first_invalid(part->dtype, kept == MW_KEPT_VARIANCE, bytes, part->at,
                                 part->bytes, value);
}

bool
mw_trainer_check_state(const struct mw_trainer *trainer, uint32_t chunk, int64_t at, int64_t bytes,
                       const char *state, GError **error)
{
    for (int k = 0; k < MW_KEPT_COUNT; k++) {
        struct part part = part_of(trainer->plan, chunk, k, at, bytes);
        float value;
        int64_t wrong = part.bytes > 0 ? first_invalid(k, &part, state + part.skipped, &value) : -1;
        if (wrong >= 0)
            return refuse_element(trainer, chunk, k, wrong, value, error);
    }
    return true;
}

/* Whether fp32 holds the square of each of the gradient's elements, whatever they are, as the
 * variance requires. */
bool
mw_trainer_fits(double norm)
{
    return isfinite(norm) && norm * norm <= (double)FLT_MAX;
}

/* --- a step ---------------------------------------------------------------------------------- */

bool
mw_trainer_diverges(const struct mw_trainer *trainer, double loss)
{
    return !isfinite(loss) || (trainer->now.skipped && trainer->now.scale_was_least);
}

/* As many steps as it takes to halve the scale from its largest to its smallest, and eight more. */
static int64_t
skipped_max(const struct mw_trainer *trainer)
{
    const struct mw_loss_scaling *scaling = &trainer->options.loss_scaling;

    return trainer->options.skipped_in_row_max ? trainer->options.skipped_in_row_max
                                               : 8 + lround(log2(scaling->max / scaling->min));
}

/* The changes that may help.  g_free it. */
static char *
means(const struct mw_trainer *trainer)
{
    return mw_spelled(trainer->options.optimizer.clip_norm > 0
                          ? "a smaller {lr} or {clip}, a longer {warmup}, or other data"
                          : "{clip=1}, a smaller {lr}, a longer {warmup}, or other data");
}

/* How to start anew.  g_free it. */
static char *
anew(const struct mw_trainer *trainer)
{
    const char *told = trainer->options.commit.anew;

    return told ? g_strdup(told) : mw_spelled("start anew ({overwrite})");
}

/* Advice for a durable step that leads to the same divergence again. */
static char *
advice_before(const struct mw_trainer *trainer, int64_t last_update)
{
    g_autofree char *how = means(trainer), *again = anew(trainer);
    int64_t step = trainer->durable.last_committed, before = trainer->durable.before_last;

    /* Later steps that update overwrite the state of the step before. */
    if (before >= 0 && step >= last_update)
        return mw_spelled_printf(
            "step %" G_GINT64_FORMAT ", the last that is durable, leads here "
            "again: {resume} {at=previous} continues from step %" G_GINT64_FORMAT
            ", with %s; if that diverges too, %s, or {from} an earlier "
            "checkpoint",
            step + 1, before + 1, how, again);
    return mw_spelled_printf("step %" G_GINT64_FORMAT
                             " is the last that is durable, and leads here "
                             "again: %s, or {from} an earlier checkpoint, with %s",
                             step + 1, again, how);
}

/* The last step that has changed the parameters determines everything after it.  A resume from it
 * computes the same again; from an earlier step, another rate makes other parameters. */
static char *
advice(const struct mw_trainer *trainer, int64_t last_update)
{
    g_autofree char *how = means(trainer);
    int64_t step = trainer->durable.last_committed;
    bool delayed = mw_plan_is_delayed(trainer->plan); /* the record has its gradients */

    if (!trainer->durable.commit)
        return mw_spelled_printf("start anew, or {from} an earlier checkpoint, with %s", how);
    if (step < 0)
        return mw_spelled_printf("no step is durable: start anew, or {from} an earlier checkpoint, "
                                 "with %s",
                                 how);
    if (last_update < 0)
        return mw_spelled_printf("no step has updated anything: start anew, or {from} an earlier "
                                 "checkpoint, with %s",
                                 how);
    if (step < last_update - delayed)
        return mw_spelled_printf("step %" G_GINT64_FORMAT " is the last that is durable: {resume} "
                                 "continues from there, with %s",
                                 step + 1, how);
    return advice_before(trainer, last_update);
}

/* All ranks come here, and the first to return ends the others.  By then the log of each has the
 * step.  A lost rank changes nothing in the message. */
static void
wait_for_all(const struct mw_trainer *trainer)
{
    if (trainer->world_ranks > 1)
        (void)mw_ranks_barrier(trainer->options.ranks, MW_TRAINER_END_STREAM, NULL);
}

static bool
give_up(struct mw_trainer *trainer, const struct mw_trainer_step *step, GError **error)
{
    g_atomic_int_set(&trainer->has_diverged, 1);
    wait_for_all(trainer);
    g_autofree char *todo = advice(trainer, step->step - MAX(step->skipped_in_row, 1));
    g_autofree char *skipped =
        step->skipped_in_row > 1
            ? g_strdup_printf(", as in the %" G_GINT64_FORMAT " step%s before",
                              step->skipped_in_row - 1, step->skipped_in_row == 2 ? "" : "s")
            : g_strdup("");

    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "step %" G_GINT64_FORMAT ": the %s not finite%s: the run has diverged; %s",
                step->step + 1, isfinite(step->loss) ? "gradient is" : "loss is", skipped, todo);
    return false;
}

bool
mw_trainer_check_course(struct mw_trainer *trainer, const struct mw_trainer_step *step,
                        GError **error)
{
    bool last = step->step == trainer->durable.last_step;
    /* Stages that update by themselves are no longer of one model. */
    bool apart = trainer->variant->no_flush != NULL;
    bool over = step->skipped_in_row >= skipped_max(trainer) || ((last || apart) && step->diverged);

    return !over || give_up(trainer, step, error);
}

bool
mw_trainer_has_diverged(const struct mw_trainer *trainer)
{
    return g_atomic_int_get(&trainer->has_diverged);
}

bool
mw_trainer_refuse_state(struct mw_trainer *trainer, uint32_t chunk, GError **error)
{
    const struct mw_trainer_chunk *it = &trainer->chunks[chunk];
    g_autofree char *todo = advice(trainer, trainer->now.step);
    g_autofree char *name = it->piece_count
                                ? mw_trainer_tensor_name(trainer, it->pieces, it->pieces->first)
                                : g_strdup("padding");

    g_atomic_int_set(&trainer->has_diverged, 1);
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "step %" G_GINT64_FORMAT ": its update made state from %s on that is not finite in "
                "fp32 and %s: the run has diverged; %s",
                trainer->now.step + 1, name, mw_dtype_name(trainer->kernels->dtype), todo);
    return false;
}
