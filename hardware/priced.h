/*
 * priced.h - machines that can be had for money: the profiles that state a price and where it is
 * from.  What a made-up machine costs is not stated so.
 */
#ifndef MW_HARDWARE_PRICED_H
#define MW_HARDWARE_PRICED_H

#include <glib.h>

#include "hardware/hwprofile.h"

enum mw_price_kind { MW_PRICE_NONE, MW_PRICE_RENT, MW_PRICE_OWN };

struct mw_priced {
    struct mw_hwprofile *profile;
    struct mw_hardware hardware; /* at the outlook that was asked for */
    double price_usd;            /* of a node: an hour's rent, or to buy it; 0 of no kind */
};

enum mw_price_kind mw_price_kind(const struct mw_hardware *hardware);
double mw_price_usd(const struct mw_hardware *hardware, enum mw_price_kind kind);
/* "6.88 USD an hour", "4000 USD", "25.5M USD", with three figures, or "no price known"; g_free it.
 */
char *mw_price_text(double price_usd, enum mw_price_kind kind);

/* Those of one kind but the one named `except`, cheapest first, of one price with the least GPU
 * memory first.  Of MW_PRICE_NONE those that state no price.  Array of struct mw_priced *, which it
 * owns; profiles that cannot be read are not in it. */
GPtrArray *mw_priced_new(enum mw_price_kind kind, const char *except, enum mw_outlook outlook);

#endif
