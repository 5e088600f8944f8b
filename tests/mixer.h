/*
 * mixer.h - ops that only mix numbers held in their slots: the result must be that of one thread in
 * plan order, whatever the lanes' speed.
 */
#ifndef MW_TESTS_MIXER_H
#define MW_TESTS_MIXER_H

#include <glib.h>

#include "exec/lanes/lanes.h"

#define MIXER_STEPS 4

struct mixer {
    const struct mw_plan *plan;
    guint64 *content; /* [slot_count] */
    guint32 seed;
    uint32_t failing; /* op that fails in step 1, or MW_NONE */
    gint after_failure;
};

struct mixer mixer_new(const struct mw_plan *plan, guint32 seed);
void mixer_clear(struct mixer *mixer);

guint64 mixer_hash(guint64 a, guint64 b);
void mixer_mix(struct mixer *mixer, uint32_t op, uint32_t step);
/* An op of a backend whose context is the mixer. */
enum mw_exec_outcome mixer_run(void *context, struct mw_lanes *lanes, uint32_t op, uint32_t step,
                               GError **error);

/* Runs MIXER_STEPS steps of a backend that mixes with this: what comes out is what one thread makes
 * of them, and the rows keep the rule. */
void mixer_check(struct mixer *mixer, struct mw_exec_backend backend);

/* A plan of one program with some hundred ops; NULL where the request has none. */
struct mw_plan *mixer_plan(guint32 seed);
/* The same with a section of micro-batches, and in it as many ops as that says. */
struct mw_plan *mixer_folded_plan(guint32 seed);

int64_t mixer_clock_ns(void); /* that of lanes */

#endif
