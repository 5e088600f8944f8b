/*
 * result.h - an answer, as plain data: what study/ fills in and every report prints.
 *
 * Numbers are SI (seconds, bytes, FLOP/s); an unknown value is NAN, or 0 for counts.  Strings are
 * owned by the result unless said otherwise; mw_result_free takes NULL.  Outlooks: [0] low (the
 * slower end of every range), [1] typical, [2] high.
 */
#ifndef MW_STUDY_RESULT_H
#define MW_STUDY_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

struct mw_result_gain { /* with one part of the software ideal */
    const char *part;
    double factor; /* times that the step is faster */
};

struct mw_result_stage { /* of a pipeline */
    int64_t gpus;
    int64_t first_layer, last_layer, layers;
    int64_t stretches;     /* in which its layers come: more than one, if they are interleaved */
    int64_t params;        /* of all its tensors, before they are partitioned over its GPUs */
    int64_t micro_batches; /* most micro-batches whose activations it keeps, of several stretches
                            * their passes */
    int64_t bytes[MW_TIER_COUNT]; /* peak per GPU */
    double compute_s;             /* time in which one of its GPUs computes */
};

struct mw_result_ledger_row { /* bytes of one purpose in one tier, per rank */
    enum mw_tier tier;
    enum mw_purpose purpose;
    int64_t bytes;
};

struct mw_result_tier { /* per rank; for CPU and NVMe the rank's share of its node */
    int64_t capacity_bytes, reserve_bytes, peak_bytes, largest_request_bytes;
    int64_t need_bytes;  /* the peak, and what the software takes beside the plan: the verdict
                         * compares it with the capacity */
    int64_t apart_bytes; /* of the ledger's rows those that are not there when most is */
};

struct mw_result_beside { /* of memory per GPU, taken by the software beside the plan */
    const char *what;     /* borrowed */
    enum mw_tier tier;
    int64_t bytes;
};

/* What a model takes until its first step, as the software makes it. */
struct mw_result_start {
    bool known;
    const char *made_in; /* "host" or "gpu", whole by each rank; NULL: in parts.  Borrowed */
    int64_t bytes;       /* of each rank there; 0 in parts */
    int64_t room_bytes;
    const char *key; /* of the software's group `start` that decides the bytes; borrowed */
    bool fits;
    double time_s; /* to make it and to write the first state; without compilation and loading */
};

struct mw_result_lane {
    char *name;       /* "compute", "h2d", "nvme-read", ... */
    double busy_s;    /* an op in flight */
    double exposed_s; /* of that, while the compute lane waits */
};

struct mw_result_channel {
    char *name;    /* "pcie-h2d", "drive", ... */
    double busy_s; /* integral of its used share */
};

struct mw_result_phase { /* forward, backward (with recompute), optimizer: wall time of each */
    char *name;
    double start_s, end_s;
};

struct mw_result_what_if { /* step time if one bandwidth or latency were scaled */
    char *what;            /* "nvme read+write", "gpu compute", "collective latency", ... */
    double factor;
    double step_time_s;
};

struct mw_result_need { /* the bandwidth that an efficiency needs */
    char *what;
    double efficiency;  /* 0.5, 0.7, 0.9 */
    double bytes_per_s; /* needed; NAN: this bandwidth alone is not enough */
    double present_bytes_per_s;
};

struct mw_result_change {        /* a change of one thing alone */
    char *what;                  /* NULL: none */
    char *flags;                 /* the options that make it, to be added to the request's */
    bool priced;                 /* whether its price is known */
    double times_tokens_per_usd; /* factor on tokens per dollar; NAN: its price is unknown */
    double step_time_s;          /* of the changed plan and its batch */
    double tokens_per_s;
    double micro_batch, global_batch;
};

/* A price of electricity, and between what it lies. */
struct mw_electricity {
    double usd_per_kwh, least, most;
    const char *from; /* the provenance, or "default"; borrowed */
};

struct mw_result_owned {          /* cost of a machine that is bought; price 0: unknown */
    double node_price_usd, years; /* years in which it is written off */
    const char *years_from;       /* the provenance of years, or "default"; borrowed */
    double share;                 /* of those years that the run takes */
    double machine_usd;           /* the run's share of the price, all nodes; NAN: not known */
    double energy_usd;            /* NAN: the machine's power is not known */
    struct mw_electricity electricity;
    double drives_worn;      /* of the drives' rated life; NAN: no rating, or not written */
    double drives_price_usd; /* all drives of all nodes; NAN: not known */
    const char *drives_from; /* who says so; borrowed */
    double drives_usd;       /* of that wear what is beyond the share of the years, which the
                                   * machine's price has already; NAN: not known */
    double replaced_usd;     /* drives to buy beyond the first; NAN: not known */
    double pay_usd;          /* what has to be paid: all nodes, electricity, replaced drives;
                                   * NAN: no price is known */
};

