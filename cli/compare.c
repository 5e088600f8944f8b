#include "cli/compare.h"

#include <math.h>
#include <string.h>

#include "base/format.h"
#include "exec/device/backend.h"
#include "report/wrap.h"
#include "study/evaluate.h"

/* FLOPs divided by the rate of matrix products: the estimate that a prediction must beat. */
static double
naive_s(const struct mw_plan *plan, const struct mw_hardware *hardware)
{
    double flops = 0;

    for (uint32_t i = 0; i < plan->op_count; i++)
        flops += (double)plan->works[plan->ops[i].work].flops * (double)mw_plan_op_rounds(plan, i);
    return flops > 0 ? flops / mw_layers_flops(plan, hardware) : NAN;
}

static void
print_brief(const struct mw_run *run)
{
    const struct mw_pair *step = &run->compare->step;
    const struct mw_result *r = run->predicted;

    if (run->facts && !strcmp(run->facts->backend, mw_backend_null.name))
        printf("nothing computed: step %s (median), no op running for %s of it, %s per op\n",
               mw_format_seconds(step->measured_s), mw_format_seconds(run->compare->idle_s),
               mw_format_seconds(run->compare->idle_s / (double)mw_plan_unfolded_ops(r->plan)));
    else
        mw_wrap_line(stdout, 2, "step %s measured (median), %s predicted for profile %s%s: %+.1f%%",
                     mw_format_seconds(step->measured_s), mw_format_seconds(step->predicted_s),
                     r->hardware, r->calibrated ? "" : " (not calibrated)",
                     100 * mw_pair_error(*step));
    g_autofree char *faster = mw_run_faster_text(run);
    if (faster)
        mw_wrap_line(stdout, 2, "%s", faster);
}

static bool
write_files(const struct cli_request *request, const struct mw_run *run, GError **error)
{
    if (request->trace && !mw_trace_run_write(request->trace, run, error))
        return false;
    return !request->plot || mw_plot_run_write(request->plot, run, error);
}

bool
cli_compare_report(const struct cli_request *request, const struct cli_measured *it, bool brief,
                   GError **error)
{
    double naive = naive_s(it->predicted->plan, &request->question.hardware[MW_OUTLOOK_TYPICAL]);
    struct mw_compare *compare = mw_compare_new(it->predicted, it->measured, naive);
    const struct mw_run run = {it->predicted, it->measured, compare, it->facts, it->machine};

    if (request->json)
        mw_json_run_write(stdout, &run);
    else if (brief)
        print_brief(&run);
    else
        mw_table_run(stdout, &run);
    bool done = write_files(request, &run, error);
    mw_compare_free(compare);
    return done;
}
