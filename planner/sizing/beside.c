/* What the software takes of GPU and host memory beside the plan's slots, from its profile. */
#include <glib.h>
#include <math.h>

#include "base/arithmetic.h"
#include "planner/sizing/internal.h"

/* As in the ledger: so large that nothing holds it. */
#define FAR_TOO_LARGE (INT64_MAX / 2)

static const struct {
    enum mw_tier tier;
    const char *text;
} kinds[MW_BESIDE_COUNT] = {
    [MW_BESIDE_BUCKETS] = {MW_TIER_GPU, "buckets of gradients"},
    [MW_BESIDE_GRADIENTS] = {MW_TIER_GPU, "wider gradients"},
    [MW_BESIDE_OFFLOAD] = {MW_TIER_GPU, "gradients on their way to the host"},
    [MW_BESIDE_UPDATE] = {MW_TIER_GPU, "the update's copies"},
    [MW_BESIDE_LOGITS] = {MW_TIER_GPU, "copies of logits"},
    [MW_BESIDE_ACTIVATIONS] = {MW_TIER_GPU, "more activations kept"},
    [MW_BESIDE_ALLOCATOR] = {MW_TIER_GPU, "loss of its allocator"},
    [MW_BESIDE_HOST_GRADIENTS] = {MW_TIER_CPU, "wider gradients on the host"},
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
 * model's. */
static double
zero_buckets(const struct mw_sizing *sizing)
{
    const struct mw_memory_use *use = &sizing->hardware->memory_use;

    return sizing->optimizer_partitioned
               ? use->buckets * use->bucket_elements * (double)sizing->element_bytes
               : 0;
}

/* Replicas copy all gradients into buckets, which stay. */
static double
replica_buckets(const struct mw_sizing *sizing)
{
    double copies = sizing->hardware->memory_use.gradient_copies;

    return !sizing->optimizer_partitioned && sizing->dp > 1
               ? copies * (double)(sizing->element_bytes * sizing->trained_params)
               : 0;
}

/* Bytes per element of gradients on the GPU, as the software keeps them. */
static double
gradient_bytes(const struct mw_sizing *sizing)
{
    return fmax((double)sizing->gradient_rest_bytes,
                sizing->hardware->memory_use.bytes_per_gradient);
}

static double
wider_gradients(const struct mw_sizing *sizing)
{
    double planned = (double)sizing->gradient_rest_bytes;

    return (gradient_bytes(sizing) / planned - 1) * ledger(sizing, MW_PURPOSE_GRADIENTS);
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
    double planned = (double)(whole->count * whole->bytes + shard->count * shard->bytes);

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

static double
more_activations(const struct mw_sizing *sizing)
{
    double more = mw_sizing_activations_kept(sizing->hardware) - 1, share = 1;

    if (!sizing->settings.eager ||
        (sizing->settings.checkpoint_interval && !mw_sizing_kept_layers(sizing)))
        return 0;
    if (mw_sizing_kept_layers(sizing)) {
        double kept = (double)mw_sizing_kept_bytes(sizing, false);
        share = kept / (kept + (double)mw_sizing_group_bytes(sizing));
    }
    return more * ledger(sizing, MW_PURPOSE_ACTIVATIONS) * share;
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
    double bytes = zero_buckets(sizing) + more_activations(sizing) + more_logits(sizing);

    for (size_t i = 0; i < G_N_ELEMENTS(of_backward); i++)
        bytes += ledger(sizing, of_backward[i]);
    return mw_settings_update_apart(&sizing->settings) ? 0 : bytes;
}

/* The update of state on the GPU, in one piece. */
static double
update_copies(const struct mw_sizing *sizing)
{
    double more = sizing->hardware->memory_use.bytes_per_update - gradient_bytes(sizing);
    double params =
        ledger(sizing, MW_PURPOSE_OPTIMIZER_STATE) / mw_sizing_state_element_bytes(sizing);

    return more > 0 ? fmax(0, more * params - freed_for_update(sizing)) : 0;
}

/* Elements of a rank's optimizer state that live in host memory. */
static double
host_elements(const struct mw_sizing *sizing)
{
    return (double)sizing->ledger[MW_TIER_CPU][MW_PURPOSE_OPTIMIZER_STATE] /
           mw_sizing_state_element_bytes(sizing);
}

static double
host_gradient_bytes(const struct mw_sizing *sizing)
{
    const struct mw_memory_use *use = &sizing->hardware->memory_use;

    return sizing->params_partitioned ? use->host_bytes_per_partitioned_gradient
                                      : use->host_bytes_per_gradient;
}

static double
wider_host_gradients(const struct mw_sizing *sizing)
{
    return fmax(0, host_gradient_bytes(sizing) * host_elements(sizing) -
                       (double)sizing->ledger[MW_TIER_CPU][MW_PURPOSE_GRADIENTS]);
}

static double
rounded_up_by(double bytes)
{
    return bytes >= 1 ? exp2(ceil(log2(bytes))) - bytes : 0;
}

/* Bytes by which pinned elements in buffers of `most` of them exceed their own. */
static double
pinned_waste(double elements, double bytes_each, double most)
{
    double buffers = elements > most ? floor(elements / most) : 0;

    if (buffers == 0)
        return rounded_up_by(elements * bytes_each);
    return buffers * rounded_up_by(most * bytes_each) +
           rounded_up_by((elements - buffers * most) * bytes_each);
}

/* The fp32 parameters and gradients of the update, in groups where parameters are partitioned, and
 * gradients as they travel. */
static double
update_waste(const struct mw_sizing *sizing)
{
    const struct mw_memory_use *use = &sizing->hardware->memory_use;
    double n = host_elements(sizing), each = (double)sizing->element_bytes;
    bool grouped = sizing->params_partitioned && use->pinned_elements > 0;
    double most = grouped ? use->pinned_elements : INFINITY, whole = INFINITY;

    if (!(n > 0))
        return 0;
    double waste = pinned_waste(n, sizeof(float), most);
    if (!sizing->params_partitioned)
        return waste + pinned_waste(n, host_gradient_bytes(sizing), whole);
    return waste + pinned_waste(n, host_gradient_bytes(sizing) - each, most) +
           pinned_waste(n, each, whole);
}

/* Of an operator's frozen tensors, a rank's part of each of which is pinned by itself. */
static double
frozen_waste_of(const struct mw_sizing *sizing, const struct mw_operator_info *info)
{
    double waste = 0, ranks = (double)sizing->dp;

    for (int i = 0; i < info->matrix_count; i++) {
        const struct mw_matrix *matrix = &info->matrices[i];
        int64_t elements = MW_PRODUCT(matrix->rows, matrix->columns);
        waste += (double)matrix->count *
                 rounded_up_by((double)mw_dtype_bytes(info->weights, elements) / ranks);
    }
    return info->matrix_count
               ? waste
               : rounded_up_by((double)mw_dtype_bytes(info->weights, info->params) / ranks);
}

/* Parameters, wherever their optimizer state is: trained ones lie in one buffer. */
static double
parameter_waste(const struct mw_sizing *sizing)
{
    double here = (double)sizing->ledger[MW_TIER_CPU][MW_PURPOSE_PARAMETERS];
    double everywhere = 0, waste = 0, frozen = 0;

    if (!(here > 0))
        return 0;
    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        double blocks = (double)class->blocks;
        for (int t = 0; t < class->tensor_count; t++)
            if (!class->tensors[t].trained)
                frozen += blocks * (double)mw_sizing_home_bytes(sizing, MW_BUFFER_PARAMETERS,
                                                                &class->tensors[t]);
        for (int i = 0; i < class->operator_count; i++)
            if (!class->operators[i].trained)
                waste += blocks * frozen_waste_of(sizing, &class->operators[i]);
    }
    for (int t = 0; t < MW_TIER_COUNT; t++)
        everywhere += (double)sizing->ledger[t][MW_PURPOSE_PARAMETERS];
    double share = here / everywhere;
    return share * waste + rounded_up_by(fmax(0, here - share * frozen));
}

/* Bytes of the host that pinned memory takes beyond what it is for. */
static double
rounded_pinned(const struct mw_sizing *sizing)
{
    double rounding = sizing->hardware->memory_use.pinned_rounding;

    return rounding > 0 ? rounding * (update_waste(sizing) + parameter_waste(sizing)) : 0;
}

void
mw_sizing_set_beside(struct mw_sizing *sizing)
{
    double loss = sizing->hardware->memory_use.allocator_loss, all = 0;
    const double parts[MW_BESIDE_COUNT] = {
        [MW_BESIDE_HOST_GRADIENTS] = wider_host_gradients(sizing),
        [MW_BESIDE_PINNED] = rounded_pinned(sizing),
        [MW_BESIDE_BUCKETS] = zero_buckets(sizing) + replica_buckets(sizing),
        [MW_BESIDE_GRADIENTS] = wider_gradients(sizing),
        [MW_BESIDE_OFFLOAD] = offloaded_gradients(sizing),
        [MW_BESIDE_UPDATE] = update_copies(sizing),
        [MW_BESIDE_LOGITS] = more_logits(sizing),
        [MW_BESIDE_ACTIVATIONS] = more_activations(sizing),
    };

    for (int what = 0; what < MW_BESIDE_COUNT; what++) {
        enum mw_tier tier = mw_beside_tier(what);
        double bytes = what != MW_BESIDE_ALLOCATOR
                           ? parts[what]
                           : ((double)sizing->need_bytes[MW_TIER_GPU] + all) * loss / (1 - loss);
        bytes = fmin(bytes, (double)FAR_TOO_LARGE / (2 * MW_BESIDE_COUNT));
        sizing->beside[what] = (int64_t)bytes;
        sizing->beside_bytes[tier] += sizing->beside[what];
        all += tier == MW_TIER_GPU ? bytes : 0;
    }
}
