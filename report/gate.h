/*
 * gate.h - the verdict of a gate: for people, as JSON, and for what runs it (JUnit, GitHub).
 */
#ifndef MW_REPORT_GATE_H
#define MW_REPORT_GATE_H

#include <glib.h>
#include <stdio.h>

#include "study/gate.h"

struct mw_gate_report {                         /* all borrowed */
    const char *baseline, *current, *predicted; /* files; NULL: none.  current NULL: asked anew */
    const char *wrote;                          /* version that wrote the baseline; or NULL */
    const struct mw_gate_limits *limits;
    const GPtrArray *before;             /* of struct mw_gate_case, and */
    const struct mw_gate_verdict *cases; /* what became of them; or NULL, and */
    const struct mw_gate_speed *runs;
};

bool mw_gate_failed(const struct mw_gate_report *report);

/* One thing that was looked at. */
struct mw_gate_finding {
    char *name, *message; /* message NULL: nothing to say */
    bool failed;          /* else the message is a warning */
};
/* Of struct mw_gate_finding, in the order of the baseline; g_array_unref it. */
GArray *mw_gate_findings(const struct mw_gate_report *report);

/* "step time 403 s -> 424 s (+5.2%): compute lane busy +20 s" of the figure at an index; what
 * explains the one before it too is not said again.  g_free it. */
char *mw_gate_moved_text(const struct mw_gate_verdict *verdict, guint index);
/* What explains a slower run: the part that grew most, or that none is known; NULL where it is not
 * slower.  g_free it. */
char *mw_gate_part_text(const struct mw_gate_speed *speed);

void mw_gate_text_write(FILE *out, const struct mw_gate_report *report);
void mw_gate_json_write(FILE *out, const struct mw_gate_report *report);
void mw_gate_junit_write(FILE *out, const struct mw_gate_report *report);
/* Commands of a workflow: an annotation for each finding that has a message. */
void mw_gate_github_write(FILE *out, const struct mw_gate_report *report);

#endif
