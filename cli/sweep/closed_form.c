#include "cli/sweep/closed_form.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/format.h"
#include "cli/cli.h"
#include "report/front.h"

#define DRAWN 250
#define SEED 1

struct cli_checks {
    char **names;
    GArray *chosen;  /* int64_t: indices of rows, rising */
    GPtrArray *rows; /* the checked ones; NULL until they are taken */
    int64_t front;   /* how many are on it */
    int64_t at;      /* the row that is read next */
    guint next;      /* index of the next chosen row */
};

/* Draws from `left` without putting back; each set is equally likely. */
static void
draw(GArray *left, GHashTable *chosen)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(SEED);
    guint most = MIN(DRAWN, left->len);

    for (guint i = 0; i < most; i++) {
        guint j = i + (guint)g_rand_int_range(random, 0, (gint32)(left->len - i));
        int64_t row = g_array_index(left, int64_t, j);
        g_array_index(left, int64_t, j) = g_array_index(left, int64_t, i);
        g_hash_table_add(chosen, g_memdup2(&row, sizeof row));
    }
}

static int
compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Chooses among the rows. */
static struct cli_checks *
checks_new(const struct mw_rows *rows)
{
    struct cli_checks *checks = g_new0(struct cli_checks, 1);
    g_autoptr(GHashTable) chosen = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    struct mw_front front = mw_front_of(rows);
    GHashTableIter each;
    gpointer row;

    checks->names = mw_csv_split(rows->names);
    checks->chosen = g_array_new(FALSE, FALSE, sizeof(int64_t));
    checks->front = front.rows->len;
    for (guint i = 0; i < front.rows->len; i++)
        g_hash_table_add(chosen,
                         g_memdup2(&g_array_index(front.rows, int64_t, i), sizeof(int64_t)));
    draw(front.fitting, chosen);
    mw_front_clear(&front);
    g_hash_table_iter_init(&each, chosen);
    while (g_hash_table_iter_next(&each, &row, NULL))
        g_array_append_vals(checks->chosen, row, 1);
    g_array_sort(checks->chosen, compare);
    checks->rows = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_set_size(checks->rows, (gint)checks->chosen->len);
    return checks;
}

/* Takes the row that the engine checked. */
static bool
take(void *data, int64_t index, char *row, GError **error)
{
    struct cli_checks *checks = data;

    (void)error;
    g_free(checks->rows->pdata[index]);
    checks->rows->pdata[index] = row;
    return true;
}

bool
cli_checks_compute(const struct cli_sweep *sweep, struct mw_ranks *ranks, int threads,
                   const struct mw_rows *rows, const int64_t *points, struct cli_checks **checks,
                   GError **error)
{
    bool first = mw_ranks_index(ranks) == 0;
    int64_t count = 0;

    if (first) {
        *checks = checks_new(rows);
        count = (*checks)->chosen->len;
    }
    if (!mw_ranks_broadcast(ranks, 0, &count, sizeof count, 0, error))
        return false;
    g_autofree int64_t *chosen = g_new(int64_t, count + 1);
    for (int64_t i = 0; first && i < count; i++)
        chosen[i] = points[g_array_index((*checks)->chosen, int64_t, i)];
    return (!count ||
            mw_ranks_broadcast(ranks, 0, chosen, count * (int64_t)sizeof *chosen, 0, error)) &&
           cli_sweep_rows(sweep, ranks, threads, chosen, count, true, take, *checks, error);
}

void
cli_checks_rewind(struct cli_checks *checks)
{
    checks->at = 0;
    checks->next = 0;
}

char *
cli_checks_replace(struct cli_checks *checks, char *row)
{
    bool here = checks->next < checks->chosen->len &&
                g_array_index(checks->chosen, int64_t, checks->next) == checks->at;
    const char *checked = here ? checks->rows->pdata[checks->next++] : NULL;

    checks->at++;

    if (!checked)
        return row;
    g_free(row);
    return g_strdup(checked);
}

/* --- how far apart --------------------------------------------------------------------------- */

/* |engine - closed form| / engine of a row; NAN: the engine refuses the plan. */
static double
difference(const struct cli_checks *checks, const char *row)
{
    g_auto(GStrv) cells = mw_csv_split(row);
    double engine_s = NAN, estimated_s = NAN;

    for (guint i = 0; checks->names[i]; i++) {
        if (!strcmp(checks->names[i], MW_ROWS_ENGINE))
            engine_s = mw_rows_number(cells[i]);
        else if (!strcmp(checks->names[i], "step_time_s"))
            estimated_s = mw_rows_number(cells[i]);
    }
    return fabs(engine_s - estimated_s) / engine_s;
}

static int
compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void
cli_checks_tell(const struct cli_checks *checks)
{
    g_autofree double *all = g_new(double, checks->rows->len + 1);
    size_t count = 0;

    for (guint i = 0; i < checks->rows->len; i++) {
        double one = checks->rows->pdata[i] ? difference(checks, checks->rows->pdata[i]) : NAN;
        if (isfinite(one))
            all[count++] = one;
    }
    if (!count)
        return;
    qsort(all, count, sizeof *all, compare_numbers);
    double median = (all[(count - 1) / 2] + all[count / 2]) / 2;
    cli_say("closed form against the engine, the front's %" PRId64 " and up to %d drawn: "
            "step time %s apart in the median of %zu, %s at most",
            checks->front, DRAWN, mw_format_percent(median), count,
            mw_format_percent(all[count - 1]));
}

void
cli_checks_free(struct cli_checks *checks)
{
    if (!checks)
        return;
    g_strfreev(checks->names);
    g_array_unref(checks->chosen);
    g_ptr_array_unref(checks->rows);
    g_free(checks);
}
