/*
 * compute.h - one compute op with its operands: what exec/ hands to a backend's operators.
 *
 * All pointers but ids, targets and loss are addresses of device memory, at the places of the
 * plan's slots; nothing is allocated for an op.  Shapes: T = sequences * seq tokens of the
 * micro-batch, h hidden, q = heads * head_dim, kv = kv_heads * head_dim, f ffn, V vocab.
 * Parameters, activations and their gradients are elements of one type, `dtype`; activations are
 * row-major, a row a token.
 *
 * Where tensor slices share tokens (mw_slice.shares_tokens), [T, h] of what a layer keeps has the
 * rows of the slice's own tokens alone, from its start on.  Of what is shared between layers
 * `final`, `gradient` and `branch` are whole: the slice's own rows lie in their place, and those of
 * others come by a gather, or lie there to be scattered.
 *
 * Forward visits a unit's parts in order, backward in reverse: the part with the last rows is the
 * last one forward and the first one backward.
 */
#ifndef MW_EXEC_OPERATORS_COMPUTE_H
#define MW_EXEC_OPERATORS_COMPUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/decoder.h"
#include "plan/plan.h"

/* Where the operators' parameters lie in a part of a fetch unit (exec/data/weights.h), and their
 * gradients in the part's gradient: offsets in elements, -1 where the part has none.  A matrix is
 * [all_rows, columns], of which the part has [first_row, first_row + rows), with their biases. With
 * a gate MLP_UP is two such matrices: the part has these rows of the gate's, right behind them the
 * same rows of up's, and the biases likewise. */
struct mw_part_matrix {
    int64_t at, bias_at;
    int64_t first_row, rows, all_rows, columns;
};

struct mw_part {
    int64_t norm_weight_at, norm_bias_at; /* of NORM1, NORM2 or FINAL_NORM */
    int64_t q_norm_at, k_norm_at;         /* of QKV */
    /* QKV, PROJECTION, MLP_UP, MLP_DOWN, LOGITS, EMBEDDING; of a mixture's experts that of the
     * first one, behind which the others' lie: in MLP_UP all gates, then all of up. */
    struct mw_part_matrix matrix;
    int64_t router_at;               /* of a mixture's MLP_UP: [experts, hidden] */
    struct mw_part_matrix positions; /* the learned position table; rows 0 without one */
    /* Of adapters: A of each of the operator's matrices, one below the other, and so the B's. */
    int64_t lora_in_at, lora_out_at;
    int64_t elements;
};

/* Where the gradients lie that a layer's backward passes from operator to operator.  They share
 * memory, as mw_shared_activations says, unless the gradients of weights come later: then those of
 * results of products and norms have room of their own, and the last, of the layer's input, is that
 * of the output of the layer before. */
struct mw_layer_gradients {
    void *out;   /* [T, h] of the layer's output */
    void *up;    /* as up */
    void *n2;    /* [T, h] */
    void *x2;    /* [T, h] */
    void *heads; /* with norms of q and k, as raw: of what they give; else it is qkv */
    void *qkv;   /* as qkv */
    void *n1;    /* [T, h] */
    void *x;     /* [T, h] of the layer's input */
};

/* What a layer keeps for its backward.  The inputs of products with frozen weights (n1, n2, act)
 * are not kept unless an adapter needs them: they lie in the shared room's `wide`, and are there
 * until the product is done. */
struct mw_layer_activations {
    void *x;   /* [T, h] its input */
    void *n1;  /* [T, h] */
    void *qkv; /* [T, q + 2 kv], rotated where the model rotates; with norms of q and k [T, q], then
                * [T, kv], then [T, kv] */
    void *raw; /* with norms of q and k: [T, q], then [T, kv], what is normed */
    void *o;   /* [T, q] output of attention */
    float *lse; /* [sequences, heads, seq] */
    /* Where ranks share sequences and each has all tokens of some heads for attention: what that
     * gives, [all T, q / ranks]; meanwhile qkv is [all T, (q + 2 kv) / ranks], and lse of as
     * many. */
    void *attended;
    void *x2;  /* [T, h] x + projection */
    void *n2;  /* [T, h] */
    void *up;  /* [T, f]; with a gate [T, f] of the gate, then [T, f] of up */
    void *act; /* [T, f] */
    /* Of a mixture, f above is that of all experts that a token visits, and rows of up and act are
     * of copies of tokens, sorted by expert (exec/operators/kernel_types.h).  Where experts are
     * spread, or drop tokens, they are rooms for mw_decoder_expert_rows, of which the copies that
     * have come take the first; those of an expert are in the order of ranks: */
    float *router;     /* [T, experts] probabilities; in backward the gradients of their scores */
    float *router_lse; /* [T], where a loss is of it: log-sum-exp of the scores; else NULL */
    void *copies; /* [T * visits, h] of n2; in backward their gradient.  Spread: those that came */
    void
        *results; /* [T * visits, h] of the experts; in backward their gradient.  Spread: those that
                    * came back */
    /* With adapters: what their A's give, times alpha / rank, [T, all A's rows]; in backward the
     * gradient of that. */
    void *lora[MW_OPERATOR_COUNT];
    struct mw_layer_gradients gradient;
};

