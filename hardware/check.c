/* What a whole profile must satisfy: nothing contradictory. */
#include <string.h>

#include "base/error.h"
#include "hardware/internal.h"

static bool
is_optional_group(const char *group)
{
    return !strcmp(group, "nvme") || !strcmp(group, "fabric") || !strcmp(group, "network");
}

/* `[nvme] capacity_tb = 0` and `[network] gb_per_s = 0` alone say that there is none. */
static bool
group_switched_off(const struct mw_profile *profile, const char *group)
{
    const char *key = !strcmp(group, "nvme") ? "capacity_tb" : "gb_per_s";
    const struct mw_profile_value *value = mw_profile_value_of(profile, group, key);

    return is_optional_group(group) && value->given && value->number[value->count == 3] == 0;
}

static bool
refuse_fabric(const struct mw_profile *profile, GError **error)
{
    g_autofree char *keys = mw_profile_required(&mw_hwprofile_kind, "fabric");
    g_autofree char *rule =
        g_strdup_printf("is missing: a node with more than one GPU needs it; set %s", keys);

    return mw_profile_refuse(profile, "fabric", "gb_per_s", rule, error);
}

/* A machine without drives, fabric or network says nothing of them. */
bool
mw_hw_needs(const struct mw_profile *profile, const char *group)
{
    return !is_optional_group(group) ||
           (mw_profile_gives_group(profile, group) && !group_switched_off(profile, group));
}

static bool
check_links(const struct mw_profile *profile, GError **error)
{
    if (mw_profile_typical(profile, "node", "gpus") > 1 &&
        !mw_profile_gives_group(profile, "fabric"))
        return refuse_fabric(profile, error);
    if (mw_profile_typical(profile, "node", "nodes_max") > 1 &&
        !mw_profile_typical(profile, "network", "gb_per_s"))
        return mw_profile_refuse(profile, "network", "gb_per_s",
                                 "is missing or 0: nodes_max above 1 needs it", error);
    return true;
}

static bool
check_switch(const struct mw_profile *profile, GError **error)
{
    if (mw_profile_value_of(profile, "fabric", "all_reduce_gb_per_s")->given &&
        !(mw_profile_typical(profile, "fabric", "start_us") > 0))
        return mw_profile_refuse(profile, "fabric", "all_reduce_gb_per_s",
                                 "needs start_us above 0: without it collectives are one ring",
                                 error);
    return true;
}

static bool
check_reserve(const struct mw_profile *profile, const char *group, const char *reserve,
              const char *capacity, GError **error)
{
    double usable =
        mw_profile_typical(profile, group, capacity) - mw_profile_typical(profile, group, reserve);
    const struct mw_profile_value *request = NULL;

    if (strcmp(group, "nvme"))
        request = mw_profile_value_of(profile, group, "largest_request_gib");
    if (mw_profile_typical(profile, group, capacity) > 0 && usable <= 0)
        return mw_profile_refuse_beside(profile, group, reserve, "must be less than", capacity,
                                        error);
    if (request && request->given && request->number[0] > usable)
        return mw_profile_refuse(profile, group, "largest_request_gib",
                                 "must be at most the memory less the reserve", error);
    return true;
}

/* Rates of reads and writes at once are given both or not at all, each at most that of the
 * direction alone. */
static bool
check_mixed(const struct mw_profile *profile, GError **error)
{
    static const char *const keys[2][2] = {{"mixed_read_gb_per_s", "read_gb_per_s"},
                                           {"mixed_write_gb_per_s", "write_gb_per_s"}};

    for (int way = 0; way < 2; way++) {
        if (!mw_profile_value_of(profile, "nvme", keys[way][0])->given)
            continue;
        g_autofree char *rule = g_strdup_printf(
            "needs the rate of the other direction: set nvme.%s too", keys[!way][0]);
        if (!mw_profile_value_of(profile, "nvme", keys[!way][0])->given)
            return mw_profile_refuse(profile, "nvme", keys[way][0], rule, error);
        if (mw_profile_typical(profile, "nvme", keys[way][0]) >
            mw_profile_typical(profile, "nvme", keys[way][1]))
            return mw_profile_refuse_beside(profile, "nvme", keys[way][0], "must be at most",
                                            keys[way][1], error);
    }
    return true;
}

