/* Refuses a question whose answer would take too long, before work on it begins, and names the
 * nearest value that is quick. */
#include <glib.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/spell.h"
#include "plan/optimizers.h"
#include "planner/sizing/internal.h"

/* The most that an op's identity can hold. */
#define PARTS_OF_UNIT_MAX (INT64_C(1) << 16)
/* More than can be counted. */
#define NEVER INT64_MAX
/* Up to this number ops are counted one by one for a message; beyond it they are estimated. */
#define COUNTED_MAX INT64_C(10000000)

int64_t
mw_sizing_least_ops(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;
    int passes = s->checkpoint_interval && !mw_sizing_kept_layers(sizing) ? 3 : 2;
    bool few = mw_sizing_folds_layers(sizing); /* layers and chunks may be said once */
    double ops = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        bool layer = mw_class_is_of_layers(c), head = c == MW_CLASS_HEAD;
        /* The tail's passes are those of the logits, below. */
        int times = layer ? passes : head ? 1 + mw_sizing_trains_head(sizing) : 0;
        for (int u = 0; u < sizing->classes[c].unit_count; u++) {
            const struct mw_unit *unit = &sizing->classes[c].units[u];
            if (unit->tiles > PARTS_OF_UNIT_MAX)
                return NEVER;
            /* A layer's operators are computed one by one, the largest in tiles. */
            double pass = (double)unit->tiles + (layer ? unit->count - 1 : 0);
            int64_t blocks = sizing->classes[c].blocks;
            ops += times * pass * (few ? MIN(blocks, MW_FOLDED_LAYERS) : blocks);
        }
    }
    if (mw_model_logits(sizing->model))
        ops += 2.0 * s->logits_chunks * mw_sizing_logits_parts(sizing);
    /* A chunk has at least an update, and ends at a whole page; whole matrices may be larger. */
    few |= mw_optimizer_orthogonalizes(s->optimizer);
    double chunk = (double)s->optimizer_chunk + MW_SLOT_ALIGNMENT_BYTES / 2;
    int64_t built = s->folds && !s->unfold && !mw_settings_layer_order(s)
                        ? MIN(s->grad_accum, MW_FOLDED_LEAST)
                        : s->grad_accum;
    ops = ops * built + (few ? 0 : (double)sizing->shard_params / chunk);
    ops *= s->unfold ? sizing->ranks : 1;
    return ops < (double)INT64_MAX ? (int64_t)ops : INT64_MAX;
}

/* --- the nearest quick value ------------------------------------------------------------------ */

struct question {
    const struct mw_model *model;
    const struct mw_hardware *hardware;
    const struct mw_settings *settings, *asked;
};

enum knob { ACCUMULATION, TILES, LOGITS_CHUNKS, LAYERS, KNOB_COUNT };

static const struct {
    const char *setting; /* NULL: the model's */
    const char *parts;   /* what it counts, for a message; as few as fit, if it is open */
    size_t offset;       /* in struct mw_settings */
} knobs[KNOB_COUNT] = {
    [ACCUMULATION] = {"grad-accum", NULL, offsetof(struct mw_settings, grad_accum)},
    [TILES] = {"tiles", "tiles", offsetof(struct mw_settings, tiles)},
    [LOGITS_CHUNKS] = {"logits-chunks", "chunks of the logits",
                       offsetof(struct mw_settings, logits_chunks)},
    [LAYERS] = {NULL, NULL, 0},
};

static int64_t
value_in(const struct mw_settings *settings, enum knob knob)
{
    return *(const int64_t *)(const void *)((const char *)settings + knobs[knob].offset);
}

static int64_t
value_of(const struct question *q, enum knob knob)
{
    return knob == LAYERS ? q->model->layers : value_in(q->settings, knob);
}

/* Whether fewer would not fit. */
static bool
is_least(const struct question *q, enum knob knob)
{
    return knobs[knob].parts && value_in(q->asked, knob) == MW_AUTO && value_of(q, knob) > 1;
}

static bool
is_quick(const struct question *q, enum knob knob, int64_t value, int64_t most)
{
    struct mw_model model = *q->model;
    struct mw_settings settings = *q->settings;

    if (knob == LAYERS)
        model.layers = value;
    else
        *(int64_t *)(void *)((char *)&settings + knobs[knob].offset) = value;
    model.dense_layers = MIN(model.dense_layers, model.layers);
    settings.checkpoint_interval = MIN(settings.checkpoint_interval, model.layers);
    return mw_sizing_ops_of(&model, q->hardware, &settings, most) <= most;
}

/* The nearest value within the limit; 0: none. */
static int64_t
nearest_within(const struct question *q, enum knob knob, int64_t most)
{
    int64_t slow = value_of(q, knob), quick = 1;

    if (slow == quick || slow == MW_AUTO || !is_quick(q, knob, quick, most))
        return 0;
    while (slow - quick > 1) {
        int64_t middle = quick + (slow - quick) / 2;
        if (is_quick(q, knob, middle, most))
            quick = middle;
        else
            slow = middle;
    }
    return quick;
}

/* A value that is barely accepted takes a while: returns the nearest quick value, if there is
 * one. */
static int64_t
nearest_quick(const struct question *q, enum knob knob)
{
    int64_t most = q->settings->ops_max;
    int64_t quick = nearest_within(q, knob, MIN(most, MW_OPS_QUICK));

    return quick ? quick : nearest_within(q, knob, most);
}

