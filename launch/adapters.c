/* LoRA's adapters, and the weights under them in fewer bits: PEFT's and bitsandbytes' part. */
#include "launch/internal.h"

/* Of a model whose modules have known names. */
static bool
decoder_of(const struct mw_launch_plan *plan, struct mw_decoder *decoder)
{
    const struct mw_settings *s = &plan->sizing->settings;

    /* PEFT adapts modules, and a mixture's experts are none in transformers 5. */
    if (!mw_model_decoder(plan->sizing->model, decoder, NULL) || decoder->experts)
        return false;
    mw_settings_adapt(s, decoder);
    return true;
}

static bool
has_no_names(const struct mw_launch_plan *plan)
{
    struct mw_decoder decoder;

    return !decoder_of(plan, &decoder);
}

static bool
trains_operators(const struct mw_launch_plan *plan)
{
    const struct mw_trained *trained = &plan->sizing->settings.trained;

    for (int i = 0; i < MW_OPERATOR_COUNT; i++)
        if (mw_operator_names_params(i) && !(trained->frozen >> i & 1))
            return true;
    return !trained->rank;
}

static bool
has_narrow_shards(const struct mw_launch_plan *plan)
{
    return plan->sizing->settings.frozen_dtype != MW_DTYPE_NONE &&
           (plan->sizing->params_partitioned || mw_launch_is_off_gpu(plan, MW_STATE_PARAMETERS));
}

const struct mw_launch_rule mw_launch_adapter_rules[] = {
    {"train", MW_LAUNCH_REFUSED, trains_operators,
     "the script trains all parameters, or adapters alone"},
    {"train", MW_LAUNCH_REFUSED, has_no_names, "what PEFT calls this model's modules is not known"},
    {"train", MW_LAUNCH_CARRIED, NULL, NULL},
    {"lora-alpha", MW_LAUNCH_CARRIED, NULL, NULL},
    {"weight-bits", MW_LAUNCH_REFUSED, has_narrow_shards,
     "the script keeps bitsandbytes' weights whole on each GPU"},
    {"weight-bits", MW_LAUNCH_CARRIED, NULL, NULL},
    {NULL, MW_LAUNCH_LEFT, NULL, NULL},
};

void
mw_launch_add_adapters(const struct mw_launch_plan *plan, struct mw_launch *out)
{
    struct mw_decoder decoder;

    if (!mw_launch_trains_lora(plan) || !decoder_of(plan, &decoder))
        return;
    mw_launch_add(out, MW_LAUNCH_ADAPTERS, mw_model_write_adapter_config(&decoder), false);
    if (plan->sizing->settings.frozen_dtype == MW_DTYPE_MXFP8)
        mw_launch_note(out, "weights of layers in 8 bits are bitsandbytes' LLM.int8, which keeps "
                            "outliers in 16 bits; planned are blocks of mxfp8");
}
