/* Checkpoints: the same files whoever writes them, the same bits wherever a run continues. */
#include <glib/gstdio.h>
#include <string.h>

#include "tests/checkpoint_fixture.h"

static const struct trained_case others[] = {
    {.name = "ddp", .strategy = MW_STRATEGY_DDP},
    {.name = "offload", .strategy = MW_STRATEGY_ZERO_OFFLOAD},
    {.name = "nvme", TRAINED_ON_DRIVES("cpu")},
    {.name = "split",
     .strategy = MW_STRATEGY_ZERO_INFINITY_NVME,
     .params = "cpu:0.04MB,nvme",
     .gradients = "cpu:0.06MB,nvme",
     .optimizer = "gpu:0.23MB,cpu:0.1MB,nvme",
     .activations = "cpu",
     .commit = 1,
     .save_every = 3},
    {.name = "tiled", .strategy = MW_STRATEGY_ZERO_INFINITY_CPU, .tiles = 3},
};

static void
assert_same_file(const char *one, const char *other, const char *name)
{
    g_autofree char *a = g_build_filename(one, name, NULL),
                    *b = g_build_filename(other, name, NULL);
    g_autofree char *x = NULL, *y = NULL;
    gsize x_bytes, y_bytes;

    g_assert_true(g_file_get_contents(a, &x, &x_bytes, NULL));
    g_assert_true(g_file_get_contents(b, &y, &y_bytes, NULL));
    g_assert_cmpmem(x, x_bytes, y, y_bytes);
}

/* Sums over tiles are rounded otherwise: those runs are near, not the same. */
static void
go_on(const struct trained_case *what, const char *from)
{
    struct trained_course course = checkpoint_course_to(0, from, NULL);
    struct trained undisturbed = trained_run(what, STEPS, 1, checkpoint_directory);
    struct trained trained = trained_well(what, &course);

    if (!what->tiles)
        trained_assert_same(what->name, &undisturbed, &trained);
    trained_clear(&trained);
    trained_clear(&undisturbed);
}

/* Loaded by another placement and written again: the same bytes; continued: the same bits. */
static void
carry_over(const char *model, enum mw_safetensors_dtype dtype)
{
    g_autofree char *first = checkpoint_place("first"), *again = checkpoint_place("again");
    struct trained_case what = checkpoint_of_model(&checkpoint_on_device, model);
    struct mw_checkpoint_options options = {.path = first, .dtype = dtype, .optimizer = true};
    struct mw_checkpoint_options rewrite = {.path = again, .dtype = dtype, .optimizer = true};
    struct trained_course course = checkpoint_course_to(STOP, NULL, &options);
    struct trained trained = trained_well(&what, &course);

    trained_clear(&trained);
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        struct trained_case other = checkpoint_of_model(&others[i], model);
        course = checkpoint_course_to(STOP, first, &rewrite);
        trained = trained_well(&other, &course);
        g_assert_cmpint(trained.first_step, ==, STOP);
        g_assert_cmpuint(trained.cursor, ==, STOP * 1000);
        trained_clear(&trained);
        assert_same_file(first, again, "model.safetensors");
        assert_same_file(first, again, "optimizer.safetensors");
        go_on(&other, again);
    }
    mw_nvme_fixture_remove(first);
    mw_nvme_fixture_remove(again);
}

static void
test_gpt2(void)
{
    carry_over(GPT2, MW_SAFETENSORS_F32);
}

static void
test_llama_16_bits(void)
{
    carry_over(LLAMA, MW_SAFETENSORS_BF16);
}

static void
count_step(void *data, const struct mw_trainer_step *step)
{
    (void)step;
    ++*(int *)data;
}

