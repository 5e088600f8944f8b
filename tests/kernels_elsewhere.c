/* The generic kernels alone, without libraries: prints how far products are from fp64, and a hash
 * of what passes over memory give, for check_elsewhere.py to hold one processor against another. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "exec/data/convert.h"
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/kernels.h"

#define ELEMENTS 1000
#define ROWS 10

static uint64_t hash = UINT64_C(1469598103934665603); /* FNV-1a */
static uint32_t state = 1;

static void
add_to_hash(const void *data, size_t bytes)
{
    const unsigned char *at = data;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
}

static uint32_t
next(void)
{
    state = state * 1664525 + 1013904223;
    return state >> 8;
}

static void
fill(uint16_t *x, int64_t n, float scale, enum mw_dtype dtype)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = mw_half_of_fp32(scale * ((float)next() * 0x1p-24f - 0.5f), dtype);
}

static double
error_of(const struct mw_product *p, const float *c, const uint16_t *a, const uint16_t *b,
         enum mw_dtype dtype)
{
    double worst = 0;

    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < p->k; k++) {
                uint16_t left = p->a_transposed ? a[k * p->m + i] : a[i * p->k + k];
                uint16_t right = p->b_transposed ? b[j * p->k + k] : b[k * p->n + j];
                sum += (double)mw_fp32_of_half(left, dtype) * mw_fp32_of_half(right, dtype);
            }
            worst = fmax(worst, fabs(sum - (double)c[i * p->n + j]));
        }
    return worst;
}

static double
multiply(const struct mw_cpu_kernels *kernels, int round)
{
    struct mw_product p = {.m = 1 + next() % 90,
                           .n = 1 + next() % 120,
                           .k = 1 + next() % 300,
                           .a_transposed = round & 1,
                           .b_transposed = round & 2,
                           .c_fp32 = true};
    size_t scratch_bytes = (size_t)kernels->gemm_scratch_bytes(&p, 1);
    uint16_t *a = malloc(2 * (size_t)(p.m * p.k)), *b = malloc(2 * (size_t)(p.k * p.n));
    float *c = malloc(4 * (size_t)(p.m * p.n));
    void *scratch = aligned_alloc(64, (scratch_bytes + 63) / 64 * 64);

    fill(a, p.m * p.k, 1, kernels->dtype);
    fill(b, p.k * p.n, 1, kernels->dtype);
    kernels->gemm(&p, c, a, b, NULL, scratch);
    double error = error_of(&p, c, a, b, kernels->dtype);
    free(a);
    free(b);
    free(c);
    free(scratch);
    return error;
}

static void
pass(const struct mw_cpu_kernels *kernels)
{
    static uint16_t x[ELEMENTS], y[ELEMENTS], z[ELEMENTS];
    static float wide[ELEMENTS], mean[ROWS], rstd[ROWS];
    double squares = 0;

    fill(x, ELEMENTS, 8, kernels->dtype);
    fill(z, ELEMENTS, 1, kernels->dtype);
#define HASHED(call)                                                                               \
    kernels->call;                                                                                 \
    add_to_hash(y, sizeof y)
    HASHED(gelu_forward(y, x, ELEMENTS));
    HASHED(gelu_backward(y, z, x, ELEMENTS));
    HASHED(gelu_erf_forward(y, x, ELEMENTS));
    HASHED(swiglu_forward(y, x, z, ELEMENTS));
    HASHED(add(y, x, z, ELEMENTS));
    HASHED(scale(y, 1.7f, ELEMENTS));
    HASHED(layernorm_forward(y, mean, rstd, x, z, z, ROWS, ELEMENTS / ROWS, 1e-5f));
    HASHED(layernorm_backward(y, x, z, x, z, mean, rstd, ROWS, ELEMENTS / ROWS));
    kernels->widen(wide, x, ELEMENTS);
    kernels->accumulate(wide, z, ELEMENTS);
    add_to_hash(wide, sizeof wide);
    HASHED(narrow(y, wide, ELEMENTS));
    kernels->narrow_mxfp8(y, x, ELEMENTS);
    add_to_hash(y, sizeof y);
    HASHED(widen_blocks(y, x, MW_DTYPE_MXFP8, ELEMENTS));
    kernels->square_sums(&squares, x, false, ELEMENTS);
    add_to_hash(&squares, sizeof squares);
}

int
main(void)
{
    const struct mw_cpu_kernels *const tables[] = {&mw_cpu_table_generic,
                                                   &mw_cpu_table_generic_fp16};

    for (int t = 0; t < 2; t++) {
        double worst = 0;
        for (int round = 0; round < 40; round++)
            worst = fmax(worst, multiply(tables[t], round));
        pass(tables[t]);
        printf("%.3g %016llx\n", worst, (unsigned long long)hash);
    }
    return 0;
}