/* What all layers share.  Tensors that are never needed at once share memory: `final` lies where
 * `gradient` does, since the final norm's backward makes the first gradient after the last read of
 * `final`; `hidden` lies in `wide`, which only the backward of the layers uses, and forward for
 * inputs that are not kept; where MLP_DOWN's is one of them, `hidden` has room of its own.  The
 * last output of a recomputed group, which nothing reads, may go to `hidden` too. */
struct mw_shared_activations {
    void *hidden;   /* [T, h] output of the last layer */
    void *final;    /* [T, h] after the final norm */
    void *gradient; /* [T, h] of the layer's output; in the end, of its input */
    void *branch;   /* [T, max(h, q)] gradient of an operator's input */
    /* Where keys and values pass around a ring of ranks, each a block: k, then v, [T, 2 kv]; that
     * which attention takes and that which comes meanwhile, and their gradients. */
    void *ring[2], *ring_gradient[2];
    void *wide; /* wide_elements: gradients of qkv, and of the MLP's inner activation; in turn
                 * with them n1, n2 and act where they are not kept */
    int64_t wide_elements;
    /* Where experts are spread: what goes to other ranks, as wide as the room for what comes:
     * copies of tokens, experts' results, and the gradients of both. */
    void *exchange;
    void *gathered; /* where slices share tokens, [T, h]: n1 or n2, for the product that takes it */
};

/* Where experts are spread: which rank's tokens visit which expert, of the layer that is computed.
 * The operator that finds where copies go writes the rank's own; behind the all-to-all all are
 * there. */
struct mw_visits {
    int32_t *counts; /* [ranks][experts]: copies of a rank's tokens that go to an expert */
    int32_t *begin; /* [experts here + 1]: of the copies that came, the first of each expert here */
};

struct mw_compute {
    const struct mw_decoder *decoder;
    enum mw_operator operator_;
    bool backward;       /* forward and recompute are alike */
    bool of_weights;     /* backward: the gradients of weights alone, of what the backward without
                          * them has left */
    enum mw_dtype dtype; /* of elements; MW_DTYPE_NONE: one of 16 bits */
    int64_t sequences, seq;      /* of a sequence, the tokens that this rank has */
    int64_t first_token, tokens; /* of LOGITS and LOSS: a chunk; else 0 and T */
    int64_t block; /* ATTENTION in a ring: of the keys that have come from so many ranks before */
    const int32_t *ids, *targets; /* [T]; a target of -1 adds neither loss nor gradient */
    float gradient_scale;         /* of a token's loss: loss scale / tokens of the whole batch */
    double *loss;                 /* LOSS adds the sum of its tokens' losses */
    uint64_t draw;         /* of a mixture whose tokens draw experts: of the layer and its tokens */
    double *router_losses; /* MLP_UP of a mixture, forward: what mw_kernels.router_losses gives of
                            * the layer; NULL: nobody asks */

    const struct mw_part *part;
    const void *params; /* the part's; NULL where the operator has none */
    /* Where the part's are narrower than products take them: its blocks (exec/data/blocks.h), their
     * type, and params itself, into which they are widened first.  Else narrow is NULL. */
    const void *narrow;
    void *widened;
    enum mw_dtype narrow_dtype;
    void *gradient;     /* of the part; NULL forward and where there is none */
    bool gradient_adds; /* adds to what the gradient holds */

    const struct mw_visits *visits; /* NULL where experts are not spread */

    const struct mw_layer_activations *layer; /* NULL outside the layers */
    const struct mw_shared_activations *shared;
    void *input;     /* EMBEDDING: where the first layer's input goes */
    void *output;    /* MLP_DOWN: where the next layer's input goes; not the layer's own x2 */
    void *into_last; /* FINAL_NORM: where the gradient of the last layer's output goes; NULL:
                      * shared->gradient */
    void *logits;    /* [tokens, V], rows mw_logits_stride apart; the loss turns them into
                         their gradient in place */
};

