#include <glib.h>
#include <math.h>
#include <string.h>

#include "hardware/numa.h"
#include "hardware/scale.h"
#include "tests/hwprofile_helpers.h"

/* Lists of a curve's ends share its field: scaled by each row, it would be scaled three times. */
static void
test_one_row_per_field(void)
{
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++) {
        bool scales = keys[i].part != MW_HW_PART_NONE || keys[i].rate != MW_HW_RATE_NONE;
        g_assert_true(!scales || (keys[i].kind != MW_VALUE_FLAG && keys[i].kind != MW_VALUE_TEXT));
        for (size_t j = 0; scales && j < count; j++)
            g_assert_true(i == j || keys[j].kind == MW_VALUE_TEXT ||
                          keys[i].offset != keys[j].offset ||
                          (keys[j].part == MW_HW_PART_NONE && keys[j].rate == MW_HW_RATE_NONE));
    }
}

/* What has "all drives" or "host memory of a node" for a help says so in its row too. */
static void
test_rows_say_what_they_are_of(void)
{
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++) {
        bool of_all = strstr(keys[i].help, "all drives") != NULL;
        g_assert_true(!of_all || keys[i].part == MW_HW_PART_DRIVES);
        g_assert_true(keys[i].part != MW_HW_PART_DRIVES || !strcmp(keys[i].group, "nvme"));
        g_assert_true(keys[i].part != MW_HW_PART_GPU || !strcmp(keys[i].group, "gpu"));
        g_assert_true(keys[i].part != MW_HW_PART_HOST_MEMORY || !strcmp(keys[i].group, "host"));
        /* All rates of a GPU are its share's too, but those that say what share others take. */
        bool rate = keys[i].better > 0 && keys[i].kind == MW_VALUE_REAL && *keys[i].unit;
        g_assert_true(!rate || strcmp(keys[i].group, "gpu") || keys[i].part == MW_HW_PART_GPU);
        g_assert_true(!rate || keys[i].rate != MW_HW_RATE_NONE || keys[i].part == MW_HW_PART_GPU);
    }
}

static void
test_share_of_a_gpu(void)
{
    struct mw_profile *profile = mw_test_load("dgx2");
    const struct mw_hardware whole = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_hardware half = whole;

    mw_hardware_scale_part(&half, MW_HW_PART_GPU, 0.5);
    g_assert_cmpint(half.gpu_memory_bytes, ==, whole.gpu_memory_bytes / 2);
    g_assert_cmpint(half.gpu_reserve_bytes, ==, whole.gpu_reserve_bytes / 2);
    g_assert_cmpint(half.gpu_largest_request_bytes, ==, whole.gpu_largest_request_bytes / 2);
    g_assert_cmpfloat(half.gpu_peak_flops, ==, whole.gpu_peak_flops / 2);
    for (int64_t p = 0; p < whole.matmul_points; p++) {
        g_assert_cmpfloat(half.matmul_flops[p], ==, whole.matmul_flops[p] / 2);
        g_assert_cmpfloat(half.matmul_dim[p], ==, whole.matmul_dim[p]);
    }
    g_assert_cmpfloat(half.gpu_launch_s, ==, whole.gpu_launch_s);
    g_assert_cmpfloat(half.pcie_h2d_bytes_per_s, ==, whole.pcie_h2d_bytes_per_s);
    g_assert_cmpint(half.host_memory_bytes, ==, whole.host_memory_bytes);
    mw_profile_free(profile);
}

static void
test_drives(void)
{
    struct mw_profile *profile = mw_test_load("dgx2");
    const struct mw_hardware now = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_hardware twice = now, none = now, faster = now;

    mw_hardware_scale_part(&twice, MW_HW_PART_DRIVES, 2);
    g_assert_cmpint(twice.nvme_drives, ==, 2 * now.nvme_drives);
    g_assert_cmpint(twice.nvme_capacity_bytes, ==, 2 * now.nvme_capacity_bytes);
    g_assert_cmpint(twice.nvme_queue_depth, ==, 2 * now.nvme_queue_depth);
    g_assert_cmpfloat(twice.nvme_read_bytes_per_s, ==, 2 * now.nvme_read_bytes_per_s);
    g_assert_cmpfloat(twice.nvme_latency_s, ==, now.nvme_latency_s);
    g_assert_cmpint(twice.nvme_block_bytes, ==, now.nvme_block_bytes);
    mw_hardware_scale_part(&none, MW_HW_PART_DRIVES, 0);
    g_assert_cmpint(none.nvme_drives, ==, 0);
    g_assert_cmpint(none.nvme_capacity_bytes, ==, 0);
    mw_hardware_scale_rate(&faster, MW_HW_RATE_NVME, 1e-6);
    g_assert_cmpint(faster.nvme_drives, ==, now.nvme_drives);
    g_assert_cmpint(faster.nvme_queue_depth, ==, 1);
    mw_profile_free(profile);
}

