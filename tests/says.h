/*
 * says.h - checks what a message says.
 */
#ifndef MW_TESTS_SAYS_H
#define MW_TESTS_SAYS_H

#include <glib.h>
#include <string.h>

#include "base/error.h"

/* One line that has this part. */
static inline void
mw_test_says(const char *message, const char *part)
{
    if (strchr(message, '\n') || !strstr(message, part))
        g_error("\"%s\" is not one line with \"%s\"", message, part);
}

/* An error of ours, in one line that has both parts; frees it. */
static inline void
mw_test_error_says(GError *error, const char *a, const char *b)
{
    g_assert_nonnull(error);
    g_assert_true(error->domain == MW_ERROR);
    mw_test_says(error->message, a);
    mw_test_says(error->message, b);
    g_error_free(error);
}

#endif
