/* Plain loops over doubles. */
#include "kernel_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double
gelu_tanh(double x)
{
    return tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x));
}

double
mw_ref_activate(enum mw_ref_activation kind, double x)
{
    switch (kind) {
    case MW_REF_GELU:
        return 0.5 * x * (1.0 + gelu_tanh(x));
    case MW_REF_GELU_ERF:
        return 0.5 * x * (1.0 + erf(x * M_SQRT1_2));
    default:
        return x > 0.0 ? x : 0.0;
    }
}

double
mw_ref_activation_slope(enum mw_ref_activation kind, double x)
{
    double t = gelu_tanh(x);
    switch (kind) {
    case MW_REF_GELU:
        return 0.5 * (1.0 + t) +
               0.5 * x * (1.0 - t * t) * sqrt(2.0 / M_PI) * (1.0 + 3.0 * 0.044715 * x * x);
    case MW_REF_GELU_ERF:
        return 0.5 * (1.0 + erf(x * M_SQRT1_2)) + x * exp(-0.5 * x * x) / sqrt(2.0 * M_PI);
    default:
        return x > 0.0 ? 1.0 : 0.0;
    }
}

double
mw_ref_swiglu(double gate, double up)
{
    return gate / (1.0 + exp(-gate)) * up;
}

void
mw_ref_swiglu_slopes(double *dgate, double *dup, double dy, double gate, double up)
{
    double s = 1.0 / (1.0 + exp(-gate));
    *dup = dy * gate * s;
    *dgate = dy * up * s * (1.0 + gate * (1.0 - s));
}

static void
row_moments(double *mean, double *rstd, const double *x, int64_t columns, bool centred, double eps)
{
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < columns && centred; i++)
        sum += x[i];
    *mean = sum / (double)columns;
    for (int64_t i = 0; i < columns; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *rstd = 1.0 / sqrt(squares / (double)columns + eps);
}

void
mw_ref_norm(double *y, const double *x, const double *weight, const double *bias, int64_t rows,
            int64_t columns, double eps)
{
    for (int64_t r = 0; r < rows; r++) {
        double mean, rstd;
        row_moments(&mean, &rstd, x + r * columns, columns, bias != NULL, eps);
        for (int64_t i = 0; i < columns; i++)
            y[r * columns + i] =
                (x[r * columns + i] - mean) * rstd * weight[i] + (bias != NULL ? bias[i] : 0.0);
    }
}

static void
norm_row_backward(double *dx, double *dweight, double *dbias, const double *dy, const double *x,
                  const double *weight, int64_t columns, double eps)
{
    double mean, rstd, sum_g = 0.0, sum_gn = 0.0;
    row_moments(&mean, &rstd, x, columns, dbias != NULL, eps);
    for (int64_t i = 0; i < columns; i++) {
        double normal = (x[i] - mean) * rstd;
        dweight[i] += dy[i] * normal;
        if (dbias != NULL)
            dbias[i] += dy[i];
        sum_g += dbias != NULL ? dy[i] * weight[i] : 0.0;
        sum_gn += dy[i] * weight[i] * normal;
    }
    for (int64_t i = 0; i < columns; i++)
        dx[i] = rstd * (dy[i] * weight[i] - sum_g / (double)columns -
                        (x[i] - mean) * rstd * sum_gn / (double)columns);
}

void
mw_ref_norm_backward(double *dx, double *dweight, double *dbias, const double *dy, const double *x,
                     const double *weight, int64_t rows, int64_t columns, double eps)
{
    memset(dweight, 0, (size_t)columns * sizeof *dweight);
    if (dbias != NULL)
        memset(dbias, 0, (size_t)columns * sizeof *dbias);
    for (int64_t r = 0; r < rows; r++)
        norm_row_backward(dx + r * columns, dweight, dbias, dy + r * columns, x + r * columns,
                          weight, columns, eps);
}

static void
turn_head(double *head, int64_t position, int64_t head_dim, double theta, double sign)
{
    int64_t half = head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        double angle = sign * (double)position * pow(theta, -2.0 * (double)i / (double)head_dim);
        double a = head[i], b = head[half + i];
        head[i] = a * cos(angle) - b * sin(angle);
        head[half + i] = b * cos(angle) + a * sin(angle);
    }
}

void
mw_ref_rope(double *x, int64_t batch, int64_t seq, int64_t heads, int64_t head_dim, double theta,
            bool inverse)
{
    for (int64_t r = 0; r < batch * seq; r++)
        for (int64_t h = 0; h < heads; h++)
            turn_head(x + (r * heads + h) * head_dim, r % seq, head_dim, theta,
                      inverse ? -1.0 : 1.0);
}

/* Offset of one head's row. */
static int64_t
row_of(const struct mw_ref_attention *s, int64_t b, int64_t token, int64_t heads, int64_t h)
{
    return ((b * s->seq + token) * heads + h) * s->head_dim;
}

static double
dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Probabilities of keys 0 to `token`; returns the log-sum-exp. */
static double
weigh(const struct mw_ref_attention *s, double *p, const double *q, const double *k, int64_t b,
      int64_t token, int64_t h)
{
    int64_t g = h / (s->heads / s->kv_heads);
    double max = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j <= token; j++) {
        p[j] = s->scale * dot(q + row_of(s, b, token, s->heads, h),
                              k + row_of(s, b, j, s->kv_heads, g), s->head_dim);
        max = fmax(max, p[j]);
    }
    for (int64_t j = 0; j <= token; j++)
        sum += exp(p[j] - max);
    for (int64_t j = 0; j <= token; j++)
        p[j] = exp(p[j] - max) / sum;
    return max + log(sum);
}

