/*
 * json_value.h - what JSON that a program has written says under a name.
 *
 * Any key may be missing or of another type.  Then a number is NAN, and anything else NULL or
 * false; null is as good as missing.  `key` is a name, or several with dots: "settings.seq".  `it`
 * may be NULL.  What is returned is the object's.
 */
#ifndef MW_BASE_JSON_VALUE_H
#define MW_BASE_JSON_VALUE_H

#include <glib.h>
#include <json-glib/json-glib.h>
#include <stdbool.h>

JsonNode *mw_value_node(JsonObject *it, const char *key);
double mw_value_number(JsonObject *it, const char *key);
const char *mw_value_text(JsonObject *it, const char *key);
bool mw_value_is(JsonObject *it, const char *key); /* true or false */
JsonObject *mw_value_object(JsonObject *it, const char *key);
JsonArray *mw_value_array(JsonObject *it, const char *key);
/* The object at an index of an array, which may be NULL or shorter. */
JsonObject *mw_value_element(JsonArray *array, guint index);

#endif
