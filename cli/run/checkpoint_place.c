#include "cli/run/checkpoint_place.h"

#include "base/error.h"
#include "cli/cli.h"

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
        return g_strdup_printf("holds a checkpoint of another model or of other adapters (%s)",
                               why->message);
    case MW_CHECKPOINT_UNREADABLE:
        return g_strdup_printf("holds a checkpoint that cannot be read (%s)", why->message);
    }
    return NULL;
}

bool
cli_checkpoint_place_repair(const char *path, GError **error)
{
    g_autofree char *said = NULL;
    bool good = mw_checkpoint_recover(path, &said, error);

    if (said)
        cli_say("%s", said);
    return good;
}

bool
cli_checkpoint_place_check(const char *option, const char *path, const struct mw_decoder *decoder,
                           int64_t steps, GError **error)
{
    if (!cli_checkpoint_place_repair(path, error) ||
        !cli_as_usage_error(mw_checkpoint_check(path, error), error))
        return false;
    g_autofree char *keeps = cli_checkpoint_place_keeps(path, decoder, steps);
    if (keeps)
        return mw_refuse(error, "%s %s: %s: give another folder, or delete that one", option, path,
                         keeps);
    return mw_checkpoint_check_space(path, decoder, error);
}

char *
cli_checkpoint_place_keeps_late(const char *path, int64_t steps, void *decoder)
{
    return cli_checkpoint_place_keeps(path, decoder, steps);
}

void
cli_checkpoint_place_tell(const char *option, const char *path,
                          const struct mw_checkpoint_place *place)
{
    if (place->path)
        cli_say("%s %s: %s: it stays, and this one is in %s", option, path, place->why,
                place->path);
}

char *
cli_checkpoint_place_other(const char *path, int64_t steps, int attempt)
{
    const char *const folders[] = {".", g_get_home_dir()};
    g_autofree char *base = g_path_get_basename(path);

    if (attempt > (int)G_N_ELEMENTS(folders))
        return NULL;
    g_autofree char *there = g_build_filename(folders[attempt - 1], base, NULL);
    for (int number = 1;; number++) {
        g_autofree char *place = mw_checkpoint_beside(there, steps, number);
        if (!g_file_test(place, G_FILE_TEST_EXISTS) && !g_file_test(place, G_FILE_TEST_IS_SYMLINK))
            return g_steal_pointer(&place);
    }
}
