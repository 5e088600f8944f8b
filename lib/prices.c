#include "lib/prices.h"

#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/input.h"
#include "base/number.h"

#define BYTES_MOST (4 << 20)
#define USD_MOST 1e9
#define NODES_MOST 1000000

enum column { PROFILE, USD_PER_HOUR, USD_TO_BUY, AVAILABLE, REGION, DATE, SOURCE, COLUMNS };
static const char *const column_names[COLUMNS] = {
    "profile", "usd_per_hour", "usd_to_buy", "available", "region", "date", "source"};

/* --- lines ------------------------------------------------------------------------------------ */

/* The place of each column; -1: it is not there. */
static bool
read_header(const char *path, char **cells, int place[COLUMNS], GError **error)
{
    for (int c = 0; c < COLUMNS; c++)
        place[c] = -1;
    for (int i = 0; cells && cells[i]; i++)
        for (int c = 0; c < COLUMNS; c++)
            if (!g_ascii_strcasecmp(cells[i], column_names[c]))
                place[c] = i;
    if (place[PROFILE] >= 0 && (place[USD_PER_HOUR] >= 0 || place[USD_TO_BUY] >= 0))
        return true;
    return mw_refuse(
        error,
        "%s, line 1: must name the columns: profile, and usd_per_hour or usd_to_buy or "
        "both; also read are available, region, date and source",
        path);
}

static const char *
cell_of(char **cells, const int place[COLUMNS], enum column column)
{
    guint count = g_strv_length(cells);

    return place[column] >= 0 && (guint)place[column] < count ? cells[place[column]] : "";
}

static bool
read_number(const char *path, int line, enum column column, const char *text, bool whole,
            double *value, GError **error)
{
    g_autofree char *name = g_strdup_printf("%s, line %d: %s", path, line, column_names[column]);
    const struct mw_number number = {
        .name = name, .max = whole ? NODES_MOST : USD_MOST, .whole = whole, .joined = true};

    *value = 0;
    return !*text || mw_number_read(&number, text, value, error);
}

static bool
read_line(const char *path, int line, char **cells, const int place[COLUMNS],
          struct mw_lib_price *out, GError **error)
{
    double available;

    *out = (struct mw_lib_price){.line = line};
    if (!*cell_of(cells, place, PROFILE))
        return mw_refuse(error, "%s, line %d: profile: is missing", path, line);
    if (!read_number(path, line, USD_PER_HOUR, cell_of(cells, place, USD_PER_HOUR), false,
                     &out->usd_per_hour, error) ||
        !read_number(path, line, USD_TO_BUY, cell_of(cells, place, USD_TO_BUY), false,
                     &out->usd_to_buy, error) ||
        !read_number(path, line, AVAILABLE, cell_of(cells, place, AVAILABLE), true, &available,
                     error))
        return false;
    if (!(out->usd_per_hour > 0) && !(out->usd_to_buy > 0))
        return mw_refuse(error,
                         "%s, line %d: gives no price of %s: usd_per_hour or usd_to_buy must "
                         "be above 0",
                         path, line, cell_of(cells, place, PROFILE));
    out->available = (int64_t)available;
    out->profile = g_strdup(cell_of(cells, place, PROFILE));
    out->region = g_strdup(cell_of(cells, place, REGION));
    out->date = g_strdup(cell_of(cells, place, DATE));
    out->source = g_strdup(cell_of(cells, place, SOURCE));
    return true;
}

static void
clear_price(gpointer data)
{
    struct mw_lib_price *price = data;

    g_free(price->profile);
    g_free(price->region);
    g_free(price->date);
    g_free(price->source);
}

static bool
read_lines(const char *path, char **lines, GArray *prices, GError **error)
{
    int place[COLUMNS];
    g_auto(GStrv) header = mw_csv_split(lines[0] ? lines[0] : "");

    if (!read_header(path, header, place, error))
        return false;
    for (int i = 1; lines[i]; i++) {
        g_auto(GStrv) cells = mw_csv_split(g_strchomp(lines[i]));
        struct mw_lib_price price;
        if (!cells)
            return mw_refuse(error, "%s, line %d: a quote has no end", path, i + 1);
        if (!*lines[i] || *lines[i] == '#')
            continue;
        if (!read_line(path, i + 1, cells, place, &price, error))
            return false;
        g_array_append_val(prices, price);
    }
    return prices->len || mw_refuse(error, "%s: has no line with a price", path);
}

GArray *
mw_lib_prices_read(const char *path, GError **error)
{
    const struct mw_input_kind kind = {.wanted = "a CSV file of prices", .most_bytes = BYTES_MOST};
    gsize length;
    g_autofree char *text = mw_input_read(path, &kind, &length, error);

    if (!text)
        return NULL;
    if (!g_utf8_validate(text, (gssize)length, NULL)) {
        mw_refuse(error, "%s: must be text in UTF-8", path);
        return NULL;
    }
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_autoptr(GArray) prices = g_array_new(FALSE, FALSE, sizeof(struct mw_lib_price));
    g_array_set_clear_func(prices, clear_price);
    return read_lines(path, lines, prices, error) ? g_steal_pointer(&prices) : NULL;
}

/* By rent where there is one: of a price to buy alone every line is as good. */
static bool
is_cheaper(const struct mw_lib_price *one, const struct mw_lib_price *other)
{
    if (one->usd_per_hour > 0 && other->usd_per_hour > 0)
        return one->usd_per_hour < other->usd_per_hour;
    return one->usd_to_buy > 0 && other->usd_to_buy > 0 && one->usd_to_buy < other->usd_to_buy;
}

const struct mw_lib_price *
mw_lib_price_of(const GArray *prices, const char *profile, const char *region)
{
    const struct mw_lib_price *best = NULL;

    for (guint i = 0; i < prices->len; i++) {
        const struct mw_lib_price *one = &g_array_index(prices, struct mw_lib_price, i);
        if (!strcmp(one->profile, profile) &&
            (!region || g_pattern_match_simple(region, one->region)) &&
            (!best || is_cheaper(one, best)))
            best = one;
    }
    return best;
}

char *
mw_lib_price_source(const struct mw_lib_price *price, const char *path)
{
    GString *text = g_string_new(NULL);
    const char *const parts[] = {price->region, price->date, price->source};

    g_string_append_printf(text, "%s, line %d", path, price->line);
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++)
        if (*parts[i])
            g_string_append_printf(text, ", %s", parts[i]);
    return g_string_free(text, FALSE);
}
