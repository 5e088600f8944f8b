/* A software profile as one flat reading in SI units, and a machine as it uses it. */
#include "software/software.h"

#include <string.h>

#include "hardware/scale.h"
#include "profile/internal.h"

struct mw_profile *
mw_software_load(const char *name_or_path, GError **error)
{
    return mw_profile_load(&mw_software_kind, name_or_path, error);
}

const char *
mw_key_of(const char *assignment, const struct mw_profile_kind **kind)
{
    const char *prefix = mw_software_kind.set_prefix;
    bool of_software = g_str_has_prefix(assignment, prefix);

    *kind = of_software ? &mw_software_kind : &mw_hwprofile_kind;
    return assignment + (of_software ? strlen(prefix) : 0);
}

struct mw_software
mw_software_read(const struct mw_profile *profile, enum mw_outlook outlook)
{
    struct mw_software software = {.outlook = outlook};

    mw_profile_store(profile, outlook, &software);
    return software;
}

/* Bytes of host memory that a fused update moves per parameter: reads p, m, v and a 16-bit
 * gradient, writes p, m, v and a 16-bit parameter.  Profiles give the update's rate for it. */
#define PLANNED_LOSS_BYTES 28.0 /* docs/MODEL.md 4.13, per logit */
#define FUSED_UPDATE_BYTES 28

static void
forget_own_kernels(struct mw_hardware *hardware)
{
    hardware->gpu_loss_bytes_per_s = 0;
    hardware->gpu_layer_norm_bytes_per_s = hardware->gpu_rms_norm_bytes_per_s = 0;
    hardware->gpu_activation_bytes_per_s = hardware->gpu_gated_bytes_per_s = 0;
    hardware->gpu_rotary_bytes_per_s = 0;
}

/* Where the machine was not measured with the kernel: by the bytes that plans count. */
static void
apply_loss(const struct mw_software *software, struct mw_model_uses uses,
           struct mw_hardware *hardware)
{
    double caps =
        uses.capped_logits ? software->forward_bytes_per_cap + software->backward_bytes_per_cap : 0;

    if (!(hardware->gpu_loss_bytes_per_s > 0))
        hardware->gpu_loss_bytes_per_s = hardware->gpu_memory_bytes_per_s * PLANNED_LOSS_BYTES /
                                         (software->bytes_per_logit + caps);
}

static void
apply_attention(const struct mw_software *software, struct mw_model_uses uses,
                struct mw_hardware *hardware)
{
    enum mw_architecture architecture = (enum mw_architecture)hardware->gpu_architecture;
    int kernel = mw_attention_choose(software->attention_kernels, architecture);

    if (uses.score_bias && !software->score_bias && kernel >= 0)
        kernel = MW_ATTENTION_UNFUSED;
    if (kernel != MW_ATTENTION_FUSED) /* not the kernels that the machine was measured with */
        forget_own_kernels(hardware);
    if (kernel == MW_ATTENTION_UNFUSED)
        hardware->gpu_flash_attention = false;
    hardware->attention_skips = software->causal_skip && hardware->gpu_flash_attention;
    hardware->attention_share = software->attention_share;
    if (kernel >= 0 && hardware->gpu_flash_attention)
        hardware->attention_kernel =
            mw_attention_rates_of((enum mw_attention_kernel)kernel, architecture, software->outlook,
                                  hardware->gpu_peak_flops);
}

/* How much longer a kind of operators takes than those that gpu_operator_bytes_per_s is of. */
static double
slower(double others_bytes_per_s, double bytes_per_s)
{
    return bytes_per_s > 0 ? others_bytes_per_s / bytes_per_s : 1;
}

static void
apply_to_gpu(const struct mw_software *software, struct mw_model_uses uses,
             struct mw_hardware *hardware)
{
    double best = hardware->gpu_operator_bytes_per_s > 0 ? hardware->gpu_operator_bytes_per_s
                                                         : hardware->gpu_memory_bytes_per_s;

