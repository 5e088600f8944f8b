#include <glib.h>
#include <string.h>

#include "base/error.h"
#include "hardware/hwprofile.h"
#include "tests/hwprofile_helpers.h"
#include "tests/says.h"

/* --- --set */

static void
test_set(void)
{
    g_autoptr(GError) error = NULL;
    struct mw_profile *profile = mw_test_load("dgx2");
    const char *source = NULL;

    g_assert_true(mw_profile_set(profile, "nvme.read_gb_per_s=40", &error));
    g_assert_true(mw_profile_set(profile, "pcie.latency_us = 1; 2; 3", &error));
    g_assert_true(mw_profile_set(profile, "gpu.flash_attention=true", &error));
    g_assert_true(mw_profile_set(profile, "gpu.matmul_dim=1;2", &error));
    g_assert_false(mw_profile_check(profile, &error));
    g_clear_error(&error);
    g_assert_true(mw_profile_set(profile, "gpu.matmul_tflops=10;20", &error));
    g_assert_false(mw_profile_check(profile, &error)); /* it has tiles */
    g_assert_nonnull(strstr(error->message, "gpu.multiprocessors=0"));
    g_clear_error(&error);
    g_assert_true(mw_profile_set(profile, "gpu.multiprocessors=0", &error));
    g_assert_true(mw_profile_check(profile, &error));
    g_assert_no_error(error);

    struct mw_hardware low = mw_hwprofile_read(profile, MW_OUTLOOK_LOW);
    g_assert_cmpfloat(low.nvme_read_bytes_per_s, ==, 40e9);
    g_assert_cmpfloat_with_epsilon(low.pcie_latency_s, 3e-6, 1e-15);
    g_assert_true(low.gpu_flash_attention);
    g_assert_cmpint(low.matmul_points, ==, 2);
    g_assert_cmpfloat(low.matmul_flops[1], ==, 20e12);
    g_assert_cmpint(mw_profile_provenance(profile, "nvme", "read_gb_per_s", &source), ==,
                    MW_PROVENANCE_USER);
    g_assert_nonnull(source);
    mw_profile_free(profile);
}

static void
test_set_removes_groups(void)
{
    g_autoptr(GError) error = NULL;
    struct mw_profile *profile = mw_test_load("dgx2");

    g_assert_true(mw_profile_set(profile, "nvme.capacity_tb=0", &error));
    g_assert_true(mw_profile_set(profile, "node.nodes_max=1", &error));
    g_assert_true(mw_profile_set(profile, "network.gb_per_s=0", &error));
    g_assert_true(mw_profile_check(profile, &error));
    struct mw_hardware at = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    g_assert_cmpint(at.nvme_drives, ==, 0);
    g_assert_cmpint(at.nvme_capacity_bytes, ==, 0);
    g_assert_cmpint(at.nvme_endurance_bytes, ==, 0);
    g_assert_cmpfloat(at.nvme_read_bytes_per_s, ==, 0);
    g_assert_cmpfloat(at.nic_bytes_per_s, ==, 0);
    mw_profile_free(profile);
}

