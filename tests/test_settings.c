#include <glib.h>
#include <string.h>

#include "base/error.h"
#include "planner/settings/settings.h"

static void
test_defaults(void)
{
    struct mw_settings settings;

    memset(&settings, 0x5a, sizeof settings);
    mw_settings_init(&settings);
    g_assert_cmpint(settings.strategy, ==, MW_STRATEGY_AUTO);
    g_assert_cmpint(settings.nodes, ==, 1);
    g_assert_cmpint(settings.gpus_per_node, ==, MW_AUTO);
    g_assert_cmpint(settings.tp, ==, 1);
    g_assert_cmpfloat(settings.micro_batch, ==, MW_AUTO);
    g_assert_cmpint(settings.buffer_sets, ==, 3);
    g_assert_true(settings.overlap);
    g_assert_false(settings.serialize);
    g_assert_cmpint(settings.commit, ==, MW_AUTO);
    g_assert_cmpint(settings.dpu_start, ==, MW_AUTO);
    g_assert_cmpfloat(settings.tokens, ==, 0);
    for (int state = 0; state < MW_STATE_COUNT; state++)
        g_assert_cmpint(settings.placement[state].count, ==, 0);
}

static void
test_placement_values(void)
{
    static const struct {
        const char *text;
        enum mw_tier tier;
        int64_t bytes;
    } rows[] = {
        {"gpu", MW_TIER_GPU, INT64_MAX},
        {"nvme", MW_TIER_NVME, INT64_MAX},
        {"cpu:60GB", MW_TIER_CPU, INT64_C(60000000000)},
        {"cpu:1GiB", MW_TIER_CPU, INT64_C(1073741824)},
        {"cpu:1.5TB", MW_TIER_CPU, INT64_C(1500000000000)},
        {"cpu:0.5TiB", MW_TIER_CPU, INT64_C(549755813888)},
        {"cpu:3MB", MW_TIER_CPU, 3000000},
        {"cpu:3MiB", MW_TIER_CPU, 3145728},
        {"cpu:7B", MW_TIER_CPU, 7},
        {"cpu:9007199254740993B", MW_TIER_CPU, INT64_C(9007199254740993)}, /* 2^53 + 1 */
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct mw_placement placement;
        g_assert_true(mw_placement_parse(rows[i].text, "--x", &placement, NULL));
        g_assert_cmpint(placement.count, ==, 1);
        g_assert_cmpint(placement.part[0].tier, ==, rows[i].tier);
        g_assert_cmpint(placement.part[0].bytes, ==, rows[i].bytes);
    }
}

static void
test_placement_split(void)
{
    struct mw_placement placement;

    g_assert_true(mw_placement_parse("gpu:8GiB,cpu:60GB,nvme", "--x", &placement, NULL));
    g_assert_cmpint(placement.count, ==, 3);
    g_assert_cmpint(placement.part[0].tier, ==, MW_TIER_GPU);
    g_assert_cmpint(placement.part[0].bytes, ==, INT64_C(8) << 30);
    g_assert_cmpint(placement.part[1].tier, ==, MW_TIER_CPU);
    g_assert_cmpint(placement.part[2].tier, ==, MW_TIER_NVME);
    g_assert_cmpint(placement.part[2].bytes, ==, INT64_MAX);
}

static void
test_placement_text(void)
{
    static const char *const rows[] = {"gpu",
                                       "cpu:60GB,nvme",
                                       "cpu:1500GB",
                                       "gpu:8GiB,cpu:3TB,nvme:7TiB",
                                       "nvme:12345678901234567B",
                                       "cpu:5MiB,gpu:5MB"};

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        struct mw_placement placement;
        g_assert_true(mw_placement_parse(rows[i], "--x", &placement, NULL));
        g_autofree char *text = mw_placement_text(&placement);
        g_assert_cmpstr(text, ==, rows[i]);
    }
    g_autofree char *empty = mw_placement_text(&(struct mw_placement){0});
    g_assert_cmpstr(empty, ==, "");
}

static void
test_placement_refused(void)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "empty part"},
        {"disk", "unknown device"},
        {"GPU", "unknown device"},
        {"cpu,", "empty part"},
        {"cpu:60GB,,nvme", "empty part"},
        {"cpu:", "not a size"},
        {"cpu:-60GB", "negative size"},
        {"cpu:0GB", "zero size"},
        {"cpu:0.0000001MB", "zero size"},
        {"cpu:60", "size without a unit"},
        {"cpu:60G", "unknown unit"},
        {"cpu:60gb", "unknown unit"},
        {"cpu:1e3GB", "unknown unit"},
        {"cpu:60 GB", "unknown unit"},
        {"cpu:.5GB", "not a size"},
        {"cpu:5.GB", "not a size"},
        {"cpu:nanGB", "not a size"},
        {"cpu:infGB", "not a size"},
        {"cpu:9223372036854775807B", "size too large"},
        {"cpu:9223373TB", "size too large"},
        {"cpu:9223373.5TB", "size too large"},
        {"cpu:99999999999999999999999999999TB", "size too large"},
        {"cpu:60GB,cpu", "device named twice"},
        {"cpu:60GB:60GB", "unknown unit"},
        {"nvme,cpu", "nothing can follow"},
        {"cpu,nvme:1TB", "nothing can follow"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        struct mw_placement placement = {.count = 77};

        g_assert_false(mw_placement_parse(rows[i].text, "--param-device", &placement, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_INVALID);
        g_assert_true(g_str_has_prefix(error->message, "--param-device: "));
        if (!strstr(error->message, rows[i].why))
            g_error("\"%s\": wanted \"%s\", got: %s", rows[i].text, rows[i].why, error->message);
        g_assert_nonnull(strstr(error->message, "must be"));
        g_assert_cmpint(placement.count, ==, 77);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/settings/defaults", test_defaults);
    g_test_add_func("/settings/placement/values", test_placement_values);
    g_test_add_func("/settings/placement/split", test_placement_split);
    g_test_add_func("/settings/placement/text", test_placement_text);
    g_test_add_func("/settings/placement/refused", test_placement_refused);
    return g_test_run();
}
