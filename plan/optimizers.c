/* The table of optimizers. */
#include "plan/optimizers.h"

#include <stddef.h>

#include "plan/dtype.h"

/* Types of what is kept, in the order of enum mw_kept. */
#define ALL_FP32                                                                                   \
    {                                                                                              \
        MW_DTYPE_FP32, MW_DTYPE_FP32, MW_DTYPE_FP32                                                \
    }
#define ALL_16_BITS                                                                                \
    {                                                                                              \
        MW_DTYPE_FP32, MW_DTYPE_BF16, MW_DTYPE_BF16                                                \
    }
#define ALL_8_BITS                                                                                 \
    {                                                                                              \
        MW_DTYPE_FP32, MW_DTYPE_DYNAMIC8, MW_DTYPE_DYNAMIC8_SQUARES                                \
    }
#define MOMENTUM                                                                                   \
    {                                                                                              \
        MW_DTYPE_FP32, MW_DTYPE_FP32                                                               \
    }
#define PARAMETER                                                                                  \
    {                                                                                              \
        MW_DTYPE_FP32                                                                              \
    }

/* Adafactor's, and bytes of their numbers: means, factors of the update, sums of the step. */
#define FACTORS                                                                                    \
    {                                                                                              \
        "exp_avg_sq_row.", "exp_avg_sq_col.", "exp_avg_sq."                                        \
    }
#define FACTOR_BYTES (2 * sizeof(float) + MW_EXACT_SUM_BYTES)

#define BETAS .beta1 = 0.9, .beta2 = 0.95

/* Copies, as the sources have them:
 * AdamW: the root of the variance (pytorch/pytorch, torch/optim/adam.py, _multi_tensor_adam).
 * 8 bits: none (bitsandbytes-foundation/bitsandbytes, optim/optimizer.py, update_step).
 * SGD: none without decay, with it the gradients (torch/optim/sgd.py, _multi_tensor_sgd); of 16
 * bits alone parameter and gradient in fp32 (OpenLMLab/LOMO, lomo_optim/lomo.py, fuse_update).
 * Lion: both scaled terms and their sum (google/automl, lion/lion_pytorch.py); in kernels of
 * DeepSpeed (csrc/lion) and bitsandbytes none.
 * Adafactor: the update and its negative (huggingface/transformers, optimization.py).
 * SM3: the update, which becomes the momentum (Enealor/PyTorch-SM3, SM3.py).
 * Muon: what the momentum adds to the gradient (torch/optim/_muon.py); products have room of their
 * own (planner/sizing/orthogonal.c). */
#define ROOT(type) .copies = {.count = 1, .dtype = type, .of_list = true, .fuses = true}

/* What updates move with a kernel for each operation, counted in the same sources, without decay
 * where it is 0 by default; p, g, m, v are what is read and written of parameter, gradient,
 * momentum and variance, u of the update, 4 bytes each in fp32:
 *
 *   AdamW        decay 2p, lerp 2m + g, scale 2v, addcmul 2v + g, root v + u, correction 2u,
 *                epsilon 2u, addcdiv 2p + m + u: 4p + 2g + 3m + 5v + 6u
 *   SGD          2p + g; with momentum scale 2m, add 2m + g, add 2p + m. Of 16 bits alone also
 *                casts of parameter and gradient to fp32, and of the former back
 *   Lion         decay 2p, two products m + u and g + u, sum 3u, sign 2u, add 2p + u, scale 2m, add
 *                2m + g
 *   Adafactor    square g + u, epsilon 2u, means of rows and of columns 2u, outer product u, times
 *                the gradient 2u + g, norm u, division 2u, rate 2u, negative 2u, add 2p + u, norm
 *                of the parameter p; gradient_passes has 8 bytes of them. Of 16 bits also casts of
 *                parameter and gradient to fp32 and back
 *   SM3          least of rows and columns u, addcmul 2u + g, largest of both 2u, epsilon 2u, root
 *                2u, times the gradient 2u + g, scale 2u, add 2u + m, add 2p + u
 *   Muon         lerp 2m + g, lerp m + g + u, cast u, decay 2p, add 2p */
