#include "exec/trainer/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/trainer/checkpoint_internal.h"
#include "exec/trainer/internal.h"

const char *const mw_checkpoint_prefixes[MW_KEPT_COUNT] = {"", "exp_avg.", "exp_avg_sq."};

/* In the order in which they end: the last one has digests of the others. */
enum { MODEL, ADAPTERS, OPTIMIZER, FILES };

static const char *const file_names[FILES] = {MW_CHECKPOINT_MODEL, MW_CHECKPOINT_ADAPTERS,
                                              MW_CHECKPOINT_OPTIMIZER};

struct saving {
    const struct mw_checkpoint_source *source;
    const struct mw_checkpoint_options *options;
    struct mw_commit_field *fields;               /* fields of the source, those of the first
                                                   * rank */
    char *path;                                   /* the path, without a slash at its end */
    struct mw_safetensors_writer *writers[FILES]; /* all but the first may be NULL */
    char *part;                                   /* the folder that is written */
    int lock;                                     /* lock of the folder; the first rank holds it and
                                                   * removes the folder */
    uint16_t *narrow;                             /* values of one visit in 16 bits */
    int64_t narrow_elements;
};

/* --- declarations ---------------------------------------------------------------------------- */

static char *
fields_text(const struct mw_commit_field *fields, int count)
{
    GString *text = g_string_new(NULL);

    for (int i = 0; i < count; i++)
        g_string_append_printf(text, "%s%s=%" PRIx64, i ? " " : "", fields[i].name,
                               fields[i].value);
    return g_string_free(text, FALSE);
}

static void
describe(const struct saving *saving, struct mw_safetensors_writer *writer)
{
    const struct mw_checkpoint_source *source = saving->source;
    g_autofree char *text = fields_text(saving->fields, source->field_count);
    g_autofree char *step = g_strdup_printf("%" PRId64, source->step);

    mw_safetensors_describe(writer, "format", "pt"); /* transformers requires it */
    mw_safetensors_describe(writer, MW_CHECKPOINT_STEP, step);
    mw_safetensors_describe(writer, MW_CHECKPOINT_FIELDS, text);
}

/* The files belong to one save.  A digest is known only when its file is written. */
static void
describe_digest(const struct saving *saving, int file, uint64_t digest)
{
    static const char *const keys[FILES] = {
        [MODEL] = MW_CHECKPOINT_WEIGHTS, [ADAPTERS] = MW_CHECKPOINT_ADAPTED};
    g_autofree char *text = g_strdup_printf("%016" PRIx64, digest);

    if (saving->writers[OPTIMIZER] && saving->writers[file] && keys[file])
        mw_safetensors_describe(saving->writers[OPTIMIZER], keys[file], text);
}

static struct mw_weights_files
weights_files(const struct saving *saving)
{
    return (struct mw_weights_files){saving->writers[MODEL], saving->writers[ADAPTERS]};
}

static struct mw_weights_files
optimizer_files(const struct saving *saving)
{
    return (struct mw_weights_files){saving->writers[OPTIMIZER], saving->writers[OPTIMIZER]};
}

static bool
keeps(const struct saving *saving, int kept)
{
    return kept < MW_KEPT_COUNT &&
           mw_optimizer_keeps(saving->source->optimizer, (enum mw_kept)kept);
}

static bool
declare(struct saving *saving, GError **error)
{
    const struct mw_decoder *decoder = saving->source->decoder;
    enum mw_safetensors_dtype dtype = saving->options->dtype;
    struct mw_safetensors_writer *optimizer = saving->writers[OPTIMIZER];

    for (int f = 0; f < FILES; f++)
        if (saving->writers[f])
            describe(saving, saving->writers[f]);
    for (int f = 0; f < OPTIMIZER; f++)
        describe_digest(saving, f, 0);
    if (!mw_weights_declare(decoder, weights_files(saving), "", dtype, error))
        return false;
    for (int s = 1; optimizer && keeps(saving, s); s++)
        if (!mw_weights_declare(decoder, optimizer_files(saving), mw_checkpoint_prefixes[s],
                                MW_SAFETENSORS_F32, error))
            return false;
    if (optimizer && !mw_vectors_declare(saving->source->vectors, optimizer, error))
        return false;
    return !optimizer || dtype == MW_SAFETENSORS_F32 ||
           mw_weights_declare(decoder, optimizer_files(saving), MW_CHECKPOINT_MASTERS,
                              MW_SAFETENSORS_F32, error);
}

/* --- content --------------------------------------------------------------------------------- */

