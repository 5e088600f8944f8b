/* Remedies on the same machine. */
#include <glib.h>
#include <math.h>
#include <stddef.h>

#include "base/spell.h"
#include "planner/remedy/internal.h"

/* A batch smaller by this factor is not the smallest change. */
#define FAR_FEWER 2
/* The least chunk of the optimizer step that is chosen by itself. */
#define CHUNK_LEAST (INT64_C(1) << 20)

/* The first candidate of the settings if it fits, else NULL; the caller frees it.  For auto, with
 * the strategy that lacked least. */
static struct mw_sizing *
fitting_candidate(const struct mw_unfit *unfit, const struct mw_settings *settings)
{
    struct mw_settings asked = *settings, s;

    if (asked.strategy == MW_STRATEGY_AUTO)
        asked.strategy = unfit->sizing->settings.strategy;
    if (!mw_settings_complete(unfit->request, &asked, &s, NULL))
        return NULL;
    g_autoptr(GPtrArray) found = mw_planner_fitting_candidates(unfit->request, &s);
    return found->len ? g_steal_pointer(&found->pdata[0]) : NULL;
}

/* Another number of parts, if one was requested, at `offset` in the settings. */
static char *
other_number(const struct mw_unfit *unfit, size_t offset, const char *name)
{
    struct mw_settings s = *unfit->asked;
    int64_t *number = (int64_t *)(void *)((char *)&s + offset);

    if (*number == MW_AUTO)
        return NULL;
    *number = MW_AUTO;
    struct mw_sizing *open = fitting_candidate(unfit, &s);
    *number = open ? *(const int64_t *)(const void *)((const char *)&open->settings + offset) : 0;
    mw_sizing_free(open);
    return *number && mw_remedy_fits(unfit, &s)
               ? mw_spelled_printf("{%s=%" G_GINT64_FORMAT "} fits", name, *number)
               : NULL;
}

char *
mw_remedy_tiles(const struct mw_unfit *unfit)
{
    return other_number(unfit, offsetof(struct mw_settings, tiles), "tiles");
}

/* Chunks of the logits. */
char *
mw_remedy_chunks(const struct mw_unfit *unfit)
{
    return other_number(unfit, offsetof(struct mw_settings, logits_chunks), "logits-chunks");
}

static bool
fits_with_chunk(const struct mw_unfit *unfit, int64_t params)
{
    struct mw_settings s = *unfit->asked;

    s.optimizer_chunk = params;
    return mw_remedy_fits(unfit, &s);
}

/* The largest of its halves with which it fits. */
char *
mw_remedy_smaller_chunk(const struct mw_unfit *unfit)
{
    int64_t chunk = unfit->sizing->settings.optimizer_chunk / 2;

    if (chunk < CHUNK_LEAST || !fits_with_chunk(unfit, CHUNK_LEAST))
        return NULL;
    while (chunk / 2 >= CHUNK_LEAST && !fits_with_chunk(unfit, chunk))
        chunk /= 2;
    return fits_with_chunk(unfit, chunk)
               ? mw_spelled_printf("{optimizer-chunk=%" G_GINT64_FORMAT "} fits", chunk)
               : NULL;
}

/* The most of fewer sets with which it fits. */
char *
mw_remedy_buffer_sets(const struct mw_unfit *unfit)
{
    struct mw_settings s = *unfit->asked;

    if (unfit->sizing->limiting_tier != MW_TIER_CPU ||
        !unfit->sizing->buffers[MW_BUFFER_STATE_PINNED].count)
        return NULL;
    for (s.buffer_sets--; s.buffer_sets >= 1; s.buffer_sets--)
        if (mw_remedy_fits(unfit, &s))
            return mw_spelled_printf("{buffer-sets=%" G_GINT64_FORMAT "} fits", s.buffer_sets);
    return NULL;
}

char *
mw_remedy_software(const struct mw_unfit *unfit)
{
    const struct mw_remedy_here *here = unfit->here;
    const struct mw_sizing *sizing = unfit->sizing;
    const struct mw_settings *asked = unfit->asked;
    struct mw_decoder decoder;

    if (!here || !here->own || sizing->limiting_tier != MW_TIER_CPU ||
        !sizing->beside_bytes[MW_TIER_CPU] || !mw_settings_run(asked, NULL) ||
        !mw_model_decoder(sizing->model, &decoder, NULL))
        return NULL;
    struct mw_request request = {unfit->request->model, here->own};
    struct mw_unfit own = *unfit;
    own.request = &request;
    return mw_remedy_fits(&own, asked)
               ? mw_spelled_printf(
                     "{software=%s} fits: its executor takes no more host memory than "
                     "planned",
                     here->own_name)
               : NULL;
}

char *
mw_remedy_usual_setting(const struct mw_unfit *unfit)
{
    struct mw_relaxation all, one = mw_relaxation_none(unfit);

    mw_relaxation_of_all(unfit, &all);
    for (size_t i = 0; i < MW_USUAL_COUNT; i++) {
        one.usual = all.usual & (1U << i);
        struct mw_settings s = mw_relaxation_apply(unfit->asked, &one);
        if (one.usual && mw_remedy_fits(unfit, &s))
            return mw_relaxation_text(unfit, &one, "", NULL);
    }
    return NULL;
}

