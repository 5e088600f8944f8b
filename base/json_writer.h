/*
 * json_writer.h - a streaming JSON writer, for answers and for traces of many events.
 *
 * Two spaces per level; an array or object begun as `compact` stands on one line.
 * Numbers are the shortest text that reads back to the same value; not finite is null.
 * Text that is not UTF-8 is repaired.  Errors show in ferror(out).
 */
#ifndef MW_BASE_JSON_WRITER_H
#define MW_BASE_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct mw_json_writer {
    FILE *out;
    int depth;
    int compact_depth; /* depth at which a compact value began; 0: none */
    bool needs_comma;
};

/* `key` is NULL in an array and at the top. */
void mw_json_begin(struct mw_json_writer *json, const char *key, char bracket, bool compact);
/* Begins the object of an answer of the command.  Its first key, "schema", names its part of
 * docs/schema.json and the version, which rises when that changes. */
void mw_json_begin_answer(struct mw_json_writer *json, const char *schema);
void mw_json_end(struct mw_json_writer *json, char bracket);
void mw_json_string(struct mw_json_writer *json, const char *key,
                    const char *text); /* NULL: null */
void mw_json_integer(struct mw_json_writer *json, const char *key, int64_t value);
void mw_json_number(struct mw_json_writer *json, const char *key, double value);
void mw_json_boolean(struct mw_json_writer *json, const char *key, bool value);
/* Writes `text` unchanged; it must already be a number. */
void mw_json_raw(struct mw_json_writer *json, const char *key, const char *text);

#endif
