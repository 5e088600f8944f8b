/* How `--limit` changes the prediction. */
#include <math.h>

#include "base/error.h"
#include "cli/lane_limits.h"

static struct mw_hardware
machine(void)
{
    return (struct mw_hardware){
        .pcie_h2d_bytes_per_s = 4e9,
        .pcie_d2h_bytes_per_s = 4e9,
        .pcie_node_h2d_bytes_per_s = 8e9,
        .pcie_node_d2h_bytes_per_s = 8e9,
        .nvme_read_bytes_per_s = 2e9,
        .nvme_write_bytes_per_s = 1e9,
        .nvme_write_burst_bytes_per_s = 1e9,
        .nvme_duplex = 1,
        .gpu_copy_sm_share = 0.5,
        .gpu_nvme_sm_share = 0.2,
    };
}

static struct mw_hardware
limited(const char *first, const char *second, int ranks)
{
    char *texts[] = {(char *)first, (char *)second, NULL};
    struct mw_hardware hw = machine();
    struct cli_limits limits;
    GError *error = NULL;

    cli_limits_parse(&limits, texts, &error);
    g_assert_no_error(error);
    cli_limits_apply(&limits, ranks, &hw);
    return hw;
}

static void
assert_near(double value, double wanted)
{
    g_assert_cmpfloat(fabs(value - wanted), <=, 1e-9 * fabs(wanted));
}

static void
test_rates(void)
{
    struct mw_hardware hw = limited("h2d=1GB/s", "nvme-read=250MB/s", 2);

    assert_near(hw.pcie_h2d_bytes_per_s, 1e9);
    assert_near(hw.pcie_node_h2d_bytes_per_s, 2e9);
    assert_near(hw.pcie_d2h_bytes_per_s, 4e9);
    assert_near(hw.nvme_read_bytes_per_s, 0.5e9);
    assert_near(hw.nvme_write_bytes_per_s, 1e9);
    assert_near(hw.nvme_duplex, 2);
}

/* What waits takes no cores; the direction that is not held back still does. */
static void
test_shares(void)
{
    struct mw_hardware both = limited("h2d=1GB/s", "d2h=2GB/s", 1);
    struct mw_hardware one = limited("h2d=1GB/s", NULL, 1);
    struct mw_hardware drives = limited("nvme-read=500MB/s", "nvme-write=100MB/s", 1);

    assert_near(both.gpu_copy_sm_share, 0.5 * 0.5);
    assert_near(one.gpu_copy_sm_share, 0.5);
    assert_near(one.gpu_nvme_sm_share, 0.2);
    assert_near(drives.gpu_nvme_sm_share, 0.2 * 0.25);
}

static void
test_quick_enough(void)
{
    struct mw_hardware hw = limited("h2d=9GB/s", "d2h=9GB/s", 1), before = machine();

    assert_near(hw.pcie_h2d_bytes_per_s, before.pcie_h2d_bytes_per_s);
    assert_near(hw.gpu_copy_sm_share, before.gpu_copy_sm_share);
}

static void
test_refused(void)
{
    static const char *const bad[] = {"h2d", "h2d=", "h2d=1", "h2d=1GB", "h2d=0GB/s", "h2d=-1GB/s",
                                      "h2d=nanGB/s", "compute=1GB/s", "h2d=1e400GB/s"};

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        char *texts[] = {(char *)bad[i], NULL};
        struct cli_limits limits;
        GError *error = NULL;
        g_assert_false(cli_limits_parse(&limits, texts, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
        g_clear_error(&error);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/limits/rates", test_rates);
    g_test_add_func("/limits/shares", test_shares);
    g_test_add_func("/limits/quick-enough", test_quick_enough);
    g_test_add_func("/limits/refused", test_refused);
    return g_test_run();
}
