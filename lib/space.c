#include "lib/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/input.h"
#include "base/nearest.h"
#include "base/number.h"
#include "base/typed.h"
#include "lib/question.h"

#define POINTS_MAX 10000000
#define VALUES_MAX 1000000         /* of an axis */
#define FILE_BYTES_MAX (256 << 20) /* a line for each point */
#define RANGE_SLACK 1e-9           /* 0..1:0.1 ends at 1 */

struct axis {
    size_t columns;
    char **names;    /* [columns], NULL at the end */
    GPtrArray *rows; /* of char **: [columns] values */
};

struct mw_space {
    GPtrArray *axes;
    size_t columns;
    int64_t points;
};

static void
axis_free(void *data)
{
    struct axis *axis = data;

    g_strfreev(axis->names);
    g_ptr_array_unref(axis->rows);
    g_free(axis);
}

/* Takes the names. */
static struct axis *
axis_new(char **names)
{
    struct axis *axis = g_new(struct axis, 1);

    axis->columns = g_strv_length(names);
    axis->names = names;
    axis->rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev);
    return axis;
}

struct mw_space *
mw_space_new(void)
{
    struct mw_space *space = g_new0(struct mw_space, 1);

    space->axes = g_ptr_array_new_with_free_func(axis_free);
    space->points = 1;
    return space;
}

void
mw_space_free(struct mw_space *space)
{
    if (!space)
        return;
    g_ptr_array_unref(space->axes);
    g_free(space);
}

/* --- names ----------------------------------------------------------------------------------- */

/* Names whose answers are no steps of one plan, or that have no answer of their own. */
static const char *const unswept[] = {"plan",
                                      "deepspeed-notes",
                                      "serve",
                                      "objective",
                                      "machines",
                                      "prices",
                                      "region",
                                      "pay",
                                      "max-nodes",
                                      "deadline",
                                      "min-drive-life",
                                      "interruptions",
                                      "checkpoint-every",
                                      "over",
                                      "budget-of",
                                      "include",
                                      "search",
                                      "budget",
                                      "max-power",
                                      NULL};

static bool
has_name(const struct mw_space *space, const char *name)
{
    bool found = false;

    for (guint i = 0; i < space->axes->len; i++) {
        const struct axis *axis = space->axes->pdata[i];
        found = found || g_strv_contains((const char *const *)axis->names, name);
    }
    return found;
}

static bool
check_name(const struct mw_space *space, const char *name, GError **error)
{
    g_auto(GStrv) settings = memwall_names("settings"), keys = memwall_names("keys");

    if (g_strv_contains(unswept, name))
        return mw_refuse(error, "{over}: %s cannot be swept: its answers are not rows of steps",
                         name);
    if (has_name(space, name))
        return mw_refuse(error, "{over}: %s is named twice", name);
    if (g_strv_contains((const char *const *)settings, name) ||
        g_strv_contains((const char *const *)keys, name))
        return true;
    g_autofree char *like =
        mw_names_like(name, (const char *const *)(strchr(name, '.') ? keys : settings), "");
    return mw_refuse(
        error, "{over}: %s: no option of simulate and no key of a profile has this name%s%s%s",
        name, like ? "; did you mean " : "", like ? like : "", like ? "?" : "");
}

/* --- values ---------------------------------------------------------------------------------- */

/* What has a list of names, and how one of them is read. */
static bool
check_model(const char *value, GError **error)
{
    struct mw_model model;

    return mw_model_load(value, &model, error);
}

static bool
check_profile(struct mw_profile *profile)
{
    bool good = profile != NULL;

    mw_profile_free(profile);
    return good;
}

static bool
check_hardware(const char *value, GError **error)
{
    return !strcmp(value, "here") || check_profile(mw_hwprofile_load(value, error));
}

static bool
check_software(const char *value, GError **error)
{
    return check_profile(mw_software_load(value, error));
}

static const struct {
    const char *name, *list;
    bool (*check)(const char *value, GError **error); /* NULL: by the question */
} listed[] = {
    {"model", "models", check_model},
    {"hardware", "hardware", check_hardware},
    {"software", "software", check_software},
    {"strategy", "strategies", NULL},
};

