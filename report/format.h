/*
 * format.h - numbers as text, the same in every locale.  Shared by the files of report/.
 *
 * Like the functions in report.h these return one of 16 thread-local buffers in turn.
 * A number that is not finite is written "-".
 */
#ifndef MW_REPORT_FORMAT_H
#define MW_REPORT_FORMAT_H

const char *mw_format_fixed(double value, int decimals); /* "12.30" */
const char *mw_format_significant(double value);         /* three digits: "1.23", "45.6", "789" */
const char *mw_format_percent(double ratio);             /* 0.123 -> "12.3%" */
const char *mw_format_exact(double value); /* shortest text that reads back to the same double */

#endif
