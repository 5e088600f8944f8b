#include "base/json_writer.h"

#include <glib.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/format.h"

static void
write_text(FILE *out, const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);

    fputc('"', out);
    for (const char *c = valid; *c; c = g_utf8_next_char(c)) {
        gunichar letter = g_utf8_get_char(c);
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c == '\n')
            fputs("\\n", out);
        else if (letter < 0x20 || (letter >= 0x7f && letter < 0xa0)) /* terminals obey these too */
            fprintf(out, "\\u%04x", letter);
        else
            fwrite(c, 1, (size_t)(g_utf8_next_char(c) - c), out);
    }
    fputc('"', out);
}

static void
break_line(struct mw_json_writer *json)
{
    if (json->compact_depth) {
        if (json->needs_comma)
            fputc(' ', json->out);
    } else if (json->depth) {
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    }
}

static void
begin_value(struct mw_json_writer *json, const char *key)
{
    if (json->needs_comma)
        fputc(',', json->out);
    break_line(json);
    if (key) {
        write_text(json->out, key);
        fputs(": ", json->out);
    }
    json->needs_comma = true;
}

void
mw_json_begin(struct mw_json_writer *json, const char *key, char bracket, bool compact)
{
    begin_value(json, key);
    fputc(bracket, json->out);
    json->depth++;
    if (compact && !json->compact_depth)
        json->compact_depth = json->depth;
    json->needs_comma = false;
}

void
mw_json_begin_answer(struct mw_json_writer *json, const char *schema)
{
    mw_json_begin(json, NULL, '{', false);
    mw_json_string(json, "schema", schema);
}

void
mw_json_end(struct mw_json_writer *json, char bracket)
{
    bool compact = json->compact_depth != 0;

    if (json->compact_depth == json->depth)
        json->compact_depth = 0;
    json->depth--;
    if (json->needs_comma && !compact)
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    fputc(bracket, json->out);
    json->needs_comma = true;
    if (!json->depth)
        fputc('\n', json->out);
}

void
mw_json_raw(struct mw_json_writer *json, const char *key, const char *text)
{
    begin_value(json, key);
    fputs(text, json->out);
}

void
mw_json_string(struct mw_json_writer *json, const char *key, const char *text)
{
    begin_value(json, key);
    if (text)
        write_text(json->out, text);
    else
        fputs("null", json->out);
}

void
mw_json_integer(struct mw_json_writer *json, const char *key, int64_t value)
{
    begin_value(json, key);
    fprintf(json->out, "%" PRId64, value);
}

/* A double keeps a point or an exponent, so that its type does not depend on its value. */
void
mw_json_number(struct mw_json_writer *json, const char *key, double value)
{
    const char *text = isfinite(value) ? mw_format_exact(value) : "null";

    mw_json_raw(json, key, text);
    if (isfinite(value) && !strpbrk(text, ".e"))
        fputs(".0", json->out);
}

void
mw_json_boolean(struct mw_json_writer *json, const char *key, bool value)
{
    mw_json_raw(json, key, value ? "true" : "false");
}
