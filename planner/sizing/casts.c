/* Software whose only parameters are fp32: it casts them to 16 bits where they are used.  What that
 * makes wider than a plan of 16-bit parameters (docs/MODEL.md 5.3e, 12.11b to 12.11d). */
#include <glib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "plan/optimizers.h"
#include "planner/sizing/internal.h"

bool
mw_sizing_casts(const struct mw_sizing *sizing)
{
    return sizing->hardware->memory_use.bytes_per_cast > 0 &&
           sizing->settings.dtype != MW_DTYPE_FP32 &&
           mw_optimizer_keeps(sizing->settings.optimizer, MW_KEPT_PARAMETER);
}

/* What partitions state casts the whole module to 16 bits, and no autocast is on beside it:
 * DeepSpeed (deepspeed/runtime/engine.py, _configure_distributed_model; huggingface/accelerate,
 * accelerator.py, native_amp), on one GPU too and wherever its state is; FSDP's units have one
 * type. */
static bool
engine_casts(const struct mw_sizing *sizing)
{
    return (sizing->optimizer_partitioned || sizing->params_partitioned) &&
           !sizing->hardware->memory_use.autocast_partitioned;
}

/* Products of fp32 parameters and the fp32 embedding: autocast of PyTorch. */
bool
mw_sizing_autocasts(const struct mw_sizing *sizing)
{
    return mw_sizing_casts(sizing) && !engine_casts(sizing);
}

double
mw_sizing_own_gradient_bytes(const struct mw_sizing *sizing)
{
    return (double)(mw_sizing_casts(sizing) ? mw_dtype_element_bytes(MW_DTYPE_FP32)
                                            : sizing->element_bytes);
}

/* Of models whose file says that they are quantized so, PEFT leaves the rest as it is
 * (huggingface/peft, utils/other.py, prepare_model_for_kbit_training). */
static bool
stays_in_16_bits(const struct mw_model *model)
{
    static const char *const methods[] = {"gptq", "aqlm", "eetq", "hqq", "torchao"};

    for (size_t i = 0; model->quantized && i < G_N_ELEMENTS(methods); i++)
        if (!strcmp(model->quantized_by, methods[i]))
            return true;
    return false;
}

/* Where the weights of layers are narrow, unless all are cast to 16 bits behind that. */
bool
mw_sizing_widens_frozen(const struct mw_sizing *sizing)
{
    return sizing->hardware->memory_use.bytes_per_frozen > (double)sizing->element_bytes &&
           sizing->settings.frozen_dtype != MW_DTYPE_NONE && !engine_casts(sizing) &&
           !stays_in_16_bits(sizing->model);
}

/* What is looked up has the embedding's type, and a sum of fp32 and 16 bits is fp32. */
int64_t
mw_sizing_stream_bytes(const struct mw_sizing *sizing)
{
    const struct mw_class_info *head = &sizing->classes[MW_CLASS_HEAD];
    bool here = head->blocks && head->operator_count;
    bool trained = here ? head->operators[0].trained : sizing->trained_params == sizing->params;
    bool wide = trained ? mw_sizing_autocasts(sizing) : mw_sizing_widens_frozen(sizing);

    return wide ? MAX(sizing->element_bytes, mw_dtype_element_bytes(MW_DTYPE_FP32))
                : sizing->element_bytes;
}

static bool
rests_on_gpu(const struct mw_sizing *sizing, enum mw_state state)
{
    const struct mw_placement *placement = &sizing->settings.placement[state];

    return placement->count == 1 && placement->part[0].tier == MW_TIER_GPU;
}

/* On the GPU: where state leaves it, it is the 16-bit parameters that stay. */
static bool
lacks_16_bits(const struct mw_sizing *sizing)
{
    return mw_sizing_has_moments(sizing) && mw_sizing_casts(sizing) &&
           (sizing->params_partitioned || !sizing->optimizer_partitioned) &&
           rests_on_gpu(sizing, MW_STATE_PARAMETERS) && rests_on_gpu(sizing, MW_STATE_GRADIENTS) &&
           rests_on_gpu(sizing, MW_STATE_OPTIMIZER);
}

int64_t
mw_sizing_lacking_bytes(const struct mw_sizing *sizing)
{
    int64_t bytes = 0;

    if (!lacks_16_bits(sizing))
        return 0;
    for (int c = 0; c < MW_CLASS_COUNT; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        for (int t = 0; class->blocks && t < class->tensor_count; t++)
            if (class->tensors[t].trained)
                bytes +=
                    class->blocks * mw_round_up(mw_sizing_home_bytes(sizing, MW_BUFFER_PARAMETERS,
                                                                     &class->tensors[t]),
                                                MW_SLOT_ALIGNMENT_BYTES);
    }
    return bytes;
}

/* --- the casts -------------------------------------------------------------------------------- */

/* Of the embedding, or of the logits' weight. */
static int64_t
table_params(const struct mw_sizing *sizing, enum mw_class class, bool trained)
{
    const struct mw_class_info *info = &sizing->classes[class];
    int64_t params = 0;

    for (int i = 0; info->blocks && i < info->operator_count; i++)
        if (info->operators[i].trained == trained)
            params = MAX(params, info->operators[i].params);
    return params;
}

/* Trained parameters that no product takes: those of an embedding that has no logits. */
static int64_t
looked_up(const struct mw_sizing *sizing)
{
    return mw_sizing_tied(sizing) ? 0 : table_params(sizing, MW_CLASS_HEAD, true);
}

double
mw_sizing_logits_cast(const struct mw_sizing *sizing)
{
    enum mw_class class = mw_sizing_tied(sizing) ? MW_CLASS_HEAD : MW_CLASS_TAIL;
    double trained = (double)table_params(sizing, class, true);
    double frozen = (double)table_params(sizing, class, false);

    return (mw_sizing_casts_are_apart(sizing)
                ? sizing->hardware->memory_use.bytes_per_cast * trained
                : 0) +
           (mw_sizing_widens_frozen(sizing) ? (double)sizing->element_bytes * frozen : 0);
}

/* Where the plan's 16-bit parameters do not stand for them. */
bool
mw_sizing_casts_are_apart(const struct mw_sizing *sizing)
{
    return mw_sizing_autocasts(sizing) &&
           (lacks_16_bits(sizing) || mw_sizing_micro_batches(sizing) > 1);
}

double
mw_sizing_layer_casts(const struct mw_sizing *sizing)
{
    enum mw_class class = mw_sizing_tied(sizing) ? MW_CLASS_HEAD : MW_CLASS_TAIL;
    int64_t params = sizing->trained_params - looked_up(sizing) - table_params(sizing, class, true);

    return mw_sizing_casts_are_apart(sizing)
               ? sizing->hardware->memory_use.bytes_per_cast * (double)MAX(0, params)
               : 0;
}
