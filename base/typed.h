/*
 * typed.h - a number in a message, as a user would type it.
 */
#ifndef MW_BASE_TYPED_H
#define MW_BASE_TYPED_H

/* At most 15 digits, whole numbers below 10^15 without an exponent: "1000000", "0.25", "3e-5",
 * "1e18".  g_free. */
char *mw_typed(double number);

#endif
