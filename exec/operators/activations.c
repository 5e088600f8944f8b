/* The room of activations: what lies where. */
#include "exec/operators/compute.h"

#define CACHE_LINE_BYTES 64
/* What planner/sizing counts of a logit beside the element itself. */
#define LOGIT_SUM_BYTES 4

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
up_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return (1 + mw_decoder_gated(decoder)) * mw_decoder_inner(decoder, tokens);
}

static int64_t
branch_width(const struct mw_decoder *decoder)
{
    return larger(decoder->hidden, mw_decoder_q(decoder));
}

static int64_t
wide_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return larger(mw_decoder_inner(decoder, tokens),
                  tokens * larger(qkv_width(decoder), decoder->hidden));
}

static int64_t
raw_width(const struct mw_decoder *decoder)
{
    return decoder->qk_norm ? mw_decoder_q(decoder) + mw_decoder_kv(decoder) : 0;
}

int64_t
mw_decoder_lora_width(const struct mw_decoder *decoder, int adapted)
{
    struct mw_operator_dims dims = mw_decoder_dims(decoder);
    int64_t width = 0;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++) {
        const struct mw_operator_row *row = mw_operator_row(i);
        if ((int)row->adapts != adapted || !mw_dims_adapt(&dims, row))
            continue;
        for (const struct mw_operator_parameter *p = row->parameters; p->kind; p++)
            width +=
                p->rows == MW_WIDTH_RANK && mw_dims_have(&dims, p->when) ? decoder->lora_rank : 0;
    }
    return width;
}

/* Of all operators of a layer. */
static int64_t
lora_widths(const struct mw_decoder *decoder)
{
    int64_t width = 0;

    for (int i = 1; i < MW_OPERATOR_COUNT; i++)
        width += mw_decoder_adapts(decoder, i) ? mw_decoder_lora_width(decoder, i) : 0;
    return width;
}

/* Of the input of an operator's product, which the gradient of its weights alone reads. */
static int64_t
kept_width(uint32_t unread, enum mw_operator operator_, int64_t width)
{
    return unread >> operator_ & 1 ? 0 : width;
}

/* Of a mixture: what experts give for the rank's tokens; what its experts take; and what goes to
 * other ranks. */
static int64_t
results_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return decoder->experts ? mw_decoder_result_rows(decoder, tokens) * decoder->hidden : 0;
}

static int64_t
copies_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return decoder->experts ? mw_decoder_expert_rows(decoder, tokens) * decoder->hidden : 0;
}

static int64_t
exchange_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return mw_decoder_is_spread(decoder) ? copies_elements(decoder, tokens) : 0;
}

/* Of attention's output as it is computed, where it is not where the projection reads it. */
static int64_t
attended_width(const struct mw_decoder *decoder)
{
    return mw_decoder_exchanges_heads(decoder) ? mw_decoder_q(decoder) : 0;
}

/* Without what is fp32. */
static int64_t
layer_elements(const struct mw_decoder *decoder, int64_t tokens, uint32_t unread)
{
    int64_t widths = qkv_width(decoder) + mw_decoder_q(decoder) + attended_width(decoder) +
                     raw_width(decoder) + lora_widths(decoder);
    int64_t hidden = 2 * decoder->hidden + kept_width(unread, MW_OPERATOR_QKV, decoder->hidden) +
                     kept_width(unread, MW_OPERATOR_MLP_UP, decoder->hidden);

    return tokens * widths + mw_decoder_own_tokens(decoder, tokens) * hidden +
           up_elements(decoder, tokens) +
           kept_width(unread, MW_OPERATOR_MLP_DOWN, mw_decoder_inner(decoder, tokens)) +
           copies_elements(decoder, tokens) + results_elements(decoder, tokens);
}

/* The last layer's MLP_DOWN reads `act` while it writes `hidden`. */
static bool
hidden_is_apart(uint32_t unread)
{
    return unread >> MW_OPERATOR_MLP_DOWN & 1;
}

/* Of a product's input, where slices share tokens. */
static int64_t
gathered_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return decoder->slice.shares_tokens ? tokens * decoder->hidden : 0;
}

static int64_t
shared_elements(const struct mw_decoder *decoder, int64_t tokens, uint32_t unread)
{
    return wide_elements(decoder, tokens) + exchange_elements(decoder, tokens) +
           gathered_elements(decoder, tokens) +
           tokens * (branch_width(decoder) + (hidden_is_apart(unread) ? 2 : 1) * decoder->hidden);
}

/* Blocks of keys and values that pass around a ring, and their gradients. */
static int64_t
ring_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return mw_decoder_rings(decoder) ? 4 * tokens * 2 * mw_decoder_kv(decoder) : 0;
}

