#include "exec/trainer/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "base/own_file.h"
#include "exec/commit/extents.h"
#include "exec/nvme/run_names.h"
#include "exec/trainer/checkpoint_internal.h"
#include "exec/trainer/frozen.h"
#include "exec/trainer/narrow.h"
#include "exec/trainer/internal.h"
#include "exec/trainer/kept.h"

#define PIECE_ELEMENTS ((int64_t)1 << 19)
#define STATES MW_KEPT_COUNT

/* A verified block of a stream of saves. */
struct block {
    const struct mw_commit_extent *extent; /* NULL if the block holds none yet */
    char *bytes;
};

struct rank {
    struct mw_durable_part part;
    char *record_path;
    int record_fd;
    struct mw_commit_slots slots;
    const struct mw_commit_slot *slot; /* the slot with the step that all ranks have */
    struct mw_extents extents;
    int64_t state_extents; /* number of leading extents in the record that are of chunks on
                            * drives */
};

struct mw_durable {
    struct mw_durable_options options;
    struct rank *ranks;
    int rank_count;
    struct block blocks[STATES];
    char *chunk; /* a verified chunk on drives */
    char *notice;
};

static bool
fail(const char *path, const char *why, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: %s", path, why);
    return false;
}

static bool
differs(const char *path, const char *what, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: its %s is not what the run's description says: nothing is exported", path,
                what);
    return false;
}

uint64_t
mw_durable_fingerprint(const struct mw_plan *plan, enum mw_dtype dtype, uint64_t base)
{
    g_autofree int64_t *numbers = g_new(int64_t, 3 + 6 * (int64_t)plan->chunk_count);
    int64_t n = 0;

    numbers[n++] = (int64_t)base;
    if (dtype != MW_DTYPE_BF16)
        numbers[n++] = dtype;
    if (plan->shape.optimizer != MW_OPTIMIZER_ADAMW)
        numbers[n++] = -(int64_t)plan->shape.optimizer;
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        const struct mw_chunk_content *chunk = &plan->chunks[c];
        const struct mw_slot *slot = &plan->slots[chunk->slot];
        numbers[n++] = chunk->first_tensor;
        numbers[n++] = chunk->first_element;
        numbers[n++] = chunk->elements;
        numbers[n++] = slot->tier;
        bool drives = mw_trainer_on_drives(plan, c);
        numbers[n++] = drives ? slot->offset_bytes : 0;
        numbers[n++] = drives ? plan->slots[chunk->other_slot].offset_bytes : 0;
    }
    return mw_commit_checksum(numbers, n * (int64_t)sizeof *numbers);
}

uint64_t
mw_durable_tensors(const struct mw_plan *plan)
{
    g_autofree int64_t *numbers = g_new(int64_t, 1 + 12 * (int64_t)plan->tensor_count);
    int64_t n = 0;

    numbers[n++] = plan->world_ranks;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        numbers[n++] = tensor->layer;
        numbers[n++] = mw_operators_stored(tensor->operators);
        numbers[n++] = tensor->tiles;
        numbers[n++] = tensor->elements;
        numbers[n++] = tensor->rows;
        numbers[n++] = tensor->row_elements;
        numbers[n++] = tensor->tile_elements;
        numbers[n++] = tensor->shard_elements;
        numbers[n++] = tensor->state_stride;
        numbers[n++] = tensor->state_whole;
        if (!tensor->trainable) /* records of older runs, which trained all, stay as they are */
            numbers[n++] = t;
        if (mw_narrow_is(tensor)) /* nor does one that had 16 bits of what is frozen change */
            numbers[n++] = tensor->dtype;
    }
    return mw_commit_checksum(numbers, n * (int64_t)sizeof *numbers);
}

