#include "tests/cuda/kernel_table.h"

#include "tests/cuda/mirrors.h"
#include "tests/kernel_helpers.h"

bool mw_test_aligned;

const struct mw_cuda_launches *
mw_test_cuda_launches(void)
{
    return mw_test_dtype == MW_DTYPE_FP16 ? &mw_cuda_launches_fp16 : &mw_cuda_launches_bf16;
}

const struct mw_cpu_kernels *
mw_test_cuda_kernels(void)
{
    return mw_test_dtype == MW_DTYPE_FP16 ? &mw_test_cuda_fp16 : &mw_test_cuda_bf16;
}

/* --- operands -------------------------------------------------------------------------------- */

static struct mw_gradient
mirror_gradient(struct mw_mirrors *mirrors, struct mw_gradient g, int64_t n)
{
    int element_bytes = g.fp32 ? 4 : 2;

    g.data = mw_mirror_out(mirrors, g.data, element_bytes * n, element_bytes);
    return g;
}

/* Of q, k and v, which lie in one tensor, in this order: the part that begins at `part`.  The
 * tensor is mirrored as one. */
static uint16_t *
mirror_part(struct mw_mirrors *mirrors, const struct mw_attention *s, uint16_t *q, uint16_t *v,
            uint16_t *part)
{
    int64_t n = v - q + (s->batch * s->seq - 1) * s->ld_v + s->kv_heads * s->head_dim;

    return (uint16_t *)mw_mirror_out(mirrors, q, 2 * n, 2) + (part - q);
}

static const uint16_t *
mirror_part_in(struct mw_mirrors *mirrors, const struct mw_attention *s, const uint16_t *q,
               const uint16_t *v, const uint16_t *part)
{
    int64_t n = v - q + (s->batch * s->seq - 1) * s->ld_v + s->kv_heads * s->head_dim;

    return (const uint16_t *)mw_mirror_in(mirrors, q, 2 * n, 2) + (part - q);
}

static int64_t
attention_rows(const struct mw_attention *s)
{
    return s->batch * s->seq;
}

static int64_t
attention_out(const struct mw_attention *s)
{
    return (attention_rows(s) - 1) * s->ld_o + s->heads * s->head_dim;
}

static struct mw_narrow_moments
mirror_moments(struct mw_mirrors *mirrors, const struct mw_narrow_moments *moments, int64_t n)
{
    bool blocks = moments->m_codes != NULL;
    int64_t bytes = mw_dtype_bytes(blocks ? MW_DTYPE_DYNAMIC8 : MW_DTYPE_BF16, n);
    struct mw_narrow_moments mirrored = *moments;

    mirrored.m = mw_mirror_out(mirrors, moments->m, bytes, blocks ? 4 : 2);
    mirrored.v = mw_mirror_out(mirrors, moments->v, bytes, blocks ? 4 : 2);
    return mirrored;
}

/* clang-format off */

/* n elements that a kernel only reads, and that it writes. */
#define IN(x, n) (__typeof__(x))mw_mirror_in(&mirrors, x, BYTES(x) * (n), BYTES(x))
#define OUT(x, n) (__typeof__(x))mw_mirror_out(&mirrors, x, BYTES(x) * (n), BYTES(x))
#define BYTES(x) (int)sizeof *(x)
#define EITHER(x, fp32, n) mw_mirror_in(&mirrors, x, ((fp32) ? 4 : 2) * (n), (fp32) ? 4 : 2)
#define GRADIENT(g, n) mirror_gradient(&mirrors, g, n)
#define SCRATCH(bytes) mw_mirror_scratch(&mirrors, mw_test_cuda_launches()->bytes)
#define PART(part) mirror_part_in(&mirrors, shape, q, v, part)
#define GRADIENT_PART(part) mirror_part(&mirrors, shape, dq, dv, part)

/* The operands of each kernel, by the names of the list's parameters. */
#define MIRRORED_add OUT(out, n), IN(a, n), IN(b, n), n
#define MIRRORED_scale OUT(x, n), factor, n
#define MIRRORED_widen_blocks                                                                      \
    OUT(out, n), mw_mirror_in(&mirrors, blocks, mw_dtype_bytes(dtype, n), 1), dtype, n
