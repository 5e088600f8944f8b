/*
 * Stages of a pipeline whose steps go on over their ends: PipeDream-2BW (Narayanan et al. 2021,
 * arXiv 2006.09503) and PipeDream (Narayanan et al., SOSP 2019).
 *
 * A stage's plan is a step between others.  Its last forward passes are those of the next step's
 * first micro-batches, and it takes back what the step before has sent forward.  So a run begins
 * with a pass through the plan in which these forward passes alone are done, and its last step
 * leaves them out.
 *
 * Which version of the parameters an op reads is which slot it names.  Before the first step the
 * versions of three steps are followed through the ops: the order of the plan is one in which its
 * check has proved every slot to be used.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/trainer/internal.h"

struct mw_trainer_no_flush {
    bool *of_next;      /* [op_count] whether the op is of the next step */
    int64_t count;      /* micro-batches of the next step that a step sends forward */
    uint32_t *set_of;   /* [micro_batches] its set of activations, the variant's */
    bool *is_version;   /* [slot_count] whether the slot holds a version of all parameters */
    int64_t *tensor_at; /* [tensor_count] where such a slot has the tensor, in bytes */
    int64_t bytes;      /* of all of them */
};

static bool
refuse(GError **error, const char *what)
{
    return mw_fail(error, MW_ERROR_INVALID, "a pipeline without a flush: %s", what);
}

static const struct mw_work *
work_of(const struct mw_plan *plan, uint32_t op)
{
    return &plan->works[plan->ops[op].work];
}

/* --- which ops are the next step's ----------------------------------------------------------- */

/* An op of a pass through the layers; the model's tail turns chunks of tokens back one by one. */
static bool
is_of_pass(const struct mw_plan *plan, uint32_t op)
{
    const struct mw_work *work = work_of(plan, op);

    return work->kind == MW_OP_COMPUTE && plan->ops[op].phase <= MW_PHASE_BACKWARD &&
           (plan->ops[op].layer >= 0 || mw_operator_row(work->operator_)->place == MW_PLACE_HEAD);
}

/* A micro-batch that goes forward behind its way back is the next step's; so is what is received
 * for one that has gone forward.  These are the step's first ones. */
static bool
find_next(struct mw_trainer_no_flush *it, const struct mw_plan *plan, GError **error)
{
    g_autofree bool *forth = g_new0(bool, plan->shape.micro_batches);
    g_autofree bool *back = g_new0(bool, plan->shape.micro_batches);

    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        const struct mw_work *work = work_of(plan, i);
        bool computes = is_of_pass(plan, i);
        bool hops = mw_op_traits(work->kind)->joins == MW_JOINS_PAIR;
        bool forward = op->phase == MW_PHASE_FORWARD;
        uint16_t m = op->micro_batch;

        if (!computes && !hops)
            continue;
        it->of_next[i] = forward && (back[m] || (work->kind == MW_OP_RECV && forth[m]));
        if (computes && forward && back[m] && !forth[m])
            it->count++;
        forth[m] |= computes && forward;
        back[m] |= computes && op->phase == MW_PHASE_BACKWARD;
    }
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (is_of_pass(plan, i) && plan->ops[i].phase == MW_PHASE_FORWARD &&
            it->of_next[i] != (plan->ops[i].micro_batch < it->count))
            return refuse(error, "other micro-batches than the first are sent forward before");
    return true;
}

/* --- activations ------------------------------------------------------------------------------ */

/* The slot among the activations' that an op writes, and how many there are. */
static uint32_t
activations_written(const struct mw_plan *plan, const struct mw_op *op)
{
    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if (plan->uses[u].role == MW_ROLE_OUTPUT &&
            plan->slots[plan->uses[u].slot].purpose == MW_PURPOSE_ACTIVATIONS)
            return plan->uses[u].slot;
    return MW_NONE;
}

/* Sets follow each other, and have as many slots each. */
static uint32_t
set_of_slot(const struct mw_plan *plan, uint32_t slot, int64_t sets)
{
    uint32_t before = 0, all = 0;

    for (uint32_t s = 0; s < plan->slot_count; s++) {
        bool is = plan->slots[s].purpose == MW_PURPOSE_ACTIVATIONS;
        before += is && s < slot;
        all += is;
    }
    return all % sets ? MW_NONE : (uint32_t)(before / (all / sets));
}

