/* Checkpoints: the same files whoever writes them, the same bits wherever a run goes on. */
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/nvme_fixture.h"
#include "tests/says.h"
#include "tests/trained_commits.h"
#include "tests/weights_fixture.h"

#define STEPS TRAINED_STEPS
#define STOP 5
#define GPT2 FIXTURES "gpt2-small/config.json"
#define LLAMA FIXTURES "llama-small/config.json"
#define SUM "memwall.xxh3." /* keys of metadata */
#define WEIGHTS "memwall.weights"

static char *directory;

static const struct trained_case on_device = {.name = "device", .strategy = MW_STRATEGY_ZERO3};
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

static struct trained_case
of_model(const struct trained_case *common, const char *model)
{
    struct trained_case what = *common;

    what.model = model;
    what.sequences = 2;
    what.seq = 16;
    what.grad_accum = 1;
    what.interval = 1;
    return what;
}

static struct trained_course
course_to(int64_t stop, const char *from, const struct mw_checkpoint_options *save)
{
    return (struct trained_course){.steps = STEPS,
                                   .stop = stop,
                                   .threads = 1,
                                   .directory = directory,
                                   .from = from,
                                   .save = save};
}

static char *
place(const char *name)
{
    return g_build_filename(directory, name, NULL);
}

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
    struct trained_course course = course_to(0, from, NULL);
    struct trained undisturbed = trained_run(what, STEPS, 1, directory);
    struct trained trained = trained_well(what, &course);

    if (!what->tiles)
        trained_assert_same(what->name, &undisturbed, &trained);
    trained_clear(&trained);
    trained_clear(&undisturbed);
}

