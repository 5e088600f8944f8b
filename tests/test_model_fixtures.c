/* Parameters of models as transformers counts them: the files of tests/fixtures/models, which
 * tests/peer_transformers.py wrote. */
#include <string.h>

#include "config.h"
#include "model/model.h"

#define LEAST_FIXTURES 3  /* of a type */
#define LEAST_COUNTED 300 /* fixtures with FLOPs */

static GPtrArray *
names_of_fixtures(void)
{
    g_autofree char *path = g_build_filename(MW_SOURCE_DIR, "tests", "fixtures", "models", NULL);
    g_autoptr(GDir) folder = g_dir_open(path, 0, NULL);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    const char *name;

    g_assert_nonnull(folder);
    while ((name = g_dir_read_name(folder)))
        if (g_str_has_suffix(name, ".json"))
            g_ptr_array_add(names, g_build_filename(path, name, NULL));
    g_assert_cmpint(names->len, >, 0);
    return names;
}

/* {"config": ..., "params": ...}: the configuration as it was written, as json-glib writes some
 * numbers in a way that no parser reads. */
static char *
config_of(char *text)
{
    char *begin = strstr(text, "\"config\":"), *end = g_strrstr(text, "\"params\":");

    g_assert_nonnull(begin);
    g_assert_nonnull(end);
    while (*end != '}')
        end--;
    return g_strndup(begin + strlen("\"config\":"), end - begin - strlen("\"config\":") + 1);
}

static bool
read_model(const char *path, struct mw_model *model, int64_t *params)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;

    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    g_autofree char *config = config_of(text);
    *params = g_ascii_strtoll(g_strrstr(text, "\"params\":") + strlen("\"params\":"), NULL, 10);
    if (mw_model_parse_config(config, -1, path, model, &error))
        return true;
    g_test_message("%s", error->message);
    return false;
}

/* Every file, so that one look says which rows are wrong. */
static void
test_params(void)
{
    g_autoptr(GPtrArray) names = names_of_fixtures();
    int wrong = 0;

    for (guint i = 0; i < names->len; i++) {
        const char *path = g_ptr_array_index(names, i);
        struct mw_model model;
        int64_t params = 0;
        bool read = read_model(path, &model, &params);
        int64_t counted = read ? mw_model_params(&model) : -1;
        if (counted != params)
            g_test_message("%s: %" G_GINT64_FORMAT ", transformers %" G_GINT64_FORMAT, path,
                           counted, params);
        wrong += counted != params;
    }
    g_assert_cmpint(wrong, ==, 0);
}

/* The walk can be planned by: nothing is negative, and its parameters are those of the model, but
 * for a mean that is rounded up. */
static void
test_walk(void)
{
    g_autoptr(GPtrArray) names = names_of_fixtures();

    for (guint i = 0; i < names->len; i++) {
        g_autoptr(GError) error = NULL;
        struct mw_shape shape = {.sequences = 2, .tp = 1, .flash_attention = true};
        struct mw_model_walk walk;
        struct mw_model model;
        int64_t params = 0, sum = 0, operators = 0;
        g_assert_true(read_model(g_ptr_array_index(names, i), &model, &params));
        shape.seq = MIN(model.seq, 48);
        mw_model_walk_checked(&model, &shape, &walk, &error);
        g_assert_no_error(error);
        for (int64_t layer = 0; layer < model.layers; layer++)
            sum += mw_model_layer_params(&model, layer);
        for (int o = 0; o < walk.head.count; o++)
            sum += walk.head.info[o].params;
        for (int o = 0; o < walk.tail.count; o++)
            sum += walk.tail.info[o].params;
        for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++)
            for (int o = 0; o < walk.blocks[kind].count; o++, operators++) {
                const struct mw_operator_info *info = &walk.blocks[kind].info[o];
                g_assert_cmpint(info->forward_flops, >=, 0);
                g_assert_cmpint(info->saved_bytes, >=, 0);
                g_assert_cmpint(info->product_count, <=, MW_OPERATOR_PRODUCTS_MAX);
            }
        g_assert_cmpint(operators, >, 0);
        g_assert_cmpint(sum, >=, params);
        g_assert_cmpint(sum - params, <=, model.layers * MW_LAYER_OPERATORS_MAX);
    }
}

