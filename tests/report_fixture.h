/*
 * report_fixture.h - a made-up answer: a small plan, a timeline, and every field of the result.
 */
#ifndef MW_TESTS_REPORT_FIXTURE_H
#define MW_TESTS_REPORT_FIXTURE_H

#include "study/result.h"

struct report_fixture {
    struct mw_plan *plan;
    struct mw_timeline timeline;
    struct mw_result *result;
};

/* `layers` >= 1; each has a fetch, a forward, a backward and an update. */
struct report_fixture *report_fixture_new(int layers);
void report_fixture_free(struct report_fixture *fixture);

/* A plan that does not fit, without plan and timeline. */
struct mw_result *report_fixture_refused(void);

#endif