/* How the activation room of a plan is divided, from its start: the layers' sums of attention
 * (lse), the shared activations, the rest of the layers, the last of them first: so those that are
 * recomputed, which nobody needs meanwhile, are at the end.  It takes at most what sizing counts:
 * saved activations of `layers` layers, and twice the widest output.  (Models with an MLP far
 * narrower than their hidden size would need more: `bytes` says so.)  Tensors follow each other
 * without gaps; they begin at multiples of 64 bytes where T is a multiple of 32. */
struct mw_activation_layout {
    int64_t bytes;
    int64_t layer_bytes; /* of one layer in total */
    int64_t layers;
    int64_t
        coded_layers; /* behind them: what these keep is stored in mxfp8, and made and used in the
                            * room of layer 0; their sums of attention stay fp32 */
    int64_t layer_elements, coded_bytes; /* of one layer: stored so */
    int64_t element_bytes;               /* of activations */
    /* Of a layer, where the gradients of weights come later: what these need has rooms of its own;
     * else 0. */
    int64_t inputs_bytes, results_bytes;
    uint32_t unread; /* operators whose inputs no gradient of weights reads */
};

/* `frozen`: operators whose weights have no gradients, bits 1 << enum mw_operator. */
struct mw_activation_layout mw_activation_layout(const struct mw_decoder *decoder,
                                                 enum mw_dtype dtype, int64_t sequences,
                                                 int64_t seq, int64_t layers, uint32_t frozen);
/* Adds layers whose activations are stored in mxfp8. */
void mw_activation_layout_add_coded(struct mw_activation_layout *layout,
                                    const struct mw_decoder *decoder, int64_t sequences,
                                    int64_t seq, int64_t layers);
/* Moves the inputs of products and norms to rooms of their own, in which gradients of results are
 * too: mw_activations_place_operands places them. */
void mw_activation_layout_part_operands(struct mw_activation_layout *layout,
                                        const struct mw_decoder *decoder, int64_t sequences,
                                        int64_t seq);
/* Of a rank's layer `turn`, from 0 on, of so many of a micro-batch whose rooms these are;
 * `gradient` is that of the input of layer 0. */
void mw_activations_place_operands(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                                   const struct mw_activation_layout *layout, int64_t turn,
                                   void *inputs, void *results, void *gradient,
                                   struct mw_layer_activations *layer);
/* From the block's start, the bytes that are needed between forward and the first recomputation, if
 * the last `kept` layers keep theirs. */
int64_t mw_activations_lasting(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                               const struct mw_activation_layout *layout, int64_t kept);
/* Where a coded layer's activations are stored; NULL for another layer.  What is stored are its
 * elements from `x` on. */
void *mw_activations_coded(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                           const struct mw_activation_layout *layout, void *base, int64_t layer);
/* The rooms at `base`, which is as large as the layout says; addresses only, nothing is read. */
struct mw_layer_activations mw_activations_of_layer(const struct mw_decoder *decoder,
                                                    int64_t sequences, int64_t seq,
                                                    const struct mw_activation_layout *layout,
                                                    void *base, int64_t layer);
struct mw_shared_activations mw_activations_shared(const struct mw_decoder *decoder,
                                                   int64_t sequences, int64_t seq,
                                                   const struct mw_activation_layout *layout,
                                                   void *base);

/* From one row of logits to the next, in elements: whole cache lines where that fits what
 * planner/sizing counts of a logit, 4 bytes beside the element. */
int64_t mw_logits_stride(const struct mw_decoder *decoder, enum mw_dtype dtype);

/* What slices of the vocabulary see of a chunk's tokens, [slices][tokens][MW_LOSS_SUMS], in rows
 * that backward uses first behind the loss: LOSS of a slice leaves its own part there forward, and
 * takes all of them backward. */
#define MW_LOSS_SUMS (MW_LOSS_SUM_BYTES / (int)sizeof(float))
float *mw_compute_loss_sums(const struct mw_compute *compute);

/* What a slice has made that is to be summed up with the others', and its elements: the operator's
 * results, or the gradient of its input.  NULL: nothing, or what mw_compute_loss_sums says. */
void *mw_compute_partial_sums(const struct mw_compute *compute, int64_t *elements);