/* A stage has tensors of its own, and a machine its processor. */
static bool
is_of_rank(const char *name)
{
    static const char *const names[] = {MW_TRAINER_TENSORS, MW_TRAINER_FROZEN, MW_TRAINER_ISA,
                                        MW_TRAINER_ON_GPU, MW_TRAINER_PENDING};

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

uint64_t
mw_durable_course(const struct mw_commit_record *record)
{
    g_autofree struct mw_commit_field *fields = g_new0(struct mw_commit_field, record->field_count);
    int64_t count = 0;

    for (int i = 0; i < record->field_count; i++)
        if (!is_of_rank(record->fields[i].name))
            fields[count++] = mw_commit_field(record->fields[i].name, record->fields[i].value);
    return mw_commit_checksum(fields, count * (int64_t)sizeof *fields);
}

/* --- records --------------------------------------------------------------------------------- */

/* The lock is shared; a run needs it exclusively. */
static bool
open_record(struct rank *it, GError **error)
{
    const char *why;

    it->record_fd = mw_own_open(it->record_path, O_RDONLY, 0, &why);
    if (it->record_fd < 0)
        return fail(it->record_path, why, error);
    if (mw_run_lock_file(it->record_fd, LOCK_SH))
        return true;
    return fail(it->record_path,
                errno == EWOULDBLOCK ? "a run is in progress here" : g_strerror(errno), error);
}

/* Finds the record of the only rank, or of the first of several. */
static bool
find_first(struct mw_durable *durable, GError **error)
{
    const char *directory = durable->options.directories[0];
    struct rank *first = &durable->ranks[0];

    for (int ranks = 1; ranks <= 2; ranks++) {
        g_autofree char *stem = mw_run_stem(MW_RUN_BASE, 0, ranks);
        g_free(first->record_path);
        first->record_path = mw_run_record_path(directory, stem);
        struct stat info;
        if (!lstat(first->record_path, &info))
            break;
    }
    return open_record(first, error);
}

static bool
check_identity(const struct mw_durable *durable, const struct rank *it, int index, GError **error)
{
    const struct mw_plan *plan = it->part.plan;
    const struct mw_commit_identity *identity = &it->slot->identity;
    uint64_t dtype = MW_DTYPE_BF16, tensors;

    mw_commit_find(&it->slot->record, MW_TRAINER_DTYPE, &dtype);
    uint64_t wanted =
        mw_durable_fingerprint(plan, (enum mw_dtype)dtype, durable->options.fingerprint);
    if (identity->fingerprint != wanted)
        return differs(it->record_path, "fingerprint", error);
    if (identity->rank != index || identity->ranks != (int)plan->world_ranks)
        return differs(it->record_path, "rank, or the number of ranks,", error);
    if (identity->drives != durable->options.directory_count || identity->stripe_bytes < 1)
        return differs(it->record_path, "number of drives", error);
    if (mw_commit_find(&it->slot->record, MW_TRAINER_TENSORS, &tensors) &&
        tensors != mw_durable_tensors(plan))
        return differs(it->record_path, "table of tensors", error);
    if (!mw_frozen_same_adapters(&it->slot->record, &plan->shape.decoder))
        return differs(it->record_path, "rank or alpha of adapters", error);
    return true;
}

static bool
check_fields(const struct mw_durable *durable, const struct rank *it, GError **error)
{
    const struct mw_durable_options *options = &durable->options;

    if (!mw_trainer_check_fields(&it->slot->record, error)) {
        g_prefix_error(error, "%s: ", it->record_path);
        return false;
    }
    return !options->fits ||
           options->fits(options->data, it->record_path, &it->slot->record, error);
}

/* A chunk's state is in one of its two extents; the extents of saves follow. */
static bool
check_extents(struct rank *it, GError **error)
{
    const struct mw_plan *plan = it->part.plan;
    const struct mw_commit_record *record = &it->slot->record;

    it->state_extents = 0;
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        if (!mw_trainer_on_drives(plan, c))
            continue;
        const struct mw_commit_extent *extent = &record->extents[it->state_extents];
        const struct mw_chunk_content *chunk = &plan->chunks[c];
        if (it->state_extents++ >= record->extent_count || extent->id != c ||
            extent->bytes != mw_trainer_state_bytes(plan, c) ||
            extent->offset_bytes !=
                plan->slots[extent->which ? chunk->other_slot : chunk->slot].offset_bytes)
            return differs(it->record_path, "extents", error);
    }
    for (int64_t i = it->state_extents; i < record->extent_count; i++) {
        const struct mw_commit_extent *extent = &record->extents[i];
        bool full = extent->bytes == MW_TRAINER_SAVE_BYTES, last = i + 1 == record->extent_count;
        if (extent->id != plan->chunk_count + i - it->state_extents || extent->bytes < 1 ||
            extent->bytes > MW_TRAINER_SAVE_BYTES || !(full || last))
            return differs(it->record_path, "extents", error);
    }
    return true;
}

