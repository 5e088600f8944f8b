/* AdamW and the gradient norm: the same bits from every instruction set and number of threads. */
#include <math.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "kernel_helpers.h"

struct state {
    float *w, *m, *v;
    uint16_t *param;
    int64_t n;
};

static struct state
state_copy(const struct state *s)
{
    gsize bytes = (gsize)s->n * sizeof(float);
    struct state copy = {g_memdup2(s->w, bytes), g_memdup2(s->m, bytes), g_memdup2(s->v, bytes),
                         g_memdup2(s->param, bytes / 2), s->n};
    return copy;
}

static void
state_clear(struct state *s)
{
    g_free(s->w);
    g_free(s->m);
    g_free(s->v);
    g_free(s->param);
}

static struct state
state_random(int64_t n)
{
    struct state s = {mw_floats_random(n, 1.0), mw_floats_random(n, 1e-2),
                      mw_floats_random(n, 1e-3), g_new0(uint16_t, n), n};
    for (int64_t i = 0; i < n; i++)
        s.v[i] = fabsf(s.v[i]);
    return s;
}

/* As the header states it, one element and one operation at a time. */
static void
plain_adamw(const struct mw_update_step *a, struct state *s, const float *grad)
{
    for (int64_t i = 0; i < s->n; i++) {
        float g = grad[i] * a->grad_scale;
        float kept_m = a->beta1 * s->m[i], new_m = a->one_minus_beta1 * g;
        float square = g * g;
        float kept_v = a->beta2 * s->v[i], new_v = a->one_minus_beta2 * square;
        s->m[i] = kept_m + new_m;
        s->v[i] = kept_v + new_v;
        float root = sqrtf(s->v[i]) * a->v_scale;
        float ratio = s->m[i] / (root + a->eps);
        float kept_w = s->w[i] * a->decay, step = a->lr * ratio;
        s->w[i] = kept_w - step;
        s->param[i] = mw_half_nearest(s->w[i]);
    }
}

static float
plain_sign(float x)
{
    return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f;
}

static void
plain_other(const struct mw_update_step *a, struct state *s, const float *grad)
{
    for (int64_t i = 0; i < s->n; i++) {
        float g = grad[i] * a->grad_scale, decay = a->weight_decay * s->w[i];
        if (a->rule == MW_UPDATE_LION) {
            float kept = a->beta1 * s->m[i], new = a->one_minus_beta1 *g;
            float kept_m = a->beta2 * s->m[i], new_m = a->one_minus_beta2 * g;
            float kept_w = s->w[i] * a->decay, step = a->lr * plain_sign(kept + new);
            s->m[i] = kept_m + new_m;
            s->w[i] = kept_w - step;
        } else {
            float with_decay = g + decay, kept_m = a->beta1 * s->m[i];
            if (a->rule == MW_UPDATE_MOMENTUM)
                with_decay = s->m[i] = kept_m + with_decay;
            float step = a->lr * with_decay;
            s->w[i] = s->w[i] - step;
        }
        s->param[i] = mw_half_nearest(s->w[i]);
    }
}

static void
expect_same(const struct state *a, const struct state *b)
{
    gsize bytes = (gsize)a->n * sizeof(float);
    g_assert_cmpmem(a->w, bytes, b->w, bytes);
    g_assert_cmpmem(a->m, bytes, b->m, bytes);
    g_assert_cmpmem(a->v, bytes, b->v, bytes);
    g_assert_cmpmem(a->param, bytes / 2, b->param, bytes / 2);
}

static void
check_adamw(const struct mw_cpu_kernels *k, int64_t n, bool grad_fp32)
{
    const struct mw_update_step step =
        mw_adamw_step(3e-4, 0.9, 0.95, 1e-8, 0.1, mw_random_size(1000), 1.0 / 1024);
    struct mw_tensor half = mw_tensor_random(n, 10.0);
    g_autofree float *full = grad_fp32 ? mw_floats_random(n, 10.0) : g_new(float, n);
    for (int64_t i = 0; i < n && !grad_fp32; i++)
        full[i] = mw_half_value(half.bits[i]);
    struct state plain = state_random(n), fused = state_copy(&plain);
    plain_adamw(&step, &plain, full);
    k->update(&step, fused.w, fused.m, fused.v, fused.param,
              grad_fp32 ? (const void *)full : (const void *)half.bits, grad_fp32, n);
    expect_same(&plain, &fused);
    state_clear(&plain);
    state_clear(&fused);
    mw_tensor_clear(&half);
}