/* Where slices share tokens: all rows, and the slice's own, of what an operator has made, which are
 * summed up and scattered behind it, or of what it takes, which are gathered before it.  Of
 * backward's inputs of products, `own` is what forward has kept.  `whole` is NULL where the
 * operator has nothing of the kind. */
struct mw_slice_rows {
    void *whole, *own;
    int64_t elements, own_elements;
};
struct mw_slice_rows mw_compute_scattered(const struct mw_compute *compute);
struct mw_slice_rows mw_compute_gathered(const struct mw_compute *compute);

/* What of spread experts' tokens, results and gradients goes to other ranks before the operator or
 * behind it, and where that comes to. */
struct mw_dispatched {
    const void *from;
    void *to;
    bool back; /* from experts to the ranks of the tokens */
};
struct mw_dispatched mw_compute_dispatched(const struct mw_compute *compute);
/* What ranks that share sequences (plan/context.h) do before attention, in forward with qkv and in
 * backward with the gradient of its result: of the rank's tokens of all heads they make all tokens
 * of its heads; and the other way behind attention. */
struct mw_exchange {
    bool gathers; /* all tokens; else it returns them */
    int count;
    struct mw_exchange_columns { /* of the rank's tokens: from one token to the next ld elements */
        void *at;
        int64_t ld, width;
    } columns[3];
    int64_t width; /* all of these */
    void *whole;   /* [sequences][ranks][seq][width / ranks]: all tokens of the rank's heads */
    void *room;    /* as much: blocks of ranks, [sequences][ranks][seq][width / ranks] */
};
struct mw_exchange mw_compute_exchange(const struct mw_compute *compute, bool behind);
/* From the columns to the blocks that are sent, and from those that have come to the columns. */
void mw_exchange_pack(const struct mw_compute *compute, const struct mw_exchange *exchange);
void mw_exchange_unpack(const struct mw_compute *compute, const struct mw_exchange *exchange);

/* Where keys and values pass around a ring: puts the rank's own into the first room. */
void mw_ring_pack(const struct mw_compute *compute);

/* Bytes of an element; the element `elements` after another. */
static inline int64_t
mw_compute_element_bytes(enum mw_dtype dtype)
{
    return mw_dtype_element_bytes(dtype == MW_DTYPE_NONE ? MW_DTYPE_BF16 : dtype);
}

/* The rank's own rows of hidden states, of room for those of all tokens. */
static inline void *
mw_compute_own_rows(const struct mw_compute *compute, void *whole)
{
    int64_t first = mw_decoder_first_own(compute->decoder, compute->sequences * compute->seq);

    return (char *)whole +
           first * compute->decoder->hidden * mw_compute_element_bytes(compute->dtype);
}

/* The part of a fetch unit, from exec/data/weights.h. */
struct mw_part mw_part_of(const struct mw_decoder *decoder, const struct mw_tensor *tensor,
                          int64_t tile);

/* Widths of q, and of k and of v. */
static inline int64_t
mw_decoder_q(const struct mw_decoder *decoder)
{
    return decoder->heads * decoder->head_dim;
}

static inline int64_t
mw_decoder_kv(const struct mw_decoder *decoder)
{
    return decoder->kv_heads * decoder->head_dim;
}

/* Whether an operator has adapters; the rows of all its A's. */
static inline bool
mw_decoder_adapts(const struct mw_decoder *decoder, int operator_)
{
    return decoder->lora_adapted >> operator_ & 1;
}

int64_t mw_decoder_lora_width(const struct mw_decoder *decoder, int adapted);

/* Elements of the MLP's inner activation: of a mixture, of all rows that its experts have room
 * for. */
static inline int64_t
mw_decoder_inner(const struct mw_decoder *decoder, int64_t tokens)
{
    int64_t rows = decoder->experts ? mw_decoder_expert_rows(decoder, tokens) : tokens;

    return rows * decoder->ffn;
}

/* What a layer keeps in fp32, outside of its elements: sums of attention, and of a mixture the
 * router's probabilities, and with a loss of its scores what they are summed up to. */
static inline int64_t
mw_decoder_fp32_bytes(const struct mw_decoder *decoder, int64_t tokens)
{
    return (int64_t)sizeof(float) * tokens *
           (decoder->heads + decoder->experts + (decoder->router_z_loss > 0));
}

/* MLP_UP has two matrices. */
static inline bool
mw_decoder_gated(const struct mw_decoder *decoder)
{
    return decoder->kind == MW_DECODER_LLAMA;
}

#endif
