/* Prints the measured figures, as a table and as JSON. */
#include <math.h>

#include "cli/calibration/figures.h"
#include "cli/calibration/profile.h"
#include "exec/device/cpu/kernels.h"
#include "report/wrap.h"

static void
print_row(FILE *out, const char *label, const char *unit, const struct mw_measure *m)
{
    fprintf(out, "%-29s %9.4g %9.4g %9.4g %-7s %5.1f%%  ", label, m->low, m->typical, m->high, unit,
            100 * mw_measure_spread(m));
    if (m->samples < m->wished)
        fprintf(out, "%d/%d\n", m->samples, m->wished);
    else
        fprintf(out, "%d\n", m->samples);
}

static struct mw_measure
scaled(const struct mw_measure *m, double factor)
{
    return (struct mw_measure){m->low * factor, m->typical * factor, m->high * factor,
                               m->samples,      m->wished,           m->waited};
}

static void
print_rate(FILE *out, const char *label, const struct mw_measure *flops)
{
    struct mw_measure m = scaled(flops, 1e-12);

    print_row(out, label, "TFLOP/s", &m);
}

/* A size that was left out borrows the figures of others, so it has no row; the lines below the
 * table say why. */
static void
print_curve(FILE *out, char *(*name)(double), int points, const double *dims,
            const struct mw_measure *flops)
{
    for (int i = 0; i < points; i++) {
        g_autofree char *label = name(dims[i]);
        if (flops[i].samples)
            print_rate(out, label, &flops[i]);
    }
}

static void
print_curves(FILE *out, const struct mw_calibration *measured)
{
    print_curve(out, cli_product_name, measured->points, measured->dim, measured->matmul_flops);
    for (int of = 0; of < MW_CALIBRATION_DIRECTIONS; of++) {
        struct mw_measure m = cli_direction_share(measured, (enum mw_product_of)of);
        if (m.typical > 0)
            print_row(out, cli_direction_names[of], "share", &m);
    }
    print_curve(out, cli_attention_name, measured->attention_points, measured->attention_dim,
                measured->attention_flops);
    for (int i = 0; i < 2 * MW_ATTENTION_HEADS; i++) {
        bool backward = i % 2;
        const struct mw_measure *m =
            &(backward ? measured->heads_backward_flops : measured->heads_forward_flops)[i / 2];
        g_autofree char *label = cli_heads_name(backward, i / 2);
        if (m->samples)
            print_rate(out, label, m);
    }
}

static void
print_collectives(FILE *out, const struct mw_calibration *measured)
{
    for (int kind = 0; kind < MW_CALIBRATION_COLLECTIVES; kind++)
        for (int i = 0; i < measured->messages; i++) {
            struct mw_measure m = measured->collective_bytes_per_s[kind][i];
            if (!m.samples)
                continue;
            g_autofree char *label = g_strdup_printf("%s of %g KiB", cli_collective_names[kind],
                                                     (double)measured->message_bytes[i] / 1024);
            m = scaled(&m, 1e-9);
            print_row(out, label, "GB/s", &m);
        }
}

static void
json_collectives(struct mw_json_writer *json, const struct mw_calibration *measured)
{
    if (!measured->messages)
        return;
    mw_json_begin(json, "collectives", '[', false);
    for (int kind = 0; kind < MW_CALIBRATION_COLLECTIVES; kind++)
        for (int i = 0; i < measured->messages; i++) {
            const struct mw_measure *m = &measured->collective_bytes_per_s[kind][i];
            mw_json_begin(json, NULL, '{', true);
            mw_json_string(json, "collective", cli_collective_names[kind]);
            mw_json_integer(json, "bytes", measured->message_bytes[i]);
            mw_json_number(json, "gb_per_s", m->typical * 1e-9);
            mw_json_number(json, "gb_per_s_low", m->low * 1e-9);
            mw_json_number(json, "gb_per_s_high", m->high * 1e-9);
            mw_json_integer(json, "samples", m->samples);
            mw_json_end(json, '}');
        }
    mw_json_end(json, ']');
}

/* DeepSpeed's keys; the queue depth is per drive. */
static void
print_aio(struct mw_json_writer *json, const struct mw_calibration_drives *drives)
{
    mw_json_begin(json, "aio", '{', false);
    mw_json_integer(json, "block_size", drives->block_bytes);
    mw_json_integer(json, "queue_depth", drives->depth);
    mw_json_integer(json, "intra_op_parallelism", 1);
    mw_json_integer(json, "thread_count", 1);
    mw_json_boolean(json, "single_submit", false);
    mw_json_boolean(json, "overlap_events", true);
    mw_json_end(json, '}');
}

/* NULL: there are no names.  g_free it. */
static char *
joined_names(GPtrArray *names)
{
    g_ptr_array_add(names, NULL);
    return names->len > 1 ? g_strjoinv(", ", (char **)names->pdata) : NULL;
}

