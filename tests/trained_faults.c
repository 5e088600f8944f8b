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

void
trained_faults_add(const char *suite, const struct trained_faults_test *tests)
{
    for (int i = 0; i < TRAINED_COMMITS; i++)
        for (const struct trained_faults_test *test = tests; test->name; test++) {
            const struct trained_case *what = &trained_commits[i];
            g_autofree char *path = g_strdup_printf("/%s/%s/%s", suite, what->name, test->name);
            if (what->commit || !test->of_committed)
                g_test_add_data_func(path, what, test->function);
        }
}
