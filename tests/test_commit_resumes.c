/*
 * Failed syncs, resumes and a power cut, replayed: runs of random commits follow each other in the
 * same files, each ended by a sync that fails, or by one that loses writes and reports it to
 * another process. From any moment of their common log, what a crash leaves has the last committed
 * state, or one whose commit was under way.  Without either half of a resume's care (reads past the
 * page cache, the record written anew) the same check must fail.
 */
#include <errno.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/commit/commit.h"
#include "nvme_faults.h"
#include "nvme_fixture.h"
#include "write_log.h"

enum {
    PIECES = 3,
    PIECE_BYTES = 12288,
    DRIVES = 2,
    RUNS = 40,
    CRASHES = 150,
    BROKEN_CRASHES = 250
};

/* What a resume does without. */
enum lack { LACK_NOTHING, LACK_DIRECT_READS, LACK_RENEWAL };

/* A state that a run wanted to be durable, or that a resume has taken up. */
struct attempt {
    int began, committed; /* moments; G_MAXINT: never, as far as the run was told the truth */
    struct mw_commit_extent extents[PIECES];
};

struct history {
    struct mw_nvme_fixture fixture;
    struct mw_write_log *log;
    GArray *attempts;
    GRand *random;
    enum lack lack;
    int failures, losses; /* syncs that have failed, and those that lost without a word */
};

/* An open tier and record, and the step to continue from. */
struct files {
    struct mw_nvme *nvme;
    struct mw_commit *commit;
    struct mw_commit_extent extents[PIECES];
    int64_t step;
};

static bool
open_files(const struct mw_nvme_fixture *fixture, const struct mw_nvme_calls *calls, bool resume,
           struct files *files)
{
    struct mw_nvme_options tier =
        mw_nvme_fixture_options(fixture, DRIVES, 2 * PIECES * (int64_t)PIECE_BYTES);

    *files = (struct files){.step = 0};
    tier.block_bytes = 4096;
    tier.stripe_bytes = 8192;
    tier.keep = true;
    tier.resume = resume;
    tier.buffered = true; /* the log's files are what the page cache has */
    tier.calls = calls;
    files->nvme = mw_nvme_open(&tier, NULL);
    struct mw_commit_options record = {.directory = fixture->directories[0],
                                       .ranks = 1,
                                       .extents_max = PIECES,
                                       .nvme = files->nvme,
                                       .resume = resume,
                                       .calls = calls};
    if (files->nvme)
        files->commit = mw_commit_open(&record, NULL);
    return files->commit != NULL;
}

static void
close_files(struct files *files)
{
    mw_commit_close(files->commit);
    mw_nvme_close(files->nvme);
}

static bool
take(struct files *files, int64_t step)
{
    struct mw_commit_record record;
    char *buffer = mw_nvme_fixture_buffer(PIECE_BYTES);
    bool whole = mw_commit_resume(files->commit, step, &record, NULL);

    for (int i = 0; whole && i < PIECES; i++)
        whole = mw_nvme_transfer(files->nvme, MW_NVME_READ, record.extents[i].offset_bytes,
                                 PIECE_BYTES, buffer, NULL) &&
                mw_commit_check(&record.extents[i], buffer, NULL);
    if (whole) {
        memcpy(files->extents, record.extents, sizeof files->extents);
        files->step = step;
    }
    mw_commit_record_clear(&record);
    free(buffer);
    return whole;
}

/* The newest step, or the one before it where that is damaged; false: neither is whole. */
static bool
take_newest(struct files *files)
{
    int64_t steps[2];
    const int count = mw_commit_steps(files->commit, steps);

    for (int i = 0; i < count; i++)
        if (take(files, steps[i]))
            return true;
    return false;
}

/* --- runs ------------------------------------------------------------------------------------ */

static struct attempt *
begin_attempt(struct history *history, const struct files *files)
{
    struct attempt attempt = {.began = mw_write_log_now(history->log), .committed = G_MAXINT};

    memcpy(attempt.extents, files->extents, sizeof attempt.extents);
    g_array_append_val(history->attempts, attempt);
    return &g_array_index(history->attempts, struct attempt, history->attempts->len - 1);
}

