/* Every gradient that backward makes reaches its home once, and is counted in the norm once:
 * follows the ops of random plans with lists of contributions in place of numbers. */
#include "planner/sizing/internal.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define PLANS MW_CASES(4000)

/* Backward ops whose gradients are in there, each as often as they were added. */
struct content {
    GArray *fresh; /* in 16 bits, or at home */
    GArray *sum;   /* of a pinned buffer, beside them */
};

struct flow {
    const struct mw_sizing *sizing;
    const struct mw_plan *plan;
    struct content *slots;
    int64_t *parts_in_norm; /* [tensor_count] */
    int64_t *chunks_in_norm;
};

static bool
is_gradient_slot(const struct flow *flow, uint32_t slot)
{
    int purpose = flow->plan->slots[slot].purpose;

    return purpose == MW_PURPOSE_GRADIENTS || purpose == MW_PURPOSE_GRADIENT_BUFFERS;
}

static void
add_all(GArray *to, const GArray *from)
{
    g_array_append_vals(to, from->data, from->len);
}

/* Homes hold the parts of a unit side by side. */
static void
drop_part(const struct flow *flow, GArray *from, uint32_t tile)
{
    for (guint i = from->len; i-- > 0;)
        if (flow->plan->ops[g_array_index(from, uint32_t, i)].tile == tile)
            g_array_remove_index(from, i);
}

static void
add_part(const struct flow *flow, GArray *to, const GArray *from, uint32_t tile)
{
    for (guint i = 0; i < from->len; i++) {
        uint32_t op = g_array_index(from, uint32_t, i);
        if (flow->plan->ops[op].tile == tile)
            g_array_append_val(to, op);
    }
}

static const struct mw_use *
find_use(const struct flow *flow, const struct mw_op *op, bool reads)
{
    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if ((flow->plan->uses[u].mode == MW_USE_READ) == reads)
            return &flow->plan->uses[u];
    return NULL;
}

/* --- what ops do ------------------------------------------------------------------------------ */

/* The operator of an op, if it has parameters; NULL: it has none. */
static const struct mw_operator_info *
find_operator(const struct flow *flow, const struct mw_op *op)
{
    enum mw_operator operator_ = flow->plan->works[op->work].operator_;
    bool tied = mw_sizing_tied(flow->sizing);

    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &flow->sizing->classes[c];
        bool outside = c == MW_CLASS_HEAD || c == MW_CLASS_TAIL;
        if (!class->blocks || outside != (op->layer < 0) ||
            (!outside && mw_sizing_layer_class(flow->sizing, op->layer) != (enum mw_class)c))
            continue;
        for (int i = 0; i < class->operator_count; i++)
            if (class->operators[i].operator_ == operator_ &&
                (class->operators[i].params || (tied && operator_ == MW_OPERATOR_LOGITS)))
                return &class->operators[i];
    }
    return NULL;
}

/* Whether the next op that computes makes the gradients of its operator's weights: it makes nothing
 * else, or it is the last piece of a product in pieces. */
static bool
leaves_gradient(const struct flow *flow, const struct mw_op *op)
{
    const struct mw_plan *plan = flow->plan;
    const struct mw_op *next = op + 1, *end = plan->ops + plan->op_count;

    while (next < end && next->lane != op->lane)
        next++;
    if (next == end)
        return false;
    const struct mw_work *one = &plan->works[op->work], *other = &plan->works[next->work];
    bool apart = one->object == MW_OBJECT_ACTIVATIONS && other->object == MW_OBJECT_GRADIENTS;
    bool piece = next->phase == op->phase && next->shard == 1 && op->shard != 1;
    return (apart || piece) && other->kind == MW_OP_COMPUTE && next->layer == op->layer &&
           other->operator_ == one->operator_;
}

static bool
makes_gradient(const struct flow *flow, const struct mw_op *op)
{
    const struct mw_operator_info *info = find_operator(flow, op);

    return info && info->trained && !leaves_gradient(flow, op);
}

static void
compute(struct flow *flow, uint32_t o)
{
    const struct mw_op *op = &flow->plan->ops[o];
    int made = 0;

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
        const struct mw_use *use = &flow->plan->uses[u];
        if (!is_gradient_slot(flow, use->slot))
            continue;
        if (use->mode == MW_USE_DEFINE)
            g_array_set_size(flow->slots[use->slot].fresh, 0);
        g_array_append_val(flow->slots[use->slot].fresh, o);
        made++;
    }
    g_assert_cmpint(made, <=, 1);
    if (find_operator(flow, op))
        g_assert_cmpint(made, ==, makes_gradient(flow, op));
}

/* What was read takes the place of the same part's content, or is added to it. */
static void
deliver(struct flow *flow, const struct mw_op *op, const GArray *from, const struct mw_use *to,
        bool adds)
{
    GArray *content = flow->slots[to->slot].fresh;

    if (to->mode == MW_USE_DEFINE)
        g_array_set_size(content, 0);
    else if (!adds)
        drop_part(flow, content, op->tile);
    add_all(content, from);
}

