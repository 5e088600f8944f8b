#include "report/plot_script.h"

#include <math.h>
#include <string.h>

#include "base/format.h"
#include "report/report.h"
#include "report/table.h"

/* Colours that differ in lightness too (after Okabe and Ito, for colour-blind readers). */
static const char *const phase_colors[MW_PHASE_COUNT] = {
    [MW_PHASE_FORWARD] = "#56b4e9",  [MW_PHASE_RECOMPUTE] = "#009e73",
    [MW_PHASE_BACKWARD] = "#e69f00", [MW_PHASE_OPTIMIZER] = "#cc79a7",
    [MW_PHASE_COMMIT] = "#444444",
};
static const char *const tier_colors[MW_TIER_COUNT] = {
    [MW_TIER_GPU] = "#0072b2",
    [MW_TIER_CPU] = "#d55e00",
    [MW_TIER_NVME] = "#444444",
};

/* gnuplot takes a single-quoted string as it is, but reads a doubled quote at its beginning as its
 * end.  A text with a quote is double-quoted instead, with a code for all that could mean more. */
void
mw_plot_append_quoted(GString *script, const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    bool coded = strchr(valid, '\'') != NULL;
    char mark = coded ? '"' : '\'';

    g_string_append_c(script, mark);
    for (const char *c = valid; *c; c++)
        if ((unsigned char)*c < 0x20)
            g_string_append_c(script, ' ');
        else if (coded && (g_ascii_ispunct(*c) || g_ascii_isdigit(*c))) /* \0751 is one code */
            g_string_append_printf(script, "\\%03o", (unsigned)*c);
        else
            g_string_append_c(script, *c);
    g_string_append_c(script, mark);
}

void
mw_plot_append_terminal(GString *script, int height, const char *output, bool svg)
{
    if (svg)
        g_string_append_printf(script,
                               "set terminal svg size 1400,%d font 'sans,14' noenhanced "
                               "background '#ffffff'\n",
                               height);
    else
        g_string_append_printf(script,
                               "if (strstrt(GPVAL_TERMINALS, ' pngcairo ')) "
                               "set terminal pngcairo size 1400,%d font 'sans,12' noenhanced; "
                               "else set terminal png size 1400,%d medium noenhanced\n",
                               height, height);
    g_string_append(script, "set output ");
    mw_plot_append_quoted(script, output);
    g_string_append_c(script, '\n');
}

void
mw_plot_append_phases(GString *script, const struct mw_plot_data *data, const char *prefix)
{
    for (int i = 0; i < MW_PHASE_COUNT; i++)
        if (data->boxes[i]->len)
            g_string_append_printf(script, "$%sphase%d << EOD\n%sEOD\n", prefix, i,
                                   data->boxes[i]->str);
}

static void
append_memory_blocks(GString *script, const struct mw_plot_data *data)
{
    for (int i = 0; i < MW_TIER_COUNT; i++)
        if (data->memory[i]->len)
            g_string_append_printf(script, "$tier%d << EOD\n%sEOD\n", i, data->memory[i]->str);
}

void
mw_plot_append_title(GString *script, const char *title)
{
    g_string_append(script, "set title ");
    mw_plot_append_quoted(script, title);
    g_string_append(script, " font ',16' offset 0,1.4\n");
}

static void
append_subject(GString *script, const struct mw_result *r)
{
    g_autofree char *subject = mw_table_subject(r, "");
    GString *title = g_string_new(subject);

    if (r->simulated && isfinite(r->step_time_s[1]))
        g_string_append_printf(title, ": step %s", mw_format_seconds(r->step_time_s[1]));
    if (r->simulated && isfinite(r->tflops_per_gpu[1]))
        g_string_append_printf(title, ", %s TFLOP/s per GPU",
                               mw_format_significant(r->tflops_per_gpu[1]));
    mw_plot_append_title(script, title->str);
    g_string_free(title, TRUE);
}

/* The time axis, in a unit that gives numbers of one to three digits. */
static double
time_unit(double span_s, const char **name)
{
    *name = span_s >= 1 ? "s" : span_s >= 1e-3 ? "ms" : "us";
    return span_s >= 1 ? 1 : span_s >= 1e-3 ? 1e3 : 1e6;
}

