/* Changes of several settings at once: finds those that are needed, and words the request for
 * them. */
#include <glib.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/spell.h"
#include "planner/remedy/internal.h"

#define FIELD(field) offsetof(struct mw_settings, field), sizeof(((struct mw_settings *)0)->field)

/* Settings that can take more memory than their usual value: whole numbers and choices; the last
 * one is for the other extents of durable steps. */
static const struct {
    const char *as;      /* the setting that restores the usual value */
    size_t offset, size; /* in struct mw_settings */
    int64_t usual;
} usual[] = {
    {"{activation-checkpoint-interval=1} ", FIELD(checkpoint_interval), 1},
    {"{optimizer-chunk=auto} ", FIELD(optimizer_chunk), MW_AUTO},
    {"{buffer-sets=3} ", FIELD(buffer_sets), 3},
    {"{prefetch=1} ", FIELD(prefetch), 1},
    {"{param-loads=3} ", FIELD(param_loads), 3},
    {"{partition=bandwidth} ", FIELD(partition), MW_PARTITION_BANDWIDTH},
    {"{dpu-start=none} ", FIELD(dpu_start), MW_AUTO},
    {"{shard-group=all} ", FIELD(shard_group), MW_SHARD_ALL},
    {"{state-layout=zero16} ", FIELD(layout), MW_LAYOUT_ZERO16},
    {"{save-every=0} ", FIELD(save_every), 0},
    {"{commit=none} ", FIELD(commit), 0},
};
G_STATIC_ASSERT(G_N_ELEMENTS(usual) == MW_USUAL_COUNT);

static const char *const devices[MW_STATE_COUNT] = {"{param-device}", "{gradient-device}",
                                                    "{optimizer-device}", "{activation-device}"};

static int64_t
number_of(const struct mw_settings *s, size_t which)
{
    const char *field = (const char *)s + usual[which].offset;
    int64_t number;
    int choice;

    if (usual[which].size == sizeof number) {
        memcpy(&number, field, sizeof number);
        return number;
    }
    memcpy(&choice, field, sizeof choice);
    return choice;
}

/* Sets it to its default; whether it was requested and differs. */
static bool
reset_to_usual(struct mw_settings *s, size_t which)
{
    char *field = (char *)s + usual[which].offset;
    int choice = (int)usual[which].usual;
    struct mw_settings open;

    mw_settings_init(&open);
    if (number_of(s, which) == number_of(&open, which) || number_of(s, which) == usual[which].usual)
        return false;
    if (usual[which].offset == offsetof(struct mw_settings, prefetch))
        mw_settings_set_prefetch(s, usual[which].usual);
    else if (usual[which].size == sizeof usual[which].usual)
        memcpy(field, &usual[which].usual, sizeof usual[which].usual);
    else
        memcpy(field, &choice, sizeof choice);
    return true;
}

/* Opens the placement of all states; whether any was requested. */
static bool
open_devices(struct mw_settings *s)
{
    bool any = false;

    for (int state = 0; state < MW_STATE_COUNT; state++) {
        any = any || s->placement[state].count > 0;
        s->placement[state].count = 0;
    }
    return any;
}

struct mw_relaxation
mw_relaxation_none(const struct mw_unfit *unfit)
{
    return (struct mw_relaxation){unfit->asked->strategy, MW_AUTO, MW_AUTO, 0, false};
}

struct mw_settings
mw_relaxation_apply(const struct mw_settings *asked, const struct mw_relaxation *changes)
{
    struct mw_settings s = *asked;

    s.strategy = changes->strategy;
    if (changes->batch != MW_AUTO)
        s.micro_batch = changes->batch;
    if (changes->tp != MW_AUTO)
        s.tp = changes->tp;
    for (size_t i = 0; i < G_N_ELEMENTS(usual); i++)
        if (changes->usual & (1U << i))
            reset_to_usual(&s, i);
    if (changes->free_devices)
        open_devices(&s);
    return s;
}

bool
mw_relaxation_of_all(const struct mw_unfit *unfit, struct mw_relaxation *changes)
{
    struct mw_settings s = *unfit->asked;

    *changes = mw_relaxation_none(unfit);
    changes->strategy = MW_STRATEGY_AUTO;
    for (size_t i = 0; i < G_N_ELEMENTS(usual); i++)
        changes->usual |= reset_to_usual(&s, i) ? 1U << i : 0;
    changes->free_devices = open_devices(&s);
    return unfit->asked->strategy != MW_STRATEGY_AUTO || changes->usual || changes->free_devices;
}

/* --- which changes are needed ----------------------------------------------------------------- */

static bool
fits(const struct mw_unfit *unfit, const struct mw_relaxation *changes)
{
    struct mw_settings s = mw_relaxation_apply(unfit->asked, changes);

    return mw_remedy_fits(unfit, &s);
}

/* Whether it fits, with fewer sequences if needed. */
static bool
fits_with_fewer_sequences(const struct mw_unfit *unfit, struct mw_relaxation *changes)
{
    if (fits(unfit, changes))
        return true;
    struct mw_settings s = mw_relaxation_apply(unfit->asked, changes);
    double batch = mw_remedy_fewer_sequences(unfit, &s);
    changes->batch = batch > 0 ? batch : MW_AUTO;
    return batch > 0;
}