static void
accumulate(struct flow *flow, const struct mw_op *op)
{
    const struct mw_use *first = &flow->plan->uses[op->use_begin], *second = first + 1;
    struct content *buffer = &flow->slots[first->slot];

    g_assert_true(is_gradient_slot(flow, first->slot) ||
                  flow->plan->slots[first->slot].purpose == MW_PURPOSE_SHARD_BUFFERS);
    if (op->use_count == 2) {
        deliver(flow, op, buffer->fresh, second, op->micro_batch > 0);
        return;
    }
    if (!op->micro_batch)
        g_array_set_size(buffer->sum, 0);
    add_all(buffer->sum, buffer->fresh);
}

/* On the way to the drives the sum goes there, where the host has one; one of the GPU's passes. */
static const GArray *
bound_for_nvme(const struct flow *flow, const struct mw_op *op)
{
    const struct content *buffer = &flow->slots[find_use(flow, op, true)->slot];

    return flow->sizing->gradients_summed && !mw_sizing_sums_passing(flow->sizing) ? buffer->sum
                                                                                   : buffer->fresh;
}

static void
move(struct flow *flow, const struct mw_op *op, int kind)
{
    const struct mw_use *from = find_use(flow, op, true), *to = find_use(flow, op, false);

    if (!from || !to)
        return; /* reduced in place */
    if (kind == MW_OP_NVME_READ) {
        GArray *sum = flow->slots[to->slot].sum;
        g_array_set_size(sum, 0);
        add_part(flow, sum, flow->slots[from->slot].fresh, op->tile);
    } else if (kind == MW_OP_NVME_WRITE) {
        deliver(flow, op, bound_for_nvme(flow, op), to, false);
    } else {
        deliver(flow, op, flow->slots[from->slot].fresh, to, false);
    }
}

static bool
moves_gradients(const struct flow *flow, const struct mw_op *op)
{
    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if (is_gradient_slot(flow, flow->plan->uses[u].slot))
            return true;
    return flow->plan->works[op->work].kind == MW_OP_ACCUMULATE;
}

/* --- what has to be there --------------------------------------------------------------------- */

/* The unit whose gradient an op makes. */
static uint32_t
unit_of(const struct flow *flow, const struct mw_op *op)
{
    int operator_ = flow->plan->works[op->work].operator_;

    if (op->layer < 0 && operator_ == MW_OPERATOR_LOGITS && mw_sizing_tied(flow->sizing))
        return 0;
    if (op->layer < 0 && operator_ == MW_OPERATOR_PROJECTION)
        operator_ = MW_OPERATOR_LOGITS; /* tied: what they have beside the embedding's weight */
    for (uint32_t t = flow->plan->tensor_count; t-- > 0;)
        if (flow->plan->tensors[t].layer == op->layer &&
            flow->plan->tensors[t].operators & 1u << operator_)
            return t;
    g_assert_not_reached();
}

static int64_t
expected_parts(const struct flow *flow, uint32_t unit)
{
    enum mw_operator largest = mw_sizing_tensor_operator(flow->sizing, unit);
    bool tied = mw_sizing_tied(flow->sizing);
    int64_t logits = mw_sizing_token_parts(flow->sizing, MW_OPERATOR_LOGITS);

    if (unit == 0 && tied)
        return 1 + logits;
    return mw_sizing_token_parts(flow->sizing, largest);
}

/* All micro-batches of one part, or of all, and nothing twice. */
static void
check_content(const struct flow *flow, const GArray *content, uint32_t unit, int64_t tile)
{
    const struct mw_tensor *tensor = &flow->plan->tensors[unit];
    int64_t batches = flow->sizing->settings.grad_accum;
    g_autofree int *parts = g_new0(int, batches * tensor->tiles);
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    enum mw_operator largest = mw_sizing_tensor_operator(flow->sizing, unit);

    for (guint i = 0; i < content->len; i++) {
        uint32_t o = g_array_index(content, uint32_t, i);
        const struct mw_op *op = &flow->plan->ops[o];
        enum mw_operator operator_ = flow->plan->works[op->work].operator_;
        g_assert_true(g_hash_table_add(seen, GUINT_TO_POINTER(o)));
        g_assert_cmpuint(unit_of(flow, op), ==, unit);
        if (operator_ == largest || (unit == 0 && operator_ == MW_OPERATOR_LOGITS))
            parts[op->micro_batch * tensor->tiles + op->tile]++;
    }
    for (int64_t p = 0; p < batches * tensor->tiles; p++)
        if (tile < 0 || p % tensor->tiles == tile)
            g_assert_cmpint(parts[p], ==, expected_parts(flow, unit));
}

/* Each backward op that makes a gradient is in some home; that it is in its own was seen. */
static void
check_all_arrived(const struct flow *flow)
{
    g_autofree bool *arrived = g_new0(bool, flow->plan->op_count);

    for (uint32_t t = 0; t < flow->plan->tensor_count; t++) {
        if (!flow->plan->tensors[t].trainable)
            continue;
        const GArray *home = flow->slots[flow->plan->tensors[t].gradient_slot].fresh;
        if (flow->plan->tensors[t].elements)
            check_content(flow, home, t, -1);
        for (guint i = 0; i < home->len; i++)
            arrived[g_array_index(home, uint32_t, i)] = true;
    }
    for (uint32_t o = 0; o < flow->plan->op_count; o++)
        if (flow->plan->works[flow->plan->ops[o].work].kind == MW_OP_COMPUTE &&
            flow->plan->ops[o].phase == MW_PHASE_BACKWARD &&
            makes_gradient(flow, &flow->plan->ops[o]))
            g_assert_true(arrived[o]);
}