/* A waiting time above this share of the budget is mentioned. */
#define OPENED_PART 0.25

static void
print_left_out(FILE *out, const struct mw_calibration *measured)
{
    g_autoptr(GPtrArray) all = cli_calibrate_left_out_shortly(measured);
    g_autofree char *names = joined_names(all);

    fprintf(out, "took %.0f of %.0f s", measured->took_s, measured->budget_s);
    if (measured->opened_s > OPENED_PART * measured->budget_s)
        fprintf(out, ", %.0f s of them until the system had given it memory and the drives' file",
                measured->opened_s);
    fprintf(out, "\n");
    if (names)
        mw_wrap_line(out, 2, "left out for lack of time: %s; a longer --budget measures more",
                     names);
}

static void
print_contradictions(FILE *out, const struct mw_calibration *measured)
{
    const struct mw_calibration_disturbances *d = &measured->disturbances;
    g_autoptr(GPtrArray) out_of_it = cli_calibrate_contradicting(measured);
    g_autofree char *names = joined_names(out_of_it);

    if (d->samples_again || d->sizes_again)
        fprintf(out, "contradicted the others and measured again: %d samples, %d sizes\n",
                d->samples_again, d->sizes_again);
    if (names)
        mw_wrap_line(out, 2, "left out, for it still contradicts other sizes: %s", names);
}

static void
print_disturbed(FILE *out, const struct mw_calibration *measured)
{
    g_autofree char *what = cli_calibrate_disturbed(measured);

    if (what)
        mw_wrap_line(out, 2, "marked as disturbed while it was measured: %s", what);
}

/* Some systems do not report stolen time; then nothing is printed. */
static void
print_steal(FILE *out, const struct mw_calibration_steal *steal)
{
    if (steal->again)
        mw_wrap_line(out, 2,
                     "the hypervisor took time from the cores: %d of %d series of samples were "
                     "measured again; %d still lost time, and have wider ranges",
                     steal->again, steal->samples, steal->kept);
}

void
cli_calibrate_table(FILE *out, const struct mw_calibration *measured)
{
    struct mw_json_writer json = {.out = out};

    if (measured->apart)
        fprintf(out, "%s backend on %s\n", measured->backend, measured->device);
    if (measured->dtype == MW_DTYPE_FP16)
        fprintf(out, "in fp16\n");
    if (measured->direct_storage)
        fprintf(out, "GPU-direct storage: %s; runs do not use it\n", measured->direct_storage);
    fprintf(out, "%-29s %9s %9s %9s %-7s %6s  %s\n", "measured", "10%", "median", "90%", "unit",
            "spread", "n");
    print_curves(out, measured);
    for (int i = 0; i < cli_figure_count; i++) {
        struct mw_measure m = cli_figure_of(&cli_figures[i], measured);
        if (cli_figures[i].label && m.samples > 0)
            print_row(out, cli_figures[i].label, cli_figures[i].unit, &m);
    }
    print_collectives(out, measured);
    fprintf(
        out,
        "share: of the rate when alone, 1 is all of it; n: samples taken, of those requested\n");
    if (measured->collectives_by[0])
        fprintf(out, "collectives by %s\n", measured->collectives_by);
    print_left_out(out, measured);
    print_contradictions(out, measured);
    print_steal(out, &measured->steal);
    print_disturbed(out, measured);
    fprintf(out, "\nfor a ds_config.json:\n");
    mw_json_begin(&json, NULL, '{', false);
    print_aio(&json, &measured->drives);
    mw_json_end(&json, '}');
}

static void
json_measure(struct mw_json_writer *json, const char *group, const char *key,
             const struct mw_measure *m, double scale)
{
    g_autofree char *name = g_strdup_printf("%s.%s", group, key);

    mw_json_begin(json, name, '{', true);
    mw_json_number(json, "low", m->low * scale);
    mw_json_number(json, "typical", m->typical * scale);
    mw_json_number(json, "high", m->high * scale);
    mw_json_integer(json, "samples", m->samples);
    mw_json_integer(json, "wished", m->wished);
    mw_json_end(json, '}');
}

static void
json_curve(struct mw_json_writer *json, const char *key, int points, const double *dims,
           const struct mw_measure *flops)
{
    mw_json_begin(json, key, '[', false);
    for (int i = 0; i < points; i++) {
        mw_json_begin(json, NULL, '{', true);
        mw_json_number(json, "dim", dims[i]);
        mw_json_number(json, "tflops", flops[i].typical * 1e-12);
        mw_json_number(json, "tflops_low", flops[i].low * 1e-12);
        mw_json_number(json, "tflops_high", flops[i].high * 1e-12);
        mw_json_integer(json, "samples", flops[i].samples);
        mw_json_end(json, '}');
    }
    mw_json_end(json, ']');
}

