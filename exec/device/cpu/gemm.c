/*
 * The product by own code: a thread takes one block of C at a time, and walks k in passes.  Each
 * pass packs B for the block, and A for a few rows after the other (exec/device/cpu/pack.h).
 */
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/pack.h"
#include "exec/device/cpu/panel.h"
#include "exec/device/cpu/rows.h"

#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

/* A panel of B for one pass stays in the first-level cache, A's packed rows in the second.  Blocks
 * of C are so large that packing costs little. */
#define STEPS 256
#define DEPTH (STEPS * MW_DEEP)
#define LEFT_ROWS 96
#define BLOCK_M 384
#define BLOCK_N 512
/* How many blocks each thread should have, so that none waits long for the last one; and how small
 * blocks may become for that. */
#define BLOCKS_PER_THREAD 8
#define BLOCK_M_LEAST 48
#define BLOCK_N_LEAST 64

/* Rows and panels begin in different sets of the caches. */
#define LEFT_LD (DEPTH + 16)
#define LEFT_TILE (MW_TILE_ROWS * LEFT_LD)
#define B_PANEL (STEPS * MW_PANEL + 16)

struct scratch {
    float c[BLOCK_M * BLOCK_N];
    mw_right b[BLOCK_N / MW_PANEL * B_PANEL];
    mw_left a[LEFT_ROWS / MW_TILE_ROWS * LEFT_TILE + 8];
};

struct block {
    int64_t row, rows, column, columns;
};

MW_INLINE int64_t
leading(int64_t ld, int64_t dense)
{
    return ld != 0 ? ld : dense;
}

static void
pack_b(mw_right *out, const struct mw_product *p, const mw_element *b, const struct block *block,
       int64_t first, int64_t n)
{
    int64_t ld = leading(p->ld_b, p->b_transposed ? p->k : p->n);
    if (p->b_transposed)
        mw_pack_transposed(out, B_PANEL, b + block->column * ld + first, ld, block->columns, n);
    else
        mw_pack_rows(out, B_PANEL, b + first * ld + block->column, ld, n, block->columns);
}

#if MW_DEEP == 2
#define TURNED_ROW LEFT_LD
#define TURNED_STEP MW_DEEP

/* A of the transpose of x [n, rows], of which `there` can be read. */
static void
pack_turned(mw_left *out, const mw_element *x, int64_t ld, int64_t rows, int64_t there, int64_t n)
{
    (void)there;
    for (int64_t i = 0; i < rows; i += MW_PANEL) {
        int64_t k = 0;
        for (; k + MW_PAIRS_ELEMENTS <= n && i + MW_PANEL <= rows; k += MW_PAIRS_ELEMENTS)
            mw_pack_turned_pairs(out + i * LEFT_LD + k, LEFT_LD, x + k * ld + i, ld);
        for (int64_t row = i; row < mw_smaller(rows, i + MW_PANEL); row++) {
            for (int64_t at = k; at < n; at++)
                out[row * LEFT_LD + at] = x[at * ld + row];
            if (n % 2 != 0)
                out[row * LEFT_LD + n] = 0;
        }
    }
}
#else
#define TURNED_ROW 1
#define TURNED_STEP MW_TILE_ROWS

/* The rows of a tile lie together.  Eight are written where six are wanted: the place of the next
 * ones is filled afterwards. */
static void
pack_turned(mw_left *out, const mw_element *x, int64_t ld, int64_t rows, int64_t there, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < rows; i += MW_TILE_ROWS)
            mw_widen_8(out + i / MW_TILE_ROWS * LEFT_TILE + k * MW_TILE_ROWS,
                       mw_raw_first(x + k * ld + i, there - i));
}
#endif

/* Rows of A from `row` on, along k from `first` on; and how they lie. */
static void
pack_a(mw_left *out, struct mw_panel *panel, const struct mw_product *p, const mw_element *a,
       int64_t row, int64_t rows, int64_t first, int64_t n)
{
    int64_t ld = leading(p->ld_a, p->a_transposed ? p->m : p->k);
    panel->a_tile = LEFT_TILE;
    panel->a_row = p->a_transposed ? TURNED_ROW : LEFT_LD;
    panel->a_step = p->a_transposed ? TURNED_STEP : MW_DEEP;
    if (p->a_transposed)
        pack_turned(out, a + first * ld + row, ld, rows, p->m - row, n);
    else
        mw_pack_left(out, LEFT_LD, a + row * ld + first, ld, rows, n);
}

MW_INLINE struct mw_lanes
load(const float *x, int64_t n)
{
    return n == MW_LANES ? mw_lanes_load(x) : mw_lanes_load_some(x, n);
}

MW_INLINE struct mw_lanes
load_half(const mw_element *x, int64_t n)
{
    return n == MW_LANES ? mw_lanes_load_half(x) : mw_lanes_load_half_some(x, n);
}

