/* Products whose scratch would be too large, block by block of the result. */
#include "exec/device/cpu/matmul_internal.h"

static int64_t
distance(int64_t ld, int64_t dense)
{
    return ld != 0 ? ld : dense;
}

/* Rows of the result, or columns where there are more of them. */
static bool
by_columns(const struct mw_product *product)
{
    return product->n > product->m;
}

/* Where block `index` begins: multiples of MW_CPU_MATMUL_BLOCK, and the end. */
static int64_t
begin_of(const struct mw_product *product, int64_t blocks, int64_t index)
{
    int64_t all = by_columns(product) ? product->n : product->m;
    int64_t even = (all + blocks - 1) / blocks;
    int64_t size = (even + MW_CPU_MATMUL_BLOCK - 1) / MW_CPU_MATMUL_BLOCK * MW_CPU_MATMUL_BLOCK;

    return size * index < all ? size * index : all;
}

/* The blocks of the others are none of its own: it needs the distances that dense operands had. */
static struct mw_product
shape_of(const struct mw_product *product, int64_t count)
{
    struct mw_product shape = *product;

    shape.ld_a = distance(shape.ld_a, shape.a_transposed ? shape.m : shape.k);
    shape.ld_b = distance(shape.ld_b, shape.b_transposed ? shape.k : shape.n);
    shape.ld_c = distance(shape.ld_c, shape.n);
    *(by_columns(product) ? &shape.n : &shape.m) = count;
    return shape;
}

bool
mw_cpu_matmul_prepare(struct mw_cpu_matmul *matmul, const struct mw_product *product)
{
    int64_t blocks = mw_cpu_matmul_blocks(matmul, product);

    for (int64_t i = 0; blocks > 1 && i < blocks; i++) {
        int64_t at = begin_of(product, blocks, i), end = begin_of(product, blocks, i + 1);
        struct mw_product shape = shape_of(product, end - at);
        if (at < end && !mw_cpu_matmul_prepare(matmul, &shape))
            return false;
    }
    return blocks > 0;
}

static bool
run_block(struct mw_cpu_matmul *matmul, const struct mw_cpu_call *whole, int64_t at, int64_t count)
{
    struct mw_product shape = shape_of(&whole->product, count);
    bool columns = by_columns(&whole->product);
    int64_t element = mw_cpu_matmul_element_bytes(matmul);
    int64_t c_at = at * (columns ? 1 : shape.ld_c) * (shape.c_fp32 ? 4 : element);
    int64_t a_at = columns ? 0 : at * (shape.a_transposed ? 1 : shape.ld_a);
    int64_t b_at = !columns ? 0 : at * (shape.b_transposed ? shape.ld_b : 1);

    return mw_cpu_matmul_run(
        matmul, &shape, (char *)whole->c + c_at, (const char *)whole->a + a_at * element,
        (const char *)whole->b + b_at * element,
        shape.bias && columns ? (const char *)whole->bias + at * element : whole->bias);
}

bool
mw_cpu_matmul_run(struct mw_cpu_matmul *matmul, const struct mw_product *product, void *c,
                  const void *a, const void *b, const void *bias)
{
    const struct mw_cpu_call call = {*product, c, a, b, bias};
    int64_t blocks = mw_cpu_matmul_blocks(matmul, product);

    if (blocks == 1)
        return mw_cpu_matmul_run_whole(matmul, &call);
    for (int64_t i = 0; i < blocks; i++) {
        int64_t at = begin_of(product, blocks, i), end = begin_of(product, blocks, i + 1);
        if (at < end && !run_block(matmul, &call, at, end - at))
            return false;
    }
    return blocks > 0;
}