/* It costs no time.  Frameworks place buffers by allocators of their own. */
char *
mw_remedy_shared_slots(const struct mw_unfit *unfit)
{
    struct mw_settings s = *unfit->asked;

    if (s.share_slots != MW_SHARE_NONE || unfit->request->hardware->memory_use.bytes_per_logit > 0)
        return NULL;
    s.share_slots = MW_SHARE_ALL;
    return mw_remedy_fits(unfit, &s) ? mw_spelled("{share-slots=on} fits") : NULL;
}

/* A strategy without offload can move only checkpoints. */
char *
mw_remedy_checkpoints(const struct mw_unfit *unfit)
{
    struct mw_settings s = *unfit->asked;
    struct mw_placement *placement = &s.placement[MW_STATE_ACTIVATIONS];

    if (placement->count && placement->part[placement->count - 1].tier != MW_TIER_GPU)
        return NULL;
    for (int tier = MW_TIER_CPU; tier < MW_TIER_COUNT; tier++) {
        *placement = (struct mw_placement){.count = 1, .part = {{tier, INT64_MAX, 0}}};
        if (mw_remedy_fits(unfit, &s))
            return mw_spelled_printf("{activation-device=%s} fits", mw_tier_name(tier));
    }
    return NULL;
}

/* With an open batch each candidate has the largest batch of its placement; 0 if none fits. */
static double
largest_batch_with(const struct mw_unfit *unfit, const struct mw_settings *settings,
                   enum mw_strategy strategy)
{
    struct mw_settings asked = *settings, s;
    double largest = 0;

    asked.strategy = strategy;
    if (!mw_settings_complete(unfit->request, &asked, &s, NULL))
        return 0;
    g_autoptr(GPtrArray) found = mw_planner_fitting_candidates(unfit->request, &s);
    for (guint i = 0; i < found->len; i++)
        largest = fmax(largest, ((const struct mw_sizing *)found->pdata[i])->settings.micro_batch);
    return largest;
}

static double
largest_batch(const struct mw_unfit *unfit, const struct mw_settings *settings)
{
    const struct mw_strategies strategies = mw_strategies_of(settings->strategy);
    double largest = 0;

    for (int i = 0; i < strategies.count; i++)
        largest = fmax(largest, largest_batch_with(unfit, settings, strategies.one[i]));
    return largest;
}

double
mw_remedy_fewer_sequences(const struct mw_unfit *unfit, const struct mw_settings *settings)
{
    struct mw_settings s = *settings;

    if (s.micro_batch == MW_AUTO)
        return 0;
    s.micro_batch = MW_AUTO;
    s.step_tokens_max = 0;
    s.micro_batch = fmin(settings->micro_batch, largest_batch(unfit, &s));
    return s.micro_batch > 0 && mw_remedy_fits(unfit, &s) ? s.micro_batch : 0;
}

struct mw_settings
mw_remedy_least_batch(const struct mw_settings *settings)
{
    struct mw_settings s = *settings;

    if (s.micro_batch != MW_AUTO)
        s.micro_batch = fmin(s.micro_batch, 1.0 / (double)mw_settings_sharers(&s));
    return s;
}

/* If far fewer sequences remain, a strategy that keeps them all comes first, if there is one. */
char *
mw_remedy_smaller_batch(const struct mw_unfit *unfit)
{
    struct mw_relaxation changes = mw_relaxation_none(unfit);
    double batch = mw_remedy_fewer_sequences(unfit, unfit->asked);

    if (batch <= 0)
        return NULL;
    changes.batch = batch;
    char *fewer = mw_relaxation_text(unfit, &changes, "", NULL);
    g_autofree char *all =
        batch * FAR_FEWER < unfit->asked->micro_batch ? mw_remedy_strategy(unfit) : NULL;
    if (!all)
        return fewer;
    char *text = g_strdup_printf("%s, %s", all, fewer);
    g_free(fewer);
    return text;
}

char *
mw_remedy_strategy(const struct mw_unfit *unfit)
{
    const struct mw_strategies others = mw_strategies_beyond(unfit->asked->strategy);
    g_autoptr(GString) kept = g_string_new(NULL);

    for (int i = 0; i < others.count; i++)
        if (mw_remedy_fits_with(unfit->request, unfit->asked, others.one[i])) {
            mw_remedy_keep_software(unfit, others.one[i], unfit->asked->tp, kept);
            return mw_spelled_printf("{strategy=%s} %sfits", mw_strategy_name(others.one[i]),
                                     kept->str);
        }
    return NULL;
}

/* Without the requested placements, the planner may find room. */
char *
mw_remedy_free_devices(const struct mw_unfit *unfit)
{
    struct mw_relaxation all, changes = mw_relaxation_none(unfit);

    mw_relaxation_of_all(unfit, &all);
    changes.free_devices = all.free_devices;
    return changes.free_devices && mw_relaxation_minimize(unfit, &changes)
               ? mw_relaxation_text(unfit, &changes, "", NULL)
               : NULL;
}

/* A requested strategy comes first. */
char *
mw_remedy_several_settings(const struct mw_unfit *unfit)
{
    struct mw_relaxation changes;

    return mw_relaxation_of_all(unfit, &changes) && mw_relaxation_minimize(unfit, &changes)
               ? mw_relaxation_text(unfit, &changes, "", NULL)
               : NULL;
}
