/* The optimizer step of random plans, chunk by chunk: state and gradients come to the update, once;
 * the new state and the new 16-bit parameters go back to where they live, whatever lives where. */
#include <string.h>

#include "plan/optimizers.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define PLANS MW_CASES(4000)

/* What a buffer holds of a chunk. */
struct content {
    uint32_t chunk;
    bool state, gradients, params, updated;
};

struct tally {
    int updates, stored, sent, gathered;
    bool at_home; /* what is updated, so that nothing stores it */
};

struct step {
    const struct mw_sizing *sizing;
    const struct mw_plan *plan;
    struct content *slots;
    struct tally *chunks;
    uint32_t agreed; /* on the norm */
    uint32_t last_norm[MW_LANE_KIND_COUNT];
    bool lane_waits[MW_MAX_LANES_PER_RANK]; /* for it */
};

static const struct mw_chunk_content *
chunk_of(const struct step *step, const struct mw_op *op)
{
    return &step->plan->chunks[op->shard];
}

/* Uses all homes of the chunk's tensors, in this way. */
static bool
uses_homes(const struct step *step, const struct mw_op *op, bool gradients, enum mw_use_mode mode)
{
    const struct mw_chunk_content *chunk = chunk_of(step, op);
    uint32_t used = 0, expected = 0;

    for (uint32_t i = 0; i < chunk->tensor_count; i++) {
        const struct mw_tensor *tensor = &step->plan->tensors[chunk->first_tensor + i];
        uint32_t home = gradients ? tensor->gradient_slot : tensor->param_slot;
        expected += tensor->elements > 0 && tensor->trainable;
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
            used += step->plan->uses[u].slot == home && step->plan->uses[u].mode == mode;
    }
    g_assert_true(used == expected || !used);
    return used > 0;
}

static bool
uses_slot(const struct step *step, const struct mw_op *op, uint32_t slot)
{
    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
        if (step->plan->uses[u].slot == slot)
            return true;
    return false;
}

static bool
is_buffer(const struct step *step, uint32_t slot)
{
    int purpose = step->plan->slots[slot].purpose;

    return purpose == MW_PURPOSE_OPTIMIZER_BUFFERS || purpose == MW_PURPOSE_PARAMETER_BUFFERS;
}

/* The buffer that it reads (or changes) or fills; NULL if it has none. */
static struct content *
find_buffer(const struct step *step, const struct mw_op *op, bool fills, enum mw_purpose purpose)
{
    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
        const struct mw_use *use = &step->plan->uses[u];
        struct content *content = &step->slots[use->slot];
        if (!is_buffer(step, use->slot) || (use->mode == MW_USE_DEFINE) != fills ||
            step->plan->slots[use->slot].purpose != purpose)
            continue;
        if (fills)
            *content = (struct content){.chunk = op->shard};
        g_assert_cmpuint(content->chunk, ==, op->shard);
        return content;
    }
    return NULL;
}

/* --- state and gradients ---------------------------------------------------------------------- */

/* All that a transfer takes along, in the bytes that it moves. */
static void
bring(const struct step *step, const struct mw_op *op)
{
    const struct mw_chunk_content *chunk = chunk_of(step, op);
    const struct content *from = find_buffer(step, op, false, MW_PURPOSE_OPTIMIZER_BUFFERS);
    struct content *to = find_buffer(step, op, true, MW_PURPOSE_OPTIMIZER_BUFFERS);
    int64_t bytes = 0;

    g_assert_nonnull(to);
    to->state = uses_slot(step, op, chunk->slot) || (from && from->state);
    to->gradients = uses_homes(step, op, true, MW_USE_READ) || (from && from->gradients);
    bytes +=
        to->state ? mw_optimizer_state_bytes(step->sizing->settings.optimizer, chunk->elements) : 0;
    bytes += to->gradients ? chunk->elements * step->sizing->gradient_element_bytes : 0;
    g_assert_cmpint(step->plan->works[op->work].bytes, ==, bytes);
    /* Where vectors alone are kept, or nothing, no state moves, but its chunks are there. */
    int optimizer = step->sizing->settings.optimizer;
    g_assert_true(bytes > 0 || optimizer == MW_OPTIMIZER_ADAFACTOR_PURE ||
                  optimizer == MW_OPTIMIZER_SGD_PURE);
}

/* Whether the chunk's state rests off the GPU and is updated there. */
static bool
streams(const struct step *step, const struct mw_op *op)
{
    return step->plan->shape.updates_on_gpu &&
           step->plan->slots[chunk_of(step, op)->slot].tier != MW_TIER_GPU;
}