/* Lion, and SGD without momentum and with it; what they do not keep need not be there. */
static void
check_other(const struct mw_cpu_kernels *k, enum mw_update_rule rule, int64_t n, bool grad_fp32)
{
    const struct mw_update_step step =
        mw_update_step_of(rule, 3e-4, 0.9, 0.99, 1e-8, 0.1, mw_random_size(1000), 1.0 / 1024);
    struct mw_tensor half = mw_tensor_random(n, 10.0);
    g_autofree float *full = mw_floats_random(n, 10.0);
    for (int64_t i = 0; i < n && !grad_fp32; i++)
        full[i] = mw_half_value(half.bits[i]);
    full[n - 1] = grad_fp32 ? 0.0f : full[n - 1];
    struct state plain = state_random(n), fused = state_copy(&plain);
    plain.m[n - 1] = fused.m[n - 1] = 0.0f; /* the sign of 0 */
    plain_other(&step, &plain, full);
    k->update(&step, fused.w, rule == MW_UPDATE_SGD ? NULL : fused.m, NULL, fused.param,
              grad_fp32 ? (const void *)full : (const void *)half.bits, grad_fp32, n);
    expect_same(&plain, &fused);
    state_clear(&plain);
    state_clear(&fused);
    mw_tensor_clear(&half);
}

static void
test_other(gconstpointer data)
{
    for (int rule = MW_UPDATE_SGD; rule <= MW_UPDATE_LION; rule++)
        for (int round = 0; round < 10; round++) {
            check_other(data, (enum mw_update_rule)rule, mw_random_size(40000), round % 2 == 0);
            check_other(data, (enum mw_update_rule)rule, mw_random_size(100), round % 2 != 0);
        }
}

/* --- moments of fewer bits ------------------------------------------------------------------- */

#define SPANS_MAX 5

/* Both moments of a state: bf16, or blocks. */
static struct mw_narrow_moments
narrow_moments(const struct state *s, bool blocks)
{
    const struct mw_cpu_kernels *cpu = mw_cpu_kernels(MW_DTYPE_BF16);
    gsize bytes = (gsize)mw_dtype_bytes(blocks ? MW_DTYPE_DYNAMIC8 : MW_DTYPE_BF16, s->n);
    struct mw_narrow_moments moments = {.m = g_malloc(bytes), .v = g_malloc(bytes)};

    if (blocks) {
        moments.m_codes = mw_dynamic8_of(false);
        moments.v_codes = mw_dynamic8_of(true);
        cpu->narrow_dynamic8(moments.m, s->m, moments.m_codes, s->n);
        cpu->narrow_dynamic8(moments.v, s->v, moments.v_codes, s->n);
    } else {
        cpu->narrow(moments.m, s->m, s->n);
        cpu->narrow(moments.v, s->v, s->n);
    }
    return moments;
}

static void
widen_moments(struct state *s, const struct mw_narrow_moments *moments)
{
    const struct mw_cpu_kernels *cpu = mw_cpu_kernels(MW_DTYPE_BF16);

    if (moments->m_codes) {
        cpu->widen_dynamic8(s->m, moments->m, moments->m_codes, 0, s->n);
        cpu->widen_dynamic8(s->v, moments->v, moments->v_codes, 0, s->n);
    } else {
        cpu->widen(s->m, moments->m, s->n);
        cpu->widen(s->v, moments->v, s->n);
    }
}

/* Codes behind the last element, which an update leaves as 0. */
static void
fill_rest(const struct mw_narrow_moments *moments, int64_t n)
{
    int64_t used = n % MW_DYNAMIC8_BLOCK, at = n / MW_DYNAMIC8_BLOCK * MW_DYNAMIC8_BYTES + used;

    if (!moments->m_codes || !used)
        return;
    memset((char *)moments->m + at, 77, (size_t)(MW_DYNAMIC8_BLOCK - used));
    memset((char *)moments->v + at, 77, (size_t)(MW_DYNAMIC8_BLOCK - used));
}

