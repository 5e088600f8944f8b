/* The room of activations: what lies where. */
#include "exec/operators/compute.h"

#define CACHE_LINE_ELEMENTS 32
/* planner/sizing counts 6 bytes per logit: three elements of 16 bits. */
#define LOGIT_ELEMENTS 3

static int64_t
larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Elements per token. */
static int64_t
qkv_width(const struct mw_decoder *decoder)
{
    return mw_decoder_q(decoder) + 2 * mw_decoder_kv(decoder);
}

static int64_t
up_width(const struct mw_decoder *decoder)
{
    return (1 + mw_decoder_gated(decoder)) * decoder->ffn;
}

static int64_t
branch_width(const struct mw_decoder *decoder)
{
    return larger(decoder->hidden, mw_decoder_q(decoder));
}

static int64_t
wide_width(const struct mw_decoder *decoder)
{
    return larger(larger(decoder->ffn, qkv_width(decoder)), decoder->hidden);
}

/* Without the fp32 sums of its attention (lse). */
static int64_t
layer_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return tokens * (4 * decoder->hidden + qkv_width(decoder) + mw_decoder_q(decoder) +
                     up_width(decoder) + decoder->ffn);
}

static int64_t
shared_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return tokens * (wide_width(decoder) + branch_width(decoder) + decoder->hidden);
}

static int64_t
sum_bytes(const struct mw_decoder *decoder, int64_t tokens)
{
    return (int64_t)sizeof(float) * tokens * decoder->heads;
}

struct mw_room_layout
mw_room_layout(const struct mw_decoder *decoder, int64_t sequences, int64_t seq, int64_t layers)
{
    int64_t tokens = sequences * seq;
    int64_t layer = sum_bytes(decoder, tokens) + 2 * layer_elements(decoder, tokens);

    return (struct mw_room_layout){
        .bytes = layers * layer + 2 * shared_elements(decoder, tokens),
        .layer_bytes = layer,
        .layers = layers,
    };
}

static uint16_t *
behind_sums(const struct mw_decoder *decoder, int64_t tokens, const struct mw_room_layout *layout,
            void *base)
{
    return (uint16_t *)((char *)base + layout->layers * sum_bytes(decoder, tokens));
}

static uint16_t *
take(uint16_t **at, int64_t elements)
{
    uint16_t *taken = *at;

    *at += elements;
    return taken;
}

struct mw_layer_room
mw_room_layer(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
              const struct mw_room_layout *layout, void *base, int64_t layer)
{
    int64_t tokens = sequences * seq, one = tokens * decoder->hidden;
    uint16_t *at = behind_sums(decoder, tokens, layout, base) + shared_elements(decoder, tokens) +
                   layer * layer_elements(decoder, tokens);
    struct mw_layer_room room;

    room.lse = (float *)base + layer * tokens * decoder->heads;
    room.x = take(&at, one);
    room.n1 = take(&at, one);
    room.qkv = take(&at, tokens * qkv_width(decoder));
    room.o = take(&at, tokens * mw_decoder_q(decoder));
    room.x2 = take(&at, one);
    room.n2 = take(&at, one);
    room.up = take(&at, tokens * up_width(decoder));
    room.act = take(&at, tokens * decoder->ffn);
    return room;
}

struct mw_shared_room
mw_room_shared(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
               const struct mw_room_layout *layout, void *base)
{
    int64_t tokens = sequences * seq;
    uint16_t *at = behind_sums(decoder, tokens, layout, base);
    struct mw_shared_room room = {.wide_elements = tokens * wide_width(decoder)};

    room.wide = take(&at, room.wide_elements);
    room.branch = take(&at, tokens * branch_width(decoder));
    room.gradient = take(&at, tokens * decoder->hidden);
    room.final = room.gradient;
    room.hidden = room.wide;
    return room;
}

int64_t
mw_logits_stride(const struct mw_decoder *decoder)
{
    int64_t whole =
        (decoder->vocab + CACHE_LINE_ELEMENTS - 1) / CACHE_LINE_ELEMENTS * CACHE_LINE_ELEMENTS;

    return whole <= LOGIT_ELEMENTS * decoder->vocab ? whole : decoder->vocab;
}
