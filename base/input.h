/*
 * input.h - the only way to read files that users name.
 *
 * A device, a terminal, a socket or a file without a size, such as /proc/kmsg, is refused before it
 * is opened: it may have no end, or opening it may have an effect.  Errors are one line: the path,
 * what is wrong, and what the file must be (`wanted`, words that follow "must be").
 * MW_ERROR_INVALID: the file does not exist, or is of another kind; MW_ERROR_FORMAT: its beginning
 * or its size shows another kind; MW_ERROR_IO: it exists and cannot be read.
 */
#ifndef MW_BASE_INPUT_H
#define MW_BASE_INPUT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* A descriptor of a regular file, which the caller closes; -1 with *error. */
int mw_input_open(const char *path, const char *wanted, GError **error);

/* Reads `bytes` bytes at an offset of an open file: all of them, or an error that names `path`. */
bool mw_input_read_at(int fd, const char *path, int64_t offset_bytes, int64_t bytes, void *out,
                      GError **error);

/* A kind of text. */
struct mw_input_kind {
    const char *wanted;
    gsize most_bytes;
    const char *begin; /* how each one begins, so that no other file is read to its end; or NULL */
};

/* How long to wait for a pipe that somebody has open for writing but does not write to. */
#define MW_INPUT_PATIENCE_MS 60000

/* Reads the whole file, NUL-terminated; g_free it.  A pipe is read to its end if a process writes
 * to it; if none does, the call does not wait.  If the pipe is named again, it has the same
 * text.  A byte order mark of UTF-8 is left out. */
char *mw_input_read(const char *path, const struct mw_input_kind *kind, gsize *length,
                    GError **error);
/* The same with another patience. */
char *mw_input_read_patiently(const char *path, const struct mw_input_kind *kind, int patience_ms,
                              gsize *length, GError **error);
/* The same with the mark, as a checksum of the file counts it. */
char *mw_input_read_marked(const char *path, const struct mw_input_kind *kind, int patience_ms,
                           gsize *length, GError **error);

/* Whether the path is an existing file or pipe; its contents are not read. */
bool mw_input_is_there(const char *path, const char *wanted, GError **error);

#endif
