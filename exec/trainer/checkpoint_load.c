#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "exec/host/checksum.h"
#include "exec/trainer/checkpoint_internal.h"
#include "exec/trainer/internal.h"

struct mw_checkpoint {
    const struct mw_decoder *decoder;
    struct mw_safetensors *model, *optimizer;
    struct mw_safetensors *adapters; /* NULL: the model has none */
    bool has_masters;                /* the optimizer's file has the fp32 parameters */
    struct mw_commit_record record;
};

/* --- numbers --------------------------------------------------------------------------------- */

/* Refuses a name that a record would cut. */
static bool
parse_field(const char *word, struct mw_commit_field *field)
{
    const char *equals = strchr(word, '=');
    g_autofree char *name = equals ? g_strndup(word, (gsize)(equals - word)) : NULL;
    uint64_t value = 0;

    if (!name || !*name || strlen(name) >= MW_COMMIT_NAME_BYTES ||
        !g_ascii_string_to_unsigned(equals + 1, 16, 0, G_MAXUINT64, &value, NULL))
        return false;
    *field = mw_commit_field(name, value);
    return true;
}

static bool
fields_parse(const char *text, struct mw_commit_record *record)
{
    g_auto(GStrv) words = g_strsplit(text, " ", -1);
    int count = (int)g_strv_length(words);
    bool good = count <= MW_COMMIT_FIELDS_MAX;

    record->fields = g_new0(struct mw_commit_field, count + 1);
    for (int i = 0; good && i < count; i++)
        good = parse_field(words[i], &record->fields[record->field_count++]);
    return good;
}

bool
mw_checkpoint_parse(const char *step, const char *fields, const char *origin,
                    struct mw_commit_record *record, GError **error)
{
    *record = (struct mw_commit_record){0};
    if (!step || !fields ||
        !g_ascii_string_to_signed(step, 10, -1, G_MAXINT64 - 1, &record->step, NULL) ||
        !fields_parse(fields, record)) {
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                    "%s: its metadata must have \"" MW_CHECKPOINT_STEP
                    "\" and \"" MW_CHECKPOINT_FIELDS "\", as memwall writes them",
                    origin);
        return false;
    }
    if (mw_trainer_check_fields(record, error))
        return true;
    g_prefix_error(error, "%s: metadata \"" MW_CHECKPOINT_FIELDS "\": ", origin);
    return false;
}

/* Files count steps from 0, messages from 1. */
static char *
step_in_words(const char *text)
{
    int64_t step;

    return text && g_ascii_string_to_signed(text, 10, -1, G_MAXINT64 - 1, &step, NULL)
               ? g_strdup_printf("step %" PRId64, step + 1)
               : g_strdup("a step that they do not say");
}

/* --- two files of one save ------------------------------------------------------------------- */

G_GNUC_PRINTF(3, 4)
static bool
refuse(const struct mw_checkpoint *it, GError **error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *why = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT, "%s: %s", mw_safetensors_path(it->optimizer),
                why);
    return false;
}

static bool
check_step(const struct mw_checkpoint *it, GError **error)
{
    const char *other = mw_safetensors_metadata(it->model, MW_CHECKPOINT_STEP);

    if (!g_strcmp0(mw_safetensors_metadata(it->optimizer, MW_CHECKPOINT_STEP), other))
        return true;
    g_autofree char *theirs = step_in_words(other);
    return refuse(it, error, "of step %" PRId64 ", but the weights beside it are of %s",
                  it->record.step + 1, theirs);
}

/* Refuses the first field that the weights' file has with another value, or not at all. */
static bool
check_same_fields(const struct mw_checkpoint *it, GError **error)
{
    const char *theirs = mw_safetensors_metadata(it->model, MW_CHECKPOINT_FIELDS);
    g_auto(GStrv) others = g_strsplit(theirs ? theirs : "", " ", -1);

    if (!g_strcmp0(mw_safetensors_metadata(it->optimizer, MW_CHECKPOINT_FIELDS), theirs))
        return true;
    for (int i = 0; i < it->record.field_count; i++) {
        const struct mw_commit_field *field = &it->record.fields[i];
        g_autofree char *same = g_strdup_printf("%s=%" PRIx64, field->name, field->value);
        g_autofree char *name = g_strescape(field->name, NULL);
        if (!g_strv_contains((const char *const *)others, same))
            return refuse(it, error,
                          "field \"%s\" of its metadata is not that of the weights beside it: they "
                          "are of two trainings; give both files of one save",
                          name);
    }
    return refuse(it, error,
                  "the fields of its metadata are not those of the weights beside it: they are of "
                  "two trainings; give both files of one save");
}

