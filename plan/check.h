/*
 * check.h - the parts of mw_plan_check, in the order in which they run.  Private to the plan
 * library.
 *
 *   tables    every index and enum in range, numbers not negative       plan/check.c
 *   programs  ranks are of one program at most                          plan/check_programs.c
 *   homes     tensors and chunks within theirs; one of the tables       plan/check_homes.c
 *   memory    slots within their tier, none over another                plan/check_memory.c
 *   matches   who takes part in each collective                         plan/check_matches.c
 *   order     one order of all ops that obeys every edge of distance 0  plan/check_order.c
 *   content   what each slot holds when it is used                      plan/check_content.c
 *   barrier   whether steps are apart                                   plan/check_barrier.c
 *
 * Each part relies on the parts before it, returns false after mw_plan_refuse, and takes time
 * linear in the plan but for the sorting of slots and matches.
 */
#ifndef MW_PLAN_CHECK_H
#define MW_PLAN_CHECK_H

#include "plan/plan.h"

/* Ops that are one node, because they have one `match`. */
struct mw_plan_matches {
    uint32_t count;
    uint32_t *begin;   /* [count + 1] in members */
    uint32_t *members; /* ops */
    uint32_t *of_op;   /* [op_count], MW_NONE for an op without match; NULL if count is 0 */
};

struct mw_plan_clock;

struct mw_plan_check {
    struct mw_plan *plan; /* only what a check proves is written to it */
    const struct mw_plan
        *folded; /* that the plan was unfolded from: messages name its ops; or NULL */
    char *why;
    size_t why_size;

    uint32_t *program_of;           /* by programs: [world_ranks], MW_NONE: of none */
    struct mw_plan_matches matches; /* by matches */
    uint32_t op_count;              /* by tables: unfolded */
    uint32_t *order;                /* by order: [op_count] */
    struct mw_plan_clock *clock;    /* made between order and content, see plan/clock.h */
    bool barriered;                 /* by barrier */
};

bool mw_plan_check_programs(struct mw_plan_check *check);
bool mw_plan_check_shape(struct mw_plan_check *check);
bool mw_plan_check_homes(struct mw_plan_check *check);
/* The places of sections must be known before numbers of the unfolded plan are checked. */
bool mw_plan_check_section_ranges(struct mw_plan_check *check);
bool mw_plan_check_sections(struct mw_plan_check *check);
/* Everything that comes after the tables, of a plan with sections. */
bool mw_plan_check_rounds(struct mw_plan_check *check);
bool mw_plan_check_memory(struct mw_plan_check *check);
bool mw_plan_check_matches(struct mw_plan_check *check);
bool mw_plan_check_order(struct mw_plan_check *check);
bool mw_plan_check_content(struct mw_plan_check *check);

/* All of them; what they leave in `check` is cleared by mw_plan_check_clear. */
bool mw_plan_check_all(struct mw_plan_check *check);
void mw_plan_check_clear(struct mw_plan_check *check);

/* Not a condition of a good plan: a plan without it must be safe over the end of a step. */
bool mw_plan_find_barrier(const struct mw_plan_check *check);

/* Writes the reason.  Always false. */
bool mw_plan_refuse(struct mw_plan_check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An op's index and identity, for a message. */
struct mw_plan_label {
    char text[112];
};
struct mw_plan_label mw_plan_label_op(const struct mw_plan_check *check, uint32_t op);
/* Its number for a message: in the plan's text. */
uint32_t mw_plan_named_op(const struct mw_plan_check *check, uint32_t op);

#endif
