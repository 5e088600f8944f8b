#include "lib/parallel.h"

#include <string.h>

#include "base/error.h"
#include "lib/space.h"

bool
mw_lib_asks_parallel(const struct memwall_question *question)
{
    return !g_strcmp0(question->search, "parallel");
}

/* --- what the search does not take ------------------------------------------------------------ */

static bool
is_axis(const char *name)
{
    for (int i = 0; mw_parallel_axis(i); i++)
        if (!strcmp(mw_parallel_axis(i), name))
            return true;
    return false;
}

/* Settings that the closed form of a pipeline, or a bound of it, does not have. */
static const char *const unsearched[] = {"grad-accum",
                                         "cp",
                                         "cp-kind",
                                         "ep",
                                         "etp",
                                         "capacity-factor",
                                         "expert-imbalance",
                                         "gate",
                                         "router-aux-loss-coef",
                                         "router-z-loss-coef",
                                         "tiles",
                                         "param-loads",
                                         "recompute-list",
                                         "stage-split",
                                         "stage-replicas",
                                         "checkpoint-bits",
                                         "kept-bits",
                                         "relu-mask",
                                         "relu-sparsity",
                                         "share-slots",
                                         "overlap",
                                         "update",
                                         "micro-batch-order",
                                         "drop-layers",
                                         "dpu-start",
                                         "serve",
                                         "objective",
                                         NULL};

static bool
check_settings(const struct memwall_question *question, GError **error)
{
    for (int i = 0; i < MW_SETTINGS_COUNT; i++) {
        const char *name = mw_settings_table[i].name, *text = question->settings[i];
        if (text && is_axis(name))
            return mw_refuse(error,
                             "{%s=%s}: is what {search=parallel} varies; must be left out, or "
                             "{over} %s=%s, which tries this value alone",
                             name, text, name, text);
        if (text && g_strv_contains(unsearched, name))
            return mw_refuse(error, "{%s=%s}: {search=parallel} does not take it; leave it out",
                             name, text);
    }
    return true;
}

/* What compares machines has no place where their GPUs are divided. */
static bool
check_search(const struct memwall_question *question, GError **error)
{
    const char *other = question->machines    ? "machines"
                        : question->prices    ? "prices"
                        : question->region    ? "region"
                        : question->pay       ? "pay"
                        : question->budget_of ? "budget-of"
                        : question->include   ? "include"
                        : question->deepspeed ? "deepspeed"
                                              : NULL;

    for (int l = 0; l < MW_LIB_LIMITS && !other; l++)
        if (question->limits[l])
            other = mw_lib_limits[l].name;
    if (!question->hardware)
        return mw_refuse(error, "{search=parallel}: divides the GPUs of one machine; {hardware} is "
                                "missing");
    return !other ||
           mw_refuse(error, "{%s}: {search=parallel} does not take it; leave it out", other);
}

static char *
names_of(const struct mw_strategies *strategies)
{
    GString *text = g_string_new(NULL);

    for (int i = 0; i < strategies->count; i++)
        g_string_append_printf(text, "%s%s",
                               !i                           ? ""
                               : i + 1 == strategies->count ? " and "
                                                            : ", ",
                               mw_strategy_name((int)strategies->one[i]));
    return g_string_free(text, FALSE);
}

/* Which states are partitioned, is an axis too. */
static bool
check_strategies(const struct mw_question *on, GError **error)
{
    const struct mw_strategies tried = mw_parallel_strategies();

    for (int i = 0; i < on->strategy_count; i++) {
        bool any = on->strategies[i] == MW_STRATEGY_AUTO;
        for (int t = 0; t < tried.count; t++)
            any = any || tried.one[t] == on->strategies[i];
        g_autofree char *names = any ? NULL : names_of(&tried);
        if (!any)
            return mw_refuse(error,
                             "{strategy=%s}: {search=parallel} tries %s, with states on GPU, host "
                             "and drives; must be some of these",
                             mw_strategy_name((int)on->strategies[i]), names);
    }
    return true;
}

/* --- axes that are not left open ------------------------------------------------------------- */

static bool
add_value(const struct mw_setting *setting, const char *text, struct mw_parallel_only *only,
          GError **error)
{
    only->values = g_renew(struct mw_settings, only->values, only->count + 1);
    mw_settings_init(&only->values[only->count]);
    return mw_setting_read(setting, text, true, &only->values[only->count++], error);
}

