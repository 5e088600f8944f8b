#include "cli/run/begin.h"

#include <math.h>

#include "base/format.h"
#include "exec/device/backend.h"
#include "report/table.h"
#include "study/set_result.h"

/* "2 sequences of 256 tokens per GPU in each of 4 micro-batches, 8 in all per step" */
static char *
batch_text(const struct mw_result *r)
{
    g_autofree char *in_each =
        r->grad_accum > 1
            ? g_strdup_printf(" in each of %" G_GINT64_FORMAT " micro-batches", r->grad_accum)
            : g_strdup("");
    g_autofree char *share = mw_table_batch_share(r);
    double sequences = r->micro_batch * (double)mw_result_sharers(r);

    return g_strdup_printf("%s sequence%s of %" G_GINT64_FORMAT
                           " tokens per %s%s, %s in all per step%s",
                           mw_format_batch(sequences), sequences > 1 ? "s" : "", r->seq, share,
                           in_each, mw_format_batch(r->global_batch),
                           isnan(r->default_step_tokens) ? "" : " (--batch N sets another)");
}

/* Seconds that saves take in steps [first, last): every K-th step is saved, and the last one
 * (exec/trainer/trainer.h). */
static double
saves_s(const struct mw_answer *answer, int64_t first, int64_t last)
{
    int64_t every = answer->plan->shape.save_every;

    if (every <= 0 || last <= first)
        return 0;
    return (double)(last / every - first / every + (last % every != 0)) *
           (answer->sizing ? mw_save_s(answer->sizing) : 0);
}

/* Steps before --dpu-start have a predicted time of their own. */
static char *
time_text(const struct cli_training *training, int64_t first, int64_t last)
{
    const struct mw_result *r = training->answer->result;
    double step_s = r->step_time_s[MW_OUTLOOK_TYPICAL], all_s = (double)(last - first) * step_s;
    int64_t undelayed = CLAMP(r->dpu_start - first, 0, last - first);

    if (r->undelayed_step_time_s > 0)
        all_s += (double)undelayed * (r->undelayed_step_time_s - step_s);
    all_s += saves_s(training->answer, first, last);
    return g_strdup_printf("predicted for profile %s: %s per step, %s in all", r->hardware,
                           mw_format_seconds(step_s),
                           all_s < 60 ? mw_format_seconds(all_s) : mw_format_duration(all_s));
}

char *
cli_run_begin_text(const struct cli_training *training)
{
    const struct mw_result *r = training->answer->result;
    int64_t first = mw_trainer_next_step(training->trainer), last = training->options.steps;
    bool computes = training->options.backend != &mw_backend_null;
    g_autofree char *batch = batch_text(r);
    g_autofree char *time =
        computes ? time_text(training, first, last) : g_strdup("nothing is computed");

    return g_strdup_printf("steps %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
                           " of model %s with %s: %s; parameters %s, gradients %s, optimizer %s, "
                           "checkpoints %s; %s",
                           first + 1, last, r->model, r->strategy, batch, r->param_device,
                           r->gradient_device, r->optimizer_device, r->activation_device, time);
}
