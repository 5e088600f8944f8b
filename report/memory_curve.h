/*
 * memory_curve.h - what a timeline holds in memory, from the contents of the plan's slots.
 *
 * A content lives from the start of the op that defines it to the end of its last user before the
 * next definition.  A content that the next step still reads lives to the end of the step, and also
 * from its beginning.  Persistent slots live throughout.  Times count from the first op's start.
 */
#ifndef MW_REPORT_MEMORY_CURVE_H
#define MW_REPORT_MEMORY_CURVE_H

#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"

struct mw_memory_life { /* one content of one slot */
    uint32_t slot;
    int64_t start_ns, end_ns;
};

struct mw_memory_lives { /* sorted by slot, then time; of a slot they never overlap */
    struct mw_memory_life *life;
    size_t count;
    int64_t begin_ns; /* where the timeline's times begin */
    int64_t span_ns;  /* to the end of its last op */
};

struct mw_memory_point { /* bytes in use from this time to the next point's */
    int64_t time_ns;
    int64_t bytes[MW_TIER_COUNT];
};

struct mw_memory_curve {
    struct mw_memory_point *point; /* the first at time 0, the last at the end of the step */
    size_t count;
};

/* Of the slots of one program.  Free with mw_memory_lives_clear. */
struct mw_memory_lives mw_memory_lives_find(const struct mw_plan *plan,
                                            const struct mw_timeline *timeline, uint32_t program);
void mw_memory_lives_clear(struct mw_memory_lives *lives);

/* For one purpose or all (MW_PURPOSE_COUNT).  Free with mw_memory_curve_clear. */
struct mw_memory_curve mw_memory_curve_find(const struct mw_plan *plan,
                                            const struct mw_memory_lives *lives,
                                            enum mw_purpose purpose);
void mw_memory_curve_clear(struct mw_memory_curve *curve);

#endif
