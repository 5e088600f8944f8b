/* A remedy: more memory. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "base/spell.h"
#include "hardware/priced.h"
#include "planner/remedy/internal.h"

#define UNLIMITED_BYTES (INT64_C(1) << 60)
/* Host memory can grow by this factor; more needs another machine. */
#define HOST_TIMES 4

/* Drives come first because they cost least.  A machine without drives has none to enlarge. */
static const struct {
    bool host, drives;
} grown[] = {{false, true}, {true, false}, {true, true}};

static struct mw_hardware
grow(const struct mw_hardware *hardware, size_t which)
{
    struct mw_hardware hw = *hardware;

    if (grown[which].host)
        hw.host_memory_bytes = UNLIMITED_BYTES;
    if (grown[which].drives && hw.nvme_read_bytes_per_s > 0 && hw.nvme_write_bytes_per_s > 0)
        hw.nvme_capacity_bytes = UNLIMITED_BYTES;
    return hw;
}

/* What is lacking in those tiers of the real machine, in total. */
static double
lack_below_gpu(const struct mw_sizing *sizing, const struct mw_tier_info tiers[MW_TIER_COUNT])
{
    double bytes = 0;

    for (int t = MW_TIER_CPU; t < MW_TIER_COUNT; t++)
        bytes += fmax(0, (double)mw_sizing_whole_need(sizing, t) - (double)tiers[t].capacity_bytes);
    return bytes;
}

static bool
is_nearer(const struct mw_sizing *sizing, const struct mw_sizing *nearest,
          const struct mw_tier_info tiers[MW_TIER_COUNT])
{
    if (!nearest || sizing->fits != nearest->fits)
        return !nearest || sizing->fits;
    if (!sizing->fits)
        return mw_sizing_lack(sizing) < mw_sizing_lack(nearest);
    return lack_below_gpu(sizing, tiers) < lack_below_gpu(nearest, tiers);
}

/* Sizes a strategy's candidates on grown hardware, and takes the one that needs least or lacks
 * least GPU memory; replaces `nearest` if it comes nearer. */
static void
size_on_grown(const struct mw_unfit *unfit, const struct mw_hardware *hardware,
              enum mw_strategy strategy, struct mw_sizing **nearest)
{
    struct mw_request request = {unfit->request->model, hardware};
    struct mw_settings asked = *unfit->asked, s;

    asked.strategy = strategy;
    /* it would otherwise take all the memory it can get */
    asked.commit = asked.commit == MW_AUTO ? 0 : asked.commit;
    if (!mw_settings_complete(&request, &asked, &s, NULL))
        return;
    if (s.micro_batch == MW_AUTO && s.global_batch == MW_AUTO)
        s.micro_batch = 1.0 / (double)mw_settings_sharers(&s);
    g_autoptr(GPtrArray) found = mw_planner_candidates(&request, &s, NULL);
    for (guint i = 0; found && i < found->len; i++) {
        if (!is_nearer(found->pdata[i], *nearest, unfit->sizing->tiers))
            continue;
        mw_sizing_free(*nearest);
        *nearest = g_steal_pointer(&found->pdata[i]);
    }
}

/* What was short may have been a tier below the GPU, or on the GPU something that need not be
 * there. Sizes with room below: shows whether GPU memory is lacking at all, and how much the other
 * tiers lack.  With the tiers of the real machine; NULL: unknown.  mw_sizing_free it. */
static struct mw_sizing *
size_with_space_below(const struct mw_unfit *unfit)
{
    const struct mw_strategies strategies = mw_strategies_of(unfit->asked->strategy);
    struct mw_sizing *nearest = NULL;

    for (size_t g = 0; g < G_N_ELEMENTS(grown) && (!nearest || !nearest->fits); g++) {
        struct mw_hardware hardware = grow(unfit->request->hardware, g);
        for (int i = 0; i < strategies.count; i++)
            size_on_grown(unfit, &hardware, strategies.one[i], &nearest);
    }
    if (nearest) {
        nearest->hardware = unfit->request->hardware;
        memcpy(nearest->tiers, unfit->sizing->tiers, sizeof nearest->tiers);
    }
    return nearest;
}

/* --- what is needed --------------------------------------------------------------------------- */

static void
add_memory(int64_t *memory_bytes, int64_t *request_bytes, int64_t lack_bytes, int64_t sharers)
{
    *memory_bytes += lack_bytes * sharers;
    if (request_bytes && *request_bytes > 0)
        *request_bytes += lack_bytes;
}

