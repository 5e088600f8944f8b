/* Attention and rotary positions against plain loops in double. */
#include <math.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "exec/rope.h"
#include "kernel_helpers.h"
#include "kernel_reference.h"

/* q, k and v are slices of one fused tensor, with a few elements between rows; o is dense. */
struct attention_case {
    struct mw_attention shape;
    struct mw_ref_attention plain;
    struct mw_tensor q, k, v, d_o; /* dense */
    int64_t rows, ld;
    uint16_t *fused, *fused_gradient;
    void *scratch;
};

static int
team(void)
{
#if defined(_OPENMP)
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static void
copy_rows(uint16_t *to, int64_t ld_to, const uint16_t *from, int64_t ld_from, int64_t rows,
          int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * ld_to, from + r * ld_from, (size_t)columns * sizeof *to);
}

static void
case_shape(struct attention_case *c, int64_t seq)
{
    int64_t kv_heads = 1 + mw_random_size(3), group = mw_random_size(3);
    struct mw_ref_attention plain = {mw_random_size(3),      seq, kv_heads * group, kv_heads,
                                     2 * mw_random_size(48), 0.0};
    plain.scale = 1.0 / sqrt((double)plain.head_dim);
    c->plain = plain;
    c->rows = plain.batch * seq;
    c->ld = (plain.heads + 2 * kv_heads) * plain.head_dim + mw_random_size(5);
    c->shape = (struct mw_attention){plain.batch,
                                     seq,
                                     plain.heads,
                                     kv_heads,
                                     plain.head_dim,
                                     c->ld,
                                     c->ld,
                                     c->ld,
                                     plain.heads * plain.head_dim,
                                     (float)plain.scale};
}

static void
case_init(struct attention_case *c, const struct mw_cpu_kernels *kernels, int64_t seq)
{
    case_shape(c, seq);
    int64_t dim = c->plain.head_dim, q = c->plain.heads * dim, kv = c->plain.kv_heads * dim;
    c->q = mw_tensor_random(c->rows * q, 4.0);
    c->k = mw_tensor_random(c->rows * kv, 4.0);
    c->v = mw_tensor_random(c->rows * kv, 2.0);
    c->d_o = mw_tensor_random(c->rows * q, 1.0);
    c->fused = g_new(uint16_t, c->rows * c->ld);
    c->fused_gradient = g_new(uint16_t, c->rows * c->ld);
    memset(c->fused, 0xff, (size_t)(c->rows * c->ld) * sizeof *c->fused);
    memset(c->fused_gradient, 0xff, (size_t)(c->rows * c->ld) * sizeof *c->fused);
    copy_rows(c->fused, c->ld, c->q.bits, q, c->rows, q);
    copy_rows(c->fused + q, c->ld, c->k.bits, kv, c->rows, kv);
    copy_rows(c->fused + q + kv, c->ld, c->v.bits, kv, c->rows, kv);
    gsize bytes = (gsize)kernels->attention_scratch_bytes(&c->shape, team());
    c->scratch = g_aligned_alloc(1, bytes, 64);
    memset(c->scratch, 0xff, bytes);
}

static void
case_clear(struct attention_case *c)
{
    mw_tensor_clear(&c->q);
    mw_tensor_clear(&c->k);
    mw_tensor_clear(&c->v);
    mw_tensor_clear(&c->d_o);
    g_free(c->fused);
    g_free(c->fused_gradient);
    g_aligned_free(c->scratch);
}

/* Weights and results are rounded to bf16 once each. */
static void
check_forward(const struct mw_cpu_kernels *k, const struct attention_case *c, struct mw_tensor *o,
              float *lse)
{
    int64_t q = c->plain.heads * c->plain.head_dim, kv = c->plain.kv_heads * c->plain.head_dim;
    g_autofree double *expected = g_new(double, c->plain.heads * c->rows);
    k->attention_forward(&c->shape, o->bits, lse, c->fused, c->fused + q, c->fused + q + kv,
                         c->scratch);
    mw_ref_attention(&c->plain, o->value, expected, c->q.value, c->k.value, c->v.value);
    mw_expect_bf16("o", o->bits, o->value, o->n, MW_BF16_HALF_ULP, 2.0 * MW_BF16_HALF_ULP);
    mw_expect_fp32("lse", lse, expected, c->plain.heads * c->rows, 1e-5, 1e-4);
}

static void
check_slice(const char *what, const uint16_t *slice, int64_t ld, const double *expected,
            int64_t rows, int64_t columns)
{
    /* Terms rounded to bf16, of which some cancel: half a unit of the largest sum, twice over. */
    double absolute = 4.0 * MW_BF16_HALF_ULP * fmax(mw_largest(expected, rows * columns), 0.1);
    for (int64_t r = 0; r < rows; r++)
        mw_expect_bf16(what, slice + r * ld, expected + r * columns, columns, MW_BF16_HALF_ULP,
                       absolute);
}

