#include "report/wrap.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/format.h"

#define COLUMNS_USUAL 80
#define COLUMNS_LEAST 40 /* narrower is useless */
#define ROW_GAP 2
#define ROW_INDENT 4

int
mw_wrap_columns(FILE *out)
{
    const char *told = g_getenv("COLUMNS");
    struct winsize size;

    if (!isatty(fileno(out)))
        return 0;
    gint64 columns = told ? g_ascii_strtoll(told, NULL, 10) : 0;
    if (columns <= 0 && !ioctl(fileno(out), TIOCGWINSZ, &size))
        columns = size.ws_col;
    return columns <= 0 ? COLUMNS_USUAL : (int)CLAMP(columns, COLUMNS_LEAST, G_MAXINT16);
}

static int
characters(const char *text, size_t bytes)
{
    return (int)g_utf8_strlen(text, (gssize)bytes);
}

/* Bytes of the words that fit; at least those of the first word, however long. */
static size_t
bytes_that_fit(const char *text, int width)
{
    size_t fit = strcspn(text, " "), end = fit;

    while (text[end]) {
        end += strspn(text + end, " ");
        end += strcspn(text + end, " ");
        if (characters(text, end) > width)
            break;
        fit = end;
    }
    return fit;
}

void
mw_wrap_text(FILE *out, const char *line, int at, int indent, int columns)
{
    g_autofree char *shown = mw_one_line(line);
    const char *text = shown;

    while (columns && characters(text, strlen(text)) > columns - at) {
        size_t fit = bytes_that_fit(text, columns - at);
        if (!text[fit])
            break;
        fprintf(out, "%.*s\n%*s", (int)fit, text, indent, "");
        text += fit + strspn(text + fit, " ");
        at = indent;
    }
    fprintf(out, "%s\n", text);
}

void
mw_wrap_row(FILE *out, const char *line, const char *text)
{
    g_autofree char *row = mw_one_line(line);
    int columns = mw_wrap_columns(out);
    int at = characters(row, strlen(row)) + ROW_GAP;
    bool below = columns && at + characters(text, strlen(text)) > columns;

    fprintf(out, below ? "%s\n%*s" : "%s%*s", row, below ? ROW_INDENT : ROW_GAP, "");
    mw_wrap_text(out, text, below ? ROW_INDENT : at, ROW_INDENT, columns);
}

void
mw_wrap_line(FILE *out, int indent, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    mw_wrap_text(out, text, 0, indent, mw_wrap_columns(out));
}
