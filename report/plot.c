#include "report/plot_data.h"
#include "report/plot_run.h"
#include "report/plot_script.h"
#include "report/report.h"
#include "report/run.h"
#include "study/lanes.h"

/* What to draw: an answer, or a run. */
struct picture {
    const struct mw_result *result;
    const struct mw_run *run; /* NULL: only the answer */
};

static char *
script_of(const void *drawn, const char *output, bool svg)
{
    const struct picture *picture = drawn;
    struct mw_plot_data data;

    if (picture->run)
        return mw_plot_script_run(picture->run, output, svg);
    mw_plot_data_init(&data, picture->result->plan, picture->result->timeline);
    char *script = mw_plot_script(picture->result, &data, output, svg);
    mw_plot_data_clear(&data);
    return script;
}

static bool
plot(const char *path, const struct picture *picture, GError **error)
{
    bool svg;

    return mw_plot_format(path, &svg, error) &&
           mw_lane_has_timeline(picture->result, path, error) &&
           mw_plot_draw(path, script_of, picture, error);
}

bool
mw_plot_write(const char *path, const struct mw_result *result, GError **error)
{
    return plot(path, &(struct picture){result, NULL}, error);
}

bool
mw_plot_run_write(const char *path, const struct mw_run *run, GError **error)
{
    return plot(path, &(struct picture){run->predicted, run}, error);
}
