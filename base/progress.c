#include "base/progress.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local struct {
    mw_progress_listener listener;
    void *data;
    char doing[160];
    int simulated;
} now;

void
mw_progress_listen(mw_progress_listener listener, void *data)
{
    now.listener = listener;
    now.data = data;
}

static void
tell(const char *doing)
{
    if (now.listener)
        now.listener(now.data, doing, now.simulated);
}

void
mw_progress(const char *format, ...)
{
    va_list arguments;

    if (!now.listener)
        return;
    va_start(arguments, format);
    vsnprintf(now.doing, sizeof now.doing, format, arguments);
    va_end(arguments);
    tell(now.doing);
}

void
mw_progress_simulates(void)
{
    if (!*now.doing)
        return;
    now.simulated++;
    tell(now.doing);
}

void
mw_progress_end(void)
{
    tell(NULL);
    *now.doing = '\0';
}
