/* What a plan asks of its software that the software does not do: one table, which both the notes
 * and the choice among plans read. */
#include "study/lacks.h"

#include <glib.h>

#include "base/spell.h"
#include "plan/optimizers.h"

static bool
keeps_on_drives(const struct mw_sizing *sizing)
{
    return sizing->ledger[MW_TIER_NVME][MW_PURPOSE_PARAMETERS] +
               sizing->ledger[MW_TIER_NVME][MW_PURPOSE_OPTIMIZER_STATE] >
           0;
}

static bool
lacks_drives(const struct mw_sizing *sizing)
{
    return !sizing->hardware->offers.drives && keeps_on_drives(sizing);
}

static bool
lacks_host_parameters(const struct mw_sizing *sizing)
{
    return !sizing->hardware->offers.host_parameters &&
           sizing->ledger[MW_TIER_CPU][MW_PURPOSE_PARAMETERS];
}

static bool
lacks_host_gradients(const struct mw_sizing *sizing)
{
    return !sizing->hardware->offers.host_gradients &&
           sizing->ledger[MW_TIER_CPU][MW_PURPOSE_GRADIENTS];
}

static bool
lacks_host_activations(const struct mw_sizing *sizing)
{
    return !sizing->hardware->offers.host_activations &&
           sizing->ledger[MW_TIER_CPU][MW_PURPOSE_ACTIVATION_CHECKPOINTS];
}

/* `dtype`: of the model's own parameters, which are updated where state has no copy of them. */
static bool
is_updated_by(enum mw_host_optimizer kernel, const struct mw_optimizer_row *row,
              enum mw_dtype dtype)
{
    enum mw_dtype copy = row->dtypes[MW_KEPT_PARAMETER], moment = row->dtypes[MW_KEPT_MOMENTUM];

    if (kernel == MW_HOST_ANY)
        return true;
    return row->rule == (kernel == MW_HOST_LION ? MW_UPDATE_LION : MW_UPDATE_ADAMW) &&
           mw_dtype_bits(moment) == mw_dtype_bits(copy == MW_DTYPE_NONE ? dtype : copy);
}

static bool
updates_on_host_by(const struct mw_offers *offers, const struct mw_settings *settings)
{
    for (int i = 0; i < MW_PROFILE_LIST_MAX && offers->host_optimizers[i] >= 0; i++)
        if (is_updated_by((enum mw_host_optimizer)offers->host_optimizers[i],
                          mw_optimizer_row(settings->optimizer), settings->dtype))
            return true;
    return false;
}

static bool
lacks_host_optimizer(const struct mw_sizing *sizing)
{
    bool leaves = mw_sizing_state_elements(sizing, MW_TIER_CPU) > 0 ||
                  mw_sizing_state_elements(sizing, MW_TIER_NVME) > 0;

    return leaves && !mw_settings_updates_on_gpu(&sizing->settings) &&
           !updates_on_host_by(&sizing->hardware->offers, &sizing->settings);
}

static bool
lacks_tiles(const struct mw_sizing *sizing)
{
    return sizing->settings.tiles > 1 && !sizing->hardware->offers.tiled_operators;
}

static bool
lacks_narrow_weights(const struct mw_sizing *sizing)
{
    return sizing->settings.frozen_dtype != MW_DTYPE_NONE &&
           !sizing->hardware->offers.narrow_weights;
}

static bool
lacks_parts_of_int8(const struct mw_sizing *sizing)
{
    const struct mw_placement *params = &sizing->settings.placement[MW_STATE_PARAMETERS];
    bool parts = sizing->params_partitioned && sizing->shards > 1;

    return sizing->settings.frozen_dtype == MW_DTYPE_MXFP8 &&
           sizing->hardware->offers.narrow_weights &&
           !sizing->hardware->offers.int8_weights_leave &&
           (parts || mw_placement_has(params, MW_TIER_CPU) ||
            mw_placement_has(params, MW_TIER_NVME));
}

static bool
lacks_update_beside(const struct mw_sizing *sizing)
{
    return mw_settings_update_beside(&sizing->settings) && !sizing->hardware->offers.update_beside;
}

