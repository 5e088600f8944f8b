/*
 * input.h - files that users name, to be read: all of them, and by no other way.
 *
 * A device, a terminal, a socket or a file without a size, as /proc/kmsg, is refused before it is
 * opened: it may have no end, or do something.  Errors are one line: the path, what is wrong, and
 * what the file must be (`wanted`, in words that go behind "must be").  MW_ERROR_INVALID: it is not
 * there, or no such file; MW_ERROR_FORMAT: it is no such file by its begin or its size;
 * MW_ERROR_IO: it is there, and cannot be read.
 */
#ifndef MW_BASE_INPUT_H
#define MW_BASE_INPUT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A descriptor of a regular file, the caller's to close; -1 with *error. */
int mw_input_open(const char *path, const char *wanted, GError **error);

/* So many bytes from an offset of an open file, all of them or an error of `path`. */
bool mw_input_read_at(int fd, const char *path, int64_t offset_bytes, int64_t bytes, void *out,
                      GError **error);

/* A kind of text. */
struct mw_input_kind {
    const char *wanted;
    gsize most_bytes;
    const char *begin; /* how each one begins, so that another is not read to its end; NULL */
};

/* How long a pipe is waited for that somebody has open to write, and writes nothing to. */
#define MW_INPUT_PATIENCE_MS 60000

/* All of a file; NUL-terminated, to be freed.  A pipe is read to its end if somebody writes to it,
 * and not waited for if nobody does; named again it has the same text. */
char *mw_input_read(const char *path, const struct mw_input_kind *kind, gsize *length,
                    GError **error);
/* The same with another patience. */
char *mw_input_read_patiently(const char *path, const struct mw_input_kind *kind, int patience_ms,
                              gsize *length, GError **error);

/* Whether it is there and a file or a pipe, without a look at what it holds. */
bool mw_input_is_there(const char *path, const char *wanted, GError **error);

#endif
