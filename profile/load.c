/* Finding, loading, inheriting and overriding profiles. */
#include "profile/profile.h"

#include <math.h>
#include <string.h>

#include "base/datadir.h"
#include "base/error.h"
#include "base/homedir.h"
#include "base/input.h"
#include "base/spell.h"
#include "profile/internal.h"

#define SUFFIX ".ini"
#define INHERIT_MAX 8

static struct mw_profile *
empty_profile(const struct mw_profile_kind *kind, const char *origin)
{
    struct mw_profile *profile = g_new0(struct mw_profile, 1);

    profile->kind = kind;
    profile->origin = g_strdup(origin);
    profile->value = g_new0(struct mw_profile_value, kind->key_count);
    return profile;
}

void
mw_profile_free(struct mw_profile *profile)
{
    if (!profile)
        return;
    for (size_t i = 0; i < profile->kind->key_count; i++)
        mw_profile_value_clear(&profile->value[i]);
    g_free(profile->value);
    g_free(profile->name);
    g_free(profile->called);
    g_free(profile->origin);
    g_free(profile);
}

static char *
user_folder(const struct mw_profile_kind *kind)
{
    g_autofree char *config = mw_homedir_path(MW_HOMEDIR_CONFIG);

    return g_build_filename(config, kind->folder, NULL);
}

static char *
existing(char *path)
{
    if (g_file_test(path, G_FILE_TEST_IS_REGULAR))
        return path;
    g_free(path);
    return NULL;
}

/* Path of a profile that `near`, a folder or NULL, or the profile folders have; else NULL. */
static char *
find_file(const struct mw_profile_kind *kind, const char *name, const char *near)
{
    g_autofree char *file = g_strconcat(name, SUFFIX, NULL);
    g_autofree char *user = user_folder(kind);
    char *path = near ? existing(g_build_filename(near, file, NULL)) : NULL;

    if (!path)
        path = existing(g_build_filename(user, file, NULL));
    return path ? path : mw_datadir_find(kind->folder, file);
}

static bool
is_path(const char *name)
{
    return g_str_has_suffix(name, SUFFIX);
}

static char *
find_profile(const struct mw_profile_kind *kind, const char *name_or_path, const char *near,
             GError **error)
{
    char *path = NULL;

    if (is_path(name_or_path)) {
        if (!near || g_path_is_absolute(name_or_path))
            return g_canonicalize_filename(name_or_path, NULL);
        return g_canonicalize_filename(name_or_path, near);
    }
    if (*name_or_path && !strchr(name_or_path, G_DIR_SEPARATOR))
        path = find_file(kind, name_or_path, near);
    if (!path) {
        g_autofree char *suggestion = mw_profile_suggest_profile(kind, name_or_path);
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "no %s \"%s\"; %s", kind->noun, name_or_path,
                    suggestion);
    }
    return path;
}

static struct mw_profile *
parse(const struct mw_profile_kind *kind, const char *text, size_t length, const char *origin,
      GError **error)
{
    struct mw_profile *profile = empty_profile(kind, origin);

    profile->name = g_strndup(origin, strlen(origin) - (is_path(origin) ? strlen(SUFFIX) : 0));
    if (mw_profile_parse_text(profile, text, length, error))
        return profile;
    mw_profile_free(profile);
    return NULL;
}

struct mw_profile *
mw_profile_copy(const struct mw_profile *profile)
{
    struct mw_profile *copy = empty_profile(profile->kind, profile->origin);

    g_free(copy->name);
    copy->name = g_strdup(profile->name);
    copy->called = g_strdup(profile->called);
    for (size_t i = 0; i < profile->kind->key_count; i++) {
        copy->value[i] = profile->value[i];
        copy->value[i].text = g_strdup(profile->value[i].text);
        copy->value[i].source = g_strdup(profile->value[i].source);
        copy->value[i].was = g_strdup(profile->value[i].was);
    }
    return copy;
}

/* What has been read already, by path, or NULL; and which texts are parsed at all, or NULL. */
struct reading {
    GHashTable *known;
    bool (*may_be_wanted)(const char *text);
};