static bool
lacks_partitioned_stages(const struct mw_sizing *sizing)
{
    return sizing->pp > 1 && sizing->gradients_partitioned &&
           !sizing->hardware->offers.partitioned_stages;
}

static bool
lacks_groups(const struct mw_sizing *sizing)
{
    return sizing->replicas > 1 && !sizing->hardware->offers.hybrid_shard;
}

static bool
lacks_context(const struct mw_sizing *sizing)
{
    const struct mw_offers *offers = &sizing->hardware->offers;
    bool ring = sizing->settings.cp_kind == MW_CONTEXT_RING;

    return sizing->cp > 1 && !(ring ? offers->context_ring : offers->context_all_to_all);
}

static bool
lacks_expert_parallel(const struct mw_sizing *sizing)
{
    return sizing->ep > 1 && !sizing->hardware->offers.expert_parallel;
}

static bool
lacks_gpus(const struct mw_sizing *sizing)
{
    int64_t most = sizing->hardware->offers.gpus;

    return most && sizing->ranks > most;
}

static char *
optimizer_name(const struct mw_sizing *sizing)
{
    return g_strdup(mw_optimizer_name(sizing->settings.optimizer));
}

static char *
most_gpus(const struct mw_sizing *sizing)
{
    int64_t most = sizing->hardware->offers.gpus;

    return g_strdup_printf("%" G_GINT64_FORMAT " GPU%s", most, most == 1 ? "" : "s");
}

#define SO ", so it cannot run this plan"

/* Behind the software's name: `text`, what `named` says of the plan, and `end`. */
static const struct lack {
    bool (*is_lacking)(const struct mw_sizing *sizing);
    const char *text;
    char *(*named)(const struct mw_sizing *sizing); /* NULL: nothing */
    const char *end;
} lacks[] = {
    {lacks_drives, "keeps no state on drives", NULL, SO},
    {lacks_host_parameters, "keeps no parameters in host memory", NULL, SO},
    {lacks_host_gradients, "keeps no gradients in host memory", NULL, SO},
    {lacks_host_activations, "keeps no activation checkpoints in host memory", NULL, SO},
    {lacks_host_optimizer, "has no CPU optimizer that updates by ", optimizer_name, SO " as it is"},
    {lacks_tiles, "cuts no operator into tiles ({tiles})", NULL, SO},
    {lacks_narrow_weights, "keeps no frozen weights in fewer bits ({weight-bits})", NULL, SO},
    {lacks_parts_of_int8,
     "keeps frozen weights in 8 bits whole on each GPU, as its module holds them "
     "({weight-bits=8})",
     NULL, SO},
    {lacks_update_beside, "updates no parameter beside backward ({update})", NULL, SO},
    {lacks_partitioned_stages,
     "does not partition gradients or parameters (ZeRO-2, ZeRO-3) beside pipeline stages", NULL,
     SO},
    {lacks_groups, "partitions over all data-parallel GPUs and not over groups of them", NULL, SO},
    {lacks_context, "does not share sequences among GPUs so", NULL, ", and cannot run this plan"},
    {lacks_expert_parallel, "does not spread the experts of such a model over GPUs", NULL, SO},
    {lacks_gpus, "trains with at most ", most_gpus, SO},
};

int
mw_count_lacks(const struct mw_question *question, const struct mw_sizing *sizing)
{
    int count = 0;

    for (size_t i = 0; question->software && i < G_N_ELEMENTS(lacks); i++)
        count += lacks[i].is_lacking(sizing);
    return count;
}

void
mw_note_lacks(const struct mw_question *question, const struct mw_sizing *sizing, GPtrArray *notes)
{
    const char *software = question->software ? mw_profile_name(question->software) : NULL;

    for (size_t i = 0; software && i < G_N_ELEMENTS(lacks); i++) {
        if (!lacks[i].is_lacking(sizing))
            continue;
        g_autofree char *text = mw_spelled(lacks[i].text);
        g_autofree char *named = lacks[i].named ? lacks[i].named(sizing) : g_strdup("");
        g_ptr_array_add(notes, g_strconcat(software, " ", text, named, lacks[i].end, NULL));
    }
}
