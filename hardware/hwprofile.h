/*
 * hwprofile.h - hardware profiles: one machine each, read from hwprofiles/NAME.ini (profile/).
 *
 * struct mw_profile is the file as read; mw_hardware is one flat reading of it, in SI units, that
 * the planner and the cost model use.  Capacities and reserves have no range.
 */
#ifndef MW_HARDWARE_HWPROFILE_H
#define MW_HARDWARE_HWPROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"

#define MW_MATMUL_POINTS_MAX MW_PROFILE_LIST_MAX
#define MW_TILE_SHARES 4     /* tiles of 256x128, 128x128, 128x64 and 64x64 elements */
#define MW_ATTENTION_HEADS 3 /* heads of 64, 128 and 256 */

/* What decides which kernels of attention there are, and how fast: the generation of a GPU. */
enum mw_architecture {
    MW_ARCHITECTURE_UNKNOWN, /* not stated */
    MW_ARCHITECTURE_VOLTA,
    MW_ARCHITECTURE_TURING,
    MW_ARCHITECTURE_AMPERE,
    MW_ARCHITECTURE_ADA,
    MW_ARCHITECTURE_HOPPER,
    MW_ARCHITECTURE_BLACKWELL,
    MW_ARCHITECTURE_BLACKWELL_RTX, /* sm_120: without the tensor memory of sm_100 */
    MW_ARCHITECTURE_COUNT
};

/* The kernel that software uses (software/attention.h), on this machine. */
struct mw_attention_rates {
    double forward_flops[MW_ATTENTION_HEADS];  /* on long sequences, of the scores that it computes;
                                                * 0: not known */
    double backward_flops[MW_ATTENTION_HEADS]; /* the same */
    double half_keys, causal_half_keys;        /* keys of a sequence at which it has half of that */
};

/* Where an operator's kernels run: its backward may begin with its forward once more. */
enum mw_turn { MW_TURN_FORWARD, MW_TURN_BACKWARD, MW_TURN_BACKWARD_AGAIN, MW_TURN_COUNT };

/* Where gradients keep their memory when the update has used them: always, where parameters are
 * partitioned, or never; else backward makes them anew. */
enum mw_gradients_stay { MW_STAY_ALWAYS, MW_STAY_PARTITIONED, MW_STAY_NEVER, MW_STAY_COUNT };

/* What a framework takes of memory beside what a plan says of it (docs/MODEL.md 12.9 to 12.16e).
 * All 0: nothing. */
