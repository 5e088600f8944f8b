#include <glib.h>
#include <string.h>

#include "hardware/composed.h"
#include "tests/hwprofile_helpers.h"

static struct mw_hardware
machine(const char *text)
{
    struct mw_profile *profile = mw_test_load(text);
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);

    mw_profile_free(profile);
    return hardware;
}

static double
ratio(const char *text, const char *base, size_t field)
{
    struct mw_hardware a = machine(text), b = machine(base);

    return *(double *)(void *)((char *)&a + field) / *(double *)(void *)((char *)&b + field);
}

#define RATIO(text, base, field) ratio(text, base, G_STRUCT_OFFSET(struct mw_hardware, field))
#define NEAR 0.006 /* figures are rounded to three digits */

/* --- what is not named stays as the base has it ----------------------------------------------- */

static void
test_one_is_the_base(gconstpointer base)
{
    g_autofree char *text = g_strconcat("1x", base, NULL);
    struct mw_hardware composed = machine(text), wanted = machine(base);

    /* A price is that of the base as it is. */
    wanted.price_usd = wanted.price_usd_per_hour = 0;
    g_assert_cmpmem(&composed, sizeof composed, &wanted, sizeof wanted);
}

static void
test_name(void)
{
    const char *text = "2xrtx4090,ram=256";
    struct mw_profile *profile = mw_test_load(text);
    g_autofree char *printed = mw_test_printed(profile);

    g_assert_cmpstr(mw_profile_name(profile), ==, text);
    g_assert_nonnull(strstr(mw_profile_description(profile), "2 x the GPU of rtx4090, 256 GiB"));
    g_assert_null(strstr(printed, "inherits"));
    g_assert_null(mw_profile_set_text(profile));
    g_assert_false(mw_hwprofile_calibrated(profile));
    mw_profile_free(profile);
}

/* --- parts ------------------------------------------------------------------------------------ */

static void
test_gpus(void)
{
    struct mw_hardware four = machine("4xrtx4090"), one = machine("rtx4090");

    g_assert_cmpint(four.gpus_per_node, ==, 4);
    g_assert_cmpint(four.host_memory_bytes, ==, one.host_memory_bytes);
    g_assert_cmpfloat(four.gpu_peak_flops, ==, one.gpu_peak_flops);
    g_assert_cmpfloat(four.power_w, ==, 4 * one.power_w);
    g_assert_cmpfloat(four.price_usd, ==, 0);
    g_assert_cmpint(four.gpu_reserve_bytes, >, one.gpu_reserve_bytes);
    g_assert_cmpint(four.host_reserve_bytes, >, one.host_reserve_bytes);
    g_assert_cmpfloat(four.gpu_collective_sm_share, >, 0);
}

/* Of NVLink the fabric is the base's; without it a share of PCIe, the less the more GPUs. */
static void
test_fabric(void)
{
    struct mw_hardware of[] = {machine("2xrtx4090"), machine("4xrtx4090"), machine("8xrtx4090")};

    g_assert_cmpfloat(machine("4xh100").fabric_bytes_per_s, ==,
                      machine("dgx-h100").fabric_bytes_per_s);
    for (int i = 0; i < 3; i++) {
        g_assert_cmpfloat(of[i].fabric_bytes_per_s, >, 0.4 * of[i].pcie_h2d_bytes_per_s);
        g_assert_cmpfloat(of[i].fabric_bytes_per_s, <, 0.7 * of[i].pcie_h2d_bytes_per_s);
        if (i)
            g_assert_cmpfloat(of[i].fabric_bytes_per_s, <, of[i - 1].fabric_bytes_per_s);
    }
    g_assert_cmpfloat_with_epsilon(
        RATIO("4xrtx4090,pcie=4x8", "4xrtx4090,pcie=4x16", fabric_bytes_per_s), 0.5, NEAR);
}

static void
test_pcie(void)
{
    g_assert_cmpfloat_with_epsilon(RATIO("rtx4090,pcie=4x8", "rtx4090", pcie_h2d_bytes_per_s), 0.5,
                                   NEAR);
    g_assert_cmpfloat_with_epsilon(RATIO("rtx4090,pcie=3x16", "rtx4090", pcie_d2h_bytes_per_s), 0.5,
                                   NEAR);
    /* A slot makes no card faster. */
    g_assert_cmpfloat(RATIO("rtx4090,pcie=5x16", "rtx4090", pcie_h2d_bytes_per_s), ==, 1);
    g_assert_cmpfloat(RATIO("rtx4090,pcie=4x16", "rtx4090", pcie_h2d_bytes_per_s), ==, 1);
    /* Lanes of their own: all GPUs at once have as many times as much; else some may share. */
    g_assert_cmpfloat_with_epsilon(
        RATIO("2xrtx4090,pcie=4x8", "rtx4090", pcie_node_h2d_bytes_per_s), 1, NEAR);
    g_assert_cmpfloat_with_epsilon(RATIO("4xrtx4090", "rtx4090", pcie_node_h2d_bytes_per_s), 2.73,
                                   0.03);
    g_assert_cmpfloat(machine("8xrtx4090").pcie_node_h2d_bytes_per_s, <=,
                      machine("8xrtx4090").host_memory_bytes_per_s);
}

