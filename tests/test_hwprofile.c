#include <glib.h>
#include <string.h>

#include "hardware/hwprofile.h"
#include "hardware/priced.h"
#include "tests/hwprofile_helpers.h"

/* Every key that is printed is followed by its source; only the made-up machine has none. */
static void
check_sources(const char *name, const struct mw_profile *profile)
{
    g_autofree char *text = mw_test_printed(profile);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    for (char **line = lines; *line && strcmp(name, "flat-test"); line++) {
        g_autofree char *key = g_strndup(*line, strcspn(*line, " "));
        if (!**line || **line == '[' || !strcmp(key, "description") || !strcmp(key, "date") ||
            !strcmp(key, "only_simulated") || !strcmp(key, "made_up") ||
            !strcmp(key, "discontinued") || g_str_has_suffix(key, ".source"))
            continue;
        g_autofree char *wanted = g_strconcat(key, ".source = ", NULL);
        if (!line[1] || !g_str_has_prefix(line[1], wanted))
            g_error("%s: %s has no source", name, *line);
    }
    g_assert_null(strstr(text, "/work"));
    g_assert_null(strstr(text, "/tmp"));
}

static void
check_outlooks(const char *name, const struct mw_profile *profile)
{
    struct mw_hardware at[MW_OUTLOOK_COUNT];
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);

    for (int i = 0; i < MW_OUTLOOK_COUNT; i++)
        at[i] = mw_hwprofile_read(profile, (enum mw_outlook)i);
    for (size_t i = 0; i < count; i++) {
        double value[MW_OUTLOOK_COUNT];
        if (keys[i].kind != MW_VALUE_REAL)
            continue;
        for (int o = 0; o < MW_OUTLOOK_COUNT; o++)
            value[o] = *(double *)(void *)((char *)&at[o] + keys[i].offset) * keys[i].better;
        if (value[0] > value[1] || value[1] > value[2])
            g_error("%s: [%s] %s gets slower towards the high outlook", name, keys[i].group,
                    keys[i].key);
    }
    for (int i = 0; i < at[0].matmul_points; i++) {
        g_assert_cmpfloat(at[0].matmul_flops[i], <=, at[1].matmul_flops[i]);
        g_assert_cmpfloat(at[1].matmul_flops[i], <=, at[2].matmul_flops[i]);
        if (i)
            g_assert_cmpfloat(at[1].matmul_flops[i - 1], <=, at[1].matmul_flops[i]);
    }
}

/* Bounds that any machine of today keeps: they catch a wrong unit. */
static void
check_plausible(const struct mw_profile *profile)
{
    struct mw_hardware at = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);

    g_assert_true(at.matmul_points >= 1 || at.gpu_multiprocessors >= 1);
    g_assert_cmpint(at.gpu_largest_request_bytes, <=, at.gpu_memory_bytes - at.gpu_reserve_bytes);
    g_assert_cmpint(at.host_largest_request_bytes, <=,
                    at.host_memory_bytes - at.host_reserve_bytes);
    g_assert_cmpfloat(at.gpu_achievable_flops, <=, at.gpu_peak_flops);
    g_assert_cmpfloat(at.pcie_h2d_bytes_per_s, <, at.gpu_memory_bytes_per_s);
    g_assert_cmpfloat(at.pcie_node_h2d_bytes_per_s, <=,
                      at.pcie_h2d_bytes_per_s * (double)at.gpus_per_node * 1.0001);
    g_assert_cmpfloat(at.gpu_launch_s, <, 1e-4);
    g_assert_cmpfloat(at.nvme_write_burst_bytes_per_s, >=, at.nvme_write_bytes_per_s);
    g_assert_cmpfloat(28 * at.host_update_params_per_s, <=, 1.5 * at.host_memory_bytes_per_s);
    g_assert_cmpfloat(at.nvme_read_bytes_per_s, <, 1e13);
    if (at.gpus_per_node > 1)
        g_assert_cmpfloat(at.fabric_bytes_per_s, >, 1e9);
}

static void
test_shipped(gconstpointer name)
{
    struct mw_profile *profile = mw_test_load(name);
    g_autoptr(GError) error = NULL;

    g_assert_cmpstr(mw_profile_name(profile), ==, name);
    g_assert_cmpuint(strlen(mw_profile_description(profile)), >, 10);
    check_sources(name, profile);
    check_outlooks(name, profile);
    check_plausible(profile);
    g_assert_true(mw_profile_check(profile, &error));
    mw_profile_free(profile);
}

