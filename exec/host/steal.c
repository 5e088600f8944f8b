#include "exec/host/steal.h"

#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STAT "/proc/stat"
#define DISTURBS 0.01
#define STEAL 8 /* of a line's figures, from 1 */

static const char *stat_path = STAT;

void
mw_steal_set_path(const char *path)
{
    stat_path = path ? path : STAT;
}

/* The figures of "cpu  1 2 3"; false if there are fewer than requested. */
static bool
read_steal(const char *line, double *ticks)
{
    unsigned long long figures[STEAL];

    if (sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &figures[0], &figures[1],
               &figures[2], &figures[3], &figures[4], &figures[5], &figures[6],
               &figures[7]) != STEAL)
        return false;
    *ticks = (double)figures[STEAL - 1];
    return true;
}

static bool
is_core(const char *line)
{
    return !strncmp(line, "cpu", 3) && g_ascii_isdigit(line[3]);
}

void
mw_steal_read(struct mw_steal *steal)
{
    FILE *file = fopen(stat_path, "re");
    char line[512];
    double ticks = 0;

    *steal = (struct mw_steal){0};
    if (!file)
        return;
    steal->told = fgets(line, sizeof line, file) && read_steal(line, &ticks);
    while (steal->told && fgets(line, sizeof line, file) && is_core(line))
        steal->cores++;
    steal->seconds = ticks / (double)sysconf(_SC_CLK_TCK);
    fclose(file);
}

double
mw_steal_s(const struct mw_steal *before, const struct mw_steal *after)
{
    return before->told && after->told ? fmax(0, after->seconds - before->seconds) : 0;
}

bool
mw_steal_disturbs(double stolen_s, double elapsed_s, int cores)
{
    return stolen_s > DISTURBS * elapsed_s * MAX(cores, 1);
}
