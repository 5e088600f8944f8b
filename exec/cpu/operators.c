/* The operators as a whole: what they own, and how one runs. */
#include "exec/cpu/operators.h"

#include <stdlib.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "exec/cpu/operators_internal.h"
#include "exec/rope.h"
#include "planner/error.h"

#define ALIGNMENT 64
#define TOKEN_BYTES 8

/* --- what they own --------------------------------------------------------------------------- */

static bool
allocate(void *out, int64_t bytes)
{
    void **place = out;
    size_t rounded = ((size_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

    *place = bytes ? aligned_alloc(ALIGNMENT, rounded) : NULL;
    return *place != NULL || !bytes;
}

static int64_t
attention_bytes(const struct mw_cpu_operators *operators)
{
    const struct mw_decoder *decoder = &operators->decoder;
    const struct mw_cpu_attention shape = {
        .batch = operators->sequences,
        .seq = operators->seq,
        .heads = decoder->heads,
        .kv_heads = decoder->kv_heads,
        .head_dim = decoder->head_dim,
    };

    return operators->kernels->attention_scratch_bytes(&shape, operators->threads);
}

static bool
own(struct mw_cpu_operators *operators)
{
    const struct mw_decoder *decoder = &operators->decoder;
    bool rotary = decoder->rope_theta > 0;

    operators->kernels = mw_cpu_kernels();
    operators->matmul = mw_cpu_matmul_create();
    operators->attention_bytes = attention_bytes(operators);
    operators->token_bytes = TOKEN_BYTES * operators->sequences * operators->seq;
    operators->rope_bytes =
        rotary ? (int64_t)sizeof(float) * operators->seq * decoder->head_dim : 0;
    if (!operators->matmul ||
        !allocate(&operators->attention_scratch, operators->attention_bytes) ||
        !allocate(&operators->token_scratch, operators->token_bytes) ||
        !allocate(&operators->rope, operators->rope_bytes))
        return false;
    if (rotary)
        mw_rope_table(decoder, operators->seq, operators->rope);
    return true;
}

static bool
check(const struct mw_decoder *decoder, GError **error)
{
    if (decoder->head_dim % 2 == 0 && decoder->head_dim <= MW_CPU_HEAD_DIM_MAX)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "attention on the cpu: head_dim: value %lld: must be even and at most %d",
                (long long)decoder->head_dim, MW_CPU_HEAD_DIM_MAX);
    return false;
}

struct mw_cpu_operators *
mw_cpu_operators_create(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                        int threads, GError **error)
{
    if (!check(decoder, error))
        return NULL;
    struct mw_cpu_operators *operators = calloc(1, sizeof *operators);
    if (operators) {
        operators->decoder = *decoder;
        operators->sequences = sequences;
        operators->seq = seq;
        operators->threads = threads;
    }
    if (operators && own(operators))
        return operators;
    mw_cpu_operators_destroy(operators);
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "operators on the cpu: no memory for the scratch of %lld tokens",
                (long long)(sequences * seq));
    return NULL;
}

void
mw_cpu_operators_destroy(struct mw_cpu_operators *operators)
{
    if (!operators)
        return;
    mw_cpu_matmul_destroy(operators->matmul);
    free(operators->attention_scratch);
    free(operators->token_scratch);
    free(operators->rope);
    free(operators);
}

int64_t
mw_cpu_operators_scratch_bytes(const struct mw_cpu_operators *operators)
{
    return operators->attention_bytes + operators->token_bytes + operators->rope_bytes +
           mw_cpu_matmul_scratch_bytes(operators->matmul);
}

/* --- running --------------------------------------------------------------------------------- */

static int
team_size(void)
{
#if defined(_OPENMP)
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static bool
refuse(const struct mw_compute *compute, const char *what, GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "operator %s on the cpu: %s",
                mw_operator_name((int)compute->operator_), what);
    return false;
}

static bool
suits(const struct mw_cpu_operators *operators, const struct mw_compute *compute, GError **error)
{
    if (compute->operator_ < MW_OPERATOR_EMBEDDING || compute->operator_ > MW_OPERATOR_LOSS)
        return refuse(compute, "is no operator of a decoder", error);
    if (compute->seq > operators->seq ||
        mw_cpu_tokens(compute) > operators->sequences * operators->seq)
        return refuse(compute, "more tokens than its scratch was made for", error);
    if (team_size() > operators->threads)
        return refuse(compute, "more threads than its scratch was made for", error);
    return true;
}

bool
mw_cpu_operators_prepare(struct mw_cpu_operators *operators, const struct mw_compute *compute,
                         GError **error)
{
    struct mw_cpu_multiply multiplies[MW_CPU_MULTIPLIES_MAX];

    if (!suits(operators, compute, error))
        return false;
    int count = mw_cpu_operator_products(compute, multiplies);
    for (int i = 0; i < count; i++)
        if (!mw_cpu_matmul_prepare(operators->matmul, &multiplies[i].product))
            return refuse(compute, mw_cpu_matmul_error(operators->matmul), error);
    return true;
}

static bool
multiply(struct mw_cpu_operators *operators, const struct mw_compute *compute, GError **error)
{
    struct mw_cpu_multiply multiplies[MW_CPU_MULTIPLIES_MAX];
    int count = mw_cpu_operator_products(compute, multiplies);

    for (int i = 0; i < count; i++) {
        const struct mw_cpu_multiply *one = &multiplies[i];
        if (!mw_cpu_matmul_run(operators->matmul, &one->product, one->c, one->a, one->b, one->bias))
            return refuse(compute, mw_cpu_matmul_error(operators->matmul), error);
    }
    return true;
}

bool
mw_cpu_operators_run(struct mw_cpu_operators *operators, const struct mw_compute *compute,
                     GError **error)
{
    bool layer =
        compute->operator_ >= MW_OPERATOR_NORM1 && compute->operator_ <= MW_OPERATOR_MLP_DOWN;

    if (!suits(operators, compute, error))
        return false;
    struct mw_cpu_steps steps = layer ? mw_cpu_layer_steps(compute->operator_, compute->backward)
                                      : mw_cpu_end_steps(compute->operator_, compute->backward);
    if (steps.before)
        steps.before(operators, compute);
    if (!multiply(operators, compute, error))
        return false;
    if (steps.behind)
        steps.behind(operators, compute);
    return true;
}
