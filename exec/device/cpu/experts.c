/* A mixture's router, and the copies of tokens that its experts take.  The products of experts are
 * in exec/device/cpu/gemm.c. */
#include "exec/device/cpu/isa.h"
#include "exec/device/cpu/lanes.h"
#include "exec/device/cpu/rows.h"
#include "exec/device/cpu/vector_math.h"
#include "plan/decoder.h"

#include <math.h>
#include <string.h>

MW_INLINE struct mw_lanes
get(const mw_element *x, int64_t n)
{
    return n == MW_LANES ? mw_lanes_load_half(x) : mw_lanes_load_half_some(x, n);
}

MW_INLINE void
put(mw_element *x, struct mw_lanes v, int64_t n)
{
    if (n == MW_LANES)
        mw_lanes_store_half(x, v);
    else
        mw_lanes_store_half_some(x, v, n);
}

/* sum + factor * x, each operation rounded. */
MW_INLINE struct mw_lanes
plus(struct mw_lanes sum, float factor, struct mw_lanes x)
{
    MW_EACH_PART (p)
        sum.part[p] = sum.part[p] + factor * x.part[p];
    return sum;
}

/* --- the router ------------------------------------------------------------------------------- */

/* Returns the logarithm of the sum of exponentials. */
static float
row_softmax(float *row, int64_t experts)
{
    float max = row[0], sum = 0.0f;
    for (int64_t e = 1; e < experts; e++)
        max = row[e] > max ? row[e] : max;
    for (int64_t e = 0; e < experts; e += MW_LANES) {
        int64_t n = mw_smaller(MW_LANES, experts - e);
        struct mw_lanes x = mw_lanes_load_some(row + e, n);
        MW_EACH_PART (p)
            x.part[p] = mw_exp(x.part[p] - max);
        mw_lanes_store_some(row + e, x, n);
    }
    for (int64_t e = 0; e < experts; e++)
        sum += row[e];
    for (int64_t e = 0; e < experts; e++)
        row[e] /= sum;
    return max + logf(sum);
}

void
MW_CPU(router_softmax)(float *scores, float *lse, int64_t tokens, int64_t experts)
{
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < tokens; t++) {
        float of_row = row_softmax(scores + t * experts, experts);
        if (lse)
            lse[t] = of_row;
    }
}

static bool
is_one_of(const int32_t *expert, int64_t count, int64_t e)
{
    for (int64_t i = 0; i < count; i++)
        if (expert[i] == e)
            return true;
    return false;
}

/* Of equal probabilities the lower number comes first; where some are no numbers, too, each expert
 * is taken once. */
static void
choose(const struct mw_routing *routing, const float *probability, int64_t token)
{
    int32_t *expert = routing->expert + token * routing->visits;
    float *weight = routing->weight + token * routing->visits, sum = 0.0f;

    for (int64_t i = 0; i < routing->visits; i++) {
        int64_t best = -1;
        for (int64_t e = 0; e < routing->experts; e++)
            if (!is_one_of(expert, i, e) && (best < 0 || probability[e] > probability[best]))
                best = e;
        expert[i] = (int32_t)best;
        weight[i] = probability[best];
        sum += weight[i];
    }
    for (int64_t i = 0; i < routing->visits && routing->renormalizes; i++)
        weight[i] /= sum;
}

static bool
is_left_out(const struct mw_routing *routing, int64_t token, int64_t choice)
{
    return routing->draws && choice == 1 &&
           !(mw_routing_draw(routing->draw, token) <
             2 * (double)routing->weight[token * routing->visits + 1]);
}