#define ADAMW_UNFUSED(p, g, m, v, u) (4 * (p) + 2 * (g) + 3 * (m) + 5 * (v) + 6 * (u))

static const struct mw_optimizer_row rows[MW_OPTIMIZER_COUNT] = {
    [MW_OPTIMIZER_ADAMW] = {.name = "adamw",
                            .dtypes = ALL_FP32,
                            ROOT(MW_DTYPE_FP32),
                            .unfused_bytes = ADAMW_UNFUSED(4, 4, 4, 4, 4),
                            .rule = MW_UPDATE_ADAMW,
                            .runs = true,
                            BETAS,
                            .keeps = "fp32 parameter, momentum and variance",
                            .source = "arXiv 1711.05101; ZeRO, arXiv 1910.02054, Sec. 3.1"},
    [MW_OPTIMIZER_ADAMW_16BIT] = {.name = "adamw-16bit",
                                  .dtypes = ALL_16_BITS,
                                  ROOT(MW_DTYPE_BF16),
                                  .unfused_bytes = ADAMW_UNFUSED(4, 4, 2, 2, 2),
                                  .rule = MW_UPDATE_ADAMW,
                                  .runs = true,
                                  BETAS,
                                  .keeps = "fp32 parameter, momentum and variance in 16 bits",
                                  .source = "DeepSeek-V3, arXiv 2412.19437, Sec. 3.3.3"},
    [MW_OPTIMIZER_ADAMW_8BIT] = {.name = "adamw-8bit",
                                 .dtypes = ALL_8_BITS,
                                 .rule = MW_UPDATE_ADAMW,
                                 .runs = true,
                                 BETAS,
                                 .keeps = "fp32 parameter, momentum and variance in 8 bits with a "
                                          "scale for 2048",
                                 .source = "arXiv 2110.02861, Sec. 2"},
    [MW_OPTIMIZER_ADAMW_PURE] = {.name = "adamw-pure",
                                 .dtypes = {MW_DTYPE_NONE, MW_DTYPE_BF16, MW_DTYPE_BF16},
                                 ROOT(MW_DTYPE_BF16),
                                 .unfused_bytes = ADAMW_UNFUSED(2, 2, 2, 2, 2),
                                 .rule = MW_UPDATE_ADAMW,
                                 BETAS,
                                 .keeps = "no other parameter than that of 16 bits, stochastically "
                                          "rounded; momentum and variance in 16 bits",
                                 .source = "arXiv 2010.06192, Sec. 3"},
    [MW_OPTIMIZER_SGD] = {.name = "sgd",
                          .dtypes = PARAMETER,
                          .copies = {.fuses = true},
                          .unfused_bytes = 12,
                          .rule = MW_UPDATE_SGD,
                          .runs = true,
                          BETAS,
                          .keeps = "fp32 parameter",
                          .source = "mixed precision, arXiv 1710.03740, Sec. 3.1"},
    [MW_OPTIMIZER_MOMENTUM] = {.name = "sgd-momentum",
                               .dtypes = MOMENTUM,
                               .copies = {.fuses = true},
                               .unfused_bytes = 32,
                               .rule = MW_UPDATE_MOMENTUM,
                               .runs = true,
                               BETAS,
                               .keeps = "fp32 parameter and momentum",
                               .source = "mixed precision, arXiv 1710.03740, Sec. 3.1"},
    [MW_OPTIMIZER_LION] = {.name = "lion",
                           .dtypes = MOMENTUM,
                           .copies = {.count = 3, .dtype = MW_DTYPE_FP32, .fuses = true},
                           .unfused_bytes = 76,
                           .rule = MW_UPDATE_LION,
                           .runs = true,
                           .beta1 = 0.9,
                           .beta2 = 0.99,
                           .keeps = "fp32 parameter and momentum",
                           .source = "arXiv 2302.06675, Algorithm 2"},
    [MW_OPTIMIZER_ADAFACTOR] = {.name = "adafactor",
                                .dtypes = PARAMETER,
                                .vectors = FACTORS,
                                .vector_bytes = FACTOR_BYTES,
                                /* the squares of rows and columns, and of the update */
                                .gradient_passes = 2,
                                .clips = true,
                                .copies = {.count = 2, .dtype = MW_DTYPE_FP32},
                                .unfused_bytes = 84 - 8,
                                .rule = MW_UPDATE_ADAFACTOR,
                                .runs = true,
                                BETAS,
                                .keeps = "fp32 parameter; of a matrix a vector for rows and one "
                                         "for columns",
                                .source = "arXiv 1804.04235, Algorithms 4 and 5"},
    [MW_OPTIMIZER_SM3] = {.name = "sm3",
                          .dtypes = MOMENTUM,
                          .vectors = {"accumulator_0.", "accumulator_1.", "accumulator."},
                          .vector_bytes = 2 * sizeof(float), /* before the step and after it */
                          .copies = {.count = 1, .dtype = MW_DTYPE_FP32},
                          .unfused_bytes = 84,
                          .rule = MW_UPDATE_SM3,
                          .runs = true,
                          BETAS,
                          .keeps = "fp32 parameter and momentum; of a matrix a vector for rows and "
                                   "one for columns",
                          .source = "arXiv 1901.11150, Algorithm 2 (SM3-II)"},
    [MW_OPTIMIZER_MUON] = {.name = "muon",
                           .dtypes = MOMENTUM,
                           .copies = {.count = 1, .dtype = MW_DTYPE_FP32},
                           .unfused_bytes = 44,
                           .rule = MW_UPDATE_MOMENTUM, /* before products make it orthogonal */
                           .orthogonalizes = true,
                           BETAS,
                           .keeps = "fp32 parameter and momentum of hidden matrices; of all else "
                                    "what adamw keeps",
                           .source = "K. Jordan et al., Muon, 2024; arXiv 2502.16982, Sec. 2"},
    [MW_OPTIMIZER_ADAMW_8BIT_PURE] = {.name = "adamw-8bit-pure",
                                      .dtypes = {MW_DTYPE_NONE, MW_DTYPE_DYNAMIC8_256,
                                                 MW_DTYPE_DYNAMIC8_256_SQUARES},
                                      .rule = MW_UPDATE_ADAMW,
                                      BETAS,
                                      .keeps = "no other parameter than that of 16 bits; momentum "
                                               "and variance in 8 bits with a scale for 256",
                                      .source = "bitsandbytes-foundation/bitsandbytes, "
                                                "optim/optimizer.py"},
    [MW_OPTIMIZER_ADAFACTOR_PURE] = {.name = "adafactor-pure",
                                     .vectors = FACTORS,
                                     .vector_bytes = FACTOR_BYTES,
                                     .gradient_passes = 2,
                                     .clips = true,
                                     /* and parameter and gradient in fp32 */
                                     .copies = {.count = 4, .dtype = MW_DTYPE_FP32},
                                     .unfused_bytes = 84 - 8 + 3 * 6,
                                     .rule = MW_UPDATE_ADAFACTOR,
                                     BETAS,
                                     .keeps = "no other parameter than that of 16 bits; of a "
                                              "matrix a vector for rows and one for columns",
                                     .source = "huggingface/transformers, optimization.py"},
    [MW_OPTIMIZER_SGD_PURE] = {.name = "sgd-pure",
                               .copies = {.count = 2, .dtype = MW_DTYPE_FP32},
                               .unfused_bytes = 12 + 3 * 6,
                               .rule = MW_UPDATE_SGD,
                               BETAS,
                               .keeps = "no other parameter than that of 16 bits, and nothing else",
                               .source = "LOMO, arXiv 2306.09782, Sec. 3.1"},
};

