/*
 * changes.h - what one could change about a request, one thing at a time: the batch, a setting, a
 * figure of the machine.  The rest of the request stays as it was asked for, open where it was
 * open.
 */
#ifndef MW_CLI_CHANGES_H
#define MW_CLI_CHANGES_H

#include "cli/cli.h"

/* In the order in which they are tried: what a setting gives needs no money, and a part or a node
 * like those that are there less than another machine. */
enum cli_change_kind {
    CLI_CHANGE_SETTING,
    CLI_CHANGE_PART, /* of the machine: memory, a drive */
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
    double gain;                  /* in tokens/s, estimated */
    double price_usd;             /* of another machine, all nodes; else 1: of no weight */
};

/* Settings and parts that an estimate expects to gain something, by kind, best first.
 * Free with g_ptr_array_unref. */
GPtrArray *cli_changes_new(const struct cli_request *request, const struct cli_answer *answer);
/* Twice the nodes, if that is expected to gain something. */
GPtrArray *cli_changes_nodes(const struct cli_request *request, const struct cli_answer *answer);
/* Other machines of a known price, rented or bought as this one is, most gain for the money first;
 * those few that come nearest by their matrix rate for the money are estimated. */
GPtrArray *cli_changes_machines(const struct cli_request *request, const struct cli_answer *answer);
/* The same of smaller batches alone. */
GPtrArray *cli_changes_smaller_batches(const struct cli_request *request,
                                       const struct cli_answer *answer);

#endif
