/* Writes the measured profile as text. */
#include "cli/calibration/profile.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "cli/calibration/figures.h"
#include "exec/device/cpu/kernels.h"
#include "exec/host/machine.h"

#define GIB 1073741824.0

/* Memory that the process of a run needs beside its arenas. */
#define HOST_RESERVE 0.05

/* Fraction of a GPU's memory for the scratch that operators take, which grows with the
 * micro-batch. */
#define DEVICE_RESERVE 0.02

/* Fraction of the free space that stays free: for others, and because full file systems are
 * slow. */
#define NVME_RESERVE 0.1

/* Shorter names of profiles may be parts of any device's. */
#define NAME_LEAST 4

struct writer {
    GString *text;
    const struct mw_calibration *measured;
    char day[16];
};

static void
add_group(struct writer *w, const char *group)
{
    g_string_append_printf(w->text, "\n[%s]\n", group);
}

static void
add_source(struct writer *w, const char *key, const char *how)
{
    g_string_append_printf(w->text, "%s.source = measured: %s, %s\n", key, w->day, how);
}

static void
add_number(struct writer *w, const char *key, double value, const char *how)
{
    g_string_append_printf(w->text, "%s = %.4g\n", key, value);
    add_source(w, key, how);
}

/* Clamps to the range that a profile accepts: a machine that is hardly scheduled can be slower. */
static double
clamp_to_range(const char *group, const char *key, double value)
{
    const struct mw_profile_key *row = mw_hw_key(group, key);

    return row ? fmin(fmax(value, row->min), row->max) : value;
}

static void
add_range(struct writer *w, const char *group, const char *key, struct mw_measure m,
          const char *how)
{
    g_autofree char *few = cli_calibrate_few(&m);
    g_autofree char *spread = g_strdup_printf("spread %.1f%%%s%s: %s", 100 * mw_measure_spread(&m),
                                              few ? ", " : "", few ? few : "", how);

    g_string_append_printf(w->text, "%s = %.4g; %.4g; %.4g\n", key,
                           clamp_to_range(group, key, m.low), clamp_to_range(group, key, m.typical),
                           clamp_to_range(group, key, m.high));
    add_source(w, key, spread);
}

static char *
how_written(const struct mw_calibration_drives *d)
{
    if (!d->sustained)
        return g_strdup(
            "burst: the first writes, as read_gb_per_s; `memwall calibrate --sustained` "
            "finds the rate that lasts");
    return g_strdup_printf("sustained: %s after %.1f GB",
                           d->steady ? "the rate no longer changed"
                                     : "limit reached, rate still changing,",
                           (double)d->written_bytes / 1e9);
}

/* A burst rate is written only if it is higher than the sustained rate. */
static bool
has_burst(const struct mw_calibration_drives *d)
{
    return d->sustained && d->burst_bytes_per_s.typical > d->write_bytes_per_s.typical;
}

/* A profile has no key for the cost of copying both ways at once, so the source's text has it. */
static char *
how_copied(const struct mw_calibration *m)
{
    return g_strdup_printf("pinned memory, 32 MiB at a time; both ways at once keep %.2f of 2",
                           m->copy_duplex.typical);
}

static char *
how_measured(const struct writer *w, const struct cli_figure *figure)
{
    const struct mw_calibration *m = w->measured;
    bool copies = figure->offset == offsetof(struct mw_calibration, h2d_bytes_per_s) ||
                  figure->offset == offsetof(struct mw_calibration, d2h_bytes_per_s);
    const char *how = cli_figure_how(figure, m);

    if (m->apart && copies)
        return how_copied(m);
    return how ? g_strdup(how) : how_written(&m->drives);
}

static void
add_figures(struct writer *w, const char *group)
{
    for (int i = 0; i < cli_figure_count; i++) {
        const struct cli_figure *f = &cli_figures[i];
        const struct mw_measure m = cli_figure_of(f, w->measured);
        if (strcmp(f->group, group) || !cli_figure_kept(f) || (!m.samples && !m.wished) ||
            (!strcmp(f->key, "write_burst_gb_per_s") && !has_burst(&w->measured->drives)))
            continue;
        g_autofree char *how = how_measured(w, f);
        add_range(w, group, f->key, m, how);
    }
}

/* --- groups ---------------------------------------------------------------------------------- */

/* "; not measured: 1024, 2048, contradict the others: 96, as those beside them tell", or
 * nothing. */
static char *
points_left_out(int points, const double *dims, const struct mw_measure *rates,
                const bool *contradict)
{
    static const char *const why[] = {"not measured: ", "contradict the others: "};
    GString *text = g_string_new(NULL);

    for (int reason = 0; reason < 2; reason++) {
        const char *before = why[reason];
        for (int i = 0; i < points; i++) {
            if (rates[i].samples || contradict[i] != (bool)reason)
                continue;
            g_string_append_printf(text, "%s%s%.5g", text->len ? ", " : "; ", before, dims[i]);
            before = "";
        }
    }
    if (text->len)
        g_string_append(text, ", as those beside them tell");
    return g_string_free(text, FALSE);
}

