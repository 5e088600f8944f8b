/* local_time.h - times of day in this machine's time zone, or UTC if $TZ cannot be read. */
#ifndef MW_CLI_LOCAL_TIME_H
#define MW_CLI_LOCAL_TIME_H

#include <stdint.h>

/* Formats seconds since 1970 as strftime does; in UTC if the time zone is unknown.  g_free it. */
char *cli_local_time(int64_t seconds, const char *format);

#endif
