#include <glib.h>
#include <math.h>
#include <string.h>

#include "exec/checkpoint_internal.h"
#include "exec/trainer_internal.h"
#include "planner/error.h"
#include "tests/fuzz/fuzz.h"

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
        g_assert_true(updates <= (uint64_t)record.step + 1);
        g_assert_true(isfinite(scale) && scale > 0);
    } else {
        g_assert_true(error->domain == MW_ERROR);
        g_assert_null(strchr(error->message, '\n'));
    }
    mw_commit_record_clear(&record);
    return 0;
}
