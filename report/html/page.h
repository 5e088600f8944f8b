/*
 * page.h - one HTML page of results that memwall wrote: answers, runs, advice, sweeps, traces.
 *
 * The page needs nothing beside itself, and its bytes depend on the files alone: it has no date of
 * its own, and those that it shows come from the results.
 */
#ifndef MW_REPORT_HTML_PAGE_H
#define MW_REPORT_HTML_PAGE_H

#include <glib.h>
#include <stdbool.h>

#define MW_PAGE_FILES_MAX 64

/* Reads the results and writes the page, whole or not at all.  `title` NULL: what the first result
 * is of.  A file that is no result gives an error of one line that names it.  Once the files are
 * read, pictures make temporary files: from then on `stops` is asked again and again, and true ends
 * it with an error.  *lacks: what the page has to go without, static; NULL: nothing. */
bool mw_page_write(const char *path, const char *title, const char *const *files,
                   bool (*stops)(void), const char **lacks, GError **error);

#endif
