/*
 * prices.h - prices of machines and their parts from a CSV file.
 *
 * The first line names the columns, in any order: profile, and any of usd_per_hour,
 * usd_per_hour_spot, usd_to_buy, usd_to_buy_least, usd_to_buy_most, available, condition, region,
 * date and source; other columns are passed over.  A cell may be quoted.  A line has the price of
 * one profile, of one node, or of a part, whose profile is "part:" and a name of study/steps.h.
 * Several lines of one name differ in their region, condition or source; the cheapest by the way to
 * pay counts, and what is discontinued only where nothing else is to be had.
 */
#ifndef MW_LIB_PRICES_H
#define MW_LIB_PRICES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#include "study/study.h"

#define MW_LIB_PARTS_FILE "parts.csv" /* in hwprofiles/ */

enum mw_condition {
    MW_CONDITION_NEW, /* unless the file says otherwise */
    MW_CONDITION_USED,
    MW_CONDITION_DISCONTINUED, /* nobody sells it at this price any more */
    MW_CONDITIONS
};

struct mw_lib_price {
    char *profile, *region, *date, *source; /* never NULL */
    enum mw_condition condition;
    double usd_per_hour, usd_per_hour_spot, usd_to_buy; /* 0: not given */
    double usd_to_buy_least, usd_to_buy_most;           /* the range of usd_to_buy; 0: not given */
    int64_t available;                                  /* nodes; 0: not given */
    int line;
};

/* Array of struct mw_lib_price, which owns them; NULL with *error. */
GArray *mw_lib_prices_read(const char *path, GError **error);
/* Those of parts that memwall knows, from the file of its data; empty: it is not there; NULL with
 * *error: it cannot be read. */
GArray *mw_lib_prices_known(GError **error);
/* A note on lines whose machine or card is not known here; NULL: there are none.  g_free it. */
char *mw_lib_prices_unknown(const GArray *prices, const char *path);
/* Whether a line is of a machine, a machine's card, or another part that is known here. */
bool mw_lib_price_is_known(const struct mw_lib_price *price);
/* Whether a line is of a part. */
bool mw_lib_price_is_part(const struct mw_lib_price *price);
/* The cheapest of the profile in a region (a pattern; NULL: any) by a way to pay: rent, spot, buy;
 * any or NULL: rent where there is one, else buy.  NULL: the profile has no line there. */
const struct mw_lib_price *mw_lib_price_of(const GArray *prices, const char *profile,
                                           const char *region, const char *pay);
/* What drives cost, by the user's file (NULL: none), else as known. */
bool mw_lib_drive_prices(const GArray *prices, const char *path, const char *region,
                         struct mw_question *out, GError **error);
/* "prices.csv, line 4: AWS us-east-1, 2026-11-01, aws.amazon.com"; g_free it. */
char *mw_lib_price_source(const struct mw_lib_price *price, const char *path);

#endif
