/*
 * sizing.h - from dimensions and settings to bytes: what is cut into which fetch units, where each
 * state lives, how large every buffer is, and whether it all fits.
 *
 * Pure arithmetic over dimensions, no ops: fast enough to search batch sizes and layer counts with.
 * Every slot of a plan is counted in one table, mw_sizing.buffers: the ledger is its sum, and the
 * builder makes its slots from it.
 *
 * Words: a *fetch unit* is a run of operators whose parameters travel together (one matrix product
 * and the norm before it); what of them differs in element type, or in being trained, is a tensor
 * of its own in the unit.  With memory-centric tiling (ZeRO-Infinity Sec. 5.1.3) it is fetched and
 * computed in `tiles` parts.  A *shard* is one data-parallel rank's 1/dp of a part.
 * All bytes are per rank; a node's host memory and drives are divided by its ranks.
 */
#ifndef MW_PLANNER_SIZING_SIZING_H
#define MW_PLANNER_SIZING_SIZING_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware/hwprofile.h"
#include "model/model.h"
#include "plan/recomputed.h"
#include "planner/settings/settings.h"

#define MW_CLASS_UNITS_MAX 6
#define MW_CLASS_TENSORS_MAX 10
#define MW_UNIT_TENSORS_MAX 4

/* What of a fetch unit has one element type, and is trained or frozen as a whole.  It has homes and
 * transfers of its own. */
struct mw_unit_tensor {
    int64_t params;        /* elements, after tensor slicing and spreading of experts */
    int64_t ranks;         /* data-parallel ranks that have the same elements, and divide them:
                            * all, or of spread experts one in ep */
    int64_t tiles;         /* number of parts in which it is fetched: the unit's, or 1 */
    int64_t rows;          /* rows of its largest matrix: it may be cut between them */
    int64_t row_params;    /* elements per row, including its bias */
    int64_t tile_params;   /* elements of the largest part */
    int64_t shard_params;  /* elements of a rank's shard of a part */
    int64_t matrix_params; /* of all its elements those of matrices of a block */
    int64_t shard_stride;  /* from one shard to the next in a home: whole pages if drives hold it */
    int first, count;      /* its operators, in the class's list */
    enum mw_dtype dtype;   /* of its parameters */
    bool trained;          /* else it has no gradient, no optimizer state and no chunk */
};

struct mw_unit {
    int64_t tiles;                  /* parts in which its largest tensor is fetched and computed */
    int first, count;               /* its operators, in the class's list */
    int first_tensor, tensor_count; /* in the class's list; one at least */
    int tiled; /* of its tensors the one that tiles cut: it has the largest operator */
};

/* A block of operators that are alike: the head, layers of each kind of block, the tail.  Tensors
 * are numbered in walk order.  Layers between which kinds alternate have the same units: those with
 * and without a window, whose attention alone differs. */
enum mw_class {
    MW_CLASS_HEAD,
    MW_CLASS_LAYERS, /* the first of them: + enum mw_block_kind */
    MW_CLASS_TAIL = MW_CLASS_LAYERS + MW_BLOCK_KIND_COUNT,
    MW_CLASS_COUNT
};
static inline bool
mw_class_is_of_layers(int class)
{
    return class >= MW_CLASS_LAYERS && class < MW_CLASS_TAIL;
}

struct mw_class_info {
    int64_t blocks; /* how many there are */
    int operator_count, unit_count, tensor_count;
    struct mw_unit units[MW_CLASS_UNITS_MAX];
    struct mw_unit_tensor tensors[MW_CLASS_TENSORS_MAX];
    int64_t params; /* per block */
    int64_t trained_params;
    int64_t trained_sides; /* struct mw_operator_info */
    int64_t saved_bytes;   /* activations that its backward needs, */
    int64_t kept_scores;   /* and elements of softmax's result among them */
    int64_t kept_bytes;    /* the same as a layer that is not recomputed stores them, */
    int64_t coded_bytes;   /* and what storing them moves, as restoring them does */
    int64_t inputs_bytes;  /* of saved_bytes, what the gradients of weights need, and */
    int64_t results_bytes; /* gradients of results that these need beside it */
    int64_t widest_bytes;  /* the largest operator output */
    struct mw_operator_info
        operators[MW_LAYER_OPERATORS_MAX]; /* those behind the last are not set */
};

/* A chunk of the optimizer step: the state of whole tensors, or of a part of one.  Frozen tensors
 * among them have none. */
struct mw_chunk {
    uint32_t first_tensor, tensor_count; /* global numbers, in walk order */
    int64_t params;                      /* elements of this rank's shard */
    enum mw_tier tier;                   /* home of its optimizer state */
    uint32_t times;        /* in a run: how often it comes, each time in another block */
    int64_t matrix_params; /* elements that Muon updates; their matrices are all in this chunk */
    int64_t ranks;         /* struct mw_unit_tensor: the same of all its tensors that are trained */
    int64_t state_bytes;   /* of its optimizer state */
};

/* What an update of a chunk by Muon does with its matrices, which are whole (orthogonal.c). */
struct mw_orthogonal {
    struct mw_work_product products[MW_WORK_PRODUCTS_MAX];
    uint32_t product_count;
    int64_t flops, launches;
    int64_t bytes;          /* of passes beside the update's own and the products */
    int64_t params;         /* elements of the whole matrices */
    int64_t gathered_bytes; /* of their momentum, as ranks gather it */
    int64_t room_bytes;     /* of the iterations of the largest one: X, A = X X^T, and the next of
                             * both */
};

