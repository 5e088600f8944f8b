/* The key table of software profiles. */
#include <stddef.h>

#include "software/software.h"

#define AT(field) offsetof(struct mw_software, field)
#define TEXT(key, help)                                                                            \
    {                                                                                              \
        "profile", key, "", help, 1, 0, 0, false, 0, MW_VALUE_TEXT, 0, 0, 0, NULL                  \
    }
#define SHARE(group, key, field, help)                                                             \
    {                                                                                              \
        group, key, "", help, 1, 0.01, 1, true, 1, MW_VALUE_REAL, AT(field), 0, 0, NULL            \
    }

#define PASSES(key, field, of)                                                                     \
    {                                                                                              \
        "operators", key, "", "passes over memory of " of ", as a multiple of a fused kernel's",   \
            1, 1, 20, true, -1, MW_VALUE_REAL, AT(field), 0, 0, NULL                               \
    }

#define UNFUSED(key, field, help)                                                                  \
    {                                                                                              \
        "operators", key, "", help, 1, 0, 1, false, -1, MW_VALUE_REAL, AT(field), 0, 0, NULL       \
    }

/* Of a GPU's memory; what a plan does not hold of it already counts. */
#define MEMORY(key, unit, field, min, max, help)                                                   \
    {                                                                                              \
        "memory", key, unit, help, 1, min, max, false, -1, MW_VALUE_REAL, AT(memory.field), 0, 0,  \
            NULL                                                                                   \
    }

#define HOST(key, field, what)                                                                     \
    {                                                                                              \
        "offers", "host_" key, "", "whether it keeps " what " in host memory", 1, 0, 1, true, 0,   \
            MW_VALUE_FLAG, AT(offers.field), 0, 0, NULL                                            \
    }

static const char *const stays[MW_STAY_COUNT + 1] = {
    [MW_STAY_ALWAYS] = "always", [MW_STAY_PARTITIONED] = "partitioned", [MW_STAY_NEVER] = "never"};
static const char *const casts_stay[MW_CASTS_STAY_COUNT + 1] = {
    [MW_CASTS_FORWARD] = "forward", [MW_CASTS_LAYER] = "layer", [MW_CASTS_BACKWARD] = "backward"};
static const char *const places[] = {"host", "gpu", NULL};
static const char *const host_optimizers[] = {"any", "adam", "lion", NULL};
static const char *const sum_types[MW_SUM_TYPE_COUNT + 1] = {
    [MW_SUM_FP32] = "fp32", [MW_SUM_MADE] = "made"};
static const char *const reduced_types[MW_REDUCED_TYPE_COUNT + 1] = {
    [MW_REDUCED_PLANNED] = "planned", [MW_REDUCED_MADE] = "made", [MW_REDUCED_FP32] = "fp32"};

