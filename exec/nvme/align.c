#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <linux/magic.h>

#include "exec/nvme/internal.h"

/* If nothing tells the alignment: the page size, which no file system exceeds. */
enum { FALLBACK_BYTES = 4096, LARGEST_BYTES = 65536 };

static bool
usable(int64_t bytes)
{
    return bytes >= 512 && bytes <= LARGEST_BYTES && !(bytes & (bytes - 1));
}

/* A partition has no queue of its own; its parent folder is that of the disk. */
static int64_t
device_bytes(dev_t device, const char *key)
{
    static const char *const forms[] = {"/sys/dev/block/%u:%u/queue/%s",
                                        "/sys/dev/block/%u:%u/../queue/%s"};

    for (unsigned i = 0; i < G_N_ELEMENTS(forms); i++) {
        char path[128];
        g_autofree char *text = NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(path, sizeof path, forms[i], major(device), minor(device), key);
#pragma GCC diagnostic pop
        if (g_file_get_contents(path, &text, NULL, NULL))
            return g_ascii_strtoll(text, NULL, 10);
    }
    return 0;
}

/* Returns 1 if the kernel answered, with 0 bytes for "no direct I/O on this file"; 0 if it cannot
 * tell. */
static bool
ask_kernel(int fd, int64_t *bytes)
{
#ifdef STATX_DIOALIGN
    struct statx info;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) || !(info.stx_mask & STATX_DIOALIGN))
        return false;
    *bytes = MAX(info.stx_dio_offset_align, info.stx_dio_mem_align);
    if (!info.stx_dio_offset_align)
        *bytes = 0;
    return true;
#else
    return false;
#endif
}

/*
 * Beyond what the kernel demands: transfers of whole physical and file-system blocks save the drive
 * a read before each write, and save the file system an exclusive lock.
 */
int64_t
mw_nvme_align_direct(int fd)
{
    struct stat info;
    int64_t demanded_bytes = FALLBACK_BYTES;

    if (fstat(fd, &info))
        return FALLBACK_BYTES;
    const int64_t logical_bytes = device_bytes(info.st_dev, "logical_block_size");
    const int64_t physical_bytes = device_bytes(info.st_dev, "physical_block_size");
    if (ask_kernel(fd, &demanded_bytes)) {
        if (!demanded_bytes)
            return 0;
    } else if (usable(logical_bytes)) {
        demanded_bytes = logical_bytes;
    }
    if (usable(physical_bytes))
        demanded_bytes = MAX(demanded_bytes, physical_bytes);
    if (usable(info.st_blksize))
        demanded_bytes = MAX(demanded_bytes, info.st_blksize);
    return MAX(demanded_bytes, 512);
}

/* A RAM disk may also be a block device; brd and zram have these names. */
static bool
device_is_ram(dev_t device)
{
    char link[64], target[512];

    snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major(device), minor(device));
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = 0;
    const char *name = strrchr(target, '/');
    name = name ? name + 1 : target;
    return g_str_has_prefix(name, "ram") || g_str_has_prefix(name, "zram");
}

bool
mw_nvme_align_is_ram(int fd)
{
    struct statfs system;
    struct stat info;

    if (!fstatfs(fd, &system) &&
        (system.f_type == TMPFS_MAGIC || (unsigned)system.f_type == RAMFS_MAGIC))
        return true;
    return !fstat(fd, &info) && device_is_ram(info.st_dev);
}
