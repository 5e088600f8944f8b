/* --save: writes what was trained as a checkpoint, elsewhere if that place cannot be written. */
#include "base/error.h"
#include "cli/run/checkpoint_config.h"
#include "cli/run/checkpoint_place.h"
#include "cli/run/drives.h"
#include "cli/run/training.h"
#include "exec/trainer/checkpoint.h"

static bool
save_to(struct cli_training *run, const char *path, GError **error)
{
    const struct cli_request *request = run->request;
    struct mw_checkpoint_place place = {0};
    g_autofree char *config = cli_checkpoint_config(request->model_name, &run->decoder);
    g_autofree char *adapters =
        run->decoder.lora_rank ? mw_model_write_adapter_config(&run->decoder) : NULL;
    struct mw_checkpoint_options options = {
        .path = path,
        .dtype = MW_SAFETENSORS_F32,
        .optimizer = true,
        .config = config,
        .adapter_config = adapters,
        /* Before its last step a run may be behind the checkpoint there, which the check at its
         * start allowed; and others may have written to that place since. */
        .keeps = cli_checkpoint_place_keeps_late,
        .data = &run->decoder,
        .place = &place,
    };

    if (!mw_checkpoint_save(run->trainer, &options, error))
        return false;
    cli_checkpoint_place_tell("--save", path, &place);
    run->saved = g_strdup(place.path ? place.path : path);
    mw_checkpoint_place_clear(&place);
    return true;
}

/* The first rank looks, and tells the others. */
static bool
has_space(struct cli_training *run, const char *path, GError **error)
{
    bool first = mw_ranks_index(run->ranks) == 0;
    int lacks = first && !mw_checkpoint_check_space(path, &run->decoder, error);

    if (!mw_ranks_worst(run->ranks, 0, lacks, &lacks, NULL, lacks ? NULL : error))
        return false;
    if (lacks && !first)
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: has no room", path);
    return !lacks;
}

/* Ranks that wait for each other cannot recover once one has failed.  So they look first, and the
 * first place that has room is the last that they try. */
static bool
save_elsewhere(struct cli_training *run, const GError *why)
{
    int64_t steps = mw_trainer_next_step(run->trainer);
    bool alone = mw_ranks_count(run->ranks) == 1, tries = true;

    for (int attempt = 1; tries && !run->saved; attempt++) {
        g_autofree char *place = cli_checkpoint_place_other(run->options.save, steps, attempt);
        if (!place)
            return false;
        if (!has_space(run, place, NULL))
            continue;
        tries = save_to(run, place, NULL) || alone;
        if (run->saved && mw_ranks_index(run->ranks) == 0)
            cli_say("--save %s: %s: the checkpoint is in %s instead", run->options.save,
                    why->message, place);
    }
    return tries;
}

/* Adds how to get at what was trained, where nothing else has it. */
static void
explain_unsaved(const struct cli_training *run, GError *why)
{
    int64_t steps = mw_trainer_next_step(run->trainer);

    if (!run->options.nvme || !cli_training_is_durable(run))
        return;
    g_autofree char *name = cli_run_drives_called(run->drives);
    g_autofree char *text = g_strdup_printf("%s; step %" G_GINT64_FORMAT
                                            " is durable: `memwall export %s -o FOLDER` writes its "
                                            "checkpoint",
                                            why->message, steps, name);
    g_free(why->message);
    why->message = g_steal_pointer(&text);
}

bool
cli_training_save(struct cli_training *run, GError **error)
{
    GError *why = NULL;

    const char *path = run->options.save;
    const bool several = mw_ranks_count(run->ranks) > 1;

    if (!path)
        return true;
    const bool has = !several || has_space(run, path, &why);
    if (has && save_to(run, path, &why))
        return true;
    /* An error of another kind has nothing to do with the place. */
    run->displaced = g_error_matches(why, MW_ERROR, MW_ERROR_IO) && (!several || !has) &&
                     save_elsewhere(run, why);
    if (run->displaced) {
        g_error_free(why);
        return true;
    }
    explain_unsaved(run, why);
    g_propagate_error(error, why);
    return false;
}
