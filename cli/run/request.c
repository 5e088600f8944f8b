#include "cli/run/request.h"

#include "exec/device/backend.h"
#include "hardware/scale.h"
#include "planner/settings/settings.h"

/* Ranks that outnumber the devices share the machine: each has a part of memory and cores, and they
 * exchange data by copies. */
static void
share_device(struct mw_hardware *hardware, int ranks)
{
    double share = (double)hardware->gpus_per_node / ranks;

    if (share >= 1)
        return;
    hardware->gpus_per_node = ranks;
    mw_hardware_scale_part(hardware, MW_HW_PART_GPU, share);
    if (!hardware->fabric_bytes_per_s)
        hardware->fabric_bytes_per_s = hardware->pcie_h2d_bytes_per_s * share;
}

/* One process stands for one GPU.  Without --gpus the plan is for the processes that were started,
 * on the nodes where they run or on as many nodes as --nodes says. */
static void
plan_for(struct mw_settings *settings, const struct mw_ranks *ranks)
{
    if (settings->gpus_per_node != MW_AUTO)
        return;
    if (settings->nodes > 1) {
        settings->gpus_per_node = MAX(mw_ranks_count(ranks) / settings->nodes, 1);
        return;
    }
    settings->gpus_per_node = mw_ranks_node_count(ranks);
    settings->nodes = mw_ranks_count(ranks) / mw_ranks_node_count(ranks);
}

/* Sequences per GPU and step if no batch is given, as in the Hugging Face trainer
 * (per_device_train_batch_size): a first run then takes seconds per step.  The planner's default
 * global batch is that of trainings over months. */
#define DEFAULT_SEQUENCES 8

static void
bound_batch(struct mw_settings *settings, const struct mw_model *model)
{
    int64_t seq = settings->seq == MW_AUTO ? mw_settings_default_seq(model) : settings->seq;

    if (settings->micro_batch == MW_AUTO && settings->global_batch == MW_AUTO)
        settings->step_tokens_max =
            (double)DEFAULT_SEQUENCES * (double)seq * mw_settings_batch_gpus(settings);
}

struct cli_request
cli_run_request(const struct cli_request *request, const struct mw_ranks *ranks,
                const struct cli_limits *limits)
{
    struct cli_request mine = *request;

    for (int outlook = 0; outlook < MW_OUTLOOK_COUNT; outlook++) {
        share_device(&mine.question.hardware[outlook], mw_ranks_node_count(ranks));
        cli_limits_apply(limits, mw_ranks_node_count(ranks), &mine.question.hardware[outlook]);
    }
    plan_for(&mine.question.settings, ranks);
    mine.question.settings.folds = true;
    bound_batch(&mine.question.settings, &mine.question.model);
    return mine;
}

/* GPUs compute bf16 and fp16 products equally fast; cores do not. */
void
cli_run_request_tell_dtype(const struct cli_training *training)
{
    const struct cli_request *request = training->request;
    const char *name = mw_profile_name(request->question.profile);
    const struct mw_plan *plan = training->answer->plan;
    bool fp16 = plan && plan->shape.dtype == MW_DTYPE_FP16;
    bool has_bf16 = request->question.hardware[MW_OUTLOOK_TYPICAL].gpu_bf16;
    bool cores = !training->options.backend->apart && training->options.backend != &mw_backend_null;

    if (!fp16 || mw_ranks_index(training->ranks) > 0)
        return;
    if (request->question.settings.dtype == MW_DTYPE_BF16)
        cli_say("--dtype bf16: the GPU of profile %s computes products in fp16 only; this run uses "
                "fp16",
                name);
    else if (has_bf16 && cores)
        cli_say("profile %s gives the rate of bf16 products; fp16 products take longer on cores: "
                "`memwall calibrate --dtype fp16` measures them",
                name);
}

/* Says if the profile was measured with another device. */
void
cli_run_request_tell_backend(const struct cli_training *training)
{
    const struct mw_profile *profile = training->request->question.profile;
    const char *measured = mw_profile_word(profile, "backend"),
               *here = training->options.backend->name;

    if (measured && strcmp(measured, here) && training->options.backend != &mw_backend_null &&
        mw_ranks_index(training->ranks) == 0)
        cli_say("profile %s was measured with --backend %s; this run computes with %s",
                mw_profile_name(profile), measured, here);
}
