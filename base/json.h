/*
 * json.h - JSON from users, read strictly: what json-glib accepts although it is not JSON
 * (comments, 'strings', 0x10, 007, numbers beyond int64 that wrap, a key twice) is refused, and
 * nesting is bounded. Errors are one line: origin, key, value, and what would be accepted.
 */
#ifndef MW_BASE_JSON_H
#define MW_BASE_JSON_H

#include <glib.h>
#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

#define MW_JSON_DEPTH_MAX 64
#define MW_JSON_BYTES_MAX (16 << 20)

/* Parses a text that must be one object (length -1: NUL-terminated).  The caller owns the result
 * (json_node_unref).  Otherwise returns NULL with `error` set. */
JsonNode *mw_json_parse(const char *text, gssize length, const char *origin, GError **error);

/* A copy of JSON as Python writes it, for mw_json_parse; g_free it.  Python writes numbers that are
 * none by name: Infinity and -Infinity become null, NaN a string, which no number is read from.
 * The text keeps its length, and errors their place.  `nan` may be NULL; *nan: where in `text` the
 * first NaN is, or NULL. */
char *mw_json_from_python(const char *text, gsize length, const char **nan);

/* A value for a message: JSON on one line, cut to a few words; g_free it. */
char *mw_json_text(JsonNode *node);

/* Each leaves *out unchanged if the key is absent or null, and fails on another type. */
bool mw_json_get_int(JsonObject *object, const char *key, int64_t min, int64_t max,
                     const char *origin, int64_t *out, GError **error);
bool mw_json_get_number(JsonObject *object, const char *key, double min, double max,
                        const char *origin, double *out, GError **error);
bool mw_json_get_bool(JsonObject *object, const char *key, const char *origin, bool *out,
                      GError **error);
/* *out points into `object`. */
bool mw_json_get_string(JsonObject *object, const char *key, const char *origin, const char **out,
                        GError **error);

#endif
