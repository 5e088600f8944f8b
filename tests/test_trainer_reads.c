/*
 * Reads that silently give wrong bytes, of every kind of state that is on drives: none is used.
 * The run ends with a line that says where and whose the bytes are, nothing is committed after
 * that, and a resume continues from the last committed step to the undisturbed run's bits.
 */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/nvme_faults.h"
#include "tests/trained_commits.h"
#include "tests/weights_fixture.h"

#define STEPS TRAINED_STEPS
#define GPT2 FIXTURES "gpt2-small/config.json"

static char *directory;

/* All state on drives; twice with gradients that are read back to be added to; some in parts. */
static const struct trained_case cases[] = {
    {.name = "all",
     .model = GPT2,
     TRAINED_ON_DRIVES("nvme"),
     TRAINED_BATCHES(2, 24, 1),
     .commit = 1,
     .prefetch = 2},
    {.name = "accumulated",
     .model = GPT2,
     TRAINED_ON_DRIVES("nvme"),
     TRAINED_BATCHES(2, 24, 2),
     .commit = 1,
     .tiles = 2},
    {.name = "split", .model = GPT2, TRAINED_SPLIT("nvme")},
    {.name = "delayed", .model = GPT2, TRAINED_DELAYED_ON_DRIVES},
};

static const enum mw_purpose purposes[] = {
    MW_PURPOSE_PARAMETERS,
    MW_PURPOSE_GRADIENTS,
    MW_PURPOSE_OPTIMIZER_STATE,
    MW_PURPOSE_OPTIMIZER_STATE_OTHER,
    MW_PURPOSE_ACTIVATION_CHECKPOINTS,
};

struct attempt {
    struct mw_faults faults;
    enum mw_purpose purpose;
    int64_t committed;
};

/* Homes of a purpose follow each other in their tier. */
static void
aim(void *data, const struct mw_plan *plan)
{
    struct attempt *attempt = data;
    struct mw_faults *faults = &attempt->faults;

    for (uint32_t s = 0; s < plan->slot_count; s++) {
        const struct mw_slot *slot = &plan->slots[s];
        if (slot->tier != MW_TIER_NVME || slot->purpose != attempt->purpose)
            continue;
        if (!faults->end_byte)
            faults->first_byte = slot->offset_bytes;
        faults->end_byte = slot->offset_bytes + slot->size_bytes;
    }
}

static void
note_step(void *data, const struct mw_trainer_step *step)
{
    if (step->committed)
        ((struct attempt *)data)->committed = step->step;
}

static bool
train(const struct trained_case *what, struct attempt *attempt, bool unchecked,
      struct trained *trained, GError **error)
{
    struct trained_course course = trained_commit_course(directory, false);

    attempt->committed = -1;
    course.buffered = true;
    course.unchecked = unchecked;
    course.calls = &attempt->faults.calls;
    course.on_plan = aim;
    course.on_step = note_step;
    course.data = attempt;
    return trained_train(what, &course, trained, error);
}

/* Reads that the fault could strike in an undisturbed run. */
static int
count_reads(const struct trained_case *what, enum mw_fault fault, enum mw_purpose purpose)
{
    struct attempt attempt = {.purpose = purpose};
    struct trained trained;
    g_autoptr(GError) error = NULL;

    mw_faults_init(&attempt.faults, fault, G_MAXINT, 0);
    train(what, &attempt, false, &trained, &error);
    g_assert_no_error(error);
    trained_clear(&trained);
    int reads = attempt.faults.seen;
    mw_faults_finish(&attempt.faults);
    return reads;
}

/* "DIRECTORY/memwall-1of1.data: read of 4096 bytes at 81920: parameters of transformer.h.0...: not
 * what was written there last: ...", perhaps behind "the NVMe tier has failed: ". */
static void
assert_told(const struct attempt *attempt, const char *said)
{
    g_autofree char *file =
        g_strdup_printf("%s/memwall-1of1.data: read of 4096 bytes at ", directory);
    bool layers = attempt->purpose == MW_PURPOSE_ACTIVATION_CHECKPOINTS;
    g_autofree char *whose =
        layers ? g_strdup(": activation checkpoint of layer ")
               : g_strdup_printf(": %s of transformer.", mw_purpose_name(attempt->purpose));

    const char *found = strstr(said, file);

    if (!found || !strstr(said, whose) || !strstr(said, ": not what was written there last: ") ||
        strchr(said, '\n'))
        g_error("%s", said);
    int64_t at = g_ascii_strtoll(found + strlen(file), NULL, 10);
    g_assert_cmpint(at, >=, attempt->faults.first_byte);
    g_assert_cmpint(at, <, attempt->faults.end_byte);
}

static void
assert_goes_on(const struct trained_case *what, const struct trained *undisturbed,
               int64_t committed)
{
    struct trained_course course = trained_commit_course(directory, true);

    course.buffered = true;
    struct trained trained = trained_well(what, &course);
    g_assert_cmpint(trained.first_step, >, committed); /* a commit may go unreported */
    trained_assert_same(what->name, undisturbed, &trained);
    trained_clear(&trained);
}

static void
check_fault(const struct trained_case *what, const struct trained *undisturbed, enum mw_fault fault,
            enum mw_purpose purpose, int at)
{
    struct attempt attempt = {.purpose = purpose};
    struct trained trained;
    g_autoptr(GError) error = NULL;

