/* profile.h - what was measured, as a hardware profile and as a table. */
#ifndef MW_CLI_CALIBRATION_PROFILE_H
#define MW_CLI_CALIBRATION_PROFILE_H

#include "base/json_writer.h"
#include "calibrate/calibrate.h"

/* The text of a profile in which every figure that carries time is measured; it has been read back.
 * free() it. */
char *cli_calibrate_profile(const struct mw_calibration *measured, GError **error);

/* What there was no time for, in words; strings to g_free with the array. */
GPtrArray *cli_calibrate_left_out(const struct mw_calibration *measured);
/* The same, several sizes of one curve by their number. */
GPtrArray *cli_calibrate_left_out_shortly(const struct mw_calibration *measured);
/* Sizes that contradict others, measured again and left out, likewise. */
GPtrArray *cli_calibrate_contradicting(const struct mw_calibration *measured);
/* What other programs and the hypervisor did to it, in words; NULL: hardly anything.  g_free it. */
char *cli_calibrate_disturbed(const struct mw_calibration *measured);
/* The least part of its first rate that anything ran at in the end; 1: nothing had slowed down. */
double cli_calibrate_rate_left(const struct mw_calibration *measured);
/* "3 of 9 samples", "left out"; NULL: all that were wished.  g_free it. */
char *cli_calibrate_few(const struct mw_measure *measure);

/* The figures with their ranges, and the `aio` block of a ds_config.json. */
void cli_calibrate_table(FILE *out, const struct mw_calibration *measured);
void cli_calibrate_json(struct mw_json_writer *json, const struct mw_calibration *measured);

#endif
