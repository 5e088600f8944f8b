/* One value of a profile: its syntax and its own limits. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/spell.h"
#include "base/typed.h"
#include "profile/internal.h"

static const char *const provenance_names[MW_PROVENANCE_COUNT] = {
    [MW_PROVENANCE_ESTIMATE] = "estimate",   [MW_PROVENANCE_USER] = "user",
    [MW_PROVENANCE_DERIVED] = "derived",     [MW_PROVENANCE_DATASHEET] = "datasheet",
    [MW_PROVENANCE_PUBLISHED] = "published", [MW_PROVENANCE_MEASURED] = "measured",
};

const char *
mw_provenance_name(enum mw_provenance provenance)
{
    return (unsigned)provenance < MW_PROVENANCE_COUNT ? provenance_names[provenance] : NULL;
}

void
mw_profile_value_clear(struct mw_profile_value *value)
{
    g_free(value->text);
    g_free(value->source);
    g_free(value->was);
    memset(value, 0, sizeof *value);
}

char *
mw_profile_value_numbers(const struct mw_profile_value *value)
{
    GString *text = g_string_new(NULL);
    char digits[G_ASCII_DTOSTR_BUF_SIZE];

    for (int i = 0; i < value->count; i++) {
        /* 15 digits print what was written; 17 where they are needed to read back the same. */
        g_ascii_formatd(digits, sizeof digits, "%.15g", value->number[i]);
        if (g_ascii_strtod(digits, NULL) != value->number[i])
            g_ascii_formatd(digits, sizeof digits, "%.17g", value->number[i]);
        g_string_append_printf(text, "%s%s", i ? "; " : "", digits);
    }
    return g_string_free(text, FALSE);
}

static char *
chosen_words(const struct mw_profile_value *value, const struct mw_profile_key *row)
{
    GString *text = g_string_new(NULL);

    for (int i = 0; i < value->count; i++)
        g_string_append_printf(text, "%s%s", i ? ", " : "", row->words[(int)value->number[i]]);
    return g_string_free(text, FALSE);
}

char *
mw_profile_value_text(const struct mw_profile_value *value, const struct mw_profile_key *row)
{
    switch (row->kind) {
    case MW_VALUE_TEXT:
        return g_strdup(value->text);
    case MW_VALUE_FLAG:
        return g_strdup(value->number[0] ? "true" : "false");
    case MW_VALUE_CHOICE:
    case MW_VALUE_CHOICES:
        return chosen_words(value, row);
    default:
        return mw_profile_value_numbers(value);
    }
}

bool
mw_profile_value_is_set(const struct mw_profile_value *value)
{
    if (value->provenance != MW_PROVENANCE_USER)
        return false;
    g_autofree char *set = mw_spelled(MW_PROFILE_SET);
    return !g_strcmp0(value->source, set);
}

/* Whether a unit follows a number, as in 64GB. */
static bool
has_unit(const char *text)
{
    size_t digits = strspn(text, "0123456789.");

    return digits && g_ascii_isalpha(text[digits + strspn(text + digits, " ")]) &&
           g_ascii_tolower(text[digits]) != 'e' && g_ascii_tolower(text[digits]) != 'x';
}

static bool
refuse(const struct mw_profile_key *row, const char *text, GError **error)
{
    const char *range = row->better ? " (or \"low; typical; high\")" : "";
    const char *whole = row->kind == MW_VALUE_COUNT ? "whole " : "";

    g_autofree char *min = mw_typed(row->min);
    g_autofree char *max = mw_typed(row->max);

    if (row->kind == MW_VALUE_LIST)
        return mw_refuse(error,
                         "must be 1 to %d numbers from %s to %s%s%s, separated by semicolons",
                         MW_PROFILE_LIST_MAX, min, max, *row->unit ? " " : "", row->unit);
    return mw_refuse(error, "must be a %snumber from %s to %s%s%s%s%s", whole, min, max,
                     *row->unit ? " " : "", row->unit,
                     *row->unit && has_unit(text) ? ", written without a unit" : "", range);
}

/* A decimal number within the row's limits: no hexadecimal, nan, inf or trailing text. */
static bool
parse_number(double *number, const struct mw_profile_key *row, char *text)
{
    char *end;

    text = g_strstrip(text);
    if (!*text || text[strspn(text, "0123456789.eE+-")])
        return false;
    errno = 0;
    *number = g_ascii_strtod(text, &end);
    if (*end || end == text || errno == ERANGE || !isfinite(*number))
        return false;
    if (row->kind == MW_VALUE_COUNT && *number != floor(*number))
        return false;
    return *number >= row->min && *number <= row->max;
}

