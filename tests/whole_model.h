/*
 * whole_model.h - all parameters of a decoder as one vector of doubles: embedding, layers, final
 * norm, logits, each operator as exec/data/weights.h has it.
 */
#ifndef MW_TESTS_WHOLE_MODEL_H
#define MW_TESTS_WHOLE_MODEL_H

#include "exec/data/weights.h"

struct mw_whole_tensor {
    struct mw_weight weight;
    int64_t begin; /* in the vector */
};

/* In the vector's order; an array of struct mw_whole_tensor. */
GArray *mw_whole_tensors(const struct mw_decoder *decoder);
/* Where the parameters of an operator begin; of a tied LOGITS the embedding's. */
int64_t mw_whole_begin(const struct mw_decoder *decoder, enum mw_operator operator_, int64_t layer);

/* Values that dtype holds exactly: matrices about 0.15, biases 0.1, norms around 1.  g_free it. */
double *mw_whole_random(const struct mw_decoder *decoder, enum mw_dtype dtype, GRand *random);
/* From a file; names behind `prefix`. */
double *mw_whole_load(const struct mw_decoder *decoder, const struct mw_safetensors *set,
                      const char *prefix);

/* A part's elements, in bf16 or fp16, between it and the vector. */
void mw_whole_part(const struct mw_decoder *decoder, const double *whole,
                   const struct mw_weights_part *part, enum mw_dtype dtype, void *made);
void mw_whole_scatter(const struct mw_decoder *decoder, double *whole,
                      const struct mw_weights_part *part, enum mw_dtype dtype, const void *made);

/* What `got` is off by, as a share of the root mean square of `expected` in the same tensor or, if
 * that is larger, a tenth of the operator's; the largest over all tensors, whose name goes to
 * `worst`. */
double mw_whole_difference(const struct mw_decoder *decoder, const double *got,
                           const double *expected, char worst[MW_WEIGHTS_NAME_MAX]);

#endif
