/* Passes over memory: the same bits from every instruction set, with odd values, ends that fill no
 * vector, addresses that no vector is aligned to, and results that go past the caches.  Which NaN
 * comes of two is the processor's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/data/convert.h"
#include "exec/device/cpu/cache.h"
#include "kernel_helpers.h"
#include "plan/decoder.h"

#define HALVES 4
#define OUTPUTS 2

/* Of one pass: what it reads, and what it writes over. */
struct arrays {
    int64_t rows, columns, n; /* n = rows * columns */
    uint16_t *in[HALVES];
    float *full_in;
    float *row_mean, *row_rstd;
    int32_t *targets;
    uint16_t *half[OUTPUTS];
    float *full[OUTPUTS + 1];
    double *wide;
};

typedef void pass_fn(const struct mw_cpu_kernels *k, const struct arrays *a);

static void
pass_widen(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->widen(a->full[0], a->in[0], a->n);
}

static void
pass_narrow(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->narrow(a->half[0], a->full_in, a->n);
}

/* Blocks are larger than so few elements have room for. */
static void
pass_mxfp8(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    if (mw_dtype_bytes(MW_DTYPE_MXFP8, a->n) > 4 * a->n)
        return;
    k->narrow_mxfp8(a->full[0], a->in[0], a->n);
    k->widen_blocks(a->half[0], a->full[0], MW_DTYPE_MXFP8, a->n);
}

static void
pass_dynamic8(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    const struct mw_dynamic8 *of = mw_dynamic8_of(a->n % 2);

    if (mw_dtype_bytes(MW_DTYPE_DYNAMIC8, a->n) > 4 * a->n)
        return;
    k->narrow_dynamic8(a->full[0], a->full_in, of, a->n);
    k->widen_dynamic8(a->full[1], a->full[0], of, a->n / 3, a->n - a->n / 3);
}

static void
pass_accumulate(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->accumulate(a->full[0], a->in[0], a->n);
}

static void
pass_add(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->add(a->half[0], a->in[0], a->in[1], a->n);
}

static void
pass_gelu(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->gelu_forward(a->half[0], a->in[0], a->n);
    k->gelu_backward(a->half[1], a->in[1], a->in[0], a->n);
}

static void
pass_gelu_erf(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->gelu_erf_forward(a->half[0], a->in[0], a->n);
    k->gelu_erf_backward(a->half[1], a->in[1], a->in[0], a->n);
}

static void
pass_relu(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->relu_forward(a->half[0], a->in[0], a->n);
    k->relu_backward(a->half[1], a->in[1], a->in[0], a->n);
}

static void
pass_swiglu(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->swiglu_forward(a->half[0], a->in[0], a->in[1], a->n);
}

static void
pass_swiglu_backward(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->swiglu_backward(a->half[0], a->half[1], a->in[0], a->in[1], a->in[2], a->n);
}

static void
pass_layernorm(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->layernorm_forward(a->half[0], a->full[0], a->full[1], a->in[0], a->in[1], a->in[2], a->rows,
                         a->columns, 1e-5f);
}

static void
pass_layernorm_backward(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->layernorm_backward(a->half[0], NULL, a->in[0], a->in[1], a->in[2], a->row_mean, a->row_rstd,
                          a->rows, a->columns);
    k->layernorm_backward(a->half[1], a->in[3], a->in[0], a->in[1], a->in[2], a->row_mean,
                          a->row_rstd, a->rows, a->columns);
}

static void
pass_rmsnorm(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->rmsnorm_forward(a->half[0], a->full[0], a->in[0], a->in[1], a->rows, a->columns, 1e-5f);
}

static void
pass_rmsnorm_backward(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->rmsnorm_backward(a->half[0], NULL, a->in[0], a->in[1], a->in[2], a->row_rstd, a->rows,
                        a->columns);
    k->rmsnorm_backward(a->half[1], a->in[3], a->in[0], a->in[1], a->in[2], a->row_rstd, a->rows,
                        a->columns);
}

