/* What a whole profile must satisfy: nothing missing, nothing contradictory. */
#include <string.h>

#include "base/error.h"
#include "hardware/internal.h"

static bool
refuse(const struct mw_hwprofile *profile, const char *group, const char *key, const char *rule,
       GError **error)
{
    const struct mw_hw_value *value = mw_hw_value_of(profile, group, key);
    g_autofree char *text = mw_hw_value_text(value);

    if (mw_hw_value_is_set(value))
        mw_refuse(error, "{key %s.%s=%s}: %s", group, key, text, rule);
    else
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: [%s] %s%s%s: %s", profile->origin,
                    group, key, *text ? " = " : "", text, rule);
    return false;
}

/* `rule` ends with the name and the value of another key of the group. */
static bool
refuse_beside(const struct mw_hwprofile *profile, const char *group, const char *key,
              const char *rule, const char *other, GError **error)
{
    g_autofree char *text = mw_hw_value_text(mw_hw_value_of(profile, group, other));
    g_autofree char *whole = g_strdup_printf("%s %s, %s", rule, other, text);

    return refuse(profile, group, key, whole, error);
}

static bool
is_optional_group(const char *group)
{
    return !strcmp(group, "nvme") || !strcmp(group, "fabric") || !strcmp(group, "network");
}

static bool
group_given(const struct mw_hwprofile *profile, const char *group)
{
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++)
        if (profile->value[i].given && !strcmp(keys[i].group, group))
            return true;
    return false;
}

/* `[nvme] capacity_tb = 0` and `[network] gb_per_s = 0` alone say that there is none. */
static bool
group_switched_off(const struct mw_hwprofile *profile, const char *group)
{
    const char *key = !strcmp(group, "nvme") ? "capacity_tb" : "gb_per_s";
    const struct mw_hw_value *value = mw_hw_value_of(profile, group, key);

    return is_optional_group(group) && value->given && value->number[value->count == 3] == 0;
}

/* "; so are write_gb_per_s, latency_us": what else the group of a key, at `index`, lacks. */
static char *
others_missing(const struct mw_hwprofile *profile, size_t index)
{
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);
    GString *text = g_string_new(NULL);

    for (size_t i = index + 1; i < count; i++)
        if (keys[i].required && !profile->value[i].given &&
            !strcmp(keys[i].group, keys[index].group))
            g_string_append_printf(text, "%s%s", text->len ? ", " : "", keys[i].key);
    if (text->len)
        g_string_prepend(text, strchr(text->str, ',') ? "; so are " : "; so is ");
    return g_string_free(text, FALSE);
}

static bool
check_required(const struct mw_hwprofile *profile, GError **error)
{
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++) {
        const struct mw_hw_key *row = &keys[i];

        if (!row->required || profile->value[i].given)
            continue;
        if (is_optional_group(row->group) &&
            (!group_given(profile, row->group) || group_switched_off(profile, row->group)))
            continue;
        g_autofree char *others = others_missing(profile, i);
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: [%s] %s is missing: %s%s%s%s%s",
                    profile->origin, row->group, row->key, row->help, *row->unit ? " (" : "",
                    row->unit, *row->unit ? ")" : "", others);
        return false;
    }
    return true;
}

static double
typical(const struct mw_hwprofile *profile, const char *group, const char *key)
{
    const struct mw_hw_value *value = mw_hw_value_of(profile, group, key);

    return value->number[value->count == 3];
}

static bool
refuse_fabric(const struct mw_hwprofile *profile, GError **error)
{
    g_autofree char *keys = mw_hwprofile_required("fabric");
    g_autofree char *rule =
        g_strdup_printf("is missing: a node with more than one GPU needs it; set %s", keys);

    return refuse(profile, "fabric", "gb_per_s", rule, error);
}

static bool
check_links(const struct mw_hwprofile *profile, GError **error)
{
    if (typical(profile, "node", "gpus") > 1 && !group_given(profile, "fabric"))
        return refuse_fabric(profile, error);
    if (typical(profile, "node", "nodes_max") > 1 && !typical(profile, "network", "gb_per_s"))
        return refuse(profile, "network", "gb_per_s", "is missing or 0: nodes_max above 1 needs it",
                      error);
    return true;
}

static bool
check_room(const struct mw_hwprofile *profile, const char *group, const char *reserve,
           const char *capacity, GError **error)
{
    double room = typical(profile, group, capacity) - typical(profile, group, reserve);
    const struct mw_hw_value *request = NULL;

    if (strcmp(group, "nvme"))
        request = mw_hw_value_of(profile, group, "largest_request_gib");
    if (typical(profile, group, capacity) > 0 && room <= 0)
        return refuse_beside(profile, group, reserve, "must be less than", capacity, error);
    if (request && request->given && request->number[0] > room)
        return refuse(profile, group, "largest_request_gib",
                      "must be at most the memory less the reserve", error);
    return true;
}

