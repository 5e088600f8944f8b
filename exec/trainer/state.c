/* The content of homes before the first step and after the last. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/data/convert.h"
#include "exec/data/weights.h"
#include "exec/trainer/checkpoint.h"
#include "exec/trainer/frozen.h"
#include "exec/trainer/internal.h"
#include "exec/trainer/kept.h"
#include "exec/trainer/narrow.h"

/* Number of elements that are made at a time. */
#define PIECE_ELEMENTS MW_FROZEN_PIECE_ELEMENTS

/* Makes parameters; from a checkpoint also moments (enum mw_kept). */
static bool
make_state(const struct mw_trainer *trainer, int state, const struct mw_tensor *tensor,
           int64_t tile, int64_t first, int64_t count, enum mw_dtype as, void *out, GError **error)
{
    const struct mw_trainer_options *o = &trainer->options;
    const struct mw_decoder *decoder = &trainer->plan->shape.decoder;
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, tile};
    struct mw_weights_sets sets = {o->weights, o->adapters};

    if (o->checkpoint)
        return mw_checkpoint_read(o->checkpoint, decoder, state, &part, first, count, as, out,
                                  error);
    return mw_weights_make(decoder, o->seed, sets, &part, first, count, as, out, error);
}

/* The arrays of the state: the first so many. */
static int
kept_count(const struct mw_trainer *trainer)
{
    int count = 0;

    while (count < MW_KEPT_COUNT &&
           mw_optimizer_keeps(trainer->plan->shape.optimizer, (enum mw_kept)count))
        count++;
    return count;
}

/* Checks parameters as 16 bits hold them, which is less than fp32 holds. */
static bool
try_tile(const struct mw_trainer *trainer, const struct mw_tensor *tensor, int64_t tile,
         struct mw_range range, float *made, GError **error)
{
    int states = trainer->options.checkpoint && tensor->trainable ? kept_count(trainer) : 1;

    for (int state = 0; state < states; state++)
        for (int64_t i = 0; i < range.elements; i += PIECE_ELEMENTS)
            if (!make_state(trainer, state, tensor, tile, range.first + i,
                            MIN(PIECE_ELEMENTS, range.elements - i),
                            state ? MW_DTYPE_FP32 : trainer->kernels->dtype, made, error))
                return false;
    return true;
}

bool
mw_trainer_try_start(const struct mw_trainer *trainer, GError **error)
{
    g_autofree float *made = g_new(float, PIECE_ELEMENTS);

    for (uint32_t t = 0; t < trainer->plan->tensor_count; t++)
        for (uint32_t tile = 0; tile < trainer->plan->tensors[t].tiles; tile++)
            if (!try_tile(trainer, &trainer->plan->tensors[t], tile,
                          mw_trainer_state_of(trainer, t, tile), made, error))
                return false;
    return true;
}

/* --- optimizer state ------------------------------------------------------------------------- */

/* The slot where a chunk's state can be reached: at home, or in the buffer set that it passes
 * through. */
static uint32_t
reachable(const struct mw_trainer *trainer, uint32_t chunk)
{
    uint32_t set = trainer->variant->set_slots[chunk];
    return set == MW_NONE ? trainer->plan->chunks[chunk].slot : set;
}

/* Copies state; state at home on a device is reached only by copies. */
static bool
copy_state(struct mw_trainer *trainer, void *to, const void *from, int64_t bytes, GError **error)
{
    return trainer->storage.backend->copy(trainer->storage.device, to, from, bytes, error);
}

/* Where an array of a chunk's state can be reached, from a byte of it on. */
static char *
array_at(const struct mw_trainer *trainer, uint32_t chunk, int kept, int64_t at_bytes)
{
    int64_t array = mw_optimizer_kept_at_bytes(trainer->plan->shape.optimizer, (enum mw_kept)kept,
                                               trainer->plan->chunks[chunk].elements);

    return mw_storage_address(&trainer->storage, reachable(trainer, chunk), array + at_bytes);
}

