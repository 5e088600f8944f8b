#include "exec/nvme/nvme.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/error.h"
#include "exec/nvme/internal.h"
#include "exec/nvme/run_names.h"

enum { DEFAULT_BLOCK_BYTES = 1 << 20, DEFAULT_DEPTH = 32, DEPTH_MAX = 1024 };

void
mw_nvme_fail(struct mw_nvme *nvme, const char *message)
{
    pthread_mutex_lock(&nvme->failure_mutex);
    if (!nvme->failure)
        nvme->failure = g_strdup(message);
    pthread_mutex_unlock(&nvme->failure_mutex);
    atomic_store(&nvme->failed, true);
}

GError *
mw_nvme_failure(struct mw_nvme *nvme)
{
    pthread_mutex_lock(&nvme->failure_mutex);
    GError *error =
        g_error_new(MW_ERROR, MW_ERROR_IO, "the NVMe tier has failed: %s", nvme->failure);
    pthread_mutex_unlock(&nvme->failure_mutex);
    return error;
}

static bool
invalid(GError **error, const char *key, int64_t value, const char *accepted)
{
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "NVMe tier: %s is %" PRId64 ": must be %s", key,
                value, accepted);
    return false;
}

static bool
check_options(const struct mw_nvme_options *options, GError **error)
{
    if (options->directory_count < 1 || options->directory_count > MW_NVME_DRIVES_MAX)
        return invalid(error, "number of directories", options->directory_count, "1 to 64");
    if (options->capacity_bytes < 1)
        return invalid(error, "capacity", options->capacity_bytes, "at least 1 byte");
    if (options->depth < 0 || options->depth > DEPTH_MAX)
        return invalid(error, "depth", options->depth, "1 to 1024 blocks per drive");
    if (options->block_bytes < 0 || options->block_bytes > 1 << 30)
        return invalid(error, "block size", options->block_bytes, "at most 1 GiB");
    if (options->stripe_bytes < 0)
        return invalid(error, "stripe size", options->stripe_bytes, "a multiple of the block size");
    return true;
}

static bool
open_files(struct mw_nvme *nvme, const struct mw_nvme_options *options, GError **error)
{
    for (int i = 0; i < options->directory_count; i++) {
        struct mw_nvme_file_wish wish = {
            .directory = options->directories[i],
            .stem = options->stem ? options->stem : MW_RUN_BASE,
            .index = i,
            .count = options->directory_count,
            .resume = options->resume,
            .buffered = options->buffered,
        };
        if (!mw_nvme_file_open(&nvme->files[i], &wish, error))
            return false;
        nvme->layout.drives = i + 1;
        nvme->alignment_bytes = MAX(nvme->alignment_bytes, nvme->files[i].alignment_bytes);
    }
    return true;
}

