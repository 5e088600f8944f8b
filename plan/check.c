#include "plan/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "plan/clock.h"
#include "plan/internal.h"
#include "plan/optimizers.h"

bool
mw_plan_refuse(struct mw_plan_check *check, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(check->why, check->why_size, format, arguments);
    va_end(arguments);
    return false;
}

uint32_t
mw_plan_named_op(const struct mw_plan_check *check, uint32_t index)
{
    struct mw_op_place place;

    return check->folded && mw_plan_find_number(check->folded, index, &place) ? place.op : index;
}

struct mw_plan_label
mw_plan_label_op(const struct mw_plan_check *check, uint32_t index)
{
    return mw_plan_label(check->folded ? check->folded : check->plan,
                         mw_plan_named_op(check, index));
}

struct mw_plan_label
mw_plan_label(const struct mw_plan *plan, uint32_t index)
{
    const struct mw_op *op = &plan->ops[index];
    struct mw_plan_label label;

    snprintf(label.text, sizeof label.text, "op %u (%s mb %u layer %d %s tile %u shard %u)", index,
             mw_phase_name(op->phase), op->micro_batch, op->layer,
             mw_work_name(&plan->works[op->work]), op->tile, op->shard);
    return label;
}

static bool
check_world(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;

    if (!plan->world_ranks || plan->world_ranks > MW_PLAN_MAX_WORLD || !plan->ranks_per_node ||
        plan->ranks_per_node > plan->world_ranks)
        return mw_plan_refuse(check,
                              "a world of %u ranks, %u per node: expected 1 to %u, and no more "
                              "per node than there are",
                              plan->world_ranks, plan->ranks_per_node, MW_PLAN_MAX_WORLD);
    for (int i = 0; i < MW_TIER_COUNT; i++)
        if (plan->tiers[i].capacity_bytes < 0 || plan->tiers[i].reserve_bytes < 0 ||
            plan->tiers[i].largest_request_bytes < 0)
            return mw_plan_refuse(check, "tier %s: negative bytes", mw_tier_name(i));
    return true;
}

static bool
check_comms(struct mw_plan_check *check)
{
    uint32_t world = check->plan->world_ranks;

    for (uint32_t i = 0; i < check->plan->comm_count; i++) {
        const struct mw_comm *comm = &check->plan->comms[i];
        if (comm->first >= (comm->single ? world : 1) ||
            !mw_plan_spans_nest(comm->spans, world - comm->first) ||
            !mw_plan_spans_divide(comm->spans))
            return mw_plan_refuse(check,
                                  "comm %u: expected spans that divide the world's %u ranks into "
                                  "groups, each rank in one, or one group within it",
                                  i, world);
    }
    return true;
}

static bool
check_lanes(struct mw_plan_check *check)
{
    for (uint32_t i = 0; i < check->plan->lane_count; i++) {
        const struct mw_lane *lane = &check->plan->lanes[i];

        if (lane->program >= check->plan->program_count)
            return mw_plan_refuse(check,
                                  "lane %u: is of program %u, and the plan has programs 0 to %u", i,
                                  lane->program, check->plan->program_count - 1);
        if (lane->kind >= MW_LANE_KIND_COUNT)
            return mw_plan_refuse(check, "lane %u: kind %u out of range", i, lane->kind);
        if (!lane->window_ops || lane->window_bytes < 0)
            return mw_plan_refuse(
                check, "lane %u: window of %u ops and %" PRId64 " bytes: expected >= 1 and >= 0", i,
                lane->window_ops, lane->window_bytes);
    }
    return true;
}

static bool
check_channels(struct mw_plan_check *check)
{
    for (uint32_t i = 0; i < check->plan->channel_count; i++) {
        const struct mw_channel *channel = &check->plan->channels[i];

        if (channel->kind >= MW_CHANNEL_KIND_COUNT || !channel->users)
            return mw_plan_refuse(check, "channel %u: kind %u, %u users: expected < %d and >= 1", i,
                                  channel->kind, channel->users, MW_CHANNEL_KIND_COUNT);
    }
    return true;
}

