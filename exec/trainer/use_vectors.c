/* Vectors of rows and columns in a run (exec/trainer/vectors.h). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "exec/trainer/internal.h"

static int64_t
bytes_of(const struct mw_trainer *trainer)
{
    return mw_vectors_count(trainer->vectors.places) * (int64_t)sizeof(float);
}

static enum mw_update_rule
rule_of(const struct mw_trainer *trainer)
{
    return mw_optimizer_row(trainer->plan->shape.optimizer)->rule;
}

/* The plan counts them. */
static bool
check_counted(const struct mw_plan *plan, int64_t need, GError **error)
{
    int64_t counted = 0;

    for (uint32_t s = 0; s < plan->slot_count; s++)
        if (plan->slots[s].purpose == MW_PURPOSE_OPTIMIZER_VECTORS)
            counted += plan->slots[s].size_bytes;
    return counted >= need ||
           mw_refuse(error,
                     "{optimizer=%s}: the plan counts %" G_GINT64_FORMAT " bytes for vectors of "
                     "rows and columns, this model needs %" G_GINT64_FORMAT ": plan it anew",
                     mw_optimizer_name(plan->shape.optimizer), counted, need);
}

/* Ranks add up their sums when they agree on the norm. */
static bool
check_agreed(const struct mw_trainer *trainer, int64_t sums_bytes, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    int64_t counted = 0;

    for (uint32_t w = 0; w < plan->work_count; w++)
        if (plan->works[w].kind == MW_OP_AGREE)
            counted = MAX(counted, plan->works[w].bytes);
    return trainer->ranks == 1 || counted >= sums_bytes ||
           mw_refuse(
               error,
               "{optimizer=%s}: in the plan ranks tell each other %" G_GINT64_FORMAT
               " bytes when they agree on the norm, sums of rows and columns are %" G_GINT64_FORMAT
               ": plan it anew",
               mw_optimizer_name(plan->shape.optimizer), counted, sums_bytes);
}

bool
mw_trainer_reserve_vectors(struct mw_trainer *trainer, GError **error)
{
    struct mw_trainer_vectors *it = &trainer->vectors;
    const struct mw_plan *plan = trainer->plan;

    it->places = mw_vectors_new(plan);
    if (!it->places)
        return true;
    g_mutex_init(&it->one);
    if (!plan->barriered)
        return mw_refuse(error,
                         "{optimizer=%s}: the plan lets a step begin before the one before it has "
                         "ended: must be one whose steps are apart",
                         mw_optimizer_name(plan->shape.optimizer));
    if (!mw_trainer_check_clips(trainer, error))
        return false;
    int64_t count = mw_vectors_count(it->places);
    int64_t bytes = count * mw_optimizer_row(plan->shape.optimizer)->vector_bytes;
    bool sums = rule_of(trainer) == MW_UPDATE_ADAFACTOR;
    if (!check_counted(plan, bytes, error) ||
        (sums && !check_agreed(trainer, count * MW_EXACT_SUM_BYTES, error)) ||
        !mw_arena_reserve(&it->memory, "vectors of rows and columns", bytes, error))
        return false;
    it->sums = sums ? (struct mw_exact_sum *)(void *)it->memory.base : NULL;
    it->now = (float *)(void *)(it->memory.base + (sums ? count * MW_EXACT_SUM_BYTES : 0));
    it->next = it->now + count;
    return true;
}

void
mw_trainer_free_vectors(struct mw_trainer *trainer)
{
    if (!trainer->vectors.places)
        return;
    g_mutex_clear(&trainer->vectors.one);
    mw_arena_release(&trainer->vectors.memory);
    mw_vectors_free(trainer->vectors.places);
}

void
mw_trainer_start_vectors(struct mw_trainer *trainer)
{
    if (trainer->vectors.places)
        memcpy(trainer->vectors.next, trainer->vectors.now, (size_t)bytes_of(trainer));
}

/* --- an update ------------------------------------------------------------------------------- */

struct update {
    struct mw_trainer *trainer;
    const struct mw_update_step *step;
    bool device, fp32;
    float *w, *m;
    char *param;
    const char *gradient;
    int64_t gradient_bytes;
    GError **error;
};

