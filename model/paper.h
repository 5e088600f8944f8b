/*
 * paper.h - the memory equations of ZeRO-Infinity (arXiv 2104.07857, Sec. 3) and of ZeRO
 * (arXiv 1910.02054, Sec. 3 and 5), as printed.  What a plan really needs is in sizing.h.
 *
 * Symbols: nl layers, hd hidden size, bsz sequences of a batch, seq tokens of a sequence, ci blocks
 * between activation checkpoints, tokens = bsz·seq, Psi parameters, Nd data-parallel degree.
 * Valid for a stack of GPT-2 blocks (MLP of 4·hd, heads of their own keys and values, no
 * embedding), 16-bit parameters, gradients and activations, Adam, no tensor slicing. Results are
 * parameters or bytes; beyond int64 they stay at INT64_MAX. The equations of Sec. 4, on bandwidth,
 * are in sim/efficiency.h.
 */
#ifndef MW_MODEL_PAPER_H
#define MW_MODEL_PAPER_H

#include "model/model.h"

/* Eq. 1, 12·nl·hd² parameters, is mw_model_params_paper (model.h). */

/* Eq. 2: 240·nl·hd², 20 bytes a parameter (16-bit parameter and gradient, fp32 gradient,
 * parameter, momentum and variance). */
int64_t mw_paper_model_state_bytes(const struct mw_model *model);

/* Eq. 3: 2·bsz·seq·hd·nl / ci; 0 for ci 0, no checkpoints. */
int64_t mw_paper_checkpoint_bytes(const struct mw_model *model, int64_t tokens, int64_t ci);

/* Sec. 3, Fig. 2a: all activations, nl·bsz·seq·(16·hd + 2·heads·seq).  The paper prints the figures
 * and not the formula; Eq. 5 over all blocks gives them. */
int64_t mw_paper_activation_bytes(const struct mw_model *model, int64_t tokens, int64_t seq);

/* Eq. 4: model state working memory, 4·hd·4·hd: parameter and gradient of the largest operator,
 * the hd x 4·hd product. */
int64_t mw_paper_mswm_bytes(const struct mw_model *model);

/* Eq. 5: activation working memory, bsz·seq·ci·(16·hd + 2·heads·seq); ci 0, no checkpoints: all
 * blocks. */
int64_t mw_paper_awm_bytes(const struct mw_model *model, int64_t tokens, int64_t seq, int64_t ci);

/* ZeRO Sec. 5 and Fig. 1: bytes of model states a device, K = 12 for Adam. */
enum mw_paper_zero {
    MW_PAPER_ZERO_BASELINE, /* (2 + 2 + K)·Psi */
    MW_PAPER_ZERO_POS,      /* 2·Psi + 2·Psi + K·Psi / Nd: optimizer state partitioned (zero1) */
    MW_PAPER_ZERO_POS_G,    /* 2·Psi + (2 + K)·Psi / Nd: and gradients (zero2) */
    MW_PAPER_ZERO_POS_G_P,  /* (2 + 2 + K)·Psi / Nd: and parameters (zero3) */
    MW_PAPER_ZERO_COUNT
};
int64_t mw_paper_zero_bytes(enum mw_paper_zero stage, int64_t params, int64_t dp);

/* Model FLOPs utilization (PaLM, arXiv 2204.02311, App. B: without recomputation) that a published
 * run of a language model on GPUs reached: 530B parameters on 280 A100, with tensor, sequence and
 * pipeline parallelism and kernels made for it. */
#define MW_PAPER_MFU_MOST 0.642
#define MW_PAPER_MFU_SOURCE "MPT-7B on 8 A100, benchmarks of llm-foundry"

#endif
