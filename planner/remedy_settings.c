/* What would make it fit on the same machine. */
#include <glib.h>
#include <math.h>
#include <stddef.h>

#include "planner/remedy_internal.h"

/* The first candidate of the settings if it fits, else NULL; the caller frees it.  Of auto, with
 * the strategy that lacked least. */
static struct mw_sizing *
fitting(const struct mw_plea *plea, const struct mw_settings *settings)
{
    struct mw_settings asked = *settings, s;

    if (asked.strategy == MW_STRATEGY_AUTO)
        asked.strategy = plea->sizing->settings.strategy;
    if (!mw_settings_resolve(plea->request, &asked, &s, NULL))
        return NULL;
    g_autoptr(GPtrArray) found = mw_planner_fitting(plea->request, &s);
    return found->len ? g_steal_pointer(&found->pdata[0]) : NULL;
}

/* Where a number of parts was fixed, at `offset` in the settings: another one. */
static char *
other_number(const struct mw_plea *plea, size_t offset, const char *option)
{
    struct mw_settings s = *plea->asked;
    int64_t *number = (int64_t *)(void *)((char *)&s + offset);

    if (*number == MW_AUTO)
        return NULL;
    *number = MW_AUTO;
    struct mw_sizing *open = fitting(plea, &s);
    *number = open ? *(const int64_t *)(const void *)((const char *)&open->settings + offset) : 0;
    mw_sizing_free(open);
    return *number && mw_plea_fits(plea, &s)
               ? g_strdup_printf("%s %" G_GINT64_FORMAT " fits", option, *number)
               : NULL;
}

char *
mw_remedy_tiles(const struct mw_plea *plea)
{
    return other_number(plea, offsetof(struct mw_settings, tiles), "--tiles");
}

/* Of the logits. */
char *
mw_remedy_chunks(const struct mw_plea *plea)
{
    return other_number(plea, offsetof(struct mw_settings, logits_chunks), "--logits-chunks");
}

/* What may be asked for and takes memory that the usual does not; the last, of a durable step the
 * other extents. */
static const struct {
    const char *option;
    size_t offset; /* in struct mw_settings, of an int64_t */
    int64_t usual;
} usual[] = {
    {"--activation-checkpoint-interval 1", offsetof(struct mw_settings, checkpoint_interval), 1},
    {"--optimizer-chunk auto", offsetof(struct mw_settings, optimizer_chunk), MW_AUTO},
    {"--buffer-sets 3", offsetof(struct mw_settings, buffer_sets), 3},
    {"--prefetch 1", offsetof(struct mw_settings, prefetch), 1},
    {"--commit none", 0, 0},
};
#define COMMIT (G_N_ELEMENTS(usual) - 1)
#define ALL_USUAL ((1U << G_N_ELEMENTS(usual)) - 1)

/* Whether it was not what it usually is. */
static bool
make_usual(struct mw_settings *s, size_t which)
{
    int64_t *number = (int64_t *)(void *)((char *)s + usual[which].offset);

    if (which == COMMIT) {
        bool commits = s->commit == 1;
        s->commit = commits ? 0 : s->commit;
        return commits;
    }
    if (*number == MW_AUTO || *number == usual[which].usual)
        return false;
    *number = usual[which].usual;
    return true;
}

char *
mw_remedy_usual_setting(const struct mw_plea *plea)
{
    for (size_t i = 0; i < G_N_ELEMENTS(usual); i++) {
        struct mw_settings s = *plea->asked;
        if (make_usual(&s, i) && mw_plea_fits(plea, &s))
            return g_strdup_printf("%s fits", usual[i].option);
    }
    return NULL;
}

/* With an open batch each candidate has the largest of its placement; 0 if none fits. */
static double
largest_batch_with(const struct mw_plea *plea, const struct mw_settings *settings,
                   enum mw_strategy strategy)
{
    struct mw_settings asked = *settings, s;
    double largest = 0;

    asked.strategy = strategy;
    if (!mw_settings_resolve(plea->request, &asked, &s, NULL))
        return 0;
    g_autoptr(GPtrArray) found = mw_planner_fitting(plea->request, &s);
    for (guint i = 0; i < found->len; i++)
        largest = fmax(largest, ((const struct mw_sizing *)found->pdata[i])->settings.micro_batch);
    return largest;
}

static double
largest_batch(const struct mw_plea *plea, const struct mw_settings *settings)
{
    double largest = 0;

    if (settings->strategy != MW_STRATEGY_AUTO)
        return largest_batch_with(plea, settings, settings->strategy);
    for (int s = MW_STRATEGY_DDP; s < MW_STRATEGY_COUNT; s++)
        largest = fmax(largest, largest_batch_with(plea, settings, s));
    return largest;
}

