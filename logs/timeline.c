/* What run saves of its steps (report/measured.h): when each op ran.  Of lanes it says how long
 * compute ran, and how long compute waited for the others. */
#include "logs/formats.h"
#include "logs/lines.h"
#include "plan/plan.h"
#include "plan/reader.h"
#include "report/measured.h"
#include "study/lanes.h"

bool
mw_log_is_timeline(const struct mw_log_text *in)
{
    return g_str_has_prefix(in->text, MW_PLAN_TEXT_BEGIN);
}

static void
add_lanes(struct mw_log_builder *builder, const struct mw_plan *plan,
          const struct mw_timeline *timeline)
{
    struct mw_result *uses = mw_result_new();

    mw_summary_lanes(plan, timeline, uses);
    for (size_t i = 0; i < uses->lane_count; i++) {
        const struct mw_result_lane *lane = &uses->lanes[i];
        mw_log_add_lane(builder, lane->name, lane->busy_s, lane->exposed_s);
    }
    mw_result_free(uses);
}

bool
mw_log_read_timeline(const struct mw_log_text *in, struct mw_log *out, GError **error)
{
    struct mw_plan *plan = NULL;
    g_autofree char *machine = NULL;
    uint32_t count = 0;
    struct mw_measured *measured =
        mw_measured_parse(in->text, in->length, in->path, &plan, &machine, error);
    if (!measured)
        return false;
    struct mw_log_builder *builder = mw_log_builder_new(in, out->format, MW_GATE_STEP_TIME);
    const struct mw_measured_step *steps = mw_measured_steps(measured, &count);

    mw_log_builder_steps(builder)->first_apart = measured->count > 0;
    for (uint32_t i = 0; i < count; i++)
        if (mw_log_add_step(builder, 0, steps[i].step + 1, (double)steps[i].time_ns * 1e-9, NULL))
            add_lanes(builder, plan, &steps[i].timeline);
    bool good = mw_log_builder_end(builder, NULL, "it has no step", out, error);
    mw_measured_free(measured);
    mw_plan_free(plan);
    return good;
}