static struct mw_update_spans
spans_random(int64_t n)
{
    struct mw_update_spans spans = {.count = g_test_rand_int_range(0, SPANS_MAX)};
    int64_t end = 0;

    for (int i = 0; i < spans.count; i++) {
        end += g_test_rand_bit() ? mw_random_size(n) - 1 : mw_random_size(30) - 1;
        spans.ends[i] = end; /* beyond the last element too */
    }
    return spans;
}

/* Element by element: some block's elements decay and others do not. */
static void
plain_spans(const struct mw_update_step *step, const struct mw_update_step *without,
            const struct mw_update_spans *spans, struct state *s, const float *grad)
{
    for (int64_t i = 0; i < s->n; i++) {
        struct state one = {s->w + i, s->m + i, s->v + i, s->param + i, 1};
        int before = 0;
        for (int e = 0; e < spans->count; e++)
            before += spans->ends[e] <= i;
        plain_adamw(before % 2 ? step : without, &one, grad + i);
    }
}

static void
check_narrow(const struct mw_cpu_kernels *k, int64_t n, bool blocks, bool grad_fp32)
{
    int64_t steps = mw_random_size(1000);
    const struct mw_update_step step = mw_adamw_step(3e-2, 0.9, 0.95, 1e-8, 0.1, steps, 0.01);
    const struct mw_update_step without = mw_adamw_step(3e-2, 0.9, 0.95, 1e-8, 0, steps, 0.01);
    const struct mw_update_spans spans = spans_random(n);
    struct mw_tensor half = mw_tensor_random(n, 10.0);
    g_autofree float *full = grad_fp32 ? mw_floats_random(n, 10.0) : g_new(float, n);
    struct state plain = state_random(n), fused = state_copy(&plain);
    struct mw_narrow_moments got = narrow_moments(&plain, blocks);
    gsize bytes = (gsize)mw_dtype_bytes(blocks ? MW_DTYPE_DYNAMIC8 : MW_DTYPE_BF16, n);

    for (int64_t i = 0; i < n && !grad_fp32; i++)
        full[i] = mw_half_value(half.bits[i]);
    widen_moments(&plain, &got);
    plain_spans(&step, &without, &spans, &plain, full);
    struct mw_narrow_moments expected = narrow_moments(&plain, blocks);
    fill_rest(&got, n);
    k->update_narrow(&step, &spans, fused.w, &got, fused.param,
                     grad_fp32 ? (const void *)full : (const void *)half.bits, grad_fp32, n);
    g_assert_cmpmem(got.m, bytes, expected.m, bytes);
    g_assert_cmpmem(got.v, bytes, expected.v, bytes);
    g_assert_cmpmem(fused.w, (gsize)n * 4, plain.w, (gsize)n * 4);
    g_assert_cmpmem(fused.param, (gsize)n * 2, plain.param, (gsize)n * 2);
    for (int i = 0; i < 2; i++) {
        g_free(i ? got.m : expected.m);
        g_free(i ? got.v : expected.v);
    }
    state_clear(&plain);
    state_clear(&fused);
    mw_tensor_clear(&half);
}

static void
test_narrow(gconstpointer data)
{
    for (int round = 0; round < 12; round++) {
        check_narrow(data, mw_random_size(40000), round % 2, round % 3 == 0);
        check_narrow(data, 2048 * mw_random_size(5), round % 2, round % 3 == 0);
        check_narrow(data, mw_random_size(100), round % 2, round % 3 != 0);
    }
}

/* --- by rows and columns --------------------------------------------------------------------- */

/* Of a matrix, or with no rows of what is none: vectors before the step and after it. */
struct sides {
    int64_t rows, columns;
    float *row, *column, *row_next, *column_next;
};

static float *
sums_random(int64_t n)
{
    float *values = mw_floats_random(n, 1.0);
    for (int64_t i = 0; i < n; i++)
        values[i] = i % 7 ? fabsf(values[i]) : 0.0f;
    return values;
}

static struct sides
sides_random(int64_t rows, int64_t columns)
{
    struct sides s = {rows, columns, sums_random(MAX(rows, 1)), sums_random(columns), NULL, NULL};
    s.row_next = g_memdup2(s.row, (gsize)MAX(rows, 1) * sizeof(float));
    s.column_next = g_memdup2(s.column, (gsize)columns * sizeof(float));
    return s;
}