static bool
open_data(const struct mw_durable *durable, struct rank *it, int index, GError **error)
{
    g_autofree char *stem = mw_run_stem(MW_RUN_BASE, index, durable->rank_count);

    if (!mw_extents_open(&it->extents, durable->options.directories, stem, &it->slot->identity,
                         it->record_path, durable->options.calls, error))
        return false;
    for (int d = 0; d < it->extents.drives; d++)
        if (it->extents.data[d].missing)
            return fail(it->extents.data[d].path, it->extents.data[d].missing, error);
    return true;
}

/* --- the step that all have ------------------------------------------------------------------ */

static bool
open_rank(struct mw_durable *durable, int index, GError **error)
{
    struct rank *it = &durable->ranks[index];
    g_autofree char *stem = mw_run_stem(MW_RUN_BASE, index, durable->rank_count);

    if (index) {
        it->record_path = mw_run_record_path(durable->options.directories[0], stem);
        if (!open_record(it, error))
            return false;
    }
    return mw_commit_slots_read(it->record_fd, it->record_path, durable->options.calls, &it->slots,
                                error);
}

/* The smallest of all ranks' newest steps before `before`, as a resume chooses it.  `none` is the
 * message for a rank that has no such step; NULL: the message tells the content of its slots. */
static bool
least_newest(const struct mw_durable *durable, int64_t before, const char *none, int64_t *step,
             GError **error)
{
    *step = INT64_MAX;
    for (int r = 0; r < durable->rank_count; r++) {
        const struct rank *it = &durable->ranks[r];
        const struct mw_commit_slot *slot = mw_commit_slots_newest(&it->slots, before);
        if (!slot && !none)
            return mw_commit_slots_refuse(&it->slots, it->record_path, error);
        if (!slot)
            return fail(it->record_path, none, error);
        *step = MIN(*step, slot->record.step);
    }
    return true;
}

static bool
take_step(struct mw_durable *durable, int64_t step, GError **error)
{
    uint64_t course = 0;

    for (int r = 0; r < durable->rank_count; r++) {
        struct rank *it = &durable->ranks[r];
        it->slot = mw_commit_slots_newest(&it->slots, step + 1);
        if (!it->slot || it->slot->record.step != step)
            return fail(it->record_path, "no whole record of the step that other ranks have",
                        error);
        course = r ? course : mw_durable_course(&it->slot->record);
        if (!check_identity(durable, it, r, error) || !check_fields(durable, it, error) ||
            !check_extents(it, error) || !open_data(durable, it, r, error))
            return false;
        if (mw_durable_course(&it->slot->record) != course)
            return fail(it->record_path, MW_DURABLE_OTHER_RUN "nothing is exported", error);
    }
    return true;
}

/* Keeps the notice of the first rank whose other record has one. */
static void
note_other(struct mw_durable *durable)
{
    for (int r = 0; r < durable->rank_count && !durable->notice; r++) {
        const struct rank *it = &durable->ranks[r];
        const struct mw_commit_slot *other = &it->slots.at[it->slot == &it->slots.at[0]];
        durable->notice = mw_commit_slot_other(it->record_path, it->slot, other);
    }
}