/* Consecutive blocks whose chunks are alike: those of the first block stand for all. */
struct mw_chunk_run {
    uint32_t first, count; /* in run_chunks */
    uint32_t times;        /* blocks */
    uint32_t tensor_step;  /* from one block's tensors to the next one's */
};

/* What travels for the update of a chunk: its gradients to where it is updated (where its state
 * lives or passes through), and the new parameters to where they live. */
struct mw_chunk_moves {
    bool host;             /* updated on the host, else on the GPU */
    bool state_streams;    /* rests off the GPU, comes there for the update and goes back */
    bool gradient_streams; /* comes to the GPU with it, behind it */
    bool gradient_read;    /* from NVMe, when the state does not come from there too */
    bool gradient_h2d, gradient_d2h;
    bool param_h2d, param_d2h;
    bool param_write; /* to NVMe */
};

/* What a rank's slots are for, in the plan's order.  Homes come first: they have the same numbers
 * and places in a plan with a delayed update and in the one without. */
enum mw_buffer_kind {
    /* homes, whose slots differ in tier and size */
    MW_BUFFER_PARAMETERS,  /* a slot per tensor */
    MW_BUFFER_GRADIENTS,   /* a slot per tensor, of frozen ones an empty one */
    MW_BUFFER_CHECKPOINTS, /* a slot per checkpoint */
    MW_BUFFER_STATE,       /* a slot per chunk */
    MW_BUFFER_STATE_OTHER, /* the other extent: one slot per committed chunk */
    MW_BUFFER_SUMS,        /* in host memory, where sums_on_host: a slot per tensor, of those whose
                              gradients live elsewhere an empty one */
    /* buffers, whose slots are alike; those of a unit's tiled tensor, and behind each kind, smaller
     * ones of its other tensors: mw_buffer_of */
    MW_BUFFER_PARAMETERS_GATHERED, /* whole parts, on the GPU */
    MW_BUFFER_PARAMETERS_GATHERED_SMALL,
    MW_BUFFER_PARAMETERS_SHARD, /* on the GPU, before the all-gather */
    MW_BUFFER_PARAMETERS_SHARD_SMALL,
    MW_BUFFER_PARAMETERS_PINNED, /* shards in host memory, from NVMe */
    MW_BUFFER_PARAMETERS_PINNED_SMALL,
    MW_BUFFER_GRADIENTS_WHOLE, /* of parts, as backward computes them */
    MW_BUFFER_GRADIENTS_WHOLE_SMALL,
    MW_BUFFER_GRADIENTS_TIED,  /* of tied logits, until the embedding's are added; none is small */
    MW_BUFFER_GRADIENTS_SHARD, /* on the GPU, reduced */
    MW_BUFFER_GRADIENTS_SHARD_SMALL,
    MW_BUFFER_GRADIENTS_SUMMED, /* sums on the GPU over all micro-batches, before they leave */
    MW_BUFFER_GRADIENTS_SUMMED_SMALL,
    MW_BUFFER_GRADIENTS_PINNED, /* shards in host memory, to be accumulated or written */
    MW_BUFFER_GRADIENTS_PINNED_SMALL,
    /* other buffers, whose slots are alike; a whole checkpoint, of which slices keep parts */
    MW_BUFFER_CHECKPOINTS_GATHERED,
    MW_BUFFER_CHECKPOINTS_STAGED, /* on the GPU, for those that live elsewhere */
    MW_BUFFER_CHECKPOINTS_PINNED, /* in host memory, for those on NVMe */
    MW_BUFFER_WIDENED,            /* a part of weights in the type that products take */
    MW_BUFFER_CAST,               /* copies of weights in fp8: of all layers, or of a part */
    MW_BUFFER_ACTIVATIONS,        /* dozens of tensors, never one request */
    MW_BUFFER_ROOMS,              /* right behind them, of layers that are recomputed, if slots
                                     share bytes; else they are activations like others */
    MW_BUFFER_VERSIONS,           /* another version of all parameters, where steps overlap */
    MW_BUFFER_INPUTS,             /* of a micro-batch: what the gradients of weights need of its */
    MW_BUFFER_RESULTS,            /* activations, and gradients of results; where these gradients
                                     are passes of their own */
    MW_BUFFER_LOGITS,             /* for one chunk of the tokens */
    /* between pipeline stages: activations forward, their gradients backward */
    MW_BUFFER_STAGE_INPUT,
    MW_BUFFER_STAGE_OUTPUT,
    MW_BUFFER_STAGE_GRADIENT_INPUT,
    MW_BUFFER_STAGE_GRADIENT_OUTPUT,
    MW_BUFFER_BOUNDARIES,   /* one per micro-batch, behind each group of layers, of a step that goes
                             layer by layer: activations, or their gradients */
    MW_BUFFER_STATE_PINNED, /* chunks' state from NVMe, with gradients from there */
    MW_BUFFER_STATE_GPU,    /* chunks' state that is updated there and rests elsewhere */
    MW_BUFFER_COMMIT_RECORDS,          /* two, which take turns */
    MW_BUFFER_SAVES,                   /* two, which take turns */
    MW_BUFFER_UPDATE_GRADIENTS_PINNED, /* chunks' gradients on their way to the update, */
    MW_BUFFER_UPDATE_GRADIENTS_GPU,    /* in host memory and on the GPU */
    MW_BUFFER_UPDATED_PINNED,          /* chunks' new parameters on their way home, */
    MW_BUFFER_UPDATED_GPU,             /* in host memory and on the GPU */
    MW_BUFFER_MOMENTUM_GATHERED,       /* whole matrices' of a chunk, */
    MW_BUFFER_ORTHOGONAL,              /* and where one of them is made orthogonal */
    MW_BUFFER_VECTORS,                 /* of rows and columns, which an optimizer keeps */
    MW_BUFFER_CHECKSUMS,               /* of everything on drives; last in their tier */
    MW_BUFFER_KIND_COUNT
};
#define MW_BUFFER_HOME_KINDS (MW_BUFFER_SUMS + 1)

