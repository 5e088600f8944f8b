#include <math.h>

#include "exec/data/convert.h"
#include "tests/operator_outputs_internal.h"

/* Operations of a function such as exp or tanh, generously: 4e-6 in units of 2^-24. */
#define FUNCTION_TERMS 64

/* --- 16-bit elements ------------------------------------------------------------------------- */

static double
value_of(enum mw_dtype dtype, uint16_t bits)
{
    return (double)(dtype == MW_DTYPE_FP16 ? mw_fp32_of_fp16(bits) : mw_fp32_of_bf16(bits));
}

static double
half_ulp(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP16 ? 0x1p-11 : 0x1p-8;
}

double
mw_outputs_least(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP16 ? 0x1p-14 : 0x1p-126;
}

double
mw_outputs_at_least(const struct mw_output_list *l, double x)
{
    return fmax(fabs(x), mw_outputs_least(l->dtype));
}

double
mw_outputs_load(const struct mw_output_list *l, const uint16_t *x, int64_t i)
{
    return value_of(l->dtype, x[i]);
}

double *
mw_outputs_load_all(const struct mw_output_list *l, const uint16_t *x, int64_t n)
{
    double *all = g_new(double, n);

    for (int64_t i = 0; i < n; i++)
        all[i] = mw_outputs_load(l, x, i);
    return all;
}

/* --- outputs --------------------------------------------------------------------------------- */

struct mw_operator_output *
mw_outputs_add(struct mw_output_list *l, const char *name, void *at, int64_t rows, int64_t columns,
               int64_t ld, bool fresh)
{
    struct mw_operator_output output = {
        .name = name,
        .at = at,
        .rows = rows,
        .columns = columns,
        .ld = ld,
        .fresh = fresh ? 0 : columns,
        .terms = FUNCTION_TERMS,
        .size = g_new0(double, rows *columns),
        .rounded = g_new0(double, rows *columns),
    };

    g_array_append_val(l->outputs, output);
    return &g_array_index(l->outputs, struct mw_operator_output, l->outputs->len - 1);
}

void
mw_outputs_add_old(const struct mw_output_list *l, struct mw_operator_output *output)
{
    const uint16_t *old = output->at;

    for (int64_t i = 0; output->fresh && i < output->rows * output->columns; i++)
        output->size[i] +=
            fabs(mw_outputs_load(l, old, i / output->columns * output->ld + i % output->columns));
}

bool
mw_outputs_fresh_gradient(const struct mw_output_list *l)
{
    return !l->compute->gradient_adds;
}

int64_t
mw_outputs_tokens(const struct mw_output_list *l)
{
    return mw_operator_tokens(l->compute);
}

/* --- all ------------------------------------------------------------------------------------- */

static void
list_forward(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t first = c->part ? c->part->matrix.first_row : 0;

    switch (c->operator_) {
    case MW_OPERATOR_EMBEDDING:
        mw_outputs_embedding_forward(l);
        break;
    case MW_OPERATOR_QKV:
        mw_outputs_qkv_forward(l);
        break;
    case MW_OPERATOR_ATTENTION:
        mw_outputs_attention_forward(l);
        break;
    case MW_OPERATOR_PROJECTION:
        mw_outputs_forward_products(l, (uint16_t *)c->layer->x + first);
        break;
    case MW_OPERATOR_MLP_ACT:
        mw_outputs_act_forward(l);
        break;
    case MW_OPERATOR_MLP_DOWN:
        mw_outputs_forward_products(l, (uint16_t *)c->layer->x2 + first);
        break;
    case MW_OPERATOR_LOSS:
        mw_outputs_loss(l);
        break;
    case MW_OPERATOR_NORM1:
    case MW_OPERATOR_NORM2:
    case MW_OPERATOR_FINAL_NORM:
        mw_outputs_norm(l);
        break;
    default:
        mw_outputs_forward_products(l, NULL);
    }
}

static void
list_backward(struct mw_output_list *l)
{
    switch (l->compute->operator_) {
    case MW_OPERATOR_EMBEDDING:
        mw_outputs_embedding_backward(l);
        break;
    case MW_OPERATOR_QKV:
        mw_outputs_qkv_backward(l);
        break;
    case MW_OPERATOR_ATTENTION:
        mw_outputs_attention_backward(l);
        break;
    case MW_OPERATOR_MLP_ACT:
        mw_outputs_act_backward(l);
        break;
    case MW_OPERATOR_LOGITS:
        mw_outputs_logits_backward(l);
        break;
    case MW_OPERATOR_LOSS: /* in its forward */
        break;
    case MW_OPERATOR_NORM1:
    case MW_OPERATOR_NORM2:
    case MW_OPERATOR_FINAL_NORM:
        mw_outputs_norm(l);
        break;
    default:
        mw_outputs_backward_products(l);
    }
}

GArray *
mw_operator_outputs(const struct mw_compute *compute, enum mw_dtype dtype)
{
    struct mw_output_list list = {compute, dtype,
                                  g_array_new(false, false, sizeof(struct mw_operator_output))};

    if (compute->backward)
        list_backward(&list);
    else
        list_forward(&list);
    return list.outputs;
}

void
mw_operator_outputs_free(GArray *outputs)
{
    for (guint i = 0; i < outputs->len; i++) {
        g_free(g_array_index(outputs, struct mw_operator_output, i).size);
        g_free(g_array_index(outputs, struct mw_operator_output, i).rounded);
    }
    g_array_unref(outputs);
}

double
mw_operator_output_value(const struct mw_operator_output *output, enum mw_dtype dtype,
                         const void *at, int64_t row, int64_t column)
{
    int64_t i = row * output->ld + column;

    if (output->kind == MW_OUTPUT_FP64)
        return ((const double *)at)[i];
    return output->kind == MW_OUTPUT_FP32 ? (double)((const float *)at)[i]
                                          : value_of(dtype, ((const uint16_t *)at)[i]);
}

double
mw_operator_output_bound(const struct mw_operator_output *output, enum mw_dtype dtype, double value,
                         int64_t row, int64_t column)
{
    int64_t i = row * output->columns + column;
    double sums = 0x1p-24 * (double)output->terms * output->size[i];

    if (output->exact)
        return 0;
    if (output->kind != MW_OUTPUT_HALF)
        return 2 * sums;
    return 2 *
           (half_ulp(dtype) * (fmax(fabs(value), mw_outputs_least(dtype)) + output->rounded[i]) +
            sums);
}

int64_t
mw_operator_output_bytes(const struct mw_operator_output *output, int64_t columns)
{
    return columns * (output->kind == MW_OUTPUT_HALF ? 2 : output->kind == MW_OUTPUT_FP32 ? 4 : 8);
}

void *
mw_operator_output_row(const struct mw_operator_output *output, void *at, int64_t row)
{
    return (char *)at + mw_operator_output_bytes(output, row * output->ld);
}
