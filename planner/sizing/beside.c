/* What the software takes of GPU and host memory beside the plan's slots, from its profile. */
#include <glib.h>
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "plan/optimizers.h"
#include "planner/sizing/internal.h"

/* As in the ledger: so large that nothing holds it. */
#define FAR_TOO_LARGE (INT64_MAX / 2)

static const struct {
    enum mw_tier tier;
    const char *text;
} kinds[MW_BESIDE_COUNT] = {
    [MW_BESIDE_BUCKETS] = {MW_TIER_GPU, "buckets of gradients"},
    [MW_BESIDE_GRADIENTS] = {MW_TIER_GPU, "wider gradients"},
    [MW_BESIDE_OFFLOAD] = {MW_TIER_GPU, "gradients to the host"},
    [MW_BESIDE_UPDATE] = {MW_TIER_GPU, "the update's copies"},
    [MW_BESIDE_LOGITS] = {MW_TIER_GPU, "copies of logits"},
    [MW_BESIDE_ACTIVATIONS] = {MW_TIER_GPU, "more activations kept"},
    [MW_BESIDE_CASTS] = {MW_TIER_GPU, "weights cast to 16 bits"},
    [MW_BESIDE_FROZEN] = {MW_TIER_GPU, "frozen weights in fp32"},
    [MW_BESIDE_MOMENTS] = {MW_TIER_GPU, "more moments"},
    [MW_BESIDE_ADDED] = {MW_TIER_GPU, "gradients to be added up"},
    [MW_BESIDE_BLOCKS] = {MW_TIER_GPU, "whole blocks"},
    [MW_BESIDE_ALLOCATOR] = {MW_TIER_GPU, "loss of its allocator"},
    [MW_BESIDE_HOST_GRADIENTS] = {MW_TIER_CPU, "more host gradients"},
    [MW_BESIDE_HOST_PARAMETERS] = {MW_TIER_CPU, "updated host parameters"},
    [MW_BESIDE_HOST_MOMENTS] = {MW_TIER_CPU, "whole host moments"},
    [MW_BESIDE_SWAP] = {MW_TIER_CPU, "buffers of sub-groups"},
    [MW_BESIDE_PINNED] = {MW_TIER_CPU, "pinned memory rounded up"},
};

const char *
mw_beside_text(enum mw_beside what)
{
    return kinds[what].text;
}

enum mw_tier
mw_beside_tier(enum mw_beside what)
{
    return kinds[what].tier;
}

double
mw_sizing_activations_kept(const struct mw_hardware *hardware)
{
    double kept = hardware->memory_use.activations_kept;

    return kept > 0 ? kept : MW_EAGER_ACTIVATIONS;
}

/* Of the GPU. */
static double
ledger(const struct mw_sizing *sizing, enum mw_purpose purpose)
{
    return (double)sizing->ledger[MW_TIER_GPU][purpose];
}

/* Stages that partition optimizer state reduce gradients out of buckets of one size, whatever the
 * model's; longer rings of gradients stand for a part of them. */
static double
zero_buckets(const struct mw_sizing *sizing)
{
    const struct mw_memory_use *use = &sizing->hardware->memory_use;
    double bytes = use->buckets * use->bucket_elements * (double)sizing->element_bytes;

    return sizing->optimizer_partitioned
               ? fmax(0, bytes - (double)mw_sizing_bucket_bytes_in_rings(sizing))
               : 0;
}

/* Replicas copy all gradients into buckets, which stay. */
static double
replica_buckets(const struct mw_sizing *sizing)
{
    return !sizing->optimizer_partitioned && sizing->dp > 1
               ? sizing->hardware->memory_use.gradient_copies *
                     mw_sizing_own_gradient_bytes(sizing) * (double)sizing->trained_params
               : 0;
}

/* Bytes per element of gradients on the GPU, as the software keeps them: of fp32 parameters fp32,
 * where the plan has 16-bit ones beside them. */
static double
gradient_bytes(const struct mw_sizing *sizing)
{
    double own = mw_sizing_lacking_bytes(sizing) > 0 ? mw_sizing_own_gradient_bytes(sizing) : 0;

    return fmax(fmax((double)sizing->gradient_rest_bytes, own),
                sizing->hardware->memory_use.bytes_per_gradient);
}