/* Most layers of homes that gradients of an update beside backward take turns in. */
#define MW_GRADIENT_SETS_MAX 16

struct mw_buffer {
    enum mw_tier tier; /* MW_TIER_COUNT: a home, whose slots each have their own tier */
    enum mw_purpose purpose;
    bool persistent;     /* its content outlives the step */
    int64_t count;       /* number of slots; 0: the step needs none */
    int64_t bytes;       /* per slot; 0 for a home */
    int64_t part_slots;  /* by which a ring of gradients grows for one more part; else 0 */
    bool shares;         /* it lies in its tier's room for buffers that share bytes, */
    struct mw_extent at; /* here; of homes, only those that end with the step */
};

/* What the software takes of memory beside the plan's slots: it needs room too
 * (planner/sizing/beside.c). */
enum mw_beside {
    MW_BESIDE_BUCKETS,         /* gradients that wait to be reduced, or copies of them */
    MW_BESIDE_GRADIENTS,       /* kept in more bytes than planned */
    MW_BESIDE_OFFLOAD,         /* copies of a gradient on its way to the host */
    MW_BESIDE_UPDATE,          /* beyond what backward leaves free for it */
    MW_BESIDE_LOGITS,          /* in more bytes than planned */
    MW_BESIDE_ACTIVATIONS,     /* kept beyond those that a fused backward needs */
    MW_BESIDE_CASTS,           /* copies of parameters in 16 bits, beside fp32 ones */
    MW_BESIDE_FROZEN,          /* whole parameters in more bytes than planned, beside narrow ones */
    MW_BESIDE_MOMENTS,         /* a number per element, where the plan has vectors */
    MW_BESIDE_ADDED,           /* gradients beside those that they are added to */
    MW_BESIDE_BLOCKS,          /* whole blocks on their way, beyond the plan's buffers of parts */
    MW_BESIDE_ALLOCATOR,       /* fragments and cached blocks */
    MW_BESIDE_HOST_GRADIENTS,  /* beyond those that are planned there */
    MW_BESIDE_HOST_PARAMETERS, /* updated ones, before they go to the GPU */
    MW_BESIDE_HOST_MOMENTS,    /* likewise, of state there */
    MW_BESIDE_SWAP,            /* buffers of whole sub-groups instead of the plan's for drives */
    MW_BESIDE_PINNED,          /* rounded up */
    MW_BESIDE_COUNT
};
const char *mw_beside_text(enum mw_beside what); /* in words */
enum mw_tier mw_beside_tier(enum mw_beside what);

/* One slot of a buffer or home. */
struct mw_sized_slot {
    enum mw_tier tier;
    int64_t bytes;
};

/* What is alike and said once in a plan. */
struct mw_folds {
    bool micro_batches;
    bool layers; /* and chunks of the optimizer step */
};

/* Global batches, in sequences; 0: none. */
struct mw_nearest_batches {
    int64_t quick; /* with at most MW_OPS_QUICK ops */
    int64_t most;  /* with at most settings.ops_max ops */
};

#define MW_STRETCHES_MAX 128
/* Layers of a stage that follow each other: the first of them, counted in the stage and in the
 * model. */
struct mw_stretch {
    int64_t first, begin;
};

struct mw_sizing {
    const struct mw_model *model;       /* borrowed */
    const struct mw_hardware *hardware; /* borrowed */
    struct mw_settings settings;        /* resolved: only the delay may still be MW_AUTO */

    int64_t ranks, ranks_per_node, dp, tp;
    int64_t shards, replicas; /* dp: data-parallel ranks that states are partitioned over, if they
                               * are, times the groups of them, which hold the same */
    int64_t cp;     /* data-parallel ranks that share the tokens of sequences; 1: none do */
    int64_t ep;     /* ranks over which experts are spread, each with tokens of its own for them; 1:
                 * each has all; */
    int64_t spread; /* data-parallel ranks of a slice among these: 1 to ep */
    /* In a pipeline a sizing describes one stage; the first stage's owns those of the later
     * stages. */
    int64_t pp, stage;
    int64_t first_rank;
    struct mw_sizing *next_stage; /* NULL: it is the last */
    int64_t layers, stretches;    /* of the model that the stage has, and stretches of layers
                                      * that follow each other, into which they are divided */
    struct mw_stretch stretch[MW_STRETCHES_MAX + 1]; /* and its end; those behind are not set */
    int64_t copied_params;           /* of a tied embedding, which the first and the last stage have
                                      * each; 0: of none */
    int64_t micro_batches_in_flight; /* whose backward is still to come, at most; of several
                                      * stretches their passes */
    bool names_recomputed;           /* settings.recompute_set is not empty */
    int64_t dp_ranks_per_node;       /* members of one data-parallel group in a node, */
    int64_t shards_per_node, replicas_per_node; /* and of one group of each kind of these */
    int64_t tp_ranks_per_node;                  /* members of one tensor-slicing group in a node */
    int64_t
        sequences;  /* of one micro-batch of one tensor-slicing group, or of cp groups together */
    int64_t tokens; /* sequences * seq, or a group's part of them */
    struct mw_shape shape;

