/*
 * values.h - values of JSON that another call of memwall, or another program, has written.
 */
#ifndef MW_LOGS_VALUES_H
#define MW_LOGS_VALUES_H

#include "base/json_value.h"
#include "logs/logs.h"

/* Whether the text is one object that begins with a schema (base/schemas.h), of any version. */
bool mw_log_has_schema(const struct mw_log_text *in, const char *schema);
/* The object of the text, which the caller unrefs; NULL with *error: it is no JSON, or it is of
 * another version. */
JsonObject *mw_log_object(const struct mw_log_text *in, const char *schema, GError **error);

/* A figure of a prediction; NAN: it is absent or null, INFINITY: it is no number. */
double mw_log_figure(JsonObject *object, const char *path);
/* A value as its text: "2", "true", "gpu".  g_free it. */
char *mw_log_text_of(JsonNode *node);

/* Adds the lanes of an array of objects with name, busy_s and exposed_s. */
void mw_log_take_lanes(JsonArray *lanes, struct mw_gate_case *one);
/* Adds the rows of an array of objects with tier, purpose and bytes. */
void mw_log_take_memory(JsonArray *rows, struct mw_gate_case *one);
/* Puts a case, which `out` takes, behind those that are there. */
void mw_log_add_case(struct mw_gate_case *one, struct mw_log *out);

#endif