struct mw_memory_use {
    double bucket_elements;    /* of a bucket of gradients to be reduced, where optimizer state is
                                * partitioned */
    double buckets;            /* of them at once */
    double gradient_copies;    /* of replicated gradients, in the buckets that are all-reduced */
    double bytes_per_gradient; /* on the GPU, as they are kept; a plan may keep fewer */
    double update_bytes_per_gradient; /* with its copies, as updates of fp32 parameters take it; */
    double update_bytes_per_whole_gradient; /* and where no state is partitioned; 0: as many */
    double foreach_share;       /* of updates that take all parameters as a list, and copy of all
                                 * (plan/optimizers.h) */
    bool updates_flat_tensor;   /* what a rank updates is one tensor */
    bool updates_flat_parts;    /* its part of a parameter is no matrix */
    double update_sub_group;    /* elements that it updates at once, of partitioned parameters; 0:
                                 * all */
    bool updates_fp32_in_place; /* parameters of fp32 themselves, and state has no copy of them */
    int sum_type;               /* enum mw_sum_type, of micro-batches' gradients as they are kept */
    double bytes_per_cast;      /* of a parameter's copy in 16 bits that forward makes for backward,
                                * where an optimizer has fp32 parameters, and all of them */
    double bytes_per_frozen;    /* of a frozen parameter that is not narrowed, where others are */
    double bytes_per_offloaded; /* per element of the largest gradient, with its copies, on its way
                                 * to the host */
    double host_bytes_per_gradient;  /* in host memory, of parameters whose state is there; */
    double host_bytes_per_sum;       /* and of their sums over micro-batches; */
    double host_bytes_per_parameter; /* and of the updated ones on their way to the GPU */
    /* Where parameters are partitioned: the first of these, and copies of a rank's gradients as the
     * plan sums them, wherever off the GPU the state is. */
    double host_bytes_per_partitioned_gradient, host_sum_copies_partitioned;
    bool swaps_sub_groups;          /* for the drives, in buffers of whole ones; else as planned */
    double pinned_rounding;         /* share of pinned buffers that are rounded up to powers of 2 */
    int casts_stay;                 /* enum mw_casts_stay, of those copies */
    double bytes_per_logit;         /* of logits, loss and their gradients; a plan may keep fewer */
    double forward_bytes_per_logit; /* of these while the loss's forward runs; 0: as many */
    bool logits_whole;              /* the loss is computed of all tokens at once */
    bool checkpoints_whole;         /* each tensor slice keeps all of an activation checkpoint */
    bool experts_whole; /* spread experts have room for all tokens of the GPUs that share them */
    double bytes_per_softmax; /* kept of a stored score beside what a product reads; 0: nothing */
    double bytes_per_cap;     /* and of one that tanh caps */
    double activations_kept;  /* without recomputation, as a multiple of those counted; 0: the
                                 * bound of eager frameworks */
    double wide_bytes_kept; /* more, of a token and an element of the hidden size, of a layer whose
                               * parameters of fp32 are cast where they are used */
    bool narrow_as_input;   /* products with narrow weights give results of their input's type */
    bool autocast_partitioned; /* where state is partitioned too; else what partitions it casts
                                * the module to 16 bits */
    bool adapters_cast;        /* adapters keep a cast of their own of their input */
    bool int8_inputs_kept;     /* products with weights in 8 bits keep their input as it came */
    bool
        embedding_unblocked; /* an optimizer with moments in blocks keeps the embedding's in fp32 */
    double allocator_loss;   /* share of the allocator's memory that it cannot give */
    bool caching;            /* it gives the same bytes to what lives at other times of a step */
    int gradients_stay;      /* enum mw_gradients_stay */
    double tensors_beside;   /* whose gradients are there at once where the update runs beside
                               * backward; 0: of as many layers as the plan has */
    double whole_blocks;     /* whose parameters are whole at once in backward, where these are
                               * gathered block by block; 0: as planned, part by part */
    bool ends_stay;          /* whole meanwhile, parameters that are in no layer */
    bool fp8_parameters;     /* those of products in fp8 have no 16-bit copy */
    bool update_frees_others; /* gradients that the rank does not update, before it does */
};

/* How a framework makes a model before the first step (docs/MODEL.md 12.17 to 12.19).  All 0: not
 * known. */
struct mw_start_use {
    bool partitions;        /* parameters that are partitioned are made in parts; else each rank
                             * makes all of the model */
    int made_on_gpu;        /* where a rank makes it: 1, else in host memory */
    double bytes_per_param; /* of a whole model */
    double params_per_s;    /* made by a rank in host memory; 0: takes no time */
};

/* Until when copies in 16 bits of fp32 parameters are there, of layers that are recomputed.  Those
 * of layers that keep their activations wait for their backward. */
enum mw_casts_stay {
    MW_CASTS_FORWARD,  /* all until forward ends */
    MW_CASTS_LAYER,    /* a layer's while it is computed */
    MW_CASTS_BACKWARD, /* all until backward ends */
    MW_CASTS_STAY_COUNT
};

/* The type in which sums of several micro-batches' gradients are kept. */
enum mw_sum_type {
    MW_SUM_FP32,
    MW_SUM_MADE, /* as backward makes a gradient */
    MW_SUM_TYPE_COUNT
};

