#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/data/convert.h"
#include "exec/data/mix.h"
#include "ranks_random.h"

enum { GUARD = 5 }; /* elements on both sides that must stay */

/* A round: what every rank knows of it. */
struct round {
    struct mw_ranks *ranks;
    int lane, count, index;
    uint64_t seed;
    struct mw_ranks_part part;
    struct mw_ranks_sum sum;
};

static uint64_t
pick(struct round *round, uint64_t below)
{
    round->seed = mw_mix(round->seed);
    return round->seed % below;
}

static enum mw_dtype
pick_type(struct round *round)
{
    static const enum mw_dtype types[] = {MW_DTYPE_BF16, MW_DTYPE_FP16, MW_DTYPE_FP32};

    return types[pick(round, G_N_ELEMENTS(types))];
}

static int64_t
bytes_of(enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP32 ? 4 : 2;
}

/* Element `at` of a rank's data: of either sign, over 33 powers of two, so that an order of sums
 * other than that of ranks shows; all are within fp16. */
static float
element(const struct round *round, int rank, int64_t at)
{
    uint64_t bits = mw_mix(round->seed ^ mw_mix((uint64_t)rank << 40 ^ (uint64_t)at));
    uint32_t exponent = 107 + bits % 33;

    return mw_fp32_of_bits((uint32_t)(bits >> 32 & 0x807fffff) | exponent << 23);
}

static float
get(const void *data, enum mw_dtype dtype, int64_t at)
{
    return dtype == MW_DTYPE_FP32 ? ((const float *)data)[at]
                                  : mw_fp32_of_half(((const uint16_t *)data)[at], dtype);
}

static void
put(void *data, enum mw_dtype dtype, int64_t at, float value)
{
    if (dtype == MW_DTYPE_FP32)
        ((float *)data)[at] = value;
    else
        ((uint16_t *)data)[at] = mw_half_of_fp32(value, dtype);
}

static float
rounded(float value, enum mw_dtype dtype)
{
    return dtype == MW_DTYPE_FP32 ? value : mw_fp32_of_half(mw_half_of_fp32(value, dtype), dtype);
}

/* `n` elements of rank `rank`'s data between guards. */
static char *
fill(const struct round *round, int rank, enum mw_dtype dtype, int64_t n)
{
    char *memory = g_malloc((n + 2 * GUARD) * 4);

    for (int64_t i = 0; i < n + 2 * GUARD; i++)
        put(memory, dtype, i, element(round, rank, i));
    return memory;
}

static char *
inside(char *memory, enum mw_dtype dtype)
{
    return memory + bytes_of(dtype) * GUARD;
}

static float
sum_of(const struct round *round, enum mw_dtype dtype, float factor, int64_t at)
{
    float sum = rounded(element(round, 0, at), dtype);

    for (int rank = 1; rank < round->count; rank++)
        sum += rounded(element(round, rank, at), dtype);
    return rounded(sum * factor, dtype);
}

static bool
is(const struct round *round, const char *what, int64_t at, float value, float expected)
{
    if (mw_fp32_bits(value) == mw_fp32_bits(expected))
        return true;
    fprintf(stderr,
            "%s: rank %d of %d, lane %d, element %" PRId64 " is %a, not %a (%" PRId64
            " elements, shards of %" PRId64 ", range %" PRId64 "+%" PRId64 ")\n",
            what, round->index, round->count, round->lane, at - GUARD, (double)value,
            (double)expected, round->part.elements, round->part.shard_elements,
            round->part.range_first, round->part.range_elements);
    return false;
}

static bool
ok(bool done, GError **error)
{
    if (!done)
        fprintf(stderr, "%s\n", (*error)->message);
    g_clear_error(error);
    return done;
}

/* Whether element `at` of the part is in the collective's range of rank `owner`'s shard. */
static bool
in_range(const struct mw_ranks_part *part, int64_t in_shard)
{
    int64_t end = part->range_elements ? part->range_first + part->range_elements : INT64_MAX;

    return in_shard >= part->range_first && in_shard < end;
}

/* --- the collectives --- */

