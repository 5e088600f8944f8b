#include "tests/trained_faults.h"

struct trained_course
trained_faulty_course(const char *directory, struct mw_faults *faults, bool resume)
{
    struct trained_course course = trained_commit_course(directory, resume);

    course.buffered = true;
    course.calls = &faults->calls;
    return course;
}

struct trained
trained_go_on(const struct trained_case *what, const char *directory, bool previous)
{
    struct mw_faults none;

    mw_faults_init(&none, MW_FAULT_NONE, 0, 0);
    struct trained_course course = trained_faulty_course(directory, &none, true);
    course.previous = previous;
    struct trained trained = trained_well(what, &course);
    mw_faults_finish(&none);
    return trained;
}