static void
pass_weight_gradients(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->norm_weight_gradient((struct mw_gradient){a->full[0], true, false}, a->in[0], a->in[1],
                            a->row_mean, a->row_rstd, a->rows, a->columns, NULL);
    k->norm_weight_gradient((struct mw_gradient){a->half[0], false, true}, a->in[0], a->in[1], NULL,
                            a->row_rstd, a->rows, a->columns, NULL);
    k->bias_gradient((struct mw_gradient){a->full[1], true, true}, a->in[0], a->columns, a->rows,
                     a->columns, NULL);
}

static void
pass_embedding(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    g_autofree uint64_t *order = g_new(uint64_t, a->rows);
    int32_t count = (int32_t)(a->rows - a->rows / 3);

    k->embedding_forward(a->half[0], a->in[0], a->targets, a->rows, a->columns, 0, count);
    k->embedding_backward((struct mw_gradient){a->full[0], true, true}, a->in[1], a->targets,
                          a->rows, a->columns, 0, count, order);
    k->embedding_backward((struct mw_gradient){a->half[1], false, false}, a->in[1], a->targets,
                          a->rows, a->columns, 0, count, order);
}

static void
pass_positions(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    int64_t batch = a->rows % 2 == 0 ? 2 : 1, seq = a->rows / batch;

    k->position_forward(a->half[0], a->in[0], batch, seq, a->columns);
    k->position_backward((struct mw_gradient){a->full[0], true, true}, a->in[1], batch, seq,
                         a->columns, seq);
}

static void
pass_rope(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    int64_t dim = a->columns / 2 * 2;

    if (dim > 0)
        k->rope(a->half[0], a->full_in, 1, a->rows, 1, dim, a->columns, a->rows % 2 == 0);
}

static void
pass_cross_entropy(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    double *loss = a->wide + 2 * a->rows;

    k->cross_entropy(loss, a->wide, a->half[0], a->columns, a->in[0], false, a->columns, a->targets,
                     a->rows, a->columns - a->columns / 9, 0.25f);
    k->cross_entropy(loss, a->wide + a->rows, a->half[1], a->columns, a->full_in, true, a->columns,
                     a->targets, a->rows, a->columns - a->columns / 9, 0.25f);
}

static void
pass_slice_entropy(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    double *loss = a->wide + a->rows;
    g_autofree float *sums = g_new(float, 3 * a->rows);
    int64_t vocab = a->columns - a->columns / 9;

    memcpy(a->half[0], a->in[0], a->rows * a->columns * sizeof *a->half[0]);
    k->slice_entropy_sums(sums, a->half[0], a->columns, a->targets, a->rows, vocab, 1);
    k->slice_entropy(loss, a->wide, a->half[0], a->columns, sums, 1, a->targets, a->rows, vocab, 1,
                     0.25f);
}

/* What it points at lies in `room`. */
static struct mw_routing
routing_in(int32_t *room, int64_t tokens, int64_t experts, int64_t visits)
{
    int64_t copies = tokens * visits;

    return (struct mw_routing){.tokens = tokens,
                               .experts = experts,
                               .visits = visits,
                               .renormalizes = tokens % 2,
                               .expert = room,
                               .row = room + copies,
                               .weight = (float *)(void *)(room + 2 * copies),
                               .begin = room + 3 * copies,
                               .chosen = room + 3 * copies + experts + 1};
}

static void
pass_router(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    int64_t experts = MIN(a->columns, MW_DECODER_EXPERTS_MAX), visits = MIN(experts, 3);
    g_autofree int32_t *room = g_new(int32_t, 3 * a->rows * visits + 2 * experts + 1);
    g_autofree float *lse = g_new(float, a->rows);
    struct mw_routing routing = routing_in(room, a->rows, experts, visits);

    memcpy(a->full[0], a->full_in, (size_t)(a->rows * experts) * sizeof *a->full[0]);
    k->router_softmax(a->full[0], lse, a->rows, experts);
    k->route(&routing, a->full[0]);
    k->router_losses(&routing, a->wide + 2 * a->n, a->full[0], lse);
    k->router_backward(&routing, a->half[0], experts, a->full[0], a->full_in,
                       (struct mw_router_slopes){0.125f, 0.25f, lse});
    for (int64_t i = 0; i < a->rows * visits; i++) {
        a->full[1][i] = routing.weight[i];
        a->wide[i] = routing.row[i];
        a->wide[a->n + i] = routing.expert[i];
    }
}

