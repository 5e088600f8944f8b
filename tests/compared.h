/*
 * compared.h - a prediction for the plan of compare_fixture.h, set beside four steps of it; what
 * the tests of the comparison begin with.
 */
#ifndef MW_TESTS_COMPARED_H
#define MW_TESTS_COMPARED_H

#include "report/run.h"
#include "tests/compare_fixture.h"

struct compared {
    struct mw_plan *plan;
    struct mw_timeline_row rows[OPS];
    struct mw_timeline timeline;
    struct mw_result *predicted;
    struct mw_measured *measured;
    struct mw_compare *compare;
    struct mw_run run;
};

/* Another rank, whose read takes 7 ms, a third one's 9, and stands in the way for what it has more
 * than 6. */
void compared_add_rank(struct compared *f);

struct compared_test {
    const char *path;
    void (*test)(struct compared *f, gconstpointer data);
};

/* All of a program: each has a comparison of its own.  Returns its exit status. */
int compared_run(int argc, char **argv, const struct compared_test *tests, size_t count);

#endif