/* What the file itself has.  NULL without *error: it is not wanted. */
static struct mw_profile *
parse_file(const struct mw_profile_kind *kind, const char *path, const struct reading *reading,
           GError **error)
{
    g_autofree char *wanted = g_strdup_printf("a %s (.ini), or a name that `memwall list %s` has",
                                              kind->noun, kind->folder);
    const struct mw_input_kind input = {wanted, MW_PROFILE_BYTES_MAX, NULL};
    GHashTable *known = reading->known;
    const struct mw_profile *before = known ? g_hash_table_lookup(known, path) : NULL;

    if (before)
        return mw_profile_copy(before);
    g_autofree char *origin = g_path_get_basename(path);
    gsize length = 0;
    g_autofree char *text = mw_input_read(path, &input, &length, error);
    bool parses = text && (!reading->may_be_wanted || reading->may_be_wanted(text));
    struct mw_profile *profile = parses ? parse(kind, text, length, origin, error) : NULL;
    if (profile && known)
        g_hash_table_insert(known, g_strdup(path), mw_profile_copy(profile));
    return profile;
}

struct mw_profile *
mw_profile_parse(const struct mw_profile_kind *kind, const char *text, size_t length,
                 const char *origin, GError **error)
{
    struct mw_profile *profile = parse(kind, text, length, origin, error);

    if (!profile || mw_profile_value_of(profile, "profile", "inherits")->given ||
        mw_profile_check(profile, error))
        return profile;
    mw_profile_free(profile);
    return NULL;
}

/* Whether the row is an end of the list's range, or says more of what the list says. */
static bool
goes_with(const struct mw_profile_kind *kind, const struct mw_profile_key *row,
          const struct mw_profile_key *list)
{
    if (list->kind != MW_VALUE_LIST || mw_profile_list_end(list) || row == list)
        return false;
    return (mw_profile_list_end(row) && !strcmp(row->group, list->group) &&
            g_str_has_prefix(row->key, list->key)) ||
           (kind->goes_with && kind->goes_with(row, list));
}

static bool
goes_with_given(const struct mw_profile *profile, const struct mw_profile_key *row)
{
    const struct mw_profile_kind *kind = profile->kind;
    bool goes = false;

    for (size_t i = 0; row->kind == MW_VALUE_LIST && i < kind->key_count; i++)
        goes |= profile->value[i].given && goes_with(kind, row, &kind->keys[i]);
    return goes;
}

/* Moves to `child` what it does not have itself.  The two ends of a list's range, and what says
 * more of it, go with the typical list of the same file. */
static void
take_missing(struct mw_profile *child, struct mw_profile *parent)
{
    const struct mw_profile_kind *kind = child->kind;
    g_autofree bool *keeps = g_new0(bool, kind->key_count);

    for (size_t i = 0; i < kind->key_count; i++)
        keeps[i] = child->value[i].given || kind->keys[i].kind == MW_VALUE_TEXT ||
                   goes_with_given(child, &kind->keys[i]);
    for (size_t i = 0; i < kind->key_count; i++) {
        if (keeps[i] || (kind->leaves_out && kind->leaves_out(child, &kind->keys[i])))
            continue;
        child->value[i] = parent->value[i];
        memset(&parent->value[i], 0, sizeof parent->value[i]);
    }
}

static const char *
inherits(const struct mw_profile *profile)
{
    return mw_profile_value_of(profile, "profile", "inherits")->text;
}

/* Path of what `profile` inherits, checked against the chain of paths that led to it. */
static char *
next_of_chain(const struct mw_profile *profile, GPtrArray *chain, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(chain->pdata[chain->len - 1]);
    g_autofree char *path = find_profile(profile->kind, inherits(profile), folder, error);

    if (path && chain->len > INHERIT_MAX)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "must be at most %d profiles deep",
                    INHERIT_MAX);
    else if (path && g_ptr_array_find_with_equal_func(chain, path, g_str_equal, NULL))
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "is a cycle: must be another profile");
    else if (path)
        return g_steal_pointer(&path);
    g_prefix_error(error, "%s: [profile] inherits = %s: ", profile->origin, inherits(profile));
    return NULL;
}

static bool
take_inherited(struct mw_profile *profile, const char *path, GHashTable *known, GError **error)
{
    const struct reading reading = {known, NULL};
    g_autoptr(GPtrArray) chain = g_ptr_array_new_with_free_func(g_free);
    struct mw_profile *last = profile;
    bool good = true;

    g_ptr_array_add(chain, g_strdup(path));
    while (good && inherits(last)) {
        char *next = next_of_chain(last, chain, error);
        struct mw_profile *parent = next ? parse_file(profile->kind, next, &reading, error) : NULL;

        if (next)
            g_ptr_array_add(chain, next);
        if (parent)
            take_missing(profile, parent);
        if (last != profile)
            mw_profile_free(last);
        last = parent ? parent : profile;
        good = parent != NULL;
    }
    if (last != profile)
        mw_profile_free(last);
    return good;
}

