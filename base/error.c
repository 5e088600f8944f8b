#include "base/error.h"

#include "base/spell.h"

G_DEFINE_QUARK(mw-error-quark, mw_error)

static void set(GError **error, enum mw_error code, const char *format, va_list arguments)
    G_GNUC_PRINTF(3, 0);

static void
set(GError **error, enum mw_error code, const char *format, va_list arguments)
{
    if (!error)
        return;
    g_autofree char *text = mw_spelled_vprintf(format, arguments);
    g_set_error_literal(error, MW_ERROR, (int)code, text);
}

bool
mw_refuse(GError **error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    set(error, MW_ERROR_INVALID, format, arguments);
    va_end(arguments);
    return false;
}

bool
mw_fail(GError **error, enum mw_error code, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    set(error, code, format, arguments);
    va_end(arguments);
    return false;
}
