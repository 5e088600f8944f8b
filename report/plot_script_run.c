#include <math.h>

#include "report/format.h"
#include "report/plot_script.h"
#include "report/report.h"
#include "report/table.h"

static void
append_title(GString *script, const struct mw_run *run)
{
    g_autofree char *subject = mw_table_subject(run->predicted, "");
    double error = mw_pair_error(run->compare->step);
    g_autofree char *title = g_strdup_printf(
        "%s: step %s predicted, %s measured (%s%s)", subject,
        mw_format_seconds(run->compare->step.predicted_s),
        mw_format_seconds(run->compare->step.measured_s), error >= 0 ? "+" : "",
        mw_format_percent(error));

    mw_plot_append_title(script, title);
}

static void
append_panel(GString *script, const char *name, double top, double bottom)
{
    g_string_append_printf(script,
                           "set tmargin at screen %s\nset bmargin at screen %s\n"
                           "set ylabel '%s' offset 1,0\n",
                           mw_format_fixed(top, 2), mw_format_fixed(bottom, 2), name);
}

char *
mw_plot_script_run(const struct mw_run *run, const struct mw_plot_data *predicted,
                   const struct mw_plot_data *measured, const char *output, bool svg)
{
    GString *script = g_string_new(NULL);

    mw_plot_append_terminal(script, output, svg);
    mw_plot_append_phases(script, predicted, "p");
    mw_plot_append_phases(script, measured, "m");
    append_title(script, run);
    mw_plot_append_axis(script, fmax(predicted->span_s, measured->span_s));
    g_string_append(script, "set format x ''\n"
                            "set key at graph 1,1.02 right bottom horizontal samplen 1.5\n"
                            "set style fill solid 1.0 noborder\n");
    append_panel(script, "predicted", 0.89, 0.51);
    mw_plot_append_lanes(script, predicted, "p", true);
    g_string_append(script, "set format x\nset xlabel time_label\n");
    append_panel(script, "measured", 0.47, 0.09);
    mw_plot_append_lanes(script, measured, "m", false);
    g_string_append(script, "\nunset multiplot\nunset output\n");
    return g_string_free(script, FALSE);
}