const struct mw_optimizer_row *
mw_optimizer_row(int kind)
{
    return kind >= 0 && kind < MW_OPTIMIZER_COUNT ? &rows[kind] : NULL;
}

const char *
mw_optimizer_name(int kind)
{
    return kind >= 0 && kind < MW_OPTIMIZER_COUNT ? rows[kind].name : NULL;
}

bool
mw_optimizer_keeps(int kind, enum mw_kept kept)
{
    return rows[kind].dtypes[kept] != MW_DTYPE_NONE;
}

bool
mw_optimizer_has_vectors(int kind)
{
    return rows[kind].vector_bytes > 0;
}

int
mw_optimizer_norm_passes(int kind, bool on_its_way)
{
    const struct mw_optimizer_row *row = mw_optimizer_row(kind);

    return row ? 1 + row->gradient_passes - (row->clips && on_its_way) : 1;
}

bool
mw_optimizer_orthogonalizes(int kind)
{
    return kind >= 0 && kind < MW_OPTIMIZER_COUNT && rows[kind].orthogonalizes;
}

bool
mw_optimizer_updates_alone(int kind)
{
    return !mw_optimizer_orthogonalizes(kind) && !rows[kind].gradient_passes &&
           !mw_optimizer_has_vectors(kind) && mw_optimizer_keeps(kind, MW_KEPT_PARAMETER);
}

