/* Tensor slices of a decoder. */
#include "plan/decoder.h"

#include <stddef.h>

const char *
mw_decoder_slice(const struct mw_decoder *whole, int64_t count, int64_t index,
                 struct mw_decoder *out)
{
    *out = *whole;
    if (count < 2)
        return NULL;
    if (whole->heads % count || whole->kv_heads % count)
        return "cuts heads, and those of keys and values, into equal parts alone";
    if (whole->ffn % count)
        return "cuts the MLP's width into equal parts alone";
    if (whole->qk_norm)
        return "sums up no gradients of the norms of q and k";
    if (whole->lora_rank)
        return "has no slices of adapters";
    if (whole->experts)
        return "has no slices of a mixture's experts";
    out->heads = whole->heads / count;
    out->kv_heads = whole->kv_heads / count;
    out->ffn = whole->ffn / count;
    out->vocab = (whole->vocab + count - 1) / count;
    out->slice = (struct mw_slice){.count = count, .index = index, .vocab = whole->vocab};
    return NULL;
}

struct mw_decoder
mw_decoder_whole(const struct mw_decoder *slice)
{
    struct mw_decoder whole = *slice;

    whole.spread = (struct mw_spread){0};
    if (!mw_decoder_is_slice(slice))
        return whole;
    whole.heads *= slice->slice.count;
    whole.kv_heads *= slice->slice.count;
    whole.ffn *= slice->slice.count;
    whole.vocab = slice->slice.vocab;
    whole.slice = (struct mw_slice){0};
    return whole;
}

int64_t
mw_decoder_first_token(const struct mw_decoder *decoder)
{
    return decoder->slice.index * decoder->vocab;
}

int64_t
mw_decoder_tokens(const struct mw_decoder *decoder)
{
    int64_t left = decoder->slice.vocab - mw_decoder_first_token(decoder);

    if (!mw_decoder_is_slice(decoder) || left > decoder->vocab)
        return decoder->vocab;
    return left > 0 ? left : 0;
}