/* A rate as a function of size, with both ends of its range. */
struct curve {
    const char *dim, *keys[3]; /* at the slow end, typical, at the fast end */
    const char *how;
    int points;
    const double *dims;
    const struct mw_measure *rates;
    const bool *contradicts;
};

static void
add_end(struct writer *w, const struct curve *c, int end)
{
    static const char *const of_which[] = {"10th percentile", "median", "90th percentile"};
    g_autofree char *left_out = points_left_out(c->points, c->dims, c->rates, c->contradicts);
    g_autofree char *how = g_strdup_printf("%s: %s%s", c->how, of_which[end], left_out);

    g_string_append_printf(w->text, "%s =", c->keys[end]);
    for (int i = 0; i < c->points; i++) {
        const double values[] = {c->rates[i].low, c->rates[i].typical, c->rates[i].high};
        g_string_append_printf(w->text, "%s %.4g", i ? ";" : "",
                               clamp_to_range("gpu", c->keys[end], values[end] * 1e-12));
    }
    g_string_append(w->text, "\n");
    add_source(w, c->keys[end], how);
}

static void
add_curve(struct writer *w, const struct curve *c)
{
    g_string_append_printf(w->text, "%s =", c->dim);
    for (int i = 0; i < c->points; i++)
        g_string_append_printf(w->text, "%s %.5g", i ? ";" : "", c->dims[i]);
    g_string_append(w->text, "\n");
    for (int end = 0; end < 3; end++)
        add_end(w, c, end);
}

static void
add_shares(struct writer *w, const char *key, const double *shares, int count, const char *how)
{
    g_string_append_printf(w->text, "%s =", key);
    for (int i = 0; i < count; i++)
        g_string_append_printf(w->text, "%s %.4g", i ? ";" : "",
                               clamp_to_range("gpu", key, shares[i]));
    g_string_append(w->text, "\n");
    add_source(w, key, how);
}

static void
add_directions(struct writer *w)
{
    static const struct {
        const char *key, *how;
    } rows[MW_CALIBRATION_DIRECTIONS] = {
        [MW_PRODUCT_OF_RESULT] = {"matmul_forward_share",
                                  "y = x W^T beside all three products, half of them added to y"},
        [MW_PRODUCT_OF_INPUT] = {"matmul_input_share", "dx = dy W beside all three products"},
        [MW_PRODUCT_OF_WEIGHTS] = {"matmul_weight_share", "dW = dy^T x beside all three products"},
    };
    const struct mw_calibration *m = w->measured;
    double shares[MW_MATMUL_POINTS_MAX];

    for (int of = 0; of < MW_CALIBRATION_DIRECTIONS; of++) {
        for (int i = 0; i < m->points; i++)
            shares[i] = mw_calibration_direction_share(m, (enum mw_product_of)of, i);
        if (shares[0] > 0)
            add_shares(w, rows[of].key, shares, m->points, rows[of].how);
    }
}

static void
add_heads(struct writer *w)
{
    const struct mw_calibration *m = w->measured;
    double shares[MW_ATTENTION_HEADS];

    for (int backward = 0; backward < 2; backward++) {
        g_autofree char *how =
            g_strdup_printf("%s with heads of 64, 128 and 256 at %d tokens, beside both directions "
                            "with heads of 64",
                            backward ? "backward" : "forward", (int)m->heads_seq);
        for (int i = 0; i < MW_ATTENTION_HEADS; i++)
            shares[i] = mw_calibration_heads_share(m, backward, i);
        if (shares[0] > 0)
            add_shares(w, backward ? "attention_backward_share" : "attention_forward_share", shares,
                       MW_ATTENTION_HEADS, how);
    }
}

static void
add_curves(struct writer *w)
{
    const struct mw_calibration *m = w->measured;
    const struct curve products = {
        .dim = "matmul_dim",
        .keys = {"matmul_tflops_low", "matmul_tflops", "matmul_tflops_high"},
        .how = m->apart ? "squares and oblongs, forward and both gradients, less launch_us"
                        : "squares and oblongs, forward and both gradients",
        .points = m->points,
        .dims = m->dim,
        .rates = m->matmul_flops,
        .contradicts = m->matmul_contradicts};
    const struct curve attention = {
        .dim = "attention_dim",
        .keys = {"attention_tflops_low", "attention_tflops", "attention_tflops_high"},
        .how = m->apart ? "heads of 64, twice forward and backward, less launches and bytes"
                        : "heads of 64, twice forward and backward",
        .points = m->attention_points,
        .dims = m->attention_dim,
        .rates = m->attention_flops,
        .contradicts = m->attention_contradicts};

    add_curve(w, &products);
    add_directions(w);
    add_curve(w, &attention);
    add_heads(w);
}

