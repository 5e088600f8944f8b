/*
 * What is alive on the GPU when most is, of software whose allocator gives bytes that a tensor
 * leaves to later ones (docs/MODEL.md 12.16e).
 *
 * A step is looked at when the loss is computed, when its gradient is, when that is multiplied by
 * the logits' weight, when backward is in each layer, when it has come to the embedding, and when
 * the update runs.  What is not said to be absent is taken to be alive, so the sum at a moment is
 * never less than what the software has then.
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

/* Whether an update beside backward leaves the gradients of no more than some tensors.  What
 * several micro-batches add to stays. */
static bool
frees_tensors(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;

    return mw_settings_update_beside(s) && s->grad_accum == 1 && !s->drop_layers &&
           sizing->hardware->memory_use.tensors_beside > 0 &&
           !mw_sizing_splits(sizing, MW_STATE_GRADIENTS) && sizing->gradient_home[0] == MW_TIER_GPU;
}

/* Sums of earlier micro-batches are there when later ones go forward.  Beside backward an update
 * frees gradients as it takes them, and the plan counts no more than that leaves. */
bool
mw_sizing_gradients_stay(const struct mw_sizing *sizing)
{
    const struct mw_settings *s = &sizing->settings;
    int stay = sizing->hardware->memory_use.gradients_stay;

    return !mw_sizing_has_moments(sizing) || stay == MW_STAY_ALWAYS ||
           (stay == MW_STAY_PARTITIONED && sizing->params_partitioned) ||
           mw_sizing_micro_batches(sizing) > 1 ||
           (mw_settings_update_beside(s) && !frees_tensors(sizing)) ||
           mw_sizing_splits(sizing, MW_STATE_GRADIENTS);
}

/* --- gradients that are added up -------------------------------------------------------------- */

double
mw_sizing_trained_embedding(const struct mw_sizing *sizing)
{
    const struct mw_unit_tensor *embedding = &sizing->classes[MW_CLASS_HEAD].tensors[0];

    return sizing->classes[MW_CLASS_HEAD].blocks && embedding->trained
               ? (double)(embedding->tiles * embedding->tile_params)
               : 0;
}

/* Whether backward makes each gradient anew, and adds it to the sum of earlier micro-batches: then
 * that stands for the plan's rooms of the size of parts, which are there all the time.  Gradients
 * that are reduced or leave have these. */
static bool
adds_to_sums(const struct mw_sizing *sizing)
{
    bool reduced = sizing->gradients_partitioned && sizing->shards > 1;

    return mw_sizing_has_moments(sizing) && mw_sizing_micro_batches(sizing) > 1 && !reduced &&
           sizing->hardware->memory_use.gradients_stay != MW_STAY_ALWAYS && sizing->tensor_count &&
           sizing->gradient_home[0] == MW_TIER_GPU && !mw_sizing_splits(sizing, MW_STATE_GRADIENTS);
}

/* That of tied logits waits for the embedding's, from the loss on, and is no sum yet. */
static double
waiting(const struct mw_sizing *sizing)
{
    return adds_to_sums(sizing) && mw_sizing_tied(sizing)
               ? mw_sizing_own_gradient_bytes(sizing) * mw_sizing_trained_embedding(sizing)
               : 0;
}

static double
added_to_sums(const struct mw_sizing *sizing, enum mw_class class)
{
    return adds_to_sums(sizing) ? mw_sizing_own_gradient_bytes(sizing) *
                                      (double)mw_sizing_largest_of_class(sizing, class, 1)
                                : 0;
}

static double
added_in_layers(const struct mw_sizing *sizing)
{
    double most = 0;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++)
        most = fmax(most, added_to_sums(sizing, c));
    return most + waiting(sizing);
}

/* Of the embedding: one more, if the logits made one. */
static double
added_in_head(const struct mw_sizing *sizing)
{
    bool planned = sizing->buffers[MW_BUFFER_GRADIENTS_TIED].count > 0;
    bool second = mw_sizing_has_moments(sizing) && mw_sizing_tied(sizing) && !planned;

    return adds_to_sums(sizing) || second
               ? waiting(sizing) +
                     mw_sizing_own_gradient_bytes(sizing) * mw_sizing_trained_embedding(sizing)
               : 0;
}