    bool params_partitioned;    /* fetched for each use */
    bool gradients_partitioned; /* as the strategy's row says */
    bool optimizer_partitioned;
    int64_t element_bytes;     /* of trained parameters, and of their gradients as computed */
    bool gradients_summed;     /* apart from where they are computed, */
    enum mw_dtype sum_dtype;   /* in fp32, or as computed where the software does so */
    bool reduced_at_end;       /* gradients, in one all-reduce; else part by part beside backward */
    bool gradients_swapped;    /* those on drives are fp32, as the software has them, and */
    bool sums_on_host;         /* of gradients that live on drives, to which each sum goes once */
    int64_t sum_element_bytes; /* of a sum of micro-batches; of one alone as computed */
    int64_t gradient_element_bytes; /* while moved: as computed, or of a sum */
    int64_t gradient_rest_bytes;    /* at home; paper20 keeps the 16-bit gradient too */

    int64_t params;              /* of a rank after tensor slicing, unpartitioned */
    int64_t trained_params;      /* of them */
    int64_t spread_params;       /* of these those of spread experts */
    int64_t trained_sides;       /* of them: struct mw_operator_info */
    int64_t shard_params;        /* sum of the shards of trained ones of one rank */
    int64_t shard_matrix_params; /* of them those that Muon updates */

    uint32_t tensor_count;    /* of the model, in walk order: head, layers, tail */
    uint8_t *param_home;      /* [tensor_count] enum mw_tier */
    uint8_t *gradient_home;   /* [tensor_count] */
    uint8_t *checkpoint_home; /* [checkpoint_slots] */
    uint32_t chunk_count;     /* per step; there may be ten thousand, of few kinds */
    uint32_t run_count, run_chunk_count;
    struct mw_chunk_run *runs;   /* [run_count], in the order of the step */
    struct mw_chunk *run_chunks; /* [run_chunk_count] */

    int64_t kept_bytes, stored_bytes; /* activations of the layers that keep them, of a micro-batch:
                                       * as backward needs them, and as they are stored meanwhile */
    int64_t checkpoint_count;         /* groups of layers; 0 without checkpointing */
    int64_t checkpoint_slots;         /* for all micro-batches in flight, one after the other */
    int64_t checkpoint_parts;       /* into which the ranks of a tensor-slicing group divide each */
    int64_t checkpoint_bytes;       /* of one that is a layer's input, or a rank's part of it */
    int64_t checkpoint_layer_bytes; /* of one that is a layer's activations; 0: none is */
    int64_t checkpoint_whole_bytes; /* the same, of all tensor slices together */
    int64_t save_steps; /* from one save of what no extent of the state has to the next; 0: none */
    bool saves_in_step; /* it is part of every step's commit */

    struct mw_buffer buffers[MW_BUFFER_KIND_COUNT]; /* all slots */
    int64_t gradient_sets; /* layers whose gradients live at once, where an update beside backward
                            * takes them; 0: all do */
    int64_t gradient_set_bytes[MW_GRADIENT_SETS_MAX]; /* of their homes, in whole pages */
    int64_t more_parts[MW_TIER_COUNT]; /* for which rings of gradients have room beyond the least */
    struct mw_extent shared[MW_TIER_COUNT];          /* the room for buffers that share bytes */
    int64_t ledger[MW_TIER_COUNT][MW_PURPOSE_COUNT]; /* their bytes, in whole pages */
    int64_t need_bytes[MW_TIER_COUNT];
    int64_t beside[MW_BESIDE_COUNT];                                   /* each at its most; */
    int64_t beside_then[MW_BESIDE_COUNT], beside_bytes[MW_TIER_COUNT]; /* when the GPU is fullest,
                                                                        * and their sums */
    int64_t apart_bytes;  /* of need_bytes of the GPU those that are alive at other times alone */
    int64_t passes_bytes; /* on the GPU, of activations and logits, with the software's, at least;
                           * without checkpoints */
    int64_t largest_bytes[MW_TIER_COUNT]; /* largest contiguous request */
    struct mw_tier_info tiers[MW_TIER_COUNT];

    bool fits;
    enum mw_tier limiting_tier; /* valid when !fits: the tier with the largest relative lack */
    int64_t short_bytes;
    bool fragmentation; /* the largest request fails, not the sum */

    struct mw_class_info classes[MW_CLASS_COUNT];
};

/* `settings` must be resolved except for the fields that sizing itself chooses (tiles, chunk).
 * Returns NULL with an error if the combination makes no sense; "does not fit" is a result. */
struct mw_sizing *mw_sizing_new(const struct mw_model *model, const struct mw_hardware *hardware,
                                const struct mw_settings *settings, GError **error);
/* The same of a pipeline without the stages that are like an earlier one, which has as many
 * micro-batches in flight or more: it fits if all stages do.  No number of ops is too large. */
struct mw_sizing *mw_sizing_new_distinct(const struct mw_model *model,
                                         const struct mw_hardware *hardware,
                                         const struct mw_settings *settings, GError **error);
