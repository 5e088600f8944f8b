#include "report/html/text.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* GLib writes &#x1b; for a control character, which HTML refuses in that form too. */
static void
append(GString *page, const char *escaped)
{
    for (const char *at; (at = strstr(escaped, "&#x")); escaped = strchr(at, ';') + 1) {
        g_string_append_len(page, escaped, at - escaped);
        g_string_append(page, REPLACEMENT);
    }
    g_string_append(page, escaped);
}

void
mw_html_put(GString *page, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *escaped = g_markup_vprintf_escaped(format, arguments);
    va_end(arguments);
    append(page, escaped);
}

char *
mw_html_escaped(const char *text)
{
    GString *page = g_string_new(NULL);

    mw_html_put(page, "%s", text);
    return g_string_free(page, FALSE);
}