static bool
update_piece(const struct mw_weights_piece *piece, void *data)
{
    const struct update *it = data;
    const struct mw_trainer *trainer = it->trainer;
    const struct mw_storage *storage = &trainer->storage;
    const struct mw_trainer_vectors *of = &trainer->vectors;
    struct mw_update_vectors vectors =
        mw_vectors_of(of->places, piece, of->sums ? of->next : of->now, of->next);
    float *w = it->w + piece->at, *m = it->m ? it->m + piece->at : NULL;
    void *param = it->param + mw_trainer_element_bytes(trainer) * piece->at;
    const void *gradient = it->gradient + it->gradient_bytes * piece->at;

    if (it->device)
        return storage->backend->update_by_vectors(storage->device, it->step, &vectors, w, m, param,
                                                   gradient, it->fp32, piece->count, it->error);
    trainer->kernels->update_by_vectors(it->step, &vectors, w, m, param, gradient, it->fp32,
                                        piece->count);
    return true;
}

/* The host's cores, and those that stand for a GPU, may update at the same time. */
bool
mw_trainer_update_by_vectors(struct mw_trainer *trainer, const struct mw_update_step *step,
                             const struct mw_piece *piece, bool device, float *w, float *m,
                             void *param, const void *gradient, GError **error)
{
    const struct mw_tensor *tensor = &trainer->plan->tensors[piece->tensor];
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, piece->tile};
    struct update update = {
        .trainer = trainer,
        .step = step,
        .device = device,
        .fp32 = tensor->gradient_dtype == MW_DTYPE_FP32,
        .w = w,
        .m = m,
        .param = param,
        .gradient = gradient,
        .gradient_bytes = mw_trainer_gradient_bytes(tensor),
        .error = error,
    };

    g_mutex_lock(&trainer->vectors.one);
    bool good = mw_weights_walk(&trainer->plan->shape.decoder, &part, piece->first, piece->elements,
                                update_piece, &update);
    g_mutex_unlock(&trainer->vectors.one);
    return good;
}

/* --- sums of squares ------------------------------------------------------------------------- */

struct adding {
    const struct mw_trainer *trainer;
    const char *gradient;
    int64_t gradient_bytes;
};

static bool
add_piece(const struct mw_weights_piece *piece, void *data)
{
    const struct adding *it = data;
    const struct mw_trainer_vectors *of = &it->trainer->vectors;
    struct mw_exact_sides sides = mw_vectors_sums_of(of->places, piece, of->sums);

    it->trainer->kernels->side_sums(&sides, it->gradient + it->gradient_bytes * piece->at,
                                    it->gradient_bytes == 4, piece->count);
    return true;
}

/* Of what all ranks hold only the first one counts. */
void
mw_trainer_add_sides(struct mw_trainer *trainer, uint32_t index, int64_t tile, int64_t first,
                     int64_t elements, const void *gradient)
{
    const struct mw_tensor *tensor = &trainer->plan->tensors[index];
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, tile};
    struct adding adding = {trainer, gradient, mw_trainer_gradient_bytes(tensor)};

    if (!trainer->vectors.sums || (tensor->state_whole && trainer->rank))
        return;
    g_mutex_lock(&trainer->vectors.one);
    mw_weights_walk(&trainer->plan->shape.decoder, &part, first, elements, add_piece, &adding);
    g_mutex_unlock(&trainer->vectors.one);
}

static void
add_digits(void *own, const void *other, int64_t digits)
{
    const uint64_t *added = other;
    uint64_t *sum = own;

    for (int64_t i = 0; i < digits; i++)
        sum[i] += added[i];
}

/* All ranks' sums. */
bool
mw_trainer_add_ranks(struct mw_trainer *trainer, struct mw_exact_sum *sums, int64_t count,
                     int stream, GError **error)
{
    return mw_ranks_all_fold(trainer->options.ranks, stream, sums, count * MW_EXACT_DIGITS,
                             sizeof sums->digits[0], add_digits, error);
}

/* --- Adafactor: arXiv 1804.04235, Algorithms 4 and 5 ----------------------------------------- */