static bool
load_step(struct mw_durable *durable, GError **error)
{
    int64_t step;

    return least_newest(durable, INT64_MAX, NULL, &step, error) &&
           (!durable->options.previous ||
            least_newest(durable, step, "has no record of a step before the newest", &step,
                         error)) &&
           take_step(durable, step, error);
}

static bool
open_ranks(struct mw_durable *durable, GError **error)
{
    int ranks = (int)durable->options.plan->world_ranks;

    durable->ranks = g_new0(struct rank, ranks);
    durable->rank_count = ranks;
    for (int r = 0; r < ranks; r++) {
        durable->ranks[r].part = mw_durable_part(&durable->options, r, ranks);
        durable->ranks[r].record_fd = -1;
    }
    if (!find_first(durable, error))
        return false;
    for (int r = 0; r < ranks; r++)
        if (!open_rank(durable, r, error))
            return false;
    return load_step(durable, error);
}

/* Checks the description against the model itself. */
static bool
check_part(const struct mw_durable_options *options, const struct mw_durable_part *own,
           GError **error)
{
    const struct mw_plan *plan = own->plan;

    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        bool same = tensor->layer >= -1 && tensor->layer < own->decoder.layers;
        for (uint32_t tile = 0; same && tile < tensor->tiles; tile++) {
            struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, tile};
            same = mw_weights_part_elements(&own->decoder, &part) ==
                   mw_tensor_part_elements(tensor, tile);
        }
        if (!same)
            return differs(options->directories[0], "model", error);
    }
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        if (mw_trainer_on_drives(plan, c) && plan->chunks[c].other_slot == MW_NONE)
            return differs(options->directories[0], "second extent", error);
    return true;
}

/* Slices are alike, and so are ranks with other sequences. */
static bool
check_plan(const struct mw_durable_options *options, GError **error)
{
    int ranks = (int)options->plan->world_ranks;

    if (!mw_durable_divides(options, ranks))
        return differs(options->directories[0],
                       "number of ranks, slices, sharding groups or stages", error);
    for (int stage = 0; stage <= options->later_count; stage++) {
        struct mw_durable_part part =
            mw_durable_part(options, ranks / (1 + options->later_count) * stage, ranks);
        if (part.plan->world_ranks != options->plan->world_ranks)
            return differs(options->directories[0], "number of ranks", error);
        if (!check_part(options, &part, error))
            return false;
    }
    return true;
}

struct mw_durable *
mw_durable_open(const struct mw_durable_options *options, GError **error)
{
    struct mw_durable *durable = g_new0(struct mw_durable, 1);

    durable->options = *options;
    if (check_plan(options, error) && open_ranks(durable, error)) {
        note_other(durable);
        return durable;
    }
    mw_durable_close(durable);
    return NULL;
}

static void
close_rank(struct rank *it)
{
    mw_extents_close(&it->extents);
    mw_commit_slots_clear(&it->slots);
    if (it->record_fd >= 0)
        close(it->record_fd);
    g_free(it->record_path);
}

void
mw_durable_close(struct mw_durable *durable)
{
    if (!durable)
        return;
    for (int r = 0; r < durable->rank_count; r++)
        close_rank(&durable->ranks[r]);
    for (int s = 0; s < STATES; s++)
        g_free(durable->blocks[s].bytes);
    g_free(durable->chunk);
    g_free(durable->notice);
    g_free(durable->ranks);
    g_free(durable);
}

int64_t
mw_durable_step(const struct mw_durable *durable)
{
    return durable->ranks[0].slot->record.step;
}

const char *
mw_durable_notice(const struct mw_durable *durable)
{
    return durable->notice;
}

/* --- streams of saves ------------------------------------------------------------------------ */

/* Bytes of a rank's own saves: all extents but the last are full. */
static int64_t
saved_bytes(const struct rank *it)
{
    const struct mw_commit_record *record = &it->slot->record;
    int64_t count = record->extent_count - it->state_extents;

    return count ? (count - 1) * MW_TRAINER_SAVE_BYTES +
                       record->extents[record->extent_count - 1].bytes
                 : 0;
}

