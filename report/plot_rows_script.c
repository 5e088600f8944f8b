#include <math.h>
#include <string.h>

#include "base/format.h"
#include "report/plot_rows_data.h"
#include "report/plot_script.h"

#define LINES_MAX 12
#define TICS_MAX 24    /* of an axis of a heat map */
#define DOTS_MAX 20000 /* of rows that are not on the front */
#define NUMBERS_MAX 12 /* cells of a heat map side by side that have their numbers in them */
#define NAMED_MAX 12   /* points of a front that have their names beside them */

/* Colours that differ in lightness too (after Okabe and Ito, for colour-blind readers). */
static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                     "#e69f00", "#56b4e9", "#444444"};

static const char *
axis_name(const struct mw_plot_rows *table, guint axis)
{
    return table->names[axis] + strlen(MW_ROWS_OVER);
}

void
mw_plot_rows_label(GString *script, const char *axis, const char *text)
{
    g_string_append_printf(script, "set %slabel ", axis);
    mw_plot_append_quoted(script, text);
    g_string_append_c(script, '\n');
}

GString *
mw_plot_rows_begin(const char *output, bool svg, const char *title)
{
    GString *script = g_string_new(NULL);

    mw_plot_append_terminal(script, MW_PLOT_HEIGHT, output, svg);
    mw_plot_append_title(script, title);
    g_string_append(script, "set border 3 lc rgb '#666666'\n"
                            "set tics nomirror out textcolor rgb '#222222'\n"
                            "set tmargin 5\n");
    return script;
}

/* --- lines ----------------------------------------------------------------------------------- */

/* "model=..., seq=...": all axes but `but` on which rows differ. */
static char *
series_of(const struct mw_plot_rows *table, guint row, guint but)
{
    GString *name = g_string_new(NULL);

    for (guint a = 0; a < table->axis_count; a++)
        if (a != but && table->varies[a])
            g_string_append_printf(name, "%s%s=%s", name->len ? ", " : "", axis_name(table, a),
                                   mw_plot_rows_value(table, row, a));
    return g_string_free(name, FALSE);
}

/* Points of each line as text, lines in the order in which they first come. */
struct series {
    GPtrArray *names, *points; /* of char *, of GString * */
    guint left_out;            /* lines beyond the most that are drawn */
};

static void
free_string(void *string)
{
    g_string_free(string, TRUE);
}

static struct series
find_series(const struct mw_plot_rows *table, guint x)
{
    struct series found = {g_ptr_array_new_with_free_func(g_free),
                           g_ptr_array_new_with_free_func(free_string), 0};
    g_autoptr(GHashTable) known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

    for (guint i = 0; i < table->values->len; i++) {
        char *name = series_of(table, i, x);
        GString *points = g_hash_table_lookup(known, name);
        bool is_new = !g_hash_table_contains(known, name);
        if (is_new && found.names->len < LINES_MAX) {
            points = g_string_new(NULL);
            g_ptr_array_add(found.names, g_strdup(name));
            g_ptr_array_add(found.points, points);
        }
        found.left_out += is_new && !points;
        double rate = g_array_index(table->rates, double, i);
        if (points)
            g_string_append_printf(points, "%s %s\n", mw_plot_rows_value(table, i, x),
                                   isfinite(rate) ? mw_format_exact(rate) : "?");
        if (is_new)
            g_hash_table_insert(known, name, points);
        else
            g_free(name);
    }
    return found;
}

char *
mw_plot_rows_lines(const void *data, const char *output, bool svg)
{
    const struct mw_plot_rows *table = data;
    guint x = (guint)table->axes[0];
    struct series series = find_series(table, x);
    g_autofree char *title =
        series.left_out
            ? g_strdup_printf("tokens per second over %s (%u of %u lines)", axis_name(table, x),
                              series.names->len, series.names->len + series.left_out)
            : g_strdup_printf("tokens per second over %s", axis_name(table, x));
    GString *script = mw_plot_rows_begin(output, svg, title);

    g_string_append(script, "set datafile missing '?'\nset grid lc rgb '#dddddd' lt 1\n"
                            "set yrange [0:*]\nset key outside right top\n");
    mw_plot_rows_label(script, "x", axis_name(table, x));
    mw_plot_rows_label(script, "y", "tokens per second");
    for (guint s = 0; s < series.names->len; s++)
        g_string_append_printf(script, "$line%u << EOD\n%sEOD\n", s,
                               ((GString *)series.points->pdata[s])->str);
    for (guint s = 0; s < series.names->len; s++) {
        g_string_append_printf(
            script, "%s$line%u using 1:2 with linespoints lw 2 pt %u dt %u lc rgb '%s' title ",
            s ? ", \\\n     " : "plot ", s, 5 + 2 * (s % 5), 1 + s / (guint)G_N_ELEMENTS(colors),
            colors[s % G_N_ELEMENTS(colors)]);
        mw_plot_append_quoted(script, series.names->pdata[s]);
    }
    g_string_append(script, "\nunset output\n");
    g_ptr_array_unref(series.names);
    g_ptr_array_unref(series.points);
    return g_string_free(script, FALSE);
}

