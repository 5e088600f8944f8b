/*
 * bench_checks [--smoke] [--model NAME] [--seq N] [--pairs N] DIRECTORY...: what it costs to check
 * all that drives read and write.  Steps of a model whose whole state is on drives, by two trainers
 * in turn, one of which takes what it reads as it comes; first one, then the other begins a pair.
 *
 * Prints the median step of each, and of the pairs' ratios the median with its 95% interval.  The
 * model is small beside its tokens' state, so that drives set the pace: the share of the step in
 * which one was busy says whether they did.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/decoder.h"
#include "exec/trainer.h"
#include "planner/planner.h"

static gboolean smoke;
static char *model_name;
static gint64 seq = 32, pairs = 30;
static char **directories;

static const GOptionEntry entries[] = {
    {"smoke", 0, 0, G_OPTION_ARG_NONE, &smoke, NULL, NULL},
    {"model", 0, 0, G_OPTION_ARG_STRING, &model_name, NULL, NULL},
    {"seq", 0, 0, G_OPTION_ARG_INT64, &seq, NULL, NULL},
    {"pairs", 0, 0, G_OPTION_ARG_INT64, &pairs, NULL, NULL},
    {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &directories, NULL, NULL},
    G_OPTION_ENTRY_NULL,
};

enum { CHECKED, UNCHECKED, TRAINERS };

struct bench {
    struct mw_model model;
    struct mw_decoder decoder;
    struct mw_plan *plan;
    struct mw_trainer *trainers[TRAINERS];
    int64_t moved_bytes, drives_ns; /* of the last step: in which ops of the drives' lanes ran */
};

static void
die(const GError *error)
{
    fprintf(stderr, "bench_checks: %s\n", error->message);
    exit(1);
}

/* --- the plan -------------------------------------------------------------------------------- */

static struct mw_settings
ask(void)
{
    struct mw_settings settings;

    mw_settings_init(&settings);
    settings.strategy = MW_STRATEGY_ZERO_INFINITY_NVME;
    settings.gpus_per_node = 1;
    settings.micro_batch = 1;
    settings.seq = seq;
    settings.grad_accum = 1;
    settings.checkpoint_interval = 1;
    settings.dtype = MW_DTYPE_BF16;
    settings.commit = 0;
    for (int state = 0; state <= MW_STATE_ACTIVATIONS; state++)
        if (!mw_placement_parse("nvme", NULL, &settings.placement[state], NULL))
            g_error("placement");
    return settings;
}

static void
make_plan(struct bench *b)
{
    struct mw_hwprofile *profile = mw_hwprofile_load("rtx4090", NULL);
    struct mw_settings asked = ask(), resolved;
    GError *error = NULL;

    if (!profile)
        g_error("no profile rtx4090");
    struct mw_hardware hardware = mw_hwprofile_read(profile, MW_OUTLOOK_TYPICAL);
    struct mw_request request = {&b->model, &hardware};
    if (!mw_settings_resolve(&request, &asked, &resolved, &error))
        die(error);
    GPtrArray *candidates = mw_planner_candidates(&request, &resolved, &error);
    if (!candidates)
        die(error);
    b->plan = mw_build_plan(candidates->pdata[0]);
    g_ptr_array_unref(candidates);
    mw_hwprofile_free(profile);
}

/* --- the run --------------------------------------------------------------------------------- */

static bool
batch(void *data, int64_t step, int64_t micro_batch, int32_t *ids, int32_t *targets, GError **error)
{
    const struct bench *b = data;
    int64_t at = 7919 * (step + 1);

    for (int64_t i = 0; i < seq; i++) {
        ids[i] = (int32_t)(at % b->decoder.vocab);
        at = at * 48271 % 2147483647;
        targets[i] = (int32_t)(at % b->decoder.vocab);
    }
    return true;
}

static double
learning_rate(void *data, int64_t step)
{
    return 1e-4;
}

