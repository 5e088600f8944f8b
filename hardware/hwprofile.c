/* Finding, loading, inheriting and overriding hardware profiles. */
#include "hardware/hwprofile.h"

#include <math.h>
#include <string.h>

#include "base/datadir.h"
#include "base/error.h"
#include "base/homedir.h"
#include "base/input.h"
#include "base/spell.h"
#include "hardware/internal.h"

#define FOLDER "hwprofiles"
#define SUFFIX ".ini"
#define WANTED "a hardware profile (.ini), or a name that `memwall list hwprofiles` has"
#define INHERIT_MAX 8

static struct mw_hwprofile *
empty_profile(const char *origin)
{
    struct mw_hwprofile *profile = g_new0(struct mw_hwprofile, 1);
    size_t count;

    mw_hw_keys(&count);
    profile->origin = g_strdup(origin);
    profile->value = g_new0(struct mw_hw_value, count);
    return profile;
}

void
mw_hwprofile_free(struct mw_hwprofile *profile)
{
    size_t count;

    if (!profile)
        return;
    mw_hw_keys(&count);
    for (size_t i = 0; i < count; i++)
        mw_hw_value_clear(&profile->value[i]);
    g_free(profile->value);
    g_free(profile->name);
    g_free(profile->origin);
    g_free(profile);
}

static char *
user_folder(void)
{
    g_autofree char *config = mw_homedir_path(MW_HOMEDIR_CONFIG);

    return g_build_filename(config, FOLDER, NULL);
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
find_file(const char *name, const char *near)
{
    g_autofree char *file = g_strconcat(name, SUFFIX, NULL);
    g_autofree char *user = user_folder();
    char *path = near ? existing(g_build_filename(near, file, NULL)) : NULL;

    if (!path)
        path = existing(g_build_filename(user, file, NULL));
    return path ? path : mw_datadir_find(FOLDER, file);
}

static bool
is_path(const char *name)
{
    return g_str_has_suffix(name, SUFFIX);
}

static char *
find_profile(const char *name_or_path, const char *near, GError **error)
{
    char *path = NULL;

    if (is_path(name_or_path)) {
        if (!near || g_path_is_absolute(name_or_path))
            return g_canonicalize_filename(name_or_path, NULL);
        return g_canonicalize_filename(name_or_path, near);
    }
    if (*name_or_path && !strchr(name_or_path, G_DIR_SEPARATOR))
        path = find_file(name_or_path, near);
    if (!path) {
        g_autofree char *suggestion = mw_hw_suggest_profile(name_or_path);
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "no hardware profile \"%s\"; %s",
                    name_or_path, suggestion);
    }
    return path;
}

static struct mw_hwprofile *
parse(const char *text, size_t length, const char *origin, GError **error)
{
    struct mw_hwprofile *profile = empty_profile(origin);

    profile->name = g_strndup(origin, strlen(origin) - (is_path(origin) ? strlen(SUFFIX) : 0));
    if (mw_hw_file_parse(profile, text, length, error))
        return profile;
    mw_hwprofile_free(profile);
    return NULL;
}

struct mw_hwprofile *
mw_hwprofile_copy(const struct mw_hwprofile *profile)
{
    struct mw_hwprofile *copy = empty_profile(profile->origin);
    size_t count;

    mw_hw_keys(&count);
    g_free(copy->name);
    copy->name = g_strdup(profile->name);
    for (size_t i = 0; i < count; i++) {
        copy->value[i] = profile->value[i];
        copy->value[i].text = g_strdup(profile->value[i].text);
        copy->value[i].source = g_strdup(profile->value[i].source);
        copy->value[i].was = g_strdup(profile->value[i].was);
    }
    return copy;
}

/* What the file itself has.  `known`: what was read already, by path, or NULL. */
static struct mw_hwprofile *
parse_file(const char *path, GHashTable *known, GError **error)
{
    static const struct mw_input_kind kind = {WANTED, MW_HW_FILE_BYTES_MAX, NULL};
    const struct mw_hwprofile *before = known ? g_hash_table_lookup(known, path) : NULL;

    if (before)
        return mw_hwprofile_copy(before);
    g_autofree char *origin = g_path_get_basename(path);
    gsize length = 0;
    g_autofree char *text = mw_input_read(path, &kind, &length, error);
    struct mw_hwprofile *profile = text ? parse(text, length, origin, error) : NULL;
    if (profile && known)
        g_hash_table_insert(known, g_strdup(path), mw_hwprofile_copy(profile));
    return profile;
}

struct mw_hwprofile *
mw_hwprofile_parse(const char *text, size_t length, const char *origin, GError **error)
{
    struct mw_hwprofile *profile = parse(text, length, origin, error);

    if (!profile || mw_hw_value_of(profile, "profile", "inherits")->given ||
        mw_hwprofile_check(profile, error))
        return profile;
    mw_hwprofile_free(profile);
    return NULL;
}

/* Moves to `child` what it does not have itself.  The two ends of the matrix-product curve go with
 * the typical curve of the same file. */