/* A value of the setting "schedule". */
static bool
check_schedule(int schedule, GError **error)
{
    g_autoptr(GString) tried = g_string_new(NULL);

    if (mw_parallel_tries(schedule))
        return true;
    for (int i = 0; i < MW_SCHEDULE_COUNT; i++)
        if (mw_parallel_tries(i))
            g_string_append_printf(tried, "%s%s", tried->len ? ", " : "", mw_schedule_row(i)->name);
    return mw_refuse(error, "{over}: schedule=%s: {search=parallel} tries %s; must be of these",
                     mw_schedule_row(schedule)->name, tried->str);
}

/* The values of a column, each once. */
static bool
add_only(const struct mw_space *space, size_t column, struct mw_lib_parallel *out, GError **error)
{
    const char *name = mw_space_name(space, column);
    struct mw_parallel_only only = {.setting = mw_setting_find(name)};
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    bool good = is_axis(name) ||
                mw_refuse(error,
                          "{over}: %s: is no axis of {search=parallel}, which are tp, pp, batch, "
                          "sequence-parallel, schedule, virtual-stages, "
                          "activation-checkpoint-interval, recompute-layers, "
                          "checkpoint-partition, shard-group and the devices of states",
                          name);

    for (int64_t p = 0; good && p < mw_space_points(space); p++) {
        const char *text = mw_space_value(space, p, column);
        if (g_hash_table_add(seen, (gpointer)text))
            good = add_value(only.setting, text, &only, error) &&
                   (strcmp(name, "schedule") ||
                    check_schedule(only.values[only.count - 1].schedule, error));
    }
    g_array_append_val(out->only, only);
    return good;
}

#define VALUES_MOST 100000 /* combinations, of which no more than the values count */

static bool
read_over(const char *text, struct mw_lib_parallel *out, GError **error)
{
    struct mw_space *space = mw_space_new();
    g_auto(GStrv) axes = g_strsplit(text, " ", -1);
    bool good = true;

    out->only = g_array_new(FALSE, FALSE, sizeof(struct mw_parallel_only));
    for (char **axis = axes; *axis && good; axis++)
        good = !**axis || mw_space_add(space, *axis, error);
    if (good && mw_space_points(space) > VALUES_MOST)
        good = mw_refuse(error, "{over}: has %" G_GINT64_FORMAT " points, must have at most %d",
                         mw_space_points(space), VALUES_MOST);
    for (size_t c = 0; good && c < mw_space_columns(space); c++)
        good = add_only(space, c, out, error);
    mw_space_free(space);
    return good;
}

/* --- the whole -------------------------------------------------------------------------------- */

bool
mw_lib_read_parallel(const struct memwall_question *question, struct mw_lib_parallel *out,
                     const char **blamed, GError **error)
{
    struct mw_question *on = &out->question;

    *out = (struct mw_lib_parallel){.question = {.strategy_count = 1}};
    *blamed = NULL;
    if (!check_search(question, error) || !check_settings(question, error))
        return false;
    *blamed = "model";
    if (!mw_lib_model(question, &on->model, error))
        return false;
    on->model_called = question->model;
    on->hardware_called = question->hardware;
    *blamed = "hardware";
    if (!mw_lib_profile(question, on, error))
        return false;
    *blamed = NULL;
    if (!mw_lib_settings(question, on, error) || !check_strategies(on, error) ||
        (question->over && !read_over(question->over, out, error)))
        return false;
    *blamed = "software";
    if (!mw_lib_software(question, on, MW_SOFTWARE_SLICED, error))
        return false;
    out->asked = (struct mw_parallel_question){
        .question = on,
        .only = out->only ? (const struct mw_parallel_only *)(const void *)out->only->data : NULL,
        .only_count = out->only ? (int)out->only->len : 0,
        .software = question->software || !on->software ? NULL : mw_profile_name(on->software)};
    *blamed = NULL;
    return true;
}

void
mw_lib_parallel_clear(struct mw_lib_parallel *parallel)
{
    mw_lib_clear(&parallel->question);
    for (guint i = 0; parallel->only && i < parallel->only->len; i++)
        g_free(g_array_index(parallel->only, struct mw_parallel_only, i).values);
    if (parallel->only)
        g_array_unref(parallel->only);
    *parallel = (struct mw_lib_parallel){0};
}
