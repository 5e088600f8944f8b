/* Which ranks and batches make sense on a machine and for a model. */
#include <glib.h>

#include "planner/error.h"
#include "planner/sizing_internal.h"

static bool
check_ranks(const struct mw_settings *settings, const struct mw_hardware *hw, GError **error)
{
    int64_t ranks = settings->nodes * settings->gpus_per_node;
    double sequences = settings->micro_batch * settings->tp;

    if (settings->gpus_per_node > hw->gpus_per_node)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "--gpus %" G_GINT64_FORMAT ": the profile has %" G_GINT64_FORMAT
                    " GPUs a node; give 1 to %" G_GINT64_FORMAT " (and --nodes for more)",
                    settings->gpus_per_node, hw->gpus_per_node, hw->gpus_per_node);
    else if (settings->nodes > 1 && hw->nic_bytes_per_s <= 0)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "--nodes %" G_GINT64_FORMAT
                    ": the profile has no network; give 1, or set network.gb_per_s",
                    settings->nodes);
    else if (hw->nodes_max > 0 && settings->nodes > hw->nodes_max)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "--nodes %" G_GINT64_FORMAT ": the profile has %" G_GINT64_FORMAT
                    " at most; give 1 to %" G_GINT64_FORMAT,
                    settings->nodes, hw->nodes_max, hw->nodes_max);
    else if (settings->tp > ranks || ranks % settings->tp)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "--tp %" G_GINT64_FORMAT ": must divide the %" G_GINT64_FORMAT " GPUs",
                    settings->tp, ranks);
    else if (settings->unfold && settings->partition == MW_PARTITION_OWNER && ranks > settings->tp)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "unfold: owners take turns, which only a folded plan can say; give "
                    "--partition bandwidth");
    else if (sequences < 0.999 || sequences > 1e6 ||
             ABS(sequences - (double)(int64_t)(sequences + 0.5)) > 1e-6)
        g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                    "--batch %g: times --tp %" G_GINT64_FORMAT
                    " it must be a whole number of sequences from 1 to 1000000",
                    settings->micro_batch, settings->tp);
    else
        return true;
    return false;
}

static bool
check_slicing(const struct mw_model *model, int64_t tp, GError **error)
{
    if (model->heads % tp == 0 && model->hidden % tp == 0)
        return true;
    g_set_error(error, MW_ERROR, MW_ERROR_INVALID,
                "--tp %" G_GINT64_FORMAT ": must divide the %" G_GINT64_FORMAT
                " heads and the hidden size %" G_GINT64_FORMAT " of %s",
                tp, model->heads, model->hidden, model->name);
    return false;
}

bool
mw_sizing_check(const struct mw_model *model, const struct mw_hardware *hardware,
                const struct mw_settings *settings, GError **error)
{
    return check_ranks(settings, hardware, error) && check_slicing(model, settings->tp, error);
}
