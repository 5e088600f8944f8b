/* Of the model's ends. */
#include <math.h>

#include "tests/operator_outputs_internal.h"

void
mw_outputs_embedding_forward(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t hidden = c->decoder->hidden;
    const struct mw_part_matrix *matrix = &c->part->matrix;

    mw_outputs_add(l, "output", c->input, mw_outputs_tokens(l), hidden, hidden,
                   matrix->rows && !matrix->first_row)
        ->exact = true;
}

static void
list_tokens_gradient(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    const struct mw_part_matrix *matrix = &c->part->matrix;
    int64_t hidden = c->decoder->hidden;
    struct mw_operator_output *output =
        mw_outputs_add(l, "tokens' gradient", (uint16_t *)c->gradient + matrix->at, matrix->rows,
                       hidden, hidden, mw_outputs_fresh_gradient(l));

    output->terms += mw_outputs_tokens(l);
    mw_outputs_add_old(l, output);
    for (int64_t t = 0; t < mw_outputs_tokens(l); t++) {
        int64_t row = c->ids[t] - matrix->first_row;
        for (int64_t i = 0; row >= 0 && row < matrix->rows && i < hidden; i++)
            output->size[row * hidden + i] +=
                fabs(mw_outputs_load(l, c->shared->gradient, t * hidden + i));
    }
}

/* A table that is cut takes one sequence after the other. */
static void
list_positions_gradient(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    const struct mw_part_matrix *positions = &c->part->positions;
    int64_t hidden = c->decoder->hidden;
    bool whole = !positions->first_row && positions->rows >= c->seq;
    struct mw_operator_output *output =
        mw_outputs_add(l, "positions' gradient", (uint16_t *)c->gradient + positions->at,
                       positions->rows, hidden, hidden, mw_outputs_fresh_gradient(l));

    output->terms += c->sequences;
    mw_outputs_add_old(l, output);
    for (int64_t t = 0; t < mw_outputs_tokens(l); t++) {
        int64_t row = t % c->seq - positions->first_row;
        for (int64_t i = 0; row >= 0 && row < positions->rows && i < hidden; i++)
            output->size[row * hidden + i] +=
                fabs(mw_outputs_load(l, c->shared->gradient, t * hidden + i));
    }
    for (int64_t i = 0; !whole && i < positions->rows * hidden; i++)
        output->rounded[i] = (double)c->sequences * output->size[i];
}

void
mw_outputs_embedding_backward(struct mw_output_list *l)
{
    if (l->compute->part->matrix.rows)
        list_tokens_gradient(l);
    if (l->compute->part->positions.rows)
        list_positions_gradient(l);
}

void
mw_outputs_logits_backward(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    const struct mw_part_matrix *positions = &c->part->positions;

    mw_outputs_backward_products(l);
    if (positions->rows && mw_outputs_fresh_gradient(l))
        mw_outputs_add(l, "positions' gradient", (uint16_t *)c->gradient + positions->at,
                       positions->rows, positions->columns, positions->columns, true)
            ->exact = true;
}

/* Returns at most what the row's loss has for terms. */
static double
size_row(const struct mw_output_list *l, int64_t row, double *size)
{
    const struct mw_compute *c = l->compute;
    int64_t vocab = c->decoder->vocab, target = c->targets[c->first_token + row];
    const uint16_t *logits =
        (const uint16_t *)c->logits + row * mw_logits_stride(c->decoder, c->dtype);
    double largest = 0, sum = 0;

    if (target < 0)
        return 0;
    for (int64_t v = 0; v < vocab; v++) {
        largest = fmax(largest, fabs(mw_outputs_load(l, logits, v)));
        sum += exp(mw_outputs_load(l, logits, v));
    }
    double range = 1 + 2 * largest + log((double)vocab);
    for (int64_t v = 0; v < vocab; v++)
        size[v] = (double)c->gradient_scale * range *
                  (exp(mw_outputs_load(l, logits, v)) / sum + (v == target));
    return range;
}

void
mw_outputs_loss(struct mw_output_list *l)
{
    const struct mw_compute *c = l->compute;
    int64_t stride = mw_logits_stride(c->decoder, c->dtype);
    struct mw_operator_output logits =
        *mw_outputs_add(l, "gradient of logits", c->logits, c->tokens, stride, stride, false);
    struct mw_operator_output *loss = mw_outputs_add(l, "loss", c->loss, 1, 1, 1, false);

    loss->kind = MW_OUTPUT_FP64;
    loss->terms += c->decoder->vocab;
    g_array_index(l->outputs, struct mw_operator_output, 0).terms += c->decoder->vocab;
    for (int64_t r = 0; r < c->tokens; r++)
        loss->size[0] += size_row(l, r, logits.size + r * stride);
}
