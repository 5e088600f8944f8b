/*
 * What the fields of a record must and may say.  A checksum tells damage, not what never was a
 * number of a run: a scale that is none, counts beyond the steps that were done, or none at all,
 * would change the training without a word.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "exec/trainer/internal.h"

enum kind { COUNT, SCALE, TYPE, OPTIMIZER };

/* A step of a pipeline without a flush may have an update for each micro-batch, of which an op
 * numbers so many. */
#define UPDATES_OF_STEP_MAX ((uint64_t)UINT16_MAX + 1)

/* A missing field has no value, not even 0.  `since` is the format from which on a field must be
 * there; 0: it may be missing.  Format 1 does not state its number. */
static const struct {
    const char *name;
    enum kind kind;
    uint64_t since;
} rows[] = {
    {MW_TRAINER_UPDATES, COUNT, 1},    {MW_TRAINER_GOOD_STEPS, COUNT, 1},
    {MW_TRAINER_SKIPPED, COUNT, 1},    {MW_TRAINER_SKIPPED_IN_ROW, COUNT, 1},
    {MW_TRAINER_LOSS_SCALE, SCALE, 1}, {MW_TRAINER_PENDING, SCALE, 0},
    {MW_TRAINER_DTYPE, TYPE, 2},       {MW_TRAINER_OPTIMIZER, OPTIMIZER, 0},
};

G_GNUC_PRINTF(2, 3)
static bool
refuse(GError **error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, MW_ERROR, MW_ERROR_FORMAT, text);
    return false;
}

static bool
check_scale(const struct mw_commit_record *record, const char *name, GError **error)
{
    double scale = 1;

    mw_commit_find_real(record, name, &scale);
    return mw_loss_scale_is_one(scale) ||
           refuse(error, "field \"%s\" is %g: must be a power of two, such as 65536", name, scale);
}

static bool
check_field(const struct mw_commit_record *record, size_t row, uint64_t value, GError **error)
{
    const char *name = rows[row].name;

    switch (rows[row].kind) {
    case COUNT:
        return value / UPDATES_OF_STEP_MAX <= (uint64_t)record->step ||
               refuse(error, "field \"%s\" is %" PRIu64 ": must be at most %" PRIu64
                             " for each of the %" PRId64 " steps that were done",
                      name, value, UPDATES_OF_STEP_MAX, record->step + 1);
    case SCALE:
        return check_scale(record, name, error);
    case TYPE:
        return (value < MW_DTYPE_COUNT && mw_dtype_row((int)value)->computes) ||
               refuse(error, "field \"%s\" is %" PRIu64 ": must be %d (%s), %d (%s) or %d (%s)",
                      name, value, MW_DTYPE_BF16, mw_dtype_name(MW_DTYPE_BF16), MW_DTYPE_FP16,
                      mw_dtype_name(MW_DTYPE_FP16), MW_DTYPE_FP32,
                      mw_dtype_name(MW_DTYPE_FP32));
    case OPTIMIZER:
        return (value < MW_OPTIMIZER_COUNT && mw_optimizer_row((int)value)->runs) ||
               refuse(error, "field \"%s\" is %" PRIu64 ": must be the number of an optimizer that "
                             "runs, such as %d (%s)",
                      name, value, MW_OPTIMIZER_ADAMW, mw_optimizer_name(MW_OPTIMIZER_ADAMW));
    }
    return true;
}

static bool
check_row(const struct mw_commit_record *record, size_t row, uint64_t format, GError **error)
{
    uint64_t value;

    if (mw_commit_find(record, rows[row].name, &value))
        return check_field(record, row, value, error);
    return !rows[row].since || rows[row].since > format ||
           mw_trainer_refuse_missing(rows[row].name, error);
}

bool
mw_trainer_refuse_missing(const char *name, GError **error)
{
    return refuse(error, "field \"%s\" is missing: must be there once", name);
}

static bool
check_twice(const struct mw_commit_record *record, GError **error)
{
    for (int i = 0; i < record->field_count; i++)
        for (int j = 0; j < i; j++) {
            if (strcmp(record->fields[i].name, record->fields[j].name))
                continue;
            g_autofree char *name = g_strescape(record->fields[i].name, NULL);
            return refuse(error, "field \"%s\" is there twice: must be there once", name);
        }
    return true;
}

static bool
check_format(const struct mw_commit_record *record, uint64_t *format, GError **error)
{
    uint64_t value;

    *format = 1;
    mw_commit_find(record, MW_TRAINER_FORMAT, format);
    if (*format < 1 || *format > MW_TRAINER_FORMAT_NOW)
        return refuse(error,
                      "field \"" MW_TRAINER_FORMAT "\" is %" PRIu64 ": must be from 1 to %d: "
                      "a newer memwall wrote it, or it is damaged",
                      *format, MW_TRAINER_FORMAT_NOW);
    return *format < 2 || mw_commit_find(record, MW_TRAINER_ON_GPU, &value) ||
           mw_commit_find(record, MW_TRAINER_ISA, &value) ||
           mw_trainer_refuse_missing(MW_TRAINER_ISA "\" or \"" MW_TRAINER_ON_GPU, error);
}

/* Steps are counted on from this one, in numbers that are also held as fp64. */
bool
mw_trainer_check_fields(const struct mw_commit_record *record, GError **error)
{
    uint64_t format;

    if (record->step < -1 || record->step >= MW_TRAINER_STEPS_MAX)
        return refuse(error, "step %" PRId64 ": must be from 0 (before the first) to %" PRId64,
                      record->step + 1, MW_TRAINER_STEPS_MAX);
    if (!check_twice(record, error) || !check_format(record, &format, error))
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        if (!check_row(record, i, format, error))
            return false;
    return true;
}

/* --- what computes --------------------------------------------------------------------------- */

/* Records hold these numbers.  A number that this version does not know comes from another
 * version. */
G_STATIC_ASSERT(MW_CPU_ISA_GENERIC == 0 && MW_CPU_ISA_AVX2 == 1 && MW_CPU_ISA_AVX512 == 2 &&
                MW_CPU_ISA_AVX512_BF16 == 3);

#define ON_GPU "a GPU"

struct mw_commit_field
mw_trainer_computes_with(const struct mw_trainer *trainer)
{
    return trainer->options.backend->apart ? mw_commit_field(MW_TRAINER_ON_GPU, 1)
                                           : mw_commit_field(MW_TRAINER_ISA, mw_cpu_isa_used(NULL));
}

/* NULL if a record of an older version does not say it. */
static const char *
computed_with(const struct mw_commit_record *record)
{
    uint64_t value;

    if (mw_commit_find(record, MW_TRAINER_ON_GPU, &value))
        return ON_GPU;
    if (!mw_commit_find(record, MW_TRAINER_ISA, &value))
        return NULL;
    return value < MW_CPU_ISAS ? mw_cpu_isa_name((enum mw_cpu_isa)value)
                               : "instructions that this version does not know";
}

char *
mw_trainer_tell_change(const struct mw_trainer *trainer, const struct mw_commit_record *record)
{
    const char *then = computed_with(record);
    const char *now =
        trainer->options.backend->apart ? ON_GPU : mw_cpu_isa_name(mw_cpu_isa_used(NULL));

    if (!then || record->step < 0 || !strcmp(then, now))
        return NULL;
    return g_strdup_printf("this run was computed with %s until step %" PRId64
                           "; it continues with "
                           "%s: its losses will differ in their last digits",
                           then, record->step + 1, now);
}
