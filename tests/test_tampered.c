/*
 * Records, and the state that they name, changed by someone who knows the checksums, or cut, copied
 * or wiped: a resume, verify and export find the same, and say what and where.
 */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/commit/internal.h"
#include "exec/trainer/durable.h"
#include "exec/trainer/internal.h"
#include "exec/trainer/verify.h"
#include "tests/described_run.h"
#include "tests/nvme_fixture.h"
#include "tests/says.h"
#include "tests/trained_commits.h"

enum { STOP = 6 }; /* the newest step is 5, from 0 */

static char *directory, *record_path, *data_path;

/* --- a run, and what is made of it ----------------------------------------------------------- */

static struct described_run
run(const struct trained_case *what, int64_t stop)
{
    struct described_run it = {0};
    struct trained_course course = trained_commit_course(directory, false);

    course.stop = stop;
    course.on_plan = described_run_write;
    course.data = &it;
    struct trained trained = trained_well(what, &course);
    trained_clear(&trained);
    described_run_read(&it, what->model);
    return it;
}

/* One step more.  What it says in *said: a notice, or why it does not go on; or NULL. */
static int64_t
resume(const struct trained_case *what, char **said)
{
    struct trained_course course = trained_commit_course(directory, true);
    struct trained trained;
    GError *error = NULL;

    bool good = trained_train(what, &course, &trained, &error);
    int64_t step = good ? trained.first_step - 1 : -1;
    *said = good ? g_strdup(trained.notice) : g_strdup(error->message);
    g_clear_error(&error);
    trained_clear(&trained);
    return step;
}