static void
test_print_reads_back(gconstpointer name)
{
    g_autoptr(GError) error = NULL;
    struct mw_profile *profile = mw_test_load(name);
    char *first = mw_test_printed(profile);
    struct mw_profile *again =
        mw_profile_parse(&mw_hwprofile_kind, first, strlen(first), "again", &error);

    g_assert_no_error(error);
    char *second = mw_test_printed(again);
    g_assert_cmpstr(first, ==, second);
    for (int i = 0; i < MW_OUTLOOK_COUNT; i++) {
        struct mw_hardware a = mw_hwprofile_read(profile, (enum mw_outlook)i);
        struct mw_hardware b = mw_hwprofile_read(again, (enum mw_outlook)i);
        g_assert_cmpmem(&a, sizeof a, &b, sizeof b);
    }
    free(first);
    free(second);
    mw_profile_free(profile);
    mw_profile_free(again);
}

/* --- figures */

static void
test_dgx2(void)
{
    struct mw_profile *profile = mw_test_load("dgx2");
    struct mw_hardware low = mw_hwprofile_read(profile, MW_OUTLOOK_LOW);
    struct mw_hardware typical = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_hardware high = mw_hwprofile_read(profile, MW_OUTLOOK_HIGH);

    g_assert_true(mw_profile_has_range(profile));
    g_assert_cmpint(typical.gpus_per_node, ==, 16);
    g_assert_cmpint(typical.nodes_max, ==, 96);
    g_assert_cmpint(typical.gpu_memory_bytes, ==, INT64_C(32) << 30);
    g_assert_cmpfloat_with_epsilon((double)typical.host_memory_bytes, 1.5e12, 1e7);
    g_assert_cmpint(typical.nvme_capacity_bytes, ==, INT64_C(28000000000000));
    g_assert_cmpfloat(low.gpu_achievable_flops, ==, 62e12);
    g_assert_cmpfloat(typical.gpu_achievable_flops, ==, 70e12);
    g_assert_cmpfloat(high.gpu_achievable_flops, ==, 78e12);
    g_assert_cmpfloat(low.nvme_read_bytes_per_s, ==, 25e9);
    g_assert_cmpfloat(high.nvme_read_bytes_per_s, ==, 28e9);
    g_assert_cmpfloat_with_epsilon(typical.nvme_read_bytes_per_s, 25.6e9, 1);
    g_assert_cmpfloat_with_epsilon(typical.pcie_latency_s, 10e-6, 1e-15);
    g_assert_false(typical.gpu_bf16);
    /* Low is the slow end: here the large number. */
    g_assert_cmpfloat(low.gpu_collective_sm_share, ==, 1);
    g_assert_cmpfloat(high.gpu_collective_sm_share, ==, 0.2);
    g_assert_cmpint(typical.gpu_multiprocessors, ==, 80);
    g_assert_cmpint(typical.matmul_points, ==, 0);
    g_assert_cmpfloat(low.tile_flops, <, typical.tile_flops);
    g_assert_cmpfloat(typical.tile_flops, <, high.tile_flops);
    g_assert_cmpfloat(typical.tile_shares[0], ==, 1);
    g_assert_cmpfloat(typical.tile_shares[MW_TILE_SHARES - 1], <, 1);
    mw_profile_free(profile);
}

static void
test_provenance(void)
{
    struct mw_profile *profile = mw_test_load("dgx2");
    const char *source = NULL;

    g_assert_cmpint(mw_profile_provenance(profile, "gpu", "achievable_tflops", &source), ==,
                    MW_PROVENANCE_PUBLISHED);
    g_assert_nonnull(strstr(source, "Sec. 4.2"));
    g_assert_cmpint(mw_profile_provenance(profile, "gpu", "peak_tflops", NULL), ==,
                    MW_PROVENANCE_DATASHEET);
    g_assert_cmpint(mw_profile_worst_provenance(profile), ==, MW_PROVENANCE_ESTIMATE);
    mw_profile_free(profile);

    profile = mw_test_load("flat-test");
    g_assert_cmpint(mw_profile_provenance(profile, "gpu", "memory_gib", &source), ==,
                    MW_PROVENANCE_ESTIMATE);
    g_assert_null(source);
    mw_profile_free(profile);
    g_assert_cmpstr(mw_provenance_name(MW_PROVENANCE_MEASURED), ==, "measured");
    g_assert_null(mw_provenance_name(MW_PROVENANCE_COUNT));
}

