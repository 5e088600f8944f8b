#include "lib/prices.h"

#include <string.h>

#include "base/csv.h"
#include "base/datadir.h"
#include "base/error.h"
#include "base/input.h"
#include "base/number.h"
#include "study/steps.h"

#define BYTES_MOST (4 << 20)
#define USD_MOST 1e9  /* as node.price_usd may be, */
#define RENT_MOST 1e6 /* and node.price_usd_per_hour */
#define NODES_MOST 1000000

enum column {
    PROFILE,
    USD_PER_HOUR,
    USD_PER_HOUR_SPOT,
    USD_TO_BUY,
    USD_TO_BUY_LEAST,
    USD_TO_BUY_MOST,
    AVAILABLE,
    CONDITION,
    REGION,
    DATE,
    SOURCE,
    COLUMNS
};
static const char *const column_names[COLUMNS] = {
    "profile",         "usd_per_hour", "usd_per_hour_spot", "usd_to_buy", "usd_to_buy_least",
    "usd_to_buy_most", "available",    "condition",         "region",     "date",
    "source"};
static const char *const condition_names[MW_CONDITIONS] = {"new", "used", "discontinued"};

/* --- lines ------------------------------------------------------------------------------------ */

static bool
read_column(const char *path, const char *cell, int i, int place[COLUMNS], GError **error)
{
    for (int c = 0; c < COLUMNS; c++) {
        if (g_ascii_strcasecmp(cell, column_names[c]))
            continue;
        if (place[c] >= 0)
            return mw_refuse(error, "%s, line 1: names column %s twice, must name it once", path,
                             column_names[c]);
        place[c] = i;
    }
    return true;
}

/* The place of each column; -1: it is not there. */
static bool
read_header(const char *path, char **cells, int place[COLUMNS], GError **error)
{
    for (int c = 0; c < COLUMNS; c++)
        place[c] = -1;
    for (int i = 0; cells && cells[i]; i++)
        if (!read_column(path, cells[i], i, place, error))
            return false;
    if (place[PROFILE] >= 0 &&
        (place[USD_PER_HOUR] >= 0 || place[USD_PER_HOUR_SPOT] >= 0 || place[USD_TO_BUY] >= 0))
        return true;
    return mw_refuse(
        error,
        "%s, line 1: must name the columns: profile, and usd_per_hour, usd_per_hour_spot or "
        "usd_to_buy; also read are usd_to_buy_least, usd_to_buy_most, available, condition, "
        "region, "
        "date and source",
        path);
}

static const char *
cell_of(char **cells, const int place[COLUMNS], enum column column)
{
    guint count = g_strv_length(cells);

    return place[column] >= 0 && (guint)place[column] < count ? cells[place[column]] : "";
}

static double
most_of(enum column column)
{
    return column == AVAILABLE                                     ? NODES_MOST
           : column == USD_PER_HOUR || column == USD_PER_HOUR_SPOT ? RENT_MOST
                                                                   : USD_MOST;
}

static bool
read_number(const char *path, int line, enum column column, const char *text, bool whole,
            double *value, GError **error)
{
    g_autofree char *name = g_strdup_printf("%s, line %d: %s", path, line, column_names[column]);
    const struct mw_number number = {
        .name = name, .max = most_of(column), .whole = whole, .plain = true};

    *value = 0;
    return !*text || mw_number_read(&number, text, value, error);
}