/* Of the weights, or of the adapters. */
static bool
check_digest(const struct mw_checkpoint *it, const struct mw_safetensors *model, const char *key,
             GError **error)
{
    const char *text = mw_safetensors_metadata(it->optimizer, key);
    const bool sums = mw_safetensors_has_sums(model);
    uint64_t digest;

    if (sums != mw_safetensors_has_sums(it->optimizer))
        return refuse(it, error,
                      "has %s, and the weights beside it have %s: both files of a "
                      "checkpoint have them, or neither",
                      sums ? "no checksums" : "checksums", sums ? "some" : "none");
    if (!text)
        return true; /* an older version wrote it */
    if (strlen(text) != 16 || !g_ascii_string_to_unsigned(text, 16, 0, G_MAXUINT64, &digest, NULL))
        return refuse(it, error, "metadata \"%s\" must have 16 hexadecimal digits", key);
    if (!sums)
        return refuse(it, error,
                      "says which weights it goes with (\"%s\"), but neither file has the "
                      "checksums to tell them by",
                      key);
    return digest == mw_safetensors_digest(model) ||
           refuse(it, error,
                  "goes with other weights than those beside it: they are of two trainings; give "
                  "both files of one save");
}

static bool
read_numbers(struct mw_checkpoint *it, GError **error)
{
    const char *step = mw_safetensors_metadata(it->optimizer, MW_CHECKPOINT_STEP);
    const char *fields = mw_safetensors_metadata(it->optimizer, MW_CHECKPOINT_FIELDS);

    return mw_checkpoint_parse(step, fields, mw_safetensors_path(it->optimizer), &it->record,
                               error) &&
           check_step(it, error) && check_same_fields(it, error) &&
           check_digest(it, it->model, MW_CHECKPOINT_WEIGHTS, error) &&
           (!it->adapters || check_digest(it, it->adapters, MW_CHECKPOINT_ADAPTED, error));
}

int
mw_checkpoint_optimizer(const struct mw_checkpoint *checkpoint)
{
    uint64_t optimizer = MW_OPTIMIZER_ADAMW;

    mw_commit_find(&checkpoint->record, MW_TRAINER_OPTIMIZER, &optimizer);
    return (int)optimizer;
}

/* --- tensors --------------------------------------------------------------------------------- */

static bool
has_prefix(const struct mw_safetensors *set, const char *prefix)
{
    for (size_t i = 0; i < mw_safetensors_count(set); i++)
        if (g_str_has_prefix(mw_safetensors_at(set, i)->name, prefix))
            return true;
    return false;
}

/* Of the decoder and of the files one may have adapters without the other. */
static bool
check_adapters(const struct mw_checkpoint *it, GError **error)
{
    if (it->adapters && !it->decoder->lora_rank)
        return mw_fail(error, MW_ERROR_FORMAT,
                       "%s: has adapters of a model: give {train=lora:RANK} as they were trained",
                       mw_safetensors_path(it->adapters));
    return it->adapters || !it->decoder->lora_rank ||
           mw_fail(error, MW_ERROR_FORMAT,
                   "%s: a checkpoint without adapters, and {train=lora:RANK} asks for some: leave "
                   "out {train}, or begin with its weights: {weights=FOLDER}",
                   mw_checkpoint_file(it));
}

static bool
check_tensors(struct mw_checkpoint *it, GError **error)
{
    if (!check_adapters(it, error))
        return false;
    it->has_masters = has_prefix(it->optimizer, MW_CHECKPOINT_MASTERS);
    if (!mw_weights_check_sets(it->decoder, (struct mw_weights_sets){it->model, it->adapters}, "",
                               error))
        return false;
    for (int s = 1; s < MW_KEPT_COUNT; s++)
        if (mw_optimizer_keeps(mw_checkpoint_optimizer(it), (enum mw_kept)s) &&
            !mw_weights_check(it->decoder, it->optimizer, mw_checkpoint_prefixes[s], error))
            return false;
    return !it->has_masters ||
           mw_weights_check(it->decoder, it->optimizer, MW_CHECKPOINT_MASTERS, error);
}

static bool
open_adapters(struct mw_checkpoint *it, const char *path, GError **error)
{
    g_autofree char *adapters = g_build_filename(path, MW_CHECKPOINT_ADAPTERS, NULL);

    if (!g_file_test(adapters, G_FILE_TEST_EXISTS))
        return true;
    it->adapters = mw_safetensors_open(adapters, error);
    return it->adapters != NULL;
}

static bool
open_files(struct mw_checkpoint *it, const char *path, GError **error)
{
    g_autofree char *model = g_build_filename(path, MW_CHECKPOINT_MODEL, NULL);
    g_autofree char *optimizer = g_build_filename(path, MW_CHECKPOINT_OPTIMIZER, NULL);

    it->model = mw_safetensors_open(model, error);
    if (!it->model)
        return false;
    if (!g_file_test(optimizer, G_FILE_TEST_EXISTS)) {
        return mw_fail(
            error, MW_ERROR_FORMAT,
            "%s: has no " MW_CHECKPOINT_OPTIMIZER ": {weights} starts from weights alone", path);
    }
    it->optimizer = mw_safetensors_open(optimizer, error);
    return it->optimizer && open_adapters(it, path, error);
}

struct mw_checkpoint *
mw_checkpoint_open(const char *path, const struct mw_decoder *decoder, GError **error)
{
    struct mw_checkpoint *it = g_new0(struct mw_checkpoint, 1);

    it->decoder = decoder;
    if (open_files(it, path, error) && read_numbers(it, error) && check_tensors(it, error))
        return it;
    mw_checkpoint_close(it);
    return NULL;
}

