/* Calibrating a GPU made of threads (fake.h) that fails: one line, and nothing is left behind. */
#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "calibrate/calibrate.h"
#include "tests/cuda/fake_refused.h"

static char *directory;

static bool
calibrate(struct mw_calibration *out, GError **error)
{
    const char *const directories[] = {directory};
    struct mw_calibration_options options = {.backend = &mw_backend_cuda,
                                             .directories = directories,
                                             .directory_count = 1,
                                             .quick = true};

    return mw_calibrate(&options, out, error);
}

static void
assert_fails(const char *why)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GDir) left = g_dir_open(directory, 0, NULL);
    struct mw_calibration out;

    g_assert_false(calibrate(&out, &error));
    g_assert_error(error, MW_ERROR, MW_ERROR_DEVICE);
    if (!g_str_has_prefix(error->message, "GPU") || !strstr(error->message, why) ||
        strchr(error->message, '\n'))
        g_error("\"%s\" is not one line with \"%s\"", error->message, why);
    g_assert_null(g_dir_read_name(left));
}

static void
test_no_gpu(void)
{
    fake_each_refused(assert_fails);
}

static void
test_out_of_memory(void)
{
    struct fake_machine good = fake_machine;

    fake_machine.memory_bytes = (32 << 20) + 9000000; /* products' workspace, and less than all */
    assert_fails("GPU 0 (made of threads): out of memory: ");
    fake_machine = good;
    fake_fail("cudaMalloc", 1, FAKE_OUT_OF_MEMORY);
    assert_fails("GPU 0 (made of threads): cudaMalloc of the workspace");
    fake_fail("cudaMalloc", 2, FAKE_OUT_OF_MEMORY);
    assert_fails("GPU 0 (made of threads): cudaMalloc of ");
    fake_fail("cudaHostRegister", 1, FAKE_OUT_OF_MEMORY);
    assert_fails("GPU 0 (made of threads): cudaHostRegister of ");
}

/* Whatever call sees it first, whatever is being measured. */
static void
test_lost(void)
{
    static const struct {
        const char *call;
        int count;
    } lost[] = {
        {"cudaStreamCreateWithPriority", 2}, {"cudaEventRecord", 1}, {"cudaEventRecord", 300},
        {"cudaEventSynchronize", 150},       {"cudaMemcpyAsync", 1}, {"cudaMemcpyAsync", 300},
        {"cudaStreamWaitEvent", 30},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(lost); i++) {
        fake_fail(lost[i].call, lost[i].count, FAKE_ILLEGAL_ADDRESS);
        assert_fails("an illegal memory access was encountered");
    }
}

/* First, so that the device is as large as it is to be. */
static void
test_good(void)
{
    g_autoptr(GError) error = NULL;
    struct mw_calibration out;
    int64_t all = (int64_t)fake_machine.memory_bytes, workspace = INT64_C(32) << 20;

    calibrate(&out, &error);
    g_assert_no_error(error);
    g_assert_true(out.apart);
    g_assert_cmpint(out.device_bytes, ==, all);
    g_assert_cmpint(out.device_taken_bytes, >=, workspace);
    g_assert_cmpint(out.device_taken_bytes, <, workspace + (1 << 20));
    g_assert_cmpint(out.copy_duplex.samples, >, 0);
    g_assert_cmpint(out.host_share.samples, ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    directory = g_dir_make_tmp("memwall-XXXXXX", NULL);
    g_test_add_func("/cuda-calibrate/good", test_good);
    g_test_add_func("/cuda-calibrate/no-gpu", test_no_gpu);
    g_test_add_func("/cuda-calibrate/out-of-memory", test_out_of_memory);
    g_test_add_func("/cuda-calibrate/lost", test_lost);
    int status = g_test_run();
    g_rmdir(directory);
    g_free(directory);
    return status;
}
