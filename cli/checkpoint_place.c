#include "cli/checkpoint_place.h"

#include "exec/checkpoint.h"
#include "planner/error.h"

char *
cli_checkpoint_place_keeps(const char *path, const struct mw_decoder *decoder, int64_t steps)
{
    g_autoptr(GError) why = NULL;
    int64_t step = -1;

    switch (mw_checkpoint_look(path, decoder, &step, &why)) {
    case MW_CHECKPOINT_NONE:
        break;
    case MW_CHECKPOINT_FITS:
        return step < steps
                   ? NULL
                   : g_strdup_printf("holds a checkpoint of %" G_GINT64_FORMAT
                                     " steps, more than the %" G_GINT64_FORMAT " of this one",
                                     step + 1, steps);
    case MW_CHECKPOINT_OTHER:
        return g_strdup_printf("holds a checkpoint of another model (%s)", why->message);
    case MW_CHECKPOINT_UNREADABLE:
        return g_strdup_printf("holds a checkpoint that cannot be read (%s)", why->message);
    }
    return NULL;
}

bool
cli_checkpoint_place_check(const char *option, const char *path, const struct mw_decoder *decoder,
                           int64_t steps, GError **error)
{
    if (!mw_checkpoint_check(path, error))
        return false;
    g_autofree char *keeps = cli_checkpoint_place_keeps(path, decoder, steps);
    return !keeps || mw_refuse(error, "%s %s: %s: give another folder, or delete that one", option,
                               path, keeps);
}

int
cli_checkpoint_place_beside(const char *path, int64_t steps)
{
    for (int number = 1;; number++) {
        g_autofree char *place = mw_checkpoint_beside(path, steps, number);
        if (!g_file_test(place, G_FILE_TEST_EXISTS) && !g_file_test(place, G_FILE_TEST_IS_SYMLINK))
            return number;
    }
}