static void
attend(const struct mw_ref_attention *s, double *o, const double *p, const double *v, int64_t b,
       int64_t token, int64_t h)
{
    int64_t g = h / (s->heads / s->kv_heads);
    for (int64_t i = 0; i < s->head_dim; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j <= token; j++)
            sum += p[j] * v[row_of(s, b, j, s->kv_heads, g) + i];
        o[row_of(s, b, token, s->heads, h) + i] = sum;
    }
}

void
mw_ref_attention(const struct mw_ref_attention *s, double *o, double *lse, const double *q,
                 const double *k, const double *v)
{
    double *p = malloc((size_t)s->seq * sizeof *p);
    for (int64_t b = 0; b < s->batch; b++) {
        for (int64_t h = 0; h < s->heads; h++) {
            for (int64_t t = 0; t < s->seq; t++) {
                lse[(b * s->heads + h) * s->seq + t] = weigh(s, p, q, k, b, t, h);
                attend(s, o, p, v, b, t, h);
            }
        }
    }
    free(p);
}

struct row_gradients {
    double *dq, *dk, *dv;
    const double *d_o, *o, *q, *k, *v;
    bool magnitudes; /* sums of |terms| */
    double *p, *dp;
};

static double
term(const struct row_gradients *x, double a, double b)
{
    return x->magnitudes ? fabs(a * b) : a * b;
}

static void
row_backward(const struct mw_ref_attention *s, const struct row_gradients *x, int64_t b,
             int64_t token, int64_t h)
{
    int64_t g = h / (s->heads / s->kv_heads), at = row_of(s, b, token, s->heads, h);
    double mean = 0.0;
    weigh(s, x->p, x->q, x->k, b, token, h);
    for (int64_t j = 0; j <= token; j++) {
        x->dp[j] = dot(x->d_o + at, x->v + row_of(s, b, j, s->kv_heads, g), s->head_dim);
        mean += x->p[j] * x->dp[j];
    }
    if (x->o != NULL)
        mean = dot(x->d_o + at, x->o + at, s->head_dim);
    for (int64_t j = 0; j <= token; j++) {
        int64_t key = row_of(s, b, j, s->kv_heads, g);
        double ds = x->p[j] * (x->dp[j] - mean) * s->scale;
        for (int64_t i = 0; i < s->head_dim; i++) {
            x->dq[at + i] += term(x, ds, x->k[key + i]);
            x->dk[key + i] += term(x, ds, x->q[at + i]);
            x->dv[key + i] += term(x, x->p[j], x->d_o[at + i]);
        }
    }
}

static void
all_rows_backward(const struct mw_ref_attention *s, struct row_gradients x)
{
    size_t q_bytes = (size_t)(s->batch * s->seq * s->heads * s->head_dim) * sizeof *x.q;
    size_t kv_bytes = (size_t)(s->batch * s->seq * s->kv_heads * s->head_dim) * sizeof *x.k;
    x.p = malloc((size_t)s->seq * sizeof *x.p);
    x.dp = malloc((size_t)s->seq * sizeof *x.dp);
    memset(x.dq, 0, q_bytes);
    memset(x.dk, 0, kv_bytes);
    memset(x.dv, 0, kv_bytes);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++)
            for (int64_t t = 0; t < s->seq; t++)
                row_backward(s, &x, b, t, h);
    free(x.p);
    free(x.dp);
}

void
mw_ref_attention_backward(const struct mw_ref_attention *s, double *dq, double *dk, double *dv,
                          const double *d_o, const double *o, const double *q, const double *k,
                          const double *v)
{
    all_rows_backward(s, (struct row_gradients){dq, dk, dv, d_o, o, q, k, v, false, NULL, NULL});
}

void
mw_ref_attention_backward_magnitudes(const struct mw_ref_attention *s, double *dq, double *dk,
                                     double *dv, const double *d_o, const double *o,
                                     const double *q, const double *k, const double *v)
{
    all_rows_backward(s, (struct row_gradients){dq, dk, dv, d_o, o, q, k, v, true, NULL, NULL});
}

static double
row_entropy(double *d, const double *x, int32_t target, int64_t vocab, double scale)
{
    double max = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < vocab; i++)
        max = fmax(max, x[i]);
    for (int64_t i = 0; i < vocab; i++)
        sum += exp(x[i] - max);
    for (int64_t i = 0; i < vocab && d != NULL; i++)
        d[i] = scale * (exp(x[i] - max) / sum - (i == target ? 1.0 : 0.0));
    return max + log(sum) - x[target];
}

double
mw_ref_cross_entropy(double *dlogits, const double *logits, const int32_t *targets, int64_t rows,
                     int64_t vocab, double scale)
{
    double total = 0.0;
    for (int64_t r = 0; r < rows; r++) {
        double *d = dlogits != NULL ? dlogits + r * vocab : NULL;
        if (targets[r] >= 0)
            total += row_entropy(d, logits + r * vocab, targets[r], vocab, scale);
        else if (d != NULL)
            memset(d, 0, (size_t)vocab * sizeof *d);
    }
    return total;
}