/* The type in which GPUs reduce gradients. */
enum mw_reduced_type {
    MW_REDUCED_PLANNED, /* as made, but sums of micro-batches in fp32 */
    MW_REDUCED_MADE,    /* by backward, sums too */
    MW_REDUCED_FP32,
    MW_REDUCED_TYPE_COUNT
};

/* Kernels that update in host memory; Adam's and Lion's have moments as wide as the parameters that
 * they update. */
enum mw_host_optimizer { MW_HOST_ANY, MW_HOST_ADAM, MW_HOST_LION };

/* What a software can do at all. */
struct mw_offers {
    bool drives;             /* keeps state on drives */
    bool host_parameters;    /* keeps parameters in host memory, */
    bool host_gradients;     /* gradients, until the update, */
    bool host_activations;   /* and activations, or their checkpoints */
    bool partitioned_stages; /* ZeRO-2 and ZeRO-3 beside pipeline stages */
    bool grouped_experts;    /* a kernel computes all experts of a layer */
    bool expert_parallel;    /* spreads experts over ranks, and sends tokens there */
    bool context_ring;       /* shares sequences, whose keys and values pass around a ring, */
    bool context_all_to_all; /* or whose heads are exchanged for attention */
    bool recomputed_layers;  /* recomputes some layers, and keeps the activations of the others */
    bool sequence_parallel;  /* tensor slices share the tokens of norms, residuals and dropout, */
    bool sequence_parallel_default; /* and do so unless the settings say otherwise */
    bool hybrid_shard;              /* partitions over groups of GPUs that hold replicas */
    bool tiled_operators;           /* cuts an operator into tiles that are computed in turn */
    bool narrow_weights;            /* keeps frozen weights in fewer bits than all parameters */
    bool int8_weights_leave;        /* those in 8 bits too where they are not whole on a GPU */
    bool update_beside;             /* updates beside backward, if asked to */
    int64_t gpus;                   /* most; 0: any number */
    int host_optimizers[MW_PROFILE_LIST_MAX]; /* enum mw_host_optimizer, -1 after the last */
};

struct mw_hardware {
    /* [node] */
    int64_t gpus_per_node;
    int64_t nodes_max;              /* available nodes; 0: not stated */
    double price_usd_per_hour;      /* a node; 0: not stated */
    double spot_price_usd_per_hour; /* the same of one that may be taken back; 0: not stated */
    double price_usd;               /* to buy a node; 0: not stated */
    double amortisation_years;      /* over which a bought node is written off */
    double electricity_usd_per_kwh; /* 0: not stated */
    double power_w;                 /* a node under load; 0: not stated */

