/* Token and position embeddings, and rotary positions. */
#include "exec/cpu/isa.h"
#include "exec/cpu/gradient.h"

void
MW_CPU(embedding_forward)(uint16_t *y, const uint16_t *weight, const int32_t *tokens, int64_t rows,
                          int64_t columns, int32_t first, int32_t count)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        int64_t id = (int64_t)tokens[r] - first;
        if (id >= 0 && id < count)
            memcpy(y + r * columns, weight + id * columns, (size_t)columns * sizeof *y);
    }
}

/* Heap sort: in place, and the keys differ, so that the order is the only one. */
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

/* Keys (row of the table, token's index) of the tokens that are in the table; how many. */
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

/* Adds up the rows of dy of one token, n keys of the same id, in their order. */
static void
put_token(struct mw_gradient dweight, const uint16_t *dy, int64_t columns, const uint64_t *order,
          int64_t n)
{
    int64_t id = (int64_t)(order[0] >> 32);
    for (int64_t c = 0; c < columns; c += MW_LANES) {
        int64_t lanes = columns - c < MW_LANES ? columns - c : MW_LANES;
        mw_f32x16 sum = {0};
        for (int64_t i = 0; i < n; i++)
            sum += mw_load_half_some(dy + (int64_t)(order[i] & UINT32_MAX) * columns + c, lanes);
        mw_gradient_put(dweight, id * columns + c, sum, lanes);
    }
}

static void
clear(struct mw_gradient g, int64_t first, int64_t n)
{
    size_t element_bytes = g.fp32 ? sizeof(float) : sizeof(uint16_t);
    memset((char *)g.data + (size_t)first * element_bytes, 0, (size_t)n * element_bytes);
}

void
MW_CPU(embedding_backward)(struct mw_gradient dweight, const uint16_t *dy, const int32_t *tokens,
                           int64_t rows, int64_t columns, int32_t first, int32_t count,
                           uint64_t *order)
{
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
MW_CPU(position_forward)(uint16_t *y, const uint16_t *weight, int64_t batch, int64_t seq,
                         int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < batch * seq; r++) {
        uint16_t *row = y + r * columns;
        const uint16_t *position = weight + r % seq * columns;
        int64_t c = 0;
        for (; c + MW_LANES <= columns; c += MW_LANES)
            mw_store_half(row + c, mw_load_half(row + c) + mw_load_half(position + c));
        if (c < columns)
            mw_store_half_some(row + c,
                               mw_load_half_some(row + c, columns - c) +
                                   mw_load_half_some(position + c, columns - c),
                               columns - c);
    }
}

void
MW_CPU(position_backward)(struct mw_gradient dweight, const uint16_t *dy, int64_t batch,
                          int64_t seq, int64_t columns, int64_t positions)
{
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < seq; p++) {
        for (int64_t c = 0; c < columns; c += MW_LANES) {
            int64_t lanes = columns - c < MW_LANES ? columns - c : MW_LANES;
            mw_f32x16 sum = {0};
            for (int64_t b = 0; b < batch; b++)
                sum += mw_load_half_some(dy + (b * seq + p) * columns + c, lanes);
            mw_gradient_put(dweight, p * columns + c, sum, lanes);
        }
    }
    if (!dweight.accumulate)
        clear(dweight, seq * columns, (positions - seq) * columns);
}

/* (a, b) of one pair turned by the angle of cos and sin. */
MW_INLINE void
turn(uint16_t *head, const float *cosine, const float *sine, int64_t half, int64_t n, float sign)
{
    mw_f32x16 a = mw_load_half_some(head, n), b = mw_load_half_some(head + half, n);
    mw_f32x16 c = mw_load_some(cosine, n), s = sign * mw_load_some(sine, n);
    mw_store_half_some(head, a * c - b * s, n);
    mw_store_half_some(head + half, b * c + a * s, n);
}

void
MW_CPU(rope)(uint16_t *x, const float *table, int64_t batch, int64_t seq, int64_t heads,
             int64_t head_dim, int64_t ld, bool inverse)
{
    int64_t half = head_dim / 2;
    float sign = inverse ? -1.0f : 1.0f;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < batch * seq; r++) {
        const float *cosine = table + r % seq * head_dim;
        for (int64_t h = 0; h < heads; h++) {
            uint16_t *head = x + r * ld + h * head_dim;
            int64_t i = 0;
            for (; i + MW_LANES <= half; i += MW_LANES)
                turn(head + i, cosine + i, cosine + half + i, half, MW_LANES, sign);
            if (i < half)
                turn(head + i, cosine + i, cosine + half + i, half, half - i, sign);
        }
    }
}
