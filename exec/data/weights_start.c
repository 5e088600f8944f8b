/* Starting values.  Each element is computed by itself, so threads can divide the work. */
#include <math.h>
#include <string.h>

#include "exec/data/convert.h"
#include "exec/data/mix.h"
#include "exec/data/weights_internal.h"

#define START_DEVIATION 0.02 /* GPT-2 (Radford et al. 2019, Sec. 2.3) and transformers */

struct start {
    const struct mw_decoder *decoder;
    int64_t layer;
    uint64_t key;
    enum mw_dtype as;
    void *out;
};

static void
put(const struct start *start, int64_t at, float value)
{
    if (start->as == MW_DTYPE_FP32)
        ((float *)start->out)[at] = value;
    else
        ((uint16_t *)start->out)[at] = mw_half_of_fp32(value, start->as);
}

/* Box and Muller (Annals of Mathematical Statistics 29, 1958): elements 2p and 2p + 1 of the model
 * are the two normal values of pair p, from 64 random bits. */
static void
normal_pair(uint64_t key, int64_t pair, double deviation, double out[2])
{
    uint64_t bits = mw_mix(key ^ mw_mix((uint64_t)pair));
    double uniform = ((double)(bits >> 32) + 0.5) * 0x1p-32; /* never 0: the logarithm is finite */
    double angle = 2 * G_PI * (double)(bits & 0xffffffff) * 0x1p-32;
    double radius = deviation * sqrt(-2 * log(uniform));

    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

/* The number of the tensor's first element in the whole model. */
static int64_t
number_of(const struct start *start, const struct mw_weight *weight)
{
    struct mw_weight weights[MW_WEIGHTS_MAX];
    int count = mw_weights_list(start->decoder, weight->operator_, start->layer, weights);
    int64_t number = mw_weights_operator_begin(start->decoder, weight->operator_, start->layer);

    for (int i = 0; i < count && (strcmp(weights[i].name, weight->name) ||
                                  weights[i].file_row != weight->file_row);
         i++)
        number += weights[i].elements;
    return number;
}

static void
start_normal(const struct start *start, const struct mw_weights_piece *piece, double deviation)
{
    int64_t begin = number_of(start, &piece->weight) + piece->first, end = begin + piece->count;

#pragma omp parallel for schedule(static)
    for (int64_t pair = begin / 2; pair < (end + 1) / 2; pair++) {
        double values[2];
        normal_pair(start->key, pair, deviation, values);
        for (int i = 0; i < 2; i++)
            if (pair * 2 + i >= begin && pair * 2 + i < end)
                put(start, piece->at + pair * 2 + i - begin, (float)values[i]);
    }
}

/* Of an adapter's A as PEFT starts it (He et al., arXiv 1502.01852, with slope sqrt(5)): uniform
 * between -1 / sqrt(columns) and 1 / sqrt(columns). */
static void
start_uniform(const struct start *start, const struct mw_weights_piece *piece)
{
    int64_t begin = number_of(start, &piece->weight) + piece->first;
    double bound = 1 / sqrt((double)piece->weight.row_elements);

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < piece->count; i++) {
        uint64_t bits = mw_mix(start->key ^ mw_mix(~(uint64_t)(begin + i)));
        double uniform = (double)(bits >> 11) * 0x1p-53;
        put(start, piece->at + i, (float)(bound * (2 * uniform - 1)));
    }
}

static bool
start_piece(const struct mw_weights_piece *piece, void *data)
{
    const struct start *start = data;
    enum mw_weight_start how = piece->weight.start;

    if (how == MW_WEIGHT_NORMAL)
        start_normal(start, piece, START_DEVIATION);
    else if (how == MW_WEIGHT_RESIDUAL)
        start_normal(start, piece, START_DEVIATION / sqrt(2.0 * (double)start->decoder->layers));
    else if (how == MW_WEIGHT_UNIFORM)
        start_uniform(start, piece);
    else
        for (int64_t i = 0; i < piece->count; i++)
            put(start, piece->at + i, how == MW_WEIGHT_ONE);
    return true;
}

void
mw_weights_start(const struct mw_decoder *decoder, uint64_t seed,
                 const struct mw_weights_part *part, int64_t first, int64_t count, enum mw_dtype as,
                 void *out)
{
    struct start start = {
        .decoder = decoder, .layer = part->layer, .key = mw_mix(seed), .as = as, .out = out};
    int64_t padding = mw_weights_padding(decoder, part, first, count);

    mw_weights_walk(decoder, part, first, count, start_piece, &start);
    for (int64_t i = count - padding; i < count; i++)
        put(&start, i, 0);
}
