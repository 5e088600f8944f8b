#include <glib.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "cli/run/fields.h"
#include "exec/trainer/checkpoint_internal.h"
#include "exec/trainer/internal.h"
#include "tests/fuzz/fuzz.h"

/* What follows from fields of the course: all of it in numbers. */
static void
check_course(const struct mw_commit_record *record)
{
    uint64_t warmup = 0, seed = 0;
    double lr = 1, factor = 1, beta = 0;

    mw_commit_find(record, "warmup", &warmup);
    mw_commit_find(record, "seed", &seed);
    mw_commit_find_real(record, "lr", &lr);
    mw_commit_find_real(record, "rope-factor", &factor);
    mw_commit_find_real(record, "beta2", &beta);
    g_assert_true(warmup <= INT32_MAX && seed <= INT64_MAX);
    g_assert_true(isfinite(lr) && lr > 0 && isfinite(factor) && beta >= 0 && beta < 1);
}

/* The metadata of a checkpoint: the step on a first line, the fields on a second.  What is accepted
 * can be counted on from; what is refused says why in a line. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    g_auto(GStrv) lines = g_strsplit(text, "\n", 2);
    bool both = lines[0] && lines[1];
    g_autoptr(GError) error = NULL;
    struct mw_commit_record record;
    uint64_t updates = 0;
    double scale = 1;

    if (mw_checkpoint_parse(lines[0], both ? lines[1] : NULL, "optimizer.safetensors", &record,
                            &error)) {
        mw_commit_find(&record, MW_TRAINER_UPDATES, &updates);
        mw_commit_find_real(&record, MW_TRAINER_LOSS_SCALE, &scale);
        g_assert_true(updates / (UINT16_MAX + UINT64_C(1)) <= (uint64_t)record.step);
        g_assert_true(isfinite(scale) && scale > 0);
        if (cli_run_fields_check(&record, &error))
            check_course(&record);
    }
    if (error) {
        g_assert_true(error->domain == MW_ERROR);
        g_assert_null(strchr(error->message, '\n'));
    }
    mw_commit_record_clear(&record);
    return 0;
}
