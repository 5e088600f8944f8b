#include "base/error.h"

G_DEFINE_QUARK(mw-error-quark, mw_error)

bool
mw_refuse(GError **error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error_literal(error, MW_ERROR, MW_ERROR_INVALID, text);
    return false;
}