static void export(const struct described_run *it, char **said)
{
    const char *const directories[] = {directory};
    g_autofree char *folder = g_build_filename(directory, "exported", NULL);
    const struct mw_durable_options from = {.directories = directories,
                                            .directory_count = 1,
                                            .plan = it->plan,
                                            .decoder = &it->decoder,
                                            .fingerprint = 5};
    const struct mw_checkpoint_options to = {
        .path = folder, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    GError *error = NULL;
    struct mw_durable *durable = mw_durable_open(&from, &error);
    bool good = durable && mw_durable_export(durable, &to, &error);

    *said = good ? NULL : g_strdup(error->message);
    g_clear_error(&error);
    mw_durable_close(durable);
    mw_nvme_fixture_remove(folder);
}

/* Notes and damage in one text. */
static int64_t
verify(bool *resumes, char **said)
{
    const char *const directories[] = {directory};
    const struct mw_verify_options options = {.directories = directories, .directory_count = 1};
    struct mw_verified it;
    GString *all = g_string_new(NULL);
    GError *error = NULL;

    mw_verify(&options, &it, &error);
    g_assert_no_error(error);
    for (guint i = 0; i < it.notes->len; i++)
        g_string_append_printf(all, "%s\n", (const char *)g_ptr_array_index(it.notes, i));
    for (guint i = 0; i < it.missing->len; i++)
        g_string_append_printf(all, "%s\n",
                               ((struct mw_verify_missing *)g_ptr_array_index(it.missing, i))->why);
    for (int s = 0; s < it.step_count; s++) {
        g_assert_cmpint(it.steps[s].ranks, ==, 1);
        for (guint i = 0; i < it.steps[s].damage->len; i++) {
            const struct mw_verify_damage *damage = g_ptr_array_index(it.steps[s].damage, i);
            g_string_append_printf(all, "%s: %s\n", damage->file, damage->what);
        }
    }
    int64_t newest = it.newest < 0 ? -1 : it.steps[it.newest].step;
    *resumes = mw_verify_resumes(&it);
    *said = g_string_free(all, FALSE);
    mw_verified_clear(&it);
    return newest;
}

/* Verify says what the resume after it finds, and both have the words. */
static void
agree(const struct trained_case *what, const char *verified, const char *resumed)
{
    g_autofree char *said = NULL, *told = NULL;
    bool resumes;
    int64_t newest = verify(&resumes, &said), step = resume(what, &told);

    if (resumes != (step >= 0) || (resumes && newest != step))
        g_error("verify: step %d, resumes %d; a resume takes %d\n%s%s", (int)newest, resumes,
                (int)step, said, told ? told : "");
    if (verified && !strstr(said, verified))
        g_error("verify says %s, not %s", said, verified);
    if (!verified && *said)
        g_error("verify says %s", said);
    if (resumed)
        mw_test_says(told, resumed);
    if (!resumed && told)
        g_error("the resume says %s", told);
}

/* --- changes --------------------------------------------------------------------------------- */

struct slots {
    int fd;
    struct mw_commit_slots slots;
    struct mw_commit_slot *newest;
    int64_t newest_at, other_at, slot_bytes;
};

static void
open_slots(struct slots *it)
{
    GError *error = NULL;

    it->fd = open(record_path, O_RDWR | O_CLOEXEC);
    mw_commit_slots_read(it->fd, record_path, NULL, &it->slots, &error);
    g_assert_no_error(error);
    it->slot_bytes = it->slots.slot_bytes;
    int newest = mw_commit_slots_newest(&it->slots, INT64_MAX) == &it->slots.at[1];
    it->newest = &it->slots.at[newest];
    it->newest_at = newest * it->slot_bytes;
    it->other_at = !newest * it->slot_bytes;
}

static void
close_slots(struct slots *it)
{
    mw_commit_slots_clear(&it->slots);
    close(it->fd);
}

/* The newest record, with a right checksum. */
static void
seal(const struct slots *it, const struct mw_commit_record *record)
{
    g_autofree char *image = g_malloc0((gsize)it->slot_bytes);

    mw_commit_encode(record, &it->newest->identity, image);
    g_assert_cmpint(pwrite(it->fd, image, (size_t)it->slot_bytes, it->newest_at), ==,
                    it->slot_bytes);
}

static void
copy_slot(bool wipe)
{
    struct slots it;

    open_slots(&it);
    g_autofree char *image = g_malloc0((gsize)it.slot_bytes);
    if (!wipe)
        g_assert_cmpint(pread(it.fd, image, (size_t)it.slot_bytes, it.newest_at), ==,
                        it.slot_bytes);
    g_assert_cmpint(pwrite(it.fd, image, (size_t)it.slot_bytes, wipe ? it.newest_at : it.other_at),
                    ==, it.slot_bytes);
    close_slots(&it);
}

/* --- tests ----------------------------------------------------------------------------------- */

static void
change_field(const char *name, const char *to, bool twice)
{
    struct slots it;

    open_slots(&it);
    struct mw_commit_record record = it.newest->record;
    g_autofree struct mw_commit_field *fields = g_new(struct mw_commit_field, record.field_count);
    struct mw_commit_field *found = NULL, *other = NULL;
    memcpy(fields, record.fields, (gsize)record.field_count * sizeof *fields);
    for (int i = 0; i < record.field_count; i++) {
        found = !strcmp(fields[i].name, name) ? &fields[i] : found;
        other = !strcmp(fields[i].name, "cursor") ? &fields[i] : other;
    }
    record.fields = fields;
    if (twice)
        *other = *found;
    else
        *found = mw_commit_field(to, found->value);
    seal(&it, &record);
    close_slots(&it);
}

static void
test_fields(void)
{
    const struct trained_case *what = &trained_commits[0];
    static const char *const names[] = {"updates",    "dtype",   "loss-scale",
                                        "good-steps", "skipped", "skipped-in-row"};

    for (size_t i = 0; i < G_N_ELEMENTS(names) + 1; i++) {
        const bool twice = i == G_N_ELEMENTS(names);
        const char *name = names[twice ? 0 : i];
        g_autofree char *says = g_strdup_printf("field \"%s\" is %s: must be there once", name,
                                                twice ? "there twice" : "missing");
        g_autofree char *verified = g_strdup_printf("memwall.record: %s", says);
        g_autofree char *resumed =
            g_strdup_printf("memwall.record: the record of step 6: %s", says);
        g_autofree char *exported = NULL;
        struct described_run it = run(what, STOP);
        change_field(name, "other", twice);
        export(&it, &exported);
        mw_test_says(exported, verified);
        agree(what, verified, resumed);
        described_run_clear(&it);
    }
}

/* Of the first chunk, in the newest extents: element 0 of its variance. */
static void
change_variance(const struct described_run *it, float value)
{
    struct slots slots;

    open_slots(&slots);
    struct mw_commit_extent *extent = slots.newest->record.extents;
    int64_t at = 8 * it->plan->chunks[0].elements;
    int fd = open(data_path, O_RDWR | O_CLOEXEC);
    g_autofree char *state = g_malloc((gsize)extent->bytes);

    g_assert_cmpint(at + 4, <=, extent->bytes);
    g_assert_cmpint(pread(fd, state, (size_t)extent->bytes, extent->offset_bytes), ==,
                    extent->bytes);
    memcpy(state + at, &value, 4);
    g_assert_cmpint(pwrite(fd, state, (size_t)extent->bytes, extent->offset_bytes), ==,
                    extent->bytes);
    extent->checksum = mw_commit_checksum(state, extent->bytes);
    seal(&slots, &slots.newest->record);
    close(fd);
    close_slots(&slots);
}

/* On drives, and in a save of what is in memory. */
static void
test_variance(gconstpointer data)
{
    const struct trained_case *what = data;
    g_autofree char *exported = NULL, *resumed = NULL;
    struct described_run it = run(what, STOP);

    change_variance(&it, -1);
    export(&it, &exported);
    mw_test_says(exported, "not written: \"exp_avg_sq.transformer.");
    mw_test_says(exported, ", element 0, is -1: must be at least 0");
    g_assert_cmpint(resume(what, &resumed), ==, -1);
    mw_test_says(resumed, "resuming from step 6: ");
    mw_test_says(resumed, "\"exp_avg_sq.transformer.");
    mw_test_says(resumed, ", element 0, is -1: must be a finite number, at least 0");
    described_run_clear(&it);
    it = run(what, STOP);
    change_variance(&it, -0.0f);
    agree(what, NULL, NULL);
    described_run_clear(&it);
}

static void
test_wiped(void)
{
    const struct trained_case *what = &trained_commits[0];
    g_autofree char *exported = NULL;
    struct described_run it = run(what, STOP);

    copy_slot(true);
    agree(what, "its other record is empty, and the run had committed 5 times",
          "its other record is empty, and the run had committed 5 times");
    described_run_clear(&it);
    it = run(what, 1); /* there has never been another */
    agree(what, NULL, NULL);
    described_run_clear(&it);
    it = run(what, STOP);
    copy_slot(true);
    copy_slot(true);
    export(&it, &exported);
    mw_test_says(exported, "memwall.record: no whole commit record: the first is empty, the second "
                           "empty");
    agree(what, NULL, "the first is empty, the second empty");
    described_run_clear(&it);
}

static void
test_copied(void)
{
    const struct trained_case *what = &trained_commits[0];
    struct described_run it = run(what, STOP);

    copy_slot(false);
    agree(what, "both of its records are of step 6", "both of its records are of step 6");
    described_run_clear(&it);
}

/* Wherever it ends, and whatever is behind it. */
static void
test_record_sizes(void)
{
    const struct trained_case *what = &trained_commits[0];
    struct described_run it = run(what, STOP);
    GStatBuf info;

    described_run_clear(&it);
    g_assert_cmpint(g_stat(record_path, &info), ==, 0);
    const int64_t whole = info.st_size;
    const int64_t sizes[] = {0,         100,          4096,      whole / 2,    whole / 2 + 4096,
                             whole - 1, whole - 4096, whole + 1, whole + 4096, 2 * whole + 8192};
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autofree char *said = NULL, *told = NULL;
        bool resumes;
        it = run(what, STOP + i % 2);
        g_assert_cmpint(truncate(record_path, sizes[i]), ==, 0);
        int64_t newest = verify(&resumes, &said), step = resume(what, &told);
        if (resumes != (step >= 0) || newest != step)
            g_error("of %d bytes: verify says step %d, a resume takes %d", (int)sizes[i],
                    (int)newest, (int)step);
        g_assert_nonnull(strstr(said, "it was cut off or added to"));
        described_run_clear(&it);
    }
}