#define MIRRORED_narrow_mxfp8                                                                      \
    mw_mirror_out(&mirrors, blocks, mw_dtype_bytes(MW_DTYPE_MXFP8, n), 1), IN(x, n), n
#define MIRRORED_widen OUT(out, n), IN(x, n), n
#define MIRRORED_narrow OUT(out, n), IN(x, n), n
#define MIRRORED_accumulate OUT(sum, n), IN(x, n), n
#define MIRRORED_gelu_forward OUT(y, n), IN(x, n), n
#define MIRRORED_gelu_backward OUT(dx, n), IN(dy, n), IN(x, n), n
#define MIRRORED_gelu_erf_forward OUT(y, n), IN(x, n), n
#define MIRRORED_gelu_erf_backward OUT(dx, n), IN(dy, n), IN(x, n), n
#define MIRRORED_relu_forward OUT(y, n), IN(x, n), n
#define MIRRORED_relu_backward OUT(dx, n), IN(dy, n), IN(x, n), n
#define MIRRORED_swiglu_forward OUT(y, n), IN(gate, n), IN(up, n), n
#define MIRRORED_swiglu_backward OUT(dgate, n), OUT(dup, n), IN(dy, n), IN(gate, n), IN(up, n), n
#define MIRRORED_layernorm_forward                                                                 \
    OUT(y, rows * columns), OUT(mean, rows), OUT(rstd, rows), IN(x, rows * columns),               \
    IN(weight, columns), IN(bias, columns), rows, columns, eps
#define MIRRORED_layernorm_backward                                                                \
    OUT(dx, rows * columns), IN(dx_add, rows * columns), IN(dy, rows * columns),                   \
    IN(x, rows * columns), IN(weight, columns), IN(mean, rows), IN(rstd, rows), rows, columns
#define MIRRORED_rmsnorm_forward                                                                   \
    OUT(y, rows * columns), OUT(rstd, rows), IN(x, rows * columns), IN(weight, columns), rows,     \
    columns, eps
#define MIRRORED_rmsnorm_backward                                                                  \
    OUT(dx, rows * columns), IN(dx_add, rows * columns), IN(dy, rows * columns),                   \
    IN(x, rows * columns), IN(weight, columns), IN(rstd, rows), rows, columns
#define MIRRORED_norm_weight_gradient                                                              \
    GRADIENT(dweight, columns), IN(dy, rows * columns), IN(x, rows * columns), IN(mean, rows),     \
    IN(rstd, rows), rows, columns, SCRATCH(row_sums_scratch_bytes(rows, columns))
#define MIRRORED_bias_gradient                                                                     \
    GRADIENT(dbias, columns), IN(dy, (rows - 1) * ld_dy + columns), ld_dy, rows, columns,          \
    SCRATCH(row_sums_scratch_bytes(rows, columns))
#define MIRRORED_embedding_forward                                                                 \
    OUT(y, rows * columns), IN(weight, count * columns), IN(tokens, rows), rows, columns, first,   \
    count
#define MIRRORED_embedding_backward                                                                \
    GRADIENT(dweight, count * columns), IN(dy, rows * columns), IN(tokens, rows), rows, columns,   \
    first, count, SCRATCH(embedding_scratch_bytes(rows))
#define MIRRORED_position_forward                                                                  \
    OUT(y, batch * seq * columns), IN(weight, seq * columns), batch, seq, columns
#define MIRRORED_position_backward                                                                 \
    GRADIENT(dweight, positions * columns), IN(dy, batch * seq * columns), batch, seq, columns,    \
    positions
#define MIRRORED_rope                                                                              \
    OUT(x, (batch * seq - 1) * ld + heads * head_dim), IN(table, seq * head_dim), batch, seq,      \
    heads, head_dim, ld, inverse
#define MIRRORED_attention_forward                                                                 \
    shape, OUT(o, attention_out(shape)), OUT(lse, attention_rows(shape) * shape->heads), PART(q),  \
    PART(k), PART(v), NULL
