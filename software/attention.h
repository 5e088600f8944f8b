/*
 * attention.h - kernels of attention, and how fast each is on which generation of GPUs.
 *
 * `fused` and `unfused` run on any machine, at its own rates: unfused attention writes its scores
 * to memory and reads them again.  The others have rows, from measured rates
 * (rates/attention.csv), as shares of the GPU's dense 16-bit peak, on sequences so long that starts
 * and ends do not count:
 *
 *   rate(keys) = share * peak * keys / (keys + half_keys)
 *
 * with a longer half of causal attention, whose blocks at the diagonal are computed whole.  Rates
 * are of the FLOPs that are computed: 4 forward and 10 backward per score and element of a head, of
 * causal attention half as many (FlashAttention-2, arXiv 2307.08691, Sec. 4.1).
 */
#ifndef MW_SOFTWARE_ATTENTION_H
#define MW_SOFTWARE_ATTENTION_H

#include "hardware/hwprofile.h"

enum mw_attention_kernel {
    MW_ATTENTION_FUSED,
    MW_ATTENTION_UNFUSED,
    MW_ATTENTION_FA1,    /* FlashAttention (arXiv 2205.14135) */
    MW_ATTENTION_FA2,    /* FlashAttention-2 (arXiv 2307.08691) */
    MW_ATTENTION_FA3,    /* FlashAttention-3 (arXiv 2407.08608) */
    MW_ATTENTION_CUDNN,  /* cuDNN 9 */
    MW_ATTENTION_TRITON, /* FlashAttention as a Triton kernel, 2022 to 2024 */
    MW_ATTENTION_KERNEL_COUNT
};

/* Their names, NULL at the end. */
extern const char *const mw_attention_kernel_names[MW_ATTENTION_KERNEL_COUNT + 1];

/* The first of `kernels` (-1 at the end, or MW_PROFILE_LIST_MAX of them) that the generation has;
 * of an unknown one FUSED, unless the first is UNFUSED.  -1: it has none of them. */
int mw_attention_choose(const int *kernels, enum mw_architecture architecture);

/* Names of the kernels that a generation has, separated by commas; g_free it. */
char *mw_attention_kernels_of(enum mw_architecture architecture);

/* The rates of a kernel with a row on a GPU of that peak; zeros of one without. */
struct mw_attention_rates mw_attention_rates_of(enum mw_attention_kernel kernel,
                                                enum mw_architecture architecture,
                                                enum mw_outlook outlook, double peak_flops);

#endif