/* Makes elements of an array of a chunk, which begin a block; 0 where no piece has them. */
static bool
make_stretch(const struct mw_trainer *trainer, uint32_t chunk, int kept, int64_t first,
             int64_t count, float *made, GError **error)
{
    const struct mw_trainer_chunk *it = &trainer->chunks[chunk];

    memset(made, 0, (size_t)count * sizeof *made);
    for (int64_t i = 0; i < it->piece_count; i++) {
        const struct mw_piece *piece = &it->pieces[i];
        int64_t begin = MAX(piece->at, first);
        int64_t end = MIN(piece->at + piece->elements, first + count);
        if (begin < end && !make_state(trainer, kept, &trainer->plan->tensors[piece->tensor],
                                       piece->tile, piece->first + begin - piece->at, end - begin,
                                       MW_DTYPE_FP32, made + begin - first, error))
            return false;
    }
    return true;
}

G_STATIC_ASSERT(PIECE_ELEMENTS % MW_KEPT_BLOCK == 0);

static bool
start_array(struct mw_trainer *trainer, uint32_t chunk, int kept, float *made, GError **error)
{
    enum mw_dtype dtype = mw_optimizer_row(trainer->plan->shape.optimizer)->dtypes[kept];
    int64_t elements = trainer->plan->chunks[chunk].elements;
    g_autofree char *blocks = g_malloc((gsize)mw_dtype_bytes(dtype, PIECE_ELEMENTS));

    for (int64_t at = 0; at < elements; at += PIECE_ELEMENTS) {
        int64_t count = MIN(PIECE_ELEMENTS, elements - at);
        struct mw_kept_span span = mw_kept_span(dtype, at, count);
        if (!make_stretch(trainer, chunk, kept, at, count, made, error))
            return false;
        mw_kept_narrow(dtype, made, count, blocks);
        if (!copy_state(trainer, array_at(trainer, chunk, kept, span.at_bytes), blocks, span.bytes,
                        error))
            return false;
    }
    return true;
}

/* Moments begin as zero, as reserved memory does; a set may still hold another chunk's. */
static bool
start_chunk(struct mw_trainer *trainer, uint32_t chunk, float *made, GError **error)
{
    const struct mw_chunk_content *content = &trainer->plan->chunks[chunk];
    int states = trainer->options.checkpoint ? kept_count(trainer) : 1;
    bool drives = mw_trainer_on_drives(trainer->plan, chunk);
    uint32_t slot = reachable(trainer, chunk);
    int64_t bytes = mw_trainer_state_bytes(trainer->plan, chunk);

    if (drives)
        memset(mw_storage_address(&trainer->storage, slot, 0), 0, bytes);
    for (int kept = 0; kept < states; kept++)
        if (!start_array(trainer, chunk, kept, made, error))
            return false;
    if (drives) /* the first committed step may leave it as it is */
        mw_trainer_digest(trainer, chunk);
    struct mw_move move = {{slot, 0}, {content->slot, 0}, bytes};
    return !drives || mw_storage_move(&trainer->storage, &move, 1, error);
}

/* --- parameters ------------------------------------------------------------------------------ */

static bool
put_params(struct mw_trainer *trainer, uint32_t slot, int64_t at_bytes, void *made, int64_t bytes,
           GError **error)
{
    const struct mw_slot *home = &trainer->plan->slots[slot];

    if (home->tier != MW_TIER_NVME)
        return copy_state(trainer, mw_storage_address(&trainer->storage, slot, at_bytes), made,
                          bytes, error);
    return mw_nvme_transfer(trainer->storage.nvme, MW_NVME_WRITE, home->offset_bytes + at_bytes,
                            mw_in_pages(bytes), made, error);
}

static bool
read_params(void *data, const struct mw_tensor *tensor, int64_t tile, int64_t first, int64_t count,
            float *out, GError **error)
{
    return make_state(data, 0, tensor, tile, first, count, MW_DTYPE_FP32, out, error);
}

/* Whether the run's type has a number for each. */
static bool
all_fit(const struct mw_trainer *trainer, const float *values, int64_t count)
{
    union {
        float fp32;
        uint16_t half;
    } element;
    float largest = 0;

    for (int64_t i = 0; i < count; i++)
        largest = MAX(largest, fabsf(values[i]));
    trainer->kernels->narrow(&element, &largest, 1);
    return isfinite(mw_fp32_of_element(&element, 0, trainer->kernels->dtype));
}

