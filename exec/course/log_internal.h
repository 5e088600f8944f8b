/* log_internal.h - what the files of the log share; not for others. */
#ifndef MW_EXEC_COURSE_LOG_INTERNAL_H
#define MW_EXEC_COURSE_LOG_INTERNAL_H

#include "exec/course/log.h"

/* --- log_file.c: the JSON lines --- */

struct mw_log_file {
    char *path; /* NULL: none */
    int fd;
    bool empties; /* what another run has left there, with the first line */
};

/* Behind the numbers of a line: which run's it is. */
#define MW_LOG_RUN ", \"run\": \""
/* A name as it can stand there.  g_free it. */
char *mw_log_run_text(const char *name);

bool mw_log_file_open(struct mw_log_file *file, const struct mw_log_options *options,
                      GError **error);
void mw_log_file_close(struct mw_log_file *file);
/* Whether the output accepts more, now or within wait_ms; true if it is no descriptor (-1). */
bool mw_log_takes(int fd, int wait_ms);
/* False: it takes no more, and is given up. */
bool mw_log_file_awaits(int fd, const struct mw_log_options *options);
/* `line` ends with a line feed. */
bool mw_log_file_write(struct mw_log_file *file, const struct mw_log_options *options,
                       const GString *line, GError **error);

/* --- log_progress.c: the line that is rewritten --- */

/* A thread rewrites the line while a step is long.  `lock` holds what both touch. */
struct mw_log_progress {
    FILE *out; /* NULL: none */
    GThread *ticker;
    GMutex lock;
    GCond ended;
    bool ends;
    int64_t tick_ns, quiet_ns; /* between lines; before the first of a step */
    int64_t first_step, steps;
    int64_t done;                        /* steps */
    int64_t begun_ns;                    /* when the step began that is in progress */
    int64_t predicted_ns;                /* of a step; 0: not known */
    int64_t measured_ns, measured_steps; /* without the first, which is longer */
    bool waits;                          /* a step is in progress: nobody else writes */
    bool visible;
};

void mw_log_progress_open(struct mw_log_progress *progress, const struct mw_log_options *options);
void mw_log_progress_close(struct mw_log_progress *progress);
/* Until it is shown again, others may write to the terminal. */
void mw_log_progress_clear(struct mw_log_progress *progress);
void mw_log_progress_show(struct mw_log_progress *progress);
/* `line`, on `out` where no progress is shown; NULL: nowhere. */
void mw_log_progress_say(struct mw_log_progress *progress, FILE *out, const char *line);
void mw_log_progress_step(struct mw_log_progress *progress, const struct mw_log_row *row);

/* --- log.c --- */

/* What follows from a row; NAN where it cannot be said. */
struct mw_log_rates {
    double tokens_per_s, mfu;
    double of_predicted; /* the measured speed as a share of the predicted one */
};

#endif
