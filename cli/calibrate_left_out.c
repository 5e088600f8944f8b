/* What the budget had no time for, and what the hypervisor took, in words. */
#include "cli/calibrate_profile.h"

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

static void
add_points(GPtrArray *all, const char *what, int points, const double *dims,
           const struct mw_measure *rates)
{
    for (int i = 0; i < points; i++)
        if (!rates[i].samples)
            g_ptr_array_add(all, g_strdup_printf("%s of %.4g", what, dims[i]));
}

static void
add_layer(GPtrArray *all, const struct mw_calibration *m)
{
    if (m->layer_rows < m->layer_rows_wished || m->layer_columns < m->layer_columns_wished)
        g_ptr_array_add(all, g_strdup_printf("a layer of more than %d tokens by %d",
                                             (int)m->layer_rows, (int)m->layer_columns));
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
        g_ptr_array_add(all, g_strdup_printf("drives: all but %.0f of a file of %.0f MiB",
                                             (double)d->region_bytes / MIB,
                                             (double)d->file_bytes / MIB));
}

GPtrArray *
cli_calibrate_left_out(const struct mw_calibration *m)
{
    GPtrArray *all = g_ptr_array_new_with_free_func(g_free);

    add_points(all, "matrix products", m->points, m->dim, m->matmul_flops);
    add_points(all, "attention", m->attention_points, m->attention_dim, m->attention_flops);
    add_layer(all, m);
    add_drives(all, &m->drives);
    return all;
}