static void
sides_clear(struct sides *s)
{
    g_free(s->row);
    g_free(s->column);
    g_free(s->row_next);
    g_free(s->column_next);
}

/* As the header states it. */
static void
plain_sm3(const struct mw_update_step *a, struct sides *v, struct state *s, const float *grad)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t row = i / v->columns, column = i % v->columns;
        float g = grad[i] * a->grad_scale, square = g * g;
        float before = v->column[column];
        if (v->rows && v->row[row] < before)
            before = v->row[row];
        float nu = before + square;
        float ratio = nu > 0 ? g / sqrtf(nu) : 0.0f;
        float kept = a->beta1 * s->m[i], new = a->one_minus_beta1 *ratio;
        s->m[i] = kept + new;
        float kept_w = s->w[i] * a->decay, step = a->lr * s->m[i];
        s->w[i] = kept_w - step;
        s->param[i] = mw_half_nearest(s->w[i]);
        if (v->rows)
            v->row_next[row] = MAX(v->row_next[row], nu);
        v->column_next[column] = MAX(v->column_next[column], nu);
    }
}

static void
update_sides(const struct mw_cpu_kernels *k, const struct mw_update_step *step, struct sides *v,
             struct state *s, const float *grad, int64_t first, int64_t n)
{
    const struct mw_update_vectors vectors = {
        .row = v->rows ? v->row : NULL,
        .column = v->column,
        .row_next = v->rows ? v->row_next : NULL,
        .column_next = v->column_next,
        .columns = v->columns,
        .first = first,
    };
    k->update_by_vectors(step, &vectors, s->w + first, s->m + first, s->param + first, grad + first,
                         true, n);
}

/* Whole, and cut anywhere, the last part first. */
static void
check_sm3(const struct mw_cpu_kernels *k, int64_t rows, int64_t columns)
{
    const struct mw_update_step step =
        mw_update_step_of(MW_UPDATE_SM3, 3e-2, 0.9, 0.95, 1e-8, 0.1, 3, 1.0 / 1024);
    int64_t n = MAX(rows, 1) * columns, cut = mw_random_size(n + 1) - 1;
    g_autofree float *grad = mw_floats_random(n, 1000.0);
    struct state plain = state_random(n), whole = state_copy(&plain), parts = state_copy(&plain);
    struct sides expected = sides_random(rows, columns), sides[2];

    for (int64_t i = 0; i < n; i += 5)
        grad[i] = 0.0f;
    for (int i = 0; i < 2; i++) {
        sides[i] = expected;
        sides[i].row_next = g_memdup2(expected.row, (gsize)MAX(rows, 1) * sizeof(float));
        sides[i].column_next = g_memdup2(expected.column, (gsize)columns * sizeof(float));
    }
    plain_sm3(&step, &expected, &plain, grad);
    update_sides(k, &step, &sides[0], &whole, grad, 0, n);
    update_sides(k, &step, &sides[1], &parts, grad, cut, n - cut);
    update_sides(k, &step, &sides[1], &parts, grad, 0, cut);
    expect_same(&plain, &whole);
    expect_same(&plain, &parts);
    for (int i = 0; i < 2; i++) {
        gsize row_bytes = (gsize)rows * sizeof(float), bytes = (gsize)columns * sizeof(float);
        g_assert_cmpmem(expected.row_next, row_bytes, sides[i].row_next, row_bytes);
        g_assert_cmpmem(expected.column_next, bytes, sides[i].column_next, bytes);
        g_free(sides[i].row_next);
        g_free(sides[i].column_next);
    }
    sides_clear(&expected);
    state_clear(&plain);
    state_clear(&whole);
    state_clear(&parts);
}

/* GPUs do not update by rows and columns yet. */
static bool
has_vectors(const struct mw_cpu_kernels *k)
{
    if (!k->update_by_vectors)
        g_test_skip("it has no update by vectors");
    return k->update_by_vectors != NULL;
}

static void
test_sm3(gconstpointer data)
{
    if (!has_vectors(data))
        return;
    for (int round = 0; round < 10; round++) {
        check_sm3(data, mw_random_size(40), mw_random_size(3000));
        check_sm3(data, mw_random_size(3000), mw_random_size(40));
        check_sm3(data, 0, mw_random_size(5000));
    }
}

