/*
 * software.h - software profiles: what a training framework does to a step, read from
 * software/NAME.ini (profile/).
 *
 * A hardware profile says what a machine can do, whoever uses it.  A software profile says what a
 * framework of some year gets out of it, as mechanisms with sources and ranges: passes over memory
 * that it does not fuse, the share of a rate that its kernels reach, pageable copies, a CPU
 * optimizer that moves more bytes, and what it takes of a GPU's memory beside a plan.
 * mw_software_apply turns the reading of a machine into that of the machine as the software uses
 * it, which planner and simulator then take: they know nothing of software.  `ideal` leaves a
 * machine as it is.
 *
 * Equations: docs/MODEL.md, section 12.
 */
#ifndef MW_SOFTWARE_SOFTWARE_H
#define MW_SOFTWARE_SOFTWARE_H

#include "hardware/hwprofile.h"
#include "software/attention.h"

struct mw_software {
    enum mw_outlook outlook;                    /* of which this is the reading */
    int attention_kernels[MW_PROFILE_LIST_MAX]; /* enum mw_attention_kernel, preferred first; -1
                                                 * after the last */
    double attention_share;                     /* of the rate of the kernel that it uses */
    bool score_bias;                /* its kernels add what a model adds to scores; else stored */
    bool causal_skip;               /* the half of the scores that is masked is not computed */
    double product_share;           /* of its rates of matrix products */
    bool fp8;                       /* products of the layers' weights are of fp8 operands */
    double fp8_bytes_per_operand;   /* moved per element of an operand and product that it enters */
    double bytes_per_score_forward; /* moved per stored score, without dropout's */
    double bytes_per_score_backward; /* likewise */
    bool collectives_block;          /* nothing is computed while one runs */
    bool updates_beside; /* backward, each unit once its gradient is final; else at the end */
    bool tensor_overlap; /* inputs' gradients of tensor slices are summed up beside the products of
                          * the weights' gradients; else nothing is computed meanwhile */
    bool tensor_pieces;  /* and where slices share tokens, their products are in pieces, beside
                          * which the tokens come or their sums go */
    bool tensor_parts;   /* without that, slices that share tokens gather products' inputs again in
                          * backward, and sum up gradients of norms as they are made */
    /* Over memory, as a multiple of fused kernels'. */
    double layer_norm_passes, rms_norm_passes, rotary_passes, gated_passes, adapter_passes,
        update_passes, other_passes;
    double update_unfused;         /* share of updates with a kernel for each operation, */
    double update_unfused_other;   /* and of optimizers that have no fused kernel in frameworks */
    double bytes_per_logit;        /* moved per logit, forward and backward */
    double forward_bytes_per_cap;  /* moved per logit, or stored score, that tanh caps, */
    double backward_bytes_per_cap; /* and in backward */
    double bytes_per_cap;          /* kept of one from forward to backward */
    double launch_kernels;         /* that it starts for each that a plan counts */
    double launch_host_s;          /* of the host, to start one of them; 0: no bound */
    double operator_share;         /* of the rate that such kernels reach at best */
    double collective_share;       /* of the links' rates */
    double collective_hop_s;       /* added to a hop's latency */
    double gather_passes;          /* of GPU memory, that a gather of parameters adds to... */
    double reduce_passes;          /* ...and a reduction of gradients: bytes per byte */
    double gather_kernels;         /* that it starts around such a gather, per rank */
    double reduce_kernels;         /* around such a reduction */
    double copy_share;             /* of the host links' rates: 1 with pinned memory */
    bool reduces_at_end;           /* whole gradients, where state is partitioned */
    bool all_reduces_at_end;       /* the same where it is not */
    bool stage_scatter;            /* slices send parts of what a stage hands on */
    bool stages_block;             /* nothing is computed while stages send */
    bool swaps_gradients;          /* with state on drives, in fp32, summed before */
    int reduced_type;              /* enum mw_reduced_type, of gradients between GPUs */
    int64_t gradient_link_bytes;   /* of an element on its way to the host; 0: as it is made */
    int64_t parameter_link_bytes;  /* of an updated one on its way back; 0: as it is kept */
    double gradient_copy_bytes_per_s;       /* to the host at most, of a GPU; 0: no bound */
    double checkpoint_copy_bytes_per_s;     /* of checkpoints, to the host, likewise */
    double checkpoint_load_bytes_per_s;     /* and back; 0: as to the host */
    bool checkpoints_block;                 /* nothing is computed while one is copied */
    double drive_share;                     /* of the drives' rates, by its path to them */
    double update_bytes_per_param;          /* of host memory, moved by the CPU optimizer */
    double update_one_node_bytes_per_param; /* of those, on the NUMA node where they were pinned */
    bool ranks_bound;                       /* to NUMA nodes, in turn; else they run anywhere */
    double update_params_per_s;  /* of the CPU optimizer of a node, at most; 0: no bound */
    struct mw_memory_use memory; /* of a GPU, beside the plan */
    struct mw_start_use start;   /* before the first step */
    struct mw_offers offers;
};