/* Counts what each expert takes, from begin[0] on; what is dropped has no row. */
static void
count_copies(const struct mw_routing *routing)
{
    int32_t *begin = routing->begin;

    memset(begin, 0, (size_t)(routing->experts + 1) * sizeof *begin);
    memset(routing->chosen, 0, (size_t)routing->experts * sizeof *routing->chosen);
    for (int64_t choice = 0; choice < routing->visits; choice++)
        for (int64_t t = 0; t < routing->tokens; t++) {
            int64_t i = t * routing->visits + choice;
            int32_t *taken = &begin[routing->expert[i]];
            bool drops = (routing->capacity && *taken >= routing->capacity) ||
                         is_left_out(routing, t, choice);
            routing->row[i] = drops ? -1 : 0;
            *taken += !drops;
            routing->chosen[routing->expert[i]] += !routing->draws || choice == 0;
        }
}

/* Copies of an expert lie in the order of their tokens: one thread gives them their places. */
static void
place(const struct mw_routing *routing)
{
    int64_t copies = routing->tokens * routing->visits;
    int32_t *begin = routing->begin, before = 0;

    count_copies(routing);
    for (int64_t e = 0; e <= routing->experts; e++) {
        int32_t of_expert = begin[e];
        begin[e] = before;
        before += of_expert;
    }
    for (int64_t i = 0; i < copies; i++)
        if (routing->row[i] == 0)
            routing->row[i] = begin[routing->expert[i]]++;
    for (int64_t e = routing->experts; e > 0; e--) /* each is where the next one begins now */
        begin[e] = begin[e - 1];
    begin[0] = 0;
}

void
MW_CPU(route)(const struct mw_routing *routing, const float *probabilities)
{
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < routing->tokens; t++)
        choose(routing, probabilities + t * routing->experts, t);
    place(routing);
}

/* A sum of each token, then one over them. */
void
MW_CPU(router_losses)(const struct mw_routing *routing, double *losses, const float *probabilities,
                      const float *lse)
{
    double tokens = (double)routing->tokens, balance = 0, squares = 0;

    for (int64_t t = 0; t < routing->tokens; t++) {
        const float *row = probabilities + t * routing->experts;
        double of_token = 0;
        for (int64_t e = 0; e < routing->experts; e++)
            of_token += (double)routing->chosen[e] * (double)row[e];
        balance += of_token;
        squares += lse ? (double)lse[t] * (double)lse[t] : 0;
    }
    losses[0] = (double)routing->experts * balance / (tokens * tokens);
    losses[1] = squares / tokens;
}

/* Into `slope` [experts]: of the loss by the token's probabilities. */
static void
probability_slopes(const struct mw_routing *routing, const float *probability, const float *dweight,
                   int64_t token, float aux, float *slope)
{
    const int32_t *expert = routing->expert + token * routing->visits;
    const float *weight = routing->weight + token * routing->visits;
    float sum = 0.0f, common = 0.0f;

    for (int64_t e = 0; e < routing->experts; e++)
        slope[e] = 0.0f;
    for (int64_t i = 0; i < routing->visits; i++) {
        sum += probability[expert[i]];
        common += dweight[i] * weight[i];
    }
    for (int64_t i = 0; i < routing->visits; i++)
        slope[expert[i]] = routing->renormalizes ? (dweight[i] - common) / sum : dweight[i];
    for (int64_t e = 0; e < routing->experts && aux != 0.0f; e++)
        slope[e] += aux * (float)routing->chosen[e];
}

/* Whatever of the row is read has been read when dscores, which may lie there, is written. */
static void
token_backward(const struct mw_routing *routing, mw_element *dscores, const float *probability,
               const float *dweight, struct mw_router_slopes slopes, int64_t token, float *slope)
{
    float common = 0.0f, of_scores = slopes.lse ? slopes.z * slopes.lse[token] : 0.0f;

    probability_slopes(routing, probability, dweight, token, slopes.aux, slope);
    for (int64_t e = 0; e < routing->experts; e++)
        common += slope[e] * probability[e];
    for (int64_t e = 0; e < routing->experts; e++)
        slope[e] = probability[e] * (slope[e] - common + of_scores);
    for (int64_t e = 0; e < routing->experts; e += MW_LANES) {
        int64_t n = mw_smaller(MW_LANES, routing->experts - e);
        put(dscores + e, mw_lanes_load_some(slope + e, n), n);
    }
}