static bool
find_sets(struct mw_trainer_no_flush *it, const struct mw_plan *plan, GError **error)
{
    int64_t sets = plan->programs[0].in_flight;

    for (int64_t m = 0; m < plan->shape.micro_batches; m++)
        it->set_of[m] = MW_NONE;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        const struct mw_op *op = &plan->ops[i];
        if (work_of(plan, i)->kind != MW_OP_COMPUTE || op->phase > MW_PHASE_BACKWARD ||
            activations_written(plan, op) == MW_NONE)
            continue;
        uint32_t set = set_of_slot(plan, activations_written(plan, op), sets);
        uint32_t *of = &it->set_of[op->micro_batch];
        if (set == MW_NONE || set >= sets || (*of != MW_NONE && *of != set))
            return refuse(error, "a micro-batch has not one set of activations");
        *of = set;
    }
    for (int64_t m = 0; m < plan->shape.micro_batches; m++)
        if (it->set_of[m] == MW_NONE)
            return refuse(error, "a micro-batch is not computed");
    return true;
}

/* --- versions --------------------------------------------------------------------------------- */

/* Slots of parameters that are no tensor's home. */
static bool
find_versions(struct mw_trainer_no_flush *it, const struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;

    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        it->tensor_at[t] = it->bytes;
        it->bytes += mw_dtype_bytes(tensor->dtype, tensor->tiles * tensor->param_stride);
        if (plan->slots[tensor->param_slot].tier != MW_TIER_GPU ||
            (trainer->ranks > 1 && !(tensor->params_whole && tensor->state_whole)))
            return refuse(error, "its states are not whole on each rank's device");
    }
    for (uint32_t s = 0; s < plan->slot_count; s++) {
        const struct mw_slot *slot = &plan->slots[s];
        it->is_version[s] = slot->purpose == MW_PURPOSE_PARAMETERS &&
                            trainer->variant->tensor_of_home[s] == MW_NONE;
        if (it->is_version[s] && (slot->tier != MW_TIER_GPU || slot->size_bytes < it->bytes ||
                                  !slot->persistent || slot->shares))
            return refuse(error, "a slot has no room for a version of all parameters");
    }
    return true;
}

bool
mw_trainer_is_version(const struct mw_trainer *trainer, uint32_t slot)
{
    const struct mw_trainer_no_flush *it = trainer->variant->no_flush;

    return it && it->is_version[slot];
}

int64_t
mw_trainer_version_at(const struct mw_trainer *trainer, uint32_t slot, uint32_t tensor)
{
    return mw_trainer_is_version(trainer, slot) ? trainer->variant->no_flush->tensor_at[tensor] : 0;
}

uint32_t
mw_trainer_version_written(const struct mw_trainer *trainer, const struct mw_op *op)
{
    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if (mw_trainer_is_version(trainer, trainer->plan->uses[u].slot))
            return trainer->plan->uses[u].slot;
    return MW_NONE;
}

/* --- following them --------------------------------------------------------------------------- */

/* What a stage has in the step that is followed. */
struct walk {
    const struct mw_trainer *trainer;
    const struct mw_plan *plan;
    const struct mw_trainer_no_flush *it;
    int64_t *in_slot; /* [slot_count] version of the parameters, counted in updates */
    int64_t *taken;   /* [micro_batches] that it went forward with; -1: it is not under way */
    int64_t *holder;  /* [in_flight] micro-batch whose activations the set holds, or -1 */
    int64_t newest;
    uint32_t chunks; /* updated since ranks agreed on the norm */
    uint32_t *last;  /* [micro_batches] its last op on the way back */
};

static bool
is_home_of_chunk(const struct walk *walk, uint32_t chunk, uint32_t slot)
{
    const struct mw_chunk_content *content = &walk->plan->chunks[chunk];
    uint32_t tensor = walk->trainer->variant->tensor_of_home[slot];

    return tensor != MW_NONE && tensor >= content->first_tensor &&
           tensor < content->first_tensor + content->tensor_count;
}

/* Homes and versions that an update writes; the update of two versions writes both, as the older
 * one gives its place to the other. */
static bool
follow_update(struct walk *walk, uint32_t index, GError **error)
{
    const struct mw_op *op = &walk->plan->ops[index];
    bool two = !walk->plan->shape.stashes;
    uint32_t versions = 0, homes = 0;

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
        const struct mw_use *use = &walk->plan->uses[u];
        if (use->role != MW_ROLE_PARAMETER)
            continue;
        bool version = walk->it->is_version[use->slot];
        if (use->mode != MW_USE_MODIFY ||
            !(version || is_home_of_chunk(walk, op->shard, use->slot)))
            return refuse(error, "an update writes parameters that are not its chunk's");
        versions += version;
        homes += !version;
        walk->in_slot[use->slot] = two && !version ? walk->newest - 1 : walk->newest;
    }
    walk->chunks++;
    return (two             ? versions == 1 && homes > 0
            : versions == 1 ? !homes
                            : !versions && homes > 0) ||
           refuse(error, "an update does not write one version");
}

/* A stage is ahead of the first one by as many updates as there are stages before it, which with
 * vertical sync it leaves out. */
