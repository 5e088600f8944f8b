/*
 * nvme_faults.h - the NVMe tier's system calls with faults built in: the real calls do the work,
 * one chosen operation goes wrong.  A write log, if there is one, records every write and sync.
 */
#ifndef MW_TESTS_NVME_FAULTS_H
#define MW_TESTS_NVME_FAULTS_H

#include <glib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "exec/nvme/calls.h"

enum mw_fault {
    MW_FAULT_NONE,
    MW_FAULT_COMPLETION, /* a block completes with -reason */
    MW_FAULT_SHORT,      /* blocks from `at` on move at most limit_bytes, while there are */
    MW_FAULT_REFUSAL,    /* io_submit says -reason for the block, `times` times */
    MW_FAULT_EVENTS,     /* io_getevents says -reason */
    MW_FAULT_FEW,        /* io_getevents gives `reason` events at most, or none */
    MW_FAULT_SYNC,       /* fdatasync fails with reason, or loses what it would have made durable
                            and says nothing if there is none: another process was told */
    MW_FAULT_RESERVE,    /* fallocate fails with reason */
    MW_FAULT_PWRITE,     /* pwrite fails with reason, or moves limit_bytes if there is none */
    /* Reads that say nothing: of a page in [first_byte, end_byte) of the file that was written. */
    MW_FAULT_FLIP,      /* a bit is another one */
    MW_FAULT_STALE,     /* the page is as it was before it was written last */
    MW_FAULT_TORN,      /* the same, from the last sector on that was changed */
    MW_FAULT_MISPLACED, /* another page's content */
};

struct mw_write_log;

struct mw_faults {
    struct mw_nvme_calls calls; /* what the tier is given */

    enum mw_fault fault;
    int at;    /* which operation of the fault's kind, from 0 */
    int times; /* how many from there on; 0: one */
    int reason;
    long limit_bytes;
    struct mw_write_log *log;
    int64_t first_byte, end_byte; /* of silent reads: pages to be watched and spoilt */
    bool cached; /* what reads past the page cache find is what is in it */

    /* The helper's own. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int seen;     /* operations of the fault's kind so far */
    int shortened[2]; /* by IO_CMD_PREAD, IO_CMD_PWRITE */
    bool holding; /* blocks are kept from the system until they are released */
    io_context_t context;
    struct iocb *held[4096];
    int held_count;
    GHashTable *pages; /* by number: what was written there last, and before; made when needed */
};

void mw_faults_init(struct mw_faults *faults, enum mw_fault fault, int at, int reason);
void mw_faults_finish(struct mw_faults *faults);

/* Waits until `count` blocks are held; false when it takes longer than any machine needs. */
bool mw_faults_await_held(struct mw_faults *faults, int count);
/* Lets the held block at `index` go. */
void mw_faults_release(struct mw_faults *faults, int index);
/* Lets all go, and all that come. */
void mw_faults_release_all(struct mw_faults *faults);

#endif