static const void *
narrowed(struct saving *saving, const float *w, int64_t count)
{
    if (saving->options->dtype == MW_SAFETENSORS_F32)
        return w;
    if (count > saving->narrow_elements) {
        saving->narrow = g_renew(uint16_t, saving->narrow, count);
        saving->narrow_elements = count;
    }
    mw_cpu_kernels(MW_DTYPE_BF16)->narrow(saving->narrow, w, count);
    return saving->narrow;
}

/* No update makes a variance negative, so no run has such a state. */
static bool
check_values(const struct saving *saving, const struct mw_decoder *decoder,
             const struct mw_tensor *tensor, int64_t tile, int64_t first, int64_t count,
             const float *const state[3], GError **error)
{
    for (int s = 0; s < MW_KEPT_COUNT; s++) {
        const int64_t at = mw_trainer_first_invalid(s, state[s], count);
        if (at < 0)
            continue;
        const float value = state[s][at];
        g_autofree char *name = mw_trainer_element_name(decoder, tensor, tile, first + at, s);
        g_autofree char *wrong =
            isfinite(value)
                ? g_strdup_printf("%g: must be at least 0, as a mean of squares is", (double)value)
                : g_strdup("not finite: the run has diverged");
        g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "%s: not written: %s, is %s", saving->path,
                    name, wrong);
        return false;
    }
    return true;
}

static bool
store(void *data, const struct mw_decoder *decoder, const struct mw_tensor *tensor, int64_t tile,
      int64_t first, int64_t count, const float *const state[3], GError **error)
{
    struct saving *saving = data;
    enum mw_safetensors_dtype dtype = saving->options->dtype;
    struct mw_safetensors_writer *optimizer = saving->writers[OPTIMIZER];
    struct mw_weights_part part = {tensor->layer, tensor->operators, tensor->tiles, tile};

    if (tensor->state_whole && mw_tensor_holder(tensor, (uint32_t)saving->source->data_rank) > 0)
        return true; /* the first rank that has it checks the same values */
    if (!check_values(saving, decoder, tensor, tile, first, count, state, error))
        return false;
    if (!mw_weights_store(decoder, weights_files(saving), "", &part, first, count, dtype,
                          narrowed(saving, state[0], count), error))
        return false;
    for (int s = 1; optimizer && keeps(saving, s); s++)
        if (!mw_weights_store(decoder, optimizer_files(saving), mw_checkpoint_prefixes[s], &part,
                              first, count, MW_SAFETENSORS_F32, state[s], error))
            return false;
    return !optimizer || dtype == MW_SAFETENSORS_F32 ||
           mw_weights_store(decoder, optimizer_files(saving), MW_CHECKPOINT_MASTERS, &part, first,
                            count, MW_SAFETENSORS_F32, state[0], error);
}

/* Every rank has all of them. */
static bool
store_vectors(const struct saving *saving, GError **error)
{
    const struct mw_checkpoint_source *source = saving->source;

    if (!source->vectors || !saving->writers[OPTIMIZER] || source->rank > 0)
        return true;
    g_autofree float *values = source->vector_values(source->data, error);
    if (!values)
        return false;
    if (mw_vectors_check(source->vectors, values, error))
        return mw_vectors_store(source->vectors, saving->writers[OPTIMIZER], values, error);
    g_prefix_error(error, "%s: not written: ", saving->path);
    return false;
}

/* --- files of all ranks ---------------------------------------------------------------------- */

static bool
meet(struct saving *saving, GError **error)
{
    double nothing = 0;
    return saving->source->sum(saving->source->data, &nothing, error);
}

/* Sends one number of the first rank to all.  Halves are sent, since a double holds them
 * exactly. */
static bool
tell(const struct saving *saving, uint64_t *value, GError **error)
{
    const bool first = saving->source->rank == 0;
    double low = first ? (double)(*value & UINT32_MAX) : 0;
    double high = first ? (double)(*value >> 32) : 0;

    if (!saving->source->sum(saving->source->data, &low, error) ||
        !saving->source->sum(saving->source->data, &high, error))
        return false;
    *value = (uint64_t)high << 32 | (uint64_t)low;
    return true;
}

/* All ranks must declare the same fields.  Some fields differ between ranks: the instructions that
 * a rank computes with, if processors differ. */
static bool
agree_on_fields(struct saving *saving, GError **error)
{
    const struct mw_checkpoint_source *source = saving->source;
    bool good = true;

    saving->fields = g_memdup2(source->fields, sizeof *source->fields * (gsize)source->field_count);
    for (int i = 0; good && i < source->field_count; i++)
        good = tell(saving, &saving->fields[i].value, error);
    return good;
}