/* The numbers of a line; those that it does not give are 0. */
static bool
read_numbers(const char *path, int line, char **cells, const int place[COLUMNS],
             struct mw_lib_price *out, GError **error)
{
    double available;
    const struct {
        enum column column;
        double *value;
    } rows[] = {
        {USD_PER_HOUR, &out->usd_per_hour},       {USD_PER_HOUR_SPOT, &out->usd_per_hour_spot},
        {USD_TO_BUY, &out->usd_to_buy},           {USD_TO_BUY_LEAST, &out->usd_to_buy_least},
        {USD_TO_BUY_MOST, &out->usd_to_buy_most}, {AVAILABLE, &available},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        if (!read_number(path, line, rows[i].column, cell_of(cells, place, rows[i].column),
                         rows[i].column == AVAILABLE, rows[i].value, error))
            return false;
    out->available = (int64_t)available;
    return true;
}

/* Empty cells at its end are what spreadsheets write. */
static bool
check_cells(const char *path, int line, char **cells, guint columns, GError **error)
{
    for (guint i = columns; i < g_strv_length(cells); i++)
        if (*cells[i])
            return mw_refuse(error,
                             "%s, line %d, column %u: %s: must not be there, as line 1 names %u "
                             "columns; a cell that has a comma must be in quotes",
                             path, line, i + 1, cells[i], columns);
    return true;
}

static bool
read_condition(const char *path, int line, const char *text, enum mw_condition *out, GError **error)
{
    for (int c = 0; c < MW_CONDITIONS; c++)
        if (!*text || !g_ascii_strcasecmp(text, condition_names[c])) {
            *out = (enum mw_condition)c;
            return true;
        }
    return mw_refuse(error, "%s, line %d: condition: %s: must be new, used or discontinued", path,
                     line, text);
}

/* Of two prices of the same nobody knows which counts.  `lines`: by what they are of. */
static bool
check_once(const char *path, GHashTable *lines, const struct mw_lib_price *price, GError **error)
{
    char *of = g_strjoin("\n", price->profile, price->region, price->source,
                         condition_names[price->condition], NULL);
    int other = GPOINTER_TO_INT(g_hash_table_lookup(lines, of));

    g_hash_table_insert(lines, of, GINT_TO_POINTER(price->line));
    return !other || mw_refuse(error,
                               "%s, line %d: profile: %s: line %d has a price of it already; lines "
                               "of one profile must differ in region, condition or source",
                               path, price->line, price->profile, other);
}

static bool
check_line(const char *path, int line, const char *name, const struct mw_lib_price *price,
           GError **error)
{
    if (g_str_has_prefix(name, MW_PART_PREFIX) &&
        !mw_part_name_check(name + strlen(MW_PART_PREFIX)))
        return mw_refuse(error, "%s, line %d: profile: %s: must be " MW_PART_NAMES_TEXT, path, line,
                         name);
    if (!(price->usd_per_hour > 0) && !(price->usd_per_hour_spot > 0) && !(price->usd_to_buy > 0))
        return mw_refuse(error,
                         "%s, line %d: gives no price of %s: usd_per_hour, usd_per_hour_spot or "
                         "usd_to_buy must be above 0",
                         path, line, name);
    if ((price->usd_to_buy_least > 0 && price->usd_to_buy_least > price->usd_to_buy) ||
        (price->usd_to_buy_most > 0 && price->usd_to_buy_most < price->usd_to_buy))
        return mw_refuse(error,
                         "%s, line %d: the range of %s must have usd_to_buy between "
                         "usd_to_buy_least and usd_to_buy_most",
                         path, line, name);
    return true;
}

static bool
read_line(const char *path, int line, char **cells, const int place[COLUMNS],
          struct mw_lib_price *out, GError **error)
{
    const char *name = cell_of(cells, place, PROFILE);

    *out = (struct mw_lib_price){.line = line};
    if (!*name)
        return mw_refuse(error, "%s, line %d: profile: is missing", path, line);
    if (!read_numbers(path, line, cells, place, out, error) ||
        !read_condition(path, line, cell_of(cells, place, CONDITION), &out->condition, error) ||
        !check_line(path, line, name, out, error))
        return false;
    out->profile = g_strdup(name);
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
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

