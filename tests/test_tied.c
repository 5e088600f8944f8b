/* Tied logits: the embedding is their weight, part by part, and takes both gradients; the final
 * norm has parameters of its own. */
#include <string.h>

#include "tests/cases.h"
#include "tests/random_request.h"

#define PLANS MW_CASES(400)

struct walk {
    const struct mw_plan *plan;
    uint32_t *writer; /* [slot_count] the op that wrote it last */
};

static const struct mw_work *
work_of(const struct mw_plan *plan, uint32_t op)
{
    return &plan->works[plan->ops[op].work];
}

static bool
is_compute(const struct mw_plan *plan, uint32_t op, enum mw_operator operator_, enum mw_phase phase)
{
    const struct mw_work *work = work_of(plan, op);

    return work->kind == MW_OP_COMPUTE && work->operator_ == operator_ &&
           plan->ops[op].phase == phase && plan->ops[op].layer < 0;
}

/* The slot of these purposes that an op uses in one of these modes, or MW_NONE. */
static uint32_t
find_use(const struct mw_plan *plan, uint32_t op, uint32_t purposes, bool writes)
{
    const struct mw_op *o = &plan->ops[op];

    for (uint32_t u = o->use_begin; u < o->use_begin + o->use_count; u++) {
        uint32_t slot = plan->uses[u].slot;
        bool written = plan->uses[u].mode != MW_USE_READ;
        if (purposes >> plan->slots[slot].purpose & 1 && written == writes)
            return slot;
    }
    return MW_NONE;
}

#define PARAMS (1u << MW_PURPOSE_PARAMETERS | 1u << MW_PURPOSE_PARAMETER_BUFFERS)
#define GRADIENTS (1u << MW_PURPOSE_GRADIENTS | 1u << MW_PURPOSE_GRADIENT_BUFFERS)

/* What it reads are these operators' parameters, this part of them. */
static void
check_params(const struct walk *walk, uint32_t op, enum mw_operator operator_)
{
    const struct mw_plan *plan = walk->plan;
    uint32_t slot = find_use(plan, op, PARAMS, false);

    g_assert_cmpuint(slot, !=, MW_NONE);
    uint32_t by = walk->writer[slot];
    if (plan->slots[slot].purpose == MW_PURPOSE_PARAMETERS) {
        for (uint32_t t = 0; t < plan->tensor_count; t++)
            if (plan->tensors[t].param_slot == slot)
                g_assert_true(plan->tensors[t].operators >> operator_ & 1);
        return;
    }
    g_assert_cmpuint(by, !=, MW_NONE);
    g_assert_cmpint(plan->ops[by].tile, ==, plan->ops[op].tile);
    g_assert_cmpint(work_of(plan, by)->operator_ == MW_OPERATOR_LOGITS, ==,
                    operator_ == MW_OPERATOR_EMBEDDING);
}

/* Nothing touches the gradient between the logits, which make it, and the embedding. */
static void
check_gradient(const struct walk *walk, uint32_t op)
{
    const struct mw_plan *plan = walk->plan;
    uint32_t slot = find_use(plan, op, GRADIENTS, true);

    g_assert_cmpuint(slot, !=, MW_NONE);
    uint32_t by = walk->writer[slot];
    g_assert_cmpuint(by, !=, MW_NONE);
    if (plan->slots[slot].purpose == MW_PURPOSE_GRADIENT_BUFFERS) {
        g_assert_true(is_compute(plan, by, MW_OPERATOR_LOGITS, MW_PHASE_BACKWARD));
        g_assert_cmpint(plan->ops[by].tile, ==, plan->ops[op].tile);
    }
    g_assert_cmpint(plan->ops[by].micro_batch, ==, plan->ops[op].micro_batch);
}

static void
check_op(const struct walk *walk, uint32_t op, int *parts)
{
    const struct mw_plan *plan = walk->plan;

    for (int phase = MW_PHASE_FORWARD; phase <= MW_PHASE_BACKWARD; phase++) {
        if (is_compute(plan, op, MW_OPERATOR_LOGITS, phase)) {
            check_params(walk, op, MW_OPERATOR_EMBEDDING);
            parts[phase]++;
        }
        if (is_compute(plan, op, MW_OPERATOR_FINAL_NORM, phase))
            check_params(walk, op, MW_OPERATOR_FINAL_NORM);
    }
    if (is_compute(plan, op, MW_OPERATOR_LOGITS, MW_PHASE_BACKWARD))
        g_assert_cmpint(find_use(plan, op, GRADIENTS, true) != MW_NONE, ==,
                        plan->tensors[0].trainable);
    if (is_compute(plan, op, MW_OPERATOR_EMBEDDING, MW_PHASE_BACKWARD))
        check_gradient(walk, op);
}

static void
note_writes(struct walk *walk, uint32_t op)
{
    const struct mw_op *o = &walk->plan->ops[op];

    for (uint32_t u = o->use_begin; u < o->use_begin + o->use_count; u++)
        if (walk->plan->uses[u].mode != MW_USE_READ)
            walk->writer[walk->plan->uses[u].slot] = op;
}

static void
check_plan(const struct mw_sizing *sizing)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    g_autofree uint32_t *writer = g_new(uint32_t, plan->slot_count);
    struct walk walk = {plan, writer};
    int parts[MW_PHASE_COUNT] = {0};
    int64_t expected = sizing->classes[MW_CLASS_HEAD].units[0].tiles * sizing->settings.grad_accum *
                       sizing->settings.logits_chunks * plan->program_count;

    memset(writer, 0xff, plan->slot_count * sizeof *writer);
    for (uint32_t op = 0; op < plan->op_count; op++) {
        check_op(&walk, op, parts);
        note_writes(&walk, op);
    }
    g_assert_cmpint(parts[MW_PHASE_FORWARD], ==, expected);
    g_assert_cmpint(parts[MW_PHASE_BACKWARD], ==, expected);
    mw_plan_free(plan);
}

static void
test_parts(void)
{
    int tiled = 0;

    for (guint32 seed = 0, plans = 0; plans < PLANS; seed++) {
        struct random_request request;

        random_request_init(&request, seed);
        if (!request.model.vocab || !request.model.tied_embedding)
            continue;
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing)
            continue;
        tiled += sizing->classes[MW_CLASS_HEAD].units[0].tiles > 1;
        check_plan(sizing);
        plans++;
    }
    g_assert_cmpint(tiled, >, PLANS / 4);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tied/parts", test_parts);
    return g_test_run();
}
