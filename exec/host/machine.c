#include "exec/host/machine.h"

#include <glib.h>
#include <sched.h>
#include <string.h>

static char *
processor(void)
{
    g_autofree char *text = NULL;

    if (g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL)) {
        const char *row = strstr(text, "model name");
        const char *colon = row ? strchr(row, ':') : NULL;
        if (colon) {
            g_autofree char *line = g_strndup(colon + 1, strcspn(colon + 1, "\n"));
            return g_strdup(g_strstrip(line));
        }
    }
    return g_strdup("unknown processor");
}

static int
cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? (int)g_get_num_processors() : CPU_COUNT(&set);
}

char *
mw_machine_processor(void)
{
    g_autofree char *name = processor();
    int count = cores();

    return g_strdup_printf("%s, %d core%s", name, count, count == 1 ? "" : "s");
}

char *
mw_machine_name(void)
{
    g_autofree char *name = mw_machine_processor();
    g_autofree char *line = g_strdup_printf("%s, host %s", name, g_get_host_name());

    return g_utf8_make_valid(line, -1);
}
