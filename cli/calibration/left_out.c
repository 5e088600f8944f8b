/* Says in words what was left out for lack of time, and what disturbed the measurement. */
#include <stdarg.h>

#include "cli/calibration/figures.h"
#include "cli/calibration/profile.h"

#define MIB 1048576.0

char *
cli_calibrate_few(const struct mw_measure *measure)
{
    if (!measure->samples)
        return g_strdup("left out");
    if (measure->samples >= measure->wished)
        return NULL;
    return g_strdup_printf("%d of %d samples", measure->samples, measure->wished);
}

/* Adds the points that contradict others, or those that do not. */
static void
add_points(GPtrArray *all, char *(*name)(double), int points, const double *dims,
           const struct mw_measure *rates, const bool *contradict, bool wanted)
{
    for (int i = 0; i < points; i++)
        if (!rates[i].samples && contradict[i] == wanted)
            g_ptr_array_add(all, name(dims[i]));
}

static void
add_layer(GPtrArray *all, const struct mw_calibration *m)
{
    if (m->layer_flops.samples &&
        (m->layer_rows < m->layer_rows_wished || m->layer_columns < m->layer_columns_wished))
        g_ptr_array_add(all, g_strdup_printf("a layer of more than %d tokens by %d",
                                             (int)m->layer_rows, (int)m->layer_columns));
}

static void
add_memory(GPtrArray *all, const struct mw_calibration *m)
{
    if (m->arena_bytes < m->arena_bytes_wished)
        g_ptr_array_add(all, g_strdup_printf("operands in all but %.0f MiB of %.0f MiB of memory",
                                             (double)m->arena_bytes / MIB,
                                             (double)m->arena_bytes_wished / MIB));
}

/* Adds figures that were not measured at all. */
static void
add_figures(GPtrArray *all, const struct mw_calibration *m)
{
    for (int i = 0; i < cli_figure_count; i++) {
        struct mw_measure figure = cli_figure_of(&cli_figures[i], m);
        if (cli_figures[i].label && !figure.samples && figure.wished)
            g_ptr_array_add(all, g_strdup(cli_figures[i].label));
    }
}

static void
add_drives(GPtrArray *all, const struct mw_calibration_drives *d)
{
    if (d->settings_tried < d->settings)
        g_ptr_array_add(all, g_strdup_printf("drives: %d of %d settings of block and depth",
                                             d->settings - d->settings_tried, d->settings));
    if (d->request_bytes < d->request_bytes_wished)
        g_ptr_array_add(all, g_strdup_printf("drives: requests longer than %g MiB",
                                             (double)d->request_bytes / MIB));
    if (d->region_bytes < d->file_bytes)
        g_ptr_array_add(all, g_strdup_printf("drives: all but %.0f MiB of a file of %.0f MiB",
                                             (double)d->region_bytes / MIB,
                                             (double)d->file_bytes / MIB));
}

static void
add_messages(GPtrArray *all, const struct mw_calibration *m, bool wanted)
{
    for (int kind = 0; kind < MW_CALIBRATION_COLLECTIVES; kind++)
        for (int i = 0; i < m->messages; i++)
            if (!m->collective_bytes_per_s[kind][i].samples &&
                m->collective_contradicts[kind][i] == wanted)
                g_ptr_array_add(all, g_strdup_printf("%s of %g KiB", cli_collective_names[kind],
                                                     (double)m->message_bytes[i] / 1024));
}

static void
add_drift(GPtrArray *all, const struct mw_calibration_drift *drift)
{
    if (!(drift->products > 0))
        g_ptr_array_add(all, g_strdup("the first products again at the end"));
    if (!(drift->updates > 0))
        g_ptr_array_add(all, g_strdup("the first updates again at the end"));
}

static GPtrArray *
curve_points(const struct mw_calibration *m, bool contradicting)
{
    GPtrArray *all = g_ptr_array_new_with_free_func(g_free);

    add_points(all, cli_product_name, m->points, m->dim, m->matmul_flops, m->matmul_contradicts,
               contradicting);
    add_points(all, cli_attention_name, m->attention_points, m->attention_dim, m->attention_flops,
               m->attention_contradicts, contradicting);
    add_messages(all, m, contradicting);
    return all;
}