static void
take_missing(struct mw_hwprofile *child, struct mw_hwprofile *parent)
{
    bool has_curve = mw_hw_value_of(child, "gpu", "matmul_tflops")->given;
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++) {
        if (child->value[i].given || keys[i].kind == MW_HW_TEXT)
            continue;
        if (has_curve && g_str_has_prefix(keys[i].key, "matmul_tflops_"))
            continue;
        child->value[i] = parent->value[i];
        memset(&parent->value[i], 0, sizeof parent->value[i]);
    }
}

static const char *
inherits(const struct mw_hwprofile *profile)
{
    return mw_hw_value_of(profile, "profile", "inherits")->text;
}

/* Path of what `profile` inherits, checked against the chain of paths that led to it. */
static char *
next_of_chain(const struct mw_hwprofile *profile, GPtrArray *chain, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(chain->pdata[chain->len - 1]);
    g_autofree char *path = find_profile(inherits(profile), folder, error);

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
take_inherited(struct mw_hwprofile *profile, const char *path, GHashTable *known, GError **error)
{
    g_autoptr(GPtrArray) chain = g_ptr_array_new_with_free_func(g_free);
    struct mw_hwprofile *last = profile;
    bool good = true;

    g_ptr_array_add(chain, g_strdup(path));
    while (good && inherits(last)) {
        char *next = next_of_chain(last, chain, error);
        struct mw_hwprofile *parent = next ? parse_file(next, known, error) : NULL;

        if (next)
            g_ptr_array_add(chain, next);
        if (parent)
            take_missing(profile, parent);
        if (last != profile)
            mw_hwprofile_free(last);
        last = parent ? parent : profile;
        good = parent != NULL;
    }
    if (last != profile)
        mw_hwprofile_free(last);
    return good;
}

static struct mw_hwprofile *
load(const char *name_or_path, GHashTable *known, GError **error)
{
    g_autofree char *path = find_profile(name_or_path, NULL, error);
    struct mw_hwprofile *profile = path ? parse_file(path, known, error) : NULL;

    if (!profile)
        return NULL;
    if (take_inherited(profile, path, known, error) && mw_hwprofile_check(profile, error)) {
        mw_hw_value_clear(&profile->value[mw_hw_key_find("profile", "inherits")]);
        return profile;
    }
    mw_hwprofile_free(profile);
    return NULL;
}

char *
mw_hwprofile_path(const char *name_or_path)
{
    return find_profile(name_or_path, NULL, NULL);
}

struct mw_hwprofile *
mw_hwprofile_load(const char *name_or_path, GError **error)
{
    return load(name_or_path, NULL, error);
}

static void
free_profile(void *data)
{
    mw_hwprofile_free(data);
}

GPtrArray *
mw_hwprofile_load_all(char **names)
{
    GPtrArray *profiles = g_ptr_array_new_with_free_func(free_profile);
    g_autoptr(GHashTable) known =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_profile);

    for (char **name = names; *name; name++) {
        struct mw_hwprofile *profile = load(*name, known, NULL);
        if (profile)
            g_ptr_array_add(profiles, profile);
    }
    return profiles;
}

static char *
value_text(const struct mw_hw_value *value, const struct mw_hw_key *key)
{
    if (key->kind == MW_HW_TEXT)
        return g_strdup(value->text);
    return key->kind == MW_HW_FLAG ? g_strdup(value->number[0] ? "true" : "false")
                                   : mw_hw_value_text(value);
}

static bool
set_value(struct mw_hwprofile *profile, const char *group, const char *key, const char *text,
          GError **error)
{
    int row = mw_hw_key_find(group, key);
    size_t count;

    if (row < 0) {
        g_autofree char *suggestion =
            mw_hw_group_exists(group) ? mw_hw_suggest_key(group, key) : mw_hw_suggest_group(group);
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID, "unknown key; %s", suggestion);
        return false;
    }
    struct mw_hw_value *value = &profile->value[row];
    const struct mw_hw_key *keys = mw_hw_keys(&count);
    g_autofree char *was = mw_hw_value_is_set(value) ? g_strdup(value->was)
                           : value->given            ? value_text(value, &keys[row])
                                                     : NULL;
    if (!mw_hw_value_parse(value, &keys[row], text, error))
        return false;
    value->provenance = MW_PROVENANCE_USER;
    value->source = mw_spelled(MW_HW_SET);
    value->was = g_steal_pointer(&was);
    if (g_str_equal(key, "matmul_tflops") || g_str_equal(key, "attention_tflops")) {
        g_autofree char *low = g_strconcat(key, "_low", NULL);
        g_autofree char *high = g_strconcat(key, "_high", NULL);
        mw_hw_value_clear(&profile->value[mw_hw_key_find("gpu", low)]);
        mw_hw_value_clear(&profile->value[mw_hw_key_find("gpu", high)]);
    }
    return true;
}

