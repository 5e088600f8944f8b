/*
 * closed_form.h - a step's time from dimensions alone, in two named forms, never from a plan's ops.
 *
 * paper  the AIT equations of ZeRO-Infinity (Sec. 4, Eq. 7-11): no overlap, three parameter loads
 *        and one gradient store (8 B a parameter and micro-batch), 32 B of optimizer traffic a
 *        parameter, 4·nl/ci·hd·seq·bsz bytes of checkpoints, 8·bsz·seq·params FLOPs.
 * plan   the same step with the loads, bytes and operators that the settings imply, every transfer
 *        on its own, nothing overlapped.  Under a flat-efficiency, zero-latency profile and with
 *        serialising edges the engine gives the same time.
 *
 * Each term stands once, so that the two can be compared term by term.
 */
#ifndef MW_SIM_CLOSED_FORM_H
#define MW_SIM_CLOSED_FORM_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/hwprofile.h"
#include "hardware/ring.h"
#include "plan/plan.h"

/* Products of one operator in one direction, for machines whose rates go by shape. */
struct mw_closed_shape {
    struct mw_work_product products[MW_WORK_PRODUCTS_MAX];
    uint32_t product_count;
    struct mw_work_attention attention; /* heads 0: not an attention */
    bool backward, fp8;
    double flops;
};

/* Sums over the operators of one kind of block, for one rank and one micro-batch. */
struct mw_closed_products { /* matrix products of about one shape */
    double forward_flops, backward_flops;
    double weight_flops; /* of backward's, those of gradients of weights */
    double size;         /* (m·n·k)^(1/3), the mean weighted by FLOPs; it picks the rate */
    double head_dim;     /* of attention, likewise */
};

struct mw_closed_block {
    struct mw_closed_products weights, attention; /* products with parameters, and products between
                                                   * tokens */
    const struct mw_closed_shape
        *shapes; /* of both kinds; borrowed; NULL: the two above are used */
    int shape_count;
    double shapes_s; /* what they take in a micro-batch; 0: not computed (mw_closed_shapes_s) */
    double forward_bytes, backward_bytes;       /* bytes of memory-bound operators */
    double forward_streamed, backward_streamed; /* bytes of attention and loss: plan/operators.h */
    double forward_launches;
    /* One rank's share after tensor slicing. */
    double trained_params;                /* elements */
    double param_bytes_in[MW_TIER_COUNT]; /* all parameters, by the tier where they live */
};

struct mw_closed_dims {
    double gpus_per_node, nodes;
    double shards, shards_per_node; /* data-parallel ranks that states are partitioned over, if they
                                     * are, */
    double replicas, replicas_per_node; /* and groups of them, or ranks with the same shard */
    double tp, tp_per_node;
    double cp, cp_per_node; /* ranks that share sequences; 1: none do */
    double ep, ep_per_node; /* ranks over which experts are spread; 1: over none; */
    double spread;          /* data-parallel ones among these, of a slice */
    double expert_replicas, expert_replicas_per_node; /* data-parallel ranks with the same ones */
    double micro_batches;
    double tokens;                              /* of one micro-batch of one tensor-slicing group */
    double hidden, layers, checkpoint_interval; /* interval 0: no checkpoints */
    double checkpoint_parts; /* of a checkpoint, each on another rank, gathered for its recompute */
    bool sums_in_halves;     /* of tensor slices, by a reduce-scatter and an all-gather */
    double hidden_sums;      /* at the ends of the model: of hidden states, in one, */
    double hidden_halves;    /* and in half of one; */
    double loss_sum_bytes;   /* of what the loss needs; 0: no loss */
    double split_backwards;  /* of a micro-batch's operators those whose weights' gradients are
                              * computed while their inputs' are summed up, */
    double split_flops;      /* with so many FLOPs for each of the two, */
    double input_gathers;    /* and whose inputs are gathered beside the latter; */
    double gathers_again;    /* those whose inputs are gathered before them */
    double piece_halves;     /* of sums, that run beside pieces of products, */
    double piece_flops;      /* and what these compute */
    double norm_sums;        /* of norms, whose weights' gradients slices sum up, */
    double norm_bytes;       /* so many in all */
    double exchanges;        /* all-to-alls of a micro-batch's tokens and their gradients, */
    double exchange_bytes;   /* of so many bytes of a rank each; */
    double expert_slices_bytes; /* with each, of all slices of experts, gathered or scattered */
    double context_exchanged; /* bytes of a rank in all-to-alls around attention, of all layers, */
    double context_passed;    /* or of all ranks' blocks around a ring, */
    double ring_flops;        /* beside attention with so many FLOPs */
    double recomputed;        /* share of the layers: 0 with that, */
    double recomputed_work;   /* and of what their forward takes */
    double checkpoint_bytes;  /* of one checkpoint, in one rank's slice; in all slices: */
    double checkpoint_whole_bytes;
    double checkpoint_coded_bytes; /* of the passes that store one in another type and restore
                                    * it: each takes a launch; 0: it has the activations' */
    double kept_coded_bytes, kept_coded_passes; /* the same of what layers keep: of all layers,
                                                 * both ways */
    double paper_params;                        /* 12·nl·hd², whole model */

    struct mw_closed_block layer_block, head, tail; /* layer_block is all layers together */
    double spread_bytes_in[MW_TIER_COUNT];          /* of layer_block, those of spread experts, */
    double spread_params, spread_state; /* the trained ones of them, and a rank's state of these,
                                            * with padding */
    double layer_loads, head_loads, tail_loads; /* parameter loads per micro-batch */
    double tied_loads; /* loads of the head's parameters, for tied logits */