static bool
check_slots(struct mw_plan_check *check)
{
    for (uint32_t i = 0; i < check->plan->slot_count; i++) {
        const struct mw_slot *slot = &check->plan->slots[i];

        if (slot->program >= check->plan->program_count)
            return mw_plan_refuse(check,
                                  "slot %u: is of program %u, and the plan has programs 0 to %u", i,
                                  slot->program, check->plan->program_count - 1);
        if (slot->tier >= MW_TIER_COUNT || slot->purpose >= MW_PURPOSE_COUNT)
            return mw_plan_refuse(check, "slot %u: tier %u or purpose %u out of range", i,
                                  slot->tier, slot->purpose);
        if (slot->offset_bytes < 0 || slot->size_bytes < 0)
            return mw_plan_refuse(check, "slot %u: negative offset or size", i);
        if (slot->shares && slot->persistent)
            return mw_plan_refuse(check,
                                  "slot %u (%s): shares its bytes, and is persistent: expected one "
                                  "of the two",
                                  i, mw_purpose_name(slot->purpose));
    }
    return true;
}

static bool
check_draws(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_work *work = &plan->works[index];

    if (work->draw_count > MW_MAX_DRAWS_PER_WORK ||
        (uint64_t)work->draw_begin + work->draw_count > plan->draw_count)
        return mw_plan_refuse(check, "work %u: its draws are out of range", index);
    for (uint32_t i = 0; i < work->draw_count; i++) {
        const struct mw_draw *draw = &plan->draws[work->draw_begin + i];

        if (!draw->ranks || draw->ranks > plan->world_ranks)
            return mw_plan_refuse(check, "work %u: %u ranks draw from channel %u: expected 1 to %u",
                                  index, draw->ranks, draw->channel, plan->world_ranks);
        if (draw->channel >= plan->channel_count || draw->amount < 0)
            return mw_plan_refuse(check,
                                  "work %u: draws %" PRId64 " from channel %u: expected >= 0 from "
                                  "one of %u channels",
                                  index, draw->amount, draw->channel, plan->channel_count);
    }
    return true;
}

static bool
has_communicator(uint8_t kind)
{
    enum mw_joins joins = mw_op_traits(kind)->joins;

    return joins == MW_JOINS_GROUP || joins == MW_JOINS_PAIR;
}

/* FLOPs of a work's products if each of their sides is longer by `longer`. */
static double
products_flops(const struct mw_work *work, int64_t longer)
{
    double flops = 0;

    for (uint32_t i = 0; i < work->product_count; i++) {
        const struct mw_work_product *p = &work->products[i];
        flops += 2.0 * (double)(p->m + longer) * (double)(p->n + longer) * (double)(p->k + longer) *
                 (double)p->count;
    }
    return flops;
}

/* An update that makes matrices orthogonal has products on the GPU. */
static bool
is_orthogonal(const struct mw_plan *plan, const struct mw_work *work)
{
    return work->kind == MW_OP_UPDATE && !work->host &&
           mw_optimizer_orthogonalizes(plan->shape.optimizer);
}

static bool
check_products(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_work *work = &check->plan->works[index];
    const char *name = mw_op_kind_name(work->kind);

    if (work->product_count > MW_WORK_PRODUCTS_MAX)
        return mw_plan_refuse(check, "work %u (%s): %u products: at most %d", index, name,
                              work->product_count, MW_WORK_PRODUCTS_MAX);
    if (work->product_count && work->kind != MW_OP_COMPUTE && !is_orthogonal(check->plan, work))
        return mw_plan_refuse(check, "work %u (%s): has no products", index, name);
    for (uint32_t i = 0; i < work->product_count; i++) {
        const struct mw_work_product *p = &work->products[i];
        const struct mw_dtype_traits *dtype =
            p->dtype > 0 && p->dtype < MW_DTYPE_COUNT ? mw_dtype_row((int)p->dtype) : NULL;
        if (p->m < 1 || p->n < 1 || p->k < 1 || p->count < 1)
            return mw_plan_refuse(check,
                                  "work %u (%s): product %u: must have sides and a count "
                                  "of at least 1",
                                  index, name, i);
        if (!dtype || dtype->products == MW_PRODUCTS_NONE)
            return mw_plan_refuse(check,
                                  "work %u (%s): product %u: not of a type that products "
                                  "have",
                                  index, name, i);
        if (p->of < 0 || p->of >= MW_PRODUCT_OF_COUNT)
            return mw_plan_refuse(check,
                                  "work %u (%s): product %u: gives neither a result nor a "
                                  "gradient",
                                  index, name, i);
    }
    if ((double)work->flops < products_flops(work, -1) ||
        (double)work->flops > products_flops(work, 1))
        return mw_plan_refuse(check,
                              "work %u (%s): %" PRId64 " FLOPs are not those of its products",
                              index, name, work->flops);
    return true;
}