/* Chooses the requested strategy if it keeps the batch, else the first one that does, else the
 * first with the most sequences. */
static bool
choose_strategy(const struct mw_unfit *unfit, struct mw_relaxation *changes)
{
    const struct mw_strategies all = mw_strategies_of(MW_STRATEGY_AUTO);
    struct mw_relaxation best = {.batch = 0};

    for (int i = -1; i < all.count; i++) {
        struct mw_relaxation one = *changes;
        one.strategy = i < 0 ? unfit->asked->strategy : all.one[i];
        if ((i >= 0 && one.strategy == unfit->asked->strategy) ||
            !fits_with_fewer_sequences(unfit, &one))
            continue;
        if (one.batch == MW_AUTO) {
            *changes = one;
            return true;
        }
        if (one.batch > best.batch)
            best = one;
    }
    if (best.batch > 0)
        *changes = best;
    return best.batch > 0;
}

static void
drop_needless(const struct mw_unfit *unfit, struct mw_relaxation *changes)
{
    struct mw_relaxation less = *changes;

    less.free_devices = false;
    if (changes->free_devices && fits(unfit, &less))
        *changes = less;
    for (size_t i = 0; i < G_N_ELEMENTS(usual); i++) {
        less = *changes;
        less.usual &= ~(1U << i);
        if (less.usual != changes->usual && fits(unfit, &less))
            *changes = less;
    }
}

bool
mw_relaxation_minimize(const struct mw_unfit *unfit, struct mw_relaxation *changes)
{
    bool open = changes->strategy == MW_STRATEGY_AUTO && unfit->asked->strategy != MW_STRATEGY_AUTO;

    if (!(open ? choose_strategy(unfit, changes) : fits_with_fewer_sequences(unfit, changes)))
        return false;
    drop_needless(unfit, changes);
    return true;
}

/* --- the wording ------------------------------------------------------------------------------ */

char *
mw_batch_per_group(const struct mw_settings *settings, double batch)
{
    if (batch == MW_AUTO || batch == floor(batch))
        return NULL;
    return g_strdup_printf("batch %.15g per group of %" G_GINT64_FORMAT " GPUs",
                           batch * (double)mw_settings_sharers(settings),
                           mw_settings_sharers(settings));
}

/* Names the placements that are given up, by options or by keys of a file, one of which may place
 * two states.  g_free it. */
static char *
devices_given_up(const struct mw_settings *asked)
{
    GString *names = g_string_new(NULL);
    const char *last = NULL;

    for (int state = 0; state < MW_STATE_COUNT; state++) {
        const char *key = asked->device_key[state];
        if (!asked->placement[state].count || (key && key == last))
            continue;
        g_autofree char *device = mw_spelled(devices[state]);
        g_string_append_printf(names, "%s%s", names->len ? ", " : "", key ? key : device);
        last = key;
    }
    return g_string_free(names, FALSE);
}

void
mw_remedy_take_software(struct mw_hardware *hardware, const struct mw_hardware *from)
{
    hardware->memory_use = from->memory_use;
    hardware->swaps_gradients = from->swaps_gradients;
    hardware->reduces_at_end = from->reduces_at_end;
    hardware->all_reduces_at_end = from->all_reduces_at_end;
    hardware->stage_scatter = from->stage_scatter;
}

void
mw_remedy_keep_software(const struct mw_unfit *unfit, enum mw_strategy strategy, int64_t tp,
                        GString *text)
{
    const struct mw_remedy_here *here = unfit->here;
    struct mw_settings settings = *unfit->asked;

    settings.strategy = strategy;
    settings.tp = tp;
    if (here && here->software && strcmp(here->software, here->default_software(&settings)))
        mw_spelled_append(text, "{software=%s} ", here->software);
}

char *
mw_relaxation_text(const struct mw_unfit *unfit, const struct mw_relaxation *changes,
                   const char *between, const char *price)
{
    GString *text = g_string_new(NULL);
    struct mw_settings changed = mw_relaxation_apply(unfit->asked, changes);
    g_autofree char *group = mw_batch_per_group(&changed, changes->batch);

    if (changes->strategy != unfit->asked->strategy)
        mw_spelled_append(text, "{strategy=%s} ", mw_strategy_name(changes->strategy));
    for (size_t i = 0; i < G_N_ELEMENTS(usual); i++)
        if (changes->usual & (1U << i)) {
            g_autofree char *as = mw_spelled(usual[i].as);
            g_string_append(text, as);
        }
    g_string_append(text, between);
    if (changes->tp != MW_AUTO)
        mw_spelled_append(text, "{tp=%" G_GINT64_FORMAT "} ", changes->tp);
    if (changes->batch != MW_AUTO)
        mw_spelled_append(text, "{batch=%.15g} ", changes->batch);
    mw_remedy_keep_software(unfit, changes->strategy, changed.tp, text);
    if (changes->free_devices) {
        g_autofree char *names = devices_given_up(unfit->asked);
        g_string_append_printf(text, "without %s %s", names, text->len ? "" : "it ");
    }
    g_string_append(text, "fits");
    if (price || group)
        g_string_append_printf(text, " (%s%s%s)", price ? price : "", price && group ? "; " : "",
                               group ? group : "");
    return g_string_free(text, FALSE);
}
