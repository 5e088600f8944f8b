/* trained_faults.h - committed runs whose system calls are observed, or fail. */
#ifndef MW_TESTS_TRAINED_FAULTS_H
#define MW_TESTS_TRAINED_FAULTS_H

#include "tests/nvme_faults.h"
#include "tests/trained_commits.h"

/* Through the page cache, by the calls of `faults`, which is borrowed. */
struct trained_course trained_faulty_course(const char *directory, struct mw_faults *faults,
                                            bool resume);

/* Continues without faults to the last step; `previous`: from the step before the newest. */
struct trained trained_go_on(const struct trained_case *what, const char *directory, bool previous);

/* A test of each of trained_commits, or of those alone that commit steps. */
struct trained_faults_test {
    const char *name;
    GTestDataFunc function; /* takes the case */
    bool of_committed;
};

/* Adds them as /SUITE/CASE/NAME; the last has no name. */
void trained_faults_add(const char *suite, const struct trained_faults_test *tests);

#endif
