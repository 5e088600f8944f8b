#include "base/datadir.h"

#include <dlfcn.h>
#include <glib.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

/* Folders in the order of the search, ended by NULL. */
struct roots {
    const char *path[4];
};

/* The file with this code: the program, or a library that a program loaded.  free() it. */
static char *
own_file(void)
{
    struct link_map *map = NULL;
    Dl_info info;

    if (!dladdr1((const void *)(uintptr_t)mw_datadir_find, &info, (void **)&map, RTLD_DL_LINKMAP))
        return NULL;
    /* The loader has no name for the program. */
    g_autofree char *path =
        *map->l_name ? g_strdup(map->l_name) : g_file_read_link("/proc/self/exe", NULL);
    return path ? realpath(path, NULL) : NULL;
}

/* share/memwall beside bin/memwall, or beside lib/libmemwall.so.0 or lib/MACHINE/libmemwall.so.0;
 * NULL: not installed. */
static char *
find_own_data(void)
{
    char *file = own_file();
    char *folder = file ? g_path_get_dirname(file) : NULL;

    free(file);
    for (int up = 0; folder && up < 2; up++) {
        char *above = g_path_get_dirname(folder);
        g_free(folder);
        folder = above;
        char *data = g_build_filename(folder, MW_DATA_BELOW, NULL);
        if (g_file_test(data, G_FILE_TEST_IS_DIR)) {
            g_free(folder);
            return data;
        }
        g_free(data);
    }
    g_free(folder);
    return NULL;
}

/* Found once, and kept. */
static const char *
own_data(void)
{
    static char *data;
    static gsize found;

    if (g_once_init_enter(&found)) {
        data = find_own_data();
        g_once_init_leave(&found, 1);
    }
    return data;
}

static struct roots
data_roots(void)
{
    struct roots roots = {{NULL}};
    int count = 0;
    const char *from_environment = g_getenv("MEMWALL_DATA");

    if (from_environment && *from_environment)
        roots.path[count++] = from_environment;
    if (own_data()) {
        roots.path[count++] = own_data();
    } else {
        roots.path[count++] = MW_SOURCE_DIR;
        roots.path[count++] = MW_DATA_DIR;
    }
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
