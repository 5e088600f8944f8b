#include <math.h>

#include "base/format.h"
#include "report/plot_script.h"
#include "report/report.h"
#include "report/table.h"

/* Pixels.  Two panels share a picture of the usual height.  With more panels each is lower and the
 * picture is higher, up to what every terminal can draw. */
#define HEAD 88
#define FOOT 72
#define GAP 32
#define PANEL_OF_MANY 200
#define HEIGHT_MAX 30000

static void
append_title(GString *script, const struct mw_run *run)
{
    g_autofree char *subject = mw_table_subject(run->predicted, "");
    double error = mw_pair_error(run->compare->step);
    g_autofree char *title = g_strdup_printf("%s: step %s predicted, %s measured (%s%s)", subject,
                                             mw_format_seconds(run->compare->step.predicted_s),
                                             mw_format_seconds(run->compare->step.measured_s),
                                             error >= 0 ? "+" : "", mw_format_percent(error));

    mw_plot_append_title(script, title);
}

struct panels {
    int count, height;
    double panel_height;
};

static struct panels
lay_out(int count)
{
    int others = HEAD + FOOT + GAP * (count - 1);
    int height = count > 2 ? MIN(others + PANEL_OF_MANY * count, HEIGHT_MAX) : MW_PLOT_HEIGHT;

    return (struct panels){count, height, (double)(height - others) / count};
}

/* Panels count from the top; the last one has the axis. */
static void
append_panel(GString *script, const struct panels *panels, int index, const char *name)
{
    double top = panels->height - HEAD - index * (panels->panel_height + GAP);

    if (index == panels->count - 1)
        g_string_append(script, "set format x\nset xlabel time_label\n");
    g_string_append_printf(script,
                           "set tmargin at screen %s\nset bmargin at screen %s\n"
                           "set ylabel '%s' offset 1,0\n",
                           mw_format_fixed(top / panels->height, 5),
                           mw_format_fixed((top - panels->panel_height) / panels->height, 5), name);
}

/* Rank 0's measurement is part of the run's. */
static const struct mw_timeline *
measured_by(const struct mw_measured *measured, uint32_t rank)
{
    return rank ? &measured->ranks[rank - 1].timeline : &mw_measured_typical(measured)->timeline;
}

/* Prefix of a timeline's data blocks: p, m0, m1, ... */
static char *
prefix_of(int panel)
{
    return panel ? g_strdup_printf("m%d", panel - 1) : g_strdup("p");
}

static char *
name_of(const struct panels *panels, int panel)
{
    if (!panel)
        return g_strdup("predicted");
    return panels->count > 2 ? g_strdup_printf("measured: rank %d", panel - 1)
                             : g_strdup("measured");
}

static void
append_panels(GString *script, const struct panels *panels, const struct mw_plot_data *data)
{
    uint32_t keyed = 0;

    g_string_append(script, "set format x ''\n"
                            "set key at graph 1,1.02 right bottom horizontal samplen 1.5\n"
                            "set style fill solid 1.0 noborder\n");
    for (int i = 0; i < panels->count; i++) {
        g_autofree char *name = name_of(panels, i), *prefix = prefix_of(i);
        append_panel(script, panels, i, name);
        mw_plot_append_lanes(script, &data[i], prefix, &keyed);
    }
}

char *
mw_plot_script_run(const struct mw_run *run, const char *output, bool svg)
{
    const struct mw_plan *plan = run->predicted->plan;
    struct panels panels = lay_out(2 + (int)run->measured->rank_count);
    g_autofree struct mw_plot_data *data = g_new(struct mw_plot_data, panels.count);
    GString *script = g_string_new(NULL);
    double span_s = 0;

    mw_plot_append_terminal(script, panels.height, output, svg);
    for (int i = 0; i < panels.count; i++) {
        g_autofree char *prefix = prefix_of(i);
        mw_plot_data_init(&data[i], plan,
                          i ? measured_by(run->measured, i - 1) : run->predicted->timeline);
        mw_plot_append_phases(script, &data[i], prefix);
        span_s = fmax(span_s, data[i].span_s);
    }
    append_title(script, run);
    mw_plot_append_axis(script, span_s);
    append_panels(script, &panels, data);
    g_string_append(script, "\nunset multiplot\nunset output\n");
    for (int i = 0; i < panels.count; i++)
        mw_plot_data_clear(&data[i]);
    return g_string_free(script, FALSE);
}
