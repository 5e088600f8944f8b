#include "base/nearest.h"

#include <glib.h>
#include <string.h>

#define COMPARED_MAX 63
#define PART_MIN 3 /* letters; a shorter part occurs in too many names */
#define LIKE_MAX 6

static int
least(int a, int b)
{
    return a < b ? a : b;
}

static bool
same_letter(char a, char b)
{
    return g_ascii_tolower(a) == g_ascii_tolower(b);
}

int
mw_name_distance(const char *a, const char *b)
{
    int rows[3][COMPARED_MAX + 1]; /* rows for a's letter i, in turn */
    int height = (int)strnlen(a, COMPARED_MAX), width = (int)strnlen(b, COMPARED_MAX);

    for (int j = 0; j <= width; j++)
        rows[0][j] = j;
    for (int i = 1; i <= height; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= width; j++) {
            bool swapped = i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                           same_letter(a[i - 2], b[j - 1]);
            int replaced = above[j - 1] + !same_letter(a[i - 1], b[j - 1]);
            row[j] = least(replaced, least(above[j], row[j - 1]) + 1);
            if (swapped)
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[height % 3][width];
}

bool
mw_name_is_near(const char *name, const char *known)
{
    size_t a = strlen(name), b = strlen(known);

    return MAX(a, b) <= COMPARED_MAX &&
           (size_t)mw_name_distance(name, known) * 3 <= (a > b ? a : b);
}

static bool
is_part(const char *a, const char *b)
{
    g_autofree char *x = g_ascii_strdown(a, -1);
    g_autofree char *y = g_ascii_strdown(b, -1);

    return MIN(strlen(x), strlen(y)) >= PART_MIN && (strstr(x, y) || strstr(y, x));
}

struct like {
    const char *name;
    int distance;
};

static int
compare(const void *a, const void *b)
{
    return ((const struct like *)a)->distance - ((const struct like *)b)->distance;
}

/* Sorted by nearness; names that are equally near keep their order. */
static GArray *
find_like(const char *name, const char *const *known, bool (*is_like)(const char *, const char *))
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct like));

    for (; *known; known++) {
        struct like one = {*known, mw_name_distance(name, *known)};
        if (is_like(name, *known))
            g_array_append_val(found, one);
    }
    g_array_sort(found, compare);
    return found;
}

/* The number of leading names that are as near as the nearest. */
static guint
count_nearest(const GArray *found)
{
    guint count = 0;

    while (count < found->len && g_array_index(found, struct like, count).distance ==
                                     g_array_index(found, struct like, 0).distance)
        count++;
    return count;
}

/* Text of the first LIKE_MAX names; NULL if there are none. */
static char *
text_of(const GArray *found, guint count, const char *before)
{
    g_autoptr(GString) text = g_string_new(NULL);

    count = MIN(count, LIKE_MAX);
    for (guint i = 0; i < count; i++)
        g_string_append_printf(text, "%s%s%s",
                               !i               ? ""
                               : i + 1 == count ? " or "
                                                : ", ",
                               before, g_array_index(found, struct like, i).name);
    return count ? g_strdup(text->str) : NULL;
}

char *
mw_names_nearest(const char *name, const char *const *known)
{
    g_autoptr(GArray) near = find_like(name, known, mw_name_is_near);

    return text_of(near, count_nearest(near), "");
}

/* Puts the nearest names first, unless a part is as near. */
static void
put_nearest_first(GArray *parts, const GArray *near)
{
    bool nearer = near->len && (!parts->len || g_array_index(near, struct like, 0).distance <
                                                   g_array_index(parts, struct like, 0).distance);

    if (nearer)
        g_array_prepend_vals(parts, near->data, count_nearest(near));
}

char *
mw_names_like(const char *name, const char *const *known, const char *before)
{
    g_autoptr(GArray) found = find_like(name, known, is_part);
    g_autoptr(GArray) near = find_like(name, known, mw_name_is_near);

    put_nearest_first(found, near);
    return text_of(found, found->len, before);
}
