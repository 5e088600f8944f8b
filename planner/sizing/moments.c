/*
 * What is alive on the GPU when most is, of software whose allocator gives bytes that a tensor
 * leaves to later ones (docs/MODEL.md 12.16e).
 *
 * A step is looked at when the loss is there, when backward is in each layer, when it has come to
 * the embedding, and when the update runs.  What is not said to be absent is taken to be alive, so
 * the sum at a moment is never less than what the software has then.
 */
#include <glib.h>
#include <math.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* While the loss is there: the last norm's input and result, and the latter's gradient.  When
 * backward has come to the embedding: the gradient that goes in, and the layer's behind it. */
#define STREAMS_OF_LOSS 3
#define STREAMS_OF_HEAD 2

/* Left as they are: slots that a plan lets share bytes already, and steps that overlap, or in which
 * micro-batches pass a layer one after the other. */
bool
mw_sizing_has_moments(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;

    return sizing->hardware->memory_use.caching && !s->forward_only &&
           s->share_slots == MW_SHARE_NONE && s->dpu_start == MW_AUTO &&
           !mw_settings_asynchronous(s) && !mw_settings_layer_order(s) &&
           !mw_settings_no_flush(s) && !mw_settings_stashes(s) && !mw_settings_weights_later(s) &&
           !mw_settings_keeps_whole(s);
}

/* Sums of earlier micro-batches are there when later ones go forward.  Beside backward an update
 * frees gradients as it takes them, and the plan counts no more than that leaves. */
bool
mw_sizing_gradients_stay(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;
    int stay = sizing->hardware->memory_use.gradients_stay;

    return !mw_sizing_has_moments(sizing) || stay == MW_STAY_ALWAYS ||
           (stay == MW_STAY_PARTITIONED && sizing->params_partitioned) || s->grad_accum > 1 ||
           mw_settings_update_beside(s) || mw_sizing_splits(sizing, MW_STATE_GRADIENTS);
}

double
mw_sizing_second_tied(const struct mw_sizing *sizing)
{
    const struct mw_unit_tensor *embedding = &sizing->classes[MW_CLASS_HEAD].tensors[0];
    bool planned = sizing->buffers[MW_BUFFER_GRADIENTS_TIED].count > 0;

    return mw_sizing_has_moments(sizing) && mw_sizing_tied(sizing) && embedding->trained && !planned
               ? (double)(embedding->tiles * embedding->tile_params)
               : 0;
}

/* --- what is alive of a kind ------------------------------------------------------------------ */

struct step {
    const struct mw_sizing *sizing;
    const struct mw_moment *all;
    double kept;     /* activations that layers keep, of all micro-batches in flight */
    double of_group; /* of those that the software keeps beside the plan's */
    double stream;   /* bytes of activations between layers */
    bool stay;       /* mw_sizing_gradients_stay */
};

static double
kept_of_all(const struct mw_sizing *sizing)
{
    bool coded = mw_kept_encodings(&sizing->settings.kept_as) != 0;

    return (double)mw_sizing_activation_sets(sizing) * (double)mw_sizing_kept_bytes(sizing, coded);
}

/* One micro-batch is in backward at a time, whatever else is in flight: of stretches the plan has
 * one's room alone. */
static double
in_backward(const struct step *step)
{
    double sets = (double)MAX(1, mw_sizing_activation_sets(step->sizing));
    double work = step->all->ledger[MW_PURPOSE_ACTIVATIONS] - step->kept;

    return fmax(0, step->sizing->stretches > 1 ? work : work / sets);
}

/* Of a block's gradients on the GPU, in whole pages as in the ledger. */
static double
gradients_of(const struct mw_sizing *sizing, enum mw_class class)
{
    const struct mw_class_info *info = &sizing->classes[class];
    int64_t bytes = 0;

    if (!info->blocks || sizing->gradient_home[0] != MW_TIER_GPU)
        return 0;
    for (int t = 0; t < info->tensor_count; t++)
        bytes += mw_round_up(mw_sizing_home_bytes(sizing, MW_BUFFER_GRADIENTS, &info->tensors[t]),
                             MW_SLOT_ALIGNMENT_BYTES);
    return (double)bytes;
}

/* Made with the loss: of the logits' weight, and so of a tied embedding. */
static double
gradients_of_loss(const struct mw_sizing *sizing)
{
    return gradients_of(sizing, MW_CLASS_TAIL) +
           (mw_sizing_tied(sizing) ? gradients_of(sizing, MW_CLASS_HEAD) : 0);
}

