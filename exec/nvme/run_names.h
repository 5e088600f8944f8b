/*
 * run_names.h - names and locks of a rank's files: STEM.record, STEM.lock, and
 * STEM-INDEXofCOUNT.data in each drive's directory.  g_free all names.  exec/commit/run_files.c
 * recognises them.
 */
#ifndef MW_EXEC_NVME_RUN_NAMES_H
#define MW_EXEC_NVME_RUN_NAMES_H

#include <stdbool.h>

#define MW_RUN_BASE "memwall"
#define MW_RUN_BASE_NULL "memwall-null" /* base name of a run that trains nothing */
#define MW_RUN_RECORD ".record"
#define MW_RUN_LOCK ".lock"
#define MW_RUN_DATA ".data"

/* Ranks that share a directory have a stem each: BASE if there is only one rank, else
 * BASE-rankR. */
char *mw_run_stem(const char *base, int rank, int ranks);

/* Paths of the files. */
char *mw_run_record_path(const char *directory, const char *stem);
char *mw_run_lock_path(const char *directory, const char *stem);
char *mw_run_data_path(const char *directory, const char *stem, int drive, int drives);

/* Two holders of a lock do not mean that a run is in progress: a process that looks for runs holds
 * it for an instant (run_files.c), and a killed process holds it until the kernel has ended it,
 * even if its launcher has returned.  Taking a lock therefore tries this often, at this interval.
 * A run holds its locks for longer. */
#define MW_RUN_LOCK_LOOKS 100
#define MW_RUN_LOCK_LOOK_US 10000

/* `how` is LOCK_EX or LOCK_SH.  Returns false with errno, which is EWOULDBLOCK if a run holds the
 * file. */
bool mw_run_lock_file(int fd, int how);

#endif