struct mw_activation_layout
mw_activation_layout(const struct mw_decoder *decoder, enum mw_dtype dtype, int64_t sequences,
                     int64_t seq, int64_t layers, uint32_t frozen)
{
    int64_t tokens = sequences * seq, element = mw_compute_element_bytes(dtype);
    uint32_t unread = frozen & ~decoder->lora_adapted;
    int64_t elements = layer_elements(decoder, tokens, unread);
    int64_t layer = mw_decoder_fp32_bytes(decoder, tokens) + element * elements;

    return (struct mw_activation_layout){
        .bytes = layers * layer + element * (shared_elements(decoder, tokens, unread) +
                                             ring_elements(decoder, tokens)),
        .layer_bytes = layer,
        .layers = layers,
        .layer_elements = elements,
        .element_bytes = element,
        .unread = unread,
    };
}

/* Of x, n1, o, x2, n2, act and raw. */
static int64_t
inputs_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return tokens * (4 * decoder->hidden + mw_decoder_q(decoder) + raw_width(decoder)) +
           mw_decoder_inner(decoder, tokens);
}

/* The gradients of out, up, n2, x2, qkv, n1 and heads. */
static int64_t
gradients_elements(const struct mw_decoder *decoder, int64_t tokens)
{
    return tokens * (4 * decoder->hidden + qkv_width(decoder) + raw_width(decoder)) +
           up_elements(decoder, tokens);
}

void
mw_activation_layout_part_operands(struct mw_activation_layout *layout,
                                   const struct mw_decoder *decoder, int64_t sequences, int64_t seq)
{
    int64_t tokens = sequences * seq, inputs = inputs_elements(decoder, tokens);

    layout->inputs_bytes = layout->element_bytes * inputs;
    layout->results_bytes = layout->element_bytes * gradients_elements(decoder, tokens);
    layout->layer_elements -= inputs;
    layout->layer_bytes -= layout->inputs_bytes;
    layout->bytes -= layout->layers * layout->inputs_bytes;
}

void
mw_activation_layout_add_coded(struct mw_activation_layout *layout,
                               const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                               int64_t layers)
{
    layout->coded_layers = layers;
    layout->coded_bytes = mw_dtype_bytes(MW_DTYPE_MXFP8, layout->layer_elements);
    layout->bytes +=
        layers * (mw_decoder_fp32_bytes(decoder, sequences * seq) + layout->coded_bytes);
}

static char *
behind_sums(const struct mw_decoder *decoder, int64_t tokens,
            const struct mw_activation_layout *layout, void *base)
{
    return (char *)base +
           (layout->layers + layout->coded_layers) * mw_decoder_fp32_bytes(decoder, tokens);
}

struct taker {
    char *at;
    int64_t element_bytes;
};

static void *
take(struct taker *from, int64_t elements)
{
    char *taken = from->at;

    from->at += elements * from->element_bytes;
    return taken;
}

static void *
take_kept(struct taker *from, const struct mw_activation_layout *layout, enum mw_operator operator_,
          int64_t elements, void *wide)
{
    return layout->unread >> operator_ & 1 ? wide : take(from, elements);
}

static struct mw_layer_gradients
shared_gradients(const struct mw_decoder *decoder, const struct mw_shared_activations *shared,
                 void *up)
{
    return (struct mw_layer_gradients){.out = shared->gradient,
                                       .up = mw_decoder_gated(decoder) ? up : shared->wide,
                                       .n2 = shared->branch,
                                       .x2 = shared->gradient,
                                       .heads = shared->wide,
                                       .qkv = shared->wide,
                                       .n1 = shared->branch,
                                       .x = shared->gradient};
}

void
mw_activations_place_operands(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                              const struct mw_activation_layout *layout, int64_t turn, void *inputs,
                              void *results, void *gradient, struct mw_layer_activations *layer)
{
    int64_t tokens = sequences * seq, one = tokens * decoder->hidden;
    struct taker in = {(char *)inputs + turn * layout->inputs_bytes, layout->element_bytes};
    struct taker of = {(char *)results + turn * layout->results_bytes, layout->element_bytes};
    struct taker before = {(char *)results + (turn - 1) * layout->results_bytes, 0};

    layer->x = take(&in, one);
    layer->n1 = take(&in, one);
    layer->o = take(&in, tokens * mw_decoder_q(decoder));
    layer->x2 = take(&in, one);
    layer->n2 = take(&in, one);
    layer->act = take(&in, mw_decoder_inner(decoder, tokens));
    layer->raw = take(&in, tokens * raw_width(decoder));
    layer->gradient.out = take(&of, one); /* first: the layer behind puts it there */
    layer->gradient.up = take(&of, up_elements(decoder, tokens));
    layer->gradient.n2 = take(&of, one);
    layer->gradient.x2 = take(&of, one);
    layer->gradient.qkv = take(&of, tokens * qkv_width(decoder));
    layer->gradient.n1 = take(&of, one);
    layer->gradient.heads =
        decoder->qk_norm ? take(&of, tokens * raw_width(decoder)) : layer->gradient.qkv;
    layer->gradient.x = turn ? take(&before, 0) : gradient;
}