static void
take_gradients(const struct step *step, struct mw_moment *moment, double bytes)
{
    double all = step->all->ledger[MW_PURPOSE_GRADIENTS];
    double share = step->stay || all <= 0 ? 1 : fmin(1, bytes / all);

    moment->ledger[MW_PURPOSE_GRADIENTS] *= share;
    moment->beside[MW_BESIDE_GRADIENTS] *= share;
}

/* Where it runs beside backward it may be anywhere. */
static void
leave_update(const struct step *step, struct mw_moment *moment)
{
    if (mw_settings_update_beside(&step->sizing->settings))
        return;
    moment->ledger[MW_PURPOSE_OPTIMIZER_BUFFERS] = 0;
    moment->beside[MW_BESIDE_UPDATE] = 0;
}

static void
leave_logits(struct mw_moment *moment)
{
    moment->ledger[MW_PURPOSE_LOGITS] = 0;
    moment->beside[MW_BESIDE_LOGITS] = 0;
}

static void
take_activations(const struct step *step, struct mw_moment *moment, double bytes)
{
    double all = step->all->ledger[MW_PURPOSE_ACTIVATIONS];

    moment->ledger[MW_PURPOSE_ACTIVATIONS] = fmin(all, bytes);
}

/* --- moments ---------------------------------------------------------------------------------- */

static struct mw_moment
at_loss(const struct step *step)
{
    struct mw_moment moment = *step->all;

    take_activations(step, &moment, step->kept + STREAMS_OF_LOSS * step->stream);
    moment.beside[MW_BESIDE_ACTIVATIONS] -= step->of_group;
    moment.beside[MW_BESIDE_TIED] = 0;
    take_gradients(step, &moment, gradients_of_loss(step->sizing));
    leave_update(step, &moment);
    return moment;
}

/* How far backward has come: the layers whose activations, checkpoints and gradients there are. */
struct way {
    double kept, checkpoints; /* shares of all */
    double gradients;         /* bytes */
};

static struct mw_moment
in_layer(const struct step *step, const struct way *way)
{
    struct mw_moment moment = *step->all;
    double *beside = &moment.beside[MW_BESIDE_ACTIVATIONS];

    take_activations(step, &moment, way->kept * step->kept + in_backward(step));
    *beside = way->kept * (*beside - step->of_group) + step->of_group;
    moment.ledger[MW_PURPOSE_ACTIVATION_CHECKPOINTS] *= way->checkpoints;
    moment.beside[MW_BESIDE_TIED] = 0;
    take_gradients(step, &moment, way->gradients);
    leave_logits(&moment);
    leave_update(step, &moment);
    return moment;
}

static struct mw_moment
in_head(const struct step *step)
{
    const struct way end = {0, 0, step->all->ledger[MW_PURPOSE_GRADIENTS]};
    struct mw_moment moment = in_layer(step, &end);

    take_activations(step, &moment, STREAMS_OF_HEAD * step->stream);
    moment.beside[MW_BESIDE_ACTIVATIONS] = 0;
    moment.beside[MW_BESIDE_TIED] = step->all->beside[MW_BESIDE_TIED];
    return moment;
}

/* Buckets of replicated gradients stay; those of partitioned state are backward's. */
static struct mw_moment
in_update(const struct step *step)
{
    static const enum mw_purpose of_backward[] = {
        MW_PURPOSE_ACTIVATIONS,        MW_PURPOSE_LOGITS,
        MW_PURPOSE_CHECKPOINT_BUFFERS, MW_PURPOSE_ACTIVATION_CHECKPOINTS,
        MW_PURPOSE_GRADIENT_BUFFERS,
    };
    static const enum mw_beside beside[] = {MW_BESIDE_OFFLOAD, MW_BESIDE_LOGITS,
                                            MW_BESIDE_ACTIVATIONS, MW_BESIDE_CASTS,
                                            MW_BESIDE_TIED};
    struct mw_moment moment = *step->all;

    for (size_t i = 0; i < G_N_ELEMENTS(of_backward); i++)
        moment.ledger[of_backward[i]] = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(beside); i++)
        moment.beside[beside[i]] = 0;
    if (step->sizing->optimizer_partitioned)
        moment.beside[MW_BESIDE_BUCKETS] = 0;
    return moment;
}

/* --- the fullest ------------------------------------------------------------------------------ */

static double
alive(const struct mw_moment *moment)
{
    double bytes = 0;

    for (int p = 0; p < MW_PURPOSE_COUNT; p++)
        bytes += moment->ledger[p];
    for (int what = 0; what < MW_BESIDE_COUNT; what++)
        bytes += mw_beside_tier(what) == MW_TIER_GPU ? moment->beside[what] : 0;
    return bytes;
}

