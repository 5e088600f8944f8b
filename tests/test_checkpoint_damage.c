/* Checkpoints whose bytes have changed, do not belong together, or are of older versions. */
#include <glib/gstdio.h>
#include <limits.h>
#include <string.h>

#include "tests/checkpoint_fixture.h"

#define SUM "memwall.xxh3." /* keys of metadata */
#define WEIGHTS "memwall.weights"

static const char *const both[] = {"model.safetensors", "optimizer.safetensors"};

/* A text of a file becomes another of its length, so often at most; how often it did. */
static int
replace(const char *folder, const char *name, const char *from, const char *to, int most)
{
    g_autofree char *path = g_build_filename(folder, name, NULL), *text = NULL;
    const size_t bytes = strlen(from);
    gsize length;
    int times = 0;

    g_assert_cmpint(strlen(to), ==, bytes);
    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    for (char *at = text;
         times < most && (at = memmem(at, length - (gsize)(at - text), from, bytes)); times++)
        memcpy(at, to, bytes);
    g_assert_true(g_file_set_contents(path, text, (gssize)length, NULL));
    return times;
}

static void
change(const char *folder, const char *name, const char *from, const char *to)
{
    g_assert_cmpint(replace(folder, name, from, to, 1), ==, 1);
}

/* The last byte of a file, which is of its last tensor. */
static void
flip_last(const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL), *text = NULL;
    gsize length;

    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    text[length - 1] ^= 1;
    g_assert_true(g_file_set_contents(path, text, (gssize)length, NULL));
}

static void
test_damaged(void)
{
    g_autofree char *path = checkpoint_place("damaged");

    checkpoint_save(path, GPT2, 2, true, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(both); i++) {
        flip_last(path, both[i]);
        checkpoint_refuse(GPT2, path, NULL, both[i]);
        checkpoint_refuse(GPT2, path, NULL, "\" is damaged: its checksum is ");
        flip_last(path, both[i]);
    }
    mw_nvme_fixture_remove(path);
}

