#include "base/datadir.h"

#include <glib.h>
#include <string.h>

#include "config.h"

/* Folders in the order of the search, ended by NULL. */
struct roots {
    const char *path[4];
};

static struct roots
data_roots(void)
{
    struct roots roots = {{NULL}};
    int count = 0;
    const char *from_environment = g_getenv("MEMWALL_DATA");

    if (from_environment && *from_environment)
        roots.path[count++] = from_environment;
    roots.path[count++] = MW_SOURCE_DIR;
    roots.path[count++] = MW_DATA_DIR;
    return roots;
}

char *
mw_datadir_find(const char *folder, const char *file)
{
    const struct roots roots = data_roots();

    for (const char *const *root = roots.path; *root; root++) {
        char *path = g_build_filename(*root, folder, file, NULL);
        if (g_file_test(path, G_FILE_TEST_IS_REGULAR))
            return path;
        g_free(path);
    }
    return NULL;
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **
mw_datadir_list(const char *folder, const char *suffix)
{
    GPtrArray *names = g_ptr_array_new();
    const struct roots roots = data_roots();

    for (const char *const *root = roots.path; *root && !names->len; root++) {
        g_autofree char *path = g_build_filename(*root, folder, NULL);
        g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
        const char *name;

        while (dir && (name = g_dir_read_name(dir)))
            if (g_str_has_suffix(name, suffix))
                g_ptr_array_add(names, g_strndup(name, strlen(name) - strlen(suffix)));
    }
    qsort(names->pdata, names->len, sizeof *names->pdata, compare_names);
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}