/* Makes the folder and sends its name to all ranks. */
static bool
make_part(struct saving *saving, GError **error)
{
    uint64_t number = 0;

    if (saving->source->rank == 0) {
        if (saving->options->keeps ? !mw_checkpoint_folder_make_above(saving->path, error)
                                   : !mw_checkpoint_folder_check(saving->path, error))
            return false;
        saving->part = mw_checkpoint_folder_begin(saving->path, &number, &saving->lock, error);
        if (!saving->part)
            return false;
    }
    double told = (double)number;
    if (!saving->source->sum(saving->source->data, &told, error))
        return false;
    g_free(saving->part);
    saving->part = mw_checkpoint_folder_part(saving->path, (uint64_t)told);
    return true;
}

static bool
begin(struct saving *saving, GError **error)
{
    bool first = saving->source->rank == 0;

    for (int f = 0; first && f < FILES; f++)
        if (saving->writers[f] && !mw_safetensors_begin(saving->writers[f], error))
            return false;
    if (!meet(saving, error))
        return false;
    for (int f = 0; !first && f < FILES; f++)
        if (saving->writers[f] && !mw_safetensors_attach(saving->writers[f], error))
            return false;
    return true;
}

static bool
end_file(struct saving *saving, int file, GError **error)
{
    struct mw_safetensors_writer *writer = saving->writers[file];
    double bytes = (double)mw_safetensors_written_bytes(writer), own = bytes;

    if (!mw_safetensors_sync(writer, error) ||
        !saving->source->sum(saving->source->data, &bytes, error))
        return false;
    if (saving->source->rank > 0)
        return true;
    if (!mw_safetensors_commit(writer, (int64_t)(bytes - own), error))
        return false;
    describe_digest(saving, file, mw_safetensors_written_digest(writer));
    return true;
}

/* NULL: there is no such file. */
static bool
write_text(const struct saving *saving, const char *name, const char *text, GError **error)
{
    g_autofree char *path = g_build_filename(saving->part, name, NULL);
    g_autoptr(GError) reason = NULL;

    if (!text || g_file_set_contents_full(
                     path, text, -1, G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_DURABLE,
                     0666, &reason))
        return true;
    g_set_error_literal(error, MW_ERROR, MW_ERROR_IO, reason->message);
    return false;
}

/* Asks as late as possible, since writing may have taken long. */
static bool
put_in_place(struct saving *saving, GError **error)
{
    const struct mw_checkpoint_options *o = saving->options;
    int64_t steps = saving->source->step + 1;
    const char *advice;
    g_autofree char *why = o->keeps ? mw_checkpoint_folder_keeps(saving->path, &advice) : NULL;

    if (!why && o->keeps)
        why = o->keeps(saving->path, steps, o->data);
    if (!why)
        return mw_checkpoint_folder_commit(saving->path, saving->part, error);
    char *path = mw_checkpoint_folder_commit_beside(saving->path, saving->part, steps, error);
    if (path && o->place)
        *o->place = (struct mw_checkpoint_place){path, g_steal_pointer(&why)};
    else
        g_free(path);
    return path != NULL;
}

static bool
end(struct saving *saving, GError **error)
{
    for (int f = 0; f < FILES; f++)
        if (saving->writers[f] && !end_file(saving, f, error))
            return false;
    const struct mw_checkpoint_options *o = saving->options;
    if (saving->source->rank == 0 &&
        (!write_text(saving, MW_CHECKPOINT_CONFIG, o->config, error) ||
         !write_text(saving, MW_CHECKPOINT_ADAPTER_CONFIG, o->adapter_config, error) ||
         !put_in_place(saving, error)))
        return false;
    return meet(saving, error);
}

static void
open_writers(struct saving *saving)
{
    for (int f = 0; f < FILES; f++) {
        g_autofree char *path = g_build_filename(saving->part, file_names[f], NULL);
        if ((f == OPTIMIZER && !saving->options->optimizer) ||
            (f == ADAPTERS && !saving->source->decoder->lora_rank))
            continue;
        saving->writers[f] = mw_safetensors_writer_new(path);
    }
}

static bool
write_files(struct saving *saving, GError **error)
{
    const struct mw_checkpoint_source *source = saving->source;

    open_writers(saving);
    return declare(saving, error) && begin(saving, error) &&
           source->visit(source->data, store, saving, error) && store_vectors(saving, error) &&
           end(saving, error);
}

/* Removes the folder if it did not become PATH; if it did, nothing has this name. */
static void
finish(struct saving *saving)
{
    for (int f = 0; f < FILES; f++)
        mw_safetensors_writer_free(saving->writers[f]);
    if (saving->part && saving->source->rank == 0)
        mw_checkpoint_folder_remove(saving->part);
    if (saving->lock >= 0)
        close(saving->lock);
    g_free(saving->fields);
    g_free(saving->part);
    g_free(saving->path);
    g_free(saving->narrow);
}