struct mw_result_term { /* a term in which the two closed forms differ */
    char *what;
    double paper_s, plan_s;
};

struct mw_result_paper {                        /* what the papers' equations say (model/paper.h) */
    int64_t params, model_state_bytes;          /* of the model */
    int64_t checkpoint_bytes, activation_bytes; /* per node */
    int64_t mswm_bytes, awm_bytes;              /* per GPU */
    int64_t zero_bytes[4];                      /* per GPU: baseline, Pos, Pos+g, Pos+g+p */
};

struct mw_result {
    /* model and strategy are NULL for a plan that was read from a file; hardware_set lists the keys
     * that were set in the profile; NULL: none */
    char *model, *hardware, *hardware_description, *hardware_set, *strategy;
    char *software, *software_set;       /* software_set as hardware_set */
    char *hardware_date, *software_date; /* of their figures; NULL: the profile has none */
    char **asked; /* "NAME=TEXT": the question that makes this very plan, with
                                    * nothing left open; NULL of a plan that was read from a file */
    int64_t params, active_params, paper_params;

    /* settings, as planned */
    int64_t nodes, gpus_per_node, tp, seq, grad_accum;
    double micro_batch;  /* sequences per GPU; fractional with tp or cp */
    double global_batch; /* sequences per step */
    double tokens_per_step;
    double default_step_tokens; /* the default, if the batch was open; else NAN */
    int64_t kept_layers;        /* beside recomputed ones */
    bool on_every_slice;        /* on every rank of a tensor-slicing group */
    int64_t cp;                 /* GPUs that share the tokens of sequences; 1: none do */
    const char *cp_kind;        /* how these compute attention; NULL: none do */
    bool sequence_parallel;     /* tensor slices share the tokens of norms and residuals */
    const char *gate;           /* of mixtures; NULL: as the model's type has it */
    double capacity_factor;     /* of experts; 0 or less: no limit */
    double expert_imbalance;    /* tokens of the fullest rank that shares experts, over the mean */
    double router_aux_loss, router_z_loss; /* coefficients of a router's losses; 0: none */
    int64_t ep;                            /* GPUs over which experts are spread; 1: over none */
    bool whole_experts;  /* tensor slices have other experts, none of which is sliced */
    int checkpoint_bits; /* of an element of an activation checkpoint; 0: as dtype */
    int64_t checkpoint_interval, param_loads, tiles, logits_chunks, prefetch;
    char *prefetch_stages; /* "nc:cg:gg"; NULL: one depth for all */
    char *param_device, *optimizer_device, *gradient_device, *activation_device;
    char *partition; /* "bandwidth-centric" or "owner-broadcast" */
    char *commit;    /* "step" or "none" */
    char *state_layout;
    char *dtype;              /* of parameters and activations: "bf16" or "fp16" */
    bool shares_slots;        /* slots whose contents never meet share bytes */
    bool scores_again;        /* attention's scores are formed again in backward */
    bool serial;              /* transfers and collectives do not run beside compute */
    int64_t dpu_start;        /* -1: no delayed parameter update */
    bool update_on_gpu;       /* of state that rests elsewhere */
    const char *schedule;     /* of a pipeline's micro-batches; NULL: one forward, one backward */
    const char *schedule_way; /* the same in words; NULL: that is said otherwise */
    int64_t shard_group;      /* data-parallel GPUs that states are partitioned over; 0: all */
    int64_t virtual_stages;   /* stretches of layers that a stage has */
    char *stage_replicas;     /* GPUs of each stage, which take turns; NULL: of as many each */
    char *stage_split;        /* first layers of all stages but the first; NULL: even */
    bool layer_order;         /* micro-batches pass a layer one after the other */
    bool whole_checkpoints;   /* of all activations of a layer */
    bool update_beside;       /* of a chunk, beside backward */
    int64_t updates;          /* of a step, one of each data-parallel GPU's gradient; 1: of their
                               * sum */
    char *optimizer;          /* NULL: adamw */
    char *trained;            /* the operators and adapters that are trained; NULL: all */
    int64_t trained_params;   /* of the whole model, adapters included */
    int kept_bits;            /* of activations that layers keep; 0: as dtype */
    bool relu_mask;           /* of ReLU's inputs a bit each is kept */
    double relu_sparsity;     /* zeros of its results, which are not kept; 0: they are */
    char *matmul_dtype;       /* of the operands of layers' products; NULL: as dtype */
    char *frozen_dtype;       /* of weights of layers' products among the others; NULL: as dtype */
    const char *drop_layers;  /* the schedule of layers that are left out; borrowed; NULL */

