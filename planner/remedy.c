/* "Does not fit" is an answer: what, changed in the request, would make it fit. */
#include <glib.h>
#include <math.h>
#include <stddef.h>

#include "planner/planner.h"
#include "planner/priced.h"

#define NODES_TRIED 4096

struct plea {
    const struct mw_request *request;
    const struct mw_settings *asked;
    const struct mw_sizing *sizing; /* the best that was found */
    const char *machine;            /* NULL: no other one is looked for */
};

/* The first candidate of the settings if it fits, else NULL; the caller frees it. */
static struct mw_sizing *
fitting(const struct plea *plea, const struct mw_settings *settings)
{
    struct mw_settings s;

    if (!mw_settings_resolve(plea->request, settings, &s, NULL))
        return NULL;
    g_autoptr(GPtrArray) found = mw_planner_candidates(plea->request, &s, NULL);
    struct mw_sizing *first = found ? found->pdata[0] : NULL;
    if (!first || !first->fits)
        return NULL;
    found->pdata[0] = NULL;
    return first;
}

static bool
fits(const struct plea *plea, const struct mw_settings *settings)
{
    struct mw_sizing *sizing = fitting(plea, settings);
    bool answer = sizing != NULL;

    mw_sizing_free(sizing);
    return answer;
}

/* Where a number of parts was fixed, at `offset` in the settings: another one. */
static char *
other_number(const struct plea *plea, size_t offset, const char *option)
{
    struct mw_settings s = *plea->asked;
    int64_t *number = (int64_t *)(void *)((char *)&s + offset);

    if (*number == MW_AUTO)
        return NULL;
    *number = MW_AUTO;
    struct mw_sizing *open = fitting(plea, &s);
    *number = open ? *(const int64_t *)(const void *)((const char *)&open->settings + offset) : 0;
    mw_sizing_free(open);
    return *number && fits(plea, &s)
               ? g_strdup_printf("%s %" G_GINT64_FORMAT " fits", option, *number)
               : NULL;
}

static char *
other_tiles(const struct plea *plea)
{
    return other_number(plea, offsetof(struct mw_settings, tiles), "--tiles");
}

/* Of the logits. */
static char *
other_chunks(const struct plea *plea)
{
    return other_number(plea, offsetof(struct mw_settings, logits_chunks), "--logits-chunks");
}

/* With an open batch each candidate has the largest of its placement; 0 if none fits. */
static double
largest_batch(const struct plea *plea, const struct mw_settings *settings)
{
    struct mw_settings s;
    double largest = 0;

    if (!mw_settings_resolve(plea->request, settings, &s, NULL))
        return 0;
    g_autoptr(GPtrArray) found = mw_planner_candidates(plea->request, &s, NULL);
    for (guint i = 0; found && i < found->len; i++) {
        const struct mw_sizing *sizing = found->pdata[i];
        if (sizing->fits)
            largest = fmax(largest, sizing->settings.micro_batch);
    }
    return largest;
}

static char *
smaller_batch(const struct plea *plea)
{
    struct mw_settings s = *plea->asked;

    s.micro_batch = MW_AUTO;
    s.step_tokens_max = 0;
    s.micro_batch = largest_batch(plea, &s);
    return s.micro_batch > 0 && s.micro_batch < plea->sizing->settings.micro_batch && fits(plea, &s)
               ? g_strdup_printf("--batch %.15g fits", s.micro_batch)
               : NULL;
}

static char *
another_strategy(const struct plea *plea)
{
    struct mw_settings s = *plea->asked;

    for (int strategy = plea->sizing->settings.strategy + 1; strategy < MW_STRATEGY_COUNT;
         strategy++) {
        s.strategy = strategy;
        if (fits(plea, &s))
            return g_strdup_printf("-s %s fits", mw_strategy_name(strategy));
    }
    return NULL;
}