static bool
check_value(const char *name, const char *value, GError **error)
{
    struct memwall_question *question = memwall_question_new();
    struct memwall_error *failed = NULL;

    if (!strcmp(name, "strategy") && strchr(value, ',')) {
        memwall_question_free(question);
        return mw_refuse(error, "{over}: strategy %s: a point has one strategy", value);
    }
    bool good = memwall_question_set(question, name, value, &failed);
    if (!good) {
        mw_refuse(error, "%s", memwall_error_message(failed));
        memwall_error_free(failed);
    }
    memwall_question_free(question);
    for (size_t i = 0; good && i < G_N_ELEMENTS(listed); i++)
        if (!strcmp(listed[i].name, name) && listed[i].check)
            good = listed[i].check(value, error);
    return good;
}

static bool
add_value(struct axis *axis, const char *value, GError **error)
{
    char *row[] = {(char *)value, NULL};

    if (axis->rows->len == VALUES_MAX)
        return mw_refuse(error, "{over}: %s has more than %d values", axis->names[0], VALUES_MAX);
    g_ptr_array_add(axis->rows, g_strdupv(row));
    return true;
}

/* --- ranges ---------------------------------------------------------------------------------- */

struct range {
    double from, to, step;
    bool multiplies;
};

/* Whether `text` is a range; false with *error: it is a wrong one. */
static bool
read_range(const char *text, struct range *range, bool *is_range, GError **error)
{
    const char *dots = strstr(text, ".."); /* strtod takes "1." for a number */
    g_autofree char *low = dots ? g_strndup(text, (gsize)(dots - text)) : NULL;
    const char *at = low ? mw_number_scan(low, &range->from) : NULL;

    *is_range = at && !*at;
    if (!*is_range)
        return true;
    *range = (struct range){.from = range->from, .step = 1};
    at = mw_number_scan(dots + strlen(".."), &range->to);
    if (at && *at) {
        at += *at == ':';
        range->multiplies = *at == 'x';
        at = mw_number_scan(at + range->multiplies, &range->step);
    }
    if (!at || *at)
        return mw_refuse(error, "{over}: %s: a range is LO..HI, LO..HI:STEP or LO..HI:xFACTOR",
                         text);
    if (range->from > range->to)
        return mw_refuse(error, "{over}: %s: the range is empty: it must rise", text);
    if (range->multiplies ? range->step <= 1 || range->from <= 0 : range->step <= 0)
        return mw_refuse(error, "{over}: %s: %s", text,
                         range->multiplies ? "a factor must be above 1, and the range above 0"
                                           : "a step must be above 0");
    return true;
}

static double
range_value(const struct range *range, int index)
{
    return range->multiplies ? range->from * pow(range->step, index)
                             : range->from + index * range->step;
}

static bool
add_range(struct axis *axis, const struct range *range, GError **error)
{
    double slack = RANGE_SLACK * (range->multiplies ? range->to : range->step);
    bool good = true;

    for (int i = 0; good && range_value(range, i) <= range->to + slack; i++) {
        g_autofree char *value = mw_typed(range_value(range, i));
        good = add_value(axis, value, error);
    }
    return good;
}

/* --- an axis --------------------------------------------------------------------------------- */

static void
add_list(struct axis *axis, const char *list)
{
    g_auto(GStrv) names = memwall_names(list);

    for (char **name = names; *name; name++)
        add_value(axis, *name, NULL);
}

/* The names that "all" stands for; NULL: it is a value like others. */
static const char *
list_of(const char *name, const char *text)
{
    for (size_t i = 0; i < G_N_ELEMENTS(listed); i++)
        if (!strcmp(listed[i].name, name) && !strcmp(text, "all"))
            return listed[i].list;
    return NULL;
}

static bool
add_text(struct axis *axis, char *text, GError **error)
{
    const char *name = axis->names[0], *list = list_of(name, g_strstrip(text));
    struct range range;
    bool is_range;

    if (!*text)
        return mw_refuse(error, "{over}: %s has an empty value", name);
    if (list) {
        add_list(axis, list);
        return true;
    }
    if (!read_range(text, &range, &is_range, error))
        return false;
    return is_range ? add_range(axis, &range, error) : add_value(axis, text, error);
}