static void
draw_part(struct round *round)
{
    struct mw_ranks_part *part = &round->part;
    int64_t most = pick(round, 4) ? 700 : 9000;

    part->elements = (int64_t)pick(round, most);
    part->shard_elements = (part->elements + round->count - 1) / round->count;
    part->shard_elements += (int64_t)(pick(round, 3) ? 0 : pick(round, 200));
    part->range_first = part->range_elements = 0;
    if (pick(round, 2) && part->shard_elements) {
        part->range_first = (int64_t)pick(round, part->shard_elements);
        part->range_elements = (int64_t)pick(round, part->shard_elements - part->range_first + 1);
    }
}

static bool
all_gather(struct round *round, enum mw_dtype dtype, bool in_place)
{
    const struct mw_ranks_part *part = &round->part;
    int64_t own = MIN(round->index * part->shard_elements, part->elements);
    char *memory = fill(round, round->index, dtype, part->elements);
    char *whole = inside(memory, dtype), *place = whole + own * bytes_of(dtype);
    char *shard = in_place ? NULL : g_memdup2(place, (part->elements - own + 1) * bytes_of(dtype));
    GError *error = NULL;
    bool good;

    if (!in_place) /* nothing of the whole may come from where it was */
        for (int64_t i = own; i < MIN(own + part->shard_elements, part->elements); i++)
            if (in_range(part, i - own))
                put(whole, dtype, i, 0);
    good = ok(mw_ranks_all_gather(round->ranks, round->lane, whole, in_place ? place : shard, part,
                                  bytes_of(dtype), &error),
              &error);
    for (int64_t i = 0; good && i < part->elements + 2 * GUARD; i++) {
        bool part_of = i >= GUARD && i < part->elements + GUARD;
        int64_t owner = part_of ? (i - GUARD) / part->shard_elements : round->index;
        bool moved = part_of && in_range(part, (i - GUARD) % part->shard_elements);
        float expected = element(round, moved ? (int)owner : round->index, i);
        good = is(round, "all-all_gather", i, get(memory, dtype, i), rounded(expected, dtype));
    }
    g_free(shard);
    g_free(memory);
    return good;
}

/* What the shard (with guards) must hold at `i`, having held `before`. */
static float
scattered(const struct round *round, int64_t i, float before)
{
    const struct mw_ranks_part *part = &round->part;
    int64_t in_shard = i - GUARD, at = round->index * part->shard_elements + in_shard;

    if (in_shard < 0 || in_shard >= part->shard_elements || at >= part->elements ||
        !in_range(part, in_shard))
        return before;
    float value = sum_of(round, round->sum.whole, round->sum.scale, at + GUARD);
    return rounded(round->sum.adds ? value + before : value, round->sum.shard);
}

static bool
scatter(struct round *round)
{
    enum mw_dtype whole_type = round->sum.whole, shard_type = round->sum.shard;
    int64_t n = round->part.elements, length = round->part.shard_elements;
    char *whole = fill(round, round->index, whole_type, n);
    char *shard = fill(round, round->count, shard_type, length);
    GError *error = NULL;
    bool good =
        ok(mw_ranks_reduce_scatter(round->ranks, round->lane, inside(shard, shard_type),
                                   inside(whole, whole_type), &round->part, round->sum, &error),
           &error);

    for (int64_t i = 0; good && i < length + 2 * GUARD; i++) {
        float before = rounded(element(round, round->count, i), shard_type);
        good =
            is(round, "reduce-scatter", i, get(shard, shard_type, i), scattered(round, i, before));
    }
    for (int64_t i = 0; good && i < n + 2 * GUARD; i++)
        good = is(round, "reduce-scatter's whole", i, get(whole, whole_type, i),
                  rounded(element(round, round->index, i), whole_type));
    g_free(shard);
    g_free(whole);
    return good;
}

static bool
scatter_in_place(struct round *round, enum mw_dtype dtype)
{
    const struct mw_ranks_part *part = &round->part;
    int64_t own = MIN(round->index * part->shard_elements, part->elements);
    char *memory = fill(round, round->index, dtype, part->elements);
    char *whole = inside(memory, dtype);
    GError *error = NULL;
    bool good;

    round->sum = (struct mw_ranks_sum){dtype, dtype, false, 0.5f};
    good = ok(mw_ranks_reduce_scatter(round->ranks, round->lane, whole + own * bytes_of(dtype),
                                      whole, part, round->sum, &error),
              &error);
    for (int64_t i = 0; good && i < part->elements + 2 * GUARD; i++) {
        float before = rounded(element(round, round->index, i), dtype);
        good = is(round, "reduce-scatter in place", i, get(memory, dtype, i),
                  scattered(round, i - own, before));
    }
    g_free(memory);
    return good;
}

