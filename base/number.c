#include "base/number.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/spell.h"
#include "base/typed.h"

const char *
mw_number_scan(const char *text, double *value)
{
    char *end;

    errno = 0;
    *value = g_ascii_strtod(text, &end);
    bool decimal = end > text && strspn(text, "0123456789.eE+-") >= (size_t)(end - text);
    return decimal && !errno && isfinite(*value) ? end : NULL;
}

/* Reads the suffix after a count and returns its factor. */
static double
read_suffix(const char **end)
{
    static const struct {
        char name;
        double factor;
    } suffixes[] = {{'k', 1e3}, {'M', 1e6}, {'B', 1e9}, {'T', 1e12}};

    for (size_t i = 0; i < G_N_ELEMENTS(suffixes); i++)
        if (g_ascii_toupper(**end) == g_ascii_toupper(suffixes[i].name)) {
            ++*end;
            return suffixes[i].factor;
        }
    return 1;
}

/* 8.008k is 8008, which the product of the two doubles misses. */
static double
scaled(double value, double factor)
{
    double product = value * factor, whole = round(product);

    return fabs(product - whole) <= 4 * DBL_EPSILON * product ? whole : product;
}

bool
mw_number_read(const struct mw_number *number, const char *text, double *value, GError **error)
{
    const char *end = mw_number_scan(text, value);
    const char *noun = number->noun ? number->noun : number->whole ? "whole number" : "number";

    if (end && number->counts)
        *value = scaled(*value, read_suffix(&end));
    if (end && number->unit && !strcmp(end, number->unit))
        end += strlen(end);
    if (end && !*end && *value >= number->min && *value <= number->max &&
        (!number->whole || *value == floor(*value)))
        return true;
    g_autofree char *min = mw_typed(number->min);
    g_autofree char *max = mw_typed(number->max);
    g_autofree char *set = number->plain    ? g_strdup_printf("%s=%s", number->name, text)
                           : number->joined ? mw_spelled_printf("{%s}=%s", number->name, text)
                                            : mw_spelled_printf("{%s=%s}", number->name, text);
    return mw_refuse(error, "%s: must be a %s from %s to %s%s", set, noun, min, max,
                     number->or_as ? number->or_as : "");
}
