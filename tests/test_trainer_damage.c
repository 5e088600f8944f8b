/*
 * Committed runs whose drives have changed since: a flipped bit, a read that fails, a torn record.
 * The damage is found and named before it is used, and so is the step before it.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/nvme_faults.h"
#include "tests/says.h"
#include "tests/trained_faults.h"

#define STEPS TRAINED_STEPS

static char *directory;

static int64_t
file_bytes(const char *path)
{
    GStatBuf info;

    g_assert_cmpint(g_stat(path, &info), ==, 0);
    return info.st_size;
}

static void
flip(const char *path, int64_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;

    g_assert_cmpint(pread(fd, &byte, 1, at), ==, 1);
    byte = (char)(byte ^ 1 << at % 8);
    g_assert_cmpint(pwrite(fd, &byte, 1, at), ==, 1);
    close(fd);
}

static void
commit_some(const struct trained_case *what, int64_t stop)
{
    struct mw_faults none;

    mw_faults_init(&none, MW_FAULT_NONE, 0, 0);
    struct trained_course course = trained_faulty_course(directory, &none, false);
    course.stop = stop;
    struct trained trained = trained_well(what, &course);
    trained_clear(&trained);
    mw_faults_finish(&none);
}

/* "resuming from step 6: FILE at BYTE: state of TENSOR to TENSOR: extent 3 (81920 bytes at BYTE of
 * the NVMe tier) is damaged: ..." */
static void
assert_named(const char *said, const char *path, int64_t damaged)
{
    g_autofree char *file = g_strdup_printf("resuming from step 6: %s at ", path);
    const char *extent = strstr(said, ": extent "), *bytes = extent ? strchr(extent, '(') : NULL;

    if (!g_str_has_prefix(said, file) || !strstr(said, ": state of transformer.") ||
        !strstr(said, " to transformer.") || !bytes || !strstr(said, "is damaged"))
        g_error("%s", said);
    int64_t begin = g_ascii_strtoll(said + strlen(file), NULL, 10);
    int64_t end = begin + g_ascii_strtoll(bytes + 1, NULL, 10);
    if (damaged < begin || damaged >= end)
        g_error("byte %d is damaged, said %s", (int)damaged, said);
}

/* The step before the damaged one is named, and goes on to the same bits. */
static void
check_previous(const struct trained_case *what, const struct trained *undisturbed, const char *said)
{
    static const char before[] = "; step ";
    const char *named = strstr(said, before);

    if (!named || !strstr(said, ", before it, is whole: resume at=previous continues from there"))
        g_error("%s", said);
    struct trained trained = trained_go_on(what, directory, true);
    g_assert_cmpint(trained.first_step, ==, g_ascii_strtoll(named + strlen(before), NULL, 10));
    g_assert_cmpint(trained.first_step, <, 6);
    trained_assert_same(what->name, undisturbed, &trained);
    trained_clear(&trained);
}

/* True if the damage was found and named, false if it was where it does not matter. */
static bool
is_found(const struct trained_case *what, const struct trained *undisturbed, const char *path,
         int64_t damaged)
{
    struct mw_faults none;
    struct trained trained;
    g_autoptr(GError) error = NULL;

    mw_faults_init(&none, MW_FAULT_NONE, 0, 0);
    struct trained_course course = trained_faulty_course(directory, &none, true);
    bool good = trained_train(what, &course, &trained, &error);
    if (good)
        trained_assert_same(what->name, undisturbed, &trained);
    else
        assert_named(error->message, path, damaged);
    if (!good)
        check_previous(what, undisturbed, error->message);
    trained_clear(&trained);
    mw_faults_finish(&none);
    return !good;
}

/* A bit anywhere in the drive's file: what is read of it is checked, the rest is made anew. */
static void
test_flipped_bits(gconstpointer data)
{
    const struct trained_case *what = data;
    g_autofree char *path = g_build_filename(directory, "memwall-1of1.data", NULL);
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);
    g_autoptr(GRand) random = g_rand_new_with_seed(2);
    int found = 0, tried = 16;

    for (int i = 0; i < tried; i++) {
        commit_some(what, 6);
        int64_t at = g_rand_int_range(random, 0, (gint32)file_bytes(path));
        flip(path, at);
        found += is_found(what, &undisturbed, path, at);
    }
    g_test_message("%d of %d flipped bits found, the others were in no committed state", found,
                   tried);
    g_assert_cmpint(found, >, 0);
    trained_clear(&undisturbed);
}

/* The tier is stopped by the first read that fails; the step before is looked at all the same. */
static void
refuse_unreadable(const struct trained_case *what, GError **error)
{
    struct mw_faults faults;
    struct trained trained;

    mw_faults_init(&faults, MW_FAULT_COMPLETION, 0, EIO);
    struct trained_course course = trained_faulty_course(directory, &faults, true);
    g_assert_false(trained_train(what, &course, &trained, error));
    g_assert_cmpint(faults.seen, >, 0);
    mw_test_says((*error)->message, "resuming from step 6: ");
    mw_test_says((*error)->message, "Input/output error");
    trained_clear(&trained);
    mw_faults_finish(&faults);
}

static void
test_unreadable(gconstpointer data)
{
    const struct trained_case *what = data;
    g_autofree char *path = g_build_filename(directory, "memwall-1of1.data", NULL);
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);
    g_autoptr(GError) error = NULL;

    commit_some(what, 6);
    refuse_unreadable(what, &error);
    check_previous(what, &undisturbed, error->message);
    g_clear_error(&error);
    commit_some(what, 6);
    for (int64_t at = 99; at < file_bytes(path); at += 4096)
        flip(path, at);
    refuse_unreadable(what, &error);
    g_autofree char *damaged = g_strdup_printf(", before it, is not whole either: %s at ", path);
    mw_test_says(error->message, damaged);
    mw_test_says(error->message, " is damaged: checksum ");
    trained_clear(&undisturbed);
}

/* The newest record is torn: the one before it is whole, with all that it names. */
static void
test_torn_record(gconstpointer data)
{
    const struct trained_case *what = data;
    g_autofree char *path = g_build_filename(directory, "memwall.record", NULL);
    int64_t every = what->save_every ? what->save_every : 1;
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);

    for (int64_t commits = 2; commits <= 3; commits++) {
        commit_some(what, commits * every);
        flip(path, (commits - 1) % 2 * file_bytes(path) / 2 + 100);
        struct trained trained = trained_go_on(what, directory, false);
        g_assert_cmpint(trained.first_step, ==, (commits - 1) * every);
        g_assert_nonnull(strstr(trained.notice, "torn: a commit was interrupted"));
        trained_assert_same(what->name, &undisturbed, &trained);
        trained_clear(&trained);
    }
    trained_clear(&undisturbed);
}

int
main(int argc, char **argv)
{
    static const struct trained_faults_test tests[] = {{"flipped-bits", test_flipped_bits, false},
                                                       {"unreadable", test_unreadable, false},
                                                       {"torn-record", test_torn_record, false},
                                                       {NULL, NULL, false}};

    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    trained_faults_add("trainer-damage", tests);
    int result = g_test_run();
    trained_remove(directory);
    return result;
}
