#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "hardware/hwprofile.h"
#include "tests/hwprofile_helpers.h"
#include "tests/says.h"

static char *scratch; /* holds hwprofiles as $XDG_CONFIG_HOME/memwall/hwprofiles */

static char *
path_of(const char *name)
{
    return g_build_filename(scratch, "memwall", "hwprofiles", name, NULL);
}

static void
put(const char *name, const char *text)
{
    g_autofree char *path = path_of(name);

    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void
refuses_load(const char *name, int code, const char *expected)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(mw_hwprofile_load(name, &error));
    g_assert_error(error, MW_ERROR, code);
    mw_test_says(error->message, expected);
}

static void
test_inherits(void)
{
    put("mine.ini", "[profile]\ninherits = dgx2\n[gpu]\nmemory_gib = 16\n"
                    "multiprocessors = 0\nmatmul_dim = 1\nmatmul_tflops = 50\n");
    put("yours.ini", "[profile]\ninherits = mine\n[nvme]\ndrives = 2\n");
    g_autofree char *path = path_of("yours.ini");
    struct mw_profile *by_name = mw_test_load("yours");
    struct mw_profile *by_path = mw_test_load(path);
    struct mw_hardware at = mw_hwprofile_read(by_name, MW_OUTLOOK_LOW);
    const char *source = "";

    g_assert_cmpint(at.gpus_per_node, ==, 16);
    g_assert_cmpint(at.gpu_memory_bytes, ==, INT64_C(16) << 30);
    g_assert_cmpint(at.nvme_drives, ==, 2);
    g_assert_cmpfloat(at.matmul_flops[0], ==, 50e12); /* not with the low curve of dgx2 */
    g_assert_cmpint(mw_profile_provenance(by_name, "gpu", "memory_gib", &source), ==,
                    MW_PROVENANCE_ESTIMATE);
    g_assert_null(source);
    g_assert_cmpint(mw_profile_provenance(by_name, "gpu", "peak_tflops", &source), ==,
                    MW_PROVENANCE_DATASHEET);
    g_assert_cmpstr(mw_profile_description(by_name), ==, "");
    struct mw_hardware same = mw_hwprofile_read(by_path, MW_OUTLOOK_LOW);
    g_assert_cmpmem(&at, sizeof at, &same, sizeof same);
    mw_profile_free(by_name);
    mw_profile_free(by_path);
}

/* Shares are of their own curve: another curve, inherited or set, leaves them behind. */
static void
test_shares(void)
{
    put("shared.ini", "[profile]\ninherits = dgx2\n[gpu]\nmultiprocessors = 0\n"
                      "matmul_dim = 1\nmatmul_tflops = 50\nmatmul_forward_share = 1.2\n"
                      "matmul_input_share = 1.1\nmatmul_weight_share = 0.8\n"
                      "attention_dim = 1\nattention_tflops = 20\n"
                      "attention_forward_share = 1; 2; 3\nattention_backward_share = 4; 5; 6\n");
    put("heir.ini", "[profile]\ninherits = shared\n[gpu]\nmatmul_dim = 1; 2\n"
                    "matmul_tflops = 50; 60\n");
    struct mw_profile *shared = mw_test_load("shared"), *heir = mw_test_load("heir");
    struct mw_hardware at = mw_hwprofile_read(shared, MW_OUTLOOK_LOW);
    GError *error = NULL;

    g_assert_cmpfloat(at.matmul_forward_share[0], ==, 1.2);
    g_assert_cmpfloat(at.matmul_weight_share[0], ==, 0.8);
    g_assert_cmpfloat(at.attention_backward_share[2], ==, 6);
    at = mw_hwprofile_read(heir, MW_OUTLOOK_TYPICAL);
    g_assert_cmpfloat(at.matmul_forward_share[0], ==, 0);
    g_assert_cmpfloat(at.attention_forward_share[2], ==, 3);
    mw_profile_set(heir, "gpu.attention_tflops=30", &error);
    g_assert_no_error(error);
    at = mw_hwprofile_read(heir, MW_OUTLOOK_TYPICAL);
    g_assert_cmpfloat(at.attention_flops[0], ==, 30e12);
    g_assert_cmpfloat(at.attention_forward_share[2], ==, 0);
    mw_profile_set(shared, "gpu.matmul_input_share=2", &error);
    g_assert_no_error(error);
    at = mw_hwprofile_read(shared, MW_OUTLOOK_TYPICAL);
    g_assert_cmpfloat(at.matmul_input_share[0], ==, 2);
    g_assert_cmpfloat(at.matmul_forward_share[0], ==, 1.2);
    /* What was set itself stays, and only that. */
    mw_profile_set(shared, "gpu.matmul_tflops=60", &error);
    g_assert_no_error(error);
    at = mw_hwprofile_read(shared, MW_OUTLOOK_TYPICAL);
    g_assert_cmpfloat(at.matmul_input_share[0], ==, 2);
    g_assert_cmpfloat(at.matmul_forward_share[0], ==, 0);
    mw_profile_free(shared);
    mw_profile_free(heir);
}