/* Strips of a row raise one maximum. */
static void
test_sm3_threads(gconstpointer data)
{
#if defined(_OPENMP)
    int before = omp_get_max_threads();
    for (int threads = 1; threads <= 5 && has_vectors(data); threads++) {
        omp_set_num_threads(threads);
        check_sm3(data, 20, 5000);
    }
    omp_set_num_threads(before);
#else
    g_test_skip("built without OpenMP");
#endif
}

static void
plain_adafactor(const struct mw_update_step *a, const struct sides *v, struct state *s,
                const float *grad)
{
    for (int64_t i = 0; i < s->n; i++) {
        float g = grad[i] * a->grad_scale, row = v->rows ? v->row[i / v->columns] : 1.0f;
        float of_row = g * row, ratio = of_row * v->column[i % v->columns];
        float kept = s->w[i] * a->decay, step = a->lr * ratio;
        s->w[i] = kept - step;
        s->param[i] = mw_half_nearest(s->w[i]);
    }
}

static void
check_adafactor(const struct mw_cpu_kernels *k, int64_t rows, int64_t columns)
{
    const struct mw_update_step step =
        mw_update_step_of(MW_UPDATE_ADAFACTOR, 3e-2, 0.9, 0.95, 1e-8, 0.1, 3, 1.0 / 1024);
    int64_t n = MAX(rows, 1) * columns, cut = mw_random_size(n + 1) - 1;
    g_autofree float *grad = mw_floats_random(n, 1000.0);
    struct state plain = state_random(n), parts = state_copy(&plain);
    struct sides sides = sides_random(rows, columns);

    plain_adafactor(&step, &sides, &plain, grad);
    update_sides(k, &step, &sides, &parts, grad, cut, n - cut);
    update_sides(k, &step, &sides, &parts, grad, 0, cut);
    expect_same(&plain, &parts);
    sides_clear(&sides);
    state_clear(&plain);
    state_clear(&parts);
}

static void
test_adafactor(gconstpointer data)
{
    if (!has_vectors(data))
        return;
    for (int round = 0; round < 10; round++) {
        check_adafactor(data, mw_random_size(40), mw_random_size(3000));
        check_adafactor(data, 0, mw_random_size(5000));
    }
}

/* As the header states it: digit by digit, of one number after the other. */
static void
plain_square(struct mw_exact_sum *sum, float x)
{
    double rest = (double)x * (double)x;

    if (!(rest < 0x1p68))
        rest = ldexp(0x1p53 - 1, 15);
    for (int d = MW_EXACT_DIGITS - 1; d >= 0; d--) {
        double unit = ldexp(1, MW_EXACT_FIRST_BIT + d * MW_EXACT_DIGIT_BITS);
        double digit = nearbyint(rest / unit);
        sum->digits[d] += (uint64_t)(int64_t)digit;
        rest -= digit * unit;
    }
}

/* Gradients of a matrix, or with no rows of what is none, in fp32 or in the elements' type. */
struct summed {
    int64_t rows, columns, n;
    bool fp32;
    float *full;
    struct mw_tensor half; /* without bits: fp32 */
};

/* Of any size, some rows of small ones alone: those have fewer digits. */
static struct summed
summed_random(int64_t rows, int64_t columns, bool fp32)
{
    struct summed s = {rows, columns, MAX(rows, 1) * columns, fp32, NULL, {0}};

    s.full = mw_floats_random(s.n, 1.0);
    for (int64_t i = 0; i < s.n; i++) {
        int64_t row = i / columns;
        int most = row % 3 == 0 ? -12 : row % 3 == 1 ? 4 : 42;
        s.full[i] =
            i % 11 ? ldexpf(s.full[i], g_test_rand_int_range(MAX(most - 50, -70), most)) : 0.0f;
    }
    if (!fp32)
        s.half = mw_tensor_poisoned(s.n);
    for (int64_t i = 0; i < s.half.n; i++) {
        s.half.bits[i] = mw_half_nearest(s.full[i]);
        s.full[i] = mw_half_value(s.half.bits[i]);
    }
    return s;
}

static void
summed_clear(struct summed *s)
{
    g_free(s->full);
    mw_tensor_clear(&s->half);
}