/* Sixteen of a row, or the n that are left of it: its sums, rounded where C is of halves. */
MW_INLINE void
put_lanes(const struct mw_product *p, void *c, const mw_element *bias, const float *sums,
          int64_t at, int64_t n)
{
    struct mw_lanes v = mw_lanes_load(sums);
    if (p->bias)
        v = mw_lanes_add(v, load_half(bias, n));
    if (p->accumulate)
        v = mw_lanes_add(v,
                         p->c_fp32 ? load((float *)c + at, n) : load_half((mw_element *)c + at, n));
    if (p->c_fp32 && n == MW_LANES)
        mw_lanes_store((float *)c + at, v);
    else if (p->c_fp32)
        mw_lanes_store_some((float *)c + at, v, n);
    else if (n == MW_LANES)
        mw_lanes_store_half((mw_element *)c + at, v);
    else
        mw_lanes_store_half_some((mw_element *)c + at, v, n);
}

static void
put_row(const struct mw_product *p, void *c, const mw_element *bias, const float *sums, int64_t row,
        const struct block *b)
{
    int64_t at = row * leading(p->ld_c, p->n) + b->column, j = 0;
    for (; j + MW_LANES <= b->columns; j += MW_LANES)
        put_lanes(p, c, bias + b->column + j, sums + j, at + j, MW_LANES);
    if (j < b->columns)
        put_lanes(p, c, bias + b->column + j, sums + j, at + j, b->columns - j);
}

static void
block_product(const struct mw_product *p, void *c, const mw_element *a, const mw_element *b,
              const mw_element *bias, const struct block *block, struct scratch *scratch)
{
    struct mw_panel panel = {
        .a = scratch->a,
        .b = scratch->b,
        .ld_c = BLOCK_N,
        .b_panel = B_PANEL,
        .n = mw_round_up(block->columns, MW_PANEL),
    };
    for (int64_t k = 0; k < p->k; k += DEPTH) {
        int64_t n = mw_smaller(DEPTH, p->k - k);
        pack_b(scratch->b, p, b, block, k, n);
        panel.steps = mw_steps(n);
        panel.accumulate = k > 0;
        for (int64_t row = 0; row < block->rows; row += LEFT_ROWS) {
            panel.m = mw_smaller(LEFT_ROWS, block->rows - row);
            panel.c = scratch->c + row * BLOCK_N;
            pack_a(scratch->a, &panel, p, a, block->row + row, panel.m, k, n);
            mw_panel_product(&panel);
        }
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

MW_INLINE int64_t
ceiling(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit;
}

/* How C is cut does not change its bits. */
static struct block
cut(const struct mw_product *p)
{
    struct block b = {.rows = BLOCK_M, .columns = BLOCK_N};
    int64_t threads = 1;
#if defined(_OPENMP)
    threads = omp_get_max_threads();
#endif
    while (threads > 1 &&
           ceiling(p->m, b.rows) * ceiling(p->n, b.columns) < BLOCKS_PER_THREAD * threads) {
        if (b.rows > BLOCK_M_LEAST && (b.rows >= b.columns || b.columns <= BLOCK_N_LEAST))
            b.rows /= 2;
        else if (b.columns > BLOCK_N_LEAST)
            b.columns /= 2;
        else
            break;
    }
    return b;
}

void
MW_CPU(gemm)(const struct mw_product *product, void *c, const mw_element *a, const mw_element *b,
             const mw_element *bias, void *scratch)
{
    const struct block size = cut(product);
    int64_t down = ceiling(product->m, size.rows);
    int64_t across = ceiling(product->n, size.columns);
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < down * across; i++) {
        int64_t row = i % down * size.rows, column = i / down * size.columns;
        struct block block = {row, mw_smaller(size.rows, product->m - row), column,
                              mw_smaller(size.columns, product->n - column)};
        block_product(product, c, a, b, bias, &block, own_scratch(scratch));
    }
}

/* --- groups of rows --------------------------------------------------------------------------- */

struct group {
    struct mw_product product;
    mw_element *c;
    const mw_element *a, *b;
};

static struct group
group_at(const struct mw_product *product, const int32_t *begin, int64_t number, mw_element *c,
         const mw_element *a, const mw_element *b)
{
    struct group group = {*product, c, a, b};
    int64_t first = begin[number], rows = begin[number + 1] - first;

    if (product->m) { /* sums over the group's rows */
        group.product.k = rows;
        group.a += first * product->m;
        group.b += first * product->n;
        group.c += number * product->m * product->n;
    } else {
        group.product.m = rows;
        group.a += first * product->k;
        group.c += first * product->n;
        group.b += number * product->n * product->k;
    }
    return group;
}

int64_t
MW_CPU(groups_scratch_bytes)(int64_t groups, int threads)
{
    (void)groups;
    return MW_CPU(gemm_scratch_bytes)(NULL, threads);
}

void
MW_CPU(multiply_groups)(const struct mw_product *product, const int32_t *begin, int64_t groups,
                        mw_element *c, const mw_element *a, const mw_element *b, void *scratch)
{
    for (int64_t i = 0; i < groups; i++) {
        struct group group = group_at(product, begin, i, c, a, b);
        const struct mw_product *p = &group.product;
        if (p->m && p->k)
            MW_CPU(gemm)(p, group.c, group.a, group.b, NULL, scratch);
        else if (p->m && !p->accumulate)
            memset(group.c, 0, (size_t)(p->m * p->n) * sizeof *group.c);
    }
}