#define MIRRORED_attention_backward                                                                \
    shape, GRADIENT_PART(dq), GRADIENT_PART(dk), GRADIENT_PART(dv), IN(d_o, attention_out(shape)), \
    IN(o, attention_out(shape)), IN(lse, attention_rows(shape) * shape->heads), PART(q), PART(k),  \
    PART(v), SCRATCH(attention_scratch_bytes(shape))
#define MIRRORED_cross_entropy                                                                     \
    OUT(loss, 1), OUT(row_loss, rows), OUT(dlogits, rows * ld_dlogits), ld_dlogits,                \
    EITHER(logits, logits_fp32, rows * ld_logits), logits_fp32, ld_logits, IN(targets, rows),      \
    rows, vocab, scale
#define MIRRORED_slice_entropy_sums                                                                \
    OUT(sums, 3 * rows), IN(logits, rows * ld_logits), ld_logits, IN(targets, rows), rows, vocab,  \
    first
#define MIRRORED_slice_entropy                                                                     \
    OUT(loss, 1), OUT(row_loss, rows), OUT(logits, rows * ld_logits), ld_logits,                   \
    IN(sums, 3 * slices * rows), slices, IN(targets, rows), rows, vocab, first, scale
#define MIRRORED_update                                                                            \
    step, OUT(w, n), OUT(m, n), OUT(v, n), OUT(param, n), EITHER(grad, grad_fp32, n), grad_fp32, n
#define MIRRORED_update_narrow                                                                     \
    step, decaying, OUT(w, n),                                                                     \
        &(struct mw_narrow_moments[]){mirror_moments(&mirrors, moments, n)}[0], OUT(param, n),     \
        EITHER(grad, grad_fp32, n), grad_fp32, n
#define MIRRORED_narrow_dynamic8                                                                   \
    mw_mirror_out(&mirrors, blocks, mw_dtype_bytes(MW_DTYPE_DYNAMIC8, n), 4), IN(x, n), of, n
#define MIRRORED_widen_dynamic8                                                                    \
    OUT(out, n), mw_mirror_in(&mirrors, blocks, mw_dtype_bytes(MW_DTYPE_DYNAMIC8, first + n), 4),  \
        of, first, n
#define MIRRORED_square_sums                                                                       \
    OUT(partial, mw_norm_blocks(n)), EITHER(grad, grad_fp32, n), grad_fp32, n

/* clang-format on */

/* --- the tables ------------------------------------------------------------------------------ */

#define MW_ELEMENT uint16_t
#define MW_KERNEL(name, parameters, arguments)                                                     \
    static void mirrored_##name parameters                                                         \
    {                                                                                              \
        struct mw_mirrors mirrors;                                                                 \
                                                                                                   \
        (mw_test_aligned ? mw_mirrors_begin_aligned : mw_mirrors_begin)(&mirrors);                 \
        mw_mirrors_end(&mirrors, mw_test_cuda_launches()->name(NULL, MIRRORED_##name));            \
    }
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH(name, parameters, arguments)                                             \
    static int64_t name(MW_BARE parameters, int threads)                                           \
    {                                                                                              \
        return mw_test_cuda_launches()->name arguments;                                            \
    }
#include "exec/operators/kernel_list.h"

/* As the cores' tables have them, which know of no type. */
#define MW_KERNEL(name, parameters, arguments)                                                     \
    static void name parameters                                                                    \
    {                                                                                              \
        mirrored_##name arguments;                                                                 \
    }
#define MW_KERNEL_PASS MW_KERNEL
#include "exec/operators/kernel_list.h"

const struct mw_cpu_kernels mw_test_cuda_bf16 = {
    .dtype = MW_DTYPE_BF16,
#define MW_KERNEL(name, parameters, arguments) .name = name,
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH MW_KERNEL
#include "exec/operators/kernel_list.h"
};

const struct mw_cpu_kernels mw_test_cuda_fp16 = {
    .dtype = MW_DTYPE_FP16,
#define MW_KERNEL(name, parameters, arguments) .name = name,
#define MW_KERNEL_PASS MW_KERNEL
#define MW_KERNEL_SCRATCH MW_KERNEL
#include "exec/operators/kernel_list.h"
};
