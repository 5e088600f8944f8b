/*
 * run_names.h - names and locks of a rank's files: STEM.record, STEM.lock, and in each drive's
 * directory STEM-INDEXofCOUNT.data.  All are to be freed by g_free.  exec/commit/run_files.c knows
 * them again.
 */
#ifndef MW_EXEC_NVME_RUN_NAMES_H
#define MW_EXEC_NVME_RUN_NAMES_H

#include <stdbool.h>

#define MW_RUN_BASE "memwall"
#define MW_RUN_BASE_NULL "memwall-null" /* of a run that trains nothing */
#define MW_RUN_RECORD ".record"
#define MW_RUN_LOCK ".lock"
#define MW_RUN_DATA ".data"

/* Ranks that share a directory have a stem each: BASE of one rank alone, else BASE-rankR. */
char *mw_run_stem(const char *base, int rank, int ranks);

/* Paths. */
char *mw_run_record_path(const char *directory, const char *stem);
char *mw_run_lock_path(const char *directory, const char *stem);
char *mw_run_data_path(const char *directory, const char *stem, int drive, int drives);

/* Whoever looks at which runs are in progress holds a lock for an instant (run_files.c), and a
 * process that was killed for as long as the kernel takes to end it, though its launcher may have
 * returned: neither is a reason to fail.  A run is at its files for longer than this. */
#define MW_RUN_LOCK_LOOKS 100
#define MW_RUN_LOCK_LOOK_US 10000

/* LOCK_EX or LOCK_SH; false with errno, EWOULDBLOCK where a run is at the file. */
bool mw_run_lock_file(int fd, int how);

#endif