/* Loaded by another placement and written again: the same bytes; gone on from: the same bits. */
static void
carry_over(const char *model, enum mw_safetensors_dtype dtype)
{
    g_autofree char *first = place("first"), *again = place("again");
    struct trained_case what = of_model(&on_device, model);
    struct mw_checkpoint_options options = {.path = first, .dtype = dtype, .optimizer = true};
    struct mw_checkpoint_options rewrite = {.path = again, .dtype = dtype, .optimizer = true};
    struct trained_course course = course_to(STOP, NULL, &options);
    struct trained trained = trained_well(&what, &course);

    trained_clear(&trained);
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        struct trained_case other = of_model(&others[i], model);
        course = course_to(STOP, first, &rewrite);
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

/* The step that it goes on from is behind the one from which updates are delayed. */
static void
test_then_delayed(void)
{
    g_autofree char *first = place("first");
    struct trained_case what = of_model(&others[1], GPT2);
    struct mw_checkpoint_options options = {
        .path = first, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    struct trained_course course = course_to(STOP, NULL, &options);
    struct trained trained = trained_well(&what, &course);
    int steps = 0;

    trained_clear(&trained);
    what.delayed = true;
    what.undelayed_steps = 2;
    course = course_to(STOP + 2, first, NULL);
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
    g_autofree char *first = place("first");
    struct trained_case what = trained_commits[2];
    struct mw_checkpoint_options options = {
        .path = first, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    struct trained undisturbed = trained_run(&what, STEPS, 1, directory);
    struct trained_course course = course_to(4, NULL, &options);
    struct trained trained = trained_well(&what, &course);

    trained_clear(&trained);
    course = course_to(7, first, NULL);
    course.commit = true;
    trained = trained_well(&what, &course);
    g_assert_cmpint(trained.first_step, ==, 4);
    trained_clear(&trained);
    course = course_to(0, NULL, NULL);
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
save(const char *path, const char *model, int64_t stop, bool optimizer, const char *config)
{
    struct trained_case what = of_model(&on_device, model);
    struct mw_checkpoint_options options = {
        .path = path, .dtype = MW_SAFETENSORS_BF16, .optimizer = optimizer, .config = config};
    struct trained_course course = course_to(stop, NULL, &options);
    struct trained trained = trained_well(&what, &course);

    trained_clear(&trained);
}

/* Whether a folder that a checkpoint was written to is left beside its place. */
static bool
is_beside(const char *name)
{
    g_autofree char *start = g_strconcat(name, ".part", NULL);
    g_autoptr(GDir) folder = g_dir_open(directory, 0, NULL);
    bool found = false;

    for (const char *each; (each = g_dir_read_name(folder));)
        found |= g_str_has_prefix(each, start);
    return found;
}

static void
refuse(const char *model, const char *from, const char *to, const char *part)
{
    struct trained_case what = of_model(&on_device, model);
    struct mw_checkpoint_options options = {.path = to, .dtype = MW_SAFETENSORS_F32};
    struct trained_course course = course_to(1, from, to ? &options : NULL);
    struct trained trained;
    g_autoptr(GError) error = NULL;

    if (trained_train(&what, &course, &trained, &error))
        g_error("not refused, though it should say \"%s\"", part);
    mw_test_says(error->message, part);
    trained_clear(&trained);
}

static void
test_weights(void)
{
    g_autofree char *path = place("weights");

    save(path, GPT2, 2, false, "{}\n");
    struct mw_safetensors *set = mw_safetensors_open(path, NULL);
    g_assert_nonnull(set);
    g_assert_nonnull(mw_safetensors_find(set, "transformer.h.0.ln_1.weight"));
    g_assert_cmpstr(mw_safetensors_metadata(set, "format"), ==, "pt");
    for (size_t i = 0; i < mw_safetensors_count(set); i++)
        g_assert_cmpint(mw_safetensors_at(set, i)->dtype, ==, MW_SAFETENSORS_BF16);
    mw_safetensors_close(set);
    g_autofree char *config = g_build_filename(path, "config.json", NULL);
    g_assert_true(g_file_test(config, G_FILE_TEST_EXISTS));
    refuse(GPT2, path, NULL, "no optimizer.safetensors");
    mw_nvme_fixture_remove(path);
}

/* --- what is refused, what stays ------------------------------------------------------------- */

static void
test_refused(void)
{
    g_autofree char *path = place("first"), *other = place("other");
    g_autofree char *mine = g_build_filename(path, "optimizer.safetensors", NULL);
    g_autofree char *theirs = g_build_filename(other, "optimizer.safetensors", NULL);

    save(path, GPT2, 2, true, NULL);
    refuse(LLAMA, path, NULL, "model.safetensors");
    save(other, GPT2, 3, true, NULL);
    g_assert_cmpint(g_rename(theirs, mine), ==, 0);
    refuse(GPT2, path, NULL, "of step 3, but the weights beside it are of step 2");
    refuse(GPT2, other, NULL, "no optimizer.safetensors");
    refuse(GPT2, directory, NULL, "model.safetensors");
    mw_nvme_fixture_remove(path);
    mw_nvme_fixture_remove(other);
}

/* A text of a file becomes another of its length. */
static void
change(const char *folder, const char *name, const char *from, const char *to)
{
    g_autofree char *path = g_build_filename(folder, name, NULL), *text = NULL;
    gsize length;

    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    char *at = memmem(text, length, from, strlen(from));
    g_assert_nonnull(at);
    memcpy(at, to, strlen(from));
    g_assert_true(g_file_set_contents(path, text, (gssize)length, NULL));
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

static const char *const both[] = {"model.safetensors", "optimizer.safetensors"};

static void
test_damaged(void)
{
    g_autofree char *path = place("damaged");

    save(path, GPT2, 2, true, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(both); i++) {
        flip_last(path, both[i]);
        refuse(GPT2, path, NULL, both[i]);
        refuse(GPT2, path, NULL, "\" is damaged: its checksum is ");
        flip_last(path, both[i]);
    }
    mw_nvme_fixture_remove(path);
}

static void
save_with(const char *path, double lr)
{
    struct trained_case what = of_model(&on_device, GPT2);
    struct mw_checkpoint_options options = {
        .path = path, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    struct trained_course course = course_to(2, NULL, &options);

    what.lr = lr;
    struct trained trained = trained_well(&what, &course);
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
    g_autofree char *path = place("one"), *other = place("two"), *third = place("three");
    g_autofree char *mine = g_build_filename(path, "model.safetensors", NULL);
    g_autofree char *theirs = g_build_filename(other, "model.safetensors", NULL);
    g_autofree char *same = g_build_filename(third, "model.safetensors", NULL);
    struct trained_case what = of_model(&on_device, GPT2);
    struct trained_course course = course_to(3, path, NULL);

    save_with(path, 1e-2);
    save_with(other, 2e-2);
    save_with(third, 1e-2);
    g_assert_cmpint(g_rename(theirs, mine), ==, 0);
    refuse(GPT2, path, NULL, "one/optimizer.safetensors: goes with other weights than those");
    g_autofree char *digits = weights_of(path);
    change(path, "optimizer.safetensors", digits, "0123456789abcdex");
    refuse(GPT2, path, NULL, "metadata \"memwall.weights\" must have 16 hexadecimal digits");
    save_with(path, 1e-2);
    g_assert_cmpint(g_rename(same, mine), ==, 0); /* the same training's */
    struct trained trained = trained_well(&what, &course);
    trained_clear(&trained);
    change(path, "model.safetensors", "cursor=7d0", "cursor=7d1");
    refuse(GPT2, path, NULL, "field \"cursor\" of its metadata is not that of the weights");
    change(path, "model.safetensors", "memwall.fields", "memwolf.fields");
    refuse(GPT2, path, NULL, "field \"format\" of its metadata is not that of the weights");
    mw_nvme_fixture_remove(path);
    mw_nvme_fixture_remove(other);
    mw_nvme_fixture_remove(third);
}

/* Of versions that did not bind the two: that both are of one step, with the same fields, is looked
 * at nevertheless. */
static void
test_unbound(void)
{
    g_autofree char *path = place("unbound");
    struct trained_case what = of_model(&on_device, GPT2);
    struct trained_course course = course_to(3, path, NULL);

    save_with(path, 1e-2);
    change(path, "optimizer.safetensors", WEIGHTS, "memwolf.weights");
    struct trained trained = trained_well(&what, &course);
    trained_clear(&trained);
    change(path, "optimizer.safetensors", "cursor=7d0", "cursor=7d1");
    refuse(GPT2, path, NULL, "field \"cursor\" of its metadata is not that of the weights");
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
        {"updates=2", "updates=f", "\"updates\" is 15: must be at most the 2 steps"},
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
    g_autofree char *path = place("fields");

    save(path, GPT2, 2, true, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        change(path, "optimizer.safetensors", rows[i].from, rows[i].to);
        refuse(GPT2, path, NULL, rows[i].says);
        refuse(GPT2, path, NULL, "fields/optimizer.safetensors: metadata \"memwall.fields\": ");
        change(path, "optimizer.safetensors", rows[i].to, rows[i].from);
    }
    mw_nvme_fixture_remove(path);
}

/* Of versions that did not say their format: without the type and what computed it. */
static void
test_first_format(void)
{
    g_autofree char *path = place("format");
    struct trained_case what = of_model(&on_device, GPT2);
    struct trained_course course = course_to(3, path, NULL);

    save(path, GPT2, 2, true, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(both); i++) {
        change(path, both[i], "format=2 ", "former=2 ");
        change(path, both[i], " dtype=", " dtypo=");
        change(path, both[i], " isa=", " ias=");
    }
    struct trained trained = trained_well(&what, &course);
    g_assert_cmpint(trained.first_step, ==, 2);
    trained_clear(&trained);
    mw_nvme_fixture_remove(path);
}

/* A text of a file becomes another of its length, wherever it stands. */
static void
change_all(const char *folder, const char *name, const char *from, const char *to)
{
    g_autofree char *path = g_build_filename(folder, name, NULL), *text = NULL;
    gsize length;

    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    for (char *at = text; (at = memmem(at, length - (gsize)(at - text), from, strlen(from)));)
        memcpy(at, to, strlen(from));
    g_assert_true(g_file_set_contents(path, text, (gssize)length, NULL));
}

/* As if they had been written without. */
static void
forget_sums(const char *folder)
{
    for (size_t i = 0; i < G_N_ELEMENTS(both); i++)
        change_all(folder, both[i], SUM, "memwolf.xxh3.");
    change_all(folder, "optimizer.safetensors", WEIGHTS, "memwolf.weights");
}

/* One checksum that misses is damage, as a file without beside one that has them; a checkpoint that
 * has none is another tool's. */
static void
test_sums_missing(void)
{
    static const char key[] = SUM "exp_avg.transformer.h.0.ln_1.weight";
    g_autofree char *path = place("sums"), *gone = g_strdup(key);
    struct trained_case what = of_model(&on_device, GPT2);
    struct trained_course course = course_to(3, path, NULL);

    save(path, GPT2, 2, true, NULL);
    gone[strlen(gone) - 1] = 'x';
    change(path, "optimizer.safetensors", key, gone);
    refuse(GPT2, path, NULL,
           "sums/optimizer.safetensors: tensor \"exp_avg.transformer.h.0.ln_1.weight\": its "
           "checksum in the metadata (\"memwall.xxh3.NAME\") is missing: must be there for all");
    change(path, "optimizer.safetensors", gone, key);
    for (size_t i = 0; i < G_N_ELEMENTS(both); i++) {
        change_all(path, both[i], SUM, "memwolf.xxh3.");
        refuse(GPT2, path, NULL,
               i ? "neither file has the checksums to tell them by"
                 : "has checksums, and the weights beside it have none");
    }
    change_all(path, "model.safetensors", "memwolf.xxh3.", SUM);
    refuse(GPT2, path, NULL, "has no checksums, and the weights beside it have some");
    forget_sums(path);
    struct trained trained = trained_well(&what, &course);
    trained_clear(&trained);
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
    g_autofree char *path = place("variance");
    g_autofree char *file = g_build_filename(path, "optimizer.safetensors", NULL), *text = NULL;
    struct mw_checkpoint_options options = {
        .path = path, .dtype = MW_SAFETENSORS_F32, .optimizer = true};
    struct trained_case what = of_model(&on_device, GPT2);
    struct trained_course course = course_to(2, NULL, &options);
    struct trained trained = trained_well(&what, &course);
    gsize length;

    trained_clear(&trained);
    forget_sums(path);
    g_assert_true(g_file_get_contents(file, &text, &length, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        memcpy(text + length - 4, &rows[i].bits, 4); /* of the last tensor */
        g_assert_true(g_file_set_contents(file, text, (gssize)length, NULL));
        course = course_to(3, path, NULL);
        if (rows[i].says) {
            refuse(GPT2, path, NULL, rows[i].says);
            refuse(GPT2, path, NULL, "optimizer.safetensors: tensor \"exp_avg_sq.transformer.");
            continue;
        }
        trained = trained_well(&what, &course);
        trained_clear(&trained);
    }
    mw_nvme_fixture_remove(path);
}

static void
test_places(void)
{
    g_autofree char *path = place("place"), *file = g_build_filename(path, "letters", NULL);

    g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
    save(path, GPT2, 1, true, NULL);
    g_autofree char *slashed = g_strconcat(path, "/", NULL);
    save(slashed, GPT2, 2, false, NULL); /* replaces the other, whole */
    refuse(GPT2, path, NULL, "no optimizer.safetensors");
    g_assert_false(mw_checkpoint_check(path, NULL)); /* a model of anybody's */
    g_assert_true(g_file_set_contents(file, "dear", -1, NULL));
    refuse(GPT2, NULL, path, "holds letters");
    g_assert_true(g_file_test(file, G_FILE_TEST_EXISTS));
    refuse(GPT2, NULL, file, "is not a folder, as a checkpoint is");
    mw_nvme_fixture_remove(path);
    g_autofree char *nowhere = place("nowhere/at/all");
    g_assert_false(is_beside("place"));
    refuse(GPT2, NULL, nowhere, "cannot be made: No such file");
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
    g_autofree char *path = place("late"), *beside = mw_checkpoint_beside(path, STOP, 1);
    g_autofree char *file = g_build_filename(path, "config.json", NULL);
    g_autofree char *before = NULL, *after = NULL;
    struct mw_checkpoint_place put = {0};
    struct mw_checkpoint_options options = {.path = path,
                                            .dtype = MW_SAFETENSORS_F32,
                                            .optimizer = true,
                                            .keeps = keeps,
                                            .data = path,
                                            .place = &put};
    struct trained_case what = of_model(&on_device, GPT2);
    struct trained_course course = course_to(STOP, NULL, &options);

    save(path, GPT2, 1, true, "{\"its\": 1}");
    g_assert_true(g_file_get_contents(file, &before, NULL, NULL));
    struct trained trained = trained_well(&what, &course);
    trained_clear(&trained);
    g_assert_cmpstr(put.path, ==, beside);
    g_assert_nonnull(strstr(put.why, "holds "));
    mw_checkpoint_place_clear(&put);
    g_assert_false(is_beside("late"));
    g_assert_true(g_file_get_contents(file, &after, NULL, NULL));
    g_assert_cmpstr(after, ==, before);
    course = course_to(STOP + 1, beside, NULL);
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
    g_autofree char *path = place("named"), *link = place("link");
    g_autofree char *nowhere = place("dangling");

    save(path, GPT2, 1, true, NULL);
    g_assert_cmpint(symlink(path, link), ==, 0);
    save(link, GPT2, 2, false, NULL);
    g_assert_true(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
    g_assert_false(is_beside("named") || is_beside("link"));
    refuse(GPT2, path, NULL, "no optimizer.safetensors"); /* it is the second */
    mw_nvme_fixture_remove(path);
    g_unlink(link);
    g_assert_cmpint(symlink(path, nowhere), ==, 0);
    refuse(GPT2, NULL, nowhere, "is not a folder, as a checkpoint is");
    g_assert_false(mw_checkpoint_check(nowhere, NULL));
    g_unlink(nowhere);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    g_test_add_func("/checkpoint/gpt2", test_gpt2);
    g_test_add_func("/checkpoint/llama-16-bits", test_llama_16_bits);
    g_test_add_func("/checkpoint/then-committed", test_then_committed);
    g_test_add_func("/checkpoint/then-delayed", test_then_delayed);
    g_test_add_func("/checkpoint/weights", test_weights);
    g_test_add_func("/checkpoint/refused", test_refused);
    g_test_add_func("/checkpoint/damaged", test_damaged);
    g_test_add_func("/checkpoint/two-trainings", test_two_trainings);
    g_test_add_func("/checkpoint/unbound", test_unbound);
    g_test_add_func("/checkpoint/fields", test_fields);
    g_test_add_func("/checkpoint/first-format", test_first_format);
    g_test_add_func("/checkpoint/sums-missing", test_sums_missing);
    g_test_add_func("/checkpoint/negative-variance", test_negative_variance);
    g_test_add_func("/checkpoint/places", test_places);
    g_test_add_func("/checkpoint/kept-late", test_kept_late);
    g_test_add_func("/checkpoint/links", test_links);
    int result = g_test_run();
    trained_remove(directory);
    return result;
}
