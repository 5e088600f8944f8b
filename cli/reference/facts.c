/* What the reference says beside verbs and options: statuses, variables, files. */
#include <stddef.h>

#include "cli/reference/reference.h"
#include "exec/device/cpu/kernels.h"

const struct cli_fact cli_exit_statuses[] = {
    {"0", "done"},
    {"1", "failed; or what an earlier run left is damaged, lost or in use"},
    {"2", "the command, or a file that it names, cannot be used: nothing was started"},
    {"3", "the plan does not fit"},
    {"4", "a gate failed: check found that something became worse"},
    {"130", "Ctrl-C ended run, after a whole step; 143 SIGTERM, 129 SIGHUP; all: 128 and the "
            "signal's number"},
    {"141", "the reader of the output went away, as `memwall plan ... | head` does"},
    {NULL, NULL},
};

const struct cli_fact cli_environment[] = {
    {"MEMWALL_NVME", "directories for the state of runs, one per drive, with \":\" between them, "
                     "if --nvme names none"},
    {MW_CPU_ISA_VARIABLE, "instruction set that the cores compute with (default: the fastest of "
                          "those that `memwall list devices` names)"},
    {"MEMWALL_DATA", "folder with models/, hwprofiles/ and software/ that is searched first"},
    {"XDG_CONFIG_HOME", "where the user's configuration is (default: ~/.config)"},
    {"XDG_STATE_HOME", "where the user's runs are (default: ~/.local/state)"},
    {"HOME", "the user's home directory: ~ in these defaults"},
    {"COLUMNS", "width of tables on a terminal (default: the terminal's)"},
    {"TERM", "terminal: on `dumb` ones run shows no progress"},
    {"CUDA_VISIBLE_DEVICES", "GPUs that memwall may use, as CUDA reads it"},
    {"NCCL_ALGO", "algorithm of collectives between GPUs, as NCCL reads it"},
    {NULL, NULL},
};

const struct cli_fact cli_files[] = {
    {"~/.config/memwall/hwprofiles/NAME.ini",
     "the user's hardware profiles, for -H NAME; calibrate writes here.ini, which is read where -H "
     "is left out"},
    {"~/.local/state/memwall/runs/NAME/",
     "a run: its description, and its state unless --nvme or MEMWALL_NVME names another "
     "place"},
    {"share/memwall/models/presets.ini",
     "models that memwall knows by name, below the folder where it is installed"},
    {"share/memwall/hwprofiles/NAME.ini", "hardware profiles that memwall knows by name"},
    {"share/memwall/software/NAME.ini", "software profiles that memwall knows by name"},
    {NULL, NULL},
};