bool
mw_checkpoint_write(const struct mw_checkpoint_source *source,
                    const struct mw_checkpoint_options *options, GError **error)
{
    struct saving saving = {.source = source,
                            .options = options,
                            .path = mw_checkpoint_folder_place(options->path),
                            .lock = -1};
    bool good =
        agree_on_fields(&saving, error) && make_part(&saving, error) && write_files(&saving, error);

    finish(&saving);
    return good;
}

void
mw_checkpoint_place_clear(struct mw_checkpoint_place *place)
{
    g_free(place->path);
    g_free(place->why);
    *place = (struct mw_checkpoint_place){0};
}

/* --- room ------------------------------------------------------------------------------------ */

/* Declares the files without a place; nothing is made. */
static bool
find_bytes(const struct mw_decoder *decoder, int64_t bytes[FILES], GError **error)
{
    struct mw_checkpoint_source source = {.decoder = decoder};
    struct mw_checkpoint_options options = {.dtype = MW_SAFETENSORS_F32, .optimizer = true};
    struct saving saving = {&source, &options, .part = g_strdup(""), .lock = -1};

    open_writers(&saving);
    bool good = declare(&saving, error);
    for (int f = 0; f < FILES; f++) {
        bytes[f] = 0;
        good = good &&
               (!saving.writers[f] || mw_safetensors_plan(saving.writers[f], &bytes[f], error));
        mw_safetensors_writer_free(saving.writers[f]);
    }
    g_free(saving.part);
    return good;
}

/* If a file system does not count its blocks, its room is unknown. */
static int64_t
free_bytes_at(const char *folder)
{
    struct statvfs info;

    if (statvfs(folder, &info) || !info.f_blocks)
        return INT64_MAX;
    return (int64_t)MIN((double)info.f_bavail * (double)info.f_frsize, 0x1p62);
}

bool
mw_checkpoint_check_space(const char *path, const struct mw_decoder *decoder, GError **error)
{
    g_autofree char *whole = mw_checkpoint_folder_place(path);
    g_autofree char *parent = g_path_get_dirname(whole);
    int64_t bytes[FILES], free = free_bytes_at(parent);
    struct rlimit limit;

    if (!find_bytes(decoder, bytes, error))
        return false;
    int64_t all = bytes[MODEL] + bytes[ADAPTERS] + bytes[OPTIMIZER];
    if (all > free) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s: a checkpoint takes %.1f MB (beside one that it replaces), and %s has %.1f "
                    "MB free: make room, or give another folder",
                    path, (double)all / 1e6, parent, (double)free / 1e6);
        return false;
    }
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
        (uint64_t)MAX(bytes[MODEL], bytes[OPTIMIZER]) > limit.rlim_cur) {
        g_set_error(error, MW_ERROR, MW_ERROR_IO,
                    "%s: a checkpoint has a file of %" PRId64 " bytes, and no file may be longer "
                    "than %" PRIu64 " here: raise the limit (ulimit -f)",
                    path, MAX(bytes[MODEL], bytes[OPTIMIZER]), (uint64_t)limit.rlim_cur);
        return false;
    }
    return true;
}

/* --- of a run -------------------------------------------------------------------------------- */

/* All sharding groups have the same state: the first one writes it. */
static bool
visit_trainer(void *data, mw_trainer_visit visit, void *visit_data, GError **error)
{
    struct mw_trainer *trainer = data;

    return trainer->replica || mw_trainer_visit_state(trainer, visit, visit_data, error);
}

static bool
sum_trainers(void *data, double *value, GError **error)
{
    return mw_trainer_sum(data, 0, value, error);
}

static float *
copy_vectors(void *data, GError **error)
{
    const struct mw_trainer *trainer = data;

    (void)error;
    return g_memdup2(trainer->vectors.now, (gsize)mw_vectors_saved_bytes(trainer->plan));
}

bool
mw_checkpoint_save(struct mw_trainer *trainer, const struct mw_checkpoint_options *options,
                   GError **error)
{
    struct mw_commit_field fields[MW_TRAINER_OWN_FIELDS + MW_TRAINER_FIELDS_MAX];
    struct mw_checkpoint_source source = {
        .decoder = &trainer->plan->shape.decoder,
        .optimizer = trainer->plan->shape.optimizer,
        .step = trainer->next_step - 1,
        .fields = fields,
        .field_count = mw_trainer_fields(trainer, fields),
        .vectors = trainer->vectors.places,
        .vector_values = copy_vectors,
        .rank = trainer->world_rank,
        .data_rank = trainer->rank,
        .visit = visit_trainer,
        .sum = sum_trainers,
        .data = trainer,
    };

    return mw_checkpoint_write(&source, options, error);
}
