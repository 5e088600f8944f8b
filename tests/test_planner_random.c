/* Properties that hold for every plan that the planner makes, on random requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/optimizers.h"
#include "planner/sizing/internal.h"
#include "tests/cases.h"
#include "tests/random_request.h"

#define PLANS MW_CASES(10000)
#define TEXT_EVERY 8

struct tally {
    int requests, refused, unfit, plans, unfolded, in_runs, mixed;
};

/* --- memory ---------------------------------------------------------------------------------- */

static void
check_ledger(const struct mw_plan *plan, const struct mw_sizing *sizing)
{
    int64_t sum[MW_TIER_COUNT][MW_PURPOSE_COUNT];
    int64_t peak[MW_TIER_COUNT] = {0};

    mw_plan_count_bytes(plan, 0, sum);
    for (int t = 0; t < MW_TIER_COUNT; t++) {
        for (int p = 0; p < MW_PURPOSE_COUNT; p++) {
            g_assert_cmpint(sum[t][p], ==, sizing->ledger[t][p]);
            peak[t] += sum[t][p];
        }
        g_assert_cmpint(peak[t], ==, sizing->need_bytes[t]);
        g_assert_cmpint(plan->peak_bytes[t], ==, sizing->need_bytes[t]);
        g_assert_cmpint(mw_plan_need_bytes(plan, t), ==, mw_sizing_peak(sizing, t));
        g_assert_cmpint(mw_plan_need_bytes(plan, t), <=, plan->tiers[t].capacity_bytes);
    }
}

/* What the GPU needs with the same slots by other software, but for the embedding's second
 * gradient, which the sum of all does not have. */
static int64_t
need_by(const struct mw_sizing *sizing, bool caching, enum mw_gradients_stay stay)
{
    g_autofree struct mw_sizing *other = g_memdup2(sizing, sizeof *sizing);
    struct mw_hardware hardware = *sizing->hardware;

    hardware.memory_use.caching = caching;
    hardware.memory_use.gradients_stay = stay;
    other->hardware = &hardware;
    mw_sizing_judge(other);
    g_assert_cmpint(other->apart_bytes, >=, 0);
    for (int what = 0; what < MW_BESIDE_COUNT; what++) {
        g_assert_cmpint(other->beside_then[what], >=, 0);
        g_assert_cmpint(other->beside_then[what], <=, other->beside[what]);
    }
    return mw_sizing_whole_need(other, MW_TIER_GPU) - other->beside_then[MW_BESIDE_ADDED];
}

/* The most that is alive is no more than all, less where gradients do not stay, and all states with
 * what the update has at its end. */
static void
check_moments(const struct mw_sizing *sizing)
{
    const int64_t *ledger = sizing->ledger[MW_TIER_GPU];
    int64_t states = ledger[MW_PURPOSE_PARAMETERS] + ledger[MW_PURPOSE_GRADIENTS] +
                     ledger[MW_PURPOSE_OPTIMIZER_STATE];
    int64_t all = need_by(sizing, false, MW_STAY_ALWAYS);
    int64_t always = need_by(sizing, true, MW_STAY_ALWAYS);
    int64_t partitioned = need_by(sizing, true, MW_STAY_PARTITIONED);
    int64_t never = need_by(sizing, true, MW_STAY_NEVER);

    /* What the software has beside the plan is rounded, each for itself. */
    g_assert_cmpint(always, <=, all + MW_BESIDE_COUNT);
    g_assert_cmpint(partitioned, <=, always + MW_BESIDE_COUNT);
    g_assert_cmpint(never, <=, partitioned + MW_BESIDE_COUNT);
    g_assert_cmpint(never, >=, states);
}

/* Whether the tensors that would use a buffer may all live elsewhere: some are frozen, and the
 * homes of others are split over tiers. */
static bool
may_lack_tensors(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    return sizing->settings.trained.frozen && kind >= MW_BUFFER_PARAMETERS_GATHERED &&
           kind <= MW_BUFFER_GRADIENTS_PINNED_SMALL &&
           (mw_sizing_splits(sizing, MW_STATE_PARAMETERS) ||
            mw_sizing_splits(sizing, MW_STATE_GRADIENTS));
}

/* Checksums and vectors of rows and columns belong to no op, and saves of every K steps to none of
 * a step.  If of split gradients only those of a tied embedding leave the GPU, they leave from
 * where those of the logits wait. */