static bool
reduce(struct round *round, enum mw_dtype dtype, float factor)
{
    int64_t n = round->part.elements;
    char *memory = fill(round, round->index, dtype, n);
    GError *error = NULL;
    bool good = ok(mw_ranks_all_reduce(round->ranks, round->lane, inside(memory, dtype), dtype, n,
                                       factor, &error),
                   &error);

    for (int64_t i = 0; good && i < n + 2 * GUARD; i++) {
        bool summed = i >= GUARD && i < n + GUARD;
        good = is(round, "all-reduce", i, get(memory, dtype, i),
                  summed ? sum_of(round, dtype, factor, i)
                         : rounded(element(round, round->index, i), dtype));
    }
    g_free(memory);
    return good;
}

static bool
reduce_fp64(struct round *round)
{
    int64_t n = round->part.elements % 300;
    double *data = g_new(double, n + 1);
    GError *error = NULL;
    bool good;

    for (int64_t i = 0; i < n; i++)
        data[i] = element(round, round->index, i) / 3.0;
    good = ok(mw_ranks_all_reduce_fp64(round->ranks, round->lane, data, n, &error), &error);
    for (int64_t i = 0; good && i < n; i++) {
        double expected = element(round, 0, i) / 3.0;
        for (int rank = 1; rank < round->count; rank++)
            expected += element(round, rank, i) / 3.0;
        good = !memcmp(&expected, &data[i], sizeof expected);
        if (!good)
            fprintf(stderr, "all-reduce in fp64: %a, not %a\n", data[i], expected);
    }
    g_free(data);
    return good;
}

static void
add_all(void *own, const void *other, int64_t elements)
{
    const uint64_t *others = other;
    uint64_t *mine = own;

    for (int64_t i = 0; i < elements; i++)
        mine[i] += others[i];
}

/* Numbers of 64 bits whose sums wrap, whatever rank's share they are in. */
static bool
fold(struct round *round)
{
    int64_t n = round->part.elements;
    uint64_t *data = g_new(uint64_t, (gsize)n + 1);
    GError *error = NULL;
    bool good;

    for (int64_t i = 0; i < n; i++)
        data[i] = mw_mix(round->seed ^ (uint64_t)(i * 64 + round->index));
    good = ok(mw_ranks_all_fold(round->ranks, round->lane, data, n, 8, add_all, &error), &error);
    for (int64_t i = 0; good && i < n; i++) {
        uint64_t expected = 0;
        for (int rank = 0; rank < round->count; rank++)
            expected += mw_mix(round->seed ^ (uint64_t)(i * 64 + rank));
        good = data[i] == expected;
        if (!good)
            fprintf(stderr, "fold: element %d: %llx\n", (int)i, (unsigned long long)data[i]);
    }
    g_free(data);
    return good;
}

enum { EXPERTS_MAX = 20, ROW_WORDS = 3 };

/* A word of a row, which says whose row it is, for which expert, and which of these. */
static uint64_t
word(const struct round *round, int rank, int expert, int64_t row, int at)
{
    return mw_mix(round->seed ^ (uint64_t)(((rank * 64 + expert) * 16 + row) * ROW_WORDS + at + 1));
}