/* --- a heat map ------------------------------------------------------------------------------ */

static int
compare_texts(const void *a, const void *b)
{
    double x = mw_rows_number(*(char *const *)a), y = mw_rows_number(*(char *const *)b);

    return (x > y) - (x < y);
}

/* The values of an axis, rising; the texts are the table's. */
static GPtrArray *
values_of(const struct mw_plot_rows *table, guint axis)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    GPtrArray *values = g_ptr_array_new();

    for (guint i = 0; i < table->values->len; i++) {
        char *value = ((char **)table->values->pdata[i])[axis];
        if (g_hash_table_add(seen, value))
            g_ptr_array_add(values, value);
    }
    g_ptr_array_sort(values, compare_texts);
    return values;
}

static guint
index_of(const GPtrArray *values, const char *value)
{
    guint i = 0;

    while (strcmp(values->pdata[i], value))
        i++;
    return i;
}

static void
append_tics(GString *script, const char *axis, const GPtrArray *values)
{
    g_string_append_printf(script, "set %sr [-0.5:%u.5]\nset %stics (", axis, values->len - 1,
                           axis);
    for (guint i = 0; i < values->len; i += values->len / TICS_MAX + 1) {
        g_string_append(script, i ? ", " : "");
        mw_plot_append_quoted(script, values->pdata[i]);
        g_string_append_printf(script, " %u", i);
    }
    g_string_append(script, ")\n");
}

/* The best of all rows of a cell. */
static double *
cells_of(const struct mw_plot_rows *table, const GPtrArray *x, const GPtrArray *y)
{
    double *cells = g_new(double, x->len * y->len);

    for (guint c = 0; c < x->len * y->len; c++)
        cells[c] = NAN;
    for (guint i = 0; i < table->values->len; i++) {
        guint column = index_of(x, mw_plot_rows_value(table, i, (guint)table->axes[0]));
        guint row = index_of(y, mw_plot_rows_value(table, i, (guint)table->axes[1]));
        double *cell = &cells[row * x->len + column];
        *cell = fmax(*cell, g_array_index(table->rates, double, i));
    }
    return cells;
}

/* Each cell's number, where there is room for them: light on dark cells, dark on light ones. */
static void
append_numbers(GString *script, const double *cells, guint across, guint up)
{
    static const struct {
        const char *color, *sign;
    } kinds[] = {{"#08306b", "<="}, {"#ffffff", ">"}};
    double least = INFINITY, most = -INFINITY;

    if (across > NUMBERS_MAX || up > NUMBERS_MAX)
        return;
    for (guint c = 0; c < across * up; c++) {
        least = isfinite(cells[c]) ? fmin(least, cells[c]) : least;
        most = isfinite(cells[c]) ? fmax(most, cells[c]) : most;
    }
    for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++)
        g_string_append_printf(script,
                               ", \\\n     $heat using ($3 %s %s ? $1 : 1/0):2:"
                               "(gprintf('%%.1s%%c', $3)) with labels font ',%d' textcolor rgb "
                               "'%s' notitle",
                               kinds[k].sign, mw_format_exact((least + most) / 2),
                               across > NUMBERS_MAX / 2 ? 10 : 13, kinds[k].color);
}

char *
mw_plot_rows_heat(const void *data, const char *output, bool svg)
{
    const struct mw_plot_rows *table = data;
    guint across = (guint)table->axes[0], up = (guint)table->axes[1];
    g_autoptr(GPtrArray) x = values_of(table, across), y = values_of(table, up);
    g_autofree double *cells = cells_of(table, x, y);
    g_autofree char *title = g_strdup_printf(
        "tokens per second over %s and %s%s", axis_name(table, across), axis_name(table, up),
        table->axis_count > 2 ? ": the best of all other axes" : "");
    GString *script = mw_plot_rows_begin(output, svg, title);

    mw_plot_rows_label(script, "x", axis_name(table, across));
    mw_plot_rows_label(script, "y", axis_name(table, up));
    mw_plot_rows_label(script, "cb", "tokens per second");
    append_tics(script, "x", x);
    append_tics(script, "y", y);
    g_string_append(script, "set palette defined (0 '#f7fbff', 0.5 '#6baed6', 1 '#08306b')\n"
                            "set format cb '%.1s%c'\nset cblabel offset 1,0\n$heat << EOD\n");
    for (guint c = 0; c < x->len * y->len; c++)
        if (isfinite(cells[c]))
            g_string_append_printf(script, "%u %u %s\n", c % x->len, c / x->len,
                                   mw_format_exact(cells[c]));
    g_string_append(script, "EOD\nset style fill solid 1 noborder\n"
                            "plot $heat using 1:2:(0.5):(0.5):3 with boxxyerror lc palette "
                            "notitle");
    append_numbers(script, cells, x->len, y->len);
    g_string_append(script, "\nunset output\n");
    return g_string_free(script, FALSE);
}

/* --- the Pareto front ------------------------------------------------------------------------ */

static void
append_point(GString *script, const struct mw_front *front, guint i)
{
    g_string_append_printf(script, "%s %s\n",
                           mw_format_exact(g_array_index(front->step_s, double, i)),
                           mw_format_exact(g_array_index(front->cost, double, i)));
}