static void
save_with(const char *path, double lr)
{
    struct trained_case what = checkpoint_of_model(&checkpoint_on_device, GPT2);
    struct mw_checkpoint_options options = {
        .path = path, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    struct trained_course course = checkpoint_course_to(2, NULL, &options);

    what.lr = lr;
    struct trained trained = trained_well(&what, &course);
    trained_clear(&trained);
}

/* The checkpoint behind two steps is taken for what it is. */
static void
go_on_from(const char *path)
{
    struct trained_case what = checkpoint_of_model(&checkpoint_on_device, GPT2);
    struct trained_course course = checkpoint_course_to(3, path, NULL);
    struct trained trained = trained_well(&what, &course);

    g_assert_cmpint(trained.first_step, ==, 2);
    trained_clear(&trained);
}

static char *
weights_of(const char *folder)
{
    g_autofree char *path = g_build_filename(folder, "optimizer.safetensors", NULL);
    struct mw_safetensors *set = mw_safetensors_open(path, NULL);

    g_assert_nonnull(set);
    char *digits = g_strdup(mw_safetensors_metadata(set, WEIGHTS));
    g_assert_nonnull(digits);
    mw_safetensors_close(set);
    return digits;
}

/* Weights of one training and moments of another, of the same step, each of them whole. */
static void
test_two_trainings(void)
{
    g_autofree char *path = checkpoint_place("one"), *other = checkpoint_place("two"),
                    *third = checkpoint_place("three");
    g_autofree char *mine = g_build_filename(path, "model.safetensors", NULL);
    g_autofree char *theirs = g_build_filename(other, "model.safetensors", NULL);
    g_autofree char *same = g_build_filename(third, "model.safetensors", NULL);

    save_with(path, 1e-2);
    save_with(other, 2e-2);
    save_with(third, 1e-2);
    g_assert_cmpint(g_rename(theirs, mine), ==, 0);
    checkpoint_refuse(GPT2, path, NULL,
                      "one/optimizer.safetensors: goes with other weights than those");
    g_autofree char *digits = weights_of(path);
    change(path, "optimizer.safetensors", digits, "0123456789abcdex");
    checkpoint_refuse(GPT2, path, NULL,
                      "metadata \"memwall.weights\" must have 16 hexadecimal digits");
    save_with(path, 1e-2);
    g_assert_cmpint(g_rename(same, mine), ==, 0); /* the same training's */
    go_on_from(path);
    change(path, "model.safetensors", "cursor=7d0", "cursor=7d1");
    checkpoint_refuse(GPT2, path, NULL,
                      "field \"cursor\" of its metadata is not that of the weights");
    change(path, "model.safetensors", "memwall.fields", "memwolf.fields");
    checkpoint_refuse(GPT2, path, NULL,
                      "field \"format\" of its metadata is not that of the weights");
    mw_nvme_fixture_remove(path);
    mw_nvme_fixture_remove(other);
    mw_nvme_fixture_remove(third);
}

/* Of versions that did not bind the two: that both are of one step, with the same fields, is looked
 * at nevertheless. */
static void
test_unbound(void)
{
    g_autofree char *path = checkpoint_place("unbound");

    save_with(path, 1e-2);
    change(path, "optimizer.safetensors", WEIGHTS, "memwolf.weights");
    go_on_from(path);
    change(path, "optimizer.safetensors", "cursor=7d0", "cursor=7d1");
    checkpoint_refuse(GPT2, path, NULL,
                      "field \"cursor\" of its metadata is not that of the weights");
    mw_nvme_fixture_remove(path);
}

/* Numbers that no run has, none, or two, under a right checksum. */
static void
test_fields(void)
{
    static const struct {
        const char *from, *to, *says;
    } rows[] = {
        {"loss-scale=3ff0000000000000", "loss-scale=7ff8000000000000", "must be a power of two"},
        {"loss-scale=3ff0000000000000", "loss-scale=bff0000000000000", "must be a power of two"},
        {"loss-scale=3ff0000000000000", "loss-scale=7ff0000000000000", "must be a power of two"},
        {"updates=2 dtype=", "updates=22222222", "must be at most 65536 for each of the 2 steps"},
        {" updates=2", " Updates=2", "field \"updates\" is missing: must be there once"},
        {"dtype=", "dtypo=", "field \"dtype\" is missing"},
        {"loss-scale=", "less-scale=", "field \"loss-scale\" is missing"},
        {"good-steps=", "goad-steps=", "field \"good-steps\" is missing"},
        {" skipped=", " skippet=", "field \"skipped\" is missing"},
        {"skipped-in-row=", "skipped-in-rwo=", "field \"skipped-in-row\" is missing"},
        {" isa=", " ias=", "field \"isa\" or \"on-gpu\" is missing"},
        {"good-steps=2 ", "loss-scale=2 ",
         "field \"loss-scale\" is there twice: must be there once"},
        {"format=2 ", "format=3 ", "field \"format\" is 3: must be from 1 to 2"},
        {"format=2 ", "format=0 ", "field \"format\" is 0: must be from 1 to 2"},
    };
    g_autofree char *path = checkpoint_place("fields");

    checkpoint_save(path, GPT2, 2, true, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        change(path, "optimizer.safetensors", rows[i].from, rows[i].to);
        checkpoint_refuse(GPT2, path, NULL, rows[i].says);
        checkpoint_refuse(GPT2, path, NULL,
                          "fields/optimizer.safetensors: metadata \"memwall.fields\": ");
        change(path, "optimizer.safetensors", rows[i].to, rows[i].from);
    }
    mw_nvme_fixture_remove(path);
}

/* Of versions that did not say their format: without the type and what computed it. */
static void
test_first_format(void)
{
    g_autofree char *path = checkpoint_place("format");

    checkpoint_save(path, GPT2, 2, true, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(both); i++) {
        change(path, both[i], "format=2 ", "former=2 ");
        change(path, both[i], " dtype=", " dtypo=");
        change(path, both[i], " isa=", " ias=");
    }
    go_on_from(path);
    mw_nvme_fixture_remove(path);
}

/* As if they had been written without. */
static void
forget_sums(const char *folder)
{
    for (size_t i = 0; i < G_N_ELEMENTS(both); i++)
        replace(folder, both[i], SUM, "memwolf.xxh3.", INT_MAX);
    replace(folder, "optimizer.safetensors", WEIGHTS, "memwolf.weights", INT_MAX);
}

/* One checksum that misses is damage, as a file without beside one that has them; a checkpoint that
 * has none is another tool's. */
static void
test_sums_missing(void)
{
    static const char key[] = SUM "exp_avg.transformer.h.0.ln_1.weight";
    g_autofree char *path = checkpoint_place("sums"), *gone = g_strdup(key);

    checkpoint_save(path, GPT2, 2, true, NULL);
    gone[strlen(gone) - 1] = 'x';
    change(path, "optimizer.safetensors", key, gone);
    checkpoint_refuse(
        GPT2, path, NULL,
        "sums/optimizer.safetensors: tensor \"exp_avg.transformer.h.0.ln_1.weight\": its "
        "checksum in the metadata (\"memwall.xxh3.NAME\") is missing: must be there for all");
    change(path, "optimizer.safetensors", gone, key);
    for (size_t i = 0; i < G_N_ELEMENTS(both); i++) {
        replace(path, both[i], SUM, "memwolf.xxh3.", INT_MAX);
        checkpoint_refuse(GPT2, path, NULL,
                          i ? "neither file has the checksums to tell them by"
                            : "has checksums, and the weights beside it have none");
    }
    replace(path, "model.safetensors", "memwolf.xxh3.", SUM, INT_MAX);
    checkpoint_refuse(GPT2, path, NULL, "has no checksums, and the weights beside it have some");
    forget_sums(path);
    go_on_from(path);
    mw_nvme_fixture_remove(path);
}

/* A root of it would be none; -0 is 0. */
static void
test_negative_variance(void)
{
    static const struct {
        uint32_t bits;
        const char *says; /* NULL: it is taken */
    } rows[] = {
        {0xbf800000, "is negative: must be at least 0"},
        {0x80000001, "is negative: must be at least 0"},
        {0xff800000, "is not finite: must be a finite number"},
        {0x7fc00000, "is not finite: must be a finite number"},
        {0x80000000, NULL},
    };
    g_autofree char *path = checkpoint_place("variance");
    g_autofree char *file = g_build_filename(path, "optimizer.safetensors", NULL), *text = NULL;
    gsize length;

    save_with(path, 1e-2);
    forget_sums(path);
    g_assert_true(g_file_get_contents(file, &text, &length, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        memcpy(text + length - 4, &rows[i].bits, 4); /* of the last tensor */
        g_assert_true(g_file_set_contents(file, text, (gssize)length, NULL));
        if (!rows[i].says) {
            go_on_from(path);
            continue;
        }
        checkpoint_refuse(GPT2, path, NULL, rows[i].says);
        checkpoint_refuse(GPT2, path, NULL,
                          "optimizer.safetensors: tensor \"exp_avg_sq.transformer.");
    }
    mw_nvme_fixture_remove(path);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    checkpoint_directory = trained_directory();
    g_test_add_func("/checkpoint-damage/damaged", test_damaged);
    g_test_add_func("/checkpoint-damage/two-trainings", test_two_trainings);
    g_test_add_func("/checkpoint-damage/unbound", test_unbound);
    g_test_add_func("/checkpoint-damage/fields", test_fields);
    g_test_add_func("/checkpoint-damage/first-format", test_first_format);
    g_test_add_func("/checkpoint-damage/sums-missing", test_sums_missing);
    g_test_add_func("/checkpoint-damage/negative-variance", test_negative_variance);
    int result = g_test_run();
    trained_remove(checkpoint_directory);
    return result;
}
