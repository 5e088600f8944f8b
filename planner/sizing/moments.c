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

/* --- what comes and goes ---------------------------------------------------------------------- */

enum { /* of the ledger, then of what the software has beside it */
       ACTIVATIONS,
       LOGITS,
       CHECKPOINTS,
       CHECKPOINT_BUFFERS,
       GRADIENTS,
       GRADIENT_BUFFERS,
       OPTIMIZER_BUFFERS,
       LEDGER_KINDS,
       BUCKETS = LEDGER_KINDS,
       WIDER_GRADIENTS,
       OFFLOAD,
       UPDATE,
       MORE_LOGITS,
       MORE_ACTIVATIONS,
       CASTS,
       TIED,
       KINDS
};
static const int names[KINDS] = {
    [ACTIVATIONS] = MW_PURPOSE_ACTIVATIONS,
    [LOGITS] = MW_PURPOSE_LOGITS,
    [CHECKPOINTS] = MW_PURPOSE_ACTIVATION_CHECKPOINTS,
    [CHECKPOINT_BUFFERS] = MW_PURPOSE_CHECKPOINT_BUFFERS,
    [GRADIENTS] = MW_PURPOSE_GRADIENTS,
    [GRADIENT_BUFFERS] = MW_PURPOSE_GRADIENT_BUFFERS,
    [OPTIMIZER_BUFFERS] = MW_PURPOSE_OPTIMIZER_BUFFERS,
    [BUCKETS] = MW_BESIDE_BUCKETS,
    [WIDER_GRADIENTS] = MW_BESIDE_GRADIENTS,
    [OFFLOAD] = MW_BESIDE_OFFLOAD,
    [UPDATE] = MW_BESIDE_UPDATE,
    [MORE_LOGITS] = MW_BESIDE_LOGITS,
    [MORE_ACTIVATIONS] = MW_BESIDE_ACTIVATIONS,
    [CASTS] = MW_BESIDE_CASTS,
    [TIED] = MW_BESIDE_TIED,
};

struct moment { /* bytes that are alive */
    double of[KINDS];
};

struct step {
    const struct mw_sizing *sizing;
    struct moment all;  /* each at its most */
    double kept;        /* activations that layers keep, of all micro-batches in flight */
    double in_backward; /* those that backward has beside them */
    double of_group;    /* of what the software keeps beside the plan's: of a recomputed group */
    double stream;      /* between two layers */
    bool stay;          /* mw_sizing_gradients_stay */
    struct moment fullest;
    double most;
};

static void
try_moment(struct step *step, const struct moment *moment)
{
    double bytes = 0;

    for (int kind = 0; kind < KINDS; kind++)
        bytes += moment->of[kind];
    if (bytes <= step->most)
        return;
    step->most = bytes;
    step->fullest = *moment;
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
take_gradients(const struct step *step, struct moment *moment, double bytes)
{
    double all = step->all.of[GRADIENTS];
    double share = step->stay || all <= 0 ? 1 : fmin(1, bytes / all);

    moment->of[GRADIENTS] *= share;
    moment->of[WIDER_GRADIENTS] *= share;
}

/* Where the update runs beside backward it may be anywhere. */
static void
leave_update(const struct step *step, struct moment *moment)
{
    if (mw_settings_update_beside(&step->sizing->settings))
        return;
    moment->of[OPTIMIZER_BUFFERS] = moment->of[UPDATE] = 0;
}

/* --- moments ---------------------------------------------------------------------------------- */

static struct moment
at_loss(const struct step *step)
{
    struct moment moment = step->all;

    moment.of[ACTIVATIONS] =
        fmin(step->all.of[ACTIVATIONS], step->kept + STREAMS_OF_LOSS * step->stream);
    moment.of[MORE_ACTIVATIONS] -= step->of_group;
    moment.of[TIED] = 0;
    if (!step->stay)
        take_gradients(step, &moment, gradients_of_loss(step->sizing));
    leave_update(step, &moment);
    return moment;
}

/* How far backward has come: the layers whose activations, checkpoints and gradients there are. */
struct way {
    double kept, checkpoints; /* shares of all */
    double gradients;         /* bytes */
};

static struct moment
in_layer(const struct step *step, const struct way *way)
{
    struct moment moment = step->all;

    moment.of[ACTIVATIONS] = way->kept * step->kept + step->in_backward;
    moment.of[MORE_ACTIVATIONS] =
        way->kept * (step->all.of[MORE_ACTIVATIONS] - step->of_group) + step->of_group;
    moment.of[CHECKPOINTS] *= way->checkpoints;
    moment.of[LOGITS] = moment.of[MORE_LOGITS] = moment.of[TIED] = 0;
    moment.of[CASTS] *= mw_sizing_kept_share(step->sizing);
    take_gradients(step, &moment, way->gradients);
    leave_update(step, &moment);
    return moment;
}

static struct moment
in_head(const struct step *step)
{
    const struct way end = {0, 0, step->all.of[GRADIENTS]};
    struct moment moment = in_layer(step, &end);

    moment.of[ACTIVATIONS] = fmin(step->all.of[ACTIVATIONS], STREAMS_OF_HEAD * step->stream);
    moment.of[MORE_ACTIVATIONS] = 0;
    moment.of[TIED] = step->all.of[TIED];
    return moment;
}

/* Buckets of replicated gradients stay; those of partitioned state are backward's. */
static struct moment
in_update(const struct step *step)
{
    struct moment moment = {{0}};

    moment.of[GRADIENTS] = step->all.of[GRADIENTS];
    moment.of[WIDER_GRADIENTS] = step->all.of[WIDER_GRADIENTS];
    moment.of[OPTIMIZER_BUFFERS] = step->all.of[OPTIMIZER_BUFFERS];
    moment.of[UPDATE] = step->all.of[UPDATE];
    if (!step->sizing->optimizer_partitioned)
        moment.of[BUCKETS] = step->all.of[BUCKETS];
    return moment;
}

/* --- backward --------------------------------------------------------------------------------- */

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
try_layers(struct step *step)
{
    const struct mw_sizing *sizing = step->sizing;
    bool coded = mw_kept_encodings(&sizing->settings.kept_as) != 0;
    double behind = (double)MAX(0, sizing->settings.checkpoint_interval - 1);
    struct way way = {1, 1, gradients_of_loss(sizing)};

    for (int64_t layer = sizing->layers - 1; layer >= 0; layer--) {
        way.gradients += gradients_of(sizing, mw_sizing_layer_class(sizing, layer));
        struct moment moment = in_layer(step, &way);
        try_moment(step, &moment);
        if (step->kept > 0)
            way.kept = fmax(0, way.kept - kept_of(sizing, layer, coded) / step->kept);
        way.checkpoints = fmin(1, ((double)layer + behind) / (double)sizing->layers);
    }
}

/* Layers that are alike in all leave bytes in proportion: the first or the last is the fullest. */
static void
try_like_layers(struct step *step)
{
    const struct mw_sizing *sizing = step->sizing;
    double layers = (double)sizing->layers, loss = gradients_of_loss(sizing);
    double each = gradients_of(sizing, mw_sizing_layer_class(sizing, 0));
    double groups = (double)MAX(1, sizing->checkpoint_count);
    const struct way ends[] = {{1, 1, loss + each}, {1 / layers, 1 / groups, loss + layers * each}};

    for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
        struct moment moment = in_layer(step, &ends[i]);
        try_moment(step, &moment);
    }
}

