#include <inttypes.h>
#include <stdlib.h>

#include "plan/check.h"
#include "plan/internal.h"

struct member {
    uint32_t match, program, op;
};

static int
compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->match != y->match)
        return x->match < y->match ? -1 : 1;
    if (x->program != y->program)
        return x->program < y->program ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static uint32_t
program_of(const struct mw_plan *plan, uint32_t op)
{
    return plan->lanes[plan->ops[op].lane].program;
}

/* Orders members, of which those of a match come by op, by match.  Numbers that are no more than
 * ops, as the planner has them, are counted instead of compared. */
static struct member *
order_by_match(struct member *members, uint32_t count, uint32_t op_count)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < count; i++)
        most = members[i].match > most ? members[i].match : most;
    if (!count || most >= op_count)
        return members;
    uint32_t *next = mw_plan_allocate((size_t)most + 2, sizeof *next);
    struct member *ordered = mw_plan_allocate(count, sizeof *ordered);
    for (uint32_t i = 0; i < count; i++)
        next[members[i].match + 1]++;
    for (uint32_t m = 0; m < most; m++)
        next[m + 1] += next[m];
    for (uint32_t i = 0; i < count; i++)
        ordered[next[members[i].match]++] = members[i];
    free(next);
    free(members);
    return ordered;
}

/* Collects all ops with a match, sorted by match and then by program. */
static struct member *
collect_members(const struct mw_plan *plan, uint32_t *count)
{
    struct member *members;
    bool sorted = true;

    *count = 0;
    for (uint32_t i = 0; i < plan->op_count; i++)
        *count += plan->ops[i].match != MW_NONE;
    members = mw_plan_allocate(*count, sizeof *members);
    *count = 0;
    for (uint32_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].match != MW_NONE)
            members[(*count)++] = (struct member){plan->ops[i].match, program_of(plan, i), i};
    members = order_by_match(members, *count, plan->op_count);
    for (uint32_t i = 1; i < *count && sorted; i++)
        sorted = compare_members(&members[i - 1], &members[i]) < 0;
    if (!sorted)
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

/* Whether one op sends and the other receives. */
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

/* A commit writes its own rank's bytes; all other ops of a match move the same bytes. */
static bool
moves_alike(const struct mw_work *a, const struct mw_work *b)
{
    return a->bytes == b->bytes || mw_op_traits(a->kind)->joins == MW_JOINS_ALL;
}

/* Checks the first member of a match against another one. */
static bool
check_agreement(struct mw_plan_check *check, uint32_t first, uint32_t other)
{
    const struct mw_plan *plan = check->plan;
    const struct mw_work *a = work_of(plan, first), *b = work_of(plan, other);

    if ((is_point_to_point(a) ? is_pair(a, b) : a->kind == b->kind) && a->comm == b->comm &&
        moves_alike(a, b) && a->hop == b->hop)
        return true;
    return mw_plan_refuse(check,
                          "match %u: %s (%s, comm %d, %" PRId64
                          " bytes) and %s (%s, comm %d, %" PRId64 " bytes) are not one collective",
                          plan->ops[first].match, mw_plan_label_op(check, first).text,
                          mw_op_kind_name(a->kind), (int)a->comm, a->bytes,
                          mw_plan_label_op(check, other).text, mw_op_kind_name(b->kind),
                          (int)b->comm, b->bytes);
}

/* --- members of a group ---------------------------------------------------------------------- */

/* The programs with an op of the match that is checked: those that hold its number. */
struct met {
    uint32_t *match_of; /* [program_count] */
    uint32_t number;
    struct pair *pairs; /* [2 * program_count]: the last ones that are good, forward and back */
};

/* Programs whose ranks send to each other. */
struct pair {
    bool good;
    int32_t hop;
    uint32_t comm, to;
};

