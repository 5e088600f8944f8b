#include "plan/recomputed.h"

#include <stdio.h>
#include <string.h>

#include "plan/reader.h"

/* --- sets ------------------------------------------------------------------------------------ */

bool
mw_layer_set_has(const struct mw_layer_set *set, int64_t layer)
{
    return layer >= 0 && layer < MW_LAYER_SET_MAX && set->bits[layer / 64] >> layer % 64 & 1;
}

void
mw_layer_set_add(struct mw_layer_set *set, int64_t layer)
{
    set->bits[layer / 64] |= UINT64_C(1) << layer % 64;
}

int64_t
mw_layer_set_count(const struct mw_layer_set *set, int64_t begin, int64_t end)
{
    int64_t count = 0;

    begin = begin < 0 ? 0 : begin;
    end = end > MW_LAYER_SET_MAX ? MW_LAYER_SET_MAX : end;
    /* A word at a time: a search asks for every sizing, of all layers that there may be. */
    for (int64_t behind; begin < end; begin = behind) {
        behind = (begin / 64 + 1) * 64;
        behind = behind > end ? end : behind;
        count += __builtin_popcountll(set->bits[begin / 64] >> begin % 64
                                      << (64 - (behind - begin)));
    }
    return count;
}

bool
mw_layer_set_is_empty(const struct mw_layer_set *set)
{
    static const struct mw_layer_set empty;

    return !memcmp(set, &empty, sizeof empty); /* asked for every sizing, many times */
}

static const char *
read_layer(const char *text, uint64_t *layer)
{
    return text ? mw_plan_parse_digits(text, MW_LAYER_SET_MAX - 1, layer) : NULL;
}

bool
mw_layer_set_read(const char *text, struct mw_layer_set *set)
{
    uint64_t first = 0, last = 0, next = 0;

    *set = (struct mw_layer_set){{0}};
    for (const char *at = text;; at++) {
        at = read_layer(at, &first);
        last = first;
        if (at && *at == '-')
            at = read_layer(at + 1, &last);
        if (!at || first < next || last < first)
            return false;
        for (next = first; next <= last; next++)
            mw_layer_set_add(set, (int64_t)next);
        if (*at != ',')
            return !*at;
    }
}

void
mw_layer_set_write(const struct mw_layer_set *set, char text[MW_LAYER_SET_TEXT_MAX])
{
    char *at = text;

    *at = '\0';
    for (int64_t first = 0, behind; first < MW_LAYER_SET_MAX; first = behind) {
        behind = first + 1;
        if (!mw_layer_set_has(set, first))
            continue;
        while (mw_layer_set_has(set, behind))
            behind++;
        at += sprintf(at, "%s%d", at > text ? "," : "", (int)first);
        if (behind > first + 1)
            at += sprintf(at, "-%d", (int)behind - 1);
    }
}

/* --- groups ---------------------------------------------------------------------------------- */

bool
mw_recomputed_has(const struct mw_recomputed *it, int64_t layer)
{
    if (!it->interval || layer < it->begin || layer >= it->end)
        return false;
    return it->set ? mw_layer_set_has(it->set, layer) : layer < it->end - it->kept;
}

int64_t
mw_recomputed_kept(const struct mw_recomputed *it)
{
    int64_t layers = it->end - it->begin;

    if (!it->interval)
        return layers;
    return it->set ? layers - mw_layer_set_count(it->set, it->begin, it->end) : it->kept;
}

/* The first layer of the run that has the layer. */
static int64_t
run_of(const struct mw_recomputed *it, int64_t layer)
{
    if (!it->set)
        return it->begin;
    while (mw_recomputed_has(it, layer - 1))
        layer--;
    return layer;
}

int64_t
mw_recomputed_group(const struct mw_recomputed *it, int64_t layer, int64_t *behind)
{
    int64_t first = layer - (layer - run_of(it, layer)) % it->interval;

    *behind = layer + 1;
    while (*behind < first + it->interval && mw_recomputed_has(it, *behind))
        ++*behind;
    return first;
}

static void
walk(const struct mw_recomputed *it, int64_t *groups, int64_t *largest)
{
    *groups = *largest = 0;
    for (int64_t layer = it->begin, behind; layer < it->end; layer = behind) {
        behind = layer + 1;
        if (!mw_recomputed_has(it, layer))
            continue;
        mw_recomputed_group(it, layer, &behind);
        ++*groups;
        if (behind - layer > *largest)
            *largest = behind - layer;
    }
}

int64_t
mw_recomputed_groups(const struct mw_recomputed *it)
{
    int64_t groups, largest;

    if (!it->interval || it->set) {
        walk(it, &groups, &largest);
        return groups;
    }
    return (it->end - it->begin - it->kept + it->interval - 1) / it->interval;
}

int64_t
mw_recomputed_largest(const struct mw_recomputed *it)
{
    int64_t groups, largest, recomputed = it->end - it->begin - it->kept;

    if (!it->interval || it->set) {
        walk(it, &groups, &largest);
        return largest;
    }
    return recomputed < it->interval ? recomputed : it->interval;
}
