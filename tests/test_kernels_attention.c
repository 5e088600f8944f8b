/* Attention against plain loops in double. */
#include <math.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "attention_case.h"

static int
team(void)
{
#if defined(_OPENMP)
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static struct mw_ref_attention
random_shape(int64_t seq)
{
    int64_t kv_heads = 1 + mw_random_size(3), group = mw_random_size(3);
    struct mw_ref_attention plain = {mw_random_size(3),      seq, kv_heads * group, kv_heads,
                                     2 * mw_random_size(48), 0.0};
    plain.scale = 1.0 / sqrt((double)plain.head_dim);
    return plain;
}

/* Poisoned, for the threads that there are. */
static void *
scratch_for(const struct mw_cpu_kernels *k, const struct mw_attention_case *c)
{
    gsize bytes = (gsize)k->attention_scratch_bytes(&c->shape, team());
    void *scratch = g_aligned_alloc(1, bytes, 64);
    memset(scratch, 0xff, bytes);
    return scratch;
}

static void
forward(const struct mw_cpu_kernels *k, struct mw_attention_case *c, void *scratch)
{
    const uint16_t *q = c->fused;
    k->attention_forward(&c->shape, c->o.bits, c->lse, q, q + mw_attention_case_k(c),
                         q + mw_attention_case_v(c), scratch);
}

static void
backward(const struct mw_cpu_kernels *k, struct mw_attention_case *c, void *scratch)
{
    const uint16_t *q = c->fused;
    uint16_t *dq = c->fused_gradient;
    int64_t at_k = mw_attention_case_k(c), at_v = mw_attention_case_v(c);
    k->attention_backward(&c->shape, dq, dq + at_k, dq + at_v, c->d_o.bits, c->o.bits, c->lse, q,
                          q + at_k, q + at_v, scratch);
}

static void
check_seq(const struct mw_cpu_kernels *k, int64_t seq)
{
    struct mw_ref_attention plain = random_shape(seq);
    struct mw_attention_case c;
    mw_attention_case_init(&c, &plain, mw_random_size(5));
    void *scratch = scratch_for(k, &c);
    forward(k, &c, scratch);
    mw_attention_case_check_forward(&c);
    backward(k, &c, scratch);
    mw_attention_case_check_backward(&c);
    g_aligned_free(scratch);
    mw_attention_case_clear(&c);
}

static void
test_attention(gconstpointer data)
{
    for (int round = 0; round < 20; round++)
        check_seq(data, mw_random_size(130));
    check_seq(data, 64);
    check_seq(data, 257);
    check_seq(data, 530);
}

/* Queries [first, first + n) of the case, and keys from `keys` on: as many up to a query's own, or
 * `count` of them, all of which each query sees. */
struct block {
    int64_t first, n, keys, count;
};

static struct mw_attention
shape_of(const struct mw_attention_case *c, const struct block *block)
{
    struct mw_attention shape = c->shape;

    shape.seq = block->n;
    shape.keys = block->count;
    shape.ld_lse = c->rows;
    shape.adds_q = shape.adds_kv = block->count > 0;
    return shape;
}

/* What a block of keys before the queries gives is joined with what their own give. */
static void
forward_block(const struct mw_cpu_kernels *k, struct mw_attention_case *c,
              const struct block *block, void *scratch)
{
    struct mw_attention shape = shape_of(c, block);
    int64_t at = block->first * c->shape.ld_o;
    const uint16_t *q = c->fused + block->first * c->ld, *kv = c->fused + block->keys * c->ld;
    g_autofree uint16_t *o = g_new(uint16_t, c->o.n);
    g_autofree float *lse = g_new(float, c->rows * c->plain.heads);
    bool joins = block->count > 0;

    k->attention_forward(&shape, (joins ? o : c->o.bits) + at,
                         (joins ? lse : c->lse) + block->first, q, kv + mw_attention_case_k(c),
                         kv + mw_attention_case_v(c), scratch);
    if (joins)
        k->join_attention(&shape, c->o.bits + at, c->lse + block->first, o + at,
                          lse + block->first);
}

static void
backward_block(const struct mw_cpu_kernels *k, struct mw_attention_case *c,
               const struct block *block, void *scratch)
{
    struct mw_attention shape = shape_of(c, block);
    int64_t at = block->first * c->shape.ld_o, own = block->first * c->ld;
    int64_t at_k = block->keys * c->ld + mw_attention_case_k(c);
    int64_t at_v = block->keys * c->ld + mw_attention_case_v(c);

    k->attention_backward(&shape, c->fused_gradient + own, c->fused_gradient + at_k,
                          c->fused_gradient + at_v, c->d_o.bits + at, c->o.bits + at,
                          c->lse + block->first, c->fused + own, c->fused + at_k, c->fused + at_v,
                          scratch);
}

/* The blocks of a ring of ranks together are whole attention. */
static void
test_attention_blocks(gconstpointer data)
{
    for (int round = 0; round < 12; round++) {
        int64_t n = round ? mw_random_size(130) : 300, before = mw_random_size(130);
        const struct block blocks[] = {
            {0, before, 0, 0}, {before, n, before, 0}, {before, n, 0, before}};
        struct mw_ref_attention plain = random_shape(before + n);
        struct mw_attention_case c;
        plain.batch = 1;
        mw_attention_case_init(&c, &plain, mw_random_size(5));
        c.joins = 1;
        void *scratch = scratch_for(data, &c);
        for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++)
            forward_block(data, &c, &blocks[i], scratch);
        mw_attention_case_check_forward(&c);
        for (size_t i = 0; i < G_N_ELEMENTS(blocks); i++)
            backward_block(data, &c, &blocks[i], scratch);
        mw_attention_case_check_backward(&c);
        g_aligned_free(scratch);
        mw_attention_case_clear(&c);
    }
}

