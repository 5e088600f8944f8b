/*
 * priced.h - machines that can be bought or rented: the profiles that state a price and its source.
 * Made-up machines state none, those that are only simulated are none of them, and neither are
 * those whose rent is derived from that of their GPUs, or that nobody sells any more.
 */
#ifndef MW_HARDWARE_PRICED_H
#define MW_HARDWARE_PRICED_H

#include <glib.h>

#include "hardware/hwprofile.h"

enum mw_price_kind { MW_PRICE_NONE, MW_PRICE_RENT, MW_PRICE_OWN };

struct mw_priced {
    struct mw_profile *profile;
    struct mw_hardware hardware; /* at the requested outlook */
    double price_usd; /* of a node: an hour's rent, or the price to buy it; 0 for MW_PRICE_NONE */
};

enum mw_price_kind mw_price_kind(const struct mw_hardware *hardware);
double mw_price_usd(const struct mw_hardware *hardware, enum mw_price_kind kind);
/* "6.88 USD an hour", "4000 USD", "25.5M USD", with three figures, or "no price known"; g_free it.
 */
char *mw_price_text(double price_usd, enum mw_price_kind kind);

/* All machines of one kind of price without the one named `except`, cheapest first; of equal prices
 * the one with the least GPU memory first.  MW_PRICE_NONE: those that state no price.  An array of
 * struct mw_priced *, which it owns.  Left out are profiles that cannot be read, machines that are
 * only simulated, and rents that are not published for the machine itself. */
GPtrArray *mw_priced_new(enum mw_price_kind kind, const char *except, enum mw_outlook outlook);

#endif