/* Of its stages how many this one stands for. */
int64_t mw_sizing_stands_for(const struct mw_sizing *sizing);
void mw_sizing_free(struct mw_sizing *sizing); /* NULL is allowed */
/* A pipeline that is sized for its many micro-batches, with this many of them: it has the sizes of
 * `sizing`, borrows its arrays, and may be built.  NULL where sizes go by the number.  Free it with
 * mw_sizing_free_fewer. */
struct mw_sizing *mw_sizing_fewer(const struct mw_sizing *sizing, int64_t micro_batches);
void mw_sizing_free_fewer(struct mw_sizing *fewer); /* NULL is allowed */

/* Sub-groups, as DeepSpeed forms them of the trained parameters of a rank: a group is filled with
 * whole parts of parameters, in walk order, until it has `enough` elements or more (stage3.py,
 * _create_fp16_sub_groups).  `ranks` divide each parameter.  (planner/sizing/swap.c) */
struct mw_sub_groups {
    int64_t largest;      /* elements */
    double rounded_up_by; /* bytes by which buffers of one group each, of `bytes_each` per element,
                           * are larger if each is a power of two */
};
struct mw_sub_groups mw_sizing_sub_groups(const struct mw_sizing *sizing, int64_t enough,
                                          int64_t ranks, double bytes_each);

/* What a rank of DeepSpeed pins in host memory for states on drives, where a plan cuts finer: it
 * cuts no parameter.  Counts are 0 for states that are not on drives. */
struct mw_swap_buffers {
    int64_t param_count, param_elements; /* of whole parts (partitioned_param_swapper.py) */
    int64_t write_elements; /* of updated parameters: a sub-group, with the parts of all ranks
                             * (the same, reserve_partitioned_swap_space) */
    int64_t state_sets, state_count, state_elements; /* fp32, of sub-groups of optimizer_chunk
                                                      * elements (utils.py, SwapBufferManager) */
    int64_t all_bytes;                               /* of all these */
    int64_t plan_bytes;                              /* of the plan's own buffers instead */
    double rounded_up_by;                            /* bytes, if each buffer is a power of two */
};
/* With so many sets of buffers for state; once the ledger is summed. */
struct mw_swap_buffers mw_sizing_swap_buffers(const struct mw_sizing *sizing, int64_t sets);

/* The shape of one micro-batch. */
/* Data-parallel ranks in a node, and in a sharding group: all of them by default. */
int64_t mw_sizing_node_group(const struct mw_settings *settings);
int64_t mw_sizing_shard_group(const struct mw_settings *settings);
bool mw_sizing_has_replicas(const struct mw_settings *settings); /* of sharding groups */
/* hardware NULL: not known, and then with fused attention. */
struct mw_shape mw_sizing_shape(const struct mw_model *model, const struct mw_settings *settings,
                                const struct mw_hardware *hardware);

/* Whether ranks with the same parameters share experts or sequences. */
static inline bool
mw_sizing_shares_layers(const struct mw_sizing *sizing)
{
    return sizing->ep > 1 || sizing->cp > 1;
}

/* What a rank has of a micro-batch's tokens for the all-to-all before an operator of a layer, or
 * behind it; 0: there is none.  For experts a copy for every expert that a token visits, on
 * whatever rank that is; for attention of ranks that share sequences q, k and v, or the result. */
int64_t mw_sizing_exchange_bytes(const struct mw_sizing *sizing, enum mw_operator operator_,
                                 bool before);
/* Where experts are sliced too, slices have other tokens, and gather those of all for their parts
 * of the experts, whose results they add up and scatter: so many bytes; 0: they do not. */
int64_t mw_sizing_expert_slices_bytes(const struct mw_sizing *sizing, enum mw_operator operator_,
                                      bool before);
/* Of ranks that share experts, what the one with the most tokens has, over the mean; 1: all the
 * same, as where a capacity is filled up.  Of an operator of the class: where only a part of its
 * work is the experts', that much of all. */
double mw_sizing_imbalance(const struct mw_sizing *sizing);
double mw_sizing_expert_work(const struct mw_sizing *sizing, const struct mw_class_info *class,
                             enum mw_operator operator_);
/* Whether keys and values pass around a ring beside the operator; those of all ranks together, in
 * backward with their gradients. */
bool mw_sizing_rings(const struct mw_sizing *sizing, enum mw_operator operator_);
int64_t mw_sizing_ring_bytes(const struct mw_sizing *sizing, bool backward);
/* Whether it has experts that are spread over ranks: these have units of their own. */
bool mw_sizing_is_spread(const struct mw_class_info *class, const struct mw_unit_tensor *tensor);
/* Class and layer number (-1 for head and tail) of a tensor; its index within the block. */
enum mw_class mw_sizing_locate(const struct mw_sizing *sizing, uint32_t tensor, int32_t *layer,
                               int *index);
/* Global number of a block's first tensor. */
uint32_t mw_sizing_layer_tensor(const struct mw_sizing *sizing, int64_t layer);
/* Whether gradients that live off the GPU are summed up on it and leave once: all micro-batches
 * make those of a part one after the other. */
bool mw_sizing_sums_passing(const struct mw_sizing *sizing);

/* Of a pipeline's stages, of which `first` is the first: the one that lacks most, or of those that
 * fit the one that takes most of its GPUs. */
const struct mw_sizing *mw_sizing_fullest(const struct mw_sizing *first);

/* Bytes of a gradient's element as ranks reduce it, which has `planned` bytes in the plan: software
 * may have a type of its own for reductions. */
