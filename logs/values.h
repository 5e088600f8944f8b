/*
 * values.h - values of JSON that another call of memwall, or another program, has written.
 */
#ifndef MW_LOGS_VALUES_H
#define MW_LOGS_VALUES_H

#include <json-glib/json-glib.h>

#include "logs/logs.h"

/* Whether the text is one object that begins with a schema of this name, of any version. */
bool mw_log_has_schema(const struct mw_log_text *in, const char *schema);
/* The object of the text, which the caller unrefs; NULL with *error: it is no JSON, or it is of
 * another version than "NAME/1". */
JsonObject *mw_log_object(const struct mw_log_text *in, const char *schema, GError **error);

/* A value by its path ("peak_bytes.gpu"); NULL: there is none. */
JsonNode *mw_log_value(JsonObject *object, const char *path);
/* A number, true being 1; NAN: there is none. */
double mw_log_value_number(JsonObject *object, const char *path);
/* A figure of a prediction; NAN: it is absent or null, INFINITY: it is no number. */
double mw_log_figure(JsonObject *object, const char *path);
/* NULL: there is none.  The object's. */
const char *mw_log_value_text(JsonObject *object, const char *path);
/* A value as its text: "2", "true", "gpu".  g_free it. */
char *mw_log_text_of(JsonNode *node);
/* NULL: there is none, or it is no array.  The object's. */
JsonArray *mw_log_value_array(JsonObject *object, const char *path);
/* The object at an index; NULL: it is none. */
JsonObject *mw_log_object_at(JsonArray *array, guint index);

/* Adds the lanes of an array of objects with name, busy_s and exposed_s. */
void mw_log_take_lanes(JsonArray *lanes, struct mw_gate_case *one);
/* Adds the rows of an array of objects with tier, purpose and bytes. */
void mw_log_take_memory(JsonArray *rows, struct mw_gate_case *one);
/* Puts a case, which `out` takes, behind those that are there. */
void mw_log_add_case(struct mw_gate_case *one, struct mw_log *out);

#endif
