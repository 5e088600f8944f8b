/*
 * format.h - numbers as text, the same in every locale.
 *
 * Every function returns one of 16 thread-local buffers in turn.
 * A number that is not finite is written "-".
 */
#ifndef MW_BASE_FORMAT_H
#define MW_BASE_FORMAT_H

/* One line of text that may have been typed or read: line ends, terminal codes, characters that
 * change the direction of others, and bytes that are no text are shown as \\n, \\x1b, \\u202e.
 * g_free it. */
char *mw_one_line(const char *text);

const char *mw_format_fixed(double value, int decimals); /* "12.30" */
const char *mw_format_significant(double value);         /* three digits: "1.23", "45.6", "789" */
const char *mw_format_percent(double ratio);             /* 0.123 -> "12.3%" */
const char *mw_format_exact(double value); /* shortest text that reads back to the same double */

/* With units: "1.23 TB", "456 ms". */
const char *mw_format_bytes(double bytes);      /* decimal units: kB, MB, GB, TB */
const char *mw_format_gib(double bytes);        /* binary units: KiB ... TiB */
const char *mw_format_seconds(double seconds);  /* time of a step: 456 ms, 41.2 s, 10.0 hours */
const char *mw_format_duration(double seconds); /* time of a training: 3.5 hours, 12 days, 1.19
                                                 * years */
const char *mw_format_count(double count);      /* 1.5B, 175B, 1.01T */
const char *mw_format_batch(double sequences);  /* in a form that options accept: 4.875, 1288 */
/* Whole numbers to choose from: "1 to 4", "2" where there is one. */
const char *mw_format_choice(long long first, long long last);

#endif