int64_t
mw_sizing_most_micro_batches(const struct mw_model *model, const struct mw_hardware *hardware,
                             const struct mw_settings *settings)
{
    struct question q = {model, hardware, settings, settings};

    return is_quick(&q, ACCUMULATION, settings->grad_accum, settings->ops_max)
               ? settings->grad_accum
               : nearest_within(&q, ACCUMULATION, settings->ops_max);
}

static double
change_of(const struct question *q, enum knob knob, int64_t nearest)
{
    return (double)value_of(q, knob) / nearest;
}

/* The option that must change least; if no single option would do, the model's layers. */
static enum knob
least_change(const struct question *q, int64_t *nearest)
{
    enum knob best = LAYERS;

    *nearest = 0;
    for (enum knob knob = 0; knob < LAYERS; knob++) {
        int64_t quick = is_least(q, knob) ? 0 : nearest_quick(q, knob);
        if (quick && (!*nearest || change_of(q, knob, quick) < change_of(q, best, *nearest))) {
            best = knob;
            *nearest = quick;
        }
    }
    if (!*nearest)
        *nearest = nearest_quick(q, LAYERS);
    return best;
}

static bool
is_global(const struct question *q, enum knob knob)
{
    return knob == ACCUMULATION &&
           (q->settings->batch_source || q->settings->global_batch != MW_AUTO);
}

/* The setting as it is requested.  g_free it. */
static char *
setting_text(const struct question *q, enum knob knob)
{
    return mw_spelled_printf("{%s=%" G_GINT64_FORMAT "}", knobs[knob].setting, value_of(q, knob));
}

/* The layers, with all settings that multiply their ops. */
static char *
all_names(const struct question *q)
{
    GString *text = g_string_new(NULL);
    const char *with = " with";

    g_string_append_printf(text, "model %s: %" G_GINT64_FORMAT " layer%s", q->model->name,
                           q->model->layers, q->model->layers == 1 ? "" : "s");
    for (enum knob knob = 0; knob < LAYERS; knob++)
        if (value_of(q, knob) > 1 && !is_least(q, knob)) {
            g_autofree char *set = setting_text(q, knob);
            g_string_append_printf(text, "%s %s", with, set);
            with = " and";
        }
    g_string_append(text, " make");
    return g_string_free(text, FALSE);
}

/* " in 16 tiles, the fewest that fit"; "" if nothing that was open has to be more than one. */
static char *
least_parts(const struct question *q)
{
    GString *text = g_string_new(NULL);

    for (enum knob knob = 0; knob < LAYERS; knob++)
        if (is_least(q, knob))
            g_string_append_printf(text, "%s %" G_GINT64_FORMAT " %s", text->len ? " and" : " in",
                                   value_of(q, knob), knobs[knob].parts);
    if (text->len)
        g_string_append(text, " (the fewest that fit)");
    return g_string_free(text, FALSE);
}

/* The requested settings, and the number of ops that they lead to. */
static char *
name_of(const struct question *q, enum knob knob)
{
    const struct mw_settings *s = q->settings;

    if (is_global(q, knob) && s->batch_source)
        return g_strdup_printf("%s: %" G_GINT64_FORMAT " micro-batches make", s->batch_source,
                               s->grad_accum);
    if (is_global(q, knob))
        return mw_spelled_printf("{global-batch=%" G_GINT64_FORMAT "}: %" G_GINT64_FORMAT
                                 " micro-batches make",
                                 s->global_batch, s->grad_accum);
    if (knob == LAYERS)
        return all_names(q);
    g_autofree char *set = setting_text(q, knob);
    return g_strdup_printf("%s: makes", set);
}

static char *
count_text(const struct question *q)
{
    int64_t ops = mw_sizing_ops_of(q->model, q->hardware, q->settings, COUNTED_MAX);

    return ops == NEVER
               ? g_strdup("too many")
               : g_strdup_printf("%s%" G_GINT64_FORMAT, ops > COUNTED_MAX ? "at least " : "", ops);
}

/* For all plans, or for this one alone. */
static char *
accepted_text(const struct question *q, enum knob knob, int64_t nearest,
              const struct mw_nearest_batches *batches)
{
    bool global = is_global(q, knob);
    int64_t unit = global ? q->settings->global_batch / q->settings->grad_accum : 1;

    if (!nearest)
        return g_strdup("give less of each");
    if (!global || !batches || batches->most < nearest * unit)
        return g_strdup_printf("give %" G_GINT64_FORMAT "%s or fewer", nearest * unit,
                               knob == LAYERS ? " layers" : "");
    if (!batches->quick || batches->quick == batches->most)
        return g_strdup_printf("give %" G_GINT64_FORMAT, batches->most);
    return g_strdup_printf("give %" G_GINT64_FORMAT " (%" G_GINT64_FORMAT
                           " at most, which takes longer)",
                           batches->quick, batches->most);
}

void
mw_sizing_refuse_ops(const struct mw_model *model, const struct mw_hardware *hardware,
                     const struct mw_settings *settings, const struct mw_settings *asked,
                     const struct mw_nearest_batches *batches, GError **error)
{
    struct question q = {model, hardware, settings, asked};
    int64_t nearest = 0;
    enum knob knob = least_change(&q, &nearest);
    g_autofree char *name = name_of(&q, knob), *count = count_text(&q), *parts = least_parts(&q);
    g_autofree char *accepted = accepted_text(&q, knob, nearest, batches);

    g_set_error(
        error, MW_ERROR, MW_ERROR_LARGE,
        "%s a step of %s ops with %s%s, and more than %" G_GINT64_FORMAT " take too long; %s", name,
        count, mw_strategy_name((int)settings->strategy), parts, settings->ops_max, accepted);
}