/* y += x, rows apart. */
static void
test_add_rows(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    int64_t rows = mw_random_size(9), columns = mw_random_size(70), ld = columns + 3;
    struct mw_tensor x = mw_tensor_random(rows * columns, 4.0);
    struct mw_tensor y = mw_tensor_random(rows * ld, 4.0);
    g_autofree uint16_t *sum = g_memdup2(y.bits, (gsize)(rows * ld) * sizeof *sum);

    k->add_rows(sum, ld, x.bits, columns, rows, columns);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < ld; i++) {
            double added = i < columns ? x.value[r * columns + i] : 0;
            double expected = y.value[r * ld + i] + added;
            mw_expect_half("sum", &sum[r * ld + i], &expected, 1, MW_HALF_ROUNDING, 0);
        }
    mw_tensor_clear(&x);
    mw_tensor_clear(&y);
}

/* A gradient of one run with one thread and another with three are the same bits. */
static void
test_attention_threads(gconstpointer data)
{
#if defined(_OPENMP)
    const struct mw_cpu_kernels *k = data;
    int before = omp_get_max_threads();
    struct mw_ref_attention plain = random_shape(300);
    struct mw_attention_case c;
    omp_set_num_threads(3);
    mw_attention_case_init(&c, &plain, 3);
    gsize bytes = (gsize)(c.rows * c.ld) * sizeof *c.fused, o_bytes = (gsize)c.o.n * 2;
    void *scratch = scratch_for(k, &c);
    forward(k, &c, scratch);
    backward(k, &c, scratch);
    g_autofree uint16_t *o = g_memdup2(c.o.bits, o_bytes);
    g_autofree uint16_t *gradient = g_memdup2(c.fused_gradient, bytes);
    omp_set_num_threads(1);
    forward(k, &c, scratch);
    backward(k, &c, scratch);
    g_assert_cmpmem(o, o_bytes, c.o.bits, o_bytes);
    g_assert_cmpmem(gradient, bytes, c.fused_gradient, bytes);
    g_aligned_free(scratch);
    mw_attention_case_clear(&c);
    omp_set_num_threads(before);
#else
    g_test_skip("built without OpenMP");
#endif
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("attention", test_attention);
    mw_add_kernel_test("attention-threads", test_attention_threads);
    mw_add_kernel_test("attention-blocks", test_attention_blocks);
    mw_add_kernel_test("add-rows", test_add_rows);
    return g_test_run();
}
