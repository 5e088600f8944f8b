/*
 * internal.h - what the files of the plan library share with each other.
 */
#ifndef MW_PLAN_INTERNAL_H
#define MW_PLAN_INTERNAL_H

#include "plan/plan.h"

/* Op indices share a word with MW_DEP_PREVIOUS_STEP. */
#define MW_PLAN_MAX_OPS 0x7fffffffu

/* Zeroed; aborts when memory is out.  free() it. */
void *mw_plan_allocate(size_t count, size_t size);

/* More are no machine that anybody has. */
#define MW_PLAN_MAX_WORLD (1u << 22)

/* Whether a span's stride is a whole number of the spans below it: then the ranks of the world fall
 * into groups, of which no two share a rank. */
bool mw_plan_spans_divide(const struct mw_axis_span spans[MW_AXIS_COUNT]);

/* Whether no two ranks that the spans name are the same, and all lie in the world. */
bool mw_plan_spans_nest(const struct mw_axis_span spans[MW_AXIS_COUNT], uint32_t world_ranks);

/* Whether an op of the kind may use a slot in the role; both in range. */
bool mw_op_kind_allows_role(int kind, int role);

/* As text: what all variants of a step have alike (plan/variants.h). */
bool mw_plan_write_shared(const struct mw_plan *plan, FILE *out);

/* Writes a section after the existing ones, with its span; there is room. */
void mw_plan_put_section(struct mw_plan *plan, struct mw_section section);
/* Slots that rounds go through one after the other, and how many of them are left out. */
struct mw_slot_row {
    int64_t first, last, left_out;
};
/* A folded plan with few rounds of its sections: its numbers.  All of `plan` but the sections is
 * the folded plan's. */
struct mw_shortened {
    struct mw_plan plan;
    struct mw_slot_row *rows; /* [row_count] */
    uint32_t row_count;
};
/* With no less than `rounds_kept` rounds of a section that has more.  False, with nothing to clear:
 * its sections cannot all leave out the same. */
bool mw_shortened_init(struct mw_shortened *few, const struct mw_plan *plan, uint32_t rounds_kept);
void mw_shortened_clear(struct mw_shortened *few);
/* What a slot of the folded plan is then; false: it is left out. */
bool mw_shortened_slot(const struct mw_shortened *few, uint32_t slot, uint32_t *as);
/* The few rounds as a plan without sections, unchecked, with the slots, tensors and chunks of
 * `plan`: give them back before it is freed. */
struct mw_plan *mw_shortened_unfold(const struct mw_shortened *few, const struct mw_plan *plan);
void mw_shortened_give_back(struct mw_plan *flat);

void mw_plan_copy_works(struct mw_plan *to, const struct mw_plan *from);
/* All but ops and sections, and but what homes hold: slots, tensors and chunks. */
void mw_plan_copy_tables(struct mw_plan *to, const struct mw_plan *from);

#endif
