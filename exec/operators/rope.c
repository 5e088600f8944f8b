#include "exec/operators/rope.h"

#include <math.h>

/* "rope_type": "llama3" (the Llama 3.1 model card's config.json): waves longer than the original
 * context are slowed down by the factor, short ones stay, and between them both are blended. */
static double
stretch(const struct mw_rope_scaling *scaling, double frequency)
{
    double turns = (double)scaling->original_positions * frequency / (2 * M_PI);
    double low = scaling->low_frequency_factor, high = scaling->high_frequency_factor;

    if (turns < low)
        return frequency / scaling->factor;
    if (turns > high)
        return frequency;
    double share = (turns - low) / (high - low);
    return (1 - share) * frequency / scaling->factor + share * frequency;
}

static double
frequency_of(const struct mw_decoder *decoder, int64_t pair)
{
    double frequency = pow(decoder->rope_theta, -2.0 * (double)pair / (double)decoder->head_dim);

    return decoder->rope_scaling.factor > 1 ? stretch(&decoder->rope_scaling, frequency)
                                            : frequency;
}

static void
fill_span(const struct mw_decoder *decoder, const struct mw_context_span *span, float *table)
{
    int64_t half = decoder->head_dim / 2;

    for (int64_t i = 0; i < half; i++) {
        double frequency = frequency_of(decoder, i);
        for (int64_t t = 0; t < span->count; t++) {
            double position = (double)(span->first + t);
            table[2 * half * t + i] = (float)cos(position * frequency);
            table[2 * half * t + half + i] = (float)sin(position * frequency);
        }
    }
}

void
mw_rope_table(const struct mw_decoder *decoder, int64_t seq, float *table)
{
    struct mw_context_span spans[MW_CONTEXT_SPANS_MAX];
    int count = mw_context_spans(&decoder->context, seq, spans);

    for (int s = 0; s < count; s++)
        fill_span(decoder, &spans[s], table + spans[s].at * decoder->head_dim);
}
