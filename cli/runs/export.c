#include "cli/runs/export.h"

#include "base/error.h"
#include "cli/cli.h"
#include "cli/run/checkpoint_place.h"
#include "cli/run/course.h"
#include "cli/run/homes.h"
#include "cli/runs/aside.h"
#include "cli/runs/runs.h"
#include "exec/commit/run_files.h"
#include "exec/trainer/checkpoint.h"
#include "exec/trainer/durable.h"
#include "exec/trainer/frozen.h"

static bool
fits(void *data, const char *path, const struct mw_commit_record *record, GError **error)
{
    const struct cli_run_homes *homes = data;

    return cli_run_course_fits(&homes->decoder, homes->fingerprint, path, record, error);
}

/* Without a record there is nothing to export.  If something else has a record's name, opening it
 * says so. */
static bool
check_record(const char *directory, GError **error)
{
    struct mw_run_files files;
    bool good = mw_run_files_look(directory, &files, error);

    if (good && !files.record && !files.stranger)
        good = mw_refuse(error, "%s: holds no run whose steps are durable: %s", directory,
                         files.names->len ? "no record of a step is there, or it was wiped"
                                          : "no file of a run is there");
    mw_run_files_clear(&files);
    return good;
}

/* A run on drives, and what its files do not have. */
struct source {
    struct cli_run_homes homes;
    struct mw_safetensors *weights; /* of parameters that are not trained; NULL */
    struct mw_durable *durable;
};

static bool
open_weights(struct source *source, GError **error)
{
    const char *folder = source->homes.weights;

    bool frozen = mw_frozen_is_there(source->homes.plan);

    for (int i = 0; i < source->homes.later_count; i++)
        frozen |= mw_frozen_is_there(source->homes.later[i]);
    if (!folder || !frozen)
        return true;
    source->weights = mw_safetensors_open(folder, error);
    if (!source->weights)
        g_prefix_error(error, "what the run does not train was read from there: ");
    return source->weights != NULL;
}

static void
close_source(struct source *source)
{
    mw_durable_close(source->durable);
    mw_safetensors_close(source->weights);
    cli_run_homes_clear(&source->homes);
}

/* Close it afterwards, on success and on failure. */
static bool
open_source(char **directories, bool previous, struct source *source, GError **error)
{
    struct cli_run_homes *homes = &source->homes;

    *source = (struct source){0};
    if (!check_record(directories[0], error) || !cli_run_homes_read(directories[0], homes, error) ||
        !open_weights(source, error))
        return false;
    struct mw_durable_options from = {
        .directories = (const char *const *)directories,
        .directory_count = (int)g_strv_length(directories),
        .plan = homes->plan,
        .decoder = &homes->decoder,
        .later = (const struct mw_plan *const *)homes->later,
        .later_count = homes->later_count,
        .slices = homes->slices,
        .replicas = homes->replicas,
        .fingerprint = homes->fingerprint,
        .weights = source->weights,
        .seed = homes->seed,
        .previous = previous,
        .fits = fits,
        .data = homes,
    };
    source->durable = mw_durable_open(&from, error);
    return source->durable != NULL;
}

static bool
write_checkpoint(char **directories, const char *option, const char *folder, bool previous,
                 int64_t *steps, GError **error)
{
    struct source source;
    struct mw_checkpoint_place place = {0};
    struct mw_durable *durable =
        open_source(directories, previous, &source, error) ? source.durable : NULL;
    struct mw_decoder *decoder = &source.homes.decoder;
    g_autofree char *adapters =
        durable && decoder->lora_rank ? mw_model_write_adapter_config(decoder) : NULL;
    struct mw_checkpoint_options to = {
        .path = folder,
        .dtype = MW_SAFETENSORS_F32,
        .optimizer = true,
        .config = source.homes.config,
        .adapter_config = adapters,
        .keeps = cli_checkpoint_place_keeps_late,
        .data = decoder,
        .place = &place,
    };

    if (durable && mw_durable_notice(durable))
        cli_say("%s", mw_durable_notice(durable));
    if (durable)
        *steps = mw_durable_step(durable) + 1;
    if (durable && !previous)
        cli_runs_tell_lost_step(cli_runs_noted_step(directories[0]), *steps, "this is");
    bool good = durable && cli_checkpoint_place_check(option, folder, decoder, *steps, error) &&
                mw_durable_export(durable, &to, error);

    cli_checkpoint_place_tell(option, folder, &place);
    mw_checkpoint_place_clear(&place);
    close_source(&source);
    return good;
}

int64_t
cli_export_steps(char **directories, bool previous)
{
    struct source source;
    bool good = open_source(directories, previous, &source, NULL);
    int64_t steps = good ? mw_durable_step(source.durable) + 1 : 0;

    close_source(&source);
    return steps;
}

/* Checks that the named directories are those of one run, and that it is not running. */
static bool
check_directories(char **directories, GError **error)
{
    const char *repeated = cli_runs_repeated(directories);
    struct cli_run_entry entry;
    struct mw_run_files files;
    bool good = true;

    if (repeated)
        return mw_refuse(error, "%s: is given twice: give each directory of the run once",
                         repeated);
    if (!cli_runs_end_replacing_all(directories, false, error) ||
        !cli_run_entry_read(directories[0], &entry, error))
        return false;
    for (char **each = directories; good && *each; each++) {
        good = mw_run_files_look(*each, &files, error);
        if (good && files.running)
            good = mw_refuse(error, "%s: is running: nothing is exported", *each);
        if (good && !cli_runs_has(&entry, *each))
            good = mw_refuse(error,
                             "%s: has nothing of run %s, which %s has: name the directories "
                             "of one run, in the order of its drives",
                             *each, entry.name, directories[0]);
        mw_run_files_clear(&files);
    }
    cli_run_entry_clear(&entry);
    return good;
}

bool
cli_export(char **names, const char *option, const char *folder, bool previous, int64_t *steps,
           GError **error)
{
    if (names[1])
        return check_directories(names, error) &&
               write_checkpoint(names, option, folder, previous, steps, error);
    struct cli_run *run = cli_runs_find(names[0], error);
    if (!run)
        return false;
    bool good = run->state != CLI_RUN_RUNNING ||
                mw_refuse(error, "%s: is running: nothing is exported", names[0]);
    good = good && write_checkpoint(run->entry.directories, option, folder, previous, steps, error);
    cli_run_free(run);
    return good;
}
