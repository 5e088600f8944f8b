/*
 * answers.h - the answers to many questions at once, on all cores.
 */
#ifndef MW_STUDY_ANSWERS_H
#define MW_STUDY_ANSWERS_H

#include "study/study.h"

struct mw_asked {
    struct mw_question question;
    struct mw_result *result; /* without plan and timeline; NULL: refused, as `why` says */
    char *why;
};

/* The best of the strategies that the question names; NULL with *error. */
struct mw_answer *mw_answer_best(const struct mw_question *question, enum mw_depth depth,
                                 GError **error);
/* The result of an answer, which it frees; plan and timeline go with it. */
struct mw_result *mw_answer_result(struct mw_answer *answer);

/* Sets result or why of each, as rows (MW_DEPTH_ROW). */
void mw_answer_each(struct mw_asked *asked, int count);

#endif