static bool
check_attention(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_work *work = &check->plan->works[index];
    const struct mw_work_attention *a = &work->attention;

    if (!a->heads)
        return true;
    if (a->queries < 1 || a->keys < 1 || a->heads < 1 || a->kv_heads < 1 || a->head_dim < 1 ||
        a->value_dim < 1 || a->window < 0 || a->causal < 0 || a->causal > 1 ||
        a->heads % a->kv_heads || !work->product_count)
        return mw_plan_refuse(check,
                              "work %u (%s): attention must have products, lengths and head sizes "
                              "of at least 1, and heads that its kv heads divide",
                              index, mw_op_kind_name(work->kind));
    return true;
}

static bool
check_work(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_work *work = &plan->works[index];

    if (work->kind >= MW_OP_KIND_COUNT || work->object >= MW_OBJECT_COUNT ||
        work->operator_ >= MW_OPERATOR_COUNT || work->dtype >= MW_DTYPE_COUNT)
        return mw_plan_refuse(check,
                              "work %u: kind %u, object %u, operator %u or data type %u out of "
                              "range",
                              index, work->kind, work->object, work->operator_, work->dtype);
    if (work->host && mw_op_traits(work->kind)->agent != MW_AGENT_CORES)
        return mw_plan_refuse(check, "work %u (%s): is not carried out by the host's cores", index,
                              mw_op_kind_name(work->kind));
    if (work->comm == MW_NONE ? has_communicator(work->kind) : work->comm >= plan->comm_count)
        return mw_plan_refuse(check, "work %u (%s): expected one of the %u communicators", index,
                              mw_op_kind_name(work->kind), plan->comm_count);
    if (work->flops < 0 || work->bytes < 0 || work->coded_bytes < 0 || work->elements < 0)
        return mw_plan_refuse(check, "work %u (%s): negative number", index,
                              mw_op_kind_name(work->kind));
    if (!(work->fullest >= 1 && work->fullest <= MW_PLAN_MAX_WORLD) && work->fullest != 0)
        return mw_plan_refuse(check,
                              "work %u (%s): the fullest rank has %g times the mean: must "
                              "be from 1 to %d",
                              index, mw_op_kind_name(work->kind), work->fullest, MW_PLAN_MAX_WORLD);
    return check_products(check, index) && check_attention(check, index) &&
           check_draws(check, index);
}

static bool
check_works(struct mw_plan_check *check)
{
    for (uint32_t i = 0; i < check->plan->work_count; i++)
        if (!check_work(check, i))
            return false;
    return true;
}

static bool
check_deps(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_op *op = &plan->ops[index];

    for (uint32_t i = 0; i < op->dep_count; i++) {
        uint32_t dep = plan->deps[op->dep_begin + i];
        uint32_t other = MW_DEP_INDEX(dep);

        if (other >= check->op_count)
            return mw_plan_refuse(check, "%s depends on op %u, the plan has %u",
                                  mw_plan_label_op(check, index).text, other, check->op_count);
        if (dep == index && !plan->section_count)
            return mw_plan_refuse(check, "%s depends on itself",
                                  mw_plan_label_op(check, index).text);
    }
    return true;
}

static bool
check_uses(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_op *op = &plan->ops[index];

    for (uint32_t i = 0; i < op->use_count; i++) {
        const struct mw_use *use = &plan->uses[op->use_begin + i];

        if (use->slot >= plan->slot_count || use->mode >= MW_USE_MODE_COUNT)
            return mw_plan_refuse(check, "%s: use of slot %u in mode %u: expected one of %u slots",
                                  mw_plan_label_op(check, index).text, use->slot, use->mode,
                                  plan->slot_count);
        if (use->role >= MW_ROLE_COUNT ||
            !mw_op_kind_allows_role(plan->works[op->work].kind, use->role))
            return mw_plan_refuse(check, "%s: uses slot %u as %s, which a %s does not",
                                  mw_plan_label_op(check, index).text, use->slot,
                                  use->role < MW_ROLE_COUNT ? mw_role_name(use->role) : "?",
                                  mw_op_kind_name(plan->works[op->work].kind));
        if (plan->slots[use->slot].program != plan->lanes[op->lane].program)
            return mw_plan_refuse(check, "%s of program %u uses slot %u of program %u",
                                  mw_plan_label_op(check, index).text,
                                  plan->lanes[op->lane].program, use->slot,
                                  plan->slots[use->slot].program);
    }
    return true;
}

