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
    int rows[3][COMPARED_MAX + 1]; /* of a's letter i, in turn */
    int height = (int)strnlen(a, COMPARED_MAX), width = (int)strnlen(b, COMPARED_MAX);

    for (int j = 0; j <= width; j++)
        rows[0][j] = j;
    for (int i = 1; i <= height; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= width; j++) {
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            int replaced = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(replaced, least(above[j], row[j - 1]) + 1);
            if (swapped)
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[height % 3][width];
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