    mw_faults_init(&attempt.faults, fault, at, 0);
    if (train(what, &attempt, false, &trained, &error))
        g_error("%s: fault %d at read %d of %s is not found", what->name, fault, at,
                mw_purpose_name(purpose));
    assert_told(&attempt, error->message);
    trained_clear(&trained);
    mw_faults_finish(&attempt.faults);
    if (attempt.committed >= 0)
        assert_goes_on(what, undisturbed, attempt.committed);
}

static void
test_silent(gconstpointer data)
{
    static const enum mw_fault faults[] = {MW_FAULT_FLIP, MW_FAULT_STALE, MW_FAULT_TORN,
                                           MW_FAULT_MISPLACED};
    const struct trained_case *what = data;
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);
    int found = 0;

    for (size_t p = 0; p < G_N_ELEMENTS(purposes); p++) {
        int pages = count_reads(what, MW_FAULT_FLIP, purposes[p]);
        int again = pages ? count_reads(what, MW_FAULT_STALE, purposes[p]) : 0;
        g_test_message("%s: %d and %d reads", mw_purpose_name(purposes[p]), pages, again);
        for (size_t f = 0; f < G_N_ELEMENTS(faults); f++) {
            bool old = faults[f] == MW_FAULT_STALE || faults[f] == MW_FAULT_TORN;
            int reads = old ? again : pages, tenth = (f + p) % 2 ? 6 : 2;
            if (!reads)
                continue;
            check_fault(what, &undisturbed, faults[f], purposes[p], reads * tenth / 10);
            found++;
        }
    }
    g_test_message("%d silent faults, all found", found);
    g_assert_cmpint(found, >=, 12); /* of three purposes at least */
    trained_clear(&undisturbed);
}

/* --- flips at rest --------------------------------------------------------------------------- */

struct flips {
    const char *path;
    GRand *random;
    int64_t step;
};

static void
flip_at_rest(void *data, const struct mw_trainer_step *step)
{
    const struct flips *flips = data;
    GStatBuf info;
    char byte;

    if (step->step != flips->step)
        return;
    int fd = open(flips->path, O_RDWR | O_CLOEXEC);
    g_assert_cmpint(g_stat(flips->path, &info), ==, 0);
    int64_t at = g_rand_int_range(flips->random, 0, (gint32)info.st_size);
    g_assert_cmpint(pread(fd, &byte, 1, at), ==, 1);
    byte = (char)(byte ^ 1 << at % 8);
    g_assert_cmpint(pwrite(fd, &byte, 1, at), ==, 1);
    close(fd);
}

/* A bit of the file flips between two steps: it is found, or nobody reads it any more. */
static void
test_at_rest(gconstpointer data)
{
    const struct trained_case *what = data;
    g_autofree char *path = g_build_filename(directory, "memwall-1of1.data", NULL);
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);
    g_autoptr(GRand) random = g_rand_new_with_seed(5);
    int found = 0, tried = 17;

    for (int i = 0; i < tried; i++) {
        struct flips flips = {path, random, g_rand_int_range(random, 0, STEPS - 1)};
        struct trained_course course = trained_commit_course(directory, false);
        struct trained trained;
        g_autoptr(GError) error = NULL;
        course.buffered = true;
        course.on_step = flip_at_rest;
        course.data = &flips;
        if (trained_train(what, &course, &trained, &error))
            trained_assert_same(what->name, &undisturbed, &trained);
        else
            g_assert_nonnull(strstr(error->message, "not what was written there last"));
        found += error != NULL;
        trained_clear(&trained);
    }
    g_test_message("%d of %d flips found, the others were read no more", found, tried);
    g_assert_cmpint(found, >, 0);
    trained_clear(&undisturbed);
}

/* Checks change nothing; and without them the same faults do. */
static void
test_unchecked(gconstpointer data)
{
    const struct trained_case *what = data;
    struct attempt attempt = {.purpose = MW_PURPOSE_PARAMETERS};
    struct trained undisturbed = trained_run(what, STEPS, 1, directory), trained;

    mw_faults_init(&attempt.faults, MW_FAULT_STALE, G_MAXINT, 0);
    g_assert_true(train(what, &attempt, true, &trained, NULL));
    trained_assert_same(what->name, &undisturbed, &trained);
    int reads = attempt.faults.seen;
    trained_clear(&trained);
    mw_faults_finish(&attempt.faults);
    mw_faults_init(&attempt.faults, MW_FAULT_STALE, reads / 2, 0);
    attempt.faults.end_byte = 0;
    g_assert_true(train(what, &attempt, true, &trained, NULL));
    g_assert_cmpuint(trained_hash(&trained), !=, trained_hash(&undisturbed));
    trained_clear(&trained);
    mw_faults_finish(&attempt.faults);
    trained_clear(&undisturbed);
}

static void
add(const char *test, const struct trained_case *what, GTestDataFunc function)
{
    g_autofree char *path = g_strdup_printf("/trainer-reads/%s/%s", what->name, test);

    g_test_add_data_func(path, what, function);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        add("silent", &cases[i], test_silent);
        add("at-rest", &cases[i], test_at_rest);
    }
    for (int i = 0; i < 2; i++)
        add("unchecked", &cases[i], test_unchecked);
    int result = g_test_run();
    trained_remove(directory);
    return result;
}
