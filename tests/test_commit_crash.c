/*
 * Crashes, replayed: a run of random commits is logged, write by write.  From every moment of the
 * log, files are made in which the writes since the last sync are whole, lost or torn; what is
 * resumed from them must be the last committed state, or the next one if its commit was under way.
 * With either fdatasync taken out of the log the same check must fail.
 */
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/commit/commit.h"
#include "nvme_faults.h"
#include "nvme_fixture.h"
#include "write_log.h"

enum { PIECES = 5, PIECE_BYTES = 12288, STEPS = 12, DRIVES = 2, CRASHES = 200 };

struct history {
    uint64_t checksums[STEPS + 1][PIECES]; /* of the current extents after each step */
    int committed_at[STEPS + 1];           /* moment at which the commit returned */
    struct mw_write_log *log;
};

static struct mw_nvme_options
tier_options(const struct mw_nvme_fixture *fixture)
{
    struct mw_nvme_options options =
        mw_nvme_fixture_options(fixture, DRIVES, 2 * PIECES * (int64_t)PIECE_BYTES);

    options.block_bytes = 4096;
    options.stripe_bytes = 8192;
    options.keep = true;
    return options;
}

static struct mw_commit_options
commit_options(const struct mw_nvme_fixture *fixture, const struct mw_nvme *nvme)
{
    return (struct mw_commit_options){
        .directory = fixture->directories[0],
        .ranks = 1,
        .extents_max = PIECES + 200,
        .nvme = nvme,
    };
}

/* Some pieces get new content, all in flight at once, in their other extents; the rest stay. */
static void
write_step(struct mw_nvme *nvme, struct mw_commit_extent *extents, bool first, char *buffer,
           GRand *random)
{
    struct mw_nvme_request requests[PIECES] = {0};
    bool written[PIECES];

    for (int i = 0; i < PIECES; i++) {
        char *content = buffer + i * PIECE_BYTES;

        written[i] = first || g_rand_int_range(random, 0, 4);
        if (!written[i])
            continue;
        extents[i].which = !extents[i].which;
        extents[i].offset_bytes = (2 * i + extents[i].which) * (int64_t)PIECE_BYTES;
        mw_nvme_fixture_fill(content, PIECE_BYTES, random);
        extents[i].checksum = mw_commit_checksum(content, PIECE_BYTES);
        mw_nvme_submit(nvme, &requests[i], MW_NVME_WRITE, extents[i].offset_bytes, PIECE_BYTES,
                       content);
    }
    for (int i = 0; i < PIECES; i++)
        g_assert_true(!written[i] || mw_nvme_wait(&requests[i], NULL));
}

static void
play(struct history *history, const struct mw_nvme_fixture *fixture, GRand *random)
{
    struct mw_commit_extent extents[PIECES] = {0};
    struct mw_faults faults;
    char *buffer = mw_nvme_fixture_buffer(PIECES * PIECE_BYTES);

    mw_faults_init(&faults, MW_FAULT_NONE, 0, 0);
    history->log = faults.log = mw_write_log_new();
    struct mw_nvme_options options = tier_options(fixture);
    options.calls = &faults.calls;
    struct mw_nvme *nvme = mw_nvme_open(&options, NULL);
    struct mw_commit_options record_options = commit_options(fixture, nvme);
    record_options.calls = &faults.calls;
    struct mw_commit *commit = mw_commit_open(&record_options, NULL);
    for (int i = 0; i < PIECES; i++)
        extents[i] = (struct mw_commit_extent){.id = i, .bytes = PIECE_BYTES, .which = 1};
    for (int step = 1; step <= STEPS; step++) {
        struct mw_commit_record record = {.step = step, .extents = extents, .extent_count = PIECES};
        write_step(nvme, extents, step == 1, buffer, random);
        g_assert_true(mw_commit_write(commit, nvme, &record, NULL));
        history->committed_at[step] = mw_write_log_now(faults.log);
        for (int i = 0; i < PIECES; i++)
            history->checksums[step][i] = extents[i].checksum;
    }
    mw_commit_close(commit);
    mw_nvme_close(nvme);
    mw_faults_finish(&faults);
    free(buffer);
}

