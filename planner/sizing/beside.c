/* What the software takes of a GPU's memory beside the plan's slots, from its profile. */
#include <glib.h>
#include <math.h>

#include "planner/sizing/internal.h"

/* As in the ledger: so large that nothing holds it. */
#define FAR_TOO_LARGE (INT64_MAX / 2)

const char *
mw_beside_text(enum mw_beside what)
{
    static const char *const texts[MW_BESIDE_COUNT] = {
        [MW_BESIDE_BUCKETS] = "buckets of gradients",
        [MW_BESIDE_GRADIENTS] = "wider gradients",
        [MW_BESIDE_OFFLOAD] = "gradients on their way to the host",
        [MW_BESIDE_UPDATE] = "the update's copies",
        [MW_BESIDE_LOGITS] = "copies of logits",
        [MW_BESIDE_ACTIVATIONS] = "more activations kept",
        [MW_BESIDE_ALLOCATOR] = "loss of its allocator",
    };

    return texts[what];
}

double
mw_sizing_activations_kept(const struct mw_hardware *hardware)
{
    double kept = hardware->memory_use.activations_kept;

    return kept > 0 ? kept : MW_EAGER_ACTIVATIONS;
}

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
    double more = mw_sizing_activations_kept(sizing->hardware) - 1;

    if (mw_sizing_kept_layers(sizing)) {
        double kept = (double)mw_sizing_kept_bytes(sizing, false);
        double group = (double)mw_sizing_group_bytes(sizing);
        return more * ledger(sizing, MW_PURPOSE_ACTIVATIONS) * kept / (kept + group);
    }
    return sizing->settings.eager ? more * ledger(sizing, MW_PURPOSE_ACTIVATIONS) : 0;
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

void
mw_sizing_set_beside(struct mw_sizing *sizing)
{
    double loss = sizing->hardware->memory_use.allocator_loss, all = 0;
    const double parts[MW_BESIDE_COUNT] = {
        [MW_BESIDE_BUCKETS] = zero_buckets(sizing) + replica_buckets(sizing),
        [MW_BESIDE_GRADIENTS] = wider_gradients(sizing),
        [MW_BESIDE_OFFLOAD] = offloaded_gradients(sizing),
        [MW_BESIDE_UPDATE] = update_copies(sizing),
        [MW_BESIDE_LOGITS] = more_logits(sizing),
        [MW_BESIDE_ACTIVATIONS] = more_activations(sizing),
    };

    for (int what = 0; what < MW_BESIDE_COUNT; what++) {
        double bytes = what < MW_BESIDE_ALLOCATOR
                           ? parts[what]
                           : ((double)sizing->need_bytes[MW_TIER_GPU] + all) * loss / (1 - loss);
        bytes = fmin(bytes, (double)FAR_TOO_LARGE / (2 * MW_BESIDE_COUNT));
        sizing->beside[what] = (int64_t)bytes;
        sizing->beside_bytes += sizing->beside[what];
        all += bytes;
    }
}
