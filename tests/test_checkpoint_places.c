/* Where checkpoints go: folders that are replaced, kept, made or named by links. */
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/checkpoint_fixture.h"

/* Whether a folder that a checkpoint was written to is left beside its place. */
static bool
is_beside(const char *name)
{
    g_autofree char *start = g_strconcat(name, ".part", NULL);
    g_autoptr(GDir) folder = g_dir_open(checkpoint_directory, 0, NULL);
    bool found = false;

    for (const char *each; (each = g_dir_read_name(folder));)
        found |= g_str_has_prefix(each, start);
    return found;
}

static void
test_places(void)
{
    g_autofree char *path = checkpoint_place("place"),
                    *file = g_build_filename(path, "letters", NULL);

    g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
    checkpoint_save(path, GPT2, 1, true, NULL);
    g_autofree char *slashed = g_strconcat(path, "/", NULL);
    checkpoint_save(slashed, GPT2, 2, false, NULL); /* replaces the other, whole */
    checkpoint_refuse(GPT2, path, NULL, "no optimizer.safetensors");
    g_assert_false(mw_checkpoint_check(path, NULL)); /* a model of anybody's */
    g_assert_true(g_file_set_contents(file, "dear", -1, NULL));
    checkpoint_refuse(GPT2, NULL, path, "holds letters");
    g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
    checkpoint_refuse(GPT2, NULL, file, "is not a folder, as a checkpoint is");
    mw_nvme_fixture_remove(path);
    g_autofree char *nowhere = checkpoint_place("nowhere/at/all");
    g_assert_false(is_beside("place"));
    checkpoint_refuse(GPT2, NULL, nowhere, "cannot be made: No such file");
    g_assert_true(mw_checkpoint_check(path, NULL));
    g_assert_false(mw_checkpoint_check(nowhere, NULL));
}

/* As a longer one that came there while this one was written. */
static char *
keeps(const char *path, int64_t steps, void *data)
{
    g_assert_true(is_beside("late")); /* all is written by now */
    g_assert_cmpint(steps, ==, STOP);
    g_assert_cmpstr(path, ==, data);
    return g_strdup("holds a longer one");
}

static void
test_kept_late(void)
{
    g_autofree char *path = checkpoint_place("late"), *beside = mw_checkpoint_beside(path, STOP, 1);
    g_autofree char *file = g_build_filename(path, "config.json", NULL);
    g_autofree char *before = NULL, *after = NULL;
    struct mw_checkpoint_place put = {0};
    struct mw_checkpoint_options options = {.path = path,
                                            .dtype = MW_SAFETENSORS_F32,
                                            .optimizer = true,
                                            .keeps = keeps,
                                            .data = path,
                                            .place = &put};
    struct trained_case what = checkpoint_of_model(&checkpoint_on_device, GPT2);
    struct trained_course course = checkpoint_course_to(STOP, NULL, &options);

    checkpoint_save(path, GPT2, 1, true, "{\"its\": 1}");
    g_assert_true(g_file_get_contents(file, &before, NULL, NULL));
    struct trained trained = trained_well(&what, &course);
    trained_clear(&trained);
    g_assert_cmpstr(put.path, ==, beside);
    g_assert_nonnull(strstr(put.why, "holds "));
    mw_checkpoint_place_clear(&put);
    g_assert_false(is_beside("late"));
    g_assert_true(g_file_get_contents(file, &after, NULL, NULL));
    g_assert_cmpstr(after, ==, before);
    course = checkpoint_course_to(STOP + 1, beside, NULL);
    trained = trained_well(&what, &course);
    g_assert_cmpint(trained.first_step, ==, STOP);
    trained_clear(&trained);
    mw_nvme_fixture_remove(beside);
    mw_nvme_fixture_remove(path);
}

/* What a link names is replaced, and the link stays. */
static void
test_links(void)
{
    g_autofree char *path = checkpoint_place("named"), *link = checkpoint_place("link");
    g_autofree char *nowhere = checkpoint_place("dangling");

    checkpoint_save(path, GPT2, 1, true, NULL);
    g_assert_cmpint(symlink(path, link), ==, 0);
    checkpoint_save(link, GPT2, 2, false, NULL);
    g_assert_true(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
    g_assert_false(is_beside("named") || is_beside("link"));
    checkpoint_refuse(GPT2, path, NULL, "no optimizer.safetensors"); /* it is the second */
    mw_nvme_fixture_remove(path);
    g_unlink(link);
    g_assert_cmpint(symlink(path, nowhere), ==, 0);
    checkpoint_refuse(GPT2, NULL, nowhere, "is not a folder, as a checkpoint is");
    g_assert_false(mw_checkpoint_check(nowhere, NULL));
    g_unlink(nowhere);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    checkpoint_directory = trained_directory();
    g_test_add_func("/checkpoint-places/places", test_places);
    g_test_add_func("/checkpoint-places/kept-late", test_kept_late);
    g_test_add_func("/checkpoint-places/links", test_links);
    int result = g_test_run();
    trained_remove(checkpoint_directory);
    return result;
}
