/*
 * check.h - the parts of mw_plan_check, in the order in which they run.  Private to the plan
 * library.
 *
 *   tables    every index and enum is in range, no number is negative   plan/check.c
 *   programs  each rank is in one program at most                       plan/check_programs.c
 *   homes     tensors and chunks lie within theirs; one of the tables   plan/check_homes.c
 *   memory    slots lie within their tier and overlap only as they say  plan/check_memory.c
 *   matches   which ops take part in each collective                    plan/check_matches.c
 *   order     an order of all ops obeys every edge of distance 0        plan/check_order.c
 *   content   what each slot holds when it is used, and that contents
 *             which share bytes never meet                              plan/check_content.c
 *   barrier   whether a barrier separates steps                         plan/check_barrier.c
 *
 * Each part relies on the parts before it and returns false after mw_plan_refuse.  Each takes time
 * linear in the plan, except for sorting slots and matches.
 */
#ifndef MW_PLAN_CHECK_H
#define MW_PLAN_CHECK_H

#include "plan/plan.h"

/* Ops with the same `match` are one node of the graph. */
struct mw_plan_matches {
    uint32_t count;
    uint32_t *begin;   /* [count + 1] in members */
    uint32_t *members; /* ops */
    uint32_t *of_op;   /* [op_count], MW_NONE for an op without match; NULL if count is 0 */
};

/* Slots that share bytes. */
struct mw_plan_overlaps {
    uint32_t *begin;  /* [slot_count + 1] in others; NULL: no slot shares bytes */
    uint32_t *others; /* slots that lie over a slot, in part or whole */
};

struct mw_plan_clock;

struct mw_plan_check {
    struct mw_plan *plan; /* only what a check proves is written to it */
    const struct mw_plan
        *folded; /* that the plan was unfolded from: messages name its ops; or NULL */
    char *why;
    size_t why_size;

    uint32_t *program_of;             /* set by programs: [world_ranks]; MW_NONE for a rank of no
                                     * program */
    struct mw_plan_overlaps overlaps; /* set by memory */
    struct mw_plan_matches matches;   /* set by matches */
    uint32_t op_count;                /* set by tables: ops of the unfolded plan */
    uint32_t *order;                  /* set by order: [op_count] program by program, */
    uint32_t *program_begin;     /* and [program_count + 1] where each begins in it, which is its
                                       * first op too; NULL: programs' ops do not lie side by side,
                                       * or there is one program */
    struct mw_plan_clock *clock; /* of all programs, see plan/clock.h; NULL before it is asked
                                       * for.  Content makes it of a plan with one */
    bool barriered;              /* set by barrier */
};

bool mw_plan_check_programs(struct mw_plan_check *check);
bool mw_plan_check_shape(struct mw_plan_check *check);
bool mw_plan_check_homes(struct mw_plan_check *check);
/* Checks the ranges of sections.  Runs before numbers of the unfolded plan are checked. */
bool mw_plan_check_section_ranges(struct mw_plan_check *check);
bool mw_plan_check_sections(struct mw_plan_check *check);
/* Of these the part that an order has: what ops depend on moves on as the engine takes it to. */
bool mw_plan_check_section_deps(struct mw_plan_check *check);
/* Runs all checks after the tables for a plan with sections. */
bool mw_plan_check_rounds(struct mw_plan_check *check);
bool mw_plan_check_memory(struct mw_plan_check *check);
bool mw_plan_check_matches(struct mw_plan_check *check);
bool mw_plan_check_order(struct mw_plan_check *check);
bool mw_plan_check_content(struct mw_plan_check *check);

/* Runs all of them.  mw_plan_check_clear frees what they leave in `check`. */
bool mw_plan_check_all(struct mw_plan_check *check);
void mw_plan_check_clear(struct mw_plan_check *check);

/* A plan need not have a barrier; one without it must be safe across the end of a step. */
struct mw_plan_barrier {
    uint32_t commit; /* of a program that was looked at, or MW_NONE: there was none */
};
/* Whether the clock's programs have a barrier, and meet there those that were looked at before. */
bool mw_plan_finds_barrier(const struct mw_plan *plan, const struct mw_plan_clock *clock,
                           struct mw_plan_barrier *barrier);

/* Whether a slot has room for the optimizer's state of so many elements. */
bool mw_plan_holds_state(const struct mw_plan *plan, uint32_t slot, int64_t elements);

/* Writes the reason and returns false. */
bool mw_plan_refuse(struct mw_plan_check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An op's index and identity, for messages. */
struct mw_plan_label {
    char text[112];
};
struct mw_plan_label mw_plan_label(const struct mw_plan *plan, uint32_t op);
/* The same of the op that stands in the plan's text. */
struct mw_plan_label mw_plan_label_op(const struct mw_plan_check *check, uint32_t op);
/* Its number for a message: in the plan's text. */
uint32_t mw_plan_named_op(const struct mw_plan_check *check, uint32_t op);

#endif
