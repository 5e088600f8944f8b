#include "exec/nvme/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

static int
system_submit(void *data, io_context_t context, long count, struct iocb **iocbs)
{
    return io_submit(context, count, iocbs);
}

static int
system_get_events(void *data, io_context_t context, long count, struct io_event *events)
{
    struct timespec none = {0, 0};

    return io_getevents(context, 0, count, events, &none);
}

static ssize_t
system_pread(void *data, int fd, void *buffer, size_t bytes, off_t offset)
{
    return pread(fd, buffer, bytes, offset);
}

static ssize_t
system_pwrite(void *data, int fd, const void *buffer, size_t bytes, off_t offset)
{
    return pwrite(fd, buffer, bytes, offset);
}

static int
system_fdatasync(void *data, int fd)
{
    return fdatasync(fd);
}

static int
system_fallocate(void *data, int fd, off_t bytes)
{
    return fallocate(fd, 0, 0, bytes);
}

static int
system_forget(void *data, int fd)
{
    const int reason = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);

    if (reason)
        errno = reason;
    return reason ? -1 : 0;
}

const struct mw_nvme_calls mw_nvme_system_calls = {
    .submit = system_submit,
    .get_events = system_get_events,
    .pread = system_pread,
    .pwrite = system_pwrite,
    .fdatasync = system_fdatasync,
    .fallocate = system_fallocate,
    .forget = system_forget,
};