static bool
check_drives(const struct mw_profile *profile, GError **error)
{
    const struct mw_profile_value *burst =
        mw_profile_value_of(profile, "nvme", "write_burst_gb_per_s");

    if (mw_profile_typical(profile, "nvme", "capacity_tb") <= 0)
        return true;
    if (mw_profile_typical(profile, "nvme", "drives") < 1)
        return mw_profile_refuse(profile, "nvme", "drives",
                                 "must be 1 or more where there is capacity", error);
    if (burst->given && mw_profile_typical(profile, "nvme", "write_burst_gb_per_s") <
                            mw_profile_typical(profile, "nvme", "write_gb_per_s"))
        return mw_profile_refuse_beside(profile, "nvme", "write_burst_gb_per_s",
                                        "must be at least the sustained rate,", "write_gb_per_s",
                                        error);
    return check_mixed(profile, error);
}

/* Of `rate_key`, whose sizes are in `dim_key`. */
static bool
check_curve_end(const struct mw_profile *profile, const char *dim_key, const char *rate_key,
                int sign, GError **error)
{
    g_autofree char *key = g_strconcat(rate_key, sign < 0 ? "_low" : "_high", NULL);
    g_autofree char *one_each = g_strdup_printf("must have one number for each of %s", dim_key);
    g_autofree char *ordered =
        g_strdup_printf("no number may be %s that of %s", sign < 0 ? "above" : "below", rate_key);
    const struct mw_profile_value *rate = mw_profile_value_of(profile, "gpu", rate_key);
    const struct mw_profile_value *end = mw_profile_value_of(profile, "gpu", key);

    if (!end->given)
        return true;
    if (end->count != rate->count)
        return mw_profile_refuse(profile, "gpu", key, one_each, error);
    for (int i = 0; i < end->count; i++)
        if ((end->number[i] - rate->number[i]) * sign < 0)
            return mw_profile_refuse(profile, "gpu", key, ordered, error);
    return true;
}

static bool
check_points(const struct mw_profile *profile, const char *dim_key, const char *rate_key,
             GError **error)
{
    const struct mw_profile_value *dim = mw_profile_value_of(profile, "gpu", dim_key);
    g_autofree char *one_each = g_strdup_printf("must have one number for each of %s", dim_key);

    if (dim->count != mw_profile_value_of(profile, "gpu", rate_key)->count)
        return mw_profile_refuse(profile, "gpu", rate_key, one_each, error);
    for (int i = 1; i < dim->count; i++)
        if (dim->number[i] <= dim->number[i - 1])
            return mw_profile_refuse(profile, "gpu", dim_key,
                                     "must rise from each number to the next", error);
    return true;
}

/* Of `keys`, all or none, each with one number for each of `dim_key`, or `numbers` where there is
 * none. */
static bool
check_shares(const struct mw_profile *profile, const char *const *keys, int count,
             const char *dim_key, int numbers, GError **error)
{
    g_autofree char *how_many =
        dim_key ? g_strdup_printf("must have one number for each of %s", dim_key)
                : g_strdup_printf("must have %d numbers", numbers);
    int wanted = dim_key ? mw_profile_value_of(profile, "gpu", dim_key)->count : numbers;
    const char *given = NULL;

    for (int i = 0; i < count; i++)
        if (mw_profile_gives(profile, "gpu", keys[i]))
            given = keys[i];
    if (!given)
        return true;
    g_autofree char *beside = g_strdup_printf("is missing: gpu.%s needs it", given);
    for (int i = 0; i < count; i++) {
        if (!mw_profile_gives(profile, "gpu", keys[i]))
            return mw_profile_refuse(profile, "gpu", keys[i], beside, error);
        if (mw_profile_value_of(profile, "gpu", keys[i])->count != wanted)
            return mw_profile_refuse(profile, "gpu", keys[i], how_many, error);
    }
    return true;
}

