/*
 * changes.h - what one could change about a request, one thing at a time: the batch, a setting, a
 * figure of the machine.  The rest of the request stays as it was asked for, open where it was
 * open.
 */
#ifndef MW_CLI_CHANGES_H
#define MW_CLI_CHANGES_H

#include "cli/cli.h"

struct cli_change {
    char *what;                   /* for people */
    char *flags;                  /* that make it, behind those of the request */
    struct cli_request request;   /* with it; a shallow copy */
    struct mw_hwprofile *profile; /* of the changed machine, or NULL */
    bool bought;                  /* costs money; a setting does not */
    double gain;                  /* in tokens/s, estimated */
};

/* Those that an estimate expects to gain something: free ones, then bought ones, best first.
 * Free with g_ptr_array_unref. */
GPtrArray *cli_changes_new(const struct cli_request *request, const struct cli_answer *answer);
/* The same of smaller batches alone. */
GPtrArray *cli_changes_smaller_batches(const struct cli_request *request,
                                       const struct cli_answer *answer);

#endif
