/* largest.h - the most layers of a model that fit on a machine, for each strategy. */
#ifndef MW_STUDY_LARGEST_H
#define MW_STUDY_LARGEST_H

#include "study/study.h"

struct mw_largest {
    enum mw_strategy strategy;
    int64_t layers;              /* 0: not even one fits */
    double params, paper_params; /* of a model with that many layers; NAN: no layer fits */
    bool more; /* memory has room for more, but a step of more layers has too many ops to plan */
};

/* One row for each strategy of the question, in its order; "auto" stands for all strategies that
 * can be combined with the other settings.  NULL with *error if no strategy has a row.
 * g_array_unref it. */
GArray *mw_largest_find(const struct mw_question *question, GError **error);

#endif
