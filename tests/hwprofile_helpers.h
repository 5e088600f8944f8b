/*
 * hwprofile_helpers.h - what the tests of hardware profiles share.
 */
#ifndef MW_TESTS_HWPROFILE_HELPERS_H
#define MW_TESTS_HWPROFILE_HELPERS_H

#include "hardware/hwprofile.h"

/* A profile that must load; free with mw_hwprofile_free. */
struct mw_hwprofile *mw_test_load(const char *name);

/* What mw_hwprofile_print writes; free it. */
char *mw_test_printed(const struct mw_hwprofile *profile);

#endif