static void
test_set_refuses(void)
{
    static const struct {
        const char *assignment, *expected;
    } bad[] = {
        {"nvme.read_gb_per_s=-3", "nvme.read_gb_per_s=-3: must be a number from 0.001 to "
                                  "100000 GB/s (or \"low; typical; high\")"},
        {"nvme.read_gib_per_s=3", "did you mean [nvme] read_gb_per_s (GB/s)?"},
        {"nvm.read_gb_per_s=3", "did you mean [nvme]?"},
        {"gpu.read_gb_per_s=3", "did you mean [nvme] read_gb_per_s"},
        {"gpu.zzz=3", "known are memory_gib, "},
        {"nvme.read_gb_per_s", "must be SECTION.KEY=VALUE"},
        {"read_gb_per_s=3", "must be SECTION.KEY=VALUE"},
        {"=", "must be SECTION.KEY=VALUE"},
        {"profile.inherits=dgx2", "must be SECTION.KEY=VALUE"},
        {"gpu.bf16=1", "must be true or false"},
        {"host.memory_gib=1;2;3", "must be a number from 0.001 to 1000000 GiB"},
    };
    struct mw_profile *profile = mw_test_load("dgx2");
    char *before = mw_test_printed(profile);

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_false(mw_profile_set(profile, bad[i].assignment, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
        mw_test_says(error->message, bad[i].expected);
    }
    char *after = mw_test_printed(profile);
    g_assert_cmpstr(before, ==, after);
    free(before);
    free(after);
    mw_profile_free(profile);
}

/* A whole profile with one line replaced: `line` is "KEY = value" of flat-test, or appended. */
static char *
flat_with(const char *old, const char *new)
{
    struct mw_profile *profile = mw_test_load("flat-test");
    char *text = mw_test_printed(profile);
    char *at = strstr(text, old);

    g_assert_nonnull(at);
    char *changed = g_strdup_printf("%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    free(text);
    mw_profile_free(profile);
    return changed;
}

static void
refuses_text(const char *text, int code, const char *expected)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(mw_profile_parse(&mw_hwprofile_kind, text, strlen(text), "bad.ini", &error));
    g_assert_error(error, MW_ERROR, code);
    mw_test_says(error->message, expected);
    g_assert_true(g_str_has_prefix(error->message, "bad.ini: "));
}

static void
refuses(const char *old, const char *new, const char *expected)
{
    g_autofree char *text = flat_with(old, new);

    refuses_text(text, MW_ERROR_INVALID, expected);
}

/* --- bad files */

static void
test_bad_values(void)
{
    static const char *const numbers[] = {
        "-3",  "0",   "nan", "inf",  "-inf",    "1e999", "1e-999", "0x10", "3 GB/s",
        "3,5", "abc", "",    "1; 2", "1;2;3;4", "1e300", "1;;3",   "--3",  "3e",
    };

    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        g_autofree char *line = g_strdup_printf("read_gb_per_s = %s\n", numbers[i]);
        g_autofree char *expected =
            g_strdup_printf("bad.ini: [nvme] read_gb_per_s = %s: must be a number from 0.001 to "
                            "100000 GB/s%s (or \"low; typical; high\")",
                            numbers[i], strchr(numbers[i], 'B') ? ", written without a unit" : "");
        refuses("read_gb_per_s = 20\n", line, expected);
    }
    refuses("gpus = 4\n", "gpus = 0\n", "[node] gpus = 0: must be a whole number from 1 to 1024");
    refuses("gpus = 4\n", "gpus = 1.5\n", "must be a whole number");
    refuses("gpus = 4\n", "gpus = 1; 2; 3\n", "must be a whole number");
    refuses("capacity_tb = 16\n", "capacity_tb = 1; 2; 3\n", "must be a number from 0 to");
    refuses("bf16 = true\n", "bf16 = yes\n", "must be true or false");
    refuses("read_gb_per_s = 20\n", "read_gb_per_s = 3; 2; 4\n", "low <= typical <= high");
    refuses("read_gb_per_s = 20\n", "read_gb_per_s = 1; 5; 4\n", "low <= typical <= high");
    refuses("description = ", "description =\ndate = ", "must not be empty");
}

static void
test_bad_names(void)
{
    refuses(
        "read_gb_per_s = 20\n", "read_gib_per_s = 20\n",
        "bad.ini: [nvme] read_gib_per_s: unknown key; did you mean [nvme] read_gb_per_s (GB/s)");
    refuses("[nvme]", "[nvm]", "bad.ini: [nvm]: unknown group; did you mean [nvme]?");
    refuses("[nvme]", "[disks of the machine]", "known are profile, node, gpu");
    refuses("launch_us = 0\n", "launch_us = 0\nlatency_us = 3\n", "did you mean [pcie] latency_us");
    refuses("launch_us = 0\n", "launch_us = 0\nlaunch_us = 1\n", "[gpu] launch_us is given twice");
    refuses("launch_us = 0\n", "launch_us = 0\nlaunch_us.source = guess: x\n",
            "must be \"KIND: where from\", KIND one of datasheet, published");
    refuses("launch_us = 0\n", "launch_us = 0\ncache_gb.source = user: x\n", "unknown key");
}

static void
test_missing(void)
{
    refuses("read_gb_per_s = 20\n", "", "[nvme] read_gb_per_s is missing: all drives of a node");
    refuses("read_gb_per_s = 20\nwrite_gb_per_s = 10\n", "", "(GB/s); so is write_gb_per_s");
    refuses("peak_tflops = 200\n", "", "[gpu] peak_tflops is missing");
    refuses("bf16 = true\n", "", "[gpu] bf16 is missing");
    refuses("[fabric]\ngb_per_s = 200\nlatency_us = 0\n", "", "[fabric] gb_per_s: is missing");
    refuses("[network]\ngb_per_s = 100\nlatency_us = 0\n", "", "[network] gb_per_s: is missing");
    refuses_text("[profile]\ndescription = empty\n", MW_ERROR_INVALID, "[node] gpus is missing");
}