static int64_t
updates_ahead(const struct mw_trainer *trainer)
{
    uint32_t stages = (uint32_t)mw_plan_degree(trainer->plan, MW_AXIS_PP);

    return trainer->plan->shape.vertical_sync
               ? trainer->world_rank / (trainer->world_ranks / stages)
               : 0;
}

static bool
begin_forward(struct walk *walk, const struct mw_op *op, GError **error)
{
    int64_t *holder = &walk->holder[walk->it->set_of[op->micro_batch]];

    if (walk->taken[op->micro_batch] >= 0)
        return true;
    if (*holder >= 0)
        return refuse(error, "a micro-batch goes forward where another's activations are kept");
    *holder = op->micro_batch;
    walk->taken[op->micro_batch] = MAX(0, walk->newest - updates_ahead(walk->trainer));
    return true;
}

/* All versions have the same of what is not trained. */
static bool
is_trained(const struct walk *walk, const struct mw_op *op)
{
    const struct mw_trainer *trainer = walk->trainer;
    int operator_ = walk->plan->works[op->work].operator_;
    uint32_t t = trainer->tensor_of[(op->layer + 1) * MW_OPERATOR_COUNT + operator_];

    return t == MW_NONE || walk->plan->tensors[t].trainable;
}

/* Forward by the newest parameters, or by those of the first stage, or of two versions by the older
 * one if the micro-batch is of the step itself; and back by the same. */
static bool
follow_compute(struct walk *walk, uint32_t index, GError **error)
{
    const struct mw_op *op = &walk->plan->ops[index];
    bool older =
        !walk->plan->shape.stashes && op->phase == MW_PHASE_FORWARD && !walk->it->of_next[index];

    if (op->phase == MW_PHASE_FORWARD && !begin_forward(walk, op, error))
        return false;
    int64_t *taken = &walk->taken[op->micro_batch];
    if (*taken < 0)
        return refuse(error, "a micro-batch goes back that did not go forward");
    if (older && *taken == walk->newest && walk->newest > 0)
        *taken = walk->newest - 1;
    uint32_t slot = mw_trainer_slot(walk->trainer, op, MW_ROLE_PARAMETER);
    if (slot != MW_NONE && is_trained(walk, op) && walk->in_slot[slot] != *taken)
        return refuse(error, "a micro-batch is computed by parameters of two versions");
    if (index != walk->last[op->micro_batch])
        return true;
    walk->holder[walk->it->set_of[op->micro_batch]] = *taken = -1;
    return true;
}

static bool
follow(struct walk *walk, uint32_t index, GError **error)
{
    const struct mw_work *work = work_of(walk->plan, index);

    if (walk->chunks == walk->plan->chunk_count)
        walk->chunks = 0;
    switch ((enum mw_op_kind)work->kind) {
    case MW_OP_AGREE:
        walk->newest++;
        return !walk->chunks || refuse(error, "some chunks of the state are not updated");
    case MW_OP_UPDATE:
        return follow_update(walk, index, error);
    case MW_OP_COMPUTE:
        if (walk->chunks)
            return refuse(error, "a micro-batch is computed between two chunks of an update");
        return follow_compute(walk, index, error);
    default:
        return true;
    }
}

static bool
follow_steps(struct walk *walk, GError **error)
{
    const struct mw_plan *plan = walk->plan;

    for (int64_t m = 0; m < plan->shape.micro_batches; m++)
        walk->taken[m] = -1;
    for (uint32_t set = 0; set < plan->programs[0].in_flight; set++)
        walk->holder[set] = -1;
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (work_of(plan, i)->kind == MW_OP_COMPUTE && plan->ops[i].phase == MW_PHASE_BACKWARD)
            walk->last[plan->ops[i].micro_batch] = i;
    for (int step = -1; step < 3; step++)
        for (uint32_t i = 0; i < plan->op_count; i++)
            if ((step >= 0 || walk->it->of_next[i]) && !follow(walk, i, error))
                return false;
    return walk->newest == 3 * (plan->shape.stashes ? plan->shape.micro_batches : 1) ||
           refuse(error, "a step has not as many updates as its schedule");
}

static bool
check_versions(const struct mw_trainer *trainer, const struct mw_trainer_no_flush *it,
               GError **error)
{
    const struct mw_plan *plan = trainer->plan;
    int64_t micro_batches = plan->shape.micro_batches;
    struct walk walk = {.trainer = trainer,
                        .plan = plan,
                        .it = it,
                        .in_slot = g_new0(int64_t, plan->slot_count + 1),
                        .taken = g_new0(int64_t, micro_batches),
                        .holder = g_new0(int64_t, plan->programs[0].in_flight + 1),
                        .last = g_new0(uint32_t, micro_batches)};
    bool good = follow_steps(&walk, error);

    g_free(walk.in_slot);
    g_free(walk.taken);
    g_free(walk.holder);
    g_free(walk.last);
    return good;
}