static void
test_bad_inheritance(void)
{
    put("a.ini", "[profile]\ninherits = b\n");
    put("b.ini", "[profile]\ninherits = a\n");
    put("self.ini", "[profile]\ninherits = self\n");
    put("lost.ini", "[profile]\ninherits = dgx-2\n");
    put("wrong.ini", "[profile]\ninherits = broken\n");
    put("broken.ini", "[gpu]\nmemory_gib = -1\n");

    refuses_load("a", MW_ERROR_INVALID, "b.ini: [profile] inherits = a: is a cycle");
    refuses_load("self", MW_ERROR_INVALID, "self.ini: [profile] inherits = self: is a cycle");
    refuses_load("lost", MW_ERROR_INVALID, "did you mean dgx2?");
    refuses_load("wrong", MW_ERROR_INVALID, "broken.ini: [gpu] memory_gib = -1: must be");
}

static void
test_deep_inheritance(void)
{
    for (int i = 1; i <= 9; i++) {
        g_autofree char *name = g_strdup_printf("deep%d.ini", i);
        g_autofree char *parent = i == 1 ? g_strdup("dgx2") : g_strdup_printf("deep%d", i - 1);
        g_autofree char *text = g_strdup_printf("[profile]\ninherits = %s\n", parent);
        put(name, text);
    }
    mw_profile_free(mw_test_load("deep8")); /* dgx2 is the eighth below it */
    refuses_load("deep9", MW_ERROR_INVALID, "must be at most 8 profiles deep");
}

static void
test_lookup(void)
{
    put("here.ini", "[profile]\ninherits = flat-test\n");
    g_auto(GStrv) names = mw_hwprofile_list();

    g_assert_true(g_strv_contains((const char *const *)names, "here"));
    g_assert_true(g_strv_contains((const char *const *)names, "dgx2"));
    for (int i = 1; names[i]; i++)
        g_assert_cmpstr(names[i - 1], <, names[i]);
    mw_profile_free(mw_test_load("here"));
    refuses_load("dgx-2", MW_ERROR_INVALID, "no hardware profile \"dgx-2\"; did you mean dgx2");
    refuses_load("", MW_ERROR_INVALID, "no hardware profile");
    refuses_load("../dgx2", MW_ERROR_INVALID, "no hardware profile");
    refuses_load("zzzzzz", MW_ERROR_INVALID, "`memwall list hwprofiles` lists them");
    refuses_load("missing/file.ini", MW_ERROR_INVALID, "missing/file.ini: No such file");
    g_autofree char *directory = g_build_filename(scratch, "folder.ini", NULL);
    g_assert_cmpint(g_mkdir(directory, 0700), ==, 0);
    refuses_load(directory, MW_ERROR_INVALID, "is a folder: must be a hardware profile (.ini)");
    g_rmdir(directory);
}

static void
remove_scratch(void)
{
    g_autofree char *top = g_build_filename(scratch, "memwall", NULL);
    g_autofree char *folder = g_build_filename(top, "hwprofiles", NULL);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        g_unlink(path);
    }
    g_rmdir(folder);
    g_rmdir(top);
    g_rmdir(scratch);
    g_free(scratch);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    scratch = g_dir_make_tmp("memwall-hwprofile-XXXXXX", NULL);
    g_setenv("XDG_CONFIG_HOME", scratch, TRUE);
    g_autofree char *folder = g_build_filename(scratch, "memwall", "hwprofiles", NULL);
    g_mkdir_with_parents(folder, 0700);
    g_test_add_func("/hwprofile/inherits", test_inherits);
    g_test_add_func("/hwprofile/shares", test_shares);
    g_test_add_func("/hwprofile/bad-inheritance", test_bad_inheritance);
    g_test_add_func("/hwprofile/deep-inheritance", test_deep_inheritance);
    g_test_add_func("/hwprofile/lookup", test_lookup);
    int status = g_test_run();
    remove_scratch();
    return status;
}
