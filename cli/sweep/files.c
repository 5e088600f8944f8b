#include "cli/sweep/files.h"

#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/paths.h"

static void
add(GArray *files, enum cli_path_use use, const char *option, const char *path)
{
    const struct cli_path file = {use, option, path};

    g_array_append_val(files, file);
}

static GArray *
written_by(const struct cli_sweep_wish *wish)
{
    GArray *files = g_array_new(FALSE, FALSE, sizeof(struct cli_path));

    add(files, CLI_PATH_WRITES, "-o", wish->output);
    for (char **plot = wish->plots; plot && *plot; plot++)
        add(files, CLI_PATH_WRITES, "--plot", strchr(*plot, ':') + 1);
    return files;
}

/* What may name a file that a run reads or writes: a word, or what follows its "=". */
static void
add_measure(GArray *files, char **options)
{
    for (char **option = options; option && *option; option++) {
        const char *value = strchr(*option, '=');
        if (**option != '-')
            add(files, CLI_PATH_READS, "--measure", *option);
        else if (value)
            add(files, CLI_PATH_READS, "--measure", value + 1);
    }
}

/* The values of axes that name files. */
static void
add_axes(GArray *files, const struct mw_space *space)
{
    static const struct {
        const char *name;
        enum cli_path_use use;
    } kinds[] = {{"model", CLI_PATH_READS_MODEL},
                 {"hardware", CLI_PATH_READS_PROFILE},
                 {"deepspeed", CLI_PATH_READS}};
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);

    for (size_t column = 0; column < mw_space_columns(space); column++)
        for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++) {
            if (strcmp(mw_space_name(space, column), kinds[k].name))
                continue;
            g_hash_table_remove_all(seen);
            for (int64_t point = 0; point < mw_space_points(space); point++) {
                const char *value = mw_space_value(space, point, column);
                if (g_hash_table_add(seen, (char *)value))
                    add(files, kinds[k].use, "--over", value);
            }
        }
}

static bool
check(const struct cli_sweep_wish *wish, const GArray *files, GError **error)
{
    if (wish->output && !*wish->output)
        return mw_refuse(error, "-o: a file's name is missing");
    return cli_paths_check((const struct cli_path *)(const void *)files->data, files->len, error) &&
           cli_check_output(wish->output, error);
}

bool
cli_sweep_check_files(const struct cli_sweep_wish *wish, const struct cli_request *request,
                      const struct mw_space *space, GError **error)
{
    g_autoptr(GArray) files = written_by(wish);

    add(files, CLI_PATH_READS, "--points", wish->points_file);
    add(files, CLI_PATH_READS_MODEL, "-m", request->model_name);
    add(files, CLI_PATH_READS_PROFILE, "-H", request->hardware_name);
    add(files, CLI_PATH_READS, "--deepspeed", request->deepspeed_file);
    add_measure(files, wish->measure.options);
    add_axes(files, space);
    return check(wish, files, error);
}

bool
cli_sweep_check_merge(const struct cli_sweep_wish *wish, char **shards, GError **error)
{
    g_autoptr(GArray) files = written_by(wish);

    for (; *shards; shards++)
        add(files, CLI_PATH_READS, "--merge", *shards);
    return check(wish, files, error);
}
