/* What would make it fit: memory of the tiers. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "planner/priced.h"
#include "planner/remedy_internal.h"

#define UNLIMITED_BYTES (INT64_C(1) << 60)

/* "170 GiB", "15.9 TiB": three figures, rounded up, as what is said must be enough.  g_free it. */
static char *
enough_memory(int64_t bytes)
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

/* Drives are had whole: as many more as the node's are.  0: it has none. */
static int64_t
lacking_drives(const struct mw_sizing *sizing, int64_t lack_bytes)
{
    const struct mw_hardware *hw = sizing->hardware;
    double lack = (double)lack_bytes * sizing->ranks_per_node;

    return hw->nvme_drives > 0
               ? (int64_t)ceil(lack * hw->nvme_drives / (double)hw->nvme_capacity_bytes)
               : 0;
}

/* "2.45 TiB more nvme memory per GPU", "3 more drives of that kind per node". */
static char *
lacking_in_tier(const struct mw_sizing *sizing, int tier)
{
    const struct mw_tier_info *info = &sizing->tiers[tier];
    int64_t sum = sizing->need_bytes[tier] - info->capacity_bytes;
    int64_t one = sizing->largest_bytes[tier] - info->largest_request_bytes;

    if (sum <= 0 && one <= 0)
        return NULL;
    int64_t drives = tier == MW_TIER_NVME ? lacking_drives(sizing, MAX(sum, one)) : 0;
    if (drives == 1)
        return g_strdup("one more drive of that kind per node");
    if (drives)
        return g_strdup_printf("%" G_GINT64_FORMAT " more drives of that kind per node", drives);
    g_autofree char *more = enough_memory(MAX(sum, one));
    return g_strdup_printf("%s more %s memory%s per GPU", more, mw_tier_name(tier),
                           one > sum ? " in one piece" : "");
}

/* In every tier that lacks some. */
static char *
lacking_memory(const struct mw_sizing *sizing)
{
    GString *text = g_string_new(NULL);

    for (int t = 0; t < MW_TIER_COUNT; t++) {
        g_autofree char *more = lacking_in_tier(sizing, t);
        if (more)
            g_string_append_printf(text, "%s%s", text->len ? ", " : "", more);
    }
    return g_string_free(text, FALSE);
}

/* --- as far down as the strategy can ---------------------------------------------------------- */

/* The drives first: they cost least.  A machine without any has nothing to enlarge. */
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