static double
peak_flops(const struct mw_calibration *m)
{
    double peak = m->layer_flops.high;

    for (int i = 0; i < m->points; i++)
        peak = fmax(peak, m->matmul_flops[i].high);
    for (int i = 0; i < m->attention_points; i++)
        peak = fmax(peak, m->attention_flops[i].high);
    for (int of = 0; of < MW_CALIBRATION_DIRECTIONS; of++)
        for (int i = 0; i < m->points; i++)
            peak = fmax(peak, m->direction_flops[of][i].typical);
    for (int i = 0; i < MW_ATTENTION_HEADS; i++)
        peak =
            fmax(peak, fmax(m->heads_forward_flops[i].typical, m->heads_backward_flops[i].typical));
    return peak;
}

/* Rounded down to whole MiB: never more than there is. */
static double
whole_gib(double bytes)
{
    return floor(bytes / GIB * 1024) / 1024;
}

/* For a device whose arena is in host memory. */
static void
add_shared_memory(struct writer *w)
{
    g_string_append_printf(w->text, "memory_gib = %.10g\n",
                           whole_gib((double)w->measured->memory_bytes / 2 / w->measured->ranks));
    add_source(w, "memory_gib", "half of what processes may take, shared by the ranks: an arena");
    g_string_append(w->text, "reserve_gib = 0\n");
}

static void
add_own_memory(struct writer *w)
{
    const struct mw_calibration *m = w->measured;
    double taken =
        fmax((double)m->device_taken_bytes, 0) + DEVICE_RESERVE * (double)m->device_bytes;

    g_string_append_printf(w->text, "memory_gib = %.10g\n", whole_gib((double)m->device_bytes));
    add_source(w, "memory_gib", "what the driver says");
    g_string_append_printf(w->text, "reserve_gib = %.10g\n", ceil(taken / GIB * 1024) / 1024);
    add_source(w, "reserve_gib",
               "taken while it was measured, by context, libraries and others, and 2% for scratch");
}

/* The simulator scales the rates of 16 bits by the two peaks. */
static void
add_fp32(struct writer *w)
{
    const struct mw_measure *share = &w->measured->fp32_share;

    if (!(share->typical > 0))
        return;
    g_autofree char *few = cli_calibrate_few(share);
    g_autofree char *how = g_strdup_printf(
        "%s%speak_tflops times %.2f, %.2f to %.2f, what products in fp32 reach of those in 16 bits",
        few ? few : "", few ? ": " : "", share->typical, share->low, share->high);
    add_number(w, "fp32_tflops", share->typical * peak_flops(w->measured) * 1e-12, how);
}

/* Letters and digits alone, in lower case, up to the first comma: "NVIDIA GeForce RTX 4090" as
 * "nvidiageforcertx4090". */
static char *
bare_name(const char *name)
{
    GString *bare = g_string_new("");

    for (; *name && *name != ','; name++)
        if (g_ascii_isalnum(*name))
            g_string_append_c(bare, g_ascii_tolower(*name));
    return g_string_free(bare, FALSE);
}

/* The profile that is named like this device, with the longest name; NULL: none is. */
static char *
profile_like(const char *device)
{
    g_auto(GStrv) names = mw_hwprofile_list();
    g_autofree char *bare = bare_name(device);
    const char *best = NULL;

    for (char **name = names; name && *name; name++)
        if (strlen(*name) >= NAME_LEAST && strstr(bare, *name) &&
            (!best || strlen(*name) > strlen(best)))
            best = *name;
    return g_strdup(best);
}

/* MFU is of the datasheet's peak, which no product reaches; where the device is not known, of the
 * fastest that was measured. */
static void
add_peak(struct writer *w)
{
    double measured = ceil(peak_flops(w->measured) * 1e-12 * 1e4) / 1e4;
    g_autofree char *like = w->measured->apart ? profile_like(w->measured->device) : NULL;
    struct mw_profile *profile = like ? mw_hwprofile_load(like, NULL) : NULL;
    double peak =
        profile ? mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL).gpu_peak_flops * 1e-12 : 0;

    mw_profile_free(profile);
    if (peak < measured) {
        add_number(w, "peak_tflops", measured, "the fastest product or attention");
        return;
    }
    g_string_append_printf(
        w->text, "peak_tflops = %.10g\npeak_tflops.source = datasheet: as of %s\n", peak, like);
}