int64_t mw_sizing_reduced_bytes(const struct mw_sizing *sizing, int64_t planned);
bool mw_sizing_tied(const struct mw_sizing *sizing); /* the embedding is the logits' weight */
/* The tensor of this stage whose gradient is summed up with that of a copy: the embedding in the
 * first stage, the logits' weight in the last one, of a pipeline whose model ties them; MW_NONE:
 * none. */
uint32_t mw_sizing_copied_tensor(const struct mw_sizing *sizing);
/* For one that does not fit: what is lacking, as a share of the capacity of the tier that lacks
 * most. */
double mw_sizing_lack(const struct mw_sizing *sizing);
int64_t mw_sizing_lack_of(const struct mw_sizing *sizing, enum mw_tier tier); /* bytes; 0: none */
/* State of so many elements, of which so many are of hidden matrices. */
int64_t mw_state_bytes(const struct mw_settings *settings, const struct mw_hardware *hardware,
                       int64_t elements, int64_t of_matrices);
/* Bytes per element that an update reads and writes: state, gradient and parameter. */
double mw_update_bytes(const struct mw_settings *settings, const struct mw_hardware *hardware,
                       double state_bytes);
/* Whether parameters of fp32 are updated themselves: their optimizer's state has no copy. */
bool mw_updates_in_place(const struct mw_settings *settings, const struct mw_hardware *hardware);
/* State of an element, on average where it has blocks. */
double mw_sizing_state_element_bytes(const struct mw_sizing *sizing);
/* Elements of a rank whose state is in a tier, or would be if it had bytes. */
double mw_sizing_state_elements(const struct mw_sizing *sizing, enum mw_tier tier);
/* Whether the need is of what is alive at one time (planner/sizing/moments.c), and whether
 * gradients on the GPU are so from the step's begin on. */
bool mw_sizing_has_moments(const struct mw_sizing *sizing);
bool mw_sizing_gradients_stay(const struct mw_sizing *sizing);
/* Bytes of trained 16-bit parameters on the GPU that the plan has and the software lacks: its only
 * ones are those of its state. */
int64_t mw_sizing_lacking_bytes(const struct mw_sizing *sizing);
/* Of a tier's need_bytes those that are alive when most is. */
int64_t mw_sizing_peak(const struct mw_sizing *sizing, enum mw_tier tier);
/* Bytes that its slots need, and what the software takes beside them. */
int64_t mw_sizing_whole_need(const struct mw_sizing *sizing, enum mw_tier tier);
/* What longer rings of gradients take of the software's buckets. */
int64_t mw_sizing_bucket_bytes_in_rings(const struct mw_sizing *sizing);
/* Activations that the software keeps without recomputation, as a multiple of those counted; and
 * of layers with adapters, in hundredths. */
double mw_sizing_activations_kept(const struct mw_hardware *hardware);
double mw_sizing_kept_times(const struct mw_sizing *sizing);
/* Whether `one` fits or lacks less; if both lack as much of one tier, less of the others. */
bool mw_sizing_is_nearer(const struct mw_sizing *one, const struct mw_sizing *other);
/* Parts of the logits' weight: of the tail, or of the embedding if it is tied. */
int64_t mw_sizing_logits_parts(const struct mw_sizing *sizing);
/* Number of parts in which an operator processes the tokens: logits and loss in chunks, all others
 * in one. */
int64_t mw_sizing_token_parts(const struct mw_sizing *sizing, enum mw_operator operator_);
struct mw_chunk_moves mw_sizing_chunk_moves(const struct mw_sizing *sizing,
                                            const struct mw_chunk *chunk);
/* Nothing of a chunk without matrices, or of another optimizer. */
void mw_sizing_orthogonal(const struct mw_sizing *sizing, const struct mw_chunk *chunk,
                          struct mw_orthogonal *out);
/* FLOPs that make a matrix orthogonal. */
int64_t mw_orthogonal_flops(int64_t rows, int64_t columns);
/* Exact sums of rows and columns that all ranks add up when they agree on the norm; without
 * pipelines, whose stages would have sums of their own. */
int64_t mw_sizing_agreed_sums_bytes(const struct mw_sizing *sizing);
/* Whether ranks gather momentum for the update of the chunk. */
bool mw_sizing_gathers_momentum(const struct mw_sizing *sizing, const struct mw_chunk *chunk);
/* All chunks of the step in order, [chunk_count]; g_free it. */
struct mw_chunk *mw_sizing_chunks(const struct mw_sizing *sizing);
/* Whether its state is written to the other of two extents (--commit step). */
bool mw_sizing_commits_chunk(const struct mw_sizing *sizing, const struct mw_chunk *chunk);
/* Which layers of a stretch of the stage are recomputed; it borrows from the sizing. */
struct mw_recomputed mw_sizing_recomputed_in(const struct mw_sizing *sizing, int64_t stretch);
bool mw_sizing_recomputes(const struct mw_sizing *sizing, int64_t layer); /* of the stage */
/* Layers whose activations are kept beside those that are recomputed; 0 without checkpoints, or
 * where all are recomputed.  Where checkpoints are of activations these are what is kept, of all
 * layers if none is recomputed. */
int64_t mw_sizing_kept_layers(const struct mw_sizing *sizing);
/* Layers that a micro-batch's pass keeps the activations of, of the stretch with most; all where
 * none is recomputed. */
