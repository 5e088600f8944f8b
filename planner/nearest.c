#include "planner/nearest.h"

#include <stddef.h>
#include <string.h>

#define COMPARED_MAX 63

static int
least(int a, int b)
{
    return a < b ? a : b;
}

int
mw_name_distance(const char *a, const char *b)
{
    int row[COMPARED_MAX + 1];
    int length = (int)strnlen(b, COMPARED_MAX);

    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 1; i <= COMPARED_MAX && a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(replace, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[length];
}

static bool
is_near(const char *name, const char *known, int distance)
{
    size_t a = strlen(name), b = strlen(known);

    return (size_t)distance * 3 <= (a > b ? a : b);
}

bool
mw_name_is_near(const char *name, const char *known)
{
    return is_near(name, known, mw_name_distance(name, known));
}

const char *
mw_name_nearest(const char *name, const char *const *known)
{
    const char *nearest = NULL;
    int best = 0;

    for (; *known; known++) {
        int distance = mw_name_distance(name, *known);
        if (is_near(name, *known, distance) && (!nearest || distance < best)) {
            nearest = *known;
            best = distance;
        }
    }
    return nearest;
}