static double
wider_gradients(const struct mw_sizing *sizing)
{
    double planned = (double)sizing->gradient_rest_bytes;

    return (gradient_bytes(sizing) / planned - 1) * ledger(sizing, MW_PURPOSE_GRADIENTS);
}

/* The share of layers whose activations wait for backward. */
double
mw_sizing_kept_share(const struct mw_sizing *sizing)
{
    return sizing->settings.checkpoint_interval
               ? (double)mw_sizing_kept_layers(sizing) / (double)MAX(1, sizing->layers)
               : 1;
}

/* Autocast keeps all until forward ends; backward needs those of layers that keep their
 * activations. */
static double
cast_copies(const struct mw_sizing *sizing)
{
    double layers = mw_sizing_layer_casts(sizing);

    if (!mw_sizing_has_moments(sizing))
        layers *= mw_sizing_kept_share(sizing);
    return layers + mw_sizing_logits_cast(sizing);
}

/* Parameters that nobody trains and that are as wide as all. */
static double
wide_frozen(const struct mw_sizing *sizing)
{
    int64_t params = 0;

    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        for (int i = 0; i < class->operator_count; i++) {
            const struct mw_operator_info *info = &class->operators[i];
            if (!info->trained && info->weights == sizing->settings.dtype)
                params += class->blocks * info->params;
        }
    }
    return (double)params;
}

static double
frozen_in_fp32(const struct mw_sizing *sizing)
{
    double more = sizing->hardware->memory_use.bytes_per_frozen - (double)sizing->element_bytes;

    return mw_sizing_widens_frozen(sizing) ? more * wide_frozen(sizing) : 0;
}

/* The largest gradient with its copies, or a rank's part of it where each has a part of all, beyond
 * the buffers that the plan has for gradients on their way. */
static double
offloaded_gradients(const struct mw_sizing *sizing)
{
    const struct mw_buffer *whole = &sizing->buffers[MW_BUFFER_GRADIENTS_WHOLE];
    const struct mw_buffer *shard = &sizing->buffers[MW_BUFFER_GRADIENTS_SHARD];
    double per_element =
        sizing->hardware->memory_use.bytes_per_offloaded / (double)sizing->element_bytes;
    double bytes =
        (double)(sizing->params_partitioned && shard->count ? shard->bytes : whole->bytes);
    int64_t more = sizing->more_parts[MW_TIER_GPU]; /* they stand for buckets */
    double planned = (double)((whole->count - more * whole->part_slots) * whole->bytes +
                              (shard->count - more * shard->part_slots) * shard->bytes);

    return sizing->gradient_home[0] == MW_TIER_GPU ? 0 : fmax(0, per_element * bytes - planned);
}

/* Copies in fp32 and gradients that a loss of several kernels makes, where the plan has logits and
 * one copy. */
static double
more_logits(const struct mw_sizing *sizing)
{
    double planned = (double)mw_sizing_logit_bytes(sizing);
    double more = sizing->hardware->memory_use.bytes_per_logit / planned - 1;

    return fmax(0, more) * (double)mw_sizing_buffer_bytes(sizing, MW_BUFFER_LOGITS);
}

/* A softmax in fp32 keeps its result beside the one in 16 bits that the product with the values
 * reads.  With dropout the plan has two of the latter, of which such a softmax needs one alone.
 * A cap keeps one of its own. */
static double
more_scores(const struct mw_sizing *sizing)
{
    double softmax = sizing->hardware->memory_use.bytes_per_softmax;
    double planned = sizing->model->dropout ? (double)sizing->element_bytes : 0;
    double more = softmax > (double)sizing->element_bytes ? softmax - planned : 0;

    if (!mw_sizing_activation_sets(sizing))
        return 0;
    return (more + sizing->hardware->memory_use.bytes_per_cap) *
           (double)mw_sizing_kept_scores(sizing) * (double)mw_sizing_activation_sets(sizing);
}

/* Of what the software keeps more than the plan, what is of a group alone: no other layers keep
 * anything, or it is one of several. */
