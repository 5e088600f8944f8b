/* A profile as one flat reading in SI units, its provenance, and its text. */
#include <math.h>
#include <string.h>

#include "base/format.h"
#include "profile/internal.h"

static double
pick(const struct mw_profile_value *value, const struct mw_profile_key *row,
     enum mw_outlook outlook)
{
    if (value->count != 3)
        return value->number[0];
    if (outlook == MW_OUTLOOK_TYPICAL)
        return value->number[1];
    /* The slow end is the small bandwidth, but the large latency. */
    return value->number[(outlook == MW_OUTLOOK_LOW) == (row->better > 0) ? 0 : 2];
}

static void
store_list(void *out, const struct mw_profile_value *value, const struct mw_profile_key *row)
{
    double *list = (double *)(void *)((char *)out + row->offset);

    for (int i = 0; i < value->count; i++)
        list[i] = value->number[i] * row->scale;
}

static void
store_choices(void *out, const struct mw_profile_value *value, const struct mw_profile_key *row)
{
    int *list = (int *)(void *)((char *)out + row->offset);

    for (int i = 0; i < MW_PROFILE_LIST_MAX; i++)
        list[i] = i < value->count ? (int)value->number[i] : -1;
}

static void
store(void *out, const struct mw_profile_value *value, const struct mw_profile_key *row,
      enum mw_outlook outlook)
{
    void *field = (char *)out + row->offset;
    double number = pick(value, row, outlook);

    switch (row->kind) {
    case MW_VALUE_REAL:
        *(double *)field = number * row->scale;
        break;
    case MW_VALUE_COUNT:
    case MW_VALUE_BYTES:
        *(int64_t *)field = (int64_t)round(number * row->scale);
        break;
    case MW_VALUE_FLAG:
        *(bool *)field = number != 0;
        break;
    case MW_VALUE_CHOICE:
        *(int *)field = (int)number;
        break;
    case MW_VALUE_CHOICES:
        store_choices(out, value, row);
        break;
    case MW_VALUE_LIST:
        store_list(out, value, row);
        break;
    case MW_VALUE_TEXT:
        break;
    }
}

int
mw_profile_list_end(const struct mw_profile_key *row)
{
    if (row->kind != MW_VALUE_LIST)
        return 0;
    return g_str_has_suffix(row->key, "_low") ? -1 : g_str_has_suffix(row->key, "_high") ? 1 : 0;
}

/* The three lists of a range share a field; the two ends apply to their own outlook only. */
static bool
applies(const struct mw_profile_key *row, enum mw_outlook outlook)
{
    int end = mw_profile_list_end(row);

    return !end || outlook == (end < 0 ? MW_OUTLOOK_LOW : MW_OUTLOOK_HIGH);
}

void
mw_profile_store_without(const struct mw_profile *profile, const char *group,
                         enum mw_outlook outlook, void *out)
{
    const struct mw_profile_kind *kind = profile->kind;

    for (size_t i = 0; i < kind->key_count; i++)
        if (profile->value[i].given && applies(&kind->keys[i], outlook) &&
            g_strcmp0(kind->keys[i].group, group))
            store(out, &profile->value[i], &kind->keys[i], outlook);
}

void
mw_profile_store(const struct mw_profile *profile, enum mw_outlook outlook, void *out)
{
    mw_profile_store_without(profile, NULL, outlook, out);
}

static bool
has_end(const struct mw_profile *profile, size_t key, enum mw_outlook outlook)
{
    const struct mw_profile_key *row = &profile->kind->keys[key];
    const struct mw_profile_value *value = &profile->value[key];
    int end = outlook == MW_OUTLOOK_LOW ? -1 : 1;

    return value->given &&
           (mw_profile_list_end(row) == end ||
            (row->kind == MW_VALUE_REAL && value->count == 3 &&
             (value->number[1] > value->number[0] || value->number[2] > value->number[1])));
}

size_t
mw_profile_next_range(const struct mw_profile *profile, size_t from, enum mw_outlook outlook)
{
    while (from < profile->kind->key_count && !has_end(profile, from, outlook))
        from++;
    return from;
}

void
mw_profile_store_key(const struct mw_profile *profile, size_t key, enum mw_outlook outlook,
                     void *out)
{
    store(out, &profile->value[key], &profile->kind->keys[key], outlook);
}

int
mw_profile_list_length(const struct mw_profile *profile, const char *group, const char *key)
{
    return mw_profile_value_of(profile, group, key)->count;
}

bool
mw_profile_has_range(const struct mw_profile *profile)
{
    const struct mw_profile_key *keys = profile->kind->keys;

    for (size_t i = 0; i < profile->kind->key_count; i++) {
        const struct mw_profile_value *value = &profile->value[i];
        bool is_end = !applies(&keys[i], MW_OUTLOOK_TYPICAL);

        if (value->given && is_end)
            return true;
        if (keys[i].kind == MW_VALUE_REAL && value->count == 3 &&
            value->number[0] < value->number[2])
            return true;
    }
    return false;
}

enum mw_provenance
mw_profile_provenance(const struct mw_profile *profile, const char *group, const char *key,
                      const char **source)
{
    int row = mw_profile_find_key(profile->kind, group, key);

    if (source)
        *source = row < 0 ? NULL : profile->value[row].source;
    return row < 0 ? MW_PROVENANCE_ESTIMATE : profile->value[row].provenance;
}

bool
mw_profile_gives(const struct mw_profile *profile, const char *group, const char *key)
{
    int row = mw_profile_find_key(profile->kind, group, key);

    return row >= 0 && profile->value[row].given;
}

bool
mw_profile_is_set(const struct mw_profile *profile, const char *group, const char *key)
{
    int row = mw_profile_find_key(profile->kind, group, key);

    return row >= 0 && mw_profile_value_is_set(&profile->value[row]);
}

enum mw_provenance
mw_profile_worst_provenance(const struct mw_profile *profile)
{
    enum mw_provenance worst = MW_PROVENANCE_MEASURED;
    const struct mw_profile_key *keys = profile->kind->keys;

    for (size_t i = 0; i < profile->kind->key_count; i++)
        if (keys[i].better && profile->value[i].given)
            worst = MIN(worst, profile->value[i].provenance);
    return worst;
}

static void
print_value(FILE *out, const struct mw_profile_value *value, const struct mw_profile_key *row)
{
    g_autofree char *text = mw_profile_value_text(value, row);

    g_autofree char *shown = mw_one_line(text);
    fprintf(out, "%s = %s\n", row->key, shown);
    if (!value->source)
        return;
    g_autofree char *source = mw_one_line(value->source);
    fprintf(out, "%s.source = %s: %s\n", row->key, mw_provenance_name(value->provenance), source);
}

void
mw_profile_print(FILE *out, const struct mw_profile *profile)
{
    const struct mw_profile_key *keys = profile->kind->keys;
    const char *group = "";

    for (size_t i = 0; i < profile->kind->key_count; i++) {
        if (!profile->value[i].given)
            continue;
        if (strcmp(group, keys[i].group))
            fprintf(out, "%s[%s]\n", *group ? "\n" : "", keys[i].group);
        group = keys[i].group;
        print_value(out, &profile->value[i], &keys[i]);
    }
}
