/* The operators as a whole: what they own, and how one runs. */
#include "exec/operators/operators.h"

#include "base/error.h"
#include "exec/operators/internal.h"
#include "exec/operators/rope.h"

#define TOKEN_BYTES 8

/* --- what they own --------------------------------------------------------------------------- */

static int64_t
attention_bytes(const struct mw_operators *operators)
{
    const struct mw_decoder *decoder = &operators->decoder;
    int64_t parts = mw_decoder_exchanges_heads(decoder) ? mw_decoder_sharers(decoder) : 1;
    const struct mw_attention shape = {
        .batch = operators->sequences,
        .seq = operators->seq * parts,
        .heads = decoder->heads / parts,
        .kv_heads = decoder->kv_heads / parts,
        .head_dim = decoder->head_dim,
    };

    return operators->kernels->attention_scratch_bytes(operators->device, &shape);
}

/* Gradients of biases are as wide as what their products give, those of norms as the hidden size.
 */
static int64_t
row_sums_bytes(const struct mw_operators *operators)
{
    const struct mw_decoder *decoder = &operators->decoder;
    int64_t qkv = mw_decoder_q(decoder) + 2 * mw_decoder_kv(decoder);
    int64_t widths[] = {decoder->hidden, decoder->ffn, qkv};
    int64_t bytes = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(widths); i++)
        bytes =
            MAX(bytes, operators->kernels->row_sums_scratch_bytes(
                           operators->device, operators->sequences * operators->seq, widths[i]));
    if (decoder->qk_norm)
        bytes = MAX(bytes,
                    operators->kernels->row_sums_scratch_bytes(
                        operators->device, operators->sequences * operators->seq * decoder->heads,
                        decoder->head_dim));
    return bytes;
}

/* One kernel runs at a time. */
static int64_t
kernel_bytes(const struct mw_operators *operators)
{
    int64_t embedding = operators->kernels->embedding_scratch_bytes(
        operators->device, operators->sequences * operators->seq);

    int64_t bytes = MAX(MAX(attention_bytes(operators), row_sums_bytes(operators)), embedding);

    if (!operators->decoder.experts)
        return bytes;
    return MAX(bytes, operators->kernels->groups_scratch_bytes(operators->device,
                                                               operators->decoder.experts));
}

static bool
allocate(struct mw_operators *operators, void *out, int64_t bytes, GError **error)
{
    void **place = out;

    if (!bytes)
        return true;
    *place = operators->kernels->allocate(operators->device, bytes);
    if (*place)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE,
                "operators on the %s: no memory for %lld bytes of scratch for %lld tokens",
                operators->kernels->device_name, (long long)bytes,
                (long long)(operators->sequences * operators->seq));
    return false;
}

static bool
load_rope(struct mw_operators *operators, GError **error)
{
    g_autofree float *table = g_malloc(operators->rope_bytes);

    mw_rope_table(&operators->decoder, operators->seq, table);
    return operators->kernels->upload(operators->device, operators->rope, table,
                                      operators->rope_bytes, error);
}

static bool
own(struct mw_operators *operators, GError **error)
{
    const struct mw_decoder *decoder = &operators->decoder;

    operators->scratch_bytes = kernel_bytes(operators);
    int64_t head_bytes = decoder->qk_norm ? (int64_t)sizeof(float) * decoder->heads : 0;
    operators->token_bytes = MAX(TOKEN_BYTES, head_bytes) * operators->sequences * operators->seq;
    operators->routing_bytes =
        mw_operator_routing_bytes(decoder, operators->sequences * operators->seq);
    if (decoder->rope_theta > 0)
        operators->rope_bytes = (int64_t)sizeof(float) * operators->seq * decoder->head_dim;
    return allocate(operators, &operators->scratch, operators->scratch_bytes, error) &&
           allocate(operators, &operators->token_scratch, operators->token_bytes, error) &&
           allocate(operators, &operators->routing, operators->routing_bytes, error) &&
           allocate(operators, &operators->rope, operators->rope_bytes, error) &&
           (!operators->rope_bytes || load_rope(operators, error));
}

struct mw_operators *
mw_operators_create(const struct mw_kernels *kernels, void *device,
                    const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                    GError **error)
{
    if (!kernels->suits(device, decoder, error))
        return NULL;
    struct mw_operators *operators = g_new0(struct mw_operators, 1);
    operators->kernels = kernels;
    operators->device = device;
    operators->decoder = *decoder;
    operators->sequences = sequences;
    operators->seq = seq;
    if (own(operators, error))
        return operators;
    mw_operators_destroy(operators);
    return NULL;
}

int64_t
mw_operators_scratch_bytes(const struct mw_operators *operators)
{
    return operators->scratch_bytes + operators->token_bytes + operators->routing_bytes;
}

void
mw_operators_destroy(struct mw_operators *operators)
{
    if (!operators)
        return;
    operators->kernels->release(operators->device, operators->scratch);
    operators->kernels->release(operators->device, operators->token_scratch);
    operators->kernels->release(operators->device, operators->routing);
    operators->kernels->release(operators->device, operators->rope);
    g_free(operators);
}

/* --- the table ------------------------------------------------------------------------------- */

