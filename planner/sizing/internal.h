/* internal.h - what the files of sizing share. */
#ifndef MW_PLANNER_SIZING_INTERNAL_H
#define MW_PLANNER_SIZING_INTERNAL_H

#include "planner/sizing/sizing.h"

const struct mw_unit_tensor *mw_sizing_tensor(const struct mw_sizing *sizing, uint32_t tensor);

/* Of `count` operators from `first` on the one with the most parameters, by its index in the class:
 * of a unit the one that tiles cut, an embedding or a matrix product. */
int mw_sizing_largest_operator(const struct mw_class_info *class, int first, int count);

/* The kind of buffer that serves a unit's tensor. */
static inline enum mw_buffer_kind
mw_buffer_of(enum mw_buffer_kind kind, bool tiled)
{
    return tiled ? kind : kind + 1;
}

/* The operator that names a tensor: the one with the most parameters.  What tied logits have beside
 * the embedding is named as a projection. */
enum mw_operator mw_sizing_tensor_operator(const struct mw_sizing *sizing, uint32_t tensor);

int64_t mw_sizing_param_bytes(const struct mw_unit_tensor *tensor, int64_t elements);

/* Fails with a line that names the option and what is accepted; else gives the operators of a
 * micro-batch. */
bool mw_sizing_check(const struct mw_model *model, const struct mw_hardware *hardware,
                     const struct mw_settings *settings, struct mw_model_walk *walk,
                     GError **error);

/* As mw_model_walk_checked; the thread remembers the last ones. */
bool mw_sizing_walk(const struct mw_model *model, const struct mw_shape *shape,
                    struct mw_model_walk *walk, GError **error);

/* The part of the check that does not depend on the machine. */
bool mw_sizing_check_settings(const struct mw_model *model, const struct mw_settings *settings,
                              GError **error);

/* Call it once the rank's part of the state is known. */
bool mw_sizing_check_chunks(const struct mw_sizing *sizing, GError **error);
bool mw_sizing_check_uses(const struct mw_sizing *sizing, GError **error);

/* Whether all layers are of one kind. */
bool mw_sizing_has_equal_layers(const struct mw_sizing *sizing);
/* Whether a step of too many ops may say its layers once. */
bool mw_sizing_folds_layers(const struct mw_sizing *sizing);
/* A lower bound of the number of ops, from the parts into which units are cut: before anything is
 * placed. */
int64_t mw_sizing_least_ops(const struct mw_sizing *sizing);
/* The number of ops of a sizing with these settings; if more than `most`, a lower bound. */
int64_t mw_sizing_ops_of(const struct mw_model *model, const struct mw_hardware *hardware,
                         const struct mw_settings *settings, int64_t most);
/* The most of settings->grad_accum micro-batches with which a step has at most settings->ops_max
 * ops; 0: none. */
int64_t mw_sizing_most_micro_batches(const struct mw_model *model,
                                     const struct mw_hardware *hardware,
                                     const struct mw_settings *settings);
/* MW_ERROR_LARGE: a step of more than settings->ops_max.  Names the option and the nearest value
 * that is quick; tiles and chunks that were open in `asked` are the fewest that fit.  `batches` has
 * the nearest global batches of all plans; NULL: not searched, so those of these settings are
 * named. */
void mw_sizing_refuse_ops(const struct mw_model *model, const struct mw_hardware *hardware,
                          const struct mw_settings *settings, const struct mw_settings *asked,
                          const struct mw_nearest_batches *batches, GError **error);

void mw_sizing_sum_shards(struct mw_sizing *sizing); /* of one rank */
/* Elements from one part of a tensor to the next in a home. */
int64_t mw_sizing_part_stride(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor,
                              bool partitioned);
/* The same of a trained tensor's state: parts begin at whole blocks of every array. */
int64_t mw_sizing_state_stride(const struct mw_sizing *sizing, const struct mw_unit_tensor *tensor);
/* Whether each part of a tensor has an owner, which moves it alone and broadcasts it. */
bool mw_sizing_owners_broadcast(const struct mw_sizing *sizing);
/* Elements of a part that one rank's links and drives carry: its shard, or the whole part where an
 * owner broadcasts it. */
int64_t mw_sizing_carried_params(const struct mw_sizing *sizing,
                                 const struct mw_unit_tensor *tensor);

/* Elements of a trained tensor's state on one rank; of them those that Muon updates. */
int64_t mw_sizing_state_of_rank(const struct mw_sizing *sizing,
                                const struct mw_unit_tensor *tensor);
int64_t mw_sizing_matrices_of_rank(const struct mw_sizing *sizing,
                                   const struct mw_unit_tensor *tensor);
