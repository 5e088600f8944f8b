#include "hardware/enlarge.h"

#include <string.h>

#define KEYS_MAX 10

/* What grows with the number of parts; the first must be there. */
static const struct {
    const char *group, *keys[KEYS_MAX];
} rows[] = {
    {"host", {"memory_gib", "largest_request_gib"}},
    {"nvme",
     {"capacity_tb", "drives", "read_gb_per_s", "write_gb_per_s", "write_burst_gb_per_s",
      "cache_gb", "queue_depth", "endurance_tbw", "price_usd"}},
};

bool
mw_hwprofile_assign(struct mw_hwprofile *profile, const char *assignment, GString *flags)
{
    g_string_append_printf(flags, "%s--set %s", flags->len ? " " : "", assignment);
    return mw_hwprofile_set(profile, assignment, NULL);
}

static bool
scale(struct mw_hwprofile *profile, size_t row, enum mw_outlook outlook, double factor,
      GString *flags)
{
    for (const char *const *key = rows[row].keys; *key; key++) {
        g_autofree char *assignment =
            mw_hwprofile_scaled(profile, rows[row].group, *key, outlook, factor);
        if (assignment ? !mw_hwprofile_assign(profile, assignment, flags) : key == rows[row].keys)
            return false;
    }
    return mw_hwprofile_check(profile, NULL);
}

struct mw_hwprofile *
mw_hwprofile_enlarge(const struct mw_hwprofile *profile, const char *group, enum mw_outlook outlook,
                     double factor, GString *flags)
{
    struct mw_hwprofile *enlarged = mw_hwprofile_copy(profile);

    for (size_t row = 0; row < G_N_ELEMENTS(rows); row++)
        if (!strcmp(rows[row].group, group) && scale(enlarged, row, outlook, factor, flags))
            return enlarged;
    mw_hwprofile_free(enlarged);
    return NULL;
}
