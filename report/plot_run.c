/* Draws pictures with gnuplot. */
#include "report/plot_run.h"

#include <glib/gstdio.h>
#include <string.h>

#include "base/error.h"
#include "base/whole_file.h"

bool
mw_plot_format(const char *path, bool *svg, GError **error)
{
    *svg = g_str_has_suffix(path, ".svg");
    if (*svg || g_str_has_suffix(path, ".png"))
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "cannot plot to %s: the name must end in .png or .svg", path);
    return false;
}

static void
set_plot_error(GError **error, const char *path, const char *reason)
{
    g_set_error(error, MW_ERROR, MW_ERROR_IO, "cannot plot to %s: %s", path, reason);
}

/* gnuplot gives the reason on its last line that is not empty. */
static const char *
last_line(char *text)
{
    char *line;

    g_strchomp(text);
    line = strrchr(text, '\n');
    return g_strstrip(line ? line + 1 : text);
}

static bool
run_gnuplot(const char *script_path, const char *path, GError **error)
{
    char *argv[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char *)script_path, NULL};
    g_auto(GStrv) environment = g_environ_setenv(g_get_environ(), "LC_ALL", "C.UTF-8", TRUE);
    g_autofree char *messages = NULL;
    g_autoptr(GError) failure = NULL;
    int status = 0;

    if (!g_spawn_sync(NULL, argv, environment, G_SPAWN_SEARCH_PATH | G_SPAWN_STDOUT_TO_DEV_NULL,
                      NULL, NULL, NULL, &messages, &status, &failure)) {
        bool missing = g_error_matches(failure, G_SPAWN_ERROR, G_SPAWN_ERROR_NOENT);
        set_plot_error(error, path,
                       missing ? "gnuplot was not found; it is in the package gnuplot-nox"
                               : failure->message);
        return false;
    }
    if (!g_spawn_check_wait_status(status, NULL)) {
        set_plot_error(error, path, *messages ? last_line(messages) : "gnuplot failed");
        return false;
    }
    return true;
}

static bool
copy_whole(const char *picture, const char *path, GError **error)
{
    g_autofree char *contents = NULL;
    gsize length;

    if (g_file_get_contents(picture, &contents, &length, NULL) && length)
        return mw_file_write(path, contents, length, error);
    set_plot_error(error, path, "gnuplot drew nothing");
    return false;
}

static bool
draw_in(const char *folder, const char *path, bool svg, mw_plot_script_of script_of,
        const void *data, GError **error)
{
    g_autofree char *script_path = g_build_filename(folder, "plot.gp", NULL);
    g_autofree char *output = g_build_filename(folder, "picture", NULL);
    g_autofree char *script = script_of(data, output, svg);
    bool done = g_file_set_contents(script_path, script, -1, NULL);

    if (!done)
        set_plot_error(error, path, "no temporary file can be written");
    done = done && run_gnuplot(script_path, path, error) && copy_whole(output, path, error);
    g_unlink(script_path);
    g_unlink(output);
    return done;
}

bool
mw_plot_draw(const char *path, mw_plot_script_of script_of, const void *data, GError **error)
{
    g_autofree char *folder = NULL;
    bool svg, done;

    if (!mw_plot_format(path, &svg, error))
        return false;
    folder = g_dir_make_tmp("memwall-plot-XXXXXX", NULL);
    if (!folder) {
        set_plot_error(error, path, "no temporary folder can be made");
        return false;
    }
    done = draw_in(folder, path, svg, script_of, data, error);
    g_rmdir(folder);
    return done;
}