/* Bytes of the home of a tensor's parameters or gradients. */
int64_t mw_sizing_home_bytes(const struct mw_sizing *sizing, enum mw_buffer_kind kind,
                             const struct mw_unit_tensor *tensor);

/* Whether homes of the state lie in several tiers; else all lie in the first one's. */
bool mw_sizing_splits(const struct mw_sizing *sizing, enum mw_state state);

/* Sets the tier of every tensor, checkpoint and chunk. */
void mw_sizing_place_tensors(struct mw_sizing *sizing);
void mw_sizing_place_checkpoints(struct mw_sizing *sizing);
void mw_sizing_cut_chunks(struct mw_sizing *sizing);
/* These are its chunks now, [chunk_count], each a row of its own. */
void mw_sizing_take_chunks(struct mw_sizing *sizing, struct mw_chunk *chunks);

/* Of a stretch of layers that live alike, `left_out` layers in front of layer `cut` are left out,
 * and their chunks, which come in rounds.  All numbers but `left_out` are those of the sizing that
 * is left. */
struct mw_layer_gap {
    int64_t first, end; /* the stretch */
    int64_t cut, left_out;
    int64_t layers_of_chunks;           /* of a round of chunks */
    uint32_t first_chunk, chunks_until; /* of the stretch's layers alone: the first, and the end */
    uint32_t chunk_cut, chunks_left_out, chunks_of_round;
};

/* Four states in three tiers each change their tier at eight layers. */
#define MW_LAYER_GAPS_MAX 9

/* A sizing with few layers, and what they leave out, in the order of layers. */
struct mw_few_layers {
    struct mw_sizing *sizing; /* to be freed */
    struct mw_layer_gap gaps[MW_LAYER_GAPS_MAX];
    int gap_count;
};
/* With so many checkpoint groups and three quarters as many rounds of chunks, or some more.  False,
 * with nothing to free: the sizing has no more, or its chunks do not come in rounds. */
bool mw_sizing_few_layers(const struct mw_sizing *sizing, int64_t rounds,
                          struct mw_few_layers *few);

/* Of a logit and its fp32 softmax, which becomes the gradient in place; fewer of software that
 * keeps no softmax. */
int64_t mw_sizing_logit_bytes(const struct mw_sizing *sizing);
/* How many slots each kind of homes has. */
void mw_sizing_count_homes(struct mw_sizing *sizing);
/* Sets the table of buffers, once all homes have their tiers. */
void mw_sizing_set_buffers(struct mw_sizing *sizing);
/* --- planner/sizing/gradient_sets.c --- */
/* Sets how many layers' gradients live at once; the bytes of all homes of gradients then. */
void mw_sizing_set_gradient_sets(struct mw_sizing *sizing);
int64_t mw_sizing_gradient_sets_bytes(const struct mw_sizing *sizing);

/* --- planner/sizing/share.c --- */
/* Finds which buffers share bytes, and where they lie. */
void mw_sizing_share_slots(struct mw_sizing *sizing);
/* Of a buffer that shares bytes: those that none before it in the plan's order lies over. */
int64_t mw_sizing_own_bytes(const struct mw_sizing *sizing, enum mw_buffer_kind kind);
/* --- planner/sizing/casts.c --- */
/* Whether the software's only parameters are fp32, and cast where they are used; and whether that
 * is by autocast, of whole ones. */
bool mw_sizing_casts(const struct mw_sizing *sizing);
bool mw_sizing_autocasts(const struct mw_sizing *sizing);
/* Of an element of a gradient as backward leaves it to a parameter. */
double mw_sizing_own_gradient_bytes(const struct mw_sizing *sizing);
/* Whether it has whole frozen parameters in more bytes, beside narrow ones. */
bool mw_sizing_widens_frozen(const struct mw_sizing *sizing);
/* Of an element of what passes from layer to layer, and so of a checkpoint. */
int64_t mw_sizing_stream_bytes(const struct mw_sizing *sizing);
/* Of copies in 16 bits, of the layers and of the logits' weight; 0 where the plan's 16-bit
 * parameters stand for them. */
bool mw_sizing_casts_are_apart(const struct mw_sizing *sizing);
double mw_sizing_layer_casts(const struct mw_sizing *sizing);
double mw_sizing_logits_cast(const struct mw_sizing *sizing);
/* --- planner/sizing/adapters.c --- */
/* Whether what adapters and frozen layers keep is counted one by one, in place of a multiple of the
 * plan's; bytes that a layer keeps more than the plan has, and all that there is beside what it
 * keeps while its backward runs. */