static bool
check_drives(const struct mw_hwprofile *profile, GError **error)
{
    const struct mw_hw_value *burst = mw_hw_value_of(profile, "nvme", "write_burst_gb_per_s");

    if (typical(profile, "nvme", "capacity_tb") <= 0)
        return true;
    if (typical(profile, "nvme", "drives") < 1)
        return refuse(profile, "nvme", "drives", "must be 1 or more where there is capacity",
                      error);
    if (burst->given && typical(profile, "nvme", "write_burst_gb_per_s") <
                            typical(profile, "nvme", "write_gb_per_s"))
        return refuse_beside(profile, "nvme", "write_burst_gb_per_s",
                             "must be at least the sustained rate,", "write_gb_per_s", error);
    return true;
}

/* Of `rate_key`, whose sizes are in `dim_key`. */
static bool
check_curve_end(const struct mw_hwprofile *profile, const char *dim_key, const char *rate_key,
                int sign, GError **error)
{
    g_autofree char *key = g_strconcat(rate_key, sign < 0 ? "_low" : "_high", NULL);
    g_autofree char *one_each = g_strdup_printf("must have one number for each of %s", dim_key);
    g_autofree char *ordered =
        g_strdup_printf("no number may be %s that of %s", sign < 0 ? "above" : "below", rate_key);
    const struct mw_hw_value *rate = mw_hw_value_of(profile, "gpu", rate_key);
    const struct mw_hw_value *end = mw_hw_value_of(profile, "gpu", key);

    if (!end->given)
        return true;
    if (end->count != rate->count)
        return refuse(profile, "gpu", key, one_each, error);
    for (int i = 0; i < end->count; i++)
        if ((end->number[i] - rate->number[i]) * sign < 0)
            return refuse(profile, "gpu", key, ordered, error);
    return true;
}

static bool
check_points(const struct mw_hwprofile *profile, const char *dim_key, const char *rate_key,
             GError **error)
{
    const struct mw_hw_value *dim = mw_hw_value_of(profile, "gpu", dim_key);
    g_autofree char *one_each = g_strdup_printf("must have one number for each of %s", dim_key);

    if (dim->count != mw_hw_value_of(profile, "gpu", rate_key)->count)
        return refuse(profile, "gpu", rate_key, one_each, error);
    for (int i = 1; i < dim->count; i++)
        if (dim->number[i] <= dim->number[i - 1])
            return refuse(profile, "gpu", dim_key, "must rise from each number to the next", error);
    return true;
}

static bool
check_curve(const struct mw_hwprofile *profile, GError **error)
{
    if (typical(profile, "gpu", "achievable_tflops") > typical(profile, "gpu", "peak_tflops"))
        return refuse_beside(profile, "gpu", "achievable_tflops", "must be at most", "peak_tflops",
                             error);
    return check_points(profile, "matmul_dim", "matmul_tflops", error) &&
           check_points(profile, "attention_dim", "attention_tflops", error) &&
           check_curve_end(profile, "matmul_dim", "matmul_tflops", -1, error) &&
           check_curve_end(profile, "matmul_dim", "matmul_tflops", 1, error) &&
           check_curve_end(profile, "attention_dim", "attention_tflops", -1, error) &&
           check_curve_end(profile, "attention_dim", "attention_tflops", 1, error);
}

static bool
is_day(const char *text)
{
    g_autoptr(GDate) day = g_date_new();
    char back[16];

    g_date_set_parse(day, text);
    return g_date_valid(day) && g_date_strftime(back, sizeof back, "%Y-%m-%d", day) &&
           !strcmp(back, text);
}

static bool
check_calibrated(const struct mw_hwprofile *profile, GError **error)
{
    const char *text = mw_hw_value_of(profile, "profile", "calibrated")->text;

    if (!text || is_day(text))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "%s: [profile] calibrated = %s: must be a day, YYYY-MM-DD; left out where the "
                "machine was not measured",
                profile->origin, text);
    return false;
}

bool
mw_hwprofile_check(const struct mw_hwprofile *profile, GError **error)
{
    return check_required(profile, error) && check_links(profile, error) &&
           check_room(profile, "gpu", "reserve_gib", "memory_gib", error) &&
           check_room(profile, "host", "reserve_gib", "memory_gib", error) &&
           check_room(profile, "nvme", "reserve_tb", "capacity_tb", error) &&
           check_drives(profile, error) && check_curve(profile, error) &&
           check_calibrated(profile, error);
}
