/* parallel.h - a question about all ways to divide a training over the GPUs of a machine. */
#ifndef MW_LIB_PARALLEL_H
#define MW_LIB_PARALLEL_H

#include "lib/question.h"
#include "study/parallel.h"

struct mw_lib_parallel {
    struct mw_question question;
    struct mw_parallel_question asked;
    GArray *only; /* of struct mw_parallel_only, which own their values; NULL: none */
};

/* Whether the question is one. */
bool mw_lib_asks_parallel(const struct memwall_question *question);
/* *blamed as in mw_lib_read.  Clear it on failure too. */
bool mw_lib_read_parallel(const struct memwall_question *question, struct mw_lib_parallel *out,
                          const char **blamed, GError **error);
void mw_lib_parallel_clear(struct mw_lib_parallel *parallel);

#endif
