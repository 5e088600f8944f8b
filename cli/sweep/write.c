/* The rows of a sweep as a file or on standard output, and as pictures. */
#include "base/error.h"
#include "base/whole_file.h"
#include "cli/cli.h"
#include "cli/sweep/columns.h"
#include "cli/sweep/job.h"
#include "report/plot_rows.h"

static void
print(const struct mw_rows *rows, bool json, FILE *out)
{
    if (json) {
        mw_json_rows_write(out, rows);
        return;
    }
    fprintf(out, "%s\n", rows->names);
    rows->rewind(rows->data);
    for (char *row; (row = rows->next(rows->data)); g_free(row))
        fprintf(out, "%s\n", row);
}

static bool
write_rows(const struct cli_sweep_wish *wish, const struct mw_rows *rows, GError **error)
{
    if (wish->columns) {
        const struct cli_sweep_wish all = {.output = wish->output, .json = wish->json};
        struct cli_columns *columns = cli_columns_new(wish->columns, rows);
        const struct mw_rows chosen = cli_columns_rows(columns);
        bool good = write_rows(&all, &chosen, error);
        cli_columns_free(columns);
        return good;
    }
    if (!wish->output) {
        print(rows, wish->json, stdout);
        return true;
    }
    struct mw_file *file = mw_file_open(wish->output, error);
    if (!file)
        return false;
    print(rows, wish->json, file->stream);
    return mw_file_commit(file, error);
}

bool
cli_sweep_write(const struct cli_sweep_wish *wish, const struct mw_rows *rows, GError **error)
{
    if (!write_rows(wish, rows, error))
        return false;
    for (char **plot = wish->plots; plot && *plot; plot++)
        if (!mw_plot_rows_write(*plot, rows, error))
            return false;
    return true;
}