void
MW_CPU(router_backward)(const struct mw_routing *routing, mw_element *dscores, int64_t ld_dscores,
                        const float *probabilities, const float *dweights,
                        struct mw_router_slopes slopes)
{
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < routing->tokens; t++) {
        float slope[MW_DECODER_EXPERTS_MAX];
        token_backward(routing, dscores + t * ld_dscores, probabilities + t * routing->experts,
                       dweights + t * routing->visits, slopes, t, slope);
    }
}

/* --- copies ----------------------------------------------------------------------------------- */

void
MW_CPU(copy_tokens)(const struct mw_routing *routing, mw_element *copies, const mw_element *x,
                    int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < routing->tokens * routing->visits; i++)
        if (routing->row[i] >= 0)
            memcpy(copies + routing->row[i] * columns, x + i / routing->visits * columns,
                   (size_t)columns * sizeof *x);
}

/* Of a token's copies, some columns; 0 where all are dropped. */
MW_INLINE struct mw_lanes
sum_of(const struct mw_routing *routing, const int32_t *row, const mw_element *copies,
       int64_t columns, int64_t n)
{
    struct mw_lanes sum = mw_lanes_splat(0.0f);
    bool any = false;

    for (int64_t i = 0; i < routing->visits; i++) {
        if (row[i] < 0)
            continue;
        struct mw_lanes x = get(copies + row[i] * columns, n);
        sum = any ? mw_lanes_add(sum, x) : x;
        any = true;
    }
    return sum;
}

void
MW_CPU(sum_copies)(const struct mw_routing *routing, mw_element *x, const mw_element *copies,
                   int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < routing->tokens; t++) {
        const int32_t *row = routing->row + t * routing->visits;
        for (int64_t c = 0; c < columns; c += MW_LANES) {
            int64_t n = mw_smaller(MW_LANES, columns - c);
            put(x + t * columns + c, sum_of(routing, row, copies + c, columns, n), n);
        }
    }
}

void
MW_CPU(weigh_copies)(const struct mw_routing *routing, mw_element *y, const mw_element *x,
                     const mw_element *copies, int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < routing->tokens; t++) {
        const int32_t *row = routing->row + t * routing->visits;
        const float *weight = routing->weight + t * routing->visits;
        for (int64_t c = 0; c < columns; c += MW_LANES) {
            int64_t n = mw_smaller(MW_LANES, columns - c);
            struct mw_lanes sum = mw_lanes_splat(0.0f);
            for (int64_t i = 0; i < routing->visits; i++)
                if (row[i] >= 0)
                    sum = plus(sum, weight[i], get(copies + row[i] * columns + c, n));
            put(y + t * columns + c, mw_lanes_add(get(x + t * columns + c, n), sum), n);
        }
    }
}

/* A copy's result becomes its gradient; returns the product of the result and dy. */
static float
copy_backward(mw_element *copy, const mw_element *dy, float weight, int64_t columns)
{
    struct mw_lanes sum = mw_lanes_splat(0.0f);

    for (int64_t c = 0; c < columns; c += MW_LANES) {
        int64_t n = mw_smaller(MW_LANES, columns - c);
        struct mw_lanes x = get(copy + c, n), d = get(dy + c, n);
        MW_EACH_PART (p)
            sum.part[p] = sum.part[p] + x.part[p] * d.part[p];
        put(copy + c, mw_lanes_scale(d, weight), n);
    }
    return mw_lanes_sum(sum);
}

void
MW_CPU(weigh_backward)(const struct mw_routing *routing, float *dweights, mw_element *copies,
                       const mw_element *dy, int64_t columns)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < routing->tokens * routing->visits; i++)
        dweights[i] = routing->row[i] < 0 ? 0.0f
                                          : copy_backward(copies + routing->row[i] * columns,
                                                          dy + i / routing->visits * columns,
                                                          routing->weight[i], columns);
}
