#include "write_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR_BYTES = 512 };

/* Of a write that a failed sync would have covered. */
enum fate { FATE_OPEN, FATE_WHOLE, FATE_TORN, FATE_LOST, FATE_SHOWN };

struct entry {
    int file; /* index of files */
    bool is_sync;
    enum fate fate;
    int decided;      /* moment */
    int began, ended; /* moments; ended of a write that is under way: G_MAXINT */
    int64_t offset_bytes, bytes;
    char *data;
    const struct iocb *iocb; /* of a write under way */
};

struct file {
    char *name;
    dev_t device;
    ino_t inode;
    int64_t bytes, base_bytes;
    char *base; /* when it was first seen */
};

struct mw_write_log {
    pthread_mutex_t mutex;
    GArray *entries, *files;
    GRand *random; /* of fates */
    int moment;
    bool muted;
};

static void
clear_entry(void *entry)
{
    g_free(((struct entry *)entry)->data);
}

static void
clear_file(void *file)
{
    g_free(((struct file *)file)->name);
    g_free(((struct file *)file)->base);
}

struct mw_write_log *
mw_write_log_new(void)
{
    struct mw_write_log *log = g_new0(struct mw_write_log, 1);

    pthread_mutex_init(&log->mutex, NULL);
    log->random = g_rand_new_with_seed(17);
    log->entries = g_array_new(FALSE, TRUE, sizeof(struct entry));
    log->files = g_array_new(FALSE, TRUE, sizeof(struct file));
    g_array_set_clear_func(log->entries, clear_entry);
    g_array_set_clear_func(log->files, clear_file);
    return log;
}

void
mw_write_log_free(struct mw_write_log *log)
{
    g_array_unref(log->entries);
    g_array_unref(log->files);
    g_rand_free(log->random);
    pthread_mutex_destroy(&log->mutex);
    g_free(log);
}

/* Past no cache and through no log: of the files as they lie here. */
static void
load_base(struct file *file, int fd)
{
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
    gsize bytes;

    g_assert_true(g_file_get_contents(path, &file->base, &bytes, NULL));
    file->base_bytes = (int64_t)bytes;
}

static int
file_index(struct mw_write_log *log, int fd)
{
    struct stat info;
    char link[64];

    g_assert_cmpint(fstat(fd, &info), ==, 0);
    for (unsigned i = 0; i < log->files->len; i++) {
        struct file *file = &g_array_index(log->files, struct file, i);
        if (file->device == info.st_dev && file->inode == info.st_ino)
            return (int)i;
    }
    g_snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    g_autofree char *path = g_file_read_link(link, NULL);
    struct file file = {g_path_get_basename(path), info.st_dev, info.st_ino, info.st_size, 0, NULL};
    load_base(&file, fd);
    g_array_append_val(log->files, file);
    return (int)log->files->len - 1;
}

static void
add_write(struct mw_write_log *log, int fd, const void *data, int64_t bytes, int64_t offset_bytes,
          const struct iocb *iocb)
{
    if (log->muted)
        return;
    struct entry entry = {
        .file = file_index(log, fd),
        .began = log->moment++,
        .ended = G_MAXINT,
        .offset_bytes = offset_bytes,
        .bytes = bytes,
        .data = g_memdup2(data, (size_t)bytes),
        .iocb = iocb,
    };
    struct file *file = &g_array_index(log->files, struct file, entry.file);
    file->bytes = MAX(file->bytes, offset_bytes + bytes);
    if (!iocb)
        entry.ended = log->moment++;
    g_array_append_val(log->entries, entry);
}

void
mw_write_log_submit(struct mw_write_log *log, long count, struct iocb **iocbs)
{
    pthread_mutex_lock(&log->mutex);
    for (long i = 0; i < count; i++)
        if (iocbs[i]->aio_lio_opcode == IO_CMD_PWRITE)
            add_write(log, iocbs[i]->aio_fildes, iocbs[i]->u.c.buf, (int64_t)iocbs[i]->u.c.nbytes,
                      iocbs[i]->u.c.offset, iocbs[i]);
    pthread_mutex_unlock(&log->mutex);
}

static void
end_write(struct mw_write_log *log, const struct iocb *iocb)
{
    for (unsigned i = log->entries->len; i-- > 0;) {
        struct entry *entry = &g_array_index(log->entries, struct entry, i);
        if (entry->iocb != iocb)
            continue;
        entry->iocb = NULL;
        entry->ended = log->moment++;
        return;
    }
}

void
mw_write_log_complete(struct mw_write_log *log, long count, const struct io_event *events)
{
    pthread_mutex_lock(&log->mutex);
    for (long i = 0; i < count; i++)
        end_write(log, events[i].obj);
    pthread_mutex_unlock(&log->mutex);
}

void
mw_write_log_pwrite(struct mw_write_log *log, int fd, const void *data, size_t bytes, off_t offset)
{
    pthread_mutex_lock(&log->mutex);
    add_write(log, fd, data, (int64_t)bytes, offset, NULL);
    pthread_mutex_unlock(&log->mutex);
}

void
mw_write_log_sync(struct mw_write_log *log, int fd)
{
    pthread_mutex_lock(&log->mutex);
    struct entry entry = {.file = file_index(log, fd), .is_sync = true};
    entry.began = log->moment++;
    entry.ended = log->moment++;
    if (!log->muted)
        g_array_append_val(log->entries, entry);
    pthread_mutex_unlock(&log->mutex);
}

int
mw_write_log_now(struct mw_write_log *log)
{
    pthread_mutex_lock(&log->mutex);
    int moment = log->moment;
    pthread_mutex_unlock(&log->mutex);
    return moment;
}