/* Parameters as their home has them.  Narrow ones are made of what is given, in fp32; what the
 * run's type cannot hold is refused for them, too, as any reading in that type does. */
static bool
make_params(struct mw_trainer *trainer, const struct mw_tensor *tensor, int64_t tile, int64_t first,
            int64_t count, float largest_bias, void *made, GError **error)
{
    g_autofree float *given = mw_narrow_is(tensor) ? g_new(float, count) : NULL;

    if (given && !read_params(trainer, tensor, tile, first, count, given, error))
        return false;
    if (!given || !all_fit(trainer, given, count))
        return make_state(trainer, 0, tensor, tile, first, count, trainer->kernels->dtype, made,
                          error);
    struct mw_part part = mw_part_of(&trainer->plan->shape.decoder, tensor, tile);
    mw_narrow_encode(tensor, &part, given, first, count, largest_bias, made);
    return true;
}

/* Elements that are put at a time: drives take whole pages, so these fill some. */
static int64_t
put_elements(const struct mw_tensor *tensor)
{
    int64_t elements = PIECE_ELEMENTS;

    while (mw_dtype_bytes(tensor->dtype, elements) % MW_SLOT_ALIGNMENT_BYTES)
        elements *= 2;
    return elements;
}

static bool
start_params(struct mw_trainer *trainer, uint32_t index, int64_t tile, void *made, GError **error)
{
    const struct mw_tensor *tensor = &trainer->plan->tensors[index];
    struct mw_range mine = mw_frozen_params(tensor, trainer->rank, tile);
    int64_t put = put_elements(tensor);
    float largest_bias = 0;

    if (mw_narrow_is(tensor) && !mw_narrow_largest_bias(&trainer->plan->shape.decoder, tensor,
                                                        read_params, trainer, &largest_bias, error))
        return false;
    for (int64_t i = 0; i < mine.elements; i += put) {
        int64_t end = MIN(i + put, mine.elements);
        for (int64_t j = i; j < end; j += PIECE_ELEMENTS)
            if (!make_params(trainer, tensor, tile, mine.first + j, MIN(PIECE_ELEMENTS, end - j),
                             largest_bias, (char *)made + mw_dtype_bytes(tensor->dtype, j - i),
                             error))
                return false;
        if (!put_params(trainer, tensor->param_slot,
                        mw_dtype_bytes(tensor->dtype, tile * tensor->param_stride + i), made,
                        mw_dtype_bytes(tensor->dtype, end - i), error))
            return false;
    }
    return true;
}

/* Room for what is put at a time of any tensor; to be freed. */
static void *
room_to_make(const struct mw_plan *plan)
{
    int64_t bytes = 4 * PIECE_ELEMENTS;
    void *made;

    for (uint32_t t = 0; t < plan->tensor_count; t++)
        bytes = MAX(bytes, mw_dtype_bytes(plan->tensors[t].dtype, put_elements(&plan->tensors[t])));
    if (posix_memalign(&made, MW_SLOT_ALIGNMENT_BYTES, bytes))
        g_error("out of memory");
    return made;
}

/* The checksum of what is not trained, read again where the run read it. */
static bool
sum_frozen(const struct mw_trainer *trainer, uint64_t *sum, GError **error)
{
    const struct mw_frozen frozen = {
        .plan = trainer->plan,
        .decoder = &trainer->plan->shape.decoder,
        .checkpoint = trainer->options.checkpoint,
        .weights = trainer->options.weights,
        .seed = trainer->options.seed,
        .rank = trainer->rank,
    };

    return mw_frozen_sum(&frozen, sum, error);
}

/* Moments of one optimizer mean nothing to another. */
static bool
check_optimizer(const struct mw_trainer *trainer, GError **error)
{
    int then = mw_checkpoint_optimizer(trainer->options.checkpoint);
    int now = trainer->plan->shape.optimizer;

    return then == now ||
           mw_fail(error, MW_ERROR_FORMAT,
                   "%s: has the state of {optimizer=%s}, not of %s: give it, or start from its "
                   "weights alone with {weights}",
                   mw_checkpoint_file(trainer->options.checkpoint), mw_optimizer_name(then),
                   mw_optimizer_name(now));
}