static void
take_fuller(struct mw_moment *fullest, double *most, const struct mw_moment *moment)
{
    double bytes = alive(moment);

    if (bytes <= *most)
        return;
    *most = bytes;
    *fullest = *moment;
}

/* Of a layer what forward leaves for its backward, if it keeps that. */
static double
kept_of(const struct mw_sizing *sizing, int64_t layer, bool coded)
{
    const struct mw_class_info *class = &sizing->classes[mw_sizing_layer_class(sizing, layer)];

    if (sizing->settings.checkpoint_interval && mw_sizing_recomputes(sizing, layer))
        return 0;
    return (double)(coded ? class->kept_bytes : class->saved_bytes);
}

/* Of one micro-batch, layer after layer from the last: each takes what it has kept, and leaves
 * gradients.  A checkpoint is there until its layers are done. */
static void
try_layers(const struct step *step, struct mw_moment *fullest, double *most)
{
    const struct mw_sizing *sizing = step->sizing;
    bool coded = mw_kept_encodings(&sizing->settings.kept_as) != 0;
    struct way way = {1, 1, gradients_of_loss(sizing)};
    double groups = (double)(sizing->layers + sizing->settings.checkpoint_interval - 1);

    for (int64_t layer = sizing->layers - 1; layer >= 0; layer--) {
        way.gradients += gradients_of(sizing, mw_sizing_layer_class(sizing, layer));
        struct mw_moment moment = in_layer(step, &way);
        take_fuller(fullest, most, &moment);
        if (step->kept > 0)
            way.kept = fmax(0, way.kept - kept_of(sizing, layer, coded) / step->kept);
        way.checkpoints =
            fmin(1, (double)(layer + sizing->settings.checkpoint_interval - 1) / fmax(1, groups));
    }
}

/* Layers that are alike in all leave bytes in proportion: the first or the last is the fullest. */
static void
try_like_layers(const struct step *step, struct mw_moment *fullest, double *most)
{
    const struct mw_sizing *sizing = step->sizing;
    double layers = (double)sizing->layers, loss = gradients_of_loss(sizing);
    double each = gradients_of(sizing, mw_sizing_layer_class(sizing, 0));
    double groups = (double)MAX(1, sizing->checkpoint_count);
    const struct way ends[] = {{1, 1, loss + each},
                               {1 / layers, 1 / groups, loss + layers * each}};

    for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
        struct mw_moment moment = in_layer(step, &ends[i]);
        take_fuller(fullest, most, &moment);
    }
}

static void
try_backward(const struct step *step, struct mw_moment *fullest, double *most)
{
    const struct mw_sizing *sizing = step->sizing;
    const struct way begin = {1, 1, 0};

    if (step->stay) { /* nothing grows */
        struct mw_moment moment = in_layer(step, &begin);
        take_fuller(fullest, most, &moment);
    } else if (mw_sizing_has_equal_layers(sizing) && !mw_sizing_recomputes_some(sizing)) {
        try_like_layers(step, fullest, most);
    } else {
        try_layers(step, fullest, most);
    }
    struct mw_moment head = in_head(step);
    take_fuller(fullest, most, &head);
}

static double
of_passes(const struct mw_moment *moment)
{
    return moment->ledger[MW_PURPOSE_ACTIVATIONS] + moment->ledger[MW_PURPOSE_LOGITS] +
           moment->ledger[MW_PURPOSE_STAGE_BUFFERS] + moment->beside[MW_BESIDE_ACTIVATIONS] +
           moment->beside[MW_BESIDE_LOGITS];
}

struct mw_moment
mw_sizing_fullest_moment(const struct mw_sizing *sizing, const struct mw_moment *all,
                         double of_group, double *passes)
{
    const struct step step = {
        .sizing = sizing,
        .all = all,
        .kept = kept_of_all(sizing),
        .of_group = of_group,
        .stream = (double)(sizing->element_bytes * sizing->tokens * sizing->model->hidden),
        .stay = mw_sizing_gradients_stay(sizing),
    };
    const struct way begin = {1, 1, 0};
    struct mw_moment fullest = *all, moment;
    double most = -1;

    *passes = of_passes(all);
    if (!mw_sizing_has_moments(sizing))
        return fullest;
    moment = at_loss(&step);
    *passes = of_passes(&moment);
    take_fuller(&fullest, &most, &moment);
    moment = in_layer(&step, &begin);
    *passes = fmax(*passes, of_passes(&moment));
    try_backward(&step, &fullest, &most);
    if (!mw_settings_update_beside(&sizing->settings)) {
        moment = in_update(&step);
        take_fuller(&fullest, &most, &moment);
    }
    return fullest;
}