static double
more_of_group(const struct mw_sizing *sizing, double rests)
{
    bool alone = sizing->settings.checkpoint_interval > 0 && !mw_sizing_kept_layers(sizing);

    return rests + (alone ? more_scores(sizing) : 0);
}

/* Of the group of layers that are recomputed together, the bytes of all but one: of that one
 * backward frees what it has used, while the plan has its working memory beside all of it. */
static double
group_at_rest(const struct mw_sizing *sizing)
{
    struct mw_recomputed recomputed = mw_sizing_recomputed(sizing);
    double layers = (double)MAX(1, mw_recomputed_largest(&recomputed));

    return (double)mw_sizing_group_bytes(sizing) * (layers - 1) / layers;
}

/* Of a token and an element of the hidden size, in all that pass. */
static double
of_stream(const struct mw_sizing *sizing, double bytes)
{
    return bytes * (double)sizing->tokens * (double)sizing->model->hidden;
}

/* Where fp32 passes from layer to layer: what goes into a layer and comes back from it. */
static double
wider_streams(const struct mw_sizing *sizing)
{
    return 2 * of_stream(sizing, (double)(mw_sizing_stream_bytes(sizing) - sizing->element_bytes));
}

/* What a layer keeps more whose narrow weights' products give fp32 as they take it: what its
 * activation takes; of a gated MLP the gate, what the activation makes of it, and what that is
 * multiplied by. */
static double
wider_products(const struct mw_sizing *sizing)
{
    const struct mw_model *model = sizing->model;
    double wider = (double)(mw_sizing_stream_bytes(sizing) - sizing->element_bytes);
    double inner = (double)(model->experts ? model->experts_per_token * model->expert_ffn +
                                                 model->shared_expert_ffn
                                           : model->ffn);

    return sizing->hardware->memory_use.narrow_as_input && mw_sizing_widens_frozen(sizing)
               ? wider * (mw_model_is_gated(model) ? 3 : 1) * inner * (double)sizing->tokens
               : 0;
}

/* What each layer keeps more, whose parameters are cast.  A norm that is frozen does not keep its
 * result before the weight, which two norms of a layer have wider. */
static double
wider_layer(const struct mw_sizing *sizing)
{
    double wider = (double)(mw_sizing_stream_bytes(sizing) - sizing->element_bytes);
    double frozen = mw_sizing_widens_frozen(sizing) ? 2 * wider : 0;
    double bytes = fmax(0, sizing->hardware->memory_use.wide_bytes_kept - frozen);

    return wider > 0 && mw_sizing_autocasts(sizing)
               ? of_stream(sizing, bytes) + wider_products(sizing)
               : 0;
}

static double
kept_layers(const struct mw_sizing *sizing)
{
    int64_t layers = sizing->settings.checkpoint_interval ? mw_sizing_kept_layers(sizing)
                                                          : sizing->layers / sizing->stretches;

    return (double)(mw_sizing_activation_sets(sizing) * layers);
}

/* What adapters and frozen layers keep more; and of the group that is in backward, whose first
 * layer has its checkpoint for an input that is kept as it comes. */
static double
more_of_adapters(const struct mw_sizing *sizing, double *of_group)
{
    double each = mw_sizing_adapted_kept(sizing);
    struct mw_recomputed recomputed = mw_sizing_recomputed(sizing);
    bool groups = sizing->settings.checkpoint_interval > 0;
    double layers = groups ? (double)mw_recomputed_largest(&recomputed) : 0;
    double stream = (double)mw_sizing_stream_bytes(sizing);
    double entering =
        groups && stream > (double)sizing->element_bytes ? of_stream(sizing, stream) : 0;
    double sets = (double)MAX(1, mw_sizing_activation_sets(sizing));
    double planned = (double)sizing->ledger[MW_TIER_GPU][MW_PURPOSE_ACTIVATIONS] / sets -
                     (double)(sizing->stored_bytes + mw_sizing_group_bytes(sizing));
    double passing = mw_sizing_adapted_passing(sizing) - fmax(0, planned);

    *of_group = fmax(0, layers * each - entering + passing);
    return *of_group + kept_layers(sizing) * each;
}