/* Finds the extent with this byte of the rank's stream, its begin in the stream, and its rank. */
static const struct mw_commit_extent *
find_block(const struct mw_durable *durable, int rank, int64_t at, int64_t *begin, int *whose)
{
    const struct mw_durable_part *part = &durable->ranks[rank].part;
    bool shared = mw_trainer_saves_shared(part->plan, (uint32_t)part->ranks);
    int last = shared ? rank + (part->ranks - 1 - part->rank) * part->stride : rank;

    *begin = 0;
    for (*whose = rank; *whose <= last; *whose += part->stride) {
        const struct rank *it = &durable->ranks[*whose];
        int64_t bytes = saved_bytes(it), block = (at - *begin) / MW_TRAINER_SAVE_BYTES;
        if (at < *begin + bytes) {
            *begin += block * MW_TRAINER_SAVE_BYTES;
            return &it->slot->record.extents[it->state_extents + block];
        }
        *begin += bytes;
    }
    return NULL;
}

static bool
read_stream(struct mw_durable *durable, int rank, struct block *block, int64_t at, int64_t bytes,
            char *out, GError **error)
{
    int64_t begin;
    int whose;

    while (bytes > 0) {
        const struct mw_commit_extent *extent = find_block(durable, rank, at, &begin, &whose);
        if (!extent)
            return differs(durable->ranks[rank].record_path, "saved state", error);
        if (!block->bytes)
            block->bytes = g_malloc((gsize)MW_TRAINER_SAVE_BYTES);
        if (block->extent != extent &&
            !mw_extents_check(&durable->ranks[whose].extents, extent, block->bytes, error)) {
            block->extent = NULL;
            return false;
        }
        block->extent = extent;
        int64_t count = MIN(bytes, begin + extent->bytes - at);
        memcpy(out, block->bytes + (at - begin), (size_t)count);
        at += count;
        out += count;
        bytes -= count;
    }
    return true;
}

/* --- state ----------------------------------------------------------------------------------- */

struct walk {
    struct mw_durable *durable;
    const struct mw_durable_part *part; /* of the rank */
    int rank;
    uint32_t chunk;
    int64_t stream_at; /* begin of the chunk in the stream, if it is not on drives */
    float *copies;     /* [STATES][PIECE_ELEMENTS] */
    char *blocks;      /* as they lie, of one state */
    mw_trainer_visit visit;
    void *data;
};

static bool
read_state(struct walk *walk, int state, int64_t first, int64_t count, GError **error)
{
    const struct mw_plan *plan = walk->part->plan;
    int optimizer = plan->shape.optimizer;
    enum mw_dtype dtype = mw_optimizer_row(optimizer)->dtypes[state];
    float *copy = walk->copies + state * PIECE_ELEMENTS;

    if (dtype == MW_DTYPE_NONE) {
        memset(copy, 0, (size_t)count * sizeof *copy);
        return true;
    }
    struct mw_kept_span span = mw_kept_span(dtype, first, count);
    int64_t at = span.at_bytes + mw_optimizer_kept_at_bytes(optimizer, (enum mw_kept)state,
                                                            plan->chunks[walk->chunk].elements);
    if (mw_trainer_on_drives(plan, walk->chunk))
        memcpy(walk->blocks, walk->durable->chunk + at, (size_t)span.bytes);
    else if (!read_stream(walk->durable, walk->rank, &walk->durable->blocks[state],
                          walk->stream_at + at, span.bytes, walk->blocks, error))
        return false;
    mw_kept_widen(dtype, walk->blocks, span.skipped, count, copy);
    return true;
}

