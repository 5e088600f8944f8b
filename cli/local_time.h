/* local_time.h - times of the day as this machine has them, whatever $TZ says. */
#ifndef MW_CLI_LOCAL_TIME_H
#define MW_CLI_LOCAL_TIME_H

#include <stdint.h>

/* By strftime, of seconds since 1970; UTC where the zone is not known.  g_free it. */
char *cli_local_time(int64_t seconds, const char *format);

#endif
