/*
 * variants.h - steps that differ from each other: which plan executes a step.
 *
 * The steps of a training need not be alike: updates are delayed from some step on, or layers are
 * left out in turn.  Each kind of step is a plan of its own, a *variant*.  All variants keep their
 * state at the same places, so any of them can follow any other.  A rule says which variant a step
 * takes: from a given step on, the variants of a cycle take turns until another cycle begins.
 *
 * Steps count from 0.  This header is GLib-free.
 */
#ifndef MW_PLAN_VARIANTS_H
#define MW_PLAN_VARIANTS_H

#include "plan/plan.h"

/* From `first_step` on, the variants in `turns[first_turn .. first_turn + turn_count)` take
 * turns. */
struct mw_variant_span {
    int64_t first_step;
    uint32_t first_turn, turn_count;
};

struct mw_variants {
    struct mw_plan **plans; /* owned */
    uint32_t plan_count;
    struct mw_variant_span *spans; /* sorted by first step; that of the first is 0 */
    uint32_t span_count;
    uint32_t *turns; /* indices of plans */
    uint32_t turn_count;
};

/* Takes ownership of the plan.  All steps use it until more plans are added.  Returns NULL for
 * NULL; aborts if out of memory. */
struct mw_variants *mw_variants_new(struct mw_plan *plan);
/* Takes ownership of the plan and returns its number. */
uint32_t mw_variants_add(struct mw_variants *variants, struct mw_plan *plan);
/* From `first_step` on, the `count` variants of `cycle` take turns.  Replaces earlier rules for
 * these steps. */
void mw_variants_from(struct mw_variants *variants, int64_t first_step, const uint32_t *cycle,
                      uint32_t count);
void mw_variants_free(struct mw_variants *variants); /* NULL is allowed */

/* The number of a step's variant. */
uint32_t mw_variant_of(const struct mw_variants *variants, int64_t step);
/* The number of consecutive steps from `step` on, at most `steps`, that have the same variant. */
int64_t mw_variants_alike(const struct mw_variants *variants, int64_t step, int64_t steps);
/* The cycle that goes on for ever: its variants in turn, and their count. */
const uint32_t *mw_variants_last(const struct mw_variants *variants, uint32_t *count);
/* The step from which updates are delayed; -1: none are. */
int64_t mw_variants_delayed_from(const struct mw_variants *variants);
/* The variant with the largest places for saves of state, which the whole run uses. */
const struct mw_plan *mw_variants_saver(const struct mw_variants *variants);

/*
 * Checks that any variant can follow any other that the rule lets it follow:
 *   - all are sealed and, where there are several, barriered;
 *   - they agree on the ranks, their communicators, the step's shape and the model, on tensors,
 *     chunks, and the places of their homes: all that a resume and an executor rely on;
 *   - what is saved on drives is not overwritten by another variant's buffers;
 *   - gradients that wait for the next step's update are used by it: one variant at most delays
 *     updates, and no other follows it.
 * On failure returns false and writes one line to `why`, which names the variant and what differs.
 */
bool mw_variants_check(const struct mw_variants *variants, char *why, size_t why_size);

/* The text form has the plans one after the other and, if there are several, the rule after them.
 * It reads back to the same variants.  Parsing checks each plan and then the variants.  Otherwise
 * as plan.h says for a plan. */
bool mw_variants_write(const struct mw_variants *variants, FILE *out);
/* Whether both write the same text, but for what they were made for: names, the question and the
 * capacities of tiers. */
bool mw_variants_agree(const struct mw_variants *a, const struct mw_variants *b);
struct mw_variants *mw_variants_parse(const char *text, size_t length, char *why, size_t why_size);
/* The same of plans that are whole steps (mw_plan_check_step); all but the first may leave out
 * layers. */
struct mw_variants *mw_variants_parse_steps(const char *text, size_t length, char *why,
                                            size_t why_size);

#endif
