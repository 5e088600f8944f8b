/*
 * input.h - files that users name, to be read.
 *
 * Errors are one line: the path, what is wrong, and what the file must be (`wanted`, in words that
 * go behind "must be").  MW_ERROR_INVALID: it is not there, or no such file; MW_ERROR_IO: it is,
 * and cannot be read.
 */
#ifndef MW_PLANNER_INPUT_H
#define MW_PLANNER_INPUT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A descriptor of a regular file, the caller's to close; -1 with *error. */
int mw_input_open(const char *path, const char *wanted, GError **error);

/* So many bytes from an offset of an open file, all of them or an error of `path`. */
bool mw_input_read_at(int fd, const char *path, int64_t offset_bytes, int64_t bytes, void *out,
                      GError **error);

/* All of a file, of at most `most_bytes`; NUL-terminated, to be freed.  A pipe is read to its end
 * if somebody writes to it, and not waited for if nobody does. */
char *mw_input_read(const char *path, const char *wanted, gsize most_bytes, gsize *length,
                    GError **error);

/* Whether it is there and no folder, without a look at what it holds. */
bool mw_input_is_there(const char *path, const char *wanted, GError **error);

#endif
