/* Ranks that must end, and say why. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "nvme_faults.h"
#include "trained.h"
#include "trainer_worker.h"
#include "weights_fixture.h"

#define GPT2 FIXTURES "gpt2-small/config.json"

int
trainer_worker_give_up(struct mw_ranks *ranks, const char *name, GError *error)
{
    fprintf(stderr, "worker: %s: %s\n", name, error->message);
    g_error_free(error);
    mw_ranks_abort(ranks, 1);
    return 1;
}

static struct trained_case
nvme_case(struct mw_ranks *ranks)
{
    return (struct trained_case){.name = "nvme",
                                 .model = GPT2,
                                 TRAINED_ON_DRIVES("cpu"),
                                 TRAINED_BATCHES(1, 12, 1),
                                 .ranks = ranks};
}

static int
expect_end_with(struct mw_ranks *ranks, const struct trained_case *what,
                const struct mw_nvme_calls *calls)
{
    struct trained_course course = {
        .steps = 1000, .threads = 1, .directory = trainer_worker_directory, .calls = calls};
    struct trained trained;
    GError *error = NULL;

    if (!trained_train(what, &course, &trained, &error))
        return trainer_worker_give_up(ranks, what->name, error);
    return 0;
}

static int
expect_end(struct mw_ranks *ranks, const struct trained_case *what)
{
    return expect_end_with(ranks, what, NULL);
}

static bool
is_last(const struct trained_case *what)
{
    return mw_ranks_index(what->ranks) == mw_ranks_count(what->ranks) - 1;
}

static bool
kill_last(const struct trained_case *what, int64_t step, GError **error)
{
    if (step == 2 && is_last(what))
        raise(SIGKILL);
    return true;
}

static bool
fail_last(const struct trained_case *what, int64_t step, GError **error)
{
    if (step < 2 || !is_last(what))
        return true;
    g_set_error_literal(error, 1, 1, "no more data");
    return false;
}

static int
killed(struct mw_ranks *ranks)
{
    struct trained_case what = nvme_case(ranks);

    what.before_batch = kill_last;
    return expect_end(ranks, &what);
}

static int
without_data(struct mw_ranks *ranks)
{
    struct trained_case what = nvme_case(ranks);

    what.before_batch = fail_last;
    return expect_end(ranks, &what);
}

/* A block that does not come, of one rank, in the third step or so. */
static int
broken_drive(struct mw_ranks *ranks)
{
    struct trained_case what = nvme_case(ranks);
    struct mw_faults faults;

    mw_faults_init(&faults, is_last(&what) ? MW_FAULT_COMPLETION : MW_FAULT_NONE, 200, EIO);
    return expect_end_with(ranks, &what, &faults.calls);
}

/* The drive of one rank gives other bytes than it was given, and says nothing. */
static int
flipped_read(struct mw_ranks *ranks)
{
    struct trained_case what = nvme_case(ranks);
    struct mw_faults faults;

    mw_faults_init(&faults, is_last(&what) ? MW_FAULT_FLIP : MW_FAULT_NONE, 60, 0);
    faults.end_byte = G_MAXINT64;
    return expect_end_with(ranks, &what, &faults.calls);
}

static int
slicing(struct mw_ranks *ranks)
{
    struct trained_case what = nvme_case(ranks);

    what.tp = 2;
    return expect_end(ranks, &what);
}

/* --- a course that diverges ------------------------------------------------------------------ */

#define GREAT_LR 1e3    /* parameters after the first update make a loss that is no number */
#define SKIPPED 8       /* steps in a row, and the run ends */
#define LATE_US 2500000 /* far longer than a rank waits for another to end the run */

/* A rank that is slow to tell of its last step, as one is whose log goes to a slow disk. */
static void
tell_late(void *data, const struct mw_trainer_step *step)
{
    const struct trained_case *what = data;

    if (step->skipped_in_row < SKIPPED)
        return;
    if (g_str_equal(what->name, "late") == !mw_ranks_index(what->ranks))
        g_usleep(LATE_US);
    fprintf(stderr, "worker: rank %d told of step %d\n", mw_ranks_index(what->ranks),
            (int)step->step + 1);
}

static int
diverge(struct mw_ranks *ranks, const char *name)
{
    struct trained_case what = nvme_case(ranks);
    struct trained_course course = {.steps = 1000,
                                    .threads = 1,
                                    .directory = trainer_worker_directory,
                                    .on_step = tell_late,
                                    .data = &what};
    struct trained trained;
    GError *error = NULL;

    what.name = name;
    what.lr = GREAT_LR;
    if (!trained_train(&what, &course, &trained, &error))
        return trainer_worker_give_up(ranks, name, error);
    return 0;
}

static int
first_diverges_late(struct mw_ranks *ranks)
{
    return diverge(ranks, "late");
}

static int
last_diverges_late(struct mw_ranks *ranks)
{
    return diverge(ranks, "early");
}

const struct trainer_worker_case trainer_worker_ends[] = {
    {"killed", killed},
    {"without-data", without_data},
    {"broken-drive", broken_drive},
    {"flipped-read", flipped_read},
    {"first-diverges-late", first_diverges_late},
    {"last-diverges-late", last_diverges_late},
    {"slicing", slicing},
    {"mixes-versions", trainer_worker_mixes_versions},
    {NULL, NULL},
};