    apply_attention(software, uses, hardware);
    apply_loss(software, uses, hardware);
    hardware->tile_flops *= software->product_share;
    hardware->fp8_tile_flops *= software->product_share;
    hardware->fp8_products = software->fp8;
    hardware->fp8_bytes_per_operand = software->fp8_bytes_per_operand;
    for (int64_t i = 0; i < hardware->matmul_points; i++)
        hardware->matmul_flops[i] *= software->product_share;
    hardware->norm_passes *= slower(best, uses.rms_norm ? hardware->gpu_rms_norm_bytes_per_s
                                                        : hardware->gpu_layer_norm_bytes_per_s);
    hardware->activation_passes *= slower(best, uses.gated ? hardware->gpu_gated_bytes_per_s
                                                           : hardware->gpu_activation_bytes_per_s);
    if (uses.rotary)
        hardware->position_passes *= slower(best, hardware->gpu_rotary_bytes_per_s);
    hardware->gpu_operator_bytes_per_s = best * software->operator_share;
}

static void
apply_to_host(const struct mw_software *software, struct mw_hardware *hardware)
{
    double *update = &hardware->host_update_params_per_s;

    *update *= FUSED_UPDATE_BYTES / software->update_bytes_per_param;
    if (software->update_params_per_s > 0)
        *update = MIN(*update, software->update_params_per_s);
    hardware->update_one_node_share =
        MIN(1, software->update_one_node_bytes_per_param / software->update_bytes_per_param);
    hardware->ranks_bound = software->ranks_bound;
    hardware->parameter_link_bytes = software->parameter_link_bytes;
    hardware->swaps_gradients = software->swaps_gradients;
    hardware->gradient_link_bytes = software->gradient_link_bytes;
    hardware->gradient_copy_bytes_per_s = software->gradient_copy_bytes_per_s;
    hardware->checkpoint_copy_bytes_per_s = software->checkpoint_copy_bytes_per_s;
    hardware->checkpoint_load_bytes_per_s = software->checkpoint_load_bytes_per_s > 0
                                                ? software->checkpoint_load_bytes_per_s
                                                : software->checkpoint_copy_bytes_per_s;
    hardware->checkpoints_block = software->checkpoints_block;
    mw_hardware_scale_rate(hardware, MW_HW_RATE_PCIE, software->copy_share);
    hardware->nvme_read_bytes_per_s *= software->drive_share;
    hardware->nvme_write_bytes_per_s *= software->drive_share;
    hardware->nvme_write_burst_bytes_per_s *= software->drive_share;
    hardware->nvme_mixed_read_bytes_per_s *= software->drive_share;
    hardware->nvme_mixed_write_bytes_per_s *= software->drive_share;
}

/* Plans count 8 bytes of a stored score in forward and 14 in backward, and 5 of dropout in each
 * (plan/operators.c), which is a kernel of its own everywhere; where backward begins with forward
 * once more it moves those bytes too. */
#define SCORE_FORWARD_BYTES 8.0
#define SCORE_BACKWARD_BYTES 14.0
#define SCORE_DROPOUT_BYTES 5.0

static void
apply_scores(const struct mw_software *software, struct mw_model_uses uses,
             struct mw_hardware *hardware)
{
    double dropout = uses.dropout ? SCORE_DROPOUT_BYTES : 0;
    bool caps = uses.capped_scores;
    double forward =
        software->bytes_per_score_forward + dropout + (caps ? software->forward_bytes_per_cap : 0);
    double backward = software->bytes_per_score_backward + dropout +
                      (caps ? software->backward_bytes_per_cap : 0);
    double planned_forward = SCORE_FORWARD_BYTES + dropout;
    double planned_backward = SCORE_BACKWARD_BYTES + dropout;

    hardware->score_passes[MW_TURN_FORWARD] = forward / planned_forward;
    hardware->score_passes[MW_TURN_BACKWARD] = backward / planned_backward;
    hardware->score_passes[MW_TURN_BACKWARD_AGAIN] =
        (forward + backward) / (planned_forward + planned_backward);
}

static void
apply_passes(const struct mw_software *software, struct mw_model_uses uses,
             struct mw_hardware *hardware)
{
    hardware->norm_passes = uses.rms_norm ? software->rms_norm_passes : software->layer_norm_passes;
    hardware->position_passes = uses.rotary ? software->rotary_passes : software->other_passes;
    hardware->activation_passes = uses.gated ? software->gated_passes : software->other_passes;
    hardware->adapter_passes = software->adapter_passes;
    hardware->update_passes = software->update_passes;
    hardware->update_unfused = software->update_unfused;
    hardware->update_unfused_other = software->update_unfused_other;
    hardware->other_passes = software->other_passes;
    apply_scores(software, uses, hardware);
    hardware->host_launch_s = software->launch_kernels * software->launch_host_s;
}