/* Of layers that keep activations; and, if the profile says how much is kept, of the group that
 * backward recomputes.  What passes between operators is not kept. */
static double
more_activations(const struct mw_sizing *sizing, double *of_group)
{
    double more = mw_sizing_activations_kept(sizing->hardware) - 1;
    bool says = sizing->hardware->memory_use.activations_kept > 0;
    bool groups = sizing->settings.checkpoint_interval > 0;
    double kept = (double)mw_sizing_activation_sets(sizing) * (double)sizing->stored_bytes;
    struct mw_recomputed recomputed = mw_sizing_recomputed(sizing);
    double behind = groups ? fmax(0, (double)mw_recomputed_largest(&recomputed) - 1) : 0;

    *of_group = 0;
    if (mw_settings_keeps_whole(&sizing->settings) || sizing->settings.forward_only)
        return 0;
    if (mw_sizing_counts_adapters(sizing))
        return more_of_adapters(sizing, of_group);
    *of_group = wider_streams(sizing) + (groups ? wider_products(sizing) : 0) +
                behind * wider_layer(sizing) + (groups && says ? more * group_at_rest(sizing) : 0);
    return *of_group + more * kept + kept_layers(sizing) * wider_layer(sizing);
}

/* What backward has freed when the update begins. */
static double
freed_for_update(const struct mw_sizing *sizing)
{
    static const enum mw_purpose of_backward[] = {
        MW_PURPOSE_ACTIVATIONS,        MW_PURPOSE_LOGITS,
        MW_PURPOSE_CHECKPOINT_BUFFERS, MW_PURPOSE_ACTIVATION_CHECKPOINTS,
        MW_PURPOSE_GRADIENT_BUFFERS,
    };
    double of_group;
    double bytes = zero_buckets(sizing) + more_activations(sizing, &of_group) +
                   more_scores(sizing) + more_logits(sizing) + cast_copies(sizing);

    for (size_t i = 0; i < G_N_ELEMENTS(of_backward); i++)
        bytes += ledger(sizing, of_backward[i]);
    return mw_settings_update_apart(&sizing->settings) ? 0 : bytes;
}

/* Of a rank's state on the GPU, what is updated in one piece: all of it, a sub-group's where
 * parameters are partitioned and the software has these, or one tensor's where each is updated
 * alone beside backward (LOMO, arXiv 2306.09782, Sec. 3.1; a hook of each parameter, PyTorch's
 * tutorial "How to save memory by fusing the optimizer step into the backward pass"). */
static double
updated_at_once(const struct mw_sizing *sizing, double params, double tensor)
{
    double group = sizing->hardware->memory_use.update_sub_group;

    if (mw_settings_update_beside(&sizing->settings))
        return fmin(params, tensor);
    return sizing->params_partitioned && group > 0
               ? fmin(params, fmax(group, (double)sizing->settings.optimizer_chunk))
               : params;
}

/* What an update copies of so many parameters. */
static double
copied_bytes(const struct mw_sizing *sizing, int optimizer, double params)
{
    const struct mw_update_copies *copies = &mw_optimizer_row(optimizer)->copies;
    double share = copies->fuses ? sizing->hardware->memory_use.foreach_share : 1;

    return copies->count
               ? share * copies->count * (double)mw_dtype_element_bytes(copies->dtype) * params
               : 0;
}

/* Of so many that its optimizer has on the GPU, in tensors of no more than that.  Muon takes matrix
 * after matrix, and leaves what is no matrix of a layer to AdamW. */
static double
copied_parameters(const struct mw_sizing *sizing, double params, double tensor)
{
    int optimizer = sizing->settings.optimizer;
    double matrices = (double)sizing->shard_matrix_params;
    bool flat = sizing->hardware->memory_use.updates_flat_tensor;

    if (!mw_optimizer_orthogonalizes(optimizer))
        return copied_bytes(sizing, optimizer,
                            flat || mw_optimizer_row(optimizer)->copies.of_list
                                ? updated_at_once(sizing, params, tensor)
                                : fmin(params, tensor));
    return fmax(copied_bytes(sizing, MW_OPTIMIZER_ADAMW,
                             updated_at_once(sizing, fmax(0, params - matrices), tensor)),
                copied_bytes(sizing, optimizer, fmin(fmin(params, matrices), tensor)));
}