static struct mw_trainer *
start(struct bench *b, int which)
{
    GError *error = NULL;
    struct mw_trainer_options options = {
        .plan = b->plan,
        .decoder = &b->decoder,
        .backend = &mw_backend_cpu,
        .sequences = 1,
        .seq = seq,
        .checkpoint_interval = 1,
        .optimizer = {0.9, 0.95, 1e-8, 0.1, 1},
        .drives = {.directories = (const char *const *)directories,
                   .directory_count = (int)g_strv_length(directories),
                   .stem = which == CHECKED ? "bench-checked" : "bench-unchecked"},
        .unchecked = which == UNCHECKED,
        .seed = 1,
        .batch = batch,
        .learning_rate = learning_rate,
        .data = b,
    };
    struct mw_trainer *trainer = mw_trainer_new(&options, &error);

    if (!trainer)
        die(error);
    return trainer;
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
        const struct mw_work *work = &b->plan->works[b->plan->ops[row->op].work];
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
    GError *error = NULL;
    int64_t begin = g_get_monotonic_time();

    if (!mw_trainer_run(b->trainers[which], 1, on_step, b, &error))
        die(error);
    return (double)(g_get_monotonic_time() - begin) / 1e6;
}

/* --- the answer ------------------------------------------------------------------------------ */

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static double
median(double *x, int64_t count)
{
    qsort(x, (size_t)count, sizeof *x, compare);
    return (x[(count - 1) / 2] + x[count / 2]) / 2;
}

/* Between the two order statistics that a median lies between in 95 of 100 cases: half of count,
 * 0.98 standard deviations of 2 to either side. */
static void
print_ratios(double *ratios, int64_t count)
{
    double middle = 100 * (median(ratios, count) - 1);
    int64_t low = MAX(0, (int64_t)floor((double)count / 2 - 0.98 * sqrt((double)count)) - 1);

    printf("checked against unchecked: %+.2f%% (%+.2f%% .. %+.2f%%), median of %d pairs\n", middle,
           100 * (ratios[low] - 1), 100 * (ratios[count - 1 - low] - 1), (int)count);
}

static void
measure(struct bench *b)
{
    g_autofree double *ratios = g_new(double, pairs), *busy = g_new(double, pairs);
    g_autofree double *all_seconds = g_new(double, TRAINERS * pairs);
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
           100 * median(busy, pairs));
    printf("step: %.3f s checked, %.3f s not\n", median(seconds[CHECKED], pairs),
           median(seconds[UNCHECKED], pairs));
    print_ratios(ratios, pairs);
}

static void
shrink(struct bench *b)
{
    b->decoder.layers = b->model.layers = 2;
    b->decoder.hidden = b->model.hidden = b->model.embedding_dim = 48;
    b->decoder.heads = b->decoder.kv_heads = b->model.heads = b->model.kv_heads = 4;
    b->decoder.head_dim = b->model.head_dim = b->model.value_dim = 12;
    b->decoder.ffn = b->model.ffn = 192;
    b->decoder.vocab = b->model.vocab = 501;
}

int
main(int argc, char **argv)
{
    g_autoptr(GOptionContext) context = g_option_context_new("DIRECTORY...");
    struct bench b = {0};
    GError *error = NULL;

    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error))
        die(error);
    if (!directories || pairs < 2) {
        fprintf(stderr, "bench_checks: wants a directory on the drive, and at least 2 pairs\n");
        return 2;
    }
    const char *name = model_name ? model_name : "gpt2";
    if (!mw_model_load(name, &b.model, &error) ||
        !mw_decoder_read(&b.model, name, &b.decoder, &error))
        die(error);
    if (smoke)
        shrink(&b);
    make_plan(&b);
    for (int i = 0; i < TRAINERS; i++) {
        b.trainers[i] = start(&b, i);
        run_step(&b, i);
    }
    measure(&b);
    for (int i = 0; i < TRAINERS; i++)
        mw_trainer_free(b.trainers[i]);
    mw_plan_free(b.plan);
    g_strfreev(directories);
    return 0;
}