static const void *
gradients_from(const struct summed *s, int64_t first)
{
    return s->fp32 ? (const void *)(s->full + first) : (const void *)(s->half.bits + first);
}

static void
add_sides(const struct mw_cpu_kernels *k, struct mw_exact_sum *sums, const struct summed *of,
          int64_t first, int64_t n)
{
    const struct mw_exact_sides sides = {.row = of->rows ? sums : NULL,
                                         .column = sums + of->rows,
                                         .columns = of->columns,
                                         .first = first};
    k->side_sums(&sides, gradients_from(of, first), of->fp32, n);
}

/* Whole, and cut anywhere, from behind: to the bit of the plain way. */
static void
check_side_sums(const struct mw_cpu_kernels *k, int64_t rows, int64_t columns, bool fp32)
{
    struct summed of = summed_random(rows, columns, fp32);
    int64_t cut = mw_random_size(of.n + 1) - 1;
    gsize bytes = (gsize)(rows + columns) * sizeof(struct mw_exact_sum);
    g_autofree struct mw_exact_sum *whole = g_malloc0(bytes);
    g_autofree struct mw_exact_sum *parts = g_malloc0(bytes);
    g_autofree struct mw_exact_sum *plain = g_malloc0(bytes);

    for (int64_t i = 0; i < of.n; i++) {
        if (rows)
            plain_square(&plain[i / columns], of.full[i]);
        plain_square(&plain[rows + i % columns], of.full[i]);
    }
    add_sides(k, whole, &of, 0, of.n);
    add_sides(k, parts, &of, cut, of.n - cut);
    add_sides(k, parts, &of, 0, cut);
    g_assert_cmpmem(whole, bytes, plain, bytes);
    g_assert_cmpmem(parts, bytes, plain, bytes);
    summed_clear(&of);
}

static void
test_side_sums(gconstpointer data)
{
    if (!has_vectors(data))
        return;
    for (int round = 0; round < 6; round++) {
        check_side_sums(data, mw_random_size(40), mw_random_size(3000), round % 2);
        check_side_sums(data, mw_random_size(2000), mw_random_size(40), round % 2);
        check_side_sums(data, 0, mw_random_size(5000), round % 2);
    }
}

/* What an update takes, squared: of a whole tensor, and of its parts, to the bit. */
static void
check_update_squares(const struct mw_cpu_kernels *k, int64_t rows, int64_t columns, bool fp32)
{
    const struct mw_update_step step =
        mw_update_step_of(MW_UPDATE_ADAFACTOR, 3e-2, 0.9, 0.95, 1e-8, 0.1, 3, 1.0 / 1024);
    struct summed of = summed_random(rows, columns, fp32);
    int64_t cut = mw_random_size(of.n + 1) - 1;
    struct sides sides = sides_random(rows, columns);
    struct mw_update_vectors v = {
        .row = rows ? sides.row : NULL, .column = sides.column, .columns = columns};
    struct mw_exact_sum whole = {{0}}, parts = {{0}}, plain = {{0}};

    for (int64_t i = 0; i < of.n; i++) {
        float g = of.full[i] * step.grad_scale;
        float of_row = g * (rows ? sides.row[i / columns] : 1.0f);
        plain_square(&plain, of_row * sides.column[i % columns]);
    }
    k->update_squares(&step, &v, gradients_from(&of, 0), fp32, of.n, &whole);
    k->update_squares(&step, &v, gradients_from(&of, 0), fp32, cut, &parts);
    v.first = cut;
    k->update_squares(&step, &v, gradients_from(&of, cut), fp32, of.n - cut, &parts);
    g_assert_cmpmem(&whole, sizeof whole, &plain, sizeof plain);
    g_assert_cmpmem(&parts, sizeof parts, &plain, sizeof plain);
    sides_clear(&sides);
    summed_clear(&of);
}

static void
test_update_squares(gconstpointer data)
{
    if (!has_vectors(data))
        return;
    for (int round = 0; round < 6; round++) {
        check_update_squares(data, mw_random_size(40), mw_random_size(3000), round % 2);
        check_update_squares(data, mw_random_size(2000), mw_random_size(40), round % 2);
        check_update_squares(data, 0, mw_random_size(5000), round % 2);
    }
}

