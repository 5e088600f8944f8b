/*
 * write_log.h - what a run has written to which file and when it was synced, for replaying crashes:
 * from any moment of the log, images of the files can be made in which a write that no sync covers
 * is whole, lost or torn.
 *
 * Moments are numbers; every submission, completion and sync takes the next one.  A log may cover
 * several runs in the same files; what they held when the log first saw them is durable.
 *
 * The files themselves are what the page cache has.  A sync that fails settles what it would have
 * covered: whole, torn or lost on the drive, or shown by it until the power goes.  Their pages are
 * clean after that: only what is written again is synced.
 */
#ifndef MW_TESTS_WRITE_LOG_H
#define MW_TESTS_WRITE_LOG_H

#include <glib.h>
#include <libaio.h>
#include <stdbool.h>
#include <stdint.h>

struct mw_write_log;

struct mw_write_log *mw_write_log_new(void);
void mw_write_log_free(struct mw_write_log *log);

/* Called by the fault table. */
void mw_write_log_submit(struct mw_write_log *log, long count, struct iocb **iocbs);
void mw_write_log_complete(struct mw_write_log *log, long count, const struct io_event *events);
void mw_write_log_pwrite(struct mw_write_log *log, int fd, const void *data, size_t bytes,
                         off_t offset);
void mw_write_log_sync(struct mw_write_log *log, int fd);
/* A sync that fails; `all`: nothing that it would have covered reaches the drive. */
void mw_write_log_fail_sync(struct mw_write_log *log, int fd, bool all);
/* As O_DIRECT reads: what the drive shows, with what is yet to be written out. */
ssize_t mw_write_log_pread(struct mw_write_log *log, int fd, void *buffer, size_t bytes,
                           off_t offset);
/* The page cache lets go of the file: from now on it holds what the drive shows. */
void mw_write_log_forget(struct mw_write_log *log, int fd);
/* Writes and syncs leave the log as it is, until this is called again. */
void mw_write_log_mute(struct mw_write_log *log, bool muted);

int mw_write_log_now(struct mw_write_log *log);

/*
 * Writes into `directory` the files as a crash at `moment` may leave them, with their names and
 * their greatest length.  Syncs of files whose name ends in `unsynced` (or NULL) count for nothing.
 * A write that was submitted before the moment and is covered by no sync is kept, lost or torn by
 * sectors, by the random numbers of `random`.
 */
void mw_write_log_replay(struct mw_write_log *log, int moment, const char *directory,
                         const char *unsynced, GRand *random);

#endif