/* In those tiers of the machine as it is, together. */
static double
lack_below_gpu(const struct mw_sizing *sizing, const struct mw_tier_info tiers[MW_TIER_COUNT])
{
    double bytes = 0;

    for (int t = MW_TIER_CPU; t < MW_TIER_COUNT; t++)
        bytes += fmax(0, (double)sizing->need_bytes[t] - (double)tiers[t].capacity_bytes);
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

/* Of the candidates of a strategy on grown hardware that which needs least, or lacks least GPU
 * memory; replaces `nearest` if it comes nearer. */
static void
settle_strategy(const struct mw_plea *plea, const struct mw_hardware *hardware,
                enum mw_strategy strategy, struct mw_sizing **nearest)
{
    struct mw_request request = {plea->request->model, hardware};
    struct mw_settings asked = *plea->asked, s;

    asked.strategy = strategy;
    asked.commit = asked.commit == MW_AUTO ? 0 : asked.commit; /* it would take all it can get */
    if (!mw_settings_resolve(&request, &asked, &s, NULL))
        return;
    if (s.micro_batch == MW_AUTO && s.global_batch == MW_AUTO)
        s.micro_batch = 1.0 / s.tp;
    g_autoptr(GPtrArray) found = mw_planner_candidates(&request, &s, NULL);
    for (guint i = 0; found && i < found->len; i++) {
        if (!is_nearer(found->pdata[i], *nearest, plea->sizing->tiers))
            continue;
        mw_sizing_free(*nearest);
        *nearest = g_steal_pointer(&found->pdata[i]);
    }
}

/* What was short may have been a tier below, and of the GPU what never had to be there: with room
 * below, whether the GPU lacks any memory and how much the other tiers do.  With the tiers of the
 * machine as it is; NULL if nothing is known.  mw_sizing_free it. */
static struct mw_sizing *
settle(const struct mw_plea *plea)
{
    int first = plea->asked->strategy, last = first;
    struct mw_sizing *nearest = NULL;

    if (first == MW_STRATEGY_AUTO) {
        first = MW_STRATEGY_DDP;
        last = MW_STRATEGY_COUNT - 1;
    }
    for (size_t g = 0; g < G_N_ELEMENTS(grown) && (!nearest || !nearest->fits); g++) {
        struct mw_hardware hardware = grow(plea->request->hardware, g);
        for (int strategy = first; strategy <= last; strategy++)
            settle_strategy(plea, &hardware, strategy, &nearest);
    }
    if (nearest) {
        nearest->hardware = plea->request->hardware;
        memcpy(nearest->tiers, plea->sizing->tiers, sizeof nearest->tiers);
    }
    return nearest;
}

/* --- what to have ----------------------------------------------------------------------------- */

static void
add_memory(int64_t *memory_bytes, int64_t *request_bytes, int64_t lack_bytes, int64_t sharers)
{
    *memory_bytes += lack_bytes * sharers;
    if (request_bytes && *request_bytes > 0)
        *request_bytes += lack_bytes;
}

/* Whether what the sizing lacks, added, is enough. */
static bool
fits_with_lacking(const struct mw_plea *plea, const struct mw_sizing *sizing)
{
    struct mw_hardware hw = *plea->request->hardware;
    struct mw_request request = {plea->request->model, &hw};
    struct mw_plea other = {&request, plea->asked, plea->sizing, NULL};
    int64_t ranks = sizing->ranks_per_node;

    add_memory(&hw.gpu_memory_bytes, &hw.gpu_largest_request_bytes,
               mw_sizing_lack_of(sizing, MW_TIER_GPU), 1);
    add_memory(&hw.host_memory_bytes, &hw.host_largest_request_bytes,
               mw_sizing_lack_of(sizing, MW_TIER_CPU), ranks);
    add_memory(&hw.nvme_capacity_bytes, NULL, mw_sizing_lack_of(sizing, MW_TIER_NVME), ranks);
    return mw_plea_fits(&other, plea->asked);
}

/* Raises both to what some machine of a known price has. */
static void
raise_to_most(enum mw_price_kind kind, int64_t *host_bytes, int64_t *drives)
{
    g_autoptr(GPtrArray) machines = mw_priced_new(kind, NULL, MW_OUTLOOK_TYPICAL);

    for (guint i = 0; i < machines->len; i++) {
        const struct mw_priced *priced = machines->pdata[i];
        *host_bytes = MAX(*host_bytes, priced->hardware.host_memory_bytes);
        *drives = MAX(*drives, priced->hardware.nvme_drives);
    }
}

/* Whether the machine would have no more host memory or drives then than some machine has. */
static bool
can_be_had(const struct mw_plea *plea, const struct mw_sizing *sizing)
{
    const struct mw_hardware *hw = plea->request->hardware;
    int64_t host = mw_sizing_lack_of(sizing, MW_TIER_CPU);
    int64_t nvme = mw_sizing_lack_of(sizing, MW_TIER_NVME);
    int64_t host_bytes = 0, drives = 0;

    raise_to_most(MW_PRICE_RENT, &host_bytes, &drives);
    raise_to_most(MW_PRICE_OWN, &host_bytes, &drives);
    return mw_sizing_lack_of(sizing, MW_TIER_GPU) <= 0 &&
           (host <= 0 || hw->host_memory_bytes + host * sizing->ranks_per_node <= host_bytes) &&
           (nvme <= 0 || hw->nvme_drives + lacking_drives(sizing, nvme) <= drives);
}

/* "170 GiB more cpu memory per GPU"; `had`: whether it can be.  g_free it. */
static char *
needed_memory(const struct mw_plea *plea, bool *had)
{
    const struct mw_sizing *sizing = plea->sizing;
    struct mw_sizing *settled = mw_sizing_lack_of(sizing, MW_TIER_GPU) > 0 ? settle(plea) : NULL;

    if (settled && fits_with_lacking(plea, settled))
        sizing = settled;
    *had = can_be_had(plea, sizing);
    char *text = lacking_memory(sizing);
    mw_sizing_free(settled);
    return text;
}

/* Memory of the host and drives can be had, but for a machine that is rented as it is; that of a
 * GPU comes with another one. */
char *
mw_remedy_upgrade(const struct mw_plea *plea)
{
    bool had;

    if (mw_price_kind(plea->request->hardware) == MW_PRICE_RENT)
        return NULL;
    g_autofree char *memory = needed_memory(plea, &had);
    return had && *memory ? g_strdup_printf("with %s it fits", memory) : NULL;
}

char *
mw_remedy_memory(const struct mw_plea *plea)
{
    bool had;
    g_autofree char *memory = needed_memory(plea, &had);

    return g_strdup_printf("%s with %s would fit",
                           plea->machine ? "no machine that is listed fits; one" : "a machine",
                           memory);
}