static void
add_gpu(struct writer *w)
{
    add_group(w, "gpu");
    if (w->measured->apart)
        add_own_memory(w);
    else
        add_shared_memory(w);
    add_peak(w);
    add_fp32(w);
    add_curves(w);
    add_figures(w, "gpu");
    if (w->measured->ranks == 1)
        add_number(w, "collective_sm_share", 0, "one rank alone has nothing to collect");
    if (w->measured->apart)
        add_number(w, "host_sm_share", 0, "the host's cores are not the device's");
    g_string_append_printf(w->text, "flash_attention = true\nbf16 = %s\n",
                           w->measured->dtype == MW_DTYPE_FP16 ? "false" : "true");
}

static void
add_host(struct writer *w)
{
    bool apart = w->measured->apart;
    double bytes = (double)w->measured->memory_bytes / (apart ? 1 : 2);

    add_group(w, "host");
    g_string_append_printf(w->text, "memory_gib = %.10g\n", whole_gib(bytes));
    add_source(w, "memory_gib",
               apart ? "what processes may take" : "the other half of what processes may take");
    g_string_append_printf(w->text, "reserve_gib = %.10g\n", whole_gib(bytes * HOST_RESERVE));
    add_figures(w, "host");
}

static void
add_nvme(struct writer *w)
{
    const struct mw_calibration_drives *d = &w->measured->drives;

    add_group(w, "nvme");
    g_string_append_printf(w->text, "drives = %d\n", d->count);
    add_number(w, "capacity_tb", floor((double)d->free_bytes * 1e-8) * 1e-4,
               d->ram ? "free space, on a RAM disk" : "free space");
    g_string_append_printf(w->text, "reserve_tb = %.4g\n",
                           ceil((double)d->free_bytes * NVME_RESERVE * 1e-8) * 1e-4);
    add_figures(w, "nvme");
    if (has_burst(d) && d->cache_bytes > 0)
        add_number(w, "cache_gb", (double)d->cache_bytes * 1e-9,
                   "written until the rate no longer changed");
    g_string_append_printf(w->text, "queue_depth = %d\n", d->depth * d->count * w->measured->ranks);
    add_source(w, "queue_depth", "the smallest of those tried that is as fast as any");
    g_string_append_printf(w->text, "block_kib = %d\n", (int)(d->block_bytes / 1024));
    add_source(w, "block_kib", "with queue_depth");
}

static void
add_profile(struct writer *w)
{
    g_autofree char *machine = mw_machine_name();
    const struct mw_calibration *m = w->measured;

    g_string_append_printf(w->text,
                           "[profile]\ndescription = %s backend, %d rank%s with a team of %d, on "
                           "%s%s%s\nmachine = %s\nbackend = %s\ninstruction_set = %s\n"
                           "date = %s\ncalibrated = %s\n",
                           m->backend, m->ranks, m->ranks == 1 ? "" : "s", m->cores, m->device,
                           m->apart ? "; " : "", machine, machine, m->backend,
                           mw_cpu_isa_name(mw_cpu_isa_used(NULL)), w->day, w->day);
    g_autofree char *disturbed = cli_calibrate_disturbed(m);
    if (disturbed)
        g_string_append_printf(w->text, "disturbed = %s\n", disturbed);
    if (cli_calibrate_rate_left(m) < 1)
        g_string_append_printf(w->text, "rate_left = %.2g\n", cli_calibrate_rate_left(m));
}

/* In the canonical form, which reads back to the same profile. */
static char *
canonical_text(const struct mw_profile *profile)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        g_error("out of memory");
    mw_profile_print(out, profile);
    fclose(out);
    return text;
}

static char *
check(const char *text, GError **error)
{
    struct mw_profile *profile =
        mw_profile_parse(&mw_hwprofile_kind, text, strlen(text), "calibrate", error);
    bool good = profile && mw_hwprofile_calibrated(profile);
    char *whole = good ? canonical_text(profile) : NULL;

    if (profile && !good)
        g_set_error_literal(error, MW_ERROR, MW_ERROR_DEVICE,
                            "calibrate: not every figure that carries time is measured");
    mw_profile_free(profile);
    return whole;
}

char *
cli_calibrate_profile(const struct mw_calibration *measured, GError **error)
{
    struct writer w = {.text = g_string_new(NULL), .measured = measured};
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    g_autofree char *day = g_date_time_format(now, "%Y-%m-%d");

    g_strlcpy(w.day, day, sizeof w.day);
    add_profile(&w);
    add_group(&w, "node");
    g_string_append_printf(w.text, "gpus = %d\n", measured->ranks);
    add_gpu(&w);
    add_group(&w, "pcie");
    add_figures(&w, "pcie");
    add_host(&w);
    add_nvme(&w);
    if (measured->ranks > 1) {
        add_group(&w, "fabric");
        add_figures(&w, "fabric");
    }
    g_autofree char *text = g_string_free(w.text, FALSE);
    return check(text, error);
}