static bool
may_rest(const struct mw_sizing *sizing, enum mw_buffer_kind kind)
{
    return may_lack_tensors(sizing, kind) || kind == MW_BUFFER_CHECKSUMS ||
           kind == MW_BUFFER_VECTORS || (kind == MW_BUFFER_SAVES && !sizing->saves_in_step) ||
           (kind == MW_BUFFER_GRADIENTS_WHOLE && mw_sizing_tied(sizing));
}

/* The plan's slots are those of the table, and of every buffer some op uses a slot. */
static void
check_buffers(const struct mw_plan *plan, const struct mw_sizing *sizing)
{
    g_autofree bool *used = g_new0(bool, plan->slot_count + 1);
    uint32_t slot = 0;

    for (uint32_t u = 0; u < plan->use_count; u++)
        used[plan->uses[u].slot] = true;
    for (int kind = 0; kind < MW_BUFFER_KIND_COUNT; kind++) {
        uint32_t end = slot + (uint32_t)sizing->buffers[kind].count;
        bool any = slot == end;
        for (; slot < end; slot++) {
            g_assert_cmpint(plan->slots[slot].purpose, ==, sizing->buffers[kind].purpose);
            any |= used[slot];
        }
        g_assert_true(any || may_rest(sizing, kind));
    }
    g_assert_cmpuint(slot * plan->program_count, ==, plan->slot_count);
}

/* --- what buffers hold ----------------------------------------------------------------------- */

static bool
holds_one_part(const struct mw_slot *slot)
{
    return slot->purpose == MW_PURPOSE_PARAMETER_BUFFERS ||
           slot->purpose == MW_PURPOSE_GRADIENT_BUFFERS ||
           slot->purpose == MW_PURPOSE_SHARD_BUFFERS ||
           slot->purpose == MW_PURPOSE_CHECKPOINT_BUFFERS ||
           slot->purpose == MW_PURPOSE_ACTIVATION_CHECKPOINTS ||
           slot->purpose == MW_PURPOSE_OPTIMIZER_BUFFERS;
}

/* Shard or optimizer chunk.  Logits' chunks share the weight and sum up its gradient. */
static uint32_t
part_of(const struct mw_plan *plan, const struct mw_op *op)
{
    return plan->works[op->work].kind == MW_OP_COMPUTE ? 0 : op->shard;
}

/* What is on its way belongs to one part of one layer, or to one chunk: what is read is what was
 * put there for it, never what the part before left behind.  A part that serves recompute and
 * backward keeps its layer, micro-batch and tile; layer by layer it serves all micro-batches, and
 * sums of gradients are of all. */
static void
check_contents(const struct mw_plan *plan)
{
    g_autofree uint32_t *writer = g_new(uint32_t, plan->slot_count);

    memset(writer, 0xff, plan->slot_count * sizeof *writer);
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
            const struct mw_use *use = &plan->uses[u];
            if (!holds_one_part(&plan->slots[use->slot]))
                continue;
            if (use->mode == MW_USE_DEFINE)
                writer[use->slot] = o;
            const struct mw_op *by = &plan->ops[writer[use->slot]];
            g_assert_cmpint(by->layer, ==, op->layer);
            bool sum = plan->works[by->work].kind == MW_OP_ACCUMULATE;
            bool stays = plan->shape.layer_order &&
                         (sum || plan->works[by->work].object == MW_OBJECT_PARAMETERS);
            g_assert_true(stays || by->micro_batch == op->micro_batch);
            g_assert_cmpint(by->tile, ==, op->tile);
            if (plan->works[op->work].kind != MW_OP_NVME_READ)
                g_assert_cmpint(part_of(plan, by), ==, part_of(plan, op));
        }
    }
}

/* A transfer puts no more into a buffer than that has room for. */
static void
check_transfers_fit(const struct mw_plan *plan)
{
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        const struct mw_work *work = &plan->works[op->work];
        if (work->kind != MW_OP_NVME_READ && work->kind != MW_OP_H2D && work->kind != MW_OP_D2H)
            continue;
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
            const struct mw_slot *slot = &plan->slots[plan->uses[u].slot];
            if (plan->uses[u].mode == MW_USE_DEFINE && holds_one_part(slot))
                g_assert_cmpint(slot->size_bytes, >=, work->bytes);
        }
    }
}

/* --- identities ------------------------------------------------------------------------------ */

/* Its lane, its kind and its identity name an op. */
static void
check_identities(const struct mw_plan *plan)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        const struct mw_work *work = &plan->works[op->work];
        char *name = g_strdup_printf(
            "lane %u %s %s %s %s micro-batch %u layer %d tile %u shard %u", op->lane,
            mw_op_kind_name(work->kind), mw_phase_name(op->phase), mw_object_name(work->object),
            mw_operator_name(work->operator_), op->micro_batch, op->layer, op->tile, op->shard);
        if (!g_hash_table_add(seen, name))
            g_error("twice: %s", name);
    }
}