    if (!read_header(path, header, place, error))
        return false;
    for (int i = 1; lines[i]; i++) {
        g_auto(GStrv) cells = mw_csv_split(g_strchomp(lines[i]));
        struct mw_lib_price price;
        if (!cells)
            return mw_refuse(error, "%s, line %d: a quote has no end", path, i + 1);
        if (!*lines[i] || *lines[i] == '#')
            continue;
        if (!check_cells(path, i + 1, cells, g_strv_length(header), error) ||
            !read_line(path, i + 1, cells, place, &price, error))
            return false;
        bool once = check_once(path, seen, &price, error);
        g_array_append_val(prices, price);
        if (!once)
            return false;
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

GArray *
mw_lib_prices_known(GError **error)
{
    g_autofree char *path = mw_datadir_find("hwprofiles", MW_LIB_PARTS_FILE);

    return path ? mw_lib_prices_read(path, error)
                : g_array_new(FALSE, FALSE, sizeof(struct mw_lib_price));
}

/* --- names that are not known ----------------------------------------------------------------- */

#define CARD_PREFIX MW_PART_PREFIX "card:"

bool
mw_lib_price_is_known(const struct mw_lib_price *price)
{
    const char *name = price->profile;

    if (g_str_has_prefix(name, CARD_PREFIX))
        name += strlen(CARD_PREFIX);
    else if (mw_lib_price_is_part(price))
        return true;
    struct mw_profile *profile = mw_hwprofile_load(name, NULL);
    mw_profile_free(profile);
    return profile != NULL;
}

/* A price list may be older or newer than the machines here. */
char *
mw_lib_prices_unknown(const GArray *prices, const char *path)
{
    g_autoptr(GString) names = g_string_new(NULL);

    for (guint i = 0; i < prices->len; i++) {
        const struct mw_lib_price *price = &g_array_index(prices, struct mw_lib_price, i);
        if (!mw_lib_price_is_known(price))
            g_string_append_printf(names, "%s%s (line %d)", names->len ? ", " : "", price->profile,
                                   price->line);
    }
    return names->len
               ? g_strdup_printf("%s: prices of what is no machine here are passed over: %s; "
                                 "`memwall list hwprofiles` names machines",
                                 path, names->str)
               : NULL;
}

bool
mw_lib_price_is_part(const struct mw_lib_price *price)
{
    return g_str_has_prefix(price->profile, MW_PART_PREFIX);
}

/* A line without a price, which is 0, is the dearest. */
static bool
is_less(double usd, double other)
{
    return usd > 0 && (!(other > 0) || usd < other);
}

/* What can be had goes before what cannot. */
static bool
is_cheaper(const struct mw_lib_price *one, const struct mw_lib_price *other, const char *pay)
{
    bool gone = one->condition == MW_CONDITION_DISCONTINUED;

    if (gone != (other->condition == MW_CONDITION_DISCONTINUED))
        return !gone;
    if (!g_strcmp0(pay, "spot"))
        return is_less(one->usd_per_hour_spot, other->usd_per_hour_spot);
    if (!g_strcmp0(pay, "buy"))
        return is_less(one->usd_to_buy, other->usd_to_buy);
    if (!g_strcmp0(pay, "rent") || one->usd_per_hour > 0 || other->usd_per_hour > 0)
        return is_less(one->usd_per_hour, other->usd_per_hour);
    return is_less(one->usd_to_buy, other->usd_to_buy);
}

const struct mw_lib_price *
mw_lib_price_of(const GArray *prices, const char *profile, const char *region, const char *pay)
{
    const struct mw_lib_price *best = NULL;

    for (guint i = 0; i < prices->len; i++) {
        const struct mw_lib_price *one = &g_array_index(prices, struct mw_lib_price, i);
        if (!strcmp(one->profile, profile) &&
            (!region || g_pattern_match_simple(region, one->region)) &&
            (!best || is_cheaper(one, best, pay)))
            best = one;
    }
    return best;
}

/* --- drives ----------------------------------------------------------------------------------- */

static void
take_drive_prices(const GArray *prices, const char *path, const char *region,
                  struct mw_drive_price out[MW_DRIVE_KINDS])
{
    for (int k = 0; k < MW_DRIVE_KINDS; k++) {
        g_autofree char *name = g_strconcat(MW_PART_PREFIX, mw_drive_part(k), NULL);
        const struct mw_lib_price *price = mw_lib_price_of(prices, name, region, "buy");
        if (!price || !(price->usd_to_buy > 0))
            continue;
        g_autofree char *from =
            g_strdup_printf("%g USD a TB: %s, line %d%s%s", price->usd_to_buy, path, price->line,
                            *price->date ? ", " : "", price->date);
        out[k] = (struct mw_drive_price){price->usd_to_buy / 1e12, g_intern_string(from)};
    }
}

/* What is known is read once: a sweep asks for it at every point. */
static bool
known_drive_prices(struct mw_drive_price out[MW_DRIVE_KINDS], GError **error)
{
    static struct mw_drive_price known[MW_DRIVE_KINDS];
    static GMutex lock;
    static bool is_read;

    g_mutex_lock(&lock);
    if (!is_read) {
        g_autoptr(GArray) prices = mw_lib_prices_known(error);
        if (prices)
            take_drive_prices(prices, MW_LIB_PARTS_FILE, NULL, known);
        is_read = prices != NULL;
    }
    memcpy(out, known, sizeof known);
    bool good = is_read;
    g_mutex_unlock(&lock);
    return good;
}

bool
mw_lib_drive_prices(const GArray *prices, const char *path, const char *region,
                    struct mw_question *out, GError **error)
{
    if (!known_drive_prices(out->drives, error))
        return false;
    if (prices)
        take_drive_prices(prices, path, region, out->drives);
    return true;
}

char *
mw_lib_price_source(const struct mw_lib_price *price, const char *path)
{
    GString *text = g_string_new(NULL);
    const char *const parts[] = {price->region,
                                 price->condition ? condition_names[price->condition] : "",
                                 price->date, price->source};

    g_string_append_printf(text, "%s, line %d", path, price->line);
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++)
        if (*parts[i])
            g_string_append_printf(text, ", %s", parts[i]);
    return g_string_free(text, FALSE);
}