/* Index among the fitting rows, which rise. */
static guint
place_of(const struct mw_front *front, int64_t row)
{
    guint low = 0, high = front->fitting->len;

    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(front->fitting, int64_t, middle) < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* 1, 2 and 5 of each power of ten; gnuplot itself numbers powers alone, and may have none. */
static void
append_steps(GString *script, double least, double most)
{
    static const int steps[] = {1, 2, 5};
    const char *between = "";

    for (int power = (int)floor(log10(least)); power <= (int)ceil(log10(most)); power++)
        for (size_t s = 0; s < G_N_ELEMENTS(steps); s++) {
            double value = steps[s] * pow(10, power);
            if (value < least || value > most)
                continue;
            g_string_append_printf(script, "%s'%.*f' %s", between, MAX(-power, 0), value,
                                   mw_format_exact(value));
            between = ", ";
        }
}

/* A logarithmic axis that ends near its values: by these shares of their span below and above. */
static void
append_range(GString *script, const char *axis, const GArray *values, double below, double above)
{
    double least = INFINITY, most = 0;

    for (guint i = 0; i < values->len; i++) {
        least = fmin(least, g_array_index(values, double, i));
        most = fmax(most, g_array_index(values, double, i));
    }
    if (!(least > 0 && isfinite(most)))
        return;
    double span = fmax(log(most / least), log(2));
    least *= exp(-below * span);
    most *= exp(above * span);
    g_autofree char *from = g_strdup(mw_format_exact(least));
    g_string_append_printf(script, "set %srange [%s:%s]\nset %stics (", axis, from,
                           mw_format_exact(most), axis);
    append_steps(script, least, most);
    g_string_append(script, ")\n");
}

/* "rtx4090, batch=2": names say themselves what they are of. */
static char *
name_of(const struct mw_plot_rows *table, guint row)
{
    GString *name = g_string_new(NULL);

    for (guint a = 0; a < table->axis_count; a++) {
        const char *value = mw_plot_rows_value(table, row, a);
        bool is_name = isnan(mw_rows_number(value));
        if (table->varies[a])
            g_string_append_printf(name, "%s%s%s%s", name->len ? ", " : "",
                                   is_name ? "" : axis_name(table, a), is_name ? "" : "=", value);
    }
    return g_string_free(name, FALSE);
}

/* What the points of a short front are, on its side: nothing is there, as it would beat them. */
static void
append_names(GString *script, const struct mw_plot_rows *table)
{
    const struct mw_front *front = &table->front;

    for (guint i = 0; front->rows->len <= NAMED_MAX && i < front->rows->len; i++) {
        int64_t row = g_array_index(front->rows, int64_t, i);
        guint place = place_of(front, row);
        g_autofree char *name = name_of(table, (guint)row);
        g_autofree char *x = g_strdup(mw_format_exact(g_array_index(front->step_s, double, place)));
        g_string_append(script, "set label ");
        mw_plot_append_quoted(script, name);
        g_string_append_printf(
            script,
            " at %s,%s right offset -0.8,-0.7 noenhanced font ',11' textcolor rgb "
            "'#222222'\n",
            x, mw_format_exact(g_array_index(front->cost, double, place)));
    }
}

char *
mw_plot_rows_pareto(const void *data, const char *output, bool svg)
{
    const struct mw_front *front = &((const struct mw_plot_rows *)data)->front;
    g_autofree char *title =
        g_strdup_printf("step time and cost: %u of %u points that fit are on the front",
                        front->rows->len, front->fitting->len);
    GString *script = mw_plot_rows_begin(output, svg, title);
    guint every = front->fitting->len / DOTS_MAX + 1;

    mw_plot_rows_label(script, "x", "step time (s)");
    mw_plot_rows_label(script, "y",
                       front->is_usd ? "cost of the training (USD)" : "GPU-seconds per token");
    g_string_append(script, "set grid lc rgb '#dddddd' lt 1\nset logscale xy\n"
                            "set key outside right top\n");
    append_range(script, "x", front->step_s, front->rows->len > NAMED_MAX ? 0.05 : 0.6, 0.05);
    append_range(script, "y", front->cost, 0.15, 0.05);
    append_names(script, data);
    g_string_append(script, "$all << EOD\n");
    for (guint i = 0; i < front->fitting->len; i += every)
        append_point(script, front, i);
    g_string_append(script, "EOD\n$front << EOD\n");
    for (guint i = 0; i < front->rows->len; i++)
        append_point(script, front, place_of(front, g_array_index(front->rows, int64_t, i)));
    g_string_append_printf(
        script,
        "EOD\nplot $all with points pt 7 ps 0.4 lc rgb '#999999' title '%s', \\\n"
        "     $front with steps lw 2 lc rgb '%s' notitle, \\\n"
        "     $front with points pt 7 ps 0.9 lc rgb '%s' title 'front'\n"
        "unset output\n",
        every > 1 ? "points that fit (a part)" : "points that fit", colors[0], colors[0]);
    return g_string_free(script, FALSE);
}
