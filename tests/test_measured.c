/* The file of a run: reads back to what was written, and to nothing else. */
#include <string.h>

#include "base/error.h"
#include "tests/compared.h"

/* A run of two ranks. */
static char *
saved(struct compared *f, size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);

    compared_add_rank(f);
    g_assert_true(mw_measured_write(f->measured, f->plan, "two\nlines", out));
    fclose(out);
    return text;
}

static void
test_saved(struct compared *f, gconstpointer data)
{
    size_t length;
    char *text = saved(f, &length);
    struct mw_plan *plan;
    g_autofree char *machine = NULL;
    g_autoptr(GError) error = NULL;
    struct mw_measured *measured = mw_measured_parse(text, length, "file", &plan, &machine, &error);

    (void)data;
    g_assert_no_error(error);
    g_assert_cmpstr(machine, ==, "two lines");
    g_assert_true(plan->checked);
    g_assert_cmpint(measured->seen, ==, 4);
    g_assert_cmpuint(measured->count, ==, 3);
    g_assert_cmpint(measured->first.time_ns, ==, 119 * MS);
    for (uint32_t i = 0; i < 3; i++) {
        const struct mw_measured_step *a = &measured->later[i], *b = &f->measured->later[i];
        g_assert_cmpint(a->time_ns, ==, b->time_ns);
        g_assert_cmpmem(a->timeline.rows, OPS * sizeof *a->timeline.rows, b->timeline.rows,
                        OPS * sizeof *b->timeline.rows);
    }
    const struct mw_measured_rank *a = &measured->ranks[0], *b = &f->measured->ranks[0];
    g_assert_cmpuint(measured->rank_count, ==, 1);
    g_assert_cmpmem(a->busy_ns, 3 * sizeof *a->busy_ns, b->busy_ns, 3 * sizeof *b->busy_ns);
    g_assert_cmpmem(a->exposed_ns, 3 * sizeof *a->busy_ns, b->exposed_ns, 3 * sizeof *b->busy_ns);
    g_assert_cmpmem(a->timeline.rows, OPS * sizeof *a->timeline.rows, b->timeline.rows,
                    OPS * sizeof *b->timeline.rows);
    mw_measured_free(measured);
    mw_plan_free(plan);
    free(text);
}

/* Step by step: what is kept of steps that lost time (1) and others (0), the first apart. */
static struct mw_measured *
run_of(const char *steps)
{
    struct mw_measured *measured = mw_measured_new(1);

    for (uint32_t i = 0; steps[i]; i++) {
        struct mw_timeline_row row = {.step = i, .start_ns = i * 10, .end_ns = i * 10 + 10};
        mw_measured_add_step(measured, &(struct mw_timeline){&row, 1}, 0, steps[i] == '1');
    }
    return measured;
}

/* What held a step from being let in is none of its time; what was over by then is no matter. */
static void
test_let_in(struct compared *f, gconstpointer data)
{
    static const int64_t let_in_ns[] = {0, 0, 14, 25, 40}, time_ns[] = {10, 10, 10, 10, 10};
    static const int64_t ends_ns[] = {10, 20, 30, 40, 50};
    struct mw_measured *measured = mw_measured_new(1);

    (void)f;
    (void)data;
    for (uint32_t i = 0; i < G_N_ELEMENTS(ends_ns); i++) {
        struct mw_timeline_row row = {.step = i, .end_ns = ends_ns[i]};
        g_assert_cmpint(
            mw_measured_add_step(measured, &(struct mw_timeline){&row, 1}, let_in_ns[i], false), ==,
            time_ns[i]);
    }
    struct mw_timeline_row held = {.step = 5, .end_ns = 5000};
    g_assert_cmpint(mw_measured_add_step(measured, &(struct mw_timeline){&held, 1}, 4993, false),
                    ==, 7);
    g_assert_cmpint(measured->later[measured->count - 1].time_ns, ==, 7);
    mw_measured_free(measured);
}

static void
assert_kept(const char *steps, const char *kept, int64_t stolen, bool all)
{
    struct mw_measured *measured = run_of(steps);
    g_autofree char *is = g_new0(char, measured->count + 1);

    for (uint32_t i = 0; i < measured->count; i++)
        is[i] = (char)('0' + measured->later[i].step);
    g_assert_cmpstr(is, ==, kept);
    g_assert_cmpint(measured->stolen, ==, stolen);
    g_assert_cmpint(mw_measured_all_stolen(measured), ==, all);
    mw_measured_free(measured);
}

