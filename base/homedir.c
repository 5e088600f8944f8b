#include "base/homedir.h"

#include <errno.h>

#include "base/error.h"

static const struct {
    const char *variable, *folder; /* folder in the home directory, for an unset variable */
} places[] = {
    [MW_HOMEDIR_CONFIG] = {"XDG_CONFIG_HOME", ".config"},
    [MW_HOMEDIR_STATE] = {"XDG_STATE_HOME", ".local/state"},
};

/* The variable's value if it is absolute.  GLib also takes a relative path, which would name
 * another folder in each working directory. */
static const char *
variable_value(enum mw_homedir which)
{
    const char *path = g_getenv(places[which].variable);

    return path && g_path_is_absolute(path) ? path : NULL;
}

char *
mw_homedir_path(enum mw_homedir which)
{
    const char *path = variable_value(which);

    return path ? g_build_filename(path, "memwall", NULL)
                : g_build_filename(g_get_home_dir(), places[which].folder, "memwall", NULL);
}

static bool
has_home(enum mw_homedir which)
{
    const char *home = g_get_home_dir();

    return variable_value(which) ||
           (g_path_is_absolute(home) && g_file_test(home, G_FILE_TEST_IS_DIR));
}

bool
mw_homedir_make(enum mw_homedir which, const char *folder, const char *otherwise, GError **error)
{
    if (!has_home(which))
        return mw_refuse(error,
                         "HOME is \"%s\", which is no directory, and none is made: set HOME or %s "
                         "to one, or give %s",
                         g_get_home_dir(), places[which].variable, otherwise);
    if (!g_mkdir_with_parents(folder, 0700))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "%s: cannot be made: %s: give %s", folder,
                g_strerror(errno), otherwise);
    return false;
}
