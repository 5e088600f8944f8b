/*
 * How a mixture's MLP runs (docs/MODEL.md 2.6): its router and its experts.
 *
 * A token's hidden state is copied once for each expert that it visits.  Copies lie sorted by
 * expert, those of an expert in the order of their tokens, so that all products of a matrix with
 * its expert's copies are one grouped product.  What is more than an expert takes is dropped: it
 * has no copy.
 *
 * Where experts are spread over ranks, copies lie ready to be sent, and what comes from all ranks
 * is sorted by expert again: those of an expert in the order of ranks, as they lie where one rank
 * has all tokens.  So the router, the experts' products, and the sum of results are operators of
 * their own, between which the trainer exchanges (exec/trainer/dispatch.c).
 *
 * Kept are the router's probabilities; where copies lie follows from these, and is found anew by
 * each operator that needs it.  Between the backward of the two operators the gradients of the
 * weights of a token's experts lie in `branch`, which nobody else uses there.
 */
#include "exec/operators/internal.h"
#include "plan/gates.h"

/* Where a token's copies lie. */
static struct mw_routing
routing_of(const struct mw_operators *operators, const struct mw_compute *compute)
{
    struct mw_routing routing =
        mw_operator_routing(operators->routing, compute->decoder, mw_operator_tokens(compute));

    routing.draw = compute->draw;
    operators->kernels->route(operators->device, &routing, compute->layer->router);
    return routing;
}

/* [T, visits], from the backward of the results' sum to that of the router. */
static float *
weight_gradients(const struct mw_compute *compute)
{
    uintptr_t branch = (uintptr_t)compute->shared->branch, unit = sizeof(float);

    return (float *)((branch + unit - 1) / unit * unit);
}

/* Of a matrix [rows, columns] of each expert, the first of which is in the part at `at`. */
struct matrices {
    int64_t at, rows, columns;
};

static struct matrices
matrices_of(const struct mw_compute *compute, int64_t twin)
{
    const struct mw_part_matrix *matrix = &compute->part->matrix;
    int64_t experts = mw_decoder_experts_here(compute->decoder);
    int64_t all = experts * matrix->rows * matrix->columns;

    return (struct matrices){matrix->at + twin * all, matrix->rows, matrix->columns};
}

/* Where the copies of each expert begin, and all end. */
struct groups {
    const int32_t *begin;
    int64_t count;
};

static struct groups
groups_of(const struct mw_routing *routing)
{
    return (struct groups){routing->begin, routing->experts};
}

static struct groups
groups_here(const struct mw_compute *compute)
{
    return (struct groups){compute->visits->begin, mw_decoder_experts_here(compute->decoder)};
}

static void
multiply_groups(const struct mw_operators *operators, struct groups groups,
                struct mw_product product, void *c, const void *a, const void *b)
{
    operators->kernels->multiply_groups(operators->device, &product, groups.begin, groups.count, c,
                                        a, b, operators->scratch);
}

/* y = x W^T */
static void
forward(const struct mw_operators *operators, const struct mw_compute *compute,
        struct groups groups, struct matrices w, void *y, const void *x)
{
    struct mw_product product = {.n = w.rows, .k = w.columns, .b_transposed = true};

    multiply_groups(operators, groups, product, y, x, mw_operator_param_at(compute, w.at));
}

/* dx (+)= dy W */
static void
input_gradient(const struct mw_operators *operators, const struct mw_compute *compute,
               struct groups groups, struct matrices w, void *dx, const void *dy, bool accumulate)
{
    struct mw_product product = {.n = w.columns, .k = w.rows, .accumulate = accumulate};

    multiply_groups(operators, groups, product, dx, dy, mw_operator_param_at(compute, w.at));
}

/* dW (+)= dy^T x; of an expert that no token visits 0. */
static void
weight_gradient(const struct mw_operators *operators, const struct mw_compute *compute,
                struct groups groups, struct matrices w, const void *dy, const void *x)
{
    struct mw_gradient to = mw_operator_gradient_at(compute, w.at);
    struct mw_product product = {
        .m = w.rows, .n = w.columns, .a_transposed = true, .accumulate = to.accumulate};

    multiply_groups(operators, groups, product, to.data, dy, x);
}

/* Gate and up lie one behind the other, each of all copies. */
static int64_t
twin_at(const struct mw_compute *compute, int64_t twin)
{
    return twin * mw_decoder_inner(compute->decoder, mw_operator_tokens(compute));
}

/* --- the router ------------------------------------------------------------------------------- */

/* Probabilities take the place of the scores. */
static struct mw_routing
find_routing(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;

    operators->kernels->router_softmax(operators->device, layer->router, layer->router_lse,
                                       mw_operator_tokens(compute), compute->decoder->experts);
    struct mw_routing routing = routing_of(operators, compute);
    if (compute->router_losses)
        operators->kernels->router_losses(operators->device, &routing, compute->router_losses,
                                          layer->router, layer->router_lse);
    return routing;
}