/* The plan's own rooms for gradients on their way, where these are wider. */
static double
wider_buffers(const struct mw_sizing *sizing)
{
    double wider = mw_sizing_own_gradient_bytes(sizing) / (double)sizing->element_bytes - 1;

    return mw_sizing_has_moments(sizing) && mw_sizing_autocasts(sizing) && !adds_to_sums(sizing)
               ? wider * (double)sizing->ledger[MW_TIER_GPU][MW_PURPOSE_GRADIENT_BUFFERS]
               : 0;
}

static double
added_at_loss(const struct mw_sizing *sizing)
{
    return mw_sizing_tied(sizing) ? waiting(sizing) : added_to_sums(sizing, MW_CLASS_TAIL);
}

double
mw_sizing_added_gradients(const struct mw_sizing *sizing)
{
    return wider_buffers(sizing) +
           fmax(fmax(added_at_loss(sizing), added_in_layers(sizing)), added_in_head(sizing));
}

/* --- what comes and goes ---------------------------------------------------------------------- */

enum { /* of the ledger, then of what the software has beside it */
       ACTIVATIONS,
       LOGITS,
       CHECKPOINTS,
       CHECKPOINT_BUFFERS,
       PARAMETERS,
       GRADIENTS,
       GRADIENT_BUFFERS,
       PARAMETER_BUFFERS,
       OPTIMIZER_BUFFERS,
       LEDGER_KINDS,
       BUCKETS = LEDGER_KINDS,
       WIDER_GRADIENTS,
       OFFLOAD,
       UPDATE,
       MORE_LOGITS,
       MORE_ACTIVATIONS,
       CASTS,
       ADDED,
       BLOCKS,
       KINDS
};
static const int names[KINDS] = {
    [ACTIVATIONS] = MW_PURPOSE_ACTIVATIONS,
    [LOGITS] = MW_PURPOSE_LOGITS,
    [CHECKPOINTS] = MW_PURPOSE_ACTIVATION_CHECKPOINTS,
    [CHECKPOINT_BUFFERS] = MW_PURPOSE_CHECKPOINT_BUFFERS,
    [PARAMETERS] = MW_PURPOSE_PARAMETERS,
    [GRADIENTS] = MW_PURPOSE_GRADIENTS,
    [GRADIENT_BUFFERS] = MW_PURPOSE_GRADIENT_BUFFERS,
    [PARAMETER_BUFFERS] = MW_PURPOSE_PARAMETER_BUFFERS,
    [OPTIMIZER_BUFFERS] = MW_PURPOSE_OPTIMIZER_BUFFERS,
    [BUCKETS] = MW_BESIDE_BUCKETS,
    [WIDER_GRADIENTS] = MW_BESIDE_GRADIENTS,
    [OFFLOAD] = MW_BESIDE_OFFLOAD,
    [UPDATE] = MW_BESIDE_UPDATE,
    [MORE_LOGITS] = MW_BESIDE_LOGITS,
    [MORE_ACTIVATIONS] = MW_BESIDE_ACTIVATIONS,
    [CASTS] = MW_BESIDE_CASTS,
    [ADDED] = MW_BESIDE_ADDED,
    [BLOCKS] = MW_BESIDE_BLOCKS,
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
    double group;       /* the share of layers that are computed together */
    double casts;       /* of the layers' parameters */
    double logits_cast; /* of the logits' weight */
    bool stay;          /* mw_sizing_gradients_stay */
    bool tensors;       /* frees_tensors */
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

/* Of the layers that are done those that the update has not taken. */
static double
gradients_of_tensors(const struct step *step)
{
    const struct mw_sizing *sizing = step->sizing;
    int64_t ranks = sizing->gradients_partitioned ? sizing->shards : 1;
    double most = 0;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++) {
        double each =
            (double)(sizing->gradient_rest_bytes * mw_sizing_largest_of_class(sizing, c, ranks));
        double some = sizing->hardware->memory_use.tensors_beside * each;
        most = fmax(most, fmin(gradients_of(sizing, c), some));
    }
    return most + (mw_sizing_tied(sizing) ? gradients_of(sizing, MW_CLASS_HEAD) : 0);
}