double
mw_plea_fewer_sequences(const struct mw_plea *plea, const struct mw_settings *settings)
{
    struct mw_settings s = *settings;

    if (s.micro_batch == MW_AUTO)
        return 0;
    s.micro_batch = MW_AUTO;
    s.step_tokens_max = 0;
    s.micro_batch = fmin(settings->micro_batch, largest_batch(plea, &s));
    return s.micro_batch > 0 && mw_plea_fits(plea, &s) ? s.micro_batch : 0;
}

char *
mw_remedy_smaller_batch(const struct mw_plea *plea)
{
    double batch = mw_plea_fewer_sequences(plea, plea->asked);

    return batch > 0 ? g_strdup_printf("--batch %.15g fits", batch) : NULL;
}

char *
mw_remedy_strategy(const struct mw_plea *plea)
{
    enum mw_strategy asked = plea->asked->strategy;

    if (asked == MW_STRATEGY_AUTO)
        return NULL;
    for (int strategy = asked + 1; strategy < MW_STRATEGY_COUNT; strategy++)
        if (mw_plea_fits_with(plea->request, plea->asked, strategy))
            return g_strdup_printf("-s %s fits", mw_strategy_name(strategy));
    return NULL;
}

/* Without the devices that were asked for, the planner may find room. */
char *
mw_remedy_free_devices(const struct mw_plea *plea)
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
    if (!names->len)
        return NULL;
    if (mw_plea_fits(plea, &s))
        return g_strdup_printf("without %s it fits", names->str);
    double batch = mw_plea_fewer_sequences(plea, &s);
    return batch > 0 ? g_strdup_printf("--batch %.15g without %s fits", batch, names->str) : NULL;
}

/* Changes of several settings at once. */
struct changes {
    enum mw_strategy strategy;
    double batch;   /* MW_AUTO: as asked */
    unsigned usual; /* a bit for each row of the table */
};

static struct mw_settings
changed(const struct mw_plea *plea, const struct changes *changes)
{
    struct mw_settings s = *plea->asked;

    s.strategy = changes->strategy;
    if (changes->batch != MW_AUTO)
        s.micro_batch = changes->batch;
    for (size_t i = 0; i < G_N_ELEMENTS(usual); i++)
        if (changes->usual & (1U << i))
            make_usual(&s, i);
    return s;
}

static bool
fits_changed(const struct mw_plea *plea, const struct changes *changes)
{
    struct mw_settings s = changed(plea, changes);

    return mw_plea_fits(plea, &s);
}

/* With fewer sequences, where it takes that. */
static bool
fits_with_strategy(const struct mw_plea *plea, struct changes *changes)
{
    if (fits_changed(plea, changes))
        return true;
    struct mw_settings s = changed(plea, changes);
    double batch = mw_plea_fewer_sequences(plea, &s);
    changes->batch = batch > 0 ? batch : MW_AUTO;
    return batch > 0;
}

static void
drop_needless(const struct mw_plea *plea, struct changes *changes)
{
    for (size_t i = 0; i < G_N_ELEMENTS(usual); i++) {
        struct mw_settings s = *plea->asked;
        struct changes less = *changes;
        less.usual &= ~(1U << i);
        if (!make_usual(&s, i) || fits_changed(plea, &less))
            *changes = less;
    }
}

static char *
changes_text(const struct mw_plea *plea, const struct changes *changes)
{
    GString *text = g_string_new(NULL);

    if (changes->strategy != plea->asked->strategy)
        g_string_append_printf(text, "-s %s ", mw_strategy_name(changes->strategy));
    for (size_t i = 0; i < G_N_ELEMENTS(usual); i++)
        if (changes->usual & (1U << i))
            g_string_append_printf(text, "%s ", usual[i].option);
    if (changes->batch != MW_AUTO)
        g_string_append_printf(text, "--batch %.15g ", changes->batch);
    g_string_append(text, "fits");
    return g_string_free(text, FALSE);
}

/* Of a strategy that was named, that one first. */
char *
mw_remedy_several_settings(const struct mw_plea *plea)
{
    int first = plea->asked->strategy;
    int last = first == MW_STRATEGY_AUTO ? first : MW_STRATEGY_COUNT - 1;

    for (int strategy = first; strategy <= last; strategy++) {
        struct changes changes = {strategy, MW_AUTO, ALL_USUAL};
        if (!fits_with_strategy(plea, &changes))
            continue;
        drop_needless(plea, &changes);
        return changes_text(plea, &changes);
    }
    return NULL;
}