struct mw_layer_activations
mw_activations_of_layer(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                        const struct mw_activation_layout *layout, void *base, int64_t layer)
{
    int64_t tokens = sequences * seq;
    int64_t one = mw_decoder_own_tokens(decoder, tokens) * decoder->hidden;
    struct taker from = {behind_sums(decoder, tokens, layout, base), layout->element_bytes};
    struct mw_shared_activations shared =
        mw_activations_shared(decoder, sequences, seq, layout, base);
    void *wide = shared.wide;
    struct mw_layer_activations activations = {0};

    int64_t room = layer < layout->layers ? layout->layers - 1 - layer : layout->layers - 1;
    take(&from, shared_elements(decoder, tokens, layout->unread) + room * layout->layer_elements);
    activations.lse =
        (float *)base + layer * mw_decoder_fp32_bytes(decoder, tokens) / (int64_t)sizeof(float);
    activations.router = activations.lse + tokens * decoder->heads;
    activations.router_lse =
        decoder->router_z_loss > 0 ? activations.router + tokens * decoder->experts : NULL;
    if (layout->inputs_bytes) { /* the rest has rooms of its own */
        activations.qkv = take(&from, tokens * qkv_width(decoder));
        activations.up = take(&from, up_elements(decoder, tokens));
        return activations;
    }
    activations.x = take(&from, one);
    activations.n1 = take_kept(&from, layout, MW_OPERATOR_QKV, one, wide);
    activations.qkv = take(&from, tokens * qkv_width(decoder));
    activations.o = take(&from, tokens * mw_decoder_q(decoder));
    activations.x2 = take(&from, one);
    activations.n2 = take_kept(&from, layout, MW_OPERATOR_MLP_UP, one, wide);
    activations.up = take(&from, up_elements(decoder, tokens));
    activations.act =
        take_kept(&from, layout, MW_OPERATOR_MLP_DOWN, mw_decoder_inner(decoder, tokens), wide);
    activations.copies = take(&from, copies_elements(decoder, tokens));
    activations.results = take(&from, results_elements(decoder, tokens));
    activations.raw = take(&from, tokens * raw_width(decoder));
    activations.attended = take(&from, tokens * attended_width(decoder));
    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        activations.lora[i] = i && mw_decoder_adapts(decoder, i)
                                  ? take(&from, tokens * mw_decoder_lora_width(decoder, i))
                                  : NULL;
    activations.gradient = shared_gradients(decoder, &shared, activations.up);
    return activations;
}

int64_t
mw_activations_lasting(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                       const struct mw_activation_layout *layout, int64_t kept)
{
    int64_t tokens = sequences * seq, elements = shared_elements(decoder, tokens, layout->unread);

    if (layout->coded_layers)
        return layout->bytes;
    return layout->layers * mw_decoder_fp32_bytes(decoder, tokens) +
           layout->element_bytes * (elements + kept * layout->layer_elements);
}

void *
mw_activations_coded(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                     const struct mw_activation_layout *layout, void *base, int64_t layer)
{
    int64_t tokens = sequences * seq;
    struct taker from = {behind_sums(decoder, tokens, layout, base), layout->element_bytes};

    if (layer < layout->layers)
        return NULL;
    take(&from, shared_elements(decoder, tokens, layout->unread) +
                    layout->layers * layout->layer_elements);
    return from.at + (layer - layout->layers) * layout->coded_bytes;
}

struct mw_shared_activations
mw_activations_shared(const struct mw_decoder *decoder, int64_t sequences, int64_t seq,
                      const struct mw_activation_layout *layout, void *base)
{
    int64_t tokens = sequences * seq;
    struct taker from = {behind_sums(decoder, tokens, layout, base), layout->element_bytes};
    struct mw_shared_activations activations = {.wide_elements = wide_elements(decoder, tokens)};

    /* Nothing passes while only what lasts is there: it is at the end. */
    struct taker last = {(char *)base + layout->bytes -
                             layout->element_bytes * ring_elements(decoder, tokens),
                         layout->element_bytes};

    for (int i = 0; i < 2 && mw_decoder_rings(decoder); i++) {
        activations.ring[i] = take(&last, tokens * 2 * mw_decoder_kv(decoder));
        activations.ring_gradient[i] = take(&last, tokens * 2 * mw_decoder_kv(decoder));
    }
    activations.wide = take(&from, activations.wide_elements);
    activations.branch = take(&from, tokens * branch_width(decoder));
    activations.gradient = take(&from, tokens * decoder->hidden);
    activations.final = activations.gradient;
    activations.hidden =
        hidden_is_apart(layout->unread) ? take(&from, tokens * decoder->hidden) : activations.wide;
    activations.exchange = take(&from, exchange_elements(decoder, tokens));
    activations.gathered = take(&from, gathered_elements(decoder, tokens));
    return activations;
}

int64_t
mw_logits_stride(const struct mw_decoder *decoder, enum mw_dtype dtype)
{
    int64_t element = mw_compute_element_bytes(dtype), line = CACHE_LINE_BYTES / element;
    int64_t whole = (decoder->vocab + line - 1) / line * line;

    return whole <= (element + LOGIT_SUM_BYTES) / element * decoder->vocab ? whole : decoder->vocab;
}
