/* Presets: names, what every section must say, and broken files. */
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "config.h"
#include "model/model.h"

static void
test_sources(void)
{
    g_autoptr(GKeyFile) presets = g_key_file_new();
    g_auto(GStrv) names = mw_model_list();

    g_assert_true(g_key_file_load_from_file(presets, MW_SOURCE_DIR "/models/presets.ini",
                                            G_KEY_FILE_NONE, NULL));
    for (char **name = names; *name; name++) {
        g_autofree char *source = g_key_file_get_value(presets, *name, "source", NULL);
        g_assert_nonnull(source);
        g_assert_cmpuint(strlen(source), >, 5);
    }
}

static void
test_name(void)
{
    struct mw_model model;

    g_assert_true(mw_model_load("GPT2-XL", &model, NULL));
    g_assert_cmpstr(model.name, ==, "gpt2-xl");
    g_assert_cmpstr(model.architecture, ==, "gpt2");
    g_assert_cmpint(model.head_dim, ==, 64);
    g_assert_cmpint(model.ffn, ==, 6400);
}

static void
test_unknown(void)
{
    static const struct {
        const char *asked, *near;
    } rows[] = {
        {"gpt2-small", "gpt2"},
        {"llama2-7b", "llama-2-7b"},
        {"gtp3-175b", "gpt3-175b"},
        {"mixtral", "mixtral-8x7b"},
        {"zi-1tt", "zi-1t"},
        {"", "no such preset; `memwall list models`"},
        {"LLAMA", "did you mean llama-65b, llama-2-7b,"},
        {"zi-6c", "did you mean zi-6c-8b?"},
        {"a]\n[b", "no such preset; `memwall list models`"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        struct mw_model model;
        g_assert_false(mw_model_load(rows[i].asked, &model, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
        g_assert_null(strchr(error->message, '\n'));
        if (!strstr(error->message, rows[i].near))
            g_error("%s: wanted %s, got: %s", rows[i].asked, rows[i].near, error->message);
    }
}

/* Loads the preset "x" from a data folder that holds `text` alone. */
static GError *
load_from(const char *text)
{
    g_autofree char *root = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_autofree char *folder = g_build_filename(root, "models", NULL);
    g_autofree char *path = g_build_filename(folder, "presets.ini", NULL);
    struct mw_model model;
    GError *error = NULL;

    g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
    g_setenv("MEMWALL_DATA", root, TRUE);
    bool loaded = mw_model_load("x", &model, &error);
    g_assert_true(loaded == !error);
    g_unsetenv("MEMWALL_DATA");
    g_unlink(path);
    g_rmdir(folder);
    g_rmdir(root);
    return error;
}

#define GOOD "[x]\narchitecture=llama\nlayers=2\nhidden=64\nheads=4\nffn=128\nvocab=9\nseq=8\n"

static void
test_good_file(void)
{
    g_autoptr(GError) error = load_from(GOOD "kv_heads = 2 \npaper_preset=true\nnote=n\n");

    g_assert_no_error(error);
}

static void
test_bad_files(void)
{
    static const struct {
        const char *text, *why;
        int code;
    } rows[] = {
        {"layers=2", "presets.ini: ", MW_ERROR_FORMAT},
        {"[y]\n", "no such preset", MW_ERROR_INVALID},
        {"[x]\nlayers=2\n", "key \"architecture\": value missing", MW_ERROR_INVALID},
        {"[x]\narchitecture=abacus\n", "value abacus", MW_ERROR_INVALID},
        {"[x]\narchitecture=gpt2\nlayers=2\nhidden=64\nseq=5\n", "key \"heads\": missing",
         MW_ERROR_INVALID},
        {GOOD "heads=7\n", "key \"heads\": value 7: must divide hidden (64)", MW_ERROR_INVALID},
        {GOOD "kv_heads=3\n", "key \"kv_heads\": value 3: must divide heads (4)", MW_ERROR_INVALID},
        {GOOD "layers=-1\n", "value -1: must be a whole number from 1", MW_ERROR_INVALID},
        {GOOD "layers=0\n", "value 0: must be", MW_ERROR_INVALID},
        {GOOD "layers=1e3\n", "value 1e3: must be", MW_ERROR_INVALID},
        {GOOD "layers=nan\n", "value nan: must be", MW_ERROR_INVALID},
        {GOOD "layers=99999999999999999999\n", "must be a whole number", MW_ERROR_INVALID},
        {GOOD "dropout=maybe\n", "value maybe: must be true or false", MW_ERROR_INVALID},
        {GOOD "colour=3\n", "key \"colour\": unknown", MW_ERROR_INVALID},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = load_from(rows[i].text);
        g_assert_error(error, MW_ERROR, rows[i].code);
        if (!strstr(error->message, rows[i].why))
            g_error("wanted \"%s\", got: %s", rows[i].why, error->message);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/model/preset/sources", test_sources);
    g_test_add_func("/model/preset/name", test_name);
    g_test_add_func("/model/preset/unknown", test_unknown);
    g_test_add_func("/model/preset/file/good", test_good_file);
    g_test_add_func("/model/preset/file/bad", test_bad_files);
    return g_test_run();
}
