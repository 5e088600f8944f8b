/* What a sizing lacks: in words, and as keys of the profile. */
#include <glib.h>
#include <math.h>

#include "hardware/scale.h"
#include "planner/remedy/internal.h"

/* "170 GiB", "15.9 TiB": three digits, rounded up so that the amount suffices.  g_free it. */
static char *
memory_text(int64_t bytes)
{
    static const struct {
        double bytes;
        const char *name;
    } units[] = {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}};
    size_t u = 0;

    while (u + 1 < G_N_ELEMENTS(units) && bytes < units[u].bytes)
        u++;
    double value = fmax(1, bytes / units[u].bytes);
    int decimals = MAX(0, 2 - (int)floor(log10(value)));
    double step = pow(10, floor(log10(value)) - 2);

    return g_strdup_printf("%.*f %s", decimals, ceil(value / step) * step, units[u].name);
}

/* The capacity of a measured machine is the free space on its drives. */
static bool
has_free_space(const struct mw_unfit *unfit)
{
    return unfit->here && mw_profile_word(unfit->here->profile, "machine");
}

/* Lacking bytes, in total or in one piece. */
static int64_t
lack_in_tier(const struct mw_sizing *sizing, int tier, bool *one_piece)
{
    const struct mw_tier_info *info = &sizing->tiers[tier];
    int64_t sum = mw_sizing_whole_need(sizing, tier) - info->capacity_bytes;
    int64_t one = sizing->largest_bytes[tier] - info->largest_request_bytes;

    *one_piece = one > sum;
    return MAX(MAX(sum, one), 0);
}

/* Drives come whole: the number of additional drives of the node's kind.  0: the node has none, or
 * none are lacking. */
int64_t
mw_lacking_drives(const struct mw_unfit *unfit, const struct mw_sizing *sizing)
{
    const struct mw_hardware *hw = sizing->hardware;
    bool one_piece;
    double lack = (double)lack_in_tier(sizing, MW_TIER_NVME, &one_piece);

    if (has_free_space(unfit) || hw->nvme_drives <= 0 || hw->nvme_capacity_bytes <= 0)
        return 0;
    return (int64_t)ceil(lack * sizing->ranks_per_node * hw->nvme_drives /
                         (double)hw->nvme_capacity_bytes);
}

/* Per node, including what the next calibration will reserve of it. */
int64_t
mw_lacking_free_space(const struct mw_unfit *unfit, const struct mw_sizing *sizing)
{
    const struct mw_hardware *hw = sizing->hardware;
    double usable = (double)(hw->nvme_capacity_bytes - hw->nvme_reserve_bytes);
    bool one_piece;
    double lack = (double)lack_in_tier(sizing, MW_TIER_NVME, &one_piece) * sizing->ranks_per_node;

    if (!has_free_space(unfit))
        return 0;
    return (int64_t)ceil(usable > 0 ? lack * (double)hw->nvme_capacity_bytes / usable : lack);
}

/* "2.45 TiB more nvme memory per GPU", "3 more drives of that kind per node", "24.1 GiB more free
 * space on its drives". */
static char *
lacking_in_tier(const struct mw_unfit *unfit, const struct mw_sizing *sizing, int tier)
{
    bool one_piece;
    int64_t lack = lack_in_tier(sizing, tier, &one_piece);
    int64_t drives = tier == MW_TIER_NVME ? mw_lacking_drives(unfit, sizing) : 0;
    int64_t space = tier == MW_TIER_NVME ? mw_lacking_free_space(unfit, sizing) : 0;

    if (!lack)
        return NULL;
    if (drives == 1)
        return g_strdup("one more drive of that kind per node");
    if (drives)
        return g_strdup_printf("%" G_GINT64_FORMAT " more drives of that kind per node", drives);
    g_autofree char *more = memory_text(space ? space : lack);
    return space ? g_strdup_printf("%s more free space on its drives", more)
                 : g_strdup_printf("%s more %s memory%s per GPU", more, mw_tier_name(tier),
                                   one_piece ? " in one piece" : "");
}

char *
mw_lacking_text(const struct mw_unfit *unfit, const struct mw_sizing *sizing)
{
    GString *text = g_string_new(NULL);

    for (int t = 0; t < MW_TIER_COUNT; t++) {
        g_autofree char *more = lacking_in_tier(unfit, sizing, t);
        if (more)
            g_string_append_printf(text, "%s%s", text->len ? ", " : "", more);
    }
    return g_string_free(text, FALSE);
}

/* --- as keys of the profile ------------------------------------------------------------------- */

static const struct {
    const char *group, *memory, *request;
} keys[MW_TIER_COUNT] = {
    [MW_TIER_GPU] = {"gpu", "memory_gib", "largest_request_gib"},
    [MW_TIER_CPU] = {"host", "memory_gib", "largest_request_gib"},
    [MW_TIER_NVME] = {"nvme", "capacity_tb", NULL},
};

/* With four digits, rounded up. */
static bool
assign_bytes(struct mw_profile *profile, int tier, const char *key, double bytes, GString *flags)
{
    double value = bytes / mw_hw_key(keys[tier].group, key)->scale;
    double step = pow(10, floor(log10(value)) - 3);
    g_autofree char *assignment =
        g_strdup_printf("%s.%s=%.10g", keys[tier].group, key, ceil(value / step) * step);

    return mw_hwprofile_assign(profile, assignment, flags);
}

static bool
add_to_tier(struct mw_profile *profile, const struct mw_sizing *sizing, int tier, GString *flags)
{
    const struct mw_hardware *hw = sizing->hardware;
    bool one_piece;
    double lack = (double)lack_in_tier(sizing, tier, &one_piece);
    double now[MW_TIER_COUNT] = {(double)hw->gpu_memory_bytes, (double)hw->host_memory_bytes,
                                 (double)hw->nvme_capacity_bytes};
    double sharers = tier == MW_TIER_GPU ? 1 : (double)sizing->ranks_per_node;

    if (lack <= 0)
        return true;
    if (!assign_bytes(profile, tier, keys[tier].memory, now[tier] + lack * sharers, flags))
        return false;
    return !keys[tier].request ||
           !mw_profile_gives(profile, keys[tier].group, keys[tier].request) ||
           assign_bytes(profile, tier, keys[tier].request,
                        (double)sizing->tiers[tier].largest_request_bytes + lack, flags);
}

struct mw_profile *
mw_lacking_added(const struct mw_unfit *unfit, const struct mw_sizing *sizing, GString *flags)
{
    int64_t drives = mw_lacking_drives(unfit, sizing), there = sizing->hardware->nvme_drives;
    struct mw_profile *profile = NULL;

    if (!unfit->here)
        return NULL;
    profile =
        drives ? mw_hwprofile_enlarge(unfit->here->profile, MW_HW_PART_DRIVES, unfit->here->outlook,
                                      (double)(there + drives) / (double)there, flags)
               : mw_profile_copy(unfit->here->profile);
    bool good = profile != NULL;
    for (int tier = 0; tier < MW_TIER_COUNT && good; tier++)
        good = (tier == MW_TIER_NVME && drives) || add_to_tier(profile, sizing, tier, flags);
    if (good && mw_profile_check(profile, NULL))
        return profile;
    mw_profile_free(profile);
    return NULL;
}