/* Copies of parameters in 16 bits, with a share of the layers' that need them. */
static void
take_casts(const struct step *step, struct moment *moment, bool forward, double share)
{
    int stay = step->sizing->hardware->memory_use.casts_stay;
    bool all = stay == MW_CASTS_BACKWARD || (forward && stay == MW_CASTS_FORWARD);

    if (!all)
        moment->of[CASTS] = step->casts * fmin(1, share + step->group);
}

/* Of the plan's buffers for parts what whole blocks need then, and what these need beyond them. */
static void
take_blocks(const struct step *step, struct moment *moment, enum mw_block_moment when)
{
    if (!mw_sizing_has_blocks(step->sizing))
        return;
    struct mw_blocks plan = mw_sizing_planned_blocks(step->sizing);
    struct mw_blocks blocks = mw_sizing_blocks(step->sizing, when);
    moment->of[PARAMETER_BUFFERS] -= fmax(0, plan.params - blocks.params);
    moment->of[GRADIENT_BUFFERS] = fmin(moment->of[GRADIENT_BUFFERS], blocks.gradients);
    moment->of[BLOCKS] =
        fmax(0, blocks.params - plan.params) + fmax(0, blocks.gradients - plan.gradients);
}

/* Beside backward a tensor is updated where its gradient is made: of these classes, from one to
 * another.  What the plan has for it may be anywhere. */
static void
take_update(const struct step *step, struct moment *moment, int first, int last)
{
    const struct mw_sizing *sizing = step->sizing;
    int64_t largest = 0;

    moment->of[UPDATE] = 0;
    if (!mw_settings_update_beside(&sizing->settings)) {
        moment->of[OPTIMIZER_BUFFERS] = 0;
        return;
    }
    for (int c = first; c <= last; c++)
        largest = MAX(largest, mw_sizing_largest_of_class(sizing, c, mw_sizing_updaters(sizing)));
    if (largest)
        moment->of[UPDATE] = fmin(step->all.of[UPDATE], mw_sizing_update_copies(sizing, largest));
}

/* When none of them has a gradient yet. */
static void
leave_update(const struct step *step, struct moment *moment)
{
    take_update(step, moment, 0, -1);
}

/* --- moments ---------------------------------------------------------------------------------- */

/* Around the loss, with so many bytes of a logit: 0: of all that there are at most. */
static struct moment
around_loss(const struct step *step, double per_logit)
{
    const struct mw_sizing *sizing = step->sizing;
    struct moment moment = step->all;
    double most =
        fmax((double)mw_sizing_logit_bytes(sizing), sizing->hardware->memory_use.bytes_per_logit);
    double share = per_logit > 0 ? fmin(1, per_logit / most) : 1;

    moment.of[ACTIVATIONS] =
        fmin(step->all.of[ACTIVATIONS], step->kept + STREAMS_OF_LOSS * step->stream);
    moment.of[MORE_ACTIVATIONS] -= step->of_group;
    moment.of[LOGITS] *= share;
    moment.of[MORE_LOGITS] *= share;
    moment.of[ADDED] = wider_buffers(sizing);
    leave_update(step, &moment);
    return moment;
}

/* Of chunks the first have left gradients when others are computed. */
static double
gradients_of_chunks(const struct step *step)
{
    return step->sizing->settings.logits_chunks > 1 ? gradients_of_loss(step->sizing) : 0;
}

static void
take_casts_of_loss(const struct step *step, struct moment *moment, bool forward)
{
    take_casts(step, moment, forward, mw_sizing_kept_share(step->sizing));
    moment->of[CASTS] = fmin(step->all.of[CASTS], moment->of[CASTS] + step->logits_cast);
}

static struct moment
in_loss(const struct step *step)
{
    struct moment moment =
        around_loss(step, step->sizing->hardware->memory_use.forward_bytes_per_logit);

    take_blocks(step, &moment, MW_BLOCKS_LOSS);
    take_gradients(step, &moment, gradients_of_chunks(step));
    take_casts_of_loss(step, &moment, true);
    return moment;
}