static struct mw_profile *
load(const struct mw_profile_kind *kind, const char *name_or_path, const struct reading *reading,
     GError **error)
{
    g_autofree char *path = find_profile(kind, name_or_path, NULL, error);
    struct mw_profile *profile = path ? parse_file(kind, path, reading, error) : NULL;

    if (!profile)
        return NULL;
    g_free(profile->called);
    profile->called = g_strdup(name_or_path);
    if (take_inherited(profile, path, reading->known, error) && mw_profile_check(profile, error)) {
        mw_profile_value_clear(&profile->value[mw_profile_find_key(kind, "profile", "inherits")]);
        return profile;
    }
    mw_profile_free(profile);
    return NULL;
}

char *
mw_profile_path(const struct mw_profile_kind *kind, const char *name_or_path)
{
    return find_profile(kind, name_or_path, NULL, NULL);
}

struct mw_profile *
mw_profile_load(const struct mw_profile_kind *kind, const char *name_or_path, GError **error)
{
    const struct reading reading = {NULL, NULL};

    return load(kind, name_or_path, &reading, error);
}

static void
free_profile(void *data)
{
    mw_profile_free(data);
}

GPtrArray *
mw_profile_load_some(const struct mw_profile_kind *kind, char **names,
                     bool (*may_be_wanted)(const char *text))
{
    GPtrArray *profiles = g_ptr_array_new_with_free_func(free_profile);
    g_autoptr(GHashTable) known =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_profile);
    const struct reading reading = {known, may_be_wanted};

    for (char **name = names; *name; name++) {
        struct mw_profile *profile = load(kind, *name, &reading, NULL);
        if (profile)
            g_ptr_array_add(profiles, profile);
    }
    return profiles;
}

GPtrArray *
mw_profile_load_all(const struct mw_profile_kind *kind, char **names)
{
    return mw_profile_load_some(kind, names, NULL);
}

static bool
refuse_key(const struct mw_profile_kind *kind, const char *group, const char *key, GError **error)
{
    g_autofree char *suggestion = mw_profile_has_group(kind, group)
                                      ? mw_profile_suggest_key(kind, group, key)
                                      : mw_profile_suggest_group(kind, group);

    g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "unknown key; %s", suggestion);
    return false;
}

/* What goes with the list that was there before.  What was set goes with the one that is set, in
 * whichever order. */
static void
clear_with(struct mw_profile *profile, const struct mw_profile_key *list)
{
    const struct mw_profile_kind *kind = profile->kind;

    for (size_t i = 0; i < kind->key_count; i++)
        if (goes_with(kind, &kind->keys[i], list) && !mw_profile_value_is_set(&profile->value[i]))
            mw_profile_value_clear(&profile->value[i]);
}

static bool
set_value(struct mw_profile *profile, const char *group, const char *key, const char *text,
          GError **error)
{
    int row = mw_profile_find_key(profile->kind, group, key);

    if (row < 0)
        return refuse_key(profile->kind, group, key, error);
    struct mw_profile_value *value = &profile->value[row];
    const struct mw_profile_key *keys = profile->kind->keys;
    g_autofree char *was = mw_profile_value_is_set(value) ? g_strdup(value->was)
                           : value->given                 ? mw_profile_value_text(value, &keys[row])
                                                          : NULL;
    if (!mw_profile_value_parse(value, &keys[row], text, error))
        return false;
    value->provenance = MW_PROVENANCE_USER;
    value->source = mw_spelled(MW_PROFILE_SET);
    value->was = g_steal_pointer(&was);
    clear_with(profile, &keys[row]);
    return true;
}

bool
mw_profile_set(struct mw_profile *profile, const char *assignment, GError **error)
{
    const struct mw_profile_kind *kind = profile->kind;
    const char *equals = strchr(assignment, '=');
    const char *dot = strchr(assignment, '.');

    if (!equals || !dot || dot > equals || g_str_has_prefix(assignment, "profile.")) {
        return mw_refuse(error, "{key %s%s}: must be %sSECTION.KEY=VALUE, such as %s%s",
                         kind->set_prefix, assignment, kind->set_prefix, kind->set_prefix,
                         kind->example);
    }
    g_autofree char *group = g_strndup(assignment, (gsize)(dot - assignment));
    g_autofree char *key = g_strndup(dot + 1, (gsize)(equals - dot - 1));
    if (set_value(profile, g_strstrip(group), g_strstrip(key), equals + 1, error))
        return true;
    g_autofree char *spelled = mw_spelled_printf("{key %s%s}: ", kind->set_prefix, assignment);
    g_prefix_error_literal(error, spelled);
    return false;
}

