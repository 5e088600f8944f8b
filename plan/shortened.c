/*
 * Shortens the sections of a plan to few rounds, by leaving out rounds in the middle.
 *
 * Several sections may use the same slots in a row, as the passes of a step use the homes of its
 * layers.  Such sections are linked: each leaves out as many rounds as it takes to leave out the
 * same slots.  A use near an end of the row keeps its distance from that end.
 */
#include <stdlib.h>
#include <string.h>

#include "plan/internal.h"

/* No plan that was built has more. */
#define ROWS_MAX 4096

/* Slots that the rounds of one section use with the same stride. */
struct range {
    uint32_t section, row; /* row: index in mw_shortened.rows */
    int64_t by;            /* slots per round, as an absolute value */
    int64_t first, last;
};

struct ranges {
    struct range *all;
    uint32_t count;
};

static int
compare_ranges(const void *a, const void *b)
{
    const struct range *x = a, *y = b;

    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->section < y->section ? -1 : x->section > y->section;
}

/* Extends the newest range of the section that overlaps it; uses of a range come one after
 * another. */
static bool
add_range(struct ranges *ranges, uint32_t section, int64_t by, int64_t from, int64_t to)
{
    struct range added = {section, 0, by < 0 ? -by : by, from < to ? from : to,
                          from < to ? to : from};

    for (uint32_t i = ranges->count; i-- > 0 && ranges->all[i].section == section;) {
        struct range *range = &ranges->all[i];
        if (range->by != added.by || added.first > range->last + range->by ||
            range->first > added.last + range->by)
            continue;
        range->first = added.first < range->first ? added.first : range->first;
        range->last = added.last > range->last ? added.last : range->last;
        return true;
    }
    if (ranges->count == ROWS_MAX)
        return false;
    ranges->all[ranges->count++] = added;
    return true;
}

/* Returns false if a use moves along a row with the rounds of two sections, or if there are too
 * many rows. */
static bool
find_ranges(const struct mw_plan *plan, struct ranges *ranges)
{
    for (uint32_t s = 0; s < plan->section_count; s++) {
        const struct mw_section *section = &plan->sections[s];
        const struct mw_op *last = &plan->ops[section->first_op + section->op_count - 1];
        int level = section->parent == MW_NONE ? 0 : 1;

        for (uint32_t u = plan->ops[section->first_op].use_begin;
             u < last->use_begin + last->use_count; u++) {
            const struct mw_use_stride *stride = &plan->use_strides[u];
            int64_t slot = plan->uses[u].slot, by = stride->by[level];
            if (stride->ring_count || !by)
                continue;
            if (stride->by[1 - level] ||
                !add_range(ranges, s, by, slot, slot + by * ((int64_t)section->rounds - 1)))
                return false;
        }
    }
    return true;
}

/* Joins ranges that overlap into one row. */
static void
join_rows(struct mw_shortened *few, struct ranges *ranges)
{
    few->rows = mw_plan_allocate(ranges->count, sizeof *few->rows);
    if (ranges->count)
        qsort(ranges->all, ranges->count, sizeof *ranges->all, compare_ranges);
    for (uint32_t i = 0; i < ranges->count; i++) {
        struct range *range = &ranges->all[i];
        struct mw_slot_row *row = few->row_count ? &few->rows[few->row_count - 1] : NULL;
        if (!row || range->first > row->last) {
            row = &few->rows[few->row_count++];
            *row = (struct mw_slot_row){.first = range->first, .last = range->last};
        }
        row->last = range->last > row->last ? range->last : row->last;
        range->row = few->row_count - 1;
    }
}