static bool
visit_piece(struct walk *walk, const struct mw_piece *piece, GError **error)
{
    const struct mw_tensor *tensor = &walk->part->plan->tensors[piece->tensor];

    for (int64_t i = 0; i < piece->elements; i += PIECE_ELEMENTS) {
        int64_t count = MIN(PIECE_ELEMENTS, piece->elements - i);
        const float *state[STATES];
        for (int s = 0; s < STATES; s++) {
            if (!read_state(walk, s, piece->at + i, count, error))
                return false;
            state[s] = walk->copies + s * PIECE_ELEMENTS;
        }
        if (!walk->visit(walk->data, &walk->part->decoder, tensor, piece->tile, piece->first + i,
                         count, state, error))
            return false;
    }
    return true;
}

static bool
visit_chunk(struct walk *walk, const struct mw_commit_extent *extent, GError **error)
{
    const struct mw_plan *plan = walk->part->plan;
    const struct mw_chunk_content *chunk = &plan->chunks[walk->chunk];
    struct mw_pieces pieces = mw_chunk_pieces(plan, chunk, (uint32_t)walk->part->rank);
    struct mw_piece piece;

    if (extent) {
        walk->durable->chunk = g_realloc(walk->durable->chunk, (gsize)extent->bytes + 1);
        if (!mw_extents_check(&walk->durable->ranks[walk->rank].extents, extent,
                              walk->durable->chunk, error))
            return false;
    }
    while (mw_pieces_next(&pieces, &piece)) {
        const struct mw_tensor *tensor = &plan->tensors[piece.tensor];
        /* An earlier rank has the same. */
        bool again =
            tensor->state_whole && mw_tensor_holder(tensor, (uint32_t)walk->part->rank) > 0;
        if (!again && !visit_piece(walk, &piece, error))
            return false;
    }
    return true;
}

static bool
visit_rank(struct walk *walk, GError **error)
{
    const struct mw_plan *plan = walk->part->plan;
    const struct mw_commit_extent *extent = walk->durable->ranks[walk->rank].slot->record.extents;

    walk->stream_at = 0;
    for (walk->chunk = 0; walk->chunk < plan->chunk_count; walk->chunk++) {
        bool drives = mw_trainer_on_drives(plan, walk->chunk);
        if (!visit_chunk(walk, drives ? extent++ : NULL, error))
            return false;
        walk->stream_at += drives ? 0 : mw_trainer_state_bytes(plan, walk->chunk);
    }
    return true;
}

/* --- what is not trained --------------------------------------------------------------------- */

static struct mw_frozen
frozen_of(const struct mw_durable *durable, int rank)
{
    const struct mw_durable_options *options = &durable->options;
    const struct mw_durable_part *part = &durable->ranks[rank].part;

    return (struct mw_frozen){.plan = part->plan,
                              .decoder = &part->decoder,
                              .weights = options->weights,
                              .seed = options->seed,
                              .rank = (uint32_t)part->rank};
}

static bool
check_frozen(const struct mw_durable *durable, GError **error)
{
    for (int rank = 0; rank < durable->rank_count; rank++) {
        struct mw_frozen frozen = frozen_of(durable, rank);
        uint64_t sum;
        if (!mw_frozen_sum(&frozen, &sum, error) ||
            !mw_frozen_check(&durable->ranks[rank].slot->record, sum, frozen.weights, error))
            return false;
    }
    return true;
}

/* They have neither momentum nor variance. */
static bool
visit_frozen(struct walk *walk, GError **error)
{
    const struct mw_plan *plan = walk->part->plan;
    struct mw_frozen frozen = frozen_of(walk->durable, walk->rank);
    const float *zeros =
        memset(walk->copies + PIECE_ELEMENTS, 0, PIECE_ELEMENTS * sizeof *walk->copies);
    const float *state[STATES] = {walk->copies, zeros, zeros};

    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        for (uint32_t tile = 0; !tensor->trainable && tile < tensor->tiles; tile++) {
            int64_t all = mw_tensor_part_elements(tensor, tile);
            for (int64_t i = 0; i < all; i += PIECE_ELEMENTS) {
                int64_t count = MIN(PIECE_ELEMENTS, all - i);
                if (!mw_frozen_read(&frozen, tensor, tile, i, count, walk->copies, error) ||
                    !walk->visit(walk->data, &walk->part->decoder, tensor, tile, i, count, state,
                                 error))
                    return false;
            }
        }
    }
    return true;
}