/* As assignments, so that what is advised can be typed. */
static void
test_enlarged(void)
{
    struct mw_profile *profile = mw_test_load("rtx4090");
    g_autoptr(GString) flags = g_string_new(NULL);
    struct mw_profile *two =
        mw_hwprofile_enlarge(profile, MW_HW_PART_DRIVES, MW_OUTLOOK_TYPICAL, 2, flags);
    const struct mw_hardware now = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    const struct mw_hardware then = mw_hwprofile_read(two, MW_OUTLOOK_TYPICAL);

    g_assert_cmpint(then.nvme_drives, ==, 2 * now.nvme_drives);
    g_assert_cmpint(then.nvme_capacity_bytes, ==, 2 * now.nvme_capacity_bytes);
    g_assert_cmpint(then.host_memory_bytes, ==, now.host_memory_bytes);
    g_assert_nonnull(strstr(flags->str, "nvme.capacity_tb="));
    mw_profile_free(two);
    mw_profile_free(profile);
}

static void
test_nothing_to_enlarge(void)
{
    struct mw_profile *profile = mw_test_load("rtx4090");
    g_autoptr(GString) flags = g_string_new(NULL);

    g_assert_true(mw_profile_set(profile, "nvme.capacity_tb=0", NULL));
    g_assert_null(mw_hwprofile_enlarge(profile, MW_HW_PART_DRIVES, MW_OUTLOOK_TYPICAL, 2, flags));
    mw_profile_free(profile);
}

static void
test_required(void)
{
    g_autofree char *drives = mw_hw_part_required(MW_HW_PART_DRIVES, "drives");
    g_autofree char *host = mw_hw_part_required(MW_HW_PART_HOST_MEMORY, "");

    g_assert_cmpstr(drives, ==,
                    "nvme.capacity_tb, nvme.read_gb_per_s, nvme.write_gb_per_s and "
                    "nvme.queue_depth");
    g_assert_cmpstr(host, ==, "host.memory_gib");
}

/* The mean of the fullest NUMA node over all placements, one by one. */
static double
fullest_of_all(int ranks, int nodes)
{
    double sum = 0, ways = pow(nodes, ranks);

    for (int way = 0; way < (int)ways; way++) {
        int on[8] = {0}, fullest = 0;
        for (int rank = 0, rest = way; rank < ranks; rank++, rest /= nodes) {
            int here = ++on[rest % nodes];
            fullest = MAX(fullest, here);
        }
        sum += fullest;
    }
    return sum / ways;
}

static void
test_numa_placements(void)
{
    for (int nodes = 1; nodes <= 4; nodes++)
        for (int ranks = 1; ranks <= 6; ranks++) {
            g_assert_cmpfloat_with_epsilon(mw_numa_fullest(ranks, nodes, false),
                                           fullest_of_all(ranks, nodes), 1e-9);
            g_assert_cmpfloat(mw_numa_fullest(ranks, nodes, true), ==, (ranks + nodes - 1) / nodes);
        }
    /* More ranks than are counted exactly: no less than with fewer, and no jump. */
    for (int64_t ranks = 60; ranks < 70; ranks++)
        g_assert_cmpfloat(mw_numa_fullest(ranks + 1, 8, false), >,
                          mw_numa_fullest(ranks, 8, false));
    g_assert_cmpfloat_with_epsilon(mw_numa_fullest(65, 8, false), mw_numa_fullest(64, 8, false), 2);
}

/* One rank has one NUMA node's rate for what it pinned, and all of them for the rest. */
static void
test_numa_update(void)
{
    struct mw_hardware hardware = {.host_update_params_per_s = 4e9, .host_numa_nodes = 4};

    g_assert_cmpfloat(mw_numa_update_params_per_s(&hardware, 1), ==, 4e9);
    hardware.update_one_node_share = 1;
    g_assert_cmpfloat_with_epsilon(mw_numa_update_params_per_s(&hardware, 1), 1e9, 1);
    hardware.update_one_node_share = 0.5;
    g_assert_cmpfloat_with_epsilon(mw_numa_update_params_per_s(&hardware, 1), 1.6e9, 1);
    double anywhere = mw_numa_update_params_per_s(&hardware, 4);
    hardware.ranks_bound = true;
    g_assert_cmpfloat_with_epsilon(mw_numa_update_params_per_s(&hardware, 4), 4e9, 1);
    g_assert_cmpfloat(anywhere, <, 3e9);
    hardware.host_numa_nodes = 0;
    g_assert_cmpfloat(mw_numa_update_params_per_s(&hardware, 1), ==, 4e9);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/scale/one-row-per-field", test_one_row_per_field);
    g_test_add_func("/scale/rows-say-what-they-are-of", test_rows_say_what_they_are_of);
    g_test_add_func("/scale/share-of-a-gpu", test_share_of_a_gpu);
    g_test_add_func("/scale/drives", test_drives);
    g_test_add_func("/scale/enlarged", test_enlarged);
    g_test_add_func("/scale/nothing-to-enlarge", test_nothing_to_enlarge);
    g_test_add_func("/scale/required", test_required);
    g_test_add_func("/scale/numa-placements", test_numa_placements);
    g_test_add_func("/scale/numa-update", test_numa_update);
    return g_test_run();
}