char *
mw_profile_set_text(const struct mw_profile *profile)
{
    g_autoptr(GString) all = g_string_new(NULL);
    const struct mw_profile_key *keys = profile->kind->keys;

    for (size_t i = 0; i < profile->kind->key_count; i++) {
        const struct mw_profile_value *value = &profile->value[i];
        if (!mw_profile_value_is_set(value))
            continue;
        g_autofree char *is = mw_profile_value_text(value, &keys[i]);
        bool same = !g_strcmp0(is, value->was);
        g_string_append_printf(all, "%s%s%s.%s %s (%s in the profile)", all->len ? ", " : "",
                               profile->kind->set_prefix, keys[i].group, keys[i].key, is,
                               same         ? "as"
                               : value->was ? value->was
                                            : "not");
    }
    return all->len ? g_strdup(all->str) : NULL;
}

char **
mw_profile_assignments(const struct mw_profile *profile)
{
    GPtrArray *all = g_ptr_array_new();
    const struct mw_profile_key *keys = profile->kind->keys;

    for (size_t i = 0; i < profile->kind->key_count; i++) {
        if (!mw_profile_value_is_set(&profile->value[i]))
            continue;
        g_autofree char *is = mw_profile_value_text(&profile->value[i], &keys[i]);
        g_ptr_array_add(all, g_strdup_printf("%s.%s=%s", keys[i].group, keys[i].key, is));
    }
    g_ptr_array_add(all, NULL);
    return (char **)g_ptr_array_free(all, FALSE);
}

bool
mw_profile_set_check(const struct mw_profile_kind *kind, const char *assignment, GError **error)
{
    struct mw_profile *any = empty_profile(kind, "a key alone");
    bool good = mw_profile_set(any, assignment, error);

    mw_profile_free(any);
    return good;
}

char *
mw_profile_scaled(const struct mw_profile *profile, const char *group, const char *key,
                  enum mw_outlook outlook, double factor)
{
    const struct mw_profile_value *value = mw_profile_value_of(profile, group, key);
    struct mw_profile_value scaled = {.count = 1};
    const struct mw_profile_key *row = mw_profile_key(profile->kind, group, key);

    scaled.number[0] = factor * value->number[value->count == 3 ? (int)outlook : 0];
    if (!value->given || scaled.number[0] <= 0)
        return NULL;
    /* 6.3 times 3 is 18.9, and 21 parts are not 22: as many figures as people write. */
    g_autofree char *figures = g_strdup_printf("%.12g", scaled.number[0]);
    scaled.number[0] = g_ascii_strtod(figures, NULL);
    if (row->kind == MW_VALUE_COUNT)
        scaled.number[0] = ceil(scaled.number[0]);
    g_autofree char *text = mw_profile_value_numbers(&scaled);
    return g_strdup_printf("%s%s.%s=%s", profile->kind->set_prefix, group, key, text);
}

const char *
mw_profile_name(const struct mw_profile *profile)
{
    return profile->name;
}

const char *
mw_profile_called(const struct mw_profile *profile)
{
    return profile->called ? profile->called : profile->name;
}

const char *
mw_profile_description(const struct mw_profile *profile)
{
    const char *text = mw_profile_value_of(profile, "profile", "description")->text;

    return text ? text : "";
}

const char *
mw_profile_word(const struct mw_profile *profile, const char *key)
{
    return mw_profile_value_of(profile, "profile", key)->text;
}

char *
mw_profile_text(const struct mw_profile *profile, const char *group, const char *key)
{
    const struct mw_profile_key *row = mw_profile_key(profile->kind, group, key);
    const struct mw_profile_value *value = row ? mw_profile_value_of(profile, group, key) : NULL;

    return value && value->given ? mw_profile_value_text(value, row) : NULL;
}

static void
add_user_names(const struct mw_profile_kind *kind, GPtrArray *names)
{
    g_autofree char *folder = user_folder(kind);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *file;

    while (dir && (file = g_dir_read_name(dir)))
        if (is_path(file))
            g_ptr_array_add(names, g_strndup(file, strlen(file) - strlen(SUFFIX)));
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **
mw_profile_list(const struct mw_profile_kind *kind)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    GPtrArray *list = g_ptr_array_new();
    g_auto(GStrv) shipped = mw_datadir_list(kind->folder, SUFFIX);

    add_user_names(kind, names);
    for (char **name = shipped; *name; name++)
        g_ptr_array_add(names, g_strdup(*name));
    g_ptr_array_sort(names, compare_names);
    for (guint i = 0; i < names->len; i++)
        if (!i || strcmp(names->pdata[i], names->pdata[i - 1]))
            g_ptr_array_add(list, g_strdup(names->pdata[i]));
    g_ptr_array_add(list, NULL);
    return (char **)g_ptr_array_free(list, FALSE);
}
