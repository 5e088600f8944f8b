/* Makes the drives' file, and chooses block size and depth. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "calibrate/internal.h"

#define MIB (INT64_C(1) << 20)
#define FILE_BYTES (2048 * MIB)
#define SUSTAINED_FILE_BYTES (16384 * MIB)
#define QUICK_FILE_BYTES (32 * MIB)

/* The first setting in order that is within this factor of the fastest; settings are ordered by the
 * bytes they keep in flight. */
#define AS_GOOD 1.03

static const struct setting {
    int64_t block_bytes;
    int depth;
} settings[] = {
    {MIB, 8},     {MIB / 4, 32},  {MIB, 16}, {MIB / 4, 64}, {MIB, 32},
    {4 * MIB, 8}, {MIB / 4, 128}, {MIB, 64}, {4 * MIB, 16}, {4 * MIB, 32},
};
#define QUICK_SETTINGS 2

static bool
find_free_space(struct mw_calibrator *c, struct mw_calibration_drives *drives, GError **error)
{
    const struct mw_calibration_options *o = c->options;
    g_autofree dev_t *seen = g_new0(dev_t, o->directory_count);

    for (int i = 0; i < o->directory_count; i++) {
        struct statvfs space;
        struct stat status;
        bool again = false;
        if (statvfs(o->directories[i], &space) || stat(o->directories[i], &status))
            return mw_refuse(error, "%s: %s", o->directories[i], g_strerror(errno));
        seen[i] = status.st_dev;
        for (int j = 0; j < i; j++)
            again = again || seen[j] == seen[i];
        if (!again)
            drives->free_bytes += (int64_t)(space.f_bavail * space.f_frsize);
    }
    drives->count = o->directory_count;
    return true;
}

/* At most half of the free space, for all ranks together.  If that is too little the tier refuses
 * it, with numbers. */
static int64_t
file_bytes(const struct mw_calibrator *c, const struct mw_calibration_drives *drives)
{
    const struct mw_calibration_options *o = c->options;
    int64_t wish = o->quick ? QUICK_FILE_BYTES : o->sustained ? SUSTAINED_FILE_BYTES : FILE_BYTES;
    int64_t unit = 4 * MIB * o->directory_count;

    return MAX(MIN(wish, drives->free_bytes / 2 / mw_calibrate_ranks(c)) / unit * unit, 2 * unit);
}

/* Each rank has a file of its own. */
static char *
stem(const struct mw_calibrator *c)
{
    return g_strdup_printf(MW_CALIBRATE_STEM "%d", mw_calibrate_rank(c));
}

static bool
open_file(struct mw_calibrator *c, const struct mw_calibration_drives *drives,
          struct setting setting, bool resume, GError **error)
{
    g_autofree char *name = stem(c);
    struct mw_nvme_options options = {
        .directories = c->options->directories,
        .directory_count = c->options->directory_count,
        .stem = name,
        .capacity_bytes = file_bytes(c, drives),
        .stripe_bytes = 4 * MIB,
        .block_bytes = setting.block_bytes,
        .depth = setting.depth,
        .keep = true,
        .resume = resume,
        .calls = c->options->drive_calls,
    };

    mw_nvme_close(c->nvme);
    if (!c->sums)
        c->sums = g_malloc0((gsize)mw_nvme_sums_bytes(options.capacity_bytes));
    options.sums = c->sums;
    c->nvme = mw_nvme_open(&options, error);
    c->has_files = c->has_files || c->nvme;
    return c->nvme != NULL;
}

static void
tell_notices(const struct mw_calibrator *c, struct mw_calibration_drives *drives)
{
    drives->direct = true;
    for (int i = 0; i < mw_nvme_drive_count(c->nvme); i++) {
        struct mw_nvme_drive drive = mw_nvme_drive(c->nvme, i);
        drives->direct = drives->direct && drive.direct;
        drives->ram = drives->ram || drive.ram;
        if (drive.notice && c->options->notice && mw_calibrate_rank(c) == 0)
            c->options->notice(c->options->data, drive.notice);
    }
}

/* Blocks that were reserved but never written are slower to write, and read as zeros.  So the file
 * is written first, as much of it as there is time for. */
static bool
write_region(struct mw_calibrator *c, GError **error)
{
    int64_t bytes = MIN(4 * MIB * c->options->directory_count, c->host.bytes / MIB * MIB);
    int64_t all = mw_nvme_capacity_bytes(c->nvme), at = 0;
    double began_s = mw_calibrate_now_s();
    bool time = true;

    for (; at + bytes <= all && (time || at < 2 * bytes); at += bytes) {
        if (!mw_nvme_transfer(c->nvme, MW_NVME_WRITE, at, bytes, c->host.base, error))
            return false;
        double now_s = mw_calibrate_now_s(), each_s = (now_s - began_s) / (double)(at / bytes + 1);
        time = c->options->sustained || now_s + each_s <= c->budget.until_s;
    }
    double seconds = mw_calibrate_now_s() - began_s;
    double region = (double)at, bytes_per_s = region / seconds; /* seconds of the slowest rank */
    if (c->options->sustained)
        c->budget.end_s += seconds;
    if (!mw_calibrate_least(c, &region, error) || !mw_calibrate_least(c, &bytes_per_s, error))
        return false;
    c->region_bytes = (int64_t)region;
    mw_calibrate_choose_move(c, bytes_per_s);
    return true;
}

