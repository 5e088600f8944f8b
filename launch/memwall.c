/* memwall's own executor: `memwall run` with every setting of the plan. */
#include <string.h>

#include "launch/internal.h"
#include "plan/optimizers.h"
#include "planner/settings/table.h"

static bool
cannot_run(const struct mw_launch_plan *plan)
{
    return !mw_strategy_traits(plan->sizing->settings.strategy)->runs;
}

static bool
does_not_run(const struct mw_launch_plan *plan)
{
    return !mw_optimizer_row(plan->sizing->settings.optimizer)->runs;
}

static const struct mw_launch_rule rules[] = {
    {"strategy", MW_LAUNCH_REFUSED, cannot_run, "`memwall run` does not do it yet"},
    {"tp", MW_LAUNCH_REFUSED, NULL,
     "the ranks of tensor slices are not written yet; `mpirun memwall run --tp` has them"},
    {"shard-group", MW_LAUNCH_CARRIED, NULL, NULL},
    {"data-parallel", MW_LAUNCH_REFUSED, NULL, "`memwall run` has it on cores only"},
    {"matmul-dtype", MW_LAUNCH_REFUSED, NULL, "`memwall run` has no fp8"},
    {"relu-mask", MW_LAUNCH_REFUSED, NULL, "`memwall run` has none"},
    {"relu-sparsity", MW_LAUNCH_REFUSED, NULL, "`memwall run` has none"},
    {"optimizer", MW_LAUNCH_REFUSED, does_not_run, "`memwall run` does not have it"},
    {NULL, MW_LAUNCH_LEFT, NULL, NULL},
};

static char *
why_not(const struct mw_launch_plan *plan)
{
    const struct mw_model *model = plan->sizing->model;

    return model->runs
               ? NULL
               : g_strdup(*model->why_not ? model->why_not : "`memwall run` has no decoder for it");
}

static void
add_settings(GString *shell, const struct mw_launch_plan *plan)
{
    for (char *const *text = plan->asked; *text; text++) {
        const char *equals = strchr(*text, '=');
        g_autofree char *name = g_strndup(*text, (gsize)(equals - *text));
        if (mw_setting_find(name) && strcmp(name, "tokens")) {
            g_autofree char *option = g_strconcat("--", name, NULL);
            mw_launch_option(shell, option, equals + 1);
        } else if (strchr(name, '.')) {
            mw_launch_option(shell, "--set", *text);
        }
    }
}

#define HOSTFILE " --hostfile \"${HOSTFILE:?is missing: a file with a line NODE slots=GPUS each}\""

static void
begin(GString *shell, const struct mw_launch_plan *plan, struct mw_launch *out)
{
    const struct mw_settings *s = &plan->sizing->settings;
    int64_t ranks = s->nodes * s->gpus_per_node;

    if (s->nodes > 1)
        mw_launch_fill(out,
                       "HOSTFILE: fill in a file with a line \"NODE slots=%" G_GINT64_FORMAT
                       "\" for each of %" G_GINT64_FORMAT " nodes, for mpirun",
                       s->gpus_per_node, s->nodes);
    g_string_append(shell, "exec");
    if (ranks > 1)
        g_string_append_printf(shell, " ${MPIRUN-mpirun%s -n %" G_GINT64_FORMAT "}",
                               s->nodes > 1 ? HOSTFILE : "", ranks);
    g_string_append(shell, " memwall run");
}

static void
drives(GString *shell, const struct mw_launch_plan *plan, struct mw_launch *out)
{
    if (!mw_launch_uses_nvme(plan))
        return;
    mw_launch_variable(shell, "--nvme", "NVME");
    mw_launch_fill(out, "NVME: fill in a folder on the drives");
}

/* The whole path of an .ini file; NULL: a name. */
static char *
file_of(const char *machine)
{
    return g_str_has_suffix(machine, ".ini") ? g_canonicalize_filename(machine, NULL) : NULL;
}

static bool
write_files(const struct mw_launch_plan *plan, struct mw_launch *out, GError **error)
{
    GString *shell = mw_launch_shell(plan, mw_launch_memwall.name);
    const char *model = mw_launch_asked(plan, "model");
    g_autofree char *path = plan->is_path ? g_canonicalize_filename(model, NULL) : NULL;
    g_autofree char *machine = file_of(mw_launch_asked(plan, "hardware"));
    int64_t steps = mw_launch_steps(plan);

    g_string_append(shell, ": \"${DATA:?is missing: a file of tokens or of text}\"\n");
    mw_launch_fill(out, "DATA: fill in a file of tokens (.bin, the format of llm.c) or of text");
    if (mw_launch_uses_nvme(plan))
        g_string_append(shell, ": \"${NVME:?is missing: a folder on the drives}\"\n");
    begin(shell, plan, out);
    mw_launch_option(shell, "-m", path ? path : model);
    mw_launch_option(shell, "-H", machine ? machine : mw_launch_asked(plan, "hardware"));
    mw_launch_option(shell, "-s", mw_launch_asked(plan, "strategy"));
    add_settings(shell, plan);
    mw_launch_variable(shell, "--data", "DATA");
    drives(shell, plan, out);
    if (steps)
        mw_launch_option_number(shell, "--steps", steps);
    g_string_append(shell, " \\\n    \"$@\"\n");
    mw_launch_add(out, MW_LAUNCH_START, g_string_free(shell, FALSE), true);
    return true;
}

const struct mw_launch_target mw_launch_memwall = {
    .name = "memwall",
    .title = "memwall",
    .rules = {rules},
    .carries_all = true,
    .why_not = why_not,
    .write = write_files,
};