static void
test_contradictions(void)
{
    refuses("matmul_tflops = 100\n", "matmul_tflops = 100; 200\n", "one number for each");
    refuses("matmul_dim = 1\nmatmul_tflops = 100\n", "matmul_dim = 2; 2\nmatmul_tflops = 1; 2\n",
            "[gpu] matmul_dim = 2; 2: must rise");
    refuses("matmul_dim = 1\n", "matmul_dim = 1;2;3;4;5;6;7;8;9;10;11;12;13\n",
            "must be 1 to 12 numbers from 1");
    refuses("matmul_tflops = 100\n", "matmul_tflops = 100\nmatmul_tflops_low = 101\n",
            "no number may be above");
    refuses("matmul_tflops = 100\n", "matmul_tflops = 100\nmatmul_tflops_high = 99\n",
            "no number may be below");
    refuses("matmul_tflops = 100\n", "matmul_tflops = 100\nmatmul_tflops_high = 100; 101\n",
            "one number for each");
    refuses("matmul_tflops = 100\n",
            "matmul_tflops = 100\nattention_dim = 1\nattention_tflops = 9\n"
            "attention_tflops_low = 10\n",
            "no number may be above that of attention_tflops");
    refuses("matmul_tflops = 100\n", "matmul_tflops = 100\nattention_tflops_high = 10\n",
            "one number for each of attention_dim");
    refuses("matmul_tflops = 100\n", "matmul_tflops = 100\nmatmul_forward_share = 1\n",
            "[gpu] matmul_input_share: is missing: gpu.matmul_forward_share needs it");
    refuses("matmul_tflops = 100\n",
            "matmul_tflops = 100\nmatmul_forward_share = 1; 2\nmatmul_input_share = 1; 2\n"
            "matmul_weight_share = 1; 2\n",
            "[gpu] matmul_forward_share = 1; 2: must have one number for each of matmul_dim");
    refuses("matmul_tflops = 100\n",
            "matmul_tflops = 100\nmatmul_forward_share = 0\nmatmul_input_share = 1\n"
            "matmul_weight_share = 1\n",
            "[gpu] matmul_forward_share = 0: must be 1 to 12 numbers from 0.01 to 100");
    refuses("matmul_tflops = 100\n",
            "matmul_tflops = 100\nattention_dim = 1\nattention_tflops = 9\n"
            "attention_forward_share = 1; 1\nattention_backward_share = 1; 1; 1\n",
            "[gpu] attention_forward_share = 1; 1: must have 3 numbers");
    refuses("matmul_tflops = 100\n",
            "matmul_tflops = 100\nattention_dim = 1\nattention_tflops = 9\n"
            "attention_backward_share = 1; 1; 1\n",
            "[gpu] attention_forward_share: is missing: gpu.attention_backward_share needs it");
    refuses("matmul_tflops = 100\n",
            "matmul_tflops = 100\nattention_forward_share = 1; 1; 1\n"
            "attention_backward_share = 1; 1; 1\n",
            "[gpu] attention_tflops: is missing: gpu.attention_forward_share is a multiple of it");
    refuses("achievable_tflops = 100\n", "achievable_tflops = 201\n",
            "[gpu] achievable_tflops = 201: must be at most peak_tflops, 200");
    refuses("reserve_gib = 0\n", "reserve_gib = 64\n",
            "[gpu] reserve_gib = 64: must be less than memory_gib, 64");
    refuses("reserve_tb = 0\n", "reserve_tb = 17\n", "[nvme] reserve_tb = 17: must be less");
    refuses("reserve_gib = 0\n", "reserve_gib = 1\nlargest_request_gib = 63.5\n",
            "[gpu] largest_request_gib = 63.5: must be at most");
    refuses("drives = 4\n", "drives = 0\n", "[nvme] drives = 0: must be 1 or more");
    refuses("write_gb_per_s = 10\n", "write_gb_per_s = 10\nwrite_burst_gb_per_s = 9\n",
            "must be at least the sustained rate, write_gb_per_s, 10");
}

static void
test_malformed(void)
{
    static const char binary[] = "[gpu]\0memory_gib = 3\n";
    g_autoptr(GError) error = NULL;

    refuses_text("", MW_ERROR_FORMAT, "must be UTF-8 text of 1 to");
    refuses_text("hello\n", MW_ERROR_FORMAT, "not a profile");
    refuses_text("[gpu\n", MW_ERROR_FORMAT, "not a profile");
    refuses_text("memory_gib = 3\n", MW_ERROR_FORMAT, "not a profile");
    refuses_text("# \xff\n", MW_ERROR_FORMAT,
                 "line 1: byte 0xFF: not a profile: must be UTF-8 text");
    refuses_text("# a\n# b\xfe\n", MW_ERROR_FORMAT, "line 2: byte 0xFE");
    refuses_text("[gpu]\nmemory_gib\n", MW_ERROR_FORMAT, "not a profile");
    g_assert_null(
        mw_profile_parse(&mw_hwprofile_kind, binary, sizeof binary - 1, "bad.ini", &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_FORMAT);
    g_autofree char *large = g_strnfill((2 << 20), '\n');
    refuses_text(large, MW_ERROR_FORMAT, "must be UTF-8 text of 1 to");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/hwprofile/set", test_set);
    g_test_add_func("/hwprofile/set-removes-groups", test_set_removes_groups);
    g_test_add_func("/hwprofile/set-refuses", test_set_refuses);
    g_test_add_func("/hwprofile/bad-values", test_bad_values);
    g_test_add_func("/hwprofile/bad-names", test_bad_names);
    g_test_add_func("/hwprofile/missing", test_missing);
    g_test_add_func("/hwprofile/contradictions", test_contradictions);
    g_test_add_func("/hwprofile/malformed", test_malformed);
    return g_test_run();
}