/* Seconds to read and to write a byte: the best of several, or a single one if time is short. */
static bool
time_setting(struct mw_calibrator *c, double *seconds, GError **error)
{
    const double began_s = mw_calibrate_now_s(), share_s = mw_calibrate_share_s(c);
    double best[2] = {INFINITY, INFINITY};

    for (int r = 0; r < 3; r++) {
        double took_s = mw_calibrate_now_s() - began_s;
        if (r > 0 && took_s * (r + 1) / r > share_s)
            break;
        for (int direction = 0; direction < 2; direction++) {
            struct mw_calibrate_mover m = {.c = c, .direction = direction, .bytes = c->move_bytes};
            struct mw_calibrate_work work = {.run = mw_calibrate_move, .state = &m};
            double s = 1 / mw_calibrate_rate(&work, c->options->quick ? 0 : 0.1);
            if (m.error) {
                g_propagate_error(error, m.error);
                return false;
            }
            best[direction] = fmin(best[direction], s);
        }
    }
    *seconds = best[0] + best[1];
    return true;
}

/* Whether to try another setting: there is time for as long as the one before took.  The first is
 * tried in any case. */
static bool
has_time(struct mw_calibrator *c, bool first, double before_s, bool *yes, GError **error)
{
    double value = first || mw_calibrate_now_s() + before_s <= c->budget.until_s;

    if (!mw_calibrate_agree(c, &value, error))
        return false;
    *yes = value > 0;
    return true;
}

static bool
try_setting(struct mw_calibrator *c, const struct mw_calibration_drives *drives,
            struct setting setting, double *seconds, GError **error)
{
    g_autofree char *what = g_strdup_printf("drives: blocks of %d KiB, %d in flight",
                                            (int)(setting.block_bytes / 1024), setting.depth);

    return mw_calibrate_step(c, what, error) && open_file(c, drives, setting, true, error) &&
           time_setting(c, seconds, error) && mw_calibrate_sum(c, seconds, 1, error);
}

static bool
pick(struct mw_calibrator *c, struct mw_calibration_drives *drives, struct setting *picked,
     GError **error)
{
    double seconds[G_N_ELEMENTS(settings)], best = INFINITY, before_s = 0;
    int count = c->options->quick ? QUICK_SETTINGS : (int)G_N_ELEMENTS(settings), tried = 0;
    bool more = true;

    if (!mw_calibrate_begin(c, MW_CALIBRATE_BLOCKS, "drives: blocks", count, error))
        return false;
    for (;; tried++) {
        double began_s = mw_calibrate_now_s();
        if (!has_time(c, tried == 0, before_s, &more, error))
            return false;
        if (!more || tried == count)
            break;
        c->budget.measures = count - tried;
        if (!try_setting(c, drives, settings[tried], &seconds[tried], error))
            return false;
        best = fmin(best, seconds[tried]);
        before_s = mw_calibrate_now_s() - began_s;
    }
    int first = 0;
    while (seconds[first] > AS_GOOD * best)
        first++;
    *picked = settings[first];
    drives->settings = count;
    drives->settings_tried = tried;
    mw_calibrate_choose_move(c, 2.0 * mw_calibrate_ranks(c) / seconds[first]);
    return true;
}

/* The file is kept between openings, and removed at the end. */
void
mw_calibrate_close_drives(struct mw_calibrator *c)
{
    g_autofree char *begin = stem(c);

    mw_nvme_close(c->nvme);
    c->nvme = NULL;
    g_clear_pointer(&c->sums, g_free);
    for (int i = 0; c->has_files && i < c->options->directory_count; i++) {
        g_autofree char *name =
            g_strdup_printf("%s-%dof%d.data", begin, i + 1, c->options->directory_count);
        g_autofree char *path = g_build_filename(c->options->directories[i], name, NULL);
        remove(path);
    }
}

bool
mw_calibrate_open_drives(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    for (int i = 0; i < c->options->directory_count && !mw_calibrate_rank(c); i++)
        mw_calibrate_remove_left(c->options->directories[i]);
    if (!find_free_space(c, &out->drives, error) ||
        !mw_calibrate_step(c, "drives: making the file", error) ||
        !open_file(c, &out->drives, settings[0], false, error))
        return false;
    tell_notices(c, &out->drives);
    return true;
}

bool
mw_calibrate_drives(struct mw_calibrator *c, struct mw_calibration *out, GError **error)
{
    struct mw_calibration_drives *d = &out->drives;
    struct setting picked;

    if (!mw_calibrate_begin(c, MW_CALIBRATE_FILE, "drives: writing the file", 1, error) ||
        !write_region(c, error) || !pick(c, d, &picked, error))
        return false;
    d->file_bytes = mw_nvme_capacity_bytes(c->nvme) * mw_calibrate_ranks(c);
    d->region_bytes = c->region_bytes * mw_calibrate_ranks(c);
    d->block_bytes = picked.block_bytes;
    d->depth = picked.depth;
    return open_file(c, d, picked, true, error) && mw_calibrate_transfers(c, out, error) &&
           (!c->options->sustained || mw_calibrate_sustained(c, out, error));
}