static void
json_disturbances(struct mw_json_writer *json, const struct mw_calibration *measured)
{
    const struct mw_calibration_disturbances *d = &measured->disturbances;
    g_autoptr(GPtrArray) out_of_it = cli_calibrate_contradicting(measured);
    g_autofree char *what = cli_calibrate_disturbed(measured);

    mw_json_begin(json, "disturbances", '{', false);
    mw_json_number(json, "cores_had", measured->cores_had);
    mw_json_integer(json, "samples", d->samples);
    mw_json_integer(json, "waited", d->waited);
    mw_json_integer(json, "samples_again", d->samples_again);
    mw_json_integer(json, "sizes_again", d->sizes_again);
    mw_json_begin(json, "contradicting", '[', true);
    for (guint i = 0; i < out_of_it->len; i++)
        mw_json_string(json, NULL, out_of_it->pdata[i]);
    mw_json_end(json, ']');
    mw_json_string(json, "marked", what);
    mw_json_end(json, '}');
}

/* null: there was no time to measure it. */
static void
json_drift(struct mw_json_writer *json, const struct mw_calibration_drift *drift)
{
    mw_json_begin(json, "drift", '{', true);
    mw_json_number(json, "products", drift->products > 0 ? drift->products : NAN);
    mw_json_number(json, "updates", drift->updates > 0 ? drift->updates : NAN);
    mw_json_end(json, '}');
}

/* The course of the calibration. */
static void
json_course(struct mw_json_writer *json, const struct mw_calibration *measured)
{
    g_autoptr(GPtrArray) left_out = cli_calibrate_left_out(measured);
    const struct mw_calibration_steal *steal = &measured->steal;

    mw_json_number(json, "budget_s", measured->budget_s);
    mw_json_number(json, "took_s", measured->took_s);
    mw_json_begin(json, "left_out", '[', true);
    for (guint i = 0; i < left_out->len; i++)
        mw_json_string(json, NULL, left_out->pdata[i]);
    mw_json_end(json, ']');
    mw_json_begin(json, "steal", '{', true);
    mw_json_boolean(json, "told", steal->told);
    mw_json_integer(json, "series", steal->samples);
    mw_json_integer(json, "again", steal->again);
    mw_json_integer(json, "kept", steal->kept);
    mw_json_end(json, '}');
    json_disturbances(json, measured);
    json_drift(json, &measured->drift);
}

static void
json_directions(struct mw_json_writer *json, const struct mw_calibration *measured)
{
    static const char *const names[MW_CALIBRATION_DIRECTIONS] = {
        [MW_PRODUCT_OF_RESULT] = "matmul_forward_share",
        [MW_PRODUCT_OF_INPUT] = "matmul_input_share",
        [MW_PRODUCT_OF_WEIGHTS] = "matmul_weight_share",
    };

    for (int of = 0; of < MW_CALIBRATION_DIRECTIONS; of++) {
        mw_json_begin(json, names[of], '[', true);
        for (int i = 0; i < measured->points; i++)
            mw_json_number(json, NULL,
                           mw_calibration_direction_share(measured, (enum mw_product_of)of, i));
        mw_json_end(json, ']');
    }
}

static void
json_heads(struct mw_json_writer *json, const struct mw_calibration *measured)
{
    for (int backward = 0; backward < 2 && measured->heads_seq; backward++) {
        mw_json_begin(json, backward ? "attention_backward_share" : "attention_forward_share", '[',
                      true);
        for (int i = 0; i < MW_ATTENTION_HEADS; i++)
            mw_json_number(json, NULL, mw_calibration_heads_share(measured, backward, i));
        mw_json_end(json, ']');
    }
}

void
cli_calibrate_json(struct mw_json_writer *json, const struct mw_calibration *measured)
{
    mw_json_string(json, "backend", measured->backend);
    mw_json_string(json, "instruction_set", mw_cpu_isa_name(mw_cpu_isa_used(NULL)));
    mw_json_string(json, "dtype", mw_dtype_name(measured->dtype));
    if (measured->apart)
        mw_json_string(json, "device", measured->device);
    if (measured->direct_storage)
        mw_json_string(json, "direct_storage", measured->direct_storage);
    json_curve(json, "matmul", measured->points, measured->dim, measured->matmul_flops);
    json_directions(json, measured);
    json_curve(json, "attention", measured->attention_points, measured->attention_dim,
               measured->attention_flops);
    json_heads(json, measured);
    for (int i = 0; i < cli_figure_count; i++) {
        struct mw_measure m = cli_figure_of(&cli_figures[i], measured);
        if (m.samples > 0 || m.wished > 0)
            json_measure(json, cli_figures[i].group, cli_figures[i].key, &m, 1);
    }
    json_collectives(json, measured);
    mw_json_string(json, "collectives_by", measured->collectives_by);
    print_aio(json, &measured->drives);
    json_course(json, measured);
}
