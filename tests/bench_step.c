/*
 * bench_step [--smoke | --serve | --products] [--sequences N] [--seq N] [--interval N]
 *            [--rounds N] [--strategy NAME] [--model MODEL]: training steps of GPT-2 124M, or of
 * another model, by a plan with all state in the device's memory (or where the strategy has it, but
 * on no drives), on all cores.
 *
 * Without a mode: the median step, and each operator's share of it.  --serve: a step for each line
 * of the input, reported as a line "SECONDS name=MILLISECONDS ...": a peer can be timed in turn.
 * --products: the matrix products inside steps beside bare calls of the library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench.h"
#include "tests/bench_step.h"
#include "tests/bench_trainer.h"

#define ROWS (MW_OPERATOR_COUNT * MW_PHASE_COUNT)

static gboolean smoke, serve, products;
static char *strategy, *model = (char[]){"gpt2"};
static gint64 sequences = 2, seq = 1024, interval, rounds = 5;

static const GOptionEntry entries[] = {
    {"smoke", 0, 0, G_OPTION_ARG_NONE, &smoke, NULL, NULL},
    {"serve", 0, 0, G_OPTION_ARG_NONE, &serve, NULL, NULL},
    {"products", 0, 0, G_OPTION_ARG_NONE, &products, NULL, NULL},
    {"sequences", 0, 0, G_OPTION_ARG_INT64, &sequences, NULL, NULL},
    {"seq", 0, 0, G_OPTION_ARG_INT64, &seq, NULL, NULL},
    {"interval", 0, 0, G_OPTION_ARG_INT64, &interval, NULL, NULL},
    {"rounds", 0, 0, G_OPTION_ARG_INT64, &rounds, NULL, NULL},
    {"strategy", 0, 0, G_OPTION_ARG_STRING, &strategy, NULL, NULL},
    {"model", 0, 0, G_OPTION_ARG_STRING, &model, NULL, NULL},
    G_OPTION_ENTRY_NULL,
};

struct bench {
    struct bench_model of;
    struct mw_trainer *trainer;
    double step_ms;      /* of the last step */
    double row_ms[ROWS]; /* operator and phase */
    double waiting_ms;   /* the compute lane had nothing to do */
};

/* --- the plan -------------------------------------------------------------------------------- */

static struct mw_settings
ask(const struct bench *b)
{
    struct mw_settings settings = bench_settings(&b->of);
    GError *error = NULL;

    if (!mw_strategy_parse(strategy ? strategy : "zero3", &settings.strategy, &error))
        bench_die(error);
    settings.checkpoint_interval = interval;
    return settings;
}

/* --- the run --------------------------------------------------------------------------------- */

static int
by_start(const void *a, const void *b)
{
    const struct mw_timeline_row *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static bool
on_step(void *data, const struct mw_trainer_step *step, GError **error)
{
    struct bench *b = data;
    size_t count = step->timeline->row_count;
    g_autofree struct mw_timeline_row *rows = g_memdup2(step->timeline->rows, count * sizeof *rows);
    int64_t end = 0;

    qsort(rows, count, sizeof *rows, by_start);
    memset(b->row_ms, 0, sizeof b->row_ms);
    b->waiting_ms = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mw_op *op = &b->of.plan->ops[rows[i].op];
        if (b->of.plan->lanes[op->lane].kind != MW_LANE_COMPUTE)
            continue;
        b->row_ms[op->phase * MW_OPERATOR_COUNT + b->of.plan->works[op->work].operator_] +=
            (double)(rows[i].end_ns - rows[i].start_ns) / 1e6;
        b->waiting_ms += end ? (double)(rows[i].start_ns - end) / 1e6 : 0;
        end = rows[i].end_ns;
    }
    return true;
}

static void
run_step(struct bench *b)
{
    b->step_ms = 1e3 * bench_trainer_step(b->trainer, on_step, b);
}

static void
set_up(struct bench *b)
{
    b->of.sequences = smoke ? 1 : sequences;
    b->of.seq = smoke ? 64 : seq;
    bench_model_load(&b->of, model);
    if (smoke)
        bench_model_shrink(&b->of);
    struct mw_settings asked = ask(b);
    bench_make_plan(&b->of, &asked);
    struct mw_trainer_options options = bench_trainer_options(&b->of);
    if (products)
        options.backend = &bench_products_backend;
    int64_t begin = g_get_monotonic_time();
    b->trainer = bench_trainer_new(&options);
    fprintf(stderr, "started in %.2f s\n", (double)(g_get_monotonic_time() - begin) / 1e6);
}

/* --- modes ----------------------------------------------------------------------------------- */

static void
say(const struct bench *b)
{
    printf("%.6f waiting=%.3f", b->step_ms / 1e3, b->waiting_ms);
    for (int i = 0; i < ROWS; i++)
        if (b->row_ms[i] > 0)
            printf(" %s.%s=%.3f", mw_operator_name(i % MW_OPERATOR_COUNT),
                   mw_phase_name(i / MW_OPERATOR_COUNT), b->row_ms[i]);
    putchar('\n');
    fflush(stdout);
}

/* Medians of each row by itself. */
static void
print_table(struct bench *b)
{
    g_autofree double *ms = g_new(double, (ROWS + 2) * rounds);

    for (int64_t r = 0; r < rounds; r++) {
        run_step(b);
        for (int i = 0; i < ROWS; i++)
            ms[i * rounds + r] = b->row_ms[i];
        ms[ROWS * rounds + r] = b->waiting_ms;
        ms[(ROWS + 1) * rounds + r] = b->step_ms;
    }
    double all = bench_median(ms + (ROWS + 1) * rounds, rounds);
    printf("step %.1f ms, %.1f tokens/s\n", all, 1e3 * (double)(b->of.sequences * b->of.seq) / all);
    for (int i = 0; i < ROWS; i++) {
        double row = bench_median(ms + i * rounds, rounds);
        if (row > 0)
            printf("%-12s %-10s %9.2f ms %5.1f%%\n", mw_operator_name(i % MW_OPERATOR_COUNT),
                   mw_phase_name(i / MW_OPERATOR_COUNT), row, 100 * row / all);
    }
    printf("%-23s %9.2f ms\n", "nothing to compute", bench_median(ms + ROWS * rounds, rounds));
}

static void
answer_lines(struct bench *b)
{
    char line[16];

    while (fgets(line, sizeof line, stdin)) {
        run_step(b);
        say(b);
    }
}

static void
time_products(struct bench *b)
{
    bench_products_compare(true);
    for (int64_t r = 0; r < rounds; r++)
        run_step(b);
    bench_products_print();
}

int
main(int argc, char **argv)
{
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    struct bench b = {0};
    GError *error = NULL;

    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error))
        bench_die(error);
    set_up(&b);
    run_step(&b);
    fprintf(stderr, "first step %.1f ms\n", b.step_ms);
    if (serve)
        answer_lines(&b);
    else if (products)
        time_products(&b);
    else
        print_table(&b);
    mw_trainer_free(b.trainer);
    mw_variants_free(b.of.variants);
    return 0;
}