/* Of a gradient with its copies, as the update takes it. */
static double
updated_gradient_bytes(const struct mw_sizing *sizing)
{
    const struct mw_memory_use *use = &sizing->hardware->memory_use;
    bool whole = !sizing->optimizer_partitioned && use->update_bytes_per_whole_gradient > 0;

    return whole ? use->update_bytes_per_whole_gradient : use->update_bytes_per_gradient;
}

/* Gradients of another type than the one that they are kept in, 16 bits: of an fp32 parameter. */
static double
copied_gradients(const struct mw_sizing *sizing, double params)
{
    double more = updated_gradient_bytes(sizing) - gradient_bytes(sizing);
    bool wider = sizing->settings.dtype != MW_DTYPE_FP32 &&
                 mw_optimizer_keeps(sizing->settings.optimizer, MW_KEPT_PARAMETER);

    return wider ? fmax(0, more) * params : 0;
}

double
mw_sizing_update_copies(const struct mw_sizing *sizing, int64_t largest)
{
    double params = mw_sizing_state_elements(sizing, MW_TIER_GPU), tensor = (double)largest;

    return copied_gradients(sizing, updated_at_once(sizing, params, tensor)) +
           copied_parameters(sizing, params, tensor);
}

int64_t
mw_sizing_updaters(const struct mw_sizing *sizing)
{
    return sizing->optimizer_partitioned ? sizing->shards : 1;
}

/* The update of state on the GPU, in one piece. */
static double
update_copies(const struct mw_sizing *sizing)
{
    double copies = mw_sizing_update_copies(
        sizing, mw_sizing_largest_trained(sizing, mw_sizing_updaters(sizing)));

    if (mw_sizing_has_moments(sizing))
        return copies;
    return copies > 0 ? fmax(0, copies - freed_for_update(sizing)) : 0;
}

/* Optimizers that keep a number for each row and column of a matrix keep one for each element of
 * what is no matrix, such as one tensor of all parameters that a rank updates, or its part of each
 * as a row. */
static double
whole_moments(const struct mw_sizing *sizing, enum mw_tier tier)
{
    bool parts = sizing->optimizer_partitioned && sizing->shards > 1;
    bool flat = sizing->hardware->memory_use.updates_flat_tensor ||
                (sizing->hardware->memory_use.updates_flat_parts && parts);

    return flat && mw_optimizer_has_vectors(sizing->settings.optimizer)
               ? mw_sizing_state_elements(sizing, tier) *
                     (double)mw_dtype_element_bytes(MW_DTYPE_FP32)
               : 0;
}

/* Of the embedding in fp32, where others are in blocks of fewer bits. */
static double
unblocked_moments(const struct mw_sizing *sizing)
{
    const struct mw_optimizer_row *row = mw_optimizer_row(sizing->settings.optimizer);
    double sharers = sizing->optimizer_partitioned ? (double)sizing->shards : 1;
    int64_t params = (int64_t)(mw_sizing_trained_embedding(sizing) / sharers), bytes = 0;

    if (!sizing->hardware->memory_use.embedding_unblocked ||
        !(mw_sizing_state_elements(sizing, MW_TIER_GPU) > 0))
        return 0;
    for (int kept = MW_KEPT_MOMENTUM; kept < MW_KEPT_COUNT; kept++)
        if (mw_dtype_row((int)row->dtypes[kept])->block_elements > 1)
            bytes += mw_dtype_bytes(MW_DTYPE_FP32, params) -
                     mw_dtype_bytes((int)row->dtypes[kept], params);
    return (double)bytes;
}

/* Elements of a rank's optimizer state that live in host memory. */
static double
host_elements(const struct mw_sizing *sizing)
{
    return mw_sizing_state_elements(sizing, MW_TIER_CPU);
}

/* Where parameters are partitioned: of the gradients of all that a rank updates, if any of its
 * optimizer state is off the GPU. */