    /* share of each state in each tier: sums to 1 */
    double params_in[MW_TIER_COUNT], gradients_in[MW_TIER_COUNT], state_in[MW_TIER_COUNT];
    double checkpoints_in[MW_TIER_COUNT];
    /* share of the parameters whose update moves gradients to where it runs, and new
     * parameters to where they live */
    double fetches;                /* per step, of what a micro-batch needs; layer by layer one */
    double layer_checkpoint_bytes; /* of the activations of a layer that is not recomputed; 0: they
                                    * are no checkpoint */
    double state_streams; /* share of the state that rests off the GPU and is updated there */
    double gradient_h2d, gradient_d2h, param_h2d, param_d2h, param_write;
    double updated_from[MW_TIER_COUNT]; /* share of the state whose gradients are in that tier */
    bool params_fetched; /* parameters are partitioned over the data-parallel ranks */
    bool gradients_partitioned, optimizer_partitioned, owner_broadcast;
    enum mw_dtype dtype;   /* of parameters and activations, and of gradients when they are
                            * made */
    double element_bytes;  /* bytes of one element of `dtype` */
    bool stashes;          /* each micro-batch is an update with its own gradient, */
    double updates;        /* or each data-parallel rank's, so many; else 1 */
    bool gradients_summed; /* over micro-batches, */
    double sum_bytes;      /* in so many per element */
    bool reduced_at_end;   /* gradients, whole */
    bool sums_on_host;     /* of gradients on drives, to which the sum goes once */
    bool sums_passing;     /* on the GPU wherever they live, and the sum leaves once */
    double norm_passes;    /* over gradients before the update, of which one takes their norm, */
    double update_passes;  /* and in it, beside its own */
    double exact_passes;   /* of the first those that make exact sums, */
    double clip_passes;    /* of these those for which gradients on drives are read again */
    double gradient_bytes; /* per element at rest: the size in which it is made, or 4 for a
                            * sum */
    double state_bytes;    /* per element: 12 of AdamW */
    double update_bytes;   /* and what its update reads and writes, but update_passes */
    int optimizer;         /* enum mw_optimizer_kind */
    double state_params;   /* elements of a rank's state, with padding */
    double orthogonal_s;   /* products that make matrices orthogonal for an update, */
    double orthogonal_bytes, momentum_bytes; /* what passes beside them move, and what ranks gather
                                              * for them */
    double agreed_bytes; /* sums that all ranks add up when they agree on the norm */
    double saved_bytes;  /* bytes of a rank's gradients that every step's commit writes */
};

/* Bytes/s of one rank when all ranks of the node move at once, or it alone. */
struct mw_closed_rates {
    double h2d, d2h, read, write, dram, norm, exact;
    double h2d_alone, d2h_alone, read_alone;
    double update_s_per_param[2];            /* GPU, host */
    struct mw_ring shards, replicas, world;  /* ranks that hold the same slice of the model, in one
                                             * sharding group; with the same shard of it; all */
    struct mw_ring context, passes;          /* ranks that share sequences, and hops among them */
    struct mw_ring expert_replicas, experts; /* ranks that hold the same experts; that share them */
};

enum mw_closed_term {
    MW_TERM_PRODUCTS,     /* matrix products */
    MW_TERM_MEMORY_BOUND, /* norms, activations, softmax, loss; launches */
    MW_TERM_FETCH_NVME,   /* nc-transfers */
    MW_TERM_FETCH_PCIE,   /* cg-transfers */
    MW_TERM_FETCH_GATHER, /* gg-transfers */
    MW_TERM_GRADIENT_REDUCE,
    MW_TERM_GRADIENT_PCIE,
    MW_TERM_GRADIENT_SUM, /* accumulation and norm */
    MW_TERM_GRADIENT_NVME,
    MW_TERM_CHECKPOINT_PCIE,
    MW_TERM_CHECKPOINT_NVME,
    MW_TERM_SLICING,    /* all-reduces of tensor slicing */
    MW_TERM_EXCHANGE,   /* all-to-alls of spread experts */
    MW_TERM_CONTEXT,    /* around attention, of ranks that share sequences */
    MW_TERM_STATE_NVME, /* optimizer state read and written */
    MW_TERM_STATE_PCIE, /* to the GPU for its update and back */
    MW_TERM_UPDATE,
    MW_TERM_RETURN, /* updated parameters to where they live */
    MW_TERM_COUNT
};

enum mw_traffic { MW_TRAFFIC_PARAMS, MW_TRAFFIC_STATE, MW_TRAFFIC_CHECKPOINTS, MW_TRAFFIC_COUNT };

struct mw_closed_form {
    double paper_s[MW_TERM_COUNT], plan_s[MW_TERM_COUNT];
    double paper_total_s, plan_total_s;
    double slicing_beside_s;   /* of tensor slicing, what software runs beside products, */
    double products_beside_s;  /* and these of the products */
    double ring_beside_s;      /* of ranks that share sequences, what passes beside attention, */
    double attention_beside_s; /* and this of attention */
    double paper_efficiency[MW_TRAFFIC_COUNT]; /* Eq. 6, if this were the only traffic */
};

void mw_closed_form(const struct mw_closed_dims *dims, const struct mw_hardware *hardware,
                    struct mw_closed_form *out);
/* Computes the times of all shapes, for closed forms on machines with the same rates of
 * products. */
void mw_closed_shapes_s(struct mw_closed_dims *dims, const struct mw_hardware *hardware);
void mw_closed_rates(const struct mw_closed_dims *dims, const struct mw_hardware *hardware,
                     struct mw_closed_rates *out);
const char *mw_closed_term_name(int term);

#endif