/* They begin as zero, as reserved memory does. */
static bool
start_vectors(struct mw_trainer *trainer, GError **error)
{
    if (trainer->options.checkpoint &&
        !mw_checkpoint_read_vectors(trainer->options.checkpoint, trainer->vectors.places,
                                    trainer->vectors.now, error))
        return false;
    mw_trainer_start_vectors(trainer);
    return true;
}

bool
mw_trainer_start_state(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    bool good = true;

    if (trainer->options.checkpoint && !check_optimizer(trainer, error))
        return false;
    if (trainer->options.checkpoint &&
        !mw_frozen_same_adapters(mw_checkpoint_record(trainer->options.checkpoint),
                                 &plan->shape.decoder))
        return mw_fail(error, MW_ERROR_FORMAT,
                       "%s: has adapters with another rank or {lora-alpha}: give those that they "
                       "were trained with",
                       mw_checkpoint_file(trainer->options.checkpoint));
    if (trainer->options.host_threads)
        omp_set_num_threads(trainer->options.host_threads);
    void *made = room_to_make(plan);
    good = start_vectors(trainer, error);
    for (uint32_t c = 0; good && c < plan->chunk_count; c++)
        good = start_chunk(trainer, c, made, error);
    for (uint32_t t = 0; good && t < plan->tensor_count; t++)
        for (uint32_t tile = 0; good && tile < plan->tensors[t].tiles; tile++)
            good = start_params(trainer, t, tile, made, error);
    free(made);
    good = good && sum_frozen(trainer, &trainer->durable.frozen, error);
    if (trainer->options.checkpoint)
        mw_trainer_read_fields(trainer, mw_checkpoint_record(trainer->options.checkpoint));
    return good;
}

/* --- parameters from existing state ---------------------------------------------------------- */

static bool
restore_piece(struct mw_trainer *trainer, uint32_t chunk, const struct mw_piece *piece, float *w,
              void *made, GError **error)
{
    const struct mw_tensor *tensor = &trainer->plan->tensors[piece->tensor];
    int64_t bytes = mw_dtype_element_bytes(tensor->dtype);

    for (int64_t i = 0; i < piece->elements; i += PIECE_ELEMENTS) {
        int64_t count = MIN(PIECE_ELEMENTS, piece->elements - i);
        int64_t at =
            mw_tensor_place(tensor, MW_HOME_PARAMS, trainer->rank, piece->tile, piece->first + i);
        const void *from =
            mw_storage_address(&trainer->storage, reachable(trainer, chunk), 4 * (piece->at + i));
        if (!copy_state(trainer, w, from, 4 * count, error))
            return false;
        trainer->kernels->narrow(made, w, count);
        if (!put_params(trainer, tensor->param_slot, bytes * at, made, bytes * count, error))
            return false;
    }
    return true;
}

bool
mw_trainer_restore_params(struct mw_trainer *trainer, uint32_t chunk, GError **error)
{
    const struct mw_trainer_chunk *it = &trainer->chunks[chunk];
    g_autofree float *w = g_new(float, PIECE_ELEMENTS);
    void *made = NULL;
    bool good = true;

    if (posix_memalign(&made, MW_SLOT_ALIGNMENT_BYTES, 4 * PIECE_ELEMENTS))
        g_error("out of memory");
    for (int64_t i = 0; good && i < it->piece_count; i++)
        good = restore_piece(trainer, chunk, &it->pieces[i], w, made, error);
    free(made);
    return good;
}

bool
mw_trainer_start_frozen(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    void *made = room_to_make(plan);
    bool good = true;

    for (uint32_t t = 0; t < plan->tensor_count; t++)
        for (uint32_t tile = 0;
             good && !plan->tensors[t].trainable && tile < plan->tensors[t].tiles; tile++)
            good = start_params(trainer, t, tile, made, error);
    free(made);
    return good && sum_frozen(trainer, &trainer->durable.frozen, error) &&
           mw_frozen_check(&trainer->durable.resumed, trainer->durable.frozen,
                           trainer->options.weights, error);
}

/* --- visits ---------------------------------------------------------------------------------- */

