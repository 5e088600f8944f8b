/* What eager software keeps of a Llama layer whose own parameters are frozen beside adapters, and
 * what there is more while its backward runs, tensor by tensor (docs/MODEL.md 12.14d).
 *
 * Modules of transformers, of PEFT's LoRA (huggingface/peft, tuners/lora/layer.py and bnb.py) and
 * of bitsandbytes (autograd/_functions.py) under autocast; rates/adapter_bytes.csv has what was
 * measured of them.  The widths: h of what passes from layer to layer, f of the MLP. */
#include <glib.h>
#include <math.h>

#include "planner/sizing/internal.h"

#define FP32 4.0 /* bytes */

/* Bytes of an element, of what is as wide. */
struct types {
    double e, stream, inner; /* of 16 bits; between layers; of gate and up */
    bool narrow;             /* weights */
    bool wide_adapters;      /* of fp32, which autocast casts for each product */
};

static struct types
types_of(const struct mw_sizing *sizing)
{
    double e = (double)sizing->element_bytes, stream = (double)mw_sizing_stream_bytes(sizing);
    bool narrow = sizing->settings.frozen_dtype != MW_DTYPE_NONE;
    bool as_input = narrow && sizing->hardware->memory_use.narrow_as_input;

    return (struct types){e, stream, as_input ? stream : e, narrow, mw_sizing_autocasts(sizing)};
}

static bool
adapts(const struct mw_sizing *sizing, enum mw_operator operator_)
{
    return sizing->settings.trained.adapted >> operator_ & 1;
}

/* PEFT makes what an adapter takes as wide as the adapter is, but where weights are narrow. */
static bool
widens(const struct types *types)
{
    return types->wide_adapters && !types->narrow;
}

/* Adapters have a cast of their own of what is not in 16 bits. */
static bool
casts(const struct types *types, double input)
{
    return widens(types) || input > types->e;
}

static bool
trains_adapters_alone(const struct mw_class_info *class)
{
    for (int i = 0; i < class->operator_count; i++) {
        const struct mw_operator_info *info = &class->operators[i];
        if (info->trained && info->params && !mw_operator_row(info->operator_)->adapts)
            return false;
    }
    return true;
}

/* Layers of the kind that was measured: two RMS norms, a gated MLP, no experts, whole on a GPU. */
bool
mw_sizing_counts_adapters(const struct mw_sizing *sizing)
{
    const struct mw_model *model = sizing->model;
    bool alone = true;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++)
        alone &= !sizing->classes[c].blocks || trains_adapters_alone(&sizing->classes[c]);
    return alone && sizing->hardware->memory_use.adapters_cast &&
           mw_sizing_activations_kept(sizing->hardware) > 1 && sizing->settings.trained.rank > 0 &&
           sizing->settings.dtype != MW_DTYPE_FP32 && sizing->tp == 1 &&
           mw_model_has_rms_norm(model) && model->norms_per_layer == 2 &&
           mw_model_is_gated(model) && !model->experts && !model->kv_lora && !model->described &&
           !model->mixed;
}

/* Matrices of an operator that have adapters: A is one product for those with the same input. */
static double
adapted_matrices(const struct mw_sizing *sizing, enum mw_operator adapted)
{
    int64_t rank = sizing->settings.trained.rank, rows = 0;

    for (int c = MW_CLASS_LAYERS; c < MW_CLASS_TAIL; c++) {
        const struct mw_class_info *class = &sizing->classes[c];
        int64_t of_class = 0;
        for (int i = 0; class->blocks && i < class->operator_count; i++) {
            const struct mw_operator_info *info = &class->operators[i];
            if (mw_operator_row(info->operator_)->adapts != adapted)
                continue;
            for (uint32_t p = 0; p < info->product_count; p++)
                if (info->products[p].k != rank)
                    of_class += info->products[p].n * info->products[p].count;
        }
        rows = MAX(rows, of_class);
    }
    return (double)rows / (double)rank;
}

