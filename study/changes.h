/*
 * changes.h - what one could change about a question, one thing at a time: the batch, a setting, a
 * figure of the machine.  The rest of the request stays as it was asked for, open where it was
 * open.
 */
#ifndef MW_STUDY_CHANGES_H
#define MW_STUDY_CHANGES_H

#include "study/study.h"

enum mw_change_kind {
    MW_CHANGE_SETTING, /* free of charge */
    MW_CHANGE_PART,    /* of the machine: memory, a drive */
    MW_CHANGE_NODES,
    MW_CHANGE_MACHINE,
    MW_CHANGE_KINDS
};

struct mw_change {
    char *what;                   /* for people */
    char *flags;                  /* that make it, behind those of the request */
    struct mw_question question;  /* with it; a shallow copy */
    struct mw_hwprofile *profile; /* of the changed machine, or NULL */
    enum mw_change_kind kind;
    double gain;         /* times the tokens/s, estimated */
    double times_dearer; /* the price of all machines; of a part, whose price is not known,
                          * and of a setting 1 */
    bool priced;         /* that price is known */
};

/* Whether a gain of so many times the tokens/s is worth a line: of a setting over 1%.  What is paid
 * for must gain over 5%, and at least half of what it adds to the price: twice the nodes half as
 * much again, a machine of four times the price 2.5 times the tokens/s.  What costs less need only
 * be as fast, within 1%. */
bool mw_change_is_worth(const struct mw_change *change, double gain);
/* Tokens for the money, as a multiple of the present. */
double mw_change_merit(const struct mw_change *change, double gain);

/* Settings that an estimate expects to be worth a line, best first.
 * Free with g_ptr_array_unref. */
GPtrArray *mw_changes_free(const struct mw_question *question, const struct mw_answer *answer);
/* The same of what has to be paid for, most tokens for the money first: parts, of a machine that is
 * not rented; twice the nodes, or half of them and fewer; another machine of a known price. */
GPtrArray *mw_changes_paid(const struct mw_question *question, const struct mw_answer *answer);
/* Settings: smaller batches alone. */
GPtrArray *mw_changes_smaller_batches(const struct mw_question *question,
                                      const struct mw_answer *answer);

#endif
