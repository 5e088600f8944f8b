/* profile.h - writes measured figures as a hardware profile and as a table. */
#ifndef MW_CLI_CALIBRATION_PROFILE_H
#define MW_CLI_CALIBRATION_PROFILE_H

#include "base/json_writer.h"
#include "calibrate/calibrate.h"

/* The text of a profile in which every figure that affects time is measured; it has been checked by
 * reading it back.  free() it. */
char *cli_calibrate_profile(const struct mw_calibration *measured, GError **error);

/* What was left out for lack of time, in words: an array of strings, which it owns. */
GPtrArray *cli_calibrate_left_out(const struct mw_calibration *measured);
/* The same, with the sizes of a curve as one count. */
GPtrArray *cli_calibrate_left_out_shortly(const struct mw_calibration *measured);
/* Sizes that were measured again and left out because they contradict others, in the same form. */
GPtrArray *cli_calibrate_contradicting(const struct mw_calibration *measured);
/* How other programs and the hypervisor disturbed the measurement, in words; NULL: hardly at all.
 * g_free it. */
char *cli_calibrate_disturbed(const struct mw_calibration *measured);
/* The smallest ratio of a last rate to its first one; 1: nothing slowed down. */
double cli_calibrate_rate_left(const struct mw_calibration *measured);
/* "3 of 9 samples", "left out"; NULL: all requested samples were taken.  g_free it. */
char *cli_calibrate_few(const struct mw_measure *measure);

/* Prints the figures with their ranges, and the `aio` block of a ds_config.json. */
void cli_calibrate_table(FILE *out, const struct mw_calibration *measured);
void cli_calibrate_json(struct mw_json_writer *json, const struct mw_calibration *measured);

#endif