/* --- the norm -------------------------------------------------------------------------------- */

/* It takes in every gradient: where it lives, or, of those on NVMe, each part on its way there.
 * Updates beside backward wait for none, and there is none. */
static void
check_norm(const struct mw_plan *plan)
{
    g_autofree bool *taken = g_new0(bool, plan->slot_count);
    bool beside = plan->shape.updates_beside;
    int64_t parts = 0;

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        if (plan->works[op->work].kind != MW_OP_NORM)
            continue;
        g_assert_cmpint(op->use_count, >, 0);
        parts += op->phase == MW_PHASE_BACKWARD;
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++)
            taken[plan->uses[u].slot] = true;
    }
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        const struct mw_tensor *tensor = &plan->tensors[t];
        if (!tensor->trainable)
            continue;
        if (plan->slots[tensor->gradient_slot].tier == MW_TIER_NVME)
            parts -= tensor->elements && !beside ? tensor->tiles : 0;
        else
            g_assert_true(taken[tensor->gradient_slot] == !beside || !tensor->elements);
    }
    g_assert_cmpint(parts, ==, 0);
}

/* --- sums over micro-batches ----------------------------------------------------------------- */

/* Gradients in fp32 are added up by one op a part and micro-batch on every tier, and nothing else
 * writes them into memory, but the sum's way home: backward makes them in 16 bits. */
static void
check_sums(const struct mw_plan *plan, const struct mw_sizing *sizing)
{
    bool sums = sizing->gradients_summed;
    int64_t parts = 0;

    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        int kind = plan->works[op->work].kind;
        parts -= kind == MW_OP_ACCUMULATE;
        for (uint32_t u = op->use_begin; sums && u < op->use_begin + op->use_count; u++)
            if (plan->uses[u].mode != MW_USE_READ &&
                plan->slots[plan->uses[u].slot].purpose == MW_PURPOSE_GRADIENTS)
                g_assert_true(kind == MW_OP_ACCUMULATE || kind == MW_OP_NVME_WRITE ||
                              kind == MW_OP_REDUCE_SCATTER || kind == MW_OP_ALL_REDUCE ||
                              (kind == MW_OP_ALL_TO_ALL && plan->shape.asynchronous) ||
                              (kind == MW_OP_D2H && mw_sizing_sums_passing(sizing)));
    }
    for (uint32_t t = 0; sums && t < plan->tensor_count; t++)
        if (plan->tensors[t].elements && plan->tensors[t].trainable)
            parts += plan->tensors[t].tiles * sizing->settings.grad_accum;
    g_assert_cmpint(parts, ==, 0);
}

/* --- devices --------------------------------------------------------------------------------- */

static const struct {
    enum mw_tier from, to;
} reach[MW_LANE_KIND_COUNT] = {
    [MW_LANE_COMPUTE] = {MW_TIER_GPU, MW_TIER_GPU},
    [MW_LANE_COLLECTIVE] = {MW_TIER_GPU, MW_TIER_GPU},
    [MW_LANE_H2D] = {MW_TIER_CPU, MW_TIER_GPU},
    [MW_LANE_D2H] = {MW_TIER_GPU, MW_TIER_CPU},
    [MW_LANE_NVME_READ] = {MW_TIER_NVME, MW_TIER_CPU},
    [MW_LANE_NVME_WRITE] = {MW_TIER_CPU, MW_TIER_NVME},
    [MW_LANE_HOST] = {MW_TIER_CPU, MW_TIER_CPU},
};

/* State with two extents has two records, whole blocks, of which a commit writes one; and one of
 * two places for what it saves. */
static void
check_commit(const struct mw_plan *plan, const struct mw_op *op)
{
    int64_t size_bytes = 0;
    int records = 0, others = 0;

    for (uint32_t i = 0; i < plan->slot_count; i++) {
        const struct mw_slot *slot = &plan->slots[i];
        if (slot->program != plan->lanes[op->lane].program)
            continue;
        others += slot->purpose == MW_PURPOSE_OPTIMIZER_STATE_OTHER;
        records += slot->purpose == MW_PURPOSE_COMMIT_RECORDS;
        if (slot->purpose == MW_PURPOSE_COMMIT_RECORDS)
            size_bytes = slot->size_bytes;
    }
    g_assert_cmpint(records, ==, others ? 2 : 0);
    g_assert_cmpint(op->use_count, <=, others ? 2 : 0);
    if (!others)
        return;
    g_assert_cmpint(size_bytes % 4096, ==, 0);
    g_assert_cmpint(size_bytes, >=, 4096 + 32 * others);
    int64_t written_bytes = 0;
    for (int i = 0; i < op->use_count; i++) {
        const struct mw_use *use = &plan->uses[op->use_begin + i];
        const struct mw_slot *slot = &plan->slots[use->slot];
        g_assert_cmpint(slot->purpose, ==, i ? MW_PURPOSE_SAVES : MW_PURPOSE_COMMIT_RECORDS);
        g_assert_cmpint(use->mode, ==, MW_USE_DEFINE);
        written_bytes += slot->size_bytes;
    }
    g_assert_cmpint(written_bytes, ==, plan->works[op->work].bytes);
}

