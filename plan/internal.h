/*
 * internal.h - declarations that the files of the plan library share.
 */
#ifndef MW_PLAN_INTERNAL_H
#define MW_PLAN_INTERNAL_H

#include "plan/plan.h"

/* Op indices share a word with MW_DEP_PREVIOUS_STEP. */
#define MW_PLAN_MAX_OPS 0x7fffffffu

/* Allocates zeroed memory for free(); aborts if there is none. */
void *mw_plan_allocate(size_t count, size_t size);

/* Allocates an array of `count` times MW_NONE for free(). */
uint32_t *mw_plan_allocate_nones(uint32_t count);

/* The number of the op behind a section's last one. */
static inline uint32_t
mw_section_end(const struct mw_section *section)
{
    return section->first_op + section->op_count;
}

/* Whether each span's stride is a multiple of the ranks of the spans below it.  Then the ranks of
 * the world fall into groups that share no rank. */
bool mw_plan_spans_divide(const struct mw_axis_span spans[MW_AXIS_COUNT]);

/* Whether the spans name no rank twice, and only ranks of the world. */
bool mw_plan_spans_nest(const struct mw_axis_span spans[MW_AXIS_COUNT], uint32_t world_ranks);

/* Whether an op of the kind may use a slot in the role.  Both must be in range. */
bool mw_op_kind_allows_role(int kind, int role);

/* Writes as text what all variants of a step have in common (plan/variants.h). */
bool mw_plan_write_shared(const struct mw_plan *plan, FILE *out);

/* Appends a section and its span; there must be room. */
void mw_plan_put_section(struct mw_plan *plan, struct mw_section section);
/* Slots that rounds use one after the other, and how many of them are left out. */
struct mw_slot_row {
    int64_t first, last, left_out;
};
/* A folded plan whose sections have few rounds.  Only the sections of `plan` differ from the folded
 * plan's; it borrows all else. */
struct mw_shortened {
    struct mw_plan plan;
    struct mw_slot_row *rows; /* [row_count] */
    uint32_t row_count;
};
/* Shortens each section to `rounds_kept` rounds or more; shorter sections stay as they are.
 * Returns false, with nothing to clear, if linked sections cannot leave out the same slots. */
bool mw_shortened_init(struct mw_shortened *few, const struct mw_plan *plan, uint32_t rounds_kept);
void mw_shortened_clear(struct mw_shortened *few);
/* The slot that stands for a slot of the folded plan; false if it is left out. */
bool mw_shortened_slot(const struct mw_shortened *few, uint32_t slot, uint32_t *as);
/* Unfolds the few rounds into a plan without sections, which is not checked.  It borrows the slots,
 * tensors and chunks of `plan`; mw_shortened_give_back must return them before it is freed. */
struct mw_plan *mw_shortened_unfold(const struct mw_shortened *few, const struct mw_plan *plan);
void mw_shortened_give_back(struct mw_plan *flat);

void mw_plan_copy_works(struct mw_plan *to, const struct mw_plan *from);
/* Copies all tables except ops and sections, and except slots, tensors and chunks. */
void mw_plan_copy_tables(struct mw_plan *to, const struct mw_plan *from);

#endif