/* The group of the first of the program's ranks.  The groups of the other ranks are alike. */
static struct mw_members
group_of(const struct mw_plan *plan, uint32_t op)
{
    return mw_comm_group(&plan->comms[work_of(plan, op)->comm],
                         plan->programs[program_of(plan, op)].ranks.base);
}

/* Each program that has ranks of the group has one op of the match, and no other program has
 * one. */
static bool
check_group(struct mw_plan_check *check, uint32_t match, const struct met *met)
{
    const struct mw_plan *plan = check->plan;
    const uint32_t *members = check->matches.members + check->matches.begin[match];
    uint32_t size = check->matches.begin[match + 1] - check->matches.begin[match];
    struct mw_members group = group_of(plan, members[0]);
    uint32_t ranks = mw_members_count(&group), programs = 0, last = MW_NONE;

    if (mw_members_at(&group, ranks - 1) >= plan->world_ranks ||
        !mw_members_have(&group, plan->programs[program_of(plan, members[0])].ranks.base))
        return mw_plan_refuse(check, "match %u: the group of %s is not of this world",
                              plan->ops[members[0]].match,
                              mw_plan_label_op(check, members[0]).text);
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t program = check->program_of[mw_members_at(&group, i)];
        if (program == MW_NONE || program == last)
            continue;
        if (met->match_of[program] != met->number && met->match_of[program] != met->number + 1)
            return mw_plan_refuse(check, "match %u: %s and others meet, but program %u does not",
                                  plan->ops[members[0]].match,
                                  mw_plan_label_op(check, members[0]).text, program);
        programs += met->match_of[program] == met->number;
        met->match_of[program] = met->number + 1; /* marks the program as seen */
        last = program;
    }
    if (programs == size)
        return true;
    return mw_plan_refuse(check, "match %u: %s and others are %u programs, its group is of %u",
                          plan->ops[members[0]].match, mw_plan_label_op(check, members[0]).text,
                          size, programs);
}

/* --- members of a pair ----------------------------------------------------------------------- */

/* Each rank of the sender's program pairs with a rank of the receiver's, and neither has more
 * ranks. */
static bool
check_pair(struct mw_plan_check *check, const uint32_t *members, struct met *met)
{
    const struct mw_plan *plan = check->plan;
    bool first_sends = work_of(plan, members[0])->kind == MW_OP_SEND;
    uint32_t send = members[!first_sends], recv = members[first_sends];
    const struct mw_members *from = &plan->programs[program_of(plan, send)].ranks;
    const struct mw_members *to = &plan->programs[program_of(plan, recv)].ranks;
    const struct mw_work *work = work_of(plan, send);
    struct pair *known = &met->pairs[2 * program_of(plan, send) + (work->hop < 0)];
    uint32_t count = mw_members_count(from);
    bool good = count == mw_members_count(to);

    if (known->good && known->hop == work->hop && known->comm == work->comm &&
        known->to == program_of(plan, recv))
        return true;
    for (uint32_t i = 0; i < count && good; i++) {
        uint32_t peer = mw_work_peer(plan, work, mw_members_at(from, i));
        good = peer < plan->world_ranks && check->program_of[peer] == program_of(plan, recv);
    }
    *known = (struct pair){good, work->hop, work->comm, program_of(plan, recv)};
    if (good)
        return true;
    return mw_plan_refuse(check, "match %u: the ranks of %s do not send to those of %s",
                          plan->ops[send].match, mw_plan_label_op(check, send).text,
                          mw_plan_label_op(check, recv).text);
}

/* --- all matches ----------------------------------------------------------------------------- */