void
mw_plot_append_axis(GString *script, double span_s)
{
    const char *unit;
    double scale = time_unit(span_s, &unit);

    g_string_append_printf(
        script,
        "set multiplot\n"
        "set lmargin at screen 0.09\nset rmargin at screen 0.98\n"
        "set border 3 lc rgb '#666666'\n"
        "set tics nomirror out textcolor rgb '#222222'\n"
        "set grid xtics lc rgb '#dddddd' lt 1\n"
        "set xrange [0:%s]\nscale = %s\ntime_label = 'time within the step (%s)'\n",
        mw_format_exact(span_s * scale), mw_format_exact(scale), unit);
}

void
mw_plot_append_lanes(GString *script, const struct mw_plot_data *data, const char *prefix,
                     uint32_t *keyed)
{
    const char *separator = "plot ";

    g_string_append_printf(script, "set yrange [-0.6:%s]\nset ytics (%s) scale 0\n",
                           mw_format_fixed(data->lanes - 0.4, 1), data->lane_ticks->str);
    if (data->bars)
        g_string_append(script, "set label 1 'height: share of the time that the lane is busy' "
                                "at graph 0,1.045 left\n");
    for (int i = 0; i < MW_PHASE_COUNT; i++) {
        if (!data->boxes[i]->len)
            continue;
        g_string_append_printf(script,
                               "%s$%sphase%d using ($1*scale):2:($3*scale):($4*scale):5:6 "
                               "with boxxyerror lc rgb '%s' %s",
                               separator, prefix, i, phase_colors[i],
                               *keyed >> i & 1 ? "notitle" : "title ");
        if (!(*keyed >> i & 1))
            mw_plot_append_quoted(script, mw_phase_name(i));
        *keyed |= 1u << i;
        separator = ", \\\n     ";
    }
    g_string_append(script, "\nunset title\nunset label\n");
}

static void
append_upper_panel(GString *script, const struct mw_plot_data *data)
{
    uint32_t keyed = 0;

    g_string_append(script, "set tmargin at screen 0.89\nset bmargin at screen 0.42\n"
                            "set format x ''\n"
                            "set key at graph 1,1.02 right bottom horizontal samplen 1.5\n"
                            "set style fill solid 1.0 noborder\n");
    mw_plot_append_lanes(script, data, "", &keyed);
}

static void
append_memory(GString *script, const struct mw_plot_data *data, const struct mw_result *result)
{
    g_string_append_printf(script,
                           "set tmargin at screen 0.35\nset bmargin at screen 0.09\n"
                           "set yrange [0:%s]\nset ytics 0,20 scale 1\nset format x\n"
                           "set grid xtics ytics lc rgb '#dddddd' lt 1\n"
                           "set ylabel \"memory in use\\n(%% of usable)\" offset -1,0\n"
                           "set key maxrows 1 width -2\n"
                           "set xlabel time_label\n"
                           "plot 100 with lines dt 2 lw 1.5 lc rgb '#999999' notitle",
                           mw_format_fixed(MAX(data->memory_percent_max * 1.05, 108), 1));
    for (int i = 0; i < MW_TIER_COUNT; i++)
        if (data->memory[i]->len)
            g_string_append_printf(script,
                                   ", \\\n     $tier%d using ($1*scale):2 with steps lw 2 "
                                   "lc rgb '%s' title '%s: slots %s of %s'",
                                   i, tier_colors[i], mw_tier_name(i),
                                   mw_format_gib(result->tiers[i].peak_bytes),
                                   mw_format_gib(result->tiers[i].capacity_bytes));
    g_string_append(script, "\nunset multiplot\nunset output\n");
}

char *
mw_plot_script(const struct mw_result *result, const struct mw_plot_data *data, const char *output,
               bool svg)
{
    GString *script = g_string_new(NULL);

    mw_plot_append_terminal(script, MW_PLOT_HEIGHT, output, svg);
    mw_plot_append_phases(script, data, "");
    append_memory_blocks(script, data);
    append_subject(script, result);
    mw_plot_append_axis(script, data->span_s);
    append_upper_panel(script, data);
    append_memory(script, data, result);
    return g_string_free(script, FALSE);
}
