/* Rows so far apart that elements lie beyond 2^31 and bytes beyond 2^32: kernels make the same bits
 * of them as of rows side by side.  What lies between the rows is not touched. */
#include <string.h>

#include "exec/device/cuda/kernels.h"
#include "tests/cuda/device_memory.h"
#include "tests/kernel_helpers.h"

#define FAR ((INT64_C(1) << 31) + 64) /* elements from row to row */
#define ROWS 2
#define WIDTH 576 /* elements of a row that are there; a multiple of 64 */

static const struct mw_cuda_launches *const launches = &mw_cuda_launches_bf16;

/* Two rows on the device. */
struct rows {
    uint16_t *at;
    int64_t ld;
};

static void
write_rows(const struct rows *rows, const uint16_t *from)
{
    for (int64_t r = 0; r < ROWS; r++)
        mw_test_device_write(rows->at + r * rows->ld, from + r * WIDTH, 2 * WIDTH);
}

static void
read_rows(uint16_t *to, const struct rows *rows)
{
    for (int64_t r = 0; r < ROWS; r++)
        mw_test_device_read(to + r * WIDTH, rows->at + r * rows->ld, 2 * WIDTH);
}

/* --- what is done with them; each has its results in these rows ------------------------------- */

static void
copy_rows(const struct rows *x)
{
    g_assert_cmpint(mw_cuda_copy_rows(NULL, x->at + 64, x->at, ROWS, 24, x->ld), ==, 0);
}

static void
sum_rows(const struct rows *x)
{
    struct mw_gradient sums = {x->at + 512, false, false};
    void *scratch = mw_test_device_alloc(launches->row_sums_scratch_bytes(ROWS, 24));

    g_assert_cmpint(launches->bias_gradient(NULL, sums, x->at, x->ld, ROWS, 24, scratch), ==, 0);
    mw_test_device_free(scratch);
}

static void
rotate(const struct rows *x)
{
    const float *table = (const float *)(const void *)(x->at + 256);

    g_assert_cmpint(launches->rope(NULL, x->at, table, 1, ROWS, 1, 32, x->ld, false), ==, 0);
}

static int32_t *
new_tokens(int32_t first, int64_t second)
{
    int32_t tokens[ROWS] = {first, (int32_t)second}, *at = mw_test_device_alloc(sizeof tokens);

    mw_test_device_write(at, tokens, sizeof tokens);
    return at;
}

/* Gradients lie side by side: what is behind a row of theirs becomes 0. */
static void
lose(const struct rows *x)
{
    int32_t *targets = new_tokens(7, 39);
    double *loss = (double *)(void *)(x->at + 512);

    g_assert_cmpint(launches->cross_entropy(NULL, loss, loss + 1, x->at + 64, 40, x->at, false,
                                            x->ld, targets, ROWS, 40, 0.5f),
                    ==, 0);
    mw_test_device_free(targets);
}

/* The rows as the first and the last of a table. */
static void
embed(const struct rows *x)
{
    const int64_t columns = 64, last = x->ld / columns;
    struct mw_gradient table = {x->at, false, true};
    int32_t *tokens = new_tokens((int32_t)last, 0);
    void *scratch = mw_test_device_alloc(launches->embedding_scratch_bytes(ROWS));

    g_assert_cmpint(launches->embedding_forward(NULL, x->at + 128, x->at, tokens, ROWS, columns, 0,
                                                (int32_t)last + 1),
                    ==, 0);
    g_assert_cmpint(launches->embedding_backward(NULL, table, x->at + 256, tokens, ROWS, columns, 0,
                                                 (int32_t)last + 1, scratch),
                    ==, 0);
    mw_test_device_free(scratch);
    mw_test_device_free(tokens);
}

static void
attend(const struct rows *x, int64_t batch)
{
    const struct mw_attention shape = {.batch = batch,
                                       .seq = ROWS / batch,
                                       .heads = 1,
                                       .kv_heads = 1,
                                       .head_dim = 64,
                                       .ld_q = x->ld,
                                       .ld_k = x->ld,
                                       .ld_v = x->ld,
                                       .ld_o = x->ld,
                                       .scale = 0.125f};
    uint16_t *q = x->at, *k = q + 64, *v = q + 128, *o = q + 192;
    float *lse = (float *)(void *)(q + 512);
    void *scratch = mw_test_device_alloc(launches->attention_scratch_bytes(&shape));

    g_assert_cmpint(launches->attention_forward(NULL, &shape, o, lse, q, k, v, NULL), ==, 0);
    g_assert_cmpint(launches->attention_backward(NULL, &shape, q + 320, q + 384, q + 448, q + 256,
                                                 o, lse, q, k, v, scratch),
                    ==, 0);
    mw_test_device_free(scratch);
}

static void
attend_rows(const struct rows *x)
{
    attend(x, 1);
}

static void
attend_sequences(const struct rows *x)
{
    attend(x, ROWS);
}

/* --- near and far ----------------------------------------------------------------------------- */

static void
check(void (*run)(const struct rows *rows), struct rows *rows, const uint16_t *before, int64_t odd)
{
    uint16_t near[ROWS * WIDTH], far[ROWS * WIDTH];

    rows->ld = WIDTH + odd;
    write_rows(rows, before);
    run(rows);
    read_rows(near, rows);
    rows->ld = FAR + odd;
    write_rows(rows, before);
    run(rows);
    read_rows(far, rows);
    g_assert_cmpmem(near, sizeof near, far, sizeof far);
    if (memcmp(near, before, sizeof near) == 0)
        g_error("nothing was done");
}

static void
test_far(gconstpointer data)
{
    const int64_t bytes = 2 * (FAR + 1 + WIDTH);
    struct rows rows = {mw_test_device_reserve(bytes), 0};
    struct mw_tensor before = mw_tensor_random(ROWS * WIDTH, 1.0);

    if (!rows.at) {
        g_test_skip("the device has no 4.3 GB left");
    } else {
        check(copy_rows, &rows, before.bits, 0);
        check(copy_rows, &rows, before.bits, 1);
        check(sum_rows, &rows, before.bits, 0);
        check(sum_rows, &rows, before.bits, 1);
        check(rotate, &rows, before.bits, 0);
        check(rotate, &rows, before.bits, 1);
        check(lose, &rows, before.bits, 0);
        check(lose, &rows, before.bits, 1);
        check(embed, &rows, before.bits, 0);
        check(attend_rows, &rows, before.bits, 0);
        check(attend_rows, &rows, before.bits, 1);
        check(attend_sequences, &rows, before.bits, 0);
        mw_test_device_release(rows.at, bytes);
    }
    mw_tensor_clear(&before);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    mw_add_kernel_test("far", test_far);
    return g_test_run();
}