static bool
lay_out(struct mw_nvme *nvme, const struct mw_nvme_options *options, GError **error)
{
    struct mw_nvme_layout *layout = &nvme->layout;

    layout->block_bytes = options->block_bytes ? options->block_bytes : DEFAULT_BLOCK_BYTES;
    layout->stripe_bytes = options->stripe_bytes ? options->stripe_bytes : layout->block_bytes;
    if (layout->block_bytes % nvme->alignment_bytes)
        return invalid(error, "block size", layout->block_bytes,
                       options->sums ? "a multiple of 4096 and of the drives' alignment"
                                     : "a multiple of the drives' alignment");
    if (layout->stripe_bytes % layout->block_bytes)
        return invalid(error, "stripe size", layout->stripe_bytes, "a multiple of the block size");
    const int64_t unit_bytes = layout->drives > 1 ? layout->stripe_bytes : nvme->alignment_bytes;
    if (options->capacity_bytes > INT64_MAX / 2 - layout->drives * unit_bytes)
        return invalid(error, "capacity", options->capacity_bytes, "at most 4 EiB");
    nvme->capacity_bytes = (options->capacity_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
    nvme->end_bytes = nvme->capacity_bytes;
    if (options->sums)
        nvme->end_bytes = mw_in_pages(options->capacity_bytes);
    return true;
}

int64_t
mw_nvme_sums_bytes(int64_t capacity_bytes)
{
    return mw_in_pages(capacity_bytes) / MW_NVME_PAGE_BYTES * (int64_t)sizeof(uint32_t);
}

/* The names must survive a crash, as the data does. */
static bool
sync_directory(const struct mw_nvme_file *file, GError **error)
{
    int fd = open(file->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && !fsync(fd) && !fsync(file->fd);

    if (!ok)
        g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: fsync: %s", file->directory,
                    g_strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok;
}

static bool
reserve_file(struct mw_nvme *nvme, struct mw_nvme_file *file, bool resume, GError **error)
{
    const int64_t bytes = mw_nvme_stripe_file_bytes(&nvme->layout, nvme->capacity_bytes);

    return mw_nvme_file_reserve(file, bytes, resume, nvme->calls, error) &&
           (!nvme->keep || resume || sync_directory(file, error));
}

static bool
reserve_files(struct mw_nvme *nvme, const struct mw_nvme_options *options, GError **error)
{
    const int64_t bytes = mw_nvme_stripe_file_bytes(&nvme->layout, nvme->capacity_bytes);

    for (int i = 0; i < nvme->layout.drives; i++)
        if (options->later ? !mw_nvme_file_size(&nvme->files[i], bytes, error)
                           : !reserve_file(nvme, &nvme->files[i], options->resume, error))
            return false;
    return true;
}

bool
mw_nvme_reserve(struct mw_nvme *nvme, bool (*make_space)(void *data), void *data, GError **error)
{
    for (int i = 0; i < nvme->layout.drives; i++) {
        GError *why = NULL;
        bool good = reserve_file(nvme, &nvme->files[i], false, &why);
        if (!good && nvme->files[i].lacks_space && make_space && make_space(data)) {
            g_clear_error(&why);
            good = reserve_file(nvme, &nvme->files[i], false, &why);
        }
        if (good)
            continue;
        g_propagate_error(error, why);
        return false;
    }
    return true;
}

static bool
start(struct mw_nvme *nvme, GError **error)
{
    for (int i = 0; i < MW_NVME_DIRECTIONS; i++)
        if (!mw_nvme_queue_start(&nvme->queues[i], nvme, (enum mw_nvme_direction)i, error))
            return false;
    return true;
}

/* Keeps files that existed before the open failed. */
static void
abandon(struct mw_nvme *nvme)
{
    nvme->keep = false;
    for (int i = 0; i < nvme->layout.drives; i++)
        if (!nvme->files[i].created)
            mw_nvme_file_close(&nvme->files[i], true);
    mw_nvme_close(nvme);
}

struct mw_nvme *
mw_nvme_open(const struct mw_nvme_options *options, GError **error)
{
    if (!check_options(options, error))
        return NULL;

    struct mw_nvme *nvme = g_new0(struct mw_nvme, 1);
    nvme->calls = options->calls ? options->calls : &mw_nvme_system_calls;
    nvme->depth = options->depth ? options->depth : DEFAULT_DEPTH;
    nvme->keep = options->keep;
    nvme->sums = options->sums;
    nvme->whose = options->whose;
    nvme->whose_data = options->whose_data;
    if (options->sums)
        nvme->alignment_bytes = MW_NVME_PAGE_BYTES;
    pthread_mutex_init(&nvme->failure_mutex, NULL);
    if (open_files(nvme, options, error) && lay_out(nvme, options, error) &&
        reserve_files(nvme, options, error) && start(nvme, error))
        return nvme;
    abandon(nvme);
    return NULL;
}

void
mw_nvme_close(struct mw_nvme *nvme)
{
    if (!nvme)
        return;
    for (int i = 0; i < MW_NVME_DIRECTIONS; i++)
        mw_nvme_queue_stop(&nvme->queues[i]);
    for (int i = 0; i < MW_NVME_DIRECTIONS; i++)
        mw_nvme_queue_finish(&nvme->queues[i]);
    for (int i = 0; i < nvme->layout.drives; i++)
        if (nvme->files[i].fd >= 0)
            mw_nvme_file_close(&nvme->files[i], nvme->keep);
    pthread_mutex_destroy(&nvme->failure_mutex);
    g_free(nvme->failure);
    g_free(nvme);
}

int64_t
mw_nvme_capacity_bytes(const struct mw_nvme *nvme)
{
    return nvme->capacity_bytes;
}

int64_t
mw_nvme_stripe_bytes(const struct mw_nvme *nvme)
{
    return nvme->layout.stripe_bytes;
}

int
mw_nvme_drive_count(const struct mw_nvme *nvme)
{
    return nvme->layout.drives;
}

struct mw_nvme_drive
mw_nvme_drive(const struct mw_nvme *nvme, int drive)
{
    const struct mw_nvme_file *file = &nvme->files[drive];

    return (struct mw_nvme_drive){
        .directory = file->directory,
        .path = file->path,
        .direct = file->direct,
        .ram = file->ram,
        .alignment_bytes = file->alignment_bytes,
        .notice = file->notice,
    };
}

char *
mw_nvme_where(const struct mw_nvme *nvme, int64_t offset_bytes, int64_t bytes)
{
    const char *paths[MW_NVME_DRIVES_MAX];

    for (int drive = 0; drive < nvme->layout.drives; drive++)
        paths[drive] = nvme->files[drive].path;
    return mw_nvme_stripe_where(&nvme->layout, paths, offset_bytes, bytes);
}

int64_t
mw_nvme_moved_bytes(const struct mw_nvme *nvme, enum mw_nvme_direction direction)
{
    return atomic_load(&nvme->queues[direction].moved_bytes);
}

bool
mw_nvme_has_failed_to_write(const struct mw_nvme *nvme)
{
    return atomic_load(&nvme->failed_to_write);
}

void
mw_nvme_stop(struct mw_nvme *nvme, const char *why)
{
    mw_nvme_fail(nvme, why);
}

bool
mw_nvme_sync(struct mw_nvme *nvme, GError **error)
{
    mw_nvme_queue_drain(&nvme->queues[MW_NVME_WRITE]);
    for (int i = 0; i < nvme->layout.drives && !atomic_load(&nvme->failed); i++) {
        GError *reason = NULL;

        if (mw_nvme_file_sync(&nvme->files[i], nvme->keep, nvme->calls, &reason))
            continue;
        /* After a failed fdatasync the content of the drive is unknown. */
        mw_nvme_fail(nvme, reason->message);
        g_propagate_error(error, reason);
        return false;
    }
    if (!atomic_load(&nvme->failed))
        return true;
    g_propagate_error(error, mw_nvme_failure(nvme));
    return false;
}