bool
mw_hwprofile_set(struct mw_hwprofile *profile, const char *assignment, GError **error)
{
    const char *equals = strchr(assignment, '=');
    const char *dot = strchr(assignment, '.');

    if (!equals || !dot || dot > equals || g_str_has_prefix(assignment, "profile.")) {
        return mw_refuse(error,
                         "{key %s}: must be SECTION.KEY=VALUE, such as nvme.read_gb_per_s=12.5",
                         assignment);
    }
    g_autofree char *group = g_strndup(assignment, (gsize)(dot - assignment));
    g_autofree char *key = g_strndup(dot + 1, (gsize)(equals - dot - 1));
    if (set_value(profile, g_strstrip(group), g_strstrip(key), equals + 1, error))
        return true;
    g_autofree char *spelled = mw_spelled_printf("{key %s}: ", assignment);
    g_prefix_error_literal(error, spelled);
    return false;
}

char *
mw_hwprofile_set_text(const struct mw_hwprofile *profile)
{
    g_autoptr(GString) all = g_string_new(NULL);
    size_t count;
    const struct mw_hw_key *keys = mw_hw_keys(&count);

    for (size_t i = 0; i < count; i++) {
        const struct mw_hw_value *value = &profile->value[i];
        if (!mw_hw_value_is_set(value))
            continue;
        g_autofree char *is = value_text(value, &keys[i]);
        g_string_append_printf(all, "%s%s.%s %s (%s in the profile)", all->len ? ", " : "",
                               keys[i].group, keys[i].key, is, value->was ? value->was : "not");
    }
    return all->len ? g_strdup(all->str) : NULL;
}

bool
mw_hwprofile_set_check(const char *assignment, GError **error)
{
    struct mw_hwprofile *any = empty_profile("a key alone");
    bool good = mw_hwprofile_set(any, assignment, error);

    mw_hwprofile_free(any);
    return good;
}

char *
mw_hwprofile_scaled(const struct mw_hwprofile *profile, const char *group, const char *key,
                    enum mw_outlook outlook, double factor)
{
    const struct mw_hw_value *value = mw_hw_value_of(profile, group, key);
    struct mw_hw_value scaled = {.count = 1};
    const struct mw_hw_key *row = mw_hw_key(group, key);

    scaled.number[0] = factor * value->number[value->count == 3 ? (int)outlook : 0];
    if (!value->given || scaled.number[0] <= 0)
        return NULL;
    /* 6.3 times 3 is 18.9, and 21 parts are not 22: as many figures as people write. */
    g_autofree char *figures = g_strdup_printf("%.12g", scaled.number[0]);
    scaled.number[0] = g_ascii_strtod(figures, NULL);
    if (row->kind == MW_HW_COUNT)
        scaled.number[0] = ceil(scaled.number[0]);
    g_autofree char *text = mw_hw_value_text(&scaled);
    return g_strdup_printf("%s.%s=%s", group, key, text);
}

const char *
mw_hwprofile_name(const struct mw_hwprofile *profile)
{
    return profile->name;
}

const char *
mw_hwprofile_description(const struct mw_hwprofile *profile)
{
    const char *text = mw_hw_value_of(profile, "profile", "description")->text;

    return text ? text : "";
}

const char *
mw_hwprofile_backend(const struct mw_hwprofile *profile)
{
    return mw_hw_value_of(profile, "profile", "backend")->text;
}

char *
mw_hwprofile_text(const struct mw_hwprofile *profile, const char *group, const char *key)
{
    const struct mw_hw_key *row = mw_hw_key(group, key);
    const struct mw_hw_value *value = row ? mw_hw_value_of(profile, group, key) : NULL;

    return value && value->given ? value_text(value, row) : NULL;
}

const char *
mw_hwprofile_instruction_set(const struct mw_hwprofile *profile)
{
    return mw_hw_value_of(profile, "profile", "instruction_set")->text;
}

const char *
mw_hwprofile_machine(const struct mw_hwprofile *profile)
{
    return mw_hw_value_of(profile, "profile", "machine")->text;
}

const char *
mw_hwprofile_disturbed(const struct mw_hwprofile *profile)
{
    return mw_hw_value_of(profile, "profile", "disturbed")->text;
}

double
mw_hwprofile_rate_left(const struct mw_hwprofile *profile)
{
    const char *text = mw_hw_value_of(profile, "profile", "rate_left")->text;
    double left = text ? g_ascii_strtod(text, NULL) : 1;

    return left > 0 && left < 1 ? left : 1;
}

static void
add_user_names(GPtrArray *names)
{
    g_autofree char *folder = user_folder();
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
mw_hwprofile_list(void)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    GPtrArray *list = g_ptr_array_new();
    g_auto(GStrv) shipped = mw_datadir_list(FOLDER, SUFFIX);

    add_user_names(names);
    for (char **name = shipped; *name; name++)
        g_ptr_array_add(names, g_strdup(*name));
    g_ptr_array_sort(names, compare_names);
    for (guint i = 0; i < names->len; i++)
        if (!i || strcmp(names->pdata[i], names->pdata[i - 1]))
            g_ptr_array_add(list, g_strdup(names->pdata[i]));
    g_ptr_array_add(list, NULL);
    return (char **)g_ptr_array_free(list, FALSE);
}