/* All pieces get new content, in flight at once, in their other extents. */
static bool
write_pieces(struct files *files, GRand *random)
{
    struct mw_nvme_request requests[PIECES] = {0};
    char *buffer = mw_nvme_fixture_buffer(PIECES * PIECE_BYTES);
    bool good = true;

    for (int i = 0; i < PIECES; i++) {
        char *content = buffer + i * PIECE_BYTES;
        struct mw_commit_extent *extent = &files->extents[i];
        int which = files->step ? !extent->which : 0;
        mw_nvme_fixture_fill(content, PIECE_BYTES, random);
        *extent = (struct mw_commit_extent){i, (2 * i + which) * (int64_t)PIECE_BYTES, PIECE_BYTES,
                                            mw_commit_checksum(content, PIECE_BYTES), which};
        mw_nvme_submit(files->nvme, &requests[i], MW_NVME_WRITE, extent->offset_bytes, PIECE_BYTES,
                       content);
    }
    for (int i = 0; i < PIECES; i++)
        good &= mw_nvme_wait(&requests[i], NULL);
    free(buffer);
    return good;
}

/* A step that is told as durable and is not: only the run's end may follow.  False: so is this. */
static bool
run_step(struct history *history, struct files *files, const struct mw_faults *faults)
{
    struct mw_commit_record record = {
        .step = files->step + 1, .extents = files->extents, .extent_count = PIECES};

    if (!write_pieces(files, history->random))
        return false;
    struct attempt *attempt = begin_attempt(history, files);
    const bool good = mw_commit_write(files->commit, files->nvme, &record, NULL);
    const bool durable = good && faults->seen <= faults->at;
    files->step++;
    if (durable)
        attempt->committed = mw_write_log_now(history->log);
    return durable;
}

static bool
take_over(struct history *history, struct files *files)
{
    bool good = take_newest(files);

    /* A loss that nobody was told of may be found, and must leave something. */
    g_assert_true(good || history->lack);
    mw_write_log_mute(history->log, history->lack == LACK_RENEWAL);
    good = good && mw_commit_renew(files->commit, NULL);
    mw_write_log_mute(history->log, false);
    good = good && mw_commit_void_newer(files->commit, NULL);
    if (good)
        begin_attempt(history, files)->committed = mw_write_log_now(history->log);
    return good;
}

/* Which sync goes wrong.  A resume syncs two drives, the record, and twice when that is renewed;
 * a step two drives and the record.  What is lost in silence is of a drive, in the run's last step;
 * any sync may fail, most often one of a record. */
static int
draw_sync(const struct history *history, bool first, bool silent)
{
    const int own = first ? 2 : 5, steps = g_rand_int_range(history->random, first, 4);

    if (silent)
        return own + 3 * steps + g_rand_int_range(history->random, 0, DRIVES);
    if (g_rand_boolean(history->random))
        return own + 3 * steps + DRIVES;
    return g_rand_int_range(history->random, first ? 5 : 0, own + 12);
}

static void
run_once(struct history *history, bool first)
{
    struct mw_faults faults;
    struct files files;
    const bool silent = g_rand_int_range(history->random, 0, 3) == 0;
    const int at = draw_sync(history, first, silent);

    mw_faults_init(&faults, MW_FAULT_SYNC, at, silent ? 0 : EIO);
    faults.log = history->log;
    faults.cached = history->lack == LACK_DIRECT_READS;
    bool good = open_files(&history->fixture, &faults.calls, !first, &files);
    good = good && (first || take_over(history, &files));
    while (good && faults.seen <= at)
        good = run_step(history, &files, &faults);
    history->failures += !silent && faults.seen > at;
    history->losses += silent && faults.seen > at;
    close_files(&files);
    mw_faults_finish(&faults);
}

/* --- crashes --------------------------------------------------------------------------------- */