    /* [gpu], each */
    int64_t gpu_memory_bytes;
    int64_t gpu_reserve_bytes;         /* driver context, libraries, display */
    int64_t gpu_largest_request_bytes; /* fragmentation; default: memory less reserve */
    double gpu_memory_bytes_per_s;     /* achievable, not nominal */
    double gpu_operator_bytes_per_s;   /* what norms, activations and sums reach of it; 0: all */
    /* What memwall's own kernels of a kind reach; 0: as gpu_operator_bytes_per_s. */
    double gpu_layer_norm_bytes_per_s, gpu_rms_norm_bytes_per_s, gpu_activation_bytes_per_s,
        gpu_gated_bytes_per_s, gpu_rotary_bytes_per_s;
    double gpu_loss_bytes_per_s; /* what the loss reaches, by its planned bytes; 0: all */
    double gpu_peak_flops;       /* dense 16-bit, datasheet: the base of MFU */
    double gpu_fp32_flops;       /* products of fp32, no tensor cores; 0: not stated */
    double gpu_achievable_flops; /* of whole layers without communication: the base of
                                          "efficiency" */
    int gpu_architecture;        /* enum mw_architecture */
    int64_t gpu_multiprocessors; /* 0: products have a curve; else tiles (sim/kernels.h): */
    double tile_flops;           /* rate of all, on the largest tiles without start and end */
    double sustained_share;      /* of that rate in long runs; 0: all */
    double tile_fill;            /* elements of k in whose time a tile starts and ends */
    double tile_shares[MW_PROFILE_LIST_MAX]; /* of that rate, by size of tile */
    /* The same of fp8, in long runs; 0: it has no fp8, or none is known */
    double fp8_tile_flops, fp8_tile_fill, fp8_tile_shares[MW_PROFILE_LIST_MAX];
    /* Of the host, as the cpu backend measured: memory traffic beyond a cube's adds to the time of
     * products. */
    bool gpu_is_cores;
    int64_t matmul_points; /* curve: rate over the size (m·n·k)^(1/3) of a product */
    double matmul_dim[MW_MATMUL_POINTS_MAX];
    double matmul_flops[MW_MATMUL_POINTS_MAX];
    /* Of that rate, what products reach that give a result, the gradient of an input and that of
     * weights: one each a point; zeros: all of it. */
    double matmul_forward_share[MW_MATMUL_POINTS_MAX], matmul_input_share[MW_MATMUL_POINTS_MAX],
        matmul_weight_share[MW_MATMUL_POINTS_MAX];
    int64_t attention_points; /* the same of attention, m·n·k = seq·seq·head; 0: as products */
    double attention_dim[MW_MATMUL_POINTS_MAX];
    double attention_flops[MW_MATMUL_POINTS_MAX];
    /* Of that rate, which is then of heads of 64, what forward and backward reach with heads of 64,
     * 128 and 256; zeros: the curve knows heads by their size alone. */
    double attention_forward_share[MW_PROFILE_LIST_MAX],
        attention_backward_share[MW_PROFILE_LIST_MAX];
    struct mw_attention_rates attention_kernel; /* of the software; zeros: the curve, or tiles */
    /* Over memory, of the software's kernels, as a multiple of fused ones; 0: 1. */
    double norm_passes, position_passes, activation_passes, adapter_passes, update_passes,
        other_passes;
    /* Shares of updates on the GPU with a kernel for each operation: by optimizers for which
     * frameworks have a fused kernel, and by others. */
    double update_unfused, update_unfused_other;
    double score_passes[MW_TURN_COUNT]; /* of attention that stores its scores */
    double attention_share;             /* of that rate; 0: all */
    bool attention_skips;               /* what a causal mask hides is not computed */
    bool fp8_products;                  /* the software computes layers' products in fp8 */
    double fp8_bytes_per_operand;       /* that it moves to make an operand of fp8, per element */
    bool updates_beside;                /* the software updates beside backward */
    bool tensor_overlap;                /* it sums up gradients of tensor slices' inputs while it
                                         * computes those of the weights */
    bool tensor_pieces;                 /* and computes sliced products in pieces, beside which
                                         * tokens of other slices come or sums go */
    bool tensor_parts;                  /* without that, slices keep parts of tokens alone */
    struct mw_memory_use memory_use;    /* of the software, beside the plan */
    struct mw_start_use start;          /* of the software */
    struct mw_offers offers;            /* likewise */
    bool reduces_at_end;                /* whole gradients, where state is partitioned */
    bool all_reduces_at_end;            /* the same where it is not */
    bool stage_scatter;                 /* slices send parts of what a stage hands on */
    bool stages_block;                  /* nothing is computed while stages send */
    bool swaps_gradients;               /* with state on drives, in fp32, summed before */
    int64_t gradient_link_bytes;        /* an element, on its way to the host; 0: as it is made */
    int64_t parameter_link_bytes;       /* an updated one, on its way back; 0: as it is kept */
    int reduced_type;                   /* enum mw_reduced_type, of gradients between GPUs */
    double gradient_copy_bytes_per_s;   /* to the host, of the software; 0: the link's rate */
    double checkpoint_copy_bytes_per_s; /* to the host, likewise */
    double checkpoint_load_bytes_per_s; /* and back, likewise */
    bool checkpoints_block;             /* the software computes nothing while it copies one */
    double gpu_launch_s;                /* per kernel, not hidden */
    double host_launch_s; /* of the host's time per kernel of a plan; 0: it is never late */
    double gpus_differ;   /* standard deviation of the time that GPUs of this kind take, as a share
                             of it; 0: all are alike */
    double gather_passes; /* bytes of GPU memory that the software moves around a gather of
                             parameters, per byte gathered; 0: none */
    double reduce_passes; /* the same around a reduction of gradients */
    double gather_kernels, reduce_kernels; /* that it starts around them, per rank */
    double gpu_collective_sm_share; /* of the multiprocessors, taken by a running collective */
    double gpu_host_sm_share; /* by an update or a pass on the host: its cores are the device's */
    double gpu_copy_sm_share; /* by each copy between host and device */
    double gpu_nvme_sm_share; /* by each transfer to or from the drives */
    bool gpu_flash_attention; /* attention that never writes the score matrix */
    bool gpu_bf16;            /* else fp16 */