static void
test_host(void)
{
    g_assert_cmpint(machine("rtx4090,ram=256").host_memory_bytes, ==, INT64_C(256) << 30);
    g_assert_cmpint(machine("rtx4090,ram=256GB").host_memory_bytes, ==, INT64_C(256) << 30);
    g_assert_cmpint(machine("rtx4090,ram=1TiB").host_memory_bytes, ==, INT64_C(1) << 40);
    g_assert_cmpint(machine("8xrtx4090,ram=8").host_reserve_bytes, ==, INT64_C(1) << 30);
    g_assert_cmpfloat_with_epsilon(machine("4xrtx4090,dram=8xDDR5-4800").host_memory_bytes_per_s,
                                   0.82 * 307.2e9, 1e9);
    /* The update reads and writes memory. */
    g_assert_cmpfloat_with_epsilon(
        RATIO("rtx4090,dram=4xddr5-5600", "rtx4090", host_update_params_per_s), 2, 0.02);
    /* Two cards of eight lanes fit a desktop, two of sixteen do not. */
    g_assert_cmpfloat(RATIO("2xrtx4090,pcie=4x8", "rtx4090", host_memory_bytes_per_s), ==, 1);
    g_assert_cmpfloat(RATIO("2xrtx4090", "rtx4090", host_memory_bytes_per_s), >, 2);
    g_assert_cmpfloat(RATIO("4xh100", "h100", host_memory_bytes_per_s), ==, 1);
    g_assert_cmpfloat(RATIO("8xh100", "h100", host_memory_bytes_per_s), >, 1.4);
}

static void
test_drives(void)
{
    struct mw_hardware more = machine("rtx4090,nvme=2x2TB"), none = machine("rtx4090,nvme=0");

    g_assert_cmpint(more.nvme_drives, ==, 2);
    g_assert_cmpint(more.nvme_capacity_bytes, ==, machine("rtx4090").nvme_capacity_bytes);
    g_assert_cmpint(more.nvme_endurance_bytes, ==, machine("rtx4090").nvme_endurance_bytes);
    g_assert_cmpint(more.nvme_queue_depth, ==, 2 * machine("rtx4090").nvme_queue_depth);
    g_assert_cmpfloat(RATIO("rtx4090,nvme=2x2TB", "rtx4090", nvme_read_bytes_per_s), ==, 2);
    g_assert_cmpfloat(RATIO("rtx4090,nvme=2x2TB", "rtx4090", nvme_write_bytes_per_s), ==, 2);
    g_assert_cmpint(machine("rtx4090,nvme=1x960GB").nvme_capacity_bytes, ==, 960000000000);
    g_assert_cmpint(none.nvme_capacity_bytes, ==, 0);
}

static void
test_network(void)
{
    struct mw_hardware two = machine("4xrtx4090,net=100");

    g_assert_cmpint(machine("4xrtx4090").nodes_max, ==, 1);
    g_assert_cmpint(two.nodes_max, ==, 0);
    g_assert_cmpfloat_with_epsilon(two.nic_bytes_per_s, 11.25e9, 1e8);
}

/* Without a number the base may have several GPUs. */
static void
test_several(void)
{
    struct mw_hardware less = machine("dgx-h100,ram=512,nvme=2x3.84TB");

    g_assert_cmpint(less.gpus_per_node, ==, 8);
    g_assert_cmpint(less.host_memory_bytes, ==, INT64_C(512) << 30);
    g_assert_cmpfloat(RATIO("dgx-h100,nvme=2x3.84TB", "dgx-h100", nvme_read_bytes_per_s), ==, 0.25);
    g_assert_cmpfloat(RATIO("dgx-h100,ram=512", "dgx-h100", fabric_bytes_per_s), ==, 1);
}

