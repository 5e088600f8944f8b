/*
 * optimizers.h - what optimizers keep of an element, one row each.
 *
 * State is what is at rest beside the parameter and the gradient of 16 bits: an fp32 parameter
 * where the optimizer has one, and its moments, each an array of its own over the elements of a
 * chunk, one behind the other.  An update reads all of it and writes all of it, reads a gradient
 * and writes a parameter.
 *
 * Beside it Adafactor and SM3 keep vectors of each tensor: a number for each row of a matrix and
 * one for each column, or one for each element of what is no matrix.  They are a thousandth of the
 * rest and are counted apart: every rank has all of them, in host memory.
 *
 * Muon updates hidden matrices alone: those with two sides, but the embedding's and the head's.
 * All else that it trains has AdamW's state.
 */
#ifndef MW_PLAN_OPTIMIZERS_H
#define MW_PLAN_OPTIMIZERS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/dtype.h"
#include "plan/state.h"

/* In plans by name; records of durable runs hold the numbers, so new ones come last. */
enum mw_optimizer_kind {
    MW_OPTIMIZER_ADAMW,
    MW_OPTIMIZER_ADAMW_16BIT,
    MW_OPTIMIZER_ADAMW_8BIT,
    MW_OPTIMIZER_ADAMW_PURE,
    MW_OPTIMIZER_SGD,
    MW_OPTIMIZER_MOMENTUM,
    MW_OPTIMIZER_LION,
    MW_OPTIMIZER_ADAFACTOR,
    MW_OPTIMIZER_SM3,
    MW_OPTIMIZER_MUON,
    MW_OPTIMIZER_ADAMW_8BIT_PURE,
    MW_OPTIMIZER_ADAFACTOR_PURE,
    MW_OPTIMIZER_SGD_PURE,
    MW_OPTIMIZER_COUNT
};

/* The arrays of a state, in their order.  An optimizer that runs keeps the first of them. */
enum mw_kept { MW_KEPT_PARAMETER, MW_KEPT_MOMENTUM, MW_KEPT_VARIANCE, MW_KEPT_COUNT };

/* A whole block of any array. */
#define MW_KEPT_BLOCK 2048

/* What an update in PyTorch has for a while beside the state: copies of what it works on.  A kernel
 * that does all of it has none. */
struct mw_update_copies {
    int count;           /* at once; 0: the update works in place */
    enum mw_dtype dtype; /* of each */
    bool of_list; /* of all parameters, where software updates these as a list; else of one */
    bool fuses;   /* frameworks have such a kernel */
};

struct mw_optimizer_row {
    const char *name;
    enum mw_dtype dtypes[MW_KEPT_COUNT]; /* MW_DTYPE_NONE: it keeps none */
    /* Before a tensor's name in checkpoints: of a matrix's first side, of its second, of what is no
     * matrix.  NULL: it keeps none, or none that runs. */
    const char *vectors[3];
    int64_t vector_bytes; /* of host memory for each of their numbers; 0: it keeps none */
    int gradient_passes;  /* over each gradient, beside the norm's and the update's */
    bool clips;           /* of them the last one follows the ranks' agreement on the norm */
    struct mw_update_copies copies;
    int64_t unfused_bytes; /* that an update in PyTorch moves per parameter with a kernel for each
                           * operation, in fp32; 0: there is none without kernels of its own */
    enum mw_update_rule rule;
    bool orthogonalizes; /* hidden matrices, by products on the GPU; AdamW updates all else */
    bool runs;           /* by the executor */
    double beta1, beta2; /* what a run has by default */
    const char *keeps, *source;
};

const struct mw_optimizer_row *mw_optimizer_row(int kind); /* NULL out of range */
const char *mw_optimizer_name(int kind);

bool mw_optimizer_keeps(int kind, enum mw_kept kept);
/* Whether it keeps vectors of rows and columns. */
bool mw_optimizer_has_vectors(int kind);
/* Passes over a gradient of an op that takes its norm: that one, and those that make exact sums.
 * on_its_way: to drives, from where it comes back for a pass behind the ranks' agreement. */
int mw_optimizer_norm_passes(int kind, bool on_its_way);
/* Whether it makes hidden matrices orthogonal. */
bool mw_optimizer_orthogonalizes(int kind);
/* Whether its update takes nothing but an element's gradient and state, from which the parameter
 * can be made again: several updates may follow each other, with no agreement in between. */
bool mw_optimizer_updates_alone(int kind);
/* Elements at whose multiples all its arrays have whole blocks. */
int64_t mw_optimizer_block(int kind);
/* From the start of the state of so many elements to one of its arrays. */
int64_t mw_optimizer_kept_at_bytes(int kind, enum mw_kept kept, int64_t elements);
/* The element that a byte of their state is of; of a block with a scale the first. */
int64_t mw_optimizer_element_at(int kind, int64_t elements, int64_t at_bytes);
/* Bytes per parameter that an update in one kernel moves: it reads and writes the state, reads a
 * gradient and writes a parameter, which it reads too if the state has none. */
double mw_optimizer_moved_bytes(double state_bytes, double element_bytes, bool keeps_parameter);
/* The same with its own state, and gradients and parameters of 16 bits. */
double mw_optimizer_fused_bytes(int kind);
/* State of elements: whole blocks. */
int64_t mw_optimizer_state_bytes(int kind, int64_t elements);
/* The same of elements of which so many are of hidden matrices: the others may have other state. */
int64_t mw_optimizer_mixed_bytes(int kind, int64_t elements, int64_t of_matrices);

#endif
