/*
 * Where steps of a pipeline go on over their ends, no stage waits for another at the end of a step.
 * So the ranks exchange the numbers of a step while they work on the next one, each in a thread of
 * its own, and a step is reported when the next one has ended.  All ranks learn the same numbers at
 * the end of the same step, and so all of them end with it if one wishes that.
 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "exec/trainer/internal.h"

static struct mw_trainer_late *
late_of(struct mw_trainer *trainer, int64_t step)
{
    return &trainer->telling.late[step % (int64_t)G_N_ELEMENTS(trainer->telling.late)];
}

void
mw_trainer_find_told(struct mw_trainer *trainer, double told[MW_TOLD_COUNT])
{
    const struct mw_trainer_options *options = &trainer->options;
    const struct mw_step_numbers *now = &trainer->now;
    int64_t layers = trainer->plan->shape.decoder.layers;
    int wish = options->wish ? options->wish(options->data) : 0;

    memset(told, 0, MW_TOLD_COUNT * sizeof *told);
    told[MW_TOLD_LOSS] = *trainer->loss;
    told[MW_TOLD_SKIPS] = now->skipped;
    for (int64_t i = 0; trainer->router_losses && i < trainer->micro_batches * layers; i++) {
        if (isnan(trainer->router_losses[2 * i])) /* another stage's layer, or one left out */
            continue;
        told[MW_TOLD_ROUTERS]++;
        told[MW_TOLD_ROUTER_AUX] += trainer->router_losses[2 * i];
        told[MW_TOLD_ROUTER_Z] += trainer->router_losses[2 * i + 1];
    }
    for (int64_t i = 0; trainer->expert_loads && i < trainer->micro_batches * layers; i++) {
        told[MW_TOLD_EXPERT_LOADS] += trainer->expert_loads[i];
        told[MW_TOLD_EXPERT_VISITS] += trainer->expert_loads[i] > 0;
    }
    told[MW_TOLD_SQUARES] = now->gradient_norm * now->gradient_norm / trainer->ranks;
    if (wish)
        told[MW_TOLD_WISHES + wish - 1] = 1;
}

int
mw_trainer_wish_of(const double told[MW_TOLD_COUNT])
{
    int wish = MW_TRAINER_WISHES;

    while (wish && !(told[MW_TOLD_WISHES + wish - 1] > 0))
        wish--;
    return wish;
}

/* --- telling ---------------------------------------------------------------------------------- */

static gpointer
tell(gpointer data)
{
    struct mw_trainer_telling *it = data;

    it->good = mw_ranks_all_reduce_fp64(it->trainer->options.ranks, 0, it->told, MW_TOLD_COUNT,
                                        &it->error);
    return NULL;
}

/* The report of a step is whole when all ranks' numbers are there.  If the gradient of one stage
 * was not finite, no update of the others mends that. */
static void
complete(const struct mw_trainer *trainer, const double *told, struct mw_trainer_step *report)
{
    int64_t tokens = trainer->tokens * trainer->micro_batches * trainer->ranks;

    report->loss = told[MW_TOLD_LOSS] / (double)tokens;
    report->gradient_norm = sqrt(told[MW_TOLD_SQUARES]);
    report->skipped = told[MW_TOLD_SKIPS] > 0;
    report->skipped_in_row = report->skipped;
    report->diverged = report->skipped || !isfinite(report->loss);
}

/* Waits until all ranks have told of the step before, if there was one. */
static bool
hear(struct mw_trainer *trainer, int *wish, GError **error)
{
    struct mw_trainer_telling *it = &trainer->telling;

    *wish = 0;
    if (!it->thread)
        return true;
    g_thread_join(g_steal_pointer(&it->thread));
    if (!it->good) {
        g_propagate_error(error, g_steal_pointer(&it->error));
        return false;
    }
    complete(trainer, it->told, &late_of(trainer, it->ended - 1)->report);
    *wish = mw_trainer_wish_of(it->told);
    return true;
}

bool
mw_trainer_tell_late(struct mw_trainer *trainer, int *wish, GError **error)
{
    struct mw_trainer_telling *it = &trainer->telling;
    const struct mw_step_numbers *now = &trainer->now;

    if (!hear(trainer, wish, error))
        return false;
    late_of(trainer, now->step)->report = (struct mw_trainer_step){
        .step = now->step,
        .learning_rate = now->learning_rate,
        .loss_scale = now->loss_scale,
    };
    it->trainer = trainer;
    it->ended = now->step + 1;
    mw_trainer_find_told(trainer, it->told);
    it->thread = g_thread_try_new("told", tell, it, error);
    return it->thread != NULL;
}

/* --- reports ---------------------------------------------------------------------------------- */

static bool
report(struct mw_trainer *trainer, int64_t step, GError **error)
{
    struct mw_trainer_late *late = late_of(trainer, step);
    struct mw_timeline timeline = {late->rows, late->row_count};

    late->report.plan = trainer->plan;
    late->report.timeline = &timeline;
    late->report.let_in_ns = late->let_in_ns;
    return (!trainer->on_step || trainer->on_step(trainer->on_step_data, &late->report, error)) &&
           mw_trainer_check_course(trainer, &late->report, error);
}

bool
mw_trainer_report_late(struct mw_trainer *trainer, int64_t step, const struct mw_timeline *timeline,
                       GError **error)
{
    struct mw_trainer_late *late = late_of(trainer, step);

    late->rows = g_renew(struct mw_timeline_row, late->rows, timeline->row_count);
    memcpy(late->rows, timeline->rows, timeline->row_count * sizeof *late->rows);
    late->row_count = timeline->row_count;
    late->let_in_ns =
        mw_lanes_let_in_ns(trainer->variant->lanes, (uint32_t)(step - trainer->telling.first));
    return step == trainer->telling.first || report(trainer, step - 1, error);
}

bool
mw_trainer_report_last(struct mw_trainer *trainer, bool good, GError **error)
{
    int wish;

    if (!trainer->telling.thread)
        return good;
    return hear(trainer, &wish, good ? error : NULL) && good &&
           report(trainer, trainer->telling.ended - 1, error);
}

void
mw_trainer_free_late(struct mw_trainer *trainer)
{
    for (size_t i = 0; i < G_N_ELEMENTS(trainer->telling.late); i++)
        g_free(trainer->telling.late[i].rows);
}