GPtrArray *
cli_calibrate_contradicting(const struct mw_calibration *m)
{
    return curve_points(m, true);
}

static void
add_comparisons(GPtrArray *all, const struct mw_calibration *m)
{
    if (!(mw_calibration_direction_share(m, MW_PRODUCT_OF_RESULT, 0) > 0))
        g_ptr_array_add(all, g_strdup("products by direction"));
    if (!m->heads_seq)
        g_ptr_array_add(all, g_strdup("attention by the size of heads"));
}

GPtrArray *
cli_calibrate_left_out(const struct mw_calibration *m)
{
    GPtrArray *all = curve_points(m, false);

    add_comparisons(all, m);
    add_layer(all, m);
    add_figures(all, m);
    add_memory(all, m);
    add_drives(all, &m->drives);
    add_drift(all, &m->drift);
    return all;
}

/* Sizes of a curve that were left out: a single one by its name, several by their number. */
static void
add_count(GPtrArray *all, const char *what, char *(*name)(double), int points, const double *dims,
          const struct mw_measure *rates, const bool *contradict)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    add_points(names, name, points, dims, rates, contradict, false);
    if (names->len == 1)
        g_ptr_array_add(all, g_strdup(names->pdata[0]));
    else if (names->len)
        g_ptr_array_add(all, g_strdup_printf("%u of %d %s", names->len, points, what));
}

static void
add_message_count(GPtrArray *all, const struct mw_calibration *m)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    add_messages(names, m, false);
    if (names->len)
        g_ptr_array_add(all, g_strdup_printf("%u of %d messages of collectives", names->len,
                                             MW_CALIBRATION_COLLECTIVES * m->messages));
}

GPtrArray *
cli_calibrate_left_out_shortly(const struct mw_calibration *m)
{
    GPtrArray *all = g_ptr_array_new_with_free_func(g_free);

    add_count(all, "sizes of matrix products", cli_product_name, m->points, m->dim, m->matmul_flops,
              m->matmul_contradicts);
    add_count(all, "lengths of attention", cli_attention_name, m->attention_points,
              m->attention_dim, m->attention_flops, m->attention_contradicts);
    add_message_count(all, m);
    add_comparisons(all, m);
    add_layer(all, m);
    add_figures(all, m);
    add_memory(all, m);
    add_drives(all, &m->drives);
    add_drift(all, &m->drift);
    return all;
}

/* --- disturbances ---------------------------------------------------------------------------- */

#define MARKED_PART 10 /* on a quiet machine too, one sample in this many may be disturbed */

static void append(GString *text, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void
append(GString *text, const char *format, ...)
{
    va_list arguments;

    g_string_append(text, text->len ? ", " : "");
    va_start(arguments, format);
    g_string_append_vprintf(text, format, arguments);
    va_end(arguments);
}

char *
cli_calibrate_disturbed(const struct mw_calibration *m)
{
    const struct mw_calibration_disturbances *d = &m->disturbances;
    GString *text = g_string_new(NULL);

    if (m->cores_had > 0 && m->cores_had <= MW_CALIBRATION_QUIET)
        append(text, "products had %.0f%% of its cores", 100 * m->cores_had);
    if (d->waited > d->samples / MARKED_PART)
        append(text, "threads waited for cores in %d of %d samples", d->waited, d->samples);
    if (m->steal.kept > m->steal.samples / MARKED_PART)
        append(text, "the hypervisor took time from %d of %d series of samples", m->steal.kept,
               m->steal.samples);
    if (mw_calibrate_has_drifted(m->drift.products))
        append(text, "products ran at %.0f%% of their first rate at the end",
               100 * m->drift.products);
    if (mw_calibrate_has_drifted(m->drift.updates))
        append(text, "updates ran at %.0f%% of their first rate at the end",
               100 * m->drift.updates);
    if (d->sizes_out)
        append(text, "%d size%s contradicted others", d->sizes_out, d->sizes_out == 1 ? "" : "s");
    return g_string_free(text, !text->len);
}

double
cli_calibrate_rate_left(const struct mw_calibration *m)
{
    double left = 1;

    if (mw_calibrate_has_drifted(m->drift.products))
        left = MIN(left, m->drift.products);
    if (mw_calibrate_has_drifted(m->drift.updates))
        left = MIN(left, m->drift.updates);
    return left;
}