static bool
check_values(const struct axis *axis, GError **error)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < axis->rows->len; i++) {
        char **row = axis->rows->pdata[i];
        if (!check_value(axis->names[0], row[0], error))
            return false;
        if (!g_hash_table_add(seen, row[0]))
            return mw_refuse(error, "{over}: %s has %s twice", axis->names[0], row[0]);
    }
    return true;
}

/* Takes the axis. */
static bool
take_axis(struct mw_space *space, struct axis *axis, GError **error)
{
    if (axis->rows->len && space->points > POINTS_MAX / (int64_t)axis->rows->len) {
        axis_free(axis);
        return mw_refuse(error, "{over}: the axes make more than %d points", POINTS_MAX);
    }
    space->points *= axis->rows->len;
    space->columns += axis->columns;
    g_ptr_array_add(space->axes, axis);
    return true;
}

bool
mw_space_add(struct mw_space *space, const char *text, GError **error)
{
    const char *equals = strchr(text, '=');
    g_autofree char *name = equals ? g_strndup(text, (gsize)(equals - text)) : NULL;

    if (!equals || !*name || !equals[1])
        return mw_refuse(error, "{over}: %s: must be KEY=VALUE,VALUE... or KEY=LO..HI:STEP", text);
    if (!check_name(space, name, error))
        return false;
    g_auto(GStrv) values = g_strsplit(equals + 1, strchr(equals, ';') ? ";" : ",", -1);
    struct axis *axis = axis_new(g_strsplit(name, "\n", -1));
    bool good = true;
    for (char **value = values; good && *value; value++)
        good = add_text(axis, *value, error);
    if (good && check_values(axis, error))
        return take_axis(space, axis, error);
    axis_free(axis);
    return false;
}

/* --- a file ---------------------------------------------------------------------------------- */

static bool
check_names(const struct mw_space *space, char **names, const char *path, GError **error)
{
    for (char **name = names; *name; name++) {
        if (!check_name(space, g_strstrip(*name), error)) {
            g_prefix_error(error, "%s, line 1: ", path);
            return false;
        }
        for (char **before = names; before < name; before++)
            if (!strcmp(*before, *name))
                return mw_refuse(error, "%s, line 1: %s is named twice", path, *name);
    }
    return true;
}

static bool
add_line(struct axis *axis, char *line, const char *path, int number, GError **error)
{
    g_auto(GStrv) cells = mw_csv_split(line);

    if (!cells)
        return mw_refuse(error, "%s, line %d: a quoted value does not end", path, number);
    if (g_strv_length(cells) != axis->columns)
        return mw_refuse(error, "%s, line %d: %u values; the first line has %zu names", path,
                         number, g_strv_length(cells), axis->columns);
    for (size_t i = 0; i < axis->columns; i++)
        if (*g_strstrip(cells[i]) && !check_value(axis->names[i], cells[i], error)) {
            g_prefix_error(error, "%s, line %d: ", path, number);
            return false;
        }
    g_ptr_array_add(axis->rows, g_steal_pointer(&cells));
    return true;
}

bool
mw_space_add_file(struct mw_space *space, const char *path, GError **error)
{
    static const struct mw_input_kind kind = {
        "a CSV file, names in its first line and a point in each other line", FILE_BYTES_MAX, NULL};
    gsize length;
    g_autofree char *text = mw_input_read(path, &kind, &length, error);

    if (!text)
        return false;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    char **names = lines[0] ? mw_csv_split(g_strchomp(lines[0])) : NULL;
    if (!names || !*names[0]) {
        g_strfreev(names);
        return mw_refuse(error, "%s: must be %s", path, kind.wanted);
    }
    struct axis *axis = axis_new(names);
    bool good = check_names(space, names, path, error);
    for (int i = 1; good && lines[i]; i++)
        good = !*g_strchomp(lines[i]) || add_line(axis, lines[i], path, i + 1, error);
    if (good && !axis->rows->len)
        good = mw_refuse(error, "%s: has no points below its first line", path);
    if (good)
        return take_axis(space, axis, error);
    axis_free(axis);
    return false;
}

/* --- points ---------------------------------------------------------------------------------- */

int64_t
mw_space_points(const struct mw_space *space)
{
    return space->axes->len ? space->points : 0;
}

size_t
mw_space_columns(const struct mw_space *space)
{
    return space->columns;
}