static bool
parse_numbers(struct mw_profile_value *value, const struct mw_profile_key *row, const char *text,
              GError **error)
{
    g_auto(GStrv) parts = g_strsplit(text, ";", MW_PROFILE_LIST_MAX + 2);
    int count = (int)g_strv_length(parts);

    if (count > 1 && !*g_strstrip(parts[count - 1]))
        count--; /* GKeyFile lists may end in a semicolon */
    if (count < 1 || count > MW_PROFILE_LIST_MAX)
        return refuse(row, text, error);
    for (int i = 0; i < count; i++)
        if (!parse_number(&value->number[i], row, parts[i]))
            return refuse(row, text, error);
    value->count = count;
    return true;
}

static bool
parse_range(struct mw_profile_value *value, const struct mw_profile_key *row, const char *text,
            GError **error)
{
    if (!parse_numbers(value, row, text, error))
        return false;
    if (value->count != 1 && !(value->count == 3 && row->better))
        return refuse(row, text, error);
    if (value->count == 3 &&
        !(value->number[0] <= value->number[1] && value->number[1] <= value->number[2])) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "a range is \"low; typical; high\" with low <= typical <= high");
        return false;
    }
    return true;
}

static bool
parse_flag(struct mw_profile_value *value, const char *text, GError **error)
{
    bool yes = !strcmp(text, "true");

    if (!yes && strcmp(text, "false")) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "must be true or false");
        return false;
    }
    value->number[0] = yes;
    value->count = 1;
    return true;
}

static bool
parse_choice(struct mw_profile_value *value, const struct mw_profile_key *row, const char *text,
             GError **error)
{
    for (int i = 0; row->words[i]; i++)
        if (!strcmp(text, row->words[i])) {
            value->number[0] = i;
            value->count = 1;
            return true;
        }
    g_autofree char *words = g_strjoinv(", ", (char **)(void *)row->words);
    return mw_refuse(error, "must be one of %s", words);
}

static bool
parse_choices(struct mw_profile_value *value, const struct mw_profile_key *row, const char *text,
              GError **error)
{
    g_auto(GStrv) words = g_strsplit(text, ",", MW_PROFILE_LIST_MAX + 1);
    int count = (int)g_strv_length(words);

    if (count < 1 || count > MW_PROFILE_LIST_MAX)
        return mw_refuse(error, "must be 1 to %d words, separated by commas", MW_PROFILE_LIST_MAX);
    for (int i = 0; i < count; i++) {
        struct mw_profile_value one = {0};
        if (!parse_choice(&one, row, g_strstrip(words[i]), error))
            return false;
        value->number[i] = one.number[0];
    }
    value->count = count;
    return true;
}

static bool
parse_text(struct mw_profile_value *value, const char *text, GError **error)
{
    if (!*text) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "must not be empty");
        return false;
    }
    value->text = g_strdup(text);
    return true;
}

static bool
parse_kind(struct mw_profile_value *value, const struct mw_profile_key *row, const char *text,
           GError **error)
{
    switch (row->kind) {
    case MW_VALUE_FLAG:
        return parse_flag(value, text, error);
    case MW_VALUE_TEXT:
        return parse_text(value, text, error);
    case MW_VALUE_CHOICE:
        return parse_choice(value, row, text, error);
    case MW_VALUE_CHOICES:
        return parse_choices(value, row, text, error);
    case MW_VALUE_LIST:
        return parse_numbers(value, row, text, error);
    default:
        return parse_range(value, row, text, error);
    }
}

/* The message for an empty value says it. */
char *
mw_profile_accepted(const struct mw_profile_key *key)
{
    struct mw_profile_value none = {.given = false};
    g_autoptr(GError) error = NULL;

    if (key->kind == MW_VALUE_TEXT || parse_kind(&none, key, "", &error))
        return NULL;
    const char *must = "must be ";
    return g_strdup(error->message + (g_str_has_prefix(error->message, must) ? strlen(must) : 0));
}

bool
mw_profile_value_parse(struct mw_profile_value *value, const struct mw_profile_key *row,
                       const char *text, GError **error)
{
    struct mw_profile_value parsed = {.given = true, .provenance = MW_PROVENANCE_ESTIMATE};
    g_autofree char *stripped = g_strstrip(g_strdup(text));

    if (!parse_kind(&parsed, row, stripped, error))
        return false;
    mw_profile_value_clear(value);
    *value = parsed;
    return true;
}

bool
mw_profile_value_parse_source(struct mw_profile_value *value, const char *text, GError **error)
{
    for (int kind = 0; kind < MW_PROVENANCE_COUNT; kind++) {
        const char *name = provenance_names[kind];
        size_t length = strlen(name);

        if (strncmp(text, name, length) || text[length] != ':')
            continue;
        g_free(value->source);
        value->source = g_strstrip(g_strdup(text + length + 1));
        value->provenance = (enum mw_provenance)kind;
        return true;
    }
    g_set_error(
        error, MW_ERROR, MW_ERROR_INVALID,
        "must be \"KIND: where from\", KIND one of datasheet, published, measured, derived, "
        "estimate, user");
    return false;
}