static double
flat_sum_bytes(const struct mw_sizing *sizing)
{
    bool leaves = sizing->ledger[MW_TIER_CPU][MW_PURPOSE_OPTIMIZER_STATE] > 0 ||
                  sizing->ledger[MW_TIER_NVME][MW_PURPOSE_OPTIMIZER_STATE] > 0;

    return sizing->params_partitioned && leaves
               ? sizing->hardware->memory_use.host_sum_copies_partitioned *
                     (double)(sizing->sum_element_bytes * sizing->shard_params)
               : 0;
}

/* Where they are not, of each parameter whose state is in host memory. */
static double
bytes_per_host_sum(const struct mw_sizing *sizing)
{
    return !sizing->params_partitioned && mw_sizing_micro_batches(sizing) > 1
               ? sizing->hardware->memory_use.host_bytes_per_sum
               : 0;
}

static double
bytes_per_host_gradient(const struct mw_sizing *sizing)
{
    const struct mw_memory_use *use = &sizing->hardware->memory_use;

    return sizing->params_partitioned ? use->host_bytes_per_partitioned_gradient
                                      : use->host_bytes_per_gradient;
}

static double
more_host_gradients(const struct mw_sizing *sizing)
{
    double each = bytes_per_host_gradient(sizing) + bytes_per_host_sum(sizing);

    return fmax(0, each * host_elements(sizing) + flat_sum_bytes(sizing) -
                       (double)sizing->ledger[MW_TIER_CPU][MW_PURPOSE_GRADIENTS]);
}

/* Of all that the host updates. */
static double
host_parameter_bytes(const struct mw_sizing *sizing)
{
    return sizing->params_partitioned
               ? 0
               : sizing->hardware->memory_use.host_bytes_per_parameter * host_elements(sizing);
}

/* The plan has buffers for some. */
static double
more_host_parameters(const struct mw_sizing *sizing)
{
    const struct mw_buffer *planned = &sizing->buffers[MW_BUFFER_UPDATED_PINNED];

    return fmax(0, host_parameter_bytes(sizing) - (double)(planned->count * planned->bytes));
}

/* What the software has instead of the plan's buffers for states on drives. */
static struct mw_swap_buffers
swap_buffers(const struct mw_sizing *sizing)
{
    return sizing->hardware->memory_use.swaps_sub_groups
               ? mw_sizing_swap_buffers(sizing, sizing->settings.buffer_sets)
               : (struct mw_swap_buffers){0};
}

/* Each part of a tensor has a buffer of its own for its sum. */
static double
rounded_sums(const struct mw_sizing *sizing)
{
    double each = bytes_per_host_sum(sizing);
    double sharers = sizing->optimizer_partitioned ? (double)sizing->shards : 1;

    return each > 0 ? mw_sizing_sub_groups(sizing, 1, 1, each).rounded_up_by / sharers : 0;
}

/* Replicated parameters: a buffer each for the fp32 parameters that the host updates, their
 * gradients, and the updated parameters. */
static double
rounded_replicas(const struct mw_sizing *sizing)
{
    double n = host_elements(sizing);

    return mw_sizing_rounded_up_by(n * sizeof(float)) +
           mw_sizing_rounded_up_by(n * bytes_per_host_gradient(sizing)) +
           mw_sizing_rounded_up_by(host_parameter_bytes(sizing)) + rounded_sums(sizing);
}

/* Of parameters in host memory: a buffer for all that are trained, and one for each part of one
 * that is frozen. */
static double
rounded_params(const struct mw_sizing *sizing)
{
    double all = (double)sizing->ledger[MW_TIER_CPU][MW_PURPOSE_PARAMETERS];
    double trained = (double)(sizing->element_bytes * sizing->shard_params);

    if (sizing->trained_params == sizing->params)
        return mw_sizing_rounded_up_by(all);
    return mw_sizing_rounded_up_by(fmin(all, trained)) +
           fmax(0, all - trained) * mw_sizing_frozen_rounding(sizing, sizing->shards);
}

/* Partitioned ones: a buffer for the update's gradients of each sub-group, one for all sums, and
 * those for parameters. */
