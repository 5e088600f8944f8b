/*
 * logs.h - files that predictions and measured runs have left, read for a gate (study/gate.h).
 *
 * One table has a row for each format (logs/formats.c): how a file of it is known, and what reads
 * it.  The files are of other programs, and of runs that were killed: a text whose last line is cut
 * off is read without it; all else that is not whole is refused.
 *
 * What is bounded: a file by MW_LOG_BYTES_MAX, a line's text by MW_LOG_LINE_MAX (the rest of a
 * longer one is not looked at), steps by MW_LOG_STEPS_MAX, parts of a step by MW_GATE_PARTS_MAX.
 */
#ifndef MW_LOGS_LOGS_H
#define MW_LOGS_LOGS_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

#include "study/gate.h"

#define MW_LOG_BYTES_MAX (256 << 20)
#define MW_LOG_LINE_MAX 65536
#define MW_LOG_STEPS_MAX 1000000
#define MW_LOG_STEP_MAX 1000000000000000 /* the number of a step, which a double holds */

/* What a file holds: either cases or steps. */
struct mw_log {
    const char *format;          /* static */
    GPtrArray *cases;            /* of struct mw_gate_case, at least one; or NULL */
    struct mw_gate_steps *steps; /* at least one; or NULL */
    char *version;               /* of the memwall that wrote it; NULL: it does not say */
};

/* The text of a file; `text` is NUL-terminated. */
struct mw_log_text {
    const char *path, *text;
    gsize length;
};

struct mw_log_format {
    const char *name;
    const char *wrote; /* what writes it, for people */
    bool (*probe)(const struct mw_log_text *in);
    bool (*read)(const struct mw_log_text *in, struct mw_log *out, GError **error);
};

/* In the order in which they are tried; ends with a name of NULL. */
extern const struct mw_log_format mw_log_formats[];

/* Errors are one line that names the file, and where it can the line. */
bool mw_log_read(const char *path, struct mw_log *out, GError **error);
bool mw_log_parse(const struct mw_log_text *in, struct mw_log *out, GError **error);
void mw_log_clear(struct mw_log *log);

/* A baseline, which mw_log_read reads back.  Cases have their questions. */
void mw_log_baseline_cases_write(FILE *out, GPtrArray *cases, const char *version);
void mw_log_baseline_steps_write(FILE *out, const struct mw_gate_steps *steps, const char *version);

#endif
