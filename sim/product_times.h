/*
 * product_times.h - times of products that the thread has computed before.
 *
 * A search or a sweep asks for the same few shapes on the same machine thousands of times.  A time
 * depends on its key alone, so one that is remembered has the bits of one that is computed.  Each
 * thread has a table of fixed size, in which a new time takes the place of an older one.
 */
#ifndef MW_SIM_PRODUCT_TIMES_H
#define MW_SIM_PRODUCT_TIMES_H

#include <stdint.h>

#define MW_PRODUCT_TIMES_RATES 9
#define MW_PRODUCT_TIMES_SIZES 5

/* All that the time depends on; compared byte by byte, so it has no holes. */
struct mw_product_key {
    double rates[MW_PRODUCT_TIMES_RATES];
    int64_t sizes[MW_PRODUCT_TIMES_SIZES];
};

/* The place of the key's time, in seconds; 0: it is not known, and the caller puts it there. */
double *mw_product_time_of(const struct mw_product_key *key);

#endif
