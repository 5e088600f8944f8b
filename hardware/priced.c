#include "hardware/priced.h"

#include <math.h>
#include <string.h>

enum mw_price_kind
mw_price_kind(const struct mw_hardware *hardware)
{
    return hardware->price_usd_per_hour > 0 ? MW_PRICE_RENT
           : hardware->price_usd > 0        ? MW_PRICE_OWN
                                            : MW_PRICE_NONE;
}

double
mw_price_usd(const struct mw_hardware *hardware, enum mw_price_kind kind)
{
    return kind == MW_PRICE_RENT  ? hardware->price_usd_per_hour
           : kind == MW_PRICE_OWN ? hardware->price_usd
                                  : 0;
}

char *
mw_price_text(double price_usd, enum mw_price_kind kind)
{
    if (kind == MW_PRICE_NONE)
        return g_strdup("no price known");
    bool millions = price_usd >= 0.9995e6;
    double value = millions ? price_usd / 1e6 : price_usd;
    double step = value > 0 ? pow(10, floor(log10(value)) - 2) : 1;
    double rounded = round(value / step) * step; /* 9.996 has a digit more before the point */
    int decimals = rounded > 0 ? MAX(0, 2 - (int)floor(log10(rounded) + 1e-9)) : 0;

    return g_strdup_printf("%.*f%s USD%s", decimals, rounded, millions ? "M" : "",
                           kind == MW_PRICE_RENT ? " an hour" : "");
}

static void
free_priced(void *data)
{
    struct mw_priced *priced = data;

    mw_profile_free(priced->profile);
    g_free(priced);
}

/* A rent that is not published as such is one of GPUs: the host around them may be another. */
static bool
is_offered(const struct mw_profile *profile, enum mw_price_kind kind)
{
    const char *source = NULL;
    enum mw_provenance provenance = mw_profile_provenance(
        profile, "node", kind == MW_PRICE_RENT ? "price_usd_per_hour" : "price_usd", &source);

    return source && *source &&
           (kind == MW_PRICE_RENT ? provenance >= MW_PROVENANCE_PUBLISHED
                                  : !mw_hwprofile_is_discontinued(profile));
}

static int
compare_prices(const void *a, const void *b)
{
    const struct mw_priced *x = *(void *const *)a, *y = *(void *const *)b;
    double x_bytes = x->hardware.gpu_memory_bytes * x->hardware.gpus_per_node;
    double y_bytes = y->hardware.gpu_memory_bytes * y->hardware.gpus_per_node;

    if (x->price_usd != y->price_usd)
        return x->price_usd < y->price_usd ? -1 : 1;
    if (x_bytes != y_bytes)
        return x_bytes < y_bytes ? -1 : 1;
    return strcmp(mw_profile_name(x->profile), mw_profile_name(y->profile));
}

#define RENT "price_usd_per_hour"

/* Whether no line of the text gives a rent: what is rented is not owned, whatever else it says.
 * Most profiles are of rented machines, and parsing them takes longer than all else here. */
static bool
gives_no_rent(const char *text)
{
    for (const char *at = strstr(text, RENT); at; at = strstr(at + 1, RENT)) {
        const char *behind = at + strlen(RENT);
        behind += strspn(behind, " \t");
        if ((at == text || at[-1] == '\n') && *behind == '=' &&
            g_ascii_strtod(behind + 1, NULL) > 0)
            return false;
    }
    return true;
}

GPtrArray *
mw_priced_new(enum mw_price_kind kind, const char *except, enum mw_outlook outlook)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(free_priced);
    g_auto(GStrv) names = mw_hwprofile_list();
    g_autoptr(GPtrArray) profiles = mw_profile_load_some(
        &mw_hwprofile_kind, names, kind == MW_PRICE_OWN ? gives_no_rent : NULL);

    for (guint i = 0; i < profiles->len; i++) {
        struct mw_priced priced = {.profile = profiles->pdata[i]};
        if (!g_strcmp0(mw_profile_name(priced.profile), except) ||
            mw_profile_gives(priced.profile, "profile", "only_simulated"))
            continue;
        priced.hardware = mw_hwprofile_read(priced.profile, outlook);
        priced.price_usd = mw_price_usd(&priced.hardware, kind);
        if (mw_price_kind(&priced.hardware) == kind &&
            (kind == MW_PRICE_NONE || is_offered(priced.profile, kind))) {
            profiles->pdata[i] = NULL;
            g_ptr_array_add(list, g_memdup2(&priced, sizeof priced));
        }
    }
    g_ptr_array_sort(list, compare_prices);
    return list;
}
