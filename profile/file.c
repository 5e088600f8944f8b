/* The text of one profile into values: syntax and each key by itself. */
#include <string.h>

#include "base/error.h"
#include "profile/internal.h"

#define SOURCE ".source"
#define SHOWN_MAX 80 /* bytes of a value that a message repeats */

static char *
shown(const char *text)
{
    g_autofree char *cut = g_strndup(text, SHOWN_MAX);
    char *valid = g_utf8_make_valid(cut, -1);

    return g_strdelimit(valid, "\n\r\t", ' ');
}

static void
prefix_place(GError **error, const struct mw_profile *profile, const char *group, const char *key,
             const char *value)
{
    g_autofree char *shown_value = shown(value);

    g_prefix_error(error, "%s: [%s] %s = %s: ", profile->origin, group, key, shown_value);
}

static bool
refuse_unknown(const struct mw_profile *profile, const char *group, const char *key, GError **error)
{
    g_autofree char *suggestion = key ? mw_profile_suggest_key(profile->kind, group, key)
                                      : mw_profile_suggest_group(profile->kind, group);
    g_autofree char *shown_group = shown(group);
    g_autofree char *shown_key = shown(key ? key : "");

    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: [%s]%s%s: unknown %s; %s", profile->origin,
                shown_group, key ? " " : "", shown_key, key ? "key" : "group", suggestion);
    return false;
}

static bool
read_source(struct mw_profile *profile, const char *group, const char *key, const char *text,
            GError **error)
{
    g_autofree char *base = g_strndup(key, strlen(key) - strlen(SOURCE));
    int row = mw_profile_find_key(profile->kind, group, base);

    if (row < 0)
        return refuse_unknown(profile, group, base, error);
    if (!profile->value[row].given) {
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "%s: [%s] %s: there is no %s in this file that it could be the source of",
                    profile->origin, group, key, base);
        return false;
    }
    if (mw_profile_value_parse_source(&profile->value[row], text, error))
        return true;
    prefix_place(error, profile, group, key, text);
    return false;
}

static bool
read_value(struct mw_profile *profile, const char *group, const char *key, const char *text,
           GError **error)
{
    int row = mw_profile_find_key(profile->kind, group, key);

    if (row < 0)
        return refuse_unknown(profile, group, key, error);
    if (mw_profile_value_parse(&profile->value[row], &profile->kind->keys[row], text, error))
        return true;
    prefix_place(error, profile, group, key, text);
    return false;
}

/* Values first, so that each source finds its value whatever the order in the file. */
static bool
read_group(struct mw_profile *profile, GKeyFile *file, const char *group, GError **error)
{
    g_auto(GStrv) names = g_key_file_get_keys(file, group, NULL, NULL);

    if (!mw_profile_has_group(profile->kind, group))
        return refuse_unknown(profile, group, NULL, error);
    for (int sources = 0; sources < 2; sources++) {
        for (char **name = names; name && *name; name++) {
            if (g_str_has_suffix(*name, SOURCE) != (sources == 1))
                continue;
            g_autofree char *text = g_key_file_get_value(file, group, *name, NULL);
            if (!(sources ? read_source : read_value)(profile, group, *name, text, error))
                return false;
        }
    }
    return true;
}

/* GKeyFile lets the last of two equal keys win; here they are a contradiction. */
static bool
refuse_repeated(const struct mw_profile *profile, char **lines, GError **error)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    const char *group = "";

    for (char **line = lines; *line; line++) {
        const char *text = g_strstrip(*line);
        const char *equals = strchr(text, '=');

        if (*text == '[')
            group = text;
        else if (*text != '#' && equals) {
            g_autofree char *key = g_strchomp(g_strndup(text, (gsize)(equals - text)));
            if (!g_hash_table_add(seen, g_strconcat(group, " ", key, NULL))) {
                g_autofree char *place = g_strconcat(group, " ", key, NULL);
                g_autofree char *shown_place = shown(place);
                g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "%s: %s is given twice",
                            profile->origin, shown_place);
                return false;
            }
        }
    }
    return true;
}

static GKeyFile *
load_keys(const struct mw_profile *profile, const char *text, size_t length, GError **error)
{
    g_autoptr(GKeyFile) file = g_key_file_new();
    g_autoptr(GError) reason = NULL;

    if (g_key_file_load_from_data(file, text, length, G_KEY_FILE_KEEP_TRANSLATIONS, &reason))
        return g_steal_pointer(&file);
    g_autofree char *message = shown(reason->message);
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: not a profile ([group] lines and key = value lines): %s", profile->origin,
                message);
    return NULL;
}

/* Where the text is no UTF-8. */
static bool
refuse_bytes(const struct mw_profile *profile, const char *text, const char *bad, GError **error)
{
    int line = 1;

    for (const char *c = text; c < bad; c++)
        line += *c == '\n';
    g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                "%s: line %d: byte 0x%02X: not a profile: must be UTF-8 text", profile->origin,
                line, (unsigned char)*bad);
    return false;
}

#define BYTE_ORDER_MARK "\xEF\xBB\xBF" /* some editors write it before UTF-8 */

bool
mw_profile_parse_text(struct mw_profile *profile, const char *text, size_t length, GError **error)
{
    const char *bad = NULL;

    if (length >= strlen(BYTE_ORDER_MARK) && g_str_has_prefix(text, BYTE_ORDER_MARK)) {
        text += strlen(BYTE_ORDER_MARK);
        length -= strlen(BYTE_ORDER_MARK);
    }
    g_autofree char *copy = g_strndup(text, length);
    g_auto(GStrv) lines = NULL;
    g_auto(GStrv) groups = NULL;
    g_autoptr(GKeyFile) file = NULL;

    if (length > MW_PROFILE_BYTES_MAX || !length) {
        g_set_error(error, MW_ERROR, MW_ERROR_FORMAT,
                    "%s: not a profile: must be UTF-8 text of 1 to %d bytes", profile->origin,
                    MW_PROFILE_BYTES_MAX);
        return false;
    }
    if (!g_utf8_validate(text, (gssize)length, &bad))
        return refuse_bytes(profile, text, bad, error);
    file = load_keys(profile, text, length, error);
    lines = g_strsplit(copy, "\n", -1);
    if (!file || !refuse_repeated(profile, lines, error))
        return false;
    groups = g_key_file_get_groups(file, NULL);
    for (char **group = groups; *group; group++)
        if (!read_group(profile, file, *group, error))
            return false;
    return true;
}