static bool
check_match(struct mw_plan_check *check, uint32_t match, struct met *met)
{
    const struct mw_plan *plan = check->plan;
    const uint32_t *members = check->matches.members + check->matches.begin[match];
    uint32_t size = check->matches.begin[match + 1] - check->matches.begin[match];

    met->number += 2;
    for (uint32_t i = 0; i < size; i++) {
        uint32_t program = program_of(plan, members[i]);

        if (met->match_of[program] == met->number)
            return mw_plan_refuse(check, "match %u: %s and op %u are both of program %u",
                                  plan->ops[members[i]].match,
                                  mw_plan_label_op(check, members[i]).text,
                                  mw_plan_named_op(check, members[i - 1]), program);
        met->match_of[program] = met->number;
        if (i && !check_agreement(check, members[0], members[i]))
            return false;
    }
    if (size < 2 && plan->program_count == 1 && !is_point_to_point(work_of(plan, members[0])))
        return true;
    if (size < 2)
        return mw_plan_refuse(check, "match %u: %s has no other member",
                              plan->ops[members[0]].match,
                              mw_plan_label_op(check, members[0]).text);
    if (!is_point_to_point(work_of(plan, members[0])))
        return work_of(plan, members[0])->comm == MW_NONE || check_group(check, match, met);
    if (size > 2)
        return mw_plan_refuse(check, "match %u: %s is one of %u, expected a send and a recv",
                              plan->ops[members[0]].match, mw_plan_label_op(check, members[0]).text,
                              size);
    return check_pair(check, members, met);
}

/* An op without a match meets ranks of its own program, or of programs that this plan does not
 * have. */
static bool
check_alone(struct mw_plan_check *check, uint32_t op)
{
    const struct mw_plan *plan = check->plan;
    struct mw_members ranks = group_of(plan, op);
    uint32_t own = program_of(plan, op), count = mw_members_count(&ranks), other = own;

    if (!mw_members_have(&ranks, plan->programs[own].ranks.base))
        return mw_plan_refuse(check, "%s meets a group that it is not of",
                              mw_plan_label_op(check, op).text);
    if (is_point_to_point(work_of(plan, op))) {
        uint32_t peer = mw_work_peer(plan, work_of(plan, op), plan->programs[own].ranks.base);
        ranks = mw_members_of_one(peer);
        count = 1;
    }
    for (uint32_t i = 0; i < count && (other == own || other == MW_NONE); i++) {
        uint32_t rank = mw_members_at(&ranks, i);
        other = rank < plan->world_ranks ? check->program_of[rank] : MW_NONE;
    }
    if (other == own || other == MW_NONE)
        return true;
    return mw_plan_refuse(check, "%s meets program %u and has no match",
                          mw_plan_label_op(check, op).text, other);
}

static bool
check_others(struct mw_plan_check *check)
{
    const struct mw_plan *plan = check->plan;
    /* Of each work the program whose ops of it are good: they meet the same ranks. */
    uint32_t *good = mw_plan_allocate_nones(plan->work_count);
    bool all = true;

    for (uint32_t i = 0; i < plan->op_count && plan->program_count > 1 && all; i++) {
        uint32_t *program = &good[plan->ops[i].work];
        if (plan->ops[i].match != MW_NONE || *program == program_of(plan, i))
            continue;
        enum mw_joins joins = mw_op_traits(work_of(plan, i)->kind)->joins;
        all = (joins != MW_JOINS_GROUP && joins != MW_JOINS_PAIR) || check_alone(check, i);
        *program = program_of(plan, i);
    }
    free(good);
    return all;
}

bool
mw_plan_check_matches(struct mw_plan_check *check)
{
    uint32_t count;
    struct member *members = collect_members(check->plan, &count);
    struct met met = {
        .match_of = mw_plan_allocate(check->plan->program_count, sizeof *met.match_of),
        .pairs = mw_plan_allocate(2 * (size_t)check->plan->program_count, sizeof *met.pairs)};
    bool good = true;

    group_members(&check->matches, members, count, check->plan->op_count);
    for (uint32_t i = 0; i < check->matches.count && good; i++)
        good = check_match(check, i, &met);
    free(members);
    free(met.match_of);
    free(met.pairs);
    return good && check_others(check);
}