static void
check_backward(const struct mw_cpu_kernels *k, const struct attention_case *c,
               const struct mw_tensor *o, const float *lse)
{
    int64_t q = c->plain.heads * c->plain.head_dim, kv = c->plain.kv_heads * c->plain.head_dim;
    g_autofree double *dq = g_new(double, c->rows *q);
    g_autofree double *dk = g_new(double, c->rows *kv), *dv = g_new(double, c->rows *kv);
    uint16_t *out = c->fused_gradient;
    k->attention_backward(&c->shape, out, out + q, out + q + kv, c->d_o.bits, o->bits, lse,
                          c->fused, c->fused + q, c->fused + q + kv, c->scratch);
    g_autofree double *rounded = g_new(double, o->n);
    for (int64_t i = 0; i < o->n; i++)
        rounded[i] = (double)mw_bf16_value(o->bits[i]);
    mw_ref_attention_backward(&c->plain, dq, dk, dv, c->d_o.value, rounded, c->q.value, c->k.value,
                              c->v.value);
    check_slice("dq", out, c->ld, dq, c->rows, q);
    check_slice("dk", out + q, c->ld, dk, c->rows, kv);
    check_slice("dv", out + q + kv, c->ld, dv, c->rows, kv);
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t i = q + 2 * kv; i < c->ld; i++)
            g_assert_cmphex(out[r * c->ld + i], ==, 0xffff);
}

static void
check_seq(const struct mw_cpu_kernels *k, int64_t seq)
{
    struct attention_case c;
    case_init(&c, k, seq);
    struct mw_tensor o = mw_tensor_poisoned(c.rows * c.plain.heads * c.plain.head_dim);
    g_autofree float *lse = mw_floats_poisoned(c.plain.heads * c.rows);
    check_forward(k, &c, &o, lse);
    check_backward(k, &c, &o, lse);
    mw_tensor_clear(&o);
    case_clear(&c);
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
    struct attention_case c;
    omp_set_num_threads(3);
    case_init(&c, k, 300);
    int64_t q = c.plain.heads * c.plain.head_dim, kv = c.plain.kv_heads * c.plain.head_dim;
    gsize bytes = (gsize)(c.rows * c.ld) * sizeof *c.fused;
    struct mw_tensor o[2] = {mw_tensor_poisoned(c.rows * q), mw_tensor_poisoned(c.rows * q)};
    g_autofree float *lse = mw_floats_poisoned(c.plain.heads * c.rows);
    g_autofree uint16_t *first = NULL;
    for (int i = 0; i < 2; i++) {
        omp_set_num_threads(i == 0 ? 3 : 1);
        k->attention_forward(&c.shape, o[i].bits, lse, c.fused, c.fused + q, c.fused + q + kv,
                             c.scratch);
        k->attention_backward(&c.shape, c.fused_gradient, c.fused_gradient + q,
                              c.fused_gradient + q + kv, c.d_o.bits, o[i].bits, lse, c.fused,
                              c.fused + q, c.fused + q + kv, c.scratch);
        if (i == 0)
            first = g_memdup2(c.fused_gradient, bytes);
    }
    g_assert_cmpmem(o[0].bits, (gsize)o[0].n * 2, o[1].bits, (gsize)o[1].n * 2);
    g_assert_cmpmem(first, bytes, c.fused_gradient, bytes);
    mw_tensor_clear(&o[0]);
    mw_tensor_clear(&o[1]);
    case_clear(&c);
    omp_set_num_threads(before);
#else
    g_test_skip("built without OpenMP");
#endif
}

static void
test_rope(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    for (int round = 0; round < 30; round++) {
        int64_t batch = mw_random_size(3), seq = mw_random_size(60), heads = mw_random_size(5);
        int64_t dim = 2 * mw_random_size(70), n = batch * seq * heads * dim;
        struct mw_tensor x = mw_tensor_random(n, 3.0);
        g_autofree double *before = g_memdup2(x.value, (gsize)n * sizeof *x.value);
        g_autofree float *table = mw_floats_poisoned(seq * dim);
        struct mw_decoder decoder = {.head_dim = dim, .rope_theta = 10000.0};
        mw_rope_table(&decoder, seq, table);
        k->rope(x.bits, table, batch, seq, heads, dim, heads * dim, false);
        mw_ref_rope(x.value, batch, seq, heads, dim, 10000.0, false);
        mw_expect_bf16("turned", x.bits, x.value, n, MW_BF16_HALF_ULP, 1e-5);
        k->rope(x.bits, table, batch, seq, heads, dim, heads * dim, true);
        mw_expect_bf16("turned back", x.bits, before, n, 0.0, 3.0 * 4.0 * MW_BF16_HALF_ULP);
        mw_tensor_clear(&x);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("attention", test_attention);
    mw_add_kernel_test("attention-threads", test_attention_threads);
    mw_add_kernel_test("rope", test_rope);
    return g_test_run();
}
