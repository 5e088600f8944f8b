#include "cli/local_time.h"

#include <glib.h>
#include <time.h>

/* GLib's function warns of a time zone that it cannot read, and then returns no time at all. */
char *
cli_local_time(int64_t seconds, const char *format)
{
    time_t then = (time_t)seconds;
    char text[64] = "";
    struct tm day;

    if (!localtime_r(&then, &day) || !strftime(text, sizeof text, format, &day))
        return g_strdup("-");
    return g_strdup(text);
}