    bool feasible;
    char *limiting_tier; /* NULL when feasible */
    int64_t short_bytes; /* per rank, of the limiting tier */
    char *remedy;        /* what would make it fit; NULL when feasible */
    struct mw_result_tier tiers[MW_TIER_COUNT];
    struct mw_result_ledger_row *ledger;
    size_t ledger_count;
    struct mw_result_beside *beside; /* [beside_count], largest first */
    size_t beside_count;
    struct mw_result_start start;
    struct mw_result_stage *stages; /* of a pipeline; else none */
    size_t stage_count;
    struct mw_result_paper paper;

    bool simulated;              /* whether the following are set */
    double step_time_s[3];       /* the mean over a cycle, where steps differ */
    double *variant_step_time_s; /* [variant_count] of each step of the cycle; the figures of lanes,
                                     channels and phases are those of the first */
    size_t variant_count;        /* 0: all steps are alike */
    double engine_step_time_s;   /* of the same plan, where step_time_s is estimated; else NAN */
    double first_step_time_s;
    double ideal_step_time_s; /* of the same plan by ideal software; NAN: it was not asked for */
    struct mw_result_gain *gains; /* [gain_count] of parts of the software, largest first */
    size_t gain_count;
    int64_t rounds_by_mean;       /* of sections: their time is the mean of earlier rounds */
    double undelayed_step_time_s; /* of the steps before --dpu-start; NAN: there are none */
    double tflops_per_gpu[3];     /* FLOP/s done, recompute counted, in 1e12 */
    double efficiency[3];         /* share of what whole layers reach without communication */
    double mfu;           /* model FLOPs (recompute not counted) over the datasheet's peak */
    double mfu_published; /* the highest of published runs; NAN: unknown */
    const char *mfu_published_from; /* its source; borrowed */
    double tokens_per_s;
    char *bottleneck;            /* lane or channel, or "collective latency" */
    double bottleneck_share;     /* of the step */
    double collective_latency_s; /* per step, of collectives of no bytes */
    struct mw_result_lane *lanes;
    size_t lane_count;
    struct mw_result_channel *channels;
    size_t channel_count;
    struct mw_result_phase *phases;
    size_t phase_count;
    double critical_path_s; /* longest path at uncontended durations */
    double closed_form_paper_s, closed_form_plan_s;
    /* Eq. 6 with one kind of traffic: parameters and gradients, optimizer state, checkpoints */
    double paper_efficiency[3];
    struct mw_result_term *terms;
    size_t term_count;
    struct mw_result_what_if *what_ifs;
    size_t what_if_count;
    struct mw_result_need *needs;
    size_t need_count;
    double smaller_batch, smaller_batch_tokens_per_s; /* faster than the chosen one; NAN: none */
    struct mw_result_change change;      /* the setting that gains most; .what NULL: none */
    struct mw_result_change paid_change; /* most tokens per dollar; .what NULL: none */

    int64_t nvme_written_bytes; /* per step and node; negative: an estimate does not know it */
    int64_t nvme_read_bytes;
    double drive_life_steps; /* NAN: nothing is written, or the rating is not known */
    double drive_sets;       /* of a node, that the training uses; NAN: unknown */
    double tokens;           /* of --tokens; NAN: not given */
    double days, energy_kwh;
    double cost_usd; /* of renting if the rent is known, else of owning */
    bool rented;
    struct mw_result_owned owned;
    char *provenance; /* worst of the profile's figures */
    bool calibrated;  /* measured on this machine */
    char **notes;     /* NULL-terminated; may be NULL */

    /* borrowed: valid as long as the caller's plan and timeline */
    const struct mw_plan *plan;
    const struct mw_timeline *timeline;
};

/* GPUs that share a micro-batch; of a plan that does not say, 1. */
static inline int64_t
mw_result_sharers(const struct mw_result *result)
{
    return (result->tp > 1 ? result->tp : 1) * (result->cp > 1 ? result->cp : 1);
}

/* The ends of a figure over the outlooks.  The typical value always lies between them, even for a
 * ratio whose values at both ends of the profile lie on the same side of it. */
struct mw_result_ends {
    double low, high;
};
struct mw_result_ends mw_result_ends(const double of_outlook[3]);

/* The run's share of the machine's price and, if they are known, those of energy and drives; NAN
 * without it. */
double mw_result_owned_usd(const struct mw_result_owned *owned);
/* The same, and what has to be paid, of a run that takes `times` as long at another price of
 * electricity: the number of its steps, and so the wear, stays. */
struct mw_result_owned mw_result_owned_at(const struct mw_result_owned *owned, double times,
                                          double usd_per_kwh);

/* An empty result: numbers are NAN, counts 0. */
struct mw_result *mw_result_new(void);
/* The step that lanes, channels and phases are of: where steps differ, the first of the cycle. */
double mw_result_shown_step_s(const struct mw_result *result);
void mw_result_free(struct mw_result *result);

#endif
