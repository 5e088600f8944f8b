#include "base/typed.h"

#include <glib.h>
#include <string.h>

char *
mw_typed(double number)
{
    char digits[G_ASCII_DTOSTR_BUF_SIZE];

    g_ascii_formatd(digits, sizeof digits, "%.15g", number);
    char *exponent = strchr(digits, 'e');
    if (!exponent)
        return g_strdup(digits);
    *exponent++ = '\0';
    const char *sign = *exponent == '-' ? "-" : "";
    return g_strdup_printf("%se%s%s", digits, sign, exponent + 1 + strspn(exponent + 1, "0"));
}