static bool
check_directions(const struct mw_profile *profile, GError **error)
{
    static const char *const products[] = {"matmul_forward_share", "matmul_input_share",
                                           "matmul_weight_share"},
                             *const heads[] = {"attention_forward_share",
                                               "attention_backward_share"};

    if (mw_profile_gives(profile, "gpu", heads[0]) &&
        !mw_profile_gives(profile, "gpu", "attention_tflops"))
        return mw_profile_refuse(profile, "gpu", "attention_tflops",
                                 "is missing: gpu.attention_forward_share is a multiple of it",
                                 error);
    return check_shares(profile, products, G_N_ELEMENTS(products), "matmul_dim", 0, error) &&
           check_shares(profile, heads, G_N_ELEMENTS(heads), NULL, MW_ATTENTION_HEADS, error);
}

/* Rate, fill and shares of one type of operands: all three. */
static bool
check_tile_figures(const struct mw_profile *profile, const char *const needed[3], GError **error)
{
    for (int i = 0; i < 3; i++)
        if (!mw_profile_gives(profile, "gpu", needed[i]))
            return mw_profile_refuse(profile, "gpu", needed[i],
                                     "is missing: gpu.multiprocessors needs it", error);
    return mw_profile_value_of(profile, "gpu", needed[2])->count == MW_TILE_SHARES ||
           mw_profile_refuse(profile, "gpu", needed[2], "must have 4 numbers", error);
}

/* Figures of tiles are of the GPU that was fitted: beside a curve they would be another one's. */
bool
mw_hw_leaves_out(const struct mw_profile *profile, const struct mw_profile_key *row)
{
    const struct mw_profile_value *processors =
        mw_profile_value_of(profile, "gpu", "multiprocessors");

    return !strcmp(row->group, "gpu") && processors->given && !(processors->number[0] > 0) &&
           (g_str_has_prefix(row->key, "tile_") || g_str_has_prefix(row->key, "fp8_tile_") ||
            !strcmp(row->key, "sustained_share"));
}

/* Shares are of the curve that they were measured with. */
bool
mw_hw_goes_with(const struct mw_profile_key *row, const struct mw_profile_key *list)
{
    static const char *const curves[] = {"matmul_", "attention_"};
    bool goes = false;

    for (size_t i = 0; g_str_has_suffix(row->key, "_share") && i < G_N_ELEMENTS(curves); i++)
        goes |= g_str_has_prefix(row->key, curves[i]) && g_str_has_prefix(list->key, curves[i]) &&
                !g_str_has_suffix(list->key, "_share");
    return goes;
}

/* A machine has tiles or a curve. */
static bool
refuse_no_curve(const struct mw_profile *profile, GError **error)
{
    bool set = mw_profile_value_is_set(mw_profile_value_of(profile, "gpu", "multiprocessors"));

    return set ? mw_profile_refuse(profile, "gpu", "multiprocessors",
                                   "products have no curve then; set gpu.matmul_dim and "
                                   "gpu.matmul_tflops too, such as gpu.matmul_dim=1024;8192 and "
                                   "gpu.matmul_tflops=500;600",
                                   error)
               : mw_profile_refuse(profile, "gpu", "matmul_dim",
                                   "is missing; give cube roots of m*n*k, rising, such as "
                                   "matmul_dim = 1024; 8192, and the rate of each, such as "
                                   "matmul_tflops = 500; 600; or multiprocessors, tile_tflops, "
                                   "tile_fill and tile_shares",
                                   error);
}