/* A link counts as there, even one that leads nowhere. */
static bool
is_there(const char *path, const char *name)
{
    g_autofree char *file = g_build_filename(path, name, NULL);

    return g_file_test(file, G_FILE_TEST_EXISTS) || g_file_test(file, G_FILE_TEST_IS_SYMLINK);
}

enum mw_checkpoint_found
mw_checkpoint_look(const char *path, const struct mw_decoder *decoder, int64_t *step,
                   GError **error)
{
    enum mw_checkpoint_found found = MW_CHECKPOINT_UNREADABLE;

    if (!is_there(path, MW_CHECKPOINT_MODEL) && !is_there(path, MW_CHECKPOINT_OPTIMIZER))
        return MW_CHECKPOINT_NONE;
    struct mw_checkpoint *it = g_new0(struct mw_checkpoint, 1);
    it->decoder = decoder;
    if (open_files(it, path, error) && read_numbers(it, error)) {
        *step = it->record.step;
        found = check_tensors(it, error) ? MW_CHECKPOINT_FITS : MW_CHECKPOINT_OTHER;
    }
    mw_checkpoint_close(it);
    return found;
}

void
mw_checkpoint_close(struct mw_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    mw_safetensors_close(checkpoint->model);
    mw_safetensors_close(checkpoint->adapters);
    mw_safetensors_close(checkpoint->optimizer);
    mw_commit_record_clear(&checkpoint->record);
    g_free(checkpoint);
}

bool
mw_checkpoint_verify(const struct mw_checkpoint *checkpoint, size_t part, size_t parts,
                     GError **error)
{
    return mw_safetensors_verify(checkpoint->model, part, parts, error) &&
           (!checkpoint->adapters ||
            mw_safetensors_verify(checkpoint->adapters, part, parts, error)) &&
           mw_safetensors_verify(checkpoint->optimizer, part, parts, error);
}

bool
mw_checkpoint_has_sums(const struct mw_checkpoint *checkpoint)
{
    return mw_safetensors_has_sums(checkpoint->model) &&
           (!checkpoint->adapters || mw_safetensors_has_sums(checkpoint->adapters)) &&
           mw_safetensors_has_sums(checkpoint->optimizer);
}

bool
mw_checkpoint_is_bound(const struct mw_checkpoint *checkpoint)
{
    return mw_safetensors_metadata(checkpoint->optimizer, MW_CHECKPOINT_WEIGHTS) != NULL;
}

bool
mw_checkpoint_sample(const struct mw_checkpoint *checkpoint, uint64_t *digest, GError **error)
{
    const struct mw_commit_record *record = &checkpoint->record;
    uint64_t files[3] = {0};
    int count = checkpoint->adapters ? 3 : 2;

    if (!mw_safetensors_sample(checkpoint->model, &files[0], error) ||
        !mw_safetensors_sample(checkpoint->optimizer, &files[1], error) ||
        (count > 2 && !mw_safetensors_sample(checkpoint->adapters, &files[2], error)))
        return false;
    struct mw_checksum *running = mw_checksum_begin();
    mw_checksum_add(running, files, count * (int64_t)sizeof *files);
    mw_checksum_add(running, &record->step, sizeof record->step);
    for (int i = 0; i < record->field_count; i++) {
        const struct mw_commit_field *field = &record->fields[i];
        mw_checksum_add(running, field->name, (int64_t)strlen(field->name));
        mw_checksum_add(running, &field->value, sizeof field->value);
    }
    *digest = mw_checksum_end(running);
    return true;
}

const char *
mw_checkpoint_file(const struct mw_checkpoint *checkpoint)
{
    return mw_safetensors_path(checkpoint->optimizer);
}

const struct mw_commit_record *
mw_checkpoint_record(const struct mw_checkpoint *checkpoint)
{
    return &checkpoint->record;
}

bool
mw_checkpoint_read(const struct mw_checkpoint *it, const struct mw_decoder *decoder, int state,
                   const struct mw_weights_part *part, int64_t first, int64_t count,
                   enum mw_dtype as, void *out, GError **error)
{
    bool masters = state == 0 && it->has_masters;
    const struct mw_safetensors *set = state || masters ? it->optimizer : it->model;
    const char *prefix = masters ? MW_CHECKPOINT_MASTERS : mw_checkpoint_prefixes[state];

    if (state == MW_KEPT_VARIANCE)
        return mw_weights_load_squares(decoder, set, prefix, part, first, count, as, out, error);
    struct mw_weights_sets sets = {set, state || masters || !it->adapters ? set : it->adapters};
    return mw_weights_load_sets(decoder, sets, prefix, part, first, count, as, out, error);
}

bool
mw_checkpoint_read_vectors(const struct mw_checkpoint *checkpoint, const struct mw_vectors *vectors,
                           float *values, GError **error)
{
    return mw_vectors_load(vectors, checkpoint->optimizer, values, error);
}
