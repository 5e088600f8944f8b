/* json_parts.h - what the JSON of an answer and that of a run share. */
#ifndef MW_REPORT_JSON_RESULT_H
#define MW_REPORT_JSON_RESULT_H

#include "base/json_writer.h"
#include "study/result.h"

/* Writes all keys of a result into an open object. */
void mw_json_result(struct mw_json_writer *json, const struct mw_result *result);
/* Only "settings": what was planned. */
void mw_json_settings(struct mw_json_writer *json, const struct mw_result *result);
/* "question": an object with a member for each "NAME=TEXT"; null: there are none. */
void mw_json_asked(struct mw_json_writer *json, char *const *texts);
/* Only step time, rates, their range, lanes, channels and phases. */
void mw_json_result_speed(struct mw_json_writer *json, const struct mw_result *result);

#endif
