/* The references' backward passes by finite differences in fp64 of their forward passes. */
#include <math.h>
#include <string.h>

#include "kernel_helpers.h"
#include "kernel_reference.h"

/* A scalar function of an array, that reads whatever else it needs through data. */
typedef double scalar_fn(const void *data);

/* gradient[i] against the central difference over x[i], for every i: an error of about h^2. */
static void
check_gradient(const char *what, scalar_fn *f, const void *data, double *x, const double *gradient,
               int64_t n)
{
    const double h = 1e-5;
    for (int64_t i = 0; i < n; i++) {
        double kept = x[i];
        x[i] = kept + h;
        double above = f(data);
        x[i] = kept - h;
        double below = f(data);
        x[i] = kept;
        double slope = (above - below) / (2.0 * h);
        if (!(fabs(slope - gradient[i]) <= 1e-7 * (1.0 + fabs(slope))))
            g_error("%s[%d]: %.10g by differences, %.10g by the backward pass", what, (int)i, slope,
                    gradient[i]);
    }
}

static double *
random_doubles(int64_t n)
{
    double *x = g_new(double, n);
    for (int64_t i = 0; i < n; i++)
        x[i] = g_test_rand_double_range(-2.0, 2.0);
    return x;
}

static double
weighted(const double *y, const double *dy, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += y[i] * dy[i];
    return sum;
}

struct activation {
    enum mw_ref_activation kind;
    double x;
};

static double
activation_value(const void *data)
{
    const struct activation *a = data;
    return mw_ref_activate(a->kind, a->x);
}

static void
test_activation(void)
{
    for (int kind = MW_REF_GELU; kind <= MW_REF_RELU; kind++) {
        for (double x = -4.03; x < 4.0; x += 0.1) {
            struct activation a = {(enum mw_ref_activation)kind, x};
            double slope = mw_ref_activation_slope(a.kind, x);
            check_gradient("activation", activation_value, &a, &a.x, &slope, 1);
        }
    }
}

static double
swiglu_value(const void *data)
{
    const double *x = data;
    return 1.7 * mw_ref_swiglu(x[0], x[1]);
}

static void
test_swiglu(void)
{
    for (int round = 0; round < 50; round++) {
        g_autofree double *x = random_doubles(2);
        double slopes[2];
        mw_ref_swiglu_slopes(&slopes[0], &slopes[1], 1.7, x[0], x[1]);
        check_gradient("swiglu", swiglu_value, x, x, slopes, 2);
    }
}

struct norm {
    double *x, *weight, *bias, *dy, *y;
    int64_t rows, columns;
};

static double
norm_value(const void *data)
{
    const struct norm *n = data;
    mw_ref_norm(n->y, n->x, n->weight, n->bias, n->rows, n->columns, 1e-5);
    return weighted(n->y, n->dy, n->rows * n->columns);
}

static void
check_norm(bool centred)
{
    int64_t rows = 3, columns = 7, all = rows * columns;
    g_autofree double *x = random_doubles(all), *dy = random_doubles(all), *y = g_new(double, all);
    g_autofree double *weight = random_doubles(columns), *bias = random_doubles(columns);
    g_autofree double *dx = g_new(double, all), *dweight = g_new(double, columns);
    g_autofree double *dbias = g_new(double, columns);
    struct norm n = {x, weight, centred ? bias : NULL, dy, y, rows, columns};
    mw_ref_norm_backward(dx, dweight, centred ? dbias : NULL, dy, x, weight, rows, columns, 1e-5);
    check_gradient("dx", norm_value, &n, x, dx, all);
    check_gradient("dweight", norm_value, &n, weight, dweight, columns);
    if (centred)
        check_gradient("dbias", norm_value, &n, bias, dbias, columns);
}

static void
test_norm(void)
{
    for (int round = 0; round < 10; round++)
        check_norm(round % 2 == 0);
}

struct attention {
    struct mw_ref_attention shape;
    double *q, *k, *v, *d_o, *o, *lse;
};

static double
attention_value(const void *data)
{
    const struct attention *a = data;
    mw_ref_attention(&a->shape, a->o, a->lse, a->q, a->k, a->v);
    return weighted(a->o, a->d_o,
                    a->shape.batch * a->shape.seq * a->shape.heads * a->shape.head_dim);
}

static void
test_attention(void)
{
    const struct mw_ref_attention shape = {2, 5, 4, 2, 6, 0.4};
    int64_t q_n = 2 * 5 * 4 * 6, kv_n = 2 * 5 * 2 * 6;
    g_autofree double *q = random_doubles(q_n), *k = random_doubles(kv_n);
    g_autofree double *v = random_doubles(kv_n), *d_o = random_doubles(q_n);
    g_autofree double *o = g_new(double, q_n), *lse = g_new(double, 2 * 4 * 5);
    g_autofree double *dq = g_new(double, q_n), *dk = g_new(double, kv_n);
    g_autofree double *dv = g_new(double, kv_n);
    struct attention a = {shape, q, k, v, d_o, o, lse};
    mw_ref_attention_backward(&shape, dq, dk, dv, d_o, NULL, q, k, v);
    check_gradient("dq", attention_value, &a, q, dq, q_n);
    check_gradient("dk", attention_value, &a, k, dk, kv_n);
    check_gradient("dv", attention_value, &a, v, dv, kv_n);
}

struct rope {
    double *x, *dy, *y;
};

static double
rope_value(const void *data)
{
    const struct rope *r = data;
    memcpy(r->y, r->x, 2 * 4 * 3 * 8 * sizeof *r->y);
    mw_ref_rope(r->y, 2, 4, 3, 8, 100.0, false);
    return weighted(r->y, r->dy, 2 * 4 * 3 * 8);
}

static void
test_rope(void)
{
    int64_t n = 2 * 4 * 3 * 8;
    g_autofree double *x = random_doubles(n), *dy = random_doubles(n), *y = g_new(double, n);
    g_autofree double *dx = g_memdup2(dy, (gsize)n * sizeof *dy);
    struct rope r = {x, dy, y};
    mw_ref_rope(dx, 2, 4, 3, 8, 100.0, true);
    check_gradient("dx", rope_value, &r, x, dx, n);
}

struct loss {
    double *logits;
    int32_t targets[4];
};

static double
loss_value(const void *data)
{
    const struct loss *l = data;
    return 3.0 * mw_ref_cross_entropy(NULL, l->logits, l->targets, 4, 9, 3.0);
}

static void
test_loss(void)
{
    g_autofree double *logits = random_doubles(4 * 9), *d = g_new(double, 4 * 9);
    struct loss l = {logits, {0, 8, -1, 4}};
    mw_ref_cross_entropy(d, logits, l.targets, 4, 9, 3.0);
    check_gradient("dlogits", loss_value, &l, logits, d, 4 * 9);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/reference/activation", test_activation);
    g_test_add_func("/reference/swiglu", test_swiglu);
    g_test_add_func("/reference/norm", test_norm);
    g_test_add_func("/reference/attention", test_attention);
    g_test_add_func("/reference/rope", test_rope);
    g_test_add_func("/reference/loss", test_loss);
    return g_test_run();
}