static int64_t
divisor_of(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* For linked sections and rows: how many rounds or slots each leaves out per unit. */
struct shares {
    int64_t *of_section, *of_row; /* 0 for those that are not linked */
};

static bool
multiply(const struct mw_shortened *few, const struct shares *shares, int64_t by)
{
    for (uint32_t s = 0; s < few->plan.section_count; s++)
        if (__builtin_mul_overflow(shares->of_section[s], by, &shares->of_section[s]))
            return false;
    for (uint32_t r = 0; r < few->row_count; r++)
        if (__builtin_mul_overflow(shares->of_row[r], by, &shares->of_row[r]))
            return false;
    return true;
}

/* Adds a range.  Returns false if the share of its section contradicts that of its row. */
static bool
add_share(const struct mw_shortened *few, const struct shares *shares, const struct range *range,
          bool *grown)
{
    int64_t *section = &shares->of_section[range->section], *row = &shares->of_row[range->row];

    if (!*section == !*row)
        return !*section || *row == *section * range->by;
    *grown = true;
    if (*section)
        return !__builtin_mul_overflow(*section, range->by, row);
    return multiply(few, shares, range->by / divisor_of(range->by, *row)) &&
           (*section = *row / range->by) > 0;
}

/* Finds the shares of everything that is linked with a section. */
static bool
find_shares(const struct mw_shortened *few, const struct ranges *ranges, uint32_t section,
            const struct shares *shares)
{
    bool grown = true;

    memset(shares->of_section, 0, few->plan.section_count * sizeof *shares->of_section);
    memset(shares->of_row, 0, few->row_count * sizeof *shares->of_row);
    shares->of_section[section] = 1;
    while (grown) {
        grown = false;
        for (uint32_t i = 0; i < ranges->count; i++)
            if (!add_share(few, shares, &ranges->all[i], &grown))
                return false;
    }
    return true;
}

/* Leaves out as many rounds as every linked section allows. */
static void
leave_out(struct mw_shortened *few, const struct mw_plan *plan, const struct shares *shares,
          uint32_t rounds_kept, int64_t *left_out)
{
    int64_t most = INT64_MAX;

    for (uint32_t s = 0; s < plan->section_count; s++) {
        int64_t spare = (int64_t)plan->sections[s].rounds - rounds_kept;
        if (!shares->of_section[s])
            continue;
        spare = spare < 0 ? 0 : spare / shares->of_section[s];
        most = spare < most ? spare : most;
    }
    for (uint32_t s = 0; s < plan->section_count; s++)
        if (shares->of_section[s])
            left_out[s] = most * shares->of_section[s];
    for (uint32_t r = 0; r < few->row_count; r++)
        if (shares->of_row[r])
            few->rows[r].left_out = most * shares->of_row[r];
}

static bool
find_left_out(struct mw_shortened *few, const struct mw_plan *plan, const struct ranges *ranges,
              uint32_t rounds_kept, int64_t *left_out)
{
    struct shares shares = {mw_plan_allocate(plan->section_count, sizeof(int64_t)),
                            mw_plan_allocate(few->row_count, sizeof(int64_t))};
    bool good = true;

    for (uint32_t s = 0; s < plan->section_count; s++)
        left_out[s] = -1;
    for (uint32_t s = 0; s < plan->section_count && good; s++)
        if (left_out[s] < 0) {
            good = find_shares(few, ranges, s, &shares);
            if (good)
                leave_out(few, plan, &shares, rounds_kept, left_out);
        }
    free(shares.of_section);
    free(shares.of_row);
    return good;
}

bool
mw_shortened_init(struct mw_shortened *few, const struct mw_plan *plan, uint32_t rounds_kept)
{
    struct ranges ranges = {.all = mw_plan_allocate(ROWS_MAX, sizeof(struct range))};
    int64_t *left_out = mw_plan_allocate(plan->section_count, sizeof *left_out);

    *few = (struct mw_shortened){.plan = *plan};
    few->plan.sections = mw_plan_allocate(plan->section_count, sizeof *few->plan.sections);
    bool good = find_ranges(plan, &ranges);
    if (good) {
        join_rows(few, &ranges);
        good = find_left_out(few, plan, &ranges, rounds_kept, left_out);
    }
    few->plan.section_count = 0;
    for (uint32_t s = 0; s < plan->section_count && good; s++) {
        struct mw_section section = plan->sections[s];
        section.rounds -= (uint32_t)left_out[s];
        mw_plan_put_section(&few->plan, section);
    }
    free(left_out);
    free(ranges.all);
    if (!good)
        mw_shortened_clear(few);
    return good;
}

void
mw_shortened_clear(struct mw_shortened *few)
{
    free(few->plan.sections);
    free(few->rows);
    *few = (struct mw_shortened){0};
}

bool
mw_shortened_slot(const struct mw_shortened *few, uint32_t slot, uint32_t *as)
{
    *as = slot;
    for (uint32_t r = 0; r < few->row_count; r++) {
        const struct mw_slot_row *row = &few->rows[r];
        int64_t place = slot - row->first, left = row->last - slot;
        int64_t kept = row->last - row->first + 1 - row->left_out;
        if (place < 0 || left < 0)
            continue;
        if (place > left)
            *as = (uint32_t)(slot - row->left_out);
        /* A use in the first half and a use in the last half must stay on two slots. */
        return !row->left_out || 2 * (place > left ? left : place) < kept - 1;
    }
    return true;
}