/* Without the devices that were asked for, the planner may find room. */
static char *
free_devices(const struct plea *plea)
{
    static const char *const options[MW_STATE_COUNT] = {
        "--param-device", "--gradient-device", "--optimizer-device", "--activation-device"};
    struct mw_settings s = *plea->asked;
    g_autoptr(GString) names = g_string_new(NULL);

    for (int state = 0; state < MW_STATE_COUNT; state++) {
        if (!s.placement[state].count)
            continue;
        g_string_append_printf(names, "%s%s", names->len ? ", " : "", options[state]);
        s.placement[state].count = 0;
    }
    return names->len && fits(plea, &s) ? g_strdup_printf("without %s it fits", names->str) : NULL;
}

static char *
more_nodes(const struct plea *plea)
{
    struct mw_settings s = *plea->asked;

    if (plea->request->hardware->nic_bytes_per_s <= 0)
        return NULL;
    for (s.nodes *= 2; s.nodes <= NODES_TRIED; s.nodes *= 2)
        if (fits(plea, &s))
            return g_strdup_printf("--nodes %" G_GINT64_FORMAT " fits", s.nodes);
    return NULL;
}

/* The cheapest that is rented or bought alike; of a machine without a price, to rent. */
static char *
another_machine(const struct plea *plea)
{
    enum mw_price_kind kind = mw_price_kind(plea->request->hardware);

    if (!plea->machine)
        return NULL;
    kind = kind == MW_PRICE_NONE ? MW_PRICE_RENT : kind;
    g_autoptr(GPtrArray) machines = mw_priced_new(kind, plea->machine, MW_OUTLOOK_TYPICAL);
    for (guint i = 0; i < machines->len; i++) {
        const struct mw_priced *priced = machines->pdata[i];
        struct mw_request there = {plea->request->model, &priced->hardware};
        struct plea other = {&there, plea->asked, plea->sizing, NULL};
        if (!fits(&other, plea->asked))
            continue;
        g_autofree char *price = mw_price_text(priced->price_usd, kind);
        return g_strdup_printf("-H %s fits (%s a node)", mw_hwprofile_name(priced->profile), price);
    }
    return NULL;
}

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

/* In every tier that lacks some. */
static char *
lacking_memory(const struct mw_sizing *sizing)
{
    GString *text = g_string_new(NULL);

    for (int t = 0; t < MW_TIER_COUNT; t++) {
        const struct mw_tier_info *tier = &sizing->tiers[t];
        int64_t sum = sizing->need_bytes[t] - tier->capacity_bytes;
        int64_t one = sizing->largest_bytes[t] - tier->largest_request_bytes;
        if (sum <= 0 && one <= 0)
            continue;
        g_autofree char *more = enough_memory(MAX(sum, one));
        g_string_append_printf(text, "%s%s more %s memory%s", text->len ? ", " : "", more,
                               mw_tier_name(t), one > sum ? " in one piece" : "");
    }
    return g_string_free(text, FALSE);
}

/* Memory of the host and drives can be had; that of a GPU comes with another one. */
static char *
more_memory(const struct plea *plea)
{
    const struct mw_tier_info *gpu = &plea->sizing->tiers[MW_TIER_GPU];
    bool of_gpu = plea->sizing->need_bytes[MW_TIER_GPU] > gpu->capacity_bytes ||
                  plea->sizing->largest_bytes[MW_TIER_GPU] > gpu->largest_request_bytes;
    g_autofree char *memory = lacking_memory(plea->sizing);

    if (!of_gpu)
        return g_strdup_printf("with %s a GPU it fits", memory);
    return g_strdup_printf("%s with %s a GPU would fit",
                           plea->machine ? "no machine whose price is known; one" : "a machine",
                           memory);
}

char *
mw_planner_remedy(const struct mw_request *request, const struct mw_settings *asked,
                  const struct mw_sizing *sizing, const char *machine)
{
    static char *(*const ways[])(const struct plea *) = {
        other_chunks, other_tiles, smaller_batch,   another_strategy,
        free_devices, more_nodes,  another_machine, more_memory};
    struct mw_settings of_strategy = *asked;
    struct plea plea = {request, &of_strategy, sizing, machine};
    char *text = NULL;

    of_strategy.strategy = sizing->settings.strategy;
    for (size_t i = 0; i < G_N_ELEMENTS(ways) && !text; i++)
        text = ways[i](&plea);
    return text;
}
