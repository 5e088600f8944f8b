/*
 * trace.h - a trace that memwall wrote, for a page: ops by lane, on one clock.
 */
#ifndef MW_REPORT_HTML_TRACE_H
#define MW_REPORT_HTML_TRACE_H

#include <glib.h>
#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"

#define MW_PAGE_OPS_MAX 1000000

struct mw_page_op {
    int64_t start_ns, end_ns; /* from the beginning of the trace */
    guint name;               /* index into names */
    uint8_t phase;            /* enum mw_phase */
};

struct mw_page_lane {
    int64_t pid, tid;
    char *name;
    GArray *ops; /* of struct mw_page_op, in the order of their start; none overlaps another */
};

struct mw_page_point {
    int64_t time_ns;
    int64_t bytes; /* from then on */
};

struct mw_page_curve { /* of the memory in use of a tier */
    int64_t pid;
    char *name;     /* "gpu memory" */
    GArray *points; /* of struct mw_page_point, by time */
    int64_t most_bytes;
};

struct mw_page_trace {
    JsonNode *origin;  /* an object: what the trace is of */
    GPtrArray *lanes;  /* of struct mw_page_lane *, those that have ops */
    GPtrArray *names;  /* of char *: of ops, each once */
    GPtrArray *curves; /* of struct mw_page_curve *, those that are ever above 0 */
    int64_t span_ns;   /* the last end */
    guint op_count;
};

/* Whether a text begins as a trace does. */
bool mw_page_is_trace(const char *text);

/* `text` is changed meanwhile and as before in the end.  NULL with one line that names the file. */
struct mw_page_trace *mw_page_trace_read(char *text, const char *path, GError **error);
void mw_page_trace_free(struct mw_page_trace *trace); /* NULL is allowed */

#endif