static bool
check_tiles(const struct mw_profile *profile, GError **error)
{
    static const char *const needed[] = {"tile_tflops", "tile_fill", "tile_shares"},
                             *const fp8[] = {"fp8_tile_tflops", "fp8_tile_fill", "fp8_tile_shares"};
    bool curve = mw_profile_gives(profile, "gpu", "matmul_dim"), has_fp8 = false;

    if (mw_profile_typical(profile, "gpu", "multiprocessors") <= 0)
        return curve || refuse_no_curve(profile, error);
    if (curve)
        return mw_profile_refuse(profile, "gpu", "matmul_dim",
                                 "cannot stand beside tiles: gpu.multiprocessors=0 lets the "
                                 "curve stand",
                                 error);
    for (int i = 0; i < 3; i++)
        has_fp8 |= mw_profile_gives(profile, "gpu", fp8[i]);
    return check_tile_figures(profile, needed, error) &&
           (!has_fp8 || check_tile_figures(profile, fp8, error));
}

/* No product is faster than the peak that MFU refers to. */
static bool
check_peak(const struct mw_profile *profile, GError **error)
{
    const struct mw_profile_value *rate = mw_profile_value_of(profile, "gpu", "matmul_tflops");
    double peak = mw_profile_typical(profile, "gpu", "peak_tflops");

    for (int i = 0; rate->given && i < rate->count; i++)
        if (rate->number[i] > peak)
            return mw_profile_refuse_beside(profile, "gpu", "matmul_tflops", "must be at most",
                                            "peak_tflops", error);
    /* with multiprocessors=0, as --set may have it, nothing reads them */
    if (mw_profile_typical(profile, "gpu", "multiprocessors") > 0 &&
        mw_profile_typical(profile, "gpu", "tile_tflops") > peak)
        return mw_profile_refuse_beside(profile, "gpu", "tile_tflops", "must be at most",
                                        "peak_tflops", error);
    return true;
}

static bool
check_curve(const struct mw_profile *profile, GError **error)
{
    if (!check_tiles(profile, error))
        return false;
    if (mw_profile_typical(profile, "gpu", "achievable_tflops") >
        mw_profile_typical(profile, "gpu", "peak_tflops"))
        return mw_profile_refuse_beside(profile, "gpu", "achievable_tflops", "must be at most",
                                        "peak_tflops", error);
    return check_peak(profile, error) &&
           check_points(profile, "matmul_dim", "matmul_tflops", error) &&
           check_points(profile, "attention_dim", "attention_tflops", error) &&
           check_curve_end(profile, "matmul_dim", "matmul_tflops", -1, error) &&
           check_curve_end(profile, "matmul_dim", "matmul_tflops", 1, error) &&
           check_curve_end(profile, "attention_dim", "attention_tflops", -1, error) &&
           check_curve_end(profile, "attention_dim", "attention_tflops", 1, error) &&
           check_directions(profile, error);
}

static bool
is_backend(const char *text)
{
    return !strcmp(text, "cpu") || !strcmp(text, "cuda");
}

static bool
is_rate_left(const char *text)
{
    char *end;
    double left = g_ascii_strtod(text, &end);

    return end != text && !*end && left > 0 && left < 1e3;
}

/* Texts that mean something. */
static bool
check_texts(const struct mw_profile *profile, GError **error)
{
    static const struct mw_profile_text_rule rules[] = {
        {"backend", is_backend, "cpu or cuda"},
        {"rate_left", is_rate_left, "a number above 0"},
        {"calibrated", mw_profile_is_day,
         "a day, YYYY-MM-DD; left out where the machine was not measured"},
    };

    return mw_profile_check_texts(profile, rules, G_N_ELEMENTS(rules), error);
}

bool
mw_hw_check(const struct mw_profile *profile, GError **error)
{
    return check_links(profile, error) && check_switch(profile, error) &&
           check_reserve(profile, "gpu", "reserve_gib", "memory_gib", error) &&
           check_reserve(profile, "host", "reserve_gib", "memory_gib", error) &&
           check_reserve(profile, "nvme", "reserve_tb", "capacity_tb", error) &&
           check_drives(profile, error) && check_curve(profile, error) &&
           check_texts(profile, error);
}