static void
test_data_sizes(void)
{
    static const int64_t changes[] = {-4096, -1, 1, 4096};
    const struct trained_case *what = &trained_commits[0];
    GStatBuf info;

    for (size_t i = 0; i < G_N_ELEMENTS(changes); i++) {
        struct described_run it = run(what, STOP);
        g_assert_cmpint(g_stat(data_path, &info), ==, 0);
        g_assert_cmpint(truncate(data_path, info.st_size + changes[i]), ==, 0);
        g_autofree char *verified = g_strdup_printf(
            "holds %d bytes, its run %d: it was %s", (int)(info.st_size + changes[i]),
            (int)info.st_size, changes[i] < 0 ? "cut off" : "added to");
        g_autofree char *resumed =
            g_strdup_printf("holds %d bytes, this run needs %d", (int)(info.st_size + changes[i]),
                            (int)info.st_size);
        agree(what, verified, resumed);
        described_run_clear(&it);
    }
}

/* The description's table of tensors, of which another order has the same sizes. */
static void
test_description(void)
{
    const struct trained_case *what = &trained_commits[0];
    struct described_run it = run(what, STOP);
    g_autofree char *said = NULL, *other = NULL;
    struct mw_tensor *tensors = it.plan->tensors;
    uint32_t first = 0, last = it.plan->tensor_count - 1;

    export(&it, &said);
    g_assert_null(said);
    while (tensors[first].layer < 0)
        first++;
    while (tensors[last].layer < 0)
        last--;
    g_assert_cmpint(tensors[first].layer, !=, tensors[last].layer);
    int32_t layer = tensors[first].layer;
    tensors[first].layer = tensors[last].layer;
    tensors[last].layer = layer;
    export(&it, &other);
    mw_test_says(other, "memwall.record: its table of tensors is not what the run's description");
    described_run_clear(&it);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    record_path = g_build_filename(directory, "memwall.record", NULL);
    data_path = g_build_filename(directory, "memwall-1of1.data", NULL);
    g_test_add_func("/tampered/fields", test_fields);
    g_test_add_data_func("/tampered/variance-on-drives", &trained_commits[0], test_variance);
    g_test_add_data_func("/tampered/variance-saved", &trained_commits[3], test_variance);
    g_test_add_func("/tampered/wiped", test_wiped);
    g_test_add_func("/tampered/copied", test_copied);
    g_test_add_func("/tampered/record-sizes", test_record_sizes);
    g_test_add_func("/tampered/data-sizes", test_data_sizes);
    g_test_add_func("/tampered/description", test_description);
    int result = g_test_run();
    trained_remove(directory);
    g_free(record_path);
    g_free(data_path);
    return result;
}
