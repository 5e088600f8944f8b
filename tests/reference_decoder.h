/*
 * reference_decoder.h - GPT-2 and Llama decoders in fp64, by plain loops: what a backend's
 * operators must agree with.  Its backward pass is itself checked by finite differences.
 */
#ifndef MW_TESTS_REFERENCE_DECODER_H
#define MW_TESTS_REFERENCE_DECODER_H

#include "plan/decoder.h"

/* Of the draws of a layer's tokens (mw_routing_draw), here and in compute_driver.h: this and the
 * layer's number. */
#define MW_DRIVE_DRAW UINT64_C(0x5eed)

struct mw_reference {
    const struct mw_decoder *decoder;
    const double *params; /* of the whole model (whole_model.h) */
    const int32_t *ids, *targets;
    int64_t sequences, seq;
};

/* Returns the mean loss over all tokens, those without a target counting as 0, with losses of
 * routers where the decoder has any.  logits [T, V] and
 * hidden [layers + 1, T, h] may be NULL; gradients, of the whole model, too. */
double mw_reference_run(const struct mw_reference *reference, double *logits, double *hidden,
                        double *gradients);

#endif