/* --- the norm --------------------------------------------------------------------------------- */

static void
norm_of_chunk(struct flow *flow, const struct mw_op *op)
{
    const struct mw_chunk_content *chunk = &flow->plan->chunks[op->shard];
    bool on_host = flow->plan->lanes[op->lane].kind == MW_LANE_HOST;
    uint32_t used = 0;

    g_assert_cmpint(flow->plan->works[op->work].elements, ==, chunk->elements);
    for (uint32_t i = 0; i < chunk->tensor_count; i++) {
        const struct mw_tensor *tensor = &flow->plan->tensors[chunk->first_tensor + i];
        if (!tensor->elements || !tensor->trainable)
            continue;
        g_assert_cmpuint(flow->plan->uses[op->use_begin + used].slot, ==, tensor->gradient_slot);
        g_assert_cmpint(flow->plan->slots[tensor->gradient_slot].tier, ==,
                        on_host ? MW_TIER_CPU : MW_TIER_GPU);
        used++;
    }
    g_assert_cmpuint(used, ==, op->use_count);
    flow->chunks_in_norm[op->shard]++;
}

/* Its last micro-batch is in it, and all before. */
static void
norm_of_part(struct flow *flow, const struct mw_op *op)
{
    const GArray *content = bound_for_nvme(flow, op);
    uint32_t unit = unit_of(flow, &flow->plan->ops[g_array_index(content, uint32_t, 0)]);

    check_content(flow, content, unit, op->tile);
    g_assert_cmpint(flow->plan->works[op->work].elements, ==,
                    flow->plan->tensors[unit].shard_elements);
    flow->parts_in_norm[unit]++;
}

static void
check_norm(const struct flow *flow)
{
    bool normed = !flow->plan->shape.updates_beside;

    for (uint32_t t = 0; t < flow->plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &flow->plan->tensors[t];
        bool nvme =
            tensor->trainable && flow->plan->slots[tensor->gradient_slot].tier == MW_TIER_NVME;
        g_assert_cmpint(flow->parts_in_norm[t], ==,
                        nvme && normed && tensor->elements ? tensor->tiles : 0);
    }
    for (uint32_t c = 0; c < flow->plan->chunk_count; c++) {
        const struct mw_tensor *tensor = &flow->plan->tensors[flow->plan->chunks[c].first_tensor];
        bool nvme = flow->plan->slots[tensor->gradient_slot].tier == MW_TIER_NVME;
        g_assert_cmpint(flow->chunks_in_norm[c], ==, normed && !nvme);
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

static void
follow(struct flow *flow, uint32_t o)
{
    const struct mw_op *op = &flow->plan->ops[o];
    int kind = flow->plan->works[op->work].kind;

    if (kind == MW_OP_NORM && op->phase == MW_PHASE_OPTIMIZER)
        norm_of_chunk(flow, op);
    if (op->phase != MW_PHASE_BACKWARD)
        return;
    if (kind == MW_OP_COMPUTE)
        compute(flow, o);
    else if (kind == MW_OP_NORM)
        norm_of_part(flow, op);
    else if (kind == MW_OP_ACCUMULATE)
        accumulate(flow, op);
    else if (moves_gradients(flow, op) || kind == MW_OP_D2H)
        move(flow, op, kind);
}

static void
check_plan(const struct mw_sizing *sizing)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    g_autofree int64_t *parts = g_new0(int64_t, plan->tensor_count + 1);
    g_autofree int64_t *chunks = g_new0(int64_t, plan->chunk_count + 1);
    g_autofree struct content *slots = g_new(struct content, plan->slot_count);
    struct flow flow = {sizing, plan, slots, parts, chunks};

    for (uint32_t s = 0; s < plan->slot_count; s++)
        slots[s] = (struct content){g_array_new(FALSE, FALSE, sizeof(uint32_t)),
                                    g_array_new(FALSE, FALSE, sizeof(uint32_t))};
    for (uint32_t o = 0; o < plan->op_count; o++)
        follow(&flow, o);
    check_all_arrived(&flow);
    check_norm(&flow);
    for (uint32_t s = 0; s < plan->slot_count; s++) {
        g_array_unref(slots[s].fresh);
        g_array_unref(slots[s].sum);
    }
    mw_plan_free(plan);
}

static void
test_arrive(void)
{
    for (guint32 seed = 0, plans = 0; plans < PLANS; seed++) {
        struct random_request request;

        random_request_init(&request, seed);
        request.settings.unfold = false;
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing)
            continue;
        check_plan(sizing);
        plans++;
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/gradients/arrive", test_arrive);
    return g_test_run();
}
