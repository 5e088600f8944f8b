/* Ranks that share sequences: what goes from rank to rank.  Each has all tokens of some heads for
 * attention (DeepSpeed-Ulysses, arXiv 2309.14509, Sec. 3.1), or all keys and values visit each (Liu
 * et al., arXiv 2310.01889, Sec. 3). */
#include <string.h>

#include "exec/operators/internal.h"

static void
add_columns(struct mw_exchange *exchange, void *at, int64_t ld, int64_t width)
{
    exchange->columns[exchange->count++] = (struct mw_exchange_columns){at, ld, width};
    exchange->width += width;
}

/* q, k and v, or their gradients. */
static void
add_heads(const struct mw_compute *compute, struct mw_exchange *exchange, void *heads, void *values)
{
    int64_t q = mw_decoder_q(compute->decoder), kv = mw_decoder_kv(compute->decoder);
    struct mw_operator_heads at = mw_operator_heads(compute);

    add_columns(exchange, mw_operator_at(compute, heads, at.q), at.ld_q, q);
    add_columns(exchange, mw_operator_at(compute, heads, at.k), at.ld_k, kv);
    add_columns(exchange, mw_operator_at(compute, values, at.v), at.ld_v, kv);
}

/* Of the room of gradients nothing is in use while forward attends, and nothing while backward does
 * but the gradients of q, k and v; after that q, k and v themselves are not needed. */
struct mw_exchange
mw_compute_exchange(const struct mw_compute *compute, bool behind)
{
    const struct mw_layer_activations *layer = compute->layer;
    const struct mw_layer_gradients *gradient = &layer->gradient;
    struct mw_exchange exchange = {.gathers = !behind, .room = compute->shared->wide};
    int64_t q = mw_decoder_q(compute->decoder);

    if (!compute->backward && !behind) {
        exchange.whole = layer->qkv;
        add_heads(compute, &exchange, layer->qkv, layer->qkv);
    } else if (!compute->backward) {
        exchange.whole = layer->attended;
        add_columns(&exchange, layer->o, q, q);
    } else if (!behind) {
        exchange.whole = compute->shared->branch;
        add_columns(&exchange, compute->shared->branch, q, q);
    } else {
        exchange.whole = gradient->heads;
        exchange.room = layer->qkv;
        add_heads(compute, &exchange, gradient->heads, gradient->qkv);
    }
    return exchange;
}

void
mw_ring_pack(const struct mw_compute *compute)
{
    struct mw_operator_heads at = mw_operator_heads(compute);
    int64_t kv = mw_decoder_kv(compute->decoder);
    size_t bytes = (size_t)(kv * mw_compute_element_bytes(compute->dtype));
    void *qkv = compute->layer->qkv, *to = compute->shared->ring[0];

    for (int64_t t = 0; t < mw_operator_tokens(compute); t++) {
        memcpy(mw_operator_at(compute, to, 2 * kv * t),
               mw_operator_at(compute, qkv, at.k + t * at.ld_k), bytes);
        memcpy(mw_operator_at(compute, to, 2 * kv * t + kv),
               mw_operator_at(compute, qkv, at.v + t * at.ld_v), bytes);
    }
}

/* Of one sequence and one rank's heads. */
static void
copy_block(const struct mw_compute *compute, const struct mw_exchange *exchange, int64_t sequence,
           int64_t rank, bool packs)
{
    int64_t ranks = mw_decoder_sharers(compute->decoder), n = compute->seq;
    int64_t element = mw_compute_element_bytes(compute->dtype), row = exchange->width / ranks;
    char *block = (char *)exchange->room + (sequence * ranks + rank) * n * row * element;

    for (int64_t token = 0; token < n; token++)
        for (int c = 0; c < exchange->count; c++) {
            const struct mw_exchange_columns *it = &exchange->columns[c];
            int64_t width = it->width / ranks;
            char *at = (char *)it->at + ((sequence * n + token) * it->ld + rank * width) * element;
            memcpy(packs ? block : at, packs ? at : block, (size_t)(width * element));
            block += width * element;
        }
}

static void
copy_blocks(const struct mw_compute *compute, const struct mw_exchange *exchange, bool packs)
{
    for (int64_t s = 0; s < compute->sequences; s++)
        for (int64_t rank = 0; rank < mw_decoder_sharers(compute->decoder); rank++)
            copy_block(compute, exchange, s, rank, packs);
}

void
mw_exchange_pack(const struct mw_compute *compute, const struct mw_exchange *exchange)
{
    copy_blocks(compute, exchange, true);
}

void
mw_exchange_unpack(const struct mw_compute *compute, const struct mw_exchange *exchange)
{
    copy_blocks(compute, exchange, false);
}