/* Two copies of half as many tokens. */
static void
pass_copies(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    int64_t tokens = a->rows / 2;
    g_autofree int32_t *room = g_new(int32_t, 6 * tokens + 5);
    struct mw_routing routing = routing_in(room, tokens, 2, 2);

    k->route(&routing, a->full_in);
    k->copy_tokens(&routing, a->half[0], a->in[0], a->columns);
    k->weigh_backward(&routing, a->full[0], a->half[0], a->in[1], a->columns);
    k->weigh_copies(&routing, a->half[1], a->in[2], a->half[0], a->columns);
    k->sum_copies(&routing, a->half[1] + tokens * a->columns, a->half[0], a->columns);
}

static void
pass_adamw(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    const struct mw_update_step step = mw_adamw_step(3e-4, 0.9, 0.95, 1e-8, 0.1, 7, 1.0 / 1024);

    k->update(&step, a->full[0], a->full[1], a->full[2], a->half[0], a->in[0], false, a->n);
    k->update(&step, a->full[0], a->full[1], a->full[2], a->half[1], a->full_in, true, a->n);
}

static void
pass_square_sums(const struct mw_cpu_kernels *k, const struct arrays *a)
{
    k->square_sums(a->wide, a->in[0], false, a->n);
    k->square_sums(a->wide + a->n / MW_NORM_BLOCK + 1, a->full_in, true, a->n);
}

static const struct {
    const char *name;
    pass_fn *run;
    bool rows_of_targets; /* columns are a vocabulary, that targets are from; else rows are */
} passes[] = {
    {"widen", pass_widen, false},
    {"narrow", pass_narrow, false},
    {"mxfp8", pass_mxfp8, false},
    {"dynamic8", pass_dynamic8, false},
    {"accumulate", pass_accumulate, false},
    {"add", pass_add, false},
    {"gelu", pass_gelu, false},
    {"gelu-erf", pass_gelu_erf, false},
    {"relu", pass_relu, false},
    {"swiglu", pass_swiglu, false},
    {"swiglu-backward", pass_swiglu_backward, false},
    {"layernorm", pass_layernorm, false},
    {"layernorm-backward", pass_layernorm_backward, false},
    {"rmsnorm", pass_rmsnorm, false},
    {"rmsnorm-backward", pass_rmsnorm_backward, false},
    {"weight-gradients", pass_weight_gradients, false},
    {"embedding", pass_embedding, false},
    {"positions", pass_positions, false},
    {"rope", pass_rope, false},
    {"cross-entropy", pass_cross_entropy, true},
    {"slice-entropy", pass_slice_entropy, true},
    {"router", pass_router, false},
    {"copies", pass_copies, false},
    {"adamw", pass_adamw, false},
    {"square-sums", pass_square_sums, false},
};

/* Values of about 1, and where odd is set now and then any bits at all. */
static void
fill_halves(uint16_t *x, int64_t n, bool odd)
{
    for (int64_t i = 0; i < n; i++) {
        float value = (float)g_test_rand_double_range(-6.0, 6.0);
        x[i] = odd && g_test_rand_int_range(0, 50) == 0 ? (uint16_t)g_test_rand_int()
                                                        : mw_half_of_fp32(value, mw_test_dtype);
    }
}

static float *
some_floats(int64_t n, double low, double high, bool odd)
{
    float *x = g_new(float, n);

    for (int64_t i = 0; i < n; i++)
        x[i] = odd && g_test_rand_int_range(0, 50) == 0
                   ? mw_fp32_of_bits((uint32_t)g_test_rand_int())
                   : (float)g_test_rand_double_range(low, high);
    return x;
}