/* Of a norm's result, of which the plan has one copy if any adapter reads it. */
static double
casts_of_norm(const struct mw_sizing *sizing, const struct types *types, enum mw_operator operator_)
{
    bool own = adapts(sizing, operator_) && casts(types, types->stream);

    return own ? types->e * (adapted_matrices(sizing, operator_) - 1) : 0;
}

/* Products in 8 bits keep their inputs as these come, also one that an adapter has a cast of. */
static double
input_of_8_bits(const struct mw_sizing *sizing, const struct types *types,
                enum mw_operator operator_, double input)
{
    bool kept = adapts(sizing, operator_) && !casts(types, input);

    return sizing->settings.frozen_dtype == MW_DTYPE_MXFP8 &&
                   sizing->hardware->memory_use.int8_inputs_kept && !kept
               ? input
               : 0;
}

double
mw_sizing_adapted_kept(const struct mw_sizing *sizing)
{
    const struct types types = types_of(sizing);
    const struct mw_model *model = sizing->model;
    double h = (double)model->hidden, f = (double)model->ffn;
    double attended = (double)(model->heads * model->head_dim);
    /* Norms square their input in fp32.  SiLU's result is kept beside its input. */
    double bytes = 2 * (FP32 - types.e) * h + (types.e + 3 * (types.inner - types.e)) * f;

    bytes += h * (casts_of_norm(sizing, &types, MW_OPERATOR_QKV) +
                  casts_of_norm(sizing, &types, MW_OPERATOR_MLP_UP));
    if (adapts(sizing, MW_OPERATOR_PROJECTION) && casts(&types, types.e))
        bytes += types.e * attended; /* attention keeps its result too */
    bytes += h * (input_of_8_bits(sizing, &types, MW_OPERATOR_QKV, types.stream) +
                  input_of_8_bits(sizing, &types, MW_OPERATOR_MLP_UP, types.stream));
    bytes += f * input_of_8_bits(sizing, &types, MW_OPERATOR_MLP_DOWN, types.inner);
    return bytes * (double)sizing->tokens;
}

/* When the gate, what SiLU makes of it and what that is multiplied by have their gradients: with
 * the layer's result and its gradient.  What an adapter of the product behind them has kept is gone
 * by then, but not what a product in 8 bits holds as well. */
static double
in_backward(const struct mw_sizing *sizing, const struct types *types)
{
    double h = (double)sizing->model->hidden, f = (double)sizing->model->ffn;
    bool held = sizing->settings.frozen_dtype == MW_DTYPE_MXFP8 &&
                sizing->hardware->memory_use.int8_inputs_kept && !casts(types, types->inner);
    double gone = adapts(sizing, MW_OPERATOR_MLP_DOWN) && !held ? types->e : 0;

    return (3 * types->inner - gone) * f + 2 * types->stream * h;
}

/* When forward is in the adapter of the last product, whose input PEFT makes wider: that and what
 * it has made fp32 of it; what went into the MLP and passes it by, what comes of the
 * weights, of the adapter, and of that times its factor, and the gradient that waits. */
static double
in_last_adapter(const struct mw_sizing *sizing, const struct types *types)
{
    double h = (double)sizing->model->hidden, f = (double)sizing->model->ffn;

    return adapts(sizing, MW_OPERATOR_MLP_DOWN) && widens(types)
               ? (types->e + FP32) * f + 6 * types->e * h
               : 0;
}

double
mw_sizing_adapted_passing(const struct mw_sizing *sizing)
{
    const struct types types = types_of(sizing);

    return (double)sizing->tokens *
           MAX(in_backward(sizing, &types), in_last_adapter(sizing, &types));
}

double
mw_sizing_kept_times(const struct mw_sizing *sizing)
{
    double counted = (double)mw_sizing_layer_bytes(sizing);

    return mw_sizing_counts_adapters(sizing) && counted > 0
               ? round(100 * (1 + mw_sizing_adapted_kept(sizing) / counted)) / 100
               : mw_sizing_activations_kept(sizing->hardware);
}