/* The step that it continues from is after the one from which updates are delayed. */
static void
test_then_delayed(void)
{
    g_autofree char *first = checkpoint_place("first");
    struct trained_case what = checkpoint_of_model(&others[1], GPT2);
    struct mw_checkpoint_options options = {
        .path = first, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    struct trained_course course = checkpoint_course_to(STOP, NULL, &options);
    struct trained trained = trained_well(&what, &course);
    int steps = 0;

    trained_clear(&trained);
    what.delayed = true;
    what.undelayed_steps = 2;
    course = checkpoint_course_to(STOP + 2, first, NULL);
    course.on_step = count_step;
    course.data = &steps;
    trained = trained_well(&what, &course);
    g_assert_cmpint(trained.first_step, ==, STOP);
    g_assert_cmpint(steps, ==, 2);
    trained_clear(&trained);
    mw_nvme_fixture_remove(first);
}

/* A committed run from a checkpoint is resumed by itself. */
static void
test_then_committed(void)
{
    g_autofree char *first = checkpoint_place("first");
    struct trained_case what = trained_commits[2];
    struct mw_checkpoint_options options = {
        .path = first, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    struct trained undisturbed = trained_run(&what, STEPS, 1, checkpoint_directory);
    struct trained_course course = checkpoint_course_to(4, NULL, &options);
    struct trained trained = trained_well(&what, &course);

    trained_clear(&trained);
    course = checkpoint_course_to(7, first, NULL);
    course.commit = true;
    trained = trained_well(&what, &course);
    g_assert_cmpint(trained.first_step, ==, 4);
    trained_clear(&trained);
    course = checkpoint_course_to(0, NULL, NULL);
    course.commit = course.resume = true;
    trained = trained_well(&what, &course);
    g_assert_cmpint(trained.first_step, ==, 7);
    trained_assert_same(what.name, &undisturbed, &trained);
    trained_clear(&trained);
    trained_clear(&undisturbed);
    mw_nvme_fixture_remove(first);
}

/* --- weights alone --------------------------------------------------------------------------- */

static void
test_weights(void)
{
    g_autofree char *path = checkpoint_place("weights");

    checkpoint_save(path, GPT2, 2, false, "{}\n");
    struct mw_safetensors *set = mw_safetensors_open(path, NULL);
    g_assert_nonnull(set);
    g_assert_nonnull(mw_safetensors_find(set, "transformer.h.0.ln_1.weight"));
    g_assert_cmpstr(mw_safetensors_metadata(set, "format"), ==, "pt");
    for (size_t i = 0; i < mw_safetensors_count(set); i++)
        g_assert_cmpint(mw_safetensors_at(set, i)->dtype, ==, MW_SAFETENSORS_BF16);
    mw_safetensors_close(set);
    g_autofree char *config = g_build_filename(path, "config.json", NULL);
    g_assert_true(g_file_test(config, G_FILE_TEST_EXISTS));
    checkpoint_refuse(GPT2, path, NULL, "no optimizer.safetensors");
    mw_nvme_fixture_remove(path);
}

static void
test_refused(void)
{
    g_autofree char *path = checkpoint_place("first"), *other = checkpoint_place("other");
    g_autofree char *mine = g_build_filename(path, "optimizer.safetensors", NULL);
    g_autofree char *theirs = g_build_filename(other, "optimizer.safetensors", NULL);

    checkpoint_save(path, GPT2, 2, true, NULL);
    checkpoint_refuse(LLAMA, path, NULL, "model.safetensors");
    checkpoint_save(other, GPT2, 3, true, NULL);
    g_assert_cmpint(g_rename(theirs, mine), ==, 0);
    checkpoint_refuse(GPT2, path, NULL, "of step 3, but the weights beside it are of step 2");
    checkpoint_refuse(GPT2, other, NULL, "no optimizer.safetensors");
    checkpoint_refuse(GPT2, checkpoint_directory, NULL, "model.safetensors");
    mw_nvme_fixture_remove(path);
    mw_nvme_fixture_remove(other);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    checkpoint_directory = trained_directory();
    g_test_add_func("/checkpoint/gpt2", test_gpt2);
    g_test_add_func("/checkpoint/llama-16-bits", test_llama_16_bits);
    g_test_add_func("/checkpoint/then-committed", test_then_committed);
    g_test_add_func("/checkpoint/then-delayed", test_then_delayed);
    g_test_add_func("/checkpoint/weights", test_weights);
    g_test_add_func("/checkpoint/refused", test_refused);
    int result = g_test_run();
    trained_remove(checkpoint_directory);
    return result;
}