/* group, key, unit, help, scale, min, max, required, better, kind, offset, part and rate, words */
static const struct mw_profile_key keys[] = {
    TEXT("description", "one line on the software"),
    TEXT("inherits", "the profile that all keys not given here come from"),
    TEXT("date", "when the figures were taken or measured"),
    TEXT("version", "of the software that the figures are of"),

    {"attention", "kernel", "",
     "the first of these that the GPU's generation has: fused, unfused (scores are written to "
     "memory "
     "and read from it), fa1, fa2, fa3, cudnn, triton",
     1, 0, 0, true, 0, MW_VALUE_CHOICES, AT(attention_kernels), 0, 0, mw_attention_kernel_names},
    SHARE("attention", "share", attention_share, "share of that kernel's rate"),
    {"attention", "causal_skip", "",
     "whether the half of the scores that a causal mask hides is not computed", 1, 0, 1, true, 0,
     MW_VALUE_FLAG, AT(causal_skip), 0, 0, NULL},
    {"attention", "score_bias", "",
     "whether that kernel adds what some models add to their scores, such as a bias of relative "
     "positions; else those models' scores are written to memory",
     1, 0, 1, true, 0, MW_VALUE_FLAG, AT(score_bias), 0, 0, NULL},
    SHARE("products", "share", product_share, "share of the machine's rates of matrix products"),
    {"products", "fp8", "", "whether products of the layers' weights are of fp8 operands", 1, 0, 1,
     true, 0, MW_VALUE_FLAG, AT(fp8), 0, 0, NULL},
    {"products", "fp8_cast_bytes", "bytes",
     "that making fp8 operands moves, per element and product that it enters", 1, 0, 100, true, -1,
     MW_VALUE_REAL, AT(fp8_bytes_per_operand), 0, 0, NULL},
    {"attention", "score_forward_bytes", "bytes",
     "that unfused attention moves per score in forward, of 16 bits, without dropout; with "
     "softmax, scale and mask in a kernel that writes what the mask hides: 3",
     1, 1, 200, true, -1, MW_VALUE_REAL, AT(bytes_per_score_forward), 0, 0, NULL},
    {"attention", "score_backward_bytes", "bytes", "the same in backward; with such a kernel: 4", 1,
     1, 200, true, -1, MW_VALUE_REAL, AT(bytes_per_score_backward), 0, 0, NULL},
    {"collectives", "blocking", "", "whether nothing is computed while a collective runs", 1, 0, 1,
     true, 0, MW_VALUE_FLAG, AT(collectives_block), 0, 0, NULL},
    PASSES("layer_norm_passes", layer_norm_passes, "LayerNorm"),
    PASSES("rms_norm_passes", rms_norm_passes, "RMSNorm"),
    PASSES("rotary_passes", rotary_passes, "rotary positions"),
    PASSES("gated_passes", gated_passes, "a gated activation"),
    PASSES("adapter_passes", adapter_passes, "sums of adapters' results and products'"),
    PASSES("update_passes", update_passes, "an update by AdamW on the GPU"),
    UNFUSED(
        "update_unfused", update_unfused,
        "share of updates on the GPU with a kernel for each operation, as PyTorch's foreach has "
        "them, by AdamW and others for which frameworks have one kernel; default: 0"),
    UNFUSED("update_unfused_other", update_unfused_other,
            "the same of optimizers for which frameworks have no such kernel (adafactor, sm3, "
            "muon); default: 0"),
    PASSES("other_passes", other_passes, "residuals, other activations and the rest"),
    {"operators", "loss_bytes", "bytes",
     "that the loss moves per logit, forward and backward, with the cast to fp32 if it makes one",
     1, 1, 200, true, -1, MW_VALUE_REAL, AT(bytes_per_logit), 0, 0, NULL},
    {"operators", "cap_forward_bytes", "bytes",
     "that capping by tanh moves in forward, per logit of a model that caps these (Gemma 2), and "
     "per score that is stored; default: none",
     1, 0, 100, false, -1, MW_VALUE_REAL, AT(forward_bytes_per_cap), 0, 0, NULL},
    {"operators", "cap_backward_bytes", "bytes", "the same in backward; default: none", 1, 0, 100,
     false, -1, MW_VALUE_REAL, AT(backward_bytes_per_cap), 0, 0, NULL},
    {"operators", "kernels", "", "kernels launched for each one that fused software launches", 1, 1,
     100, true, -1, MW_VALUE_REAL, AT(launch_kernels), 0, 0, NULL},
    {"operators", "host_us", "us",
     "host time to launch a kernel: a step takes no less than that of all its kernels; default: "
     "not "
     "a bound",
     1e-6, 0, 1e6, false, -1, MW_VALUE_REAL, AT(launch_host_s), 0, 0, NULL},
    SHARE("operators", "share", operator_share,
          "share of the rate that memory-bound kernels reach at best"),
    SHARE("collectives", "share", collective_share,
          "share of the rates of links between GPUs and between nodes"),
    {"collectives", "hop_us", "us", "added to the latency of a hop", 1e-6, 0, 1e6, true, -1,
     MW_VALUE_REAL, AT(collective_hop_s), 0, 0, NULL},
    {"collectives", "gather_passes", "",
     "bytes of GPU memory that clearing and copying moves around an all-gather of parameters, per "
     "byte gathered; default: none",
     1, 0, 20, false, -1, MW_VALUE_REAL, AT(gather_passes), 0, 0, NULL},
    {"collectives", "reduce_passes", "",
     "the same around a reduction of gradients, per byte reduced; default: none", 1, 0, 20, false,
     -1, MW_VALUE_REAL, AT(reduce_passes), 0, 0, NULL},
    {"collectives", "gradient_type", "",
     "in which GPUs reduce gradients: made, as backward makes them, planned, so, but sums of "
     "several micro-batches in fp32, or fp32",
     1, 0, 2, false, 0, MW_VALUE_CHOICE, AT(reduced_type), 0, 0, reduced_types},
    {"collectives", "gather_kernels", "",
     "kernels and other operators that the host starts for each rank around an all-gather of "
     "parameters, as for lists of tensors; default: none",
     1, 0, 20, false, -1, MW_VALUE_REAL, AT(gather_kernels), 0, 0, NULL},
    {"collectives", "reduce_kernels", "", "the same around a reduction of gradients; default: none",
     1, 0, 20, false, -1, MW_VALUE_REAL, AT(reduce_kernels), 0, 0, NULL},
    {"collectives", "tensor_overlap", "",
     "whether, in backward of a product whose weights are sliced by columns, the sum of its "
     "input's gradient runs beside the product of the weights' gradient",
     1, 0, 1, true, 0, MW_VALUE_FLAG, AT(tensor_overlap), 0, 0, NULL},
    {"collectives", "tensor_pieces", "",
     "whether, with tensor_overlap, slices that share tokens compute their products in as many "
     "pieces as they are, beside which the tokens of the others come or sums of the tokens go; "
     "default: all tokens are there before a product, and sums begin behind it",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(tensor_pieces), 0, 0, NULL},
    {"collectives", "tensor_parts", "",
     "whether slices that share tokens, without tensor_overlap, keep no more than their parts of "
     "products' inputs, which backward gathers again, and sum up gradients of norms' weights as "
     "they are made; default: they keep what forward has gathered",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(tensor_parts), 0, 0, NULL},
    {"collectives", "reduces_at_end", "",
     "whether gradients that every GPU holds whole are all-reduced when backward has ended, even "
     "if each updates a part (ZeRO-1); default: each part goes where it is updated, beside "
     "backward",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(reduces_at_end), 0, 0, NULL},
    {"collectives", "all_reduces_at_end", "",
     "the same of gradients whose every GPU updates all (DDP)", 1, 0, 1, false, 0, MW_VALUE_FLAG,
     AT(all_reduces_at_end), 0, 0, NULL},
    {"collectives", "stage_scatter", "",
     "whether each tensor slice sends its part of what a pipeline stage hands on, and the slices "
     "of the next stage gather it; default: each sends all of it",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(stage_scatter), 0, 0, NULL},
    {"collectives", "stages_block", "",
     "whether nothing is computed while pipeline stages send to each other; default: sends run "
     "beside",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(stages_block), 0, 0, NULL},
    SHARE("offload", "copy_share", copy_share,
          "share of the host links' rates; 1 where memory is pinned"),
    {"offload", "gradient_link_bytes", "bytes",
     "of a gradient's element on its way to the host; default: as backward makes it", 1, 1, 4,
     false, -1, MW_VALUE_COUNT, AT(gradient_link_bytes), 0, 0, NULL},
    {"offload", "parameter_link_bytes", "bytes",
     "of an updated parameter's element on its way to the GPU; default: as it is kept there", 1, 1,
     4, false, -1, MW_VALUE_COUNT, AT(parameter_link_bytes), 0, 0, NULL},
    {"offload", "gradient_copy_gb_per_s", "GB/s",
     "most of a GPU's copies of gradients to the host, such as to memory that is not pinned; "
     "default: the link's rate",
     1e9, 1e-3, 1e4, false, 1, MW_VALUE_REAL, AT(gradient_copy_bytes_per_s), 0, 0, NULL},
    {"offload", "checkpoint_copy_gb_per_s", "GB/s",
     "most of a GPU's copies of activation checkpoints to the host, such as to memory that is not "
     "pinned; default: the link's rate",
     1e9, 1e-3, 1e4, false, 1, MW_VALUE_REAL, AT(checkpoint_copy_bytes_per_s), 0, 0, NULL},
    {"offload", "checkpoint_load_gb_per_s", "GB/s",
     "the same of their copies back to the GPU; default: as to the host", 1e9, 1e-3, 1e4, false, 1,
     MW_VALUE_REAL, AT(checkpoint_load_bytes_per_s), 0, 0, NULL},
    {"offload", "checkpoint_blocking", "",
     "whether nothing is computed while an activation checkpoint is copied", 1, 0, 1, true, 0,
     MW_VALUE_FLAG, AT(checkpoints_block), 0, 0, NULL},
    {"offload", "swaps_gradients", "",
     "whether gradients go to the drives where optimizer state is there, in fp32 and once per "
     "step, summed in host memory before; default: where and as often as planned",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(swaps_gradients), 0, 0, NULL},
    SHARE("offload", "drive_share", drive_share, "share of the drives' rates"),
    {"offload", "update_bytes_per_parameter", "bytes",
     "of host memory that the CPU optimizer moves per parameter; a fused one: 28", 1, 1, 1000, true,
     -1, MW_VALUE_REAL, AT(update_bytes_per_param), 0, 0, NULL},
    {"offload", "one_node_bytes_per_parameter", "bytes",
     "of update_bytes_per_parameter, those in memory that lies whole on the NUMA node of the "
     "thread "
     "that pinned it; default: 0",
     1, 0, 1000, false, -1, MW_VALUE_REAL, AT(update_one_node_bytes_per_param), 0, 0, NULL},
    {"offload", "bound_ranks", "",
     "whether a node's ranks are bound to its NUMA nodes in turn, rather than run anywhere; "
     "default: anywhere",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(ranks_bound), 0, 0, NULL},
    {"update", "beside", "",
     "whether each unit is updated beside backward, once its gradient is final, rather than at the "
     "end",
     1, 0, 1, true, 0, MW_VALUE_FLAG, AT(updates_beside), 0, 0, NULL},
    {"offload", "update_gparams_per_s", "10^9 parameters/s",
     "most that the CPU optimizer of a node updates; default: not a bound", 1e9, 1e-4, 1e4, false,
     1, MW_VALUE_REAL, AT(update_params_per_s), 0, 0, NULL},

    MEMORY("bucket_elements", "elements", bucket_elements, 0, 1e12,
           "of a bucket in which gradients wait to be reduced, where optimizer state is "
           "partitioned; default: no buckets"),
    MEMORY("buckets", "", buckets, 0, 16, "buckets that a GPU holds at once; default: none"),
    MEMORY("gradient_copies", "", gradient_copies, 0, 4,
           "copies of replicated gradients, in the buckets that are all-reduced; default: 0"),
    MEMORY("gradient_bytes", "bytes", bytes_per_gradient, 1, 16,
           "of a gradient's element as it is kept on the GPU; default: as planned"),
    {"memory", "gradient_sum_type", "",
     "in which it keeps sums of several micro-batches' gradients: fp32, or made, as backward makes "
     "them; default: fp32",
     1, 0, MW_SUM_TYPE_COUNT - 1, false, 0, MW_VALUE_CHOICE, AT(memory.sum_type), 0, 0, sum_types},
    MEMORY("cast_bytes", "bytes", bytes_per_cast, 0, 4,
           "of the 16-bit copy that forward makes of a parameter, where the fp32 ones are the only "
           "ones: nothing is partitioned, or parameters are; default: 0"),
    {"memory", "casts_stay", "",
     "until when those copies are there, beside those of layers that keep activations, which stay "
     "until their backward: forward, all until it ends, layer, while a layer is computed, or "
     "backward, all until it ends; default: forward",
     1, 0, 1, false, 0, MW_VALUE_CHOICE, AT(memory.casts_stay), 0, 0, casts_stay},
    MEMORY("frozen_bytes", "bytes", bytes_per_frozen, 1, 4,
           "of a frozen parameter that stays whole where others are in fewer bits; default: as "
           "planned"),
    MEMORY("update_gradient_bytes", "bytes", update_bytes_per_gradient, 1, 64,
           "of a gradient, with its copies, while a parameter is updated on the GPU that has an "
           "fp32 copy; default: as gradients are kept"),
    MEMORY("update_gradient_bytes_whole", "bytes", update_bytes_per_whole_gradient, 1, 64,
           "the same where no state is partitioned; default: as update_gradient_bytes"),
    MEMORY("update_foreach_share", "", foreach_share, 0, 1,
           "share of updates that take all parameters as a list, as PyTorch's foreach does, and "
           "copy of all; fused kernels copy nothing; default: 0"),
    {"memory", "update_flat_tensor", "",
     "whether all parameters that a rank updates are one flat tensor, which an update that takes "
     "tensor after tensor copies whole",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.updates_flat_tensor), 0, 0, NULL},
    {"memory", "update_flat_parts", "",
     "whether a rank's part of a parameter whose state is partitioned is a row of elements for the "
     "optimizer, which keeps no vectors of rows and columns then",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.updates_flat_parts), 0, 0, NULL},
    MEMORY("update_sub_group", "elements", update_sub_group, 0, 1e13,
           "that a rank updates at once where parameters are partitioned (ZeRO-3), or a "
           "chunk of the optimizer if that is more; default: all"),
    {"memory", "update_fp32_in_place", "",
     "whether parameters of fp32 are updated in place; else optimizer state has a copy of them", 1,
     0, 1, false, 0, MW_VALUE_FLAG, AT(memory.updates_fp32_in_place), 0, 0, NULL},
    MEMORY(
        "offload_bytes", "bytes", bytes_per_offloaded, 0, 64,
        "per element of the largest gradient, with all copies on its way to the host; default: as "
        "planned"),
    MEMORY("host_gradient_bytes", "bytes", host_bytes_per_gradient, 0, 16,
           "in host memory per parameter whose optimizer state is there, of the gradient that its "
           "update reads; default: as planned"),
    MEMORY("host_sum_bytes", "bytes", host_bytes_per_sum, 0, 16,
           "beside it, of the sum of several micro-batches' gradients; default: 0"),
    MEMORY("host_parameter_bytes", "bytes", host_bytes_per_parameter, 0, 16,
           "beside them, of the updated parameter on its way to the GPU; default: as planned"),
    MEMORY("host_gradient_bytes_partitioned", "bytes", host_bytes_per_partitioned_gradient, 0, 16,
           "as host_gradient_bytes, where parameters are partitioned (ZeRO-3)"),
    MEMORY("host_sum_copies_partitioned", "", host_sum_copies_partitioned, 0, 4,
           "copies in host memory of a rank's gradients, as the plan sums them, where parameters "
           "are partitioned and optimizer state is in host memory or on drives; default: 0"),
    {"memory", "swaps_sub_groups", "",
     "whether buffers for states on drives hold whole parameters, and sub-groups of whole ones; "
     "else as planned",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.swaps_sub_groups), 0, 0, NULL},
    MEMORY("pinned_rounding", "", pinned_rounding, 0, 1,
           "share of those pinned buffers in host memory that are rounded up to a power of two; "
           "default: 0"),
    MEMORY("logit_bytes", "bytes", bytes_per_logit, 1, 64,
           "of a logit, with the copies and gradients that the loss makes; default: 4 beside the "
           "logit"),
    MEMORY("logit_forward_bytes", "bytes", forward_bytes_per_logit, 1, 64,
           "of them while the loss is computed, before its gradients; default: as many"),
    {"memory", "cap_bytes", "bytes",
     "kept from forward to backward of a logit, or stored score, that tanh caps (Gemma 2); "
     "default: "
     "none",
     1, 0, 16, false, -1, MW_VALUE_REAL, AT(bytes_per_cap), 0, 0, NULL},
    {"memory", "logits_whole", "",
     "whether the loss is computed of all tokens at once; else in as many chunks as memory asks "
     "for",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.logits_whole), 0, 0, NULL},
    {"memory", "checkpoints_whole", "",
     "whether each tensor slice keeps whole activation checkpoints; else its part of them, which "
     "is gathered for the recompute",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.checkpoints_whole), 0, 0, NULL},
    {"memory", "experts_whole", "",
     "whether experts that are spread over GPUs have room for all tokens of these, in case all "
     "come "
     "to one GPU; else for even shares",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.experts_whole), 0, 0, NULL},
    MEMORY("activations_kept", "", activations_kept, 1, 10,
           "activations kept without recomputation, as a multiple of those that a fused backward "
           "needs; default: 1.74, the most that eager frameworks keep"),
    MEMORY("wide_layer_bytes", "bytes", wide_bytes_kept, 0, 100,
           "kept more of a layer, per token and element of the hidden size, where parameters of "
           "fp32 are cast where they are used, so that fp32 passes from layer to layer; default: "
           "0"),
    {"memory", "narrow_as_input", "",
     "whether products with weights in 4 or 8 bits give results of their input's type, fp32 where "
     "that passes from layer to layer",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.narrow_as_input), 0, 0, NULL},
    {"memory", "autocast_partitioned", "",
     "whether autocast is on where state is partitioned too; else what partitions it casts all "
     "parameters to 16 bits, also those that were made fp32",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.autocast_partitioned), 0, 0, NULL},
    {"memory", "adapters_cast", "",
     "whether each adapter keeps a cast of its own of what it takes; then what layers of Llama's "
     "kind keep, whose own parameters are frozen, is counted one by one",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.adapters_cast), 0, 0, NULL},
    {"memory", "int8_inputs_kept", "",
     "whether products with weights in 8 bits keep their input, of its type, though nobody trains "
     "these; counted where adapters_cast is",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.int8_inputs_kept), 0, 0, NULL},
    {"memory", "embedding_unblocked", "",
     "whether an optimizer with moments in 8 bits keeps those of the embedding in fp32", 1, 0, 1,
     false, 0, MW_VALUE_FLAG, AT(memory.embedding_unblocked), 0, 0, NULL},
    MEMORY("softmax_bytes", "bytes", bytes_per_softmax, 1, 16,
           "kept of a stored score for softmax's backward, where that is another tensor than the "
           "one that the product with the values reads; default: the same tensor"),
    MEMORY("allocator_loss", "", allocator_loss, 0, 0.9,
           "share of the allocator's memory that it cannot give: fragments and cached blocks; "
           "default: 0"),
    {"memory", "caching", "",
     "whether its allocator gives bytes that a tensor leaves to later ones, so that a step needs "
     "the most that is alive at a time; else all that the plan has, as if it were alive at once",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.caching), 0, 0, NULL},
    {"memory", "gradients_stay", "",
     "where gradients keep their memory from step to step: always, partitioned, where parameters "
     "are partitioned, or never, so that each backward makes them anew",
     1, 0, 1, false, 0, MW_VALUE_CHOICE, AT(memory.gradients_stay), 0, 0, stays},
    MEMORY("beside_tensors", "", tensors_beside, 0, 1000,
           "tensors whose gradients are there at once where the update runs beside backward and "
           "frees each as it takes it; default: those of as many layers as the plan counts"),
    MEMORY("whole_blocks", "", whole_blocks, 0, 16,
           "blocks of the model whose parameters are whole at once in backward, of software that "
           "gathers and reduces block by block where gradients are partitioned: of one of them "
           "gradients are there as they are made, and of another as they are reduced; default: as "
           "planned, part by part"),
    {"memory", "ends_stay", "",
     "whether then all that is in no layer is one block, which stays whole from forward to the end "
     "of backward; else the embedding and the logits' weight are a block each",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.ends_stay), 0, 0, NULL},
    {"memory", "fp8_parameters", "",
     "whether parameters of products in fp8 are kept in fp8 alone, without a copy in 16 bits", 1, 0,
     1, false, 0, MW_VALUE_FLAG, AT(memory.fp8_parameters), 0, 0, NULL},
    {"memory", "update_frees_others", "",
     "whether the update begins by freeing gradients that are not partitioned and that the rank "
     "does not update",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(memory.update_frees_others), 0, 0, NULL},

    {"start", "partitions", "",
     "whether a model whose parameters are partitioned is made in parts, rather than whole by each "
     "rank",
     1, 0, 1, false, 0, MW_VALUE_FLAG, AT(start.partitions), 0, 0, NULL},
    {"start", "made_on", "", "where a rank makes a whole model: host or gpu", 1, 0, 1, false, 0,
     MW_VALUE_CHOICE, AT(start.made_on_gpu), 0, 0, places},
    {"start", "bytes_per_parameter", "bytes",
     "of a model that a rank makes whole; default: not known", 1, 0.5, 16, false, -1, MW_VALUE_REAL,
     AT(start.bytes_per_param), 0, 0, NULL},
    {"start", "gparams_per_s", "10^9 parameters/s",
     "that a rank makes in host memory; default: no bound", 1e9, 1e-6, 1e4, false, 1, MW_VALUE_REAL,
     AT(start.params_per_s), 0, 0, NULL},

    {"offers", "drives", "", "whether it keeps state on drives", 1, 0, 1, true, 0, MW_VALUE_FLAG,
     AT(offers.drives), 0, 0, NULL},
    HOST("parameters", host_parameters, "parameters"),
    HOST("gradients", host_gradients, "gradients, until the update,"),
    HOST("activations", host_activations, "activations or their checkpoints"),
    {"offers", "partitioned_stages", "",
     "whether gradients or parameters may be partitioned (ZeRO-2, ZeRO-3) beside pipeline stages",
     1, 0, 1, true, 0, MW_VALUE_FLAG, AT(offers.partitioned_stages), 0, 0, NULL},
    {"offers", "grouped_experts", "",
     "whether a kernel computes all experts of a layer, rather than one after the other", 1, 0, 1,
     true, 0, MW_VALUE_FLAG, AT(offers.grouped_experts), 0, 0, NULL},
    {"offers", "expert_parallel", "",
     "whether it spreads experts of a layer over GPUs, and sends tokens to them by all-to-alls", 1,
     0, 1, true, 0, MW_VALUE_FLAG, AT(offers.expert_parallel), 0, 0, NULL},
    {"offers", "context_ring", "",
     "whether GPUs share the tokens of sequences, and keys and values pass around a ring of them",
     1, 0, 1, true, 0, MW_VALUE_FLAG, AT(offers.context_ring), 0, 0, NULL},
    {"offers", "context_all_to_all", "",
     "whether GPUs share the tokens of sequences, and all-to-alls give each whole ones of some "
     "heads for attention",
     1, 0, 1, true, 0, MW_VALUE_FLAG, AT(offers.context_all_to_all), 0, 0, NULL},
    {"offers", "recomputed_layers", "",
     "whether it recomputes some layers alone, and keeps the activations of the others", 1, 0, 1,
     true, 0, MW_VALUE_FLAG, AT(offers.recomputed_layers), 0, 0, NULL},
    {"offers", "sequence_parallel", "",
     "whether tensor slices share the tokens of what they do not slice, norms, residuals and "
     "dropout",
     1, 0, 1, true, 0, MW_VALUE_FLAG, AT(offers.sequence_parallel), 0, 0, NULL},
    {"offers", "sequence_parallel_default", "",
     "whether it does so, where it can, unless asked not to; else where asked to", 1, 0, 1, true, 0,
     MW_VALUE_FLAG, AT(offers.sequence_parallel_default), 0, 0, NULL},
    {"offers", "hybrid_shard", "",
     "whether it partitions states over groups of GPUs, and each group has them all", 1, 0, 1, true,
     0, MW_VALUE_FLAG, AT(offers.hybrid_shard), 0, 0, NULL},
    {"offers", "tiled_operators", "",
     "whether it computes an operator that is too large in tiles, one after the other "
     "(memory-centric tiling)",
     1, 0, 1, true, 0, MW_VALUE_FLAG, AT(offers.tiled_operators), 0, 0, NULL},
    {"offers", "narrow_weights", "",
     "whether it keeps frozen weights in fewer bits than what it trains (QLoRA)", 1, 0, 1, true, 0,
     MW_VALUE_FLAG, AT(offers.narrow_weights), 0, 0, NULL},
    {"offers", "int8_weights_leave", "",
     "whether frozen weights in 8 bits may be in parts over GPUs, in host memory or on drives", 1,
     0, 1, true, 0, MW_VALUE_FLAG, AT(offers.int8_weights_leave), 0, 0, NULL},
    {"offers", "update_beside", "",
     "whether it updates each parameter beside backward, if it is asked to (LOMO, an optimizer in "
     "backward)",
     1, 0, 1, true, 0, MW_VALUE_FLAG, AT(offers.update_beside), 0, 0, NULL},
    {"offers", "host_optimizers", "",
     "kernels that update in host memory: any, or adam and lion, with moments as wide as the "
     "parameters that they update; default: any",
     1, 0, 0, false, 0, MW_VALUE_CHOICES, AT(offers.host_optimizers), 0, 0, host_optimizers},
    {"offers", "gpus", "", "most GPUs that it trains with; default: any number", 1, 1, 1e6, false,
     -1, MW_VALUE_COUNT, AT(offers.gpus), 0, 0, NULL},
};

const struct mw_profile_kind mw_software_kind = {
    .folder = "software",
    .noun = "software profile",
    .set_prefix = "software.",
    .example = "operators.rms_norm_passes=4",
    .keys = keys,
    .key_count = G_N_ELEMENTS(keys),
};