/* Strips of a row meet in one sum. */
static void
test_side_sums_threads(gconstpointer data)
{
#if defined(_OPENMP)
    int before = omp_get_max_threads();
    for (int threads = 1; threads <= 5 && has_vectors(data); threads++) {
        omp_set_num_threads(threads);
        check_side_sums(data, 20, 5000, true);
        check_update_squares(data, 20, 5000, true);
    }
    omp_set_num_threads(before);
#else
    g_test_skip("built without OpenMP");
#endif
}

/* The value is that of the squares: bits below the first digit are left off. */
static void
test_side_sums_value(gconstpointer data)
{
    enum { COLUMNS = 3000 };
    struct summed of = summed_random(0, COLUMNS, true);
    struct mw_exact_sum sums[COLUMNS] = {{{0}}};

    if (has_vectors(data))
        add_sides(data, sums, &of, 0, COLUMNS);
    for (int i = 0; i < COLUMNS && has_vectors(data); i++) {
        double square = (double)of.full[i] * (double)of.full[i];
        g_assert_cmpfloat(fabs(mw_exact_value(&sums[i]) - square), <=, 0x1p-113);
    }
    summed_clear(&of);
}

/* The ends of what digits hold: the least square, one that loses its last bits, the largest, and
 * what is no number. */
static void
test_side_sums_ends(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    const float values[] = {0x1p-56f, 0x1p-57f, 0x1.000002p-40f, 0x1p33f, 0x1p40f, INFINITY, NAN};
    double most = ldexp(0x1p53 - 1, 15);
    const double expected[] = {0x1p-112, 0, 0x1.000004p-80, 0x1p66, most, most, most};

    if (!has_vectors(k))
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        struct mw_exact_sum sum = {{0}};
        const struct mw_exact_sides sides = {NULL, &sum, 1, 0};
        k->side_sums(&sides, &values[i], true, 1);
        g_assert_cmpfloat(mw_exact_value(&sum), ==, expected[i]);
    }
}

static void
test_adamw(gconstpointer data)
{
    for (int round = 0; round < 20; round++) {
        check_adamw(data, mw_random_size(40000), round % 2 == 0);
        check_adamw(data, mw_random_size(100), round % 2 != 0);
    }
}

static void
test_adamw_threads(gconstpointer data)
{
#if defined(_OPENMP)
    int before = omp_get_max_threads();
    for (int threads = 1; threads <= 5; threads++) {
        omp_set_num_threads(threads);
        check_adamw(data, 100000, false);
    }
    omp_set_num_threads(before);
#else
    g_test_skip("built without OpenMP");
#endif
}

/* No bf16 copy asked for; and unaligned ends, as of a shard cut anywhere. */
static void
test_adamw_shards(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    const struct mw_update_step step = mw_adamw_step(1e-3, 0.9, 0.999, 1e-8, 0.0, 1, 1.0);
    int64_t n = 5000, cut = 1237;
    g_autofree float *grad = mw_floats_random(n, 1.0);
    struct state whole = state_random(n), parts = state_copy(&whole);
    k->update(&step, whole.w, whole.m, whole.v, NULL, grad, true, n);
    k->update(&step, parts.w, parts.m, parts.v, NULL, grad, true, cut);
    k->update(&step, parts.w + cut, parts.m + cut, parts.v + cut, NULL, grad + cut, true, n - cut);
    expect_same(&whole, &parts);
    state_clear(&whole);
    state_clear(&parts);
}

/* One step of the paper's Algorithm 2 in double, with step 3 and a decay. */
static void
test_adamw_formula(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    const struct mw_update_step step = mw_adamw_step(0.01, 0.9, 0.99, 1e-8, 0.1, 3, 0.5);
    float w = 2.0f, m = 0.3f, v = 0.04f, grad = 1.5f;
    double g = 0.5 * 1.5, em = 0.9 * 0.3 + 0.1 * g, ev = 0.99 * 0.04 + 0.01 * g * g;
    double m_hat = em / (1.0 - pow(0.9, 3.0)), v_hat = ev / (1.0 - pow(0.99, 3.0));
    double ew = 2.0 - 0.01 * (m_hat / (sqrt(v_hat) + 1e-8) + 0.1 * 2.0);
    uint16_t param;
    k->update(&step, &w, &m, &v, &param, &grad, true, 1);
    g_assert_cmpfloat_with_epsilon((double)w, ew, 1e-6);
    g_assert_cmpfloat_with_epsilon((double)m, em, 1e-7);
    g_assert_cmpfloat_with_epsilon((double)v, ev, 1e-8);
    g_assert_cmphex(param, ==, mw_half_nearest(w));
}

