#include "tests/norm_case.h"

#include "tests/kernel_reference.h"

#define EPSILON 1e-5f
#define RELATIVE (MW_HALF_ROUNDING * 1.01) /* rounded once, of a sum in fp32 */

void
norm_case_init(struct norm_case *c, int64_t rows, int64_t columns, bool centred)
{
    int64_t n = rows * columns;

    *c = (struct norm_case){
        .rows = rows,
        .columns = columns,
        .centred = centred,
        .x = mw_tensor_random(n, 3.0),
        .weight = mw_tensor_random(columns, 2.0),
        .bias = mw_tensor_random(columns, 2.0),
        .dy = mw_tensor_random(n, 1.0),
        .add = mw_tensor_random(n, 1.0),
        .mean = mw_floats_poisoned(rows),
        .rstd = mw_floats_poisoned(rows),
    };
}

void
norm_case_shift(struct norm_case *c, double by)
{
    for (int64_t i = 0; i < c->x.n; i++) {
        c->x.bits[i] = mw_half_nearest((float)(c->x.value[i] + by));
        c->x.value[i] = (double)mw_half_value(c->x.bits[i]);
    }
}

void
norm_case_clear(struct norm_case *c)
{
    mw_tensor_clear(&c->x);
    mw_tensor_clear(&c->weight);
    mw_tensor_clear(&c->bias);
    mw_tensor_clear(&c->dy);
    mw_tensor_clear(&c->add);
    g_free(c->mean);
    g_free(c->rstd);
}

/* Without a result, the same bits of mean and rstd. */
static void
check_moments(const struct mw_cpu_kernels *k, struct norm_case *c)
{
    gsize bytes = (gsize)c->rows * sizeof *c->mean;
    g_autofree float *mean = g_memdup2(c->mean, bytes), *rstd = g_memdup2(c->rstd, bytes);

    memset(c->mean, 0xff, bytes);
    memset(c->rstd, 0xff, bytes);
    if (c->centred)
        k->layernorm_forward(NULL, c->mean, c->rstd, c->x.bits, c->weight.bits, c->bias.bits,
                             c->rows, c->columns, EPSILON);
    else
        k->rmsnorm_forward(NULL, c->rstd, c->x.bits, c->weight.bits, c->rows, c->columns, EPSILON);
    g_assert_cmpmem(rstd, bytes, c->rstd, bytes);
    if (c->centred)
        g_assert_cmpmem(mean, bytes, c->mean, bytes);
}

void
norm_case_forward(const struct mw_cpu_kernels *k, struct norm_case *c)
{
    struct mw_tensor y = mw_tensor_poisoned(c->x.n);

    if (c->centred)
        k->layernorm_forward(y.bits, c->mean, c->rstd, c->x.bits, c->weight.bits, c->bias.bits,
                             c->rows, c->columns, EPSILON);
    else
        k->rmsnorm_forward(y.bits, c->rstd, c->x.bits, c->weight.bits, c->rows, c->columns,
                           EPSILON);
    mw_ref_norm(y.value, c->x.value, c->weight.value, c->centred ? c->bias.value : NULL, c->rows,
                c->columns, 1e-5);
    mw_expect_half("y", y.bits, y.value, y.n, RELATIVE, 1e-4);
    mw_tensor_clear(&y);
    check_moments(k, c);
}

void
norm_case_backward(const struct mw_cpu_kernels *k, const struct norm_case *c, uint16_t *dx,
                   const uint16_t *dx_add, const uint16_t *dy)
{
    if (c->centred)
        k->layernorm_backward(dx, dx_add, dy, c->x.bits, c->weight.bits, c->mean, c->rstd, c->rows,
                              c->columns);
    else
        k->rmsnorm_backward(dx, dx_add, dy, c->x.bits, c->weight.bits, c->rstd, c->rows,
                            c->columns);
}

void
norm_case_reference(const struct norm_case *c, double *dx, double *dweight, double *dbias)
{
    mw_ref_norm_backward(dx, dweight, c->centred ? dbias : NULL, c->dy.value, c->x.value,
                         c->weight.value, c->rows, c->columns, 1e-5);
}
