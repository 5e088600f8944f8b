/*
 * bench_checks [--smoke] [--model NAME] [--seq N] [--pairs N] [--steady GB/s] DIRECTORY...: what it
 * costs to check all that drives read and write.  Steps of a model whose whole state is on drives,
 * by two trainers in turn, one of which does not check what it reads; they take turns to begin a
 * pair.
 *
 * Prints the median step of each, and of the pairs' ratios the median with its 95% interval.  The
 * model is small, so that drives set the pace: the share of the step in which a drive was busy
 * shows whether they did.  --steady uses a drive made of memory instead, with one rate each way:
 * drives of a host that others share may differ by more from step to step than checks cost.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench.h"
#include "tests/bench_trainer.h"
#include "tests/steady_drive.h"

static gboolean smoke;
static char *model_name;
static gint64 seq = 32, pairs = 30;
static double steady_gb_per_s;
static char **directories;

static const GOptionEntry entries[] = {
    {"smoke", 0, 0, G_OPTION_ARG_NONE, &smoke, NULL, NULL},
    {"model", 0, 0, G_OPTION_ARG_STRING, &model_name, NULL, NULL},
    {"seq", 0, 0, G_OPTION_ARG_INT64, &seq, NULL, NULL},
    {"pairs", 0, 0, G_OPTION_ARG_INT64, &pairs, NULL, NULL},
    {"steady", 0, 0, G_OPTION_ARG_DOUBLE, &steady_gb_per_s, NULL, NULL},
    {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &directories, NULL, NULL},
    G_OPTION_ENTRY_NULL,
};

enum { CHECKED, UNCHECKED, TRAINERS };

struct bench {
    struct bench_model of;
    struct mw_trainer *trainers[TRAINERS];
    struct steady_drive *drives[TRAINERS]; /* NULL: the system's */
    int64_t moved_bytes, drives_ns; /* of the last step: in which ops of the drives' lanes ran */
};

static struct mw_settings
ask(const struct bench *b)
{
    struct mw_settings settings = bench_settings(&b->of);

    settings.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    settings.checkpoint_interval = 1;
    for (int state = 0; state <= MW_STATE_ACTIVATIONS; state++)
        if (!mw_placement_parse("nvme", NULL, &settings.placement[state], NULL))
            g_error("placement");
    return settings;
}

/* --- the run --------------------------------------------------------------------------------- */

static struct mw_trainer *
start(struct bench *b, int which)
{
    struct mw_trainer_options options = bench_trainer_options(&b->of);

    options.drives =
        (struct mw_nvme_options){.directories = (const char *const *)directories,
                                 .directory_count = (int)g_strv_length(directories),
                                 .stem = which == CHECKED ? "bench-checked" : "bench-unchecked"};
    options.unchecked = which == UNCHECKED;
    if (steady_gb_per_s > 0) {
        b->drives[which] = steady_drive_new(1e9 * steady_gb_per_s);
        options.drives.calls = steady_drive_calls(b->drives[which]);
    }
    return bench_trainer_new(&options);
}

/* Rows of a lane do not overlap; those of reads and of writes may: the longer of the two. */
static bool
on_step(void *data, const struct mw_trainer_step *step, GError **error)
{
    struct bench *b = data;
    int64_t busy_ns[2] = {0, 0};

    b->moved_bytes = 0;
    for (size_t i = 0; i < step->timeline->row_count; i++) {
        const struct mw_timeline_row *row = &step->timeline->rows[i];
        const struct mw_work *work = &b->of.plan->works[b->of.plan->ops[row->op].work];
        if (work->kind != MW_OP_NVME_READ && work->kind != MW_OP_NVME_WRITE)
            continue;
        busy_ns[work->kind == MW_OP_NVME_WRITE] += row->end_ns - row->start_ns;
        b->moved_bytes += work->bytes;
    }
    b->drives_ns = MAX(busy_ns[0], busy_ns[1]);
    return true;
}

static double
run_step(struct bench *b, int which)
{
    return bench_trainer_step(b->trainers[which], on_step, b);
}

/* --- the answer ------------------------------------------------------------------------------ */

/* Between the two order statistics that a median lies between in 95 of 100 cases: half of count,
 * 0.98 standard deviations of 2 to either side. */
static void
print_ratios(double *ratios, int64_t count)
{
    double middle = 100 * (bench_median(ratios, count) - 1);
    int64_t low = MAX(0, (int64_t)floor((double)count / 2 - 0.98 * sqrt((double)count)) - 1);

    printf("checked against unchecked: %+.2f%% (%+.2f%% .. %+.2f%%), median of %d pairs\n", middle,
           100 * (ratios[low] - 1), 100 * (ratios[count - 1 - low] - 1), (int)count);
}

static void
measure(struct bench *b)
{
    g_autofree double *ratios = g_new(double, pairs), *busy = g_new(double, pairs);
    g_autofree double *all_seconds = g_new(double, TRAINERS *pairs);
    double *seconds[TRAINERS] = {all_seconds, all_seconds + pairs};

    for (int64_t p = 0; p < pairs; p++) {
        for (int i = 0; i < TRAINERS; i++) {
            int which = (int)((p + i) % TRAINERS);
            seconds[which][p] = run_step(b, which);
            if (which == CHECKED)
                busy[p] = 1e-9 * (double)b->drives_ns / seconds[which][p];
        }
        ratios[p] = seconds[CHECKED][p] / seconds[UNCHECKED][p];
        fprintf(stderr, "pair %d of %d: %.3f s checked, %.3f s not\n", (int)p + 1, (int)pairs,
                seconds[CHECKED][p], seconds[UNCHECKED][p]);
    }
    printf("%s, %d tokens: %.2f GB moved a step, a drive's lane busy for %.0f%% of it\n",
           model_name ? model_name : "gpt2", (int)seq, (double)b->moved_bytes / 1e9,
           100 * bench_median(busy, pairs));
    printf("step: %.3f s checked, %.3f s not\n", bench_median(seconds[CHECKED], pairs),
           bench_median(seconds[UNCHECKED], pairs));
    print_ratios(ratios, pairs);
}

int
main(int argc, char **argv)
{
    g_autoptr(GOptionContext) context = g_option_context_new("DIRECTORY...");
    struct bench b = {0};
    GError *error = NULL;

    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error))
        bench_die(error);
    if (!directories || pairs < 2) {
        fprintf(stderr, "bench_checks: wants a directory on the drive, and at least 2 pairs\n");
        return 2;
    }
    b.of.sequences = 1;
    b.of.seq = seq;
    bench_model_load(&b.of, model_name ? model_name : "gpt2");
    if (smoke)
        bench_model_shrink(&b.of);
    struct mw_settings asked = ask(&b);
    bench_make_plan(&b.of, &asked);
    for (int i = 0; i < TRAINERS; i++) {
        b.trainers[i] = start(&b, i);
        run_step(&b, i);
    }
    measure(&b);
    for (int i = 0; i < TRAINERS; i++) {
        mw_trainer_free(b.trainers[i]);
        steady_drive_free(b.drives[i]);
    }
    mw_variants_free(b.of.variants);
    g_strfreev(directories);
    return 0;
}