static double
plain_squares(const float *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/* As exec/operators/kernel_types.h says, one element at a time. */
static double
plain_block(const float *x, int64_t n)
{
    double sum = 0.0;
    for (int64_t first = 0; first < n; first += MW_NORM_SPAN) {
        double lane[MW_NORM_LANES] = {0}, span = 0.0;
        for (int64_t i = first; i < n && i < first + MW_NORM_SPAN; i++)
            lane[i % MW_NORM_LANES] += (double)x[i] * (double)x[i];
        for (int i = 0; i < MW_NORM_LANES / 2; i++)
            span += lane[i] + lane[i + MW_NORM_LANES / 2];
        sum += span;
    }
    return sum;
}

static void
test_norm(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    for (int round = 0; round < 5; round++) {
        int64_t n = 2 * MW_NORM_BLOCK + mw_random_size(70000), blocks = mw_norm_blocks(n);
        g_autofree float *grad = mw_floats_random(n, 1e20);
        g_autofree double *whole = g_new0(double, blocks), *shards = g_new0(double, blocks);
        k->square_sums(whole, grad, true, n);
        g_assert_cmpfloat(fabs(mw_norm_combine(whole, blocks) / plain_squares(grad, n) - 1.0), <,
                          1e-12);
        k->square_sums(shards, grad, true, MW_NORM_BLOCK);
        k->square_sums(shards + 1, grad + MW_NORM_BLOCK, true, n - MW_NORM_BLOCK);
        g_assert_cmpmem(whole, (gsize)blocks * 8, shards, (gsize)blocks * 8);
        for (int64_t i = 0; i < blocks; i++)
            shards[i] =
                plain_block(grad + i * MW_NORM_BLOCK, MIN(MW_NORM_BLOCK, n - i * MW_NORM_BLOCK));
        g_assert_cmpmem(whole, (gsize)blocks * 8, shards, (gsize)blocks * 8);
    }
}

/* An infinite or NaN gradient anywhere shows in the sum; the largest finite one does not. */
static void
test_overflow(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    int64_t n = MW_NORM_BLOCK + 37;
    g_autofree uint16_t *grad = g_new(uint16_t, n);
    bool fp16 = mw_test_dtype == MW_DTYPE_FP16;
    uint16_t infinite = fp16 ? 0x7c00 : 0x7f80, largest = infinite - 1;
    double partial[2];
    for (int64_t i = 0; i < n; i++)
        grad[i] = largest;
    k->square_sums(partial, grad, false, n);
    g_assert_true(isfinite(mw_norm_combine(partial, 2)));
    const uint16_t bad[] = {infinite, infinite | 0x8000, 0x7fff, infinite + 1};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        int64_t at = g_test_rand_int_range(0, (gint32)n);
        grad[at] = bad[i];
        k->square_sums(partial, grad, false, n);
        g_assert_false(isfinite(mw_norm_combine(partial, 2)));
        grad[at] = largest;
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("adamw", test_adamw);
    mw_add_kernel_test("lion-sgd", test_other);
    mw_add_kernel_test("narrow", test_narrow);
    mw_add_kernel_test("sm3", test_sm3);
    mw_add_kernel_test("sm3-threads", test_sm3_threads);
    mw_add_kernel_test("adafactor", test_adafactor);
    mw_add_kernel_test("side-sums", test_side_sums);
    mw_add_kernel_test("side-sums-threads", test_side_sums_threads);
    mw_add_kernel_test("side-sums-value", test_side_sums_value);
    mw_add_kernel_test("update-squares", test_update_squares);
    mw_add_kernel_test("side-sums-ends", test_side_sums_ends);
    mw_add_kernel_test("adamw-threads", test_adamw_threads);
    mw_add_kernel_test("adamw-shards", test_adamw_shards);
    mw_add_kernel_test("adamw-formula", test_adamw_formula);
    mw_add_kernel_test("norm", test_norm);
    mw_add_kernel_test("overflow", test_overflow);
    return g_test_run();
}
