/* Token and position embeddings, and rotary positions. */
#include "exec/device/cpu/gradient.h"
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/pairs.h"

void
MW_CPU(embedding_forward)(mw_element *y, const mw_element *weight, const int32_t *tokens,
                          int64_t rows, int64_t columns, int32_t first, int32_t count)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        int64_t id = (int64_t)tokens[r] - first;
        if (id >= 0 && id < count)
            memcpy(y + r * columns, weight + id * columns, (size_t)columns * sizeof *y);
    }
}

/* Heap sort, in place.  All keys differ, so only one order is possible. */
static void
sift(uint64_t *key, int64_t at, int64_t n)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && key[child + 1] > key[child])
            child++;
        if (key[at] >= key[child])
            return;
        uint64_t swapped = key[at];
        key[at] = key[child];
        key[child] = swapped;
    }
}

static void
sort(uint64_t *key, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;)
        sift(key, i, n);
    for (int64_t end = n - 1; end > 0; end--) {
        uint64_t largest = key[0];
        key[0] = key[end];
        key[end] = largest;
        sift(key, 0, end);
    }
}

/* Writes keys (row of the table, token's index) of the tokens that are in the table; returns how
 * many. */
static int64_t
order_tokens(uint64_t *order, const int32_t *tokens, int64_t rows, int32_t first, int32_t count)
{
    int64_t n = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t id = (int64_t)tokens[r] - first;
        if (id >= 0 && id < count)
            order[n++] = (uint64_t)id << 32 | (uint64_t)r;
    }
    sort(order, n);
    return n;
}

/* n elements of a row of dy: sixteen, or the last ones. */
MW_INLINE struct mw_lanes
row_lanes(const mw_element *row, int64_t n)
{
    return n == MW_LANES ? mw_lanes_load_half(row) : mw_lanes_load_half_some(row, n);
}

/* Adds up n rows of dy, whose numbers are in the lower halves of the keys, in their order. */
MW_INLINE struct mw_lanes
sum_tokens(const mw_element *dy, int64_t columns, const uint64_t *order, int64_t n, int64_t lanes)
{
    struct mw_lanes sum = mw_lanes_splat(0.0f);
    for (int64_t i = 0; i < n; i++)
        sum = mw_lanes_add(sum, row_lanes(dy + (int64_t)(order[i] & UINT32_MAX) * columns, lanes));
    return sum;
}

/* The gradient of one token: n keys of the same id. */
static void
put_token(struct mw_gradient dweight, const mw_element *dy, int64_t columns, const uint64_t *order,
          int64_t n)
{
    int64_t at = (int64_t)(order[0] >> 32) * columns, c = 0;
    for (; c + MW_LANES <= columns; c += MW_LANES)
        mw_gradient_put(dweight, at + c, sum_tokens(dy + c, columns, order, n, MW_LANES), MW_LANES);
    if (c < columns)
        mw_gradient_put(dweight, at + c, sum_tokens(dy + c, columns, order, n, columns - c),
                        columns - c);
}

static void
clear(struct mw_gradient g, int64_t first, int64_t n)
{
    size_t element_bytes = g.fp32 ? sizeof(float) : sizeof(mw_element);
    memset((char *)g.data + (size_t)first * element_bytes, 0, (size_t)n * element_bytes);
}

/* The order of the tokens. */
int64_t
MW_CPU(embedding_scratch_bytes)(int64_t rows, int threads)
{
    (void)threads;
    return rows * (int64_t)sizeof(uint64_t);
}

void
MW_CPU(embedding_backward)(struct mw_gradient dweight, const mw_element *dy, const int32_t *tokens,
                           int64_t rows, int64_t columns, int32_t first, int32_t count,
                           void *scratch)
{
    uint64_t *order = scratch;
    if (!dweight.accumulate) {
#pragma omp parallel for schedule(static)
        for (int64_t id = 0; id < count; id++)
            clear(dweight, id * columns, columns);
    }
    int64_t n = order_tokens(order, tokens, rows, first, count);
#pragma omp parallel for schedule(dynamic, 16)
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && order[i - 1] >> 32 == order[i] >> 32)
            continue;
        int64_t end = i + 1;
        while (end < n && order[end] >> 32 == order[i] >> 32)
            end++;
        put_token(dweight, dy, columns, order + i, end - i);
    }
}