static struct moment
behind_loss(const struct step *step)
{
    struct moment moment = around_loss(step, 0);

    take_blocks(step, &moment, MW_BLOCKS_LOSS);
    take_gradients(step, &moment, gradients_of_chunks(step));
    take_casts_of_loss(step, &moment, false);
    return moment;
}

/* The gradient of the logits, as wide as they are, makes that of their weight. */
static struct moment
in_logits(const struct step *step)
{
    struct moment moment = around_loss(step, (double)step->sizing->element_bytes);

    take_blocks(step, &moment, MW_BLOCKS_LOGITS);
    take_gradients(step, &moment, gradients_of_loss(step->sizing));
    take_casts_of_loss(step, &moment, false);
    moment.of[ADDED] += added_at_loss(step->sizing);
    return moment;
}

/* Beside backward their weight is updated when its gradient is there, and theirs is gone. */
static struct moment
behind_logits(const struct step *step)
{
    struct moment moment = in_logits(step);

    moment.of[LOGITS] = moment.of[MORE_LOGITS] = 0;
    take_update(step, &moment, MW_CLASS_TAIL, MW_CLASS_TAIL);
    return moment;
}

/* How far backward has come: the layers whose activations, checkpoints and gradients there are. */
struct way {
    double kept, checkpoints; /* shares of all */
    double gradients;         /* bytes */
    bool begun;               /* beyond the last layer */
};

static struct moment
in_layer(const struct step *step, const struct way *way)
{
    struct moment moment = step->all;

    moment.of[ACTIVATIONS] = way->kept * step->kept + step->in_backward;
    moment.of[MORE_ACTIVATIONS] =
        way->kept * (step->all.of[MORE_ACTIVATIONS] - step->of_group) + step->of_group;
    moment.of[CHECKPOINTS] *= way->checkpoints;
    moment.of[LOGITS] = moment.of[MORE_LOGITS] = 0;
    moment.of[ADDED] = wider_buffers(step->sizing) + added_in_layers(step->sizing);
    take_blocks(step, &moment, way->begun ? MW_BLOCKS_LAYER : MW_BLOCKS_LAST_LAYER);
    take_casts(step, &moment, false, way->kept * mw_sizing_kept_share(step->sizing));
    take_gradients(step, &moment, way->gradients);
    take_update(step, &moment, MW_CLASS_LAYERS, MW_CLASS_TAIL - 1);
    return moment;
}

static struct moment
in_head(const struct step *step)
{
    double gradients =
        step->tensors ? gradients_of(step->sizing, MW_CLASS_HEAD) : step->all.of[GRADIENTS];
    const struct way end = {0, 0, gradients, true};
    struct moment moment = in_layer(step, &end);

    moment.of[ACTIVATIONS] = fmin(step->all.of[ACTIVATIONS], STREAMS_OF_HEAD * step->stream);
    moment.of[MORE_ACTIVATIONS] = 0;
    if (step->sizing->hardware->memory_use.casts_stay != MW_CASTS_BACKWARD)
        moment.of[CASTS] = 0;
    moment.of[ADDED] = wider_buffers(step->sizing) + added_in_head(step->sizing);
    moment.of[PARAMETER_BUFFERS] = step->all.of[PARAMETER_BUFFERS];
    moment.of[GRADIENT_BUFFERS] = step->all.of[GRADIENT_BUFFERS];
    take_blocks(step, &moment, MW_BLOCKS_HEAD);
    take_update(step, &moment, MW_CLASS_HEAD, MW_CLASS_HEAD);
    return moment;
}

/* Of whole gradients a rank that updates a part needs a part. */
static bool
frees_others(const struct mw_sizing *sizing)
{
    return sizing->hardware->memory_use.update_frees_others && sizing->optimizer_partitioned &&
           !sizing->gradients_partitioned;
}

