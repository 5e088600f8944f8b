/*
 * calls.h - the system calls of the NVMe tier and of the commit record, as a table that tests
 * replace to inject faults and to record what reaches the drives.  Results are those of the system:
 * libaio's calls return -errno, the others return -1 and set errno.
 */
#ifndef MW_EXEC_NVME_CALLS_H
#define MW_EXEC_NVME_CALLS_H

#include <libaio.h>
#include <sys/types.h>

struct mw_nvme_calls {
    /* Completions must signal the eventfd that the iocb names (io_set_eventfd). */
    int (*submit)(void *data, io_context_t context, long count, struct iocb **iocbs);
    /* Never blocks: takes the events that are available. */
    int (*get_events)(void *data, io_context_t context, long count, struct io_event *events);
    ssize_t (*pread)(void *data, int fd, void *buffer, size_t bytes, off_t offset);
    ssize_t (*pwrite)(void *data, int fd, const void *buffer, size_t bytes, off_t offset);
    int (*fdatasync)(void *data, int fd);
    int (*fallocate)(void *data, int fd, off_t bytes);
    /* Removes the file's clean pages from the page cache. */
    int (*forget)(void *data, int fd);
    void *data;
};

extern const struct mw_nvme_calls mw_nvme_system_calls;

#endif
