#include "base/format.h"

#include <glib.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define BUFFER_COUNT 16
#define BUFFER_SIZE 64

struct unit {
    double scale;
    const char *name;
};

static char *
next_buffer(void)
{
    static _Thread_local char buffers[BUFFER_COUNT][BUFFER_SIZE];
    static _Thread_local unsigned next;

    return buffers[next++ % BUFFER_COUNT];
}

const char *
mw_format_fixed(double value, int decimals)
{
    char *buffer = next_buffer();
    char format[16];

    if (!isfinite(value))
        return "-";
    g_snprintf(format, sizeof format, "%%.%d%c", decimals, fabs(value) < 1e15 ? 'f' : 'e');
    return g_ascii_formatd(buffer, BUFFER_SIZE, format, value);
}

/* The limits are where rounding carries into the next digit: 9.996 is "10.0". */
const char *
mw_format_significant(double value)
{
    double size = fabs(value);

    return mw_format_fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

const char *
mw_format_percent(double ratio)
{
    char *buffer = next_buffer();
    double percent = 100.0 * ratio;

    if (!isfinite(percent))
        return "-";
    g_snprintf(buffer, BUFFER_SIZE, "%s%%", mw_format_fixed(percent, fabs(percent) < 99.95));
    return buffer;
}

const char *
mw_format_exact(double value)
{
    char *buffer = next_buffer();

    if (!isfinite(value))
        return "-";
    for (int digits = 15; digits <= 17; digits++) {
        char format[8];
        g_snprintf(format, sizeof format, "%%.%dg", digits);
        g_ascii_formatd(buffer, BUFFER_SIZE, format, value);
        if (g_ascii_strtod(buffer, NULL) == value)
            break;
    }
    return buffer;
}

/* The largest unit in which the rounded value is at least 1; units run from large to small. */
static const char *
format_unit(double value, const struct unit *units, const char *separator)
{
    char *buffer = next_buffer();
    const struct unit *unit = units;

    if (!isfinite(value))
        return "-";
    while (unit[1].name && fabs(value) < 0.9995 * unit->scale)
        unit++;
    g_snprintf(buffer, BUFFER_SIZE, "%s%s%s", mw_format_significant(value / unit->scale), separator,
               unit->name);
    return buffer;
}

const char *
mw_format_bytes(double bytes)
{
    static const struct unit units[] = {{1e18, "EB"}, {1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"},
                                        {1e6, "MB"},  {1e3, "kB"},  {1, "B"},     {0, NULL}};

    return bytes == 0 ? "0 B" : format_unit(bytes, units, " ");
}

const char *
mw_format_gib(double bytes)
{
    static const struct unit units[] = {{0x1p60, "EiB"}, {0x1p50, "PiB"}, {0x1p40, "TiB"},
                                        {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"},
                                        {1, "B"},        {0, NULL}};

    return bytes == 0 ? "0 B" : format_unit(bytes, units, " ");
}

static void
strip_zeros(char *text)
{
    char *end = text + strlen(text);

    if (!strchr(text, '.'))
        return;
    while (end[-1] == '0')
        *--end = '\0';
    if (end[-1] == '.')
        end[-1] = '\0';
}

/* Steps of minutes stay in seconds, so that a low and a high value compare at a glance. */
const char *
mw_format_seconds(double seconds)
{
    static const struct unit units[] = {
        {1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}, {0, NULL}};
    static const struct unit long_units[] = {
        {31557600, "years"}, {86400, "days"}, {3600, "hours"}, {0, NULL}};

    if (seconds == 0)
        return "0 s";
    return fabs(seconds) < 9999.5 ? format_unit(seconds, units, " ")
                                  : format_unit(seconds, long_units, " ");
}

const char *
mw_format_duration(double seconds)
{
    static const struct unit units[] = {{31557600, "year"}, {86400, "day"}, {3600, "hour"},
                                        {60, "minute"},     {1, "second"},  {0, NULL}};
    const struct unit *unit = units;
    char *buffer = next_buffer();

    if (!isfinite(seconds))
        return "-";
    while (unit[1].name && seconds < 0.9995 * unit->scale)
        unit++;
    g_strlcpy(buffer, mw_format_significant(seconds / unit->scale), BUFFER_SIZE);
    strip_zeros(buffer);
    bool one = !strcmp(buffer, "1");
    g_strlcat(buffer, " ", BUFFER_SIZE);
    g_strlcat(buffer, unit->name, BUFFER_SIZE);
    if (!one)
        g_strlcat(buffer, "s", BUFFER_SIZE);
    return buffer;
}

/* Multiplying the part of a sequence by the GPUs that share it gives a whole number again, to ten
 * digits. */
const char *
mw_format_batch(double sequences)
{
    return isfinite(sequences) ? g_ascii_formatd(next_buffer(), BUFFER_SIZE, "%.12g", sequences)
                               : "-";
}

const char *
mw_format_count(double count)
{
    static const char names[] = "TBMk";
    char *buffer = next_buffer();
    double scale = 1e12;
    int index = 0;

    if (!isfinite(count))
        return "-";
    while (names[index] && fabs(count) < 0.9995 * scale) {
        scale /= 1e3;
        index++;
    }
    g_strlcpy(buffer, mw_format_significant(count / scale), BUFFER_SIZE - 1);
    strip_zeros(buffer);
    g_strlcat(buffer, (char[]){names[index], '\0'}, BUFFER_SIZE);
    return buffer;
}

/* Shown neither as itself nor as an effect on the rest of the line. */
static bool
is_shown(gunichar c)
{
    bool turns =
        c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);

    bool is_character = (c & 0xfffe) != 0xfffe; /* XML has none of the others */

    return is_character && !g_unichar_iscntrl(c) && !turns;
}

char *
mw_one_line(const char *text)
{
    GString *line = g_string_new(NULL);

    for (const char *at = text; *at;) {
        gunichar c = g_utf8_get_char_validated(at, -1);
        bool whole = (gint32)c >= 0;
        const char *next = whole ? g_utf8_next_char(at) : at + 1;

        if (whole && is_shown(c))
            g_string_append_len(line, at, next - at);
        else if (whole && c == '\n')
            g_string_append(line, "\\n");
        else if (whole && c > 0xff)
            g_string_append_printf(line, "\\u%04x", c);
        else
            g_string_append_printf(line, "\\x%02x", whole ? c : (unsigned char)*at);
        at = next;
    }
    return g_string_free(line, FALSE);
}

const char *
mw_format_choice(long long first, long long last)
{
    char *buffer = next_buffer();

    if (first == last)
        g_snprintf(buffer, BUFFER_SIZE, "%lld", first);
    else
        g_snprintf(buffer, BUFFER_SIZE, "%lld to %lld", first, last);
    return buffer;
}