/* Aligned as results are that may go past the caches; of exactly so many bytes. */
static void *
copy_aligned(const void *from, size_t bytes)
{
    void *copy = NULL;

    g_assert_cmpint(posix_memalign(&copy, 64, bytes), ==, 0);
    return memcpy(copy, from, bytes);
}

static struct arrays
arrays_random(int64_t rows, int64_t columns, bool rows_of_targets, bool odd)
{
    struct arrays a = {.rows = rows, .columns = columns, .n = rows * columns};

    for (int i = 0; i < HALVES; i++) {
        a.in[i] = g_new(uint16_t, a.n);
        fill_halves(a.in[i], a.n, odd);
    }
    a.full_in = some_floats(a.n, -9.0, 9.0, odd);
    a.row_mean = some_floats(rows, -1.0, 1.0, false);
    a.row_rstd = some_floats(rows, 0.1, 2.0, false);
    a.targets = g_new(int32_t, rows);
    int64_t most = rows_of_targets ? columns - columns / 9 : rows;
    for (int64_t r = 0; r < rows; r++)
        a.targets[r] = g_test_rand_int_range(0, (int)most);
    for (int i = 0; i < OUTPUTS; i++) {
        a.half[i] = g_new(uint16_t, a.n);
        fill_halves(a.half[i], a.n, odd);
    }
    for (int i = 0; i <= OUTPUTS; i++)
        a.full[i] = some_floats(a.n, 0.0, 1.0, false);
    a.wide = g_new0(double, 2 * (a.n + 2));
    return a;
}

/* With outputs of its own, whose first content is the same, and shares the rest. */
static struct arrays
arrays_twin(const struct arrays *a)
{
    struct arrays twin = *a;

    for (int i = 0; i < OUTPUTS; i++)
        twin.half[i] = copy_aligned(a->half[i], (size_t)a->n * sizeof *a->half[i]);
    for (int i = 0; i <= OUTPUTS; i++)
        twin.full[i] = copy_aligned(a->full[i], (size_t)a->n * sizeof *a->full[i]);
    twin.wide = g_memdup2(a->wide, 2 * (gsize)(a->n + 2) * sizeof *a->wide);
    return twin;
}

static void
clear_outputs(struct arrays *a)
{
    for (int i = 0; i < OUTPUTS; i++)
        g_free(a->half[i]);
    for (int i = 0; i <= OUTPUTS; i++)
        g_free(a->full[i]);
    g_free(a->wide);
}

static void
arrays_clear(struct arrays *a)
{
    clear_outputs(a);
    for (int i = 0; i < HALVES; i++)
        g_free(a->in[i]);
    g_free(a->full_in);
    g_free(a->row_mean);
    g_free(a->row_rstd);
    g_free(a->targets);
}

static bool
same_half(uint16_t a, uint16_t b)
{
    return a == b || (isnan(mw_half_value(a)) && isnan(mw_half_value(b)));
}