/* The step resumed; 0 if nothing can be; -1 if what is found is wrong. */
static int64_t
resume(const struct history *history, const struct mw_nvme_fixture *fixture)
{
    struct mw_nvme_options options = tier_options(fixture);
    int64_t steps[2], step = 0;
    char *buffer = mw_nvme_fixture_buffer(PIECE_BYTES);

    options.resume = true;
    options.buffered = true; /* the images are still in the page cache */
    struct mw_nvme *nvme = mw_nvme_open(&options, NULL);
    g_assert_nonnull(nvme);
    struct mw_commit_options record_options = commit_options(fixture, nvme);
    record_options.resume = true;
    struct mw_commit *commit = mw_commit_open(&record_options, NULL);
    if (commit) {
        struct mw_commit_record record;

        g_assert_cmpint(mw_commit_steps(commit, steps), >, 0);
        step = steps[0];
        g_assert_true(mw_commit_resume(commit, step, &record, NULL));
        for (int i = 0; i < PIECES && step > 0; i++)
            if (record.extents[i].checksum != history->checksums[step][i] ||
                !mw_nvme_transfer(nvme, MW_NVME_READ, record.extents[i].offset_bytes, PIECE_BYTES,
                                  buffer, NULL) ||
                !mw_commit_check(&record.extents[i], buffer, NULL))
                step = -1;
        mw_commit_record_clear(&record);
    }
    mw_commit_close(commit);
    mw_nvme_close(nvme);
    free(buffer);
    return step;
}

static int64_t
last_committed(const struct history *history, int moment)
{
    int64_t step = 0;

    while (step < STEPS && history->committed_at[step + 1] <= moment)
        step++;
    return step;
}

/* The replay knows names, not folders: each file goes where the tier looks for it. */
static void
distribute(const struct mw_nvme_fixture *fixture, const char *from)
{
    static const char *const names[] = {"memwall-1of2.data", "memwall-2of2.data", "memwall.record"};
    static const int drives[] = {0, 1, 0};

    for (int i = 0; i < 3; i++) {
        g_autofree char *old = g_build_filename(from, names[i], NULL);
        g_autofree char *new = g_build_filename(fixture->directories[drives[i]], names[i], NULL);
        g_remove(new); /* or the file system writes the new one out at once */
        g_assert_cmpint(g_rename(old, new), ==, 0);
    }
}

/* How many of the crashes leave something else than they must; and how many resume the step that
 * was being committed, how many something that was not. */
static int
count_violations(const struct history *history, const char *unsynced, int crashes, GRand *random)
{
    struct mw_nvme_fixture fixture;
    const int end = mw_write_log_now(history->log);
    int violations = 0, next = 0, same = 0;

    mw_nvme_fixture_init(&fixture);
    for (int i = 0; i < crashes; i++) {
        const int moment = g_rand_int_range(random, 0, end + 1);
        mw_write_log_replay(history->log, moment, fixture.root, unsynced, random);
        distribute(&fixture, fixture.root);
        const int64_t found = resume(history, &fixture);
        const int64_t committed = last_committed(history, moment);

        violations += found != committed && found != committed + 1;
        next += found == committed + 1;
        same += found == committed;
    }
    mw_nvme_fixture_finish(&fixture);
    g_test_message("%d crashes: %d resumed the last step, %d the one under way, %d are wrong",
                   crashes, same, next, violations);
    if (!violations)
        g_assert_cmpint(next, >, 0);
    return violations;
}

static void
run(const char *unsynced, int crashes, bool safe)
{
    struct mw_nvme_fixture fixture;
    struct history history = {0};
    g_autoptr(GRand) random = g_rand_new_with_seed(11);

    mw_nvme_fixture_init(&fixture);
    play(&history, &fixture, random);
    const int violations = count_violations(&history, unsynced, crashes, random);
    if (safe)
        g_assert_cmpint(violations, ==, 0);
    else
        g_assert_cmpint(violations, >, 0);
    mw_write_log_free(history.log);
    mw_nvme_fixture_finish(&fixture);
}

static void
test_crashes(void)
{
    run(NULL, CRASHES, true);
}

static void
test_without_first_drive(void)
{
    run("1of2.data", 25, false);
}

static void
test_without_last_drive(void)
{
    run("2of2.data", 25, false);
}

static void
test_without_record(void)
{
    run(".record", 25, false);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/commit_crash/every-moment", test_crashes);
    g_test_add_func("/commit_crash/without-fdatasync/first-drive", test_without_first_drive);
    g_test_add_func("/commit_crash/without-fdatasync/last-drive", test_without_last_drive);
    g_test_add_func("/commit_crash/without-fdatasync/record", test_without_record);
    return g_test_run();
}