int64_t mw_sizing_kept_in_pass(const struct mw_sizing *sizing);
/* Checkpoints of a pass, and layers of its largest group, in the stretches with most of them. */
int64_t mw_sizing_groups_in_pass(const struct mw_sizing *sizing);
int64_t mw_sizing_largest_group(const struct mw_sizing *sizing);
bool mw_sizing_recomputes_some(const struct mw_sizing *sizing); /* and keeps others */
/* Whether checkpoints are of two sizes: of inputs and of activations. */
bool mw_sizing_mixes_checkpoints(const struct mw_sizing *sizing);
/* Whether the checkpoint of the stage's layer is of all its activations. */
bool mw_sizing_leaves_whole(const struct mw_sizing *sizing, int64_t layer);
bool mw_sizing_leaves_any_whole(const struct mw_sizing *first); /* of any stage */
/* Into which the weights of a layer are cut, of the kind that has most. */
int64_t mw_sizing_parts_of_layer(const struct mw_sizing *sizing);
/* Layers of all stages that are kept beside recomputed ones; 0 where none is recomputed. */
int64_t mw_sizing_kept_of_model(const struct mw_sizing *first);
/* Of a checkpoint: a layer's input, or all its activations.  Each layer has one then. */
int64_t mw_sizing_checkpoint_bytes(const struct mw_sizing *sizing, int64_t checkpoint);
int64_t
mw_sizing_all_checkpoint_bytes(const struct mw_sizing *sizing); /* of all that live at once */
/* Whether the parts of a checkpoint are gathered before it is recomputed from; slices that share
 * tokens begin with the part that they kept, and a layer that is kept whole is each slice's own. */
bool mw_sizing_gathers_checkpoints(const struct mw_sizing *sizing);
/* Whether the step has a backward of the embedding: nothing comes before it. */
static inline bool
mw_sizing_trains_head(const struct mw_sizing *sizing)
{
    return sizing->classes[MW_CLASS_HEAD].trained_params > 0;
}

/* Whether an all-reduce of Megatron's slicing (ZeRO Sec. 2.1) follows: after the attention's
 * projection and after the MLP in forward and recompute; in backward, of the gradients of the
 * inputs of QKV and of the MLP.  As slices have parts of the vocabulary: after the embedding,
 * within the loss, and of the gradient of the input of the logits. */
bool mw_sizing_all_reduces(enum mw_operator operator_, bool backward);
/* Its bytes, of one of so many parts of the tokens: chunks in which the operator runs. */
int64_t mw_sizing_sum_bytes(const struct mw_sizing *sizing, enum mw_operator operator_);
int64_t mw_sizing_sum_parts(const struct mw_sizing *sizing, enum mw_operator operator_);
/* Whether backward sums up the gradients of tensor slices' inputs beside the products of the
 * weights' gradients. */
bool mw_sizing_tensor_overlap(const struct mw_sizing *sizing);
/* Whether with that slices share tokens, whose products are in pieces (Transformer Engine,
 * userbuffers): tokens come, or sums of them go, piece by piece beside them. */
bool mw_sizing_tensor_pieces(const struct mw_sizing *sizing);
/* Whether the operator's pass is in pieces then. */
bool mw_sizing_in_pieces(const struct mw_sizing *sizing, enum mw_operator operator_, bool backward);
/* Whether, without that, slices share tokens, and scatter and gather by ops of their own
 * (Korthikanti et al., arXiv 2205.05198, Sec. 4.2.2): sums are scattered, and what the next sliced
 * operator needs is gathered before it. */
bool mw_sizing_tensor_parts(const struct mw_sizing *sizing);
/* Whether the sum is scattered: of what the loss needs never. */
bool mw_sizing_scatters_sum(const struct mw_sizing *sizing, enum mw_operator operator_,
                            bool backward);
/* Whether all tokens of the operator's input are gathered before forward and recompute; */
bool mw_sizing_gathers_result(const struct mw_sizing *sizing, enum mw_operator operator_);
/* whether a norm's backward is of the slice's tokens, and the gradients of its weights are summed
 * up behind it; and their bytes. */
bool mw_sizing_sums_norm(const struct mw_sizing *sizing, const struct mw_operator_info *info);
int64_t mw_sizing_norm_bytes(const struct mw_sizing *sizing, const struct mw_operator_info *info);
/* Whether the gradients of the operator's weights are computed in a later pass. */
bool mw_sizing_weights_later(const struct mw_sizing *sizing, const struct mw_operator_info *info);
/* Whether each slice sends its part of what a stage hands on, which the slices of the next stage
 * gather: without sequence parallelism each of them needs all of it. */
bool mw_sizing_scatters_stages(const struct mw_sizing *sizing);
/* Whether these gradients of an operator are an op of their own, then; and whether its input, of
 * which each slice has its part of the tokens, is gathered again for it. */
bool mw_sizing_splits_backward(const struct mw_sizing *sizing, const struct mw_operator_info *info);
/* Where slices share tokens and sums are scattered, backward of a product whose weights are sliced
 * by rows, and of the embedding, begins with a gather of its result's gradient. */
bool mw_sizing_gathers_gradient(const struct mw_sizing *sizing, enum mw_operator operator_);
bool mw_sizing_gathers_input(const struct mw_sizing *sizing, const struct mw_operator_info *info);
/* Bytes that the pass reads and writes which stores a checkpoint in another type than that of
 * activations, or restores the activations from it; 0 where it has their type. */
int64_t mw_sizing_checkpoint_coded_bytes(const struct mw_sizing *sizing, bool restores);
/* Bytes that the pass moves which stores what a layer keeps for its backward, as the one does that
 * restores it; 0 where it is stored as it is, or recomputed. */