static bool
same_value(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void
expect_same(const char *pass, const struct arrays *a, const struct arrays *b)
{
    bool same = true;

    for (int64_t i = 0; i < a->n; i++) {
        for (int j = 0; j < OUTPUTS; j++)
            same = same && same_half(a->half[j][i], b->half[j][i]);
        for (int j = 0; j <= OUTPUTS; j++)
            same = same && same_value((double)a->full[j][i], (double)b->full[j][i]);
        if (!same)
            g_error("%s of %d x %d: element %d differs from the generic table's", pass,
                    (int)a->rows, (int)a->columns, (int)i);
    }
    for (int64_t i = 0; i < 2 * (a->n + 2); i++)
        if (!same_value(a->wide[i], b->wide[i]))
            g_error("%s of %d x %d: sum %d differs from the generic table's", pass, (int)a->rows,
                    (int)a->columns, (int)i);
}

/* The twin's results are aligned, those of the other table are not; each table is held against the
 * generic one, whose results stay in the caches. */
static void
check_pass(const struct mw_cpu_kernels *k, int pass, int64_t rows, int64_t columns, bool odd)
{
    struct arrays a = arrays_random(rows, columns, passes[pass].rows_of_targets, odd);
    struct arrays twin = arrays_twin(&a), streamed = arrays_twin(&a);

    passes[pass].run(mw_cpu_kernels_of(MW_CPU_ISA_GENERIC, k->dtype), &twin);
    mw_cpu_last_cache_assume(1);
    passes[pass].run(k, &streamed);
    mw_cpu_last_cache_assume(0);
    expect_same(passes[pass].name, &streamed, &twin);
    passes[pass].run(k, &a);
    expect_same(passes[pass].name, &a, &twin);
    clear_outputs(&twin);
    clear_outputs(&streamed);
    arrays_clear(&a);
}

static void
test_agree(gconstpointer data)
{
    const int64_t columns[] = {1, 7, 15, 16, 17, 31, 32, 48, 63, 64, 100, 130, 300, 5000};

    for (int pass = 0; pass < (int)G_N_ELEMENTS(passes); pass++) {
        for (int i = 0; i < (int)G_N_ELEMENTS(columns); i++)
            check_pass(data, pass, 1 + g_test_rand_int_range(0, 8), columns[i], i % 2 == 0);
        check_pass(data, pass, 400, 70, false);
        check_pass(data, pass, 6, 768, false);
    }
}

/* --- draws ------------------------------------------------------------------------------------ */

#define DRAWERS 6000
#define DRAWN 5 /* experts */

static int64_t
count_second(const struct mw_routing *routing)
{
    int64_t count = 0;

    for (int64_t t = 0; t < routing->tokens; t++)
        count += routing->row[2 * t + 1] >= 0;
    return count;
}

/* Second experts come as often as twice their weights say, the same ones of one number again and
 * others of another; first ones always do, and alone are counted. */
static void
test_draws(gconstpointer data)
{
    const struct mw_cpu_kernels *k = data;
    g_autofree float *probabilities = some_floats(DRAWERS * DRAWN, -3.0, 3.0, false);
    g_autofree int32_t *room = g_new(int32_t, 6 * DRAWERS + 2 * DRAWN + 1);
    g_autofree int32_t *rows = g_new(int32_t, 2 * DRAWERS);
    struct mw_routing routing = routing_in(room, DRAWERS, DRAWN, 2);
    double expected = 0, variance = 0;
    int64_t first = 0;

    routing.renormalizes = routing.draws = true;
    k->router_softmax(probabilities, NULL, DRAWERS, DRAWN);
    for (uint64_t draw = 1; draw <= 2; draw++) {
        bool same = draw > 1;
        routing.draw = draw << 40;
        k->route(&routing, probabilities);
        for (int64_t t = 0; t < DRAWERS && draw == 1; t++) {
            double chance = 2 * (double)routing.weight[2 * t + 1];
            expected += chance;
            variance += chance * (1 - chance);
        }
        for (int64_t t = 0; t < DRAWERS; t++) {
            g_assert_cmpint(routing.row[2 * t], >=, 0);
            same = same && (rows[2 * t + 1] < 0) == (routing.row[2 * t + 1] < 0);
        }
        g_assert_false(same);
        g_assert_cmpfloat(fabs((double)count_second(&routing) - expected), <, 5 * sqrt(variance));
        memcpy(rows, routing.row, 2 * DRAWERS * sizeof *rows);
        k->route(&routing, probabilities);
        g_assert_cmpmem(rows, 2 * DRAWERS * sizeof *rows, routing.row, 2 * DRAWERS * sizeof *rows);
    }
    for (int64_t e = 0; e < DRAWN; e++)
        first += routing.chosen[e];
    g_assert_cmpint(first, ==, DRAWERS);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("agree", test_agree);
    mw_add_kernel_test("draws", test_draws);
    return g_test_run();
}