/* Rows go to their experts, where they lie by expert and rank; and back to where they were. */
static bool
exchange(struct round *round)
{
    int experts = 1 + (int)pick(round, EXPERTS_MAX), all = experts * round->count;
    g_autofree int32_t *counts = g_new(int32_t, all * round->count);
    GError *error = NULL;
    int64_t mine = 0, come = 0, at = 0;

    for (int rank = 0; rank < round->count; rank++)
        for (int e = 0; e < all; e++)
            counts[rank * all + e] =
                (int32_t)(mw_mix(round->seed ^ (uint64_t)(rank * all + e)) % 5);
    for (int e = 0; e < all; e++)
        mine += counts[round->index * all + e];
    for (int rank = 0; rank < round->count; rank++)
        for (int e = 0; e < experts; e++)
            come += counts[rank * all + round->index * experts + e];
    g_autofree uint64_t *own = g_new(uint64_t, (mine + 1) * ROW_WORDS);
    g_autofree uint64_t *there = g_new0(uint64_t, (come + 1) * ROW_WORDS);
    g_autofree uint64_t *again = g_new0(uint64_t, (mine + 1) * ROW_WORDS);
    for (int e = 0; e < all; e++)
        for (int64_t row = 0; row < counts[round->index * all + e]; row++)
            for (int w = 0; w < ROW_WORDS; w++)
                own[at++] = word(round, round->index, e, row, w);
    struct mw_ranks_rows rows = {ROW_WORDS * sizeof *own, experts, counts, false};
    bool good =
        ok(mw_ranks_exchange_rows(round->ranks, round->lane, there, own, &rows, &error), &error);
    at = 0;
    for (int e = round->index * experts; good && e < (round->index + 1) * experts; e++)
        for (int rank = 0; rank < round->count; rank++)
            for (int64_t row = 0; row < counts[rank * all + e]; row++)
                for (int w = 0; w < ROW_WORDS; w++)
                    good &= there[at++] == word(round, rank, e, row, w);
    rows.back = true;
    good = good &&
           ok(mw_ranks_exchange_rows(round->ranks, round->lane, again, there, &rows, &error),
              &error) &&
           !memcmp(again, own, (size_t)(mine * ROW_WORDS) * sizeof *own);
    if (!good)
        fprintf(stderr, "exchange: other rows of %d experts a rank\n", experts);
    return good;
}

/* Block r of each rank goes to rank r. */
static bool
all_to_all(struct round *round)
{
    int64_t block = round->part.elements / round->count, n = block * round->count;
    char *from = fill(round, round->index, MW_DTYPE_FP32, n);
    char *to = fill(round, round->count, MW_DTYPE_FP32, n);
    GError *error = NULL;
    bool good = ok(mw_ranks_all_to_all(round->ranks, round->lane, inside(to, MW_DTYPE_FP32),
                                       inside(from, MW_DTYPE_FP32), block * 4, &error),
                   &error);

    for (int64_t i = 0; good && i < n + 2 * GUARD; i++) {
        bool came = i >= GUARD && i < n + GUARD;
        int64_t in_block = came ? (i - GUARD) % block : 0;
        good = is(round, "all-to-all", i, get(to, MW_DTYPE_FP32, i),
                  came ? element(round, (int)((i - GUARD) / block),
                                 GUARD + round->index * block + in_block)
                       : element(round, round->count, i));
    }
    g_free(from);
    g_free(to);
    return good;
}

/* Shard r of each rank goes to rank r, which then has all ranks' of its own; and back, but for what
 * lies behind the part. */
static bool
exchange_shards(struct round *round)
{
    const struct mw_ranks_part *part = &round->part;
    int64_t shard = part->shard_elements, n = shard * round->count;
    enum mw_dtype dtype = pick_type(round);
    char *memory = fill(round, round->index, dtype, n);
    GError *error = NULL;
    bool good = true;

    for (int back = 0; back < 2 && good; back++) {
        good = ok(mw_ranks_exchange_shards(round->ranks, round->lane, inside(memory, dtype), part,
                                           bytes_of(dtype), back, &error),
                  &error);
        for (int64_t i = 0; good && i < n + 2 * GUARD; i++) {
            bool place = i >= GUARD && i < n + GUARD;
            int64_t in_shard = place ? (i - GUARD) % shard : 0, own = round->index * shard;
            bool there = !back || i - GUARD >= part->elements; /* what came, and did not go back */
            bool came =
                there && place && in_range(part, in_shard) && own + in_shard < part->elements;
            float expected =
                came ? element(round, (int)((i - GUARD) / shard), GUARD + own + in_shard)
                     : element(round, round->index, i);
            good =
                is(round, "exchange of shards", i, get(memory, dtype, i), rounded(expected, dtype));
        }
    }
    g_free(memory);
    return good;
}