/* Whether it fits once what the sizing lacks is added. */
static bool
fits_with_lacking(const struct mw_unfit *unfit, const struct mw_sizing *sizing)
{
    struct mw_hardware hw = *unfit->request->hardware;
    struct mw_request request = {unfit->request->model, &hw};
    struct mw_unfit other = {&request, unfit->asked, unfit->sizing, NULL, NULL};
    int64_t ranks = sizing->ranks_per_node;

    add_memory(&hw.gpu_memory_bytes, &hw.gpu_largest_request_bytes,
               mw_sizing_lack_of(sizing, MW_TIER_GPU), 1);
    add_memory(&hw.host_memory_bytes, &hw.host_largest_request_bytes,
               mw_sizing_lack_of(sizing, MW_TIER_CPU), ranks);
    add_memory(&hw.nvme_capacity_bytes, NULL, mw_sizing_lack_of(sizing, MW_TIER_NVME), ranks);
    return mw_remedy_fits(&other, unfit->asked);
}

/* Raises each amount to the most that a machine with a known price has. */
static void
raise_to_most(enum mw_price_kind kind, struct mw_hardware *most)
{
    g_autoptr(GPtrArray) machines = mw_priced_new(kind, NULL, MW_OUTLOOK_TYPICAL);

    for (guint i = 0; i < machines->len; i++) {
        const struct mw_hardware *hw = &((const struct mw_priced *)machines->pdata[i])->hardware;
        most->host_memory_bytes = MAX(most->host_memory_bytes, hw->host_memory_bytes);
        most->nvme_drives = MAX(most->nvme_drives, hw->nvme_drives);
        most->nvme_capacity_bytes = MAX(most->nvme_capacity_bytes, hw->nvme_capacity_bytes);
    }
}

/* Whether the machine would then have no more host memory, drives or free space than some listed
 * machine has. */
static bool
can_be_had(const struct mw_unfit *unfit, const struct mw_sizing *sizing)
{
    const struct mw_hardware *hw = unfit->request->hardware;
    int64_t host = mw_sizing_lack_of(sizing, MW_TIER_CPU);
    int64_t nvme = mw_sizing_lack_of(sizing, MW_TIER_NVME);
    struct mw_hardware most = {0};

    raise_to_most(MW_PRICE_RENT, &most);
    raise_to_most(MW_PRICE_OWN, &most);
    if (mw_sizing_lack_of(sizing, MW_TIER_GPU) > 0 ||
        (host > 0 &&
         hw->host_memory_bytes + host * sizing->ranks_per_node > most.host_memory_bytes))
        return false;
    int64_t space = mw_lacking_free_space(unfit, sizing);
    return nvme <= 0 ||
           (space ? hw->nvme_capacity_bytes + space <= most.nvme_capacity_bytes
                  : hw->nvme_drives + mw_lacking_drives(unfit, sizing) <= most.nvme_drives);
}

/* Whether so much is added that it would be another machine. */
static bool
is_far(const struct mw_unfit *unfit, const struct mw_sizing *sizing)
{
    const struct mw_hardware *hw = unfit->request->hardware;
    int64_t more = mw_sizing_lack_of(sizing, MW_TIER_CPU) * sizing->ranks_per_node;

    return more > (HOST_TIMES - 1) * hw->host_memory_bytes;
}

/* The sizing that says what is lacking: if it is more than host memory or drives alone, perhaps one
 * that lacks less of these.  `ample`, which may be NULL, must be freed after it. */
static const struct mw_sizing *
sizing_that_lacks(const struct mw_unfit *unfit, bool anew, struct mw_sizing **ample)
{
    bool gpu = mw_sizing_lack_of(unfit->sizing, MW_TIER_GPU) > 0;
    bool both = mw_sizing_lack_of(unfit->sizing, MW_TIER_CPU) > 0 &&
                mw_sizing_lack_of(unfit->sizing, MW_TIER_NVME) > 0;

    *ample = gpu || both || anew ? size_with_space_below(unfit) : NULL;
    return *ample && fits_with_lacking(unfit, *ample) ? *ample : anew ? NULL : unfit->sizing;
}

/* A machine with more of something, on which the software takes as much memory as here. */
static struct mw_hardware
enlarged(const struct mw_unfit *unfit, const struct mw_profile *profile)
{
    struct mw_hardware hw = mw_hwprofile_read(profile, unfit->here->outlook);

    mw_remedy_take_software(&hw, unfit->request->hardware);
    return hw;
}

/* ": host.memory_gib=256" if that is enough, else "".  g_free it. */
static char *
assignments_text(const struct mw_unfit *unfit, const struct mw_sizing *sizing)
{
    g_autoptr(GString) flags = g_string_new(NULL);
    struct mw_profile *profile = mw_lacking_added(unfit, sizing, flags);

    if (!profile)
        return g_strdup("");
    struct mw_hardware hw = enlarged(unfit, profile);
    struct mw_request request = {unfit->request->model, &hw};
    struct mw_unfit there = {&request, unfit->asked, unfit->sizing, NULL, NULL};
    bool fits = mw_remedy_fits(&there, unfit->asked);
    mw_profile_free(profile);
    return fits ? g_strdup_printf(": %s", flags->str) : g_strdup("");
}