/* --- setting up ------------------------------------------------------------------------------- */

/* What such a run cannot do, whoever asks. */
static bool
check_run(const struct mw_trainer *trainer, GError **error)
{
    const struct mw_trainer_options *o = &trainer->options;
    const struct mw_plan *plan = trainer->plan;

    if (!plan->barriered || plan->section_count || o->variants->plan_count > 1 ||
        mw_plan_is_delayed(plan))
        return refuse(error, "steps of a rank are not apart, or differ");
    if (mw_plan_degree(plan, MW_AXIS_PP) == 1)
        return refuse(error, "it has one stage");
    if (trainer->vectors.places)
        return refuse(error, "its optimizer keeps vectors of rows and columns of whole matrices");
    if (o->commit.on || o->checkpoint)
        return refuse(error, "no step ends alone, so none is durable, or goes on where one ended");
    if (o->loss_scaling.min < o->loss_scaling.max)
        return refuse(error, "stages do not agree on another loss scale");
    if (mw_decoder_is_slice(&plan->shape.decoder))
        return refuse(error, "slices do not agree on a norm");
    if (plan->shape.context_ranks > 1)
        return refuse(error, "ranks that share sequences do not meet in passes of the next step");
    if (plan->shape.decoder.copies_embedding && o->optimizer.clip_norm > 0)
        return refuse(error, "each stage clips by its own norm, and two have the embedding");
    return true;
}

bool
mw_trainer_set_up_no_flush(struct mw_trainer *trainer, GError **error)
{
    const struct mw_plan *plan = trainer->plan;

    if (!plan->shape.no_flush)
        return true;
    struct mw_trainer_no_flush *it = trainer->variant->no_flush =
        g_new0(struct mw_trainer_no_flush, 1);
    it->of_next = g_new0(bool, plan->op_count + 1);
    it->set_of = trainer->variant->set_of = g_new(uint32_t, plan->shape.micro_batches + 1);
    it->is_version = g_new0(bool, plan->slot_count + 1);
    it->tensor_at = g_new0(int64_t, plan->tensor_count + 1);
    if (!check_run(trainer, error) || !find_versions(it, trainer, error))
        return false;
    return find_next(it, plan, error) && find_sets(it, plan, error) &&
           check_versions(trainer, it, error);
}

void
mw_trainer_free_no_flush(struct mw_trainer_no_flush *it)
{
    if (!it)
        return;
    g_free(it->of_next);
    g_free(it->is_version);
    g_free(it->tensor_at);
    g_free(it);
}

bool
mw_trainer_start_versions(struct mw_trainer *trainer, GError **error)
{
    const struct mw_trainer_no_flush *it = trainer->variant->no_flush;
    const struct mw_storage *storage = &trainer->storage;
    const struct mw_plan *plan = trainer->plan;

    for (uint32_t s = 0; it && s < plan->slot_count; s++)
        for (uint32_t t = 0; it->is_version[s] && t < plan->tensor_count; t++) {
            const struct mw_tensor *tensor = &plan->tensors[t];
            if (!storage->backend->copy(
                    storage->device, mw_storage_address(storage, s, it->tensor_at[t]),
                    mw_storage_address(storage, tensor->param_slot, 0),
                    mw_dtype_bytes(tensor->dtype, tensor->tiles * tensor->param_stride), error))
                return false;
        }
    return true;
}

/* --- in a run --------------------------------------------------------------------------------- */

bool
mw_trainer_leaves_out(const struct mw_trainer *trainer, uint32_t op)
{
    const struct mw_trainer_no_flush *it = trainer->variant->no_flush;
    bool ends = trainer->passes == MW_PASSES_LAST, fills = trainer->passes == MW_PASSES_NEXT;
    enum mw_op_kind kind;

    if (!it || !(ends || fills))
        return false;
    kind = (enum mw_op_kind)work_of(trainer->plan, op)->kind;
    return fills ? !it->of_next[op] && kind != MW_OP_BEGIN : it->of_next[op];
}

int64_t
mw_trainer_sent_before(const struct mw_trainer *trainer)
{
    return trainer->variant->no_flush ? trainer->variant->no_flush->count : 0;
}

bool
mw_trainer_reads_next(const struct mw_trainer *trainer, const struct mw_op *op)
{
    const struct mw_work *work = &trainer->plan->works[op->work];

    return trainer->variant->no_flush && op->phase == MW_PHASE_FORWARD && !op->tile &&
           work->operator_ == MW_OPERATOR_EMBEDDING &&
           op->micro_batch < trainer->variant->no_flush->count;
}