int64_t mw_sizing_kept_coded_bytes(const struct mw_sizing *sizing, int64_t layer);
/* Of working memory: one for each micro-batch whose activations are kept at a time, or a single
 * one. */
int64_t mw_sizing_activation_sets(const struct mw_sizing *sizing);
/* Whether micro-batches wait between the last layer and the logits, each in a slot of its own:
 * others go forward through the room of activations before its logits are computed. */
bool mw_sizing_waits_for_logits(const struct mw_sizing *sizing);
/* About how long forward of a block takes, to rank kinds of layers by: products at the rate of
 * whole layers, the rest at that of memory. */
double mw_sizing_forward_s(const struct mw_sizing *sizing, enum mw_class class);
/* How many blocks of a class are recomputed. */
int64_t mw_sizing_recomputed_blocks(const struct mw_sizing *sizing, enum mw_class class);
/* Bytes of a kind's slots, in whole pages; not of homes. */
int64_t mw_sizing_buffer_bytes(const struct mw_sizing *sizing, enum mw_buffer_kind kind);
/* Whether the gradient's home lies in the room for what shares bytes. */
bool mw_sizing_shares_gradient(const struct mw_sizing *sizing, uint32_t tensor);
/* Where its home lies in the room of all gradients, of which only a few layers' live at once
 * (planner/sizing/gradient_sets.c). */
int64_t mw_sizing_gradient_set_place(const struct mw_sizing *sizing, uint32_t tensor);
/* Whether bytes of the room for what shares them belong to two buffers, of which `kind` is one. */
bool mw_sizing_meets_others(const struct mw_sizing *sizing, enum mw_buffer_kind kind,
                            struct mw_extent extent);
/* Whether any slots share bytes but gradients of layers that live in turns. */
bool mw_sizing_shares(const struct mw_sizing *sizing);
/* All slots of a kind in order, [buffers[kind].count], including homes; g_free it. */
struct mw_sized_slot *mw_sizing_slots(const struct mw_sizing *sizing, enum mw_buffer_kind kind);
/* The number of ops that mw_build_plan makes of it. */
int64_t mw_sizing_op_count(const struct mw_sizing *sizing);
/* What its plan could say once; what it does say once, as it has too many ops else; and about how
 * many ops are built for it. */
struct mw_folds mw_sizing_most_folds(const struct mw_sizing *sizing);
struct mw_folds mw_sizing_folds(const struct mw_sizing *sizing);
int64_t mw_sizing_built_ops(const struct mw_sizing *sizing);
/* A micro-batch's way through a stretch of a stage's layers.  Its activations have the same place
 * from forward to backward, among as many as there are passes in flight. */
struct mw_pass {
    uint16_t micro_batch, stretch;
    uint32_t place;
    bool back;
    bool next;       /* of the next step */
    bool of_weights; /* back once more, for the gradients of weights that the way back has left */
};
/* All passes of the stage in their order, *count of them; g_free it. */
struct mw_pass *mw_sizing_passes(const struct mw_sizing *sizing, int64_t *count);
int64_t mw_sizing_passes_in_flight(const struct mw_sizing *sizing);
/* Updates of each chunk in a round of data-parallel ranks: one, or one by each rank. */
static inline int64_t
mw_sizing_updates(const struct mw_sizing *sizing)
{
    return mw_settings_asynchronous(&sizing->settings) ? sizing->dp : 1;
}

/* Of a step, those of one rank: of replicas that take turns a part. */
static inline int64_t
mw_sizing_micro_batches(const struct mw_sizing *sizing)
{
    int64_t all = sizing->settings.grad_accum;

    return mw_settings_takes_turns(&sizing->settings) ? all / sizing->dp : all;
}
/* With an update after each micro-batch: the versions of parameters, and the places among them of
 * the one that a micro-batch makes, and of the one that its passes take. */
int64_t mw_sizing_versions(const struct mw_sizing *sizing);
uint32_t mw_sizing_version_made(const struct mw_sizing *sizing, int64_t micro_batch);
uint32_t mw_sizing_version_taken(const struct mw_sizing *sizing, int64_t micro_batch);
/* The time for which a stage of equal ones waits for others, as a part of the time for which it
 * computes (docs/MODEL.md, 8.4a and 8.4d); 0 without a pipeline. */
/* Without a flush, inputs that come in a step for passes of the next one, to a replica of the
 * stage: what the stage before sends ahead, less what this one itself takes in hand. */
int64_t mw_sizing_carried(const struct mw_sizing *sizing, int64_t replica);
double mw_sizing_bubble(const struct mw_sizing *sizing);
/* Where the gradients of weights are passes of their own: by how many micro-batches these follow
 * the way back. */
int64_t mw_sizing_weights_behind(const struct mw_sizing *sizing);
int64_t mw_sizing_stretch_layers(const struct mw_sizing *sizing, int64_t stretch);
/* The stretch that has a layer of the stage, and the layer's number in the model. */
int64_t mw_sizing_stretch_of(const struct mw_sizing *sizing, int64_t layer);
int64_t mw_sizing_model_layer(const struct mw_sizing *sizing, int64_t layer);
enum mw_class mw_sizing_layer_class(const struct mw_sizing *sizing, int64_t layer);

/* The number of a model while the thread remembers it; one that was forgotten gets another. */
int64_t mw_sizing_model_number(const struct mw_model *model);

#endif
