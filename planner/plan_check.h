/*
 * plan_check.h - the parts of mw_plan_check, in the order in which they run.  Private to the plan
 * library.
 *
 *   tables    every index and enum in range, numbers not negative     plan_check.c
 *   memory    slots within their tier, none over another              plan_check_memory.c
 *   order     one order of all ops that obeys every edge of distance 0   plan_check_order.c
 *   content   what each slot holds when it is used, over steps too    plan_check_content.c
 *
 * Each part relies on the parts before it, returns false after mw_plan_refuse, and takes time
 * linear in the plan but for the sorting of slots and matches.
 */
#ifndef MW_PLANNER_PLAN_CHECK_H
#define MW_PLANNER_PLAN_CHECK_H

#include "planner/plan.h"

struct mw_plan_check {
    const struct mw_plan *plan;
    char *why;
    size_t why_size;

    int64_t peak_bytes[MW_TIER_COUNT]; /* by memory */
    uint32_t *position; /* by order: [op_count], the op's place in its lane, from 1 */
    uint32_t *order;    /* by order: [op_count] */
    bool barriered;     /* by content */
};

bool mw_plan_check_memory(struct mw_plan_check *check);
bool mw_plan_check_order(struct mw_plan_check *check);
bool mw_plan_check_content(struct mw_plan_check *check);

/* Writes the reason.  Always false. */
bool mw_plan_refuse(struct mw_plan_check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An op's index and identity, for a message. */
struct mw_plan_label {
    char text[112];
};
struct mw_plan_label mw_plan_label_op(const struct mw_plan *plan, uint32_t op);

#endif