/* Nobody uses memory that it cannot reach: whatever is elsewhere was brought by a transfer.  Once
 * the ranks agree, each passes over gradients where they live. */
static void
check_reach(const struct mw_plan *plan)
{
    for (uint32_t o = 0; o < plan->op_count; o++) {
        const struct mw_op *op = &plan->ops[o];
        int lane = plan->lanes[op->lane].kind;
        if (plan->works[op->work].kind == MW_OP_COMMIT) {
            check_commit(plan, op);
            continue;
        }
        for (uint32_t u = op->use_begin; u < op->use_begin + op->use_count; u++) {
            const struct mw_use *use = &plan->uses[u];
            enum mw_tier reached = use->mode == MW_USE_READ ? reach[lane].from : reach[lane].to;
            if (plan->works[op->work].kind == MW_OP_AGREE)
                g_assert_cmpint(use->role, ==, MW_ROLE_GRADIENT);
            else
                g_assert_cmpint(plan->slots[use->slot].tier, ==, reached);
        }
    }
}

/* --- text ------------------------------------------------------------------------------------ */

static char *
text_of(const struct mw_plan *plan)
{
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = open_memstream(&text, &size_bytes);

    g_assert_true(mw_plan_write(plan, out));
    g_assert_cmpint(fclose(out), ==, 0);
    return text;
}

static struct mw_plan *
plan_of(const char *text)
{
    char why[256] = "";
    FILE *in = fmemopen((char *)text, strlen(text), "r");
    struct mw_plan *plan = mw_plan_read(in, why, sizeof why);

    fclose(in);
    g_assert_cmpstr(why, ==, "");
    g_assert_false(plan->checked);
    g_assert_true(mw_plan_check(plan, why, sizeof why));
    return plan;
}

static void
check_text(const struct mw_plan *plan, const struct mw_sizing *sizing)
{
    struct mw_plan *again = mw_build_plan(sizing);
    char *text = text_of(plan), *text_again = text_of(again);
    struct mw_plan *read = plan_of(text);
    char *text_read = text_of(read);

    g_assert_cmpstr(text, ==, text_again);
    g_assert_cmpstr(text, ==, text_read);
    g_assert_cmpmem(read->peak_bytes, sizeof read->peak_bytes, plan->peak_bytes,
                    sizeof plan->peak_bytes);
    g_assert_cmpint(read->barriered, ==, plan->barriered);
    mw_plan_free(again);
    mw_plan_free(read);
    free(text);
    free(text_again);
    free(text_read);
}

/* --- chunks ---------------------------------------------------------------------------------- */

static int64_t
state_params(const struct mw_sizing *sizing, uint32_t tensor)
{
    const struct mw_unit_tensor *info = mw_sizing_tensor(sizing, tensor);

    int64_t part = sizing->optimizer_partitioned ? info->shard_stride : info->tile_params;

    if (!info->trained)
        return 0;
    /* Moments of 8 bits have a scale for so many. */
    int64_t block = sizing->settings.optimizer == MW_OPTIMIZER_ADAMW_8BIT        ? 2048
                    : sizing->settings.optimizer == MW_OPTIMIZER_ADAMW_8BIT_PURE ? 256
                                                                                 : 1;
    part = (part + block - 1) / block * block;
    return info->tiles * part;
}

/* One by one they go into the tier that is being filled, or into the next one. */
static void
check_chunk_tiers(const struct mw_sizing *sizing, const struct mw_chunk *chunks)
{
    const struct mw_placement *placement = &sizing->settings.placement[MW_STATE_OPTIMIZER];
    int part = 0;
    double filled = 0;

    for (uint32_t c = 0; c < sizing->chunk_count; c++) {
        double bytes = (double)chunks[c].state_bytes;
        while (part + 1 < placement->count &&
               filled + bytes > (double)(placement->part[part].bytes / sizing->ranks_per_node)) {
            part++;
            filled = 0;
        }
        filled += bytes;
        g_assert_cmpint(chunks[c].tier, ==, placement->part[part].tier);
    }
}

