/*
 * Stretches of layers that a rank has, and passes: a micro-batch's way forward through one of them
 * and back.  A pass has one of the sets of activations until it has come back.
 *
 * In an interleaved pipeline a rank has several stretches (Narayanan et al., arXiv 2104.04473, Sec.
 * 2.2.2), of which some may have more layers than others.
 */
#include "base/error.h"
#include "exec/trainer/internal.h"

/* --- stretches ------------------------------------------------------------------------------- */

static void
list_stretches(struct mw_trainer *trainer)
{
    int64_t layers = trainer->recomputed.end;
    g_autofree int64_t *first_of = g_new(int64_t, layers), *behind = g_new(int64_t, layers);

    mw_plan_find_stretches(trainer->plan, 0, layers, first_of, behind);
    g_clear_pointer(&trainer->stretches, g_array_unref);
    trainer->stretches = g_array_new(FALSE, FALSE, sizeof(struct mw_trainer_stretch));
    for (int64_t layer = 0; layer < layers; layer++) {
        struct mw_trainer_stretch stretch = {layer, behind[layer]};
        if (behind[layer] && first_of[layer] == layer)
            g_array_append_val(trainer->stretches, stretch);
    }
}

bool
mw_trainer_find_stretches(struct mw_trainer *trainer, GError **error)
{
    const struct mw_step_shape *shape = &trainer->plan->shape;

    list_stretches(trainer);
    if (!mw_trainer_has_stretches(trainer))
        return true;
    bool as_one = shape->checkpoint_interval == 0 ||
                  (shape->checkpoint_interval == 1 && !mw_recomputed_kept(&trainer->recomputed));
    if (as_one && !shape->kept_encodings && !shape->whole_checkpoints && !shape->weights_later &&
        !shape->no_flush && !trainer->plan->section_count)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "the plan has several stretches of layers in a stage, of which the executor keeps "
                "all activations as they are, or recomputes each layer alone");
    return false;
}

bool
mw_trainer_has_stretches(const struct mw_trainer *trainer)
{
    return trainer->stretches->len > 1;
}

static const struct mw_trainer_stretch *
stretch_at(const struct mw_trainer *trainer, int64_t stretch)
{
    return &g_array_index(trainer->stretches, struct mw_trainer_stretch, stretch);
}

static int64_t
stretch_of(const struct mw_trainer *trainer, int64_t layer)
{
    int64_t stretch = 0;

    while (stretch + 1 < trainer->stretches->len &&
           layer >= stretch_at(trainer, stretch + 1)->begin)
        stretch++;
    return stretch;
}

const struct mw_trainer_stretch *
mw_trainer_stretch_of(const struct mw_trainer *trainer, int64_t layer)
{
    return stretch_at(trainer, stretch_of(trainer, layer));
}

int64_t
mw_trainer_stretch_layers(const struct mw_trainer *trainer)
{
    int64_t most = 0;

    for (guint i = 0; i < trainer->stretches->len; i++)
        most = MAX(most, stretch_at(trainer, i)->end - stretch_at(trainer, i)->begin);
    return most;
}

bool
mw_trainer_is_own(const struct mw_trainer *trainer, int64_t layer)
{
    const struct mw_trainer_stretch *stretch = mw_trainer_stretch_of(trainer, layer);

    return layer >= stretch->begin && layer < stretch->end;
}

/* --- passes ---------------------------------------------------------------------------------- */

/* The embedding is computed in passes through the first stretch; logits and loss in those through
 * the last. */
static int64_t
pass_of(const struct mw_trainer *trainer, const struct mw_op *op)
{
    bool begins = trainer->plan->works[op->work].operator_ == MW_OPERATOR_EMBEDDING;
    int64_t stretch = op->layer >= 0 ? stretch_of(trainer, op->layer)
                      : begins       ? 0
                                     : (int64_t)trainer->stretches->len - 1;

    return stretch * trainer->plan->shape.micro_batches + op->micro_batch;
}

int64_t
mw_trainer_set(const struct mw_trainer *trainer, const struct mw_op *op)
{
    const uint32_t *set_of = trainer->variant->set_of;

    return set_of ? set_of[pass_of(trainer, op)] : op->micro_batch % trainer->sets;
}

/* Gradients of weights that come later read what outlasts the pass. */
static bool
is_of_pass(const struct mw_trainer *trainer, const struct mw_plan *plan, const struct mw_op *op)
{
    const struct mw_work *work = &plan->works[op->work];

    return work->kind == MW_OP_COMPUTE && op->phase <= MW_PHASE_BACKWARD &&
           !(trainer->plan->shape.weights_later && work->object == MW_OBJECT_GRADIENTS);
}

/* The last op of each pass. */
static uint32_t *
last_ops(const struct mw_trainer *trainer, int64_t passes)
{
    const struct mw_plan *plan = trainer->variant->plan;
    uint32_t *last = g_new0(uint32_t, passes);

    for (uint32_t i = 0; i < plan->op_count; i++)
        if (is_of_pass(trainer, plan, &plan->ops[i]))
            last[pass_of(trainer, &plan->ops[i])] = i;
    return last;
}

/* The set of a pass that begins: the first free one, or that of the micro-batch's number. */
static int64_t
set_for(const struct mw_trainer *trainer, const struct mw_op *op, const bool *taken)
{
    int64_t set = 0;

    if ((int64_t)trainer->stretches->len == 1)
        return op->micro_batch % trainer->sets;
    while (set < trainer->sets && taken[set])
        set++;
    return set;
}

static bool
begin_pass(const struct mw_trainer *trainer, const struct mw_op *op, const bool *taken,
           uint32_t *set_of, GError **error)
{
    int64_t set = set_for(trainer, op, taken);

    if (set == trainer->sets || taken[set]) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "the plan has more passes under way at once than the %" G_GINT64_FORMAT
                    " whose activations it holds",
                    trainer->sets);
        return false;
    }
    *set_of = (uint32_t)set;
    return true;
}

/* Ops of the compute lane follow each other, so that a set is free when a pass's last op has ended.
 * Where all layers are recomputed the one set is that of the running op. */
bool
mw_trainer_place_passes(struct mw_trainer *trainer, bool kept, GError **error)
{
    const struct mw_plan *plan = trainer->variant->plan;
    int64_t passes = (int64_t)trainer->stretches->len * plan->shape.micro_batches;

    if (!kept || plan->section_count || plan->shape.no_flush)
        return true;
    g_autofree uint32_t *last = last_ops(trainer, passes);
    g_autofree bool *taken = g_new0(bool, trainer->sets);
    g_autofree uint32_t *set_of = g_new(uint32_t, passes);

    memset(set_of, 0xff, sizeof *set_of * passes); /* all MW_NONE */
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        if (!is_of_pass(trainer, plan, op))
            continue;
        int64_t pass = pass_of(trainer, op);
        if (set_of[pass] == MW_NONE && !begin_pass(trainer, op, taken, &set_of[pass], error))
            return false;
        taken[set_of[pass]] = i < last[pass];
    }
    if ((int64_t)trainer->stretches->len > 1)
        trainer->variant->set_of = g_steal_pointer(&set_of);
    return true;
}
