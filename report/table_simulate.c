#include <math.h>

#include "base/format.h"
#include "report/grid.h"
#include "report/report.h"
#include "report/table.h"

/* Lanes and channels that are always idle are left out here, not in the JSON. */
static void
print_lanes(FILE *out, const struct mw_result *r)
{
    double step = mw_result_shown_step_s(r);
    struct mw_grid *grid = mw_grid_new("lrrlrr");

    mw_table_heading(out, "Lanes (exposed: compute waits for it)");
    mw_grid_row(grid, "lane", "busy", "of step", "", "exposed", "of step", NULL);
    for (size_t i = 0; i < r->lane_count; i++) {
        const struct mw_result_lane *lane = &r->lanes[i];
        if (lane->busy_s > 0)
            mw_grid_row(grid, lane->name, mw_format_seconds(lane->busy_s),
                        mw_table_share(lane->busy_s, step), mw_grid_bar(lane->busy_s / step, 20),
                        mw_format_seconds(lane->exposed_s), mw_table_share(lane->exposed_s, step),
                        NULL);
    }
    mw_grid_print(grid, out, 2);
}

static void
print_channels(FILE *out, const struct mw_result *r)
{
    double step = mw_result_shown_step_s(r);
    struct mw_grid *grid = mw_grid_new("lrrl");

    mw_table_heading(out, "Channels (shared capacity in use)");
    mw_grid_row(grid, "channel", "in use", "of step", NULL);
    for (size_t i = 0; i < r->channel_count; i++)
        if (r->channels[i].busy_s > 0)
            mw_grid_row(grid, r->channels[i].name, mw_format_seconds(r->channels[i].busy_s),
                        mw_table_share(r->channels[i].busy_s, step),
                        mw_grid_bar(r->channels[i].busy_s / step, 20), NULL);
    mw_grid_print(grid, out, 2);
}

/* Of a cycle of steps that leave out layers: what is shown besides is of the first. */
static void
print_variants(FILE *out, const struct mw_result *r)
{
    struct mw_grid *grid = mw_grid_new("rr");

    mw_table_heading(out, "Steps of the cycle (lanes, channels and phases are of the first)");
    mw_grid_row(grid, "step", "takes", NULL);
    for (size_t v = 0; v < r->variant_count; v++) {
        g_autofree char *number = g_strdup_printf("%zu", v);
        mw_grid_row(grid, number, mw_format_seconds(r->variant_step_time_s[v]), NULL);
    }
    mw_grid_print(grid, out, 2);
}

static void
print_phases(FILE *out, const struct mw_result *r)
{
    struct mw_grid *grid = mw_grid_new("lrrr");

    mw_table_heading(out, "Phases");
    mw_grid_row(grid, "phase", "from", "to", "takes", NULL);
    for (size_t i = 0; i < r->phase_count; i++) {
        const struct mw_result_phase *phase = &r->phases[i];
        mw_grid_row(grid, phase->name, mw_format_seconds(phase->start_s),
                    mw_format_seconds(phase->end_s),
                    mw_format_seconds(phase->end_s - phase->start_s), NULL);
    }
    mw_grid_print(grid, out, 2);
}

static void
print_what_ifs(FILE *out, const struct mw_result *r)
{
    struct mw_grid *grid = mw_grid_new("lrrr");

    mw_table_heading(out, "What if one figure were different");
    mw_grid_row(grid, "figure", "times", "step", "speed", NULL);
    for (size_t i = 0; i < r->what_if_count; i++) {
        const struct mw_result_what_if *what = &r->what_ifs[i];
        g_autofree char *gain =
            g_strdup_printf("%sx", mw_format_significant(r->step_time_s[1] / what->step_time_s));
        mw_grid_row(grid, what->what, mw_format_count(what->factor),
                    mw_format_seconds(what->step_time_s), gain, NULL);
    }
    mw_grid_print(grid, out, 2);
}

/* "12.3 GB/s"; a bandwidth that is not finite is not enough by itself. */
static char *
rate_text(double bytes_per_s)
{
    return isfinite(bytes_per_s) ? g_strdup_printf("%s/s", mw_format_bytes(bytes_per_s))
                                 : g_strdup("out of reach");
}

static void
print_needs(FILE *out, const struct mw_result *r)
{
    struct mw_grid *grid = mw_grid_new("lrrr");

    mw_table_heading(out, "Bandwidth needed, with the rest as it is");
    mw_grid_row(grid, "rate", "efficiency", "needed", "present", NULL);
    for (size_t i = 0; i < r->need_count; i++) {
        const struct mw_result_need *need = &r->needs[i];
        g_autofree char *needed = rate_text(need->bytes_per_s);
        g_autofree char *present = rate_text(need->present_bytes_per_s);
        mw_grid_row(grid, need->what, mw_format_percent(need->efficiency), needed, present, NULL);
    }
    mw_grid_print(grid, out, 2);
}

static void
print_terms(FILE *out, const struct mw_result *r)
{
    struct mw_grid *grid = mw_grid_new("lrr");

    mw_table_heading(out, "Terms in which the closed forms differ");
    mw_grid_row(grid, "term", "paper", "plan", NULL);
    for (size_t i = 0; i < r->term_count; i++)
        mw_grid_row(grid, r->terms[i].what, mw_format_seconds(r->terms[i].paper_s),
                    mw_format_seconds(r->terms[i].plan_s), NULL);
    mw_grid_print(grid, out, 2);
}

static void
print_details(FILE *out, const struct mw_result *r)
{
    if (r->lane_count)
        print_lanes(out, r);
    if (r->channel_count)
        print_channels(out, r);
    if (r->phase_count)
        print_phases(out, r);
    if (r->variant_count)
        print_variants(out, r);
    mw_table_stages(out, r);
    if (r->term_count)
        print_terms(out, r);
}

void
mw_table_simulate(FILE *out, const struct mw_result *result, bool details)
{
    mw_table_verdict_body(out, result, details);
    if (!result->simulated)
        return;
    if (details)
        print_details(out, result);
    if (result->what_if_count)
        print_what_ifs(out, result);
    if (result->need_count)
        print_needs(out, result);
    if (details || result->what_if_count || result->need_count)
        fputc('\n', out);
    mw_table_last_lines(out, result);
}