/* The replay knows names, not folders: each file goes where the tier looks for it. */
static void
distribute(const struct mw_nvme_fixture *fixture)
{
    static const char *const names[] = {"memwall-1of2.data", "memwall-2of2.data", "memwall.record"};
    static const int drives[] = {0, 1, 0};

    for (int i = 0; i < 3; i++) {
        g_autofree char *old = g_build_filename(fixture->root, names[i], NULL);
        g_autofree char *new = g_build_filename(fixture->directories[drives[i]], names[i], NULL);
        g_remove(new); /* or the file system writes the new one out at once */
        g_assert_cmpint(g_rename(old, new), ==, 0);
    }
}

static bool
is_same(const struct attempt *attempt, const struct files *files)
{
    for (int i = 0; i < PIECES; i++)
        if (attempt->extents[i].checksum != files->extents[i].checksum)
            return false;
    return true;
}

/* The last committed attempt before the moment, or one after it; none is committed at first. */
static bool
is_allowed(const struct history *history, int moment, const struct files *found)
{
    int committed = -1;

    for (unsigned i = 0; i < history->attempts->len; i++)
        if (g_array_index(history->attempts, struct attempt, i).committed <= moment)
            committed = (int)i;
    for (int i = MAX(committed, 0); i < (int)history->attempts->len; i++) {
        const struct attempt *attempt = &g_array_index(history->attempts, struct attempt, i);
        if (found->step && attempt->began <= moment && is_same(attempt, found))
            return true;
    }
    return committed < 0 && !found->step;
}

static int
count_violations(struct history *history, int crashes)
{
    struct mw_nvme_fixture fixture;
    const int end = mw_write_log_now(history->log);
    int violations = 0;

    mw_nvme_fixture_init(&fixture);
    for (int i = 0; i < crashes; i++) {
        const int moment = g_rand_int_range(history->random, 0, end + 1);
        struct mw_faults none;
        struct files files;
        mw_faults_init(&none, MW_FAULT_NONE, 0, 0);
        mw_write_log_replay(history->log, moment, fixture.root, NULL, history->random);
        distribute(&fixture);
        if (open_files(&fixture, &none.calls, true, &files))
            take_newest(&files);
        violations += !is_allowed(history, moment, &files);
        close_files(&files);
        mw_faults_finish(&none);
    }
    mw_nvme_fixture_finish(&fixture);
    return violations;
}

static int
violations_with(enum lack lack, int crashes)
{
    struct history history = {.lack = lack,
                              .log = mw_write_log_new(),
                              .attempts = g_array_new(FALSE, FALSE, sizeof(struct attempt)),
                              .random = g_rand_new_with_seed(23)};

    mw_nvme_fixture_init(&history.fixture);
    for (int i = 0; i < RUNS; i++)
        run_once(&history, i == 0);
    const int violations = count_violations(&history, crashes);
    g_test_message("%d runs, %d syncs failed and %d lost writes in silence: %d of %d crashes leave "
                   "something else than they must",
                   RUNS, history.failures, history.losses, violations, crashes);
    g_assert_cmpint(history.failures, >, 0);
    g_assert_cmpint(history.losses, >, 0);
    mw_nvme_fixture_finish(&history.fixture);
    mw_write_log_free(history.log);
    g_array_unref(history.attempts);
    g_rand_free(history.random);
    return violations;
}

static void
test_resumes(void)
{
    g_assert_cmpint(violations_with(LACK_NOTHING, CRASHES), ==, 0);
}

static void
test_through_the_cache(void)
{
    g_assert_cmpint(violations_with(LACK_DIRECT_READS, BROKEN_CRASHES), >, 0);
}

static void
test_without_renewal(void)
{
    g_assert_cmpint(violations_with(LACK_RENEWAL, BROKEN_CRASHES), >, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/commit_resumes/every-moment", test_resumes);
    g_test_add_func("/commit_resumes/through-the-cache", test_through_the_cache);
    g_test_add_func("/commit_resumes/without-renewal", test_without_renewal);
    return g_test_run();
}
