/* The product by own code: panels of packed B against blocks of A, a thread for each block of C. */
#include "exec/cpu/isa.h"
#include "exec/cpu/pack.h"
#include "exec/cpu/panel.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

/* A block of C is 96 x 64, and its sums go along 512 at a time: with the packed operands, 184 KiB
 * that stay in the second-level cache. */
#define BLOCK_M 96
#define BLOCK_N 64
#define BLOCK_K 512

struct scratch {
    float c[BLOCK_M * BLOCK_N];
    uint32_t b[BLOCK_K / 2 * BLOCK_N];
    uint16_t a[BLOCK_M * BLOCK_K];
};

struct block {
    int64_t row, rows, column, columns;
};

MW_INLINE int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

MW_INLINE int64_t
leading(int64_t ld, int64_t dense)
{
    return ld != 0 ? ld : dense;
}

/* Rows of A along k from `first` on, n of them, a pair's other half zero where n is odd. */
static void
pack_a(uint16_t *out, const struct mw_product *p, const uint16_t *a, const struct block *b,
       int64_t first, int64_t n)
{
    int64_t ld = leading(p->ld_a, p->a_transposed ? p->m : p->k);
    for (int64_t i = 0; i < b->rows; i++) {
        uint16_t *row = out + i * BLOCK_K;
        for (int64_t k = 0; k < n; k++)
            row[k] = p->a_transposed ? a[(first + k) * ld + b->row + i]
                                     : a[(b->row + i) * ld + first + k];
        if (n % 2 != 0)
            row[n] = 0;
    }
}

static void
pack_b(uint32_t *out, const struct mw_product *p, const uint16_t *b, const struct block *block,
       int64_t first, int64_t n)
{
    int64_t ld = leading(p->ld_b, p->b_transposed ? p->k : p->n);
    int64_t pairs = n / 2;
    if (!p->b_transposed) {
        mw_pack_rows(out, BLOCK_N, b + first * ld + block->column, ld, n, block->columns);
        return;
    }
    const uint16_t *from = b + block->column * ld + first;
    mw_pack_transposed(out, BLOCK_N, from, ld, block->columns, 2 * pairs);
    if (n % 2 == 0)
        return;
    for (int64_t j = 0; j < BLOCK_N; j++)
        out[pairs * BLOCK_N + j] = j < block->columns ? from[j * ld + n - 1] : 0;
}

static void
put_row(const struct mw_product *p, void *c, const uint16_t *bias, const float *sums, int64_t row,
        const struct block *b)
{
    int64_t ld = leading(p->ld_c, p->n);
    for (int64_t j = 0; j < b->columns; j += MW_LANES) {
        int64_t n = smaller(MW_LANES, b->columns - j), at = row * ld + b->column + j;
        mw_f32x16 v = mw_load(sums + j);
        if (p->bias)
            v += mw_load_half_some(bias + b->column + j, n);
        if (p->accumulate)
            v += p->c_fp32 ? mw_load_some((float *)c + at, n)
                           : mw_load_half_some((uint16_t *)c + at, n);
        if (p->c_fp32)
            mw_store_some((float *)c + at, v, n);
        else
            mw_store_half_some((uint16_t *)c + at, v, n);
    }
}

static void
block_product(const struct mw_product *p, void *c, const uint16_t *a, const uint16_t *b,
              const uint16_t *bias, const struct block *block, struct scratch *scratch)
{
    struct mw_panel panel = {
        .c = scratch->c,
        .a = scratch->a,
        .b = scratch->b,
        .ld_c = BLOCK_N,
        .ld_a = BLOCK_K,
        .ld_b = BLOCK_N,
        .m = block->rows,
        .n = mw_round_up(block->columns, MW_LANES),
    };
    for (int64_t k = 0; k < p->k; k += BLOCK_K) {
        int64_t n = smaller(BLOCK_K, p->k - k);
        pack_a(scratch->a, p, a, block, k, n);
        pack_b(scratch->b, p, b, block, k, n);
        panel.pairs = (n + 1) / 2;
        panel.accumulate = k > 0;
        mw_panel_product(&panel);
    }
    for (int64_t i = 0; i < block->rows; i++)
        put_row(p, c, bias, scratch->c + i * BLOCK_N, block->row + i, block);
}

int64_t
MW_CPU(gemm_scratch_bytes)(const struct mw_product *product, int threads)
{
    return threads * (int64_t)sizeof(struct scratch);
}

static struct scratch *
own_scratch(void *scratch)
{
#if defined(_OPENMP)
    return (struct scratch *)scratch + omp_get_thread_num();
#else
    return scratch;
#endif
}

void
MW_CPU(gemm)(const struct mw_product *product, void *c, const uint16_t *a, const uint16_t *b,
             const uint16_t *bias, void *scratch)
{
    int64_t down = (product->m + BLOCK_M - 1) / BLOCK_M;
    int64_t across = (product->n + BLOCK_N - 1) / BLOCK_N;
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < down * across; i++) {
        int64_t row = i % down * BLOCK_M, column = i / down * BLOCK_N;
        struct block block = {row, smaller(BLOCK_M, product->m - row), column,
                              smaller(BLOCK_N, product->n - column)};
        block_product(product, c, a, b, bias, &block, own_scratch(scratch));
    }
}
