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
    return g_test_run();
}