/* Losses are means over the layers.  gradient_scale divides by the tokens already. */
static struct mw_router_slopes
router_slopes(const struct mw_compute *compute)
{
    const struct mw_decoder *decoder = compute->decoder;
    double scale = (double)compute->gradient_scale / (double)decoder->layers;
    double share = (double)decoder->experts / (double)mw_operator_tokens(compute);

    return (struct mw_router_slopes){
        .aux = (float)(scale * decoder->router_aux_loss * share),
        .z = (float)(scale * decoder->router_z_loss * 2),
        .lse = compute->layer->router_lse,
    };
}

/* --- up: the router, the copies, gate and up -------------------------------------------------- */

/* In rows of fp32 probabilities, whose place the gradients of their scores take as elements. */
static int64_t
score_stride(const struct mw_compute *compute)
{
    return compute->decoder->experts * (int64_t)sizeof(float) /
           mw_compute_element_bytes(compute->dtype);
}

static int
up_products(const struct mw_compute *c, struct mw_multiply out[MW_MULTIPLIES_MAX])
{
    int64_t tokens = mw_operator_tokens(c), hidden = c->decoder->hidden;
    int64_t experts = c->decoder->experts, at = c->part->router_at;
    int count = 0;

    if (!c->backward) {
        out[count++] = (struct mw_multiply){
            .product =
                {.m = tokens, .n = experts, .k = hidden, .b_transposed = true, .c_fp32 = true},
            .c = c->layer->router,
            .a = c->layer->n2,
            .b = mw_operator_param_at(c, at),
        };
        return count;
    }
    out[count++] = (struct mw_multiply){
        .product =
            {.m = tokens, .n = hidden, .k = experts, .ld_a = score_stride(c), .accumulate = true},
        .c = c->layer->gradient.n2,
        .a = c->layer->router,
        .b = mw_operator_param_at(c, at),
    };
    if (!c->gradient)
        return count;
    struct mw_gradient to = mw_operator_gradient_at(c, at);
    out[count++] = (struct mw_multiply){
        .product = {.m = experts,
                    .n = hidden,
                    .k = tokens,
                    .ld_a = score_stride(c),
                    .a_transposed = true,
                    .accumulate = to.accumulate},
        .c = to.data,
        .a = c->layer->router,
        .b = c->layer->n2,
    };
    return count;
}

static void
gate_and_up(const struct mw_operators *operators, const struct mw_compute *compute,
            struct groups groups)
{
    const struct mw_layer_activations *layer = compute->layer;

    for (int64_t twin = 0; twin <= 1; twin++)
        forward(operators, compute, groups, matrices_of(compute, twin),
                mw_operator_at(compute, layer->up, twin_at(compute, twin)), layer->copies);
}

/* The copies' gradient takes the place of the copies. */
static void
gate_and_up_back(const struct mw_operators *operators, const struct mw_compute *compute,
                 struct groups groups)
{
    const struct mw_layer_activations *layer = compute->layer;

    for (int64_t twin = 0; twin <= 1 && compute->gradient; twin++)
        weight_gradient(operators, compute, groups, matrices_of(compute, twin),
                        mw_operator_read_at(compute, layer->gradient.up, twin_at(compute, twin)),
                        layer->copies);
    for (int64_t twin = 0; twin <= 1; twin++)
        input_gradient(operators, compute, groups, matrices_of(compute, twin), layer->copies,
                       mw_operator_read_at(compute, layer->gradient.up, twin_at(compute, twin)),
                       twin > 0);
}

static void
up_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;

    struct mw_routing routing = find_routing(operators, compute);

    operators->kernels->copy_tokens(operators->device, &routing, layer->copies, layer->n2,
                                    compute->decoder->hidden);
    gate_and_up(operators, compute, groups_of(&routing));
}

/* The products with the router's weights, which come behind this, add to what the copies give. */
static void
up_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;
    struct mw_routing routing = routing_of(operators, compute);

    operators->kernels->router_backward(operators->device, &routing, layer->router,
                                        score_stride(compute), layer->router,
                                        weight_gradients(compute), router_slopes(compute));
    gate_and_up_back(operators, compute, groups_of(&routing));
    operators->kernels->sum_copies(operators->device, &routing, layer->gradient.n2, layer->copies,
                                   compute->decoder->hidden);
}

const struct mw_operator_runner mw_run_mixture_up = {
    .forward.behind = up_forward,
    .backward.before = up_backward,
    .products = up_products,
};

/* --- down: the results, weighted and summed --------------------------------------------------- */

static void
down_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;
    struct mw_routing routing = routing_of(operators, compute);

    forward(operators, compute, groups_of(&routing), matrices_of(compute, 0), layer->results,
            layer->act);
    operators->kernels->weigh_copies(operators->device, &routing, compute->output, layer->x2,
                                     layer->results, compute->decoder->hidden);
}

/* The results' gradient takes the place of the results. */
static void
down_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;
    struct mw_routing routing = routing_of(operators, compute);

    operators->kernels->weigh_backward(operators->device, &routing, weight_gradients(compute),
                                       layer->results, layer->gradient.out,
                                       compute->decoder->hidden);
    if (compute->gradient)
        weight_gradient(operators, compute, groups_of(&routing), matrices_of(compute, 0),
                        layer->results, layer->act);
    input_gradient(operators, compute, groups_of(&routing), matrices_of(compute, 0),
                   compute->shared->wide, layer->results, false);
}

