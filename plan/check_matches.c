#include <inttypes.h>
#include <stdlib.h>

#include "plan/check.h"
#include "plan/internal.h"

struct member {
    uint32_t match, rank, op;
};

static int
compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->match != y->match)
        return x->match < y->match ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* All ops with a match, those of one match side by side, by rank. */
static struct member *
collect_members(const struct mw_plan *plan, uint32_t *count)
{
    struct member *members;

    *count = 0;
    for (uint32_t i = 0; i < plan->op_count; i++)
        *count += plan->ops[i].match != MW_NONE;
    members = mw_plan_allocate(*count, sizeof *members);
    *count = 0;
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].match != MW_NONE)
            members[(*count)++] = (struct member){
                .match = plan->ops[i].match, .rank = plan->lanes[plan->ops[i].lane].rank, .op = i};
    if (*count > 1)
        qsort(members, *count, sizeof *members, compare_members);
    return members;
}

static void
group_members(struct mw_plan_matches *matches, const struct member *members, uint32_t count,
              uint32_t op_count)
{
    if (!count)
        return;
    matches->members = mw_plan_allocate(count, sizeof *matches->members);
    matches->begin = mw_plan_allocate((size_t)count + 1, sizeof *matches->begin);
    matches->of_op = mw_plan_allocate(op_count, sizeof *matches->of_op);
    for (uint32_t i = 0; i < op_count; i++)
        matches->of_op[i] = MW_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (!i || members[i].match != members[i - 1].match)
            matches->begin[matches->count++] = i;
        matches->members[i] = members[i].op;
        matches->of_op[members[i].op] = matches->count - 1;
    }
    matches->begin[matches->count] = count;
}

static bool
is_point_to_point(const struct mw_work *work)
{
    return mw_op_traits(work->kind)->joins == MW_JOINS_PAIR;
}

/* One sends, the other receives. */
static bool
is_pair(const struct mw_work *a, const struct mw_work *b)
{
    return is_point_to_point(b) && a->kind != b->kind;
}

static const struct mw_work *
work_of(const struct mw_plan *plan, uint32_t op)
{
    return &plan->works[plan->ops[op].work];
}

/* The first member against another one. */
static bool
check_agreement(struct mw_plan_check *check, uint32_t first, uint32_t other)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_work *a = work_of(plan, first), *b = work_of(plan, other);

    if ((is_point_to_point(a) ? is_pair(a, b) : a->kind == b->kind) && a->comm == b->comm &&
        a->bytes == b->bytes)
        return true;
    return mw_plan_refuse(check,
                          "match %u: %s (%s, comm %d, %" PRId64
                          " bytes) and %s (%s, comm %d, %" PRId64 " bytes) are not one collective",
                          plan->ops[first].match, mw_plan_label_op(plan, first).text,
                          mw_op_kind_name(a->kind), (int)a->comm, a->bytes,
                          mw_plan_label_op(plan, other).text, mw_op_kind_name(b->kind),
                          (int)b->comm, b->bytes);
}

/* `sizes` has the number of members of each communicator's collectives, 0 before the first. */
static bool
check_size(struct mw_plan_check *check, uint32_t first, uint32_t size, uint32_t *sizes)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_work *work = work_of(plan, first);

    if (size < 2 && (plan->ranks > 1 || is_point_to_point(work)))
        return mw_plan_refuse(check, "match %u: %s has no other member", plan->ops[first].match,
                              mw_plan_label_op(plan, first).text);
    if (work->comm == MW_NONE)
        return true;
    if (size > plan->comms[work->comm].size)
        return mw_plan_refuse(check, "match %u: %s and others are %u, comm %u has %u ranks",
                              plan->ops[first].match, mw_plan_label_op(plan, first).text, size,
                              work->comm, plan->comms[work->comm].size);
    if (is_point_to_point(work))
        return true;
    if (sizes[work->comm] && sizes[work->comm] != size)
        return mw_plan_refuse(check,
                              "match %u: %s and others are %u, other collectives of comm %u are %u",
                              plan->ops[first].match, mw_plan_label_op(plan, first).text, size,
                              work->comm, sizes[work->comm]);
    sizes[work->comm] = size;
    return true;
}

static bool
check_match(struct mw_plan_check *check, uint32_t match, uint32_t *sizes)
{
    const struct mw_plan *plan = check->plan;
    const uint32_t *members = check->matches.members + check->matches.begin[match];
    uint32_t size = check->matches.begin[match + 1] - check->matches.begin[match];

    for (uint32_t i = 1; i < size; i++) {
        uint32_t rank = plan->lanes[plan->ops[members[i]].lane].rank;

        if (rank == plan->lanes[plan->ops[members[i - 1]].lane].rank)
            return mw_plan_refuse(check, "match %u: %s and op %u are both of rank %u",
                                  plan->ops[members[i]].match,
                                  mw_plan_label_op(plan, members[i]).text, members[i - 1], rank);
        if (!check_agreement(check, members[0], members[i]))
            return false;
        if (is_point_to_point(work_of(plan, members[0])) && size > 2)
            return mw_plan_refuse(check, "match %u: %s is one of %u, expected a send and a recv",
                                  plan->ops[members[0]].match,
                                  mw_plan_label_op(plan, members[0]).text, size);
    }
    return check_size(check, members[0], size, sizes);
}

bool
mw_plan_check_matches(struct mw_plan_check *check)
{
    uint32_t count;
    struct member *members = collect_members(check->plan, &count);
    uint32_t *sizes = mw_plan_allocate(check->plan->comm_count, sizeof *sizes);
    bool good = true;

    group_members(&check->matches, members, count, check->plan->op_count);
    for (uint32_t i = 0; i < check->matches.count && good; i++)
        good = check_match(check, i, sizes);
    free(members);
    free(sizes);
    return good;
}
