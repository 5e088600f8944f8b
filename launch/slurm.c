/* A batch job of Slurm for the files of another target. */
#include "launch/internal.h"

/* What launch.sh asks for, from what Slurm says. */
static const char by_node[] =
    "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
    "export MASTER_ADDR\n"
    "srun --ntasks-per-node 1 bash -c 'NODE_RANK=$SLURM_NODEID exec bash launch.sh'\n";

static const char by_rank[] = "MPIRUN='' srun bash launch.sh\n";

/* DeepSpeed's launcher wants all nodes in a file too. */
static void
add_hostfile(GString *job, const struct mw_settings *s)
{
    g_string_append_printf(
        job,
        "export HOSTFILE=\"$PWD/hostfile.$SLURM_JOB_ID\"\n"
        "scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed 's/$/ slots=%" G_GINT64_FORMAT
        "/' > \"$HOSTFILE\"\n",
        s->gpus_per_node);
}

/* What Slurm says need not be filled in. */
static void
forget(GPtrArray *fill)
{
    for (guint i = fill->len; i-- > 0;)
        if (g_str_has_prefix(fill->pdata[i], "HOSTFILE") ||
            g_str_has_prefix(fill->pdata[i], "MASTER_ADDR"))
            g_ptr_array_remove_index(fill, i);
}

void
mw_launch_slurm(const struct mw_launch_plan *plan, const struct mw_launch_target *target,
                struct mw_launch *out)
{
    const struct mw_settings *s = &plan->sizing->settings;
    bool ranks = target == &mw_launch_memwall;
    GString *job = g_string_new("#!/bin/bash\n");

    g_string_append_printf(job,
                           "#SBATCH --job-name=memwall-%s\n"
                           "#SBATCH --nodes=%" G_GINT64_FORMAT "\n"
                           "#SBATCH --ntasks-per-node=%" G_GINT64_FORMAT "\n"
                           "#SBATCH --gpus-per-node=%" G_GINT64_FORMAT "\n"
                           "#SBATCH --exclusive\n"
                           "set -euo pipefail\n"
                           "cd \"${SLURM_SUBMIT_DIR:-.}\"\n",
                           target->name, s->nodes, ranks ? s->gpus_per_node : 1, s->gpus_per_node);
    if (target == &mw_launch_deepspeed && s->nodes > 1)
        add_hostfile(job, s);
    forget(out->fill);
    g_string_append(job, ranks ? by_rank : by_node);
    mw_launch_add(out, MW_LAUNCH_JOB, g_string_free(job, FALSE), true);
    mw_launch_fill(out, "job.sbatch: sbatch it in its folder, with --account, --partition, --time "
                        "and the environment that your site has");
}