static void
test_worst_provenance(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GString) text = g_string_new(NULL);
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);
    struct mw_profile *flat = mw_test_load("flat-test");
    char *plain = mw_test_printed(flat);
    g_auto(GStrv) lines = g_strsplit(plain, "\n", -1);

    for (char **line = lines; *line; line++) {
        g_autofree char *key = g_strndup(*line, strcspn(*line, " "));
        g_string_append_printf(text, "%s\n", *line);
        for (size_t i = 0; i < count; i++)
            if (keys[i].better && !strcmp(keys[i].key, key)) {
                g_string_append_printf(text, "%s.source = measured: a test\n", key);
                break;
            }
    }
    struct mw_profile *measured =
        mw_profile_parse(&mw_hwprofile_kind, text->str, text->len, "measured", &error);
    g_assert_no_error(error);
    g_assert_cmpint(mw_profile_worst_provenance(measured), ==, MW_PROVENANCE_MEASURED);
    g_assert_true(mw_profile_set(measured, "nvme.read_gb_per_s = 3", &error));
    g_assert_cmpint(mw_profile_worst_provenance(measured), ==, MW_PROVENANCE_USER);
    free(plain);
    mw_profile_free(measured);
    mw_profile_free(flat);
}

static void
test_defaults(void)
{
    struct mw_profile *profile = mw_test_load("flat-test");
    struct mw_hardware at = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);

    g_assert_false(mw_profile_has_range(profile));
    g_assert_cmpint(at.gpu_largest_request_bytes, ==, at.gpu_memory_bytes);
    g_assert_cmpint(at.host_largest_request_bytes, ==, at.host_memory_bytes);
    g_assert_cmpfloat(at.nvme_write_burst_bytes_per_s, ==, at.nvme_write_bytes_per_s);
    g_assert_cmpint(at.nvme_cache_bytes, ==, 0);
    mw_profile_free(profile);
}

static void
add_shipped(void)
{
    g_auto(GStrv) names = mw_hwprofile_list();

    g_assert_cmpuint(g_strv_length(names), >, 20);
    for (char **name = names; *name; name++) {
        g_autofree char *loads = g_strdup_printf("/hwprofile/shipped/%s", *name);
        g_autofree char *prints = g_strdup_printf("/hwprofile/reads-back/%s", *name);
        g_test_add_data_func_full(loads, g_strdup(*name), test_shipped, g_free);
        g_test_add_data_func_full(prints, g_strdup(*name), test_print_reads_back, g_free);
    }
}

/* As one by one, although many inherit from the same few; a name that does not load is left out. */
static void
test_load_all(void)
{
    g_auto(GStrv) names = mw_hwprofile_list();
    guint count = g_strv_length(names);
    g_autofree char **asked = g_memdup2(names, (count + 1) * sizeof *names);

    for (guint turn = 0; turn < 2; turn++) {
        g_autoptr(GPtrArray) all = mw_profile_load_all(&mw_hwprofile_kind, asked);
        g_assert_cmpuint(all->len, ==, count - turn);
        for (guint i = 0; i < all->len; i++) {
            struct mw_profile *one = mw_test_load(asked[i + turn]);
            char *text = mw_test_printed(one), *again = mw_test_printed(all->pdata[i]);
            g_assert_cmpstr(text, ==, again);
            g_assert_cmpstr(mw_profile_name(all->pdata[i]), ==, asked[i + turn]);
            free(text);
            free(again);
            mw_profile_free(one);
        }
        asked[0] = (char *)"no-such-machine";
    }
}

/* Three figures, whatever the list price has. */
static void
test_price(void)
{
    static const struct {
        double usd;
        enum mw_price_kind kind;
        const char *text;
    } prices[] = {
        {0.526, MW_PRICE_RENT, "0.526 USD an hour"}, {0.8048, MW_PRICE_RENT, "0.805 USD an hour"},
        {9.996, MW_PRICE_RENT, "10.0 USD an hour"},  {21.957642, MW_PRICE_RENT, "22.0 USD an hour"},
        {786.56, MW_PRICE_RENT, "787 USD an hour"},  {1999, MW_PRICE_OWN, "2000 USD"},
        {12345, MW_PRICE_OWN, "12300 USD"},          {399000, MW_PRICE_OWN, "399000 USD"},
        {999600, MW_PRICE_OWN, "1.00M USD"},         {25536000, MW_PRICE_OWN, "25.5M USD"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(prices); i++) {
        g_autofree char *text = mw_price_text(prices[i].usd, prices[i].kind);
        g_assert_cmpstr(text, ==, prices[i].text);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_setenv("XDG_CONFIG_HOME", "/nonexistent", TRUE); /* shipped profiles only */
    add_shipped();
    g_test_add_func("/hwprofile/dgx2", test_dgx2);
    g_test_add_func("/hwprofile/provenance", test_provenance);
    g_test_add_func("/hwprofile/worst-provenance", test_worst_provenance);
    g_test_add_func("/hwprofile/defaults", test_defaults);
    g_test_add_func("/hwprofile/load-all", test_load_all);
    g_test_add_func("/hwprofile/price", test_price);
    return g_test_run();
}
