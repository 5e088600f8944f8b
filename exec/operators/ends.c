/* How the operators at the model's ends run: embedding; final norm, logits, loss. */
#include "exec/operators/internal.h"

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void
clear(const struct mw_operators *operators, const struct mw_compute *compute, struct mw_gradient to,
      int64_t elements)
{
    operators->kernels->clear(operators->device, to.data,
                              elements * mw_compute_element_bytes(compute->dtype));
}

/* --- embedding ------------------------------------------------------------------------------- */

/* Of all tokens, also where slices share them: then it is scattered from there. */
static void *
embedded(const struct mw_compute *compute)
{
    return compute->decoder->slice.shares_tokens ? compute->shared->branch : compute->input;
}

/* A slice has the rows of its own tokens, and leaves those of others at 0: they are summed up. */
static void
embed_tokens(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_decoder *decoder = compute->decoder;
    const struct mw_part_matrix *tokens = &compute->part->matrix;
    int64_t count = mw_operator_tokens(compute), hidden = decoder->hidden;
    int64_t first = mw_decoder_first_token(decoder) + tokens->first_row;

    if (mw_decoder_is_slice(decoder) && !tokens->first_row)
        operators->kernels->clear(operators->device, embedded(compute),
                                  count * hidden * mw_compute_element_bytes(compute->dtype));
    operators->kernels->embedding_forward(operators->device, embedded(compute),
                                          mw_operator_param_at(compute, tokens->at), compute->ids,
                                          count, hidden, (int32_t)first, (int32_t)tokens->rows);
}

/* Tokens of a sequence whose positions are in the part's rows of the table: from this token of the
 * rank's on, and from this row of the part's. */
struct positions {
    int64_t token, row, count;
};

static struct positions
positions_of(const struct mw_compute *compute, const struct mw_context_span *span)
{
    const struct mw_part_matrix *table = &compute->part->positions;
    int64_t begin = larger(span->first, table->first_row);
    int64_t end = smaller(span->first + span->count, table->first_row + table->rows);

    return (struct positions){span->at + begin - span->first, begin - table->first_row,
                              end > begin ? end - begin : 0};
}

static void
add_positions(const struct mw_operators *operators, const struct mw_compute *compute,
              const struct positions *it)
{
    const struct mw_part_matrix *table = &compute->part->positions;
    int64_t hidden = compute->decoder->hidden;

    for (int64_t s = 0; it->count && s < compute->sequences; s++)
        operators->kernels->position_forward(
            operators->device,
            mw_operator_at(compute, embedded(compute), (s * compute->seq + it->token) * hidden),
            mw_operator_param_at(compute, table->at + it->row * hidden), 1, it->count, hidden);
}

static void
embedding_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct mw_context_span spans[MW_CONTEXT_SPANS_MAX];
    int count = mw_context_spans(&compute->decoder->context, compute->seq, spans);

    if (compute->part->matrix.rows)
        embed_tokens(operators, compute);
    for (int i = 0; i < count && mw_decoder_is_first_slice(compute->decoder); i++) {
        struct positions it = positions_of(compute, &spans[i]);
        add_positions(operators, compute, &it);
    }
}

/* One sequence after the other; `to` is of the part's first row. */
static void
sum_positions(const struct mw_operators *operators, const struct mw_compute *compute,
              const struct positions *it, struct mw_gradient to)
{
    int64_t hidden = compute->decoder->hidden, rows = compute->part->positions.rows - it->row;

    to.data = mw_operator_at(compute, to.data, it->row * hidden);
    for (int64_t s = 0; it->count && s < compute->sequences; s++) {
        operators->kernels->position_backward(
            operators->device, to,
            mw_operator_read_at(compute, compute->shared->gradient,
                                (s * compute->seq + it->token) * hidden),
            1, it->count, hidden, rows);
        to.accumulate = true;
    }
}

/* The kernel takes whole sequences; where a part ends within them, or begins, or a rank has some of
 * their tokens, one after the other. */
static void
position_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_part_matrix *table = &compute->part->positions;
    struct mw_gradient to = mw_operator_gradient_at(compute, table->at);
    int64_t hidden = compute->decoder->hidden;
    struct mw_context_span spans[MW_CONTEXT_SPANS_MAX];
    int count = mw_context_spans(&compute->decoder->context, compute->seq, spans);
    struct positions first = positions_of(compute, &spans[0]);

    if (count == 1 && !spans[0].first && first.count == compute->seq) {
        operators->kernels->position_backward(operators->device, to, compute->shared->gradient,
                                              compute->sequences, compute->seq, hidden,
                                              table->rows);
        return;
    }
    bool fills = count == 1 && first.count && !first.row;
    if (!fills && !to.accumulate)
        clear(operators, compute, to, table->rows * hidden);
    to.accumulate |= !fills;
    for (int i = 0; i < count; i++) {
        struct positions it = positions_of(compute, &spans[i]);
        sum_positions(operators, compute, &it, to);
    }
}

