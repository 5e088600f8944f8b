/*
 * text.h - text of an HTML page: the one place where what others wrote is escaped.
 */
#ifndef MW_REPORT_HTML_TEXT_H
#define MW_REPORT_HTML_TEXT_H

#include <glib.h>

/* Appends markup in which every %s is text: escaped for elements and for attributes in quotes.
 * Control characters, which HTML does not have, become U+FFFD.  Texts must be UTF-8.
 * As in GLib, %.*s is not known. */
void mw_html_put(GString *page, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* A text that contains no markup itself, as mw_html_put would write it.  g_free it. */
char *mw_html_escaped(const char *text);

#endif