/* The result of tanh waits for its backward, beside what comes of it. */
static void
apply_caps(const struct mw_software *software, struct mw_model_uses uses,
           struct mw_memory_use *memory)
{
    if (uses.capped_logits && memory->bytes_per_logit > 0)
        memory->bytes_per_logit += software->bytes_per_cap;
    if (uses.capped_logits && memory->forward_bytes_per_logit > 0)
        memory->forward_bytes_per_logit += software->bytes_per_cap;
    memory->bytes_per_cap = uses.capped_scores ? software->bytes_per_cap : 0;
}

void
mw_software_apply(const struct mw_software *software, struct mw_model_uses uses,
                  struct mw_hardware *hardware)
{
    apply_passes(software, uses, hardware);
    if (software->collectives_block)
        hardware->gpu_collective_sm_share = 1;
    hardware->updates_beside = software->updates_beside;
    hardware->tensor_overlap = software->tensor_overlap;
    hardware->tensor_pieces = software->tensor_pieces;
    hardware->tensor_parts = software->tensor_parts;
    hardware->memory_use = software->memory;
    apply_caps(software, uses, &hardware->memory_use);
    hardware->start = software->start;
    hardware->offers = software->offers;
    apply_to_gpu(software, uses, hardware);
    apply_to_host(software, hardware);
    hardware->fabric_bytes_per_s *= software->collective_share;
    hardware->nic_bytes_per_s *= software->collective_share;
    hardware->fabric_latency_s += software->collective_hop_s;
    hardware->nic_latency_s += software->collective_hop_s;
    hardware->reduces_at_end = software->reduces_at_end;
    hardware->all_reduces_at_end = software->all_reduces_at_end;
    hardware->stage_scatter = software->stage_scatter;
    hardware->stages_block = software->stages_block;
    hardware->reduced_type = software->reduced_type;
    hardware->gather_passes = software->gather_passes;
    hardware->reduce_passes = software->reduce_passes;
    hardware->gather_kernels = software->gather_kernels;
    hardware->reduce_kernels = software->reduce_kernels;
}

bool
mw_software_check(const struct mw_profile *software, const struct mw_profile *machine,
                  GError **error)
{
    struct mw_software figures = mw_software_read(software, MW_OUTLOOK_TYPICAL);
    struct mw_hardware hardware = mw_hwprofile_read(machine, MW_OUTLOOK_TYPICAL);
    enum mw_architecture architecture = (enum mw_architecture)hardware.gpu_architecture;

    if (figures.fp8 && !mw_hardware_has_fp8(&hardware)) {
        g_autofree char *no_fp8 =
            g_strdup_printf("%s has no rate of fp8 products (gpu.fp8_tile_tflops); must be false",
                            mw_profile_name(machine));
        return mw_profile_refuse(software, "products", "fp8", no_fp8, error);
    }
    if (mw_attention_choose(figures.attention_kernels, architecture) >= 0)
        return true;
    g_autofree char *kernels = mw_attention_kernels_of(architecture);
    g_autofree char *why =
        g_strdup_printf("is not there on %s; its kernels: %s", mw_profile_name(machine), kernels);
    return mw_profile_refuse(software, "attention", "kernel", why, error);
}

/* GPUs of one kind differ in what their power allows them to compute: by 8% on average, over 90% of
 * five clusters of one kind each (Sinha et al., SC'22, arXiv 2208.11035).  A profile of figures
 * that others measured is of some of them; one that was measured here is of this one. */
#define GPUS_DIFFER 0.08
/* That is the range without outliers, which of a normal distribution has 5.4 standard deviations:
 * from the quartiles 1.5 times their distance on. The largest that they found is 22%. */
#define DEVIATIONS 5.4
#define GPUS_DIFFER_MOST 0.22

