/*
 * error.h - the few kinds of error, all in one GError domain. "Does not fit" is a result, not an
 * error.
 */
#ifndef MW_BASE_ERROR_H
#define MW_BASE_ERROR_H

#include <glib.h>
#include <stdbool.h>

enum mw_error {
    MW_ERROR_INVALID, /* a value, a name or a combination that makes no sense: exit 2 */
    MW_ERROR_FORMAT,  /* a file that cannot be parsed: exit 2 */
    MW_ERROR_IO,      /* reading or writing fails, or failed in an earlier run: exit 1 */
    MW_ERROR_DEVICE,  /* a device that fails: exit 1 */
    MW_ERROR_LARGE,   /* a question whose answer takes too long: exit 2 */
};

#define MW_ERROR mw_error_quark()
GQuark mw_error_quark(void);

/* Sets an error of one line and returns false.  Settings are in braces in the format
 * (base/spell.h). */
bool mw_fail(GError **error, enum mw_error code, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* The same with MW_ERROR_INVALID. */
bool mw_refuse(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);

#endif