/* One behind the other they are the whole state, each begins and ends in the tensors that it names,
 * and all its tensors live where its first does.  Whether some were cut once for several blocks. */
static bool
check_chunks(const struct mw_sizing *sizing)
{
    g_autofree int64_t *begin = g_new0(int64_t, sizing->tensor_count + 1);
    g_autofree struct mw_chunk *chunks = mw_sizing_chunks(sizing);
    int64_t from = 0;

    for (uint32_t u = 0; u < sizing->tensor_count; u++)
        begin[u + 1] = begin[u] + state_params(sizing, u);
    for (uint32_t c = 0; c < sizing->chunk_count; c++) {
        const struct mw_chunk *chunk = &chunks[c];
        uint32_t first = chunk->first_tensor, last = first + chunk->tensor_count - 1;
        g_assert_cmpint(chunk->params, >, 0);
        g_assert_cmpuint(last, <, sizing->tensor_count);
        g_assert_cmpint(from, >=, begin[first]);
        g_assert_cmpint(from, <, begin[first + 1]);
        from += chunk->params;
        g_assert_cmpint(from, >=, begin[last]);
        g_assert_cmpint(from, <=, begin[last + 1]);
        for (uint32_t u = first; u <= last; u++) {
            if (begin[u] == begin[u + 1])
                continue;
            g_assert_cmpint(sizing->param_home[u], ==, sizing->param_home[first]);
            g_assert_cmpint(sizing->gradient_home[u], ==, sizing->gradient_home[first]);
        }
    }
    g_assert_cmpint(from, ==, begin[sizing->tensor_count]);
    g_assert_cmpint(from, ==, sizing->shard_params);
    check_chunk_tiers(sizing, chunks);
    return sizing->run_chunk_count < sizing->chunk_count;
}

/* --- the requests ---------------------------------------------------------------------------- */

static void
check_plan(const struct mw_sizing *sizing, struct tally *tally)
{
    struct mw_plan *plan = mw_build_plan(sizing);

    g_assert_true(plan->checked);
    g_assert_cmpint(mw_sizing_op_count(sizing), ==, plan->op_count);
    g_assert_cmpint(mw_sizing_least_ops(sizing), <=, plan->op_count);
    g_assert_cmpuint(plan->world_ranks, ==, sizing->ranks);
    g_assert_cmpuint(plan->program_count, ==, sizing->settings.unfold ? sizing->ranks : 1);
    check_ledger(plan, sizing);
    check_buffers(plan, sizing);
    tally->in_runs += check_chunks(sizing);
    tally->mixed += mw_sizing_mixes_checkpoints(sizing);
    check_contents(plan);
    check_transfers_fit(plan);
    check_reach(plan);
    check_norm(plan);
    check_sums(plan, sizing);
    if (tally->plans % TEXT_EVERY == 0)
        check_text(plan, sizing);
    if (tally->plans % TEXT_EVERY == 1)
        check_identities(plan);
    tally->plans++;
    tally->unfolded += plan->program_count > 1;
    mw_plan_free(plan);
}

static void
check_request(guint32 seed, struct tally *tally)
{
    struct random_request request;
    g_autoptr(GError) error = NULL;

    random_request_init(&request, seed);
    tally->requests++;
    g_autoptr(GPtrArray) candidates = random_request_candidates(&request, &error);
    if (!candidates) {
        g_assert_nonnull(error);
        tally->refused++;
        return;
    }
    for (guint i = 0; i < candidates->len; i++) {
        const struct mw_sizing *sizing = candidates->pdata[i];
        check_moments(sizing);
        if (sizing->fits)
            check_plan(sizing, tally);
        else
            tally->unfit++;
    }
}

static void
test_every_plan_holds(void)
{
    struct tally tally = {0};

    for (guint32 seed = 0; tally.plans < PLANS; seed++)
        check_request(seed, &tally);
    g_test_message("%d requests: %d refused, %d do not fit; %d plans, %d of them unfolded, %d with "
                   "runs of chunks",
                   tally.requests, tally.refused, tally.unfit, tally.plans, tally.unfolded,
                   tally.in_runs);
    g_test_message("%d with checkpoints of inputs and of activations", tally.mixed);
    g_assert_cmpint(tally.in_runs, >, PLANS / 100);
    g_assert_cmpint(tally.mixed, >, PLANS / 1000);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/planner-random/invariant-3/every-plan-holds", test_every_plan_holds);
    return g_test_run();
}
