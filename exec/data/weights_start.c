/* Starting values.  Each element is computed by itself, so threads can divide the work. */
#include <math.h>
#include <string.h>

#include "exec/data/convert.h"
#include "exec/data/mix.h"
#include "exec/data/weights_internal.h"

#define START_DEVIATION 0.02 /* GPT-2 (Radford et al. 2019, Sec. 2.3) and transformers */

struct start {
    const struct mw_decoder *decoder; /* the model, or a slice of it, */
    struct mw_decoder whole;          /* and the model */
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

/* --- numbers in the whole model -------------------------------------------------------------- */

/* Where the elements of a tensor have their numbers. */
struct numbering {
    int64_t first;                    /* the number of the first one */
    int64_t row_elements, row_stride; /* of the tensor, and of that of the whole */
    int64_t elements;                 /* a slice's further ones are none of the whole's */
};

static struct numbering
numbering_of(const struct start *start, const struct mw_weight *weight)
{
    bool copy = start->decoder->copies_embedding && weight->role == MW_WEIGHT_LOGITS;
    enum mw_operator part_of = mw_operator_row((int)weight->operator_)->part_of;
    enum mw_operator operator_ = copy      ? MW_OPERATOR_EMBEDDING
                                 : part_of ? part_of
                                           : weight->operator_;
    enum mw_weight_role role = copy ? MW_WEIGHT_TOKENS : weight->role;
    struct mw_weight all[MW_WEIGHTS_MAX], *whole = all;
    int64_t index = start->decoder->slice.index;
    struct numbering it = {
        .first = mw_weights_operator_begin(&start->whole, operator_, start->layer),
        .row_elements = MAX(1, weight->row_elements),
        .elements = weight->elements,
    };

    mw_weights_list_apart(&start->whole, operator_, start->layer, all);
    for (; whole->role != role || whole->lora != weight->lora; whole++)
        it.first += whole->elements;
    it.row_stride = MAX(1, whole->row_elements);
    it.first += weight->first_expert * (weight->elements / MAX(1, weight->experts));
    if (!mw_decoder_is_slice(start->decoder))
        return it;
    if (weight->row_elements != whole->row_elements) /* its columns are sliced */
        it.first += index * weight->row_elements;
    else if (weight->rows != whole->rows) {
        it.first += index * weight->elements;
        it.elements = CLAMP(whole->elements - index * weight->elements, 0, weight->elements);
    }
    return it;
}

/* --- values ---------------------------------------------------------------------------------- */

/* Of neighbours in the whole model, the first of which has number `begin`, from `at` of the output
 * on. */
struct run {
    int64_t begin, count, at;
};

static void
start_normal(const struct start *start, const struct run *run, double deviation)
{
    int64_t begin = run->begin, end = begin + run->count;

#pragma omp parallel for schedule(static)
    for (int64_t pair = begin / 2; pair < (end + 1) / 2; pair++) {
        double values[2];
        normal_pair(start->key, pair, deviation, values);
        for (int i = 0; i < 2; i++)
            if (pair * 2 + i >= begin && pair * 2 + i < end)
                put(start, run->at + pair * 2 + i - begin, (float)values[i]);
    }
}

/* Of an adapter's A as PEFT starts it (He et al., arXiv 1502.01852, with slope sqrt(5)): uniform
 * between -1 / sqrt(columns) and 1 / sqrt(columns). */
static void
start_uniform(const struct start *start, const struct run *run, int64_t columns)
{
    double bound = 1 / sqrt((double)columns);

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < run->count; i++) {
        uint64_t bits = mw_mix(start->key ^ mw_mix(~(uint64_t)(run->begin + i)));
        double uniform = (double)(bits >> 11) * 0x1p-53;
        put(start, run->at + i, (float)(bound * (2 * uniform - 1)));
    }
}

static void
start_run(const struct start *start, const struct mw_weight *weight, const struct run *run)
{
    if (weight->start == MW_WEIGHT_NORMAL)
        start_normal(start, run, START_DEVIATION);
    else if (weight->start == MW_WEIGHT_RESIDUAL)
        start_normal(start, run, START_DEVIATION / sqrt(2.0 * (double)start->decoder->layers));
    else if (weight->start == MW_WEIGHT_UNIFORM)
        start_uniform(start, run, weight->row_elements);
    else
        for (int64_t i = 0; i < run->count; i++)
            put(start, run->at + i, weight->start == MW_WEIGHT_ONE);
}

static bool
start_piece(const struct mw_weights_piece *piece, void *data)
{
    const struct start *start = data;
    struct numbering numbering = numbering_of(start, &piece->weight);
    bool rows_apart = numbering.row_stride != numbering.row_elements;
    int64_t end = piece->first + piece->count,
            inside = CLAMP(numbering.elements, piece->first, end);

    for (int64_t e = piece->first; e < inside;) {
        int64_t row = e / numbering.row_elements, column = e % numbering.row_elements;
        int64_t left = rows_apart ? numbering.row_elements - column : inside - e;
        struct run run = {.begin = numbering.first + row * numbering.row_stride + column,
                          .count = MIN(left, inside - e),
                          .at = piece->at + e - piece->first};
        start_run(start, &piece->weight, &run);
        e += run.count;
    }
    for (int64_t e = inside; e < end; e++)
        put(start, piece->at + e - piece->first, 0);
    return true;
}

void
mw_weights_start(const struct mw_decoder *decoder, uint64_t seed,
                 const struct mw_weights_part *part, int64_t first, int64_t count, enum mw_dtype as,
                 void *out)
{
    struct start start = {.decoder = decoder,
                          .whole = mw_decoder_whole(decoder),
                          .layer = part->layer,
                          .key = mw_mix(seed),
                          .as = as,
                          .out = out};
    int64_t padding = mw_weights_padding(decoder, part, first, count);

    mw_weights_walk(decoder, part, first, count, start_piece, &start);
    for (int64_t i = count - padding; i < count; i++)
        put(&start, i, 0);
}
