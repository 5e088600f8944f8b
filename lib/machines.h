/*
 * machines.h - what questions about many machines and about one that is owned have in common.
 */
#ifndef MW_LIB_MACHINES_H
#define MW_LIB_MACHINES_H

#include "lib/question.h"

/* The number that was set, or `otherwise`. */
double mw_lib_limit_of(const struct memwall_question *question, enum mw_lib_limit limit,
                       double otherwise);
/* Whether the settings are of a training whose days can be counted. */
bool mw_lib_check_training(const struct memwall_question *question, GError **error);
/* A line of the file of prices says all that is known of a machine's price; *from, which the caller
 * frees: who says so. */
bool mw_lib_take_price(const struct memwall_question *question, const GArray *prices,
                       struct mw_profile *profile, char **from, GError **error);
/* Leaves only the price of one way to pay: rent, spot, buy; any or NULL: all. */
bool mw_lib_take_pay(const char *pay, struct mw_profile *profile, GError **error);

#endif
