/*
 * changes.h - what one could change about a request, one thing at a time: the batch, a setting, a
 * figure of the machine.  The rest of the request stays as it was asked for, open where it was
 * open.
 */
#ifndef MW_CLI_CHANGES_H
#define MW_CLI_CHANGES_H

#include "cli/cli.h"

enum cli_change_kind {
    CLI_CHANGE_SETTING, /* free of charge */
    CLI_CHANGE_PART,    /* of the machine: memory, a drive */
    CLI_CHANGE_NODES,
    CLI_CHANGE_MACHINE,
    CLI_CHANGE_KINDS
};

struct cli_change {
    char *what;                   /* for people */
    char *flags;                  /* that make it, behind those of the request */
    struct cli_request request;   /* with it; a shallow copy */
    struct mw_hwprofile *profile; /* of the changed machine, or NULL */
    enum cli_change_kind kind;
    double gain;         /* times the tokens/s, estimated */
    double times_dearer; /* the price of all machines; of a part, whose price is not known,
                          * and of a setting 1 */
    bool priced;         /* that price is known */
};

/* Whether a gain of so many times the tokens/s is worth a line: of a setting over 1%.  What is paid
 * for must gain over 5%, and at least half of what it adds to the price: twice the nodes half as
 * much again, a machine of four times the price 2.5 times the tokens/s.  What costs less need only
 * be as fast, within 1%. */
bool cli_change_is_worth(const struct cli_change *change, double gain);
/* Tokens for the money, as a multiple of the present. */
double cli_change_merit(const struct cli_change *change, double gain);

/* Settings that an estimate expects to be worth a line, best first.
 * Free with g_ptr_array_unref. */
GPtrArray *cli_changes_free(const struct cli_request *request, const struct cli_answer *answer);
/* The same of what has to be paid for, most tokens for the money first: parts, of a machine that is
 * not rented; twice the nodes, or half of them and fewer; another machine of a known price. */
GPtrArray *cli_changes_paid(const struct cli_request *request, const struct cli_answer *answer);
/* Settings: smaller batches alone. */
GPtrArray *cli_changes_smaller_batches(const struct cli_request *request,
                                       const struct cli_answer *answer);

#endif