/* State that was updated on the GPU goes home, or to where the drives take it from. */
static void
bring_back(const struct step *step, const struct mw_op *op)
{
    const struct mw_chunk_content *chunk = chunk_of(step, op);
    const struct content *from = find_buffer(step, op, false, MW_PURPOSE_OPTIMIZER_BUFFERS);
    struct content *to = find_buffer(step, op, true, MW_PURPOSE_OPTIMIZER_BUFFERS);
    bool home = uses_slot(step, op, chunk->slot);

    g_assert_true(from && from->state && from->updated);
    g_assert_true(!to == home);
    g_assert_cmpint(home, ==, step->plan->slots[chunk->slot].tier == MW_TIER_CPU);
    g_assert_cmpint(step->plan->works[op->work].bytes, ==,
                    mw_optimizer_state_bytes(step->sizing->settings.optimizer, chunk->elements));
    if (to)
        to->state = to->updated = true;
    step->chunks[op->shard].stored += home;
}

static void
store(const struct step *step, const struct mw_op *op)
{
    const struct mw_chunk_content *chunk = chunk_of(step, op);
    const struct content *from = find_buffer(step, op, false, MW_PURPOSE_OPTIMIZER_BUFFERS);
    bool committed = chunk->other_slot != MW_NONE;

    g_assert_true(from && from->state && from->updated);
    g_assert_true(uses_slot(step, op, committed ? chunk->other_slot : chunk->slot));
    g_assert_cmpint(step->plan->works[op->work].bytes, ==,
                    mw_optimizer_state_bytes(step->sizing->settings.optimizer, chunk->elements));
    step->chunks[op->shard].stored++;
}

/* --- the update ------------------------------------------------------------------------------- */

static bool
depends_on(const struct step *step, const struct mw_op *op, uint32_t on)
{
    for (uint32_t d = op->dep_begin; d < op->dep_begin + op->dep_count; d++)
        if (step->plan->deps[d] == on)
            return true;
    return false;
}

static void
update(struct step *step, const struct mw_op *op)
{
    const struct mw_chunk_content *chunk = chunk_of(step, op);
    struct content *in = NULL, *out = find_buffer(step, op, true, MW_PURPOSE_PARAMETER_BUFFERS);
    bool at_home = uses_slot(step, op, chunk->slot), state = at_home;
    bool gradients = uses_homes(step, op, true, MW_USE_READ);

    for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
        uint32_t slot = step->plan->uses[u].slot;
        if (step->plan->slots[slot].purpose != MW_PURPOSE_OPTIMIZER_BUFFERS)
            continue;
        in = &step->slots[slot];
        g_assert_cmpuint(in->chunk, ==, op->shard);
        g_assert_false(in->updated);
        state |= in->state;
        gradients |= in->gradients;
        in->updated = in->state;
    }
    g_assert_true(state && gradients);
    g_assert_cmpint(step->plan->works[op->work].elements, ==, chunk->elements);
    g_assert_true(!streams(step, op) || !step->plan->works[op->work].host);
    step->chunks[op->shard].updates++;
    step->chunks[op->shard].at_home = at_home;
    step->chunks[op->shard].stored += at_home;
    step->chunks[op->shard].sent += uses_homes(step, op, false, MW_USE_MODIFY);
    if (out)
        out->params = true;
    step->lane_waits[op->lane] |= depends_on(step, op, step->agreed);
    g_assert_true(step->lane_waits[op->lane] == !step->plan->shape.updates_beside);
}

static void
send(const struct step *step, const struct mw_op *op)
{
    const struct content *from = find_buffer(step, op, false, MW_PURPOSE_PARAMETER_BUFFERS);
    struct content *to = find_buffer(step, op, true, MW_PURPOSE_PARAMETER_BUFFERS);
    bool arrives = uses_homes(step, op, false, MW_USE_MODIFY);

    g_assert_true(from && from->params);
    g_assert_true(!to == arrives);
    g_assert_cmpint(step->plan->works[op->work].bytes, ==,
                    step->sizing->element_bytes * chunk_of(step, op)->elements);
    if (to)
        to->params = true;
    step->chunks[op->shard].sent += arrives;
}

/* Ranks that have the same elements of a chunk: of spread experts one in so many. */
static int64_t
replicas_of(const struct mw_sizing *sizing, const struct mw_plan *plan, uint32_t chunk)
{
    uint32_t spread = plan->tensors[plan->chunks[chunk].first_tensor].spread;

    return sizing->shards / MAX(1, (int64_t)spread);
}