/* Buckets of replicated gradients stay; those of partitioned state are backward's. */
static struct moment
in_update(const struct step *step)
{
    struct moment moment = {{0}};

    double kept = frees_others(step->sizing) ? 1 / (double)step->sizing->shards : 1;

    moment.of[PARAMETERS] = step->all.of[PARAMETERS];
    moment.of[PARAMETER_BUFFERS] = step->all.of[PARAMETER_BUFFERS];
    take_blocks(step, &moment, MW_BLOCK_MOMENT_COUNT);
    moment.of[GRADIENTS] = kept * step->all.of[GRADIENTS];
    moment.of[WIDER_GRADIENTS] = kept * step->all.of[WIDER_GRADIENTS];
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
    struct way way = {1, 1, gradients_of_loss(sizing), false};

    for (int64_t layer = sizing->layers - 1; layer >= 0; layer--) {
        way.gradients += gradients_of(sizing, mw_sizing_layer_class(sizing, layer));
        struct moment moment = in_layer(step, &way);
        try_moment(step, &moment);
        if (step->kept > 0)
            way.kept = fmax(0, way.kept - kept_of(sizing, layer, coded) / step->kept);
        way.checkpoints = fmin(1, ((double)layer + behind) / (double)sizing->layers);
        way.begun = true;
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
    const struct way ends[] = {{1, 1, loss + each, false},
                               {1 / layers, 1 / groups, loss + layers * each, true}};

    for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
        struct moment moment = in_layer(step, &ends[i]);
        try_moment(step, &moment);
    }
}

/* Where gradients stay, or go as they are made, nothing grows, and its begin is the fullest. */
static void
try_backward(struct step *step, const struct moment *begin)
{
    const struct mw_sizing *sizing = step->sizing;

    if (step->stay || step->tensors)
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

/* Layers whose casts there are together: those of a checkpoint, or one. */
static double
group_share(const struct mw_sizing *sizing)
{
    double layers = (double)MAX(1, sizing->settings.checkpoint_interval);

    return fmin(1, layers / (double)MAX(1, sizing->layers));
}

static struct step
begin_step(const struct mw_sizing *sizing, const double beside[MW_BESIDE_COUNT], double of_group)
{
    struct step step = {
        .sizing = sizing,
        .kept = (double)mw_sizing_activation_sets(sizing) * (double)sizing->stored_bytes,
        .of_group = of_group,
        .stream = (double)(mw_sizing_stream_bytes(sizing) * sizing->tokens * sizing->model->hidden),
        .group = group_share(sizing),
        .casts = mw_sizing_layer_casts(sizing),
        .logits_cast = mw_sizing_logits_cast(sizing),
        .stay = mw_sizing_gradients_stay(sizing),
        .tensors = frees_tensors(sizing),
        .most = -1,
    };

    for (int kind = 0; kind < KINDS; kind++)
        step.all.of[kind] = kind < LEDGER_KINDS ? (double)sizing->ledger[MW_TIER_GPU][names[kind]]
                                                : beside[names[kind]];
    step.all.of[PARAMETERS] -= (double)mw_sizing_lacking_bytes(sizing);
    if (adds_to_sums(sizing))
        step.all.of[GRADIENT_BUFFERS] = 0;
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
    const struct way all = {1, 1, step->tensors ? gradients_of_tensors(step) : 0, false};
    const struct moment loss[] = {in_loss(step), behind_loss(step), in_logits(step),
                                  behind_logits(step)};
    struct moment begin = in_layer(step, &all);

    *passes = of_passes(&begin);
    for (size_t i = 0; i < G_N_ELEMENTS(loss); i++) {
        *passes = fmax(*passes, of_passes(&loss[i]));
        try_moment(step, &loss[i]);
    }
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
            apart += (double)ledger[names[kind]] - step.fullest.of[kind];
        for (int kind = LEDGER_KINDS; kind < KINDS; kind++)
            beside[names[kind]] = step.fullest.of[kind];
    }
    sizing->apart_bytes = MIN((int64_t)apart, sizing->need_bytes[MW_TIER_GPU]);
    sizing->passes_bytes = (int64_t)passes + ledger[MW_PURPOSE_STAGE_BUFFERS];
}
