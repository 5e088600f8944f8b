#include "report/front.h"

#include <math.h>
#include <string.h>

#include "base/csv.h"

/* The columns that it takes. */
enum { STEP, USD, TOKENS_PER_S, NODES, GPUS_PER_NODE, COLUMNS };
static const char *const column_names[COLUMNS] = {"step_time_s", "cost_usd", "tokens_per_s",
                                                  "nodes", "gpus_per_node"};

static void
find_columns(const char *names, guint columns[COLUMNS])
{
    g_auto(GStrv) all = mw_csv_split(names);

    for (int c = 0; c < COLUMNS; c++)
        for (guint i = 0; all[i]; i++)
            if (!strcmp(all[i], column_names[c]))
                columns[c] = i;
}

struct candidate {
    int64_t row;
    double step_s, usd, gpu_s_per_token;
};

static GArray *
read_candidates(const struct mw_rows *rows, bool *all_usd)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct candidate));
    guint columns[COLUMNS] = {0};
    int64_t index = 0;

    *all_usd = true;
    find_columns(rows->names, columns);
    rows->rewind(rows->data);
    for (char *row; (row = rows->next(rows->data)); g_free(row), index++) {
        g_auto(GStrv) cells = mw_csv_split(row);
        double value[COLUMNS];
        for (int c = 0; c < COLUMNS; c++)
            value[c] = mw_rows_number(cells[columns[c]]);
        struct candidate one = {index, value[STEP], value[USD],
                                value[NODES] * value[GPUS_PER_NODE] / value[TOKENS_PER_S]};
        if (!isfinite(one.step_s) || !isfinite(one.gpu_s_per_token))
            continue;
        *all_usd = *all_usd && isfinite(one.usd);
        g_array_append_val(found, one);
    }
    return found;
}

struct ranked {
    int64_t row;
    double step_s, cost;
};

/* The quicker one first; of equally quick ones the cheaper, then the earlier. */
static int
compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->step_s != y->step_s)
        return x->step_s < y->step_s ? -1 : 1;
    if (x->cost != y->cost)
        return x->cost < y->cost ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static void
fill_front(struct mw_front *front)
{
    g_autoptr(GArray) ranked = g_array_new(FALSE, FALSE, sizeof(struct ranked));
    double cheapest = INFINITY;

    for (guint i = 0; i < front->fitting->len; i++) {
        struct ranked one = {g_array_index(front->fitting, int64_t, i),
                             g_array_index(front->step_s, double, i),
                             g_array_index(front->cost, double, i)};
        g_array_append_val(ranked, one);
    }
    g_array_sort(ranked, compare);
    for (guint i = 0; i < ranked->len; i++) {
        const struct ranked *one = &g_array_index(ranked, struct ranked, i);
        if (one->cost >= cheapest)
            continue;
        cheapest = one->cost;
        g_array_append_val(front->rows, one->row);
    }
}

struct mw_front
mw_front_of(const struct mw_rows *rows)
{
    struct mw_front front = {.fitting = g_array_new(FALSE, FALSE, sizeof(int64_t)),
                             .step_s = g_array_new(FALSE, FALSE, sizeof(double)),
                             .cost = g_array_new(FALSE, FALSE, sizeof(double)),
                             .rows = g_array_new(FALSE, FALSE, sizeof(int64_t))};
    g_autoptr(GArray) candidates = read_candidates(rows, &front.is_usd);

    for (guint i = 0; i < candidates->len; i++) {
        const struct candidate *one = &g_array_index(candidates, struct candidate, i);
        double cost = front.is_usd ? one->usd : one->gpu_s_per_token;
        g_array_append_val(front.fitting, one->row);
        g_array_append_val(front.step_s, one->step_s);
        g_array_append_val(front.cost, cost);
    }
    fill_front(&front);
    return front;
}

void
mw_front_clear(struct mw_front *front)
{
    GArray *const arrays[] = {front->fitting, front->step_s, front->cost, front->rows};

    for (size_t i = 0; i < G_N_ELEMENTS(arrays); i++)
        g_array_unref(arrays[i]);
}
