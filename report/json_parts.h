/* json_parts.h - what the JSON of an answer and of a run share. */
#ifndef MW_REPORT_JSON_PARTS_H
#define MW_REPORT_JSON_PARTS_H

#include "base/json_writer.h"
#include "study/result.h"

/* All keys of a result, into an object that is open. */
void mw_json_result(struct mw_json_writer *json, const struct mw_result *result);
/* Of them "settings": what was planned. */
void mw_json_settings(struct mw_json_writer *json, const struct mw_result *result);
/* Of them step time, rates, their range, lanes, channels and phases. */
void mw_json_result_speed(struct mw_json_writer *json, const struct mw_result *result);

#endif