bool mw_sizing_counts_adapters(const struct mw_sizing *sizing);
double mw_sizing_adapted_kept(const struct mw_sizing *sizing);
double mw_sizing_adapted_passing(const struct mw_sizing *sizing);
/* --- planner/sizing/moments.c --- */
/* Parameters of the embedding, if it is trained. */
double mw_sizing_trained_embedding(const struct mw_sizing *sizing);
/* `beside`: what the software has beside the slots, each at its most, and then, of the GPU, what is
 * alive when most is.  Of the activations that it keeps beside the plan's, `of_group` are of layers
 * that backward recomputes.  Sets apart_bytes and passes_bytes. */
void mw_sizing_take_fullest(struct mw_sizing *sizing, double beside[MW_BESIDE_COUNT],
                            double of_group);
/* Bytes of gradients beside those that they are added to, at their most: of the embedding beside
 * tied logits', and of one tensor beside sums of micro-batches. */
double mw_sizing_added_gradients(const struct mw_sizing *sizing);
/* Share of layers whose activations are kept: all without recomputation. */
double mw_sizing_kept_share(const struct mw_sizing *sizing);

/* --- planner/sizing/blocks.c --- */
/* Whether the software gathers and reduces whole blocks; bytes of parameters and gradients that are
 * on their way then, when backward is there; those of the plan's buffers, for which they stand; and
 * by how much they are more, at most. */
enum mw_block_moment {
    MW_BLOCKS_LOSS,
    MW_BLOCKS_LOGITS,     /* the product's backward */
    MW_BLOCKS_LAST_LAYER, /* with which backward of layers begins */
    MW_BLOCKS_LAYER,
    MW_BLOCKS_HEAD, /* the embedding's backward */
    MW_BLOCK_MOMENT_COUNT
};
struct mw_blocks {
    double params, gradients;
};
bool mw_sizing_has_blocks(const struct mw_sizing *sizing);
struct mw_blocks mw_sizing_blocks(const struct mw_sizing *sizing, enum mw_block_moment moment);
struct mw_blocks mw_sizing_planned_blocks(const struct mw_sizing *sizing);
double mw_sizing_more_blocks(const struct mw_sizing *sizing);

/* Sets what the software takes beside the slots, once these are summed up. */
void mw_sizing_set_beside(struct mw_sizing *sizing);
/* Bytes that an update on the GPU copies, of a rank's parts of parameters of which the largest has
 * so many elements; and the ranks that share the state. */
double mw_sizing_update_copies(const struct mw_sizing *sizing, int64_t largest);
int64_t mw_sizing_updaters(const struct mw_sizing *sizing);
/* Sums it up, reads what each tier has, and sets the verdict. */
void mw_sizing_sum_ledger(struct mw_sizing *sizing);
/* Adds slots to a buffer of a sizing that is summed up. */
void mw_sizing_add_slots(struct mw_sizing *sizing, enum mw_buffer_kind kind, int64_t count);
/* Anew what the software takes and the verdict, after that. */
void mw_sizing_judge(struct mw_sizing *sizing);

/* --- planner/sizing/gradient_rings.c --- */
/* The least length of a ring: one gradient leaves while the next is computed. */
#define MW_GRADIENT_RING 2
/* Of a sizing that fits: makes the rings of gradients as long as the tiers have room for and as it
 * helps. */
void mw_sizing_lengthen_rings(struct mw_sizing *sizing);

/* --- planner/sizing/swap.c --- */
/* From here to the next power of two. */
double mw_sizing_rounded_up_by(double bytes);
/* Elements of a rank's part of the largest parameter that is trained. */
int64_t mw_sizing_largest_trained(const struct mw_sizing *sizing, int64_t ranks);
/* The same of a block. */
int64_t mw_sizing_largest_of_class(const struct mw_sizing *sizing, enum mw_class class,
                                   int64_t ranks);
/* What it adds to each byte of frozen parameters, where each part of one has a buffer. */
double mw_sizing_frozen_rounding(const struct mw_sizing *sizing, int64_t ranks);

/* --- planner/sizing/buffers.c --- */
int64_t mw_sizing_layer_parts(const struct mw_sizing *sizing);
/* The most activations that a layer's backward needs. */
int64_t mw_sizing_layer_bytes(const struct mw_sizing *sizing);

/* --- planner/sizing/recompute.c --- */
/* Sets kept_bytes and stored_bytes. */
void mw_sizing_set_kept(struct mw_sizing *sizing);
/* Elements of softmax's results, of those layers and of the largest group that is recomputed. */
int64_t mw_sizing_kept_scores(const struct mw_sizing *sizing);
/* Activations of the checkpoint group that has the most. */
int64_t mw_sizing_group_bytes(const struct mw_sizing *sizing);

#endif