void
mw_write_log_mute(struct mw_write_log *log, bool muted)
{
    pthread_mutex_lock(&log->mutex);
    log->muted = muted;
    pthread_mutex_unlock(&log->mutex);
}

static bool
is_durable(const struct mw_write_log *log, const struct entry *write, int moment,
           const char *unsynced)
{
    const struct file *file = &g_array_index(log->files, struct file, write->file);

    if (unsynced && g_str_has_suffix(file->name, unsynced))
        return false;
    for (unsigned i = 0; i < log->entries->len; i++) {
        const struct entry *sync = &g_array_index(log->entries, struct entry, i);
        if (sync->is_sync && sync->file == write->file && write->ended < sync->began &&
            sync->ended < moment)
            return true;
    }
    return false;
}

/* Whole, lost, or some of its sectors. */
static void
apply_doubtful(char *image, const struct entry *write, GRand *random)
{
    const int fate = g_rand_int_range(random, 0, 3);

    for (int64_t at = 0; at < write->bytes; at += SECTOR_BYTES) {
        const bool kept = fate == 0 || (fate == 2 && g_rand_boolean(random));
        if (kept)
            memcpy(image + write->offset_bytes + at, write->data + at,
                   (size_t)MIN(SECTOR_BYTES, write->bytes - at));
    }
}

/* Torn: every other sector. */
static void
apply_decided(char *image, const struct entry *write, bool shown)
{
    for (int64_t at = 0; at < write->bytes; at += SECTOR_BYTES) {
        const bool kept = write->fate == FATE_WHOLE || (write->fate == FATE_SHOWN && shown) ||
                          (write->fate == FATE_TORN && at / SECTOR_BYTES % 2);
        if (kept)
            memcpy(image + write->offset_bytes + at, write->data + at,
                   (size_t)MIN(SECTOR_BYTES, write->bytes - at));
    }
}

static char *
base_image(const struct file *file)
{
    char *image = g_malloc0((size_t)file->bytes + 1);

    return memcpy(image, file->base, (size_t)file->base_bytes);
}

/* What reads past the page cache get: dirty pages are written out for them. */
static char *
shown_image(const struct mw_write_log *log, int index)
{
    const struct file *file = &g_array_index(log->files, struct file, index);
    char *image = base_image(file);

    for (unsigned i = 0; i < log->entries->len; i++) {
        const struct entry *write = &g_array_index(log->entries, struct entry, i);
        if (write->is_sync || write->file != index)
            continue;
        if (write->fate)
            apply_decided(image, write, true);
        else
            memcpy(image + write->offset_bytes, write->data, (size_t)write->bytes);
    }
    return image;
}

ssize_t
mw_write_log_pread(struct mw_write_log *log, int fd, void *buffer, size_t bytes, off_t offset)
{
    pthread_mutex_lock(&log->mutex);
    const int index = file_index(log, fd);
    const struct file *file = &g_array_index(log->files, struct file, index);
    g_autofree char *image = shown_image(log, index);
    const int64_t there = CLAMP(file->bytes - offset, 0, (int64_t)bytes);
    if (there)
        memcpy(buffer, image + offset, (size_t)there);
    pthread_mutex_unlock(&log->mutex);
    return (ssize_t)there;
}

void
mw_write_log_forget(struct mw_write_log *log, int fd)
{
    pthread_mutex_lock(&log->mutex);
    const int index = file_index(log, fd);
    const int64_t bytes = g_array_index(log->files, struct file, index).bytes;
    g_autofree char *image = shown_image(log, index);
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
    int own = open(path, O_WRONLY | O_CLOEXEC);
    g_assert_cmpint(own, >=, 0);
    g_assert_cmpint(pwrite(own, image, (size_t)bytes, 0), ==, bytes);
    close(own);
    pthread_mutex_unlock(&log->mutex);
}

void
mw_write_log_fail_sync(struct mw_write_log *log, int fd, bool all)
{
    pthread_mutex_lock(&log->mutex);
    const int index = file_index(log, fd), now = log->moment++;
    for (unsigned i = 0; i < log->entries->len; i++) {
        struct entry *write = &g_array_index(log->entries, struct entry, i);
        if (write->is_sync || write->file != index || write->fate ||
            is_durable(log, write, now, NULL))
            continue;
        write->fate =
            all ? FATE_LOST : (enum fate)g_rand_int_range(log->random, FATE_WHOLE, FATE_SHOWN + 1);
        write->decided = now;
    }
    pthread_mutex_unlock(&log->mutex);
}

static void
replay_file(const struct mw_write_log *log, int index, int moment, const char *directory,
            const char *unsynced, GRand *random)
{
    const struct file *file = &g_array_index(log->files, struct file, index);
    g_autofree char *path = g_build_filename(directory, file->name, NULL);
    g_autofree char *image = base_image(file);

    for (unsigned i = 0; i < log->entries->len; i++) {
        const struct entry *write = &g_array_index(log->entries, struct entry, i);
        if (write->is_sync || write->file != index || write->began >= moment)
            continue;
        if (write->fate && write->decided < moment)
            apply_decided(image, write, false);
        else if (is_durable(log, write, moment, unsynced))
            memcpy(image + write->offset_bytes, write->data, (size_t)write->bytes);
        else
            apply_doubtful(image, write, random);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, image, (size_t)file->bytes), ==, file->bytes);
    close(fd);
}

void
mw_write_log_replay(struct mw_write_log *log, int moment, const char *directory,
                    const char *unsynced, GRand *random)
{
    pthread_mutex_lock(&log->mutex);
    for (unsigned i = 0; i < log->files->len; i++)
        replay_file(log, (int)i, moment, directory, unsynced, random);
    pthread_mutex_unlock(&log->mutex);
}