/* Every rank has all of them, behind its chunks' state; where ranks share a save, the first has its
 * share of the same stream. */
static float *
read_vectors(void *data, GError **error)
{
    struct mw_durable *durable = data;
    const struct mw_plan *plan = durable->options.plan;
    int64_t bytes = mw_vectors_saved_bytes(plan);
    g_autofree float *values = g_malloc((gsize)bytes);

    if (!read_stream(durable, 0, &durable->blocks[0], mw_trainer_chunks_in_memory_bytes(plan),
                     bytes, (char *)values, error))
        return NULL;
    return g_steal_pointer(&values);
}

/* Visits a state that is whole on every rank only in the first that has it, and one that all
 * sharding groups have in the first of them. */
static bool
visit_all(void *data, mw_trainer_visit visit, void *visit_data, GError **error)
{
    struct mw_durable *durable = data;
    g_autofree float *copies = g_new(float, STATES *PIECE_ELEMENTS);
    g_autofree float *blocks = g_new(float, PIECE_ELEMENTS);
    struct walk walk = {.durable = durable,
                        .copies = copies,
                        .blocks = (char *)blocks,
                        .visit = visit,
                        .data = visit_data};

    for (walk.rank = 0; walk.rank < durable->rank_count; walk.rank++) {
        walk.part = &durable->ranks[walk.rank].part;
        if (walk.part->replica)
            continue;
        bool first = walk.part->rank == 0;
        bool visits = (uint32_t)walk.part->rank < mw_plan_spread(walk.part->plan) ||
                      !walk.part->plan->tensors[0].state_whole;
        if (visits && !visit_rank(&walk, error))
            return false;
        if (first && !visit_frozen(&walk, error))
            return false;
    }
    return true;
}

static bool
has_frozen(const struct mw_durable *durable)
{
    bool has = false;

    for (int r = 0; r < durable->rank_count; r++)
        has |= mw_frozen_is_there(durable->ranks[r].part.plan);
    return has;
}

/* --- a checkpoint ---------------------------------------------------------------------------- */

static bool
sum_alone(void *data, double *value, GError **error)
{
    return true;
}

/* A checkpoint has no gradients that wait for a delayed update. */
bool
mw_durable_export(struct mw_durable *durable, const struct mw_checkpoint_options *options,
                  GError **error)
{
    const struct mw_commit_record *record = &durable->ranks[0].slot->record;

    if (durable->options.later_count &&
        mw_optimizer_has_vectors(durable->options.plan->shape.optimizer))
        return mw_refuse(error,
                         "%s: the run's optimizer takes sums over rows and columns: a checkpoint "
                         "has those of a whole model, not of stages: nothing is exported",
                         durable->options.directories[0]);
    g_autofree struct mw_commit_field *fields =
        g_new(struct mw_commit_field, record->field_count + 1);
    struct mw_vectors *vectors = mw_vectors_new(durable->options.plan);
    struct mw_checkpoint_source source = {
        .decoder = durable->options.decoder,
        .optimizer = durable->options.plan->shape.optimizer,
        .step = record->step,
        .fields = fields,
        .vectors = vectors,
        .vector_values = read_vectors,
        .visit = visit_all,
        .sum = sum_alone,
        .data = durable,
    };

    for (int i = 0; i < record->field_count; i++)
        if (strcmp(record->fields[i].name, MW_TRAINER_PENDING) &&
            strcmp(record->fields[i].name, MW_TRAINER_TENSORS) &&
            strcmp(record->fields[i].name, MW_TRAINER_FROZEN))
            fields[source.field_count++] = record->fields[i];
    bool good = (!has_frozen(durable) || check_frozen(durable, error)) &&
                mw_checkpoint_write(&source, options, error);
    mw_vectors_free(vectors);
    return good;
}
