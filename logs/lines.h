/*
 * lines.h - text logs line by line, and the steps that are made of them.
 */
#ifndef MW_LOGS_LINES_H
#define MW_LOGS_LINES_H

#include "logs/logs.h"

/* --- lines ------------------------------------------------------------------------------------ */

/* Begins with {.text = in->text, .end = in->text + in->length}. */
struct mw_log_lines {
    const char *text, *end; /* what is left */
    int64_t number;         /* of `line`, from 1 */
    char *line;             /* without its end, codes of terminals, and what is no text */
    bool cut;               /* the last line has no end, and is left out */
};

/* A line ends at \n or \r, as progress bars end theirs.  False after the last one, when `line` is
 * freed. */
bool mw_log_next_line(struct mw_log_lines *lines);

/* Whether a text occurs in a file. */
bool mw_log_has(const struct mw_log_text *in, const char *text);

/* The number that follows the first `key` in `line`, past blanks; with commas between thousands.
 * False: there is none. */
bool mw_log_number(const char *line, const char *key, double *value);
/* The whole number that a text begins with, after blanks; at most MW_LOG_STEP_MAX. */
bool mw_log_whole(const char *text, int64_t *value);

/* --- steps ------------------------------------------------------------------------------------ */

struct mw_log_builder;

/* A part's name to that of the part that contains it; NULL: the step does. */
typedef const char *(*mw_log_parent)(const char *part);

struct mw_log_builder *mw_log_builder_new(const struct mw_log_text *in, const char *format,
                                          enum mw_gate_measure measure);
/* The time of a step, or the reciprocal of its rate.  A line of the same step again, as another
 * rank prints it, does not count; an earlier step is refused: it is of another run.  What is no
 * time above 0 is left out. */
bool mw_log_add_step(struct mw_log_builder *builder, int64_t line, int64_t step, double time_s,
                     GError **error);
/* Adds to a part of the step that was added last, if that counts; more than MW_GATE_PARTS_MAX are
 * not kept. */
void mw_log_add_part(struct mw_log_builder *builder, const char *name, double time_s);
/* The same of a lane: of compute the time that it runs, of others the time that compute waits. */
void mw_log_add_lane(struct mw_log_builder *builder, const char *name, double busy_s,
                     double exposed_s);
/* Index of a part; -1: there is none of this name. */
int mw_log_find_part(const struct mw_gate_steps *steps, const char *name);
/* The steps so far: for facts about all of them. */
struct mw_gate_steps *mw_log_builder_steps(struct mw_log_builder *builder);
/* Moves the steps into `out` and frees the builder; false with *error if there are none: `wants`
 * then says what a line must have. */
bool mw_log_builder_end(struct mw_log_builder *builder, mw_log_parent parent, const char *wants,
                        struct mw_log *out, GError **error);
void mw_log_builder_free(struct mw_log_builder *builder);

#endif
