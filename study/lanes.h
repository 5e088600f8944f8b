/*
 * lanes.h - a timeline lane by lane: shared by the summary, the trace and the plot.
 */
#ifndef MW_STUDY_LANES_H
#define MW_STUDY_LANES_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"
#include "study/result.h"

struct mw_span { /* one op's time in its lane; times count from the first op's start */
    uint32_t lane, op;
    int64_t start_ns, end_ns;
    uint32_t round[MW_SECTION_LEVELS]; /* in each section that contains the op */
    int64_t times;      /* how many ops it stands for, with skipped rounds of a section */
    int64_t skipped_ns; /* time of the rounds that were skipped before it ended */
};

struct mw_spans { /* sorted by lane, then start, then op */
    struct mw_span *span;
    size_t count;
    int64_t begin_ns; /* start of the first op of all programs, from which times count */
    int64_t span_ns;  /* end of the last op of all programs */
};

/* Of one program's lanes, or of all (MW_NONE).  Free with mw_lane_spans_clear. */
struct mw_spans mw_lane_spans_find(const struct mw_plan *plan, const struct mw_timeline *timeline,
                                   uint32_t program);
void mw_lane_spans_clear(struct mw_spans *spans);

/* The spans of one lane: a pointer into `spans` and how many. */
const struct mw_span *mw_lane_spans_of(const struct mw_spans *spans, uint32_t lane, size_t *count);

/* "nvme-read"; "compute-1" for a lane that is not the first of its kind.  g_free it. */
char *mw_lane_title(const struct mw_lane *lane);
/* Whether a title is that of a lane that computes. */
bool mw_lane_computes(const char *title);

/* "mlp-up fwd L12 mb1 t3 s2": numbers that are 0, or do not apply, are left out.  g_free it. */
char *mw_op_title(const struct mw_plan *plan, const struct mw_op *op);

/* False with MW_ERROR_INVALID naming `path` if the result has no timeline to write there. */
bool mw_lane_has_timeline(const struct mw_result *result, const char *path, GError **error);

/* Lane use from a timeline (one step): sets the lanes and phases of `result`.  Works for predicted
 * and measured timelines alike. */
void mw_summary_lanes(const struct mw_plan *plan, const struct mw_timeline *timeline,
                      struct mw_result *result);

#endif