static bool
check_op(struct mw_plan_check *check, uint32_t index)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_op *op = &plan->ops[index];

    if (op->work >= plan->work_count || op->lane >= plan->lane_count)
        return mw_plan_refuse(check, "op %u: work %u or lane %u out of range", index, op->work,
                              op->lane);
    if (op->phase >= MW_PHASE_COUNT || op->layer < -1)
        return mw_plan_refuse(check, "op %u: phase %u or layer %d out of range", index, op->phase,
                              op->layer);
    if ((uint64_t)op->dep_begin + op->dep_count > plan->dep_count ||
        (uint64_t)op->use_begin + op->use_count > plan->use_count)
        return mw_plan_refuse(check, "op %u: its dependencies or uses are out of range", index);
    return check_deps(check, index) && check_uses(check, index);
}

static bool
check_ops(struct mw_plan_check *check)
{
    check->op_count = (uint32_t)mw_plan_unfolded_ops(check->plan);
    if (check->plan->op_count > MW_PLAN_MAX_OPS)
        return mw_plan_refuse(check, "%u ops: at most %u", check->plan->op_count, MW_PLAN_MAX_OPS);
    for (uint32_t i = 0; i < check->plan->op_count; i++)
        if (!check_op(check, i))
            return false;
    return true;
}

static bool
check_tables(struct mw_plan_check *check)
{
    return check_world(check) && mw_plan_check_programs(check) && check_comms(check) &&
           check_lanes(check) && check_channels(check) && check_slots(check) &&
           mw_plan_check_homes(check) && check_works(check) &&
           mw_plan_check_section_ranges(check) && check_ops(check) &&
           mw_plan_check_sections(check) && mw_plan_check_shape(check);
}

void
mw_plan_check_clear(struct mw_plan_check *check)
{
    free(check->program_of);
    free(check->matches.begin);
    free(check->matches.members);
    free(check->matches.of_op);
    free(check->order);
    free(check->program_begin);
    free(check->overlaps.begin);
    free(check->overlaps.others);
    mw_plan_clock_free(check->clock);
}

static int64_t
need_of(const struct mw_program *program, int tier)
{
    return program->peak_bytes[tier] - (tier == MW_TIER_GPU ? program->apart_bytes : 0);
}

int64_t
mw_plan_need_bytes(const struct mw_plan *plan, int tier)
{
    int64_t most = 0;

    for (uint32_t p = 0; p < plan->program_count; p++)
        if (need_of(&plan->programs[p], tier) > most)
            most = need_of(&plan->programs[p], tier);
    return most;
}

int64_t
mw_plan_whole_need_bytes(const struct mw_plan *plan, int tier)
{
    int64_t most = 0;

    for (uint32_t p = 0; p < plan->program_count; p++) {
        const struct mw_program *program = &plan->programs[p];
        int64_t need = need_of(program, tier) + program->beside_bytes[tier];
        most = need > most ? need : most;
    }
    return most;
}

static void
seal(struct mw_plan *plan, bool barriered)
{
    for (uint32_t p = 0; p < plan->program_count; p++)
        for (int tier = 0; tier < MW_TIER_COUNT; tier++)
            if (plan->programs[p].peak_bytes[tier] > plan->peak_bytes[tier])
                plan->peak_bytes[tier] = plan->programs[p].peak_bytes[tier];
    plan->barriered = barriered;
    plan->checked = true;
}

bool
mw_plan_check_all(struct mw_plan_check *check)
{
    if (!check_tables(check))
        return false;
    if (check->plan->section_count)
        return mw_plan_check_rounds(check);
    return mw_plan_check_memory(check) && mw_plan_check_matches(check) &&
           mw_plan_check_order(check) && mw_plan_check_content(check);
}

bool
mw_plan_check(struct mw_plan *plan, char *why, size_t why_size)
{
    struct mw_plan_check check = {.plan = plan, .why = why, .why_size = why_size};
    bool good = mw_plan_check_all(&check);

    mw_plan_check_clear(&check);
    if (good)
        seal(plan, check.barriered);
    return good;
}