static void
test_stolen(struct compared *f, gconstpointer data)
{
    (void)f;
    (void)data;
    assert_kept("00000", "1234", 0, false);
    assert_kept("00100", "134", 1, false);
    assert_kept("01100", "34", 2, false);
    assert_kept("01110", "4", 3, false);
    assert_kept("10000", "1234", 0, false); /* the first is apart anyway */
    assert_kept("01111", "1234", 4, true);
    assert_kept("1", "", 0, false);
}

/* How many there were is in the file, too. */
static void
test_stolen_saved(struct compared *f, gconstpointer data)
{
    size_t length;
    struct mw_plan *plan;
    g_autofree char *machine = NULL;

    (void)data;
    f->measured->stolen = 2;
    char *text = saved(f, &length);
    struct mw_measured *measured = mw_measured_parse(text, length, "file", &plan, &machine, NULL);
    g_assert_nonnull(measured);
    g_assert_cmpint(measured->stolen, ==, 2);
    g_assert_cmpuint(measured->rank_count, ==, 1);
    mw_measured_free(measured);
    mw_plan_free(plan);
    free(text);
}

/* Nothing is left out or added without being noticed. */
static void
test_cut(struct compared *f, gconstpointer data)
{
    size_t length;
    char *text = saved(f, &length);

    (void)data;
    for (size_t cut = 0; cut < length - 1; cut++) {
        struct mw_plan *plan;
        char *machine = NULL;
        g_autoptr(GError) error = NULL;
        g_assert_null(mw_measured_parse(text, cut, "file", &plan, &machine, &error));
        g_assert_error(error, MW_ERROR, MW_ERROR_FORMAT);
        g_assert_true(g_str_has_prefix(error->message, "file: "));
        g_assert_null(strchr(error->message, '\n'));
        g_assert_null(plan);
        g_assert_null(machine);
    }
    free(text);
}

static const struct {
    const char *from, *to, *why;
} wrong[] = {
    {"seen 4", "seen 0", "at least one step"},
    {"seen 4", "seen 3", "number from 0 to 2"},
    {"later 3", "later 65", "a number from 0 to 64"},
    {"later 3", "later 4", "'step'"},
    {"step 2 time", "step 1 time", "a later step"},
    {"time 119000000", "time 0", "a time above 0"},
    {"\n0 0 90000000", "\n1 0 90000000", "the op 0"},
    {"\n0 0 90000000", "\n0 90000000 0", "an end that is not before the start"},
    {"\n0 0 90000000", "\n0 0 -1", "a number from 0"},
    {"\n0 0 90000000", "\n0 0 90000001", "a start of op 1 after op 0"},
    {"\n0 0 90000000", "\n0 0 90000000 7", "the end of the line"},
    {"memwall-run 1", "memwall-run 2", "'1'"},
    {"machine two", "computer two", "'machine'"},
    {"rank 1", "rank 2", "the rank 1"},
    {"rank 1", "rang 1", "'end'"},
    {"lane busy 7000000", "lane busy -1", "a number from 0"},
    {"lane busy 7000000 exposed 1000000\n", "", "'lane'"},
    {"\n0 500000000 512000000", "\n0 500000000 512000001", "a start of op 1 after op 0"},
};

static void
test_wrong(struct compared *f, gconstpointer data)
{
    size_t length;
    char *text = saved(f, &length);

    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        struct mw_plan *plan;
        char *machine = NULL;
        g_autoptr(GError) error = NULL;
        char *at = strstr(text, wrong[i].from);
        g_assert_nonnull(at);
        g_autofree char *bad = g_strdup_printf("%.*s%s%s", (int)(at - text), text, wrong[i].to,
                                               at + strlen(wrong[i].from));
        g_assert_null(mw_measured_parse(bad, strlen(bad), "file", &plan, &machine, &error));
        if (!strstr(error->message, wrong[i].why))
            g_error("%s -> %s: says %s", wrong[i].from, wrong[i].to, error->message);
    }
    free(text);
}

int
main(int argc, char **argv)
{
    static const struct compared_test tests[] = {
        {"/measured/saved", test_saved},
        {"/measured/cut", test_cut},
        {"/measured/wrong", test_wrong},
        {"/measured/let-in", test_let_in},
        {"/measured/stolen", test_stolen},
        {"/measured/stolen-saved", test_stolen_saved},
    };

    return compared_run(argc, argv, tests, G_N_ELEMENTS(tests));
}
