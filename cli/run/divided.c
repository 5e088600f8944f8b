#include "cli/run/divided.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "exec/commit/run_files.h"
#include "exec/nvme/run_names.h"

/* --- what is asked ---------------------------------------------------------------------------- */

/* "4 ranks with --tp 2 --pp 2".  g_free it. */
static char *
text_of(const struct cli_run_division *division, bool degrees)
{
    g_autofree char *with = degrees ? g_strdup_printf(" with --tp %" PRId64 " --pp %" PRId64,
                                                      division->slices, division->stages)
                                    : g_strdup("");

    return g_strdup_printf("%" PRId64 " rank%s%s", division->ranks, division->ranks == 1 ? "" : "s",
                           with);
}

/* A plan that is read from a file has slices and stages of its own, which its records tell. */
static struct cli_run_division
division_of(const struct cli_training *training)
{
    const struct mw_settings *s = &training->request->question.settings;
    const struct cli_run_division *was = &training->options.was;
    bool planned = training->request->plan_file != NULL;

    return (struct cli_run_division){.ranks = mw_ranks_count(training->ranks),
                                     .slices = planned ? was->slices : s->tp,
                                     .stages = planned ? was->stages : s->pp};
}

static void
say_difference(const struct cli_training *training, const struct cli_run_division *now)
{
    const struct cli_run_options *o = &training->options;
    const struct cli_run_division *was = &o->was;
    bool degrees = was->slices > 1 || was->stages > 1 || now->slices > 1 || now->stages > 1;
    g_autofree char *then = text_of(was, degrees), *asked = text_of(now, degrees);
    const char *called = o->nvme ? o->nvme[0] : o->resume_run ? o->resume_run : o->newest;

    g_autofree char *degrees_then =
        degrees ? g_strdup_printf(" and --tp %" PRId64 " --pp %" PRId64, was->slices, was->stages)
                : g_strdup("");

    cli_say("--resume: the run was saved by %s, and %s started: continue it with `mpirun -n "
            "%" PRId64 "`%s, or `memwall export %s -o FOLDER` and a new run with --from FOLDER",
            then, asked, was->ranks, degrees_then, called);
}

bool
cli_run_divided_asked(const struct cli_training *training, bool *alike, GError **error)
{
    const struct cli_run_division *was = &training->options.was;
    const struct cli_run_division now = division_of(training);
    bool first = mw_ranks_index(training->ranks) == 0;
    int differs =
        first && was->ranks > 0 &&
        (was->ranks != now.ranks || was->slices != now.slices || was->stages != now.stages);

    if (!mw_ranks_worst(training->ranks, 0, differs, &differs, NULL, error))
        return false;
    *alike = !differs;
    if (differs && first)
        say_difference(training, &now);
    return true;
}

/* --- what is there ---------------------------------------------------------------------------- */

static bool
is_there(const char *path)
{
    struct stat info;

    return !lstat(path, &info);
}

/* The file of this rank that is not there, or NULL.  g_free it. */
static char *
find_missing(const struct cli_training *training)
{
    char **directories = training->options.nvme;
    int drives = (int)g_strv_length(directories);
    char *path = mw_run_record_path(directories[0], training->stem);

    for (int d = 0; d < drives && is_there(path); d++) {
        g_free(path);
        path = mw_run_data_path(directories[d], training->stem, d, drives);
    }
    if (!is_there(path))
        return path;
    g_free(path);
    return NULL;
}

/* A line if this rank cannot continue from what is there, or NULL.  g_free it.  What cannot be read
 * is told when it is opened. */
static char *
find_wrong(const struct cli_training *training)
{
    const struct cli_run_options *o = &training->options;
    int ranks = mw_ranks_count(training->ranks), rank = mw_ranks_index(training->ranks);
    g_autofree char *missing = find_missing(training);
    struct mw_run_record found;

    if (missing)
        return g_strdup_printf("%s: is missing: the run was saved by %d ranks, and each continues "
                               "from its own files: put it back, or start the ranks on the "
                               "machines that have them",
                               missing, ranks);
    if (!mw_run_files_record(o->nvme[0], training->stem, o->previous, &found))
        return NULL;
    mw_commit_record_clear(&found.record);
    if (found.rank == rank)
        return NULL;
    return g_strdup_printf("%s/%s" MW_RUN_RECORD ": was saved by rank %d, and this is rank %d: "
                           "give the files of each rank the names that they had, or start the "
                           "ranks in the order that they had",
                           o->nvme[0], training->stem, found.rank, rank);
}

bool
cli_run_divided_files(const struct cli_training *training, bool *alike, GError **error)
{
    const struct cli_run_options *o = &training->options;
    bool looks = o->resume && o->nvme && mw_ranks_count(training->ranks) > 1;
    g_autofree char *wrong = looks ? find_wrong(training) : NULL;
    int differs = wrong != NULL, who;

    if (!mw_ranks_worst(training->ranks, 0, differs, &differs, &who, error))
        return false;
    *alike = !differs;
    if (wrong && who == mw_ranks_index(training->ranks))
        cli_say("%s", wrong);
    return true;
}