const struct mw_operator_runner mw_run_mixture_down = {
    .forward.before = down_forward,
    .backward.before = down_backward,
};

/* --- experts that are spread over ranks ------------------------------------------------------- */

/* Copies of this rank's tokens, by the expert that they go to. */
static void
tell_visits(const struct mw_compute *compute, const struct mw_routing *routing)
{
    int32_t *own =
        compute->visits->counts + compute->decoder->spread.index * compute->decoder->experts;

    for (int64_t e = 0; e < routing->experts; e++)
        own[e] = routing->begin[e + 1] - routing->begin[e];
}

static void
router_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;

    struct mw_routing routing = find_routing(operators, compute);

    operators->kernels->copy_tokens(operators->device, &routing, compute->shared->exchange,
                                    layer->n2, compute->decoder->hidden);
    tell_visits(compute, &routing);
}

static void
router_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;
    struct mw_routing routing = routing_of(operators, compute);

    operators->kernels->router_backward(operators->device, &routing, layer->router,
                                        score_stride(compute), layer->router,
                                        weight_gradients(compute), router_slopes(compute));
    operators->kernels->sum_copies(operators->device, &routing, layer->gradient.n2,
                                   compute->shared->exchange, compute->decoder->hidden);
}

const struct mw_operator_runner mw_run_spread_router = {
    .forward.behind = router_forward,
    .backward.before = router_backward,
    .products = up_products,
};

static void
experts_up_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    gate_and_up(operators, compute, groups_here(compute));
}

static void
experts_up_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    gate_and_up_back(operators, compute, groups_here(compute));
}

const struct mw_operator_runner mw_run_experts_up = {
    .forward.before = experts_up_forward,
    .backward.before = experts_up_backward,
};

static void
experts_down_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    forward(operators, compute, groups_here(compute), matrices_of(compute, 0),
            compute->shared->exchange, compute->layer->act);
}

static void
experts_down_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const void *results = compute->shared->exchange;

    if (compute->gradient)
        weight_gradient(operators, compute, groups_here(compute), matrices_of(compute, 0), results,
                        compute->layer->act);
    input_gradient(operators, compute, groups_here(compute), matrices_of(compute, 0),
                   compute->shared->wide, results, false);
}

const struct mw_operator_runner mw_run_experts_down = {
    .forward.before = experts_down_forward,
    .backward.before = experts_down_backward,
};

static void
sum_forward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;
    struct mw_routing routing = routing_of(operators, compute);

    operators->kernels->weigh_copies(operators->device, &routing, compute->output, layer->x2,
                                     layer->results, compute->decoder->hidden);
}

static void
sum_backward(const struct mw_operators *operators, const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;
    struct mw_routing routing = routing_of(operators, compute);

    operators->kernels->weigh_backward(operators->device, &routing, weight_gradients(compute),
                                       layer->results, layer->gradient.out,
                                       compute->decoder->hidden);
    tell_visits(compute, &routing);
}

const struct mw_operator_runner mw_run_spread_sum = {
    .forward.before = sum_forward,
    .backward.before = sum_backward,
};

/* Gradients go the ways of what they are of, the other way round. */
struct mw_dispatched
mw_compute_dispatched(const struct mw_compute *compute)
{
    const struct mw_layer_activations *layer = compute->layer;
    void *exchange = compute->shared->exchange;
    bool up = compute->operator_ == MW_OPERATOR_EXPERTS_UP;

    if (compute->backward)
        return up ? (struct mw_dispatched){layer->copies, exchange, true}
                  : (struct mw_dispatched){layer->results, exchange, false};
    return up ? (struct mw_dispatched){exchange, layer->copies, false}
              : (struct mw_dispatched){exchange, layer->results, true};
}

/* --- room outside of the arena ---------------------------------------------------------------- */

struct mw_routing
mw_operator_routing(void *room, const struct mw_decoder *decoder, int64_t tokens)
{
    int64_t copies = tokens * decoder->experts_per_token;
    int32_t *at = room;

    return (struct mw_routing){
        .tokens = tokens,
        .experts = decoder->experts,
        .visits = decoder->experts_per_token,
        .capacity = decoder->rows_of_expert,
        .renormalizes = decoder->router_renormalizes,
        .draws = mw_gate_row((int)decoder->gate)->may_skip,
        .expert = at,
        .row = at + copies,
        .weight = (float *)(void *)(at + 2 * copies),
        .begin = at + 3 * copies,
        .chosen = at + 3 * copies + decoder->experts + 1,
    };
}

int64_t
mw_operator_routing_bytes(const struct mw_decoder *decoder, int64_t tokens)
{
    int64_t copies = tokens * decoder->experts_per_token;

    return decoder->experts ? (int64_t)sizeof(int32_t) * (3 * copies + 2 * decoder->experts + 1)
                            : 0;
}
