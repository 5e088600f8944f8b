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
bool mw_plan_may_have(int kind, int role);

/* As text: what all variants of a step have alike (plan/variants.h). */
bool mw_plan_write_shared(const struct mw_plan *plan, FILE *out);

/* Writes a section after the existing ones, with its span; there is room. */
void mw_plan_put_section(struct mw_plan *plan, struct mw_section section);
/* The folded plan with no more rounds than that of each section, to be asked for numbers: all but
 * its sections, which free() frees, is the plan's. */
struct mw_plan mw_plan_with_rounds(const struct mw_plan *plan, uint32_t rounds_max);
/* All but ops and sections, of a new plan. */
void mw_plan_copy_tables(struct mw_plan *to, const struct mw_plan *from);

#endif