int64_t
mw_optimizer_block(int kind)
{
    int64_t most = 1;

    for (int k = 0; k < MW_KEPT_COUNT; k++)
        if (mw_dtype_row(rows[kind].dtypes[k])->block_elements > most)
            most = mw_dtype_row(rows[kind].dtypes[k])->block_elements;
    return most;
}

int64_t
mw_optimizer_kept_at_bytes(int kind, enum mw_kept kept, int64_t elements)
{
    int64_t bytes = 0;

    for (int k = 0; k < (int)kept; k++)
        if (rows[kind].dtypes[k] != MW_DTYPE_NONE)
            bytes += mw_dtype_bytes(rows[kind].dtypes[k], elements);
    return bytes;
}

int64_t
mw_optimizer_state_bytes(int kind, int64_t elements)
{
    return mw_optimizer_kept_at_bytes(kind, MW_KEPT_COUNT, elements);
}

double
mw_optimizer_moved_bytes(double state_bytes, double element_bytes, bool keeps_parameter)
{
    return 2 * state_bytes + (keeps_parameter ? 2 : 3) * element_bytes;
}

double
mw_optimizer_fused_bytes(int kind)
{
    double state = (double)mw_optimizer_state_bytes(kind, MW_KEPT_BLOCK) / MW_KEPT_BLOCK;

    return mw_optimizer_moved_bytes(state, 2, mw_optimizer_keeps(kind, MW_KEPT_PARAMETER));
}

int64_t
mw_optimizer_mixed_bytes(int kind, int64_t elements, int64_t of_matrices)
{
    if (!rows[kind].orthogonalizes)
        return mw_optimizer_state_bytes(kind, elements);
    return mw_optimizer_state_bytes(kind, of_matrices) +
           mw_optimizer_state_bytes(MW_OPTIMIZER_ADAMW, elements - of_matrices);
}

int64_t
mw_optimizer_element_at(int kind, int64_t elements, int64_t at_bytes)
{
    int kept = MW_KEPT_COUNT - 1;

    while (kept > 0 && at_bytes < mw_optimizer_kept_at_bytes(kind, (enum mw_kept)kept, elements))
        kept--;
    const struct mw_dtype_traits *dtype = mw_dtype_row(rows[kind].dtypes[kept]);
    if (!dtype->block_bytes) /* behind the last array */
        return 0;
    at_bytes -= mw_optimizer_kept_at_bytes(kind, (enum mw_kept)kept, elements);
    return at_bytes / dtype->block_bytes * dtype->block_elements;
}