static void
embedding_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_part_matrix *tokens = &compute->part->matrix;

    if (!compute->gradient)
        return;
    if (tokens->rows)
        operators->kernels->embedding_backward(
            operators->device, mw_operator_gradient_at(compute, tokens->at),
            compute->shared->gradient, compute->ids, mw_operator_tokens(compute),
            compute->decoder->hidden,
            (int32_t)(mw_decoder_first_token(compute->decoder) + tokens->first_row),
            (int32_t)tokens->rows, operators->scratch);
    if (compute->part->positions.rows)
        position_backward(operators, compute);
}

const struct mw_operator_runner mw_run_embedding = {
    .forward.before = embedding_forward,
    .backward.before = embedding_backward,
};

/* --- final norm, logits, loss ---------------------------------------------------------------- */

/* No residual path: nothing but the norm reads what the last layer puts out. */
static struct mw_operator_norm
norm_of(const struct mw_compute *compute)
{
    const struct mw_shared_activations *shared = compute->shared;

    void *dx = compute->into_last ? compute->into_last : shared->gradient;

    return (struct mw_operator_norm){.y = mw_compute_own_rows(compute, shared->final),
                                     .x = shared->hidden,
                                     .dx = mw_compute_own_rows(compute, dx),
                                     .dy = mw_compute_own_rows(compute, shared->branch)};
}

static void
final_norm_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct mw_operator_norm norm = norm_of(compute);

    mw_operator_norm_forward(operators, compute, &norm);
}

static void
final_norm_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct mw_operator_norm norm = norm_of(compute);

    mw_operator_norm_backward(operators, compute, &norm);
}

const struct mw_operator_runner mw_run_final_norm = {
    .forward.before = final_norm_forward,
    .backward.before = final_norm_backward,
};

/* A tied embedding's positions are no part of the logits: their gradient starts at zero here, and
 * the embedding's backward adds to it. */
static void
logits_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_part_matrix *positions = &compute->part->positions;

    if (compute->gradient && !compute->gradient_adds && positions->rows)
        clear(operators, compute, mw_operator_gradient_at(compute, positions->at),
              positions->rows * positions->columns);
}

static struct mw_operator_linear
logits_linear(const struct mw_compute *c, int number)
{
    int64_t at = c->first_token * c->decoder->hidden;

    return (struct mw_operator_linear){
        .tokens = c->tokens,
        .in = c->decoder->hidden,
        .out = mw_logits_stride(c->decoder, c->dtype),
        .x = mw_operator_read_at(c, c->shared->final, at),
        .y = c->logits,
        .dy = c->logits,
        .dx = mw_operator_at(c, c->shared->branch, at),
    };
}

const struct mw_operator_runner mw_run_logits = {
    .backward.before = logits_backward,
    .linear = logits_linear,
};

/* What a slice says of each token to the others. */
static void
slice_loss_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_decoder *decoder = compute->decoder;
    float *own =
        mw_compute_loss_sums(compute) + decoder->slice.index * compute->tokens * MW_LOSS_SUMS;

    operators->kernels->slice_entropy_sums(
        operators->device, own, compute->logits, mw_logits_stride(decoder, compute->dtype),
        compute->targets + compute->first_token, compute->tokens, mw_decoder_tokens(decoder),
        (int32_t)mw_decoder_first_token(decoder));
}

static void
slice_loss_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_decoder *decoder = compute->decoder;
    bool counts = mw_decoder_is_first_slice(decoder);

    operators->kernels->slice_entropy(
        operators->device, counts ? compute->loss : NULL, operators->token_scratch, compute->logits,
        mw_logits_stride(decoder, compute->dtype), mw_compute_loss_sums(compute),
        decoder->slice.count, compute->targets + compute->first_token, compute->tokens,
        mw_decoder_tokens(decoder), (int32_t)mw_decoder_first_token(decoder),
        compute->gradient_scale);
}

static void
loss_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    if (mw_decoder_is_slice(compute->decoder)) {
        slice_loss_forward(operators, compute);
        return;
    }
    int64_t stride = mw_logits_stride(compute->decoder, compute->dtype);

    operators->kernels->cross_entropy(operators->device, compute->loss, operators->token_scratch,
                                      compute->logits, stride, compute->logits, false, stride,
                                      compute->targets + compute->first_token, compute->tokens,
                                      compute->decoder->vocab, compute->gradient_scale);
}

/* That of the whole model has made the gradient forward. */
static void
loss_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    if (mw_decoder_is_slice(compute->decoder))
        slice_loss_backward(operators, compute);
}

const struct mw_operator_runner mw_run_loss = {
    .forward.before = loss_forward,
    .backward.before = loss_backward,
};
