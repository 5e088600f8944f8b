/* The backend that computes nothing: every plan runs, moves what it should, and changes nothing. */
#include <string.h>

#include "tests/trained_commits.h"

#define STEPS 3

static char *directory;

static void
run_nothing(gconstpointer data)
{
    struct trained_case what = *(const struct trained_case *)data;

    what.backend = &mw_backend_null;
    what.prefetch = 2;
    what.undelayed_steps = MIN(what.undelayed_steps, 1);
    struct trained start = trained_run(&what, 0, 1, directory);
    struct trained end = trained_run(&what, STEPS, 1, directory);
    g_assert_cmpuint(trained_hash(&start), ==, trained_hash(&end));
    for (int s = 0; s < STEPS; s++) {
        g_assert_cmpfloat(end.losses[s], ==, 0);
        g_assert_cmpfloat(end.norms[s], ==, 0);
    }
    g_assert_true(end.state[0] != 0);
    trained_clear(&start);
    trained_clear(&end);
}

/* An operator that is handed parameters of something else. */
static void
test_finds(void)
{
    struct mw_backend_options options = {.threads = 1};
    struct mw_part part = {.elements = 1000}, other = part;
    void *memory = NULL;
    g_autoptr(GError) error = NULL;
    void *backend = mw_backend_null.open(&options, 2 * part.elements, &memory, &error);
    struct mw_compute compute = {.operator_ = MW_OPERATOR_QKV, .part = &part, .params = memory};
    uint16_t values[1000];

    g_assert_no_error(error);
    for (int i = 0; i < 1000; i++)
        values[i] = (uint16_t)(i * i);
    g_assert_true(mw_backend_null.copy(backend, memory, values, sizeof values, &error));
    g_assert_true(mw_backend_null.compute(backend, &compute, &error));
    g_assert_true(mw_backend_null.compute(backend, &compute, &error));
    values[999]++;
    g_assert_true(mw_backend_null.copy(backend, memory, values, sizeof values, &error));
    compute.part = &other;
    g_assert_true(mw_backend_null.compute(backend, &compute, &error));
    compute.part = &part;
    g_assert_false(mw_backend_null.compute(backend, &compute, &error));
    g_assert_nonnull(strstr(error->message, "null backend: qkv was handed other parameters"));
    g_assert_true(mw_backend_null.prepare(backend, &compute, NULL));
    g_assert_true(mw_backend_null.compute(backend, &compute, NULL));
    mw_backend_null.close(backend);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = trained_directory();
    for (int i = 0; i < TRAINED_COMMITS; i++) {
        g_autofree char *path = g_strdup_printf("/null/%s", trained_commits[i].name);
        g_test_add_data_func(path, &trained_commits[i], run_nothing);
    }
    g_test_add_func("/null/finds", test_finds);
    int result = g_test_run();
    trained_remove(directory);
    return result;
}