static const struct mw_operator_runner *const runners[MW_OPERATOR_COUNT] = {
    [MW_OPERATOR_EMBEDDING] = &mw_run_embedding,   [MW_OPERATOR_NORM1] = &mw_run_norm,
    [MW_OPERATOR_QKV_LORA] = &mw_run_lora,         [MW_OPERATOR_QKV] = &mw_run_qkv,
    [MW_OPERATOR_ATTENTION] = &mw_run_attention,   [MW_OPERATOR_PROJECTION_LORA] = &mw_run_lora,
    [MW_OPERATOR_PROJECTION] = &mw_run_projection, [MW_OPERATOR_NORM2] = &mw_run_norm,
    [MW_OPERATOR_MLP_UP_LORA] = &mw_run_lora,      [MW_OPERATOR_MLP_UP] = &mw_run_mlp_up,
    [MW_OPERATOR_MLP_ACT] = &mw_run_mlp_act,       [MW_OPERATOR_MLP_DOWN_LORA] = &mw_run_lora,
    [MW_OPERATOR_MLP_DOWN] = &mw_run_mlp_down,     [MW_OPERATOR_FINAL_NORM] = &mw_run_final_norm,
    [MW_OPERATOR_LOGITS] = &mw_run_logits,         [MW_OPERATOR_LOSS] = &mw_run_loss,
};

/* Of a mixture, instead of those. */
static const struct mw_operator_runner *const of_mixtures[MW_OPERATOR_COUNT] = {
    [MW_OPERATOR_MLP_UP] = &mw_run_mixture_up,
    [MW_OPERATOR_MLP_DOWN] = &mw_run_mixture_down,
};

/* Where its experts are spread over ranks. */
static const struct mw_operator_runner *const of_spread[MW_OPERATOR_COUNT] = {
    [MW_OPERATOR_MLP_UP] = &mw_run_spread_router,
    [MW_OPERATOR_EXPERTS_UP] = &mw_run_experts_up,
    [MW_OPERATOR_EXPERTS_DOWN] = &mw_run_experts_down,
    [MW_OPERATOR_MLP_DOWN] = &mw_run_spread_sum,
};

/* NULL: it is none of a decoder. */
const struct mw_operator_runner *
mw_operator_runner(const struct mw_compute *compute)
{
    enum mw_operator operator_ = compute->operator_;

    if (!mw_operator_row((int)operator_))
        return NULL;
    const struct mw_operator_runner *const *own =
        mw_decoder_is_spread(compute->decoder) ? of_spread : of_mixtures;
    return compute->decoder->experts && own[operator_] ? own[operator_] : runners[operator_];
}

/* --- running --------------------------------------------------------------------------------- */

static bool
refuse(const struct mw_operators *operators, const struct mw_compute *compute, const char *what,
       GError **error)
{
    g_set_error(error, MW_ERROR, MW_ERROR_DEVICE, "operator %s on the %s: %s",
                mw_operator_name((int)compute->operator_), operators->kernels->device_name, what);
    return false;
}

static bool
suits(const struct mw_operators *operators, const struct mw_compute *compute, GError **error)
{
    if (!mw_operator_runner(compute))
        return refuse(operators, compute, "is not an operator of a decoder", error);
    if (compute->seq > operators->seq ||
        mw_operator_tokens(compute) > operators->sequences * operators->seq)
        return refuse(operators, compute, "more tokens than its scratch was made for", error);
    return true;
}

static bool
name_operator(const struct mw_operators *operators, const struct mw_compute *compute, bool good,
              GError **error)
{
    if (!good)
        g_prefix_error(error, "operator %s on the %s: ", mw_operator_name((int)compute->operator_),
                       operators->kernels->device_name);
    return good;
}

bool
mw_operators_prepare(struct mw_operators *operators, const struct mw_compute *compute,
                     GError **error)
{
    struct mw_multiply multiplies[MW_MULTIPLIES_MAX];
    bool good = true;

    if (!suits(operators, compute, error))
        return false;
    int count = mw_operator_products(compute, multiplies);
    for (int i = 0; good && i < count; i++)
        good = operators->kernels->prepare(operators->device, &multiplies[i].product, error);
    return name_operator(operators, compute, good, error);
}

static bool
multiply(struct mw_operators *operators, const struct mw_compute *compute,
         const struct mw_operator_steps *steps, GError **error)
{
    struct mw_multiply multiplies[MW_MULTIPLIES_MAX];
    int count = mw_operator_products(compute, multiplies);
    int first = steps->between ? steps->products_before(compute) : -1;
    bool good = true;

    for (int i = 0; good && i < count; i++) {
        if (i == first)
            steps->between(operators, compute);
        const struct mw_multiply *one = &multiplies[i];
        good = operators->kernels->multiply(operators->device, &one->product, one->c, one->a,
                                            one->b, one->bias, error);
    }
    return name_operator(operators, compute, good, error);
}

bool
mw_operators_run(struct mw_operators *operators, const struct mw_compute *compute, GError **error)
{
    if (!suits(operators, compute, error))
        return false;
    const struct mw_operator_runner *runner = mw_operator_runner(compute);
    struct mw_operator_steps steps = compute->of_weights ? runner->weights
                                     : compute->backward ? runner->backward
                                                         : runner->forward;
    if (compute->narrow)
        operators->kernels->widen_blocks(operators->device, compute->widened, compute->narrow,
                                         (int)compute->narrow_dtype, compute->part->elements);
    if (steps.before)
        steps.before(operators, compute);
    if (!multiply(operators, compute, &steps, error))
        return false;
    if (steps.behind)
        steps.behind(operators, compute);
    return true;
}
