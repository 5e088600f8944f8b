/* trainer_worker.h - one of several ranks that train. */
#ifndef MW_TESTS_TRAINER_WORKER_H
#define MW_TESTS_TRAINER_WORKER_H

#include "exec/ranks/ranks.h"

/* Small: many blocks a part. */
#define SCRATCH_BYTES 8192

/* Exit status of a rank of the named case; `part` is of a run that is killed. */
int trainer_worker(const char *name, const char *directory, const char *part);

struct trainer_worker_case {
    const char *name;
    int (*run)(struct mw_ranks *ranks); /* exit status */
};
extern const char *trainer_worker_directory;

/* One line, then all end. */
void trainer_worker_fail(struct mw_ranks *ranks, const char *format, ...) G_GNUC_PRINTF(2, 3);
void trainer_worker_meet(struct mw_ranks *ranks, bool good, GError *error); /* or fail */

/* --- trainer_worker_checkpoint.c --- */
int trainer_worker_checkpoint(struct mw_ranks *ranks, const char *directory);

/* --- trainer_worker_resume.c --- */
int trainer_worker_resume(struct mw_ranks *ranks, const char *directory);
/* Of a run that is killed: "begin" makes its first step, "go-on" and "finish" resume it; "finish"
 * compares it with one that is not. */
int trainer_worker_kills(struct mw_ranks *ranks, const char *directory, bool drives,
                         const char *part);

/* --- trainer_worker_stages.c --- */
int trainer_worker_two_versions(struct mw_ranks *ranks);
int trainer_worker_stashes(struct mw_ranks *ranks);
int trainer_worker_asynchronous(struct mw_ranks *ranks);
int trainer_worker_mixes_versions(struct mw_ranks *ranks); /* it must not begin */

/* --- trainer_worker_turns.c --- */
int trainer_worker_turns(struct mw_ranks *ranks);

/* --- trainer_worker_ends.c --- */
extern const struct trainer_worker_case trainer_worker_ends[]; /* without a name behind the last */
/* A failure as a program reports it: one line, then all end. */
int trainer_worker_give_up(struct mw_ranks *ranks, const char *name, GError *error);

#endif