extern const struct mw_profile_kind mw_software_kind;

struct mw_profile *mw_software_load(const char *name_or_path, GError **error);
struct mw_software mw_software_read(const struct mw_profile *profile, enum mw_outlook outlook);

/* The kind of profile whose key an assignment sets, and the assignment without that kind's prefix:
 * "software.operators.share=0.8" is operators.share=0.8 of a software profile. */
const char *mw_key_of(const char *assignment, const struct mw_profile_kind **kind);

/* Whether the software runs on the machine: a kernel of attention must be there. */
bool mw_software_check(const struct mw_profile *software, const struct mw_profile *machine,
                       GError **error);

/* What others are held against; memwall's own executor; who slices tensors and has stages; whose
 * library has adapters; whose data parallelism holds replicas; and who partitions and offloads. */
#define MW_SOFTWARE_IDEAL "ideal"
#define MW_SOFTWARE_OWN "memwall"
#define MW_SOFTWARE_SLICED "megatron"
#define MW_SOFTWARE_ADAPTERS "hf-trainer"
#define MW_SOFTWARE_REPLICATED "pytorch-fsdp-eager"
#define MW_SOFTWARE_PARTITIONED "deepspeed"

/* What a model has of what frameworks compute in more or fewer kernels. */
struct mw_model_uses {
    bool rms_norm; /* else LayerNorm, a kernel of every framework */
    bool rotary;
    bool gated;                        /* the MLP's activation multiplies two matrices' results */
    bool score_bias;                   /* attention adds something to its scores */
    bool dropout;                      /* some scores are dropped */
    bool capped_logits, capped_scores; /* by tanh */
};

/* Makes it the machine as the software uses it for such a model. */
void mw_software_apply(const struct mw_software *software, struct mw_model_uses uses,
                       struct mw_hardware *hardware);

/* A machine at an outlook as the software uses it, NULL as it is. */
struct mw_hardware mw_machine_read(const struct mw_profile *machine,
                                   const struct mw_profile *software, struct mw_model_uses uses,
                                   enum mw_outlook outlook);

/* What software could do better: groups of keys that a step's time depends on, and their names. */
#define MW_SOFTWARE_PARTS 5
struct mw_software_part {
    const char *group, *name;
};
extern const struct mw_software_part mw_software_parts[MW_SOFTWARE_PARTS];
/* The machine as the software uses it, but for the keys of one group, which are those of another
 * software. */
struct mw_hardware mw_machine_read_with(const struct mw_profile *machine,
                                        const struct mw_profile *software,
                                        const struct mw_profile *other, const char *group,
                                        struct mw_model_uses uses, enum mw_outlook outlook);

/* That machine at its typical values, with one of the ranges of machine and software at the
 * outlook, LOW or HIGH: one after the other, those of keys first.  Beside these there are two: of
 * the kernel of attention, and of this GPU among those of its kind. */
struct mw_machine_ranges {
    const struct mw_profile *machine, *software; /* borrowed */
    struct mw_model_uses uses;
    enum mw_outlook outlook;
    struct mw_hardware given; /* at its typical values, before the software uses it */
    struct mw_software figures;
    int of;     /* enum in software.c: what the next range is of */
    size_t key; /* from which on it is looked for */
};
void mw_machine_ranges_init(struct mw_machine_ranges *ranges, const struct mw_profile *machine,
                            const struct mw_profile *software, struct mw_model_uses uses,
                            enum mw_outlook outlook);
/* False: there are no more. */
bool mw_machine_ranges_next(struct mw_machine_ranges *ranges, struct mw_hardware *out);

#endif