/* The hyperparameters that the paper proposes: epsilon 1, and 1 - t^-0.8 as the decay of step t. */
#define EPSILON 1e-30
#define DECAY_POWER -0.8

struct adafactor {
    const struct mw_trainer_vectors *vectors;
    double scale, kept, taken; /* of a square; of the mean before, and of the step's */
};

/* Means of one side, each over so many elements. */
static void
take_means(const struct adafactor *it, int64_t at, int64_t count, int64_t elements)
{
    for (int64_t i = at; i < at + count; i++) {
        double sum = mw_exact_value(&it->vectors->sums[i]) * it->scale;
        float *mean = &it->vectors->now[i];
        *mean = (float)(it->kept * (double)*mean + it->taken * (sum / (double)elements + EPSILON));
    }
}

/* 1 / sqrt(mean / whole) */
static void
set_factors(const struct adafactor *it, int64_t at, int64_t count, double whole)
{
    for (int64_t i = at; i < at + count; i++)
        it->vectors->next[i] = (float)sqrt(whole / (double)it->vectors->now[i]);
}

static double
mean_of(const float *values, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i];
    return sum / (double)count;
}

static void
take_place(const struct adafactor *it, const struct mw_vectors_place *place)
{
    int64_t second = place->at + place->shape[0];

    if (place->rank == 1) {
        take_means(it, place->at, place->shape[0], 1);
        set_factors(it, place->at, place->shape[0], 1);
        return;
    }
    take_means(it, place->at, place->shape[0], place->shape[1]);
    take_means(it, second, place->shape[1], place->shape[0]);
    set_factors(it, place->at, place->shape[0],
                mean_of(it->vectors->now + place->at, place->shape[0]));
    set_factors(it, second, place->shape[1], 1);
}

/* A step that leaves a layer out has no gradient of it. */
bool
mw_trainer_has_gradient(const struct mw_trainer *trainer, int64_t layer)
{
    return layer < 0 || trainer->variant->computes[layer];
}

static void
take_all(struct mw_trainer *trainer)
{
    double factor = (double)trainer->now.update.grad_scale;
    double taken = pow((double)(trainer->now.updates + 1), DECAY_POWER);
    struct adafactor it = {&trainer->vectors, factor * factor, 1 - taken, taken};

    for (int64_t i = 0; i < mw_vectors_places(trainer->vectors.places); i++) {
        struct mw_vectors_place place = mw_vectors_place(trainer->vectors.places, i);
        if (mw_trainer_has_gradient(trainer, place.layer))
            take_place(&it, &place);
    }
}

bool
mw_trainer_take_sides(struct mw_trainer *trainer, int stream, GError **error)
{
    struct mw_trainer_vectors *it = &trainer->vectors;

    if (!it->sums)
        return true;
    if (!trainer->now.updates_nothing) {
        if (trainer->ranks > 1 &&
            !mw_trainer_add_ranks(trainer, it->sums, mw_vectors_count(it->places),
                                  mw_trainer_data_stream(trainer, stream), error))
            return false;
        take_all(trainer);
        if (!mw_trainer_clip_updates(trainer, stream, error))
            return false;
    }
    memset(it->sums, 0, (size_t)mw_vectors_count(it->places) * sizeof *it->sums);
    return true;
}

/* --- the end of a step ----------------------------------------------------------------------- */

static void
raise_all(void *own, const void *other, int64_t count)
{
    const float *raised = other;
    float *most = own;

    for (int64_t i = 0; i < count; i++)
        most[i] = MAX(most[i], raised[i]);
}

bool
mw_trainer_turn_vectors(struct mw_trainer *trainer, GError **error)
{
    struct mw_trainer_vectors *it = &trainer->vectors;

    if (!it->places || it->sums || trainer->now.updates_nothing)
        return true;
    if (trainer->ranks > 1 &&
        !mw_ranks_all_fold(trainer->options.ranks, mw_trainer_data_stream(trainer, 0), it->next,
                           mw_vectors_count(it->places), sizeof *it->next, raise_all, error))
        return false;
    memcpy(it->now, it->next, (size_t)bytes_of(trainer));
    return true;
}