    /* [pcie] */
    double pcie_h2d_bytes_per_s, pcie_d2h_bytes_per_s;           /* one GPU alone */
    double pcie_node_h2d_bytes_per_s, pcie_node_d2h_bytes_per_s; /* all GPUs of a node at once */
    double pcie_latency_s;

    /* [host], a node */
    int64_t host_memory_bytes;
    int64_t host_reserve_bytes;
    int64_t host_largest_request_bytes;
    double host_memory_bytes_per_s;     /* achievable, reads and writes together */
    double host_checksum_bytes_per_s;   /* of one core; 0: not given */
    double host_norm_bytes_per_s;       /* what the gradient norm reaches of it; 0: all */
    double host_exact_sums_bytes_per_s; /* exact sums of squares likewise; 0: as the norm */
    double host_update_params_per_s;    /* fused Adam, all cores of a node */
    int64_t host_numa_nodes;            /* each with its part of the memory; 0: one */
    /* Of the software's update: the part of its bytes that lies on the one NUMA node where a rank
     * pinned it, and whether ranks are bound to NUMA nodes in turn. */
    double update_one_node_share;
    bool ranks_bound;

    /* [nvme], a node; capacity 0: no drives */
    int64_t nvme_drives;         /* alike; for what one more would gain (rates are of all) */
    int64_t nvme_capacity_bytes; /* usable, all drives */
    int64_t nvme_reserve_bytes;  /* file system, free space kept */
    double nvme_read_bytes_per_s;
    double nvme_write_bytes_per_s;       /* sustained */
    double nvme_write_burst_bytes_per_s; /* until the cache is full */
    int64_t nvme_cache_bytes;
    double nvme_duplex; /* 1: reads and writes share the drives' time; 2: independent */
    /* While both directions are busy, in place of duplex; 0: not given */
    double nvme_mixed_read_bytes_per_s, nvme_mixed_write_bytes_per_s;
    double nvme_latency_s;
    int64_t nvme_queue_depth;     /* requests in flight in one direction, all drives */
    int64_t nvme_block_bytes;     /* of a request; default 1 MiB */
    int64_t nvme_endurance_bytes; /* rated, all drives; 0: not stated */
    double nvme_price_usd;        /* to replace all drives; 0: not stated */

    /* [fabric], between the GPUs of a node; [network], between nodes */
    double fabric_bytes_per_s; /* one GPU, each direction, as a ring uses it */
    double fabric_latency_s;   /* a hop */
    double nic_bytes_per_s;    /* a node, each direction; 0: one node only */
    double nic_latency_s;
    /* Of a collective, before its first hop, within a node and over nodes; 0: collectives are one
     * ring, without protocols (hardware/ring.h) */
    double fabric_start_s, nic_start_s;
    double fabric_all_reduce_bytes_per_s; /* computed by the switch; 0: it does not compute */
    double nic_gpu_bytes_per_s;           /* one GPU between nodes; 0: all that its node has */
};