void
MW_CPU(position_forward)(mw_element *y, const mw_element *weight, int64_t batch, int64_t seq,
                         int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < batch * seq; r++) {
        mw_element *row = y + r * columns;
        const mw_element *position = weight + r % seq * columns;
        int64_t c = 0, n = columns % MW_LANES;
        for (; c + MW_LANES <= columns; c += MW_LANES)
            mw_lanes_store_pairs(row + c, mw_lanes_add(mw_lanes_load_pairs(row + c),
                                                       mw_lanes_load_pairs(position + c)));
        if (n > 0)
            mw_lanes_store_pairs_some(row + c,
                                      mw_lanes_add(mw_lanes_load_pairs_some(row + c, n),
                                                   mw_lanes_load_pairs_some(position + c, n)),
                                      n);
    }
}

/* The sum of a position over the sequences, in their order. */
MW_INLINE struct mw_lanes
sum_sequences(const mw_element *dy, int64_t batch, int64_t ld, int64_t lanes)
{
    struct mw_lanes sum = mw_lanes_splat(0.0f);
    for (int64_t b = 0; b < batch; b++)
        sum = mw_lanes_add(sum, row_lanes(dy + b * ld, lanes));
    return sum;
}

void
MW_CPU(position_backward)(struct mw_gradient dweight, const mw_element *dy, int64_t batch,
                          int64_t seq, int64_t columns, int64_t positions)
{
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < seq; p++) {
        const mw_element *row = dy + p * columns;
        int64_t c = 0, ld = seq * columns;
        for (; c + MW_LANES <= columns; c += MW_LANES)
            mw_gradient_put(dweight, p * columns + c, sum_sequences(row + c, batch, ld, MW_LANES),
                            MW_LANES);
        if (c < columns)
            mw_gradient_put(dweight, p * columns + c,
                            sum_sequences(row + c, batch, ld, columns - c), columns - c);
    }
    if (!dweight.accumulate)
        clear(dweight, seq * columns, (positions - seq) * columns);
}

/* Lanes of pairs (a, b) turned by the angles of their cosines and sines. */
MW_INLINE void
turn(struct mw_lanes *a, struct mw_lanes *b, struct mw_lanes cosine, struct mw_lanes sine,
     float sign)
{
    MW_EACH_PART (p) {
        mw_native c = cosine.part[p], s = sign * sine.part[p], first = a->part[p];
        a->part[p] = first * c - b->part[p] * s;
        b->part[p] = b->part[p] * c + first * s;
    }
}

/* One head: the first half's elements pair with the second's. */
MW_INLINE void
turn_head(mw_element *low, const float *cosine, int64_t half, float sign)
{
    const float *sine = cosine + half;
    mw_element *high = low + half;
    struct mw_lanes a, b;
    int64_t i = 0, n = half % MW_LANES;
    for (; i + MW_LANES <= half; i += MW_LANES) {
        a = mw_lanes_load_half(low + i);
        b = mw_lanes_load_half(high + i);
        turn(&a, &b, mw_lanes_load(cosine + i), mw_lanes_load(sine + i), sign);
        mw_lanes_store_half(low + i, a);
        mw_lanes_store_half(high + i, b);
    }
    if (n == 0)
        return;
    a = mw_lanes_load_half_some(low + i, n);
    b = mw_lanes_load_half_some(high + i, n);
    turn(&a, &b, mw_lanes_load_some(cosine + i, n), mw_lanes_load_some(sine + i, n), sign);
    mw_lanes_store_half_some(low + i, a, n);
    mw_lanes_store_half_some(high + i, b, n);
}

void
MW_CPU(rope)(mw_element *x, const float *table, int64_t batch, int64_t seq, int64_t heads,
             int64_t head_dim, int64_t ld, bool inverse)
{
    float sign = inverse ? -1.0f : 1.0f;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < batch * seq; r++) {
        const float *cosine = table + r % seq * head_dim;
        for (int64_t h = 0; h < heads; h++)
            turn_head(x + r * ld + h * head_dim, cosine, head_dim / 2, sign);
    }
}
