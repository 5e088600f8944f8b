#include "logs/lines.h"

#include <math.h>
#include <string.h>

#include "base/number.h"

#define ESCAPE '\033'

/* The text after a code that colours a terminal. */
static const char *
skip_code(const char *at, const char *end)
{
    at++;
    if (at == end || *at != '[')
        return at;
    for (at++; at < end && !g_ascii_isalpha(*at); at++)
        ;
    return at < end ? at + 1 : end;
}

static char *
clean(const char *text, size_t length)
{
    const char *end = text + MIN(length, MW_LOG_LINE_MAX);
    char *line = g_malloc(MW_LOG_LINE_MAX + 1), *to = line;

    while (text < end)
        if (*text == ESCAPE)
            text = skip_code(text, end);
        else {
            *to++ = *text ? *text : ' ';
            text++;
        }
    *to = '\0';
    return g_realloc(line, (gsize)(to - line) + 1);
}

bool
mw_log_next_line(struct mw_log_lines *lines)
{
    g_clear_pointer(&lines->line, g_free);
    if (lines->text == lines->end)
        return false;
    const char *end = lines->text;
    while (end < lines->end && *end != '\n' && *end != '\r')
        end++;
    if (end == lines->end) {
        lines->cut = true;
        lines->text = end;
        return false;
    }
    lines->line = clean(lines->text, (size_t)(end - lines->text));
    lines->number += *end == '\n' || lines->number == 0;
    lines->text = end + 1;
    return true;
}

bool
mw_log_has(const struct mw_log_text *in, const char *text)
{
    return memmem(in->text, in->length, text, strlen(text)) != NULL;
}

#define DIGITS_MAX 64

/* A number may have commas between its digits, and one behind it. */
bool
mw_log_number(const char *line, const char *key, double *value)
{
    const char *at = strstr(line, key);
    char digits[DIGITS_MAX];
    size_t count = 0;

    if (!at)
        return false;
    for (at += strlen(key); *at == ' '; at++)
        ;
    for (; *at && strchr("0123456789+-.eE,", *at) && count + 1 < sizeof digits; at++)
        if (*at != ',')
            digits[count++] = *at;
        else if (!g_ascii_isdigit(at[1]))
            break;
    digits[count] = '\0';
    const char *end = mw_number_scan(digits, value);
    return end && !*end;
}

bool
mw_log_whole(const char *text, int64_t *value)
{
    char *end;

    while (*text == ' ')
        text++;
    if (!g_ascii_isdigit(*text))
        return false;
    *value = (int64_t)g_ascii_strtoull(text, &end, 10);
    return *value >= 0 && *value < MW_LOG_STEP_MAX;
}