/* The axis of a column, which becomes a column of the axis; *inner: points of one of its rows. */
static const struct axis *
axis_of(const struct mw_space *space, size_t *column, int64_t *inner)
{
    const struct axis *found = NULL;

    *inner = 1;
    for (guint i = 0; i < space->axes->len; i++) {
        const struct axis *axis = space->axes->pdata[i];
        if (found)
            *inner *= axis->rows->len;
        else if (*column < axis->columns)
            found = axis;
        else
            *column -= axis->columns;
    }
    return found;
}

const char *
mw_space_name(const struct mw_space *space, size_t column)
{
    int64_t inner;
    const struct axis *axis = axis_of(space, &column, &inner);

    return axis->names[column];
}

const char *
mw_space_value(const struct mw_space *space, int64_t point, size_t column)
{
    int64_t inner;
    const struct axis *axis = axis_of(space, &column, &inner);

    return ((char **)axis->rows->pdata[point / inner % axis->rows->len])[column];
}

const char *
mw_space_first(const struct mw_space *space, const char *name)
{
    for (size_t column = 0; column < space->columns; column++)
        if (!strcmp(mw_space_name(space, column), name))
            return mw_space_value(space, 0, column);
    return NULL;
}

bool
mw_space_set(const struct mw_space *space, int64_t point, const struct memwall_question *base,
             struct memwall_question *question, struct memwall_error **error)
{
    bool good = true;

    for (size_t column = 0; good && column < space->columns; column++) {
        const char *name = mw_space_name(space, column);
        const char *value = mw_space_value(space, point, column);
        good = memwall_question_set(question, name,
                                    *value ? value : memwall_question_get(base, name), error);
    }
    return good;
}

/* --- the digest ------------------------------------------------------------------------------ */

/* With its end, so that no two lists of texts give the same bytes. */
static void
digest_text(GChecksum *sum, const char *text)
{
    g_checksum_update(sum, (const guchar *)(text ? text : "\n"),
                      text ? (gssize)strlen(text) + 1 : 2);
}

/* The contents of a config.json or a ds_config.json that a value may name. */
static void
digest_file(GChecksum *sum, const char *path)
{
    g_autofree char *contents = NULL;
    gsize length = 0;

    if (g_str_has_suffix(path, ".json") && g_file_test(path, G_FILE_TEST_IS_REGULAR) &&
        g_file_get_contents(path, &contents, &length, NULL))
        g_checksum_update(sum, (const guchar *)contents, (gssize)length);
}

/* All keys, with those that it inherits: a user's own profile may change. */
static void
digest_profile(GChecksum *sum, struct mw_profile *profile)
{
    char *text = NULL;
    size_t length;
    FILE *out = profile ? open_memstream(&text, &length) : NULL;

    if (out) {
        mw_profile_print(out, profile);
        fclose(out);
        digest_text(sum, text);
        free(text);
    }
    mw_profile_free(profile);
}

static void
digest_value(GChecksum *sum, const char *name, const char *text)
{
    digest_text(sum, text);
    if (!text)
        return;
    digest_file(sum, text);
    if (!strcmp(name, "hardware"))
        digest_profile(sum, mw_hwprofile_load(text, NULL));
    else if (!strcmp(name, "software"))
        digest_profile(sum, mw_software_load(text, NULL));
}

char *
mw_space_digest(const struct mw_space *space, const struct memwall_question *base)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_auto(GStrv) settings = memwall_names("settings");

    digest_text(sum, memwall_version());
    for (char **name = settings; *name; name++)
        digest_value(sum, *name, memwall_question_get(base, *name));
    for (guint i = 0; i < base->keys->len; i++)
        digest_text(sum, base->keys->pdata[i]);
    for (guint i = 0; i < space->axes->len; i++) {
        const struct axis *axis = space->axes->pdata[i];
        digest_text(sum, "axis");
        for (size_t column = 0; column < axis->columns; column++)
            digest_text(sum, axis->names[column]);
        for (guint row = 0; row < axis->rows->len; row++)
            for (size_t column = 0; column < axis->columns; column++)
                digest_value(sum, axis->names[column], ((char **)axis->rows->pdata[row])[column]);
    }
    return g_strdup(g_checksum_get_string(sum));
}
