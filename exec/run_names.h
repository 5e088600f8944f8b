/*
 * run_names.h - the names of a rank's files: STEM.record, STEM.lock, and STEM-INDEXofCOUNT.data in
 * each drive's directory.  All are to be freed by g_free.  exec/run_files.c knows them again.
 */
#ifndef MW_EXEC_RUN_NAMES_H
#define MW_EXEC_RUN_NAMES_H

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

#endif
