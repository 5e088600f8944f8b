#include "cli/run/paths.h"

#include "cli/paths.h"

bool
cli_run_paths_check(const struct cli_request *request, const struct cli_run_options *options,
                    GError **error)
{
    const struct cli_path fixed[] = {
        {CLI_PATH_READS_MODEL, "-m", request->model_name},
        {CLI_PATH_READS_PROFILE, "-H", request->hardware_name},
        {CLI_PATH_READS, "--deepspeed", request->deepspeed_file},
        {CLI_PATH_READS, "--data", options->data},
        {CLI_PATH_READS_WEIGHTS, "--weights", options->weights},
        {CLI_PATH_READS_WEIGHTS, "--adapter", options->adapter},
        {CLI_PATH_READS_WEIGHTS, "--from", options->from},
        {CLI_PATH_WRITES, "--log", options->log},
        {CLI_PATH_WRITES, "--save-timeline", options->save_timeline},
        {CLI_PATH_WRITES, "-o", request->output},
        {CLI_PATH_WRITES, "--write-deepspeed", request->write_deepspeed},
        {CLI_PATH_WRITES, "--trace", request->trace},
        {CLI_PATH_WRITES, "--plot", request->plot},
        {CLI_PATH_REPLACES, "--save", options->save},
    };
    guint drives = options->nvme ? g_strv_length(options->nvme) : 0;
    g_autofree struct cli_path *paths = g_new0(struct cli_path, G_N_ELEMENTS(fixed) + drives);
    size_t count = 0;

    for (; count < G_N_ELEMENTS(fixed); count++)
        paths[count] = fixed[count];
    for (guint i = 0; i < drives; i++)
        paths[count++] = (struct cli_path){CLI_PATH_KEEPS, "--nvme", options->nvme[i]};
    return cli_paths_check(paths, count, error) && cli_check_output(options->save_timeline, error);
}
