/* What measured works find in their memory: calibrate/operands.c. */
#include <math.h>
#include <string.h>

#include "calibrate/internal.h"
#include "exec/data/convert.h"

#define HOST_BYTES (1 << 20)
#define DEVICE_BYTES (3 << 20)
#define ROWS 16

static bool
copy(void *backend, void *to, const void *from, int64_t bytes, GError **error)
{
    memcpy(to, from, (size_t)bytes);
    return true;
}

static const struct mw_backend backend = {.copy = copy};
static const struct mw_calibrate_scale scale = {.loss_rows = ROWS};
static const struct mw_calibration_options options = {.dtype = MW_DTYPE_BF16};

struct memory {
    struct mw_calibrator c;
    int32_t targets[ROWS];
    float angles[2]; /* of no token: the scale has none */
};

static struct memory *
memory_new(void)
{
    struct memory *m = g_new0(struct memory, 1);

    m->c = (struct mw_calibrator){
        .backend = &backend,
        .scale = &scale,
        .options = &options,
        .targets = m->targets,
        .angles = m->angles,
        .host = {.base = g_malloc0(HOST_BYTES), .bytes = HOST_BYTES},
        .device = {.base = g_malloc0(DEVICE_BYTES), .bytes = DEVICE_BYTES},
    };
    return m;
}

static void
memory_free(struct memory *m)
{
    g_free(m->c.host.base);
    g_free(m->c.device.base);
    g_free(m);
}

/* Operands are as a training's: about half of them negative, spread evenly around 0, few of them
 * alike.  Zeros or a constant, which a GPU multiplies faster, are none. */
static void
test_operands(void)
{
    struct memory *m = memory_new();
    const uint16_t *halves = (const uint16_t *)(const void *)m->c.device.base;
    const double count = DEVICE_BYTES / 2;
    double sum = 0, squares = 0, negative = 0;

    g_assert_true(mw_calibrate_fill(&m->c, NULL));
    for (int i = 0; i < DEVICE_BYTES / 2; i++) {
        double x = (double)mw_fp32_of_half(halves[i], MW_DTYPE_BF16);
        sum += x;
        squares += x * x;
        negative += x < 0;
    }
    g_assert_cmpfloat_with_epsilon(sum / count, 0, 1e-3);
    g_assert_cmpfloat_with_epsilon(sqrt(squares / count) * 64, 1, 0.05);
    g_assert_cmpfloat_with_epsilon(negative / count, 0.5, 0.05);
    for (int i = 0; i < ROWS; i++)
        g_assert_cmpint(m->targets[i], ==, i);
    memory_free(m);
}

/* Roots of variances are taken of the host's state, and of the device's before its update. */
static void
test_state(void)
{
    struct memory *m = memory_new();
    const struct mw_arena *arenas[] = {&m->c.host, &m->c.device};

    g_assert_true(mw_calibrate_fill(&m->c, NULL) && mw_calibrate_fill_state(&m->c, NULL));
    for (size_t a = 0; a < G_N_ELEMENTS(arenas); a++) {
        const float *words = (const float *)(const void *)arenas[a]->base;
        for (int64_t i = 0; i < arenas[a]->bytes / 4; i++)
            g_assert_true(words[i] >= 0 && words[i] < 1);
    }
    memory_free(m);
}

/* A result that became an operand would make all numbers 0 or infinite after a few products. */
static void
test_results_apart(void)
{
    struct memory *m = memory_new();
    struct mw_calibrate_places at = {0};
    const int64_t bytes = 100000;
    char *base = m->c.device.base, *middle = base + DEVICE_BYTES / 2;

    for (int i = 0; i < 100; i++) {
        char *operand = mw_calibrate_operand(&m->c, &at, bytes);
        char *result = mw_calibrate_result(&m->c, &at, bytes);
        g_assert_true(operand >= base && operand + bytes <= middle);
        g_assert_true(result >= middle && result + bytes <= base + DEVICE_BYTES);
    }
    memory_free(m);
}

/* Bytes from the first element that an array ever had to the last. */
struct span {
    const char *from, *to;
};

static void
widen(struct span *span, const void *from, int64_t bytes)
{
    const char *to = (const char *)from + bytes;

    span->from = span->from && span->from < (const char *)from ? span->from : from;
    span->to = span->to > to ? span->to : to;
}

/* A word of one array that another reads, in halves, is any number: below the normal range too,
 * where a processor is many times as slow. */
static void
test_arrays_apart(void)
{
    struct memory *m = memory_new();
    const struct mw_arena *arena = &m->c.host;
    struct span spans[5] = {0};
    int64_t at = 0;

    for (int i = 0; i < 1000; i++) {
        int64_t n = g_test_rand_int_range(1, HOST_BYTES / 16 - 64);
        struct mw_calibrate_state s = mw_calibrate_state(arena, &at, n);
        widen(&spans[0], s.w, 4 * n);
        widen(&spans[1], s.m, 4 * n);
        widen(&spans[2], s.v, 4 * n);
        widen(&spans[3], s.param, 2 * n);
        widen(&spans[4], s.gradient, 2 * n);
    }
    for (int a = 0; a < 5; a++) {
        const char *before = a ? spans[a - 1].to : arena->base;
        g_assert_true(spans[a].from >= before && spans[a].to <= arena->base + HOST_BYTES);
    }
    memory_free(m);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/calibrate-operands/operands", test_operands);
    g_test_add_func("/calibrate-operands/state", test_state);
    g_test_add_func("/calibrate-operands/results-apart", test_results_apart);
    g_test_add_func("/calibrate-operands/arrays-apart", test_arrays_apart);
    return g_test_run();
}