/* All ranks have what each has updated, or of several updates what their own ones have left. */
static void
check_all_gather(const struct step *step, const struct mw_op *op)
{
    g_assert_true(uses_homes(step, op, false, MW_USE_MODIFY));
    g_assert_cmpint(step->chunks[op->shard].sent, ==, 1);
    g_assert_cmpint(step->plan->works[op->work].bytes, ==,
                    step->sizing->element_bytes * chunk_of(step, op)->elements *
                        replicas_of(step->sizing, step->plan, op->shard));
    step->chunks[op->shard].gathered++;
}

/* --- the norm --------------------------------------------------------------------------------- */

static void
agree(struct step *step, uint32_t o)
{
    const struct mw_op *op = &step->plan->ops[o];

    g_assert_cmpuint(step->agreed, ==, MW_NONE);
    step->agreed = o;
    for (int lane = 0; lane < MW_LANE_KIND_COUNT; lane++)
        if (step->last_norm[lane] != MW_NONE)
            g_assert_true(depends_on(step, op, step->last_norm[lane]));
}

static void
follow(struct step *step, uint32_t o)
{
    const struct mw_op *op = &step->plan->ops[o];
    const struct mw_work *work = &step->plan->works[op->work];
    bool updated = work->object == MW_OBJECT_UPDATED;

    if (op->phase != MW_PHASE_OPTIMIZER)
        return;
    if (work->kind == MW_OP_NORM)
        step->last_norm[step->plan->lanes[op->lane].kind] = o;
    else if (work->kind == MW_OP_AGREE)
        agree(step, o);
    else if (work->kind == MW_OP_UPDATE)
        update(step, op);
    else if (work->kind == (step->plan->shape.asynchronous ? MW_OP_ALL_TO_ALL : MW_OP_ALL_GATHER))
        check_all_gather(step, op);
    else if (updated)
        send(step, op);
    else if (work->kind == MW_OP_NVME_WRITE)
        store(step, op);
    else if (work->kind == MW_OP_D2H && streams(step, op))
        bring_back(step, op);
    else
        bring(step, op);
}

static void
check_plan(const struct mw_sizing *sizing)
{
    struct mw_plan *plan = mw_build_plan(sizing);
    g_autofree struct content *slots = g_new0(struct content, plan->slot_count);
    g_autofree struct tally *chunks = g_new0(struct tally, plan->chunk_count + 1);
    struct step step = {sizing, plan, slots, chunks, MW_NONE, {0}, {0}};
    bool gathers = sizing->optimizer_partitioned && !sizing->params_partitioned;

    memset(step.last_norm, 0xff, sizeof step.last_norm); /* all MW_NONE */
    for (uint32_t o = 0; o < plan->op_count; o++)
        follow(&step, o);
    g_assert_cmpuint(step.agreed, !=, MW_NONE);
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        g_assert_cmpint(plan->chunks[c].elements, >, 0);
        g_assert_cmpint(chunks[c].updates, ==, 1);
        bool left =
            mw_optimizer_state_bytes(sizing->settings.optimizer, plan->chunks[c].elements) > 0;
        g_assert_cmpint(chunks[c].stored, ==, left || chunks[c].at_home);
        g_assert_cmpint(chunks[c].sent, ==, 1);
        g_assert_cmpint(chunks[c].gathered, ==, gathers && replicas_of(sizing, plan, c) > 1);
    }
    mw_plan_free(plan);
}

/* Of parameters, gradients and state: bits of what is where, in turn. */
static int
combination(const struct mw_sizing *sizing, const struct mw_chunk *c)
{
    return (sizing->param_home[c->first_tensor] * 3 + sizing->gradient_home[c->first_tensor]) * 3 +
           (int)c->tier;
}

static void
test_chunks(void)
{
    bool seen[27] = {false};

    for (guint32 seed = 0, plans = 0; plans < PLANS; seed++) {
        struct random_request request;

        random_request_init(&request, seed);
        request.settings.unfold = false;
        if (mw_optimizer_orthogonalizes(request.settings.optimizer)) /* test_muon.c has those */
            continue;
        g_autoptr(GPtrArray) found = NULL;
        const struct mw_sizing *sizing = random_request_fitting(&request, &found);
        if (!sizing)
            continue;
        check_plan(sizing);
        for (uint32_t c = 0; c < sizing->run_chunk_count; c++)
            seen[combination(sizing, &sizing->run_chunks[c])] = true;
        plans++;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(seen); i++)
        g_assert_true(seen[i]);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/updates/chunks", test_chunks);
    return g_test_run();
}