static int64_t
forward_flops(const struct mw_operators *operators)
{
    int64_t flops = 0;

    for (int i = 0; i < operators->count; i++)
        flops += operators->info[i].forward_flops;
    return flops;
}

/* Of forward with all scores, as PyTorch's counter finds them in 2 sequences of 32 tokens; where
 * layers are planned as their mean, that is rounded up. */
static void
test_flops(void)
{
    const struct mw_shape shape = {.sequences = 2, .seq = 32, .tp = 1};
    g_autoptr(GPtrArray) names = names_of_fixtures();
    int wrong = 0, compared = 0;

    for (guint i = 0; i < names->len; i++) {
        g_autofree char *text = NULL;
        struct mw_model_walk walk;
        struct mw_model model;
        int64_t params = 0;
        g_assert_true(g_file_get_contents(g_ptr_array_index(names, i), &text, NULL, NULL));
        const char *said = g_strrstr(text, "\"flops\":");
        if (!said)
            continue;
        int64_t expected = g_ascii_strtoll(said + strlen("\"flops\":"), NULL, 10);
        g_assert_true(read_model(g_ptr_array_index(names, i), &model, &params));
        mw_model_walk(&model, &shape, &walk);
        int64_t flops = forward_flops(&walk.head) + forward_flops(&walk.tail);
        for (int kind = 0; kind < MW_BLOCK_KIND_COUNT; kind++)
            flops += forward_flops(&walk.blocks[kind]) *
                     mw_model_count_blocks(&model, (enum mw_block_kind)kind, 0, model.layers);
        int64_t slack = model.mixed ? model.layers * MW_LAYER_OPERATORS_MAX : 0;
        bool equal = flops >= expected && flops - expected <= slack;
        if (!equal)
            g_test_message("%s: %" G_GINT64_FORMAT " FLOPs, PyTorch %" G_GINT64_FORMAT
                           " (%+" G_GINT64_FORMAT ")",
                           (char *)g_ptr_array_index(names, i), flops, expected, flops - expected);
        wrong += !equal;
        compared++;
    }
    g_assert_cmpint(wrong, ==, 0);
    g_assert_cmpint(compared, >=, LEAST_COUNTED);
}

/* What transformers' own classes write is either read or known to change nothing, but for layers
 * that are dropped at random: a note names all other keys. */
static void
test_no_key_is_left(void)
{
    g_autoptr(GPtrArray) names = names_of_fixtures();
    int left = 0;

    for (guint i = 0; i < names->len; i++) {
        struct mw_model model;
        int64_t params = 0;
        g_assert_true(read_model(g_ptr_array_index(names, i), &model, &params));
        const char *note = strstr(model.note, "keys that the plan does not follow: ");
        if (!note || strstr(note, ": decoder_layerdrop, encoder_layerdrop") ||
            strstr(note, ": drop_path_rate"))
            continue;
        g_test_message("%s: %s", (char *)g_ptr_array_index(names, i), note);
        left++;
    }
    g_assert_cmpint(left, ==, 0);
}

/* Three variants of each type at least. */
static void
test_variants(void)
{
    g_autoptr(GPtrArray) names = names_of_fixtures();
    g_autoptr(GHashTable) counts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GHashTableIter iter;
    gpointer type, count;

    for (guint i = 0; i < names->len; i++) {
        g_autofree char *name = g_path_get_basename(g_ptr_array_index(names, i));
        *strrchr(name, '-') = '\0';
        count = g_hash_table_lookup(counts, name);
        g_hash_table_replace(counts, g_strdup(name), GINT_TO_POINTER(GPOINTER_TO_INT(count) + 1));
    }
    g_hash_table_iter_init(&iter, counts);
    while (g_hash_table_iter_next(&iter, &type, &count))
        if (GPOINTER_TO_INT(count) < LEAST_FIXTURES)
            g_error("%s: %d fixtures", (char *)type, GPOINTER_TO_INT(count));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/model/fixtures/params", test_params);
    g_test_add_func("/model/fixtures/flops", test_flops);
    g_test_add_func("/model/fixtures/walk", test_walk);
    g_test_add_func("/model/fixtures/no-key-is-left", test_no_key_is_left);
    g_test_add_func("/model/fixtures/variants", test_variants);
    return g_test_run();
}
