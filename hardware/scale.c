#include "hardware/scale.h"

#include <math.h>
#include <string.h>

#include "base/spell.h"

static void
scale_field(struct mw_hardware *hardware, const struct mw_profile_key *row, double factor)
{
    void *field = (char *)hardware + row->offset;
    int64_t *whole = field;
    double *real = field;

    switch (row->kind) {
    case MW_VALUE_REAL:
        *real *= factor;
        break;
    case MW_VALUE_BYTES:
        *whole = (int64_t)((double)*whole * factor);
        break;
    case MW_VALUE_COUNT:
        *whole = factor > 0 ? MAX(1, llround((double)*whole * factor)) : 0;
        break;
    case MW_VALUE_LIST:
        for (int i = 0; i < MW_MATMUL_POINTS_MAX; i++)
            real[i] *= factor;
        break;
    case MW_VALUE_FLAG:
    case MW_VALUE_CHOICE:
    case MW_VALUE_CHOICES:
    case MW_VALUE_TEXT:
        break;
    }
}

void
mw_hardware_scale_part(struct mw_hardware *hardware, enum mw_hw_part part, double factor)
{
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++)
        if (keys[i].part == part)
            scale_field(hardware, &keys[i], factor);
}

void
mw_hardware_scale_rate(struct mw_hardware *hardware, enum mw_hw_rate rate, double factor)
{
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++)
        if (keys[i].rate == rate)
            scale_field(hardware, &keys[i], factor);
}

bool
mw_hwprofile_assign(struct mw_profile *profile, const char *assignment, GString *flags)
{
    mw_spelled_append(flags, "%s{key %s}", flags->len ? " " : "", assignment);
    return mw_profile_set(profile, assignment, NULL);
}

/* Of a machine with that part all required keys are there, and more than 0. */
static bool
enlarge(struct mw_profile *profile, enum mw_hw_part part, enum mw_outlook outlook, double factor,
        GString *flags)
{
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++) {
        if (keys[i].part != part)
            continue;
        g_autofree char *assignment =
            mw_profile_scaled(profile, keys[i].group, keys[i].key, outlook, factor);
        if (assignment ? !mw_hwprofile_assign(profile, assignment, flags) : keys[i].required)
            return false;
    }
    return mw_profile_check(profile, NULL);
}

struct mw_profile *
mw_hwprofile_enlarge(const struct mw_profile *profile, enum mw_hw_part part,
                     enum mw_outlook outlook, double factor, GString *flags)
{
    struct mw_profile *enlarged = mw_profile_copy(profile);

    if (enlarge(enlarged, part, outlook, factor, flags))
        return enlarged;
    mw_profile_free(enlarged);
    return NULL;
}

char *
mw_hw_part_required(enum mw_hw_part part, const char *but)
{
    const struct mw_profile_key *last = NULL;
    GString *text = g_string_new(NULL);
    size_t count;
    const struct mw_profile_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++) {
        if (keys[i].part != part || !keys[i].required || !strcmp(keys[i].key, but))
            continue;
        if (last)
            g_string_append_printf(text, "%s%s.%s", text->len ? ", " : "", last->group, last->key);
        last = &keys[i];
    }
    if (last)
        g_string_append_printf(text, "%s%s.%s", text->len ? " and " : "", last->group, last->key);
    return g_string_free(text, FALSE);
}