static bool
pass(struct round *round)
{
    int64_t n = round->part.elements;
    int before = (round->index + round->count - 1) % round->count;
    char *from = fill(round, round->index, MW_DTYPE_FP32, n);
    char *to = fill(round, round->count, MW_DTYPE_FP32, n);
    GError *error = NULL;
    bool good = ok(mw_ranks_pass(round->ranks, round->lane, inside(to, MW_DTYPE_FP32),
                                 inside(from, MW_DTYPE_FP32), n * 4, &error),
                   &error);

    for (int64_t i = 0; good && i < n + 2 * GUARD; i++) {
        bool came = i >= GUARD && i < n + GUARD;
        good = is(round, "pass", i, get(to, MW_DTYPE_FP32, i),
                  element(round, came ? before : round->count, i));
    }
    g_free(from);
    g_free(to);
    return good;
}

static bool
broadcast(struct round *round)
{
    int root = (int)pick(round, round->count);
    int64_t n = round->part.elements;
    char *memory = fill(round, round->index, MW_DTYPE_FP32, n);
    GError *error = NULL;
    bool good = ok(mw_ranks_broadcast(round->ranks, round->lane, inside(memory, MW_DTYPE_FP32),
                                      n * 4, root, &error),
                   &error);

    /* pick() moved the seed before the data were drawn: the same on every rank. */
    for (int64_t i = 0; good && i < n + 2 * GUARD; i++) {
        bool sent = i >= GUARD && i < n + GUARD;
        good = is(round, "broadcast", i, get(memory, MW_DTYPE_FP32, i),
                  element(round, sent ? root : round->index, i));
    }
    g_free(memory);
    return good;
}

static bool
worst(struct round *round)
{
    int most = 0, first = 0, said, who;
    GError *error = NULL;

    for (int rank = round->count - 1; rank >= 0; rank--) {
        int status = (int)(mw_mix(round->seed ^ (uint64_t)rank) % 3);
        if (status >= most) {
            most = status;
            first = rank;
        }
    }
    int own = (int)(mw_mix(round->seed ^ (uint64_t)round->index) % 3);
    if (!ok(mw_ranks_worst(round->ranks, round->lane, own, &said, &who, &error), &error))
        return false;
    if (said == most && who == first)
        return true;
    fprintf(stderr, "worst: %d of rank %d, not %d of rank %d\n", said, who, most, first);
    return false;
}

static bool
play(struct round *round)
{
    static const float factors[] = {1, 0.5f, 1.0f / 3};
    enum mw_dtype first = pick_type(round), second = pick_type(round);
    float factor = factors[pick(round, 3)];

    draw_part(round);
    round->sum = (struct mw_ranks_sum){first, second, pick(round, 2), factor};
    switch (pick(round, 12)) {
    case 0:
        return all_gather(round, first, pick(round, 2));
    case 1:
        return scatter(round);
    case 2:
        return scatter_in_place(round, first);
    case 3:
        return reduce(round, first, factor);
    case 4:
        return reduce_fp64(round);
    case 5:
        return broadcast(round);
    case 6:
        return fold(round);
    case 7:
        return exchange(round);
    case 8:
        return all_to_all(round);
    case 9:
        return pass(round);
    case 10:
        return exchange_shards(round);
    default:
        return worst(round);
    }
}

static struct round
start(struct mw_ranks *ranks, int lane, uint64_t seed)
{
    return (struct round){.ranks = ranks,
                          .lane = lane,
                          .count = mw_ranks_count(ranks),
                          .index = mw_ranks_index(ranks),
                          .seed = seed};
}

bool
ranks_random(struct mw_ranks *ranks, int lane, uint64_t seed, int rounds)
{
    struct round round = start(ranks, lane, seed);

    for (int i = 0; i < rounds; i++)
        if (!play(&round))
            return false;
    return true;
}

bool
ranks_large(struct mw_ranks *ranks, int lane, uint64_t seed, int64_t elements)
{
    struct round round = start(ranks, lane, seed);

    round.part.elements = elements;
    round.part.shard_elements = (elements + round.count - 1) / round.count;
    round.sum = (struct mw_ranks_sum){MW_DTYPE_BF16, MW_DTYPE_FP32, false, 1};
    return all_gather(&round, MW_DTYPE_BF16, false) && scatter(&round);
}
