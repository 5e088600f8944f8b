/*
 * prices.h - prices of machines and their parts from a CSV file.
 *
 * The first line names the columns, in any order: profile, and any of usd_per_hour,
 * usd_per_hour_spot, usd_to_buy, usd_to_buy_least, usd_to_buy_most, available, region, date and
 * source; other columns are passed over.  A cell may be quoted.  A line has the price of one
 * profile, of one node, or of a part, whose profile is "part:" and a name of study/steps.h.
 * Several lines of one name differ in their region, and the cheapest by the way to pay counts.
 */
#ifndef MW_LIB_PRICES_H
#define MW_LIB_PRICES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define MW_LIB_PARTS_FILE "parts.csv" /* in hwprofiles/ */

struct mw_lib_price {
    char *profile, *region, *date, *source;             /* never NULL */
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
/* Whether a line is of a part. */
bool mw_lib_price_is_part(const struct mw_lib_price *price);
/* The cheapest of the profile in a region (a pattern; NULL: any) by a way to pay: rent, spot, buy;
 * any or NULL: rent where there is one, else buy.  NULL: the profile has no line there. */
const struct mw_lib_price *mw_lib_price_of(const GArray *prices, const char *profile,
                                           const char *region, const char *pay);
/* "prices.csv, line 4: AWS us-east-1, 2026-11-01, aws.amazon.com"; g_free it. */
char *mw_lib_price_source(const struct mw_lib_price *price, const char *path);

#endif