static void
vary_gpu(const struct mw_profile *machine, enum mw_outlook outlook, struct mw_hardware *hardware)
{
    static const int sides[MW_OUTLOOK_COUNT] = {[MW_OUTLOOK_LOW] = -1, [MW_OUTLOOK_HIGH] = 1};
    static const double ranges[MW_OUTLOOK_COUNT] = {
        [MW_OUTLOOK_LOW] = GPUS_DIFFER_MOST, [MW_OUTLOOK_TYPICAL] = GPUS_DIFFER};
    double share = 1 + sides[outlook] * GPUS_DIFFER / 2;

    if (mw_hwprofile_calibrated(machine) || !mw_profile_has_range(machine))
        return;
    hardware->gpus_differ = ranges[outlook] / DEVIATIONS;
    hardware->tile_flops *= share;
    hardware->fp8_tile_flops *= share;
    hardware->gpu_fp32_flops *= share;
    for (int64_t i = 0; i < hardware->matmul_points; i++)
        hardware->matmul_flops[i] *= share;
    for (int64_t i = 0; i < hardware->attention_points; i++)
        hardware->attention_flops[i] *= share;
    for (int i = 0; i < MW_ATTENTION_HEADS; i++) {
        hardware->attention_kernel.forward_flops[i] *= share;
        hardware->attention_kernel.backward_flops[i] *= share;
    }
}

struct mw_hardware
mw_machine_read(const struct mw_profile *machine, const struct mw_profile *software,
                struct mw_model_uses uses, enum mw_outlook outlook)
{
    struct mw_hardware hardware = mw_hwprofile_read(machine, outlook);

    if (software) {
        struct mw_software figures = mw_software_read(software, outlook);
        mw_software_apply(&figures, uses, &hardware);
    }
    vary_gpu(machine, outlook, &hardware);
    return hardware;
}

const struct mw_software_part mw_software_parts[MW_SOFTWARE_PARTS] = {
    {"products", "matrix products"}, {"attention", "attention"}, {"operators", "fusion"},
    {"collectives", "collectives"},  {"offload", "offload"},
};

struct mw_hardware
mw_machine_read_with(const struct mw_profile *machine, const struct mw_profile *software,
                     const struct mw_profile *other, const char *group, struct mw_model_uses uses,
                     enum mw_outlook outlook)
{
    struct mw_hardware hardware = mw_hwprofile_read(machine, outlook);
    struct mw_software figures = mw_software_read(other, outlook);

    mw_profile_store_without(software, group, outlook, &figures);
    mw_software_apply(&figures, uses, &hardware);
    vary_gpu(machine, outlook, &hardware);
    return hardware;
}

/* What has a range, in this order. */
enum { OF_MACHINE, OF_SOFTWARE, OF_ATTENTION, OF_THIS_GPU, RANGES_END };

void
mw_machine_ranges_init(struct mw_machine_ranges *ranges, const struct mw_profile *machine,
                       const struct mw_profile *software, struct mw_model_uses uses,
                       enum mw_outlook outlook)
{
    *ranges = (struct mw_machine_ranges){
        .machine = machine, .software = software, .uses = uses, .outlook = outlook};
    ranges->given = mw_hwprofile_given(machine, MW_OUTLOOK_TYPICAL);
    ranges->figures = mw_software_read(software, MW_OUTLOOK_TYPICAL);
}

/* Stores the next range of the profile at its end; false: it has no more. */
static bool
store_next(struct mw_machine_ranges *ranges, const struct mw_profile *profile, void *out)
{
    size_t key = mw_profile_next_range(profile, ranges->key, ranges->outlook);
    bool found = key < mw_profile_key_count(profile);

    if (found)
        mw_profile_store_key(profile, key, ranges->outlook, out);
    ranges->key = found ? key + 1 : 0;
    return found;
}

bool
mw_machine_ranges_next(struct mw_machine_ranges *ranges, struct mw_hardware *out)
{
    struct mw_software figures = ranges->figures;

    *out = ranges->given;
    if (ranges->of == OF_MACHINE && !store_next(ranges, ranges->machine, out))
        ranges->of = OF_SOFTWARE;
    if (ranges->of == OF_SOFTWARE && !store_next(ranges, ranges->software, &figures))
        ranges->of = OF_ATTENTION;
    if (ranges->of == OF_ATTENTION)
        figures.outlook = ranges->outlook;
    mw_hwprofile_complete(out);
    mw_software_apply(&figures, ranges->uses, out);
    vary_gpu(ranges->machine, ranges->of == OF_THIS_GPU ? ranges->outlook : MW_OUTLOOK_TYPICAL,
             out);
    bool found = ranges->of < RANGES_END;
    ranges->of += ranges->of == OF_ATTENTION || ranges->of == OF_THIS_GPU;
    return found;
}