/* Where gradients stay nothing grows, and its begin is the fullest. */
static void
try_backward(struct step *step, const struct moment *begin)
{
    const struct mw_sizing *sizing = step->sizing;

    if (step->stay)
        try_moment(step, begin);
    else if (mw_sizing_has_equal_layers(sizing) && !mw_sizing_recomputes_some(sizing))
        try_like_layers(step);
    else
        try_layers(step);
    struct moment head = in_head(step);
    try_moment(step, &head);
}

/* --- the step --------------------------------------------------------------------------------- */

/* One micro-batch is in backward at a time, whatever else is in flight: of stretches the plan has
 * one's room alone. */
static double
activations_in_backward(const struct step *step)
{
    double sets = (double)MAX(1, mw_sizing_activation_sets(step->sizing));
    double work = step->all.of[ACTIVATIONS] - step->kept;

    return fmax(0, step->sizing->stretches > 1 ? work : work / sets);
}

static struct step
begin_step(const struct mw_sizing *sizing, const double beside[MW_BESIDE_COUNT], double of_group)
{
    struct step step = {
        .sizing = sizing,
        .kept = (double)mw_sizing_activation_sets(sizing) * (double)sizing->stored_bytes,
        .of_group = of_group,
        .stream = (double)(sizing->element_bytes * sizing->tokens * sizing->model->hidden),
        .stay = mw_sizing_gradients_stay(sizing),
        .most = -1,
    };

    for (int kind = 0; kind < KINDS; kind++)
        step.all.of[kind] = kind < LEDGER_KINDS ? (double)sizing->ledger[MW_TIER_GPU][names[kind]]
                                                : beside[names[kind]];
    step.in_backward = activations_in_backward(&step);
    return step;
}

static double
of_passes(const struct moment *moment)
{
    return moment->of[ACTIVATIONS] + moment->of[LOGITS] + moment->of[MORE_ACTIVATIONS] +
           moment->of[MORE_LOGITS];
}

static void
find_fullest(struct step *step, double *passes)
{
    const struct way all = {1, 1, 0};
    struct moment loss = at_loss(step), begin = in_layer(step, &all);

    *passes = fmax(of_passes(&loss), of_passes(&begin));
    try_moment(step, &loss);
    try_backward(step, &begin);
    if (mw_settings_update_beside(&step->sizing->settings))
        return;
    struct moment update = in_update(step);
    try_moment(step, &update);
}

void
mw_sizing_take_fullest(struct mw_sizing *sizing, double beside[MW_BESIDE_COUNT], double of_group)
{
    const int64_t *ledger = sizing->ledger[MW_TIER_GPU];
    double passes = (double)(ledger[MW_PURPOSE_ACTIVATIONS] + ledger[MW_PURPOSE_LOGITS]) +
                    beside[MW_BESIDE_ACTIVATIONS] + beside[MW_BESIDE_LOGITS];
    double apart = 0;

    if (mw_sizing_has_moments(sizing)) {
        struct step step = begin_step(sizing, beside, of_group);
        find_fullest(&step, &passes);
        for (int kind = 0; kind < LEDGER_KINDS; kind++)
            apart += step.all.of[kind] - step.fullest.of[kind];
        for (int kind = LEDGER_KINDS; kind < KINDS; kind++)
            beside[names[kind]] = step.fullest.of[kind];
    }
    sizing->apart_bytes = MIN((int64_t)apart, sizing->need_bytes[MW_TIER_GPU]);
    sizing->passes_bytes = (int64_t)passes + ledger[MW_PURPOSE_STAGE_BUFFERS];
}
