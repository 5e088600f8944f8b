/* course_internal.h - what the files of a run's course share; private to them. */
#ifndef MW_CLI_RUN_COURSE_INTERNAL_H
#define MW_CLI_RUN_COURSE_INTERNAL_H

#include <json-glib/json-glib.h>

#include "cli/run/course.h"

/* Recorded values, as bits. */
struct cli_run_course {
    uint64_t fixed[CLI_FIXEDS], course[CLI_COURSES], tokens;
    bool has_fixed[CLI_FIXEDS], has_course[CLI_COURSES], has_tokens;
    uint64_t digits[CLI_DIGITS];
    bool has_digits[CLI_DIGITS];
    bool is_known;      /* there was a record */
    bool of_checkpoint; /* the record is of the checkpoint that the run starts from, not of a
                         * resumed run */
};

/* Appends "OPTION is A, it was B". */
void cli_run_course_add(GString *changes, const char *option, const char *is, const char *was);
/* Appends the option as it must be typed to have the recorded value; `was` NULL: it was not
 * given. */
void cli_run_course_add_again(GString *again, const char *option, const char *was);

#endif