static double
rounded_partitions(const struct mw_sizing *sizing)
{
    double each = bytes_per_host_gradient(sizing), grouped = 0;
    double on_host =
        sizing->shard_params > 0 ? host_elements(sizing) / (double)sizing->shard_params : 0;

    if (each * on_host > 0)
        grouped = fmin(1, on_host) * mw_sizing_sub_groups(sizing, sizing->settings.optimizer_chunk,
                                                          sizing->shards, each)
                                         .rounded_up_by;
    return grouped + mw_sizing_rounded_up_by(flat_sum_bytes(sizing)) + rounded_params(sizing);
}

static double
rounded_pinned(const struct mw_sizing *sizing, const struct mw_swap_buffers *swap)
{
    double share = sizing->hardware->memory_use.pinned_rounding;
    bool leaves = host_elements(sizing) > 0 || flat_sum_bytes(sizing) > 0;

    if (!(share > 0))
        return 0;
    double of_state = sizing->params_partitioned ? rounded_partitions(sizing)
                      : leaves                   ? rounded_replicas(sizing)
                                                 : 0;
    return share * (of_state + swap->rounded_up_by);
}

/* Of the fullest moment, with what the allocator loses of all that is alive then. */
static void
sum_beside(struct mw_sizing *sizing, const double parts[MW_BESIDE_COUNT])
{
    double loss = sizing->hardware->memory_use.allocator_loss, all = 0;

    for (int what = 0; what < MW_BESIDE_COUNT; what++) {
        double bytes = parts[what];
        if (what == MW_BESIDE_ALLOCATOR)
            bytes = fmin(((double)mw_sizing_peak(sizing, MW_TIER_GPU) + all) * loss / (1 - loss),
                         (double)FAR_TOO_LARGE / (2 * MW_BESIDE_COUNT));
        sizing->beside_then[what] = (int64_t)bytes;
        sizing->beside_bytes[kinds[what].tier] += sizing->beside_then[what];
        all += kinds[what].tier == MW_TIER_GPU ? bytes : 0;
    }
    sizing->beside[MW_BESIDE_ALLOCATOR] = sizing->beside_then[MW_BESIDE_ALLOCATOR];
}

void
mw_sizing_set_beside(struct mw_sizing *sizing)
{
    const struct mw_swap_buffers swap = swap_buffers(sizing);
    double rests, activations = more_activations(sizing, &rests);
    double parts[MW_BESIDE_COUNT] = {
        [MW_BESIDE_HOST_GRADIENTS] = more_host_gradients(sizing),
        [MW_BESIDE_HOST_PARAMETERS] = more_host_parameters(sizing),
        [MW_BESIDE_SWAP] = fmax(0, (double)(swap.all_bytes - swap.plan_bytes)),
        [MW_BESIDE_PINNED] = rounded_pinned(sizing, &swap),
        [MW_BESIDE_MOMENTS] = whole_moments(sizing, MW_TIER_GPU) + unblocked_moments(sizing),
        [MW_BESIDE_HOST_MOMENTS] = whole_moments(sizing, MW_TIER_CPU),
        [MW_BESIDE_BUCKETS] = zero_buckets(sizing) + replica_buckets(sizing),
        [MW_BESIDE_GRADIENTS] = wider_gradients(sizing),
        [MW_BESIDE_OFFLOAD] = offloaded_gradients(sizing),
        [MW_BESIDE_UPDATE] = update_copies(sizing),
        [MW_BESIDE_LOGITS] = more_logits(sizing),
        [MW_BESIDE_CASTS] = cast_copies(sizing),
        [MW_BESIDE_FROZEN] = frozen_in_fp32(sizing),
        [MW_BESIDE_ADDED] = mw_sizing_added_gradients(sizing),
        [MW_BESIDE_BLOCKS] = mw_sizing_more_blocks(sizing),
        [MW_BESIDE_ACTIVATIONS] = activations + more_scores(sizing),
    };
    for (int what = 0; what < MW_BESIDE_COUNT; what++) {
        parts[what] = fmin(parts[what], (double)FAR_TOO_LARGE / (2 * MW_BESIDE_COUNT));
        sizing->beside[what] = (int64_t)parts[what];
    }
    mw_sizing_take_fullest(sizing, parts, more_of_group(sizing, rests));
    sum_beside(sizing, parts);
}
