#include "lib/loaded.h"

#define KEPT_MAX 256 /* of each kind: a sweep over more names reads them anew */

struct mw_loaded {
    GHashTable *models, *profiles; /* by name */
};

static void
profile_free(void *profile)
{
    mw_profile_free(profile);
}

struct mw_loaded *
mw_loaded_new(void)
{
    struct mw_loaded *loaded = g_new(struct mw_loaded, 1);

    loaded->models = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    loaded->profiles = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, profile_free);
    return loaded;
}

void
mw_loaded_free(struct mw_loaded *loaded)
{
    if (!loaded)
        return;
    g_hash_table_unref(loaded->models);
    g_hash_table_unref(loaded->profiles);
    g_free(loaded);
}

/* Takes name and value. */
static void
keep(GHashTable *table, char *name, void *value)
{
    if (g_hash_table_size(table) == KEPT_MAX)
        g_hash_table_remove_all(table);
    g_hash_table_insert(table, name, value);
}

bool
mw_loaded_model(struct mw_loaded *loaded, const char *name, struct mw_model *model, GError **error)
{
    const struct mw_model *known = loaded ? g_hash_table_lookup(loaded->models, name) : NULL;

    if (known) {
        *model = *known;
        return true;
    }
    if (!mw_model_load(name, model, error))
        return false;
    if (loaded)
        keep(loaded->models, g_strdup(name), g_memdup2(model, sizeof *model));
    return true;
}

struct mw_profile *
mw_loaded_profile(struct mw_loaded *loaded, const char *name,
                  struct mw_profile *(*load)(const char *name, GError **error), GError **error)
{
    if (!loaded)
        return load(name, error);
    /* Machines and software may have the same name. */
    g_autofree char *key =
        g_strdup_printf("%s%s", load == mw_hwprofile_load ? "machine " : "", name);
    const struct mw_profile *known = g_hash_table_lookup(loaded->profiles, key);
    if (known)
        return mw_profile_copy(known);
    struct mw_profile *profile = load(name, error);
    if (profile)
        keep(loaded->profiles, g_steal_pointer(&key), mw_profile_copy(profile));
    return profile;
}
