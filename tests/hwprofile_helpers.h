/*
 * hwprofile_helpers.h - what the tests of hardware profiles share.
 */
#ifndef MW_TESTS_HWPROFILE_HELPERS_H
#define MW_TESTS_HWPROFILE_HELPERS_H

#include "hardware/hwprofile.h"

/* A profile that must load; free with mw_profile_free. */
struct mw_profile *mw_test_load(const char *name);

/* What mw_profile_print writes; free it. */
char *mw_test_printed(const struct mw_profile *profile);

#endif
