/*
 * improvements.h - single changes of a question: the batch, a setting, a figure of the machine.
 * Everything else stays as it was requested, or open.
 */
#ifndef MW_STUDY_IMPROVEMENTS_H
#define MW_STUDY_IMPROVEMENTS_H

#include "study/study.h"

enum mw_improvement_kind {
    MW_IMPROVEMENT_SETTING, /* free of charge */
    MW_IMPROVEMENT_PART,    /* a part of the machine: memory, a drive */
    MW_IMPROVEMENT_NODES,
    MW_IMPROVEMENT_MACHINE,
    MW_IMPROVEMENT_KINDS
};

struct mw_improvement {
    char *what;                  /* for people */
    char *flags;                 /* the options that make it, to be added to the request's */
    struct mw_question question; /* the changed question; a shallow copy */
    struct mw_profile *profile;  /* of the changed machine, or NULL */
    enum mw_improvement_kind kind;
    double gain;         /* estimated factor on tokens/s */
    double times_dearer; /* factor on the price of all machines; 1 for a setting, and for a part
                          * without a known price */
    bool priced;         /* whether that price is known */
};

#define MW_WORTH_MONEY 1.05 /* a purchase must be faster by more */

/* Whether such a factor on tokens/s is worth a line.  A setting must gain over 1%.  A purchase must
 * gain over 5%, and at least half of the growth in price: 1.5 times the tokens/s for twice the
 * nodes, 2.5 times for a machine of four times the price.  A cheaper machine need only be as fast,
 * within 1%. */
bool mw_improvement_is_worth(const struct mw_improvement *change, double gain);
/* Factor on tokens per dollar. */
double mw_improvement_per_dollar(const struct mw_improvement *change, double gain);

/* The settings that are worth a line by estimate, best first: array of struct mw_improvement *.
 * g_ptr_array_unref it. */
GPtrArray *mw_best_settings(const struct mw_question *question, const struct mw_answer *answer);
/* The same for purchases, most tokens per dollar first: parts of a machine that is not rented;
 * twice the nodes, or half of them and fewer; another machine of a known price. */
GPtrArray *mw_best_purchases(const struct mw_question *question, const struct mw_answer *answer);
/* The same for smaller batches only. */
GPtrArray *mw_best_smaller_batches(const struct mw_question *question,
                                   const struct mw_answer *answer);

#endif
