/*
 * value.h - what a result says under a name (base/json_value.h), and how a reader sees it.
 */
#ifndef MW_REPORT_HTML_VALUE_H
#define MW_REPORT_HTML_VALUE_H

#include "base/json_value.h"

/* The objects of an array, in its order, also if there is none; g_ptr_array_unref it. */
GPtrArray *mw_value_objects(JsonObject *it, const char *key);

/* Rows of a table that are made here: {NAME: text, "it": an object}; `text` may be NULL. */
GPtrArray *mw_value_rows_new(void);
void mw_value_rows_add(GPtrArray *rows, const char *name, const char *text, JsonObject *it);

/* As a reader sees it, with its unit, which the key says: "_s" seconds, "_bytes" bytes and so on,
 * at the end of its last name or of one before.  "" for null.  g_free it. */
char *mw_value_shown(JsonObject *it, const char *key);
/* The same for a number. */
char *mw_value_number_shown(const char *key, double value);
/* Figures of keys with equal numbers here can be compared; -1: a count. */
int mw_value_unit(const char *key);

#endif
