#include "base/spell.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

static const struct mw_spelling by_name = {.before = "", .between = "=", .key = ""};
static const struct mw_spelling *spelling = &by_name;

void
mw_spell_as(const struct mw_spelling *as)
{
    spelling = as;
}

static void
append_name(GString *out, const char *name, size_t length)
{
    for (size_t i = 0; i < MW_SPELLING_ODD_MAX && spelling->odd[i].name; i++)
        if (strlen(spelling->odd[i].name) == length &&
            !strncmp(spelling->odd[i].name, name, length)) {
            g_string_append(out, spelling->odd[i].as);
            return;
        }
    g_string_append(out, spelling->before);
    g_string_append_len(out, name, (gssize)length);
}

/* Appends the spelling of the text between braces. */
static void
append_spelled(GString *out, const char *text, size_t length)
{
    const char *equals = memchr(text, '=', length);
    size_t name = equals ? (size_t)(equals - text) : length;

    if (g_str_has_prefix(text, "key ")) {
        g_string_append(out, spelling->key);
        g_string_append_len(out, text + strlen("key "), (gssize)(length - strlen("key ")));
        return;
    }
    append_name(out, text, name);
    if (equals) {
        g_string_append(out, spelling->between);
        g_string_append_len(out, equals + 1, (gssize)(length - name - 1));
    }
}

static bool
is_mark(const char *text)
{
    return text[0] == '{' && (g_ascii_islower(text[1]) || text[1] == '%');
}

char *
mw_spelled(const char *text)
{
    GString *out = g_string_new(NULL);

    while (*text) {
        const char *end = is_mark(text) ? strchr(text, '}') : NULL;
        if (!end) {
            g_string_append_c(out, *text++);
            continue;
        }
        append_spelled(out, text + 1, (size_t)(end - text - 1));
        text = end + 1;
    }
    return g_string_free(out, FALSE);
}

/* The format is the caller's literal, with other literals in it. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

char *
mw_spelled_vprintf(const char *format, va_list arguments)
{
    g_autofree char *spelled = mw_spelled(format);

    return g_strdup_vprintf(spelled, arguments);
}

char *
mw_spelled_printf(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    char *text = mw_spelled_vprintf(format, arguments);
    va_end(arguments);
    return text;
}

void
mw_spelled_append(GString *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    g_autofree char *more = mw_spelled_vprintf(format, arguments);
    va_end(arguments);
    g_string_append(text, more);
}