/* Explains the remedy if the tier that was said to be short is not among those that need more. */
static char *
reason_text(const struct mw_unfit *unfit, const struct mw_sizing *sizing)
{
    enum mw_tier tier = unfit->sizing->limiting_tier;
    bool cpu = mw_sizing_lack_of(sizing, MW_TIER_CPU) > 0;
    bool nvme = mw_sizing_lack_of(sizing, MW_TIER_NVME) > 0;

    if (mw_sizing_lack_of(sizing, tier) > 0)
        return g_strdup("");
    return g_strdup_printf(", as %s then take%s what %s has no room for",
                           cpu && nvme ? "cpu and nvme"
                           : cpu       ? "cpu"
                                       : "nvme",
                           cpu && nvme ? "" : "s", mw_tier_name(tier));
}

/* Host memory and drives can be bought, except for a rented machine; more GPU memory needs another
 * GPU. */
static char *
upgrade(const struct mw_unfit *unfit, bool far)
{
    struct mw_sizing *ample;

    if (mw_price_kind(unfit->request->hardware) == MW_PRICE_RENT)
        return NULL;
    const struct mw_sizing *sizing = sizing_that_lacks(unfit, false, &ample);
    g_autofree char *memory = mw_lacking_text(unfit, sizing);
    char *text = NULL;
    if (*memory && can_be_had(unfit, sizing) && is_far(unfit, sizing) == far) {
        g_autofree char *options = assignments_text(unfit, sizing),
                        *because = reason_text(unfit, sizing);
        bool folder =
            mw_lacking_free_space(unfit, sizing) && mw_sizing_lack_of(sizing, MW_TIER_CPU) <= 0;
        text = folder
                   ? mw_spelled_printf("with %s it fits%s: free it, or measure folders that have "
                                       "it (calibrate {nvme=DIR})",
                                       memory, because)
                   : g_strdup_printf("with %s it fits%s%s", memory, because, options);
    }
    mw_sizing_free(ample);
    return text;
}

/* The same with another strategy. */
static char *
upgrade_and_strategy(const struct mw_unfit *unfit, bool far)
{
    struct mw_relaxation changes;
    struct mw_sizing *ample;
    char *text = NULL;

    if (mw_price_kind(unfit->request->hardware) == MW_PRICE_RENT ||
        !mw_relaxation_of_all(unfit, &changes))
        return NULL;
    struct mw_settings open = mw_relaxation_apply(unfit->asked, &changes);
    struct mw_unfit released = *unfit;
    released.asked = &open;
    const struct mw_sizing *sizing = sizing_that_lacks(&released, true, &ample);
    g_autoptr(GString) flags = g_string_new(NULL);
    struct mw_profile *profile = sizing && can_be_had(unfit, sizing) && is_far(unfit, sizing) == far
                                     ? mw_lacking_added(unfit, sizing, flags)
                                     : NULL;
    if (profile) {
        struct mw_hardware hw = enlarged(unfit, profile);
        struct mw_request request = {unfit->request->model, &hw};
        struct mw_unfit there = {&request, unfit->asked, unfit->sizing, NULL, NULL};
        g_autofree char *memory = mw_lacking_text(unfit, sizing);
        g_string_append(flags, " ");
        bool fits = mw_relaxation_minimize(&there, &changes);
        there.here = unfit->here;
        if (fits)
            text = mw_relaxation_text(&there, &changes, flags->str, memory);
    }
    mw_profile_free(profile);
    mw_sizing_free(ample);
    return text;
}

char *
mw_remedy_upgrade(const struct mw_unfit *unfit)
{
    return upgrade(unfit, false);
}

char *
mw_remedy_upgrade_and_strategy(const struct mw_unfit *unfit)
{
    return upgrade_and_strategy(unfit, false);
}

char *
mw_remedy_rebuild(const struct mw_unfit *unfit)
{
    return upgrade(unfit, true);
}

char *
mw_remedy_rebuild_and_strategy(const struct mw_unfit *unfit)
{
    return upgrade_and_strategy(unfit, true);
}

char *
mw_remedy_memory(const struct mw_unfit *unfit)
{
    struct mw_sizing *ample;
    const struct mw_sizing *sizing = sizing_that_lacks(unfit, false, &ample);
    g_autofree char *memory = mw_lacking_text(unfit, sizing);
    g_autofree char *options = assignments_text(unfit, sizing);
    char *text = g_strdup_printf(
        "%s with %s would fit%s",
        unfit->machine ? "no machine that is listed fits; one" : "a machine", memory, options);

    mw_sizing_free(ample);
    return text;
}