/* Wider than known is no range at all: low, typical, high of every figure rise. */
static void
test_ranges(gconstpointer text)
{
    struct mw_profile *profile = mw_test_load(text);
    struct mw_hardware at[MW_OUTLOOK_COUNT];
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);

    for (int o = 0; o < MW_OUTLOOK_COUNT; o++)
        at[o] = mw_hwprofile_read(profile, (enum mw_outlook)o);
    for (size_t i = 0; i < count; i++)
        for (int o = 1; keys[i].kind == MW_VALUE_REAL && o < MW_OUTLOOK_COUNT; o++)
            g_assert_cmpfloat(
                *(double *)(void *)((char *)&at[o - 1] + keys[i].offset) * keys[i].better, <=,
                *(double *)(void *)((char *)&at[o] + keys[i].offset) * keys[i].better);
    mw_profile_free(profile);
}

/* --- what is no machine ----------------------------------------------------------------------- */

static void
test_refused(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"4xrtx409", "no hardware profile \"rtx409\"; did you mean rtx4090"},
        {"4x", "names no GPU"},
        {"0xrtx4090", "from 1 to 1024 GPUs"},
        {"99999999999xrtx4090", "from 1 to 1024 GPUs"},
        {"4xdgx-h100", "dgx-h100 has 8 GPUs itself"},
        {"4x2xrtx4090", "no hardware profile \"2xrtx4090\""},
        {"4xrtx4090,foo=3", "must be ram=, dram=, nvme=, pcie= or net="},
        {"4xrtx4090,", "part \"\": unknown"},
        {"4xrtx4090,h100", "part \"h100\": unknown"},
        {"4xrtx4090,ram=256,ram=512", "part ram: is given twice"},
        {"4xrtx4090,ram=0", "part ram=0: must be memory"},
        {"4xrtx4090,ram=256MiB", "part ram=256MiB: must be memory"},
        {"4xrtx4090,ram=", "part ram=: must be memory"},
        {"4xrtx4090,ram=nan", "part ram=nan: must be memory"},
        {"4xrtx4090,nvme=4", "part nvme=4: must be drives"},
        {"4xrtx4090,nvme=2x", "part nvme=2x: must be drives"},
        {"4xrtx4090,nvme=2x4PB", "part nvme=2x4PB: must be drives"},
        {"4xrtx4090,pcie=2x16", "part pcie=2x16: must be generation (3 to 6)"},
        {"4xrtx4090,pcie=4x12", "part pcie=4x12: must be generation"},
        {"4xrtx4090,dram=8", "part dram=8: must be memory channels"},
        {"4xrtx4090,dram=8xDDR5", "part dram=8xDDR5: must be memory channels"},
        {"4xrtx4090,net=fast", "part net=fast: must be network"},
        {"4xrtx4090,ram=\n", "printable"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(mw_hwprofile_load(rows[i].text, &error));
        g_assert_nonnull(error);
        if (!strstr(error->message, rows[i].says) || strchr(error->message, '\n'))
            g_error("%s: says %s", rows[i].text, error->message);
    }
}

static void
test_names_stay_names(void)
{
    g_assert_false(mw_machine_is_composed("rtx4090"));
    g_assert_false(mw_machine_is_composed("rtx4090,rtx3090"));
    g_assert_false(mw_machine_is_composed("2xmine.ini"));
    g_assert_false(mw_machine_is_composed("folder/2xmine"));
    g_assert_true(mw_machine_is_composed("2xrtx4090"));
    g_assert_true(mw_machine_is_composed("rtx4090,ram=3"));
}

int
main(int argc, char **argv)
{
    static const char *const bases[] = {"rtx4090", "h100", "l40s", "gh200", "v100"};
    static const char *const texts[] = {"2xrtx4090",      "3xrtx3090,ram=64", "8xrtx5090,pcie=5x8",
                                        "8xl40s,net=200", "16xh100,nvme=4x8", "4xgh200"};

    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(bases); i++) {
        g_autofree char *path = g_strconcat("/composed/base/", bases[i], NULL);
        g_test_add_data_func(path, bases[i], test_one_is_the_base);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autofree char *path = g_strconcat("/composed/ranges/", texts[i], NULL);
        g_test_add_data_func(path, texts[i], test_ranges);
    }
    g_test_add_func("/composed/name", test_name);
    g_test_add_func("/composed/gpus", test_gpus);
    g_test_add_func("/composed/fabric", test_fabric);
    g_test_add_func("/composed/pcie", test_pcie);
    g_test_add_func("/composed/host", test_host);
    g_test_add_func("/composed/drives", test_drives);
    g_test_add_func("/composed/network", test_network);
    g_test_add_func("/composed/several", test_several);
    g_test_add_func("/composed/refused", test_refused);
    g_test_add_func("/composed/names", test_names_stay_names);
    return g_test_run();
}
