/* Settings by name: what is read, and what a refusal says. */
#include "planner/settings/table.h"

#include <string.h>

#include "base/error.h"

static const struct {
    const char *name, *text;
    bool sliced;
    const char *refusal; /* NULL: it is read */
} rows[] = {
    {"batch", "3", false, NULL},
    {"batch", "auto", false, NULL},
    {"batch", "0.5", true, NULL},
    {"batch", "0.5", false,
     "batch=0.5: must be a whole number of sequences from 1 to 1000000, or auto; fractions need "
     "tp or cp"},
    {"batch", "1k", false, NULL},
    {"batch", "2M", false,
     "batch=2M: must be a whole number of sequences from 1 to 1000000, or auto"},
    {"nodes", "1k", false, NULL},
    {"grad-accum", "1k", false, NULL},
    {"batch", "0", true, "batch=0: must be a number from 0.001 to 1000000, or auto"},
    {"global-batch", "1k", false, NULL},
    {"seq", "4k", false,
     "seq=4k: must be a whole number from 1 to 16777216, written out: k may be 1000 or 1024"},
    {"tokens", "x", false, "tokens=x: must be a number from 1 to 1e18, as 15T or 1.5e13"},
    {"commit", "never", false, "commit=never: must be step or none"},
    {"prefetch", "2", false, NULL},
    {"prefetch", "4:0:1", false, NULL},
    {"prefetch", "1,2", false,
     "prefetch=1,2: must be a whole number from 0 to 64, or three: NC:CG:GG"},
    {"prefetch", "1:2:x", false,
     "prefetch=1:2:x: must be a whole number from 0 to 64, or three: NC:CG:GG"},
    {"prefetch", "4:1", false,
     "prefetch=4:1: must be a whole number from 0 to 64, or three: NC:CG:GG"},
    {"prefetch", "1:1:1:1", false,
     "prefetch=1:1:1:1: must be a whole number from 0 to 64, or three: NC:CG:GG"},
    {"prefetch", "1:65:1", false,
     "prefetch=1:65:1: must be a whole number from 0 to 64, or three: NC:CG:GG"},
    {"prefetch", "", false, "prefetch=: must be a whole number from 0 to 64, or three: NC:CG:GG"},
    {"drop-layers", "x", false,
     "drop-layers=x: must be layers for each of at most 256 steps in turn, such as 1,3/5-7/-, "
     "perhaps from a step on: 1,3/-@100"},
    {"param-device", "cpu:60GB,nvme", false, NULL},
    {"param-device", "tape", false,
     "param-device: \"tape\": unknown device at \"tape\"; must be gpu, cpu or nvme, or a split "
     "such as cpu:60GB,nvme: each device once, a size is a number and one of TB, TiB, GB, GiB, "
     "MB, MiB, B, such as 60GB, or a share such as 20%"},
};

static void
test_read(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        const struct mw_setting *setting = mw_setting_find(rows[i].name);
        g_autoptr(GError) error = NULL;
        struct mw_settings settings;

        mw_settings_init(&settings);
        g_assert_nonnull(setting);
        bool read = mw_setting_read(setting, rows[i].text, rows[i].sliced, &settings, &error);
        g_assert_cmpint(read, ==, !rows[i].refusal);
        g_assert_cmpstr(error ? error->message : NULL, ==, rows[i].refusal);
        bool usual = !read || g_str_equal(rows[i].text, "auto");
        g_assert_cmpint(mw_setting_is_usual(setting, &settings), ==, usual);
        g_assert_true(read || !settings.drop_layers);
    }
}

/* A row can be found by its name alone, and its help spells what it names. */
static void
test_table(void)
{
    for (int i = 0; i < MW_SETTINGS_COUNT; i++) {
        const struct mw_setting *setting = &mw_settings_table[i];
        g_autofree char *help = mw_setting_help(setting);

        g_assert_true(mw_setting_find(setting->name) == setting);
        g_assert_cmpint(setting->offset + setting->size, <=, sizeof(struct mw_settings));
        g_assert_true(setting->choices ? setting->kind == MW_SETTING_CHOICE ||
                                             setting->kind == MW_SETTING_INTEGER ||
                                             setting->kind == MW_SETTING_REAL ||
                                             setting->kind == MW_SETTING_LAYERS
                                       : setting->kind != MW_SETTING_CHOICE);
        g_assert_null(strchr(help, '{'));
        g_assert_nonnull(mw_settings_group_titles[setting->group]);
    }
    g_assert_null(mw_setting_find("--batch"));
    g_assert_null(mw_setting_find(""));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/settings-table/read", test_read);
    g_test_add_func("/settings-table/table", test_table);
    return g_test_run();
}