/* Elements of a chunk as fp32; zeros where the optimizer keeps none. */
static bool
read_array(struct mw_trainer *trainer, uint32_t chunk, int kept, int64_t first, int64_t count,
           float *out, GError **error)
{
    enum mw_dtype dtype = mw_optimizer_row(trainer->plan->shape.optimizer)->dtypes[kept];

    if (dtype == MW_DTYPE_NONE) {
        memset(out, 0, (size_t)count * sizeof *out);
        return true;
    }
    struct mw_kept_span span = mw_kept_span(dtype, first, count);
    const char *from = array_at(trainer, chunk, kept, span.at_bytes);
    if (dtype == MW_DTYPE_FP32)
        return copy_state(trainer, out, from, span.bytes, error);
    g_autofree char *blocks = g_malloc((gsize)span.bytes);
    if (!copy_state(trainer, blocks, from, span.bytes, error))
        return false;
    mw_kept_widen(dtype, blocks, span.skipped, count, out);
    return true;
}

static bool
visit_piece(struct mw_trainer *trainer, uint32_t chunk, const struct mw_piece *piece, float *copies,
            mw_trainer_visit visit, void *data, GError **error)
{
    const struct mw_tensor *tensor = &trainer->plan->tensors[piece->tensor];

    for (int64_t i = 0; i < piece->elements; i += PIECE_ELEMENTS) {
        int64_t count = MIN(PIECE_ELEMENTS, piece->elements - i);
        const float *state[MW_KEPT_COUNT];
        for (int s = 0; s < MW_KEPT_COUNT; s++) {
            state[s] = copies + s * PIECE_ELEMENTS;
            if (!read_array(trainer, chunk, s, piece->at + i, count, copies + s * PIECE_ELEMENTS,
                            error))
                return false;
        }
        if (!visit(data, &trainer->plan->shape.decoder, tensor, piece->tile, piece->first + i,
                   count, state, error))
            return false;
    }
    return true;
}

/* Frozen parameters stay as given, and have neither momentum nor variance. */
static bool
visit_frozen(struct mw_trainer *trainer, uint32_t index, uint32_t tile, float *copies,
             mw_trainer_visit visit, void *data, GError **error)
{
    const struct mw_tensor *tensor = &trainer->plan->tensors[index];
    struct mw_range mine = mw_trainer_state_of(trainer, index, tile);
    const float *zeros = memset(copies + PIECE_ELEMENTS, 0, PIECE_ELEMENTS * sizeof *copies);
    const float *state[MW_KEPT_COUNT] = {copies, zeros, zeros};

    for (int64_t i = 0; i < mine.elements; i += PIECE_ELEMENTS) {
        int64_t count = MIN(PIECE_ELEMENTS, mine.elements - i);
        if (!make_state(trainer, 0, tensor, tile, mine.first + i, count, MW_DTYPE_FP32, copies,
                        error) ||
            !visit(data, &trainer->plan->shape.decoder, tensor, tile, mine.first + i, count, state,
                   error))
            return false;
    }
    return true;
}

bool
mw_trainer_visit_state(struct mw_trainer *trainer, mw_trainer_visit visit, void *data,
                       GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    g_autofree float *copies = g_new(float, MW_KEPT_COUNT *PIECE_ELEMENTS);
    uint64_t frozen;

    /* It is written from where the run read it. */
    if (!sum_frozen(trainer, &frozen, error))
        return false;
    if (frozen != trainer->durable.frozen)
        return mw_fail(error, MW_ERROR_IO,
                       "what is not trained has changed where the run read it: nothing is written");
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        const struct mw_trainer_chunk *chunk = &trainer->chunks[c];
        struct mw_move move = {
            {plan->chunks[c].slot, 0}, {reachable(trainer, c), 0}, mw_trainer_state_bytes(plan, c)};
        if (mw_trainer_on_drives(plan, c) && !mw_storage_move(&trainer->storage, &move, 1, error))
            return false;
        for (int64_t i = 0; i < chunk->piece_count; i++)
            if (!visit_piece(trainer, c, &chunk->pieces[i], copies, visit, data, error))
                return false;
    }
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        for (uint32_t tile = 0; !plan->tensors[t].trainable && tile < plan->tensors[t].tiles;
             tile++)
            if (!visit_frozen(trainer, t, tile, copies, visit, data, error))
                return false;
    return true;
}