/* What a machine may have more of, or a rank only a share of: figures of that part go with it
 * (hardware/scale.h).  A new figure says here what it is of, and all that enlarges, shares or
 * varies a machine knows. */
enum mw_hw_part {
    MW_HW_PART_NONE,        /* a latency, a share, a link, a node as a whole */
    MW_HW_PART_GPU,         /* of one GPU: of a part of its memory and cores so much less */
    MW_HW_PART_HOST_MEMORY, /* of a node's memory modules */
    MW_HW_PART_DRIVES,      /* of all drives of a node, which are alike */
};

/* What what-if varies: the figures of one rate vary together. */
enum mw_hw_rate {
    MW_HW_RATE_NONE,
    MW_HW_RATE_GPU_MEMORY,
    MW_HW_RATE_PRODUCTS, /* matrix products and attention */
    MW_HW_RATE_PCIE,
    MW_HW_RATE_HOST, /* memory and cores */
    MW_HW_RATE_NVME, /* and the requests in flight that it takes */
    MW_HW_RATE_FABRIC,
    MW_HW_RATE_NETWORK,
    MW_HW_RATE_HOP, /* not a rate but the latency of a collective's hop */
};

/* Of the rows: `part` is an enum mw_hw_part and `rate` an enum mw_hw_rate; of rows that share a
 * field, one has them. */
extern const struct mw_profile_kind mw_hwprofile_kind;
const struct mw_profile_key *mw_hw_keys(size_t *count);
const struct mw_profile_key *mw_hw_key(const char *group, const char *key); /* NULL: none */

/* mw_profile_load and mw_profile_list of this kind; a machine may also be given by its parts, as in
 * "4xrtx4090,ram=256,nvme=2x4TB,pcie=4x8" (hardware/composed.h). */
struct mw_profile *mw_hwprofile_load(const char *name_or_path, GError **error);
char **mw_hwprofile_list(void);
struct mw_hardware mw_hwprofile_read(const struct mw_profile *profile, enum mw_outlook outlook);
/* The two halves of it, between which single keys may be stored anew: what the profile gives, and
 * what follows where it gives nothing. */
struct mw_hardware mw_hwprofile_given(const struct mw_profile *profile, enum mw_outlook outlook);
void mw_hwprofile_complete(struct mw_hardware *hardware);

/* Whether its rate of products in fp8 is known. */
static inline bool
mw_hardware_has_fp8(const struct mw_hardware *hardware)
{
    return hardware->gpu_multiprocessors > 0 && hardware->fp8_tile_flops > 0;
}

/* Bytes of a gradient's element as GPUs reduce it: `made` by backward, and `planned` where sums of
 * micro-batches are reduced in fp32. */
static inline double
mw_hardware_reduced_bytes(const struct mw_hardware *hardware, double made, double planned)
{
    const double bytes[MW_REDUCED_TYPE_COUNT] = {
        [MW_REDUCED_PLANNED] = planned, [MW_REDUCED_MADE] = made, [MW_REDUCED_FP32] = 4};

    return bytes[hardware->reduced_type];
}

/* The names of profiles of which it is, one for each GPU, separated by commas; g_free it. */
char *mw_hwprofiles_with_fp8(void);

/* The machine's last rate as a part of its first rate; 1: unchanged, or not stated. */
double mw_hwprofile_rate_left(const struct mw_profile *profile);
/* Whether nobody sells it at the price to buy it that the profile states (`[profile] discontinued`
 * says why); a price that the user sets is another one. */
bool mw_hwprofile_is_discontinued(const struct mw_profile *profile);
/* Whether the whole profile was measured: `[profile] calibrated` says when, and every figure that
 * carries time is measured.  A profile that inherits or changes such a profile does not count. */
bool mw_hwprofile_calibrated(const struct mw_profile *profile);

#endif
